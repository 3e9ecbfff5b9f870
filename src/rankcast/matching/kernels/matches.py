"""The lists of matches of many events: one behind the other, as they are found, as they are told."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.matching.kernels.box_tree import Columns
from rankcast.structures.heap import better
from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]
Longs = NDArray[np.int64]
Lists = tuple[Longs, Rows, Floats]
Answers = tuple[Longs, Rows, Floats, int, int]  # the fields of `rankcast.matching.search.Found`
ALL, SUM, LARGEST = range(3)  # all intervals must meet the event; their weights are added; the largest counts


class Matches(NamedTuple):
    """The matches of event e, `number[e]` from `start[e]` on; rows `tried`, blocks `looked` into."""

    start: Longs
    number: Longs
    row: Rows
    score: Floats
    tried: int
    looked: int


@njit(**EXACT)
def append_list(row: Rows, score: Floats, used: int, rows: Rows, scores: Floats) -> tuple[Rows, Floats]:
    """Write a list behind what is used; returns the arrays, which double where they are full."""
    end = used + rows.shape[0]
    if end > row.shape[0]:
        length = max(2 * row.shape[0], end)
        longer_row, longer_score = np.empty(length, np.int32), np.empty(length)
        longer_row[:used], longer_score[:used] = row[:used], score[:used]
        row, score = longer_row, longer_score
    row[used:end], score[used:end] = rows, scores
    return row, score


@njit(**EXACT)
def in_event_order(found: Matches) -> Answers:
    """The same lists one behind the other in the order of events, whatever order they were found in."""
    number, start = found.number, found.start
    row, score, place = np.empty(number.sum(), np.int32), np.empty(number.sum()), 0
    for e in range(number.shape[0]):
        for i in range(start[e], start[e] + number[e]):
            row[place], score[place] = found.row[i], found.score[i]
            place += 1
    return number, row, score, found.tried, found.looked


@njit(**EXACT)
def weights_met(columns: Columns, rows: Rows, below: Floats, above: Floats) -> Floats:
    """The weights of rows (n, d) where their intervals meet an event with the ends (d,), 0 elsewhere."""
    lo, hi, weight = columns.lo, columns.hi, columns.weight
    met = np.empty((rows.shape[0], weight.shape[1]))
    for place in range(rows.shape[0]):
        row = rows[place]
        for j in range(weight.shape[1]):
            meets = (lo[row, j] <= below[j]) & (hi[row, j] >= above[j])
            met[place, j] = weight[row, j] * meets
    return met


@njit(**EXACT)
def told(head: Longs, number: Longs, row: Rows, score: Floats, events: Longs, codes: Longs) -> Longs:
    """Behind `head`, four lines with a word for each match: id of the event, rank, id of the row, score.

    Ranks count from 1; scores are bits of floats. `events` are ids by place, `codes` by row; where these are
    empty (ids are strings), an event is told by its place, a row not at all.
    """
    total, place = row.shape[0], 0
    words = np.empty(head.shape[0] + 4 * total, np.int64)
    words[: head.shape[0]] = head
    event, rank, code, bits = words[head.shape[0] :].reshape((4, total))
    bits[:] = score.view(np.int64)
    for e in range(number.shape[0]):
        for i in range(number[e]):
            event[place], rank[place] = events[e] if events.shape[0] > 0 else e, i + 1
            if codes.shape[0] > 0:
                code[place] = codes[row[place]]
            place += 1
    return words


@njit(**EXACT)
def merge(label: Longs, one: Lists, other: Lists, k: int) -> tuple[Longs, Rows, Floats]:
    """The k best of two answers (number, row, score) for the same events, which have no row in common."""
    total = one[1].shape[0] + other[1].shape[0]
    number, row, score = np.zeros(one[0].shape[0], np.int64), np.empty(total, np.int32), np.empty(total)
    used, a, b = 0, 0, 0
    for e in range(number.shape[0]):
        end, other_end = a + one[0][e], b + other[0][e]
        while number[e] < k and (a < end or b < other_end):
            mine = b == other_end or (
                a < end and better(label, one[2][a], one[1][a], other[2][b], other[1][b])
            )
            if mine:
                row[used], score[used] = one[1][a], one[2][a]
            else:
                row[used], score[used] = other[1][b], other[2][b]
            a, b = a + mine, b + (not mine)
            used, number[e] = used + 1, number[e] + 1
        a, b = end, other_end
    return number, row[:used], score[:used]
