"""Questions to the object tree: the nearest better objects, the next one above a value, the best in a range.

All of them are one walk of a cursor (node, slot, level) over the slots in the order of x, left or right,
that skips every subtree whose best object does not matter. An interval is open, (after, before): objects
have finite x, so infinite ends mean no bound, and a closed end is the next float outwards.

Cost: `firstk` O(k ORDER log n). `miny` O(b ORDER log n), where b counts the objects of the interval at or
before the given pair; during a sweep these are the ones in the two lists and the ones at the object's own x,
fewer than 3k. `range_best` O(k ORDER log n). All are far below O(sqrt n) for a k that is small against n.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.object_tree import HEIGHT, ROOT, ObjectTree, better, slot_of
from rankcast.kernels.options import EXACT


@njit(**EXACT)
def locate(tree: ObjectTree, x: float, beyond: bool) -> tuple[int, int]:
    """Leaf and slot of the first object with x_object >= x (`beyond`: > x)."""
    node = tree.meta[ROOT]
    for _ in range(tree.meta[HEIGHT] - 1):
        j = 0
        while j + 1 < tree.filled[node] and (
            tree.key[node, j + 1] < x or (beyond and tree.key[node, j + 1] == x)
        ):
            j += 1
        node = tree.child[node, j]
    j = 0
    while j < tree.filled[node] and (tree.key[node, j] < x or (beyond and tree.key[node, j] == x)):
        j += 1
    return node, j


@njit(**EXACT)
def firstk(
    tree: ObjectTree,
    leaf: int,
    slot: int,
    step: int,
    x: float,
    y: float,
    label: int,
    found: NDArray[np.float64],
) -> tuple[int, int]:
    """Walk from a slot by step -1 or +1 and note the x of the nearest objects better than (y, label).

    Objects at x itself are only counted, since every range that holds x holds them too. Returns how many x
    were found (at most len(found)) and how many better objects stand at x on this side (likewise).
    """
    node, j, level, size, same = leaf, slot, 0, 0, 0
    limit = found.shape[0]
    while True:
        end = tree.filled[node]
        while 0 <= j < end and not better(tree, tree.low[node, j], tree.best[node, j], y, label):
            j += step
        if j < 0 or j >= end:
            parent = tree.parent[node]
            if parent < 0:
                return size, same
            j = slot_of(tree, parent, node) + step
            node = parent
            level += 1
        elif level > 0:
            node = tree.child[node, j]
            level -= 1
            j = 0 if step > 0 else tree.filled[node] - 1
        else:
            if tree.key[node, j] == x:
                same += 1
            else:
                found[size] = tree.key[node, j]
                size += 1
            if limit in (size, same):
                return size, same
            j += step


@njit(**EXACT)
def miny(
    tree: ObjectTree, after: float, before: float, y: float, label: int, limit_y: float, limit_label: int
) -> int:
    """The row of the best object in (after, before) that is worse than (y, label) and better than the limit.

    -1 if there is none. A subtree whose best object is already worse than (y, label) answers with it.
    """
    node, j = locate(tree, after, True)
    level, found = 0, -1
    while True:
        end = tree.filled[node]
        while j < end and not better(tree, tree.low[node, j], tree.best[node, j], limit_y, limit_label):
            j += 1
        if j >= end:
            parent = tree.parent[node]
            if parent < 0:
                return found
            j = slot_of(tree, parent, node) + 1
            node = parent
            level += 1
            continue
        if tree.key[node, j] >= before:
            return found
        low, row = tree.low[node, j], tree.best[node, j]
        above = low > y or (low == y and tree.label[row] > label)
        if above and (level == 0 or (j + 1 < end and tree.key[node, j + 1] < before)):
            limit_y, limit_label, found = low, tree.label[row], row
            j += 1
        elif level == 0:
            j += 1
        else:
            node = tree.child[node, j]
            level -= 1
            j = 0


@njit(**EXACT)
def range_best(tree: ObjectTree, lo: float, hi: float, board: NDArray[np.int32]) -> None:
    """Write the rows of the best len(board) objects with lo <= x <= hi, best first, then -1."""
    board[:] = -1
    k = board.shape[0]
    size = 0
    limit_y, limit_label = np.inf, 0
    node, j = locate(tree, lo, False)
    level = 0
    while True:
        end = tree.filled[node]
        while j < end and not better(tree, tree.low[node, j], tree.best[node, j], limit_y, limit_label):
            j += 1
        if j >= end:
            parent = tree.parent[node]
            if parent < 0:
                return
            j = slot_of(tree, parent, node) + 1
            node = parent
            level += 1
            continue
        if tree.key[node, j] > hi:
            return
        if level > 0:
            node = tree.child[node, j]
            level -= 1
            j = 0
            continue
        row = tree.child[node, j]
        at = min(size, k - 1)
        while at > 0 and better(tree, tree.y[row], row, tree.y[board[at - 1]], tree.label[board[at - 1]]):
            board[at] = board[at - 1]
            at -= 1
        board[at] = row
        size = min(size + 1, k)
        if size == k:
            limit_y, limit_label = tree.y[board[k - 1]], tree.label[board[k - 1]]
        j += 1
