"""`MovingSkyline`: every object worth looking at, for queries that move."""

from __future__ import annotations

import math
import struct
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from rankcast import settings
from rankcast.columns import Floats, Rows
from rankcast.engines.brute_force.moving import Objects, dominates, skyline
from rankcast.engines.moving import MovingEngine, names_of
from rankcast.errors import SettingError

WAYS = ("min", "max")


class MovingSkyline(MovingEngine):
    """Every object such that no other is as good in all attributes and in distance, and better in one.

    Args:
        over: the attributes that count beside distance.
        prefer: "min" if small attributes are good, "max" if large ones are, or a dict by attribute ("min"
            for those not in it).
        metric: "euclidean", "manhattan", or "haversine" (x longitude, y latitude, distance in metres).
        method: how results are found.
        extra: "forbid" or "ignore" columns that are not known.
        tuning: "universe", (xmin, ymin, xmax, ymax), is what zones are cut to.

    The score is the distance, and ranks go by distance, then by the smaller id. Results are exact at the last
    position of each query. `publish` and `amend` tell who enters and who leaves; `upsert` and `remove` also
    tell a new score.

    >>> engine = MovingSkyline(over=["price"])
    >>> engine.upsert({"id": ["Aroma", "Bean"], "x": [0, 10], "y": [0, 0], "price": [5, 3]}).num_rows
    0
    >>> engine.subscribe({"id": [7], "x": [1], "y": [0]}).select(["item", "score"]).to_pylist()
    [{'item': 'Aroma', 'score': 1.0}, {'item': 'Bean', 'score': 9.0}]
    >>> engine.publish({"id": [7], "x": [6], "y": [0]}).select(["op", "item"]).to_pylist()
    [{'op': 'leave', 'item': 'Aroma'}]
    """

    takes_k = False
    known_tuning: ClassVar[dict[str, Any]] = {"universe": None}

    def __init__(
        self,
        *,
        over: str | Sequence[str],
        prefer: str | Mapping[str, str] = "min",
        metric: str = "euclidean",
        method: str = "scan",
        extra: str = "forbid",
        tuning: Mapping[str, Any] | None = None,
    ) -> None:
        names = names_of(over)
        ways = _ways(prefer, names)
        self._sign = np.array([1.0 if way == "min" else -1.0 for way in ways.values()])
        super().__init__(
            {"prefer": ways},
            over=names,
            metric=metric,
            method=method,
            extra=extra,
            tuning=_with_universe(tuning),
        )

    def _scores(self, x: float, y: float, objects: Objects) -> Floats:
        return self._distances(x, y, objects)

    def _result(self, row: int, objects: Objects) -> tuple[Rows, Floats]:
        distance = self._distances(*self._place(row), objects)
        places = skyline(distance, self._sign * objects.attributes)
        return places, distance[places]

    def zones(self) -> pa.Table:
        """Per subscription where its result stays the same, by order of registration.

        Euclidean: `subscription, geometry` (WKB); as long as the query stays strictly inside, the skyline is
        the same, and it is the same at a point that is all there is. In other metrics a circle with members,
        `subscription, x, y, radius, members`.
        """
        live = self._slots.live()
        if self._metric == "euclidean":
            points = [struct.pack("<BIdd", 1, 1, *self._place(row)) for row in live]
            return pa.table(
                {"subscription": self._slots.take(live), "geometry": pa.array(points, pa.binary())}
            )
        objects = self._all_objects()
        return self._points(live, [objects.row[self._result(row, objects)[0]] for row in live])

    def explain(self, subscription: Any, item: Any) -> dict[str, Any]:
        """Why an object is or is not in a result: distance, rank, who dominates it.

        `score_to_beat` is the distance of the nearest other object that is as good in every attribute.
        """
        mine = self._find_one(self._slots, subscription, "subscription")
        row = self._find_one(self._objects, item, "item")
        objects = self._all_objects()
        place = int(np.flatnonzero(objects.row == row)[0])
        distance = self._distances(*self._place(mine), objects)
        attributes = self._sign * objects.attributes
        rivals = (attributes <= attributes[place]).all(axis=1) & (objects.row != row)
        values = np.column_stack([distance, attributes])
        above = np.flatnonzero(dominates(values, values[place]))
        rank = np.flatnonzero(self._result(mine, objects)[0] == place)
        nearest = above[np.argmin(distance[above])] if above.size else None
        found = None if nearest is None else self._objects.take(objects.row[[nearest]])[0].as_py()
        return {
            "subscription": subscription,
            "item": item,
            "score": float(distance[place]),
            "rank": int(rank[0]) + 1 if rank.size else None,
            "in_result": bool(rank.size),
            "score_to_beat": float(distance[rivals].min()) if rivals.any() else None,
            "dominated_by": found,
            "reason": "in the result"
            if found is None
            else f"object {found!r} is as good in all, better in one",
        }


def _ways(prefer: Any, over: list[str]) -> dict[str, str]:
    """Which way each attribute is good."""
    if not isinstance(prefer, Mapping):
        return dict.fromkeys(over, settings.one_of("prefer", prefer, WAYS))
    for name in prefer:
        if name not in over:
            raise SettingError.unknown(name, over, where="prefer", word="attribute")
    return {name: settings.one_of("prefer", prefer.get(name, "min"), WAYS) for name in over}


def _with_universe(tuning: Mapping[str, Any] | None) -> dict[str, Any]:
    """The tuning with a checked universe."""
    given = dict(tuning or {})
    box = given.get("universe")
    if box is None:
        return given
    numbers = list(box) if isinstance(box, Sequence | np.ndarray) else []
    good = len(numbers) == 4 and all(
        isinstance(each, int | float) and math.isfinite(each) for each in numbers
    )
    if not good or not (numbers[0] < numbers[2] and numbers[1] < numbers[3]):
        raise SettingError(
            f"universe is {box!r}",
            where="tuning",
            expected="(xmin, ymin, xmax, ymax), each min below its max",
        )
    return {**given, "universe": [float(each) for each in numbers]}
