"""Message dissemination: which subscriptions a message may concern [Geo §5.4].

Term at a time over the lists of the message's words, the rarest first. Each pair is met at its rarest common
term: there the bound on what is alike covers everything (Theorem 2 with nothing seen so far), and at later
terms the pair is recognised and left alone, so no map of candidates is kept. In this order:

- a block by its words alone, then by its place alone (Lemma 6), then by both (Theorem 3);
- the second half of a block in order when its thresholds are beyond the block's bound (Theorem 4);
- an entry by its own weights and the block's place (Theorem 1 with the outer spatial bound), and by its own
  weights and its own place (the distance itself, where the paper adds an inner bound), a tile at once;
- a subscription by the threshold that it has now, which may be above the one in the list;
- the score.

Each can be switched off. Thresholds are those at the beginning of the batch; they only move up in it. What
passes the lists waits in a queue, so that looking up one subscription does not wait for the one before it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.distance import distance
from rankcast.kernels.geo_bounds import (
    Bits,
    Floats32,
    Frame,
    Spot,
    alikeness,
    best_of_group,
    best_score,
    embed,
    nearness,
    part,
)
from rankcast.kernels.options import EXACT
from rankcast.kernels.term_order import Scratch, Texts, clear, cosine_from, note, rarest_first
from rankcast.kernels.word_lists import (
    ALPHA,
    BAR,
    BLOCK,
    HIGH_ALPHA,
    LOW_ALPHA,
    MOST,
    MOST_REST,
    NEAR,
    NEED,
    PULL,
    PULL_REST,
    REST,
    SLOPE,
    STAMP,
    STEP,
    WEIGHT,
    Lists,
    X,
    Y,
    Z,
    gap,
)

CELLS, GROUPS, CANDIDATES, VERIFIED = range(4)
QUEUE = 2048

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
    stamp: Bits
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


class Queue(NamedTuple):
    """Entries that passed the lists: subscriptions, what each may have in common, at which term; room."""

    row: Rows
    alike: Floats32
    term: Rows
    known: Floats
    begin: NDArray[np.int64]
    end: NDArray[np.int64]


class Term(NamedTuple):
    """One term of the text at hand: place in the order, weight, the length of what follows; and the spot."""

    place: int
    weight: np.float32
    rest: np.float32
    spot: Spot


@njit(**EXACT)
def _test(
    fact: Bits, tile: int, term: Term, reach: np.float32, near: np.float32, on: Switches,
    passed: NDArray[np.bool_], alike: Floats32,
) -> bool:  # fmt: skip
    """Say for each entry of a tile whether the message may pass its threshold, and what they may share.

    Returns whether any is passed.
    """
    some = False
    x, y, z = np.float32(term.spot[0]), np.float32(term.spot[1]), np.float32(term.spot[2])
    mine, others = term.weight, term.rest
    no_prefix, no_inner = not on.prefix, not on.inner
    for lane in range(STEP):
        own = alikeness(part(fact[tile, WEIGHT, lane]), part(fact[tile, REST, lane]), mine, others)
        east, north = part(fact[tile, X, lane]) - x, part(fact[tile, Y, lane]) - y
        up = part(fact[tile, Z, lane]) - z
        own_near = nearness(reach, east * east + north * north + up * up)
        alpha, bar = part(fact[tile, ALPHA, lane]), part(fact[tile, BAR, lane])
        alike[lane] = own
        may = (no_prefix | (best_score(alpha, near, own) >= bar)) & (
            no_inner | (best_score(alpha, own_near, own) >= bar)
        )
        passed[lane] = may
        some |= may
    return some


@njit(**EXACT)
def _search_word(
    lists: Lists, word: int, term: Term, stamps: Bits, reach: np.float32, on: Switches, queue: Queue,
    queued: int, start: int, counters: NDArray[np.int64],
) -> tuple[int, int]:  # fmt: skip
    """Queue what passes in the list of one word, from an entry on, as long as there is room.

    Returns how many are queued then, and the first entry left over.
    """
    begins, mains, _, sizes, _, _, rows, fact, node, pull = lists
    queue_row, queue_alike, queue_term, _, _, _ = queue
    passed, alikes = np.empty(STEP, np.bool_), np.empty(STEP, np.float32)
    mine, others, one = term.weight, term.rest, np.float32(1.0)
    begin, after = begins[word], begins[word] + sizes[word]
    ordered, room = begin + mains[word], queue_row.size - BLOCK
    for at in range(begin + start, after, BLOCK):
        if queued > room:
            return queued, at - begin
        block, end = at // STEP, min(at + BLOCK, after)
        if on.group and pull[block, PULL] * mine + pull[block, PULL_REST] * others < one:
            counters[GROUPS] += 1
            continue
        near = nearness(reach, gap(node, block, term.spot)) if on.outer else one
        if on.cell and near < node[block, NEAR]:
            counters[CELLS] += 1
            continue
        alike = alikeness(node[block, MOST], node[block, MOST_REST], mine, others)
        if on.group and alike < node[block, NEED] + node[block, SLOPE] * (one - near):
            counters[GROUPS] += 1
            continue
        if on.stop and end <= ordered:
            best = best_of_group(node[block, LOW_ALPHA], node[block, HIGH_ALPHA], near, alike)
            if end > at + STEP and part(fact[block + 1, BAR, 0]) > best:
                end = at + STEP
        for first in range(at, end, STEP):
            tile = first // STEP
            if not _test(fact, tile, term, reach, near, on, passed, alikes):
                continue
            for lane in range(min(STEP, end - first)):
                if passed[lane]:
                    row = rows[first + lane]
                    queue_row[queued], queue_alike[queued], queue_term[queued] = row, alikes[lane], term.place
                    queued += fact[tile, STAMP, lane] == stamps[row]
    return queued, sizes[word]


@njit(**EXACT)
def _verify(
    queue: Queue, queued: int, readers: Readers, spot: tuple[float, float], scratch: Scratch, frame: Frame,
    current: bool, hits: Hits, arrival: int, used: int,
) -> int:  # fmt: skip
    """Score what is queued; write the hits. Returns how many there are then, -1 if they do not fit."""
    queue_row, queue_alike, queue_term, known, begins, ends = queue
    reader_x, reader_y, reader_alpha, threshold, _, texts = readers
    text_begin, text_size, text_term, text_weight = texts
    noted, places = scratch
    found, found_arrival, found_score, counters = hits
    x, y = spot
    counters[CANDIDATES] += queued
    if used + queued > found_score.size:
        return -1
    for i in range(queued):  # nothing but looking up, so that the cache misses of all of them overlap
        row = queue_row[i]
        known[0, i], known[1, i], begins[i] = reader_alpha[row], threshold[row], text_begin[row]
        ends[i] = begins[i] + text_size[row]
        known[2, i] = 1.0 - distance(frame.metric, reader_x[row], reader_y[row], x, y) / frame.scale
    for i in range(queued):
        row, alpha, bar, near = queue_row[i], known[0, i], known[1, i], known[2, i]
        if current and alpha * near + (1.0 - alpha) * queue_alike[i] + 1e-6 < bar:
            continue
        cosine = cosine_from(text_term, text_weight, begins[i], ends[i], noted, places, queue_term[i])
        score = alpha * near + (1.0 - alpha) * cosine
        counters[VERIFIED] += cosine > 0.0
        found[used], found_arrival[used], found_score[used] = row, arrival, score
        used += cosine > 0.0 and score >= bar
    return used


@njit(**EXACT)
def _disseminate_one(
    lists: Lists, readers: Readers, posts: Posts, idf: Floats, scratch: Scratch, frame: Frame,
    on: Switches, queue: Queue, hits: Hits, arrival: int, used: int,
) -> int:  # fmt: skip
    """Write the hits of one message; returns how many there are then, -1 if they do not fit."""
    row = posts.rows[arrival]
    term, weight, rest = rarest_first(posts.texts, row, idf)
    place = (posts.x[row], posts.y[row])
    spot = embed(frame, place[0], place[1])
    stamps, sizes, counters = readers.stamp, lists.size, hits.counters
    note(scratch, term, weight)
    i, start, queued = 0, 0, 0
    while used >= 0 and i < term.size:
        mine = Term(i, np.float32(weight[i]), np.float32(rest[i]), spot)
        queued, start = _search_word(
            lists, term[i], mine, stamps, frame.reach, on, queue, queued, start, counters
        )
        done = start >= sizes[term[i]]
        if done:
            i, start = i + 1, 0
        if not done or i == term.size:
            used = _verify(queue, queued, readers, place, scratch, frame, on.current, hits, arrival, used)
            queued = 0
    clear(scratch, term)
    return used


@njit(**EXACT)
def disseminate(
    lists: Lists, readers: Readers, posts: Posts, idf: Floats, scratch: Scratch, frame: Frame,
    on: Switches, hits: Hits, start: int,
) -> tuple[int, int]:  # fmt: skip
    """Write the hits of the messages from `start` on; returns how many, and the first message left over.

    A message whose hits may not fit is left over with those after it. `scratch` is clear before and after.
    """
    used, before, counters = 0, np.empty_like(hits.counters), hits.counters
    rows, terms = np.empty(QUEUE, np.int32), np.empty(QUEUE, np.int32)
    begins, ends = np.empty(QUEUE, np.int64), np.empty(QUEUE, np.int64)
    queue = Queue(rows, np.empty(QUEUE, np.float32), terms, np.empty((3, QUEUE)), begins, ends)
    for arrival in range(start, posts.rows.size):
        before[:] = counters
        found = _disseminate_one(
            lists, readers, posts, idf, scratch, frame, on, queue, hits, arrival, used
        )  # fmt: skip
        if found < 0:
            counters[:] = before
            return used, arrival
        used = found
    return used, posts.rows.size
