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

from rankcast.kernels.corner_search import count_better
from rankcast.kernels.corner_tree import CAPACITY, DEPTH, CornerTree, Floats, Rows
from rankcast.kernels.options import EXACT

NEAR = 16  # how many tiles back a merge is tried
WITNESSES = 8
Marks = NDArray[np.int64]


class Post(NamedTuple):
    """Tiles in sending order: closed boxes of corners, and what is told there; +inf: the item is gone.

    `size` holds how many tiles there are, how many boxes were shrunk to the corners in them, and the last
    number given to a message.
    """

    low: Floats
    high: Floats
    item: Rows
    x: Floats
    value: Floats
    size: NDArray[np.int64]


class Message(NamedTuple):
    """An item and its value; `better` is the value by which it is ranked, if `most` better ones are allowed.

    A `most` of -1 is exact; `one_by_one` makes a tile for every distinct corner.
    """

    item: int
    value: float
    better: float
    most: int
    one_by_one: bool


def empty_post(capacity: int, width: int) -> Post:
    """A buffer without tiles."""
    return Post(
        low=np.empty((capacity, 2 * width)),
        high=np.empty((capacity, 2 * width)),
        item=np.empty(capacity, np.int32),
        x=np.empty((capacity, width)),
        value=np.empty(capacity),
        size=np.zeros(3, np.int64),
    )


@njit(**EXACT)
def longer(post: Post) -> Post:
    """The same tiles in a buffer twice as long."""
    extra = post.item.shape[0]
    return Post(
        np.concatenate((post.low, np.empty((extra, post.low.shape[1])))),
        np.concatenate((post.high, np.empty((extra, post.low.shape[1])))),
        np.concatenate((post.item, np.empty(extra, np.int32))),
        np.concatenate((post.x, np.empty((extra, post.x.shape[1])))),
        np.concatenate((post.value, np.empty(extra))),
        post.size,
    )


@njit(**EXACT)
def _inside(low: Floats, high: Floats, box: int, point: Floats, at: int) -> bool:
    """Whether a box of a list of boxes holds a point."""
    for axis in range(point.shape[1]):
        if point[at, axis] < low[box, axis] or point[at, axis] > high[box, axis]:
            return False
    return True


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
            if mark[slot] != mine and _inside(low, high, box, point, slot):
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
            if _inside(low, high, box, point, slot):
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
def _stray(tree: CornerTree, low: Floats, high: Floats, box: int, one: int, two: int) -> int:
    """The slot of somebody in a box who is in neither of two others, or -1."""
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
            if _inside(low, high, box, point, slot) and not (
                _inside(low, high, one, point, slot) or _inside(low, high, two, point, slot)
            ):
                return slot
    return -1


@njit(**EXACT)
def _move(low: Floats, high: Floats, source: int, target: int) -> None:
    """Copy one box over another."""
    for axis in range(low.shape[1]):
        low[target, axis], high[target, axis] = low[source, axis], high[source, axis]


@njit(**EXACT)
def _unite(low: Floats, high: Floats, one: int, two: int, box: int) -> None:
    """Write the box around two others."""
    for axis in range(low.shape[1]):
        low[box, axis] = min(low[one, axis], low[two, axis])
        high[box, axis] = max(high[one, axis], high[two, axis])


@njit(**EXACT)
def _between(point: Floats, slot: int, low: Floats, high: Floats, box: int, one: int, two: int) -> bool:
    """Whether somebody is in a box and in neither of two others."""
    if slot < 0 or not _inside(low, high, box, point, slot):
        return False
    return not (_inside(low, high, one, point, slot) or _inside(low, high, two, point, slot))


@njit(**EXACT)
def merge(tree: CornerTree, post: Post, first: int, cut: Rows, depth: Rows, near: int) -> bool:
    """Let tiles from `first` on, up to `near` apart, become one where nobody else is between.

    Tiles are in the order in which the set was cut: before tile t there was a cut because of `cut[t]`, so
    many levels down. Of all cuts between two tiles the highest has parted them, and who was in the way there
    mostly still is; then those are tried who were found in the way last. There must be space for one more
    tile. Returns whether any were merged.
    """
    low, high, point, kept = post.low, post.high, tree.point, first
    witness, seen, end, box = np.full(WITNESSES, -1, np.int32), 0, post.size[0], post.size[0]
    for at in range(first, end):
        _move(low, high, at, kept)
        cut[kept - first], depth[kept - first] = cut[at - first], depth[at - first]
        parted, level, alone = -1, 1 << 30, True
        for other in range(kept - 1, max(first, kept - near) - 1, -1):
            if depth[other + 1 - first] < level:
                parted, level = cut[other + 1 - first], depth[other + 1 - first]
            _unite(low, high, other, kept, box)
            known = _between(point, parted, low, high, box, other, kept)
            for i in range(WITNESSES):
                known = known or _between(point, witness[i], low, high, box, other, kept)
            if known:
                continue
            stray = _stray(tree, low, high, box, other, kept)
            if stray < 0:
                _move(low, high, box, other)
                alone = False
                break
            witness[seen % WITNESSES] = stray
            seen += 1
        kept += alone
    post.size[0] = kept
    return kept < end


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
