"""The best messages of a window by bounds of all their scores, for subscriptions whose vectors count alone.

Bounds come from sketches, or from products of whole vectors; see `rankcast.geotext.kernels.vectors`. Messages
are sorted by their bounds into buckets, and scored from the highest bucket on, until none left can be among
the best. Cost: O(1) a message of the window, and a cosine for each that is scored.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.geotext.kernels.message_search import (
    CAPACITY,
    SCORE_COST,
    SEARCH_COST,
    Best,
    SearchResults,
    empty_candidates,
    load_candidates,
    score_candidates,
    wanted_by,
)
from rankcast.geotext.kernels.postings import Ages
from rankcast.geotext.kernels.score import (
    Floats,
    Floats32,
    Frame,
    Ints,
    MessageColumns,
    Rows,
    Scratch,
    SubscriptionColumns,
)
from rankcast.structures.jit import EXACT

BUCKETS = 1024
MANY = 8  # messages are bounded at the cost of a step of a buffer's upkeep
LEAST = 1e-37  # a bound below is that: float32 has no smaller numbers


@njit(**EXACT)
def _by_bucket(bounds: Floats32, least: float, gains: Floats, top: float, first: Ints) -> Rows:
    """The messages whose bounds reach `least`, the highest bucket first; `first` is where each begins.

    Bucket i is `first[i]` to `first[i + 1]`, and has bounds from `1 - (i + 1) / BUCKETS` on.
    """
    buckets, total = np.full(bounds.size, -1, np.int32), 0
    for i in range(bounds.size):
        if bounds[i] >= least:
            bound = bounds[i] * (gains[i] / top if gains.size > 0 else 1.0)
            place = BUCKETS - 1 - int(bound * BUCKETS)
            buckets[i] = min(BUCKETS - 1, max(0, place))
            first[buckets[i] + 1] += 1
            total += 1
    for i in range(BUCKETS):
        first[i + 1] += first[i]
    found, at = np.empty(total, np.int32), first[:BUCKETS].copy()
    for i in range(bounds.size):
        if buckets[i] >= 0:
            found[at[buckets[i]]] = i
            at[buckets[i]] += 1
    return found


@njit(**EXACT)
def best_by_bounds(
    bounds: Floats32, rows: Rows, wanted: Rows, subscriptions: SubscriptionColumns, messages: MessageColumns,
    ages: Ages, idf: Floats, scratch: Scratch, frame: Frame, found: SearchResults,
) -> None:  # fmt: skip
    """Find the `wanted[i]` best messages of the window for each subscription of `rows`; see `best_messages`.

    `bounds` has a line for each of them, -inf for rows that are no messages.
    """
    candidates, gains, top = empty_candidates(), messages.gain, messages.top
    for which in range(rows.size):
        board = Best(found.item[which, : wanted[which]], found.score[which, : wanted[which]])
        query, count, tried, full = wanted_by(rows[which], subscriptions, idf), 0, 0, wanted[which]
        first = np.zeros(BUCKETS + 1, np.int64)
        order = _by_bucket(bounds[which], max(query.score, 0.0), gains, top, first)
        for bucket in range(BUCKETS):
            best = np.inf if bucket == 0 else (BUCKETS - bucket) / BUCKETS * top
            if count == full and best < board.score[count - 1]:
                break
            for start in range(first[bucket], first[bucket + 1], CAPACITY):
                some = order[start : min(start + CAPACITY, first[bucket + 1])]
                load_candidates(some, messages, candidates)
                for i in range(some.size):
                    bound = bounds[which, some[i]] * (gains[some[i]] / top if gains.size > 0 else 1.0)
                    candidates.best[i] = max(bound, LEAST)
                count = score_candidates(
                    candidates, some.size, query, subscriptions, messages, ages, scratch, frame, board, count
                )
                tried += some.size
        found.size[which] = count
        found.work[which] = SEARCH_COST + order.size // MANY + SCORE_COST * tried
