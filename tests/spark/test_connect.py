"""A stream over Spark Connect: the client has no JVM of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.spark import stories

ROOT = Path(__file__).parent.parent.parent
CLIENT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from rankcast.spark import sessions
from tests.spark import stories
from tests.spark.runs import Stream

settings = {**sessions.defaults(), "spark.sql.shuffle.partitions": "2"}
builder = SparkSession.builder.remote("local[2]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
story = stories.range_topk(41, count=3)
stream = Stream(spark, story, Path(sys.argv[1]), shards=2)
stream.run()
assert stream.told() == story.expected()[0]
spark.stop()
"""


def test_a_stream_over_connect(tmp_path: Path) -> None:
    pytest.importorskip("grpc", reason="Spark Connect needs pyspark[connect]")
    from tests.spark.runs import Stream

    story = stories.range_topk(41, count=3)
    Stream(None, story, tmp_path).offer(story.batches)
    environment = {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable}
    done = subprocess.run(
        [sys.executable, "-c", CLIENT, str(tmp_path)],
        cwd=ROOT,
        env=environment,
        capture_output=True,
        text=True,
        check=False,
        timeout=600,
    )
    assert done.returncode == 0, done.stderr[-3000:]
