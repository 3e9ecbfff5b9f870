"""Safe zones of skylines: what is laid aside by a search, taken by its lead, carves the zone out.

For an object o and a skyline object s that is statically as good, at distances d(o) > d(s) from the query,
the difference is the lead. Within a circle of radius r around the query both distances change by at
most r: with a lead of 2r or more, o stays behind s in all of it [Moving Lemma 7]. So whatever is laid aside
is taken by its lead, smallest first, until that is at least twice the radius of the zone, which shrinks as
cells are taken away. A block is taken in its turn by the lead of its best corner at its least distance,
which nothing in it is below: any object in it is statically no better than the corner, so each skyline
object as good as the corner is as good as the object, and the object is no nearer than the box.
A block in turn stays closed if one such s is nearer than its box at every corner of the zone's pieces: the
places nearer to s than to all points of a box are an intersection of half-planes, hence convex, and hold the
pieces if they hold their corners. That is Lemma 8 with one s for all objects of the block.

In other metrics than the euclidean there are no bisectors to cut with. There a zone is a circle: the skyline
and the m objects of the smallest leads are its members, and half of the next lead is the radius.
"""

from __future__ import annotations

import math

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
    copied,
    region_for,
    subtract,
)
from rankcast.moving.kernels.region_parts import keep_part, radius_of
from rankcast.moving.kernels.rtree import BRANCH, Rows, Rtree
from rankcast.moving.kernels.rtree_search import HEAP, child_distance, pop, push
from rankcast.moving.kernels.skyline_cells import NEVER, cell_cuts, needed_cuts, owned, shared_cell
from rankcast.moving.kernels.skyline_search import (
    ASIDE,
    FOUND,
    NODES,
    TRIED,
    Room,
    Seekers,
    child_corner,
    first_better,
    fuzz_of,
    lead_of,
    lets_pass,
    may_pass,
    point_attributes,
)
from rankcast.moving.kernels.zone_scores import MICRON, PLANE_FUZZ, gap
from rankcast.structures.distance import EUCLIDEAN, distance
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def _spots(tree: Rtree, room: Room, x: float, y: float) -> Floats:
    """Places (n, 2) of the skyline relative to a place."""
    spot, point, rows = np.empty((room.size[FOUND], 2)), tree.point, room.row
    for i in range(spot.shape[0]):
        place = tree.place[rows[i]]
        leaf, slot = place // BRANCH, place % BRANCH
        spot[i, 0], spot[i, 1] = point[leaf, 0, slot] - x, point[leaf, 1, slot] - y
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
            push(room.key, room.entry, size, lead, below)


@njit(**EXACT)
def _take_up(room: Room, bound: float) -> None:
    """Put what lies aside with a lead below a bound on the heap."""
    size = room.size
    for k in range(size[ASIDE]):
        if room.lead[k] < bound:
            push(room.key, room.entry, size, room.lead[k], room.aside[k])


@njit(**EXACT)
def _cell(
    tree: Rtree, row: int, here: Floats, found: tuple[Floats, Floats, Floats], hull: Region, table: Floats
) -> tuple[int, Floats, float]:
    """The cuts that bound the cell of an object within the hull, as `cell_cuts` gives them.

    `here` is the query's place, then anything, then the radius of the zone.
    """
    place = tree.place[row]
    leaf, slot, one = place // BRANCH, place % BRANCH, np.empty((1, found[2].shape[1]))
    point_attributes(tree, leaf, slot, one)
    x, y = tree.point[leaf, 0, slot], tree.point[leaf, 1, slot]
    away = distance(EUCLIDEAN, here[0], here[1], x, y)
    lines, table, shift = cell_cuts((x - here[0], y - here[1], away), one, found, hull, here[3], table)
    if lines > 0:
        lines = needed_cuts(hull, table, lines)
    return lines, table, shift


@njit(**EXACT)
def carve(
    tree: Rtree, room: Room, seekers: Seekers, i: int, universe: Floats
) -> tuple[Region, int, Ints, float]:
    """The zone of query i, whose skyline has been found: its pieces, how many, owners of lines, radius.

    The owner of a line is who comes into the skyline across it, or leaves it; -1 if it is the universe's.
    """
    size, x, y, one = room.size, seekers.x[i], seekers.y[i], np.empty((1, room.attribute.shape[1]))
    found = (_spots(tree, room, x, y), room.away, room.attribute)
    region, spare = region_for(MANY, SOME), region_for(MANY, SOME)
    box(region, universe[0] - x, universe[1] - y, universe[2] - x, universe[3] - y)
    region, corners, line, owner, shift = shared_cell(room.row, found, region, spare)
    spare, hull = region_for(MANY, SOME), region_for(corners, ONE)
    hull.end[0] = copied(region, FIRST, corners, hull, FIRST)
    pieces = keep_part(region, ONE, 4 * shift) if corners > 0 else 0
    radius = radius_of(region, corners) if pieces > 0 else 0.0
    table, here = np.empty((16, 3)), np.array([x, y, 0.0, radius])
    _take_up(room, 2 * radius)
    while size[HEAP] > 0 and pieces > 0 and room.key[0] < 2 * radius:
        entry, here[3] = pop(room.key, room.entry, size), radius
        if entry >= 0:
            child_corner(tree, entry // BRANCH, entry % BRANCH, one)
            here[2] = child_distance(tree.low, tree.high, EUCLIDEAN, x, y, entry // BRANCH, entry % BRANCH)
            if not _hidden(tree, entry, found, one, here, region, region.end[pieces - 1]):
                _sort_leads(np.int64(EUCLIDEAN), tree, room, seekers, i, entry, 2 * radius)
            continue
        lines, table, moved = _cell(tree, ~entry, here, found, hull, table)
        if lines == NEVER:
            continue
        left, shift = 0, max(shift, moved)
        if lines > 0:
            after, left = subtract(region, pieces, table, lines, line, spare)
            spare, region = region, after
        pieces = keep_part(region, left, 4 * shift) if left > 0 else 0
        owner, line = owned(owner, line, lines, ~entry), line + lines
        radius = radius_of(region, region.end[pieces - 1]) if pieces > 0 else 0.0
    size[HEAP] = 0
    return region, pieces, owner, radius


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
        entry = pop(room.key, room.entry, size)
        if entry >= 0:
            _sort_leads(metric, tree, room, seekers, i, entry, np.inf)
        elif taken < extra.size:
            extra[taken] = ~entry
            taken += 1
        else:
            size[HEAP] = 0
            return taken, 0.0
    return taken, np.inf
