"""Whether trees and boards from a snapshot keep the invariants that other kernels of the family rely on.

Nothing read is trusted: an index is compared with the length before it is used, and every walk is counted, so
that it ends. The kernels return FITS, or the number of what does not fit.
Cost: O(n), one or two passes.

The functions at the end check a whole tree as an engine keeps it, and raise `SnapshotError`.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels import corners, points
from rankcast.range_topk.kernels.corners import CornerTree
from rankcast.range_topk.kernels.object_tree import FREE as FREE_NODES
from rankcast.range_topk.kernels.object_tree import HEIGHT, NODES, ORDER, ROOT, SIZE, USED, ObjectTree
from rankcast.range_topk.kernels.object_tree import _best_slot as best_slot
from rankcast.range_topk.kernels.points import PointTree
from rankcast.structures import integrity
from rankcast.structures.integrity import FITS
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

TALLEST = 16  # levels of a tree of objects
NODE, LEAF, ROW, CHAIN, DEEP, SIZES, BOX = 1, 2, 3, 4, 5, 6, 7  # what does not fit


@njit(**EXACT)
def bucket_tree(
    child: Rows,
    parent: Rows,
    size: Rows,
    bucket: Rows,
    leaf_of: Rows,
    row: Rows,
    slot_of: Rows,
    boxes: tuple[Floats, Floats, Floats],
    tops: tuple[Floats, Floats],
    used: tuple[int, int, int],
    free: tuple[int, int],
    capacity: int,
    deepest: int,
) -> int:
    """Whether a tree with buckets of slots hangs together: `used` nodes, buckets, live buckets; free chains.

    Every node below `used` is in the tree or in the chain of free ones, once; so is every bucket. Leaves and
    buckets, slots and rows point at each other; sizes add up. `boxes` are the lower and upper ends by node
    and the points by slot, `tops` the largest weights by node and the weights by slot, or both are empty:
    those of every node are the tightest.
    """
    low, high, point = boxes
    top, weight = tops
    nodes, buckets = used[0], used[1]
    seen, taken = np.zeros(nodes, np.bool_), np.zeros(buckets, np.bool_)
    stack, level, depth = np.empty(deepest + 2, np.int64), np.empty(deepest + 2, np.int64), 1
    stack[0], level[0], leaves, known = 0, 0, 0, 0
    if parent[0] != -1:
        return NODE
    while depth > 0:
        depth -= 1
        node, below = stack[depth], level[depth]
        if seen[node]:
            return NODE
        seen[node], known = True, known + 1
        if bucket[node] < 0:
            left, right = np.int64(child[node, 0]), np.int64(child[node, 1])
            if bucket[node] != -1 or not (0 < left < nodes and 0 < right < nodes) or left == right:
                return NODE
            if parent[left] != node or parent[right] != node:
                return NODE
            if np.int64(size[left]) + size[right] != size[node] or size[left] < 1 or size[right] < 1:
                return SIZES
            if below + 1 >= deepest:
                return DEEP
            for axis in range(low.shape[1]):
                least, most = min(low[left, axis], low[right, axis]), max(high[left, axis], high[right, axis])
                if low[node, axis] != least or high[node, axis] != most:
                    return BOX
            if top.size > 0 and top[node] != max(top[left], top[right]):
                return BOX
            stack[depth], stack[depth + 1] = left, right
            level[depth], level[depth + 1] = below + 1, below + 1
            depth += 2
            continue
        which = np.int64(bucket[node])
        if which >= buckets or taken[which] or leaf_of[which] != node or child[node, 0] != -1:
            return LEAF
        if size[node] < 0 or size[node] > capacity:
            return SIZES
        taken[which], leaves = True, leaves + 1
        for slot in range(which * capacity, which * capacity + size[node]):
            who = np.int64(row[slot])
            if who < 0 or who >= slot_of.size or slot_of[who] != slot:
                return ROW
        start, end = which * capacity, which * capacity + np.int64(size[node])
        for axis in range(low.shape[1]):
            least, most = np.inf, -np.inf
            for slot in range(start, end):
                if not -np.inf <= point[slot, axis] <= np.inf:
                    return BOX
                least, most = min(least, point[slot, axis]), max(most, point[slot, axis])
            if low[node, axis] != least or high[node, axis] != most:
                return BOX
        if top.size > 0:
            best = -np.inf
            for slot in range(start, end):
                if not -np.inf <= weight[slot] <= np.inf:
                    return BOX
                best = max(best, weight[slot])
            if top[node] != best:
                return BOX
    if leaves != used[2]:
        return LEAF
    spare = free[0]
    while spare != -1:
        if spare < 0 or spare >= nodes or seen[spare] or bucket[spare] != -1:
            return CHAIN
        seen[spare], known = True, known + 1
        spare = int(parent[spare])
    spare = free[1]
    while spare != -1:
        if spare < 0 or spare >= buckets or taken[spare]:
            return CHAIN
        taken[spare], leaves = True, leaves + 1
        spare = int(leaf_of[spare])
    return FITS if known == nodes and leaves == buckets else CHAIN


@njit(**EXACT)
def object_tree(tree: ObjectTree) -> int:
    """Whether a tree of objects hangs together: see `rankcast.range_topk.kernels.object_tree`."""
    meta, nodes, rows = tree.meta, tree.filled.size, tree.x.size
    used, height = meta[USED], meta[HEIGHT]
    if not (1 <= used <= nodes and 1 <= height <= TALLEST and 0 <= meta[ROOT] < used):
        return NODE
    seen, stack, depth = np.zeros(used, np.bool_), np.empty((TALLEST * ORDER, 2), np.int64), 1
    stack[0, 0], stack[0, 1], known, size, last = meta[ROOT], height, 0, 0, -np.inf
    if tree.parent[meta[ROOT]] != -1:
        return NODE
    while depth > 0:
        depth -= 1
        node, level, filled = stack[depth, 0], stack[depth, 1], np.int64(tree.filled[stack[depth, 0]])
        if seen[node] or filled > ORDER or filled < (1 if known > 0 or height > 1 else 0):
            return NODE
        seen[node], known = True, known + 1
        for j in range(filled):
            best = np.int64(tree.best[node, j])
            if best < 0 or best >= rows or not -np.inf <= tree.low[node, j] <= np.inf:
                return ROW
        for j in range(filled):
            below = np.int64(tree.child[node, j])
            if level > 1:
                if below < 0 or below >= used or tree.parent[below] != node:
                    return NODE
                continue
            if below < 0 or below >= rows or tree.leaf_of[below] != node or tree.best[node, j] != below:
                return ROW
            if not last <= tree.key[node, j] < np.inf or tree.x[below] != tree.key[node, j]:
                return ROW
            if tree.y[below] != tree.low[node, j]:
                return ROW
            last, size = tree.key[node, j], size + 1
        for j in range(filled - 1, -1, -1):
            if level > 1:
                stack[depth, 0], stack[depth, 1], depth = tree.child[node, j], level - 1, depth + 1
    return _objects_rest(tree, seen, known, size)


@njit(**EXACT)
def _objects_rest(tree: ObjectTree, seen: NDArray[np.bool_], known: int, size: int) -> int:
    """The rest of `object_tree`: rows, the best objects of inner nodes, and the chain of free nodes."""
    present = 0
    for row in range(tree.x.size):
        present += tree.leaf_of[row] >= 0
        if tree.leaf_of[row] < -1 or (tree.leaf_of[row] < 0 and tree.y[row] != np.inf):
            return ROW
    if size != tree.meta[SIZE] or present != size or known != tree.meta[NODES]:
        return SIZES
    for node in range(seen.size):
        parent = np.int64(tree.parent[node])
        if not seen[node] or parent < 0:
            continue
        found, j = best_slot(tree, node), 0
        while j < tree.filled[parent] and tree.child[parent, j] != node:
            j += 1
        if j == tree.filled[parent] or tree.low[parent, j] != tree.low[node, found]:
            return BOX
        if tree.best[parent, j] != tree.best[node, found] or not tree.key[parent, j] <= tree.key[node, 0]:
            return BOX
        if j > 0 and not tree.key[parent, j - 1] <= tree.key[parent, j]:
            return BOX
    spare = int(tree.meta[FREE_NODES])
    while spare != -1:
        if spare < 0 or spare >= seen.size or seen[spare]:
            return CHAIN
        seen[spare], known = True, known + 1
        spare = int(tree.parent[spare])
    return FITS if known == seen.size else CHAIN


class Listed(NamedTuple):
    """What boards may list, by row of object: whether it is there, where, what is ranked, its label."""

    there: NDArray[np.bool_]
    x: Floats
    value: Floats
    label: Ints


@njit(**EXACT)
def boards(board: Rows, slots: Rows, low: Floats, high: Floats, listed: Listed) -> int:
    """Whether the boards in some slots list objects that are there and in the box of that slot, best first.

    `low` and `high` are by place in `slots`. Behind the last item there is nothing but -1.
    """
    for i in range(slots.size):
        at, last = np.int64(slots[i]), np.int64(-1)
        for j in range(board.shape[1]):
            item = np.int64(board[at, j])
            if item == -1 and (j + 1 == board.shape[1] or board[at, j + 1] == -1):
                continue
            if item < 0 or item >= listed.there.size or not listed.there[item]:
                return ROW
            for axis in range(low.shape[1]):
                if not low[i, axis] <= listed.x[item, axis] <= high[i, axis]:
                    return BOX
            if last >= 0:
                one, two = listed.value[last], listed.value[item]
                if not (one < two or (one == two and listed.label[last] < listed.label[item])):
                    return SIZES
            last = item
    return FITS


@njit(**EXACT)
def last_weights(board: Rows, slots: Rows, weight: Floats, value: Floats) -> bool:
    """Whether the weight of each slot is the value of the last item of a full board, else +inf."""
    last = board.shape[1] - 1
    for i in range(slots.size):
        item = np.int64(board[slots[i], last])
        if weight[slots[i]] != (np.inf if item < 0 else value[item]):
            return False
    return True


Arrays = dict[str, NDArray[Any]]

MOST = 1 << 31
_WHY = {
    NODE: "child",
    LEAF: "bucket",
    ROW: "row",
    CHAIN: "parent",
    DEEP: "child",
    SIZES: "size",
    BOX: "box",
}


def check_objects(tree: ObjectTree) -> None:
    """A tree of objects hangs together."""
    rows = tree.x.size
    for name in ("y", "label", "leaf_of"):
        integrity.need(getattr(tree, name).size == rows < MOST, name, f"has not {rows} entries")
    _refuse(int(object_tree(tree)), {**_WHY, SIZES: "meta", BOX: "best"})


def check_points(tree: PointTree, slot_of: Rows) -> None:
    """A tree of subscriptions by (lo, hi) hangs together, with the slots of its rows."""
    integrity.within(tree.axis, 0, 2, "axis")
    ends = (tree.box[:, ::2], tree.box[:, 1::2], np.stack([tree.lo, tree.hi], axis=1))
    none = np.empty(0)
    _check_buckets(tree, slot_of, ends, (none, none), points.BUCKET)


def check_corners(tree: CornerTree, slot_of: Rows, capacity: int) -> None:
    """A tree of corners or objects hangs together, with the slots of its rows."""
    integrity.need(tree.meta[corners.CAPACITY] == capacity, "meta", "has buckets of another size")
    integrity.within(tree.axis, 0, tree.point.shape[1], "axis")
    _check_buckets(tree, slot_of, (tree.low, tree.high, tree.point), (tree.top, tree.weight), capacity)


def _check_buckets(tree: Any, slot_of: Rows, boxes: Any, tops: Any, capacity: int) -> None:
    meta, buckets = [int(each) for each in tree.meta], tree.leaf_of.size
    nodes_used, node_free, buckets_used, bucket_free, live = meta[:5]
    fits = 1 <= nodes_used <= 2 * buckets and 1 <= live <= buckets_used <= buckets < MOST // capacity
    integrity.need(fits, "meta", "counts what is not there")
    links = (tree.child, tree.parent, tree.size, tree.bucket, tree.leaf_of, tree.row, slot_of)
    used, free = (nodes_used, buckets_used, live), (node_free, bucket_free)
    found = bucket_tree(*links, boxes, tops, used, free, capacity, corners.DEPTH - 64)
    _refuse(int(found), _WHY)


def _refuse(found: int, names: dict[int, str]) -> None:
    if found != integrity.FITS:
        integrity.unfit(names[found], "does not fit the rest of the tree")


def check_boards(board: Rows, slots: Rows, low: Floats, high: Floats, listed: Listed) -> None:
    """Boards of slots in use list objects that are there and in their boxes, best first, then -1."""
    found = boards(board, slots, np.ascontiguousarray(low), np.ascontiguousarray(high), listed)
    integrity.need(found == integrity.FITS, "board", "does not list objects that are there, best first")
