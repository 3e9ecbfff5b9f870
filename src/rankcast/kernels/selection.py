"""Splitting points for a k-d tree: the smaller ones left of a middle, by (lo, hi, row) or (hi, lo, row).

A point is one record (lo, hi, row, origin) of float64; origin says where it stood before. The axis is the
one along which the points spread more. The compound order has no ties because rows are distinct, so any
data can be split evenly. Pivots come from a sample. A large set is split once, near the middle; a small one
exactly, so that buckets are filled evenly. Partitioning copies without branching on the comparison, which
costs a few nanoseconds a point where a swapping partition would mispredict every other one.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT

Records = NDArray[np.float64]

LARGE = 2048
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
def _wider_axis(points: Records, start: int, end: int) -> int:
    """The axis with the larger spread of finite values; one that is mostly infinite counts as narrow."""
    smallest, largest, infinite = np.full(2, np.inf), np.full(2, -np.inf), np.zeros(2, np.int64)
    for i in range(start, end):
        for axis in range(2):
            value = points[i, axis]
            if np.isinf(value):
                infinite[axis] += 1
            else:
                smallest[axis] = min(smallest[axis], value)
                largest[axis] = max(largest[axis], value)
    spread = np.maximum(largest - smallest, 0.0)
    for axis in range(2):
        if 2 * infinite[axis] > end - start:
            spread[axis] = 0.0
    return 0 if spread[0] >= spread[1] else 1


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
def _partition(points: Records, spare: Records, axis: int, start: int, end: int, pivot: int) -> int:
    """Move the points before the pivot to the front; return where the others begin."""
    lo, hi, row = points[pivot, 0], points[pivot, 1], points[pivot, 2]
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
def split(points: Records, spare: Records, start: int, end: int, middle: int) -> tuple[int, int]:
    """Reorder start..end-1 so that no point before a place comes after it; return the axis and the place.

    The place is `middle`, or for more than LARGE points within an eighth of their number of it. `spare` is as
    large as `points`.
    """
    axis = _wider_axis(points, start, end)
    low, high = start, end
    while high - low > SHORT:
        place = _partition(points, spare, axis, low, high, _pivot(points, axis, low, high, middle))
        if end - start > LARGE and 8 * abs(place - middle) < end - start:
            return axis, place
        if middle < place:
            high = place
        else:
            low = place
    _sort_short(points, axis, low, high)
    return axis, middle
