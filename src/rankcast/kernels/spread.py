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
    rank: NDArray[np.int64]


@njit(**EXACT)
def _lay_out(group: NDArray[np.int32], place: NDArray[np.int64], span: int) -> NDArray[np.int32]:
    """The groups by ascending place, all below `span`, with empty ones between. O(groups + span)."""
    ordered = np.zeros((span, 3), np.int32)
    for g in range(group.shape[0]):
        at = place[group[g, 0]]
        ordered[at, 0], ordered[at, 1], ordered[at, 2] = group[g, 0], group[g, 1], group[g, 2]
    return ordered


@njit(**EXACT)
def in_order(changes: Changes, place: NDArray[np.int64], span: int) -> NDArray[np.int32]:
    """The groups in the order of registration."""
    group = changes.group[: changes.tally[GROUPS]]
    if FEW * group.shape[0] > span:
        return _lay_out(group, place, span)
    return group[np.argsort(place[group[:, 0]])]


@njit(**EXACT)
def count_rows(changes: Changes) -> int:
    """How many delta rows the groups make."""
    group, total = changes.group, 0
    for g in range(changes.tally[GROUPS]):
        total += group[g, 2] - group[g, 1]
    return total


@njit(**EXACT)
def spread(changes: Changes, ordered: NDArray[np.int32], y: NDArray[np.float64], deltas: Deltas) -> None:
    """Write the rows of all groups, in the given order, into columns of the right length.

    Indexes are unsigned, or Numba would ask each whether it counts from the end.
    """
    items, marks, size = changes.item, changes.mark, np.uint64(0)
    subscription, op, item, score, rank = (
        deltas.subscription,
        deltas.op,
        deltas.item,
        deltas.score,
        deltas.rank,
    )
    for g in range(ordered.shape[0]):
        row = ordered[g, 0]
        for change in range(np.uint32(ordered[g, 1]), np.uint32(ordered[g, 2])):
            mark, which = marks[change], items[change]
            subscription[size], item[size], rank[size] = row, which, abs(mark)
            op[size] = LEAVE if mark == 0 else ENTER if mark > 0 else UPDATE
            score[size] = np.nan if mark == 0 else y[np.uint32(which)]
            size += np.uint64(1)
