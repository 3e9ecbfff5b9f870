"""Safe zones of skylines: what a search deferred, taken by its lead, carves the zone out.

For an object o and a skyline object s that is statically as good, at distances d(o) > d(s) from the query,
the difference is the lead. Within a circle of radius r around the query both distances change by at most r:
with a lead of 2r or more, o stays behind s in all of it [Moving Lemma 7]. So whatever was deferred is taken
by its lead, smallest first, until that is at least twice the radius of the zone, which shrinks as cells are
taken away. A block is taken in its turn by the lead of its best corner at its least distance, which nothing
in it is below: any object in it is statically no better than the corner, so each skyline object as good as
the corner is as good as the object, and the object is no nearer than the box. A block in turn stays closed
if one such s is nearer than its box at every corner of the zone's pieces: the places nearer to s than to all
points of a box are an intersection of half-planes, hence convex, and hold the pieces if they hold their
corners. That is Lemma 8 with one s for all objects of the block.

In other metrics than the euclidean there are no bisectors to cut with. There a zone is a circle: the skyline
and the m objects of the smallest leads are its members, and half of the next lead is the radius.

Cells. Everything is relative to the place of a query. An object o is in the skyline exactly where it is
nearer than every object that is statically at least as good (better or equal in every attribute): in a
Voronoi cell, its impact region. Let S be the skyline of a query.

Of all those objects, the ones in S suffice [Moving §3.4.1]. Let x be a place where every object of S is
nearer than all in S that are statically as good, and every other object is not. Then each object outside S
is dominated at x by one in S. So none of them is in the skyline of x; and if one of them dominated an s in
S, whatever in S dominates it would dominate s as well, which nothing in S does. Hence the skyline of x is S.
The other way round, if it is S, then S dominates everything else at x, and nothing in S. Both hold with
ties, since dominance at a place is a strict order whatever the distances are.

So the zone is the common part of the cells of S, which is convex, without the cells of all others; and the
part of it that holds the query.

Rounding. Results go by distances as computed, so near a bisector they may say otherwise than geometry. The
difference of two distances changes along the normal by |os| / far a unit, and rounding changes it by some
units in the last place of far: the bisector is uncertain by eps far^2 / |os|, and that is what cuts give way
by (`MARGIN`): cells of results are cut smaller, those of others larger. Strictly inside of what is left, the
computed skyline is S. A computed distance is off by three units of rounding at most, so that of two by six;
places relative to the query, rounded, turn a bisector by three more: `MARGIN` has sixteen.

Objects a rounding error apart. `far` counts from the zone as it is when a cut is made, at first from the
whole universe, and where |os| is tiny the margin may eat the zone. Where margins were coarse, a zone is
found again (`carve`): once with cells that give way to the other side, which tells how far a zone can reach
at all, then within that reach, so that `far` is that of the final zone. Of a pair whose margin is coarse
even then, rounding says who is nearer, at every place anew: such pairs are judged. They cut nothing; what
is not in S of them becomes a member. Let M be S and those. Each object outside M is dominated all over the
zone by one in M, so the skyline anywhere in the zone is that of M alone, by distances as computed: whatever
dominates one in M and is none itself is dominated by another in M, which dominates that one too.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.moving.kernels.convex import (
    FIRST,
    MANY,
    ONE,
    SOME,
    Floats,
    Ints,
    Region,
    box,
    clip,
    common,
    copied,
    keep_part,
    radius_of,
    reach,
    region_for,
    roomy,
    subtract,
)
from rankcast.moving.kernels.rtree import BRANCH, Rows, Rtree
from rankcast.moving.kernels.rtree_search import HEAP, child_distance
from rankcast.moving.kernels.scores import MICRON, PLANE_FUZZ, gap
from rankcast.moving.kernels.skyline_search import (
    DEFERRED,
    FOUND,
    NODES,
    TRIED,
    Room,
    Seekers,
    alike,
    child_corner,
    first_better,
    fuzz_of,
    lead_of,
    lets_pass,
    may_pass,
    point_attributes,
)
from rankcast.structures.distance import EUCLIDEAN, distance
from rankcast.structures.heap import pop, push
from rankcast.structures.jit import EXACT

MARGIN = 2.0**-49
COARSE = 1.0 / 16  # of the radius: a margin that asks for a closer look, or for judging
FINE = 2.0**-30  # of the universe: a margin that does no harm; then a zone is a point for other reasons
STRICT, LENIENT = 1.0, -1.0  # which way cells give for rounding
MOST_JUDGED = 64  # more objects than that, so close together, are not worth it
NEVER, EVERYWHERE = -1, 0
UNIVERSE_LINES = 4


@njit(**EXACT)
def bisector(ox: float, oy: float, sx: float, sy: float, radius: float) -> tuple[float, float, float, float]:
    """The points nearer to o than to s as n p <= c; and what rounding may do to c within a radius."""
    ux, uy = sx - ox, sy - oy
    length = math.hypot(ux, uy)
    if length == 0.0:
        return 0.0, 0.0, 0.0, np.inf
    nx, ny = ux / length, uy / length
    far = max(math.hypot(ox, oy), math.hypot(sx, sy)) + radius
    return nx, ny, 0.5 * ((sx + ox) * nx + (sy + oy) * ny), MARGIN * far * (far / length)


@njit(**EXACT)
def compare(attribute: Floats, j: int, others: Floats, i: int) -> int:
    """0 if object j is worse than another, i, in an attribute; 1 if as good in all; 2 if better too."""
    found = 1
    for a in range(others.shape[1]):
        if attribute[j, a] > others[i, a]:
            return 0
        if attribute[j, a] < others[i, a]:
            found = 2
    return found


@njit(**EXACT)
def owned(owner: Ints, line: int, lines: int, row: int) -> Ints:
    """Note whose some lines are; the table is grown if need be."""
    if line + lines > owner.size:
        longer = np.empty(2 * (line + lines), np.int64)
        for k in range(longer.size):
            longer[k] = owner[k] if k < owner.size else -1
        owner = longer
    for k in range(line, line + lines):
        owner[k] = row
    return owner


@njit(**EXACT)
def shared_cell(
    rows: Rows, found: tuple[Floats, Floats, Floats], region: Region, spare: Region, give: float, judge: bool
) -> tuple[Region, int, int, Ints, tuple[float, float, bool]]:
    """The common part of the cells of a skyline, by distance, inside a region of one piece, a box.

    `found` are places, distances and attributes of the skyline; `give` is STRICT or LENIENT; `judge` says
    to pass over pairs of a coarse margin. Returns that region, how many corners it has (0: nothing is left),
    the next number of a line, who leaves the skyline across each line (-1: nobody, it is one of the box); and
    how far margins may have shifted the region, the coarsest that counted, and whether a pair was passed
    over.
    """
    spot, away, attribute = found
    corners, line, shift, coarse, passed = region.end[0], UNIVERSE_LINES + FIRST, 0.0, 0.0, False
    owner = owned(np.empty(0, np.int64), FIRST, line, -ONE)
    radius = radius_of(region, corners)
    many = spot.shape[0]
    for i in range(many):
        for j in range(i + 1, many):
            if lead_of(away[i], away[j], PLANE_FUZZ) >= 2 * radius:
                break
            compared = compare(attribute, j, attribute, i)
            if compared == 0 or (spot[i, 2] == spot[j, 2] and spot[i, 3] == spot[j, 3]):
                continue
            nx, ny, c, margin = bisector(spot[i, 0], spot[i, 1], spot[j, 0], spot[j, 1], radius)
            if c - give * margin >= radius:
                continue
            coarse = max(coarse, margin)
            if judge and margin > COARSE * radius:
                passed = True
                continue
            spare = roomy(spare, corners + 1, ONE)
            corners = clip(region, FIRST, corners, (nx, ny, c - give * margin, line), spare, FIRST)
            if (compared == 1 and give == STRICT) or corners == 0:
                return region, 0, line, owner, (shift, coarse, passed)
            region, spare, owner = spare, region, owned(owner, line, ONE, np.int64(rows[i]))
            radius, line, shift = radius_of(region, corners), line + 1, max(shift, margin)
    region.end[0] = corners
    return region, corners, line, owner, (shift, coarse, passed)


@njit(**EXACT)
def _twice(cuts: Floats) -> Floats:
    """The same cuts, with room for as many more."""
    larger = np.empty((2 * cuts.shape[0], 3))
    for k in range(cuts.shape[0]):
        larger[k, 0], larger[k, 1], larger[k, 2] = cuts[k, 0], cuts[k, 1], cuts[k, 2]
    return larger


@njit(**EXACT)
def cell_cuts(
    here: tuple[float, float, float, float, float],
    one: Floats,
    found: tuple[Floats, Floats, Floats],
    hull: Region,
    radius: float,
    give: float,
    cuts: Floats,
) -> tuple[int, Floats, float, float]:
    """The cuts of the cell of an object: at `here`, with attributes `one` (1, d).

    `here` is its place relative to the query, its distance, and its place.

    `found` is the skyline: places, distances, attributes; `hull` one piece around the zone, which lies
    within `radius`; `give` is STRICT or LENIENT. Returns NEVER if the cell certainly misses the hull,
    EVERYWHERE, or how many cuts; the table of cuts, grown if need be; how far margins may have shifted it;
    and the coarsest of all margins. Lemmas 6 to 8 [Moving §3.4.3]: a cut that the hull is all beyond ends
    it, and so does an intersection that becomes empty.
    """
    x, y, d, at_x, at_y = here
    spot, away, attribute = found
    size, shift, corners, coarse = 0, 0.0, hull.end[0], 0.0
    for j in range(spot.shape[0]):
        if lead_of(d, away[j], PLANE_FUZZ) >= 2 * radius:
            break
        if compare(attribute, j, one, FIRST) == 0:
            continue
        if (spot[j, 2] == at_x and spot[j, 3] == at_y) or lead_of(away[j], d, PLANE_FUZZ) >= 2 * radius:
            return NEVER, cuts, shift, coarse
        nx, ny, c, margin = bisector(x, y, spot[j, 0], spot[j, 1], radius)
        coarse = max(coarse, margin)
        least, most = reach(hull, FIRST, corners, (nx, ny, c + give * margin, FIRST))
        if least > 0.0:
            return NEVER, cuts, shift, coarse
        if most > 0.0:
            if size == cuts.shape[0]:
                cuts = _twice(cuts)
            cuts[size, 0], cuts[size, 1], cuts[size, 2] = nx, ny, c + give * margin
            size, shift = size + 1, max(shift, margin)
    return size, cuts, shift, coarse


@njit(**EXACT)
def needed_cuts(hull: Region, cuts: Floats, lines: int) -> int:
    """Move those cuts to the front that bound the cell within the hull; returns how many, NEVER if none."""
    corners = hull.end[0]
    left, size = common(
        hull, FIRST, corners, cuts, lines, region_for(corners + lines, ONE), region_for(corners + lines, ONE)
    )
    if size == 0:
        return NEVER
    kept = 0
    for k in range(lines):
        bounds = False
        for i in range(size):
            bounds |= left.line[i] == -1 - k
        if bounds:
            cuts[kept, 0], cuts[kept, 1], cuts[kept, 2] = cuts[k, 0], cuts[k, 1], cuts[k, 2]
            kept += 1
    return kept


@njit(**EXACT)
def _spots(tree: Rtree, room: Room, x: float, y: float) -> Floats:
    """Places (n, 4) of the skyline: relative to a place, which may make two of them one; and as they are."""
    spot, point, rows = np.empty((room.size[FOUND], 4)), tree.point, room.row
    for i in range(spot.shape[0]):
        place = tree.place[rows[i]]
        leaf, slot = place // BRANCH, place % BRANCH
        spot[i, 2], spot[i, 3] = point[leaf, 0, slot], point[leaf, 1, slot]
        spot[i, 0], spot[i, 1] = spot[i, 2] - x, spot[i, 3] - y
    return spot


@njit(**EXACT)
def _hidden(
    tree: Rtree,
    entry: int,
    found: tuple[Floats, Floats, Floats],
    one: Floats,
    here: Floats,
    region: Region,
    used: int,
) -> bool:
    """Whether one skyline object is nearer than a block, with best corner `one`, all over a zone.

    `here` is the query's place, the block's distance from it, and the radius; the zone has `used` corners.
    """
    spot, away, attribute = found
    block, slot = entry // BRANCH, entry % BRANCH
    low_x, high_x = tree.low[block, 0, slot] - here[0], tree.high[block, 0, slot] - here[0]
    low_y, high_y = tree.low[block, 1, slot] - here[1], tree.high[block, 1, slot] - here[1]
    x, y = region.x, region.y
    for j in range(spot.shape[0]):
        if away[j] >= here[2]:
            return False
        nearer = True
        for a in range(one.shape[1]):
            nearer &= attribute[j, a] <= one[0, a]
        i = 0
        while nearer and i < used:
            dx, dy = gap(x[i], low_x, high_x), gap(y[i], low_y, high_y)
            edge = math.sqrt(dx * dx + dy * dy)
            dx, dy = x[i] - spot[j, 0], y[i] - spot[j, 1]
            nearer = lead_of(math.sqrt(dx * dx + dy * dy), edge, PLANE_FUZZ) > 4 * PLANE_FUZZ * here[3]
            i += 1
        if nearer:
            return True
    return False


@njit(**EXACT)
def _sort_leads(
    metric: int, tree: Rtree, room: Room, seekers: Seekers, i: int, entry: int, bound: float
) -> None:
    """Put the children of a block on the heap by their leads, those below a bound."""
    x, y, size, one = seekers.x[i], seekers.y[i], room.size, np.empty((1, room.attribute.shape[1]))
    block, fuzz, found = entry // BRANCH, fuzz_of(metric), size[FOUND]
    first = np.int64(tree.first[block])
    leaf = first >= 0
    child = first + entry % BRANCH if leaf else ~first + entry % BRANCH
    size[NODES] += 1
    for slot in range(BRANCH if leaf else tree.width[child]):
        if leaf:
            row = np.int64(tree.row[child, slot])
            if row < 0 or (seekers.filtered and not lets_pass(tree, seekers, i, child, slot)):
                continue
            point_attributes(tree, child, slot, one)
            key = distance(metric, x, y, tree.point[child, 0, slot], tree.point[child, 1, slot])
            size[TRIED] += 1
            below = ~row
        else:
            if seekers.filtered and not may_pass(tree, seekers, i, child, slot):
                continue
            child_corner(tree, child, slot, one)
            key = child_distance(tree.low, tree.high, metric, x, y, child, slot)
            below = child * BRANCH + slot
        lead = lead_of(room.away[first_better(room.attribute, room.away, found, one, key)], key, fuzz)
        if lead < bound:
            size[HEAP] = push(room.key, room.entry, size[HEAP], lead, below)


@njit(**EXACT)
def _take_up(room: Room, bound: float) -> None:
    """Put what is deferred with a lead below a bound on the heap."""
    size = room.size
    for k in range(size[DEFERRED]):
        if room.lead[k] < bound:
            size[HEAP] = push(room.key, room.entry, size[HEAP], room.lead[k], room.deferred[k])


@njit(**EXACT)
def _cell(
    tree: Rtree,
    row: int,
    here: Floats,
    found: tuple[Floats, Floats, Floats],
    hull: Region,
    give: float,
    table: Floats,
) -> tuple[int, Floats, float, float]:
    """The cuts that bound the cell of an object within the hull, as `cell_cuts` gives them.

    `here` is the query's place, then anything, then the radius of the zone.
    """
    place = tree.place[row]
    leaf, slot, one = place // BRANCH, place % BRANCH, np.empty((1, found[2].shape[1]))
    point_attributes(tree, leaf, slot, one)
    x, y = tree.point[leaf, 0, slot], tree.point[leaf, 1, slot]
    away = distance(EUCLIDEAN, here[0], here[1], x, y)
    spot = x - here[0], y - here[1], away, x, y
    lines, table, shift, coarse = cell_cuts(spot, one, found, hull, here[3], give, table)
    if lines > 0:
        lines = needed_cuts(hull, table, lines)
    return lines, table, shift, coarse


class Carved(NamedTuple):
    """A zone: its pieces, how many, owners of lines, radius; how coarse margins were, what is judged.

    The owner of a line is who comes into the skyline across it, or leaves it; -1 if it is the universe's.
    `coarse` is the coarsest margin that counted; `judging` says that the results are to be
    judged at every place, together with the rows `judged`.
    """

    region: Region
    pieces: int
    owner: Ints
    radius: float
    coarse: float
    judging: bool
    judged: Rows


@njit(**EXACT)
def _carve(
    tree: Rtree, room: Room, seekers: Seekers, i: int, universe: Floats, give: float, judge: bool
) -> Carved:
    """The zone of query i within a universe, as `carve` gives it, with margins as they come."""
    size, x, y, one = room.size, seekers.x[i], seekers.y[i], np.empty((1, room.attribute.shape[1]))
    found = (_spots(tree, room, x, y), room.away, room.attribute)
    region, spare = region_for(MANY, SOME), region_for(MANY, SOME)
    box(region, universe[0] - x, universe[1] - y, universe[2] - x, universe[3] - y)
    region, corners, line, owner, margins = shared_cell(room.row, found, region, spare, give, judge)
    shift, coarse, judging = margins
    spare, hull = region_for(MANY, SOME), region_for(corners, ONE)
    hull.end[0] = copied(region, FIRST, corners, hull, FIRST)
    pieces = keep_part(region, ONE, 4 * shift) if corners > 0 else 0
    radius = radius_of(region, corners) if pieces > 0 else 0.0
    table, here, last = np.empty((16, 3)), np.array([x, y, 0.0, radius]), np.int64(-1)
    judged, many = np.empty(MOST_JUDGED if judge else 0, np.int32), 0
    _take_up(room, 2 * radius)
    while size[HEAP] > 0 and pieces > 0 and room.key[0] < 2 * radius:
        entry, here[3] = room.entry[0], radius
        size[HEAP] = pop(room.key, room.entry, size[HEAP])
        if entry >= 0:
            child_corner(tree, entry // BRANCH, entry % BRANCH, one)
            here[2] = child_distance(tree.low, tree.high, EUCLIDEAN, x, y, entry // BRANCH, entry % BRANCH)
            if not _hidden(tree, entry, found, one, here, region, region.end[pieces - 1]):
                _sort_leads(np.int64(EUCLIDEAN), tree, room, seekers, i, entry, 2 * radius)
            continue
        if last >= 0 and alike(tree, ~entry, last):
            continue  # its cell has been taken away
        lines, table, moved, coarsest = _cell(tree, ~entry, here, found, hull, give, table)
        if lines == NEVER:
            last = ~entry
            continue
        coarse = max(coarse, coarsest)
        if judge and coarsest > COARSE * radius:
            if many == MOST_JUDGED:
                pieces = 0
                break
            judged[many], judging = ~entry, True
            many += 1
            continue
        last, left, shift = ~entry, 0, max(shift, moved)
        if lines > 0:
            after, left = subtract(region, pieces, table, lines, line, spare)
            spare, region = region, after
        pieces = keep_part(region, left, 4 * shift) if left > 0 else 0
        owner, line = owned(owner, line, lines, ~entry), line + lines
        radius = radius_of(region, region.end[pieces - 1]) if pieces > 0 else 0.0
    size[HEAP] = 0
    return Carved(region, pieces, owner, radius, coarse, judging, judged[:many])


@njit(**EXACT)
def carve(tree: Rtree, room: Room, seekers: Seekers, i: int, universe: Floats) -> Carved:
    """The zone of query i, whose skyline has been found.

    Where margins are fine, they are those of the first try; else those of the zone as it turns out.
    """
    zone = _carve(tree, room, seekers, i, universe, STRICT, False)
    within, x, y = universe.copy(), seekers.x[i], seekers.y[i]
    whole = max(universe[2] - universe[0], universe[3] - universe[1])
    if zone.coarse <= COARSE * zone.radius or zone.coarse <= FINE * whole:
        return zone
    for _ in range(2):
        reach_ = _carve(tree, room, seekers, i, within, LENIENT, False).radius * (1 + COARSE)
        if not reach_ > 0.0:
            return zone
        within[0], within[1] = max(universe[0], x - reach_), max(universe[1], y - reach_)
        within[2], within[3] = min(universe[2], x + reach_), min(universe[3], y + reach_)
    closer = _carve(tree, room, seekers, i, within, STRICT, True)
    return closer if closer.radius > zone.radius else zone


@njit(**EXACT)
def circle(metric: int, tree: Rtree, room: Room, seekers: Seekers, i: int, extra: Rows) -> tuple[int, float]:
    """The m objects of the smallest leads, how many there are, and half of the next lead."""
    size, taken, fuzz = room.size, 0, fuzz_of(metric)
    _take_up(room, np.inf)
    while size[HEAP] > 0:
        lead = room.key[0]
        if lead > 0.0 and room.entry[0] < 0 and taken == extra.size:
            size[HEAP] = 0
            return taken, max(0.0, 0.5 * lead * (1 - 8 * fuzz) - (MICRON if fuzz > PLANE_FUZZ else 0.0))
        entry, size[HEAP] = room.entry[0], pop(room.key, room.entry, size[HEAP])
        if entry >= 0:
            _sort_leads(metric, tree, room, seekers, i, entry, np.inf)
        elif taken < extra.size:
            extra[taken] = ~entry
            taken += 1
        else:
            size[HEAP] = 0
            return taken, 0.0
    return taken, np.inf
