"""An R-tree opened for many queries at once: entries in flat arrays.

For scores that only Python can compute: it is given all children of all open blocks in one call. The first
columns of the tree are x and y; which columns follow that count is up to the caller.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.moving.kernels.rtree import BRANCH, Rtree, root_of
from rankcast.moving.kernels.rtree_search import Queries, child_distance, may_pass, passes
from rankcast.moving.kernels.zone_scores import Floats, Ints
from rankcast.structures.distance import distance
from rankcast.structures.jit import EXACT

Bools = NDArray[np.bool_]


class Entries(NamedTuple):
    """What queries see: `child` is a leaf, or the complement of an inner block; of points, their row."""

    query: Ints
    child: Ints
    values: Floats
    distance: Floats


class Corner(NamedTuple):
    """The columns that count, from `first` on, and in which of them the upper end of a box is the best."""

    first: int
    upper: Bools


@njit(**EXACT)
def roots(tree: Rtree, queries: int) -> tuple[Ints, Ints]:
    """Every root for every query."""
    layers = np.flatnonzero(tree.count > 0)
    query, block = np.empty(queries * layers.size, np.int64), np.empty(queries * layers.size, np.int64)
    for i in range(queries):
        for j in range(layers.size):
            query[i * layers.size + j], block[i * layers.size + j] = i, root_of(tree, layers[j])
    return query, block


@njit(**EXACT)
def children(tree: Rtree, metric: int, queries: Queries, query: Ints, block: Ints, corner: Corner) -> Entries:
    """The children of blocks that may pass the filters: the best corner of each, and its least distance."""
    first_column, upper = corner
    most, size = query.size * BRANCH, 0
    found = Entries(
        np.empty(most, np.int64), np.empty(most, np.int64), np.empty((most, upper.size)), np.empty(most)
    )
    for n in range(query.size):
        i, b = query[n], block[n]
        first = np.int64(tree.first[b])
        for slot in range(tree.width[b]):
            if queries.filtered and not may_pass(tree, queries, i, b, slot):
                continue
            found.query[size] = i
            found.child[size] = first + slot if first >= 0 else ~(~first + slot)
            found.distance[size] = child_distance(
                tree.low, tree.high, metric, queries.x[i], queries.y[i], b, slot
            )
            for a in range(upper.size):
                side = tree.high if upper[a] else tree.low
                found.values[size, a] = side[b, first_column + a, slot]
            size += 1
    return Entries(found.query[:size], found.child[:size], found.values[:size], found.distance[:size])


@njit(**EXACT)
def points(tree: Rtree, metric: int, queries: Queries, query: Ints, leaf: Ints, corner: Corner) -> Entries:
    """The points of leaves that pass the filters."""
    first_column, upper = corner
    most, size = query.size * BRANCH, 0
    found = Entries(
        np.empty(most, np.int64), np.empty(most, np.int64), np.empty((most, upper.size)), np.empty(most)
    )
    for n in range(query.size):
        i, at = query[n], leaf[n]
        for slot in range(BRANCH):
            row = tree.row[at, slot]
            if row < 0 or (queries.filtered and not passes(tree, queries, i, at, slot)):
                continue
            found.query[size], found.child[size] = i, row
            found.distance[size] = distance(
                metric, queries.x[i], queries.y[i], tree.point[at, 0, slot], tree.point[at, 1, slot]
            )
            for a in range(upper.size):
                found.values[size, a] = tree.point[at, first_column + a, slot]
            size += 1
    return Entries(found.query[:size], found.child[:size], found.values[:size], found.distance[:size])
