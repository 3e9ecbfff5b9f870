"""Rows that have covered others lately, looked at before anything else.

Bucket HOT of an index belongs to no leaf: it names up to 64 of its rows, with their coordinates in `hot`, and
a search for one row that covers looks there first. Where most boxes lie in a few large ones that is all it
does. Slots that were hit less make place for new ones.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels.codes import Words
from rankcast.covering.kernels.containment import (
    BUCKET,
    FORWARDED,
    GENERATION,
    HAND,
    HITS,
    HOT,
    NO_ROW,
    SIZE,
    TRIED,
    Bools,
    IndexArrays,
    Query,
    Scratch,
    Subscriptions,
    coordinate,
    may_cover,
    slot_in,
)
from rankcast.structures.code_sets import contain
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def _containing_slots(hot: NDArray[np.float64], point: NDArray[np.float64], passed: Words) -> bool:
    """Set passed[slot] to 1 where the point of HOT dominates, else to 0; return whether any does."""
    one, none = np.uint64(1), np.uint64(0)
    passed[:] = one
    dimension, some = 0, one
    while some != none and dimension < point.shape[0]:
        low, high, some = point[dimension], point[dimension + 1], none
        for slot in range(BUCKET):
            inside = (hot[dimension, slot] >= low) & (hot[dimension + 1, slot] >= high)
            passes = passed[slot] if inside else none
            passed[slot] = passes
            some += passes
        dimension += 2
    return some != none


@njit(**EXACT)
def hot_container(
    hot: NDArray[np.float64],
    held: NDArray[np.int32],
    meta: NDArray[np.int64],
    status: NDArray[np.int8],
    point: NDArray[np.float64],
    passed: Words,
) -> int:
    """A forwarded row of HOT whose box contains that of a point, or NO_ROW; for rows that are not in.

    Takes arrays, not tuples of them: it is all that most new rows need, and must not cost a hundred words.
    """
    if _containing_slots(hot, point, passed):
        for slot in range(BUCKET):
            if passed[slot] != np.uint64(0) and status[held[HOT, slot]] == FORWARDED:
                meta[HITS + slot] += 1
                return int(held[HOT, slot])
    return NO_ROW


@njit(**EXACT)
def find_hot(index: IndexArrays, subs: Subscriptions, query: Query, scratch: Scratch) -> int:
    """A row of HOT that covers the query's box; NO_ROW if there is none."""
    if _containing_slots(index.hot, scratch.point, scratch.passed):
        for slot in range(BUCKET):
            if scratch.passed[slot] == np.uint64(0):
                continue
            row = index.row[HOT, slot]
            met = may_cover(subs.lo, subs.hi, subs.status, subs.sequence, row, query.own)
            if met and (subs.sets.size.size == 0 or contain(subs.sets, row, query.box.sets, query.place)):
                index.meta[HITS + slot] += 1
                return row
    return NO_ROW


@njit(**EXACT)
def warm_up(index: IndexArrays, subs: Subscriptions, row: int) -> None:
    """Let a row that has covered another into HOT, in place of one that was not hit since it was looked at.

    Looks at a few slots only and halves their hits, so that what covers no longer goes in the end.
    """
    slot = index.row[HOT, SIZE]
    if slot == BUCKET:
        for _ in range(TRIED):
            slot = index.meta[HAND]
            index.meta[HAND] = (slot + 1) % BUCKET
            index.meta[HITS + slot] //= 2
            if index.meta[HITS + slot] == 0:
                break
        if index.meta[HITS + slot] > 0:
            return
    else:
        index.row[HOT, SIZE] += 1
    index.row[HOT, slot], index.meta[HITS + slot] = row, 1
    for dimension in range(index.hot.shape[0]):
        index.hot[dimension, slot] = coordinate(subs.lo, subs.hi, row, dimension)


@njit(**EXACT)
def cool_down(index: IndexArrays, row: int) -> None:
    """Take a row out of HOT, if it is there."""
    slot, last = slot_in(index, HOT, row), index.row[HOT, SIZE] - 1
    if slot < 0:
        return
    index.row[HOT, slot], index.row[HOT, SIZE] = index.row[HOT, last], last
    index.meta[HITS + slot] = index.meta[HITS + last]
    for dimension in range(index.hot.shape[0]):
        index.hot[dimension, slot] = index.hot[dimension, last]
        index.hot[dimension, last] = np.nan


@njit(**EXACT)
def hot_fits(index: IndexArrays, subs: Subscriptions, wanted: Bools) -> bool:
    """Whether HOT names wanted rows, each once, with their coordinates."""
    size, seen = np.int64(index.row[HOT, SIZE]), np.zeros(wanted.size, np.bool_)
    if not (0 <= size <= BUCKET and 0 <= index.meta[HAND] < BUCKET and 0 <= index.meta[GENERATION] <= 1):
        return False
    for slot in range(BUCKET):
        if slot >= size:
            if not np.isnan(index.hot[:, slot]).all():
                return False
            continue
        row = np.int64(index.row[HOT, slot])
        if row < 0 or row >= wanted.size or not wanted[row] or seen[row] or index.meta[HITS + slot] < 0:
            return False
        seen[row] = True
        for dimension in range(index.hot.shape[0]):
            if index.hot[dimension, slot] != coordinate(subs.lo, subs.hi, row, dimension):
                return False
    return True
