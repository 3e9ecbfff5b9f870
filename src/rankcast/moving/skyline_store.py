"""Objects of moving skylines by place and attributes, and the safe zones of queries among them, live."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.moving.index import Places
from rankcast.moving.kernels.skyline_admit import Zones, find_zones
from rankcast.moving.kernels.skyline_follow import UNKNOWN, Kept
from rankcast.moving.kernels.skyline_search import PLACE, Seekers
from rankcast.moving.runs import Runs, stretches
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Bools, Floats, Ints, Rows

PER_THREAD = 16
BY_ROW = {"x": np.float64, "y": np.float64, "radius": np.float64, "result": np.int64, "cut": np.bool_}
MOST_LINES = 1 << 24  # of a zone: far beyond what one has
DISC = 3  # x, y, square of the radius


class SkylinePlaces(Places):
    """Objects with x, y and attributes, of which small ones are good; `zones` finds those of skylines."""

    def __init__(self, attributes: int) -> None:
        columns = PLACE + attributes
        super().__init__([None] * columns, columns)

    def zones(
        self, metric: int, seekers: Seekers, universe: Floats, m: int, threads: int
    ) -> tuple[Zones, Ints]:
        """The zones of queries, on several cores; and blocks opened, objects tried."""
        many, most = seekers.x.size, min(m, max(len(self), 1))
        parts = np.array_split(np.arange(many), max(1, min(threads, many // PER_THREAD)))

        def search(part: Ints) -> tuple[Zones, Ints]:
            found: tuple[Zones, Ints] = find_zones(metric, self.tree, seekers, part, universe, most)
            return found

        if len(parts) == 1:
            return search(parts[0])
        with ThreadPoolExecutor(len(parts)) as pool:
            found = list(pool.map(search, parts))
        joined = Zones._make(np.concatenate(columns) for columns in zip(*(z for z, _ in found), strict=True))
        return joined, np.sum([work for _, work in found], axis=0)


class SkylineZones:
    """Zones of subscriptions: convex pieces around a centre, or circles, with members.

    - Changing: `put`, `drop`.
    - Asking: `kept` for kernels; `cut`, by row, whether the universe bounds a zone.
    - Keeping: `state`, `restore`, `check`.

    Members are the skyline by distance from the centre, then the objects that bound the zone (of a
    circle: those that may come into the skyline in it). Memory: 105 bytes a subscription, 4 a member, 28
    a corner.
    """

    def __init__(self) -> None:
        self._by_row: dict[str, NDArray[Any]] = {name: np.zeros(0, kind) for name, kind in BY_ROW.items()}
        self._by_row["disc"] = np.zeros((0, DISC))
        self._members = Runs(member=np.int32)
        self._corners = Runs(corner_x=np.float64, corner_y=np.float64, line=np.int64, owner=np.int32)

    @property
    def kept(self) -> Kept:
        """All zones."""
        held, members, corners = self._by_row, self._members, self._corners
        return Kept(
            x=held["x"],
            y=held["y"],
            radius=held["radius"],
            disc=held["disc"],
            result=held["result"],
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

    def put(self, rows: Rows, x: Floats, y: Floats, zones: Zones) -> None:
        """Set the zones of subscriptions, found from the given places."""
        if not rows.size:
            return
        self._members.put(rows, zones.count, {"member": zones.member})
        shape: dict[str, NDArray[Any]] = {"corner_x": zones.x, "corner_y": zones.y, "line": zones.line}
        self._corners.put(rows, zones.corners, {**shape, "owner": zones.owner})
        length = self._members.count.size
        if length > self._by_row["x"].size:
            self._by_row = {name: grown(array, length, 0) for name, array in self._by_row.items()}
        given = {"x": x, "y": y, "radius": zones.radius, "result": zones.result, "cut": zones.cut}
        for name, values in given.items():
            self._by_row[name][rows] = values
        self._by_row["disc"][rows] = 0.0

    def drop(self, rows: Rows) -> None:
        """Forget zones."""
        self._members.drop(rows)
        self._corners.drop(rows)
        self._by_row["result"][rows] = 0
        self._by_row["cut"][rows] = False

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        parts = {"members": self._members.state(), "corners": self._corners.state()}
        arrays = {
            f"{part}_{name}": array for part, (_, mine) in parts.items() for name, array in mine.items()
        }
        return {part: header for part, (header, _) in parts.items()}, {**self._by_row, **arrays}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave; an older one has no discs, and no owners of edges."""
        rows = arrays["x"].size
        unknown = np.full(arrays["corners_line"].size, UNKNOWN, np.int32)
        arrays = {"corners_owner": unknown, "disc": np.zeros((rows, DISC)), **arrays}
        own = {name: a for name, a in arrays.items() if not name.startswith(("members_", "corners_"))}
        integrity.forms(
            own,
            {name: (kind, (rows,)) for name, kind in BY_ROW.items()} | {"disc": (np.float64, (rows, DISC))},
        )
        self._by_row = own
        for part, runs in (("members", self._members), ("corners", self._corners)):
            prefix = f"{part}_"
            mine = {name.removeprefix(prefix): a for name, a in arrays.items() if name.startswith(prefix)}
            runs.restore(header[part], mine)
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
        gone = np.ones(held["cut"].size, np.bool_)
        gone[rows] = False
        integrity.need(not held["cut"][gone].any(), "cut", "is of subscriptions that are gone")
        members = kept.member[stretches(kept.start[rows], count)]
        integrity.within(members, 0, items.size, "members_member")
        integrity.need(items[members].all(), "members_member", "lists objects that are gone")
        cornered = rows[kept.corners[rows] > 0]
        ends = kept.corner[cornered] + kept.corners[cornered]
        integrity.need((kept.line[ends - 1] < 0).all(), "corners_line", "has a piece without an end")
        there = stretches(kept.corner[rows], kept.corners[rows])
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
        for row in rows[kept.corners[rows] > 0]:
            assert kept.line[kept.corner[row] + kept.corners[row] - 1] < 0
