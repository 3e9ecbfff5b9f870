"""Lucene in a Java process of ours, see `benchmarks/peers/lucene`: ranked matching, and geo-text top-k.

`make peers-lucene` sets it up in `out/peers/lucene`, or where RANKCAST_PEERS says. Rows and events go through
pipes; a batch is one message, so that what they cost is small beside a search.
"""

from __future__ import annotations

import os
import shutil
import struct
import sys
import tempfile
from collections.abc import Mapping, Sequence
from itertools import pairwise
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from rankcast.bench.baselines.geotext_buffers import BufferedTermAtATime
from rankcast.bench.baselines.matching import Best
from rankcast.bench.baselines.programs import Program, numbers, peers
from rankcast.bench.workloads import Columns

Lists = Sequence[Sequence[int] | None]


def _home() -> Path:
    return peers() / "lucene"


def lucene_installed() -> bool:
    """Say whether Lucene and Java are there; if not, tell how to get it."""
    compiled = all((_home() / f"{name}.class").exists() for name in ("Matching", "GeoText"))
    there = compiled and shutil.which("java") is not None
    if not there:
        sys.stderr.write("Lucene is left out: not set up (make peers-lucene; needs Java 17 and Maven)\n")
    return there


class _Java(Program):
    """One of our Java programs, over an index in a temporary directory."""

    def __init__(self, name: str) -> None:
        self._directory = tempfile.TemporaryDirectory()
        path = os.pathsep.join([str(_home()), *map(str, sorted(_home().glob("*.jar")))])
        java = shutil.which("java") or "java"
        super().__init__(
            "Lucene", [java, "-Xmx3g", "-XX:+UseSerialGC", "-cp", path, name, self._directory.name]
        )

    def close(self) -> None:
        """End the process."""
        super().close()
        self._directory.cleanup()


class LuceneMatching(_Java):
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
        super().__init__("Matching")
        size = len(rows["id"])
        self._send(struct.pack(">4i", k, len(self._over), len(self._lists), size))
        self._send(numbers(rows["id"], ">i8"), numbers(rows["score"], ">f8"))
        for name in self._over:
            self._send(numbers(rows[f"{name}_lo"], ">f8"), numbers(rows[f"{name}_hi"], ">f8"))
        for accepted, refused in self._lists.values():
            self._send(_interleaved(accepted, refused))
        self._receive(4)

    def publish(self, events: Columns) -> Best:
        """Give ids and scores of the best subscriptions for each event."""
        size = len(events["id"])
        self._send(struct.pack(">i", size))
        for name in self._over:
            self._send(numbers(events[name], ">f8"))
        for name in self._lists:
            self._send(numbers(events[name], ">i4"))
        counts = np.frombuffer(self._receive(4 * size), ">i4")
        ends = np.cumsum(counts)
        total = int(ends[-1]) if size else 0
        ids = np.frombuffer(self._receive(8 * total), ">i8").astype(np.int64)
        scores = np.frombuffer(self._receive(8 * total), ">f8").astype(np.float64)
        return [(ids[a:b], scores[a:b]) for a, b in pairwise([0, *ends.tolist()])]


class LuceneGeotext(_Java):
    """Lists of messages that begin as those of a plain program; a message is a query over subscriptions."""

    def __init__(self, plain: BufferedTermAtATime) -> None:
        super().__init__("GeoText")
        given = plain.given()
        boards, places = given.boards, given.places
        sizes = given.k, boards.item.shape[1], places.x.size, places.message_x.size, given.idf.size
        self._send(struct.pack(">7id", *sizes, *given.span, places.diagonal), numbers(given.idf, ">f8"))
        for texts, x, y in (
            (given.interests, places.x, places.y),
            (given.messages, places.message_x, places.message_y),
        ):
            self._send(numbers(texts.start, ">i4"), numbers(texts.term, ">i4"))
            self._send(*(numbers(column, ">f8") for column in (texts.weight, x, y)))
        self._send(numbers(places.alpha, ">f8"), numbers(boards.size, ">i4"), numbers(boards.bar, ">f8"))
        self._send(numbers(boards.item, ">i4"), numbers(boards.score, ">f8"))
        self._receive(4)

    def turn(self, count: int) -> int:
        """Let the next so many messages in, as many of the oldest go; how many lists were filled up."""
        self._send(struct.pack(">i", count))
        return int.from_bytes(self._receive(4), "big")

    def best(self, row: int) -> list[float]:
        """The scores of the result of a subscription."""
        self._send(struct.pack(">i", -1 - row))
        size = int.from_bytes(self._receive(4), "big")
        return list(struct.unpack(f">{size}d", self._receive(8 * size)))


def _interleaved(accepted: Lists, refused: Lists) -> bytes:
    """Both lists of each row in turn: the length, -1 for none, and the codes."""
    parts: list[NDArray[np.int64]] = []
    for pair in zip(accepted, refused, strict=True):
        for codes in pair:
            parts.append(np.array([-1] if codes is None else [len(codes), *codes], np.int64))
    return numbers(np.concatenate(parts), ">i4") if parts else b""
