"""The batches of a shard since its last snapshot: kept, known to be complete, and run again.

The journal is SQLite: write-ahead log, full sync. A row is one batch: its number, the tokens before and after
it, its bytes, the bytes of its answer and a seal, the checksum of all but the batch (which the token vouches
for). A batch that `append` has returned from is on disk, whole, whatever happens next; one that it has not
returned from is there whole or not at all. Rows that a snapshot covers lose their batch; the last few stay as
receipts.

SQLite drops whatever follows a damaged page of its write-ahead log, and opens without a log that is gone: to
it, a commit that was lost looks like one that never was. The high-water mark, a file beside the journal with
the last batch that was answered, tells them apart: a journal that ends below it has lost batches.

    mark    two slots of a page each: magic, number, token, checksum; written in turn, in place

A batch is marked after it is in the journal and before it is answered, so the journal may be one batch ahead
of the mark, never behind. For the same reason a slot that was torn says that the journal has one batch more
than the other slot tells. A mark outlives its process at once. It is flushed to disk within `PAUSE` by a
thread, many batches at a time: so it costs no batch a flush, and after a power cut it may be that old; the
journal itself is flushed with every batch.

A batch run again must come to the same as the first time. Recovery trusts nothing it reads: each batch must
follow the one before (number and token), its token must be the hash of its bytes, and the answer it gives now
must be the answer that was given then.
"""

from __future__ import annotations

import hashlib
import logging
import os
import sqlite3
import struct
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core import snapshot
from rankcast.errors import FunctionError, InputError, JournalError, ShardError
from rankcast.state import batches
from rankcast.state.batches import Command
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
            self._insert(record)
            self._forget(covered, record.number - receipts)

    def begin(self) -> None:
        """Begin a transaction of several batches; `commit` or `roll_back` ends it."""
        with self._told("cannot be written"):
            self._connection.execute("BEGIN IMMEDIATE")

    def insert(self, record: Record) -> None:
        """Add a batch inside a transaction."""
        with self._told("cannot be written"):
            self._insert(record)

    def commit(self, *, covered: int, receipts: int) -> None:
        """Put the batches of a transaction on disk, and forget those a snapshot covers; see `forget`."""
        with self._told("cannot be written"):
            self._forget(covered, self._newest() - receipts)
            self._connection.execute("COMMIT")

    def roll_back(self) -> None:
        """Forget the batches of a transaction. SQLite may have done so by itself."""
        with suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")

    def run(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """What a statement on somebody else's tables gives; inside a transaction it is part of it."""
        with self._told("cannot be written"):
            return self._connection.execute(statement, values).fetchall()

    def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement on somebody else's tables for each of many rows."""
        with self._told("cannot be written"):
            self._connection.executemany(statement, rows)

    def _insert(self, record: Record) -> None:
        self._connection.execute("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?)", (*record, record.seal()))

    def _newest(self) -> int:
        return self._number("SELECT coalesce(max(number), 0) FROM batch")

    def forget(self, covered: int, *, receipts: int) -> None:
        """Drop the batches up to number `covered`; of the answers there keep the last `receipts`."""
        with self._told("cannot be written"), self._transaction():
            self._forget(covered, self._newest() - receipts)

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


FILE = "mark"
PAUSE = 0.1  # seconds between two flushes, at least
_LOG = logging.getLogger(__name__)
_MAGIC = b"RKCMARK1"
_FORM = struct.Struct("<8sQ32s")
_SLOT = 4096
_CHECKSUM = 16


class HighWater:
    """The mark of the shard in a directory. `newest` is what it says: None if there never was one."""

    def __init__(self, path: Path) -> None:
        self._path = path / FILE
        self._descriptor: int | None = None
        self._asked, self._ended = threading.Event(), threading.Event()
        self._flusher: threading.Thread | None = None
        self._failure: OSError | None = None
        self._torn = False  # whether a slot was left half written
        self.newest: Mark | None = None

    def read(self) -> Mark | None:
        """What a journal must have at least; a token of "" fits any. None if there is no file.

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
        """Begin anew at a mark, in one step, on disk when this returns."""
        self._let_go()
        new = self._path.with_name(f"{FILE}.new")
        snapshot.write_file(new, 2 * _rendered(mark).ljust(_SLOT, b"\0"))
        new.replace(self._path)
        snapshot.sync_directory(self._path.parent)
        self.newest, self._torn = mark, False

    def write(self, mark: Mark) -> None:
        """Raise the mark; whatever happens to this process, it stays.

        A slot that a full disk left half written may have been flushed like that. Were it mended in place, a
        power cut could bring it back beside a newer one, and it would pass for the newest; so the file is
        made anew.

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
        """Flush what was asked for, until the end."""
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
    """The mark in a slot, None if it is not whole."""
    told, checksum = slot[: _FORM.size], slot[_FORM.size : _FORM.size + _CHECKSUM]
    if len(checksum) < _CHECKSUM or hashlib.blake2b(told, digest_size=_CHECKSUM).digest() != checksum:
        return None
    magic, number, token = _FORM.unpack(told)
    return Mark(number, token.hex()) if magic == _MAGIC else None


def _damaged(path: Path, why: str) -> ShardError:
    return ShardError(
        f"{path} is damaged",
        detail=f"{why}, so nobody can tell whether batches are lost.",
        hint="Restore the shard from a copy, or open it with accept_loss=True to go on with what is there.",
    )


class Engine(Protocol):
    """What a shard asks of an engine; all engines of the package have it."""

    calls: ClassVar[tuple[str, ...]]

    def check_rows(self, call: str, rows: Any) -> None:
        """Refuse what rows of a call hold that would be lost where they become an Arrow table."""

    def apply(self, commands: Iterable[Command], /) -> pa.Table:
        """Apply commands in order and answer with their net change; deterministic."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A JSON header, with the key `settings`, and the arrays; not copied."""

    @classmethod
    def restore(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], **given: Any) -> Self:
        """An engine that goes on from a state."""


def refused_at_the_door(engine: Engine, error: InputError) -> bool:
    """Whether a single call that raised has certainly changed nothing.

    Rows are checked before anything changes. A function of one's own may fail later: an engine takes such a
    change back as far as anybody can see, but not to the last bit. One `in_doubt` does not count at all.
    """
    return not isinstance(error, FunctionError) and not getattr(engine, "in_doubt", False)


def run(engine: Engine, data: bytes) -> bytes:
    """The answer of an engine to a batch, both as bytes.

    The engine is given the batch as decoded from its bytes, never the caller's own tables, so that it sees
    the same when the batch is replayed.
    """
    return batches.to_bytes(engine.apply(batches.decode(data)))


def replay(journal: Journal, engine: Engine, mark: Mark) -> tuple[Mark, int]:
    """Apply the batches after `mark` to an engine that is there; return where it ends, and their size."""
    mark, size = repeat(journal.after(mark.number), lambda record: run(engine, record.batch or b""), mark)
    newest = journal.newest()
    if mark != newest and (newest is not None or mark.number > 0):
        raise JournalError("the journal does not go on from the snapshot")
    return mark, size


def repeat(
    records: Iterable[Record],
    answer_of: Callable[[Record], bytes],
    mark: Mark,
    *,
    same: Callable[[bytes, bytes], bool] | None = None,
) -> tuple[Mark, int]:
    """Run the batches after `mark` again; return where that ends, and their size.

    Args:
        records: the batches, in order.
        answer_of: runs one of them.
        mark: where the engine stands.
        same: whether two answers are the same; by default, whether they are the same table.
    """
    size = 0
    for record in records:
        _follows(record, mark)
        try:
            answer = answer_of(record)
        except FunctionError:  # which says nothing of the batch
            raise
        except InputError as error:
            raise _unlike(record) from error
        if answer != record.answer and not (same or _same_table)(answer, record.answer):
            raise _unlike(record)
        size += len(record.batch or b"") + len(record.answer)
        mark = Mark(record.number, record.token)
    return mark, size


def _follows(record: Record, mark: Mark) -> None:
    """Refuse a batch that is not the next one, or that is not what its token says."""
    next_one = (record.number, record.prev) == (mark.number + 1, mark.token)
    if not next_one or record.batch is None or batches.chain(mark.token, record.batch) != record.token:
        raise JournalError(
            "the journal is damaged", detail=f"Batch {record.number} does not follow batch {mark.number}."
        )


def _same_table(one: bytes, other: bytes) -> bool:
    return bool(batches.from_bytes(one).equals(batches.from_bytes(other)))


def _unlike(record: Record) -> ShardError:
    return ShardError(
        f"the shard cannot be recovered: batch {record.number} has another answer than it had",
        detail="An engine must be deterministic; it may have changed since the batch was applied.",
        hint="Open the shard with the version of rankcast that wrote it, and take a snapshot there.",
    )
