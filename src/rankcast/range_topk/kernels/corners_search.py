"""Questions to corner trees: the best objects in a box, what comes next in several boxes, points in a box.

A box is given by its corner, (lo, -hi) by attribute: see `corners`. Cost: a node is opened only if its box
meets the question's and its best object can still matter, so about k + log n leaves for the k best.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.corners import CAPACITY, DEPTH, CornerTree, Floats, Rows, set_weight
from rankcast.structures.jit import EXACT

FIRST = np.iinfo(np.int64).min
Labels = NDArray[np.int64]


@njit(**EXACT)
def holds(corner: Floats, point: Floats, at: int) -> bool:
    """Whether the box of a corner holds the object at a place of `point`."""
    for axis in range(point.shape[1]):
        if point[at, axis] < corner[2 * axis] or -point[at, axis] < corner[2 * axis + 1]:
            return False
    return True


@njit(**EXACT)
def _meets(corner: Floats, low: Floats, high: Floats, node: int) -> bool:
    """Whether the box of a corner meets a node of objects."""
    for axis in range(low.shape[1]):
        if high[node, axis] < corner[2 * axis] or -low[node, axis] < corner[2 * axis + 1]:
            return False
    return True


@njit(**EXACT)
def descend(tree: CornerTree, node: int, stack: Rows, depth: int) -> int:
    """Push the children of a node, the one with the larger top last; return the new depth."""
    one, two = tree.child[node, 0], tree.child[node, 1]
    first = tree.top[one] < tree.top[two]
    stack[depth], stack[depth + 1] = (one, two) if first else (two, one)
    return depth + 2


@njit(**EXACT)
def _any_between(weight: Floats, first: int, size: int, least: float, most: float) -> bool:
    """Whether one of the weights from `first` on is between two others: few, wide instructions."""
    count = 0
    for i in range(size):
        count += (least <= weight[first + i]) & (weight[first + i] <= most)
    return count > 0


@njit(**EXACT)
def best(
    objects: CornerTree,
    label: Labels,
    corner: Floats,
    after: tuple[float, int],
    limit: tuple[float, int],
    board: Rows,
) -> None:
    """Write the best objects in a box that are worse than one pair and better than another, then -1.

    They are rows, best first; a pair is a value and a label.
    """
    point, weight, row, capacity = objects.point, objects.weight, objects.row, objects.meta[CAPACITY]
    top, low, high, bucket = objects.top, objects.low, objects.high, objects.bucket
    k, size, stack, depth = board.shape[0], 0, np.empty(DEPTH, np.int32), 1
    held, (least, least_label), (most, most_label) = np.empty(k), after, limit
    held[:], board[:], stack[0] = -most, -1, 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if top[node] < held[k - 1] or not _meets(corner, low, high, node):
            continue
        if bucket[node] < 0:
            depth = descend(objects, node, stack, depth)
            continue
        # unsigned indexes: Numba need not test whether they count from the end
        first, total = np.uint64(bucket[node] * capacity), np.uint64(objects.size[node])
        if least > -np.inf and not _any_between(weight, first, total, held[k - 1], -least):
            continue
        for slot in range(first, first + total):
            mine, which = weight[slot], row[slot]
            if mine < held[k - 1] or -mine < least or not holds(corner, point, slot):
                continue
            if (-mine == least and label[which] <= least_label) or (
                -mine == most and label[which] >= most_label
            ):
                continue
            at = size
            while at > 0 and (
                held[at - 1] < mine or (held[at - 1] == mine and label[board[at - 1]] > label[which])
            ):
                if at < k:
                    held[at], board[at] = held[at - 1], board[at - 1]
                at -= 1
            if at < k:
                held[at], board[at] = mine, which
                size = min(size + 1, k)


@njit(**EXACT)
def _within(corner: Floats, low: Floats, high: Floats, node: int) -> bool:
    """Whether the box of a corner holds all of a node of objects."""
    for axis in range(low.shape[1]):
        if low[node, axis] < corner[2 * axis] or -high[node, axis] < corner[2 * axis + 1]:
            return False
    return True


@njit(**EXACT)
def count(objects: CornerTree, corners: Floats, found: NDArray[np.int64]) -> None:
    """Write how many objects each box holds. A node that lies in the box is not opened."""
    low, high, bucket, capacity = objects.low, objects.high, objects.bucket, objects.meta[CAPACITY]
    stack = np.empty(DEPTH, np.int32)
    for i in range(corners.shape[0]):
        corner, total, depth, stack[0] = corners[i], 0, 1, 0
        while depth > 0:
            depth -= 1
            node = stack[depth]
            if objects.size[node] == 0 or not _meets(corner, low, high, node):
                continue
            if _within(corner, low, high, node):
                total += objects.size[node]
            elif bucket[node] < 0:
                depth = descend(objects, node, stack, depth)
            else:
                first = bucket[node] * capacity
                for slot in range(first, first + objects.size[node]):
                    total += holds(corner, objects.point, slot)
        found[i] = total


@njit(**EXACT)
def fill(subscriptions: CornerTree, rows: Rows, objects: CornerTree, label: Labels) -> None:
    """Fill the boards of some subscriptions by a search each."""
    last, slot_of, boards = subscriptions.board.shape[1] - 1, subscriptions.slot_of, subscriptions.board
    for i in range(rows.shape[0]):
        slot = slot_of[rows[i]]
        best(objects, label, subscriptions.point[slot], (-np.inf, FIRST), (np.inf, FIRST), boards[slot])
        end = boards[slot, last]
        set_weight(subscriptions, rows[i], np.inf if end < 0 else -objects.weight[objects.slot_of[end]])


@njit(**EXACT)
def find_next(
    objects: CornerTree, label: Labels, corners: Floats, after: Floats, after_label: Labels, found: Rows,
    limit: float, limit_label: int,
) -> None:  # fmt: skip
    """For each box the best object worse than its pair (after, after_label) and better than the limit, or -1.

    The boxes are those of neighbours, so one walk inside their hull serves all: it ends where nothing can be
    better than the worst answer so far. `after` is used up: it becomes the answers' values.
    """
    point, weight, row, capacity = objects.point, objects.weight, objects.row, objects.meta[CAPACITY]
    top, low, high, bucket = objects.top, objects.low, objects.high, objects.bucket
    count, hull, least, bound = corners.shape[0], corners[0].copy(), np.inf, limit
    value = np.full(count, limit)
    for i in range(count):
        found[i], least = -1, min(least, after[i])
        for axis in range(hull.shape[0]):
            hull[axis] = min(hull[axis], corners[i, axis])
    stack, depth = np.empty(DEPTH, np.int32), 1
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if -top[node] > bound or not _meets(hull, low, high, node):
            continue
        if bucket[node] < 0:
            depth = descend(objects, node, stack, depth)
            continue
        first, better = bucket[node] * capacity, False
        for slot in range(first, first + objects.size[node]):
            mine, which = -weight[slot], row[slot]
            if mine < least or mine > bound or not holds(hull, point, slot):
                continue
            for i in range(count):
                if mine < after[i] or mine > value[i]:
                    continue
                if mine == after[i] and label[which] <= after_label[i]:
                    continue
                other = limit_label if found[i] < 0 else label[found[i]]
                if mine == value[i] and label[which] >= other:
                    continue
                if holds(corners[i], point, slot):
                    value[i], found[i], better = mine, which, True
        if better:
            bound = value.max()


@njit(**EXACT)
def count_better(
    objects: CornerTree, label: Labels, corner: Floats, value: float, item: int, most: int
) -> int:
    """How many objects in a box are better than an item with the given value; not more than `most`."""
    point, weight, row, capacity = objects.point, objects.weight, objects.row, objects.meta[CAPACITY]
    top, low, high, bucket = objects.top, objects.low, objects.high, objects.bucket
    count, stack, depth = 0, np.empty(DEPTH, np.int32), 1
    stack[0] = 0
    while depth > 0 and count < most:
        depth -= 1
        node = stack[depth]
        if -top[node] > value or not _meets(corner, low, high, node):
            continue
        if bucket[node] < 0:
            depth = descend(objects, node, stack, depth)
            continue
        first = bucket[node] * capacity
        for slot in range(first, first + objects.size[node]):
            mine, which = -weight[slot], row[slot]
            ahead = mine < value or (mine == value and label[which] < label[item])
            if ahead and which != item and holds(corner, point, slot):
                count += 1
    return min(count, most)
