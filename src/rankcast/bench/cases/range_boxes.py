"""How fast `RangeTopK` is over two attributes, beside a Numba scan with thresholds, in the same run.

10,000 uniform objects, 400,000 subscriptions with uniform ends, k = 10, uniform updates in batches of 200,
one thread. All contenders get the same batches in the same order. An event of the best objects costs a
hundred times as much as others, so batches of 200 differ; in those of 1,000 such events are as frequent as in
all.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast import RangeTopK
from rankcast.bench.baselines.range_topk import BoxScan
from rankcast.bench.case import Contender, Grid, Parameters, Trial, case
from rankcast.bench.cases.range_topk import SAMPLE, Turn, affected, first_rows, items_of, turns
from rankcast.bench.workloads.range_topk import Workload, ends, half_bounded_workload
from rankcast.range_topk.brute_force import top_k
from rankcast.range_topk.state import Objects
from rankcast.tables.boxes import Boxes

RUNS = 8
SMALL: Grid = {"objects": [1_000], "subscriptions": [5_000], "k": [10], "batch": [50]}
FULL: Grid = {"objects": [10_000], "subscriptions": [400_000], "k": [10], "batch": [200]}


@case("range-topk-15d.publish-boxes", small=SMALL, full=FULL, seed=62, unit="event", runs=RUNS)
def publish_boxes(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish updates to 2-d boxes and get the net change of every list; a threshold scan beside it."""
    work = _drawn(parameters, rng)
    both = np.sort(rng.random((parameters["subscriptions"], 2)), axis=1)
    work.subscriptions["z_lo"], work.subscriptions["z_hi"] = both[:, 0].copy(), both[:, 1].copy()
    return _beside_the_scan("publish", work, parameters, lambda turn: turn.target.publish(turn.rows))


@case(
    "range-topk-15d.disseminate",
    small=SMALL,
    full={**FULL, "batch": [200, 1_000]},
    seed=63,
    unit="event",
    runs=RUNS,
)
def disseminate(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Turn updates into sparse tiles for 1.5-d subscriptions; a threshold scan beside it."""
    work = _drawn(parameters, rng)
    return _beside_the_scan("sparse", work, parameters, lambda turn: turn.target.disseminate(turn.rows))


def _drawn(parameters: Parameters, rng: np.random.Generator) -> Workload:
    """Draw a workload with a batch of events for each repetition and one to warm."""
    return half_bounded_workload({**parameters, "data": 1, "events": parameters["batch"] * (RUNS + 1)}, rng)


def _beside_the_scan(name: str, work: Workload, parameters: Parameters, run: Any) -> Trial:
    """An engine and the scan, both loaded, on the same batches."""
    k, size = parameters["k"], parameters["batch"]
    engine = RangeTopK(over=["x", "z"], k=k)
    engine.publish(work.objects)
    engine.subscribe(work.subscriptions)
    scan = BoxScan(work.objects, work.subscriptions, k)
    return Trial(
        work=size,
        contenders=[
            Contender(name, run, turns(engine, work.events, size), stats=lambda turn: turn.target.stats()),
            Contender("threshold scan", _publish, turns(scan, work.events, size), stats=affected),
        ],
        baseline="threshold scan",
        agrees=lambda _: _same(engine, scan, work, k),
    )


def _publish(turn: Turn) -> Any:
    return turn.target.publish(turn.rows)


def _same(engine: RangeTopK, scan: BoxScan, work: Workload, k: int) -> bool:
    """Compare a sample of the lists, after all events, with those of the scan and with brute force."""
    y = work.objects["y"].copy()
    y[work.events["id"]] = work.events["y"]
    some = first_rows(work.subscriptions, SAMPLE)
    rows = np.arange(len(y), dtype=np.int32)
    objects = Objects(rows, np.column_stack([work.objects["x"], work.objects["z"]]), y, rows.astype(np.int64))
    best = [found.tolist() for found in top_k(Boxes(*ends(some)), np.full(len(some["id"]), k), objects)]
    mine = items_of(engine, some["id"])
    return mine == best == [scan.items(int(row)) for row in some["id"]]
