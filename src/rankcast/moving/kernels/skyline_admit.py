"""Safe zones of skylines: found for many queries, and repaired when a new object breaks them.

`find_zones` finds the zones of queries, one behind the other. `admit` repairs a broken zone from the zone
and its skyline, without a look at other objects.

Let Z be the zone of a query with the skyline S, and o an object that comes. Everywhere in Z the skyline was
S, so what it is now is a matter of o and S alone.

If something in S dominates o at the query, the skyline stays S. Then the new zone is Z without the cell of
o, the part that holds the query. Nothing is added to it: where the skyline was not S it is not S now, with o
in it or without.

Otherwise the new skyline is S with o and without those that o dominates. In Z it is that wherever every pair
of o and an s in S, one as good as the other, stands as it does at the query: o nearer than an s that is as
good, or that is to stay out; an s that is to stay in nearer than o. These are half-planes. Beyond an edge of
Z somebody who was not in S comes in, or somebody of S leaves: the owner of the edge. That is a change still,
unless o dominates the owner there. So if no edge that is left has a point where o is as good as its owner
and nearer, the new zone is what the half-planes leave of Z. Else it may be larger, and has to be found anew.

Places are relative to the query as it is now. Cuts give way for rounding
(`rankcast.moving.kernels.skyline_zone`). Cost: O(|S|) and a clip for each bisector nearby.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.moving.kernels.convex import (
    FIRST,
    MANY,
    ONE,
    SOME,
    Floats,
    Ints,
    Region,
    box,
    clip_all,
    copied,
    keep_part,
    radius_of,
    region_for,
    roomy,
    subtract,
)
from rankcast.moving.kernels.rtree import Rtree
from rankcast.moving.kernels.scores import PLANE_FUZZ
from rankcast.moving.kernels.skyline_follow import UNKNOWN, Rows, SkylineZoneColumns, as_good, results_from
from rankcast.moving.kernels.skyline_search import (
    NODES,
    PLACE,
    TRIED,
    Seekers,
    find_skyline,
    lead_of,
    room_for,
    with_twins,
)
from rankcast.moving.kernels.skyline_zone import (
    EVERYWHERE,
    NEVER,
    STRICT,
    UNIVERSE_LINES,
    bisector,
    carve,
    cell_cuts,
    circle,
    compare,
    needed_cuts,
    owned,
)
from rankcast.structures.distance import EUCLIDEAN, distance
from rankcast.structures.jit import EXACT


class FoundSkylineZones(NamedTuple):
    """Zones of queries: how many results, members (results first, by distance) and corners each has; those.

    Corners are relative to the query; `line` is the line of the edge that begins there, its complement at
    the last corner of a piece, and `owner` the object that comes into the skyline across it, or leaves it
    (-1: none). `cut` says whether the universe bounds the zone; `judged`, how many members, results first,
    have to be judged at every place, 0 if the results hold all over the zone.
    """

    result: Ints
    judged: Ints
    count: Ints  # type: ignore[assignment]
    corners: Ints
    radius: Floats
    cut: NDArray[np.bool_]
    member: Rows
    x: Floats
    y: Floats
    line: Ints
    owner: Rows


class ZoneBuffers(NamedTuple):
    """Members of zones, their corners, and the owners of their edges, with room for more."""

    member: Rows
    shape: Region
    owner: Rows


@njit(**EXACT)
def zone_buffers() -> ZoneBuffers:
    """Nothing yet."""
    return ZoneBuffers(np.empty(64, np.int32), region_for(MANY, ONE), np.empty(64, np.int32))


@njit(**EXACT)
def _added(all_: Rows, used: int, rows: Rows, many: int) -> Rows:
    """Write so many rows behind what is used of an array, which is grown if need be."""
    if used + many > all_.size:
        larger = np.empty(2 * (used + many), np.int32)
        for k in range(used):
            larger[k] = all_[k]
        all_ = larger
    for k in range(many):
        all_[used + k] = rows[k]
    return all_


@njit(**EXACT)
def _owners(region: Region, pieces: int, owner: Ints) -> Rows:
    """The owners of the edges of pieces."""
    found = np.empty(region.end[pieces - 1] if pieces > 0 else 0, np.int32)
    for i in range(found.size):
        found[i] = owner[region.line[i]]
    return found


@njit(**EXACT)
def _others(owners: Rows, results: Rows, many: int) -> tuple[Rows, int]:
    """Those that own edges and are none of so many results, each once, and how many."""
    found, size = np.empty(owners.size, np.int32), 0
    for who in owners:
        known = who < 0
        for j in range(size):
            known |= found[j] == who
        for j in range(0 if known else many):
            known |= results[j] == who
        if not known:
            found[size] = who
            size += 1
    return found, size


@njit(**EXACT)
def _outlined(all_: Region, used: int, region: Region, pieces: int) -> Region:
    """Write the corners of a region behind what is used of another, with complements where pieces end."""
    corners = region.end[pieces - 1]
    all_ = roomy(all_, used + corners, ONE)
    copied(region, FIRST, corners, all_, used)
    for piece in range(pieces):
        last = region.end[piece] - 1
        all_.line[used + last] = ~region.line[last]
    return all_


@njit(**EXACT)
def laid(
    onto: ZoneBuffers,
    used: tuple[int, int],
    results: Rows,
    many: int,
    region: Region,
    pieces: int,
    owner: Ints,
) -> tuple[ZoneBuffers, int, int, bool]:
    """Lay a zone with so many results behind the members and corners that are used of a pile.

    Returns the pile, how many members and corners came, and whether the universe bounds the zone.
    """
    who, cut = _owners(region, pieces, owner), False
    others, more = _others(who, results, many)
    member = _added(onto.member, used[0], results, many)
    member = _added(member, used[0] + many, others, more)
    shape = _outlined(onto.shape, used[1], region, pieces) if pieces > 0 else onto.shape
    for i in range(who.size):
        cut |= region.line[i] < UNIVERSE_LINES
    return ZoneBuffers(member, shape, _added(onto.owner, used[1], who, who.size)), many + more, who.size, cut


@njit(**EXACT)
def zones_of(
    each: tuple[Ints, Ints, Ints, Ints, Floats, NDArray[np.bool_]], held: ZoneBuffers, used: tuple[int, int]
) -> FoundSkylineZones:
    """What a pile holds; of each zone results, judged, members, corners, its radius, whether it is cut."""
    result, judged, count, corners, radius, cut = each
    shape, many = held.shape, used[1]
    return FoundSkylineZones(
        result,
        judged,
        count,
        corners,
        radius,
        cut,
        held.member[: used[0]],
        shape.x[:many],
        shape.y[:many],
        shape.line[:many],
        held.owner[:many],
    )


@njit(**EXACT)
def find_zones(
    metric: int, tree: Rtree, seekers: Seekers, part: Ints, universe: Floats, m: int, bare: NDArray[np.bool_]
) -> tuple[FoundSkylineZones, Ints]:
    """The zones of a part of the queries, cut to a universe; and blocks opened, objects tried.

    Where `bare` says so a query gets its skyline, and a point for a zone.
    """
    room, many = room_for(tree), part.size
    result, count, corners = np.zeros(many, np.int64), np.zeros(many, np.int64), np.zeros(many, np.int64)
    radius, cut, judged = np.zeros(many), np.zeros(many, np.bool_), np.zeros(many, np.int64)
    onto, extra, members, used = zone_buffers(), np.empty(m, np.int32), FIRST, FIRST
    for k in range(many):
        i = part[k]
        find_skyline(metric, tree, room, seekers, i)
        results = with_twins(tree, room)
        result[k] = results.size
        if bare[i]:
            count[k] = results.size
            onto = ZoneBuffers(_added(onto.member, members, results, results.size), onto.shape, onto.owner)
        elif metric == EUCLIDEAN:
            zone = carve(tree, room, seekers, i, universe)
            radius[k] = zone.radius
            if zone.judging and zone.pieces > 0:
                results = np.concatenate((results, zone.judged))
                judged[k] = results.size
            onto, count[k], corners[k], cut[k] = laid(
                onto, (members, used), results, results.size, zone.region, zone.pieces, zone.owner
            )
        else:
            more, radius[k] = circle(metric, tree, room, seekers, i, extra)
            member = _added(onto.member, members, results, result[k])
            onto = ZoneBuffers(_added(member, members + result[k], extra, more), onto.shape, onto.owner)
            count[k] = result[k] + more
        members, used = members + count[k], used + corners[k]
    return zones_of((result, judged, count, corners, radius, cut), onto, (members, used)), room.size[
        NODES : TRIED + 1
    ].copy()


Bools = NDArray[np.bool_]
Seen = tuple[Floats, Floats, Floats]  # places, distances and attributes of a skyline
Spot = tuple[float, float, float, float, float]  # x, y from the query, how far away that is; x, y


@njit(**EXACT)
def _zone_from(kept: SkylineZoneColumns, row: int, x: float, y: float) -> tuple[Region, int, Ints]:
    """A zone as pieces around a place, how many, and the owners of their lines."""
    begin, size, dx, dy = kept.corner[row], kept.corners[row], kept.x[row] - x, kept.y[row] - y
    region, pieces, lines = region_for(size, size), 0, UNIVERSE_LINES
    for i in range(size):
        line = kept.line[begin + i]
        region.x[i], region.y[i] = kept.corner_x[begin + i] + dx, kept.corner_y[begin + i] + dy
        region.line[i] = max(line, ~line)
        lines = max(lines, region.line[i] + 1)
        if line < 0:
            region.end[pieces] = i + 1
            pieces += 1
    owner = np.full(lines, np.int64(-1))
    for i in range(size):
        owner[region.line[i]] = kept.owner[begin + i]
    return region, pieces, owner


@njit(**EXACT)
def _dominance_of(seen: Seen, one: Floats, away: float) -> tuple[bool, Bools]:
    """Whether something seen dominates an object this far away, and which of them the object dominates."""
    _, far, attribute = seen
    out, beaten = np.zeros(far.size, np.bool_), False
    for j in range(far.size):
        theirs, mine = compare(attribute, j, one, FIRST), compare(one, FIRST, attribute, j)
        beaten |= far[j] <= away and (theirs == 2 or (theirs == 1 and far[j] < away))
        out[j] = away <= far[j] and (mine == 2 or (mine == 1 and away < far[j]))
    return beaten, out


@njit(**EXACT)
def _without_cell(
    region: Region,
    pieces: int,
    owner: Ints,
    o: int,
    here: Spot,
    one: Floats,
    seen: Seen,
) -> tuple[Region, int, Ints]:
    """The part of a zone that is left without the cell of an object, how many pieces, and owners of lines."""
    corners, line = region.end[pieces - 1], owner.size
    x, y = region.x[:corners], region.y[:corners]
    hull = region_for(SOME, ONE)
    box(hull, x.min(), y.min(), x.max(), y.max())
    lines, cuts, shift, _ = cell_cuts(
        here, one, seen, hull, radius_of(region, corners), STRICT, np.empty((16, 3))
    )
    if lines > 0:
        lines = needed_cuts(hull, cuts, lines)
    if lines == NEVER:
        return region, pieces, owner
    if lines == EVERYWHERE:
        return region, 0, owner
    left, pieces = subtract(region, pieces, cuts, lines, line, region_for(MANY, SOME))
    pieces = keep_part(left, pieces, 4 * shift) if pieces > 0 else 0
    return left, pieces, owned(owner, line, lines, o)


@njit(**EXACT)
def _as_here(
    region: Region,
    pieces: int,
    owner: Ints,
    rows: Rows,
    o: int,
    here: Spot,
    one: Floats,
    seen: tuple[Floats, Floats, Floats, Bools],
) -> tuple[Region, int, Ints]:
    """The part of a zone where an object and a skyline, some of which is `out` now, stand as they do here."""
    x, y, away, at_x, at_y = here
    spot, far, attribute, out = seen
    spare, shift, line = region_for(MANY, SOME), 0.0, owner.size
    radius = radius_of(region, region.end[pieces - 1])
    for j in range(far.size):
        theirs, mine = compare(attribute, j, one, FIRST), compare(one, FIRST, attribute, j)
        apart = lead_of(min(away, far[j]), max(away, far[j]), PLANE_FUZZ)
        if theirs + mine == 0 or (spot[j, 2] == at_x and spot[j, 3] == at_y) or apart >= 2 * radius:
            continue
        if theirs == 1 and not out[j]:
            return region, 0, owner
        if theirs > 0 or out[j]:
            nx, ny, c, margin = bisector(x, y, spot[j, 0], spot[j, 1], radius)
        else:
            nx, ny, c, margin = bisector(spot[j, 0], spot[j, 1], x, y, radius)
        if c - margin >= radius:
            continue
        after, pieces = clip_all(region, pieces, (nx, ny, c - margin, line), spare)
        if pieces == 0:
            return region, 0, owner
        region, spare, shift = after, region, max(shift, margin)
        owner, line = owned(owner, line, ONE, o if mine == 0 else np.int64(rows[j])), line + 1
        radius = radius_of(region, region.end[pieces - 1])
    return region, keep_part(region, pieces, 4 * shift), owner


@njit(**EXACT)
def _opens(
    region: Region, pieces: int, owner: Ints, lines: int, record: Floats, o: int, place: tuple[float, float]
) -> bool:
    """Whether an object may dominate the owner of an edge, on one of the first so many lines, along it."""
    begin, x, y = 0, region.x, region.y
    for piece in range(pieces):
        end = region.end[piece]
        for i in range(begin, end):
            who = owner[region.line[i]] if region.line[i] < lines else -1
            if who == UNKNOWN:
                return True
            if who < 0 or as_good(record, o, who) == 0:
                continue
            for corner in (i, i + 1 if i + 1 < end else begin):
                at_x, at_y = place[0] + x[corner], place[1] + y[corner]
                theirs = distance(EUCLIDEAN, at_x, at_y, record[who, 0], record[who, 1])
                mine = distance(EUCLIDEAN, at_x, at_y, record[o, 0], record[o, 1])
                if lead_of(theirs, mine, PLANE_FUZZ) <= 0.0:
                    return True
        begin = end
    return False


@njit(**EXACT)
def _joined(rows: Rows, far: Floats, out: Bools, o: int, away: float) -> Rows:
    """A skyline by distance without those that are out, and with an object this far away."""
    found, size, waits = np.empty(rows.size + 1, np.int32), 0, True
    for j in range(rows.size):
        if waits and far[j] > away:
            found[size], waits = o, False
            size += 1
        if not out[j]:
            found[size] = rows[j]
            size += 1
    if waits:
        found[size] = o
        size += 1
    return found[:size].copy()


@njit(**EXACT)
def _mended(
    kept: SkylineZoneColumns, record: Floats, row: int, place: tuple[float, float], o: int
) -> tuple[Rows, Region, int, Ints]:
    """The skyline and the zone of a subscription at a place with an object; no pieces: not known so."""
    rows, spot, far, attribute = results_from(record, kept, row, place[0], place[1])
    region, pieces, owner = _zone_from(kept, row, place[0], place[1])
    if pieces == 0 or kept.judged[row] > 0:
        return rows, region, 0, owner
    away = distance(EUCLIDEAN, place[0], place[1], record[o, 0], record[o, 1])
    here = (record[o, 0] - place[0], record[o, 1] - place[1], away, record[o, 0], record[o, 1])
    one = record[o : o + 1, PLACE:].copy()
    lines, seen = owner.size, (spot, far, attribute)
    beaten, out = _dominance_of(seen, one, away)
    if beaten:
        region, pieces, owner = _without_cell(region, pieces, owner, o, here, one, seen)
        return rows, region, pieces, owner
    region, pieces, owner = _as_here(region, pieces, owner, rows, o, here, one, (spot, far, attribute, out))
    if pieces > 0 and _opens(region, pieces, owner, lines, record, o, place):
        pieces = 0
    return _joined(rows, far, out, o, away), region, pieces, owner


@njit(**EXACT)
def admit(
    kept: SkylineZoneColumns, record: Floats, rows: Rows, x: Floats, y: Floats, o: int
) -> tuple[FoundSkylineZones, Bools]:
    """The zones of subscriptions at places that a new object breaks, mended where that can be; and where."""
    many = rows.size
    result, count, corners = np.zeros(many, np.int64), np.zeros(many, np.int64), np.zeros(many, np.int64)
    radius, cut, done = np.zeros(many), np.zeros(many, np.bool_), np.zeros(many, np.bool_)
    onto, members, used, k = zone_buffers(), FIRST, FIRST, 0
    for i in range(many):
        results, region, pieces, owner = _mended(kept, record, rows[i], (x[i], y[i]), o)
        if pieces == 0:
            continue
        onto, count[k], corners[k], cut[k] = laid(
            onto, (members, used), results, results.size, region, pieces, owner
        )
        result[k], radius[k], done[i] = results.size, radius_of(region, region.end[pieces - 1]), True
        members, used, k = members + count[k], used + corners[k], k + 1
    each = result[:k], np.zeros(k, np.int64), count[:k], corners[:k], radius[:k], cut[:k]
    return zones_of(each, onto, (members, used)), done
