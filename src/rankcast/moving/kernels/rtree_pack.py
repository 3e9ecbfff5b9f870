"""Packing a layer of `rankcast.moving.kernels.rtree`: points in the order of a k-d tree, sixteen to a leaf.

A stretch of points is split near its middle, at a multiple of the largest power of 16 below its size, along
the column in which it is widest by `scale`; so every block but the last of a level is full, and the children
of a block lie together. Columns with scale 0 are bounded but never split. Cost: O(n log n).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.moving.kernels.rtree import BRANCH, INNER_BASE, LEAF_BASE, Floats, Ints, Rows, Rtree
from rankcast.structures.jit import EXACT


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
def _median(a: float, b: float, c: float) -> float:
    return max(min(a, b), min(max(a, b), c))


@njit(**EXACT)
def _select(values: Floats, order: Ints, start: int, end: int, middle: int, column: int) -> None:
    """Reorder a stretch so that nothing before `middle` is above anything from it on, in one column."""
    low, high = start, end - 1
    while low < high:
        pivot = _median(
            values[order[low], column], values[order[(low + high) // 2], column], values[order[high], column]
        )
        i, j = low, high
        while i <= j:
            while values[order[i], column] < pivot:
                i += 1
            while values[order[j], column] > pivot:
                j -= 1
            if i <= j:
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


@njit(**EXACT)
def arrange(values: Floats, scale: Floats) -> Ints:
    """The order in which points (n, C) fill the leaves."""
    order = np.arange(values.shape[0])
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
        _select(values, order, start, end, middle, _widest(values, order, start, end, scale))
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
