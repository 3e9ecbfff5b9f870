"""An adaptive k-d tree with buckets over packed points: insert, remove, dominance search [Covering §IV-C].

An inner node sends a point right if its code along `axis` is at least `pivot`; where all codes of a full
bucket are equal, a hash of the row decides (axis HASHED), so any number of equal points can be kept. A bucket
is split when it overflows BUCKET points, at the middle of the axis along which its codes spread most; two
sibling leaves are merged when one falls below UNDERFLOW points and both fit into MERGED.

`corner` is the largest code of a node's points in each dimension, always tight: a node holds no dominating
point unless its corner dominates. The search starts at the rightmost leaf that qualifies, where points are
largest, and backtracks to the left.

A row of `node`: children, parent, the bucket of a leaf (-1: inner), axis, pivot; STACK is scratch.
Cost: insert and remove O(depth); a search visits nodes whose corner dominates the query.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels.containment import (
    BUCKET,
    BUCKET_USED,
    BUCKETS,
    COMPARISONS,
    LEAF,
    NODE_FREE,
    NODE_USED,
    NODES_VISITED,
    POINTS,
    SIZE,
    Bools,
    IndexArrays,
    Lanes,
    Query,
    Subscriptions,
    Words,
    close_corner,
    code_at,
    collect,
    erase,
    filter_bucket,
    free_chain_fits,
    holds_wanted,
    lanes_for,
    larger,
    pick_up,
    place,
    raise_corner,
    reaches,
    release_bucket,
    slot_in,
    take_bucket,
)
from rankcast.structures.jit import EXACT

UNDERFLOW = 16
MERGED = 48
HASHED = -1
FIELDS = 7
LEFT, RIGHT, PARENT, HOLDS, AXIS, PIVOT, STACK = range(FIELDS)


@njit(**EXACT)
def clear(index: IndexArrays) -> None:
    """Make the tree empty: a root with an empty bucket."""
    index.meta[NODE_USED], index.meta[NODE_FREE] = 1, -1
    index.node[0, PARENT] = -1
    _make_leaf(index, 0)


@njit(**EXACT)
def _make_leaf(index: IndexArrays, node: int) -> None:
    bucket = take_bucket(index)
    index.node[node, HOLDS], index.row[bucket, LEAF] = bucket, node
    index.corner[node] = np.uint64(0)


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
def _hash(row: int) -> int:
    """31 well mixed bits of a row, another value for each row below 2^31."""
    # Unsigned, so that the product wraps round and the shift brings in zeros.
    mixed = np.uint64(row)
    for _ in range(2):
        mixed = ((mixed ^ (mixed >> np.uint64(16))) * np.uint64(0x45D9F3B)) & np.uint64(0x7FFFFFFF)
    return int(mixed ^ (mixed >> np.uint64(16)))


@njit(**EXACT)
def _side(index: IndexArrays, node: int, row: int, key: Words, lanes: Lanes) -> int:
    axis = np.int64(index.node[node, AXIS])
    value = _hash(row) if axis == HASHED else code_at(key, axis, lanes)
    return 1 if value >= index.node[node, PIVOT] else 0


@njit(**EXACT)
def _widest_axis(index: IndexArrays, bucket: int, key: Words) -> int:
    """The dimension along which the codes of a bucket spread most, HASHED if they are all equal."""
    dimensions = index.cuts.shape[0]
    lanes = lanes_for(dimensions)
    smallest, largest = np.full(dimensions, index.cuts.shape[1] + 1), np.full(dimensions, -1)
    for at in range(index.row[bucket, SIZE]):
        pick_up(index, bucket, at, key)
        for dimension in range(dimensions):
            code = code_at(key, dimension, lanes)
            smallest[dimension] = min(smallest[dimension], code)
            largest[dimension] = max(largest[dimension], code)
    spread = largest - smallest
    widest = np.argmax(spread)
    return int(widest) if spread[widest] > 0 else HASHED


@njit(**EXACT)
def _choose_split(index: IndexArrays, node: int, bucket: int, key: Words) -> None:
    """Set axis and pivot so that both sides get points, as evenly as codes allow."""
    size, lanes = index.row[bucket, SIZE], lanes_for(index.cuts.shape[0])
    values = np.empty(size, np.int64)
    axis = _widest_axis(index, bucket, key)
    for at in range(size):
        row = pick_up(index, bucket, at, key)
        values[at] = _hash(row) if axis == HASHED else code_at(key, axis, lanes)
    values.sort()
    up, down = size // 2, size // 2
    while up < size and values[up] == values[up - 1]:
        up += 1
    while down > 0 and values[down] == values[down - 1]:
        down -= 1
    middle = up if up < size and (down == 0 or up - size // 2 <= size // 2 - down) else down
    index.node[node, AXIS], index.node[node, PIVOT] = axis, values[middle]


@njit(**EXACT)
def _split(index: IndexArrays, node: int) -> None:
    """Turn a leaf with a full bucket into an inner node with two leaves."""
    bucket, key = index.node[node, HOLDS], np.empty(index.words.shape[1], np.uint64)
    lanes = lanes_for(index.cuts.shape[0])
    _choose_split(index, node, bucket, key)
    index.node[node, HOLDS] = -1
    for side in range(2):
        child = _take_node(index, node)
        index.node[node, side] = child
        _make_leaf(index, child)
    for at in range(index.row[bucket, SIZE]):
        row = pick_up(index, bucket, at, key)
        child = index.node[node, _side(index, node, np.int64(row), key, lanes)]
        place(index, index.node[child, HOLDS], row, key)
        raise_corner(index.corner, child, key, lanes)
    release_bucket(index, bucket)


@njit(**EXACT)
def insert(index: IndexArrays, row: int, key: Words) -> None:
    """Add a point. Requires an index that is not `short_of_buckets`."""
    node, lanes = 0, lanes_for(index.cuts.shape[0])
    index.meta[POINTS] += 1
    while True:
        raise_corner(index.corner, node, key, lanes)
        bucket = index.node[node, HOLDS]
        if bucket >= 0:
            if index.row[bucket, SIZE] < BUCKET:
                place(index, bucket, row, key)
                return
            _split(index, node)
        node = index.node[node, _side(index, node, row, key, lanes)]


@njit(**EXACT)
def lower_corner(index: IndexArrays, node: int) -> bool:
    """Set the corner of an inner node from its children; return whether it changed."""
    changed, left, right = False, index.node[node, LEFT], index.node[node, RIGHT]
    lanes = lanes_for(index.cuts.shape[0])
    for word in range(index.corner.shape[1]):
        corner = larger(index.corner[left, word], index.corner[right, word], lanes)
        changed = changed or corner != index.corner[node, word]
        index.corner[node, word] = corner
    return changed


@njit(**EXACT)
def _absorb(index: IndexArrays, parent: int, empty: int) -> None:
    """Replace a node by the sibling of its empty child."""
    other = index.node[parent, LEFT] + index.node[parent, RIGHT] - empty
    release_bucket(index, index.node[empty, HOLDS])
    index.corner[parent] = index.corner[other]
    for field in (LEFT, RIGHT, HOLDS, AXIS, PIVOT):
        index.node[parent, field] = index.node[other, field]
    if index.node[parent, HOLDS] >= 0:
        index.row[index.node[parent, HOLDS], LEAF] = parent
    else:
        index.node[index.node[parent, LEFT], PARENT] = parent
        index.node[index.node[parent, RIGHT], PARENT] = parent
    _release_node(index, empty)
    _release_node(index, other)


@njit(**EXACT)
def _merge(index: IndexArrays, parent: int, leaf: int) -> bool:
    """Move the points of a leaf to its sibling, if that is a leaf and has room; drop an empty leaf.

    Returns whether the parent has taken the sibling's place.
    """
    other = index.node[parent, LEFT] + index.node[parent, RIGHT] - leaf
    source, target = index.node[leaf, HOLDS], index.node[other, HOLDS]
    if target >= 0 and index.row[source, SIZE] + index.row[target, SIZE] <= MERGED:
        key = np.empty(index.words.shape[1], np.uint64)
        for at in range(index.row[source, SIZE]):
            row = pick_up(index, source, at, key)
            place(index, target, row, key)
            raise_corner(index.corner, other, key, lanes_for(index.cuts.shape[0]))
        index.row[source, SIZE] = 0
    if index.row[source, SIZE] > 0:
        return False
    _absorb(index, parent, leaf)
    return True


@njit(**EXACT)
def remove(index: IndexArrays, row: int, key: Words) -> None:
    """Take a point out."""
    index.meta[POINTS] -= 1
    node, lanes = 0, lanes_for(index.cuts.shape[0])
    while index.node[node, HOLDS] < 0:
        node = index.node[node, _side(index, node, row, key, lanes)]
    bucket = index.node[node, HOLDS]
    erase(index, bucket, slot_in(index, bucket, row))
    changed = close_corner(index, bucket, node)
    parent = index.node[node, PARENT]
    if parent >= 0 and index.row[bucket, SIZE] < UNDERFLOW and _merge(index, parent, node):
        changed, parent = True, index.node[parent, PARENT]
    while parent >= 0 and changed:
        changed = lower_corner(index, parent)
        parent = index.node[parent, PARENT]


@njit(**EXACT)
def find(
    index: IndexArrays,
    subs: Subscriptions,
    query: Query,
    key: Words,
    passed: Words,
    rows: NDArray[np.int32],
    count: int,
) -> int:
    """Add rows that cover the box of a query to a list that has `count`; stop when it is full.

    `key` are the codes of the box, `passed` is scratch for a bucket.
    """
    node, corner, words, held = index.node, index.corner, index.words, index.row
    visited, compared, high = 0, 0, lanes_for(index.cuts.shape[0]).high
    depth = 1 if reaches(corner, 0, key, high) else 0
    node[0, STACK] = 0
    while depth > 0 and count < rows.shape[0]:
        depth -= 1
        here = node[depth, STACK]
        visited += 1
        bucket = node[here, HOLDS]
        if bucket >= 0:
            compared += held[bucket, SIZE]
            if filter_bucket(words, bucket, key, passed, high):
                count = collect(held, bucket, passed, subs, query, rows, count, high)
            continue
        for side in range(2):
            if reaches(corner, node[here, side], key, high):
                node[depth, STACK] = node[here, side]
                depth += 1
    index.meta[NODES_VISITED] += visited
    index.meta[COMPARISONS] += compared
    return count


@njit(**EXACT)
def fits(index: IndexArrays, subs: Subscriptions, wanted: Bools) -> bool:
    """Whether a k-d tree hangs together and holds the `wanted` rows, each where its codes lead."""
    node, held, meta = index.node, index.row, index.meta
    nodes, buckets, dimensions = meta[NODE_USED], meta[BUCKET_USED], index.cuts.shape[0]
    if not (1 <= nodes <= node.shape[0] and 1 <= meta[BUCKETS] <= buckets <= held.shape[0]):
        return False
    seen, taken, todo = np.zeros(nodes, np.bool_), np.zeros(buckets, np.bool_), wanted.copy()
    stack, depth, known, leaves, points = np.empty(nodes + 1, np.int64), 1, 0, 0, np.int64(0)
    key, lanes = np.empty(index.words.shape[1], np.uint64), lanes_for(dimensions)
    stack[0] = 0
    if node[0, PARENT] != -1:
        return False
    while depth > 0:
        depth -= 1
        here = stack[depth]
        if seen[here]:
            return False
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
        if bucket >= buckets or taken[bucket] or held[bucket, LEAF] != here:
            return False
        taken[bucket], leaves, size = True, leaves + 1, np.int64(held[bucket, SIZE])
        if size > BUCKET or size < (0 if here == 0 else 1):
            return False
        for slot in range(size):
            if not holds_wanted(index, subs, todo, bucket, slot, key):
                return False
            below, above = here, np.int64(node[here, PARENT])
            while above >= 0:
                if node[above, _side(index, above, np.int64(held[bucket, slot]), key, lanes)] != below:
                    return False
                below, above = above, np.int64(node[above, PARENT])
        points += size
    if leaves != meta[BUCKETS] or points != meta[POINTS] or todo.any():
        return False
    free = meta[NODE_FREE]
    while free != -1:
        if free < 0 or free >= nodes or seen[free]:
            return False
        seen[free], known = True, known + 1
        free = np.int64(node[free, PARENT])
    return known == nodes and free_chain_fits(index, taken, leaves)
