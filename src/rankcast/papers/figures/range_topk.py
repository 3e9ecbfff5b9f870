"""The tables and figures of the range top-k paper in one attribute, the paper's values beside ours.

Tables: calls and receivers an event. Redundancy (Tables II and V): needless messages received, as a share of
the needed ones. Figures: bytes from the server and calls an event; the paper prints few values of them in its
text. A tile message has 24 bytes, a unicast 16. Figure 16: a batch event by event, coalesced, and as its net
change.

Counts come from the painting kernels and do not depend on the machine. A run's events are cut into as many
parts as there are repetitions, so that all repetitions together apply the run once, in sequence.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

from rankcast import RangeTopK, SubscriberList
from rankcast.bench.case import Answers, Contender, Figure, Grid, Parameters, Trial, case
from rankcast.bench.cases.range_topk import best_of, first_rows, loaded
from rankcast.bench.workloads import Columns, Floats, batches, range_topk
from rankcast.bench.workloads.range_topk import Workload, uniform_workload
from rankcast.papers.figures.range_counts import (
    Audience,
    Census,
    Server,
    Unicast,
    agree,
    point_index,
)

PARTS = 5
KS = [1, 2, 5, 10, 15, 20]
SMALL: Grid = {"objects": [1_000], "subscriptions": [20_000], "events": [1_000]}
FULL: Grid = {"objects": [10_000], "subscriptions": [2_000_000], "events": [50_000]}
TRACE: Grid = {"subscriptions": [400_000]} if range_topk.STOCKS.exists() else {"subscriptions": []}

counted = partial(case, unit="event", runs=PARTS - 1)


def by_k(*values: float) -> dict[int, float]:
    """A row of one of the paper's tables."""
    return dict(zip(KS, values, strict=True))


AFFECTED = by_k(444.141, 939.76, 2211.14, 4190.21, 6082.94, 7904.26)
UNICAST = by_k(444.141, 1086.44, 2846.1, 5453.64, 8032.39, 10587.4)
DENSE = by_k(1.12, 1.73, 3.57, 6.60, 9.63, 12.63)
SPARSE_MINY = by_k(0.72744, 1.08988, 2.59596, 5.5568, 8.57692, 11.58048)
SPARSE_SNAP = by_k(1.2284, 2.95254, 12.06538, 40.69192, 84.65234, 143.20416)
BY_SUBSCRIPTIONS = {
    200_000: ({"firstk": 2, "miny": 3.52, "snap": 29.87}, {"miny": 545.23}),
    800_000: ({"firstk": 2, "miny": 4.84, "snap": 37.34}, {"miny": 2181.49}),
    4_000_000: ({"firstk": 2, "miny": 5.94188, "snap": 42.0509}, {"miny": 10906.4}),
    10_000_000: ({"firstk": 2, "miny": 6.26988, "snap": 42.86982}, {"miny": 27267.5}),
}
TRACE_MINY = by_k(0.5, 0.5, 0.51, 0.54, 0.57, 0.61)
TRACE_SNAP = by_k(1, 2, 5.05, 10.35, 16.02, 22.18)
TRACE_UNICAST = by_k(176.01, 409.44, 1050.48, 2278.27, 3510.16, 4614.24)


@case(
    "range-topk.table-1",
    small={**SMALL, "k": [1, 10, 20], "draws": [4]},
    full={**FULL, "k": KS, "draws": [16]},
    seed=31,
    unit="event",
    runs=15,
    reproduces="[Range Table I; Table III, Unicast]",
)
def table_1(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count affected subscriptions an event, and those Unicast asks for: the mean over fresh draws."""
    k, told = parameters["k"], []

    def draw() -> tuple[Server, Columns]:
        work = uniform_workload(parameters, rng)
        return Unicast(work.objects, k, Census(work.objects["x"], work.subscriptions)), work.events

    def run(drawn: tuple[Server, Columns]) -> list[dict[str, float]]:
        server, events = drawn
        server.send(events)
        told.append(server.counts())
        return told

    def means(_: object, counts: list[dict[str, float]]) -> dict[str, float]:
        affected = [count["affected"] for count in counts]
        mean = {name: float(np.mean([count[name] for count in counts])) for name in ("affected", "miny")}
        return {**mean, "spread": float(np.std(affected) / np.mean(affected)), "draws": len(counts)}

    paper = {"affected": AFFECTED[k], "miny": UNICAST[k]} if at_paper_size(parameters) else {}
    contender = Contender("unicast", run, draw, runs=parameters["draws"] - 1, counters=means, paper=paper)
    return Trial(
        work=parameters["events"],
        contenders=[contender],
        agrees=lambda _: agree(uniform_workload(parameters, rng), k),
    )


@counted(
    "range-topk.table-3",
    small={**SMALL, "k": [1, 10, 20]},
    full={**FULL, "k": KS},
    seed=33,
    reproduces="[Range Table III]",
)
def table_3(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count questions an event over k: what the object and the subscription index are asked."""
    k = parameters["k"]
    paper = {
        "dense": {"firstk": 2, "miny": DENSE[k]},
        "sparse": {"firstk": 2, "miny": SPARSE_MINY[k], "snap": SPARSE_SNAP[k]},
        "unicast": {"miny": UNICAST[k]},
    }
    work = uniform_workload(parameters, rng)
    return calls(work, k, ("dense", "sparse", "unicast"), paper if at_paper_size(parameters) else {})


@counted(
    "range-topk.table-4",
    small={**SMALL, "subscriptions": [2_000, 8_000, 40_000, 100_000], "k": [10]},
    full={**FULL, "subscriptions": list(BY_SUBSCRIPTIONS), "k": [10]},
    seed=34,
    reproduces="[Range Table IV]",
)
def table_4(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count questions an event over the number of subscriptions: dense flat, Unicast linear."""
    paper = {}
    if parameters["subscriptions"] in BY_SUBSCRIPTIONS:
        sparse, unicast = BY_SUBSCRIPTIONS[parameters["subscriptions"]]
        paper = {"dense": {"firstk": 2, "miny": DENSE[10]}, "sparse": sparse, "unicast": unicast}
    return calls(uniform_workload(parameters, rng), parameters["k"], ("dense", "sparse", "unicast"), paper)


@counted(
    "range-topk.table-6",
    small={**TRACE, "k": [10]},
    full={**TRACE, "k": KS},
    seed=35,
    reproduces="[Range Table VI]",
)
def table_6(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count questions on real P/E changes (../shared/data, nothing to run without it)."""
    k = parameters["k"]
    paper = {
        "sparse": {"firstk": 2, "miny": TRACE_MINY[k], "snap": TRACE_SNAP[k]},
        "unicast": {"miny": TRACE_UNICAST[k]},
    }
    return calls(trace(parameters, rng), k, ("dense", "sparse", "unicast"), paper)


def calls(work: Workload, k: int, names: tuple[str, ...], paper: Mapping[str, Mapping[str, float]]) -> Trial:
    """Let servers do the same run and count: `unicast`, `dense`, `sparse`, also `dense(0.5)`."""
    points = point_index(work.subscriptions)
    census = Census(work.objects["x"], work.subscriptions)

    def server(name: str) -> Server:
        if name == "unicast":
            return Unicast(work.objects, k, census)
        method, _, epsilon = name.rstrip(")").partition("(")
        known = points if method == "sparse" else None
        return Server(work.objects, k, points=known, epsilon=float(epsilon) if epsilon else None)

    contenders = [counting(name, server(name), work.events, paper.get(name, {})) for name in names]
    return Trial(work=len(work.events["id"]) // PARTS, contenders=contenders, agrees=lambda _: agree(work, k))


def counting(
    name: str,
    server: Server,
    events: Columns,
    paper: Mapping[str, float],
    further: Callable[[Server], Mapping[str, float]] = lambda server: {},
) -> Contender:
    """Make a contender that sends the next part of a run at each repetition and counts over all of it."""
    parts: Iterator[Columns] = iter(batches(events, -(-len(events["id"]) // PARTS)))
    return Contender(
        name,
        prepare=lambda: next(parts),
        run=server.send,
        counters=lambda _, __: {**server.counts(), **further(server)},
        paper=paper,
    )


def trace(parameters: Parameters, rng: np.random.Generator) -> Workload:
    """Read the real trace and draw uniform subscriptions over its range of x."""
    objects, events = range_topk.stocks()
    drawn = range_topk.subscriptions(parameters["subscriptions"], rng)
    low, high = float(objects["x"].min()), float(objects["x"].max())
    return Workload(objects, range_topk.stretched(drawn, low, high), events)


def at_paper_size(parameters: Parameters) -> bool:
    """Whether the paper's numbers apply."""
    return (parameters["objects"], parameters["subscriptions"]) == (10_000, 2_000_000)


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


ByEpsilon: TypeAlias = Mapping[float | str, Mapping[int, float]]

REDUNDANCY: dict[float | str, dict[int, float]] = {
    0.125: by_k(0, 0, 0, 0.015, 0.0234, 0.034),
    0.25: by_k(0, 0, 0.027, 0.061, 0.070, 0.080),
    0.5: by_k(0, 0, 0.11, 0.14, 0.16, 0.17),
    1.0: by_k(0, 0.16, 0.29, 0.30, 0.32, 0.34),
}
RELAX = by_k(1440.2, 680.14, 288.49, 151.76, 104.23, 79.98)
TRACE_REDUNDANCY = by_k(0, 0.19, 0.25, 0.35, 0.39, 0.38)
TRACE_RELAX = by_k(706.51, 361.22, 147.13, 72.67, 48.38, 36.11)


@counted(
    "range-topk.table-2",
    small={**SMALL, "k": [5, 20]},
    full={**FULL, "k": KS},
    seed=32,
    reproduces="[Range Table II]",
)
def table_2(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count needless messages received, as a share of the needed ones: approximate, and without ranking."""
    paper: ByEpsilon = {**REDUNDANCY, "relax": RELAX} if at_paper_size(parameters) else {}
    return redundancy(uniform_workload(parameters, rng), parameters["k"], [0.125, 0.25, 0.5, 1.0], paper)


@case(
    "range-topk.redundancy",
    small={**SMALL, "k": [2, 10], "draws": [3]},
    full={**FULL, "k": KS, "draws": [6]},
    seed=38,
    unit="event",
    runs=5,
    reproduces="[Range Table II]",
)
def redundancy_of_draws(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count needless messages received over several draws together, and how far single draws lie apart."""
    k, told = parameters["k"], []

    def draw() -> tuple[list[Server], Columns]:
        work = uniform_workload(parameters, rng)
        points = point_index(work.subscriptions)
        servers: list[Server] = [Unicast(work.objects, k, Census(work.objects["x"], work.subscriptions))]
        servers += [Audience(work.objects, k, points=points, epsilon=epsilon) for epsilon in (0.5, 1.0)]
        return servers, work.events

    def run(drawn: tuple[list[Server], Columns]) -> list[list[float]]:
        servers, events = drawn
        for server in servers:
            server.send(events)
        told.append([servers[0].total["affected"], *(server.total["received"] for server in servers[1:])])
        return told

    def pooled(_: object, counts: list[list[float]]) -> dict[str, float]:
        needed, *received = np.array(counts).T
        found = {"needed": needed.sum() / len(counts) / parameters["events"], "draws": len(counts)}
        for epsilon, each in zip(("0.5", "1"), received, strict=True):
            found[f"redundancy({epsilon})"] = each.sum() / needed.sum() - 1
            found[f"spread({epsilon})"] = float(np.std(each / needed))
        return found

    paper = {"redundancy(0.5)": REDUNDANCY[0.5][k], "redundancy(1)": REDUNDANCY[1.0][k]}
    shown = paper if at_paper_size(parameters) else {}
    contender = Contender("sparse", run, draw, runs=parameters["draws"] - 1, counters=pooled, paper=shown)
    return Trial(
        work=parameters["events"],
        contenders=[contender],
        agrees=lambda _: agree(uniform_workload(parameters, rng), k),
    )


@counted(
    "range-topk.table-5",
    small={**TRACE, "k": [10]},
    full={**TRACE, "k": KS},
    seed=35,
    reproduces="[Range Table V]",
)
def table_5(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Count needless messages on real P/E changes (../shared/data, nothing to run without it)."""
    paper: ByEpsilon = {1.0: TRACE_REDUNDANCY, "relax": TRACE_RELAX}
    return redundancy(trace(parameters, rng), parameters["k"], [1.0], paper)


def redundancy(work: Workload, k: int, epsilons: list[float], paper: ByEpsilon) -> Trial:
    """Compare who hears of updated objects with who must."""
    points = point_index(work.subscriptions)
    exact = Unicast(work.objects, k, Census(work.objects["x"], work.subscriptions))

    def needless(name: str) -> Callable[[Server], dict[str, float]]:
        return lambda server: {"redundancy": server.total[name] / exact.total["affected"] - 1}

    def value(key: float | str) -> dict[str, float]:
        return {"redundancy": paper[key][k]} if key in paper else {}

    contenders = [
        counting(
            f"sparse({epsilon:g})",
            Audience(work.objects, k, points=points, epsilon=epsilon),
            work.events,
            value(epsilon),
            needless("received"),
        )
        for epsilon in epsilons
    ]
    contenders.append(counting("relax", exact, work.events, value("relax"), needless("relaxed")))
    return Trial(work=len(work.events["id"]) // PARTS, contenders=contenders, agrees=lambda _: agree(work, k))


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
