"""Files that survive a power cut: write, make, open and lock with care.

A new file is durable once its bytes and the entry in its directory are flushed; these are separate calls
here, so that many files share one flush of their directory.
"""

from __future__ import annotations

import fcntl
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
    """Write a whole file over what it held, in memory only: nothing is flushed, and a kill leaves a mixture.

    Emptying a file first makes some file systems flush it when it is closed, which takes milliseconds.
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
    """Flush the bytes of a file to disk; of what is known about it, only what reading them back needs."""
    getattr(os, "fdatasync", os.fsync)(descriptor)


def sync_directory(path: Path) -> None:
    """Flush the entries of a directory to disk."""
    descriptor = os.open(path, _DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def make_directory(path: Path) -> None:
    """Make a directory and its parents, where they are missing, and flush their entries to disk."""
    missing = [directory for directory in (path, *path.parents) if not directory.exists()]
    path.mkdir(parents=True, exist_ok=True)
    for directory in reversed(missing):
        sync_directory(directory.parent)


@contextmanager
def opened(path: Path | str, *, writable: bool = False) -> Iterator[tuple[int, int]]:
    """Open a regular file and nothing else: yield its descriptor and its size.

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
    """Hold the lock of a directory, yield its descriptor; the lock goes with the process, however that ends.

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
