"""The interval tree of [Ranked §2.1.1], live: which list an interval stands in, in each dimension.

A node takes the intervals that contain its centre; what ends before it goes to the left child, what begins
behind it to the right one. An interval that finds no child makes one, with one of its ends as the centre; a
node whose subtree is empty goes. Where a child has got more than three quarters of the intervals of its
parent, that parent's subtree is built anew with medians as centres, after which a child has two thirds at
most: so depth stays O(log n) and a change costs O(log^2 n) amortised.

Without any node (`top` is empty) a dimension has one list, with the number 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.matching.kernels.box_tree import Columns
from rankcast.papers.matching.routes import centre_tree
from rankcast.papers.matching.scored_blocks import (
    BLOCKS,
    Blocks,
    Entry,
    Floats,
    Longs,
    Rows,
    insert_entry,
    remove_entry,
    rows_of,
)
from rankcast.structures.jit import EXACT

USED, FREE, NODES, REBUILT = range(4)
DEPTH = 128
SPARE = 80  # free blocks that an insertion may need: two a level


class Centres(NamedTuple):
    """By node its centre, its children, how many intervals it lists, and how many its subtree does.

    `top` is the first node of each dimension, -1 if there is none. A free node names the next one as a child.
    """

    centre: Floats
    child: Rows
    number: Rows
    weight: Rows
    top: Rows
    meta: Longs


@njit(**EXACT)
def _take_node(centres: Centres, centre: float) -> int:
    """A node without intervals."""
    node = centres.meta[FREE]
    if node >= 0:
        centres.meta[FREE] = centres.child[node, 0]
    else:
        node = centres.meta[USED]
        centres.meta[USED] += 1
    centres.meta[NODES] += 1
    centres.centre[node], centres.number[node], centres.weight[node] = centre, 0, 0
    centres.child[node, 0] = centres.child[node, 1] = -1
    return node


@njit(**EXACT)
def _give_node(centres: Centres, node: int) -> None:
    """Give a node back."""
    centres.meta[NODES] -= 1
    centres.number[node], centres.weight[node] = 0, 0
    centres.child[node, 0], centres.meta[FREE] = centres.meta[FREE], node


@njit(**EXACT)
def _side(centres: Centres, node: int, lo: float, hi: float) -> int:
    """Where an interval goes from a node: 0 or 1, or -1 if it stays."""
    return 0 if hi < centres.centre[node] else 1 if lo > centres.centre[node] else -1


@njit(**EXACT)
def _heavy(centres: Centres, node: int) -> bool:
    """Whether a child has too much of its parent's subtree."""
    for side in range(2):
        child = centres.child[node, side]
        if child >= 0 and 4 * centres.weight[child] > 3 * centres.weight[node] + 8:
            return True
    return False


@njit(**EXACT)
def _enter(centres: Centres, j: int, lo: float, hi: float) -> tuple[int, int]:
    """Count an interval in; returns its node, and the first node that is out of balance now, or -1."""
    if centres.top.shape[0] == 0:
        return 0, -1
    if centres.top[j] < 0:
        centres.top[j] = _take_node(centres, lo if lo > -np.inf else hi if hi < np.inf else 0.0)
    node, heavy = centres.top[j], -1
    while True:
        centres.weight[node] += 1
        side = _side(centres, node, lo, hi)
        if side < 0:
            centres.number[node] += 1
            return node, heavy
        if centres.child[node, side] < 0:
            centres.child[node, side] = _take_node(centres, hi if side == 0 else lo)
        child = centres.child[node, side]
        if heavy < 0 and 4 * (centres.weight[child] + 1) > 3 * centres.weight[node] + 8:
            heavy = node
        node = child


@njit(**EXACT)
def _leave(centres: Centres, j: int, lo: float, hi: float) -> int:
    """Count an interval out, with nodes that hold nothing; returns the first node out of balance, or -1."""
    if centres.top.shape[0] == 0:
        return -1
    node, heavy = centres.top[j], -1
    if centres.weight[node] == 1:
        centres.top[j] = -1
    while True:
        side = _side(centres, node, lo, hi)
        child = centres.child[node, side] if side >= 0 else -1
        centres.weight[node] -= 1
        if side < 0:
            centres.number[node] -= 1
        elif centres.weight[child] == 1:
            centres.child[node, side] = -1
        if centres.weight[node] == 0:
            _give_node(centres, node)
        elif heavy < 0 and _heavy(centres, node):
            heavy = node
        if side < 0:
            return heavy
        node = child


@njit(**EXACT)
def _entry(columns: Columns, row: int, j: int, listed: int) -> Entry:
    """The entry of a row in dimension j; weights rank it if there are any."""
    key = columns.weight[row, j] if columns.weight.shape[1] > 0 else columns.score[row]
    return Entry(listed, row, key, columns.lo[row, j], columns.hi[row, j], columns.score[row])


@njit(**EXACT)
def insert(centres: Centres, blocks: Blocks, columns: Columns, rows: Rows, start: int) -> tuple[int, int]:
    """Insert absent rows, dimension by dimension, from step `start` on.

    Returns the step where it stopped for lack of room, or behind one that unbalanced a node; and that node.
    """
    d = columns.lo.shape[1]
    for step in range(start, rows.shape[0] * d):
        if (
            blocks.size.shape[0] - blocks.meta[BLOCKS] < SPARE
            or centres.meta[NODES] == centres.number.shape[0]
        ):
            return step, -1
        row, j = rows[step // d], step % d
        node, heavy = _enter(centres, j, columns.lo[row, j], columns.hi[row, j])
        insert_entry(blocks, columns.label, j, _entry(columns, row, j, node))
        if heavy >= 0:
            return step + 1, heavy
    return rows.shape[0] * d, -1


@njit(**EXACT)
def remove(centres: Centres, blocks: Blocks, columns: Columns, rows: Rows, start: int) -> tuple[int, int]:
    """Take present rows out, dimension by dimension, from step `start` on; returns as `insert` does."""
    d = columns.lo.shape[1]
    for step in range(start, rows.shape[0] * d):
        row, j = rows[step // d], step % d
        remove_entry(blocks, j, row)
        heavy = _leave(centres, j, columns.lo[row, j], columns.hi[row, j])
        if heavy >= 0:
            return step + 1, heavy
    return rows.shape[0] * d, -1


@njit(**EXACT)
def move(blocks: Blocks, columns: Columns, rows: Rows, lists: Rows, j: int, start: int) -> int:
    """Let present rows stand under their keys of now, in the lists given or, if there are none, their own.

    From step `start` on; returns the step where it stopped for lack of room.
    """
    for step in range(start, rows.shape[0]):
        if blocks.size.shape[0] - blocks.meta[BLOCKS] < SPARE:
            return step
        listed = remove_entry(blocks, j, rows[step])
        if lists.shape[0] > 0:
            listed = lists[step]
        insert_entry(blocks, columns.label, j, _entry(columns, rows[step], j, listed))
    return rows.shape[0]


@njit(**EXACT)
def weigh(child: Rows, first: Longs) -> Rows:
    """The intervals in each subtree of a tree that `centre_tree` has built, whose children follow parents."""
    weight = np.empty(child.shape[0], np.int32)
    for node in range(child.shape[0] - 1, -1, -1):
        weight[node] = first[node + 1] - first[node]
        for side in range(2):
            if child[node, side] >= 0:
                weight[node] += weight[child[node, side]]
    return weight


@njit(**EXACT)
def _dissolve(centres: Centres, blocks: Blocks, node: int, j: int) -> Rows:
    """The rows of a subtree; its nodes but the first are given back."""
    rows, found = np.empty(centres.weight[node], np.int32), 0
    stack, depth = np.empty(2 * DEPTH, np.int64), 1
    stack[0] = node
    while depth > 0:
        depth -= 1
        each = stack[depth]
        number = centres.number[each]
        rows_of(blocks, blocks.root[j], each, rows[found : found + number])
        found += number
        for side in range(2):
            if centres.child[each, side] >= 0:
                stack[depth] = centres.child[each, side]
                depth += 1
        if each != node:
            _give_node(centres, each)
    return rows


@njit(**EXACT)
def rebuild(centres: Centres, blocks: Blocks, columns: Columns, node: int, j: int) -> tuple[Rows, Rows]:
    """Build a subtree anew; returns its rows and the lists they belong to now, into which `move` brings them.

    Needs as many free nodes as there are intervals in the subtree.
    """
    rows = _dissolve(centres, blocks, node, j)
    centre, child, first, order = centre_tree(columns.lo[:, j][rows], columns.hi[:, j][rows])
    names, weight = np.empty(centre.shape[0], np.int32), weigh(child, first)
    lists = np.empty(rows.shape[0], np.int32)
    for each in range(names.shape[0]):
        names[each] = node if each == 0 else _take_node(centres, centre[each])
        lists[first[each] : first[each + 1]] = names[each]
    for each in range(names.shape[0]):
        name = names[each]
        centres.centre[name], centres.weight[name] = centre[each], weight[each]
        centres.number[name] = first[each + 1] - first[each]
        for side in range(2):
            below = child[each, side]
            centres.child[name, side] = names[below] if below >= 0 else -1
    centres.meta[REBUILT] += 1
    return rows[order], lists
