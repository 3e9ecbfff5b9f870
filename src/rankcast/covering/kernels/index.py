"""One face for both indexes over boxes: insert, remove, find and stab, by meta[KIND]."""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels import kdtree, zcurve
from rankcast.covering.kernels.buckets import (
    BUCKET,
    BUCKET_FREE,
    BUCKET_USED,
    BUCKETS,
    DUE,
    KDTREE,
    KIND,
    NOBODY,
    POINTS,
    Box,
    Index,
    Query,
    Words,
    World,
    ask,
    encode,
    lacking,
    quantile_cuts,
)
from rankcast.structures.jit import EXACT

FIRST_CUT = 64
SAMPLE = 4096
OFTEN, SELDOM = 3, 32

kd_clear, kd_insert, kd_remove, kd_find = (
    kdtree.clear,
    kdtree.insert,
    kdtree.remove,
    kdtree.find,
)
z_clear, z_insert, z_remove, z_find = (
    zcurve.clear,
    zcurve.insert,
    zcurve.remove,
    zcurve.find,
)


@njit(**EXACT)
def clear(index: Index) -> None:
    """Make the index empty."""
    index.meta[POINTS], index.meta[BUCKET_USED], index.meta[BUCKETS] = 0, 0, 0
    index.meta[BUCKET_FREE] = -1
    if index.meta[KIND] == KDTREE:
        kd_clear(index)
    else:
        z_clear(index)


@njit(**EXACT)
def insert(index: Index, world: World, row: int) -> None:
    """Add a row's box. Requires an index that is not `unready`."""
    key = np.empty(index.words.shape[1], np.uint64)
    encode(index.cuts, world.lo, world.hi, row, key)
    index.meta[DUE] -= 1
    if index.meta[KIND] == KDTREE:
        kd_insert(index, np.int64(row), key)
    else:
        z_insert(index, np.int64(row), key)


@njit(**EXACT)
def remove(index: Index, world: World, row: int) -> None:
    """Take a row's box out."""
    key = np.empty(index.words.shape[1], np.uint64)
    encode(index.cuts, world.lo, world.hi, row, key)
    if index.meta[KIND] == KDTREE:
        kd_remove(index, np.int64(row), key)
    else:
        z_remove(index, np.int64(row), key)


@njit(**EXACT)
def scratch_for(index: Index) -> Words:
    """Memory that searches of an index need."""
    return np.empty(index.words.shape[1] + BUCKET, np.uint64)


@njit(**EXACT)
def search(
    index: Index, world: World, query: Query, rows: NDArray[np.int32], count: int, scratch: Words
) -> int:
    """Add rows that cover the box of a query to a list that has `count`; return its length.

    For one search after the other with the same scratch (see `scratch_for`).
    """
    if index.meta[POINTS] == 0 or count == rows.shape[0]:
        return count
    words = index.words.shape[1]
    key, passed = scratch[:words], scratch[words:]
    encode(index.cuts, query.box.lo, query.box.hi, query.place, key)
    if index.meta[KIND] == KDTREE:
        return kd_find(index, world, query, key, passed, rows, count)
    return z_find(index, world, query, key, passed, rows, count)


@njit(**EXACT)
def find(index: Index, world: World, query: Query, rows: NDArray[np.int32], count: int) -> int:
    """Add rows that cover the box of a query to a list that has `count`; return its length."""
    return search(index, world, query, rows, count, scratch_for(index))


@njit(**EXACT)
def unready(index: Index) -> bool:
    """Whether an insert must wait: no room, or it is time to cut the codes anew."""
    return index.meta[DUE] <= 0 or lacking(index)


@njit(**EXACT)
def recut(index: Index, world: World, rows: NDArray[np.int32], start: int) -> int:
    """Cut the codes of an empty index anew after a sample of the rows and insert them from `start` on.

    Returns how far it came; less than all: the owner makes room and calls again from there.

    The next time is after several times as many inserts, so that codes follow the data; later once the sample
    is as large as it gets, because then only a drift makes it stale. Cost: n inserts, less than one for each
    insert before.
    """
    if start == 0:
        _cut(index, world, rows)
    for i in range(start, rows.shape[0]):
        if lacking(index):
            return i
        insert(index, world, rows[i])
    index.meta[DUE] = max(FIRST_CUT, (OFTEN if rows.shape[0] < SAMPLE else SELDOM) * rows.shape[0])
    return rows.shape[0]


@njit(**EXACT)
def _cut(index: Index, world: World, rows: NDArray[np.int32]) -> None:
    """Set the cuts after a sample of the rows."""
    step = max(1, rows.shape[0] // SAMPLE)
    sample = rows[::step]
    values = np.empty((sample.shape[0], index.cuts.shape[0]))
    for i in range(sample.shape[0]):
        for attribute in range(world.lo.shape[1]):
            values[i, 2 * attribute] = -world.lo[sample[i], attribute]
            values[i, 2 * attribute + 1] = world.hi[sample[i], attribute]
    quantile_cuts(values, index.cuts)


@njit(**EXACT)
def stab(index: Index, world: World, box: Box) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """All rows that contain each box, one list behind the other, as registered; and where each list ends."""
    ends = np.empty(box.lo.shape[0], np.int64)
    buffer = np.empty(index.meta[POINTS] + 1, np.int32)
    told, total = np.empty(1024, np.int32), 0
    for place in range(box.lo.shape[0]):
        count = find(index, world, ask(box, place, NOBODY), buffer, np.int64(0))
        while total + count > told.shape[0]:
            told = np.concatenate((told, np.empty_like(told)))
        order = np.argsort(world.sequence[buffer[:count]])
        for i in range(count):
            told[total + i] = buffer[order[i]]
        total += count
        ends[place] = total
    return told[:total], ends
