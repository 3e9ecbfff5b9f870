"""The k best rows of a box tree for each event, when every interval that meets it counts with its weight.

The score of a row is the sum (or the maximum) of the weights of its intervals that meet the event, added in
the order of dimensions, and must be above 0. What a block can give is bounded by the highest weights below
each entry, of the dimensions in which its box meets the event: a bound in float32, rounded up, which leaves
out most of the tree. Layers are ordered by the score of a row that meets the event everywhere.

[Ranked §4] merges one index a dimension by the Threshold Algorithm (`rankcast.papers.matching.threshold`); one tree
knows which dimensions meet together.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.matching.kernels.box_tree import LAYERS, WIDTH, BoxTree, Floats
from rankcast.matching.kernels.box_tree_pack import Columns, Rows
from rankcast.matching.kernels.box_tree_search import DEPTH, Events, Work, hopeless, search_layers
from rankcast.matching.kernels.matches import ALL, LARGEST, Matches, append_list
from rankcast.structures.heap import best_first, offer
from rankcast.structures.jit import EXACT

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
def _search_layers(
    tree: BoxTree,
    columns: Columns,
    events: Events,
    e: int,
    largest: bool,
    scores: Floats,
    rows: Rows,
    work: Work,
) -> tuple[int, int, int]:
    """Fill a heap with the best rows for an event; returns its size, rows tried, blocks looked into."""
    low, high, weight, links, heights = tree.low, tree.high, tree.weight, tree.link, tree.height
    stack, bounds, bound = work.stack, work.bounds, np.empty(WIDTH, np.float32)
    lo, hi, given, label = columns.lo, columns.hi, columns.weight, columns.label
    below, above, exact_below, exact_above = events.low, events.high, events.below, events.above
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
    tree: BoxTree, columns: Columns, events: Events, order: NDArray[np.int64], k: int, mode: int
) -> Matches:
    """The k best rows for each of the events in `order`, exact or relaxed."""
    scores, rows = np.empty(k), np.empty(k, np.int32)
    start, number = np.zeros(events.low.shape[0], np.int64), np.zeros(events.low.shape[0], np.int64)
    row, score, used = np.empty(16 + 4 * order.shape[0], np.int32), np.empty(16 + 4 * order.shape[0]), 0
    work = Work(np.empty(DEPTH, np.int32), np.empty(DEPTH), np.empty(WIDTH, np.uint8))
    tried, looked = 0, 0
    for e in order:
        if mode == ALL:
            size, more, blocks = search_layers(tree, columns, events, e, scores, rows, work)
        else:
            size, more, blocks = _search_layers(tree, columns, events, e, mode == LARGEST, scores, rows, work)
        tried, looked = tried + more, looked + blocks
        best_first(columns.label, scores, rows, size)
        row, score = append_list(row, score, used, rows[:size], scores[:size])
        start[e], number[e] = used, size
        used += size
    return Matches(start, number, row, score, tried, looked)
