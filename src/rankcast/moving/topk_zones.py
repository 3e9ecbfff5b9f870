"""`method="zone"` of `MovingTopK`: results kept by safe zones, for the scores of `rankcast.moving.scoring`.

Between calls each subscription has a zone around some place near it, and the first k members of the zone are
its result. A query that moves within its zone is followed by the members alone; one that leaves it gets a
new zone. An object that changes breaks the zones that list it, and those in which it may come before one of
their best: these get new zones too, and no others.

What a `MovingTopK` with zones was asked for, as kernels and indexes take it.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, cast

import numpy as np

from rankcast.core.engine import Part
from rankcast.moving import scoring
from rankcast.moving.index import PlaceIndex
from rankcast.moving.kernels import scores, zone_follow
from rankcast.moving.kernels.rtree_search import Queries
from rankcast.moving.kernels.scores import STATIC, Form
from rankcast.moving.kernels.zone_follow import OUTSIDE, SAME
from rankcast.moving.zones import ZoneIndex
from rankcast.structures.distance import CODES, HALF_CIRCUMFERENCE, distance
from rankcast.structures.ids import Slots
from rankcast.tables import deltas
from rankcast.tables.deltas import Lists
from rankcast.tables.schema import Bools, Floats, Ints, Rows

KINDS = {
    scoring.SUM: scores.SUM,
    scoring.PRODUCT: scores.PRODUCT,
    scoring.DISTANCE: scores.DISTANCE,
    scoring.WASPAS: scores.WASPAS,
}
WAYS = {"closed": scores.CLOSED, "trim": scores.TRIM, "lemma": scores.LEMMA}
METRES_A_DEGREE = HALF_CIRCUMFERENCE / 180


class Wish(NamedTuple):
    """The settings of the engine that zones depend on."""

    score: scoring.Score
    metric: str
    k: int
    m: int
    ordered: bool
    threads: int
    circle: str = "closed"
    epsilon: float = 1e-4
    rounds: int = 100

    @property
    def weighted(self) -> scoring.Weighted:
        """The score, which is none of one's own."""
        return cast(scoring.Weighted, self.score)

    def form(self) -> Form:
        """A score with weights as kernels take it."""
        score = self.weighted
        lam = 1.0 if score.lam is None else score.lam
        return Form(
            KINDS[score.name],
            CODES[self.metric],
            float(score.distance_weight),
            float(lam),
            float(1 - lam),
            WAYS[self.circle],
            self.epsilon,
            self.rounds,
        )

    def split_weights(self, attributes: int) -> list[float | None]:
        """How much x, y, sum, product and attributes count when objects are split into blocks.

        In a weighted sum, as they do there.
        """
        score, others = self.weighted, attributes * [0.0]
        if score.name == scoring.SUM:
            weight = score.distance_weight * (METRES_A_DEGREE if self.metric == "haversine" else 1)
            return [weight, weight, 1.0, 0.0, *others]
        by_sum = None if score.name != scoring.PRODUCT else 0.0
        by_product = None if score.name != scoring.DISTANCE else 0.0
        return [None, None, by_sum, by_product, *others]


@dataclass
class ZoneMethod:
    """Zones of all subscriptions over all objects."""

    wish: Wish
    subscriptions: Slots
    objects: Slots
    over: list[str]
    count: dict[str, int]

    def __post_init__(self) -> None:
        self.places = PlaceIndex(self._split_weights())
        self.zones = ZoneIndex()

    @cached_property
    def form(self) -> Form:
        """The score as kernels take it."""
        return self.wish.form()

    def parts(self) -> dict[str, Part]:
        """The parts of the state."""
        return {"place": self.places, "zone": self.zones}

    def _split_weights(self) -> list[float | None]:
        return self.wish.split_weights(len(self.over))

    def check_restored(self) -> None:
        """Refuse places and zones from a snapshot that are not those of objects and subscriptions."""
        objects, live = self.objects, self.subscriptions["sequence"] >= 0
        there = objects["sequence"] >= 0
        self.places.check_restored(there, objects["x"], objects["y"])
        items = there[: len(self.places.record)]
        self.zones.check_restored(live, items)

    # Results

    def k_of(self, rows: Rows) -> Ints:
        """How many items each subscription wants."""
        own: Ints = self.subscriptions["k"][rows]
        return np.where(own > 0, own, self.wish.k)

    def lists(self, rows: Rows) -> Lists:
        """The results of subscriptions at their places."""
        if not rows.size:
            return deltas.empty_lists()
        held = self.zones.held
        sizes = np.minimum(held.count[rows], self.k_of(rows))
        starts = np.concatenate([[0], np.cumsum(sizes)])
        total = int(starts[-1])
        lists = Lists(
            np.empty(total, np.int32), np.empty(total, np.int32), np.empty(total), np.empty(total, np.int64)
        )
        self._read_results(rows, starts, lists)
        return lists

    def _read_results(self, rows: Rows, starts: Ints, lists: Lists) -> None:
        items, away = self._members(rows, self._at(rows), starts)
        lists.item[:], lists.score[:] = items, self._scores(items, away)
        zone_follow.rank_results(
            self.objects.label, rows, starts, (lists.subscription, lists.item, lists.score, lists.rank)
        )

    def _members(self, rows: Rows, places: tuple[Floats, Floats], starts: Ints) -> tuple[Rows, Floats]:
        """The first members of zones, as many as `starts` has room for, and how far from places they are."""
        found: tuple[Rows, Floats] = zone_follow.members_at(
            CODES[self.wish.metric], self.places.record, self.zones.held, rows, places, starts
        )
        return found

    def _scores(self, items: Rows, away: Floats) -> Floats:
        """The scores of objects at some distances."""
        scores: Floats = zone_follow.scores_of(self.form, self.places.record, items, away)
        return scores

    def _at(self, rows: Rows) -> tuple[Floats, Floats]:
        return self.subscriptions["x"][rows], self.subscriptions["y"][rows]

    # Queries

    def renew(self, rows: Rows) -> None:
        """Give subscriptions new zones around their places."""
        if not rows.size:
            return
        held = self.subscriptions
        lower, upper = held["lower"][rows], held["upper"][rows]
        filtered = bool((lower > -np.inf).any() or (upper < np.inf).any())
        x, y = self._at(rows)
        self._search(rows, Queries(x, y, self.k_of(rows), lower, upper, filtered))
        self.count["recomputed"] += rows.size

    def _search(self, rows: Rows, queries: Queries) -> None:
        wish = self.wish
        found, work = self.places.zones(self.form, self.objects.label, queries, wish.m, wish.threads)
        self.zones.put(rows, queries.x, queries.y, found)
        self.count["nodes_accessed"] += int(work[0])
        self.count["candidates"] += int(work[1])

    def leave(self, rows: Rows) -> None:
        """Forget the zones of subscriptions."""
        self.zones.drop(rows)

    def follow(self, rows: Rows, x: Floats, y: Floats) -> tuple[Rows, Lists]:
        """Bring queries to new places; returns those whose result may be another, with the results before."""
        k = self.k_of(rows)
        flags = self._follow(rows, x, y, k, ordered=self.wish.ordered)
        self.count["rescored"] += self._rescored(rows, flags, k)
        told = np.flatnonzero(flags != SAME)
        other = np.ascontiguousarray(rows[told])
        before = self.lists(other)
        self.subscriptions["x"][rows], self.subscriptions["y"][rows] = x, y
        outside = flags[told] == OUTSIDE
        turned = np.ascontiguousarray(other[~outside])
        if turned.size:
            self._follow(turned, *self._at(turned), self.zones.held.count[turned], ordered=True)
        self.renew(np.ascontiguousarray(other[outside]))
        return other, before

    def _rescored(self, rows: Rows, flags: zone_follow.Flags, k: Ints) -> int:
        """How many scores of members were computed where queries are: the cost of a client."""
        return int(zone_follow.rescored(self.zones.held.count, rows, flags, k, self.wish.ordered))

    def _follow(self, rows: Rows, x: Floats, y: Floats, k: Ints, *, ordered: bool) -> zone_follow.Flags:
        """Follow queries with results of size k; with k members nothing can turn, they only get in order."""
        flags: zone_follow.Flags = zone_follow.follow(
            self.form,
            self.places.record,
            self.objects.label,
            self.zones.held,
            rows,
            (x, y),
            k,
            ordered,
        )
        return flags

    # Objects

    def listing(self, objects: Rows) -> Rows:
        """The subscriptions whose zones have one of the objects, as they were so far, as a member."""
        if not objects.size:
            return np.empty(0, np.int32)
        marked = self._unmarked()
        self._mark_members(objects, marked)
        return np.flatnonzero(marked).astype(np.int32)

    def drop(self, objects: Rows) -> None:
        """Forget objects."""
        self.places.remove(objects)

    def put(self, objects: Rows) -> None:
        """Follow objects, new or not, that have been written."""
        held = self.objects
        attributes = held["attributes"][objects]
        points = np.empty((objects.size, STATIC + attributes.shape[1]))
        points[:, 0], points[:, 1] = held["x"][objects], held["y"][objects]
        points[:, 2:STATIC] = self._statics(attributes)
        points[:, STATIC:] = attributes
        self.places.put(objects, points)

    def _statics(self, attributes: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return self.wish.weighted.statics(attributes)

    def broken(self, objects: Rows, beside: Rows) -> Rows:
        """The subscriptions, none of those `beside`, whose zones objects break that are no members."""
        if not objects.size:
            return np.empty(0, np.int32)
        marked = self._unmarked()
        marked[beside] = True
        self._mark_broken(objects, marked)
        marked[beside] = False
        return np.flatnonzero(marked).astype(np.int32)

    def admit(self, objects: Rows, listing: Rows, broken: Rows) -> None:
        """Give subscriptions that list objects, or whose zones objects break, new zones."""
        self.renew(np.concatenate([listing, broken]))

    def _unmarked(self) -> Bools:
        return np.zeros(self.zones.held.count.size, np.bool_)

    def _mark_members(self, objects: Rows, marked: Bools) -> None:
        zone_follow.members(self.form, self.zones.tree, self.places.record, self.zones.held, objects, marked)

    def _mark_broken(self, objects: Rows, marked: Bools) -> None:
        held = self.subscriptions
        wants = (held["k"], self.wish.k, self.wish.m, held["lower"], held["upper"])
        zone_follow.newcomers(
            self.form,
            self.zones.tree,
            self.places.record,
            self.objects.label,
            self.zones.held,
            (objects, self.objects["attributes"][objects]),
            wants,
            marked,
        )

    def explain(self, row: int, item: int) -> dict[str, float | bool]:
        """What the zone of a subscription says of an object."""
        held = self.zones.held
        place = float(held.x[row]), float(held.y[row])
        members = held.member[held.start[row] : held.start[row] + held.count[row]]
        here = float(self.subscriptions["x"][row]), float(self.subscriptions["y"][row])
        return {
            "zone_radius": float(held.radius[row]),
            "zone_distance": float(distance(CODES[self.wish.metric], *place, *here)),
            "member": bool((members == item).any()),
        }
