"""Which places and objects of moving queries are accepted, so that all shards agree on it.

A moving engine refuses an object that has no finite score from the place of one of its queries. Objects go to
every shard, queries to one each, so a shard cannot know what the queries of others would refuse. Therefore
rows are held to what they and the settings alone tell, before an engine sees them:

- x and y of objects and queries are within `reach` of 0 (on the globe the engine's own check says as much);
- an object has a finite score at distance 0 and at the farthest that two such places may be apart.

Scores never fall as distance grows: what is finite at both ends is finite between them, from every query
there may be, and no shard has a reason to refuse an object that the others accept. A function of one's own
may well be infinite at the farthest and of use where the queries are; of it, what is no finite number counts
as `LARGEST`, so that no object is ever without a score.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import scoring
from rankcast.columns import Floats
from rankcast.engines.moving import MovingEngine
from rankcast.engines.moving_places import unscored
from rankcast.errors import InputError
from rankcast.kernels.distance import HALF_CIRCUMFERENCE
from rankcast.scoring import Score

LARGEST = 1e300
_EXPONENTS = range(150, -1, -1)  # of reach; the square of a distance is still a number
_ROOM = 1e150  # what a score may be at the farthest, of attributes of 1: the rest is left to other attributes


@dataclass(frozen=True)
class Bounded:
    """A function of one's own with `LARGEST` where it gives no finite number."""

    f: Any

    def __call__(self, attributes: Floats, distance: Floats) -> Any:
        """The scores of objects."""
        found = np.asarray(self.f(attributes, distance))
        if found.dtype.kind != "f":
            return found
        return np.clip(np.nan_to_num(found, nan=LARGEST), -LARGEST, LARGEST)


@dataclass(frozen=True)
class Reach:
    """How far places may be from 0, and objects from queries.

    Attributes:
        over: the attributes of objects.
        score: what is checked at both ends of distance; None: nothing is.
        reach: the largest x or y, infinite on the globe.
        farthest: the largest distance.
    """

    over: tuple[str, ...]
    score: Score | None
    reach: float
    farthest: float

    def amiss(self, call: str, rows: pa.Table, where: str) -> InputError | None:
        """What is wrong with the first row of a call that no shard accepts; None if nothing is."""
        if call not in ("upsert", "subscribe", "amend", "publish"):
            return None
        for name in ("x", "y"):
            values = _numbers(rows, name)
            far = np.abs(values) > self.reach
            if far.any():
                row = int(np.argmax(far))
                expected = f"a number within {self.reach:g} of 0"
                return InputError(f"is {values[row]:g}", where=where, column=name, row=row, expected=expected)
        return None if call != "upsert" or self.score is None else self._unscored(self.score, rows, where)

    def _unscored(self, score: Score, rows: pa.Table, where: str) -> InputError | None:
        """What is wrong with the first object that has no finite score; what is null the engine refuses."""
        attributes = np.empty((rows.num_rows, len(self.over)))
        for place, name in enumerate(self.over):
            attributes[:, place] = _numbers(rows, name)
        with np.errstate(all="ignore"):
            known = np.isfinite(attributes).all(1) & ~score.undefined(attributes)[0].any(1)
            ends = [score(attributes, np.full(len(attributes), end)) for end in (0.0, self.farthest)]
        odd = known & ~np.isfinite(ends).all(0)
        if not odd.any():
            return None
        row = int(np.argmax(odd))
        return unscored(f"object {rows['id'][row].as_py()!r}", where, row)


def reach_of(engine: MovingEngine) -> Reach:
    """The reach of an engine, from its settings alone."""
    settings = engine.state()[0]["settings"]
    form = settings.get("score")
    own = form is None or form["name"] == "function"
    score = None if own else scoring.restored(form)
    over = tuple(settings["over"])
    if settings["metric"] == "haversine":
        return Reach(over, score, np.inf, HALF_CIRCUMFERENCE)
    for exponent in _EXPONENTS:
        reach = 10.0**exponent
        farthest = 4 * reach  # along both axes; the straight way is shorter
        with np.errstate(all="ignore"):
            if score is None or score(np.ones((1, len(over))), np.array([farthest]))[0] <= _ROOM:
                break
    return Reach(over, score, reach, farthest)


def _numbers(rows: pa.Table, name: str) -> Floats:
    """A column as numbers, NaN for what is null or not there."""
    if name not in rows.column_names:
        return np.full(rows.num_rows, np.nan)
    found: Floats = rows[name].cast(pa.float64(), safe=False).to_numpy()
    return found
