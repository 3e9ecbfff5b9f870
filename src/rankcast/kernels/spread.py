"""From shared net changes to delta rows: one row a change and subscription, in the order of registration.

`place[row]` is the position of a subscription in that order; positions need not be dense. Many groups are
put in order by laying them out over the positions, few by sorting, so that a small batch does not pay for
all subscriptions. Rows are then written one after the other, which is what large outputs cost least with.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.board import ENTER, LEAVE, UPDATE
from rankcast.kernels.changes import GROUPS, Changes
from rankcast.kernels.options import EXACT

FEW = 32


class Deltas(NamedTuple):
    """Delta rows: subscription and item as rows; score NaN and rank 0 on a leave."""

    subscription: NDArray[np.int32]
    op: NDArray[np.int8]
    item: NDArray[np.int32]
    score: NDArray[np.float64]
    rank: NDArray[np.int32]


@njit(**EXACT)
def _lay_out(row: NDArray[np.int32], groups: int, place: NDArray[np.int64], span: int) -> NDArray[np.int32]:
    """The groups by ascending place, all below `span`. O(groups + span)."""
    at, ordered, size = np.full(span, -1, np.int32), np.empty(groups, np.int32), 0
    for g in range(groups):
        at[place[row[g]]] = g
    for position in range(span):
        if at[position] >= 0:
            ordered[size] = at[position]
            size += 1
    return ordered


@njit(**EXACT)
def in_order(changes: Changes, place: NDArray[np.int64], span: int) -> NDArray[np.int32]:
    """The groups in the order of registration."""
    groups = changes.tally[GROUPS]
    if FEW * groups > span:
        return _lay_out(changes.row, groups, place, span)
    return np.argsort(place[changes.row[:groups]]).astype(np.int32)


@njit(**EXACT)
def count_rows(changes: Changes) -> int:
    """How many delta rows the groups make."""
    start, stop, total = changes.start, changes.stop, 0
    for g in range(changes.tally[GROUPS]):
        total += stop[g] - start[g]
    return total


@njit(**EXACT)
def spread(changes: Changes, ordered: NDArray[np.int32], y: NDArray[np.float64], deltas: Deltas) -> None:
    """Write the rows of all groups, in the given order, into columns of the right length."""
    row, start, stop, items, marks = changes.row, changes.start, changes.stop, changes.item, changes.mark
    subscription, op, item, score, rank = (
        deltas.subscription,
        deltas.op,
        deltas.item,
        deltas.score,
        deltas.rank,
    )
    size = 0
    for i in range(ordered.shape[0]):
        g = ordered[i]
        for change in range(start[g], stop[g]):
            mark, which = marks[change], items[change]
            subscription[size], item[size], rank[size] = row[g], which, abs(mark)
            op[size] = LEAVE if mark == 0 else ENTER if mark > 0 else UPDATE
            score[size] = np.nan if mark == 0 else y[which]
            size += 1
