"""Result buffers: the k best items of a list and candidates to follow, by dominance of score and age.

Nothing here knows how a score is computed. Item a dominates item b if it ranks before b and leaves after b;
an item dominated by k others will never be among the k best. A buffer holds the items that rank before a
frontier, without those dominated by k: a k-skyband [Geo §6.1]. `threshold` is the score of the best item
beyond the frontier, minus infinity if there is none: an item of a higher score belongs in, and so does one
of the same score if no newer item has arrived before it. (If one has, it may rank on either side, and the
buffer must be refilled.)

A buffer that outgrows `capacity_of` is cut to its `keep` best, which moves the frontier up. Without
dominance the same buffer is the kmax method, and with `keep` = k it is no buffer at all.

Buffers lie in stretches of shared entry arrays; links lead from an item to the lists that hold it.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.message_search import Ages, SearchResults, newer
from rankcast.structures.arrays import prefetch
from rankcast.structures.boards import ENTER, LEAVE
from rankcast.structures.jit import EXACT

Counts = NDArray[np.uint16]

ROW, LOWER = 32, (1 << 32) - 1  # where the list begins in a key, and what is below it
AHEAD, PREFETCHED, LINE = 32, 32, 64  # lists prefetched, entries of each; bytes of a cache line


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
    """Link an item to a list that holds it; there is a free link."""
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
def prefetch_buffer(begin: int, items: Rows, scores: Floats, dominators: Counts) -> None:
    """Prefetch the first entries of a list, as many as lists hold as a rule."""
    for offset in range(0, PREFETCHED, LINE // 8):
        prefetch(scores, begin + offset)
    for offset in range(0, PREFETCHED, LINE // 4):
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
            for offset in range(0, PREFETCHED, LINE // 8):
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
    """Rebuild all links from what the lists hold; there are enough."""
    head, length, owners, after, free = links
    begins, sizes, _, _, _, items, _, _ = buffers
    head[:], length[:] = -1, 0
    for at in range(after.size):
        after[at] = at + 1 if at + 1 < after.size else -1
    free[0], free[1] = 0, 0
    for owner in range(begins.size):
        for at in range(begins[owner], begins[owner] + sizes[owner]):
            link(head, length, owners, after, free, items[at], owner)


Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

NONE, KMAX, SKYBAND, COST = range(4)
KEPT = -1
SPARE = 32  # entries that a small list has room for beside its own, and a large one in vain
MAX_DOMINATORS = 65535  # dominators are not counted beyond: a list that wants more keeps some in vain
MAX_KEEP = 2**30  # entries that a list keeps at most


class ResultLog(NamedTuple):
    """What enters and leaves the k best of lists, in order.

    `time` and `arrival` are those of an item that is leaving the window; for others, which keep theirs to the
    end of the batch, `arrival` is `KEPT`, and `time` is the rank at which one enters. Items rank by `score`;
    answers report `undecayed`.
    """

    owner: Rows
    op: NDArray[np.int8]
    item: Rows
    score: Floats
    time: Ints
    arrival: Ints
    undecayed: Floats


@njit(**EXACT)
def _empty_log(room: int) -> ResultLog:
    """A log with room for so many."""
    owners, ops, items = np.empty(room, np.int32), np.empty(room, np.int8), np.empty(room, np.int32)
    scores, times, arrivals = np.empty(room), np.empty(room, np.int64), np.empty(room, np.int64)
    return ResultLog(owners, ops, items, scores, times, arrivals, scores)


@njit(**EXACT)
def _prefix_of(log: ResultLog, written: int) -> ResultLog:
    """The part of a log that was written."""
    owners, ops, items, scores, times, arrivals, undecayed = log
    first = (
        owners[:written],
        ops[:written],
        items[:written],
        scores[:written],
        times[:written],
        arrivals[:written],
    )
    return ResultLog(first[0], first[1], first[2], first[3], first[4], first[5], undecayed[:written])


@njit(**EXACT)
def capacity_of(keep: int, refill: int) -> int:
    """How many entries a buffer may have before it is cut."""
    return keep if refill <= KMAX else keep + keep // 4 + 1


@njit(**EXACT)
def _place(items: Rows, begin: int, end: int, item: int) -> int:
    """Where a list at begin..end holds an item, -1 if it does not."""
    for at in range(begin, end):
        if items[at] == item:
            return at
    return -1


@njit(**EXACT)
def expire(buffers: Buffers, holding: Ints, items: Rows, k: Ints, ages: Ages) -> ResultLog:
    """Take items out of all lists. They are the oldest, so they dominate nothing that stays.

    `holding` says which lists hold which items (see `holders`), in order.
    """
    begins, sizes, _, _, _, held, score, dominators = buffers
    time, arrival, _ = ages
    log, written = _empty_log(2 * holding.size), 0
    log_owner, log_op, log_item, log_score, log_time, log_arrival, _ = log
    for i in range(holding.size):
        if i + AHEAD < holding.size:
            prefetch_buffer(begins[holding[i + AHEAD] >> ROW], held, score, dominators)
        owner, item = holding[i] >> ROW, items[holding[i] & LOWER]
        begin, end = begins[owner], begins[owner] + sizes[owner]
        place, next_best = _place(held, begin, end, item), begin + k[owner]
        if place < 0:
            continue
        if place < next_best:
            log_owner[written], log_op[written], log_item[written], log_score[written] = (
                owner,
                LEAVE,
                item,
                score[place],
            )
            log_time[written], log_arrival[written] = time[item], arrival[item]
            written += 1
            if end > next_best:
                log_owner[written], log_op[written], log_item[written] = owner, ENTER, held[next_best]
                log_score[written], log_time[written], log_arrival[written] = score[next_best], k[owner], KEPT
                written += 1
        sizes[owner] -= 1
        for at in range(place, end - 1):
            held[at], score[at], dominators[at] = held[at + 1], score[at + 1], dominators[at + 1]
    return _prefix_of(log, written)


@njit(**EXACT)
def _insert(
    items: Rows, scores: Floats, dominators: Counts, at: int, end: int, item: int, score: float,
    dominating: int | np.int64, k: int, time: Ints, arrival: Ints, late: bool,
) -> int:  # fmt: skip
    """Put an item in its place `at`; count it with the older ones after it, drop those with k dominators.

    Without `k` nothing is counted. There is room for one more. Returns the new end.
    """
    newcomer = item  # `item` is what is still to be placed: the newcomer first, then whom it displaces
    for i in range(at, end):
        its, its_score, count = items[i], scores[i], dominators[i]
        if k > 0 and (not late or newer(time, arrival, newcomer, its)):
            count = np.uint16(min(MAX_DOMINATORS, count + 1))
        items[at], scores[at], dominators[at] = item, score, dominating
        stays = count < k or k == 0
        at += 1 if stays else 0
        item, score, dominating = (its, its_score, np.int64(count)) if stays else (item, score, dominating)
    items[at], scores[at], dominators[at] = item, score, dominating
    return at + 1


@njit(**EXACT)
def _rank(
    items: Rows, scores: Floats, begin: int, end: int, item: int, score: float, ages: Ages
) -> tuple[int, int]:
    """Where an item belongs in a list, and how many dominate it, if a newer one has arrived before it."""
    time, arrival, _ = ages
    at, dominating = begin, 0
    while at < end:
        younger = newer(time, arrival, items[at], item)
        if scores[at] < score or (scores[at] == score and not younger):
            break
        dominating += 1 if younger else 0
        at += 1
    return at, dominating


@njit(**EXACT)
def _above(scores: Floats, begin: int, end: int, score: float) -> int:
    """Where the newest item belongs in a list; all of it is looked at, without a branch."""
    count = 0
    for at in range(begin, end):
        count += scores[at] > score
    return begin + count


@njit(**EXACT)
def offer_all(
    buffers: Buffers, links: Links, hits: tuple[Rows, Rows, Floats], k: Ints, refill: int, ages: Ages,
    late: NDArray[np.bool_], doubtful: NDArray[np.bool_],
) -> ResultLog:  # fmt: skip
    """Offer hits (lists, items, scores) in order of lists; marks the lists that must be refilled.

    `late`: something newer has come before the item. A list that outgrows what it may have is cut, and its
    frontier moves up. Cost: O(size) a hit [Geo §6.2.1].
    """
    owners, items, scores = hits
    begins, sizes, rooms, keeps, thresholds, held, held_score, dominators = buffers
    head, length, link_owner, after, free = links
    time, arrival, _ = ages
    log, written = _empty_log(2 * owners.size), 0
    log_owner, log_op, log_item, log_score, log_time, log_arrival, _ = log
    for i in range(owners.size):
        if i + AHEAD < owners.size:
            prefetch_buffer(begins[owners[i + AHEAD]], held, held_score, dominators)
        owner, item, score, most = owners[i], items[i], scores[i], k[owners[i]]
        begin, end, dominating = begins[owner], begins[owner] + sizes[owner], 0
        if score <= thresholds[owner] and (late[i] or score < thresholds[owner]):
            doubtful[owner] |= score == thresholds[owner]
            continue
        if late[i]:
            at, dominating = _rank(held, held_score, begin, end, item, score, ages)
        else:
            at = _above(held_score, begin, end, score)
        if refill >= SKYBAND and dominating >= most:
            continue
        if end - begin == rooms[owner]:
            doubtful[owner] = True
            continue
        if at < begin + most:
            log_owner[written], log_op[written], log_item[written], log_score[written] = (
                owner,
                ENTER,
                item,
                score,
            )
            log_time[written], log_arrival[written] = at - begin + 1, KEPT
            written += 1
            if end - begin >= most:
                least = begin + most - 1
                log_owner[written], log_op[written], log_item[written] = owner, LEAVE, held[least]
                log_score[written], log_time[written], log_arrival[written] = held_score[least], 0, KEPT
                written += 1
        end = _insert(
            held, held_score, dominators, at, end, item, score, min(MAX_DOMINATORS, dominating),
            most if refill >= SKYBAND else 0, time, arrival, late[i],
        )  # fmt: skip
        sizes[owner] = end - begin
        if sizes[owner] > capacity_of(keeps[owner], refill):
            thresholds[owner], sizes[owner] = held_score[begin + keeps[owner]], keeps[owner]
        link(head, length, link_owner, after, free, item, owner)
    return _prefix_of(log, written)


@njit(**EXACT)
def cost(held: float, k: int, window: float, search: float) -> float:
    """The expected cost of an update if the `held` best of a window are kept [Geo §6.2, (11) to (16)].

    Upkeep: the chance that an update concerns the buffer, times its size without the dominated. Filling anew:
    the cost of a search over the updates until fewer than k are left, a random walk from `held` to k - 1
    with a reflecting barrier at twice `held`.
    """
    chance = held / window
    upkeep = chance * k * math.log(held / k)
    spare = held - k + 1.0
    updates = (2.0 * spare * held + spare * (spare + 1.0)) / chance
    return upkeep + search / updates


@njit(**EXACT)
def cheapest_size(k: int, most: int, window: float, search: float) -> int:
    """How many messages, from k to `most`, are cheapest to keep."""
    best, least = k, cost(float(k), k, window, search)
    for held in range(k + 1, most + 1):
        price = cost(float(held), k, window, search)
        if price < least:
            best, least = held, price
    return best


@njit(**EXACT)
def sizes_to_keep(k: Ints, refill: int, kmax: int, window: float, search: float) -> Rows:
    """How many entries each list keeps: what is cheapest, given what a search costs in the mean.

    At most `kmax` times k. Other refills keep k, as many as that (kmax) or, before scores are known, 1.5 k;
    so do lists over a small window. None keeps more than MOST, which no window comes to.
    """
    keep = np.empty(k.size, np.int32)
    for i in range(k.size):
        most = kmax * k[i]
        if i > 0 and k[i] == k[i - 1]:
            keep[i] = keep[i - 1]
        elif refill == COST and window > most:
            keep[i] = cheapest_size(k[i], most, window, search)
        else:
            all_of = k[i] if refill == NONE else most if refill == KMAX else k[i] + k[i] // 2 + 1
            keep[i] = min(all_of, MAX_KEEP)
    return keep


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
        fewer = keep[i] if capacity_of(least, refill) < room[i] else least  # else none fits, of up to MOST
        while refill == COST and capacity_of(fewer, refill) >= room[i] and fewer > least:
            fewer -= 1
        if fewer > mine and capacity_of(fewer, refill) < room[i]:
            keep[i] = fewer
        held[i] = min(count, keep[i])
        threshold[i] = score[keep[i]] if count > keep[i] else -np.inf
        needed = min(capacity_of(keep[i], refill) + 1, 2 * held[i] + SPARE)
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
    time, arrival, _ = ages
    head, length, link_owner, after, free = links
    times, arrivals = np.empty(found_item.shape[1], np.int64), np.empty(found_item.shape[1], np.int64)
    for i in range(owners.size):
        end = begins[owners[i]]
        for j in range(held[i]):
            item = found_item[i, j]
            prefetch(head, item)
            prefetch(length, item)
            times[j], arrivals[j] = time[item], arrival[item]
        for j in range(held[i]):
            dominating, mine, own = 0, times[j], arrivals[j]
            for earlier in range(j):
                dominating += (times[earlier] > mine) | ((times[earlier] == mine) & (arrivals[earlier] > own))
            if refill < SKYBAND or dominating < k[i]:
                held_item[end], held_score[end] = found_item[i, j], found_score[i, j]
                dominators[end] = min(MAX_DOMINATORS, dominating)
                end += 1
                link(head, length, link_owner, after, free, found_item[i, j], owners[i])
        sizes[owners[i]] = end - begins[owners[i]]
