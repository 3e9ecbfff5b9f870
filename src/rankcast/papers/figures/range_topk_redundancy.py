"""What approximate methods of range top-k tell those who need not hear it, beside the paper's values.

Redundancy is the number of needless messages received, as a share of the needed ones.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeAlias

import numpy as np

from rankcast.bench.case import Contender, Parameters, Trial, case
from rankcast.bench.workloads import Columns
from rankcast.papers.figures.range_counts import (
    Audience,
    Census,
    Server,
    Unicast,
    Workload,
    agree,
    point_index,
)
from rankcast.papers.figures.range_topk_tables import (
    FULL,
    KS,
    PARTS,
    SMALL,
    TRACE,
    at_paper_size,
    by_k,
    counted,
    counting,
    trace,
    uniform,
)

ByEpsilon: TypeAlias = Mapping[float | str, Mapping[int, float]]

REDUNDANCY: dict[float | str, dict[int, float]] = {
    0.125: by_k(0, 0, 0, 0.015, 0.0234, 0.034),
    0.25: by_k(0, 0, 0.027, 0.061, 0.070, 0.080),
    0.5: by_k(0, 0, 0.11, 0.14, 0.16, 0.17),
    1.0: by_k(0, 0.16, 0.29, 0.30, 0.32, 0.34),
}
RELAX = by_k(1440.2, 680.14, 288.49, 151.76, 104.23, 79.98)
TRACE_REDUNDANCY = by_k(0, 0.19, 0.25, 0.35, 0.39, 0.38)
TRACE_RELAX = by_k(706.51, 361.22, 147.13, 72.67, 48.38, 36.11)


@counted(
    "range-topk.table-2",
    small={**SMALL, "k": [5, 20]},
    full={**FULL, "k": KS},
    seed=32,
    reproduces="[Range Table II]",
)
def table_2(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count needless messages received, as a share of the needed ones: approximate, and without ranking."""
    paper: ByEpsilon = {**REDUNDANCY, "relax": RELAX} if at_paper_size(parameters) else {}
    return redundancy(uniform(parameters, rng), parameters["k"], [0.125, 0.25, 0.5, 1.0], paper)


@case(
    "range-topk.redundancy",
    small={**SMALL, "k": [2, 10], "draws": [3]},
    full={**FULL, "k": KS, "draws": [6]},
    seed=38,
    unit="event",
    runs=5,
    reproduces="[Range Table II]",
)
def redundancy_of_draws(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count needless messages received over several draws together, and how far single draws lie apart."""
    k, told = parameters["k"], []

    def draw() -> tuple[list[Server], Columns]:
        work = uniform(parameters, rng)
        points = point_index(work.subscriptions)
        servers: list[Server] = [Unicast(work.objects, k, Census(work.objects["x"], work.subscriptions))]
        servers += [Audience(work.objects, k, points=points, epsilon=epsilon) for epsilon in (0.5, 1.0)]
        return servers, work.events

    def run(drawn: tuple[list[Server], Columns]) -> list[list[float]]:
        servers, events = drawn
        for server in servers:
            server.send(events)
        told.append([servers[0].total["affected"], *(server.total["received"] for server in servers[1:])])
        return told

    def pooled(_: object, counts: list[list[float]]) -> dict[str, float]:
        needed, *received = np.array(counts).T
        found = {"needed": needed.sum() / len(counts) / parameters["events"], "draws": len(counts)}
        for epsilon, each in zip(("0.5", "1"), received, strict=True):
            found[f"redundancy({epsilon})"] = each.sum() / needed.sum() - 1
            found[f"spread({epsilon})"] = float(np.std(each / needed))
        return found

    paper = {"redundancy(0.5)": REDUNDANCY[0.5][k], "redundancy(1)": REDUNDANCY[1.0][k]}
    shown = paper if at_paper_size(parameters) else {}
    contender = Contender("sparse", run, draw, runs=parameters["draws"] - 1, counters=pooled, paper=shown)
    return Trial(
        work=parameters["events"], contenders=[contender], agrees=lambda _: agree(uniform(parameters, rng), k)
    )


@counted(
    "range-topk.table-5",
    small={**TRACE, "k": [10]},
    full={**TRACE, "k": KS},
    seed=35,
    reproduces="[Range Table V]",
)
def table_5(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count needless messages on real P/E changes (../shared/data, nothing to run without it)."""
    paper: ByEpsilon = {1.0: TRACE_REDUNDANCY, "relax": TRACE_RELAX}
    return redundancy(trace(parameters, rng), parameters["k"], [1.0], paper)


def redundancy(work: Workload, k: int, epsilons: list[float], paper: ByEpsilon) -> Trial:
    """Compare who hears of updated objects with who must."""
    points = point_index(work.subscriptions)
    exact = Unicast(work.objects, k, Census(work.objects["x"], work.subscriptions))

    def needless(name: str) -> Callable[[Server], dict[str, float]]:
        return lambda server: {"redundancy": server.total[name] / exact.total["affected"] - 1}

    def value(key: float | str) -> dict[str, float]:
        return {"redundancy": paper[key][k]} if key in paper else {}

    contenders = [
        counting(
            f"sparse({epsilon:g})",
            Audience(work.objects, k, points=points, epsilon=epsilon),
            work.events,
            value(epsilon),
            needless("received"),
        )
        for epsilon in epsilons
    ]
    contenders.append(counting("relax", exact, work.events, value("relax"), needless("relaxed")))
    return Trial(work=len(work.events["id"]) // PARTS, contenders=contenders, agrees=lambda _: agree(work, k))
