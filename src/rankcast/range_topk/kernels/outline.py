"""Influence regions as outlines, so that regions of one apex can be united, intersected and subtracted.

All regions of an object at x lie in the quadrant lo <= x <= hi and are staircases with their apex at (x, x):
for every lo they hold the hi from x up to a top that never rises as lo falls. An outline writes such a region
as steps (edge, top) from east to west: down to the edge, excluded, lo has that top, excluded. The last step
has the edge -inf, so no length is kept; a top of -inf is nothing, one of +inf is no bound. The union of two
regions has the higher top everywhere, the intersection the lower one, and what one has beyond another lies
between their tops: at most one tile a step, all of them disjoint, in the order of lo.

An outline for k has at most k + 1 steps, one combined from n of them at most n (k + 1). Cost: linear.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.object_search import firstk, locate
from rankcast.range_topk.kernels.object_tree import ObjectTree
from rankcast.range_topk.kernels.staircase import LEFT, RIGHT, SAME, Stairs, left_at, right_at, room_of
from rankcast.range_topk.kernels.tiles import Tiles, above, below
from rankcast.structures.jit import EXACT

Outline = NDArray[np.float64]
EDGE, TOP = range(2)


def empty_outlines(count: int, k: int) -> NDArray[np.float64]:
    """Outlines of so many regions for one k, all of them empty."""
    return np.full((count, k + 1, 2), -np.inf)


@njit(**EXACT)
def climb_at(tree: ObjectTree, x: float, y: float, label: int, stairs: Stairs) -> None:
    """Find the neighbours that are better than (y, label) would be at x, whoever is there. Two firstk."""
    leaf, slot = locate(tree, x, False)
    one = np.int64(1)
    stairs.size[LEFT], _ = firstk(tree, leaf, slot - 1, -one, x, y, label, stairs.left)
    stairs.size[RIGHT], stairs.size[SAME] = firstk(tree, leaf, slot, one, x, y, label, stairs.right)


@njit(**EXACT)
def outline(stairs: Stairs, x: float, k: int, steps: Outline) -> None:
    """Write the outline of the influence region."""
    lefts, rights, room, size = stairs.size[LEFT], stairs.size[RIGHT], room_of(stairs, k), 0
    for a in range(min(lefts + 1, room)):
        outer = left_at(stairs.left, lefts, x, a + 1)
        if outer < left_at(stairs.left, lefts, x, a):
            steps[size, EDGE], steps[size, TOP] = outer, right_at(stairs.right, rights, x, room - a)
            size += 1
    if size == 0 or steps[size - 1, EDGE] > -np.inf:
        steps[size, EDGE], steps[size, TOP] = -np.inf, -np.inf


@njit(**EXACT)
def draw(
    tree: ObjectTree,
    rows: NDArray[np.int32],
    x: NDArray[np.float64],
    y: NDArray[np.float64],
    stairs: Stairs,
    outlines: NDArray[np.float64],
) -> None:
    """Write the outlines of the regions that objects would have at x with value y; y = +inf has none."""
    k = outlines.shape[1] - 1
    for i in range(rows.shape[0]):
        if y[i] < np.inf:
            climb_at(tree, x[i], y[i], tree.label[rows[i]], stairs)
            outline(stairs, x[i], k, outlines[i])
        else:
            outlines[i, 0, EDGE], outlines[i, 0, TOP] = -np.inf, -np.inf


@njit(**EXACT)
def combine(one: Outline, two: Outline, union: bool, steps: Outline) -> None:
    """Write the outline of the union, or of the intersection, of two regions with the same apex."""
    i, j, size, edge = 0, 0, 0, np.inf
    while edge > -np.inf:
        edge = max(one[i, EDGE], two[j, EDGE])
        higher, lower = max(one[i, TOP], two[j, TOP]), min(one[i, TOP], two[j, TOP])
        steps[size, EDGE], steps[size, TOP] = edge, higher if union else lower
        size += 1
        i += one[i, EDGE] == edge
        j += two[j, EDGE] == edge


@njit(**EXACT)
def paint_between(region: Outline, without: Outline, x: float, tiles: Tiles) -> None:
    """Tile what a region has beyond another, from east to west; neighbours of one height are one tile."""
    box, step, first, size = tiles.box, tiles.step, tiles.size[0], tiles.size[0]
    i, j, inner, edge = 0, 0, x, np.inf
    while edge > -np.inf:
        edge = max(region[i, EDGE], without[j, EDGE])
        top, bottom = region[i, TOP], max(without[j, TOP], x)
        if bottom < top:
            last = size - 1
            same = size > first and box[last, 2] == bottom and box[last, 3] == below(top)
            if not (same and box[last, 0] == above(inner)):
                box[size, 1], box[size, 2], box[size, 3], step[size] = inner, bottom, below(top), i
                size += 1
            box[size - 1, 0] = above(edge)
        inner = edge
        i += region[i, EDGE] == edge
        j += without[j, EDGE] == edge
    tiles.size[0] = size
