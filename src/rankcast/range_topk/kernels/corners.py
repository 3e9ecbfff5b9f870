"""Points in any number of dimensions with a weight each: a k-d tree whose leaves are buckets of slots.

Two things are kept in such trees. A subscription over d attributes is a corner in 2d dimensions: the lower
ends, and the upper ends with the sign turned, (lo, -hi) by attribute. An object at x is then inside exactly
if the corner is nowhere above (x, -x); its weight is the value of the last item of its board, +inf while the
board is not full. An object is a point in d dimensions; its weight is its value with the sign turned. So
`top`, the largest weight below a node, tells whether a value can matter to anybody there, and how good the
best object is.

Bucket b owns the slots b * capacity .. (b + 1) * capacity - 1, its points stand at the front of them, and
`slot_of[row]` finds a row again. An inner node splits at a pivot along one axis; points at the pivot may be
on either side, and nothing relies on more than `low` and `high`, the tightest box around a node's points.

Invariants: node 0 is the root; every leaf but an only one has a point; slots and rows point at each other; no
planted node has less than a quarter of its points on one side. One mechanism builds: `plant`, of one subtree
in place. Points come, go, and change their weight in O(log n) each, amortised.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

NODE_USED, NODE_FREE, BUCKET_USED, BUCKET_FREE, BUCKETS, CAPACITY = range(6)
UNFILLED = -2
SAMPLE = 1024
DEPTH = 256
CORNERS = 4  # points in so many dimensions are corners, those in fewer are objects

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]


class CornerTree(NamedTuple):
    """The arrays of a tree: per node, per bucket (`leaf_of`), per slot (from `point`), per row; `meta`."""

    low: Floats
    high: Floats
    top: Floats
    child: Rows
    parent: Rows
    size: Rows
    bucket: Rows
    axis: Rows
    pivot: Floats
    leaf_of: Rows
    point: Floats
    weight: Floats
    row: Rows
    board: Rows
    slot_of: Rows
    meta: NDArray[np.int64]


class CornerRecords(NamedTuple):
    """Points outside a tree, with what belongs to them."""

    point: Floats
    weight: Floats
    row: Rows
    board: Rows


@njit(**EXACT)
def clear(tree: CornerTree, capacity: int) -> None:
    """Make the tree empty: the root, a leaf with the first bucket and no point."""
    tree.meta[:] = 0
    tree.meta[NODE_FREE], tree.meta[BUCKET_FREE] = -1, -1
    tree.meta[NODE_USED], tree.meta[CAPACITY] = 1, capacity
    tree.parent[0], tree.size[0] = -1, 0
    _make_leaf(tree, 0)


@njit(**EXACT)
def filled_to(tree: CornerTree) -> int:
    """How many points a planted leaf has at most."""
    return tree.meta[CAPACITY] * 7 // 8


@njit(**EXACT)
def buckets_for(tree: CornerTree, points: int) -> int:
    """How many buckets so many points take at most when planted: a split leaves a quarter on each side."""
    return 1 if points <= filled_to(tree) else 1 + 4 * points // filled_to(tree)


@njit(**EXACT)
def spare_buckets(tree: CornerTree) -> int:
    """How many buckets are free; there are always twice as many nodes."""
    return tree.leaf_of.shape[0] - tree.meta[BUCKETS]


@njit(**EXACT)
def _take_node(tree: CornerTree, parent: int) -> int:
    node = tree.meta[NODE_FREE]
    if node >= 0:
        tree.meta[NODE_FREE] = tree.parent[node]
    else:
        node = tree.meta[NODE_USED]
        tree.meta[NODE_USED] += 1
    tree.parent[node], tree.bucket[node] = parent, -1
    return node


@njit(**EXACT)
def _make_leaf(tree: CornerTree, node: int) -> None:
    """Give a node an empty bucket and an empty box."""
    bucket = tree.meta[BUCKET_FREE]
    if bucket >= 0:
        tree.meta[BUCKET_FREE] = tree.leaf_of[bucket]
    else:
        bucket = tree.meta[BUCKET_USED]
        tree.meta[BUCKET_USED] += 1
    tree.meta[BUCKETS] += 1
    tree.bucket[node], tree.leaf_of[bucket] = bucket, node
    tree.child[node, 0], tree.child[node, 1] = -1, -1
    tree.low[node], tree.high[node], tree.top[node] = np.inf, -np.inf, -np.inf


@njit(**EXACT)
def enclose(tree: CornerTree, node: int) -> None:
    """Set the box and the top of a leaf from its points."""
    low, high, point, weight = tree.low, tree.high, tree.point, tree.weight
    first, top = tree.bucket[node] * tree.meta[CAPACITY], -np.inf
    low[node], high[node] = np.inf, -np.inf
    for slot in range(first, first + tree.size[node]):
        top = max(top, weight[slot])
        for axis in range(point.shape[1]):
            low[node, axis] = min(low[node, axis], point[slot, axis])
            high[node, axis] = max(high[node, axis], point[slot, axis])
    tree.top[node] = top


@njit(**EXACT)
def merge(tree: CornerTree, node: int) -> bool:
    """Set the box and the top of an inner node from its children's; return whether anything changed."""
    low, high, one, two = tree.low, tree.high, tree.child[node, 0], tree.child[node, 1]
    top = max(tree.top[one], tree.top[two])
    changed = top != tree.top[node]
    tree.top[node] = top
    for axis in range(low.shape[1]):
        least, most = min(low[one, axis], low[two, axis]), max(high[one, axis], high[two, axis])
        changed = changed or least != low[node, axis] or most != high[node, axis]
        low[node, axis], high[node, axis] = least, most
    return changed


@njit(**EXACT)
def collect(tree: CornerTree, node: int, records: CornerRecords, size: int) -> int:
    """Copy the points below a node behind the first `size`; release all but the node; the new size."""
    stack, depth, capacity = np.empty(DEPTH, np.int32), 1, tree.meta[CAPACITY]
    stack[0] = node
    while depth > 0:
        depth -= 1
        here = stack[depth]
        if tree.bucket[here] < 0:
            stack[depth], stack[depth + 1] = tree.child[here, 0], tree.child[here, 1]
            depth += 2
        else:
            first, end = tree.bucket[here] * capacity, tree.bucket[here] * capacity + tree.size[here]
            for slot in range(first, end):
                records.point[size], records.weight[size] = tree.point[slot], tree.weight[slot]
                records.row[size], records.board[size] = tree.row[slot], tree.board[slot]
                size += 1
        release(tree, here, here == node)
    return size


@njit(**EXACT)
def release(tree: CornerTree, node: int, keep: bool) -> None:
    """Give back the bucket of a leaf and, unless kept, the node."""
    bucket = tree.bucket[node]
    if bucket >= 0:
        tree.leaf_of[bucket], tree.meta[BUCKET_FREE] = tree.meta[BUCKET_FREE], bucket
        tree.meta[BUCKETS] -= 1
        tree.bucket[node] = -1
    if not keep:
        tree.parent[node], tree.meta[NODE_FREE] = tree.meta[NODE_FREE], node


@njit(**EXACT)
def _fill_leaf(tree: CornerTree, node: int, records: CornerRecords, order: Rows) -> None:
    _make_leaf(tree, node)
    first = tree.bucket[node] * tree.meta[CAPACITY]
    for i in range(order.shape[0]):
        which, slot = order[i], first + i
        tree.point[slot], tree.weight[slot] = records.point[which], records.weight[which]
        tree.row[slot], tree.board[slot] = records.row[which], records.board[which]
        tree.slot_of[records.row[which]] = slot
    enclose(tree, node)


@njit(**EXACT)
def _spread(point: Floats, order: Rows, axis: int) -> float:
    """How far the finite values of an axis lie apart; one that is mostly infinite counts as narrow."""
    least, most, infinite = np.inf, -np.inf, 0
    for i in range(order.shape[0]):
        value = point[order[i], axis]
        if np.isinf(value):
            infinite += 1
        else:
            least, most = min(least, value), max(most, value)
    return 0.0 if 2 * infinite > order.shape[0] else max(most - least, 0.0)


@njit(**EXACT)
def _size(point: Floats, order: Rows, axis: int, most: float) -> float:
    """How large boxes are in the attribute of an axis, in the mean of a sample.

    That is from end to end, or, if most are bounded on one side, from the smallest one's bound, `most`.
    """
    both, one, pairs, bounded, step = 0.0, 0.0, 0, 0, max(1, order.shape[0] // SAMPLE)
    for i in range(0, order.shape[0], step):
        end, other = point[order[i], axis], point[order[i], axis ^ 1]
        if np.isfinite(end):
            one, bounded = one + most - end, bounded + 1
            if np.isfinite(other):
                both, pairs = both - end - other, pairs + 1
    return both / pairs if 2 * pairs >= bounded > 0 else one / max(bounded, 1)


@njit(**EXACT)
def _partition(order: Rows, key: Floats, spare: Rows, limit: float, upto: bool) -> int:
    """Move what is below the limit (`upto`: or at it) to the front; return how many. Branch-free."""
    left, right = 0, order.shape[0] - 1
    for i in range(order.shape[0]):
        before = key[i] < limit or (upto and key[i] == limit)
        spare[left], spare[right] = order[i], order[i]
        left += before
        right -= not before
    order[:] = spare[: order.shape[0]]
    return left


@njit(**EXACT)
def _split(
    point: Floats, order: Rows, spare: Rows, scale: Floats, most: Floats, fill: int
) -> tuple[int, int, float]:
    """Reorder points into two halves that fill their leaves evenly; return axis, size of the lower, pivot.

    Axes are tried from the widest on, against `scale` or, with corners, against the size of their boxes: an
    object matters to ranges as long as the objects near it lie apart, so many small ones are parted finely
    along them. One whose values are so often equal that no cut between two of them leaves a quarter on both
    sides is passed over. If all are, the halves are as they come.
    """
    size, width = order.shape[0], point.shape[1]
    wide = np.empty(width)
    for axis in range(width):
        unit = scale[axis] if width < CORNERS else max(_size(point, order, axis, most[axis]), 1e-300)
        wide[axis] = _spread(point, order, axis) / unit
    key, leaves = np.empty(size), (size + fill - 1) // fill
    for _ in range(width):
        axis = int(np.argmax(wide))
        wide[axis] = -1.0
        for i in range(size):
            key[i] = point[order[i], axis]
        sample = np.sort(key[:: max(1, size // SAMPLE)].copy())
        pivot = sample[sample.size * ((leaves + 1) // 2) // leaves]
        for upto in (False, True):
            left = _partition(order, key, spare, pivot, upto)
            if 4 * min(left, size - left) >= size:
                return axis, left, pivot
            for i in range(size):
                key[i] = point[order[i], axis]
    return 0, size // 2, point[order[size // 2], 0]


@njit(**EXACT)
def plant(tree: CornerTree, node: int, records: CornerRecords, size: int) -> None:
    """Build a subtree of the first `size` records in a node that has no bucket or children. O(n log n)."""
    order, spare = np.arange(size).astype(np.int32), np.empty(size, np.int32)
    scale, most = np.empty(tree.point.shape[1]), np.full(tree.point.shape[1], -np.inf)
    for axis in range(scale.shape[0]):
        scale[axis] = max(_spread(records.point, order, axis), 1e-300)
        for i in range(size):
            most[axis] = max(most[axis], records.point[i, axis])
    stack, depth = np.empty((DEPTH, 3), np.int64), 1
    # an entry of the stack: a node, and where its part of the queue begins and ends
    stack[0, 0], stack[0, 1], stack[0, 2] = node, 0, size
    while depth > 0:
        depth -= 1
        here, start, end = stack[depth, 0], stack[depth, 1], stack[depth, 2]
        tree.size[here] = end - start
        if end - start <= filled_to(tree):
            _fill_leaf(tree, here, records, order[start:end])
            while here != node and tree.child[tree.parent[here], 1] == here:
                here = tree.parent[here]
                merge(tree, here)
            continue
        axis, left, pivot = _split(records.point, order[start:end], spare, scale, most, filled_to(tree))
        tree.axis[here], tree.pivot[here] = axis, pivot
        tree.child[here, 0], tree.child[here, 1] = _take_node(tree, here), _take_node(tree, here)
        stack[depth, 0], stack[depth, 1], stack[depth, 2] = tree.child[here, 1], start + left, end
        stack[depth + 1, 0], stack[depth + 1, 1] = tree.child[here, 0], start
        stack[depth + 1, 2] = start + left
        depth += 2


SKEW = 0.8


@njit(**EXACT)
def _rebuild(tree: CornerTree, node: int) -> None:
    """Build the subtree of a node anew."""
    size, width = tree.size[node], tree.point.shape[1]
    records = CornerRecords(
        np.empty((size, width)),
        np.empty(size),
        np.empty(size, np.int32),
        np.empty((size, tree.board.shape[1]), np.int32),
    )
    collect(tree, node, records, 0)
    plant(tree, node, records, size)


@njit(**EXACT)
def _way_down(tree: CornerTree, point: Floats, weight: float) -> int:
    """Note a point in every node on its way to a leaf with a free slot; return the leaf, or -1: no room.

    A skewed node or a full leaf on the way is built anew; without room for that nothing is changed.
    """
    node, capacity = 0, tree.meta[CAPACITY]
    while True:
        size = tree.size[node]
        leaf = tree.bucket[node] >= 0
        most = 0 if leaf else max(tree.size[tree.child[node, 0]], tree.size[tree.child[node, 1]])
        if (leaf and size >= capacity) or most > SKEW * size + capacity:
            if spare_buckets(tree) + size // capacity < buckets_for(tree, size):
                _undo(tree, tree.parent[node])
                return -1
            _rebuild(tree, node)
            continue
        tree.size[node] += 1
        tree.top[node] = max(tree.top[node], weight)
        for axis in range(point.shape[0]):
            tree.low[node, axis] = min(tree.low[node, axis], point[axis])
            tree.high[node, axis] = max(tree.high[node, axis], point[axis])
        if leaf:
            return node
        one, two, at = tree.child[node, 0], tree.child[node, 1], point[tree.axis[node]]
        if at == tree.pivot[node]:
            node = one if tree.size[one] <= tree.size[two] else two
        else:
            node = one if at < tree.pivot[node] else two


@njit(**EXACT)
def _undo(tree: CornerTree, node: int) -> None:
    """Take back what was noted from a node upwards; the boxes may stay too large for a moment."""
    while node >= 0:
        tree.size[node] -= 1
        node = tree.parent[node]


@njit(**EXACT)
def put_in(tree: CornerTree, rows: Rows, points: Floats, weights: Floats, start: int) -> int:
    """Add points from `start` on, with unfilled boards; return the first that needs more room."""
    for i in range(start, rows.shape[0]):
        leaf = _way_down(tree, points[i], weights[i])
        if leaf < 0:
            return i
        slot = tree.bucket[leaf] * tree.meta[CAPACITY] + tree.size[leaf] - 1
        tree.point[slot], tree.weight[slot], tree.row[slot] = points[i], weights[i], rows[i]
        tree.board[slot] = UNFILLED
        tree.slot_of[rows[i]] = slot
    return rows.shape[0]


@njit(**EXACT)
def take_out(tree: CornerTree, rows: Rows) -> None:
    """Remove points; a node whose points fit into half a bucket becomes a leaf."""
    capacity = tree.meta[CAPACITY]
    for i in range(rows.shape[0]):
        slot = tree.slot_of[rows[i]]
        leaf = tree.leaf_of[slot // capacity]
        last = tree.bucket[leaf] * capacity + tree.size[leaf] - 1
        tree.point[slot], tree.weight[slot], tree.row[slot] = (
            tree.point[last],
            tree.weight[last],
            tree.row[last],
        )
        tree.board[slot] = tree.board[last]
        tree.slot_of[tree.row[slot]] = slot
        tree.slot_of[rows[i]] = -1
        tree.size[leaf] -= 1
        enclose(tree, leaf)
        node, small = tree.parent[leaf], tree.parent[leaf] if tree.size[leaf] == 0 else -1
        while node >= 0:
            tree.size[node] -= 1
            small = node if 2 * tree.size[node] <= filled_to(tree) else small
            merge(tree, node)
            node = tree.parent[node]
        if small >= 0:
            _rebuild(tree, small)


@njit(**EXACT)
def set_weight(tree: CornerTree, row: int, weight: float) -> None:
    """Give a point another weight."""
    slot = tree.slot_of[row]
    tree.weight[slot] = weight
    node = tree.leaf_of[slot // tree.meta[CAPACITY]]
    first, top = tree.bucket[node] * tree.meta[CAPACITY], -np.inf
    for at in range(first, first + tree.size[node]):
        top = max(top, tree.weight[at])
    while top != tree.top[node]:
        tree.top[node] = top
        node = tree.parent[node]
        if node < 0:
            break
        top = max(tree.top[tree.child[node, 0]], tree.top[tree.child[node, 1]])


@njit(**EXACT)
def set_weights(tree: CornerTree, rows: Rows, weights: Floats) -> None:
    """Give points other weights."""
    for i in range(rows.shape[0]):
        set_weight(tree, rows[i], weights[i])
