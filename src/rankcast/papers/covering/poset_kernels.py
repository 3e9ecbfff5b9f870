"""The strict poset: covering relations with none between, for comparison [Covering §III-D, figure 4].

Rows are ordered by containment, equal boxes by registration. Of all pairs only those are edges that have no
row between them; every other relation is a path. An edge stands in two chains: of those that leave its source
(OUT) and of those that enter its target (IN).

A row that goes frees no others than those right below it, and equal ones that it covered because it was
forwarded first; these look for a forwarded row around them, containers first, as for G_1.

Cost: O(n d) and the square of the relations of a row, for each row that comes or goes. That is what makes the
poset the most expensive graph.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels.buckets import (
    COVERED,
    FORWARDED,
    GONE,
    NOBODY,
    POINTS,
    Box,
    Index,
    World,
    ask,
    covers,
    same_box,
)
from rankcast.covering.kernels.full import waiting
from rankcast.covering.kernels.index import find, insert, remove
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
NONE = -1
OUT, IN = range(2)
SOURCE, TARGET, AFTER, BEFORE, FIELDS = 0, 1, 2, 4, 6  # AFTER + OUT, AFTER + IN, BEFORE + OUT, BEFORE + IN
USED, FREE, LIVE, WANTED, META = range(5)


class Poset(NamedTuple):
    """The indexes over forwarded and over covered boxes, the edges, and the first of each row's chains."""

    front: Index
    back: Index
    edge: Rows
    first: Rows
    meta: NDArray[np.int64]


@njit(**EXACT)
def _above(world: World, one: int, other: int) -> bool:
    """Whether a row stands above another: it contains it and, if equal, was registered before."""
    if one == other or not covers(world, one, Box(world.lo, world.hi), other, NOBODY):
        return False
    return not same_box(world, one, other) or world.sequence[one] < world.sequence[other]


@njit(**EXACT)
def _link(poset: Poset, source: int, target: int) -> None:
    edge, edges, first = poset.meta[FREE], poset.edge, poset.first
    if edge != NONE:
        poset.meta[FREE] = edges[edge, AFTER]
    else:
        edge = poset.meta[USED]
        poset.meta[USED] += 1
    poset.meta[LIVE] += 1
    edges[edge, SOURCE], edges[edge, TARGET] = source, target
    for chain in range(2):
        follower = first[edges[edge, chain], chain]
        edges[edge, AFTER + chain], edges[edge, BEFORE + chain] = follower, NONE
        first[edges[edge, chain], chain] = edge
        if follower != NONE:
            edges[follower, BEFORE + chain] = edge


@njit(**EXACT)
def _unlink(poset: Poset, edge: int) -> None:
    edges, first = poset.edge, poset.first
    for chain in range(2):
        after, before = edges[edge, AFTER + chain], edges[edge, BEFORE + chain]
        if before != NONE:
            edges[before, AFTER + chain] = after
        else:
            first[edges[edge, chain], chain] = after
        if after != NONE:
            edges[after, BEFORE + chain] = before
    edges[edge, AFTER], poset.meta[FREE] = poset.meta[FREE], edge
    poset.meta[LIVE] -= 1


@njit(**EXACT)
def ends(poset: Poset, row: int, chain: int) -> Rows:
    """The rows right below a row (OUT) or right above it (IN)."""
    count, edge = 0, poset.first[row, chain]
    while edge != NONE:
        count += 1
        edge = poset.edge[edge, AFTER + chain]
    found, edge = np.empty(count, np.int32), poset.first[row, chain]
    for i in range(count):
        found[i] = poset.edge[edge, 1 - chain]
        edge = poset.edge[edge, AFTER + chain]
    return found


@njit(**EXACT)
def _all_above(poset: Poset, world: World, row: int) -> Rows:
    """All rows that stand above a row."""
    found = np.empty(poset.front.meta[POINTS] + poset.back.meta[POINTS] + 1, np.int32)
    query, kept = ask(Box(world.lo, world.hi), row, NOBODY), 0
    count = find(poset.back, world, query, found, find(poset.front, world, query, found, np.int64(0)))
    for i in range(count):
        if _above(world, found[i], row):
            found[kept] = found[i]
            kept += 1
    return found[:kept]


@njit(**EXACT)
def _all_below(poset: Poset, world: World, row: int) -> Rows:
    """All rows that stand below a row. Cost: O(n d)."""
    found, count = np.empty(min(poset.first.shape[0], world.standing.shape[0]), np.int32), 0
    for other in range(found.shape[0]):
        if world.standing[other] != GONE and _above(world, row, other):
            found[count] = other
            count += 1
    return found[:count]


@njit(**EXACT)
def _nearest(world: World, rows: Rows, chain: int) -> Rows:
    """Of rows above (IN) or below (OUT) one row those with none of the others between."""
    near, count = np.empty(rows.shape[0], np.int32), 0
    for one in rows:
        between = False
        for other in rows:
            if _above(world, one, other) if chain == IN else _above(world, other, one):
                between = True
                break
        if not between:
            near[count] = one
            count += 1
    return near[:count]


@njit(**EXACT)
def _has_room(poset: Poset, edges: int) -> bool:
    """Whether so many edges can be added; if not, notes how many are wanted."""
    poset.meta[WANTED] = edges
    return poset.edge.shape[0] - poset.meta[LIVE] >= edges


@njit(**EXACT)
def _attach(poset: Poset, world: World, row: int) -> bool:
    """Enter a row between its nearest rows, edges past it becoming paths; False if there is no room."""
    parents = _nearest(world, _all_above(poset, world, row), IN)
    children = _nearest(world, _all_below(poset, world, row), OUT)
    if not _has_room(poset, parents.shape[0] + children.shape[0]):
        return False
    poset.first[row, OUT], poset.first[row, IN] = NONE, NONE
    for parent in parents:
        edge = poset.first[parent, OUT]
        while edge != NONE:
            after = poset.edge[edge, AFTER + OUT]
            if _above(world, row, poset.edge[edge, TARGET]):
                _unlink(poset, edge)
            edge = after
        _link(poset, parent, row)
    for child in children:
        _link(poset, row, child)
    return True


@njit(**EXACT)
def _detach(poset: Poset, world: World, row: int) -> bool:
    """Take a row out, its parents and children being neighbours now unless another way leads there."""
    parents, children = ends(poset, row, IN), ends(poset, row, OUT)
    if not _has_room(poset, parents.shape[0] * children.shape[0]):
        return False
    for chain in range(2):
        while poset.first[row, chain] != NONE:
            _unlink(poset, poset.first[row, chain])
    for parent in parents:
        others = ends(poset, parent, OUT)
        for child in children:
            apart = True
            for other in others:
                if _above(world, other, child):
                    apart = False
                    break
            if apart:
                _link(poset, parent, child)
    return True


@njit(**EXACT)
def subscribe(poset: Poset, world: World, rows: Rows, covered_by: Rows, start: int) -> int:
    """Register rows from `start` on and tell who covers each; return how far, less if room must be made."""
    found, box = np.empty(1, np.int32), Box(world.lo, world.hi)
    for i in range(start, rows.shape[0]):
        row = rows[i]
        if waiting(poset) or not _attach(poset, world, row):
            return i
        if find(poset.front, world, ask(box, row, row), found, np.int64(0)) == 0:
            world.standing[row], covered_by[i] = FORWARDED, NONE
            insert(poset.front, world, row)
        else:
            world.standing[row], covered_by[i] = COVERED, found[0]
            insert(poset.back, world, row)
    return rows.shape[0]


@njit(**EXACT)
def enter(poset: Poset, world: World, rows: Rows, start: int) -> int:
    """Enter rows as covered ones; return how far."""
    for i in range(start, rows.shape[0]):
        if waiting(poset) or not _attach(poset, world, rows[i]):
            return i
        world.standing[rows[i]] = COVERED
        insert(poset.back, world, rows[i])
    return rows.shape[0]


@njit(**EXACT)
def take_out(poset: Poset, world: World, rows: Rows, start: int) -> int:
    """Remove rows; return how far."""
    for i in range(start, rows.shape[0]):
        if not _detach(poset, world, rows[i]):
            return i
        remove(poset.back if world.standing[rows[i]] == COVERED else poset.front, world, rows[i])
        world.standing[rows[i]] = GONE
    return rows.shape[0]


@njit(**EXACT)
def dependants(poset: Poset, world: World, rows: Rows) -> Rows:
    """Covered rows that may need another cover if rows go: right below them, or above them and equal."""
    touched = np.zeros(poset.first.shape[0], np.bool_)
    for row in rows:
        for other in ends(poset, row, OUT):
            touched[other] = True
        for other in _all_above(poset, world, row):
            touched[other] |= same_box(world, other, row)
    found = np.flatnonzero(touched).astype(np.int32)
    return found[world.standing[found] == COVERED]


@njit(**EXACT)
def exposed(poset: Poset, world: World, rows: Rows) -> Rows:
    """Those of covered rows that no forwarded row covers."""
    bare, count, one, box = np.empty_like(rows), 0, np.empty(1, np.int32), Box(world.lo, world.hi)
    for row in rows:
        if find(poset.front, world, ask(box, row, row), one, np.int64(0)) == 0:
            bare[count] = row
            count += 1
    return bare[:count]


@njit(**EXACT)
def resettle(poset: Poset, world: World, rows: Rows, start: int) -> int:
    """Forward those of covered rows, containers first, that no forwarded row covers; return how far."""
    one, box = np.empty(1, np.int32), Box(world.lo, world.hi)
    for i in range(start, rows.shape[0]):
        if waiting(poset):
            return i
        if find(poset.front, world, ask(box, rows[i], rows[i]), one, np.int64(0)) == 0:
            remove(poset.back, world, rows[i])
            world.standing[rows[i]] = FORWARDED
            insert(poset.front, world, rows[i])
    return rows.shape[0]
