"""Searching and changing an index over boxes of either kind, and the order in which rows must be taken.

`insert`, `remove`, `search` and `stab` work on a k-d tree or a Z-curve, by meta[KIND]: a branch a call, which
costs nothing beside it, while a kernel compiled for each kind would double the compiling of all callers.

Rows that are to find a cover among themselves are taken in the order of `containers_first`, in which none
comes before one that covers it: wide boxes first, ties by their ends and registration. Width is the sum of
hi - lo over the attributes. Rounding never turns an order round, so a box that contains another is at least
as wide as computed; where widths are equal (or infinite), lower ends ascending and then upper ends descending
tell: a box that contains another is at most equal to it in each of these keys. So `keep_maximal` needs to
look each box up only among those kept so far.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels import kdtree, zcurve
from rankcast.covering.kernels.containment import (
    BUCKET_FREE,
    BUCKET_USED,
    BUCKETS,
    COVERED,
    HAND,
    HOT,
    KDTREE,
    KIND,
    NO_ROW,
    POINTS,
    RECODED,
    SIZE,
    WASTED,
    IndexArrays,
    Query,
    QueryBoxes,
    Scratch,
    Subscriptions,
    encode_query,
    keep_codes,
    own_boxes,
    query_for,
    scratch_for,
    short_of_buckets,
    take_bucket,
    write_point,
)
from rankcast.covering.kernels.hot import cool_down, find_hot, warm_up
from rankcast.structures.arrays import borrowed
from rankcast.structures.jit import EXACT

NONE = -1

Rows = NDArray[np.int32]

# Numba resolves a function of a module at compile time only under a name of this module.
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
def clear(index: IndexArrays) -> None:
    """Make an index of no rows out of fresh arrays."""
    meta = index.meta
    meta[POINTS], meta[BUCKET_USED], meta[BUCKETS], meta[BUCKET_FREE] = 0, 0, 0, -1
    meta[WASTED], meta[HAND] = 0, 0
    index.row[take_bucket(index), SIZE] = 0  # bucket HOT
    if meta[KIND] == KDTREE:
        kd_clear(index)
    else:
        z_clear(index)
    meta[RECODED] = meta[BUCKET_USED]


@njit(**EXACT)
def insert(index: IndexArrays, subs: Subscriptions, row: int) -> None:
    """Add a row's box. Requires an index that is not `unprepared` and has room for the row's number."""
    point = np.empty(index.hot.shape[0])
    write_point(subs.lo, subs.hi, row, point)
    keep_codes(index, subs)
    if index.meta[KIND] == KDTREE:
        kd_insert(index, subs, np.int64(row), point)
    else:
        z_insert(index, subs, np.int64(row), point)


@njit(**EXACT)
def remove(index: IndexArrays, subs: Subscriptions, row: int) -> None:
    """Take a row's box out."""
    point = np.empty(index.hot.shape[0])
    write_point(subs.lo, subs.hi, row, point)
    cool_down(index, row)
    if index.meta[KIND] == KDTREE:
        kd_remove(index, subs, np.int64(row), point)
    else:
        z_remove(index, subs, np.int64(row), point)


@njit(**EXACT)
def search(
    index: IndexArrays,
    subs: Subscriptions,
    query: Query,
    rows: NDArray[np.int32],
    count: int,
    scratch: Scratch,
    cold: bool = False,
) -> int:
    """Add rows that cover the box of a query to a list that has `count`; return its length.

    For one search after the other with the same scratch (see `scratch_for`). `cold`: HOT has been looked at.
    """
    if index.meta[POINTS] == 0 or count == rows.shape[0]:
        return count
    write_point(query.box.lo, query.box.hi, query.place, scratch.point)
    if rows.shape[0] == 1 and index.row[HOT, SIZE] > 0 and not cold:
        rows[0] = find_hot(index, subs, query, scratch)
        if rows[0] != NO_ROW:
            return count + 1
    encode_query(index, scratch)
    if index.meta[KIND] == KDTREE:
        count = kd_find(index, subs, query, scratch, rows, count)
    else:
        count = z_find(index, subs, query, scratch, rows, count)
    if rows.shape[0] == 1 and count == 1:
        warm_up(index, subs, rows[0])
    return count


@njit(**EXACT)
def find(index: IndexArrays, subs: Subscriptions, query: Query, rows: NDArray[np.int32], count: int) -> int:
    """Add rows that cover the box of a query to a list that has `count`; return its length."""
    return search(index, subs, query, rows, count, scratch_for(index))


@njit(**EXACT)
def unprepared(index: IndexArrays) -> bool:
    """Whether an insert must wait for room."""
    return short_of_buckets(index)


@njit(**EXACT)
def insert_rows(index: IndexArrays, subs: Subscriptions, rows: Rows, start: int) -> int:
    """Insert rows from `start` on; return how far, less than all if room must be made."""
    for i in range(start, rows.shape[0]):
        if unprepared(index):
            return i
        insert(index, subs, rows[i])
    return rows.shape[0]


@njit(**EXACT)
def stab(
    index: IndexArrays, subs: Subscriptions, box: QueryBoxes
) -> tuple[NDArray[np.int32], NDArray[np.int64]]:
    """All rows that contain each box, one list behind the other, as registered; and where each list ends."""
    ends = np.empty(box.lo.shape[0], np.int64)
    buffer = np.empty(index.meta[POINTS] + 1, np.int32)
    reached, total, scratch = np.empty(1024, np.int32), 0, scratch_for(index)
    index, subs, box = borrowed(index), borrowed(subs), borrowed(box)
    for place in range(box.lo.shape[0]):
        count = search(index, subs, query_for(box, place, NO_ROW), buffer, np.int64(0), scratch)
        while total + count > reached.shape[0]:
            reached = np.concatenate((reached, np.empty_like(reached)))
        order = np.argsort(subs.sequence[buffer[:count]])
        for i in range(count):
            reached[total + i] = buffer[order[i]]
        total += count
        ends[place] = total
    return reached[:total], ends


@njit(**EXACT)
def told(
    rows: Rows, ends: NDArray[np.int64], events: NDArray[np.int64], codes: NDArray[np.int64]
) -> NDArray[np.int64]:
    """By line, for each row that events reach: the id of its event, its own; `ends` as `stab` gives them.

    `events` are ids by place, `codes` by row; where these are empty (ids are strings), an event is told by
    its place, a row not at all.
    """
    lines, place = np.empty((2, rows.size), np.int64), 0
    for e in range(ends.size):
        for i in range(place, ends[e]):
            lines[0, i] = events[e] if events.size > 0 else e
            if codes.size > 0:
                lines[1, i] = codes[rows[i]]
        place = ends[e]
    return lines


@njit(**EXACT)
def coverers(front: IndexArrays, subs: Subscriptions, rows: Rows) -> Rows:
    """For each row one that covers it, or NONE; what only leaving ones contain is covered by one of those."""
    found, one = np.full(rows.shape[0], NONE, np.int32), np.empty(2, np.int32)
    box, scratch = own_boxes(subs), scratch_for(front)
    for i in range(rows.shape[0]):
        one[0] = NONE
        if subs.status[rows[i]] == COVERED:
            if search(front, subs, query_for(box, rows[i], rows[i]), one[:1], np.int64(0), scratch) == 0:
                search(front, subs, query_for(box, rows[i], NO_ROW), one[:1], np.int64(0), scratch)
            found[i] = one[0]
    return found


@njit(**EXACT)
def containing(
    front: IndexArrays, back: IndexArrays, subs: Subscriptions, box: QueryBoxes, found: Rows
) -> None:
    """For each box up to found.shape[1] live rows that contain it, forwarded ones first."""
    scratch = scratch_for(front)
    for place in range(found.shape[0]):
        query = query_for(box, place, NO_ROW)
        count = search(front, subs, query, found[place], np.int64(0), scratch)
        search(back, subs, query, found[place], count, scratch)


@njit(**EXACT)
def _comes_before(subs: Subscriptions, one: int, other: int) -> bool:
    for attribute in range(subs.lo.shape[1]):
        if subs.lo[one, attribute] != subs.lo[other, attribute]:
            return subs.lo[one, attribute] < subs.lo[other, attribute]
    for attribute in range(subs.hi.shape[1]):
        if subs.hi[one, attribute] != subs.hi[other, attribute]:
            return subs.hi[one, attribute] > subs.hi[other, attribute]
    return subs.sequence[one] < subs.sequence[other]


@njit(**EXACT)
def _merge_sort(subs: Subscriptions, rows: Rows) -> None:
    """Sort rows, in stretches that double."""
    spare, length, size = np.empty_like(rows), 1, rows.shape[0]
    while length < size:
        for start in range(0, size, 2 * length):
            middle, end = min(start + length, size), min(start + 2 * length, size)
            one, other = start, middle
            for at in range(start, end):
                if one < middle and (other == end or not _comes_before(subs, rows[other], rows[one])):
                    spare[at] = rows[one]
                    one += 1
                else:
                    spare[at] = rows[other]
                    other += 1
        rows[:] = spare
        length *= 2


@njit(**EXACT)
def _width(subs: Subscriptions, row: int) -> float:
    width = 0.0
    for attribute in range(subs.lo.shape[1]):
        width += subs.hi[row, attribute] - subs.lo[row, attribute]
    return width


@njit(**EXACT)
def _keys(subs: Subscriptions, rows: Rows) -> NDArray[np.float64]:
    """Widths, turned so that wide boxes come first."""
    keys = np.empty(rows.shape[0])
    for i in range(rows.shape[0]):
        keys[i] = -_width(subs, rows[i])
    return keys


@njit(**EXACT)
def _select(subs: Subscriptions, rows: Rows, count: int) -> None:
    """Let `count` rows, all equally wide, that come before the others stand before them, in any order."""
    low, high = 0, rows.shape[0] - 1
    while low < high:
        pivot, up, down = rows[(low + high) // 2], low, high
        while up <= down:
            while _comes_before(subs, rows[up], pivot):
                up += 1
            while _comes_before(subs, pivot, rows[down]):
                down -= 1
            if up <= down:
                rows[up], rows[down] = rows[down], rows[up]
                up, down = up + 1, down - 1
        if count <= down:
            high = down
        elif count > up:
            low = up
        else:
            return


@njit(**EXACT)
def containers_first(subs: Subscriptions, rows: Rows) -> Rows:
    """The rows in that order. Cost: one sort by width, and of ties by all keys."""
    if rows.shape[0] < 2:
        return rows
    keys = _keys(subs, rows)
    order = np.argsort(keys)
    ordered, start = rows[order], 0
    for end in range(1, rows.shape[0] + 1):
        if end == rows.shape[0] or keys[order[end]] != keys[order[start]]:
            if end - start > 1:
                _merge_sort(subs, ordered[start:end])
            start = end
    return ordered


@njit(**EXACT)
def first_containers(subs: Subscriptions, rows: Rows, count: int) -> Rows:
    """The first `count` of the rows in that order. Cost: O(n) expected, and a sort of those alone."""
    if count >= rows.shape[0]:
        return containers_first(subs, rows)
    keys = _keys(subs, rows)
    bound = np.partition(keys, count - 1)[count - 1]
    wider, ties = rows[keys < bound], rows[keys == bound]
    rest = count - wider.shape[0]
    _select(subs, ties, rest)
    return containers_first(subs, np.concatenate((wider, ties[:rest])))


@njit(**EXACT)
def keep_maximal(index: IndexArrays, subs: Subscriptions, rows: NDArray[np.int32], start: int) -> int:
    """Keep the maximal ones of rows, containers first, in the index; return how far."""
    found, scratch = np.empty(1, np.int32), scratch_for(index)
    index, subs = borrowed(index), borrowed(subs)
    box = own_boxes(subs)
    for i in range(start, rows.shape[0]):
        if unprepared(index):
            return i
        if search(index, subs, query_for(box, rows[i], NO_ROW), found, np.int64(0), scratch) == 0:
            insert(index, subs, rows[i])
    return rows.shape[0]


@njit(**EXACT)
def uncovered(index: IndexArrays, subs: Subscriptions, rows: NDArray[np.int32]) -> NDArray[np.int32]:
    """Those of rows that no other row in the index covers; of equal ones the first: all are COVERED."""
    found, left, count = np.empty(1, np.int32), np.empty_like(rows), 0
    index, subs = borrowed(index), borrowed(subs)
    box, scratch = own_boxes(subs), scratch_for(index)
    for row in rows:
        if search(index, subs, query_for(box, row, row), found, np.int64(0), scratch) == 0:
            left[count] = row
            count += 1
    return left[:count].copy()
