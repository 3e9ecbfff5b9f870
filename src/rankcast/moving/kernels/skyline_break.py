"""Finding the zones of skylines that a changed object breaks.

An object that comes breaks a zone only if it is in the skyline somewhere in the zone, against the skyline of
the zone: whatever is dominated everywhere in it by others changes nothing [Moving Lemma 4]. The zone of a
query stays as large as can be as well: where the skyline differs, it differs with the object too, unless
the object is all that is added. One that goes, or was another before, breaks the zones that have it as a
result, and those that it bounds, which may now grow; both have it as a member.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.moving.kernels.convex import FIRST, ONE, Floats, Region, copied, region_for
from rankcast.moving.kernels.rtree import Rtree
from rankcast.moving.kernels.skyline_cells import EVERYWHERE, cell_cuts, needed_cuts
from rankcast.moving.kernels.skyline_follow import Kept, Rows, as_good, results_from
from rankcast.moving.kernels.skyline_impact import GIVE, impact_box
from rankcast.moving.kernels.skyline_search import PLACE, fuzz_of, lead_of, room_for
from rankcast.structures.distance import EUCLIDEAN, distance
from rankcast.structures.jit import EXACT

Bools = NDArray[np.bool_]

FEW = 4
FEW_ZONES = 50


@njit(**EXACT)
def mark_listing(metric: int, kept: Kept, rows: Rows, objects: Rows, among: int, marked: Bools) -> None:
    """Mark the zones, of some subscriptions, that have one of the objects, of `among` rows, as a member.

    In the plane also those that are but points: they may grow with any change. Cost: O(members); a few
    objects are compared one by one, which is far quicker than to look up whether a member is one of them.
    """
    start, count, member, corners = kept.start, kept.count, kept.member, kept.corners
    wanted = np.zeros(among if objects.size > FEW else 0, np.bool_)
    if wanted.size:
        wanted[objects] = True
    for row in rows:
        mine, found = member[start[row] : start[row] + count[row]], metric == EUCLIDEAN and corners[row] == 0
        if objects.size <= FEW:
            for o in objects:
                for each in mine:
                    found |= each == o
        else:
            for each in mine:
                found |= wanted[each]
        marked[row] |= found


@njit(**EXACT)
def _meets(record: Floats, kept: Kept, row: int, o: int, away: float) -> bool:
    """Whether the cell of an object meets a zone."""
    x, y, one = kept.x[row], kept.y[row], record[o : o + 1, PLACE:].copy()
    _, spot, far, attribute = results_from(record, kept, row, x, y)
    here = (record[o, 0] - x, record[o, 1] - y, away)
    cuts, begin, all_ends = np.empty((16, 3)), kept.corner[row], kept.corner[row] + kept.corners[row]
    held = Region(kept.corner_x, kept.corner_y, kept.line, kept.corner)
    for end in range(begin + 1, all_ends + 1):
        if kept.line[end - 1] >= 0:
            continue
        piece = region_for(end - begin, ONE)
        piece.end[0] = copied(held, begin, end, piece, FIRST)
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
def _near(
    kept: Kept, rows: Rows, around: Floats, filters: tuple[Floats, Floats], one: Floats, found: Rows
) -> int:
    """Write the subscriptions whose zones may hear of an object to `found`; returns how many.

    Their filters let its attributes `one` pass, and their zones reach into a box around its impact region,
    unless they are but points; with a filter, that is not the region.
    """
    centre_x, centre_y, radii, corners = kept.x, kept.y, kept.radius, kept.corners
    lower, upper = filters
    low_x, low_y, high_x, high_y, size = around[0], around[1], around[2], around[3], 0
    for row in rows:
        passes, everywhere = True, corners[row] == 0
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
    room, around, found = room_for(tree), np.array([-np.inf, -np.inf, np.inf, np.inf]), np.empty_like(rows)
    for o in objects:
        if metric == EUCLIDEAN and rows.size > FEW_ZONES:
            impact_box(tree, room, record, o, universe, around)
        for i in range(_near(kept, rows, around, filters, record[o, PLACE:], found)):
            row = found[i]
            if not marked[row]:
                marked[row] = _breaks(metric, record, kept, row, o)
