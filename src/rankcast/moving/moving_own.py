"""`method="zone"` of `MovingTopK` for a score of one's own: a function over arrays, called with many at once.

Zones are found by `OwnSearch`. An object that changes goes down the R-tree of zones as the function bounds it
there: it concerns those zones alone in which its lowest score is not above their reach.
"""

from __future__ import annotations

from functools import cached_property

import numpy as np

from rankcast.moving import scoring
from rankcast.moving.custom_bounds import Fine, Found, OwnScore
from rankcast.moving.descent import descend
from rankcast.moving.kernels import zone_follow, zone_scores
from rankcast.moving.kernels.rtree_search import Queries
from rankcast.moving.kernels.rtree_spread import Corner
from rankcast.moving.kernels.zone_follow import OUTSIDE, Flags
from rankcast.moving.kernels.zone_scores import STATIC, Form
from rankcast.moving.moving_own_zones import OwnSearch
from rankcast.moving.moving_zones import ZoneMethod
from rankcast.moving.places import box_of, farthest, fixed
from rankcast.structures.distance import CODES, HAVERSINE
from rankcast.tables.schema import Bools, Floats, Ints, Rows

AT_ONCE = 256
RADIUS_AND_REACH = Corner(2, np.array([True, True]))  # of an R-tree of zones


class OwnMethod(ZoneMethod):
    """Zones of all subscriptions over all objects, by a function of attributes and distance."""

    @cached_property
    def form(self) -> Form:
        """Only the metric counts."""
        return Form(zone_scores.OWN, CODES[self.wish.metric], 1.0, 1.0, 0.0, zone_scores.LEMMA, 1.0, 1)

    @cached_property
    def own(self) -> OwnScore:
        """The function with its bounds."""
        return OwnScore(self.wish.score, self.form.metric, self.objects, self.places)

    @property
    def _fine(self) -> Fine | None:
        """How fine rectangles get; None where there are none, on the globe."""
        wish = self.wish
        if wish.circle == "lemma" or self.form.metric == HAVERSINE:
            return None
        return Fine(wish.m, wish.epsilon, wish.rounds)

    def _split_weights(self) -> list[float | None]:
        return [None, None, 0.0, 0.0, *(len(self.over) * [None])]

    def _statics(self, attributes: Floats) -> Floats:
        return np.zeros((attributes.shape[0], 2))

    def _scores(self, items: Rows, away: Floats) -> Floats:
        return scoring.no_nan("score", self.own.of(items, away))

    # Queries

    def _follow(self, rows: Rows, x: Floats, y: Floats, k: Ints, *, ordered: bool) -> Flags:
        held = self.zones.held
        inside = zone_follow.inside(
            self.form.metric, (held.x, held.y, held.radius), rows, (fixed(x), fixed(y))
        )
        flags = np.where(inside, zone_follow.SAME, OUTSIDE).astype(np.int8)
        asked = np.flatnonzero(inside & (ordered | (held.count[rows] > k)))
        mine = rows[asked]
        starts = np.concatenate([[0], np.cumsum(held.count[mine])])
        items, away = self._members(mine, (x[asked], y[asked]), starts)
        scores = self._scores(items, away)
        flags[asked] = zone_follow.settle(self.objects.label, held, mine, starts, scores, k[asked], ordered)
        return flags

    def _search(self, rows: Rows, queries: Queries) -> None:
        falls = scoring.falls(self.wish.score, self.over)
        for start in range(0, rows.size, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            some = queries._replace(
                x=queries.x[part],
                y=queries.y[part],
                k=queries.k[part],
                lower=queries.lower[part],
                upper=queries.upper[part],
            )
            search = OwnSearch(self.own, some, self.wish.m, falls, self._fine)
            self.zones.put(rows[part], some.x, some.y, search.zones())
            self.count["nodes_accessed"] += search.nodes
            self.count["candidates"] += search.tried

    # Objects that change

    def _mark_members(self, objects: Rows, marked: Bools) -> None:
        for start in range(0, objects.size, AT_ONCE):
            some = objects[start : start + AT_ONCE]
            of, zone = self._within_reach(some)
            marked[zone[zone_follow.lists(self.zones.held, zone, some[of])]] = True

    def _mark_broken(self, objects: Rows, marked: Bools) -> None:
        queries, attributes = self.subscriptions, self.objects["attributes"]
        for start in range(0, objects.size, AT_ONCE):
            some = objects[start : start + AT_ONCE]
            of, zone = self._within_reach(some)
            given = attributes[some[of]]
            asked = ((queries["lower"][zone] <= given) & (given <= queries["upper"][zone])).all(axis=1)
            asked &= ~marked[zone]
            zone, row = zone[asked], some[of[asked]]
            marked[zone[self._breaks(zone, row)]] = True

    def _within_reach(self, objects: Rows) -> tuple[Ints, Rows]:
        """Pairs of an object, by its place, and a zone in which it may come before one of the best."""
        own, attributes = self.own, self.objects["attributes"][objects]
        none = np.empty((objects.size, 0))
        place = np.ascontiguousarray(self.places.record[objects, :2].T)
        queries = Queries(place[0], place[1], np.empty(0, np.int64), none, none, filtered=False)

        def reaches(of: Ints, values: Floats, away: Floats) -> Bools:
            least = own(attributes[of], own.nearer(away, values[:, 0]))
            found: Bools = ~(least > values[:, 1])
            return found

        found = descend(self.zones.tree, own.metric, queries, RADIUS_AND_REACH, reaches)
        return found.query, found.row

    def _breaks(self, zone: Rows, objects: Rows) -> Bools:
        """Which objects, of those within reach of the zone beside them, break it; one at least, if any."""
        held, fine = self.zones.held, self._fine
        breaks = np.ones(zone.size, np.bool_)
        asked = np.flatnonzero((held.radius[zone] > 0) & (held.radius[zone] < np.inf))
        if fine is None or not asked.size:
            return breaks
        mine, query = np.unique(zone[asked], return_inverse=True)
        place, radius = (held.x[mine], held.y[mine]), held.radius[mine]
        order = np.argsort(query, kind="stable")
        asked, none = asked[order], np.empty(asked.size)
        rivals = Found(query[order], objects[asked], none, none)
        circle = self.own.circles(place, self._best_at(mine, place), rivals, radius, fine._replace(m=1))
        breaks[asked] = circle < radius[rivals.query]
        return breaks

    def _best_at(self, zones: Rows, place: tuple[Floats, Floats]) -> Found:
        """The best of the members of zones at the centres of these."""
        size = self.zones.held.count[zones]
        starts = np.concatenate([[0], np.cumsum(size)])
        items, away = self._members(zones, place, starts)
        found = Found(np.repeat(np.arange(zones.size), size), items, away, self._scores(items, away))
        found = found.at(np.lexsort((self.objects.label[items], found.score, found.query)))
        return found.at(found.rank() < self.k_of(zones)[found.query])

    # Whether scores are finite

    def finite_from(self, x: Floats, y: Floats) -> bool:
        """Whether, for certain, all objects have finite scores from places."""
        return not len(self.places) or not x.size or self._finite(self.places.bounds(), box_of(x, y))

    def finite_to(self, x: Floats, y: Floats, attributes: Floats) -> bool:
        """Whether, for certain, objects have finite scores from all queries."""
        held, used = self.subscriptions, self.subscriptions.used
        if not x.size or not len(held):
            return True
        points = np.column_stack([x, y, self._statics(attributes), attributes])
        box = np.stack([points.min(axis=0), points.max(axis=0)])
        return self._finite(box, box_of(held["x"][:used], held["y"][:used]))

    def _finite(self, box: Floats, queries: Floats) -> bool:
        """Whether the best and the worst corner of a box (2, 4 + d) of objects have finite scores."""
        far, falls = farthest(self.form.metric, box, queries), scoring.falls(self.wish.score, self.over)
        low, high = box[0, STATIC:], box[1, STATIC:]
        corners = np.stack([np.where(falls, high, low), np.where(falls, low, high)])
        return bool(np.isfinite(self.own(corners, np.array([0.0, far]))).all())
