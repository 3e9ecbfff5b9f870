"""What a subscription of `RangeTopK` costs: to register, to change, to remove, and to keep."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa

from rankcast import RangeTopK
from rankcast.bench.baselines.range_topk import ObjectScan, ThresholdScan
from rankcast.bench.cases.range_topk import all_same, first_rows, loaded, same_results
from rankcast.bench.runner import Contender, Grid, Parameters, Trial, case
from rankcast.bench.workloads import Columns, Integers, range_topk
from rankcast.bench.workloads.range_topk import Workload, uniform_workload

SMALL: Grid = {"objects": [1_000], "subscriptions": [20_000], "k": [10]}
W: Grid = {"objects": [10_000], "subscriptions": [2_000_000], "k": [10]}
STEP = 0.001  # ten of 10,000 uniform objects
MANY = 10_000  # amended rows that take long enough for a few runs
Drawn: TypeAlias = Callable[[Columns, np.random.Generator], Columns]
Prepare: TypeAlias = Callable[[], tuple[RangeTopK, Columns]]


@case(
    "range-topk.subscribe",
    small={**SMALL, "scanned": [2_000]},
    full={**W, "scanned": [20_000]},
    seed=54,
    unit="subscription",
    runs=3,
)
def subscribe(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Subscribe in bulk and get first results; beside it a scan of all objects for each subscription.

    The scans do a sample, as their cost a subscription is always the same. The second one has the objects in
    the order of x and looks only at those in the range.
    """
    work, k = uniform_workload({**parameters, "events": 0}, rng), parameters["k"]
    some, scanned = first_rows(work.subscriptions, parameters["scanned"]), parameters["scanned"]

    return Trial(
        work=parameters["subscriptions"],
        contenders=[
            Contender(
                "subscribe", subscribing(work), lambda: loaded("sparse", k, work.objects, first_rows(some, 0))
            ),
            Contender("scan", lambda _: ObjectScan(work.objects, some, k), work=scanned),
            Contender("scan of the range", lambda _: ThresholdScan(work.objects, some, k), work=scanned),
        ],
        baseline="scan",
        agrees=lambda answers: (
            all_same(answers["subscribe"], answers["scan"])
            and all_same(answers["subscribe"], answers["scan of the range"])
            and same_results(answers["subscribe"], work, k)
        ),
    )


@case(
    "range-topk.unsubscribe",
    small={**SMALL, "rows": [100, 5_000]},
    full={**W, "rows": [1_000, 100_000, 1_000_000]},
    seed=55,
    unit="subscription",
    runs=5,
)
def unsubscribe(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Remove subscriptions from among many; beside it subscribing the same ones."""
    work, added = others(parameters, rng)
    k, ids = parameters["k"], added["id"]
    adding, removing = (loaded("sparse", k, work.objects, work.subscriptions) for _ in range(2))

    def with_them() -> RangeTopK:
        removing.subscribe(added)
        return removing

    return Trial(
        work=parameters["rows"],
        contenders=[
            Contender("unsubscribe", lambda engine: engine.unsubscribe(ids), with_them),
            Contender("subscribe", lambda engine: engine.subscribe(added), without(adding, ids)),
        ],
        baseline="subscribe",
        agrees=lambda _: (
            len(removing) == parameters["subscriptions"]
            and same_results(removing, work, k)
            and same_results(adding, work._replace(subscriptions=added), k)
        ),
    )


@case(
    "range-topk.amend",
    small={**SMALL, "rows": [100, 5_000], "then": ["nothing", "an event"]},
    full={**W, "rows": [1_000, 100_000, 1_000_000], "then": ["nothing", "an event"]},
    seed=56,
    unit="subscription",
    runs=25,
)
def amend(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Give subscriptions among many another range, another upper end, or one near by; beside it subscribing.

    Both draw ranges again every time: those of the time before are still at hand. Another range replaces
    nearly the whole list, so there are half as many deltas again as first results. The index brings points to
    their places when an event comes: then that is inside too, one with no effect. What takes a few
    milliseconds is done 25 times, as it is easily disturbed.
    """
    work, added = others(parameters, rng)
    k, ids, followed = parameters["k"], added["id"], parameters["then"] == "an event"
    adding, amending = (loaded("sparse", k, work.objects, work.subscriptions) for _ in range(2))
    amending.subscribe(added)
    current, no_change = dict(added), first_rows({name: work.objects[name] for name in ("id", "y")}, 1)

    def contender(name: str, call: Callable[[RangeTopK, Columns], pa.Table], prepare: Prepare) -> Contender:
        def run(turn: tuple[RangeTopK, Columns]) -> None:
            call(*turn)
            if followed:
                turn[0].publish(no_change)

        return Contender(name, run, prepare, runs=25 if parameters["rows"] < MANY else 5)

    def turn_of(draw: Drawn) -> Prepare:
        def prepare() -> tuple[RangeTopK, Columns]:
            amending.publish(no_change)  # what the call before has left to do
            given = draw(current, rng)
            current.update(given)
            return amending, {"id": ids, **given}

        return prepare

    bare = without(adding, ids)
    ways: dict[str, Drawn] = {"another range": _another, "another end": _another_end, "near by": _near_by}
    return Trial(
        work=parameters["rows"],
        contenders=[
            *(contender(f"amend, {name}", RangeTopK.amend, turn_of(draw)) for name, draw in ways.items()),
            contender(
                "subscribe", RangeTopK.subscribe, lambda: (bare(), {"id": ids, **_another(added, rng)})
            ),
        ],
        baseline="subscribe",
        agrees=lambda _: same_results(amending, work._replace(subscriptions=current), k),
    )


@case(
    "range-topk.memory",
    small={**SMALL, "k": [1, 10]},
    full={**W, "k": [1, 10, 20]},
    seed=57,
    unit="subscription",
    runs=1,
)
def memory(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Weigh an engine's arrays, all indexes included, a subscription."""
    work, k, count = (
        uniform_workload({**parameters, "events": 0}, rng),
        parameters["k"],
        parameters["subscriptions"],
    )
    nobody = first_rows(work.subscriptions, 0)

    def weigh(engine: RangeTopK, _: Any) -> dict[str, float]:
        own = weight(engine) - weight(loaded("sparse", k, work.objects, nobody))
        return {"bytes_a_subscription": own / count, "must": 120 + 16 * k, "aim": 60 + 12 * k}

    return Trial(
        work=count,
        contenders=[
            Contender(
                "sparse",
                subscribing(work),
                lambda: loaded("sparse", k, work.objects, nobody),
                counters=weigh,
                bytes=weight,
                peak=True,
            )
        ],
        agrees=lambda answers: same_results(answers["sparse"], work, k),
    )


def subscribing(work: Workload) -> Callable[[RangeTopK], RangeTopK]:
    """Subscribe in bulk; the answer is the engine itself, for its results."""

    def run(engine: RangeTopK) -> RangeTopK:
        engine.subscribe(work.subscriptions)
        return engine

    return run


def others(parameters: Parameters, rng: np.random.Generator) -> tuple[Workload, Columns]:
    """Draw subscriptions that stay, and others that come and go."""
    work = uniform_workload({**parameters, "events": 0}, rng)
    added = range_topk.subscriptions(parameters["rows"], rng)
    return work, {**added, "id": added["id"] + parameters["subscriptions"]}


def without(engine: RangeTopK, ids: Integers) -> Callable[[], RangeTopK]:
    """Give the engine with those subscriptions removed again if they were there."""
    size = len(engine)

    def prepare() -> RangeTopK:
        if len(engine) > size:
            engine.unsubscribe(ids)
        return engine

    return prepare


def _another(held: Columns, rng: np.random.Generator) -> Columns:
    drawn = range_topk.subscriptions(len(held["id"]), rng)
    return {"x_lo": drawn["x_lo"], "x_hi": drawn["x_hi"]}


def _another_end(held: Columns, rng: np.random.Generator) -> Columns:
    return {"x_hi": held["x_lo"] + rng.random(len(held["id"])) * np.maximum(1 - held["x_lo"], 0)}


def _near_by(held: Columns, rng: np.random.Generator) -> Columns:
    step = rng.uniform(-STEP, STEP, len(held["id"]))
    return {"x_lo": held["x_lo"] + step, "x_hi": held["x_hi"] + step}


def weight(engine: RangeTopK) -> int:
    """Sum the bytes of all arrays that an engine holds, each buffer once."""
    return sum(dict(_buffers(engine, set())).values())


def _buffers(thing: Any, seen: set[int]) -> Iterator[tuple[int, int]]:
    """Yield address and size of every array reachable through attributes and containers of ours."""
    if id(thing) in seen:
        return
    seen.add(id(thing))
    if isinstance(thing, np.ndarray):
        whole = thing.base if isinstance(thing.base, np.ndarray) else thing
        yield id(whole), whole.nbytes
    elif isinstance(thing, pa.Array | pa.ChunkedArray):
        yield id(thing), thing.nbytes
    elif isinstance(thing, dict):
        for value in thing.values():
            yield from _buffers(value, seen)
    elif isinstance(thing, list | tuple):
        for value in thing:
            yield from _buffers(value, seen)
    elif type(thing).__module__.startswith("rankcast."):
        yield from _buffers(getattr(thing, "__dict__", {}), seen)
