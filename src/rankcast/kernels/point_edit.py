"""Subscriptions leave and enter the buckets of a point tree, many at once; `point_mend` sets it right after.

1. `take_out` leaves a free place where each point stood. `move_out` does so for points that are to be moved,
   unless a point stays inside its bucket's box: then it only changes there.
2. `put_in` looks for the buckets of new points, a block of them step by step together, and writes each to a
   free place of its bucket; what finds none is left over for `point_mend`.

What was touched is marked by node: 0 for what was not, a leaf with free places by 1 + the slot of the first,
where `row` tells of the next as -1 - its mark (or -1), anything else by -1. Until a bucket is mended its size
counts free places too.

Cost: O(log m) a point that enters, the cache misses of a block overlapping; O(1) one that leaves.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.gather import BLOCK
from rankcast.kernels.options import EXACT
from rankcast.kernels.point_tree import BUCKET, HI_FROM, HI_TO, LO_FROM, LO_TO, PointTree
from rankcast.kernels.selection import Records, precedes

Rows = NDArray[np.int32]


@njit(**EXACT)
def _touch(marks: Rows, parent: Rows, node: np.int32) -> None:
    """Mark a node and those above it."""
    while node >= 0 and marks[node] == 0:
        marks[node] = -1
        node = parent[node]


@njit(**EXACT)
def _leave(row: Rows, marks: Rows, leaf: np.int32, slot: np.int32) -> None:
    """Make a slot of a marked leaf a free place."""
    row[slot] = -1 - max(marks[leaf], 0)
    marks[leaf] = slot + 1


@njit(**EXACT)
def take_out(tree: PointTree, rows: Rows, marks: Rows) -> None:
    """Take points out of their buckets."""
    slot_of, parent, row, leaf_of = tree.slot_of, tree.parent, tree.row, tree.leaf_of
    for i in range(rows.shape[0]):
        slot = slot_of[rows[i]]
        leaf = leaf_of[slot // BUCKET]
        _touch(marks, parent, leaf)
        _leave(row, marks, leaf, slot)
        slot_of[rows[i]] = -1


@njit(**EXACT)
def move_out(tree: PointTree, points: Records, marks: Rows) -> int:
    """Move points that stay in their buckets, take the others out; return how many, then the first ones.

    A point stays if it lies strictly inside the box of its leaf, before and after: then it is on the same
    side of every pivot, however ties are broken, and no end of the box was its own.
    """
    slot_of, parent, row, leaf_of = tree.slot_of, tree.parent, tree.row, tree.leaf_of
    box, lo, hi, left = tree.box, tree.lo, tree.hi, 0
    for i in range(points.shape[0]):
        slot = np.uint32(slot_of[np.uint32(points[i, 2])])
        leaf = np.uint32(leaf_of[slot // np.uint32(BUCKET)])
        west, east, bottom, top = box[leaf, LO_FROM], box[leaf, LO_TO], box[leaf, HI_FROM], box[leaf, HI_TO]
        inside = west < points[i, 0] < east and bottom < points[i, 1] < top
        if inside and west < lo[slot] < east and bottom < hi[slot] < top:
            lo[slot], hi[slot] = points[i, 0], points[i, 1]
            continue
        _touch(marks, parent, np.int32(leaf))
        _leave(row, marks, np.int32(leaf), np.int32(slot))
        for c in range(4):
            points[left, c] = points[i, c]
        left += 1
    return left


@njit(**EXACT)
def _descend(tree: PointTree, points: Records, start: int, leaves: Rows) -> None:
    """Find the leaves of a block of points; all go down step by step, so that none waits for another."""
    child, axes, pivot, pivot_row = tree.child, tree.axis, tree.pivot, tree.pivot_row
    leaves[:], going = 0, leaves.shape[0]
    while going > 0:
        going = 0
        for i in range(leaves.shape[0]):
            node, at = np.uint32(leaves[i]), start + i
            if child[node, 0] < 0:
                continue
            axis = np.uint8(axes[node])
            value, limit = points[at, axis], pivot[node, axis]
            after = value > limit
            if value == limit:
                lo, hi, row = pivot[node, 0], pivot[node, 1], np.float64(pivot_row[node])
                after = not precedes(np.int64(axis), points[at, 0], points[at, 1], points[at, 2], lo, hi, row)
            leaves[i] = child[node, np.uint8(after)]
            going += 1


@njit(**EXACT)
def put_in(tree: PointTree, points: Records, lists: Rows, marks: Rows) -> int:
    """Write points to free places of their buckets, with the lists at their origins for boards.

    Returns how many found none; they are then the first ones, and their buckets are full.
    """
    bucket, sizes, parent, row, slot_of = tree.bucket, tree.size, tree.parent, tree.row, tree.slot_of
    lo, hi, board, leaves, left = tree.lo, tree.hi, tree.board, np.empty(BLOCK, np.int32), 0
    for start in range(0, points.shape[0], BLOCK):
        end = min(start + BLOCK, points.shape[0])
        _descend(tree, points, start, leaves[: end - start])
        for i in range(start, end):
            leaf = leaves[i - start]
            if marks[leaf] > 0:
                slot = np.int64(marks[leaf] - 1)
                marks[leaf] = -1 - row[slot] if row[slot] < -1 else -1
            elif sizes[leaf] < BUCKET:
                slot = np.int64(bucket[leaf]) * BUCKET + sizes[leaf]
                sizes[leaf] += 1
                _touch(marks, parent, leaf)
            else:
                for c in range(4):
                    points[left, c] = points[i, c]
                left += 1
                continue
            which, origin = np.int32(points[i, 2]), np.int64(points[i, 3])
            lo[slot], hi[slot], row[slot], slot_of[which] = points[i, 0], points[i, 1], which, slot
            for place in range(board.shape[1]):
                board[slot, place] = lists[origin, place]
    return left
