"""The difference between old and new lists of subscriptions: leaves, enters and updates, as columns.

`write_difference` compares flat lists of entries with scores, grouped by subscription, the groups in the
order of registration. An item is looked up in the other group through `spot`, which has the place where it
was noted last: a place inside that group that holds the item proves itself, so `spot` needs neither to be
cleared nor to be set up. Cost: O(entries), whatever the length of a list; `spot` is as long as the largest
item needs.

`write_replacement` and `replace_boards` serve a change of subscriptions, not of objects: no value changes, so
an item that stays in a list is no change, and no score is compared. Lists stand one after the other, each in
as many places as it may have items, ended by -1 if it has fewer. Cost: O(k) a subscription; `seen`, as long
as the objects, begins as zeros and is never cleared: whoever keeps it for further calls knows how far its
stamps have come, two a subscription.

Indexes are unsigned (np.uint32, np.uint64): for signed ones Numba emits a test whether each counts from the
end, which would take longer than all the rest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.arrays import BLOCK, Names, empty, prefetch
from rankcast.structures.jit import EXACT
from rankcast.structures.topk_lists import ENTER, LEAVE, UPDATE, BoardChanges, Deltas

Rows = NDArray[np.int32]


class Entries(NamedTuple):
    """Entries of results, one after the other."""

    subscription: Rows
    item: Rows
    score: NDArray[np.float64]
    rank: NDArray[np.int64]


class ChangeColumns(NamedTuple):
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
def write_difference(
    old: Entries, new: Entries, place: NDArray[np.int64], spot: Rows, out: ChangeColumns, updates: bool
) -> int:
    """Write the changes in the order of the contract; return how many. They are at most all entries.

    Without `updates` an item that stays is no change, whatever its score.

    Each entry is written, and written over by the next if it is no change: a branch would often be
    mispredicted. So the columns of `out` have one place more.
    """
    mine, old_item, old_score, _ = old
    theirs, new_item, new_score, new_rank = new
    subscription, op, item, score, rank, former = out
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
            size += was < 0 or (updates and before != new_score[at])
        i, j = old_end, new_end
    return size


Starts = NDArray[np.uint64]


AHEAD = 16  # how many boards before their turn memory is asked for
SOON, LINE = 128, 8  # how many deltas before their turn, and how many numbers come at once


class DeltaColumns(NamedTuple):
    """Columns for deltas as they are shown outside: ids, score and rank, op, and a bit for all but leaves.

    Bits are eight a byte, the first the lowest.
    """

    subscription: NDArray[np.int64]
    item: NDArray[np.int64]
    score: NDArray[np.float64]
    rank: NDArray[np.int64]
    op: NDArray[np.int8]
    there: NDArray[np.uint8]


def empty_delta_columns(size: int) -> DeltaColumns:
    """Columns for so many deltas."""
    sizes, kinds = (size,) * 5 + (size // 8 + 1,), ("i8", "i8", "f8", "i8", "i1", "u1")
    return DeltaColumns(*map(empty, sizes, kinds))


class ListSnapshot(NamedTuple):
    """Lists of some subscriptions: the i-th begins at start[i] and ends before start[i + 1], or at -1."""

    start: Starts
    item: Rows


@njit(**EXACT)
def _fetch(board: Rows, slots: Rows, rows: Rows) -> None:
    """Ask for the boards of a block of rows, which lie anywhere, so that their cache misses overlap."""
    width = np.int64(board.shape[1])
    for i in range(rows.shape[0]):
        first = np.int64(slots[np.uint32(rows[i])]) * width
        prefetch(board, first)
        prefetch(board, first + width - 1)


@njit(**EXACT)
def copy_boards(board: Rows, slots: Rows, rows: Rows, start: Starts, item: Rows) -> None:
    """Copy the boards at the slots of some rows to where their lists begin."""
    for i in range(rows.shape[0]):
        if i % BLOCK == 0:
            _fetch(board, slots, rows[i : i + BLOCK])
        slot = np.uint32(slots[np.uint32(rows[i])])
        for place in range(np.uint64(board.shape[1])):
            item[start[i] + place] = board[slot, place]


@njit(**EXACT)
def write_boards(board: Rows, slots: Rows, rows: Rows, lists: Rows) -> None:
    """Write a list to the board at the slot of each row."""
    for i in range(rows.shape[0]):
        if i % BLOCK == 0:
            _fetch(board, slots, rows[i : i + BLOCK])
        slot = np.uint32(slots[np.uint32(rows[i])])
        for place in range(np.uint64(lists.shape[1])):
            board[slot, place] = lists[i, place]


@njit(**EXACT)
def _end(item: Rows, first: np.uint64, last: np.uint64) -> np.uint64:
    """Where a list ends."""
    while last > first and item[last - np.uint64(1)] < 0:
        last -= np.uint64(1)
    return last


@njit(**EXACT)
def _alike(one: Rows, first: np.uint64, two: Rows, start: np.uint64, size: np.uint64) -> bool:
    """Whether two stretches have the same items."""
    for place in range(size):
        if one[first + place] != two[start + place]:
            return False
    return True


@njit(**EXACT)
def write_replacement(
    rows: Rows, old: ListSnapshot, new: ListSnapshot, y: NDArray[np.float64], seen: Rows, out: Deltas
) -> np.int64:
    """Write what turns the old lists of some subscriptions into the new ones; return how many rows.

    Each entry is written, and written over by the next if it is no change: a branch would often be
    mispredicted. So the columns of `out` have one place more than both lists have items.
    """
    was, before, now, after = old.start, old.item, new.start, new.item
    subscription, op, item, score, rank = out
    size = np.uint64(0)
    for i in range(rows.shape[0]):
        first, start, row, stamp = was[i], now[i], rows[i], np.int32(2 * i + 1)
        end, stop = _end(before, first, was[i + 1]), _end(after, start, now[i + 1])
        if end - first == stop - start and _alike(before, first, after, start, end - first):
            continue
        for at in range(start, stop):
            seen[np.uint32(after[at])] = stamp
        for at in range(first, end):
            subscription[size], op[size], item[size] = row, LEAVE, before[at]
            score[size], rank[size] = np.nan, 0
            size += np.uint64(seen[np.uint32(before[at])] != stamp)
        for at in range(first, end):
            seen[np.uint32(before[at])] = stamp + 1
        for at in range(start, stop):
            subscription[size], op[size], item[size] = row, ENTER, after[at]
            score[size], rank[size] = y[np.uint32(after[at])], np.int64(at - start) + 1
            size += np.uint64(seen[np.uint32(after[at])] != stamp + 1)
    return np.int64(size)


@njit(**EXACT)
def _prefetch_columns(out: DeltaColumns, size: np.uint64) -> None:
    """Ask for the memory of deltas that are about to be written, those of a few boards later."""
    for line in range(3):
        at = np.int64(size) + SOON + line * LINE
        prefetch(out.subscription, at)
        prefetch(out.item, at)
        prefetch(out.score, at)
        prefetch(out.rank, at)
    prefetch(out.op, np.int64(size) + SOON)


@njit(**EXACT)
def _mark(bits: NDArray[np.uint8], first: np.uint64, end: np.uint64) -> None:
    """Set the bits first..end-1, byte by byte."""
    three, one = np.uint64(3), np.uint64(1)
    while first < end:
        at = first >> three
        stop = min(end, (at + one) << three)
        bits[at] |= np.uint8(((one << (stop - first)) - one) << (first & np.uint64(7)))
        first = stop


@njit(**EXACT)
def _is_same(board: Rows, slot: np.uint32, lists: Rows, i: np.uint64) -> bool:
    """Whether a list is what stands on a board already."""
    for place in range(np.uint64(board.shape[1])):
        if board[slot, place] != lists[i, place]:
            return False
    return True


@njit(**EXACT)
def _length(lists: Rows, i: np.uint64) -> np.uint64:
    """How many items the list at a line has."""
    size = np.uint64(lists.shape[1])
    while size > np.uint64(0) and lists[i, size - np.uint64(1)] < 0:
        size -= np.uint64(1)
    return size


@njit(**EXACT)
def _ask(board: Rows, slot: np.int32) -> None:
    """Ask for the board at a slot."""
    first, width = np.int64(slot) * board.shape[1], np.int64(board.shape[1])
    prefetch(board, first)
    prefetch(board, first + width - 1)


@njit(**EXACT)
def replace_boards(
    board: Rows,
    slots: Rows,
    rows: Rows,
    lists: Rows,
    names: Names,
    seen: Rows,
    so_far: int,
    out: DeltaColumns,
) -> np.int64:
    """Write other lists over the boards of some subscriptions and write the deltas; return how many rows.

    What leaves and where something enters is noted first, each note over the one before if that is no change:
    a branch would often be mispredicted.
    """
    ids, items, values = names
    subscription, item, score, rank, op, there = out
    gone, fresh = np.empty(lists.shape[1] + 1, np.uint32), np.empty(lists.shape[1] + 1, np.uint32)
    there[:], size, last = 0, np.uint64(0), np.uint64(rows.shape[0] - 1)
    for i in range(np.uint64(rows.shape[0])):
        _ask(board, slots[np.uint32(rows[min(i + np.uint64(AHEAD), last)])])
        mine, slot = ids[np.uint32(rows[i])], np.uint32(slots[np.uint32(rows[i])])
        if _is_same(board, slot, lists, i):
            continue
        _prefetch_columns(out, size)
        end, stop, stamp = _length(board, np.uint64(slot)), _length(lists, i), np.int32(so_far + 1)
        so_far += 2
        for place in range(stop):
            seen[np.uint32(lists[i, place])] = stamp
        leaves, comes = np.uint64(0), np.uint64(0)
        for place in range(end):
            which = np.uint32(board[slot, place])
            gone[leaves] = which
            leaves += np.uint64(seen[which] != stamp)
            seen[which] = stamp + 1
        for place in range(stop):
            fresh[comes] = place
            comes += np.uint64(seen[np.uint32(lists[i, place])] != stamp + 1)
        for at in range(leaves):
            subscription[size], item[size], score[size], rank[size] = mine, items[gone[at]], np.nan, 0
            op[size] = LEAVE
            size += np.uint64(1)
        _mark(there, size, size + comes)
        for at in range(comes):
            which = np.uint32(lists[i, fresh[at]])
            subscription[size], item[size] = mine, items[which]
            score[size], rank[size] = values[which], np.int64(fresh[at]) + 1
            op[size] = ENTER
            size += np.uint64(1)
        for place in range(np.uint64(board.shape[1])):
            board[slot, place] = lists[i, place]
    return np.int64(size)


@njit(**EXACT)
def tell(changes: BoardChanges, ordered: NDArray[np.int32], names: Names, out: DeltaColumns) -> None:
    """Write the rows of all groups of changes, in the given order, as they are shown outside.

    It is `topk_lists.spread` where ids are integers: nothing is written that has to be looked up once more.
    Bits are gathered in a byte, so the columns are written one after the other.
    """
    ids, items, values = names
    subscription, item, score, rank, op, there = out
    marks, which, size, one, seven = changes.mark, changes.item, np.uint64(0), np.uint64(1), np.uint64(7)
    bits = np.uint64(0)
    for g in range(ordered.shape[0]):
        first, last = np.uint32(ordered[g, 1]), np.uint32(ordered[g, 2])
        if first == last:
            continue
        mine = ids[np.uint32(ordered[g, 0])]
        for change in range(first, last):
            mark, row = marks[change], np.uint32(which[change])
            stays = mark != 0
            subscription[size], item[size], rank[size] = mine, items[row], abs(mark)
            score[size] = values[row] if stays else np.nan
            op[size] = LEAVE if mark == 0 else ENTER if mark > 0 else UPDATE
            bits |= np.uint64(stays) << (size & seven)
            if size & seven == seven:
                there[size >> np.uint64(3)] = bits
                bits = np.uint64(0)
            size += one
    there[size >> np.uint64(3)] = bits
