"""Following queries inside the zones of their skylines, and finding the zones that a changed object breaks.

A position strictly inside its zone costs a test against a few edges and no index access; the skyline there
is the one of the zone. In other metrics than the euclidean a zone is a circle, and inside it the skyline is
that of its members.

An object that comes breaks a zone only if it is in the skyline somewhere in the zone, against the skyline of
the zone: whatever is dominated everywhere in it by others changes nothing [Moving Lemma 4]. The zone of a
query stays as large as can be as well: where the skyline differs, it differs with the object too, unless
the object is all that is added. One that goes, or was another before, breaks the zones that have it as a
result, and those that it bounds, which may now grow; both have it as a member.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.convex import Floats, Ints, Region, copied, region_for
from rankcast.kernels.distance import EUCLIDEAN, distance
from rankcast.kernels.options import EXACT
from rankcast.kernels.rtree import Rtree
from rankcast.kernels.skyline_cells import EVERYWHERE, cell_cuts, needed_cuts
from rankcast.kernels.skyline_impact import GIVE, impact_box
from rankcast.kernels.skyline_search import PLACE, fuzz_of, lead_of, room_for

Bools = NDArray[np.bool_]
Rows = NDArray[np.int32]

FEW = 4
FEW_ZONES = 50


class Kept(NamedTuple):
    """Zones by subscription: centre, radius, how many of the members are results; members and corners."""

    x: Floats
    y: Floats
    radius: Floats
    result: Ints
    start: Ints
    count: Ints  # type: ignore[assignment]
    member: Rows
    corner: Ints
    corners: Ints
    corner_x: Floats
    corner_y: Floats
    line: Ints


@njit(**EXACT)
def _in_pieces(x: float, y: float, edges: tuple[Floats, Floats, Ints], begin: int, end: int) -> bool:
    """Whether a place relative to the centre is in one of the pieces, their edges included."""
    corner_x, corner_y, line = edges
    first, inside = begin, True
    for i in range(begin, end):
        last = line[i] < 0
        j = first if last else i + 1
        ax, ay = corner_x[i], corner_y[i]
        inside &= (corner_x[j] - ax) * (y - ay) - (corner_y[j] - ay) * (x - ax) >= 0.0
        if last:
            if inside:
                return True
            first, inside = i + 1, True
    return False


@njit(**EXACT)
def inside(metric: int, kept: Kept, rows: Rows, x: Floats, y: Floats) -> Bools:
    """Which queries are inside their zones at places; where the zone was found from, they always are."""
    centre_x, centre_y, radius, corner, corners = kept.x, kept.y, kept.radius, kept.corner, kept.corners
    edges = (kept.corner_x, kept.corner_y, kept.line)
    found = np.empty(rows.size, np.bool_)
    for i in range(rows.size):
        row = rows[i]
        if metric == EUCLIDEAN:
            dx, dy = x[i] - centre_x[row], y[i] - centre_y[row]
            begin = corner[row]
            found[i] = _in_pieces(dx, dy, edges, begin, begin + corners[row]) or (dx == 0.0 and dy == 0.0)
        else:
            found[i] = distance(metric, centre_x[row], centre_y[row], x[i], y[i]) <= radius[row]
    return found


@njit(**EXACT)
def as_good(record: Floats, one: int, other: int) -> int:
    """0 if one object is worse than another in an attribute, 1 if as good in all, 2 if better in one too."""
    found = 1
    for a in range(PLACE, record.shape[1]):
        if record[one, a] > record[other, a]:
            return 0
        if record[one, a] < record[other, a]:
            found = 2
    return found


@njit(**EXACT)
def _sort(score: Floats, item: Rows, label: Ints) -> None:
    """Sort items by score, then label, in place; cheap if they almost are."""
    for i in range(1, item.size):
        s, o, at = score[i], item[i], i
        while at > 0 and (score[at - 1] > s or (score[at - 1] == s and label[item[at - 1]] > label[o])):
            score[at], item[at] = score[at - 1], item[at - 1]
            at -= 1
        score[at], item[at] = s, o


@njit(**EXACT)
def _undominated(record: Floats, score: Floats, item: Rows) -> int:
    """Keep, in place, the sorted items that none of them dominates; returns how many those are."""
    kept, out = 0, np.zeros(item.size, np.bool_)
    for i in range(item.size):
        for j in range(item.size):
            if score[j] > score[i] or out[i]:
                break
            compared = as_good(record, item[j], item[i])
            out[i] = compared == 2 or (compared == 1 and score[j] < score[i])
    for i in range(item.size):
        if not out[i]:
            score[kept], item[kept] = score[i], item[i]
            kept += 1
    return kept


@njit(**EXACT)
def read_results(
    metric: int, record: Floats, label: Ints, kept: Kept, rows: Rows, x: Floats, y: Floats
) -> tuple[Rows, Rows, Floats, Ints]:
    """The results of subscriptions at places inside their zones: whose, items, distances, ranks."""
    start, member, result, count = kept.start, kept.member, kept.result, kept.count
    euclidean = metric == EUCLIDEAN
    total = 0
    for i in range(rows.size):
        total += result[rows[i]] if euclidean else count[rows[i]]
    owner, item, score = np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total)
    rank, used = np.empty(total, np.int64), 0
    for i in range(rows.size):
        row = rows[i]
        size = result[row] if euclidean else count[row]
        for j in range(size):
            o = member[start[row] + j]
            item[used + j] = o
            score[used + j] = distance(metric, x[i], y[i], record[o, 0], record[o, 1])
        _sort(score[used : used + size], item[used : used + size], label)
        if not euclidean:
            size = _undominated(record, score[used : used + size], item[used : used + size])
        for j in range(size):
            owner[used + j], rank[used + j] = row, j + 1
        used += size
    return owner[:used], item[:used], score[:used], rank[:used]


@njit(**EXACT)
def mark_listing(kept: Kept, rows: Rows, objects: Rows, wanted: Bools, marked: Bools) -> None:
    """Mark the zones, of some subscriptions, that have one of the objects as a member. Cost: O(members).

    `wanted` says by row whether an object is one of them; a few objects are compared one by one, which is
    far quicker.
    """
    start, count, member = kept.start, kept.count, kept.member
    for row in rows:
        begin, end, found = start[row], start[row] + count[row], 0
        if objects.size <= FEW:
            for o in objects:
                for j in range(begin, end):
                    found += member[j] == o
        else:
            for j in range(begin, end):
                found += wanted[member[j]]
        marked[row] |= found > 0


@njit(**EXACT)
def _meets(record: Floats, kept: Kept, row: int, o: int, away: float) -> bool:
    """Whether the cell of an object meets a zone."""
    x, y, first, size = kept.x[row], kept.y[row], kept.start[row], kept.result[row]
    spot, far = np.empty((size, 2)), np.empty(size)
    attribute, one = np.empty((size, record.shape[1] - PLACE)), np.empty((1, record.shape[1] - PLACE))
    for a in range(one.shape[1]):
        one[0, a] = record[o, PLACE + a]
    for j in range(size):
        s = kept.member[first + j]
        spot[j, 0], spot[j, 1] = record[s, 0] - x, record[s, 1] - y
        far[j] = distance(EUCLIDEAN, x, y, record[s, 0], record[s, 1])
        for a in range(one.shape[1]):
            attribute[j, a] = record[s, PLACE + a]
    here = (record[o, 0] - x, record[o, 1] - y, away)
    cuts, begin, all_ends = np.empty((16, 3)), kept.corner[row], kept.corner[row] + kept.corners[row]
    held = Region(kept.corner_x, kept.corner_y, kept.line, kept.corner)
    for end in range(begin + 1, all_ends + 1):
        if kept.line[end - 1] >= 0:
            continue
        piece = region_for(end - begin, 1)
        piece.end[0] = copied(held, begin, end, piece, 0)
        lines, cuts, _ = cell_cuts(here, one, (spot, far, attribute), piece, kept.radius[row], cuts)
        if lines > 0:
            lines = needed_cuts(piece, cuts, lines)
        if lines >= EVERYWHERE:
            return True
        begin = end
    return False


@njit(**EXACT)
def _breaks(metric: int, record: Floats, kept: Kept, row: int, o: int) -> bool:
    """Whether an object that is no member may be in the skyline somewhere in a zone."""
    x, y, fuzz = kept.x[row], kept.y[row], fuzz_of(metric)
    if metric == EUCLIDEAN and kept.corners[row] == 0:
        return True
    away = distance(metric, x, y, record[o, 0], record[o, 1])
    first, dominated = kept.start[row], False
    for j in range(first, first + kept.result[row]):
        s = kept.member[j]
        near = distance(metric, x, y, record[s, 0], record[s, 1])
        lead = lead_of(near, away, fuzz)
        if lead <= 0.0:
            break
        if as_good(record, s, o) > 0:
            if lead >= 2 * kept.radius[row]:
                return False
            dominated = True
            break
    return not dominated or metric != EUCLIDEAN or _meets(record, kept, row, o, away)


@njit(**EXACT)
def _may_hear(kept: Kept, row: int, around: Floats, lower: Floats, upper: Floats) -> bool:
    """Whether a zone reaches into a box around an impact region; with a filter, that is not the region."""
    x, y, radius = kept.x[row], kept.y[row], kept.radius[row] * (1 + GIVE)
    filtered = kept.corners[row] == 0
    for a in range(lower.shape[1]):
        filtered |= lower[row, a] > -np.inf or upper[row, a] < np.inf
    apart = x + radius < around[0] or x - radius > around[2]
    return filtered or not (apart or y + radius < around[1] or y - radius > around[3])


@njit(**EXACT)
def mark_broken(
    metric: int,
    places: tuple[Rtree, Floats, Floats],
    kept: Kept,
    rows: Rows,
    objects: Rows,
    filters: tuple[Floats, Floats],
    marked: Bools,
) -> None:
    """Mark the zones, of some subscriptions, that objects break which are no members.

    `places` are the tree and the records of objects, and the universe; `filters` those of subscriptions.
    Of many zones in the plane, those are looked at that are near the impact region of the object.
    """
    tree, record, universe = places
    lower, upper = filters
    room, around, many = room_for(tree), np.empty(4), metric == EUCLIDEAN and rows.size > FEW_ZONES
    for o in objects:
        if many:
            impact_box(tree, room, record, o, universe, around)
        for row in rows:
            if marked[row] or (many and not _may_hear(kept, row, around, lower, upper)):
                continue
            passes = True
            for a in range(lower.shape[1]):
                passes &= lower[row, a] <= record[o, PLACE + a] <= upper[row, a]
            marked[row] = passes and _breaks(metric, record, kept, row, o)
