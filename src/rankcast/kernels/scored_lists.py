"""Intervals in lists whose stabbed entries come best first, under R-trees.

All scored interval indexes of [Ranked §2, §3] are lists of intervals and a way to choose lists for an event.
What an event meets in a list stands there in the order of (score, label). Over a list there may be a b-way
R-tree: the entries `first[l] ..` are grouped by b, the groups by b again, and each group has the extent of
what is below it. The paper's search, depth first and left child first, is then a walk along the list that
leaps over groups; `rankcast.kernels.threshold` merges such walks.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]
Longs = NDArray[np.int64]


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
