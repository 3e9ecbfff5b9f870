"""The best objects of every node, for scores in which distance and attributes add up.

A weighted sum is w d + s with a static part s of each object; a score without attributes grows with d alone.
Then the best objects from a place on an edge are among the best from its two ends and those on the edge, and
a position costs a merge of two short lists wherever it is. `kernels.network_lists` has the lists.

Lists are worth their making (a search over the whole graph for each place in a list) once searches have cost
as much. They follow from objects and roads and are no part of a snapshot.
Memory: 12 bytes a node and place in the list.
"""

from __future__ import annotations

import numpy as np

from rankcast.moving import scoring
from rankcast.moving.hours import ObjectSlots
from rankcast.moving.kernels import network_lists
from rankcast.moving.kernels.network_lists import NodeLists
from rankcast.moving.kernels.scores import ScoreForm
from rankcast.moving.network import Network
from rankcast.moving.road_objects import RoadObjects
from rankcast.moving.topk_zones import SCORE_KINDS
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Floats, Ints, Rows

WIDEST = 128  # places in a list
SPARE_PLAIN, SPARE = 2, 6  # places beside k, to see that nothing else is as good
LARGEST = 2.0**58  # units: no static part may be larger
MANY = 16  # from this part of all objects or edges on, lists are made anew


class NodeBest:
    """Lists of the best objects by node.

    - `ready` says whether results can be made from them; `results` makes them.
    - Objects: `erase`, and `insert` or `refill`. Roads: `loosen` before lengths change, `refill` afterwards.

    Invariant: every list has the objects of smallest key that can be reached, so many as it has places for.
    """

    def __init__(
        self, network: Network, objects: ObjectSlots, on_roads: RoadObjects, score: scoring.Score, k: int
    ) -> None:
        self._network, self._objects, self._on_roads = network, objects, on_roads
        self._attributes = objects["attributes"].shape[1]
        self.width = k + (SPARE if self._attributes else SPARE_PLAIN)
        self._score = score if isinstance(score, scoring.Weighted) else None
        self.possible = self._score is not None and self.width <= WIDEST
        if self._score is not None and self._attributes:
            self.possible &= self._score.name == scoring.SUM and self._score.distance_weight > 0
        self._statics = np.zeros((0, 2))  # of the score, by object
        self._static = np.zeros(0, np.int64)  # in units
        self._placed = False
        self._most: float | None = None
        self._lists: NodeLists | None = None

    def ready(self, spent: int) -> bool:
        """Whether there are lists, or will be when asked for, as searches have settled `spent` nodes."""
        if not self.possible or 2 * spent < self._network.graph.nodes * self.width:
            return False
        return self._largest() < LARGEST

    def _largest(self) -> float:
        """The largest static part in units."""
        self._place()
        if self._most is None:
            self._most = float(np.abs(self._statics[:, 0]).max(initial=0.0)) / self._step
        return self._most

    @property
    def _step(self) -> float:
        """What one unit of distance adds to a sum."""
        assert self._score is not None
        return (self._score.distance_weight * self._network.unit) if self._attributes else 1.0

    def _form(self) -> ScoreForm:
        score = self._score
        assert score is not None
        lam = 1.0 if score.lam is None else score.lam
        kind = SCORE_KINDS[score.name]
        return ScoreForm(kind, 0, float(score.distance_weight), float(lam), float(1 - lam), 0, 1.0, 1)

    # Results

    def results(self, edge: Rows, here: Ints, k: Ints) -> tuple[Ints, Rows, Ints]:
        """How many items each query gets, items and distances (n, width); -1 where the lists do not tell."""
        lists = self._made()
        size = edge.size
        items, away = np.empty((size, self.width), np.int32), np.empty((size, self.width), np.int64)
        counts = np.empty(size, np.int64)
        off = self._largest() * 2.0**-48 + 1 if self._attributes else -1.0
        formula = (self._form(), self._statics, self._network.unit, off)
        wanted = np.minimum(k, self.width - 1)
        network_lists.nearest(
            self._network.roads,
            lists,
            self._on_roads.on,
            formula,
            (edge, here, wanted),
            (items, away, counts),
        )
        return counts, items, away

    # Objects and roads; nodes are those whose lists have changed, None: all

    def erase(self, objects: Rows) -> Rows | None:
        """Take objects out of all lists, before they leave their edges; returns nodes to be refilled."""
        self._most = None
        self._statics[objects[objects < len(self._statics)]] = 0.0
        if self._lists is None or MANY * objects.size > len(self._objects) + MANY:
            self._lists = None
            return None
        edge = self._on_roads.edge
        known = objects[objects < edge.size]
        needy: Rows = network_lists.erase(self._network.roads, self._lists, known[edge[known] >= 0], edge)
        return needy

    def refill(self, needy: Rows | None, edges: Rows) -> Rows | None:
        """Fill lists that lost objects, and see what new lengths of edges are good for."""
        if self._lists is None or needy is None:
            self._lists = None
            return None
        lists = self._made()
        changed: Rows = network_lists.refill(self._network.roads, lists, self._on_roads.on, needy, edges)
        return changed

    def insert(self, objects: Rows, needy: Rows | None) -> Rows | None:
        """Let objects in that have been placed, after they were erased."""
        self._take_statics(objects)
        refilled = self.refill(needy, objects[:0])
        if refilled is None:
            return None
        lists, on_roads = self._made(), self._on_roads
        changed = network_lists.insert(self._network.roads, lists, objects, on_roads.edge, on_roads.at)
        return np.concatenate([refilled, changed])

    def loosen(self, edges: Rows) -> Rows | None:
        """Take out of lists what is reached over edges, before these have other lengths."""
        if self._lists is None or MANY * edges.size > self._network.length.size + MANY:
            self._lists = None
            return None
        place = (self._on_roads.edge, self._on_roads.at)
        needy: Rows = network_lists.loosen(self._network.roads, self._lists, place, edges)
        return needy

    def check(self) -> None:
        """Assert the invariant: lists are as if they were made now."""
        held, self._lists = self._lists, None
        if held is None:
            return
        fresh = self._made()
        self._lists = held
        assert np.array_equal(held.size, fresh.size)
        there = np.arange(self.width) < held.size[:, None]
        assert np.array_equal(held.item[there], fresh.item[there])
        assert np.array_equal(held.away[there], fresh.away[there])

    # Parts

    def _made(self) -> NodeLists:
        """The lists, made now if they are not there, as kernels take them."""
        self._place()
        if self._lists is None:
            shape = (self._network.graph.nodes, self.width)
            away, size = np.empty(shape, np.int64), np.zeros(shape[0], np.int32)
            lists = self._seen(NodeLists(np.empty(shape, np.int32), away, size, self._static, self._static))
            on_roads = self._on_roads
            placed = np.flatnonzero(on_roads.edge >= 0).astype(np.int32)
            network_lists.insert(self._network.roads, lists, placed, on_roads.edge, on_roads.at)
            self._lists = lists
        self._lists = self._seen(self._lists)
        return self._lists

    def _seen(self, lists: NodeLists) -> NodeLists:
        """The same lists with the static parts and labels of now, which may be in other arrays."""
        return lists._replace(static=self._static, label=self._objects.label)

    def _place(self) -> None:
        """Have the static parts of all objects, also of those that came by a snapshot."""
        if not self._placed:
            self._placed = True
            self._take_statics(np.flatnonzero(self._objects.present).astype(np.int32))

    def _take_statics(self, objects: Rows) -> None:
        """Note the static parts of objects that are in the slots."""
        if not self.possible:
            return
        self._place()
        assert self._score is not None
        size = self._objects["sequence"].size
        if size > self._static.size:
            self._static = grown(self._static, size, 0)
            larger = np.zeros((size, 2))
            larger[: len(self._statics)] = self._statics
            self._statics = larger
        with np.errstate(all="ignore"):
            found: Floats = self._score.statics(self._objects["attributes"][objects])
        self._statics[objects], self._most = found, None
        if self._attributes:
            self._static[objects] = np.rint((found[:, 0] / self._step).clip(-LARGEST, LARGEST)).astype(
                np.int64
            )
