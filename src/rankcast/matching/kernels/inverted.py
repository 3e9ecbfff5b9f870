"""Subscriptions that bound a few of many attributes: each filed under its own attributes, all on one line.

Attribute j has the part [j, j + 1) of a line; `cuts`, quantiles of its ends, say where in it a value lies. A
subscription is filed as its interval in one attribute (exact: the rarest) or in each attribute
with a weight (relaxed); one that nothing keeps from a match, at the end of the line, where every event is.
So an event is some points on the line, in ascending order (short intervals where the event is one, none where
it is unknown), and what it may match are the entries that hold any of them. Entries live in a box tree of one
dimension; a block is read once for all points of an event. Candidates are compared exactly, in the attributes
that count for them.

[Ranked §6] leaves hundreds of attributes to the future. Cost of an event: O(d), and the blocks on the paths
to its points, layer by layer until the k best are known. Attributes that a subscription leaves open cost it
nothing.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.matching.kernels.box_search import DEPTH
from rankcast.matching.kernels.box_tree import LAYERS, BoxTree, Columns, encode, most_of
from rankcast.matching.kernels.matches import ALL, LARGEST, Answers, Floats, Longs, Rows, append_list
from rankcast.structures.heap import best_first, offer
from rankcast.structures.jit import EXACT

BUCKETS = 1024


class Filed(NamedTuple):
    """By row: the attributes that count, as many as `number`; whether it is filed at the end of the line.

    By entry: its ends on the line (entries, 1) and its score. Entry row * e + s is the s-th of a row, e being
    1 in exact matching and the width of `attribute` in relaxed matching.
    """

    number: NDArray[np.int16]
    attribute: NDArray[np.int16]
    always: NDArray[np.bool_]
    lo: Floats
    hi: Floats
    score: Floats


class Points(NamedTuple):
    """An event on the line, as codes that ascend; and by bucket of codes, the first that may matter."""

    below: Longs
    above: Longs
    first: Longs


@njit(**EXACT)
def position(cuts: Floats, j: int, value: float) -> float:
    """Where a value of attribute j lies on the line. It never falls when the value grows."""
    count = cuts.shape[1]
    if value == -np.inf:
        return float(j)
    if value == np.inf:
        return j + (count + 2.0) / (count + 3.0)
    cell, beyond, part = 0, count, 0.0
    while cell < beyond:
        middle = (cell + beyond) // 2
        if cuts[j, middle] <= value:
            cell = middle + 1
        else:
            beyond = middle
    if 0 < cell < count:
        width = cuts[j, cell] - cuts[j, cell - 1]
        if width < np.inf:
            part = min((value - cuts[j, cell - 1]) / width, 0.999)
    return j + (cell + 1.0 + part) / (count + 3.0)


@njit(**EXACT)
def counts(columns: Columns, row: int, j: int, relaxed: bool) -> bool:
    """Whether attribute j of a row counts: it has a bound, or in relaxed matching a weight."""
    if relaxed:
        return columns.weight[row, j] > 0.0
    return columns.lo[row, j] > -np.inf or columns.hi[row, j] < np.inf


@njit(**EXACT)
def count_attributes(columns: Columns, rows: Rows, relaxed: bool) -> Longs:
    """How many attributes count for each of the rows. O(d) a row."""
    number = np.zeros(rows.shape[0], np.int64)
    for place in range(rows.shape[0]):
        for j in range(columns.lo.shape[1]):
            number[place] += counts(columns, rows[place], j, relaxed)
    return number


@njit(**EXACT)
def entries_of(filed: Filed, rows: Rows, relaxed: bool) -> Rows:
    """The entries of rows that are filed."""
    each = filed.lo.shape[0] // filed.number.shape[0]
    entries, size = np.empty(rows.shape[0] * each, np.int32), 0
    for row in rows:
        listed = filed.number[row] if relaxed and not filed.always[row] else 1
        for slot in range(listed):
            entries[size] = row * each + slot
            size += 1
    return entries[:size].copy()


@njit(**EXACT)
def file_rows(filed: Filed, cuts: Floats, columns: Columns, rows: Rows, relaxed: bool) -> Rows:
    """File rows under their attributes; returns their entries."""
    for row in rows:
        number, free = 0, False
        for j in range(cuts.shape[0]):
            if counts(columns, row, j, relaxed):
                filed.attribute[row, number] = j
                free |= columns.lo[row, j] == -np.inf and columns.hi[row, j] == np.inf
                number += 1
        filed.number[row] = number
        filed.always[row] = free if relaxed else number == 0
        if not relaxed:
            _rarest_first(filed.attribute[row, :number], cuts, columns, row)
    entries = entries_of(filed, rows, relaxed)
    each = filed.lo.shape[0] // filed.number.shape[0]
    for entry in entries:
        row, slot = entry // each, entry % each
        filed.score[entry] = columns.score[row]
        if filed.always[row]:
            filed.lo[entry, 0] = filed.hi[entry, 0] = float(cuts.shape[0])
        else:
            j = filed.attribute[row, slot]
            filed.lo[entry, 0] = position(cuts, j, columns.lo[row, j])
            filed.hi[entry, 0] = position(cuts, j, columns.hi[row, j])
    return entries


@njit(**EXACT)
def _share(cuts: Floats, j: int, lo: float, hi: float) -> float:
    """How much of its part of the line an interval takes, about the share of events that are in it.

    A value that many rows name is many cuts, and takes what lies between them, though it is one point.
    """
    width = position(cuts, j, hi) - position(cuts, j, lo)
    first, beyond = 0, cuts.shape[1]
    while first < beyond:
        middle = (first + beyond) // 2
        if cuts[j, middle] < lo:
            first = middle + 1
        else:
            beyond = middle
    last = first
    while last < cuts.shape[1] and cuts[j, last] == lo:
        last += 1
    return width + max(last - first - 1, 0) / (cuts.shape[1] + 3.0)


@njit(**EXACT)
def _rarest_first(attribute: NDArray[np.int16], cuts: Floats, columns: Columns, row: int) -> None:
    """Order attributes by how much of its part of the line their interval takes, the rarest first."""
    size = attribute.shape[0]
    shares = np.empty(size)
    for slot in range(size):
        j = attribute[slot]
        share = _share(cuts, j, columns.lo[row, j], columns.hi[row, j])
        at = slot
        while at > 0 and shares[at - 1] > share:
            shares[at], attribute[at] = shares[at - 1], attribute[at - 1]
            at -= 1
        shares[at], attribute[at] = share, j


@njit(**EXACT)
def _locate(tree: BoxTree, cuts: Floats, below: Floats, above: Floats, e: int, points: Points) -> int:
    """Put an event on the line; returns of how many points it consists."""
    most, size, line = most_of(tree), 0, tree.cuts
    upper, lower, first = points.below, points.above, points.first
    for j in range(cuts.shape[0]):
        if above[e, j] <= below[e, j]:
            upper[size] = lower[size] = encode(line, 0, position(cuts, j, below[e, j]), most)
            if above[e, j] < below[e, j]:
                lower[size] = encode(line, 0, position(cuts, j, above[e, j]), most)
            size += 1
    upper[size] = lower[size] = encode(line, 0, float(cuts.shape[0]), most)
    size, place = size + 1, 0
    for bucket in range(BUCKETS):
        # A bucket is the upper 10 of the 32 bits of a code, which is signed.
        while place < size and upper[place] < (bucket << 22) - (1 << 31):
            place += 1
        first[bucket] = place
    return size


@njit(**EXACT)
def _search_entries(
    tree: BoxTree, filed: Filed, columns: Columns, ends: tuple[Floats, Floats], e: int, mode: int,
    points: Points, size: int, best: tuple[Floats, Rows],
) -> tuple[int, int, int]:  # fmt: skip
    """Fill a heap with the best rows for an event; returns its size, rows tried, blocks looked into.

    A row with several entries counts by the first of its attributes that meets the event. Candidates are
    compared here, not in a helper: one that takes arrays would count references at every call.
    """
    low, high, tops, links, heights, sizes = tree.low, tree.high, tree.top, tree.link, tree.height, tree.size
    below, above, first = points.below, points.above, points.first
    scores, rows = best
    exact_below, exact_above = ends
    lo, hi, weight, label, whole = columns.lo, columns.hi, columns.weight, columns.label, columns.score
    numbers, attribute, always = filed.number, filed.attribute, filed.always
    stack, bounds = np.empty(DEPTH, np.int32), np.empty(DEPTH)
    each = filed.lo.shape[0] // filed.number.shape[0]
    held, full, tried, looked = 0, scores.shape[0], 0, 0
    for layer in range(tree.meta[LAYERS]):
        if held == full and scores[0] > tree.edge[layer]:
            break
        stack[0], bounds[0], depth = tree.root[layer], np.inf, 1 if tree.root[layer] >= 0 else 0
        while depth > 0:
            depth -= 1
            block = stack[depth]
            if held == full and bounds[depth] < scores[0]:
                continue
            looked += 1
            inner = heights[block] > 0
            for i in range(sizes[block]):
                least, top = np.int64(low[block, 0, i]), tops[block, i]
                place = first[(least + (1 << 31)) >> 22]
                while place < size and below[place] < least:
                    place += 1
                if place == size or above[place] > high[block, 0, i] or (held == full and top < scores[0]):
                    continue
                if inner:
                    stack[depth], bounds[depth] = links[block, i], top
                    depth += 1
                    continue
                tried += 1
                row, slot = links[block, i] // each, links[block, i] % each
                met, failed, score = -1, False, 0.0
                count = numbers[row]
                for turn in range(count):
                    # The one it is filed under holds the event already, but for what codes leave open: last.
                    s = turn if mode != ALL else turn + 1 if turn + 1 < count else 0
                    j = attribute[row, s]
                    if lo[row, j] <= exact_below[e, j] and hi[row, j] >= exact_above[e, j]:
                        met = s if met < 0 else met
                        if mode != ALL:
                            score = max(score, weight[row, j]) if mode == LARGEST else score + weight[row, j]
                    elif mode == ALL:
                        failed = True
                        break
                if mode == ALL:
                    score = whole[row]
                elif met != slot:
                    failed = not always[row]
                if not failed and (held < full or score >= scores[0]):
                    held = offer(label, scores, rows, held, score, row)
    return held, tried, looked


@njit(**EXACT)
def search(
    arrays: tuple[tuple[Any, ...], tuple[Any, ...], Floats], by_row: tuple[Any, ...], k: int, mode: int,
    below: Floats, above: Floats,
) -> Answers:  # fmt: skip
    """The k best rows for each event with the ends `above` to `below`.

    `arrays` are the fields of a `BoxTree` and of a `Filed`, and the cuts; `by_row` those of `Columns`: see
    `rankcast.structures.hashing` for why they come as plain tuples.
    """
    tree, filed, cuts, columns = BoxTree(*arrays[0]), Filed(*arrays[1]), arrays[2], Columns(*by_row)
    scores, rows, most = np.empty(k), np.empty(k, np.int32), cuts.shape[0] + 1
    points = Points(np.empty(most, np.int64), np.empty(most, np.int64), np.empty(BUCKETS, np.int64))
    number, ends = np.zeros(below.shape[0], np.int64), (below, above)
    row, score, used = np.empty(16, np.int32), np.empty(16), 0
    tried, looked = 0, 0
    for e in range(below.shape[0]):
        size = _locate(tree, cuts, below, above, e, points)
        held, more, blocks = _search_entries(
            tree, filed, columns, ends, e, mode, points, size, (scores, rows)
        )
        tried, looked = tried + more, looked + blocks
        best_first(columns.label, scores, rows, held)
        row, score = append_list(row, score, used, rows[:held], scores[:held])
        number[e], used = held, used + held
    return number, row[:used], score[:used], tried, looked
