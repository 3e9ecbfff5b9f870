"""Named arrays on disk: one directory, a checked header, one raw little-endian file per array.

    header.json                  see rankcast.manifest
    <name>.<generation>.array    the elements, C order

A save writes its array files beside those of the save before, flushes them and the directory to disk, and
only then replaces `header.json`, which alone says what belongs to the snapshot. So at any instant the
directory holds the old snapshot or the new one, whole; files that the header does not name are removed at
the end.

An array that is read is its file, mapped into memory: it is never larger than the file, whatever the header
says, and bytes that do not fit raise `SnapshotError`. No code is ever loaded from a snapshot.

Cost: writing and verified reading are linear in the bytes, with one pass of BLAKE2b; `verify=False` only
maps.
"""

from __future__ import annotations

import mmap
import os
from collections.abc import Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankcast import durable, manifest
from rankcast.errors import SnapshotError
from rankcast.manifest import Entry, Json, Manifest

Arrays: TypeAlias = dict[str, NDArray[Any]]
Mode: TypeAlias = Literal["copy-on-write", "read-only", "in-place"]

HEADER = "header.json"
_NEW_HEADER = "header.json.new"
_ACCESS = {
    "copy-on-write": mmap.ACCESS_COPY,
    "read-only": mmap.ACCESS_READ,
    "in-place": mmap.ACCESS_WRITE,
}
_ATTEMPTS = 16


@dataclass(frozen=True)
class Snapshot:
    """A snapshot that was read: what kind of thing it is, its small state, its arrays."""

    kind: str
    header: dict[str, Json]
    arrays: Arrays


def write(
    path: str | os.PathLike[str],
    *,
    kind: str,
    header: Mapping[str, Json],
    arrays: Mapping[str, NDArray[Any]],
) -> None:
    """Save under `path`, atomically and durably; a snapshot that is there already is replaced.

    When it returns, the new snapshot survives a power cut. When it raises, or the process is killed at any
    instruction, the old snapshot or the new one is there. Writers of one path wait for each other.
    """
    root = Path(path)
    manifest.check_names(arrays)
    _prepare(root)
    with durable.locked(root):
        generation = 1 + max((manifest.generation_of(name) or 0 for name in _names(root)), default=0)
        files = {name: root / manifest.file_name(name, generation) for name in arrays}
        try:
            entries = {name: _write_array(file, arrays[name]) for name, file in files.items()}
            text = manifest.render(Manifest(kind, generation, dict(header), entries))
            durable.sync_directory(root)
            durable.write_file(root / _NEW_HEADER, text)
        except BaseException:
            _remove([*files.values(), root / _NEW_HEADER])
            raise
        # From here on nothing is undone, so that whether the replacement took place need not be known.
        (root / _NEW_HEADER).replace(root / HEADER)
        durable.sync_directory(root)
        kept = {file.name for file in files.values()}
        _remove(root / name for name in _names(root) if _is_array_file(name) and name not in kept)


def read(
    path: str | os.PathLike[str],
    *,
    kind: str | None = None,
    verify: bool = True,
    mode: Mode = "copy-on-write",
) -> Snapshot:
    """Read the snapshot under `path`, its arrays mapped into memory.

    Args:
        path: the directory.
        kind: what it must hold; None takes anything.
        verify: compare every array with its checksum. Without it lengths are still checked.
        mode: `copy-on-write` (changes stay in memory), `read-only`, or `in-place` (changes go to the files,
            whose checksums then no longer fit until the next `write`).

    Raises:
        SnapshotError: there is no snapshot, it is damaged or foreign, or of another kind or a newer format.
    """
    root = Path(path)
    for _ in range(_ATTEMPTS):
        found = peek(root)
        if kind is not None and found.kind != kind:
            raise SnapshotError(f"{root} holds a {found.kind}, not a {kind}")
        try:
            arrays = mapped(root, found, mode)
        except FileNotFoundError as error:
            if peek(root) == found:
                raise SnapshotError(f"{root} is damaged", detail=f"{error}.") from error
            continue  # a writer has replaced the snapshot meanwhile
        except OSError as error:
            raise SnapshotError(f"{root} cannot be read", detail=f"{error}.") from error
        if verify:
            for name, array in arrays.items():
                _verify(array, found.arrays[name], f'array "{name}" of {root}')
        return Snapshot(found.kind, found.header, arrays)
    raise SnapshotError(f"{root} is replaced faster than it can be read")


def peek(path: str | os.PathLike[str]) -> Manifest:
    """The checked header of the snapshot under `path`, without its arrays."""
    try:
        with durable.opened(Path(path) / HEADER) as (descriptor, size):
            if size > manifest.MAX_HEADER + 4096:
                raise SnapshotError(f"the header of {path} is too large")
            text = os.pread(descriptor, size, 0)
    except FileNotFoundError as error:
        raise SnapshotError(f"there is no snapshot at {path}") from error
    except OSError as error:
        raise SnapshotError(f"{path} cannot be read", detail=f"{error}.") from error
    return manifest.parse(text)


def mapped(root: Path, found: Manifest, mode: Mode) -> Arrays:
    """The arrays under `root` that a checked header names; raises before mapping one if lengths differ."""
    folder = os.fspath(root)
    return {name: _map(f"{folder}/{entry.file}", entry, mode) for name, entry in found.arrays.items()}


def _names(root: Path) -> list[str]:
    return [found.name for found in root.iterdir()]


def _is_array_file(name: str) -> bool:
    return manifest.generation_of(name) is not None


def _prepare(root: Path) -> None:
    """Make the directory, unless it is there; refuse one that holds anything but (parts of) a snapshot."""
    if root.exists() and not root.is_dir():
        raise SnapshotError(f"{root} is not a directory")
    durable.make_directory(root)
    names = _names(root)
    if HEADER in names:
        with suppress(OSError), durable.opened(root / HEADER) as (descriptor, _):
            if os.pread(descriptor, len(manifest.MAGIC), 0) == manifest.MAGIC:
                return
    elif all(_is_array_file(name) or name == _NEW_HEADER for name in names):
        return
    raise SnapshotError(
        f"{root} holds files that are not a snapshot", hint="Save into a new or an empty directory."
    )


def _write_array(file: Path, array: NDArray[Any]) -> Entry:
    """Write one array, flush it to disk and say what was written."""
    dtype = array.dtype.newbyteorder("<")
    if dtype.str not in manifest.DTYPES:
        raise SnapshotError(
            f"{file.name} would hold the type {array.dtype}", hint=f"Use one of {', '.join(manifest.DTYPES)}."
        )
    data = np.ascontiguousarray(array, dtype=dtype).reshape(-1).view(np.uint8).data
    durable.write_file(file, data)
    return Entry(dtype.str, array.shape, data.nbytes, manifest.digest(data), file.name)


def _map(file: str, entry: Entry, mode: Mode) -> NDArray[Any]:
    """One array as its file, mapped into memory."""
    with durable.opened(file, writable=mode == "in-place") as (descriptor, size):
        if size != entry.bytes:
            raise SnapshotError(f"{file} is damaged", detail=f"It has {size} bytes, not {entry.bytes}.")
        if size == 0:
            empty = np.zeros(entry.shape, entry.dtype)
            empty.flags.writeable = mode != "read-only"
            return empty
        mapped = mmap.mmap(descriptor, size, access=_ACCESS[mode])
    return np.frombuffer(mapped, entry.dtype).reshape(entry.shape)


def _verify(array: NDArray[Any], entry: Entry, what: str) -> None:
    """Compare an array with its checksum."""
    data = array.reshape(-1).view(np.uint8)
    if manifest.digest(data.data) != entry.blake2b:
        raise SnapshotError(f"{what} is damaged", detail="Its checksum does not fit.")
    if entry.dtype == "|b1" and data.max(initial=0) > 1:
        raise SnapshotError(f"{what} is damaged", detail="It holds bytes that are neither true nor false.")


def _remove(files: Iterable[Path]) -> None:
    """Remove files that no header names; what cannot be removed now is removed by the next save."""
    for file in files:
        with suppress(OSError):
            file.unlink()
