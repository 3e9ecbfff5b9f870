"""Cases of `RankedMatcher`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import RankedMatcher
from rankcast.bench.baselines.numpy_matching import NumpyMatching
from rankcast.bench.case import Answers, Contender, Parameters, Trial, case
from rankcast.bench.workloads import Columns, matching


@case(
    "matching.scan",
    small={
        "subscriptions": [20_000],
        "events": [20],
        "attributes": [1, 4],
        "mode": ["exact", "relaxed"],
        "k": [20],
    },
    full={
        "subscriptions": [1_000_000],
        "events": [20],
        "attributes": [1, 4],
        "mode": ["exact", "relaxed"],
        "k": [20],
    },
    seed=23,
    unit="event",
    runs=5,
)
def scan(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match Zipfian events with the brute-force index; plain NumPy beside it."""
    over = [f"a{number}" for number in range(parameters["attributes"])]
    source = matching.zipfian(parameters["attributes"], rng)
    rows = matching.subscriptions(source, parameters["subscriptions"], over, rng, mode=parameters["mode"])
    events = matching.events(source, parameters["events"], over, rng)
    engine = loaded("scan", parameters, over, rows)
    plain = NumpyMatching(rows, over, parameters["k"])
    return Trial(
        work=parameters["events"],
        contenders=[
            Contender(
                "scan",
                prepare=lambda: engine,
                run=lambda matcher: matcher.publish(events),
                stats=RankedMatcher.stats,
            ),
            Contender("numpy", run=lambda _: plain.publish(events)),
        ],
        baseline="numpy",
        agrees=lambda answers: same_matches(answers, "scan"),
    )


def loaded(index: str, parameters: Parameters, over: list[str], rows: Columns) -> RankedMatcher:
    """Make a matcher with all subscriptions in it; publishing changes nothing, so one serves every run."""
    engine = RankedMatcher(over=over, k=parameters["k"], mode=parameters["mode"], index=index)
    engine.subscribe(rows)
    return engine


def same_matches(answers: Answers, name: str) -> bool:
    """Compare an engine's matches with NumPy's, ids and scores to the last bit."""
    found: pa.Table = answers[name]
    expected: list[Any] = answers["numpy"]
    ids = np.concatenate([each for each, _ in expected])
    scores = np.concatenate([each for _, each in expected])
    return np.array_equal(found["subscription"], ids) and np.array_equal(found["score"], scores)
