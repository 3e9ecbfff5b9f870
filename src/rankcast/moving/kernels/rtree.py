"""A packed R-tree that changes: points in C columns, in layers of growing size, each a tree without gaps.

Layer l has room for 64 * 4^l points. A layer is packed at once (`rankcast.moving.kernels.rtree_pack`) and afterwards
only loses points; new ones go, together with everything in the smaller layers, into the first layer that
has room for all. So a point is packed anew O(log n) times, and a search has a few roots instead of one.

A leaf holds up to 16 points, an inner block up to 16 children with their boxes, column by column, so that the
children of a block are looked at in one run. Leaves and inner blocks of a layer are numbered one after the
other, bottom level first, and lie in a stretch of the arrays that belongs to the layer: no pointers.

Invariant: the box of a child holds every live point below it; `place` of a live row is where it stands, and
-1 of any other; `count` says how many points of a layer are alive, `filled` how many were packed.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]
Ints = NDArray[np.int64]

BRANCH = 16
SMALLEST = 64
GROWTH = 4
MOST_LAYERS = 14


class Rtree(NamedTuple):
    """The arrays of a tree; `first` is a leaf, or the complement of an inner block."""

    point: Floats  # (leaves, C, 16)
    row: Rows  # (leaves, 16), -1 where no point is
    low: Floats  # (inner blocks, C, 16), boxes of children
    high: Floats
    first: Rows  # (inner blocks,)
    width: Rows  # (inner blocks,), how many children
    place: Ints  # by row: 16 leaf + slot
    count: Ints  # type: ignore[assignment]  # (layers,)
    filled: Ints  # (layers,)


def capacity(layer: int) -> int:
    """How many points a layer has room for."""
    return SMALLEST * GROWTH**layer


def _bases() -> tuple[Ints, Ints]:
    """Where the leaves and the inner blocks of each layer begin."""
    leaves, inner = [0], [0]
    for layer in range(MOST_LAYERS):
        width = capacity(layer) // BRANCH
        leaves.append(leaves[-1] + width)
        total = 0
        while width > 1 or total == 0:
            width = -(-width // BRANCH)
            total += width
        inner.append(inner[-1] + total)
    return np.array(leaves), np.array(inner)


LEAF_BASE, INNER_BASE = _bases()


@njit(**EXACT)
def root_of(tree: Rtree, layer: int) -> int:
    """The root of a layer that has points: its last inner block."""
    width = (tree.filled[layer] + BRANCH - 1) // BRANCH
    root = INNER_BASE[layer] - 1
    while True:
        width = (width + BRANCH - 1) // BRANCH
        root += width
        if width == 1:
            return root


@njit(**EXACT)
def remove(tree: Rtree, rows: Rows) -> None:
    """Take present rows out; boxes stay as they are. Cost: O(log layers) each."""
    for row in rows:
        place = tree.place[row]
        leaf = place // BRANCH
        layer = np.searchsorted(LEAF_BASE, leaf, side="right") - 1
        tree.row[leaf, place - leaf * BRANCH] = -1
        tree.place[row] = -1
        tree.count[layer] -= 1


@njit(**EXACT)
def collect(tree: Rtree, layers: int, rows: Rows, values: Floats) -> int:
    """Write the live points of the first layers to `rows` and `values` (n, C); return how many."""
    size = 0
    for layer in range(layers):
        leaves = (tree.filled[layer] + BRANCH - 1) // BRANCH
        for leaf in range(LEAF_BASE[layer], LEAF_BASE[layer] + leaves):
            for slot in range(BRANCH):
                if tree.row[leaf, slot] >= 0:
                    rows[size] = tree.row[leaf, slot]
                    for column in range(values.shape[1]):
                        values[size, column] = tree.point[leaf, column, slot]
                    size += 1
    return size


@njit(**EXACT)
def bounds(tree: Rtree) -> Floats:
    """A box (2, C) that holds all points; inverted, from inf to -inf, if there are none."""
    columns = tree.low.shape[1]
    box = np.empty((2, columns))
    box[0], box[1] = np.inf, -np.inf
    for layer in range(tree.count.size):
        if tree.count[layer] > 0:
            root = root_of(tree, layer)
            for column in range(columns):
                for slot in range(tree.width[root]):
                    box[0, column] = min(box[0, column], tree.low[root, column, slot])
                    box[1, column] = max(box[1, column], tree.high[root, column, slot])
    return box
