"""Figures 13 to 19 of the moving-queries paper: zones with several m against the supreme algorithm.

Cars are followed for an hour. The supreme algorithm knows the optimal zone of m = 1 at no cost: it searches,
best-first, only where the set of the best k has changed. What it and each m have to search for is noted
beforehand; what is timed, a position, is the server's work alone: a search, or a search with a zone. Clients
have a count of their own: scores of members a position.
"""

from __future__ import annotations

from functools import partial
from typing import Any, NamedTuple

import numpy as np

from rankcast.bench.baselines.moving import BestFirst, zones_of
from rankcast.bench.cases.moving import agree, engine_of, score_of, world
from rankcast.bench.runner import Contender, Figure, Parameters, Trial, case
from rankcast.bench.workloads import Columns, Floats
from rankcast.moving import scoring
from rankcast.moving.kernels.rtree_search import Queries

HOUR: dict[str, Any] = {"queries": [100], "duration": [3_600]}
MINUTES: dict[str, Any] = {"queries": [20], "duration": [120]}
REAL: dict[str, Any] = {"places": ["california"]}  # points of interest and roads
DEFAULT = {"objects": [100_000], "attributes": [3], "k": [10], "speed": [60], "weight": [1.0], **HOUR}
BRIEF = {"objects": [5_000], "attributes": [3], "k": [10], "speed": [60], "weight": [1.0], **MINUTES}
LEVELS = ("1", "2", "5", "k")


class Trace(NamedTuple):
    """Where zones had to be found, what clients did, and how large zones were."""

    x: Floats
    y: Floats
    rescored: float
    radius: float
    engine: Any


def _follow(engine: Any, steps: list[Columns]) -> Trace:
    """Follow cars, and note every position at which a zone was left."""
    zoned = zones_of(engine)
    engine.subscribe(steps[0])
    held = zoned.zones.held
    size = len(steps[0]["id"])
    x, y, radius = [steps[0]["x"]], [steps[0]["y"]], [held.radius[:size].copy()]
    for positions in steps[1:]:
        before = held.x[:size].copy(), held.y[:size].copy()
        engine.publish(positions)
        new = np.flatnonzero((held.x[:size] != before[0]) | (held.y[:size] != before[1]))
        x.append(held.x[new])
        y.append(held.y[new])
        radius.append(held.radius[new])
    rescored = engine.stats()["rescored"] / (size * len(steps))
    return Trace(np.concatenate(x), np.concatenate(y), rescored, float(np.concatenate(radius).mean()), engine)


def _changes(engine: Any, steps: list[Columns]) -> tuple[Floats, Floats]:
    """The positions at which the set of the best k is another than a second before, the first included."""
    x, y = [steps[0]["x"]], [steps[0]["y"]]
    engine.subscribe(steps[0])
    for positions in steps[1:]:
        deltas = engine.publish(positions)
        changed = np.unique(deltas["subscription"].to_numpy())
        x.append(positions["x"][changed])
        y.append(positions["y"][changed])
    return np.concatenate(x), np.concatenate(y)


def servers(
    parameters: Parameters, rng: np.random.Generator, score: scoring.Score, levels: tuple[str, ...] = LEVELS
) -> Trial:
    """Make a trial: the supreme algorithm against zones with several m."""
    cars, seconds, k = parameters["queries"], parameters["duration"], parameters["k"]
    over, objects, steps = world(parameters, rng, cars=cars, seconds=seconds)
    sizes = {f"m = {level}": k if level == "k" else int(level) for level in levels}
    traces = {name: _follow(engine_of(over, objects, score, k=k, m=m), steps) for name, m in sizes.items()}
    changed_x, changed_y = _changes(engine_of(over, objects, score, k=k, m=k), steps)
    supreme = BestFirst(objects, over, score, k)
    work = cars * seconds

    def search(_: Any) -> int:
        supreme.nodes = 0
        supreme.search(changed_x, changed_y)
        return supreme.nodes

    def zones(name: str, _: Any) -> int:
        trace, m = traces[name], sizes[name]
        zoned, none = zones_of(trace.engine), np.empty((trace.x.size, 0))
        queries = Queries(trace.x, trace.y, np.full(trace.x.size, k), none, none, filtered=False)
        found = zoned.places.zones(zoned.form, zoned.objects.label, queries, m, 1)
        return int(found[1][0])

    def counted(name: str, _: Any, nodes: int) -> dict[str, float]:
        trace = traces[name]
        return {
            "nodes": nodes / work,
            "recomputed": trace.x.size / work,
            "radius": trace.radius,
            "rescored": trace.rescored,
        }

    plain = BestFirst(objects, over, score, k)
    plain.publish(steps[-1])
    return Trial(
        work=work,
        contenders=[
            *(
                Contender(
                    name,
                    run=partial(zones, name),
                    counters=partial(counted, name),
                )
                for name in traces
            ),
            Contender(
                "supreme",
                run=search,
                counters=lambda _, nodes: {
                    "nodes": nodes / work,
                    "recomputed": changed_x.size / work,
                    "rescored": float(k),
                },
            ),
        ],
        baseline="supreme",
        agrees=lambda _: all(agree(trace.engine, plain.found) for trace in traces.values()),
    )


def _figures(x: str, title: str) -> tuple[Figure, ...]:
    """Server CPU and node accesses over a parameter."""
    series = ("places",)
    return (
        Figure(f"{title}: server CPU", x, "seconds", series),
        Figure(f"{title}: nodes", x, "nodes", series),
    )


def _over_k(number: int, name: str, seed: int) -> None:
    """Declare a figure of one score over k."""
    values = [1, 5, 10, 15, 20]
    word = {"sum": "weighted sum", "product": "weighted product", "distance": "weighted distance"}[name]

    @case(
        f"moving-topk.figure-{number}",
        small={**BRIEF, "k": [1, 5]},
        full=[{**DEFAULT, "k": values}, {**DEFAULT, "k": values, **REAL}],
        seed=seed,
        unit="position",
        reproduces=f"[Moving Fig. {number}]",
        runs=5,
        figures=(
            *_figures("k", f"Figure {number}, {word}"),
            Figure(f"Figure {number}: radius", "k", "radius", ("places",)),
        ),
    )
    def figure(parameters: Parameters, rng: np.random.Generator) -> Trial:
        """Zones with m of 1, 2, 5 and k against the supreme algorithm, over k."""
        return servers(parameters, rng, score_of(name, parameters["attributes"]))


for _number, _name in ((13, "sum"), (14, "product"), (15, "distance")):
    _over_k(_number, _name, 80 + _number)


def _over(
    number: int, name: str, title: str, full: list[Any], small: list[Any], real: list[Any] | None = None
) -> None:
    """Declare a figure of the weighted sum over a parameter of the workload; `real` in California."""

    @case(
        f"moving-topk.figure-{number}",
        small={**BRIEF, name: small},
        full=[{**DEFAULT, name: full}, {**DEFAULT, name: real or full, **REAL}],
        seed=80 + number,
        unit="position",
        reproduces=f"[Moving Fig. {number}]",
        runs=5,
        figures=_figures(name, f"Figure {number}, {title}"),
    )
    def figure(parameters: Parameters, rng: np.random.Generator) -> Trial:
        """Zones with m of 5 and k against the supreme algorithm, over one parameter."""
        score = score_of("sum", parameters["attributes"], parameters["weight"])
        return servers(parameters, rng, score, ("5", "k"))


_over(
    16,
    "objects",
    "objects",
    [50_000, 75_000, 100_000, 125_000, 150_000],
    [2_000, 5_000],
    [50_000, 75_000, 100_000],  # there are 104,770 points
)
_over(17, "attributes", "attributes", [1, 2, 3, 4], [1, 3])
_over(18, "speed", "km/h", [40, 60, 80, 100, 120], [40, 120])
_over(19, "weight", "weight of distance", [0.25, 0.5, 1.0, 2.0, 4.0], [0.5, 2.0])


@case(
    "moving-topk.supreme",
    small=BRIEF,
    full={**DEFAULT, "queries": [1_000]},
    seed=76,
    unit="position",
    runs=9,
)
def supreme(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Zones with m = 5 against the supreme algorithm."""
    return servers(parameters, rng, score_of("sum", parameters["attributes"]), ("5",))
