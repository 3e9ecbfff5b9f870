"""Whether one box contains or covers another: by packed codes in buckets, then by exact ends (`covers`).

What the k-d tree and the Z-curve share.

A box [lo, hi] is the point (-lo_0, hi_0, -lo_1, hi_1, ...): one box contains another exactly if its point
dominates the other's, that is, is at least as large in every coordinate [Covering §IV-A]. Each coordinate is
cut into codes by `cuts`, ascending per dimension; codes never fall when the coordinate grows, so a point
whose codes do not dominate does not dominate either. Up to 16 dimensions share a word of 64 bits in lanes, of
eight bits for up to eight of them, of four for sixteen. The top bit of a lane is free: it takes the borrow of
one subtraction that compares all lanes. Infinite ends are ordinary coordinates.

A box is found by filter and verify: the packed codes pass few points, and those are compared by their exact
ends, which stand by row in `Subscriptions`. So coarse codes cost a few comparisons and no answer.

Bucket b holds row[b, SIZE] points, word by word side by side, so that one word of all its points is one run
of memory; row[b] says whose points they are. Behind the last point the words are 0. Which bucket a point
belongs to is the business of the index, `kdtree` or `zcurve` by meta[KIND]. Where a row's point stands is not
kept: its codes lead there, so its box must not change while it is in.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

Words = NDArray[np.uint64]
Bools = NDArray[np.bool_]

WORD, MOST_LANES, WIDEST = 64, 16, 8
EVERY = np.uint64(0xFFFFFFFFFFFFFFFF)


class Lanes(NamedTuple):
    """How codes share a word: lanes in it, bits of a lane, and the lowest and the top bit of every lane."""

    number: int
    bits: int
    unit: np.uint64
    high: np.uint64


@njit(**EXACT)
def words_for(dimensions: int) -> int:
    """How many words a point of so many dimensions takes."""
    return (dimensions + MOST_LANES - 1) // MOST_LANES


@njit(**EXACT)
def lanes_for(dimensions: int) -> Lanes:
    """The lanes of a point of so many dimensions, spread evenly over its words."""
    words = words_for(dimensions)
    count = (dimensions + words - 1) // words
    bits = min(WIDEST, WORD // count)
    # All lanes full of ones, divided by one lane of ones, leaves the lowest bit of every lane.
    unit = (EVERY >> np.uint64(WORD - WORD // bits * bits)) // np.uint64((1 << bits) - 1)
    return Lanes(count, bits, unit, unit << np.uint64(bits - 1))


def levels_for(dimensions: int) -> int:
    """How many codes there are in each of so many dimensions."""
    return int(1 << (lanes_for(dimensions).bits - 1))


@njit(**EXACT)
def _code(cuts: NDArray[np.float64], dimension: int, value: float) -> int:
    """How many cuts are at most the value. Cost: a step for each bit, without a branch to guess."""
    below, step = 0, (cuts.shape[1] + 1) // 2
    while step > 0:
        below += step * int(cuts[dimension, below + step - 1] <= value)
        step //= 2
    return below


@njit(**EXACT)
def encode(
    cuts: NDArray[np.float64], lo: NDArray[np.float64], hi: NDArray[np.float64], row: int, key: Words
) -> None:
    """Write the packed codes of box `row` into `key`."""
    count, bits, _, _ = lanes_for(cuts.shape[0])
    word, shift = -1, count * bits
    for dimension in range(cuts.shape[0]):
        if shift == count * bits:
            word, shift = word + 1, 0
            key[word] = np.uint64(0)
        value = -lo[row, dimension // 2] if dimension % 2 == 0 else hi[row, dimension // 2]
        # Shifts need both sides unsigned: Numba turns a mix of signed and unsigned into floats.
        key[word] |= np.uint64(_code(cuts, dimension, value)) << np.uint64(shift)
        shift += bits


@njit(**EXACT)
def code_at(words: Words, dimension: int, lanes: Lanes) -> int:
    """One code of a packed point."""
    word = 0
    while dimension >= lanes.number:
        word, dimension = word + 1, dimension - lanes.number
    return int(words[word] >> np.uint64(lanes.bits * dimension)) & ((1 << (lanes.bits - 1)) - 1)


@njit(**EXACT)
def reaches(corners: Words, place: int, key: Words, high: np.uint64) -> bool:
    """Whether every code of corners[place] is at least that of the key."""
    for word in range(key.shape[0]):
        # A lane whose top bit is gone has borrowed: its code is below that of the key.
        if ((corners[place, word] | high) - key[word]) & high != high:
            return False
    return True


@njit(**EXACT)
def larger(one: np.uint64, other: np.uint64, lanes: Lanes) -> np.uint64:
    """The larger code of each lane."""
    # The top bit of a lane says whether `one` is at least `other` there; `mask` spreads it over its code.
    at_least = ((one | lanes.high) - other) & lanes.high
    mask = at_least - (at_least >> np.uint64(lanes.bits - 1))
    return (one & mask) | (other & ((lanes.high - lanes.unit) ^ mask))


@njit(**EXACT)
def raise_corner(corners: Words, place: int, key: Words, lanes: Lanes) -> None:
    """Let a corner take in a point."""
    for word in range(key.shape[0]):
        corners[place, word] = larger(corners[place, word], key[word], lanes)


@njit(**EXACT)
def quantile_cuts(values: NDArray[np.float64], cuts: NDArray[np.float64]) -> None:
    """Set the cuts of each dimension so that the sample's distinct values (n, 2d) spread over all codes.

    Up to as many distinct values as there are codes get one each; more share codes evenly by number. Cost:
    O(n log n) a dimension.
    """
    levels = cuts.shape[1] + 1
    for dimension in range(values.shape[1]):
        ordered = np.sort(values[:, dimension])
        distinct = np.empty(ordered.shape[0])
        count = 0
        for i in range(ordered.shape[0]):
            if i == 0 or ordered[i] != ordered[i - 1]:
                distinct[count] = ordered[i]
                count += 1
        for cut in range(levels - 1):
            if count <= levels:
                cuts[dimension, cut] = distinct[cut + 1] if cut + 1 < count else np.inf
            else:
                at = (cut + 1) * ordered.shape[0] // levels
                cuts[dimension, cut] = ordered[at]


BUCKET = 64
KDTREE, ZCURVE = range(2)
META = 10
KIND, POINTS, NODE_USED, NODE_FREE, BUCKET_USED, BUCKET_FREE, BUCKETS, DUE, NODES_VISITED, COMPARISONS = (
    range(META)
)
SIZE, LEAF = BUCKET, BUCKET + 1
GONE, COVERED, FORWARDED, LEAVING = range(4)
NO_ROW = -1


Ends = NDArray[np.float64]


class Subscriptions(NamedTuple):
    """The subscriptions by row: box, status (GONE, COVERED, FORWARDED, LEAVING), order of registration."""

    lo: Ends
    hi: Ends
    status: NDArray[np.int8]
    sequence: NDArray[np.int64]


class QueryBoxes(NamedTuple):
    """Boxes to search for, by place."""

    lo: Ends
    hi: Ends


class Query(NamedTuple):
    """One of them, and the row it belongs to, or NO_ROW."""

    box: QueryBoxes
    place: int | np.int64
    own: int | np.int64


class IndexArrays(NamedTuple):
    """The arrays of an index over boxes; few, because every call of a kernel hands each of them over.

    Bucket b has words[b, word, slot] and row[b, slot], then row[b, SIZE] and row[b, LEAF], its leaf or, while
    it is free, the next free one. `node` and `corner` are the index's own; `cuts` are those of the codes;
    `meta` holds small counts.
    """

    words: Words
    row: NDArray[np.int32]
    node: NDArray[np.int32]
    corner: Words
    cuts: NDArray[np.float64]
    meta: NDArray[np.int64]


@njit(**EXACT)
def query_for(box: QueryBoxes, place: int, own: int) -> Query:
    """Make a query; rows come in 32 and in 64 bits, and this way a search is compiled for one type alone."""
    return Query(box, np.int64(place), np.int64(own))


@njit(**EXACT)
def short_of_buckets(index: IndexArrays) -> bool:
    """Whether the free buckets might not suffice for one insert."""
    return index.row.shape[0] - index.meta[BUCKETS] < 2


@njit(**EXACT)
def take_bucket(index: IndexArrays) -> int:
    """An empty bucket."""
    bucket = index.meta[BUCKET_FREE]
    if bucket >= 0:
        index.meta[BUCKET_FREE] = index.row[bucket, LEAF]
    else:
        bucket = index.meta[BUCKET_USED]
        index.meta[BUCKET_USED] += 1
    index.meta[BUCKETS] += 1
    index.row[bucket, SIZE] = 0
    index.words[bucket] = np.uint64(0)
    return bucket


@njit(**EXACT)
def release_bucket(index: IndexArrays, bucket: int) -> None:
    """Give a bucket back."""
    index.row[bucket, SIZE] = 0
    index.row[bucket, LEAF], index.meta[BUCKET_FREE] = index.meta[BUCKET_FREE], bucket
    index.meta[BUCKETS] -= 1


@njit(**EXACT)
def place(index: IndexArrays, bucket: int, row: int, key: Words) -> None:
    """Put a point behind the last one of a bucket that has room."""
    slot = index.row[bucket, SIZE]
    for word in range(key.shape[0]):
        index.words[bucket, word, slot] = key[word]
    index.row[bucket, slot] = row
    index.row[bucket, SIZE] = slot + 1


@njit(**EXACT)
def pick_up(index: IndexArrays, bucket: int, slot: int, key: Words) -> int:
    """Copy a point's words into `key` and return its row."""
    for word in range(key.shape[0]):
        key[word] = index.words[bucket, word, slot]
    return index.row[bucket, slot]


@njit(**EXACT)
def slot_in(index: IndexArrays, bucket: int, row: int) -> int:
    """The slot of a row's point in a bucket, or -1."""
    for slot in range(index.row[bucket, SIZE]):
        if index.row[bucket, slot] == row:
            return slot
    return -1


@njit(**EXACT)
def erase(index: IndexArrays, bucket: int, slot: int) -> None:
    """Take a point out of its bucket, the last one taking its place."""
    last = index.row[bucket, SIZE] - 1
    for word in range(index.words.shape[1]):
        index.words[bucket, word, slot] = index.words[bucket, word, last]
        index.words[bucket, word, last] = np.uint64(0)
    index.row[bucket, slot] = index.row[bucket, last]
    index.row[bucket, SIZE] = last


@njit(**EXACT)
def close_corner(index: IndexArrays, bucket: int, node: int) -> bool:
    """Set the corner of a node from the points of its bucket; return whether it changed."""
    changed, lanes = False, lanes_for(index.cuts.shape[0])
    for word in range(index.words.shape[1]):
        corner = np.uint64(0)
        for slot in range(index.row[bucket, SIZE]):
            corner = larger(corner, index.words[bucket, word, slot], lanes)
        changed = changed or corner != index.corner[node, word]
        index.corner[node, word] = corner
    return changed


@njit(**EXACT)
def _contains(lo: Ends, hi: Ends, row: int, box: QueryBoxes, place: int) -> bool:
    for attribute in range(lo.shape[1]):
        if lo[row, attribute] > box.lo[place, attribute] or hi[row, attribute] < box.hi[place, attribute]:
            return False
    return True


@njit(**EXACT)
def same_box(subs: Subscriptions, one: int, other: int) -> bool:
    """Whether two rows have equal boxes."""
    lo, hi = subs.lo, subs.hi
    for attribute in range(lo.shape[1]):
        if lo[one, attribute] != lo[other, attribute] or hi[one, attribute] != hi[other, attribute]:
            return False
    return True


@njit(**EXACT)
def covers(subs: Subscriptions, row: int, box: QueryBoxes, place: int, own: int) -> bool:
    """Whether a live row covers a box, which is that of row `own` or NO_ROW's.

    Of equal boxes the forwarded one covers, else the one registered first. Nothing covers itself, and one
    that is leaving covers no row; a box that is nobody's lies in it all the same.
    """
    if row == own or not _contains(subs.lo, subs.hi, row, box, place):
        return False
    return own == NO_ROW or _ranks(subs, row, own)


@njit(**EXACT)
def _ranks(subs: Subscriptions, row: int, own: int) -> bool:
    """Whether a live row that contains another covers it."""
    if subs.status[row] != COVERED:
        return subs.status[row] == FORWARDED
    return not same_box(subs, row, own) or subs.sequence[row] < subs.sequence[own]


@njit(**EXACT)
def filter_bucket(words: Words, bucket: int, key: Words, passed: Words, high: np.uint64) -> bool:
    """Set passed[slot] to `high` where the codes of a bucket's point dominate; return whether any does."""
    for slot in range(BUCKET):
        passed[slot] = ((words[bucket, 0, slot] | high) - key[0]) & high
    for word in range(1, key.shape[0]):
        for slot in range(BUCKET):
            passed[slot] &= ((words[bucket, word, slot] | high) - key[word]) & high
    some = False
    for slot in range(BUCKET):
        some |= passed[slot] == high
    return some


@njit(**EXACT)
def collect(
    held: NDArray[np.int32],
    bucket: int,
    passed: Words,
    subs: Subscriptions,
    query: Query,
    rows: NDArray[np.int32],
    count: int,
    high: np.uint64,
) -> int:
    """Add the rows of a bucket that have passed and cover the box of a query to a list, until it is full."""
    for slot in range(held[bucket, SIZE]):
        if count == rows.shape[0]:
            break
        row = held[bucket, slot]
        if passed[slot] == high and covers(subs, row, query.box, query.place, query.own):
            rows[count] = row
            count += 1
    return count


@njit(**EXACT)
def holds_wanted(
    index: IndexArrays, subs: Subscriptions, todo: Bools, bucket: int, slot: int, key: Words
) -> bool:
    """Whether a point has the codes of its row, written to `key`, and is the first met of a row in `todo`."""
    row = np.int64(index.row[bucket, slot])
    if row < 0 or row >= todo.size or not todo[row]:
        return False
    todo[row] = False
    encode(index.cuts, subs.lo, subs.hi, row, key)
    for word in range(key.size):
        if index.words[bucket, word, slot] != key[word]:
            return False
    return True


@njit(**EXACT)
def free_chain_fits(index: IndexArrays, taken: Bools, leaves: int) -> bool:
    """Whether all buckets that are not taken are in the chain of free ones, without points."""
    free, known = index.meta[BUCKET_FREE], leaves
    while free != -1:
        if free < 0 or free >= taken.size or taken[free] or index.row[free, SIZE] != 0:
            return False
        taken[free], known = True, known + 1
        free = np.int64(index.row[free, LEAF])
    return known == taken.size
