"""`method="zone"` of `MovingTopK` for a score of one's own: a function over arrays, called with many at once.

The function is given many objects of many queries at once, and blocks of the R-tree as objects with the
attributes of their best corner: the score is monotonic, so nothing inside scores less. All queries of a call
go down the tree together (`_descend`).

Zones follow Lemma 10 alone [Moving §4.3], since nothing is known of the function but that it is monotonic: in
a circle of radius r an object scores at least f(a, d - r) and at most f(a, d + r). With the best k objects
and m more at hand, the radius r0 up to which fewer than m of these m may come before one of the k bounds the
zone; only objects that may do so within r0 have to be looked at to find the largest r up to which fewer than
m of all may. Both are found by bisection, for all queries at once.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from rankcast import scoring
from rankcast.columns import Bools, Floats, Ints, Rows
from rankcast.engines.moving_zones import ZoneMethod
from rankcast.kernels import rtree_spread, zone_follow, zone_scores
from rankcast.kernels.distance import CODES, HAVERSINE
from rankcast.kernels.rtree_search import Queries
from rankcast.kernels.zone_follow import OUTSIDE, Flags
from rankcast.kernels.zone_scores import STATIC, Form
from rankcast.kernels.zone_search import Zones

AT_ONCE = 256
STEPS = 40
APART = 1e-11
GROWTHS = 15  # a zone is looked for up to 4^15 times as far as its best objects are


class Found(NamedTuple):
    """Objects of queries, query by query."""

    query: Ints
    row: Rows
    distance: Floats
    score: Floats

    def at(self, index: Any) -> Found:
        """The objects at the given places."""
        return Found._make(column[index] for column in self)

    def and_(self, others: Found) -> Found:
        """These objects, then others."""
        columns: Any = zip(self, others, strict=True)
        return Found._make(np.concatenate(both) for both in columns)


class OwnMethod(ZoneMethod):
    """Zones of all subscriptions over all objects, by a function of attributes and distance."""

    @cached_property
    def form(self) -> Form:
        """Only the metric counts."""
        return Form(zone_scores.OWN, CODES[self.wish.metric], 1.0, 1.0, 0.0, zone_scores.LEMMA, 1.0, 1)

    def _split_weights(self) -> list[float | None]:
        return [None, None, 0.0, 0.0, *(len(self.over) * [None])]

    def _statics(self, attributes: Floats) -> Floats:
        return np.zeros((attributes.shape[0], 2))

    def _f(self, attributes: Floats, away: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return self.wish.score(attributes, away)

    def _scores(self, items: Rows, away: Floats) -> Floats:
        return self._f(self.objects["attributes"][items], away)

    # Following

    def _follow(self, rows: Rows, x: Floats, y: Floats, k: Ints, *, ordered: bool) -> Flags:
        held = self.zones.held
        inside = zone_follow.inside(CODES[self.wish.metric], held, rows, (x, y))
        flags = np.where(inside, zone_follow.SAME, OUTSIDE).astype(np.int8)
        asked = np.flatnonzero(inside & (ordered | (held.count[rows] > k)))
        mine = rows[asked]
        starts = np.concatenate([[0], np.cumsum(held.count[mine])])
        items, away = self._members(mine, (x[asked], y[asked]), starts)
        scores = self._scores(items, away)
        flags[asked] = zone_follow.settle(self.objects.label, held, mine, starts, scores, k[asked], ordered)
        return flags

    # Objects that change

    def _mark_members(self, objects: Rows, marked: Bools) -> None:
        wanted = np.zeros(self.objects.used, np.bool_)
        wanted[objects] = True
        zone_follow.listing(self.zones.held, wanted, marked)

    def _mark_broken(self, objects: Rows, marked: Bools) -> None:
        held, queries = self.zones.held, self.subscriptions
        live = np.flatnonzero(queries["sequence"][: marked.size] >= 0).astype(np.int32)
        attributes = self.objects["attributes"]
        for row in objects if live.size else ():
            live = live[~marked[live]]
            passes = (queries["lower"][live] <= attributes[row]) & (attributes[row] <= queries["upper"][live])
            asked = live[passes.all(axis=1)]
            place = np.broadcast_to(self.places.record[row, :2], (asked.size, 2))
            away = zone_scores.distances_of(
                CODES[self.wish.metric], held.x[asked], held.y[asked], place[:, 0], place[:, 1]
            )
            near = self._nearer(away, held.radius[asked])
            least = self._f(np.broadcast_to(attributes[row], (asked.size, attributes.shape[1])), near)
            marked[asked[least <= held.reach[asked]]] = True

    # Zones

    def _search(self, rows: Rows, queries: Queries) -> None:
        for start in range(0, rows.size, AT_ONCE):
            part = slice(start, start + AT_ONCE)
            some = queries._replace(
                x=queries.x[part],
                y=queries.y[part],
                k=queries.k[part],
                lower=queries.lower[part],
                upper=queries.upper[part],
            )
            self.zones.put(rows[part], some.x, some.y, self._zones(some))

    def _zones(self, queries: Queries) -> Zones:
        """The zones of some queries."""
        size = np.minimum(queries.k + self.wish.m, len(self.places))
        board = self._ranked(self._probe(queries, size))
        limit = _value_at(board, size - 1, queries.x.size)
        board = self._ranked(self._descend(queries, lambda query, a, d: self._f(a, d) <= limit[query]))
        rank = _rank(board.query)
        best = board.at(rank < queries.k[board.query])
        behind = (queries.k[board.query] <= rank) & (rank < queries.k[board.query] + self.wish.m)
        others = board.at(behind)
        full = np.bincount(others.query, minlength=queries.x.size) == self.wish.m
        radius = self._radius(best, others, np.full(queries.x.size, np.inf), full)
        reach = self._highest(best, radius)
        rivals = self._descend(
            queries,
            lambda query, a, d: full[query] & (self._least(a, d, radius[query]) <= reach[query]),
        )
        rivals = self._without(rivals, best)
        radius = self._radius(best, rivals, radius, full)
        return self._members_of(best, rivals, others, radius, full)

    def _members_of(self, best: Found, rivals: Found, others: Found, radius: Floats, full: Bools) -> Zones:
        """The zones with all that may come before one of the best in them, filled up with the next best."""
        reach = np.where(full, self._highest(best, radius), np.inf)
        least = self._least(self.objects["attributes"][rivals.row], rivals.distance, radius[rivals.query])
        breaks = least <= reach[rivals.query]
        extra = rivals.at(breaks).and_(others)
        _, first = np.unique(np.stack([extra.query, extra.row]), axis=1, return_index=True)
        first = np.sort(first)
        extra = extra.at(first)
        order = np.argsort(extra.query, kind="stable")
        extra = extra.at(order)
        extra = extra.at(_rank(extra.query) < self.wish.m - 1)
        np.maximum.at(
            reach,
            extra.query,
            self._least(self.objects["attributes"][extra.row], extra.distance, radius[extra.query]),
        )
        order = np.argsort(np.concatenate([best.query, extra.query]), kind="stable")
        count = np.bincount(best.query, minlength=full.size) + np.bincount(extra.query, minlength=full.size)
        member = np.concatenate([best.row, extra.row])[order]
        return Zones(np.cumsum(count) - count, count, member, np.where(full, radius, np.inf), reach)

    def _radius(self, best: Found, rivals: Found, limit: Floats, full: Bools) -> Floats:
        """The largest radius, by query, in which fewer than m rivals may come before one of the best."""
        attributes = self.objects["attributes"][rivals.row]

        def safe(radius: Floats) -> Bools:
            least = self._least(attributes, rivals.distance, radius[rivals.query])
            breaks = ~(least > self._highest(best, radius)[rivals.query])
            crossing = np.bincount(rivals.query, weights=breaks, minlength=full.size)
            found: Bools = crossing < self.wish.m
            return found

        high = np.where(np.isinf(limit), 1.0, limit)
        np.maximum.at(high, best.query, np.where(np.isinf(limit)[best.query], best.distance, 0.0))
        low, fine = np.zeros(full.size), safe(high)
        for _ in range(GROWTHS):
            fine &= np.isinf(limit)
            if not fine.any():
                break
            low, high = np.where(fine, high, low), np.where(fine, 4 * high, high)
            fine &= safe(high)
        for _ in range(STEPS):
            middle = 0.5 * (low + high)
            fine = safe(middle)
            low, high = np.where(fine, middle, low), np.where(fine, high, middle)
        return np.where(full, low, 0.0)

    def _highest(self, best: Found, radius: Floats) -> Floats:
        """At least the score of each of the best anywhere in a circle, by query."""
        fuzz = self._fuzz()
        scores = self._scores(best.row, (best.distance + radius[best.query]) * (1 + fuzz))
        found = np.full(radius.size, -np.inf)
        np.maximum.at(found, best.query, scores)
        there = np.isfinite(found)
        found[there] += APART * np.abs(found[there])
        return found

    def _least(self, attributes: Floats, away: Floats, radius: Floats) -> Floats:
        """At most the score anywhere in a circle."""
        return self._f(attributes, self._nearer(away, radius))

    def _nearer(self, away: Floats, radius: Floats) -> Floats:
        finite = np.where(np.isinf(radius), away, radius)
        near: Floats = np.maximum(0.0, away - finite - self._fuzz() * (away + finite))
        return near

    def _fuzz(self) -> float:
        return zone_scores.FUZZ if CODES[self.wish.metric] == HAVERSINE else zone_scores.PLANE_FUZZ

    # Going down the tree

    def _ranked(self, found: Found) -> Found:
        """Objects by query, score and id."""
        order = np.lexsort((self.objects.label[found.row], found.score, found.query))
        return found.at(order)

    def _without(self, found: Found, others: Found) -> Found:
        """What is found and not among the others."""
        pairs = (found.query << 32) | found.row
        alone = ~np.isin(pairs, (others.query << 32) | others.row)
        return found.at(alone)

    def _corner(self) -> Bools:
        return scoring.falls(self.wish.score, self.over)

    def _probe(self, queries: Queries, size: Ints) -> Found:
        """Some good objects of each query, more than `size` if there are as many."""
        width = 4 + 2 * int(size.max(initial=0)) // 16

        def good(query: Ints, attributes: Floats, away: Floats) -> Bools:
            score = self._f(attributes, away)
            order = np.lexsort((score, query))
            chosen = np.zeros(query.size, np.bool_)
            chosen[order[_rank(query[order]) < width]] = True
            return chosen

        return self._descend(queries, good, every=True)

    def _descend(
        self, queries: Queries, keep: Callable[[Ints, Floats, Floats], Bools], *, every: bool = False
    ) -> Found:
        """The objects that `keep` keeps, below blocks that it keeps; or `every` object below these."""
        tree, metric, falls = self.places.tree, CODES[self.wish.metric], self._corner()
        found: list[tuple[Ints, Rows, Floats]] = []
        query, block = rtree_spread.roots(tree, queries.x.size)
        while query.size:
            self.count["nodes_accessed"] += query.size
            entries = rtree_spread.children(tree, metric, queries, query, block, falls)
            kept = keep(entries.query, entries.attributes, entries.distance)
            entries = rtree_spread.Entries._make(column[kept] for column in entries)
            leaf = entries.child >= 0
            objects = rtree_spread.points(tree, metric, queries, entries.query[leaf], entries.child[leaf])
            self.count["nodes_accessed"] += int(leaf.sum())
            self.count["candidates"] += objects.query.size
            if not every:
                kept = keep(objects.query, objects.attributes, objects.distance)
                objects = rtree_spread.Entries._make(column[kept] for column in objects)
            found.append((objects.query, objects.child.astype(np.int32), objects.distance))
            query, block = entries.query[~leaf], ~entries.child[~leaf]
        columns = [np.concatenate(column) for column in zip(*found, strict=True)] if found else []
        if not columns:
            columns = [np.empty(0, np.int64), np.empty(0, np.int32), np.empty(0)]
        order = np.argsort(columns[0], kind="stable")
        of, row, away = (column[order] for column in columns)
        return Found(of, row, away, self._scores(row, away))

    def _finite(self, box: Floats, queries: Floats) -> bool:
        """Whether the best and the worst corner of a box (2, 4 + d) of objects have finite scores."""
        far, falls = self._farthest(box, queries), self._corner()
        low, high = box[0, STATIC:], box[1, STATIC:]
        corners = np.stack([np.where(falls, high, low), np.where(falls, low, high)])
        return bool(np.isfinite(self._f(corners, np.array([0.0, far]))).all())


def _rank(query: Ints) -> Ints:
    """The place of each entry among those of its query; entries are query by query."""
    starts = np.flatnonzero(np.concatenate([[True], query[1:] != query[:-1]]))
    sizes = np.diff(np.concatenate([starts, [query.size]]))
    return np.arange(query.size) - np.repeat(starts, sizes)


def _value_at(found: Found, place: Ints, queries: int) -> Floats:
    """The score at a place of each query's ranking; infinite if it is not that long."""
    count = np.bincount(found.query, minlength=queries)
    start = np.cumsum(count) - count
    there = (place < count) & (place >= 0)
    limit = np.full(queries, np.inf)
    limit[there] = found.score[(start + place)[there]]
    return limit
