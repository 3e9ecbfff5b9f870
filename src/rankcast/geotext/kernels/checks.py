"""Whether buffers and lists by term from a snapshot keep the invariants that kernels rely on.

As in `rankcast.structures.integrity`, nothing read is trusted and every walk is counted. Cost: O(n).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.postings import STEP, Postings
from rankcast.geotext.kernels.results import Links
from rankcast.geotext.kernels.score import Bits, TermVectors
from rankcast.structures.jit import EXACT

Bools = NDArray[np.bool_]
FITS = 0
CHAIN, STRETCH, ENTRY = 1, 2, 3


@njit(**EXACT)
def check_links(links: Links, live: Bools) -> int:
    """Whether every link is in the chain of one item, or free; owners are `live` or were, items too."""
    head, length, owner, after, free = links
    seen, known = np.zeros(owner.size, np.bool_), 0
    for item in range(head.size):
        at, count = np.int64(head[item]), 0
        while at != -1:
            if at < 0 or at >= owner.size or seen[at] or owner[at] < 0 or owner[at] >= live.size:
                return CHAIN
            seen[at], count = True, count + 1
            at = np.int64(after[at])
        if count != length[item]:
            return CHAIN
        known += count
    if known != free[1]:
        return CHAIN
    at = free[0]
    while at != -1:
        if at < 0 or at >= owner.size or seen[at]:
            return CHAIN
        seen[at], known = True, known + 1
        at = np.int64(after[at])
    return FITS if known == owner.size else CHAIN


@njit(**EXACT)
def check_postings(
    lists: Postings, used: int, stamp: int, texts: TermVectors, stamps: Bits, live: Bools
) -> int:
    """Whether lists lie within what is used, and hold each term of each `live` owner, once, and no other.

    `stamp` is where the stamp of an entry stands; entries with one that is not their owner's are void.
    """
    begins, mains, joints, sizes, rooms, deads, rows, fact, _ = lists
    owners, taken = stamps.size, np.int64(0)
    met, count = np.full(owners, -1, np.int64), np.zeros(owners, np.int64)
    for word in range(begins.size):
        begin, size, room = begins[word], np.int64(sizes[word]), np.int64(rooms[word])
        if room < 0 or room % STEP != 0 or not 0 <= size <= room or not 0 <= joints[word] <= size:
            return STRETCH
        if not 0 <= mains[word] <= size or not 0 <= deads[word] <= size:
            return STRETCH
        if room > 0 and (begin < 0 or begin % STEP != 0 or begin > used or room > used - begin):
            return STRETCH  # without room it begins nowhere: older states say where it was before lists moved
        taken += room
        for at in range(begin, begin + size):
            row = np.int64(rows[at])
            if row < 0 or row >= owners:
                return ENTRY
            if fact[at // STEP, stamp, at % STEP] != stamps[row]:
                continue
            if row >= live.size or not live[row] or met[row] == word:
                return ENTRY
            met[row], count[row], mine = word, count[row] + 1, False
            for place in range(texts.begin[row], texts.begin[row] + texts.size[row]):
                mine = mine or texts.term[place] == word
            if not mine:
                return ENTRY
    if taken > used:
        return STRETCH
    for each in range(live.size):
        if live[each] and (each >= owners or count[each] != texts.size[each]):
            return ENTRY
    return FITS
