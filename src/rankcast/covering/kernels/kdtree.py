"""An adaptive k-d tree with buckets over points: insert, remove, dominance search [Covering §IV-C].

`corner` is the largest coordinate of a node's points in each dimension, always tight: a node holds no
dominating point unless its corner dominates. That alone decides a search, which starts at the rightmost leaf
that qualifies, where points are largest, and backtracks to the left.

An inner node sends a new point right if its coordinate along `axis` is above the pivot; axes take turns going
down, so no unit of measure counts more than another, and one along which a bucket does not divide well is
passed over. Where all points of a full bucket are equal, a hash of the row decides (axis HASHED), so any
number of equal points can be kept. A bucket is split in the middle when it overflows; two sibling leaves are
merged when one falls below UNDERFLOW points and both fit into MERGED.

Pivots only guide inserts: where a point is, `where` knows. So a part of the tree whose one side has outgrown
the other, as by values that ascend, is built anew over its leaves, and no point moves. Cost: for m leaves
O(m log^2 m), after a number of splits that is in proportion to m, so that 160,000 points that come in order
never make a call wait for more than some milliseconds.

A row of `node`: children, parent, the bucket of a leaf (-1: inner), axis, how many leaves are below; STACK is
scratch. The pivot of a node stands behind its corner.
Cost: insert and remove O(log n); a search visits nodes whose corner dominates the query.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels.codes import lanes_for
from rankcast.covering.kernels.containment import (
    BUCKET,
    BUCKET_USED,
    BUCKETS,
    COMPARISONS,
    CUT,
    HOT,
    LEAF,
    NODE_FREE,
    NODE_USED,
    NODES_VISITED,
    POINTS,
    SIZE,
    WASTED,
    Bools,
    IndexArrays,
    Query,
    Scratch,
    Subscriptions,
    close_corner,
    collect,
    erase,
    filter_bucket,
    free_chain_fits,
    gather,
    holds_wanted,
    place,
    raise_corner,
    reaches,
    release_bucket,
    slot_in,
    take_bucket,
    verify_bucket,
)
from rankcast.structures.jit import EXACT

UNDERFLOW = 16
MERGED = 48
EVEN = BUCKET // 4  # points on either side of a split that is good enough
HASHED, HALF = -1, float(1 << 30)
LOPSIDED, SLACK = 0.7, 2  # a side may have this share of the leaves, and so many more
FIELDS = 7
LEFT, RIGHT, PARENT, HOLDS, AXIS, LEAVES, STACK = range(FIELDS)

Point = NDArray[np.float64]
Nodes = NDArray[np.int32]


@njit(**EXACT)
def clear(index: IndexArrays) -> None:
    """Make the tree empty: a root with an empty bucket."""
    index.meta[NODE_USED], index.meta[NODE_FREE] = 1, -1
    index.node[0, PARENT] = -1
    _make_leaf(index, 0)


@njit(**EXACT)
def _make_leaf(index: IndexArrays, node: int) -> None:
    bucket = take_bucket(index)
    index.node[node, HOLDS], index.node[node, LEAVES], index.row[bucket, LEAF] = bucket, 1, node
    index.corner[node] = -np.inf


@njit(**EXACT)
def _take_node(index: IndexArrays, parent: int) -> int:
    node = index.meta[NODE_FREE]
    if node >= 0:
        index.meta[NODE_FREE] = index.node[node, PARENT]
    else:
        node = index.meta[NODE_USED]
        index.meta[NODE_USED] += 1
    index.node[node, PARENT] = parent
    return node


@njit(**EXACT)
def _release_node(index: IndexArrays, node: int) -> None:
    index.node[node, PARENT], index.meta[NODE_FREE] = index.meta[NODE_FREE], node


@njit(**EXACT)
def _hash(row: int) -> float:
    """31 well mixed bits of a row, another value for each row below 2^31."""
    # Unsigned, so that the product wraps round and the shift brings in zeros.
    mixed = np.uint64(row)
    for _ in range(2):
        mixed = ((mixed ^ (mixed >> np.uint64(16))) * np.uint64(0x45D9F3B)) & np.uint64(0x7FFFFFFF)
    return float(mixed ^ (mixed >> np.uint64(16)))


@njit(**EXACT)
def _side(index: IndexArrays, node: int, row: int, point: Point) -> int:
    axis = np.int64(index.node[node, AXIS])
    value = _hash(row) if axis == HASHED else point[axis]
    return 1 if value > index.corner[node, point.shape[0]] else 0


@njit(**EXACT)
def _middle(values: Point) -> int:
    """The place nearest the middle of ascending values before which they rise, or 0."""
    half = values.shape[0] // 2
    for away in range(half + 1):
        for at in (half - away, half + away):
            if 0 < at < values.shape[0] and values[at - 1] < values[at]:
                return at
    return 0


@njit(**EXACT)
def _first_axis(index: IndexArrays, node: int) -> int:
    """The axis whose turn it is below the parent of a node."""
    parent = index.node[node, PARENT]
    return 0 if parent < 0 else (np.int64(index.node[parent, AXIS]) + 1) % index.hot.shape[0]


@njit(**EXACT)
def _choose_split(index: IndexArrays, node: int, rows: Nodes, points: Point) -> None:
    """Set axis and pivot so that both sides get points: the first axis that divides evenly, or the best."""
    dimensions, size, best = points.shape[1], points.shape[0], 0
    axis = _first_axis(index, node)
    for _ in range(dimensions):
        values = np.sort(points[:, axis])
        middle = _middle(values)
        if min(middle, size - middle) > best:
            best = min(middle, size - middle)
            index.node[node, AXIS], index.corner[node, dimensions] = axis, values[middle - 1]
            if best >= EVEN:
                return
        axis = (axis + 1) % dimensions
    if best == 0:
        values = np.empty(size)
        for at in range(size):
            values[at] = _hash(rows[at])
        index.node[node, AXIS], index.corner[node, dimensions] = HASHED, np.sort(values)[size // 2 - 1]


@njit(**EXACT)
def _split(index: IndexArrays, subs: Subscriptions, node: int) -> None:
    """Turn a leaf with a full bucket into an inner node with two leaves."""
    bucket = index.node[node, HOLDS]
    rows, points = index.row[bucket, :BUCKET].copy(), gather(index, subs, bucket)
    _choose_split(index, node, rows, points)
    index.node[node, HOLDS] = -1
    for side in range(2):
        child = _take_node(index, node)
        index.node[node, side] = child
        _make_leaf(index, child)
    for at in range(rows.shape[0]):
        child = index.node[node, _side(index, node, np.int64(rows[at]), points[at])]
        place(index, index.node[child, HOLDS], rows[at], points[at])
        raise_corner(index.corner, child, points[at])
    release_bucket(index, bucket)


@njit(**EXACT)
def insert(index: IndexArrays, subs: Subscriptions, row: int, point: Point) -> None:
    """Add a point. Requires an index that is not `short_of_buckets`."""
    node, divided = 0, -1
    index.meta[POINTS] += 1
    while True:
        raise_corner(index.corner, node, point)
        bucket = index.node[node, HOLDS]
        if bucket >= 0:
            if index.row[bucket, SIZE] < BUCKET:
                place(index, bucket, row, point)
                break
            _split(index, subs, node)
            divided = node
        node = index.node[node, _side(index, node, row, point)]
    if divided >= 0:
        _recount(index, divided)


@njit(**EXACT)
def lower_corner(index: IndexArrays, node: int) -> bool:
    """Set the corner of an inner node from its children; return whether it changed."""
    changed, left, right = False, index.node[node, LEFT], index.node[node, RIGHT]
    for dimension in range(index.hot.shape[0]):
        corner = max(index.corner[left, dimension], index.corner[right, dimension])
        changed |= corner != index.corner[node, dimension]
        index.corner[node, dimension] = corner
    return changed


@njit(**EXACT)
def _recount(index: IndexArrays, node: int) -> None:
    """Count the leaves below a node and those above it anew; build the topmost lopsided one anew."""
    lopsided = -1
    while node >= 0:
        if index.node[node, HOLDS] < 0:
            left = index.node[index.node[node, LEFT], LEAVES]
            right = index.node[index.node[node, RIGHT], LEAVES]
            index.node[node, LEAVES] = left + right
            if max(left, right) > LOPSIDED * (left + right) + SLACK:
                lopsided = node
        node = index.node[node, PARENT]
    if lopsided >= 0:
        _rebuild(index, lopsided)


@njit(**EXACT)
def _take_apart(index: IndexArrays, top: int) -> Nodes:
    """The leaves below a node; gives the inner nodes below it back."""
    leaves, count, depth = np.empty(index.node[top, LEAVES], np.int32), 0, 1
    stack = np.empty(leaves.shape[0] + 1, np.int32)
    stack[0] = top
    while depth > 0:
        depth -= 1
        here = stack[depth]
        if index.node[here, HOLDS] >= 0:
            leaves[count] = here
            count += 1
            continue
        stack[depth], stack[depth + 1] = index.node[here, LEFT], index.node[here, RIGHT]
        depth += 2
        if here != top:
            _release_node(index, here)
    return leaves


@njit(**EXACT)
def _halve(index: IndexArrays, node: int, leaves: Nodes) -> None:
    """Sort leaves along the next axis on which their corners differ, and set axis and pivot of a node."""
    dimensions, half = index.hot.shape[0], leaves.shape[0] // 2
    values, axis = np.empty(leaves.shape[0]), _first_axis(index, node)
    for _ in range(dimensions):
        for i in range(leaves.shape[0]):
            values[i] = index.corner[leaves[i], axis]
        order = np.argsort(values)
        if values[order[0]] < values[order[-1]]:
            leaves[:] = leaves[order]
            index.node[node, AXIS], index.corner[node, dimensions] = axis, values[order[half - 1]]
            return
        axis = (axis + 1) % dimensions
    index.node[node, AXIS], index.corner[node, dimensions] = HASHED, HALF


@njit(**EXACT)
def _rebuild(index: IndexArrays, top: int) -> None:
    """Build the tree below an inner node anew over its leaves, evenly."""
    leaves = _take_apart(index, top)
    made = np.empty((leaves.shape[0], 3), np.int64)  # inner nodes, top down, and where their leaves stand
    made[0, 0], made[0, 1], made[0, 2], count, done = top, 0, leaves.shape[0], 1, 0
    while done < count:
        node, first, last = made[done, 0], made[done, 1], made[done, 2]
        done += 1
        index.node[node, HOLDS], index.node[node, LEAVES] = -1, last - first
        _halve(index, node, leaves[first:last])
        middle = first + (last - first) // 2
        for side in range(2):
            low, high = (first, middle) if side == LEFT else (middle, last)
            if high - low == 1:
                child = np.int64(leaves[low])
                index.node[child, PARENT] = node
            else:
                child = np.int64(_take_node(index, node))
                made[count, 0], made[count, 1], made[count, 2] = child, low, high
                count += 1
            index.node[node, side] = child
    for i in range(count - 1, -1, -1):
        lower_corner(index, made[i, 0])


@njit(**EXACT)
def _absorb(index: IndexArrays, parent: int, empty: int) -> None:
    """Replace a node by the sibling of its empty child."""
    other = index.node[parent, LEFT] + index.node[parent, RIGHT] - empty
    release_bucket(index, index.node[empty, HOLDS])
    index.corner[parent] = index.corner[other]
    for field in (LEFT, RIGHT, HOLDS, AXIS, LEAVES):
        index.node[parent, field] = index.node[other, field]
    if index.node[parent, HOLDS] >= 0:
        index.row[index.node[parent, HOLDS], LEAF] = parent
    else:
        index.node[index.node[parent, LEFT], PARENT] = parent
        index.node[index.node[parent, RIGHT], PARENT] = parent
    _release_node(index, empty)
    _release_node(index, other)


@njit(**EXACT)
def _merge(index: IndexArrays, subs: Subscriptions, parent: int, leaf: int) -> bool:
    """Move the points of a leaf to its sibling, if that is a leaf and has room; drop an empty leaf.

    Returns whether the parent has taken the sibling's place.
    """
    other = index.node[parent, LEFT] + index.node[parent, RIGHT] - leaf
    source, target = index.node[leaf, HOLDS], index.node[other, HOLDS]
    if target >= 0 and index.row[source, SIZE] + index.row[target, SIZE] <= MERGED:
        points = gather(index, subs, source)
        for at in range(points.shape[0]):
            place(index, target, index.row[source, at], points[at])
            raise_corner(index.corner, other, points[at])
        index.row[source, SIZE] = 0
    if index.row[source, SIZE] > 0:
        return False
    _absorb(index, parent, leaf)
    return True


@njit(**EXACT)
def remove(index: IndexArrays, subs: Subscriptions, row: int, point: Point) -> None:
    """Take a point out."""
    index.meta[POINTS] -= 1
    bucket = index.where[row]
    node = index.row[bucket, LEAF]
    erase(index, bucket, slot_in(index, bucket, row))
    changed, parent, joined = close_corner(index, subs, bucket, node, point), index.node[node, PARENT], -1
    if parent >= 0 and index.row[bucket, SIZE] < UNDERFLOW and _merge(index, subs, parent, node):
        changed, joined, parent = True, parent, index.node[parent, PARENT]
    while parent >= 0 and changed:
        changed = lower_corner(index, parent)
        parent = index.node[parent, PARENT]
    if joined >= 0:
        _recount(index, joined)


@njit(**EXACT)
def find(
    index: IndexArrays,
    subs: Subscriptions,
    query: Query,
    scratch: Scratch,
    rows: NDArray[np.int32],
    count: int,
) -> int:
    """Add rows that cover the box of a query to a list that has `count`; stop when it is full.

    `scratch` has the point and the codes of the box.
    """
    node, corner, held, point = index.node, index.corner, index.row, scratch.point
    words, keys, passed, lo, hi = index.words, scratch.key, scratch.passed, subs.lo, subs.hi
    visited, compared, vain, high = 0, 0, 0, lanes_for(index.hot.shape[0]).high
    depth = 1 if reaches(corner, 0, point) else 0
    node[0, STACK] = 0
    while depth > 0 and count < rows.shape[0]:
        depth -= 1
        here = node[depth, STACK]
        visited += 1
        bucket = node[here, HOLDS]
        if bucket >= 0:
            compared += held[bucket, SIZE]
            if filter_bucket(words, bucket, keys[held[bucket, CUT]], passed, high):
                left, more = verify_bucket(held, bucket, lo, hi, point, passed, high)
                vain += more
                if left > 0:
                    count = collect(index, bucket, subs, query, passed, rows, count, high)
            continue
        for side in range(2):
            if reaches(corner, node[here, side], point):
                node[depth, STACK] = node[here, side]
                depth += 1
    index.meta[NODES_VISITED] += visited
    index.meta[COMPARISONS] += compared
    index.meta[WASTED] += vain
    return count


@njit(**EXACT)
def fits(index: IndexArrays, subs: Subscriptions, wanted: Bools) -> bool:
    """Whether a k-d tree hangs together and holds the `wanted` rows, each where it is said to be."""
    node, held, meta = index.node, index.row, index.meta
    nodes, buckets, dimensions = meta[NODE_USED], meta[BUCKET_USED], index.hot.shape[0]
    if not (1 <= nodes <= node.shape[0] and 2 <= meta[BUCKETS] <= buckets <= held.shape[0]):
        return False
    seen, taken, todo = np.zeros(nodes, np.bool_), np.zeros(buckets, np.bool_), wanted.copy()
    stack, depth, known, leaves, points = np.empty(nodes + 1, np.int64), 1, 0, 0, np.int64(0)
    point, below, order = np.empty(dimensions), np.zeros(nodes, np.int64), np.empty(nodes, np.int64)
    stack[0], taken[HOT] = 0, True
    if node[0, PARENT] != -1:
        return False
    while depth > 0:
        depth -= 1
        here = stack[depth]
        if seen[here]:
            return False
        order[known] = here
        seen[here], known = True, known + 1
        bucket = np.int64(node[here, HOLDS])
        if bucket < 0:
            left, right = np.int64(node[here, LEFT]), np.int64(node[here, RIGHT])
            if bucket != -1 or left == right or not (0 < left < nodes and 0 < right < nodes):
                return False
            if node[left, PARENT] != here or node[right, PARENT] != here or seen[left] or seen[right]:
                return False
            if not HASHED <= node[here, AXIS] < dimensions:
                return False
            stack[depth], stack[depth + 1] = left, right
            depth += 2
            continue
        if bucket <= HOT or bucket >= buckets or taken[bucket] or held[bucket, LEAF] != here:
            return False
        taken[bucket], leaves, size, below[here] = True, leaves + 1, np.int64(held[bucket, SIZE]), 1
        if size > BUCKET or size < (0 if here == 0 else 1):
            return False
        for slot in range(size):
            if not holds_wanted(index, subs, todo, bucket, slot, point) or not reaches(
                index.corner, here, point
            ):
                return False
        points += size
    for i in range(known - 1, -1, -1):
        here = order[i]
        if below[here] != node[here, LEAVES]:
            return False
        if here > 0:
            above = np.int64(node[here, PARENT])
            below[above] += below[here]
            if not reaches(index.corner, above, index.corner[here, :dimensions]):
                return False
    if leaves + 1 != meta[BUCKETS] or points != meta[POINTS] or todo.any():
        return False
    free = meta[NODE_FREE]
    while free != -1:
        if free < 0 or free >= nodes or seen[free]:
            return False
        seen[free], known = True, known + 1
        free = np.int64(node[free, PARENT])
    return known == nodes and free_chain_fits(index, taken, leaves)
