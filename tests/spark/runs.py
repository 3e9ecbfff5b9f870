"""Running stories on Spark: micro-batches as Parquet files, one file of each input a micro-batch."""

from __future__ import annotations

import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.errors import StreamingQueryException

from rankcast.spark import continuous
from tests.spark.stories import Batch, Row, Story, told_of

DDL = {
    pa.int64(): "long",
    pa.float64(): "double",
    pa.string(): "string",
    pa.list_(pa.string()): "array<string>",
    pa.list_(pa.int64()): "array<bigint>",
    pa.list_(pa.float64()): "array<double>",
}


class Stream:
    """A story as a stream under a folder; `offer` lets micro-batches come, `run` lets Spark take them."""

    def __init__(self, spark: Any, story: Story, folder: Path, **settings: Any) -> None:
        self.spark = spark
        self.story = story
        self.folder = folder
        self.settings = settings
        self.offered = 0

    def offer(self, batches: list[Batch]) -> None:
        for batch in batches:
            for name, rows in batch.items():
                path = self.folder / name / f"{self.offered:06d}.parquet"
                path.parent.mkdir(parents=True, exist_ok=True)
                hidden = path.with_name(f"_{path.name}")
                pq.write_table(pa.Table.from_pylist(rows, schema=self.story.schema(name)), hidden)
                os.utime(hidden, (1_600_000_000 + self.offered, 1_600_000_000 + self.offered))
                hidden.rename(path)
            self.offered += 1

    def frames(self) -> dict[str, Any]:
        found = {}
        for name in self.story.columns:
            ddl = ", ".join(f"{field.name} {DDL[field.type]}" for field in self.story.schema(name))
            if name in self.story.tables:
                rows = [
                    tuple(row[column] for column in self.story.columns[name])
                    for row in self.story.tables[name]
                ]
                found[name] = self.spark.createDataFrame(rows, ddl)
            else:
                reader = self.spark.readStream.schema(ddl).option("maxFilesPerTrigger", 1)
                found[name] = reader.parquet(str(self.folder / name))
        return found

    def deltas(self) -> Any:
        state = str(self.folder / "state")
        settings = {name: each for name, each in self.settings.items() if name != "checkpoint"}
        return continuous(self.story.make(), **{"state": state, **self.frames(), **settings})

    def start(self) -> Any:
        writer = self.deltas().writeStream.format("parquet").option("path", str(self.folder / "out"))
        return (
            writer.option(
                "checkpointLocation", str(self.settings.get("checkpoint", self.folder / "checkpoint"))
            )
            .trigger(availableNow=True)
            .start()
        )

    def run(self) -> Any:
        query = self.start()
        query.awaitTermination()
        return query

    def run_on(self, attempts: int) -> Any:
        """Run to the end, again if Spark gives up: a worker was killed too often, or answered too late."""
        for attempt in range(attempts):
            try:
                return self.run()
            except StreamingQueryException:
                assert attempt + 1 < attempts, "the stream does not get on"
        return None

    def rows(self) -> list[Row]:
        found: list[Row] = self.spark.read.parquet(str(self.folder / "out")).toArrow().to_pylist()
        return found

    def as_cut(self) -> Story:
        """The story in the micro-batches that Spark has made of it, from the checkpoint.

        A file is noted as seen before the micro-batch with it is: an application that is killed in between
        finds that file and the next one new when it begins again, and makes one micro-batch of both.
        """
        sources = sorted((self.folder / "checkpoint" / "sources").iterdir(), key=lambda path: int(path.name))
        seen = [_seen(source) for source in sources]
        offsets = sorted(
            (self.folder / "checkpoint" / "offsets").glob("[0-9]*"), key=lambda path: int(path.name)
        )
        ends = [
            [json.loads(line)["logOffset"] for line in path.read_text().splitlines()[2:]] for path in offsets
        ]
        batches = []
        for before, until in pairwise([[-1] * len(seen), *ends]):
            batch: Batch = {}
            for files, first, last in zip(seen, before, until, strict=True):
                for path, number in files.items():
                    if first < number <= last:
                        batch.setdefault(path.parent.name, []).extend(pq.read_table(path).to_pylist())
            batches.append({**{name: [] for name in self.story.batches[0]}, **batch})
        return Story(self.story.make, self.story.columns, batches, self.story.tables)

    def told(self) -> list[tuple[Any, ...]]:
        """All committed deltas, as the story tells them."""
        return sorted((told_of(row) for row in self.rows() if row["op"] != "refused"), key=str)

    def check(self) -> None:
        """All that was committed is what one process makes of the same micro-batches, which are all rows.

        Where Spark made one micro-batch of two files of one input, commands may come before events that they
        follow, and leave those without their subscription: they are refused, in one process as well.
        """
        cut = self.as_cut()
        assert [_seqs(batch) for batch in cut.recut([]).batches] == [
            _seqs(batch) for batch in self.story.recut([]).batches
        ]
        refused: list[int] = []
        assert self.told() == cut.expected(refused)[0]
        assert [row["seq"] for row in self.refused()] == sorted(refused)

    def refused(self) -> list[Row]:
        rows = [row for row in self.rows() if row["op"] == "refused"]
        return sorted(rows, key=lambda row: (row["seq"] is None, row["seq"]))


def _seqs(batch: Batch) -> dict[str, list[int]]:
    return {name: [row["seq"] for row in rows] for name, rows in batch.items()}


def _seen(source: Path) -> dict[Path, int]:
    """The files that a source has taken note of, each with the number of the note."""
    notes = [json.loads(line) for log in source.glob("[0-9]*") for line in log.read_text().splitlines()[1:]]
    return {Path(note["path"].removeprefix("file://")): note["batchId"] for note in notes}


def hows(query: Any) -> list[str]:
    """What each shard found on its host, batch by batch."""
    from rankcast.spark.streams import OBSERVED, counters

    progress = [each for each in query.recentProgress if each["observedMetrics"]]
    return [told["how"] for each in progress for told in counters(each["observedMetrics"][OBSERVED]).values()]
