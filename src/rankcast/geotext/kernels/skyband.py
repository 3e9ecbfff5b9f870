"""How buffers are filled from a search, where they lie, and what that changes.

See `rankcast.geotext.kernels.results` for the invariant of a buffer, and for how messages come and go;
`rankcast.geotext.kernels.costs` for how many messages one keeps.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.geotext.kernels.message_search import SearchResults
from rankcast.geotext.kernels.pair_scores import CHUNK, Links, link
from rankcast.geotext.kernels.postings import Ages, stays_on
from rankcast.geotext.kernels.results import (
    AHEAD,
    COST,
    LINE,
    MAX_DOMINATORS,
    PREFETCHED,
    SKYBAND,
    Buffers,
    ResultLog,
    capacity_of,
    cut_of,
    is_short,
)
from rankcast.geotext.kernels.score import Bools, Floats, Ints, Rows
from rankcast.structures.arrays import prefetch
from rankcast.structures.diff import ChangeColumns, Entries
from rankcast.structures.jit import EXACT
from rankcast.structures.topk_lists import ENTER, LEAVE, UPDATE

SPARE = 32  # entries that a small list has room for beside its own, and a large one in vain


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
            for offset in range(0, PREFETCHED, LINE // 8):
                prefetch(scores, begins[owners[i + AHEAD]] + offset)
        for j in range(min(sizes[row], k[row])):
            owner[at], rank[at] = row, j + 1
            item[at], score[at] = items[begins[row] + j], scores[begins[row] + j]
            at += 1
    return owner, item, score, rank


@njit(**EXACT)
def log_lists(buffers: Buffers, rows: Rows, op: int, k: Ints, ages: Ages, log: ResultLog, lines: int) -> int:
    """Log the k best of some lists, all of which come or go; there is room. Returns how many lines then."""
    begins, sizes, _, _, _, held, score, _ = buffers
    log_owner, log_op, log_item, log_score, log_time, log_arrival, _ = log
    for row in rows:
        for at in range(begins[row], begins[row] + min(k[row], sizes[row])):
            log_owner[lines], log_op[lines], log_item[lines] = row, op, held[at]
            log_score[lines], log_time[lines] = score[at], ages.time[held[at]]
            log_arrival[lines] = ages.arrival[held[at]]
            lines += 1
    return lines


@njit(**EXACT)
def short_lists(buffers: Buffers, log: ResultLog, lines: int, doubtful: Rows, k: Ints, unsure: Bools) -> Rows:
    """Which lists of the first lines of a log, and of those in doubt, must be refilled [Geo Alg 2].

    They are `unsure`, which they are no longer then, or hold fewer than k though there may be more.
    """
    _, sizes, _, _, thresholds, _, _, _ = buffers
    owners, _, _, _, _, _, _ = log
    found, count = np.empty(lines + doubtful.size, np.int32), 0
    for i in range(found.size):
        row = owners[i] if i < lines else doubtful[i - lines]
        found[count] = row
        count += is_short(row, sizes, thresholds, k, unsure)
    found = np.sort(found[:count])
    count = 0
    for row in found:
        unsure[row] = False
        if count == 0 or found[count - 1] != row:
            found[count] = row
            count += 1
    return found[:count]


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
def count_chunks(messages: int, buffers: Buffers) -> int:
    """How many chunks of links what the lists hold would take."""
    begins, sizes, _, _, _, items, _, _ = buffers
    held, total = np.zeros(messages, np.int32), 0
    for owner in range(begins.size):
        for at in range(begins[owner], begins[owner] + sizes[owner]):
            held[items[at]] += 1
    for count in held:
        total += (int(count) + CHUNK - 1) // CHUNK
    return total


@njit(**EXACT)
def free_chunks(owners: Rows, free: Ints, first: int) -> None:
    """Add the chunks from `first` on to the free ones."""
    for at in range(owners.shape[0] - 1, first - 1, -1):
        owners[at, CHUNK] = free[0]
        free[0] = at


@njit(**EXACT)
def relink(links: Links, buffers: Buffers) -> None:
    """Rebuild all links from what the lists hold; there are enough chunks."""
    head, length, owners, free = links
    begins, sizes, _, _, _, items, _, _ = buffers
    head[:], length[:] = -1, 0
    free[0], free[1] = -1, 0
    free_chunks(owners, free, 0)
    for owner in range(begins.size):
        for at in range(begins[owner], begins[owner] + sizes[owner]):
            link(head, length, owners, free, items[at], owner)


@njit(**EXACT)
def _room_for(keep: int, k: int, refill: int) -> int:
    """How much room a buffer needs: for one entry more than it may have, or has at first."""
    return max(keep, capacity_of(keep, k, refill)) + 1


@njit(**EXACT)
def cuts(keep: Rows, k: Ints, refill: int) -> tuple[Rows, Rows]:
    """To how many entries buffers are cut, and beyond how many."""
    cut, most = np.empty_like(keep), np.empty_like(keep)
    for i in range(keep.size):
        cut[i], most[i] = cut_of(keep[i], k[i], refill), capacity_of(keep[i], k[i], refill)
    return cut, most


@njit(**EXACT)
def plan_fill(
    found: SearchResults, keep: Rows, k: Ints, refill: int, share: float, room: Rows
) -> tuple[Rows, Floats, Rows]:
    """For each list: how many of the best it holds, its threshold, and the room it needs elsewhere, or 0.

    A plain skyband keeps what has at least a share of the k-th score. Where the costs decide, a list that has
    hardly too little room keeps as many as fit in there.
    """
    held, threshold, rooms = np.empty(keep.size, np.int32), np.empty(keep.size), np.zeros(keep.size, np.int32)
    for i in range(keep.size):
        count, mine, score = found.size[i], k[i], found.score[i]
        if refill == SKYBAND and count > mine:
            keep[i] = mine
            while keep[i] < count - 1 and score[keep[i]] >= share * score[mine - 1]:
                keep[i] += 1
        least = keep[i] - keep[i] // 16
        fewer = keep[i] if _room_for(least, mine, refill) <= room[i] else least  # else none fits
        while refill == COST and _room_for(fewer, mine, refill) > room[i] and fewer > least:
            fewer -= 1
        if fewer > mine and _room_for(fewer, mine, refill) <= room[i]:
            keep[i] = fewer
        held[i] = min(count, keep[i])
        threshold[i] = score[keep[i]] if count > keep[i] else -np.inf
        needed = min(_room_for(keep[i], mine, refill), 2 * held[i] + SPARE)
        rooms[i] = needed if room[i] < needed or room[i] > 2 * (needed + SPARE) else 0
    return held, threshold, rooms


@njit(**EXACT)
def fill(
    buffers: Buffers,
    links: Links,
    owners: Rows,
    found: SearchResults,
    held: Rows,
    k: Ints,
    refill: int,
    ages: Ages,
) -> None:
    """Fill lists with the first `held` of what was found, without those dominated by k; there is room."""
    begins, sizes, _, _, _, held_item, held_score, dominators = buffers
    found_item, found_score, _, _ = found
    time, arrival, _, until, _, _, _ = ages
    head, length, link_owner, free = links
    times, arrivals = np.empty(found_item.shape[1], np.int64), np.empty(found_item.shape[1], np.int64)
    lasts = np.ones(found_item.shape[1], np.bool_)
    for i in range(owners.size):
        end = begins[owners[i]]
        for j in range(held[i]):
            item = found_item[i, j]
            prefetch(head, item)
            prefetch(length, item)
            times[j], arrivals[j] = time[item], arrival[item]
            if until.size > 0:
                lasts[j] = stays_on(until, item)
        for j in range(held[i]):
            dominating, mine, own = 0, times[j], arrivals[j]
            for earlier in range(j):
                later = (times[earlier] > mine) | ((times[earlier] == mine) & (arrivals[earlier] > own))
                dominating += later & lasts[earlier]
            if refill < SKYBAND or dominating < k[i]:
                held_item[end], held_score[end] = found_item[i, j], found_score[i, j]
                dominators[end] = min(MAX_DOMINATORS, dominating)
                end += 1
                link(head, length, link_owner, free, found_item[i, j], owners[i])
        sizes[owners[i]] = end - begins[owners[i]]


@njit(**EXACT)
def write_replaced(rows: Rows, old: Entries, new: Entries, changes: ChangeColumns) -> int:
    """Write what turns the old lists of rows into the new ones, both flat and in that order; return how much.

    Each entry is compared with all of the other list, several at a time, and written over if it is no change:
    for lists of some tens that is faster than looking up items. Cost: O(k) an entry.
    """
    mine, old_item, old_score, _ = old
    theirs, new_item, new_score, new_rank = new
    subscription, op, item, score, rank, former = changes
    i, j, size = 0, 0, 0
    for row in rows:
        old_end, new_end = i, j
        while old_end < mine.size and mine[old_end] == row:
            old_end += 1
        while new_end < theirs.size and theirs[new_end] == row:
            new_end += 1
        for at in range(i, old_end):
            stays = 0
            for other in range(j, new_end):
                stays += new_item[other] == old_item[at]
            subscription[size], op[size], item[size] = row, LEAVE, old_item[at]
            score[size], rank[size], former[size] = np.nan, 0, old_score[at]
            size += stays == 0
        for at in range(j, new_end):
            before = np.nan
            for other in range(i, old_end):
                before = old_score[other] if old_item[other] == new_item[at] else before
            subscription[size], item[size] = row, new_item[at]
            op[size] = ENTER if np.isnan(before) else UPDATE
            score[size], rank[size], former[size] = new_score[at], new_rank[at], before
            size += before != new_score[at]
        i, j = old_end, new_end
    return size
