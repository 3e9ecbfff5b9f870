"""`RankedMatcher`: the k best subscriptions for an event.

The engine reads and checks tables, keeps ids, boxes, scores and weights by row, and writes answers; finding
the best rows for an event is the business of its `MatchIndex` (`rankcast.matching.indexes`). Events may be
points, intervals, or partly unknown: all of them are read as `Spans`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, NamedTuple, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core import turns
from rankcast.core.answering import AnsweringEngine
from rankcast.core.engine import ID, Part
from rankcast.core.spec import COMMANDS, Answer, Input, Reading, Spec
from rankcast.errors import FunctionError, InputError, SettingError, shown
from rankcast.matching import brute_force, indexes
from rankcast.matching.brute_force import Scan
from rankcast.matching.function import FunctionIndex
from rankcast.matching.indexes import INDEXES, MatchIndex
from rankcast.matching.kernels import matches
from rankcast.matching.kernels.box_tree import Columns
from rankcast.matching.search import Found
from rankcast.structures import integrity
from rankcast.tables import boxes, read, schema
from rankcast.tables.boxes import Boxes
from rankcast.tables.schema import NO_VALUES, Batch, Column, Floats, Form, Ids, Ints, Rows


class Spans(NamedTuple):
    """What events reach: from `above` to `below`, both (n, d).

    Both are the value of a point. Of an interval they are its lower and its upper end, an end that is not
    given being no bound. An unknown value reaches from +inf to -inf: it meets only what has no bounds.
    """

    above: Floats
    below: Floats


def columns(over: list[str], *, id_required: bool = True) -> list[Column]:
    """The columns of events over some attributes: each a value, or a lower and an upper end."""
    known = frozenset(over)
    ends = [end for name in over for end in _ends(name, known)]
    return [
        Column("id", ID.kind, required=id_required),
        *(Column(name, required=False, nullable=True) for name in [*over, *ends]),
    ]


def _ends(name: str, over: frozenset[str]) -> list[str]:
    """The columns of an attribute's ends; none if one of them is an attribute itself."""
    ends = [f"{name}_lo", f"{name}_hi"]
    return [] if over.intersection(ends) else ends


def read_events(batch: Batch, over: list[str], *, where: str) -> Spans:
    """The spans of a batch of events; those of points that are all known are the same array twice."""
    if batch.numbers is not None and list(batch.lines) == over:
        points = np.array(batch.numbers.T, order="C")
        return Spans(points, points)
    shape = (batch.size, len(over))
    spans, known = Spans(np.empty(shape), np.empty(shape)), frozenset(over)
    nothing, values = np.full(batch.size, np.nan), batch.values
    for place, name in enumerate(over):
        ends = _ends(name, known)
        given = [end for end in ends if end in batch]
        if name in batch and given:
            raise InputError(
                f'is given beside "{name}"', where=where, column=given[0], expected="one of them"
            )
        if name not in batch and not given and batch.size:
            raise InputError("is missing", where=where, column=name, expected="a number")
        if name in batch:
            spans.above[:, place] = spans.below[:, place] = values[name]
        else:
            above, below = (values.get(end, nothing) for end in ends)
            _refuse_crossed(above, below, ends, where)
            known_end = ~(np.isnan(above) & np.isnan(below))
            spans.above[:, place] = np.where(known_end & np.isnan(above), -np.inf, above)
            spans.below[:, place] = np.where(known_end & np.isnan(below), np.inf, below)
    spans.above[np.isnan(spans.above)], spans.below[np.isnan(spans.below)] = np.inf, -np.inf
    return spans


def _refuse_crossed(lo: Floats, hi: Floats, ends: list[str], where: str) -> None:
    """Refuse an interval whose ends are the wrong way round."""
    crossed = lo > hi
    if crossed.any():
        row = int(np.argmax(crossed))
        raise InputError(
            f"is {lo[row]:g}, above the upper end {hi[row]:g}",
            where=where,
            column=ends[0],
            row=row,
            expected="lo <= hi",
        )


def span_of(event: Any, over: list[str], extra: str) -> Spans:
    """The span of one event, given as a dict of its attributes; its id may be there."""
    if not isinstance(event, dict):
        raise InputError(f"got {shown(event)}", where="event", expected="a dict of the event's attributes")
    if not event:  # it would read as no event at all
        raise InputError("is missing", where="event", column=over[0], expected="a number")
    rows = {name: [value] for name, value in event.items()}
    batch = read.read(rows, columns(over, id_required=False), where="event", extra=extra)
    return read_events(batch, over, where="event")


FEW = 1024  # matches up to which an answer is one message of Arrow's, half the price of one by columns
_WHOLE = pa.int64()
_ANSWER = pa.schema([("event", _WHOLE), ("rank", _WHOLE), ("subscription", _WHOLE), ("score", pa.float64())])


@lru_cache(maxsize=FEW)
def _head(size: int) -> Ints:
    """How the message of an answer with so many rows begins; its columns follow, one behind the other."""
    zeros = [np.zeros(size, kind.to_pandas_dtype()) for kind in _ANSWER.types]
    message = pa.RecordBatch.from_arrays(list(map(pa.array, zeros)), schema=_ANSWER).serialize()
    return np.frombuffer(message, np.int64)[: -4 * size].copy()


MOST_BRANCHES = 65_536  # of a node of an R-tree, which has room for as many


def tightness(box: Boxes) -> Floats:
    """A ready-made score: the tighter the box, the higher.

    Each attribute gives 1 / (1 + width): 1 for a single point, 0 where a bound is missing. So a box inside
    another one has the higher score, and every attribute counts.

    >>> tightness(Boxes(np.array([[0.0, 1.0]]), np.array([[0.0, 4.0]])))
    array([1.25])
    """
    return np.asarray((1.0 / (1.0 + (box.hi - box.lo))).sum(axis=1))


class RankedMatcher(AnsweringEngine):
    """The k best of the subscriptions that match an event; nothing is kept of the event.

    A subscription is a box with a `score` (exact), or with a weight an interval (relaxed). Exact: all its
    intervals contain the event. Relaxed: its score for an event is the sum of the weights of those intervals
    that contain it, added in the order of `over`, or their maximum, and is above 0. A null attribute of an
    event is unknown: only an interval without any bound contains it. Ties go to the smaller id.

    An event may also be an interval in some attributes, with `<attribute>_lo` and `<attribute>_hi` instead
    of `<attribute>`: it matches the intervals that it overlaps. One end may be null, for no bound.

    Args:
        over: the attributes.
        k: how many subscriptions an event wants.
        mode: "exact" or "relaxed".
        index: how matches are found; "auto" chooses by what it sees, and `stats()["index"]` says what;
            "inverted" is for many attributes of which a subscription bounds a few.
        combine: "sum" or "max" of weights, or a function of an array (n, d) of weights, 0 where an interval
            does not contain the event, that never falls when a weight grows; only relaxed matching combines.
            `load(path, combine=f)` for a function of one's own.
        score: "given" by subscriptions, or "tightest": the tighter the box, the better (see `tightness`).
        extra: "forbid" or "ignore" columns that are not known.
        tuning: "threads" for a batch of events (default: as many as there are cores); "branching" of the
            R-trees in an index of intervals (default: 50; from 2 to 65,536).

    >>> matcher = RankedMatcher(over=["price", "stars"], k=2)
    >>> matcher.subscribe({"id": ["a", "b", "c"], "price_hi": [9, 5, 9], "score": [1.0, 3.0, 2.0]})
    >>> matcher.publish({"id": [7], "price": [8], "stars": [None]})["subscription"].to_pylist()
    ['c', 'a']
    """

    spec = Spec(
        (
            Input("subscriptions", (*COMMANDS, "rescore"), False, "subscription"),
            Input("events", ("publish",), True, "event", lasting=False),
        ),
        Answer("matches", "event"),
        title="the k best subscriptions for this event",
    )
    calls = ("subscribe", "amend", "unsubscribe", "rescore", "publish")
    counters = ("looked",)
    known_tuning: ClassVar[dict[str, Any]] = {"threads": None, "branching": 50}
    variants = tuple({"index": index} for index in INDEXES)

    def __init__(
        self,
        *,
        over: str | Sequence[str],
        k: int = 20,
        mode: str = "exact",
        index: str = "auto",
        combine: str | Callable[[Floats], Floats] = "sum",
        score: str = "given",
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        names = schema.attributes("over", over)
        self._k = schema.whole("k", k)
        self._mode = schema.one_of("mode", mode, ["exact", "relaxed"])
        self._combine = combine if callable(combine) else schema.one_of("combine", combine, ["sum", "max"])
        self._tightest = schema.one_of("score", score, ["given", "tightest"]) == "tightest"
        if self._tightest and mode == "relaxed":
            raise SettingError('score="tightest" has no weights', expected='mode="exact"')
        self._named = schema.one_of("index", index, INDEXES)
        saved = "function" if callable(combine) else combine  # a snapshot cannot hold a function
        super().__init__(
            {"k": self._k, "mode": mode, "index": index, "combine": saved, "score": score},
            {"score": np.float64, "weight": (np.float64, len(names) if mode == "relaxed" else 0)},
            over=names,
            ordered=True,
            extra=extra,
            tuning=tuning,
        )
        self._threads = schema.threads(self._tuning["threads"])
        self._event_form = Form(columns(names))
        ends, optional = boxes.columns(names), self._ranking(required=False)
        self._form, self._amend_form, self._rescore_form = (
            Form([ID, *columns])
            for columns in ([*ends, *self._ranking()], [*ends, *optional], self._ranking())
        )
        self._scan = Scan(self._slots, None if mode == "exact" else self._combine)
        self._index = self._make_index(self._named)

    @classmethod
    def _configured(cls, configuration: dict[str, Any], *, combine: Any = None, **given: Any) -> Self:
        """With a function of one's own, which a snapshot cannot hold."""
        held = configuration["combine"]
        if (combine is None) == (held == "function"):
            word = "needs" if combine is None else "has no"
            raise SettingError(f"the saved matcher {word} a function", expected="load(path, combine=f)")
        return super()._configured({**configuration, "combine": combine or held}, **given)

    def _parts(self) -> dict[str, Part]:
        return {**super()._parts(), "index": self._index}

    def _check_restored(self) -> None:
        super()._check_restored()
        slots, wanted = self._slots, self._slots["sequence"] >= 0
        integrity.no_nan(slots["score"][wanted], "subscription.score")
        integrity.finite(slots["weight"][wanted], "subscription.weight")
        integrity.need((slots["weight"][wanted] >= 0).all(), "subscription.weight", "has a weight below 0")
        self._index.check_restored(self._columns(), wanted)

    def _make_index(self, name: str) -> MatchIndex:
        """The index of a name; a function of one's own has one index, whatever the name."""
        if name == "scan":
            return self._scan
        if not isinstance(self._combine, str) and self._mode == "relaxed":
            return FunctionIndex(self._slots, self._combine)
        combine = self._combine if self._mode == "relaxed" and isinstance(self._combine, str) else None
        branching = schema.whole("branching", self._tuning["branching"], least=2, most=MOST_BRANCHES)
        return indexes.make(name, len(self._over), combine=combine, branching=branching)

    # The calls

    @turns.inside
    def reads(self, call: str) -> Reading:
        """The columns that a call takes with these settings, and what errors call its rows."""
        forms = {"amend": self._amend_form, "rescore": self._rescore_form}
        return Reading(forms[call], "subscriptions") if call in forms else super().reads(call)

    def subscribe(self, rows: Any) -> None:
        """Register subscriptions."""
        batch = self._read(rows, self._form, "subscriptions")
        self._slots.require_new(batch.ids, where="subscriptions")
        fields = self._read_fields(batch, None)
        self._begin()
        rows = self._slots.add(batch.ids)
        self._write(rows, fields)
        self._index.insert(self._columns(), rows)

    def amend(self, rows: Any) -> None:
        """Change live subscriptions in place: an absent column keeps its value, a null sets the default."""
        batch = self._read(rows, self._amend_form, "subscriptions")
        amended = self._slots.require(batch.ids, where="subscriptions")
        fields = self._read_fields(batch, amended)
        self._begin()
        self._index.remove(self._columns(), amended)
        self._write(amended, fields)
        self._index.insert(self._columns(), amended)

    def rescore(self, rows: Any) -> None:
        """Give live subscriptions a new `score` or new weights, in place; a weight that is absent stays."""
        batch = self._read(rows, self._rescore_form, "subscriptions")
        if self._tightest:
            raise InputError("follows from the box", where="subscriptions", expected="amend of its bounds")
        if batch.size and not any(column.name in batch for column in self._ranking()):
            names = " or ".join(f'"{column.name}"' for column in self._ranking())
            raise InputError("has no weight at all", where="subscriptions", expected=f"a column {names}")
        rescored = self._slots.require(batch.ids, where="subscriptions")
        ranking = self._read_ranking(batch, rescored)
        self._begin()
        self._write(rescored, ranking)
        self._index.rescore(self._columns(), rescored)

    def unsubscribe(self, ids: Any) -> None:
        """Remove subscriptions."""
        gone = self._slots.require(read.read_ids(ids, where="ids"), where="ids")
        self._begin()
        self._index.remove(self._columns(), gone)
        self._slots.release(gone)
        self._slots.settle()

    def publish(self, events: Any) -> pa.Table:
        """The best subscriptions for each event: `event, rank, subscription, score`.

        At most k rows an event, in the order of events, best first.
        """
        batch = self._read(events, self._event_form, "events")
        spans, ids = read_events(batch, self._over, where="events"), batch.ids
        if ids.kind != self._event_ids.kind:
            self._event_ids.find(ids, where="events")
        self._begin()  # an index may learn from the events that it sees
        try:
            found = self._index.search(self._columns(), spans.below, spans.above, self._k, self._threads)
        except FunctionError:
            self._turn.undo()
            raise
        self._note_events(ids)
        count = self._count
        count["candidates"] += found.tried
        count["looked"] += found.looked
        count["deltas"] += found.row.size
        return self._answer(ids, found)

    def explain(self, subscription: Any, event: Mapping[str, Any]) -> dict[str, Any]:
        """Why a subscription is or is not among the best for an event, given as a dict of its attributes.

        `rank` is its place among all matches, `outside` names the attributes whose interval does not contain
        the event, `counted` the weights that counted, `behind` how far its score is below the last of the k.
        """
        mine = self._find_one(self._slots, subscription, "subscription")
        spans = span_of(event, self._over, self._extra)
        live = self._slots.live()
        places, score = self._scan.rank(self._columns(), live, spans.below[0], spans.above[0])
        rank = int(np.argmax(live[places] == mine)) + 1 if (live[places] == mine).any() else None
        inside = brute_force.meets(self._boxes([mine]), spans.below[0], spans.above[0])[0]
        own = float(score[live == mine][0])
        beat = float(score[places[self._k - 1]]) if places.size >= self._k else None
        weights = zip(self._over, inside, self._slots["weight"][mine].tolist(), strict=False)
        return {
            "subscription": subscription,
            "score": own,
            "rank": rank,
            "in_result": rank is not None and rank <= self._k,
            "score_to_beat": beat,
            "behind": max(0.0, beat - own) if beat is not None else None,
            "outside": [name for name, met in zip(self._over, inside, strict=True) if not met],
            "counted": {name: weight for name, met, weight in weights if met and weight > 0},
            "reason": self._reason(rank, inside, spans),
        }

    def stats(self) -> dict[str, Any]:
        """Counters since the start, and the index in use.

        Where it was chosen, `index_costs` are the microseconds an event that the choice went by. An index of
        intervals that changes in place says how often it split or joined blocks (`index_splits`,
        `index_merges`), and built a part of its tree of centres anew (`index_rebuilt`).
        """
        return {**super().stats(), "index": self._named, **self._index.stats()}

    # Helpers

    def _answer(self, ids: Ids, found: Found) -> pa.Table:
        """The answer to events with these ids."""
        size, slots = found.row.size, self._slots
        whole = 0 < size <= FEW and ids.kind == slots.kind == "int"
        codes = NO_VALUES if slots.kind == "str" else slots["code"]
        head = _head(size) if whole else NO_VALUES
        told = matches.told(head, found.number, found.row, found.score, ids.values, codes)
        if whole:
            return pa.Table.from_batches([pa.ipc.read_record_batch(pa.py_buffer(told), _ANSWER)])
        event, rank, subscription, score = (
            pa.Array.from_buffers(kind, size, [None, pa.py_buffer(line)])
            for kind, line in zip(_ANSWER.types, told.reshape(4, size), strict=True)
        )
        if ids.kind == "str" or not size:
            event = self._events_at(ids, told[:size])
        if slots.kind == "str":
            subscription = slots.take(found.row)
        return pa.Table.from_arrays([event, rank, subscription, score], _ANSWER.names)

    def _columns(self) -> Columns:
        slots = self._slots
        return Columns(slots["lo"], slots["hi"], slots["score"], slots["weight"], slots.label)

    def _ranking(self, *, required: bool = True) -> list[Column]:
        """The columns that rank: the score, or the weights."""
        if self._tightest:
            return []
        if self._mode == "exact":
            return [Column("score", required=required)]
        return [Column(f"{name}_weight", required=False, nullable=True) for name in self._over]

    def _read_fields(self, batch: Batch, rows: Rows | None) -> dict[str, NDArray[Any]]:
        """Boxes and what ranks them, of new subscriptions or of live `rows`."""
        box = self._read_boxes(batch, rows)
        if self._tightest:
            return {**box._asdict(), "score": tightness(box)}
        return {**box._asdict(), **self._read_ranking(batch, rows)}

    def _read_ranking(self, batch: Batch, rows: Rows | None) -> dict[str, NDArray[Any]]:
        """The score or the weights of new subscriptions, or of live `rows`, which keep what is not given."""
        if self._mode == "exact":
            return {"score": batch["score"]} if "score" in batch else {}
        weight = np.zeros((batch.size, len(self._over))) if rows is None else self._slots["weight"][rows]
        for place, name in enumerate(self._over):
            if f"{name}_weight" in batch:
                given = batch[f"{name}_weight"]
                self._refuse_negative(given, f"{name}_weight")
                weight[:, place] = np.where(np.isnan(given), 0.0, given)
        return {"weight": weight, "score": brute_force.combined(weight, self._combine)}

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

    def _reason(self, rank: int | None, inside: NDArray[np.bool_], spans: Spans) -> str:
        if rank is not None:
            return "among the best" if rank <= self._k else f"{self._k} matching subscriptions are better"
        if self._mode == "relaxed":
            return "no interval with a weight contains the event"
        place = int(np.argmin(inside))
        unknown = spans.above[0, place] > spans.below[0, place]
        return f"{self._over[place]} is {'unknown' if unknown else 'outside the interval'}"
