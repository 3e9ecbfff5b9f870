"""Workloads and a plain model of `RankedMatcher`, written from the contract."""

from __future__ import annotations

from typing import Any

from hypothesis import strategies as st

from rankcast import RankedMatcher
from rankcast.core.contract import Workload
from rankcast.core.engine import Engine
from tests.laws.covering import Box, box_columns, changed, enter, events, records, some, steps

SCORE_TOLERANCE = 0.0  # sums of a few halves are exact
CHURN_SETTINGS = {"over": ["x"]}

CALLS = ["subscribe", "subscribe", "publish", "publish", "publish", "amend", "rescore", "unsubscribe"]
SCORES = st.sampled_from([0, 1, 1, 2, -1, 0.5])
WEIGHTS = st.sampled_from([None, 0, 1, 1, 2, 0.5])


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    over = draw(st.sampled_from([["x"], ["x", "y"], ["x", "y", "z"]]))
    settings = {
        "over": over,
        "k": draw(st.sampled_from([1, 2, 3, 9, 10**6, 2**31 - 1])),
        "mode": draw(st.sampled_from(["exact", "relaxed"])),
        "combine": draw(st.sampled_from(["sum", "sum", "max"])),
    }
    name_of = draw(st.sampled_from([lambda i: 3 - i, lambda i: ["b", "ab", "", "é", "a", "z"][i]]))
    event_of = draw(st.sampled_from([lambda i: i - 1, lambda i: "cab"[i]]))

    def rows(call: str, live: dict[Any, Box]) -> dict[str, Any]:
        names = enter(draw, live, name_of) if call == "subscribe" else some(draw, list(live))
        ends = {} if call == "rescore" else box_columns(draw, over, [live[name] for name in names])
        return {"id": names, **ends, **_ranking(draw, settings, call, len(names))}

    return Workload(settings, steps(draw, CALLS, events(over, event_of, nullable=True), rows))


def _ranking(draw: st.DrawFn, settings: dict[str, Any], call: str, size: int) -> dict[str, list[Any]]:
    """The columns that rank; where they may be absent, some are."""
    if settings["mode"] == "exact":
        given = ["score"] if call != "amend" or draw(st.booleans()) else []
        return {name: [draw(SCORES) for _ in range(size)] for name in given}
    names = [f"{name}_weight" for name in settings["over"]]
    given = [name for name in names if draw(st.integers(0, 3))]
    if call == "rescore" and not given:
        given = names[-1:]
    return {name: [draw(WEIGHTS) for _ in range(size)] for name in given}


def churn(engine: Engine, round_: int) -> None:
    """A round that ends with as much alive as it began with."""
    assert isinstance(engine, RankedMatcher)
    names = [f"s{i}-{round_}" for i in range(20)]
    engine.subscribe({"id": names, "x_lo": list(range(20)), "score": [round_ + i for i in range(20)]})
    engine.publish({"id": [f"e{round_}-{i}" for i in range(30)], "x": list(range(30))})
    engine.rescore({"id": names, "score": list(range(20))})
    engine.unsubscribe(names)


class Naive:
    """Dicts and sorted lists."""

    def __init__(self, *, over: list[str], k: int, mode: str, combine: str) -> None:
        self.over, self.k, self.mode, self.combine = over, k, mode, combine
        self.boxes: dict[Any, Box] = {}
        self.score: dict[Any, float] = {}
        self.weights: dict[Any, dict[str, float]] = {}

    def call(self, name: str, rows: Any) -> list[dict[str, Any]] | None:
        if name == "publish":
            return [match for row in records(rows) for match in self.matches(row)]
        if name == "unsubscribe":
            for gone in rows:
                del self.boxes[gone], self.score[gone], self.weights[gone]
            return None
        for row in records(rows):
            self.register(row)
        return None

    def results(self) -> None:
        return None

    def register(self, row: dict[str, Any]) -> None:
        name = row["id"]
        self.boxes[name] = changed(self.boxes.get(name, {}), row, self.over)
        self.score[name] = row.get("score", self.score.get(name, 0))
        weights = self.weights.setdefault(name, {})
        for attribute in self.over:
            weights[attribute] = row.get(f"{attribute}_weight", weights.get(attribute)) or 0.0

    def matches(self, event: dict[str, Any]) -> list[dict[str, Any]]:
        scored = []
        for name, box in self.boxes.items():
            hit = [attribute for attribute in self.over if hits(box[attribute], event[attribute])]
            weights = [self.weights[name][attribute] for attribute in hit]
            if self.mode == "exact" and hit == self.over:
                scored.append((-self.score[name], name))
            if self.mode == "relaxed" and any(weights):
                scored.append((-(sum(weights) if self.combine == "sum" else max(weights)), name))
        return [
            {"event": event["id"], "rank": rank, "subscription": name, "score": float(-score)}
            for rank, (score, name) in enumerate(sorted(scored)[: self.k], 1)
        ]


def hits(interval: tuple[float | None, float | None], value: float | None) -> bool:
    """Whether an interval contains a value; an unknown one only if there is no bound at all."""
    low, high = interval
    if value is None:
        return low is None and high is None
    return (low is None or low <= value) and (high is None or value <= high)
