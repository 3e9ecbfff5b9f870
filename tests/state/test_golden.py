"""Snapshots and shards of every format there ever was can still be read."""

from __future__ import annotations

import shutil
from pathlib import Path

import pyarrow as pa
import pytest

from rankcast import manifest, snapshot
from rankcast.state import Shard, journal

from . import golden
from .toy_engine import ToyCounter

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir() and path.name.startswith("v"))


def test_the_current_formats_have_golden_files() -> None:
    assert f"v{max(manifest.FORMAT, journal.FORMAT)}" in VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_arrays_are_still_read(version: str) -> None:
    found = snapshot.read(GOLDEN / version / "arrays", kind=golden.KIND)
    expected = golden.arrays()
    assert found.header == golden.HEADER
    assert list(found.arrays) == list(expected)
    for name, array in expected.items():
        assert (found.arrays[name].dtype, found.arrays[name].shape) == (array.dtype, array.shape)
        assert found.arrays[name].tobytes() == array.tobytes()


@pytest.mark.parametrize("version", VERSIONS)
def test_shards_are_still_opened(version: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / version / "shard", tmp_path / "shard")
    engine = ToyCounter()
    for number in range(1, golden.BATCHES + 1):
        engine.apply([(call, pa.table(rows)) for call, rows in golden.batch(number)])
    with Shard.open(tmp_path / "shard", ToyCounter()) as shard:
        assert shard.number == golden.BATCHES
        assert shard.engine.fingerprint() == engine.fingerprint()
        token, _ = shard.apply(golden.batch(2), after=shard.token)
        assert shard.token == token
