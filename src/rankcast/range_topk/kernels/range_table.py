"""The lists of many ranges at once: the best objects of every block, of every 2, 4, 8 ... blocks in a row.

Objects stand in the order of x and are known by rank, their place in the order of (y, label): one integer
decides. They are cut into blocks of 2^shift. `table` holds, for each power 2^j and each block b, the k
smallest ranks of the 2^j blocks from b on, ascending, then n; its last list, of nobody, is all n. A range is
two such stretches, which may overlap, and a part of a block at either end; so two lists are merged, and the
objects of the parts compared with the last.

Cost: O(k m log m) for the table of m blocks; O(log n + k + 2^shift) a list, nothing allocated. Indexes are
unsigned, or Numba would ask each whether it counts from the end.

`fill` finds the lists of all subscriptions at once, on the way down their tree. Let a node's ranges begin
between lo_from and lo_to and end between hi_from and hi_to. All of them hold the core [lo_to, hi_from]; none
reaches outside [lo_from, hi_to]. Go through the objects by value, best first: once k of the core have come,
no later object is in anybody's list. What came before, and lies inside the hull, are the node's candidates; a
child's are among its parent's. At a leaf every range takes its first k candidates. Cost: O(n) a level while
ranges are short against the spread of a node, then O(k) a node; and about k comparisons a subscription.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.points import BUCKET, DEPTH, PointTree
from rankcast.structures.arrays import BLOCK, prefetch
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
Floats = NDArray[np.float64]
Places = NDArray[np.uint64]


class Blocks(NamedTuple):
    """Objects in the order of x, their ranks, the rows by rank (and -1 for rank n), the best of blocks."""

    x: Floats
    rank: Rows
    row: Rows
    table: Rows
    shift: int


@njit(**EXACT)
def _settle_in(ranks: Rows, first: np.uint64, last: np.uint64, rank: np.int32) -> None:
    """Put a rank into the list at first..last, whose last one drops out."""
    while last > first and ranks[last - np.uint64(1)] > rank:
        ranks[last] = ranks[last - np.uint64(1)]
        last -= np.uint64(1)
    ranks[last] = rank


@njit(**EXACT)
def _merge(table: Rows, one: np.uint64, two: np.uint64, ranks: Rows, start: np.uint64, k: np.uint64) -> None:
    """Write the k smallest of two lists of the table, each once, behind `start`."""
    for place in range(start, start + k):
        smaller = min(table[one], table[two])
        one, two = one + np.uint64(table[one] == smaller), two + np.uint64(table[two] == smaller)
        ranks[place] = smaller


@njit(**EXACT)
def tabulate(rank: Rows, shift: int, k: int, table: Rows) -> None:
    """Fill the table, whose length is a multiple of k times the number of blocks, and k."""
    total, width = np.uint64(((rank.shape[0] - 1) >> shift) + 1), np.uint64(k)
    table[:] = rank.shape[0]
    for i in range(rank.shape[0]):
        first = np.uint64(i >> shift) * width
        if rank[i] < table[first + width - np.uint64(1)]:
            _settle_in(table, first, first + width - np.uint64(1), rank[i])
    step, below = np.uint64(1), np.uint64(0)
    while np.uint64(2) * step <= total:
        here = below + total * width
        for b in range(total - np.uint64(2) * step + np.uint64(1)):
            at = below + np.uint64(b) * width
            _merge(table, at, at + step * width, table, here + np.uint64(b) * width, width)
        step, below = np.uint64(2) * step, here


@njit(**EXACT)
def _between(x: Floats, lo: Floats, hi: Floats, first: Places, end: Places) -> None:
    """Where the objects of some ranges begin and end; all searches go step by step, so that none waits."""
    length = np.uint64(x.shape[0])
    first[:], end[:] = 0, 0
    while length > np.uint64(1):
        half = length >> np.uint64(1)
        for i in range(np.uint64(lo.shape[0])):
            first[i] += half * np.uint64(x[first[i] + half - np.uint64(1)] < lo[i])
            end[i] += half * np.uint64(x[end[i] + half - np.uint64(1)] <= hi[i])
        length -= half
    for i in range(np.uint64(lo.shape[0])):
        first[i] += np.uint64(x[first[i]] < lo[i])
        end[i] += np.uint64(x[end[i]] <= hi[i])


@njit(**EXACT)
def _look_through(rank: Rows, first: np.uint64, end: np.uint64, ranks: Rows) -> None:
    """Let the objects at first..end-1 into a list if they are good enough."""
    last = np.uint64(ranks.shape[0] - 1)
    for i in range(first, end):
        if rank[i] < ranks[last]:
            _settle_in(ranks, np.uint64(0), last, rank[i])


@njit(**EXACT)
def _whole(first: np.uint64, end: np.uint64, shift: np.uint64) -> tuple[np.uint64, np.uint64]:
    """Where the whole blocks among the objects at first..end-1 begin and end; both at the end without any."""
    low, high = (first + (np.uint64(1) << shift) - np.uint64(1)) >> shift, end >> shift
    return (low << shift, high << shift) if low < high else (end, end)


@njit(**EXACT)
def _ask(
    rank: Rows, table: Rows, shift: np.uint64, k: np.uint64, first: Places, end: Places, one: Places,
    two: Places,
) -> None:  # fmt: skip
    """Find the two lists of the table for each range, the last one without a block, and ask for them."""
    total = (np.uint64(rank.shape[0] - 1) >> shift) + np.uint64(1)
    for i in range(np.uint64(first.shape[0])):
        low, high = _whole(first[i], end[i], shift)
        count, step, line = (high - low) >> shift, np.uint64(1), np.uint64(0)
        while np.uint64(2) * step <= count:
            step, line = np.uint64(2) * step, line + total
        none = np.uint64(table.shape[0]) - k
        one[i] = (line + (low >> shift)) * k if count else none
        two[i] = (line + (high >> shift) - step) * k if count else none
        prefetch(table, np.int64(one[i]))
        prefetch(table, np.int64(one[i] + k - np.uint64(1)))
        prefetch(table, np.int64(two[i]))
        prefetch(table, np.int64(two[i] + k - np.uint64(1)))
        prefetch(rank, np.int64(first[i]))
        prefetch(rank, np.int64(high))


@njit(**EXACT)
def find_lists(blocks: Blocks, lo: Floats, hi: Floats, boards: Rows) -> None:
    """Write the best objects of every range, best first, then -1. There is an object.

    What a block of ranges looks at is asked for first. Kernels get arrays, not `Blocks`: references to what
    they fetch from there would be counted for every list.
    """
    x, rank, row, table, shift = blocks.x, blocks.rank, blocks.row, blocks.table, np.uint64(blocks.shift)
    ranks, k = np.empty(boards.shape[1], np.int32), np.uint64(boards.shape[1])
    first, end = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    one, two = np.empty(BLOCK, np.uint64), np.empty(BLOCK, np.uint64)
    for start in range(0, lo.shape[0], BLOCK):
        size = min(BLOCK, lo.shape[0] - start)
        _between(x, lo[start : start + size], hi[start : start + size], first, end)
        _ask(rank, table, shift, k, first[:size], end[:size], one, two)
        for i in range(np.uint64(size)):
            low, high = _whole(first[i], end[i], shift)
            _merge(table, one[i], two[i], ranks, np.uint64(0), k)
            _look_through(rank, first[i], low, ranks)
            _look_through(rank, high, end[i], ranks)
            for place in range(k):
                boards[np.uint64(start) + i, place] = row[np.uint32(ranks[place])]


@njit(**EXACT)
def _sift_lists(
    box: NDArray[np.float64], rows: NDArray[np.int32], x: NDArray[np.float64], start: int, end: int, k: int
) -> np.int64:
    """Append the candidates of a box among those at start..end-1; return the new end.

    Each is written, and written over by the next if it is none: a branch would often be mispredicted.
    """
    lo_from, lo_to, hi_from, hi_to = box[0], box[1], box[2], box[3]
    # unsigned indexes: Numba need not test whether they count from the end
    size, core = np.uint64(end), 0
    for i in range(np.uint64(start), np.uint64(end)):
        rows[size], x[size] = rows[i], x[i]
        size += np.uint64(lo_from <= x[size] <= hi_to)
        core += lo_to <= x[i] <= hi_from
        if core == k:
            break
    return np.int64(size)


@njit(**EXACT)
def _fill_leaf(
    points: PointTree, node: int, rows: NDArray[np.int32], x: NDArray[np.float64], start: int, end: int
) -> None:
    """Let every board of a bucket take its first k candidates."""
    boards, k, first = points.board, points.board.shape[1], points.bucket[node] * BUCKET
    for slot in range(first, first + points.size[node]):
        lo, hi, size, i = points.lo[slot], points.hi[slot], 0, start
        while i < end and size < k:
            if lo <= x[i] <= hi:
                boards[slot, size] = rows[i]
                size += 1
            i += 1
        boards[slot, size:] = -1


@njit(**EXACT)
def fill(points: PointTree, by_value: NDArray[np.int32], x: NDArray[np.float64]) -> None:
    """Fill every board; `by_value` are all objects, best first."""
    k, total, child = points.board.shape[1], by_value.shape[0], points.child
    rows, places = np.empty(2 * total, np.int32), np.empty(2 * total)
    rows[:total], places[:total] = by_value, x[by_value]
    stack, depth = np.empty((DEPTH, 3), np.int64), 1 if points.size[0] > 0 else 0
    # an entry of the stack: a node, and where its part of the queue begins and ends
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, total
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if 2 * end - start > rows.shape[0]:
            rows, places = np.append(rows, rows), np.append(places, places)
        size = _sift_lists(points.box[node], rows, places, start, end, k)
        if child[node, 0] < 0:
            _fill_leaf(points, node, rows, places, end, size)
            continue
        for side in range(2):
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = child[node, side], end, size
            depth += 1
