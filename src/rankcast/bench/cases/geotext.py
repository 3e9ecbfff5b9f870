"""Cases of `GeoTextTopK`."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import GeoTextTopK
from rankcast.bench.baselines.plain_geotext import best_scores, score
from rankcast.bench.case import Contender, Parameters, Trial, case
from rankcast.bench.workloads import batches, geotext

SAMPLE = 20
DIAGONAL = math.sqrt(2.0)
ROUNDING = 1e-12


@case(
    "geotext.scan",
    small={"subscriptions": [500], "window": [500], "events": [100], "batch": [50], "k": [20]},
    full={"subscriptions": [5_000], "window": [5_000], "events": [200], "batch": [100], "k": [20]},
    seed=24,
    unit="message",
    runs=5,
)
def scan(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish messages into a full window of the brute-force engine; every arrival expires one."""
    window = parameters["window"]
    messages = geotext.messages(window + parameters["events"], rng, words=5_000)
    held, arriving = messages.slice(0, window), messages.slice(window)
    subscriptions = geotext.subscriptions(held, parameters["subscriptions"], rng)
    slices = batches(arriving, parameters["batch"])
    last = messages.slice(messages.num_rows - window)
    return Trial(
        work=parameters["events"],
        contenders=[
            Contender(
                "scan",
                prepare=lambda: loaded("scan", parameters, held, subscriptions),
                run=lambda engine: publish_all(engine, slices),
                stats=GeoTextTopK.stats,
            )
        ],
        agrees=lambda answers: same_scores(answers["scan"], subscriptions, last, parameters["k"]),
    )


def loaded(method: str, parameters: Parameters, held: pa.Table, subscriptions: pa.Table) -> GeoTextTopK:
    """Make an engine with a full window and all subscriptions in it."""
    engine = GeoTextTopK(
        bounds=geotext.BOUNDS, k=parameters["k"], window=parameters["window"], method=method, refill="none"
    )
    engine.publish(held)
    engine.subscribe(subscriptions)
    return engine


def publish_all(engine: GeoTextTopK, slices: list[Any]) -> GeoTextTopK:
    """Publish batch by batch; the answer is the engine itself, for its results."""
    for rows in slices:
        engine.publish(rows)
    return engine


def same_scores(engine: GeoTextTopK, subscriptions: pa.Table, window: pa.Table, k: int) -> bool:
    """Compare the results of a sample with the definition: the k best scores, each by an item that has it.

    Scores may differ by rounding: the definition adds in another order.
    """
    messages = window.to_pylist()
    by_id = {message["id"]: message for message in messages}
    for subscription in subscriptions.slice(0, SAMPLE).to_pylist():
        found = engine.results([subscription["id"]]).to_pydict()
        expected = best_scores(subscription, messages, k, DIAGONAL)
        own = [score(subscription, by_id[item], DIAGONAL) or 0.0 for item in found["item"]]
        if not (_close(found["score"], expected) and _close(found["score"], own)):
            return False
        if len(set(found["item"])) != len(found["item"]):
            return False
    return True


def _close(one: list[float], other: list[float]) -> bool:
    """Whether two lists of scores are equal but for rounding."""
    return len(one) == len(other) and np.allclose(one, other, rtol=0.0, atol=ROUNDING)
