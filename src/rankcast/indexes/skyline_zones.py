"""Objects of moving skylines by place and attributes, and the safe zones of queries among them, live."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.columns import Bools, Floats, Ints, Rows
from rankcast.errors import SnapshotError
from rankcast.indexes.objects import grown
from rankcast.indexes.places import Places
from rankcast.indexes.runs import Runs
from rankcast.kernels.skyline_follow import UNKNOWN, Kept
from rankcast.kernels.skyline_gather import Zones, find_zones
from rankcast.kernels.skyline_search import PLACE, Seekers

PER_THREAD = 16
BY_ROW = {"x": np.float64, "y": np.float64, "radius": np.float64, "result": np.int64, "cut": np.bool_}
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
        many = seekers.x.size
        parts = np.array_split(np.arange(many), max(1, min(threads, many // PER_THREAD)))

        def search(part: Ints) -> tuple[Zones, Ints]:
            found: tuple[Zones, Ints] = find_zones(metric, self.tree, seekers, part, universe, m)
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
        for name, kind in BY_ROW.items():
            if arrays[name].dtype != kind:
                raise SnapshotError(f"the array {name} of zones has another type")
        self._by_row = {name: arrays[name] for name in BY_ROW}
        disc = arrays.get("disc", np.zeros((arrays["x"].size, DISC)))
        if disc.dtype != np.float64 or disc.shape != (arrays["x"].size, DISC):
            raise SnapshotError("the discs of zones have another shape")
        self._by_row["disc"] = disc
        unknown = np.full(arrays["corners_line"].size, UNKNOWN, np.int32)
        arrays = {"corners_owner": unknown, **arrays}
        for part, runs in (("members", self._members), ("corners", self._corners)):
            mine = {name.removeprefix(f"{part}_"): array for name, array in arrays.items()}
            runs.restore(header[part], mine)
        return self

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
