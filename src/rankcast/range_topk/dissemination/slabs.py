"""Slabs: the influence polygon of an object over two attributes, the second bounded on one side.

A plane is swept over the second attribute, upwards from the object. Between two heights at which a better
object comes in, a slab, the better objects nearest to the left and right are the same, so whom the object
matters to is the staircase of one attribute (`rankcast.range_topk.kernels.regions`) times that stretch of heights. All
slabs together are the influence polygon: the intervals only shrink upwards. [Range App. D, Alg. 6, 7]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.corners import Floats, Rows
from rankcast.range_topk.kernels.regions import LEFT, RIGHT, SAME, Stairs, expose, reach, room_of
from rankcast.structures.jit import EXACT

UNKNOWN, NONE = -2, -1
FIRSTK, MIN, SNAP = range(3)  # questions, as they are counted


class Slabs(NamedTuple):
    """Slabs upwards: where each begins, its staircase, its next object; `size[0]` of them.

    Nobody whom the object matters to reaches outside the `window` of a slab, from lo to hi.
    """

    height: Floats
    left: Floats
    right: Floats
    stairs: NDArray[np.int64]
    next: Rows
    window: Floats
    size: NDArray[np.int64]


@njit(**EXACT)
def empty_slabs(capacity: int, k: int) -> Slabs:
    """Room for slabs."""
    return Slabs(
        np.empty(capacity),
        np.empty((capacity, k)),
        np.empty((capacity, k)),
        np.zeros((capacity, 3), np.int64),
        np.empty(capacity, np.int32),
        np.empty((capacity, 2)),
        np.zeros(1, np.int64),
    )


@njit(**EXACT)
def stairs_of(slabs: Slabs, at: int) -> Stairs:
    """The staircase of a slab."""
    return Stairs(slabs.left[at], slabs.right[at], slabs.stairs[at])


@njit(**EXACT)
def _shift(slabs: Slabs, first: int, end: int, step: int) -> None:
    """Copy slabs, one by one from `first` to before `end`, each to the place `step` further."""
    height, left, right, stairs = slabs.height, slabs.left, slabs.right, slabs.stairs
    later, window = slabs.next, slabs.window
    for source in range(first, end, -step):
        target = source + step
        height[target], later[target] = height[source], later[source]
        window[target, 0], window[target, 1] = window[source, 0], window[source, 1]
        for side in range(3):
            stairs[target, side] = stairs[source, side]
        for i in range(left.shape[1]):
            left[target, i], right[target, i] = left[source, i], right[source, i]


@njit(**EXACT)
def part(slabs: Slabs, at: int, height: float) -> Slabs:
    """Part a slab at a height: its upper part is a copy behind it."""
    size = slabs.size[0]
    if size == slabs.height.shape[0]:
        wider = empty_slabs(2 * size, slabs.left.shape[1])
        wider.height[:size], wider.left[:size], wider.right[:size] = slabs.height, slabs.left, slabs.right
        wider.stairs[:size], wider.next[:size], wider.window[:size] = slabs.stairs, slabs.next, slabs.window
        wider.size[0] = size
        slabs = wider
    _shift(slabs, size - 1, at - 1, 1)
    slabs.height[at + 1], slabs.size[0] = height, size + 1
    return slabs


@njit(**EXACT)
def drop(slabs: Slabs, at: int) -> None:
    """Take a slab out: the one before it goes on."""
    _shift(slabs, at + 1, slabs.size[0], -1)
    slabs.size[0] -= 1


@njit(**EXACT)
def alike(slabs: Slabs, one: int, two: int) -> bool:
    """Whether two slabs have the same staircase."""
    for side in range(3):
        if slabs.stairs[one, side] != slabs.stairs[two, side]:
            return False
    for i in range(slabs.stairs[one, LEFT]):
        if slabs.left[one, i] != slabs.left[two, i]:
            return False
    for i in range(slabs.stairs[one, RIGHT]):
        if slabs.right[one, i] != slabs.right[two, i]:
            return False
    return True


@njit(**EXACT)
def above(slabs: Slabs, at: int) -> float:
    """Where a slab ends: the next one begins there."""
    return slabs.height[at + 1] if at + 1 < slabs.size[0] else np.inf


@njit(**EXACT)
def slab_at(starts: Floats, count: int, height: float) -> int:
    """The slab that a bound not below the first one lies in, of so many that start there."""
    low, high = 0, count - 1
    while low < high:
        middle = (low + high + 1) // 2
        low, high = (middle, high) if starts[middle] <= height else (low, middle - 1)
    return low


@njit(**EXACT)
def count_questions(better: Floats, apex: float, same: int, k: int, tally: NDArray[np.int64]) -> None:
    """Count what the sweep upwards asks: the nearest on both sides, each next object, that there is none."""
    tally[FIRSTK] += 2
    if same < k:
        tally[MIN] += np.sum(better[:, 1] > apex) + 1


@njit(**EXACT)
def outline(better: Floats, same: int, x: float, apex: float, k: int) -> Slabs:
    """The slabs of an object, from the objects that bound its polygon [Range App. D, Alg. 7]."""
    slabs, order = empty_slabs(16, k), np.argsort(better[:, 1], kind="mergesort")
    slabs.height[0], slabs.next[0], slabs.size[0] = apex, UNKNOWN, 1
    slabs.window[0, 0], slabs.window[0, 1] = -np.inf, np.inf
    slabs.stairs[0, LEFT], slabs.stairs[0, RIGHT], slabs.stairs[0, SAME] = 0, 0, min(same, k)
    height, stairs = apex, stairs_of(slabs, 0)
    for i in range(order.shape[0]):
        there, above = better[order[i], 0], better[order[i], 1]
        after, before = reach(stairs, x, k)
        if room_of(stairs, k) <= 0 or not after < there < before:
            continue
        if above > height:
            height = above
            slabs = part(slabs, slabs.size[0] - 1, height)
            stairs = stairs_of(slabs, slabs.size[0] - 1)
        expose(stairs, x, there)
    return slabs
