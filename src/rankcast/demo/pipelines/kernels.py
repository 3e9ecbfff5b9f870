"""Kernels of a pipeline, compiled while Spark starts: `python -m rankcast.demo.pipelines.kernels NAME`.

A Python worker that meets a kernel which nobody has compiled yet compiles it, every worker for itself. So a
process plays what the workers will do: subscribe, save, load, publish and expire. Nothing else is compiled;
where all is there, it takes a second or two.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from rankcast import GeoTextTopK, RangeTopK
from rankcast.demo.pipelines import feeds

FILES = 6  # so many that messages expire


class Compiling:
    """A process that compiles what a pipeline needs."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process

    @property
    def done(self) -> bool:
        """Whether it has ended. If it has failed, the workers compile for themselves."""
        return self._process.poll() is not None


@contextmanager
def compiling(name: str, *, after: int = 0) -> Iterator[Compiling]:
    """Compile what a pipeline needs, in a process that ends with the block.

    Args:
        name: of the pipeline.
        after: how many others come first where processors are short.
    """
    command = [sys.executable, "-m", __name__, name, str(after)]
    quiet: dict[str, Any] = dict.fromkeys(("stdin", "stdout", "stderr"), subprocess.DEVNULL)
    process = subprocess.Popen(command, start_new_session=True, **quiet)  # noqa: S603
    try:
        yield Compiling(process)
    finally:
        process.kill()
        process.wait()


def play(name: str) -> None:
    """Play the beginning of a pipeline without Spark."""
    engine: GeoTextTopK | RangeTopK
    if name == "messages":
        feed = feeds.messages(0, FILES)
        engine = GeoTextTopK(metric="haversine", k=3, window=1500)
        words = (pa.array([each.split() for each in table["text"].to_pylist()]) for table in feed.events)
        events = [
            table.drop_columns(["seq", "text"]).append_column("terms", terms)
            for table, terms in zip(feed.events, words, strict=True)
        ]
    else:
        feed = feeds.quotes(0, FILES)
        engine = RangeTopK(over="risk", by="pe", k=3)
        events = [table.drop_columns(["seq"]).rename_columns(["id", "risk", "pe"]) for table in feed.events]
    with tempfile.TemporaryDirectory() as folder:
        first: list[tuple[str, Any]] = [("subscribe", feed.subscriptions)]
        for number, commands in enumerate([first, *([("publish", table)] for table in events)]):
            engine.apply(commands)
            if number < 2:  # shards are made in one worker and restored in another
                engine.save(Path(folder) / str(number))
                engine = type(engine).load(Path(folder) / str(number))


if __name__ == "__main__":
    os.nice(5 * int(sys.argv[2]))
    play(sys.argv[1])
