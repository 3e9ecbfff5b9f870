"""Subscriptions as points (lo, hi): a k-d tree whose leaves are buckets of neighbouring slots.

Bucket b owns the slots b * BUCKET .. (b + 1) * BUCKET - 1; its leaf's points stand at the front of them, so
whatever is kept per slot (the point, its row, its board of k items) lies side by side for neighbours in
subscription space. `slot_of[row]` finds a subscription again.

An inner node splits its points by the order (lo, hi, row) or (hi, lo, row), smaller ones to the left. Rows
are distinct, so any number of equal points can be split evenly and the tree stays balanced whatever the data.
`box` is the tightest closed box around a node's points: lo from, lo to, hi from, hi to.

Invariants: node 0 is the root; every leaf but an only one has a point; no child of a node with n points has
more than SKEW n + FILL of them; equal slots and rows point at each other. One mechanism restores all of them:
a subtree is copied out (`collect`) and planted anew in the same node (`plant`), leaves filled to FILL. A full
bucket, a skewed node, an empty leaf, a nearly empty pair of leaves and a bulk load all end in it. Levels of
many points are split several at once (`select.divide`), those of few exactly (`select.split`).

Cost: O(n log n) to plant n points, a few nanoseconds a point and level. Edits are in `points_edit`: O(log m)
node visits, plus amortised O(log m) moves a level for planting anew.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT
from rankcast.structures.select import (
    LEAST,
    Division,
    Places,
    Records,
    balanced,
    bring,
    divide,
    levels_for,
    split,
)

BUCKET = 64
FILL = 56
SKEW = 0.7
NODE_USED, NODE_FREE, BUCKET_USED, BUCKET_FREE, BUCKETS = range(5)
LO_FROM, LO_TO, HI_FROM, HI_TO = range(4)
DEPTH = 256  # of a stack of nodes on the way down


class PointTree(NamedTuple):
    """The arrays of a point tree: per node, per bucket, per slot, per row."""

    box: NDArray[np.float64]
    child: NDArray[np.int32]
    parent: NDArray[np.int32]
    size: NDArray[np.int32]
    bucket: NDArray[np.int32]
    axis: NDArray[np.int8]
    pivot: NDArray[np.float64]
    pivot_row: NDArray[np.int32]
    leaf_of: NDArray[np.int32]
    lo: NDArray[np.float64]
    hi: NDArray[np.float64]
    row: NDArray[np.int32]
    board: NDArray[np.int32]
    slot_of: NDArray[np.int32]
    meta: NDArray[np.int64]


@njit(**EXACT)
def clear(tree: PointTree) -> None:
    """Make the tree empty: the root, a leaf with the first bucket and no point."""
    tree.meta[:] = 0
    tree.meta[NODE_FREE], tree.meta[BUCKET_FREE] = -1, -1
    tree.meta[NODE_USED] = 1
    tree.parent[0], tree.size[0] = -1, 0
    make_leaf(tree, 0)


@njit(**EXACT)
def buckets_for(points: int) -> int:
    """How many buckets so many points take if they are split exactly."""
    return max(1, (points + FILL - 1) // FILL)


@njit(**EXACT)
def most_buckets(points: int) -> int:
    """How many buckets a planted subtree of so many points takes at most: a cell may leave one part empty."""
    return buckets_for(points) + points // LEAST


@njit(**EXACT)
def margin(tree: PointTree) -> int:
    """How many buckets to keep free: a rebuild of n points gives back at least n / BUCKET of them.

    There are always twice as many nodes as buckets.
    """
    size = np.int64(tree.size[0])
    return 4 + most_buckets(size) - size // BUCKET


@njit(**EXACT)
def spare_buckets(tree: PointTree) -> int:
    """How many buckets are free beyond those to keep free; below 0 nothing may be rebuilt."""
    return tree.leaf_of.shape[0] - tree.meta[BUCKETS] - margin(tree)


@njit(**EXACT)
def make_leaf(tree: PointTree, node: int) -> None:
    """Give a node an empty bucket and an empty box."""
    bucket = tree.meta[BUCKET_FREE]
    if bucket >= 0:
        tree.meta[BUCKET_FREE] = tree.leaf_of[bucket]
    else:
        bucket = tree.meta[BUCKET_USED]
        tree.meta[BUCKET_USED] += 1
    tree.meta[BUCKETS] += 1
    tree.bucket[node], tree.leaf_of[bucket] = bucket, node
    tree.child[node, 0], tree.child[node, 1] = -1, -1
    tree.box[node, LO_FROM], tree.box[node, LO_TO] = np.inf, -np.inf
    tree.box[node, HI_FROM], tree.box[node, HI_TO] = np.inf, -np.inf


@njit(**EXACT)
def release(tree: PointTree, node: int, keep: bool) -> None:
    """Give back the bucket of a leaf and, unless kept, the node; one that is free has no children."""
    bucket = tree.bucket[node]
    if bucket >= 0:
        tree.leaf_of[bucket], tree.meta[BUCKET_FREE] = tree.meta[BUCKET_FREE], bucket
        tree.meta[BUCKETS] -= 1
        tree.bucket[node] = -1
    if not keep:
        tree.parent[node], tree.meta[NODE_FREE] = tree.meta[NODE_FREE], node
        tree.child[node, 0] = -1


@njit(**EXACT)
def surround(
    box: NDArray[np.float64],
    node: int,
    lo: NDArray[np.float64],
    hi: NDArray[np.float64],
    first: int,
    end: int,
) -> None:
    """Write the tightest box around the points at first..end-1."""
    west, east, bottom, top = np.inf, -np.inf, np.inf, -np.inf
    # unsigned indexes: Numba need not test whether they count from the end
    for slot in range(np.uint64(first), np.uint64(end)):
        west, east = min(west, lo[slot]), max(east, lo[slot])
        bottom, top = min(bottom, hi[slot]), max(top, hi[slot])
    box[node, LO_FROM], box[node, LO_TO], box[node, HI_FROM], box[node, HI_TO] = west, east, bottom, top


@njit(**EXACT)
def enclose(tree: PointTree, node: int) -> None:
    """Set the box of a leaf to the tightest one around its points."""
    first = tree.bucket[node] * BUCKET
    surround(tree.box, node, tree.lo, tree.hi, first, first + tree.size[node])


@njit(**EXACT)
def merge_boxes(tree: PointTree, node: int) -> bool:
    """Set the box of an inner node from its children's; return whether it changed."""
    return merge(tree.box, node, tree.child[node, 0], tree.child[node, 1])


@njit(**EXACT)
def merge(box: NDArray[np.float64], node: int, one: int, two: int) -> bool:
    """Set the box of a node to that around two others; return whether it changed."""
    lo_from, lo_to = min(box[one, LO_FROM], box[two, LO_FROM]), max(box[one, LO_TO], box[two, LO_TO])
    hi_from, hi_to = min(box[one, HI_FROM], box[two, HI_FROM]), max(box[one, HI_TO], box[two, HI_TO])
    changed = box[node, LO_FROM] != lo_from or box[node, LO_TO] != lo_to
    changed = changed or box[node, HI_FROM] != hi_from or box[node, HI_TO] != hi_to
    box[node, LO_FROM], box[node, LO_TO], box[node, HI_FROM], box[node, HI_TO] = (
        lo_from,
        lo_to,
        hi_from,
        hi_to,
    )
    return changed


@njit(**EXACT)
def collect(tree: PointTree, node: int, points: Records, boards: NDArray[np.int32]) -> int:
    """Copy out the points below a node with their boards; release everything but the node itself.

    Returns how many there are; `points` and `boards` must have space for them.
    """
    lo, hi, row, board = tree.lo, tree.hi, tree.row, tree.board
    stack, depth, size = np.empty(256, np.int64), 1, 0
    stack[0] = node
    while depth > 0:
        depth -= 1
        here = stack[depth]
        if tree.bucket[here] < 0:
            stack[depth], stack[depth + 1] = tree.child[here, 0], tree.child[here, 1]
            depth += 2
        else:
            start = tree.bucket[here] * BUCKET
            for slot in range(start, start + tree.size[here]):
                points[size, 0], points[size, 1] = lo[slot], hi[slot]
                points[size, 2], points[size, 3] = row[slot], size
                boards[size] = board[slot]
                size += 1
        release(tree, here, here == node)
    return size


@njit(**EXACT)
def write_records(
    points: Records, size: int, rows: NDArray[np.int32], lo: NDArray[np.float64], hi: NDArray[np.float64]
) -> None:
    """Write points behind the first `size` records."""
    for i in range(rows.shape[0]):
        at = size + i
        points[at, 0], points[at, 1], points[at, 2], points[at, 3] = lo[i], hi[i], rows[i], at


@njit(**EXACT)
def _fill_leaf(
    tree: PointTree, node: int, points: Records, places: Places, boards: NDArray[np.int32]
) -> None:
    make_leaf(tree, node)
    first, board, slot_of = tree.bucket[node] * BUCKET, tree.board, tree.slot_of
    lo, hi, row = tree.lo[first:], tree.hi[first:], tree.row[first:]
    for at in range(places.shape[0]):
        i = places[at]
        which, origin = np.int32(points[i, 2]), np.int64(points[i, 3])
        lo[at], hi[at], row[at], slot_of[which] = points[i, 0], points[i, 1], which, first + at
        if origin < boards.shape[0]:
            board[first + at] = boards[origin]
    enclose(tree, node)


@njit(**EXACT)
def _take_node(tree: PointTree, parent: int, size: int) -> int:
    node = tree.meta[NODE_FREE]
    if node >= 0:
        tree.meta[NODE_FREE] = tree.parent[node]
    else:
        node = tree.meta[NODE_USED]
        tree.meta[NODE_USED] += 1
    tree.parent[node], tree.size[node], tree.bucket[node] = parent, size, -1
    return node


@njit(**EXACT)
def _branch(
    tree: PointTree, node: int, sizes: tuple[int, int], axis: int, pivot: NDArray[np.float64]
) -> None:
    """Give a node two children, which become leaves or branches later."""
    tree.axis[node], tree.pivot_row[node] = axis, np.int32(pivot[2])
    tree.pivot[node, 0], tree.pivot[node, 1] = pivot[0], pivot[1]
    left, right = _take_node(tree, node, sizes[0]), _take_node(tree, node, sizes[1])
    tree.child[node, 0], tree.child[node, 1] = left, right


@njit(**EXACT)
def _branch_out(tree: PointTree, node: int, division: Division, stack: NDArray[np.int64], depth: int) -> int:
    """Turn the balanced part of a division into branches; push what is left to split, the leftmost last."""
    walk, height = np.empty((16, 2), np.int64), 1
    walk[0, 0], walk[0, 1] = node, 1
    while height > 0:
        height -= 1
        here, c = walk[height, 0], walk[height, 1]
        start, end = division.start[c], division.end[c]
        if c < division.axis.shape[0] and balanced(division, c):
            middle = division.end[2 * c]
            axis = np.int64(division.axis[c])
            _branch(tree, here, (middle - start, end - middle), axis, division.pivot[c])
            for side in range(2):
                walk[height, 0], walk[height, 1] = tree.child[here, side], 2 * c + side
                height += 1
        else:
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = here, start, end
            stack[depth, 3] = c < division.axis.shape[0]
            depth += 1
    return depth


@njit(**EXACT)
def plant(tree: PointTree, node: int, points: Records, spare: Records, boards: NDArray[np.int32]) -> None:
    """Build a balanced subtree of the given points in a node that has no bucket or children.

    Many points are split by several levels at once, near the middle; few, or where that fails, exactly, so
    that buckets are filled evenly. The records of a range that may be divided stand in their places, those of
    smaller ones only by `order`. `spare` is as large as `points`. `boards` has their boards by origin; for
    origins beyond its end they are left as they are.
    """
    order, aside = np.arange(points.shape[0]).astype(np.int32), np.empty(points.shape[0], np.int32)
    stack, depth = np.empty((1024, 4), np.int64), 1
    # an entry of the stack: a node, and where its part of the queue begins and ends
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = node, 0, points.shape[0], 0
    while depth > 0:
        depth -= 1
        here, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        tree.size[here] = end - start
        buckets, levels = buckets_for(end - start), levels_for(end - start)
        if buckets == 1:
            _fill_leaf(tree, here, points, order[start:end], boards)
            _tighten(tree, here, node)
        elif levels > 0 and stack[depth, 3] == 0:
            division = divide(points, spare, start, end, levels)
            depth = _branch_out(tree, here, division, stack, depth)
        else:
            middle = start + (end - start) * ((buckets + 1) // 2) // buckets
            axis = split(points, order, aside, start, end, middle)
            _branch(tree, here, (middle - start, end - middle), axis, points[order[middle]])
            if levels > 0:
                bring(points, order, spare, start, end)
            for side in range(1, -1, -1):
                bounds = (start, middle) if side == 0 else (middle, end)
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = (
                    tree.child[here, side],
                    bounds[0],
                    bounds[1],
                )
                stack[depth, 3] = 0
                depth += 1


@njit(**EXACT)
def _tighten(tree: PointTree, node: int, top: int) -> None:
    """Close the boxes of the parents, up to `top`, whose rightmost leaf was just filled."""
    while node != top and tree.child[tree.parent[node], 1] == node:
        node = tree.parent[node]
        merge_boxes(tree, node)


@njit(**EXACT)
def rebuild(tree: PointTree, node: int) -> None:
    """Build the subtree of a node anew, balanced, leaves filled to FILL. O(n log n) for its n points."""
    points, boards = (
        np.empty((tree.size[node], 4)),
        np.empty((tree.size[node], tree.board.shape[1]), np.int32),
    )
    collect(tree, node, points, boards)
    plant(tree, node, points, np.empty_like(points), boards)
