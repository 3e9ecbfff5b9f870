"""Maximal boxes: those that no other box contains, of equal ones the first.

Rows come containers first, so a row is maximal unless one kept before it contains it; only those are
searched.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.covering_buckets import FORWARDED, NOBODY, Box, Index, Query, World
from rankcast.kernels.covering_index import find, insert, unready
from rankcast.kernels.options import EXACT


@njit(**EXACT)
def keep_maximal(index: Index, world: World, rows: NDArray[np.int32], start: int) -> int:
    """Keep the maximal ones of rows, containers first, in the index and FORWARDED; return how far."""
    found = np.empty(1, np.int32)
    box = Box(world.lo, world.hi)
    for i in range(start, rows.shape[0]):
        if unready(index):
            return i
        if find(index, world, Query(box, rows[i], NOBODY), found, 0) == 0:
            world.standing[rows[i]] = FORWARDED
            insert(index, world, rows[i])
    return rows.shape[0]
