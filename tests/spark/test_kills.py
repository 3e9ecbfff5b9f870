"""Kills at random moments: of Python workers, of the whole application, of executors. Nothing changes.

Two of Python workers run always, and so do one of an executor and one of an application, in `test_connect`;
`make test-faults` runs twenty of each, with the scratch directory kept and lost.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankcast.spark import sessions
from rankcast.spark.scratch import VARIABLE
from tests.spark import app, hosts
from tests.spark.app import App
from tests.spark.runs import Stream

PARTS, KILLS = 2, 10  # twenty of each kind, in parts
HOSTS = ("one", "two")


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
        if found and hosts.committed(folder) >= len(killed):
            victim = int(rng.choice(found))
            if hosts.kill(victim):
                killed.append(victim)
                wipe()
    return killed


def wipe(scratch: Path) -> None:
    """Lose what all queries have in a scratch directory."""
    for query in scratch.glob("*-*-*-*-*"):
        shutil.rmtree(query, ignore_errors=True)


@pytest.mark.parametrize(
    ("kills", "lost"),
    [
        pytest.param(2, True, marks=pytest.mark.spark),
        pytest.param(2 * KILLS, False, marks=pytest.mark.faults),
        pytest.param(2 * KILLS, True, marks=pytest.mark.faults),
    ],
)
def test_killed_python_workers(kills: int, lost: bool, spark: Any, tmp_path: Path) -> None:
    story = app.story(2 + kills)
    stream = Stream(spark, story, tmp_path, shards=3, snapshot_batches=3)
    stream.offer(story.batches)
    java = spark.sparkContext._gateway.proc.pid
    scratch = Path(os.environ[VARIABLE])
    done = threading.Event()
    killed: list[int] = []

    def hunting() -> None:
        after = partial(wipe, scratch) if lost else lambda: None
        killed.extend(hunt(tmp_path, lambda: hosts.workers(java), kills, done, after))

    hunter = threading.Thread(target=hunting)
    hunter.start()
    try:
        stream.run_on(kills + 2)
    finally:
        done.set()
        hunter.join()
    stream.check()
    assert len(killed) == kills


@pytest.mark.faults
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("lost", [False, True])
def test_a_killed_application(lost: bool, part: int, spark: Any, tmp_path: Path) -> None:
    """It begins again ten times, each time in a Java of its own, and ends in another."""
    count = 2 * KILLS + 2
    story = app.story(count)
    stream = Stream(spark, story, tmp_path, **app.SETTINGS)
    stream.offer(story.batches)
    variables = hosts.environment(tmp_path / "scratch")
    rng = np.random.default_rng(part)
    for _ in range(KILLS):
        running = App(tmp_path, count, "local[2]", **variables)
        running.wait_for(min(hosts.committed(tmp_path) + int(rng.integers(1, 3)), count - 1))
        time.sleep(float(rng.uniform(0, 1.0)))
        running.kill()
        if lost:
            wipe(tmp_path / "scratch")
    stream.run_on(2)
    stream.check()


@pytest.fixture(scope="module")
def cluster(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, list[int], Path]]:
    """A standalone master and two workers, each with a scratch directory of its own, as two hosts have."""
    url, root = "spark://127.0.0.1:17077", tmp_path_factory.mktemp("cluster")
    log = (root / "log").open("ab")

    def start(name: str, *arguments: str, **more: str) -> subprocess.Popen[bytes]:
        launch = [str(sessions.home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{name}"]
        command = [*launch, "--host", "127.0.0.1", "--webui-port", "0", *arguments]
        return subprocess.Popen(command, env={**os.environ, **more}, stdout=log, stderr=log)

    processes = [start("master.Master", "--port", "17077")]
    time.sleep(5)
    for host in HOSTS:
        more = {**hosts.environment(root / host), "SPARK_WORKER_DIR": str(root / host / "work")}
        processes.append(start("worker.Worker", "--cores", "1", "--memory", "1g", url, **more))
    try:
        yield url, [process.pid for process in processes[1:]], root
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()
        log.close()


@pytest.mark.faults
@pytest.mark.parametrize("part", range(PARTS))
@pytest.mark.parametrize("lost", [False, True])
def test_killed_executors(
    lost: bool, part: int, cluster: tuple[str, list[int], Path], spark: Any, tmp_path: Path
) -> None:
    url, machines, root = cluster
    count = 2 * KILLS + 4
    story = app.story(count)
    stream = Stream(spark, story, tmp_path, **app.SETTINGS)
    stream.offer(story.batches)
    running = App(tmp_path, count, url, **hosts.environment(tmp_path / "scratch"))
    rng = np.random.default_rng(5 + part)
    killed = 0
    while killed < KILLS:
        running.wait_for(min(hosts.committed(tmp_path) + 1, count - 1))
        time.sleep(float(rng.uniform(0, 1.5)))
        place = int(rng.integers(2))
        killed += sum(hosts.kill(executor) for executor in hosts.children(machines[place]))
        if lost:
            wipe(root / HOSTS[place])
        assert hosts.committed(tmp_path) < count, "the stream has ended before all kills"
    running.finish()
    stream.check()
