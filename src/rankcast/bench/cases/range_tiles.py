"""What messages cost `RangeTopK` beyond exact ones, and what subscriptions that are unlike others cost all.

Needless receipts are counted in two ways: all of them, and those of messages about the object that an event
updates, as the paper does, which leaves out the messages about objects that it exposes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import RangeTopK
from rankcast.bench.cases.range_topk import Turn, best_of, drawn, first_rows, items_of, loaded, totals, turns
from rankcast.bench.runner import Contender, Grid, Parameters, Trial, case
from rankcast.bench.workloads import Columns, range_topk
from rankcast.bench.workloads.range_topk import Workload, half_bounded_workload, uniform_workload

RUNS = 9
FEW = 200  # lists that are compared with brute force
SHARES = (0.0, 0.1, 0.2, 0.5)


@case(
    "range-topk.needless",
    small={"objects": [1_000], "subscriptions": [20_000], "k": [10], "batch": [100]},
    full={"objects": [10_000], "subscriptions": [1_000_000], "k": [5, 10, 20], "batch": [1_000]},
    seed=58,
    unit="event",
    runs=RUNS,
)
def needless(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Turn updates into messages exactly, with epsilon, and within a budget of needless receipts."""
    work, k, size = drawn(parameters, rng, RUNS + 1), parameters["k"], parameters["batch"]
    ways: dict[str, dict[str, Any]] = {
        "exact": {},
        "epsilon 0.5": {"epsilon": 0.5},
        "epsilon 1": {"epsilon": 1.0},
    }
    ways |= {f"needless {share:g}": {"needless": share} for share in SHARES}
    targets = {name: loaded("sparse", k, work.objects, work.subscriptions) for name in ways}

    def contender(name: str) -> Contender:
        def run(turn: Turn) -> pa.Table:
            return turn.target.disseminate(turn.rows, **ways[name])

        def shares(turn: Turn, tiles: pa.Table) -> dict[str, float]:
            needed = _receipts(RangeTopK(k=k, lists=False), work, turn, {})
            got = _receipts(RangeTopK(k=k, lists=False), work, turn, ways[name])
            return {
                "needless_share": 1 - needed[0] / got[0],
                "needless_updated_share": 1 - needed[1] / got[1],
                "more_received": got[0] / needed[0] - 1,
                "more_received_updated": got[1] / needed[1] - 1,
            }

        # a budget is of a call; what the engine counts is its share
        known = None if "needless" in ways[name] else shares
        return Contender(name, run, turns(targets[name], work.events, size), stats=totals, counters=known)

    return Trial(
        work=size,
        contenders=[contender(name) for name in ways],
        baseline="exact",
        agrees=lambda _: all(_same(target, work, k, RUNS + 1, size) for target in targets.values()),
    )


def _receipts(engine: RangeTopK, work: Workload, turn: Turn, slack: dict[str, Any]) -> tuple[int, int]:
    """How many messages of a batch are received, all and those about updated objects; counted from tiles."""
    engine.disseminate(work.objects, method="relax", batch=True)
    lo, hi = (
        np.sort(work.subscriptions["x_lo"]),
        work.subscriptions["x_hi"][np.argsort(work.subscriptions["x_lo"])],
    )
    received = mine = 0
    some = {name: column[:100] for name, column in turn.rows.items()}
    engine.subscribe(work.subscriptions)
    for place in range(len(some["id"])):
        one = {name: column[place : place + 1] for name, column in some.items()}
        tiles = engine.disseminate(one, **slack).to_pydict()
        ends = (tiles[f"x_{end}"] for end in ("lo_outer", "lo_inner", "hi_inner", "hi_outer"))
        for low, last, first, high, item in zip(*ends, tiles["item"], strict=True):
            start = 0 if low is None else int(np.searchsorted(lo, low, "right"))
            upper = hi[start : int(np.searchsorted(lo, last, "right"))]
            count = int(((upper >= first) & (upper < (np.inf if high is None else high))).sum())
            received += count
            mine += count if item == one["id"][0] else 0
    return received, mine


def _same(engine: RangeTopK, work: Workload, k: int, parts: int, size: int) -> bool:
    """Compare some lists, after so many batches, with brute force."""
    y, played = work.objects["y"].copy(), parts * size
    y[work.events["id"][:played]] = work.events["y"][:played]
    some = first_rows(work.subscriptions, FEW)
    return items_of(engine, some["id"]) == best_of(work.objects, y, some, k)


@case(
    "range-topk.one-large-k",
    small={"objects": [1_000], "subscriptions": [5_000], "k": [10], "large": [100], "batch": [100]},
    full={
        "objects": [10_000],
        "subscriptions": [100_000],
        "k": [10],
        "large": [100, 1_000],
        "batch": [1_000],
    },
    seed=59,
    unit="event",
    runs=RUNS,
)
def one_large_k(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish updates with one subscription of a large k among many of a small one; beside it without."""
    work, k, size = drawn(parameters, rng, RUNS + 1), parameters["k"], parameters["batch"]
    without, beside = (loaded("sparse", k, work.objects, work.subscriptions) for _ in range(2))
    beside.subscribe({"id": [-1], "x_lo": [0.25], "x_hi": [0.75], "k": [parameters["large"]]})
    return Trial(
        work=size,
        contenders=[
            Contender("with it", _publish, turns(beside, work.events, size)),
            Contender("without", _publish, turns(without, work.events, size)),
        ],
        baseline="without",
        agrees=lambda _: _same(beside, work, k, RUNS + 1, size) and _same(without, work, k, RUNS + 1, size),
    )


def _publish(turn: Turn) -> Any:
    return turn.target.publish(turn.rows)


@case(
    "range-topk.large-k",
    small={"objects": [1_000], "subscriptions": [100], "k": [50], "batch": [100]},
    full={"objects": [10_000], "subscriptions": [1_000], "k": [10, 200, 500], "batch": [200]},
    seed=60,
    unit="event",
    runs=RUNS,
)
def large_k(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish updates for a large k over one attribute; beside it the same data as two attributes."""
    work, k, size = drawn(parameters, rng, RUNS + 1), parameters["k"], parameters["batch"]
    one = loaded("sparse", k, work.objects, work.subscriptions)
    two = RangeTopK(over=["x", "z"], k=k)
    two.publish({**work.objects, "z": np.zeros(len(work.objects["id"]))})
    two.subscribe(work.subscriptions)
    return Trial(
        work=size,
        contenders=[
            Contender("one attribute", _publish, turns(one, work.events, size)),
            Contender("two attributes", _publish, turns(two, work.events, size)),
        ],
        baseline="two attributes",
        agrees=lambda _: _same(one, work, k, RUNS + 1, size) and one.results().equals(two.results()),
    )


COMING: Grid = {"objects": [10_000], "k": [10], "over": ["x"], "subscriptions": [1_000_000]}


@case(
    "range-topk.subscribe-after",
    small={**COMING, "objects": [1_000], "subscriptions": [5_000], "over": ["x", "xz"]},
    full={**COMING, "over": ["x", "xz"], "subscriptions": [400_000, 1_000_000]},
    seed=61,
    unit="subscription",
    runs=25,
)
def subscribe_after(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """One subscription that comes after `disseminate`, whose lists are stale; beside it after `publish`."""
    half, k = parameters["over"] == "xz", parameters["k"]
    draw = half_bounded_workload if half else uniform_workload
    work = draw({**parameters, "events": 1_000, "data": 1}, rng)
    more = range_topk.subscriptions(200, rng)

    def engine() -> RangeTopK:
        made = RangeTopK(over=["x", "z"] if half else "x", k=k)
        made.publish(work.objects)
        made.subscribe(work.subscriptions)
        return made

    def contender(name: str, change: Callable[[RangeTopK, Columns], Any]) -> Contender:
        target, left = engine(), iter(range(200))

        def prepare() -> tuple[RangeTopK, Columns]:
            place = next(left)
            change(target, {key: column[place : place + 1] for key, column in work.events.items()})
            one = {key: more[key][place : place + 1] for key in ("x_lo", "x_hi")}
            return target, {"id": np.array([10**9 + place]), **one}

        return Contender(name, lambda turn: turn[0].subscribe(turn[1]), prepare)

    return Trial(
        work=1,
        contenders=[
            contender("after disseminate", RangeTopK.disseminate),
            contender("after publish", RangeTopK.publish),
        ],
        baseline="after publish",
        agrees=lambda answers: answers["after disseminate"].equals(answers["after publish"]),
    )
