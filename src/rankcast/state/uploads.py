"""Uploading snapshots of a hosted shard to the depot, while batches go on.

A snapshot is copied in memory while the shard is held, then written by a thread. What was finished is noted
on the host; a later batch finds the note and may let the store name that snapshot. If the process ends first,
or the shard moves to another host, the folder stays behind unnamed and is removed later. Names begin with the
number of the batch, so that everything older than what may still be named is known to be garbage.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import uuid
from collections.abc import Iterable, Mapping
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankcast.core import durable
from rankcast.state import checkpoint
from rankcast.state.checkpoint import Mark
from rankcast.state.depot import Depot

_LOG = logging.getLogger(__name__)
_NOTE = "written.json"
_FOLDER = re.compile(r"([0-9]{12})-[0-9a-f]{16}-[0-9a-f]{8}")


class Note(NamedTuple):
    """A snapshot that was finished."""

    name: str
    number: int
    token: str
    bytes: int


class Uploader:
    """Writes the snapshots of one shard.

    Args:
        here: a directory of this shard on this host, for the note and the lock.
        depot: where snapshots go.
        folder: the folder of this shard there.
    """

    def __init__(self, here: Path, depot: Depot, folder: str) -> None:
        self._here = here
        self._depot = depot
        self._folder = folder

    def note(self) -> Note | None:
        """The last snapshot finished on this host, if any."""
        with suppress(OSError, ValueError, TypeError):
            told = json.loads((self._here / _NOTE).read_text())
            return Note(str(told["name"]), int(told["number"]), str(told["token"]), int(told["bytes"]))
        return None

    def start(
        self,
        kind: str,
        mark: Mark,
        state: tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]],
        *,
        keep: Iterable[str],
        wait: bool = False,
    ) -> None:
        """Begin to write a snapshot, unless one is being written; then sweep what is older than `keep`.

        Only the copy of the arrays is waited for, or all of it with `wait`.
        """
        self._here.mkdir(parents=True, exist_ok=True, mode=0o700)
        with ExitStack() as lock:
            try:
                lock.enter_context(durable.locked(self._here, wait=wait))
            except BlockingIOError:
                return
            header = json.loads(json.dumps(checkpoint.header_of(kind, mark, state[0])))
            arrays = {name: np.array(array) for name, array in state[1].items()}
            held = lock.pop_all()
        job = (held, mark, header, arrays, frozenset(keep))
        if wait:
            self._upload(*job)
        else:
            threading.Thread(target=self._upload, args=job, name="rankcast-snapshot", daemon=True).start()

    def _upload(
        self,
        held: ExitStack,
        mark: Mark,
        header: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        keep: frozenset[str],
    ) -> None:
        with held:
            try:
                name = f"{self._folder}/{mark.number:012d}-{mark.token[:16]}-{uuid.uuid4().hex[:8]}"
                size = self._depot.write(name, checkpoint.KIND, header, arrays)
                note = Note(name, mark.number, mark.token, size)
                new = self._here / f"{_NOTE}.new"
                new.write_text(json.dumps(note._asdict()))
                new.replace(self._here / _NOTE)
                self._sweep(keep)
            except Exception as error:  # the log just stays longer
                _LOG.warning("no snapshot of %s could be written: %s", self._folder, error)

    def _sweep(self, keep: frozenset[str]) -> None:
        """Remove folders of this shard that are older than all that the store may name.

        A newer one may have been finished on another host, and be taken up there later: it stays.
        """
        mine = {name.rpartition("/")[2] for name in keep if name.startswith(f"{self._folder}/")}
        if not mine:
            return
        oldest = min(mine)
        for folder in self._depot.folders(self._folder):
            if _FOLDER.fullmatch(folder) and folder < oldest:
                self._depot.remove(f"{self._folder}/{folder}")
