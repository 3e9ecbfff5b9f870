"""Subscriptions change, objects do not: the lists before and after, and the leaves and enters between them.

No value changes meanwhile, so an item that stays in a list is no change, and no score is compared. Lists
stand one after the other, each in as many places as it may have items, ended by -1 if it has fewer.

Cost: O(k) a subscription; `seen`, as long as the objects, begins as zeros and is nowhere cleared. Indexes are
unsigned: Numba would ask each whether it counts from the end, which takes longer than all the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.board import ENTER, LEAVE
from rankcast.kernels.gather import BLOCK
from rankcast.kernels.options import EXACT
from rankcast.kernels.prefetch import prefetch
from rankcast.kernels.spread import Deltas

Rows = NDArray[np.int32]
Starts = NDArray[np.uint64]


class Held(NamedTuple):
    """Lists of some subscriptions: the i-th begins at start[i] and ends before start[i + 1], or at -1."""

    start: Starts
    item: Rows


@njit(**EXACT)
def _fetch(board: Rows, slots: Rows, rows: Rows) -> None:
    """Ask for the boards of a block of rows, which lie anywhere, so that their cache misses overlap."""
    width = np.int64(board.shape[1])
    for i in range(rows.shape[0]):
        first = np.int64(slots[np.uint32(rows[i])]) * width
        prefetch(board, first)
        prefetch(board, first + width - 1)


@njit(**EXACT)
def copy_boards(board: Rows, slots: Rows, rows: Rows, start: Starts, item: Rows) -> None:
    """Copy the boards at the slots of some rows to where their lists begin."""
    for i in range(rows.shape[0]):
        if i % BLOCK == 0:
            _fetch(board, slots, rows[i : i + BLOCK])
        slot = np.uint32(slots[np.uint32(rows[i])])
        for place in range(np.uint64(board.shape[1])):
            item[start[i] + place] = board[slot, place]


@njit(**EXACT)
def write_boards(board: Rows, slots: Rows, rows: Rows, lists: Rows) -> None:
    """Write a list to the board at the slot of each row."""
    for i in range(rows.shape[0]):
        if i % BLOCK == 0:
            _fetch(board, slots, rows[i : i + BLOCK])
        slot = np.uint32(slots[np.uint32(rows[i])])
        for place in range(np.uint64(lists.shape[1])):
            board[slot, place] = lists[i, place]


@njit(**EXACT)
def _end(item: Rows, first: np.uint64, last: np.uint64) -> np.uint64:
    """Where a list ends."""
    while last > first and item[last - np.uint64(1)] < 0:
        last -= np.uint64(1)
    return last


@njit(**EXACT)
def _alike(one: Rows, first: np.uint64, two: Rows, start: np.uint64, size: np.uint64) -> bool:
    """Whether two stretches have the same items."""
    for place in range(size):
        if one[first + place] != two[start + place]:
            return False
    return True


@njit(**EXACT)
def write_exchange(
    rows: Rows, old: Held, new: Held, y: NDArray[np.float64], seen: Rows, told: Deltas
) -> np.int64:
    """Write what turns the old lists of some subscriptions into the new ones; return how many rows.

    Each entry is written, and written over by the next if it is no change: a branch would often be
    mispredicted. So the columns of `told` have one place more than both lists have items.
    """
    was, before, now, after = old.start, old.item, new.start, new.item
    subscription, op, item, score, rank = told
    size = np.uint64(0)
    for i in range(rows.shape[0]):
        first, start, row, stamp = was[i], now[i], rows[i], np.int32(2 * i + 1)
        end, stop = _end(before, first, was[i + 1]), _end(after, start, now[i + 1])
        if end - first == stop - start and _alike(before, first, after, start, end - first):
            continue
        for at in range(start, stop):
            seen[np.uint32(after[at])] = stamp
        for at in range(first, end):
            subscription[size], op[size], item[size] = row, LEAVE, before[at]
            score[size], rank[size] = np.nan, 0
            size += np.uint64(seen[np.uint32(before[at])] != stamp)
        for at in range(first, end):
            seen[np.uint32(before[at])] = stamp + 1
        for at in range(start, stop):
            subscription[size], op[size], item[size] = row, ENTER, after[at]
            score[size], rank[size] = y[np.uint32(after[at])], np.int64(at - start) + 1
            size += np.uint64(seen[np.uint32(after[at])] != stamp + 1)
    return np.int64(size)
