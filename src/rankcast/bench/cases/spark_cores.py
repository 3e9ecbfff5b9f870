"""What a core gives on Spark, beside the engine alone: large micro-batches, by processor time.

Time of cores counts what Java, its compilers and Python workers take together, whichever of two cores it was
on, and nothing that other programs take. `core` is the engine's time over Spark's for the same rows.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankcast import RangeTopK, RankedMatcher
from rankcast.bench.cases import spark_streams
from rankcast.bench.cases.pipeline import started
from rankcast.bench.cases.spark_streams import Stream
from rankcast.bench.runner import Answers, Contender, Parameters, Trial, case
from rankcast.bench.workloads import Columns, matching
from rankcast.core.engine import Engine

WARM = 6
SPARK, ALONE = "Spark, 2 cores", "engine alone"


def processor_seconds() -> float:
    """Time of cores of this process and of all that it has started, those that have ended too."""
    ticks = 0
    for process in (os.getpid(), *started(os.getpid())):
        try:
            fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        except OSError:
            continue
        ticks += sum(map(int, fields[11:15]))
    return ticks / os.sysconf("SC_CLK_TCK")


class Alone:
    """The engine in one process on one core, which takes the very micro-batches that a stream takes."""

    def __init__(self, engine: Engine, slices: list[Columns]) -> None:
        self._engine: Any = engine
        columns = [name for name in slices[0] if name != "seq"]
        self._slices = [pa.table({name: each[name] for name in columns}) for each in slices]
        self._taken = 0

    def ready(self, count: int, *, warm: int) -> Alone:
        """Take the first micro-batches, `warm` of them, and lay `count` more ready."""
        self._publish(warm)
        self._waiting = count
        return self

    def take(self) -> dict[str, float]:
        """Take what lies ready."""
        return {"answers": float(self._publish(self._waiting))}

    def _publish(self, count: int) -> int:
        told = 0
        for _ in range(count):
            told += self._engine.publish(self._slices[self._taken % len(self._slices)]).num_rows
            self._taken += 1
        return told


@case(
    "spark.cores",
    small={
        "task": ["matching", "range"],
        "rows": [20_000],
        "batches": [2],
        "subscriptions": [2_000],
    },
    full={
        "task": ["matching", "range"],
        "rows": [200_000],
        "batches": [3],
        "subscriptions": [100_000],
    },
    seed=69,
    unit="event",
    runs=3,
)
def cores(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Matching and range top-k in large micro-batches on 2 cores, beside the engine on one: `core`."""
    stream, alone = (ranges if parameters["task"] == "range" else matches)(parameters, rng)
    spent: dict[str, float] = {}

    def contender(name: str, made: Any) -> Contender:
        def take(_: Any) -> dict[str, float]:
            before = processor_seconds()
            figures: dict[str, float] = made.take()
            spent[name] = processor_seconds() - before
            return figures

        def counters(_: Any, figures: dict[str, float]) -> dict[str, float]:
            told = {key: value for key, value in figures.items() if key.endswith("_seconds")}
            return {**told, "processor_seconds": spent[name], "core": spent[ALONE] / spent[name]}

        return Contender(
            name, prepare=lambda: made.ready(parameters["batches"], warm=WARM), run=take, counters=counters
        )

    work = parameters["rows"] * parameters["batches"]
    return Trial(work, [contender(ALONE, alone), contender(SPARK, stream)], baseline=ALONE, agrees=_alike)


def _alike(answers: Answers) -> bool:
    return len({figures["answers"] for figures in answers.values()}) == 1


def matches(parameters: Parameters, rng: np.random.Generator) -> tuple[Stream, Alone]:
    """Events that match boxes of four attributes, most of which few events are in; the best of each."""
    over = ["a0", "a1", "a2", "a3"]
    size, count = parameters["rows"], parameters["rows"] * parameters["batches"]
    boxes, points = matching.heavy_boxes("sparse", len(over), parameters["subscriptions"], count, rng)
    slices = [
        {"seq": np.arange(size), **{name: values[first : first + size] for name, values in points.items()}}
        for first in range(0, count, size)
    ]

    def made() -> Engine:
        return RankedMatcher(over=over, k=1, tuning={"threads": 1})

    return _both(made, pa.table(boxes), slices)


def ranges(parameters: Parameters, rng: np.random.Generator) -> tuple[Stream, Alone]:
    """Objects whose values move a little; the ten best of some hundred objects in a range."""
    count, size, k = parameters["subscriptions"], parameters["rows"], 10
    low: Any = rng.random(count)
    boxes = {"id": np.arange(count), "x_lo": low, "x_hi": low + rng.random(count) * 20 * k / count}
    places: Any = rng.random((2, count))
    x, y = places
    slices: list[Columns] = []
    for _ in range(parameters["batches"]):
        ids: Any = rng.integers(0, count, size)
        np.add.at(y, ids, rng.normal(0, 0.01, size))
        slices.append({"seq": np.arange(size), "id": ids, "x": x[ids], "y": y[ids]})
    return _both(lambda: RangeTopK(k=k), pa.table(boxes), slices)


def _both(made: Callable[[], Engine], boxes: pa.Table, slices: list[Columns]) -> tuple[Stream, Alone]:
    state = spark_streams.folder()
    pq.write_table(boxes, state / "subscriptions.parquet")

    def build(events: Any) -> Any:
        subscriptions = spark_streams.session().read.parquet(str(state / "subscriptions.parquet"))
        return spark_streams.continuous(made(), events, subscriptions, state / "state", 2)

    engine: Any = made()
    engine.subscribe(boxes)
    return Stream(slices, build, files=spark_streams.FILES), Alone(engine, slices)
