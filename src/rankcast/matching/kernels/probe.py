"""The best rows of all, in order, compared with events block by block until k are met."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankcast.matching.kernels.matches import Answers, Floats, Longs, Rows
from rankcast.structures.jit import EXACT

BLOCK = 64
MISSED = -1  # instead of the length of a list: the rows at hand did not decide


@njit(**EXACT)
def search(head: tuple[Any, ...], complete: bool, k: int, below: Floats, above: Floats) -> Answers:
    """The k best rows for each event with the ends `above` to `below`, as far as the head decides.

    `head` has the ends (d, n) of the best rows, n a multiple of BLOCK and NaN behind the last, and by place
    their rows and scores. Fewer than k are an answer only if the head is `complete`, that is, holds all rows
    there are; else the event is MISSED. `looked` counts the blocks compared.
    """
    lo, hi, rows, scores = head
    many, size, used, looked = below.shape[0], rows.shape[0], 0, 0
    number, met = np.empty(many, np.int64), np.empty(BLOCK, np.uint8)
    words = met.view(np.uint64)  # a word of 0 passes over eight rows that are not met
    row, score = np.empty(many * min(k, size), np.int32), np.empty(many * min(k, size))
    for e in range(many):
        count, start = 0, 0
        while count < k and start < size:
            beneath, over = below[e, 0], above[e, 0]
            for i in range(BLOCK):
                met[i] = (lo[0, start + i] <= beneath) & (hi[0, start + i] >= over)
            for j in range(1, lo.shape[0]):
                beneath, over = below[e, j], above[e, j]
                for i in range(BLOCK):
                    met[i] &= (lo[j, start + i] <= beneath) & (hi[j, start + i] >= over)
            for w in range(BLOCK // 8):
                if words[w] == 0:
                    continue
                for i in range(8 * w, 8 * w + 8):
                    if met[i] != 0 and count < k:
                        row[used + count], score[used + count] = rows[start + i], scores[start + i]
                        count += 1
            start, looked = start + BLOCK, looked + 1
        number[e] = count if count == k or complete else MISSED
        used += max(0, number[e])
    return number, row[:used], score[:used], used, looked


@njit(**EXACT)
def fill(
    number: Longs, row: Rows, score: Floats, more: Longs, more_row: Rows, more_score: Floats
) -> tuple[Longs, Rows, Floats]:
    """Answers in which the events that were MISSED have the lists of `more`, in turn."""
    total = row.shape[0] + more_row.shape[0]
    full, rows, scores = np.empty(number.shape[0], np.int64), np.empty(total, np.int32), np.empty(total)
    used, mine, other, place = 0, 0, 0, 0
    for e in range(number.shape[0]):
        if number[e] == MISSED:
            full[e] = more[place]
            for i in range(full[e]):
                rows[used + i], scores[used + i] = more_row[other + i], more_score[other + i]
            place, other = place + 1, other + full[e]
        else:
            full[e] = number[e]
            for i in range(full[e]):
                rows[used + i], scores[used + i] = row[mine + i], score[mine + i]
            mine += full[e]
        used += full[e]
    return full, rows, scores
