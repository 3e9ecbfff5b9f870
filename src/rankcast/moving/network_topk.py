"""Zones of `MovingTopK` on roads, for any score; see `rankcast.moving.network_zones`.

Members of an edge: objects are met in order of distance from its ends, farther and farther, until nothing
that has not been met can score as little as U, the k-th smallest score at the greatest distance. What has not
been met scores at least what an object with the best of every attribute would, just beyond the radius.

Where score and wishes allow it, and once searches have cost as much, lists of the best objects by node
(`rankcast.moving.node_lists`) take the place of members: then no position needs a search.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast.core.engine import no_nan
from rankcast.moving import scoring
from rankcast.moving.hours import ObjectSlots
from rankcast.moving.kernels import network_search
from rankcast.moving.kernels.network_search import FAR
from rankcast.moving.network import Network, offsets
from rankcast.moving.network_zones import Around, Members, NetworkZones
from rankcast.moving.node_lists import NodeBest
from rankcast.moving.road_graph import Spots
from rankcast.structures.arrays import ranges
from rankcast.structures.ids import Slots
from rankcast.tables.schema import Bools, Floats, Ints, Rows

SPARE = 8  # objects that are met in a first search beside k
MARGIN = 2.0**-44  # of a score: powers are not monotonic as computed
FIRST = 16  # searches before it is seen again whether lists pay
POWERS = 2 ** np.arange(61, dtype=np.int64)


class NetworkTopK(NetworkZones):
    """Zones for the k objects of smallest score."""

    def __init__(
        self,
        network: Network,
        subscriptions: Slots,
        objects: ObjectSlots,
        count: dict[str, int],
        *,
        score: scoring.Score,
        over: list[str],
        k: int,
    ) -> None:
        super().__init__(network, subscriptions, objects, count)
        self._score = score
        self._falls = scoring.falls(score, over)
        self._k = k
        self.best = NodeBest(network, objects, self.on_roads, score, k)
        self._nodes: Rows | None = None  # whose lists objects have changed that were put last; None: all
        self._edges = np.empty(0, np.int32)
        self._needy: Rows | None = None

    # Queries: by lists where these tell, else by members

    def renew(self, rows: Rows) -> None:
        """Search results and zones of subscriptions at their places."""
        while rows.size:
            self._reserve(int(rows.max()) + 1)
            part = rows if self.best.ready(self.spent) else rows[:FIRST]
            spots = self._snapped(part, self.subscriptions["x"][part], self.subscriptions["y"][part])
            told = np.zeros(part.size, np.bool_)
            open_ones = np.flatnonzero(self._listable(part))
            if open_ones.size:
                counts, item, away = self._from_lists(part[open_ones], spots.those(open_ones))
                good = counts >= 0
                told[open_ones[good]] = True
                ones = part[open_ones[good]]
                self._put_results(ones, counts[good], *_flat(counts[good], item[good], away[good]))
                self.held.put(
                    ones, np.zeros(ones.size, np.int64), {n: a[:0] for n, a in self.held.values.items()}
                )
                self.edge[ones], self.listed[ones] = spots.edge[told], True
                self.count["nodes_accessed"] += 2 * ones.size
            others = part[~told]
            if others.size:
                self.listed[others] = False
                self._search_zones(others, spots.edge[~told])
                self._put_results(others, *self._results(others, spots.those(~told)))
            self.count["recomputed"] += part.size
            rows = rows[part.size :]

    def _stay(self, rows: Rows, spots: Spots) -> tuple[Bools, tuple[Ints, Rows, Ints]]:
        stays: Bools = spots.edge == self.edge[rows]
        listed = np.flatnonzero(self.listed[rows])
        if not listed.size:
            return super()._stay(rows, spots)
        counts, item, away = self._from_lists(rows[listed], spots.those(listed))
        stays[listed] = counts >= 0
        moved = listed[(counts >= 0) & (spots.edge[listed] != self.edge[rows[listed]])]
        self.edge[rows[moved]] = spots.edge[moved]
        self.count["recomputed"] += moved.size
        self.count["nodes_accessed"] += 2 * moved.size
        self.count["rescored"] += int(counts.clip(0).sum())
        total = np.zeros(rows.size, np.int64)
        total[listed] = counts.clip(0)
        zoned = np.flatnonzero(stays & ~self.listed[rows])
        kept, kept_item, kept_away = self._results(rows[zoned], spots.those(zoned))
        total[zoned] = kept
        starts = np.cumsum(total) - total
        joined, ways = np.empty(int(total.sum()), np.int32), np.empty(int(total.sum()), np.int64)
        places = ranges(starts[listed], total[listed])
        joined[places], ways[places] = _flat(total[listed], item, away)
        places = ranges(starts[zoned], kept)
        joined[places], ways[places] = kept_item, kept_away
        return stays, (total[stays], joined, ways)

    def _from_lists(self, rows: Rows, spots: Spots) -> tuple[Ints, Rows, Ints]:
        """Results by lists: counts, -1 where they do not tell; items and distances (n, width)."""
        if not self.best.ready(self.spent):
            width = self.best.width
            empty = np.empty((rows.size, width), np.int32), np.empty((rows.size, width), np.int64)
            return np.full(rows.size, -1, np.int64), *empty
        k = self.subscriptions["k"][rows]
        here = offsets(self.network.length, spots)
        return self.best.results(spots.edge, here, np.where(k > 0, k, self._k))

    def _listable(self, rows: Rows) -> Bools:
        """Which subscriptions may have results by lists."""
        held = self.subscriptions
        if not self.best.ready(self.spent):
            return np.zeros(rows.size, np.bool_)
        found: Bools = np.where(held["k"][rows] > 0, held["k"][rows], self._k) < self.best.width
        found &= (held["lower"][rows] == -np.inf).all(axis=1) & (held["upper"][rows] == np.inf).all(axis=1)
        return found

    # Objects and roads

    def put(self, objects: Rows) -> None:
        """Take in objects, new or not, that have been written to the slots."""
        if not self.best.possible:
            super().put(objects)
            return
        before = self._edges_of(objects)
        needy = self.best.erase(objects)
        super().put(objects)
        self._edges = np.concatenate([before, self._edges_of(objects)])
        self._nodes = self.best.insert(objects, needy)

    def drop(self, objects: Rows) -> None:
        """Forget objects."""
        needy = self.best.erase(objects)
        super().drop(objects)
        self.best.refill(needy, objects[:0])

    def broken(self, objects: Rows, known: Rows) -> Rows:
        """Subscriptions, without those known already, whose zones these objects break."""
        rows = np.setdiff1d(np.flatnonzero(self.listed), known).astype(np.int32)
        zoned = super().broken(objects, np.concatenate([known, rows]))
        if self._nodes is not None and rows.size:
            roads, edges = self.network.roads, self.edge[rows]
            near = np.isin(roads.start[edges], self._nodes) | np.isin(roads.end[edges], self._nodes)
            rows = rows[near | np.isin(edges, self._edges)]
        return np.concatenate([rows, zoned])

    def rerouting(self, edges: Rows) -> None:
        """Roads are about to have other lengths."""
        self._needy = self.best.loosen(edges)

    def rerouted(self, edges: Rows) -> Rows:
        """Roads have other lengths; returns the subscriptions that must be renewed."""
        rows = super().rerouted(edges)
        self.best.refill(self._needy, edges)
        return rows

    def _edges_of(self, objects: Rows) -> Rows:
        edge = self.on_roads.edge
        known = edge[objects[objects < edge.size]]
        return known[known >= 0]

    # Members

    def _zone(self, row: int, edge: int) -> Members:
        k, passing = self._k_of(row), self._passing(row)
        limit, wanted = FAR, k + SPARE
        if len(self.objects) <= k:
            wanted = len(self.objects) + 1
        while True:
            around = self._around(edge, limit, wanted)
            around = around.those(passing(around.item))
            reach = self._reach(around, k)
            if around.radius >= FAR or self._beyond(row, around.radius) > reach:
                break
            length = int(self.network.length[edge])
            limit, wanted = min(2 * max(around.radius + length, 0) + length + 1, FAR), len(self.objects) + 1
        away = self._values(around.item, around.low)
        near = (away <= reach) & (around.low < FAR)
        return around.members(near, reach)

    def _alike(self, row: int) -> Any:
        lower, upper = self.subscriptions["lower"][row], self.subscriptions["upper"][row]
        return self._k_of(row), lower.tobytes(), upper.tobytes()

    def _k_of(self, row: int) -> int:
        return int(self.subscriptions["k"][row]) or self._k

    def _passing(self, row: int) -> Any:
        """Which objects pass the filter of a subscription."""
        lower, upper = self.subscriptions["lower"][row], self.subscriptions["upper"][row]

        def passing(item: Rows) -> Bools:
            attributes = self.objects["attributes"][item]
            found: Bools = ((lower <= attributes) & (attributes <= upper)).all(axis=1)
            return found

        return passing

    def _reach(self, around: Around, k: int) -> float:
        """The k-th smallest score where each object is as far away as it may be on the edge."""
        known = around.high < FAR
        if int(known.sum()) < k:
            return np.inf
        far = self._values(around.item[known], around.high[known])
        reach = float(np.partition(far, k - 1)[k - 1])
        return reach + MARGIN * abs(reach)

    def _beyond(self, row: int, radius: int) -> float:
        """At most the score of any object beyond a radius that passes the filter."""
        if radius < 0:
            return -np.inf
        live = self.objects.present
        attributes = self.objects["attributes"][: live.size][live]
        lower, upper = self.subscriptions["lower"][row], self.subscriptions["upper"][row]
        rising = np.maximum(attributes.min(axis=0), lower)
        best = np.where(self._falls, np.minimum(attributes.max(axis=0), upper), rising)
        with np.errstate(all="ignore"):
            score = float(self._score(best[None], np.array([radius * self.network.unit]))[0])
        return score - MARGIN * abs(score) if np.isfinite(score) else -np.inf

    def _values(self, item: Rows, away: Ints) -> Floats:
        """The scores of objects that are so far away."""
        with np.errstate(all="ignore"):
            found = self._score(self.objects["attributes"][item], self.network.metres(away))
        return no_nan("score", found)

    def _scored(self, item: Rows, away: Ints) -> Floats:
        return self._values(item, away)

    def _chosen(self, rows: Rows, starts: Ints, item: Rows, away: Ints) -> tuple[Ints, Rows]:
        score = np.full(item.size, np.inf)
        near = away < FAR
        score[near] = self._values(item[near], away[near])
        k = self.subscriptions["k"][rows]
        self.count["rescored"] += item.size
        k = np.where(k > 0, k, self._k)
        found: tuple[Ints, Rows] = network_search.best_of(starts, k, score, self.objects.label[item])
        return found

    def _limit(self, item: int, rows: Rows) -> int:
        reach = float(self.reach[rows].max(initial=-np.inf))
        items = np.full(POWERS.size, item, np.int32)
        beyond = np.flatnonzero(self._values(items, POWERS) > reach)
        return int(POWERS[beyond[0]]) if beyond.size else FAR

    def _breaks(self, item: int, rows: Rows, low: Ints) -> Bools:
        found = np.zeros(rows.size, np.bool_)
        near = np.flatnonzero(low < FAR)
        score = self._values(np.full(near.size, item, np.int32), low[near])
        found[near] = score <= self.reach[rows[near]]
        attributes, held = self.objects["attributes"][item], self.subscriptions
        passes = ((held["lower"][rows] <= attributes) & (attributes <= held["upper"][rows])).all(axis=1)
        breaks: Bools = found & passes
        return breaks


def _flat(counts: Ints, item: Rows, away: Ints) -> tuple[Rows, Ints]:
    """The first entries of lists (n, width), so many of each, one after the other."""
    kept = np.arange(item.shape[1]) < counts[:, None]
    return item[kept], away[kept]
