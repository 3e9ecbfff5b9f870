"""Exact and relaxed matching over one scored cursor a dimension [Ranked §1, §4].

A cursor merges the lists of an event in one dimension by their heads. Exact: all cursors run in the same
order (score, label), so their intersection comes out best first: the cursor that is behind moves on, and
where all heads are one row, that row matches. Relaxed: the Threshold Algorithm reads the cursors in turn;
each row seen for the first time is scored by random access to its other dimensions, and the search ends when
the k-th score is above what the heads together could still give.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.box_tree_pack import Columns
from rankcast.kernels.interval_routes import route_by_centres, route_by_segments
from rankcast.kernels.matches import ALL, LARGEST, Floats, Longs, Matches, Rows, append_list
from rankcast.kernels.options import EXACT
from rankcast.kernels.scored_heap import best_first, better, offer
from rankcast.kernels.scored_lists import Lists

ONE_LIST, CENTRES, SEGMENTS = range(3)


class Forest(NamedTuple):
    """The indexes of all dimensions: their lists, which rows count there, and ways to lists.

    Dimension j begins at list `base[j]`; `ends` are its slots from end_first[j] on, over `leaves[j]` leaves.
    """

    lists: Lists
    packed: NDArray[np.bool_]
    base: Longs
    centre: Floats
    child: Rows
    ends: Floats
    end_first: Longs
    leaves: Longs
    kind: int
    branching: int


class Limits(NamedTuple):
    """How many rows an event wants, room for the lists of one cursor, and how to match."""

    k: int
    room: int
    mode: int


@njit(**EXACT)
def _route(forest: Forest, j: int, below: float, above: float, route: Longs) -> int:
    """The lists of dimension j that an event must read; returns how many."""
    base = forest.base[j]
    if forest.base[j + 1] == base:
        return 0
    if forest.kind == CENTRES:
        return route_by_centres(forest.centre, forest.child, base, below, above, route)
    if forest.kind == SEGMENTS:
        ends = forest.ends[forest.end_first[j] : forest.end_first[j + 1]]
        return route_by_segments(forest.lists.first, ends, base, forest.leaves[j], below, above, route)
    route[0] = base
    return 1


@njit(**EXACT)
def search(
    forest: Forest, columns: Columns, below: Floats, above: Floats, order: Longs, limits: Limits
) -> Matches:
    """The k best rows for each of the events in `order`.

    A step settles one list on its next entry that the event meets: at first every list, then the one whose
    head was read. In one body: a helper that takes arrays would count references at every step, which costs
    more than a step.
    """
    first, row_of, key_of, los, his = (
        forest.lists.first,
        forest.lists.row,
        forest.lists.key,
        forest.lists.lo,
        forest.lists.hi,
    )
    group, extent_lo, extent_hi = forest.lists.group, forest.lists.extent_lo, forest.lists.extent_hi
    lo, hi, weight, label, packed = columns.lo, columns.hi, columns.weight, columns.label, forest.packed
    k, d, branching, mode = limits.k, below.shape[1], forest.branching, limits.mode
    listed, place = np.empty((d, limits.room), np.int64), np.empty((d, limits.room), np.int64)
    keys, heads = np.empty((d, limits.room)), np.empty((d, limits.room), np.int32)
    sizes, tops = np.empty(d, np.int64), np.empty(d, np.int64)
    seen = np.zeros(columns.lo.shape[0] if mode != ALL else 0, np.int32)
    scores, rows = np.empty(k), np.empty(k, np.int32)
    start, number = np.zeros(below.shape[0], np.int64), np.zeros(below.shape[0], np.int64)
    found_row, found_score, used, tried, looked = np.empty(16, np.int32), np.empty(16), 0, 0, 0
    for e in order:
        for j in range(d):
            sizes[j] = _route(forest, j, below[e, j], above[e, j], listed[j])
        size, j, s, opening, most = 0, 0, 0, True, 0.0
        while True:
            if opening:  # the next list that has not been settled
                while j < d and s == sizes[j]:
                    tops[j] = 0
                    for t in range(1, sizes[j]):
                        if better(label, keys[j, t], heads[j, t], keys[j, tops[j]], heads[j, tops[j]]):
                            tops[j] = t
                    j, s = j + 1, 0
                if j == d:
                    opening, j = False, 0
                    continue
                at = first[listed[j, s]]
            elif mode == ALL:  # the cursor with the best head is behind, or all are at one row
                j, same = 0, True
                for t in range(d):
                    if sizes[t] == 0:
                        j = -1
                        break
                    row = heads[t, tops[t]]
                    same &= row == heads[0, tops[0]]
                    if better(label, keys[t, tops[t]], row, keys[j, tops[j]], heads[j, tops[j]]):
                        j = t
                if j < 0 or size == k:
                    break
                tried, s = tried + 1, tops[j]
                if same and (size == 0 or rows[size - 1] != heads[j, s]):
                    scores[size], rows[size] = keys[j, s], heads[j, s]
                    size += 1
                at = place[j, s] + 1
            else:  # the cursors in turn; a round tells what is still possible
                if j == d:
                    if most <= 0.0 or (size == k and scores[0] > most):
                        break
                    j, most = 0, 0.0
                if sizes[j] == 0:
                    j += 1
                    continue
                s = tops[j]
                row, key = heads[j, s], keys[j, s]
                most = max(most, key) if mode == LARGEST else most + key
                if seen[row] != e + 1:
                    seen[row] = e + 1
                    tried += 1
                    total = 0.0
                    for t in range(d):
                        if lo[row, t] <= below[e, t] and hi[row, t] >= above[e, t]:
                            total = max(total, weight[row, t]) if mode == LARGEST else total + weight[row, t]
                    if total > 0.0 and (size < k or total >= scores[0]):
                        size = offer(label, scores, rows, size, total, row)
                at = place[j, s] + 1
            each = listed[j, s]
            begin, end = first[each], first[each + 1]
            beneath, over, met = below[e, j], above[e, j], False
            while at < end and not met:
                if los.shape[0] == 0:
                    met = packed[row_of[at]]
                    at += not met
                    continue
                i = at - begin
                within = i % branching
                if within == 0 and group.shape[1] > 0 and group[each, 0] >= 0:
                    height, width = 1, branching  # the largest groups that begin here, then smaller ones
                    while (
                        height < group.shape[1] and group[each, height] >= 0 and i % (width * branching) == 0
                    ):
                        height, width = height + 1, width * branching
                    while height > 0:
                        node = group[each, height - 1] + i // width
                        looked += 1
                        if extent_lo[node] > beneath or extent_hi[node] < over:
                            break
                        height, width = height - 1, width // branching
                    if height > 0:
                        at += width
                        continue
                stop = min(end, at - within + branching)
                while at < stop:
                    looked += 1
                    if los[at] <= beneath and his[at] >= over and packed[row_of[at]]:
                        met = True
                        break
                    at += 1
            if met:
                place[j, s], keys[j, s], heads[j, s] = at, key_of[at], row_of[at]
                s += 1
            else:
                sizes[j] -= 1
                last = sizes[j]
                listed[j, s], place[j, s] = listed[j, last], place[j, last]
                keys[j, s], heads[j, s] = keys[j, last], heads[j, last]
            if not opening:
                tops[j] = 0
                for t in range(1, sizes[j]):
                    if better(label, keys[j, t], heads[j, t], keys[j, tops[j]], heads[j, tops[j]]):
                        tops[j] = t
                j += mode != ALL
        if mode != ALL:
            best_first(label, scores, rows, size)
        found_row, found_score = append_list(found_row, found_score, used, rows[:size], scores[:size])
        start[e], number[e] = used, size
        used += size
    return Matches(start, number, found_row, found_score, tried, looked)
