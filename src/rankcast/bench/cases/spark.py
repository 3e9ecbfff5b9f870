"""Cases of the Spark runtime: what it adds to an engine, for a batch and for many rows.

Shards on a host have two: opening one whose arrays are there, and restoring one that was lost.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

from rankcast import RangeTopK, RankedMatcher
from rankcast.bench.cases import spark_streams
from rankcast.bench.cases.spark_streams import Apart, Stream, folder
from rankcast.bench.runner import Answers, Contender, Parameters, Trial, case
from rankcast.bench.workloads import Columns
from rankcast.state import batches, checkpoint, journal
from rankcast.state.checkpoint import Mark
from rankcast.state.depot import Depot
from rankcast.state.journal import Record
from rankcast.state.shard_cache import Hosted, Live, Place, Standing

SHARDS = (0, 2)  # ids that Spark's hash sends to two partitions
SEED_APART = 65


@case(
    "spark.micro-batch",
    small={"batches": [10], "rows": [20]},
    full={"batches": [20], "rows": [20]},
    seed=61,
    unit="micro-batch",
    runs=3,
)
def micro_batch(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Micro-batches with next to no work, 2 shards, beside an operator that passes rows through."""
    slices = [_objects(parameters["rows"], rng) for _ in range(parameters["batches"])]

    def stream(kind: str, build: Any) -> Contender:
        made = Stream(slices, build)
        return Contender(
            kind,
            prepare=lambda: made.ready(parameters["batches"], warm=parameters["batches"]),
            run=Stream.take,
            counters=lambda _, figures: {"batch_seconds": figures["batch_seconds"]},
        )

    contenders = [stream("rankcast", _ranked()), stream("pass-through", _passed)]
    return Trial(parameters["batches"], contenders, baseline="pass-through")


@case(
    "spark.throughput",
    small={"rows": [20_000], "batches": [2], "subscriptions": [2_000]},
    full={"rows": [100_000], "batches": [4], "subscriptions": [20_000]},
    seed=62,
    unit="event",
    runs=1,
)
def throughput(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Relaxed matching in large micro-batches, 2 shards on 2 cores, beside the engine on one core."""
    stream, boxes = spark_streams.matching(parameters, rng, 2)
    batches = [{name: each[name] for name in ("id", *spark_streams.OVER)} for each in stream.slices]

    def loaded(threads: int) -> RankedMatcher:
        engine = spark_streams.matcher(threads)
        engine.subscribe(boxes)
        return engine

    def one_process(engine: RankedMatcher) -> dict[str, float]:
        return {"answers": float(sum(engine.publish(each).num_rows for each in batches))}

    def alone(name: str, threads: int) -> Contender:
        return Contender(name, prepare=lambda: loaded(threads), run=one_process)

    def spark_counters(_: Any, figures: dict[str, float]) -> dict[str, float]:
        return {name: figures[name] for name in ("batch_seconds", "shard_seconds")}

    spark = Contender(
        "Spark, 2 shards",
        prepare=lambda: stream.ready(parameters["batches"]),
        run=Stream.take,
        counters=spark_counters,
    )
    return Trial(
        parameters["rows"] * parameters["batches"],
        [spark, alone("one process, 2 threads", 2), alone("one process", 1)],
        baseline="one process",
        agrees=_same_answers,
    )


@case(
    "spark.stateless",
    small={"rows": [20_000], "batches": [2], "subscriptions": [2_000], "k": [1, 20]},
    full={"rows": [100_000], "batches": [4], "subscriptions": [20_000], "k": [1, 20]},
    seed=67,
    unit="event",
    runs=1,
)
def without_state(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Matching on 2 cores: subscriptions that are a table, beside the same as commands in 2 shards."""
    table, commands = spark_streams.both_ways(parameters, rng)

    def on(name: str, stream: Stream) -> Contender:
        return Contender(
            name,
            prepare=lambda: stream.ready(parameters["batches"]),
            run=Stream.take,
            counters=lambda _, figures: {name: figures[name] for name in ("batch_seconds", "shard_seconds")},
        )

    return Trial(
        parameters["rows"] * parameters["batches"],
        [on("table, no state", table), on("commands, 2 shards", commands)],
        baseline="commands, 2 shards",
        agrees=_same_answers,
    )


@case(
    "spark.shards",
    small={"subscriptions": [20_000], "objects": [2_000], "events": [1_000], "batches": [3]},
    full={"subscriptions": [100_000, 800_000], "objects": [10_000], "events": [1_000], "batches": [5]},
    seed=68,
    unit="event",
    runs=3,
)
def shards(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """All work of range top-k in 1, 2, 4 and 8 shards, one after the other: all are sent every event.

    Subscriptions are divided by place, as a table is, or by their ids, as commands are.
    """
    from rankcast.spark.plan import learn, zone_of  # noqa: PLC0415

    low: Any = rng.random(parameters["subscriptions"]) * 0.99
    asked: Any = {"id": np.arange(low.size), "x_lo": low, "x_hi": low + rng.random(low.size) * 0.01}
    first = {name: rng.random(parameters["objects"]) for name in ("x", "y")}
    given: list[Any] = [
        {"id": rng.integers(0, parameters["objects"], parameters["events"])}
        | {name: rng.random(parameters["events"]) for name in ("x", "y")}
        for _ in range(parameters["batches"])
    ]
    points = np.column_stack([asked["x_lo"], asked["x_hi"]])
    ways = {"1 shard": np.zeros(low.size, np.int64)}
    for count in (2, 4, 8):
        ways[f"{count} shards, by place"] = zone_of(learn(points[:20_000], count), points)
        ways[f"{count} shards, by id"] = rng.integers(0, count, low.size)

    def made(zones: Any) -> list[RangeTopK]:
        engines = []
        for zone in range(int(zones.max()) + 1):
            engine = RangeTopK(k=10)
            engine.publish({"id": np.arange(parameters["objects"]), **first})
            engine.subscribe({name: values[zones == zone] for name, values in asked.items()})
            engines.append(engine)
        return engines

    def published(engines: list[RangeTopK]) -> dict[str, float]:
        return {"answers": float(sum(each.publish(rows).num_rows for each in engines for rows in given))}

    contenders = [
        Contender(name, prepare=lambda zones=zones: made(zones), run=published)  # type: ignore[misc]
        for name, zones in ways.items()
    ]
    events = parameters["events"] * parameters["batches"]
    return Trial(events, contenders, baseline="1 shard", agrees=_same_answers)


@case(
    "spark.executors",
    small={"rows": [10_000], "batches": [2], "subscriptions": [2_000], "attributes": [8]},
    full={"rows": [100_000], "batches": [3], "subscriptions": [20_000], "attributes": [8]},
    seed=SEED_APART,
    unit="event",
    runs=1,
)
def executors(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Engine-bound micro-batches on two executors of one core each, beside one.

    The boxes are few and of many attributes: an event is much work in little memory, so that two cores do
    not wait for the same memory and what is measured is Spark.
    """

    def on(count: int) -> Contender:
        return Contender(
            f"{count} executor{'s' if count > 1 else ''}",
            prepare=lambda: Apart(parameters, SEED_APART, f"local-cluster[{count},1,1024]", 2),
            run=Apart.take,
            counters=lambda _, figures: {name: figures[name] for name in ("batch_seconds", "shard_seconds")},
        )

    work = parameters["rows"] * parameters["batches"]
    return Trial(work, [on(2), on(1)], baseline="1 executor", agrees=_same_answers)


@case("spark.first-delta", small={"rows": [20]}, full={"rows": [20]}, seed=66, unit="start", runs=2)
def first_delta(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """From starting Python to the first deltas, a new session; the machine has Spark's classes ready."""
    warm = Contender(
        "session and stream",
        prepare=lambda: _apart("rankcast.spark.class_archive"),
        run=lambda _: _apart(__name__, str(parameters["rows"])),
    )
    return Trial(1, [warm])


def _apart(*command: str) -> None:
    called = [sys.executable, "-m", *command]
    subprocess.run(called, capture_output=True, check=True, env=dict(os.environ))  # noqa: S603


def main(rows: str) -> None:
    """What `first_delta` times: a session, a stream and its first micro-batch."""
    stream = Stream([_objects(int(rows), np.random.default_rng(66))], _ranked())
    stream.first()


def _objects(count: int, rng: np.random.Generator) -> Columns:
    ids = rng.integers(0, 50, count)
    return {"seq": np.arange(count), "id": ids, "x": rng.random(count), "y": rng.random(count)}


def _ranked() -> Any:
    state = spark_streams.folder()

    def build(events: Any) -> Any:
        rows = [(place, place / 8, place / 8 + 0.2) for place in range(8)]
        form = "id long, x_lo double, x_hi double"
        subscriptions = spark_streams.session().createDataFrame(rows, form)
        return spark_streams.continuous(RangeTopK(k=3), events, subscriptions, state, len(SHARDS))

    return build


def _passed(events: Any) -> Any:
    from rankcast.spark.generating import passing  # noqa: PLC0415

    return passing(events, SHARDS)


def _same_answers(answers: Answers) -> bool:
    return len({figures["answers"] for figures in answers.values()}) == 1


if __name__ == "__main__":
    main(*sys.argv[1:])


KIND = "RankedMatcher"
BOXES_A_MEGABYTE = 20_000


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


def _made(megabytes: int, rng: np.random.Generator) -> Path:
    """A shard of so many megabytes: live arrays, and a snapshot of them."""
    place = folder()
    engine = RankedMatcher(over=["x"], k=3)
    count = megabytes * BOXES_A_MEGABYTE
    low = rng.random(count)
    engine.subscribe({"id": np.arange(count), "x_lo": low, "x_hi": low + 1e-6, "score": rng.random(count)})
    header, arrays = engine.state()
    mark = Mark(0, batches.first_token(KIND, {}, {}))
    depot = Depot.open(str(place / "depot"))
    depot.write("0", checkpoint.KIND, checkpoint.header_of(KIND, mark, header), arrays)
    live = Live(place / "live")
    with live.held():
        held: Any = engine
        live.commit(held, Place(0, mark.token, ""), b"")
    return place


def _size(root: Path) -> int:
    return sum(file.stat().st_size for file in root.glob("*.array"))


def _rescores(rng: np.random.Generator) -> bytes:
    """A batch whose work is small, so that a replay is measured and not an engine."""
    rows = {"id": rng.permutation(1000), "score": rng.random(1000)}
    return batches.encode(batches.commands_of([("rescore", rows)], RankedMatcher.calls))


def _hosted(root: Path, depot: Depot) -> Hosted[Any]:
    kind: Any = RankedMatcher
    return Hosted(Live(root), depot, kind, {}, lambda engine, data, _: journal.run(engine, data))
