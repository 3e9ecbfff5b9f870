"""Tiles for boxes: a set of subscriptions is covered by boxes of subscription space that hold nobody else.

The box around the whole set is tried first. If it holds somebody who is not to be told, an intruder, the set
is cut along the axis that leaves the most of it strictly on one side of him, and both parts are tried again;
their boxes have nobody in common. As every box is checked against all subscriptions, it does not matter what
the set is: the region of an object, what another one gains, or the net change of a batch, in any number of
bounds. At the end two tiles whose common box holds nobody else become one. [Range §III-B, §IV-C]

With `most` >= 0 a box may also hold those who would rank the object no further than that: the objects better
than it in the box of the lowest corner, which holds all others, are counted.

Cost: O(m) corners compared a level of cuts, and a search of the tree for each cut, tile and merge tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.dissemination.corner_merge import Post, inside, longer, merge, outside
from rankcast.range_topk.kernels.corner_tree import CAPACITY, DEPTH, CornerTree, Floats, Rows
from rankcast.range_topk.kernels.corners_search import count_better
from rankcast.structures.jit import EXACT

NEAR = 16  # how many tiles back a merge is tried
Marks = NDArray[np.int64]


class Message(NamedTuple):
    """An item, its value and place; `better` is the value it is ranked by, if `most` better ones are allowed.

    A `most` of -1 is exact; `one_by_one` makes a tile for every distinct corner.
    """

    item: int
    value: float
    x: Floats
    better: float
    most: int
    one_by_one: bool


@njit(**EXACT)
def _intruder(tree: CornerTree, low: Floats, high: Floats, box: int, mark: Marks, mine: int) -> int:
    """The slot of somebody in a box whose mark is not `mine`, or -1."""
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
        if outside(tree_low, tree_high, node, low, high, box):
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
def _copy(point: Floats, slot: int, own: Floats, at: int) -> None:
    """Copy a corner."""
    for axis in range(point.shape[1]):
        own[at, axis] = point[slot, axis]


@njit(**EXACT)
def _surround(own: Floats, low: Floats, high: Floats, box: int) -> None:
    """Write the tightest box around some corners."""
    for axis in range(own.shape[1]):
        least, most = np.inf, -np.inf
        for i in range(own.shape[0]):
            value = own[i, axis]
            least, most = min(least, value), max(most, value)
        low[box, axis], high[box, axis] = least, most


@njit(**EXACT)
def _cut(own: Floats, corner: Floats) -> int:
    """Put those strictly on one side of a corner to the front; return how many: 0 if all are at it."""
    count, width, best, chosen = own.shape[0], own.shape[1], 0, 0
    for axis in range(width):
        limit, above, below = corner[axis], 0, 0
        for i in range(count):
            above += own[i, axis] > limit
            below += own[i, axis] < limit
        if above > best and above < count:
            best, chosen = above, axis + 1
        if below > best and below < count:
            best, chosen = below, -axis - 1
    if chosen == 0:
        return 0
    axis, sign = abs(chosen) - 1, 1.0 if chosen > 0 else -1.0
    limit, left = sign * corner[axis], 0
    for i in range(count):
        if sign * own[i, axis] > limit:
            for other in range(width):
                own[left, other], own[i, other] = own[i, other], own[left, other]
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
    """Append tiles that hold the subscriptions at some slots and nobody else."""
    point, first, total, most = tree.point, post.size[0], slots.shape[0], message.most
    mine, own, corner = post.size[2] + 1, np.empty((total, point.shape[1])), np.empty(point.shape[1])
    post.size[2] = mine
    for i in range(total):
        mark[slots[i]] = mine
        _copy(point, slots[i], own, i)
    cut, level, parted, above = np.empty(total, np.int32), np.empty(total, np.int32), -1, 1 << 30
    stack, depth = np.zeros((total + 1, 4), np.int64), 1
    stack[0, 1], stack[0, 2] = total, -1
    while depth > 0:
        depth -= 1
        start, end, here, intruder, middle = stack[depth, 0], stack[depth, 1], stack[depth, 3], -1, 0
        if stack[depth, 2] >= 0 and here <= above:
            parted, above = stack[depth, 2], here
        box = post.size[0]
        if box + 2 > post.item.shape[0]:
            post = longer(post)
        _surround(own[start:end], post.low, post.high, box)
        if message.one_by_one:
            corner[:] = own[(start + end) // 2]
            middle = _cut(own[start:end], corner)
        else:
            intruder = _intruder(tree, post.low, post.high, box, mark, mine)
            if intruder >= 0 and most >= 0:
                better = count_better(objects, label, post.low[box], message.better, message.item, most)
                intruder = -1 if better < most else intruder
            if intruder >= 0:
                middle = _cut(own[start:end], point[intruder])
        if middle > 0:
            stack[depth, 0], stack[depth, 1], stack[depth, 2] = start + middle, end, intruder
            stack[depth + 1, 0], stack[depth + 1, 1], stack[depth + 1, 2] = start, start + middle, -1
            stack[depth, 3] = stack[depth + 1, 3] = here + 1
            depth += 2
            continue
        cut[box - first], level[box - first], parted, above = parted, above, -1, 1 << 30
        post.item[box], post.value[box] = message.item, message.value
        post.x[box] = message.x
        post.size[0] += 1
    post.size[1] += post.size[0] - first
    if not message.one_by_one:
        merge(tree, post, first, cut, level, NEAR)
    return post
