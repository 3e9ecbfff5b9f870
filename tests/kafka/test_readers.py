"""Readers of a topic with doubles: they die, come back, share partitions; each row is handed out once."""

from __future__ import annotations

import json
import threading
import time
from collections import Counter
from collections.abc import Iterator
from typing import Any
from zlib import crc32

import numpy as np
import pytest

from rankcast.bench.cases.kafka_broker import Broker
from rankcast.kafka import Deltas, read_deltas

pytestmark = pytest.mark.kafka

PARTS = 4


def told(broker: Broker, topic: str, *, batches: int = 12, seed: int = 5, create: bool = True) -> list[str]:
    """Write micro-batches of two shards into a topic, some of them in part first; the rows, each once."""
    from confluent_kafka import Producer

    rng = np.random.default_rng(seed)
    if create:
        broker.create(**{topic: PARTS})
    producer = Producer({"bootstrap.servers": broker.servers, "enable.idempotence": True, "log_level": 0})
    rows = []
    for batch in range(batches):
        sizes = {shard: int(rng.integers(0, 30)) for shard in (4, 9)}
        tries = int(rng.integers(1, 4))
        for attempt in range(tries):
            for shard, size in sizes.items():
                last = attempt == tries - 1
                written = size if last else int(rng.integers(0, size + 1))
                for n in range(written):
                    name = f"{batch}-{shard}-{n}"
                    key = f"s{crc32(name.encode()) % 11}"
                    heads = {"query": "q", "batch": batch, "shard": shard, "n": n, "seq": batch}
                    producer.produce(
                        topic,
                        json.dumps({"subscription": key, "name": name}),
                        key,
                        crc32(key.encode()) % PARTS,
                        headers=[(head, str(value).encode()) for head, value in heads.items()],
                    )
                    rows += [name] if last else []
                assert producer.flush(60) == 0
    return rows


def names(deltas: Deltas) -> list[str]:
    return [row["name"] for row in deltas.rows]


def reading(broker: Broker, topic: str, **given: Any) -> Iterator[Deltas]:
    return read_deltas(broker.servers, topic, **{"until_end": True, "wait": 0.2, "at_most": 17, **given})


def test_a_reader_rejoins(broker: Broker) -> None:
    """It dies after every few rows and comes back: what it had not done comes again, and nothing else."""
    rows = told(broker, "rejoined")
    done: list[str] = []
    for lives in range(40):
        reader = reading(broker, "rejoined", group="one")
        last: list[str] = []
        for count, deltas in enumerate(reader):
            done += last
            last = names(deltas)
            if count == lives % 3:
                reader.close()  # type: ignore[attr-defined]
                break
        else:
            done += last
            break
    assert sorted(done) == sorted(rows)


def test_positions_kept_with_the_work(broker: Broker) -> None:
    """Without a group: rows and positions are stored together, whenever the reader dies."""
    rows = told(broker, "kept", seed=6)
    stored: list[str] = []
    positions: dict[int, str] = {}
    for _ in range(100):
        reader = reading(broker, "kept", positions=positions)
        deltas = next(reader, None)
        if deltas is None:
            break
        stored += names(deltas)
        positions = deltas.positions
        reader.close()  # type: ignore[attr-defined]
    assert Counter(stored) == Counter(rows)


class Sharing:
    """Readers of one group: what they were handed, and what one that left had not done."""

    def __init__(self, broker: Broker, topic: str) -> None:
        self._broker, self._topic = broker, topic
        self._turn = threading.Lock()
        self.handed: Counter[str] = Counter()
        self.undone: Counter[str] = Counter()
        self.wrong: list[BaseException] = []

    def read(self, lives: int) -> None:
        """Leave after some rows and come back, so many times; then stay."""
        try:
            for life in range(lives):
                reader = read_deltas(self._broker.servers, self._topic, group="two", wait=0.2, at_most=9)
                for count, deltas in enumerate(reader):
                    with self._turn:
                        self.handed.update(names(deltas))
                    if count == 3 and life < lives - 1:
                        with self._turn:
                            self.undone.update(names(deltas))
                        break
                reader.close()  # type: ignore[attr-defined]
        except BaseException as error:
            self.wrong.append(error)

    def count(self) -> int:
        """How many rows came."""
        with self._turn:
            return len(self.handed)


def test_readers_share_and_leave(broker: Broker) -> None:
    """Two readers of a group, one leaves in the middle and comes back, while messages are still written."""
    broker.create(shared=PARTS)
    sharing = Sharing(broker, "shared")
    for lives in (1, 3):
        threading.Thread(target=sharing.read, args=(lives,), daemon=True).start()
    rows = told(broker, "shared", batches=25, seed=7, create=False)
    limit = time.monotonic() + 120
    while sharing.count() < len(rows) and time.monotonic() < limit:
        time.sleep(0.1)
    time.sleep(1)  # for what should not come
    assert not sharing.wrong
    assert set(sharing.handed) == set(rows)
    again = Counter({name: count - 1 for name, count in sharing.handed.items() if count > 1})
    assert not again - sharing.undone
