"""Subscriptions that bound a few of many attributes: each filed under its own attributes, all on one line.

Attribute j has the part [j, j + 1) of a line; `cuts`, quantiles of its ends, say where in it a value lies. A
subscription is filed as its interval in one attribute (exact: the rarest) or in each attribute
with a weight (relaxed); one that nothing keeps from a match, at the end of the line, where every event is.
So an event is some points on the line, in ascending order (short intervals where the event is one, none where
it is unknown), and what it may match are the entries that hold any of them. Entries live in a box tree of one
dimension; a block is read once for all points of an event. Candidates are compared exactly, in the attributes
that count for them.

In exact matching a row has guards: its next rarest intervals as codes, side by side, so that most candidates
fall in one cache line, which is asked for before it is needed, instead of one for every exact end.

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
from rankcast.matching.kernels.box_tree import LAYERS, WIDTH, BoxTree, Columns, encode, most_of
from rankcast.matching.kernels.matches import ALL, LARGEST, Answers, Floats, Longs, Rows, append_list
from rankcast.structures.arrays import prefetch
from rankcast.structures.heap import best_first, offer
from rankcast.structures.jit import EXACT

BUCKETS = 1024
GUARDS = 2
FINEST = 0xFFFF  # the highest code of a guard, which has 16 bits
WORD, HALF, LAST = np.uint64(32), np.uint64(16), np.uint64(FINEST)


class Filed(NamedTuple):
    """By row: the attributes that count, as many as `number`; whether it is filed at the end of the line.

    By entry: its ends on the line (entries, 1) and its score. Entry row * e + s is the s-th of a row, e being
    1 in exact matching and the width of `attribute` in relaxed matching. `guard` (rows, GUARDS): attribute,
    lower and upper code of an interval, which follow from the rest; in relaxed matching there is none.
    """

    number: NDArray[np.int16]
    attribute: NDArray[np.int16]
    always: NDArray[np.bool_]
    lo: Floats
    hi: Floats
    score: Floats
    guard: NDArray[np.uint64]


class Points(NamedTuple):
    """An event on the line, as codes that ascend; and by bucket of codes, the first that may matter.

    By attribute also `ends`, (d, 2): what guards are compared with.
    """

    below: Longs
    above: Longs
    first: Longs
    ends: NDArray[np.uint64]


@njit(**EXACT)
def new_points(attributes: int) -> Points:
    """Room for an event."""
    most = attributes + 1
    ends = np.zeros((attributes, 2), np.uint64)
    return Points(np.empty(most, np.int64), np.empty(most, np.int64), np.empty(BUCKETS, np.int64), ends)


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
def _finest(cuts: Floats, j: int, value: float) -> np.uint64:
    """A value of attribute j as the code of a guard. It never falls when the value grows."""
    return np.uint64(min((position(cuts, j, value) - j) * FINEST, 1.0 * FINEST))


@njit(**EXACT)
def guard_rows(filed: Filed, cuts: Floats, columns: Columns, rows: Rows) -> None:
    """Write the guards of rows that are filed: of their next rarest attributes, or one that all pass."""
    for row in rows:
        for g in range(filed.guard.shape[1]):
            guard = LAST
            if g + 1 < filed.number[row]:
                j = np.int64(filed.attribute[row, g + 1])
                low, high = _finest(cuts, j, columns.lo[row, j]), _finest(cuts, j, columns.hi[row, j])
                guard = np.uint64(j) << WORD | low << HALF | high
            filed.guard[row, g] = guard


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
    if not relaxed:
        guard_rows(filed, cuts, columns, rows)
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
        points.ends[j, 0], points.ends[j, 1] = _finest(cuts, j, below[e, j]), _finest(cuts, j, above[e, j])
    upper[size] = lower[size] = encode(line, 0, float(cuts.shape[0]), most)
    size, place = size + 1, 0
    for bucket in range(BUCKETS):
        # A bucket is the upper 10 of the 32 bits of a code, which is signed.
        while place < size and upper[place] < (bucket << 22) - (1 << 31):
            place += 1
        first[bucket] = place
    return size


@njit(**EXACT)
def passes(guard: NDArray[np.uint64], ends: NDArray[np.uint64], row: int) -> bool:
    """Whether no guard of a row keeps an event out."""
    for g in range(guard.shape[1]):
        code = guard[row, g]
        j = code >> WORD
        if (code >> HALF) & LAST > ends[j, 0] or code & LAST < ends[j, 1]:
            return False
    return True


@njit(**EXACT)
def _search_exact(
    tree: BoxTree, filed: Filed, columns: Columns, ends: tuple[Floats, Floats], e: int,
    points: Points, size: int, best: tuple[Floats, Rows],
) -> tuple[int, int, int]:  # fmt: skip
    """Fill a heap with the best rows for an event; returns its size, rows tried, blocks looked into.

    The candidates of a leaf are found first, and their guards asked for meanwhile.
    """
    low, high, tops, links, heights, sizes = tree.low, tree.high, tree.top, tree.link, tree.height, tree.size
    below, above, first, codes = points.below, points.above, points.first, points.ends
    scores, rows = best
    exact_below, exact_above = ends
    lo, hi, label, guard = columns.lo, columns.hi, columns.label, filed.guard
    numbers, attribute = filed.number, filed.attribute
    stack, bounds, found = np.empty(DEPTH, np.int32), np.empty(DEPTH), np.empty(WIDTH, np.int64)
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
            inner, met = heights[block] > 0, 0
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
                else:
                    prefetch(guard, GUARDS * np.int64(links[block, i]))
                    found[met] = i
                    met += 1
            tried += met
            for at in range(met):
                row, top, failed = np.int64(links[block, found[at]]), tops[block, found[at]], False
                for g in range(GUARDS):  # as `passes`: a helper that takes arrays counts references
                    code = guard[row, g]
                    j = code >> WORD
                    failed |= (code >> HALF) & LAST > codes[j, 0] or code & LAST < codes[j, 1]
                if failed:
                    continue
                for s in range(numbers[row]):
                    j = attribute[row, s]
                    if lo[row, j] > exact_below[e, j] or hi[row, j] < exact_above[e, j]:
                        failed = True
                        break
                if not failed and (held < full or top >= scores[0]):
                    held = offer(label, scores, rows, held, top, row)
    return held, tried, looked


@njit(**EXACT)
def _search_relaxed(
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
    lo, hi, weight, label = columns.lo, columns.hi, columns.weight, columns.label
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
                met, score = -1, 0.0
                for s in range(numbers[row]):
                    j = attribute[row, s]
                    if lo[row, j] <= exact_below[e, j] and hi[row, j] >= exact_above[e, j]:
                        met = s if met < 0 else met
                        score = max(score, weight[row, j]) if mode == LARGEST else score + weight[row, j]
                if (met == slot or always[row]) and (held < full or score >= scores[0]):
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
    scores, rows, points = np.empty(k), np.empty(k, np.int32), new_points(cuts.shape[0])
    number, ends = np.zeros(below.shape[0], np.int64), (below, above)
    row, score, used = np.empty(16, np.int32), np.empty(16), 0
    tried, looked = 0, 0
    for e in range(below.shape[0]):
        size = _locate(tree, cuts, below, above, e, points)
        if mode == ALL:
            held, more, blocks = _search_exact(tree, filed, columns, ends, e, points, size, (scores, rows))
        else:
            held, more, blocks = _search_relaxed(
                tree, filed, columns, ends, e, mode, points, size, (scores, rows)
            )
        tried, looked = tried + more, looked + blocks
        best_first(columns.label, scores, rows, held)
        row, score = append_list(row, score, used, rows[:held], scores[:held])
        number[e], used = held, used + held
    return number, row[:used], score[:used], tried, looked
