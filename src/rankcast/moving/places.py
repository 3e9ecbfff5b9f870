"""Places of objects and moving queries: their columns, and which places and objects are accepted.

- x and y of objects and queries are within `Reach.reach` of 0 (on the globe: any place);
- an object has a finite score at distance 0 and at the farthest that two such places may be apart.

Scores never fall as distance grows: what is finite at both ends is finite between them, from every query
there may be. So whether an object is accepted does not depend on the queries, nor the other way round, and
shards that have some of the queries each accept the same objects. A custom function may be infinite at the
farthest distance and still be of use where the queries are: it is evaluated at those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankcast.errors import InputError
from rankcast.moving import scoring
from rankcast.moving.kernels.scores import far_distance
from rankcast.moving.kernels.zone_follow import first_beyond
from rankcast.moving.scoring import Score
from rankcast.structures.distance import HALF_CIRCUMFERENCE, HAVERSINE
from rankcast.structures.ids import Slots, show
from rankcast.tables.schema import Batch, Floats, Ids

Kind = TypeVar("Kind", bound=np.generic)
AXES = ("x", "y", "z")
METRICS = ("euclidean", "manhattan", "haversine", "network")
_EXPONENTS = range(150, -1, -1)  # of 10, for the reach; the square of such a distance is finite
_LARGEST_SCORE = 1e150  # of an object with attributes of 1 at the farthest: larger attributes have the rest


def fixed(array: NDArray[Kind]) -> NDArray[Kind]:
    """The same array, read-only as one from Arrow is, so that kernels are compiled for one kind of it."""
    found = array.view()
    found.flags.writeable = False
    return found


def places_of(batch: Batch, axes: tuple[str, ...]) -> Floats:
    """The places (2 or 3, n) of a batch that has no other numbers, in an array that may be written."""
    numbers = batch.numbers
    alone = numbers is not None and len(numbers) == len(axes)
    if alone and numbers is not None and numbers.flags.c_contiguous and numbers.flags.writeable:
        return numbers
    return np.array([batch[name] for name in axes])


def check_globe(x: Floats, y: Floats, where: str) -> None:
    """Refuse longitudes x and latitudes y that are not on the globe."""
    for name, values, word, most in (("x", x, "longitude", 180), ("y", y, "latitude", 90)):
        outside = np.abs(values) > most
        if outside.any():
            row = int(np.argmax(outside))
            expected = f"a {word} in [{-most}, {most}]"
            raise InputError(f"is {values[row]:g}", where=where, column=name, row=row, expected=expected)


def unscored(what: str, where: str, row: int) -> InputError:
    """The error for a place from which something has no finite score."""
    return InputError(
        f"leaves {what} without a finite score",
        where=where,
        column="x",
        row=int(row),
        expected="a place near enough, and a score that is finite there",
    )


def box_of(x: Floats, y: Floats) -> Floats:
    """The box (2, 2) of places."""
    return np.array([[x.min(), y.min()], [x.max(), y.max()]])


def farthest(metric: int, objects: Floats, queries: Floats) -> float:
    """How far an object in a box (2, 2 or more) may be from a place in another."""
    if metric == HAVERSINE:
        return HALF_CIRCUMFERENCE
    with np.errstate(all="ignore"):
        sides = np.maximum(np.abs(objects[1, :2] - queries[0]), np.abs(queries[1] - objects[0, :2]))
        return float(far_distance(metric, 0.0, 0.0, 0.0, sides[0], 0.0, sides[1]))


@dataclass(frozen=True)
class Reach:
    """How far places may be from 0, and objects from queries.

    Attributes:
        score: the score that is checked at both ends of distance; None if none is.
        reach: the largest x or y, infinite on the globe.
        farthest: the largest distance.
        certain: whether accepted objects have finite scores from every accepted place.
    """

    score: Score | None
    reach: float
    farthest: float
    certain: bool

    def check_places(self, places: Floats, where: str) -> None:
        """Refuse places (2 or 3, n) that are too far from 0."""
        far = first_beyond(places, self.reach)
        if far >= 0:
            line, row = divmod(far, places.shape[1])
            expected = f"a number within {self.reach:g} of 0"
            told = f"is {places[line, row]:g}"
            raise InputError(told, where=where, column=AXES[line], row=row, expected=expected)

    def check_scores(self, ids: Ids, attributes: Floats) -> None:
        """Refuse objects that have no finite score at both ends of distance."""
        if self.score is None or not len(attributes):
            return
        with np.errstate(all="ignore"):
            ends = [self.score(attributes, np.full(len(attributes), end)) for end in (0.0, self.farthest)]
        odd = np.flatnonzero(~np.isfinite(ends).all(0))
        if odd.size:
            raise unscored(f"object {show(ids, odd[0])}", "objects", odd[0])


def reach_of(settings: Mapping[str, Any]) -> Reach:
    """The reach of a moving engine, from its settings as they are saved."""
    form = settings.get("score")
    custom = form is not None and form["name"] == "function"
    score = None if custom or form is None else scoring.restored(form)
    if settings["metric"] == "haversine":
        return Reach(score, np.inf, HALF_CIRCUMFERENCE, not custom)
    for exponent in _EXPONENTS:
        reach = 10.0**exponent
        farthest = 4 * reach  # along both axes: the metric with the largest distances
        with np.errstate(all="ignore"):
            ones = np.ones((1, len(settings["over"])))
            if score is None or score(ones, np.array([farthest]))[0] <= _LARGEST_SCORE:
                break
    return Reach(score, reach, farthest, not custom)


class QuerySlots(Slots):
    """Subscriptions with a place, a filter on attributes, and a k where there is one."""

    def __init__(self, attributes: int, axes: tuple[str, ...], *, takes_k: bool) -> None:
        place, filter_ = dict.fromkeys(axes, np.float64), (np.float64, attributes)
        size = {"k": np.int64} if takes_k else {}
        super().__init__({**place, **size, "lower": filter_, "upper": filter_})
        self._attributes = attributes

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned; a snapshot of an older version has no filters."""
        shape = (arrays["x"].size, self._attributes)
        open_ends = {"lower": np.full(shape, -np.inf), "upper": np.full(shape, np.inf)}
        return super().restore(header, {**open_ends, **arrays})
