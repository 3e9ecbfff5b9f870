"""Subscriptions leave and enter a point tree, many at once: whatever happens to a node happens in one visit.

1. `take_out` takes points out of their buckets. `move_out` first looks whether a point that is to be moved
   stays inside its bucket's box, and then only changes it there.
2. `put_in` goes down the tree with all new points together: at a node they are parted by its pivot, in a
   bucket they are appended, and one that overflows becomes a subtree. On the way back sizes and boxes are set
   right, and a node whose one child is empty becomes the other.
3. `rebalance` builds anew the topmost nodes that have become skewed or nearly empty.

Neither grows an array: what finds no room is left over, the owner makes room and goes on from there.

Cost: for each node on the way O(1) and its share of the points; O(1) a point in its bucket.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.gather import BLOCK
from rankcast.kernels.options import EXACT
from rankcast.kernels.point_tree import (
    BUCKET,
    FILL,
    HI_FROM,
    HI_TO,
    LO_FROM,
    LO_TO,
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
Floats = NDArray[np.float64]
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
def _shift(tree: PointTree, points: Records, start: int, end: int, others: Rows) -> int:
    """Change the points start..end-1 in their slots; note those that must leave these and return how many.

    A point stays if it lies strictly inside the box of its leaf, before and after: then it is on the same
    side of every pivot, however ties are broken, and no end of the box was its own.
    """
    slot_of, leaf_of, box, lo, hi = tree.slot_of, tree.leaf_of, tree.box, tree.lo, tree.hi
    size = 0
    for i in range(start, end):
        slot = np.uint32(slot_of[np.uint32(points[i, 2])])
        leaf = np.uint32(leaf_of[slot // np.uint32(BUCKET)])
        west, east = min(points[i, 0], lo[slot]), max(points[i, 0], lo[slot])
        bottom, top = min(points[i, 1], hi[slot]), max(points[i, 1], hi[slot])
        inside = (box[leaf, LO_FROM] < west) & (east < box[leaf, LO_TO])
        inside &= (box[leaf, HI_FROM] < bottom) & (top < box[leaf, HI_TO])
        lo[slot], hi[slot] = points[i, 0], points[i, 1]
        others[size] = i
        size += not inside
    return size


@njit(**EXACT)
def move_out(tree: PointTree, points: Records, lists: Rows, touched: Marks) -> int:
    """Move points that stay in their buckets, take the others out; return how many, then the first ones.

    The boards of those go to `lists`. Buckets lie anywhere: a block of points is looked at together, so that
    their cache misses overlap.
    """
    left, others, board, slot_of = 0, np.empty(BLOCK, np.int32), tree.board, tree.slot_of
    for start in range(0, points.shape[0], BLOCK):
        size = _shift(tree, points, start, min(start + BLOCK, points.shape[0]), others)
        for at in range(size):
            lo, hi, row = points[others[at], 0], points[others[at], 1], points[others[at], 2]
            points[left, 0], points[left, 1], points[left, 2], points[left, 3] = lo, hi, row, left
            others[at] = np.int32(row)
            lists[left] = board[slot_of[others[at]]]
            left += 1
        take_out(tree, others[:size], touched)
    return left


@njit(**EXACT)
def _append(
    lo: Floats, hi: Floats, row: Rows, slot_of: Rows, board: Rows, slot: int, points: Records, lists: Rows
) -> None:
    """Write points to free slots, with the lists at their origins for boards."""
    for i in range(points.shape[0]):
        lo[slot], hi[slot], row[slot] = points[i, 0], points[i, 1], np.int32(points[i, 2])
        slot_of[row[slot]], board[slot] = slot, lists[np.int64(points[i, 3])]
        slot += 1


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
def put_in(tree: PointTree, points: Records, lists: Rows, touched: Marks) -> int:
    """Put points in, with the lists at their origins, and set right what is above and what was touched.

    Marks the nodes that change. Returns how many points found no room; they are then the first ones.
    """
    child, axis, pivot, pivot_row = tree.child, tree.axis, tree.pivot, tree.pivot_row
    bucket, sizes, box, lo, hi = tree.bucket, tree.size, tree.box, tree.lo, tree.hi
    spare, left = np.empty_like(points), 0
    stack, depth = np.empty((DEPTH, 3), np.int64), 1
    stack[0, 0], stack[0, 1], stack[0, 2] = 0, 0, points.shape[0]
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if start < 0:
            one, two = child[node, 0], child[node, 1]
            if sizes[one] == 0 or sizes[two] == 0:
                _absorb(tree, node, one if sizes[one] == 0 else two)
            else:
                sizes[node] = sizes[one] + sizes[two]
                merge(box, node, one, two)
        elif start == end and not touched[node]:
            continue
        elif bucket[node] >= 0:
            touched[node] = True
            first, size = bucket[node] * BUCKET, sizes[node] + end - start
            if size <= BUCKET:
                free = first + sizes[node]
                _append(lo, hi, tree.row, tree.slot_of, tree.board, free, points[start:end], lists)
                sizes[node] = size
                surround(box, node, lo, hi, first, first + size)
            elif not _grow(tree, node, points[start:end], lists):
                surround(box, node, lo, hi, first, first + sizes[node])
                points[left : left + end - start] = points[start:end].copy()
                left += end - start
        else:
            middle = start
            if start < end:
                at = (pivot[node, 0], pivot[node, 1], np.float64(pivot_row[node]))
                middle = partition(points, spare, np.int64(axis[node]), start, end, at)
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
    stack, depth = np.empty(DEPTH, np.int64), 1
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
