"""Pairs of a subscription and a message: keys of candidates, exact scores, and links of those that are kept.

Pairs are keys, sorted by subscription, then message: subscriptions are read in the order in which they lie,
and hits come out in the order in which buffers take them. The weight of a term in a message is looked up in a
small hash table of the message, in a bucket that is read as a whole, without a branch. Cost: O(1) a pair and
term of its subscription.

Links lead from a message to the lists that hold it: by them it is found when it leaves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.geotext.kernels.phrases import says
from rankcast.geotext.kernels.postings import STAMP, STEP, X, Y, Z
from rankcast.geotext.kernels.score import (
    FACTOR,
    Bits,
    Floats,
    Floats32,
    Frame,
    Ints,
    MessageColumns,
    Rows,
    SubscriptionColumns,
    TermVectors,
    nearness,
    nearness_of,
    nearness_within,
    place_of,
    share_of,
    text_score,
)
from rankcast.structures.arrays import prefetch
from rankcast.structures.distance import distance
from rankcast.structures.jit import EXACT

# A candidate pair is one key: the row of the subscription, the place of the message in its batch, and the
# stamp of the posting it was found by, from the highest bits to the lowest.
ARRIVAL, ROW = 16, 32  # the first bit of each, above the 16 bits of the stamp
CELLS, GROUPS, CANDIDATES, VERIFIED = range(4)  # counters of a dissemination
CHUNK, FOLLOWED = 15, 32  # links that lie together; chains that are followed at a time
DIGIT = 10
FEW = 64  # up to this many keys are sorted by insertion
BUCKET = 2  # cells of a bucket
LEAST_BUCKETS = 4  # buckets of a table
# The place of the only bit of a number of 32 bits, by the top of its product with `FACTOR`.
DE_BRUIJN = 0x077CB531
BIT_INDEX = np.empty(32, np.int64)
BIT_INDEX[[(DE_BRUIJN << bit & 0xFFFFFFFF) >> 27 for bit in range(32)]] = np.arange(32)


class Hits(NamedTuple):
    """Subscriptions that a message may enter, with its place in the batch, and its score there.

    In order of subscriptions, then of messages.
    """

    subscription: Rows
    arrival: Rows
    score: Floats


@njit(**EXACT)
def write_keys(
    rows: Rows, fact: Bits, at: int, passed: Rows, size: int, arrival: Rows, first: int, masks: Ints,
    spot: Floats32, radius: Floats, scale: float, reach: np.float32, keys: Ints, count: int,
) -> int:  # fmt: skip
    """Write the keys of what passes in a block and is not beyond its radius; there is room.

    `spot` has the places of messages, `radius` is by subscription if one has any. (Arrays are passed one by
    one: Numba would count references of the arrays of a tuple, block by block.) Returns how many keys there
    are then.
    """
    for j in range(size):
        its = np.uint64(first + passed[j])
        x, y, z = spot[0, its], spot[1, its], spot[2, its]
        found, pair = masks[j], np.int64(arrival[its]) << ARRIVAL
        while found != 0:
            entry = np.uint64(at + BIT_INDEX[((found & -found) * DE_BRUIJN & 0xFFFFFFFF) >> 27])
            tile, lane = entry // np.uint64(STEP), entry % np.uint64(STEP)
            row = rows[entry]
            keys[count] = np.int64(row) << ROW | pair | np.int64(fact[tile, STAMP, lane])
            near = True
            if radius.size > 0:
                east = share_of(fact[tile, X, lane]) - x
                north = share_of(fact[tile, Y, lane]) - y
                up = share_of(fact[tile, Z, lane]) - z
                gap = nearness(reach, east * east + north * north + up * up)
                near = gap >= nearness_within(radius[row], scale)
            count += near
            found &= found - 1
    return count


class WeightTables(NamedTuple):
    """A hash table a message: where it begins, its buckets less 1. By cell: a term or -1, its weight or 0."""

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
def sort_keys(keys: Ints, low: int, most_low: int, most_high: int) -> Ints:
    """Sort keys stably by their bits from `low` on: those below `ROW` are less than `most_low`, and the row.

    Rows are less than `most_high`. Few keys are sorted by insertion, many by radix. Returns them, where they
    were or elsewhere; what they were in is used.
    """
    if keys.size <= FEW:
        for i in range(1, keys.size):
            key, at = keys[i], i
            while at > 0 and keys[at - 1] >> low > key >> low:
                keys[at] = keys[at - 1]
                at -= 1
            keys[at] = key
        return keys
    spare = np.empty_like(keys)
    for start, most in ((low, most_low - 1), (ROW, most_high - 1)):
        shift = 0
        while most >> shift > 0:
            _sort_by(keys, spare, start + shift)
            keys, spare = spare, keys
            shift += DIGIT
    return keys


@njit(**EXACT)
def sort_pairs(keys: Ints, arrivals: int, stamps: Bits) -> Ints:
    """The pairs of keys whose stamp is current, by subscription and message, each once. Changes `keys`.

    `arrivals` is how many messages there are, `stamps` are those of all subscriptions.
    """
    keys = sort_keys(keys, ARRIVAL, arrivals, stamps.size)
    count, former = 0, np.int64(-1)
    for key in keys:
        pair, current = key >> ARRIVAL, np.int64(stamps[np.uint64(key >> ROW)]) == key & 65535
        keys[count] = pair
        count += current and pair != former
        former = pair if current else former
    return keys[:count]


@njit(**EXACT)
def _bucket(term: int, mask: int) -> np.uint64:
    """The first cell of the bucket of a term, from the beginning of a table.

    Multiplicative hashing in 32 bits; the result is unsigned so that an index by it is not wrapped.
    """
    return np.uint64((np.uint32(np.uint32(term) * FACTOR) >> np.uint32(12)) & np.uint32(mask)) * np.uint64(
        BUCKET
    )


@njit(**EXACT)
def _fits(terms: Rows, begin: int, end: int, mask: int, taken: Rows) -> bool:
    """Whether no bucket of a table would get too many of some terms; `taken` is room for so many counts."""
    taken[: mask + 1] = 0
    most = 0
    for at in range(begin, end):
        bucket = _bucket(terms[at], mask) // np.uint64(BUCKET)
        taken[bucket] += 1
        most = max(most, taken[bucket])
    return most <= BUCKET


@njit(**EXACT)
def _tabulate(messages: MessageColumns) -> WeightTables:
    """Tables of the weights of messages; some one cell in four is taken."""
    rows, texts = messages.rows, messages.texts
    begins, sizes, terms, weights = texts
    starts, masks, total = np.empty(rows.size, np.int64), np.empty(rows.size, np.int32), 0
    taken = np.empty(LEAST_BUCKETS, np.int32)
    for i in range(rows.size):
        begin, buckets = begins[rows[i]], LEAST_BUCKETS
        end = begin + sizes[rows[i]]
        while buckets < sizes[rows[i]] or not _fits(terms, begin, end, buckets - 1, taken):
            buckets *= 2
            if buckets > taken.size:
                taken = np.empty(buckets, np.int32)
        starts[i], masks[i] = total, buckets - 1
        total += BUCKET * buckets
    held, weight = np.full(total, -1, np.int32), np.zeros(total)
    for i in range(rows.size):
        begin = begins[rows[i]]
        for at in range(begin, begin + sizes[rows[i]]):
            cell = np.uint64(starts[i]) + _bucket(terms[at], masks[i])
            while held[cell] >= 0:
                cell += np.uint64(1)
            held[cell], weight[cell] = terms[at], weights[at]
    return WeightTables(starts, masks, held, weight)


@njit(**EXACT)
def _weight(held: Rows, weight: Floats, cell: np.uint64, term: int) -> float:
    """The weight of a term in a bucket, 0 if it is not there; all of it is looked at, without a branch."""
    total = 0.0
    for slot in range(BUCKET):
        at = cell + np.uint64(slot)
        its, there = weight[at], held[at] == term
        total += its if there else 0.0
    return total


@njit(**EXACT)
def _has_terms(wanted: TermVectors, row: int, held: Rows, start: np.uint64, mask: int) -> bool:
    """Whether a message, by its table, has the terms that a subscription must have, and none it must not."""
    begins, sizes, terms, signs = wanted
    for at in range(begins[row], begins[row] + sizes[row]):
        cell, there = start + _bucket(terms[at], mask), False
        for slot in range(BUCKET):
            there = there or held[cell + np.uint64(slot)] == terms[at]
        if there != (signs[at] > 0.0):
            return False
    return True


@njit(**EXACT)
def score_pairs(
    keys: Ints,
    subscriptions: SubscriptionColumns,
    messages: MessageColumns,
    frame: Frame,
    current: bool,
    counters: Ints,
) -> Hits:
    """Score pairs given by sorted keys; those that reach the threshold of the subscription are hits.

    Adds the products of common terms in code point order, one after the other, as brute force does (a term
    that is not common adds 0). Indexes are unsigned: a signed one is tested whether it counts from the end.
    """
    reader_x, reader_y, reader_alpha, threshold, _, texts, limits, meaning = subscriptions
    rows, post_x, post_y, _, gains, _, time = messages
    limited = limits.radius.size > 0
    begins, sizes, terms, weights = texts
    starts, masks, held, weight = _tabulate(messages)
    owners, arrivals = np.empty(keys.size, np.int32), np.empty(keys.size, np.int32)
    scores = np.empty(keys.size)
    used, tried = 0, 0
    for key in keys:
        row, arrival = np.uint64(key >> (ROW - ARRIVAL)), np.uint64(key & 65535)
        alpha, bar, item = reader_alpha[row], threshold[row], np.uint64(rows[arrival])
        away = distance(frame.metric, reader_x[row], reader_y[row], post_x[item], post_y[item])
        near, cosine = nearness_of(away, frame.scale), 0.0
        gain = gains[item] if gains.size > 0 else 1.0
        if current and (alpha * near + (1.0 - alpha) + 1e-6) * gain < bar:
            continue
        if limited and (away > limits.radius[row] or time[item] < limits.since[row]):
            continue
        tried += 1
        begin, start, mask = np.uint64(begins[row]), np.uint64(starts[arrival]), masks[arrival]
        for at in range(begin, begin + np.uint64(sizes[row])):
            cell = start + _bucket(terms[at], mask)
            cosine += weights[at] * _weight(held, weight, cell, terms[at])
        score = alpha * near + (1.0 - alpha) * text_score(meaning, row, item, cosine)
        if limited and not (score >= limits.score[row] and _has_terms(limits.terms, row, held, start, mask)):
            continue
        if limited and not says(limits.phrases, row, item):
            continue
        score *= gain
        owners[used], arrivals[used], scores[used] = row, arrival, score
        used += score >= bar
    counters[CANDIDATES] += keys.size
    counters[VERIFIED] += tried
    return Hits(owners[:used], arrivals[:used], scores[:used])


@njit(**EXACT)
def undecayed_scores(
    owners: Rows, items: Rows, subscriptions: SubscriptionColumns, messages: MessageColumns, frame: Frame
) -> Floats:
    """The scores of messages for subscriptions without decay."""
    reader_x, reader_y, reader_alpha, _, _, texts, _, meaning = subscriptions
    _, post_x, post_y, others, _, _, _ = messages
    begins, sizes, terms, weights = texts
    their_begins, their_sizes, their_terms, their_weights = others
    scores = np.empty(owners.size)
    for i in range(owners.size):
        row, item, cosine = owners[i], items[i], 0.0
        start = their_begins[item]
        for at in range(begins[row], begins[row] + sizes[row]):
            other = place_of(their_terms, start, start + their_sizes[item], terms[at])
            if other >= 0:
                cosine += weights[at] * their_weights[other]
        away = distance(frame.metric, reader_x[row], reader_y[row], post_x[item], post_y[item])
        alpha, text = reader_alpha[row], text_score(meaning, row, item, cosine)
        scores[i] = alpha * nearness_of(away, frame.scale) + (1.0 - alpha) * text
    return scores


class Links(NamedTuple):
    """Which lists may hold an item, in chunks of `CHUNK` lists: a cache line with the next chunk at its end.

    By item: its first chunk, or -1, and how many links it has. Only the first chunk may have fewer than
    `CHUNK`. `free[0]` is the first free chunk, `free[1]` how many are in use.
    """

    head: Rows
    length: Rows
    owner: Rows  # two-dimensional: chunks, CHUNK + 1
    free: Ints


@njit(**EXACT)
def link(head: Rows, length: Rows, owners: Rows, free: Ints, item: int, owner: int) -> None:
    """Link an item to a list that holds it; there is a free chunk."""
    at, place = head[item], length[item] % CHUNK
    if place == 0:
        before, at = at, free[0]
        free[0] = owners[at, CHUNK]
        free[1] += 1
        owners[at, CHUNK], head[item] = before, at
    owners[at, place] = owner
    length[item] += 1


@njit(**EXACT)
def holders(links: Links, items: Rows) -> Ints:
    """Which lists may hold items, each with the place of its item in `items`; and forget it.

    Chains are followed some at a time, so that cache misses overlap.
    """
    head, length, owners, free = links
    total, count = 0, 0
    for item in items:
        total += length[item]
    found, cursor = np.empty(total, np.int64), np.empty(FOLLOWED, np.int32)
    for first in range(0, items.size, FOLLOWED):
        size, before = min(FOLLOWED, items.size - first), -1
        for i in range(size):
            cursor[i] = head[items[first + i]]
            prefetch(owners, max(0, cursor[i]) * (CHUNK + 1))
        while count > before:
            before = count
            for i in range(size):
                at, item = cursor[i], items[first + i]
                if at >= 0:
                    held = (length[item] - 1) % CHUNK + 1
                    for place in range(held):
                        found[count] = np.int64(owners[at, place]) << ROW | (first + i)
                        count += 1
                    length[item] -= held
                    cursor[i] = owners[at, CHUNK]
                    prefetch(owners, max(0, cursor[i]) * (CHUNK + 1))
                    owners[at, CHUNK] = free[0]
                    free[0] = at
                    free[1] -= 1
        for i in range(size):
            head[items[first + i]] = -1
    return found
