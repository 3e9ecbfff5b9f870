"""Whether indexes over boxes and relation graphs from a snapshot keep the invariants that kernels rely on.

As in `rankcast.structures.integrity`, nothing read is trusted and every walk is counted.
Cost: O(n) for a graph; for an index one pass over its points, and for each the way to its bucket.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels.buckets import (
    BUCKET,
    BUCKET_FREE,
    BUCKET_USED,
    BUCKETS,
    COVERED,
    GONE,
    LEAF,
    NODE_FREE,
    NODE_USED,
    POINTS,
    SIZE,
    Index,
    Words,
    World,
    encode,
    lanes_for,
)
from rankcast.covering.kernels.kdtree import AXIS, HASHED, HOLDS, LEFT, PARENT, RIGHT
from rankcast.covering.kernels.kdtree import _side as side_of
from rankcast.covering.kernels.relation import AFTER, BEFORE, FREE, LIVE, NONE, SOURCE, TARGET, USED
from rankcast.covering.kernels.zcurve import ORDER, precedes
from rankcast.papers.covering.poset_kernels import AFTER as POSET_AFTER
from rankcast.papers.covering.poset_kernels import BEFORE as POSET_BEFORE
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
Bools = NDArray[np.bool_]
FITS = 0
NODE, POINT, CHAIN, EDGE = 1, 2, 3, 4


@njit(**EXACT)
def kdtree(index: Index, world: World, wanted: Bools) -> int:
    """Whether a k-d tree hangs together and holds the `wanted` rows, each where its codes lead."""
    node, held, meta = index.node, index.row, index.meta
    nodes, buckets, dimensions = meta[NODE_USED], meta[BUCKET_USED], index.cuts.shape[0]
    if not (1 <= nodes <= node.shape[0] and 1 <= meta[BUCKETS] <= buckets <= held.shape[0]):
        return NODE
    seen, taken, todo = np.zeros(nodes, np.bool_), np.zeros(buckets, np.bool_), wanted.copy()
    stack, depth, known, leaves, points = np.empty(nodes + 1, np.int64), 1, 0, 0, np.int64(0)
    key, lanes = np.empty(index.words.shape[1], np.uint64), lanes_for(dimensions)
    stack[0] = 0
    if node[0, PARENT] != -1:
        return NODE
    while depth > 0:
        depth -= 1
        here = stack[depth]
        if seen[here]:
            return NODE
        seen[here], known = True, known + 1
        bucket = np.int64(node[here, HOLDS])
        if bucket < 0:
            left, right = np.int64(node[here, LEFT]), np.int64(node[here, RIGHT])
            if bucket != -1 or left == right or not (0 < left < nodes and 0 < right < nodes):
                return NODE
            if node[left, PARENT] != here or node[right, PARENT] != here or seen[left] or seen[right]:
                return NODE
            if not HASHED <= node[here, AXIS] < dimensions:
                return NODE
            stack[depth], stack[depth + 1] = left, right
            depth += 2
            continue
        if bucket >= buckets or taken[bucket] or held[bucket, LEAF] != here:
            return NODE
        taken[bucket], leaves, size = True, leaves + 1, np.int64(held[bucket, SIZE])
        if size > BUCKET or size < (0 if here == 0 else 1):
            return POINT
        for slot in range(size):
            if not _stands(index, world, todo, bucket, slot, key):
                return POINT
            below, above = here, np.int64(node[here, PARENT])
            while above >= 0:
                if node[above, side_of(index, above, np.int64(held[bucket, slot]), key, lanes)] != below:
                    return POINT
                below, above = above, np.int64(node[above, PARENT])
        points += size
    if leaves != meta[BUCKETS] or points != meta[POINTS] or todo.any():
        return POINT
    free = meta[NODE_FREE]
    while free != -1:
        if free < 0 or free >= nodes or seen[free]:
            return CHAIN
        seen[free], known = True, known + 1
        free = np.int64(node[free, PARENT])
    return _free_buckets(index, taken, leaves) if known == nodes else CHAIN


@njit(**EXACT)
def _stands(index: Index, world: World, todo: Bools, bucket: int, slot: int, key: Words) -> bool:
    """Whether a point is that of a row still to be met, with its codes, which `key` then holds."""
    row = np.int64(index.row[bucket, slot])
    if row < 0 or row >= todo.size or not todo[row]:
        return False
    todo[row] = False
    encode(index.cuts, world.lo, world.hi, row, key)
    for word in range(key.size):
        if index.words[bucket, word, slot] != key[word]:
            return False
    return True


@njit(**EXACT)
def _free_buckets(index: Index, taken: Bools, leaves: int) -> int:
    """Whether all buckets that are not taken are in the chain of free ones, without points."""
    free, known = index.meta[BUCKET_FREE], leaves
    while free != -1:
        if free < 0 or free >= taken.size or taken[free] or index.row[free, SIZE] != 0:
            return CHAIN
        taken[free], known = True, known + 1
        free = np.int64(index.row[free, LEAF])
    return FITS if known == taken.size else CHAIN


@njit(**EXACT)
def zcurve(index: Index, world: World, wanted: Bools) -> int:
    """Whether buckets stand in the order of their floors and hold the `wanted` rows, each between two."""
    held, meta, lanes = index.row, index.meta, lanes_for(index.cuts.shape[0])
    buckets, count = meta[BUCKET_USED], meta[BUCKETS]
    if not 1 <= count <= buckets <= held.shape[0]:
        return NODE
    taken, todo, points = np.zeros(buckets, np.bool_), wanted.copy(), np.int64(0)
    key = np.empty(index.words.shape[1], np.uint64)
    for position in range(count):
        bucket = np.int64(index.node[position, ORDER])
        if bucket < 0 or bucket >= buckets or taken[bucket]:
            return NODE
        taken[bucket] = True
    for word in range(key.size):
        if index.corner[2 * np.int64(index.node[0, ORDER]) + 1, word] != np.uint64(0):
            return NODE
    for position in range(count):
        bucket, last = np.int64(index.node[position, ORDER]), position + 1 == count
        floor, size = index.corner[2 * bucket + 1], np.int64(held[bucket, SIZE])
        ceiling = floor if last else index.corner[2 * np.int64(index.node[position + 1, ORDER]) + 1]
        if precedes(ceiling, floor, lanes) or size > BUCKET or size < (1 if count > 1 else 0):
            return NODE
        for slot in range(size):
            if not _stands(index, world, todo, bucket, slot, key) or precedes(key, floor, lanes):
                return POINT
            if not last and precedes(ceiling, key, lanes):
                return POINT
        points += size
    return _free_buckets(index, taken, count) if points == meta[POINTS] and not todo.any() else POINT


@njit(**EXACT)
def edges(
    edge: Rows, first: Rows, block: Rows, meta: NDArray[np.int64], k: int, standing: NDArray[np.int8]
) -> int:
    """Whether a relation graph hangs together: see `rankcast.covering.kernels.relation`."""
    used, rows = meta[USED], standing.size
    if not (0 <= meta[LIVE] <= used and k * used <= edge.shape[0]):
        return CHAIN
    seen, known, linked = np.zeros(used, np.bool_), 0, 0
    for row in range(rows):
        if standing[row] == GONE:
            continue
        if row >= first.size or row >= block.size:
            return EDGE
        if standing[row] != COVERED:
            continue
        which, some = np.int64(block[row]), False
        if which < 0 or which >= used or seen[which]:
            return EDGE
        seen[which], known = True, known + 1
        for each in range(k * which, k * which + k):
            source = np.int64(edge[each, SOURCE])
            if edge[each, TARGET] != row or source < NONE or source >= rows or source == row:
                return EDGE
            if source != NONE:
                if standing[source] == GONE or (k == 1 and standing[source] == COVERED):
                    return EDGE
                some, linked = True, linked + 1
        if not some:
            return EDGE
    if known != meta[LIVE]:
        return EDGE
    for row in range(rows):
        if standing[row] == GONE or (k == 1 and standing[row] == COVERED):
            continue
        here, before = np.int64(first[row]), np.int64(NONE)
        while here != NONE:
            if here < 0 or here >= k * used or not seen[here // k] or linked == 0:
                return EDGE
            if edge[here, SOURCE] != row or edge[here, BEFORE] != before:
                return EDGE
            before, here, linked = here, np.int64(edge[here, AFTER]), linked - 1
    free = meta[FREE]
    while free != NONE:
        if free < 0 or free >= used or seen[free]:
            return CHAIN
        seen[free], known = True, known + 1
        free = np.int64(edge[k * free, AFTER])
    return FITS if linked == 0 and known == used else CHAIN


@njit(**EXACT)
def poset(edge: Rows, first: Rows, meta: NDArray[np.int64], standing: NDArray[np.int8]) -> int:
    """Whether the edges of a poset hang together: see `rankcast.papers.covering.poset_kernels`."""
    used, rows = meta[USED], standing.size
    if not (0 <= meta[LIVE] <= used <= edge.shape[0]):
        return CHAIN
    seen, known = np.zeros(used, np.int8), 0
    for chain in range(2):
        known = 0
        for row in range(rows):
            if standing[row] == GONE:
                continue
            if row >= first.shape[0]:
                return EDGE
            here, before = np.int64(first[row, chain]), np.int64(NONE)
            while here != NONE:
                if here < 0 or here >= used or seen[here] != chain or edge[here, chain] != row:
                    return EDGE
                other = np.int64(edge[here, 1 - chain])
                if other < 0 or other >= rows or standing[other] == GONE:
                    return EDGE
                if edge[here, POSET_BEFORE + chain] != before:
                    return EDGE
                seen[here], known = chain + 1, known + 1
                before, here = here, np.int64(edge[here, POSET_AFTER + chain])
        if known != meta[LIVE]:
            return EDGE
    free = meta[FREE]
    while free != NONE:
        if free < 0 or free >= used or seen[free] != 0:
            return CHAIN
        seen[free], known = 1, known + 1
        free = np.int64(edge[free, POSET_AFTER])
    return FITS if known == used else CHAIN
