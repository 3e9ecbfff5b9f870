"""Spark's classes, verified once: `python -m rankcast.spark.class_archive` makes a later start faster.

Most of what starting Spark takes goes into loading some twenty thousand classes. Java can keep them as they
are in memory (class data sharing): a small stream is run once, and what it has loaded is written when its
Java ends. `rankcast.spark.session` takes the archive if it is there. It is a cache of some 200 MB in the
scratch directory; Java itself checks that it fits the Java and the Spark that start, and does without it if
it does not.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from rankcast import RangeTopK
from rankcast.errors import RankcastError
from rankcast.spark import continuous, session, sessions

PATIENCE = 300.0


def make() -> Path:
    """Run a small stream in a session of this process, which must have none, and keep what Java has loaded.

    An archive that is there stays.

    Raises:
        RankcastError: this Java cannot write an archive.
    """
    target = sessions.class_archive(sessions.find())
    if target.exists():
        return target
    new = target.with_name(f"{target.name}.{os.getpid()}")
    option = f'-XX:ArchiveClassesAtExit="{new}" {sessions.NO_WORD}'
    spark = session(
        master="local[2]", settings={sessions.PARTITIONS: 2, "spark.driver.defaultJavaOptions": option}
    )
    process = spark.sparkContext._gateway.proc
    with tempfile.TemporaryDirectory() as folder:
        _stream(spark, Path(folder))
        spark.stop()
    process.stdin.close()  # Java ends when this does, and writes the archive then
    process.wait(PATIENCE)
    if not new.exists():
        raise RankcastError(
            f"the Java in {sessions.find()} has written no archive of Spark's classes",
            hint="Streams run without it; they only start later.",
        )
    new.replace(target)
    return target


def _stream(spark: Any, folder: Path) -> None:
    """A table, a stream that is begun and goes on, and its deltas read: what most applications load."""
    form = "seq long, id long, x double, y double"
    table = spark.createDataFrame([(1, 0.0, 1.0), (2, 0.5, 2.0)], "id long, x_lo double, x_hi double")
    for number in range(2):
        rows = [(number * 2 + row, row, 0.5, 1.0 + number) for row in range(2)]
        spark.createDataFrame(rows, form).write.mode("append").parquet(f"{folder}/events")
        events = spark.readStream.schema(form).parquet(f"{folder}/events")
        deltas = continuous(RangeTopK(k=1), events, table, state=folder / "state", shards=2)
        writer = deltas.writeStream.format("parquet").option("path", f"{folder}/deltas")
        writer = writer.option("checkpointLocation", f"{folder}/checkpoint").trigger(availableNow=True)
        writer.start().awaitTermination()
    spark.read.parquet(f"{folder}/deltas").toArrow()


if __name__ == "__main__":
    began = time.perf_counter()
    make()
    sys.stderr.write(f"Spark's classes ready in {time.perf_counter() - began:.1f} s\n")
