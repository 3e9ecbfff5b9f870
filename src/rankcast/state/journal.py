"""The batches of a shard since its last snapshot: stored, known to be complete, and replayed.

The journal is SQLite: write-ahead log, full sync. A row is one batch: its number, the tokens before and after
it, its bytes, a digest of its answer (which is stored elsewhere, see rankcast.state.answers) and a seal, the
checksum of all but the batch (which the token covers). When `append` returns, the batch is on disk, complete,
whatever happens next; if it does not return, the batch is there completely or not at all. When a snapshot
covers a row, its batch is dropped; the last few rows stay as receipts.

SQLite drops everything after a damaged page of its write-ahead log, and opens without a missing log: to
it, a lost commit looks like one that never happened. A mark distinguishes them, see
rankcast.state.high_water.

A replayed batch must have the same effect as the first time. Recovery trusts nothing it reads: each batch
must follow the previous one (number and token), its token must be the hash of its bytes, and its answer now
must equal the first answer.
"""

from __future__ import annotations

import hashlib
import sqlite3
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol, Self

import pyarrow as pa
from numpy.typing import NDArray

from rankcast.errors import FunctionError, InputError, JournalError, ShardError
from rankcast.state import batches
from rankcast.state.answers import Answers, digest_of
from rankcast.state.batches import Command
from rankcast.state.checkpoint import Mark
from rankcast.state.log import Bytes

FORMAT = 2  # 1 had the answers in the rows
_APPLICATION = 0x524B434A  # "RKCJ": tells a journal from any other SQLite file
_WAL_BYTES = 64 << 20
_COLUMNS = """(
    number INTEGER PRIMARY KEY,
    prev   TEXT NOT NULL,
    token  TEXT NOT NULL,
    batch  BLOB,
    digest BLOB NOT NULL,
    seal   BLOB NOT NULL
) STRICT
"""


class Record(NamedTuple):
    """One applied batch: `batch` is None once a snapshot covers it."""

    number: int
    prev: str
    token: str
    batch: bytes | None
    digest: bytes  # of the answer

    def seal(self) -> bytes:
        """The checksum of everything but the batch."""
        mark = f"{self.number} {self.prev} {self.token} ".encode()
        return hashlib.blake2b(mark + self.digest, digest_size=16).digest()


class Journal:
    """The journal in one SQLite file. It is not thread-safe; its shard takes care of that."""

    def __init__(self, path: Path, *, make: bool = False) -> None:
        """Open the journal; with `make`, create a missing or empty one."""
        self._path = path
        self._open(make=make)

    def reopen(self) -> None:
        """Close the file and open it again, so that it shows what SQLite finds on disk."""
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
        """Check that the file is a journal, or make it one; never write into a foreign file."""
        application = self._number("PRAGMA application_id")
        version = self._number("PRAGMA user_version")
        tables = self._number("SELECT count(*) FROM sqlite_master")
        if make and application == 0 and version == 0 and tables == 0:
            self._set_modes()
            with self._transaction():
                self._connection.execute(f"CREATE TABLE batch {_COLUMNS}")
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

    def upgrade(self, answers: Answers) -> None:
        """Convert a journal of format 1: its answers move to plain files.

        They are on disk before the rows change, which happens in one step.
        """
        with self._told("cannot be upgraded"):
            if self._number("PRAGMA user_version") != 1:
                return
            answers.cut(0)
            with self._transaction():
                self._connection.execute(f"CREATE TABLE batch_now {_COLUMNS}")
                rows = self._connection.execute(
                    "SELECT number, prev, token, batch, answer, seal FROM batch ORDER BY number"
                )
                for row in rows:
                    former = self._checked(row)
                    now = former._replace(digest=answers.add(former.number, former.digest))
                    insert = "INSERT INTO batch_now VALUES (?, ?, ?, ?, ?, ?)"
                    self._connection.execute(insert, (*now, now.seal()))
                answers.write()
                answers.sync()
                self._connection.execute("DROP TABLE batch")
                self._connection.execute("ALTER TABLE batch_now RENAME TO batch")
                self._connection.execute(f"PRAGMA user_version = {FORMAT}")

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
        """The largest size of a batch in bytes."""
        return self._connection.getlimit(sqlite3.SQLITE_LIMIT_LENGTH) - (1 << 20)

    def append(self, record: Record, *, covered: int, receipts: int) -> None:
        """Add a batch and drop those a snapshot covers, in one step; see `forget`."""
        with self._told("cannot be written"), self._transaction():
            self._insert(record)
            self._forget(covered, record.number - receipts)

    def begin(self) -> None:
        """Start a transaction of several batches; `commit` or `roll_back` ends it."""
        with self._told("cannot be written"):
            self._connection.execute("BEGIN IMMEDIATE")

    def insert(self, record: Record) -> None:
        """Add a batch inside a transaction."""
        with self._told("cannot be written"):
            self._insert(record)

    def commit(self, *, covered: int, receipts: int) -> None:
        """Put the batches of a transaction on disk, and drop those a snapshot covers; see `forget`."""
        with self._told("cannot be written"):
            self._forget(covered, self._newest() - receipts)
            self._connection.execute("COMMIT")

    def roll_back(self) -> None:
        """Undo the batches of a transaction. SQLite may have done so already."""
        with suppress(sqlite3.Error):
            self._connection.execute("ROLLBACK")

    def run(self, statement: str, values: Sequence[Any]) -> list[tuple[Any, ...]]:
        """The result of a statement on the caller's own tables; inside a transaction it is part of it."""
        with self._told("cannot be written"):
            return self._connection.execute(statement, values).fetchall()

    def run_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement on the caller's own tables for each of many rows."""
        with self._told("cannot be written"):
            self._connection.executemany(statement, rows)

    def _insert(self, record: Record) -> None:
        self._connection.execute("INSERT INTO batch VALUES (?, ?, ?, ?, ?, ?)", (*record, record.seal()))

    def _newest(self) -> int:
        return self._number("SELECT coalesce(max(number), 0) FROM batch")

    def forget(self, covered: int, *, receipts: int) -> None:
        """Drop the batches up to number `covered`; keep the last `receipts` of their digests."""
        with self._told("cannot be written"), self._transaction():
            self._forget(covered, self._newest() - receipts)

    def _forget(self, covered: int, old: int) -> None:
        self._connection.execute("DELETE FROM batch WHERE number <= ?", (min(covered, old),))
        self._connection.execute(
            "UPDATE batch SET batch = NULL WHERE number <= ? AND batch IS NOT NULL", (covered,)
        )

    def after(self, number: int) -> Iterator[Record]:
        """The batches above a number, in order, one at a time."""
        query = "SELECT number, prev, token, batch, digest, seal FROM batch WHERE number > ? ORDER BY number"
        with self._told("cannot be read"):
            for row in self._connection.execute(query, (number,)):
                yield self._checked(row)

    def receipt(self, prev: str) -> Record | None:
        """The batch that was applied after token `prev`, if it is still known."""
        query = "SELECT number, prev, token, NULL, digest, seal FROM batch WHERE prev = ?"
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
        """Number and token of every known batch, without checking the rest."""
        with self._told("cannot be read"):
            rows = self._connection.execute("SELECT number, token FROM batch ORDER BY number").fetchall()
        return [Mark(*row) for row in rows]

    def begin_at(self, mark: Mark) -> None:
        """Continue from a mark that the journal does not reach; its contents are dropped.

        A row without a batch stands for the last one; no token precedes it.
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
        """The row as a record, if it is unchanged."""
        *fields, seal = row
        record = Record(*fields)
        blobs = isinstance(record.digest, bytes) and isinstance(record.batch, bytes | None)
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
        """Convert SQLite's errors into errors of this package."""
        try:
            yield
        except (
            sqlite3.Error,
            UnicodeDecodeError,
        ) as error:  # the latter: a message that quotes damaged bytes
            raise JournalError(f"{self._path} {what}", detail=f"SQLite says: {error}.") from error


class Engine(Protocol):
    """What a shard needs from an engine; all engines of the package have it."""

    calls: ClassVar[tuple[str, ...]]

    def check_rows(self, call: str, rows: Any) -> None:
        """Refuse values in rows that would be lost in a conversion to an Arrow table."""

    def apply(self, commands: Iterable[Command], /) -> pa.Table:
        """Apply commands in order and return their net change; deterministic."""

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """A JSON header, with the key `settings`, and the arrays; not copied."""

    @classmethod
    def restore(cls, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]], **given: Any) -> Self:
        """An engine that continues from a state."""


def refused_at_the_door(engine: Engine, error: InputError) -> bool:
    """Whether a single call that raised has certainly changed nothing.

    Rows are checked before anything changes. A user's function may fail later: an engine undoes such a
    change as far as anybody can see, but not to the last bit. An engine `in_doubt` does not qualify at all.
    """
    return not isinstance(error, FunctionError) and not getattr(engine, "in_doubt", False)


def run(engine: Engine, data: bytes) -> bytes:
    """The answer of an engine to a batch, both as bytes.

    The engine gets the batch as decoded from its bytes, never the caller's own tables, so that a replay
    sees the same.
    """
    return batches.to_bytes(engine.apply(batches.decode(data)))


def replay(journal: Journal, answers: Answers, engine: Engine, mark: Mark) -> tuple[Mark, int]:
    """Apply the batches after `mark` to an engine; returns where it ends, and their size.

    Missing answers are written again.
    """

    def again(record: Record) -> bool:
        answer = run(engine, record.batch or b"")
        saved = answers.get(record.number, record.digest)
        if digest_of(record.number, answer) != record.digest:  # the same table may come as other bytes
            return saved is not None and _same_table(answer, saved)
        if saved is None:
            answers.cut(record.number - 1)
            answers.add(record.number, answer)
        return True

    newest = journal.newest()
    answers.cut(0 if newest is None else newest[0])
    mark, size = repeat(journal.after(mark.number), again, mark)
    answers.write()
    if mark != newest and (newest is not None or mark.number > 0):
        raise JournalError("the journal does not go on from the snapshot")
    return mark, size


def repeat(records: Iterable[Record], again: Callable[[Record], bool], mark: Mark) -> tuple[Mark, int]:
    """Run the batches after `mark` again; returns where that ends, and their size.

    Args:
        records: the batches, in order.
        again: runs one of them; returns whether its answer is the first one.
        mark: where the engine stands.
    """
    size = 0
    for record in records:
        _follows(record, mark)
        try:
            same = again(record)
        except FunctionError:  # which says nothing of the batch
            raise
        except InputError as error:
            raise _unlike(record) from error
        if not same:
            raise _unlike(record)
        size += len(record.batch or b"")
        mark = Mark(record.number, record.token)
    return mark, size


def _follows(record: Record, mark: Mark) -> None:
    """Refuse a batch that is not the next one, or that does not match its token."""
    next_one = (record.number, record.prev) == (mark.number + 1, mark.token)
    if not next_one or record.batch is None or batches.chain(mark.token, record.batch) != record.token:
        raise JournalError(
            "the journal is damaged", detail=f"Batch {record.number} does not follow batch {mark.number}."
        )


def _same_table(one: bytes, other: Bytes) -> bool:
    """Whether two answers have the same rows; ops of deltas were not always dictionary-encoded."""
    return bool(batches.decoded(batches.from_bytes(one)).equals(batches.decoded(batches.from_bytes(other))))


def _unlike(record: Record) -> ShardError:
    return ShardError(
        f"the shard cannot be recovered: batch {record.number} has another answer than it had",
        detail="An engine must be deterministic; it may have changed since the batch was applied.",
        hint="Open the shard with the version of rankcast that wrote it, and take a snapshot there.",
    )
