"""The space that places lie in, as settings describe it: its bounds, its metric, and how far counts.

A frame also says how places are embedded in the unit cube, where bounds of scores are computed; see
`rankcast.geotext.kernels.score`.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from rankcast.errors import InputError, SettingError, shown
from rankcast.geotext.kernels.score import Frame, Plain, are_inside
from rankcast.structures import distance
from rankcast.structures.distance import EARTH_RADIUS, EUCLIDEAN
from rankcast.tables import schema
from rankcast.tables.schema import Batch, Column, Floats

PLACE = (Column("x"), Column("y"))
METRICS = ("euclidean", "haversine")
GLOBE = (-180.0, -90.0, 180.0, 90.0)
METRES = {"m": 1.0, "km": 1000.0, "mi": 1609.344}  # units of a length
LENGTH = re.compile(r"\s*(\d+(?:\.\d*)?)\s*(m|km|mi)\s*", re.ASCII)
LEAST_UNIT = 1.0  # metres; places on the globe are rounded by nanometres
MAX_REACH = 1e30  # a gap counts at most so many times


def frame_of_settings(bounds: Sequence[float] | None, metric: str, scale: float | str | None) -> Frame:
    """The frame that settings describe; `metric` is one of `METRICS`."""
    code, length = distance.CODES[metric], _length_of(scale, metric)
    if bounds is None and metric == "haversine":
        return frame_of(code, GLOBE, length or distance.HALF_CIRCUMFERENCE)
    west, south, east, north = box = _four_numbers(bounds)
    diagonal = math.sqrt((east - west) * (east - west) + (north - south) * (north - south))
    if not (west <= east and south <= north and 0 < diagonal < math.inf):
        raise _bad_bounds(bounds)
    if metric == "haversine":
        if min(west + 180, south + 90, 180 - east, 90 - north) < 0:
            raise SettingError(
                f"bounds are {shown(bounds)}", expected="longitudes in [-180, 180] and latitudes in [-90, 90]"
            )
        # A box that is wider than half the globe has corners that are nearer to each other than its middle.
        diagonal = distance.distance(code, 0.0, south, min(east - west, 180.0), north)
    if not diagonal > 0:
        raise _bad_bounds(bounds)
    return frame_of(code, box, length or diagonal)


def former_scale(frame: Frame) -> float:
    """The scale that engines without this setting had: on the globe that of the whole of it."""
    return frame.unit if frame.metric == distance.EUCLIDEAN else distance.HALF_CIRCUMFERENCE


def _length_of(scale: object, metric: str) -> float | None:
    """A distance above 0 as a number, in metres if it is a text; None: not set."""
    if scale is None:
        return None
    found = LENGTH.fullmatch(scale) if isinstance(scale, str) and metric == "haversine" else None
    length = float(found[1]) * METRES[found[2]] if found else scale
    try:
        number = float(length) if schema.is_number(length) else math.nan
    except OverflowError:  # a whole number beyond all floats
        number = math.inf
    if not 0 < number < math.inf:
        texts = ' or a text such as "5 km" or "800 m"' if metric == "haversine" else ""
        raise SettingError(f"scale is {shown(scale)}", expected=f"a number above 0{texts}")
    return number


def frame_of(metric: int, bounds: tuple[float, float, float, float], scale: float) -> Frame:
    """The frame of a space; a gap in the cube times its reach is a distance in units of the scale."""
    west, south, east, north = bounds
    lows: tuple[float, ...] = (west, south, 0.0)
    unit = math.sqrt((east - west) * (east - west) + (north - south) * (north - south))
    if metric != EUCLIDEAN:
        flat = _extremes(math.cos, south, north, 0.0)
        rounds = _extremes(math.cos, west, east, 0.0), _extremes(math.sin, west, east, 90.0)
        box = [sorted(a * b for a in flat for b in turned) for turned in rounds]
        box.append([math.sin(math.radians(south)), math.sin(math.radians(north))])
        lows = tuple(EARTH_RADIUS * ends[0] for ends in box)
        unit = max(LEAST_UNIT, EARTH_RADIUS * max(ends[-1] - ends[0] for ends in box))
    reach = min(unit / scale, MAX_REACH)
    return Frame(metric, *bounds, scale, np.float32(reach * 0.999999), (lows[0], lows[1], lows[2]), unit)


def former_unit(frame: Frame) -> float:
    """The unit of a frame in snapshots that do not say: on the globe that of the whole of it."""
    return frame.unit if frame.metric == EUCLIDEAN else 2.0 * EARTH_RADIUS


def _extremes(turn: Callable[[float], float], low: float, high: float, top: float) -> tuple[float, float]:
    """The least and the largest of a sine or cosine between two angles in degrees; it is 1 at `top`."""
    ends = [turn(math.radians(low)), turn(math.radians(high))]
    within = [
        sign for sign, at in ((1.0, top), (-1.0, top - 180.0), (-1.0, top + 180.0)) if low <= at <= high
    ]
    return min(*ends, *within), max(*ends, *within)


def _four_numbers(bounds: Sequence[float] | None) -> tuple[float, float, float, float]:
    try:
        west, south, east, north = (float(value) for value in (() if bounds is None else bounds))
    except (TypeError, ValueError, OverflowError) as error:
        raise _bad_bounds(bounds) from error
    return west, south, east, north


def _bad_bounds(bounds: object) -> SettingError:
    return SettingError(
        f"bounds are {shown(bounds)}",
        expected="(xmin, ymin, xmax, ymax) with xmin <= xmax and ymin <= ymax, not all one point",
    )


def read_places(batch: Batch, plain_frame: Plain, where: str) -> dict[str, Floats]:
    """The coordinates that a batch has, checked against the bounds of a frame."""
    _, west, south, east, north, *_ = plain_frame
    given = {name: batch[name] for name in ("x", "y") if name in batch}
    if len(given) < 2 or not are_inside(plain_frame, given["x"], given["y"]):
        ends = {"x": (west, east), "y": (south, north)}
        for name, values in given.items():
            refuse_outside(values, *ends[name], name, where)
    return given


def moves(frame: Frame, given: Mapping[str, Floats], x: Floats, y: Floats) -> Floats:
    """How far places move that get the coordinates given, as a share of the extent of the bounds."""
    far = np.abs(given.get("x", x) - x) + np.abs(given.get("y", y) - y)
    share: Floats = far / (frame.east - frame.west + frame.north - frame.south)
    return share


def refuse_outside(values: Floats, low: float, high: float, column: str, where: str) -> None:
    """Refuse numbers outside [low, high]; NaN stands for a null that is allowed."""
    bad = (values < low) | (values > high)
    if bad.any():
        row = int(np.argmax(bad))
        expected = f"a number in [{low:g}, {high:g}]"
        raise InputError(f"is {values[row]:g}", where=where, column=column, row=row, expected=expected)
