"""Planting a point tree or a subtree of it: many points at once, split evenly, leaves filled to FILL.

What is to be built anew is copied out (`collect`) and planted again in the same node. Levels of many points
are split several at once (`division`), those of few exactly (`selection`).

Cost: O(n log n) for n points, a few nanoseconds a point and level.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.point_tree import (
    BUCKET,
    NODE_FREE,
    NODE_USED,
    PointTree,
    buckets_for,
    enclose,
    make_leaf,
    merge_boxes,
    release,
)
from rankcast.structures.jit import EXACT
from rankcast.structures.select import Division, Places, Records, balanced, bring, divide, levels_for, split


@njit(**EXACT)
def collect(tree: PointTree, node: int, points: Records, boards: NDArray[np.int32]) -> int:
    """Copy out the points below a node with their boards; release everything but the node itself.

    Returns how many there are; `points` and `boards` must have space for them.
    """
    lo, hi, row, board = tree.lo, tree.hi, tree.row, tree.board
    stack, depth, size = np.empty(256, np.int64), 1, 0
    stack[0] = node
    while depth > 0:
        depth -= 1
        here = stack[depth]
        if tree.bucket[here] < 0:
            stack[depth], stack[depth + 1] = tree.child[here, 0], tree.child[here, 1]
            depth += 2
        else:
            start = tree.bucket[here] * BUCKET
            for slot in range(start, start + tree.size[here]):
                points[size, 0], points[size, 1] = lo[slot], hi[slot]
                points[size, 2], points[size, 3] = row[slot], size
                boards[size] = board[slot]
                size += 1
        release(tree, here, here == node)
    return size


@njit(**EXACT)
def write_records(
    points: Records, size: int, rows: NDArray[np.int32], lo: NDArray[np.float64], hi: NDArray[np.float64]
) -> None:
    """Write points behind the first `size` records."""
    for i in range(rows.shape[0]):
        at = size + i
        points[at, 0], points[at, 1], points[at, 2], points[at, 3] = lo[i], hi[i], rows[i], at


@njit(**EXACT)
def _fill_leaf(
    tree: PointTree, node: int, points: Records, places: Places, boards: NDArray[np.int32]
) -> None:
    make_leaf(tree, node)
    first, board, slot_of = tree.bucket[node] * BUCKET, tree.board, tree.slot_of
    lo, hi, row = tree.lo[first:], tree.hi[first:], tree.row[first:]
    for at in range(places.shape[0]):
        i = places[at]
        which, origin = np.int32(points[i, 2]), np.int64(points[i, 3])
        lo[at], hi[at], row[at], slot_of[which] = points[i, 0], points[i, 1], which, first + at
        if origin < boards.shape[0]:
            board[first + at] = boards[origin]
    enclose(tree, node)


@njit(**EXACT)
def _take_node(tree: PointTree, parent: int, size: int) -> int:
    node = tree.meta[NODE_FREE]
    if node >= 0:
        tree.meta[NODE_FREE] = tree.parent[node]
    else:
        node = tree.meta[NODE_USED]
        tree.meta[NODE_USED] += 1
    tree.parent[node], tree.size[node], tree.bucket[node] = parent, size, -1
    return node


@njit(**EXACT)
def _branch(
    tree: PointTree, node: int, sizes: tuple[int, int], axis: int, pivot: NDArray[np.float64]
) -> None:
    """Give a node two children, which become leaves or branches later."""
    tree.axis[node], tree.pivot_row[node] = axis, np.int32(pivot[2])
    tree.pivot[node, 0], tree.pivot[node, 1] = pivot[0], pivot[1]
    left, right = _take_node(tree, node, sizes[0]), _take_node(tree, node, sizes[1])
    tree.child[node, 0], tree.child[node, 1] = left, right


@njit(**EXACT)
def _branch_out(tree: PointTree, node: int, division: Division, stack: NDArray[np.int64], depth: int) -> int:
    """Turn the balanced part of a division into branches; push what is left to split, the leftmost last."""
    walk, height = np.empty((16, 2), np.int64), 1
    walk[0, 0], walk[0, 1] = node, 1
    while height > 0:
        height -= 1
        here, c = walk[height, 0], walk[height, 1]
        start, end = division.start[c], division.end[c]
        if c < division.axis.shape[0] and balanced(division, c):
            middle = division.end[2 * c]
            axis = np.int64(division.axis[c])
            _branch(tree, here, (middle - start, end - middle), axis, division.pivot[c])
            for side in range(2):
                walk[height, 0], walk[height, 1] = tree.child[here, side], 2 * c + side
                height += 1
        else:
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = here, start, end
            stack[depth, 3] = c < division.axis.shape[0]
            depth += 1
    return depth


@njit(**EXACT)
def plant(tree: PointTree, node: int, points: Records, spare: Records, boards: NDArray[np.int32]) -> None:
    """Build a balanced subtree of the given points in a node that has no bucket or children.

    Many points are split by several levels at once, near the middle; few, or where that fails, exactly, so
    that buckets are filled evenly. The records of a range that may be divided stand in their places, those of
    smaller ones only by `order`. `spare` is as large as `points`. `boards` has their boards by origin; for
    origins beyond its end they are left as they are.
    """
    order, aside = np.arange(points.shape[0]).astype(np.int32), np.empty(points.shape[0], np.int32)
    stack, depth = np.empty((1024, 4), np.int64), 1
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = node, 0, points.shape[0], 0
    while depth > 0:
        depth -= 1
        here, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        tree.size[here] = end - start
        buckets, levels = buckets_for(end - start), levels_for(end - start)
        if buckets == 1:
            _fill_leaf(tree, here, points, order[start:end], boards)
            _tighten(tree, here, node)
        elif levels > 0 and stack[depth, 3] == 0:
            division = divide(points, spare, start, end, levels)
            depth = _branch_out(tree, here, division, stack, depth)
        else:
            middle = start + (end - start) * ((buckets + 1) // 2) // buckets
            axis = split(points, order, aside, start, end, middle)
            _branch(tree, here, (middle - start, end - middle), axis, points[order[middle]])
            if levels > 0:
                bring(points, order, spare, start, end)
            for side in range(1, -1, -1):
                bounds = (start, middle) if side == 0 else (middle, end)
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = (
                    tree.child[here, side],
                    bounds[0],
                    bounds[1],
                )
                stack[depth, 3] = 0
                depth += 1


@njit(**EXACT)
def _tighten(tree: PointTree, node: int, top: int) -> None:
    """Close the boxes of the parents, up to `top`, whose rightmost leaf was just filled."""
    while node != top and tree.child[tree.parent[node], 1] == node:
        node = tree.parent[node]
        merge_boxes(tree, node)


@njit(**EXACT)
def rebuild(tree: PointTree, node: int) -> None:
    """Build the subtree of a node anew, balanced, leaves filled to FILL. O(n log n) for its n points."""
    points, boards = (
        np.empty((tree.size[node], 4)),
        np.empty((tree.size[node], tree.board.shape[1]), np.int32),
    )
    collect(tree, node, points, boards)
    plant(tree, node, points, np.empty_like(points), boards)
