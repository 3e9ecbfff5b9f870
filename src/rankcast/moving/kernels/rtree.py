"""A packed R-tree that changes: points in C columns, in layers of growing size, each a tree without gaps.

Layer l has room for 64 * 4^l points. A layer is packed at once (`pack`) and afterwards only loses points;
new ones go, together with everything in the smaller layers, into the first layer that has room for all. So a
point is packed anew O(log n) times, and a search has a few roots instead of one.

A leaf holds up to 16 points, an inner block up to 16 children with their boxes, column by column, so that
the children of a block are looked at in one run. Leaves and inner blocks of a layer are numbered one after
the other, bottom level first, and lie in a stretch of the arrays that belongs to the layer: no pointers.

Invariant: the box of a child holds every live point below it; `place` of a live row is where it stands, and
-1 of any other; `count` says how many points of a layer are alive, `filled` how many were packed.

A layer is packed in the order of a k-d tree, sixteen points to a leaf. A stretch of points is split near its
middle, at a multiple of the largest power of 16 below its size, along the column in which it is widest by
`scale`; so every block but the last of a level is full, and the children of a block lie together. Columns
with scale 0 are bounded but never split. Cost: O(n log n).

`check_rtree` says whether a tree from a snapshot keeps the invariants. As in `rankcast.structures.integrity`,
nothing read is trusted and every walk is counted. Cost: O(n).
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT
from rankcast.structures.select import select

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


@njit(**EXACT)
def _widest(values: Floats, order: Ints, start: int, end: int, scale: Floats) -> int:
    """The column along which a stretch is widest."""
    best, widest = 0, -1.0
    for column in range(scale.size):
        if scale[column] > 0:
            low, high = np.inf, -np.inf
            for i in range(start, end):
                value = values[order[i], column]
                low, high = min(low, value), max(high, value)
            width = (high - low) * scale[column]
            if width > widest:
                best, widest = column, width
    return best


@njit(**EXACT)
def arrange(values: Floats, scale: Floats) -> Ints:
    """The order in which points (n, C) fill the leaves."""
    order, keys = np.arange(values.shape[0]), np.empty(values.shape[0])
    starts, ends = np.empty(128, np.int64), np.empty(128, np.int64)
    starts[0], ends[0], depth = 0, order.size, 1
    while depth > 0:
        depth -= 1
        start, end = starts[depth], ends[depth]
        if end - start <= BRANCH:
            continue
        unit = BRANCH
        while unit * BRANCH < end - start:
            unit *= BRANCH
        parts = (end - start + unit - 1) // unit
        middle = start + unit * (parts // 2)
        column = _widest(values, order, start, end, scale)
        for i in range(start, end):
            keys[i] = values[order[i], column]
        select(keys, order, start, end, middle)
        starts[depth], ends[depth] = start, middle
        starts[depth + 1], ends[depth + 1] = middle, end
        depth += 2
    return order


@njit(**EXACT)
def _fill_leaves(tree: Rtree, layer: int, rows: Rows, values: Floats, order: Ints) -> None:
    for i in range(order.size):
        leaf, slot = LEAF_BASE[layer] + i // BRANCH, i % BRANCH
        row = rows[order[i]]
        tree.row[leaf, slot] = row
        tree.place[row] = leaf * BRANCH + slot
        for column in range(values.shape[1]):
            tree.point[leaf, column, slot] = values[order[i], column]
    last = LEAF_BASE[layer] + (order.size - 1) // BRANCH
    tree.row[last, order.size - (last - LEAF_BASE[layer]) * BRANCH :] = -1


@njit(**EXACT)
def _bound_leaf(tree: Rtree, leaf: int, block: int, slot: int) -> None:
    """Set the box of a child that is a leaf."""
    for column in range(tree.low.shape[1]):
        low, high = np.inf, -np.inf
        for j in range(BRANCH):
            if tree.row[leaf, j] >= 0:
                low = min(low, tree.point[leaf, column, j])
                high = max(high, tree.point[leaf, column, j])
        tree.low[block, column, slot], tree.high[block, column, slot] = low, high


@njit(**EXACT)
def _bound_block(tree: Rtree, child: int, block: int, slot: int) -> None:
    """Set the box of a child that is an inner block."""
    for column in range(tree.low.shape[1]):
        low, high = np.inf, -np.inf
        for j in range(tree.width[child]):
            low = min(low, tree.low[child, column, j])
            high = max(high, tree.high[child, column, j])
        tree.low[block, column, slot], tree.high[block, column, slot] = low, high


@njit(**EXACT)
def pack(tree: Rtree, layer: int, rows: Rows, values: Floats, scale: Floats) -> None:
    """Fill an empty layer with points, at least one; the arrays have room for it."""
    _fill_leaves(tree, layer, rows, values, arrange(values, scale))
    tree.count[layer] = tree.filled[layer] = rows.size
    children, below, block = (rows.size + BRANCH - 1) // BRANCH, LEAF_BASE[layer], INNER_BASE[layer]
    leaves = True
    while True:
        blocks, start = (children + BRANCH - 1) // BRANCH, block
        for i in range(blocks):
            width = min(BRANCH, children - i * BRANCH)
            first = below + i * BRANCH
            tree.width[block] = width
            tree.first[block] = first if leaves else ~first
            for slot in range(width):
                if leaves:
                    _bound_leaf(tree, first + slot, block, slot)
                else:
                    _bound_block(tree, first + slot, block, slot)
            block += 1
        if blocks == 1:
            return
        children, below, leaves = blocks, start, False


Bools = NDArray[np.bool_]
FITS = 0
COUNTS, LINKS, ROWS, BOXES = 1, 2, 3, 4
DEPTH = 16


@njit(**EXACT)
def check_rtree(tree: Rtree, wanted: Bools) -> int:
    """Whether a tree hangs together, holds some of the `wanted` rows, and boxes hold what is below them.

    The arrays are as long as some layers together, and `filled` and `count` fit these, for which see
    `check_layers`.
    """
    total, seen = 0, np.zeros(tree.first.size, np.bool_)
    for layer in range(tree.count.size):
        if tree.filled[layer] == 0:
            continue
        leaves = (tree.filled[layer] + BRANCH - 1) // BRANCH
        found = _layer(tree, layer, leaves, wanted, seen)
        if found != tree.count[layer]:
            return LINKS if found < 0 else COUNTS
        total += found
    for row in range(tree.place.size):
        total -= tree.place[row] >= 0
        if tree.place[row] < -1:
            return ROWS
    return FITS if total == 0 else ROWS


@njit(**EXACT)
def _layer(tree: Rtree, layer: int, leaves: int, wanted: Bools, seen: Bools) -> int:
    """How many points a layer has, each leaf of which is below its root once; below 0 if it does not fit."""
    base, beyond = LEAF_BASE[layer], LEAF_BASE[layer] + leaves
    inner, inner_end = INNER_BASE[layer], INNER_BASE[layer + 1]
    met, count, known, depth = np.zeros(leaves, np.bool_), 0, 0, 1
    stack, level = np.empty(DEPTH * BRANCH, np.int64), np.empty(DEPTH * BRANCH, np.int64)
    stack[0], level[0] = root_of(tree, layer), 1
    while depth > 0:
        depth -= 1
        block, deep = stack[depth], level[depth]
        if block < inner or block >= inner_end or seen[block] or deep >= DEPTH:
            return -1
        seen[block], width, first = True, np.int64(tree.width[block]), np.int64(tree.first[block])
        if not 1 <= width <= BRANCH:
            return -1
        for slot in range(width):
            if first < 0:
                child = ~first + slot
                if child < inner or child >= block or not _holds(tree, block, slot, child):
                    return -1
                stack[depth], level[depth], depth = child, deep + 1, depth + 1
                continue
            leaf = first + slot
            if leaf < base or leaf >= beyond or met[leaf - base]:
                return -1
            met[leaf - base], known = True, known + 1
            for j in range(BRANCH):
                row = np.int64(tree.row[leaf, j])
                if row < 0:
                    if row != -1:
                        return -1
                    continue
                if row >= tree.place.size or tree.place[row] != leaf * BRANCH + j:
                    return -1
                if row >= wanted.size or not wanted[row]:
                    return -1
                count += 1
                for column in range(tree.point.shape[1]):
                    value = tree.point[leaf, column, j]
                    if not tree.low[block, column, slot] <= value <= tree.high[block, column, slot]:
                        return -1
    return count if known == leaves else -1


@njit(**EXACT)
def _holds(tree: Rtree, block: int, slot: int, child: int) -> bool:
    """Whether the box of a child holds those of its own children."""
    if not 1 <= tree.width[child] <= BRANCH:
        return False
    for column in range(tree.low.shape[1]):
        for j in range(tree.width[child]):
            if not tree.low[block, column, slot] <= tree.low[child, column, j]:
                return False
            if not tree.high[block, column, slot] >= tree.high[child, column, j]:
                return False
    return True
