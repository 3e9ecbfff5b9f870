"""Questions of the sweep over a second attribute to the tree of objects: the nearest, the next above.

The second attribute is bounded on one side: `sign` 1 if from above, -1 if from below, which turns it around.
`height` is the attribute so turned. An object counts if it is better than a pair of value and label.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.corner_tree import CAPACITY, DEPTH, CornerTree, Floats, Rows
from rankcast.kernels.options import EXACT

Labels = NDArray[np.int64]


@njit(**EXACT)
def lowest(objects: CornerTree, node: int, sign: float) -> float:
    """The smallest height below a node."""
    return objects.low[node, 1] if sign > 0 else -objects.high[node, 1]


@njit(**EXACT)
def _push(objects: CornerTree, node: int, stack: Rows, depth: int, first: bool) -> int:
    """Push the children of a node, the chosen one last; return the new depth."""
    one, two = objects.child[node, 0], objects.child[node, 1]
    stack[depth], stack[depth + 1] = (two, one) if first else (one, two)
    return depth + 2


@njit(**EXACT)
def _insert(found: Floats, size: int, at: float, sign: float) -> int:
    """Insert a place among those found, near to far on one side, if it is near enough; the new size."""
    place = size
    while place > 0 and sign * found[place - 1] > sign * at:
        if place < found.shape[0]:
            found[place] = found[place - 1]
        place -= 1
    if place < found.shape[0]:
        found[place] = at
    return min(size + 1, found.shape[0])


@njit(**EXACT)
def firstk(
    objects: CornerTree, label: Labels, apex: tuple[float, float], pair: tuple[float, int], sign: float,
    left: Floats, right: Floats,
) -> tuple[int, int, int]:  # fmt: skip
    """Write the x of the nearest objects better than a pair and not above the apex, left and right of it.

    Returned: how many there are on the left, on the right and, not more than k, at x itself. One walk.
    """
    point, weight, row, capacity = objects.point, objects.weight, objects.row, objects.meta[CAPACITY]
    top, low, high, bucket = objects.top, objects.low, objects.high, objects.bucket
    (x, height), (value, mine), k, lefts, rights, same = apex, pair, left.shape[0], 0, 0, 0
    stack, depth = np.empty(DEPTH, np.int32), 1
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if -top[node] > value or lowest(objects, node, sign) > height:
            continue
        if (lefts == k and high[node, 0] <= left[k - 1]) or (rights == k and low[node, 0] >= right[k - 1]):
            continue
        if bucket[node] < 0:
            one, two = objects.child[node, 0], objects.child[node, 1]
            first = max(low[one, 0] - x, x - high[one, 0]) < max(low[two, 0] - x, x - high[two, 0])
            depth = _push(objects, node, stack, depth, first)
            continue
        start = bucket[node] * capacity
        for slot in range(start, start + objects.size[node]):
            worth, at = -weight[slot], point[slot, 0]
            if worth > value or sign * point[slot, 1] > height:
                continue
            if worth == value and label[row[slot]] >= mine:
                continue
            if at < x:
                lefts = _insert(left, lefts, at, -1.0)
            elif at > x:
                rights = _insert(right, rights, at, 1.0)
            else:
                same += 1
    return lefts, rights, min(same, k)


@njit(**EXACT)
def list_above(
    objects: CornerTree, label: Labels, between: tuple[float, float], behind: tuple[float, int], value: float,
    mine: int, sign: float, found: Rows,
) -> int:  # fmt: skip
    """Write the rows of the lowest better objects between two x, from a height and row on; return how many.

    They are in order, by height, those of one height by row. `between` and `behind` themselves do not count.
    """
    point, weight, row, capacity = objects.point, objects.weight, objects.row, objects.meta[CAPACITY]
    top, low, high, bucket = objects.top, objects.low, objects.high, objects.bucket
    (after, before), (height, last), most, size = between, behind, found.shape[0], 0
    held, stack, depth = np.full(found.shape[0], np.inf), np.empty(DEPTH, np.int32), 1
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        highest = high[node, 1] if sign > 0 else -low[node, 1]
        if -top[node] > value or highest < height or lowest(objects, node, sign) > held[most - 1]:
            continue
        if high[node, 0] <= after or low[node, 0] >= before:
            continue
        if bucket[node] < 0:
            one, two = objects.child[node, 0], objects.child[node, 1]
            first = lowest(objects, one, sign) < lowest(objects, two, sign)
            depth = _push(objects, node, stack, depth, first)
            continue
        start = bucket[node] * capacity
        for slot in range(start, start + objects.size[node]):
            worth, at, which = -weight[slot], sign * point[slot, 1], row[slot]
            if worth > value or (worth == value and label[which] >= mine) or at > held[most - 1]:
                continue
            if at < height or (at == height and which <= last) or not after < point[slot, 0] < before:
                continue
            place = size
            while place > 0 and (
                held[place - 1] > at or (held[place - 1] == at and found[place - 1] > which)
            ):
                if place < most:
                    held[place], found[place] = held[place - 1], found[place - 1]
                place -= 1
            if place < most:
                held[place], found[place] = at, which
                size = min(size + 1, most)
    return size
