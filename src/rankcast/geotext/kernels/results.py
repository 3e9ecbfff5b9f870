"""Results as messages come and go: buffers, the log of what enters and leaves the k best, and net changes.

A buffer holds the k best items of a list and candidates to follow. Item a dominates item b if it ranks before
b and leaves after b; an item dominated by k others will never be among the k best. (A message with an end of
its own is taken to dominate nothing.) A buffer holds the items that rank before a frontier, without those
dominated by k: a k-skyband [Geo §6.1]. `threshold` is the score of the best item beyond the frontier, minus
infinity if there is none: an item of a higher score belongs in, and so does one of the same score if no newer
one has arrived before it. (Else it may rank on either side, and the buffer must be refilled.)

A buffer that outgrows `capacity_of` is cut to its best, `cut_of`, which moves the frontier up. Without
dominance the same buffer is the kmax method, and with `keep` = k it is no buffer at all. Buffers lie in
stretches of shared entry arrays; links lead from an item to the lists that hold it. How buffers are filled is
in `rankcast.geotext.kernels.skyband`.

What enters or leaves the k best is a line of a log. Net changes come from lines grouped by list, in order; an
item was in the list before if its first line is a LEAVE, and is in it now if its last one is an ENTER.
Most lists have one of each, which are the net change as they stand. Cost: O(1) for such a list; for others
O(lines) a line, and O(k) for each item that enters. Tuples come as plain ones; see `hashing`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.pair_scores import ROW, Links, holders, link, sort_keys
from rankcast.geotext.kernels.postings import Ages, drop, last_of_source, newer, stays_on
from rankcast.geotext.kernels.score import Bools, Floats, Ints, Plain, Rows, TermVectors, place_of, shift
from rankcast.structures.arrays import borrowed, prefetch
from rankcast.structures.diff import ChangeColumns
from rankcast.structures.jit import EXACT
from rankcast.structures.topk_lists import ENTER, LEAVE, UPDATE

Counts = NDArray[np.uint16]

AHEAD, PREFETCHED, LINE = 32, 32, 64  # lists prefetched, entries of each; bytes of a cache line
NONE, KMAX, SKYBAND, COST = range(4)
MAX_DOMINATORS = 65535  # dominators are not counted beyond: a list that wants more keeps some in vain
LOWER = (1 << ROW) - 1  # what is below the list in a key
KEPT = SHORT = -1
FEW_LINES = 16  # of a list in a log: they are compared with each other
RELIST_RISE = 0.02  # a threshold that rises by more is written to the posting lists


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
def prefetch_buffer(begin: int, items: Rows, scores: Floats, dominators: Counts) -> None:
    """Prefetch the first entries of a list, as many as lists hold as a rule."""
    for offset in range(0, PREFETCHED, LINE // 8):
        prefetch(scores, begin + offset)
    for offset in range(0, PREFETCHED, LINE // 4):
        prefetch(items, begin + offset)
    prefetch(dominators, begin)


@njit(**EXACT)
def skyband_size(held: int, k: int) -> int:
    """How many of the `held` best, k or more, fewer than k others dominate, in any order of arrival.

    That is k (1 + ln(held / k)); a quotient is near enough, and takes no logarithm.
    """
    ratio = held / k
    square = ratio * ratio
    return k + int(k * 3.0 * (square - 1.0) / (square + 4.0 * ratio + 1.0)) + 1


@njit(**EXACT)
def cut_of(keep: int, k: int, refill: int) -> int:
    """To how many entries a buffer is cut; where costs decide, dominated ones do not count."""
    return keep if refill < COST else min(keep, skyband_size(keep, k))


@njit(**EXACT)
def capacity_of(keep: int, k: int, refill: int) -> int:
    """How many entries a buffer may have before it is cut: where costs decide, those of a third more."""
    if refill <= KMAX:
        return keep
    if refill == SKYBAND:
        return keep + keep // 4 + 1
    return max(cut_of(keep, k, refill) + 1, skyband_size(keep + keep // 3 + 2, k))


@njit(**EXACT)
def insert(
    items: Rows, scores: Floats, dominators: Counts, at: int, end: int, item: int, score: float,
    dominating: int | np.int64, k: int, time: Ints, arrival: Ints, late: bool,
) -> int:  # fmt: skip
    """Put an item in its place `at`; count it with the older ones after it, drop those with k dominators.

    Without `k` nothing is counted. There is room. Returns the new end. What is dropped is rare: the loops
    before it are one instruction for many entries, and what it leaves is closed by moving what is before it.
    """
    drops, last = 0, end
    if k > 0:
        most = np.int32(min(k, MAX_DOMINATORS + 1))
        for i in range(np.uint64(at), np.uint64(end)):
            count = dominators[i]
            if not late or newer(time, arrival, item, items[i]):
                count = np.uint16(min(np.int32(MAX_DOMINATORS), np.int32(count) + np.int32(1)))
            dominators[i] = count
            drops += int(np.int32(count) >= most)
        if drops > 0:
            last = at
            while dominators[last] < k:
                last += 1
    shift(items, at, last - at, 1)
    shift(scores, at, last - at, 1)
    shift(dominators, at, last - at, 1)
    items[at], scores[at], dominators[at] = item, score, dominating
    if drops <= 1:
        return end + 1 - drops
    kept = last + 1
    for i in range(last + 1, end):
        if dominators[i] < k:
            items[kept], scores[kept], dominators[kept] = items[i], scores[i], dominators[i]
            kept += 1
    return kept


@njit(**EXACT)
def remove(items: Rows, scores: Floats, dominators: Counts, at: int, end: int) -> None:
    """Close the gap that an entry leaves."""
    shift(items, at + 1, end - at - 1, -1)
    shift(scores, at + 1, end - at - 1, -1)
    shift(dominators, at + 1, end - at - 1, -1)


@njit(**EXACT)
def rank_of(
    items: Rows, scores: Floats, begin: int, end: int, item: int, score: float, ages: Ages
) -> tuple[int, int]:
    """Where an item belongs in a list, and how many dominate it, if a newer one has arrived before it."""
    time, arrival, _, until, _, _, _ = ages
    at, dominating = begin, 0
    while at < end:
        younger = newer(time, arrival, items[at], item)
        if scores[at] < score or (scores[at] == score and not younger):
            break
        dominating += 1 if younger and stays_on(until, items[at]) else 0
        at += 1
    return at, dominating


@njit(**EXACT)
def above(scores: Floats, begin: int, end: int, score: float) -> int:
    """Where the newest item belongs in a list; all of it is looked at, without a branch."""
    count = 0
    for at in range(np.uint64(begin), np.uint64(end)):
        count += scores[at] > score
    return begin + count


@njit(**EXACT)
def expire(
    buffers: Buffers, links: Links, items: Rows, k: Ints, ages: Ages, log: ResultLog, lines: int,
    texts: TermVectors, dead: Rows, early: bool, refill: int, unsure: Bools,
) -> tuple[int, bool]:  # fmt: skip
    """Take items out of all lists and posting lists, as further lines of a log that has so many.

    They dominate nothing that stays, as the oldest ones do, unless they leave `early`: then what one of them
    dominated may have been dropped. It ranks behind: a list that holds k before the item is cut there, and of
    others one that may have dropped something is unsure; one that has not counts one dominator less. So one
    that had as many of its source as it may, if there are more. Returns how many lines there are, -1 less how
    many there may be if the log has no room, and what `drop` does of stamps.
    """
    buffers, links, items = borrowed(buffers), borrowed(links), borrowed(items)
    k, ages, unsure = borrowed(k), borrowed(ages), borrowed(unsure)
    begins, sizes, _, _, thresholds, held, score, dominators = buffers
    time, arrival, stamps, until, source, alive, per_source = ages
    log_owner, log_op, log_item, log_score, log_time, log_arrival, _ = borrowed(log)
    needed = 0
    for item in items:
        needed += 2 * links[1][item]
    if lines + needed > log_owner.size:
        return -1 - needed, True
    holding = sort_keys(holders(links, items), 0, items.size, begins.size)
    for i in range(holding.size):
        if i + AHEAD < holding.size:
            prefetch_buffer(begins[holding[i + AHEAD] >> ROW], held, score, dominators)
        owner, item = holding[i] >> ROW, items[holding[i] & LOWER]
        begin, end = begins[owner], begins[owner] + sizes[owner]
        place, next_best = place_of(held, begin, end, item), begin + k[owner]
        if place < 0:
            continue
        behind = early and refill >= SKYBAND and end >= next_best  # whether others may wait behind it
        if per_source > 0 and source[item] >= 0 and alive[source[item]] > per_source:
            behind = last_of_source(held, begin, end, source, item, per_source) >= 0
        if behind:
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
        remove(held, score, dominators, place, end)
        if early and stays_on(until, item):
            for at in range(place, end - 1):
                if dominators[at] > 0 and newer(time, arrival, item, held[at]):
                    dominators[at] -= np.uint16(1)
    return lines, drop(borrowed(dead), items, borrowed(texts), stamps)


@njit(**EXACT)
def offer(
    buffers: Buffers, links: Links, hits: tuple[Rows, Rows, Floats], rows: Rows, late: Bools, k: Ints,
    refill: int, ages: Ages, unsure: Bools, listed: Floats, horizon: float, log: ResultLog, lines: int,
    marked: tuple[Rows, Rows],
) -> tuple[int, int, int]:  # fmt: skip
    """Offer hits (lists, places in `rows`, scores) in order of lists; there is room for two lines each.

    `late`: something newer has come before the item. A list that has as many of the item's source as it may
    gives its last one of them away, or does not take it. One that outgrows what it may have is cut, and its
    frontier moves up. Marks in `unsure` which lists must be refilled. Returns how many lines the log has
    then, how many lists are unsure, and how many have another threshold (over the horizon) than the posting
    lists know; `marked` tells which, and `listed` is theirs now. Cost: O(size) a hit [Geo §6.2.1].
    """
    owners, arrivals, scores = hits
    begins, sizes, rooms, keeps, thresholds, held, held_score, dominators = buffers
    head, length, link_owner, free = links
    time, arrival, _, until, source, _, per_source = ages
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
            at, dominating = rank_of(held, held_score, begin, end, item, score, ages)
        else:
            at = above(held_score, begin, end, score)
        if refill >= SKYBAND and dominating >= most:
            continue
        evicted = last_of_source(held, begin, end, source, item, per_source) if per_source > 0 else -1
        full = end - begin == rooms[owner] and evicted < 0
        unsure[owner] |= full
        if full or 0 <= evicted < at:
            continue
        if at < begin + most:
            log_owner[lines], log_op[lines], log_item[lines] = owner, ENTER, item
            log_score[lines], log_time[lines], log_arrival[lines] = score, at - begin + 1, KEPT
            lines += 1
            if end - begin >= most or evicted >= 0:
                least = min(evicted, begin + most - 1) if evicted >= 0 else begin + most - 1
                log_owner[lines], log_op[lines], log_item[lines] = owner, LEAVE, held[least]
                log_score[lines], log_time[lines], log_arrival[lines] = held_score[least], 0, KEPT
                lines += 1
        if evicted >= 0:
            end -= 1
            for after_it in range(evicted, end):
                held[after_it], held_score[after_it] = held[after_it + 1], held_score[after_it + 1]
        end = insert(
            held, held_score, dominators, at, end, item, score, min(MAX_DOMINATORS, dominating),
            most if refill >= SKYBAND and stays_on(until, item) else 0, time, arrival, behind,
        )  # fmt: skip
        sizes[owner] = end - begin
        if sizes[owner] > capacity_of(keeps[owner], most, refill):
            cut = cut_of(keeps[owner], most, refill)
            thresholds[owner], sizes[owner] = held_score[begin + cut], cut
        link(head, length, link_owner, free, item, owner)
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


@njit(**EXACT)
def _is_net(items: Rows, ops: NDArray[np.int8], arrivals: Ints, lines: Rows, start: int, end: int) -> bool:
    """Whether lines of a list are its net change: one ENTER with its rank, one LEAVE, or one of each."""
    one, two = lines[start], lines[end - 1]
    ranked = (ops[one] == LEAVE or arrivals[one] == KEPT) and (ops[two] == LEAVE or arrivals[two] == KEPT)
    apart = end - start == 2 and ops[one] != ops[two] and items[one] != items[two]
    return bool(ranked and (apart or end - start == 1))


@njit(**EXACT)
def _outcomes(
    items: Rows, ops: NDArray[np.int8], lines: Rows, start: int, end: int, last: NDArray[np.int8],
    final: Rows, firsts: Rows,
) -> None:  # fmt: skip
    """Note at the first line of each item of a group which line is its last and what that says.

    `firsts` is -1 by item, for groups of many lines: the first line of an item is written there meanwhile.
    """
    many = end - start > FEW_LINES
    for i in range(start, end):
        first, item = start, items[lines[i]]
        if many:
            first = firsts[item]
            if first < 0:
                first = firsts[item] = i
        else:
            while items[lines[first]] != item:
                first += 1
        last[i] = -1
        last[first], final[first] = ops[lines[i]], lines[i]
    if many:
        for i in range(start, end):
            firsts[items[lines[i]]] = -1


@njit(**EXACT)
def _age(time: Ints, arrival: Ints, times: Ints, arrivals: Ints, line: int, item: int) -> tuple[int, int]:
    """The time and arrival of the item of a line: from the line, or from its columns."""
    if arrivals[line] == KEPT:
        return time[item], arrival[item]
    return times[line], arrivals[line]


@njit(**EXACT)
def _leaving(
    items: Rows, ops: NDArray[np.int8], scores: Floats, times: Ints, arrivals: Ints, lines: Rows, start: int,
    end: int, last: NDArray[np.int8], time: Ints, arrival: Ints, gone: Rows,
) -> int:  # fmt: skip
    """Find the first lines of what was in a list and is not, in order of rank; returns how many."""
    count = 0
    for i in range(start, end):
        line = lines[i]
        if last[i] == LEAVE and ops[line] == LEAVE:
            at = count
            while at > 0 and scores[line] >= scores[gone[at - 1]]:
                other = gone[at - 1]
                here = _age(time, arrival, times, arrivals, line, items[line])
                there = _age(time, arrival, times, arrivals, other, items[other])
                if scores[line] == scores[other] and here <= there:
                    break
                gone[at] = other
                at -= 1
            gone[at] = line
            count += 1
    return count


@njit(**EXACT)
def _entering(
    items: Rows, lines: Rows, start: int, end: int, last: NDArray[np.int8], held: Rows, begin: int,
    most: int, found: Rows, places: Rows,
) -> int:  # fmt: skip
    """Find where the first lines are of what is in a list now, and its places there, in order of rank.

    The list holds them among its `most` items from `begin` on. Returns how many.
    """
    count = 0
    for i in range(start, end):
        if last[i] == ENTER:
            place, at = place_of(held, begin, begin + most, items[lines[i]]) - begin, count
            while at > 0 and places[at - 1] > place:
                found[at], places[at] = found[at - 1], places[at - 1]
                at -= 1
            found[at], places[at] = i, place
            count += 1
    return count


@njit(**EXACT)
def _by_list(owners: Rows, size: int, sequence: Ints) -> tuple[Rows, Rows, Ints]:
    """The lists of the lines of a log as registered, the lines by list, and where those of each list end."""
    keys, count = np.empty(size, np.int64), 0
    for line in range(size):
        keys[line] = np.int64(owners[line]) << ROW | line
    keys = sort_keys(keys, ROW, 1, sequence.size)
    lists, ends = np.empty(size, np.int32), np.empty(size, np.int64)
    lines, ordered = np.empty(size, np.int32), True
    for i in range(size):
        owner, lines[i] = keys[i] >> ROW, keys[i] & LOWER
        if count == 0 or lists[count - 1] != owner:
            ordered &= count == 0 or sequence[lists[count - 1]] < sequence[owner]
            lists[count] = owner
            count += 1
        ends[count - 1] = i + 1
    lists, ends = lists[:count], ends[:count]
    if ordered:
        return lists, lines, ends
    order, turned, stops, at = np.argsort(sequence[lists]), np.empty_like(lines), np.empty_like(ends), 0
    for i in range(count):
        for j in range(ends[order[i] - 1] if order[i] > 0 else 0, ends[order[i]]):
            turned[at] = lines[j]
            at += 1
        stops[i] = at
    return lists[order], turned, stops


@njit(**EXACT)
def net_changes(
    log: ResultLog, size: int, expired: int, k: Ints, unsure: Bools, sequence: Ints, buffers: Buffers,
    ages: Ages, changes: ChangeColumns,
) -> int:  # fmt: skip
    """Write the net changes of all lists of a log of so many lines, in the order of the contract.

    At most one a line; lists in the order of registration, by `sequence`. Returns how many; `SHORT`, and
    nothing is written, if a list of the first `expired` lines must be refilled first.
    """
    log_owner, log_op, log_item, log_score, log_time, log_arrival, undecayed = log
    begins, sizes, _, _, thresholds, held, _, _ = buffers
    for line in range(expired):
        if is_short(log_owner[line], sizes, thresholds, k, unsure):
            return SHORT
    owners, lines, ends = _by_list(log_owner, size, sequence)
    subscription, op, item, score, rank, former = changes
    time, arrival, _, _, _, _, _ = ages
    last, used, start = np.empty(size, np.int8), 0, 0
    found, places, final = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    firsts = np.empty(0, np.int32)
    for i in range(owners.size):
        first, start, end = start, ends[i], ends[i]
        if end - first > FEW_LINES and firsts.size == 0:
            firsts = np.full(time.size, -1, np.int32)
        if _is_net(log_item, log_op, log_arrival, lines, first, end):
            turned = log_op[lines[first]] == ENTER  # what goes is reported first
            for j in range(end - first):
                line = lines[end - 1 - j if turned else first + j]
                comes = log_op[line] == ENTER
                subscription[used], op[used], item[used] = owners[i], log_op[line], log_item[line]
                score[used], rank[used] = undecayed[line] if comes else np.nan, log_time[line] if comes else 0
                former[used] = np.nan if comes else undecayed[line]
                used += 1
            continue
        _outcomes(log_item, log_op, lines, first, end, last, final, firsts)
        leaves = _leaving(
            log_item, log_op, log_score, log_time, log_arrival, lines, first, end, last, time, arrival, found
        )
        for j in range(leaves):
            line = found[j]
            subscription[used], op[used], item[used] = owners[i], LEAVE, log_item[line]
            score[used], rank[used], former[used] = np.nan, 0, undecayed[line]
            used += 1
        begin, most = begins[owners[i]], min(k[owners[i]], sizes[owners[i]])
        for j in range(_entering(log_item, lines, first, end, last, held, begin, most, found, places)):
            line, its_score = lines[found[j]], undecayed[final[found[j]]]
            was = log_op[line] == LEAVE
            before = undecayed[line] if was else np.nan
            if before != its_score:
                subscription[used], op[used], item[used] = owners[i], UPDATE if was else ENTER, log_item[line]
                score[used], rank[used], former[used] = its_score, places[j] + 1, before
                used += 1
    return used


@njit(**EXACT)
def take(
    buffers: Buffers, links: Links, hits: Plain, rows: Rows, late: Bools, k: Ints, refill: int, ages: Ages,
    unsure: Bools, listed: Floats, horizon: float, log: ResultLog, lines: int, marked: tuple[Rows, Rows],
    tells: bool, expired: int, sequence: Ints, changes: ChangeColumns,
) -> tuple[int, int, int, int]:  # fmt: skip
    """`offer`, and if it `tells` and no list is unsure `net_changes` at once; returns what both do."""
    buffers, ages, log = borrowed(buffers), borrowed(ages), borrowed(log)
    k, unsure = borrowed(k), borrowed(unsure)
    lines, doubts, moves = offer(
        buffers, borrowed(links), borrowed(hits), borrowed(rows), borrowed(late), k, refill, ages, unsure,
        borrowed(listed), horizon, log, lines, borrowed(marked),
    )  # fmt: skip
    told = SHORT
    if tells and doubts == 0:
        told = net_changes(
            log, lines, expired, k, unsure, borrowed(sequence), buffers, ages, borrowed(changes)
        )
    return lines, doubts, moves, told
