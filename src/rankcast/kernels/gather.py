"""Gathering by row into memory that is there already: plain loops, since NumPy would first widen the rows."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT

BLOCK = 64


class Lists(NamedTuple):
    """Columns for results of subscriptions, flat."""

    subscription: NDArray[np.int32]
    item: NDArray[np.int32]
    score: NDArray[np.float64]
    rank: NDArray[np.int64]


class External(NamedTuple):
    """Columns for results of subscriptions with the ids of outside; nothing is scored if `score` is empty."""

    subscription: NDArray[np.int64]
    item: NDArray[np.int64]
    score: NDArray[np.float64]
    rank: NDArray[np.int64]


class Names(NamedTuple):
    """Ids by row of subscriptions and of items, and the values of items."""

    subscription: NDArray[np.int64]
    item: NDArray[np.int64]
    value: NDArray[np.float64]


@njit(**EXACT)
def pick(values: NDArray[np.int64], rows: NDArray[np.int32], out: NDArray[np.int64]) -> None:
    """Write `values[rows]` to `out`; the rows must be valid."""
    for i in range(rows.size):
        out[i] = values[rows[i]]


@njit(**EXACT)
def count_items(board: NDArray[np.int32], slots: NDArray[np.int32], rows: NDArray[np.int32]) -> int:
    """How many items the boards at the slots of some rows list."""
    total, k = 0, board.shape[1]
    for i in range(rows.size):
        size, slot = k, slots[rows[i]]
        while size > 0 and board[slot, size - 1] < 0:
            size -= 1
        total += size
    return total


@njit(**EXACT)
def count_each(board: NDArray[np.int32], slots: NDArray[np.int32], sizes: NDArray[np.int64]) -> None:
    """Write how many items the board at each slot lists. O(log k) each."""
    for i in range(slots.size):
        low, high = 0, board.shape[1]
        while low < high:
            middle = (low + high) // 2
            if board[slots[i], middle] < 0:
                high = middle
            else:
                low = middle + 1
        sizes[i] = low


@njit(**EXACT)
def _copy_boards(
    board: NDArray[np.int32], slots: NDArray[np.int32], rows: NDArray[np.int32], block: NDArray[np.int32]
) -> None:
    """Copy the boards at the slots of some rows together, so that their cache misses overlap."""
    for i in range(rows.size):
        slot = np.uint32(slots[np.uint32(rows[i])])
        for place in range(board.shape[1]):
            block[i, place] = board[slot, place]


@njit(**EXACT)
def write_external(
    board: NDArray[np.int32], slots: NDArray[np.int32], rows: NDArray[np.int32], names: Names, out: External
) -> None:
    """Write the boards at the slots of some rows one after the other as they are shown outside.

    Each byte of an answer is written once; blocks and indexes as in `read_boards`.
    """
    ids, items, values = names
    owner, item, score, rank = out
    size, k, scored = np.uint64(0), np.uint64(board.shape[1]), score.size > 0
    block = np.empty((BLOCK, k), np.int32)
    for first in range(0, rows.size, BLOCK):
        end = min(first + BLOCK, rows.size)
        _copy_boards(board, slots, rows[first:end], block)
        for i in range(first, end):
            line, mine, count = block[i - first], ids[np.uint32(rows[i])], k
            while count > np.uint64(0) and line[count - np.uint64(1)] < 0:
                count -= np.uint64(1)
            for place in range(count):
                owner[size + place], item[size + place] = mine, items[np.uint32(line[place])]
            if scored:
                for place in range(count):
                    score[size + place] = values[np.uint32(line[place])]
                    rank[size + place] = np.int64(place) + 1
            size += count


@njit(**EXACT)
def read_boards(
    board: NDArray[np.int32],
    slots: NDArray[np.int32],
    rows: NDArray[np.int32],
    values: NDArray[np.float64],
    lists: Lists,
) -> None:
    """Write the boards at the slots of some rows one after the other, with the values of their items.

    Boards lie anywhere: a block of them is copied together first, so that their cache misses overlap. Indexes
    are unsigned, or Numba would ask each whether it counts from the end.
    """
    owner, item, score, rank = lists
    size, k = np.uint64(0), np.uint64(board.shape[1])
    block = np.empty((BLOCK, k), np.int32)
    for first in range(0, rows.size, BLOCK):
        end = min(first + BLOCK, rows.size)
        _copy_boards(board, slots, rows[first:end], block)
        for i in range(first, end):
            for place in range(k):
                which = block[i - first, place]
                if which < 0:
                    break
                owner[size], item[size], rank[size] = rows[i], which, np.int64(place) + 1
                score[size] = values[np.uint32(which)]
                size += np.uint64(1)
