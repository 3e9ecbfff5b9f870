"""Selection and sorting: splits for k-d trees and a radix sort without mispredicted branches.

A point is one record (lo, hi, row, origin) of float64; origin is where it stood before. `split` puts the
smaller points left of a middle by (lo, hi, row) or (hi, lo, row), along the axis in which they spread more.
The compound order has no ties because rows are distinct, so any data can be split evenly. It moves no record,
only their places in `order`: an eighth of the bytes, and it takes several passes. Pivots come from a sample.

`divide` splits many points by several levels at once. A sample is split exactly, level by level, which gives
a heap of pivots: 1 is the root, c has the children 2c and 2c + 1. Every point then walks down the heap, and
all points are moved once to the cells they end in: a few nanoseconds a point and level, where a pass a level
would cost several times that. A sample may mislead: `balanced` says whether a node's halves are near enough
to halves.

`select` puts the smaller of some keys left of a middle, together with what they are keys of: the plain
quickselect, for keys that may be equal.

`with_places` sorts many small whole numbers together with where they stood, in two passes. A number and its
place are one 64-bit word, the number in the upper half, so that every pass reads and writes words one after
the other. Equal numbers keep their order. Cost: O(n + sqrt(most)), a few nanoseconds a number.

Indexes are unsigned (np.uint32, np.uint64), so that Numba does not test whether each counts from the end.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Records = NDArray[np.float64]
Places = NDArray[np.int32]

LARGE = 2048  # from here on a pivot is worth a larger sample
SAMPLE = 65
SHORT = 24


@njit(**EXACT)
def precedes(
    axis: int, lo: float, hi: float, row: float, pivot_lo: float, pivot_hi: float, pivot_row: float
) -> bool:
    """Whether a point comes strictly before the pivot along an axis."""
    first, second = (lo, hi) if axis == 0 else (hi, lo)
    pivot_first, pivot_second = (pivot_lo, pivot_hi) if axis == 0 else (pivot_hi, pivot_lo)
    if first != pivot_first:
        return first < pivot_first
    if second != pivot_second:
        return second < pivot_second
    return row < pivot_row


@njit(**EXACT)
def _before(points: Records, axis: int, i: int, j: int) -> bool:
    return precedes(axis, points[i, 0], points[i, 1], points[i, 2], points[j, 0], points[j, 1], points[j, 2])


@njit(**EXACT)
def _wider_axis(points: Records, order: Places, start: int, end: int) -> int:
    """The axis whose finite values lie farther apart; one that is mostly infinite counts as narrow."""
    west, east, bottom, top, beyond, above = np.inf, -np.inf, np.inf, -np.inf, 0, 0
    for i in range(np.uint64(start), np.uint64(end)):
        lo, hi = points[np.uint32(order[i]), 0], points[np.uint32(order[i]), 1]
        if np.isinf(lo):
            beyond += 1
        else:
            west, east = min(west, lo), max(east, lo)
        if np.isinf(hi):
            above += 1
        else:
            bottom, top = min(bottom, hi), max(top, hi)
    width = 0.0 if 2 * beyond > end - start else max(east - west, 0.0)
    height = 0.0 if 2 * above > end - start else max(top - bottom, 0.0)
    return 0 if width >= height else 1


@njit(**EXACT)
def _sort_short(points: Records, order: Places, axis: int, start: int, end: int) -> None:
    """Insertion sort of a few points."""
    for i in range(start + 1, end):
        point, j = order[i], i
        while j > start and _before(points, axis, point, order[j - 1]):
            order[j] = order[j - 1]
            j -= 1
        order[j] = point


@njit(**EXACT)
def _pivot(points: Records, order: Places, axis: int, start: int, end: int, middle: int) -> int:
    """A point whose rank is near `middle`: neither the first nor the last of an evenly spaced sample."""
    size = SAMPLE if end - start > LARGE else 9
    sample = np.empty(size, np.int64)
    for s in range(size):
        at = s
        point = order[start + (2 * s + 1) * (end - start) // (2 * size)]
        while at > 0 and _before(points, axis, point, sample[at - 1]):
            sample[at] = sample[at - 1]
            at -= 1
        sample[at] = point
    return sample[max(1, min(size - 2, size * (middle - start) // (end - start)))]


@njit(**EXACT)
def _part(
    points: Records, order: Places, spare: Places, axis: int, start: int, end: int, pivot: int
) -> np.int64:
    """Move the points before the pivot to the front of start..end-1; return where the others begin."""
    lo, hi, row = points[pivot, 0], points[pivot, 1], points[pivot, 2]
    left, right = np.uint64(start), np.uint64(0)
    for i in range(np.uint64(start), np.uint64(end)):
        point = order[i]
        at = np.uint32(point)
        before = precedes(axis, points[at, 0], points[at, 1], points[at, 2], lo, hi, row)
        order[left], spare[right] = point, point
        left += np.uint64(before)
        right += np.uint64(not before)
    for i in range(right):
        order[left + i] = spare[i]
    return np.int64(left)


@njit(**EXACT)
def split(points: Records, order: Places, spare: Places, start: int, end: int, middle: int) -> int:
    """Reorder the places start..end-1 so that no point before the middle comes after it; return the axis.

    The point at the middle is the first of the upper half. `spare` is as long as `order`.
    """
    axis = _wider_axis(points, order, start, end)
    low, high = start, end
    while high - low > SHORT:
        pivot = _pivot(points, order, axis, low, high, middle)
        place = _part(points, order, spare, axis, low, high, pivot)
        if middle < place:
            high = place
        else:
            low = place
    _sort_short(points, order, axis, low, high)
    return axis


@njit(**EXACT)
def bring(points: Records, order: Places, spare: Records, start: int, end: int) -> None:
    """Bring the records to their places start..end-1, which `order` has among themselves."""
    for i in range(start, end):
        for c in range(4):
            spare[i, c] = points[order[i], c]
        order[i] = i
    points[start:end] = spare[start:end]


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


@njit(**EXACT)
def select(keys: NDArray[Any], order: NDArray[np.int64], start: int, end: int, middle: int) -> None:
    """Reorder start..end-1 by keys so that none before `middle` is above one behind it. O(n) expected."""
    low, high = start, end - 1
    while low < high:
        pivot = max(min(keys[low], keys[high]), min(max(keys[low], keys[high]), keys[(low + high) // 2]))
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


Words = NDArray[np.uint64]

HALF = np.uint64(32)
LOWER = np.uint64(0xFFFFFFFF)


@njit(**EXACT)
def _pass(words: Words, out: Words, shift: np.uint64, bits: np.uint64) -> None:
    """Write the words in the order of some bits of theirs."""
    mask = (np.uint64(1) << bits) - np.uint64(1)
    start, total = np.zeros(mask + np.uint64(1), np.uint64), np.uint64(0)
    for i in range(words.shape[0]):
        start[(words[i] >> shift) & mask] += np.uint64(1)
    for b in range(mask + np.uint64(1)):
        start[b], total = total, total + start[b]
    for i in range(words.shape[0]):
        digit = (words[i] >> shift) & mask
        out[start[digit]] = words[i]
        start[digit] += np.uint64(1)


@njit(**EXACT)
def with_places(numbers: NDArray[np.int32], most: int) -> Words:
    """The numbers, all from 0 to `most`, ascending, each with its place in the lower half of the word."""
    words, spare = np.empty(numbers.shape[0], np.uint64), np.empty(numbers.shape[0], np.uint64)
    for i in range(numbers.shape[0]):
        words[i] = np.uint64(numbers[i]) << HALF | np.uint64(i)
    bits = np.uint64(1)
    while np.uint64(most) >> bits + bits:
        bits += np.uint64(1)
    _pass(words, spare, HALF, bits)
    _pass(spare, words, HALF + bits, bits)
    return words
