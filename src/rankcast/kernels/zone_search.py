"""Safe zones: the best objects of a query, and a circle in which they are among a few more [Moving §4.3.1].

`find_zones` is Algorithm 3 for a batch of queries. The best k objects are found first, and m more. Each of
those has an irrelevant circle (Algorithm 6), inside which it is behind all k; the largest of these m circles
bounds the zone. Whatever was seen or left closed on the way is then asked again, nearest score first, but
only if in that circle its lowest score is not above the highest of the k (Lemma 11, `reach`): it may have a
smaller circle. In the end the m-th smallest circle is the zone, and the k objects with the m - 1 others that
have smaller circles are its members. With k + m - 1 objects or fewer the zone is everywhere.

Invariant: at every place within `radius`, as computed, every object that is no member is behind each of the
first k members as they are at the centre, in whose order members are written. `reach` is at least the
score of each of those k anywhere in the circle, and the lowest score there of every member: an object whose
lowest score is above it is no member and cannot break the zone.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.kernels.distance import distance
from rankcast.kernels.options import EXACT
from rankcast.kernels.rtree import BRANCH, Rtree
from rankcast.kernels.rtree_search import (
    ASIDE,
    BOARD,
    HEAP,
    NODES,
    TRIED,
    Queries,
    Space,
    best_first,
    child_distance,
    lay_aside,
    may_pass,
    passes,
    pop,
    push,
    space_for,
)
from rankcast.kernels.zone_circles import preferred
from rankcast.kernels.zone_scores import (
    APART,
    DISTANCE,
    SUM,
    Floats,
    Form,
    Ints,
    Rows,
    fuzz,
    highest,
    lowest,
    value,
)


class Zones(NamedTuple):
    """Zones by query: the members of query i are `member[start[i] : start[i] + count[i]]`, best first."""

    start: Ints
    count: Ints  # type: ignore[assignment]
    member: Rows
    radius: Floats
    reach: Floats


@njit(**EXACT)
def irrelevant(
    form: Form, record: Floats, label: Ints, best: Rows, p: int, place: tuple[float, float], limit: float
) -> float:
    """A radius, at most `limit`, inside which p stays behind all of the best: Algorithm 6.

    A weighted sum changes by the weight times the way at most: most pairs need no circle.
    """
    radius = limit
    d_p = distance(form.metric, place[0], place[1], record[p, 0], record[p, 1])
    s_p, p_p = record[p, 2], record[p, 3]
    rounding = 8 * APART + 2 * fuzz(form)
    for j in range(best.size - 1, -1, -1):
        o = best[j]
        if form.kind == SUM:
            s_o, d_o = record[o, 2], distance(form.metric, place[0], place[1], record[o, 0], record[o, 1])
            lead, way = value(form, s_p, p_p, d_p) - value(form, s_o, 0.0, d_o), form.weight * radius
            scale = abs(s_o) + abs(s_p) + form.weight * (d_o + d_p) + way
            if lead > 2 * way + rounding * (scale + way):
                continue
        radius = preferred(form, record, label, o, p, place, radius)
        if radius <= 0.0:
            return 0.0
    return radius


@njit(**EXACT)
def highest_of(form: Form, record: Floats, best: Rows, place: tuple[float, float], radius: float) -> float:
    """At least the score of each of the best anywhere in a circle: MScore."""
    found = -np.inf
    for row in best:
        d = distance(form.metric, place[0], place[1], record[row, 0], record[row, 1])
        found = max(found, highest(form, record[row, 2], record[row, 3], d, radius))
    return found


@njit(**EXACT)
def _bounds(
    form: Form,
    low: Floats,
    high: Floats,
    record: Floats,
    place: tuple[float, float],
    entry: int,
    radius: float,
) -> tuple[float, float]:
    """At most the score of anything in an entry at the place, and anywhere in a circle around it."""
    if entry < 0:
        d = distance(form.metric, place[0], place[1], record[~entry, 0], record[~entry, 1])
        s, p = record[~entry, 2], record[~entry, 3]
    else:
        block, slot = entry // BRANCH, entry % BRANCH
        d = child_distance(low, high, form.metric, place[0], place[1], block, slot)
        s = high[block, 2, slot] if form.kind == DISTANCE else low[block, 2, slot]
        p = low[block, 3, slot]
    return value(form, s, p, d), lowest(form, s, p, d, radius)


@njit(**EXACT)
def _enter(circles: Floats, others: Rows, radius: float, row: int) -> None:
    """Put a circle among the m smallest, in order; the largest falls off."""
    at = circles.size - 1
    while at > 0 and circles[at - 1] > radius:
        circles[at], others[at] = circles[at - 1], others[at - 1]
        at -= 1
    circles[at], others[at] = radius, row


@njit(**EXACT)
def _unfold(tree: Rtree, space: Space, queries: Queries, i: int, entry: int) -> None:
    """Lay aside what is in a child of a block: objects, or children of its own."""
    block, slot = entry // BRANCH, entry % BRANCH
    first = np.int64(tree.first[block])
    aside, size = space.aside, space.size
    size[NODES] += 1
    if first < 0:
        inner = ~first + slot
        for j in range(tree.width[inner]):
            if not queries.filtered or may_pass(tree, queries, i, inner, j):
                lay_aside(aside, size, inner * BRANCH + j)
        return
    for j in range(BRANCH):
        row = np.int64(tree.row[first + slot, j])
        if row >= 0 and (not queries.filtered or passes(tree, queries, i, first + slot, j)):
            lay_aside(aside, size, ~row)
            size[TRIED] += 1


@njit(**EXACT)
def _shrink(
    form: Form,
    tree: Rtree,
    record: Floats,
    label: Ints,
    space: Space,
    queries: Queries,
    i: int,
    zone: tuple[Rows, Floats, Rows],
) -> float:
    """Look for smaller circles among everything laid aside; return the reach of the zone that is left."""
    best, circles, others = zone
    keys, entries, aside, size, low, high = (
        space.key,
        space.entry,
        space.aside,
        space.size,
        tree.low,
        tree.high,
    )
    place, last = (queries.x[i], queries.y[i]), circles.size - 1
    reach = highest_of(form, record, best, place, circles[last])
    while form.weight > 0.0 and circles[last] > 0.0:
        for j in range(size[ASIDE]):
            here, there = _bounds(form, low, high, record, place, aside[j], circles[last])
            if there <= reach:
                push(keys, entries, size, here, aside[j])
        size[ASIDE] = 0
        if size[HEAP] == 0:
            break
        entry = pop(keys, entries, size)
        if entry >= 0:
            if _bounds(form, low, high, record, place, entry, circles[last])[1] <= reach:
                _unfold(tree, space, queries, i, entry)
            continue
        found = irrelevant(form, record, label, best, ~entry, place, circles[last])
        if found < circles[last]:
            _enter(circles, others, found, ~entry)
            reach = highest_of(form, record, best, place, circles[last])
    for row in others[:last]:
        d = distance(form.metric, place[0], place[1], record[row, 0], record[row, 1])
        reach = max(reach, lowest(form, record[row, 2], record[row, 3], d, circles[last]))
    return reach


@njit(**EXACT)
def _first_circles(
    form: Form,
    record: Floats,
    label: Ints,
    space: Space,
    place: tuple[float, float],
    circles: Floats,
    others: Rows,
) -> None:
    """The circles of the last m objects on the board, which are not among the best k, smallest first."""
    k = space.row.size - circles.size
    for j in range(circles.size):
        p = space.row[k + j]
        radius = irrelevant(form, record, label, space.row[:k], p, place, np.inf)
        _enter(circles[: j + 1], others[: j + 1], radius, p)


@njit(**EXACT)
def find_zones(
    form: Form, tree: Rtree, record: Floats, label: Ints, queries: Queries, m: int, part: Ints, zones: Zones
) -> Ints:
    """Find the zones of the queries in `part`; returns blocks opened and objects tried."""
    most, total = 1, tree.count.sum()
    for i in part:
        most = max(most, min(queries.k[i] + m, total))
    space = space_for(tree, most)
    m = min(m, total + 1)
    circles, others = np.empty(m), np.empty(m, np.int32)
    for i in part:
        k, place = queries.k[i], (queries.x[i], queries.y[i])
        board = space.score[: k + m], space.row[: k + m]
        mine = Space(space.key, space.entry, space.aside, board[0], board[1], space.size)
        best_first(form, tree, label, mine, queries, i)
        size = mine.size[BOARD]
        start = zones.start[i]
        if size < k + m:
            zones.member[start : start + size] = mine.row[:size]
            zones.count[i], zones.radius[i], zones.reach[i] = size, np.inf, np.inf
            continue
        _first_circles(form, record, label, mine, place, circles, others)
        zones.reach[i] = _shrink(form, tree, record, label, mine, queries, i, (mine.row[:k], circles, others))
        zones.member[start : start + k] = mine.row[:k]
        zones.member[start + k : start + k + m - 1] = others[: m - 1]
        zones.count[i], zones.radius[i] = k + m - 1, circles[m - 1]
    return space.size[NODES : TRIED + 1].copy()
