"""Boards: the lists of subscriptions as rows of k items, best first, then -1. No scores: objects have them.

`values[item]` is what the lists know of an item at the moment, so a board is in order by (value, label).
An exact tiling tells everybody who lists an item of its new value before anything is compared with it; so
one array of values serves all boards that hear the same tiles in the same order.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT

Boards = NDArray[np.int32]
Values = NDArray[np.float64]
Labels = NDArray[np.int64]

LEAVE, ENTER, UPDATE = range(3)


@njit(**EXACT)
def ahead(values: Values, labels: Labels, one: int, two: int) -> bool:
    """Whether item `one` ranks before item `two`."""
    first, second = values[one], values[two]
    return first < second or (first == second and labels[one] < labels[two])


@njit(**EXACT)
def _find(boards: Boards, at: int, item: int) -> int:
    """The place of an item in a board, or k."""
    k = boards.shape[1]
    for j in range(k):
        if boards[at, j] == item:
            return j
    return k


@njit(**EXACT)
def _fall(boards: Boards, at: int, j: int, values: Values, labels: Labels) -> None:
    """Move the item at place j behind everything that now ranks before it."""
    item, last = boards[at, j], boards.shape[1] - 1
    while j < last and boards[at, j + 1] >= 0 and ahead(values, labels, boards[at, j + 1], item):
        boards[at, j] = boards[at, j + 1]
        j += 1
    boards[at, j] = item


@njit(**EXACT)
def _rise(boards: Boards, at: int, j: int, item: int, values: Values, labels: Labels) -> None:
    """Put an item at place j or before, moving back what it passes; what stood at j is dropped."""
    while j > 0 and (boards[at, j - 1] < 0 or ahead(values, labels, item, boards[at, j - 1])):
        boards[at, j] = boards[at, j - 1]
        j -= 1
    boards[at, j] = item


@njit(**EXACT)
def take_out(boards: Boards, at: int, item: int) -> None:
    """A deleted item leaves a board, if it is there."""
    last = boards.shape[1] - 1
    j = _find(boards, at, item)
    if j <= last:
        while j < last:
            boards[at, j] = boards[at, j + 1]
            j += 1
        boards[at, last] = -1


@njit(**EXACT)
def receive(boards: Boards, at: int, item: int, values: Values, labels: Labels) -> None:
    """The receiver's protocol: an item in the list moves to its new place, another enters if good enough.

    `values` already holds the item's new value. O(k), no allocation [Range §II-A].
    """
    last = boards.shape[1] - 1
    j = _find(boards, at, item)
    if j > last:
        if boards[at, last] < 0 or ahead(values, labels, item, boards[at, last]):
            _rise(boards, at, last, item, values, labels)
    elif j > 0 and ahead(values, labels, item, boards[at, j - 1]):
        _rise(boards, at, j, item, values, labels)
    else:
        _fall(boards, at, j, values, labels)


@njit(**EXACT)
def write_leaves(old: Boards, i: int, new: Boards, at: int, items: NDArray[np.int32], size: int) -> int:
    """Append the items of an old board that the new one lacks; return the new size.

    Boards differ little: a place that does not match is first compared with the next one.
    """
    k, j = old.shape[1], 0
    for place in range(k):
        item = old[i, place]
        if item < 0:
            break
        if j < k and new[at, j] == item:
            j += 1
        elif j + 1 < k and new[at, j + 1] == item:
            j += 2
        elif _find(new, at, item) == k:
            items[size] = item
            size += 1
    return size


@njit(**EXACT)
def write_entries(
    old: Boards, i: int, new: Boards, at: int, moved: NDArray[np.bool_], items: NDArray[np.int32],
    marks: NDArray[np.int32], size: int,
) -> int:  # fmt: skip
    """Append items that entered (mark: rank) or have moved to another value (mark: -rank) by rank."""
    k, j = old.shape[1], 0
    for place in range(k):
        item = new[at, place]
        if item < 0:
            break
        kept = True
        if j < k and old[i, j] == item:
            j += 1
        elif j + 1 < k and old[i, j + 1] == item:
            j += 2
        else:
            kept = _find(old, i, item) < k
        if not kept or moved[item]:
            items[size] = item
            marks[size] = -(place + 1) if kept else place + 1
            size += 1
    return size
