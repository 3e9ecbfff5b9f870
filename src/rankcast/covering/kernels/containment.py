"""Whether one box contains or covers another, as points in buckets: what the k-d tree and the Z-curve share.

A box [lo, hi] is the point (-lo_0, hi_0, -lo_1, hi_1, ...): one box contains another exactly if its point
dominates the other's, that is, is at least as large in every coordinate [Covering §IV-A]. Where a point
belongs and which buckets a search enters is decided by exact coordinates, so no order of arrival and no drift
of values makes a bucket larger than the others.

Inside a bucket a box is found by filter and verify: a point whose packed `codes` do not dominate does not
dominate either, and what passes is compared by its exact ends, which stand by row in `Subscriptions`. So
coarse codes cost a few comparisons and no answer. Infinite ends are ordinary coordinates.

There are two generations of cuts, and each bucket says whose codes it has. When points that passed in vain
have cost more than new codes would, the other generation is cut after a sample of the points; buckets take it
over a few at a time with the inserts that follow, so no call waits for all of them.

Bucket b holds row[b, SIZE] points, word by word side by side, so that one word of all its points is one run
of memory; row[b] says whose points they are. Behind the last point the words are 0. Which bucket a point
belongs to is the business of the index, `kdtree` or `zcurve` by meta[KIND]; where[row] remembers it. A box
must not change while it is in.

Bucket HOT belongs to no leaf, see `hot`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels.codes import Words, encode, quantile_cuts
from rankcast.structures.code_sets import NO_SETS, CodeSets, contain
from rankcast.structures.jit import EXACT

Bools = NDArray[np.bool_]
Ends = NDArray[np.float64]


@njit(**EXACT)
def coordinate(lo: Ends, hi: Ends, row: int, dimension: int) -> float:
    """One coordinate of the point of box `row`; zero has one sign, for those who look at bits."""
    return 0.0 - lo[row, dimension // 2] if dimension % 2 == 0 else hi[row, dimension // 2] + 0.0


@njit(**EXACT)
def write_point(lo: Ends, hi: Ends, row: int, point: NDArray[np.float64]) -> None:
    """Write the point of box `row`."""
    for attribute in range(lo.shape[1]):
        point[2 * attribute], point[2 * attribute + 1] = 0.0 - lo[row, attribute], hi[row, attribute] + 0.0


@njit(**EXACT)
def reaches(corners: NDArray[np.float64], place: int, point: NDArray[np.float64]) -> bool:
    """Whether corners[place] is at least the point in every dimension."""
    at_least = True
    # No way out of the loop: a branch that is guessed wrong costs more than the rest of it.
    for dimension in range(point.shape[0]):
        at_least &= corners[place, dimension] >= point[dimension]
    return at_least


@njit(**EXACT)
def raise_corner(corners: NDArray[np.float64], place: int, point: NDArray[np.float64]) -> None:
    """Let a corner take in a point."""
    for dimension in range(point.shape[0]):
        corners[place, dimension] = max(corners[place, dimension], point[dimension])


BUCKET = 64
KDTREE, ZCURVE = range(2)
HOT = 0
META = 13 + BUCKET
(
    KIND,
    POINTS,
    NODE_USED,
    NODE_FREE,
    BUCKET_USED,
    BUCKET_FREE,
    BUCKETS,
    GENERATION,
    RECODED,
    WASTED,
    HAND,
    NODES_VISITED,
    COMPARISONS,
) = range(13)
HITS = 13
SIZE, LEAF, CUT = BUCKET, BUCKET + 1, BUCKET + 2
SAMPLE = 1024
RECODE = 2  # buckets that take over new codes with an insert
PATIENCE = 8  # points that pass in vain, a point, before the codes are cut anew
TRIED = 4  # slots of HOT that are looked at to make place for one
GONE, COVERED, FORWARDED, LEAVING = range(4)
NO_ROW = -1


class Subscriptions(NamedTuple):
    """The subscriptions by row: box, status (GONE, COVERED, FORWARDED, LEAVING), order of registration, sets.

    A set has two attributes in the box, its range of codes and their number: what lies in a box has its sets
    compared, and if it is contained and the boxes are equal, it is equal.
    """

    lo: Ends
    hi: Ends
    status: NDArray[np.int8]
    sequence: NDArray[np.int64]
    sets: CodeSets = NO_SETS


class QueryBoxes(NamedTuple):
    """Boxes to search for, by place, with their sets."""

    lo: Ends
    hi: Ends
    sets: CodeSets = NO_SETS


class Query(NamedTuple):
    """One of them, and the row it belongs to, or NO_ROW."""

    box: QueryBoxes
    place: int | np.int64
    own: int | np.int64


class IndexArrays(NamedTuple):
    """The arrays of an index over boxes; few, because every call of a kernel hands each of them over.

    Bucket b has words[b, word, slot] and row[b, slot], then row[b, SIZE]; row[b, LEAF], its leaf or, while it
    is free, the next free one; and row[b, CUT], the generation of its codes. `node` and `corner` are the
    index's own; `hot` has the coordinates of the rows of HOT, slot by slot in each dimension, and NaN behind
    them; cuts[generation] are those of the codes; where[row] is the bucket of a row that is in; `meta` holds
    small counts, and from HITS on how often each slot of HOT was hit.
    """

    words: Words
    row: NDArray[np.int32]
    node: NDArray[np.int32]
    corner: NDArray[np.float64]
    hot: NDArray[np.float64]
    cuts: NDArray[np.float64]
    where: NDArray[np.int32]
    meta: NDArray[np.int64]


class Scratch(NamedTuple):
    """Memory of a search: the point of its box, its codes by generation, and which slots of a bucket pass."""

    point: NDArray[np.float64]
    key: Words
    passed: Words


@njit(**EXACT)
def scratch_for(index: IndexArrays) -> Scratch:
    """Memory that searches of an index need, one after the other."""
    words = index.words.shape[1]
    return Scratch(np.empty(index.hot.shape[0]), np.empty((2, words), np.uint64), np.empty(BUCKET, np.uint64))


@njit(**EXACT)
def query_for(box: QueryBoxes, place: int, own: int) -> Query:
    """Make a query; rows come in 32 and in 64 bits, and this way a search is compiled for one type alone."""
    return Query(box, np.int64(place), np.int64(own))


@njit(**EXACT)
def short_of_buckets(index: IndexArrays) -> bool:
    """Whether the free buckets might not suffice for one insert."""
    return index.row.shape[0] - index.meta[BUCKETS] < 3


@njit(**EXACT)
def take_bucket(index: IndexArrays) -> int:
    """An empty bucket, of the newest codes."""
    bucket = index.meta[BUCKET_FREE]
    if bucket >= 0:
        index.meta[BUCKET_FREE] = index.row[bucket, LEAF]
    else:
        bucket = index.meta[BUCKET_USED]
        index.meta[BUCKET_USED] += 1
    index.meta[BUCKETS] += 1
    index.row[bucket, SIZE] = 0
    index.row[bucket, CUT] = index.meta[GENERATION]
    index.words[bucket] = np.uint64(0)
    return bucket


@njit(**EXACT)
def release_bucket(index: IndexArrays, bucket: int) -> None:
    """Give a bucket back."""
    index.row[bucket, SIZE] = 0
    index.row[bucket, LEAF], index.meta[BUCKET_FREE] = index.meta[BUCKET_FREE], bucket
    index.meta[BUCKETS] -= 1


@njit(**EXACT)
def place(index: IndexArrays, bucket: int, row: int, point: NDArray[np.float64]) -> None:
    """Put a point behind the last one of a bucket that has room."""
    slot, key = index.row[bucket, SIZE], np.empty(index.words.shape[1], np.uint64)
    encode(index.cuts[index.row[bucket, CUT]], point, key)
    for word in range(key.shape[0]):
        index.words[bucket, word, slot] = key[word]
    index.row[bucket, slot] = row
    index.row[bucket, SIZE] = slot + 1
    index.where[row] = bucket


@njit(**EXACT)
def gather(index: IndexArrays, subs: Subscriptions, bucket: int) -> NDArray[np.float64]:
    """The points of a bucket."""
    points = np.empty((index.row[bucket, SIZE], index.hot.shape[0]))
    for slot in range(points.shape[0]):
        write_point(subs.lo, subs.hi, index.row[bucket, slot], points[slot])
    return points


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
def close_corner(
    index: IndexArrays, subs: Subscriptions, bucket: int, node: int, gone: NDArray[np.float64]
) -> bool:
    """Set the corner of a node from its bucket's points after one has gone; return whether it changed.

    Cost: only where the point was the largest are the others looked at.
    """
    changed = False
    for dimension in range(gone.shape[0]):
        if gone[dimension] < index.corner[node, dimension]:
            continue
        largest = -np.inf
        for slot in range(index.row[bucket, SIZE]):
            largest = max(largest, coordinate(subs.lo, subs.hi, index.row[bucket, slot], dimension))
        changed |= largest < index.corner[node, dimension]
        index.corner[node, dimension] = largest
    return changed


@njit(**EXACT)
def _cut(index: IndexArrays, subs: Subscriptions) -> None:
    """Cut a new generation of codes after a sample of the points. Cost: a sort of the sample a dimension."""
    used, step = index.meta[BUCKET_USED], max(1, index.meta[POINTS] // SAMPLE)
    sample, count, passed = np.empty((2 * SAMPLE, index.hot.shape[0])), 0, 0
    for bucket in range(HOT + 1, used):
        for slot in range(index.row[bucket, SIZE]):
            if passed % step == 0 and count < sample.shape[0]:
                write_point(subs.lo, subs.hi, index.row[bucket, slot], sample[count])
                count += 1
            passed += 1
    index.meta[GENERATION] = 1 - index.meta[GENERATION]
    quantile_cuts(sample[:count], index.cuts[index.meta[GENERATION]])
    index.meta[RECODED], index.meta[WASTED] = HOT + 1, 0


@njit(**EXACT)
def keep_codes(index: IndexArrays, subs: Subscriptions) -> None:
    """Let a few buckets take over the newest codes; cut them anew if that is worth it."""
    meta, left = index.meta, RECODE
    if meta[RECODED] >= meta[BUCKET_USED]:
        if meta[WASTED] > PATIENCE * (meta[POINTS] + BUCKET):
            _cut(index, subs)
        return
    key, point = np.empty(index.words.shape[1], np.uint64), np.empty(index.hot.shape[0])
    while left > 0 and meta[RECODED] < meta[BUCKET_USED]:
        bucket = meta[RECODED]
        meta[RECODED] += 1
        if index.row[bucket, CUT] == meta[GENERATION]:
            continue
        index.row[bucket, CUT] = meta[GENERATION]  # an empty one, too: points may come
        if index.row[bucket, SIZE] == 0:
            continue
        for slot in range(index.row[bucket, SIZE]):
            write_point(subs.lo, subs.hi, index.row[bucket, slot], point)
            encode(index.cuts[meta[GENERATION]], point, key)
            for word in range(key.shape[0]):
                index.words[bucket, word, slot] = key[word]
        left -= 1


@njit(**EXACT)
def own_boxes(subs: Subscriptions) -> QueryBoxes:
    """The boxes of all rows, to search for."""
    return QueryBoxes(subs.lo, subs.hi, subs.sets)


@njit(**EXACT)
def _contains(lo: Ends, hi: Ends, row: int, box: QueryBoxes, place: int) -> bool:
    for attribute in range(lo.shape[1]):
        if lo[row, attribute] > box.lo[place, attribute] or hi[row, attribute] < box.hi[place, attribute]:
            return False
    return True


@njit(**EXACT)
def same_box(lo: Ends, hi: Ends, one: int, other: int) -> bool:
    """Whether two rows, of which one contains the other, are equal."""
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
    if not _contains(subs.lo, subs.hi, row, box, place):
        return False
    if not may_cover(subs.lo, subs.hi, subs.status, subs.sequence, row, own):
        return False
    return subs.sets.size.shape[0] == 0 or contain(subs.sets, row, box.sets, place)


@njit(**EXACT)
def may_cover(
    lo: Ends, hi: Ends, status: NDArray[np.int8], sequence: NDArray[np.int64], row: int, own: int
) -> bool:
    """Whether a live row that contains the box of another, or of NO_ROW, covers it as far as boxes tell."""
    if own == NO_ROW:
        return True
    if status[row] != COVERED:
        return row != own and status[row] == FORWARDED
    return row != own and (sequence[row] < sequence[own] or not same_box(lo, hi, row, own))


@njit(**EXACT)
def filter_bucket(words: Words, bucket: int, key: Words, passed: Words, high: np.uint64) -> bool:
    """Set passed[slot] to `high` where the codes of a bucket's point dominate; return whether any does."""
    for slot in range(BUCKET):
        # A lane whose top bit is gone has borrowed: its code is below that of the key.
        passed[slot] = ((words[bucket, 0, slot] | high) - key[0]) & high
    for word in range(1, key.shape[0]):
        for slot in range(BUCKET):
            passed[slot] &= ((words[bucket, word, slot] | high) - key[word]) & high
    some = False
    for slot in range(BUCKET):
        some |= passed[slot] == high
    return some


@njit(**EXACT)
def verify_bucket(
    held: NDArray[np.int32],
    bucket: int,
    lo: Ends,
    hi: Ends,
    point: NDArray[np.float64],
    passed: Words,
    high: np.uint64,
) -> tuple[int, int]:
    """Of the slots that passed the filter, leave those whose boxes contain the point's; count both kinds.

    Returns how many are left and how many passed in vain. This and the filter take arrays, not tuples of
    them: what is called for every bucket must not hand over a hundred words.
    """
    left, vain = 0, 0
    for slot in range(held[bucket, SIZE]):
        if passed[slot] != high:
            continue
        row, inside = held[bucket, slot], True
        for attribute in range(lo.shape[1]):
            inside &= 0.0 - lo[row, attribute] >= point[2 * attribute]
            inside &= hi[row, attribute] >= point[2 * attribute + 1]
        if inside:
            left += 1
        else:
            passed[slot] = np.uint64(0)
            vain += 1
    return left, vain


@njit(**EXACT)
def collect(
    index: IndexArrays,
    bucket: int,
    subs: Subscriptions,
    query: Query,
    passed: Words,
    rows: NDArray[np.int32],
    count: int,
    high: np.uint64,
) -> int:
    """Add the verified rows of a bucket that cover the box of a query to a list, until it is full."""
    for slot in range(index.row[bucket, SIZE]):
        if passed[slot] == high and count < rows.shape[0]:
            row = index.row[bucket, slot]
            met = may_cover(subs.lo, subs.hi, subs.status, subs.sequence, row, query.own)
            if met and (subs.sets.size.size == 0 or contain(subs.sets, row, query.box.sets, query.place)):
                rows[count] = row
                count += 1
    return count


@njit(**EXACT)
def encode_query(index: IndexArrays, scratch: Scratch) -> None:
    """Write the codes of a query's point, by each generation that some bucket has."""
    generation = index.meta[GENERATION]
    encode(index.cuts[generation], scratch.point, scratch.key[generation])
    if index.meta[RECODED] < index.meta[BUCKET_USED]:
        encode(index.cuts[1 - generation], scratch.point, scratch.key[1 - generation])


@njit(**EXACT)
def holds_wanted(
    index: IndexArrays, subs: Subscriptions, todo: Bools, bucket: int, slot: int, point: NDArray[np.float64]
) -> bool:
    """Whether a point, written to `point`, has the codes of its row and is the first met of one in `todo`."""
    row, key = np.int64(index.row[bucket, slot]), np.empty(index.words.shape[1], np.uint64)
    if row < 0 or row >= todo.size or not todo[row] or row >= index.where.size:
        return False
    if index.where[row] != bucket or not 0 <= index.row[bucket, CUT] <= 1:
        return False
    todo[row] = False
    write_point(subs.lo, subs.hi, row, point)
    encode(index.cuts[index.row[bucket, CUT]], point, key)
    for word in range(key.size):
        if index.words[bucket, word, slot] != key[word]:
            return False
    return True


@njit(**EXACT)
def free_chain_fits(index: IndexArrays, taken: Bools, leaves: int) -> bool:
    """Whether all buckets but HOT that are not taken are in the chain of free ones, without points."""
    free, known = index.meta[BUCKET_FREE], leaves + 1
    while free != -1:
        if free <= HOT or free >= taken.size or taken[free] or index.row[free, SIZE] != 0:
            return False
        taken[free], known = True, known + 1
        free = np.int64(index.row[free, LEAF])
    return known == taken.size
