"""Net changes of results: from a log of what entered and left the k best, or from the lists before and after.

A log is short where lists are long: a message that enters one of 20 is two lines. Lines are grouped by list,
in order; an item was in the list before if its first line is a LEAVE, and is in it now if its last one is an
ENTER. Most lists have one of each, which are the net change as they stand.

Cost: O(1) for such a list; for others O(lines) a line, and O(k) for each item that enters.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.message_search import Ages
from rankcast.geotext.kernels.skyband import KEPT, ResultLog
from rankcast.structures.boards import ENTER, LEAVE, UPDATE
from rankcast.structures.diff import ChangeColumns, Entries
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class CurrentLists(NamedTuple):
    """The current results: where each begins; items by entry."""

    begin: Ints
    item: Rows


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
def write_changes(
    log: ResultLog,
    lines: Rows,
    ends: Ints,
    owners: Rows,
    now: CurrentLists,
    ages: Ages,
    changes: ChangeColumns,
) -> int:
    """Write the changes of all lists in the order of the contract; returns how many. At most one a line.

    Lines are grouped by list in the order of `owners`; group i ends at `ends[i]`.
    """
    subscription, op, item, score, rank, former = changes
    _, log_op, log_item, log_score, log_time, log_arrival, undecayed = log
    begins, held = now
    time, arrival, _ = ages
    last, size, start = np.empty(lines.size, np.int8), 0, 0
    found, places = np.empty(lines.size, np.int32), np.empty(lines.size, np.int32)
    final = np.empty(lines.size, np.int32)
    for i in range(owners.size):
        first, start, end = start, ends[i], ends[i]
        if _is_net(log_item, log_op, log_arrival, lines, first, end):
            turned = log_op[lines[first]] == ENTER  # what goes is reported first
            for j in range(end - first):
                line = lines[end - 1 - j if turned else first + j]
                comes = log_op[line] == ENTER
                subscription[size], op[size], item[size] = owners[i], log_op[line], log_item[line]
                score[size], rank[size] = undecayed[line] if comes else np.nan, log_time[line] if comes else 0
                former[size] = np.nan if comes else undecayed[line]
                size += 1
            continue
        _outcomes(log_item, log_op, lines, first, end, last, final)
        leaves = _leaving(
            log_item, log_op, log_score, log_time, log_arrival, lines, first, end, last, time, arrival, found
        )
        for j in range(leaves):
            line = found[j]
            subscription[size], op[size], item[size] = owners[i], LEAVE, log_item[line]
            score[size], rank[size], former[size] = np.nan, 0, undecayed[line]
            size += 1
        for j in range(_entering(log_item, lines, first, end, last, held, begins[i], found, places)):
            line, its_score = lines[found[j]], undecayed[final[found[j]]]
            was = log_op[line] == LEAVE
            before = undecayed[line] if was else np.nan
            if before != its_score:
                subscription[size], op[size], item[size] = owners[i], UPDATE if was else ENTER, log_item[line]
                score[size], rank[size], former[size] = its_score, places[j] + 1, before
                size += 1
    return size


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
