"""Bounds of a custom score, for many objects of many queries at once.

Nothing is known of the function but that it is monotonic. In a circle of radius r an object at distance d
scores at least f(a, d - r) and at most f(a, d + r) [Moving §4.3, Lemma 10]. That takes the worst of two
objects at once, where no place has both. So where it does not tell, the circle is cut into rings around a
rival: in a ring from b to c the rival scores at least f(a, b), and one of the best at most what it does at
its greatest distance in that part of the circle (`rankcast.moving.kernels.rings`). All rivals of all queries
are looked at together, ring by ring, those that do not tell again in parts.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankcast.moving import scoring
from rankcast.moving.index import TopKObjects
from rankcast.moving.kernels import scores
from rankcast.moving.kernels.rings import farthest
from rankcast.structures.distance import HAVERSINE
from rankcast.structures.ids import Slots
from rankcast.tables.schema import Bools, Floats, Ints, Rows

APART = 1e-11
FIRST_PARTS, PARTS = 8, 4  # rings at first, and into how many one is parted

Places = tuple[Floats, Floats, Floats]


class ScoredObjects(NamedTuple):
    """Objects of queries, query by query."""

    query: Ints
    row: Rows
    distance: Floats
    score: Floats

    def at(self, index: Any) -> ScoredObjects:
        """The objects at the given places."""
        return ScoredObjects._make(column[index] for column in self)

    def rank(self) -> Ints:
        """The place of each object among those of its query."""
        starts = np.flatnonzero(np.concatenate([[True], self.query[1:] != self.query[:-1]]))
        sizes = np.diff(np.concatenate([starts, [self.query.size]]))
        return np.arange(self.query.size) - np.repeat(starts, sizes)


class Rings(NamedTuple):
    """Rings around rivals, each by its place: from one distance to another."""

    rival: Ints
    low: Floats
    high: Floats

    def at(self, index: Any) -> Rings:
        """The rings at the given places."""
        return Rings._make(column[index] for column in self)

    def parted(self, parts: int) -> Rings:
        """Each ring as so many thinner ones."""
        edge = np.linspace(0.0, 1.0, parts + 1)
        low = self.low[:, None] + (self.high - self.low)[:, None] * edge
        low[:, -1] = self.high
        return Rings(np.repeat(self.rival, parts), low[:, :-1].ravel(), low[:, 1:].ravel())


@dataclass
class CustomScore:
    """A function of attributes and distance, and the objects it scores."""

    score: scoring.Score
    metric: int
    objects: Slots
    places: TopKObjects

    def __call__(self, attributes: Floats, away: Floats) -> Floats:
        """The scores of attributes (n, d) at some distances."""
        with np.errstate(all="ignore"):
            return self.score(attributes, away)

    def of(self, rows: Rows, away: Floats) -> Floats:
        """The scores of objects at some distances."""
        return self(self.objects["attributes"][rows], away)

    @property
    def fuzz(self) -> float:
        """What rounding may do to a distance, as a part of it."""
        return scores.FUZZ if self.metric == HAVERSINE else scores.PLANE_FUZZ

    def nearer(self, away: Floats, radius: Floats) -> Floats:
        """The least distance in a circle."""
        finite = np.where(np.isinf(radius), away, radius)
        near: Floats = np.maximum(0.0, away - finite - self.fuzz * (away + finite))
        return near

    def highest(self, best: ScoredObjects, radius: Floats) -> Floats:
        """At least the score of each of the best anywhere in a circle, by query; -inf without any."""
        scores = self.of(best.row, (best.distance + radius[best.query]) * (1 + self.fuzz))
        return _set_apart(_most_of(scores, best.query, radius.size))

    def apart(self, best: ScoredObjects, rivals: ScoredObjects, radius: Floats) -> Bools:
        """Which rivals stay behind all the best in a circle, by query, by Lemma 10."""
        away = self.nearer(rivals.distance, radius[rivals.query])
        behind: Bools = self.of(rivals.row, away) > self.highest(best, radius)[rivals.query]
        return behind

    def behind(
        self,
        place: Places,
        best: ScoredObjects,
        rivals: ScoredObjects,
        radius: Floats,
        rings: int,
        enough: int = 1 << 30,
    ) -> Bools:
        """Which rivals stay behind all the best in a circle, by the lemma or else by rings.

        `place` and `radius` are by query. A ring that does not tell is parted, down to some `rings` a rival,
        unless at its middle the rival does come before one of the best. A query with `enough` such rivals is
        left at that: all its others that are open count as not behind.
        """
        found = self.apart(best, rivals, radius)
        best = self._foremost(best, radius)
        left = np.flatnonzero(~found & (radius > 0)[rivals.query])
        away, wide = rivals.distance[left], radius[rivals.query[left]]
        ring = Rings(left, np.maximum(0.0, away - wide), away + wide)
        found[left] = True
        for parts in _parts(rings):
            ring = ring.parted(parts)
            ring = ring.at(~self._tells(place, best, rivals, radius, ring))
            middle = 0.5 * (ring.low + ring.high)
            crossed = ~self._tells(place, best, rivals, radius, ring._replace(low=middle, high=middle))
            found[ring.rival[crossed]] = False
            full = np.bincount(rivals.query[~found], minlength=radius.size) >= enough
            found[ring.rival[full[rivals.query[ring.rival]]]] = False
            ring = ring.at(found[ring.rival])
        found[ring.rival] = False
        return found

    def _tells(
        self, place: Places, best: ScoredObjects, rivals: ScoredObjects, radius: Floats, ring: Rings
    ) -> Bools:
        """Whether rivals are behind all the best at the places of the circle in a ring around them."""
        query = rivals.query[ring.rival]
        start, end = np.searchsorted(best.query, query), np.searchsorted(best.query, query, side="right")
        size = end - start
        which = np.repeat(np.arange(query.size), size)
        first = best.row[np.arange(which.size) + np.repeat(start - (np.cumsum(size) - size), size)]
        pairs = first, rivals.row[ring.rival[which]]
        away = farthest(
            self.metric,
            self.places.record,
            place,
            query[which],
            pairs,
            radius,
            (ring.low[which], ring.high[which]),
        )
        most = _set_apart(_most_of(self.of(first, away * (1 + self.fuzz)), which, query.size))
        found: Bools = self.of(rivals.row[ring.rival], self.nearer(ring.low, 0.0 * ring.low)) > most
        return found

    def _foremost(self, best: ScoredObjects, radius: Floats) -> ScoredObjects:
        """Those of the best that may be the last of them somewhere in a circle."""
        away = best.distance + radius[best.query]
        most = self.of(best.row, away * (1 + self.fuzz))
        near = self.of(best.row, self.nearer(best.distance, radius[best.query]))
        least = _most_of(near, best.query, radius.size)
        return best.at(~(most < least[best.query]))


def _parts(rings: int) -> list[int]:
    """Into how many parts rings are cut, step by step."""
    steps, most = [FIRST_PARTS], FIRST_PARTS
    while most < rings:
        steps, most = [*steps, PARTS], most * PARTS
    return steps


def _most_of(scores: Floats, query: Ints, queries: int) -> Floats:
    """The highest score of each query, -inf without any; NaN, which bounds nothing, if one is."""
    found = np.full(queries, -np.inf)
    with np.errstate(invalid="ignore"):
        np.maximum.at(found, query, scores)
    return found


def _set_apart(highest: Floats) -> Floats:
    """A little more than the highest scores, for rounding."""
    there = np.isfinite(highest)
    return np.where(there, highest + APART * np.abs(np.where(there, highest, 0.0)), highest)
