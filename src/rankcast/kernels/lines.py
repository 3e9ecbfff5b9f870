"""Columns of numbers as the lines of one array: checks that a call with a few rows makes at once."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT

Lines = NDArray[np.float64]


@njit(**EXACT)
def are_finite(lines: Lines) -> bool:
    """Whether all numbers are finite."""
    for line in range(lines.shape[0]):
        for place in range(lines.shape[1]):
            if not -np.inf < lines[line, place] < np.inf:
                return False
    return True


@njit(**EXACT)
def are_ordered(ends: Lines) -> bool:
    """Whether no lower end is above the upper one: lower and upper ends in turn, attribute by attribute."""
    for line in range(0, ends.shape[0], 2):
        for place in range(ends.shape[1]):
            if not ends[line, place] <= ends[line + 1, place]:
                return False
    return True
