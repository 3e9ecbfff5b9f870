"""How many rows come from beyond what codes were made for; see `rankcast.matching.boxes.quantiles`."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]


@njit(**EXACT)
def outside(cuts: Floats, lo: Floats, hi: Floats, rows: NDArray[np.int32], margin: int) -> int:
    """How many of some rows have an end among the outer `margin` cuts of a dimension, or beyond."""
    found, last = 0, cuts.shape[1] - 1 - margin
    for row in rows:
        beyond = False
        for j in range(cuts.shape[0]):
            for end in (lo[row, j], hi[row, j]):
                if abs(end) < np.inf and (end < cuts[j, margin] or end > cuts[j, last]):
                    beyond = True
        found += beyond
    return found
