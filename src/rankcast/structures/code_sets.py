"""Sets of small codes by row, as ranges, and whether one holds another.

The lists of all rows stand in `entries`: (list, left, low, high), where list 2a is what attribute a must be
in and 2a + 1 what it must not be in, and `left` counts the entries of the list from this one on. Those of row
i are `size[i]` entries from `first[i]` on, lists in order, the ranges of a list ascending with a gap between
them. A list without members has one entry that no code is in (NOBODY); one that is not given has none.

What a row accepts in an attribute: without either list everything, even what is unknown; without the first
all codes but some; else some codes but some, which may be none. There is no last code, so all but some is
never a part of some. What accepts nothing is a part of everything.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

LIST, LEFT, LOW, HIGH = range(4)
NOWHERE, NOBODY = -1, -2  # the code of a value that nothing names; one that no event has
KNOWN = float(2**31)  # above all codes
Longs = NDArray[np.int64]
Rows = NDArray[np.int32]
Floats = NDArray[np.float64]


class CodeSets(NamedTuple):
    """The lists of rows; of no row at all if `size` is empty."""

    first: Longs
    size: Rows
    entries: Rows


NO_SETS = CodeSets(np.empty(0, np.int64), np.empty(0, np.int32), np.empty((0, 4), np.int32))


@njit(**EXACT)
def _listed(sets: CodeSets, row: int, number: int) -> tuple[int, int]:
    """Where a list of a row begins and ends; equal if it is not given."""
    at = sets.first[row]
    end = at + sets.size[row]
    while at < end and sets.entries[at, LIST] < number:
        at += sets.entries[at, LEFT]
    if at == end or sets.entries[at, LIST] != number:
        return at, at
    return at, at + sets.entries[at, LEFT]


@njit(**EXACT)
def _reaching(entries: Rows, start: int, end: int, code: int) -> int:
    """The first range of a list that ends at a code or behind it, or `end`."""
    while start < end:
        middle = (start + end) // 2
        if entries[middle, HIGH] < code:
            start = middle + 1
        else:
            end = middle
    return start


@njit(**EXACT)
def _piece(entries: Rows, start: int, end: int, low: int, high: int) -> tuple[int, int]:
    """The first run of codes from low to high that no range of a list has; empty if its ends are crossed."""
    while low <= high:
        at = _reaching(entries, start, end, low)
        if at == end or entries[at, LOW] > high:
            break
        if entries[at, LOW] > low:
            return low, entries[at, LOW] - 1
        low = int(entries[at, HIGH]) + 1
    return low, high


@njit(**EXACT)
def _inside(entries: Rows, start: int, end: int, low: int, high: int) -> bool:
    """Whether a list has all codes from low to high."""
    at = _reaching(entries, start, end, low)
    return at < end and entries[at, LOW] <= low and entries[at, HIGH] >= high


@njit(**EXACT)
def _holds(outer: CodeSets, row: int, inner: CodeSets, place: int, attribute: int) -> bool:
    """Whether a row accepts in an attribute all that another accepts."""
    some, some_end = _listed(outer, row, 2 * attribute)
    but, but_end = _listed(outer, row, 2 * attribute + 1)
    mine, mine_end = _listed(inner, place, 2 * attribute)
    less, less_end = _listed(inner, place, 2 * attribute + 1)
    if some == some_end and but == but_end:
        return True
    if mine == mine_end:
        if less == less_end or some < some_end:
            return False
        for i in range(but, but_end):
            low, high = outer.entries[i, LOW], outer.entries[i, HIGH]
            if low != NOBODY and not _inside(inner.entries, less, less_end, low, high):
                return False
        return True
    for i in range(mine, mine_end):
        low, high = np.int64(inner.entries[i, LOW]), np.int64(inner.entries[i, HIGH])
        if low == NOBODY:
            continue
        while low <= high:
            low, last = _piece(inner.entries, less, less_end, low, high)
            if low > last:
                break
            if some < some_end and not _inside(outer.entries, some, some_end, low, last):
                return False
            at = _reaching(outer.entries, but, but_end, low)
            if at < but_end and outer.entries[at, LOW] <= last:
                return False
            low = last + 1
    return True


@njit(**EXACT)
def contain(outer: CodeSets, row: int, inner: CodeSets, place: int) -> bool:
    """Whether a row of `outer` accepts in all attributes what a row of `inner` accepts."""
    at = outer.first[row]
    end = at + outer.size[row]
    while at < end:
        attribute = outer.entries[at, LIST] // 2
        if not _holds(outer, row, inner, place, attribute):
            return False
        while at < end and outer.entries[at, LIST] // 2 == attribute:
            at += outer.entries[at, LEFT]
    return True


@njit(**EXACT)
def parts_of(outer: CodeSets, row: int, inner: CodeSets, place: int, attributes: int) -> NDArray[np.bool_]:
    """By attribute, whether a row of `outer` accepts what a row of `inner` accepts."""
    found = np.empty(attributes, np.bool_)
    for attribute in range(attributes):
        found[attribute] = _holds(outer, row, inner, place, attribute)
    return found


@njit(**EXACT)
def alike(one: CodeSets, rows: Rows, other: CodeSets) -> NDArray[np.bool_]:
    """Which rows accept the same as those of `other` at their places."""
    found = np.empty(rows.shape[0], np.bool_)
    for i in range(rows.shape[0]):
        found[i] = contain(one, rows[i], other, i) and contain(other, i, one, rows[i])
    return found


@njit(**EXACT)
def extents(sets: CodeSets, rows: Rows, attribute: int) -> tuple[Floats, Floats, Floats]:
    """By row the lowest and the highest code that it accepts in an attribute, and how many they are.

    All but some begin at -inf and end at KNOWN, everything ends at inf; what accepts nothing begins behind
    its end, so that it lies in every other. What is a part of another lies in its ends and has no more codes;
    if it has as many, it is the same.
    """
    low, high, count = np.empty(rows.shape[0]), np.empty(rows.shape[0]), np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        some, some_end = _listed(sets, rows[i], 2 * attribute)
        but, but_end = _listed(sets, rows[i], 2 * attribute + 1)
        low[i], high[i], count[i] = -np.inf, np.inf, np.inf
        if some == some_end and but < but_end:
            high[i], count[i] = KNOWN, 2.0 * KNOWN
            for at in range(but, but_end):
                if sets.entries[at, LOW] != NOBODY:
                    count[i] -= sets.entries[at, HIGH] - sets.entries[at, LOW] + 1.0
        elif some < some_end:
            low[i], high[i], count[i] = KNOWN, -KNOWN, 0.0
            for at in range(some, some_end):
                first, end = np.int64(sets.entries[at, LOW]), np.int64(sets.entries[at, HIGH])
                while first != NOBODY and first <= end:
                    first, last = _piece(sets.entries, but, but_end, first, end)
                    if first > last:
                        break
                    low[i], high[i] = min(low[i], first), max(high[i], last)
                    count[i] += last - first + 1.0
                    first = last + 1
    return low, high, count
