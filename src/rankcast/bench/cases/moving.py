"""Cases of `MovingTopK` and `MovingSkyline`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast import MovingSkyline, MovingTopK
from rankcast.bench.baselines.numpy_moving import NumpySkyline, NumpyTopK
from rankcast.bench.case import Answers, Contender, Parameters, Trial, case
from rankcast.bench.workloads import Columns, batches, moving
from rankcast.moving import scoring

CROSSINGS = 100
ROUNDING = 1e-12
GRID = {"objects": [2_000], "queries": [10], "duration": [10], "speed": [60]}
LARGE = {"objects": [20_000], "queries": [10], "duration": [10], "speed": [60]}


@case(
    "moving-topk.scan",
    small={**GRID, "attributes": [3], "k": [10]},
    full={**LARGE, "attributes": [3], "k": [10]},
    seed=25,
    unit="position",
    runs=5,
)
def topk_scan(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Follow cars with the brute-force top-k, second by second; a NumPy scan beside it."""
    over, objects, start, steps = workload(parameters, "unif", rng)
    weights = [1.0] * len(over) + [1.0 / moving.UNIVERSE]
    k, score = parameters["k"], scoring.weighted_sum(weights)
    return Trial(
        work=parameters["queries"] * parameters["duration"],
        contenders=[
            Contender(
                "scan",
                prepare=lambda: loaded(
                    MovingTopK(over=over, k=k, score=score, method="scan"), objects, start
                ),
                run=lambda engine: publish_all(engine, steps),
                stats=MovingTopK.stats,
            ),
            Contender(
                "numpy",
                prepare=lambda: NumpyTopK(objects, over, weights, k),
                run=lambda plain: publish_all(plain, steps),
            ),
        ],
        baseline="numpy",
        agrees=lambda answers: same_results(answers, "scan"),
    )


@case(
    "moving-skyline.scan",
    small={**GRID, "attributes": [2], "distribution": ["unif", "norm", "corr", "anti"]},
    full={**LARGE, "attributes": [2], "distribution": ["unif", "norm", "corr", "anti"]},
    seed=26,
    unit="position",
    runs=5,
)
def skyline_scan(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Follow cars with the brute-force skyline, second by second; a NumPy filter beside it."""
    over, objects, start, steps = workload(parameters, parameters["distribution"], rng)
    return Trial(
        work=parameters["queries"] * parameters["duration"],
        contenders=[
            Contender(
                "scan",
                prepare=lambda: loaded(MovingSkyline(over=over, method="scan"), objects, start),
                run=lambda engine: publish_all(engine, steps),
                stats=MovingSkyline.stats,
            ),
            Contender(
                "numpy",
                prepare=lambda: NumpySkyline(objects, over),
                run=lambda plain: publish_all(plain, steps),
            ),
        ],
        baseline="numpy",
        agrees=lambda answers: same_results(answers, "scan"),
    )


def workload(
    parameters: Parameters, distribution: moving.AttributeKind, rng: np.random.Generator
) -> tuple[list[str], Columns, Columns, list[Columns]]:
    """Make attributes, objects, where the cars start, and their positions second by second."""
    over = [f"a{number}" for number in range(parameters["attributes"])]
    objects = moving.objects(parameters["objects"], len(over), rng, distribution)
    cars, seconds = parameters["queries"], parameters["duration"]
    drive = moving.tracks(moving.roads(CROSSINGS, rng), cars, seconds + 1, rng, speed=parameters["speed"])
    start, *steps = batches(drive, cars)
    return over, objects, start, steps


def loaded(engine: Any, objects: Columns, start: Columns) -> Any:
    """Fill an engine with objects and with queries at their start."""
    engine.upsert(objects)
    engine.subscribe(start)
    return engine


def publish_all(target: Any, steps: list[Columns]) -> Any:
    """Publish second by second; the answer is the engine itself, for its results."""
    for positions in steps:
        target.publish(positions)
    return target


def same_results(answers: Answers, name: str) -> bool:
    """Compare the last results of an engine with NumPy's: the same items, and scores but for rounding."""
    for query, (items, scores) in answers["numpy"].found.items():
        found = answers[name].results([query]).to_pydict()
        if found["item"] != items.tolist() or not np.allclose(
            found["score"], scores, rtol=ROUNDING, atol=0.0
        ):
            return False
    return True
