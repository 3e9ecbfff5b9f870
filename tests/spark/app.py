"""A streaming application of its own, to be killed: `python -m tests.spark.app FOLDER COUNT MASTER`."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from rankcast import MovingTopK
from rankcast.spark import session, sessions
from tests.spark import hosts, slowly, stories
from tests.spark.runs import Stream
from tests.spark.stories import Story

SEED, SIZE = 31, 16
SETTINGS = {"shards": 2, "snapshot_batches": 3}
PATIENCE = 600.0


def story(count: int, method: str = "zone") -> Story:
    """Queries that move slowly: a shard works for a good part of each micro-batch."""

    def make() -> MovingTopK:
        return MovingTopK(over=["price"], k=2, score=slowly.nearest, method=method)

    return stories.moving(SEED, make, count=count, size=SIZE)


class App:
    """The application in processes of its own; it can be killed with all of them."""

    def __init__(self, folder: Path, count: int, master: str, *more: str, **variables: str) -> None:
        self.folder = folder
        self._log = (folder / "log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", __name__, str(folder), str(count), master, *more],
            cwd=hosts.ROOT,
            env={**os.environ, "SPARK_WORKER_DIR": str(folder / "work"), **variables},
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def wait_for(self, commits: int) -> None:
        """Wait until so many micro-batches are committed, or it has ended."""
        limit = time.monotonic() + PATIENCE
        while self._process.poll() is None and hosts.committed(self.folder) < commits:
            assert time.monotonic() < limit, f"the application does not get on: {self.log()}"
            time.sleep(0.02)

    def executors(self) -> list[int]:
        """The executors of a master inside the application: what its JVM has started, but for Python."""
        started = [process for java in hosts.children(self._process.pid) for process in hosts.children(java)]
        return [pid for pid in started if "CoarseGrainedExecutorBackend" in hosts.command(pid)]

    def log(self) -> str:
        """The end of what it has said."""
        return (self.folder / "log").read_text()[-3000:]

    def kill(self) -> None:
        """Kill all of it."""
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def finish(self) -> None:
        """Wait for its end, which must be a good one."""
        assert self._process.wait(PATIENCE) == 0, self.log()
        self._log.close()


def begin(master: str, *, connect: bool) -> Any:
    """A session, or one behind Spark Connect."""
    if not connect:
        return session(master=master, settings=hosts.settings())
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.remote(master)
    for key, value in {**sessions.defaults(), **hosts.settings()}.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    assert "connect" in type(made).__module__
    return made


def main(folder: str, count: str, master: str, method: str = "zone", connect: str = "") -> None:
    """Run the stream under a folder until all that was offered is done."""
    spark = begin(master, connect=bool(connect))
    Stream(spark, story(int(count), method), Path(folder), **SETTINGS).run()
    spark.stop()


if __name__ == "__main__":
    main(*sys.argv[1:])
