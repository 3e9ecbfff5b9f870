"""Where result buffers lie: a stretch of entries a list, and links from an item to the lists that hold it."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.arrays import prefetch
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Counts = NDArray[np.uint16]

ROW, LOWER = 32, (1 << 32) - 1  # where the list begins in a key, and what is below it
AHEAD, LOOKED_AT, LINE = 32, 32, 64  # lists asked for beforehand, entries of each; bytes of a cache line


class Buffers(NamedTuple):
    """By list: where its stretch begins, entries, room, how many to keep at a cut, threshold. By entry.

    Entries of a list are in order of rank; `dominators` counts who dominates each, up to `MANY`.
    """

    begin: Ints
    size: Rows
    room: Rows
    keep: Rows
    threshold: Floats
    item: Rows
    score: Floats
    dominators: Counts


class Links(NamedTuple):
    """Which lists may hold an item: `head` and `length` by item, `owner` and `next` by link, -1 at the end.

    `free[0]` is the first free link, `free[1]` how many links are in use.
    """

    head: Rows
    length: Rows
    owner: Rows
    next: Rows
    free: Ints


@njit(**EXACT)
def link(head: Rows, length: Rows, owners: Rows, after: Rows, free: Ints, item: int, owner: int) -> None:
    """Note that a list holds an item; there is a free link."""
    at = free[0]
    free[0] = after[at]
    free[1] += 1
    owners[at], after[at] = owner, head[item]
    head[item] = at
    length[item] += 1


@njit(**EXACT)
def holders(links: Links, items: Rows) -> Ints:
    """Which lists may hold items, each with the place of its item in `items`; and forget it.

    Chains are followed some at a time, so that cache misses overlap.
    """
    head, length, owners, after, free = links
    total, count = 0, 0
    for item in items:
        total += length[item]
    found, cursor = np.empty(total, np.int64), np.empty(AHEAD, np.int32)
    for first in range(0, items.size, AHEAD):
        size, before = min(AHEAD, items.size - first), -1
        for i in range(size):
            cursor[i] = head[items[first + i]]
            head[items[first + i]], length[items[first + i]] = -1, 0
        while count > before:
            before = count
            for i in range(size):
                at = cursor[i]
                if at >= 0:
                    found[count] = np.int64(owners[at]) << ROW | (first + i)
                    count += 1
                    cursor[i] = after[at]
                    after[at] = free[0]
                    free[0] = at
    free[1] -= count
    return found


@njit(**EXACT)
def fetch(begin: int, items: Rows, scores: Floats, dominators: Counts) -> None:
    """Ask for the memory of a list, as far as lists fill it as a rule."""
    for offset in range(0, LOOKED_AT, LINE // 8):
        prefetch(scores, begin + offset)
    for offset in range(0, LOOKED_AT, LINE // 4):
        prefetch(items, begin + offset)
    prefetch(dominators, begin)


@njit(**EXACT)
def gather(
    owners: Rows, begins: Ints, sizes: Rows, k: Ints, items: Rows, scores: Floats
) -> tuple[Rows, Rows, Floats, Ints]:
    """The k best entries of some lists, flat: list, item, score, rank."""
    total, at = 0, 0
    for row in owners:
        total += min(sizes[row], k[row])
    owner, item, score = np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total)
    rank = np.empty(total, np.int64)
    for i in range(owners.size):
        row = owners[i]
        if i + AHEAD < owners.size:
            prefetch(items, begins[owners[i + AHEAD]])
            for offset in range(0, LOOKED_AT, LINE // 8):
                prefetch(scores, begins[owners[i + AHEAD]] + offset)
        for j in range(min(sizes[row], k[row])):
            owner[at], rank[at] = row, j + 1
            item[at], score[at] = items[begins[row] + j], scores[begins[row] + j]
            at += 1
    return owner, item, score, rank


@njit(**EXACT)
def pack(old: Buffers, new: Buffers) -> int:
    """Move all stretches to the front of new arrays; returns how much is used then."""
    used = 0
    for owner in range(old.begin.size):
        begin, size = old.begin[owner], old.size[owner]
        new.item[used : used + size] = old.item[begin : begin + size]
        new.score[used : used + size] = old.score[begin : begin + size]
        new.dominators[used : used + size] = old.dominators[begin : begin + size]
        new.begin[owner] = used
        used += old.room[owner]
    return used


@njit(**EXACT)
def relink(links: Links, buffers: Buffers) -> None:
    """Make all links anew from what the lists hold; there are enough."""
    head, length, owners, after, free = links
    begins, sizes, _, _, _, items, _, _ = buffers
    head[:], length[:] = -1, 0
    for at in range(after.size):
        after[at] = at + 1 if at + 1 < after.size else -1
    free[0], free[1] = 0, 0
    for owner in range(begins.size):
        for at in range(begins[owner], begins[owner] + sizes[owner]):
            link(head, length, owners, after, free, items[at], owner)
