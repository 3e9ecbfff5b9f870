"""Stories through a broker: topics, the pipeline between them, and what one process makes of the same.

Micro-batches are as the checkpoint tells them. The numbers of rows without any of their own are worked out
once more here, from the places that they were sent to.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from typing import Any
from zlib import crc32

import pyarrow as pa

from rankcast.bench.cases.kafka_broker import Broker
from rankcast.kafka import read_deltas
from rankcast.pipeline import Config, Running, read, start
from tests.spark import hosts
from tests.spark.piped import ENGINES, PATIENCE
from tests.spark.runs import DDL
from tests.spark.stories import Batch, Row, Story, told_of

BEFORE = (1 << 53) - 1


def number(of: str, partition: int, offset: int) -> int:
    """The number of a row in the first topic of its input."""
    code = (offset * 2 + (of == "objects")) * 16 * 1024 + partition
    return code if of == "events" else code - BEFORE


def arrow(row: Row, form: pa.Schema) -> bytes:
    """One row as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, form) as writer:
        writer.write_table(pa.Table.from_pylist([row], schema=form))
    return bytes(sink.getvalue())


class Queued:
    """A story as a pipeline from topics to topics.

    Args:
        spark: the session; None if the pipeline runs in processes of its own.
        broker: where topics are.
        name: of the story's engine.
        story: what happens.
        folder: where the pipeline's file and its checkpoint are; its name begins the names of topics.
        partitions: of every topic.
        shards: of the engine.
        values: how messages are written.
        numbered: whether rows have numbers of their own, in any order, in any partition; otherwise they have
            those of their places, and rows of one id go to one partition.
        at_most: offsets in a micro-batch, of each input.
        more: further keys of the pipeline's file.
        engine: further keys of its engine.
    """

    def __init__(
        self,
        spark: Any,
        broker: Broker,
        name: str,
        story: Story,
        folder: Path,
        *,
        partitions: int = 1,
        shards: int = 2,
        values: str = "json",
        numbered: bool = False,
        at_most: int | None = None,
        more: str = "",
        engine: str = "",
    ) -> None:
        self.spark, self.broker, self.story, self.folder = spark, broker, story, folder
        self.partitions, self.values, self.numbered = partitions, values, numbered
        self.sent: dict[str, list[list[Row | None]]] = {
            each: [[] for _ in range(partitions)] for each in story.columns
        }
        topics = [self.topic(each) for each in (*story.columns, "deltas", "refused")]
        broker.create(**dict.fromkeys(topics, partitions))
        servers = f'"kafka.bootstrap.servers" = "{broker.servers}"'
        limit = f', maxOffsetsPerTrigger = "{at_most}"' if at_most else ""
        parts = [
            f'checkpoint = "checkpoint"\nshards = {shards}\n{more}\n[engine]\n{ENGINES[name]}\n{engine}\n'
        ]
        for each in story.columns:
            ddl = ", ".join(f"{field.name} {DDL[field.type]}" for field in self._form(each))
            stream = "" if each == "events" else "stream = true\n"
            options = f'{servers}, subscribe = "{self.topic(each)}", startingOffsets = "earliest"{limit}'
            parts.append(
                f'[{each}]\nformat = "kafka"\nschema = "{ddl}"\nvalues = "{values}"\n{stream}'
                f"options = {{ {options} }}\n"
            )
        parts.append(
            f'[sink]\nformat = "kafka"\nvalues = "{values}"\nrefused = "{self.topic("refused")}"\n'
            f'options = {{ {servers}, topic = "{self.topic("deltas")}" }}\n'
        )
        settings = "".join(f'"{key}" = {json.dumps(value)}\n' for key, value in hosts.settings().items())
        parts.append(f'[spark]\nmaster = "local[2]"\n{settings}')
        folder.mkdir(exist_ok=True)
        self.file = folder / "pipeline.toml"
        self.file.write_text("\n".join(parts))

    def topic(self, name: str) -> str:
        """The topic of an input, or `deltas` or `refused`."""
        return f"{self.folder.name}-{name}"

    def _form(self, name: str) -> pa.Schema:
        form = self.story.schema(name)
        return form if self.numbered else form.remove(form.get_field_index("seq"))

    def offer(self, batches: Iterable[Batch]) -> None:
        """Send the rows of micro-batches, in order of their numbers unless they keep those."""
        for batch in batches:
            for name, rows in batch.items():
                form = self._form(name)
                told = []
                for row in rows if self.numbered else sorted(rows, key=lambda each: int(each["seq"])):
                    key = row["seq"] if self.numbered else row["id"]
                    part = crc32(str(key).encode()) % self.partitions
                    kept = {column: row[column] for column in form.names}
                    value = arrow(kept, form) if self.values == "arrow" else json.dumps(kept).encode()
                    self.sent[name][part].append(row)
                    told.append((part, value))
                self.broker.send(self.topic(name), told)

    def poison(self, name: str, values: Iterable[bytes | None]) -> None:
        """Send messages that are no rows, into the first partition."""
        for value in values:
            self.sent[name][0].append(None)
            self.broker.send(self.topic(name), [(0, value)])

    def config(self) -> Config:
        return read(self.file, {})

    def start(self, *, once: bool = True) -> Running:
        return start(self.config(), self.spark, once=once)

    def run(self) -> Running:
        """Take what is there."""
        running = self.start()
        try:
            assert running.wait(PATIENCE)
        finally:
            running.stop()
        return running

    def caught_up(self, running: Running | None = None) -> None:
        """Wait until all that was sent is committed."""
        limit = time.monotonic() + PATIENCE
        while not self.is_done():
            assert time.monotonic() < limit, "the pipeline does not get on"
            assert running is None or not running.wait(0.05), "the pipeline has ended"
            time.sleep(0.05)

    def is_done(self) -> bool:
        """Whether all that was sent is committed."""
        ends = self._ends()[: hosts.committed(self.folder)]
        wanted = {self.topic(name): [len(rows) for rows in parts] for name, parts in self.sent.items()}
        return bool(ends) and all(
            [ends[-1].get(topic, {}).get(str(part), 0) for part in range(self.partitions)] == sizes
            for topic, sizes in wanted.items()
        )

    def _ends(self) -> list[dict[str, dict[str, int]]]:
        """By micro-batch, where it ends in every partition of every topic."""
        folder = self.folder / "checkpoint" / "offsets"
        offsets = sorted(folder.glob("[0-9]*"), key=lambda path: int(path.name)) if folder.exists() else []
        found = []
        for path in offsets:
            told: dict[str, dict[str, int]] = {}
            for line in path.read_text().splitlines()[2:]:
                told |= json.loads(line)
            found.append(told)
        return found

    def as_cut(self) -> Story:
        """The rows in the micro-batches that Spark has made of them, with their numbers."""
        batches = []
        for before, until in pairwise([{}, *self._ends()]):
            batch: Batch = {name: [] for name in self.sent}
            for name, parts in self.sent.items():
                for part, rows in enumerate(parts):
                    first, last = (at.get(self.topic(name), {}).get(str(part), 0) for at in (before, until))
                    for offset in range(first, last):
                        row = rows[offset]
                        if row is not None:
                            seq = row["seq"] if self.numbered else number(name, part, offset)
                            batch[name].append({**row, "seq": seq})
            batches.append(batch)
        return Story(self.story.make, self.story.columns, batches, self.story.tables)

    def read(self, **given: Any) -> list[Row]:
        """What a reader is handed."""
        deltas = read_deltas(self.broker.servers, self.topic("deltas"), until_end=True, wait=0.2, **given)
        return [row for each in deltas for row in each.rows]

    def told(self) -> list[tuple[Any, ...]]:
        """All rows once, as the story tells them."""
        return sorted(map(told_of, self.read()), key=str)

    def refused(self) -> list[tuple[dict[str, str], bytes | None]]:
        """Headers and values of refused rows, doubles too."""
        found = self.broker.messages(self.topic("refused"))
        return [(headers(each), each.value()) for each in found]

    def check(self) -> list[tuple[Any, ...]]:
        """All that a reader is handed is what one process makes of the same micro-batches.

        Rows that the engine refuses are those that it refuses there.
        """
        cut, refused = self.as_cut(), list[int]()
        ids = [
            {each["id"] for batch in batches for rows in batch.values() for each in rows}
            for batches in (cut.batches, self.story.batches)
        ]
        assert ids[0] == ids[1]
        expected = cut.expected(refused)[0]
        told = self.told()
        assert told == expected
        poison = {
            number(name, part, offset)
            for name, parts in self.sent.items()
            for part, rows in enumerate(parts)
            for offset, row in enumerate(rows)
            if row is None
        }
        mine = {int(head["seq"]) for head, _ in self.refused()} - poison
        assert mine == set(refused)
        return told


def headers(message: Any) -> dict[str, str]:
    """The headers of a message."""
    return {name: value.decode() for name, value in message.headers() or [] if value is not None}
