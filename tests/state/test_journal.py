"""The journal: batches in order, sealed, and no file of others."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from rankcast.errors import JournalError
from rankcast.state.journal import FORMAT, Journal, Record


def record(number: int) -> Record:
    return Record(
        number, f"t{number - 1}", f"t{number}", f"batch {number}".encode(), f"answer {number}".encode()
    )


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "journal.sqlite"


def filled(path: Path, count: int) -> Journal:
    journal = Journal(path, make=True)
    for number in range(1, count + 1):
        journal.append(record(number), covered=0, receipts=1)
    return journal


def change(path: Path, statement: str) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute(statement)
        connection.commit()


def test_batches_come_back_in_order(path: Path) -> None:
    with closing(filled(path, 5)) as journal:
        assert list(journal.after(2)) == [record(3), record(4), record(5)]
        assert journal.newest() == (5, "t5")
    with closing(Journal(path)) as journal:
        assert list(journal.after(0)) == [record(number) for number in range(1, 6)]


def test_every_commit_is_flushed(path: Path) -> None:
    with closing(filled(path, 1)) as journal:
        modes = [
            journal._connection.execute(f"PRAGMA {name}").fetchone()[0]
            for name in ("journal_mode", "synchronous")
        ]
    assert modes == ["wal", 2]


def test_an_empty_journal_has_nothing(path: Path) -> None:
    with closing(Journal(path, make=True)) as journal:
        assert journal.newest() is None
        assert list(journal.after(0)) == []
        assert journal.receipt("t0") is None


def test_receipts_are_found_by_the_token_before(path: Path) -> None:
    with closing(filled(path, 3)) as journal:
        assert journal.receipt("t1") == record(2)._replace(batch=None)
        assert journal.receipt("t3") is None


def test_what_a_snapshot_covers_is_forgotten_but_for_receipts(path: Path) -> None:
    with closing(filled(path, 6)) as journal:
        journal.forget(4, receipts=3)
        assert [found.number for found in journal.after(0)] == [4, 5, 6]
        assert [found.batch for found in journal.after(0)] == [None, b"batch 5", b"batch 6"]
        journal.append(record(7), covered=4, receipts=3)
        assert [found.number for found in journal.after(0)] == [5, 6, 7]
        journal.append(record(8), covered=8, receipts=3)
        assert [found.number for found in journal.after(0)] == [6, 7, 8]
        assert [found.batch for found in journal.after(0)] == [None, None, None]


def test_the_file_does_not_grow_with_what_was_forgotten(path: Path) -> None:
    with closing(Journal(path, make=True)) as journal:
        sizes = []
        for number in range(1, 401):
            big = record(number)._replace(batch=bytes(20_000))
            journal.append(big, covered=number - 1, receipts=1)
            sizes.append(path.stat().st_size)
    assert max(sizes) < 2_000_000


def test_a_number_cannot_be_taken_twice(path: Path) -> None:
    with closing(filled(path, 2)) as journal:
        with pytest.raises(JournalError, match="cannot be written"):
            journal.append(record(2)._replace(digest=b"other"), covered=2, receipts=1)
        assert list(journal.after(0)) == [record(1), record(2)]


@pytest.mark.parametrize(
    ("content", "match"),
    [(b"years of work" * 100, "not a database"), (b"SQLite format 3\0" + bytes(2000), "SQLite says")],
)
def test_other_files_are_refused_and_left_alone(path: Path, content: bytes, match: str) -> None:
    path.write_bytes(content)
    for make in (True, False):
        with pytest.raises(JournalError, match=match):
            Journal(path, make=make)
    assert path.read_bytes() == content


def test_other_databases_are_refused_and_left_alone(path: Path) -> None:
    change(path, "CREATE TABLE mine (x)")
    content = path.read_bytes()
    for make in (True, False):
        with pytest.raises(JournalError, match="not the journal"):
            Journal(path, make=make)
    assert path.read_bytes() == content


def test_an_empty_file_is_no_journal_unless_one_is_made(path: Path) -> None:
    path.touch()
    with pytest.raises(JournalError, match="not the journal"):
        Journal(path)
    Journal(path, make=True).close()
    Journal(path).close()


def test_a_missing_file_is_not_made_by_the_way(path: Path) -> None:
    with pytest.raises(JournalError, match="cannot be opened"):
        Journal(path)
    assert not path.exists()


def test_a_newer_format_is_named(path: Path) -> None:
    filled(path, 1).close()
    change(path, f"PRAGMA user_version = {FORMAT + 1}")
    with pytest.raises(JournalError, match=r"(?s)format 3.*Upgrade"):
        Journal(path)


@pytest.mark.parametrize("column", ["digest", "token", "prev"])
def test_a_changed_row_is_noticed(path: Path, column: str) -> None:
    filled(path, 3).close()
    value = "x'00'" if column == "digest" else "'other'"
    change(path, f"UPDATE batch SET {column} = {value} WHERE number = 2")  # noqa: S608
    with closing(Journal(path)) as journal, pytest.raises(JournalError, match="seal of batch 2"):
        list(journal.after(0))


def test_damaged_pages_are_told(path: Path) -> None:
    filled(path, 50).close()
    data = bytearray(path.read_bytes())
    data[4096:] = bytes([0xA5]) * (len(data) - 4096)
    path.write_bytes(data)
    with pytest.raises(JournalError, match="damaged"):
        Journal(path)
