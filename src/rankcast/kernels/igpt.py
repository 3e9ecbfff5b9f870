"""Message dissemination: which subscriptions a message may concern [Geo §5.4].

Term at a time over the lists of the message's words, the rarest first. Each pair is met at its rarest common
term: there the bound on what is alike covers everything (Theorem 2 with nothing seen so far), and at later
terms the pair is recognised and left alone, so no map of candidates is kept. In this order:

- a block by its words alone, then by its place alone (Lemma 6), then by both (Theorem 3);
- the rest of a block in order when a threshold is beyond the block's bound (Theorem 4);
- an entry by its own weights and the block's place (Theorem 1 with the outer spatial bound);
- an entry by its own weights and its own place (the distance itself, where the paper adds an inner bound);
- a subscription by the threshold that it has now, which may be above the one in the list;
- the score.

Each can be switched off. Thresholds are those at the beginning of the batch; they only move up in it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.distance import distance
from rankcast.kernels.geo_bounds import (
    Frame,
    alikeness,
    best_of_group,
    best_score,
    embed,
    nearness,
    nearness_to,
)
from rankcast.kernels.options import EXACT
from rankcast.kernels.term_order import Scratch, Texts, clear, cosine_from, note, rarest_first
from rankcast.kernels.word_lists import ALPHA_HIGH, ALPHA_LOW, BLOCK, REST, STEP, THRESHOLD, WEIGHT, Lists

CELLS, GROUPS, CANDIDATES, VERIFIED = range(4)

Rows = NDArray[np.int32]
Floats = NDArray[np.float64]


class Switches(NamedTuple):
    """Which prunings are on."""

    cell: bool
    group: bool
    stop: bool
    prefix: bool
    outer: bool
    inner: bool
    current: bool


class Readers(NamedTuple):
    """Subscriptions by row: places, alphas, thresholds, stamps, vectors."""

    x: Floats
    y: Floats
    alpha: Floats
    threshold: Floats
    stamp: Rows
    texts: Texts


class Posts(NamedTuple):
    """Messages: the rows that arrive, and by row places and vectors."""

    rows: Rows
    x: Floats
    y: Floats
    texts: Texts


class Hits(NamedTuple):
    """Subscriptions that a message may enter, by the place of the message in the batch; and counters."""

    subscription: Rows
    arrival: Rows
    score: Floats
    counters: NDArray[np.int64]


class Term(NamedTuple):
    """One term of the message at hand: its place in the order, weight, and the length of what follows."""

    place: int
    weight: float
    rest: float


@njit(**EXACT)
def _search_word(
    lists: Lists, word: int, readers: Readers, term: Term, spot: tuple[float, float], scratch: Scratch,
    frame: Frame, on: Switches, hits: Hits, arrival: int, used: int,
) -> int:  # fmt: skip
    """Write the hits in the list of one word; returns how many there are then, -1 if they do not fit."""
    begins, mains, sizes, _, _, rows, stamps, bars, alphas, weights, rests, spots, box, bound = lists
    reader_x, reader_y, reader_alpha, threshold, current, texts = readers
    text_begin, text_size, text_term, text_weight = texts
    noted, places = scratch
    found, found_arrival, found_score, counters = hits
    metric, scale, mine, others = frame.metric, frame.scale, term.weight, term.rest
    cells, groups, candidates, verified = 0, 0, 0, 0
    x, y = spot
    place = embed(frame, x, y)
    begin, after = begins[word], begins[word] + sizes[word]
    ordered = begin + mains[word]
    for start in range(begin, after, BLOCK):
        block, end = start // STEP, min(start + BLOCK, after)
        low, high, bar = bound[block, ALPHA_LOW], bound[block, ALPHA_HIGH], bound[block, THRESHOLD]
        alike = alikeness(bound[block, WEIGHT], bound[block, REST], mine, others)
        if on.group and best_of_group(low, high, 1.0, alike) < bar:
            groups += 1
            continue
        near = nearness(metric, box, block, place) if on.outer else 1.0
        if on.cell and best_of_group(low, high, near, 1.0) < bar:
            cells += 1
            continue
        best = best_of_group(low, high, near, alike)
        if on.group and best < bar:
            groups += 1
            continue
        for at in range(start, end):
            if on.stop and bars[at] > best and end <= ordered:
                break
            own = alikeness(weights[at], rests[at], mine, others)
            if on.prefix and best_score(alphas[at], near, own) < bars[at]:
                continue
            if on.inner and best_score(alphas[at], nearness_to(metric, spots, at, place), own) < bars[at]:
                continue
            row = rows[at]
            if stamps[at] != current[row]:
                continue
            candidates += 1
            alpha = reader_alpha[row]
            exact = 1.0 - distance(metric, reader_x[row], reader_y[row], x, y) / scale
            if on.current and best_score(alpha, exact, own) < threshold[row]:
                continue
            first = text_begin[row]
            cosine = cosine_from(
                text_term, text_weight, first, first + text_size[row], noted, places, term.place
            )
            if cosine <= 0.0:
                continue
            verified += 1
            score = alpha * exact + (1.0 - alpha) * cosine
            if score >= threshold[row]:
                if used == found_score.size:
                    return -1
                found[used], found_arrival[used], found_score[used] = row, arrival, score
                used += 1
    counters[CELLS] += cells
    counters[GROUPS] += groups
    counters[CANDIDATES] += candidates
    counters[VERIFIED] += verified
    return used


@njit(**EXACT)
def disseminate(
    lists: Lists, readers: Readers, posts: Posts, idf: Floats, scratch: Scratch, frame: Frame,
    on: Switches, hits: Hits, start: int,
) -> tuple[int, int]:  # fmt: skip
    """Write the hits of the messages from `start` on; returns how many, and the first message left over.

    A message whose hits do not all fit is left over with those after it. `scratch` is clear before and after.
    """
    used = 0
    for arrival in range(start, posts.rows.size):
        row = posts.rows[arrival]
        term, weight, rest = rarest_first(posts.texts, row, idf)
        note(scratch, term, weight)
        found = used
        for i in range(term.size):
            mine, spot = Term(i, weight[i], rest[i]), (posts.x[row], posts.y[row])
            found = _search_word(
                lists, term[i], readers, mine, spot, scratch, frame, on, hits, arrival, found
            )  # fmt: skip
            if found < 0:
                break
        clear(scratch, term)
        if found < 0:
            return used, arrival
        used = found
    return used, posts.rows.size
