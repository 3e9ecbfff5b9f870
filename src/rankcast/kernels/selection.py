"""Splitting points for a k-d tree: the smaller ones left of a middle, by (lo, hi, row) or (hi, lo, row).

A point is one record (lo, hi, row, origin) of float64; origin says where it stood before. The axis is the
one along which the points spread more. The compound order has no ties because rows are distinct, so any
data can be split evenly. `split` moves no record, only their places in `order`: an eighth of the bytes, and
it takes several passes. Pivots come from a sample. Whatever parts points does so without branching on the
comparison, which costs a few nanoseconds a point where a swapping partition would mispredict every other one.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT

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
