"""Whom tiles reach: how many subscriptions, each once, and which distinct ranges they have.

Counting sends boxes down the point tree together, as `join` does with tiles: a node keeps the ones that meet
its own box, and a node that lies inside one of them is counted as a whole. Cost: the nodes that cross a
border, times the boxes there.

A cover of all subscriptions by a few boxes: the top of a point tree, cut off.

The cover is a point tree whose leaves have no bucket: a box stands for everything in it. Painting asks it
instead of the points; tiles are then shrunk to what the boxes cover, and merged only where no box strays.
So nobody is told who was not to be told, and nobody is missed; but a tile may reach nobody, and fewer are
merged. [Range §III-B, Remark]
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.points import BUCKET, PointTree
from rankcast.range_topk.kernels.points_search import list_rows, widen
from rankcast.range_topk.kernels.regions import Tiles
from rankcast.structures.jit import EXACT

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
def _longer(array: Floats, needed: int) -> Floats:
    """The array, or a copy twice as long if it is too short."""
    if needed <= array.shape[0]:
        return array
    longer = np.empty(max(needed, 2 * array.shape[0]))
    longer[: array.shape[0]] = array
    return longer


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
        lo, hi = _longer(lo, size + found), _longer(hi, size + found)
        for i in range(found):
            lo[size + i], hi[size + i] = points.lo[slot_of[rows[i]]], points.hi[slot_of[rows[i]]]
        counts[b] = _distinct(lo[size : size + found], hi[size : size + found])
        size += counts[b]
    return lo[:size], hi[:size], counts


@njit(**EXACT)
def cut(points: PointTree, cover: PointTree, origin: NDArray[np.int32], boxes: int) -> None:
    """Copy the topmost nodes, level by level, until there are so many leaves or no more to split."""
    used, leaves, at = 1, 1, 0
    origin[0] = 0
    while at < used:
        node = origin[at]
        cover.box[at], cover.size[at] = points.box[node], points.size[node]
        if leaves < boxes and points.child[node, 0] >= 0:
            for side in range(2):
                cover.child[at, side], origin[used] = used, points.child[node, side]
                used += 1
            leaves += 1
        at += 1


def cover(points: PointTree, boxes: int) -> PointTree:
    """The cover of a point tree by at most so many boxes. O(boxes)."""
    nodes = 2 * min(boxes, points.size.shape[0]) + 1
    empty = points._replace(
        box=np.zeros((nodes, 4)),
        child=np.full((nodes, 2), -1, np.int32),
        size=np.zeros(nodes, np.int32),
        bucket=np.full(nodes, -1, np.int32),
    )
    cut(points, empty, np.zeros(nodes, np.int32), boxes)
    return empty
