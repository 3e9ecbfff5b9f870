"""Which lists an event must read: the interval tree, live, and the segment tree.

Interval tree [Ranked §2.1.1]: a node takes the intervals that contain its centre, the median of all ends; its
left child those that end before, its right child those that begin behind it. Depth O(log n), each interval
once. Segment tree [Ranked §2.1.2]: the ends cut the line into 2m + 1 slots (each end, and each gap between
two of them); an interval is listed in the O(log n) nodes that cover its slots, and whoever comes to a node
meets all of its list.

The interval tree changes in place. An interval that finds no child makes one, with one of its ends as the
centre; a node whose subtree is empty goes. Where a child has got more than three quarters of the intervals of
its parent, that parent's subtree is rebuilt with medians as centres, after which a child has two thirds at
most: so depth stays O(log n) and a change costs O(log^2 n) amortised. Without any node (`top` is empty) a
dimension has one list, with the number 0.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.matching.kernels.box_tree import Columns, free_chain_fits
from rankcast.papers.matching.scored_blocks import (
    BLOCKS,
    DEPTH,
    Blocks,
    Floats,
    ListEntry,
    Longs,
    Rows,
    insert_entry,
    remove_entry,
    rows_of,
)
from rankcast.structures.jit import EXACT

USED, FREE, NODES, REBUILT = range(4)
SPARE = 80  # free blocks that an insertion may need: two a level


@njit(**EXACT)
def _centre(lo: Floats, hi: Floats, order: Longs, start: int, end: int) -> float:
    """The median of the finite ends of some intervals, 0 if there is none."""
    ends, size = np.empty(2 * (end - start)), 0
    for i in range(start, end):
        for value in (lo[order[i]], hi[order[i]]):
            if np.isfinite(value):
                ends[size] = value
                size += 1
    if size == 0:
        return 0.0
    return np.partition(ends[:size], size // 2)[size // 2]


@njit(**EXACT)
def centre_tree(lo: Floats, hi: Floats) -> tuple[Floats, Rows, Longs, Longs]:
    """Centres, children (nodes, 2), the first entry of each node's list, and all entries.

    Lists keep the order in which intervals come. Node 0 is the root. O(n log n).
    """
    total = lo.shape[0]
    order, spare, listed = np.arange(total), np.empty(total, np.int64), np.empty(total, np.int64)
    centre, child = np.zeros(total + 1), np.full((total + 1, 2), -1, np.int32)
    first, nodes, used = np.zeros(total + 2, np.int64), 0, 0
    stack, depth = np.empty((256, 4), np.int64), 1
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, total, -1, 0
    while depth > 0:
        depth -= 1
        start, end, parent, side = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if parent >= 0:
            child[parent, side] = nodes
        middle, left, right = _centre(lo, hi, order, start, end), start, 0
        for i in range(start, end):
            each = order[i]
            if hi[each] < middle:
                order[left] = each
                left += 1
            elif lo[each] > middle:
                spare[right] = each
                right += 1
            else:
                listed[used] = each
                used += 1
        order[left : left + right] = spare[:right]
        centre[nodes], first[nodes + 1] = middle, used
        for side, begin, size in ((0, start, left - start), (1, left, right)):
            if size > 0:
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = begin, begin + size, nodes
                stack[depth, 3] = side
                depth += 1
        nodes += 1
    return centre[:nodes].copy(), child[:nodes].copy(), first[: nodes + 1].copy(), listed


@njit(**EXACT)
def route_by_centres(
    centre: Floats, child: Rows, number: Rows, top: int, below: float, above: float, route: Longs
) -> int:
    """The nodes with a list that may hold an interval that the event meets; returns how many."""
    size, done, used = 1, 0, 0
    route[0] = top
    while done < size:
        node = route[done]
        done += 1
        for side in range(2):
            wanted = above < centre[node] if side == 0 else below > centre[node]
            if wanted and child[node, side] >= 0:
                route[size] = child[node, side]
                size += 1
        if number[node] > 0:
            route[used] = node
            used += 1
    return used


@njit(**EXACT)
def slot_of(ends: Floats, value: float, leaves: int) -> int:
    """The slot of a value among sorted distinct ends: odd for an end, even for a gap."""
    if value == np.inf:
        return leaves - 1
    place = int(np.searchsorted(ends, value))
    return 2 * place + 1 if place < ends.shape[0] and ends[place] == value else 2 * place


@njit(**EXACT)
def segment_tree(lo: Floats, hi: Floats, ends: Floats, leaves: int) -> tuple[Longs, Longs]:
    """The first entry of each node's list (nodes 1 .. 2 leaves - 1), and all entries, in the given order."""
    first, listed = np.zeros(2 * leaves + 1, np.int64), np.empty(0, np.int64)
    for fill in range(2):
        for each in range(lo.shape[0]):
            left, right = (
                leaves + slot_of(ends, lo[each], leaves),
                leaves + slot_of(ends, hi[each], leaves) + 1,
            )
            while left < right:
                if left & 1:
                    if fill:
                        listed[first[left]] = each
                    first[left if fill else left + 1] += 1
                    left += 1
                if right & 1:
                    right -= 1
                    if fill:
                        listed[first[right]] = each
                    first[right if fill else right + 1] += 1
                left, right = left >> 1, right >> 1
        if fill == 0:
            first = np.cumsum(first)
            listed = np.empty(first[-1], np.int64)
    first[1:] = first[:-1].copy()
    first[0] = 0
    return first, listed


@njit(**EXACT)
def route_by_segments(
    number: Rows, ends: Floats, leaves: int, below: float, above: float, route: Longs
) -> int:
    """The nodes with a list that cover a slot of the event; for an unknown value the root alone."""
    size = 0
    if above > below:
        route[0] = 1
        return 1
    left = 0 if above == -np.inf else slot_of(ends, above, leaves)
    right = slot_of(ends, below, leaves)
    left, right = left + leaves, right + leaves
    while left > 0:
        for node in range(left, right + 1):
            if number[node] > 0:
                route[size] = node
                size += 1
        left, right = left >> 1, right >> 1
    return size


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
def _entry(columns: Columns, row: int, j: int, listed: int) -> ListEntry:
    """The entry of a row in dimension j; weights rank it if there are any."""
    key = columns.weight[row, j] if columns.weight.shape[1] > 0 else columns.score[row]
    return ListEntry(listed, row, key, columns.lo[row, j], columns.hi[row, j], columns.score[row])


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


@njit(**EXACT)
def centres_fit(tree: Centres, blocks: Blocks, columns: Columns, rows: Rows, number: Longs) -> bool:
    """Whether trees of centres are consistent, and each of the rows stands in the list where it belongs.

    `number` counts the entries of each list, as they stand in the blocks, which must fit already.
    """
    used, meta = tree.meta[USED], tree.meta
    if not 0 <= meta[NODES] <= used <= tree.number.size:
        return False
    seen, known = np.zeros(used, np.bool_), 0
    stack = np.empty((2 * DEPTH, 2), np.int64)
    for j in range(tree.top.size):
        top = np.int64(tree.top[j])
        if top < -1 or top >= used or (top < 0) != (rows.size == 0):
            return False
        stack[0, 0], stack[0, 1], depth = top, 1, 1 if top >= 0 else 0
        while depth > 0:
            depth -= 1
            node, level = stack[depth, 0], stack[depth, 1]
            if seen[node] or level >= DEPTH - 16 or np.isnan(tree.centre[node]):
                return False
            seen[node], known = True, known + 1
            weight = np.int64(tree.number[node])
            if weight != number[node]:
                return False
            for side in range(2):
                child = np.int64(tree.child[node, side])
                if child < -1 or child >= used:
                    return False
                if child >= 0:
                    weight += tree.weight[child]
                    stack[depth, 0], stack[depth, 1], depth = child, level + 1, depth + 1
            if tree.weight[node] != weight or weight < 1:
                return False
        for row in rows:
            node, lo, hi = top, columns.lo[row, j], columns.hi[row, j]
            while node >= 0 and not lo <= tree.centre[node] <= hi:
                node = np.int64(tree.child[node, 1 if lo > tree.centre[node] else 0])
            block, i = np.int64(blocks.leaf[row, j]), 0
            while i < blocks.size[block] and blocks.link[block, i] != row:
                i += 1
            if node < 0 or i == blocks.size[block] or blocks.listed[block, i] != node:
                return False
    if known != meta[NODES]:
        return False
    return free_chain_fits(seen, known, meta[FREE], tree.child[:used, 0].copy())
