"""The skyline of a place by branch and bound over an R-tree (x, y, attributes; small is good).

Blocks and objects are taken by distance. Whatever dominates an object is not farther, so an object that
nothing found so far dominates is in the skyline (but see ties), and a block can stay closed if something
found is as good in every attribute as the best corner of its box, and not farther than the box: then it
dominates all in it. So exactly the blocks that may hold a skyline object are opened, as by any monotonic
order [Moving §5.1.1]; and the skyline comes by distance.

Ties. One object dominates another if it is at least as good in all and better in one. At the same distance
the better one may come later and takes the other out of the skyline again; equals at the same distance are
both in it, so a block is not closed by something equal to its best corner at the very same distance.

Twins, equal in everything and at one place, stand apart: one of them is found, the others share whatever
becomes of it (`with_twins`). So thousands of them cost no more than they are.

What is not in the skyline is deferred with its lead: how much nearer the nearest object found is that is
as good in every attribute. Leads of objects are exact, since everything nearer has been found; that of a
block is at most that of anything in it. Whether an object can appear near a query is a matter of its lead
(`rankcast.moving.kernels.skyline_zone`). Bounds give way a little for rounding, by `fuzz` of the distances.

An entry is `16 block + slot` for the child of an inner block, or the complement of a row for an object.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.moving.kernels.rtree import BRANCH, Floats, Ints, Rows, Rtree, root_of
from rankcast.moving.kernels.rtree_search import HEAP, child_distance
from rankcast.moving.kernels.scores import FUZZ, PLANE_FUZZ
from rankcast.structures.distance import HAVERSINE, distance
from rankcast.structures.heap import pop, push
from rankcast.structures.jit import EXACT

DEFERRED, FOUND, NODES, TRIED, TWINS = 1, 2, 3, 4, 5
PLACE = 2  # x, y come before the attributes


class Seekers(NamedTuple):
    """Places of queries, and the filter (n, d) on attributes; `filtered` if any is there."""

    x: Floats
    y: Floats
    lower: Floats
    upper: Floats
    filtered: bool


class Room(NamedTuple):
    """Room for one search at a time: a heap, what is deferred, the skyline by distance, counters."""

    key: Floats
    entry: Ints
    lead: Floats
    deferred: Ints
    row: Rows
    away: Floats
    attribute: Floats  # (n, d)
    twin: Rows  # objects that are not found, since
    whose: Rows  # these are, which are alike
    size: Ints


@njit(**EXACT)
def room_for(tree: Rtree) -> Room:
    """Room for searches of a tree. Pages are touched only as needed."""
    objects = tree.count.sum() + 1
    most = tree.first.size * BRANCH + objects
    return Room(
        np.empty(most),
        np.empty(most, np.int64),
        np.empty(most),
        np.empty(most, np.int64),
        np.empty(objects, np.int32),
        np.empty(objects),
        np.empty((objects, tree.point.shape[1] - PLACE)),
        np.empty(objects, np.int32),
        np.empty(objects, np.int32),
        np.zeros(6, np.int64),
    )


@njit(**EXACT)
def fuzz_of(metric: int) -> float:
    """What rounding may do to a distance, as a part of it."""
    return FUZZ if metric == HAVERSINE else PLANE_FUZZ


@njit(**EXACT)
def lead_of(near: float, far: float, fuzz: float) -> float:
    """At most how much nearer the one is than the other, whatever rounding does."""
    return far * (1 - 2 * fuzz) - near * (1 + 2 * fuzz)


@njit(**EXACT)
def first_better(attribute: Floats, away: Floats, count: int, one: Floats, key: float) -> int:
    """The nearest of the found that dominates what has attributes `one` (1, d) at distance `key`; or -1."""
    for i in range(count):
        if away[i] > key:
            break
        worse = False
        for a in range(one.shape[1]):
            worse |= attribute[i, a] > one[0, a]
        if not worse:
            better = away[i] < key
            for a in range(one.shape[1]):
                better |= attribute[i, a] < one[0, a]
            if better:
                return i
    return -1


@njit(**EXACT)
def child_corner(tree: Rtree, block: int, slot: int, one: Floats) -> None:
    """Write the best attributes that a child of a block may have."""
    for a in range(one.shape[1]):
        one[0, a] = tree.low[block, PLACE + a, slot]


@njit(**EXACT)
def point_attributes(tree: Rtree, leaf: int, slot: int, one: Floats) -> None:
    """Write the attributes of a point."""
    for a in range(one.shape[1]):
        one[0, a] = tree.point[leaf, PLACE + a, slot]


@njit(**EXACT)
def lets_pass(tree: Rtree, seekers: Seekers, i: int, leaf: int, slot: int) -> bool:
    """Whether a point passes the filter of a query."""
    for a in range(seekers.lower.shape[1]):
        held = tree.point[leaf, PLACE + a, slot]
        if held < seekers.lower[i, a] or held > seekers.upper[i, a]:
            return False
    return True


@njit(**EXACT)
def may_pass(tree: Rtree, seekers: Seekers, i: int, block: int, slot: int) -> bool:
    """Whether a child of a block may hold a point that passes the filter of a query."""
    for a in range(seekers.lower.shape[1]):
        if tree.high[block, PLACE + a, slot] < seekers.lower[i, a]:
            return False
        if tree.low[block, PLACE + a, slot] > seekers.upper[i, a]:
            return False
    return True


@njit(**EXACT)
def _defer(leads: Floats, deferred: Ints, size: Ints, lead: float, entry: int) -> None:
    """Lay an entry deferred, with its lead."""
    at = size[DEFERRED]
    leads[at], deferred[at], size[DEFERRED] = lead, entry, at + 1


@njit(**EXACT)
def _open_block(
    metric: int, tree: Rtree, room: Room, seekers: Seekers, i: int, block: int, one: Floats
) -> None:
    """Put the children of an inner block on the heap, or deferred if they are dominated."""
    low, high, x, y = tree.low, tree.high, seekers.x[i], seekers.y[i]
    keys, entries, leads, deferred = room.key, room.entry, room.lead, room.deferred
    away, attribute, size = room.away, room.attribute, room.size
    fuzz, found, filtered = fuzz_of(metric), size[FOUND], seekers.filtered
    size[NODES] += 1
    for slot in range(np.int64(tree.width[block])):
        if filtered and not may_pass(tree, seekers, i, block, slot):
            continue
        for a in range(one.shape[1]):
            one[0, a] = low[block, PLACE + a, slot]
        key = child_distance(low, high, metric, x, y, block, slot)
        better = first_better(attribute, away, found, one, key)
        if better >= 0:
            _defer(leads, deferred, size, lead_of(away[better], key, fuzz), block * BRANCH + slot)
        else:
            size[HEAP] = push(keys, entries, size[HEAP], key, block * BRANCH + slot)


@njit(**EXACT)
def _open_leaf(
    metric: int, tree: Rtree, room: Room, seekers: Seekers, i: int, leaf: int, one: Floats
) -> None:
    """Put the objects of a leaf on the heap, or deferred if they are dominated."""
    point, rows, x, y = tree.point, tree.row, seekers.x[i], seekers.y[i]
    keys, entries, leads, deferred = room.key, room.entry, room.lead, room.deferred
    away, attribute, size = room.away, room.attribute, room.size
    fuzz, found, filtered = fuzz_of(metric), size[FOUND], seekers.filtered
    size[NODES] += 1
    for slot in range(BRANCH):
        row = np.int64(rows[leaf, slot])
        if row < 0 or (filtered and not lets_pass(tree, seekers, i, leaf, slot)):
            continue
        for a in range(one.shape[1]):
            one[0, a] = point[leaf, PLACE + a, slot]
        key = distance(metric, x, y, point[leaf, 0, slot], point[leaf, 1, slot])
        better = first_better(attribute, away, found, one, key)
        if better >= 0:
            _defer(leads, deferred, size, lead_of(away[better], key, fuzz), ~row)
        else:
            size[HEAP] = push(keys, entries, size[HEAP], key, ~row)
        size[TRIED] += 1


@njit(**EXACT)
def _drop_twins(room: Room, row: int, lead: float) -> None:
    """Lay the twins of an object deferred."""
    twin, whose, size, kept = room.twin, room.whose, room.size, 0
    for t in range(size[TWINS]):
        if whose[t] == row:
            _defer(room.lead, room.deferred, size, lead, ~np.int64(twin[t]))
        else:
            twin[kept], whose[kept] = twin[t], whose[t]
            kept += 1
    size[TWINS] = kept


@njit(**EXACT)
def alike(tree: Rtree, one: int, other: int) -> bool:
    """Whether two objects are equal in place and attributes."""
    a, b, same = tree.place[one], tree.place[other], True
    for column in range(tree.point.shape[1]):
        same &= tree.point[a // BRANCH, column, a % BRANCH] == tree.point[b // BRANCH, column, b % BRANCH]
    return same


@njit(**EXACT)
def _is_twin(tree: Rtree, room: Room, key: float, row: int) -> bool:
    """Whether an object at a distance is alike one that is found; then it is noted as its twin."""
    at, size = room.size[FOUND] - 1, room.size
    while at >= 0 and room.away[at] == key:
        if alike(tree, row, np.int64(room.row[at])):
            room.twin[size[TWINS]], room.whose[size[TWINS]] = row, room.row[at]
            size[TWINS] += 1
            return True
        at -= 1
    return False


@njit(**EXACT)
def with_twins(tree: Rtree, room: Room) -> Rows:
    """All of the skyline, by distance."""
    found, twins = room.size[FOUND], room.size[TWINS]
    if twins == 0:
        return room.row[:found]
    place, start = np.empty(tree.place.size, np.int32), np.zeros(found + 1, np.int64)
    for i in range(found):
        place[room.row[i]] = i
        start[i + 1] = 1
    for t in range(twins):
        start[place[room.whose[t]] + 1] += 1
    start = np.cumsum(start)
    rows, filled = np.empty(found + twins, np.int32), np.ones(found, np.int64)
    for i in range(found):
        rows[start[i]] = room.row[i]
    for t in range(twins):
        i = place[room.whose[t]]
        rows[start[i] + filled[i]] = room.twin[t]
        filled[i] += 1
    return rows


@njit(**EXACT)
def _drop_tied(room: Room, key: float, one: Floats, fuzz: float) -> None:
    """Lay those deferred that were found at the same distance and that `one` dominates."""
    row, away, attribute, size = room.row, room.away, room.attribute, room.size
    first = size[FOUND]
    while first > 0 and away[first - 1] == key:
        first -= 1
    kept = first
    for i in range(first, size[FOUND]):
        worse, better = False, False
        for a in range(one.shape[1]):
            worse |= attribute[i, a] > one[0, a]
            better |= attribute[i, a] < one[0, a]
        if worse and not better:
            _defer(room.lead, room.deferred, size, lead_of(key, key, fuzz), ~np.int64(row[i]))
            _drop_twins(room, row[i], lead_of(key, key, fuzz))
            continue
        row[kept], away[kept] = row[i], away[i]
        for a in range(one.shape[1]):
            attribute[kept, a] = attribute[i, a]
        kept += 1
    size[FOUND] = kept


@njit(**EXACT)
def _add(room: Room, key: float, row: int, one: Floats) -> None:
    """Add an object to the skyline."""
    at = room.size[FOUND]
    room.row[at], room.away[at] = row, key
    for a in range(one.shape[1]):
        room.attribute[at, a] = one[0, a]
    room.size[FOUND] = at + 1


@njit(**EXACT)
def find_skyline(metric: int, tree: Rtree, room: Room, seekers: Seekers, i: int) -> None:
    """Find the skyline of query i, by distance; everything else that was seen is deferred."""
    keys, entries, leads, deferred = room.key, room.entry, room.lead, room.deferred
    away, attribute, size = room.away, room.attribute, room.size
    one, fuzz = np.empty((1, attribute.shape[1])), fuzz_of(metric)
    size[HEAP] = size[DEFERRED] = size[FOUND] = size[TWINS] = 0
    for layer in range(tree.count.size):
        if tree.count[layer] > 0:
            _open_block(metric, tree, room, seekers, i, root_of(tree, layer), one)
    while size[HEAP] > 0:
        key = keys[0]
        entry, size[HEAP] = entries[0], pop(keys, entries, size[HEAP])
        if entry < 0:
            place = tree.place[~entry]
            point_attributes(tree, place // BRANCH, place % BRANCH, one)
        else:
            child_corner(tree, entry // BRANCH, entry % BRANCH, one)
        better = first_better(attribute, away, size[FOUND], one, key)
        if better >= 0:
            _defer(leads, deferred, size, lead_of(away[better], key, fuzz), entry)
        elif entry < 0:
            if not _is_twin(tree, room, key, ~entry):
                _drop_tied(room, key, one, fuzz)
                _add(room, key, ~entry, one)
        else:
            first = np.int64(tree.first[entry // BRANCH])
            if first >= 0:
                _open_leaf(metric, tree, room, seekers, i, first + entry % BRANCH, one)
            else:
                _open_block(metric, tree, room, seekers, i, ~first + entry % BRANCH, one)
