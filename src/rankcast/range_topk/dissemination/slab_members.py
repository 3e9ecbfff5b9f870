"""The members of a region in 1.5 dimensions: the subscriptions to which an object matters.

They are found by going down the tree of corners with the better objects: a node is left out if its smallest
box already holds k of them. Each member counts the better objects it holds. An object that is passed adds one
to those that hold it; whoever has k of them has lost the fallen object and gained this one. So a gain is
known without a question to the tree, and so is that nobody has one. [Range §III-B, App. D]

Who else is around the members is told by a cut through the tree: nodes, none of them below another, that
together hold everybody who holds the object: leaves that were read, and nodes all of whose boxes hold too
many better objects. A question goes over their boxes, which stand side by side, as do the points of leaves
that were read: few, wide instructions, and memory that was just used. A node that was not read is opened when
a question needs its points, which is rare, and its children take its place.

Points and boxes have three axes, those of a corner tree that differ: lo, -hi, and the bound of the second
attribute with its sign turned. A box is six numbers, its lowest corner and its highest.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.corners import CAPACITY, DEPTH, CornerTree, Floats, Rows
from rankcast.structures.arrays import prefetch
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
    # unsigned indexes: Numba need not test whether they count from the end
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
    # unsigned indexes: Numba need not test whether they count from the end
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
    # unsigned indexes: Numba need not test whether they count from the end
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
    # unsigned indexes: Numba need not test whether they count from the end
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
    # unsigned indexes: Numba need not test whether they count from the end
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
        # unsigned indexes: Numba need not test whether they count from the end
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


FEW = 24  # better objects that go down the tree as they are
LINE = 8  # numbers that come into the cache together
LO, HI, HEIGHT = range(3)
FOUND, MOMENT, AFFECTED, TWICE, WHOLE = range(5)


class Members(NamedTuple):
    """Members of a region: their ranges and bounds, and how many better objects they hold.

    `whole` are nodes with nothing but members, who are not listed. `size` has how many are, the moment at
    hand, how many were reached, each once a moment, whether somebody may be reached twice in it, and how many
    whole nodes there are. If so, `heard[slot]` is the last moment that reached a slot. `held` is room for a
    bucket, `queue` for the better objects on the way down the tree; `cut` has all around.
    """

    span: Floats
    better: Rows
    whole: Rows
    held: Floats
    queue: Floats
    cut: Cut
    heard: NDArray[np.int64]
    size: NDArray[np.int64]


@njit(**EXACT)
def _count(point: Floats, first: int, size: int, near: Floats, part: tuple[int, int], held: Floats) -> None:
    """Add to what each of some points holds those objects of a part that it does."""
    # unsigned indexes: Numba need not test whether they count from the end
    start, total = np.uint64(first), np.uint64(wide(size))
    for j in range(part[0], part[1]):
        there, above = near[0, j], near[1, j]
        for i in range(total):
            inside = (point[0, start + i] <= there) & (point[1, start + i] <= -there)
            held[i] += 1.0 if inside & (point[2, start + i] <= -above) else 0.0


@njit(**EXACT)
def _list_members(
    near: Floats, part: tuple[int, int], count: int, k: int, at: int, members: Members
) -> None:  # fmt: skip
    """Append the members in a leaf that was read, all of whose boxes hold so many better objects.

    Some hold those near, of which a part counts. Each goes over the whole bucket: few, wide instructions.
    """
    span, counts, heard, held, cut = members.span, members.better, members.heard, members.held, members.cut
    point, slot, start, size = cut.point, cut.slot, np.int64(cut.start[at]), cut.end[at] - cut.start[at]
    moment, found, affected = members.size[MOMENT], members.size[FOUND], 0
    total, twice = found, members.size[TWICE] > 0
    # unsigned indexes: Numba need not test whether they count from the end
    for i in range(np.uint64(wide(size))):
        held[i] = count
    _count(point, start, size, near, part, held)
    for i in range(size):
        span[total, LO], span[total, HI] = point[0, start + i], -point[1, start + i]
        span[total, HEIGHT], counts[total] = -point[2, start + i], held[i]
        total += held[i] < k
        if twice and held[i] < k:
            affected += heard[slot[start + i]] < moment
            heard[slot[start + i]] = moment
    members.size[FOUND] = total
    members.size[AFFECTED] += affected if twice else total - found


@njit(**EXACT)
def _expect(point: Floats, first: int, span: int) -> None:
    """Ask for the memory of a bucket that begins at a number of `point` and is so long."""
    for at in range(first, first + span, LINE):
        prefetch(point, at)


@njit(**EXACT)
def _held_by(queue: Floats, start: int, size: int, lo: float, hi: float, top: float) -> int:
    """How many of so many objects are in a range and not above a height: few, wide instructions."""
    # unsigned indexes: Numba need not test whether they count from the end
    first, count = np.uint64(start), 0
    for i in range(np.uint64(wide(size))):
        there = queue[0, first + i]
        count += (lo <= there) & (there <= hi) & (queue[1, first + i] <= top)
    return count


@njit(**EXACT)
def _take_whole(tree: CornerTree, bound: int, node: int, members: Members) -> None:
    """Note a node that has nothing but members; its leaves become the cut."""
    cut, size, stack, depth = members.cut, members.size, np.empty(DEPTH, np.int32), 1
    members.whole[size[WHOLE]] = node
    size[WHOLE] += 1
    size[AFFECTED] += tree.size[node]
    stack[0] = node
    while depth > 0:
        depth -= 1
        here = stack[depth]
        if tree.bucket[here] < 0:
            stack[depth], stack[depth + 1], depth = tree.child[here, 0], tree.child[here, 1], depth + 2
        else:
            put_node(tree, bound, cut, cut.size[NODES], here)
            cut.size[NODES] += 1


@njit(**EXACT)
def find_members(
    tree: CornerTree, better: Floats, same: int, apex: tuple[float, float], k: int, bound: int,
    how: tuple[bool, bool], members: Members,
) -> None:  # fmt: skip
    """Find the subscriptions that hold an object, at `apex`, and fewer than k better ones.

    Better objects are places and heights, but for `same` that everybody holds. `bound` is the axis of the
    second attribute. The better objects go down the tree together: a node counts those that all of its boxes
    hold, and a leaf, or a node with more than FEW, keeps those that some hold. `how`: whether each counts
    them, and whether all are to be listed. If not, a node whose boxes hold the object and too few others in
    any case is whole, and such a leaf does not look at them. Nodes that are not gone through become the cut.
    """
    counted, listed = how
    low, high, bucket, child, total, x = tree.low, tree.high, tree.bucket, tree.child, len(better), apex[0]
    queue, stack, cut = members.queue, np.empty((DEPTH, 4), np.int64), members.cut
    if wide(total) > queue.shape[1]:
        queue = np.empty((2, 2 * wide(total)))
    for i in range(total):
        queue[0, i], queue[1, i] = better[i, 0], better[i, 1]
    fill_up(queue, 0, total)
    # an entry of the stack: a node, and where its part of the queue begins and ends
    stack[0, 0], stack[0, 1], stack[0, 2], stack[0, 3] = 0, total, same, 0
    depth, members.size[FOUND], members.size[WHOLE] = 1, 0, 0
    wholly = not (counted or listed or members.size[TWICE] > 0)
    point, span = tree.point, tree.meta[CAPACITY] * tree.point.shape[1]
    clear(cut)
    while depth > 0:
        depth -= 1
        start, size, count, node = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if low[node, 0] > x or low[node, 1] > -x or low[node, bound] > -apex[1]:
            continue
        lo, hi, height = min(high[node, 0], x), max(-high[node, 1], x), max(-high[node, bound], apex[1])
        inside = _held_by(queue, start, size, lo, hi, height)
        if count + inside >= k:
            put_node(tree, bound, cut, cut.size[NODES], node)
            cut.size[NODES] += 1
            continue
        inner, least, most, top = bucket[node] < 0, low[node, 0], -low[node, 1], -low[node, bound]
        whole = (
            inner and wholly and high[node, 0] <= x and high[node, 1] <= -x and high[node, bound] <= -apex[1]
        )
        if whole and count + _held_by(queue, start, size, least, most, top) < k:
            _take_whole(tree, bound, node, members)
            continue
        if not inner and not counted and count + _held_by(queue, start, size, least, most, top) < k:
            size, count = 0, count + inside
        if size > (FEW if inner else 0):
            first = start + wide(size)
            if first + wide(size) > queue.shape[1]:
                queue = np.concatenate((queue, queue), axis=1)
            # unsigned indexes: Numba need not test whether they count from the end
            last = np.uint64(first)
            for i in range(np.uint64(start), np.uint64(start + size)):
                there, above = queue[0, i], queue[1, i]
                held = (lo <= there) & (there <= hi) & (above <= height)
                queue[0, last], queue[1, last] = there, above
                last += np.uint64((not held) & (least <= there) & (there <= most) & (above <= top))
            start, size, count = first, np.int64(last) - first, count + inside
            fill_up(queue, first, size)
        if inner:
            for side in range(2):
                stack[depth, 0], stack[depth, 1], stack[depth, 2] = start, size, count
                below = child[node, side]
                stack[depth, 3], depth = below, depth + 1
                prefetch(low, below * low.shape[1])
                prefetch(high, below * low.shape[1])
                if bucket[below] >= 0:
                    _expect(point, bucket[below] * span, tree.size[below] * point.shape[1])
            continue
        at = cut.size[NODES]
        put_node(tree, bound, cut, at, node)
        cut.size[NODES] += 1
        read_leaf(tree, bound, cut, at, (x, -x, -apex[1]))
        _list_members(queue, (start, start + size), count, k, at, members)


@njit(**EXACT)
def pass_object(members: Members, x: float, height: float, k: int) -> int:
    """Add an object to the counts; those who have k of them now go behind the others. Returns how many do."""
    span, count, first, end = members.span, members.better, 0, members.size[FOUND]
    left = end
    while first < left:
        if span[first, LO] <= x <= span[first, HI] and height <= span[first, HEIGHT]:
            count[first] += 1
            if count[first] == k:
                left -= 1
                count[first], count[left] = count[left], count[first]
                for i in range(3):
                    span[first, i], span[left, i] = span[left, i], span[first, i]
                continue
        first += 1
    members.size[FOUND] = left
    return end - left


@njit(**EXACT)
def reach_of(members: Members) -> tuple[float, float]:
    """How far to the left and to the right the members reach together: from inf to -inf if there are none."""
    low, high = np.inf, -np.inf
    for i in range(members.size[FOUND]):
        low, high = min(low, members.span[i, LO]), max(high, members.span[i, HI])
    return low, high
