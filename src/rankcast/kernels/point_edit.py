"""Subscriptions leave and enter the buckets of a point tree, many at once; `point_mend` sets it right after.

1. `take_out` leaves a free place where each point stood. `move_out` does so for points that are to be moved,
   unless a point stays inside its bucket's box: then it only changes there.
2. `put_in` looks for the buckets of new points, a block of them step by step together, and writes each to a
   free place of its bucket; what finds none is left over for `point_mend`.

What was touched is marked by node, in two columns. The first has 0 for what was not, for a leaf with free
places 1 + the slot of the first, where `row` tells of the next as -1 - its mark (or -1), and -1 for anything
else; until a bucket is mended its size counts free places too. The second has 0 for a box that is as it was,
1 for another, 2 for one to be found anew as a point at its border has left.

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
Floats = NDArray[np.float64]


@njit(**EXACT)
def _touch(marks: Rows, parent: Rows, node: np.int32) -> None:
    """Mark a node and those above it."""
    while node >= 0 and marks[node, 0] == 0:
        marks[node, 0] = -1
        node = parent[node]


@njit(**EXACT)
def _leave(row: Rows, marks: Rows, leaf: np.uint32, slot: np.uint32, within: bool) -> None:
    """Make a slot of a marked leaf a free place; its point was within the box, or at the border."""
    row[slot] = -1 - max(marks[leaf, 0], 0)
    marks[leaf, 0] = slot + 1
    if not within:
        marks[leaf, 1] = 2


@njit(**EXACT)
def _within(box: Floats, leaf: np.uint32, lo: float, hi: float) -> bool:
    """Whether a point lies strictly inside the box of a leaf."""
    inside = (box[leaf, LO_FROM] < lo) & (lo < box[leaf, LO_TO])
    return inside & (box[leaf, HI_FROM] < hi) & (hi < box[leaf, HI_TO])


@njit(**EXACT)
def take_out(tree: PointTree, rows: Rows, marks: Rows) -> None:
    """Take points out of their buckets."""
    slot_of, parent, row, leaf_of = tree.slot_of, tree.parent, tree.row, tree.leaf_of
    box, lo, hi = tree.box, tree.lo, tree.hi
    for i in range(rows.shape[0]):
        slot = np.uint32(slot_of[np.uint32(rows[i])])
        leaf = np.uint32(leaf_of[slot // np.uint32(BUCKET)])
        _touch(marks, parent, np.int32(leaf))
        _leave(row, marks, leaf, slot, _within(box, leaf, lo[slot], hi[slot]))
        slot_of[np.uint32(rows[i])] = -1


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
        within = _within(box, leaf, lo[slot], hi[slot])
        if within and _within(box, leaf, points[i, 0], points[i, 1]):
            lo[slot], hi[slot] = points[i, 0], points[i, 1]
            continue
        _touch(marks, parent, np.int32(leaf))
        _leave(row, marks, leaf, slot, within)
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
def _widen(box: Floats, leaf: np.int32, lo: float, hi: float, marks: Rows) -> None:
    """Let the box of a leaf take a point in."""
    inside = (box[leaf, LO_FROM] <= lo) & (lo <= box[leaf, LO_TO])
    if not inside & (box[leaf, HI_FROM] <= hi) & (hi <= box[leaf, HI_TO]):
        box[leaf, LO_FROM], box[leaf, LO_TO] = min(box[leaf, LO_FROM], lo), max(box[leaf, LO_TO], lo)
        box[leaf, HI_FROM], box[leaf, HI_TO] = min(box[leaf, HI_FROM], hi), max(box[leaf, HI_TO], hi)
        marks[leaf, 1] = max(marks[leaf, 1], 1)


@njit(**EXACT)
def put_in(tree: PointTree, points: Records, lists: Rows, marks: Rows) -> int:
    """Write points to free places of their buckets, with the lists at their origins for boards.

    Returns how many found none; they are then the first ones, and their buckets are full.
    """
    bucket, sizes, parent, row, slot_of = tree.bucket, tree.size, tree.parent, tree.row, tree.slot_of
    lo, hi, board, box = tree.lo, tree.hi, tree.board, tree.box
    leaves, left = np.empty(BLOCK, np.int32), 0
    for start in range(0, points.shape[0], BLOCK):
        end = min(start + BLOCK, points.shape[0])
        _descend(tree, points, start, leaves[: end - start])
        for i in range(start, end):
            leaf = leaves[i - start]
            if marks[leaf, 0] > 0:
                slot = np.int64(marks[leaf, 0] - 1)
                marks[leaf, 0] = -1 - row[slot] if row[slot] < -1 else -1
            elif sizes[leaf] < BUCKET:
                slot = np.int64(bucket[leaf]) * BUCKET + sizes[leaf]
                sizes[leaf] += 1
                _touch(marks, parent, leaf)
            else:
                for c in range(4):
                    points[left, c] = points[i, c]
                left += 1
                continue
            _widen(box, leaf, points[i, 0], points[i, 1], marks)
            which, origin = np.int32(points[i, 2]), np.int64(points[i, 3])
            lo[slot], hi[slot], row[slot], slot_of[which] = points[i, 0], points[i, 1], which, slot
            for place in range(board.shape[1]):
                board[slot, place] = lists[origin, place]
    return left
