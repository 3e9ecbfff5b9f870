"""Moving queries without zones, a search at every position, and zones by plainer algorithms.

`BestFirst` searches the same R-tree as the engine does. `NumpyTopK` and `NumpySkyline` look at every object
at every position and remember nothing. `scores_of_members` is the least that following a query inside its
zone can cost: the scores of its members, in a bare loop.

Of skylines [Moving §3.3, §5.1], `Branches` is BBS at every position, over the same R-tree as the engine;
`Pareto` is the package `paretoset`. `plain_zone` is Algorithm 1, `unpruned_zone` No-Pruning (cells from the
skyline, of every object), and `exact_zone` No-Pseudo (pruned by the skyline, but cells from all objects).
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats, Integers
from rankcast.errors import required
from rankcast.moving.kernels.convex import Region, box, clip, keep_part, reach, region_for, subtract
from rankcast.moving.kernels.rtree import BRANCH, Rtree
from rankcast.moving.kernels.rtree_search import (
    BOARD,
    NODES,
    Queries,
    SearchBuffers,
    best_first,
    search_buffers,
)
from rankcast.moving.kernels.scores import ScoreForm, value
from rankcast.moving.kernels.skyline_search import NODES as SKYLINE_NODES
from rankcast.moving.kernels.skyline_search import Room, Seekers, find_skyline, room_for, with_twins
from rankcast.moving.kernels.skyline_zone import bisector
from rankcast.moving.kernels.zone_follow import ZoneColumns
from rankcast.moving.skyline import MovingSkyline
from rankcast.moving.skyline_zones import SkylineZones
from rankcast.moving.topk import MovingTopK
from rankcast.moving.topk_zones import TopKZones
from rankcast.structures.distance import EUCLIDEAN, distance
from rankcast.structures.jit import EXACT


@njit(**EXACT)  # type: ignore[untyped-decorator]
def _search(
    form: ScoreForm, tree: Rtree, label: Integers, queries: Queries, space: SearchBuffers
) -> tuple[Any, Floats, int]:
    """The best objects of every query, as many as the room has a board for; and blocks opened."""
    k = space.row.size
    space.size[:] = 0
    rows, scores = np.full((queries.x.size, k), -1, np.int32), np.full((queries.x.size, k), np.inf)
    for i in range(queries.x.size):
        best_first(form, tree, label, space, queries, i)
        size = space.size[BOARD]
        rows[i, :size], scores[i, :size] = space.row[:size], space.score[:size]
    return rows, scores, space.size[NODES]


@njit(**EXACT)  # type: ignore[untyped-decorator]
def scores_of_members(
    form: ScoreForm,
    record: Floats,
    held: ZoneColumns,
    rows: NDArray[np.int32],
    x: Floats,
    y: Floats,
    out: Floats,
) -> None:
    """Write the scores (n, members) of the members of zones at new places."""
    start, count, member = held.start, held.count, held.member
    for i in range(rows.size):
        row = rows[i]
        for j in range(count[row]):
            o = member[start[row] + j]
            d = distance(form.metric, x[i], y[i], record[o, 0], record[o, 1])
            out[i, j] = value(form, record[o, 2], record[o, 3], d)


def zones_of(engine: MovingTopK) -> TopKZones:
    """What an engine with `method="zone"` keeps."""
    return cast(TopKZones, engine._zones)


class BestFirst:
    """Answers every position by a search; `found` has the last answer of each query: ids and scores."""

    def __init__(self, objects: Columns, over: Sequence[str], score: Any, k: int) -> None:
        engine = MovingTopK(over=list(over), k=k, score=score)
        engine.upsert(objects)
        self._zones = zones_of(engine)
        self._ids, self._k = objects["id"], k
        self._last: tuple[Any, Any, Any] = (np.empty(0), np.empty(0), np.empty(0))
        self._space: SearchBuffers | None = None
        self.nodes = 0

    def search(self, x: Floats, y: Floats) -> tuple[Any, Floats]:
        """The rows and scores (n, k) of the best objects from places."""
        none = np.empty((x.size, 0))
        queries = Queries(x, y, np.full(x.size, self._k), none, none, filtered=False)
        zoned = self._zones
        self._space = search_buffers(zoned.places.tree, self._k, self._space)
        rows, scores, nodes = _search(
            zoned.form, zoned.places.tree, zoned.objects.label, queries, self._space
        )
        self.nodes += nodes
        return rows, scores

    def publish(self, positions: Columns) -> None:
        """Answer every position."""
        self._last = (positions["id"], *self.search(positions["x"], positions["y"]))

    @property
    def found(self) -> dict[Any, tuple[Any, Floats]]:
        """The last answers by query."""
        ids, rows, scores = self._last
        return {key: (self._ids[rows[i]], scores[i]) for i, key in enumerate(ids.tolist())}


class NumpyMoving(ABC):
    """Answers one position after the other; `found` has the last answer of each query: ids and scores."""

    def __init__(self, objects: Columns, over: Sequence[str]) -> None:
        self._objects = objects
        self._attributes = np.stack([objects[name] for name in over], axis=1)
        self.found: dict[Any, tuple[Integers, Floats]] = {}

    def publish(self, positions: Columns) -> None:
        """Answer every position."""
        for key, x, y in zip(positions["id"].tolist(), positions["x"], positions["y"], strict=True):
            distance = np.hypot(self._objects["x"] - x, self._objects["y"] - y)
            rows, scores = self._answer(distance)
            self.found[key] = self._objects["id"][rows], scores

    @abstractmethod
    def _answer(self, distance: Floats) -> tuple[Integers, Floats]:
        """Give rows, best first, and scores for one position."""


class NumpyTopK(NumpyMoving):
    """The k objects of smallest weighted sum of attributes and distance, ties to the smaller id."""

    def __init__(self, objects: Columns, over: Sequence[str], weights: Sequence[float], k: int) -> None:
        super().__init__(objects, over)
        self._static = self._attributes @ np.asarray(weights[:-1])
        self._weight, self._k = weights[-1], k

    def _answer(self, distance: Floats) -> tuple[Integers, Floats]:
        score = self._static + self._weight * distance
        near = np.flatnonzero(score <= np.partition(score, self._k - 1)[self._k - 1])
        rows = near[np.lexsort((self._objects["id"][near], score[near]))][: self._k]
        return rows, score[rows]


class NumpySkyline(NumpyMoving):
    """The objects that none beats in one attribute or distance and equals in the rest; smaller is better."""

    def _answer(self, distance: Floats) -> tuple[Integers, Floats]:
        values = np.column_stack([self._attributes, distance])
        left = np.lexsort((self._objects["id"], distance))
        kept: list[int] = []
        while len(left):
            row, left = left[0], left[1:]
            kept.append(int(row))
            left = left[~_beaten(values[left], values[row])]
        rows = np.array(kept, np.int64)
        own = ~np.array([_beaten(values[row][None, :], values[rows]).any() for row in kept], np.bool_)
        return rows[own], distance[rows[own]]


def _beaten(values: Floats, by: Floats) -> Any:
    """Which rows are nowhere better and somewhere worse than the other row (or each of several rows)."""
    return np.all(values >= by, axis=-1) & np.any(values > by, axis=-1)


NOWHERE = 1e-6  # how far from a part its query may be, in the units of the plane


def skyline_zones_of(engine: MovingSkyline) -> SkylineZones:
    """What an engine with `method="zone"` keeps."""
    return cast(SkylineZones, engine._zones)


def seekers_at(x: Floats, y: Floats) -> Seekers:
    """Queries at places, without filters."""
    none = np.empty((x.size, 0))
    return Seekers(x, y, none, none, False)


@njit(**EXACT)  # type: ignore[untyped-decorator]
def _skylines(tree: Rtree, seekers: Seekers) -> tuple[Room, Any, Integers]:
    """The skylines of queries, one after the other, and how many objects each has."""
    room, count = room_for(tree), np.empty(seekers.x.size, np.int64)
    rows, used = np.empty(64, np.int32), 0
    for i in range(seekers.x.size):
        find_skyline(EUCLIDEAN, tree, room, seekers, i)
        mine = with_twins(tree, room)
        count[i] = mine.size
        if used + count[i] > rows.size:
            larger = np.empty(2 * (used + count[i]), np.int32)
            larger[:used] = rows[:used]
            rows = larger
        rows[used : used + count[i]] = mine
        used += count[i]
    return room, rows[:used], count


class Branches:
    """BBS at every position; `found` has the last answer of each query: ids by distance."""

    def __init__(self, objects: Columns, over: Sequence[str]) -> None:
        engine = MovingSkyline(over=list(over))
        engine.upsert(objects)
        self._tree, self._ids = skyline_zones_of(engine).places.tree, objects["id"]
        self.nodes = 0
        self.found: dict[Any, Integers] = {}

    def search(self, x: Floats, y: Floats) -> tuple[Any, Integers]:
        """The skylines of places, one after the other, and how many objects each has."""
        room, rows, count = _skylines(self._tree, seekers_at(x, y))
        self.nodes += int(room.size[SKYLINE_NODES])
        return rows, count

    def publish(self, positions: Columns) -> None:
        """Answer every position."""
        rows, count = self.search(positions["x"], positions["y"])
        parts = np.split(self._ids[rows], np.cumsum(count)[:-1])
        self.found = dict(zip(positions["id"].tolist(), parts, strict=True))


class Pareto:
    """The package `paretoset` at every position; `found` has the last answer of each query: ids."""

    def __init__(self, objects: Columns, over: Sequence[str]) -> None:
        self._paretoset, self._objects = required("paretoset", "bench").paretoset, objects
        self._values = np.column_stack([*(objects[name] for name in over), objects["x"]])
        self.found: dict[Any, Integers] = {}
        self.publish({"id": np.array([-1]), "x": np.zeros(1), "y": np.zeros(1)})  # compiles

    def publish(self, positions: Columns) -> None:
        """Answer every position."""
        objects, values = self._objects, self._values
        for key, x, y in zip(positions["id"].tolist(), positions["x"], positions["y"], strict=True):
            values[:, -1] = np.hypot(objects["x"] - x, objects["y"] - y)
            self.found[key] = objects["id"][self._paretoset(values, distinct=False)]


@njit(**EXACT)  # type: ignore[untyped-decorator]
def _farthest(region: Region, corners: int, point: Floats) -> float:
    """The square of twice the distance of a point's farthest corner, and a little more."""
    most = 0.0
    for i in range(corners):
        most = max(most, (region.x[i] - point[0]) ** 2 + (region.y[i] - point[1]) ** 2)
    return 4.000001 * most


@njit(**EXACT)  # type: ignore[untyped-decorator]
def _next_rival(points: Floats, o: int, rivals: Integers, k: int, limit: float) -> int:
    """The place of the next rival within the limit that is as good as an object in everything, or the end."""
    while k < rivals.size:
        j = rivals[k]
        near = (points[j, 0] - points[o, 0]) ** 2 + (points[j, 1] - points[o, 1]) ** 2 <= limit
        if near and j != o:
            as_good = True
            for a in range(2, points.shape[1]):
                as_good &= points[j, a] <= points[o, a]
            if as_good:
                return k
        k += 1
    return k


@njit(**EXACT)  # type: ignore[untyped-decorator]
def _cell(points: Floats, o: int, rivals: Integers, one: Region, two: Region) -> tuple[Region, int, Floats]:
    """The cell of an object among rivals in a region of one piece: its corners, how many, and its cuts.

    A rival twice as far away as the farthest corner cuts nothing off.
    """
    cuts, lines, corners = np.empty((64, 3)), 0, one.end[0]
    limit = _farthest(one, corners, points[o])
    k = _next_rival(points, o, rivals, 0, limit)
    while k < rivals.size and corners > 0:
        j = rivals[k]
        k = _next_rival(points, o, rivals, k + 1, limit)
        if points[j, 0] == points[o, 0] and points[j, 1] == points[o, 1]:
            corners = 0
            continue
        nx, ny, c, _ = bisector(points[o, 0], points[o, 1], points[j, 0], points[j, 1], 0.0)
        if reach(one, 0, corners, (nx, ny, c, 0))[1] <= 0.0:
            continue
        corners = clip(one, 0, corners, (nx, ny, c, 4 + lines), two, 0)
        one, two = two, one
        limit = _farthest(one, corners, points[o])
        if lines == cuts.shape[0]:
            larger = np.empty((2 * lines, 3))
            larger[:lines] = cuts
            cuts = larger
        cuts[lines, 0], cuts[lines, 1], cuts[lines, 2] = nx, ny, c
        lines += 1
    kept = 0
    for k in range(lines):
        bounds = False
        for i in range(corners):
            bounds |= one.line[i] == 4 + k
        if bounds:
            cuts[kept, 0], cuts[kept, 1], cuts[kept, 2] = cuts[k, 0], cuts[k, 1], cuts[k, 2]
            kept += 1
    return one, corners, cuts[:kept]


@njit(**EXACT)  # type: ignore[untyped-decorator]
def zone_from(
    points: Floats, wanted: Integers, rivals: Integers, universe: Floats
) -> tuple[Region, int, Integers]:
    """The zone of the origin from the cells of wanted objects among rivals: pieces, how many, the skyline."""
    zone, spare, line = region_for(256, 64), region_for(256, 64), 4
    box(zone, universe[0], universe[1], universe[2], universe[3])
    pieces, found, size = 1, np.empty(wanted.size, np.int64), 0
    for w in range(wanted.size):
        one, two = region_for(512, 1), region_for(512, 1)
        one.end[0] = box(one, universe[0], universe[1], universe[2], universe[3])
        _, corners, cuts = _cell(points, wanted[w], rivals, one, two)
        inside = corners > 0
        for k in range(cuts.shape[0]):
            inside &= cuts[k, 2] >= 0.0
        if inside:
            found[size] = wanted[w]
            size += 1
            for k in range(cuts.shape[0]):
                at, left, begin = 0, 0, 0
                for piece in range(pieces):
                    cut = (cuts[k, 0], cuts[k, 1], cuts[k, 2], line)
                    after = clip(zone, begin, zone.end[piece], cut, spare, at)
                    begin = zone.end[piece]
                    if after > at:
                        spare.end[left] = at = after
                        left += 1
                zone, spare, pieces, line = spare, zone, left, line + 1
        elif corners > 0 and pieces > 0 and cuts.shape[0] > 0:
            left_over, left = subtract(zone, pieces, cuts, cuts.shape[0], line, spare)
            zone, spare, line = left_over, zone, line + cuts.shape[0]
            pieces = keep_part(zone, left, NOWHERE) if left > 0 else 0
    return zone, pieces, found[:size]


def plain_zone(points: Floats, universe: Floats) -> tuple[Region, int, Integers]:
    """Algorithm 1: the cells of all objects among all; those near by come first, which it does not ask."""
    nearest = np.argsort(np.hypot(points[:, 0], points[:, 1]))
    found: tuple[Region, int, Integers] = zone_from(points, nearest, np.arange(len(points)), universe)
    return found


def unpruned_zone(points: Floats, universe: Floats, skyline: Integers) -> tuple[Region, int, Integers]:
    """No-Pruning: the cells of all objects among the skyline, whose own come first."""
    others = np.setdiff1d(np.arange(len(points)), skyline)
    found: tuple[Region, int, Integers] = zone_from(
        points, np.concatenate([skyline, others]), skyline, universe
    )
    return found


def exact_zone(points: Floats, universe: Floats, wanted: Integers) -> tuple[Region, int, Integers]:
    """No-Pseudo: the cells of the objects that pruning leaves among all objects."""
    found: tuple[Region, int, Integers] = zone_from(points, wanted, np.arange(len(points)), universe)
    return found


def blocks_of(objects: int) -> int:
    """How many blocks a packed R-tree of so many objects has: what one pass over all of them reads."""
    total, level = 0, objects
    while level > 1:
        level = -(-level // BRANCH)
        total += level
    return total


def area_of(region: Region, pieces: int) -> float:
    """The area of a region."""
    total, begin = 0.0, 0
    for piece in range(pieces):
        x, y = region.x[begin : region.end[piece]], region.y[begin : region.end[piece]]
        total += 0.5 * float(np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1)))
        begin = int(region.end[piece])
    return total
