"""Snapshots and shards of every format there ever was can still be read."""

from __future__ import annotations

import shutil
import tempfile
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.core import snapshot
from rankcast.errors import RankcastError
from rankcast.state import Shard, journal

from . import golden
from .toy_engine import ToyCounter

GOLDEN = Path(__file__).parents[1] / "golden"
VERSIONS = sorted(path.name for path in GOLDEN.iterdir() if path.is_dir() and path.name.startswith("v"))


def test_the_current_formats_have_golden_files() -> None:
    assert f"v{max(snapshot.FORMAT, journal.FORMAT)}" in VERSIONS


@pytest.mark.parametrize("version", VERSIONS)
def test_arrays_are_still_read(version: str) -> None:
    found = snapshot.read(GOLDEN / version / "arrays", kind=golden.KIND)
    expected = golden.arrays()
    assert found.header == golden.HEADER
    assert list(found.arrays) == list(expected)
    for name, array in expected.items():
        assert (found.arrays[name].dtype, found.arrays[name].shape) == (array.dtype, array.shape)
        assert found.arrays[name].tobytes() == array.tobytes()


def expected_engine() -> ToyCounter:
    engine = ToyCounter()
    for number in range(1, golden.BATCHES + 1):
        engine.apply([(call, pa.table(rows)) for call, rows in golden.batch(number)])
    return engine


@pytest.mark.parametrize("version", VERSIONS)
def test_shards_are_still_opened(version: str, tmp_path: Path) -> None:
    shutil.copytree(GOLDEN / version / "shard", tmp_path / "shard")
    engine = expected_engine()
    with Shard.open(tmp_path / "shard", ToyCounter()) as shard:
        assert shard.number == golden.BATCHES
        assert shard.engine.fingerprint() == engine.fingerprint()
        with Shard.open(tmp_path / "today", ToyCounter()) as today:
            for number in range(1, golden.BATCHES + 1):
                after = today.token
                told = today.apply(golden.batch(number), after=after)
                assert shard.apply(golden.batch(number), after=after) == told
        token, _ = shard.apply(golden.batch(2), after=shard.token)
        assert shard.token == token
    with Shard.open(tmp_path / "shard", ToyCounter()) as shard:
        assert shard.apply(golden.batch(golden.BATCHES), after=after) == told


@given(data=st.data())
def test_a_damaged_journal_is_told_or_does_no_harm(data: st.DataObject) -> None:
    """Whatever bytes of it change: an error of this package, or the state as it was."""
    good = (GOLDEN / VERSIONS[-1] / "shard" / "journal.sqlite").read_bytes()
    bad = bytearray(good)
    used = [place for place, byte in enumerate(good) if byte]
    for place in data.draw(st.lists(st.sampled_from(used), min_size=1, max_size=3), label="places"):
        bad[place] = data.draw(st.integers(0, 255), label="byte")
    length = data.draw(st.just(len(bad)) | st.integers(0, len(bad)), label="length")
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "shard"
        shutil.copytree(GOLDEN / VERSIONS[-1] / "shard", path)
        (path / "journal.sqlite").write_bytes(bad[:length])
        try:
            with Shard.open(path, ToyCounter()) as shard:
                assert shard.engine.fingerprint() == expected_engine().fingerprint()
                shard.apply(golden.batch(2), after=shard.token)
        except RankcastError:
            return
