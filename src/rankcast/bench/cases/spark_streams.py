"""Streams for the cases of the Spark runtime: warm, and fed with micro-batches when the clock runs.

A stream is measured in its middle. Starting one, and its first micro-batches, in which workers begin and the
JVM compiles, come before the clock; how long a start takes is a case of its own.
"""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankcast import RankedMatcher
from rankcast.bench.runner import Parameters
from rankcast.bench.workloads import Columns
from rankcast.core.engine import Engine

NAMES = ["x", "y", "z", "w", "s", "t", "u", "v"]
OVER = NAMES[:4]
WIDTH = 0.1
WARM = 2
FILES = 2  # a micro-batch, so that both cores read
NUMBERS = "seq long, id long"


def folder() -> Path:
    """A directory that goes when the benchmark ends."""
    made = tempfile.mkdtemp(prefix="rankcast-bench-")
    atexit.register(shutil.rmtree, made, ignore_errors=True)
    return Path(made)


def session(master: str = "local[2]") -> Any:
    """The session of this process, begun if there is none; what its Java and Python say is dropped."""
    from rankcast.pipeline.running import silence  # noqa: PLC0415
    from rankcast.spark import session as begin  # noqa: PLC0415

    with silence():
        return begin(master=master, settings={"spark.sql.shuffle.partitions": 2})


class Stream:
    """A streaming query that takes micro-batches on request.

    Args:
        slices: the micro-batches, which come around again with new sequence numbers.
        build: from the stream of events to what is computed of it.
        files: of how many files a micro-batch is.
    """

    running: Any = None  # at most one query at a time

    def __init__(self, slices: list[Columns], build: Callable[[Any], Any], *, files: int = 1) -> None:
        self.slices = slices
        self._build = build
        self._files = files
        self._folder = folder()
        self._offered = 0
        for name in ("events", "waiting"):
            (self._folder / name).mkdir()

    def ready(self, count: int, *, warm: int = WARM) -> Stream:
        """Begin, or go on, take the first micro-batches, `warm` of them, and lay `count` more ready."""
        if Stream.running is not None:
            Stream.running.stop()
        Stream.running = self._query = self._start()
        self._lay(warm)
        self._take()
        self._lay(count)
        return self

    def first(self) -> None:
        """Begin, and take the first micro-batch."""
        self._query = self._start()
        self._lay(1)
        self._take()

    def take(self) -> dict[str, float]:
        """Take what lies ready; how long a micro-batch took, and how many answers there were."""
        return _figures_of(self._take())

    def _start(self) -> Any:
        names = ", ".join(f"{name} double" for name in self.slices[0] if name not in ("seq", "id"))
        reader = session().readStream.schema(f"{NUMBERS}, {names}").option("maxFilesPerTrigger", self._files)
        frame = self._build(reader.parquet(str(self._folder / "events" / "*")))
        writer = frame.writeStream.format("noop")
        return writer.option("checkpointLocation", str(self._folder / "checkpoint")).start()

    def _lay(self, count: int) -> None:
        """Write micro-batches where the stream does not see them yet."""
        for _ in range(count):
            rows = dict(self.slices[self._offered % len(self.slices)])
            rows["seq"] = rows["seq"] + self._offered * rows["seq"].size
            place = self._folder / "waiting" / f"{self._offered:06d}"
            place.mkdir()
            for file in range(self._files):
                part = {name: values[file :: self._files] for name, values in rows.items()}
                path = place / f"{file}.parquet"
                pq.write_table(pa.table(part), path)
                os.utime(path, (1_600_000_000 + self._offered,) * 2)
            self._offered += 1

    def _take(self) -> list[Any]:
        """Let the stream see what lies ready, each micro-batch at once, and wait; its progress on them."""
        before = self._query.lastProgress["batchId"] if self._query.lastProgress else -1
        for place in sorted((self._folder / "waiting").iterdir()):
            place.rename(self._folder / "events" / place.name)
        self._query.processAllAvailable()
        return [
            each for each in self._query.recentProgress if each["numInputRows"] and each["batchId"] > before
        ]


def _figures_of(progress: list[Any]) -> dict[str, float]:
    from rankcast.spark.streams import OBSERVED, counters  # noqa: PLC0415

    seconds = [each["durationMs"]["triggerExecution"] / 1000 for each in progress]
    shards = [
        figures for each in progress for figures in counters(each["observedMetrics"].get(OBSERVED)).values()
    ]
    return {
        "batches": float(len(progress)),
        "batch_seconds": float(np.median(seconds)),
        "shard_seconds": float(np.median([figures["seconds"] for figures in shards])) if shards else 0.0,
        "answers": float(sum(figures["deltas"] for figures in shards)),
    }


# Relaxed matching, in which the engine has work to do


def matcher(threads: int = 1, over: list[str] = OVER) -> RankedMatcher:
    """An empty engine."""
    return RankedMatcher(over=over, k=3, mode="relaxed", tuning={"threads": threads})


def boxes(count: int, rng: np.random.Generator, over: list[str] = OVER) -> Columns:
    """Weighted boxes."""
    low = rng.random((count, len(over))) * (1 - WIDTH)
    made: Columns = {"id": np.arange(count)}
    for place, name in enumerate(over):
        made |= {f"{name}_lo": low[:, place], f"{name}_hi": low[:, place] + WIDTH}
        made[f"{name}_weight"] = rng.random(count)
    return made


def points(count: int, rng: np.random.Generator, over: list[str] = OVER) -> Columns:
    """Events."""
    return {"seq": np.arange(count), "id": np.arange(count), **{name: rng.random(count) for name in over}}


def matching(parameters: Parameters, rng: np.random.Generator, shards: int) -> tuple[Stream, Columns]:
    """A stream of matches, and its subscriptions."""
    over = NAMES[: parameters.get("attributes", len(OVER))]
    given = boxes(parameters["subscriptions"], rng, over)
    slices = [points(parameters["rows"], rng, over) for _ in range(parameters["batches"])]
    state = folder()
    pq.write_table(pa.table(given), state / "subscriptions.parquet")

    def build(events: Any) -> Any:
        subscriptions = session().read.parquet(str(state / "subscriptions.parquet"))
        return continuous(matcher(over=over), events, subscriptions, state / "state", shards)

    return Stream(slices, build, files=FILES), given


def both_ways(parameters: Parameters, rng: np.random.Generator) -> tuple[Stream, Stream]:
    """Two streams of the same matches: subscriptions that are a table, and that came as commands."""
    given = boxes(parameters["subscriptions"], rng)
    slices = [points(parameters["rows"], rng) for _ in range(parameters["batches"])]
    state = folder()
    count = parameters["subscriptions"]
    asked = {"seq": np.arange(count) - count, "op": np.full(count, "subscribe"), **given}
    for name, rows in {"table": given, "commands": asked}.items():
        (state / name).mkdir()
        pq.write_table(pa.table(rows), state / name / "0.parquet")

    def build(name: str) -> Callable[[Any], Any]:
        def made(events: Any) -> Any:
            spark, path = session(), str(state / name)
            form = spark.read.parquet(path).schema
            subscriptions = (
                spark.read.parquet(path) if name == "table" else spark.readStream.schema(form).parquet(path)
            )
            engine = RankedMatcher(over=OVER, k=parameters["k"], mode="relaxed", tuning={"threads": 1})
            return continuous(engine, events, subscriptions, state / f"state-{name}", 2)

        return made

    table, commands = (Stream(slices, build(name), files=FILES) for name in ("table", "commands"))
    return table, commands


def continuous(engine: Engine, events: Any, subscriptions: Any, state: Path, shards: int) -> Any:
    """What `rankcast.spark.continuous` makes of a stream."""
    from rankcast.spark import continuous as run  # noqa: PLC0415

    return run(engine, events, subscriptions, state=str(state), shards=shards)


# Sessions in a process of their own


class Apart:
    """A stream of matches in a process of its own, on a master of its own; at most one at a time."""

    running: subprocess.Popen[str] | None = None

    def __init__(self, parameters: Parameters, seed: int, master: str, shards: int) -> None:
        from rankcast.spark.sessions import home  # noqa: PLC0415

        if Apart.running is not None:
            Apart.running.communicate()
        given = json.dumps([parameters, seed, master, shards])
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", __name__, given],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "SPARK_HOME": str(home()), "SPARK_WORKER_DIR": str(folder())},
        )
        Apart.running = self._process
        self._answer()

    def take(self) -> dict[str, float]:
        """As `Stream.take`; the process ends then."""
        assert self._process.stdin is not None  # noqa: S101
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, float]:
        assert self._process.stdout is not None  # noqa: S101
        for line in self._process.stdout:
            if line.startswith("{"):
                figures: dict[str, float] = json.loads(line)
                return figures
        raise RuntimeError("the process of the stream has ended")


def main(given: str) -> None:
    """What `Apart` runs: make a stream ready, and take what lies ready on request."""
    parameters, seed, master, shards = json.loads(given)
    session(master)
    stream, _ = matching(parameters, np.random.default_rng(seed), shards)
    stream.ready(parameters["batches"])
    sys.stdout.write("{}\n")
    sys.stdout.flush()
    sys.stdin.readline()
    sys.stdout.write(json.dumps(stream.take()) + "\n")
    sys.stdout.flush()
    Stream.running.stop()
    session().stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
