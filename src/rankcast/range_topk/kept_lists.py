"""The method of `RangeTopK` that keeps the lists of all subscriptions current, in any number of attributes.

`KeptLists` follows the calls of the engine; a store of lists does the work. `interval` has the store for one
attribute, `boxes` the one for several. After `disseminate`, which need not change any list, lists may be
stale: those that somebody asks for are filled again, all of them before events are published. A snapshot of
stale lists is one, too: what boards hold then has no meaning, and is not looked at before it is filled again.
The lists of an engine that keeps none are always stale.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import Part
from rankcast.range_topk.boxes import BoxLists
from rankcast.range_topk.interval import IntervalLists
from rankcast.range_topk.kernels.checks import Listed
from rankcast.range_topk.size_classes import each_class
from rankcast.range_topk.state import Events, ObjectIndex, RangeState, Slack, TileRows
from rankcast.structures import integrity
from rankcast.structures.arrays import Names, grown
from rankcast.structures.diff import DeltaColumns, ListSnapshot
from rankcast.structures.topk_lists import ENTER, Deltas
from rankcast.tables.boxes import Boxes
from rankcast.tables.deltas import Changes, External, Lists, empty_lists, no_changes
from rankcast.tables.schema import Floats, Ints, Rows, arrow, integer_ids

FEW = 16  # so many stale lists are searched one by one in the time that filling one of all takes


class Sender(Protocol):
    """The dissemination of one store, loaded when it is first asked for."""

    def refuse(self, method: str, *, batch: bool) -> None:
        """Refuse a method that the store does not have."""

    def send(self, kept: KeptLists, events: Events, method: str, slack: Slack, *, batch: bool) -> TileRows:
        """Apply a batch; the messages that tell those affected."""


class KeptLists:
    """Objects, subscriptions and lists in step with the engine's state.

    Invariants: the objects of the store are those of the state, with their keys and labels; unless `stale`,
    the board of every live subscription is its current list. If `stale`, it is so of those in `_fresh`.
    """

    def __init__(self, state: RangeState, begin: Callable[[], None]) -> None:
        self.range_state = state
        self._begin = begin  # a change of the engine that cannot be broken off
        self.store: IntervalLists | BoxLists = (
            IntervalLists(ObjectIndex(), listless=state.listless)
            if state.width == 1
            else BoxLists(state.width, state.side, listless=state.listless)
        )
        self.stale = state.listless
        self._fresh: NDArray[np.bool_] = np.zeros(0, np.bool_)  # by row
        self.relabelled = 0
        self._sender: Sender | None = None

    def parts(self) -> dict[str, Part]:
        """Itself: the trees and boards."""
        return {"painted": self}

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The trees and boards, and whether these are stale; points that moved come to their places first."""
        if isinstance(self.store, IntervalLists) and self.store.unsettled:
            self._begin()
        header: dict[str, Any] = {"rooms": self.store.classed.sizes.state()}
        return {**header, **({"stale": True} if self.stale else {})}, self.store.arrays()

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> None:
        """Take over what `state` gave."""
        stale = header.get("stale", False)
        integrity.need(stale is True or (stale is False and not self.range_state.listless), "stale", "is odd")
        self.stale = stale
        self.store.restore(arrays, header.get("rooms", {}))

    def check(self) -> None:
        """Refuse trees and boards from a snapshot that are not those of the state."""
        state, objects = self.range_state, self.range_state.objects
        live = state.subscriptions._live()
        integrity.within(state.subscriptions["k"], 0, integrity.MOST, "k")
        own = state.subscriptions["k"]
        k = np.where(own > 0, own, state.k)
        rows = objects._live()
        integrity.finite(objects["y"][rows], "y")
        integrity.finite(objects["x"][rows], "x")
        there = objects["sequence"] >= 0
        there[objects.used :] = False
        listed = Listed(there, objects["x"], state.key(objects["y"]), objects.label)
        ends = (state.subscriptions["lo"], state.subscriptions["hi"])
        self.store.check_subscriptions(k, live, ends, None if self.stale else listed)
        self.store.check_objects(rows, objects["x"][rows], state.key(objects["y"][rows]))

    # Subscriptions

    def entered(self, rows: Rows) -> None:
        """Index new subscriptions and fill their boards."""
        if rows.size:
            self.store.add(rows, *self._ends(rows), self.range_state.k_of(rows))
            self._mark(rows)

    def leaving(self, rows: Rows) -> None:
        """Forget subscriptions."""
        if rows.size:
            self.store.remove(rows, self.range_state.k_of(rows))

    def amended(self, rows: Rows, former_k: Ints) -> None:
        """Index subscriptions anew that have other boxes, or had another k, and fill their boards."""
        if not rows.size:
            return
        k = self.range_state.k_of(rows)
        same = k == former_k
        stays, others = (rows, rows[:0]) if same.all() else (rows[same], rows[~same])
        self.store.move(stays, *self._ends(stays), k[same])
        self.store.remove(others, former_k[~same])
        self.entered(others)
        self._mark(rows)

    def _ends(self, rows: Rows) -> tuple[Floats, Floats]:
        """The lower and upper ends of subscriptions as the store takes them."""
        return self.store.ends(self.range_state.boxes(rows))

    def lists(self, rows: Rows) -> Lists:
        """The current results of the given subscriptions, read off their boards."""
        self.refresh(rows)
        return self._listed(self.store, rows, self.range_state.k_of(rows))

    def preview(self, boxes: Boxes, k: Ints) -> Lists:
        """The results that boxes would have: those of a store of their own over the same objects."""
        rows, store = np.arange(len(k), dtype=np.int32), self.store.beside()
        if rows.size:
            store.add(rows, *store.ends(boxes), k)
        return self._listed(store, rows, k)

    def _listed(self, store: IntervalLists | BoxLists, rows: Rows, k: Ints) -> Lists:
        """The lists of a store, read off its boards."""
        classed, values = store.classed, self.range_state.objects["y"]
        keys = each_class(classed.sizes.keys(rows, k))
        found = [Lists(*classed.listed(key, rows[mine], values)) for key, mine in keys]
        if len(found) < 2:
            return found[0] if found else empty_lists()
        joined = Lists._make(np.concatenate(columns) for columns in zip(*found, strict=True))
        place = np.empty(int(rows.max()) + 1, np.int64)
        place[rows] = np.arange(rows.size)
        return joined.at(np.lexsort((joined.rank, place[joined.subscription])))

    def held(self, rows: Rows) -> ListSnapshot:
        """Copies of the lists of some subscriptions."""
        self.refresh(rows)
        return self.store.classed.snapshot(rows, self.range_state.k_of(rows))

    def since(self, held: ListSnapshot, rows: Rows) -> Changes:
        """The changes from lists that were held to those of now: leaves and enters, as no object changed."""
        y = self.range_state.objects["y"]
        deltas = self.store.changes_since(held, rows, self.range_state.k_of(rows), y)
        former = deltas.score[:0]
        if not self.range_state.alone:
            former = np.where(deltas.op == ENTER, np.nan, y[deltas.item])
        return Changes(*deltas, former)

    # The fast path of one attribute: from boards to ids as shown outside, in one pass

    def names(self) -> Names | None:
        """Ids and values by row; None unless there is one attribute, one k, no open list, and integer ids."""
        store = self.store
        lists = isinstance(store, IntervalLists) and not store.listless and store.ks.size
        return self.range_state.names() if lists and not [*store.classed.indexes][1:] else None

    def external(self, rows: Rows, names: Names, *, scored: bool) -> External:
        """The current results with the ids of outside, given that `names` are not None."""
        self.refresh(rows)
        assert isinstance(self.store, IntervalLists)
        (index,) = self.store.classed.indexes.values()
        subscription, item, score, rank = index.external(rows, names, scored=scored)
        return External(arrow(integer_ids(subscription)), arrow(integer_ids(item)), score, rank)

    def replace(self, rows: Rows, names: Names) -> tuple[DeltaColumns, int]:
        """Index subscriptions anew with other ranges; the deltas as shown outside, and how many there are."""
        self.refresh(rows)
        assert isinstance(self.store, IntervalLists)
        return self.store.replace(rows, *self._ends(rows), names)

    # Events

    def publish(self, events: Events) -> Changes:
        """Apply a batch to objects and lists; the net change of every list."""
        if not events.row.size:
            return no_changes()
        objects = self.range_state.objects
        before: Floats = objects["y"][events.row]
        deltas = self.publish_alone(events)
        if deltas is None:
            return no_changes()
        assert isinstance(deltas, Deltas)
        subscription, op, item, score, rank = deltas
        former = np.where(op == ENTER, np.nan, objects["y"][item])
        rows, place = np.unique(events.row, return_index=True)
        where = np.minimum(np.searchsorted(rows, item), len(rows) - 1)
        moved = (rows[where] == item) & (op != ENTER)
        former[moved] = before[place[where[moved]]]
        return Changes(subscription.copy(), op.copy(), item.copy(), score, rank, former)

    def publish_alone(self, events: Events) -> Deltas | DeltaColumns | None:
        """The same for a batch that is one call; rows that are written out before the next, or None."""
        state = self.range_state
        if self.stale:
            self.refresh()
        if state.objects.relabelled != self.relabelled:
            self.follow_labels(events)
        if self.store.classed.holds_wide:
            self.make_room(events)
        return self.store.publish(state, events)

    def make_room(self, events: Events) -> None:
        """Move open lists that the objects which come or move in a batch might fill."""
        objects = self.range_state.objects
        x, y = objects["x"][events.row], objects["y"][events.row]
        there, was = ~np.isnan(events.y), ~np.isnan(y)
        comes = there & (~was | (x != events.x).any(axis=1))
        goes = was & (~there | comes)
        self.store.make_room(events.x[comes], int(goes.sum()), self.range_state.k_of)

    def follow_labels(self, events: Events) -> None:
        """Give the store the tie labels of new objects, or of all objects if they were spread anew."""
        objects = self.range_state.objects
        rows = np.unique(events.row)
        if objects.relabelled != self.relabelled:
            rows, self.relabelled = objects.live(), objects.relabelled
        self.store.set_labels(rows, objects.label[rows])

    def outdate(self) -> None:
        """Note that all lists are stale."""
        self.stale = True
        self._fresh[:] = False

    def refresh(self, rows: Rows | None = None) -> None:
        """Fill the boards of some subscriptions again if they are stale, or all of them.

        Lists that take long are taken out and put in again, so it is a change also where somebody only reads.
        """
        if not self.stale:
            return
        self._begin()
        if rows is not None:
            self._reserve(rows)
            behind = rows[~self._fresh[rows]]
            if FEW * behind.size <= len(self.range_state.subscriptions):
                self.store.renew(behind, *self._ends(behind), self.range_state.k_of(behind))
                self._mark(behind)
                return
        self.store.refill(self.range_state.k_of)
        self.stale = False

    def _mark(self, rows: Rows) -> None:
        """Note that the lists of some subscriptions are not stale."""
        if self.stale:
            self._reserve(rows)
            self._fresh[rows] = True

    def _reserve(self, rows: Rows) -> None:
        length = int(rows.max(initial=-1)) + 1
        if length > len(self._fresh):
            self._fresh = grown(self._fresh, max(length, len(self._fresh) * 5 // 4), False)

    # Dissemination

    @property
    def sender(self) -> Sender:
        """The dissemination of the store."""
        if self._sender is None:
            self._sender = self.store.make_sender()
        return self._sender

    def refuse(self, method: str, *, batch: bool) -> None:
        """Refuse a method of dissemination that the store does not have."""
        self.sender.refuse(method, batch=batch)

    def disseminate(self, events: Events, method: str, slack: Slack, *, batch: bool) -> TileRows:
        """Apply a batch; the messages that tell those affected."""
        self.follow_labels(events)
        return self.sender.send(self, events, method, slack, batch=batch)
