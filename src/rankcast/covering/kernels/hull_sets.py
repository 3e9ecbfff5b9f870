"""How many codes two sets have in common: what merging boxes with categories goes by.

Sets are those of `rankcast.structures.code_sets`. Cost: O(m log n) for lists of m and n ranges.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.structures.code_sets import (
    HIGH,
    KNOWN,
    LOW,
    NOBODY,
    CodeSets,
    Floats,
    Longs,
    Rows,
    _listed,
    _piece,
    _reaching,
)
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def _overlap(entries: Rows, start: int, end: int, low: int, high: int) -> int:
    """How many codes from low to high a list has."""
    total = 0
    for i in range(_reaching(entries, start, end, low), end):
        if entries[i, LOW] > high:
            break
        total += min(high, int(entries[i, HIGH])) - max(low, int(entries[i, LOW])) + 1
    return total


@njit(**EXACT)
def _number(sets: CodeSets, row: int, attribute: int, low: int, high: int) -> int:
    """How many codes from low to high a row accepts in an attribute."""
    some, some_end = _listed(sets, row, 2 * attribute)
    but, but_end = _listed(sets, row, 2 * attribute + 1)
    if some == some_end:
        return high - low + 1 - _overlap(sets.entries, but, but_end, low, high)
    total = 0
    for i in range(some, some_end):
        first, last = max(low, int(sets.entries[i, LOW])), min(high, int(sets.entries[i, HIGH]))
        if first <= last:
            total += last - first + 1 - _overlap(sets.entries, but, but_end, first, last)
    return total


@njit(**EXACT)
def _number_of(inner: CodeSets, place: int, outer: CodeSets, row: int, attribute: int) -> int:
    """How many codes of a row of `inner` that names what it accepts a row of `outer` accepts, too."""
    some, some_end = _listed(inner, place, 2 * attribute)
    but, but_end = _listed(inner, place, 2 * attribute + 1)
    total = 0
    for i in range(some, some_end):
        low, high = int(inner.entries[i, LOW]), int(inner.entries[i, HIGH])
        while low != NOBODY and low <= high:
            low, last = _piece(inner.entries, but, but_end, low, high)
            if low > last:
                break
            total += _number(outer, row, attribute, low, last)
            low = last + 1
    return total


@njit(**EXACT)
def common(sets: CodeSets, rows: Longs, other: CodeSets, attributes: int) -> Floats:
    """How many codes each row and the first row of `other` both accept, by attribute, as `extents` counts.

    What both accept if neither names anything, the unknown among it, is one more than all codes.
    """
    found = np.empty((rows.shape[0], attributes))
    for a in range(attributes):
        mine, mine_end = _listed(other, 0, 2 * a)
        less, less_end = _listed(other, 0, 2 * a + 1)
        for i in range(rows.shape[0]):
            some, some_end = _listed(sets, rows[i], 2 * a)
            but, but_end = _listed(sets, rows[i], 2 * a + 1)
            if mine < mine_end:
                found[i, a] = _number_of(other, 0, sets, rows[i], a)
            elif some < some_end:
                found[i, a] = _number_of(sets, rows[i], other, 0, a)
            elif less == less_end and but == but_end:
                found[i, a] = 2.0 * KNOWN + 1.0
            else:
                without = 0
                for at in range(less, less_end):
                    if other.entries[at, LOW] != NOBODY:
                        low, high = int(other.entries[at, LOW]), int(other.entries[at, HIGH])
                        without += high - low + 1 - _overlap(sets.entries, but, but_end, low, high)
                for at in range(but, but_end):
                    if sets.entries[at, LOW] != NOBODY:
                        without += int(sets.entries[at, HIGH]) - int(sets.entries[at, LOW]) + 1
                found[i, a] = 2.0 * KNOWN - without
    return found
