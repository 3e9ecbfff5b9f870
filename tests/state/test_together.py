"""Batches that are put together: each by itself, on disk at once, and taken back at once."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from rankcast.errors import InputError, JournalError, ShardError
from rankcast.state import Shard

from .test_shard import BAD_SECOND, EVENTS, FIRST, after_first, opened, replayable, twin
from .toy_engine import ToyCounter

TABLE = "CREATE TABLE IF NOT EXISTS own_note (number INTEGER PRIMARY KEY, text TEXT)"


def notes(shard: Shard[Any]) -> list[tuple[Any, ...]]:
    return shard.beside("SELECT number, text FROM own_note ORDER BY number")


def test_batches_are_their_own_and_committed_at_once(tmp_path: Path) -> None:
    with after_first(tmp_path / "alone") as alone, after_first(tmp_path / "shard") as shard:
        with shard.together():
            answers = [shard.append(EVENTS) for _ in range(5)]
            assert replayable(tmp_path / "shard") == [1]  # nobody else sees them before the end
        assert answers == [alone.append(EVENTS) for _ in range(5)]
        assert (shard.token, shard.number) == (alone.token, 6)
        assert replayable(tmp_path / "shard") == [1, 2, 3, 4, 5, 6]
    with opened(tmp_path / "shard") as shard:
        assert shard.engine.fingerprint() == twin(FIRST, *[EVENTS] * 5).fingerprint()


def test_what_leaves_as_an_exception_takes_all_back(tmp_path: Path) -> None:
    with after_first(tmp_path / "shard") as shard:
        shard.beside(TABLE)

        def broken() -> None:
            with shard.together():
                shard.append(EVENTS)
                shard.beside("INSERT INTO own_note VALUES (2, 'lost')")
                raise RuntimeError

        with pytest.raises(RuntimeError):
            broken()
        assert shard.number == 1
        assert notes(shard) == []
        assert shard.engine.fingerprint() == twin(FIRST).fingerprint()
        with shard.together():
            shard.append(EVENTS)
            shard.beside("INSERT INTO own_note VALUES (2, 'kept')")
            shard.beside_many("INSERT INTO own_note VALUES (?, ?)", [(3, "too"), (4, "and")])
    with opened(tmp_path / "shard") as shard:
        assert shard.number == 2
        assert notes(shard) == [(2, "kept"), (3, "too"), (4, "and")]


def test_one_that_is_refused_does_not_disturb_the_others(tmp_path: Path) -> None:
    with after_first(tmp_path / "shard") as shard:
        with shard.together():
            shard.append(EVENTS)
            with pytest.raises(InputError):
                shard.append({"id": [99], "add": [1]})  # at the door
            shard.append(EVENTS)
            with pytest.raises(InputError):
                shard.append(BAD_SECOND)  # in the middle: recovers, with what went before
            shard.append(EVENTS)
        assert shard.number == 4
        assert shard.engine.fingerprint() == twin(FIRST, *[EVENTS] * 3).fingerprint()


def test_a_batch_of_the_group_is_answered_again(tmp_path: Path) -> None:
    with after_first(tmp_path / "shard") as shard:
        start = shard.token
        with shard.together():
            first = shard.apply(EVENTS, after=start)
            assert shard.apply(EVENTS, after=start) == first
        assert shard.apply(EVENTS, after=start) == first


def test_a_group_that_cannot_be_written_is_taken_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with after_first(tmp_path / "shard") as shard:
        shard.beside(TABLE)

        def spoilt() -> None:
            with shard.together():
                shard.append(EVENTS)
                with pytest.raises(JournalError):
                    shard.beside("INSERT INTO own_nothing VALUES (1)")
                shard.append(EVENTS)

        spoilt()  # a statement that fails is not the batches' trouble
        assert shard.number == 3
        real = sqlite3.Connection.execute

        class Full:
            """A connection without room for a commit."""

            def __init__(self, connection: sqlite3.Connection) -> None:
                self._connection = connection

            def __getattr__(self, name: str) -> Any:
                return getattr(self._connection, name)

            def execute(self, statement: str, *given: Any) -> Any:
                if statement == "COMMIT":
                    raise sqlite3.OperationalError("database or disk is full")
                return real(self._connection, statement, *given)

        journal = shard.__dict__["_journal"]
        monkeypatch.setattr(journal, "_connection", Full(journal.__dict__["_connection"]))

        def full() -> None:
            with shard.together():
                shard.append(EVENTS)

        with pytest.raises(JournalError, match="full"):
            full()
        assert shard.number == 3
        assert shard.engine.fingerprint() == twin(FIRST, *[EVENTS] * 2).fingerprint()
        shard.append(EVENTS)
    with opened(tmp_path / "shard") as shard:
        assert shard.number == 4


def test_snapshots_go_on(tmp_path: Path) -> None:
    with opened(tmp_path / "shard", snapshot_batches=4) as shard:
        shard.append(FIRST)
        for _ in range(5):
            with shard.together():
                for _ in range(3):
                    shard.append(EVENTS)
        shard.snapshot()
        assert shard.number == 16
    with opened(tmp_path / "shard") as shard:
        assert shard.engine.fingerprint() == twin(FIRST, *[EVENTS] * 15).fingerprint()
        with shard.together(), pytest.raises(ShardError), shard.together():
            pass


def test_a_prepared_batch_is_the_batch(tmp_path: Path) -> None:
    with Shard.open(tmp_path / "a", ToyCounter()) as a, Shard.open(tmp_path / "b", ToyCounter()) as b:
        assert a.append(a.prepare(FIRST)) == b.append(FIRST)
        with pytest.raises(InputError):
            a.prepare([("no", {"id": [1]})])
