"""The plainest kernels that a machine can be asked to run, one for each rate in `rankcast.bench.limits`."""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT


@njit(**EXACT)
def count_holding(low: NDArray[np.float64], high: NDArray[np.float64], x: float) -> int:
    """How many intervals hold a point; every interval is looked at, none decides a branch."""
    found = 0
    for place in range(low.shape[0]):
        found += (low[place] <= x) & (x <= high[place])
    return found


@njit(**EXACT)
def walk(following: NDArray[np.int64], steps: int) -> int:
    """Where so many steps lead, each of which says where the next one is."""
    at = 0
    for _ in range(steps):
        at = following[at]
    return at


@njit(**EXACT)
def write_rows(columns: tuple[Any, ...], rows: int) -> int:
    """Write rows as deltas have them: subscription, op, item, score, rank."""
    subscription, op, item, score, rank = columns
    for row in range(rows):
        subscription[row], op[row], item[row], score[row], rank[row] = row, 1, row, 0.5, 1
    return rows
