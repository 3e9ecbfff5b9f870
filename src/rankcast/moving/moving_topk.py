"""`MovingTopK`: the k best objects by distance and attributes, for queries that move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np

from rankcast.errors import InputError, SettingError, shown
from rankcast.moving import scoring
from rankcast.moving.moving import names_of
from rankcast.moving.moving_answers import TopKAnswers
from rankcast.moving.moving_own import OwnMethod
from rankcast.moving.moving_wish import WAYS, Wish
from rankcast.moving.moving_zones import ZoneMethod
from rankcast.tables import schema
from rankcast.tables.schema import Floats


class MovingTopK(TopKAnswers):
    """The k objects of smallest score, where the score grows with the distance from a moving query.

    Args:
        over: the attributes that count beside distance; none for the k nearest.
        k: how many objects a subscription wants, unless it says so itself.
        m: how many objects more than k a zone may have as members, plus one.
        score: a score of `rankcast.moving.scoring`, or a function of attributes and distance; by default their sum
            with equal weights. Ties go to the smaller id.
        metric: "euclidean", "manhattan", or "haversine" (x longitude, y latitude, distance in metres).
        ordered: whether the order inside a zone is kept at every position, or only the set, which costs
            less; results are in order either way.
        method: "zone" keeps a safe zone for each subscription, "scan" looks at every object.
        extra: "forbid" or "ignore" columns that are not known.
        tuning: "threads" for zones computed in one call (default: as many as there are cores); "circle":
            how the size of a zone is found, "closed" (a closed form where there is one), "trim" (the paper's
            rectangles, of which "epsilon" and "n" limit size and number) or "lemma" (bounds alone). A
            function of one's own has rectangles instead of a closed form.

    A subscription may have a filter: of an attribute "price", only objects with a price from `price_lo` to
    `price_hi` compete. Results are exact at the last position of each query. `publish` and `amend` tell who
    enters and who leaves; `upsert` and `remove` also tell a new score. In `stats()`, `recomputed` zones,
    `nodes_accessed` and `candidates` are the cost of a server, `rescored` members that of its clients.

    >>> engine = MovingTopK(over=["price"], k=1, score=scoring.weighted_sum([1, 2]))
    >>> cafes = {"id": ["Aroma", "Bean"], "x": [0, 10], "y": [0, 0], "price": [5, 3]}
    >>> engine.upsert(cafes).num_rows
    0
    >>> engine.subscribe({"id": [7], "x": [1], "y": [0]}).to_pylist()
    [{'subscription': 7, 'op': 'enter', 'item': 'Aroma', 'score': 7.0, 'rank': 1}]
    >>> engine.publish({"id": [7], "x": [6], "y": [0]}).select(["op", "item"]).to_pylist()
    [{'op': 'leave', 'item': 'Aroma'}, {'op': 'enter', 'item': 'Bean'}]
    """

    methods = ("zone", "scan")
    variants = tuple({"method": method} for method in methods)
    known_tuning: ClassVar[dict[str, Any]] = {"threads": None, "circle": "closed", "epsilon": 1e-4, "n": 100}

    def __init__(
        self,
        *,
        over: str | Sequence[str],
        k: int = 10,
        m: int = 1,
        score: scoring.Score | Any = None,
        metric: str = "euclidean",
        ordered: bool = True,
        method: str = "zone",
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        self._k = schema.whole("k", k)
        self._m = schema.whole("m", m)
        if not isinstance(ordered, bool):
            raise SettingError(f"ordered is {shown(ordered)}", expected="True or False")
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
        given = self._tuning
        wish = Wish(
            self._score,
            self._metric,
            self._k,
            self._m,
            ordered,
            schema.threads(given["threads"]),
            schema.one_of("circle", given["circle"], WAYS),
            schema.number("epsilon", given["epsilon"], low=0, high=1, above=True),
            schema.whole("n", given["n"]),
        )
        self._zoned: ZoneMethod | None = None
        if self._method == "zone":
            self._count["rescored"] = 0
            kind = OwnMethod if isinstance(self._score, scoring.Function) else ZoneMethod
            self._zoned = kind(wish, self._slots, self._objects, self._over, self._count)
        self._undo.needed = isinstance(self._score, scoring.Function)

    @classmethod
    def _configured(cls, configuration: dict[str, Any], *, score: Any = None, **given: Any) -> Self:
        found = scoring.restored(configuration["score"], score)
        return super()._configured({**configuration, "score": found}, **given)

    # Whether there are scores

    def _all_scored(self, x: Floats, y: Floats) -> bool:
        return isinstance(self._zoned, OwnMethod) and self._zoned.finite_from(x, y)

    def _scored_from_all(self, x: Floats, y: Floats, attributes: Floats) -> bool:
        return isinstance(self._zoned, OwnMethod) and self._zoned.finite_to(x, y, attributes)

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
