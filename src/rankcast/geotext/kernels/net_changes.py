"""Net changes of results from the log of what enters and leaves the k best of lists.

Whatever enters or leaves the k best is a line of a log, which is short where lists are long: a message that
enters one of 20 is two lines. Net changes come from lines grouped by list, in order; an item was in the list
before if its first line is a LEAVE, and is in it now if its last one is an ENTER. Most lists have one of
each, which are the net change as they stand. Cost: O(1) for such a list; for others O(lines) a line, and O(k)
for each item that enters.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.results import (
    KEPT,
    LOWER,
    SHORT,
    Ages,
    Bools,
    Buffers,
    Floats,
    Ints,
    Links,
    ResultLog,
    Rows,
    is_short,
    offer,
)
from rankcast.geotext.kernels.score import ROW, Plain
from rankcast.geotext.kernels.verify import sort_keys
from rankcast.structures.arrays import borrowed
from rankcast.structures.boards import ENTER, LEAVE, UPDATE
from rankcast.structures.diff import ChangeColumns
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def _is_net(items: Rows, ops: NDArray[np.int8], arrivals: Ints, lines: Rows, start: int, end: int) -> bool:
    """Whether lines of a list are its net change: one ENTER with its rank, one LEAVE, or one of each."""
    one, two = lines[start], lines[end - 1]
    ranked = (ops[one] == LEAVE or arrivals[one] == KEPT) and (ops[two] == LEAVE or arrivals[two] == KEPT)
    apart = end - start == 2 and ops[one] != ops[two] and items[one] != items[two]
    return bool(ranked and (apart or end - start == 1))


@njit(**EXACT)
def _outcomes(
    items: Rows, ops: NDArray[np.int8], lines: Rows, start: int, end: int, last: NDArray[np.int8], final: Rows
) -> None:
    """Note at the first line of each item of a group which line is its last and what that says."""
    for i in range(start, end):
        first = start
        while items[lines[first]] != items[lines[i]]:
            first += 1
        last[i] = -1
        last[first], final[first] = ops[lines[i]], lines[i]


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
    found: Rows, places: Rows,
) -> int:  # fmt: skip
    """Find where the first lines are of what is in a list now, and its places there, in order of rank.

    The list holds items from `begin` on. Returns how many.
    """
    count = 0
    for i in range(start, end):
        if last[i] == ENTER:
            place, at = 0, count
            while held[begin + place] != items[lines[i]]:
                place += 1
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
    time, arrival, _, _ = ages
    last, used, start = np.empty(size, np.int8), 0, 0
    found, places, final = np.empty(size, np.int32), np.empty(size, np.int32), np.empty(size, np.int32)
    for i in range(owners.size):
        first, start, end = start, ends[i], ends[i]
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
        _outcomes(log_item, log_op, lines, first, end, last, final)
        leaves = _leaving(
            log_item, log_op, log_score, log_time, log_arrival, lines, first, end, last, time, arrival, found
        )
        for j in range(leaves):
            line = found[j]
            subscription[used], op[used], item[used] = owners[i], LEAVE, log_item[line]
            score[used], rank[used], former[used] = np.nan, 0, undecayed[line]
            used += 1
        for j in range(_entering(log_item, lines, first, end, last, held, begins[owners[i]], found, places)):
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
