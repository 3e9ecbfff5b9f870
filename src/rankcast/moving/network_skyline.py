"""Zones of `MovingSkyline` on roads; see `rankcast.moving.network_zones`.

Members of an edge: objects are met farther and farther from its ends, until one that has been met is at least
as good in every attribute as all that have not, and nearer from everywhere on the edge.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast.moving.hours import ObjectSlots
from rankcast.moving.kernels import network_search
from rankcast.moving.kernels.network_search import FAR
from rankcast.moving.network import Network
from rankcast.moving.network_zones import Around, Members, NetworkZones
from rankcast.structures.arrays import ranges
from rankcast.structures.ids import Slots
from rankcast.tables.schema import Bools, Floats, Ints, Rows

FIRST = 16  # objects that are met in a first search


class NetworkSkyline(NetworkZones):
    """Zones for the objects that no other dominates."""

    def __init__(
        self,
        network: Network,
        subscriptions: Slots,
        objects: ObjectSlots,
        count: dict[str, int],
        *,
        sign: Floats,
    ) -> None:
        super().__init__(network, subscriptions, objects, count)
        self._sign = sign

    def _zone(self, row: int, edge: int) -> Members:
        limit, wanted = FAR, FIRST
        lower, upper = self.subscriptions["lower"][row], self.subscriptions["upper"][row]
        attributes = self.objects["attributes"]
        passing = self.objects.present & ((lower <= attributes) & (attributes <= upper)).all(axis=1)
        while True:
            around = self._around(edge, limit, wanted)
            around = around.those(passing[around.item])
            if around.radius >= FAR or self._covered(around, passing):
                break
            length = int(self.network.length[edge])
            limit, wanted = min(2 * max(around.radius + length, 0) + length + 1, FAR), len(self.objects) + 1
        inside = around.low <= around.radius
        order = np.flatnonzero(inside)[np.argsort(around.low[inside], kind="stable")]
        around = around.those(order)
        keep = np.ones(order.size, np.bool_)
        network_search.contenders(around.low, around.high, self._values(around.item), keep)
        return around.members(keep, np.inf)

    def _covered(self, around: Around, passing: Bools) -> bool:
        """Whether what lies beyond the radius is dominated, whatever it is."""
        beyond = passing.copy()
        known = (around.low <= around.radius) & (around.at < 0)
        known |= (around.at >= 0) & (around.from_end <= around.radius)  # one-way: also from behind it
        beyond[around.item[known]] = False
        rest = np.flatnonzero(beyond).astype(np.int32)
        if not rest.size:
            return True
        best = self._values(rest).min(axis=0)
        near = around.item[around.high <= around.radius]
        return bool((self._values(near) <= best).all(axis=1).any())

    def _alike(self, row: int) -> Any:
        lower, upper = self.subscriptions["lower"][row], self.subscriptions["upper"][row]
        return lower.tobytes(), upper.tobytes()

    def _values(self, item: Rows) -> Floats:
        """Attributes (n, d), small ones are good."""
        found: Floats = self._sign * self.objects["attributes"][item]
        return np.ascontiguousarray(found)

    def _scored(self, item: Rows, away: Ints) -> Floats:
        return self.network.metres(away)

    def _chosen(self, rows: Rows, starts: Ints, item: Rows, away: Ints) -> tuple[Ints, Rows]:
        owner = np.repeat(np.arange(rows.size), np.diff(starts))
        order = np.lexsort((self.objects.label[item], away, owner)).astype(np.int32)
        keep = np.empty(item.size, np.bool_)
        network_search.undominated(starts, away[order], self._values(item[order]), keep)
        return np.bincount(owner[keep], minlength=rows.size).astype(np.int64), order[keep]

    def _limit(self, item: int, rows: Rows) -> int:
        ends = self._dominated_from(item, rows)
        return int(ends.max(initial=0))

    def _breaks(self, item: int, rows: Rows, low: Ints) -> Bools:
        attributes, held = self.objects["attributes"][item], self.subscriptions
        passes: Bools = ((held["lower"][rows] <= attributes) & (attributes <= held["upper"][rows])).all(
            axis=1
        )
        return passes & (low < self._dominated_from(item, rows))

    def _dominated_from(self, item: int, rows: Rows) -> Ints:
        """From which distance on members of each zone dominate an object at every place on the edge."""
        roads, members = self.network.roads, self.held
        counts = members.count[rows]
        owner, places = np.repeat(np.arange(rows.size), counts), ranges(members.start[rows], counts)
        held, from_start, from_end = (
            members.values[name][places] for name in ("item", "from_start", "from_end")
        )
        edge = self.edge[rows][owner]
        length = roads.length[edge]
        nearest = np.where(roads.oneway[edge], from_end, np.minimum(from_start, from_end))
        far = nearest + length + 1
        as_good = (self._values(held) <= self._values(np.array([item]))).all(axis=1)
        ends = np.full(rows.size, FAR, np.int64)
        np.minimum.at(ends, owner[as_good], far[as_good])
        return ends
