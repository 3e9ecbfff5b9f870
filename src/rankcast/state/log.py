"""A log of batches and answers in plain files: for shards, and for services that resend them.

    <number of its first entry>.log    entries one after the other: magic, checksum, number, time,
                                       lengths, the batch and the answer

An entry is written before its batch is committed, and not flushed: a kill preserves everything that was
written, so the log is never behind the journal. It may be ahead by a group that was never committed, and is
cut back when it is opened. After a power cut, entries that were not synced may be missing, or may belong to
batches that were undone: a user who cannot recreate them starts the log again; one who can fills the gap.

Whole files are dropped, the oldest first, by age, by bytes, or by number. Some become spare: the next
file overwrites one, which costs a tenth of a new one's pages. Its old contents do not continue the
numbers, and so mark the end of the file. One thread appends, any may read.
"""

from __future__ import annotations

import math
import os
import re
import struct
import threading
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple, TypeAlias

from rankcast.core import snapshot

Bytes: TypeAlias = bytes | memoryview

_MAGIC = b"RKCL"
_FORM = struct.Struct("<4sIQdII")
_NAME = re.compile(r"(\d{20})\.log")
_LARGEST = 1 << 32
_FILES = 16  # into how many the bytes are divided
_TOGETHER = 1 << 20  # bytes that are copied to be written in one call; and those that wait for it


class Entry(NamedTuple):
    """A write: its number, its time, the bytes of the batch and of the answer."""

    number: int
    at: float
    batch: bytes
    answer: Bytes

    @property
    def size(self) -> int:
        """How many bytes it takes."""
        return _FORM.size + len(self.batch) + len(self.answer)

    def checksum(self) -> int:
        """The checksum of all of it."""
        head = _FORM.pack(_MAGIC, 0, self.number, self.at, len(self.batch), len(self.answer))
        return zlib.crc32(self.answer, zlib.crc32(self.batch, zlib.crc32(head[8:])))

    def parts(self, checksum: int) -> list[Bytes]:
        """Its bytes."""
        sizes = len(self.batch), len(self.answer)
        return [_FORM.pack(_MAGIC, checksum, self.number, self.at, *sizes), self.batch, self.answer]


@dataclass
class _Segment:
    first: int
    path: Path
    size: int = 0
    newest: float = 0.0
    offsets: array[int] | None = field(default_factory=lambda: array("Q"))  # None: not read yet

    @classmethod
    def found(cls, path: Path) -> _Segment:
        """A file that is there; until it is read, its newest entry is as old as the file."""
        about = path.stat()
        return cls(int(path.stem), path, about.st_size, about.st_mtime, offsets=None)


class Log:
    """The log in one directory, which ends at the entry `end`.

    Args:
        path: the directory; it is created if missing.
        end: the number of the last valid entry.
        most: bytes above which the oldest files are dropped.
        age: seconds after which a file is dropped.
        file: bytes of a file, by default a share of all.
        spare: bytes of files that are kept for overwriting, by default those of one.
        holes: keep the existing entries if the end is missing; otherwise the log starts again after `end`.
    """

    def __init__(
        self,
        path: Path,
        *,
        end: int,
        most: int = 1 << 62,
        age: float = math.inf,
        file: int | None = None,
        spare: int | None = None,
        holes: bool = False,
    ) -> None:
        self._path = path
        self._most, self._age, self._holes = most, age, holes
        self._file = file or most // _FILES
        self._spare = spare or 2 * self._file
        self._turn = threading.Lock()
        self._waiting: list[Bytes] = []
        self._bytes = 0  # that wait
        self._dirty: set[Path] = set()  # written to, and not flushed
        self._descriptor: int | None = None
        snapshot.make_directory(path)
        found = sorted(each for each in path.iterdir() if _NAME.fullmatch(each.name))
        self._segments = [_Segment.found(each) for each in found]
        self._spares = {each: each.stat().st_size for each in sorted(path.glob("*.spare"))}
        self._end = end
        self._open()

    @property
    def first(self) -> int:
        """The number after which one can resume."""
        with self._turn:
            return self._segments[0].first - 1 if self._segments else self._end

    @property
    def end(self) -> int:
        """The number of the last entry."""
        return self._end

    @property
    def size(self) -> int:
        """How many bytes it has."""
        with self._turn:
            return sum(segment.size for segment in self._segments)

    def append(self, entry: Entry, checksum: int | None = None) -> None:
        """Add the next entry, whose checksum may be known; `flush` writes it.

        Raises:
            OSError: it is too long, or waiting entries could not be written.
        """
        if len(entry.batch) + len(entry.answer) >= _LARGEST:
            raise OSError(f"an entry of {entry.size} bytes is too long for {self._path}")
        parts = entry.parts(entry.checksum() if checksum is None else checksum)
        with self._turn:
            segment = self._segments[-1] if self._segments else None
            full = segment is None or segment.offsets is None or segment.size >= self._file
            if segment is None or full or entry.number != self._end + 1:
                self._write()
                segment = self._begin(entry.number)
            offsets = segment.offsets if segment.offsets is not None else array("Q")
            self._waiting += parts
            self._bytes += entry.size
            offsets.append(segment.size)
            segment.size += entry.size
            segment.newest = entry.at
            self._end = entry.number
            if self._bytes > _TOGETHER:
                self._write()

    def flush(self) -> None:
        """Write what was added; from here on it survives the process."""
        with self._turn:
            self._write()

    def sync(self) -> None:
        """Flush everything written before; any thread may call it.

        Raises:
            OSError: it could not be flushed.
        """
        with self._turn:
            dirty, self._dirty = self._dirty, set()
        try:
            for path in sorted(dirty):
                with suppress(FileNotFoundError), snapshot.opened(path) as (descriptor, _):
                    snapshot.flush(descriptor)
            if dirty:
                snapshot.sync_directory(self._path)
        except BaseException:
            with self._turn:
                self._dirty |= dirty
            raise

    def take_back(self, end: int) -> None:
        """Delete the entries above a number, which were not committed."""
        with self._turn:
            self._waiting.clear()
            self._bytes = 0
            self._cut(min(end, self._end))

    def after(self, number: int, upto: int | None = None) -> Iterator[Entry] | None:
        """The entries after a number, up to one; None if the log does not reach back that far, or not yet."""
        last = self._end if upto is None else upto
        if not self.first <= number <= last:
            return None
        return self._entries(number, last)

    def forget_old(self, now: float) -> None:
        """Drop files that are too old."""
        with self._turn:
            while len(self._segments) > 1 and self._segments[0].newest < now - self._age:
                self._drop_first()

    def forget(self, number: int) -> None:
        """Drop files that have no entry above a number."""
        with self._turn:
            while len(self._segments) > 1 and self._segments[1].first <= number + 1:
                self._drop_first()

    def close(self) -> None:
        """Close the file."""
        with self._turn:
            self._let_go()

    def _entries(self, number: int, last: int) -> Iterator[Entry]:
        while number < last:
            with self._turn:
                place = bisect_right([segment.first for segment in self._segments], number + 1) - 1
                if place < 0:
                    raise LookupError(number + 1)
                segment = self._segments[place]
                if segment.offsets is None:
                    self._scan(segment)
                offsets = segment.offsets or array("Q")
                if number + 1 - segment.first >= len(offsets):
                    raise LookupError(number + 1)
                start = offsets[number + 1 - segment.first]
                count = min(last, segment.first + len(offsets) - 1) - number
            try:
                file = segment.path.open("rb")
            except FileNotFoundError as error:  # it was dropped meanwhile
                raise LookupError(number + 1) from error
            with file:
                file.seek(start)
                for _ in range(count):
                    entry = _read(file.read(_FORM.size), file.read)
                    if entry is None or entry.number != number + 1:
                        raise LookupError(number + 1)
                    yield entry
                    number += 1

    def _open(self) -> None:
        """Cut off what was not committed; start again if something is missing."""
        if self._segments:
            self._scan(self._segments[-1])
        while len(self._segments) > 1 and not self._segments[-1].offsets:
            self._segments.pop().path.unlink(missing_ok=True)
            self._scan(self._segments[-1])
        reached = 0
        if self._segments:
            last = self._segments[-1]
            reached = last.first + len(last.offsets or ()) - 1
        if reached >= self._end:
            self._cut(self._end)
        elif self._holes:
            self._cut(reached)
        else:
            while self._segments:
                self._segments.pop().path.unlink(missing_ok=True)

    def _cut(self, end: int) -> None:
        """Cut the log after an entry. The caller holds the lock, or is alone."""
        self._let_go()
        while self._segments and self._segments[-1].first > end:
            self._segments.pop().path.unlink(missing_ok=True)
        self._end = end
        if not self._segments:
            return
        segment = self._segments[-1]
        if segment.offsets is None:
            self._scan(segment)
        offsets = segment.offsets or array("Q")
        keep = end - segment.first + 1
        if keep < len(offsets):
            segment.size = offsets[keep]
            del offsets[keep:]
        if segment.path.exists():
            os.truncate(segment.path, segment.size)

    def _scan(self, segment: _Segment) -> None:
        """Find the entries of a file, up to the first incomplete one."""
        offsets, at = array("Q"), 0
        with segment.path.open("rb") as file:
            while True:
                entry = _read(file.read(_FORM.size), file.read)
                if entry is None or entry.number != segment.first + len(offsets):
                    break
                offsets.append(at)
                at += entry.size
                segment.newest = entry.at
        segment.offsets, segment.size = offsets, at

    def _begin(self, first: int) -> _Segment:
        """Start a new file; drop the oldest ones that are too many."""
        self._let_go()
        self._segments.append(_Segment(first, self._path / f"{first:020d}.log"))
        if self._spares:
            self._spares.popitem()[0].replace(self._segments[-1].path)
        while len(self._segments) > 1 and sum(each.size for each in self._segments) > self._most:
            self._drop_first()
        return self._segments[-1]

    def _drop_first(self) -> None:
        gone = self._segments.pop(0)
        self._dirty.discard(gone.path)
        if sum(self._spares.values()) + gone.size <= self._spare and gone.path.exists():
            target = gone.path.with_suffix(".spare")
            gone.path.replace(target)
            self._spares[target] = gone.size
        else:
            gone.path.unlink(missing_ok=True)

    def _write(self) -> None:
        if not self._waiting:
            return
        parts, self._waiting, size, self._bytes = self._waiting, [], self._bytes, 0
        path = self._segments[-1].path
        self._dirty.add(path)
        if self._descriptor is None:
            flags = os.O_WRONLY | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o600)
            os.lseek(self._descriptor, self._segments[-1].size - size, os.SEEK_SET)
        try:
            for part in parts if size > _TOGETHER else [b"".join(parts)]:
                data = memoryview(part)
                while data:
                    data = data[os.write(self._descriptor, data) :]
        except BaseException:  # a part of it may be there: all of it will be written again in its place
            self._let_go()
            self._waiting, self._bytes = parts, size
            raise

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _read(head: bytes, more: Callable[[int], bytes]) -> Entry | None:
    """The entry that starts with `head`; None if it is incomplete."""
    if len(head) < _FORM.size:
        return None
    magic, check, number, at, first, second = _FORM.unpack(head)
    if magic != _MAGIC or first + second > _LARGEST:
        return None
    batch, answer = more(first), more(second)
    if zlib.crc32(answer, zlib.crc32(batch, zlib.crc32(head[8:]))) != check:
        return None
    return Entry(number, at, batch, answer)
