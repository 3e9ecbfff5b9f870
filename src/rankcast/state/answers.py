"""The answers of a shard's last batches, for batches that are offered again.

    <shard>/answers/    see rankcast.state.log

The journal has the batches and a digest of each answer. The answers themselves are large if a batch
changes much, and can be recomputed as long as the journal has the batch. So they go into plain files,
at a fraction of SQLite's cost, and are flushed only when a snapshot is about to cover their
batches. A recovery runs the batches that no snapshot covers and writes again what a power
cut has taken of their answers. An answer that does not match its digest in the journal is ignored.
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
    """The answers in one directory. `write` writes what was added, before its batch is committed."""

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
        """Write what was added; from here on it survives the process."""
        with self._told():
            self._log.flush()

    def sync(self) -> None:
        """Flush what was written; any thread may call it."""
        with self._told():
            self._log.sync()

    def get(self, number: int, digest: bytes) -> Bytes | None:
        """The answer to a batch that has this digest; None if it is missing or damaged."""
        self.write()
        with suppress(LookupError, OSError):
            for entry in self._log.after(number - 1, number) or ():
                return entry.answer if _digest(entry.checksum(), entry.answer) == digest else None
        return None

    def cut(self, number: int) -> None:
        """Delete the answers to batches above a number, which were not committed."""
        with self._told():
            self._log.take_back(number)

    def forget(self, number: int) -> None:
        """Delete the answers up to a number, in whole files; failures are ignored."""
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
