"""Kills at random moments: of Python workers, of the whole application, of executors. Nothing changes.

A few run always; `make test-faults` runs twenty of each, with the scratch directory kept and lost.
"""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pyspark
import pytest
from pyspark.errors import StreamingQueryException

from rankcast.spark.scratch import VARIABLE
from tests.spark import app
from tests.spark.runs import Stream
from tests.spark.stories import Batch

ROOT = Path(__file__).parent.parent.parent
PATIENCE = 600.0
PARTS, KILLS = 4, 5  # twenty of each kind, in parts


def parent_of(pid: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return -1


def children(pid: int) -> list[int]:
    return [
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdigit() and parent_of(int(path.name)) == pid
    ]


def workers(java: int) -> list[int]:
    """The Python workers of a JVM: children of the daemons it started."""
    return [worker for daemon in children(java) for worker in children(daemon)]


def committed(folder: Path) -> int:
    """How many micro-batches a stream has committed."""
    commits = folder / "checkpoint" / "commits"
    return sum(path.name.isdigit() for path in commits.iterdir()) if commits.exists() else 0


def hunt(
    folder: Path,
    targets: Callable[[], list[int]],
    count: int,
    done: threading.Event,
    wipe: Callable[[], None],
) -> list[int]:
    """Kill some process at a random moment within each of the first micro-batches; return which."""
    rng = np.random.default_rng(1)
    killed: list[int] = []
    while len(killed) < count and not done.is_set():
        time.sleep(float(rng.uniform(0.05, 1.0)))
        found = targets()
        if found and committed(folder) >= len(killed):
            victim = int(rng.choice(found))
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
                killed.append(victim)
                wipe()
    return killed


def run_on(stream: Stream, attempts: int) -> None:
    """Run a stream to its end, again if Spark gives up a task whose worker was killed too often."""
    for attempt in range(attempts):
        try:
            stream.run()
            return
        except StreamingQueryException:
            assert attempt + 1 < attempts, "the stream does not get on"


def wipe(scratch: Path) -> None:
    """Lose what all queries have in a scratch directory."""
    for query in scratch.glob("*-*-*-*-*"):
        shutil.rmtree(query, ignore_errors=True)


@pytest.mark.parametrize(
    ("kills", "lost"),
    [
        (2, False),
        pytest.param(20, False, marks=pytest.mark.faults),
        pytest.param(20, True, marks=pytest.mark.faults),
    ],
)
def test_killed_python_workers(kills: int, lost: bool, spark: Any, tmp_path: Path) -> None:
    story = app.story(3 + kills)
    stream = Stream(spark, story, tmp_path, shards=3, snapshot_batches=3)
    stream.offer(story.batches)
    java = spark.sparkContext._gateway.proc.pid
    scratch = Path(os.environ[VARIABLE])
    done = threading.Event()
    killed: list[int] = []

    def hunting() -> None:
        after = partial(wipe, scratch) if lost else lambda: None
        killed.extend(hunt(tmp_path, lambda: workers(java), kills, done, after))

    hunter = threading.Thread(target=hunting)
    hunter.start()
    try:
        run_on(stream, kills)
    finally:
        done.set()
        hunter.join()
    assert stream.told() == story.expected()[0]
    assert len(killed) == kills


def check(stream: Stream) -> None:
    """All that was committed is what one process makes of the same micro-batches, which are all rows."""
    cut = stream.as_cut()
    assert [_seqs(batch) for batch in cut.recut([]).batches] == [
        _seqs(batch) for batch in stream.story.recut([]).batches
    ]
    assert stream.told() == cut.expected()[0]


def _seqs(batch: Batch) -> dict[str, list[int]]:
    return {name: [row["seq"] for row in rows] for name, rows in batch.items()}


class App:
    """The application in processes of its own; it can be killed with all of them."""

    def __init__(self, folder: Path, count: int, master: str) -> None:
        self.folder = folder
        environment = {
            **os.environ,
            VARIABLE: str(folder / "scratch"),
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
            "SPARK_WORKER_DIR": str(folder / "work"),
            "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]),
        }
        self._log = (folder / "log").open("ab")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.spark.app", str(folder), str(count), master],
            cwd=ROOT,
            env=environment,
            stdout=self._log,
            stderr=self._log,
            start_new_session=True,
        )

    def committed(self) -> int:
        return committed(self.folder)

    def running(self) -> bool:
        return self._process.poll() is None

    def wait_for(self, commits: int) -> None:
        limit = time.monotonic() + PATIENCE
        while self.running() and self.committed() < commits:
            assert time.monotonic() < limit, "the application does not get on"
            time.sleep(0.02)

    def kill(self) -> None:
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        self._log.close()

    def finish(self) -> None:
        assert self._process.wait(PATIENCE) == 0, (self.folder / "log").read_text()[-3000:]
        self._log.close()


def test_an_application_on_two_executors_is_killed_and_goes_on_in_another(spark: Any, tmp_path: Path) -> None:
    """The other one has one process for all, and nothing of the first but its state and checkpoint."""
    story = app.story(4)
    stream = Stream(spark, story, tmp_path, **app.SETTINGS)
    stream.offer(story.batches)
    (tmp_path / "scratch").mkdir(mode=0o700)
    first = App(tmp_path, 4, "local-cluster[2,1,512]")
    first.wait_for(2)
    first.kill()
    assert 2 <= committed(tmp_path) <= 3, (tmp_path / "log").read_text()[-3000:]
    stream.run()
    check(stream)


@pytest.mark.faults
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("lost", [False, True])
def test_a_killed_application(lost: bool, part: int, spark: Any, tmp_path: Path) -> None:
    count = 2 * KILLS + 2
    story = app.story(count)
    stream = Stream(spark, story, tmp_path)
    stream.offer(story.batches)
    (tmp_path / "scratch").mkdir(mode=0o700)
    rng = np.random.default_rng(part)
    for _ in range(KILLS):
        running = App(tmp_path, count, "local[2]")
        running.wait_for(min(running.committed() + int(rng.integers(1, 3)), count - 1))
        time.sleep(float(rng.uniform(0, 1.0)))
        running.kill()
        if lost:
            wipe(tmp_path / "scratch")
    App(tmp_path, count, "local[2]").finish()
    check(stream)


@pytest.fixture
def cluster(tmp_path: Path) -> Iterator[tuple[str, list[int]]]:
    """A standalone master and two workers, each with a scratch directory of its own, as two hosts have."""
    home = Path(pyspark.__file__).parent
    launch = [str(home / "bin" / "spark-class")]
    url = "spark://127.0.0.1:17077"
    base = {
        **os.environ,
        "SPARK_HOME": str(home),
        "SPARK_LOCAL_IP": "127.0.0.1",
        "PYSPARK_PYTHON": sys.executable,
    }
    log = (tmp_path / "cluster.log").open("ab")

    def start(name: str, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
        command = [
            *launch,
            f"org.apache.spark.deploy.{name}",
            "--host",
            "127.0.0.1",
            "--webui-port",
            "0",
            *arguments,
        ]
        return subprocess.Popen(command, env={**base, **more}, stdout=log, stderr=log)

    processes = [start("master.Master", "--port", "17077")]
    time.sleep(5)
    for host in ("one", "two"):
        place = tmp_path / host
        place.mkdir(mode=0o700)
        more = {VARIABLE: str(place), "SPARK_WORKER_DIR": str(place / "work")}
        processes.append(start("worker.Worker", "--cores", "1", "--memory", "1g", url, **more))
    try:
        yield url, [process.pid for process in processes[1:]]
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
        log.close()


@pytest.mark.faults
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("lost", [False, True])
def test_killed_executors(
    lost: bool, part: int, cluster: tuple[str, list[int]], spark: Any, tmp_path: Path
) -> None:
    url, hosts = cluster
    count = 2 * KILLS + 4
    story = app.story(count)
    stream = Stream(spark, story, tmp_path)
    stream.offer(story.batches)
    running = App(tmp_path, count, url)
    rng = np.random.default_rng(5 + part)
    for _ in range(KILLS):
        running.wait_for(min(running.committed() + 1, count - 1))
        time.sleep(float(rng.uniform(0, 1.5)))
        place = int(rng.integers(2))
        for executor in children(hosts[place]):
            with suppress(ProcessLookupError):
                os.kill(executor, signal.SIGKILL)
        if lost:
            wipe(tmp_path / ["one", "two"][place])
    running.finish()
    check(stream)
