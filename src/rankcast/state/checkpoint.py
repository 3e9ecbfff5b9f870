"""The snapshot of a shard: the engine as of some batch, read at the start, written in the background.

The snapshot's own header names its batch (number and token), so a new snapshot and its meaning
are replaced in one step, and nothing else has to agree with it.
"""

from __future__ import annotations

import json
import logging
import re
from collections.abc import Callable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankcast.core import snapshot
from rankcast.errors import ShardError, SnapshotError
from rankcast.state.batches import Token

State: TypeAlias = tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]]

_LOG = logging.getLogger(__name__)
KIND = "Shard"
_TOKEN = re.compile(r"[0-9a-f]{64}")


class Mark(NamedTuple):
    """A place in the history of a shard: how many batches, and the token after them."""

    number: int
    token: Token


class Checkpoint:
    """The snapshot in one directory, and at most one thread that writes the next.

    `covered` is the number of the last batch that a snapshot on disk is known to contain; `failure` is why
    the last attempt to write one failed, or None; `marked` is whether the snapshot that was read requires a
    high-water mark beside it.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self._pool = ThreadPoolExecutor(max_workers=1, thread_name_prefix="rankcast-snapshot")
        self._writing: Future[int] | None = None
        self.covered = 0
        self.marked = False
        self.failure: Exception | None = None

    def exists(self) -> bool:
        """Whether a first snapshot was ever finished."""
        return (self._path / snapshot.HEADER).exists()

    def require(self, kind: str, settings: Any) -> None:
        """Refuse an engine of another kind or with other settings than in the snapshot."""
        header = snapshot.peek(self._path).header
        mark_of(header)
        if header["kind"] != kind:
            raise ShardError(f"{self._path.parent} is the shard of a {header['kind']}, not of a {kind}")
        here, there = json.dumps(settings), json.dumps(header["engine"].get("settings"))
        if json.loads(here) != json.loads(there):
            raise ShardError(
                f"{self._path.parent} was made with other settings",
                detail=f"It has {there}, the engine {here}.",
                hint="Open it with an engine of the same settings, or make a new shard.",
            )

    def read(self) -> tuple[Mark, State]:
        """The snapshot; its arrays are mapped, copy on write."""
        saved = snapshot.read(self._path, kind=KIND)
        mark = mark_of(saved.header)
        self.marked = saved.header.get("marked") is True
        self.covered = max(self.covered, mark.number)
        return mark, (saved.header["engine"], saved.arrays)

    def write(self, kind: str, mark: Mark, state: State) -> int:
        """Write a snapshot and wait for it."""
        header = {**header_of(kind, mark, state[0]), "marked": True}
        snapshot.write(self._path, kind=KIND, header=header, arrays=state[1])
        return mark.number

    def start(self, kind: str, mark: Mark, state: State, *, before: Callable[[], None]) -> None:
        """Start to write a snapshot in the background, after running `before` there.

        The state is copied first, so the engine may continue; the caller only waits for that copy.
        """
        header = json.loads(json.dumps(state[0]))
        arrays = {name: np.array(array) for name, array in state[1].items()}

        def write() -> int:
            before()
            return self.write(kind, mark, (header, arrays))

        self._writing = self._pool.submit(write)

    def settle(self, *, wait: bool = False) -> bool:
        """Record a finished snapshot; returns whether none is being written (any more)."""
        if self._writing is None:
            return True
        if not wait and not self._writing.done():
            return False
        try:
            self.covered = max(self.covered, self._writing.result())
            self.failure = None
        except Exception as error:
            self.failed(error)
        self._writing = None
        return True

    def failed(self, error: Exception) -> None:
        """Record that a snapshot could not be written; the journal just stays longer."""
        _LOG.warning("no snapshot of %s could be written: %s", self._path, error)
        self.failure = error

    def close(self) -> None:
        """Wait for the snapshot being written."""
        self.settle(wait=True)
        self._pool.shutdown()


def header_of(kind: str, mark: Mark, engine: Mapping[str, Any]) -> dict[str, Any]:
    """The header of a shard's snapshot: its engine and its batch."""
    return {"kind": kind, "number": mark.number, "token": mark.token, "engine": engine}


def mark_of(header: Mapping[str, Any]) -> Mark:
    """Check the fields that only a shard writes into the header of a snapshot."""
    number, token = header.get("number"), header.get("token")
    kind, engine = header.get("kind"), header.get("engine")
    if type(number) is not int or number < 0 or not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise SnapshotError("the snapshot does not say of which batch it is")
    if not isinstance(kind, str) or not isinstance(engine, dict):
        raise SnapshotError("the snapshot does not say of which engine it is")
    return Mark(number, token)
