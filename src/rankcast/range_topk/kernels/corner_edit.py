"""Points come to a corner tree, go, and change their weight. O(log n) each, amortised."""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.range_topk.kernels.corner_tree import (
    CAPACITY,
    UNFILLED,
    CornerTree,
    Floats,
    Records,
    Rows,
    buckets_for,
    collect,
    enclose,
    filled_to,
    merge,
    plant,
    spare_buckets,
)
from rankcast.structures.jit import EXACT

SKEW = 0.8


@njit(**EXACT)
def _rebuild(tree: CornerTree, node: int) -> None:
    """Build the subtree of a node anew."""
    size, width = tree.size[node], tree.point.shape[1]
    records = Records(
        np.empty((size, width)),
        np.empty(size),
        np.empty(size, np.int32),
        np.empty((size, tree.board.shape[1]), np.int32),
    )
    collect(tree, node, records, 0)
    plant(tree, node, records, size)


@njit(**EXACT)
def _way_down(tree: CornerTree, point: Floats, weight: float) -> int:
    """Note a point in every node on its way to a leaf with a free slot; return the leaf, or -1: no room.

    A skewed node or a full leaf on the way is built anew; without room for that nothing is changed.
    """
    node, capacity = 0, tree.meta[CAPACITY]
    while True:
        size = tree.size[node]
        leaf = tree.bucket[node] >= 0
        most = 0 if leaf else max(tree.size[tree.child[node, 0]], tree.size[tree.child[node, 1]])
        if (leaf and size >= capacity) or most > SKEW * size + capacity:
            if spare_buckets(tree) + size // capacity < buckets_for(tree, size):
                _undo(tree, tree.parent[node])
                return -1
            _rebuild(tree, node)
            continue
        tree.size[node] += 1
        tree.top[node] = max(tree.top[node], weight)
        for axis in range(point.shape[0]):
            tree.low[node, axis] = min(tree.low[node, axis], point[axis])
            tree.high[node, axis] = max(tree.high[node, axis], point[axis])
        if leaf:
            return node
        one, two, at = tree.child[node, 0], tree.child[node, 1], point[tree.axis[node]]
        if at == tree.pivot[node]:
            node = one if tree.size[one] <= tree.size[two] else two
        else:
            node = one if at < tree.pivot[node] else two


@njit(**EXACT)
def _undo(tree: CornerTree, node: int) -> None:
    """Take back what was noted from a node upwards; the boxes may stay too large for a moment."""
    while node >= 0:
        tree.size[node] -= 1
        node = tree.parent[node]


@njit(**EXACT)
def put_in(tree: CornerTree, rows: Rows, points: Floats, weights: Floats, start: int) -> int:
    """Add points from `start` on, with unfilled boards; return the first that needs more room."""
    for i in range(start, rows.shape[0]):
        leaf = _way_down(tree, points[i], weights[i])
        if leaf < 0:
            return i
        slot = tree.bucket[leaf] * tree.meta[CAPACITY] + tree.size[leaf] - 1
        tree.point[slot], tree.weight[slot], tree.row[slot] = points[i], weights[i], rows[i]
        tree.board[slot] = UNFILLED
        tree.slot_of[rows[i]] = slot
    return rows.shape[0]


@njit(**EXACT)
def take_out(tree: CornerTree, rows: Rows) -> None:
    """Remove points; a node whose points fit into half a bucket becomes a leaf."""
    capacity = tree.meta[CAPACITY]
    for i in range(rows.shape[0]):
        slot = tree.slot_of[rows[i]]
        leaf = tree.leaf_of[slot // capacity]
        last = tree.bucket[leaf] * capacity + tree.size[leaf] - 1
        tree.point[slot], tree.weight[slot], tree.row[slot] = (
            tree.point[last],
            tree.weight[last],
            tree.row[last],
        )
        tree.board[slot] = tree.board[last]
        tree.slot_of[tree.row[slot]] = slot
        tree.slot_of[rows[i]] = -1
        tree.size[leaf] -= 1
        enclose(tree, leaf)
        node, small = tree.parent[leaf], tree.parent[leaf] if tree.size[leaf] == 0 else -1
        while node >= 0:
            tree.size[node] -= 1
            small = node if 2 * tree.size[node] <= filled_to(tree) else small
            merge(tree, node)
            node = tree.parent[node]
        if small >= 0:
            _rebuild(tree, small)


@njit(**EXACT)
def set_weight(tree: CornerTree, row: int, weight: float) -> None:
    """Give a point another weight."""
    slot = tree.slot_of[row]
    tree.weight[slot] = weight
    node = tree.leaf_of[slot // tree.meta[CAPACITY]]
    first, top = tree.bucket[node] * tree.meta[CAPACITY], -np.inf
    for at in range(first, first + tree.size[node]):
        top = max(top, tree.weight[at])
    while top != tree.top[node]:
        tree.top[node] = top
        node = tree.parent[node]
        if node < 0:
            break
        top = max(tree.top[tree.child[node, 0]], tree.top[tree.child[node, 1]])


@njit(**EXACT)
def set_weights(tree: CornerTree, rows: Rows, weights: Floats) -> None:
    """Give points other weights."""
    for i in range(rows.shape[0]):
        set_weight(tree, rows[i], weights[i])
