"""The answers of a shard's last batches, beside its journal: what a batch that is offered again is given.

    <shard>/answers/    see rankcast.state.log

The journal has the batches and of each answer a digest. The answers themselves are large where a batch
changes much, and they can be made again as long as the journal has the batch; so they go into plain files,
which costs a fraction of what SQLite takes for them, and are flushed when a snapshot is about to cover their
batches, not before. A recovery runs the batches that no snapshot covers and writes down again what a power
cut has taken of their answers. An answer that is not the one of which the journal has the digest is none.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rankcast.errors import JournalError
from rankcast.state.log import Bytes, Entry, Log

FOLDER = "answers"
_FILE = 4 << 20  # bytes of a file
_SPARE = 256 << 20  # bytes of files that are kept to be written over


class Answers:
    """The answers in one directory. What is added is written by `write`, before its batch is committed."""

    def __init__(self, path: Path) -> None:
        self._path = path
        with self._told():
            self._log = Log(path, end=(1 << 63) - 1, file=_FILE, spare=_SPARE, holes=True)

    def add(self, number: int, answer: Bytes) -> bytes:
        """Add the answer to the next batch, or to a later one; returns its digest."""
        entry = Entry(number, 0.0, b"", answer)
        check = entry.checksum()
        with self._told():
            self._log.append(entry, check)
        return _digest(check, answer)

    def write(self) -> None:
        """Write what was added; it outlives the process from here on."""
        with self._told():
            self._log.flush()

    def sync(self) -> None:
        """Have on disk what was written; for any thread."""
        with self._told():
            self._log.sync()

    def get(self, number: int, digest: bytes) -> Bytes | None:
        """The answer to a batch that has this digest; None if it is not there, or damaged."""
        self.write()
        with suppress(LookupError, OSError):
            for entry in self._log.after(number - 1, number) or ():
                return entry.answer if _digest(entry.checksum(), entry.answer) == digest else None
        return None

    def cut(self, number: int) -> None:
        """Forget the answers to batches above a number, which were not committed."""
        with self._told():
            self._log.take_back(number)

    def forget(self, number: int) -> None:
        """Drop the answers up to a number, in whole files; trouble with that is nobody's."""
        with suppress(OSError):
            self._log.forget(number)

    def close(self) -> None:
        """Close the file."""
        self._log.close()

    @contextmanager
    def _told(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            raise JournalError(f"{self._path} cannot be written", detail=f"{error}.") from error


def digest_of(number: int, answer: Bytes) -> bytes:
    """What the journal keeps of the answer to a batch: a checksum and its length."""
    return _digest(Entry(number, 0.0, b"", answer).checksum(), answer)


def _digest(check: int, answer: Bytes) -> bytes:
    return check.to_bytes(4, "little") + len(answer).to_bytes(8, "little")
