"""Every engine on a master and two workers; hosts go and come, an executor is lost: nothing changes."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from rankcast.pipeline.running import STARTS
from rankcast.spark.scratch import VARIABLE
from tests.cluster.standalone import PATIENCE, Cluster
from tests.spark import app, hosts, stories
from tests.spark.piped import ENGINES, Piped
from tests.spark.runs import Stream

pytestmark = pytest.mark.cluster


@pytest.mark.parametrize("name", ENGINES)
def test_every_engine(name: str, spark: Any, tmp_path: Path) -> None:
    """A pipeline of two micro-batches; shards lie in the scratch directories of the workers."""
    given = {"worded": True} if name == "range_topk" else {}
    story = getattr(stories, name)(91, count=2, size=20, **given)
    pipeline = Piped(spark, name, story, tmp_path)
    pipeline.offer(story.batches)
    pipeline.run()
    pipeline.check()


def test_shards_lie_on_their_hosts(cluster: Cluster, spark: Any, tmp_path: Path) -> None:
    """Not on the driver's: otherwise these would be tests of one machine."""
    told = spark.sparkContext.range(8, numSlices=8).map(_scratch).distinct().collect()
    assert set(told) <= {str(worker.folder) for worker in cluster.workers}
    assert told


def _scratch(_: int) -> str | None:
    import os

    return os.environ.get(VARIABLE)


def test_hosts_go_and_come(cluster: Cluster, spark: Any, tmp_path: Path) -> None:
    """While a stream runs, an executor is lost, then a whole host, and a new one is added."""
    count = 9
    story = app.story(count)
    stream = Stream(spark, story, tmp_path, **app.SETTINGS)
    stream.offer(story.batches)
    query = _started(stream)
    try:
        first, second = cluster.workers[:2]
        assert hosts.kill(first.executors()[0])
        _wait(lambda: hosts.committed(tmp_path) >= 3, query)
        second.kill()
        _wait(lambda: hosts.committed(tmp_path) >= 4, query)
        added = cluster.add()
        _wait(lambda: bool(added.executors()), query)
        query.awaitTermination()
    finally:
        query.stop()
    stream.check()
    assert hosts.committed(tmp_path) == count


def _started(stream: Stream) -> Any:
    """The query, once it has committed something; again if a Python process was too late for Spark."""
    for _ in range(STARTS):
        query = stream.start()
        while query.isActive and not hosts.committed(stream.folder):
            time.sleep(0.05)
        if hosts.committed(stream.folder):
            break
    return query


def _wait(come: Callable[[], bool], query: Any) -> None:
    limit = time.monotonic() + PATIENCE
    while not come():
        assert query.isActive or query.exception() is None, query.exception()
        assert query.isActive, "the stream has ended before all that was to go wrong"
        assert time.monotonic() < limit, "the stream does not get on"
        time.sleep(0.05)
