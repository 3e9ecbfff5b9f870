"""Boxes around members in 1.5 dimensions become one where nobody else is between.

[Range §III-B, App. D]

A box is six numbers, its lowest corner and its highest, in the three axes of a corner tree that differ:
(lo, -hi, the bound of the second attribute with its sign turned).
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.kernels.corner_merge import Post
from rankcast.kernels.corner_tree import CAPACITY, DEPTH, CornerTree, Floats
from rankcast.kernels.options import EXACT

NEAR, ALL = 6, 12  # how many boxes back a merge is tried; so few are tried all
Box = tuple[float, float, float, float, float, float]


@njit(**EXACT)
def _read(box: Floats, at: int) -> Box:
    """A box of a list."""
    return box[at, 0], box[at, 1], box[at, 2], box[at, 3], box[at, 4], box[at, 5]


@njit(**EXACT)
def _around(one: Box, two: Box) -> Box:
    """The box around two others."""
    return (
        min(one[0], two[0]),
        min(one[1], two[1]),
        min(one[2], two[2]),
        max(one[3], two[3]),
        max(one[4], two[4]),
        max(one[5], two[5]),
    )


@njit(**EXACT)
def _holds(box: Box, point: Floats, at: int, bound: int) -> bool:
    """Whether a box holds a point of a tree."""
    a, b, c = point[at, 0], point[at, 1], point[at, bound]
    return (box[0] <= a) & (a <= box[3]) & (box[1] <= b) & (b <= box[4]) & (box[2] <= c) & (c <= box[5])


@njit(**EXACT)
def _has(box: Box, low: Floats, high: Floats, node: int, bound: int) -> bool:
    """Whether a box holds a whole node."""
    least = (box[0] <= low[node, 0]) & (box[1] <= low[node, 1]) & (box[2] <= low[node, bound])
    return least & (high[node, 0] <= box[3]) & (high[node, 1] <= box[4]) & (high[node, bound] <= box[5])


@njit(**EXACT)
def _meets(box: Box, low: Floats, high: Floats, node: int, bound: int) -> bool:
    """Whether a box and a node have something in common."""
    least = (box[3] >= low[node, 0]) & (box[4] >= low[node, 1]) & (box[5] >= low[node, bound])
    return least & (high[node, 0] >= box[0]) & (high[node, 1] >= box[1]) & (high[node, bound] >= box[2])


@njit(**EXACT)
def _stray(tree: CornerTree, bound: int, root: int, both: Box, one: Box, two: Box) -> int:
    """The slot of somebody below a node, in a box and in neither of two others, or -1.

    Lower corners are looked at first: those are the larger boxes, whom the object mostly is nothing to.
    What most nodes and points fail is written out: a call would cost more.
    """
    point, bucket, child, low, high = tree.point, tree.bucket, tree.child, tree.low, tree.high
    sizes, capacity, stack, depth = tree.size, tree.meta[CAPACITY], np.empty(DEPTH, np.int32), 1
    (a, b, c, d, e, f), stack[0] = both, root
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if (low[node, 0] > d) | (low[node, 1] > e) | (low[node, bound] > f):
            continue
        if (high[node, 0] < a) | (high[node, 1] < b) | (high[node, bound] < c):
            continue
        if _has(one, low, high, node, bound) or _has(two, low, high, node, bound):
            continue
        if bucket[node] < 0:
            stack[depth], stack[depth + 1] = child[node, 1], child[node, 0]
            depth += 2
            continue
        first = bucket[node] * capacity
        for slot in range(first, first + sizes[node]):
            p, q, r = point[slot, 0], point[slot, 1], point[slot, bound]
            within = (a <= p) & (p <= d) & (b <= q) & (q <= e) & (c <= r) & (r <= f)
            if within and not (_holds(one, point, slot, bound) or _holds(two, point, slot, bound)):
                return slot
    return -1


@njit(**EXACT)
def _barred(point: Floats, bound: int, post: Post, both: Box, one: Box, two: Box) -> bool:
    """Whether somebody who was in the way lately is in the way again."""
    stray, most, (a, b, c, d, e, f) = post.stray, post.stray.shape[0], both
    at = post.size[3] % most
    for _ in range(min(post.size[3], most)):
        at = at - 1 if at > 0 else most - 1
        slot = stray[at]
        p, q, r = point[slot, 0], point[slot, 1], point[slot, bound]
        within = (a <= p) & (p <= d) & (b <= q) & (q <= e) & (c <= r) & (r <= f)
        if within and not (_holds(one, point, slot, bound) or _holds(two, point, slot, bound)):
            return True
    return False


@njit(**EXACT)
def _enter(tree: CornerTree, bound: int, box: Floats, total: int) -> int:
    """The lowest node that has everybody below it who is in the box around all boxes."""
    node, around, low, high = 0, _read(box, 0), tree.low, tree.high
    for at in range(1, total):
        around = _around(around, _read(box, at))
    while tree.bucket[node] < 0:
        one, two = tree.child[node, 0], tree.child[node, 1]
        left, right = _meets(around, low, high, one, bound), _meets(around, low, high, two, bound)
        if left == right:
            break
        node = one if left else two
    return node


@njit(**EXACT)
def _matters(better: Floats, room: int, box: Box) -> bool:
    """Whether the largest range of a box holds less better objects than there is room: then all of it do."""
    lo, hi, top, held = box[0], -box[1], -box[2], 0
    for j in range(better.shape[0]):
        x, height = better[j, 0], better[j, 1]
        held += (lo <= x) & (x <= hi) & (height <= top)
    return held < room


@njit(**EXACT)
def _apart(box: Floats, start: int, end: int, both: Box) -> bool:
    """Whether none of the boxes start..end-1 meets a box."""
    for at in range(start, end):
        least = (box[at, 0] <= both[3]) & (box[at, 1] <= both[4]) & (box[at, 2] <= both[5])
        if least & (box[at, 3] >= both[0]) & (box[at, 4] >= both[1]) & (box[at, 5] >= both[2]):
            return False
    return True


@njit(**EXACT)
def merge_boxes(
    tree: CornerTree, bound: int, box: Floats, total: int, better: Floats, room: int, post: Post
) -> int:
    """Let the first boxes become fewer, till no two near each other in the list can be one; return how many.

    Nobody else is in a box where the object matters to everybody and that meets no third box. Else those are
    tried first who were found in the way last. A pair is tried again only if one of it has `grown` since it
    was `tried`.
    """
    point, size, moment, root = tree.point, -1, 1, _enter(tree, bound, box, total)
    grown, tried = np.ones(total, np.int64), np.zeros(total, np.int64)
    while size != total:
        size, kept = total, 0
        near = size if size <= ALL else NEAR
        for at in range(size):
            for axis in range(6):
                box[kept, axis] = box[at, axis]
            mine, alone = _read(box, at), True
            grown[kept], tried[kept] = grown[at], tried[at]
            for other in range(kept - 1, max(0, kept - near) - 1, -1):
                if grown[other] <= tried[kept] and grown[kept] <= tried[kept]:
                    continue
                theirs = _read(box, other)
                both = _around(theirs, mine)
                if _barred(point, bound, post, both, theirs, mine):
                    continue
                free = _apart(box, 0, other, both) and _apart(box, other + 1, kept, both)
                free, stray = free and _apart(box, at + 1, size, both), np.int64(-1)
                if not (free and _matters(better, room, both)):
                    stray = _stray(tree, bound, root, both, theirs, mine)
                if stray < 0:
                    moment += 1
                    grown[other], alone = moment, False
                    box[other, 0], box[other, 1], box[other, 2] = both[0], both[1], both[2]
                    box[other, 3], box[other, 4], box[other, 5] = both[3], both[4], both[5]
                    break
                post.stray[post.size[3] % post.stray.shape[0]] = stray
                post.size[3] += 1
            tried[kept] = moment
            kept += alone
        total = kept
    return total
