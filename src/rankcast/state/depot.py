"""Snapshots and small files on any file system that `pyarrow.fs` knows, local or an object store.

A snapshot is a folder of array files and a `header.json` (see `rankcast.core.snapshot`), written last: one
without a header was never finished. Every attempt to write one has its own folder, so nothing is ever
replaced or renamed, which object stores cannot do atomically. Files are verified by their checksums when
read.
"""

from __future__ import annotations

import hashlib
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray
from pyarrow import fs

from rankcast.core import snapshot
from rankcast.core.snapshot import Entry, Manifest
from rankcast.errors import InputError, SnapshotError, shown

_NAME = re.compile(r"[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*(?:/[A-Za-z0-9_-]+(?:\.[A-Za-z0-9_-]+)*)*")
_PIECE = 8 << 20
_AT_ONCE = 4


class Depot:
    """A folder on some file system. Names are relative to it and never lead outside."""

    def __init__(self, filesystem: fs.FileSystem, path: str) -> None:
        self._filesystem = filesystem
        self._path = path.rstrip("/")

    @classmethod
    def open(cls, uri: str | os.PathLike[str]) -> Depot:
        """The folder at an absolute URI, or at an absolute local path.

        Raises:
            InputError: the URI is relative, or of a scheme that pyarrow does not know.
        """
        text = os.fspath(uri)
        scheme = urlsplit(text).scheme
        if not scheme and not Path(text).is_absolute():
            raise InputError(
                f"state is {shown(text)}",
                expected="an absolute path or URI",
                detail="Every executor has a working directory of its own.",
            )
        try:
            filesystem, path = fs.FileSystem.from_uri(text if scheme else Path(text).as_posix())
        except (pa.ArrowException, OSError, ValueError) as error:
            raise InputError(
                f"state is {shown(text)}, which cannot be opened", detail=f"{error}".rstrip(".") + "."
            ) from error
        return cls(filesystem, path)

    def exists(self, name: str) -> bool:
        """Whether there is such a file."""
        return bool(self._filesystem.get_file_info(self._at(name)).type == fs.FileType.File)

    def get(self, name: str) -> bytes:
        """A whole small file."""
        try:
            with self._filesystem.open_input_stream(self._at(name)) as stream:
                data: bytes = stream.read()
        except FileNotFoundError as error:
            raise SnapshotError(f"there is no {self._at(name)}") from error
        return data

    def put(self, name: str, data: bytes | memoryview) -> None:
        """Write a whole file; on a local file system it is on disk when this returns."""
        path = self._at(name)
        parent = path.rsplit("/", 1)[0]
        if isinstance(self._filesystem, fs.LocalFileSystem):
            snapshot.make_directory(Path(parent))
            snapshot.write_file(Path(path), data)
            return
        self._filesystem.create_dir(parent, recursive=True)
        with self._filesystem.open_output_stream(path) as stream:
            view = memoryview(data)
            for start in range(0, len(view), _PIECE):
                stream.write(view[start : start + _PIECE])

    def write(self, name: str, kind: str, header: Mapping[str, Any], arrays: Mapping[str, Any]) -> int:
        """Write a snapshot into a new folder; returns its size in bytes."""
        snapshot.check_names(arrays)
        entries = {key: self._put_array(name, key, array) for key, array in arrays.items()}
        self.put(f"{name}/{snapshot.HEADER}", snapshot.render(Manifest(kind, 1, dict(header), entries)))
        return sum(entry.bytes for entry in entries.values())

    def peek(self, name: str) -> Manifest:
        """The checked header of a snapshot."""
        return snapshot.parse(self.get(f"{name}/{snapshot.HEADER}"))

    def fetch(
        self, name: str, into: Path, *, constant: tuple[str, ...] = (), shared: Path | None = None
    ) -> Manifest:
        """Copy the array files of a snapshot into a local directory and verify their checksums.

        Several at once: an object store answers slowly but in parallel, and checksums take a core each.
        Arrays whose names begin as `constant` says are links to one file each in the directory `shared`,
        named by its checksum: whoever comes first copies it there.
        """
        found = self.peek(name)
        with ThreadPoolExecutor(_AT_ONCE, thread_name_prefix="rankcast-fetch") as pool:
            jobs = [
                pool.submit(
                    self._fetch_array,
                    f"{name}/{entry.file}",
                    entry,
                    into / entry.file,
                    key,
                    shared if key.startswith(constant) else None,
                )
                for key, entry in found.arrays.items()
            ]
        for job in jobs:
            job.result()
        return found

    def folders(self, name: str) -> Iterator[str]:
        """The names of the subfolders of a folder, relative to it; none if it does not exist."""
        selector = fs.FileSelector(self._at(name), allow_not_found=True)
        for info in self._filesystem.get_file_info(selector):
            if info.type == fs.FileType.Directory:
                yield info.base_name

    def remove(self, name: str) -> None:
        """Remove a folder and what is in it."""
        self._filesystem.delete_dir(self._at(name))

    def _at(self, name: str) -> str:
        if not _NAME.fullmatch(name):
            raise SnapshotError(f"{name[:200]!r} cannot name a file here")
        return f"{self._path}/{name}"

    def _put_array(self, folder: str, name: str, array: NDArray[Any]) -> Entry:
        dtype = array.dtype.newbyteorder("<")
        data = np.ascontiguousarray(array, dtype=dtype).reshape(-1).view(np.uint8).data
        file = snapshot.file_name(name, 1)
        self.put(f"{folder}/{file}", data)
        return Entry(dtype.str, array.shape, data.nbytes, snapshot.digest(data), file)

    def _fetch_array(self, name: str, entry: Entry, target: Path, key: str, shared: Path | None) -> None:
        if shared is None:
            self._copy_array(name, entry, target, key)
            return
        common = shared / entry.blake2b
        if not common.exists():
            snapshot.make_directory(shared)
            mine = shared / f"{entry.blake2b}.{uuid.uuid4().hex}"
            try:
                self._copy_array(name, entry, mine, key)
                with suppress(FileExistsError):  # another was quicker
                    common.hardlink_to(mine)
            finally:
                mine.unlink(missing_ok=True)
        target.hardlink_to(common)

    def _copy_array(self, name: str, entry: Entry, target: Path, key: str) -> None:
        told = hashlib.blake2b(digest_size=32)
        size = 0
        try:
            with self._filesystem.open_input_stream(self._at(name)) as source, target.open("wb") as sink:
                while piece := source.read(_PIECE):
                    sink.write(piece)
                    told.update(piece)
                    size += len(piece)
        except FileNotFoundError as error:
            raise SnapshotError(f'array "{key}" of {self._at(name)} is missing') from error
        _check(entry, size, told.hexdigest(), key)


def _check(entry: Entry, size: int, checksum: str, name: str) -> None:
    """Refuse an array that differs from what was written."""
    if size != entry.bytes or checksum != entry.blake2b:
        raise SnapshotError(f'array "{name}" of the snapshot is damaged', detail="Its checksum does not fit.")
