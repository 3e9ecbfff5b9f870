"""What moving engines do with a road graph: `metric="network"`, `graph=...`, `update_roads`.

Lengths change in two ways. `update_roads(rows)` of an engine changes those it goes by and answers with
deltas. `RoadGraph.update(rows)` changes those of a graph that several engines may share; each of them takes
them over at the end of its next call that answers with deltas, and tells what that changed with the rest, or
at once with `update_roads()`. Until then results are as they were told.
"""

from __future__ import annotations

import struct
from abc import abstractmethod
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import chain
from typing import Any, Self

import numpy as np
import pyarrow as pa

from rankcast.core import locking
from rankcast.core.engine import Command, Part, Refused
from rankcast.core.spec import Reading, Setting
from rankcast.errors import InputError
from rankcast.moving import zone_tables
from rankcast.moving.brute_force import Objects, Place
from rankcast.moving.engine import MovingEngine
from rankcast.moving.network import SavedGraph, network_of
from rankcast.moving.network_zones import NetworkZones
from rankcast.moving.places import Reach
from rankcast.moving.road_graph import LENGTHS, RoadGraph
from rankcast.moving.undo import Step
from rankcast.tables import deltas
from rankcast.tables.deltas import Changes
from rankcast.tables.schema import Floats, Ints, Rows

SAME_LENGTHS = Changes._make(deltas.no_changes())  # not the same object: `_net` tells it from others
GRAPH_SETTING = Setting(
    tables=("edges", "nodes"),
    arguments=("metric",),
    joined=lambda edges, nodes, **given: RoadGraph.from_edges(edges, nodes=nodes, **given),
)


class RoadEngine(MovingEngine):
    """Moving queries whose places may be on roads; `_network` is None in other metrics."""

    calls = (*MovingEngine.calls, "update_roads")
    constant = tuple(f"road.{name}" for name in ("x", "y", "start", "end", "oneway", "id_", "arc_", "tree_"))

    def __init__(
        self,
        configuration: dict[str, Any],
        *,
        over: list[str],
        metric: str,
        graph: Any,
        method: str,
        dimensions: int = 2,
        extra: str,
        tuning: Mapping[str, Any] | None,
    ) -> None:
        self._network = network_of(metric, graph)
        if self._network is not None:
            named = str(graph) if isinstance(graph, SavedGraph) else self._network.graph.digest()
            configuration = {**configuration, "graph": named}
        super().__init__(
            configuration,
            over=over,
            metric=metric,
            method=method,
            dimensions=dimensions,
            extra=extra,
            tuning=tuning,
        )

    @classmethod
    def _configured(cls, configuration: dict[str, Any], **given: Any) -> Self:
        if isinstance(configuration.get("graph"), str):
            configuration = {**configuration, "graph": SavedGraph(configuration["graph"])}
        return super()._configured(configuration, **given)

    @property
    def graph(self) -> RoadGraph | None:
        """The road graph, None in other metrics; of an engine that was loaded it is its own."""
        return None if self._network is None else self._network.graph

    @locking.inside
    def reads(self, call: str) -> Reading:
        """The columns that a call takes with these settings, and what errors call its rows."""
        return Reading(LENGTHS, "roads") if call == "update_roads" else super().reads(call)

    @cached_property
    def _reach(self) -> Reach:
        return super()._reach if self._network is None else self._network.reach(self._configuration)

    def _parts(self) -> dict[str, Part]:
        return super()._parts() if self._network is None else {"road": self._network, **super()._parts()}

    def _distances(self, place: Place, objects: Objects) -> Floats:
        if self._network is None:
            return super()._distances(place, objects)
        return self._network.distances(place[0], place[1], objects)

    def _note_zones(self, rows: Rows) -> None:
        if self._undo.noting and isinstance(self._zones, NetworkZones):
            self._undo.note(self._zones.restoring(rows))

    # Calls after the graph has changed

    def subscribe(self, rows: Any) -> pa.Table:
        """Register subscriptions; returns their first results as `enter` rows."""
        return self._with_news("subscribe", rows) if self._news() else super().subscribe(rows)

    def amend(self, rows: Any) -> pa.Table:
        """Change live subscriptions in place: an absent column keeps its value, a null sets the default."""
        return self._with_news("amend", rows) if self._news() else super().amend(rows)

    def unsubscribe(self, ids: Any) -> pa.Table:
        """Remove subscriptions; their items come as `leave` rows."""
        return self._with_news("unsubscribe", ids) if self._news() else super().unsubscribe(ids)

    def publish(self, rows: Any, *, zones: bool = False) -> Any:
        """Apply a batch of positions; returns the net change of every result over the batch.

        With `zones` a pair: the changes of results, and a table of the zones that are new, as `zones` gives
        them with attributes. A query whose zone ended and which has none now (that would be but a point)
        comes with a null radius or geometry: hold it no longer, and ask at every position.
        """
        if zones:
            return self._with_zones("publish", rows)
        return self._with_news("publish", rows) if self._news() else super().publish(rows)

    def upsert(self, rows: Any, *, zones: bool = False) -> Any:
        """Insert objects, or replace those that are there; returns the changes of results.

        Rows need `id`, `x`, `y` and every attribute, and may have `opens`, `closes` and `time`: see
        `advance`. Of rows with the same id the last one holds. With `zones` a pair, the second of which are
        the zones that changed: see `publish`.
        """
        if zones:
            return self._with_zones("upsert", rows)
        return self._with_news("upsert", rows) if self._news() else super().upsert(rows)

    def remove(self, ids: Any, *, zones: bool = False) -> Any:
        """Remove objects; returns the changes of results, with `zones` a pair as `upsert` does."""
        if zones:
            return self._with_zones("remove", ids)
        return self._with_news("remove", ids) if self._news() else super().remove(ids)

    def advance(self, time: Any, *, zones: bool = False) -> Any:
        """Move the clock; objects open and close. Returns the changes of results.

        An object takes part while `opens <= clock < closes`; a null is no bound. A time that is past does
        nothing. A column `time` of objects moves the clock too; before the first time it is earlier than all.

        Args:
            time: a `datetime`, or a table with a column `time`, whose latest counts.
            zones: whether to return a pair, as `upsert` does.
        """
        if zones:
            return self._with_zones("advance", time)
        return self._with_news("advance", time) if self._news() else super().advance(time)

    def apply(
        self, commands: Iterable[Command | tuple[str, Any]], *, refused: Refused | None = None
    ) -> pa.Table:
        """Apply several calls, in order, as one batch; returns the net deltas. See `Engine.apply`."""
        if not self._news():
            return super().apply(commands, refused=refused)
        with self._undo:
            return super().apply(chain(commands, [Command("update_roads", None)]), refused=refused)

    def update_roads(self, rows: Any = None) -> pa.Table:
        """Change lengths of roads for this engine; returns the changes of results, new scores among them.

        Rows have the `id` of an edge and its `length`; of rows with the same id the last one holds. Without
        rows: take over now what `graph.update` has changed.
        """
        return self._answer(self._update_roads(rows))

    def _with_news(self, call: str, rows: Any) -> pa.Table:
        """A call, and then the lengths that the graph has now, as one batch."""
        answer: pa.Table = self._own("apply", [Command(call, rows)])
        return answer

    def _net(self, steps: list[Changes]) -> Changes:
        # Beside lengths that are as they were, one call alone is told as it is.
        return super()._net([step for step in steps if step is not SAME_LENGTHS])

    def _news(self) -> bool:
        """Whether the graph has other lengths than when it was last looked at."""
        return self._network is not None and self._network.stale

    def _update_roads(self, rows: Any) -> Changes:
        network = self._network
        if network is None:
            raise InputError(
                "update_roads needs a road graph", expected=f'metric="network", not "{self._metric}"'
            )
        edge, length = network.news()
        if rows is not None:
            more, lengths = network.changes(rows, self._extra)
            kept = ~np.isin(edge, more)
            edge, length = np.concatenate([edge[kept], more]), np.concatenate([length[kept], lengths])
        with self._undo:
            self._begin()
            return self._reroute(edge, length)

    def _reroute(self, edge: Rows, length: Ints) -> Changes:
        """Go by other lengths."""
        network, zones = self._network, self._zones
        assert network is not None
        live = self._slots.live()
        before = self._lists(live)
        self._undo.note(self._former_lengths(edge))
        if isinstance(zones, NetworkZones):
            zones.rerouting(edge)
        network.take(edge, length)
        if not edge.size:
            return SAME_LENGTHS
        if not isinstance(zones, NetworkZones):
            return self._changed(live, before)
        self._note_zones(live)
        zones.renew(zones.rerouted(edge))
        return self._renewed(zones, live, [before])

    def _former_lengths(self, edge: Rows) -> Step:
        """A step that brings the lengths of edges back."""
        network = self._network
        assert network is not None
        length, version = network.length[edge], network.version

        def back() -> None:
            network.take(edge, length)
            network.version = version
            if isinstance(self._zones, NetworkZones):
                self._zones.rerouted(edge)

        return back

    # Zones

    @abstractmethod
    def _zone_table(self, rows: Rows) -> pa.Table:
        """The zones of subscriptions, in that order."""

    @abstractmethod
    def _zone_members(self, rows: Rows) -> Sequence[Rows]:
        """The members of zones."""

    def zones(self, ids: Any = None, *, attributes: bool = False) -> pa.Table:
        """Safe zones of all subscriptions, or of some, by order of registration.

        Of `MovingTopK` circles, `subscription, x, y, radius, members`: inside, the result is among the
        members; of three dimensions spheres, with `z`. Of `MovingSkyline` in the euclidean plane
        `subscription, geometry`, a WKB polygon, holes and all, strictly inside which the result is the same
        (a WKB point, if it is that alone); in other metrics circles with members. On roads `subscription,
        geometry, members`: the edge that it is on as a WKB line. With `attributes` also `members`,
        everywhere, and `attributes`: the `x`, `y` and attributes of each member, from which a client can rank
        them by itself.
        """
        slots = self._slots
        rows = slots.live() if ids is None else self._in_order(slots.require(self._ids(ids), where="ids"))
        return self._described(rows) if attributes else self._zone_table(rows)

    def _described(self, rows: Rows) -> pa.Table:
        """Zones with members and their attributes."""
        table, members = self._zone_table(rows), self._zone_members(rows)
        if "members" not in table.column_names:
            table = table.append_column("members", zone_tables.listed(members, self._objects))
        return table.append_column(
            "attributes", zone_tables.described(members, self._objects, self._axes, self._over)
        )

    def _with_zones(self, call: str, rows: Any) -> tuple[pa.Table, pa.Table]:
        """A call, and the zones that are other ones after it."""
        before = None if self._network is None else self._described(self._slots.live()).to_pylist()
        with zone_tables.watching(self._zones) as noted:
            answer: pa.Table = self._own(call, rows)
        live = self._slots.live()
        if before is not None:
            now = self._described(live).to_pylist()
            live = live[[one != other for one, other in zip(before, now, strict=True)]]
        else:
            live = live[np.isin(live, np.concatenate([np.empty(0, np.int32), *(noted or [])]))]
        return answer, zone_tables.voided(self._described(live))

    # Answers

    def _stretches(self, rows: Rows, edges: Sequence[int], members: Sequence[Rows]) -> pa.Table:
        """Zones as a table: edges as WKB lines, with members."""
        assert self._network is not None
        graph = self._network.graph
        lines = [struct.pack("<BIIdddd", 1, 2, 2, *graph.line(edge).ravel()) for edge in edges]
        return pa.table(
            {
                "subscription": self._slots.take(rows),
                "geometry": pa.array(lines, pa.binary()),
                "members": zone_tables.listed(members, self._objects),
            }
        )

    def _road_zones(self, rows: Rows) -> pa.Table:
        """The zones of subscriptions on roads; by scan the edges they are on, with their results."""
        assert self._network is not None
        if isinstance(self._zones, NetworkZones):
            zones = self._zones
            return self._stretches(rows, zones.edge[rows].tolist(), [zones.members(row) for row in rows])
        x, y = (np.array(self._slots[name][rows], np.float64) for name in ("x", "y"))
        graph, objects = self._network.graph, self._all_objects()
        members = [objects.row[self._result(row, objects)[0]] for row in rows]
        points = [struct.pack("<BIdd", 1, 1, *place) for place in zip(x, y, strict=True)]
        table = self._stretches(rows, graph.snapped(x, y).edge.tolist(), members)
        return table.set_column(1, "geometry", pa.array(points, pa.binary()))
