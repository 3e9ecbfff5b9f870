"""Tiles of a message meet the subscriptions: each is shrunk to the corners in it, or dropped, and merged.

All tiles go down the tree of corners together, as in `join`: a node keeps those that meet its box; one that
holds the whole box takes it in and is not asked again below. So a hundred tiles cost little more than one.
[Range §III-B]
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.kernels.corner_cover import Post, merge
from rankcast.kernels.corner_tree import CAPACITY, DEPTH, CornerTree, Floats, Rows
from rankcast.kernels.options import EXACT

LEVELS = 64
NEAR = 6


@njit(**EXACT)
def _meets(one_low: Floats, one_high: Floats, one: int, low: Floats, high: Floats, two: int) -> int:
    """0 if two boxes have nothing in common, 2 if the second holds the first, 1 otherwise."""
    whole = 2
    for axis in range(low.shape[1]):
        if low[two, axis] > one_high[one, axis] or high[two, axis] < one_low[one, axis]:
            return 0
        if low[two, axis] > one_low[one, axis] or high[two, axis] < one_high[one, axis]:
            whole = 1
    return whole


@njit(**EXACT)
def _take_in(found: Floats, t: int, low: Floats, high: Floats, at: int) -> None:
    """Grow the box found for a tile by a box of a list of boxes."""
    width = low.shape[1]
    for axis in range(width):
        found[t, axis] = min(found[t, axis], low[at, axis])
        found[t, width + axis] = max(found[t, width + axis], high[at, axis])


@njit(**EXACT)
def _shrink(tree: CornerTree, post: Post, first: int, found: Floats) -> None:
    """Find the tightest box around the corners in each tile from `first` on."""
    point, bucket, child, sizes, capacity = (
        tree.point,
        tree.bucket,
        tree.child,
        tree.size,
        tree.meta[CAPACITY],
    )
    tree_low, tree_high, low, high, total = tree.low, tree.high, post.low, post.high, post.size[0] - first
    queue, stack = np.empty(total * LEVELS, np.int32), np.zeros((DEPTH, 3), np.int64)
    for i in range(total):
        queue[i] = first + i
    depth, stack[0, 2] = 1, total
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if 2 * end - start > queue.shape[0]:
            queue = np.append(queue, queue)
        size = end
        for i in range(start, end):
            how = _meets(tree_low, tree_high, node, low, high, queue[i])
            if how == 2:
                _take_in(found, queue[i] - first, tree_low, tree_high, node)
            elif how == 1:
                queue[size] = queue[i]
                size += 1
        if size == end:
            continue
        if bucket[node] < 0:
            for side in range(2):
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = child[node, side], end, size
                depth += 1
            continue
        begin = bucket[node] * capacity
        for slot in range(begin, begin + sizes[node]):
            for i in range(end, size):
                if _meets(point, point, slot, low, high, queue[i]) == 2:
                    _take_in(found, queue[i] - first, point, point, slot)
                    break


@njit(**EXACT)
def thin(tree: CornerTree, post: Post, first: int) -> None:
    """Shrink, drop and merge the tiles of one message, from `first` on."""
    size, width, kept = post.size[0], tree.point.shape[1], first
    if size == first or tree.size[0] == 0:
        post.size[0] = first
        return
    found = np.empty((size - first, 2 * width))
    found[:, :width], found[:, width:] = np.inf, -np.inf
    _shrink(tree, post, first, found)
    for at in range(size - first):
        if found[at, 0] <= found[at, width]:
            for axis in range(width):
                post.low[kept, axis], post.high[kept, axis] = found[at, axis], found[at, width + axis]
            kept += 1
    post.size[0] = kept
    cut, level, again = np.full(kept - first, -1, np.int32), np.zeros(kept - first, np.int32), kept > first
    while again:
        again = merge(tree, post, first, cut, level, NEAR)


@njit(**EXACT)
def count_reached(tree: CornerTree, post: Post, told: Rows) -> int:
    """How many corners lie in at least one of some tiles."""
    point, bucket, child, sizes, capacity = (
        tree.point,
        tree.bucket,
        tree.child,
        tree.size,
        tree.meta[CAPACITY],
    )
    tree_low, tree_high, low, high, total = tree.low, tree.high, post.low, post.high, told.shape[0]
    queue, stack = np.empty(total * LEVELS, np.int32), np.zeros((DEPTH, 3), np.int64)
    queue[:total] = told
    depth, count, stack[0, 2] = 1 if total > 0 else 0, 0, total
    while depth > 0:
        depth -= 1
        node, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        if 2 * end - start > queue.shape[0]:
            queue = np.append(queue, queue)
        whole, size = False, end
        for i in range(start, end):
            how = _meets(tree_low, tree_high, node, low, high, queue[i])
            queue[size] = queue[i]
            size += how > 0
            whole |= how == 2
        if whole:
            count += sizes[node]
        elif size > end and bucket[node] < 0:
            for side in range(2):
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = child[node, side], end, size
                depth += 1
        elif size > end:
            begin = bucket[node] * capacity
            for slot in range(begin, begin + sizes[node]):
                for i in range(end, size):
                    if _meets(point, point, slot, low, high, queue[i]) == 2:
                        count += 1
                        break
    return count
