"""`MovingSkyline`: every object that no other dominates in attributes and distance, for queries that move.

`rankcast.moving.skyline_zones` keeps results by safe zones; the scan is here. Explanations and pictures show
where an object is in the skyline: its impact region.

The impact region is the Voronoi cell of the object among all objects that are as good in every attribute
[Moving §3.2], here cut to a universe. Rivals are taken in order of their distance from the object: a bisector
is half as far away as its rival, so the first rival beyond twice the farthest corner ends the search.
"""

from __future__ import annotations

import struct
import sys
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from rankcast.errors import SettingError, shown
from rankcast.moving.brute_force import Objects, Place, dominates, skyline
from rankcast.moving.engine import MovingEngine, attribute_names
from rankcast.moving.kernels.convex import box, clip, radius_of, region_for
from rankcast.moving.kernels.skyline_zone import bisector
from rankcast.moving.network_engine import GRAPH_SETTING, RoadEngine
from rankcast.moving.network_skyline import NetworkSkyline
from rankcast.moving.skyline_objects import SkylineSettings
from rankcast.moving.skyline_zones import SkylineZones
from rankcast.moving.universe import Universe
from rankcast.tables import schema
from rankcast.tables.schema import Bools, Floats, Ints, Rows

DIRECTIONS = ("min", "max")
PLANE = 2  # dimensions
NO_CORNERS = np.empty((0, 2))


def impact_region(points: Floats, place: int, rivals: Bools, universe: Floats) -> Floats:
    """The corners (n, 2) of the impact region of one of the points (n, 2 + d); small attributes are good.

    `rivals` may compete; nothing is left if one of them is better at the same place. Cost: O(n), and a clip
    for each rival nearby.
    """
    here = points[place]
    as_good = rivals & (points[:, 2:] <= here[2:]).all(axis=1)
    as_good[place] = False
    spots = points[as_good, :2] - here[:2]
    away = np.hypot(*spots.T)
    together = as_good.nonzero()[0][away == 0.0]
    if (points[together, 2:] < here[2:]).any():
        return NO_CORNERS
    one, two = (region_for(4 + len(spots), 1) for _ in range(2))
    corners = box(one, *(universe - np.tile(here[:2], 2)))
    for rival in np.argsort(away):
        radius = radius_of(one, corners)
        if not corners or away[rival] > 2 * radius:
            break
        if away[rival] > 0.0:
            nx, ny, c, _ = bisector(0.0, 0.0, *spots[rival], radius)
            corners = clip(one, 0, corners, (nx, ny, c, 0), two, 0)
            one, two = two, one
    found: Floats = np.column_stack([one.x[:corners], one.y[:corners]]) + here[:2]
    return found


def nearest_point(corners: Floats, place: Floats) -> Floats:
    """The point of a convex ring (n, 2), counter-clockwise, that is nearest to a place: itself if inside."""
    after = np.roll(corners, -1, axis=0)
    along, to = after - corners, place - corners
    if (along[:, 0] * to[:, 1] - along[:, 1] * to[:, 0] >= 0).all():
        return place
    lengths = np.maximum((along * along).sum(axis=1), np.finfo(float).tiny)
    share = np.clip((to * along).sum(axis=1) / lengths, 0.0, 1.0)
    spots = corners + share[:, None] * along
    found: Floats = spots[np.argmin(np.hypot(*(spots - place).T))]
    return found


class MovingSkyline(RoadEngine):
    """Every object such that no other is as good in all attributes and in distance, and better in one.

    Args:
        over: the attributes that count besides distance.
        prefer: "min" if small attributes are good, "max" if large ones are, or a dict by attribute ("min"
            for those not in it).
        metric: "euclidean", "manhattan", "haversine" (x longitude, y latitude, distance in metres), or
            "network": distance along the roads of `graph`.
        graph: with metric "network", a `rankcast.RoadGraph`. Places are snapped to the nearest edge; an
            object that cannot be reached is in no result.
        dimensions: 2; only `MovingTopK` has three.
        method: "zone" keeps a safe zone for each subscription, "scan" looks at every object.
        extra: "forbid" or "ignore" unknown columns.
        tuning: "universe", (xmin, ymin, xmax, ymax), is where zones end (default: a box around all
            objects and queries, with a margin); "threads" for zones computed in one call (default: the
            number of cores); "m": how many members besides the skyline a circular zone has.

    Objects may have `opens` and `closes`: they take part between the two, by the clock that `advance` moves.
    A subscription may have a filter: with an attribute "price", only objects with a price from `price_lo` to
    `price_hi` compete. The score is the distance, and ranks go by distance, then by the smaller id. Results
    are exact at the last position of each query. `publish` and `amend` report who enters and who leaves;
    `upsert` and `remove` also report new scores.

    >>> engine = MovingSkyline(over=["price"])
    >>> engine.upsert({"id": ["Aroma", "Bean"], "x": [0, 10], "y": [0, 0], "price": [5, 3]}).num_rows
    0
    >>> engine.subscribe({"id": [7], "x": [1], "y": [0]}).select(["item", "score"]).to_pylist()
    [{'item': 'Aroma', 'score': 1.0}, {'item': 'Bean', 'score': 9.0}]
    >>> engine.publish({"id": [7], "x": [6], "y": [0]}).select(["op", "item"]).to_pylist()
    [{'op': 'leave', 'item': 'Aroma'}]
    >>> engine.explain(7, "Aroma")["appears_at"], engine.zones().num_rows, engine.objects().num_rows
    ((5.0, 0.0), 1, 2)
    >>> engine.remove(["Bean"])["op"].to_pylist(), len(engine.view(7)["items"])
    (['leave', 'enter'], 1)
    """

    takes_k = False
    added_parts = MovingEngine.added_parts | {"pace"}
    spec = replace(
        MovingEngine.spec, settings={"graph": GRAPH_SETTING}, title="every object worth looking at, as I move"
    )
    _zones: SkylineZones | NetworkSkyline | None
    methods = ("zone", "scan")
    variants = tuple({"method": method} for method in methods)
    known_tuning: ClassVar[dict[str, Any]] = {"universe": None, "threads": None, "m": 8}

    def __init__(
        self,
        *,
        over: str | Sequence[str],
        prefer: str | Mapping[str, str] = "min",
        metric: str = "euclidean",
        graph: Any = None,
        dimensions: int = 2,
        method: str = "zone",
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        if type(dimensions) is not int or dimensions != PLANE:
            raise SettingError(
                f"dimensions is {shown(dimensions)}",
                expected="2",
                hint="Zones of skylines are polygons; MovingTopK takes places with a z.",
            )
        names = attribute_names(over)
        directions = _directions(prefer, names)
        self._sign = np.array([1.0 if direction == "min" else -1.0 for direction in directions.values()])
        super().__init__(
            {"prefer": directions},
            over=names,
            metric=metric,
            graph=graph,
            method=method,
            extra=extra,
            tuning=_with_universe(tuning),
        )
        given = self._tuning
        settings = SkylineSettings(
            self._metric,
            self._sign,
            schema.whole("m", given["m"]),
            schema.threads(given["threads"]),
            given["universe"],
        )
        self._zones = None
        if self._method == "zone" and self._network is not None:
            held = (self._network, self._slots, self._objects, self._count)
            self._zones = NetworkSkyline(*held, sign=self._sign)
        elif self._method == "zone":
            self._zones = SkylineZones(settings, self._slots, self._objects, self._count)

    # Results

    def _scores(self, place: Place, objects: Objects) -> Floats:
        return self._distances(place, objects)

    def _result(self, row: int, objects: Objects) -> tuple[Rows, Floats]:
        distance = self._distances(self._place(row), objects)
        passes = self._passes(row, objects.attributes) & np.isfinite(distance)
        passing = np.flatnonzero(passes).astype(np.int32)
        places = passing[skyline(distance[passing], self._sign * objects.attributes[passing])]
        return places, distance[places]

    def _zone_table(self, rows: Rows) -> pa.Table:
        zones = self._zones
        if isinstance(zones, SkylineZones):
            zones.tighten(rows)
        if self._network is not None:
            return self._road_zones(rows)
        if self._metric == "euclidean":
            if isinstance(zones, SkylineZones):
                shapes = zones.zones.geometries(rows)
            else:
                points = [struct.pack("<BIdd", 1, 1, *self._place(row)) for row in rows]
                shapes = pa.array(points, pa.binary())
            return pa.table({"subscription": self._slots.take(rows), "geometry": shapes})
        members = self._zone_members(rows)
        if not isinstance(zones, SkylineZones):
            return self._points(rows, members)
        kept = zones.zones.kept
        return self._circles(rows, (kept.x[rows], kept.y[rows]), kept.radius[rows], members)

    def _zone_members(self, rows: Rows) -> Sequence[Rows]:
        if isinstance(self._zones, SkylineZones):
            self._zones.tighten(rows)
        if self._zones:
            return [self._zones.members(row) for row in rows]
        objects = self._all_objects()
        return [objects.row[self._result(row, objects)[0]] for row in rows]

    def explain(self, subscription: Any, item: Any) -> dict[str, Any]:
        """Why an object is or is not in a result: distance, rank, who dominates it, where it would appear.

        `score_to_beat` is the distance of the nearest other object that is as good in every attribute.
        `appears_at` is the nearest place from which it is in the skyline, on the edge of its impact region
        (in metrics other than the Euclidean: one place, its own), and None if there is none.
        """
        mine = self._find_one(self._slots, subscription, "subscription")
        row = self._find_one(self._objects, item, "item")
        objects, present = self._all_objects(), bool(self._objects.present[row])
        if not present:
            objects = self._objects_at(np.append(objects.row, np.int32(row)))
        place = int(np.flatnonzero(objects.row == row)[0])
        distance = self._distances(self._place(mine), objects)
        points = self._points_of(objects)
        passes = self._passes(mine, objects.attributes) & (present | (objects.row != row))
        rivals = passes & (points[:, 2:] <= points[place, 2:]).all(axis=1) & (objects.row != row)
        rivals &= np.isfinite(distance)
        values = np.column_stack([distance, points[:, 2:]])
        above = np.flatnonzero(passes & dominates(values, values[place]))
        rank = np.flatnonzero(self._result(mine, objects)[0] == place) if present else above[:0]
        nearest = above[np.argmin(distance[above])] if above.size else None
        found = None if nearest is None else self._objects.take(objects.row[[nearest]])[0].as_py()
        reachable = bool(np.isfinite(distance[place]))
        if not present:
            reason = "it is closed"
        elif not reachable:
            reason = "there is no way to it"
        elif not passes[place]:
            reason = "the filter of the subscription keeps it out"
        else:
            reason = (
                "in the result" if found is None else f"object {found!r} is as good in all, better in one"
            )
        return {
            "subscription": subscription,
            "item": item,
            "score": float(distance[place]) if reachable else None,
            "rank": int(rank[0]) + 1 if rank.size else None,
            "in_result": bool(rank.size),
            "score_to_beat": float(distance[rivals].min()) if rivals.any() else None,
            "dominated_by": found,
            "appears_at": self._place(mine) if rank.size else self._appears(mine, points, place, passes),
            "reason": reason,
        }

    def _points_of(self, objects: Objects) -> Floats:
        """Places and attributes (n, 2 + d), small attributes are good."""
        return np.column_stack([objects.x, objects.y, self._sign * objects.attributes])

    def _appears(self, row: int, points: Floats, place: int, passes: Bools) -> tuple[float, float] | None:
        """Where a query would have to be for an object to be in its skyline."""
        if not passes[place]:
            return None
        here = np.array(self._place(row))
        if self._network is not None:
            own = self._distances(tuple(points[place, :2]), self._all_objects())
            values = np.column_stack([own, points[:, 2:]])
            beaten = (passes & dominates(values, values[place])).any()
            return None if beaten else (float(points[place, 0]), float(points[place, 1]))
        region = impact_region(points, place, passes, self._universe(points, here))
        if not len(region):
            return None
        at = nearest_point(region, here) if self._metric == "euclidean" else points[place, :2]
        return float(at[0]), float(at[1])

    def _universe(self, points: Floats, here: Floats) -> Floats:
        """The box that zones are cut to, or would be."""
        if isinstance(self._zones, SkylineZones):
            return self._zones.universe.box
        universe, places = Universe(self._tuning["universe"]), np.vstack([points[:, :2], here])
        universe.take_in(places.min(axis=0), places.max(axis=0))
        return universe.box

    def view(self, subscription: Any) -> dict[str, Any]:
        """What a picture of a subscription needs: the objects around it, which of them count, and the zone.

        `items`, `objects_x` and `objects_y` of all objects that pass its filter; `members` and `result` are
        indices into them, the result best first; `x` and `y` are the query's place. For a Euclidean zone: its
        `rings`, the outer one first, and the impact `regions` of the members that are not everywhere in
        the skyline, by index. For others: `zone`, a row of `zones()`.
        """
        mine = self._find_one(self._slots, subscription, "subscription")
        if isinstance(self._zones, SkylineZones):
            self._zones.tighten(np.array([mine], np.int32))
        objects = self._all_objects()
        objects = Objects._make(column[self._passes(mine, objects.attributes)] for column in objects)
        place = {row: at for at, row in enumerate(objects.row.tolist())}
        found = self._lists(np.array([mine], np.int32)).item.tolist()
        x, y = self._place(mine)
        view: dict[str, Any] = {
            "metric": self._metric,
            "x": x,
            "y": y,
            "items": self._objects.take(objects.row).to_pylist(),
            "objects_x": objects.x,
            "objects_y": objects.y,
            "members": np.array([place[row] for row in found], np.int64),
            "result": np.array([place[row] for row in found], np.int64),
        }
        if self._zones:
            members = self._zones.members(mine).tolist()
            view["members"] = np.array([place[row] for row in members], np.int64)
        if isinstance(self._zones, SkylineZones) and self._metric == "euclidean":
            return view | self._shapes(self._zones, mine, objects, view["members"])
        zone = self._zone_table(np.array([mine], np.int32)).to_pylist()[0]
        return view | {"zone": {"x": x, "y": y, "radius": 0.0, **zone}}

    def _shapes(self, zones: SkylineZones, row: int, objects: Objects, members: Ints) -> dict[str, Any]:
        """The rings of a zone, and the impact regions of its members that are not everything."""
        points, everybody = self._points_of(objects), np.ones(objects.row.size, np.bool_)
        found = {at: impact_region(points, at, everybody, zones.universe.box) for at in members.tolist()}
        whole = zones.universe.box
        sides = {
            at: (corners.min(axis=0), corners.max(axis=0)) for at, corners in found.items() if len(corners)
        }
        bounded = {
            at: found[at]
            for at, (low, high) in sides.items()
            if len(found[at]) != len(whole) or not np.array_equal(np.concatenate([low, high]), whole)
        }
        return {"rings": zones.zones.rings(row), "regions": bounded}


def _directions(prefer: Any, over: list[str]) -> dict[str, str]:
    """Which direction of each attribute is good."""
    if not isinstance(prefer, Mapping):
        return dict.fromkeys(over, schema.one_of("prefer", prefer, DIRECTIONS))
    for name in prefer:
        if name not in over:
            raise SettingError.unknown(name, over, where="prefer", word="attribute")
    return {name: schema.one_of("prefer", prefer.get(name, "min"), DIRECTIONS) for name in over}


def _with_universe(tuning: Mapping[str, Any] | None) -> dict[str, Any]:
    """The tuning with a checked universe."""
    given = schema.tuning(tuning, MovingSkyline.known_tuning)
    box = given.get("universe")
    if box is None:
        return given
    numbers = list(box) if isinstance(box, Sequence | np.ndarray) else []
    good = len(numbers) == 4 and all(
        schema.is_number(each) and abs(each) <= sys.float_info.max for each in numbers
    )
    if not good or not (numbers[0] < numbers[2] and numbers[1] < numbers[3]):
        raise SettingError(
            f"universe is {shown(box)}",
            where="tuning",
            expected="(xmin, ymin, xmax, ymax), each min below its max",
        )
    return {**given, "universe": [float(each) for each in numbers]}
