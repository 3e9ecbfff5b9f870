"""`MovingTopK`: the k best objects by distance and attributes, for queries that move."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import NDArray

from rankcast import boxes, deltas, scoring, settings, tables
from rankcast.boxes import Boxes
from rankcast.columns import Bools, Column, Floats, Ids, Rows
from rankcast.deltas import Changes, Lists
from rankcast.engines.base import Part
from rankcast.engines.brute_force.moving import Objects
from rankcast.engines.moving import names_of
from rankcast.engines.moving_answers import TopKAnswers
from rankcast.engines.moving_own import OwnMethod
from rankcast.engines.moving_wish import WAYS, Wish
from rankcast.engines.moving_zones import ZoneMethod
from rankcast.errors import InputError, SettingError
from rankcast.indexes.slots import select


class MovingTopK(TopKAnswers):
    """The k objects of smallest score, where the score grows with the distance from a moving query.

    Args:
        over: the attributes that count beside distance; none for the k nearest.
        k: how many objects a subscription wants, unless it says so itself.
        m: how many objects more than k a zone may have as members, plus one.
        score: a score of `rankcast.scoring`, or a function of attributes and distance; by default their sum
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
        given = self._tuning
        wish = Wish(
            self._score,
            self._metric,
            self._k,
            self._m,
            ordered,
            settings.threads(given["threads"]),
            settings.one_of("circle", given["circle"], WAYS),
            settings.number("epsilon", given["epsilon"], low=0, high=1, above=True),
            settings.whole("n", given["n"]),
        )
        self._zoned: ZoneMethod | None = None
        if self._method == "zone":
            self._count["rescored"] = 0
            kind = OwnMethod if isinstance(self._score, scoring.Function) else ZoneMethod
            self._zoned = kind(wish, self._slots, self._objects, self._over, self._count)

    @classmethod
    def _configured(cls, configuration: dict[str, Any], *, score: Any = None, **given: Any) -> Self:
        found = scoring.restored(configuration["score"], score)
        return super()._configured({**configuration, "score": found}, **given)

    def _parts(self) -> dict[str, Part]:
        return {**super()._parts(), **(self._zoned.parts() if self._zoned else {})}

    # Subscriptions

    def _columns(self) -> list[Column]:
        return [*super()._columns(), *boxes.columns(self._over)]

    def _fields(self, batch: tables.Batch, rows: Rows | None) -> dict[str, NDArray[Any]]:
        held = None if rows is None else Boxes(self._slots["lower"][rows], self._slots["upper"][rows])
        filters = boxes.read(batch, self._over, held, where="subscriptions")
        return {**super()._fields(batch, rows), "lower": filters.lo, "upper": filters.hi}

    def _entered(self, rows: Rows) -> None:
        self._find_zones(rows)

    def _amended(self, rows: Rows) -> None:
        self._find_zones(rows)

    def _find_zones(self, rows: Rows) -> None:
        if self._zoned:
            self._zoned.renew(rows)
        else:
            self._count_recomputed(rows.size)

    def _leaving(self, rows: Rows) -> None:
        if self._zoned:
            self._zoned.leave(rows)

    def _lists(self, rows: Rows) -> Lists:
        return self._zoned.lists(rows) if self._zoned else super()._lists(rows)

    def _move(self, rows: Rows, x: Floats, y: Floats) -> Changes:
        if not self._zoned:
            return super()._move(rows, x, y)
        other, before = self._zoned.follow(rows, x, y)
        if not other.size:
            return deltas.no_changes()
        return deltas.difference(before, self._zoned.lists(other), self._slots["sequence"], updates=False)

    # Objects

    def _store(self, ids: Ids, given: Objects) -> Changes:
        zoned = self._zoned
        if not zoned:
            return super()._store(ids, given)
        other = np.flatnonzero(self._differs(given))
        given = Objects._make(column[other] for column in given)
        listing = zoned.listing(given.row[given.row >= 0])
        before = [zoned.lists(listing)]
        row = self._write_objects(select(ids, other), given)
        zoned.put(row)
        broken = zoned.broken(row, listing)
        before.append(zoned.lists(broken))
        return self._renewed(zoned, np.concatenate([listing, broken]), before)

    def _forget(self, gone: Rows) -> Changes:
        zoned = self._zoned
        if not zoned:
            return super()._forget(gone)
        listing = zoned.listing(gone)
        before = zoned.lists(listing)
        zoned.places.remove(gone)
        self._objects.release(gone)
        return self._renewed(zoned, listing, [before])

    def _differs(self, given: Objects) -> Bools:
        """Which objects are new or other than they were."""
        held, row = self._objects, given.row
        same = (held["x"][row] == given.x) & (held["y"][row] == given.y)
        same &= (held["attributes"][row] == given.attributes).all(axis=1)
        differs: Bools = ~same | (row < 0)
        return differs

    def _renewed(self, zoned: ZoneMethod, rows: Rows, before: list[Lists]) -> Changes:
        """Give subscriptions whose zones objects broke new ones; the changes of their results."""
        if not rows.size:
            return deltas.no_changes()
        zoned.renew(rows)
        joined = Lists._make(np.concatenate(columns) for columns in zip(*before, strict=True))
        return deltas.difference(joined, zoned.lists(rows), self._slots["sequence"])

    # Whether there are scores

    def _all_scored(self, x: Floats, y: Floats) -> bool:
        return self._zoned is not None and self._zoned.finite_from(x, y)

    def _scored_from_all(self, x: Floats, y: Floats, attributes: Floats) -> bool:
        return self._zoned is not None and self._zoned.finite_to(x, y, attributes)

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
