"""The live arrays of a shard on one host: files that any process of the host maps in a millisecond.

    header.json                  see rankcast.core.snapshot; absent while a batch is being applied
    <name>.<generation>.array    the elements, changed in place by whoever holds the lock
    answer                       what the last batch was answered with: its receipt

The files are a cache of what a snapshot and a log can always give back, so nothing is flushed to disk and no
checksum is kept. What they hold counts only while `header.json` is there, which names the token they stand
for: it is removed before the first byte changes and put back, in one step, after the last. A kill in between
leaves no header. After a crash of the host the page cache is gone, so the header also names the boot it was
written under, and one of another boot does not count.

Cost: `open` maps each array once, whatever its size; `commit` writes the arrays that the engine has replaced
by others (grown ones), and the header.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext, suppress
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankcast.core import durable, snapshot
from rankcast.core.snapshot import Entry, Manifest
from rankcast.errors import SnapshotError
from rankcast.state.batches import Token
from rankcast.state.recovery import Engine
from rankcast.structures import integrity

ANSWER = "answer"
_NEW = ".new"
_NO_CHECKSUM = "0" * 64
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_OPEN = Path("/proc/self/fd")  # where a system has it, the open files of this process

E = TypeVar("E", bound=Engine)


class Place(NamedTuple):
    """Where live arrays stand: the batch they hold, its token, and the token before it."""

    number: int
    token: Token
    prev: Token


class Live:
    """The live arrays in one directory. All methods but `held` need the lock that `held` takes."""

    def __init__(self, root: Path) -> None:
        self.root = self.here = root
        self._manifest: Manifest | None = None
        self._mapped: dict[str, NDArray[Any]] = {}

    @contextmanager
    def held(self) -> Iterator[None]:
        """Hold the directory against every other process of the host; it is made if it is not there.

        Until then `here` is the very directory that is held: if somebody removes it, writing fails, and does
        not go to one that others have made in its place.
        """
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with durable.locked(self.root) as descriptor:
            held = _OPEN / str(descriptor)
            self.here = held if held.is_dir() else self.root
            try:
                yield
            finally:
                self._manifest, self._mapped, self.here = None, {}, self.root

    def place(self) -> Place | None:
        """Where the arrays stand, None if they do not count."""
        try:
            self._manifest = snapshot.peek(self.here)
            header = self._manifest.header
            place = Place(int(header["number"]), str(header["token"]), str(header["prev"]))
        except (SnapshotError, KeyError, TypeError, ValueError):
            return None
        return place if header.get("boot") == boot() else None

    def answer(self) -> bytes | None:
        """The answer to the last batch, None if it is gone."""
        try:
            return (self.here / ANSWER).read_bytes()
        except OSError:
            return None

    def open(self, engine: type[E], given: Mapping[str, Any], *, ours: bool = False) -> E:
        """The engine over the mapped arrays, which `place` or `take` has found; it changes the files.

        Contents are checked unless the arrays are `ours`: those that `commit` left here.
        """
        found = self._manifest
        if found is None or found.kind != engine.__name__:
            raise SnapshotError(f"{self.root} does not hold a {engine.__name__}")
        try:
            arrays = snapshot.mapped(self.here, found, "in-place")
        except OSError as error:
            raise SnapshotError(f"{self.root} is damaged", detail=f"{error}.") from error
        self._mapped = dict(arrays)
        with integrity.trusted() if ours else nullcontext():
            return engine.restore(found.header["engine"], arrays, **given)

    def begin(self) -> None:
        """From here on the arrays do not count, until `commit`."""
        with suppress(FileNotFoundError):
            (self.here / snapshot.HEADER).unlink()

    def commit(self, engine: Engine, place: Place, answer: bytes) -> None:
        """Let the arrays count again: they stand at `place`, whose batch was answered so."""
        header, arrays = engine.state()
        before = self._manifest or Manifest("", 0, {}, {})
        generation = before.generation + 1
        entries = {}
        for name, array in arrays.items():
            if name in self._mapped and _same_memory(array, self._mapped[name]):
                entries[name] = before.arrays[name]
            else:
                entries[name] = self._write(name, generation, array)
        durable.overwrite_file(self.here / ANSWER, answer)  # counts only with the header
        told = {**place._asdict(), "boot": boot(), "engine": header}
        now = Manifest(type(engine).__name__, generation, told, entries)
        _replace(self.here / snapshot.HEADER, snapshot.render(now))
        if entries != before.arrays:
            self._remove_others({entry.file for entry in entries.values()})
        self._manifest = now

    def take(self, found: Manifest, place: Place) -> None:
        """Let array files that were just put here count, as the manifest lists them."""
        told = {**place._asdict(), "boot": boot(), "engine": found.header["engine"]}
        arrays = {
            name: Entry(entry.dtype, entry.shape, entry.bytes, _NO_CHECKSUM, entry.file)
            for name, entry in found.arrays.items()
        }
        durable.overwrite_file(self.here / ANSWER, b"")
        _replace(
            self.here / snapshot.HEADER,
            snapshot.render(Manifest(found.header["kind"], found.generation, told, arrays)),
        )
        self._manifest = snapshot.peek(self.here)

    def clear(self) -> None:
        """Remove what is here: it does not count."""
        self.begin()
        self._remove_others(set())

    def _write(self, name: str, generation: int, array: NDArray[Any]) -> Entry:
        plain = np.ascontiguousarray(array, array.dtype.newbyteorder("<"))
        file = self.here / snapshot.file_name(name, generation)
        file.write_bytes(plain.reshape(-1).view(np.uint8).data)
        return Entry(plain.dtype.str, array.shape, plain.nbytes, _NO_CHECKSUM, file.name)

    def _remove_others(self, kept: set[str]) -> None:
        for file in self.here.iterdir():
            if snapshot.generation_of(file.name) is not None and file.name not in kept:
                file.unlink(missing_ok=True)


@cache
def boot() -> str:
    """A name of this run of the host's kernel; the same for all its processes."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return "unknown"


def _same_memory(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether an array is still the mapped one, whole."""
    return one is other or (
        one.size > 0
        and one.shape == other.shape
        and one.dtype == other.dtype
        and one.flags.c_contiguous
        and one.__array_interface__["data"][0] == other.__array_interface__["data"][0]
    )


def _replace(path: Path, data: bytes) -> None:
    """Write a file in one step."""
    new = path.with_name(path.name + _NEW)
    new.write_bytes(data)
    new.replace(path)
