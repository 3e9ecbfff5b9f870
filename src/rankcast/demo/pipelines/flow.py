"""One pipeline that runs while its files come: its deltas so far, and how long they took."""

from __future__ import annotations

import math
import threading
import time
from collections import deque
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankcast import pipeline
from rankcast.demo.pipelines.feeds import Feed
from rankcast.pipeline.fields import PipelineError
from rankcast.pipeline.progress import Batch, Progress

SHOWN = 40
MOST_WAITING = 2  # files
MOST_STARTS = 4  # on a busy machine Spark may wait in vain for a Python worker


class Flow:
    """A feed, and the pipeline that its files go through.

    Args:
        feed: what flows.
        folder: where its files are written.
    """

    def __init__(self, feed: Feed, folder: Path) -> None:
        self.feed = feed
        self._folder = folder
        self._turn = threading.Lock()
        self._written: deque[tuple[int, float]] = deque()
        (folder / feed.name).mkdir()
        pq.write_table(feed.subscriptions, folder / f"{feed.name}-subscriptions.parquet")
        (folder / f"{feed.name}.toml").write_text(feed.file)
        self.config = pipeline.read(folder / f"{feed.name}.toml")
        self.running: Any = None
        self._spark: Any = None
        self._last = -math.inf
        self._starts = 0
        self.offered = self.deltas = 0
        self.owners: set[str] = set()
        self.latencies: list[float] = []
        self.lines: deque[dict[str, Any]] = deque(maxlen=SHOWN)
        self.progress = Progress()
        self.batches: dict[int, Batch] = {}

    def start(self, spark: Any) -> None:
        """Let it run in a session, or run on."""
        self._spark, self._starts = spark, self._starts + 1
        self.running = pipeline.start(self.config, spark, tell=self._on_deltas)

    def offer_in_time(self, least: float, most: float) -> None:
        """Let the next file come, not too soon after the last, and sooner if none is waiting."""
        gone = time.monotonic() - self._last
        if gone >= (least if len(self._written) < MOST_WAITING else most):
            self._last = time.monotonic()
            self.offer()

    def offer(self) -> None:
        """Let the next file come, if there is one, and whole: it gets its name when it is written."""
        if self.offered == len(self.feed.events):
            return
        table = self.feed.events[self.offered]
        path = self._folder / self.feed.name / f"{self.offered:06d}.parquet"
        hidden = path.with_name(f"_{path.name}")
        pq.write_table(table, hidden)
        with self._turn:
            self._written.append((table["seq"][-1].as_py(), time.monotonic()))
        hidden.replace(path)
        self.offered += 1

    def _on_deltas(self, number: int, table: pa.Table) -> None:
        """Note the deltas of a micro-batch: once they are in the results, everybody could be shown them."""
        now = time.monotonic()
        if not table.num_rows:
            return
        top = pc.max(table["seq"]).as_py()
        mine = table.filter(pc.is_in(table["subscription"], pa.array(list(self.feed.shown))))
        with self._turn:
            while self._written and self._written[0][0] <= top:
                self.latencies.append(now - self._written.popleft()[1])
            self.deltas += table.num_rows
            self.owners.update(pc.unique(table["subscription"]).to_pylist())
            self.lines.extend(mine.to_pylist())

    def look(self) -> None:
        """Ask the pipeline how it gets on; one that Spark gives up goes on from its checkpoint.

        Raises:
            PipelineError: it has failed too often.
        """
        try:
            self.running.wait(0.05)
        except PipelineError:
            if self._starts == MOST_STARTS:
                raise
            self.running.stop()
            self.start(self._spark)
        self.progress = self.running.progress
        self.batches |= {batch.number: batch for batch in self.progress.recent}

    @property
    def done(self) -> bool:
        """Whether all files have come and all of their rows are worked on."""
        return self.offered == len(self.feed.events) and self.rows >= self.feed.rows

    @property
    def rows(self) -> int:
        """How many rows have been worked on."""
        return sum(batch.rows for batch in self.batches.values())

    def last(self, count: int) -> list[dict[str, Any]]:
        """The last changes of those who are shown."""
        with self._turn:
            return list(self.lines)[-count:]

    def results(self) -> pa.Table:
        """The current results, as anybody may read them while the pipeline runs."""
        return pq.read_table(str(self.config.sink.path))
