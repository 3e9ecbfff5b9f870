"""`RangeTopK.disseminate` over several attributes: a batch of events becomes the messages of one method.

Mostly the boards show who is affected: events change them, and whoever was reached is covered by tiles
(`BoxMessenger`). In the 1.5-d case, where all subscriptions bound the second of two attributes on one side
only, tiles are painted from the objects instead (`slab_painters`); "dense" is not even given the
subscriptions: all it must know of them, the bounded side, was noted when they came. [Range §IV-C, App. D]

| method | event by event | net change of a batch | lists afterwards |
| --- | --- | --- | --- |
| `sparse` | covers of those reached; painted if 1.5-d | covers of those reached | stale if painted |
| `dense` | painted, 1.5-d only | painted | stale |
| `unicast` | a message for each distinct box reached | the same | current |
| `relax`, `scan` | see `protocol` | see `protocol` | stale |

Event by event a move is sent as a net change (`slab_moves` where it is painted for "sparse").
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankcast.errors import SettingError
from rankcast.range_topk.boxes import BoxLists, keyed, last_of
from rankcast.range_topk.corners import CornerIndex
from rankcast.range_topk.dissemination import box_messages, protocol
from rankcast.range_topk.dissemination.box_messages import (
    BETTER,
    EVENT,
    GONE,
    TOUCHED,
    MessageRoom,
    ObjectsBefore,
    Pairs,
    TouchLog,
)
from rankcast.range_topk.dissemination.cover import BoxTiles, empty_box_tiles
from rankcast.range_topk.dissemination.needless import (
    count_corners,
    count_receipts,
    groups_of,
    merge_within,
)
from rankcast.range_topk.dissemination.slab_moves import MovePainter
from rankcast.range_topk.dissemination.slab_painters import FEW, DensePainter, SlabPainter
from rankcast.range_topk.dissemination.slabs import FIRSTK, MIN, SNAP
from rankcast.range_topk.kernels.apply_events import AFFECTED, SEARCHES, TRIED
from rankcast.range_topk.kernels.object_versions import BoxEvents, ObjectValues, steps_of
from rankcast.range_topk.state import Events, RangeState, Slack, TileRows
from rankcast.structures.arrays import grown

if TYPE_CHECKING:
    from rankcast.range_topk.kept_lists import KeptLists


class BoxSender:
    """Turns batches into messages; state and objects are in step before and after."""

    def __init__(self, lists: BoxLists) -> None:
        self._lists = lists
        self._messenger = BoxMessenger(lists)
        self.sparse = SlabPainter(lists.objects)
        self._dense = DensePainter(lists.objects)
        self._moves = MovePainter(lists.objects, self.sparse)

    def refuse(self, method: str, *, batch: bool) -> None:
        """Refuse a method that boxes do not have."""
        listed = method == "unicast" or (method == "sparse" and (batch or not self._lists.side))
        if listed and self._lists.listless:
            raise SettingError(
                f'method="{method}" needs lists here: they tell whom an event over boxes concerns',
                expected='lists=True, or "relax" or "scan"; with a second attribute bounded on one side'
                ' "dense", and event by event "sparse"',
            )
        if method != "dense" or self._lists.side:
            return
        if self._lists.width == 2 and not self._lists.classed.indexes:
            raise SettingError(
                'method="dense" must know which side of the second attribute subscriptions bound',
                expected='sides="lower" or sides="upper" when the engine is made, or a subscription',
            )
        raise SettingError(
            'method="dense" is not for boxes: their tiles run into the hundreds of thousands an event',
            expected="sparse, unicast, relax or scan, or two attributes, the second bounded on one side",
        )

    def send(self, kept: KeptLists, events: Events, method: str, slack: Slack, *, batch: bool) -> TileRows:
        """Apply the batch; the messages that tell those affected."""
        state = kept.range_state
        if method in ("scan", "relax"):
            found = protocol.send_plainly(state, events, method, batch=batch)
            self._lists.objects.settle(*keyed(state, events.coalesced()))
            kept.outdate()
            return found
        painted = method == "dense" or (method == "sparse" and self._lists.side != 0 and not batch)
        if not painted:
            kept.refresh()
            kept.make_room(events)

        def make(k: int) -> TileRows:
            def some(part: Events, whole: bool) -> BoxTiles:
                if painted:
                    return self._paint(state, k, part, method, slack.epsilon, batch=whole)
                return self._cover(state, k, part, slack.epsilon, one_by_one=method == "unicast", batch=whole)

            tiles = some(events, True) if batch else _by_stretches(state, events, some)
            if slack.needless is not None and not batch:
                tiles = self._merged(state, k, tiles, slack.needless)
            return _tile_rows(state, tiles, k)

        with self._counting(state):
            found = protocol.for_each_k(
                protocol.painted_ks(state, method),
                make,
                lambda: self._lists.objects.settle(*_before(state, events)),
            )
        if painted:
            kept.outdate()
        state.place(events)
        return found

    def _paint(
        self, state: RangeState, k: int, events: Events, method: str, epsilon: float | None, *, batch: bool
    ) -> BoxTiles:
        """Apply events to the objects of the 1.5-d case; the tiles of those affected. No list changes."""
        side = self._lists.side
        if method == "sparse":
            index = self._lists.corners(k, state.k_of)
            if batch:
                return self._moves.paint(keyed(state, events), k, side, index)
            return self.sparse.paint(keyed(state, events), k, side, index, epsilon)
        if batch:
            return self._dense.paint_net(keyed(state, events.coalesced()), k, side)
        return self._dense.paint(keyed(state, events), k, side, epsilon)

    def _cover(
        self,
        state: RangeState,
        k: int,
        events: Events,
        epsilon: float | None,
        *,
        one_by_one: bool,
        batch: bool,
    ) -> BoxTiles:
        """Let the events change the lists of one k; the messages that cover those reached."""
        lists = self._lists
        index = lists.unite(k, state.k_of)
        limits = MessageLimits(-1 if epsilon is None else int((1 + epsilon) * k), one_by_one=one_by_one)
        if not batch:
            return self._messenger.send(index, keyed(state, events), limits)
        tiles = self._messenger.send_net(index, keyed(state, events), self._before(state, events), limits)
        lists.moved[events.row] = False
        return tiles

    def _merged(self, state: RangeState, k: int, tiles: BoxTiles, share: float) -> BoxTiles:
        """Exact tiles, merged within a share of needless receipts."""
        index, size = self._lists.corners(k, state.k_of), int(tiles.size[0])
        merged = merge_within(
            tiles.low[:size],
            tiles.high[:size],
            groups_of(tiles.item[:size], tiles.value[:size]),
            share,
            lambda low, high: count_corners(index.tree, low, high),
        )
        count_receipts(state, merged, np.zeros(len(merged.tile), bool))
        left, total = merged.tile, tiles.size.copy()
        total[0] = len(left)
        return tiles._replace(
            low=merged.low,
            high=merged.high,
            item=tiles.item[left],
            x=tiles.x[left],
            value=tiles.value[left],
            size=total,
        )

    def _before(self, state: RangeState, events: Events) -> ObjectsBefore:
        """The objects before a batch, with those that change marked."""
        held, last = state.objects, events.coalesced()
        same = (held["y"][last.row] == last.y) & (held["x"][last.row] == last.x).all(axis=1)
        self._lists.reserve_moved()
        self._lists.moved[last.row] = ~same
        return ObjectsBefore(held["x"], state.key(held["y"]), self._lists.moved)

    @contextmanager
    def _counting(self, state: RangeState) -> Iterator[None]:
        """Add what lists and painters count meanwhile to the counters of the engine."""
        before = self._counts()
        yield
        for name, count in self._counts().items():
            state.count[name] += count - before[name]

    def _counts(self) -> dict[str, int]:
        lists, painted = self._lists, self.sparse.questions + self._dense.questions
        return {
            "affected": lists.affected + self.sparse.affected,
            "candidates": lists.tried,
            "firstk": int(painted[FIRSTK]),
            "miny": lists.searches + int(painted[MIN]),
            "snap": int(painted[SNAP]),
        }


def _before(state: RangeState, events: Events) -> BoxEvents:
    """The events that bring objects back to what they are in the state."""
    row, held = np.unique(events.row), state.objects
    return keyed(state, Events(row, held["x"][row], held["y"][row], 0))


def _tile_rows(state: RangeState, tiles: BoxTiles, k: int) -> TileRows:
    """Tiles for those who want k objects, as the contract has them, in arrays of their own."""
    size = int(tiles.size[0])
    low, high = tiles.low[:size], tiles.high[:size]
    lo_outer, hi_outer = protocol.outer(low[:, ::2], -low[:, 1::2])
    return TileRows(
        lo_outer,
        high[:, ::2].copy(),
        -high[:, 1::2],
        hi_outer,
        tiles.item[:size].copy(),
        tiles.x[:size].copy(),
        np.where(np.isposinf(tiles.value[:size]), np.nan, state.key(tiles.value[:size])),
        np.full(size, k),
    )


def _by_stretches(state: RangeState, events: Events, send: Callable[[Events, bool], BoxTiles]) -> BoxTiles:
    """Send events one by one, and a move as a batch of its own; the state is as before afterwards."""
    rows, parts = np.unique(events.row), []
    x, y = state.objects["x"][rows].copy(), state.objects["y"][rows].copy()
    for part, moves in list(protocol.stretches(state, events)):
        parts.append(send(part, moves))
        state.place(part)
    state.objects["x"][rows], state.objects["y"][rows] = x, y
    if len(parts) == 1:
        return parts[0]
    return _joined(parts) if parts else empty_box_tiles(1, state.width)


def _joined(parts: list[BoxTiles]) -> BoxTiles:
    """Tiles, those of one part after those of another."""
    lengths = [int(each.size[0]) for each in parts]
    whole = {
        name: np.concatenate([getattr(each, name)[:end] for each, end in zip(parts, lengths, strict=True)])
        for name in ("low", "high", "item", "x", "value")
    }
    size = parts[-1].size.copy()
    size[0] = sum(lengths)
    return parts[-1]._replace(size=size, **whole)


class MessageLimits(NamedTuple):
    """How far an item may rank in a list (-1: within k), and whether each box has its own message."""

    most: int = -1
    one_by_one: bool = False


class BoxMessenger:
    """Brings the lists of one index, if there is one, through events as `BoxLists.apply`; writes messages."""

    def __init__(self, lists: BoxLists) -> None:
        self._lists = lists
        self._now = 0  # the last moment
        self._messages = 0  # the number of the last message
        self._heard: NDArray[np.int64] = np.empty(0, np.int64)  # by slot: the last event that touched it
        self._mark: NDArray[np.int64] = np.empty(0, np.int64)  # by slot: the last message that reached it

    def send(self, index: CornerIndex | None, events: BoxEvents, limits: MessageLimits) -> BoxTiles:
        """Apply events one by one; the messages that tell those affected."""
        objects, done = self._lists.objects, 0
        objects.reserve(int(events.row.max(initial=-1)) + 1)
        out, values = self._empty(), ObjectValues(objects.value, objects.label)
        if index is None:
            objects.settle(*last_of(events))
            return out
        log, room, tree = self._log(index, 1), self._room(limits, index), index.tree
        while done < len(events.row):
            done, out = box_messages.play(tree, objects.index.tree, events, values, log, out, room, done)
            if done < len(events.row):
                objects.index.reserve()
        self._messages = int(out.size[2])
        self._count(log)
        return out

    def send_net(
        self, index: CornerIndex | None, events: BoxEvents, before: ObjectsBefore, limits: MessageLimits
    ) -> BoxTiles:
        """Apply events; the messages of their net change."""
        objects, out, last = self._lists.objects, self._empty(), last_of(events)
        objects.reserve(int(events.row.max(initial=-1)) + 1)
        values = ObjectValues(objects.value, objects.label)
        if index is None:
            objects.settle(*last)
            return out
        tree, (steps, versions) = index.tree, steps_of(events, objects.index.tree, objects.value)
        log = self._log(index, len(versions.row))
        objects.hide(last.row)
        box_messages.apply_steps(tree, objects.index.tree, steps, versions, values, log)
        log.tally[EVENT] += 2 * len(events.row)
        objects.settle(*last)
        most = 2 * tree.board.shape[1] * int(log.tally[TOUCHED])
        pairs = Pairs(*(np.empty(most, np.int32) for _ in Pairs._fields))
        size = int(box_messages.pair(tree, objects.index.tree, values, log, before, pairs))
        pairs = _in_sending_order(Pairs._make(column[:size] for column in pairs), values)
        room = self._room(limits, index)
        sent: BoxTiles = box_messages.send_pairs(tree, objects.index.tree, values, before, pairs, out, room)
        self._messages = int(sent.size[2])
        self._count(log)
        return sent

    def _empty(self) -> BoxTiles:
        """No messages yet; they are numbered on over all calls."""
        out = empty_box_tiles(FEW, self._lists.width)
        out.size[2] = self._messages
        return out

    def _room(self, limits: MessageLimits, index: CornerIndex) -> MessageRoom:
        if len(index.tree.row) > len(self._mark):
            self._mark = grown(self._mark, len(index.tree.row), -1)
        return MessageRoom(self._mark, limits.most, limits.one_by_one)

    def _log(self, index: CornerIndex, versions: int) -> TouchLog:
        """An empty log for the subscriptions of an index."""
        if len(index.tree.row) > len(self._heard):
            self._heard = grown(self._heard, len(index.tree.row), -1)
        return box_messages.new_log(index.tree, len(index), versions, self._heard, self._now)

    def _count(self, log: TouchLog) -> None:
        """Add up what a log has counted."""
        self._now = int(log.tally[EVENT])
        self._lists.count(*(int(log.tally[each]) for each in (AFFECTED, TRIED, SEARCHES)))


def _in_sending_order(pairs: Pairs, values: ObjectValues) -> Pairs:
    """What got worse or left first, then by value; an item that is gone from its place before all others."""
    value = np.where(pairs.kind == GONE, -np.inf, values.value[pairs.item])
    order = np.lexsort((pairs.kind, values.label[pairs.item], value, pairs.kind == BETTER))
    return Pairs._make(column[order] for column in pairs)
