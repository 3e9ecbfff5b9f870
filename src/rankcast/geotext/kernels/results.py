"""Results as messages come and go: buffers, and the log of what enters and leaves the k best.

A buffer holds the k best items of a list and candidates to follow. Nothing here knows how a score is
computed. Item a dominates item b if it ranks before b and leaves after b; an item dominated by k others will
never be among the k best. (A message with an end of its own is taken to dominate nothing.) A buffer holds the
items that rank before a frontier, without those dominated by k: a k-skyband [Geo §6.1]. `threshold` is the
score of the best item beyond the frontier, minus infinity if there is none: an item of a higher score belongs
in, and so does one of the same score if no newer item has arrived before it. (If one has, it may rank on
either side, and the buffer must be refilled.)

A buffer that outgrows `capacity_of` is cut to its `keep` best, which moves the frontier up. Without dominance
the same buffer is the kmax method, and with `keep` = k it is no buffer at all. Buffers lie in stretches of
shared entry arrays; links lead from an item to the lists that hold it. How buffers are filled is in
`rankcast.geotext.kernels.skyband`.

Python hands tuples over as plain ones, which Numba recognises faster than named ones; see `hashing`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.postings import drop
from rankcast.geotext.kernels.score import ROW, Bits, TermVectors
from rankcast.geotext.kernels.verify import sort_keys
from rankcast.structures.arrays import borrowed, prefetch
from rankcast.structures.boards import ENTER, LEAVE
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Counts = NDArray[np.uint16]

LOWER = (1 << ROW) - 1  # what is below the list in a key
AHEAD, PREFETCHED, LINE = 32, 32, 64  # lists prefetched, entries of each; bytes of a cache line
NONE, KMAX, SKYBAND, COST = range(4)
KEPT = -1
SHORT = -1
LATEST = np.iinfo(np.int64).max
MAX_DOMINATORS = 65535  # dominators are not counted beyond: a list that wants more keeps some in vain
RELIST_RISE = 0.02  # a threshold that rises by more is written to the posting lists


class Ages(NamedTuple):
    """The age of messages by row: time, then arrival; and the stamp of their live postings.

    `until` is the end that a message has of its own, or the latest time; empty if none has one.
    """

    time: Ints
    arrival: Ints
    stamp: Bits
    until: Ints


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
def newer(time: Ints, arrival: Ints, one: int, two: int) -> bool:
    """Whether message `one` is newer than message `two`, and leaves the window later if by itself."""
    if time[one] != time[two]:
        return bool(time[one] > time[two])
    return bool(arrival[one] > arrival[two])


@njit(**EXACT)
def stays_on(until: Ints, item: int) -> bool:
    """Whether a message has no end of its own."""
    return bool(until.size == 0 or until[item] == LATEST)


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
def _holders(links: Links, items: Rows) -> Ints:
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
def expire(
    buffers: Buffers, links: Links, items: Rows, k: Ints, ages: Ages, log: ResultLog, lines: int,
    texts: TermVectors, dead: Rows, early: bool, refill: int, unsure: Bools,
) -> tuple[int, bool]:  # fmt: skip
    """Take items out of all lists and posting lists, as further lines of a log that has so many.

    They dominate nothing that stays, as the oldest ones do, unless they leave `early`: then what one of them
    dominated may have been dropped. It ranks behind: a list that holds k before the item is cut there, and of
    others one that may have dropped something is unsure; one that has not counts one dominator less. Returns
    how many lines there are, -1 less how many there may be if the log has no room, and what `drop` does of
    stamps.
    """
    buffers, links, items = borrowed(buffers), borrowed(links), borrowed(items)
    k, ages, unsure = borrowed(k), borrowed(ages), borrowed(unsure)
    begins, sizes, _, _, thresholds, held, score, dominators = buffers
    time, arrival, stamps, until = ages
    log_owner, log_op, log_item, log_score, log_time, log_arrival, _ = borrowed(log)
    (_, length, _, _, _), needed = links, 0
    for item in items:
        needed += 2 * length[item]
    if lines + needed > log_owner.size:
        return -1 - needed, True
    holding = sort_keys(_holders(links, items), 0, items.size, begins.size)
    for i in range(holding.size):
        if i + AHEAD < holding.size:
            prefetch_buffer(begins[holding[i + AHEAD] >> ROW], held, score, dominators)
        owner, item = holding[i] >> ROW, items[holding[i] & LOWER]
        begin, end = begins[owner], begins[owner] + sizes[owner]
        place, next_best = _place(held, begin, end, item), begin + k[owner]
        if place < 0:
            continue
        if early and refill >= SKYBAND and end >= next_best:
            if place >= next_best:
                thresholds[owner], sizes[owner] = score[place], place - begin
                continue
            unsure[owner] = True
        if place < next_best:
            log_owner[lines], log_op[lines], log_item[lines] = owner, LEAVE, item
            log_score[lines], log_time[lines], log_arrival[lines] = score[place], time[item], arrival[item]
            lines += 1
            if end > next_best:
                log_owner[lines], log_op[lines], log_item[lines] = owner, ENTER, held[next_best]
                log_score[lines], log_time[lines], log_arrival[lines] = score[next_best], k[owner], KEPT
                lines += 1
        sizes[owner] -= 1
        dominates = early and stays_on(until, item)
        for at in range(place, end - 1):
            held[at], score[at], dominators[at] = held[at + 1], score[at + 1], dominators[at + 1]
            if dominates and dominators[at] > 0 and newer(time, arrival, item, held[at]):
                dominators[at] -= np.uint16(1)
    return lines, drop(borrowed(dead), items, borrowed(texts), stamps)


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
    time, arrival, _, until = ages
    at, dominating = begin, 0
    while at < end:
        younger = newer(time, arrival, items[at], item)
        if scores[at] < score or (scores[at] == score and not younger):
            break
        dominating += 1 if younger and stays_on(until, items[at]) else 0
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
def offer(
    buffers: Buffers, links: Links, hits: tuple[Rows, Rows, Floats], rows: Rows, late: Bools, k: Ints,
    refill: int, ages: Ages, unsure: Bools, listed: Floats, horizon: float, log: ResultLog, lines: int,
    marked: tuple[Rows, Rows],
) -> tuple[int, int, int]:  # fmt: skip
    """Offer hits (lists, places in `rows`, scores) in order of lists; there is room for two lines each.

    `late`: something newer has come before the item. A list that outgrows what it may have is cut, and its
    frontier moves up. Marks in `unsure` which lists must be refilled. Returns how many lines the log has
    then, how many lists are unsure, and how many have another threshold (over the horizon) than the posting
    lists know; `marked` tells which, and `listed` is theirs now. Cost: O(size) a hit [Geo §6.2.1].
    """
    owners, arrivals, scores = hits
    begins, sizes, rooms, keeps, thresholds, held, held_score, dominators = buffers
    head, length, link_owner, after, free = links
    time, arrival, _, until = ages
    log_owner, log_op, log_item, log_score, log_time, log_arrival, _ = log
    for i in range(owners.size):
        if i + AHEAD < owners.size:
            prefetch_buffer(begins[owners[i + AHEAD]], held, held_score, dominators)
        owner, item, score, most = owners[i], rows[arrivals[i]], scores[i], k[owners[i]]
        begin, end, dominating, behind = begins[owner], begins[owner] + sizes[owner], 0, late[arrivals[i]]
        if score <= thresholds[owner] and (behind or score < thresholds[owner]):
            unsure[owner] |= score == thresholds[owner]
            continue
        if behind:
            at, dominating = _rank(held, held_score, begin, end, item, score, ages)
        else:
            at = _above(held_score, begin, end, score)
        if refill >= SKYBAND and dominating >= most:
            continue
        if end - begin == rooms[owner]:
            unsure[owner] = True
            continue
        if at < begin + most:
            log_owner[lines], log_op[lines], log_item[lines] = owner, ENTER, item
            log_score[lines], log_time[lines], log_arrival[lines] = score, at - begin + 1, KEPT
            lines += 1
            if end - begin >= most:
                least = begin + most - 1
                log_owner[lines], log_op[lines], log_item[lines] = owner, LEAVE, held[least]
                log_score[lines], log_time[lines], log_arrival[lines] = held_score[least], 0, KEPT
                lines += 1
        end = _insert(
            held, held_score, dominators, at, end, item, score, min(MAX_DOMINATORS, dominating),
            most if refill >= SKYBAND and stays_on(until, item) else 0, time, arrival, behind,
        )  # fmt: skip
        sizes[owner] = end - begin
        if sizes[owner] > capacity_of(keeps[owner], refill):
            thresholds[owner], sizes[owner] = held_score[begin + keeps[owner]], keeps[owner]
        link(head, length, link_owner, after, free, item, owner)
    doubtful, moved = marked
    doubts, moves, former = 0, 0, -1
    for owner in owners:
        if owner != former:
            now = thresholds[owner] / horizon
            doubtful[doubts], moved[moves] = owner, owner
            doubts += unsure[owner]
            if now < listed[owner] or now > listed[owner] + RELIST_RISE:
                listed[owner] = now
                moves += 1
        former = owner
    return lines, doubts, moves


@njit(**EXACT)
def is_short(row: int, sizes: Rows, thresholds: Floats, k: Ints, unsure: Bools) -> bool:
    """Whether a list must be refilled: it is unsure, or holds fewer than k though there may be more."""
    return bool(unsure[row] or (sizes[row] < k[row] and thresholds[row] > -np.inf))
