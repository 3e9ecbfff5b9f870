"""`method="zone"` of `MovingSkyline`: results kept by safe zones.

Between calls each subscription has a zone around some place, inside which its skyline is known. A query that
moves within its zone is followed without looking at the objects; one that leaves it gets a new zone. An
object that changes breaks the zones that list it, and those in which it enters the skyline: these get new
zones too, and no others. `SkylineZones` does that; `SkylineObjects` indexes the objects, `SkylineZoneIndex`
stores the zones.

Zones are cut to a universe: the one that was given, or a box that holds all objects and queries so far, with
a margin. It grows when something is outside, and the zones that it bounds with it.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core.engine import Part
from rankcast.moving.hours import ObjectSlots
from rankcast.moving.kernels import convex, skyline_admit, skyline_follow, zone_follow
from rankcast.moving.kernels.convex import Region, clearance
from rankcast.moving.kernels.skyline_admit import FoundSkylineZones
from rankcast.moving.kernels.skyline_follow import UNKNOWN, SkylineZoneColumns
from rankcast.moving.kernels.skyline_search import Seekers
from rankcast.moving.places import box_of
from rankcast.moving.ragged import Runs
from rankcast.moving.skyline_objects import SkylineObjects, SkylineSettings
from rankcast.moving.skyline_pace import SkylinePaces
from rankcast.moving.universe import Universe
from rankcast.structures import integrity
from rankcast.structures.arrays import grown, ranges
from rankcast.structures.distance import CODES, EUCLIDEAN
from rankcast.structures.ids import Slots
from rankcast.tables.deltas import Lists, empty_lists
from rankcast.tables.schema import Bools, Floats, Ints, Rows

MANY_ZONES = 64  # for which members are counted at once
NO_LISTS = empty_lists()
NO_STEPS = np.empty(0, np.int64)
BY_ROW = {
    "x": np.float64,
    "y": np.float64,
    "radius": np.float64,
    "result": np.int64,
    "judged": np.int64,
    "cut": np.bool_,
    "loose": np.bool_,
}
MOST_LINES = 1 << 24  # of a zone: far beyond what one has
DISC = 3  # x, y, square of the radius
WKB_POINT, POLYGON = 1, 3


class SkylineZoneIndex:
    """Zones of subscriptions: convex pieces around a centre, or circles, with members.

    - Changing: `put`, `drop`.
    - Reading: `kept` for kernels; `cut`, by row, whether the universe bounds a zone; `region`, `rings`,
      `geometries` for answers and pictures.
    - Snapshots: `state`, `restore`, `check_restored`; `check` for tests.

    Members are the skyline by distance from the centre, then the objects that bound the zone (of a
    circle: those that may come into the skyline in it). Memory: 114 bytes a subscription, 4 a member, 28
    a corner.
    """

    def __init__(self) -> None:
        self._by_row: dict[str, NDArray[Any]] = {name: np.zeros(0, kind) for name, kind in BY_ROW.items()}
        self._by_row["disc"] = np.zeros((0, DISC))
        self._members = Runs(member=np.int32)
        self._corners = Runs(corner_x=np.float64, corner_y=np.float64, line=np.int64, owner=np.int32)
        self.kept = self._columns()
        self.noted: list[Rows] | None = None  # those that are put, while somebody watches
        self.judging = False  # whether there may be zones whose results are judged at every place
        self._users: Ints | None = None  # by object, how many zones list it; made when it is needed

    def _columns(self) -> SkylineZoneColumns:
        """All zones, as long as no array is made anew."""
        held, members, corners = self._by_row, self._members, self._corners
        return SkylineZoneColumns(
            x=held["x"],
            y=held["y"],
            radius=held["radius"],
            disc=held["disc"],
            result=held["result"],
            judged=held["judged"],
            loose=held["loose"],
            start=members.start,
            count=members.count,
            member=members.values["member"],
            corner=corners.start,
            corners=corners.count,
            **corners.values,
        )

    @property
    def cut(self) -> Bools:
        """Whether the universe bounds the zone of each row."""
        found: Bools = self._by_row["cut"]
        return found

    def put(self, rows: Rows, x: Floats, y: Floats, zones: FoundSkylineZones) -> None:
        """Set the zones of subscriptions, found from the given places."""
        if not rows.size:
            return
        if self.noted is not None:
            self.noted.append(rows)
        self._use(rows, -1)
        self._members.put(rows, zones.count, {"member": zones.member})
        shape: dict[str, NDArray[Any]] = {"corner_x": zones.x, "corner_y": zones.y, "line": zones.line}
        self._corners.put(rows, zones.corners, {**shape, "owner": zones.owner})
        length = self._members.count.size
        if length > self._by_row["x"].size:
            self._by_row = {name: grown(array, length, 0) for name, array in self._by_row.items()}
        given = {"radius": zones.radius, "result": zones.result, "judged": zones.judged, "cut": zones.cut}
        self._by_row["loose"][rows] = False
        for name, values in {"x": x, "y": y, **given}.items():
            self._by_row[name][rows] = values
        self.judging = self.judging or bool(zones.judged.any())
        self._by_row["disc"][rows] = 0.0
        self.kept = self._columns()
        self._use(rows, 1)

    @property
    def loose(self) -> Bools:
        """Whether the zone of each row may be larger than it is, since what bounded it has gone."""
        found: Bools = self._by_row["loose"]
        return found

    def loosen(self, rows: Rows, objects: Rows) -> None:
        """Let objects go that bound zones, and are no results there: the zones stay, and are safe."""
        self._use(rows, -1)
        skyline_follow.loosen(self.kept, rows, objects)
        self._use(rows, 1)
        self.loose[rows] = True

    def drop(self, rows: Rows) -> None:
        """Forget zones."""
        self._use(rows, -1)
        self._members.drop(rows)
        self._corners.drop(rows)
        self._by_row["result"][rows] = self._by_row["judged"][rows] = 0
        self._by_row["cut"][rows] = self._by_row["loose"][rows] = False

    def users(self, objects: Rows, among: int) -> Ints:
        """How many zones list each of the objects, of which there are `among` rows."""
        if self._users is None:
            self._users = np.zeros(among, np.int64)
            self._use(np.flatnonzero(self._members.count), 1)
        if among > self._users.size:
            self._users = grown(self._users, max(among, 2 * self._users.size), 0)
        found: Ints = self._users[objects]
        return found

    def _use(self, rows: NDArray[Any], more: int) -> None:
        """Zones begin, or are about to cease, to list their members."""
        if self._users is None:
            return
        members, rows = self._members, rows[rows < self._members.count.size]
        held = members.values["member"][ranges(members.start[rows], members.count[rows])]
        top = int(held.max(initial=-1)) + 1
        if top > self._users.size:
            self._users = grown(self._users, max(top, 2 * self._users.size), 0)
        if rows.size > MANY_ZONES:
            self._users += more * np.bincount(held, minlength=self._users.size)
        else:
            np.add.at(self._users, held, more)

    def region(self, row: int) -> tuple[Region, int]:
        """The zone of a subscription as pieces relative to its centre, and how many."""
        kept = self.kept
        there = slice(int(kept.corner[row]), int(kept.corner[row] + kept.corners[row]))
        line = kept.line[there]
        ends = np.flatnonzero(line < 0) + 1
        shape = Region(
            kept.corner_x[there].copy(), kept.corner_y[there].copy(), np.where(line < 0, ~line, line), ends
        )
        return shape, ends.size

    def rings(self, row: int) -> list[Floats]:
        """The rings (n, 2) of a zone, the outer one first; of one that is but a point, that point thrice."""
        kept = self.kept
        centre = np.array([kept.x[row], kept.y[row]])
        shape, pieces = self.region(row)
        if not pieces:
            return [np.tile(centre, (3, 1))]
        found = _runs(*convex.rings(shape, pieces))
        if not found:  # rounding kept a ring from closing: the piece that the centre is in, at least
            whole = _runs(shape.x, shape.y, shape.end)
            found = [max(whole, key=lambda ring: clearance(_piece(ring), 0, len(ring)))]
        found.sort(key=lambda ring: -abs(_area(ring)))
        return [ring + centre for ring in found]

    def geometry(self, row: int) -> bytes:
        """The zone of a subscription as a WKB polygon, or as a point, if it is that alone.

        So is one in which rounding decides between objects: the skyline is not the same all over it.
        """
        if not self.kept.corners[row] or self.kept.judged[row]:
            return struct.pack("<BIdd", 1, WKB_POINT, self.kept.x[row], self.kept.y[row])
        rings = self.rings(row)
        packed = [struct.pack("<BII", 1, POLYGON, len(rings))]
        for ring in rings:
            closed = np.concatenate([ring, ring[:1]])
            packed += [struct.pack("<I", len(closed)), closed.astype("<f8").tobytes()]
        return b"".join(packed)

    def geometries(self, rows: Rows) -> pa.Array:
        """The zones of subscriptions as WKB polygons."""
        return pa.array([self.geometry(int(row)) for row in rows], pa.binary())

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        parts = {"members": self._members.state(), "corners": self._corners.state()}
        arrays = {
            f"{part}_{name}": array for part, (_, mine) in parts.items() for name, array in mine.items()
        }
        return {part: header for part, (header, _) in parts.items()}, {**self._by_row, **arrays}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned; older ones have no discs, owners, `judged` nor `loose`."""
        rows = arrays["x"].size
        unknown = np.full(arrays["corners_line"].size, UNKNOWN, np.int32)
        arrays = {"corners_owner": unknown, "disc": np.zeros((rows, DISC)), **arrays}
        added = {"judged": np.zeros(rows, np.int64), "loose": np.zeros(rows, np.bool_)}
        arrays = {**added, **arrays}
        by_row = {name: a for name, a in arrays.items() if not name.startswith(("members_", "corners_"))}
        integrity.forms(
            by_row,
            {name: (kind, (rows,)) for name, kind in BY_ROW.items()} | {"disc": (np.float64, (rows, DISC))},
        )
        self._by_row = by_row
        for part, runs in (("members", self._members), ("corners", self._corners)):
            prefix = f"{part}_"
            mine = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
            runs.restore(header[part], mine)
        self.kept, self._users = self._columns(), None
        self.judging = bool(self.kept.judged.any())
        return self

    def check_restored(self, live: Bools, items: Bools) -> None:
        """Refuse zones from a snapshot that are not of `live` subscriptions, or list others than `items`."""
        self._members.check_restored(live, "members_")
        self._corners.check_restored(live, "corners_")
        rows, held, kept = np.flatnonzero(live), self._by_row, self.kept
        integrity.need(rows.max(initial=-1) < held["x"].size, "x", "is too short")
        for name in ("x", "y", "disc"):
            integrity.finite(held[name][rows], name)
        integrity.no_nan(held["radius"][rows], "radius")
        result, count = held["result"][rows], kept.count[rows]
        integrity.need(((result >= 0) & (result <= count)).all(), "result", "has more than members")
        judged = held["judged"][rows]
        fits = (judged == 0) | ((judged >= result) & (judged <= count))
        integrity.need(fits.all(), "judged", "is not of the members")
        gone = np.ones(held["cut"].size, np.bool_)
        gone[rows] = False
        integrity.need(not held["cut"][gone].any(), "cut", "is of subscriptions that are gone")
        members = kept.member[ranges(kept.start[rows], count)]
        integrity.within(members, 0, items.size, "members_member")
        integrity.need(items[members].all(), "members_member", "lists objects that are gone")
        cornered = rows[kept.corners[rows] > 0]
        ends = kept.corner[cornered] + kept.corners[cornered]
        integrity.need((kept.line[ends - 1] < 0).all(), "corners_line", "has a piece without an end")
        there = ranges(kept.corner[rows], kept.corners[rows])
        for name in ("corner_x", "corner_y"):
            integrity.finite(getattr(kept, name)[there], f"corners_{name}")
        integrity.within(kept.line[there], -MOST_LINES, MOST_LINES, "corners_line")
        integrity.within(kept.owner[there], UNKNOWN, items.size, "corners_owner")

    def check(self, rows: Rows) -> None:
        """Assert the invariants; `rows` are the live subscriptions."""
        self._members.check()
        self._corners.check()
        kept = self.kept
        others = np.setdiff1d(np.arange(kept.count.size), rows)
        assert not kept.count[others].any()
        assert (kept.result[rows] <= kept.count[rows]).all()
        if self._users is not None:
            held = kept.member[ranges(kept.start[rows], kept.count[rows])]
            assert np.array_equal(self._users, np.bincount(held, minlength=self._users.size))
        for row in rows[kept.corners[rows] > 0]:
            assert kept.line[kept.corner[row] + kept.corners[row] - 1] < 0


def _runs(x: Floats, y: Floats, ends: Ints) -> list[Floats]:
    """The stretches (n, 2) of points that end at `ends`."""
    starts = np.concatenate([[0], ends[:-1]])
    return [np.column_stack([x[a:b], y[a:b]]) for a, b in zip(starts, ends, strict=True)]


def _piece(ring: Floats) -> Region:
    """A region of one piece."""
    size = len(ring)
    return Region(ring[:, 0].copy(), ring[:, 1].copy(), np.zeros(size, np.int64), np.array([size]))


def _area(ring: Floats) -> float:
    """The area of a ring (n, 2), negative if it is clockwise."""
    x, y = ring.T
    return float(0.5 * (np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))))


# For more changed objects, in all and for each zone, a search for broken zones costs more than new zones.
MANY_OBJECTS, OBJECTS_A_ZONE = 350, 7


@dataclass
class SkylineZones:
    """Zones of all subscriptions over all objects."""

    settings: SkylineSettings
    subscriptions: Slots
    objects: ObjectSlots
    count: dict[str, int]

    def __post_init__(self) -> None:
        self.metric = CODES[self.settings.metric]
        self.zones = SkylineZoneIndex()
        self.places = SkylineObjects(self.settings.sign.size)
        self.universe = Universe(self.settings.universe)
        self.paces = SkylinePaces()
        self._grew = False  # whether the last objects made the universe grow

    def parts(self) -> dict[str, Part]:
        """The parts of the state."""
        return {"place": self.places, "zone": self.zones, "universe": self.universe, "pace": self.paces}

    def check_restored(self) -> None:
        """Refuse places and zones from a snapshot that are not those of objects and subscriptions."""
        objects, live = self.objects, self.subscriptions["sequence"] >= 0
        there = objects.present
        self.places.check_restored(there, objects["x"], objects["y"])
        items = there[: len(self.places.record)]
        self.zones.check_restored(live, items)
        self.paces.check_restored()

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

    def renew(self, rows: Rows, *, whole: bool = False) -> None:
        """Give subscriptions new zones around their places; points where no more pays, unless `whole`."""
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
        settings = self.settings
        bare = np.zeros(rows.size, np.bool_)
        if self.metric == EUCLIDEAN and not whole:
            bare = self.paces.bare(rows)
        found, work = self.places.zones(
            self.metric, seekers, self.universe.box, settings.m, settings.threads, bare
        )
        self.zones.put(rows, x, y, found)
        self.zones.loose[rows[bare]] = True
        self.paces.made(rows, bare)
        self.count["recomputed"] += rows.size
        self.count["nodes_accessed"] += int(work[0])
        self.count["candidates"] += int(work[1])

    def _filters(self) -> tuple[Floats, Floats]:
        """The filters of all subscriptions, with the signs of attributes."""
        held, turned = self.subscriptions, self.settings.sign < 0
        lower, upper = held["lower"], held["upper"]
        if not turned.any():
            return lower, upper
        return np.where(turned, -upper, lower), np.where(turned, -lower, upper)

    def leave(self, rows: Rows) -> None:
        """Forget the zones of subscriptions."""
        self.zones.drop(rows)
        self.paces.forget(rows)

    def follow(self, rows: Rows, places: Floats) -> tuple[Rows, Lists]:
        """Move queries to places (2, n); returns those whose results may have changed, and these before."""
        held, kept = self.subscriptions, self.zones.kept
        if self.metric == EUCLIDEAN:
            return self._follow_polygons(rows, places)
        circles = kept.x, kept.y, kept.y, kept.radius  # no z
        outside = rows[~zone_follow.inside(self.metric, circles, rows, places)]
        before = self.lists(rows)
        held["x"][rows], held["y"][rows] = places
        self.renew(outside)
        return rows, before

    def _follow_polygons(self, rows: Rows, places: Floats) -> tuple[Rows, Lists]:
        """`follow` in the plane: inside a zone the results are the same, or are judged among its members."""
        held, kept = self.subscriptions, self.zones.kept
        judged = np.flatnonzero(kept.judged[rows]) if self.zones.judging else NO_STEPS
        before = self.lists(rows[judged])
        self.paces.moved(rows)
        left = skyline_follow.follow(tuple(kept), rows, places, held["x"], held["y"])
        if not left.size and not judged.size:
            return rows[:0], NO_LISTS
        outside, places = rows[left], places[:, left]
        others = outside
        if judged.size:
            others = rows[np.setdiff1d(left, judged)]
            lists = [before, self.lists(others)]
            before = Lists._make(np.concatenate(columns) for columns in zip(*lists, strict=True))
        else:
            before = self.lists(others)
        held["x"][outside], held["y"][outside] = places
        self.paces.left(outside[kept.corners[outside] > 0])
        self.renew(outside)
        return np.concatenate([rows[judged], others]), before

    # Objects

    def listing(self, objects: Rows) -> Rows:
        """The subscriptions whose results or zones may change when objects go: they have one as a member.

        In the plane those that have it as a result, and those that are but points, which may grow with any
        change; zones that it but bounds stay as they are, see `tighten`.
        """
        live, kept, among = self._live(), self.zones.kept, self.places.record.shape[0]
        if not objects.size or not live.size:
            return live[:0]
        listed = self.zones.users(objects, among)
        points = (kept.corners[live] == 0) & ~kept.loose[live] & (self.metric == EUCLIDEAN)
        if listed.any():
            marked, loosened = (np.zeros(kept.count.size, np.bool_) for _ in range(2))
            some, sizes = objects[listed > 0], (among, int(listed.sum()))
            plane = self.metric == EUCLIDEAN
            skyline_follow.mark_listing(kept, live, some, sizes, plane, marked, loosened)
            points |= marked[live]
            loose = live[loosened[live] & ~points]
            if loose.size:
                self.zones.loosen(loose, some)
        found: Rows = live[points]
        return found

    def _live(self) -> Rows:
        """The rows of live subscriptions, ascending."""
        held = self.subscriptions
        return np.flatnonzero(held["sequence"][: held.used] >= 0).astype(np.int32)

    def drop(self, objects: Rows) -> None:
        """Forget objects."""
        self.places.remove(objects)

    def put(self, objects: Rows) -> None:
        """Index objects, new or not, that have been written to the slots."""
        held = self.objects
        attributes = self.settings.sign * held["attributes"][objects]
        self.places.put(objects, np.column_stack([held["x"][objects], held["y"][objects], attributes]))

    def broken(self, objects: Rows, beside: Rows) -> Rows:
        """The subscriptions, none of those `beside`, whose zones objects break that are no members."""
        live = self._live()
        marked = np.zeros(self.zones.kept.count.size, np.bool_)
        marked[beside] = True
        if objects.size > max(MANY_OBJECTS, OBJECTS_A_ZONE * live.size):
            marked[live] = True
        elif objects.size and live.size:
            places = (self.places.tree, self.places.record, self.universe.box)
            skyline_follow.mark_broken(
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
            loose = broken[done & self.zones.loose[broken]]
            self.zones.put(broken[done], x[done], y[done], found)
            self.zones.loose[loose] = True
            self.count["recomputed"] += int(done.sum())
            broken = broken[~done]
        self.renew(np.concatenate([listing, broken]))

    # Zones

    def tighten(self, rows: Rows) -> None:
        """Make zones as large as can be, before somebody sees them."""
        self.renew(rows[self.zones.loose[rows]], whole=True)

    def members(self, row: int) -> Rows:
        """The results of a zone at its centre, by distance, then what bounds it or may come in."""
        kept = self.zones.kept
        found: Rows = kept.member[kept.start[row] : kept.start[row] + kept.count[row]]
        return found
