"""The k best rows of a box tree for each of many events, in exact or relaxed matching.

An event is met by a row if lo <= below and hi >= above in every dimension: for a point both are the point,
for an interval its upper and its lower end, for an unknown value -inf and +inf, so that only an interval
without bounds meets it. Layers are searched in turn, a tree from its root; what cannot enter the list of the
k best so far is left out, by the layer's edge, by an upper bound of an entry, or by its box.

Exact: the upper bound of an entry is its `top`. Relaxed: the score of a row is the sum (or the maximum) of
the weights of its intervals that meet the event, added in the order of dimensions, and must be above 0. The
upper bound is that of the highest weights below an entry, of the dimensions in which its box meets the event:
in float32, rounded up, which leaves out most of the tree. [Ranked §4] merges one index a dimension by the
Threshold Algorithm (`rankcast.papers.matching.threshold`); one tree knows which dimensions meet together.

Events are taken in the order of their neighbourhood (`by_neighbourhood`), which keeps the blocks they share
in the cache; answers do not depend on it.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.matching.kernels.box_tree import (
    LAYERS,
    WIDTH,
    BoxTree,
    Columns,
    EventCodes,
    Floats,
    Rows,
    by_neighbourhood,
    encode_events,
    most_of,
)
from rankcast.matching.kernels.matches import ALL, LARGEST, Answers, Matches, append_list, in_event_order
from rankcast.structures.heap import best_first, better, offer
from rankcast.structures.jit import EXACT

DEPTH = 512


class SearchRoom(NamedTuple):
    """Room for a search: blocks to look into with their bounds, and a mark an entry."""

    stack: NDArray[np.int32]
    bounds: Floats
    mask: NDArray[np.uint8]


@njit(**EXACT)
def hopeless(tree: BoxTree, label: NDArray[np.int64], layer: int, score: float, row: int) -> bool:
    """Whether no row of a layer is better than (score, row)."""
    edge_row = tree.edge_row[layer]
    if score != tree.edge[layer]:
        return score > tree.edge[layer]
    return edge_row >= 0 and not better(label, score, edge_row, score, row)


@njit(**EXACT)
def _search_exact(
    tree: BoxTree, columns: Columns, events: EventCodes, e: int, scores: Floats, rows: Rows, room: SearchRoom
) -> tuple[int, int, int]:
    """Fill a heap with the best rows for an event; returns its size, rows tried, blocks looked into.

    Where a code equals the event's, the exact ends decide. A block is tested here, not in a helper: one that
    takes arrays would count references at every call.
    """
    low, high, tops, links, heights = tree.low, tree.high, tree.top, tree.link, tree.height
    below, above, label = events.low, events.high, columns.label
    lo, hi, exact_below, exact_above = columns.lo, columns.hi, events.below, events.above
    # Marks of a byte each, seen as words of eight: a word of 0 passes over eight entries that are not met.
    stack, bounds, mask, words = room.stack, room.bounds, room.mask, room.mask.view(np.uint64)
    size, full, tried, looked, most = 0, scores.shape[0], 0, 0, most_of(tree)
    for layer in range(tree.meta[LAYERS]):
        if size == full and hopeless(tree, label, layer, scores[0], rows[0]):
            break
        stack[0], bounds[0], depth = tree.root[layer], np.inf, 1 if tree.root[layer] >= 0 else 0
        while depth > 0:
            depth -= 1
            block = stack[depth]
            if size == full and bounds[depth] < scores[0]:
                continue
            looked += 1
            beneath, over = below[e, 0], above[e, 0]
            for i in range(WIDTH):
                mask[i] = (low[block, 0, i] <= beneath) & (high[block, 0, i] >= over)
            for j in range(1, low.shape[1]):
                beneath, over = below[e, j], above[e, j]
                for i in range(WIDTH):
                    mask[i] &= (low[block, j, i] <= beneath) & (high[block, j, i] >= over)
            inner = heights[block] > 0
            for w in range(WIDTH // 8):
                if words[w] == 0:
                    continue
                for i in range(8 * w, 8 * w + 8):
                    if mask[i] == 0:
                        continue
                    top = tops[block, i]
                    if size == full and top < scores[0]:
                        continue
                    if inner:
                        stack[depth], bounds[depth] = links[block, i], top
                        depth += 1
                        continue
                    tried += 1
                    row, sure = links[block, i], True
                    for j in range(low.shape[1]):
                        first, last = low[block, j, i], high[block, j, i]
                        if first == below[e, j] and first != -most:
                            sure &= lo[row, j] <= exact_below[e, j]
                        if last == above[e, j] and last != most:
                            sure &= hi[row, j] >= exact_above[e, j]
                    if sure:
                        size = offer(label, scores, rows, size, top, row)
    return size, tried, looked


Bounds = NDArray[np.float32]
NOTHING = np.float32(0.0)


@njit(**EXACT)
def _push(stack: NDArray[np.int32], bounds: Floats, first: int, depth: int, block: int, bound: float) -> int:
    """Push a child so that from `first` on bounds ascend: the most promising is taken first."""
    at = depth
    while at > first and bounds[at - 1] > bound:
        stack[at], bounds[at] = stack[at - 1], bounds[at - 1]
        at -= 1
    stack[at], bounds[at] = block, bound
    return depth + 1


@njit(**EXACT)
def _search_relaxed(
    tree: BoxTree,
    columns: Columns,
    events: EventCodes,
    e: int,
    largest: bool,
    scores: Floats,
    rows: Rows,
    room: SearchRoom,
) -> tuple[int, int, int]:
    """Fill a heap with the best rows for an event; returns its size, rows tried, blocks looked into."""
    low, high, weight, links, heights = tree.low, tree.high, tree.weight, tree.link, tree.height
    stack, bounds, bound = room.stack, room.bounds, np.empty(WIDTH, np.float32)
    lo, hi, given, label = columns.lo, columns.hi, columns.weight, columns.label
    below, above, exact_below, exact_above = events.low, events.high, events.below, events.above
    # What adding up d weights in float32 may lose, so that the upper bound stays one.
    slack = 1.0 + 2.0**-22 * (1 + low.shape[1])
    size, full, tried, looked = 0, scores.shape[0], 0, 0
    for layer in range(tree.meta[LAYERS]):
        if size == full and hopeless(tree, label, layer, scores[0], rows[0]):
            break
        stack[0], bounds[0], depth = tree.root[layer], np.inf, 1 if tree.root[layer] >= 0 else 0
        while depth > 0:
            depth -= 1
            block, first = stack[depth], depth
            if size == full and bounds[depth] < scores[0]:
                continue
            looked += 1
            for i in range(WIDTH):
                bound[i] = 0.0
            for j in range(low.shape[1]):
                beneath, over = below[e, j], above[e, j]
                for i in range(WIDTH):
                    meets = (low[block, j, i] <= beneath) & (high[block, j, i] >= over)
                    more = weight[block, j, i] if meets else NOTHING
                    bound[i] = max(bound[i], more) if largest else bound[i] + more
            inner = heights[block] > 0
            for i in range(tree.size[block]):
                most = bound[i] * slack
                if most == 0.0 or (size == full and most < scores[0]):
                    continue
                if inner:
                    depth = _push(stack, bounds, first, depth, links[block, i], most)
                    continue
                tried += 1
                row, score = links[block, i], 0.0
                for j in range(low.shape[1]):
                    if lo[row, j] <= exact_below[e, j] and hi[row, j] >= exact_above[e, j]:
                        score = max(score, given[row, j]) if largest else score + given[row, j]
                if score > 0.0 and (size < full or score >= scores[0]):
                    size = offer(label, scores, rows, size, score, row)
    return size, tried, looked


@njit(**EXACT)
def search(
    arrays: tuple[Any, ...], by_row: tuple[Any, ...], k: int, mode: int, below: Floats, above: Floats
) -> Answers:
    """The k best rows for each event with the ends `above` to `below`, exact or relaxed.

    `arrays` are the fields of a `BoxTree`, `by_row` those of `Columns`: see `rankcast.structures.hashing` for
    why they come as plain tuples.
    """
    tree, columns = BoxTree(*arrays), Columns(*by_row)
    events = encode_events(tree.cuts, below, above, tree.low)
    scores, rows, many = np.empty(k), np.empty(k, np.int32), below.shape[0]
    start, number = np.zeros(many, np.int64), np.zeros(many, np.int64)
    row, score, used = np.empty(16 + 4 * many, np.int32), np.empty(16 + 4 * many), 0
    room = SearchRoom(np.empty(DEPTH, np.int32), np.empty(DEPTH), np.empty(WIDTH, np.uint8))
    tried, looked = 0, 0
    for e in by_neighbourhood(events):
        if mode == ALL:
            size, more, blocks = _search_exact(tree, columns, events, e, scores, rows, room)
        else:
            size, more, blocks = _search_relaxed(
                tree, columns, events, e, mode == LARGEST, scores, rows, room
            )
        tried, looked = tried + more, looked + blocks
        best_first(columns.label, scores, rows, size)
        row, score = append_list(row, score, used, rows[:size], scores[:size])
        start[e], number[e] = used, size
        used += size
    return in_event_order(Matches(start, number, row, score, tried, looked))
