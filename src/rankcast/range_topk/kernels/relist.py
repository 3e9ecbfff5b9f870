"""Making lists anew: objects brought to what a batch makes of them at once, and boards compared with before.

Painting costs by events, making anew by subscriptions and objects: for a batch that is large beside the
subscriptions it is sooner to bring all objects to their places, fill every board (`blocks.fill`) and compare.

Neighbours mostly have the same list, so a board that is like the one before it shares its changes.
Cost: O(log n) an object that changes; O(k) a board.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.object_tree import HEIGHT, ObjectTree, insert, remove, room, set_value
from rankcast.range_topk.kernels.points import BUCKET, DEPTH, PointTree
from rankcast.structures.jit import EXACT
from rankcast.structures.topk_lists import DELTAS, GROUPS, BoardChanges, Boards

Rows = NDArray[np.int32]
Floats = NDArray[np.float64]


@njit(**EXACT)
def settle(tree: ObjectTree, row: int, x: float, y: float) -> None:
    """Bring one object to (x, y), whatever it is now; y = +inf takes it out."""
    if tree.leaf_of[row] >= 0 and (y == np.inf or x != tree.x[row]):
        remove(tree, row)
    if tree.leaf_of[row] < 0:
        if y < np.inf:
            insert(tree, row, x, y)
    elif y != tree.y[row]:
        set_value(tree, row, y)


@njit(**EXACT)
def settle_all(tree: ObjectTree, rows: Rows, x: Floats, y: Floats, start: int) -> int:
    """Bring objects from `start` on to (x, y); return the first one that needs a larger tree."""
    for i in range(start, rows.shape[0]):
        if room(tree) < tree.meta[HEIGHT] + 2:
            return i
        settle(tree, rows[i], x[i], y[i])
    return rows.shape[0]


@njit(**EXACT)
def _same(one: Boards, i: int, two: Boards, j: int) -> bool:
    """Whether two boards list the same."""
    for place in range(one.shape[1]):
        if one[i, place] != two[j, place]:
            return False
        if one[i, place] < 0:
            break
    return True


@njit(**EXACT)
def _unchanged(old: Boards, new: Boards, slot: int, moved: NDArray[np.bool_]) -> bool:
    """Whether a board lists what it did, and none of it has another value."""
    for place in range(old.shape[1]):
        item = new[slot, place]
        if old[slot, place] != item:
            return False
        if item < 0:
            break
        if moved[item]:
            return False
    return True


@njit(**EXACT)
def _longer(changes: BoardChanges, groups: int, deltas: int) -> BoardChanges:
    """The same changes in arrays that are long enough."""
    group, item, mark = changes.group, changes.item, changes.mark
    if groups > group.shape[0]:
        group = np.concatenate((group, np.empty((groups, 3), np.int32)))
    if deltas > item.shape[0]:
        item = np.concatenate((item, np.empty(deltas, np.int32)))
        mark = np.concatenate((mark, np.empty(deltas, np.int32)))
    return BoardChanges(group, item, mark, changes.tally)


@njit(**EXACT)
def _write_changes(
    old: Boards,
    new: Boards,
    slot: int,
    moved: NDArray[np.bool_],
    seen: NDArray[np.int64],
    changes: BoardChanges,
    size: int,
) -> np.int64:
    """Append what has left a board, then what has entered it or has another value; return the new size.

    `seen` has a number for each object: 2 * slot if the new board lists it, one more if the old one does.
    Each entry is written, and written over by the next if it is no change: a branch would be mispredicted.
    """
    items, marks, k = changes.item, changes.mark, old.shape[1]
    number, end = 2 * slot, np.uint64(size)
    for place in range(k):
        item = new[slot, place]
        if item < 0:
            break
        seen[np.uint32(item)] = number
    for place in range(k):
        item = old[slot, place]
        if item < 0:
            break
        lacks = seen[np.uint32(item)] != number
        items[end], marks[end] = item, 0
        end += np.uint64(lacks)
        seen[np.uint32(item)] += not lacks
    for place in range(k):
        item = new[slot, place]
        if item < 0:
            break
        kept = seen[np.uint32(item)] != number
        items[end], marks[end] = item, -(place + 1) if kept else place + 1
        end += np.uint64(not kept or moved[np.uint32(item)])
    return np.int64(end)


@njit(**EXACT)
def compare(points: PointTree, old: Boards, moved: NDArray[np.bool_], changes: BoardChanges) -> BoardChanges:
    """The net changes of all boards from `old`, by slot; `moved` marks objects that have another value."""
    new, k, child = points.board, points.board.shape[1], points.child
    changes.tally[:] = 0
    seen = np.full(moved.shape[0], -1, np.int64)
    stack, depth = np.empty(DEPTH, np.int32), 1 if points.size[0] > 0 else 0
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if child[node, 0] >= 0:
            stack[depth], stack[depth + 1] = child[node, 0], child[node, 1]
            depth += 2
            continue
        groups, deltas = changes.tally[GROUPS] + BUCKET, changes.tally[DELTAS] + 2 * k * BUCKET + 1
        if groups > changes.group.shape[0] or deltas > changes.item.shape[0]:
            changes = _longer(changes, groups, deltas)
        _compare_bucket(points, node, old, new, moved, seen, changes)
    return changes


@njit(**EXACT)
def _compare_bucket(
    points: PointTree,
    node: int,
    old: Boards,
    new: Boards,
    moved: NDArray[np.bool_],
    seen: NDArray[np.int64],
    changes: BoardChanges,
) -> None:
    """Append the changes of the boards of a leaf."""
    first, last = points.bucket[node] * BUCKET, -1
    for slot in range(first, first + points.size[node]):
        if _unchanged(old, new, slot, moved):
            continue
        size, groups = changes.tally[DELTAS], changes.tally[GROUPS]
        group = changes.group
        if last >= 0 and _same(old, last, old, slot) and _same(new, last, new, slot):
            start, end = group[groups - 1, 1], group[groups - 1, 2]
        else:
            start = size
            end = _write_changes(old, new, slot, moved, seen, changes, size)
            if start == end:
                continue
            changes.tally[DELTAS], last = end, slot
        group[groups, 0], group[groups, 1], group[groups, 2] = points.row[slot], start, end
        changes.tally[GROUPS] = groups + 1
