"""Snapshots: what goes in comes out, and a save is all or nothing."""

from __future__ import annotations

import json
import os
import threading
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays_of
from numpy.typing import NDArray

from rankcast.core import snapshot
from rankcast.errors import SnapshotError

from .crash import Killed, Tape

NAMES = st.from_regex(r"[a-z0-9_]{1,8}([.-][a-z0-9_]{1,8}){0,2}", fullmatch=True)
ARRAYS = st.sampled_from(snapshot.DTYPES).flatmap(
    lambda dtype: arrays_of.arrays(
        np.dtype(dtype), arrays_of.array_shapes(min_dims=0, min_side=0, max_side=4)
    )
)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=8,
)
OLD = {"a": np.arange(5.0), "gone": np.ones(3, np.int32)}
NEW = {"a": np.arange(7.0) * 2, "b": np.array([True, False])}


def same(left: dict[str, NDArray[Any]], right: dict[str, NDArray[Any]]) -> bool:
    """Equal to the last bit, NaN and all."""
    return left.keys() == right.keys() and all(
        left[name].shape == right[name].shape
        and left[name].dtype == right[name].dtype
        and left[name].tobytes() == right[name].tobytes()
        for name in left
    )


@given(
    arrays=st.dictionaries(NAMES, ARRAYS, max_size=4),
    header=st.dictionaries(st.text(), JSON, max_size=3),
    kind=st.text(max_size=20),
)
def test_what_goes_in_comes_out(
    tmp_path_factory: pytest.TempPathFactory,
    arrays: dict[str, NDArray[Any]],
    header: dict[str, Any],
    kind: str,
) -> None:
    path = tmp_path_factory.mktemp("snapshot")
    snapshot.write(path, kind=kind, header=header, arrays=arrays)
    found = snapshot.read(path, kind=kind)
    assert (found.kind, found.header) == (kind, header)
    assert same(found.arrays, arrays)
    assert snapshot.peek(path).header == header


@pytest.mark.parametrize(
    "array",
    [
        np.asfortranarray(np.arange(6.0).reshape(2, 3)),
        np.arange(10)[::-3],
        np.arange(4, dtype=">i4"),
        np.broadcast_to(np.float32(2.5), (3, 2)),
    ],
    ids=["fortran", "strided", "big-endian", "broadcast"],
)
def test_any_layout_is_saved_as_plain_rows(tmp_path: Path, array: NDArray[Any]) -> None:
    snapshot.write(tmp_path, kind="K", header={}, arrays={"a": array})
    found = snapshot.read(tmp_path).arrays["a"]
    assert np.array_equal(found, array)
    assert found.flags.c_contiguous
    assert found.dtype == array.dtype.newbyteorder("<")


def test_a_new_save_replaces_the_old_one_and_leaves_nothing_behind(tmp_path: Path) -> None:
    path = tmp_path / "deep" / "down"
    snapshot.write(path, kind="K", header={"n": 1}, arrays=OLD)
    mapped = snapshot.read(path)
    snapshot.write(path, kind="L", header={"n": 2}, arrays=NEW)
    found = snapshot.read(path)
    assert (found.kind, found.header) == ("L", {"n": 2})
    assert same(found.arrays, NEW)
    assert sorted(file.name for file in path.iterdir()) == ["a.2.array", "b.2.array", "header.json"]
    assert same(mapped.arrays, OLD)  # who has the old one open keeps it


def test_copy_on_write_leaves_the_files_alone(tmp_path: Path) -> None:
    snapshot.write(tmp_path, kind="K", header={}, arrays=OLD)
    snapshot.read(tmp_path).arrays["a"][:] = 9
    assert same(snapshot.read(tmp_path).arrays, OLD)


def test_read_only_refuses_changes(tmp_path: Path) -> None:
    snapshot.write(tmp_path, kind="K", header={}, arrays={**OLD, "none": np.empty((0, 2))})
    found = snapshot.read(tmp_path, mode="read-only")
    assert same(found.arrays, {**OLD, "none": np.empty((0, 2))})
    assert not any(array.flags.writeable for array in found.arrays.values())


def test_in_place_changes_the_files_and_the_checksum_shows_it(tmp_path: Path) -> None:
    snapshot.write(tmp_path, kind="K", header={}, arrays=OLD)
    snapshot.read(tmp_path, mode="in-place").arrays["a"][0] = 9
    assert snapshot.read(tmp_path, verify=False).arrays["a"][0] == 9
    with pytest.raises(SnapshotError, match=r'"a".*damaged'):
        snapshot.read(tmp_path)


def test_another_kind_is_refused(tmp_path: Path) -> None:
    snapshot.write(tmp_path, kind="RangeTopK", header={}, arrays=OLD)
    with pytest.raises(SnapshotError, match="holds a RangeTopK, not a MovingTopK"):
        snapshot.read(tmp_path, kind="MovingTopK")


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        ({}, {"a": np.array(["text"])}),
        ({}, {"a": np.array([None])}),
        ({}, {"a": np.zeros(2, np.complex128)}),
        ({}, {"a": np.zeros(2, "datetime64[s]")}),
        ({}, {"a": np.zeros(2, [("x", "f8")])}),
        ({}, {"../a": np.zeros(2)}),
        ({}, {"/a": np.zeros(2)}),
        ({}, {"": np.zeros(2)}),
        ({}, {"a\n": np.zeros(2)}),
        ({}, {"a" * 200: np.zeros(2)}),
        ({}, {"a": np.zeros(2), "A": np.zeros(2)}),
        ({"x": float("nan")}, {}),
        ({"x": {1, 2}}, {}),
        ({"x": "y" * (snapshot.MAX_HEADER + 1)}, {}),
    ],
)
def test_what_could_not_be_read_is_not_written(
    tmp_path: Path, header: dict[str, Any], arrays: dict[str, NDArray[Any]]
) -> None:
    path = tmp_path / "in" / "snapshot"
    snapshot.write(path, kind="K", header={}, arrays=OLD)
    with pytest.raises(SnapshotError):
        snapshot.write(path, kind="K", header=header, arrays=arrays)
    assert same(snapshot.read(path).arrays, OLD)
    assert sorted(file.name for file in path.iterdir()) == ["a.1.array", "gone.1.array", "header.json"]
    assert [file.name for file in path.parent.iterdir()] == ["snapshot"]


def test_files_of_others_are_not_touched(tmp_path: Path) -> None:
    (tmp_path / "thesis.txt").write_text("years of work")
    with pytest.raises(SnapshotError, match="not a snapshot"):
        snapshot.write(tmp_path, kind="K", header={}, arrays=OLD)
    (tmp_path / "header.json").write_text(json.dumps({"mine": True}))
    with pytest.raises(SnapshotError, match="not a snapshot"):
        snapshot.write(tmp_path, kind="K", header={}, arrays=OLD)
    with pytest.raises(SnapshotError, match="not a directory"):
        snapshot.write(tmp_path / "thesis.txt", kind="K", header={}, arrays=OLD)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["header.json", "thesis.txt"]


def test_a_damaged_snapshot_can_be_replaced(tmp_path: Path) -> None:
    snapshot.write(tmp_path, kind="K", header={}, arrays=OLD)
    text = (tmp_path / "header.json").read_bytes()
    (tmp_path / "header.json").write_bytes(text[:-5])
    snapshot.write(tmp_path, kind="K", header={}, arrays=NEW)
    assert same(snapshot.read(tmp_path).arrays, NEW)


@pytest.mark.parametrize("first", [True, False], ids=["first save", "second save"])
def test_a_kill_at_any_operation_leaves_the_old_or_the_new(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    seen = set()
    for kill_at in range(200):
        path = tmp_path / str(kill_at)
        if not first:
            snapshot.write(path, kind="K", header={"n": 1}, arrays=OLD)
        with monkeypatch.context() as patch:
            tape = Tape(patch, kill_at=kill_at)
            with suppress(Killed):
                snapshot.write(path, kind="K", header={"n": 2}, arrays=NEW)
        seen.add(_old_or_new(path))
        snapshot.write(path, kind="K", header={"n": 3}, arrays=NEW)  # and the next save cleans up
        assert sorted(file.name.split(".")[0] for file in path.iterdir()) == ["a", "b", "header"]
        if all(done != "killed" for done, _ in tape.done):
            break
    else:
        pytest.fail("the save never came to its end")
    assert kill_at > 15
    assert seen == {"nothing" if first else "old", "new"}


def _old_or_new(path: Path) -> str:
    if not (path / "header.json").exists():
        return "nothing"
    found = snapshot.read(path)
    whole = {1: OLD, 2: NEW}[found.header["n"]]
    assert same(found.arrays, whole)
    return "old" if found.header["n"] == 1 else "new"


def test_everything_is_flushed_before_it_counts(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "snapshot"
    snapshot.write(path, kind="K", header={}, arrays=OLD)
    with monkeypatch.context() as patch:
        tape = Tape(patch)
        snapshot.write(path, kind="K", header={}, arrays=NEW)
    done = [step for step in tape.done if step[0] in ("write", "fsync", "replace", "unlink")]
    assert done[:-2] == [
        ("write", "a.2.array"),
        ("fsync", "a.2.array"),
        ("write", "b.2.array"),
        ("fsync", "b.2.array"),
        ("fsync", "snapshot"),
        ("write", "header.json.new"),
        ("fsync", "header.json.new"),
        ("replace", "header.json.new"),
        ("fsync", "snapshot"),
    ]
    assert sorted(done[-2:]) == [("unlink", "a.1.array"), ("unlink", "gone.1.array")]


def test_a_new_directory_is_flushed_into_its_parents(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        tape = Tape(patch)
        snapshot.write(tmp_path / "deep" / "down", kind="K", header={}, arrays={})
    flushed = [name for done, name in tape.done if done == "fsync"]
    assert flushed[:2] == [tmp_path.name, "deep"]


def test_a_full_disk_leaves_the_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    snapshot.write(tmp_path, kind="K", header={"n": 1}, arrays=OLD)

    def full(*_: Any) -> int:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space left"):
            snapshot.write(tmp_path, kind="K", header={"n": 2}, arrays=NEW)
    assert same(snapshot.read(tmp_path).arrays, OLD)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["a.1.array", "gone.1.array", "header.json"]


def test_readers_and_writers_do_not_disturb_each_other(tmp_path: Path) -> None:
    """Every read gives one save, whole, while two threads save as fast as they can."""

    def save(start: int) -> None:
        for number in range(start, start + 40):
            arrays = {"a": np.full(1000, number), "b": np.full(10, number)}
            snapshot.write(tmp_path, kind="K", header={"n": number}, arrays=arrays)

    save(0)
    writers = [threading.Thread(target=save, args=(start,)) for start in (1000, 2000)]
    for writer in writers:
        writer.start()
    reads = 0
    while any(writer.is_alive() for writer in writers):
        found = snapshot.read(tmp_path)
        assert all((array == found.header["n"]).all() for array in found.arrays.values())
        reads += 1
    for writer in writers:
        writer.join()
    assert reads > 0
    assert len(list(tmp_path.iterdir())) == 3
