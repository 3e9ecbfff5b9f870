"""Places on the globe as unit vectors, beside an R-tree of longitudes and latitudes.

The straight line between two unit vectors costs what a distance in space does: no sines, and no date line.
The way on the globe is 2 asin(c / 2) times the Earth's radius, which for short lines c is c + c^3 / 24 +
3 c^5 / 640 and a little more (`way_at_least`). `mirror` has the vectors of the points of a tree, and boxes
around those of each block; it is made from the tree, layer by layer as these are packed. A vector is good to
3 units in 1e16, a difference of two to a few nanometres on the ground: `TINY` and `SHORTER` make up for it
many times over.
"""

from __future__ import annotations

import math

import numpy as np
from numba import njit

from rankcast.moving.kernels.rtree import BRANCH, INNER_BASE, LEAF_BASE, Floats, Rtree
from rankcast.structures.distance import EARTH_RADIUS
from rankcast.structures.jit import EXACT

AXES = 3
SHORTER, TINY = 1 - 1e-9, 1e-6  # a share, and metres
SHORT = 0.1  # lines up to which the series is good to a share of 1e-9


@njit(**EXACT)
def unit_vector(x: float, y: float, out: Floats) -> None:
    """The unit vector of a longitude and a latitude."""
    across = math.cos(math.radians(y))
    out[0] = across * math.cos(math.radians(x))
    out[1] = across * math.sin(math.radians(x))
    out[2] = math.sin(math.radians(y))


@njit(**EXACT)
def way_at_least(chord: float) -> float:
    """The way in metres between places whose vectors are so far apart, or a little less."""
    square = chord * chord
    arc = chord * (1.0 + square * (1 / 24 + square * (3 / 640)))
    if chord > SHORT:
        arc = 2.0 * math.asin(min(1.0, 0.5 * chord))
    return max(0.0, arc * (EARTH_RADIUS * SHORTER) - TINY)


@njit(**EXACT)
def mirror(tree: Rtree, layer: int, point: Floats, low: Floats, high: Floats) -> None:
    """Write the vectors of a layer that has points, and their boxes. Cost: O(points)."""
    spot = np.empty(AXES)
    leaves = (tree.filled[layer] + BRANCH - 1) // BRANCH
    for leaf in range(LEAF_BASE[layer], LEAF_BASE[layer] + leaves):
        for slot in range(BRANCH):
            if tree.row[leaf, slot] >= 0:
                unit_vector(tree.point[leaf, 0, slot], tree.point[leaf, 1, slot], spot)
                point[leaf, :, slot] = spot
    blocks, block = leaves, INNER_BASE[layer]
    while True:
        blocks = (blocks + BRANCH - 1) // BRANCH
        for b in range(block, block + blocks):
            first = np.int64(tree.first[b])
            for slot in range(tree.width[b]):
                for axis in range(AXES):
                    least, most = np.inf, -np.inf
                    if first >= 0:
                        for j in range(BRANCH):
                            if tree.row[first + slot, j] >= 0:
                                least = min(least, point[first + slot, axis, j])
                                most = max(most, point[first + slot, axis, j])
                    else:
                        child = ~first + slot
                        for j in range(tree.width[child]):
                            least = min(least, low[child, axis, j])
                            most = max(most, high[child, axis, j])
                    low[b, axis, slot], high[b, axis, slot] = least, most
        block += blocks
        if blocks == 1:
            return
