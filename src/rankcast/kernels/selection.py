"""Splitting points for a k-d tree: the smaller ones left of a middle, by (lo, hi, row) or (hi, lo, row).

A point is one record (lo, hi, row, origin) of float64; origin says where it stood before. The axis is the
one along which the points spread more. The compound order has no ties because rows are distinct, so any
data can be split evenly. Pivots come from a sample. Partitioning copies without branching on the comparison,
which costs a few nanoseconds a point where a swapping partition would mispredict every other one.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT

Records = NDArray[np.float64]

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
def _spread(points: Records, axis: int, start: int, end: int) -> float:
    """How far the finite values of an axis lie apart; one that is mostly infinite counts as narrow."""
    smallest, largest, infinite = np.inf, -np.inf, 0
    for i in range(start, end):
        value = points[i, axis]
        if np.isinf(value):
            infinite += 1
        else:
            smallest, largest = min(smallest, value), max(largest, value)
    return 0.0 if 2 * infinite > end - start else max(largest - smallest, 0.0)


@njit(**EXACT)
def _wider_axis(points: Records, start: int, end: int) -> int:
    """The axis with the larger spread."""
    return 0 if _spread(points, 0, start, end) >= _spread(points, 1, start, end) else 1


@njit(**EXACT)
def _sort_short(points: Records, axis: int, start: int, end: int) -> None:
    """Insertion sort of a few points."""
    for i in range(start + 1, end):
        j = i
        while j > start and _before(points, axis, j, j - 1):
            for c in range(4):
                points[j, c], points[j - 1, c] = points[j - 1, c], points[j, c]
            j -= 1


@njit(**EXACT)
def _pivot(points: Records, axis: int, start: int, end: int, middle: int) -> int:
    """A point whose rank is near `middle`: neither the first nor the last of an evenly spaced sample."""
    size = SAMPLE if end - start > LARGE else 9
    sample = np.empty(size, np.int64)
    for s in range(size):
        at = s
        point = start + (2 * s + 1) * (end - start) // (2 * size)
        while at > 0 and _before(points, axis, point, sample[at - 1]):
            sample[at] = sample[at - 1]
            at -= 1
        sample[at] = point
    return sample[max(1, min(size - 2, size * (middle - start) // (end - start)))]


@njit(**EXACT)
def partition(
    points: Records, spare: Records, axis: int, start: int, end: int, pivot: tuple[float, float, float]
) -> int:
    """Move the points before the pivot (lo, hi, row) to the front; return where the others begin."""
    lo, hi, row = pivot
    left, right = start, end - 1
    for i in range(start, end):
        before = precedes(axis, points[i, 0], points[i, 1], points[i, 2], lo, hi, row)
        for c in range(4):
            spare[left, c] = points[i, c]
            spare[right, c] = points[i, c]
        left += before
        right -= not before
    points[start:end] = spare[start:end]
    return left


@njit(**EXACT)
def split(points: Records, spare: Records, start: int, end: int, middle: int) -> int:
    """Reorder start..end-1 so that no point before the middle comes after it; return the axis.

    The point at the middle is the first of the upper half. `spare` is as large as `points`.
    """
    axis = _wider_axis(points, start, end)
    low, high = start, end
    while high - low > SHORT:
        at = _pivot(points, axis, low, high, middle)
        place = partition(points, spare, axis, low, high, (points[at, 0], points[at, 1], points[at, 2]))
        if middle < place:
            high = place
        else:
            low = place
    _sort_short(points, axis, low, high)
    return axis
