"""`MovingSkyline`: every object worth looking at, for queries that move."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, ClassVar

import numpy as np

from rankcast.errors import SettingError, shown
from rankcast.moving.moving import names_of
from rankcast.moving.moving_skyline_answers import SkylineAnswers
from rankcast.moving.moving_skyline_zones import SkylineMethod, SkylineWish
from rankcast.tables import schema

WAYS = ("min", "max")


class MovingSkyline(SkylineAnswers):
    """Every object such that no other is as good in all attributes and in distance, and better in one.

    Args:
        over: the attributes that count beside distance.
        prefer: "min" if small attributes are good, "max" if large ones are, or a dict by attribute ("min"
            for those not in it).
        metric: "euclidean", "manhattan", or "haversine" (x longitude, y latitude, distance in metres).
        method: "zone" keeps a safe zone for each subscription, "scan" looks at every object.
        extra: "forbid" or "ignore" columns that are not known.
        tuning: "universe", (xmin, ymin, xmax, ymax), is what zones are cut to (default: a box around all
            objects and queries, with a margin); "threads" for zones computed in one call (default: as many
            as there are cores); "m": how many members beside the skyline a zone has that is a circle.

    A subscription may have a filter: of an attribute "price", only objects with a price from `price_lo` to
    `price_hi` compete. The score is the distance, and ranks go by distance, then by the smaller id. Results
    are exact at the last position of each query. `publish` and `amend` tell who enters and who leaves;
    `upsert` and `remove` also tell a new score.

    >>> engine = MovingSkyline(over=["price"])
    >>> engine.upsert({"id": ["Aroma", "Bean"], "x": [0, 10], "y": [0, 0], "price": [5, 3]}).num_rows
    0
    >>> engine.subscribe({"id": [7], "x": [1], "y": [0]}).select(["item", "score"]).to_pylist()
    [{'item': 'Aroma', 'score': 1.0}, {'item': 'Bean', 'score': 9.0}]
    >>> engine.publish({"id": [7], "x": [6], "y": [0]}).select(["op", "item"]).to_pylist()
    [{'op': 'leave', 'item': 'Aroma'}]
    """

    takes_k = False
    methods = ("zone", "scan")
    variants = tuple({"method": method} for method in methods)
    known_tuning: ClassVar[dict[str, Any]] = {"universe": None, "threads": None, "m": 8}

    def __init__(
        self,
        *,
        over: str | Sequence[str],
        prefer: str | Mapping[str, str] = "min",
        metric: str = "euclidean",
        method: str = "zone",
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
        given = self._tuning
        wish = SkylineWish(
            self._metric,
            self._sign,
            schema.whole("m", given["m"]),
            schema.threads(given["threads"]),
            given["universe"],
        )
        self._zoned: SkylineMethod | None = None
        if self._method == "zone":
            self._zoned = SkylineMethod(wish, self._slots, self._objects, self._count)


def _ways(prefer: Any, over: list[str]) -> dict[str, str]:
    """Which way each attribute is good."""
    if not isinstance(prefer, Mapping):
        return dict.fromkeys(over, schema.one_of("prefer", prefer, WAYS))
    for name in prefer:
        if name not in over:
            raise SettingError.unknown(name, over, where="prefer", word="attribute")
    return {name: schema.one_of("prefer", prefer.get(name, "min"), WAYS) for name in over}


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
