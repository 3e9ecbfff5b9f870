"""Verification of geo-text candidates: each pair of a subscription and a message scored once.

Keys of pairs are sorted by subscription, then message, so that subscriptions are read in the order in which
they lie and hits come out in the order in which buffers take them. The weight of a term in a message is
looked up in a small table of its own that is nearly empty, so that hardly anything depends on what is found.

Cost: O(1) a pair and term of its subscription.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.distance import distance
from rankcast.kernels.geo_bounds import Frame
from rankcast.kernels.igpt import ARRIVAL, CANDIDATES, ROW, VERIFIED, Posts, Readers
from rankcast.kernels.options import EXACT

DIGIT = 10
FACTOR = np.uint32(2654435769)

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]


class Hits(NamedTuple):
    """Subscriptions that a message may enter, with the place of the message in the batch, and the score.

    In order of subscriptions, then of messages.
    """

    subscription: Rows
    arrival: Rows
    score: Floats


class Weights(NamedTuple):
    """A hash table a message: where it begins, its length less 1. By cell: a term or -1, its weight."""

    start: Ints
    mask: Rows
    term: Rows
    weight: Floats


@njit(**EXACT)
def _sort_by(keys: Ints, sorted_keys: Ints, shift: int) -> None:
    """Sort keys by some of their bits, stably."""
    ends, mask = np.zeros((1 << DIGIT) + 1, np.int64), (1 << DIGIT) - 1
    for key in keys:
        ends[(key >> shift & mask) + 1] += 1
    for i in range(mask):
        ends[i + 1] += ends[i]
    for key in keys:
        digit = key >> shift & mask
        sorted_keys[ends[digit]] = key
        ends[digit] += 1


@njit(**EXACT)
def sort_pairs(keys: Ints, arrivals: int, rows: int) -> Ints:
    """Keys sorted by subscription and message, given how many there are of both. Changes `keys`."""
    spare = np.empty_like(keys)
    for low, most in ((ARRIVAL, arrivals), (ROW, rows)):
        shift = 0
        while most >> shift > 0:
            _sort_by(keys, spare, low + shift)
            keys, spare = spare, keys
            shift += DIGIT
    return keys


@njit(**EXACT)
def _cell(terms: Rows, start: np.uint64, mask: np.uint32, term: int) -> np.uint64:
    """The cell that holds a term, or the free one where it would go."""
    code = np.uint32(np.uint32(term) * FACTOR) >> np.uint32(12)
    cell = start + np.uint64(code & mask)
    while terms[cell] >= 0 and terms[cell] != term:
        code += np.uint32(1)
        cell = start + np.uint64(code & mask)
    return cell


@njit(**EXACT)
def _tabulate(posts: Posts) -> Weights:
    """Tables of the weights of messages; at most one cell in four is taken."""
    rows, _, _, texts = posts
    begins, sizes, terms, weights = texts
    starts, masks, total = np.empty(rows.size, np.int64), np.empty(rows.size, np.int32), 0
    for i in range(rows.size):
        cells = 16
        while cells < 4 * sizes[rows[i]]:
            cells *= 2
        starts[i], masks[i] = total, cells - 1
        total += cells
    held, weight = np.full(total, -1, np.int32), np.zeros(total)
    for i in range(rows.size):
        begin = begins[rows[i]]
        for at in range(begin, begin + sizes[rows[i]]):
            cell = _cell(held, np.uint64(starts[i]), np.uint32(masks[i]), terms[at])
            held[cell], weight[cell] = terms[at], weights[at]
    return Weights(starts, masks, held, weight)


@njit(**EXACT)
def score_pairs(
    keys: Ints, readers: Readers, posts: Posts, frame: Frame, current: bool, counters: Ints
) -> Hits:
    """Score pairs given by sorted keys; those that reach the threshold of the subscription are hits.

    Adds the products of common terms in code point order, one after the other, as brute force does (a term
    that is not common adds 0). Indexes are unsigned, or Numba would ask each whether it counts from the end.
    """
    reader_x, reader_y, reader_alpha, threshold, stamps, texts = readers
    rows, post_x, post_y, _ = posts
    begins, sizes, terms, weights = texts
    starts, masks, held, weight = _tabulate(posts)
    owners, arrivals, scores = (
        np.empty(keys.size, np.int32),
        np.empty(keys.size, np.int32),
        np.empty(keys.size),
    )
    used, i, known, tried = 0, 0, 0, 0
    while i < keys.size:
        pair = keys[i] >> ARRIVAL
        row, arrival, live = np.uint32(pair >> (ROW - ARRIVAL)), np.uint32(pair & 65535), False
        while i < keys.size and keys[i] >> ARRIVAL == pair:
            live |= keys[i] & 65535 == stamps[row]
            i += 1
        if not live:
            continue
        known += 1
        alpha, bar, item = reader_alpha[row], threshold[row], np.uint32(rows[arrival])
        away = distance(frame.metric, reader_x[row], reader_y[row], post_x[item], post_y[item])
        near, cosine = 1.0 - away / frame.scale, 0.0
        if current and alpha * near + (1.0 - alpha) + 1e-6 < bar:
            continue
        tried += 1
        begin, start, mask = np.uint64(begins[row]), np.uint64(starts[arrival]), np.uint32(masks[arrival])
        for at in range(begin, begin + np.uint64(sizes[row])):
            cosine += weights[at] * weight[_cell(held, start, mask, terms[at])]
        score = alpha * near + (1.0 - alpha) * cosine
        owners[used], arrivals[used], scores[used] = row, arrival, score
        used += score >= bar
    counters[CANDIDATES] += known
    counters[VERIFIED] += tried
    return Hits(owners[:used], arrivals[:used], scores[:used])
