"""Bounds of a custom score, for many objects of many queries at once.

Nothing is known of the function but that it is monotonic. In a circle of radius r an object at distance d
scores at least f(a, d - r) and at most f(a, d + r) [Moving §4.3, Lemma 10]; in a rectangle, f of its least
and its greatest distance (Lemma 12). `circles` is Algorithm 5 without relative distances, for all rivals of
all queries together: rectangles around each query are quartered, level by level. A rectangle in which the
lowest score of a rival is above the highest of all the best is safe from it; where the rival is before one of
them at the point nearest to the query, that point ends its circle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from rankcast.moving import scoring
from rankcast.moving.index import TopKObjects
from rankcast.moving.kernels import scores
from rankcast.structures.distance import HAVERSINE
from rankcast.structures.ids import Slots
from rankcast.tables.schema import Bools, Floats, Ints, Rows

APART = 1e-11
INWARD = 1 - 1e-12
NEARLY = 0.98  # of the largest circle there is


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


class CircleSettings(NamedTuple):
    """How fine circles are found: the m-th smallest, the smallest rectangle as a part, how many a circle."""

    m: int
    side: float
    boxes: int


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

    def circles(
        self,
        place: tuple[Floats, Floats],
        best: ScoredObjects,
        rivals: ScoredObjects,
        limit: Floats,
        fine: CircleSettings,
    ) -> Floats:
        """How far, at most `limit`, queries may go before a rival may come before one of their best.

        `place` and `limit` are by query; a query with rivals has one of the best at least. Only the m-th
        smallest circle of each query is brought to the end; smaller ones may come out smaller still, and
        larger ones as large as it.
        """
        found = limit[rivals.query]
        best = self._foremost(best, limit)
        item = np.flatnonzero(found > 0)
        query, at = np.unique(rivals.query[item], return_inverse=True)
        x, y, half = place[0][query], place[1][query], limit[query]
        boxes = np.column_stack([x - half, x + half, y - half, y + half])
        side, left_to_see = 2.0, fine.boxes * item.size
        while item.size:
            spots, away = scores.touched(self.metric, place[0][query], place[1][query], boxes)
            unsafe = ~self._behind(best, query, boxes, rivals.row[item], at)
            item, at = item[unsafe], at[unsafe]
            left_to_see -= query.size
            if side <= fine.side or left_to_see <= 0:
                np.minimum.at(found, item, away[at])
                break
            apart = np.flatnonzero(away[at] > 0)
            ends = apart[~self._behind(best, query, spots, rivals.row[item[apart]], at[apart])]
            np.minimum.at(found, item[ends], away[at[ends]])
            item, at = self._undecided(rivals, limit, fine.m, found, item, at, away)
            kept, at = np.unique(at, return_inverse=True)
            query, boxes, side = np.repeat(query[kept], 4), scores.quartered(boxes[kept]), side / 2
            item, at = np.repeat(item, 4), (4 * at[:, None] + np.arange(4)).ravel()
        full = limit[rivals.query]
        return np.where(found < full, found * INWARD, full)

    def _foremost(self, best: ScoredObjects, radius: Floats) -> ScoredObjects:
        """Those of the best that may be the last of them somewhere in a circle."""
        away = best.distance + radius[best.query]
        most = self.of(best.row, away * (1 + self.fuzz))
        near = self.of(best.row, self.nearer(best.distance, radius[best.query]))
        least = _most_of(near, best.query, radius.size)
        return best.at(~(most < least[best.query]))

    def _undecided(
        self, rivals: ScoredObjects, limit: Floats, m: int, found: Floats, item: Ints, at: Ints, away: Floats
    ) -> tuple[Ints, Ints]:
        """The items, a rival and a rectangle each, on which the m-th smallest circle may depend.

        It is no smaller than the m-th of what is safe so far, and no larger than the m-th of what is found;
        where these are nearly the same, it is left at the former.
        """
        sure = found.copy()
        np.minimum.at(sure, item, away[at])
        least, most = (_smallest(rivals, circle, m, limit) for circle in (sure, found))
        settled = (found < least[rivals.query]) | (least > NEARLY * most)[rivals.query]
        np.minimum(found, np.where(settled, sure, most[rivals.query]), out=found)
        kept = ~settled[item] & (away[at] < found[item])
        return item[kept], at[kept]

    def _behind(self, best: ScoredObjects, query: Ints, boxes: Floats, rivals: Rows, at: Ints) -> Bools:
        """Whether rivals are behind all the best everywhere in their rectangles (Lemma 12)."""
        boxes_used, which = np.unique(at, return_inverse=True)
        near: Floats = scores.away(self.metric, self.places.record, rivals, at, boxes, False)
        most = self._most(best, query[boxes_used], boxes[boxes_used])[which]
        behind: Bools = self.of(rivals, near * (1 - self.fuzz)) > most
        return behind

    def _most(self, best: ScoredObjects, query: Ints, boxes: Floats) -> Floats:
        """At least the score of each of the best anywhere in the rectangles, of which each has a query."""
        start, end = np.searchsorted(best.query, query), np.searchsorted(best.query, query, side="right")
        size = end - start
        ends = np.cumsum(size)
        which = np.repeat(np.arange(query.size), size)
        rows = best.row[np.arange(which.size) + np.repeat(start - (ends - size), size)]
        far = scores.away(self.metric, self.places.record, rows, which, boxes, True) * (1 + self.fuzz)
        with np.errstate(invalid="ignore"):
            return _set_apart(np.maximum.reduceat(self.of(rows, far), ends - size))


def _most_of(scores: Floats, query: Ints, queries: int) -> Floats:
    """The highest score of each query, -inf without any; NaN, which bounds nothing, if one is."""
    found = np.full(queries, -np.inf)
    with np.errstate(invalid="ignore"):
        np.maximum.at(found, query, scores)
    return found


def _smallest(rivals: ScoredObjects, circle: Floats, m: int, limit: Floats) -> Floats:
    """The m-th smallest circle of each query, at most its limit."""
    order = np.lexsort((circle, rivals.query))
    ends = order[rivals.rank() == m - 1]
    found = limit.copy()
    found[rivals.query[ends]] = circle[ends]
    return found


def _set_apart(highest: Floats) -> Floats:
    """A little more than the highest scores, for rounding."""
    there = np.isfinite(highest)
    return np.where(there, highest + APART * np.abs(np.where(there, highest, 0.0)), highest)
