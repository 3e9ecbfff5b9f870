"""Named arrays on disk: one directory, a checked header, one raw little-endian file per array.

The functions at the beginning write, create, open and lock files that survive a power cut. A new file is
durable once its bytes and its directory entry are flushed; these are separate calls, so that many
files share one flush of their directory.

A snapshot is a directory:

    header.json                  see `render`
    <name>.<generation>.array    the elements, C order

A save writes its array files beside those of the previous save, flushes them and the directory to disk, and
only then replaces `header.json`, which alone defines what belongs to the snapshot. So at any instant the
directory holds the old snapshot or the new one, complete; files that the header does not name are removed at
the end.

The first line of the header holds the magic, the format version and the BLAKE2b checksum of the rest; the
rest is one JSON object: `kind`, `generation`, `header` (the small state, any JSON object) and `arrays`
(dtype, shape, byte length, checksum and file name of each). `parse` trusts nothing: anything that `render`
cannot write raises `SnapshotError`, before anything is allocated that the header merely claims.

An array is its file, mapped into memory: it is never larger than the file, whatever the header
says, and bytes that do not fit raise `SnapshotError`. No code is ever loaded from a snapshot.

Cost: writing and verified reading are linear in the bytes, with one pass of BLAKE2b; `verify=False` only
maps.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import math
import mmap
import os
import re
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NoReturn, TypeAlias

import numpy as np
from numpy.typing import NDArray

from rankcast.errors import SnapshotError

_DIRECTORY = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC
_WRITE = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_CLOEXEC
_PIECE = 1 << 30


def write_file(path: Path, data: bytes | memoryview) -> None:
    """Write a whole file and flush its bytes to disk; a symbolic link is refused, not followed."""
    descriptor = os.open(path, _WRITE | os.O_TRUNC, 0o666)
    try:
        _write(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def overwrite_file(path: Path, data: bytes) -> None:
    """Overwrite a whole file, in memory only: nothing is flushed, and a kill leaves a mixture.

    Truncating a file first makes some file systems flush it on close, which takes milliseconds.
    """
    descriptor = os.open(path, _WRITE, 0o666)
    try:
        _write(descriptor, data)
        os.ftruncate(descriptor, len(data))
    finally:
        os.close(descriptor)


def _write(descriptor: int, data: bytes | memoryview) -> None:
    rest = memoryview(data)
    while rest:
        rest = rest[os.write(descriptor, rest[:_PIECE]) :]


def flush(descriptor: int) -> None:
    """Flush the bytes of a file to disk, and only the metadata that reading them needs."""
    getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_directory(path: Path) -> None:
    """Flush the entries of a directory to disk."""
    descriptor = os.open(path, _DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Create a directory and missing parents, and flush their entries to disk."""
    missing = [directory for directory in (path, *path.parents) if not directory.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for directory in reversed(missing):
        sync_directory(directory.parent)


@contextmanager
def opened(path: Path | str, *, writable: bool = False) -> Iterator[tuple[int, int]]:
    """Open only a regular file; yields its descriptor and its size.

    Symbolic links are not followed, and a pipe or a device in its place does not block.
    """
    access = os.O_RDWR if writable else os.O_RDONLY
    descriptor = os.open(path, access | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        found = os.fstat(descriptor)
        if not stat.S_ISREG(found.st_mode):
            raise OSError(f"{path} is not a regular file")
        yield descriptor, found.st_size
    finally:
        os.close(descriptor)


@contextmanager
def locked(path: Path, *, wait: bool = True) -> Iterator[int]:
    """Hold the lock of a directory; yields its descriptor. The lock ends with the process, in any case.

    Without `wait`, raises `BlockingIOError` if somebody else holds it.
    """
    descriptor = os.open(path, _DIRECTORY)
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX if wait else fcntl.LOCK_EX | fcntl.LOCK_NB)
        try:
            yield descriptor
        finally:
            fcntl.flock(descriptor, fcntl.LOCK_UN)  # also for a child that was forked meanwhile
    finally:
        os.close(descriptor)


Json: TypeAlias = Any

FORMAT = 1
MAX_HEADER = 16 << 20
DTYPES = ("|b1", "|i1", "|u1", "<i2", "<u2", "<i4", "<u4", "<i8", "<u8", "<f4", "<f8")
MAGIC = b"rankcast-snapshot "

_FIRST_LINE = re.compile(re.escape(MAGIC) + rb"([1-9][0-9]{0,8}) ([0-9a-f]{64})\n")
_NAME = re.compile(r"[A-Za-z0-9_]+(?:[.-][A-Za-z0-9_]+)*")
_FILE = re.compile(r"(?P<name>.+)\.(?P<generation>[1-9][0-9]{0,17})\.array")
_DIGEST = re.compile(r"[0-9a-f]{64}")
_MAX_NAME = 100
_MAX_DIMENSIONS = 16
_TOO_LARGE = 1 << 62


@dataclass(frozen=True)
class Entry:
    """What the header says about one array."""

    dtype: str
    shape: tuple[int, ...]
    bytes: int
    blake2b: str
    file: str


@dataclass(frozen=True)
class Manifest:
    """A checked header: what the snapshot holds, without the arrays themselves."""

    kind: str
    generation: int
    header: dict[str, Json]
    arrays: dict[str, Entry]


def digest(data: Any) -> str:
    """The checksum of some bytes, in hexadecimal."""
    return hashlib.blake2b(data, digest_size=32).hexdigest()


def file_name(name: str, generation: int) -> str:
    """The file of an array."""
    return f"{name}.{generation}.array"


def generation_of(file: str) -> int | None:
    """The generation in a file name, or None if it is not the file of an array."""
    match = _FILE.fullmatch(file)
    return int(match["generation"]) if match and _is_name(match["name"]) else None


def render(manifest: Manifest) -> bytes:
    """The bytes of a header; raises `SnapshotError` for what `parse` would refuse."""
    check_names(manifest.arrays)
    arrays = {name: {**vars(entry), "shape": list(entry.shape)} for name, entry in manifest.arrays.items()}
    try:
        body = json.dumps({**vars(manifest), "arrays": arrays}, allow_nan=False, separators=(",", ":"))
    except (TypeError, ValueError, RecursionError) as error:
        raise SnapshotError("the header is not plain JSON", detail=f"{error}.") from error
    data = body.encode("ascii") + b"\n"
    if len(data) > MAX_HEADER:
        raise SnapshotError(
            f"the header would have {len(data)} bytes, at most {MAX_HEADER} fit",
            hint="Keep what grows in arrays.",
        )
    return MAGIC + f"{FORMAT} {digest(data)}\n".encode("ascii") + data


def parse(data: bytes) -> Manifest:
    """The manifest in the bytes of a header; raises `SnapshotError` for anything else."""
    if not data.startswith(MAGIC):
        raise SnapshotError("the header is not that of a rankcast snapshot")
    first = _FIRST_LINE.match(data)
    if first is None:
        _damaged("its first line cannot be read")
    if int(first[1]) > FORMAT:
        raise SnapshotError(
            f"the snapshot has format {int(first[1])}, this version of rankcast reads up to {FORMAT}",
            hint="Upgrade rankcast to read it.",
        )
    body = memoryview(data)[first.end() :]
    if digest(body) != first[2].decode():
        _damaged("its checksum does not fit")
    try:
        fields = json.loads(bytes(body).decode("utf-8"), parse_constant=_refuse_constant)
    except (ValueError, RecursionError) as error:
        _damaged(f"it is not JSON ({error})")
    return _manifest(fields)


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not JSON")


def _damaged(why: str) -> NoReturn:
    raise SnapshotError("the header of the snapshot is damaged", detail=f"{why[0].upper()}{why[1:]}.")


def _manifest(fields: Json) -> Manifest:
    """Check the parsed JSON of a header."""
    if not isinstance(fields, dict) or set(fields) != {"kind", "generation", "header", "arrays"}:
        _damaged("it does not have the fields of a snapshot")
    kind, header, arrays = fields["kind"], fields["header"], fields["arrays"]
    if not isinstance(kind, str) or not isinstance(header, dict) or not isinstance(arrays, dict):
        _damaged("kind, header and arrays are not a string and two objects")
    if not _is_count(fields["generation"]):
        _damaged("the generation is not a number")
    check_names(arrays)
    entries = {name: _entry(name, entry) for name, entry in arrays.items()}
    return Manifest(kind, fields["generation"], header, entries)


def _entry(name: str, fields: Json) -> Entry:
    """Check what the parsed JSON says about one array."""
    if not isinstance(fields, dict) or set(fields) != {"dtype", "shape", "bytes", "blake2b", "file"}:
        _damaged(f'array "{name}" is not described')
    dtype, shape, size = fields["dtype"], fields["shape"], fields["bytes"]
    if dtype not in DTYPES:
        _damaged(f'array "{name}" has an unknown type')
    if not isinstance(shape, list) or len(shape) > _MAX_DIMENSIONS or not all(map(_is_count, shape)):
        _damaged(f'array "{name}" has no possible shape')
    itemsize = np.dtype(dtype).itemsize
    if math.prod(max(length, 1) for length in shape) * itemsize >= _TOO_LARGE:
        _damaged(f'array "{name}" is impossibly large')
    if not _is_count(size) or size != math.prod(shape) * itemsize:
        _damaged(f'array "{name}" has a length that does not fit its shape')
    file, checksum = fields["file"], fields["blake2b"]
    if not isinstance(checksum, str) or _DIGEST.fullmatch(checksum) is None:
        _damaged(f'array "{name}" has no checksum')
    if not isinstance(file, str) or not (match := _FILE.fullmatch(file)) or match["name"] != name:
        _damaged(f'array "{name}" has a file that is not its own')
    return Entry(dtype, tuple(shape), size, checksum, file)


def _is_count(value: Json) -> bool:
    return type(value) is int and 0 <= value < _TOO_LARGE


def _is_name(name: str) -> bool:
    return len(name) <= _MAX_NAME and _NAME.fullmatch(name) is not None


def check_names(names: Iterable[str]) -> None:
    """Refuse names that could leave the directory or collide on some file system."""
    seen: set[str] = set()
    for name in names:
        if not _is_name(name):
            raise SnapshotError(
                f"{name[:200]!r} cannot name an array", detail=f"Names match {_NAME.pattern}."
            )
        if name.casefold() in seen:
            raise SnapshotError(f'two arrays are named "{name}" but for upper and lower case')
        seen.add(name.casefold())


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
    """A snapshot that was read: its kind, its small state, its arrays."""

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
    """Save to `path`, atomically and durably; replaces an existing snapshot.

    When it returns, the new snapshot survives a power cut. When it raises, or the process is killed at any
    instruction, the old snapshot or the new one is there. Writers of one path wait for each other.
    """
    root = Path(path)
    check_names(arrays)
    _prepare(root)
    with locked(root):
        generation = 1 + max((generation_of(name) or 0 for name in _names(root)), default=0)
        files = {name: root / file_name(name, generation) for name in arrays}
        try:
            entries = {name: _write_array(file, arrays[name]) for name, file in files.items()}
            text = render(Manifest(kind, generation, dict(header), entries))
            sync_directory(root)
            write_file(root / _NEW_HEADER, text)
        except BaseException:
            _remove([*files.values(), root / _NEW_HEADER])
            raise
        # From here on nothing is undone, so that whether the replacement took place need not be known.
        (root / _NEW_HEADER).replace(root / HEADER)
        sync_directory(root)
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
        with opened(Path(path) / HEADER) as (descriptor, size):
            if size > MAX_HEADER + 4096:
                raise SnapshotError(f"the header of {path} is too large")
            text = os.pread(descriptor, size, 0)
    except FileNotFoundError as error:
        raise SnapshotError(f"there is no snapshot at {path}") from error
    except OSError as error:
        raise SnapshotError(f"{path} cannot be read", detail=f"{error}.") from error
    return parse(text)


def mapped(root: Path, found: Manifest, mode: Mode, constant: tuple[str, ...] = ()) -> Arrays:
    """The arrays under `root` that a checked header names; raises before mapping one if lengths differ.

    Those whose names begin as `constant` says may be one file for many: no change ever reaches them.
    """
    folder = os.fspath(root)
    return {
        name: _map(f"{folder}/{entry.file}", entry, "copy-on-write" if name.startswith(constant) else mode)
        for name, entry in found.arrays.items()
    }


def _names(root: Path) -> list[str]:
    return [found.name for found in root.iterdir()]


def _is_array_file(name: str) -> bool:
    return generation_of(name) is not None


def _prepare(root: Path) -> None:
    """Create the directory if missing; refuse one that contains anything but (parts of) a snapshot."""
    if root.exists() and not root.is_dir():
        raise SnapshotError(f"{root} is not a directory")
    make_directory(root)
    names = _names(root)
    if HEADER in names:
        with suppress(OSError), opened(root / HEADER) as (descriptor, _):
            if os.pread(descriptor, len(MAGIC), 0) == MAGIC:
                return
    elif all(_is_array_file(name) or name == _NEW_HEADER for name in names):
        return
    raise SnapshotError(
        f"{root} holds files that are not a snapshot", hint="Save into a new or an empty directory."
    )


def _write_array(file: Path, array: NDArray[Any]) -> Entry:
    """Write one array, flush it to disk and describe what was written."""
    dtype = array.dtype.newbyteorder("<")
    if dtype.str not in DTYPES:
        raise SnapshotError(
            f"{file.name} would hold the type {array.dtype}", hint=f"Use one of {', '.join(DTYPES)}."
        )
    data = np.ascontiguousarray(array, dtype=dtype).reshape(-1).view(np.uint8).data
    write_file(file, data)
    return Entry(dtype.str, array.shape, data.nbytes, digest(data), file.name)


def _map(file: str, entry: Entry, mode: Mode) -> NDArray[Any]:
    """One array as its file, mapped into memory."""
    with opened(file, writable=mode == "in-place") as (descriptor, size):
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
    if digest(data.data) != entry.blake2b:
        raise SnapshotError(f"{what} is damaged", detail="Its checksum does not fit.")
    if entry.dtype == "|b1" and data.max(initial=0) > 1:
        raise SnapshotError(f"{what} is damaged", detail="It holds bytes that are neither true nor false.")


def _remove(files: Iterable[Path]) -> None:
    """Remove files that no header names; what cannot be removed now is removed by the next save."""
    for file in files:
        with suppress(OSError):
            file.unlink()
