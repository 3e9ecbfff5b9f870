"""The log of entries in files: what it keeps, and what it lets go."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from rankcast.state.log import Entry, Log

AGE = 3600.0
NOW = 1_700_000_000.0


def opened(path: Path, end: int) -> Log:
    return Log(path, end=end, most=1 << 30, age=AGE, file=4_000)


def fill(log: Log, first: int, last: int, at: float) -> None:
    for number in range(first, last + 1):
        log.append(Entry(number, at, b"batch" * 50, b"answer" * 50))
    log.flush()


def numbers(log: Log) -> list[int]:
    entries = log.after(log.first)
    assert entries is not None
    return [entry.number for entry in entries]


@pytest.mark.parametrize("old", [AGE / 2, 2 * AGE])
def test_files_are_as_old_after_a_restart_as_before(tmp_path: Path, old: float) -> None:
    log = opened(tmp_path, 0)
    fill(log, 1, 100, NOW - old)
    log.close()
    files = sorted(tmp_path.glob("*.log"))
    assert len(files) > 5
    for file in files:
        os.utime(file, (NOW - old, NOW - old))
    log = opened(tmp_path, 100)
    fill(log, 101, 101, NOW)
    log.forget_old(NOW)
    found = numbers(log)
    assert found[-1] == 101
    if old < AGE:
        assert found == list(range(1, 102))
    else:
        assert 1 not in found
    log.close()


def test_old_files_go_and_the_last_one_stays(tmp_path: Path) -> None:
    log = opened(tmp_path, 0)
    fill(log, 1, 50, NOW - 2 * AGE)
    fill(log, 51, 100, NOW)
    log.forget_old(NOW)
    assert 0 < log.first <= 50
    assert numbers(log)[-1] == 100
    log.forget_old(NOW + 2 * AGE)
    assert numbers(log)[-1] == 100
    log.close()
