"""Subscriptions of `GeoTextTopK` that come, change and go; what they weigh."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import GeoTextTopK
from rankcast.bench.case import Answers, Contender, Parameters, Trial, case
from rankcast.bench.cases.geotext import FULL, PAPER, SMALL, _follows, baseline, publisher
from rankcast.bench.workloads.geotext import BOUNDS
from rankcast.bench.workloads.geotext_worlds import World, world
from rankcast.deltas import replay

ROWS = 1_000  # in a call
SHARE = 50  # one in so many changes
STEP = 0.01  # how far somebody walks, of the bounds


def without(made: World, ids: Any) -> Callable[[], GeoTextTopK]:
    """Give the engine without some subscriptions; what was done to it is no longer in any cache."""

    def prepare() -> GeoTextTopK:
        engine = made.roomy()
        engine.unsubscribe(ids)
        return copy.deepcopy(engine)

    return prepare


@case("geotext.subscribe", small=SMALL, full=[FULL, PAPER], seed=24, unit="subscription", runs=3)
def subscribe(parameters: Parameters, _: np.random.Generator) -> Trial:
    """New subscriptions with their first results, beside a scan of the postings of their words."""
    made = world(parameters)
    some = made.subscriptions.slice(0, ROWS)
    ids, rows = some["id"].to_numpy(), np.arange(some.num_rows, dtype=np.int32)
    return Trial(
        work=some.num_rows,
        contenders=[
            Contender("subscribe", prepare=without(made, ids), run=lambda engine: engine.subscribe(some)),
            baseline(made, "term-at-a-time", lambda it: it.first_results(rows), work=some.num_rows),
        ],
        baseline="term-at-a-time",
        agrees=lambda _: _follows(made, full=False),
    )


def calls(call: Callable[[Any], pa.Table], rows: Any) -> pa.Table:
    """Call with so many rows at a time; the answer to the first call."""
    parts = [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]
    answers = [call(part) for part in parts]
    return answers[0]


def otherwise(some: pa.Table, others: pa.Table, rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """By kind of amendment: what subscriptions have before it in the columns that it sets."""
    near = {
        name: np.clip(some[name].to_numpy() + rng.normal(0.0, STEP, some.num_rows), *BOUNDS[1::2])
        for name in "xy"
    }
    return {
        "a step": near,
        "another place": {name: others[name] for name in "xy"},
        "other words": {"terms": others["terms"]},
        "another alpha": {"alpha": others["alpha"]},
        "a larger k": {"k": np.full(some.num_rows, 10)},
        "a smaller k": {"k": np.full(some.num_rows, 40)},
        "everything": {name: others[name] for name in ("x", "y", "terms", "alpha")},
    }


@case("geotext.amend", small=SMALL, full=[FULL, PAPER], seed=24, unit="subscription", runs=2)
def amend(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Subscriptions amended to what others register anew, by what changes, and removed; call by call.

    So many change that lists and buffers that run full are counted.
    """
    made, count = world(parameters), max(ROWS, parameters["subscriptions"] // SHARE)
    some, others = made.subscriptions.slice(0, count), made.subscriptions.slice(count, count)
    ids, first = some["id"].to_numpy(), some["id"].to_numpy()[:ROWS]
    wanted = some.append_column("k", pa.nulls(some.num_rows, pa.int64()))
    before = {"unsubscribe": made.engine.results(first), "subscribe": made.engine.results([])}

    def contender(kind: str, former: dict[str, Any]) -> Contender:
        now = wanted.select(["id", *former])

        def prepare() -> GeoTextTopK:
            engine = made.roomy()
            engine.amend({"id": ids, **former})
            before[kind] = engine.results(first)
            return copy.deepcopy(engine)

        return Contender(kind, prepare=prepare, run=lambda engine: calls(engine.amend, now))

    def agrees(answers: Answers) -> bool:
        now = replay(before["subscribe"], answers["subscribe"])
        after = {kind: replay(before[kind], told) for kind, told in answers.items()}
        gone = after.pop("unsubscribe")
        return not gone and all(each == now for each in after.values()) and _follows(made, full=False)

    return Trial(
        work=some.num_rows,
        contenders=[
            Contender(
                "subscribe", prepare=without(made, ids), run=lambda engine: calls(engine.subscribe, some)
            ),
            *(contender(kind, former) for kind, former in otherwise(some, others, rng).items()),
            Contender("unsubscribe", prepare=made.roomy, run=lambda engine: calls(engine.unsubscribe, ids)),
        ],
        baseline="subscribe",
        agrees=agrees,
    )


@case("geotext.memory", small=SMALL, full=PAPER, seed=24, unit="message", runs=1)
def memory(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Bytes a subscription of the parts of the state, after messages into a full window."""
    made = world(parameters)
    return Trial(
        work=parameters["events"],
        contenders=[publisher(made, "igpt, cost-skyband")],
        agrees=lambda _: _follows(made, full=True),
    )
