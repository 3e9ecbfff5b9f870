"""Which lists an event must read: trees of centres (interval tree) and of segments (segment tree).

Interval tree [Ranked §2.1.1]: a node takes the intervals that contain its centre, the median of all ends; its
left child those that end before, its right child those that begin behind it. Depth O(log n), each interval
once. Segment tree [Ranked §2.1.2]: the ends cut the line into 2m + 1 slots (each end, and each gap between
two of them); an interval is listed in the O(log n) nodes that cover its slots, and whoever comes to a node
meets all of its list.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]
Longs = NDArray[np.int64]


@njit(**EXACT)
def _centre(lo: Floats, hi: Floats, order: Longs, start: int, end: int) -> float:
    """The median of the finite ends of some intervals, 0 if there is none."""
    ends, size = np.empty(2 * (end - start)), 0
    for i in range(start, end):
        for value in (lo[order[i]], hi[order[i]]):
            if np.isfinite(value):
                ends[size] = value
                size += 1
    if size == 0:
        return 0.0
    return np.partition(ends[:size], size // 2)[size // 2]


@njit(**EXACT)
def centre_tree(lo: Floats, hi: Floats) -> tuple[Floats, Rows, Longs, Longs]:
    """Centres, children (nodes, 2), the first entry of each node's list, and all entries.

    Lists keep the order in which intervals come. Node 0 is the root. O(n log n).
    """
    total = lo.shape[0]
    order, spare, listed = np.arange(total), np.empty(total, np.int64), np.empty(total, np.int64)
    centre, child = np.zeros(total + 1), np.full((total + 1, 2), -1, np.int32)
    first, nodes, used = np.zeros(total + 2, np.int64), 0, 0
    stack, depth = np.empty((256, 4), np.int64), 1
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, total, -1, 0
    while depth > 0:
        depth -= 1
        start, end, parent, side = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if parent >= 0:
            child[parent, side] = nodes
        middle, left, right = _centre(lo, hi, order, start, end), start, 0
        for i in range(start, end):
            each = order[i]
            if hi[each] < middle:
                order[left] = each
                left += 1
            elif lo[each] > middle:
                spare[right] = each
                right += 1
            else:
                listed[used] = each
                used += 1
        order[left : left + right] = spare[:right]
        centre[nodes], first[nodes + 1] = middle, used
        for side, begin, size in ((0, start, left - start), (1, left, right)):
            if size > 0:
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = begin, begin + size, nodes
                stack[depth, 3] = side
                depth += 1
        nodes += 1
    return centre[:nodes].copy(), child[:nodes].copy(), first[: nodes + 1].copy(), listed


@njit(**EXACT)
def route_by_centres(
    centre: Floats, child: Rows, number: Rows, top: int, below: float, above: float, route: Longs
) -> int:
    """The nodes with a list that may hold an interval that the event meets; returns how many."""
    size, done, used = 1, 0, 0
    route[0] = top
    while done < size:
        node = route[done]
        done += 1
        for side in range(2):
            wanted = above < centre[node] if side == 0 else below > centre[node]
            if wanted and child[node, side] >= 0:
                route[size] = child[node, side]
                size += 1
        if number[node] > 0:
            route[used] = node
            used += 1
    return used


@njit(**EXACT)
def slot_of(ends: Floats, value: float, leaves: int) -> int:
    """The slot of a value among sorted distinct ends: odd for an end, even for a gap."""
    if value == np.inf:
        return leaves - 1
    place = int(np.searchsorted(ends, value))
    return 2 * place + 1 if place < ends.shape[0] and ends[place] == value else 2 * place


@njit(**EXACT)
def segment_tree(lo: Floats, hi: Floats, ends: Floats, leaves: int) -> tuple[Longs, Longs]:
    """The first entry of each node's list (nodes 1 .. 2 leaves - 1), and all entries, in the given order."""
    first, listed = np.zeros(2 * leaves + 1, np.int64), np.empty(0, np.int64)
    for fill in range(2):
        for each in range(lo.shape[0]):
            left, right = (
                leaves + slot_of(ends, lo[each], leaves),
                leaves + slot_of(ends, hi[each], leaves) + 1,
            )
            while left < right:
                if left & 1:
                    if fill:
                        listed[first[left]] = each
                    first[left if fill else left + 1] += 1
                    left += 1
                if right & 1:
                    right -= 1
                    if fill:
                        listed[first[right]] = each
                    first[right if fill else right + 1] += 1
                left, right = left >> 1, right >> 1
        if fill == 0:
            first = np.cumsum(first)
            listed = np.empty(first[-1], np.int64)
    first[1:] = first[:-1].copy()
    first[0] = 0
    return first, listed


@njit(**EXACT)
def route_by_segments(
    number: Rows, ends: Floats, leaves: int, below: float, above: float, route: Longs
) -> int:
    """The nodes with a list that cover a slot of the event; for an unknown value the root alone."""
    size = 0
    if above > below:
        route[0] = 1
        return 1
    left = 0 if above == -np.inf else slot_of(ends, above, leaves)
    right = slot_of(ends, below, leaves)
    left, right = left + leaves, right + leaves
    while left > 0:
        for node in range(left, right + 1):
            if number[node] > 0:
                route[size] = node
                size += 1
        left, right = left >> 1, right >> 1
    return size
