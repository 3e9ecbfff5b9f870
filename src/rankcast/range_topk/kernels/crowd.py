"""Crowds: the subscriptions of one bucket, parted by equal boards, while a batch of tiles is applied.

Crowd c has `members[c]` lanes of the bucket, the list `now[c]`, and began as crowd `origin[c]` with the list
`then[origin[c]]`. Crowds are only ever split, so there are at most as many as lanes. `last[c]` is the event
its members heard of last, -1 before any. `inside` marks the lanes that the tile at hand reaches.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.point_tree import BUCKET
from rankcast.structures.boards import (
    DELTAS,
    GROUPS,
    BoardChanges,
    Boards,
    receive,
    take_out,
    write_entries,
    write_leaves,
)
from rankcast.structures.jit import EXACT


class Crowds(NamedTuple):
    """Working space for one bucket; `used[0]` crowds are in use."""

    crowd: NDArray[np.int32]
    members: NDArray[np.int32]
    origin: NDArray[np.int32]
    last: NDArray[np.int32]
    hits: NDArray[np.int32]
    target: NDArray[np.int32]
    inside: NDArray[np.uint8]
    now: Boards
    then: Boards
    used: NDArray[np.int64]


@njit(**EXACT)
def empty_crowds(k: int) -> Crowds:
    """Working space for boards of k items."""
    ints, boards = np.empty((6, BUCKET), np.int32), np.empty((2, BUCKET, k), np.int32)
    inside, used = np.empty(BUCKET, np.uint8), np.zeros(1, np.int64)
    return Crowds(ints[0], ints[1], ints[2], ints[3], ints[4], ints[5], inside, boards[0], boards[1], used)


@njit(**EXACT)
def _alike(one: Boards, i: int, two: Boards, j: int) -> bool:
    for place in range(one.shape[1]):
        if one[i, place] != two[j, place]:
            return False
    return True


@njit(**EXACT)
def part(crowds: Crowds, boards: Boards) -> None:
    """Part the lanes of a bucket by their boards; a lane is compared with its neighbour's crowd first."""
    crowd, members, now, then, size, c = crowds.crowd, crowds.members, crowds.now, crowds.then, 0, 0
    for lane in range(boards.shape[0]):
        if size == 0 or not _alike(boards, lane, now, c):
            c = 0
            while c < size and not _alike(boards, lane, now, c):
                c += 1
        if c == size:
            now[c], then[c] = boards[lane], boards[lane]
            members[c], crowds.origin[c], crowds.last[c] = 0, c, -1
            size += 1
        crowd[lane] = c
        members[c] += 1
    crowds.used[0] = size


@njit(**EXACT)
def find_inside(
    inside: NDArray[np.uint8], lo: NDArray[np.float64], hi: NDArray[np.float64], box: NDArray[np.float64]
) -> int:
    """Mark the lanes inside a box; return how many there are."""
    west, east, bottom, top = box[0], box[1], box[2], box[3]
    total = 0
    for lane in range(lo.shape[0]):
        inside[lane] = (lo[lane] >= west) & (lo[lane] <= east) & (hi[lane] >= bottom) & (hi[lane] <= top)
        total += inside[lane]
    return total


@njit(**EXACT)
def split(crowds: Crowds, lanes: int) -> None:
    """Make every crowd lie inside or outside; `hits` says how many members of each are inside."""
    crowd, members, hits, target, inside = (
        crowds.crowd, crowds.members, crowds.hits, crowds.target, crowds.inside
    )  # fmt: skip
    before, size = crowds.used[0], crowds.used[0]
    hits[:before] = 0
    for lane in range(lanes):
        hits[crowd[lane]] += inside[lane]
    for c in range(before):
        target[c] = c
        if 0 < hits[c] < members[c]:
            crowds.now[size], crowds.last[size] = crowds.now[c], crowds.last[c]
            crowds.origin[size], members[size], hits[size] = crowds.origin[c], hits[c], hits[c]
            members[c] -= hits[c]
            hits[c], target[c] = 0, size
            size += 1
    if size > before:
        for lane in range(lanes):
            if inside[lane]:
                crowd[lane] = target[crowd[lane]]
    crowds.used[0] = size


@njit(**EXACT)
def hear(
    crowds: Crowds, whole: bool, item: int, event: int, known: NDArray[np.float64], label: NDArray[np.int64]
) -> int:
    """Apply one tile to all crowds, or to those that `split` hit; return who hears of its event first."""
    members, hits, last, now, affected = crowds.members, crowds.hits, crowds.last, crowds.now, 0
    gone = known[item] == np.inf
    for c in range(crowds.used[0]):
        if whole or hits[c] > 0:
            if gone:
                take_out(now, c, item)
            else:
                receive(now, c, item, known, label)
            if last[c] != event:
                affected += members[c]
                last[c] = event
    return affected


@njit(**EXACT)
def copy_back(crowds: Crowds, boards: Boards) -> None:
    """Write the lists of the crowds that heard something back to their members' boards."""
    crowd, last, now, k = crowds.crowd, crowds.last, crowds.now, boards.shape[1]
    for lane in range(boards.shape[0]):
        c = crowd[lane]
        if last[c] >= 0:
            for place in range(k):
                boards[lane, place] = now[c, place]


@njit(**EXACT)
def write_changes(
    crowds: Crowds, rows: NDArray[np.int32], moved: NDArray[np.bool_], changes: BoardChanges
) -> None:
    """Write the net change of every crowd once, and a group for each member whose list changed."""
    crowd, start, stop, size = crowds.crowd, crowds.hits, crowds.target, changes.tally[DELTAS]
    for c in range(crowds.used[0]):
        start[c] = size
        if crowds.last[c] >= 0:
            size = write_leaves(crowds.then, crowds.origin[c], crowds.now, c, changes.item, size)
            changes.mark[start[c] : size] = 0
            size = write_entries(
                crowds.then, crowds.origin[c], crowds.now, c, moved, changes.item, changes.mark, size
            )
        stop[c] = size
    group, groups = changes.group, changes.tally[GROUPS]
    for lane in range(rows.shape[0]):
        c = crowd[lane]
        if stop[c] > start[c]:
            group[groups, 0], group[groups, 1], group[groups, 2] = rows[lane], start[c], stop[c]
            groups += 1
    changes.tally[GROUPS], changes.tally[DELTAS] = groups, size
