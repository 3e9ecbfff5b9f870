"""Questions to a point tree about a closed box (lo from, lo to, hi from, hi to): snap, stray, list, count.

A leaf without a bucket stands for its whole box instead of points: so a tree cut off at a few nodes (a
sketch) is asked by the same kernels and answers for everything its boxes cover.

Cost: a node is opened only if its box crosses the border of the question; `snap` skips in addition what
lies inside the box found so far, `stray` ends at the first point found, `list_rows` adds the answer's size.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.options import EXACT
from rankcast.kernels.point_tree import BUCKET, HI_FROM, HI_TO, LO_FROM, LO_TO, PointTree

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
    if tree.bucket[node] < 0:
        solid = tree.box[node]
        lo_from, lo_to = max(solid[LO_FROM], box[LO_FROM]), min(solid[LO_TO], box[LO_TO])
        widen(found, lo_from, lo_to, max(solid[HI_FROM], box[HI_FROM]), min(solid[HI_TO], box[HI_TO]))
        return
    start = tree.bucket[node] * BUCKET
    for slot in range(start, start + tree.size[node]):
        lo, hi = tree.lo[slot], tree.hi[slot]
        if holds(box, lo, hi):
            widen(found, lo, lo, hi, hi)


@njit(**EXACT)
def snap(tree: PointTree, box: Box, found: Box) -> bool:
    """Write the smallest box around the points inside `box` into `found`; return whether there are any."""
    found[LO_FROM], found[LO_TO], found[HI_FROM], found[HI_TO] = np.inf, -np.inf, np.inf, -np.inf
    stack, depth = np.empty(DEPTH, np.int32), 1
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        inside = tree.box[node]
        if tree.size[node] == 0 or apart(inside, box) or within(inside, found):
            continue
        if within(inside, box):
            widen(found, inside[LO_FROM], inside[LO_TO], inside[HI_FROM], inside[HI_TO])
        elif tree.child[node, 0] < 0:
            _snap_leaf(tree, node, box, found)
        else:
            stack[depth], stack[depth + 1] = tree.child[node, 0], tree.child[node, 1]
            depth += 2
    return found[LO_FROM] <= found[LO_TO]


@njit(**EXACT)
def _cut_covered(lo_from: float, lo_to: float, hi_from: float, hi_to: float, one: Box, two: Box) -> bool:
    """Whether two boxes together cover a third, along one axis or the other."""
    if max(one[LO_FROM], two[LO_FROM]) <= lo_from and lo_to <= min(one[LO_TO], two[LO_TO]):
        first, second = (one, two) if one[HI_FROM] <= two[HI_FROM] else (two, one)
        joined = second[HI_FROM] <= np.nextafter(first[HI_TO], np.inf)
        return joined and first[HI_FROM] <= hi_from and hi_to <= max(first[HI_TO], second[HI_TO])
    if max(one[HI_FROM], two[HI_FROM]) <= hi_from and hi_to <= min(one[HI_TO], two[HI_TO]):
        first, second = (one, two) if one[LO_FROM] <= two[LO_FROM] else (two, one)
        joined = second[LO_FROM] <= np.nextafter(first[LO_TO], np.inf)
        return joined and first[LO_FROM] <= lo_from and lo_to <= max(first[LO_TO], second[LO_TO])
    return False


@njit(**EXACT)
def _stray_leaf(tree: PointTree, node: int, box: Box, one: Box, two: Box) -> bool:
    if tree.bucket[node] < 0:
        solid = tree.box[node]
        lo_from, lo_to = max(solid[LO_FROM], box[LO_FROM]), min(solid[LO_TO], box[LO_TO])
        hi_from, hi_to = max(solid[HI_FROM], box[HI_FROM]), min(solid[HI_TO], box[HI_TO])
        cut = np.array([lo_from, lo_to, hi_from, hi_to])
        if within(cut, one) or within(cut, two):
            return False
        return not _cut_covered(lo_from, lo_to, hi_from, hi_to, one, two)
    start = tree.bucket[node] * BUCKET
    for slot in range(start, start + tree.size[node]):
        lo, hi = tree.lo[slot], tree.hi[slot]
        if holds(box, lo, hi) and not holds(one, lo, hi) and not holds(two, lo, hi):
            return True
    return False


@njit(**EXACT)
def stray(tree: PointTree, box: Box, one: Box, two: Box) -> bool:
    """Whether a point of `box` lies outside both of two boxes."""
    stack, depth = np.empty(DEPTH, np.int32), 1
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        inside = tree.box[node]
        if tree.size[node] == 0 or apart(inside, box) or within(inside, one) or within(inside, two):
            continue
        if tree.child[node, 0] < 0:
            if _stray_leaf(tree, node, box, one, two):
                return True
        elif within(inside, box) and apart(inside, one) and apart(inside, two):
            return True
        else:
            stack[depth], stack[depth + 1] = tree.child[node, 0], tree.child[node, 1]
            depth += 2
    return False


@njit(**EXACT)
def list_rows(tree: PointTree, box: Box, rows: NDArray[np.int32]) -> int:
    """Write the rows of the points inside `box` as far as there is space; return how many there are."""
    stack, depth, size = np.empty(DEPTH, np.int32), 1, 0
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if tree.size[node] == 0 or apart(tree.box[node], box):
            continue
        if tree.child[node, 0] >= 0:
            if size >= rows.shape[0] and within(tree.box[node], box):
                size += tree.size[node]
                continue
            stack[depth], stack[depth + 1] = tree.child[node, 1], tree.child[node, 0]
            depth += 2
            continue
        whole = within(tree.box[node], box)
        start = tree.bucket[node] * BUCKET
        for slot in range(start, start + tree.size[node]):
            if whole or holds(box, tree.lo[slot], tree.hi[slot]):
                if size < rows.shape[0]:
                    rows[size] = tree.row[slot]
                size += 1
    return size
