"""Snapshots with valid checksums and wrong contents are refused or harmless: see `tests.state.crafted`."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankcast import MovingTopK, RangeTopK
from rankcast.core import snapshot
from rankcast.errors import SnapshotError
from rankcast.structures import integrity

from . import crafted

FOUND = json.loads((Path(__file__).parent / "crafted.json").read_text())
ROOT = Path(__file__).parents[2]


def search(*arguments: str) -> None:
    """Run the search in a process of its own, from which it forks; its faults are ours."""
    command = [sys.executable, "-m", "tests.state.crafted", *arguments]
    found = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, env=os.environ, check=False)
    assert found.returncode == 0, found.stdout + found.stderr


def test_what_was_found_stays_mended() -> None:
    """What once crashed, hung or came out as another error, and a few seconds of new ones."""
    cases = [f"{subject}={seed}" for subject, seeds in FOUND.items() for seed in seeds]
    search("--seconds", "4", "--first", str(int(time.time())), "--cases", *cases)


@pytest.mark.deep
@pytest.mark.parametrize("family", sorted({subject.family for subject in crafted.SUBJECTS.values()}))
def test_long_search(family: str) -> None:
    search("--seconds", "300", "--first", str(int(time.time())), family)


def test_the_error_names_part_and_array(tmp_path: Path) -> None:
    engine = RangeTopK(over="x", k=2)
    engine.publish({"id": [1, 2], "x": [1.0, 2.0], "y": [1.0, 2.0]})
    engine.subscribe({"id": [7], "x_lo": [0], "x_hi": [9]})
    header, arrays = engine.state()
    board = np.array(arrays["painted.shelf.2.board"])
    board[0, 0] = 10**6
    changed = {**arrays, "painted.shelf.2.board": board}
    snapshot.write(tmp_path / "saved", kind="RangeTopK", header=header, arrays=changed)
    with pytest.raises(SnapshotError, match='RangeTopK: all parts: "board"'):
        RangeTopK.load(tmp_path / "saved")
    spoiled = {**arrays, "object.sequence": np.array(arrays["object.sequence"])[::-1].copy()}
    with pytest.raises(SnapshotError, match='RangeTopK: object: "sequence"'):
        RangeTopK.restore(header, spoiled)


def test_arrays_that_are_ours_are_not_looked_through() -> None:
    """What a host maps again batch after batch costs nothing by its length."""
    engine = MovingTopK(over=[], k=1)
    engine.upsert({"id": [1], "x": [1.0], "y": [1.0]})
    header, arrays = engine.state()
    wrong: dict[str, Any] = {**arrays, "object.sequence": np.full_like(arrays["object.sequence"], 5)}
    with pytest.raises(SnapshotError):
        MovingTopK.restore(header, wrong)
    with integrity.trusted():
        MovingTopK.restore(header, wrong)
    assert integrity.wanted()


@pytest.mark.parametrize("value", [-1, 1 << 62 | 1 << 63, 1.0, True, "1", None, [1]])
def test_counts_of_a_header_are_whole_numbers(value: Any) -> None:
    with pytest.raises(SnapshotError, match='"used" is'):
        integrity.whole({"used": value}, "used")
    with pytest.raises(SnapshotError, match='"used" is'):
        integrity.whole({}, "used")
