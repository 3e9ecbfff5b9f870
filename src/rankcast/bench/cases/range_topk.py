"""Cases of `RangeTopK` over one and two attributes: how fast it is, beside a Numba scan with thresholds.

Setting W: 10,000 uniform objects, 2 million uniform subscriptions with integer ids, k = 10, uniform updates
in batches of 1,000, one thread. One repetition is one batch, and all contenders get the same batches in the
same order: updates differ so much in whom they affect that no other batch would do. The scan needs seconds
for a batch and takes part in the first few repetitions alone.

Two attributes: 10,000 uniform objects, 400,000 subscriptions with uniform ends, k = 10, uniform updates in
batches of 200, one thread. All contenders get the same batches in the same order. An event of the best
objects costs a hundred times as much as others, so batches of 200 differ; in those of 1,000 such events are
as frequent as in all.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast import RangeTopK
from rankcast.bench.baselines.range_topk import AllAnew, BoxScan, NumpyLists, ObjectScan, ThresholdScan
from rankcast.bench.runner import Contender, Grid, Parameters, Trial, case, publish_all
from rankcast.bench.workloads import Columns, Floats, batches, range_topk
from rankcast.bench.workloads.range_topk import Workload, ends, half_bounded_workload, uniform_workload
from rankcast.range_topk.brute_force import top_k
from rankcast.range_topk.state import Objects
from rankcast.tables.boxes import Boxes

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
        agrees=lambda answers: all_same(answers["scan"], answers["threshold scan"]),
    )


def loaded(method: str, k: int, objects: Columns, subscriptions: Columns) -> RangeTopK:
    """Make an engine with all objects and subscriptions in it."""
    return filled(RangeTopK(over="x", by="y", k=k, method=method), objects, subscriptions)


def filled(engine: RangeTopK, objects: Columns, subscriptions: Columns) -> RangeTopK:
    """The engine with objects and subscriptions."""
    engine.publish(objects)
    engine.subscribe(subscriptions)
    return engine


SMALL: Grid = {"objects": [1_000], "subscriptions": [20_000], "k": [10], "batch": [200]}
W: Grid = {"objects": [10_000], "subscriptions": [2_000_000], "k": [10], "batch": [1_000]}
SLOW_RUNS = 3
FAST_RUNS = 15
MANY_RUNS = 49  # and one to warm: the 50,000 events of W


class Turn(NamedTuple):
    """What a contender works on, and the batch it gets this time."""

    target: Any
    rows: Any


@case("range-topk.publish", small=SMALL, full=W, seed=51, unit="event", runs=SLOW_RUNS)
def publish(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish batches of updates and get the net change of every list; a threshold scan beside it."""
    work, k = drawn(parameters, rng, SLOW_RUNS + 1), parameters["k"]
    engine = loaded("sparse", k, work.objects, work.subscriptions)
    scan = ThresholdScan(work.objects, work.subscriptions, k)
    return _beside_the_scan("publish", _publish, engine, scan, work, parameters)


@case(
    "range-topk.batches",
    small={"objects": [1_000], "subscriptions": [2_000], "k": [10], "batch": [1, 200]},
    full={
        "objects": [10_000],
        "subscriptions": [10_000, 100_000, 1_000_000, 2_000_000],
        "k": [10],
        "batch": [1, 100, 1_000, 10_000],
    },
    seed=55,
    unit="event",
    runs=SLOW_RUNS,
)
def batch_sizes(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish batches of all sizes; beside it a program that rebuilds every list once per batch."""
    work, k = drawn(parameters, rng, SLOW_RUNS + 1), parameters["k"]
    engine = loaded("sparse", k, work.objects, work.subscriptions)
    lists = AllAnew(work.objects, work.subscriptions, k)
    some = first_rows(work.subscriptions, SAMPLE)
    return Trial(
        work=parameters["batch"],
        contenders=[
            Contender("publish", _publish, turns(engine, work.events, parameters["batch"]), stats=totals),
            Contender("all anew", _publish, turns(lists, work.events, parameters["batch"])),
        ],
        baseline="all anew",
        agrees=lambda answers: (
            same_results(engine, work, k)
            and [lists.items(row) for row in range(len(some["id"]))] == items_of(engine, some["id"])
            and answers["publish"].num_rows == len(answers["all anew"].op)
        ),
    )


@case(
    "range-topk.one-row",
    small={"objects": [1_000], "subscriptions": [2_000], "k": [10], "batch": [100]},
    full={"objects": [2_000], "subscriptions": [10_000, 100_000], "k": [10], "batch": [1_000]},
    seed=54,
    unit="event",
    runs=FAST_RUNS,
)
def one_row(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish updates one by one, each as a list of one dict; NumPy beside, which looks at all subscriptions.

    Updates concern the worse half of the objects, so that little changes.
    """
    work, k, size = quiet(drawn(parameters, rng, FAST_RUNS + 1)), parameters["k"], parameters["batch"]
    engine = loaded("sparse", k, work.objects, work.subscriptions)
    rows = [
        {"id": int(key), "y": float(y)} for key, y in zip(work.events["id"], work.events["y"], strict=True)
    ]
    parts = [rows[at : at + size] for at in range(0, len(rows), size)]
    plain = NumpyLists(work.objects, work.subscriptions, k)

    def keep(turn: Turn) -> int:
        return sum(len(turn.target.publish(row["id"], row["y"])) for row in turn.rows)

    def publish_rows(turn: Turn) -> int:
        return sum(turn.target.publish([row]).num_rows for row in turn.rows)

    def next_part(target: Any) -> Callable[[], Turn]:
        left = iter(parts)
        return lambda: Turn(target, next(left))

    return Trial(
        work=size,
        contenders=[
            Contender("one row a call", publish_rows, next_part(engine), stats=lambda t: t.target.stats()),
            Contender("NumPy, lists kept", keep, next_part(plain)),
        ],
        baseline="NumPy, lists kept",
        agrees=lambda _: same_results(engine, work, k) and all_same(engine, plain),
    )


@case(
    "range-topk.disseminate",
    small={**SMALL, "more": [50_000]},
    full={**W, "more": [5_000_000]},
    seed=52,
    unit="event",
    runs=MANY_RUNS,
)
def disseminate(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Turn batches of updates into tiles: dense with none, many and more subscriptions; sparse; the scan."""
    work = drawn(parameters, rng, MANY_RUNS + 1)
    k, size, count = parameters["k"], parameters["batch"], parameters["subscriptions"]
    more = range_topk.subscriptions(parameters["more"], rng)
    engines = {
        "dense, no subscriptions": (first_rows(more, 0), "dense"),
        f"dense, {count:,}": (work.subscriptions, "dense"),
        f"dense, {parameters['more']:,}": (more, "dense"),
        f"sparse, {count:,}": (work.subscriptions, "sparse"),
    }
    targets = {name: loaded("sparse", k, work.objects, rows) for name, (rows, _) in engines.items()}
    scan = ThresholdScan(work.objects, work.subscriptions, k)
    contenders = [
        Contender(
            name,
            _disseminate(engines[name][1]),
            turns(target, work.events, size),
            stats=totals,
        )
        for name, target in targets.items()
    ]
    contenders.append(
        Contender("threshold scan", _publish, turns(scan, work.events, size), runs=2, stats=affected)
    )
    return Trial(
        work=size,
        contenders=contenders,
        baseline="threshold scan",
        agrees=lambda _: all(
            same_results(target, work._replace(subscriptions=rows), k)
            for target, (rows, _) in zip(targets.values(), engines.values(), strict=True)
        ),
    )


@case(
    "range-topk.objects",
    small={**SMALL, "objects": [1_000], "more": [20_000], "method": ["dense", "sparse"]},
    full={**W, "more": [1_000_000], "method": ["dense", "sparse"]},
    seed=53,
    unit="event",
    runs=FAST_RUNS,
)
def more_objects(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Turn batches of updates into tiles with a hundred times as many objects."""
    k, size, method = parameters["k"], parameters["batch"], parameters["method"]
    works = {
        f"{count:,} objects": drawn({**parameters, "objects": count}, rng, FAST_RUNS + 1)
        for count in (parameters["objects"], parameters["more"])
    }
    targets = {name: loaded("sparse", k, work.objects, work.subscriptions) for name, work in works.items()}
    return Trial(
        work=size,
        contenders=[
            Contender(
                name,
                _disseminate(method),
                turns(targets[name], works[name].events, size),
                stats=totals,
            )
            for name in works
        ],
        baseline=next(iter(works)),
        agrees=lambda _: all(same_results(targets[name], works[name], k) for name in works),
    )


def drawn(parameters: Parameters, rng: np.random.Generator, repetitions: int) -> Workload:
    """Draw a uniform workload with a batch of events for each repetition."""
    return uniform_workload({**parameters, "events": parameters["batch"] * repetitions}, rng)


def quiet(work: Workload) -> Workload:
    """The same with many objects in every range, half of them worse; events keep it so, but for one in 50."""
    half, x = len(work.objects["id"]) // 2, np.sort(work.objects["x"])
    first = np.minimum(np.searchsorted(x, work.subscriptions["x_lo"]), len(x) - len(x) // 10)
    low, high = x[first], x[first + len(x) // 10 - 1]
    far = 2 * np.abs(work.objects["y"]).max()
    usual = np.arange(len(work.events["id"])) % 50 > 0
    worse = {"id": half + work.events["id"] % half, "y": work.events["y"] + far * usual}
    halves = {**work.objects, "y": work.objects["y"] + far * (work.objects["id"] >= half)}
    wide = {**work.subscriptions, "x_lo": low, "x_hi": np.maximum(high, work.subscriptions["x_hi"])}
    return work._replace(objects=halves, subscriptions=wide, events=worse)


def turns(target: Any, events: Columns, size: int) -> Callable[[], Turn]:
    """Give the same target the next batch each time."""
    left = iter(batches(events, size))
    return lambda: Turn(target, next(left))


def _publish(turn: Turn) -> Any:
    return turn.target.publish(turn.rows)


def _disseminate(method: str) -> Callable[[Turn], pa.Table]:
    def run(turn: Turn) -> pa.Table:
        tiles: pa.Table = turn.target.disseminate(turn.rows, method=method)
        return tiles

    return run


def totals(turn: Turn) -> dict[str, Any]:
    """What an engine counts."""
    return dict(turn.target.stats())


def affected(turn: Turn) -> dict[str, int]:
    """What the scan counts."""
    return {"affected": turn.target.affected}


def first_rows(rows: Columns, count: int) -> Columns:
    """The first rows of a table."""
    return {name: column[:count] for name, column in rows.items()}


def items_of(engine: RangeTopK, ids: NDArray[np.int64]) -> list[list[int]]:
    """The current lists of subscriptions, in the order of `ids`."""
    found = engine.results(ids.tolist()).to_pydict()
    lists: dict[int, list[int]] = {int(key): [] for key in ids}
    for subscription, item in zip(found["subscription"], found["item"], strict=True):
        lists[subscription].append(item)
    return list(lists.values())


def same_results(engine: RangeTopK, work: Workload, k: int) -> bool:
    """Compare a sample of an engine's lists, after all events, with brute force."""
    y = work.objects["y"].copy()
    y[work.events["id"]] = work.events["y"]
    some = first_rows(work.subscriptions, SAMPLE)
    return items_of(engine, some["id"]) == best_of(work.objects, y, some, k)


def best_of(objects: Columns, y: Floats, some: Columns, k: int) -> list[list[int]]:
    """The lists of subscriptions by brute force, over objects whose id is their row, with values y."""
    rows = np.arange(len(y), dtype=np.int32)
    places = np.column_stack([objects[name] for name in ("x", "z") if name in objects])
    found = top_k(
        Boxes(*ends(some)), np.full(len(some["id"]), k), Objects(rows, places, y, rows.astype(np.int64))
    )
    return [each.tolist() for each in found]


def all_same(engine: RangeTopK, scan: ThresholdScan | ObjectScan | NumpyLists) -> bool:
    """Compare a sample of an engine's lists with those of the scan."""
    ids = np.arange(min(SAMPLE, len(scan.lists)))
    return items_of(engine, ids) == [scan.items(int(row)) for row in ids]


RUNS = 8
SMALL_BOXES: Grid = {"objects": [1_000], "subscriptions": [5_000], "k": [10], "batch": [50]}
FULL: Grid = {"objects": [10_000], "subscriptions": [400_000], "k": [10], "batch": [200]}


@case("range-topk-15d.publish-boxes", small=SMALL_BOXES, full=FULL, seed=62, unit="event", runs=RUNS)
def publish_boxes(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish updates to 2-d boxes and get the net change of every list; a threshold scan beside it."""
    work = _drawn(parameters, rng)
    both = np.sort(rng.random((parameters["subscriptions"], 2)), axis=1)
    work.subscriptions["z_lo"], work.subscriptions["z_hi"] = both[:, 0].copy(), both[:, 1].copy()
    return _boxes_beside_the_scan("publish", _publish, work, parameters)


@case(
    "range-topk-15d.disseminate",
    small=SMALL_BOXES,
    full={**FULL, "batch": [200, 1_000]},
    seed=63,
    unit="event",
    runs=RUNS,
)
def disseminate_boxes(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Turn updates into sparse tiles for 1.5-d subscriptions; a threshold scan beside it."""
    work = _drawn(parameters, rng)
    return _boxes_beside_the_scan("sparse", _disseminate("sparse"), work, parameters)


def _drawn(parameters: Parameters, rng: np.random.Generator) -> Workload:
    """Draw a workload with a batch of events for each repetition and one to warm."""
    return half_bounded_workload({**parameters, "data": 1, "events": parameters["batch"] * (RUNS + 1)}, rng)


def _boxes_beside_the_scan(name: str, run: Any, work: Workload, parameters: Parameters) -> Trial:
    """An engine over two attributes and the scan."""
    engine = filled(RangeTopK(over=["x", "z"], k=parameters["k"]), work.objects, work.subscriptions)
    scan = BoxScan(work.objects, work.subscriptions, parameters["k"])
    return _beside_the_scan(name, run, engine, scan, work, parameters)


def _beside_the_scan(
    name: str, run: Any, engine: RangeTopK, scan: ThresholdScan, work: Workload, parameters: Parameters
) -> Trial:
    """An engine and the scan, both loaded, on the same batches."""
    k, size = parameters["k"], parameters["batch"]
    return Trial(
        work=size,
        contenders=[
            Contender(name, run, turns(engine, work.events, size), stats=totals),
            Contender("threshold scan", _publish, turns(scan, work.events, size), stats=affected),
        ],
        baseline="threshold scan",
        agrees=lambda _: same_results(engine, work, k) and all_same(engine, scan),
    )
