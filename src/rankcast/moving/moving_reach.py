"""Which places and objects of moving queries are accepted: what they and the settings alone tell.

- x and y of objects and queries are within `reach` of 0 (on the globe: any place);
- an object has a finite score at distance 0 and at the farthest that two such places may be apart.

Scores never fall as distance grows: what is finite at both ends is finite between them, from every query
there may be. So whether an object is accepted does not depend on queries, nor the other way round, and
shards that have some of the queries each accept the same objects. A function of one's own may well be
infinite at the farthest and of use where the queries are: it is asked about those.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from rankcast.errors import InputError
from rankcast.moving import scoring
from rankcast.moving.places import unscored
from rankcast.moving.scoring import Score
from rankcast.structures.distance import HALF_CIRCUMFERENCE
from rankcast.structures.ids import show
from rankcast.tables.schema import Floats, Ids

_EXPONENTS = range(150, -1, -1)  # of reach; the square of a distance is still a number
_ROOM = 1e150  # what a score may be at the farthest, of attributes of 1: the rest is left to other attributes


@dataclass(frozen=True)
class Reach:
    """How far places may be from 0, and objects from queries.

    Attributes:
        score: what is checked at both ends of distance; None: nothing is.
        reach: the largest x or y, infinite on the globe.
        farthest: the largest distance.
        certain: whether what is accepted has finite scores from everywhere.
    """

    score: Score | None
    reach: float
    farthest: float
    certain: bool

    def check_places(self, x: Floats, y: Floats, where: str) -> None:
        """Refuse places that are too far from 0."""
        for name, values in (("x", x), ("y", y)):
            far = np.abs(values) > self.reach
            if far.any():
                row = int(np.argmax(far))
                expected = f"a number within {self.reach:g} of 0"
                raise InputError(f"is {values[row]:g}", where=where, column=name, row=row, expected=expected)

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
    own = form is not None and form["name"] == "function"
    score = None if own or form is None else scoring.restored(form)
    if settings["metric"] == "haversine":
        return Reach(score, np.inf, HALF_CIRCUMFERENCE, not own)
    for exponent in _EXPONENTS:
        reach = 10.0**exponent
        farthest = 4 * reach  # along both axes; the straight way is shorter
        with np.errstate(all="ignore"):
            ones = np.ones((1, len(settings["over"])))
            if score is None or score(ones, np.array([farthest]))[0] <= _ROOM:
                break
    return Reach(score, reach, farthest, not own)
