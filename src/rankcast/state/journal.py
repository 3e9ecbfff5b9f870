"""The batches of a shard since its last snapshot, in SQLite: write-ahead log, full sync.

A row is one batch: its number, the tokens before and after it, its bytes, the bytes of its answer and a seal,
the checksum of all but the batch (which the token vouches for). A batch that `append` has returned from is on
disk, whole, whatever happens next; one that it has not returned from is there whole or not at all.

Rows that a snapshot covers lose their batch; the last few stay as receipts.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NamedTuple

from rankcast.errors import JournalError
from rankcast.state.checkpoint import Mark

FORMAT = 1
_APPLICATION = 0x524B434A  # "RKCJ": tells a journal from any other SQLite file
_WAL_BYTES = 64 << 20
_TABLE = """
CREATE TABLE batch (
    number INTEGER PRIMARY KEY,
    prev   TEXT NOT NULL UNIQUE,
    token  TEXT NOT NULL UNIQUE,
    batch  BLOB,
    answer BLOB NOT NULL,
    seal   BLOB NOT NULL
) STRICT
"""


class Record(NamedTuple):
    """One batch that was applied: `batch` is None once a snapshot covers it."""

    number: int
    prev: str
    token: str
    batch: bytes | None
    answer: bytes

    def seal(self) -> bytes:
        """The checksum of everything but the batch."""
        mark = f"{self.number} {self.prev} {self.token} ".encode()
        return hashlib.blake2b(mark + self.answer, digest_size=16).digest()


class Journal:
    """The journal in one SQLite file. Not safe for threads at once; its shard keeps them apart."""

    def __init__(self, path: Path, *, make: bool = False) -> None:
        """Open the journal; with `make`, one that is not there or has nothing in it yet is made."""
        self._path = path
        self._open(make=make)

    def reopen(self) -> None:
        """Close the file and open it again: what it holds then is what SQLite finds on disk."""
        self.close()
        self._open(make=False)

    def _open(self, *, make: bool) -> None:
        place = f"{self._path.absolute().as_uri()}?mode={'rwc' if make else 'rw'}"
        with self._told("cannot be opened"):
            self._connection = sqlite3.connect(place, uri=True, isolation_level=None, check_same_thread=False)
        try:
            with self._told("cannot be opened"):
                self._prepare(make=make)
        except BaseException:
            self._connection.close()
            raise

    def _prepare(self, *, make: bool) -> None:
        """Check that the file is a journal, or make it one; nothing is written into a foreign file."""
        application = self._number("PRAGMA application_id")
        version = self._number("PRAGMA user_version")
        tables = self._number("SELECT count(*) FROM sqlite_master")
        if make and application == 0 and version == 0 and tables == 0:
            self._set_modes()
            with self._transaction():
                self._connection.execute(_TABLE)
                self._connection.execute(f"PRAGMA application_id = {_APPLICATION}")
                self._connection.execute(f"PRAGMA user_version = {FORMAT}")
            return
        if application != _APPLICATION:
            raise JournalError(f"{self._path} is not the journal of a shard")
        if version > FORMAT:
            raise JournalError(
                f"{self._path} has format {version}, this version of rankcast reads up to {FORMAT}",
                hint="Upgrade rankcast to read it.",
            )
        self._set_modes()
        found = self._connection.execute("PRAGMA integrity_check(1)").fetchone()[0]
        if found != "ok":
            raise JournalError(f"{self._path} is damaged", detail=f"SQLite says: {found}.")

    def _set_modes(self) -> None:
        mode = self._connection.execute("PRAGMA journal_mode = WAL").fetchone()[0]
        if mode != "wal":
            raise JournalError(
                f"{self._path} lies on a file system without shared memory",
                detail=f"SQLite offers the journal mode {mode} there, not a write-ahead log.",
                hint="Keep shards on a local disk.",
            )
        self._connection.execute("PRAGMA synchronous = FULL")
        self._connection.execute(f"PRAGMA journal_size_limit = {_WAL_BYTES}")

    @property
    def largest(self) -> int:
        """How many bytes a batch or an answer may have."""
        return self._connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) - (1 << 20)

    def append(self, record: Record, *, covered: int, receipts: int) -> None:
        """Add a batch and forget those a snapshot covers, in one step; see `forget`."""
        with self._told("cannot be written"), self._transaction():
            self._connection.execute("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?)", (*record, record.seal()))
            self._forget(covered, record.number - receipts)

    def forget(self, covered: int, *, receipts: int) -> None:
        """Drop the batches up to number `covered`; of the answers there keep the last `receipts`."""
        with self._told("cannot be written"), self._transaction():
            newest = self._number("SELECT coalesce(max(number), 0) FROM batch")
            self._forget(covered, newest - receipts)

    def _forget(self, covered: int, old: int) -> None:
        self._connection.execute("DELETE FROM batch WHERE number <= ?", (min(covered, old),))
        self._connection.execute(
            "UPDATE batch SET batch = NULL WHERE number <= ? AND batch IS NOT NULL", (covered,)
        )

    def after(self, number: int) -> Iterator[Record]:
        """The batches above a number, in order, one at a time."""
        query = "SELECT number, prev, token, batch, answer, seal FROM batch WHERE number > ? ORDER BY number"
        with self._told("cannot be read"):
            for row in self._connection.execute(query, (number,)):
                yield self._checked(row)

    def receipt(self, prev: str) -> Record | None:
        """The batch that was applied after token `prev`, if it is still known."""
        query = "SELECT number, prev, token, NULL, answer, seal FROM batch WHERE prev = ?"
        with self._told("cannot be read"):
            row = self._connection.execute(query, (prev,)).fetchone()
        return None if row is None else self._checked(row)

    def newest(self) -> tuple[int, str] | None:
        """Number and token of the last batch, or None if there never was one."""
        with self._told("cannot be read"):
            row = self._connection.execute("SELECT number, token FROM batch ORDER BY number DESC LIMIT 1")
            found: tuple[int, str] | None = row.fetchone()
        return found

    def marks(self) -> list[Mark]:
        """Number and token of every batch that is known, without a look at the rest."""
        with self._told("cannot be read"):
            rows = self._connection.execute("SELECT number, token FROM batch ORDER BY number").fetchall()
        return [Mark(*row) for row in rows]

    def begin_at(self, mark: Mark) -> None:
        """Go on from a mark that the journal does not reach: what it holds is dropped.

        A row without a batch stands for the last one; no token was before it.
        """
        newest = self.newest()
        if mark.number == 0 or (newest is not None and newest[0] >= mark.number):
            return
        record = Record(mark.number, "", mark.token, None, b"")
        with self._told("cannot be written"), self._transaction():
            self._connection.execute("DELETE FROM batch")
            self._connection.execute("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?)", (*record, record.seal()))

    def close(self) -> None:
        """Close the file; what was appended stays."""
        self._connection.close()

    def _checked(self, row: tuple[Any, ...]) -> Record:
        """The row as a record, if it is as it was written."""
        *fields, seal = row
        record = Record(*fields)
        blobs = isinstance(record.answer, bytes) and isinstance(record.batch, bytes | None)
        if not blobs or record.seal() != seal:
            raise JournalError(
                f"{self._path} is damaged", detail=f"The seal of batch {record.number} is broken."
            )
        return record

    def _number(self, query: str) -> int:
        return int(self._connection.execute(query).fetchone()[0])

    @contextmanager
    def _transaction(self) -> Iterator[None]:
        self._connection.execute("BEGIN IMMEDIATE")
        try:
            yield
            self._connection.execute("COMMIT")
        except BaseException:
            with suppress(sqlite3.Error):
                self._connection.execute("ROLLBACK")
            raise

    @contextmanager
    def _told(self, what: str) -> Iterator[None]:
        """Tell SQLite's own errors in the words of this package."""
        try:
            yield
        except (
            sqlite3.Error,
            UnicodeDecodeError,
        ) as error:  # the latter: a message that quotes damaged bytes
            raise JournalError(f"{self._path} {what}", detail=f"SQLite says: {error}.") from error
