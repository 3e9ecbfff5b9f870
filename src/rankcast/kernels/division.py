"""Splitting many points by several levels of a k-d tree at once.

A sample is split exactly, level by level, which gives a heap of pivots: 1 is the root, c has the children 2c
and 2c + 1. Every point then walks down the heap, and all points are moved once to the cells they end in. So
a level costs a few nanoseconds a point; one pass over the points a level would cost several times that.

A sample may mislead: `balanced` says whether a node's halves are near enough to halves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT
from rankcast.kernels.selection import Records, precedes, split

LEVELS = 6
CELL = 1024  # a cell has about as many points, or up to twice as many
LEAST = 3 * CELL // 4  # no cell of a balanced division has fewer points
SHARE = 64  # sample points a cell


class Division(NamedTuple):
    """Splits as a heap: axis and pivot (lo, hi, row) of a node, and where its points begin and end."""

    axis: NDArray[np.int8]
    pivot: NDArray[np.float64]
    start: NDArray[np.int64]
    end: NDArray[np.int64]


@njit(**EXACT)
def levels_for(count: int) -> int:
    """How many levels of so many points are split at once."""
    levels = 0
    while levels < LEVELS and count >> levels >= 2 * CELL:
        levels += 1
    return levels


@njit(**EXACT)
def balanced(division: Division, node: int) -> bool:
    """Whether both halves of a node have at least 3/8 of its points."""
    start, end, middle = division.start[node], division.end[node], division.end[2 * node]
    return 8 * min(middle - start, end - middle) >= 3 * (end - start)


@njit(**EXACT)
def _choose(points: Records, start: int, end: int, levels: int, division: Division) -> None:
    """Find the pivots from an evenly spaced sample."""
    size = SHARE << levels
    sample, spare = np.empty(size, np.int32), np.empty(size, np.int32)
    for s in range(size):
        sample[s] = start + (2 * s + 1) * (end - start) // (2 * size)
    for level in range(levels):
        span = size >> level
        for at in range(1 << level):
            node, middle = (1 << level) + at, at * span + span // 2
            division.axis[node] = split(points, sample, spare, at * span, (at + 1) * span, middle)
            for c in range(3):
                division.pivot[node, c] = points[sample[middle], c]


@njit(**EXACT)
def _walk(
    points: Records, start: int, end: int, levels: int, division: Division, cell: NDArray[np.uint8]
) -> None:
    """Note the cell of every point, and count the points of every cell in `end`."""
    axis, pivot, count, cells = division.axis, division.pivot, division.end, 1 << levels
    count[:] = 0
    for i in range(start, end):
        node = 1
        for _ in range(levels):
            value, limit = points[i, axis[node]], pivot[node, axis[node]]
            after = value > limit
            if value == limit:
                lo, hi, row = pivot[node, 0], pivot[node, 1], pivot[node, 2]
                after = not precedes(axis[node], points[i, 0], points[i, 1], points[i, 2], lo, hi, row)
            node = 2 * node + after
        cell[i - start] = node - cells
        count[node] += 1


@njit(**EXACT)
def divide(points: Records, spare: Records, start: int, end: int, levels: int) -> Division:
    """Reorder start..end-1 by the cells of so many levels. `spare` is as large as `points`."""
    cells = 1 << levels
    division = Division(
        np.empty(cells, np.int8),
        np.empty((cells, 3)),
        np.empty(2 * cells, np.int64),
        np.empty(2 * cells, np.int64),
    )
    cell, first, last = np.empty(end - start, np.uint8), division.start, division.end
    _choose(points, start, end, levels, division)
    _walk(points, start, end, levels, division, cell)
    place = start
    for c in range(cells, 2 * cells):
        first[c], place = place, place + last[c]
        last[c] = first[c]
    for i in range(start, end):
        c = cells + cell[i - start]
        for part in range(4):
            spare[last[c], part] = points[i, part]
        last[c] += 1
    points[start:end] = spare[start:end]
    for c in range(cells - 1, 0, -1):
        first[c], last[c] = first[2 * c], last[2 * c + 1]
    return division
