"""Zones for a score of one's own: all queries of a call go down the R-tree together.

The function is given many objects of many queries at once, and blocks of the R-tree as objects with the
attributes of their best corner: the score is monotonic, so nothing inside scores less. With the best k
objects and m more at hand, bounds give a circle in which fewer than m of the m may come before one of the k.
Only objects that may do so within twice its radius have to be looked at (Lemma 11). The m-th smallest circle
of all, or that radius if it is smaller, is the zone.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from rankcast.moving import scoring
from rankcast.moving.custom_bounds import Fine, Found, OwnScore
from rankcast.moving.descent import Test, descend
from rankcast.moving.kernels.rtree_search import Queries
from rankcast.moving.kernels.rtree_spread import Corner
from rankcast.moving.kernels.zone_scores import STATIC
from rankcast.moving.kernels.zone_search import Zones
from rankcast.tables.schema import Bools, Floats, Ints

STEPS = 30
GROWTHS = 15  # a zone is looked for up to 4^15 times as far as its best objects are
ROOMY = 2.0  # the largest circle that is looked for, in radii that bounds alone allow


@dataclass
class OwnSearch:
    """A search for the zones of some queries; `nodes` and `tried` count the work.

    `falls` says in which attributes the score falls; `fine` how fine rectangles get, None for bounds in
    circles alone.
    """

    own: OwnScore
    queries: Queries
    m: int
    falls: Bools
    fine: Fine | None
    nodes: int = 0
    tried: int = 0

    def zones(self) -> Zones:
        """The zones of the queries."""
        queries, own = self.queries, self.own
        board = self._board()
        rank, k = board.rank(), queries.k[board.query]
        best, others = board.at(rank < k), board.at((k <= rank) & (rank < k + self.m))
        full = np.bincount(others.query, minlength=queries.x.size) == self.m
        limit = self._shared_radius(best, others, np.full(queries.x.size, np.inf), full)
        limit *= ROOMY if self.fine else 1.0
        reach = own.highest(best, limit)
        rivals = self._descend(
            lambda query, a, d: full[query] & ~(own(a, own.nearer(d, limit[query])) > reach[query])
        )
        rivals = _joined(_without(rivals, best), others)
        return self._members(best, rivals, self._circles(best, rivals, limit, full), limit, full)

    def _board(self) -> Found:
        """The best k + m objects of each query, in order, and others as good as the last."""
        queries, own = self.queries, self.own
        size = np.minimum(queries.k + self.m, len(own.places))
        limit = _score_at(self._ranked(self._probe(size)), size - 1, queries.x.size)
        return self._ranked(self._descend(lambda query, a, d: ~(own(a, d) > limit[query])))

    def _probe(self, size: Ints) -> Found:
        """Some good objects of each query, more than `size` if there are as many."""
        width = 4 + 2 * int(size.max(initial=0)) // 16

        def good(query: Ints, attributes: Floats, away: Floats) -> Bools:
            score = self.own(attributes, away)
            order = np.lexsort((score, query)).astype(np.int32)
            chosen = np.zeros(query.size, np.bool_)
            chosen[order[Found(query[order], order, away, score).rank() < width]] = True
            return chosen

        return self._descend(good, every=True)

    def _descend(self, keep: Test, *, every: bool = False) -> Found:
        """The objects that a test keeps, with their scores."""
        own = self.own
        found = descend(
            own.places.tree, own.metric, self.queries, Corner(STATIC, self.falls), keep, every=every
        )
        self.nodes += found.nodes
        self.tried += found.tried
        score = scoring.no_nan("score", own.of(found.row, found.distance))
        return Found(found.query, found.row, found.distance, score)

    def _ranked(self, found: Found) -> Found:
        """Objects by query, score and id."""
        return found.at(np.lexsort((self.own.objects.label[found.row], found.score, found.query)))

    # Circles

    def _circles(self, best: Found, rivals: Found, limit: Floats, full: Bools) -> Floats:
        """The circles of rivals, at most `limit` of their queries."""
        if self.fine:
            return self.own.circles((self.queries.x, self.queries.y), best, rivals, limit, self.fine)
        radius = self._shared_radius(best, rivals, limit, full)
        breaks = ~self._apart(best, rivals, radius)
        return np.where(breaks, 0.0, radius[rivals.query])

    def _apart(self, best: Found, rivals: Found, radius: Floats) -> Bools:
        """Which rivals stay behind all the best in a circle by Lemma 10."""
        away = self.own.nearer(rivals.distance, radius[rivals.query])
        behind: Bools = self.own.of(rivals.row, away) > self.own.highest(best, radius)[rivals.query]
        return behind

    def _shared_radius(self, best: Found, rivals: Found, limit: Floats, full: Bools) -> Floats:
        """The largest radius, by query, in which all rivals but m - 1 stay behind by Lemma 10."""

        def safe(radius: Floats) -> Bools:
            crossing = np.bincount(
                rivals.query, weights=~self._apart(best, rivals, radius), minlength=full.size
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

    def _members(self, best: Found, rivals: Found, circle: Floats, limit: Floats, full: Bools) -> Zones:
        """The zones: the m-th smallest circle of each query, with the rivals that have smaller ones."""
        own = self.own
        order = np.lexsort((self.own.objects.label[rivals.row], rivals.score, circle, rivals.query))
        rivals, circle = rivals.at(order), circle[order]
        rank = rivals.rank()
        radius = limit.copy()
        ends = rank == self.m - 1
        radius[rivals.query[ends]] = circle[ends]
        extra = rivals.at(rank < self.m - 1)
        reach = np.where(full, own.highest(best, radius), np.inf)
        least = own.of(extra.row, own.nearer(extra.distance, radius[extra.query]))
        with np.errstate(invalid="ignore"):
            np.maximum.at(reach, extra.query, least)
        reach[np.isnan(reach)] = np.inf  # nothing is known of what is beyond
        owner = np.concatenate([best.query, extra.query])
        member = np.concatenate([best.row, extra.row])[np.argsort(owner, kind="stable")]
        count = np.bincount(owner, minlength=full.size)
        return Zones(np.cumsum(count) - count, count, member, np.where(full, radius, np.inf), reach)


def _score_at(found: Found, place: Ints, queries: int) -> Floats:
    """The score at a place of each query's ranking; infinite if it is not that long."""
    count = np.bincount(found.query, minlength=queries)
    start = np.cumsum(count) - count
    there = (place < count) & (place >= 0)
    limit = np.full(queries, np.inf)
    limit[there] = found.score[(start + place)[there]]
    return limit


def _without(found: Found, others: Found) -> Found:
    """What is found and not among the others."""
    pairs = (found.query << 32) | found.row
    return found.at(~np.isin(pairs, (others.query << 32) | others.row))


def _joined(found: Found, others: Found) -> Found:
    """What is found or among the others, each once."""
    both = zip(_without(found, others), others, strict=True)
    joined = Found._make(np.concatenate(columns) for columns in both)  # type: ignore[arg-type]
    return joined.at(np.argsort(joined.query, kind="stable"))
