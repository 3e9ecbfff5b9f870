"""A whole batch of tiles meets the subscriptions: bucket by bucket, one work for all that share a list.

The tiles go down the point tree together: a node keeps the ones that meet its box, in order; one that holds
the whole box is marked (as -1 - tile) and not tested again below. At a leaf the tiles that got there are
applied in sending order. Neighbours in subscription space mostly have the same list, so the bucket is first
parted into crowds with equal boards, and a tile is applied once to a crowd; a tile that reaches only a part
of a crowd splits it. At the end every crowd is compared once with the list it began with, and all its
members point to the same net change: leaves first, then entries and updates by rank.

What a leaf compares values with: `known` holds every object's value before the batch; a tile sets its item's
entry while the leaf is worked on, and afterwards it is set back.

Cost: O(tiles) a level at most, in practice little more than the tiles that reach somebody; O(k) for each
pair of tile and crowd, on data in the first cache; O(1) for each subscription reached.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.crowd import (
    Crowds,
    copy_back,
    empty_crowds,
    find_inside,
    hear,
    part,
    split,
    write_changes,
)
from rankcast.range_topk.kernels.point_tree import BUCKET, PointTree
from rankcast.range_topk.kernels.tiles import Tiles
from rankcast.structures.boards import AFFECTED, DELTAS, GROUPS, TRIED, BoardChanges, Values
from rankcast.structures.jit import EXACT

DEPTH = 256


@njit(**EXACT)
def _longer(array: NDArray[np.int32], needed: int) -> NDArray[np.int32]:
    """The array, or a copy twice as long if it is too short."""
    if needed <= array.shape[0]:
        return array
    longer = np.empty(max(needed, 2 * array.shape[0]), np.int32)
    longer[: array.shape[0]] = array
    return longer


@njit(**EXACT)
def _longer_changes(changes: BoardChanges, groups: int, deltas: int) -> BoardChanges:
    """The same changes in buffers twice as long, at least as long as asked for."""
    group = np.empty((max(groups, 2 * changes.group.shape[0]), 3), np.int32)
    group[: changes.group.shape[0]] = changes.group
    return BoardChanges(group, _longer(changes.item, deltas), _longer(changes.mark, deltas), changes.tally)


@njit(**EXACT)
def _sift(
    box: NDArray[np.float64],
    node: int,
    tile: NDArray[np.float64],
    queue: NDArray[np.int32],
    start: int,
    end: int,
) -> int:
    """Append to the queue those of its tiles start..end-1 that meet the node's box; return the new end."""
    west, east, bottom, top = box[node, 0], box[node, 1], box[node, 2], box[node, 3]
    size = end
    for i in range(start, end):
        t = queue[i]
        if t < 0:
            queue[size] = t
            size += 1
        elif tile[t, 0] <= east and tile[t, 1] >= west and tile[t, 2] <= top and tile[t, 3] >= bottom:
            inside = tile[t, 0] <= west and east <= tile[t, 1] and tile[t, 2] <= bottom and top <= tile[t, 3]
            queue[size] = -1 - t if inside else t
            size += 1
    return size


@njit(**EXACT)
def _visit(
    points: PointTree, node: int, tiles: Tiles, queue: NDArray[np.int32], values: Values, crowds: Crowds,
    changes: BoardChanges,
) -> None:  # fmt: skip
    """Apply the queued tiles to the bucket of a leaf and write what changed. There must be space."""
    item, value, box, event, tally = tiles.item, tiles.value, tiles.box, tiles.event, changes.tally
    known, before, first, size = values.known, values.before, points.bucket[node] * BUCKET, points.size[node]
    lo, hi, label = points.lo[first : first + size], points.hi[first : first + size], values.label
    inside = crowds.inside
    part(crowds, points.board[first : first + size])
    for i in range(queue.shape[0]):
        whole = queue[i] < 0
        t = -1 - queue[i] if whole else queue[i]
        reached = size if whole else find_inside(inside, lo, hi, box[t])
        if reached == 0:
            continue
        if reached < size:
            split(crowds, size)
        known[item[t]] = value[t]
        tally[AFFECTED] += hear(crowds, reached == size, item[t], event[t], known, label)
    for i in range(queue.shape[0]):
        t = queue[i] if queue[i] >= 0 else -1 - queue[i]
        known[item[t]] = before[item[t]]
    tally[TRIED] += queue.shape[0] * size
    copy_back(crowds, points.board[first : first + size])
    write_changes(crowds, points.row[first : first + size], values.moved, changes)


@njit(**EXACT)
def join(points: PointTree, tiles: Tiles, values: Values, changes: BoardChanges) -> BoardChanges:
    """Apply all tiles to the boards; return the net changes (in the given buffers, or larger ones)."""
    box, child, sizes = points.box, points.child, points.size
    total, k = tiles.size[0], points.board.shape[1]
    queue = np.empty(total * 48 + 64, np.int32)
    queue[:total] = np.arange(total)
    stack, depth = np.empty((DEPTH, 3), np.int32), 1 if total > 0 and sizes[0] > 0 else 0
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, total
    crowds = empty_crowds(k)
    changes.tally[:] = 0
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        queue = _longer(queue, 2 * end - start)
        size = _sift(box, node, tiles.box, queue, start, end)
        if size == end:
            continue
        if child[node, 0] >= 0:
            for side in range(2):
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = child[node, side], end, size
                depth += 1
            continue
        most = 2 * min(k, size - end)  # a tile brings an item in and may push another out
        deltas, groups = changes.tally[DELTAS] + most * BUCKET, changes.tally[GROUPS] + BUCKET
        if groups > changes.group.shape[0] or deltas > changes.item.shape[0]:
            changes = _longer_changes(changes, groups, deltas)
        _visit(points, node, tiles, queue[end:size], values, crowds, changes)
    return changes
