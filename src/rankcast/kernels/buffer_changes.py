"""The net change of ranked lists from a log of what came into their k best and what went.

A log is short where lists are long: a message that enters one of 20 is two lines. Lines are grouped by list,
in order; an item was in the list before if its first line says that it goes, and is in it now if its last one
says that it comes.

Cost: O(lines), and O(lines) for each line of a list that has many; O(k) for each item that comes.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.board import ENTER, LEAVE, UPDATE
from rankcast.kernels.buffer_store import AHEAD, touch
from rankcast.kernels.difference import Told
from rankcast.kernels.message_search import Ages
from rankcast.kernels.options import EXACT
from rankcast.kernels.skyband import KEPT, Log

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Now(NamedTuple):
    """Lists as they are: where each begins; items by entry."""

    begin: Ints
    item: Rows


@njit(**EXACT)
def _newer(log: Log, one: int, two: int, ages: Ages) -> bool:
    """Whether the item of one line is newer than that of another."""
    _, _, items, _, times, arrivals, _ = log
    time, arrival, _ = ages
    here = (times[one], arrivals[one])
    there = (times[two], arrivals[two])
    if arrivals[one] == KEPT:
        here = (time[items[one]], arrival[items[one]])
    if arrivals[two] == KEPT:
        there = (time[items[two]], arrival[items[two]])
    return here > there


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
def _leaves(
    log: Log, ops: NDArray[np.int8], scores: Floats, lines: Rows, start: int, end: int,
    last: NDArray[np.int8], ages: Ages, gone: Rows,
) -> int:  # fmt: skip
    """Find the first lines of what was in a list and is not, in order of rank; returns how many."""
    count = 0
    for i in range(start, end):
        line = lines[i]
        if last[i] == LEAVE and ops[line] == LEAVE:
            at = count
            while at > 0 and scores[line] >= scores[gone[at - 1]]:
                if scores[line] == scores[gone[at - 1]] and not _newer(log, line, gone[at - 1], ages):
                    break
                gone[at] = gone[at - 1]
                at -= 1
            gone[at] = line
            count += 1
    return count


@njit(**EXACT)
def _comers(
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
def write_changes(log: Log, lines: Rows, ends: Ints, owners: Rows, now: Now, ages: Ages, told: Told) -> int:
    """Write the changes of all lists in the order of the contract; returns how many. At most one a line.

    Lines are grouped by list in the order of `owners`; group i ends at `ends[i]`.
    """
    subscription, op, item, score, rank, former = told
    _, log_op, log_item, log_score, _, _, own = log
    begins, held = now
    last, size, start, touched = np.empty(lines.size, np.int8), 0, 0, 0.0
    found, places = np.empty(lines.size, np.int32), np.empty(lines.size, np.int32)
    final = np.empty(lines.size, np.int32)
    for i in range(owners.size):
        end, begin = ends[i], begins[i]
        if i % AHEAD == 0:
            touched += touch(begins[i : i + AHEAD], held)
        _outcomes(log_item, log_op, lines, start, end, last, final)
        for j in range(_leaves(log, log_op, log_score, lines, start, end, last, ages, found)):
            line = found[j]
            subscription[size], op[size], item[size] = owners[i], LEAVE, log_item[line]
            score[size], rank[size], former[size] = np.nan, 0, own[line]
            size += 1
        for j in range(_comers(log_item, lines, start, end, last, held, begin, found, places)):
            line, its_score = lines[found[j]], own[final[found[j]]]
            was = log_op[line] == LEAVE
            before = own[line] if was else np.nan
            if before != its_score:
                subscription[size], op[size], item[size] = owners[i], UPDATE if was else ENTER, log_item[line]
                score[size], rank[size], former[size] = its_score, places[j] + 1, before
                size += 1
        start = end
    former[size:] = touched  # never told, but written: else nothing would be read
    return size
