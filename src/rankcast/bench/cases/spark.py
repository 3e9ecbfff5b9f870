"""Cases of the Spark runtime: what it adds to an engine, and what state costs."""

from __future__ import annotations

import atexit
import json
import os
import shutil
import subprocess
import sys
import tempfile
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankcast import RangeTopK, RankedMatcher
from rankcast.bench.case import Answers, Contender, Parameters, Trial, case
from rankcast.bench.workloads import Columns
from rankcast.state import batches, checkpoint, recovery
from rankcast.state.checkpoint import Mark
from rankcast.state.depot import Depot
from rankcast.state.hosted import Hosted, Standing
from rankcast.state.journal import Record
from rankcast.state.live import Live, Place

FIRST_DELTA = "first-delta"
THROUGHPUT = "throughput"
KIND = "RankedMatcher"
BOXES_A_MEGABYTE = 20_000


@case(
    "spark.micro-batch",
    small={"batches": [12], "rows": [20]},
    full={"batches": [40], "rows": [20]},
    seed=61,
    unit="micro-batch",
    runs=3,
)
def micro_batch(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Micro-batches with next to no work, 2 shards, beside an operator that passes rows through."""
    count, rows = parameters["batches"], parameters["rows"]
    folder = _folder()
    _offer(folder / "events", [_objects(rows, place, rng) for place in range(count)])

    def stream(kind: str) -> Contender:
        return Contender(
            kind,
            prepare=lambda: _streaming(folder, kind),
            run=_run,
            counters=lambda _, query: {"median_ms": _median(query)},
        )

    return Trial(count, [stream("rankcast"), stream("pass-through")], baseline="pass-through")


@case(
    "spark.throughput",
    small={"rows": [20_000], "batches": [2], "subscriptions": [2_000]},
    full={"rows": [100_000], "batches": [4], "subscriptions": [2_000]},
    seed=62,
    unit="event",
    runs=2,
)
def throughput(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Large micro-batches through `RankedMatcher` on 1 and 2 cores, beside the engine in one process."""
    folder = _folder()
    slices = [_points(parameters["rows"], place, rng) for place in range(parameters["batches"])]
    boxes = _boxes(parameters["subscriptions"], rng)
    _offer(folder / "events", slices)
    pq.write_table(pa.table(boxes), folder / "subscriptions.parquet")

    def loaded() -> RankedMatcher:
        engine = RankedMatcher(over=["x", "y"], k=3)
        engine.subscribe(boxes)
        return engine

    def one_process(engine: RankedMatcher) -> int:
        names = ("id", "x", "y")
        return sum(engine.publish({name: each[name] for name in names}).num_rows for each in slices)

    def spark(cores: int) -> Contender:
        return Contender(
            f"Spark, {cores} shard{'s' if cores > 1 else ''}",
            prepare=lambda: (folder, cores),
            run=_matches,
            counters=lambda _, told: {"batch_seconds": told["seconds"], "events_per_second": told["rate"]},
        )

    return Trial(
        parameters["rows"] * parameters["batches"],
        [spark(1), spark(2), Contender("one process", prepare=loaded, run=one_process)],
        baseline="one process",
        agrees=_same_counts,
    )


@case(
    "spark.open",
    small={"megabytes": [50]},
    full={"megabytes": [500]},
    seed=63,
    unit="shard",
    runs=9,
)
def open_(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Open a shard whose arrays are on the host (a hit), beside reading its snapshot whole."""
    made = _made(parameters["megabytes"], rng)

    def hit(root: Path) -> int:
        live = Live(root)
        with live.held():
            place = live.place()
            assert place is not None  # noqa: S101
            kind: Any = RankedMatcher
            return len(live.open(kind, {}))

    def whole(root: Path) -> int:
        return sum(len(file.read_bytes()) for file in root.glob("*.array"))

    size = _size(made / "live")
    return Trial(
        1,
        [
            Contender("hit", prepare=lambda: made / "live", run=hit, bytes=lambda _: size),
            Contender("read all bytes", prepare=lambda: made / "live", run=whole),
        ],
        baseline="read all bytes",
    )


@case(
    "spark.restore",
    small={"megabytes": [50], "batches": [10]},
    full={"megabytes": [500], "batches": [10]},
    seed=64,
    unit="shard",
    runs=3,
)
def restore(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Restore a lost shard from its snapshot and a log of batches, on a local file system."""
    made = _made(parameters["megabytes"], rng)
    depot = Depot.open(str(made / "depot"))
    mark = checkpoint.mark_of(depot.peek("0").header)
    standing = Standing(mark.number, mark.token, "0", mark.number)
    log: list[Record] = []
    data = [_rescores(rng) for _ in range(parameters["batches"] + 1)]
    for each in data[:-1]:
        step = _hosted(made / "origin", depot).step(standing, each, lambda: log)
        log.append(step.record)
        standing = Standing(step.record.number, step.record.token, "0", mark.number)

    def fresh() -> Path:
        shutil.rmtree(made / "lost", ignore_errors=True)
        return made / "lost"

    return Trial(
        1,
        [
            Contender(
                "restore",
                prepare=fresh,
                run=lambda root: _hosted(root, depot).step(standing, data[-1], lambda: log).seconds,
                bytes=lambda _: _size(made / "live"),
            )
        ],
    )


@case(
    "spark.executors",
    small={"rows": [10_000], "batches": [4], "subscriptions": [2_000]},
    full={"rows": [100_000], "batches": [6], "subscriptions": [2_000]},
    seed=65,
    unit="event",
    runs=1,
)
def executors(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Engine-bound micro-batches on two executors of one core each, beside one."""
    folder = _folder()
    _offer(folder / "events", [_points(parameters["rows"], at, rng) for at in range(parameters["batches"])])
    pq.write_table(pa.table(_boxes(parameters["subscriptions"], rng)), folder / "subscriptions.parquet")

    def on(count: int) -> Contender:
        return Contender(
            f"{count} executor{'s' if count > 1 else ''}",
            prepare=lambda: count,
            run=lambda count: _apart(THROUGHPUT, str(folder), f"local-cluster[{count},1,1024]", str(count)),
            counters=lambda _, told: {"batch_seconds": told["seconds"], "events_per_second": told["rate"]},
        )

    return Trial(parameters["rows"] * parameters["batches"], [on(2), on(1)], baseline="1 executor")


@case("spark.first-delta", small={"rows": [20]}, full={"rows": [20]}, seed=66, unit="start", runs=2)
def first_delta(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """From starting Python to the first delta, a new session on a warm machine."""
    folder = _folder()
    _offer(folder / "events", [_objects(parameters["rows"], 0, rng)])
    return Trial(
        1, [Contender("session and stream", run=lambda _: _apart(FIRST_DELTA, str(folder), "local[2]", "2"))]
    )


# Workloads


def _folder() -> Path:
    """A directory that goes when the benchmark ends."""
    folder = tempfile.mkdtemp(prefix="rankcast-bench-")
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return Path(folder)


def _objects(count: int, place: int, rng: np.random.Generator) -> Columns:
    seq = np.arange(count) + place * count
    return {"seq": seq, "id": rng.integers(0, 50, count), "x": rng.random(count), "y": rng.random(count)}


def _points(count: int, place: int, rng: np.random.Generator) -> Columns:
    seq = np.arange(count) + place * count
    return {"seq": seq, "id": seq, "x": rng.random(count), "y": rng.random(count)}


def _boxes(count: int, rng: np.random.Generator) -> Columns:
    low = rng.random((count, 2)) * 0.9
    return {
        "id": np.arange(count),
        "x_lo": low[:, 0],
        "x_hi": low[:, 0] + 0.1,
        "y_lo": low[:, 1],
        "y_hi": low[:, 1] + 0.1,
        "score": rng.random(count),
    }


def _offer(folder: Path, slices: list[Columns]) -> None:
    """One Parquet file a micro-batch, in order of time."""
    folder.mkdir(parents=True)
    for place, rows in enumerate(slices):
        path = folder / f"{place:06d}.parquet"
        pq.write_table(pa.table(rows), path)
        os.utime(path, (1_600_000_000 + place, 1_600_000_000 + place))


# Streams


@cache
def _session() -> Any:
    from rankcast.spark import session  # noqa: PLC0415

    return session(master="local[2]", settings={"spark.sql.shuffle.partitions": 2})


def _events(spark: Any, folder: Path) -> Any:
    reader = spark.readStream.schema("seq long, id long, x double, y double").option("maxFilesPerTrigger", 1)
    return reader.parquet(str(folder / "events"))


def _streaming(folder: Path, kind: str) -> Any:
    """A stream that is ready to start."""
    spark = _session()
    events = _events(spark, folder)
    if kind == "pass-through":
        from rankcast.spark.passing import passing  # noqa: PLC0415

        return passing(events, (0, 2))
    from rankcast.spark import continuous  # noqa: PLC0415

    rows = [(place, place / 8, place / 8 + 0.2) for place in range(8)]
    subscriptions = spark.createDataFrame(rows, "id long, x_lo double, x_hi double")
    return continuous(RangeTopK(k=3), events, subscriptions, state=str(_folder()), shards=2)


def _run(frame: Any) -> Any:
    """Take all that was offered, to nowhere."""
    writer = frame.writeStream.format("noop").option("checkpointLocation", str(_folder()))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    return query


def _seconds(query: Any) -> list[float]:
    told = [each for each in query.recentProgress if each["numInputRows"]]
    return [each["durationMs"]["triggerExecution"] / 1000 for each in told]


def _median(query: Any) -> float:
    """The median micro-batch in milliseconds, without the first two, in which workers start."""
    return 1000 * float(np.median(_seconds(query)[2:]))


def _matches(prepared: tuple[Path, int]) -> dict[str, float]:
    folder, shards = prepared
    return matched(_session(), folder, shards)


def matched(spark: Any, folder: Path, shards: int) -> dict[str, float]:
    """Match all events offered under a folder; how long a micro-batch took, and how many matches it gave."""
    from rankcast.spark import continuous  # noqa: PLC0415
    from rankcast.spark.watching import OBSERVED, counters  # noqa: PLC0415

    subscriptions = spark.read.parquet(str(folder / "subscriptions.parquet"))
    engine = RankedMatcher(over=["x", "y"], k=3)
    frame = continuous(engine, _events(spark, folder), subscriptions, state=str(_folder()), shards=shards)
    query = _run(frame)
    told = [each for each in query.recentProgress if each["numInputRows"]]
    seconds = float(np.median(_seconds(query)[1:]))
    rows = float(np.median([each["numInputRows"] for each in told]))
    deltas = [
        shard["deltas"] for each in told for shard in counters(each["observedMetrics"][OBSERVED]).values()
    ]
    return {"seconds": seconds, "rate": rows / seconds, "matches": float(sum(deltas))}


def _same_counts(answers: Answers) -> bool:
    wanted = answers["one process"]
    return all(told["matches"] == wanted for name, told in answers.items() if name != "one process")


def _apart(what: str, *arguments: str) -> dict[str, float]:
    """The same in a Python of its own, for another session; the last line it prints is the answer."""
    from rankcast.spark.sessions import home  # noqa: PLC0415

    command = [sys.executable, "-m", __name__, what, *arguments]
    environment = {**os.environ, "SPARK_HOME": str(home())}
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environment)  # noqa: S603
    told: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return told


def main(what: str, folder: str, master: str, shards: str) -> None:
    """What `_apart` runs."""
    from rankcast.spark import session  # noqa: PLC0415

    spark = session(master=master, settings={"spark.sql.shuffle.partitions": 2})
    if what == THROUGHPUT:
        told = matched(spark, Path(folder), int(shards))
    else:
        told = {"matches": float(len(_run(_streaming(Path(folder), "rankcast")).recentProgress))}
    sys.stdout.write(json.dumps(told) + "\n")
    spark.stop()


# Shards


def _made(megabytes: int, rng: np.random.Generator) -> Path:
    """A shard of so many megabytes: live arrays, and a snapshot of them."""
    folder = _folder()
    engine = RankedMatcher(over=["x"], k=3)
    count = megabytes * BOXES_A_MEGABYTE
    low = rng.random(count)
    engine.subscribe({"id": np.arange(count), "x_lo": low, "x_hi": low + 1e-6, "score": rng.random(count)})
    header, arrays = engine.state()
    mark = Mark(0, batches.first_token(KIND, {}, {}))
    depot = Depot.open(str(folder / "depot"))
    depot.write("0", checkpoint.KIND, checkpoint.header_of(KIND, mark, header), arrays)
    live = Live(folder / "live")
    with live.held():
        held: Any = engine
        live.commit(held, Place(0, mark.token, ""), b"")
    return folder


def _size(root: Path) -> int:
    return sum(file.stat().st_size for file in root.glob("*.array"))


def _rescores(rng: np.random.Generator) -> bytes:
    """A batch whose work is small, so that a replay is measured and not an engine."""
    rows = {"id": rng.permutation(1000), "score": rng.random(1000)}
    return batches.encode(batches.commands_of([("rescore", rows)], RankedMatcher.calls))


def _hosted(root: Path, depot: Depot) -> Hosted[Any]:
    kind: Any = RankedMatcher
    return Hosted(Live(root), depot, kind, {}, lambda engine, data, _: recovery.run(engine, data))


if __name__ == "__main__":
    main(*sys.argv[1:])
