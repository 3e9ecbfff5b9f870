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

from rankcast.range_topk.kernels.object_tree import HEIGHT, ROOT, ObjectTree, place_of
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def better(y: float, than_y: float, labels: NDArray[np.int64], row: int, than_label: int) -> bool:
    """Whether the object `row` with value y comes before the pair (than_y, than_label)."""
    return y < than_y or (y == than_y and labels[row] < than_label)


@njit(**EXACT)
def locate(tree: ObjectTree, x: float, beyond: bool) -> tuple[np.int64, int]:
    """Leaf and slot of the first object with x_object >= x (`beyond`: > x)."""
    key, child, filled = tree.key, tree.child, tree.filled
    node = np.int64(tree.meta[ROOT])
    for _ in range(tree.meta[HEIGHT] - 1):
        j, end = 0, filled[node]
        while j + 1 < end and (key[node, j + 1] < x or (beyond and key[node, j + 1] == x)):
            j += 1
        node = np.int64(child[node, j])
    j, end = 0, filled[node]
    while j < end and (key[node, j] < x or (beyond and key[node, j] == x)):
        j += 1
    return node, j


@njit(**EXACT)
def firstk(
    tree: ObjectTree,
    leaf: int | np.int64,
    slot: int | np.int64,
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
    low, best, child, labels = tree.low, tree.best, tree.child, tree.label
    key, filled, parents, limit = tree.key, tree.filled, tree.parent, found.shape[0]
    node, j, level, size, same = leaf, slot, 0, 0, 0
    while True:
        end = filled[node]
        while 0 <= j < end:
            if low[node, j] <= y and better(low[node, j], y, labels, best[node, j], label):
                break
            j += step
        if j < 0 or j >= end:
            parent = np.int64(parents[node])
            if parent < 0:
                return size, same
            j = place_of(child, parent, node) + step
            node = parent
            level += 1
        elif level > 0:
            node = np.int64(child[node, j])
            level -= 1
            j = np.int64(0) if step > 0 else np.int64(filled[node]) - 1
        else:
            if key[node, j] == x:
                same += 1
            else:
                found[size] = key[node, j]
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
    low, best, child, labels = tree.low, tree.best, tree.child, tree.label
    key, filled, parents = tree.key, tree.filled, tree.parent
    node, j = locate(tree, after, True)
    level, found = 0, -1
    while True:
        end = filled[node]
        while j < end:
            if low[node, j] <= limit_y and better(low[node, j], limit_y, labels, best[node, j], limit_label):
                break
            j += 1
        if j >= end:
            parent = np.int64(parents[node])
            if parent < 0:
                return found
            j = place_of(child, parent, node) + 1
            node = parent
            level += 1
            continue
        if key[node, j] >= before:
            return found
        row, value = best[node, j], low[node, j]
        worse = value > y or (value == y and labels[row] > label)
        if worse and (level == 0 or (j + 1 < end and key[node, j + 1] < before)):
            limit_y, limit_label, found = value, labels[row], row
            j += 1
        elif level == 0:
            j += 1
        else:
            node = np.int64(child[node, j])
            level -= 1
            j = 0


@njit(**EXACT)
def _rank_in(tree: ObjectTree, board: NDArray[np.int32], size: int, row: int) -> None:
    """Put a row that belongs there into a board with `size` rows, dropping the last of a full one."""
    values, labels = tree.y, tree.label
    at = min(size, board.shape[0] - 1)
    while at > 0 and better(values[row], values[board[at - 1]], labels, row, labels[board[at - 1]]):
        board[at] = board[at - 1]
        at -= 1
    board[at] = row


@njit(**EXACT)
def range_best(tree: ObjectTree, lo: float, hi: float, board: NDArray[np.int32]) -> None:
    """Write the rows of the best len(board) objects with lo <= x <= hi, best first, then -1."""
    low, best, child, labels = tree.low, tree.best, tree.child, tree.label
    key, filled, parents = tree.key, tree.filled, tree.parent
    board[:] = -1
    size, level, limit_y, limit_label = 0, 0, np.inf, 0
    node, j = locate(tree, lo, False)
    while True:
        end = filled[node]
        while j < end:
            if low[node, j] <= limit_y and better(low[node, j], limit_y, labels, best[node, j], limit_label):
                break
            j += 1
        if j >= end:
            parent = np.int64(parents[node])
            if parent < 0:
                return
            j = place_of(child, parent, node) + 1
            node = parent
            level += 1
            continue
        if key[node, j] > hi:
            return
        if level > 0:
            node = np.int64(child[node, j])
            level -= 1
            j = 0
            continue
        _rank_in(tree, board, size, child[node, j])
        size = min(size + 1, board.shape[0])
        if size == board.shape[0]:
            limit_y, limit_label = tree.y[board[size - 1]], labels[board[size - 1]]
        j += 1


@njit(**EXACT)
def search_lists(
    tree: ObjectTree, lo: NDArray[np.float64], hi: NDArray[np.float64], boards: NDArray[np.int32]
) -> None:
    """Write the best objects of a few ranges, by a search each; `blocks` is better for many."""
    for i in range(lo.shape[0]):
        range_best(tree, lo[i], hi[i], boards[i])
