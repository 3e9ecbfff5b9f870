"""Subscriptions as points (lo, hi): a k-d tree whose leaves are buckets of neighbouring slots.

Bucket b owns the slots b * BUCKET .. (b + 1) * BUCKET - 1; its leaf's points stand at the front of them, so
whatever is kept per slot (the point, its row, its board of k items) lies side by side for neighbours in
subscription space. `slot_of[row]` finds a subscription again.

An inner node splits its points by the order (lo, hi, row) or (hi, lo, row), smaller ones to the left.
Rows are distinct, so any number of equal points can be split evenly and the tree stays balanced whatever
the data. `box` is the tightest closed box around a node's points: lo from, lo to, hi from, hi to.

Invariants: node 0 is the root; every leaf but an only one has a point; no child of a node with n points has
more than SKEW n + FILL of them; equal slots and rows point at each other. One mechanism restores all of
them: planting a subtree anew, in place (`point_plant`). A full bucket, a skewed node, an empty leaf, a nearly
empty pair of leaves and a bulk load all end in it.

Cost: insert and delete O(log m) node visits, plus amortised O(log m) moves a level for rebuilding; the edits
are in `point_edit` and `point_mend`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT
from rankcast.structures.select import LEAST

BUCKET = 64
FILL = 56
SKEW = 0.7
NODE_USED, NODE_FREE, BUCKET_USED, BUCKET_FREE, BUCKETS = range(5)
LO_FROM, LO_TO, HI_FROM, HI_TO = range(4)


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
