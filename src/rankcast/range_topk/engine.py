"""`RangeTopK`: the k best objects in a range, for every subscription, kept current.

What a row of events does to its object (decided by `resolve`):

| `op`     | null in `by`, nulls="delete" | "keep"  | "refuse" | a number, or no column `by` |
| -------- | ---------------------------- | ------- | -------- | --------------------------- |
| (absent) | deletes                      | keeps   | refused  | inserts or updates          |
| upsert   | keeps                        | keeps   | refused  | inserts or updates          |
| remove   | deletes                      | deletes | deletes  | deletes                     |

An object must exist to be deleted or to keep a value.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core import locking
from rankcast.core.engine import ID, Part
from rankcast.core.list_engine import ListEngine
from rankcast.core.spec import LISTS, Setting, lazily
from rankcast.errors import InputError
from rankcast.range_topk.brute_force import BruteForce, explain, region
from rankcast.range_topk.event_checks import (
    NO_WORDS,
    OP,
    emptied,
    refusal,
    refuse_names,
    refuse_nan,
    refuse_other_side,
)
from rankcast.range_topk.kept_lists import KeptLists
from rankcast.range_topk.kernels import apply_tiles
from rankcast.range_topk.kernels.apply_tiles import DELETES, KEEPS, REFUSED
from rankcast.range_topk.state import (
    APPROXIMATE,
    Events,
    Method,
    RangeState,
    Slack,
    checked_sides,
    checked_slack,
    range_columns,
)
from rankcast.structures import integrity
from rankcast.structures.diff import DeltaColumns
from rankcast.structures.ids import Slots, keys_of, select
from rankcast.tables import boxes, deltas, schema
from rankcast.tables.deltas import Changes, External, Lists
from rankcast.tables.read import attempted
from rankcast.tables.schema import Batch, Column, Floats, Form, Ids, Ints, Rows

PLAIN = (list, tuple, np.ndarray)  # no columns of pandas'
NULLS = ("delete", "keep", "refuse")
METHODS = ("sparse", "dense", "unicast", "relax", "scan")


def nothing_removed(rows: Any) -> bool:
    """Whether rows are plain ones without a column `op`."""
    if type(rows) is list:
        return all(type(row) is dict and OP.name not in row for row in rows)
    if type(rows) is pa.Table:
        return OP.name not in rows.column_names
    return type(rows) is dict and OP.name not in rows


def resolve(batch: Batch, objects: Slots, over: list[str], by: str, nulls: str) -> tuple[Events, Ids | None]:
    """Read a batch against the live objects; raises before anything has changed. One pass, O(n).

    A row takes missing values from the previous row of the same object, or from the object itself.
    New objects have no row yet: the n-th of them, whose ids come second, has -1 - n instead.
    """
    ids, size, width = batch.ids, batch.size, len(over)
    if objects.kind != ids.kind and objects.kind is not None:
        objects.find(ids, where="events")  # refuses them
    removes: Ints = np.array(batch[OP.name], np.int64) if OP.name in batch else NO_WORDS
    null = KEEPS
    if nulls != "keep" and by in batch:
        null = REFUSED if nulls == "refuse" else KEEPS if OP.name in batch else DELETES
    row, first, x, y = (
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty((size, width)),
        np.empty(size),
    )
    new, gone, wrong, bad = apply_tiles.resolve(
        objects.register()[:6],
        keys_of(ids, objects.seed),
        (objects["x"], objects["y"]),
        _numbers(batch, [*over, by]),
        removes,
        null,
        (row, x, y, first),
    )
    if wrong >= 0:
        raise refusal(batch, [*over, by], wrong, bad)
    return Events(row, x, y, gone), select(ids, first[:new]) if new else None


def _numbers(batch: Batch, names: list[str]) -> Floats:
    """Columns of numbers as the lines of one array, NaN where nothing is given."""
    if batch.numbers is not None and len(batch.lines) == len(names):
        return np.array(batch.numbers, order="C")
    lines = np.full((len(names), batch.size), np.nan)
    for line, name in enumerate(names):
        if name in batch:
            lines[line] = batch[name]
    return lines


class RangeTopK(ListEngine):
    """The k objects of smallest `by` inside each subscription's range over `over`.

    Args:
        over: the attribute of the ranges, or a list of up to three.
        by: the attribute that ranks.
        k: how many objects a subscription gets, unless it has its own k; up to 2**31 - 1. A list costs only
            what it holds, whatever its k.
        order: "asc" for the smallest `by`, "desc" for the largest; ties go to the smaller id.
        method: how affected subscriptions are found: "sparse", "dense", "unicast" or "relax", which differ in
            what `disseminate` sends, or "scan", the brute force.
        epsilon: for "sparse" and "dense": the share of k by which dissemination may exceed it, in (0, 1].
        needless: instead of epsilon, for "sparse": the share of receipts that may be needless.
        nulls: what a null in the column `by` of an event does: "delete" deletes the object, "keep" keeps its
            value, "refuse" refuses the batch.
        max_k: the largest k allowed for the engine and for subscriptions.
        lists: False keeps no lists: `subscribe` registers in O(log m) and returns no rows, and only
            `disseminate` takes events. For servers whose subscribers keep their own lists.
        sides: with two attributes, which side of the second every subscription may bound, "lower" or "upper"
            (the 1.5-d case); others are refused. Without it the subscriptions decide, and while there is none
            `disseminate` has no "dense".
        extra: "forbid" or "ignore" unknown columns.
        tuning: `receipts=True` lets `stats()` count receipts with `epsilon`, too, for "sparse" in one
            attribute: exact messages are made beside, which takes more time than all else.

    Events have `id` and attributes: a new id inserts and needs all of them; a known id updates the given
    ones. An absent column, or a null in a column of `over`, keeps its value. If the rows of a batch give
    different attributes, a null in `by` could mean nothing or deletion: the optional column `op` decides.
    "remove" deletes the object, whatever the other columns hold; "upsert" inserts or updates, and then a null
    in `by` keeps the value of a known object as in any other column; with nulls="refuse" it is still refused.
    `remove` deletes by id. NaN is never a null, not even in a pandas frame, where you write pd.NA in a
    nullable type ("Float64") for a null.

    >>> engine = RangeTopK(over="risk", by="pe", k=2)
    >>> engine.publish({"id": ["ACME", "BOLT", "CORE"], "risk": [3, 5, 8], "pe": [12.0, 9.5, 7.0]}).num_rows
    0
    >>> engine.subscribe({"id": [1], "risk_lo": [2], "risk_hi": [6]}).select(["op", "item"]).to_pylist()
    [{'op': 'enter', 'item': 'BOLT'}, {'op': 'enter', 'item': 'ACME'}]
    >>> engine.publish({"id": ["CORE"], "risk": [6]}).select(["op", "item", "rank"]).to_pylist()
    [{'op': 'leave', 'item': 'ACME', 'rank': None}, {'op': 'enter', 'item': 'CORE', 'rank': 1}]
    >>> engine.remove(["CORE"]).select(["op", "item", "rank"]).to_pylist()
    [{'op': 'leave', 'item': 'CORE', 'rank': None}, {'op': 'enter', 'item': 'ACME', 'rank': 2}]
    """

    spec = replace(
        LISTS,
        axes=range_columns,
        settings={"nulls": Setting(default="refuse")},  # in a file, a null is hardly meant to delete
        title="the k best objects in my range, as they change",
        tiler=lazily("rankcast.range_topk.dissemination.tiler:RangeTiler"),
        tiles="rankcast.range_topk.dissemination.server:RangeTiles",
    )
    calls = (*ListEngine.calls, "remove")
    known_tuning: ClassVar[dict[str, Any]] = {"receipts": False}
    variants = tuple({"method": method} for method in METHODS)
    added_counters = frozenset(("received", "needless", "received_updated", "needless_updated"))
    counters = ("firstk", "miny", "snap", "messages", "affected", *sorted(added_counters))

    def __init__(
        self,
        *,
        over: str | Sequence[str] = "x",
        by: str = "y",
        k: int = 10,
        order: str = "asc",
        method: str = "sparse",
        epsilon: float | None = None,
        needless: float | None = None,
        nulls: str = "delete",
        max_k: int | None = None,
        lists: bool = True,
        sides: str | None = None,
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        own = ("id", "item", "op")
        self._over = schema.attributes("over", over, most=3, reserved=own)
        self._by = schema.attributes("by", by, most=1, reserved=(*own, *self._over))[0]
        self._k = schema.whole("k", k)
        self._max_k = schema.ceiling("max_k", max_k, "k", self._k)
        self._order = schema.one_of("order", order, ["asc", "desc"])
        self._method = schema.one_of("method", method, METHODS)
        self._slack = checked_slack(epsilon, needless, method)
        self._nulls = schema.one_of("nulls", nulls, NULLS)
        self._sides = checked_sides(sides, self._over)
        self._listless = not schema.flag("lists", lists)
        super().__init__(
            {
                "over": self._over,
                "by": self._by,
                "k": self._k,
                "order": self._order,
                "method": self._method,
                "epsilon": self._slack.epsilon,
                # defaults are left out: states of before there was a choice have the same settings
                **({} if needless is None else {"needless": self._slack.needless}),
                **({} if nulls == "delete" else {"nulls": nulls}),
                **({} if max_k is None else {"max_k": self._max_k}),
                **({"lists": False} if self._listless else {}),
                **({} if sides is None else {"sides": self._sides}),
            },
            extra=extra,
            tuning=tuning,
        )
        self._state = RangeState(
            len(self._over),
            self._k,
            self._order == "desc",
            self._count,
            self._listless,
            {"upper": 1, "lower": -1, None: 0}[self._sides],
        )
        self._state.receipts = schema.flag("receipts", self._tuning["receipts"])
        self._ends = self._columns()
        self._numbers = [*self._over, self._by]
        numbers = [Column(name, required=False, nullable=True) for name in self._numbers]
        self._event_form = Form([ID, *numbers, OP])
        self._former_k = np.empty(0, np.int64)  # of the subscriptions that are being amended
        self._kept = None if method == "scan" else KeptLists(self._state, self._begin)
        self._lists_method: Method = self._kept or BruteForce(self._state)

    # What the base asks for

    @property
    def _subscriptions(self) -> Slots:
        return self._state.subscriptions

    @property
    def _items(self) -> Slots:
        return self._state.objects

    def _parts(self) -> dict[str, Part]:
        return {**self._state.parts(), **self._lists_method.parts()}

    def _check_restored(self) -> None:
        boxes.check_boxes(self._state.subscriptions["lo"], self._state.subscriptions["hi"])
        integrity.within(self._state.subscriptions["k"], 0, integrity.MOST, "subscription.k")
        self._lists_method.check()

    def _columns(self) -> list[Column]:
        return boxes.columns(self._over)

    def _slot_values(self, batch: Batch, rows: Rows | None) -> dict[str, NDArray[Any]]:
        whole = rows is None or all(column.name in batch for column in self._ends)
        held = None if whole or rows is None else self._state.boxes(rows)
        found = boxes.read(batch, self._over, held, where="subscriptions")
        if self._sides is not None:
            refuse_other_side(found, self._sides, self._over[1])
        return found._asdict()

    def _lists(self, rows: Rows) -> Lists:
        return deltas.empty_lists() if self._listless else self._lists_method.lists(rows)

    def _need_lists(self, call: str) -> None:
        """Refuse a call that an engine without lists does not have."""
        if self._listless:
            raise InputError(
                "the engine keeps no lists", where=call, expected="disseminate, or an engine with lists=True"
            )

    def results(self, ids: Any = None) -> pa.Table:
        """The current results: `subscription, rank, item, score`, by order of registration, then rank."""
        self._need_lists("results")
        return super().results(ids)

    def preview(self, rows: Any) -> pa.Table:
        """The lists that subscriptions would have now, in the form of `results`; registers nothing.

        For receivers that keep their own lists and have missed something; also works with `lists=False`.
        Rows and their order are those of `subscribe`. Cost: that of finding the lists.
        """
        batch = self._read(rows, self._form, "subscriptions")
        self._subscriptions.refuse_duplicates(batch.ids, where="subscriptions")
        own = self._own_k(batch).get("k", np.zeros(batch.size, np.int64))
        found = self._slot_values(batch, None)
        k = np.where(own > 0, own, self._k)
        lists = self._lists_method.preview(boxes.Boxes(found["lo"], found["hi"]), k)
        subscription = schema.arrow(select(batch.ids, lists.subscription))
        columns = [subscription, pa.array(lists.rank), self._items.take(lists.item), pa.array(lists.score)]
        return pa.table(columns, ["subscription", "rank", "item", "score"])

    def objects(self) -> pa.Table:
        """The live objects: `id`, the attributes of `over`, and `by`."""
        rows = self._items.live()
        x = self._state.objects["x"][rows]
        numbers = {name: pa.array(x[:, place]) for place, name in enumerate(self._over)}
        y = pa.array(self._state.objects["y"][rows])
        return pa.table({"id": self._items.take(rows), **numbers, self._by: y})

    def _external(self, rows: Rows, *, scored: bool) -> External:
        if self._listless:
            return super()._external(rows, scored=scored)
        names = None if self._kept is None else self._kept.names()
        if self._kept is None or names is None:
            return super()._external(rows, scored=scored)
        return self._kept.external(rows, names, scored=scored)

    def _entered(self, rows: Rows) -> None:
        self._state.count_k(self._state.subscriptions["k"][rows], 1)
        self._lists_method.entered(rows)

    def _amending(self, rows: Rows) -> None:
        self._state.count_k(self._state.subscriptions["k"][rows], -1)
        self._former_k = self._state.k_of(rows)

    def _amended(self, rows: Rows) -> None:
        self._state.count_k(self._state.subscriptions["k"][rows], 1)
        self._lists_method.amended(rows, self._former_k)

    def _leaving(self, rows: Rows) -> None:
        self._state.count_k(self._state.subscriptions["k"][rows], -1)
        self._lists_method.leaving(rows)

    def _held(self, rows: Rows) -> Any:
        return None if self._listless else self._lists_method.held(rows)

    def _since(self, held: Any, rows: Rows) -> Changes:
        return deltas.no_changes() if self._listless else self._lists_method.since(held, rows)

    def _amend_alone(self, rows: Any) -> pa.Table:
        changed, fields = self._amendment(rows)
        names = None if self._kept is None or "k" in fields else self._kept.names()
        if self._kept is None or names is None:
            self._state.alone = True
            try:
                return self._answer(self._change(changed, fields))
            finally:
                self._state.alone = False
        self._begin()
        self._write(changed, fields)
        return self._told(deltas.exchanged(*self._kept.replace(self._in_order(changed), names)))

    def _publish_alone(self, rows: Any) -> pa.Table:
        self._need_lists("publish")
        return self._follow_alone(self._read_events(rows))

    def _publish(self, rows: Any) -> Changes:
        self._need_lists("publish")
        return self._follow(self._read_events(rows))

    def _read_events(self, rows: Any) -> Events:
        self._refuse_nan(rows)
        given = rows if nothing_removed(rows) else attempted(lambda: emptied(rows, self._numbers), "events")
        batch = self._read(given, self._event_form, "events")
        events, fresh = resolve(batch, self._items, self._over, self._by, self._nulls)
        self._begin()
        self._count["events"] += batch.size
        if fresh is not None:
            self._state.admit(fresh, events)
        return events

    @locking.inside
    def check_rows(self, call: str, rows: Any) -> None:
        """Refuse a pandas NaN among the numbers of events: in an Arrow table it would be a null."""
        if call == "publish":
            self._refuse_nan(rows)

    def _refuse_nan(self, rows: Any) -> None:
        plain = type(rows) is dict and all(type(values) in PLAIN for values in rows.values())
        if not plain and type(rows) not in (list, pa.Table):
            attempted(lambda: refuse_nan(rows, self._numbers), "events")

    def remove(self, ids: Any) -> pa.Table:
        """Delete objects; returns the changes of results. Each object is an event in `stats()`."""
        return self._follow_alone(self._removal(ids))

    def _remove(self, ids: Any) -> Changes:
        return self._follow(self._removal(ids))

    def _removal(self, ids: Any) -> Events:
        self._need_lists("remove")
        gone = self._items.require(self._ids(ids), where="ids")
        self._begin()
        self._count["events"] += gone.size
        x, y = self._state.objects["x"][gone], np.full(gone.size, np.nan)
        return Events(gone, x, y, gone.size)

    def _follow(self, events: Events) -> Changes:
        """Bring objects and results to what events make of them."""
        changes = self._lists_method.publish(events)
        if events.gone:
            self._state.end(events)
        return changes

    def _follow_alone(self, events: Events) -> pa.Table:
        """The same for a batch that is one call; the deltas as shown outside."""
        if self._kept is None or not events.row.size:
            return self._answer(self._follow(events))
        self._state.alone = True
        try:
            told = self._kept.publish_alone(events)
        finally:
            self._state.alone = False
        if events.gone:
            self._state.end(events)
        if isinstance(told, DeltaColumns):
            return self._told(deltas.exchanged(told, len(told.op)))
        return self._answer(deltas.no_changes() if told is None else Changes(*told, told.score[:0]))

    # Dissemination

    def disseminate(
        self,
        rows: Any,
        *,
        method: str | None = None,
        epsilon: float | None = None,
        needless: float | None = None,
        batch: bool = False,
        numbered: bool = False,
    ) -> pa.Table:
        """Apply a batch and return the tiles a server would send into a content-driven network.

        One row per message, in sending order. A message goes to every subscription with
        `lo_outer < lo <= lo_inner` and `hi_inner <= hi < hi_outer`; a null outer end means no bound.
        With `batch` the messages describe the net change, otherwise one event after the other.

        `epsilon` is for "sparse" and "dense"; the engine's own applies only there. It saves messages event by
        event; with `batch` messages are exact, because nobody then hears of an item that did not change in
        its list. `needless` is an alternative for "sparse": exact tiles are merged where the fewest hear in
        vain, as long as these are at most this share of all receipts of the call, up to 0.99; 0 merges
        nothing. `stats()` then has `received` and `needless`, and in one attribute `received_updated` and
        `needless_updated`, those of messages about the object that an event updates; see `tuning` for
        `epsilon`. With "scan" every method but "relax" gives the same exact messages.

        If a live subscription has its own k, messages have a column `k` and go only to subscriptions with
        that k; null is for everybody ("relax"). Messages of one k are in sending order. "dense" also paints
        for the engine's k: subscribers whom the server does not know have that one.

        With `numbered` there is a column `sequence`: the number of the message among all that the engine has
        sent, from 1, continued across `save` and `load`. The last one is `stats()["messages"]`. A receiver of
        all messages, such as `rankcast.Gateway`, sees from it what it has missed, and asks `preview`.

        In `stats()`, `affected` grows only where exact messages are made by looking at subscriptions; "dense"
        and "relax" never do so and cannot count it, nor can `epsilon`.
        """
        refuse_names(self._numbers, k=self._state.owned, sequence=numbered)
        chosen = schema.one_of("method", method or self._method, METHODS)
        slack = checked_slack(epsilon, needless, chosen)
        table = self._disseminate(rows, chosen, slack, "net" if batch else "online")
        if not numbered:
            return table
        last = int(self._count["messages"])
        return table.append_column(
            "sequence", pa.array(range(last - table.num_rows + 1, last + 1), pa.int64())
        )

    def _disseminate(self, rows: Any, method: str, slack: Slack, plan: str) -> pa.Table:
        """Disseminate by a plan: "online" (event after event), "coalesce" or "net" (Paint-Batch).

        "coalesce" is event after event, but with one event an object, its last. [Range §V]
        """
        from rankcast.range_topk.dissemination import protocol  # noqa: PLC0415  on first use

        batch = schema.one_of("plan", plan, ["online", "coalesce", "net"]) == "net"
        if slack == Slack() and method in APPROXIMATE:
            slack = self._slack if method == "sparse" else Slack(self._slack.epsilon)
        if self._kept is not None:
            self._kept.refuse(method, batch=batch)
        refuse_names(self._numbers, k=self._state.owned)
        events = self._read_events(rows)
        applied = events.coalesced() if plan == "coalesce" else events
        tiles = self._lists_method.disseminate(applied, method, Slack() if batch else slack, batch=batch)
        self._count["messages"] += tiles.row.size
        table = protocol.to_table(tiles, self._over, self._by, self._items, owned=self._state.owned)
        self._state.end(events)
        self._settle()
        return table

    # Explanation

    def explain(self, subscription: Any, item: Any) -> dict[str, Any]:
        """Why an object is or is not in a result: score, rank, the score to beat, what keeps it out.

        `better` are the first k objects ahead of it in the range: it enters when enough of them fall
        behind. `tiles` are its influence region, lines (lo_outer, lo_inner, hi_inner, hi_outer) with NaN for
        no bound: it is in the result exactly if (lo, hi) of the subscription lies in one of them.
        """
        self._need_lists("explain")
        mine = self._find_one(self._subscriptions, subscription, "subscription")
        row = self._find_one(self._items, item, "item")
        lists = self._lists(np.array([mine], np.int32))
        report = explain(self._state, self._over, mine, row, lists)
        return {"subscription": subscription, "item": item, **report}

    def influence(self, item: Any) -> dict[str, Any]:
        """The influence region of an object in one attribute: the lists it is in, and what bounds the region.

        `tiles` are lines (lo_outer, lo_inner, hi_inner, hi_outer), NaN for no bound, that contain exactly the
        ranges of `lo` and `hi` with `lists`; only subscriptions with the engine's k are included. `bounding`
        are the indices, in `objects_x` and `objects_y`, of the better objects at the steps of the region.
        """
        self._need_lists("influence")
        if len(self._over) > 1:
            raise InputError("the engine has several range attributes", where="influence", expected="one")
        row = self._find_one(self._items, item, "item")
        live = self._subscriptions.live()
        live = live[self._subscriptions["k"][live] == 0]
        report = region(self._state, row, live, self._lists(live))
        return {"item": item, "over": self._over[0], "by": self._by, **report}
