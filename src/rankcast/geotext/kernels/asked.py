"""The words of some messages, each with its messages: what a batch asks of lists by word.

Messages stand in one order under every word: those first whose words weigh most for their idf. A weight is
the idf of its word times a share that is its message's own (and how often the word comes), so under a word
weights fall but for repetitions. `MOST_WEIGHT` and `MOST_REST` say what a message and those after it have at
most: how many messages may pass a bound by words is then found by halving.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.geotext.kernels.bounds import Bits, Floats32, Frame, embed, nearest, signs, sort_places
from rankcast.geotext.kernels.terms import Texts, rarest_first
from rankcast.structures.jit import EXACT

WIDTH = 16  # messages that are tested at once
HALF = 32768  # 1 in 15 bits
# Of a message under a word: the word's weight, the length of what follows, the most of both from here on, the
# spot. In whole numbers: weight and length in 15 bits, not below; the spot in 15; the sign of what follows.
WEIGHT, REST, MOST_WEIGHT, MOST_REST, SPOT = range(5)
BIT_WEIGHT, BIT_REST, BIT_X, BIT_Y, BIT_Z, BIT_LOW, BIT_HIGH = range(7)

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Asked(NamedTuple):
    """Words of some messages. By word: which, and where its messages begin.

    By message of a word, and for `WIDTH` more that mean nothing: its place in the batch, and what is said of
    it in shares and in whole numbers.
    """

    word: Rows
    first: Ints
    arrival: Rows
    share: Floats32
    bits: Bits


@njit(**EXACT)
def _count_words(rows: Rows, texts: Texts, place: Rows) -> tuple[Rows, Ints]:
    """The distinct words of messages and where the messages of each begin; `place` says so by word, too."""
    begins, sizes, terms, _ = texts
    total, count = 0, 0
    for row in rows:
        total += sizes[row]
        for i in range(begins[row], begins[row] + sizes[row]):
            place[terms[i]] = 0
    word = np.empty(total, np.int32)
    for row in rows:
        for i in range(begins[row], begins[row] + sizes[row]):
            if place[terms[i]] == 0:
                word[count] = terms[i]
                count += 1
            place[terms[i]] += 1
    first = np.zeros(count + 1, np.int64)
    for i in range(count):
        first[i + 1] = first[i] + place[word[i]]
        place[word[i]] = first[i]
    return word[:count], first


@njit(**EXACT)
def _heaviest_first(rows: Rows, texts: Texts, idf: Floats) -> Rows:
    """The places of messages in the batch, those first whose words weigh most for their idf."""
    begins, sizes, terms, weights = texts
    order, keys = np.empty(rows.size, np.int32), np.empty(rows.size, np.int32)
    for i in range(rows.size):
        begin, least = begins[rows[i]], 1.0
        for at in range(begin, begin + sizes[rows[i]]):
            least = min(least, weights[at] / idf[terms[at]])
        order[i], keys[i] = i, 65535 - nearest(least)
    sort_places(order, keys, np.empty_like(order), 16)
    return order


@njit(**EXACT)
def _note_most(share: Floats32, first: Ints) -> None:
    """Note what the messages of a word have at most, from each on."""
    for which in range(first.size - 1):
        weight, rest = np.float32(0.0), np.float32(0.0)
        for at in range(first[which + 1] - 1, first[which] - 1, -1):
            weight, rest = max(weight, share[WEIGHT, at]), max(rest, share[REST, at])
            share[MOST_WEIGHT, at], share[MOST_REST, at] = weight, rest


@njit(**EXACT)
def ask(rows: Rows, x: Floats, y: Floats, texts: Texts, idf: Floats, frame: Frame, place: Rows) -> Asked:
    """The words of the messages of some rows; `place` is room by word."""
    word, first = _count_words(rows, texts, place)
    size = first[-1] + WIDTH
    arrivals = np.zeros(size, np.int32)
    share, bits = np.zeros((SPOT + 3, size), np.float32), np.zeros((BIT_HIGH + 1, size), np.uint16)
    for arrival in _heaviest_first(rows, texts, idf):
        row = rows[arrival]
        term, weight, rest = rarest_first(texts, row, idf)
        spot, sign = embed(frame, x[row], y[row]), signs(term)
        for i in range(term.size):
            at = place[term[i]]
            place[term[i]] = at + 1
            arrivals[at], share[WEIGHT, at], share[REST, at] = arrival, weight[i], rest[i]
            bits[BIT_WEIGHT, at], bits[BIT_REST, at] = int(weight[i] * HALF) + 2, int(rest[i] * HALF) + 2
            bits[BIT_LOW, at], bits[BIT_HIGH, at] = sign[i] & 65535, sign[i] >> 16
            for axis in range(3):
                share[SPOT + axis, at], bits[BIT_X + axis, at] = spot[axis], nearest(spot[axis]) >> 1
    _note_most(share, first)
    return Asked(word, first, arrivals, share, bits)
