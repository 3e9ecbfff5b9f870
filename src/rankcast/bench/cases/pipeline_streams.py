"""Pipelines for benchmark cases: warm, and fed with micro-batches when the clock runs; and the engine alone.

A pipeline is measured in its middle, from files to files: it runs, micro-batches lie ready, and the clock
runs from the moment it sees them until it has committed what came of them.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from rankcast.bench.cases import spark_streams
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
    """A pipeline that takes micro-batches when it is told to; at most one runs at a time.

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
    started, total = _children(), 0
    waiting = started.get(os.getpid(), [])
    while waiting:
        process = waiting.pop()
        waiting += started.get(process, [])
        try:
            lines = Path(f"/proc/{process}/smaps_rollup").read_text().splitlines()
        except OSError:
            continue
        total += sum(int(line.split()[1]) for line in lines if line.startswith("Pss:"))
    return total * 1024


def _children() -> dict[int, list[int]]:
    found: dict[int, list[int]] = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        try:
            parent = int(path.read_text().rpartition(")")[2].split()[1])
        except OSError:
            continue
        found.setdefault(parent, []).append(int(path.parent.name))
    return found
