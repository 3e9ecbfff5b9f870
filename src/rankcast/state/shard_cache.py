"""A shard whose log belongs to a store that commits, and that may move the shard to any host.

The store remembers little of a shard (its `Standing`) and the log of batches since the last snapshot. The
arrays are on a host (`Live`), as a cache. A batch finds one of three things there (`Hosted.step`):

| what is there                                       | what happens                                         |
| --------------------------------------------------- | ---------------------------------------------------- |
| the arrays after the last committed batch: a hit    | map them, apply the batch                            |
| the arrays after this very batch: a redo            | answer from the receipt (an attempt was abandoned)   |
| anything else, or nothing: a restore                | fetch the snapshot, replay the log, apply the batch  |

Tokens distinguish them, and equal tokens mean equal histories. A batch that the store never commits leaves
arrays whose token it does not know, so they are never mistaken for committed ones.

The arrays are files that any process of the host maps in a millisecond:

    header.json                  see rankcast.core.snapshot; absent while a batch is being applied
    <name>.<generation>.array    the elements, changed in place by the holder of the lock
    answer                       the answer to the last batch: its receipt

Arrays that never change (`Engine.constant`: a road graph and its index) are links to one file beside the
directories of all shards of a query, named by its checksum and the boot, mapped copy on write: however many
shards and processes a host has, it holds them once.

A snapshot and a log can always rebuild them, so nothing is flushed to disk and no checksum is kept. They
count only while `header.json` exists, which names their token: it is removed before
the first byte changes and replaced, in one step, after the last. A kill in between leaves no header. After a
crash of the host the page cache is gone, so the header also names the boot under which it was written, and a
header of another boot does not count.

Cost: `open` maps each array once, whatever its size; `commit` writes the arrays that the engine has replaced
by others (grown ones), and the header.

Uploading runs beside the batches: a snapshot is copied in memory while the shard is held, then written by
a thread. A finished upload is noted on the host; a later batch finds the note and may let the store name that
snapshot. If the process ends first, or the shard moves to another host, the folder stays behind unnamed and
is removed later. Names start with the number of the batch, so everything older than what may still be
named is known to be garbage.
"""

from __future__ import annotations

import json
import logging
import re
import threading
import time
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, nullcontext, suppress
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any, Generic, Literal, NamedTuple, TypeAlias, TypeVar

import numpy as np
from numpy.typing import NDArray

from rankcast.core import snapshot
from rankcast.core.snapshot import Entry, Manifest, Mode
from rankcast.errors import JournalError, ShardError, SnapshotError
from rankcast.state import batches, checkpoint
from rankcast.state.batches import Token
from rankcast.state.checkpoint import Mark
from rankcast.state.depot import Depot
from rankcast.state.journal import Engine, Record, repeat
from rankcast.structures import integrity

_LOG = logging.getLogger(__name__)
ANSWER = "answer"
_NEW = ".new"
_NO_CHECKSUM = "0" * 64
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_OPEN = Path("/proc/self/fd")  # where a system has it, the open files of this process


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
        """Lock the directory against every other process of the host; it is created if missing.

        Until then `here` is the very directory that is locked: if somebody removes it, writing fails, and
        does not go to a new one in its place.
        """
        self.root.mkdir(parents=True, exist_ok=True, mode=0o700)
        with snapshot.locked(self.root) as descriptor:
            held = _OPEN / str(descriptor)
            self.here = held if held.is_dir() else self.root
            try:
                yield
            finally:
                self._manifest, self._mapped, self.here = None, {}, self.root

    @property
    def shared(self) -> Path:
        """The directory beside this one where shards keep one copy of what never changes."""
        return self.root.parent / f"shared-{boot()}"

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

    def open(
        self, engine: type[E], given: Mapping[str, Any], *, ours: bool = False, mode: Mode = "in-place"
    ) -> E:
        """The engine over the mapped arrays, found by `place` or `take`; it changes the files in place.

        Contents are checked unless the arrays are `ours`: those that `commit` left here.
        """
        found = self._manifest
        if found is None or found.kind != engine.__name__:
            raise SnapshotError(f"{self.root} does not hold a {engine.__name__}")
        try:
            arrays = snapshot.mapped(self.here, found, mode, constant_of(engine))
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
        """Make the arrays count again: they are at `place`, and this was the answer to its batch."""
        header, arrays = engine.state()
        before = self._manifest or Manifest("", 0, {}, {})
        generation = before.generation + 1
        entries = {}
        for name, array in arrays.items():
            if name in self._mapped and _same_memory(array, self._mapped[name]):
                entries[name] = before.arrays[name]
            else:
                entries[name] = self._write(name, generation, array)
        snapshot.overwrite_file(self.here / ANSWER, answer)  # counts only with the header
        told = {**place._asdict(), "boot": boot(), "engine": header}
        now = Manifest(type(engine).__name__, generation, told, entries)
        _replace(self.here / snapshot.HEADER, snapshot.render(now))
        if entries != before.arrays:
            self._remove_others({entry.file for entry in entries.values()})
        self._manifest = now

    def take(self, found: Manifest, place: Place) -> None:
        """Make array files that were just put here count, as the manifest lists them."""
        told = {**place._asdict(), "boot": boot(), "engine": found.header["engine"]}
        arrays = {
            name: Entry(entry.dtype, entry.shape, entry.bytes, _NO_CHECKSUM, entry.file)
            for name, entry in found.arrays.items()
        }
        snapshot.overwrite_file(self.here / ANSWER, b"")
        _replace(
            self.here / snapshot.HEADER,
            snapshot.render(Manifest(found.header["kind"], found.generation, told, arrays)),
        )
        self._manifest = snapshot.peek(self.here)

    def clear(self) -> None:
        """Remove the contents: they do not count."""
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


def constant_of(engine: type[Any]) -> tuple[str, ...]:
    """How the names of arrays begin that never change; none of an engine that does not say so."""
    found: tuple[str, ...] = getattr(engine, "constant", ())
    return found


@cache
def boot() -> str:
    """A name for this run of the host's kernel; the same for all its processes."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return "unknown"


def _same_memory(one: NDArray[Any], other: NDArray[Any]) -> bool:
    """Whether an array is still the whole mapped one."""
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


E = TypeVar("E", bound=Engine)
How: TypeAlias = Literal["hit", "redo", "restore"]
AnswerOf: TypeAlias = Callable[[E, bytes, int], bytes]
Log: TypeAlias = Callable[[], Iterable[Record]]

UNCHECKED = bytes(32)  # in a log, instead of the checksum of an answer


@dataclass(frozen=True)
class Standing:
    """What the store remembers of a shard: where it is, and at which snapshot its log starts."""

    number: int
    token: Token
    snapshot: str
    covered: int

    @property
    def mark(self) -> Mark:
        """Number and token of the last batch."""
        return Mark(self.number, self.token)


class Step(NamedTuple):
    """One applied batch: the record for the log, the answer, and how it went."""

    record: Record
    answer: bytes
    how: How
    seconds: float  # that restoring took


class Hosted(Generic[E]):
    """One shard on this host.

    Args:
        live: its arrays here.
        depot: where snapshots are.
        engine: the class of the engine.
        given: what a snapshot cannot hold, passed to the engine's `restore`.
        answer_of: applies the bytes of the batch of a number to the engine; must be deterministic.
    """

    def __init__(
        self, live: Live, depot: Depot, engine: type[E], given: Mapping[str, Any], answer_of: AnswerOf[E]
    ) -> None:
        self._live = live
        self._depot = depot
        self._engine = engine
        self._given = given
        self._answer_of = answer_of

    def step(
        self,
        standing: Standing,
        data: bytes,
        log: Log,
        *,
        whole: bool = True,
        after: Callable[[E, Mark, int], None] | None = None,
    ) -> Step:
        """Apply the bytes of a batch; `after` may read the engine before anybody else changes it.

        If this raises, the arrays here no longer count, and nothing else has changed.

        Args:
            standing: where the shard is.
            data: the bytes.
            log: the batches since the snapshot.
            whole: whether the answer depends only on the bytes; if not, a replay does not compare it.
            after: called with the engine, its new place, and the size of the batch.
        """
        number, token = standing.number + 1, batches.chain(standing.token, data)
        with self._live.held():
            place = self._live.place()
            answer = (
                self._live.answer() if place is not None and place[1:] == (token, standing.token) else None
            )
            if answer is not None:
                record = Record(number, standing.token, token, data, checksum(answer) if whole else UNCHECKED)
                return Step(record, answer, "redo", 0.0)
            started = time.perf_counter()
            engine = self._hit() if place is not None and place.token == standing.token else None
            hit = engine is not None
            if engine is None:
                engine = self._restore(standing, log)
            seconds = 0.0 if hit else time.perf_counter() - started
            self._live.begin()
            answer = self._answer_of(engine, data, number)
            self._live.commit(engine, Place(number, token, standing.token), answer)
            if after is not None:
                after(engine, Mark(number, token), len(data))
            record = Record(number, standing.token, token, data, checksum(answer) if whole else UNCHECKED)
            return Step(record, answer, "hit" if hit else "restore", seconds)

    def current(self, standing: Standing, log: Log) -> E:
        """The engine as of the last batch committed; the arrays here do not count afterwards."""
        with self._live.held():
            return self._restore(standing, log)

    def _hit(self) -> E | None:
        """The engine over the arrays here, None if a file is missing or has another length."""
        try:
            return self._live.open(self._engine, self._given, ours=True)
        except SnapshotError:
            return None

    def _restore(self, standing: Standing, log: Log) -> E:
        """The engine as of the last batch committed, from the snapshot and the log."""
        self._live.clear()
        found = self._depot.fetch(
            standing.snapshot, self._live.here, constant=constant_of(self._engine), shared=self._live.shared
        )
        mark = checkpoint.mark_of(found.header)
        if found.header["kind"] != self._engine.__name__:
            raise ShardError(
                f"{standing.snapshot} is of a {found.header['kind']}, not of a {self._engine.__name__}"
            )
        self._live.take(found, Place(mark.number, mark.token, ""))
        engine = self._live.open(self._engine, self._given)
        self._live.begin()
        records = sorted(record for record in log() if record.number > mark.number)
        mark, _ = repeat(records, lambda record: self._again(engine, record), mark)
        if mark != standing.mark:
            raise JournalError(
                "the log does not go on from the snapshot to where the shard stands",
                detail=f"It ends at batch {mark.number}, the shard is at batch {standing.number}.",
            )
        return engine

    def _again(self, engine: E, record: Record) -> bool:
        answer = self._answer_of(engine, record.batch or b"", record.number)
        return record.digest in (UNCHECKED, checksum(answer))


def checksum(answer: bytes) -> bytes:
    """What a log keeps of an answer: enough to verify a replay."""
    return bytes.fromhex(snapshot.digest(answer))


_NOTE = "written.json"
_FOLDER = re.compile(r"([0-9]{12})-[0-9a-f]{16}-[0-9a-f]{8}")


class Note(NamedTuple):
    """A finished snapshot."""

    name: str
    number: int
    token: str
    bytes: int


class Uploader:
    """Writes the snapshots of one shard.

    Args:
        here: a directory of this shard on this host, for the note and the lock.
        depot: where snapshots go.
        folder: the folder of this shard there.
    """

    def __init__(self, here: Path, depot: Depot, folder: str) -> None:
        self._here = here
        self._depot = depot
        self._folder = folder

    def note(self) -> Note | None:
        """The last snapshot finished on this host, if any."""
        with suppress(OSError, ValueError, TypeError):
            told = json.loads((self._here / _NOTE).read_text())
            return Note(str(told["name"]), int(told["number"]), str(told["token"]), int(told["bytes"]))
        return None

    def start(
        self,
        kind: str,
        mark: Mark,
        state: tuple[Mapping[str, Any], Mapping[str, NDArray[Any]]],
        *,
        keep: Iterable[str],
        wait: bool = False,
    ) -> None:
        """Start to write a snapshot, unless one is being written; then sweep what is older than `keep`.

        The caller only waits for the copy of the arrays, or with `wait` for everything.
        """
        self._here.mkdir(parents=True, exist_ok=True, mode=0o700)
        with ExitStack() as lock:
            try:
                lock.enter_context(snapshot.locked(self._here, wait=wait))
            except BlockingIOError:
                return
            header = json.loads(json.dumps(checkpoint.header_of(kind, mark, state[0])))
            arrays = {name: np.array(array) for name, array in state[1].items()}
            held = lock.pop_all()
        job = (held, mark, header, arrays, frozenset(keep))
        if wait:
            self._upload(*job)
        else:
            threading.Thread(target=self._upload, args=job, name="rankcast-snapshot", daemon=True).start()

    def _upload(
        self,
        held: ExitStack,
        mark: Mark,
        header: Mapping[str, Any],
        arrays: Mapping[str, NDArray[Any]],
        keep: frozenset[str],
    ) -> None:
        with held:
            try:
                name = f"{self._folder}/{mark.number:012d}-{mark.token[:16]}-{uuid.uuid4().hex[:8]}"
                size = self._depot.write(name, checkpoint.KIND, header, arrays)
                note = Note(name, mark.number, mark.token, size)
                _replace(self._here / _NOTE, json.dumps(note._asdict()).encode())
                self._sweep(keep)
            except Exception as error:  # the log just stays longer
                _LOG.warning("no snapshot of %s could be written: %s", self._folder, error)

    def _sweep(self, keep: frozenset[str]) -> None:
        """Remove folders of this shard that are older than all that the store may name.

        A newer one may have been finished on another host, and be used there later: it stays.
        """
        mine = {name.rpartition("/")[2] for name in keep if name.startswith(f"{self._folder}/")}
        if not mine:
            return
        oldest = min(mine)
        for folder in self._depot.folders(self._folder):
            if _FOLDER.fullmatch(folder) and folder < oldest:
                self._depot.remove(f"{self._folder}/{folder}")
