"""A move in 1.5 dimensions for known subscriptions: nobody hears of an exposed object that does not stay.

The painter makes a deletion and an insertion of it. Who is in a tile of both has the object before and after:
its absence, and what it exposed there, need not be told, for the insertion pushes that out again. So these
are taken out of the messages of the deletion, and what is left is covered anew (`cover`). They hear of the
object once: first of all if it got worse, as its stale entry could push out another one, otherwise with the
insertion. [Range §II-A, footnote 4, App. D]

Cost: that of both events, a search of the tree of subscriptions for each of their tiles, and the covers.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.range_topk.corners import BoxObjects, CornerIndex
from rankcast.range_topk.dissemination.cover import (
    BoxMessage,
    BoxTiles,
    Marks,
    cover,
    empty_box_tiles,
    inside,
    longer,
    outside,
)
from rankcast.range_topk.dissemination.slab_painters import FEW, SlabPainter
from rankcast.range_topk.kernels.corners import CAPACITY, DEPTH, CornerTree, Floats, Rows
from rankcast.range_topk.kernels.object_versions import BoxEvents
from rankcast.structures.arrays import grown, with_room
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def _list_corners(tree: CornerTree, low: Floats, high: Floats, box: int, slots: Rows, size: int) -> Rows:
    """Append the slots of the corners in a box, with -1 behind the last."""
    stack, depth = np.zeros(DEPTH, np.int32), 1
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if tree.size[node] == 0 or outside(tree.low, tree.high, node, low, high, box):
            continue
        if tree.bucket[node] < 0:
            stack[depth], stack[depth + 1] = tree.child[node, 0], tree.child[node, 1]
            depth += 2
            continue
        first = tree.bucket[node] * tree.meta[CAPACITY]
        slots = with_room(slots, size + tree.size[node] + 1)
        for slot in range(first, first + tree.size[node]):
            if inside(low, high, box, tree.point, slot):
                slots[size] = slot
                size += 1
    slots = with_room(slots, size + 1)
    slots[size] = -1
    return slots


@njit(**EXACT)
def _members(tree: CornerTree, painted: BoxTiles, first: int, end: int) -> Rows:
    """The slots in the tiles of one message, which have nobody in common."""
    slots, size = np.full(64, -1, np.int32), 0
    for box in range(first, end):
        slots = _list_corners(tree, painted.low, painted.high, box, slots, size)
        while slots[size] >= 0:
            size += 1
    return slots[:size]


@njit(**EXACT)
def _keep(painted: BoxTiles, first: int, end: int, out: BoxTiles) -> BoxTiles:
    """Append tiles as they are."""
    for box in range(first, end):
        at = out.size[0]
        if at + 2 > out.item.shape[0]:
            out = longer(out)
        out.low[at], out.high[at], out.x[at] = painted.low[box], painted.high[box], painted.x[box]
        out.item[at], out.value[at] = painted.item[box], painted.value[box]
        out.size[0] += 1
    return out


@njit(**EXACT)
def _end_of(painted: BoxTiles, at: int) -> int:
    """Where the tiles of a message end."""
    end = at + 1
    while (
        end < painted.size[0]
        and painted.item[end] == painted.item[at]
        and painted.value[end] == painted.value[at]
    ):
        end += 1
    return end


@njit(**EXACT)
def cover_move(
    tree: CornerTree,
    objects: CornerTree,
    label: Marks,
    painted: BoxTiles,
    row: int,
    worse: bool,
    marks: tuple[Marks, Marks],
    out: BoxTiles,
) -> BoxTiles:
    """Make the tiles of a move out of those of a deletion and an insertion.

    `marks` by slot, for `cover` and for the move, hold no number above the last one in `out`.
    """
    mark, keeps = marks
    total, gain, at = painted.size[0], -1, 0
    number = out.size[2] + 1  # marks who has the object afterwards, negative: and has heard of it
    out.size[2] = number
    while at < total and gain < 0:
        gain = at if painted.item[at] == row and painted.value[at] < np.inf else -1
        at = _end_of(painted, at)
    if gain <= 0 or painted.item[0] != row:  # nobody had it, or nobody has it
        return painted
    for slot in _members(tree, painted, gain, _end_of(painted, gain)):
        keeps[slot] = number
    at, both = 0, False
    for slot in _members(tree, painted, 0, _end_of(painted, 0)):
        both |= keeps[slot] == number
    if not both:
        return painted
    while at < total:
        start, end = at, _end_of(painted, at)
        item, value, at = painted.item[at], painted.value[at], end
        slots = _members(tree, painted, start, end)
        others, kept, left, stay = np.empty_like(slots), np.empty_like(slots), 0, 0
        for slot in slots:
            if keeps[slot] == -number or (keeps[slot] == number and start != gain):
                kept[stay] = slot
                stay += 1
            else:
                others[left] = slot
                left += 1
        if stay == 0:
            out = _keep(painted, start, end, out)
        elif left > 0:
            message = BoxMessage(item, value, painted.x[start], value, -1, False)
            out = cover(tree, objects, label, others[:left], mark, message, out)
        if worse and stay > 0 and item == row and start != gain:
            now = BoxMessage(row, painted.value[gain], painted.x[gain], painted.value[gain], -1, False)
            out = cover(tree, objects, label, kept[:stay], mark, now, out)
            for i in range(stay):
                keeps[kept[i]] = -number
    return out


class MovePainter:
    """Applies moves to objects, one at a time, with a painter; the tiles of those affected."""

    def __init__(self, objects: BoxObjects, painter: SlabPainter) -> None:
        self._objects = objects
        self._painter = painter
        self._marks: tuple[Marks, Marks] = (np.zeros(0, np.int64), np.zeros(0, np.int64))
        self._last = 0

    def paint(self, event: BoxEvents, k: int, side: int, index: CornerIndex) -> BoxTiles:
        """Apply one move, exactly."""
        row = int(event.row[0])
        worse = bool(event.y[0] > self._objects.value[row])
        painted = self._painter.paint(event, k, side, index, None)
        slots = len(index.tree.row)
        if slots > len(self._marks[0]):
            mark, keeps = (grown(each, slots, 0) for each in self._marks)
            self._marks = mark, keeps
        out = empty_box_tiles(FEW, 2)
        out.size[2] = self._last
        objects = self._objects
        given = index.tree, objects.index.tree, objects.label, painted, row, worse, self._marks, out
        found: BoxTiles = cover_move(*given)
        self._last = int(out.size[2])
        return found
