"""A streaming application of its own, to be killed: `python -m tests.spark.app FOLDER COUNT MASTER`."""

from __future__ import annotations

import sys
from pathlib import Path

from rankcast import MovingTopK
from rankcast.spark import session
from tests.spark import slowly, stories
from tests.spark.runs import Stream
from tests.spark.stories import Story

SEED, SIZE = 31, 16
SETTINGS = {"shards": 2, "snapshot_batches": 3}


def story(count: int) -> Story:
    """Queries that move slowly: a shard works for a good part of each micro-batch."""
    return stories.moving(
        SEED, lambda: MovingTopK(over=["price"], k=2, score=slowly.nearest), count=count, size=SIZE
    )


def main(folder: str, count: str, master: str) -> None:
    """Run the stream under a folder until all that was offered is done."""
    spark = session(
        master=master,
        settings={
            "spark.sql.shuffle.partitions": 2,
            "spark.driver.memory": "512m",
            "spark.executor.memory": "512m",
        },
    )
    Stream(spark, story(int(count)), Path(folder), **SETTINGS).run()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
