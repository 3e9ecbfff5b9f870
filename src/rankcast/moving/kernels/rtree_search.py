"""Searches of an R-tree of objects: best first for one query, or level by level for many queries at once.

Points have the columns x, y, s, p (see `rankcast.moving.kernels.scores`), then the attributes, on which a
query may have a filter. Blocks are opened in the order of the least score they may hold; the best objects so
far stand in order on a board of fixed size. A block or an object that cannot be on it is deferred, unsorted,
with its score and its distance: the search for a safe zone returns to those that its radius reaches.

An entry is `16 block + slot` for the child of an inner block, or the complement of a row for an object.
Ties: equal scores go by label; a block is left closed only if all in it score strictly more. Cost: a heap
operation for every block within reach, a few nanoseconds for everything else that is seen.

Custom scores, which only Python can compute, are given all children of all open blocks of many queries in
one call (`roots`, `children`, `points`), as entries in flat arrays. The first columns of the tree are x and
y; which columns follow that count is up to the caller.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.moving.kernels.rtree import BRANCH, Rtree, root_of
from rankcast.moving.kernels.scores import (
    SPACE,
    Floats,
    Ints,
    Place,
    Rows,
    ScoreForm,
    Z,
    apart,
    at_line,
    at_slot,
    box_distance,
    gap,
    least,
    value,
)
from rankcast.structures.heap import pop, push
from rankcast.structures.jit import EXACT

HEAP, DEFERRED, BOARD, NODES, TRIED = range(5)
NO_Z = np.empty(0)


class Queries(NamedTuple):
    """Places, how many objects each wants, and the filter (n, d) on attributes."""

    x: Floats
    y: Floats
    k: Ints
    lower: Floats
    upper: Floats
    filtered: bool  # whether any filter is there
    z: Floats = NO_Z  # with the metric SPACE


class SearchBuffers(NamedTuple):
    """Arrays of one search at a time; `size` counts what is in use (HEAP, DEFERRED, BOARD) and work done."""

    key: Floats
    entry: Ints
    deferred: Ints
    least: Floats  # what is deferred scores no less,
    near: Floats  # and is no nearer
    score: Floats  # the board: scores,
    away: Floats  # distances,
    row: Rows  # and objects
    size: Ints


def search_buffers(tree: Rtree, board: int, space: SearchBuffers | None = None) -> SearchBuffers:
    """Room for searches of a tree with a board of some size: what is there, if it is large enough.

    Memory: 40 bytes an object and a child of a block, of which a search touches what it needs.
    """
    most = tree.first.size * BRANCH + int(tree.count.sum()) + 1
    if space is not None and space.key.size >= most and space.row.size >= board:
        return space
    return SearchBuffers(
        key=np.empty(most),
        entry=np.empty(most, np.int64),
        deferred=np.empty(most, np.int64),
        least=np.empty(most),
        near=np.empty(most),
        score=np.empty(board),
        away=np.empty(board),
        row=np.empty(board, np.int32),
        size=np.zeros(5, np.int64),
    )


@njit(**EXACT)
def with_board(space: SearchBuffers, board: int) -> SearchBuffers:
    """The same room with a smaller board."""
    return SearchBuffers(
        space.key,
        space.entry,
        space.deferred,
        space.least,
        space.near,
        space.score[:board],
        space.away[:board],
        space.row[:board],
        space.size,
    )


@njit(**EXACT)
def defer(
    deferred: Ints, least: Floats, near: Floats, size: Ints, entry: int, score: float, away: float
) -> None:
    """Keep an entry for later, with its score and distance, or less."""
    at = size[DEFERRED]
    deferred[at], least[at], near[at] = entry, score, away
    size[DEFERRED] = at + 1


@njit(**EXACT)
def passes(tree: Rtree, queries: Queries, i: int, leaf: int, slot: int) -> bool:
    """Whether a point passes the filter of query i."""
    first = tree.point.shape[1] - queries.lower.shape[1]  # attributes come last
    for a in range(queries.lower.shape[1]):
        held = tree.point[leaf, first + a, slot]
        if held < queries.lower[i, a] or held > queries.upper[i, a]:
            return False
    return True


@njit(**EXACT)
def may_pass(tree: Rtree, queries: Queries, i: int, block: int, slot: int) -> bool:
    """Whether a child of a block may hold a point that passes the filter of query i."""
    first = tree.low.shape[1] - queries.lower.shape[1]
    for a in range(queries.lower.shape[1]):
        if tree.high[block, first + a, slot] < queries.lower[i, a]:
            return False
        if tree.low[block, first + a, slot] > queries.upper[i, a]:
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
def to_child(low: Floats, high: Floats, metric: int, place: Place, block: int, slot: int) -> float:
    """The distance of a place to the box of a child, also in space."""
    if metric != SPACE:
        return child_distance(low, high, metric, place[0], place[1], block, slot)
    dx = gap(place[0], low[block, 0, slot], high[block, 0, slot])
    dy = gap(place[1], low[block, 1, slot], high[block, 1, slot])
    dz = gap(place[2], low[block, Z, slot], high[block, Z, slot])
    return math.sqrt(dx * dx + dy * dy + dz * dz)


@njit(**EXACT)
def place_of(metric: int, queries: Queries, i: int) -> Place:
    """Where a query is."""
    return at_line(metric, queries.x, queries.y, queries.z, i)


@njit(**EXACT)
def _offer(
    scores: Floats, aways: Floats, rows: Rows, size: Ints, label: Ints, score: float, away: float, row: int
) -> tuple[float, float, int | np.int64]:
    """Offer an object to the board; returns what does not get on it, or falls off it; row -1 if nothing."""
    at, off_score, off_away, off = size[BOARD], 0.0, 0.0, np.int64(-1)
    if at == scores.size:
        at -= 1
        off_score, off_away, off = scores[at], aways[at], np.int64(rows[at])
        if score > off_score or (score == off_score and label[row] > label[off]):
            return score, away, row
    size[BOARD] = at + 1
    while at > 0 and (
        scores[at - 1] > score or (scores[at - 1] == score and label[rows[at - 1]] > label[row])
    ):
        scores[at], aways[at], rows[at] = scores[at - 1], aways[at - 1], rows[at - 1]
        at -= 1
    scores[at], aways[at], rows[at] = score, away, row
    return off_score, off_away, off


@njit(**EXACT)
def _open_block(
    form: ScoreForm, tree: Rtree, space: SearchBuffers, queries: Queries, i: int, block: int
) -> None:
    """Put the children of an inner block on the heap, or defer them."""
    place, low, high = place_of(form.metric, queries, i), tree.low, tree.high
    keys, entries, scores, size = space.key, space.entry, space.score, space.size
    deferred, leasts, nears = space.deferred, space.least, space.near
    worst = scores[scores.size - 1] if size[BOARD] == scores.size else np.inf
    size[NODES] += 1
    for slot in range(tree.width[block]):
        if queries.filtered and not may_pass(tree, queries, i, block, slot):
            continue
        d = to_child(low, high, form.metric, place, block, slot)
        key = least(form, low[block, 2, slot], high[block, 2, slot], low[block, 3, slot], d)
        if key > worst:
            defer(deferred, leasts, nears, size, block * BRANCH + slot, key, d)
        else:
            size[HEAP] = push(keys, entries, size[HEAP], key, block * BRANCH + slot)


@njit(**EXACT)
def _open_leaf(
    form: ScoreForm, tree: Rtree, label: Ints, space: SearchBuffers, queries: Queries, i: int, leaf: int
) -> None:
    """Offer the objects of a leaf."""
    place, point, held = place_of(form.metric, queries, i), tree.point, tree.row
    deferred, leasts, nears = space.deferred, space.least, space.near
    scores, aways, rows, size = space.score, space.away, space.row, space.size
    size[NODES] += 1
    for slot in range(BRANCH):
        row = np.int64(held[leaf, slot])
        if row < 0 or (queries.filtered and not passes(tree, queries, i, leaf, slot)):
            continue
        size[TRIED] += 1
        d = apart(form.metric, place, at_slot(form.metric, point, leaf, slot))
        score = value(form, point[leaf, 2, slot], point[leaf, 3, slot], d)
        score, d, row = _offer(scores, aways, rows, size, label, score, d, row)
        if row >= 0:
            defer(deferred, leasts, nears, size, ~row, score, d)


@njit(**EXACT)
def best_first(
    form: ScoreForm, tree: Rtree, label: Ints, space: SearchBuffers, queries: Queries, i: int
) -> None:
    """Fill the board with the best objects for query i; everything else that was seen is deferred."""
    keys, entries, scores, size = space.key, space.entry, space.score, space.size
    deferred, leasts, nears, low, high = space.deferred, space.least, space.near, tree.low, tree.high
    size[HEAP] = size[DEFERRED] = size[BOARD] = 0
    for layer in range(tree.count.size):
        if tree.count[layer] > 0:
            _open_block(form, tree, space, queries, i, root_of(tree, layer))
    while size[HEAP] > 0:
        if size[BOARD] == scores.size and keys[0] > scores[scores.size - 1]:
            break
        entry, size[HEAP] = entries[0], pop(keys, entries, size[HEAP])
        block, slot = entry // BRANCH, entry % BRANCH
        first = np.int64(tree.first[block])
        if first >= 0:
            _open_leaf(form, tree, label, space, queries, i, first + slot)
        else:
            _open_block(form, tree, space, queries, i, ~first + slot)
    for j in range(size[HEAP]):
        block, slot = entries[j] // BRANCH, entries[j] % BRANCH
        d = to_child(low, high, form.metric, place_of(form.metric, queries, i), block, slot)
        defer(deferred, leasts, nears, size, entries[j], keys[j], d)
    size[HEAP] = 0


Bools = NDArray[np.bool_]


class TreeEntries(NamedTuple):
    """What queries see: `child` is a leaf, or the complement of an inner block; of points, their row."""

    query: Ints
    child: Ints
    values: Floats
    distance: Floats


class Corner(NamedTuple):
    """The columns that count, from `first` on, and in which of them the upper end of a box is the best."""

    first: int
    upper: Bools


@njit(**EXACT)
def roots(tree: Rtree, queries: int) -> tuple[Ints, Ints]:
    """Every root for every query."""
    layers = np.flatnonzero(tree.count > 0)
    query, block = np.empty(queries * layers.size, np.int64), np.empty(queries * layers.size, np.int64)
    for i in range(queries):
        for j in range(layers.size):
            query[i * layers.size + j], block[i * layers.size + j] = i, root_of(tree, layers[j])
    return query, block


@njit(**EXACT)
def children(
    tree: Rtree, metric: int, queries: Queries, query: Ints, block: Ints, corner: Corner
) -> TreeEntries:
    """The children of blocks that may pass the filters: the best corner of each, and its least distance."""
    first_column, upper = corner
    most, size = query.size * BRANCH, 0
    found = TreeEntries(
        np.empty(most, np.int64), np.empty(most, np.int64), np.empty((most, upper.size)), np.empty(most)
    )
    for n in range(query.size):
        i, b = query[n], block[n]
        first = np.int64(tree.first[b])
        for slot in range(tree.width[b]):
            if queries.filtered and not may_pass(tree, queries, i, b, slot):
                continue
            found.query[size] = i
            found.child[size] = first + slot if first >= 0 else ~(~first + slot)
            found.distance[size] = to_child(
                tree.low, tree.high, metric, place_of(metric, queries, i), b, slot
            )
            for a in range(upper.size):
                side = tree.high if upper[a] else tree.low
                found.values[size, a] = side[b, first_column + a, slot]
            size += 1
    return TreeEntries(found.query[:size], found.child[:size], found.values[:size], found.distance[:size])


@njit(**EXACT)
def points(
    tree: Rtree, metric: int, queries: Queries, query: Ints, leaf: Ints, corner: Corner
) -> TreeEntries:
    """The points of leaves that pass the filters."""
    first_column, upper = corner
    most, size = query.size * BRANCH, 0
    found = TreeEntries(
        np.empty(most, np.int64), np.empty(most, np.int64), np.empty((most, upper.size)), np.empty(most)
    )
    for n in range(query.size):
        i, at = query[n], leaf[n]
        for slot in range(BRANCH):
            row = tree.row[at, slot]
            if row < 0 or (queries.filtered and not passes(tree, queries, i, at, slot)):
                continue
            found.query[size], found.child[size] = i, row
            found.distance[size] = apart(
                metric, place_of(metric, queries, i), at_slot(metric, tree.point, at, slot)
            )
            for a in range(upper.size):
                found.values[size, a] = tree.point[at, first_column + a, slot]
            size += 1
    return TreeEntries(found.query[:size], found.child[:size], found.values[:size], found.distance[:size])
