"""Figures 7 to 12 of the moving-queries paper: zones of skylines against the supreme and plain algorithms.

Cars are followed for five minutes. The supreme algorithm gets the zone from an oracle and finds the
skyline alone, by BBS, wherever a zone is left. Where that is was noted beforehand; what is timed, a
position, is the server's work alone: a skyline, or a skyline with its zone.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np

from rankcast.bench.baselines.moving import (
    Branches,
    area_of,
    blocks_of,
    exact_zone,
    plain_zone,
    seekers_at,
    skyline_zones_of,
    unpruned_zone,
)
from rankcast.bench.cases.moving import world
from rankcast.bench.cases.skyline import SETTING, SMALL, agrees, engine_of, shapes
from rankcast.bench.runner import Contender, Figure, Parameters, Trial, case
from rankcast.bench.workloads import Columns, Floats

DEFAULT: dict[str, Any] = {**SETTING, "queries": [100], "duration": [300]}
BRIEF: dict[str, Any] = {**SMALL, "queries": [5], "duration": [30]}
ALIKE = 1e-6


class Trace(NamedTuple):
    """Where zones had to be found, how far cars came with each, and what zones looked like."""

    x: Floats
    y: Floats
    escape: float
    shape: dict[str, float]


def follow(engine: Any, steps: list[Columns]) -> Trace:
    """Follow cars, and note every position at which a zone was left."""
    zoned, rows = skyline_zones_of(engine), np.arange(len(steps[0]["id"]))
    engine.subscribe(steps[0])
    x, y, shape = [steps[0]["x"]], [steps[0]["y"]], [shapes(zoned, rows)]
    driven = 0.0
    for former, positions in pairwise(steps):
        before = zoned.zones.kept.x[rows].copy(), zoned.zones.kept.y[rows].copy()
        engine.publish(positions)
        kept = zoned.zones.kept
        new = np.flatnonzero((kept.x[rows] != before[0]) | (kept.y[rows] != before[1]))
        driven += float(np.hypot(positions["x"] - former["x"], positions["y"] - former["y"]).sum())
        x.append(positions["x"][new])
        y.append(positions["y"][new])
        if new.size:
            shape.append(shapes(zoned, new))
    left = sum(map(len, x)) - rows.size
    mean = {name: float(np.mean([each[name] for each in shape])) for name in ("edges", "skyline", "radius")}
    mean["most_edges"] = max(each["most_edges"] for each in shape)
    return Trace(np.concatenate(x), np.concatenate(y), driven / max(left, 1), mean)


def servers(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Make a trial: the supreme algorithm against zones."""
    cars, seconds = parameters["queries"], parameters["duration"]
    over, objects, steps = world(parameters, rng, cars=cars, seconds=seconds)
    engine = engine_of(over, objects)
    trace = follow(engine, steps)
    zoned, plain, work = skyline_zones_of(engine), Branches(objects, over), cars * seconds

    def supreme(_: Any) -> int:
        plain.nodes = 0
        plain.search(trace.x, trace.y)
        return plain.nodes

    def zones(_: Any) -> int:
        box = zoned.universe.box
        _, counted = zoned.places.zones(zoned.metric, seekers_at(trace.x, trace.y), box, 1, 1)
        return int(counted[0])

    def counters_of(_: Any, nodes: int) -> dict[str, float]:
        return {
            "nodes": nodes / work,
            "recomputed": trace.x.size / work,
            "escape": trace.escape,
            **trace.shape,
        }

    return Trial(
        work=work,
        contenders=[
            Contender("zone", run=zones, counters=counters_of),
            Contender("supreme", run=supreme, counters=lambda _, nodes: {"nodes": nodes / work}),
        ],
        baseline="supreme",
        agrees=lambda _: agrees(engine, over, objects, steps[-1]),
    )


def _over(
    number: int,
    name: str,
    full: list[Any],
    small: list[Any],
    queries: int = 100,
    reproduces: str = "",
    real: list[Any] | None = None,
) -> None:
    """Declare a figure over a parameter of the workload; `real` among points and roads of California."""
    series = ("places",)
    usual: dict[str, Any] = {**DEFAULT, "queries": [queries]}

    @case(
        f"moving-skyline.figure-{number}",
        small={**BRIEF, name: small},
        full=[{**usual, name: full}, {**usual, name: real or full, "places": ["california"]}],
        seed=90 + number,
        unit="position",
        reproduces=reproduces or f"[Moving Fig. {number}]",
        runs=3,
        figures=(
            Figure(f"Figure {number}: server CPU", name, "seconds", series),
            Figure(f"Figure {number}: nodes", name, "nodes", series),
            Figure(f"Figure {number}: escape distance", name, "escape", series, contenders=("zone",)),
            Figure(f"Figure {number}: edges", name, "edges", series, contenders=("zone",)),
        ),
    )
    def figure(parameters: Parameters, rng: np.random.Generator) -> Trial:
        """Zones against the supreme algorithm, over one parameter."""
        return servers(parameters, rng)


_over(
    7,
    "objects",
    [50_000, 75_000, 100_000, 125_000, 150_000],
    [1_000, 3_000],
    reproduces="[Moving Fig. 7, 11]",
    real=[50_000, 75_000, 100_000],  # there are 104,770 points
)
_over(8, "attributes", [1, 2, 3, 4], [1, 2], queries=20)
_over(9, "distribution", ["corr", "unif", "norm", "anti"], ["unif", "anti"])
_over(10, "speed", [40, 60, 80, 100, 120], [40, 120])


@case(
    "moving-skyline.figure-12",
    small={**SMALL, "objects": [500], "queries": [5]},
    full={**SETTING, "objects": [50_000, 100_000, 150_000], "queries": [100]},
    seed=102,
    unit="zone",
    reproduces="[Moving Fig. 12]",
    runs=2,
    figures=(
        Figure("Figure 12: CPU a zone", "objects", "seconds", log_y=True),
        Figure("Figure 12: nodes a zone", "objects", "nodes_accessed", log_y=True),
    ),
)
def ablation(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """One zone by Algorithm 1, without pruning, with cells of all objects, and as it is.

    The plain ones have no tree to choose from: whenever they consider all objects, they read all nodes.
    """
    over, objects, steps = world(parameters, rng, cars=parameters["queries"], seconds=1)
    engine = engine_of(over, objects)
    engine.subscribe(steps[0])
    zoned = skyline_zones_of(engine)
    kept, rows = zoned.zones.kept, np.arange(parameters["queries"], dtype=np.int32)
    x, y = float(kept.x[0]), float(kept.y[0])
    points = zoned.places.record[: len(objects["id"])] - np.array([x, y, *[0.0] * len(over)])
    universe = zoned.universe.box - np.array([x, y, x, y])
    first = int(kept.start[0])
    skyline = kept.member[first : first + kept.result[0]].astype(np.int64)
    members = kept.member[first : first + kept.count[0]].astype(np.int64)
    expected = area_of(*zoned.zones.region(0))
    plain = {
        "basic": (lambda _: plain_zone(points, universe), 1 + len(points)),
        "no pseudo": (lambda _: exact_zone(points, universe, members), 1 + members.size),
        "no pruning": (lambda _: unpruned_zone(points, universe, skyline), 1),
    }
    blocks = blocks_of(len(points))

    def by(name: str) -> Contender:
        find, passes = plain[name]
        return Contender(
            name, run=find, work=1, runs=1, counters=lambda *_: {"nodes_accessed": passes * blocks}
        )

    def same(answer: Any) -> bool:
        region, pieces, found = answer
        return set(found) == set(skyline) and bool(np.isclose(area_of(region, pieces), expected, rtol=ALIKE))

    return Trial(
        work=rows.size,
        contenders=[
            Contender("zone", run=lambda _: zoned.renew(rows), stats=lambda _: engine.stats()),
            *map(by, plain),
        ],
        baseline="basic",
        agrees=lambda answers: all(same(answers[name]) for name in plain),
    )
