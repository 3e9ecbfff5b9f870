"""The lists of matches of many events, one behind the other in the order in which they are found."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]
Longs = NDArray[np.int64]
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
def gather(found: Matches, number: Longs, row: Rows, score: Floats) -> None:
    """Copy the lists of one part of a batch to where they stand in the order of all events."""
    place = 0
    for e in range(number.shape[0]):
        for i in range(found.number[e]):
            row[place + i] = found.row[found.start[e] + i]
            score[place + i] = found.score[found.start[e] + i]
        place += number[e]
