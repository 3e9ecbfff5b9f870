"""Subscriptions of `GeoTextTopK` that come, change and go; what they weigh."""

from __future__ import annotations

import copy
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import GeoTextTopK
from rankcast.bench.case import Answers, Contender, Parameters, Trial, case
from rankcast.bench.cases.geotext import FULL, PAPER, SMALL, _follows, baseline, publisher
from rankcast.bench.workloads.geotext import BOUNDS
from rankcast.bench.workloads.geotext_worlds import world
from rankcast.tables.deltas import replay

ROWS = 1_000  # in a call
SHARE = 20  # one in so many changes
MOST = 20_000  # and no more
STEP = 0.01  # how far somebody walks, of the bounds


@case("geotext.subscribe", small=SMALL, full=[FULL, PAPER], seed=24, unit="subscription", runs=3)
def subscribe(parameters: Parameters, _: np.random.Generator) -> Trial:
    """New subscriptions with their first results, beside a scan of the postings of their words."""
    made = world(parameters)
    some = made.subscriptions.slice(0, ROWS)
    rows = np.arange(some.num_rows, dtype=np.int32)

    def without() -> GeoTextTopK:
        engine = made.roomy()
        engine.unsubscribe(rows)
        return engine

    return Trial(
        work=some.num_rows,
        contenders=[
            Contender("subscribe", prepare=without, run=lambda engine: engine.subscribe(some)),
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


@case("geotext.amend", small=SMALL, full=[FULL, PAPER], seed=24, unit="subscription", runs=3)
def amend(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Subscriptions amended to what others register anew, by what changes, and removed; call by call.

    Many calls follow one another, since lists and buffers make room for several at a time.
    """
    made, count = world(parameters), min(MOST, max(ROWS, parameters["subscriptions"] // SHARE))
    some, others = made.subscriptions.slice(0, count), made.subscriptions.slice(count, count)
    ids, first = some["id"].to_numpy(), some["id"].to_numpy()[:ROWS]
    wanted = some.append_column("k", pa.nulls(some.num_rows, pa.int64()))
    on_stage: list[GeoTextTopK] = []  # one at a time: a million subscriptions take more than a gigabyte
    before: dict[str, pa.Table] = {}

    def contender(kind: str, change: Callable[[GeoTextTopK], Any], call: str, rows: Any) -> Contender:
        def prepare() -> None:
            on_stage.clear()
            engine = made.roomy()
            change(engine)
            before[kind] = engine.results(first if call != "subscribe" else [])
            on_stage.append(copy.deepcopy(engine))  # what was changed is in no cache any more

        return Contender(kind, prepare=prepare, run=lambda _: calls(getattr(on_stage[0], call), rows))

    def amender(kind: str, former: dict[str, Any]) -> Contender:
        change = partial(GeoTextTopK.amend, rows={"id": ids, **former})
        return contender(kind, change, "amend", wanted.select(["id", *former]))

    def agrees(answers: Answers) -> bool:
        now = replay(before["subscribe"], answers["subscribe"])
        after = {kind: replay(before[kind], told) for kind, told in answers.items()}
        gone = after.pop("unsubscribe")
        return not gone and all(each == now for each in after.values()) and _follows(made, full=False)

    return Trial(
        work=some.num_rows,
        contenders=[
            contender("subscribe", partial(GeoTextTopK.unsubscribe, ids=ids), "subscribe", some),
            *(amender(kind, former) for kind, former in otherwise(some, others, rng).items()),
            contender("unsubscribe", len, "unsubscribe", ids),
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
