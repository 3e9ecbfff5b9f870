"""Places of `GeoTextTopK`: the bounds they must lie in, and how distances are made comparable."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from rankcast.errors import InputError, SettingError, shown
from rankcast.structures import distance
from rankcast.tables.schema import Batch, Column, Floats

COLUMNS = (Column("x"), Column("y"))
METRICS = ("euclidean", "haversine")
GLOBE = (-180.0, -90.0, 180.0, 90.0)


class Space(NamedTuple):
    """Bounds (xmin, ymin, xmax, ymax), the code of a metric, and the distance that counts as 1."""

    bounds: tuple[float, float, float, float]
    metric: int
    scale: float

    def read(self, batch: Batch, where: str) -> dict[str, Floats]:
        """The coordinates that a batch gives, inside the bounds."""
        given = {name: batch[name] for name in ("x", "y") if name in batch}
        west, south, east, north = self.bounds
        ends = {"x": (west, east), "y": (south, north)}
        for name, values in given.items():
            refuse_outside(values, *ends[name], name, where)
        return given

    def moves(self, fields: Mapping[str, Floats], x: Floats, y: Floats) -> Floats:
        """How far those go from x and y who get the fields given, as a share of the bounds."""
        west, south, east, north = self.bounds
        far = np.abs(fields.get("x", x) - x) + np.abs(fields.get("y", y) - y)
        return far / (east - west + north - south)


def space_of(bounds: Sequence[float] | None, metric: str) -> Space:
    """The space that settings describe; `metric` is one of `METRICS`.

    Distances are divided by the diagonal of the bounds, or by half the Earth's circumference.
    """
    code = distance.CODES[metric]
    if bounds is None and metric == "haversine":
        return Space(GLOBE, code, distance.HALF_CIRCUMFERENCE)
    west, south, east, north = read = _four_numbers(bounds)
    diagonal = math.sqrt((east - west) * (east - west) + (north - south) * (north - south))
    if not (west <= east and south <= north and 0 < diagonal < math.inf):
        raise _bad_bounds(bounds)
    if metric == "euclidean":
        return Space(read, code, diagonal)
    if min(west + 180, south + 90, 180 - east, 90 - north) < 0:
        raise SettingError(
            f"bounds are {shown(bounds)}", expected="longitudes in [-180, 180] and latitudes in [-90, 90]"
        )
    return Space(read, code, distance.HALF_CIRCUMFERENCE)


def refuse_outside(values: Floats, low: float, high: float, column: str, where: str) -> None:
    """Refuse numbers outside [low, high]; NaN stands for a null that is allowed."""
    bad = (values < low) | (values > high)
    if bad.any():
        row = int(np.argmax(bad))
        expected = f"a number in [{low:g}, {high:g}]"
        raise InputError(f"is {values[row]:g}", where=where, column=column, row=row, expected=expected)


def _four_numbers(bounds: Sequence[float] | None) -> tuple[float, float, float, float]:
    try:
        west, south, east, north = (float(value) for value in bounds or ())
    except (TypeError, ValueError, OverflowError) as error:
        raise _bad_bounds(bounds) from error
    return west, south, east, north


def _bad_bounds(bounds: object) -> SettingError:
    return SettingError(
        f"bounds are {shown(bounds)}",
        expected="(xmin, ymin, xmax, ymax) with xmin <= xmax and ymin <= ymax, not all one point",
    )
