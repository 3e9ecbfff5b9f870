"""Whom an object matters to in 1.5 dimensions: found once an event, and followed while it falls.

The subscriptions of an influence region are found by going down the tree of corners with the better objects:
a node is left out if its smallest box already has k of them. Each member then counts the better objects it
holds. An object that is passed adds one to those that hold it; who has k of them has lost the fallen object
and gained this one. So a gain is known without a question to the tree, and so is that nobody has one.
[Range §III-B, App. D]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.slab_cut import NODES, Cut, clear, fill_up, put_node, read_leaf, wide
from rankcast.range_topk.kernels.corner_tree import CAPACITY, DEPTH, CornerTree, Floats, Rows
from rankcast.structures.arrays import prefetch
from rankcast.structures.jit import EXACT

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
