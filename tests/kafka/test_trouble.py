"""What goes wrong with brokers and applications while a pipeline runs: nothing is lost, doubles are dropped.

A broker that is away is so for `RANKCAST_BROKER_AWAY` seconds, 20 unless told.
"""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from rankcast.bench.cases.kafka_broker import Broker
from tests.kafka.queued import Queued, headers
from tests.spark import hosts, stories
from tests.spark.piped import PATIENCE, Command

pytestmark = pytest.mark.kafka

AWAY = float(os.environ.get("RANKCAST_BROKER_AWAY", "20"))


def test_a_broker_is_killed_and_is_away(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """The pipeline waits for it and goes on; rows come right behind its return."""
    story = stories.range_topk(71, count=3, size=24, worded=True)
    queued = Queued(spark, broker, "range_topk", story, tmp_path / "away", partitions=2)
    running = queued.start(once=False)
    try:
        queued.offer(story.batches[:1])
        queued.caught_up(running)
        broker.stop(kill=True)
        broker.start()
        queued.offer(story.batches[1:2])
        queued.caught_up(running)
        broker.stop()
        time.sleep(AWAY)
        broker.start()
        queued.offer(story.batches[2:])
        queued.caught_up(running)
    finally:
        running.stop()
        broker.start()
    assert queued.check()


def test_killed_between_sink_and_commit(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """The application dies when a micro-batch has been written, in part or whole, and is not committed."""
    story = stories.range_topk(72, count=3, size=30, worded=True)
    queued = Queued(spark, broker, "range_topk", story, tmp_path / "killed", partitions=2)
    for place in range(2):
        written = broker.size(queued.topic("deltas"))
        queued.offer(story.batches[place : place + 1])
        command = Command(queued.folder, **hosts.environment(tmp_path / f"scratch{place}"))
        try:
            command.wait_for(place)  # what was cut off comes first, again
            if place:
                written = broker.size(queued.topic("deltas"))
            _wait_for_messages(broker, queued.topic("deltas"), written, command)
            command.signal(signal.SIGSTOP)  # nothing is committed while we look
            assert hosts.committed(queued.folder) == place
        finally:
            command.kill()
    queued.offer(story.batches[2:])
    queued.run()
    queued.check()
    found = broker.messages(queued.topic("deltas"))
    names = [tuple(headers(each)[name] for name in ("query", "batch", "shard", "n")) for each in found]
    assert len(set(names)) < len(names), "the sink has no doubles: nothing was cut off"
    assert len(queued.read(group="late")) == len(set(names))


def _wait_for_messages(broker: Broker, topic: str, written: int, command: Command) -> None:
    limit = time.monotonic() + PATIENCE
    while broker.size(topic) == written:
        assert time.monotonic() < limit, command.errors()
