"""Best-first search of the objects of smallest score in an R-tree of records and attributes.

Points have the columns x, y, s, p (see `rankcast.kernels.zone_scores`), then the attributes, on which a query
may have a filter. Blocks are opened in the order of the least score they may hold; the best objects so far
stand in order on a board of fixed size. A block or an object that cannot be on it is not forgotten but laid
aside, unsorted: a safe zone asks for some of them again, and only for those that its radius reaches.

An entry is `16 block + slot` for the child of an inner block, or the complement of a row for an object.
Ties: equal scores go by label; a block is left closed only if all in it score strictly more.
Cost: a heap operation for every block within reach, a few nanoseconds for everything else that is seen.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.kernels.distance import distance
from rankcast.kernels.options import EXACT
from rankcast.kernels.rtree import BRANCH, Rtree, root_of
from rankcast.kernels.zone_scores import STATIC, Floats, Form, Ints, Rows, box_distance, least, value

HEAP, ASIDE, BOARD, NODES, TRIED = range(5)


class Queries(NamedTuple):
    """Places, how many objects each wants, and the filter (n, d) on attributes."""

    x: Floats
    y: Floats
    k: Ints
    lower: Floats
    upper: Floats
    filtered: bool  # whether any filter is there


class Space(NamedTuple):
    """Room for one search at a time; `size` counts what is in use, by HEAP, ASIDE, BOARD, and work done."""

    key: Floats
    entry: Ints
    aside: Ints
    score: Floats
    row: Rows
    size: Ints


@njit(**EXACT)
def space_for(tree: Rtree, board: int) -> Space:
    """Room for searches of a tree with a board of some size. Pages are touched only as needed."""
    most = tree.first.size * BRANCH + tree.count.sum() + 1
    return Space(
        np.empty(most),
        np.empty(most, np.int64),
        np.empty(most, np.int64),
        np.empty(board),
        np.empty(board, np.int32),
        np.zeros(5, np.int64),
    )


@njit(**EXACT)
def push(keys: Floats, entries: Ints, size: Ints, key: float, entry: int) -> None:
    """Add an entry to the heap, smallest key on top."""
    hole = size[HEAP]
    size[HEAP] += 1
    while hole > 0:
        parent = (hole - 1) >> 1
        if keys[parent] <= key:
            break
        keys[hole], entries[hole] = keys[parent], entries[parent]
        hole = parent
    keys[hole], entries[hole] = key, entry


@njit(**EXACT)
def pop(keys: Floats, entries: Ints, sizes: Ints) -> int:
    """Take the entry with the smallest key from the heap."""
    found = entries[0]
    sizes[HEAP] -= 1
    size = sizes[HEAP]
    key, entry, hole = keys[size], entries[size], 0
    while True:
        child = 2 * hole + 1
        if child >= size:
            break
        if child + 1 < size and keys[child + 1] < keys[child]:
            child += 1
        if keys[child] >= key:
            break
        keys[hole], entries[hole] = keys[child], entries[child]
        hole = child
    keys[hole], entries[hole] = key, entry
    return found


@njit(**EXACT)
def lay_aside(aside: Ints, size: Ints, entry: int) -> None:
    """Keep an entry for later."""
    aside[size[ASIDE]] = entry
    size[ASIDE] += 1


@njit(**EXACT)
def passes(tree: Rtree, queries: Queries, i: int, leaf: int, slot: int) -> bool:
    """Whether a point passes the filter of query i."""
    for a in range(queries.lower.shape[1]):
        held = tree.point[leaf, STATIC + a, slot]
        if held < queries.lower[i, a] or held > queries.upper[i, a]:
            return False
    return True


@njit(**EXACT)
def may_pass(tree: Rtree, queries: Queries, i: int, block: int, slot: int) -> bool:
    """Whether a child of a block may hold a point that passes the filter of query i."""
    for a in range(queries.lower.shape[1]):
        if tree.high[block, STATIC + a, slot] < queries.lower[i, a]:
            return False
        if tree.low[block, STATIC + a, slot] > queries.upper[i, a]:
            return False
    return True


@njit(**EXACT)
def child_distance(
    low: Floats, high: Floats, metric: int, x: float, y: float, block: int, slot: int
) -> float:
    """The distance to the box of a child."""
    return box_distance(
        metric, x, y, low[block, 0, slot], high[block, 0, slot], low[block, 1, slot], high[block, 1, slot]
    )


@njit(**EXACT)
def _offer(scores: Floats, rows: Rows, size: Ints, aside: Ints, label: Ints, score: float, row: int) -> None:
    """Offer an object to the board; what falls off it, or does not get on it, is laid aside."""
    at = size[BOARD]
    if at == scores.size:
        worst = scores[at - 1]
        if score > worst or (score == worst and label[row] > label[rows[at - 1]]):
            lay_aside(aside, size, ~row)
            return
        at -= 1
        lay_aside(aside, size, ~np.int64(rows[at]))
    size[BOARD] = at + 1
    while at > 0 and (
        scores[at - 1] > score or (scores[at - 1] == score and label[rows[at - 1]] > label[row])
    ):
        scores[at], rows[at] = scores[at - 1], rows[at - 1]
        at -= 1
    scores[at], rows[at] = score, row


@njit(**EXACT)
def _open_block(form: Form, tree: Rtree, space: Space, queries: Queries, i: int, block: int) -> None:
    """Put the children of an inner block on the heap, or aside."""
    x, y, low, high = queries.x[i], queries.y[i], tree.low, tree.high
    keys, entries, aside, scores, size = space.key, space.entry, space.aside, space.score, space.size
    worst = scores[scores.size - 1] if size[BOARD] == scores.size else np.inf
    size[NODES] += 1
    for slot in range(tree.width[block]):
        if queries.filtered and not may_pass(tree, queries, i, block, slot):
            continue
        d = child_distance(low, high, form.metric, x, y, block, slot)
        key = least(form, low[block, 2, slot], high[block, 2, slot], low[block, 3, slot], d)
        if key > worst:
            lay_aside(aside, size, block * BRANCH + slot)
        else:
            push(keys, entries, size, key, block * BRANCH + slot)


@njit(**EXACT)
def _open_leaf(
    form: Form, tree: Rtree, label: Ints, space: Space, queries: Queries, i: int, leaf: int
) -> None:
    """Offer the objects of a leaf."""
    x, y, point, held = queries.x[i], queries.y[i], tree.point, tree.row
    aside, scores, rows, size = space.aside, space.score, space.row, space.size
    size[NODES] += 1
    for slot in range(BRANCH):
        row = np.int64(held[leaf, slot])
        if row < 0 or (queries.filtered and not passes(tree, queries, i, leaf, slot)):
            continue
        d = distance(form.metric, x, y, point[leaf, 0, slot], point[leaf, 1, slot])
        score = value(form, point[leaf, 2, slot], point[leaf, 3, slot], d)
        _offer(scores, rows, size, aside, label, score, row)
        size[TRIED] += 1


@njit(**EXACT)
def best_first(form: Form, tree: Rtree, label: Ints, space: Space, queries: Queries, i: int) -> None:
    """Fill the board with the best objects for query i; everything else that was seen lies aside."""
    keys, entries, aside, scores, size = space.key, space.entry, space.aside, space.score, space.size
    size[HEAP] = size[ASIDE] = size[BOARD] = 0
    for layer in range(tree.count.size):
        if tree.count[layer] > 0:
            _open_block(form, tree, space, queries, i, root_of(tree, layer))
    while size[HEAP] > 0:
        if size[BOARD] == scores.size and keys[0] > scores[scores.size - 1]:
            break
        entry = pop(keys, entries, size)
        block, slot = entry // BRANCH, entry % BRANCH
        first = np.int64(tree.first[block])
        if first >= 0:
            _open_leaf(form, tree, label, space, queries, i, first + slot)
        else:
            _open_block(form, tree, space, queries, i, ~first + slot)
    for j in range(size[HEAP]):
        lay_aside(aside, size, entries[j])
    size[HEAP] = 0
