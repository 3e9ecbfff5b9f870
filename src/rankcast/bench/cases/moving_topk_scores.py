"""Cases of `MovingTopK` over scores: one of one's own, and ways to find the circles of the others."""

from __future__ import annotations

from functools import partial

import numpy as np

from rankcast import MovingTopK
from rankcast.bench.baselines.best_first_moving import zones_of
from rankcast.bench.case import Contender, Parameters, Trial, case
from rankcast.bench.cases.moving_topk_setting import (
    SETTING,
    SMALL,
    agree,
    drive_all,
    engine_of,
    last_found,
    score_of,
    weights_of,
    world,
)
from rankcast.moving import scoring


@case(
    "moving-topk.own",
    small={**SMALL, "queries": [200], "duration": [60]},
    full={**SETTING, "queries": [1_000], "duration": [600]},
    seed=74,
    unit="position",
    runs=3,
)
def own(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Follow cars by a function of one's own in Python; the same score as a weighted sum beside it."""
    cars, seconds, k = parameters["queries"], parameters["duration"], parameters["k"]
    over, objects, steps = world(parameters, rng, cars=cars, seconds=seconds)
    weights = np.array(weights_of(len(over)))
    scores = {
        "own function": lambda attributes, distance: attributes @ weights[:-1] + weights[-1] * distance,
        "weighted sum": scoring.weighted_sum(weights.tolist()),
    }
    expected = last_found(over, objects, k, steps[-1])
    return Trial(
        work=cars * seconds,
        contenders=[
            Contender(
                name,
                prepare=partial(engine_of, over, objects, score, k=k, m=parameters["m"]),
                run=lambda engine: drive_all(engine, steps),
                stats=MovingTopK.stats,
            )
            for name, score in scores.items()
        ],
        baseline="weighted sum",
        agrees=lambda answers: all(agree(answers[name], expected) for name in scores),
    )


@case(
    "moving-topk.circle",
    small={**SMALL, "queries": [20], "score": ["sum", "product", "distance"]},
    full={**SETTING, "queries": [2_000], "score": ["sum", "product", "distance"]},
    seed=75,
    unit="zone",
    runs=3,
)
def circle(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Find zones by closed forms, by the paper's rectangles and by bounds alone."""
    cars, k, m = parameters["queries"], parameters["k"], parameters["m"]
    over, objects, steps = world(parameters, rng, cars=cars, seconds=1)
    score = score_of(parameters["score"], len(over))
    engines = {
        way: engine_of(over, objects, score, k=k, m=m, tuning={"circle": way})
        for way in ("closed", "trim", "lemma")
    }

    def radius(engine: MovingTopK) -> dict[str, float]:
        return {"radius": float(np.mean(engine.zones()["radius"].to_numpy()))}

    def renew(engine: MovingTopK) -> MovingTopK:
        zones_of(engine).renew(np.arange(cars, dtype=np.int32))
        return engine

    def prepared(way: str) -> MovingTopK:
        if not len(engines[way]):
            engines[way].subscribe(steps[0])
        return engines[way]

    return Trial(
        work=cars,
        contenders=[
            Contender(
                way,
                prepare=partial(prepared, way),
                run=renew,
                stats=MovingTopK.stats,
                counters=lambda engine, _: radius(engine),
            )
            for way in ("closed", "trim", "lemma")
        ],
        baseline="trim",
        agrees=lambda answers: _same_results(list(answers.values())),
    )


def _same_results(engines: list[MovingTopK]) -> bool:
    first = engines[0].results()
    return all(engine.results().equals(first) for engine in engines[1:])
