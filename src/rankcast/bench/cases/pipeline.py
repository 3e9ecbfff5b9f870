"""Cases of pipelines: what a file and a command cost beside the engine alone; how soon a check answers.

A pipeline is measured in its middle, from files to files: it runs, micro-batches lie ready, and the clock
runs from the moment it sees them until it has committed what came of them. "Per core" is the ratio to the
engine alone on one core, divided by the two cores that a pipeline has.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from itertools import count, pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankcast import GeoTextTopK, RankedMatcher
from rankcast.bench.cases import spark_streams
from rankcast.bench.runner import Answers, Contender, Parameters, Trial, case
from rankcast.bench.workloads import geotext, matching
from rankcast.core.engine import Engine

FILES = 2  # a micro-batch, so that both cores read
SECONDS = 3.0  # from one look at memory to the next


class Feed:
    """Micro-batches that come around again, each time with new ids, which are their numbers too.

    Args:
        first: micro-batches that come once, before all others.
        batches: the others.
        warm: how many of the others come before the clock runs: Java compiles for that long.
    """

    def __init__(self, first: list[pa.Table], batches: list[pa.Table], *, warm: int) -> None:
        self.first = first
        self.batches = batches
        self.warm = [batches[place % len(batches)] for place in range(warm)]
        self._next = 0

    def fresh(self, rows: pa.Table) -> pa.Table:
        """The same rows with the next ids."""
        ids = pa.array(np.arange(self._next, self._next + rows.num_rows))
        self._next += rows.num_rows
        return rows.set_column(rows.column_names.index("id"), "id", ids)


class Alone:
    """The engine in one process, which takes the very micro-batches that a pipeline takes."""

    def __init__(self, made: Callable[[], Engine], feed: Feed) -> None:
        self._made = made
        self._feed = feed
        self._engine: Any = None
        self._waiting: list[pa.Table] = []

    def ready(self) -> Alone:
        """Take what is not measured, and lay the rest ready."""
        if self._engine is None:
            self._engine = self._made()
            for rows in self._feed.first:
                self._engine.publish(self._feed.fresh(rows))
        for rows in self._feed.warm:
            self._engine.publish(self._feed.fresh(rows))
        self._waiting = [self._feed.fresh(rows) for rows in self._feed.batches]
        return self

    def take(self) -> dict[str, float]:
        """Take what lies ready."""
        return {"answers": float(sum(self._engine.publish(rows).num_rows for rows in self._waiting))}


class Piped:
    """A pipeline that takes micro-batches on request; at most one runs at a time.

    Args:
        engine: the lines of the table `[engine]`.
        subscriptions: the table of subscriptions.
        feed: the micro-batches.
        shards: how many.
    """

    running: Any = None

    def __init__(self, engine: str, subscriptions: pa.Table, feed: Feed, shards: int) -> None:
        self._folder = spark_streams.folder()
        self._feed = feed
        self._offered = 0
        self._running: Any = None
        for name in ("events", "waiting"):
            (self._folder / name).mkdir()
        pq.write_table(subscriptions, self._folder / "subscriptions.parquet")
        self._file = self._folder / "pipeline.toml"
        self._file.write_text(
            f'checkpoint = "checkpoint"\nshards = {shards}\n[engine]\n{engine}\n'
            f'[events]\nformat = "parquet"\npath = "events/*"\nschema = "{_ddl(feed.batches[0])}"\n'
            f"options = {{ maxFilesPerTrigger = {FILES} }}\n"
            '[subscriptions]\nformat = "parquet"\npath = "subscriptions.parquet"\n'
            '[sink]\nformat = "parquet"\npath = "out"\n'
            '[spark]\nmaster = "local[2]"\nsql.shuffle.partitions = 2\ndriver.memory = "4g"\n'
        )

    def ready(self) -> Piped:
        """Begin, or go on; take what is not measured, and lay the rest ready."""
        from rankcast.pipeline import read, start  # noqa: PLC0415

        if self._running is None:
            if Piped.running is not None:
                Piped.running.stop()
            self._lay(self._feed.first)
            self._memory = Watched()
            Piped.running = self._running = start(read(self._file))
        self._lay(self._feed.warm)
        self._take()
        self._lay(self._feed.batches)
        return self

    def stopped(self) -> Path:
        """Run until all is taken, if that was not done yet, and stop; the folder of it."""
        if self._running is None:
            self.ready()
            self._take()
        if Piped.running is self._running:
            self._running.stop()
            Piped.running = None
        return self._folder

    def take(self) -> dict[str, float]:
        """Take what lies ready; how many answers, how long a micro-batch and its shards took, most memory."""
        before = self._running.progress.totals["deltas"]
        self._take()
        after = self._running.progress
        recent = after.recent[-len(self._feed.batches) :]
        return {
            "answers": after.totals["deltas"] - before,
            "batch_seconds": float(np.median([batch.seconds for batch in recent])),
            "shard_seconds": float(np.median([batch.total("seconds") for batch in recent])),
            "memory": float(self._memory.most()),
        }

    def _lay(self, batches: list[pa.Table]) -> None:
        """Write micro-batches where the pipeline does not see them yet."""
        for each in batches:
            rows = self._feed.fresh(each)
            rows = rows.append_column("seq", rows["id"])
            place = self._folder / "waiting" / f"{self._offered:06d}"
            place.mkdir()
            size = -(-rows.num_rows // FILES)
            for file in range(FILES):
                path = place / f"{file}.parquet"
                pq.write_table(rows.slice(file * size, size), path)
                os.utime(path, (1_600_000_000 + self._offered,) * 2)
            self._offered += 1

    def _take(self) -> None:
        for place in sorted((self._folder / "waiting").iterdir()):
            place.rename(self._folder / "events" / place.name)
        self._running.query.processAllAvailable()


def _ddl(rows: pa.Table) -> str:
    kinds = {pa.int64(): "long", pa.float64(): "double"}
    columns = [f"{field.name} {kinds.get(field.type, 'array<string>')}" for field in rows.schema]
    return ", ".join([*columns, "seq long"])


class Watched:
    """Looks at the memory of a pipeline from time to time, from its start on."""

    def __init__(self) -> None:
        self._most = 0
        self._turn = threading.Lock()
        threading.Thread(target=self._watch, name="rankcast-memory", daemon=True).start()

    def most(self) -> int:
        """The most bytes that were seen."""
        with self._turn:
            self._most = max(self._most, memory())
            return self._most

    def _watch(self) -> None:
        pause = threading.Event()
        while not pause.wait(SECONDS):
            self.most()


def memory() -> int:
    """Bytes of memory of all processes that this one has started; pages that several have count once."""
    total = 0
    for process in started(os.getpid()):
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024


def started(process: int) -> list[int]:
    """All processes that a process has started, and that those have."""
    children: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        children.setdefault(parent, []).append(int(path.parent.name))
    found = list(children.get(process, []))
    for each in found:
        found += children.get(each, [])
    return found


CORES = 2
OVER = ["a0", "a1", "a2", "a3"]
ENGINE = {"engine": ["RangeTopK"]}


def _trial(piped: Piped, alone: Alone, work: int) -> Trial:
    """A pipeline beside the engine alone, in one process, on one core."""

    def counters(_: Any, figures: dict[str, float]) -> dict[str, float]:
        return {name: figures[name] for name in ("batch_seconds", "shard_seconds", "memory")}

    contenders = [
        Contender("pipeline, 2 cores", prepare=piped.ready, run=Piped.take, counters=counters),
        Contender("engine alone", prepare=alone.ready, run=Alone.take),
    ]
    return Trial(work, contenders, baseline="engine alone", agrees=_alike)


def _alike(answers: Answers) -> bool:
    return len({figures["answers"] for figures in answers.values()}) == 1


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
    command = [sys.executable, "-c", code, "run", str(file), "--check"]

    def run(_: Any) -> int:
        return subprocess.run(command, capture_output=True, check=True).returncode  # noqa: S603

    return Trial(1, [Contender("check", run=run)], agrees=lambda answers: answers["check"] == 0)


@case(
    "pipeline.reshard",
    small={"subscriptions": [2_000], "window": [1_000], "k": [10]},
    full={"subscriptions": [1_000_000], "window": [10_000], "k": [10]},
    seed=76,
    unit="subscription",
    runs=1,
)
def other_shards(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """A stopped stream of messages gets 8 shards instead of 2, of their snapshots and without history."""
    window, size = parameters["window"], 200
    rows = geotext.messages(window + 2 * size, rng)
    wishes = geotext.subscriptions(rows.slice(0, window), parameters["subscriptions"], rng)
    settings = (
        f'name = "GeoTextTopK"\nbounds = {list(geotext.BOUNDS)}\nwindow = {window}\nk = {parameters["k"]}'
    )
    # One micro-batch fills all lists: it tells what they hold in the end, not six times as much on the way.
    feed = Feed([rows.slice(0, window)], [rows.slice(window + start, size) for start in (0, size)], warm=1)
    piped = Piped(settings, wishes, feed, 2)
    numbers = count()

    def stopped() -> Path:
        return piped.stopped() / f"anew-{next(numbers)}"

    def anew(place: Path) -> dict[str, float]:
        from rankcast.spark import reshard  # noqa: PLC0415

        old = piped.stopped()
        made = reshard(
            spark_streams.session(),
            state=old / "checkpoint" / "rankcast",
            checkpoint=old / "checkpoint",
            to_state=place / "state",
            to_checkpoint=place / "checkpoint",
            shards=8,
        )
        return {"shards": float(len(made.shards))}

    contender = Contender("2 to 8 shards", prepare=stopped, run=anew)
    return Trial(parameters["subscriptions"], [contender])
