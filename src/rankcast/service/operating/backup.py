"""Copies of a data directory: taken while a service runs on it, each stream as of one of its writes.

A stream is copied without its service's help. The journal comes from SQLite's own backup, which is one
transaction whatever is written meanwhile; the snapshot is the files that its header names. The snapshot is
copied first. If a newer one has taken its place before the journal was read, the journal may have dropped
what lies between, and both are copied again. The mark is made anew from the copied journal.

The log is left out: whoever resumes after a restore gets a snapshot. The copy is a tar file whose first
member is a manifest with the size and the checksum of all others.
"""

from __future__ import annotations

import hashlib
import io
import json
import re
import shutil
import sqlite3
import tarfile
import tempfile
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

from rankcast.core import snapshot
from rankcast.errors import InputError, ShardError
from rankcast.service.operating.tokens import FILE as TOKENS
from rankcast.service.streams.directory import FOLDER, NAME
from rankcast.service.streams.stream import FILE
from rankcast.state.checkpoint import Mark, mark_of
from rankcast.state.high_water import HighWater

MANIFEST = "rankcast-backup.json"
FORMAT = 1
_ATTEMPTS = 20
_MEMBER = re.compile(rf"{TOKENS}|{FOLDER}/[A-Za-z0-9][A-Za-z0-9_-]*/(?:{FILE}|shard/(?:snapshot/)?[\w.-]+)")


def backup(data: Path, file: Path) -> int:
    """Write a copy of a data directory into a file; returns how many streams it has.

    Raises:
        InputError: there is no data directory, or the file is there already.
    """
    if not (data / FOLDER).is_dir():
        raise InputError(f"{data} is no directory of the service")
    if file.exists():
        raise InputError(f"{file} is there already", hint="Give the copy a new name.")
    part = file.with_name(f"{file.name}.part")
    names = sorted(each.name for each in (data / FOLDER).iterdir() if (each / FILE).exists())
    with tempfile.TemporaryDirectory(dir=file.absolute().parent) as folder:
        copy = Path(folder)
        if (data / TOKENS).exists():
            shutil.copyfile(data / TOKENS, copy / TOKENS)
        for name in names:
            _copy_stream(data / FOLDER / name, copy / FOLDER / name)
        _pack(copy, part)
    part.replace(file)
    snapshot.sync_directory(file.absolute().parent)
    return len(names)


def restore(file: Path, data: Path) -> int:
    """Make a data directory from a copy; returns how many streams it has.

    Raises:
        InputError: the directory holds something, or the file is no copy, or a damaged one.
    """
    if data.exists() and any(data.iterdir()):
        raise InputError(f"{data} is not empty", hint="Restore into a new directory.")
    snapshot.make_directory(data)
    try:
        with tarfile.open(file, "r:") as packed:
            _unpack(packed, data)
    except (tarfile.TarError, EOFError, UnicodeDecodeError) as error:
        raise InputError(f"{file} is no copy of the service", detail=f"{error}.") from error
    streams = data / FOLDER
    return sum(1 for _ in streams.iterdir()) if streams.is_dir() else 0


def _copy_stream(source: Path, target: Path) -> None:
    """Copy one stream as of one of its writes."""
    for _ in range(_ATTEMPTS):
        shutil.rmtree(target, ignore_errors=True)
        (target / "shard").mkdir(parents=True)
        try:
            shutil.copyfile(source / FILE, target / FILE)
            begun = _copy_snapshot(source / "shard" / "snapshot", target / "shard" / "snapshot")
            newest = _copy_journal(source / "shard", target / "shard", begun)
        except FileNotFoundError:  # a newer snapshot has taken the place of this one
            continue
        if newest is not None:
            HighWater(target / "shard").make(newest)
            return
    raise ShardError(f"{source} changes too fast to be copied", hint="Try again.")


def _copy_snapshot(source: Path, target: Path) -> Mark:
    """Copy a snapshot; of which batch it is."""
    target.mkdir()
    header = (source / snapshot.HEADER).read_bytes()
    found = snapshot.parse(header)
    for entry in found.arrays.values():
        shutil.copyfile(source / entry.file, target / entry.file)
    (target / snapshot.HEADER).write_bytes(header)
    return mark_of(found.header)


def _copy_journal(source: Path, target: Path, begun: Mark) -> Mark | None:
    """Copy a journal; where it ends, or None if it does not go on from the snapshot."""
    name = "journal.sqlite"
    place = f"{(source / name).absolute().as_uri()}?mode=ro"
    with closing(sqlite3.connect(place, uri=True)) as live, closing(sqlite3.connect(target / name)) as copy:
        live.backup(copy)
        copy.execute("PRAGMA journal_mode = DELETE")
        query = "SELECT number, token FROM batch WHERE number > ? AND batch IS NOT NULL ORDER BY number"
        rows = copy.execute(query, (begun.number,)).fetchall()
        newest = copy.execute("SELECT number, token FROM batch ORDER BY number DESC LIMIT 1").fetchone()
    if newest is None:
        return begun if begun.number == 0 else None
    whole = [number for number, _ in rows] == list(range(begun.number + 1, newest[0] + 1))
    return Mark(*newest) if whole and newest[0] >= begun.number else None


def _files(copy: Path) -> Iterator[Path]:
    yield from (each for each in sorted(copy.rglob("*")) if each.is_file())


def _pack(copy: Path, file: Path) -> None:
    listed = {
        each.relative_to(copy).as_posix(): [each.stat().st_size, _digest(each)] for each in _files(copy)
    }
    manifest = json.dumps({"format": FORMAT, "files": listed}, indent=1).encode()
    file.unlink(missing_ok=True)
    file.touch(0o600, exist_ok=False)  # secrets of webhooks are in it
    with tarfile.open(file, "w:", format=tarfile.PAX_FORMAT) as packed:
        entry = tarfile.TarInfo(MANIFEST)
        entry.size, entry.mode = len(manifest), 0o600
        packed.addfile(entry, io.BytesIO(manifest))
        for each in _files(copy):
            entry = tarfile.TarInfo(each.relative_to(copy).as_posix())
            entry.size, entry.mode = each.stat().st_size, 0o600
            with each.open("rb") as content:
                packed.addfile(entry, content)
    with snapshot.opened(file) as (descriptor, _):
        snapshot.flush(descriptor)


def _unpack(packed: tarfile.TarFile, data: Path) -> None:
    """Write the members of a copy, each of which must be as the manifest says."""
    first = packed.next()
    listed = _manifest(packed, first)
    for entry in packed:
        if entry.name == MANIFEST:
            continue
        if not entry.isreg() or entry.name not in listed or not _MEMBER.fullmatch(entry.name):
            raise InputError(f"the copy holds {entry.name}, which is none of its files")
        size, digest = listed.pop(entry.name)
        content = packed.extractfile(entry)
        if content is None or entry.size != size:
            raise InputError(f"{entry.name} of the copy is damaged")
        target = data / entry.name
        target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
        with target.open("xb") as file:
            target.chmod(0o600)
            shutil.copyfileobj(content, file)
        if _digest(target) != digest:
            raise InputError(f"{entry.name} of the copy is damaged")
    if listed:
        raise InputError(f"the copy has lost {min(listed)}")
    for name in {Path(each).parts[1] for each in map(str, _relative(data)) if each.startswith(FOLDER)}:
        if not NAME.fullmatch(name):
            raise InputError(f"the copy holds a stream {name}, which is no name")


def _relative(data: Path) -> Iterator[Path]:
    return (each.relative_to(data) for each in _files(data))


def _manifest(packed: tarfile.TarFile, first: tarfile.TarInfo | None) -> dict[str, Any]:
    content = packed.extractfile(first) if first is not None and first.name == MANIFEST else None
    try:
        found = json.loads(content.read()) if content is not None else {}
        if found.get("format") != FORMAT:
            raise ValueError("it has no manifest of a format that is known")
        return {str(name): (int(size), str(digest)) for name, (size, digest) in found["files"].items()}
    except (ValueError, TypeError, KeyError, AttributeError) as error:
        raise InputError("the file is no copy of the service", detail=f"{error}.") from error


def _digest(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, lambda: hashlib.blake2b(digest_size=16)).hexdigest()
