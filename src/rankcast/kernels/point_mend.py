"""A point tree is set right after subscriptions have left and entered it: one visit to whatever was touched.

1. `mend` goes down to the nodes that `point_edit` marked. A bucket closes its free places; one that is too
   small for its new points becomes a subtree. On the way back sizes and boxes are set right, and a node whose
   one child is empty becomes the other.
2. `rebalance` builds anew the topmost nodes that have become skewed or nearly empty.

Neither grows an array: what finds no room is left over, the owner makes room and goes on from there.

Cost: O(1) a touched node, O(BUCKET) a touched bucket, and what is built anew.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT
from rankcast.kernels.point_tree import (
    BUCKET,
    FILL,
    SKEW,
    PointTree,
    append_records,
    collect,
    merge,
    most_buckets,
    plant,
    rebuild,
    release,
    spare_buckets,
    surround,
)
from rankcast.kernels.selection import Records, partition

Rows = NDArray[np.int32]
DEPTH = 512


@njit(**EXACT)
def _close(tree: PointTree, leaf: int, mark: int | np.int64) -> None:
    """Bring the last points of a bucket to its free places, the first of which its mark tells."""
    lo, hi, row, board, slot_of = tree.lo, tree.hi, tree.row, tree.board, tree.slot_of
    last, free = np.int64(tree.bucket[leaf]) * BUCKET + tree.size[leaf], mark
    while free > 0:
        last, free = last - 1, np.int64(-1 - row[free - 1])
        tree.size[leaf] -= 1
    end = last
    while mark > 0:
        slot, mark = mark - 1, np.int64(-1 - row[mark - 1])
        if slot < end:
            while row[last] < 0:
                last += 1
            lo[slot], hi[slot], row[slot], slot_of[row[last]] = lo[last], hi[last], row[last], slot
            board[slot] = board[last]
            last += 1


@njit(**EXACT)
def _grow(tree: PointTree, node: int, points: Records, lists: Rows) -> bool:
    """Make a subtree of a leaf that is too small for new points; False if there is no room for that."""
    size = tree.size[node]
    total = size + points.shape[0]
    if most_buckets(total) > spare_buckets(tree):
        return False
    everybody, boards = np.empty((total, 4)), np.empty((total, tree.board.shape[1]), np.int32)
    collect(tree, node, everybody, boards)
    append_records(everybody, boards, size, points, lists)
    plant(tree, node, everybody, np.empty_like(everybody), boards)
    return True


@njit(**EXACT)
def _absorb(tree: PointTree, parent: int, empty: int) -> None:
    """Replace a node whose one child has become empty by its other child."""
    other = tree.child[parent, 0] + tree.child[parent, 1] - empty
    tree.box[parent], tree.size[parent] = tree.box[other], tree.size[other]
    tree.pivot[parent], tree.pivot_row[parent] = tree.pivot[other], tree.pivot_row[other]
    tree.child[parent], tree.axis[parent] = tree.child[other], tree.axis[other]
    tree.bucket[parent] = tree.bucket[other]
    if tree.bucket[parent] >= 0:
        tree.leaf_of[tree.bucket[parent]] = parent
    else:
        tree.parent[tree.child[parent, 0]], tree.parent[tree.child[parent, 1]] = parent, parent
    tree.bucket[other] = -1
    release(tree, other, False)
    release(tree, empty, False)


@njit(**EXACT)
def is_skewed(left: np.int32, right: np.int32) -> bool | np.bool_:
    """Whether a node with children of such sizes must be built anew, or would fit into one bucket."""
    total = left + right
    return total <= BUCKET // 2 or max(left, right) > SKEW * total + FILL


@njit(**EXACT)
def mend(tree: PointTree, points: Records, lists: Rows, marks: Rows) -> int:
    """Set right what was touched; make subtrees of full buckets for points that found no place in them.

    Marks the nodes that change, and the box of the root if there is something to rebalance. Returns how many
    points found no room; they are then the first ones.
    """
    child, axis, pivot, pivot_row = tree.child, tree.axis, tree.pivot, tree.pivot_row
    bucket, sizes, box, lo, hi = tree.bucket, tree.size, tree.box, tree.lo, tree.hi
    spare, left, skewed = np.empty_like(points), 0, False
    stack, depth = np.empty((DEPTH, 3), np.int64), 1
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, points.shape[0]
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if start < 0:
            one, two = child[node, 0], child[node, 1]
            if sizes[one] == 0 or sizes[two] == 0:
                _absorb(tree, node, one if sizes[one] == 0 else two)
                marks[node, 1] = 1
            else:
                sizes[node] = sizes[one] + sizes[two]
                skewed |= is_skewed(sizes[one], sizes[two])
                if marks[one, 1] + marks[two, 1] > 0:
                    marks[node, 1] = merge(box, node, one, two)
        elif start == end and marks[node, 0] == 0:
            continue
        elif bucket[node] >= 0:
            if marks[node, 0] > 0:
                _close(tree, node, np.int64(marks[node, 0]))
            marks[node, 0] = -1
            if start < end and _grow(tree, node, points[start:end], lists):
                marks[node, 1] = 1
                continue
            if marks[node, 1] == 2:
                first = bucket[node] * BUCKET
                surround(box, node, lo, hi, first, first + sizes[node])
            if start < end:
                points[left : left + end - start] = points[start:end].copy()
                left += end - start
        else:
            middle = start
            if start < end:
                at = (pivot[node, 0], pivot[node, 1], np.float64(pivot_row[node]))
                middle = partition(points, spare, np.int64(axis[node]), start, end, at)
            marks[node, 0], stack[depth, 1] = -1, -1
            for side in range(1, -1, -1):
                depth += 1
                stack[depth, 0] = child[node, side]
                stack[depth, 1], stack[depth, 2] = (start, middle) if side == 0 else (middle, end)
            depth += 1
    marks[0, 1] = skewed
    return left


@njit(**EXACT)
def rebalance(tree: PointTree, marks: Rows) -> bool:
    """Build anew the topmost of the touched nodes that need it; False if there was no room for one."""
    child, sizes, bucket = tree.child, tree.size, tree.bucket
    stack, depth = np.empty(DEPTH, np.int64), 1
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if bucket[node] >= 0 or marks[node, 0] == 0:
            continue
        left, right = child[node, 0], child[node, 1]
        if not is_skewed(sizes[left], sizes[right]):
            stack[depth], stack[depth + 1] = left, right
            depth += 2
        elif spare_buckets(tree) < 0:
            return False
        else:
            rebuild(tree, node)
    return True
