"""Shards on a disk that fails and forgets: what was answered is there again, or its loss is told."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from .simulator import Simulation

MEMORY = Path("/dev/shm")  # noqa: S108  # where flushing costs nothing


@pytest.fixture
def folder() -> Iterator[Path]:
    with tempfile.TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as made:
        yield Path(made)


@pytest.mark.parametrize("seed", [*range(30), 5057, 20283])
def test_what_was_answered_is_there_or_its_loss_is_told(
    seed: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    Simulation(folder, monkeypatch, seed).run(12 if seed < 30 else 25)


@pytest.mark.deep
@pytest.mark.parametrize("hundred", range(40))
def test_what_was_answered_is_there_or_its_loss_is_told_always(
    hundred: int, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for seed in range(100 * hundred + 1000, 100 * hundred + 1100):
        with monkeypatch.context() as patch:
            Simulation(folder / str(seed), patch, seed).run(25)
