"""`method="zone"` with `metric="network"`: results kept by zones that are edges of the road graph.

The zone of a query is the edge it is on, with members: objects of which the result is made wherever on the
edge the query is. For each member the distances from both ends of the edge are known; a place on the edge is
farther by its way to that end, so the result there takes no search. Between low and high lies the distance of
an object from any place on the edge. For top-k, U is the k-th smallest score at `high`: whatever scores more
at `low` is not among the best anywhere on the edge. The network version of the lemma's radius [Moving §4.2]
would be a stretch of that edge or of some; the whole edge with a few members more is as safe.

`NetworkZones` keeps zones and results; a subclass says which objects become members and which of the members
are the result.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import Part
from rankcast.moving.hours import ObjectSlots
from rankcast.moving.kernels import network_search
from rankcast.moving.kernels.network_search import FAR, Search
from rankcast.moving.network import Network, offsets
from rankcast.moving.ragged import Runs
from rankcast.moving.road_graph import Spots
from rankcast.moving.road_objects import RoadObjects
from rankcast.moving.undo import Step
from rankcast.structures import integrity
from rankcast.structures.arrays import grown, ranges
from rankcast.structures.ids import Slots
from rankcast.tables import deltas
from rankcast.tables.deltas import Lists
from rankcast.tables.schema import Bools, Floats, Ints, Rows

NOWHERE = np.empty(0, np.int32)
FEW = 8  # objects of a call up to which it pays to see which zones each of them breaks


class Members(NamedTuple):
    """Members of one zone: items, distances from the start and the end of the edge, and where on it, or -1.

    `reach` is the score that an object must not exceed to become one; infinite in a skyline.
    """

    item: Rows
    from_start: Ints
    from_end: Ints
    at: Ints
    reach: float


class Around(NamedTuple):
    """Objects near an edge: rows, distances from its ends, how far they are from places on it, at least and
    at most; `radius` is up to where nothing is missing."""  # noqa: D205, D209

    item: Rows
    from_start: Ints
    from_end: Ints
    at: Ints
    low: Ints
    high: Ints
    radius: int

    def those(self, index: Any) -> Around:
        """Some of them."""
        ways = self.from_start[index], self.from_end[index], self.at[index]
        return Around(self.item[index], *ways, self.low[index], self.high[index], self.radius)

    def members(self, index: Any, reach: float) -> Members:
        """Some of them as members of a zone."""
        ways = self.from_start[index], self.from_end[index], self.at[index]
        return Members(self.item[index], *ways, reach)


class NetworkZones(ABC):
    """Zones of all subscriptions over all objects.

    - Queries: `renew`, `follow`, `leave`; `lists` has their results.
    - Objects: `put`, `drop`, `listing`, `broken`, `admit`. Roads: `rerouted`.
    - Snapshots: `state`, `restore`, `check_restored`.
    """

    def __init__(
        self, network: Network, subscriptions: Slots, objects: ObjectSlots, count: dict[str, int]
    ) -> None:
        self.network = network
        self.subscriptions = subscriptions
        self.objects = objects
        self.count = count
        self.on_roads = RoadObjects(network, objects)
        self.edge = np.empty(0, np.int32)  # by subscription: its zone, -1 for none
        self.reach = np.empty(0)
        self.listed = np.empty(0, np.bool_)  # whether the result comes from lists of nodes, without members
        self.spent = 0  # nodes that searches have settled so far
        self.held = Runs(item=np.int32, from_start=np.int64, from_end=np.int64, at=np.int64)
        self.results = Runs(item=np.int32, away=np.int64)
        self._search = Search(np.empty(0, np.int64), np.empty(0, np.int64))

    def parts(self) -> dict[str, Part]:
        """The parts of a snapshot."""
        return {"network_zone": self}

    # What a subclass defines

    @abstractmethod
    def _zone(self, row: int, edge: int) -> Members:
        """The members of a zone for a subscription."""

    @abstractmethod
    def _alike(self, row: int) -> Any:
        """What subscriptions have in common that have the same zone on the same edge."""

    @abstractmethod
    def _chosen(self, rows: Rows, starts: Ints, item: Rows, away: Ints) -> tuple[Ints, Rows]:
        """How many of the members of each subscription are its result, and which of all, best first."""

    @abstractmethod
    def _scored(self, item: Rows, away: Ints) -> Floats:
        """The scores of items that are so far away."""

    @abstractmethod
    def _limit(self, item: int, rows: Rows) -> int:
        """From where on a new object changes none of the zones, in units."""

    @abstractmethod
    def _breaks(self, item: int, rows: Rows, low: Ints) -> Bools:
        """Which zones a new object breaks that is at least so far away."""

    # Results

    def lists(self, rows: Rows) -> Lists:
        """Results of subscriptions."""
        if not rows.size:
            return deltas.empty_lists()
        counts = self.results.count[rows]
        places = ranges(self.results.start[rows], counts)
        item, away = (self.results.values[name][places] for name in ("item", "away"))
        rank = np.arange(1, item.size + 1) - np.repeat(np.cumsum(counts) - counts, counts)
        return Lists(np.repeat(rows, counts), item, self._scored(item, away), rank)

    # Queries

    def renew(self, rows: Rows) -> None:
        """Search results and zones of subscriptions at their places."""
        if not rows.size:
            return
        self._reserve(int(rows.max()) + 1)
        spots = self._snapped(rows, self.subscriptions["x"][rows], self.subscriptions["y"][rows])
        self._search_zones(rows, spots.edge)
        self._put_results(rows, *self._results(rows, spots))
        self.count["recomputed"] += rows.size

    def follow(self, rows: Rows, places: Floats) -> tuple[Rows, Lists]:
        """Move queries to places (2, n); returns those whose results may have changed, and these before."""
        held = self.subscriptions
        spots = self._snapped(rows, *places)
        stays, (counts, item, away) = self._stay(rows, spots)
        staying = rows[stays]
        same = self._same(staying, counts, item)
        turned = np.repeat(~same, counts)
        changed = np.concatenate([staying[~same], rows[~stays]])
        before = self.lists(changed)
        held["x"][rows], held["y"][rows] = places
        steady = staying[same]
        self.results.values["away"][ranges(self.results.start[steady], counts[same])] = away[~turned]
        self._put_results(staying[~same], counts[~same], item[turned], away[turned])
        self.renew(rows[~stays])
        return changed, before

    def _stay(self, rows: Rows, spots: Spots) -> tuple[Bools, tuple[Ints, Rows, Ints]]:
        """Which subscriptions need no search where they are now, and the results of those."""
        stays: Bools = spots.edge == self.edge[rows]
        return stays, self._results(rows[stays], Spots(spots.edge[stays], spots.share[stays]))

    def leave(self, rows: Rows) -> None:
        """Forget subscriptions."""
        rows = rows[rows < self.edge.size]
        self.edge[rows], self.listed[rows] = -1, False
        known = rows[rows < self.held.count.size]
        self.held.drop(known)
        self.results.drop(known)

    def _snapped(self, rows: Rows, x: Floats, y: Floats) -> Spots:
        return self.network.graph.snapped(x, np.ascontiguousarray(y), self.edge[rows])

    def _results(self, rows: Rows, spots: Spots) -> tuple[Ints, Rows, Ints]:
        """The results of subscriptions at spots on their zones: how many each, items and distances."""
        counts = self.held.count[rows]
        starts = np.concatenate([[0], np.cumsum(counts)])
        places = ranges(self.held.start[rows], counts)
        item, *ways = (self.held.values[name][places] for name in ("item", "from_start", "from_end", "at"))
        here = offsets(self.network.length, spots)
        away = network_search.along(self.network.roads, spots.edge, here, starts, (item, *ways))
        found, best = self._chosen(rows, starts, item, away)
        return found, item[best], away[best]

    def _same(self, rows: Rows, counts: Ints, item: Rows) -> Bools:
        """Which results are the items that they were, in the same order."""
        same: Bools = self.results.count[rows] == counts
        held = np.full(item.size, -1, np.int32)
        kept = np.repeat(same, counts)
        held[kept] = self.results.values["item"][ranges(self.results.start[rows[same]], counts[same])]
        owner = np.repeat(np.arange(rows.size), counts)
        same[owner[held != item]] = False
        return same

    def _put_results(self, rows: Rows, counts: Ints, item: Rows, away: Ints) -> None:
        self.results.put(rows, counts, {"item": item, "away": away})

    def _search_zones(self, rows: Rows, edges: Rows) -> None:
        """Give subscriptions on edges new zones; those that are alike have one search in common."""
        found: dict[Any, Members] = {}
        zones = []
        for row, edge in zip(rows.tolist(), edges.tolist(), strict=True):
            key = (edge, self._alike(row))
            if key not in found:
                found[key] = self._zone(row, edge)
            zones.append(found[key])
        counts = np.array([zone.item.size for zone in zones], np.int64)
        columns = ("item", "from_start", "from_end", "at")
        values = {name: np.concatenate([getattr(zone, name) for zone in zones]) for name in columns}
        self.held.put(rows, counts, values)
        self.edge[rows] = edges
        self.reach[rows] = [zone.reach for zone in zones]

    def _around(self, edge: int, limit: int, wanted: int) -> Around:
        """The objects around an edge, up to `limit` from its ends or until so many are met."""
        roads, on = self.network.roads, self.on_roads.on
        search = self._ready()
        length, both = int(roads.length[edge]), not roads.oneway[edge]
        ends = [roads.end[edge], *([roads.start[edge]] if both else [])]
        met = [network_search.explore(roads, on, search, int(end), limit, wanted) for end in ends]
        begin, count = int(on.start[edge]), int(on.size[edge])
        here = on.item[begin : begin + count]
        item = np.unique(np.concatenate([here, *(each[0] for each in met)]))
        settled = sum(int(each[3]) for each in met)
        self.count["nodes_accessed"] += settled
        self.spent += settled
        self.count["candidates"] += item.size
        ways = np.full((2, item.size), FAR, np.int64)
        for line, each in enumerate(met):
            ways[line][np.searchsorted(item, each[0])] = each[1]
        from_end, from_start = ways
        at = np.full(item.size, -1, np.int64)
        at[np.searchsorted(item, here)] = on.at[begin : begin + count]
        nearest = np.minimum(from_start, from_end)
        high = np.minimum(nearest + length, np.minimum((length + from_start + from_end + 1) // 2, FAR))
        on_it = at >= 0
        high = np.where(on_it & both, np.minimum(high, np.maximum(at, length - at)), high)
        if not both:
            high = np.minimum(from_end + length, FAR)
        low = np.where(on_it, 0, nearest)
        complete = min(int(each[2]) for each in met)
        radius = complete if complete >= FAR or not both else complete - length
        return Around(item, from_start, from_end, at, low, high, radius)

    def _ready(self) -> Search:
        """The arrays of a search, with room for all nodes and objects."""
        nodes, objects = self.network.graph.arcs.out_first.size - 1, self.objects["sequence"].size
        search = self._search
        if search.node.size != nodes or search.item.size < objects:
            self._search = search = Search(np.full(nodes, FAR, np.int64), np.full(objects, FAR, np.int64))
        return search

    def _reserve(self, rows: int) -> None:
        """Let there be so many subscriptions."""
        if rows > self.edge.size:
            length = max(rows, 2 * self.edge.size, 16)
            self.edge, self.reach = grown(self.edge, length, -1), grown(self.reach, length, 0)
            self.listed = grown(self.listed, length, 0)

    # Objects and roads

    def listing(self, objects: Rows) -> Rows:
        """Subscriptions that have one of these objects in their results or members."""
        rows = self._rows()
        if not objects.size or not rows.size:
            return NOWHERE
        marked = np.zeros(self.objects["sequence"].size, np.bool_)
        marked[objects] = True
        found = []
        for runs in (self.held, self.results):
            counts = runs.count[rows]
            hit = marked[runs.values["item"][ranges(runs.start[rows], counts)]]
            found.append(np.repeat(rows, counts)[hit])
        return np.unique(np.concatenate(found))

    def put(self, objects: Rows) -> None:
        """Take in objects, new or not, that have been written to the slots."""
        self.on_roads.put(objects)

    def drop(self, objects: Rows) -> None:
        """Forget objects."""
        self.on_roads.drop(objects)

    def broken(self, objects: Rows, known: Rows) -> Rows:
        """Subscriptions, without those known already, whose zones these objects break."""
        rows = np.setdiff1d(self._rows(), known).astype(np.int32)
        if not rows.size or not objects.size:
            return NOWHERE
        if objects.size > FEW:
            return rows
        broken = np.zeros(rows.size, np.bool_)
        for item in objects.tolist():
            broken |= self._broken_by(item, rows)
        return rows[broken]

    def _broken_by(self, item: int, rows: Rows) -> Bools:
        """Which zones an object breaks; it is looked for from there, against all arcs."""
        roads, edges = self.network.roads, self.edge[rows]
        edge, at = int(self.on_roads.edge[item]), int(self.on_roads.at[item])
        sources, ways = [roads.start[edge]], [at]
        if not roads.oneway[edge]:
            sources, ways = [*sources, roads.end[edge]], [*ways, int(roads.length[edge]) - at]
        limit = self._limit(item, rows)
        near = network_search.whole(roads, True, np.array(sources, np.int32), np.array(ways, np.int64), limit)
        self.count["nodes_accessed"] += int((near < FAR).sum())
        low = near[roads.end[edges]]
        low = np.where(roads.oneway[edges], low, np.minimum(low, near[roads.start[edges]]))
        low[edges == edge] = 0
        found: Bools = (low < FAR) & self._breaks(item, rows, low)
        return found

    def admit(self, objects: Rows, listing: Rows, broken: Rows) -> None:
        """Renew results and zones of subscriptions that list objects, or whose zones these break."""
        self.renew(np.concatenate([listing, broken]))

    def rerouting(self, edges: Rows) -> None:  # noqa: B027  members need no care
        """Roads are about to have other lengths."""

    def rerouted(self, edges: Rows) -> Rows:
        """Roads have other lengths; returns the subscriptions that must be renewed."""
        self.on_roads.rerouted(edges)
        return self._rows()

    def _rows(self) -> Rows:
        """The subscriptions that have zones."""
        return np.flatnonzero(self.edge >= 0).astype(np.int32)

    # Answers

    def explain(self, row: int, item: int) -> dict[str, float | bool]:
        """What the zone of a subscription says of an object."""
        length = int(self.network.length[self.edge[row]])
        member = bool((self.members(row) == item).any())
        return {"zone_length": length * self.network.unit, "member": member}

    def members(self, row: int) -> Rows:
        """The members of a zone; those of one without are looked for."""
        if self.listed[row]:
            count, spent = dict(self.count), self.spent
            wanted: Rows = self._zone(row, int(self.edge[row])).item
            self.count.update(count)
            self.spent = spent
            return wanted
        begin, count = self.held.start[row], self.held.count[row]
        found: Rows = self.held.values["item"][begin : begin + count]
        return found

    def restoring(self, rows: Rows) -> Step:
        """A step that restores the current zones and results of subscriptions."""
        rows = rows[rows < self.edge.size]
        rows = rows[self.edge[rows] >= 0]
        edge, reach = self.edge[rows], self.reach[rows]
        held = [(runs, runs.count[rows]) for runs in (self.held, self.results)]
        values = [
            {name: array[ranges(runs.start[rows], counts)] for name, array in runs.values.items()}
            for runs, counts in held
        ]

        def back() -> None:
            self.edge[rows], self.reach[rows] = edge, reach
            for (runs, counts), columns in zip(held, values, strict=True):
                runs.put(rows, counts, columns)

        return back

    # Snapshots

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        header: dict[str, Any] = {"spent": self.spent}
        arrays: dict[str, NDArray[Any]] = {"edge": self.edge, "reach": self.reach, "listed": self.listed}
        for name, runs in (("members", self.held), ("results", self.results)):
            header[name], mine = runs.state()
            arrays |= {f"{name}_{each}": array for each, array in mine.items()}
        return header, arrays

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        own = {name: arrays[name] for name in ("edge", "reach", "listed") if name in arrays}
        size = own["edge"].size if "edge" in own else 0
        wanted: dict[str, NDArray[Any]] = {"edge": self.edge, "reach": self.reach, "listed": self.listed}
        integrity.forms(own, {n: integrity.like(a, length=size) for n, a in wanted.items()})
        self.edge, self.reach, self.listed = own["edge"], own["reach"], own["listed"]
        self.spent = integrity.whole(header, "spent")
        for name, runs in (("members", self.held), ("results", self.results)):
            prefix = f"{name}_"
            mine = {n.removeprefix(prefix): a for n, a in arrays.items() if n.startswith(prefix)}
            runs.restore(header[name], mine)
        known = {*own, *(n for n in arrays if n.startswith(("members_", "results_")))}
        integrity.need(set(arrays) == known, "arrays", "are not those of zones")
        return self

    def check_restored(self) -> None:
        """Refuse zones from a snapshot that are not those of objects and subscriptions."""
        live = self.subscriptions["sequence"] >= 0
        there = self.objects.present
        rows = self._rows()
        integrity.need(np.array_equal(rows, np.flatnonzero(live)), "edge", "is not of the subscriptions")
        integrity.within(self.edge, -1, self.network.length.size, "edge")
        integrity.no_nan(self.reach, "reach")
        for name, runs in (("members", self.held), ("results", self.results)):
            runs.check_restored(live, f"{name}_")
            for each, array in runs.values.items():
                values = array[ranges(runs.start[rows], runs.count[rows])] if rows.size else array[:0]
                if each == "item":
                    integrity.within(values, 0, there.size, f"{name}_item")
                    integrity.need(there[values].all(), f"{name}_item", "lists objects that are gone")
                else:
                    integrity.within(values, -1, FAR + 1, f"{name}_{each}")
