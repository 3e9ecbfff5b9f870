"""Nearest neighbours on roads by Dijkstra's search from every position, which ends early."""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankcast.bench.workloads import Columns
from rankcast.moving.kernels.network_lists import NodeLists, offer
from rankcast.moving.kernels.network_search import FAR, OnEdges, Roads
from rankcast.moving.network import Network, offsets
from rankcast.moving.road_graph import RoadGraph
from rankcast.moving.topk import MovingTopK
from rankcast.structures import heap
from rankcast.structures.arrays import with_room
from rankcast.structures.jit import EXACT


@njit(**EXACT)  # type: ignore[untyped-decorator]
def _search(  # noqa: PLR0912
    roads: Roads, on: OnEdges, places: Any, best: NodeLists, ways: Any
) -> int:
    """The nearest objects of every place, one list each; returns how many nodes were settled.

    Both ends of the edge are sources; objects on an edge are met when an end of it is settled, and the search
    ends at the first node that is farther than the last object of a full list. `ways` is FAR by node.
    """
    (edges, offset), arcs, settled, width = places, roads.arcs, 0, best.item.shape[1]
    keys, nodes, seen = np.empty(64, np.int64), np.empty(64, np.int32), np.empty(64, np.int32)
    for i in range(edges.size):
        edge, here, size, count = edges[i], offset[i], 0, 0
        both = not roads.oneway[edge]
        for j in range(on.start[edge], on.start[edge] + on.size[edge]):
            if on.at[j] >= here or both:
                offer(best, i, on.item[j], abs(on.at[j] - here))
        for side in range(2 if both else 1):
            node = roads.start[edge] if side else roads.end[edge]
            way = here if side else roads.length[edge] - here
            if way < ways[node]:
                ways[node] = way
                seen[count] = node
                count += 1
                size = heap.push(keys, nodes, size, way, node)
        while size > 0:
            way, node = keys[0], nodes[0]
            if best.size[i] == width and best.away[i, width - 1] < way:
                break
            size = heap.pop(keys, nodes, size)
            if way > ways[node]:
                continue
            settled += 1
            for a in range(arcs.out_first[node], arcs.out_first[node + 1]):
                by, other = arcs.out_edge[a], arcs.out_to[a]
                for j in range(on.start[by], on.start[by] + on.size[by]):
                    if roads.start[by] == node:
                        offer(best, i, on.item[j], way + on.at[j])
                    if roads.end[by] == node and not roads.oneway[by]:
                        offer(best, i, on.item[j], way + roads.length[by] - on.at[j])
                far = way + roads.length[by]
                if far < ways[other]:
                    ways[other] = far
                    seen, keys = with_room(seen, count + 1), with_room(keys, size + 1)
                    nodes = with_room(nodes, size + 1)
                    seen[count] = other
                    count += 1
                    size = heap.push(keys, nodes, size, far, other)
        for j in range(count):
            ways[seen[j]] = FAR
    return settled


class DijkstraTopK:
    """The k nearest objects at every position again; it has the objects by edge as an engine has them."""

    def __init__(self, graph: RoadGraph, objects: Columns, k: int) -> None:
        engine = MovingTopK(over=[], k=k, metric="network", graph=graph)
        engine.upsert(objects)
        self._network, self._k = Network(graph), k
        zones: Any = engine._zones
        self._on, self._label = zones.on_roads.on, engine._objects.label
        self._ways = np.full(graph.nodes, FAR, np.int64)
        self.found: dict[Any, Any] = {}
        self.settled = 0

    def publish(self, positions: Columns) -> None:
        """Search from positions; `found` has items and distances of each query."""
        size = len(positions["id"])
        best = NodeLists(
            np.empty((size, self._k), np.int32),
            np.empty((size, self._k), np.int64),
            np.zeros(size, np.int32),
            np.zeros(self._label.size, np.int64),
            self._label,
        )
        spots = self._network.graph.snapped(positions["x"], positions["y"])
        places = (spots.edge, offsets(self._network.length, spots))
        self.settled += _search(self._network.roads, self._on, places, best, self._ways)
        items = self._label[best.item]
        away = self._network.metres(best.away)
        for row, query in enumerate(positions["id"].tolist()):
            self.found[query] = (items[row, : best.size[row]], away[row, : best.size[row]])
