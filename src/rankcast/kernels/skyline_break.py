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

from rankcast.kernels.convex import Floats, Region, copied, region_for
from rankcast.kernels.distance import EUCLIDEAN, distance
from rankcast.kernels.options import EXACT
from rankcast.kernels.rtree import Rtree
from rankcast.kernels.skyline_cells import EVERYWHERE, cell_cuts, needed_cuts
from rankcast.kernels.skyline_follow import Kept, Rows, as_good
from rankcast.kernels.skyline_impact import GIVE, impact_box
from rankcast.kernels.skyline_search import PLACE, fuzz_of, lead_of, room_for

Bools = NDArray[np.bool_]

FEW = 4
FEW_ZONES = 50


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
