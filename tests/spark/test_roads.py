"""Road graphs on Spark: one copy on a host, whatever the number of shards and workers."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankcast import MovingTopK, RoadGraph
from rankcast.spark import scratch
from tests.spark import stories
from tests.spark.runs import Stream

SIDE = 40


def grid() -> RoadGraph:
    """Streets of a town around the places of stories."""
    at = np.arange(SIDE * SIDE).reshape(SIDE, SIDE)
    start = np.concatenate([at[:, :-1].ravel(), at[:-1].ravel()])
    end = np.concatenate([at[:, 1:].ravel(), at[1:].ravel()])
    length = 1.0 + np.random.default_rng(5).random(start.size)
    nodes = {"id": at.ravel(), "x": at.ravel() % SIDE / 4.0, "y": at.ravel() // SIDE / 4.0}
    return RoadGraph.from_edges({"start": start, "end": end, "length": length}, nodes=nodes)


@pytest.mark.spark
def test_shards_map_one_graph_and_its_index(spark: Any, tmp_path: Path) -> None:
    graph = grid()

    def engine() -> MovingTopK:
        return MovingTopK(over=["price"], k=2, metric="network", graph=graph)

    story = stories.moving(31, engine, count=3)
    stream = Stream(spark, story, tmp_path, shards=4)
    stream.offer(story.batches[:2])
    stream.run_on(5)
    stream.offer(story.batches[2:])
    second = stream.run_on(5)
    stream.check()
    folder = scratch.root() / str(second.id)
    shards = [path for path in folder.iterdir() if path.name.isdigit()]
    assert len(shards) == 4
    for name in ("x", "start", "id_code", "arc_out_to", "tree_line", "tree_box"):
        found = [next(shard.glob(f"road.{name}.*.array")).stat() for shard in shards]
        assert len({each.st_ino for each in found}) == 1, name
        assert found[0].st_nlink > len(shards)
    lengths = [next(shard.glob("road.length.*.array")).stat() for shard in shards]
    assert len({each.st_ino for each in lengths}) == len(shards)
