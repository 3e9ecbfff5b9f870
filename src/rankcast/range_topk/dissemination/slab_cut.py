"""Who is around the members of a region, in 1.5 dimensions: a cut through the tree of corners.

A cut is some nodes, none of them below another, that have everybody between them who holds an object. Finding
the members of a region makes one: leaves that were read, and nodes whose boxes all hold too many better
objects. A question goes over the list, whose boxes stand side by side, as do the points of leaves that were
read: few, wide instructions, and no memory that was not just used. A node that was not read is opened when
somebody asks who is in it, which is rare, and its children take its place.

Points and boxes have three axes, those of a corner tree that differ: lo, -hi, and the bound of the second
attribute with its sign turned. A box is six numbers, its lowest corner and its highest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.corner_tree import CAPACITY, CornerTree, Floats, Rows
from rankcast.structures.jit import EXACT

NODES, POINTS, SEEN = range(3)
UNREAD = -2
WIDE = 16  # numbers that are compared together; lists of points are filled up with those that are nowhere
WITNESSES = WIDE
TOGETHER = 2 * WIDE  # nodes that are looked at together
Moments = NDArray[np.int64]
Box = tuple[float, float, float, float, float, float]


class Cut(NamedTuple):
    """Nodes with their boxes, and where the points of a leaf begin and end; it was not read if below 0.

    Of points that were read `slot` has the slots; `witness` has the last who were found in the way. An axis
    is a row everywhere. `size`: how many nodes and points there are, how often somebody was in the way.
    """

    box: Floats
    node: Rows
    start: Rows
    end: Rows
    point: Floats
    slot: Rows
    witness: Floats
    size: Moments


class Near(NamedTuple):
    """Those of a cut that have something in a box: their boxes, filled up, which they are, room for each."""

    box: Floats
    which: Moments
    meets: NDArray[np.bool_]


def new_cut(leaves: int, points: int) -> Cut:
    """Room for a cut through a tree with so many leaves and points."""
    filled_up = points + WIDE * leaves
    return Cut(
        box=np.empty((6, leaves + WIDE)),
        node=np.empty(leaves, np.int32),
        start=np.empty(leaves, np.int32),
        end=np.empty(leaves, np.int32),
        point=np.empty((3, filled_up)),
        slot=np.empty(filled_up, np.int32),
        witness=np.empty((3, WITNESSES)),
        size=np.zeros(3, np.int64),
    )


@njit(**EXACT)
def clear(cut: Cut) -> None:
    """Forget all nodes, points and witnesses."""
    cut.size[:], cut.witness[:] = 0, np.nan


@njit(**EXACT)
def wide(count: int) -> int:
    """How long a list of so many is when it is filled up."""
    return (count + WIDE - 1) & -WIDE


@njit(**EXACT)
def fill_up(values: Floats, start: int, size: int) -> int:
    """Fill up a list of so many from `start` on with those that are nowhere; return where it ends."""
    end = start + wide(size)
    for at in range(np.uint64(start + size), np.uint64(end)):
        values[0, at] = np.nan
    return end


@njit(**EXACT)
def put_node(tree: CornerTree, bound: int, cut: Cut, at: int, node: int) -> None:
    """Let a node that was not read have a place in the list."""
    box, low, high = cut.box, tree.low, tree.high
    cut.node[at], cut.start[at] = node, -1
    box[0, at], box[1, at], box[2, at] = low[node, 0], low[node, 1], low[node, bound]
    box[3, at], box[4, at], box[5, at] = high[node, 0], high[node, 1], high[node, bound]


@njit(**EXACT)
def read_leaf(tree: CornerTree, bound: int, cut: Cut, at: int, top: tuple[float, float, float]) -> None:
    """Read those points of a leaf of the list that are nowhere above another one."""
    node, source, target, slots, (a, b, c) = cut.node[at], tree.point, cut.point, cut.slot, top
    first, axis, begin = (
        np.uint64(tree.bucket[node] * tree.meta[CAPACITY]),
        np.uint64(bound),
        cut.size[POINTS],
    )
    last = np.uint64(begin)
    for slot in range(first, first + np.uint64(tree.size[node])):
        p, q, r = source[slot, 0], source[slot, 1], source[slot, axis]
        target[0, last], target[1, last], target[2, last], slots[last] = p, q, r, slot
        last += np.uint64((p <= a) & (q <= b) & (r <= c))
    cut.start[at], cut.end[at], cut.size[POINTS] = begin, last, fill_up(target, begin, np.int64(last) - begin)


@njit(**EXACT)
def _has(box: Box, a: float, b: float, c: float) -> bool:
    """Whether a box holds a point."""
    least = (box[0] <= a) & (box[1] <= b) & (box[2] <= c)
    return least & (a <= box[3]) & (b <= box[4]) & (c <= box[5])


@njit(**EXACT)
def between(point: Floats, first: int, end: int, both: Box, one: Box, two: Box) -> int:
    """Which of the points first..end-1 is in a box and in neither of two others, both in it, or -1.

    All are looked at, and those that fill the list up: few, wide instructions.
    """
    (a, b, c, d, e, f), start, found = both, np.uint64(first), -1
    for i in range(wide(end - first)):
        at = start + np.uint64(i)
        p, q, r = point[0, at], point[1, at], point[2, at]
        inside = (a <= p) & (p <= d) & (b <= q) & (q <= e) & (c <= r) & (r <= f)
        found = max(found, i if inside & (not (_has(one, p, q, r) | _has(two, p, q, r))) else -1)
    return first + found if found >= 0 else found


@njit(**EXACT)
def _meet(box: Floats, first: int, end: int, around: Box, meets: NDArray[np.bool_]) -> None:
    """Write which of the boxes first..end-1 have something in common with one."""
    (a, b, c, d, e, f), start = around, np.uint64(first)
    for i in range(np.uint64(wide(end - first))):
        at = start + i
        least = (box[0, at] <= d) & (box[1, at] <= e) & (box[2, at] <= f)
        meets[at] = least & (box[3, at] >= a) & (box[4, at] >= b) & (box[5, at] >= c)


@njit(**EXACT)
def near_to(cut: Cut, around: Box) -> Near:
    """Those of a cut that have something in a box."""
    count, box, size = cut.size[NODES], cut.box, 0
    meets, which = np.empty(wide(count), np.bool_), np.empty(count + 1, np.int64)
    _meet(box, 0, count, around, meets)
    for first in range(np.uint64(0), np.uint64(count), np.uint64(WIDE)):
        some = 0
        for i in range(np.uint64(WIDE)):
            some += meets[first + i]
        for at in range(first, min(first + np.uint64(WIDE), np.uint64(count)) if some > 0 else first):
            which[size] = at
            size += meets[at]
    near = np.empty((6, wide(size)))
    for axis in range(6):
        for i in range(size):
            near[axis, i] = box[axis, which[i]]
    fill_up(near, 0, size)
    return Near(near, which[:size], meets)


@njit(**EXACT)
def _widened(box: Box, around: Box) -> Box:
    """A box without its bounds that are those of one around it."""
    return (
        -np.inf if box[0] == around[0] else box[0],
        -np.inf if box[1] == around[1] else box[1],
        -np.inf if box[2] == around[2] else box[2],
        np.inf if box[3] == around[3] else box[3],
        np.inf if box[4] == around[4] else box[4],
        np.inf if box[5] == around[5] else box[5],
    )


@njit(**EXACT)
def _within(box: Floats, at: int, around: Box) -> bool:
    """Whether a node of a list is all in a box."""
    least = (around[0] <= box[0, at]) & (around[1] <= box[1, at]) & (around[2] <= box[2, at])
    return least & (box[3, at] <= around[3]) & (box[4, at] <= around[4]) & (box[5, at] <= around[5])


@njit(**EXACT)
def look(
    near: Near, start: Rows, end: Rows, point: Floats, both: Box, one: Box, two: Box
) -> int:  # fmt: skip
    """The point of somebody in a box and in neither of two others, both in it, or -1.

    UNREAD - at if who is below the node `at` must be known first. Where somebody is found goes to the front.
    A node does not matter if what it has in the box is all in one of the two.
    """
    (box, which, meets), wide, broad = near, _widened(one, both), _widened(two, both)
    for first in range(0, which.shape[0], TOGETHER):
        last = min(first + TOGETHER, which.shape[0])
        _meet(box, first, last, both, meets)
        for i in range(np.uint64(first), np.uint64(last)):
            if not meets[i] or _within(box, i, wide) or _within(box, i, broad):
                continue
            at = which[i]
            if start[at] < 0:
                return UNREAD - at
            found = between(point, np.int64(start[at]), np.int64(end[at]), both, one, two)
            if found >= 0:
                which[0], which[i] = at, which[0]
                for axis in range(6):
                    box[axis, 0], box[axis, i] = box[axis, i], box[axis, 0]
                return found
    return -1


@njit(**EXACT)
def look_below(tree: CornerTree, bound: int, cut: Cut, at: int, near: Near, hull: Box) -> Near:
    """Read a leaf of the list, or let the children of a node take its place; those near a box then."""
    node, last = cut.node[at], cut.size[NODES]
    if tree.bucket[node] >= 0:
        read_leaf(tree, bound, cut, at, (np.inf, np.inf, np.inf))
        return near
    put_node(tree, bound, cut, at, tree.child[node, 0])
    put_node(tree, bound, cut, last, tree.child[node, 1])
    cut.size[NODES] += 1
    return near_to(cut, hull)


@njit(**EXACT)
def remember(cut: Cut, found: int) -> None:
    """Keep a point as that of somebody who was in the way."""
    point, witness, at = cut.point, cut.witness, cut.size[SEEN] % WITNESSES
    witness[0, at], witness[1, at], witness[2, at] = point[0, found], point[1, found], point[2, found]
    cut.size[SEEN] += 1
