"""The full relation graph G*: every covering relation counts [Covering §III-A].

Its edges are all pairs in which one box covers another, so they need not be stored: what matters is how many
lead to a covered row, `degree`. A row that comes or goes changes the degree of every row in its box; a
covered row whose degree falls to 0 is free. One that is leaving counts no more, but what lies in it is not
free yet.

Cost: O(n d) for each row that comes or goes. That is what makes G* the expensive graph.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels.buckets import (
    COVERED,
    FORWARDED,
    LEAVING,
    NOBODY,
    POINTS,
    Box,
    Index,
    World,
    ask,
    covers,
)
from rankcast.covering.kernels.index import find, insert, remove, unready
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
NONE = -1


class FullGraph(NamedTuple):
    """The degrees by row, and the indexes over forwarded and over covered boxes."""

    front: Index
    back: Index
    degree: Rows


@njit(**EXACT)
def _coverers(graph: FullGraph, world: World, row: int) -> Rows:
    """All rows that cover a row."""
    found = np.empty(graph.front.meta[POINTS] + graph.back.meta[POINTS] + 1, np.int32)
    query = ask(Box(world.lo, world.hi), row, row)
    count = find(graph.front, world, query, found, np.int64(0))
    return found[: find(graph.back, world, query, found, count)]


@njit(**EXACT)
def count_in(graph: FullGraph, world: World, row: int, change: int) -> None:
    """Change the degree of every covered row that a row covers."""
    box = Box(world.lo, world.hi)
    for other in range(min(graph.degree.shape[0], world.standing.shape[0])):
        if world.standing[other] == COVERED and covers(world, row, box, other, other):
            graph.degree[other] += change


@njit(**EXACT)
def waiting(graph: FullGraph) -> bool:
    """Whether the owner must make room before the next row."""
    return unready(graph.front) or unready(graph.back)


@njit(**EXACT)
def subscribe(graph: FullGraph, world: World, rows: Rows, covered_by: Rows, start: int) -> int:
    """Register rows from `start` on and tell who covers each; return how far, less if room must be made."""
    for i in range(start, rows.shape[0]):
        if waiting(graph):
            return i
        row = rows[i]
        found = _coverers(graph, world, row)
        graph.degree[row] = found.shape[0]
        world.standing[row] = COVERED if found.shape[0] > 0 else FORWARDED
        covered_by[i] = found[0] if found.shape[0] > 0 else NONE
        count_in(graph, world, row, 1)
        insert(graph.back if found.shape[0] > 0 else graph.front, world, row)
    return rows.shape[0]


@njit(**EXACT)
def take_out(graph: FullGraph, world: World, rows: Rows, standing: int) -> None:
    """Remove rows from the indexes, count them out unless that is done, and give them another standing."""
    for row in rows:
        if world.standing[row] != LEAVING:
            count_in(graph, world, row, -1)
        remove(graph.back if world.standing[row] == COVERED else graph.front, world, row)
        world.standing[row] = standing


@njit(**EXACT)
def enter(graph: FullGraph, world: World, rows: Rows, start: int) -> int:
    """Enter covered rows into the index of covered boxes; return how far."""
    for i in range(start, rows.shape[0]):
        if unready(graph.back):
            return i
        insert(graph.back, world, rows[i])
    return rows.shape[0]


@njit(**EXACT)
def recount(graph: FullGraph, world: World, rows: Rows) -> None:
    """Count entered rows in, and what covers them."""
    for row in rows:
        count_in(graph, world, row, 1)
    for row in rows:
        graph.degree[row] = _coverers(graph, world, row).shape[0]


@njit(**EXACT)
def free_rows(graph: FullGraph, world: World, row: int) -> Rows:
    """Covered rows that nothing covers and that lie in no leaving row, unless that is the given one."""
    rows = np.arange(min(graph.degree.shape[0], world.standing.shape[0])).astype(np.int32)
    standing = world.standing[: rows.shape[0]]
    leaving = rows[standing == LEAVING]
    free = rows[(standing == COVERED) & (graph.degree[: rows.shape[0]] == 0)]
    box, count = Box(world.lo, world.hi), 0
    for each in free:
        held = False
        for other in leaving:
            held = held or (other != row and covers(world, other, box, each, NOBODY))
        if not held:
            free[count] = each
            count += 1
    return free[:count]


@njit(**EXACT)
def forward(graph: FullGraph, world: World, rows: Rows, start: int) -> int:
    """Forward covered rows; return how far."""
    for i in range(start, rows.shape[0]):
        if waiting(graph):
            return i
        remove(graph.back, world, rows[i])
        world.standing[rows[i]] = FORWARDED
        insert(graph.front, world, rows[i])
    return rows.shape[0]


@njit(**EXACT)
def coverers(front: Index, world: World, rows: Rows) -> Rows:
    """For each row one that covers it, or NONE; what only leaving ones contain is covered by one of those."""
    found, one = np.full(rows.shape[0], NONE, np.int32), np.empty(2, np.int32)
    box = Box(world.lo, world.hi)
    for i in range(rows.shape[0]):
        one[0] = NONE
        if world.standing[rows[i]] == COVERED:
            if find(front, world, ask(box, rows[i], rows[i]), one[:1], np.int64(0)) == 0:
                find(front, world, ask(box, rows[i], NOBODY), one[:1], np.int64(0))
            found[i] = one[0]
    return found


@njit(**EXACT)
def containing(front: Index, back: Index, world: World, box: Box, found: Rows) -> None:
    """For each box up to found.shape[1] live rows that contain it, forwarded ones first."""
    for place in range(found.shape[0]):
        query = ask(box, place, NOBODY)
        count = find(front, world, query, found[place], np.int64(0))
        find(back, world, query, found[place], count)
