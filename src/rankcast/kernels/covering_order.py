"""Rows so that none comes before one that covers it: wide boxes first, ties by their ends and registration.

Width is the sum of hi - lo over the attributes. Rounding never turns an order round, so a box that contains
another is at least as wide as computed; where widths are equal (or infinite), lower ends ascending and then
upper ends descending tell: a box that contains another is at most equal to it in each of these keys.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.covering_buckets import World
from rankcast.kernels.options import EXACT

Rows = NDArray[np.int32]


@njit(**EXACT)
def _comes_before(world: World, one: int, other: int) -> bool:
    for attribute in range(world.lo.shape[1]):
        if world.lo[one, attribute] != world.lo[other, attribute]:
            return world.lo[one, attribute] < world.lo[other, attribute]
    for attribute in range(world.hi.shape[1]):
        if world.hi[one, attribute] != world.hi[other, attribute]:
            return world.hi[one, attribute] > world.hi[other, attribute]
    return world.sequence[one] < world.sequence[other]


@njit(**EXACT)
def _merge_sort(world: World, rows: Rows) -> None:
    """Sort rows, in stretches that double."""
    spare, length, size = np.empty_like(rows), 1, rows.shape[0]
    while length < size:
        for start in range(0, size, 2 * length):
            middle, end = min(start + length, size), min(start + 2 * length, size)
            one, other = start, middle
            for at in range(start, end):
                if one < middle and (other == end or not _comes_before(world, rows[other], rows[one])):
                    spare[at] = rows[one]
                    one += 1
                else:
                    spare[at] = rows[other]
                    other += 1
        rows[:] = spare
        length *= 2


@njit(**EXACT)
def _width(world: World, row: int) -> float:
    width = 0.0
    for attribute in range(world.lo.shape[1]):
        width += world.hi[row, attribute] - world.lo[row, attribute]
    return width


@njit(**EXACT)
def containers_first(world: World, rows: Rows) -> Rows:
    """The rows in that order. Cost: one sort by width, and of ties by all keys."""
    if rows.shape[0] < 2:
        return rows
    keys = np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        keys[i] = -_width(world, rows[i])
    order = np.argsort(keys)
    ordered, start = rows[order], 0
    for end in range(1, rows.shape[0] + 1):
        if end == rows.shape[0] or keys[order[end]] != keys[order[start]]:
            if end - start > 1:
                _merge_sort(world, ordered[start:end])
            start = end
    return ordered
