"""Workloads and a plain model of `MovingTopK`, written from the contract."""

from __future__ import annotations

import math
from typing import Any

from hypothesis import strategies as st

from rankcast.core.contract import Workload
from rankcast.moving import scoring
from tests.laws import roads
from tests.laws.moving import GRAPHS, METRICS, SCORE_TOLERANCE, Moving, churn, steps

__all__ = ["CHURN_SETTINGS", "SCORE_TOLERANCE", "Naive", "churn", "workloads"]

CHURN_SETTINGS = {"over": ["a"], "k": 3}
WEIGHTS = st.sampled_from([0, 0.5, 1, 2])
POSITIVE: list[float] = [1, 2, 4]
ANY: list[float] = [-1, 0, 1, 2.5]


@st.composite
def workloads(draw: st.DrawFn) -> Workload:
    over: list[str] = draw(st.sampled_from([[], ["a"], ["a"], ["a", "b"]]))
    metric = draw(METRICS)
    settings: dict[str, Any] = {
        "over": over,
        "k": draw(st.integers(1, 3) | st.sampled_from([80, 2**31 - 1])),
        "m": draw(st.just("auto") | st.integers(1, 3) | st.sampled_from([80, 2**31 - 1])),
        "metric": metric,
        "ordered": draw(st.booleans()),
        "score": draw(_scores(len(over))),
    }
    graph = None
    if metric == "network":
        graph = settings["graph"] = roads.graph(draw(GRAPHS))
    dimensions = draw(st.sampled_from([2, 2, 3])) if metric == "euclidean" else 2
    if dimensions == 3:
        settings["dimensions"] = dimensions
    plain = settings["score"] is None or settings["score"].name == "weighted_sum"
    values = ANY if plain else POSITIVE
    calls = steps(over, metric, values, takes_k=True, filters=True, graph=graph, dimensions=dimensions)
    return Workload(settings, draw(calls))


@st.composite
def _scores(draw: st.DrawFn, attributes: int) -> Any:
    kind = draw(st.sampled_from(["default", "sum", "product", "distance", "waspas"]))
    if kind == "default" or (kind == "distance" and not attributes):
        return None
    given = draw(st.booleans())
    if kind == "distance":
        w = [draw(WEIGHTS.filter(bool)), *(draw(WEIGHTS) for _ in range(attributes - 1))] if given else None
        return scoring.weighted_distance(w)
    w = [draw(WEIGHTS) for _ in range(attributes + 1)] if given else None
    if kind == "sum":
        return scoring.weighted_sum(w)
    if kind == "product":
        return scoring.weighted_product(w)
    return scoring.waspas(w, draw(st.sampled_from([0, 0.25, 1])))


class Naive(Moving):
    """Every object scored, all of them sorted."""

    def __init__(
        self,
        *,
        over: list[str],
        k: int = 10,
        m: int | str = "auto",
        score: Any = None,
        metric: str = "euclidean",
        ordered: bool = True,
        graph: Any = None,
        dimensions: int = 2,
    ) -> None:
        super().__init__(over, metric, graph)
        self.k = k
        form: dict[str, Any] = {"name": "weighted_sum", "w": None} if score is None else score.as_json()
        self.name, self.lam = form["name"], form.get("lam", 1.0)
        size = len(over) + (self.name != "weighted_distance")
        self.w = form["w"] or [1 / size] * size

    def ranking(self, query: dict[str, Any]) -> list[tuple[Any, float]]:
        scored = sorted(
            (self.score(query, values), item)
            for item, values in self.objects.items()
            if self.passes(query, values) and self.distance(query, values) < math.inf
        )
        return [(item, score) for score, item in scored[: query.get("k") or self.k]]

    def passes(self, query: dict[str, Any], item: dict[str, Any]) -> bool:
        low, high = query.get("a_lo"), query.get("a_hi")
        return (low is None or low <= item["a"]) and (high is None or item["a"] <= high)

    def score(self, query: dict[str, Any], item: dict[str, Any]) -> float:
        distance = self.distance(query, item)
        attributes = [item[name] for name in self.over]
        if self.name == "weighted_distance":
            return distance / self.total(attributes)
        values = [*attributes, distance]
        if self.name == "weighted_sum":
            return self.total(values)
        product = math.pow(values[0], self.w[0])
        for value, weight in zip(values[1:], self.w[1:], strict=True):
            product = product * math.pow(value, weight)
        if self.name == "weighted_product":
            return product
        return float(self.lam * self.total(values) + (1 - self.lam) * product)

    def total(self, values: list[float]) -> float:
        total = self.w[0] * values[0]
        for value, weight in zip(values[1:], self.w[1:], strict=True):
            total = total + weight * value
        return float(total)
