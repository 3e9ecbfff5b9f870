"""Questions to a point tree about a closed box (lo from, lo to, hi from, hi to): snap, stray, list, count.

Cost: a node is opened only if its box crosses the border of the question; `snap` skips in addition what
lies inside the box found so far, `stray` ends at the first point found, `list_rows` adds the answer's size.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.points import BUCKET, HI_FROM, HI_TO, LO_FROM, LO_TO, PointTree
from rankcast.structures.jit import EXACT

Box = NDArray[np.float64]
DEPTH = 256


@njit(**EXACT)
def apart(box: Box, other: Box) -> bool:
    """Whether two closed boxes have no point in common."""
    return (
        box[LO_FROM] > other[LO_TO]
        or box[LO_TO] < other[LO_FROM]
        or box[HI_FROM] > other[HI_TO]
        or box[HI_TO] < other[HI_FROM]
    )


@njit(**EXACT)
def within(box: Box, other: Box) -> bool:
    """Whether a closed box lies inside another."""
    return (
        box[LO_FROM] >= other[LO_FROM]
        and box[LO_TO] <= other[LO_TO]
        and box[HI_FROM] >= other[HI_FROM]
        and box[HI_TO] <= other[HI_TO]
    )


@njit(**EXACT)
def holds(box: Box, lo: float, hi: float) -> bool:
    """Whether a closed box holds a point."""
    return box[LO_FROM] <= lo <= box[LO_TO] and box[HI_FROM] <= hi <= box[HI_TO]


@njit(**EXACT)
def widen(box: Box, lo_from: float, lo_to: float, hi_from: float, hi_to: float) -> None:
    """Grow a box to take in another."""
    box[LO_FROM], box[LO_TO] = min(box[LO_FROM], lo_from), max(box[LO_TO], lo_to)
    box[HI_FROM], box[HI_TO] = min(box[HI_FROM], hi_from), max(box[HI_TO], hi_to)


@njit(**EXACT)
def _snap_leaf(tree: PointTree, node: int, box: Box, found: Box) -> None:
    """Take the points of a leaf inside `box` into `found`."""
    lo, hi = tree.lo, tree.hi
    lo_from, lo_to, hi_from, hi_to = box[LO_FROM], box[LO_TO], box[HI_FROM], box[HI_TO]
    start, west, east, bottom, top = tree.bucket[node] * BUCKET, np.inf, -np.inf, np.inf, -np.inf
    for slot in range(start, start + tree.size[node]):
        if lo_from <= lo[slot] <= lo_to and hi_from <= hi[slot] <= hi_to:
            west, east = min(west, lo[slot]), max(east, lo[slot])
            bottom, top = min(bottom, hi[slot]), max(top, hi[slot])
    widen(found, west, east, bottom, top)


@njit(**EXACT)
def snap(tree: PointTree, box: Box, found: Box) -> bool:
    """Write the smallest box around the points inside `box` into `found`; return whether there are any."""
    boxes, child = tree.box, tree.child
    lo_from, lo_to, hi_from, hi_to = box[LO_FROM], box[LO_TO], box[HI_FROM], box[HI_TO]
    found[LO_FROM], found[LO_TO], found[HI_FROM], found[HI_TO] = np.inf, -np.inf, np.inf, -np.inf
    stack, depth = np.empty(DEPTH, np.int32), 1 if tree.size[0] > 0 else 0
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        west, east, bottom, top = boxes[node, 0], boxes[node, 1], boxes[node, 2], boxes[node, 3]
        if west > lo_to or east < lo_from or bottom > hi_to or top < hi_from:
            continue
        known = found[0] <= max(west, lo_from) and min(east, lo_to) <= found[1]
        if known and found[2] <= max(bottom, hi_from) and min(top, hi_to) <= found[3]:
            continue
        if lo_from <= west and east <= lo_to and hi_from <= bottom and top <= hi_to:
            widen(found, west, east, bottom, top)
        elif child[node, 0] < 0:
            _snap_leaf(tree, node, box, found)
        else:
            stack[depth], stack[depth + 1] = child[node, 0], child[node, 1]
            depth += 2
    return found[LO_FROM] <= found[LO_TO]


@njit(**EXACT)
def _stray_leaf(tree: PointTree, node: int, box: Box, one: Box, two: Box) -> bool:
    lo, hi = tree.lo, tree.hi
    start = tree.bucket[node] * BUCKET
    for slot in range(start, start + tree.size[node]):
        known = holds(one, lo[slot], hi[slot]) or holds(two, lo[slot], hi[slot])
        if not known and holds(box, lo[slot], hi[slot]):
            return True
    return False


@njit(**EXACT)
def stray(tree: PointTree, box: Box, one: Box, two: Box) -> bool:
    """Whether a point of `box` lies outside both of two boxes."""
    boxes, child = tree.box, tree.child
    stack, depth = np.empty(DEPTH, np.int32), 1 if tree.size[0] > 0 else 0
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        west, east, bottom, top = boxes[node, 0], boxes[node, 1], boxes[node, 2], boxes[node, 3]
        if west > box[1] or east < box[0] or bottom > box[3] or top < box[2]:
            continue
        west, east, bottom, top = max(west, box[0]), min(east, box[1]), max(bottom, box[2]), min(top, box[3])
        if one[0] <= west and east <= one[1] and one[2] <= bottom and top <= one[3]:
            continue
        if two[0] <= west and east <= two[1] and two[2] <= bottom and top <= two[3]:
            continue
        if child[node, 0] < 0:
            if _stray_leaf(tree, node, box, one, two):
                return True
        else:
            stack[depth], stack[depth + 1] = child[node, 0], child[node, 1]
            depth += 2
    return False


@njit(**EXACT)
def list_rows(tree: PointTree, box: Box, rows: NDArray[np.int32]) -> int:
    """Write the rows of the points inside `box` as far as there is space; return how many there are."""
    boxes, child, sizes, bucket, lo, hi = tree.box, tree.child, tree.size, tree.bucket, tree.lo, tree.hi
    stack, depth, size = np.empty(DEPTH, np.int32), 1 if sizes[0] > 0 else 0, 0
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if apart(boxes[node], box):
            continue
        whole = within(boxes[node], box)
        if whole and size >= rows.shape[0]:
            size += sizes[node]
        elif child[node, 0] >= 0:
            stack[depth], stack[depth + 1] = child[node, 1], child[node, 0]
            depth += 2
        else:
            start = bucket[node] * BUCKET
            for slot in range(start, start + sizes[node]):
                if whole or holds(box, lo[slot], hi[slot]):
                    if size < rows.shape[0]:
                        rows[size] = tree.row[slot]
                    size += 1
    return size
