"""Distances along a road graph: from nodes outwards, with and without an end.

Lengths are whole numbers of a small unit, so sums along paths are exact in any order. `FAR` is beyond every
path. Searches are Dijkstra's; the arrays of a search (`Search`) are kept from one to the next, and only what
was touched is reset.

`OnEdges` lists the objects on each edge with the way from its start to them.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.moving.kernels.network_graph import Arcs, Bools, Floats, Ints, Rows
from rankcast.structures import heap
from rankcast.structures.arrays import with_room
from rankcast.structures.jit import EXACT

FAR = 1 << 61


class OnEdges(NamedTuple):
    """Objects by edge: `item` and `at` from `start[e]`, `size[e]` of them, by the way from its start."""

    start: Ints
    size: Ints
    item: Rows
    at: Ints


class Roads(NamedTuple):
    """A graph as searches take it: arcs, lengths and one-way edges."""

    arcs: Arcs
    start: Rows
    end: Rows
    length: Ints
    oneway: Bools


class Search(NamedTuple):
    """Distances of nodes and objects, `FAR` between two searches."""

    node: Ints
    item: Ints


@njit(**EXACT)
def whole(roads: Roads, backwards: bool, sources: Rows, ways: Ints, limit: int) -> Ints:
    """The distance of every node from the sources, each with a way to begin with; or of the sources from it.

    What is farther than `limit` is `FAR`. Cost: O(m log n).
    """
    arcs = roads.arcs
    first = arcs.in_first if backwards else arcs.out_first
    to = arcs.in_from if backwards else arcs.out_to
    by = arcs.in_edge if backwards else arcs.out_edge
    found = np.full(first.size - 1, FAR, np.int64)
    keys, nodes, size = np.empty(64, np.int64), np.empty(64, np.int32), 0
    for i in range(sources.size):
        if ways[i] < found[sources[i]] and ways[i] <= limit:
            found[sources[i]] = ways[i]
            keys, nodes = with_room(keys, size + 1), with_room(nodes, size + 1)
            size = heap.push(keys, nodes, size, ways[i], sources[i])
    while size > 0:
        way, node = keys[0], nodes[0]
        size = heap.pop(keys, nodes, size)
        if way > found[node]:
            continue
        for i in range(first[node], first[node + 1]):
            other, far = to[i], way + roads.length[by[i]]
            if far < found[other] and far <= limit:
                found[other] = far
                keys, nodes = with_room(keys, size + 1), with_room(nodes, size + 1)
                size = heap.push(keys, nodes, size, far, other)
    return found


@njit(**EXACT)
def explore(
    roads: Roads, on: OnEdges, search: Search, source: int, limit: int, wanted: int
) -> tuple[Rows, Ints, int, int]:
    """Objects near a node: rows, distances, up to where these are exact and complete, nodes settled.

    Ends beyond `limit`, or once `wanted` objects were met. Distances above the returned one are those of some
    path. Cost: Dijkstra's within the radius.
    """
    arcs, length = roads.arcs, roads.length
    keys, nodes, size = np.empty(64, np.int64), np.empty(64, np.int32), 0
    seen, met, met_count = np.empty(64, np.int32), np.empty(64, np.int32), 0
    search.node[source] = 0
    size = heap.push(keys, nodes, size, 0, source)
    seen[0], seen_count, settled, complete = source, 1, 0, FAR
    while size > 0:
        way, node = keys[0], nodes[0]
        if way > limit or met_count >= wanted:
            complete = way - 1
            break
        size = heap.pop(keys, nodes, size)
        if way > search.node[node]:
            continue
        settled += 1
        for i in range(arcs.out_first[node], arcs.out_first[node + 1]):
            edge, other = arcs.out_edge[i], arcs.out_to[i]
            count, begin = on.size[edge], on.start[edge]
            for j in range(begin, begin + count):
                item = on.item[j]
                here = FAR
                if roads.start[edge] == node:
                    here = way + on.at[j]
                if roads.end[edge] == node and not roads.oneway[edge]:
                    here = min(here, way + length[edge] - on.at[j])
                if search.item[item] == FAR:
                    met = with_room(met, met_count + 1)
                    met[met_count] = item
                    met_count += 1
                search.item[item] = min(search.item[item], here)
            far = way + length[edge]
            if far < search.node[other]:
                if search.node[other] == FAR:
                    seen = with_room(seen, seen_count + 1)
                    seen[seen_count] = other
                    seen_count += 1
                search.node[other] = far
                keys, nodes = with_room(keys, size + 1), with_room(nodes, size + 1)
                size = heap.push(keys, nodes, size, far, other)
    items, away = met[:met_count].copy(), np.empty(met_count, np.int64)
    for i in range(met_count):
        away[i] = search.item[items[i]]
        search.item[items[i]] = FAR
    for i in range(seen_count):
        search.node[seen[i]] = FAR
    return items, away, complete, settled


@njit(**EXACT)
def to_places(
    roads: Roads, from_node: Ints, place: tuple[int, int], edge: Rows, at: Ints, found: Ints
) -> None:
    """The distance from a place, on an edge so far from its start, to places, given that of all nodes."""
    mine, here = place
    for i in range(edge.size):
        other, way = edge[i], at[i]
        far = from_node[roads.start[other]] + way
        if not roads.oneway[other]:
            far = min(far, from_node[roads.end[other]] + roads.length[other] - way)
        if other == mine and way >= here:
            far = min(far, way - here)
        elif other == mine and not roads.oneway[other]:
            far = min(far, here - way)
        found[i] = min(far, FAR)


@njit(**EXACT)
def along(roads: Roads, edge: Rows, here: Ints, starts: Ints, members: tuple[Rows, Ints, Ints, Ints]) -> Ints:
    """How far members of zones are from where their queries are, on edges so far from their starts.

    Of members of query i, from `starts[i]`: the item, its distance from the start and from the end of the
    edge, and how far from the start it lies on this edge, -1 if it does not.
    """
    item, from_start, from_end, at = members
    found = np.empty(item.size, np.int64)
    for i in range(edge.size):
        both, length = not roads.oneway[edge[i]], roads.length[edge[i]]
        for j in range(starts[i], starts[i + 1]):
            far = length - here[i] + from_end[j]
            if both:
                far = min(far, here[i] + from_start[j])
            if at[j] >= here[i]:
                far = min(far, at[j] - here[i])
            elif at[j] >= 0 and both:
                far = min(far, here[i] - at[j])
            found[j] = min(far, FAR)
    return found


@njit(**EXACT)
def best_of(starts: Ints, k: Ints, score: Floats, label: Ints) -> tuple[Ints, Rows]:
    """How many members of each query are its result, and which, best first.

    At most k, none with an infinite score; `score` and `label` are by member. Cost: O(n log k) for n members.
    """
    count, total = np.zeros(k.size, np.int64), 0
    found = np.empty(score.size, np.int32)
    for i in range(k.size):
        room = min(k[i], starts[i + 1] - starts[i])
        keys, places, size = np.empty(room), found[total : total + room], 0
        for j in range(starts[i], starts[i + 1]):
            if room > 0 and score[j] < np.inf:
                size = heap.offer(label, keys, places, size, -score[j], j)
        heap.best_first(label, keys, places, size)
        count[i] = size
        total += size
    return count, found[:total]


@njit(**EXACT)
def undominated(starts: Ints, away: Ints, values: Floats, keep: Bools) -> None:
    """Mark, of each query's members, those that no other dominates; small values (n, d) are good.

    Members are in order of distance. What dominates an object is no farther. Cost: O(n s) of a skyline of s.
    """
    for i in range(starts.size - 1):
        for j in range(starts[i], starts[i + 1]):
            keep[j] = away[j] < FAR
            other = starts[i]
            while keep[j] and other < starts[i + 1] and away[other] <= away[j]:
                if other != j and (other > j or keep[other]):
                    keep[j] = not _dominates(values, other, j, away[other] < away[j])
                other += 1


@njit(**EXACT)
def _dominates(values: Floats, one: int, other: int, nearer: bool) -> bool:
    """Whether one object is as good in all values, and better in one if it is not `nearer`."""
    better = nearer
    for a in range(values.shape[1]):
        if values[one, a] > values[other, a]:
            return False
        better = better or values[one, a] < values[other, a]
    return better


@njit(**EXACT)
def contenders(low: Ints, high: Ints, values: Floats, keep: Bools) -> None:
    """Mark objects that may be in the skyline somewhere on an edge, where each is from low to high away.

    Objects come by `low`. One that another dominates at every place is out; what dominates that one does so,
    too: it is enough to look at those that are in. All are marked to begin with.
    """
    for j in range(low.size):
        keep[j] = low[j] < FAR
        for other in range(low.size):
            if low[other] > low[j] or not keep[j]:
                break
            if other != j and keep[other] and high[other] <= low[j]:
                keep[j] = not _dominates(values, other, j, high[other] < low[j])
