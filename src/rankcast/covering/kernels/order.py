"""Rows so that none comes before one that covers it: wide boxes first, ties by their ends and registration.

Width is the sum of hi - lo over the attributes. Rounding never turns an order round, so a box that contains
another is at least as wide as computed; where widths are equal (or infinite), lower ends ascending and then
upper ends descending tell: a box that contains another is at most equal to it in each of these keys.

Maximal boxes: each is looked up among those kept so far, containers first.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels.buckets import NOBODY, Box, Index, World, ask
from rankcast.covering.kernels.index import insert, scratch_for, search, unready
from rankcast.structures.jit import EXACT

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
def _keys(world: World, rows: Rows) -> NDArray[np.float64]:
    """Widths, turned so that wide boxes come first."""
    keys = np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        keys[i] = -_width(world, rows[i])
    return keys


@njit(**EXACT)
def _select(world: World, rows: Rows, count: int) -> None:
    """Let `count` rows, all equally wide, that come before the others stand before them, in any order."""
    low, high = 0, rows.shape[0] - 1
    while low < high:
        pivot, up, down = rows[(low + high) // 2], low, high
        while up <= down:
            while _comes_before(world, rows[up], pivot):
                up += 1
            while _comes_before(world, pivot, rows[down]):
                down -= 1
            if up <= down:
                rows[up], rows[down] = rows[down], rows[up]
                up, down = up + 1, down - 1
        if count <= down:
            high = down
        elif count > up:
            low = up
        else:
            return


@njit(**EXACT)
def containers_first(world: World, rows: Rows) -> Rows:
    """The rows in that order. Cost: one sort by width, and of ties by all keys."""
    if rows.shape[0] < 2:
        return rows
    keys = _keys(world, rows)
    order = np.argsort(keys)
    ordered, start = rows[order], 0
    for end in range(1, rows.shape[0] + 1):
        if end == rows.shape[0] or keys[order[end]] != keys[order[start]]:
            if end - start > 1:
                _merge_sort(world, ordered[start:end])
            start = end
    return ordered


@njit(**EXACT)
def first_containers(world: World, rows: Rows, count: int) -> Rows:
    """The first `count` of the rows in that order. Cost: O(n) expected, and a sort of those alone."""
    if count >= rows.shape[0]:
        return containers_first(world, rows)
    keys = _keys(world, rows)
    bound = np.partition(keys, count - 1)[count - 1]
    wider, ties = rows[keys < bound], rows[keys == bound]
    rest = count - wider.shape[0]
    _select(world, ties, rest)
    return containers_first(world, np.concatenate((wider, ties[:rest])))


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
