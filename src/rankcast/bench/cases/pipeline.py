"""Cases of pipelines: what a file and a command cost beside the engine alone; how soon a check answers.

"Per core" is the ratio to the engine alone on one core, divided by the two cores that a pipeline has.
"""

from __future__ import annotations

import json
import subprocess
import sys
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankcast import GeoTextTopK, RankedMatcher
from rankcast.bench.case import Answers, Contender, Parameters, Trial, case
from rankcast.bench.cases import spark_streams
from rankcast.bench.cases.pipeline_streams import Alone, Feed, Piped
from rankcast.bench.workloads import geotext, matching
from rankcast.core.engine import Engine

CORES = 2
OVER = ["a0", "a1", "a2", "a3"]
ENGINE = {"engine": ["RangeTopK"]}


def _trial(piped: Piped, alone: Alone, work: int) -> Trial:
    """A pipeline beside the engine alone, in one process, on one core."""

    def counters(_: Any, told: dict[str, float]) -> dict[str, float]:
        return {name: told[name] for name in ("batch_seconds", "shard_seconds", "memory")}

    contenders = [
        Contender("pipeline, 2 cores", prepare=piped.ready, run=Piped.take, counters=counters),
        Contender("engine alone", prepare=alone.ready, run=Alone.take),
    ]
    return Trial(work, contenders, baseline="engine alone", agrees=_alike)


def _alike(answers: Answers) -> bool:
    return len({told["answers"] for told in answers.values()}) == 1


@case(
    "pipeline.matching",
    small={"events": [40_000], "batches": [2], "subscriptions": [2_000]},
    full={"events": [1_000_000], "batches": [2], "subscriptions": [100_000]},
    seed=71,
    unit="event",
    runs=1,
)
def ranked_matching(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """The best subscription for each event, from files to files, beside the engine in one process."""
    count, size = parameters["events"], parameters["events"] // parameters["batches"]
    boxes, points = matching.heavy_boxes("sparse", len(OVER), parameters["subscriptions"], count, rng)
    events = pa.table(points)
    first, batches = [events.slice(0, 100)], [events.slice(start, size) for start in range(0, count, size)]

    def made() -> Engine:
        engine = RankedMatcher(over=OVER, k=1, tuning={"threads": 1})
        engine.subscribe(boxes)
        return engine

    settings = f'name = "RankedMatcher"\nover = {json.dumps(OVER)}\nk = 1\ntuning = {{ threads = 1 }}'
    piped = Piped(settings, pa.table(boxes), Feed(first, batches, warm=6), CORES)
    return _trial(piped, Alone(made, Feed(first, batches, warm=6)), count)


@case(
    "pipeline.geotext",
    small={
        "subscriptions": [2_000],
        "window": [2_000],
        "batch": [500],
        "batches": [2],
        "shards": [2],
        "k": [10],
    },
    full={
        "subscriptions": [1_000_000],
        "window": [50_000],
        "batch": [5_000],
        "batches": [2],
        "shards": [8],
        "k": [10],
    },
    seed=72,
    unit="message",
    runs=1,
)
def messages(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Messages over many subscriptions in several shards, beside the engine in one process."""
    window, size = parameters["window"], parameters["batch"]
    rows = geotext.messages(window + size * parameters["batches"], rng)
    wishes = geotext.subscriptions(rows.slice(0, window), parameters["subscriptions"], rng)
    first = [rows.slice(start, stop - start) for start, stop in pairwise(_growing(window, size))]
    batches = [rows.slice(start, size) for start in range(window, rows.num_rows, size)]

    def made() -> Engine:
        engine = GeoTextTopK(bounds=geotext.BOUNDS, window=window, k=parameters["k"])
        engine.subscribe(wishes)
        return engine

    settings = (
        f'name = "GeoTextTopK"\nbounds = {list(geotext.BOUNDS)}\nwindow = {window}\nk = {parameters["k"]}'
    )
    piped = Piped(settings, wishes, Feed(first, batches, warm=1), parameters["shards"])
    return _trial(piped, Alone(made, Feed(first, batches, warm=1)), size * parameters["batches"])


def _growing(until: int, most: int) -> list[int]:
    """Where to cut messages into micro-batches that grow: the first ones fill empty lists, all of them."""
    cuts = [0]
    while cuts[-1] < until:
        cuts.append(min(until, cuts[-1] + most, 2 * cuts[-1] + 50))
    return cuts


@case("pipeline.check", small=ENGINE, full=ENGINE, seed=73, unit="check")
def check(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """`rankcast run --check`, from starting Python to its answer."""
    folder = spark_streams.folder()
    pq.write_table(pa.table({"seq": [1], "id": [1], "x": [1.0], "y": [1.0]}), folder / "events.parquet")
    pq.write_table(pa.table({"id": [1], "x_lo": [1.0], "x_hi": [1.0]}), folder / "subscriptions.parquet")
    tables = "".join(
        f'[{name}]\nformat = "parquet"\npath = "{name}.parquet"\n' for name in ("events", "subscriptions")
    )
    file = folder / "pipeline.toml"
    file.write_text(
        f'checkpoint = "c"\n[engine]\nname = "{parameters["engine"]}"\n{tables}[sink]\nformat = "console"\n'
    )
    code = "import sys; from rankcast.cli import main; sys.exit(main())"
    asked = [sys.executable, "-c", code, "run", str(file), "--check"]

    def run(_: Any) -> int:
        return subprocess.run(asked, capture_output=True, check=True).returncode  # noqa: S603

    return Trial(1, [Contender("check", run=run)], agrees=lambda told: told["check"] == 0)
