"""Safe zones: the best objects of a query, and a circle in which they are among a few more [Moving §4.3.1].

`find_zones` is Algorithm 3 for a batch of queries. The best k objects are found first, and m more. Each of
those has an irrelevant circle (Algorithm 6), inside which it is behind all k; the largest of these m circles
bounds the zone. Whatever was deferred on the way is then tested, nearest score first, but
only if in that circle its lowest score is not above the highest of the k (Lemma 11, `reach`): it may have a
smaller circle. In the end the m-th smallest circle is the zone, and the k objects with the m - 1 others that
have smaller circles are its members. With k + m - 1 objects or fewer the zone is everywhere.

Far from a cluster everything in it may be before the others somewhere. So the work of a zone is bounded:
after `BUDGET` blocks and objects a radius is bisected that is safe from all that is left, unopened.

Invariant: at every place within `radius`, as computed, every object that is no member is behind each of the
first k members as they are at the centre, in whose order members are written. `reach` is at least the
score of each of those k anywhere in the circle, and the lowest score there of every member: an object whose
lowest score is above it is no member and cannot break the zone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.moving.kernels.circles import Best, highest_of, irrelevant
from rankcast.moving.kernels.gain import box_behind
from rankcast.moving.kernels.rtree import BRANCH, Rtree
from rankcast.moving.kernels.rtree_search import (
    BOARD,
    DEFERRED,
    HEAP,
    NODES,
    TRIED,
    Queries,
    SearchBuffers,
    best_first,
    defer,
    may_pass,
    passes,
    place_of,
    to_child,
    with_board,
)
from rankcast.moving.kernels.scores import (
    DISTANCE,
    LEMMA,
    SPACE,
    Floats,
    Ints,
    Place,
    Rows,
    ScoreForm,
    apart,
    at_row,
    at_slot,
    least,
    lowest,
    may_fall_to,
    value,
)
from rankcast.structures.heap import pop, push
from rankcast.structures.jit import EXACT

BUDGET = 8_000  # blocks and objects that a zone may cost beside its best: less than a scan of a million
BISECTIONS = 24


class FoundZones(NamedTuple):
    """Zones by query: the members of query i are `member[start[i] : start[i] + count[i]]`, best first."""

    start: Ints
    count: Ints  # type: ignore[assignment]
    member: Rows
    radius: Floats
    reach: Floats


@njit(**EXACT)
def _lowest_in(
    form: ScoreForm,
    low: Floats,
    high: Floats,
    record: Floats,
    place: Place,
    entry: int,
    radius: float,
) -> float:
    """At most the score of anything in an entry anywhere in a circle around the place."""
    if entry < 0:
        d = apart(form.metric, place, at_row(form.metric, record, ~entry))
        return lowest(form, record[~entry, 2], record[~entry, 3], d, radius)
    block, slot = entry // BRANCH, entry % BRANCH
    d = to_child(low, high, form.metric, place, block, slot)
    s = high[block, 2, slot] if form.kind == DISTANCE else low[block, 2, slot]
    return lowest(form, s, low[block, 3, slot], d, radius)


@njit(**EXACT)
def _stays_behind(
    form: ScoreForm,
    tree: Rtree,
    record: Floats,
    place: Place,
    best: Best,
    entry: int,
    reach: float,
    radius: float,
) -> bool:
    """Whether nothing in an entry comes before one of the best in a circle, whose reach is given.

    By Lemma 11, and where that does not tell, by what objects may gain on each other (`gain`).
    """
    low, high, metric = tree.low, tree.high, form.metric
    if _lowest_in(form, low, high, record, place, entry, radius) > reach:
        return True
    if metric == SPACE or form.way == LEMMA or radius == np.inf:
        return False
    if entry < 0:
        x, y, static = record[~entry, 0], record[~entry, 1], (record[~entry, 2], record[~entry, 3])
        box, near = (x, x, y, y), apart(metric, place, at_row(metric, record, ~entry))
    else:
        block, slot = entry // BRANCH, entry % BRANCH
        near = to_child(low, high, metric, place, block, slot)
        static = high[block, 2, slot] if form.kind == DISTANCE else low[block, 2, slot], low[block, 3, slot]
        box = low[block, 0, slot], high[block, 0, slot], low[block, 1, slot], high[block, 1, slot]
    rows, _, aways = best
    for j in range(rows.size - 1, -1, -1):
        o = rows[j]
        mine = at_row(metric, record, o), (record[o, 2], record[o, 3]), aways[j]
        if not box_behind(form, mine, static, box, near, place, radius):
            return False
    return True


@njit(**EXACT)
def _enter(circles: Floats, others: Rows, radius: float, row: int) -> None:
    """Put a circle among the m smallest, in order; the largest falls off."""
    at = circles.size - 1
    while at > 0 and circles[at - 1] > radius:
        circles[at], others[at] = circles[at - 1], others[at - 1]
        at -= 1
    circles[at], others[at] = radius, row


@njit(**EXACT)
def _unfold(form: ScoreForm, tree: Rtree, space: SearchBuffers, queries: Queries, i: int, entry: int) -> None:
    """Defer what is in a child of a block: objects, or children of its own."""
    place, low, high, point = place_of(form.metric, queries, i), tree.low, tree.high, tree.point
    deferred, leasts, nears, size = space.deferred, space.least, space.near, space.size
    block, slot = entry // BRANCH, entry % BRANCH
    first = np.int64(tree.first[block])
    size[NODES] += 1
    if first < 0:
        inner = ~first + slot
        for j in range(tree.width[inner]):
            if not queries.filtered or may_pass(tree, queries, i, inner, j):
                d = to_child(low, high, form.metric, place, inner, j)
                key = least(form, low[inner, 2, j], high[inner, 2, j], low[inner, 3, j], d)
                defer(deferred, leasts, nears, size, inner * BRANCH + j, key, d)
        return
    leaf = first + slot
    for j in range(BRANCH):
        row = np.int64(tree.row[leaf, j])
        if row >= 0 and (not queries.filtered or passes(tree, queries, i, leaf, j)):
            d = apart(form.metric, place, at_slot(form.metric, point, leaf, j))
            key = value(form, point[leaf, 2, j], point[leaf, 3, j], d)
            defer(deferred, leasts, nears, size, ~row, key, d)
            size[TRIED] += 1


@njit(**EXACT)
def _safe_radius(
    form: ScoreForm,
    tree: Rtree,
    record: Floats,
    space: SearchBuffers,
    place: Place,
    best: Best,
    limit: float,
) -> float:
    """A radius, at most `limit`, in which nothing that is left comes before one of the best, by bisection."""
    low, high, left, entries = 0.0, limit, space.size[HEAP], space.entry
    if high == np.inf:
        high = 2 * np.max(best[2]) + 1.0
    for _ in range(BISECTIONS):
        middle, safe = 0.5 * (low + high), True
        reach = highest_of(form, record, best, middle)
        for j in range(left):
            if not _stays_behind(form, tree, record, place, best, entries[j], reach, middle):
                safe = False
                break
        low, high = (middle, high) if safe else (low, middle)
    return low


@njit(**EXACT)
def _shrink(
    form: ScoreForm,
    tree: Rtree,
    record: Floats,
    label: Ints,
    space: SearchBuffers,
    queries: Queries,
    i: int,
    zone: tuple[Best, Floats, Rows],
) -> float:
    """Look for smaller circles among everything deferred; return the reach of the zone that is left."""
    best, circles, others = zone
    keys, entries, deferred, leasts = space.key, space.entry, space.deferred, space.least
    nears, size = space.near, space.size
    place, last = place_of(form.metric, queries, i), circles.size - 1
    reach = highest_of(form, record, best, circles[last])
    spent = size[NODES] + size[TRIED] + BUDGET
    while form.weight > 0.0 and circles[last] > 0.0:
        for j in range(size[DEFERRED]):
            if may_fall_to(form, leasts[j], nears[j], circles[last]) <= reach:
                size[HEAP] = push(keys, entries, size[HEAP], leasts[j], deferred[j])
        size[DEFERRED] = 0
        if size[HEAP] == 0:
            break
        if size[NODES] + size[TRIED] > spent:
            circles[last] = _safe_radius(form, tree, record, space, place, best, circles[last])
            reach = highest_of(form, record, best, circles[last])
            break
        entry, size[HEAP] = entries[0], pop(keys, entries, size[HEAP])
        if _stays_behind(form, tree, record, place, best, entry, reach, circles[last]):
            continue
        if entry >= 0:
            _unfold(form, tree, space, queries, i, entry)
            continue
        found = irrelevant(form, record, label, best, ~entry, place, circles[last])
        if found < circles[last]:
            _enter(circles, others, found, ~entry)
            reach = highest_of(form, record, best, circles[last])
    for row in others[:last]:
        d = apart(form.metric, place, at_row(form.metric, record, row))
        reach = max(reach, lowest(form, record[row, 2], record[row, 3], d, circles[last]))
    return reach


@njit(**EXACT)
def _first_circles(
    form: ScoreForm,
    record: Floats,
    label: Ints,
    next_best: Rows,
    place: Place,
    zone: tuple[Best, Floats, Rows],
) -> None:
    """The circles of the m objects that come after the best k, smallest first."""
    best, circles, others = zone
    for j in range(circles.size):
        radius = irrelevant(form, record, label, best, next_best[j], place, np.inf)
        _enter(circles[: j + 1], others[: j + 1], radius, next_best[j])


@njit(**EXACT)
def find_zones(
    form: ScoreForm,
    tree: Rtree,
    record: Floats,
    label: Ints,
    queries: Queries,
    m: int,
    zones: FoundZones,
    work: tuple[Ints, SearchBuffers],
) -> Ints:
    """Find the zones of the queries in a part, in some room; returns blocks opened and objects tried."""
    part, space = work
    total = tree.count.sum()
    m = min(m, total + 1)
    space.size[:] = 0
    circles, others = np.empty(m), np.empty(m, np.int32)
    for i in part:
        k, place = queries.k[i], place_of(form.metric, queries, i)
        mine = with_board(space, k + m)
        best_first(form, tree, label, mine, queries, i)
        size = mine.size[BOARD]
        start = zones.start[i]
        if size < k + m:
            zones.member[start : start + size] = mine.row[:size]
            zones.count[i], zones.radius[i], zones.reach[i] = size, np.inf, np.inf
            continue
        zone = ((mine.row[:k], mine.score[:k], mine.away[:k]), circles, others)
        _first_circles(form, record, label, mine.row[k:], place, zone)
        zones.reach[i] = _shrink(form, tree, record, label, mine, queries, i, zone)
        zones.member[start : start + k] = mine.row[:k]
        zones.member[start + k : start + k + m - 1] = others[: m - 1]
        zones.count[i], zones.radius[i] = k + m - 1, circles[m - 1]
    return space.size[NODES : TRIED + 1].copy()
