"""Tiles of a message become one where nobody else is between.

Two tiles whose common box holds nobody who is in neither of them are one tile. [Range §III-B, App. D]
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.kernels.corner_tree import CAPACITY, DEPTH, CornerTree, Floats, Rows
from rankcast.kernels.options import EXACT

WITNESSES = 8


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
def inside(low: Floats, high: Floats, box: int, point: Floats, at: int) -> bool:
    """Whether a box of a list of boxes holds a point."""
    for axis in range(point.shape[1]):
        if point[at, axis] < low[box, axis] or point[at, axis] > high[box, axis]:
            return False
    return True


@njit(**EXACT)
def _between(point: Floats, slot: int, low: Floats, high: Floats, box: int, one: int, two: int) -> bool:
    """Whether somebody is in a box and in neither of two others."""
    if slot < 0 or not inside(low, high, box, point, slot):
        return False
    return not (inside(low, high, one, point, slot) or inside(low, high, two, point, slot))


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
        apart, first_holds, second_holds = False, True, True
        for axis in range(low.shape[1]):
            least, most = tree_low[node, axis], tree_high[node, axis]
            apart |= (least > high[box, axis]) | (most < low[box, axis])
            first_holds &= (least >= low[one, axis]) & (most <= high[one, axis])
            second_holds &= (least >= low[two, axis]) & (most <= high[two, axis])
        if apart or first_holds or second_holds:
            continue
        if bucket[node] < 0:
            stack[depth], stack[depth + 1] = child[node, 0], child[node, 1]
            depth += 2
            continue
        first = bucket[node] * capacity
        for slot in range(first, first + sizes[node]):
            if inside(low, high, box, point, slot) and not (
                inside(low, high, one, point, slot) or inside(low, high, two, point, slot)
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
def _swallows(low: Floats, high: Floats, box: int, first: int, end: int) -> bool:
    """Whether a box holds one of the tiles first..end-1, and so somebody in it."""
    for at in range(first, end):
        inside = True
        for axis in range(low.shape[1]):
            inside &= low[box, axis] <= low[at, axis] and high[at, axis] <= high[box, axis]
        if inside:
            return True
    return False


@njit(**EXACT)
def merge(tree: CornerTree, post: Post, first: int, cut: Rows, depth: Rows, near: int) -> bool:
    """Let tiles from `first` on, up to `near` apart, become one where nobody else is between.

    Tiles are in the order in which the set was cut: before tile t there was a cut because of `cut[t]`, so
    many levels down. Of all cuts between two tiles the highest has parted them, and who was in the way there
    mostly still is, or a whole tile is; then those are tried who were found in the way last. There must be
    space for one more tile. Returns whether any were merged.
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
            known = _swallows(low, high, box, other + 1, kept)
            known = known or _between(point, parted, low, high, box, other, kept)
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
