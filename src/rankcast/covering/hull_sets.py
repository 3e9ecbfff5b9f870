"""What merged boxes accept of categories: `HullSets`, sets of codes by the row that leads a group.

A hull accepts in every category what any of its boxes accepts, and no more than lists of names cannot leave
out: of a hierarchy, a category between two that are accepted, one above and one below it. What is accepted
stands as in `structures.code_sets`; of a group of one as the row itself says it.

Sets count by their codes: a list those it names, all but some as many as codes may be, less some, everything
one more. So two sets have a size, and a size in common, as two intervals have lengths.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from rankcast.covering.kernels import hull_sets as kernels
from rankcast.structures.arrays import grown
from rankcast.structures.code_sets import HIGH, KNOWN, LIST, LOW, NOBODY, CodeSets, extents
from rankcast.tables.boxes import Hierarchy
from rankcast.tables.schema import Floats, Ints, Rows

FEW = 64
FIRST = np.zeros(1, np.int32)
EVERYTHING = 2.0 * KNOWN + 1.0
Ranges = list[tuple[int, int]]  # ascending, with a gap between them


class Accepted(NamedTuple):
    """What is accepted in an attribute: the codes in some ranges, or all others."""

    others: bool
    ranges: Ranges


class HullSets:
    """The sets of hulls, as many categories as there are hierarchies, None for one that has none.

    - Changing: `put`.
    - Asking: `of`, `arrays`; `joined`, `ends` and `common` are about entries of one row.
    """

    def __init__(self, hierarchies: Sequence[Hierarchy | None]) -> None:
        self._last = [None if each is None else each.ends() for each in hierarchies]
        self._first, self._size = np.zeros(0, np.int64), np.zeros(0, np.int32)
        self._entries = np.zeros((0, 4), np.int32)
        self._used = self._live = 0

    def __len__(self) -> int:
        return len(self._last)

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`."""
        if rows > self._size.size:
            self._first, self._size = grown(self._first, rows), grown(self._size, rows)

    def put(self, row: int, entries: Rows) -> None:
        """Let a row have these entries."""
        if self._used > 2 * self._live + FEW:
            self._compact()
        used = self._used + len(entries)
        if used > len(self._entries):
            self._entries = grown(self._entries, 2 * used + FEW)
        self._entries[self._used : used] = entries
        self._live += len(entries) - int(self._size[row])
        self._first[row], self._size[row], self._used = self._used, len(entries), used

    def of(self, row: int) -> Rows:
        """The entries of a row."""
        first = int(self._first[row])
        return self._entries[first : first + int(self._size[row])]

    def arrays(self) -> CodeSets:
        """The sets by row."""
        return CodeSets(self._first, self._size, self._entries)

    def joined(self, one: Rows, other: Rows) -> Rows:
        """What accepts all that two rows accept."""
        lines: list[tuple[int, int, int, int]] = []
        for a, last in enumerate(self._last):
            found = _united(_accepted(one, a), _accepted(other, a))
            if found is None:
                continue
            lists = (None, _named(found.ranges, last)) if found.others else _listed(found.ranges, last)
            for number, ranges in zip((2 * a, 2 * a + 1), lists, strict=True):
                told = ranges if ranges or ranges is None else [(NOBODY, NOBODY)]
                left = len(told or ())
                lines += [(number, left - at, *each) for at, each in enumerate(told or ())]
        return np.array(lines, np.int32).reshape(-1, 4)

    def ends(self, entries: Rows) -> tuple[Floats, Floats, Floats]:
        """By category the lowest and the highest code that is accepted, and how many they are."""
        found = [extents(_alone(entries), FIRST, a) for a in range(len(self))]
        low, high, count = np.array(found).reshape(-1, 3).T
        return low, high, count

    def common(self, rows: Ints, entries: Rows) -> Floats:
        """How many codes rows have in common with one, (n, c)."""
        found: Floats = kernels.common(self.arrays(), rows, _alone(entries), len(self))
        return found

    def _compact(self) -> None:
        """Leave out entries that no row has."""
        rows = np.flatnonzero(self._size).tolist()
        held = [self.of(row).copy() for row in rows]
        self._used = 0
        for row, each in zip(rows, held, strict=True):
            self._entries[self._used : self._used + len(each)] = each
            self._first[row], self._used = self._used, self._used + len(each)


def entries_of(sets: CodeSets, row: int) -> Rows:
    """The entries of a row."""
    first = int(sets.first[row])
    return sets.entries[first : first + int(sets.size[row])].copy()


def common_codes(one: Rows, other: Rows, attributes: int) -> Floats:
    """By category how many codes the entries of two rows both accept."""
    found: Floats = kernels.common(_alone(one), np.zeros(1, np.int64), _alone(other), attributes)[0]
    return found


def _alone(entries: Rows) -> CodeSets:
    """The sets of one row."""
    return CodeSets(np.zeros(1, np.int64), np.array([len(entries)], np.int32), entries)


def _accepted(entries: Rows, attribute: int) -> Accepted | None:
    """What a row accepts in an attribute; None for everything."""
    some, but = (entries[entries[:, LIST] == 2 * attribute + word] for word in (0, 1))
    ranges = [
        [(low, high) for low, high in each[:, [LOW, HIGH]].tolist() if low != NOBODY] for each in (some, but)
    ]
    if not len(some):
        return Accepted(others=True, ranges=ranges[1]) if len(but) else None
    return Accepted(others=False, ranges=_less(*ranges))


def _united(one: Accepted | None, other: Accepted | None) -> Accepted | None:
    if one is None or other is None:
        return None
    if one.others and other.others:
        return Accepted(others=True, ranges=_less(one.ranges, _less(one.ranges, other.ranges)))
    if one.others:
        return Accepted(others=True, ranges=_less(one.ranges, other.ranges))
    if other.others:
        return Accepted(others=True, ranges=_less(other.ranges, one.ranges))
    return Accepted(others=False, ranges=_together(one.ranges + other.ranges))


def _less(some: Ranges, but: Ranges) -> Ranges:
    """The codes of some ranges that are in none of others."""
    found, at = [], 0
    for low, high in some:
        while at < len(but) and but[at][1] < low:
            at += 1
        start, place = low, at
        while place < len(but) and but[place][0] <= high:
            if but[place][0] > start:
                found.append((start, but[place][0] - 1))
            start, place = but[place][1] + 1, place + 1
        if start <= high:
            found.append((start, high))
    return found


def _together(ranges: Ranges) -> Ranges:
    """The codes of some ranges that may overlap."""
    found: Ranges = []
    for low, high in sorted(ranges):
        if found and low <= found[-1][1] + 1:
            found[-1] = found[-1][0], max(high, found[-1][1])
        else:
            found.append((low, high))
    return found


def _listed(ranges: Ranges, last: Ints | None) -> tuple[Ranges, Ranges | None]:
    """Lists of what must be in, and must not be in, that accept these codes; `last` ends each category."""
    if last is None:
        return ranges, None
    some = _together([(low, max(high, int(last[low : high + 1].max()))) for low, high in ranges])
    return some, _named(_less(some, ranges), last) or None


def _named(ranges: Ranges, last: Ints | None) -> Ranges:
    """The categories that lie in some ranges whole."""
    if last is None:
        return ranges
    found: Ranges = []
    for low, high in ranges:
        code = low
        while code <= high:
            end = int(last[code])
            if end <= high:
                found.append((code, end))
                code = end
            code += 1
    return _together(found)
