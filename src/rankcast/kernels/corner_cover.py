"""Tiles for boxes: a set of subscriptions is covered by boxes of subscription space that hold nobody else.

The box around the whole set is tried first. If it holds somebody who is not to be told, or who has been told,
an intruder, the set is cut along the axis that leaves the most of it strictly on one side of him, and both
parts are tried again. As every box is checked against all subscriptions, it does not matter what the set is:
the region of an object, what another one gains, or the net change of a batch, in any number of bounds. At the
end two tiles whose common box holds nobody else become one. [Range §III-B, §IV-C]

With `most` >= 0 a box may also hold those who would rank the object no further than that: the objects better
than it in the box of the lowest corner, which holds all others, are counted.

Cost: O(m) corners compared a level of cuts, and a search of the tree for each cut, tile and merge tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.corner_merge import Post, inside, longer, merge
from rankcast.kernels.corner_search import count_better
from rankcast.kernels.corner_tree import CAPACITY, DEPTH, CornerTree, Floats, Rows
from rankcast.kernels.options import EXACT

NEAR = 16  # how many tiles back a merge is tried
Marks = NDArray[np.int64]


class Message(NamedTuple):
    """An item and its value; `better` is the value by which it is ranked, if `most` better ones are allowed.

    A `most` of -1 is exact; `one_by_one` makes a tile for every distinct corner.
    """

    item: int
    value: float
    better: float
    most: int
    one_by_one: bool


@njit(**EXACT)
def _apart(tree_low: Floats, tree_high: Floats, node: int, low: Floats, high: Floats, box: int) -> bool:
    """Whether a node has no point in a box."""
    for axis in range(low.shape[1]):
        if tree_low[node, axis] > high[box, axis] or tree_high[node, axis] < low[box, axis]:
            return True
    return False


@njit(**EXACT)
def _intruder(tree: CornerTree, low: Floats, high: Floats, box: int, mark: Marks, mine: int) -> int:
    """The slot of somebody in a box whose mark is not `mine`, or -1.

    The lower corners are looked at first: those are the larger boxes, which hold more that is better.
    """
    point, bucket, child, sizes, capacity = (
        tree.point,
        tree.bucket,
        tree.child,
        tree.size,
        tree.meta[CAPACITY],
    )
    tree_low, tree_high, stack, depth = tree.low, tree.high, np.empty(DEPTH, np.int32), 1
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if _apart(tree_low, tree_high, node, low, high, box):
            continue
        if bucket[node] < 0:
            stack[depth], stack[depth + 1] = child[node, 1], child[node, 0]
            depth += 2
            continue
        first = bucket[node] * capacity
        for slot in range(first, first + sizes[node]):
            if mark[slot] != mine and inside(low, high, box, point, slot):
                return slot
    return -1


@njit(**EXACT)
def _set_marks(tree: CornerTree, low: Floats, high: Floats, box: int, mark: Marks, mine: int) -> None:
    """Mark everybody in a box."""
    point, bucket, child, sizes, capacity = (
        tree.point,
        tree.bucket,
        tree.child,
        tree.size,
        tree.meta[CAPACITY],
    )
    tree_low, tree_high, stack, depth = tree.low, tree.high, np.empty(DEPTH, np.int32), 1
    stack[0] = 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if _apart(tree_low, tree_high, node, low, high, box):
            continue
        if bucket[node] < 0:
            stack[depth], stack[depth + 1] = child[node, 0], child[node, 1]
            depth += 2
            continue
        first = bucket[node] * capacity
        for slot in range(first, first + sizes[node]):
            if inside(low, high, box, point, slot):
                mark[slot] = mine


@njit(**EXACT)
def _surround(point: Floats, slots: Rows, low: Floats, high: Floats, box: int) -> None:
    """Write the tightest box around the corners at some slots."""
    for axis in range(point.shape[1]):
        least, most = np.inf, -np.inf
        for i in range(slots.shape[0]):
            value = point[slots[i], axis]
            least, most = min(least, value), max(most, value)
        low[box, axis], high[box, axis] = least, most


@njit(**EXACT)
def _cut(point: Floats, slots: Rows, intruder: int) -> int:
    """Put those strictly on one side of an intruder to the front; return how many, at least one, not all."""
    width, count = point.shape[1], slots.shape[0]
    best, chosen = 0, 0
    for axis in range(width):
        limit, above, below = point[intruder, axis], 0, 0
        for i in range(count):
            above += point[slots[i], axis] > limit
            below += point[slots[i], axis] < limit
        if above > best and above < count:
            best, chosen = above, axis + 1
        if below > best and below < count:
            best, chosen = below, -axis - 1
    axis, sign = abs(chosen) - 1, 1.0 if chosen > 0 else -1.0
    limit, left = sign * point[intruder, axis], 0
    for i in range(count):
        if sign * point[slots[i], axis] > limit:
            slots[left], slots[i] = slots[i], slots[left]
            left += 1
    return left


@njit(**EXACT)
def cover(
    tree: CornerTree,
    objects: CornerTree,
    label: Marks,
    slots: Rows,
    mark: Marks,
    message: Message,
    post: Post,
) -> Post:
    """Append tiles that hold the subscriptions at some slots and nobody else; the slots are reordered."""
    point, first, mine, total = tree.point, post.size[0], post.size[2] + 2, slots.shape[0]
    post.size[2] = mine
    for i in range(total):
        mark[slots[i]] = mine
    cut, level, parted, above = np.empty(total, np.int32), np.empty(total, np.int32), -1, 1 << 30
    stack, depth = np.zeros((total + 1, 4), np.int64), 1
    stack[0, 1], stack[0, 2] = total, -1
    while depth > 0:
        depth -= 1
        start, end, here = stack[depth, 0], stack[depth, 1], stack[depth, 3]
        if stack[depth, 2] >= 0 and here <= above:
            parted, above = stack[depth, 2], here
        end = _keep_marked(slots, start, end, mark, mine)
        if start == end:
            continue
        box = post.size[0]
        if box + 2 > post.item.shape[0]:
            post = longer(post)
        part = slots[start : start + 1] if message.one_by_one else slots[start:end]
        _surround(point, part, post.low, post.high, box)
        intruder = _intruder(tree, post.low, post.high, box, mark, mine)
        if intruder >= 0 and message.most >= 0:
            better = count_better(objects, label, post.low[box], message.better, message.item, message.most)
            intruder = -1 if better < message.most else intruder
        if intruder >= 0:
            middle = start + _cut(point, slots[start:end], intruder)
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = middle, end, intruder
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = start, middle, -1
            stack[depth, 3] = stack[depth + 1, 3] = here + 1
            depth += 2
            continue
        _set_marks(tree, post.low, post.high, box, mark, mine + 1)
        cut[box - first], level[box - first], parted, above = parted, above, -1, 1 << 30
        post.size[0] += 1
        if message.one_by_one:
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = start + 1, end, -1
            depth += 1
    post.size[1] += post.size[0] - first
    again = not message.one_by_one and message.most < 0
    while again:
        again = merge(tree, post, first, cut, level, NEAR)
    for at in range(first, post.size[0]):
        post.item[at], post.value[at] = message.item, message.value
    return post


@njit(**EXACT)
def _keep_marked(slots: Rows, start: int, end: int, mark: Marks, mine: int) -> int:
    """Move those of start..end-1 who are still to be told to the front; return where they end."""
    for i in range(start, end):
        if mark[slots[i]] == mine:
            slots[start], slots[i] = slots[i], slots[start]
            start += 1
    return start
