"""Batches of the range top-k paper: event by event, coalesced, and the net change alone."""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from rankcast import RangeTopK, SubscriberList
from rankcast.bench.case import Answers, Contender, Figure, Parameters, Trial, case
from rankcast.bench.cases.range_topk import best_of, first_rows, loaded
from rankcast.bench.workloads import Columns, Floats, batches
from rankcast.papers.figures.range_counts import Census, Workload
from rankcast.papers.figures.range_topk import FULL, SMALL, uniform

LISTENERS = 40
PORTION = 1_000


@case(
    "range-topk.figure-16",
    small={**SMALL, "events": [5_000], "k": [10]},
    full={**FULL, "k": [1, 5, 10, 20]},
    seed=46,
    unit="event",
    runs=1,
    reproduces="[Range Fig. 16]",
    figures=[
        Figure(title, "k", y, log_y=True)
        for title, y in (
            ("16 (a): messages generated over the sequence, an event", "messages"),
            ("16 (b): messages received by all subscriptions, an event", "received"),
            ("16 (c): miny calls, an event", "miny"),
        )
    ],
)
def figure_16(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count what a sequence of updates takes as one batch: online, coalesced, and painted at once."""
    work, k = uniform(parameters, rng), parameters["k"]
    census = Census(work.objects["x"], work.subscriptions)
    last = coalesced(work.events)

    def received(_: RangeTopK, tables: list[pa.Table]) -> dict[str, float]:
        heard = sum(int(census.count(boxes_of(table)).sum()) for table in tables)
        return {"received": heard / parameters["events"]}

    def contender(name: str, parts: list[Columns], *, batch: bool) -> Contender:
        return Contender(
            name,
            run=lambda engine: [engine.disseminate(part, method="dense", batch=batch) for part in parts],
            prepare=lambda: loaded("dense", k, work.objects, first_rows(work.subscriptions, 0)),
            stats=RangeTopK.stats,
            counters=received,
        )

    return Trial(
        work=parameters["events"],
        contenders=[
            contender("online", batches(work.events, PORTION), batch=False),
            contender("coalesce", batches(last, PORTION), batch=False),
            contender("batch", [work.events], batch=True),
        ],
        baseline="online",
        agrees=lambda answers: lists_follow(answers, work, k),
    )


def coalesced(events: Columns) -> Columns:
    """Keep the last update of each object, where it stands."""
    _, backwards = np.unique(events["id"][::-1], return_index=True)
    kept = np.sort(len(events["id"]) - 1 - backwards)
    return {name: column[kept] for name, column in events.items()}


def boxes_of(tiles: pa.Table) -> Floats:
    """Tiles as closed boxes (lo from, lo to, hi from, hi to)."""
    ends = [tiles[f"x_{end}"].to_numpy() for end in ("lo_outer", "lo_inner", "hi_inner", "hi_outer")]
    ends[0] = np.where(np.isnan(ends[0]), -np.inf, np.nextafter(ends[0], np.inf))
    ends[3] = np.where(np.isnan(ends[3]), np.inf, np.nextafter(ends[3], -np.inf))
    return np.column_stack(ends)


def lists_follow(answers: Answers, work: Workload, k: int) -> bool:
    """Whether subscribers that hear the messages of any contender end with the lists of brute force."""
    some = first_rows(work.subscriptions, LISTENERS)
    y = work.objects["y"].copy()
    y[work.events["id"]] = work.events["y"]
    before, after = (best_of(work.objects["x"], values, some, k) for values in (work.objects["y"], y))
    return all(
        _listen(tables, lo, hi, old, work.objects["y"], k) == new
        for tables in answers.values()
        for lo, hi, old, new in zip(some["x_lo"], some["x_hi"], before, after, strict=True)
    )


def _listen(tables: list[pa.Table], lo: float, hi: float, held: list[int], y: Floats, k: int) -> list[int]:
    """Let one subscriber with a list hear every message that reaches it."""
    subscriber = SubscriberList(k)
    for item in held:
        subscriber.receive(item, float(y[item]))
    for table in tables:
        box = boxes_of(table)
        mine = (box[:, 0] <= lo) & (lo <= box[:, 1]) & (box[:, 2] <= hi) & (hi <= box[:, 3])
        heard = table.take(np.flatnonzero(mine))
        for item, score in zip(heard["item"].to_pylist(), heard["y"].to_pylist(), strict=True):
            subscriber.receive(item, score)
    return [item for item, _ in subscriber.items()]
