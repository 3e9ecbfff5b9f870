"""A short fixed history of every engine, for golden snapshots: settings, steps, and a step after saving."""

from __future__ import annotations

from typing import Any, NamedTuple

from rankcast import CoveringTable, GeoTextTopK, MovingSkyline, MovingTopK, RangeTopK, RankedMatcher
from rankcast.core.engine import Engine
from rankcast.moving import scoring


class History(NamedTuple):
    """What a golden engine went through, and one step to go on with."""

    engine: type[Engine]
    settings: dict[str, Any]
    steps: list[tuple[str, Any]]
    further: tuple[str, Any]

    def run(self) -> Engine:
        """The engine after all steps but the last."""
        engine = self.engine(**self.settings)
        for call, rows in self.steps:
            getattr(engine, call)(rows)
        return engine


PLACES = {"id": ["p", "q", "r"], "x": [1, 2, 8], "y": [1, 5, 3], "price": [3, 1, 2]}

HISTORIES = {
    "RangeTopK": History(
        RangeTopK,
        {"over": "risk", "by": "pe", "k": 2, "order": "desc", "method": "scan"},
        [
            ("publish", {"id": ["a", "b", "é"], "risk": [1, 2, 3], "pe": [5, 5, 7]}),
            ("subscribe", {"id": [7, 3], "risk_lo": [None, 2], "risk_hi": [2, None], "k": [None, 1]}),
            ("publish", {"id": ["b"], "pe": [None]}),
            ("unsubscribe", [7]),
            ("subscribe", {"id": [9]}),
        ],
        ("publish", {"id": ["c"], "risk": [2], "pe": [6]}),
    ),
    "CoveringTable": History(
        CoveringTable,
        {"over": ["x", "y"], "index": "scan"},
        [
            ("subscribe", {"id": [1, 2, 3], "x_lo": [0, 1, 1], "x_hi": [9, 2, None], "y_lo": [0, 1, 1]}),
            ("unsubscribe", [1]),
        ],
        ("subscribe", {"id": [4], "x_lo": [2], "x_hi": [3], "y_lo": [2]}),
    ),
    "RankedMatcher": History(
        RankedMatcher,
        {"over": ["age", "hour"], "k": 2, "mode": "relaxed", "combine": "max", "index": "scan"},
        [
            (
                "subscribe",
                {"id": ["u", "v"], "age_lo": [1, None], "age_weight": [0.5, 2], "hour_weight": [1, None]},
            ),
            ("rescore", {"id": ["u"], "age_weight": [3]}),
        ],
        ("publish", {"id": [1, 2], "age": [5, None], "hour": [None, 3]}),
    ),
    "GeoTextTopK": History(
        GeoTextTopK,
        {"bounds": (0, 0, 9, 9), "k": 2, "alpha": 0.25, "window": 3, "method": "scan", "refill": "none"},
        [
            ("subscribe", {"id": ["s"], "x": [1], "y": [1], "terms": [["tea", "jazz"]], "alpha": [0.5]}),
            ("publish", {"id": [1, 2], "x": [1, 9], "y": [2, 9], "terms": [["tea", "tea"], ["jazz", "sun"]]}),
            ("publish", {"id": [3, 4], "x": [4, 5], "y": [2, 9], "terms": [["rain"], ["jazz", "tea"]]}),
        ],
        ("publish", {"id": [1], "x": [1], "y": [1], "terms": [["tea", "jazz"]]}),
    ),
    "MovingTopK": History(
        MovingTopK,
        {"over": ["price"], "k": 1, "m": 2, "score": scoring.weighted_sum([2.0, 1.0]), "method": "scan"},
        [("upsert", PLACES), ("subscribe", {"id": [5], "x": [0], "y": [0]}), ("remove", ["q"])],
        ("publish", {"id": [5], "x": [9], "y": [4]}),
    ),
    "MovingSkyline": History(
        MovingSkyline,
        {"over": ["price"], "prefer": "max", "metric": "manhattan", "method": "scan"},
        [("upsert", PLACES), ("subscribe", {"id": [5], "x": [0], "y": [0]}), ("remove", ["p"])],
        ("publish", {"id": [5], "x": [9], "y": [4]}),
    ),
}
