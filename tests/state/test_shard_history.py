"""Any history of a shard against a plain engine: repetitions, refusals, snapshots, restarts, trouble."""

from __future__ import annotations

import shutil
import sqlite3
import tempfile
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule

from rankcast.errors import InputError, JournalError, StaleTokenError
from rankcast.state import Shard

from .toy_engine import ToyCounter

KEYS = st.lists(st.integers(0, 4), max_size=3)
COMMANDS = st.one_of(
    st.tuples(st.just("subscribe"), KEYS.map(lambda keys: pa.table({"id": pa.array(keys, pa.int64())}))),
    st.tuples(st.just("unsubscribe"), KEYS.map(lambda keys: pa.table({"id": pa.array(keys, pa.int64())}))),
    st.tuples(
        st.just("publish"),
        st.lists(st.tuples(st.integers(0, 4), st.integers(0, 9)), max_size=3).map(
            lambda rows: pa.table(
                {
                    "id": pa.array([key for key, _ in rows], pa.int64()),
                    "add": pa.array([amount for _, amount in rows], pa.int64()),
                }
            )
        ),
    ),
)
BATCHES = st.lists(COMMANDS, max_size=4)
RECEIPTS = 2


class Done(NamedTuple):
    """A batch that was applied."""

    after: str
    batch: list[tuple[str, pa.Table]]
    token: str
    answer: pa.Table


class ShardHistory(RuleBasedStateMachine):
    """The model is an engine in memory, and a list of what was applied."""

    def __init__(self) -> None:
        super().__init__()
        self.root = Path(tempfile.mkdtemp())
        self.moves = 0
        self.model = ToyCounter()
        self.done: list[Done] = []
        self.shard = self.open()

    def open(self) -> Shard[ToyCounter]:
        path = self.root / str(self.moves)
        return Shard.open(path, ToyCounter(), snapshot_batches=3, receipts=RECEIPTS)

    def copied(self) -> ToyCounter:
        header, arrays = self.model.state()
        return ToyCounter.restore(header, {name: array.copy() for name, array in arrays.items()})

    @rule(batch=BATCHES)
    def apply(self, batch: list[tuple[str, pa.Table]]) -> None:
        after, model = self.shard.token, self.copied()
        try:
            expected = model.apply(batch)
        except InputError:
            with pytest.raises(InputError):
                self.shard.apply(batch, after=after)
            return
        token, answer = self.shard.apply(batch, after=after)
        assert answer.equals(expected)
        self.model = model
        self.done.append(Done(after, batch, token, answer))

    @rule(back=st.integers(1, RECEIPTS))
    def offer_again(self, back: int) -> None:
        if back <= len(self.done):
            known = self.done[-back]
            token, answer = self.shard.apply(known.batch, after=known.after)
            assert token == known.token
            assert answer.equals(known.answer)

    @rule(back=st.integers(1, 9), batch=BATCHES)
    def offer_late(self, back: int, batch: list[tuple[str, pa.Table]]) -> None:
        """Another batch after an old token."""
        if back <= len(self.done) and not _same(batch, self.done[-back].batch):
            with pytest.raises(StaleTokenError):
                self.shard.apply(batch, after=self.done[-back].after)

    @rule()
    def snapshot(self) -> None:
        self.shard.snapshot()

    @rule()
    def reopen(self) -> None:
        self.shard.close()
        self.shard = self.open()

    @rule()
    def lose_the_process(self) -> None:
        """Go on from a copy of the files as they lie on disk this moment."""
        self.shard._checkpoint.settle(wait=True)  # a copy of a directory is not taken in one instant
        shutil.copytree(self.root / str(self.moves), self.root / str(self.moves + 1))
        self.shard.close()
        self.moves += 1
        self.shard = self.open()

    @rule(batch=BATCHES, statement=st.sampled_from(["BEGIN IMMEDIATE", "COMMIT"]))
    def lose_the_disk(self, batch: list[tuple[str, pa.Table]], statement: str) -> None:
        """The journal cannot be written; the batch is not applied."""
        journal = self.shard._journal
        journal._connection = FullDisk(journal._connection, statement)  # type: ignore[assignment]
        with pytest.raises((JournalError, InputError)):
            self.shard.apply(batch, after=self.shard.token)
        self.shard._engine = None  # a batch refused at once has left the connection as it is

    @invariant()
    def agrees(self) -> None:
        assert self.shard.number == len(self.done)
        assert self.shard.engine.fingerprint() == self.model.fingerprint()
        if self.done:
            assert self.shard.token == self.done[-1].token

    def teardown(self) -> None:
        self.shard.close()
        shutil.rmtree(self.root)


class FullDisk:
    """A connection on which one kind of statement fails."""

    def __init__(self, real: sqlite3.Connection, statement: str) -> None:
        self._real = real
        self._statement = statement

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        if statement == self._statement:
            raise sqlite3.OperationalError("database or disk is full")
        return self._real.execute(statement, *values)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def _same(left: list[tuple[str, pa.Table]], right: list[tuple[str, pa.Table]]) -> bool:
    return len(left) == len(right) and all(
        one[0] == other[0] and one[1].equals(other[1]) for one, other in zip(left, right, strict=True)
    )


TestShardHistory = ShardHistory.TestCase
TestShardHistory.settings = settings(max_examples=settings().max_examples // 4, stateful_step_count=25)
