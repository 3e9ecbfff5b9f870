"""Message dissemination: which subscriptions some messages may concern [Geo §5.4].

A few hundred messages are taken together, word by word: the list of a word is walked once, and each of its
blocks meets all messages with that word while it is in the cache. In this order:

- a block by its place alone (Lemma 6), then by its words and its place (Theorem 3), all messages at once;
- the second half of a block in order when its thresholds are beyond the block's bound (Theorem 4);
- an entry by its own weights and the block's place (Theorem 1 with the outer spatial bound), and by its own
  weights and its own place (the distance itself, where the paper adds an inner bound), a tile at once.

A pair may be met at each of its common terms. The bound holds at the rarest of them (Theorem 2 with nothing
seen so far), so a pair that belongs in a result passes there; at the others it may pass or not. What passed
is sorted by subscription, so that each pair is verified once, and subscriptions are read in the order in
which they lie: see `rankcast.kernels.verify`.

Each pruning can be switched off. Thresholds are those at the beginning; they only move up meanwhile.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.geo_bounds import (
    SHARE,
    SKIN,
    SLACK,
    Bits,
    Floats32,
    Frame,
    alikeness,
    best_of_group,
    embed,
    nearness,
    part,
)
from rankcast.kernels.options import EXACT
from rankcast.kernels.term_order import Texts, rarest_first
from rankcast.kernels.word_lists import (
    ALPHA,
    AWAY,
    BAR,
    BLOCK,
    BOX,
    HIGH_ALPHA,
    LOW_ALPHA,
    MOST,
    MOST_REST,
    NEAR,
    PULL,
    PULL_REST,
    REST,
    STAMP,
    STEP,
    WEIGHT,
    Lists,
    X,
    Y,
    Z,
)

CELLS, GROUPS, CANDIDATES, VERIFIED = range(4)
UNIT = np.float32(65535.0)  # a share of 1 as facts have it
MARGIN = np.float32(float(SLACK) * 65535.0)
NONE = np.float32(0.0)
ARRIVAL, ROW = 16, 32  # where these begin in a key

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
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
    """Messages: the rows that arrive, and by row places, vectors, and gains; the largest gain.

    A message ranks by its score times its gain; without gains by its score.
    """

    rows: Rows
    x: Floats
    y: Floats
    texts: Texts
    gain: Floats
    top: float


class Asked(NamedTuple):
    """Words of some messages, each with its messages.

    By word: which, and where its messages begin. By message of a word: its place in the batch, the weight of
    the word in it, the length of what follows, its spot.
    """

    word: Rows
    first: Ints
    arrival: Rows
    weight: Floats32
    rest: Floats32
    spot: Floats32


@njit(**EXACT)
def _count_words(posts: Posts, place: Rows) -> tuple[Rows, Ints]:
    """The distinct words of messages and where the messages of each begin; `place` says so by word, too."""
    rows, texts = posts.rows, posts.texts
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
def _ask(posts: Posts, idf: Floats, frame: Frame, place: Rows) -> Asked:
    """The words of messages; `place` is room by word."""
    word, first = _count_words(posts, place)
    total = first[-1]
    arrivals, spots = np.empty(total, np.int32), np.empty((3, total), np.float32)
    weights, rests = np.empty(total, np.float32), np.empty(total, np.float32)
    rows, xs, ys, texts, _, _ = posts
    for arrival in range(rows.size):
        row = rows[arrival]
        term, weight, rest = rarest_first(texts, row, idf)
        spot = embed(frame, xs[row], ys[row])
        for i in range(term.size):
            at = place[term[i]]
            place[term[i]] = at + 1
            arrivals[at], weights[at], rests[at] = arrival, weight[i], rest[i]
            for axis in range(3):
                spots[axis, at] = spot[axis]
    return Asked(word, first, arrivals, weights, rests, spots)


@njit(**EXACT)
def _meet(
    node: Floats32, block: int, reach: np.float32, on: Switches, weight: Floats32, rest: Floats32,
    x: Floats32, y: Floats32, z: Floats32, nears: Floats32, margins: Floats32, counters: Ints,
) -> bool:  # fmt: skip
    """Say by how much each message of a word passes the bounds of a block, and how near the block is.

    Returns whether any passes. Nothing but arithmetic on floats of one width, so that eight messages are one
    instruction.
    """
    one, none = np.float32(1.0), np.float32(0.0)
    no_cell = none if on.cell else np.float32(np.inf)
    no_group = none if on.group else np.float32(np.inf)
    away_counts = one if on.outer else none
    pull, pull_rest = node[block, PULL], node[block, PULL_REST]
    least, away = node[block, NEAR], node[block, AWAY]
    west, south, bottom = node[block, BOX], node[block, BOX + 1], node[block, BOX + 2]
    east, north, top = node[block, BOX + 3], node[block, BOX + 4], node[block, BOX + 5]
    cells, missed = np.int32(0), np.int32(0)
    for i in range(weight.size):
        a = max(none, west - x[i], x[i] - east)
        b = max(none, south - y[i], y[i] - north)
        c = max(none, bottom - z[i], z[i] - top)
        short = away_counts * (one - nearness(reach, a * a + b * b + c * c))
        place = one - short - least + no_cell
        words = pull * weight[i] + pull_rest * rest[i] - (one + away * short) + no_group
        nears[i], margins[i] = one - short, min(place, words)
        cells = np.int32(cells + (np.int32(1) if place < none else np.int32(0)))
        missed = np.int32(missed + (np.int32(1) if margins[i] < none else np.int32(0)))
    counters[CELLS] += cells
    counters[GROUPS] += missed - cells
    return bool(missed < weight.size)


@njit(**EXACT)
def _stops(
    fact: Bits, node: Floats32, block: int, near: np.float32, weight: np.float32, rest: np.float32
) -> bool:
    """Whether the second half of a block in order is beyond the block's bound (Theorem 4)."""
    alike = alikeness(node[block, MOST], node[block, MOST_REST], weight, rest)
    best = best_of_group(node[block, LOW_ALPHA], node[block, HIGH_ALPHA], near, alike)
    return bool(part(fact[block + 1, BAR, 0]) > best)


@njit(**EXACT)
def _write(keys: Ints, count: int, found: int, first: int, end: int, arrival: int) -> int:
    """Write the entries of a tile that were found, a bit each, with a message; returns how many then."""
    for lane in range(STEP):
        keys[count] = np.int64(first + lane) << ARRIVAL | np.int64(arrival)
        count += found >> lane & (first + lane < end)
    return count


@njit(**EXACT)
def _resolve(keys: Ints, rows: Rows, fact: Bits) -> None:
    """Let keys name subscriptions and stamps instead of entries.

    Nothing but looking up, so that cache misses overlap.
    """
    for i in range(keys.size):
        entry, arrival = keys[i] >> ARRIVAL, keys[i] & 65535
        stamp = np.int64(fact[entry // STEP, STAMP, entry % STEP])
        keys[i] = np.int64(rows[entry]) << ROW | arrival << ARRIVAL | stamp


@njit(**EXACT)
def _open(
    fact: Bits, node: Floats32, at: int, end: int, stop: bool, arrival: Rows, weight: Floats32,
    rest: Floats32, x: Floats32, y: Floats32, z: Floats32, nears: Floats32, margins: Floats32,
    reach: np.float32, on: Switches, keys: Ints, count: int,
) -> int:  # fmt: skip
    """Write the keys of what passes in a block, for every message that passes its bounds.

    Returns how many there are then, -1 if there is no room.

    Which entries of a tile a message may pass the thresholds of is found a bit each, in units of the facts:
    `room` is what the score has beyond the threshold without the place, `left` what it has at no distance. No
    root is taken and nothing is written, so that a tile is a few dozen instructions. (Arrays come one by one:
    taken from a tuple here, each would be counted as in use, block by block.)
    """
    slope, full = reach * SHARE, np.float32(1.0) + reach * SKIN
    no_prefix = NONE if on.prefix else np.float32(np.inf)
    no_inner = NONE if on.inner else np.float32(np.inf)
    for i in range(weight.size):
        if margins[i] < NONE:
            continue
        if count > keys.size - BLOCK:
            return -1
        until = at + STEP if stop and _stops(fact, node, at // STEP, nears[i], weight[i], rest[i]) else end
        mine, others, near = weight[i] * SHARE, rest[i] * SHARE, nears[i]
        here_x, here_y, here_z = x[i] * UNIT, y[i] * UNIT, z[i] * UNIT
        for first in range(at, until, STEP):
            tile, found = first // STEP, np.int32(0)
            for lane in range(STEP):
                heavy, light = np.float32(fact[tile, WEIGHT, lane]), np.float32(fact[tile, REST, lane])
                alpha, bar = np.float32(fact[tile, ALPHA, lane]), np.float32(fact[tile, BAR, lane])
                east, north = (
                    np.float32(fact[tile, X, lane]) - here_x,
                    np.float32(fact[tile, Y, lane]) - here_y,
                )
                up = np.float32(fact[tile, Z, lane]) - here_z
                square = east * east + north * north + up * up
                room = (UNIT - alpha) * min(np.float32(1.0), heavy * mine + light * others) + MARGIN - bar
                away, left = alpha * slope, alpha * full + room
                inner = min(left, left * left - away * away * square) + no_inner
                margin = min(alpha * near + room + no_prefix, inner)
                bit = np.int32(np.int32(1) << np.int32(lane))
                found = np.int32(found | (bit if margin >= NONE else np.int32(0)))
            if found != 0:
                count = _write(keys, count, found, first, end, arrival[i])
    return count


@njit(**EXACT)
def _search_word(
    lists: Lists, asked: Asked, which: int, reach: np.float32, on: Switches, keys: Ints, count: int,
    nears: Floats32, margins: Floats32, counters: Ints,
) -> int:  # fmt: skip
    """Write the keys of what passes in the list of one word; returns how many then, -1 if they do not fit."""
    words, firsts, arrivals, weights, rests, spots = asked
    begins, mains, _, sizes, _, _, _, fact, node = lists
    first, last, word = firsts[which], firsts[which + 1], words[which]
    arrival, weight, rest = arrivals[first:last], weights[first:last], rests[first:last]
    x, y, z = spots[0, first:last], spots[1, first:last], spots[2, first:last]
    begin, after, ordered = begins[word], begins[word] + sizes[word], begins[word] + mains[word]
    for at in range(begin, after, BLOCK):
        end = min(at + BLOCK, after)
        if _meet(node, at // STEP, reach, on, weight, rest, x, y, z, nears, margins, counters) and count >= 0:
            count = _open(
                fact, node, at, end, on.stop and at + STEP < end <= ordered, arrival, weight, rest, x, y,
                z, nears, margins, reach, on, keys, count,
            )  # fmt: skip
    return count


@njit(**EXACT)
def find_pairs(
    lists: Lists, posts: Posts, idf: Floats, place: Rows, frame: Frame, on: Switches, keys: Ints,
    counters: Ints,
) -> int | np.int64:  # fmt: skip
    """Write keys of the pairs that pass: the subscription, the message's place in the batch, the stamp.

    A pair may come several times. `place` is room by word. Returns how many keys, -1 if there is no room.
    """
    asked, most, count = _ask(posts, idf, frame, place), 0, np.int64(0)
    firsts = asked.first
    for which in range(firsts.size - 1):
        most = max(most, firsts[which + 1] - firsts[which])
    nears, margins = np.empty(most, np.float32), np.empty(most, np.float32)
    for which in range(firsts.size - 1):
        if count >= 0:
            count = _search_word(lists, asked, which, frame.reach, on, keys, count, nears, margins, counters)
    if count > 0:
        _resolve(keys[:count], lists.row, lists.fact)
    return count
