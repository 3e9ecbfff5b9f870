"""`RankedMatcher`: the k best subscriptions for an event.

The engine reads and checks tables, keeps ids, boxes, scores and weights by row, and writes answers. Its
`MatchIndex` (`rankcast.matching.indexes`) finds the best rows for an event. Events may be
points, intervals, or partly unknown: all are read as `Spans`. Other wishes of events, and conditions of
subscriptions besides a box, go to the search as `Wants` (`rankcast.matching.events`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from typing import Any, ClassVar, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core import locking
from rankcast.core.answering_engine import AnsweringEngine
from rankcast.core.engine import ID, Part
from rankcast.core.spec import COMMANDS, Answer, Input, Reading, Spec
from rankcast.errors import FunctionError, InputError, SettingError
from rankcast.matching import brute_force, indexes
from rankcast.matching.boxes import BoxTreeIndex
from rankcast.matching.brute_force import Scan
from rankcast.matching.events import EventReader, Spans
from rankcast.matching.function import FunctionIndex
from rankcast.matching.indexes import INDEXES, AutomaticIndex, MatchIndex
from rankcast.matching.inverted import InvertedIndex
from rankcast.matching.kernels import matches
from rankcast.matching.kernels.box_tree import Columns
from rankcast.matching.kernels.candidate_filter import Wants
from rankcast.matching.search import Found
from rankcast.matching.subscription_attributes import Said
from rankcast.structures import integrity
from rankcast.tables import boxes, read, schema
from rankcast.tables.boxes import Boxes
from rankcast.tables.categories import setting as categories_setting
from rankcast.tables.schema import NO_VALUES, Batch, Bools, Column, Floats, Form, Ids, Ints, Rows

FEW = 1024  # matches up to which an answer is one message of Arrow's, half the price of one by columns
_WHOLE = pa.int64()
_ANSWER = pa.schema([("event", _WHOLE), ("rank", _WHOLE), ("subscription", _WHOLE), ("score", pa.float64())])


@lru_cache(maxsize=FEW)
def _head(size: int) -> Ints:
    """How the message of an answer with so many rows starts; its columns follow, one after the other."""
    zeros = [np.zeros(size, kind.to_pandas_dtype()) for kind in _ANSWER.types]
    message = pa.RecordBatch.from_arrays(list(map(pa.array, zeros)), schema=_ANSWER).serialize()
    return np.frombuffer(message, np.int64)[: -4 * size].copy()


JUDGING = (AutomaticIndex, BoxTreeIndex, InvertedIndex, Scan)  # indexes that know more than boxes


MOST_BRANCHES = 65_536  # of a node of an R-tree, which has room for as many


def tightness(box: Boxes) -> Floats:
    """A ready-made score: the tighter the box, the higher.

    Each attribute contributes 1 / (1 + width): 1 for a single point, 0 for a missing bound. So a box inside
    another one has the higher score, and every attribute counts.

    >>> tightness(Boxes(np.array([[0.0, 1.0]]), np.array([[0.0, 4.0]])))
    array([1.25])
    """
    return np.asarray((1.0 / (1.0 + (box.hi - box.lo))).sum(axis=1))


class RankedMatcher(AnsweringEngine):
    """The k best subscriptions that match an event; the engine does not keep events.

    A subscription is a box with a `score` (exact), or with a weight per interval (relaxed). Exact: all its
    intervals must contain the event. Relaxed: its score for an event is the sum of the weights of the
    intervals that contain it, added in the order of `over`, or their maximum, and must be above 0. A null
    attribute of an event is unknown: only an interval without any bound contains it. Ties go to the smaller
    id.

    An event may also be an interval in some attributes, with `<attribute>_lo` and `<attribute>_hi` instead
    of `<attribute>`: it matches the intervals that it overlaps. One end may be null, for no bound.

    Attributes may be `categories`: strings, integers or booleans. A subscription then has lists: the value
    must be in `<attribute>_in` and must not be in `<attribute>_not_in`; null accepts everything, and an
    event's null matches only if both are null. Timestamps count as numbers.

    Further columns of subscriptions: `group`, whose rows match once, with the best score, under its name; and
    `owner`. Of events: `k`, `min_score`, `exclude` (a list of ids of subscriptions or groups), `boost`, a
    number above 0 that multiplies scores, and `<attribute>_error`.

    Args:
        over: the attributes.
        k: how many subscriptions an event wants.
        mode: "exact" or "relaxed".
        index: how matches are found; "auto" chooses by the data, and `stats()["index"]` shows its choice;
            "inverted" is for many attributes of which a subscription bounds a few.
        combine: "sum" or "max" of weights, or a function of an array (n, d) of weights, 0 where an interval
            does not contain the event, that never falls when a weight grows; for relaxed matching only. Load
            an engine with such a function by `load(path, combine=f)`.
        score: "given" by subscriptions, or "tightest": the tighter the box, the better (see `tightness`).
        categories: the attributes that are categories, as a list, or as a dict with a `Hierarchy` for those
            that have one: a subscription to a category then matches everything below it.
        per_owner: the most subscriptions of one owner in the answer to an event.
        overlap: which intervals an interval event matches: "any" that it overlaps, those it lies "inside", or
            those it "contains"; an interval without bounds always matches.
        errors: the distribution of values with an `<attribute>_error`: "uniform" up to that far from the
            value, or "normal" with that standard deviation. The score (relaxed: each weight) is multiplied by
            the probability that the interval contains the value.
        boosts: by category attribute a dict of values and factors, {"job": {"nursing": 1.5}}: the value of an
            event multiplies its scores (relaxed: the weights of that attribute).
        extra: "forbid" or "ignore" unknown columns.
        tuning: "threads" for a batch of events (default: the number of cores); "branching" of the R-trees in
            an index of intervals (default: 50; from 2 to 65,536).

    >>> matcher = RankedMatcher(over=["price", "stars"], k=2)
    >>> matcher.subscribe({"id": ["a", "b", "c"], "price_hi": [9, 5, 9], "score": [1.0, 3.0, 2.0]})
    >>> matcher.publish({"id": [7], "price": [8], "stars": [None]})["subscription"].to_pylist()
    ['c', 'a']
    >>> matcher.rescore({"id": ["a"], "score": [2.5]})
    >>> matcher.amend({"id": ["b"], "price_hi": [8]})
    >>> matcher.unsubscribe(["c"])
    >>> matcher.publish({"id": [7], "price": [8], "stars": [None]})["subscription"].to_pylist()
    ['b', 'a']
    >>> matcher.explain("b", {"price": 8.5, "stars": None})["outside"]
    ['price']
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
    added_parts = frozenset(("group", "group_names"))
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
        categories: Sequence[str] | Mapping[str, Any] = (),
        per_owner: int | None = None,
        overlap: str = "any",
        errors: str | None = None,
        boosts: Mapping[str, Any] | None = None,
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        names = schema.attributes("over", over)
        hierarchies = categories_setting(categories, names)
        self._k = schema.whole("k", k)
        self._mode = schema.one_of("mode", mode, ["exact", "relaxed"])
        self._combine = combine if callable(combine) else schema.one_of("combine", combine, ["sum", "max"])
        self._tightest = schema.one_of("score", score, ["given", "tightest"]) == "tightest"
        if self._tightest and mode == "relaxed":
            raise SettingError('score="tightest" has no weights', expected='mode="exact"')
        if self._tightest and hierarchies:
            raise SettingError('score="tightest": categories have no width', expected='score="given"')
        self._named = schema.one_of("index", index, INDEXES)
        most = None if per_owner is None else schema.whole("per_owner", per_owner)
        self._said = Said(names, hierarchies, most)
        self._reader = EventReader(
            names,
            self._said.sets,
            k=self._k,
            relaxed=mode == "relaxed",
            per_owner=most,
            overlap=overlap,
            errors=errors,
            boosts=boosts,
        )
        saved = "function" if callable(combine) else combine  # a snapshot cannot hold a function
        more = {
            "categories": {name: each and each.parents for name, each in hierarchies.items()},
            "per_owner": most,
            "overlap": overlap if overlap != "any" else None,
            "errors": errors,
            "boosts": self._reader.boosts(),
        }
        super().__init__(
            {"k": self._k, "mode": mode, "index": index, "combine": saved, "score": score}
            | {name: value for name, value in more.items() if value},
            {"score": np.float64, "weight": (np.float64, len(names) if mode == "relaxed" else 0)},
            over=names,
            ordered=True,
            extra=extra,
            tuning=tuning,
        )
        self._threads = schema.threads(self._tuning["threads"])
        self._event_form, self._numbers = (
            self._reader.form,
            [name for name in names if name not in hierarchies],
        )
        ends, optional = boxes.columns(self._numbers, times=True), self._ranking(required=False)
        self._form, self._amend_form, self._rescore_form = (
            Form([ID, *columns])
            for columns in (
                [*ends, *self._ranking(), *self._said.columns()],
                [*ends, *optional, *self._said.columns()],
                self._ranking(),
            )
        )
        self._scan = Scan(self._slots, None if mode == "exact" else self._combine)
        self._index = self._make_index(self._named)

    @classmethod
    def _configured(cls, configuration: dict[str, Any], *, combine: Any = None, **given: Any) -> Self:
        """With a user's function, which a snapshot cannot hold."""
        held = configuration["combine"]
        if (combine is None) == (held == "function"):
            word = "needs" if combine is None else "has no"
            raise SettingError(f"the saved matcher {word} a function", expected="load(path, combine=f)")
        return super()._configured({**configuration, "combine": combine or held}, **given)

    def _parts(self) -> dict[str, Part]:
        return {**super()._parts(), "index": self._index, **self._said.parts()}

    def _check_restored(self) -> None:
        super()._check_restored()
        slots, wanted = self._slots, self._slots["sequence"] >= 0
        integrity.no_nan(slots["score"][wanted], "subscription.score")
        integrity.finite(slots["weight"][wanted], "subscription.weight")
        integrity.need((slots["weight"][wanted] >= 0).all(), "subscription.weight", "has a weight below 0")
        self._index.check_restored(self._columns(), wanted)
        self._said.check_restored(wanted)

    def _complete(self) -> None:
        self._said.groups.note(self._slots.live(), self._said.owners)

    def _make_index(self, name: str) -> MatchIndex:
        """The index of a name; a user's function has one index, whatever the name."""
        if name == "scan":
            return self._scan
        if not isinstance(self._combine, str) and self._mode == "relaxed":
            return FunctionIndex(self._slots, self._combine)
        combine = self._combine if self._mode == "relaxed" and isinstance(self._combine, str) else None
        branching = schema.whole("branching", self._tuning["branching"], least=2, most=MOST_BRANCHES)
        return indexes.make(name, len(self._over), combine=combine, branching=branching)

    # The calls

    @locking.inside
    def reads(self, call: str) -> Reading:
        """The columns that a call takes with these settings, and how errors name its rows."""
        forms = {"amend": self._amend_form, "rescore": self._rescore_form}
        return Reading(forms[call], "subscriptions") if call in forms else super().reads(call)

    def subscribe(self, rows: Any) -> None:
        """Register subscriptions."""
        batch = self._read(rows, self._form, "subscriptions")
        self._slots.require_new(batch.ids, where="subscriptions")
        fields, said = self._read_fields(batch, None), self._said.read(self._slots, batch, None)
        self._begin()
        rows = self._slots.add(batch.ids)
        self._write(rows, fields)
        self._said.write(self._slots, rows, said, fresh=True)
        self._index.insert(self._columns(), rows)
        self._said.settle()

    def amend(self, rows: Any) -> None:
        """Change live subscriptions in place: an absent column keeps its value, a null sets the default."""
        batch = self._read(rows, self._amend_form, "subscriptions")
        amended = self._slots.require(batch.ids, where="subscriptions")
        fields, said = self._read_fields(batch, amended), self._said.read(self._slots, batch, amended)
        self._begin()
        self._index.remove(self._columns(), amended)
        self._write(amended, fields)
        self._said.write(self._slots, amended, said, fresh=False)
        self._index.insert(self._columns(), amended)
        self._said.settle()

    def rescore(self, rows: Any) -> None:
        """Give live subscriptions a new `score` or new weights, in place; an absent weight stays."""
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
        self._said.remove(gone)
        self._slots.release(gone)
        self._slots.settle()
        self._said.settle()

    def publish(self, events: Any) -> pa.Table:
        """The best subscriptions for each event: `event, rank, subscription, score`.

        At most k rows per event, in the order of events, best first.
        """
        batch = self._read(events, self._event_form, "events")
        spans, ids = self._reader.spans(batch, self._said.sets, where="events"), batch.ids
        wants = self._reader.wants(batch, spans, self._slots, self._said, where="events")
        if ids.kind != self._event_ids.kind:
            self._event_ids.find(ids, where="events")
        self._begin()  # an index may learn from the events that it sees
        try:
            found = self._search(spans, wants)
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
        the event, `counted` are the weights that counted, `behind` is how far its score is below the k-th.
        """
        mine = self._find_one(self._slots, subscription, "subscription")
        batch = self._reader.one(event, self._extra)
        spans = self._reader.spans(batch, self._said.sets, where="event")
        wants = self._reader.wants(batch, spans, self._slots, self._said, where="event")
        live = self._slots.live()
        below, above = spans.below[0], spans.above[0]
        places, score = self._scan.rank(self._columns(), live, below, above, wants)
        rank = int(np.argmax(live[places] == mine)) + 1 if (live[places] == mine).any() else None
        row, k = np.array([mine], np.int32), self._k if wants is None else int(wants.k[0])
        inside = brute_force.meets(self._boxes(row), below, above)[0]
        if wants is not None:
            inside = brute_force.shares(self._boxes(row), row, below, above, wants, 0)[0] > 0
        own = float(score[live == mine][0])
        beat = float(score[places[k - 1]]) if places.size >= k else None
        weights = zip(self._over, inside, self._slots["weight"][mine].tolist(), strict=False)
        return {
            "subscription": subscription,
            "score": own,
            "rank": rank,
            "in_result": rank is not None and rank <= k,
            "score_to_beat": beat,
            "behind": max(0.0, beat - own) if beat is not None else None,
            "outside": [name for name, met in zip(self._over, inside, strict=True) if not met],
            "counted": {name: weight for name, met, weight in weights if met and weight > 0},
            "reason": self._reason(rank, k, inside, spans, wants, mine, own),
        }

    def stats(self) -> dict[str, Any]:
        """Counters since the start, and the index in use.

        If the index was chosen automatically, `index_costs` are the estimates behind the choice, in
        microseconds per event. An index of intervals that changes in place counts how often it split or
        joined blocks (`index_splits`, `index_merges`), and rebuilt a part of its tree of centres
        (`index_rebuilt`).
        """
        return {**super().stats(), "index": self._named, **self._index.stats()}

    # Helpers

    def _search(self, spans: Spans, wants: Wants | None) -> Found:
        """The best for each event; an index that knows only boxes leaves other events to the scan."""
        columns, below, above = self._columns(), spans.below, spans.above
        if wants is None:
            return self._index.search(columns, below, above, self._k, self._threads)
        index = self._index if isinstance(self._index, JUDGING) else self._scan
        return index.search(columns, below, above, self._k, self._threads, wants)

    def _answer(self, ids: Ids, found: Found) -> pa.Table:
        """The answer to events with these ids."""
        size, slots, groups = found.row.size, self._slots, self._said.groups
        whole = 0 < size <= FEW and ids.kind == slots.kind == "int"
        codes = NO_VALUES if slots.kind == "str" else groups.tie if groups.active else slots["code"]
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
            subscription = groups.take(found.row) if groups.active else slots.take(found.row)
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

    def _read_boxes(self, batch: Batch, rows: Rows | None = None) -> Boxes:
        if len(self._numbers) == len(self._over):
            return super()._read_boxes(batch, rows)
        places = [self._over.index(name) for name in self._numbers]
        shape = batch.size, len(self._over)
        box = Boxes(np.full(shape, -np.inf), np.full(shape, np.inf)) if rows is None else self._boxes(rows)
        held = None if rows is None else Boxes(box.lo[:, places], box.hi[:, places])
        if places:
            box.lo[:, places], box.hi[:, places] = boxes.read(
                batch, self._numbers, held, where="subscriptions"
            )
        return box

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

    def _reason(
        self,
        rank: int | None,
        k: int,
        inside: Bools,
        spans: Spans,
        wants: Wants | None,
        row: int,
        score: float,
    ) -> str:
        if rank is not None:
            return "among the best" if rank <= k else f"{k} matching subscriptions are better"
        if self._mode == "exact" and not inside.all():
            place = int(np.argmin(inside))
            unknown = spans.above[0, place] > spans.below[0, place]
            wide = "interval" if self._said.sets.category[place] < 0 else "set"
            return f"{self._over[place]} is {'unknown' if unknown else f'outside the {wide}'}"
        if self._mode == "relaxed" and not score > 0:
            return "no interval with a weight contains the event"
        if wants is not None and score < wants.least[0]:
            return "its score is below min_score"
        if wants is not None and self._is_excluded(wants, row):
            return "the event excludes it"
        return "a better one of its group or owner stands for it"

    @staticmethod
    def _is_excluded(wants: Wants, row: int) -> bool:
        keys = [row, *(~wants.name[row : row + 1].astype(np.int64))]
        return bool(np.isin(keys, wants.excluded).any())
