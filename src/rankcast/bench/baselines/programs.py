"""Programs beside ours that run as a process of their own and are spoken to over pipes.

`make peers` sets them up in `out/peers`, or where RANKCAST_PEERS says. A batch is one message each way, so
that what the pipes cost is small beside the work.
"""

from __future__ import annotations

import os
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import IO, Any, cast

import numpy as np


def peers() -> Path:
    """Where programs of others are."""
    return Path(os.environ.get("RANKCAST_PEERS", "out/peers"))


class Program:
    """A program that is running; it ends with this object."""

    def __init__(self, name: str, command: Sequence[str | Path]) -> None:
        self._name = name
        self._process = subprocess.Popen(  # noqa: S603  # our own program over our own files
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
        )
        self._input, self._output = (
            cast(IO[bytes], self._process.stdin),
            cast(IO[bytes], self._process.stdout),
        )

    def close(self) -> None:
        """End the process."""
        self._input.close()
        self._process.wait(60)
        self._output.close()

    def __del__(self) -> None:
        if getattr(self, "_process", None) is not None and self._process.poll() is None:
            self.close()

    def _send(self, *parts: bytes) -> None:
        for part in parts:
            self._input.write(part)

    def _receive(self, size: int) -> bytes:
        self._input.flush()
        found = self._output.read(size)
        if len(found) < size:
            raise RuntimeError(f"{self._name} has ended")
        return found


def numbers(values: Any, kind: str) -> bytes:
    """Values as bytes, in the order and size that NumPy calls `kind`."""
    return np.asarray(values).astype(kind).tobytes()
