"""Subscriptions leave and enter a point tree, many at once: whatever happens to a node happens in one visit.

1. `exchange` takes points out of their buckets, then goes down the tree with all new points together: at a
   node they are parted by its pivot, in a bucket they are appended, and one that overflows becomes a subtree.
   On the way back sizes and boxes are set right, and a node whose one child is empty becomes the other.
2. `rebalance` builds anew the topmost nodes that have become skewed or nearly empty.

Neither grows an array: what finds no room is left over, the owner makes room and goes on from there.

Cost: for each node on the way O(1) and its share of the points; O(1) a point in its bucket.
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
    UNFILLED,
    PointTree,
    append_records,
    collect,
    enclose,
    merge_boxes,
    most_buckets,
    place,
    plant,
    rebuild,
    release,
    spare_buckets,
)
from rankcast.kernels.selection import Records, partition

Rows = NDArray[np.int32]
Marks = NDArray[np.bool_]
DEPTH = 512


@njit(**EXACT)
def take_out(tree: PointTree, rows: Rows, touched: Marks) -> None:
    """Take points out of their buckets and mark the nodes above; sizes and boxes follow on the way back."""
    slot_of, sizes, parent, board = tree.slot_of, tree.size, tree.parent, tree.board
    lo, hi, row, leaf_of, bucket = tree.lo, tree.hi, tree.row, tree.leaf_of, tree.bucket
    for i in range(rows.shape[0]):
        slot = slot_of[rows[i]]
        node = leaf_of[slot // BUCKET]
        sizes[node] -= 1
        last = bucket[node] * BUCKET + sizes[node]
        if slot != last:
            lo[slot], hi[slot], row[slot], slot_of[row[last]] = lo[last], hi[last], row[last], slot
            board[slot] = board[last]
        slot_of[rows[i]] = -1
        while node >= 0 and not touched[node]:
            touched[node] = True
            node = parent[node]


@njit(**EXACT)
def _put_in(tree: PointTree, node: int, points: Records, start: int, end: int) -> bool:
    """Add points to a leaf, or to the subtree it then becomes; False if there is no room for that."""
    size = tree.size[node]
    total = size + end - start
    if total <= BUCKET:
        slot, board = tree.bucket[node] * BUCKET + size, tree.board
        for i in range(start, end):
            place(tree, slot, points[i, 0], points[i, 1], np.int32(points[i, 2]))
            board[slot, 0] = UNFILLED
            slot += 1
        tree.size[node] = total
    elif most_buckets(total) > spare_buckets(tree):
        return False
    else:
        everybody, boards = np.empty((total, 4)), np.empty((size, tree.board.shape[1]), np.int32)
        collect(tree, node, everybody, boards)
        append_records(everybody, size, points, start, end)
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
def _close(tree: PointTree, node: int) -> None:
    """Set size and box of an inner node from its children, of which it may keep only one."""
    left, right, sizes = tree.child[node, 0], tree.child[node, 1], tree.size
    if sizes[left] == 0 or sizes[right] == 0:
        _absorb(tree, node, left if sizes[left] == 0 else right)
    else:
        sizes[node] = sizes[left] + sizes[right]
        merge_boxes(tree, node)


@njit(**EXACT)
def exchange(tree: PointTree, rows: Rows, points: Records, touched: Marks) -> int:
    """Take rows out and put points in, marking the nodes that change; boards of new points are unfilled.

    Returns how many points found no room; they are then the first ones.
    """
    take_out(tree, rows, touched)
    child, axis, pivot, pivot_row = tree.child, tree.axis, tree.pivot, tree.pivot_row
    spare, left = np.empty_like(points), 0
    stack, depth = np.empty((DEPTH, 3), np.int64), 1
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, points.shape[0]
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if start < 0:
            _close(tree, node)
        elif start == end and not touched[node]:
            continue
        elif tree.bucket[node] >= 0:
            if start < end and not _put_in(tree, node, points, start, end):
                points[left : left + end - start] = points[start:end].copy()
                left += end - start
            if tree.bucket[node] >= 0:
                enclose(tree, node)
            touched[node] = True
        else:
            middle = start
            if start < end:
                at = (pivot[node, 0], pivot[node, 1], np.float64(pivot_row[node]))
                middle = partition(points, spare, axis[node], start, end, at)
            touched[node] = True
            stack[depth, 1] = -1
            for side in range(1, -1, -1):
                depth += 1
                stack[depth, 0] = child[node, side]
                stack[depth, 1], stack[depth, 2] = (start, middle) if side == 0 else (middle, end)
            depth += 1
    return left


@njit(**EXACT)
def rebalance(tree: PointTree, touched: Marks) -> bool:
    """Build anew the topmost of the touched nodes that need it; False if there was no room for one."""
    child, sizes, bucket = tree.child, tree.size, tree.bucket
    stack, depth = np.empty(DEPTH, np.int32), 1
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if bucket[node] >= 0 or not touched[node]:
            continue
        left, right = child[node, 0], child[node, 1]
        larger = max(sizes[left], sizes[right])
        if sizes[node] > BUCKET // 2 and larger <= SKEW * sizes[node] + FILL:
            stack[depth], stack[depth + 1] = left, right
            depth += 2
        elif spare_buckets(tree) < 0:
            return False
        else:
            rebuild(tree, node)
    return True
