"""`method="zone"` of `MovingTopK`: results kept by safe zones, for the scores of `rankcast.moving.scoring`.

Between calls each subscription has a zone around some place near it, and the first k members of the zone are
its result. A query that moves within its zone is followed by the members alone; one that leaves it gets a
new zone. An object that changes breaks the zones that list it, and those in which it may come before one of
their best: these get new zones too, and no others. `TopKZones` does that; `ZoneIndex` stores the zones, with
an R-tree over them.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any, NamedTuple, Self, cast

import numpy as np
from numpy.typing import NDArray

from rankcast.core.engine import Part
from rankcast.moving import scoring
from rankcast.moving.hours import ObjectSlots
from rankcast.moving.index import PointIndex, TopKObjects
from rankcast.moving.kernels import scores, zone_follow
from rankcast.moving.kernels.rtree_search import NO_Z, Queries
from rankcast.moving.kernels.scores import SPACE, STATIC, ScoreForm, Z
from rankcast.moving.kernels.zone_follow import OUTSIDE, SAME, ZoneColumns
from rankcast.moving.kernels.zone_search import FoundZones
from rankcast.moving.ragged import check_stretches
from rankcast.moving.undo import Step
from rankcast.structures import integrity
from rankcast.structures.arrays import grown, ranges
from rankcast.structures.distance import CODES, HALF_CIRCUMFERENCE
from rankcast.structures.ids import Slots
from rankcast.tables import deltas
from rankcast.tables.deltas import Lists
from rankcast.tables.schema import Bools, Floats, Ints, Rows

BY_ROW = ("x", "y", "radius", "reach", "start", "count", "room", "z")
SPARE = 1024
NO_LISTS = deltas.empty_lists()
NO_STEPS = np.empty(0, np.int64)


class ZoneIndex:
    """Zones of subscriptions: circles with members, and an R-tree over them.

    - Changing: `put`, `drop`.
    - Reading: `held` for kernels, and `tree` for searches of zones by place.
    - Snapshots: `state`, `restore`, `check_restored`; `check` for tests.

    The tree is brought up to date when it is read: as long as only queries move, nothing reads it.
    Members lie in one array, in place where a new zone has no more than the old one, and are moved together
    when more than half of it is unused.
    Memory: 65 bytes a subscription, 4 a member (up to twice that), and the tree.
    """

    def __init__(self, *, space: bool = False) -> None:
        none, nowhere = np.zeros(0), np.zeros(0, np.int64)
        members = np.zeros(0, np.int32)
        self.held = ZoneColumns(none, none, none, none, nowhere, nowhere, nowhere, members, none)
        self._space = space
        self._stale = np.zeros(0, np.bool_)  # not in the tree as it is now
        self.noted: list[Rows] | None = None  # those that are put, while somebody watches
        self._used = 0
        self._index = PointIndex([None, None, 0.0, 0.0, *([None] if space else [])])

    @property
    def tree(self) -> Any:
        """The R-tree of all zones: x, y, radius, reach."""
        stale = np.flatnonzero(self._stale).astype(np.int32)
        if stale.size:
            self._take_out(stale)
            self._index.insert(stale, self._points(stale))
            self._stale[stale] = False
        return self._index.tree

    def _points(self, rows: Any) -> Floats:
        """Zones as the tree has them."""
        held = self.held
        third = [held.z[rows]] if self._space else []
        return np.column_stack([held.x[rows], held.y[rows], held.radius[rows], held.reach[rows], *third])

    def put(self, rows: Rows, place: tuple[Floats, Floats, Floats], zones: FoundZones) -> None:
        """Set the zones of subscriptions, around the given places; z is empty in the plane."""
        if not rows.size:
            return
        if self.noted is not None:
            self.noted.append(rows)
        self.reserve(int(rows.max()) + 1)
        self._reserve_members(int(zones.count.sum()))
        held = self.held
        held.x[rows], held.y[rows] = place[:2]
        if self._space:
            held.z[rows] = place[2]
        self._used = int(zone_follow.store(held, rows, zones, self._used))
        self._stale[rows] = True

    def drop(self, rows: Rows) -> None:
        """Forget zones; a subscription that has none yet is passed over."""
        rows = rows[rows < self._stale.size]
        self._take_out(rows)
        self._stale[rows] = False
        self.held.count[rows] = self.held.room[rows] = 0

    def _take_out(self, rows: Rows) -> None:
        """Take zones out of the tree, those that are in it."""
        place = self._index.tree.place
        known = rows[rows < place.size]
        self._index.remove(known[place[known] >= 0])

    def reserve(self, rows: int) -> None:
        """Make room for rows."""
        held = self.held
        if rows > held.x.size:
            length = max(rows, 2 * held.x.size, 16)
            larger = {name: grown(getattr(held, name), length, 0) for name in BY_ROW}
            self.held = held._replace(**larger)
            self._stale = grown(self._stale, length, 0)

    def _reserve_members(self, members: int) -> None:
        """Make room for members at the end."""
        held = self.held
        if self._used + members > held.member.size:
            live = int(held.count.sum())
            size = max(held.member.size, SPARE)
            while size < live + members or size < 2 * live:
                size *= 2
            larger_member = np.zeros(size, np.int32)
            self._used = int(zone_follow.compact(held, larger_member))
            self.held = held._replace(member=larger_member)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        tree = {f"tree_{name}": array for name, array in self._index.state()[1].items()}
        return {"used": self._used}, {**self.held._asdict(), "stale": self._stale, **tree}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        tree = {name: array for name, array in arrays.items() if name.startswith("tree_")}
        columns = {name: array for name, array in arrays.items() if name not in tree}
        rows = columns["x"].size if "x" in columns else 0
        columns = {"z": np.zeros(rows), **columns}  # a snapshot of an older version has none
        known = {**self.held._asdict(), "stale": self._stale}
        wanted = {n: integrity.like(a, length=None if n == "member" else rows) for n, a in known.items()}
        integrity.forms(columns, wanted)
        self._used = integrity.whole(header, "used", 0, columns["member"].size)
        self.held = ZoneColumns(**{name: columns[name] for name in ZoneColumns._fields})
        self._stale = columns["stale"]
        self._index.restore({}, {name[5:]: array for name, array in tree.items()})
        return self

    def check_restored(self, live: Bools, items: Bools) -> None:
        """Refuse zones from a snapshot that are not of `live` subscriptions, or list others than `items`."""
        held, rows = self.held, np.flatnonzero(live)
        check_stretches("", live, (held.start, held.count, held.room), self._used)
        for name in ("x", "y", "z", "radius", "reach"):
            integrity.no_nan(getattr(held, name)[rows], name)
        integrity.finite(held.x[rows], "x")
        integrity.finite(held.y[rows], "y")
        integrity.finite(held.z[rows], "z")
        members = held.member[ranges(held.start[rows], held.count[rows])]
        integrity.within(members, 0, items.size, "member")
        integrity.need(items[members].all(), "member", "lists objects that are gone")
        self._index.check_restored(live)
        there = np.zeros_like(live)
        for known in (self._index.present(), self._stale):
            integrity.need(not known[there.size :].any(), "stale", "names nobody who is there")
            there[: known.size] |= known[: there.size]
        integrity.need(np.array_equal(there, live), "stale", "is not of the subscriptions that are there")

    def check(self, rows: Rows) -> None:
        """Assert the invariants; `rows` are the live subscriptions."""
        tree, held = self.tree, self.held
        present = np.flatnonzero(tree.place >= 0)
        assert np.array_equal(present, np.sort(rows))
        self._index.check(self._points(slice(None)))
        taken = np.zeros(held.member.size, np.int64)
        for row in present:
            assert held.count[row] <= held.room[row]
            taken[held.start[row] : held.start[row] + held.room[row]] += 1
        assert taken.max(initial=0) <= 1
        assert taken[self._used :].sum() == 0


SCORE_KINDS = {
    scoring.SUM: scores.SUM,
    scoring.PRODUCT: scores.PRODUCT,
    scoring.DISTANCE: scores.DISTANCE,
    scoring.WASPAS: scores.WASPAS,
}
CIRCLE_METHODS = {"closed": scores.CLOSED, "trim": scores.TRIM, "lemma": scores.LEMMA}
PLANE = 2  # dimensions
NO_WEIGHT: list[float | None] = [None]
METRES_A_DEGREE = HALF_CIRCUMFERENCE / 180


class TopKSettings(NamedTuple):
    """The settings of the engine that zones depend on."""

    score: scoring.Score
    metric: str
    k: int
    m: int
    ordered: bool
    threads: int
    dimensions: int = 2
    circle: str = "closed"
    epsilon: float = 1e-4
    rounds: int = 100

    @property
    def weighted(self) -> scoring.Weighted:
        """The score, where it is not a custom one."""
        return cast(scoring.Weighted, self.score)

    @property
    def space(self) -> bool:
        """Whether places have a z."""
        return self.dimensions > PLANE

    @property
    def code(self) -> int:
        """The metric as kernels take it."""
        return SPACE if self.space else CODES[self.metric]

    def form(self) -> ScoreForm:
        """A score with weights as kernels take it."""
        score = self.weighted
        lam = 1.0 if score.lam is None else score.lam
        return ScoreForm(
            SCORE_KINDS[score.name],
            self.code,
            float(score.distance_weight),
            float(lam),
            float(1 - lam),
            CIRCLE_METHODS[self.circle],
            self.epsilon,
            self.rounds,
        )

    def split_weights(self, attributes: int) -> list[float | None]:
        """How much x, y, sum, product, z and attributes count when objects are split into blocks.

        In a weighted sum, as they do there.
        """
        score, others = self.weighted, attributes * [0.0]
        if score.name == scoring.SUM:
            weight = score.distance_weight * (METRES_A_DEGREE if self.metric == "haversine" else 1)
            return [weight, weight, 1.0, 0.0, *(self.space * [weight]), *others]
        by_sum = None if score.name != scoring.PRODUCT else 0.0
        by_product = None if score.name != scoring.DISTANCE else 0.0
        return [None, None, by_sum, by_product, *(self.space * NO_WEIGHT), *others]


@dataclass
class TopKZones:
    """Zones of all subscriptions over all objects."""

    settings: TopKSettings
    subscriptions: Slots
    objects: ObjectSlots
    over: list[str]
    count: dict[str, int]
    paces: Any = field(default=None, init=False)  # what `m="auto"` knows of queries

    def __post_init__(self) -> None:
        self.places = TopKObjects(self._split_weights(), STATIC + self.settings.space)
        self.zones = ZoneIndex(space=self.settings.space)

    @cached_property
    def form(self) -> ScoreForm:
        """The score as kernels take it."""
        return self.settings.form()

    @cached_property
    def _formula(self) -> tuple[Any, ...]:
        return tuple(self.form)

    def parts(self) -> dict[str, Part]:
        """The parts of the state."""
        return {"place": self.places, "zone": self.zones}

    def _split_weights(self) -> list[float | None]:
        return self.settings.split_weights(len(self.over))

    def check_restored(self) -> None:
        """Refuse places and zones from a snapshot that are not those of objects and subscriptions."""
        objects, live = self.objects, self.subscriptions["sequence"] >= 0
        there = objects.present
        self.places.check_restored(there, objects["x"], objects["y"])
        if self.settings.space:
            rows = np.flatnonzero(there)
            same = np.array_equal(self.places.record[rows, Z], objects["z"][rows])
            integrity.need(same, "record", "differs from where objects are")
        items = there[: len(self.places.record)]
        self.zones.check_restored(live, items)

    # Results

    def k_of(self, rows: Rows) -> Ints:
        """How many items each subscription wants."""
        k: Ints = self.subscriptions["k"][rows]
        return np.where(k > 0, k, self.settings.k)

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

    def _members(
        self, rows: Rows, places: tuple[Floats, Floats, Floats], starts: Ints
    ) -> tuple[Rows, Floats]:
        """The first members of zones, as many as `starts` has room for, and how far from places they are."""
        found: tuple[Rows, Floats] = zone_follow.members_at(
            self.settings.code, self.places.record, self.zones.held, rows, places, starts
        )
        return found

    def _scores(self, items: Rows, away: Floats) -> Floats:
        """The scores of objects at some distances."""
        scores: Floats = zone_follow.scores_of(self.form, self.places.record, items, away)
        return scores

    def _at(self, rows: Rows) -> tuple[Floats, Floats, Floats]:
        """Where subscriptions are; z is empty in the plane."""
        held = self.subscriptions
        return held["x"][rows], held["y"][rows], held["z"][rows] if self.settings.space else NO_Z

    # Queries

    def renew(self, rows: Rows) -> None:
        """Give subscriptions new zones around their places."""
        if not rows.size:
            return
        held = self.subscriptions
        lower, upper = held["lower"][rows], held["upper"][rows]
        filtered = bool((lower > -np.inf).any() or (upper < np.inf).any())
        x, y, z = self._at(rows)
        self._search(rows, Queries(x, y, self.k_of(rows), lower, upper, filtered, z))
        self.count["recomputed"] += rows.size

    def _search(self, rows: Rows, queries: Queries) -> None:
        settings = self.settings
        found, work = self.places.zones(self.form, self.objects.label, queries, settings.m, settings.threads)
        self.zones.put(rows, (queries.x, queries.y, queries.z), found)
        self.count["nodes_accessed"] += int(work[0])
        self.count["candidates"] += int(work[1])

    def leave(self, rows: Rows) -> None:
        """Forget the zones of subscriptions."""
        self.zones.drop(rows)

    def follow(self, rows: Rows, places: Floats) -> tuple[Rows, Lists]:
        """Move queries to places (2, n); returns those whose results may have changed, and these before."""
        held, settings, flags = self.subscriptions, self.settings, np.empty(rows.size, np.int8)
        steps = NO_STEPS if self.paces is None else self.paces.known.steps
        changed, rescored = self._follow(
            rows, places, (held["k"], settings.k), settings.ordered, flags, steps
        )
        self.count["rescored"] += rescored
        if not changed:
            return rows[:0], NO_LISTS
        there = np.flatnonzero(flags != SAME)
        other, outside = rows[there], flags[there] == OUTSIDE
        before = self.lists(other)
        for name, values in zip("xyz", places[:, there], strict=False):
            held[name][other] = values
        turned = other[~outside]
        if turned.size:
            # With as many wanted as there are members nothing can turn: they only get in order.
            wanted, at = (self.zones.held.count, 0), np.array(self._at(turned)[: self.settings.dimensions])
            self._follow(turned, at, wanted, True, flags, NO_STEPS)
        self._left(other[outside])
        self.renew(other[outside])
        return other, before

    def _left(self, rows: Rows) -> None:
        """Called with queries that have left their zones, before they get new ones."""

    def _follow(
        self,
        rows: Rows,
        places: Floats,
        wanted: tuple[Ints, int],
        ordered: bool,
        flags: zone_follow.Flags,
        steps: Ints,
    ) -> tuple[int, int]:
        """Follow queries; see `zone_follow.follow`. Positions are counted in `steps`, if there are any."""
        held = self.subscriptions
        found: tuple[int, int] = zone_follow.follow(
            self._formula,
            (self.places.record, self.objects.label),
            tuple(self.zones.held),
            rows,
            places,
            (held["x"], held["y"], held["z"] if self.settings.space else NO_Z, steps),
            wanted,
            ordered,
            flags,
        )
        return found

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
        """Index objects, new or not, that have been written to the slots."""
        held = self.objects
        attributes = held["attributes"][objects]
        first = STATIC + self.settings.space
        points = np.empty((objects.size, first + attributes.shape[1]))
        points[:, 0], points[:, 1] = held["x"][objects], held["y"][objects]
        points[:, 2:STATIC] = self._statics(attributes)
        if self.settings.space:
            points[:, Z] = held["z"][objects]
        points[:, first:] = attributes
        self.places.put(objects, points)

    def _statics(self, attributes: Floats) -> Floats:
        with np.errstate(all="ignore"):
            return self.settings.weighted.statics(attributes)

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
        wants = (held["k"], self.settings.k, self.settings.m, held["lower"], held["upper"])
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
        members, one = held.member[held.start[row] : held.start[row] + held.count[row]], np.array([row])
        circles = (held.x[one], held.y[one], held.z[one])
        here = self._at(one)
        places = [scores.at_line(self.settings.code, *each, 0) for each in (circles, here)]
        return {
            "zone_radius": float(held.radius[row]),
            "zone_distance": float(scores.apart(self.settings.code, *places)),
            "member": bool((members == item).any()),
        }


def restore_zones(index: ZoneIndex, rows: Rows) -> Step:
    """A step that restores the current zones of subscriptions."""
    held = index.held
    count = held.count[rows]
    ends = np.cumsum(count)
    at = np.repeat(held.start[rows] - (ends - count), count) + np.arange(int(count.sum()))
    zones = FoundZones(ends - count, count, held.member[at], held.radius[rows], held.reach[rows])
    place = held.x[rows], held.y[rows], held.z[rows]
    return lambda: index.put(rows, place, zones)
