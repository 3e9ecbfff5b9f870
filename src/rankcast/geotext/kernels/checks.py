"""Whether buffers and lists by term from a snapshot keep the invariants that kernels rely on.

As in `rankcast.structures.integrity`, nothing read is trusted and every walk is counted. Cost: O(n).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.pair_scores import CHUNK, Links
from rankcast.geotext.kernels.postings import STEP, Postings
from rankcast.geotext.kernels.score import Bits, TermVectors
from rankcast.structures.jit import EXACT

Bools = NDArray[np.bool_]
FITS = 0
CHAIN, STRETCH, ENTRY = 1, 2, 3


@njit(**EXACT)
def check_links(links: Links, live: Bools) -> int:
    """Whether every chunk is in the chain of one item, or free; owners are `live` or were, items too."""
    head, length, owners, free = links
    chunks = owners.shape[0]
    seen, known = np.zeros(chunks, np.bool_), 0
    for item in range(head.size):
        at, left = np.int64(head[item]), np.int64(length[item])
        while at != -1:
            if at < 0 or at >= chunks or seen[at] or left <= 0:
                return CHAIN
            held = (left - 1) % CHUNK + 1
            for place in range(held):
                if owners[at, place] < 0 or owners[at, place] >= live.size:
                    return CHAIN
            seen[at], known, left = True, known + 1, left - held
            at = np.int64(owners[at, CHUNK])
        if left != 0:
            return CHAIN
    if known != free[1]:
        return CHAIN
    at = free[0]
    while at != -1:
        if at < 0 or at >= chunks or seen[at]:
            return CHAIN
        seen[at], known = True, known + 1
        at = np.int64(owners[at, CHUNK])
    return FITS if known == chunks else CHAIN


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
