"""The lists of all subscriptions at once: all boards, found together on the way down the point tree.

Let a node's ranges begin between lo_from and lo_to and end between hi_from and hi_to. All of them hold the
core [lo_to, hi_from]; none reaches outside [lo_from, hi_to]. Go through the objects by value, best first:
once k of the core have come, no later object is in anybody's list. What came before, and lies inside the
hull, are the node's candidates; a child's are among its parent's. At a leaf every range takes its first k
candidates. Some subscriptions among many are better served one by one (`blocks`).

Cost: O(n) for each level while ranges are short against the spread of a node, then O(k) a node; and about k
comparisons a subscription, instead of a search each.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.point_tree import BUCKET, PointTree
from rankcast.structures.jit import EXACT

DEPTH = 256


@njit(**EXACT)
def _sift(
    box: NDArray[np.float64], rows: NDArray[np.int32], x: NDArray[np.float64], start: int, end: int, k: int
) -> np.int64:
    """Append the candidates of a box among those at start..end-1; return the new end.

    Each is written, and written over by the next if it is none: a branch would often be mispredicted.
    """
    lo_from, lo_to, hi_from, hi_to = box[0], box[1], box[2], box[3]
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
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, total
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if 2 * end - start > rows.shape[0]:
            rows, places = np.append(rows, rows), np.append(places, places)
        size = _sift(points.box[node], rows, places, start, end, k)
        if child[node, 0] < 0:
            _fill_leaf(points, node, rows, places, end, size)
            continue
        for side in range(2):
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = child[node, side], end, size
            depth += 1
