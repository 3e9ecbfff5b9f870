"""The net change of ranked lists from a log of what came into their k best and what went.

A log is short where lists are long: a message that enters one of 20 is two lines. Lines are grouped by list,
in order; an item was in the list before if its first line says that it goes, and is in it now if its last one
says that it comes. `spot` finds the first line of an item: a place inside the group that holds the item
proves itself, so `spot` needs neither to be cleared nor to be set up.

Cost: O(lines), and O(k) for each list with a line.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.board import ENTER, LEAVE, UPDATE
from rankcast.kernels.difference import Told
from rankcast.kernels.options import EXACT
from rankcast.kernels.skyband import Log

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
def group(owner: Rows, owners: Rows, number: Rows) -> tuple[Rows, Ints]:
    """Lines grouped by list in the order of `owners`, and where each group ends; `number` is room by list."""
    for i in range(owners.size):
        number[owners[i]] = i
    ends = np.zeros(owners.size + 1, np.int64)
    for line in range(owner.size):
        ends[number[owner[line]] + 1] += 1
    for i in range(owners.size):
        ends[i + 1] += ends[i]
    lines = np.empty(owner.size, np.int32)
    for line in range(owner.size):
        which = number[owner[line]]
        lines[ends[which]] = line
        ends[which] += 1
    return lines, ends[:-1]


@njit(**EXACT)
def _ranks_before(log: Log, one: int, two: int) -> bool:
    """Whether the item of one line ranked before that of another."""
    if log.score[one] != log.score[two]:
        return bool(log.score[one] > log.score[two])
    if log.time[one] != log.time[two]:
        return bool(log.time[one] > log.time[two])
    return bool(log.arrival[one] > log.arrival[two])


@njit(**EXACT)
def _first_lines(log: Log, lines: Rows, start: int, end: int, spot: Rows, last: NDArray[np.int8]) -> None:
    """Note at the first line of each item of a group what its last line says."""
    items, ops = log.item, log.op
    for i in range(start, end):
        item = items[lines[i]]
        first = spot[item]
        if not (start <= first < i and items[lines[first]] == item):
            first = i
            spot[item] = i
        last[i] = -1
        last[first] = ops[lines[i]]


@njit(**EXACT)
def _write_leaves(
    log: Log, lines: Rows, start: int, end: int, last: NDArray[np.int8], told: Told, size: int
) -> int:
    """Write what was in a list and is not, in order of rank; returns how many changes there are then."""
    gone, count = np.empty(end - start, np.int32), 0
    for i in range(start, end):
        line = lines[i]
        if last[i] == LEAVE and log.op[line] == LEAVE:
            at = count
            while at > 0 and _ranks_before(log, line, gone[at - 1]):
                gone[at] = gone[at - 1]
                at -= 1
            gone[at] = line
            count += 1
    for line in gone[:count]:
        told.subscription[size], told.op[size], told.item[size] = log.owner[line], LEAVE, log.item[line]
        told.score[size], told.rank[size], told.former[size] = np.nan, 0, log.score[line]
        size += 1
    return size


@njit(**EXACT)
def write_changes(log: Log, lines: Rows, ends: Ints, owners: Rows, now: Now, spot: Rows, told: Told) -> int:
    """Write the changes of all lists in the order of the contract; returns how many. At most one a line."""
    subscription, op, item, score, rank, former = told
    begins, counts, held, held_score = now
    items, ops, scores = log.item, log.op, log.score
    last, size, start = np.empty(lines.size, np.int8), 0, 0
    for i in range(owners.size):
        end = ends[i]
        _first_lines(log, lines, start, end, spot, last)
        size = _write_leaves(log, lines, start, end, last, told, size)
        for j in range(counts[i]):
            which, its_score = held[begins[i] + j], held_score[begins[i] + j]
            first = spot[which]
            if not (start <= first < end and items[lines[first]] == which):
                continue
            was = ops[lines[first]] == LEAVE
            before = scores[lines[first]] if was else np.nan
            if before != its_score:
                subscription[size], op[size], item[size] = owners[i], UPDATE if was else ENTER, which
                score[size], rank[size], former[size] = its_score, j + 1, before
                size += 1
        start = end
    return size
