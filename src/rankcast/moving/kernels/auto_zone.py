"""`m="auto"`: how large a zone is worth its while, from how a query has moved [Moving §4.3].

A zone of radius R saves searches as long as the query stays within it, and costs the scores of its members
at every position. Of each query this is known, and part of the state:

- `pace`: how far it comes from the centre of a zone a position, where it left one; an average in which each
  zone counts half as much as the next. Below 0: it has not left one yet.
- `scale`: how members grow with the radius, as if n = k (1 + R / scale)^2; from the last zone with a radius.
- `steps`: positions since its zone was made. `plain`: point zones in a row.

`target` then takes the radius, in positions ahead, for which a search and the positions that it serves cost
least a position; none (0), if a search at every position costs less than that. The costs of searches, of
members found and of members followed are constants by score and metric, in nanoseconds of a common machine:
no clock is read, so equal histories give equal zones. Every 32nd point zone gets a radius all the
same, to see whether the place has changed.

A query that has never moved out of a zone gets one with about k members more than its k.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.moving.kernels.bounded_search import (
    COUNT,
    NODES,
    RADIUS,
    REACH,
    TRIED,
    Candidates,
    Coordinates,
    best_k,
    collect,
    nearest,
)
from rankcast.moving.kernels.circles import highest_of, lemma
from rankcast.moving.kernels.rtree import BRANCH, Rtree
from rankcast.moving.kernels.rtree_search import Queries, place_of
from rankcast.moving.kernels.scores import Floats, Ints, Rows, ScoreForm, apart, at_line, at_row, value
from rankcast.moving.kernels.zone_follow import ZoneColumns
from rankcast.moving.kernels.zone_search import FoundZones
from rankcast.structures.jit import EXACT

UNKNOWN = -1.0
LOOK_AGAIN = 32  # point zones until one gets a radius to see how members grow
AHEAD = np.array([1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 128])  # positions that a zone may serve
NO_ROOM = 1e-3  # of a radius for which no zone was found
SPARE = 0.5  # of a position more, since steps differ
LATEST = 0.5  # what the last zone counts in the pace


class Paces(NamedTuple):
    """What is known of queries, by row."""

    pace: Floats
    scale: Floats
    steps: Ints
    plain: Ints


class Costs(NamedTuple):
    """Nanoseconds: of a search without a zone, with one, of a member found, of following, of each member."""

    point: float
    search: float
    found: float
    follow: float
    member: float


@njit(**EXACT)
def leaves_of(place: Ints, held: ZoneColumns, rows: Rows) -> Rows:
    """The leaf of the first member of each query; -1 if it has none that is still there."""
    found = np.full(rows.size, -1, np.int32)
    for i in range(rows.size):
        if held.count[rows[i]] > 0:
            found[i] = place[held.member[held.start[rows[i]]]] // BRANCH
    return found


@njit(**EXACT)
def learn_pace(
    metric: int, known: Paces, held: ZoneColumns, rows: Rows, x: Floats, y: Floats, z: Floats
) -> None:
    """Learn from queries that have left their zones for these places."""
    for i in range(rows.size):
        row = rows[i]
        centre = at_line(metric, held.x, held.y, held.z, row)
        way = apart(metric, centre, at_line(metric, x, y, z, i)) / max(1, known.steps[row])
        before = known.pace[row]
        known.pace[row] = way if before < 0.0 else before + LATEST * (way - before)


@njit(**EXACT)
def target(costs: Costs, pace: float, scale: float, k: int, most: int) -> float:
    """The radius that costs least a position, with at most so many members; 0: none does."""
    best, radius = costs.point, 0.0
    for ahead in AHEAD:
        wide = pace * (ahead + SPARE)
        share = 1.0 + wide / scale
        members = k * share * share
        if not members <= most:
            break
        each = costs.search + costs.found * members + ahead * (costs.follow + costs.member * members)
        if each < best * (ahead + 1):
            best, radius = each / (ahead + 1), wide
    return radius


@njit(**EXACT)
def _learn_scale(known: Paces, row: int, wanted: float, radius: float, members: int, k: int) -> None:
    """Learn how members grow with the radius from a zone that was found; from none, that they do at once."""
    growth = math.sqrt(max(members, k + 1) / k) - 1.0
    known.scale[row] = radius / growth if radius > 0.0 else NO_ROOM * wanted


@njit(**EXACT)
def _seed(
    form: ScoreForm,
    tree: Rtree,
    record: Floats,
    attributes: Floats,
    held: ZoneColumns,
    row: int,
    queries: Queries,
    i: int,
    found: Candidates,
) -> None:
    """Collect the former members that are still there and pass the filter, scored from the place."""
    size, start, n = found.size, held.start[row], 0
    place = place_of(form.metric, queries, i)
    for j in range(start, start + min(held.count[row], found.row.size)):
        o = held.member[j]
        if tree.place[o] < 0:
            continue
        outside = False
        if queries.filtered:
            for a in range(attributes.shape[1]):
                outside |= attributes[o, a] < queries.lower[i, a] or attributes[o, a] > queries.upper[i, a]
        if outside:
            continue
        d = apart(form.metric, place, at_row(form.metric, record, o))
        found.row[n], found.away[n] = o, d
        found.score[n] = value(form, record[o, 2], record[o, 3], d)
        n += 1
    size[COUNT] = n


@njit(**EXACT)
def _room_to_go(form: ScoreForm, record: Floats, k: int, found: Candidates) -> float:
    """A radius for a query of whose motion nothing is known: the last found stays behind the k-th.

    Where the two tie: as far as the k-th is, to see how many may be left out for good.
    """
    last = found.size[COUNT] - 1
    pair = np.int64(found.row[k - 1]), np.int64(found.row[last]), found.away[k - 1], found.away[last]
    radius = lemma(form, record, pair, np.inf)
    return radius if radius > 0.0 else found.away[k - 1]


@njit(**EXACT)
def _write(zones: FoundZones, i: int, found: Candidates, radius: float, reach: float) -> None:
    """Write a zone."""
    size, start = found.size[COUNT], zones.start[i]
    zones.member[start : start + size] = found.row[:size]
    zones.count[i], zones.radius[i], zones.reach[i] = size, radius, reach


@njit(**EXACT)
def find_auto_zones(
    form: ScoreForm,
    index: tuple[Rtree, Floats, Ints, Floats],
    at: Coordinates,
    queries: Queries,
    held: ZoneColumns,
    rows: Rows,
    known: Paces,
    costs: Costs,
    zones: FoundZones,
    work: tuple[Ints, Candidates],
) -> Ints:
    """Find zones for the queries of a part, of the radius that pays; returns blocks opened, objects tried.

    `index` is the tree of objects, their records, labels and attributes by row. Each zone has room for as
    many members as there are candidates.
    """
    tree, record, label, attributes = index
    part, found = work
    most, zone = found.row.size // 2, np.empty(2)
    found.size[:] = 0
    for i in part:
        row, k = rows[i], queries.k[i]
        pace, scale, radius = known.pace[row], known.scale[row], 0.0
        if pace >= 0.0 and scale > 0.0:
            radius = target(costs, pace, scale, k, most)
        if radius == 0.0 and pace >= 0.0 and (scale <= 0.0 or known.plain[row] >= LOOK_AGAIN):
            radius = pace * (1 + SPARE)
        _seed(form, tree, record, attributes, held, row, queries, i, found)
        worst, wanted = np.inf, k
        if found.size[COUNT] >= k:
            best_k(label, found, k)
            worst = found.score[k - 1]
        if pace < 0.0 or worst == np.inf:
            worst, wanted = np.inf, k + max(4, min(k, most - k))
        nearest(form, tree, label, at, queries, i, min(wanted, found.row.size), worst, found)
        if found.size[COUNT] < wanted and wanted > k:
            radius = np.inf  # there are no others
        elif pace < 0.0:
            radius = _room_to_go(form, record, k, found)
        known.steps[row] = 0
        if radius == np.inf:
            known.plain[row] = 0
            _write(zones, i, found, np.inf, np.inf)
            continue
        zone[RADIUS], zone[REACH] = radius, found.score[k - 1]
        found.size[COUNT] = k
        if radius > 0.0:
            best = found.row[:k], found.score[:k], found.away[:k]
            zone[REACH] = highest_of(form, record, best, radius)
            collect(form, tree, record, label, at, queries, i, zone, found)
        known.plain[row] = 0 if radius > 0.0 else known.plain[row] + 1
        if radius > 0.0:
            _learn_scale(known, row, radius, zone[RADIUS], found.size[COUNT], k)
        _write(zones, i, found, zone[RADIUS], zone[REACH])
    return found.size[NODES : TRIED + 1].copy()
