"""What turns some results into others: both as flat lists, told subscription by subscription.

Both are grouped by subscription, the groups in the order of registration. An item is looked up in the other
group through `spot`, which says where it was noted last: a place inside that group that holds the item proves
itself, so `spot` needs neither to be cleared nor to be set up.

Cost: O(entries), whatever the length of a list; `spot` is as long as the largest item needs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.board import ENTER, LEAVE, UPDATE
from rankcast.kernels.options import EXACT

Rows = NDArray[np.int32]


class Entries(NamedTuple):
    """Entries of results, one after the other."""

    subscription: Rows
    item: Rows
    score: NDArray[np.float64]
    rank: NDArray[np.int64]


class Told(NamedTuple):
    """Columns for changes: score NaN and rank 0 on a leave, the former score NaN on an enter."""

    subscription: Rows
    op: NDArray[np.int8]
    item: Rows
    score: NDArray[np.float64]
    rank: NDArray[np.int64]
    former: NDArray[np.float64]


@njit(**EXACT)
def in_order(subscription: Rows, place: NDArray[np.int64]) -> bool:
    """Whether groups stand in the order of registration."""
    for i in range(1, subscription.shape[0]):
        one, two = subscription[i - 1], subscription[i]
        if one != two and place[one] > place[two]:
            return False
    return True


@njit(**EXACT)
def _end_of(subscription: Rows, start: int, who: int) -> int:
    """Where the entries of a subscription end that would begin at `start`."""
    end = start
    while end < subscription.shape[0] and subscription[end] == who:
        end += 1
    return end


@njit(**EXACT)
def _find(items: Rows, start: int, end: int, spot: Rows, item: int) -> int:
    """The place of an item among the noted ones at start..end-1, or -1."""
    place = spot[item]
    return place if start <= place < end and items[place] == item else -1


@njit(**EXACT)
def write_difference(old: Entries, new: Entries, place: NDArray[np.int64], spot: Rows, told: Told) -> int:
    """Write the changes in the order of the contract; return how many. They are at most all entries.

    Each entry is written, and written over by the next if it is no change: a branch would often be
    mispredicted. So the columns of `told` have one place more.
    """
    mine, old_item, old_score, _ = old
    theirs, new_item, new_score, new_rank = new
    subscription, op, item, score, rank, former = told
    i, j, size = 0, 0, 0
    while i < mine.shape[0] or j < theirs.shape[0]:
        ahead = j < theirs.shape[0] and (i == mine.shape[0] or place[theirs[j]] < place[mine[i]])
        who = theirs[j] if ahead else mine[i]
        old_end, new_end = _end_of(mine, i, who), _end_of(theirs, j, who)
        for at in range(j, new_end):
            spot[new_item[at]] = at
        for at in range(i, old_end):
            subscription[size], op[size], item[size] = who, LEAVE, old_item[at]
            score[size], rank[size], former[size] = np.nan, 0, old_score[at]
            size += _find(new_item, j, new_end, spot, old_item[at]) < 0
        for at in range(i, old_end):
            spot[old_item[at]] = at
        for at in range(j, new_end):
            was = _find(old_item, i, old_end, spot, new_item[at])
            before = np.nan if was < 0 else old_score[was]
            subscription[size], op[size], item[size] = who, ENTER if was < 0 else UPDATE, new_item[at]
            score[size], rank[size], former[size] = new_score[at], new_rank[at], before
            size += before != new_score[at]
        i, j = old_end, new_end
    return size
