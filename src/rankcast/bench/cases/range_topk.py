"""Cases of `RangeTopK`."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast import RangeTopK
from rankcast.bench.baselines.threshold_scan import ThresholdScan
from rankcast.bench.case import Answers, Contender, Parameters, Trial, case
from rankcast.bench.workloads import Columns, batches, range_topk

SAMPLE = 200


@case(
    "range-topk.scan",
    small={"objects": [1_000], "subscriptions": [2_000], "events": [100], "batch": [50], "k": [10]},
    full={"objects": [10_000], "subscriptions": [1_000], "events": [100], "batch": [50], "k": [10]},
    seed=21,
    unit="event",
    runs=5,
)
def scan(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish uniform updates to the brute-force engine; the Numba threshold scan beside it."""
    objects = range_topk.objects(parameters["objects"], rng)
    subscriptions = range_topk.subscriptions(parameters["subscriptions"], rng)
    events = range_topk.uniform_events(objects, parameters["events"], rng)
    slices = batches(events, parameters["batch"])
    k = parameters["k"]
    return Trial(
        work=parameters["events"],
        contenders=[
            Contender(
                "scan",
                prepare=lambda: loaded("scan", k, objects, subscriptions),
                run=lambda engine: publish_all(engine, slices),
                stats=RangeTopK.stats,
            ),
            Contender(
                "threshold scan",
                prepare=lambda: ThresholdScan(objects, subscriptions, k),
                run=lambda board: publish_all(board, slices),
                stats=lambda board: {"affected": board.affected},
            ),
        ],
        baseline="threshold scan",
        agrees=lambda answers: same_lists(answers, "scan", min(SAMPLE, parameters["subscriptions"])),
    )


def loaded(method: str, k: int, objects: Columns, subscriptions: Columns) -> RangeTopK:
    """Make an engine with all objects and subscriptions in it."""
    engine = RangeTopK(over="x", by="y", k=k, method=method)
    engine.publish(objects)
    engine.subscribe(subscriptions)
    return engine


def publish_all(target: Any, slices: list[Columns]) -> Any:
    """Publish batch by batch; the answer is the engine itself, for its results."""
    for rows in slices:
        target.publish(rows)
    return target


def same_lists(answers: Answers, name: str, sample: int) -> bool:
    """Compare the first lists of an engine with those of the threshold scan."""
    found = answers[name].results(list(range(sample))).to_pydict()
    lists: dict[int, list[int]] = {row: [] for row in range(sample)}
    for subscription, item in zip(found["subscription"], found["item"], strict=True):
        lists[subscription].append(item)
    return all(answers["threshold scan"].items(row) == items for row, items in lists.items())
