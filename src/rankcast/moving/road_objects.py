"""Objects on the edges of a road graph."""

from __future__ import annotations

import numpy as np

from rankcast.moving.hours import ObjectSlots
from rankcast.moving.kernels.network_search import OnEdges
from rankcast.moving.network import Network, offsets
from rankcast.moving.ragged import Runs
from rankcast.moving.road_graph import Spots
from rankcast.structures.arrays import grown, ranges
from rankcast.tables.schema import Ints, Rows


class RoadObjects:
    """Where objects are: by row the edge, the share and the way from its start; by edge the objects on it.

    All of it follows from the slots and the graph: it is no part of a snapshot, and made when first needed.
    A change costs what lies on the edges concerned.
    """

    def __init__(self, network: Network, objects: ObjectSlots) -> None:
        self._network = network
        self._objects = objects
        self._ready = False
        self._edge = np.empty(0, np.int32)
        self._share = np.empty(0)
        self._at = np.empty(0, np.int64)
        self._runs = Runs(item=np.int32, at=np.int64)

    @property
    def edge(self) -> Rows:
        """The edge of each object."""
        self._make()
        return self._edge

    @property
    def at(self) -> Ints:
        """How far each object is from the start of its edge."""
        self._make()
        return self._at

    @property
    def on(self) -> OnEdges:
        """The objects on each edge, as searches take them."""
        self._make()
        runs = self._runs
        return OnEdges(runs.start, runs.count, runs.values["item"], runs.values["at"])

    def put(self, objects: Rows) -> None:
        """Place objects, new or not, that have been written to the slots."""
        if not objects.size or self._make():
            return
        self._reserve()
        before = self._edge[objects]
        held, graph = self._objects, self._network.graph
        spots = graph.snapped(held["x"][objects], held["y"][objects], before)
        self._edge[objects], self._share[objects] = spots
        self._at[objects] = offsets(self._network.length, spots)
        self._write(np.concatenate([before[before >= 0], spots.edge]), objects, objects)

    def drop(self, objects: Rows) -> None:
        """Forget objects, which may have been forgotten."""
        self._make()
        objects = objects[objects < self._edge.size]
        objects = objects[self._edge[objects] >= 0]
        self._write(self._edge[objects], objects, objects[:0])
        self._edge[objects] = -1

    def rerouted(self, edges: Rows) -> None:
        """Edges have other lengths: what is on them is as far along as it was, in shares."""
        if self._make():
            return
        runs = self._runs
        here = runs.values["item"][ranges(runs.start[edges], runs.count[edges])]
        self._at[here] = offsets(self._network.length, Spots(self._edge[here], self._share[here]))
        self._write(edges, here, here)

    def _make(self) -> bool:
        """Place all objects if that has not been done."""
        if self._ready:
            return False
        self._ready = True
        self._runs._reserve_rows(self._network.length.size)
        self._reserve()
        self.put(np.flatnonzero(self._objects.present).astype(np.int32))
        return True

    def _write(self, edges: Rows, gone: Rows, come: Rows) -> None:
        """Take objects off edges and put some there; `edges` are all that are concerned."""
        edges = np.unique(edges)
        runs = self._runs
        counts = runs.count[edges]
        places = ranges(runs.start[edges], counts)
        held = runs.values["item"][places]
        marked = np.zeros(self._edge.size, np.bool_)
        marked[gone] = True
        items = np.concatenate([held[~marked[held]], come])
        order = np.lexsort((self._objects.label[items], self._at[items], self._edge[items]))
        items = items[order]
        counts = np.bincount(np.searchsorted(edges, self._edge[items]), minlength=edges.size)
        runs.put(edges, counts, {"item": items, "at": self._at[items]})

    def _reserve(self) -> None:
        """Let there be room for all rows of objects."""
        size = self._objects["sequence"].size
        if size > self._edge.size:
            self._edge, self._share = grown(self._edge, size, -1), grown(self._share, size, 0)
            self._at = grown(self._at, size, 0)
