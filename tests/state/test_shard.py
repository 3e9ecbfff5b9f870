"""Shards: each batch once, whole or not at all, and back after any trouble."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Mapping
from contextlib import closing, suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rankcast import RangeTopK, RankedMatcher
from rankcast.core import snapshot
from rankcast.errors import (
    InputError,
    JournalError,
    SettingError,
    ShardError,
    SnapshotError,
    StaleTokenError,
)
from rankcast.state import Shard, answers
from rankcast.state.answers import Answers

from .toy_engine import ToyCounter

FIRST = [("subscribe", {"id": [1, 2, 3]}), ("publish", {"id": [1, 2, 1], "add": [5, 6, 7]})]
EVENTS = pa.table({"id": [2, 3, 2], "add": [1, 2, 3]})
BAD_SECOND = [("publish", {"id": [1], "add": [1]}), ("publish", {"id": [99], "add": [1]})]


def opened(path: Path, **given: Any) -> Shard[ToyCounter]:
    return Shard.open(path, ToyCounter(), **given)


def after_first(path: Path, **given: Any) -> Shard[ToyCounter]:
    shard = opened(path, **given)
    shard.apply(FIRST, after=shard.token)
    return shard


def twin(*batches: Any) -> ToyCounter:
    """An engine in memory that was given the same batches."""
    engine = ToyCounter()
    for batch in batches:
        commands = batch if isinstance(batch, list) else [("publish", batch)]
        engine.apply([(call, pa.table(rows)) for call, rows in commands])
    return engine


def replayable(path: Path) -> list[int]:
    """The batches that the journal could replay."""
    with closing(sqlite3.connect(path / "journal.sqlite")) as connection:
        rows = connection.execute(
            "SELECT number FROM batch WHERE batch IS NOT NULL ORDER BY number"
        ).fetchall()
    return [number for (number,) in rows]


def test_a_batch_advances_the_engine_and_gives_the_net_deltas(tmp_path: Path) -> None:
    with opened(tmp_path / "shard") as shard:
        start = shard.token
        token, deltas = shard.apply(FIRST, after=start)
        assert deltas["op"].to_pylist() == ["enter", "enter", "enter"]
        assert (shard.number, shard.token) == (1, token)
        assert token != start
        assert shard.engine.fingerprint() == twin(FIRST).fingerprint()


def test_the_same_batches_give_the_same_tokens_anywhere(tmp_path: Path) -> None:
    tokens = []
    for name, cut in (("a", False), ("b", True)):
        with after_first(tmp_path / name) as shard:
            events = pa.concat_tables([EVENTS.slice(0, 1), EVENTS.slice(1)]) if cut else EVENTS
            tokens.append(shard.apply(events, after=shard.token)[0])
    assert tokens[0] == tokens[1]


def test_a_batch_offered_again_is_answered_from_its_receipt(tmp_path: Path) -> None:
    with opened(tmp_path) as shard:
        start = shard.token
        token, deltas = shard.apply(FIRST, after=start)
        later, _ = shard.apply(EVENTS, after=token)
        for _ in range(2):
            again, same = shard.apply(FIRST, after=start)
            assert again == token
            assert same.equals(deltas)
        assert (shard.number, shard.token) == (2, later)
        assert shard.engine.fingerprint() == twin(FIRST, EVENTS).fingerprint()


def test_receipts_survive_a_restart_and_a_snapshot(tmp_path: Path) -> None:
    with opened(tmp_path) as shard:
        start = shard.token
        token, deltas = shard.apply(FIRST, after=start)
        shard.snapshot()
    with opened(tmp_path) as shard:
        again, same = shard.apply(FIRST, after=start)
        assert again == token == shard.token
        assert same.equals(deltas)


@pytest.mark.parametrize("batch", [FIRST, EVENTS], ids=["known batch", "other batch"])
@pytest.mark.parametrize("after", ["", "no token", "0" * 64, None, 7])
def test_an_unknown_token_is_refused(tmp_path: Path, batch: Any, after: Any) -> None:
    with after_first(tmp_path) as shard:
        before = shard.token, shard.engine.fingerprint()
        with pytest.raises(StaleTokenError, match="not the token"):
            shard.apply(batch, after=after)
        assert (shard.token, shard.engine.fingerprint()) == before


def test_another_batch_after_an_old_token_is_refused(tmp_path: Path) -> None:
    with opened(tmp_path) as shard:
        start = shard.token
        shard.apply(FIRST, after=start)
        with pytest.raises(StaleTokenError, match="another batch was applied"):
            shard.apply(FIRST[:1], after=start)
        assert shard.number == 1


def test_only_so_many_receipts_are_kept(tmp_path: Path) -> None:
    with after_first(tmp_path, receipts=2) as shard:
        tokens = [shard.token]
        for _ in range(4):
            tokens.append(shard.apply(EVENTS, after=tokens[-1])[0])
        shard.snapshot()
        assert shard.apply(EVENTS, after=tokens[-3])[0] == tokens[-2]
        with pytest.raises(StaleTokenError):
            shard.apply(EVENTS, after=tokens[-4])


@pytest.mark.parametrize("with_snapshot", [False, True])
def test_a_shard_opens_where_it_was_left(tmp_path: Path, with_snapshot: bool) -> None:
    with after_first(tmp_path) as shard:
        if with_snapshot:
            shard.snapshot()
        shard.apply(EVENTS, after=shard.token)
        left = shard.number, shard.token, shard.engine.fingerprint()
    with opened(tmp_path) as shard:
        assert (shard.number, shard.token, shard.engine.fingerprint()) == left
        shard.apply(EVENTS, after=shard.token)
        assert shard.engine.fingerprint() == twin(FIRST, EVENTS, EVENTS).fingerprint()


def test_a_shard_may_begin_with_a_loaded_engine(tmp_path: Path) -> None:
    loaded = twin(FIRST)
    before = loaded.fingerprint()
    with Shard.open(tmp_path / "a", loaded) as shard, opened(tmp_path / "b") as empty:
        assert shard.engine.fingerprint() == before
        assert shard.token != empty.token
        shard.apply(EVENTS, after=shard.token)
        assert loaded.fingerprint() == before  # the engine given is not the shard's
    with opened(tmp_path / "a") as shard:
        assert shard.engine.fingerprint() == twin(FIRST, EVENTS).fingerprint()


@pytest.mark.parametrize(
    "bad",
    [
        pa.table({"id": [99], "add": [1]}),
        BAD_SECOND,
        [*FIRST[1:], ("subscribe", {"id": [7, 1]})],
        [("publish", {"id": [1], "add": [1]}), ("upsert", {"id": [1]})],
        [("publish", {"id": [1], "add": [1]}), ("unsubscribe", [1, 99])],
        {"id": [1, 2], "add": [1]},
    ],
    ids=["one call", "second call", "row of second", "unknown call", "ids", "no table"],
)
def test_a_refused_batch_changes_nothing(tmp_path: Path, bad: Any) -> None:
    with after_first(tmp_path) as shard:
        before = shard.number, shard.token, shard.engine.fingerprint()
        for _ in range(2):
            with pytest.raises(InputError):
                shard.apply(bad, after=shard.token)
            assert (shard.number, shard.token, shard.engine.fingerprint()) == before
        shard.apply(EVENTS, after=shard.token)
    with opened(tmp_path) as shard:
        assert shard.engine.fingerprint() == twin(FIRST, EVENTS).fingerprint()


def test_a_batch_of_nothing_is_a_batch(tmp_path: Path) -> None:
    with after_first(tmp_path) as shard:
        before = shard.engine.fingerprint()
        nothing: list[Any] = [[], EVENTS.slice(0, 0)]
        for batch in nothing:
            _, deltas = shard.apply(batch, after=shard.token)
            assert deltas.num_rows == 0
        assert shard.number == 3
        assert shard.engine.fingerprint() == before


class Faulty(ToyCounter):
    """Fails in the middle of a batch when told to."""

    trouble: BaseException | None = None

    def _publish(self, rows: pa.Table) -> None:
        super()._publish(rows)
        if Faulty.trouble is not None:
            raise Faulty.trouble


@pytest.mark.parametrize("trouble", [MemoryError("no room"), KeyboardInterrupt(), ZeroDivisionError()])
def test_an_engine_that_fails_midway_is_made_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, trouble: BaseException
) -> None:
    with Shard.open(tmp_path, Faulty()) as shard:
        shard.apply(FIRST, after=shard.token)
        before = shard.token, shard.engine.fingerprint()
        with monkeypatch.context() as patch:
            patch.setattr(Faulty, "trouble", trouble)
            with pytest.raises(type(trouble)):
                shard.apply(EVENTS, after=shard.token)
        assert (shard.token, shard.engine.fingerprint()) == before
        shard.apply(EVENTS, after=shard.token)
        assert shard.engine.fingerprint() == twin(FIRST, EVENTS).fingerprint()


def test_a_full_disk_refuses_the_batch_and_the_engine_does_not_run_ahead(tmp_path: Path) -> None:
    with after_first(tmp_path) as shard:
        before = shard.token, shard.engine.fingerprint()
        pages = shard._journal._connection.execute("PRAGMA page_count").fetchone()[0]
        shard._journal._connection.execute(f"PRAGMA max_page_count = {pages}")
        big = pa.table({"id": [1] * 5000, "add": range(5000)})
        with pytest.raises(JournalError, match="full"):
            shard.apply(big, after=before[0])
        assert (shard.token, shard.engine.fingerprint()) == before
        token, _ = shard.apply(big, after=before[0])  # the limit went with the connection
        assert shard.token == token
        assert shard.engine.fingerprint() == twin(FIRST, big).fingerprint()


class LostReply:
    """A connection that commits and then says that it could not."""

    def __init__(self, real: sqlite3.Connection) -> None:
        self._real = real

    def execute(self, statement: str, *values: Any) -> sqlite3.Cursor:
        answer = self._real.execute(statement, *values)
        if statement == "COMMIT":
            raise sqlite3.OperationalError("disk I/O error")
        return answer

    def __getattr__(self, name: str) -> Any:
        return getattr(self._real, name)


def test_a_commit_that_may_have_happened_is_looked_up(tmp_path: Path) -> None:
    with after_first(tmp_path) as shard:
        token = shard.token
        shard._journal._connection = LostReply(shard._journal._connection)  # type: ignore[assignment]
        with pytest.raises(JournalError, match="I/O error"):
            shard.apply(EVENTS, after=token)
        assert shard.number == 2
        again, deltas = shard.apply(EVENTS, after=token)
        assert again == shard.token
        assert deltas.num_rows == 2
        assert shard.engine.fingerprint() == twin(FIRST, EVENTS).fingerprint()


def test_snapshots_come_by_count_and_the_journal_forgets(tmp_path: Path) -> None:
    with after_first(tmp_path, snapshot_batches=4, receipts=1) as shard:
        for _ in range(30):
            shard.apply(EVENTS, after=shard.token)
            shard._checkpoint.settle(wait=True)
        assert snapshot.peek(tmp_path / "snapshot").header["number"] == 28
        assert replayable(tmp_path) == [29, 30, 31]
    with opened(tmp_path) as shard:
        assert shard.engine.fingerprint() == twin(FIRST, *[EVENTS] * 30).fingerprint()


def test_snapshots_come_by_bytes(tmp_path: Path) -> None:
    with after_first(tmp_path, snapshot_bytes=12_000) as shard:
        for _ in range(20):
            shard.apply(EVENTS, after=shard.token)
            shard._checkpoint.settle(wait=True)
        number = snapshot.peek(tmp_path / "snapshot").header["number"]
        assert 0 < number < 21


def test_the_shard_goes_on_while_a_snapshot_is_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And the snapshot is of the batch it was started at, not of those applied meanwhile."""
    gate, real = threading.Event(), snapshot.write

    def slow(*place: Any, **named: Any) -> None:
        assert gate.wait(30)
        real(*place, **named)

    with after_first(tmp_path, snapshot_batches=3) as shard:
        monkeypatch.setattr(snapshot, "write", slow)
        for _ in range(9):
            shard.apply(EVENTS, after=shard.token)
        assert snapshot.peek(tmp_path / "snapshot").header["number"] == 0
        assert replayable(tmp_path) == list(range(1, 11))  # nothing is forgotten before it is covered
        gate.set()
        left = shard.engine.fingerprint()
    assert snapshot.peek(tmp_path / "snapshot").header["number"] == 3
    saved = snapshot.read(tmp_path / "snapshot")
    at_three = ToyCounter.restore(saved.header["engine"], saved.arrays)
    assert at_three.fingerprint() == twin(FIRST, EVENTS, EVENTS).fingerprint()
    with opened(tmp_path) as shard:
        assert shard.engine.fingerprint() == left


def test_a_snapshot_that_fails_costs_nothing_but_a_longer_journal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def full(*_: Any, **__: Any) -> None:
        raise OSError(28, "No space left on device")

    with after_first(tmp_path, snapshot_batches=2) as shard:
        with monkeypatch.context() as patch, caplog.at_level(logging.WARNING):
            patch.setattr(snapshot, "write", full)
            for _ in range(8):
                shard.apply(EVENTS, after=shard.token)
            with pytest.raises(OSError, match="No space"):
                shard.snapshot()
        assert "No space left" in str(shard.snapshot_failure)
        assert "No space left" in caplog.text
        shard.snapshot()
        assert shard.snapshot_failure is None
    with opened(tmp_path) as shard:
        assert shard.engine.fingerprint() == twin(FIRST, *[EVENTS] * 8).fingerprint()


def test_a_state_that_cannot_be_copied_does_not_fail_the_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_: Any) -> Any:
        raise MemoryError("no room for a copy")

    with after_first(tmp_path, snapshot_batches=2) as shard:
        monkeypatch.setattr(ToyCounter, "state", broken)
        token, _ = shard.apply(EVENTS, after=shard.token)
        assert shard.token == token
        assert isinstance(shard.snapshot_failure, MemoryError)


def test_two_cannot_hold_one_shard(tmp_path: Path) -> None:
    with opened(tmp_path) as shard:
        with pytest.raises(ShardError, match="in use"):
            opened(tmp_path)
        shard.apply(FIRST, after=shard.token)
    opened(tmp_path).close()


def test_a_closed_shard_says_so(tmp_path: Path) -> None:
    shard = after_first(tmp_path)
    token = shard.token
    shard.close()
    shard.close()
    for use in (lambda: shard.engine, lambda: shard.token, lambda: shard.number, shard.snapshot):
        with pytest.raises(ShardError, match="closed"):
            use()
    with pytest.raises(ShardError, match="closed"):
        shard.apply(EVENTS, after=token)


class Other(ToyCounter):
    """Another engine with the same settings."""


def test_another_engine_or_other_settings_are_refused(tmp_path: Path) -> None:
    after_first(tmp_path).close()
    with pytest.raises(ShardError, match="shard of a ToyCounter, not of a Other"):
        Shard.open(tmp_path, Other())
    with pytest.raises(ShardError, match="other settings"):
        Shard.open(tmp_path, ToyCounter(factor=7))
    with opened(tmp_path) as shard:
        assert shard.number == 1


class Needy(ToyCounter):
    """Needs something that a snapshot cannot hold."""

    def __init__(self, *, helper: Any = None, **settings: Any) -> None:
        super().__init__(**settings)
        self.helper = helper


def test_what_a_snapshot_cannot_hold_is_given_at_every_recovery(tmp_path: Path) -> None:
    with Shard.open(tmp_path, Needy(helper=len), given={"helper": len}) as shard:
        shard.apply(FIRST, after=shard.token)
        with pytest.raises(InputError):
            shard.apply(BAD_SECOND, after=shard.token)
        assert shard.engine.helper is len


class Moody(ToyCounter):
    """Answers as its mood is."""

    mood = 0

    def _publish(self, rows: pa.Table) -> None:
        super()._publish(rows)
        self._values += Moody.mood


def test_an_engine_that_answers_otherwise_when_replayed_is_told(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Shard.open(tmp_path, Moody()) as shard:
        shard.apply(FIRST, after=shard.token)
    monkeypatch.setattr(Moody, "mood", 1)
    with pytest.raises(ShardError, match="batch 1 has another answer"):
        Shard.open(tmp_path, Moody())
    monkeypatch.setattr(Moody, "mood", 0)
    Shard.open(tmp_path, Moody()).close()


def test_a_directory_of_others_is_left_alone(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(ShardError, match="not a shard"):
        opened(tmp_path)
    assert [file.name for file in tmp_path.iterdir()] == ["thesis.txt"]


@pytest.mark.parametrize("setting", ["snapshot_batches", "snapshot_bytes", "receipts"])
def test_settings_are_checked(tmp_path: Path, setting: str) -> None:
    with pytest.raises(SettingError, match=f"{setting} is 0"):
        opened(tmp_path / "shard", **{setting: 0})
    assert not (tmp_path / "shard").exists()


def remove_journal(path: Path) -> None:
    for file in path.glob("journal.sqlite*"):
        file.unlink()


def empty_journal(path: Path) -> None:
    remove_journal(path)
    (path / "journal.sqlite").touch()


def remove_snapshot(path: Path) -> None:
    for file in (path / "snapshot").iterdir():
        file.unlink()


def execute(statement: str) -> Any:
    def change(path: Path) -> None:
        with closing(sqlite3.connect(path / "journal.sqlite")) as connection:
            connection.execute(statement)
            connection.commit()

    return change


def flip_array(path: Path) -> None:
    file = next((path / "snapshot").glob("values.*"))
    file.write_bytes(bytes([file.read_bytes()[0] ^ 1]) + file.read_bytes()[1:])


@pytest.mark.parametrize(
    ("damage", "error"),
    [
        (remove_journal, JournalError),
        (empty_journal, JournalError),
        (remove_snapshot, ShardError),
        (flip_array, SnapshotError),
        (execute("DELETE FROM batch"), JournalError),
        (execute("DELETE FROM batch WHERE number = 3"), JournalError),
        (execute("DELETE FROM batch WHERE number = 4"), JournalError),
        (execute("UPDATE batch SET batch = x'00' WHERE number = 4"), JournalError),
        (execute("UPDATE batch SET batch = NULL WHERE number = 4"), JournalError),
        (execute("UPDATE batch SET digest = x'00' WHERE number = 4"), JournalError),
        (execute("UPDATE batch SET number = 9 WHERE number = 5"), JournalError),
    ],
)
def test_damage_is_told_and_nothing_is_made_up(tmp_path: Path, damage: Any, error: type[Exception]) -> None:
    with after_first(tmp_path) as shard:
        shard.apply(EVENTS, after=shard.token)
        shard.snapshot()
        for _ in range(3):
            shard.apply(EVENTS, after=shard.token)
    damage(tmp_path)
    for _ in range(2):
        with pytest.raises(error):
            opened(tmp_path)


@pytest.mark.parametrize(
    "header", [{}, {"number": -1}, {"number": True}, {"token": "x"}, {"engine": []}, {"kind": 3}]
)
def test_a_snapshot_that_is_not_a_shard_s_is_refused(tmp_path: Path, header: Mapping[str, Any]) -> None:
    after_first(tmp_path).close()
    saved = snapshot.read(tmp_path / "snapshot")
    other = {**saved.header, **header} if header else {}
    snapshot.write(tmp_path / "snapshot", kind="Shard", header=other, arrays=saved.arrays)
    with pytest.raises(SnapshotError, match="does not say"):
        opened(tmp_path)
    snapshot.write(tmp_path / "snapshot", kind="ToyCounter", header=saved.header, arrays=saved.arrays)
    with pytest.raises(SnapshotError, match="ToyCounter"):
        opened(tmp_path)


@pytest.mark.parametrize("keep", [["journal.sqlite"], []], ids=["journal made", "directory made"])
def test_a_creation_that_was_cut_short_is_taken_up(tmp_path: Path, keep: list[str]) -> None:
    path = tmp_path / "shard"
    opened(path).close()
    remove_snapshot(path)
    (path / "snapshot").rmdir()
    (path / "answers").rmdir()
    for file in path.iterdir():
        if file.name not in keep:
            file.unlink()
    with opened(path) as shard:
        shard.apply(FIRST, after=shard.token)


def lose_answers(path: Path) -> None:
    shutil.rmtree(path / "answers")


def forge_answers(path: Path) -> None:
    """An answer of a batch that was taken back, as a power cut may bring it back."""
    with closing(Answers(path / "answers")) as other:
        other.cut(1)
        other.add(2, b"of another batch")
        other.write()


def spoil_answers(path: Path) -> None:
    [file] = (path / "answers").glob("*.log")
    file.write_bytes(file.read_bytes()[:-5] + b"xxxxx")


@pytest.mark.parametrize("harm", [lose_answers, forge_answers, spoil_answers])
def test_answers_that_are_lost_are_made_again_from_the_journal(
    tmp_path: Path, harm: Callable[[Path], None]
) -> None:
    with after_first(tmp_path) as shard:
        told = [(shard.token, *shard.apply(EVENTS, after=shard.token)) for _ in range(4)]
    harm(tmp_path)
    for _ in range(2):
        with opened(tmp_path) as shard:
            for after, token, answer in told:
                assert shard.apply(EVENTS, after=after) == (token, answer)
            shard.snapshot()
    with opened(tmp_path) as shard:
        after, token, answer = told[-1]
        assert shard.apply(EVENTS, after=after) == (token, answer)


def test_an_answer_that_cannot_be_made_again_is_told(tmp_path: Path) -> None:
    """Its batch is part of a snapshot; the shard itself is well."""
    with after_first(tmp_path) as shard:
        after = shard.token
        token, _ = shard.apply(EVENTS, after=after)
        shard.snapshot()
    lose_answers(tmp_path)
    with opened(tmp_path) as shard:
        with pytest.raises(JournalError, match="lost the answer to batch 2"):
            shard.apply(EVENTS, after=after)
        assert shard.token == token
        again = shard.token, *shard.apply(EVENTS, after=shard.token)
        assert shard.apply(EVENTS, after=again[0]) == again[1:]


def test_answers_do_not_grow_with_what_was_forgotten(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(answers, "_FILE", 2000)
    monkeypatch.setattr(answers, "_SPARE", 5000)
    sizes = []
    with after_first(tmp_path, snapshot_batches=5, receipts=2) as shard:
        for _ in range(60):
            shard.append(EVENTS)
            shard._checkpoint.settle(wait=True)
            sizes.append(sum(file.stat().st_size for file in (tmp_path / "answers").iterdir()))
    assert max(sizes) < 3 * max(sizes[:10])


def test_an_answer_that_cannot_be_written_takes_its_batch_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with after_first(tmp_path) as shard:
        real = os.write

        def full(descriptor: int, data: Any) -> int:
            real(descriptor, bytes(data)[:10])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

        with monkeypatch.context() as patch:
            patch.setattr(os, "write", full)
            with pytest.raises(JournalError, match="cannot be written"):
                shard.append(EVENTS)
        after = shard.token
        told = shard.apply(EVENTS, after=after)
        assert shard.number == 2
    with opened(tmp_path) as shard:
        assert shard.apply(EVENTS, after=after) == told


def test_threads_take_turns(tmp_path: Path) -> None:
    """Of several threads that race for the next token one wins each time; nothing is lost or doubled."""

    def race(shard: Shard[ToyCounter], worker: int) -> None:
        done = 0
        while done < 10:
            batch = pa.table({"id": [1], "add": [worker]})
            with suppress(StaleTokenError):
                shard.apply(batch, after=shard.token)
                done += 1

    with after_first(tmp_path, snapshot_batches=7) as shard:
        workers = [threading.Thread(target=race, args=(shard, worker)) for worker in range(3)]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()
        assert shard.number == 31
        live = shard.engine.fingerprint()
    with opened(tmp_path) as shard:
        assert shard.engine.fingerprint() == live


def test_threads_append_and_read_between_batches(tmp_path: Path) -> None:
    """Nobody hands a token around, and whoever reads sees the state after some batch, whole."""
    torn: list[Any] = []
    ended = threading.Event()

    def watch(shard: Shard[Any]) -> None:
        while not ended.is_set():
            before = shard.read(lambda engine: (engine.results()["item"].to_pylist(), len(engine)))
            if len(before[0]) != before[1]:
                torn.append(before)

    def add(shard: Shard[Any], worker: int) -> None:
        for number in range(8):
            token, deltas = shard.append([("subscribe", {"id": [100 * worker + number]})])
            if len(token) != 64 or deltas.num_rows != 1:
                torn.append((token, deltas))

    with Shard.open(tmp_path, RangeTopK(k=1), snapshot_batches=7) as shard:
        shard.append({"id": [1], "x": [0.5], "y": [3.0]})
        watcher = threading.Thread(target=watch, args=(shard,))
        workers = [threading.Thread(target=add, args=(shard, worker)) for worker in range(3)]
        for thread in (watcher, *workers):
            thread.start()
        for worker in workers:
            worker.join()
        ended.set()
        watcher.join()
        assert not torn
        assert shard.number == 25
        assert shard.results().num_rows == 24
        assert shard.results([203])["subscription"].to_pylist() == [203]
    with Shard.open(tmp_path, RangeTopK(k=1)) as shard:
        assert shard.results().num_rows == 24


def test_an_engine_without_results_says_so(tmp_path: Path) -> None:
    matcher: Any = RankedMatcher(over=["x"])
    with (
        Shard.open(tmp_path, matcher) as shard,
        pytest.raises(ShardError, match="a RankedMatcher keeps no results"),
    ):
        shard.results()


def test_trouble_while_reading_costs_nothing(tmp_path: Path) -> None:
    with after_first(tmp_path) as shard:
        before = shard.engine
        with pytest.raises(ZeroDivisionError):
            shard.read(lambda engine: 1 // 0)
        assert shard.engine is before
        with pytest.raises(KeyboardInterrupt):
            shard.read(lambda engine: (_ for _ in ()).throw(KeyboardInterrupt()))
        assert shard.engine is not before
        assert shard.engine.fingerprint() == before.fingerprint()


class Doubtful(ToyCounter):
    """Refuses a batch after it has changed, and says so or not."""

    in_doubt = False

    def _publish(self, rows: pa.Table) -> None:
        super()._publish(rows)
        if rows.num_rows == 1:
            self.in_doubt = True
            raise InputError("came too late")


def test_an_engine_in_doubt_is_made_again(tmp_path: Path) -> None:
    with Shard.open(tmp_path, Doubtful()) as shard:
        shard.append(FIRST)
        before = shard.engine
        fingerprint = before.fingerprint()
        with pytest.raises(InputError, match="too late"):
            shard.append(EVENTS.slice(0, 1))
        assert shard.engine is not before
        assert shard.engine.fingerprint() == fingerprint
        shard.append(EVENTS)
        before = shard.engine
        with pytest.raises(InputError, match="unknown"):
            shard.append({"id": [99, 98], "add": [0, 0]})
        assert shard.engine is before, "a row refused at the door costs no recovery"
    Shard.open(tmp_path, Doubtful()).close()
