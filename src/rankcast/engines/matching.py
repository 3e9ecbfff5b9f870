"""`RankedMatcher`: the k best subscriptions for an event."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast import boxes, settings, tables
from rankcast.columns import Bools, Column, Floats, Rows
from rankcast.engines.answering import AnsweringEngine
from rankcast.engines.base import ID
from rankcast.engines.brute_force import matching
from rankcast.errors import InputError

INDEXES = ("scan", "auto")
LATER = ("ir-tree", "sopt-r-tree", "segment-tree", "interval-tree", "r-tree", "box-tree")


class RankedMatcher(AnsweringEngine):
    """The k best of the subscriptions that match an event; nothing is kept of the event.

    A subscription is a box with a `score` (exact), or with a weight an interval (relaxed). Exact: all its
    intervals contain the event. Relaxed: its score for an event is the sum of the weights of those intervals
    that contain it, added in the order of `over`, or their maximum, and is above 0. A null attribute of an
    event is unknown: only an interval without any bound contains it. Ties go to the smaller id.

    Args:
        over: the attributes.
        k: how many subscriptions an event wants.
        mode: "exact" or "relaxed".
        index: how matches are found; "auto" chooses, and `stats()["index"]` says what.
        combine: "sum" or "max" of weights; only relaxed matching combines.
        extra: "forbid" or "ignore" columns that are not known.
        tuning: none yet.

    >>> matcher = RankedMatcher(over=["price", "stars"], k=2)
    >>> matcher.subscribe({"id": ["a", "b", "c"], "price_hi": [9, 5, 9], "score": [1.0, 3.0, 2.0]})
    >>> matcher.publish({"id": [7], "price": [8], "stars": [None]})["subscription"].to_pylist()
    ['c', 'a']
    """

    calls = ("subscribe", "amend", "unsubscribe", "rescore", "publish")
    variants = tuple({"index": index} for index in INDEXES)

    def __init__(
        self,
        *,
        over: str | Sequence[str],
        k: int = 20,
        mode: str = "exact",
        index: str = "auto",
        combine: str = "sum",
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        names = settings.attributes("over", over)
        self._k = settings.whole("k", k)
        self._mode = settings.one_of("mode", mode, ["exact", "relaxed"])
        self._combine = settings.one_of("combine", combine, ["sum", "max"])
        settings.one_of("index", index, INDEXES, later=LATER)
        super().__init__(
            {"k": k, "mode": mode, "index": index, "combine": combine},
            {"score": np.float64} if mode == "exact" else {"weight": (np.float64, len(names))},
            over=names,
            ordered=True,
            extra=extra,
            tuning=tuning,
        )

    # The calls

    def subscribe(self, rows: Any) -> None:
        """Register subscriptions."""
        batch = self._read(rows, [ID, *boxes.columns(self._over), *self._ranking()], "subscriptions")
        self._slots.require_new(batch.ids, where="subscriptions")
        fields = {**self._read_boxes(batch)._asdict(), **self._read_ranking(batch, None)}
        self._write(self._slots.add(batch.ids), fields)

    def amend(self, rows: Any) -> None:
        """Change live subscriptions in place: an absent column keeps its value, a null sets the default."""
        columns = [ID, *boxes.columns(self._over), *self._ranking(required=False)]
        batch = self._read(rows, columns, "subscriptions")
        amended = self._slots.require(batch.ids, where="subscriptions")
        box = self._read_boxes(batch, amended)
        self._write(amended, {**box._asdict(), **self._read_ranking(batch, amended)})

    def rescore(self, rows: Any) -> None:
        """Give live subscriptions a new `score` or new weights, in place; a weight that is absent stays."""
        batch = self._read(rows, [ID, *self._ranking()], "subscriptions")
        if not any(column.name in batch for column in self._ranking()):
            names = " or ".join(f'"{column.name}"' for column in self._ranking())
            raise InputError("has no weight at all", where="subscriptions", expected=f"a column {names}")
        rescored = self._slots.require(batch.ids, where="subscriptions")
        self._write(rescored, self._read_ranking(batch, rescored))

    def unsubscribe(self, ids: Any) -> None:
        """Remove subscriptions."""
        gone = self._slots.require(tables.read_ids(ids, where="ids"), where="ids")
        self._slots.release(gone)
        self._slots.settle()

    def publish(self, events: Any) -> pa.Table:
        """The best subscriptions for each event: `event, rank, subscription, score`.

        At most k rows an event, in the order of events, best first.
        """
        ids, points = self._read_events(events, nullable=True)
        live = self._slots.live()
        counts, best, scores = [], [live[:0]], [np.empty(0)]
        for point in points:
            places, score = self._ranked(live, point)
            counts.append(min(places.size, self._k))
            best.append(live[places[: self._k]])
            scores.append(score[places[: self._k]])
        subscription = np.concatenate(best)
        self._count["candidates"] += len(counts) * live.size
        self._count["deltas"] += subscription.size
        ranks = [np.arange(1, count + 1) for count in counts]
        return pa.table(
            {
                "event": self._events_at(ids, np.repeat(np.arange(len(counts)), counts)),
                "rank": pa.array(np.concatenate([np.empty(0, np.int64), *ranks])),
                "subscription": self._slots.take(subscription),
                "score": pa.array(np.concatenate(scores)),
            }
        )

    def explain(self, subscription: Any, event: Mapping[str, Any]) -> dict[str, Any]:
        """Why a subscription is or is not among the best for an event, given as a dict of its attributes.

        `rank` is its place among all matches, `outside` names the attributes whose interval does not contain
        the event.
        """
        mine = self._find_one(self._slots, subscription, "subscription")
        point = self._read_event(event)
        live = self._slots.live()
        places, score = self._ranked(live, point)
        rank = int(np.argmax(live[places] == mine)) + 1 if (live[places] == mine).any() else None
        outside = np.flatnonzero(~boxes.inside(self._boxes([mine]), point)[0])
        return {
            "subscription": subscription,
            "score": float(score[live == mine][0]),
            "rank": rank,
            "in_result": rank is not None and rank <= self._k,
            "score_to_beat": float(score[places[self._k - 1]]) if places.size >= self._k else None,
            "outside": [self._over[place] for place in outside],
            "reason": self._reason(rank, outside, point),
        }

    def stats(self) -> dict[str, Any]:
        """Counters since the start, and the index in use."""
        return {**super().stats(), "index": "scan"}

    # Helpers

    def _ranking(self, *, required: bool = True) -> list[Column]:
        """The columns that rank: the score, or the weights."""
        if self._mode == "exact":
            return [Column("score", required=required)]
        return [Column(f"{name}_weight", required=False, nullable=True) for name in self._over]

    def _read_ranking(self, batch: tables.Batch, rows: Rows | None) -> dict[str, NDArray[Any]]:
        """The score or the weights of new subscriptions, or of live `rows`, which keep what is not given."""
        if self._mode == "exact":
            return {"score": batch["score"]} if "score" in batch else {}
        weight = np.zeros((batch.size, len(self._over))) if rows is None else self._slots["weight"][rows]
        for place, name in enumerate(self._over):
            if f"{name}_weight" in batch:
                given = batch[f"{name}_weight"]
                self._refuse_negative(given, f"{name}_weight")
                weight[:, place] = np.where(np.isnan(given), 0.0, given)
        return {"weight": weight}

    @staticmethod
    def _refuse_negative(weight: Floats, column: str) -> None:
        if (weight < 0).any():
            row = int(np.argmax(weight < 0))
            raise InputError(
                f"is {weight[row]:g}",
                where="subscriptions",
                column=column,
                row=row,
                expected="a number from 0",
            )

    def _ranked(self, live: Rows, point: Floats) -> tuple[Rows, Floats]:
        """The places in `live` of all matches of a point, best first, and the score of each live row."""
        held = self._boxes(live)
        if self._mode == "exact":
            score: Floats = self._slots["score"][live]
            matches: Bools = np.all(boxes.inside(held, point), axis=1)
        else:
            score = matching.weigh(held, self._slots["weight"][live], point, combine=self._combine)
            matches = score > 0
        return matching.ranked(score, matches, self._slots.label[live]), score

    def _read_event(self, event: Mapping[str, Any]) -> Floats:
        """The point of one event; its id may be there."""
        if not isinstance(event, Mapping):
            raise InputError(f"got {event!r}", where="event", expected="a dict of the event's attributes")
        columns = [
            Column("id", ID.kind, required=False),
            *(Column(name, nullable=True) for name in self._over),
        ]
        batch = self._read({name: [value] for name, value in event.items()}, columns, "event")
        return np.array([batch[name][0] for name in self._over])

    def _reason(self, rank: int | None, outside: NDArray[np.intp], point: Floats) -> str:
        if rank is not None:
            return "among the best" if rank <= self._k else f"{self._k} matching subscriptions are better"
        if self._mode == "relaxed":
            return "no interval with a weight contains the event"
        name = self._over[outside[0]]
        return f"{name} is unknown" if np.isnan(point[outside[0]]) else f"{name} is outside the interval"
