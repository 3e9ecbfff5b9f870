"""Whether an R-tree from a snapshot keeps the invariants that kernels rely on.

As in `rankcast.structures.integrity`, nothing read is trusted and every walk is counted. Cost: O(n).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.moving.kernels.rtree import BRANCH, INNER_BASE, LEAF_BASE, Rtree, root_of
from rankcast.structures.jit import EXACT

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
