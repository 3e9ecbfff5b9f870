"""The shapes of zones of skylines: the universe that they are cut to, and zones as rings and polygons."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.moving.kernels import region_outline
from rankcast.moving.kernels.convex import Region
from rankcast.moving.kernels.region_parts import clearance
from rankcast.moving.skyline_store import SkylineZones
from rankcast.structures import integrity
from rankcast.tables.schema import Floats, Ints, Rows

MARGIN = 0.1  # of the larger side of what the universe holds
POLYGON = 3


class Universe:
    """The box that zones are cut to, (xmin, ymin, xmax, ymax); grows unless it was given."""

    def __init__(self, given: list[float] | None) -> None:
        self._given = given is not None
        self.box = np.array(given if given is not None else [np.inf, np.inf, -np.inf, -np.inf], np.float64)

    def take_in(self, low: Floats, high: Floats) -> bool:
        """Grow till a box lies inside; returns whether that changed anything."""
        if self._given or not (low <= high).all():
            return False
        if (self.box[:2] <= low).all() and (high <= self.box[2:]).all():
            return False
        low, high = np.minimum(low, self.box[:2]), np.maximum(high, self.box[2:])
        margin = MARGIN * float((high - low).max()) or 1.0
        self.box = np.concatenate([low - margin, high + margin])
        return True

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state (none) and the arrays."""
        return {}, {"box": self.box}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        integrity.forms(arrays, {"box": (np.float64, (4,))})
        box = arrays["box"]
        if self._given:
            integrity.need(np.array_equal(box, self.box), "box", "is not the universe of the settings")
        elif not np.array_equal(box, self.box):
            integrity.need(np.isfinite(box).all() and (box[:2] <= box[2:]).all(), "box", "is no box")
        self.box = box
        return self


class Shapes:
    """Zones by subscription as pieces, rings and polygons."""

    zones: SkylineZones

    def region(self, row: int) -> tuple[Region, int]:
        """The zone of a subscription as pieces relative to its centre, and how many."""
        kept = self.zones.kept
        there = slice(int(kept.corner[row]), int(kept.corner[row] + kept.corners[row]))
        line = kept.line[there]
        ends = np.flatnonzero(line < 0) + 1
        shape = Region(
            kept.corner_x[there].copy(), kept.corner_y[there].copy(), np.where(line < 0, ~line, line), ends
        )
        return shape, ends.size

    def rings(self, row: int) -> list[Floats]:
        """The rings (n, 2) of a zone, the outer one first; of one that is but a point, that point thrice."""
        kept = self.zones.kept
        centre = np.array([kept.x[row], kept.y[row]])
        shape, pieces = self.region(row)
        if not pieces:
            return [np.tile(centre, (3, 1))]
        found = _runs(*region_outline.rings(shape, pieces))
        if not found:  # rounding kept a ring from closing: the piece that the centre is in, at least
            whole = _runs(shape.x, shape.y, shape.end)
            found = [max(whole, key=lambda ring: clearance(_piece(ring), 0, len(ring)))]
        found.sort(key=lambda ring: -abs(_area(ring)))
        return [ring + centre for ring in found]

    def geometry(self, row: int) -> bytes:
        """The zone of a subscription as a WKB polygon."""
        rings = self.rings(row)
        packed = [struct.pack("<BII", 1, POLYGON, len(rings))]
        for ring in rings:
            closed = np.concatenate([ring, ring[:1]])
            packed += [struct.pack("<I", len(closed)), closed.astype("<f8").tobytes()]
        return b"".join(packed)

    def geometries(self, rows: Rows) -> pa.Array:
        """The zones of subscriptions as WKB polygons."""
        return pa.array([self.geometry(int(row)) for row in rows], pa.binary())


def _runs(x: Floats, y: Floats, ends: Ints) -> list[Floats]:
    """Places (n, 2) that lie one after the other, by where they end."""
    starts = np.concatenate([[0], ends[:-1]])
    return [np.column_stack([x[a:b], y[a:b]]) for a, b in zip(starts, ends, strict=True)]


def _piece(ring: Floats) -> Region:
    """A region of one piece."""
    size = len(ring)
    return Region(ring[:, 0].copy(), ring[:, 1].copy(), np.zeros(size, np.int64), np.array([size]))


def _area(ring: Floats) -> float:
    """The area of a ring (n, 2), negative if it is clockwise."""
    x, y = ring.T
    return float(0.5 * (np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))))
