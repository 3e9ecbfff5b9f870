"""Maximal boxes: each is looked up among those kept so far, containers first."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels.covering_buckets import NOBODY, Box, Index, World, ask
from rankcast.covering.kernels.index import insert, scratch_for, search, unready
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def keep_maximal(index: Index, world: World, rows: NDArray[np.int32], start: int) -> int:
    """Keep the maximal ones of rows, containers first, in the index; return how far."""
    found, scratch = np.empty(1, np.int32), scratch_for(index)
    box = Box(world.lo, world.hi)
    for i in range(start, rows.shape[0]):
        if unready(index):
            return i
        if search(index, world, ask(box, rows[i], NOBODY), found, np.int64(0), scratch) == 0:
            insert(index, world, rows[i])
    return rows.shape[0]


@njit(**EXACT)
def uncovered(index: Index, world: World, rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Those of rows that no other row in the index covers; of equal ones the first: all are COVERED."""
    found, left, count = np.empty(1, np.int32), np.empty_like(rows), 0
    box, scratch = Box(world.lo, world.hi), scratch_for(index)
    for row in rows:
        if search(index, world, ask(box, row, row), found, np.int64(0), scratch) == 0:
            left[count] = row
            count += 1
    return left[:count].copy()
