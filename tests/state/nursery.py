"""A process that starts short-lived children to be killed; one start of Python serves them all.

It reads one order a line (JSON: path, engine, how to die), forks a child that opens the shard and applies the
next batches of its history until it dies, and says on standard output what happens: `child <pid>`, `opened`,
`done <number> <token>` for every batch answered, `gone <status>`.
"""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import sys
import threading
from pathlib import Path
from types import FrameType
from typing import Any

from rankcast.state import Shard, batches, journal, shard

from .histories import MAKERS

SOURCES = str(Path(shard.__file__).parents[1])


def say(*words: object) -> None:
    os.write(1, (" ".join(map(str, words)) + "\n").encode())


class Countdown:
    """Kills its own process, without any farewell, at the n-th tick."""

    def __init__(self, ticks: int) -> None:
        self._left = ticks

    def tick(self) -> None:
        self._left -= 1
        if self._left <= 0:
            os.kill(os.getpid(), signal.SIGKILL)


def die_at_file_operations(countdown: Countdown) -> None:
    for name in ("open", "write", "pwrite", "fsync", "fdatasync", "replace", "unlink", "close"):
        real = getattr(os, name)

        def call(*given: Any, real: Any = real, **named: Any) -> Any:
            countdown.tick()
            return real(*given, **named)

        if name != "write":
            setattr(os, name, call)
        else:
            setattr(os, name, _half_writes(countdown, real))


def _half_writes(countdown: Countdown, real: Any) -> Any:
    """Writes in two halves, so that a kill may come between them."""

    def call(descriptor: int, data: Any) -> Any:
        if descriptor == 1:
            return real(descriptor, data)
        countdown.tick()
        half = memoryview(data)[: max(1, len(data) // 2)]
        return real(descriptor, half)

    return call


def die_at_sql_steps(countdown: Countdown) -> None:
    class Watched(sqlite3.Connection):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self.set_progress_handler(countdown.tick, 1)

    real = sqlite3.connect
    journal.sqlite3.connect = lambda *given, **named: real(*given, factory=Watched, **named)  # type: ignore


def die_at_lines(countdown: Countdown) -> None:
    """At a line of the package's own code, in any thread."""

    def trace(frame: FrameType, event: str, _: Any) -> Any:
        if not frame.f_code.co_filename.startswith(SOURCES):
            return None
        if event == "line":
            countdown.tick()
        return trace

    threading.settrace(trace)
    sys.settrace(trace)


WAYS = {"file": die_at_file_operations, "sql": die_at_sql_steps, "line": die_at_lines}


def live(order: dict[str, Any]) -> None:
    """The life of a child."""
    if order["way"] in WAYS:
        WAYS[order["way"]](Countdown(order["ticks"]))
    make, batch = MAKERS[order["engine"]]
    with Shard.open(order["path"], make(), snapshot_batches=order["snapshot_batches"], receipts=2) as opened:
        say("opened")
        while opened.number < order["until"]:
            number = opened.number + 1
            token, _ = opened.apply(batch(number), after=opened.token)
            say("done", number, token)


def main() -> None:
    for make, batch in MAKERS.values():  # what a first batch imports and compiles is not done in every child
        engine = make()
        for number in range(1, 7):
            engine.apply(batches.decode(batches.encode(batches.commands_of(batch(number), engine.calls))))
    for line in sys.stdin:
        order = json.loads(line)
        waits, starts = os.pipe()
        child = os.fork()
        if child == 0:
            status = 1
            try:
                os.read(waits, 1)  # it is announced first
                live(order)
                status = 0
            finally:
                sys.stderr.flush()
                os._exit(status)
        say("child", child)
        os.write(starts, b"!")
        os.close(waits)
        os.close(starts)
        say("gone", os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))


if __name__ == "__main__":
    main()
