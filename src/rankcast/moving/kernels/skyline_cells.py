"""Where objects are in the skyline: cells of bisectors, everything relative to the place of a query.

An object o is in the skyline exactly where it is nearer than every object that is statically at least as good
(better or equal in every attribute): in a Voronoi cell, its impact region. Let S be the skyline of a query.

Of all those objects, the ones in S suffice [Moving §3.4.1]. Let x be a place where every object of S is
nearer than all in S that are statically as good, and every other object is not. Then each object outside S
is dominated at x by one in S. So none of them is in the skyline of x; and if one of them dominated an s in S,
whatever in S dominates it would dominate s as well, which nothing in S does. Hence the skyline of x is S. The
other way round, if it is S, then S dominates everything else at x, and nothing in S. Both hold with ties,
since dominance at a place is a strict order whatever the distances are.

So the zone is the common part of the cells of S, which is convex, without the cells of all others; and the
part of it that holds the query.

Rounding. Results go by distances as computed, so near a bisector they may say otherwise than geometry. The
difference of two distances changes along the normal by |os| / far a unit, and rounding changes it by some
units in the last place of far: the bisector is uncertain by eps far^2 / |os|, and that is what cuts give way
by (`MARGIN`): cells of results are cut smaller, those of others larger. Strictly inside of what
is left, the computed skyline is S.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rankcast.moving.kernels.convex import (
    FIRST,
    ONE,
    Floats,
    Ints,
    Region,
    clip,
    common,
    reach,
    region_for,
    roomy,
)
from rankcast.moving.kernels.region_parts import radius_of
from rankcast.moving.kernels.rtree import Rows
from rankcast.moving.kernels.skyline_search import lead_of
from rankcast.moving.kernels.zone_scores import PLANE_FUZZ
from rankcast.structures.jit import EXACT

MARGIN = 2.0**-45
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
    rows: Rows, found: tuple[Floats, Floats, Floats], region: Region, spare: Region
) -> tuple[Region, int, int, Ints, float]:
    """The common part of the cells of a skyline, by distance, inside a region of one piece, a box.

    `found` are places, distances and attributes of the skyline. Returns that region, how many corners it has
    (0: nothing is left), the next number of a line, who leaves the skyline across each line (-1: nobody, it
    is one of the box), and how far margins may have shifted the region.
    """
    spot, away, attribute = found
    corners, line, shift = region.end[0], UNIVERSE_LINES + FIRST, 0.0
    owner = owned(np.empty(0, np.int64), FIRST, line, -ONE)
    radius = radius_of(region, corners)
    many = spot.shape[0]
    for i in range(many):
        for j in range(i + 1, many):
            if lead_of(away[i], away[j], PLANE_FUZZ) >= 2 * radius:
                break
            compared = compare(attribute, j, attribute, i)
            if compared == 0 or (spot[i, 0] == spot[j, 0] and spot[i, 1] == spot[j, 1]):
                continue
            nx, ny, c, margin = bisector(spot[i, 0], spot[i, 1], spot[j, 0], spot[j, 1], radius)
            if c - margin >= radius:
                continue
            spare = roomy(spare, corners + 1, ONE)
            corners = clip(region, FIRST, corners, (nx, ny, c - margin, line), spare, FIRST)
            if compared == 1 or corners == 0:
                return region, 0, line, owner, shift
            region, spare, owner = spare, region, owned(owner, line, ONE, np.int64(rows[i]))
            radius, line, shift = radius_of(region, corners), line + 1, max(shift, margin)
    region.end[0] = corners
    return region, corners, line, owner, shift


@njit(**EXACT)
def _twice(cuts: Floats) -> Floats:
    """The same cuts, with room for as many more."""
    larger = np.empty((2 * cuts.shape[0], 3))
    for k in range(cuts.shape[0]):
        larger[k, 0], larger[k, 1], larger[k, 2] = cuts[k, 0], cuts[k, 1], cuts[k, 2]
    return larger


@njit(**EXACT)
def cell_cuts(
    here: tuple[float, float, float],
    one: Floats,
    found: tuple[Floats, Floats, Floats],
    hull: Region,
    radius: float,
    cuts: Floats,
) -> tuple[int, Floats, float]:
    """The cuts of the cell of an object: at (x, y), this far away, with attributes `one` (1, d).

    `found` is the skyline: places, distances, attributes; `hull` one piece around the zone, which lies
    within `radius`. Returns NEVER if the cell certainly misses the hull, EVERYWHERE, or how many cuts; the
    table of cuts, grown if need be; and how far margins may have shifted it. Lemmas 6 to 8 [Moving
    §3.4.3]: a cut that the hull is all beyond ends it, and so does an intersection that becomes empty.
    """
    x, y, d = here
    spot, away, attribute = found
    size, shift, corners = 0, 0.0, hull.end[0]
    for j in range(spot.shape[0]):
        if lead_of(d, away[j], PLANE_FUZZ) >= 2 * radius:
            break
        if compare(attribute, j, one, FIRST) == 0:
            continue
        if (spot[j, 0] == x and spot[j, 1] == y) or lead_of(away[j], d, PLANE_FUZZ) >= 2 * radius:
            return NEVER, cuts, shift
        nx, ny, c, margin = bisector(x, y, spot[j, 0], spot[j, 1], radius)
        least, most = reach(hull, FIRST, corners, (nx, ny, c + margin, FIRST))
        if least > 0.0:
            return NEVER, cuts, shift
        if most > 0.0:
            if size == cuts.shape[0]:
                cuts = _twice(cuts)
            cuts[size, 0], cuts[size, 1], cuts[size, 2] = nx, ny, c + margin
            size, shift = size + 1, max(shift, margin)
    return size, cuts, shift


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
