"""Cases of `metric="network"`: what a position on roads costs, on one thread.

Roads are a generated grid of crossings with some diagonals, some of them one-way; lengths are those of the
plane, up to a third longer. Cars drive along them, a position every ten seconds; objects stand on the roads.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast import MovingTopK, RoadGraph
from rankcast.bench.baselines.roads import DijkstraTopK
from rankcast.bench.cases.moving import agree, drive_all
from rankcast.bench.runner import Contender, Parameters, Trial, case, publish_all
from rankcast.bench.workloads import Columns, batches, moving

BLOCK = 100.0  # metres from crossing to crossing
PART = 10  # of the last positions are searched from


def world(parameters: Parameters, rng: np.random.Generator) -> tuple[RoadGraph, Columns, list[Columns]]:
    """A graph, objects, and the positions of cars every ten seconds."""
    side = round(parameters["nodes"] ** 0.5)
    plain = moving.roads(side, rng, universe=side * BLOCK)
    start = np.repeat(np.arange(side * side), np.diff(plain.begin))
    once = start < plain.ways
    start, end = start[once], plain.ways[once]
    length = np.hypot(plain.x[start] - plain.x[end], plain.y[start] - plain.y[end])
    edges = {
        "start": start,
        "end": end,
        "length": length * rng.uniform(1, 4 / 3, start.size),
        "oneway": rng.random(start.size) < 0.05,
    }
    nodes = {"id": np.arange(side * side), "x": plain.x, "y": plain.y}
    edge, share = rng.integers(0, start.size, parameters["objects"]), rng.random(parameters["objects"])
    objects = {"id": np.arange(parameters["objects"])} | {
        name: spot[start[edge]] * (1 - share) + spot[end[edge]] * share
        for name, spot in (("x", plain.x), ("y", plain.y))
    }
    cars, steps = parameters["queries"], parameters["steps"]
    drive = batches(moving.tracks(plain, cars, 10 * steps, rng, speed=parameters["speed"]), cars)
    return RoadGraph.from_edges(edges, nodes=nodes), objects, drive[::10]


@case(
    "moving-topk.network",
    small={"nodes": [2_500], "objects": [50], "queries": [100], "k": [10], "speed": [40], "steps": [6]},
    full={
        "nodes": [21_025, 1_000_000],
        "objects": [1_000, 10_000],
        "queries": [10_000],
        "k": [10],
        "speed": [40],
        "steps": [12],
    },
    seed=79,
    unit="position",
    runs=3,
)
def network(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """The k nearest objects along roads for cars that drive; Dijkstra at every position beside it."""
    graph, objects, steps = world(parameters, rng)
    k, cars, half = parameters["k"], parameters["queries"], len(steps) // 2
    part = max(1, cars // PART)

    def driven() -> Any:
        engine = MovingTopK(over=[], k=k, metric="network", graph=graph)
        engine.upsert(objects)
        return drive_all(engine, steps[:half])

    last = {name: column[:part] for name, column in steps[-1].items()}
    return Trial(
        work=cars * (len(steps) - half),
        contenders=[
            Contender(
                "network",
                prepare=driven,
                run=lambda engine: publish_all(engine, steps[half:]),
                stats=MovingTopK.stats,
            ),
            Contender(
                "dijkstra",
                prepare=lambda: DijkstraTopK(graph, objects, k),
                run=lambda plain: publish_all(plain, [last]),
                work=part,
            ),
        ],
        baseline="dijkstra",
        agrees=lambda answers: agree(answers["network"], answers["dijkstra"].found),
    )
