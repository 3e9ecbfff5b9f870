"""Gathering by row into memory that is there already: plain loops, since NumPy would first widen the rows."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT


@njit(**EXACT)
def pick(values: NDArray[np.int64], rows: NDArray[np.int32], out: NDArray[np.int64]) -> None:
    """Write `values[rows]` to `out`; the rows must be valid."""
    for i in range(rows.size):
        out[i] = values[rows[i]]


@njit(**EXACT)
def count_items(board: NDArray[np.int32], slots: NDArray[np.int32]) -> int:
    """How many items the boards at the given slots list."""
    total, k = 0, board.shape[1]
    for i in range(slots.size):
        for place in range(k):
            if board[slots[i], place] < 0:
                break
            total += 1
    return total


@njit(**EXACT)
def read_boards(
    board: NDArray[np.int32],
    slots: NDArray[np.int32],
    owner: NDArray[np.int32],
    item: NDArray[np.int32],
    rank: NDArray[np.int64],
) -> None:
    """Write the boards at the given slots one after the other: which of the slots, item, rank."""
    size, k = 0, board.shape[1]
    for i in range(slots.size):
        slot = slots[i]
        for place in range(k):
            which = board[slot, place]
            if which < 0:
                break
            owner[size], item[size], rank[size] = i, which, place + 1
            size += 1
