"""A shard: an engine with durable state, advanced by batches that are each applied once.

    <path>/snapshot/         the engine as of some batch, see rankcast.state.checkpoint
    <path>/journal.sqlite    the batches since, see rankcast.state.journal
    <path>/answers/          the answers to the last batches, see rankcast.state.answers
    <path>/mark              the last answered batch, see rankcast.state.journal

The state is a pure function of the committed batches: whatever is in memory can be discarded and rebuilt from
the snapshot and the journal. That is the one way to recover from every failure: a kill, a batch refused after
some of its commands had run, a journal that could not be written. A batch is committed when its row is in the
journal; the caller gets the answer after that. Offered again after the same token, it gets its first answer.

Order of writing: the journal and the mark exist before the first snapshot; an answer is written, not
flushed, then its batch enters the journal, then the mark is raised, then the caller is answered; answers are
flushed before a snapshot that covers their batches; rows leave the journal after the snapshot that covers
them is on disk. If snapshot and journal do not reach the mark, something was lost: the shard does not open.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any, Generic, NamedTuple, Self, TypeVar

import pyarrow as pa

from rankcast.core.snapshot import locked, make_directory
from rankcast.errors import InputError, JournalError, SettingError, ShardError, StaleTokenError
from rankcast.state import batches
from rankcast.state.answers import FOLDER, Answers
from rankcast.state.batches import Token
from rankcast.state.checkpoint import Checkpoint, Mark
from rankcast.state.high_water import HighWater, check_reached
from rankcast.state.journal import Engine, Journal, Record, refused_at_the_door, replay
from rankcast.state.log import Bytes

_JOURNAL = "journal.sqlite"
_SNAPSHOT = "snapshot"

E = TypeVar("E", bound=Engine)
T = TypeVar("T")


class Step(NamedTuple):
    """An applied batch: its number, the answer, and the answer's bytes."""

    number: int
    answer: pa.Table
    data: Bytes


class Shard(Generic[E]):
    """An engine on disk; created by `Shard.open`, and a context manager.

    Several threads may call its methods; calls take turns. `append` applies a batch after all earlier
    ones, `results` and `read` run between two batches. After a kill the shard opens
    again with every answered batch, each applied once. A shard belongs to the process that opened
    it; a forked child is refused.

    >>> import tempfile
    >>> from rankcast import RangeTopK
    >>> path = tempfile.mkdtemp()
    >>> with Shard.open(path, RangeTopK(k=1)) as shard:
    ...     start = shard.token
    ...     objects = {"id": ["a", "b"], "x": [3, 4], "y": [2.0, 1.0]}
    ...     batch = [("subscribe", {"id": [1]}), ("publish", objects)]
    ...     token, deltas = shard.apply(batch, after=start)
    >>> deltas.select(["subscription", "op", "item"]).to_pylist()
    [{'subscription': 1, 'op': 'enter', 'item': 'b'}]
    >>> with Shard.open(path, RangeTopK(k=1)) as shard:  # after a restart the same batch gets the same answer
    ...     shard.apply(batch, after=start) == (token, deltas)
    True
    """

    def __init__(
        self,
        path: Path,
        engine: E,
        given: Mapping[str, Any],
        limits: tuple[int, int, int],
        *,
        accept_loss: bool = False,
    ) -> None:
        self._path = path
        self._process = os.getpid()
        self._accept_loss = accept_loss
        self._type: type[E] = type(engine)
        self._given = dict(given)
        self._batches, self._bytes, self._receipts = limits
        self._turn = threading.RLock()
        self._engine: E | None = None  # None: what is in memory does not count, recover before use
        self._closed = False
        self._together = False  # batches are collected, and committed at once
        self._grouped = 0  # how many bytes of them are not committed yet; 0: no transaction is open
        with ExitStack() as opened:
            opened.enter_context(_held(path))
            self._checkpoint = Checkpoint(path / _SNAPSHOT)
            opened.callback(self._checkpoint.close)
            self._journal = Journal(path / _JOURNAL, make=not self._checkpoint.exists())
            opened.callback(self._journal.close)
            self._answers = Answers(path / FOLDER)
            opened.callback(self._answers.close)
            self._journal.upgrade(self._answers)
            self._high = HighWater(path)
            opened.callback(self._high.close)
            self._agree(engine)
            self._live()
            self._accept_loss = False
            self._closing = opened.pop_all()

    @classmethod
    def open(
        cls,
        path: str | os.PathLike[str],
        engine: E,
        *,
        given: Mapping[str, Any] | None = None,
        snapshot_batches: int = 1000,
        snapshot_bytes: int = 64 << 20,
        receipts: int = 16,
        accept_loss: bool = False,
    ) -> Self:
        """Open the shard at `path`, or create it with the state of `engine`.

        Args:
            path: a directory for this shard only.
            engine: which engine, with which settings; it is copied, never changed.
            given: what a snapshot cannot hold, passed to the engine's `restore`.
            snapshot_batches: write a snapshot after so many batches ...
            snapshot_bytes: ... or after so many bytes in the journal, whichever comes first; answers, which
                are not run again, count a quarter.
            receipts: how many of the last batches can be offered again; batches that no snapshot covers yet
                always can.
            accept_loss: open a shard that has lost answered batches, at the last one that is left.

        Raises:
            ShardError: another process holds it, it was made for another engine or other settings, or
                answered batches are lost.
            SnapshotError: its snapshot is damaged, foreign or of a newer format.
            JournalError: its journal is.
        """
        limits = {
            "snapshot_batches": snapshot_batches,
            "snapshot_bytes": snapshot_bytes,
            "receipts": receipts,
        }
        for name, value in limits.items():
            if value < 1:
                raise SettingError(f"{name} is {value}", where="Shard.open", expected="at least 1")
        root = Path(path)
        make_directory(root)
        limited = (snapshot_batches, snapshot_bytes, receipts)
        return cls(root, engine, given or {}, limited, accept_loss=accept_loss)

    @property
    def token(self) -> Token:
        """The token after the last batch, which the next batch names as `after`."""
        with self._turn:
            self._live()
            return self._mark.token

    @property
    def number(self) -> int:
        """How many batches were applied since the shard was created."""
        with self._turn:
            self._live()
            return self._mark.number

    @property
    def engine(self) -> E:
        """The live engine, for one thread to look at. After a failure it is another object: ask each time.

        Do not change it: the journal would not know. It does not wait for its turn either: if another thread
        may apply a batch at the same time, use `results` or `read`.
        """
        with self._turn:
            return self._live()

    def results(self, ids: Any = None) -> pa.Table:
        """The current results, all or those of some subscriptions, as of the last answered batch."""

        def ask(engine: Any) -> pa.Table:
            if not hasattr(engine, "results"):
                raise ShardError(f"a {self._type.__name__} keeps no results")
            return engine.results() if ids is None else engine.results(ids)

        return self.read(ask)

    def read(self, ask: Callable[[E], T]) -> T:
        """Return `ask(engine)`, between two batches: nobody changes the engine meanwhile.

        `ask` must not change the engine, nor keep it. Batches wait until it returns.
        """
        with self._turn:
            engine = self._live()
            try:
                return ask(engine)
            except BaseException as error:
                if not isinstance(error, Exception) or getattr(engine, "in_doubt", False):
                    self._engine = None
                raise

    @property
    def covered(self) -> int:
        """The number of the last batch that a snapshot on disk contains."""
        return self._checkpoint.covered

    @property
    def snapshot_failure(self) -> Exception | None:
        """Why the last snapshot could not be written, if so. Nothing is lost then: the journal is longer."""
        return self._checkpoint.failure

    def apply(self, batch: Any, *, after: Token) -> tuple[Token, pa.Table]:
        """Apply one batch: a table of events, or a sequence of commands `(call, rows)`.

        Deterministic and atomic: when this returns, the whole batch is on disk; if it raises, nothing has
        changed. The same batch after the same token gives the first answer. Cost: the engine's, a flushed
        write of the batch, and a write of its answer that is flushed later. If a batch is refused at its
        second command or later, or by a user's function, the next use of the shard starts with a recovery.

        Raises:
            InputError: the engine refuses the batch.
            StaleTokenError: `after` is not the shard's token, and this is not one of the last batches.
            JournalError: it could not be written; it may be offered again.
        """
        with self._turn:
            return self._apply(batch, after)

    def prepare(self, batch: Any) -> batches.Prepared:
        """A batch in the form in which `apply` and `append` write it; they take it as it is.

        Raises:
            InputError: its rows cannot be read.
        """
        with self._turn:
            engine = self._live()
            return batches.prepared(batch, engine.calls, engine.check_rows)

    def append(self, batch: Any) -> tuple[Token, pa.Table]:
        """Apply one batch after all earlier ones; see `apply`.

        For several threads, which would compete for the token. A caller that does not get the answer cannot
        offer the batch again without applying it twice; use `apply` for that.
        """
        with self._turn:
            self._live()
            return self._apply(batch, self._mark.token)

    @contextmanager
    def together(self) -> Iterator[None]:
        """Commit the batches of this thread at once, at the end: one flush for all of them.

        Each is a separate batch with a number, a token and an answer, and a refused one does not
        affect the others. But none is on disk before the end, so do not publish any answer earlier. Other
        threads wait meanwhile. An exception that leaves the block undoes all of them.

        >>> import tempfile
        >>> from rankcast import RangeTopK
        >>> with Shard.open(tempfile.mkdtemp(), RangeTopK(k=1)) as shard:
        ...     with shard.together():
        ...         for x in (1, 2, 3):
        ...             _ = shard.append({"id": [x], "x": [x], "y": [x]})
        ...     shard.number
        3
        """
        with self._turn:
            if self._together:
                raise ShardError("batches are being put together already")
            self._live()
            self._together = True
            try:
                yield
                self._commit()
            except BaseException:
                self._take_back()
                raise
            finally:
                self._together = False
            if self._engine is not None:
                self._keep_up(self._engine)

    def beside(self, statement: str, values: Sequence[Any] = ()) -> list[tuple[Any, ...]]:
        """Run a statement on the caller's own tables in the journal's database.

        Inside `together` it is committed or undone with the batches: data that belongs to a batch
        exists if and only if the batch does. Outside it is committed by itself. The caller's tables have
        names that start with "own_"; the journal's tables are off limits.
        """
        with self._turn:
            self._live()
            self._begin_group()
            return self._journal.run(statement, values)

    def beside_many(self, statement: str, rows: Iterable[Sequence[Any]]) -> None:
        """Run a statement once for each of many rows; see `beside`."""
        with self._turn:
            self._live()
            self._begin_group()
            self._journal.run_many(statement, rows)

    def step(self, batch: batches.Prepared) -> Step:
        """Apply one batch like `append`; returns the answer as the engine gave it, and as bytes.

        For callers that also write answers elsewhere. The engine gets the tables of the batch as they
        are, which are those that its bytes hold.
        """
        with self._turn:
            engine = self._live()
            self._check_size(batch.data)
            answer, data = self._advance(engine, batch)
            if not self._together:
                self._keep_up(engine)
            return Step(self._mark.number, answer, data)

    def snapshot(self) -> None:
        """Write a snapshot now and wait for it; the journal drops what it covers."""
        with self._turn:
            engine = self._live()
            self._checkpoint.settle(wait=True)
            self._start_snapshot(engine)
            self._checkpoint.settle(wait=True)
            if self._checkpoint.failure is not None:
                raise self._checkpoint.failure
            self._journal.forget(self._checkpoint.covered, receipts=self._receipts)
            self._forget_answers()

    def close(self) -> None:
        """Finish a snapshot in progress, close the files and release the shard."""
        if os.getpid() != self._process:  # a fork's copy: file, lock and thread are those of the parent
            return
        with self._turn:
            self._engine, self._closed = None, True
            self._closing.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _agree(self, engine: E) -> None:
        """Check that disk and `engine` fit together; write the first snapshot if there is none."""
        kind = self._type.__name__
        header, arrays = engine.state()
        if not self._checkpoint.exists():
            told = None if self._accept_loss else self._high.read()
            if self._journal.newest() is not None or (told is not None and told.number > 0):
                raise ShardError(
                    f"{self._path} has lost its snapshot", detail="Its journal goes on from one."
                )
            first = Mark(0, batches.first_token(kind, header, arrays))
            self._high.make(first)
            self._checkpoint.write(kind, first, (header, arrays))
        self._checkpoint.require(kind, header["settings"])

    def _live(self) -> E:
        """The engine as of the last committed batch, recovered if necessary."""
        if self._closed:
            raise ShardError(f"{self._path} is closed")
        if os.getpid() != self._process:
            raise ShardError(
                f"{self._path} was opened by another process", hint="Open a shard after a fork, not before."
            )
        if self._engine is None:
            if self._grouped:
                raise JournalError(f"{self._path} cannot be written", detail="What was put together is lost.")
            self._journal.reopen()
            snapped, state = self._checkpoint.read()
            engine = self._type.restore(*state, **self._given)
            if self._accept_loss:
                self._journal.begin_at(snapped)
            mark, self._pending = replay(self._journal, self._answers, engine, snapped)
            self._reach_the_mark(snapped, mark)
            self._snapped, self._mark = snapped.number, mark
            self._engine = engine
        return self._engine

    def _reach_the_mark(self, snapped: Mark, mark: Mark) -> None:
        """Refuse a history that ends before an answered batch; then mark where it ends."""
        if self._accept_loss:
            self._high.make(mark)
            return
        told = self._high.newest or self._high.read()
        check_reached(
            self._path, told, mark, [*self._journal.marks(), snapped], marked=self._checkpoint.marked
        )
        if told is None or not told.token:
            self._high.make(mark)
        else:
            self._raise_the_mark(mark)

    def _raise_the_mark(self, mark: Mark) -> None:
        try:
            self._high.write(mark)
        except OSError as error:
            raise JournalError(f"{self._path} cannot be marked", detail=f"{error}.") from error

    def _apply(self, batch: Any, after: Token) -> tuple[Token, pa.Table]:
        engine = self._live()
        prepared = batch if isinstance(batch, batches.Prepared) else self.prepare(batch)
        self._check_size(prepared.data)
        if after != self._mark.token:
            return self._repeat(prepared.data, after)
        _, answer = self._advance(engine, prepared)
        if not self._together:
            self._keep_up(engine)
        return self._mark.token, batches.from_bytes(answer)

    def _check_size(self, data: bytes) -> None:
        if len(data) > self._journal.largest:
            raise InputError(f"the batch has {len(data)} bytes", expected=f"at most {self._journal.largest}")

    def _repeat(self, data: bytes, after: Token) -> tuple[Token, pa.Table]:
        """Answer a repeated batch from its receipt, or refuse it."""
        receipt = self._journal.receipt(after)
        if receipt is None:
            raise StaleTokenError(
                f"{after!r} is not the token of {self._path}, nor that of a batch it remembers",
                hint="Read the shard's token and go on from there.",
            )
        if batches.chain(after, data) != receipt.token:
            raise StaleTokenError(
                f"another batch was applied to {self._path} after {after!r}",
                detail=f"It was batch {receipt.number}; the shard is at batch {self._mark.number}.",
                hint="Read the shard's token and go on from there.",
            )
        answer = self._answers.get(receipt.number, receipt.digest)
        if answer is None:
            raise JournalError(
                f"{self._path} has lost the answer to batch {receipt.number}",
                detail="The batch was applied; what it changed is there.",
                hint="Read the shard's token and its results, and go on from there.",
            )
        return receipt.token, batches.from_bytes(answer)

    def _advance(self, engine: E, batch: batches.Prepared) -> tuple[pa.Table, Bytes]:
        """Apply the next batch and commit it. Meanwhile what is in memory does not count."""
        data, commands = batch.data, batch.given
        self._engine = None
        try:
            table = engine.apply(commands)
            answer = batches.to_view(table)
        except BaseException as error:
            if len(commands) == 1 and isinstance(error, InputError) and refused_at_the_door(engine, error):
                self._engine = engine
            else:  # recovery begins with what is on disk
                self._commit()
            raise
        mark = Mark(self._mark.number + 1, batches.chain(self._mark.token, data))
        digest = self._answers.add(mark.number, answer)
        record = Record(mark.number, self._mark.token, mark.token, data, digest)
        if self._together:
            self._begin_group()
            self._journal.insert(record)
            self._grouped += len(data)
        else:
            self._answers.write()
            self._journal.append(record, covered=self._checkpoint.covered, receipts=self._receipts)
            self._raise_the_mark(mark)
        self._pending += len(data) + len(answer) // 4
        self._mark = mark
        self._engine = engine
        return table, answer

    def _begin_group(self) -> None:
        """Open the transaction of a group of batches, if it is not open."""
        if self._together and not self._grouped:
            self._journal.begin()
            self._grouped = 1

    def _commit(self) -> None:
        """Commit the batches grouped so far."""
        if self._grouped:
            engine, self._engine = self._engine, None
            self._answers.write()
            self._journal.commit(covered=self._checkpoint.covered, receipts=self._receipts)
            self._grouped = 0
            self._raise_the_mark(self._mark)
            self._engine = engine

    def _take_back(self) -> None:
        """Undo the grouped batches that are not committed."""
        if self._grouped:
            self._grouped, self._engine = 0, None
            self._journal.roll_back()

    def _keep_up(self, engine: E) -> None:
        """Start a snapshot if one is due and none is being written; its failure does not affect the batch."""
        due = self._mark.number - self._snapped >= self._batches or self._pending >= self._bytes
        if self._checkpoint.settle() and due:
            try:
                self._start_snapshot(engine)
            except Exception as error:
                self._checkpoint.failed(error)
        self._forget_answers()

    def _start_snapshot(self, engine: E) -> None:
        self._snapped, self._pending = self._mark.number, 0
        state = engine.state()
        self._checkpoint.start(self._type.__name__, self._mark, state, before=self._answers.sync)

    def _forget_answers(self) -> None:
        """Drop answers that nobody can ask for any more."""
        self._answers.forget(min(self._checkpoint.covered, self._mark.number - self._receipts))


@contextmanager
def _held(path: Path) -> Iterator[None]:
    """Lock a shard against others; refuse a directory with other contents."""
    with ExitStack() as lock:
        try:
            lock.enter_context(locked(path, wait=False))
        except BlockingIOError as error:
            raise ShardError(f"{path} is in use", hint="Close the shard where it is open.") from error
        if any(path.iterdir()) and not (path / _JOURNAL).exists() and not (path / _SNAPSHOT).exists():
            raise ShardError(f"{path} holds files that are not a shard", hint="Use a new directory.")
        yield
