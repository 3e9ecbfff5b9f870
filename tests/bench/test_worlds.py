"""Worlds of geo-text benchmarks are kept where this user alone can write."""

from __future__ import annotations

import stat
import tempfile
from pathlib import Path

import pytest

from rankcast.bench.workloads.geotext import world
from rankcast.errors import ShardError
from rankcast.spark.scratch import VARIABLE

SMALL = {"window": 30, "events": 5, "subscriptions": 4, "k": 2}


def test_a_world_is_kept_in_the_private_scratch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place, shared = tmp_path / "scratch", tmp_path / "shared"
    shared.mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(shared))
    monkeypatch.setenv(VARIABLE, str(place))
    first = world(SMALL)
    kept = place / "geotext-worlds"
    assert stat.S_IMODE(kept.stat().st_mode) == 0o700
    assert len(list(kept.iterdir())) == 1
    assert list(shared.iterdir()) == []
    assert world(SMALL).engine.results().equals(first.engine.results())
    kept.rename(tmp_path / "elsewhere")
    kept.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(ShardError, match="not a private directory"):
        world(SMALL)
