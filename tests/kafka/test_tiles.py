"""Tiles through a broker: gateways that read the topic have the lists of the engine."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from rankcast.bench.cases.kafka_broker import Broker
from rankcast.kafka import read_deltas
from tests.kafka.queued import Queued, headers
from tests.spark import stories
from tests.spark.receivers import Receivers, lists_of, subscribers
from tests.spark.stories import Row

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("values", ["json", "arrow"])
def test_gateways_that_read_the_topic_have_the_lists_of_the_engine(
    values: str, spark: Any, broker: Broker, tmp_path: Path
) -> None:
    """After every micro-batch; the first one comes a second time, since its commit is lost."""
    story = stories.range_topk(66, count=3, size=24)
    queued = Queued(
        spark,
        broker,
        "range_topk",
        story,
        tmp_path / f"tiles-{values}",
        partitions=3,
        shards=1,
        values=values,
        more='output = "tiles"',
        engine='nulls = "delete"',
    )
    receivers, told = Receivers(), list[Row]()
    positions: dict[int, str] = {}
    for place, batch in enumerate(story.batches):
        queued.offer([batch])
        queued.run()
        if place == 0:
            _lose_the_commit(queued)
        cut = queued.as_cut()
        assert len(cut.batches) == place + 1
        for row in subscribers(cut.batches[place]):
            receivers.subscribe(row)
        rows, positions = _read(queued, positions)
        receivers.receive(rows)
        told += rows
        assert receivers.lists() == lists_of(cut, place + 1)
        assert receivers.awaited() == []
    assert [row["sequence"] for row in told] == list(range(1, len(told) + 1))
    assert queued.refused() == []
    assert all(gateway.stats()["gaps"] == 0 for gateway in receivers.gateways.values())
    sent = queued.broker.messages(queued.topic("deltas"))
    assert {(each.key(), each.partition()) for each in sent} == {(b"tile", sent[0].partition())}
    names = [tuple(headers(each)[name] for name in ("query", "batch", "shard", "n")) for each in sent]
    assert len(set(names)) < len(names)


def _lose_the_commit(queued: Queued) -> None:
    """Let the only micro-batch come again."""
    for file in ("0", ".0.crc"):
        (queued.folder / "checkpoint" / "commits" / file).unlink()
    queued.run()


def _read(queued: Queued, positions: dict[int, str]) -> tuple[list[Row], dict[int, str]]:
    """What has come since, each message once, and where to go on."""
    rows: list[Row] = []
    topic = queued.topic("deltas")
    for each in read_deltas(
        queued.broker.servers, topic, positions=positions, until_end=True, wait=0.2, at_most=10
    ):
        rows += each.rows
        positions = each.positions
    return rows, positions
