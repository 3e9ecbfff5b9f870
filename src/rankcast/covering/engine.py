"""`CoveringTable`: which subscriptions a router must forward to its neighbours.

The engine reads and checks tables, keeps ids and boxes, counts, and writes answers. Its `Relations`, a
relation graph over indexes of boxes or a scan, know which subscription covers which. With the default
graph, calls of a few rows go through `FastPath`, which does the same in one kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core.answering_engine import AnsweringEngine
from rankcast.core.engine import ID, Part
from rankcast.core.spec import SUBSCRIPTIONS, Answer, Input, Spec, Undivided, load
from rankcast.covering import calls
from rankcast.covering.brute_force import Scan
from rankcast.covering.calls import OP, WHERE, Commands, FastPath, read_commands
from rankcast.covering.graph import GRAPHS, NO_ROWS, Outcome, RelationGraph, Relations, known_graph
from rankcast.covering.kernels import index as index_kernels
from rankcast.covering.kernels.calls import ACTION, BY, FORWARD, ROW
from rankcast.covering.kernels.containment import FORWARDED, GONE, LEAVING, Subscriptions
from rankcast.covering.merging import Merging, known_merge
from rankcast.covering.table_boxes import TableBoxes
from rankcast.structures import integrity
from rankcast.structures.ids import select
from rankcast.tables import boxes, read, schema
from rankcast.tables.categories import Given
from rankcast.tables.categories import setting as categories_setting
from rankcast.tables.schema import NO_VALUES, Batch, Form, Rows, arrow, integer_ids

INDEXES = ("kdtree", "zcurve", "scan")


def relations_for(index: str, graph: int | str, attributes: int) -> Relations:
    """The relations for these settings."""
    if index == "scan":
        return Scan()
    if isinstance(graph, str):
        graph_class: Callable[[str, int], Relations] = load(GRAPHS[graph])
        return graph_class(index, attributes)
    return RelationGraph(index, attributes, graph)


class CoveringTable(AnsweringEngine):
    """The subscriptions of a router and which of them its neighbours must know.

    A subscription is a box, with sets of categories if the table has any. It is forwarded unless a live one
    contains it; then it is covered. A forwarded one stays forwarded when a later one contains it. After every
    call each live subscription is forwarded or contained in a forwarded one.

    Args:
        over: the attributes.
        graph: how many covering subscriptions to remember for each covered one (G_k), up to 65,536, at 16
            bytes each; "full" (G*): all; "poset": those with none between. All forward the same.
        index: how to find a covering subscription: "kdtree", "zcurve" or "scan", which remembers nothing.
        categories: the attributes that are categories (strings, integers or booleans), as a list, or as a
            dict with a `Hierarchy` for those that have one. A subscription then has lists: the value must be
            in `<attribute>_in` and must not be in `<attribute>_not_in`; null accepts everything. A
            subscription is contained in another one that accepts everything it accepts.
        merge: forward one box for several if at most this share of it lies in none of them (0.1: a tenth;
            categories count by their values). Each group is forwarded under the id of one of its
            subscriptions, see `forwarded_boxes`. None: no merging.
        extra: "forbid" or "ignore" unknown columns.
        tuning: none yet.

    >>> table = CoveringTable(over=["price"])
    >>> table.subscribe({"id": ["a", "b"], "price_lo": [0, 2], "price_hi": [9, 3]})["action"].to_pylist()
    ['forward', 'covered']
    >>> table.publish({"id": [1], "price": [2.5]}).to_pylist()
    [{'event': 1, 'subscription': 'a'}]
    >>> table.covers({"id": [1, 2], "price_lo": [1, -1], "price_hi": [4, 4]})["covered_by"].to_pylist()
    ['a', None]
    >>> table.amend({"id": ["b"], "price_hi": [20]}).select(["subscription", "action"]).to_pylist()
    [{'subscription': 'b', 'action': 'forward'}]
    >>> table.explain("b", "a")["outside"], table.forwarded()
    (['price'], ['a', 'b'])

    Five subscriptions after the example of the paper (its figures 1 to 4, some ends are ours), by graph:

    >>> five = {"id": [1, 2, 3, 4, 5], "x_lo": [-3, 4, 5, 0, 1], "x_hi": [9, None, None, 5, 2]}
    >>> for graph in (1, "poset"):
    ...     table = CoveringTable(over=["x"], graph=graph)
    ...     print(table.subscribe(five)["covered_by"].to_pylist(), table.forwarded())
    ...     print(table.unsubscribe([2])["subscription"].to_pylist(), table.forwarded())
    [None, None, 2, 1, 1] [1, 2]
    [2, 3] [1, 3]
    [None, None, 2, 1, 1] [1, 2]
    [2, 3] [1, 3]
    """

    counters = (
        "queries_subscribe",
        "queries_unsubscribe",
        "nodes_visited",
        "nodes_visited_subscribe",
        "nodes_visited_unsubscribe",
        "point_comparisons",
        "point_comparisons_subscribe",
        "point_comparisons_unsubscribe",
        "freed",
        "freed_most",
    )
    spec = Spec(
        (SUBSCRIPTIONS, Input("events", ("publish",), False, "event", lasting=False)),
        Answer("actions", "event"),
        Undivided(
            "A router's table is one sequence of commands, which does not divide over shards.",
            "Use rankcast.spark.uncovered for boxes in bulk, or the engine itself in one process.",
        ),
        title="which subscriptions must a router forward?",
    )
    variants = tuple(
        {"index": index, "graph": graph}
        for index, graph in [
            ("kdtree", 1),
            ("kdtree", 2),
            ("kdtree", "full"),
            ("kdtree", "poset"),
            ("zcurve", 1),
            ("zcurve", 3),
            ("zcurve", "full"),
            ("zcurve", "poset"),
            ("scan", 1),
        ]
    )

    def __init__(
        self,
        *,
        over: str | Sequence[str],
        graph: int | str = 1,
        index: str = "kdtree",
        categories: Sequence[str] | Mapping[str, Any] = (),
        merge: float | None = None,
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        kind, by = known_graph(graph), schema.one_of("index", index, INDEXES)
        names = schema.attributes("over", over)
        hierarchies = categories_setting(categories, names)
        bound = known_merge(merge)
        self._held = TableBoxes(names, hierarchies)
        # Further ones only where they are set: the names of histories begin with the settings.
        more = {**({} if bound is None else {"merge": bound}), **self._held.settings}
        super().__init__(
            {"graph": kind, "index": by, **more},
            {"standing": np.int8},  # the status of each row, under the name that snapshots have
            over=names,
            ordered=False,
            extra=extra,
            tuning=tuning,
            width=self._held.width,
        )
        columns = [ID, *boxes.columns(self._held.numbers), *self._held.columns()]
        self._form, self._commands = Form(columns), Form([OP, *columns])
        self._event_form = Form([ID, *self._held.event_columns()])
        self._relations: Any = relations_for(by, kind, self._held.width)
        self._merging = None if bound is None else Merging(bound, self._held)
        self._fast: FastPath | None = None
        if isinstance(self._relations, RelationGraph) and self._merging is None and not hierarchies:
            self._fast = FastPath(self._slots, self._relations, names, self._turn)

    def _parts(self) -> dict[str, Part]:
        parts = {**super()._parts(), "relation": self._relations, **self._held.parts()}
        return parts if self._merging is None else {**parts, "merging": self._merging}

    def _intervals(self) -> boxes.Boxes:
        return self._held.intervals(super()._intervals())

    def _check_restored(self) -> None:
        super()._check_restored()
        subs = self._table()
        integrity.within(subs.status, GONE, LEAVING + 1, "subscription.standing")
        there = subs.sequence >= 0
        integrity.need(
            np.array_equal(subs.status != GONE, there), "subscription.standing", "is not of the live"
        )
        self._held.check_restored(self._slots, there)
        self._relations.check_restored(subs)
        if self._merging is not None:
            self._merging.check_restored(subs)

    def _complete(self) -> None:
        super()._complete()
        self._relations.complete(self._table())
        if self._merging is not None:
            self._merging.complete(self._table())

    # The calls

    def subscribe(self, rows: Any) -> pa.Table:
        """Register subscriptions in turn; returns `subscription, action, covered_by`, one row each.

        `action` is `forward` or `covered`. Of two equal boxes the earlier one covers.

        With `merge`, merging is net over the batch: a subscription whose box is part of another's box is
        `covered` by that one. More rows follow, as registered: `forward` for each whose new box neighbours
        must learn (see `forwarded_boxes`), `withdraw` for each that is now part of another's box.
        """
        batch = self._read(rows, self._form, "subscriptions")
        if self._fast is not None and batch.size:
            return self._fast.subscribe(batch)
        self._slots.require_new(batch.ids, where="subscriptions")
        given, lists = self._read_boxes(batch), self._held.given(batch, where="subscriptions")
        self._begin()
        fresh = self._slots.add(batch.ids)
        self._write_boxes(fresh, given, lists)
        covered_by = self._relations.subscribe(self._table(), fresh)
        self._count["queries_subscribe"] += batch.size
        self._tally("subscribe")
        if self._merging is not None:
            return self._answer_merged(fresh, fresh, NO_ROWS, covered_by)
        return self._answer(fresh, calls.subscribe_actions(covered_by), covered_by)

    def amend(self, rows: Any) -> pa.Table:
        """Change boxes in place; returns the columns of `subscribe`, net over the batch.

        One row for each given id: `forward` (neighbours must learn its box), `covered` (it was, and is) or
        `withdraw` (it was forwarded, and is now covered). Then `forward` for each other one that is no longer
        covered. A forwarded one whose box stays the same stays forwarded.
        """
        batch = self._read(rows, self._form, "subscriptions")
        amended = self._slots.require(batch.ids, where="subscriptions")
        subs = self._table()
        was = subs.status[amended]
        calls.refuse_leaving(batch.ids, was)
        old, new = self._boxes(amended), self._read_boxes(batch, amended)
        lists = self._held.given(batch, where="subscriptions")
        has_moved = ((old.lo != new.lo) | (old.hi != new.hi)).any(axis=1) | self._held.moved(amended, lists)
        moved = amended[has_moved]
        self._begin()
        change = self._relations.amend(subs, moved, lambda: self._write_boxes(amended, new, lists))
        subs = self._table()
        self._count["queries_subscribe"] += moved.size
        self._count_freed(change.freed)
        self._tally("subscribe")
        if self._merging is not None:
            covered_by = self._relations.coverers(subs, amended)
            return self._answer_merged(amended, np.concatenate([moved, change.forwarded]), moved, covered_by)
        action = calls.amend_actions(was, subs.status[amended])
        covered_by = self._relations.coverers(subs, amended)
        forwarded = change.forwarded
        others = forwarded[~np.isin(forwarded, amended)] if forwarded.size else NO_ROWS
        if not others.size:
            return self._answer(amended, action, covered_by)
        return self._answer(
            np.concatenate([amended, others]),
            np.concatenate([action, np.full(others.size, FORWARD, np.int8)]),
            np.concatenate([covered_by, np.full(others.size, -1, np.int32)]),
        )

    def unsubscribe(self, ids: Any, *, limit: int | None = None) -> pa.Table:
        """Remove subscriptions; returns the columns of `subscribe`, net over the batch.

        First the given ids: `withdraw` for a forwarded one, `drop` for a covered one. Then `forward` for each
        that is no longer covered, as registered.

        A subscription that covers very many may free all of them at once. With `limit` a call looks at no
        more than that many covered ones, so it is short and returns at most `limit` rows `forward`. An id
        whose covered ones have not all been looked at has no row yet: it is still live, known to neighbours
        and matched by `publish`, but covers no new subscriptions. Call again with the ids that have had no
        row, until all have: the withdrawal comes with the last portion, so nothing is uncovered at any time.
        An id on its way out cannot be amended; a call without `limit` completes it.

        >>> table = CoveringTable(over=["x"])
        >>> _ = table.subscribe({"id": [1, 2, 3], "x_lo": [0, 1, 4], "x_hi": [9, 2, 5]})
        >>> table.unsubscribe([1], limit=1).select(["subscription", "action"]).to_pylist()
        [{'subscription': 2, 'action': 'forward'}]
        >>> table.unsubscribe([1], limit=1).select(["subscription", "action"]).to_pylist()
        [{'subscription': 1, 'action': 'withdraw'}, {'subscription': 3, 'action': 'forward'}]
        """
        if limit is not None:
            schema.whole("limit", limit)
        given = read.read_ids(ids, where="ids")
        if self._fast is not None and limit is None and given.size:
            return self._fast.unsubscribe(given)
        rows = self._slots.require(given, where="ids")
        was = self._slots["standing"][rows]
        self._begin()
        if limit is None:
            change = self._relations.unsubscribe(self._table(), rows)
            self._count_freed(change.freed)
        else:
            change = self._release(rows, limit)
        gone, forwarded = change.gone, change.forwarded
        if self._merging is not None:
            self._tally("unsubscribe")
            return self._answer_merged(gone, np.concatenate([gone, forwarded]), NO_ROWS, None)
        left = was if gone.size == rows.size else was[np.isin(rows, gone)]
        self._tally("unsubscribe")
        self._held.remove(gone)
        self._slots.release(gone)
        done = np.concatenate([gone, forwarded]) if forwarded.size else gone
        return self._answer(done, calls.unsubscribe_actions(left, forwarded.size))

    def follow(self, commands: Any) -> pa.Table:
        """Follow a sequence of commands, one by one; returns the columns of `subscribe`, in turn.

        `commands` has `op` (`subscribe` or `unsubscribe`), `id` and the columns of boxes, which an
        unsubscribe ignores. It does the same as one call per row, without reading a table for each. An id may
        come, leave and come again. If one command is bad, all are refused.

        >>> from rankcast import CoveringTable
        >>> table = CoveringTable(over=["x"])
        >>> ops = ["subscribe", "subscribe", "unsubscribe"]
        >>> commands = {"op": ops, "id": [1, 2, 1], "x_lo": [0, 1, None], "x_hi": [9, 2, None]}
        >>> table.follow(commands).select(["subscription", "action"]).to_pydict()
        {'subscription': [1, 2, 1, 2], 'action': ['forward', 'covered', 'withdraw', 'forward']}
        """
        batch = self._read(commands, self._commands, WHERE)
        parts = list(read_commands(batch, self._held.numbers, self._slots).runs())
        lists = self._held.given(batch, where=WHERE)
        starts = np.cumsum([0, *(part.ids.size for part in parts)])
        self._begin()
        if self._merging is not None:  # where a batch is net
            answers = [self._own(*each) for each in calls.one_by_one(parts, self._held, lists)]
        else:
            answers = [
                self._follow_part(part, lists, start) for part, start in zip(parts, starts, strict=False)
            ]
        return pa.concat_tables(answers) if answers else self._answer(NO_ROWS, NO_ROWS.astype(np.int8))

    def publish(self, events: Any) -> pa.Table:
        """The forwarded subscriptions that contain each event: `event, subscription`.

        In the order of events, then of registration. With `merge` these are the subscriptions whose forwarded
        boxes contain it; `stats()["false_traffic"]` counts the rows where no subscription contains it.
        """
        batch = self._read(events, self._event_form, "events")
        ids, queries = batch.ids, self._held.events(batch)
        self._event_ids.find(ids, where="events")
        self._begin()
        self._note_events(ids)
        reached, ends = self._relations.stab(self._table(), queries)
        if self._merging is not None:
            reached, ends = self._merging.stab(self._table(), queries, reached, ends)
        self._count["candidates"] += self._tally(None)
        self._count["deltas"] += reached.size
        slots, whole = self._slots, ids.kind == "int" and reached.size
        codes = NO_VALUES if slots.kind == "str" else slots["code"]
        told = index_kernels.told(reached, ends, ids.values, codes)
        event = arrow(integer_ids(told[0])) if whole else self._events_at(ids, told[0])
        subscription = slots.take(reached) if slots.kind == "str" else arrow(integer_ids(told[1]))
        return pa.Table.from_arrays([event, subscription], ["event", "subscription"])

    def covers(self, rows: Any, *, k: int = 1) -> pa.Table:
        """For each given box up to k live subscriptions that contain it, one row each: `id, covered_by`.

        A box that lies in none has one row with null. The ids are the caller's labels: they may repeat and
        may equal those of live subscriptions.
        """
        batch = self._read(rows, self._form, "boxes")
        given = self._held.read(batch, None, where="boxes"), self._held.given(batch, where="boxes")
        queries = self._held.queries(*given)
        most = min(schema.whole("k", k), max(len(self), 1))
        self._begin()
        found = self._relations.covers(self._table(), queries, most)
        self._tally(None)
        listed = found >= 0
        listed[:, 0] = True  # a box that lies in none has one row
        labels = arrow(select(batch.ids, np.nonzero(listed)[0]))
        return pa.table({"id": labels, "covered_by": self._slots.take_known(found[listed])})

    def forwarded(self) -> list[Any]:
        """The ids that neighbours must know, as registered."""
        known: list[Any] = self._slots.take(self._told_rows()).to_pylist()
        return known

    def forwarded_boxes(self) -> pa.Table:
        """What neighbours must know, as registered: `subscription`, ends and lists of its box, and `members`.

        An unbounded end is null. `members` are the ids of the forwarded subscriptions that the box
        stands for, including itself; without `merge` each stands for itself.

        >>> table = CoveringTable(over=["x"], merge=0.2)
        >>> table.subscribe({"id": [1, 2, 3], "x_lo": [0, 4, 90], "x_hi": [5, 9, 95]}).to_pylist()[1]
        {'subscription': 2, 'action': 'covered', 'covered_by': 1}
        >>> table.forwarded_boxes().to_pydict()
        {'subscription': [1, 3], 'x_lo': [0.0, 90.0], 'x_hi': [9.0, 95.0], 'members': [[1, 2], [3]]}
        """
        rows = self._told_rows()
        told, sets = (self._boxes(rows), None) if self._merging is None else self._merging.hulls(rows)
        groups = [[row] if self._merging is None else self._merging.members(row) for row in rows.tolist()]
        ends = np.cumsum([0, *map(len, groups)])
        flat = np.array([row for group in groups for row in group], np.int32)
        members = pa.ListArray.from_arrays(pa.array(ends, pa.int32()), self._slots.take(flat))
        return pa.table(
            {"subscription": self._slots.take(rows), **self._held.told(told, rows, sets), "members": members}
        )

    def _told_rows(self) -> Rows:
        """The rows that neighbours must know, as registered."""
        live = self._slots.live()
        known: Rows = live[self._slots["standing"][live] >= FORWARDED]
        return known if self._merging is None else self._merging.leaders(known)

    def explain(self, subscription: Any, other: Any) -> dict[str, Any]:
        """Whether a subscription is contained in another, and in which attributes it is not."""
        mine = self._find_one(self._slots, subscription, "subscription")
        its = self._find_one(self._slots, other, "other")
        above = self._relations.coverers(self._table(), np.array([mine], np.int32))
        return {
            "subscription": subscription,
            "other": other,
            **calls.explained(self._over, self._table(), mine, its, self._held),
            "covered_by": self._slots.take_known(above)[0].as_py(),
        }

    def stats(self) -> dict[str, Any]:
        """Counters since the start; with `merge` also `false_traffic`."""
        more = {} if self._merging is None else {"false_traffic": self._merging.false_traffic}
        return {**self._counters(), **more}

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The whole state: a small JSON header and named arrays (not copied)."""
        header, arrays = super().state()
        return {**header, "counters": self._counters()}, arrays

    # Helpers

    def _follow_part(self, part: Commands, lists: list[Given], start: int) -> pa.Table:
        """Follow a run of commands, in which an id is added, removed, or added and then removed."""
        added = np.flatnonzero(~part.removals)
        fresh = self._slots.add(select(part.ids, added))
        box = self._held.widened(part.boxes.at(added))
        self._write_boxes(fresh, box, [each.at(start + added) for each in lists])
        rows = self._slots.find(part.ids, where=WHERE)
        outcome = self._relations.follow(self._table(), part.removals, rows)
        self._held.remove(rows[part.removals])
        self._slots.release(rows[part.removals])
        self._count["queries_subscribe"] += fresh.size
        self._count_freed(outcome.freed, outcome.freed_most)
        self._count_searched("subscribe", outcome.subscribing)
        self._count_searched("unsubscribe", outcome.unsubscribing)
        rows, action, by = (np.ascontiguousarray(outcome.actions[:, field]) for field in (ROW, ACTION, BY))
        return self._answer(rows, action.astype(np.int8), by)

    def _counters(self) -> dict[str, int]:
        """The counters, including those of the fast path."""
        return dict(self._count) if self._fast is None else self._fast.counters_with(self._count)

    def _count_freed(self, freed: int, most: int | None = None) -> None:
        """Count covered ones that had to look for another cover, and the most at once."""
        self._count["queries_unsubscribe"] += freed
        self._count["freed"] += freed
        self._count["freed_most"] = max(self._count["freed_most"], freed if most is None else most)

    def _tally(self, call: str | None) -> int:
        """Count what the relations have searched, also for a call; returns the boxes compared."""
        searched = self._relations.tally()
        self._count_searched(call, searched)
        return int(searched[1])

    def _count_searched(self, call: str | None, searched: tuple[int, int]) -> None:
        """Count nodes visited and boxes compared, also for a call."""
        for name, value in zip(("nodes_visited", "point_comparisons"), searched, strict=True):
            self._count[name] += value
            if call is not None:
                self._count[f"{name}_{call}"] += value

    def _table(self) -> Subscriptions:
        """The subscriptions by row, as the relations take them."""
        slots = self._slots
        ends = slots["lo"], slots["hi"]
        return Subscriptions(*ends, slots["standing"], slots["sequence"], self._held.arrays())

    def _read_boxes(self, batch: Batch, rows: Rows | None = None) -> boxes.Boxes:
        return self._held.read(batch, None if rows is None else self._boxes(rows), where="subscriptions")

    def _write_boxes(self, rows: Rows, given: boxes.Boxes, lists: list[Given]) -> Subscriptions:
        """Write boxes and sets of rows; returns all subscriptions afterwards."""
        self._slots["lo"][rows], self._slots["hi"][rows] = given
        self._held.write(self._slots, rows, lists)
        return self._table()

    def _answer(self, rows: Rows, action: Any, covered_by: Rows | None = None) -> pa.Table:
        """The table of actions; without `covered_by` no row is covered. Ends the batch."""
        self._count["deltas"] += rows.size
        names = self._slots.take(rows)
        if covered_by is None or (rows.size == 1 and covered_by[0] < 0):
            above = calls.null_column(rows.size, names.type)
        else:
            above = self._slots.take_known(covered_by)
        self._slots.settle()
        self._held.settle()
        return calls.actions_table(names, action, above)

    def _answer_merged(self, given: Rows, touched: Rows, moved: Rows, covered_by: Rows | None) -> pa.Table:
        """Merge what is forwarded now; returns the table of actions: of the given rows, then of others.

        `touched` rows have another status, `moved` ones another box. Without `covered_by` the given ones
        leave.
        """
        assert self._merging is not None
        actions = self._merging.actions(self._table(), given, touched, moved, covered_by)
        if covered_by is None:
            self._held.remove(given)
            self._slots.release(given)
        return self._answer(*actions)

    def _release(self, rows: Rows, limit: int) -> Outcome:
        """Remove rows in turn up to the limit; the last one may be only partly removed."""
        gone, forwarded, left = [rows[:0]], [rows[:0]], limit
        for row in rows:
            change = self._relations.release(self._table(), int(row), left)
            self._count_freed(change.freed)
            gone.append(change.gone)
            forwarded.append(change.forwarded)
            left -= change.freed
            if not change.gone.size or left <= 0:
                break
        freed = np.concatenate(forwarded)
        freed = freed[np.argsort(self._slots["sequence"][freed])]
        return Outcome(np.concatenate(gone), freed, limit - left)
