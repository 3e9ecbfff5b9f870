"""`method="zone"` of `MovingSkyline`: results kept by safe zones.

Between calls each subscription has a zone around some place, inside which its skyline is known. A query that
moves within its zone is followed without looking at the objects; one that leaves it gets a new zone. An
object that changes breaks the zones that list it, and those in which it comes into the skyline: these get
new zones too, and no others.

Zones are cut to a universe: the one that was given, or a box that holds all objects and queries there have
been, with a margin. It grows when something comes that is outside, and the zones that it bounds with it.

The shapes of zones of skylines: the universe that they are cut to, and zones as rings and polygons.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core.engine import Part
from rankcast.moving.kernels import convex, skyline_admit, skyline_follow, zone_follow
from rankcast.moving.kernels.convex import Region, clearance
from rankcast.moving.kernels.skyline_search import Seekers
from rankcast.moving.places import box_of, fixed
from rankcast.moving.skyline_store import SkylinePlaces, SkylineZones
from rankcast.structures import integrity
from rankcast.structures.distance import CODES, EUCLIDEAN
from rankcast.structures.ids import Slots
from rankcast.tables.deltas import Lists, empty_lists
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
        found = _runs(*convex.rings(shape, pieces))
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


MANY, A_ZONE = 350, 7  # objects, also a zone, beyond which looking for broken zones costs more than new ones


class SkylineWish(NamedTuple):
    """What the engine was asked for: the metric, which way attributes are good, members more, threads."""

    metric: str
    sign: Floats
    m: int
    threads: int
    universe: list[float] | None


@dataclass
class SkylineMethod(Shapes):
    """Zones of all subscriptions over all objects."""

    wish: SkylineWish
    subscriptions: Slots
    objects: Slots
    count: dict[str, int]
    zones: SkylineZones = field(default_factory=SkylineZones)

    def __post_init__(self) -> None:
        self.metric = CODES[self.wish.metric]
        self.places = SkylinePlaces(self.wish.sign.size)
        self.universe = Universe(self.wish.universe)
        self._grew = False  # whether the universe did with the objects that came last

    def parts(self) -> dict[str, Part]:
        """The parts of the state."""
        return {"place": self.places, "zone": self.zones, "universe": self.universe}

    def check_restored(self) -> None:
        """Refuse places and zones from a snapshot that are not those of objects and subscriptions."""
        objects, live = self.objects, self.subscriptions["sequence"] >= 0
        there = objects["sequence"] >= 0
        self.places.check_restored(there, objects["x"], objects["y"])
        items = there[: len(self.places.record)]
        self.zones.check_restored(live, items)

    # Results

    def lists(self, rows: Rows) -> Lists:
        """The results of subscriptions at their places."""
        if not rows.size:
            return empty_lists()
        found = skyline_follow.read_results(
            self.metric, self.places.record, self.objects.label, self.zones.kept, rows, *self._at(rows)
        )
        return Lists(*found)

    def _at(self, rows: Rows) -> tuple[Floats, Floats]:
        return self.subscriptions["x"][rows], self.subscriptions["y"][rows]

    # Queries

    def renew(self, rows: Rows) -> None:
        """Give subscriptions new zones around their places."""
        if not rows.size:
            return
        x, y = self._at(rows)
        (low, high), objects = box_of(x, y), self.places.bounds()[:, :2]
        if self.universe.take_in(np.minimum(low, objects[0]), np.maximum(high, objects[1])):
            rows = np.union1d(rows, np.flatnonzero(self.zones.cut)).astype(np.int32)
            x, y = self._at(rows)
        lower, upper = (ends[rows] for ends in self._filters())
        filtered = bool((lower > -np.inf).any() or (upper < np.inf).any())
        seekers = Seekers(x, y, lower, upper, filtered)
        wish = self.wish
        found, work = self.places.zones(self.metric, seekers, self.universe.box, wish.m, wish.threads)
        self.zones.put(rows, x, y, found)
        self.count["recomputed"] += rows.size
        self.count["nodes_accessed"] += int(work[0])
        self.count["candidates"] += int(work[1])

    def _filters(self) -> tuple[Floats, Floats]:
        """The filters of all subscriptions, turned like attributes."""
        held, turned = self.subscriptions, self.wish.sign < 0
        lower, upper = held["lower"], held["upper"]
        if not turned.any():
            return lower, upper
        return np.where(turned, -upper, lower), np.where(turned, -lower, upper)

    def leave(self, rows: Rows) -> None:
        """Forget the zones of subscriptions."""
        self.zones.drop(rows)

    def follow(self, rows: Rows, x: Floats, y: Floats) -> tuple[Rows, Lists]:
        """Bring queries to new places; returns those whose result may be another, with the results before."""
        held, kept = self.subscriptions, self.zones.kept
        if self.metric == EUCLIDEAN:
            left = skyline_follow.follow(kept, rows, fixed(x), fixed(y), held["x"], held["y"])
            rows, x, y = rows[left], x[left], y[left]
            outside = rows
        else:
            circles = kept.x, kept.y, kept.radius
            outside = rows[~zone_follow.inside(self.metric, circles, rows, (fixed(x), fixed(y)))]
        before = self.lists(rows)
        held["x"][rows], held["y"][rows] = x, y
        self.renew(outside)
        return rows, before

    # Objects

    def listing(self, objects: Rows) -> Rows:
        """The subscriptions whose zones have one of the objects as a member."""
        live = self._live()
        marked = np.zeros(self.zones.kept.count.size, np.bool_)
        if objects.size and live.size:
            among = self.places.record.shape[0]
            skyline_follow.mark_listing(self.metric, self.zones.kept, live, objects, among, marked)
        return np.flatnonzero(marked).astype(np.int32)

    def _live(self) -> Rows:
        """The live subscriptions, in no order of theirs."""
        held = self.subscriptions
        return np.flatnonzero(held["sequence"][: held.used] >= 0).astype(np.int32)

    def drop(self, objects: Rows) -> None:
        """Forget objects."""
        self.places.remove(objects)

    def put(self, objects: Rows) -> None:
        """Follow objects, new or not, that have been written."""
        held = self.objects
        attributes = self.wish.sign * held["attributes"][objects]
        self.places.put(objects, np.column_stack([held["x"][objects], held["y"][objects], attributes]))

    def broken(self, objects: Rows, beside: Rows) -> Rows:
        """The subscriptions, none of those `beside`, whose zones objects break that are no members."""
        live = self._live()
        marked = np.zeros(self.zones.kept.count.size, np.bool_)
        marked[beside] = True
        if objects.size > max(MANY, A_ZONE * live.size):
            marked[live] = True
        elif objects.size and live.size:
            places = (self.places.tree, self.places.record, self.universe.box)
            skyline_follow.mark_broken(
                self.metric, places, self.zones.kept, live, objects, self._filters(), marked
            )
        self._grew = False
        if objects.size and live.size:
            points = self.places.record[objects, :2]
            self._grew = self.universe.take_in(points.min(axis=0), points.max(axis=0))
            if self._grew:
                marked[: self.zones.cut.size] |= self.zones.cut
        marked[beside] = False
        return np.flatnonzero(marked).astype(np.int32)

    def admit(self, objects: Rows, listing: Rows, broken: Rows) -> None:
        """Give subscriptions that list objects, or whose zones objects break, new zones."""
        if objects.size == 1 and broken.size and self.metric == EUCLIDEAN and not self._grew:
            x, y = self._at(broken)
            found, done = skyline_admit.admit(
                self.zones.kept, self.places.record, broken, x, y, np.int64(objects[0])
            )
            self.zones.put(broken[done], x[done], y[done], found)
            self.count["recomputed"] += int(done.sum())
            broken = broken[~done]
        self.renew(np.concatenate([listing, broken]))

    # Zones

    def members(self, row: int) -> Rows:
        """The results of a zone at its centre, by distance, then what bounds it or may come in."""
        kept = self.zones.kept
        found: Rows = kept.member[kept.start[row] : kept.start[row] + kept.count[row]]
        return found
