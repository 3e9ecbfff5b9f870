"""The boards of one bucket while a batch goes through it: what they were, how they change, what came of it.

Nearly all boards that a batch touches are touched once; what that came to is noted, and is their net change.
The others are compared with what they were.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.corner_tree import Floats, Rows
from rankcast.range_topk.kernels.events import AFFECTED
from rankcast.range_topk.kernels.value_order import Asked
from rankcast.structures.boards import DELTAS, GROUPS, BoardChanges, ahead, write_entries, write_leaves
from rankcast.structures.jit import EXACT


class Desk(NamedTuple):
    """Room for the work on one bucket: by slot there, by slot touched, by spell (one more than there are).

    `place` tells where a slot stands among those touched, or -1; `board` is what its board was, `heard` when
    it was touched last, `touches` how often, `note` what the last touch came to.
    """

    lane: Rows
    place: Rows
    slot: Rows
    board: Rows
    touches: Rows
    heard: NDArray[np.int64]
    note: Rows
    asked: Asked
    lent: Rows


@njit(**EXACT)
def new_desk(capacity: int, width: int, k: int, spells: int) -> Desk:
    """A desk for buckets of so many slots."""
    asked = Asked(
        np.empty((capacity, width)),
        np.empty(capacity),
        np.empty(capacity, np.int64),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
    )
    return Desk(
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int32),
        np.empty((capacity, k), np.int32),
        np.empty(capacity, np.int32),
        np.empty(capacity, np.int64),
        np.empty((capacity, 3), np.int32),
        asked,
        np.zeros(spells + 1, np.int32),
    )


@njit(**EXACT)
def touch(
    lanes: Rows, count: int, first: int, touched: int, time: int, board: Rows, desk: Desk,
    tally: NDArray[np.int64],
) -> int:  # fmt: skip
    """Keep boards that are to change, as they were before the batch; return how many are kept."""
    place, slots, kept, heard, touches = desk.place, desk.slot, desk.board, desk.heard, desk.touches
    k, event = np.uint64(board.shape[1]), time & ~1
    for lane in range(np.uint64(count)):
        slot = np.uint64(lanes[lane])
        if place[slot - np.uint64(first)] < 0:
            at = np.uint64(touched)
            place[slot - np.uint64(first)], slots[at], heard[at], touches[at] = at, slot, -1, 0
            for j in range(k):
                kept[at, j] = board[slot, j]
            touched += 1
        at = np.uint64(place[slot - np.uint64(first)])
        tally[AFFECTED] += heard[at] < event
        heard[at] = time
        touches[at] += 1
    return touched


@njit(**EXACT)
def improve(
    board: Rows, slot: int, row: int, value: Floats, label: NDArray[np.int64], note: Rows, at: int
) -> None:
    """Let an improved object rise in a board, or enter it; the last item of a full one leaves.

    Where it stood and where it comes to are found, and items moved, without a branch that could be guessed
    wrong.
    """
    line, which, mine, one = np.uint64(slot), np.uint64(at), value[row], np.uint64(1)
    last, rank = np.uint64(board.shape[1]) - one, np.uint64(0)
    former = last
    for j in range(last + one):
        item = board[line, j]
        worth = value[np.uint64(max(item, 0))]
        before = (item >= 0) & (worth < mine)
        if worth == mine and item >= 0:
            before = label[item] < label[row]
        rank += np.uint64(before)
        former = np.uint64(j) if item == row else former
    left = board[line, former]
    for back in range(last):
        here = last - np.uint64(back)
        item, other = board[line, here], board[line, here - one]
        board[line, here] = other if (rank < here) & (here <= former) else item
    board[line, rank] = row
    place = np.int64(rank) + 1
    note[which, 0], note[which, 1] = -1 if left == row else left, row
    note[which, 2] = -place if left == row else place


@njit(**EXACT)
def worsen(
    board: Rows, slot: int, row: int, value: Floats, label: NDArray[np.int64], note: Rows, at: int
) -> bool:
    """Let a worsened object fall in a board, or leave one that is not full; False if it leaves a full one."""
    last, j = board.shape[1] - 1, 0
    end = board[slot, last]
    if end >= 0 and (end == row or not ahead(value, label, row, end)):
        return False
    while board[slot, j] != row:
        j += 1
    gone = value[row] == np.inf
    while j < last and board[slot, j + 1] >= 0 and (gone or ahead(value, label, board[slot, j + 1], row)):
        board[slot, j] = board[slot, j + 1]
        j += 1
    board[slot, j] = -1 if gone else row
    note[at, 0], note[at, 1], note[at, 2] = row if gone else -1, row, 0 if gone else -(j + 1)
    return True


@njit(**EXACT)
def with_room(changes: BoardChanges, groups: int, deltas: int) -> BoardChanges:
    """The same changes with room for more."""
    group, item, mark, tally = changes
    if tally[GROUPS] + groups > group.shape[0]:
        group = np.concatenate((group, np.empty((group.shape[0] + groups, 3), np.int32)))
    if tally[DELTAS] + deltas > item.shape[0]:
        more = np.empty(item.shape[0] + deltas, np.int32)
        item, mark = np.concatenate((item, more)), np.concatenate((mark, more))
    return BoardChanges(group, item, mark, tally)


@njit(**EXACT)
def write_changes(
    rows: Rows, board: Rows, desk: Desk, touched: int, moved: NDArray[np.bool_], changes: BoardChanges
) -> None:
    """Append what the boards touched have become."""
    group, item, mark, tally = changes
    kept, slots, size, groups = desk.board, desk.slot, tally[DELTAS], tally[GROUPS]
    touches, note = desk.touches, desk.note
    for at in range(touched):
        slot, start = slots[at], size
        if touches[at] == 1:
            item[size], mark[size] = note[at, 0], 0
            size += note[at, 0] >= 0
            item[size], mark[size] = note[at, 1], note[at, 2]
            size += note[at, 2] != 0
        else:
            size = write_leaves(kept, at, board, slot, item, size)
            mark[start:size] = 0
            size = write_entries(kept, at, board, slot, moved, item, mark, size)
        if size > start:
            group[groups, 0], group[groups, 1], group[groups, 2] = rows[slot], start, size
            groups += 1
    tally[DELTAS], tally[GROUPS] = size, groups
