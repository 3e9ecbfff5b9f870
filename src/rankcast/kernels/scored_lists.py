"""Intervals in lists whose stabbed entries come best first, and cursors over several such lists.

All scored interval indexes of [Ranked §2, §3] are lists of intervals and a way to choose lists for an event.
What an event meets in a list stands there in the order of (score, label). Over a list there may be a b-way
R-tree: the entries `first[l] ..` are grouped by b, the groups by b again, and each group has the extent of
what is below it. `following` is then the paper's depth-first search, left child first, resumed at a place.

A cursor of one dimension merges the lists of an event, and the list of rows that came later (`fresh`), by
their heads. `home[row]` says which of the two holds a row: an entry of the other one is passed over, so that
a removal is one write.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT
from rankcast.kernels.scored_heap import better

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]
Longs = NDArray[np.int64]
ABSENT, PACKED, FRESH = range(3)


class Lists(NamedTuple):
    """Lists one after the other: list l has the entries first[l] to first[l + 1] - 1.

    `lo` and `hi` are empty where everything in a list is met (segment tree). Level h of the R-tree of list l
    has its extents from `group[l, h]` on; -1 where there is none.
    """

    first: Longs
    row: Rows
    key: Floats
    lo: Floats
    hi: Floats
    group: Longs
    extent_lo: Floats
    extent_hi: Floats


class Cursors(NamedTuple):
    """For each dimension the lists it merges (~j: the fresh list j), their places, and counts."""

    list_of: NDArray[np.int64]
    place: NDArray[np.int64]
    size: NDArray[np.int64]
    looked: NDArray[np.int64]


@njit(**EXACT)
def levels(longest: int, branching: int) -> int:
    """How many levels the R-tree of a list has above its entries."""
    count = 0
    while longest > 1:
        longest, count = (longest + branching - 1) // branching, count + 1
    return count


@njit(**EXACT)
def group_lists(first: Longs, lo: Floats, hi: Floats, branching: int) -> tuple[Longs, Floats, Floats]:
    """The R-trees over all lists. O(entries); they take 1 / (b - 1) of the entries, and one a list."""
    longest, total = 0, 0
    for each in range(first.shape[0] - 1):
        longest = max(longest, first[each + 1] - first[each])
    group = np.full((first.shape[0] - 1, levels(longest, branching)), -1, np.int64)
    for each in range(group.shape[0]):
        size = first[each + 1] - first[each]
        for h in range(group.shape[1]):
            if size > 1:
                size = (size + branching - 1) // branching
                group[each, h], total = total, total + size
    extent_lo, extent_hi = np.full(total, np.inf), np.full(total, -np.inf)
    for each in range(group.shape[0]):
        for i in range(first[each + 1] - first[each]):
            at, entry = i, first[each] + i
            for h in range(group.shape[1]):
                if group[each, h] < 0:
                    break
                at //= branching
                node = group[each, h] + at
                extent_lo[node] = min(extent_lo[node], lo[entry])
                extent_hi[node] = max(extent_hi[node], hi[entry])
    return group, extent_lo, extent_hi


@njit(**EXACT)
def following(
    lists: Lists, each: int, place: int, below: float, above: float, branching: int, looked: Longs
) -> int:
    """The first entry from `place` on that the event meets, or the end of the list."""
    start, end = lists.first[each], lists.first[each + 1]
    if lists.lo.shape[0] == 0:
        return place
    i = place - start
    while start + i < end:
        height, width = 0, 1
        while (
            height < lists.group.shape[1] and lists.group[each, height] >= 0 and i % (width * branching) == 0
        ):
            height, width = height + 1, width * branching
        skipped = False
        while height > 0 and not skipped:
            node = lists.group[each, height - 1] + i // width
            looked[0] += 1
            if lists.extent_lo[node] <= below and lists.extent_hi[node] >= above:
                height, width = height - 1, width // branching
            else:
                i, skipped = i + width, True
        if skipped:
            continue
        looked[0] += 1
        if lists.lo[start + i] <= below and lists.hi[start + i] >= above:
            return start + i
        i += 1
    return end


@njit(**EXACT)
def _settle(
    lists: Lists, fresh: Lists, home: NDArray[np.int8], cursors: Cursors, j: int, s: int,
    span: tuple[float, float, int],
) -> bool:  # fmt: skip
    """Move list s of cursor j on to an entry that is met and live; whether there is one."""
    each = cursors.list_of[j, s]
    below, above, branching = span
    mine = lists if each >= 0 else fresh
    wanted, each = (PACKED, each) if each >= 0 else (FRESH, -1 - each)
    place = cursors.place[j, s]
    while True:
        place = following(mine, each, place, below, above, branching, cursors.looked)
        if place >= mine.first[each + 1]:
            return False
        if home[mine.row[place]] == wanted:
            cursors.place[j, s] = place
            return True
        place += 1


@njit(**EXACT)
def open_cursor(
    lists: Lists,
    fresh: Lists,
    home: NDArray[np.int8],
    cursors: Cursors,
    j: int,
    span: tuple[float, float, int],
) -> None:
    """Begin to merge the lists that stand in list_of[j]."""
    s = 0
    while s < cursors.size[j]:
        each = cursors.list_of[j, s]
        cursors.place[j, s] = lists.first[each] if each >= 0 else fresh.first[-1 - each]
        if _settle(lists, fresh, home, cursors, j, s, span):
            s += 1
        else:
            cursors.size[j] -= 1
            cursors.list_of[j, s] = cursors.list_of[j, cursors.size[j]]


@njit(**EXACT)
def head(lists: Lists, fresh: Lists, label: Longs, cursors: Cursors, j: int) -> tuple[int, float, int]:
    """The best entry that cursor j is at: its list's slot (-1: none left), its key and its row."""
    found, key, row = -1, -np.inf, -1
    for s in range(cursors.size[j]):
        place = cursors.place[j, s]
        mine = lists if cursors.list_of[j, s] >= 0 else fresh
        if found < 0 or better(label, mine.key[place], mine.row[place], key, row):
            found, key, row = s, mine.key[place], mine.row[place]
    return found, key, row


@njit(**EXACT)
def advance(
    lists: Lists, fresh: Lists, home: NDArray[np.int8], cursors: Cursors, j: int, s: int,
    span: tuple[float, float, int],
) -> None:  # fmt: skip
    """Leave the head of list s of cursor j."""
    cursors.place[j, s] += 1
    if not _settle(lists, fresh, home, cursors, j, s, span):
        cursors.size[j] -= 1
        last = cursors.size[j]
        cursors.list_of[j, s], cursors.place[j, s] = cursors.list_of[j, last], cursors.place[j, last]
