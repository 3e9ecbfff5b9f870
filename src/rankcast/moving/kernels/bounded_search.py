"""Zones of a chosen radius: one descent of the R-tree below a score that is known from the start.

A query that has moved still has its former members, all but near the best. The worst of k of them, scored
from the new place, bounds the new result: whatever is below a block that scores more is left alone. With a
radius R that the zone is to have, the bound is the highest score that these k have anywhere in the circle,
and what counts of others is their lowest there (Lemma 10 [Moving §4.3.1]). What passes is collected, in no
order; the best k of it are the result, and whatever may come before one of them within the circle is a
member. So a zone has as many members as its radius takes, not the other way round.

Bounded work. No more than `room` objects are collected: then the bound is set by the best k among them, and
the radius is halved until at most half of them are left; what was left out before stays out, because bounds
fall with the radius. At radius 0 (a point zone) the best k alone are left, however many tie. Objects that
are behind the best everywhere (`forever`: of equal ones at one place those with larger ids) are left out.

Distances. `Coordinates` are the columns that the descent measures: those of the tree in the plane, on the
globe unit vectors (`rankcast.moving.kernels.sphere`), whose chord tells the way, or a little less. What
passes there is scored exactly, as everywhere.

Invariant: as in `rankcast.moving.kernels.zone_search`. Cost: the blocks that meet the circle of the bound,
each in one run over its sixteen children, and O(k) for each object among the best.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.moving.kernels.circles import Best, forever, highest_of
from rankcast.moving.kernels.rtree import BRANCH, Rtree, root_of
from rankcast.moving.kernels.rtree_search import Queries, may_pass, passes, place_of
from rankcast.moving.kernels.scores import (
    DISTANCE,
    POWER,
    PRODUCT,
    SUM,
    Floats,
    Ints,
    Place,
    Rows,
    ScoreForm,
    highest,
    lowest,
    value,
)
from rankcast.moving.kernels.sphere import unit_vector, way_at_least
from rankcast.structures.distance import HAVERSINE, MANHATTAN, distance
from rankcast.structures.jit import EXACT
from rankcast.structures.select import select

COUNT, NODES, TRIED = range(3)
DEEP = 512  # entries on the stack: the children of a path, and the roots
SHRINKS = 40  # halvings of a radius before it is taken for 0


class Coordinates(NamedTuple):
    """What distances are measured by: boxes and points in columns (n, C, 16), of which two or three count.

    The first two columns do, and of three axes the one that is called `third`.
    """

    low: Floats
    high: Floats
    point: Floats
    axes: int
    third: int


class Candidates(NamedTuple):
    """Objects that were collected, and arrays for the descent; `size` has COUNT, NODES and TRIED."""

    row: Rows
    score: Floats
    away: Floats
    key: Floats  # for selection
    place: Ints  # for selection
    stack: Ints
    bound: Floats  # what is on the stack scores no less
    gap: Floats  # (16,)
    key16: Floats  # (16,)
    spot: Floats  # (3,), where the query is
    size: Ints


def candidates(room: int) -> Candidates:
    """Arrays for so many objects."""
    return Candidates(
        row=np.empty(room, np.int32),
        score=np.empty(room),
        away=np.empty(room),
        key=np.empty(room),
        place=np.empty(room, np.int64),
        stack=np.empty(DEEP, np.int64),
        bound=np.empty(DEEP),
        gap=np.empty(BRANCH),
        key16=np.empty(BRANCH),
        spot=np.zeros(3),
        size=np.zeros(3, np.int64),
    )


@njit(**EXACT)
def _measure(metric: int, total: Floats) -> None:
    """Turn sums over the axes into distances, on the globe at most the way."""
    if metric == MANHATTAN:
        return
    for j in range(BRANCH):
        total[j] = math.sqrt(total[j])
    if metric == HAVERSINE:
        for j in range(BRANCH):
            total[j] = way_at_least(total[j])


@njit(**EXACT)
def _set_spot(metric: int, place: Place, spot: Floats) -> None:
    """Set the coordinates that a place is measured from."""
    if metric == HAVERSINE:
        unit_vector(place[0], place[1], spot)
    else:
        spot[0], spot[1], spot[2] = place


@njit(**EXACT)
def _to_boxes(
    metric: int, low: Floats, high: Floats, axes: int, third: int, spot: Floats, block: int, total: Floats
) -> None:
    """How far the boxes of the children of a block are."""
    for j in range(BRANCH):
        total[j] = 0.0
    for axis in range(axes):
        q, column = spot[axis], axis if axis < 2 else third
        for j in range(BRANCH):
            gap = max(low[block, column, j] - q, q - high[block, column, j], 0.0)
            total[j] += gap if metric == MANHATTAN else gap * gap
    _measure(metric, total)


@njit(**EXACT)
def _to_points(
    metric: int, point: Floats, axes: int, third: int, spot: Floats, leaf: int, total: Floats
) -> None:
    """How far the points of a leaf are."""
    for j in range(BRANCH):
        total[j] = 0.0
    for axis in range(axes):
        q, column = spot[axis], axis if axis < 2 else third
        for j in range(BRANCH):
            gap = point[leaf, column, j] - q
            total[j] += abs(gap) if metric == MANHATTAN else gap * gap
    _measure(metric, total)


@njit(**EXACT)
def _least_keys(form: ScoreForm, s: Floats, p: Floats, block: int, gap: Floats, key: Floats) -> None:
    """At most the score of each of sixteen from a distance on; s and p are columns 2 and 3."""
    if form.kind == SUM:
        for j in range(BRANCH):
            key[j] = s[block, 2, j] + form.weight * gap[j]
    elif form.kind == DISTANCE:
        for j in range(BRANCH):
            key[j] = gap[j] / s[block, 2, j]
    elif form.weight == 1.0 and form.kind == PRODUCT:
        for j in range(BRANCH):
            key[j] = p[block, 3, j] * gap[j] * POWER
    else:
        for j in range(BRANCH):
            key[j] = value(form, s[block, 2, j], p[block, 3, j], gap[j]) * POWER


@njit(**EXACT)
def _offer(
    rows: Rows, scores: Floats, aways: Floats, label: Ints, n: int, k: int, row: int, score: float, d: float
) -> int:
    """Put an object on the board of the best k, which has n in order; returns how many it has then."""
    if n == k:
        if score > scores[k - 1] or (score == scores[k - 1] and label[row] > label[rows[k - 1]]):
            return n
        n -= 1
    at = n
    while at > 0 and (
        scores[at - 1] > score or (scores[at - 1] == score and label[rows[at - 1]] > label[row])
    ):
        rows[at], scores[at], aways[at] = rows[at - 1], scores[at - 1], aways[at - 1]
        at -= 1
    rows[at], scores[at], aways[at] = row, score, d
    return n + 1


@njit(**EXACT)
def nearest(
    form: ScoreForm,
    tree: Rtree,
    label: Ints,
    at: Coordinates,
    queries: Queries,
    i: int,
    k: int,
    worst: float,
    found: Candidates,
) -> None:
    """Bring the best k objects for query i to the front, best first; fewer, if there are no more.

    None of them scores more than `worst`. Blocks are descended most promising first. Cost: that of a search
    that knows its last score from the start, and without such a bound that of a search depth first. Arrays
    are passed on one by one: a tuple of them would be copied for every call.
    """
    x, y, metric, filtered = queries.x[i], queries.y[i], form.metric, queries.filtered
    stack, bound, gap, key, spot = found.stack, found.bound, found.gap, found.key16, found.spot
    rows, scores, aways = found.row, found.score, found.away
    point, low, high, held, firsts, widths = tree.point, tree.low, tree.high, tree.row, tree.first, tree.width
    at_low, at_high, at_point, axes, third = at.low, at.high, at.point, at.axes, at.third
    _set_spot(metric, place_of(metric, queries, i), spot)
    n, depth, nodes, tried = 0, 0, 0, 0
    for layer in range(tree.count.size):
        if tree.count[layer] > 0:
            stack[depth], bound[depth] = ~root_of(tree, layer), -np.inf
            depth += 1
    while depth > 0:
        depth -= 1
        entry = stack[depth]
        if bound[depth] > worst:
            continue
        nodes += 1
        if entry < 0:
            block, start = ~entry, depth
            first = np.int64(firsts[block])
            _to_boxes(metric, at_low, at_high, axes, third, spot, block, gap)
            _least_keys(form, high if form.kind == DISTANCE else low, low, block, gap, key)
            for j in range(widths[block]):
                if not key[j] <= worst or (filtered and not may_pass(tree, queries, i, block, j)):
                    continue
                to = depth
                while to > start and bound[to - 1] < key[j]:
                    stack[to], bound[to] = stack[to - 1], bound[to - 1]
                    to -= 1
                stack[to], bound[to] = first + j if first >= 0 else ~(~first + j), key[j]
                depth += 1
            continue
        _to_points(metric, at_point, axes, third, spot, entry, gap)
        _least_keys(form, point, point, entry, gap, key)
        for j in range(BRANCH):
            row = held[entry, j]
            if not key[j] <= worst or row < 0 or (filtered and not passes(tree, queries, i, entry, j)):
                continue
            tried += 1
            d = gap[j]
            if metric == HAVERSINE:
                d = distance(metric, x, y, point[entry, 0, j], point[entry, 1, j])
            score = value(form, point[entry, 2, j], point[entry, 3, j], d)
            if score <= worst:
                n = _offer(rows, scores, aways, label, n, k, row, score, d)
                if n == k:
                    worst = scores[k - 1]
    found.size[COUNT] = n
    found.size[NODES] += nodes
    found.size[TRIED] += tried


@njit(**EXACT)
def best_k(label: Ints, found: Candidates, k: int) -> None:
    """Bring the best k of those collected, which are at least as many, to the front, best first."""
    row, score, away, size = found.row, found.score, found.away, found.size[COUNT]
    if size > k > BRANCH:  # many: first the k of smallest score, then ties by label
        key, place = found.key, found.place
        for i in range(size):
            key[i], place[i] = score[i], i
        select(key, place, 0, size, k)
        worst = key[0]
        for i in range(1, k):
            worst = max(worst, key[i])
        at = 0
        for i in range(size):
            if score[i] <= worst:
                row[at], row[i] = row[i], row[at]
                score[at], score[i] = score[i], score[at]
                away[at], away[i] = away[i], away[at]
                at += 1
        if at <= 4 * k:
            size = at
    for i in range(1, size):
        mine, its, far, at = row[i], score[i], away[i], i
        if i >= k:
            if its > score[k - 1] or (its == score[k - 1] and label[mine] > label[row[k - 1]]):
                continue
            row[i], score[i], away[i], at = row[k - 1], score[k - 1], away[k - 1], k - 1
        while at > 0 and (score[at - 1] > its or (score[at - 1] == its and label[row[at - 1]] > label[mine])):
            row[at], score[at], away[at] = row[at - 1], score[at - 1], away[at - 1]
            at -= 1
        row[at], score[at], away[at] = mine, its, far


@njit(**EXACT)
def _behind(form: ScoreForm, record: Floats, label: Ints, best: Best, p: int, least: float, r: float) -> bool:
    """Whether p, whose lowest score in a circle is `least`, is behind all of the best there or everywhere."""
    rows, _, aways = best
    for j in range(rows.size - 1, -1, -1):  # the worst is the likeliest to be passed
        o = np.int64(rows[j])
        if highest(form, record[o, 2], record[o, 3], aways[j], r) >= least and not forever(
            form, record, label, o, p
        ):
            return False
    return True


@njit(**EXACT)
def _keep(form: ScoreForm, record: Floats, label: Ints, found: Candidates, k: int, zone: Floats) -> None:
    """Leave out what cannot come before one of the first k within the radius; at radius 0 all but these."""
    row, score, away, size = found.row, found.score, found.away, found.size
    if zone[RADIUS] == 0.0:
        size[COUNT] = k
        return
    best = row[:k], score[:k], away[:k]
    kept = k
    for i in range(k, size[COUNT]):
        p = np.int64(row[i])
        least = lowest(form, record[p, 2], record[p, 3], away[i], zone[RADIUS])
        if least <= zone[REACH] and not _behind(form, record, label, best, p, least, zone[RADIUS]):
            row[kept], score[kept], away[kept] = row[i], score[i], away[i]
            kept += 1
    size[COUNT] = kept


RADIUS, REACH = range(2)


@njit(**EXACT)
def _set_reach(form: ScoreForm, record: Floats, found: Candidates, k: int, zone: Floats) -> None:
    """Set the reach by the first k, which stand in order; the radius gives way where that would grow."""
    best = found.row[:k], found.score[:k], found.away[:k]
    for _ in range(SHRINKS):
        if zone[RADIUS] == 0.0:
            break
        reach = highest_of(form, record, best, zone[RADIUS])
        if reach <= zone[REACH]:
            zone[REACH] = reach
            return
        zone[RADIUS] *= 0.9
    zone[RADIUS], zone[REACH] = 0.0, found.score[k - 1]


@njit(**EXACT)
def _tighten(form: ScoreForm, record: Floats, label: Ints, found: Candidates, k: int, zone: Floats) -> None:
    """Make room: a bound by the best k so far, and a radius for which at most half of the room is needed."""
    best_k(label, found, k)
    half = max(k, found.row.size // 2)
    for _ in range(SHRINKS):
        _set_reach(form, record, found, k, zone)
        _keep(form, record, label, found, k, zone)
        if found.size[COUNT] <= half:
            return
        zone[RADIUS] *= 0.5
    zone[RADIUS], zone[REACH] = 0.0, found.score[k - 1]
    found.size[COUNT] = k


@njit(**EXACT)
def _may_count(form: ScoreForm, s: float, p: float, d: float, radius: float, reach: float) -> bool:
    """Whether something with these statics, at distance d or more, may be a member."""
    if radius > 0.0:
        return lowest(form, s, p, d, radius) <= reach
    return value(form, s, p, d) * (1.0 if form.kind in (SUM, DISTANCE) else POWER) <= reach


@njit(**EXACT)
def collect(
    form: ScoreForm,
    tree: Rtree,
    record: Floats,
    label: Ints,
    at: Coordinates,
    queries: Queries,
    i: int,
    zone: Floats,
    found: Candidates,
) -> None:
    """Collect the objects that may be members of the zone of query i; `zone` is its RADIUS and REACH.

    At least k objects that pass the filter score no more than the reach, which must not fall below their
    highest scores in the circle. Both may be less afterwards.
    """
    x, y, k, metric, filtered = queries.x[i], queries.y[i], queries.k[i], form.metric, queries.filtered
    stack, gap, spot, size = found.stack, found.gap, found.spot, found.size
    rows, scores, aways = found.row, found.score, found.away
    point, low, high, held, firsts, widths = tree.point, tree.low, tree.high, tree.row, tree.first, tree.width
    at_low, at_high, at_point, axes, third = at.low, at.high, at.point, at.axes, at.third
    _set_spot(metric, place_of(metric, queries, i), spot)
    n, depth = 0, 0
    for layer in range(tree.count.size):
        if tree.count[layer] > 0:
            stack[depth] = ~root_of(tree, layer)
            depth += 1
    while depth > 0:
        depth -= 1
        entry = stack[depth]
        size[NODES] += 1
        if entry < 0:
            block = ~entry
            first = np.int64(firsts[block])
            _to_boxes(metric, at_low, at_high, axes, third, spot, block, gap)
            for j in range(widths[block]):
                s = high[block, 2, j] if form.kind == DISTANCE else low[block, 2, j]
                if _may_count(form, s, low[block, 3, j], gap[j], zone[RADIUS], zone[REACH]) and (
                    not filtered or may_pass(tree, queries, i, block, j)
                ):
                    stack[depth] = first + j if first >= 0 else ~(~first + j)
                    depth += 1
            continue
        _to_points(metric, at_point, axes, third, spot, entry, gap)
        for j in range(BRANCH):
            row, s, p = held[entry, j], point[entry, 2, j], point[entry, 3, j]
            if row < 0 or not _may_count(form, s, p, gap[j], zone[RADIUS], zone[REACH]):
                continue
            if filtered and not passes(tree, queries, i, entry, j):
                continue
            size[TRIED] += 1
            if n == rows.size:
                size[COUNT] = n
                _tighten(form, record, label, found, k, zone)
                n = size[COUNT]
            d = gap[j]
            if metric == HAVERSINE:
                d = distance(metric, x, y, point[entry, 0, j], point[entry, 1, j])
            rows[n], scores[n], aways[n] = row, value(form, s, p, d), d
            n += 1
    size[COUNT] = n
    best_k(label, found, k)
    _set_reach(form, record, found, k, zone)
    _keep(form, record, label, found, k, zone)
