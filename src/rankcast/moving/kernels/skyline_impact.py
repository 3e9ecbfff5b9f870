"""The impact region of an object, by a search around it: where a query may hear of it at all.

The region is the Voronoi cell of the object among everything that is as good in each attribute [Moving §3.2].
Rivals come by their distance from the object, blocks only if their best corner is as good; a bisector is half
as far away as its rival, so the search ends beyond twice the farthest corner of the cell so far. Cuts give
way for rounding, so that outside of the cell the object is certainly in no computed skyline.
Cost: a handful of blocks, unless few objects are as good: then the cell is large, and so is its effect.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.moving.kernels.convex import FIRST, MANY, ONE, Floats, Region, box, clip, region_for, roomy
from rankcast.moving.kernels.region_parts import radius_of
from rankcast.moving.kernels.rtree import BRANCH, Rtree, root_of
from rankcast.moving.kernels.rtree_search import HEAP, child_distance, pop, push
from rankcast.moving.kernels.skyline_cells import bisector
from rankcast.moving.kernels.skyline_search import PLACE, Room
from rankcast.structures.distance import EUCLIDEAN, distance
from rankcast.structures.jit import EXACT

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
            push(room.key, room.entry, room.size, key, block * BRANCH + slot)


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
            push(room.key, room.entry, room.size, key, ~row)


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
        entry = pop(room.key, room.entry, size)
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
