"""Workloads and a plain model of `MovingSkyline`, written from the contract."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from rankcast.core.contract import Workload
from tests.laws import roads
from tests.laws.moving import GRAPHS, METRICS, SCORE_TOLERANCE, Moving, churn, steps

__all__ = ["CHURN_SETTINGS", "SCORE_TOLERANCE", "Naive", "churn", "workloads"]

CHURN_SETTINGS = {"over": ["a"]}
WAYS = st.sampled_from(["min", "max"])


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    over: list[str] = draw(st.sampled_from([[], ["a"], ["a", "b"], ["a", "b"]]))
    metric = draw(METRICS)
    settings: dict[str, Any] = {"over": over, "metric": metric}
    graph = None
    if metric == "network":
        graph = settings["graph"] = roads.graph(draw(GRAPHS))
    if draw(st.booleans()):
        by_attribute = st.dictionaries(st.sampled_from(over), WAYS) if over else WAYS
        settings["prefer"] = draw(st.one_of(WAYS, by_attribute))
    if draw(st.booleans()):
        settings["tuning"] = {"universe": draw(st.sampled_from([None, [0, 0, 4, 4]]))}
    return Workload(settings, draw(steps(over, metric, [0, 1, 2], takes_k=False, filters=True, graph=graph)))


class Naive(Moving):
    """Every object compared with every other."""

    def __init__(
        self,
        *,
        over: list[str],
        prefer: str | dict[str, str] = "min",
        metric: str = "euclidean",
        tuning: dict[str, Any] | None = None,
        graph: Any = None,
    ) -> None:
        super().__init__(over, metric, graph)
        ways = prefer if isinstance(prefer, dict) else dict.fromkeys(over, prefer)
        self.large_is_good = {name for name, way in ways.items() if way == "max"}

    def ranking(self, query: dict[str, Any]) -> list[tuple[Any, float]]:
        values = {
            item: self.costs(query, each)
            for item, each in self.objects.items()
            if self.passes(query, each) and self.distance(query, each) < math.inf
        }
        found = [
            (mine[-1], item)
            for item, mine in values.items()
            if not any(dominates(other, mine) for other in values.values())
        ]
        return [(item, distance) for distance, item in sorted(found)]

    def passes(self, query: dict[str, Any], item: dict[str, Any]) -> bool:
        low, high = query.get("a_lo"), query.get("a_hi")
        return (low is None or low <= item["a"]) and (high is None or item["a"] <= high)

    def costs(self, query: dict[str, Any], item: dict[str, Any]) -> list[float]:
        turned = [-item[name] if name in self.large_is_good else item[name] for name in self.over]
        return [*turned, self.distance(query, item)]


def dominates(one: list[float], other: list[float]) -> bool:
    """At least as good everywhere and better somewhere."""
    pairs = list(zip(one, other, strict=True))
    return all(a <= b for a, b in pairs) and any(a < b for a, b in pairs)
