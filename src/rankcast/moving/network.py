"""An engine's hold on a road graph: its own lengths, and distances by brute force.

Engines that share a graph have its nodes, arcs and tree of edges in common. Lengths are each engine's own:
`update_roads` changes those of one engine; `RoadGraph.update` changes the graph's, and an engine takes over
what has changed when it is next asked for deltas, so that no result changes without a delta.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.errors import SettingError, shown
from rankcast.moving.brute_force import Objects
from rankcast.moving.kernels import network_search
from rankcast.moving.kernels.network_search import FAR, Roads
from rankcast.moving.places import METRICS, Reach, reach_of
from rankcast.moving.road_graph import LONGEST, RoadGraph, Spots
from rankcast.tables import schema
from rankcast.tables.schema import Floats, Ints, Rows


def offsets(length: Ints, spots: Spots) -> Ints:
    """How far spots are from the starts of their edges."""
    whole = length[spots.edge]
    found: Ints = np.minimum(np.rint(spots.share * whole).astype(np.int64), whole)
    return found


def reached(roads: Roads, spots: Spots) -> Ints:
    """The distances from the first of some spots to all others, `FAR` if there is no way.

    Dijkstra from both ends of an edge, or from the end of a one-way one, to every node.
    """
    at = offsets(roads.length, spots)
    edge, here = int(spots.edge[0]), int(at[0])
    sources, ways = [roads.end[edge]], [roads.length[edge] - here]
    if not roads.oneway[edge]:
        sources, ways = [*sources, roads.start[edge]], [*ways, here]
    nodes = network_search.whole(roads, False, np.array(sources, np.int32), np.array(ways, np.int64), FAR)
    found = np.empty(at.size - 1, np.int64)
    network_search.to_places(roads, nodes, (edge, here), spots.edge[1:], at[1:], found)
    return found


class Network:
    """A graph and the lengths that an engine goes by.

    - Changing: `news` and `changes` say which lengths are other than those held, `take` takes them over.
    - Reading: `roads` for searches, `distances` by brute force.
    - Snapshots: `state`, `restore`.
    """

    def __init__(self, graph: RoadGraph) -> None:
        self.graph = graph
        self.version = graph.version
        self.length = graph.length.copy()

    @property
    def unit(self) -> float:
        """What all lengths are multiples of."""
        return self.graph.unit

    @property
    def stale(self) -> bool:
        """Whether the graph has changed since it was last looked at."""
        return self.graph.version != self.version

    @property
    def roads(self) -> Roads:
        """The graph as searches take it."""
        return self.graph.roads(self.length)

    def reach(self, settings: Mapping[str, Any]) -> Reach:
        """Which places and objects are accepted.

        A score may be infinite far away: such an object is in no list there. It is never NaN: what does not
        depend on distance is finite, as the score at distance 0 is.
        """
        return Reach(reach_of(settings).score, LONGEST, 0.0, True)

    def distances(self, x: float, y: float, objects: Objects) -> Floats:
        """How far objects are from a place, infinite if there is no way to them."""
        spots = self.graph.snapped(np.concatenate([[x], objects.x]), np.concatenate([[y], objects.y]))
        return self.graph.distances_on(self.length, spots)

    def metres(self, away: Ints) -> Floats:
        """Distances as engines tell them."""
        return np.multiply(away, self.unit, dtype=np.float64)

    def changes(self, rows: Any, extra: str) -> tuple[Rows, Ints]:
        """Edges whose lengths are to change by rows, and the new lengths."""
        edge, length = self.graph.changes(rows, self.length, extra)
        other = self.length[edge] != length
        return edge[other], length[other]

    def news(self) -> tuple[Rows, Ints]:
        """Edges that the graph has updated since it was last looked at, and their lengths, where new."""
        edge = self.graph.since(self.version)
        length = self.graph.length[edge]
        other = length != self.length[edge]
        return edge[other], length[other]

    def take(self, edge: Rows, length: Ints) -> None:
        """Go by new lengths."""
        if self.length is self.graph.length:
            self.length = self.length.copy()
        self.length[edge] = length
        self.version = self.graph.version

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays: those of the graph, with the lengths that the engine goes by."""
        header, arrays = self.graph.state()
        return header, {**arrays, "length": self.length}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned: the graph is this engine's alone then."""
        self.graph = RoadGraph().restore(header, arrays)
        self.length, self.version = self.graph.length, 0  # neither changes it in place
        return self


class SavedGraph(str):
    """The digest of a graph, which stands for it in the settings of a state; the state has the graph."""


def network_of(metric: str, graph: Any) -> Network | None:
    """The setting `graph` of an engine."""
    if schema.one_of("metric", metric, METRICS) != "network":
        if graph is not None:
            raise SettingError("graph is given", expected=f'metric="network", it is "{metric}"')
        return None
    if isinstance(graph, SavedGraph):
        return Network(RoadGraph())
    if not isinstance(graph, RoadGraph):
        expected = "a rankcast.RoadGraph, such as RoadGraph.from_edges(edges, nodes=nodes)"
        raise SettingError(f"graph is {shown(graph)}", expected=expected)
    return Network(graph)
