"""The high-water mark: a file beside the journal of a shard with the last answered batch.

A journal that ends below it has lost batches, even if SQLite considers it complete.

    mark    two slots of a page each: magic, number, token, checksum; written in turn, in place

A batch is marked after it is in the journal and before it is answered, so the journal may be one batch ahead
of the mark, never behind. For the same reason a torn slot means that the journal has one batch more
than the other slot says. A mark survives its process immediately. A thread flushes it to disk within `PAUSE`,
for many batches at a time. So no batch waits for a flush, and after a power cut the mark may be that old; the
journal itself is flushed with every batch.
"""

from __future__ import annotations

import hashlib
import logging
import os
import struct
import threading
from collections.abc import Iterable
from pathlib import Path

from rankcast.core import snapshot
from rankcast.errors import ShardError
from rankcast.state.checkpoint import Mark

FILE = "mark"
PAUSE = 0.1  # seconds between two flushes, at least
_LOG = logging.getLogger(__name__)
_MAGIC = b"RKCMARK1"
_FORM = struct.Struct("<8sQ32s")
_SLOT = 4096
_CHECKSUM = 16
_LOSS = "Restore the shard from a copy, or open it with accept_loss=True to go on with what is there."


class HighWater:
    """The mark of the shard in a directory. `newest` is its value: None if there never was one."""

    def __init__(self, path: Path) -> None:
        self._path = path / FILE
        self._descriptor: int | None = None
        self._asked, self._ended = threading.Event(), threading.Event()
        self._flusher: threading.Thread | None = None
        self._failure: OSError | None = None
        self._torn = False  # whether a slot was left half written
        self.newest: Mark | None = None

    def read(self) -> Mark | None:
        """What a journal must reach; a token of "" fits any. None if there is no file.

        Raises:
            ShardError: neither slot can be read.
        """
        try:
            with snapshot.opened(self._path) as (descriptor, _):
                data = os.pread(descriptor, 2 * _SLOT, 0)
        except FileNotFoundError:
            return None
        except OSError as error:
            raise _damaged(self._path, f"{error}") from error
        slots = [_parsed(data[start : start + _SLOT]) for start in (0, _SLOT)]
        whole = [slot for slot in slots if slot is not None]
        if not whole:
            raise _damaged(self._path, "Neither of its slots is whole")
        newest = max(whole)
        self.newest = newest if len(whole) == 2 else Mark(newest.number + 1, "")
        return self.newest

    def make(self, mark: Mark) -> None:
        """Start again at a mark, in one step; it is on disk when this returns."""
        self._let_go()
        new = self._path.with_name(f"{FILE}.new")
        snapshot.write_file(new, 2 * _rendered(mark).ljust(_SLOT, b"\0"))
        new.replace(self._path)
        snapshot.sync_directory(self._path.parent)
        self.newest, self._torn = mark, False

    def write(self, mark: Mark) -> None:
        """Raise the mark; from here on it survives the process.

        A slot that a full disk left half written may have been flushed in that form. If it were repaired in
        place, a power cut could bring it back beside a newer one, and it would pass for the newest; so the
        file is replaced.

        Raises:
            OSError: it could not be written or flushed, now or the last time.
        """
        if mark == self.newest:
            return
        if self._failure is not None:
            failure, self._failure = self._failure, None
            raise failure
        if self._torn:
            self.make(mark)
            return
        if self._descriptor is None:
            self._descriptor = os.open(self._path, os.O_RDWR | os.O_NOFOLLOW | os.O_CLOEXEC)
        data = _rendered(mark)
        self._torn = True
        if os.pwrite(self._descriptor, data, mark.number % 2 * _SLOT) != len(data):
            raise OSError(f"{self._path} could not be written")
        self.newest, self._torn = mark, False
        if self._flusher is None:
            self._ended.clear()
            self._flusher = threading.Thread(
                target=self._flush, args=(self._descriptor,), name="rankcast-mark", daemon=True
            )
            self._flusher.start()
        self._asked.set()

    def close(self) -> None:
        """Flush what was written, and close the file."""
        self._let_go()
        if self._failure is not None:
            _LOG.warning("%s could not be flushed: %s", self._path, self._failure)

    def _let_go(self) -> None:
        if self._flusher is not None:
            self._ended.set()
            self._asked.set()
            self._flusher.join()
            self._flusher = None
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _flush(self, descriptor: int) -> None:
        """Flush on request, until the end."""
        ended = False
        while not ended:
            self._asked.wait()
            self._asked.clear()
            try:
                snapshot.flush(descriptor)
            except OSError as error:
                self._failure = error
            ended = self._ended.wait(PAUSE) and not self._asked.is_set()


def _rendered(mark: Mark) -> bytes:
    told = _FORM.pack(_MAGIC, mark.number, bytes.fromhex(mark.token))
    return told + hashlib.blake2b(told, digest_size=_CHECKSUM).digest()


def _parsed(slot: bytes) -> Mark | None:
    """The mark in a slot, None if it is incomplete."""
    told, checksum = slot[: _FORM.size], slot[_FORM.size : _FORM.size + _CHECKSUM]
    if len(checksum) < _CHECKSUM or hashlib.blake2b(told, digest_size=_CHECKSUM).digest() != checksum:
        return None
    magic, number, token = _FORM.unpack(told)
    return Mark(number, token.hex()) if magic == _MAGIC else None


def _damaged(path: Path, why: str) -> ShardError:
    return ShardError(
        f"{path} is damaged",
        detail=f"{why}, so nobody can tell whether batches are lost.",
        hint=_LOSS,
    )


def check_reached(path: Path, told: Mark | None, mark: Mark, known: Iterable[Mark], *, marked: bool) -> None:
    """Refuse a history that ends before an answered batch, or that is a different one.

    Args:
        path: the shard.
        told: its high-water mark.
        mark: where the history ends.
        known: places of the history.
        marked: whether there must be a high-water mark.
    """
    if told is None and marked:
        raise ShardError(
            f"{path} has lost its mark",
            detail="So nobody can tell whether batches are lost, too.",
            hint=_LOSS,
        )
    if told is not None and mark.number < told.number:
        one = "was answered" if told.token else "may have been: the mark of the last one is damaged"
        raise ShardError(
            f"{path} has lost batches",
            detail=f"It ends at batch {mark.number}, but batch {told.number} {one}.",
            hint=_LOSS,
        )
    tokens = {place.number: place.token for place in known}
    if told is not None and told.token and tokens.get(told.number, told.token) != told.token:
        raise ShardError(
            f"{path} has another history than it had",
            detail=f"Its batch {told.number} is not the one that was answered.",
            hint=_LOSS,
        )
