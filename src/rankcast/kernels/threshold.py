"""Exact and relaxed matching over one scored cursor a dimension [Ranked §1, §4].

Exact: all cursors run in the same order (score, label), so their intersection comes out best first: the
cursor that is behind moves on, and where all heads are one row, that row matches. Relaxed: the Threshold
Algorithm reads the cursors in turn; each row seen for the first time is scored by random access to its other
dimensions, and the search ends when the k-th score is above what the heads together could still give.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.box_tree_pack import Columns
from rankcast.kernels.box_tree_relaxed import weigh
from rankcast.kernels.interval_routes import route_by_centres, route_by_segments
from rankcast.kernels.matches import LARGEST, Matches, append_list
from rankcast.kernels.options import EXACT
from rankcast.kernels.scored_heap import best_first, better, offer
from rankcast.kernels.scored_lists import Cursors, Lists, advance, head, open_cursor

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]
Longs = NDArray[np.int64]
ONE_LIST, CENTRES, SEGMENTS = range(3)


class Forest(NamedTuple):
    """The indexes of all dimensions: their lists, rows that came later, and ways to lists.

    Dimension j begins at list `base[j]`; `ends` are its slots from end_first[j] on, over `leaves[j]` leaves.
    """

    lists: Lists
    fresh: Lists
    home: NDArray[np.int8]
    base: Longs
    centre: Floats
    child: Rows
    ends: Floats
    end_first: Longs
    leaves: Longs
    kind: int
    branching: int


@njit(**EXACT)
def _route(forest: Forest, j: int, below: float, above: float, route: Longs) -> int:
    """The lists of dimension j that an event must read; the fresh one is ~j."""
    size, base = 1, forest.base[j]
    if forest.base[j + 1] == base:
        size = 0
    elif forest.kind == ONE_LIST:
        route[0] = base
    elif forest.kind == CENTRES:
        size = route_by_centres(forest.centre, forest.child, base, below, above, route)
    else:
        ends = forest.ends[forest.end_first[j] : forest.end_first[j + 1]]
        size = route_by_segments(forest.lists.first, ends, base, forest.leaves[j], below, above, route)
    route[size] = -1 - j
    return size + 1


@njit(**EXACT)
def _open(forest: Forest, below: Floats, above: Floats, e: int, cursors: Cursors) -> None:
    for j in range(below.shape[1]):
        cursors.size[j] = _route(forest, j, below[e, j], above[e, j], cursors.list_of[j])
        span = (below[e, j], above[e, j], forest.branching)
        open_cursor(forest.lists, forest.fresh, forest.home, cursors, j, span)


@njit(**EXACT)
def _step(forest: Forest, below: Floats, above: Floats, e: int, cursors: Cursors, j: int, slot: int) -> None:
    span = (below[e, j], above[e, j], forest.branching)
    advance(forest.lists, forest.fresh, forest.home, cursors, j, slot, span)


@njit(**EXACT)
def _intersect(
    forest: Forest,
    label: Longs,
    below: Floats,
    above: Floats,
    e: int,
    cursors: Cursors,
    best: tuple[Floats, Rows],
) -> tuple[int, int]:
    """The best rows that all cursors come to, best first; returns how many, and rows tried."""
    scores, rows = best
    size, tried, d = 0, 0, below.shape[1]
    while size < rows.shape[0]:
        behind, slot, key, row, same = 0, -1, 0.0, -1, True
        for j in range(d):
            found, its_key, its_row = head(forest.lists, forest.fresh, label, cursors, j)
            if found < 0:
                return size, tried
            same &= j == 0 or its_row == row
            if j == 0 or better(label, its_key, its_row, key, row):
                behind, slot, key, row = j, found, its_key, its_row
        tried += 1
        if same and (size == 0 or rows[size - 1] != row):
            scores[size], rows[size] = key, row
            size += 1
        _step(forest, below, above, e, cursors, behind, slot)
    return size, tried


@njit(**EXACT)
def _threshold(
    forest: Forest, columns: Columns, below: Floats, above: Floats, e: int, cursors: Cursors,
    best: tuple[Floats, Rows], seen: Longs, largest: bool,
) -> tuple[int, int]:  # fmt: skip
    """Fill a heap with the rows of the best combined weights; returns its size, and rows tried."""
    scores, rows = best
    size, tried, d = 0, 0, below.shape[1]
    while True:
        most = 0.0
        for j in range(d):
            slot, key, row = head(forest.lists, forest.fresh, columns.label, cursors, j)
            if slot < 0:
                continue
            most = max(most, key) if largest else most + key
            if seen[row] != e + 1:
                seen[row] = e + 1
                tried += 1
                score = weigh(columns, row, below, above, e, largest)
                if score > 0.0:
                    size = offer(columns.label, scores, rows, size, score, row)
            _step(forest, below, above, e, cursors, j, slot)
        if most <= 0.0 or (size == rows.shape[0] and scores[0] > most):
            return size, tried


@njit(**EXACT)
def search(
    forest: Forest, columns: Columns, below: Floats, above: Floats, order: Longs, limits: tuple[int, int, int]
) -> Matches:
    """The k best rows for each of the events in `order`.

    `limits` are k, room for the lists of one cursor, and how to match: 0 exact, 1 sum, 2 maximum.
    """
    k, room, relaxed = limits
    d, best = below.shape[1], (np.empty(k), np.empty(k, np.int32))
    seen = np.zeros(columns.lo.shape[0] if relaxed else 0, np.int64)
    cursors = Cursors(
        np.empty((d, room), np.int64),
        np.empty((d, room), np.int64),
        np.zeros(d, np.int64),
        np.zeros(1, np.int64),
    )
    start, number = np.zeros(below.shape[0], np.int64), np.zeros(below.shape[0], np.int64)
    row, score, used, tried = np.empty(16, np.int32), np.empty(16), 0, 0
    for e in order:
        _open(forest, below, above, e, cursors)
        if relaxed:
            size, more = _threshold(forest, columns, below, above, e, cursors, best, seen, relaxed == LARGEST)
            best_first(columns.label, best[0], best[1], size)
        else:
            size, more = _intersect(forest, columns.label, below, above, e, cursors, best)
        tried += more
        row, score = append_list(row, score, used, best[1][:size], best[0][:size])
        start[e], number[e] = used, size
        used += size
    return Matches(start, number, row, score, tried, cursors.looked[0])
