"""Figures 11 to 16 of the range top-k paper: what a server sends and asks, an event.

Bytes from the server, where a tile message has 24 bytes and a unicast 16; the paper prints few values of its
figures in the text, and those stand beside ours. Figure 16 plays a batch event by event, coalesced, and as
its net change.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast import RangeTopK, SubscriberList
from rankcast.bench.cases.range_topk import best_of, first_rows, loaded
from rankcast.bench.runner import Answers, Contender, Figure, Grid, Parameters, Trial, case
from rankcast.bench.workloads import Columns, Floats, batches, range_topk
from rankcast.bench.workloads.range_topk import Workload, uniform_workload
from rankcast.papers.figures.range_counts import (
    Census,
    Server,
    agree,
    point_index,
)
from rankcast.papers.figures.range_topk import (
    FULL,
    KS,
    PARTS,
    SMALL,
    calls,
    counted,
    counting,
)

TRAFFIC: Grid = {**FULL, "subscriptions": [1_000_000, 2_000_000, 5_000_000], "k": [1, 10, 20]}
LITTLE: Grid = {**SMALL, "subscriptions": [10_000, 50_000], "k": [10]}
LARGEST = (5_000_000, 20)


@counted(
    "range-topk.figure-11",
    small=LITTLE,
    full=TRAFFIC,
    seed=41,
    reproduces="[Range Fig. 11]",
    figures=[
        Figure(title, "subscriptions", "bytes_out", ("k",), log_y=True, contenders=pair)
        for title, pair in (
            ("11 (a): bytes from the server an event, Unicast and dense", ("unicast", "dense")),
            ("11 (b): dense and sparse", ("dense", "sparse")),
            ("11 (c): sparse and sparse(1)", ("sparse", "sparse(1)")),
        )
    ],
)
def figure_11(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count bytes sent an event over the number of subscriptions."""
    paper = {}
    if (parameters["subscriptions"], parameters["k"]) == LARGEST:
        paper = {"unicast": {"bytes_out": 316_158.0}, "dense": {"bytes_out": 3_501.0}}
    names = ("unicast", "dense", "sparse", "sparse(1)")
    return calls(uniform_workload(parameters, rng), parameters["k"], names, paper)


@counted(
    "range-topk.figure-12a",
    small={**SMALL, "k": [1, 10]},
    full={**FULL, "k": KS},
    seed=42,
    reproduces="[Range Fig. 12 (a)]",
    figures=[Figure("12 (a): bytes from the server an event", "k", "bytes_out", log_y=True)],
)
def figure_12a(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count bytes sent an event over k, exact and approximate methods."""
    names = ("unicast", "dense", "sparse", "dense(1)", "sparse(1)")
    return calls(uniform_workload(parameters, rng), parameters["k"], names, {})


@counted(
    "range-topk.figure-12b",
    small={**SMALL, "k": [10], "epsilon": [0.25, 1.0]},
    full={**FULL, "k": [5, 10, 20], "epsilon": [0.125, 0.25, 0.5, 1.0]},
    seed=42,
    reproduces="[Range Fig. 12 (b)]",
    figures=[Figure("12 (b): bytes from the server an event over epsilon", "epsilon", "bytes_out", ("k",))],
)
def figure_12b(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count bytes sent an event by approximate painting over epsilon."""
    work, k, epsilon = uniform_workload(parameters, rng), parameters["k"], parameters["epsilon"]
    server = Server(work.objects, k, epsilon=epsilon)
    return Trial(
        work=len(work.events["id"]) // PARTS,
        contenders=[counting("dense(e)", server, work.events, {})],
        agrees=lambda _: agree(work, k),
    )


@counted(
    "range-topk.figure-13",
    small=LITTLE,
    full={**TRAFFIC, "subscriptions": [1_000_000, 5_000_000]},
    seed=43,
    reproduces="[Range Fig. 13]",
    figures=[
        Figure(title, "subscriptions", y, ("k",), log_y=True)
        for title, y in (
            ("13 (a): bytes from the server for the largest event", "most_bytes"),
            ("13 (b): calls an event", "calls"),
        )
    ],
)
def figure_13(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count the bytes of the largest event, and calls an event, over the number of subscriptions."""
    paper = {}
    if (parameters["subscriptions"], parameters["k"]) == LARGEST:
        paper = {"unicast": {"most_bytes": 39_998_000.0}, "sparse": {"most_bytes": 31_752.0}}
    return calls(uniform_workload(parameters, rng), parameters["k"], ("unicast", "sparse"), paper)


class Mix(NamedTuple):
    """One workload of figure 15 (a): how objects and subscriptions lie, and how many of the latter."""

    objects: range_topk.ObjectKind
    subscriptions: range_topk.SubscriptionKind
    share: float = 1.0
    settings: dict[str, Any] = {}  # noqa: RUF012 (read only)


MIXES = {
    "uniform, five times as many": Mix("uniform", "uniform", 5.0),
    "uniform": Mix("uniform", "uniform"),
    "clustered, lambda 0.5": Mix("uniform", "clustered", settings={"spread": 0.5}),
    "clustered, lambda 0.1": Mix("uniform", "clustered", settings={"spread": 0.1}),
    "correlated": Mix("clustered", "correlated"),
    "anti-correlated": Mix("clustered", "anti-correlated"),
}


@counted(
    "range-topk.figure-15a",
    small={**SMALL, "k": [10], "workload": list(MIXES)},
    full={**FULL, "objects": [1_000], "k": [1, 10, 20], "workload": list(MIXES)},
    seed=44,
    reproduces="[Range Fig. 15 (a)]",
    figures=[
        Figure(
            "15 (a): messages of sparse over those of dense",
            "k",
            "share_of_dense",
            ("workload",),
            contenders=("sparse",),
        )
    ],
)
def figure_15a(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count messages of sparse as a share of those of dense, by how subscriptions lie."""
    mix, k = MIXES[parameters["workload"]], parameters["k"]
    objects = range_topk.objects(parameters["objects"], rng, mix.objects)
    count = int(parameters["subscriptions"] * mix.share)
    subscriptions = range_topk.subscriptions(count, rng, mix.subscriptions, **mix.settings)
    work = Workload(objects, subscriptions, range_topk.uniform_events(objects, parameters["events"], rng))
    dense = Server(objects, k)
    sparse = Server(objects, k, points=point_index(subscriptions))
    share = lambda server: {"share_of_dense": server.total["messages"] / dense.total["messages"]}  # noqa: E731
    return Trial(
        work=len(work.events["id"]) // PARTS,
        contenders=[
            counting("dense", dense, work.events, {}),
            counting("sparse", sparse, work.events, {}, share),
        ],
        agrees=lambda _: agree(work, k),
    )


@counted(
    "range-topk.figure-15b",
    small={**SMALL, "k": [10], "c": [0.1, 1.0]},
    full={**FULL, "k": KS, "c": [0.1, 1.0]},
    seed=45,
    reproduces="[Range Fig. 15 (b)]",
    figures=[Figure("15 (b): bytes from the server an event, Gaussian steps", "k", "bytes_out", ("c",))],
)
def figure_15b(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count bytes sent an event when values change by Gaussian steps of deviation c/8."""
    drawn = uniform_workload(parameters, rng)
    events = range_topk.gaussian_events(drawn.objects, parameters["events"], rng, c=parameters["c"])
    return calls(drawn._replace(events=events), parameters["k"], ("unicast", "dense", "sparse"), {})


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
    work, k = uniform_workload(parameters, rng), parameters["k"]
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
    before, after = (best_of(work.objects, values, some, k) for values in (work.objects["y"], y))
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
