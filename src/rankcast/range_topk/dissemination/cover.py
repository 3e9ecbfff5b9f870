"""Tiles for boxes: a set of subscriptions is covered by boxes of subscription space that hold nobody else.

The box around the whole set is tried first. If it holds an intruder, a subscription that is not in the set,
the set is cut along the axis that leaves the most of it strictly on one side of the intruder, and both parts
are tried again; their boxes have nobody in common. Every box is checked against all subscriptions, so the set
may be anything: the region of an object, what another one gains, or the net change of a batch, in any number
of bounds. At the end two tiles become one where the box around both holds nobody else. [Range §III-B, §IV-C,
App. D]

With `most` >= 0 a box may also hold those who would rank the object no further than that: the objects better
than it in the box of the lowest corner, which holds all others, are counted.

Cost: O(m) corners compared a level of cuts, and a search of the tree for each cut, tile and merge tried.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.corners import CAPACITY, DEPTH, CornerTree, Floats, Rows
from rankcast.range_topk.kernels.corners_search import count_better
from rankcast.structures.jit import EXACT

WITNESSES = 24
Marks = NDArray[np.int64]


class BoxTiles(NamedTuple):
    """Tiles in sending order: closed boxes of corners, and the message there; +inf: the item is gone.

    `size` holds how many tiles there are, how many boxes were shrunk to the corners in them, the last number
    given to a message, and how often somebody was in the way of a merge; `stray` has the slots of the last.
    """

    low: Floats
    high: Floats
    item: Rows
    x: Floats
    value: Floats
    stray: Rows
    size: NDArray[np.int64]


def empty_box_tiles(capacity: int, width: int) -> BoxTiles:
    """A buffer without tiles."""
    return BoxTiles(
        low=np.empty((capacity, 2 * width)),
        high=np.empty((capacity, 2 * width)),
        item=np.empty(capacity, np.int32),
        x=np.empty((capacity, width)),
        value=np.empty(capacity),
        stray=np.full(WITNESSES, -1, np.int32),
        size=np.zeros(4, np.int64),
    )


@njit(**EXACT)
def longer(out: BoxTiles) -> BoxTiles:
    """The same tiles in a buffer twice as long."""
    extra = out.item.shape[0]
    return BoxTiles(
        np.concatenate((out.low, np.empty((extra, out.low.shape[1])))),
        np.concatenate((out.high, np.empty((extra, out.low.shape[1])))),
        np.concatenate((out.item, np.empty(extra, np.int32))),
        np.concatenate((out.x, np.empty((extra, out.x.shape[1])))),
        np.concatenate((out.value, np.empty(extra))),
        out.stray,
        out.size,
    )


@njit(**EXACT)
def inside(low: Floats, high: Floats, box: int, point: Floats, at: int) -> bool:
    """Whether a box of a list of boxes holds a point."""
    for axis in range(point.shape[1]):
        if point[at, axis] < low[box, axis] or point[at, axis] > high[box, axis]:
            return False
    return True


@njit(**EXACT)
def outside(node_low: Floats, node_high: Floats, node: int, low: Floats, high: Floats, box: int) -> bool:
    """Whether a node has nothing in a box."""
    for axis in range(low.shape[1]):
        if node_low[node, axis] > high[box, axis] or node_high[node, axis] < low[box, axis]:
            return True
    return False


@njit(**EXACT)
def _within(node_low: Floats, node_high: Floats, node: int, low: Floats, high: Floats, box: int) -> bool:
    """Whether a box holds a node, or another box."""
    for axis in range(low.shape[1]):
        if node_low[node, axis] < low[box, axis] or node_high[node, axis] > high[box, axis]:
            return False
    return True


@njit(**EXACT)
def _between(point: Floats, slot: int, low: Floats, high: Floats, box: int, one: int, two: int) -> bool:
    """Whether somebody is in a box and in neither of two others."""
    if slot < 0 or not inside(low, high, box, point, slot):
        return False
    return not (inside(low, high, one, point, slot) or inside(low, high, two, point, slot))


@njit(**EXACT)
def _find(
    tree: CornerTree,
    root: int,
    low: Floats,
    high: Floats,
    box: int,
    one: int,
    two: int,
    mark: Marks,
    mine: int,
) -> int:
    """The slot of somebody below a node who is in a box and in neither of two others, or -1.

    With two below 0 there are no others: it is somebody whose mark is not `mine`. Lower corners are looked at
    first: those are the larger boxes, whom the object mostly is nothing to.
    """
    point, bucket, child, sizes, capacity = (
        tree.point,
        tree.bucket,
        tree.child,
        tree.size,
        tree.meta[CAPACITY],
    )
    tree_low, tree_high, stack, depth = tree.low, tree.high, np.empty(DEPTH, np.int32), 1
    stack[0], apart = root, one >= 0
    while depth > 0:
        depth -= 1
        node = stack[depth]
        if outside(tree_low, tree_high, node, low, high, box):
            continue
        if apart and _within(tree_low, tree_high, node, low, high, one):
            continue
        if apart and _within(tree_low, tree_high, node, low, high, two):
            continue
        if bucket[node] < 0:
            stack[depth], stack[depth + 1] = child[node, 1], child[node, 0]
            depth += 2
            continue
        first = bucket[node] * capacity
        for slot in range(first, first + sizes[node]):
            if (apart or mark[slot] != mine) and inside(low, high, box, point, slot):
                if apart and (inside(low, high, one, point, slot) or inside(low, high, two, point, slot)):
                    continue
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
def _barred(tree: CornerTree, out: BoxTiles, box: int, one: int, two: int) -> bool:
    """Whether somebody who was in the way lately, or a tile between two, bars the box around both."""
    low, high, point, stray, seen = out.low, out.high, tree.point, out.stray, out.size[3]
    for back in range(1, min(seen, WITNESSES) + 1):
        if _between(point, stray[(seen - back) % WITNESSES], low, high, box, one, two):
            return True
    for at in range(one + 1, two):
        if _within(low, high, at, low, high, box):
            return True
    return False


@njit(**EXACT)
def _enter(tree: CornerTree, low: Floats, high: Floats, first: int, end: int) -> int:
    """The lowest node that has everybody below it who is in the box around boxes first..end-1."""
    node, width, inner = 0, low.shape[1], True
    least, most = np.full(width, np.inf), np.full(width, -np.inf)
    for box in range(first, end):
        for axis in range(width):
            least[axis], most[axis] = min(least[axis], low[box, axis]), max(most[axis], high[box, axis])
    while inner and tree.bucket[node] < 0:
        meet, here = 0, 0
        for side in range(2):
            child, apart = tree.child[node, side], False
            for axis in range(width):
                apart |= tree.low[child, axis] > most[axis] or tree.high[child, axis] < least[axis]
            if not apart:
                meet, here = meet + 1, child
        inner = meet == 1
        node = here if inner else node
    return node


@njit(**EXACT)
def merge(tree: CornerTree, out: BoxTiles, first: int, cut: Rows, depth: Rows, near: int) -> None:
    """Let tiles from `first` on, up to `near` apart, become one where nobody else is between, till none do.

    Tiles are in the order in which the set was cut: before tile t there was a cut because of `cut[t]`, so
    many levels down. Of all cuts between two tiles the highest has parted them, and who was in the way there
    mostly still is, or a whole tile is; then those are tried who were found in the way last. There must be
    space for one more tile. A pair is tried again only if one of it has `grown` since it was `tried`.
    """
    low, high, point, size, moment = out.low, out.high, tree.point, -1, 1
    root, unmarked = _enter(tree, low, high, first, out.size[0]), np.empty(0, np.int64)
    grown, tried = np.ones(cut.shape[0], np.int32), np.zeros(cut.shape[0], np.int32)
    while size != out.size[0]:
        size, kept = out.size[0], first
        for at in range(first, size):
            _move(low, high, at, kept)
            t, a = kept - first, at - first
            cut[t], depth[t], grown[t], tried[t] = cut[a], depth[a], grown[a], tried[a]
            parted, level, alone = -1, 1 << 30, True
            for other in range(kept - 1, max(first, kept - near) - 1, -1):
                o = other - first
                if depth[o + 1] < level:
                    parted, level = cut[o + 1], depth[o + 1]
                if grown[o] <= tried[t] and grown[t] <= tried[t]:
                    continue
                _unite(low, high, other, kept, size)
                if _between(point, parted, low, high, size, other, kept):
                    continue
                if _barred(tree, out, size, other, kept):
                    continue
                stray = _find(tree, root, low, high, size, other, kept, unmarked, 0)
                if stray < 0:
                    moment += 1
                    _move(low, high, size, other)
                    grown[o], alone = moment, False
                    break
                out.stray[out.size[3] % WITNESSES] = stray
                out.size[3] += 1
            tried[t] = moment
            kept += alone
        out.size[0] = kept


NEAR = 16  # how many tiles back a merge is tried


class BoxMessage(NamedTuple):
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
    message: BoxMessage,
    out: BoxTiles,
) -> BoxTiles:
    """Append tiles that hold the subscriptions at some slots and nobody else."""
    point, first, total, most = tree.point, out.size[0], slots.shape[0], message.most
    mine, own, corner = out.size[2] + 1, np.empty((total, point.shape[1])), np.empty(point.shape[1])
    out.size[2] = mine
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
        box = out.size[0]
        if box + 2 > out.item.shape[0]:
            out = longer(out)
        _surround(own[start:end], out.low, out.high, box)
        if message.one_by_one:
            corner[:] = own[(start + end) // 2]
            middle = _cut(own[start:end], corner)
        else:
            intruder = _find(tree, 0, out.low, out.high, box, -1, -1, mark, mine)
            if intruder >= 0 and most >= 0:
                better = count_better(objects, label, out.low[box], message.better, message.item, most)
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
        out.item[box], out.value[box] = message.item, message.value
        out.x[box] = message.x
        out.size[0] += 1
    out.size[1] += out.size[0] - first
    if not message.one_by_one:
        merge(tree, out, first, cut, level, NEAR)
    return out
