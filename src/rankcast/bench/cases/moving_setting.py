"""The setting of the cases of `MovingTopK`, which is the paper's [Moving §5.2].

Objects in a square of 5,000 km, attributes in [0, 1], distance over the side of the square, equal weights;
cars at some 60 km/h, a position each second.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast import MovingTopK
from rankcast.bench.baselines.moving import NumpyTopK
from rankcast.bench.case import Parameters
from rankcast.bench.workloads import Columns, Floats, batches, moving
from rankcast.moving import scoring

CROSSINGS = 100
ROUNDING = 1e-12
SAMPLE = 20
SETTING = {"objects": [100_000], "attributes": [3], "k": [10], "m": [5], "speed": [60]}
SMALL = {"objects": [5_000], "attributes": [3], "k": [10], "m": [5], "speed": [60]}


def weights_of(attributes: int) -> list[float]:
    """Equal weights, distance in sides of the universe."""
    return [1.0] * attributes + [1.0 / moving.UNIVERSE]


def world(
    parameters: Parameters, rng: np.random.Generator, *, cars: int, seconds: int
) -> tuple[list[str], Columns, list[Columns]]:
    """Make attributes, objects, and the positions of cars second by second."""
    over = [f"a{number}" for number in range(parameters["attributes"])]
    objects = moving.objects(parameters["objects"], len(over), rng)
    drive = moving.tracks(moving.roads(CROSSINGS, rng), cars, seconds, rng, speed=parameters["speed"])
    return over, objects, batches(drive, cars)


def engine_of(over: list[str], objects: Columns, score: Any = None, **given: Any) -> MovingTopK:
    """An engine on one thread with these objects."""
    score = score or scoring.weighted_sum(weights_of(len(over)))
    engine = MovingTopK(over=over, score=score, tuning={"threads": 1, **given.pop("tuning", {})}, **given)
    engine.upsert(objects)
    return engine


def drive_all(engine: Any, steps: list[Columns]) -> Any:
    """Subscribe at the first positions and publish the others; the answer is the engine, for its results."""
    engine.subscribe(steps[0])
    for positions in steps[1:]:
        engine.publish(positions)
    return engine


def search_all(plain: Any, steps: list[Columns]) -> Any:
    """Answer every position by a search of its own."""
    for positions in steps:
        plain.publish(positions)
    return plain


def agree(engine: Any, found: dict[Any, tuple[Any, Floats]]) -> bool:
    """Compare the results of an engine with those of a search, at the same places."""
    for query, (items, scores) in list(found.items())[:SAMPLE]:
        told = engine.results([query]).to_pydict()
        if told["item"] != items.tolist() or not np.allclose(told["score"], scores, rtol=ROUNDING, atol=0.0):
            return False
    return True


def last_found(over: list[str], objects: Columns, k: int, positions: Columns) -> dict[Any, Any]:
    """What brute force says of some queries at their last places."""
    plain = NumpyTopK(objects, over, weights_of(len(over)), k)
    plain.publish({name: column[:SAMPLE] for name, column in positions.items()})
    return plain.found


def score_of(name: str, attributes: int, weight: float = 1.0) -> scoring.Score:
    """A score of the paper, with a constant added to attributes where it would be undefined at 0."""
    weights = weights_of(attributes)
    weights[-1] *= weight
    if name == "sum":
        return scoring.weighted_sum(weights)
    if name == "product":
        return scoring.weighted_product([1.0] * (attributes + 1), offset=0.1)
    return scoring.weighted_distance([1.0] * attributes, offset=0.1)
