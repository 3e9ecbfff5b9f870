"""Cases of Kafka: pipelines from topic to topic, beside a query of Spark's that sends every message on.

A broker is started for each, on loopback, on the same cores; where there is none, the case is left out.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast import RankedMatcher
from rankcast.bench.cases import kafka_broker
from rankcast.bench.cases.kafka_streams import OURS, OVER, PASSED, STATEFUL, Apart, world
from rankcast.bench.runner import Answers, Contender, LeftOutError, Parameters, Trial, case

SEED_RANGE, SEED_MATCHING = 74, 75


@case(
    "kafka.range",
    small={
        "subscriptions": [2_000],
        "objects": [2_000],
        "k": [3],
        "rate": [200],
        "warm": [2],
        "seconds": [2],
    },
    full={
        "subscriptions": [100_000],
        "objects": [100_000],
        "k": [10],
        "rate": [1_000],
        "warm": [10],
        "seconds": [15],
    },
    seed=SEED_RANGE,
    unit="event",
    runs=1,
)
def ranges(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """How late answers are under a steady load: `p50_ms`, from broker to broker, and its ratio, `times`.

    All contenders take as long as the load lasts, so their rates are alike.
    """
    apart = _apart("paced", parameters, SEED_RANGE)
    passed: list[float] = []

    def taken(take: Any) -> dict[str, float]:
        figures: dict[str, float] = take()
        passed.append(figures["p50_ms"])
        return figures

    def counters(_: Any, figures: dict[str, float]) -> dict[str, float]:
        return {**figures, "times": figures["p50_ms"] / passed[-1]}

    contenders = [
        Contender(
            name,
            prepare=lambda name=name: apart.ready(name),  # type: ignore[misc]
            run=taken if name == PASSED else lambda take: take(),
            counters=counters,
        )
        for name in (OURS, STATEFUL, PASSED)
    ]
    return Trial(round(parameters["rate"] * parameters["seconds"]), contenders, baseline=PASSED)


@case(
    "kafka.matching",
    small={"events": [20_000], "subscriptions": [2_000]},
    full={"events": [1_000_000], "subscriptions": [100_000]},
    seed=SEED_MATCHING,
    unit="event",
    runs=1,
)
def best_subscription(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """The best subscription for each event, on two cores, from messages that are there to messages."""
    apart = _apart("heaped", parameters, SEED_MATCHING)
    contenders = [
        Contender(name, prepare=lambda name=name: apart.ready(name), run=lambda take: take())  # type: ignore[misc]
        for name in (OURS, PASSED)
    ]

    def alike(answers: Answers) -> bool:
        boxes, points = world(parameters, SEED_MATCHING)
        engine = RankedMatcher(over=OVER, k=1)
        engine.subscribe(boxes)
        return bool(answers[OURS]["answers"] == engine.publish(points).num_rows)

    return Trial(parameters["events"], contenders, baseline=PASSED, agrees=alike)


def _apart(kind: str, parameters: Parameters, seed: int) -> Apart:
    why = kafka_broker.why_not()
    if why is not None:
        raise LeftOutError(f"no broker of Kafka can be had: {why}")
    return Apart(kind, parameters, seed)
