"""`method="zone"` of `MovingSkyline`: results kept by safe zones.

Between calls each subscription has a zone around some place, inside which its skyline is known. A query that
moves within its zone is followed without looking at the objects; one that leaves it gets a new zone. An
object that changes breaks the zones that list it, and those in which it comes into the skyline: these get
new zones too, and no others.

Zones are cut to a universe: the one that was given, or a box that holds all objects and queries there have
been, with a margin. It grows when something comes that is outside, and the zones that it bounds with it.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from rankcast.core.engine import Part
from rankcast.moving.kernels import skyline_admit, skyline_break, skyline_follow, zone_follow
from rankcast.moving.kernels.skyline_search import Seekers
from rankcast.moving.moving_skyline_shapes import Shapes, Universe
from rankcast.moving.places import box_of, fixed
from rankcast.moving.skyline_store import SkylinePlaces, SkylineZones
from rankcast.structures.distance import CODES, EUCLIDEAN
from rankcast.structures.ids import Slots
from rankcast.tables.deltas import Lists, empty_lists
from rankcast.tables.schema import Floats, Rows

MANY, A_ZONE = 350, 7  # objects, also a zone, beyond which looking for broken zones costs more than new ones


class SkylineWish(NamedTuple):
    """What the engine was asked for: the metric, which way attributes are good, members more, threads."""

    metric: str
    sign: Floats
    m: int
    threads: int
    universe: list[float] | None


@dataclass
class SkylineMethod(Shapes):
    """Zones of all subscriptions over all objects."""

    wish: SkylineWish
    subscriptions: Slots
    objects: Slots
    count: dict[str, int]
    zones: SkylineZones = field(default_factory=SkylineZones)

    def __post_init__(self) -> None:
        self.metric = CODES[self.wish.metric]
        self.places = SkylinePlaces(self.wish.sign.size)
        self.universe = Universe(self.wish.universe)
        self._grew = False  # whether the universe did with the objects that came last

    def parts(self) -> dict[str, Part]:
        """The parts of the state."""
        return {"place": self.places, "zone": self.zones, "universe": self.universe}

    def check_restored(self) -> None:
        """Refuse places and zones from a snapshot that are not those of objects and subscriptions."""
        objects, live = self.objects, self.subscriptions["sequence"] >= 0
        there = objects["sequence"] >= 0
        self.places.check_restored(there, objects["x"], objects["y"])
        items = there[: len(self.places.record)]
        self.zones.check_restored(live, items)

    # Results

    def lists(self, rows: Rows) -> Lists:
        """The results of subscriptions at their places."""
        if not rows.size:
            return empty_lists()
        found = skyline_follow.read_results(
            self.metric, self.places.record, self.objects.label, self.zones.kept, rows, *self._at(rows)
        )
        return Lists(*found)

    def _at(self, rows: Rows) -> tuple[Floats, Floats]:
        return self.subscriptions["x"][rows], self.subscriptions["y"][rows]

    # Queries

    def renew(self, rows: Rows) -> None:
        """Give subscriptions new zones around their places."""
        if not rows.size:
            return
        x, y = self._at(rows)
        (low, high), objects = box_of(x, y), self.places.bounds()[:, :2]
        if self.universe.take_in(np.minimum(low, objects[0]), np.maximum(high, objects[1])):
            rows = np.union1d(rows, np.flatnonzero(self.zones.cut)).astype(np.int32)
            x, y = self._at(rows)
        lower, upper = (ends[rows] for ends in self._filters())
        filtered = bool((lower > -np.inf).any() or (upper < np.inf).any())
        seekers = Seekers(x, y, lower, upper, filtered)
        wish = self.wish
        found, work = self.places.zones(self.metric, seekers, self.universe.box, wish.m, wish.threads)
        self.zones.put(rows, x, y, found)
        self.count["recomputed"] += rows.size
        self.count["nodes_accessed"] += int(work[0])
        self.count["candidates"] += int(work[1])

    def _filters(self) -> tuple[Floats, Floats]:
        """The filters of all subscriptions, turned like attributes."""
        held, turned = self.subscriptions, self.wish.sign < 0
        lower, upper = held["lower"], held["upper"]
        if not turned.any():
            return lower, upper
        return np.where(turned, -upper, lower), np.where(turned, -lower, upper)

    def leave(self, rows: Rows) -> None:
        """Forget the zones of subscriptions."""
        self.zones.drop(rows)

    def follow(self, rows: Rows, x: Floats, y: Floats) -> tuple[Rows, Lists]:
        """Bring queries to new places; returns those whose result may be another, with the results before."""
        held, kept = self.subscriptions, self.zones.kept
        if self.metric == EUCLIDEAN:
            left = skyline_follow.follow(kept, rows, fixed(x), fixed(y), held["x"], held["y"])
            rows, x, y = rows[left], x[left], y[left]
            outside = rows
        else:
            circles = kept.x, kept.y, kept.radius
            outside = rows[~zone_follow.inside(self.metric, circles, rows, (fixed(x), fixed(y)))]
        before = self.lists(rows)
        held["x"][rows], held["y"][rows] = x, y
        self.renew(outside)
        return rows, before

    # Objects

    def listing(self, objects: Rows) -> Rows:
        """The subscriptions whose zones have one of the objects as a member."""
        live = self._live()
        marked = np.zeros(self.zones.kept.count.size, np.bool_)
        if objects.size and live.size:
            among = self.places.record.shape[0]
            skyline_break.mark_listing(self.metric, self.zones.kept, live, objects, among, marked)
        return np.flatnonzero(marked).astype(np.int32)

    def _live(self) -> Rows:
        """The live subscriptions, in no order of theirs."""
        held = self.subscriptions
        return np.flatnonzero(held["sequence"][: held.used] >= 0).astype(np.int32)

    def drop(self, objects: Rows) -> None:
        """Forget objects."""
        self.places.remove(objects)

    def put(self, objects: Rows) -> None:
        """Follow objects, new or not, that have been written."""
        held = self.objects
        attributes = self.wish.sign * held["attributes"][objects]
        self.places.put(objects, np.column_stack([held["x"][objects], held["y"][objects], attributes]))

    def broken(self, objects: Rows, beside: Rows) -> Rows:
        """The subscriptions, none of those `beside`, whose zones objects break that are no members."""
        live = self._live()
        marked = np.zeros(self.zones.kept.count.size, np.bool_)
        marked[beside] = True
        if objects.size > max(MANY, A_ZONE * live.size):
            marked[live] = True
        elif objects.size and live.size:
            places = (self.places.tree, self.places.record, self.universe.box)
            skyline_break.mark_broken(
                self.metric, places, self.zones.kept, live, objects, self._filters(), marked
            )
        self._grew = False
        if objects.size and live.size:
            points = self.places.record[objects, :2]
            self._grew = self.universe.take_in(points.min(axis=0), points.max(axis=0))
            if self._grew:
                marked[: self.zones.cut.size] |= self.zones.cut
        marked[beside] = False
        return np.flatnonzero(marked).astype(np.int32)

    def admit(self, objects: Rows, listing: Rows, broken: Rows) -> None:
        """Give subscriptions that list objects, or whose zones objects break, new zones."""
        if objects.size == 1 and broken.size and self.metric == EUCLIDEAN and not self._grew:
            x, y = self._at(broken)
            found, done = skyline_admit.admit(
                self.zones.kept, self.places.record, broken, x, y, np.int64(objects[0])
            )
            self.zones.put(broken[done], x[done], y[done], found)
            self.count["recomputed"] += int(done.sum())
            broken = broken[~done]
        self.renew(np.concatenate([listing, broken]))

    # Zones

    def members(self, row: int) -> Rows:
        """The results of a zone at its centre, by distance, then what bounds it or may come in."""
        kept = self.zones.kept
        found: Rows = kept.member[kept.start[row] : kept.start[row] + kept.count[row]]
        return found
