"""Following queries inside their zones, and finding the zones that a changed object breaks.

Zones lie by subscription in `ZoneColumns`; the first k members, k being what the subscription wants, are
always its current result. A position inside the zone costs the members' scores and no index access: if none
of the others has come before one of the first k, at most their order changes; otherwise the result has
changed.

Zones that a changed object may break are searched in an R-tree of zones. Its points are (x, y, radius,
reach), in space (x, y, radius, reach, z). An object's lowest score in a zone is bounded over a block by its
distance to the box of centres, less the largest radius; where that is above the largest reach, no zone of the
block has the object as a member, and none can be broken by it. For each zone that is left, `members` tests
whether it lists the object, `newcomers` whether the object's irrelevant circle is smaller than the zone.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.moving.kernels.circles import Best, irrelevant
from rankcast.moving.kernels.rtree import BRANCH, Rtree, root_of
from rankcast.moving.kernels.rtree_search import to_child
from rankcast.moving.kernels.scores import (
    SPACE,
    Floats,
    Ints,
    Rows,
    ScoreForm,
    Z,
    apart,
    at_line,
    at_row,
    at_slot,
    lowest,
    value,
)
from rankcast.moving.kernels.zone_search import FoundZones
from rankcast.structures.jit import EXACT

Bools = NDArray[np.bool_]
Flags = NDArray[np.int8]

SAME, TURNED, OUTSIDE = range(3)
ASCENDING, MIXED = -1, -2  # rows that are all known


class ZoneColumns(NamedTuple):
    """Zones by subscription: centre, radius, reach, and where the members lie, with room for how many."""

    x: Floats
    y: Floats
    radius: Floats
    reach: Floats
    start: Ints
    count: Ints  # type: ignore[assignment]
    room: Ints
    member: Rows
    z: Floats  # of the centre, with the metric SPACE


@njit(**EXACT)
def rows_in_order(codes: Ints, sequence: Ints, used: int, ids: Ints) -> Rows:
    """The rows of integer ids, if these come in the order of live rows, each once; otherwise none.

    Gives up after twice as many rows as there are ids: looking all of them up costs more than that.
    """
    found, at, end = np.empty(ids.size, np.int32), 0, min(used, 2 * ids.size)
    for i in range(ids.size):
        while at < end and (codes[at] != ids[i] or sequence[at] < 0):
            at += 1
        if at == end:
            return found[:0].copy()
        found[i] = at
        at += 1
    return found


@njit(**EXACT)
def first_unknown(rows: Rows) -> int:
    """Where the first row below 0 is; if there is none, ASCENDING or MIXED."""
    for i in range(rows.size):
        if rows[i] < 0:
            return i
    for i in range(1, rows.size):
        if rows[i] <= rows[i - 1]:
            return MIXED
    return ASCENDING


@njit(**EXACT)
def first_beyond(places: Floats, reach: float) -> int:
    """Where in places (2, n) or (3, n), by line, the first number is beyond `reach` from 0; -1: nowhere."""
    for line in range(places.shape[0]):
        for i in range(places.shape[1]):
            if abs(places[line, i]) > reach:
                return line * places.shape[1] + i
    return -1


@njit(**EXACT)
def last_of_each(rows: Rows, used: int) -> Ints:
    """Where each distinct row comes last, in the order of those places."""
    last = np.full(used, -1)
    for i in range(rows.size):
        last[rows[i]] = i
    found, size = np.empty(rows.size, np.int64), 0
    for i in range(rows.size):
        if last[rows[i]] == i:
            found[size] = i
            size += 1
    return found[:size].copy()


@njit(**EXACT)
def _sort(scores: Floats, items: Rows, size: int, label: Ints) -> None:
    """Sort items by score, then label."""
    for i in range(1, size):
        score, item, at = scores[i], items[i], i
        while at > 0 and (
            scores[at - 1] > score or (scores[at - 1] == score and label[items[at - 1]] > label[item])
        ):
            scores[at], items[at] = scores[at - 1], items[at - 1]
            at -= 1
        scores[at], items[at] = score, item


@njit(**EXACT)
def _settled(member: Rows, start: int, scores: Floats, k: int, label: Ints, ordered: bool) -> bool:
    """Whether members with these scores leave the result as it is; if `ordered`, it is put in order.

    The others behind the first k stay as they stand.
    """
    items, size = member[start : start + scores.size], scores.size
    k, worst = min(k, size), 0
    for j in range(1, k):
        if scores[j] > scores[worst] or (
            scores[j] == scores[worst] and label[items[j]] > label[items[worst]]
        ):
            worst = j
    for j in range(k, size):
        if scores[j] < scores[worst] or (
            scores[j] == scores[worst] and label[items[j]] < label[items[worst]]
        ):
            return False
    if ordered:
        _sort(scores, items, k, label)
    return True


@njit(**EXACT)
def follow(
    formula: tuple[Any, ...],
    objects: tuple[Floats, Ints],
    zones: tuple[Any, ...],
    rows: Rows,
    places: Floats,
    current: tuple[Floats, Floats, Floats, Ints],
    wanted: tuple[Ints, int],
    ordered: bool,
    flags: Flags,
) -> tuple[int, int]:
    """Follow queries to places (2, n): SAME result, TURNED (another one inside the zone), or OUTSIDE of it.

    Those with the same result are there afterwards: `current` are x, y and z by row, and positions in the
    zone so far, if these are counted. If `ordered`, such a result is brought in order; nothing else
    changes. A result in order as it stands, with all other members behind it, as most are after a small
    step, needs nothing more. Returns how many queries have not the same result, and how many scores of
    members it took: the cost of a client.

    Fields of a `ScoreForm`, of `ZoneColumns`, records and labels of objects come as plain tuples:
    `rankcast.structures.hashing` says why. `wanted` is, by row, k (0: the one that follows).
    """
    form, held, record, label = ScoreForm(*formula), ZoneColumns(*zones), objects[0], objects[1]
    centre_x, centre_y, centre_z, radius, starts = held.x, held.y, held.z, held.radius, held.start
    count, member, metric = held.count, held.member, form.metric
    current_x, current_y, current_z, steps = current[0], current[1], current[2], current[3]
    own_k, k = wanted[0], wanted[1]
    counted = steps.size > 0
    scores, changed, rescored = np.empty(0), 0, 0
    for i in range(rows.size):
        row, place = rows[i], (places[0, i], places[1, i], places[2, i] if metric == SPACE else 0.0)
        flags[i] = SAME
        if counted:
            steps[row] += 1
        if apart(metric, at_line(metric, centre_x, centre_y, centre_z, row), place) > radius[row]:
            flags[i] = OUTSIDE
            changed += 1
            continue
        size, start, most = count[row], starts[row], own_k[row] if own_k[row] > 0 else k
        if ordered or size > most:
            rescored += size
            if size > scores.size:
                scores = np.empty(2 * size)
            same, last = True, -np.inf
            for j in range(size):
                o = member[start + j]
                d = apart(metric, place, at_row(metric, record, o))
                scores[j] = value(form, record[o, 2], record[o, 3], d)
                same &= scores[j] > last
                if j < most:
                    last = scores[j]
            if not same and not _settled(member, start, scores[:size], most, label, ordered):
                flags[i] = TURNED
                changed += 1
                continue
        current_x[row], current_y[row] = place[0], place[1]
        if metric == SPACE:
            current_z[row] = place[2]
    return changed, rescored


@njit(**EXACT)
def settle(
    label: Ints, held: ZoneColumns, rows: Rows, starts: Ints, scores: Floats, k: Ints, ordered: bool
) -> Flags:
    """The same as `follow` for queries inside their zones, with the scores of their members given."""
    first, member = held.start, held.member
    flags = np.empty(rows.size, np.int8)
    for i in range(rows.size):
        mine = scores[starts[i] : starts[i + 1]]
        flags[i] = SAME if _settled(member, first[rows[i]], mine, k[i], label, ordered) else TURNED
    return flags


@njit(**EXACT)
def inside(metric: int, circles: tuple[Floats, Floats, Floats, Floats], rows: Rows, places: Floats) -> Bools:
    """Which queries are at places (2, n) inside their zones, which are circles: x, y, z, radius by row."""
    centre_x, centre_y, centre_z, radius = circles
    found = np.empty(rows.size, np.bool_)
    for i in range(rows.size):
        row = rows[i]
        place = places[0, i], places[1, i], places[2, i] if metric == SPACE else 0.0
        centre = at_line(metric, centre_x, centre_y, centre_z, row)
        found[i] = apart(metric, centre, place) <= radius[row]
    return found


@njit(**EXACT)
def members_at(
    metric: int,
    record: Floats,
    held: ZoneColumns,
    rows: Rows,
    places: tuple[Floats, Floats, Floats],
    starts: Ints,
) -> tuple[Rows, Floats]:
    """The first `starts[i + 1] - starts[i]` members of each zone, and their distances from the places."""
    begin, member = held.start, held.member
    items, away = np.empty(starts[-1], np.int32), np.empty(starts[-1])
    for i in range(rows.size):
        first = begin[rows[i]] - starts[i]
        for j in range(starts[i], starts[i + 1]):
            o = member[first + j]
            items[j] = o
            place = at_line(metric, places[0], places[1], places[2], i)
            away[j] = apart(metric, place, at_row(metric, record, o))
    return items, away


@njit(**EXACT)
def scores_of(form: ScoreForm, record: Floats, items: Rows, away: Floats) -> Floats:
    """The scores of objects at some distances."""
    scores = np.empty(items.size)
    for i in range(items.size):
        scores[i] = value(form, record[items[i], 2], record[items[i], 3], away[i])
    return scores


@njit(**EXACT)
def rank_results(label: Ints, rows: Rows, starts: Ints, out: tuple[Rows, Rows, Floats, Ints]) -> None:
    """Sort the items and scores of results, each from `starts[i]`, and write whose they are and the ranks."""
    owner, item, score, rank = out
    for i in range(rows.size):
        begin, end = starts[i], starts[i + 1]
        _sort(score[begin:end], item[begin:end], end - begin, label)
        for j in range(begin, end):
            owner[j], rank[j] = rows[i], j - begin + 1


@njit(**EXACT)
def lists(held: ZoneColumns, rows: Rows, objects: Rows) -> Bools:
    """Which zones have the object beside them as a member."""
    found = np.zeros(rows.size, np.bool_)
    for i in range(rows.size):
        start = held.start[rows[i]]
        for j in range(start, start + held.count[rows[i]]):
            found[i] |= held.member[j] == objects[i]
    return found


@njit(**EXACT)
def store(held: ZoneColumns, rows: Rows, zones: FoundZones, used: int) -> int:
    """Write the members of new zones, in place where they fit, else at the end; return what is used now."""
    for i in range(rows.size):
        row, size = rows[i], zones.count[i]
        if size > held.room[row]:
            held.start[row], held.room[row] = used, size
            used += size
        held.count[row] = size
        for j in range(size):
            held.member[held.start[row] + j] = zones.member[zones.start[i] + j]
        held.radius[row], held.reach[row] = zones.radius[i], zones.reach[i]
    return used


@njit(**EXACT)
def compact(held: ZoneColumns, member: Rows) -> int:
    """Write all members one after the other into `member`, without gaps; return how much that is."""
    used = 0
    for row in range(held.count.size):
        size, start = held.count[row], held.start[row]
        member[used : used + size] = held.member[start : start + size]
        held.start[row], held.room[row] = used, size
        used += size
    return used


@njit(**EXACT)
def within_reach(form: ScoreForm, tree: Rtree, one: Floats, stack: Ints, found: Rows) -> int:
    """Write the zones that an object with the record `one` may concern to `found`; return how many."""
    size, depth, metric = 0, 0, form.metric
    place = one[0], one[1], one[Z] if metric == SPACE else 0.0
    for layer in range(tree.count.size):
        if tree.count[layer] > 0:
            stack[depth] = root_of(tree, layer)
            depth += 1
    while depth > 0:
        depth -= 1
        block = stack[depth]
        first = np.int64(tree.first[block])
        for slot in range(np.int64(tree.width[block])):
            d = to_child(tree.low, tree.high, metric, place, block, slot)
            radius, reach = tree.high[block, 2, slot], tree.high[block, 3, slot]
            if lowest(form, one[2], one[3], d, radius) > reach:
                continue
            if first < 0:
                stack[depth] = ~first + slot
                depth += 1
                continue
            leaf = first + slot
            for j in range(BRANCH):
                if tree.row[leaf, j] >= 0:
                    d = apart(metric, at_slot(metric, tree.point, leaf, j), place)
                    if lowest(form, one[2], one[3], d, tree.point[leaf, 2, j]) <= tree.point[leaf, 3, j]:
                        found[size] = tree.row[leaf, j]
                        size += 1
    return size


@njit(**EXACT)
def members(
    form: ScoreForm, tree: Rtree, record: Floats, held: ZoneColumns, objects: Rows, marked: Bools
) -> None:
    """Mark the zones that have one of the objects, with its record so far, as a member."""
    stack, found = np.empty(tree.first.size + tree.count.size, np.int64), np.empty(tree.count.sum(), np.int32)
    for o in objects:
        for i in range(within_reach(form, tree, record[o], stack, found)):
            row = found[i]
            start = held.start[row]
            for j in range(start, start + held.count[row]):
                marked[row] |= held.member[j] == o


@njit(**EXACT)
def _best_at_centre(
    form: ScoreForm, record: Floats, label: Ints, held: ZoneColumns, row: int, k: int, space: Best
) -> Best:
    """The first k members of a zone as they are at its centre, best first: rows, scores, distances."""
    rows, scores, aways = space
    start, size = held.start[row], held.count[row]
    place = at_line(form.metric, held.x, held.y, held.z, row)
    for j in range(size):
        item = held.member[start + j]
        away = apart(form.metric, place, at_row(form.metric, record, item))
        score, at = value(form, record[item, 2], record[item, 3], away), j
        while at > 0 and (
            scores[at - 1] > score or (scores[at - 1] == score and label[rows[at - 1]] > label[item])
        ):
            scores[at], aways[at], rows[at] = scores[at - 1], aways[at - 1], rows[at - 1]
            at -= 1
        scores[at], aways[at], rows[at] = score, away, item
    size = min(k, size)
    return rows[:size], scores[:size], aways[:size]


@njit(**EXACT)
def newcomers(
    form: ScoreForm,
    tree: Rtree,
    record: Floats,
    label: Ints,
    held: ZoneColumns,
    objects: tuple[Rows, Floats],
    wants: tuple[Ints, int, int, Floats, Floats],
    marked: Bools,
) -> None:
    """Mark the zones that objects, which are no members, break.

    `objects` are rows and attributes (n, d); `wants` is, by subscription, k (0: the one that follows), then
    m, then the filter.
    """
    rows, attributes = objects
    own_k, k, m, lower, upper = wants
    count, radii = held.count, held.radius
    stack, found = np.empty(tree.first.size + tree.count.size, np.int64), np.empty(tree.count.sum(), np.int32)
    space = np.empty(0, np.int32), np.empty(0), np.empty(0)
    for n in range(rows.size):
        o = rows[n]
        for i in range(within_reach(form, tree, record[o], stack, found)):
            row = found[i]
            if marked[row]:
                continue
            outside = False
            for a in range(attributes.shape[1]):
                outside |= attributes[n, a] < lower[row, a] or attributes[n, a] > upper[row, a]
            if outside:
                continue
            size = own_k[row] if own_k[row] > 0 else k
            if count[row] < size + m - 1:
                marked[row] = True
                continue
            if count[row] > space[0].size:
                space = np.empty(count[row], np.int32), np.empty(count[row]), np.empty(count[row])
            best = _best_at_centre(form, record, label, held, row, size, space)
            place, radius = at_line(form.metric, held.x, held.y, held.z, row), radii[row]
            marked[row] = irrelevant(form, record, label, best, o, place, radius) < radius or radius == 0.0
