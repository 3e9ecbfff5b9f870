"""The header of a snapshot as bytes and back: pure functions, no file is touched here.

The first line holds the magic, the format version and the BLAKE2b checksum of the rest; the rest is one JSON
object: `kind`, `generation`, `header` (the small state, any JSON object) and `arrays` (dtype, shape, byte
length, checksum and file name of each). `parse` trusts nothing: whatever `render` could not have written
raises `SnapshotError`, before anything is allocated that the header merely claims.
"""

from __future__ import annotations

import hashlib
import json
import math
import re
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np

from rankcast.errors import SnapshotError

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
    """What the header says of one array."""

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
    """The generation that a file name tells, or None if it cannot be the file of an array."""
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
    """Check what the parsed JSON says of one array."""
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
    """Refuse names that could leave the directory or fall together on some file system."""
    seen: set[str] = set()
    for name in names:
        if not _is_name(name):
            raise SnapshotError(
                f"{name[:200]!r} cannot name an array", detail=f"Names match {_NAME.pattern}."
            )
        if name.casefold() in seen:
            raise SnapshotError(f'two arrays are named "{name}" but for upper and lower case')
        seen.add(name.casefold())
