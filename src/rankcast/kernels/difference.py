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
Span = tuple[int, int]


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
def _span(subscription: Rows, start: int, who: int) -> Span:
    """From where to where the entries of a subscription stand that would begin at `start`."""
    end = start
    while end < subscription.shape[0] and subscription[end] == who:
        end += 1
    return start, end


@njit(**EXACT)
def _note(items: Rows, span: Span, spot: Rows) -> None:
    for place in range(span[0], span[1]):
        spot[items[place]] = place


@njit(**EXACT)
def _find(items: Rows, span: Span, spot: Rows, item: int) -> int:
    """The place of an item among the noted ones, or -1."""
    place = spot[item]
    return place if span[0] <= place < span[1] and items[place] == item else -1


@njit(**EXACT)
def _write_leaves(
    old: Entries, span: Span, new: Entries, other: Span, spot: Rows, told: Told, size: int
) -> int:
    """Append the old entries whose item is not among the new ones; return the new size."""
    subscription, op, item, score, rank, former = told
    _note(new.item, other, spot)
    for i in range(span[0], span[1]):
        if _find(new.item, other, spot, old.item[i]) < 0:
            subscription[size], op[size], item[size] = old.subscription[i], LEAVE, old.item[i]
            score[size], rank[size], former[size] = np.nan, 0, old.score[i]
            size += 1
    return size


@njit(**EXACT)
def _write_entries(
    old: Entries, span: Span, new: Entries, other: Span, spot: Rows, told: Told, size: int
) -> int:
    """Append the new entries whose item or score is not among the old ones; return the new size."""
    subscription, op, item, score, rank, former = told
    _note(old.item, span, spot)
    for j in range(other[0], other[1]):
        i = _find(old.item, span, spot, new.item[j])
        if i < 0 or old.score[i] != new.score[j]:
            subscription[size], item[size] = new.subscription[j], new.item[j]
            score[size], rank[size] = new.score[j], new.rank[j]
            op[size], former[size] = (ENTER, np.nan) if i < 0 else (UPDATE, old.score[i])
            size += 1
    return size


@njit(**EXACT)
def write_difference(old: Entries, new: Entries, place: NDArray[np.int64], spot: Rows, told: Told) -> int:
    """Write the changes in the order of the contract; return how many. They are at most all entries."""
    i, j, size = 0, 0, 0
    mine, theirs = old.subscription, new.subscription
    while i < mine.shape[0] or j < theirs.shape[0]:
        ahead = j < theirs.shape[0] and (i == mine.shape[0] or place[theirs[j]] < place[mine[i]])
        who = theirs[j] if ahead else mine[i]
        span, other = _span(mine, i, who), _span(theirs, j, who)
        size = _write_leaves(old, span, new, other, spot, told, size)
        size = _write_entries(old, span, new, other, spot, told, size)
        i, j = span[1], other[1]
    return size
