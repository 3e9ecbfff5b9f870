"""Damaged, truncated, foreign and hostile snapshots raise `SnapshotError`, and do nothing else."""

from __future__ import annotations

import json
import os
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.core import snapshot
from rankcast.errors import SnapshotError

ARRAYS = {"a": np.arange(6.0).reshape(2, 3), "flag": np.array([True, False, True]), "none": np.empty((0, 4))}


@pytest.fixture
def saved(tmp_path: Path) -> Path:
    path = tmp_path / "snapshot"
    snapshot.write(path, kind="K", header={"settings": {"k": 3}}, arrays=ARRAYS)
    return path


@pytest.fixture(scope="module")
def shared(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("shared") / "snapshot"
    snapshot.write(path, kind="K", header={"settings": {"k": 3}}, arrays=ARRAYS)
    return path


@contextmanager
def changed(file: Path, data: bytes) -> Iterator[None]:
    """Put other bytes into a file for a while."""
    before = file.read_bytes()
    file.write_bytes(data)
    try:
        yield
    finally:
        file.write_bytes(before)


def seal(body: bytes, *, version: int = snapshot.FORMAT) -> bytes:
    """A header with a checksum that fits, whatever the body."""
    return snapshot.MAGIC + f"{version} {snapshot.digest(body)}\n".encode() + body


def refuse(path: Path, match: str | None = None) -> None:
    """Reading raises the one error it may raise."""
    with pytest.raises(SnapshotError, match=match):
        snapshot.read(path)


@given(data=st.data())
def test_any_change_of_any_byte_is_noticed(shared: Path, data: st.DataObject) -> None:
    file = data.draw(st.sampled_from(sorted(shared.iterdir())))
    good = file.read_bytes()
    place = data.draw(st.integers(0, len(good)))
    length = data.draw(st.integers(0, 4))
    filling = data.draw(st.binary(max_size=4))
    bad = good[:place] + filling + good[place + length :]
    if bad != good:
        with changed(file, bad):
            refuse(shared)


@given(data=st.data())
def test_any_truncation_is_noticed(shared: Path, data: st.DataObject) -> None:
    file = data.draw(st.sampled_from(sorted(file for file in shared.iterdir() if file.stat().st_size)))
    good = file.read_bytes()
    with changed(file, good[: data.draw(st.integers(0, len(good) - 1))]):
        refuse(shared)


def test_any_flipped_bit_is_noticed(shared: Path) -> None:
    for file in shared.iterdir():
        good = file.read_bytes()
        for place in range(len(good)):
            bad = bytearray(good)
            bad[place] ^= 1 << place % 8
            with changed(file, bytes(bad)):
                refuse(shared)


@given(noise=st.binary(max_size=300), magic=st.booleans(), sealed=st.booleans())
def test_random_bytes_are_no_header(shared: Path, noise: bytes, magic: bool, sealed: bool) -> None:
    bad = seal(noise) if sealed else snapshot.MAGIC + noise if magic else noise
    with changed(shared / "header.json", bad):
        refuse(shared)
        with pytest.raises(SnapshotError):
            snapshot.peek(shared)


def edited(path: Path, change: Callable[[Any], Any]) -> bytes:
    """The header of a snapshot with its JSON changed and its checksum made to fit."""
    body = (path / "header.json").read_bytes().split(b"\n", 1)[1]
    fields = json.loads(body)
    return seal(json.dumps(change(fields) or fields).encode())


def entry(**given: Any) -> Callable[[Any], None]:
    """Change what the header says of array "a"."""
    return lambda fields: fields["arrays"]["a"].update(given)


HOSTILE: dict[str, Callable[[Any], Any]] = {
    "not an object": lambda _: [1, 2],
    "a missing field": lambda fields: {"kind": "K", "header": {}, "arrays": {}},
    "a field too many": lambda fields: {**fields, "code": "print(1)"},
    "kind is a number": lambda fields: {**fields, "kind": 3},
    "header is a list": lambda fields: {**fields, "header": []},
    "arrays is a list": lambda fields: {**fields, "arrays": []},
    "generation is text": lambda fields: {**fields, "generation": "1"},
    "generation is negative": lambda fields: {**fields, "generation": -1},
    "entry is null": lambda fields: {**fields, "arrays": {"a": None}},
    "dtype of objects": entry(dtype="|O"),
    "dtype of text": entry(dtype="<U8"),
    "dtype void": entry(dtype="|V8"),
    "dtype big-endian": entry(dtype=">f8"),
    "dtype is a structure": entry(dtype=[["x", "<f8"]]),
    "dtype is null": entry(dtype=None),
    "dtype of other width": entry(dtype="<f4"),
    "shape negative": entry(shape=[-2, -3]),
    "shape with one -1": entry(shape=[-1, 3]),
    "shape huge": entry(shape=[2**40, 2**40]),
    "shape huge, bytes fit": entry(shape=[2**50], bytes=2**53),
    "shape wraps to fit": entry(shape=[2**61, 8, 6], bytes=48),
    "shape empty but huge": entry(shape=[0, 2**61, 2**61], bytes=0),
    "shape of floats": entry(shape=[2.0, 3.0]),
    "shape of booleans": entry(shape=[True, 6]),
    "shape is text": entry(shape="23"),
    "shape with many dimensions": entry(shape=[1] * 64 + [6]),
    "bytes too few": entry(bytes=40),
    "bytes is text": entry(bytes="48"),
    "no checksum": entry(blake2b=None),
    "short checksum": entry(blake2b="abc"),
    "file elsewhere": entry(file="../secret.1.array"),
    "file absolute": entry(file="/etc/passwd"),
    "file of another array": entry(file="flag.1.array"),
    "file with a null byte": entry(file="a.1.array\0"),
    "file that is the header": entry(file="header.json"),
    "file is null": entry(file=None),
    "name leaves the directory": lambda fields: {**fields, "arrays": {"../a": fields["arrays"]["a"]}},
    "name is empty": lambda fields: {**fields, "arrays": {"": fields["arrays"]["a"]}},
}


@pytest.mark.parametrize("change", HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_headers_with_a_fitting_checksum(saved: Path, change: Callable[[Any], Any]) -> None:
    (saved.parent / "secret.1.array").write_bytes(ARRAYS["a"].tobytes())
    (saved / "header.json").write_bytes(edited(saved, change))
    tracemalloc.start()
    try:
        for verify in (True, False):
            with pytest.raises(SnapshotError):
                snapshot.read(saved, verify=verify)
        assert tracemalloc.get_traced_memory()[1] < 10 << 20
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(
    "body",
    [
        b"[" * 100_000 + b"]" * 100_000,
        b'{"a":' * 50_000 + b"1" + b"}" * 50_000,
        b'{"kind": NaN}',
        b'{"kind": "\xff\xfe"}',
        b"9" * 10_000,
        b'{"kind":"K"',
        b"",
        b"null",
        b"\x80\x04\x95",
    ],
    ids=[
        "deep list",
        "deep object",
        "NaN",
        "not UTF-8",
        "long number",
        "open end",
        "empty",
        "null",
        "pickle",
    ],
)
def test_bodies_that_are_not_a_header(saved: Path, body: bytes) -> None:
    (saved / "header.json").write_bytes(seal(body))
    refuse(saved)


JUNK = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@given(path=st.lists(st.integers(0, 9), min_size=1, max_size=4), junk=JUNK)
def test_junk_anywhere_in_the_header_never_gives_other_arrays(
    shared: Path, path: list[int], junk: Any
) -> None:
    """Replace any part of the JSON by anything: it is refused, or the arrays are still the right ones."""

    def change(fields: Any) -> None:
        here = fields
        for depth, step in enumerate(path):
            keys = list(here) if isinstance(here, dict) else list(range(len(here)))
            if not keys:
                return
            key = keys[step % len(keys)]
            if depth == len(path) - 1 or not isinstance(here[key], dict | list):
                here[key] = junk
                return
            here = here[key]

    with changed(shared / "header.json", edited(shared, change)):
        try:
            found = snapshot.read(shared)
        except SnapshotError:
            return
        for name, array in found.arrays.items():
            assert array.tobytes() == ARRAYS[name].tobytes()


def test_a_newer_format_is_named(saved: Path) -> None:
    (saved / "header.json").write_bytes(seal(b"whatever comes", version=snapshot.FORMAT + 1))
    refuse(saved, match=r"format 2.*\n?.*Upgrade")


def test_a_header_of_gigabytes_is_not_read(saved: Path) -> None:
    os.truncate(saved / "header.json", 8 << 30)  # sparse
    refuse(saved, match="too large")


def test_a_missing_snapshot_is_named(tmp_path: Path) -> None:
    refuse(tmp_path / "nowhere", match="no snapshot at")
    refuse(tmp_path, match="no snapshot at")


def test_a_missing_array_is_named(saved: Path) -> None:
    (saved / "a.1.array").unlink()
    refuse(saved, match=r"(?s)damaged.*a\.1\.array")


@pytest.mark.parametrize("name", ["a.1.array", "header.json"])
@pytest.mark.parametrize("instead", ["link", "pipe", "directory"])
def test_only_regular_files_are_opened(saved: Path, name: str, instead: str) -> None:
    file = saved / name
    moved = saved.parent / "moved"
    file.rename(moved)
    if instead == "link":
        file.symlink_to(moved)
    elif instead == "pipe":
        os.mkfifo(file)
    else:
        file.mkdir()
    refuse(saved)


def test_a_longer_file_is_refused_before_it_is_mapped(saved: Path) -> None:
    os.truncate(saved / "a.1.array", 1 << 40)
    with pytest.raises(SnapshotError, match="not 48"):
        snapshot.read(saved, verify=False)


def test_booleans_are_only_true_or_false(saved: Path) -> None:
    odd = bytes([0, 1, 2])
    (saved / "flag.1.array").write_bytes(odd)
    fits = edited(saved, lambda fields: fields["arrays"]["flag"].update(blake2b=snapshot.digest(odd)))
    (saved / "header.json").write_bytes(fits)
    refuse(saved, match="damaged")
