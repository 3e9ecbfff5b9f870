"""Read deltas from a Kafka topic, each once: `read_deltas`.

Spark writes to Kafka at least once: after a crash it may repeat what a micro-batch has written. Every message
names its origin (`rankcast.spark.kafka`): query, micro-batch, shard and the row's number there, which are the
same in a repetition. A micro-batch starts only when the previous one is written, and a key stays in its
partition. So in each partition a row is a duplicate if its micro-batch is older than the newest one of its
query, or if the newest one has already contained it. A reader remembers only the rows of one micro-batch.

A reader that restarts, or takes over a partition, goes back to the start of the newest micro-batch
in that partition, and skips the rows that were already returned. That start is part of its
position, which Kafka stores for a group, or which the application stores beside its results.

Spark is not needed; `pip install "rankcast[kafka]"` installs what is.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from rankcast.errors import InputError, MissingExtraError, shown

QUERIES = 16  # of one topic, that a position remembers
_ARROW = b"\xff\xff\xff\xff"  # how an Arrow stream begins; no JSON does


class Deltas(NamedTuple):
    """Rows returned together.

    Attributes:
        rows: deltas (or matches), each a dict with the columns of the engine's answer and `seq`.
        positions: by partition, where to continue after them.

    >>> Deltas([{"subscription": "ada", "op": "enter", "item": "ACME"}], {0: "1"}).rows[0]["op"]
    'enter'
    """

    rows: list[dict[str, Any]]
    positions: dict[int, str]


@dataclass
class _Newest:
    """The newest micro-batch of a query in one partition: where it started, and which rows arrived."""

    batch: int
    begin: int
    rows: set[tuple[int, int]] = field(default_factory=set)


class Place:
    """A reader's position in one partition, and what it has returned of the newest micro-batches.

    >>> place = Place(None)
    >>> place.fresh(0, {"query": "q", "batch": "3", "shard": "1", "n": "7"}, 2), place.next
    ([True, True], 1)
    >>> place.fresh(1, {"query": "q", "batch": "3", "shard": "1", "n": "8"}, 2)
    [False, True]
    >>> Place(place.text()).start, Place(place.text()).next
    (0, 2)
    """

    def __init__(self, text: str | None) -> None:
        self._newest: dict[str, _Newest] = {}
        self.next: int | None = None
        if not text:
            return
        try:
            told = json.loads(text)
            self.next = int(told["next"])
            for query, (batch, begin) in told["queries"].items():
                self._newest[str(query)] = _Newest(int(batch), int(begin))
        except (ValueError, KeyError, TypeError, AttributeError) as error:
            raise InputError(f"a position is {shown(text)}", expected="one of read_deltas") from error

    @property
    def start(self) -> int | None:
        """Where to start reading; None if there is no position yet."""
        begins = [each.begin for each in self._newest.values()]
        return self.next if self.next is None else min([self.next, *begins])

    def text(self) -> str:
        """The position as text, to continue from."""
        kept = list(self._newest.items())[-QUERIES:]
        queries = {query: [each.batch, each.begin] for query, each in kept}
        return json.dumps({"next": self.next, "queries": queries}, separators=(",", ":"))

    def fresh(self, offset: int, headers: Mapping[str, str], count: int) -> list[bool]:
        """Which rows of a message are new; they then count as returned."""
        before = self.next is not None and offset < self.next
        self.next = offset + 1 if self.next is None else max(self.next, offset + 1)
        try:
            query, batch = headers["query"], int(headers["batch"])
            shard, first = int(headers["shard"]), int(headers["n"])
        except (KeyError, ValueError):
            return [not before] * count  # a message of somebody else's
        newest = self._newest.get(query)
        if newest is None or batch > newest.batch:
            self._newest.pop(query, None)  # those that write come last
            newest = self._newest[query] = _Newest(batch, offset)
        rows = [(shard, first + place) for place in range(count)]
        told = [batch == newest.batch and row not in newest.rows for row in rows]
        if batch == newest.batch:
            newest.rows.update(rows)
        return [each and not before for each in told]


def read_deltas(
    servers: str,
    topic: str,
    *,
    group: str | None = None,
    positions: Mapping[int, str] | None = None,
    start: str = "earliest",
    settings: Mapping[str, Any] | None = None,
    at_most: int = 1000,
    wait: float = 1.0,
    until_end: bool = False,
) -> Iterator[Deltas]:
    """Yield the deltas of a topic, each once, in the order of their partitions.

    With `group`, Kafka divides the partitions among all readers of that name and stores their positions:
    asking for the next rows marks the previous ones as processed. If a reader dies, rows that it received and
    did not process are returned again. To rule out even that, give no group, store `positions` together with
    your results, in one transaction, and pass them the next time.

        for deltas in read_deltas("127.0.0.1:9092", "deltas", group="pages"):
            for row in deltas.rows:
                print(row["subscription"], row["op"], row["item"], row["rank"])

    Args:
        servers: the addresses of Kafka, "host:9092,host:9092".
        topic: the topic that a pipeline writes to.
        group: the group of readers.
        positions: without a group, by partition, where to continue.
        start: "earliest" or "latest": where to start in partitions without a position.
        settings: further settings of the client, with librdkafka's names.
        at_most: how many rows to return together, unless one message has more.
        wait: how many seconds to wait for more rows before returning those that arrived.
        until_end: stop at the end that the topic had at the time of the call; otherwise wait for more, for
            ever.

    Raises:
        InputError: settings that cannot be accepted.
        MissingExtraError: the package confluent-kafka is not installed.
        confluent_kafka.KafkaException: a permanent error of Kafka. While Kafka is away, the reader waits.
    """
    if start not in ("earliest", "latest"):
        raise InputError(f"start is {shown(start)}", expected="earliest or latest")
    if group is not None and positions is not None:
        raise InputError("group and positions are both there", expected="one of them")
    try:
        import confluent_kafka as client  # noqa: PLC0415
    except ImportError as error:
        raise MissingExtraError("kafka", needs="the package confluent-kafka") from error
    reader = _Reader(client, servers, topic, group, start, dict(settings or {}))
    return reader.batches(positions or {}, at_most, wait, until_end=until_end)


class _Reader:
    """One consumer of a topic."""

    def __init__(
        self, client: Any, servers: str, topic: str, group: str | None, start: str, settings: dict[str, Any]
    ) -> None:
        self._client = client
        self._topic = topic
        self._group = group
        self._from_end = start == "latest"
        self._places: dict[int, Place] = {}
        self._waiting: dict[int, list[dict[str, Any]]] = {}
        self._ends: dict[int, int] | None = None
        self._consumer = client.Consumer(
            {
                **settings,
                "bootstrap.servers": servers,
                "group.id": group or "rankcast",
                "enable.auto.commit": False,
                "enable.auto.offset.store": False,
                "enable.partition.eof": False,
                "auto.offset.reset": start,
            }
        )

    def batches(
        self, positions: Mapping[int, str], at_most: int, wait: float, *, until_end: bool
    ) -> Iterator[Deltas]:
        """All rows, in batches."""
        try:
            if until_end:
                self._ends = self._last()
            if self._group is not None:
                self._consumer.subscribe([self._topic], on_assign=self._assign, on_revoke=self._revoke)
            else:
                self._places = {part: self._begun(part, positions.get(part)) for part in self._partitions()}
                self._consumer.assign([self._at(part) for part in self._places])
            while True:
                self._collect(at_most, wait)
                rows = [row for part in sorted(self._waiting) for row in self._waiting[part]]
                if rows:
                    told = {
                        part: place.text() for part, place in self._places.items() if place.next is not None
                    }
                    self._waiting = {}
                    yield Deltas(rows, told)
                self._commit()
                if not rows and self._is_done():
                    return
        finally:
            self._consumer.close()

    def _collect(self, at_most: int, wait: float) -> None:
        """Take messages until there are enough rows, or none arrives."""
        while sum(map(len, self._waiting.values())) < at_most:
            message = self._consumer.poll(wait)
            if message is None:
                return
            error = message.error()
            if error is not None:
                if error.retriable() or not error.fatal():
                    continue
                raise self._client.KafkaException(error)
            self._take(message)

    def _take(self, message: Any) -> None:
        part = message.partition()
        rows = _rows(message.value())
        headers = {
            name: value.decode(errors="replace")
            for name, value in message.headers() or []
            if isinstance(value, bytes)
        }
        place = self._places.setdefault(part, Place(None))
        fresh = place.fresh(message.offset(), headers, len(rows))
        taken = [row for row, new in zip(rows, fresh, strict=True) if new]
        self._waiting.setdefault(part, []).extend(taken)

    def _assign(self, consumer: Any, partitions: list[Any]) -> None:
        """This reader is assigned partitions: continue from the group's position."""
        for known in consumer.committed(partitions, timeout=30):
            text = known.metadata if known.offset >= 0 else None
            try:
                place = self._begun(known.partition, text, known.offset)
            except InputError:  # committed by something else
                place = self._begun(known.partition, None, known.offset)
            self._places[known.partition] = place
        consumer.incremental_assign([self._at(each.partition) for each in partitions]) if self._is_gradual(
            consumer
        ) else consumer.assign([self._at(each.partition) for each in partitions])

    def _is_gradual(self, consumer: Any) -> bool:
        return bool(getattr(consumer, "rebalance_protocol", str)() == "COOPERATIVE")

    def _revoke(self, consumer: Any, partitions: list[Any]) -> None:
        """Partitions go to another reader: drop rows that were not returned yet."""
        for each in partitions:
            self._waiting.pop(each.partition, None)
            self._places.pop(each.partition, None)

    def _begun(self, part: int, text: str | None, offset: int = -1) -> Place:
        """The reader's place in a partition: the given one, or where the partition starts or ends now.

        It is always a number: otherwise librdkafka would ask for a group's offset, which may never arrive if
        there is no such group.
        """
        place = Place(text)
        if place.next is None:
            place.next = offset if offset >= 0 else self._bounds(part)[self._from_end]
        return place

    def _at(self, part: int) -> Any:
        return self._client.TopicPartition(self._topic, part, self._places[part].start)

    def _bounds(self, part: int) -> tuple[int, int]:
        """Where a partition starts and ends now."""
        low, high = self._consumer.get_watermark_offsets(
            self._client.TopicPartition(self._topic, part), timeout=30
        )
        return int(low), int(high)

    def _commit(self) -> None:
        """Store the group's position."""
        if self._group is None:
            return
        come = [
            self._client.TopicPartition(self._topic, part, place.next, metadata=place.text())
            for part, place in self._places.items()
            if place.next is not None
        ]
        if come:
            try:
                self._consumer.commit(offsets=come, asynchronous=False)
            except self._client.KafkaException as error:
                if not error.args[0].retriable() and error.args[0].code() not in self._moved():
                    raise

    def _moved(self) -> tuple[int, ...]:
        """Errors of a commit by a reader whose partitions have meanwhile moved to others."""
        names = ("ILLEGAL_GENERATION", "UNKNOWN_MEMBER_ID", "REBALANCE_IN_PROGRESS", "_NO_OFFSET")
        return tuple(getattr(self._client.KafkaError, name) for name in names)

    def _partitions(self) -> list[int]:
        found = self._consumer.list_topics(self._topic, timeout=30).topics[self._topic]
        if found.error is not None:
            raise self._client.KafkaException(found.error)
        return sorted(found.partitions)

    def _last(self) -> dict[int, int]:
        """The current end of each partition that has messages."""
        bounds = {each: self._bounds(each) for each in self._partitions()}
        return {each: high for each, (low, high) in bounds.items() if low < high}

    def _is_done(self) -> bool:
        """Whether everything that was there at the start is processed."""
        if self._ends is None:
            return False
        if self._group is not None:
            at = [self._client.TopicPartition(self._topic, each) for each in self._ends]
            come = {each.partition: each.offset for each in self._consumer.committed(at, timeout=30)}
        else:
            come = {part: place.next for part, place in self._places.items()}
        return all(come.get(part, -1) >= end for part, end in self._ends.items())


def _rows(value: bytes | None) -> list[dict[str, Any]]:
    """The rows of a message: a JSON object, or an Arrow stream."""
    if value is None:
        return []
    if value.startswith(_ARROW):
        import pyarrow as pa  # noqa: PLC0415

        with pa.ipc.open_stream(value) as stream:
            found: list[dict[str, Any]] = stream.read_all().to_pylist()
        return found
    row = json.loads(value)
    return [row] if isinstance(row, dict) else []
