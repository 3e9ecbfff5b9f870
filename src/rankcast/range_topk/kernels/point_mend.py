"""A point tree is set right after subscriptions have left and entered it: one visit to whatever was touched.

`edit` is the whole of it where nobody finds a full bucket; the steps behind `point_edit` are:

1. `grow` makes subtrees of full buckets that are too small for their new points.
2. `mend` goes up from the leaves that were touched, all of them one step at a time, and sets sizes and boxes
   right as far as they change. Paths of different lengths meet: a node may be set right more than once.
3. `rebalance` builds anew the nodes that have become skewed or nearly empty, the topmost first.

None grows an array: what finds no room is left over, the owner makes room and goes on from there.

Cost: O(1) a touched node, the cache misses of one step overlapping, and what is built anew.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.point_edit import exchange, move_out, take_out
from rankcast.range_topk.kernels.point_plant import collect, plant, rebuild, write_records
from rankcast.range_topk.kernels.point_tree import (
    BUCKET,
    FILL,
    SKEW,
    PointTree,
    merge,
    most_buckets,
    spare_buckets,
)
from rankcast.structures.arrays import prefetch
from rankcast.structures.jit import EXACT
from rankcast.structures.select import HALF, LOWER, Records, Words

Rows = NDArray[np.int32]
Floats = NDArray[np.float64]
LEAVE, ENTER, MOVE = range(3)
OTHER, LISTED, SKEWED = 1, 2, 4
AHEAD = 16  # how many nodes before their turn memory is asked for


@njit(**EXACT)
def _grow(tree: PointTree, node: int, entering: Words, points: Records, lists: Rows) -> bool:
    """Make a subtree of a leaf that is too small for new points; False if there is no room for that."""
    size = np.int64(tree.size[node])
    total = size + entering.shape[0]
    if most_buckets(total) > spare_buckets(tree):
        return False
    everybody, boards = np.empty((total, 4)), np.empty((total, tree.board.shape[1]), np.int32)
    collect(tree, node, everybody, boards)
    for i in range(size, total):
        at = entering[i - size] & LOWER
        boards[i] = lists[np.int64(points[at, 3])]
        everybody[i], everybody[i, 3] = points[at], i
    plant(tree, node, everybody, np.empty_like(everybody), boards)
    return True


@njit(**EXACT)
def grow(tree: PointTree, entering: Words, points: Records, lists: Rows) -> int:
    """Let points into full buckets, as `exchange` left them; how many found no room, then the first ones."""
    start, left = 0, 0
    while start < entering.shape[0]:
        bucket, end = entering[start] >> HALF, start + 1
        while end < entering.shape[0] and entering[end] >> HALF == bucket:
            end += 1
        if not _grow(tree, tree.leaf_of[bucket], entering[start:end], points, lists):
            for i in range(start, end):
                entering[left] = entering[i]
                left += 1
        start = end
    return left


@njit(**EXACT)
def is_skewed(left: np.int32, right: np.int32) -> bool | np.bool_:
    """Whether a node with children of such sizes must be built anew, or would fit into one bucket."""
    total = left + right
    return total <= BUCKET // 2 or min(left, right) == 0 or max(left, right) > SKEW * total + FILL


@njit(**EXACT)
def _step_up(parent: Rows, child: Rows, touched: Rows, marks: NDArray[np.int8]) -> int:
    """Replace nodes by their parents, each once, and mark those of nodes with other boxes; how many."""
    count = 0
    for i in range(touched.shape[0]):
        prefetch(parent, np.int64(touched[min(i + AHEAD, touched.shape[0] - 1)] >> 1))
        node, other = parent[np.uint32(touched[i] >> 1)], touched[i] & OTHER
        if node >= 0:
            prefetch(child, 2 * np.int64(node))
            touched[count] = node
            count += marks[np.uint32(node)] & LISTED == 0
            marks[np.uint32(node)] |= LISTED | other
    return count


@njit(**EXACT)
def mend(tree: PointTree, touched: Rows) -> Rows:
    """Set sizes and boxes right above leaves that were touched; the nodes to look at for `rebalance`."""
    parent, child, sizes, box = tree.parent, tree.child, tree.size, tree.box
    marks, skewed = np.zeros(parent.shape[0], np.int8), np.empty(parent.shape[0], np.int32)
    count, found = touched.shape[0], 0
    while count > 0:
        above = _step_up(parent, child, touched[:count], marks)
        count = 0
        for i in range(above):
            soon = touched[min(i + AHEAD, above - 1)]
            prefetch(sizes, np.int64(soon))
            prefetch(sizes, np.int64(child[np.uint32(soon), 0]))
            if marks[np.uint32(soon)] & OTHER:
                prefetch(box, 4 * np.int64(soon))
                prefetch(box, 4 * np.int64(child[np.uint32(soon), 0]))
            node = np.uint32(touched[i])
            one, two = np.uint32(child[node, 0]), np.uint32(child[node, 1])
            size, other = sizes[one] + sizes[two], False
            if marks[node] & OTHER:
                other = merge(box, np.int64(node), np.int64(one), np.int64(two))
            touched[count] = np.int32(2 * node) + np.int32(other)
            count += other or size != sizes[node]
            sizes[node] = size
            marks[node] &= SKEWED
            if marks[node] == 0 and is_skewed(sizes[one], sizes[two]):
                marks[node] = SKEWED
                skewed[found] = node
                found += 1
    return skewed[:found]


@njit(**EXACT)
def rebalance(tree: PointTree, skewed: Rows) -> int:
    """Build nodes anew that are skewed, the last first; how many are still to be looked at, without room."""
    child, sizes = tree.child, tree.size
    for at in range(skewed.shape[0] - 1, -1, -1):
        one, two = child[skewed[at], 0], child[skewed[at], 1]
        if one >= 0 and is_skewed(sizes[one], sizes[two]):
            if spare_buckets(tree) < 0:
                return at + 1
            rebuild(tree, np.int64(skewed[at]))
    return 0


@njit(**EXACT)
def edit(
    tree: PointTree, kind: int, rows: Rows, lo: Floats, hi: Floats, points: Records, lists: Rows
) -> tuple[Words, Rows, Rows]:
    """Let subscriptions LEAVE, ENTER, or MOVE to other ranges, with their lists for boards.

    `points` is written; there are as many as rows, or none if they leave. Gives those that found their
    buckets full and the leaves that were touched, as `exchange` does. Only if nobody did the tree is set
    right, and then comes what `mend` gives.
    """
    gone = rows[:0]
    if kind == MOVE:
        gone = move_out(tree, rows, lo, hi, points)
        points = points[: gone.shape[0]]
    elif kind == ENTER:
        write_records(points, 0, rows, lo, hi)
    else:
        gone = take_out(tree, rows)
    entering, touched = exchange(tree, gone, points, lists)
    skewed = mend(tree, touched) if entering.shape[0] == 0 else touched[:0]
    return entering, touched, skewed
