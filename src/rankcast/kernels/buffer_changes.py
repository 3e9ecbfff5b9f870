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
from rankcast.kernels.difference import Told
from rankcast.kernels.message_search import Ages
from rankcast.kernels.options import EXACT
from rankcast.kernels.skyband import AHEAD, KEPT, Log, touch

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Now(NamedTuple):
    """Lists as they are: where each begins, how many of its entries are its result; items and scores."""

    begin: Ints
    length: Ints
    item: Rows
    score: Floats


@njit(**EXACT)
def _age(log: Log, line: int, ages: Ages) -> tuple[int, int]:
    """What says how new the item of a line is."""
    if log.arrival[line] != KEPT:
        return log.time[line], log.arrival[line]
    return ages.time[log.item[line]], ages.arrival[log.item[line]]


@njit(**EXACT)
def _ranks_before(log: Log, one: int, two: int, ages: Ages) -> bool:
    """Whether the item of one line ranked before that of another."""
    if log.score[one] != log.score[two]:
        return bool(log.score[one] > log.score[two])
    return _age(log, one, ages) > _age(log, two, ages)


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
    log: Log, lines: Rows, start: int, end: int, last: NDArray[np.int8], ages: Ages, gone: Rows
) -> int:
    """Find the first lines of what was in a list and is not, in order of rank; returns how many."""
    count, ops = 0, log.op
    for i in range(start, end):
        line = lines[i]
        if last[i] == LEAVE and ops[line] == LEAVE:
            at = count
            while at > 0 and _ranks_before(log, line, gone[at - 1], ages):
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
    _, log_op, log_item, _, _, _, own = log
    begins, _, held, held_score = now
    last, size, start, touched = np.empty(lines.size, np.int8), 0, 0, 0.0
    found, places = np.empty(lines.size, np.int32), np.empty(lines.size, np.int32)
    final = np.empty(lines.size, np.int32)
    for i in range(owners.size):
        end, begin = ends[i], begins[i]
        if i % AHEAD == 0:
            touched += touch(begins[i : i + AHEAD], held, held_score)
        _outcomes(log_item, log_op, lines, start, end, last, final)
        for line in found[: _leaves(log, lines, start, end, last, ages, found)]:
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
