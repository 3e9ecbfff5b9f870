"""What is asked of `MovingSkyline`: results, zones, why, and what a picture shows."""

from __future__ import annotations

import struct
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.moving.brute_force import Objects, dominates, skyline
from rankcast.moving.moving_skyline_regions import impact_region, nearest_point
from rankcast.moving.moving_skyline_shapes import Universe
from rankcast.moving.moving_skyline_zones import SkylineMethod
from rankcast.moving.zoned import ZonedEngine
from rankcast.tables.schema import Bools, Floats, Ints, Rows


class SkylineAnswers(ZonedEngine):
    """Moving queries for what nothing dominates; `_zoned` keeps zones, if there are any."""

    _sign: Floats
    _zoned: SkylineMethod | None

    # Results

    def _scores(self, x: float, y: float, objects: Objects) -> Floats:
        return self._distances(x, y, objects)

    def _result(self, row: int, objects: Objects) -> tuple[Rows, Floats]:
        distance = self._distances(*self._place(row), objects)
        passing = np.flatnonzero(self._passes(row, objects.attributes)).astype(np.int32)
        places = passing[skyline(distance[passing], self._sign * objects.attributes[passing])]
        return places, distance[places]

    def zones(self) -> pa.Table:
        """Per subscription where its result stays the same, by order of registration.

        Euclidean: `subscription, geometry` (a WKB polygon, holes and all): as long as the query stays
        strictly inside, the skyline is the same. In other metrics a circle with members, `subscription, x, y,
        radius, members`: inside it the skyline is among the members. What is known at its place alone is
        the point, by `method="scan"` as a WKB point.
        """
        live, zoned = self._slots.live(), self._zoned
        if self._metric == "euclidean":
            if zoned:
                shapes = zoned.geometries(live)
            else:
                points = [struct.pack("<BIdd", 1, 1, *self._place(row)) for row in live]
                shapes = pa.array(points, pa.binary())
            return pa.table({"subscription": self._slots.take(live), "geometry": shapes})
        if zoned:
            kept = zoned.zones.kept
            ends = kept.start[live] + kept.count[live]
            members = [kept.member[a:b] for a, b in zip(kept.start[live], ends, strict=True)]
            return self._circles(live, (kept.x[live], kept.y[live]), kept.radius[live], members)
        objects = self._all_objects()
        return self._points(live, [objects.row[self._result(row, objects)[0]] for row in live])

    def explain(self, subscription: Any, item: Any) -> dict[str, Any]:
        """Why an object is or is not in a result: distance, rank, who dominates it, where it would appear.

        `score_to_beat` is the distance of the nearest other object that is as good in every attribute.
        `appears_at` is the nearest place from which it is in the skyline, on the edge of its impact region
        (in other metrics than the euclidean: a place, its own), and None if there is none.
        """
        mine = self._find_one(self._slots, subscription, "subscription")
        row = self._find_one(self._objects, item, "item")
        objects = self._all_objects()
        place = int(np.flatnonzero(objects.row == row)[0])
        distance = self._distances(*self._place(mine), objects)
        points = self._points_of(objects)
        passes = self._passes(mine, objects.attributes)
        rivals = passes & (points[:, 2:] <= points[place, 2:]).all(axis=1) & (objects.row != row)
        values = np.column_stack([distance, points[:, 2:]])
        above = np.flatnonzero(passes & dominates(values, values[place]))
        rank = np.flatnonzero(self._result(mine, objects)[0] == place)
        nearest = above[np.argmin(distance[above])] if above.size else None
        found = None if nearest is None else self._objects.take(objects.row[[nearest]])[0].as_py()
        if not passes[place]:
            reason = "the filter of the subscription keeps it out"
        else:
            reason = (
                "in the result" if found is None else f"object {found!r} is as good in all, better in one"
            )
        return {
            "subscription": subscription,
            "item": item,
            "score": float(distance[place]),
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
        region = impact_region(points, place, passes, self._universe(points, here))
        if not len(region):
            return None
        at = nearest_point(region, here) if self._metric == "euclidean" else points[place, :2]
        return float(at[0]), float(at[1])

    def _universe(self, points: Floats, here: Floats) -> Floats:
        """The box that zones are cut to, or would be."""
        if self._zoned:
            return self._zoned.universe.box
        universe, places = Universe(self._tuning["universe"]), np.vstack([points[:, :2], here])
        universe.take_in(places.min(axis=0), places.max(axis=0))
        return universe.box

    def view(self, subscription: Any) -> dict[str, Any]:
        """What a picture of a subscription needs: the objects around it, which of them count, and the zone.

        `items`, `objects_x` and `objects_y` of all objects that pass its filter; `members` and `result` are
        places among them, the result best first; `x` and `y` are the query's. Of a euclidean zone: its
        `rings`, the outer one first, and the impact `regions` of the members that are not everywhere in
        the skyline, by place. Of others: `zone`, a row of `zones()`.
        """
        mine = self._find_one(self._slots, subscription, "subscription")
        objects = self._all_objects()
        objects = Objects._make(column[self._passes(mine, objects.attributes)] for column in objects)
        place = {row: at for at, row in enumerate(objects.row.tolist())}
        found = self._lists(np.array([mine], np.int32)).item.tolist()
        x, y = self._place(mine)
        told: dict[str, Any] = {
            "metric": self._metric,
            "x": x,
            "y": y,
            "items": self._objects.take(objects.row).to_pylist(),
            "objects_x": objects.x,
            "objects_y": objects.y,
            "members": np.array([place[row] for row in found], np.int64),
            "result": np.array([place[row] for row in found], np.int64),
        }
        if self._zoned:
            members = self._zoned.members(mine).tolist()
            told["members"] = np.array([place[row] for row in members], np.int64)
        if self._zoned and self._metric == "euclidean":
            return told | self._shapes(self._zoned, mine, objects, told["members"])
        zone = self._own("zones").slice(int(np.flatnonzero(self._slots.live() == mine)[0]), 1).to_pylist()[0]
        return told | {"zone": {"x": x, "y": y, "radius": 0.0, **zone}}

    def _shapes(self, zoned: SkylineMethod, row: int, objects: Objects, members: Ints) -> dict[str, Any]:
        """The rings of a zone, and the impact regions of its members that are not everything."""
        points, everybody = self._points_of(objects), np.ones(objects.row.size, np.bool_)
        found = {at: impact_region(points, at, everybody, zoned.universe.box) for at in members.tolist()}
        whole = zoned.universe.box
        sides = {
            at: (corners.min(axis=0), corners.max(axis=0)) for at, corners in found.items() if len(corners)
        }
        bounded = {
            at: found[at]
            for at, (low, high) in sides.items()
            if len(found[at]) != len(whole) or not np.array_equal(np.concatenate([low, high]), whole)
        }
        return {"rings": zoned.rings(row), "regions": bounded}
