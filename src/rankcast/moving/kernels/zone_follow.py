"""Following queries inside their zones, and finding the zones that a changed object breaks.

Zones lie by subscription in `Held`; the first k members, k being what the subscription wants, are always its
current result. A position inside the zone costs the members' scores and no index access: if none of the
others has come before one of the first k, at most their order changes; otherwise the change is told.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.moving.kernels.zone_scores import Floats, Form, Ints, Rows, value
from rankcast.moving.kernels.zone_search import Zones
from rankcast.structures.distance import distance
from rankcast.structures.jit import EXACT

Bools = NDArray[np.bool_]
Flags = NDArray[np.int8]

SAME, TURNED, OUTSIDE = range(3)


class Held(NamedTuple):
    """Zones by subscription: centre, radius, reach, and where the members lie, with room for how many."""

    x: Floats
    y: Floats
    radius: Floats
    reach: Floats
    start: Ints
    count: Ints  # type: ignore[assignment]
    room: Ints
    member: Rows


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
def _sort(scores: Floats, items: Rows, size: int, k: int, label: Ints) -> bool:
    """Sort items by score, then label; return whether one from behind the first k came among them."""
    crossed = False
    for i in range(1, size):
        score, item, at = scores[i], items[i], i
        while at > 0 and (
            scores[at - 1] > score or (scores[at - 1] == score and label[items[at - 1]] > label[item])
        ):
            scores[at], items[at] = scores[at - 1], items[at - 1]
            at -= 1
        scores[at], items[at] = score, item
        crossed |= i >= k > at
    return crossed


@njit(**EXACT)
def _crosses(scores: Floats, items: Rows, size: int, k: int, label: Ints) -> bool:
    """Whether one from behind the first k comes before one of them."""
    worst = 0
    for j in range(1, k):
        if scores[j] > scores[worst] or (
            scores[j] == scores[worst] and label[items[j]] > label[items[worst]]
        ):
            worst = j
    for j in range(k, size):
        if scores[j] < scores[worst] or (
            scores[j] == scores[worst] and label[items[j]] < label[items[worst]]
        ):
            return True
    return False


@njit(**EXACT)
def _settled(member: Rows, start: int, scores: Floats, k: int, label: Ints, ordered: bool) -> bool:
    """Whether members with these scores leave the result as it is; if `ordered`, they are put in order."""
    size = scores.size
    if not ordered:
        return not _crosses(scores, member[start : start + size], size, k, label)
    items = member[start : start + size].copy()
    if _sort(scores, items, size, k, label):
        return False
    member[start : start + size] = items
    return True


@njit(**EXACT)
def follow(
    form: Form,
    record: Floats,
    label: Ints,
    held: Held,
    rows: Rows,
    places: tuple[Floats, Floats],
    k: Ints,
    ordered: bool,
) -> Flags:
    """Follow queries to new places: SAME result, TURNED (another result inside the zone), or OUTSIDE of it.

    If `ordered`, members of a result that stays the same are brought in order; otherwise nothing changes.
    Members in order as they stand, as most are after a small step, need nothing more.
    """
    x, y = places
    centre_x, centre_y, radius, starts = held.x, held.y, held.radius, held.start
    count, member, metric = held.count, held.member, form.metric
    flags = np.empty(rows.size, np.int8)
    scores = np.empty(0)
    for i in range(rows.size):
        row, at_x, at_y = rows[i], x[i], y[i]
        if distance(metric, centre_x[row], centre_y[row], at_x, at_y) > radius[row]:
            flags[i] = OUTSIDE
            continue
        size, start = count[row], starts[row]
        flags[i] = SAME
        if not ordered and size <= k[i]:
            continue
        if size != scores.size:
            scores = np.empty(size)
        rises, last = True, -np.inf
        for j in range(size):
            o = member[start + j]
            d = distance(metric, at_x, at_y, record[o, 0], record[o, 1])
            scores[j] = value(form, record[o, 2], record[o, 3], d)
            rises &= scores[j] > last
            last = scores[j]
        if not rises and not _settled(member, start, scores, k[i], label, ordered):
            flags[i] = TURNED
    return flags


@njit(**EXACT)
def settle(
    label: Ints, held: Held, rows: Rows, starts: Ints, scores: Floats, k: Ints, ordered: bool
) -> Flags:
    """The same as `follow` for queries inside their zones, with the scores of their members given."""
    first, member = held.start, held.member
    flags = np.empty(rows.size, np.int8)
    for i in range(rows.size):
        mine = scores[starts[i] : starts[i + 1]]
        flags[i] = SAME if _settled(member, first[rows[i]], mine, k[i], label, ordered) else TURNED
    return flags


@njit(**EXACT)
def rescored(count: Ints, rows: Rows, flags: Flags, k: Ints, ordered: bool) -> int:
    """How many scores of members `follow` had to compute."""
    total = 0
    for i in range(rows.size):
        size = count[rows[i]]
        if flags[i] != OUTSIDE and (ordered or size > k[i]):
            total += size
    return total


@njit(**EXACT)
def inside(
    metric: int, circles: tuple[Floats, Floats, Floats], rows: Rows, places: tuple[Floats, Floats]
) -> Bools:
    """Which queries are at places inside their zones, which are circles: x, y, radius by row."""
    centre_x, centre_y, radius = circles
    found = np.empty(rows.size, np.bool_)
    for i in range(rows.size):
        row = rows[i]
        found[i] = distance(metric, centre_x[row], centre_y[row], places[0][i], places[1][i]) <= radius[row]
    return found


@njit(**EXACT)
def members_at(
    metric: int, record: Floats, held: Held, rows: Rows, places: tuple[Floats, Floats], starts: Ints
) -> tuple[Rows, Floats]:
    """The first `starts[i + 1] - starts[i]` members of each zone, and their distances from the places."""
    begin, member = held.start, held.member
    items, away = np.empty(starts[-1], np.int32), np.empty(starts[-1])
    for i in range(rows.size):
        first = begin[rows[i]] - starts[i]
        for j in range(starts[i], starts[i + 1]):
            o = member[first + j]
            items[j] = o
            away[j] = distance(metric, places[0][i], places[1][i], record[o, 0], record[o, 1])
    return items, away


@njit(**EXACT)
def scores_of(form: Form, record: Floats, items: Rows, away: Floats) -> Floats:
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
        _sort(score[begin:end], item[begin:end], end - begin, end - begin, label)
        for j in range(begin, end):
            owner[j], rank[j] = rows[i], j - begin + 1


@njit(**EXACT)
def lists(held: Held, rows: Rows, objects: Rows) -> Bools:
    """Which zones have the object beside them as a member."""
    found = np.zeros(rows.size, np.bool_)
    for i in range(rows.size):
        start = held.start[rows[i]]
        for j in range(start, start + held.count[rows[i]]):
            found[i] |= held.member[j] == objects[i]
    return found


@njit(**EXACT)
def store(held: Held, rows: Rows, zones: Zones, used: int) -> int:
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
def compact(held: Held, member: Rows) -> int:
    """Write all members one after the other into `member`, without gaps; return how much that is."""
    used = 0
    for row in range(held.count.size):
        size, start = held.count[row], held.start[row]
        member[used : used + size] = held.member[start : start + size]
        held.start[row], held.room[row] = used, size
        used += size
    return used
