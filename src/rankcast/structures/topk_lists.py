"""Boards: the lists of subscriptions as rows of k items, best first, then -1; and their net changes.

A board has no scores, objects have them: `values[item]` is the value by which lists order an item at the
moment, so a board is in order by (value, label). Exact tiles bring an item's new value to everybody who lists
it before anything is compared with it; so one array of values serves all boards that hear the same tiles in
the same order.

Kernels write net changes that subscriptions with equal lists share. `spread` turns them into delta rows, one
a change and subscription, in the order of registration: `place[row]` is the position of a subscription in
that order; positions need not be dense. Many groups are put in order by laying them out over the positions,
few by sorting, so that a small batch does not pay for all subscriptions. Rows are then written one after the
other, which is the cheapest way to write large outputs.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Boards = NDArray[np.int32]
ItemValues = NDArray[np.float64]
Labels = NDArray[np.int64]

LEAVE, ENTER, UPDATE = range(3)


@njit(**EXACT)
def ahead(values: ItemValues, labels: Labels, one: int, two: int) -> bool:
    """Whether item `one` ranks before item `two`."""
    first, second = values[one], values[two]
    return first < second or (first == second and labels[one] < labels[two])


@njit(**EXACT)
def _find(boards: Boards, at: int, item: int) -> int:
    """The place of an item in a board, or k."""
    k = boards.shape[1]
    for j in range(k):
        if boards[at, j] == item:
            return j
    return k


@njit(**EXACT)
def _fall(boards: Boards, at: int, j: int, values: ItemValues, labels: Labels) -> None:
    """Move the item at place j behind everything that now ranks before it."""
    item, last = boards[at, j], boards.shape[1] - 1
    while j < last and boards[at, j + 1] >= 0 and ahead(values, labels, boards[at, j + 1], item):
        boards[at, j] = boards[at, j + 1]
        j += 1
    boards[at, j] = item


@njit(**EXACT)
def _rise(boards: Boards, at: int, j: int, item: int, values: ItemValues, labels: Labels) -> None:
    """Put an item at place j or before, moving back what it passes; what stood at j is dropped."""
    while j > 0 and (boards[at, j - 1] < 0 or ahead(values, labels, item, boards[at, j - 1])):
        boards[at, j] = boards[at, j - 1]
        j -= 1
    boards[at, j] = item


@njit(**EXACT)
def take_out(boards: Boards, at: int, item: int) -> None:
    """A deleted item leaves a board, if it is there."""
    last = boards.shape[1] - 1
    j = _find(boards, at, item)
    if j <= last:
        while j < last:
            boards[at, j] = boards[at, j + 1]
            j += 1
        boards[at, last] = -1


@njit(**EXACT)
def receive(boards: Boards, at: int, item: int, values: ItemValues, labels: Labels) -> None:
    """The receiver's protocol: an item in the list moves to its new place, another enters if good enough.

    `values` already holds the item's new value. O(k), no allocation [Range §II-A].
    """
    last = boards.shape[1] - 1
    j = _find(boards, at, item)
    if j > last:
        if boards[at, last] < 0 or ahead(values, labels, item, boards[at, last]):
            _rise(boards, at, last, item, values, labels)
    elif j > 0 and ahead(values, labels, item, boards[at, j - 1]):
        _rise(boards, at, j, item, values, labels)
    else:
        _fall(boards, at, j, values, labels)


@njit(**EXACT)
def write_leaves(old: Boards, i: int, new: Boards, at: int, items: NDArray[np.int32], size: int) -> int:
    """Append the items of an old board that the new one lacks; return the new size.

    Boards differ little: a place that does not match is first compared with the next one.
    """
    k, j = old.shape[1], 0
    for place in range(k):
        item = old[i, place]
        if item < 0:
            break
        if j < k and new[at, j] == item:
            j += 1
        elif j + 1 < k and new[at, j + 1] == item:
            j += 2
        elif _find(new, at, item) == k:
            items[size] = item
            size += 1
    return size


@njit(**EXACT)
def write_entries(
    old: Boards, i: int, new: Boards, at: int, moved: NDArray[np.bool_], items: NDArray[np.int32],
    marks: NDArray[np.int32], size: int,
) -> int:  # fmt: skip
    """Append items that entered (mark: rank) or have moved to another value (mark: -rank) by rank."""
    k, j = old.shape[1], 0
    for place in range(k):
        item = new[at, place]
        if item < 0:
            break
        kept = True
        if j < k and old[i, j] == item:
            j += 1
        elif j + 1 < k and old[i, j + 1] == item:
            j += 2
        else:
            kept = _find(old, i, item) < k
        if not kept or moved[item]:
            items[size] = item
            marks[size] = -(place + 1) if kept else place + 1
            size += 1
    return size


GROUPS, DELTAS, AFFECTED, TRIED = range(4)


class ListValues(NamedTuple):
    """What lists know of the objects: values before the batch, a working copy, changed or not, tie labels."""

    before: NDArray[np.float64]
    known: NDArray[np.float64]
    moved: NDArray[np.bool_]
    label: NDArray[np.int64]


class BoardChanges(NamedTuple):
    """Net changes by subscription, in bucket order.

    A group is (row, start, stop): that subscription has the changes start .. stop - 1; groups may share them.
    The mark of a change is 0 for a leave, the rank for an entry, minus the rank for an update.
    """

    group: NDArray[np.int32]
    item: NDArray[np.int32]
    mark: NDArray[np.int32]
    tally: NDArray[np.int64]


def empty_changes(groups: int, deltas: int) -> BoardChanges:
    """Buffers for so many groups and changes."""
    return BoardChanges(
        group=np.empty((groups, 3), np.int32),
        item=np.empty(deltas, np.int32),
        mark=np.empty(deltas, np.int32),
        tally=np.zeros(4, np.int64),
    )


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
def in_order(changes: BoardChanges, place: NDArray[np.int64], span: int) -> NDArray[np.int32]:
    """The groups in the order of registration."""
    group = changes.group[: changes.tally[GROUPS]]
    if FEW * group.shape[0] > span:
        return _lay_out(group, place, span)
    return group[np.argsort(place[group[:, 0]])]


@njit(**EXACT)
def count_rows(changes: BoardChanges) -> int:
    """How many delta rows the groups make."""
    group, total = changes.group, 0
    for g in range(changes.tally[GROUPS]):
        total += group[g, 2] - group[g, 1]
    return total


@njit(**EXACT)
def spread(changes: BoardChanges, ordered: NDArray[np.int32], y: NDArray[np.float64], deltas: Deltas) -> None:
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
