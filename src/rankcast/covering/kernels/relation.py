"""The relation graph G_k: up to k covering subscriptions kept for each covered one [Covering §III-B, III-C].

A covered row has a block of k edges, a forwarded row none: edge e of block e // k is one remembered relation,
edge[e, SOURCE] covers edge[e, TARGET], or is NONE. The edges of one source are a chain: first[source], then
edge[e, AFTER]; edge[e, BEFORE] leads back. A covered row has at least one edge. `block` says which block a
covered row has; for k = 1 no covered row is a source, and `block` is `first` itself.

Edges lead from forwarded rows, from strictly larger boxes, or from equal ones registered earlier, so they
make no cycle, and from every covered row a way leads up to a forwarded one that contains it. `front` is the
index over forwarded boxes. For k = 1 it is enough: whatever lies in a covered box lies in the forwarded one
above it. For more, `back` holds the covered boxes.

Differs from the paper: with k = 1 only forwarded boxes are searched; rows that lost their cover look for
another one containers first, so that what is forwarded does not depend on k.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.covering.kernels.codes import Words
from rankcast.covering.kernels.containment import (
    COVERED,
    FORWARDED,
    GONE,
    NO_ROW,
    Ends,
    IndexArrays,
    Query,
    QueryBoxes,
    Scratch,
    Subscriptions,
    covers,
    own_boxes,
    query_for,
    scratch_for,
    write_point,
)
from rankcast.covering.kernels.hot import hot_container
from rankcast.covering.kernels.index import (
    containers_first,
    first_containers,
    insert,
    remove,
    search,
    unprepared,
)
from rankcast.structures.arrays import borrowed
from rankcast.structures.jit import EXACT

Rows = NDArray[np.int32]
NONE = -1
FIELDS = 4
SOURCE, AFTER, BEFORE, TARGET = range(FIELDS)
META = 3
USED, FREE, LIVE = range(META)


class Graph(NamedTuple):
    """The edges in blocks of k, the first of each chain, and the indexes that new ones come from.

    `meta` counts blocks: ever used, the first that is free again, live ones.
    """

    front: IndexArrays
    back: IndexArrays
    edge: Rows
    first: Rows
    block: Rows
    meta: NDArray[np.int64]
    k: int


@njit(**EXACT)
def _link(graph: Graph, edge: int, source: int) -> None:
    """Let an edge lead from a source, first in its chain."""
    edges, follower = graph.edge, graph.first[source]
    edges[edge, SOURCE], edges[edge, AFTER], edges[edge, BEFORE] = source, follower, NONE
    graph.first[source] = edge
    if follower != NONE:
        edges[follower, BEFORE] = edge


@njit(**EXACT)
def _unlink(graph: Graph, edge: int) -> None:
    edges = graph.edge
    after, before = edges[edge, AFTER], edges[edge, BEFORE]
    if before != NONE:
        edges[before, AFTER] = after
    else:
        graph.first[edges[edge, SOURCE]] = after
    if after != NONE:
        edges[after, BEFORE] = before
    edges[edge, SOURCE] = NONE


@njit(**EXACT)
def _take_block(graph: Graph, row: int) -> None:
    """Give a row a block without edges. Requires a graph with room."""
    edges, meta, k = graph.edge, graph.meta, graph.k
    block = meta[FREE]
    if block != NONE:
        meta[FREE] = edges[k * block, AFTER]
    else:
        block = meta[USED]
        meta[USED] += 1
    meta[LIVE] += 1
    graph.block[row] = block
    for edge in range(k * block, k * block + k):
        edges[edge, SOURCE], edges[edge, TARGET] = NONE, row


@njit(**EXACT)
def _release_block(graph: Graph, row: int) -> None:
    """Take its block, if it has one, away from a row that is covered, with all edges."""
    block, k = graph.block[row], graph.k
    if block == NONE:
        return
    for edge in range(k * block, k * block + k):
        if graph.edge[edge, SOURCE] != NONE:
            _unlink(graph, edge)
    graph.edge[k * block, AFTER], graph.meta[FREE] = graph.meta[FREE], block
    graph.meta[LIVE] -= 1
    graph.block[row] = NONE


@njit(**EXACT)
def _coverer(graph: Graph, row: int) -> int:
    """One row that is remembered to cover a covered row, or NONE."""
    start = graph.k * graph.block[row]
    for edge in range(start, start + graph.k):
        if graph.edge[edge, SOURCE] != NONE:
            return graph.edge[edge, SOURCE]
    return NONE


@njit(**EXACT)
def _find_covers(
    graph: Graph, subs: Subscriptions, row: int, found: Rows, scratch: Scratch, cold: bool
) -> int:
    """Look for up to k rows that cover a row without edges, and remember them; return how many.

    `cold`: the hot rows of `front` have been looked at.
    """
    query = query_for(own_boxes(subs), row, row)
    count = search(graph.front, subs, query, found, np.int64(0), scratch, cold)
    if graph.k > 1:
        count = search(graph.back, subs, query, found, count, scratch, False)
    if count == 0:
        _release_block(graph, row)
    elif graph.block[row] == NONE:
        _take_block(graph, row)
    for place in range(count):
        _link(graph, graph.k * graph.block[row] + place, found[place])
    return count


@njit(**EXACT)
def needs_room(graph: Graph) -> bool:
    """Whether the owner must make room before the next row."""
    full = graph.edge.shape[0] - graph.k * graph.meta[LIVE] < graph.k
    return full or unprepared(graph.front) or (graph.k > 1 and unprepared(graph.back))


@njit(**EXACT)
def enter(
    graph: Graph, subs: Subscriptions, row: int, found: Rows, scratch: Scratch, cold: bool = False
) -> int:
    """Register a row in a graph with room (see `needs_room`); return one that covers it, or NONE.

    `cold`: `enter_hot` has been tried.
    """
    # One array for k = 1, where a row has a chain or a block and never both.
    graph.first[row], graph.block[row] = NONE, NONE
    if _find_covers(graph, subs, row, found, scratch, cold) == 0:
        subs.status[row] = FORWARDED
        insert(graph.front, subs, row)
        return NONE
    subs.status[row] = COVERED
    if graph.k > 1:
        insert(graph.back, subs, row)
    return found[0]


@njit(**EXACT)
def enter_hot(
    hot: NDArray[np.float64],
    held: Rows,
    counts: NDArray[np.int64],
    edges: Rows,
    first: Rows,
    meta: NDArray[np.int64],
    lo: Ends,
    hi: Ends,
    status: NDArray[np.int8],
    point: NDArray[np.float64],
    passed: Words,
    row: int,
) -> int:
    """Register a row if a hot row of `front` (its arrays come first) covers it, and return that, or NONE.

    For a graph of k = 1, with an edge to spare, whose rows have no sets: what `enter` does is the same.
    """
    write_point(lo, hi, row, point)
    source = hot_container(hot, held, counts, status, point, passed)
    if source == NO_ROW:
        return NONE
    edge = meta[FREE]
    if edge != NONE:
        meta[FREE] = edges[edge, AFTER]
    else:
        edge = meta[USED]
        meta[USED] += 1
    meta[LIVE] += 1
    follower = first[source]
    edges[edge, SOURCE], edges[edge, AFTER], edges[edge, BEFORE], edges[edge, TARGET] = (
        source,
        follower,
        NONE,
        row,
    )
    first[source], first[row], status[row] = edge, edge, COVERED
    if follower != NONE:
        edges[follower, BEFORE] = edge
    return source


@njit(**EXACT)
def subscribe(graph: Graph, subs: Subscriptions, rows: Rows, covered_by: Rows, start: int) -> int:
    """Register rows from `start` on and tell who covers each; return how far, less if room must be made."""
    found, scratch = np.empty(graph.k, np.int32), scratch_for(graph.front)
    point, passed = scratch.point, scratch.passed
    graph, subs = borrowed(graph), borrowed(subs)
    hot, held, counts = graph.front.hot, graph.front.row, graph.front.meta
    edges, first, meta, is_plain = graph.edge, graph.first, graph.meta, has_plain_rows(graph, subs)
    lo, hi, status = subs.lo, subs.hi, subs.status
    for i in range(start, rows.shape[0]):
        by = NONE
        if is_plain and edges.shape[0] > meta[LIVE]:
            by = enter_hot(hot, held, counts, edges, first, meta, lo, hi, status, point, passed, rows[i])
        if by == NONE:
            if needs_room(graph):
                return i
            by = enter(graph, subs, rows[i], found, scratch, is_plain)
        covered_by[i] = by
    return rows.shape[0]


@njit(**EXACT)
def has_plain_rows(graph: Graph, subs: Subscriptions) -> bool:
    """Whether `enter_hot` may be tried."""
    return graph.k == 1 and subs.sets.size.shape[0] == 0


@njit(**EXACT)
def unlink_rows(graph: Graph, subs: Subscriptions, rows: Rows, status: int) -> None:
    """Remove rows from the indexes, forget what covers them, and give them another status."""
    for row in rows:
        if subs.status[row] != COVERED:
            remove(graph.front, subs, row)
        else:
            if graph.k > 1:
                remove(graph.back, subs, row)
            _release_block(graph, row)
        subs.status[row] = status


@njit(**EXACT)
def orphans(graph: Graph, rows: Rows, limit: int) -> Rows:
    """Cut up to `limit` edges that lead from rows, in turn; return the rows that are left without any."""
    orphaned, count, cut = np.empty(16, np.int32), 0, 0
    for row in rows:
        while graph.first[row] != NONE and cut < limit:
            edge = graph.first[row]
            _unlink(graph, edge)
            cut += 1
            target = graph.edge[edge, TARGET]
            if _coverer(graph, target) == NONE:
                if count == orphaned.shape[0]:
                    orphaned = np.concatenate((orphaned, np.empty_like(orphaned)))
                orphaned[count] = target
                count += 1
    return orphaned[:count].copy()


@njit(**EXACT)
def remove_rows(graph: Graph, subs: Subscriptions, rows: Rows, status: int) -> Rows:
    """Take rows out, see `unlink_rows`; return those that are left without a cover, containers first."""
    unlink_rows(graph, subs, rows, status)
    return containers_first(subs, orphans(graph, rows, graph.edge.shape[0]))


@njit(**EXACT)
def resettle(graph: Graph, subs: Subscriptions, rows: Rows, start: int) -> int:
    """Let covered rows without edges, containers first, find new ones or be forwarded; return how far."""
    found, scratch = np.empty(graph.k, np.int32), scratch_for(graph.front)
    for i in range(start, rows.shape[0]):
        if needs_room(graph):
            return i
        row = rows[i]
        if _find_covers(graph, subs, row, found, scratch, False) == 0:
            if graph.k > 1:
                remove(graph.back, subs, row)
            subs.status[row] = FORWARDED
            insert(graph.front, subs, row)
    return rows.shape[0]


@njit(**EXACT)
def arrange(graph: Graph, subs: Subscriptions, source: int, count: int) -> None:
    """Let the chain of a source begin with the first `count` of its rows, containers first.

    Cost: O(n) expected for its n edges, and a sort of `count` rows.
    """
    targets, length, edge = np.empty(16, np.int32), 0, graph.first[source]
    while edge != NONE:
        if length == targets.shape[0]:
            targets = np.concatenate((targets, np.empty_like(targets)))
        targets[length] = graph.edge[edge, TARGET]
        length += 1
        edge = graph.edge[edge, AFTER]
    chosen = first_containers(subs, targets[:length], count)
    for i in range(chosen.shape[0] - 1, -1, -1):
        start = graph.k * graph.block[chosen[i]]
        for edge in range(start, start + graph.k):
            if graph.edge[edge, SOURCE] == source:
                _unlink(graph, edge)
                _link(graph, edge, source)


@njit(**EXACT)
def coverers(graph: Graph, subs: Subscriptions, rows: Rows) -> Rows:
    """For each row one that is remembered to cover it, or NONE."""
    found = np.full(rows.shape[0], NONE, np.int32)
    for i in range(rows.shape[0]):
        if subs.status[rows[i]] == COVERED:
            found[i] = _coverer(graph, rows[i])
    return found


@njit(**EXACT)
def _below(graph: Graph, subs: Subscriptions, query: Query, found: Rows, count: int) -> int:
    """Add covered rows that contain a box to a list that names all forwarded ones that do."""
    for i in range(count):
        edge = graph.first[found[i]]
        while edge != NONE and count < found.shape[0]:
            target = graph.edge[edge, TARGET]
            if covers(subs, target, query.box, query.place, query.own):
                found[count] = target
                count += 1
            edge = graph.edge[edge, AFTER]
    return count


@njit(**EXACT)
def containing(graph: Graph, subs: Subscriptions, box: QueryBoxes, found: Rows) -> None:
    """For each box up to found.shape[1] live rows that contain it, forwarded ones first, if k is 1."""
    scratch = scratch_for(graph.front)
    graph, subs, box = borrowed(graph), borrowed(subs), borrowed(box)
    hot, held, counts, status = graph.front.hot, graph.front.row, graph.front.meta, subs.status
    lo, hi, point, passed = box.lo, box.hi, scratch.point, scratch.passed
    one = found.shape[1] == 1 and has_plain_rows(graph, subs)
    for place in range(found.shape[0]):
        if one:
            write_point(lo, hi, place, point)
            found[place, 0] = hot_container(hot, held, counts, status, point, passed)
            if found[place, 0] != NO_ROW:
                continue
        query = query_for(box, place, NO_ROW)
        count = search(graph.front, subs, query, found[place], np.int64(0), scratch, one)
        _below(graph, subs, query, found[place], count)


@njit(**EXACT)
def index_covered(graph: Any, subs: Subscriptions, rows: Rows, start: int) -> int:
    """Insert covered rows into the index of covered boxes of any graph; return how far."""
    for i in range(start, rows.shape[0]):
        if unprepared(graph.back):
            return i
        insert(graph.back, subs, rows[i])
    return rows.shape[0]


@njit(**EXACT)
def edges_fit(
    edge: Rows, first: Rows, block: Rows, meta: NDArray[np.int64], k: int, status: NDArray[np.int8]
) -> bool:
    """Whether the edges of a restored graph keep the invariants above; nothing is trusted. Cost: O(n)."""
    used, rows = meta[USED], status.size
    if not (0 <= meta[LIVE] <= used and k * used <= edge.shape[0]):
        return False
    seen, known, linked = np.zeros(used, np.bool_), 0, 0
    for row in range(rows):
        if status[row] == GONE:
            continue
        if row >= first.size or row >= block.size:
            return False
        if status[row] != COVERED:
            if k > 1 and block[row] != NONE:
                return False
            continue
        which, some = np.int64(block[row]), False
        if which < 0 or which >= used or seen[which]:
            return False
        seen[which], known = True, known + 1
        for each in range(k * which, k * which + k):
            source = np.int64(edge[each, SOURCE])
            if edge[each, TARGET] != row or source < NONE or source >= rows or source == row:
                return False
            if source != NONE:
                if status[source] == GONE or (k == 1 and status[source] == COVERED):
                    return False
                some, linked = True, linked + 1
        if not some:
            return False
    if known != meta[LIVE]:
        return False
    for row in range(rows):
        if status[row] == GONE or (k == 1 and status[row] == COVERED):
            continue
        here, before = np.int64(first[row]), np.int64(NONE)
        while here != NONE:
            if here < 0 or here >= k * used or not seen[here // k] or linked == 0:
                return False
            if edge[here, SOURCE] != row or edge[here, BEFORE] != before:
                return False
            before, here, linked = here, np.int64(edge[here, AFTER]), linked - 1
    free = meta[FREE]
    while free != NONE:
        if free < 0 or free >= used or seen[free]:
            return False
        seen[free], known = True, known + 1
        free = np.int64(edge[k * free, AFTER])
    return linked == 0 and known == used
