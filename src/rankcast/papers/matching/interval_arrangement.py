"""The arrangement of the SOPT-R-tree [Ranked §3.2]: few R-tree leaves that an event opens in vain.

The constraint graph has an edge from an interval to a worse one if they overlap at a point where no interval
of a rank between them lies. Seen from below, the intervals taken so far (best first) show a row of visible
blocks; the next one gets an edge from the owner of every block that it overlaps, and then hides them. Each
interval adds at most three blocks, so there are at most 3n edges. The arrangement takes, again and again, the
interval with the smallest left end among those without an edge from one that is not taken yet.

Cost: O(n log n). Blocks live on 2m + 1 slots (see `interval_routes`); a Fenwick tree over their first slots
finds the block of a slot.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]
Longs = NDArray[np.int64]


@njit(**EXACT)
def _mark(tree: Longs, slot: int, change: int) -> None:
    slot += 1
    while slot < tree.shape[0]:
        tree[slot] += change
        slot += slot & -slot


@njit(**EXACT)
def _block_at(tree: Longs, slot: int) -> int:
    """The last marked slot that is at most `slot`; slot 0 is always marked."""
    rank, at = 0, slot + 1
    while at > 0:
        rank += tree[at]
        at -= at & -at
    step, found = 1, 0
    while 2 * step < tree.shape[0]:
        step *= 2
    while step > 0:
        if found + step < tree.shape[0] and tree[found + step] < rank:
            found += step
            rank -= tree[found]
        step //= 2
    return found


@njit(**EXACT)
def constraint_graph(first_slot: Longs, last_slot: Longs, slots: int) -> tuple[Longs, Longs]:
    """The edges (from, to) among intervals that come best first, given by their slots."""
    total, edges = first_slot.shape[0], 0
    source, target = np.empty(3 * total, np.int64), np.empty(3 * total, np.int64)
    tree, owner, behind = np.zeros(slots + 1, np.int64), np.full(slots + 1, -1), np.full(slots + 1, slots)
    _mark(tree, 0, 1)
    for each in range(total):
        left, right = first_slot[each], last_slot[each]
        start = _block_at(tree, left)
        block, last = start, start
        while block <= right:
            if owner[block] >= 0:
                source[edges], target[edges] = owner[block], each
                edges += 1
            if block > left:
                _mark(tree, block, -1)
            last, block = block, behind[block]
        if block > right + 1:
            _mark(tree, right + 1, 1)
            owner[right + 1], behind[right + 1] = owner[last], block
        if start < left:
            _mark(tree, left, 1)
            behind[start] = left
        owner[left], behind[left] = each, min(right + 1, slots)
    return source[:edges], target[:edges]


@njit(**EXACT)
def _sift(heap: Longs, size: int, lo: Floats) -> None:
    """Let the first of a heap by (lo, number) sink to its place."""
    hole, each = 0, heap[0]
    while 2 * hole + 1 < size:
        child = 2 * hole + 1
        if child + 1 < size and _before(lo, heap[child + 1], heap[child]):
            child += 1
        if not _before(lo, heap[child], each):
            break
        heap[hole], hole = heap[child], child
    heap[hole] = each


@njit(**EXACT)
def _before(lo: Floats, one: int, other: int) -> bool:
    return lo[one] < lo[other] or (lo[one] == lo[other] and one < other)


@njit(**EXACT)
def arrange(lo: Floats, source: Longs, target: Longs) -> Longs:
    """The arrangement of intervals that come best first, from their constraint graph."""
    total, waiting = lo.shape[0], np.zeros(lo.shape[0], np.int64)
    first, successor = np.zeros(total + 2, np.int64), np.empty(source.shape[0], np.int64)
    for edge in range(source.shape[0]):
        first[source[edge] + 2] += 1
        waiting[target[edge]] += 1
    first = np.cumsum(first)
    for edge in range(source.shape[0]):
        successor[first[source[edge] + 1]] = target[edge]
        first[source[edge] + 1] += 1
    heap, size, arranged = np.empty(total, np.int64), 0, np.empty(total, np.int64)
    for each in range(total):
        if waiting[each] == 0:
            size = _push(heap, size, lo, each)
    for place in range(total):
        each = heap[0]
        arranged[place] = each
        size -= 1
        heap[0] = heap[size]
        _sift(heap, size, lo)
        for at in range(first[each], first[each + 1]):
            waiting[successor[at]] -= 1
            if waiting[successor[at]] == 0:
                size = _push(heap, size, lo, successor[at])
    return arranged


@njit(**EXACT)
def _push(heap: Longs, size: int, lo: Floats, each: int) -> int:
    hole = size
    while hole > 0 and _before(lo, each, heap[(hole - 1) // 2]):
        heap[hole] = heap[(hole - 1) // 2]
        hole = (hole - 1) // 2
    heap[hole] = each
    return size + 1
