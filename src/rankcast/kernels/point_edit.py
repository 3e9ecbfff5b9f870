"""Inserting into and deleting from a point tree, one subscription at a time.

A row whose tree has no room left is not touched: the kernel says how far it came, the owner grows the
arrays and goes on from there.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT
from rankcast.kernels.point_tree import (
    BUCKET,
    FILL,
    HI_FROM,
    HI_TO,
    LO_FROM,
    LO_TO,
    SKEW,
    UNFILLED,
    PointTree,
    extend,
    lacking,
    merge_boxes,
    place,
    rebuild,
    release,
)
from rankcast.kernels.selection import precedes


@njit(**EXACT)
def _skewed(tree: PointTree, node: int) -> bool:
    larger = max(tree.size[tree.child[node, 0]], tree.size[tree.child[node, 1]])
    return larger > SKEW * tree.size[node] + FILL


@njit(**EXACT)
def _side(tree: PointTree, node: int, lo: float, hi: float, row: int) -> int:
    pivot_lo, pivot_hi = tree.pivot[node, 0], tree.pivot[node, 1]
    return 0 if precedes(tree.axis[node], lo, hi, row, pivot_lo, pivot_hi, tree.pivot_row[node]) else 1


@njit(**EXACT)
def _insert(tree: PointTree, row: int, lo: float, hi: float) -> int:
    """Put a point into its bucket; return the topmost node that became skewed, or -1."""
    node, skewed = 0, -1
    while True:
        if tree.bucket[node] >= 0 and tree.size[node] == BUCKET:
            rebuild(tree, node)
        extend(tree, node, lo, hi)
        tree.size[node] += 1
        parent = tree.parent[node]
        if skewed < 0 and parent >= 0 and _skewed(tree, parent):
            skewed = parent
        if tree.bucket[node] >= 0:
            place(tree, tree.bucket[node] * BUCKET + tree.size[node] - 1, lo, hi, row)
            return skewed
        node = tree.child[node, _side(tree, node, lo, hi, row)]


@njit(**EXACT)
def insert_many(
    tree: PointTree, rows: NDArray[np.int32], lo: NDArray[np.float64], hi: NDArray[np.float64], start: int
) -> int:
    """Insert rows start.. with unfilled boards; return how many of all rows are in, fewer if room ran out."""
    for i in range(start, rows.shape[0]):
        if lacking(tree):
            return i
        skewed = _insert(tree, rows[i], lo[i], hi[i])
        tree.board[tree.slot_of[rows[i]]] = UNFILLED
        if skewed >= 0:
            rebuild(tree, skewed)
    return rows.shape[0]


@njit(**EXACT)
def _shrink_leaf(tree: PointTree, node: int) -> None:
    box, start = tree.box[node], tree.bucket[node] * BUCKET
    box[LO_FROM], box[LO_TO], box[HI_FROM], box[HI_TO] = np.inf, -np.inf, np.inf, -np.inf
    for slot in range(start, start + tree.size[node]):
        extend(tree, node, tree.lo[slot], tree.hi[slot])


@njit(**EXACT)
def _absorb(tree: PointTree, parent: int, empty: int) -> None:
    """Replace a node whose one child has become empty by its other child."""
    other = tree.child[parent, 0] + tree.child[parent, 1] - empty
    tree.box[parent], tree.size[parent], tree.axis[parent] = (
        tree.box[other],
        tree.size[other],
        tree.axis[other],
    )
    tree.pivot[parent], tree.pivot_row[parent] = tree.pivot[other], tree.pivot_row[other]
    tree.child[parent] = tree.child[other]
    tree.bucket[parent] = tree.bucket[other]
    if tree.bucket[parent] >= 0:
        tree.leaf_of[tree.bucket[parent]] = parent
    else:
        tree.parent[tree.child[parent, 0]], tree.parent[tree.child[parent, 1]] = parent, parent
    tree.bucket[other] = -1
    release(tree, other, False)
    release(tree, empty, False)


@njit(**EXACT)
def _delete(tree: PointTree, row: int) -> int:
    """Take a point out, tighten the boxes above it; return the topmost node worth rebuilding, or -1."""
    slot = tree.slot_of[row]
    node = tree.leaf_of[slot // BUCKET]
    last = tree.bucket[node] * BUCKET + tree.size[node] - 1
    if slot != last:
        place(tree, slot, tree.lo[last], tree.hi[last], tree.row[last])
        tree.board[slot] = tree.board[last]
    tree.slot_of[row] = -1
    tree.size[node] -= 1
    _shrink_leaf(tree, node)
    parent = tree.parent[node]
    if parent >= 0 and tree.size[node] == 0:
        _absorb(tree, parent, node)
        parent = tree.parent[parent]
    worth, changed = -1, True
    while parent >= 0:
        tree.size[parent] -= 1
        changed = changed and merge_boxes(tree, parent)
        if tree.size[parent] <= BUCKET // 2 or _skewed(tree, parent):
            worth = parent
        parent = tree.parent[parent]
    return worth


@njit(**EXACT)
def delete_many(tree: PointTree, rows: NDArray[np.int32]) -> None:
    """Delete rows one by one. Requires a tree that is not `lacking` room."""
    for i in range(rows.shape[0]):
        worth = _delete(tree, rows[i])
        if worth >= 0:
            rebuild(tree, worth)
