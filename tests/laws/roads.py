"""Small road graphs and a plain model of distances on them, written from the contract."""

from __future__ import annotations

import heapq
import math
from functools import cache
from typing import Any

from rankcast.moving.road_graph import RoadGraph

Edge = tuple[int, int, float, bool]
World = tuple[list[tuple[int, int]], list[Edge]]

# By name: nodes and edges (start, end, length, oneway). Lengths and places are such that sums are exact.
SQUARE = [(0, 0), (4, 0), (4, 4), (0, 4), (2, 2)]
WORLDS: dict[str, World] = {
    "square": (SQUARE, [(0, 1, 4, False), (1, 2, 4, False), (2, 3, 4, False), (3, 0, 4, False)]),
    "one-way": (
        SQUARE,
        [
            (0, 1, 4, True),
            (1, 2, 8, True),
            (2, 3, 2, False),
            (3, 0, 4, True),
            (4, 0, 1, False),
            (2, 4, 3, True),
        ],
    ),
    "odd": (  # in two pieces, with a loop, parallel edges, and edges without length
        [*SQUARE, (1, 3), (3, 1)],
        [
            (0, 1, 0, False),
            (1, 2, 4, False),
            (1, 2, 1, False),
            (0, 0, 5, False),
            (3, 5, 2, False),
            (5, 3, 6, True),
            (4, 6, 0, True),
            (6, 4, 0, False),
        ],
    ),
    "line": ([(0, 0), (4, 4)], [(0, 1, 8, False)]),
}


@cache
def graph(name: str) -> RoadGraph:
    """The graph of a world; engines share it, none changes it."""
    return made(WORLDS[name])


def made(world: World) -> RoadGraph:
    """The graph of a world; its edges are "e0", "e1", ..."""
    nodes, edges = world
    columns: dict[str, list[Any]] = {
        column: [edge[at] for edge in edges] for at, column in enumerate(("start", "end", "length", "oneway"))
    }
    columns["id"] = [f"e{at}" for at in range(len(edges))]
    places = {"id": list(range(len(nodes))), "x": [x for x, _ in nodes], "y": [y for _, y in nodes]}
    return RoadGraph.from_edges(columns, nodes=places)


def world_of(held: RoadGraph) -> World:
    """The world of a graph."""
    return next(world for name, world in WORLDS.items() if graph(name) is held)


class Roads:
    """Distances by Dijkstra over dicts."""

    def __init__(self, world: World) -> None:
        self.nodes, edges = world
        self.edges = list(edges)

    def update(self, rows: Any) -> None:
        for edge, length in zip(rows["id"], rows["length"], strict=True):
            start, end, _, oneway = self.edges[int(edge[1:])]
            self.edges[int(edge[1:])] = (start, end, length, oneway)

    def snap(self, x: float, y: float) -> tuple[int, float]:
        """The nearest edge, the first of equally near ones, and how far along it."""
        found = []
        for at, (start, end, length, _) in enumerate(self.edges):
            (ax, ay), (bx, by) = self.nodes[start], self.nodes[end]
            square = (bx - ax) ** 2 + (by - ay) ** 2
            share = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / square if square else 0.0
            share = min(1.0, max(0.0, share))
            gap = (x - ax - share * (bx - ax)) ** 2 + (y - ay - share * (by - ay)) ** 2
            found.append((gap, at, share * length))
        _, at, way = min(found)
        return at, way

    def distance(self, ax: float, ay: float, bx: float, by: float) -> float:
        (here, gone), (there, way) = self.snap(ax, ay), self.snap(bx, by)
        start, end, length, oneway = self.edges[here]
        nodes = self._from({end: length - gone} if oneway else _least((end, length - gone), (start, gone)))
        first, last, whole, single = self.edges[there]
        found = [nodes.get(first, math.inf) + way]
        if not single:
            found.append(nodes.get(last, math.inf) + whole - way)
        if here == there and (way >= gone or not single):
            found.append(abs(way - gone))
        return min(found)

    def _from(self, sources: dict[int, float]) -> dict[int, float]:
        found: dict[int, float] = {}
        queue = [(way, node) for node, way in sources.items()]
        heapq.heapify(queue)
        while queue:
            way, node = heapq.heappop(queue)
            if node in found:
                continue
            found[node] = way
            for start, end, length, oneway in self.edges:
                if start == node:
                    heapq.heappush(queue, (way + length, end))
                if end == node and not oneway:
                    heapq.heappush(queue, (way + length, start))
        return found


def _least(*given: tuple[int, float]) -> dict[int, float]:
    found: dict[int, float] = {}
    for node, way in given:
        found[node] = min(way, found.get(node, math.inf))
    return found
