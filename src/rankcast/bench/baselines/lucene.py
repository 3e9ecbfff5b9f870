"""Ranked matching by Lucene: a Java process with an index sorted by score, see `benchmarks/peers/lucene`.

`make peers-lucene` sets it up in `out/peers/lucene`, or where RANKCAST_PEERS says. Rows and events go through
pipes; a batch is one message, so that what they cost is small beside a search.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path
from typing import IO, Any, cast

import numpy as np
from numpy.typing import NDArray

from rankcast.bench.baselines.matching import Best
from rankcast.bench.workloads import Columns

Lists = Sequence[Sequence[int] | None]


def _home() -> Path:
    return Path(os.environ.get("RANKCAST_PEERS", "out/peers")) / "lucene"


def lucene_installed() -> bool:
    """Say whether Lucene and Java are there; if not, tell how to get it."""
    there = (_home() / "Matching.class").exists() and shutil.which("java") is not None
    if not there:
        sys.stderr.write("Lucene is left out: not set up (make peers-lucene; needs Java 17 and Maven)\n")
    return there


class LuceneMatching:
    """Subscriptions as documents of Lucene, events as queries.

    `lists` has for each category what every row accepts and refuses, as codes or None; events have the code
    of a category under its name, -1 if it is unknown.
    """

    def __init__(
        self,
        rows: Columns,
        over: Sequence[str],
        k: int,
        lists: Mapping[str, tuple[Lists, Lists]] | None = None,
    ) -> None:
        self._over, self._lists = list(over), lists or {}
        self._directory = tempfile.TemporaryDirectory()
        path = os.pathsep.join([str(_home()), *map(str, sorted(_home().glob("*.jar")))])
        java = shutil.which("java") or "java"
        self._process = subprocess.Popen(  # noqa: S603  # our own program over our own files
            [java, "-Xmx3g", "-XX:+UseSerialGC", "-cp", path, "Matching", self._directory.name],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._input, self._output = (
            cast(IO[bytes], self._process.stdin),
            cast(IO[bytes], self._process.stdout),
        )
        size = len(rows["id"])
        self._send(struct.pack(">4i", k, len(self._over), len(self._lists), size))
        self._send(_numbers(rows["id"], ">i8"), _numbers(rows["score"], ">f8"))
        for name in self._over:
            self._send(_numbers(rows[f"{name}_lo"], ">f8"), _numbers(rows[f"{name}_hi"], ">f8"))
        for accepted, refused in self._lists.values():
            self._send(_interleaved(accepted, refused))
        self._input.flush()
        self._receive(4)

    def publish(self, events: Columns) -> Best:
        """Give ids and scores of the best subscriptions for each event."""
        size = len(events["id"])
        self._send(struct.pack(">i", size))
        for name in self._over:
            self._send(_numbers(events[name], ">f8"))
        for name in self._lists:
            self._send(_numbers(events[name], ">i4"))
        self._input.flush()
        counts = np.frombuffer(self._receive(4 * size), ">i4")
        ends = np.cumsum(counts)
        total = int(ends[-1]) if size else 0
        ids = np.frombuffer(self._receive(8 * total), ">i8").astype(np.int64)
        scores = np.frombuffer(self._receive(8 * total), ">f8").astype(np.float64)
        return [(ids[a:b], scores[a:b]) for a, b in pairwise([0, *ends.tolist()])]

    def close(self) -> None:
        """End the process."""
        self._input.close()
        self._process.wait(10)
        self._output.close()
        self._directory.cleanup()

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None and self._process.poll() is None:
            self.close()

    def _send(self, *parts: bytes) -> None:
        for part in parts:
            self._input.write(part)

    def _receive(self, size: int) -> bytes:
        found = self._output.read(size)
        if len(found) < size:
            raise RuntimeError("Lucene has ended")
        return found


def _numbers(values: Any, kind: str) -> bytes:
    return np.asarray(values).astype(kind).tobytes()


def _interleaved(accepted: Lists, refused: Lists) -> bytes:
    """Both lists of each row in turn: the length, -1 for none, and the codes."""
    parts: list[NDArray[np.int64]] = []
    for pair in zip(accepted, refused, strict=True):
        for codes in pair:
            parts.append(np.array([-1] if codes is None else [len(codes), *codes], np.int64))
    return _numbers(np.concatenate(parts), ">i4") if parts else b""
