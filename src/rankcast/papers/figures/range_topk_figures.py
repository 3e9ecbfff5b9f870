"""The figures of the range top-k paper: traffic from the server and calls an event, redrawn.

The paper prints few values of its figures in the text; those stand beside ours. A tile message has 24 bytes,
a unicast 16.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from rankcast.bench.case import Figure, Grid, Parameters, Trial
from rankcast.bench.workloads import range_topk
from rankcast.papers.figures.range_counts import Server, Workload, agree, point_index
from rankcast.papers.figures.range_topk_tables import (
    FULL,
    KS,
    PARTS,
    SMALL,
    calls,
    counted,
    counting,
    uniform,
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
    return calls(uniform(parameters, rng), parameters["k"], names, paper)


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
    return calls(uniform(parameters, rng), parameters["k"], names, {})


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
    work, k, epsilon = uniform(parameters, rng), parameters["k"], parameters["epsilon"]
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
    return calls(uniform(parameters, rng), parameters["k"], ("unicast", "sparse"), paper)


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
    drawn = uniform(parameters, rng)
    events = range_topk.gaussian_events(drawn.objects, parameters["events"], rng, c=parameters["c"])
    return calls(drawn._replace(events=events), parameters["k"], ("unicast", "dense", "sparse"), {})
