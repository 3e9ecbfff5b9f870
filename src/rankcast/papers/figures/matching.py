"""Cases of the ranked-matching paper: its table 2 and figures 6 to 9."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rankcast.bench.cases.matching import (
    head,
    index_bytes,
    loaded,
    numpy_scan,
    publishing,
    same_matches,
    zipfian,
)
from rankcast.bench.runner import Contender, Figure, Parameters, Trial, case
from rankcast.bench.workloads import matching

PAPER = ("r-tree", "interval-tree", "segment-tree", "ir-tree", "sopt-r-tree")
PLAINLY = ("r-tree", "ir-tree", "sopt-r-tree")  # also read by the Threshold Algorithm as first published
MEGABYTE = 1e6
MOST_SEGMENTS = 4  # attributes; beyond, the segment trees of a million subscriptions fill the memory


@case(
    "matching.table-2",
    small={"subscriptions": [10_000]},
    full={"subscriptions": [100_000, 200_000, 500_000, 1_000_000]},
    seed=29,
    unit="subscription",
    runs=1,
    reproduces="[Ranked Table 2]",
)
def table_2(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Build each index over Zipfian intervals; bytes of the index alone, per dimension."""
    count = parameters["subscriptions"]
    rows = matching.subscriptions(matching.zipfian(1, rng), count, ["a0"], rng)
    column = dict(zip((100_000, 200_000, 500_000, 1_000_000), range(4), strict=True)).get(count)
    paper = {
        "interval-tree": (0.92, 1.7, 4.2, 8.3),
        "r-tree": (1.2, 2.4, 6.0, 12.0),
        "segment-tree": (40.0, 89.0, 214.0, 429.0),
        "ir-tree": (1.76, 3.43, 8.35, 16.5),
    }
    return Trial(
        work=count,
        contenders=[
            Contender(
                index,
                prepare=partial(str, index),
                run=lambda name: loaded(name, ["a0"], rows, k=20),
                counters=lambda _, engine: {"megabytes": index_bytes(engine) / MEGABYTE},
                paper={} if column is None or index not in paper else {"megabytes": paper[index][column]},
            )
            for index in (*PAPER, "auto")
        ],
    )


def _figure(name: str, title: str, x: str, small: dict[str, Any], full: dict[str, Any], seed: int) -> None:
    """Declare a case that runs every index on Zipfian intervals, relaxed as in the paper's section 4.

    The plain Threshold Algorithm, cursors in turn and no bounds of rows, is what the paper's own indexes are
    read by; beside the same indexes with bounds it shows what the bounds do to each.
    """

    def body(parameters: Parameters, rng: np.random.Generator) -> Trial:
        """Match Zipfian events with every scored interval index."""
        over, rows, events = zipfian({"mode": "relaxed", **parameters}, rng)
        many = parameters["attributes"] > MOST_SEGMENTS
        engines = {
            index: loaded(index, over, rows, k=parameters["k"], mode="relaxed")
            for index in (*PAPER, "auto")
            if not (many and index == "segment-tree")
        }
        for index in PLAINLY:
            plain = loaded(index, over, rows, k=parameters["k"], mode="relaxed")
            plain._index.plain = True  # type: ignore[attr-defined]
            engines[f"plain threshold algorithm, {index}"] = plain
        first = head(events, 2)
        return Trial(
            work=parameters["events"],
            contenders=[
                *(publishing(index, engine, events) for index, engine in engines.items()),
                numpy_scan(rows, over, parameters["k"], first, work=2),
            ],
            baseline="sopt-r-tree",
            agrees=lambda answers: all(same_matches(answers, index) for index in engines),
        )

    figure = Figure(title, x=x, y="seconds", log_x=True, log_y=True)
    case(
        name,
        small=small,
        full=full,
        seed=seed,
        unit="event",
        runs=1,
        reproduces=f"[Ranked {title}]",
        figures=[figure],
    )(body)


def _grid(**values: list[Any]) -> dict[str, list[Any]]:
    plain: dict[str, list[Any]] = {
        "subscriptions": [1_000_000],
        "events": [50],
        "attributes": [1],
        "k": [20],
        "skew_length": [0.75],
    }
    return {**plain, **values}


_figure(
    "matching.figure-6",
    "Figure 6",
    "k",
    _grid(subscriptions=[10_000], k=[10, 100]),
    _grid(k=[1, 10, 100, 1_000, 10_000]),
    30,
)
_figure(
    "matching.figure-7",
    "Figures 7 and 8",
    "attributes",
    _grid(subscriptions=[10_000], events=[10], attributes=[1, 4]),
    _grid(events=[1_000], attributes=[1, 2, 3, 4, 6, 8]),
    31,
)
_figure(
    "matching.figure-9",
    "Figure 9",
    "skew_length",
    _grid(subscriptions=[10_000], events=[10], attributes=[4], skew_length=[0.25, 1.0]),
    _grid(events=[1_000], attributes=[4], skew_length=[0.0625, 0.125, 0.25, 0.5, 1.0, 2.0]),
    32,
)
