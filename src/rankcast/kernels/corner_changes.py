"""Boards as they were and as they are: the net changes of a batch."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.changes import DELTAS, GROUPS, Changes
from rankcast.kernels.corner_events import TOUCHED, Log
from rankcast.kernels.corner_tree import CornerTree, Rows
from rankcast.kernels.options import EXACT

MOVED, LISTED = 1, 2


@njit(**EXACT)
def _write_change(
    old: Rows,
    i: int,
    new: Rows,
    slot: int,
    mark: NDArray[np.int8],
    changes: Changes,
    entered: Rows,
    size: int,
) -> int:
    """Append what a board has become: leaves, then entries and updates by rank; return the new size.

    `mark` is 0 for every item, 1 for one that has another value than before. It is left so.
    """
    items, marks, k, count = changes.item, changes.mark, old.shape[1], 0
    for place in range(k):
        if old[i, place] >= 0:
            mark[old[i, place]] |= LISTED
    for place in range(k):
        item = new[slot, place]
        if item >= 0:
            was = mark[item]
            mark[item] = was & MOVED
            entered[count] = place + 1 if was < LISTED else -(place + 1)
            count += was != LISTED
    for place in range(k):
        item = old[i, place]
        if item >= 0 and mark[item] >= LISTED:
            mark[item] &= MOVED
            items[size], marks[size] = item, 0
            size += 1
    for at in range(count):
        items[size], marks[size] = new[slot, abs(entered[at]) - 1], entered[at]
        size += 1
    return size


@njit(**EXACT)
def write_changes(tree: CornerTree, log: Log, moved: NDArray[np.bool_], changes: Changes) -> None:
    """Append the net changes of all boards that a batch has touched."""
    size, groups, board = changes.tally[DELTAS], changes.tally[GROUPS], tree.board
    mark, entered = moved.astype(np.int8), np.empty(board.shape[1], np.int32)
    for i in range(log.tally[TOUCHED]):
        slot, start = log.slot[i], size
        size = _write_change(log.board, i, board, slot, mark, changes, entered, size)
        if size > start:
            changes.group[groups, 0], changes.group[groups, 1] = tree.row[slot], start
            changes.group[groups, 2] = size
            groups += 1
    changes.tally[GROUPS], changes.tally[DELTAS] = groups, size
