"""Packed points in Morton order: insert, remove, dominance search along the Z-curve [Covering §IV-D].

The buckets stand in order in node[:, ORDER]; bucket b holds the points whose place on the curve is at least
its floor, corner[2 b + 1], and below the next bucket's (equal floors where more points than a bucket holds
have one place). Places are never computed: two points are compared by the highest bit in which any of their
codes differ, the first dimension counting most. corner[2 b] is the largest code of the bucket's points in
each dimension.

The query region reaches up to the end of the curve, so the search starts there, at the extremal points, where
the largest cell inside the region lies. Going down it leaps over stretches outside the region: to the last
place below the bucket just seen that is inside again, found bit by bit.

Cost: insert and remove O(log n) comparisons and a shift of the order of buckets; a search visits buckets
whose stretch of the curve enters the region.

The Z-curve exists to compare with the k-d tree. It stands here and not with `rankcast.papers` because the
kernels of `index` reach both by meta[KIND]: to keep them apart, every search would have to be compiled for
each kind, or called through a pointer.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels.containment import (
    BUCKET,
    BUCKET_USED,
    BUCKETS,
    COMPARISONS,
    NODES_VISITED,
    POINTS,
    SIZE,
    Bools,
    IndexArrays,
    Lanes,
    Query,
    Subscriptions,
    Words,
    close_corner,
    code_at,
    collect,
    erase,
    filter_bucket,
    free_chain_fits,
    holds_wanted,
    lanes_for,
    pick_up,
    place,
    raise_corner,
    reaches,
    release_bucket,
    slot_in,
    take_bucket,
)
from rankcast.structures.jit import EXACT

FIELDS = 1
ORDER = 0
MERGED = 48
UNDERFLOW = 16


@njit(**EXACT)
def clear(index: IndexArrays) -> None:
    """Make the curve empty: one bucket for all of it."""
    bucket = take_bucket(index)
    index.node[0, ORDER] = bucket
    index.corner[2 * bucket + 1] = np.uint64(0)
    index.corner[2 * bucket] = np.uint64(0)


@njit(**EXACT)
def precedes(one: Words, other: Words, lanes: Lanes) -> bool:
    """Whether a point comes strictly before another on the curve."""
    for level in range(lanes.bits - 2, -1, -1):
        for word in range(one.shape[0]):
            differ = (one[word] ^ other[word]) & (lanes.unit << np.uint64(level))
            if differ != np.uint64(0):
                # The lowest bit that differs: earlier dimensions are in lower lanes and count more.
                first = differ & (~differ + np.uint64(1))
                return one[word] & first == np.uint64(0)
    return False


@njit(**EXACT)
def _position(index: IndexArrays, key: Words, lanes: Lanes) -> int:
    """The last place in the order whose floor does not come after the key."""
    below, above = 0, index.meta[BUCKETS]
    while above - below > 1:
        middle = (below + above) // 2
        if precedes(key, index.corner[2 * index.node[middle, ORDER] + 1], lanes):
            above = middle
        else:
            below = middle
    return below


@njit(**EXACT)
def _sorted_slots(index: IndexArrays, bucket: int) -> NDArray[np.int64]:
    """The slots of a bucket in the order of the curve."""
    slots, lanes = np.arange(index.row[bucket, SIZE]), lanes_for(index.cuts.shape[0])
    for i in range(1, slots.shape[0]):
        slot, j = slots[i], i
        while j > 0 and precedes(index.words[bucket, :, slot], index.words[bucket, :, slots[j - 1]], lanes):
            slots[j] = slots[j - 1]
            j -= 1
        slots[j] = slot
    return slots


@njit(**EXACT)
def _cut_place(index: IndexArrays, bucket: int, slots: NDArray[np.int64]) -> int:
    """The place nearest the middle where the curve moves on; the middle if it never does."""
    half, lanes = slots.shape[0] // 2, lanes_for(index.cuts.shape[0])
    for away in range(half):
        for middle in (half - away, half + away):
            if 0 < middle < slots.shape[0] and precedes(
                index.words[bucket, :, slots[middle - 1]], index.words[bucket, :, slots[middle]], lanes
            ):
                return middle
    return half


@njit(**EXACT)
def _split(index: IndexArrays, position: int) -> None:
    """Move the upper half of a full bucket into a new one behind it."""
    old, key = index.node[position, ORDER], np.empty(index.words.shape[1], np.uint64)
    slots, lanes = _sorted_slots(index, old), lanes_for(index.cuts.shape[0])
    middle, count = _cut_place(index, old, slots), index.meta[BUCKETS]
    new = take_bucket(index)
    for i in range(count, position + 1, -1):
        index.node[i, ORDER] = index.node[i - 1, ORDER]
    index.node[position + 1, ORDER] = new
    index.corner[2 * new] = np.uint64(0)
    index.corner[2 * new + 1] = index.words[old, :, slots[middle]]
    rows = np.empty(slots.shape[0] - middle, np.int32)
    for i in range(middle, slots.shape[0]):
        rows[i - middle] = pick_up(index, old, slots[i], key)
        raise_corner(index.corner, 2 * new, key, lanes)
    _move(index, old, rows, new, key)
    close_corner(index, old, 2 * old)


@njit(**EXACT)
def _move(index: IndexArrays, source: int, rows: NDArray[np.int32], target: int, key: Words) -> None:
    """Move the points of rows to another bucket."""
    for row in rows:
        slot = slot_in(index, source, row)
        pick_up(index, source, slot, key)
        erase(index, source, slot)
        place(index, target, row, key)


@njit(**EXACT)
def insert(index: IndexArrays, row: int, key: Words) -> None:
    """Add a point. Requires an index that is not `short_of_buckets`."""
    index.meta[POINTS] += 1
    lanes = lanes_for(index.cuts.shape[0])
    position = _position(index, key, lanes)
    if index.row[index.node[position, ORDER], SIZE] == BUCKET:
        _split(index, position)
        position = _position(index, key, lanes)
    bucket = index.node[position, ORDER]
    place(index, bucket, row, key)
    raise_corner(index.corner, 2 * bucket, key, lanes)


@njit(**EXACT)
def _position_of(index: IndexArrays, row: int, key: Words) -> int:
    """Where the bucket with a row's point stands in the order: the key's, or below it if places are equal."""
    position = _position(index, key, lanes_for(index.cuts.shape[0]))
    while slot_in(index, index.node[position, ORDER], row) < 0:
        position -= 1
    return position


@njit(**EXACT)
def _drop(index: IndexArrays, position: int) -> None:
    """Take an empty bucket out of the order; the first of all keeps its floor for its successor."""
    bucket = index.node[position, ORDER]
    for i in range(position, index.meta[BUCKETS] - 1):
        index.node[i, ORDER] = index.node[i + 1, ORDER]
    release_bucket(index, bucket)
    if position == 0:
        index.corner[2 * index.node[0, ORDER] + 1] = np.uint64(0)


@njit(**EXACT)
def remove(index: IndexArrays, row: int, key: Words) -> None:
    """Take a point out; a bucket that is nearly empty joins the one below it if both fit."""
    index.meta[POINTS] -= 1
    position = _position_of(index, row, key)
    bucket = index.node[position, ORDER]
    erase(index, bucket, slot_in(index, bucket, row))
    close_corner(index, bucket, 2 * bucket)
    if index.row[bucket, SIZE] >= UNDERFLOW or index.meta[BUCKETS] == 1:
        return
    if position > 0:
        lower = index.node[position - 1, ORDER]
        if index.row[lower, SIZE] + index.row[bucket, SIZE] <= MERGED:
            rows = index.row[bucket, : index.row[bucket, SIZE]].copy()
            _move(index, bucket, rows, lower, np.empty(index.words.shape[1], np.uint64))
            close_corner(index, lower, 2 * lower)
    if index.row[bucket, SIZE] == 0:
        _drop(index, position)


@njit(**EXACT)
def _with_bit(codes: NDArray[np.int64], dimension: int, level: int, high: bool) -> None:
    """Set a bit of a code and turn all lower ones the other way: 1000... or 0111..."""
    upper = codes[dimension] >> (level + 1) << (level + 1)
    codes[dimension] = upper | (1 << level if high else (1 << level) - 1)


@njit(**EXACT)
def leap(floor: Words, key: Words, codes: NDArray[np.int64], lanes: Lanes) -> bool:
    """The last place before `floor` whose codes all reach the key's, into codes[0]; False if there is none.

    Walks the bits of the curve from the top, keeping the part of the region that is still open; the codes are
    rows of scratch: the answer, the largest and the smallest place of that part.
    """
    best, most, least, known = codes[0], codes[1], codes[2], False
    for dimension in range(codes.shape[1]):
        most[dimension], least[dimension] = (1 << (lanes.bits - 1)) - 1, code_at(key, dimension, lanes)
    for level in range(lanes.bits - 2, -1, -1):
        for dimension in range(codes.shape[1]):
            bit = (code_at(floor, dimension, lanes) >> level) & 1
            lower, upper = (least[dimension] >> level) & 1, (most[dimension] >> level) & 1
            if bit == 0 and lower == 1:
                return known
            if bit == 0 and upper == 1:
                _with_bit(most, dimension, level, False)
            elif bit == 1 and upper == 0:
                best[:] = most
                return True
            elif bit == 1 and lower == 0:
                best[:] = most
                _with_bit(best, dimension, level, False)
                _with_bit(least, dimension, level, True)
                known = True
    return known


@njit(**EXACT)
def _pack(codes: NDArray[np.int64], key: Words, lanes: Lanes) -> None:
    key[:] = np.uint64(0)
    for dimension in range(codes.shape[0]):
        shift = np.uint64(lanes.bits * (dimension % lanes.number))
        key[dimension // lanes.number] |= np.uint64(codes[dimension]) << shift


@njit(**EXACT)
def find(
    index: IndexArrays,
    subs: Subscriptions,
    query: Query,
    key: Words,
    passed: Words,
    rows: NDArray[np.int32],
    count: int,
) -> int:
    """Add rows that cover the box of a query to a list that has `count`; stop when it is full.

    `key` are the codes of the box, `passed` is scratch for a bucket.
    """
    codes, target = np.empty((3, index.cuts.shape[0]), np.int64), np.empty(key.shape[0], np.uint64)
    order, corner, words, held = index.node, index.corner, index.words, index.row
    visited, compared, lanes = 0, 0, lanes_for(index.cuts.shape[0])
    high = lanes.high
    position = index.meta[BUCKETS] - 1
    while position >= 0 and count < rows.shape[0]:
        bucket = order[position, ORDER]
        visited += 1
        if reaches(corner, 2 * bucket, key, high):
            compared += held[bucket, SIZE]
            if filter_bucket(words, bucket, key, passed, high):
                count = collect(held, bucket, passed, subs, query, rows, count, high)
        position -= 1
        floor = corner[2 * bucket + 1]
        if position < 0 or not precedes(corner[2 * order[position, ORDER] + 1], floor, lanes):
            continue
        if not leap(floor, key, codes, lanes):
            break
        _pack(codes[0], target, lanes)
        position = _position(index, target, lanes)
    index.meta[NODES_VISITED] += visited
    index.meta[COMPARISONS] += compared
    return count


@njit(**EXACT)
def fits(index: IndexArrays, subs: Subscriptions, wanted: Bools) -> bool:
    """Whether buckets stand in the order of their floors and hold the `wanted` rows, each between two."""
    held, meta, lanes = index.row, index.meta, lanes_for(index.cuts.shape[0])
    buckets, count = meta[BUCKET_USED], meta[BUCKETS]
    if not 1 <= count <= buckets <= held.shape[0]:
        return False
    taken, todo, points = np.zeros(buckets, np.bool_), wanted.copy(), np.int64(0)
    key = np.empty(index.words.shape[1], np.uint64)
    for position in range(count):
        bucket = np.int64(index.node[position, ORDER])
        if bucket < 0 or bucket >= buckets or taken[bucket]:
            return False
        taken[bucket] = True
    for word in range(key.size):
        if index.corner[2 * np.int64(index.node[0, ORDER]) + 1, word] != np.uint64(0):
            return False
    for position in range(count):
        bucket, last = np.int64(index.node[position, ORDER]), position + 1 == count
        floor, size = index.corner[2 * bucket + 1], np.int64(held[bucket, SIZE])
        ceiling = floor if last else index.corner[2 * np.int64(index.node[position + 1, ORDER]) + 1]
        if precedes(ceiling, floor, lanes) or size > BUCKET or size < (1 if count > 1 else 0):
            return False
        for slot in range(size):
            if not holds_wanted(index, subs, todo, bucket, slot, key) or precedes(key, floor, lanes):
                return False
            if not last and precedes(ceiling, key, lanes):
                return False
        points += size
    return points == meta[POINTS] and not todo.any() and free_chain_fits(index, taken, count)
