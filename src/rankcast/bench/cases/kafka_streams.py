"""Streams from Kafka to Kafka for benchmark cases, in a process of their own with a broker of its own.

A session cannot be given the jars of a connector once its Java runs, and other cases begin one without them.
So broker, session and queries live in a process that `Apart` starts and that takes one word a line: `ready`
or `take`, and the name of a stream. At most one query runs at a time.
"""

from __future__ import annotations

import json
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from numpy.typing import NDArray

from rankcast.bench.cases import kafka_broker, spark_streams
from rankcast.bench.runner import Parameters
from rankcast.bench.workloads import Columns, matching

Floats = NDArray[np.float64]
OURS, PASSED, STATEFUL = "rankcast", "pass-through", "pass-through by a stateful operator"
SHARDS = (0, 2)  # ids that Spark's hash sends to two partitions
OVER = ["a0", "a1", "a2", "a3"]
PARTITIONS = 2
STEP = 0.01  # seconds from one send of a paced load to the next
BY_PLACE = 2 * 16 * 1024  # what an offset counts for in the number of a row, see rankcast.spark.kafka
_STAMPED = {"message.timestamp.type": "LogAppendTime"}  # times are the broker's, in and out


class Apart:
    """The process; ended with the benchmark."""

    def __init__(self, kind: str, parameters: Parameters, seed: int) -> None:
        given = json.dumps([kind, parameters, seed, str(spark_streams.folder())])
        self._process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-m", __name__, given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
        )

    def ready(self, name: str) -> Callable[[], dict[str, float]]:
        """Let a stream run, warm, and wait for its load; what takes that."""
        self._ask("ready", name)
        return lambda: self._ask("take", name)

    def _ask(self, *words: str) -> dict[str, float]:
        if self._process.stdin is None or self._process.stdout is None:
            raise RuntimeError("the process has no pipes")
        self._process.stdin.write(" ".join(words) + "\n")
        self._process.stdin.flush()
        for line in self._process.stdout:
            if line.startswith("{"):
                figures: dict[str, float] = json.loads(line)
                return figures
        raise RuntimeError("the process of the streams has ended")


class Queue:
    """A topic of events, how they are sent, and the topic of what comes of them."""

    def __init__(self, broker: kafka_broker.Broker, name: str, partitions: int) -> None:
        self.broker = broker
        self.events, self.answers = (f"{word}-{name.replace(' ', '-')}" for word in ("events", "answers"))
        broker.create(_STAMPED, **{self.events: partitions, self.answers: PARTITIONS})
        self._partitions = partitions
        self.sent = 0

    def send(self, values: Sequence[bytes], *, rate: float | None = None) -> None:
        """Send messages, at a rate or as fast as it goes, and wait until the broker has them."""
        from confluent_kafka import Producer  # noqa: PLC0415

        producer: Any = Producer(
            {
                "bootstrap.servers": self.broker.servers,
                "linger.ms": 0 if rate else 20,
                "queue.buffering.max.messages": 500_000,
            }
        )
        step = max(1, round((rate or 100_000) * STEP))
        began = time.perf_counter()
        for first in range(0, len(values), step):
            for place, value in enumerate(values[first : first + step], self.sent):
                producer.produce(self.events, value, partition=place % self._partitions)
            self.sent += len(values[first : first + step])
            producer.poll(0)
            while rate and time.perf_counter() < began + (first + step) / rate:
                time.sleep(0.001)
            while not rate and len(producer) > 400_000:
                producer.poll(0.1)
        producer.flush(kafka_broker.PATIENCE)

    def size(self) -> int:
        """How many answers there are."""
        return self.broker.size(self.answers)


class Ours:
    """A pipeline of rankcast's over a queue."""

    def __init__(
        self, spark: Any, folder: Path, queue: Queue, engine: str, form: str, table: Columns
    ) -> None:
        self._spark = spark
        self.queue = queue
        pq.write_table(pa.table(table), folder / "subscriptions.parquet")
        servers = f'"kafka.bootstrap.servers" = "{queue.broker.servers}"'
        start = f'{servers}, subscribe = "{queue.events}", startingOffsets = "earliest"'
        self._file = folder / "pipeline.toml"
        self._file.write_text(
            f'checkpoint = "checkpoint"\nshards = 2\n[engine]\n{engine}\n'
            f'[events]\nformat = "kafka"\nschema = "{form}"\noptions = {{ {start} }}\n'
            '[subscriptions]\nformat = "parquet"\npath = "subscriptions.parquet"\n'
            f'[sink]\nformat = "kafka"\noptions = {{ {servers}, topic = "{queue.answers}" }}\n'
        )

    def start(self, *, once: bool) -> Any:
        """Spark's query."""
        from rankcast.pipeline import read, start  # noqa: PLC0415

        return start(read(self._file), self._spark, once=once)


class Passing:
    """A query that sends every message on: what Spark and Kafka take by themselves.

    With `stateful` messages go to two shards of a Python operator with state, as ours do, which sends on the
    offset of the last one.
    """

    def __init__(self, spark: Any, folder: Path, queue: Queue, *, stateful: bool = False) -> None:
        self._spark, self._folder, self.queue = spark, folder, queue
        self._stateful = stateful

    def start(self, *, once: bool) -> Any:
        """Spark's query."""
        servers = {"kafka.bootstrap.servers": self.queue.broker.servers}
        reader = self._spark.readStream.format("kafka").options(**servers, startingOffsets="earliest")
        rows = reader.option("subscribe", self.queue.events).load()
        if self._stateful:
            from rankcast.spark.generating import passing  # noqa: PLC0415

            rows = passing(rows.selectExpr("offset as seq", "value"), SHARDS)
            rows = rows.selectExpr("cast(top as string) as key", "'' as value")
        else:
            rows = rows.selectExpr("cast(offset as string) as key", "value")
        writer = rows.writeStream.format("kafka").options(**servers).option("topic", self.queue.answers)
        writer = writer.option("checkpointLocation", str(self._folder / self.queue.events))
        return Query((writer.trigger(availableNow=True) if once else writer).start())


class Query:
    """A query of Spark's with the words of a pipeline's."""

    def __init__(self, query: Any) -> None:
        self.query = query

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for its end."""
        return bool(self.query.awaitTermination(seconds))

    def stop(self) -> None:
        """End it."""
        self.query.stop()


class Paced:
    """Streams under a steady load; `take` tells how long answers take, from broker to broker.

    An event of ours counts as answered when the last message of its micro-batch has arrived.
    """

    def __init__(
        self, spark: Any, parameters: Parameters, seed: int, folder: Path, broker: kafka_broker.Broker
    ) -> None:
        rng = np.random.default_rng(seed)
        self._parameters, self._rng = parameters, rng
        count, self._objects = parameters["subscriptions"], parameters["objects"]
        low = rng.random(count)
        width = 20 * parameters["k"] / self._objects  # so that some 10 k objects are in a range
        table = {"id": np.arange(count), "x_lo": low, "x_hi": low + rng.random(count) * width}
        self._places: Floats = rng.random((2, self._objects))
        self._x, self._y = self._places
        queues = {name: Queue(broker, name, 1) for name in (OURS, PASSED, STATEFUL)}
        engine = f'name = "RangeTopK"\nk = {parameters["k"]}'
        self._streams: dict[str, Any] = {
            OURS: Ours(spark, folder, queues[OURS], engine, "id long, x double, y double", table),
            PASSED: Passing(spark, folder, queues[PASSED]),
            STATEFUL: Passing(spark, folder, queues[STATEFUL], stateful=True),
        }
        self._running: tuple[str, Any] | None = None

    def ready(self, name: str) -> dict[str, float]:
        """Let a stream run; objects first, then some seconds of load."""
        queue = self._streams[name].queue
        if self._running is None or self._running[0] != name:
            if self._running is not None:
                self._running[1].stop()
            if not queue.sent:
                queue.send(self._values(np.arange(self._objects)))
            self._running = name, self._streams[name].start(once=False)
        self._caught_up()
        queue.send(self._load(self._parameters["warm"]), rate=self._parameters["rate"])
        self._caught_up()
        return {}

    def take(self, name: str) -> dict[str, float]:
        """Send the load, and see when its answers were there."""
        queue = self._streams[name].queue
        first, answers = queue.sent, queue.size()
        values = self._load(self._parameters["seconds"])
        queue.send(values, rate=self._parameters["rate"])
        self._caught_up()
        sent = np.array([each.timestamp()[1] for each in queue.broker.messages(queue.events)[first:]])
        come = sorted(queue.broker.messages(queue.answers), key=lambda each: int(each.timestamp()[1]))[
            answers:
        ]
        times = np.array([each.timestamp()[1] for each in come])
        offsets = np.array([_offset(each) if name == OURS else int(each.key()) for each in come]) - first
        late = times - sent[offsets] if name == PASSED else _by_batch(sent, times, offsets)
        p50, p95 = np.percentile(late, [50, 95])
        return {"p50_ms": float(p50), "p95_ms": float(p95), "answers": len(come) / len(values)}

    def _load(self, seconds: float) -> list[bytes]:
        """Prices of single objects that move a little."""
        ids = self._rng.integers(0, self._objects, round(seconds * self._parameters["rate"]))
        for place in ids:
            self._y[place] += self._rng.normal() * 0.01
        return self._values(ids)

    def _values(self, ids: NDArray[np.int64]) -> list[bytes]:
        rows = zip(ids.tolist(), self._x[ids].tolist(), self._y[ids].tolist(), strict=True)
        return [f'{{"id":{number},"x":{x!r},"y":{y!r}}}'.encode() for number, x, y in rows]

    def _caught_up(self) -> None:
        if self._running is not None:
            self._running[1].query.processAllAvailable()


def _offset(message: Any) -> int:
    """The highest offset of the micro-batch that a message is of; there is one partition of events."""
    told = dict(message.headers() or [])
    return int(told["seq"]) // BY_PLACE


def _by_batch(sent: Any, times: Any, offsets: Any) -> NDArray[np.int64]:
    """How late each event was answered, by the last message of its micro-batch.

    Args:
        sent: the time of each event.
        times: the time of each message ...
        offsets: ... and the last event of its micro-batch.
    """
    ends, batch = np.unique(offsets, return_inverse=True)
    last = np.zeros(ends.size, np.int64)
    np.maximum.at(last, batch, times)
    events = np.arange(min(sent.size, ends[-1] + 1))  # what came after changed no list
    late: NDArray[np.int64] = last[np.searchsorted(ends, events)] - sent[: events.size]
    return late


def world(parameters: Parameters, seed: int) -> tuple[Columns, Columns]:
    """Subscriptions and events of matching."""
    rng = np.random.default_rng(seed)
    return matching.heavy_boxes("sparse", len(OVER), parameters["subscriptions"], parameters["events"], rng)


class Heaped:
    """Streams that find all messages there; `take` lets them through."""

    def __init__(
        self, spark: Any, parameters: Parameters, seed: int, folder: Path, broker: kafka_broker.Broker
    ) -> None:
        boxes, points = world(parameters, seed)
        columns = [points[name].tolist() for name in ("id", *OVER)]
        form = "{" + ",".join(f'"{name}":%r' for name in ("id", *OVER)) + "}"
        self._values = [(form % row).encode() for row in zip(*columns, strict=True)]
        queues = {name: Queue(broker, name, PARTITIONS) for name in (OURS, PASSED)}
        engine = f'name = "RankedMatcher"\nover = {json.dumps(OVER)}\nk = 1\ntuning = {{ threads = 1 }}'
        ddl = ", ".join(["id long", *(f"{name} double" for name in OVER)])
        self._streams: dict[str, Any] = {
            OURS: Ours(spark, folder, queues[OURS], engine, ddl, boxes),
            PASSED: Passing(spark, folder, queues[PASSED]),
        }

    def ready(self, name: str) -> dict[str, float]:
        """Put the messages there; before the first time, let them through once."""
        queue = self._streams[name].queue
        if not queue.sent:
            queue.send(self._values)
            self.take(name)
        queue.send(self._values)
        return {}

    def take(self, name: str) -> dict[str, float]:
        """Start the query, and let it end when nothing is left; starting it is counted."""
        stream = self._streams[name]
        before = stream.queue.size()
        running = stream.start(once=True)
        try:
            running.wait()
        finally:
            running.stop()
        return {"answers": float(stream.queue.size() - before)}


KINDS: dict[str, Any] = {"paced": Paced, "heaped": Heaped}


def main(given: str) -> None:
    """What `Apart` runs."""
    from rankcast.pipeline.running import silence  # noqa: PLC0415
    from rankcast.spark import connectors, session  # noqa: PLC0415

    kind, parameters, seed, folder = json.loads(given)
    settings = {"spark.sql.shuffle.partitions": 2, "spark.driver.memory": "2g"}
    with silence():
        spark = session(master="local[2]", settings={**settings, **connectors.settings(["kafka"], {})})
    broker = kafka_broker.Broker(Path(folder) / "broker")
    try:
        streams = KINDS[kind](spark, parameters, seed, Path(folder), broker)
        for line in sys.stdin:
            word, name = line.strip().split(" ", 1)
            figures = getattr(streams, word)(name)
            sys.stdout.write(json.dumps(figures) + "\n")
            sys.stdout.flush()
        spark.stop()
    finally:
        broker.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
