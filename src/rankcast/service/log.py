"""The log of a stream: every write with its answer, for those who resume and for dry runs; bounded.

    log/<number of its first entry>.log    entries one behind the other: magic, checksum, number, time,
                                           lengths, the batch and the answer

An entry is written before its batch is committed, and not flushed: a kill leaves everything that was written,
so the log is never behind the journal; it may be ahead, by a group that was never committed, and is cut back
when it is opened. After a power cut the end may be missing. Then the log begins anew: whoever wants to resume
from before gets a snapshot instead, which is always right.

Whole files are dropped, the oldest first, by age and by bytes. One thread appends, any may read.
"""

from __future__ import annotations

import os
import re
import struct
import threading
import zlib
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

from rankcast.core import snapshot

_MAGIC = b"RKCL"
_FORM = struct.Struct("<4sIQdII")
_NAME = re.compile(r"(\d{20})\.log")
_LARGEST = 1 << 32
_FILES = 16  # into how many the bytes are divided


class Entry(NamedTuple):
    """A write: its number, when it was, the bytes of the batch and of the answer."""

    number: int
    at: float
    batch: bytes
    answer: bytes


@dataclass
class _Segment:
    first: int
    path: Path
    size: int = 0
    newest: float = 0.0
    offsets: array[int] | None = field(default_factory=lambda: array("Q"))  # None: not read yet


class Log:
    """The log in one directory, which ends at the entry `end`."""

    def __init__(self, path: Path, *, end: int, most: int, age: float) -> None:
        self._path = path
        self._most, self._age = most, age
        self._turn = threading.Lock()
        self._waiting: list[bytes] = []
        self._descriptor: int | None = None
        snapshot.make_directory(path)
        found = sorted(each for each in path.iterdir() if _NAME.fullmatch(each.name))
        self._segments = [_Segment(int(each.stem), each, each.stat().st_size, offsets=None) for each in found]
        self._end = end
        self._open()

    @property
    def first(self) -> int:
        """The number behind which one can resume."""
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

    def append(self, entry: Entry) -> None:
        """Add the next entry; `flush` writes it."""
        body = _FORM.pack(_MAGIC, 0, entry.number, entry.at, len(entry.batch), len(entry.answer))[8:]
        check = zlib.crc32(entry.answer, zlib.crc32(entry.batch, zlib.crc32(body)))
        with self._turn:
            segment = self._segments[-1] if self._segments else None
            if segment is None or segment.offsets is None or segment.size >= self._most // _FILES:
                self._write()
                segment = self._begin(entry.number)
            offsets = segment.offsets if segment.offsets is not None else array("Q")
            self._waiting += [_MAGIC + check.to_bytes(4, "little") + body, entry.batch, entry.answer]
            offsets.append(segment.size)
            segment.size += _FORM.size + len(entry.batch) + len(entry.answer)
            segment.newest = entry.at
            self._end = entry.number

    def flush(self) -> None:
        """Write what was added; it outlives the process from here on."""
        with self._turn:
            self._write()

    def take_back(self, end: int) -> None:
        """Forget the entries above a number, which were not committed."""
        with self._turn:
            self._waiting.clear()
            self._cut(end)

    def after(self, number: int, upto: int | None = None) -> Iterator[Entry] | None:
        """The entries behind a number, up to one; None: it does not go back so far, or is of the future."""
        last = self._end if upto is None else upto
        if not self.first <= number <= last:
            return None
        return self._entries(number, last)

    def forget_old(self, now: float) -> None:
        """Drop files that are too old."""
        with self._turn:
            while len(self._segments) > 1 and self._segments[0].newest < now - self._age:
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
            with segment.path.open("rb") as file:
                file.seek(start)
                for _ in range(count):
                    entry = _read(file.read(_FORM.size), file.read)
                    if entry is None or entry.number != number + 1:
                        raise LookupError(number + 1)
                    yield entry
                    number += 1

    def _open(self) -> None:
        """Cut off what was not committed; begin anew if something is missing."""
        if self._segments:
            self._scan(self._segments[-1])
        while len(self._segments) > 1 and not self._segments[-1].offsets:
            self._segments.pop().path.unlink(missing_ok=True)
            self._scan(self._segments[-1])
        reached = 0
        if self._segments:
            last = self._segments[-1]
            reached = last.first + len(last.offsets or ()) - 1
        if reached < self._end:
            while self._segments:
                self._segments.pop().path.unlink(missing_ok=True)
        else:
            self._cut(self._end)

    def _cut(self, end: int) -> None:
        """Cut the log behind an entry. The caller holds the turn, or is alone."""
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
        """Find the entries of a file, up to the first that is not whole."""
        offsets, at = array("Q"), 0
        with segment.path.open("rb") as file:
            while True:
                entry = _read(file.read(_FORM.size), file.read)
                if entry is None or entry.number != segment.first + len(offsets):
                    break
                offsets.append(at)
                at += _FORM.size + len(entry.batch) + len(entry.answer)
                segment.newest = entry.at
        segment.offsets, segment.size = offsets, at

    def _begin(self, first: int) -> _Segment:
        """Begin a new file; drop the oldest ones that are too much."""
        self._let_go()
        self._segments.append(_Segment(first, self._path / f"{first:020d}.log"))
        while len(self._segments) > 1 and sum(each.size for each in self._segments) > self._most:
            self._drop_first()
        return self._segments[-1]

    def _drop_first(self) -> None:
        self._segments.pop(0).path.unlink(missing_ok=True)

    def _write(self) -> None:
        if not self._waiting:
            return
        parts, self._waiting = self._waiting, []
        if self._descriptor is None:
            path = self._segments[-1].path
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW
            self._descriptor = os.open(path, flags, 0o600)
        data = memoryview(b"".join(parts))
        while data:
            data = data[os.write(self._descriptor, data) :]

    def _let_go(self) -> None:
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None


def _read(head: bytes, more: Callable[[int], bytes]) -> Entry | None:
    """The entry that begins with `head`; None if it is not whole."""
    if len(head) < _FORM.size:
        return None
    magic, check, number, at, first, second = _FORM.unpack(head)
    if magic != _MAGIC or first + second > _LARGEST:
        return None
    batch, answer = more(first), more(second)
    if zlib.crc32(answer, zlib.crc32(batch, zlib.crc32(head[8:]))) != check:
        return None
    return Entry(number, at, batch, answer)
