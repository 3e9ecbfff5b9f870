"""The high-water mark: batches that were answered and are gone are told, and nothing else is."""

from __future__ import annotations

import errno
import os
import shutil
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rankcast.core import snapshot
from rankcast.errors import JournalError, ShardError
from rankcast.state import Shard, batches
from rankcast.state.checkpoint import Mark
from rankcast.state.high_water import FILE, HighWater

from .toy_engine import ToyCounter

FIRST = [("subscribe", {"id": [1, 2, 3]})]
EVENTS = pa.table({"id": [2, 3, 2], "add": [1, 2, 3]})
SLOT = 4096
WAL = "journal.sqlite-wal"


def opened(path: Path, **given: Any) -> Shard[ToyCounter]:
    return Shard.open(path, ToyCounter(), **given)


def crashed(path: Path, *, size: int = 4, snapshot_at: int = 0) -> Path:
    """A shard of so many batches whose process was killed, as a directory of its own."""
    image = path.with_name(path.name + "-image")
    with opened(path) as shard:
        shard.append(FIRST)
        for number in range(2, size + 1):
            shard.append(EVENTS)
            if number == snapshot_at:
                shard.snapshot()
        shutil.copytree(path, image)
    return image


def lose(name: str) -> Callable[[Path], None]:
    return lambda path: (path / name).unlink()


def flip(name: str, at: int) -> Callable[[Path], None]:
    def change(path: Path) -> None:
        data = bytearray((path / name).read_bytes())
        data[at] ^= 1
        (path / name).write_bytes(data)

    return change


def drop_last(path: Path) -> None:
    with closing(sqlite3.connect(path / "journal.sqlite")) as connection:
        connection.execute("DELETE FROM batch WHERE number = (SELECT max(number) FROM batch)")
        connection.commit()


@pytest.mark.parametrize(
    "damage", [lose(WAL), flip(WAL, 100), flip(WAL, -100), drop_last], ids=["lost", "first", "last", "row"]
)
def test_batches_that_are_lost_are_told_until_that_is_accepted(
    tmp_path: Path, damage: Callable[[Path], None]
) -> None:
    image = crashed(tmp_path / "shard")
    damage(image)
    for _ in range(2):
        with pytest.raises((ShardError, JournalError), match=r"has lost batches|not the journal") as told:
            opened(image)
    if "lost batches" not in str(told.value):
        return  # not even the tables are left
    assert "accept_loss=True" in str(told.value)
    with opened(image, accept_loss=True) as shard:
        left = shard.number
        assert left < 4
        shard.append(FIRST if left == 0 else EVENTS)
    with opened(image) as shard:
        assert shard.number == left + 1


def test_a_journal_that_ends_before_the_snapshot_goes_on_from_there_if_that_is_accepted(
    tmp_path: Path,
) -> None:
    image = crashed(tmp_path / "shard", size=6, snapshot_at=4)
    with closing(sqlite3.connect(image / "journal.sqlite")) as connection:
        connection.execute("DELETE FROM batch WHERE number > 2")
        connection.commit()
    with pytest.raises(JournalError, match="does not go on"):
        opened(image)
    with opened(image, accept_loss=True) as shard:
        assert shard.number == 4
        token = shard.append(EVENTS)[0]
    with opened(image) as shard:
        assert (shard.number, shard.token) == (5, token)


def test_a_shard_from_before_there_were_marks_gets_one(tmp_path: Path) -> None:
    image = crashed(tmp_path / "shard")
    (image / FILE).unlink()
    saved = snapshot.read(image / "snapshot")
    header = {name: value for name, value in saved.header.items() if name != "marked"}
    snapshot.write(image / "snapshot", kind="Shard", header=header, arrays=saved.arrays)
    with opened(image) as shard:
        assert HighWater(image).read() == Mark(4, shard.token)


@pytest.mark.parametrize("damage", [lose(FILE), lambda path: (path / FILE).write_bytes(b"")])
def test_a_mark_that_is_gone_is_told(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    image = crashed(tmp_path / "shard")
    damage(image)
    with pytest.raises(ShardError, match="mark"):
        opened(image)
    with opened(image, accept_loss=True) as shard:
        assert shard.number == 4
    opened(image).close()


def test_a_journal_may_be_ahead_of_the_mark(tmp_path: Path) -> None:
    """As a kill between the two leaves it."""
    image = crashed(tmp_path / "shard", size=3)
    former = (image / FILE).read_bytes()
    with opened(image) as shard:
        token = shard.append(EVENTS)[0]
    (image / FILE).write_bytes(former)
    with opened(image) as shard:
        assert (shard.number, shard.token) == (4, token)
        assert HighWater(image).read() == Mark(4, token)


@pytest.mark.parametrize("written", range(0, 64, 7))
def test_a_mark_torn_while_it_was_written_is_no_loss(tmp_path: Path, written: int) -> None:
    """The batch was in the journal by then."""
    image = crashed(tmp_path / "shard", size=3)
    former = (image / FILE).read_bytes()
    with opened(image) as shard:
        shard.append(EVENTS)
    slot = (image / FILE).read_bytes()[:SLOT]  # of batch 4
    torn = slot[:written] + former[written:SLOT]
    (image / FILE).write_bytes(torn + former[SLOT:])
    for _ in range(2):
        with opened(image) as shard:
            assert shard.number == 4
    drop_last(image)
    with pytest.raises(ShardError, match="lost batches"):
        opened(image)


def test_another_history_of_the_same_length_is_told(tmp_path: Path) -> None:
    image, other = crashed(tmp_path / "one"), tmp_path / "other"
    with opened(other) as shard:
        shard.append(FIRST)
        for _ in range(4):
            shard.append(EVENTS.slice(1))
    shutil.copy(image / FILE, other / FILE)
    with pytest.raises(ShardError, match="another history"):
        opened(other)


def no_room(*_: Any) -> int:
    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def test_a_batch_whose_mark_cannot_be_written_is_not_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with opened(tmp_path) as shard:
        start = shard.append(FIRST)[0]
        with monkeypatch.context() as patch:
            patch.setattr(os, "pwrite", lambda *_: 0)
            patch.setattr(snapshot, "write_file", no_room)  # nor be made anew
            for _ in range(2):
                with pytest.raises(JournalError, match="cannot be marked"):
                    shard.apply(EVENTS, after=start)
        token, deltas = shard.apply(EVENTS, after=start)
        assert (shard.number, shard.token, deltas.num_rows) == (2, token, 2)
        assert HighWater(tmp_path).read() == Mark(2, token)


def test_a_mark_is_on_disk_when_the_shard_is_closed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    done: list[str] = []

    def told(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*given: Any) -> Any:
            done.append(name)
            return real(*given)

        return call

    monkeypatch.setattr(os, "pwrite", told("write", os.pwrite))
    monkeypatch.setattr(os, "fdatasync", told("flush", os.fdatasync))
    with opened(tmp_path) as shard:
        for batch in (FIRST, EVENTS, EVENTS):
            shard.append(batch)
    assert done.count("write") == 3
    assert done[-1] == "flush"


def test_a_flush_that_fails_is_told_with_the_next_batch(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    mark = HighWater(tmp_path)
    token = batches.chain("00" * 32, b"")
    mark.make(Mark(0, token))
    with monkeypatch.context() as patch:
        patch.setattr(os, "fdatasync", lambda _: (_ for _ in ()).throw(OSError("lost")))
        mark.write(Mark(1, token))
        mark._let_go()
    with pytest.raises(OSError, match="lost"):
        mark.write(Mark(2, token))
    mark.write(Mark(2, token))
    mark.close()
    assert HighWater(tmp_path).read() == Mark(2, token)


def test_a_fork_can_neither_use_nor_close_a_shard(tmp_path: Path) -> None:
    with opened(tmp_path) as shard:
        shard.append(FIRST)
        child = os.fork()
        if child == 0:
            status = 1
            try:
                try:
                    shard.append(EVENTS)
                except ShardError as error:
                    status = 0 if "another process" in str(error) else 2
                shard.close()
            finally:
                os._exit(status)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        with pytest.raises(ShardError, match="in use"):
            opened(tmp_path)
        shard.append(EVENTS)
        assert shard.number == 2
