"""Points in Morton order: insert, remove, dominance search along the Z-curve [Covering §IV-D].

The buckets stand in order in node[:, ORDER]; bucket b holds the points whose place on the curve is at least
its floor, corner[2 b + 1], and below the next bucket's (equal floors where more points than a bucket holds
have one place); the first bucket holds whatever comes before the second, and its floor only tells that some
of its points may have the place of the next floor. corner[2 b] is the largest coordinate of the bucket's
points in each dimension.

Coordinates are taken as the 64 bits that order them, so the curve is exact and follows values wherever they
go. Places are never computed: two points are compared by the highest bit in which any of their coordinates
differ, the first dimension counting most.

The query region reaches up to the end of the curve, so the search starts there, at the extremal points, where
the largest cell inside the region lies. Going down it leaps over stretches outside the region: to the last
place below the bucket just seen that is inside again, found bit by bit.

Cost: insert and remove O(log n) comparisons and a shift of the order of buckets; a search visits buckets
whose stretch of the curve enters the region, and a leap looks at 64 bits of each coordinate.

The Z-curve exists to compare with the k-d tree. It stands here and not with `rankcast.papers` because the
kernels of `index` reach both by meta[KIND]: to keep them apart, every search would have to be compiled for
each kind, or called through a pointer.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels.codes import Words, lanes_for
from rankcast.covering.kernels.containment import (
    BUCKET,
    BUCKET_USED,
    BUCKETS,
    COMPARISONS,
    CUT,
    HOT,
    NODES_VISITED,
    POINTS,
    SIZE,
    WASTED,
    Bools,
    IndexArrays,
    Query,
    Scratch,
    Subscriptions,
    close_corner,
    collect,
    erase,
    filter_bucket,
    free_chain_fits,
    gather,
    holds_wanted,
    place,
    raise_corner,
    reaches,
    release_bucket,
    slot_in,
    take_bucket,
    verify_bucket,
)
from rankcast.structures.jit import EXACT

FIELDS = 1
ORDER = 0
MERGED = 48
UNDERFLOW = 16
TOP = np.uint64(1 << 63)
EVERY = np.uint64(0xFFFFFFFFFFFFFFFF)

Point = NDArray[np.float64]


@njit(**EXACT)
def _buckets(index: IndexArrays) -> int:
    """How many buckets stand in the order: all that are taken but HOT."""
    return index.meta[BUCKETS] - 1


@njit(**EXACT)
def write_bits(points: Point, row: int, bits: Words) -> None:
    """Write the coordinates of points[row] as words of the same order: of negative ones all bits turn."""
    raw = points.view(np.uint64)
    for dimension in range(bits.shape[0]):
        word = raw[row, dimension]
        bits[dimension] = ~word if word & TOP != np.uint64(0) else word | TOP


@njit(**EXACT)
def clear(index: IndexArrays) -> None:
    """Make the curve empty: one bucket for all of it."""
    bucket = take_bucket(index)
    index.node[0, ORDER] = bucket
    index.corner[2 * bucket + 1] = -np.inf
    index.corner[2 * bucket] = -np.inf


@njit(**EXACT)
def precedes(one: Words, other: Words) -> bool:
    """Whether a point comes strictly before another on the curve, by the bits of both."""
    most, where = np.uint64(0), -1
    for dimension in range(one.shape[0]):
        differ = one[dimension] ^ other[dimension]
        # The highest bit of `differ` is above that of `most`.
        if most < differ and most < (most ^ differ):
            most, where = differ, dimension
    return where >= 0 and one[where] < other[where]


@njit(**EXACT)
def _position(index: IndexArrays, bits: Words) -> int:
    """The last place in the order whose floor does not come after a point."""
    below, above, floor = 0, _buckets(index), np.empty_like(bits)
    while above - below > 1:
        middle = (below + above) // 2
        write_bits(index.corner, 2 * index.node[middle, ORDER] + 1, floor)
        if precedes(bits, floor):
            above = middle
        else:
            below = middle
    return below


@njit(**EXACT)
def _bits(point: Point) -> Words:
    bits = np.empty(point.shape[0], np.uint64)
    write_bits(point.reshape(1, -1), 0, bits)
    return bits


@njit(**EXACT)
def _sorted_slots(bits: Words) -> NDArray[np.int64]:
    """The places of points, given by their bits, in the order of the curve."""
    slots = np.arange(bits.shape[0])
    for i in range(1, slots.shape[0]):
        slot, j = slots[i], i
        while j > 0 and precedes(bits[slot], bits[slots[j - 1]]):
            slots[j] = slots[j - 1]
            j -= 1
        slots[j] = slot
    return slots


@njit(**EXACT)
def _cut_place(bits: Words, slots: NDArray[np.int64]) -> int:
    """The place nearest the middle where the curve moves on; the middle if it never does."""
    half = slots.shape[0] // 2
    for away in range(half):
        for middle in (half - away, half + away):
            if 0 < middle < slots.shape[0] and precedes(bits[slots[middle - 1]], bits[slots[middle]]):
                return middle
    return half


@njit(**EXACT)
def _split(index: IndexArrays, subs: Subscriptions, position: int) -> None:
    """Divide a full bucket in two, one behind the other."""
    old = index.node[position, ORDER]
    rows, points = index.row[old, :BUCKET].copy(), gather(index, subs, old)
    bits = np.empty(points.shape, np.uint64)
    for slot in range(BUCKET):
        write_bits(points, slot, bits[slot])
    slots = _sorted_slots(bits)
    middle, count, new = _cut_place(bits, slots), _buckets(index), take_bucket(index)
    for i in range(count, position + 1, -1):
        index.node[i, ORDER] = index.node[i - 1, ORDER]
    index.node[position + 1, ORDER] = new
    index.corner[2 * new, :], index.corner[2 * old, :] = -np.inf, -np.inf
    index.corner[2 * new + 1, : points.shape[1]] = points[slots[middle]]
    if position == 0:
        index.corner[2 * old + 1] = -np.inf
    if not precedes(bits[slots[middle - 1]], bits[slots[middle]]):
        index.corner[2 * old + 1] = index.corner[2 * new + 1]
    index.row[old, SIZE] = 0
    index.words[old] = np.uint64(0)
    for i in range(BUCKET):
        slot, bucket = slots[i], old if i < middle else new
        place(index, bucket, rows[slot], points[slot])
        raise_corner(index.corner, 2 * bucket, points[slot])


@njit(**EXACT)
def insert(index: IndexArrays, subs: Subscriptions, row: int, point: Point) -> None:
    """Add a point. Requires an index that is not `short_of_buckets`."""
    index.meta[POINTS] += 1
    bits = _bits(point)
    position = _position(index, bits)
    if index.row[index.node[position, ORDER], SIZE] == BUCKET:
        _split(index, subs, position)
        position = _position(index, bits)
    bucket = index.node[position, ORDER]
    place(index, bucket, row, point)
    raise_corner(index.corner, 2 * bucket, point)


@njit(**EXACT)
def _drop(index: IndexArrays, position: int) -> None:
    """Take an empty bucket out of the order; the first of all keeps its floor for its successor."""
    bucket = index.node[position, ORDER]
    for i in range(position, _buckets(index) - 1):
        index.node[i, ORDER] = index.node[i + 1, ORDER]
    release_bucket(index, bucket)
    if position == 0:
        index.corner[2 * index.node[0, ORDER] + 1] = -np.inf


@njit(**EXACT)
def remove(index: IndexArrays, subs: Subscriptions, row: int, point: Point) -> None:
    """Take a point out; a bucket that is nearly empty joins the one below it if both fit."""
    index.meta[POINTS] -= 1
    bucket = index.where[row]
    erase(index, bucket, slot_in(index, bucket, row))
    close_corner(index, subs, bucket, 2 * bucket, point)
    if index.row[bucket, SIZE] >= UNDERFLOW or _buckets(index) == 1:
        return
    # Where the bucket stands in the order: where the point leads, or below it if places are equal.
    position = _position(index, _bits(point))
    while index.node[position, ORDER] != bucket:
        position -= 1
    if position > 0:
        lower = index.node[position - 1, ORDER]
        if index.row[lower, SIZE] + index.row[bucket, SIZE] <= MERGED:
            points = gather(index, subs, bucket)
            for slot in range(points.shape[0]):
                place(index, lower, index.row[bucket, slot], points[slot])
                raise_corner(index.corner, 2 * lower, points[slot])
            index.row[bucket, SIZE] = 0
    if index.row[bucket, SIZE] == 0:
        _drop(index, position)


@njit(**EXACT)
def _with_bit(bits: Words, dimension: int, level: np.uint64, high: bool) -> None:
    """Set a bit of a coordinate and turn all lower ones the other way: 1000... or 0111..."""
    bit = np.uint64(1) << level
    lower = bit - np.uint64(1)
    bits[dimension] = (bits[dimension] & ~(bit | lower)) | (bit if high else lower)


@njit(**EXACT)
def leap(floor: Words, least_of: Words, bits: Words) -> bool:
    """The last place before `floor` that reaches `least_of` everywhere, into bits[0]; False if there is none.

    Walks the bits of the curve from the top, keeping the part of the region that is still open; the rows of
    `bits` are scratch: the answer, the largest and the smallest place of that part.
    """
    best, most, least, known = bits[0], bits[1], bits[2], False
    most[:], least[:] = EVERY, least_of
    one = np.uint64(1)
    for down in range(64):
        level = np.uint64(63 - down)
        for dimension in range(floor.shape[0]):
            bit = (floor[dimension] >> level) & one
            lower, upper = (least[dimension] >> level) & one, (most[dimension] >> level) & one
            if lower == upper == bit:
                continue
            if bit != one and lower == one:
                return known
            if bit != one and upper == one:
                _with_bit(most, dimension, level, False)
            elif bit == one and upper != one:
                best[:] = most
                return True
            elif bit == one and lower != one:
                best[:] = most
                _with_bit(best, dimension, level, False)
                _with_bit(least, dimension, level, True)
                known = True
    return known


@njit(**EXACT)
def find(
    index: IndexArrays,
    subs: Subscriptions,
    query: Query,
    scratch: Scratch,
    rows: NDArray[np.int32],
    count: int,
) -> int:
    """Add rows that cover the box of a query to a list that has `count`; stop when it is full.

    `scratch` has the point and the codes of the box.
    """
    point, order, corner, held = scratch.point, index.node, index.corner, index.row
    bits, region = np.empty((3, point.shape[0]), np.uint64), _bits(point)
    floor, next_floor = np.empty_like(region), np.empty_like(region)
    words, keys, passed, lo, hi = index.words, scratch.key, scratch.passed, subs.lo, subs.hi
    visited, compared, vain, high = 0, 0, 0, lanes_for(point.shape[0]).high
    position = _buckets(index) - 1
    while position >= 0 and count < rows.shape[0]:
        bucket = order[position, ORDER]
        visited += 1
        if reaches(corner, 2 * bucket, point):
            compared += held[bucket, SIZE]
            if filter_bucket(words, bucket, keys[held[bucket, CUT]], passed, high):
                left, more = verify_bucket(held, bucket, lo, hi, point, passed, high)
                vain += more
                if left > 0:
                    count = collect(index, bucket, subs, query, passed, rows, count, high)
        position -= 1
        if position < 0:
            break
        write_bits(corner, 2 * bucket + 1, floor)
        write_bits(corner, 2 * order[position, ORDER] + 1, next_floor)
        if not precedes(next_floor, floor):
            continue
        if not leap(floor, region, bits):
            break
        position = _position(index, bits[0])
    index.meta[NODES_VISITED] += visited
    index.meta[COMPARISONS] += compared
    index.meta[WASTED] += vain
    return count


@njit(**EXACT)
def fits(index: IndexArrays, subs: Subscriptions, wanted: Bools) -> bool:
    """Whether buckets stand in the order of their floors and hold the `wanted` rows, each between two."""
    held, meta, dimensions = index.row, index.meta, index.hot.shape[0]
    buckets, count = meta[BUCKET_USED], _buckets(index)
    if not 1 <= count < buckets <= held.shape[0]:
        return False
    taken, todo, points = np.zeros(buckets, np.bool_), wanted.copy(), np.int64(0)
    point, floor = np.empty(dimensions), np.empty(dimensions, np.uint64)
    taken[HOT], ceiling = True, np.empty(dimensions, np.uint64)
    for position in range(count):
        bucket = np.int64(index.node[position, ORDER])
        if bucket <= HOT or bucket >= buckets or taken[bucket]:
            return False
        taken[bucket] = True
    for position in range(count):
        bucket, last = np.int64(index.node[position, ORDER]), position + 1 == count
        size = np.int64(held[bucket, SIZE])
        write_bits(index.corner, 2 * bucket + 1, floor)
        if position == 0:
            floor[:] = np.uint64(0)
        above = bucket if last else np.int64(index.node[position + 1, ORDER])
        write_bits(index.corner, 2 * above + 1, ceiling)
        if (not last and precedes(ceiling, floor)) or size > BUCKET or size < (1 if count > 1 else 0):
            return False
        for slot in range(size):
            if not holds_wanted(index, subs, todo, bucket, slot, point):
                return False
            bits = _bits(point)
            if precedes(bits, floor) or (not last and precedes(ceiling, bits)):
                return False
            if not reaches(index.corner, 2 * bucket, point):
                return False
        points += size
    return points == meta[POINTS] and not todo.any() and free_chain_fits(index, taken, count)
