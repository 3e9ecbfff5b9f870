"""What is asked of `MovingTopK`: scores, results, zones, and why."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.moving import scoring
from rankcast.moving.brute_force import Objects, ranked
from rankcast.moving.moving_zones import ZoneMethod
from rankcast.moving.zoned import ZonedEngine
from rankcast.tables.schema import Floats, Rows


class TopKAnswers(ZonedEngine):
    """Moving queries that rank objects by a score; `_zoned` keeps zones, if there are any."""

    _score: scoring.Score
    _m: int
    _zoned: ZoneMethod | None

    # Scores

    def _scores(self, x: float, y: float, objects: Objects) -> Floats:
        with np.errstate(all="ignore"):
            return self._score(objects.attributes, self._distances(x, y, objects))

    def _result(self, row: int, objects: Objects) -> tuple[Rows, Floats]:
        return self._best(row, objects, int(self._k_of(np.array([row], np.int32))[0]))

    def _best(self, row: int, objects: Objects, size: int) -> tuple[Rows, Floats]:
        """The best of the objects that pass a subscription's filter."""
        scores = scoring.no_nan("score", self._scores(*self._place(row), objects))
        best = ranked(scores)
        best = best[self._passes(row, objects.attributes[best])][:size]
        return best, scores[best]

    # What is asked

    def zones(self) -> pa.Table:
        """Per subscription a circle inside which its result is among the `members`, by order of registration.

        Columns `subscription, x, y, radius, members`; there are at most k + m - 1 members.
        """
        live = self._slots.live()
        if self._zoned:
            held = self._zoned.zones.held
            ends = held.start[live] + held.count[live]
            members = [held.member[a:b] for a, b in zip(held.start[live], ends, strict=True)]
            return self._circles(live, (held.x[live], held.y[live]), held.radius[live], members)
        objects = self._all_objects()
        sizes = self._k_of(live) + self._m - 1
        found = [self._best(row, objects, int(size))[0] for row, size in zip(live, sizes, strict=True)]
        return self._points(live, [objects.row[places] for places in found])

    def view(self, subscription: Any) -> dict[str, Any]:
        """What a picture of a subscription needs: the objects around it, which of them count, and the zone.

        `items`, `objects_x` and `objects_y` of all objects that pass its filter; `members` and `result` are
        places among them, the result best first; `x` and `y` are the query's; `zone` is a row of `zones()`.
        """
        mine = self._find_one(self._slots, subscription, "subscription")
        objects = self._all_objects()
        passing = np.flatnonzero(self._passes(mine, objects.attributes))
        objects = Objects._make(column[passing] for column in objects)
        rows = self._slots.live()
        zone = self._own("zones").slice(int(np.flatnonzero(rows == mine)[0]), 1).to_pylist()[0]
        items = self._objects.take(objects.row).to_pylist()
        place = {item: at for at, item in enumerate(items)}
        found = self._own("results", [subscription])["item"].to_pylist()
        x, y = self._place(mine)
        return {
            "metric": self._metric,
            "x": x,
            "y": y,
            "zone": zone,
            "items": items,
            "objects_x": objects.x,
            "objects_y": objects.y,
            "members": np.array([place[item] for item in zone["members"]], np.int64),
            "result": np.array([place[item] for item in found], np.int64),
        }

    def explain(self, subscription: Any, item: Any) -> dict[str, Any]:
        """Why an object is or is not in a result: score, rank, distance, the score to beat.

        An object that a filter keeps out has no rank. With zones also: whether the object is a member of the
        zone, and how far the query can go from its centre before it may become part of the result.
        """
        mine = self._find_one(self._slots, subscription, "subscription")
        row = self._find_one(self._objects, item, "item")
        k = int(self._k_of(np.array([mine], np.int32))[0])
        objects = self._all_objects()
        order, scores = self._best(mine, objects, objects.row.size)
        at = np.flatnonzero(objects.row[order] == row)
        rank = int(at[0]) + 1 if at.size else None
        place = np.flatnonzero(objects.row == row)
        one = Objects._make(column[place] for column in objects)
        if rank is None:
            reason = "the filter of the subscription keeps it out"
        else:
            reason = "in the result" if rank <= k else f"{rank - 1} objects are better, {k} are wanted"
        told = {
            "subscription": subscription,
            "item": item,
            "score": float(self._scores(*self._place(mine), one)[0]),
            "rank": rank,
            "in_result": rank is not None and rank <= k,
            "score_to_beat": float(scores[k - 1]) if scores.size >= k else None,
            "distance": float(self._distances(*self._place(mine), one)[0]),
            "reason": reason,
        }
        return told | (self._zoned.explain(mine, row) if self._zoned else {})
