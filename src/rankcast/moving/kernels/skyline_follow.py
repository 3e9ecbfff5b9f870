"""Following queries inside the zones of their skylines, and finding the zones that a changed object breaks.

Beside its zone a query has a disc: where it was when its edges were last looked at, and how far the nearest
edge of the piece around it was, squared. A position in the disc is inside the zone: one comparison. One that
is not is held against the edges, and if it is inside, the disc moves there. So a query that drives through
its zone looks at edges a few times only, the more often the nearer it is to leaving. Inside a zone the
skyline is the one of the zone, and no index is looked at.

In other metrics than the euclidean a zone is a circle, and inside it the skyline is that of its members.

Zones that a changed object breaks (`mark_broken`, `mark_listing`). An object that comes breaks a zone only
if it is in the skyline somewhere in the zone, against the skyline of the zone: whatever is dominated
everywhere in it by others changes nothing [Moving Lemma 4]. The zone of a query stays as large as can be as
well: where the skyline differs, it differs with the object too, unless the object is all that is added. One
that goes, or was another before, breaks the zones that have it as a result. Those that it bounds are as safe
as before: they may only grow, and are found anew when somebody wants to see them, not before (`loosen`).

The impact region of an object is found by a search around it. The region is the Voronoi cell of the object
among everything that is as good in each attribute [Moving §3.2]. Rivals come by their distance from the
object, blocks only if their best corner is as good; a bisector is half as far away as its rival, so the
search ends beyond twice the farthest corner of the cell so far. Cuts give way for rounding, so that outside
of the cell the object is certainly in no computed skyline. Cost: a handful of blocks, unless few objects are
as good: then the cell is large, and so is its effect.
"""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.moving.kernels.convex import (
    FIRST,
    MANY,
    ONE,
    Floats,
    Ints,
    Region,
    box,
    clip,
    copied,
    radius_of,
    region_for,
    roomy,
)
from rankcast.moving.kernels.rtree import BRANCH, Rtree, root_of
from rankcast.moving.kernels.rtree_search import HEAP, child_distance
from rankcast.moving.kernels.skyline_search import PLACE, Room, fuzz_of, lead_of, room_for
from rankcast.moving.kernels.skyline_zone import EVERYWHERE, STRICT, bisector, cell_cuts, needed_cuts
from rankcast.structures.distance import EUCLIDEAN, distance
from rankcast.structures.heap import pop, push
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
Bools = NDArray[np.bool_]

UNKNOWN = -2  # the owner of an edge that nobody noted
SLACK = 2.0**-40  # of the size of a zone: what a disc is smaller, whatever is rounded


class SkylineZoneColumns(NamedTuple):
    """Zones by subscription: centre, radius, disc (n, 3), how many members are results; members, corners.

    Where `judged` is not 0, so many members, results first, are to be judged at every place in the zone: see
    `rankcast.moving.kernels.skyline_zone`. A `loose` zone may be larger than it is; without corners it is a
    point because nobody wants more.
    """

    x: Floats
    y: Floats
    radius: Floats
    disc: Floats
    result: Ints
    judged: Ints
    loose: Bools
    start: Ints
    count: Ints  # type: ignore[assignment]
    member: Rows
    corner: Ints
    corners: Ints
    corner_x: Floats
    corner_y: Floats
    line: Ints
    owner: Rows


@njit(**EXACT)
def _clearance(x: float, y: float, edges: tuple[Floats, Floats, Ints], begin: int, end: int) -> float:
    """How far inside one of the pieces a place relative to the centre is; negative if it is in none."""
    corner_x, corner_y, line = edges
    first, inside, least = begin, True, np.inf
    for i in range(begin, end):
        last = line[i] < 0
        j = first if last else i + 1
        ax, ay = corner_x[i], corner_y[i]
        dx, dy = corner_x[j] - ax, corner_y[j] - ay
        beside, length = dx * (y - ay) - dy * (x - ax), math.sqrt(dx * dx + dy * dy)
        inside &= beside >= 0.0
        least = min(least, beside / length if length > 0.0 else 0.0)
        if last:
            if inside:
                return least
            first, inside, least = i + 1, True, np.inf
    return -1.0


@njit(**EXACT)
def follow(
    zones: tuple[Any, ...], rows: Rows, places: Floats, place_x: Floats, place_y: Floats
) -> NDArray[np.int64]:
    """Bring queries, each once, to places (2, n) where those are inside their zones; returns which are not.

    Where the zone was found from is always inside. `place_x` and `place_y` by row are where queries are.
    Fields of `SkylineZoneColumns` come as a plain tuple: `rankcast.structures.hashing` says why.
    """
    kept = SkylineZoneColumns(*zones)
    centre_x, centre_y, radius, disc = kept.x, kept.y, kept.radius, kept.disc
    corner, corners, edges = kept.corner, kept.corners, (kept.corner_x, kept.corner_y, kept.line)
    left, size = np.empty(rows.size, np.int64), 0
    for i in range(rows.size):
        row, at_x, at_y = rows[i], places[0, i], places[1, i]
        dx, dy = at_x - disc[row, 0], at_y - disc[row, 1]
        if not dx * dx + dy * dy < disc[row, 2]:
            dx, dy, begin = at_x - centre_x[row], at_y - centre_y[row], corner[row]
            away = _clearance(dx, dy, edges, begin, begin + corners[row])
            if away < 0.0 and not (dx == 0.0 and dy == 0.0):
                left[size] = i
                size += 1
                continue
            away = max(0.0, away - SLACK * radius[row])
            disc[row, 0], disc[row, 1], disc[row, 2] = at_x, at_y, away * away
        place_x[row], place_y[row] = at_x, at_y
    return left[:size].copy()


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
def results_from(
    record: Floats, kept: SkylineZoneColumns, row: int, x: float, y: float
) -> tuple[Rows, Floats, Floats, Floats]:
    """The results of a zone as seen from a place, by distance: rows, places, distances, attributes.

    Places (n, 4) are relative to that place, then as they are.
    """
    first, size = kept.start[row], kept.result[row]
    rows, away = np.empty(size, np.int32), np.empty(size)
    for j in range(size):
        o, at = kept.member[first + j], j
        far = distance(EUCLIDEAN, x, y, record[o, 0], record[o, 1])
        while at > 0 and away[at - 1] > far:
            away[at], rows[at] = away[at - 1], rows[at - 1]
            at -= 1
        away[at], rows[at] = far, o
    spot, attribute = np.empty((size, 4)), np.empty((size, record.shape[1] - PLACE))
    for j in range(size):
        o = rows[j]
        spot[j, 0], spot[j, 1] = record[o, 0] - x, record[o, 1] - y
        spot[j, 2], spot[j, 3] = record[o, 0], record[o, 1]
        for a in range(attribute.shape[1]):
            attribute[j, a] = record[o, PLACE + a]
    return rows, spot, away, attribute


@njit(**EXACT)
def _sort(score: Floats, item: Rows, label: Ints) -> None:
    """Sort items by score, then label, in place; cheap if they almost are, or are many."""
    if item.size > MANY_ITEMS:
        by_label = np.argsort(label[item], kind="mergesort")
        order = by_label[np.argsort(score[by_label], kind="mergesort")]
        score[:], item[:] = score[order], item[order]
        return
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
        if i > 0 and score[i] == score[i - 1] and as_good(record, item[i], item[i - 1]) == 1:
            out[i] = out[i - 1]  # equals fare alike
            continue
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
    metric: int, record: Floats, label: Ints, kept: SkylineZoneColumns, rows: Rows, x: Floats, y: Floats
) -> tuple[Rows, Rows, Floats, Ints]:
    """The results of subscriptions at places inside their zones: whose, items, distances, ranks."""
    start, member, result, count = kept.start, kept.member, kept.result, kept.count
    judged, total = kept.judged, 0
    plain = np.empty(rows.size, np.bool_)
    for i in range(rows.size):
        plain[i] = metric == EUCLIDEAN and judged[rows[i]] == 0
        total += result[rows[i]] if plain[i] else count[rows[i]]
    owner, item, score = np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total)
    rank, used = np.empty(total, np.int64), 0
    for i in range(rows.size):
        row = rows[i]
        size = result[row] if plain[i] else judged[row] if metric == EUCLIDEAN else count[row]
        for j in range(size):
            o = member[start[row] + j]
            item[used + j] = o
            score[used + j] = distance(metric, x[i], y[i], record[o, 0], record[o, 1])
        _sort(score[used : used + size], item[used : used + size], label)
        if not plain[i]:
            size = _undominated(record, score[used : used + size], item[used : used + size])
        for j in range(size):
            owner[used + j], rank[used + j] = row, j + 1
        used += size
    return owner[:used], item[:used], score[:used], rank[:used]


MANY_ITEMS = 64  # for which sorting by insertion is too slow
GIVE = 1e-9  # of its size: what a box around a cell is larger


@njit(**EXACT)
def _push_children(tree: Rtree, room: Room, record: Floats, o: int, block: int) -> None:
    """Put the children of a block on the heap that may hold something as good as an object."""
    low, x, y = tree.low, record[o, 0], record[o, 1]
    for slot in range(np.int64(tree.width[block])):
        worse = False
        for a in range(PLACE, record.shape[1]):
            worse |= low[block, a, slot] > record[o, a]
        if not worse:
            key = child_distance(low, tree.high, EUCLIDEAN, x, y, block, slot)
            room.size[HEAP] = push(room.key, room.entry, room.size[HEAP], key, block * BRANCH + slot)


@njit(**EXACT)
def _push_points(tree: Rtree, room: Room, record: Floats, o: int, leaf: int) -> None:
    """Put the objects of a leaf on the heap that are as good as an object."""
    point, x, y = tree.point, record[o, 0], record[o, 1]
    for slot in range(BRANCH):
        row = np.int64(tree.row[leaf, slot])
        worse = row < 0 or row == o
        for a in range(PLACE, record.shape[1]):
            worse |= point[leaf, a, slot] > record[o, a]
        if not worse:
            key = distance(EUCLIDEAN, x, y, point[leaf, 0, slot], point[leaf, 1, slot])
            room.size[HEAP] = push(room.key, room.entry, room.size[HEAP], key, ~row)


@njit(**EXACT)
def _better(record: Floats, one: int, other: int) -> bool:
    """Whether one object is better than another in an attribute."""
    better = False
    for a in range(PLACE, record.shape[1]):
        better |= record[one, a] < record[other, a]
    return better


@njit(**EXACT)
def _cell(tree: Rtree, room: Room, record: Floats, o: int, universe: Floats) -> tuple[Region, int]:
    """The impact region of an object relative to its place, and how many corners it has."""
    x, y, size = record[o, 0], record[o, 1], room.size
    one, two = region_for(MANY, ONE), region_for(MANY, ONE)
    corners = box(one, universe[0] - x, universe[1] - y, universe[2] - x, universe[3] - y)
    radius = radius_of(one, corners)
    size[HEAP] = 0
    for layer in range(tree.count.size):
        if tree.count[layer] > 0:
            _push_children(tree, room, record, o, root_of(tree, layer))
    while size[HEAP] > 0 and corners > 0 and room.key[0] <= 2 * radius:
        entry, size[HEAP] = room.entry[0], pop(room.key, room.entry, size[HEAP])
        if entry >= 0:
            first = np.int64(tree.first[entry // BRANCH])
            if first >= 0:
                _push_points(tree, room, record, o, first + entry % BRANCH)
            else:
                _push_children(tree, room, record, o, ~first + entry % BRANCH)
            continue
        sx, sy = record[~entry, 0] - x, record[~entry, 1] - y
        if sx == 0.0 and sy == 0.0:
            corners = 0 if _better(record, ~entry, o) else corners
            continue
        nx, ny, c, margin = bisector(0.0, 0.0, sx, sy, radius)
        two = roomy(two, corners + 1, ONE)
        corners = clip(one, FIRST, corners, (nx, ny, c + margin, FIRST), two, FIRST)
        one, two = two, one
        radius = radius_of(one, corners)
    return one, corners


@njit(**EXACT)
def impact_box(tree: Rtree, room: Room, record: Floats, o: int, universe: Floats, out: Floats) -> None:
    """Write a box (xmin, ymin, xmax, ymax) around the impact region of an object, inverted if it is empty."""
    cell, corners = _cell(tree, room, record, o, universe)
    out[0], out[1], out[2], out[3] = np.inf, np.inf, -np.inf, -np.inf
    for i in range(corners):
        out[0], out[1] = min(out[0], cell.x[i]), min(out[1], cell.y[i])
        out[2], out[3] = max(out[2], cell.x[i]), max(out[3], cell.y[i])
    give = GIVE * radius_of(cell, corners)
    out[0], out[1] = out[0] + record[o, 0] - give, out[1] + record[o, 1] - give
    out[2], out[3] = out[2] + record[o, 0] + give, out[3] + record[o, 1] + give


FEW = 4
FEW_ZONES = 50


@njit(**EXACT)
def mark_listing(
    kept: SkylineZoneColumns,
    rows: Rows,
    objects: Rows,
    sizes: tuple[int, int],
    euclidean: bool,
    marked: Bools,
    loosened: Bools,
) -> None:
    """Mark the zones, of some subscriptions, that have one of the objects as a member.

    In the plane those that have it as a result, or judge it, are `marked`, and those that it but bounds
    `loosened`. `sizes` are how many rows objects have, and how often all zones list these objects: then there
    are no more. Cost: O(members); a few objects are compared one by one, which is far quicker than to look up
    whether a member is one of them.
    """
    start, count, member, left = kept.start, kept.count, kept.member, sizes[1]
    wanted = np.zeros(sizes[0] if objects.size > FEW else 0, np.bool_)
    if wanted.size:
        wanted[objects] = True
    for row in rows:
        first, size = start[row], count[row]
        held = min(size, max(kept.result[row], kept.judged[row])) if euclidean else size
        inner, outer = 0, 0
        if objects.size <= FEW:
            for o in objects:
                for each in member[first : first + held]:
                    inner += each == o
                for each in member[first + held : first + size]:
                    outer += each == o
        else:
            for each in member[first : first + held]:
                inner += wanted[each]
            for each in member[first + held : first + size]:
                outer += wanted[each]
        marked[row] |= inner > 0
        loosened[row] |= outer > 0
        left -= inner + outer
        if left <= 0:
            return


@njit(**EXACT)
def loosen(kept: SkylineZoneColumns, rows: Rows, objects: Rows) -> None:
    """Take objects that go out of the members of zones that they but bound; their edges are nobody's then."""
    count, member, owner = kept.count, kept.member, kept.owner
    for row in rows:
        first, at = kept.start[row], kept.start[row]
        for j in range(first, first + count[row]):
            gone = False
            for o in objects:
                gone |= member[j] == o
            if not gone:
                member[at] = member[j]
                at += 1
        count[row] = at - first
        for j in range(kept.corner[row], kept.corner[row] + kept.corners[row]):
            for o in objects:
                if owner[j] == o:
                    owner[j] = UNKNOWN


@njit(**EXACT)
def _meets(record: Floats, kept: SkylineZoneColumns, row: int, o: int, away: float) -> bool:
    """Whether the cell of an object meets a zone."""
    x, y, one = kept.x[row], kept.y[row], record[o : o + 1, PLACE:].copy()
    _, spot, far, attribute = results_from(record, kept, row, x, y)
    here = (record[o, 0] - x, record[o, 1] - y, away, record[o, 0], record[o, 1])
    cuts, begin, all_ends = np.empty((16, 3)), kept.corner[row], kept.corner[row] + kept.corners[row]
    held = Region(kept.corner_x, kept.corner_y, kept.line, kept.corner)
    for end in range(begin + 1, all_ends + 1):
        if kept.line[end - 1] >= 0:
            continue
        piece = region_for(end - begin, ONE)
        piece.end[0] = copied(held, begin, end, piece, FIRST)
        lines, cuts, _, _ = cell_cuts(
            here, one, (spot, far, attribute), piece, kept.radius[row], STRICT, cuts
        )
        if lines > 0:
            lines = needed_cuts(piece, cuts, lines)
        if lines >= EVERYWHERE:
            return True
        begin = end
    return False


@njit(**EXACT)
def _breaks(metric: int, record: Floats, kept: SkylineZoneColumns, row: int, o: int) -> bool:
    """Whether an object that is no member may be in the skyline somewhere in a zone."""
    x, y, fuzz = kept.x[row], kept.y[row], fuzz_of(metric)
    if metric == EUCLIDEAN and kept.corners[row] == 0 and not kept.loose[row]:
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
def _near(
    kept: SkylineZoneColumns,
    rows: Rows,
    around: Floats,
    filters: tuple[Floats, Floats],
    one: Floats,
    found: Rows,
) -> int:
    """Write the subscriptions whose zones may hear of an object to `found`; returns how many.

    Their filters let its attributes `one` pass, and their zones reach into a box around its impact region,
    unless they are but points; with a filter, that is not the region.
    """
    centre_x, centre_y, radii, corners = kept.x, kept.y, kept.radius, kept.corners
    lower, upper = filters
    low_x, low_y, high_x, high_y, size = around[0], around[1], around[2], around[3], 0
    for row in rows:
        passes, everywhere = True, corners[row] == 0 and not kept.loose[row]
        for a in range(one.size):
            passes &= lower[row, a] <= one[a] <= upper[row, a]
            everywhere |= lower[row, a] > -np.inf or upper[row, a] < np.inf
        x, y, radius = centre_x[row], centre_y[row], radii[row] * (1 + GIVE)
        apart = x + radius < low_x or x - radius > high_x or y + radius < low_y or y - radius > high_y
        if passes and (everywhere or not apart):
            found[size] = row
            size += 1
    return size


@njit(**EXACT)
def mark_broken(
    metric: int,
    places: tuple[Rtree, Floats, Floats],
    kept: SkylineZoneColumns,
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
    room, around, found = room_for(tree), np.array([-np.inf, -np.inf, np.inf, np.inf]), np.empty_like(rows)
    for o in objects:
        if metric == EUCLIDEAN and rows.size > FEW_ZONES:
            impact_box(tree, room, record, o, universe, around)
        for i in range(_near(kept, rows, around, filters, record[o, PLACE:], found)):
            row = found[i]
            if not marked[row]:
                marked[row] = _breaks(metric, record, kept, row, o)
