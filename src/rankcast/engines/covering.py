"""`CoveringTable`: which subscriptions a router must forward to its neighbours; and `maxima` of boxes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import boxes, settings, tables
from rankcast.boxes import Boxes
from rankcast.columns import Rows, arrow
from rankcast.engines.answering import AnsweringEngine
from rankcast.engines.base import ID
from rankcast.engines.brute_force import covering
from rankcast.errors import SettingError
from rankcast.indexes.slots import Slots, select

INDEXES = ("scan",)
LATER = ("kdtree", "zcurve")
GRAPHS_LATER = ("full", "poset")


class CoveringTable(AnsweringEngine):
    """The subscriptions of a router and which of them its neighbours must know.

    A subscription is a box. It is forwarded unless a live one contains it; then it is covered. One that is
    forwarded stays so when a later one contains it. After every call each live subscription is forwarded or
    contained in a forwarded one, and `covered_by` is the forwarded one registered first among those that
    contain it.

    Args:
        over: the attributes.
        graph: how many relations to covering subscriptions are kept for each.
        index: how a covering subscription is found.
        extra: "forbid" or "ignore" columns that are not known.
        tuning: none yet.

    >>> table = CoveringTable(over=["price"])
    >>> table.subscribe({"id": ["a", "b"], "price_lo": [0, 2], "price_hi": [9, 3]})["action"].to_pylist()
    ['forward', 'covered']
    >>> table.publish({"id": [1], "price": [2.5]}).to_pylist()
    [{'event': 1, 'subscription': 'a'}]
    >>> table.unsubscribe(["a"]).select(["subscription", "action"]).to_pylist()
    [{'subscription': 'a', 'action': 'withdraw'}, {'subscription': 'b', 'action': 'forward'}]
    """

    variants = tuple({"index": index} for index in INDEXES)
    counters = ("queries_subscribe", "queries_unsubscribe", "nodes_visited", "point_comparisons")

    def __init__(
        self,
        *,
        over: str | Sequence[str],
        graph: int | str = 1,
        index: str = "scan",
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        super().__init__(
            {"graph": _known_graph(graph), "index": settings.one_of("index", index, INDEXES, later=LATER)},
            {"forwarded": np.bool_},
            over=settings.attributes("over", over),
            ordered=False,
            extra=extra,
            tuning=tuning,
        )

    # The calls

    def subscribe(self, rows: Any) -> pa.Table:
        """Register subscriptions one after the other; `subscription, action, covered_by`, a row each.

        `action` is `forward` or `covered`. Of two equal boxes the earlier covers.
        """
        batch = self._read(rows, [ID, *boxes.columns(self._over)], "subscriptions")
        self._slots.require_new(batch.ids, where="subscriptions")
        given = self._read_boxes(batch)
        held = self._known()
        found, comparisons = covering.take_in_turn(given, self._boxes(held))
        fresh = self._slots.add(batch.ids)
        self._write(fresh, {**given._asdict(), "forwarded": found < 0})
        covered_by = np.where(found < 0, -1, np.concatenate([held, fresh])[found])
        self._count["queries_subscribe"] += batch.size
        self._count["point_comparisons"] += comparisons
        return self._answer(fresh, np.where(found < 0, "forward", "covered"), covered_by)

    def amend(self, rows: Any) -> pa.Table:
        """Change boxes in place; the columns of `subscribe`, net over the batch.

        One row for each given id: `forward` (neighbours must know its box), `covered` (it was, and is) or
        `withdraw` (it was forwarded, and is now covered). Then `forward` for each other one that is no longer
        covered. A forwarded one whose box stays the same stays forwarded.
        """
        batch = self._read(rows, [ID, *boxes.columns(self._over)], "subscriptions")
        amended = self._slots.require(batch.ids, where="subscriptions")
        old, new = self._boxes(amended), self._read_boxes(batch, amended)
        forwarded = self._slots["forwarded"]
        was = forwarded[amended]
        moved = ((old.lo != new.lo) | (old.hi != new.hi)).any(axis=1)
        self._write(amended, new._asdict())
        forwarded[amended[moved]] = False
        exposed = self._forward_exposed(old.at(moved & was), amended[moved])
        self._count["queries_subscribe"] += int(moved.sum())
        others = exposed[~np.isin(exposed, amended)]
        now = forwarded[amended]
        action = np.where(now, "forward", np.where(was, "withdraw", "covered"))
        covered_by = np.full(batch.size, -1, np.int32)
        covered_by[~now] = self._first_known(new.at(~now))
        return self._answer(
            np.concatenate([amended, others]),
            np.concatenate([action, np.full(others.size, "forward")]),
            np.concatenate([covered_by, np.full(others.size, -1, np.int32)]),
        )

    def unsubscribe(self, ids: Any) -> pa.Table:
        """Remove subscriptions; the columns of `subscribe`, net over the batch.

        First the given ids: `withdraw` for a forwarded one, `drop` for a covered one. Then `forward` for each
        that is no longer covered, as registered.
        """
        gone = self._slots.require(tables.read_ids(ids, where="ids"), where="ids")
        was = self._slots["forwarded"][gone]
        self._slots.release(gone)
        exposed = self._forward_exposed(self._boxes(gone[was]), gone[:0])
        return self._answer(
            np.concatenate([gone, exposed]),
            np.concatenate([np.where(was, "withdraw", "drop"), np.full(exposed.size, "forward")]),
            np.full(gone.size + exposed.size, -1, np.int32),
        )

    def publish(self, events: Any) -> pa.Table:
        """The forwarded subscriptions that contain each event: `event, subscription`.

        In the order of events, then of registration.
        """
        ids, points = self._read_events(events, nullable=False)
        known = self._known()
        held = self._boxes(known)
        found = [boxes.contains(held, point) for point in points]
        places = np.repeat(np.arange(len(found)), [len(each) for each in found])
        reached = known[np.concatenate([known[:0], *found])]
        self._count["candidates"] += len(found) * known.size
        self._count["deltas"] += reached.size
        return pa.table({"event": self._events_at(ids, places), "subscription": self._slots.take(reached)})

    def covers(self, rows: Any) -> pa.Table:
        """For each given box one live subscription that contains it, or null: `id, covered_by`.

        The ids are labels of the caller: they may repeat and may be those of live subscriptions.
        """
        batch = self._read(rows, [ID, *boxes.columns(self._over)], "boxes")
        given = boxes.read(batch, self._over, where="boxes")
        found = self._first_known(given)
        self._count["point_comparisons"] += batch.size * self._known().size
        labels = arrow(select(batch.ids, np.arange(batch.size)))
        return pa.table({"id": labels, "covered_by": self._names(found)})

    def forwarded(self) -> list[Any]:
        """The ids that neighbours must know, as registered."""
        known: list[Any] = self._slots.take(self._known()).to_pylist()
        return known

    def explain(self, subscription: Any, other: Any) -> dict[str, Any]:
        """Whether a subscription is contained in another, and in which attributes it is not."""
        mine = self._find_one(self._slots, subscription, "subscription")
        its = self._find_one(self._slots, other, "other")
        inner, outer = self._boxes(mine), self._boxes(its)
        outside = np.flatnonzero((inner.lo < outer.lo) | (inner.hi > outer.hi))
        forwarded = bool(self._slots["forwarded"][mine])
        covered_by = None if forwarded else self._names(self._first_known(self._boxes([mine])))[0].as_py()
        if outside.size:
            reason = f"{self._over[outside[0]]} is not contained: " + " in ".join(
                f"[{box.lo[outside[0]]:g}, {box.hi[outside[0]]:g}]" for box in (inner, outer)
            )
        elif mine == its:
            reason = "it is the same subscription"
        else:
            reason = "contained, but neighbours know it already" if forwarded else "contained"
        return {
            "subscription": subscription,
            "other": other,
            "contained": not outside.size,
            "outside": [self._over[place] for place in outside],
            "forwarded": forwarded,
            "covered_by": covered_by,
            "reason": reason,
        }

    # Helpers

    def _known(self) -> Rows:
        """The forwarded rows, as registered."""
        live = self._slots.live()
        known: Rows = live[self._slots["forwarded"][live]]
        return known

    def _first_known(self, given: Boxes) -> Rows:
        """For each box the forwarded row registered first among those that contain it, or -1."""
        known = self._known()
        found = covering.first_containing(given, self._boxes(known))
        return np.where(found < 0, -1, known[found]) if known.size else found

    def _forward_exposed(self, lost: Boxes, moved: Rows) -> Rows:
        """Forward what nothing covers: rows that moved, and covered ones that lay in a lost box.

        `lost` are boxes that were forwarded and are gone; a covered one that lay in none of them lies in a
        forwarded one that is still there. Returns the rows that are forwarded now, as registered.
        """
        live = self._slots.live()
        forwarded = self._slots["forwarded"]
        known, covered = live[forwarded[live]], live[~forwarded[live]]
        has_moved = np.isin(covered, moved)
        open_: Rows = covered[has_moved | covering.within_any(self._boxes(covered), lost)]
        places, comparisons = covering.maximal(self._boxes(open_), self._boxes(known))
        forwarded[open_[places]] = True
        self._count["queries_unsubscribe"] += open_.size - int(has_moved.sum())
        self._count["point_comparisons"] += comparisons
        return open_[places]

    def _names(self, rows: Rows) -> pa.Array:
        """The ids of rows, null for -1."""
        found = rows >= 0
        places = pa.array(np.cumsum(found) - 1, mask=~found)
        return self._slots.take(rows[found]).take(places)

    def _answer(self, rows: Rows, action: Any, covered_by: Rows) -> pa.Table:
        """The table of actions; ends the batch."""
        table = pa.table(
            {
                "subscription": self._slots.take(rows),
                "action": pa.array(action, pa.string()),
                "covered_by": self._names(covered_by),
            }
        )
        self._count["deltas"] += table.num_rows
        self._slots.settle()
        return table


def maxima(rows: Any, *, over: str | Sequence[str]) -> pa.Table:
    """The boxes that no other box contains, as a table with the column `id`, in the order given.

    `rows` has `id` and, for each attribute of `over`, `<attribute>_lo` and `<attribute>_hi` (null or absent:
    unbounded). Of equal boxes the first stays. Cost: O(n log n + n m d) for n boxes of which m stay.

    >>> maxima({"id": [1, 2, 3], "x_lo": [0, 1, 4], "x_hi": [3, 2, 5]}, over="x")["id"].to_pylist()
    [1, 3]
    """
    names = settings.attributes("over", over)
    batch = tables.read(rows, [ID, *boxes.columns(names)], where="boxes")
    Slots.refuse_duplicates(batch.ids, where="boxes")
    given = boxes.read(batch, names, where="boxes")
    places, _ = covering.maximal(given, given.at(slice(0)))
    return pa.table({"id": arrow(select(batch.ids, places))})


def _known_graph(graph: object) -> int:
    """The setting `graph`; only the relation graph with one relation each is there."""
    if graph in GRAPHS_LATER or (not isinstance(graph, str) and settings.whole("graph", graph) > 1):
        raise SettingError(f"graph={graph!r} is not available yet", expected="1")
    if isinstance(graph, str):
        raise SettingError(
            f"graph is {graph!r}", expected=f"a whole number or one of: {', '.join(GRAPHS_LATER)}"
        )
    return 1
