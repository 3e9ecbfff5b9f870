"""`RangeTopK.disseminate` over one attribute: a batch of events becomes the messages of one method.

| method | event by event | net change of a batch | reads subscriptions |
| --- | --- | --- | --- |
| `dense` | Paint-Dense, with epsilon Paint-Dense(e) | Paint-Batch over it | never |
| `sparse` | Paint-Sparse, with epsilon Paint-Sparse(e) | Paint-Batch over it | to thin tiles |
| `unicast` | dense tiles, a message for each range in them | the same | to find these ranges |
| `relax` | one message an event | one message a changed object | never |
| `scan` | brute force | brute force | all |

Sources: [Range §III, §IV, §V]. Counters: `affected` counts subscriptions reached, each once an event (or once
a batch), where tiles are painted exactly and looked at: not for `dense` and `relax`, nor with epsilon.
`candidates` counts for `unicast`, event by event, the subscriptions in the bounding box of the region that an
event gives or takes: those that the published Unicast tries one by one. Receipts are counted with `needless`.

To count whom tiles reach, boxes go down the point tree together, as tiles do in `join`: a node keeps the ones
that meet its own box, and a node that lies inside one of them is counted as a whole. Cost: the nodes that
cross a border, times the boxes there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.boxes import keyed as boxed
from rankcast.range_topk.dissemination import protocol
from rankcast.range_topk.dissemination.batch import NetChanges, NetPainter
from rankcast.range_topk.dissemination.needless import (
    count_needless,
    count_points,
    count_receipts,
    groups_of,
    merge_within,
)
from rankcast.range_topk.interval import IntervalLists
from rankcast.range_topk.kernels.paint import Tiles
from rankcast.range_topk.kernels.points import BUCKET, PointTree
from rankcast.range_topk.kernels.points_search import list_rows, widen
from rankcast.range_topk.painter import NOBODY, empty_tiles, filled, keyed
from rankcast.range_topk.state import Events, RangeState, Slack, TileRows
from rankcast.structures.arrays import with_room
from rankcast.structures.jit import EXACT

if TYPE_CHECKING:
    from rankcast.range_topk.kept_lists import KeptLists

Boxes = NDArray[np.float64]
Rows = NDArray[np.int32]
Floats = NDArray[np.float64]
DEPTH = 64


@njit(**EXACT)
def _sift(own: Floats, boxes: Boxes, queue: Rows, start: int, end: int) -> int:
    """Append those of the boxes queued at start..end-1 that meet a box; new end, or -1 if one holds it."""
    size, west, east, bottom, top = end, own[0], own[1], own[2], own[3]
    for i in range(start, end):
        b = queue[i]
        if boxes[b, 0] <= east and boxes[b, 1] >= west and boxes[b, 2] <= top and boxes[b, 3] >= bottom:
            if boxes[b, 0] <= west and east <= boxes[b, 1] and boxes[b, 2] <= bottom and top <= boxes[b, 3]:
                return -1
            queue[size] = b
            size += 1
    return size


@njit(**EXACT)
def _count_bucket(lo: Floats, hi: Floats, boxes: Boxes, queue: Rows) -> int:
    """How many of a bucket's points lie in one of the queued boxes."""
    count = 0
    for slot in range(lo.shape[0]):
        for b in queue:
            if boxes[b, 0] <= lo[slot] <= boxes[b, 1] and boxes[b, 2] <= hi[slot] <= boxes[b, 3]:
                count += 1
                break
    return count


@njit(**EXACT)
def count_reached(points: PointTree, boxes: Boxes) -> int:
    """How many points lie in at least one of the boxes."""
    child, sizes, total = points.child, points.size, boxes.shape[0]
    queue, stack = np.empty(total * DEPTH, np.int32), np.zeros((2 * DEPTH, 3), np.int64)
    queue[:total] = np.arange(total)
    depth, count, stack[0, 2] = 1 if total > 0 and sizes[0] > 0 else 0, 0, total
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        size = _sift(points.box[node], boxes, queue, start, end)
        if size < 0:
            count += sizes[node]
        elif size > end and child[node, 0] < 0:
            first = points.bucket[node] * BUCKET
            last = first + sizes[node]
            count += _count_bucket(points.lo[first:last], points.hi[first:last], boxes, queue[end:size])
        elif size > end:
            for side in range(2):
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = child[node, side], end, size
                depth += 1
    return count


@njit(**EXACT)
def count_affected(points: PointTree, tiles: Tiles, rows: Rows) -> int:
    """How many subscriptions exact tiles reach, each once an event; `rows` are the objects of the events.

    What an event exposes reaches only those who hear of its object too.
    """
    box, item, event, total = tiles.box, tiles.item, tiles.event, tiles.item.shape[0]
    count, first = 0, 0
    own = np.empty((total, 4))
    while first < total:
        size, at = 0, first
        while at < total and event[at] == event[first]:
            if item[at] == rows[event[first]]:
                own[size] = box[at]
                size += 1
            at += 1
        count += count_reached(points, own[:size])
        first = at
    return count


@njit(**EXACT)
def count_bounded(points: PointTree, tiles: Tiles, rows: Rows) -> int:
    """How many subscriptions lie in the bounding boxes of the regions that events give or take.

    These are the ones that the Unicast of [Range §V] looks at, one by one.
    """
    item, value, event, total = tiles.item, tiles.value, tiles.event, tiles.item.shape[0]
    count, at, box, nobody = 0, 0, np.empty(4), np.empty(0, np.int32)
    while at < total:
        first = at
        box[:] = tiles.box[first]
        while (
            at < total and event[at] == event[first] and item[at] == item[first] and value[at] == value[first]
        ):
            widen(box, tiles.box[at, 0], tiles.box[at, 1], tiles.box[at, 2], tiles.box[at, 3])
            at += 1
        if item[first] == rows[event[first]]:
            count += list_rows(points, box, nobody)
    return count


@njit(**EXACT)
def _distinct(lo: Floats, hi: Floats) -> int:
    """Move the distinct pairs, in ascending order, to the front; return how many."""
    order = np.argsort(lo)
    lo[:], hi[:] = lo[order], hi[order]
    size, end = 0, 0
    while end < lo.shape[0]:
        first, end = end, end + 1
        while end < lo.shape[0] and lo[end] == lo[first]:
            end += 1
        if end - first > 1:
            hi[first:end].sort()
        for i in range(first, end):
            if i == first or hi[i] != hi[size - 1]:
                lo[size], hi[size] = lo[i], hi[i]
                size += 1
    return size


@njit(**EXACT)
def ranges_in(points: PointTree, boxes: Boxes) -> tuple[Floats, Floats, NDArray[np.int64]]:
    """The distinct ranges (lo, hi) inside each of the boxes, in their order, and how many each has."""
    slot_of, rows, counts = points.slot_of, np.empty(1024, np.int32), np.zeros(boxes.shape[0], np.int64)
    lo, hi, size = np.empty(1024), np.empty(1024), 0
    for b in range(boxes.shape[0]):
        found = list_rows(points, boxes[b], rows)
        if found > rows.shape[0]:
            rows = np.empty(2 * found, np.int32)
            list_rows(points, boxes[b], rows)
        lo, hi = with_room(lo, size + found), with_room(hi, size + found)
        for i in range(found):
            lo[size + i], hi[size + i] = points.lo[slot_of[rows[i]]], points.hi[slot_of[rows[i]]]
        counts[b] = _distinct(lo[size : size + found], hi[size : size + found])
        size += counts[b]
    return lo[:size], hi[:size], counts


BLIND = ("dense", "relax")  # the methods that are never shown a subscription

NO_TILES = filled(empty_tiles(0))
NOTHING = NetChanges(np.empty(0, np.int32), *(np.empty(0) for _ in range(4)))


class Wanted(NamedTuple):
    """What messages are made: for those who want k objects, by a method, for the net change or not."""

    k: int
    method: str
    slack: Slack
    batch: bool


class IntervalSender:
    """Turns batches into messages; state and objects are in step before and after. Lists become stale."""

    def __init__(self, lists: IntervalLists) -> None:
        self._lists = lists
        self._painter = lists.painter
        self._net_painter = NetPainter(lists.painter)

    def refuse(self, method: str, *, batch: bool) -> None:
        """No method is refused."""

    def send(self, kept: KeptLists, events: Events, method: str, slack: Slack, *, batch: bool) -> TileRows:
        """Apply a batch; the messages that tell those affected, or with "relax" those in range."""
        state, tally = kept.range_state, self._painter.tally.copy()
        ks, plain = protocol.painted_ks(state, method), method in ("scan", "relax")
        net = self._net(state, events) if plain or len(ks) > 1 else NOTHING
        if plain:
            tiles = protocol.send_plainly(state, events, method, batch=batch)
            self._net_painter.follow(net)
        else:
            tiles = protocol.for_each_k(
                ks,
                lambda k: self._send(state, events, Wanted(k, method, slack, batch)),
                lambda: self._net_painter.follow(_reversed(net)),
            )
            state.place(events)
        self._painter.count_questions(state.count, tally)
        self._lists.follow(lambda: boxed(state, events.coalesced()))
        kept.outdate()
        return tiles

    def _send(self, state: RangeState, events: Events, wanted: Wanted) -> TileRows:
        """Apply a batch to the objects; the messages that those who want k objects must hear."""
        k, method, (epsilon, needless), batch = wanted
        points = None if method in BLIND else self._lists.points(k, state.k_of)
        points = NOBODY if points is None else points
        known = points if method == "sparse" else None
        if batch:
            painted = self._net_painter.paint(self._net(state, events), k, points=known)
        elif epsilon is not None and known is not None and state.receipts:
            needed = self._needed(state, events, k, known)
            painted = self._paint(state, events, k, known, epsilon)
            count_needless(state, _receipts(known, painted, events), needed)
        else:
            painted = self._paint(state, events, k, known, epsilon)
        if method == "unicast" or (method == "sparse" and epsilon is None):
            reached = (
                count_reached(points, painted.box) if batch else count_affected(points, painted, events.row)
            )
            state.count["affected"] += int(reached)
        if method == "unicast":
            return _one_by_one(state, points, painted, events, wanted)
        if needless is not None and not batch:
            painted = _merged(state, points, painted, events, needless)
        return _tile_rows(state, painted.box, painted, k)

    def _needed(self, state: RangeState, events: Events, k: int, known: PointTree) -> tuple[int, int]:
        """The receipts of exact messages, all and of those about updated objects; nothing has changed."""
        net, tally = self._net(state, events), self._painter.tally.copy()
        found = _receipts(known, self._paint(state, events, k, known, None), events)
        self._net_painter.follow(_reversed(net))
        self._painter.tally[:] = tally
        return found

    def _paint(
        self, state: RangeState, events: Events, k: int, known: PointTree | None, epsilon: float | None
    ) -> Tiles:
        """Apply events one by one; their tiles. A move is painted as the net change that it is."""
        parts: list[Tiles] = []
        done = 0
        for part, moves in protocol.stretches(state, events):
            if moves:
                painted = self._net_painter.paint(self._net(state, part), k, points=known)
            else:
                painted = self._painter.paint(
                    keyed(state, part), np.array([k]), points=known, epsilon=epsilon
                )
            if len(part.row) == len(events.row):
                return painted
            painted.event[:] += done
            parts.append(Tiles._make(column.copy() for column in painted))
            done += len(part.row)
        return Tiles._make(map(np.concatenate, zip(*parts, strict=True))) if parts else NO_TILES

    def _net(self, state: RangeState, events: Events) -> NetChanges:
        """The net changes of events, for the objects they change at all."""
        row, x, y = keyed(state, events.coalesced())
        tree = self._lists.objects.tree
        old_y = tree.y[row]
        old_x = np.where(old_y < np.inf, tree.x[row], x)
        x = np.where(y < np.inf, x, old_x)
        changed = (x != old_x) | (y != old_y)
        return NetChanges(row[changed], old_x[changed], old_y[changed], x[changed], y[changed])


def _receipts(points: PointTree, painted: Tiles, events: Events) -> tuple[int, int]:
    """How many receive messages, each once a message: all, and those about the object of their event."""
    found = count_points(points, painted.box[:, ::2], painted.box[:, 1::2])
    return int(found.sum()), int(found[painted.item == events.row[painted.event]].sum())


def _merged(state: RangeState, points: PointTree, painted: Tiles, events: Events, share: float) -> Tiles:
    """Exact tiles, merged within a share of needless receipts."""
    merged = merge_within(
        painted.box[:, ::2],
        painted.box[:, 1::2],
        groups_of(painted.event, painted.item, painted.value),
        share,
        lambda low, high: count_points(points, low, high),
    )
    left = {name: getattr(painted, name)[merged.tile] for name in ("item", "x", "value", "event")}
    count_receipts(state, merged, left["item"] == events.row[left["event"]])
    box = np.stack([merged.low, merged.high], axis=2).reshape(-1, 4)
    return painted._replace(box=box, **left)


def _one_by_one(
    state: RangeState, points: PointTree, painted: Tiles, events: Events, wanted: Wanted
) -> TileRows:
    """A message for each distinct range in a tile, instead of the tile."""
    lo, hi, counts = ranges_in(points, painted.box)
    if not wanted.batch:
        state.count["candidates"] += int(count_bounded(points, painted, events.row))
    which = np.repeat(np.arange(counts.size), counts)
    alone = {name: getattr(painted, name)[which] for name in ("item", "x", "value")}
    return _tile_rows(state, np.column_stack([lo, lo, hi, hi]), painted._replace(**alone), wanted.k)


def _tile_rows(state: RangeState, box: Floats, painted: Tiles, k: int) -> TileRows:
    """Tiles for those who want k objects, as the contract has them, in arrays of their own."""
    lo_outer, hi_outer = protocol.outer(box[:, :1], box[:, 3:])
    y = np.where(np.isposinf(painted.value), np.nan, state.key(painted.value))
    row, x = painted.item.copy(), painted.x[:, None].copy()
    return TileRows(lo_outer, box[:, 1:2].copy(), box[:, 2:3].copy(), hi_outer, row, x, y, np.full(len(y), k))


def _reversed(net: NetChanges) -> NetChanges:
    """The changes that take others back."""
    return NetChanges(net.row, net.x, net.y, net.old_x, net.old_y)
