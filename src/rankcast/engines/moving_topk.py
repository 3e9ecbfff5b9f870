"""`MovingTopK`: the k best objects by distance and attributes, for queries that move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Self

import numpy as np
import pyarrow as pa

from rankcast import scoring, settings
from rankcast.columns import Floats, Rows
from rankcast.engines.brute_force.moving import Objects, ranked
from rankcast.engines.moving import MovingEngine, names_of
from rankcast.errors import InputError, SettingError


class MovingTopK(MovingEngine):
    """The k objects of smallest score, where the score grows with the distance from a moving query.

    Args:
        over: the attributes that count beside distance; none for the k nearest.
        k: how many objects a subscription wants, unless it says so itself.
        m: how many objects more than k a zone may have as members, plus one.
        score: a score of `rankcast.scoring`, or a function of attributes and distance; by default their sum
            with equal weights. Ties go to the smaller id.
        metric: "euclidean", "manhattan", or "haversine" (x longitude, y latitude, distance in metres).
        ordered: whether the order inside a zone is wanted, or only the set.
        method: how results are found.
        extra: "forbid" or "ignore" columns that are not known.
        tuning: none yet.

    Results are exact at the last position of each query. `publish` and `amend` tell who enters and who
    leaves; `upsert` and `remove` also tell a new score.

    >>> engine = MovingTopK(over=["price"], k=1, score=scoring.weighted_sum([1, 2]))
    >>> cafes = {"id": ["Aroma", "Bean"], "x": [0, 10], "y": [0, 0], "price": [5, 3]}
    >>> engine.upsert(cafes).num_rows
    0
    >>> engine.subscribe({"id": [7], "x": [1], "y": [0]}).to_pylist()
    [{'subscription': 7, 'op': 'enter', 'item': 'Aroma', 'score': 7.0, 'rank': 1}]
    >>> engine.publish({"id": [7], "x": [6], "y": [0]}).select(["op", "item"]).to_pylist()
    [{'op': 'leave', 'item': 'Aroma'}, {'op': 'enter', 'item': 'Bean'}]
    """

    def __init__(
        self,
        *,
        over: str | Sequence[str],
        k: int = 10,
        m: int = 1,
        score: scoring.Score | Any = None,
        metric: str = "euclidean",
        ordered: bool = True,
        method: str = "scan",
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        self._k = settings.whole("k", k)
        self._m = settings.whole("m", m)
        if not isinstance(ordered, bool):
            raise SettingError(f"ordered is {ordered!r}", expected="True or False")
        names = names_of(over)
        self._score = scoring.as_score(score).fitted(names)
        super().__init__(
            {"k": self._k, "m": self._m, "score": self._score.as_json(), "ordered": ordered},
            over=names,
            metric=metric,
            method=method,
            extra=extra,
            tuning=tuning,
        )

    @classmethod
    def _configured(cls, configuration: dict[str, Any], *, score: Any = None, **given: Any) -> Self:
        found = scoring.restored(configuration["score"], score)
        return super()._configured({**configuration, "score": found}, **given)

    def _scores(self, x: float, y: float, objects: Objects) -> Floats:
        with np.errstate(all="ignore"):
            return self._score(objects.attributes, self._distances(x, y, objects))

    def _result(self, row: int, objects: Objects) -> tuple[Rows, Floats]:
        return self._best(row, objects, int(self._k_of(np.array([row], np.int32))[0]))

    def _best(self, row: int, objects: Objects, size: int) -> tuple[Rows, Floats]:
        scores = self._scores(*self._place(row), objects)
        best = ranked(scores)[:size]
        return best, scores[best]

    def _check_attributes(self, attributes: Floats) -> None:
        bad, expected = self._score.undefined(attributes)
        if bad.any():
            row, place = np.argwhere(bad)[0]
            raise InputError(
                f"is {attributes[row, place]:g}, for which the score is not defined",
                where="objects",
                column=self._over[place],
                row=int(row),
                expected=expected,
            )

    def zones(self) -> pa.Table:
        """Per subscription a circle inside which its result is among the `members`, by order of registration.

        Columns `subscription, x, y, radius, members`; there are at most k + m - 1 members, best first.
        """
        live = self._slots.live()
        objects = self._all_objects()
        sizes = self._k_of(live) + self._m - 1
        found = [self._best(row, objects, int(size))[0] for row, size in zip(live, sizes, strict=True)]
        return self._circles(live, [objects.row[places] for places in found])

    def explain(self, subscription: Any, item: Any) -> dict[str, Any]:
        """Why an object is or is not in a result: score, rank, distance, the score to beat."""
        mine = self._find_one(self._slots, subscription, "subscription")
        row = self._find_one(self._objects, item, "item")
        k = int(self._k_of(np.array([mine], np.int32))[0])
        objects = self._all_objects()
        order, scores = self._best(mine, objects, objects.row.size)
        rank = int(np.flatnonzero(objects.row[order] == row)[0]) + 1
        distance = self._distances(*self._place(mine), objects)[order[rank - 1]]
        return {
            "subscription": subscription,
            "item": item,
            "score": float(scores[rank - 1]),
            "rank": rank,
            "in_result": rank <= k,
            "score_to_beat": float(scores[k - 1]) if scores.size >= k else None,
            "distance": float(distance),
            "reason": "in the result" if rank <= k else f"{rank - 1} objects are better, {k} are wanted",
        }
