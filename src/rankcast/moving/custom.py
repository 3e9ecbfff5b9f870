"""`method="zone"` of `MovingTopK` for a custom score: a function over arrays, called for many objects.

Zones are found by `CustomZoneSearch`: all queries of a call descend the R-tree together. The function is
given many objects of many queries at once, and blocks of the R-tree as objects with the attributes of their
best corner: the score is monotonic, so nothing inside scores less. With the best k objects and m more,
bounds give a circle in which fewer than m of the m may come before one of the k. Only objects that may do so
within a multiple of its radius are candidates (Lemma 11): the largest of a few multiples for which there are
not too many. The zone is the largest circle, up to that radius, in which all candidates but m - 1 stay
behind; rings tell which do (`rankcast.moving.custom_bounds`).

An object that changes descends the R-tree of zones with the same bounds: it concerns only those zones in
which its lowest score is not above their reach.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property

import numpy as np

from rankcast.core.engine import no_nan
from rankcast.moving import scoring
from rankcast.moving.custom_bounds import CustomScore, ScoredObjects
from rankcast.moving.index import KeepTest, descend
from rankcast.moving.kernels import scores, zone_follow
from rankcast.moving.kernels.rings import distances_between
from rankcast.moving.kernels.rtree_search import NO_Z, Corner, Queries
from rankcast.moving.kernels.scores import STATIC, ScoreForm
from rankcast.moving.kernels.zone_follow import OUTSIDE, SAME, Flags
from rankcast.moving.kernels.zone_search import FoundZones
from rankcast.moving.places import box_of, farthest
from rankcast.moving.topk_zones import TopKZones
from rankcast.tables.schema import Bools, Floats, Ints, Rows

STEPS = 30
GROWTHS = 15  # a zone is looked for up to 4^15 times as far as its best objects are
ROOMY = (32.0, 8.0, 2.0)  # the largest circles that are looked for, in radii that bounds alone allow
MOST_RIVALS = 64  # objects that may be candidates of a query, unless the circle is the smallest of these
NEARLY = 1.1  # how far apart a circle that is safe and one that is not are left


@dataclass
class CustomZoneSearch:
    """A search for the zones of some queries; `nodes` and `tried` count the work.

    `falls` says in which attributes the score falls; `rings` how many a circle may be cut into, 0 for bounds
    in circles alone.
    """

    custom: CustomScore
    queries: Queries
    m: int
    falls: Bools
    rings: int
    nodes: int = 0
    tried: int = 0

    def zones(self) -> FoundZones:
        """The zones of the queries."""
        queries, board = self.queries, self._board()
        rank, k = board.rank(), queries.k[board.query]
        best, others = board.at(rank < k), board.at((k <= rank) & (rank < k + self.m))
        full = np.bincount(others.query, minlength=queries.x.size) == self.m
        known = self._shared_radius(best, others, np.full(queries.x.size, np.inf), full)
        limit, rivals = self._candidates(best, known, full)
        rivals = _joined(_without(rivals, best), others)
        return self._members(best, rivals, self._circles(best, rivals, limit, full), limit, full)

    def _candidates(self, best: ScoredObjects, known: Floats, full: Bools) -> tuple[Floats, ScoredObjects]:
        """The radius that circles of queries may have, and what may come before one of their best in it."""
        custom, limit, left = self.custom, known.copy(), full & (known > 0)
        found = []
        for growth in ROOMY if self.rings else (1.0,):
            last = not self.rings or growth == ROOMY[-1]
            tried = left | (full & last & ~(known > 0))
            limit = np.where(tried, growth * known, limit)
            reach = custom.highest(best, limit)

            def may_come(
                query: Ints,
                a: Floats,
                d: Floats,
                wide: Floats = limit,
                most: Floats = reach,
                now: Bools = tried,
            ) -> Bools:
                return now[query] & ~(custom(a, custom.nearer(d, wide[query])) > most[query])

            rivals = self._descend(may_come)
            few = np.bincount(rivals.query, minlength=full.size) <= MOST_RIVALS + self.queries.k
            done = tried & (few | last)
            found.append(rivals.at(done[rivals.query]))
            left &= ~done
            if not left.any() and not (full & ~(known > 0)).any():
                break
        joined = ScoredObjects._make(np.concatenate(columns) for columns in zip(*found, strict=True))
        return limit, joined.at(np.argsort(joined.query, kind="stable"))

    def _board(self) -> ScoredObjects:
        """The best k + m objects of each query, in order, and others as good as the last."""
        queries, custom = self.queries, self.custom
        size = np.minimum(queries.k + self.m, len(custom.places))
        limit = _score_at(self._ranked(self._probe(size)), size - 1, queries.x.size)
        return self._ranked(self._descend(lambda query, a, d: ~(custom(a, d) > limit[query])))

    def _probe(self, size: Ints) -> ScoredObjects:
        """Some good objects of each query, more than `size` if there are as many."""
        width = 4 + 2 * int(size.max(initial=0)) // 16

        def good(query: Ints, attributes: Floats, away: Floats) -> Bools:
            score = self.custom(attributes, away)
            order = np.lexsort((score, query)).astype(np.int32)
            chosen = np.zeros(query.size, np.bool_)
            chosen[order[ScoredObjects(query[order], order, away, score).rank() < width]] = True
            return chosen

        return self._descend(good, every=True)

    def _descend(self, keep: KeepTest, *, every: bool = False) -> ScoredObjects:
        """The objects that a test keeps, with their scores."""
        custom = self.custom
        corner = Corner(custom.places.record.shape[1], self.falls)
        found = descend(custom.places.tree, custom.metric, self.queries, corner, keep, every=every)
        self.nodes += found.nodes
        self.tried += found.tried
        score = no_nan("score", custom.of(found.row, found.distance))
        return ScoredObjects(found.query, found.row, found.distance, score)

    def _ranked(self, found: ScoredObjects) -> ScoredObjects:
        """Objects by query, score and id."""
        return found.at(np.lexsort((self.custom.objects.label[found.row], found.score, found.query)))

    # Circles

    def _circles(self, best: ScoredObjects, rivals: ScoredObjects, limit: Floats, full: Bools) -> Floats:
        """The circles of rivals: one a query, at most `limit`, for all that stay behind; 0 for others."""
        radius = self._shared_radius(best, rivals, limit, full)
        breaks = ~self.custom.apart(best, rivals, radius)
        if self.rings:
            radius = self._by_rings(best, rivals, radius, limit)
            breaks = ~self._behind(best, rivals, radius)
        return np.where(breaks, 0.0, radius[rivals.query])

    def _behind(
        self, best: ScoredObjects, rivals: ScoredObjects, radius: Floats, enough: int = 1 << 30
    ) -> Bools:
        place = self.queries.x, self.queries.y, self.queries.z
        return self.custom.behind(place, best, rivals, radius, self.rings, enough)

    def _by_rings(self, best: ScoredObjects, rivals: ScoredObjects, known: Floats, limit: Floats) -> Floats:
        """A larger radius, by query, in which all rivals but m - 1 stay behind, by bisection.

        A rival that stays behind in a circle does so in all smaller ones, and is not looked at again.
        """
        low, high, first = known.copy(), limit.copy(), True
        sure = np.zeros(rivals.query.size)
        while True:
            open_ = (low > 0) & (high > NEARLY * low)
            if not open_.any():
                return low
            middle = np.where(open_, high if first else np.sqrt(low * high), 0.0)
            seen = np.flatnonzero(open_[rivals.query] & (sure < middle[rivals.query]))
            of = rivals.at(seen)
            behind = self._behind(best, of, middle, self.m)
            sure[seen[behind]] = middle[of.query[behind]]
            safe = open_ & (np.bincount(of.query[~behind], minlength=low.size) < self.m)
            low, high = np.where(safe, middle, low), np.where(open_ & ~safe, middle, high)
            first = False

    def _shared_radius(
        self, best: ScoredObjects, rivals: ScoredObjects, limit: Floats, full: Bools
    ) -> Floats:
        """The largest radius, by query, in which all rivals but m - 1 stay behind by Lemma 10."""

        def safe(radius: Floats) -> Bools:
            crossing = np.bincount(
                rivals.query, weights=~self.custom.apart(best, rivals, radius), minlength=full.size
            )
            found: Bools = crossing < self.m
            return found

        open_ = np.isinf(limit)
        high = np.where(open_, 1.0, limit)
        np.maximum.at(high, best.query, np.where(open_[best.query], best.distance, 0.0))
        low, fine = np.zeros(full.size), safe(high)
        low = np.where(fine & ~open_, high, low)
        for _ in range(GROWTHS):
            fine &= open_
            if not fine.any():
                break
            low, high = np.where(fine, high, low), np.where(fine, 4 * high, high)
            fine &= safe(high)
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            fine = safe(middle)
            low, high = np.where(fine, middle, low), np.where(fine, high, middle)
        return np.where(full, low, 0.0)

    def _members(
        self, best: ScoredObjects, rivals: ScoredObjects, circle: Floats, limit: Floats, full: Bools
    ) -> FoundZones:
        """The zones: the m-th smallest circle of each query, with the rivals that have smaller ones."""
        custom = self.custom
        order = np.lexsort((self.custom.objects.label[rivals.row], rivals.score, circle, rivals.query))
        rivals, circle = rivals.at(order), circle[order]
        rank = rivals.rank()
        radius = limit.copy()
        ends = rank == self.m - 1
        radius[rivals.query[ends]] = circle[ends]
        extra = rivals.at(rank < self.m - 1)
        reach = np.where(full, custom.highest(best, radius), np.inf)
        least = custom.of(extra.row, custom.nearer(extra.distance, radius[extra.query]))
        with np.errstate(invalid="ignore"):
            np.maximum.at(reach, extra.query, least)
        reach[np.isnan(reach)] = np.inf  # nothing is known of what is beyond
        owner = np.concatenate([best.query, extra.query])
        member = np.concatenate([best.row, extra.row])[np.argsort(owner, kind="stable")]
        count = np.bincount(owner, minlength=full.size)
        return FoundZones(np.cumsum(count) - count, count, member, np.where(full, radius, np.inf), reach)


def _score_at(found: ScoredObjects, place: Ints, queries: int) -> Floats:
    """The score at a place of each query's ranking; infinite if it is not that long."""
    count = np.bincount(found.query, minlength=queries)
    start = np.cumsum(count) - count
    there = (place < count) & (place >= 0)
    limit = np.full(queries, np.inf)
    limit[there] = found.score[(start + place)[there]]
    return limit


def _without(found: ScoredObjects, others: ScoredObjects) -> ScoredObjects:
    """What is found and not among the others."""
    pairs = (found.query << 32) | found.row
    return found.at(~np.isin(pairs, (others.query << 32) | others.row))


def _joined(found: ScoredObjects, others: ScoredObjects) -> ScoredObjects:
    """What is found or among the others, each once."""
    both = zip(_without(found, others), others, strict=True)
    joined = ScoredObjects._make(np.concatenate(columns) for columns in both)  # type: ignore[arg-type]
    return joined.at(np.argsort(joined.query, kind="stable"))


AT_ONCE = 256
RADIUS_AND_REACH = Corner(2, np.array([True, True]))  # of an R-tree of zones


class CustomTopKZones(TopKZones):
    """Zones of all subscriptions over all objects, by a function of attributes and distance."""

    @cached_property
    def form(self) -> ScoreForm:
        """Only the metric counts."""
        return ScoreForm(scores.CUSTOM, self.settings.code, 1.0, 1.0, 0.0, scores.LEMMA, 1.0, 1)

    @cached_property
    def custom(self) -> CustomScore:
        """The function with its bounds."""
        return CustomScore(self.settings.score, self.form.metric, self.objects, self.places)

    @property
    def _rings(self) -> int:
        """How many rings a circle may be cut into; 0: bounds in circles alone."""
        return 0 if self.settings.circle == "lemma" else self.settings.rounds

    def _split_weights(self) -> list[float | None]:
        return [None, None, 0.0, 0.0, *((self.settings.space + len(self.over)) * [None])]

    def _statics(self, attributes: Floats) -> Floats:
        return np.zeros((attributes.shape[0], 2))

    def _scores(self, items: Rows, away: Floats) -> Floats:
        return no_nan("score", self.custom.of(items, away))

    # Queries

    def _follow(
        self,
        rows: Rows,
        places: Floats,
        wanted: tuple[Ints, int],
        ordered: bool,
        flags: Flags,
        steps: Ints,
    ) -> tuple[int, int]:
        held, own_k = self.zones.held, wanted[0][rows]
        k = np.where(own_k > 0, own_k, wanted[1])
        circles = (held.x, held.y, held.z, held.radius)
        inside = zone_follow.inside(self.form.metric, circles, rows, places)
        flags = flags[: rows.size]
        flags[:] = np.where(inside, SAME, OUTSIDE)
        checked = np.flatnonzero(inside & (ordered | (held.count[rows] > k)))
        mine = rows[checked]
        starts = np.concatenate([[0], np.cumsum(held.count[mine])])
        third = places[2, checked] if self.settings.space else NO_Z
        items, away = self._members(mine, (places[0, checked], places[1, checked], third), starts)
        scores = self._scores(items, away)
        flags[checked] = zone_follow.settle(
            self.objects.label, held, mine, starts, scores, k[checked], ordered
        )
        same = flags == SAME
        for name, values in zip("xyz", places[:, same], strict=False):
            self.subscriptions[name][rows[same]] = values
        return rows.size - int(np.count_nonzero(same)), int(starts[-1])

    def _search(self, rows: Rows, queries: Queries) -> None:
        falls = scoring.falls(self.settings.score, self.over)
        for start in range(0, rows.size, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            some = queries._replace(
                x=queries.x[part],
                y=queries.y[part],
                k=queries.k[part],
                lower=queries.lower[part],
                upper=queries.upper[part],
                z=queries.z[part],
            )
            search = CustomZoneSearch(self.custom, some, self.settings.m, falls, self._rings)
            self.zones.put(rows[part], (some.x, some.y, some.z), search.zones())
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
            checked = ((queries["lower"][zone] <= given) & (given <= queries["upper"][zone])).all(axis=1)
            checked &= ~marked[zone]
            zone, row = zone[checked], some[of[checked]]
            marked[zone[self._breaks(zone, row)]] = True

    def _within_reach(self, objects: Rows) -> tuple[Ints, Rows]:
        """Pairs of an object, by its place, and a zone in which it may come before one of the best."""
        custom, attributes = self.custom, self.objects["attributes"][objects]
        none = np.empty((objects.size, 0))
        record = self.places.record[objects]
        x, y, z = (record[:, at].copy() for at in (0, 1, scores.Z if self.settings.space else 0))
        queries = Queries(x, y, np.empty(0, np.int64), none, none, filtered=False, z=z)

        def reaches(of: Ints, values: Floats, away: Floats) -> Bools:
            least = custom(attributes[of], custom.nearer(away, values[:, 0]))
            found: Bools = ~(least > values[:, 1])
            return found

        found = descend(self.zones.tree, custom.metric, queries, RADIUS_AND_REACH, reaches)
        return found.query, found.row

    def _breaks(self, zone: Rows, objects: Rows) -> Bools:
        """Which objects, of those within reach of the zone beside them, break it; one at least, if any."""
        held, rings = self.zones.held, self._rings
        breaks = np.ones(zone.size, np.bool_)
        checked = np.flatnonzero((held.radius[zone] > 0) & (held.radius[zone] < np.inf))
        if not rings or not checked.size:
            return breaks
        mine, query = np.unique(zone[checked], return_inverse=True)
        place, radius = (held.x[mine], held.y[mine], held.z[mine]), held.radius[mine]
        order = np.argsort(query, kind="stable")
        checked, query = checked[order], query[order]
        rows, record, none = objects[checked], self.places.record, np.empty(checked.size)
        away = distances_between(self.form.metric, record, place, query, rows)
        rivals = ScoredObjects(query, rows, away, none)
        breaks[checked] = ~self.custom.behind(place, self._best_at(mine, place), rivals, radius, rings)
        return breaks

    def _best_at(self, zones: Rows, place: tuple[Floats, Floats, Floats]) -> ScoredObjects:
        """The best of the members of zones at the centres of these."""
        size = self.zones.held.count[zones]
        starts = np.concatenate([[0], np.cumsum(size)])
        items, away = self._members(zones, place, starts)
        found = ScoredObjects(np.repeat(np.arange(zones.size), size), items, away, self._scores(items, away))
        found = found.at(np.lexsort((self.objects.label[items], found.score, found.query)))
        return found.at(found.rank() < self.k_of(zones)[found.query])

    # Whether scores are finite

    def finite_from(self, x: Floats, y: Floats) -> bool:
        """Whether, for certain, all objects have finite scores from places; in space that is not known."""
        if self.settings.space:
            return False
        return not len(self.places) or not x.size or self._finite(self.places.bounds(), box_of(x, y))

    def finite_to(self, x: Floats, y: Floats, attributes: Floats) -> bool:
        """Whether, for certain, objects have finite scores from all queries; in space that is not known."""
        if self.settings.space:
            return False
        held, used = self.subscriptions, self.subscriptions.used
        if not x.size or not len(held):
            return True
        points = np.column_stack([x, y, self._statics(attributes), attributes])
        box = np.stack([points.min(axis=0), points.max(axis=0)])
        return self._finite(box, box_of(held["x"][:used], held["y"][:used]))

    def _finite(self, box: Floats, queries: Floats) -> bool:
        """Whether the best and the worst corner of a box (2, 4 + d) of objects have finite scores."""
        far, falls = farthest(self.form.metric, box, queries), scoring.falls(self.settings.score, self.over)
        low, high = box[0, STATIC:], box[1, STATIC:]
        corners = np.stack([np.where(falls, high, low), np.where(falls, low, high)])
        return bool(np.isfinite(self.custom(corners, np.array([0.0, far]))).all())
