"""The tables of the range top-k paper in one attribute, the paper's values beside ours.

Calls and receivers an event; and the redundancy of approximate methods (Tables II and V): needless messages
received, as a share of the needed ones.

Counts come from the painting kernels and do not depend on the machine. A run's events are cut into as many
parts as there are repetitions, so that all repetitions together apply the run once, in sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, TypeAlias

import numpy as np

from rankcast.bench.runner import Contender, Grid, Parameters, Trial, case
from rankcast.bench.workloads import Columns, batches, range_topk
from rankcast.bench.workloads.range_topk import Workload, uniform_workload
from rankcast.papers.figures.range_counts import (
    Audience,
    Census,
    Server,
    Unicast,
    agree,
    point_index,
)

PARTS = 5
KS = [1, 2, 5, 10, 15, 20]
SMALL: Grid = {"objects": [1_000], "subscriptions": [20_000], "events": [1_000]}
FULL: Grid = {"objects": [10_000], "subscriptions": [2_000_000], "events": [50_000]}
TRACE: Grid = {"subscriptions": [400_000]} if range_topk.STOCKS.exists() else {"subscriptions": []}

counted = partial(case, unit="event", runs=PARTS - 1)


def by_k(*values: float) -> dict[int, float]:
    """A row of one of the paper's tables, for the first of `KS`."""
    return dict(zip(KS[: len(values)], values, strict=True))


AFFECTED = by_k(444.141, 939.76, 2211.14, 4190.21, 6082.94, 7904.26)
UNICAST = by_k(444.141, 1086.44, 2846.1, 5453.64, 8032.39, 10587.4)
DENSE = by_k(1.12, 1.73, 3.57, 6.60, 9.63, 12.63)
SPARSE_MINY = by_k(0.72744, 1.08988, 2.59596, 5.5568, 8.57692, 11.58048)
SPARSE_SNAP = by_k(1.2284, 2.95254, 12.06538, 40.69192, 84.65234, 143.20416)
BY_SUBSCRIPTIONS = {
    200_000: ({"firstk": 2, "miny": 3.52, "snap": 29.87}, {"miny": 545.23}),
    800_000: ({"firstk": 2, "miny": 4.84, "snap": 37.34}, {"miny": 2181.49}),
    4_000_000: ({"firstk": 2, "miny": 5.94188, "snap": 42.0509}, {"miny": 10906.4}),
    10_000_000: ({"firstk": 2, "miny": 6.26988, "snap": 42.86982}, {"miny": 27267.5}),
}
TRACE_MINY = by_k(0.5, 0.5, 0.51, 0.54, 0.57, 0.61)
TRACE_SNAP = by_k(1, 2, 5.05, 10.35, 16.02, 22.18)
TRACE_UNICAST = by_k(176.01, 409.44, 1050.48, 2278.27, 3510.16, 4614.24)


@case(
    "range-topk.table-1",
    small={**SMALL, "k": [1, 10, 20], "draws": [4]},
    full={**FULL, "k": KS, "draws": [16]},
    seed=31,
    unit="event",
    runs=15,
    reproduces="[Range Table I; Table III, Unicast]",
)
def table_1(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count affected subscriptions an event, and those Unicast asks for: the mean over fresh draws."""
    k, tallies = parameters["k"], []

    def draw() -> tuple[Server, Columns]:
        work = uniform_workload(parameters, rng)
        return Unicast(work.objects, k, Census(work.objects["x"], work.subscriptions)), work.events

    def run(drawn: tuple[Server, Columns]) -> list[dict[str, float]]:
        server, events = drawn
        server.send(events)
        tallies.append(server.counts())
        return tallies

    def means(_: object, counts: list[dict[str, float]]) -> dict[str, float]:
        affected = [count["affected"] for count in counts]
        mean = {name: float(np.mean([count[name] for count in counts])) for name in ("affected", "miny")}
        return {**mean, "spread": float(np.std(affected) / np.mean(affected)), "draws": len(counts)}

    paper = {"affected": AFFECTED[k], "miny": UNICAST[k]} if at_paper_size(parameters) else {}
    contender = Contender("unicast", run, draw, runs=parameters["draws"] - 1, counters=means, paper=paper)
    return Trial(
        work=parameters["events"],
        contenders=[contender],
        agrees=lambda _: agree(uniform_workload(parameters, rng), k),
    )


@counted(
    "range-topk.table-3",
    small={**SMALL, "k": [1, 10, 20]},
    full={**FULL, "k": KS},
    seed=33,
    reproduces="[Range Table III]",
)
def table_3(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count questions an event over k: what the object and the subscription index are asked."""
    k = parameters["k"]
    paper = {
        "dense": {"firstk": 2, "miny": DENSE[k]},
        "sparse": {"firstk": 2, "miny": SPARSE_MINY[k], "snap": SPARSE_SNAP[k]},
        "unicast": {"miny": UNICAST[k]},
    }
    work = uniform_workload(parameters, rng)
    return calls(work, k, ("dense", "sparse", "unicast"), paper if at_paper_size(parameters) else {})


@counted(
    "range-topk.table-4",
    small={**SMALL, "subscriptions": [2_000, 8_000, 40_000, 100_000], "k": [10]},
    full={**FULL, "subscriptions": list(BY_SUBSCRIPTIONS), "k": [10]},
    seed=34,
    reproduces="[Range Table IV]",
)
def table_4(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count questions an event over the number of subscriptions: dense flat, Unicast linear."""
    paper = {}
    if parameters["subscriptions"] in BY_SUBSCRIPTIONS:
        sparse, unicast = BY_SUBSCRIPTIONS[parameters["subscriptions"]]
        paper = {"dense": {"firstk": 2, "miny": DENSE[10]}, "sparse": sparse, "unicast": unicast}
    return calls(uniform_workload(parameters, rng), parameters["k"], ("dense", "sparse", "unicast"), paper)


@counted(
    "range-topk.table-6",
    small={**TRACE, "k": [10]},
    full={**TRACE, "k": KS},
    seed=35,
    reproduces="[Range Table VI]",
)
def table_6(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count questions on real P/E changes (../shared/data, nothing to run without it)."""
    k = parameters["k"]
    paper = {
        "sparse": {"firstk": 2, "miny": TRACE_MINY[k], "snap": TRACE_SNAP[k]},
        "unicast": {"miny": TRACE_UNICAST[k]},
    }
    return calls(trace(parameters, rng), k, ("dense", "sparse", "unicast"), paper)


def calls(work: Workload, k: int, names: tuple[str, ...], paper: Mapping[str, Mapping[str, float]]) -> Trial:
    """Let servers do the same run and count: `unicast`, `dense`, `sparse`, also `dense(0.5)`."""
    points = point_index(work.subscriptions)
    census = Census(work.objects["x"], work.subscriptions)

    def server(name: str) -> Server:
        if name == "unicast":
            return Unicast(work.objects, k, census)
        method, _, epsilon = name.rstrip(")").partition("(")
        known = points if method == "sparse" else None
        return Server(work.objects, k, points=known, epsilon=float(epsilon) if epsilon else None)

    contenders = [counting(name, server(name), work.events, paper.get(name, {})) for name in names]
    return Trial(work=len(work.events["id"]) // PARTS, contenders=contenders, agrees=lambda _: agree(work, k))


def counting(
    name: str,
    server: Any,
    events: Columns,
    paper: Mapping[str, float],
    further: Callable[[Server], Mapping[str, float]] = lambda server: {},
) -> Contender:
    """Make a contender that sends the next part of a run at each repetition and counts over all of it."""
    parts: Iterator[Columns] = iter(batches(events, -(-len(events["id"]) // PARTS)))
    return Contender(
        name,
        prepare=lambda: next(parts),
        run=server.send,
        counters=lambda _, __: {**server.counts(), **further(server)},
        paper=paper,
    )


def trace(parameters: Parameters, rng: np.random.Generator) -> Workload:
    """Read the real trace and draw uniform subscriptions over its range of x."""
    objects, events = range_topk.stocks()
    drawn = range_topk.subscriptions(parameters["subscriptions"], rng)
    low, high = float(objects["x"].min()), float(objects["x"].max())
    return Workload(objects, range_topk.stretched(drawn, low, high), events)


def at_paper_size(parameters: Parameters) -> bool:
    """Whether the paper's numbers apply."""
    return (parameters["objects"], parameters["subscriptions"]) == (10_000, 2_000_000)


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
    return redundancy(uniform_workload(parameters, rng), parameters["k"], [0.125, 0.25, 0.5, 1.0], paper)


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
    k, tallies = parameters["k"], []

    def draw() -> tuple[list[Server], Columns]:
        work = uniform_workload(parameters, rng)
        points = point_index(work.subscriptions)
        servers: list[Server] = [Unicast(work.objects, k, Census(work.objects["x"], work.subscriptions))]
        servers += [Audience(work.objects, k, points=points, epsilon=epsilon) for epsilon in (0.5, 1.0)]
        return servers, work.events

    def run(drawn: tuple[list[Server], Columns]) -> list[list[float]]:
        servers, events = drawn
        for server in servers:
            server.send(events)
        tallies.append([servers[0].total["affected"], *(server.total["received"] for server in servers[1:])])
        return tallies

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
        work=parameters["events"],
        contenders=[contender],
        agrees=lambda _: agree(uniform_workload(parameters, rng), k),
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
    """Compare who hears with who must: of updated objects, as the paper does, and of all objects."""
    points = point_index(work.subscriptions)
    precise = Audience(work.objects, k, points=points)
    exact = Unicast(work.objects, k, Census(work.objects["x"], work.subscriptions))

    def needless(name: str) -> Callable[[Server], dict[str, float]]:
        return lambda server: {"redundancy": server.total[name] / exact.total["affected"] - 1}

    def both(server: Server) -> dict[str, float]:
        more = server.total["delivered"] / precise.total["delivered"] - 1
        return {**needless("received")(server), "redundancy_of_all": more}

    def value(key: float | str) -> dict[str, float]:
        return {"redundancy": paper[key][k]} if key in paper else {}

    contenders = [
        counting(
            f"sparse({epsilon:g})",
            Audience(work.objects, k, points=points, epsilon=epsilon),
            work.events,
            value(epsilon),
            both,
        )
        for epsilon in epsilons
    ]
    contenders.append(counting("sparse", precise, work.events, {}, both))
    contenders.append(counting("relax", exact, work.events, value("relax"), needless("relaxed")))
    return Trial(work=len(work.events["id"]) // PARTS, contenders=contenders, agrees=lambda _: agree(work, k))
