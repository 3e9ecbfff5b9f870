"""The kill test: whatever moment a process is killed at, nothing is lost and nothing is doubled."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections import Counter
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from rankcast.errors import ShardError
from rankcast.state import Shard

from .histories import MAKERS, Reference

ROOT = Path(__file__).parents[2]
FOREVER = 1_000_000
TICKS = {"file": 100, "sql": 3000, "line": 4000}


class Nursery:
    """The process that children are started from; see `nursery.py`."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.state.nursery"],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def start(self, **order: Any) -> int:
        """Start a child; returns its process id."""
        assert self._process.stdin is not None
        self._process.stdin.write(json.dumps(order) + "\n")
        self._process.stdin.flush()
        word, child = self.hear()
        assert word == "child"
        return int(child)

    def hear(self) -> list[str]:
        """The next thing that is said."""
        assert self._process.stdout is not None
        return self._process.stdout.readline().split()

    def close(self) -> None:
        self._process.communicate(timeout=60)


@pytest.fixture(scope="module")
def nursery() -> Iterator[Nursery]:
    made = Nursery()
    yield made
    made.close()


def kill_once(nursery: Nursery, path: Path, engine: str, way: str, rng: random.Random) -> tuple[int, int]:
    """Let a child run and be killed; returns the last batch it finished (0: none) and its status."""
    ticks = rng.randint(1, TICKS.get(way, 1))
    order = {"way": way, "ticks": ticks, "snapshot_batches": 4, "until": FOREVER}
    child = nursery.start(path=str(path), engine=engine, **order)
    killer = None
    if way == "time":
        killer = threading.Timer(rng.uniform(0, 0.2), os.kill, (child, signal.SIGKILL))
        killer.start()
    finished = 0
    while (said := nursery.hear())[0] != "gone":
        if said[0] == "done":
            finished = int(said[1])
    if killer is not None:
        killer.join()
    return finished, int(said[1])


def look(path: Path, engine: str, reference: Reference, finished: int) -> int:
    """Open what a killed process has left and hold it to the reference; returns how many batches it has."""
    make, batch = MAKERS[engine]
    with Shard.open(path, make(), receipts=2) as shard:
        number = shard.number
        reference.reach(number)
        assert shard.token == reference.tokens[number]
        assert reference.state_of(shard.engine) == reference.state(number)
        assert number >= finished, "a batch that was answered is lost"
        if number > 0:
            token, answer = shard.apply(batch(number), after=reference.tokens[number - 1])
            assert (token, shard.number) == (shard.token, number), "a batch offered again was applied again"
            assert answer.equals(reference.answers[number])
    return number


def kill_many(nursery: Nursery, path: Path, engine: str, ways: list[str], seed: int) -> Counter[str]:
    """Kill one child after the other on one shard; returns what was seen."""
    rng, reference, seen = random.Random(seed), Reference(engine), Counter[str]()  # noqa: S311
    before = 0
    for way in ways:
        finished, status = kill_once(nursery, path, engine, way, rng)
        assert status == -signal.SIGKILL
        number = look(path, engine, reference, finished)
        assert before <= number
        assert number <= max(before, finished) + 1, "more batches than were offered"
        seen["unheard"] += number > max(before, finished)
        seen["idle"] += number == before
        seen["leftovers"] += len(list((path / "snapshot").iterdir())) > 4
        before = number
    seen["batches"] = before
    return seen


def test_fifty_kills(nursery: Nursery, tmp_path: Path) -> None:
    """At random moments, file operations, steps of SQLite and lines of code, in turn."""
    ways = ["time", "file", "sql", "line", "line"] * 10
    seen = kill_many(nursery, tmp_path / "shard", "toy", ways, seed=7)
    assert seen["batches"] > 50
    assert seen["idle"] < 40
    assert seen["leftovers"] > 0, "no kill came in the middle of a snapshot"


def test_kills_of_a_real_engine(nursery: Nursery, tmp_path: Path) -> None:
    kill_many(nursery, tmp_path / "shard", "ranges", ["time", "file", "sql", "line"] * 2, seed=8)


def test_kills_while_a_shard_is_made(nursery: Nursery, tmp_path: Path) -> None:
    """At each of the first file operations and at many of the first lines and steps."""
    reference = Reference("toy")
    places = [("file", ticks) for ticks in range(1, 40, 2)] + [("sql", ticks) for ticks in range(1, 60, 4)]
    for way, ticks in places:
        path = tmp_path / f"{way}-{ticks}"
        nursery.start(path=str(path), engine="toy", way=way, ticks=ticks, snapshot_batches=4, until=1)
        finished = 0
        while (said := nursery.hear())[0] != "gone":
            finished = int(said[1]) if said[0] == "done" else finished
        assert look(path, "toy", reference, finished) in (finished, finished + 1)


def test_a_shard_is_held_by_one_process(nursery: Nursery, tmp_path: Path) -> None:
    child = nursery.start(
        path=str(tmp_path / "shard"), engine="toy", way="never", ticks=0, snapshot_batches=4, until=FOREVER
    )
    while nursery.hear()[0] != "done":
        pass
    with pytest.raises(ShardError, match="in use"):
        Shard.open(tmp_path / "shard", MAKERS["toy"][0]())
    with suppress(ProcessLookupError):
        os.kill(child, signal.SIGKILL)
    while nursery.hear()[0] != "gone":
        pass
    with Shard.open(tmp_path / "shard", MAKERS["toy"][0]()) as shard:
        assert shard.number > 0
