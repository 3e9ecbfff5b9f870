"""Exact and relaxed matching over one scored cursor a dimension [Ranked §1, §4].

A cursor merges the lists of an event in one dimension by their heads. Exact: all cursors run in the same
order (score, label), so their intersection comes out best first: the cursor that is behind moves on, and
where all heads are one row, that row matches. Relaxed: the Threshold Algorithm reads the cursors in turn, the
rest of a leaf at a time; each row seen for the first time is scored by random access to its other dimensions,
and the search ends when the k-th score is above what the heads together could still give.

An entry tells at once what its row gives at best, in all dimensions together, and an inner one the best of
what is below it. Once k rows are found, what cannot reach the k-th score any more is passed over like what
the event does not meet: no random access for it, and heads fall sooner.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.matching.kernels.box_tree import Columns
from rankcast.matching.kernels.matches import (
    ALL,
    LARGEST,
    Answers,
    Floats,
    Longs,
    Matches,
    Rows,
    append_list,
    in_event_order,
)
from rankcast.papers.matching.scored_blocks import Blocks, begin_of
from rankcast.papers.matching.trees import route_by_centres, route_by_segments
from rankcast.structures.heap import best_first, better, offer
from rankcast.structures.jit import EXACT

ONE_LIST, CENTRES, SEGMENTS = range(3)


class Forest(NamedTuple):
    """The indexes of all dimensions: their blocks, which rows count there (none: all), and ways to lists.

    By list how many entries it has. Centres: `top` is the first node of a dimension, -1 if it has none.
    Segments: the nodes of dimension j count from `top[j]` on in `number`, over `leaves[j]` leaves; `ends` are
    its slots from `end_first[j]` on. With `leaps` blocks are passed over by what they hold.
    """

    blocks: Blocks
    present: NDArray[np.bool_]
    number: Rows
    centre: Floats
    child: Rows
    top: Rows
    ends: Floats
    end_first: Longs
    leaves: Longs
    kind: int
    leaps: bool


class Limits(NamedTuple):
    """How many rows an event wants, room for the lists of one cursor, and how to match.

    `plain`: the Threshold Algorithm as it was first published, cursors in turn and no bounds of rows.
    """

    k: int
    room: int
    mode: int
    plain: bool


@njit(**EXACT)
def _route(forest: Forest, j: int, below: float, above: float, route: Longs) -> int:
    """The lists of dimension j that an event must read; returns how many."""
    if forest.kind == CENTRES:
        if forest.top[j] < 0:
            return 0
        ways = forest.centre, forest.child, forest.number
        return route_by_centres(ways[0], ways[1], ways[2], forest.top[j], below, above, route)
    if forest.kind == SEGMENTS:
        ends = forest.ends[forest.end_first[j] : forest.end_first[j + 1]]
        number = forest.number[forest.top[j] : forest.top[j] + 2 * forest.leaves[j]]
        return route_by_segments(number, ends, forest.leaves[j], below, above, route)
    route[0] = 0
    return 1


@njit(**EXACT)
def search(forest: Forest, columns: Columns, limits: Limits, below: Floats, above: Floats) -> Answers:
    """The k best rows for each event with the ends `above` to `below`.

    A step settles one list on its next entry that is wanted: at first every list, then the one whose head, or
    in relaxed matching whose leaf from the head on, was read. In one body: a helper that takes arrays would
    count references at every step, which costs more than a step.
    """
    blocks, present, every, leaps = forest.blocks, forest.present, forest.present.shape[0] == 0, forest.leaps
    los, his, key_of, bounds, lists = blocks.lo, blocks.hi, blocks.key, blocks.bound, blocks.listed
    links, counts, heights, parents, roots = (
        blocks.link,
        blocks.size,
        blocks.height,
        blocks.parent,
        blocks.root,
    )
    lo, hi, weight, label = columns.lo, columns.hi, columns.weight, columns.label
    k, d, mode, always = limits.k, below.shape[1], limits.mode, los.shape[1] == 0
    plain = limits.plain
    listed, place = np.empty((d, limits.room), np.int64), np.empty((d, limits.room, 2), np.int64)
    keys, heads = np.empty((d, limits.room)), np.empty((d, limits.room), np.int32)
    sizes, tops = np.empty(d, np.int64), np.empty(d, np.int64)
    pace, wanted = np.empty(d), np.empty(links.shape[1], np.int32)
    seen = np.zeros(columns.lo.shape[0] if mode != ALL else 0, np.int32)
    scores, rows = np.empty(k), np.empty(k, np.int32)
    start, number = np.zeros(below.shape[0], np.int64), np.zeros(below.shape[0], np.int64)
    found_row, found_score, used, tried, looked = np.empty(16, np.int32), np.empty(16), 0, 0, 0
    for e in np.argsort(below[:, 0], kind="mergesort"):
        for j in range(d):
            sizes[j] = _route(forest, j, below[e, j], above[e, j], listed[j])
        size, j, s, opening, least = 0, 0, 0, True, -np.inf
        pace[:], before, waiting = 1.0, 0.0, 0
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
                block, i = begin_of(heights, counts, links, lists, roots[j], listed[j, s])
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
                block, i = place[j, s, 0], place[j, s, 1] + 1
            else:  # the cursors in turn, each the rest of the leaf at its head
                most = 0.0
                for t in range(d):
                    if sizes[t] > 0:
                        most = max(most, keys[t, tops[t]]) if mode == LARGEST else most + keys[t, tops[t]]
                if most <= 0.0 or least > most:
                    break
                if plain:  # the next one that is not at its end
                    j = (j + 1) % d
                    while sizes[j] == 0:
                        j = (j + 1) % d
                else:  # the one that fell most for what it cost
                    j = 0
                    for t in range(1, d):
                        if sizes[t] > 0 and (sizes[j] == 0 or pace[t] > pace[j]):
                            j = t
                s = tops[j]
                block, i, before, waiting = place[j, s, 0], place[j, s, 1], keys[j, s], 0
                each, beneath, over = listed[j, s], below[e, j], above[e, j]
                while i < counts[block] and lists[block, i] == each:
                    row = links[block, i]
                    if (
                        (always or (los[block, i] <= beneath and his[block, i] >= over))
                        and (plain or bounds[block, i] >= least)
                        and seen[row] != e + 1
                        and (every or present[row])
                    ):
                        seen[row], wanted[waiting] = e + 1, row
                        waiting += 1
                    i += 1
                looked, tried = looked + i - place[j, s, 1], tried + waiting
                for at in range(waiting):  # without a branch a dimension, so that rows are fetched together
                    row, total = wanted[at], 0.0
                    for t in range(d):
                        meets = (lo[row, t] <= below[e, t]) & (hi[row, t] >= above[e, t])
                        given = weight[row, t] * meets
                        total = max(total, given) if mode == LARGEST else total + given
                    if total > 0.0 and total >= least:
                        size = offer(label, scores, rows, size, total, row)
                        least = scores[0] if size == k else least
            each, beneath, over, met, more = listed[j, s], below[e, j], above[e, j], False, True
            while more and not met:
                while i < counts[block]:
                    if lists[block, i] != each:
                        more = False
                        break
                    looked += 1
                    if always or (los[block, i] <= beneath and his[block, i] >= over):
                        row = links[block, i]
                        met = (every or present[row]) and (
                            mode == ALL or ((plain or bounds[block, i] >= least) and seen[row] != e + 1)
                        )
                        if met:
                            break
                    i += 1
                while more and not met:  # up to what follows, and down to its first leaf that may hold more
                    if i == counts[block]:
                        child, block, i = block, parents[block], 0
                        if block < 0:
                            more = False
                            break
                        while links[block, i] != child:
                            i += 1
                        i += 1
                        continue
                    if lists[block, i] > each:
                        more = False
                        break
                    looked += 1
                    if leaps and not (
                        (always or (los[block, i] <= beneath and his[block, i] >= over))
                        and (mode == ALL or plain or bounds[block, i] >= least)
                    ):
                        i += 1
                        continue
                    block, i = links[block, i], 0
                    if heights[block] == 0:
                        break
            if met:
                place[j, s, 0], place[j, s, 1] = block, i
                keys[j, s], heads[j, s] = key_of[block, i], links[block, i]
                s += 1
            else:
                sizes[j] -= 1
                last = sizes[j]
                listed[j, s], place[j, s, 0], place[j, s, 1] = (
                    listed[j, last],
                    place[j, last, 0],
                    place[j, last, 1],
                )
                keys[j, s], heads[j, s] = keys[j, last], heads[j, last]
            if not opening:
                tops[j] = 0
                for t in range(1, sizes[j]):
                    if better(label, keys[j, t], heads[j, t], keys[j, tops[j]], heads[j, tops[j]]):
                        tops[j] = t
                if mode != ALL:
                    after = keys[j, tops[j]] if sizes[j] > 0 else 0.0
                    pace[j] = 0.5 * pace[j] + 0.5 * (before - after) / (1.0 + waiting)
        if mode != ALL:
            best_first(label, scores, rows, size)
        found_row, found_score = append_list(found_row, found_score, used, rows[:size], scores[:size])
        start[e], number[e] = used, size
        used += size
    return in_event_order(Matches(start, number, found_row, found_score, tried, looked))
