"""Range top-k by differential dataflow: a Rust program on its crate, see `benchmarks/peers/differential`.

`make peers` builds it (needs cargo) into `out/peers/differential`, or where RANKCAST_PEERS says.
"""

from __future__ import annotations

import struct
import sys
from pathlib import Path

import numpy as np

from rankcast.bench.baselines.programs import Program, numbers, peers
from rankcast.bench.workloads import Columns

_ASKED = 2**32 - 1  # in place of a count: a list is asked for


def _program() -> Path:
    return peers() / "differential" / "release" / "ranges"


def differential_installed() -> bool:
    """Say whether the program is there; if not, tell how to get it."""
    there = _program().exists()
    if not there:
        sys.stderr.write("differential-dataflow is left out: not set up (make peers; needs cargo)\n")
    return there


class DifferentialRanges(Program):
    """Lists over a sparse table of windows of the objects by x, kept by incremental operators; one thread."""

    def __init__(self, objects: Columns, subscriptions: Columns, k: int) -> None:
        super().__init__("differential-dataflow", [_program()])
        order = np.argsort(objects["x"], kind="stable")
        x, ids = objects["x"][order], objects["id"][order]
        self._place = np.empty(int(ids.max()) + 1, np.int64)
        self._place[ids] = np.arange(len(ids))
        self._send(struct.pack("<3I", k, len(ids), len(subscriptions["id"])))
        self._send(numbers(ids, "<u4"), numbers(objects["y"][order], "<f8"))
        self._send(numbers(np.searchsorted(x, subscriptions["x_lo"], "left"), "<u4"))
        self._send(numbers(np.searchsorted(x, subscriptions["x_hi"], "right"), "<u4"))
        self._receive(8)

    def publish(self, events: Columns) -> int:
        """Take new values; how many lists changed."""
        count = len(events["id"])
        self._send(struct.pack("<I", count), numbers(self._place[events["id"]], "<u4"))
        self._send(numbers(events["y"], "<f8"))
        return int.from_bytes(self._receive(8), "little")

    def items(self, row: int) -> list[int]:
        """The ids in one list, best first."""
        self._send(struct.pack("<2I", _ASKED, row))
        size = int.from_bytes(self._receive(4), "little")
        return list(struct.unpack(f"<{size}I", self._receive(4 * size)))
