"""A shard on a disk that is watched, fails and forgets: what a crash may leave there, as directories.

`Disk` stands between the package and `os` below one directory. It knows what was flushed and what was not,
can be full, and lets somebody look before every operation. `Simulation` runs a seeded history on a shard
there and takes images at any moment: what a kill leaves (all that was written), what a power cut leaves (of
what was not flushed, any part), and what is damaged later. Each image says what it must open as. Nothing
runs in threads, so that a seed is a history.

SQLite's own files are not seen by `Disk`. They are flushed whenever a batch has been answered; a crash in the
middle of a commit is a log of which the part that was not there before is cut off or garbled.
"""

from __future__ import annotations

import errno
import os
import random
import shutil
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, ClassVar

import pytest

from rankcast.errors import JournalError, RankcastError, ShardError, SnapshotError
from rankcast.state import Shard, answers, checkpoint

from .histories import MAKERS, Reference

WAL = "journal.sqlite-wal"
TROUBLE = (ShardError, JournalError, SnapshotError)


@dataclass
class File:
    """What is known of a file: its bytes when they were flushed last."""

    flushed: bytes = b""


class Disk:
    """The files below a directory, through `os`. Before each operation `look` is called."""

    def __init__(self, root: Path, patch: pytest.MonkeyPatch, rng: random.Random) -> None:
        self.root = root
        self.rng = rng
        self.lock = threading.RLock()
        self.full = 0.0  # the probability that a write finds no room
        self.look: Callable[[], None] = lambda: None
        self._open: dict[int, Path] = {}
        self._now: dict[Path, File] = {}
        self._flushed: dict[Path, File] = {}  # the entries of directories, as they were flushed
        for name in ("open", "close", "write", "pwrite", "fsync", "fdatasync", "replace", "unlink"):
            patch.setattr(os, name, self._watched(name, getattr(os, name)))

    def power_cut(self, image: Path) -> None:
        """Let an image of everything forget some of what was not flushed."""
        for path in sorted({*self._now, *self._flushed}):
            now, flushed = self._now.get(path), self._flushed.get(path)
            file = self.rng.choice([now, flushed])
            target = image / path.relative_to(self.root)
            if file is None:
                target.unlink(missing_ok=True)
                continue
            there = path.read_bytes() if file is now and path.exists() else file.flushed
            target.parent.mkdir(exist_ok=True)
            target.write_bytes(there if there == file.flushed else self._partly(file.flushed, there))

    def _partly(self, flushed: bytes, there: bytes) -> bytes:
        """Bytes of which some pages were written and others not yet; a file never loses length it had."""
        least = min(len(flushed), len(there))
        found = bytearray(there[: self.rng.choice([len(there), self.rng.randint(least, len(there))])])
        for start in range(0, len(found), 4096):
            if self.rng.random() < 0.5:
                found[start : start + 4096] = flushed[start : start + 4096].ljust(
                    len(found[start : start + 4096]), b"\0"
                )
        return bytes(found)

    def _watched(self, name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(target: Any, *rest: Any, **named: Any) -> Any:
            path = self._open.get(target) if isinstance(target, int) else Path(target)
            if path is None or not path.is_relative_to(self.root):
                return real(target, *rest, **named)
            with self.lock:
                if name != "close":
                    self.look()
                if name in ("write", "pwrite") and self.rng.random() < self.full:
                    real(target, bytes(rest[0])[: self.rng.randint(0, len(rest[0]))], *rest[1:])
                    raise OSError(errno.ENOSPC, "No space left on device")
                answer = real(target, *rest, **named)
                if name == "close":
                    del self._open[target]
                else:
                    self._note(name, path, rest, answer)
                return answer

        return call

    def _note(self, name: str, path: Path, rest: tuple[Any, ...], answer: Any) -> None:
        if name == "open":
            self._open[answer] = path
            if rest[0] & os.O_CREAT and path not in self._now:
                self._now[path] = File()
        elif name in ("fsync", "fdatasync"):
            if path.is_dir():
                gone = [each for each in self._flushed if each.parent == path and each not in self._now]
                for each in gone:
                    del self._flushed[each]
                self._flushed |= {each: file for each, file in self._now.items() if each.parent == path}
            elif path in self._now:
                self._now[path].flushed = path.read_bytes()
        elif name == "replace":
            self._now[Path(rest[0])] = self._now.pop(path)
        elif name == "unlink":
            self._now.pop(path, None)


class Later:
    """What a thread would do, done when the simulation says so, or when somebody waits for it."""

    waiting: ClassVar[list[Later]] = []

    def __init__(self, job: Callable[[], Any]) -> None:
        self._job = job
        self._done: Callable[[], Any] | None = None
        Later.waiting.append(self)

    def run(self) -> None:
        """Do it, unless it was done."""
        if self._done is None:
            Later.waiting.remove(self)
            try:
                found = self._job()
                self._done = lambda: found
            except Exception as error:
                self._done = partial(_raise, error)

    def done(self) -> bool:
        return self._done is not None

    def result(self) -> Any:
        self.run()
        assert self._done is not None
        return self._done()


def _raise(error: Exception) -> None:
    raise error


class LaterPool:
    """A pool of threads without threads."""

    def __init__(self, **_: Any) -> None:
        pass

    def submit(self, job: Callable[..., Any], *given: Any) -> Later:
        return Later(partial(job, *given))

    def shutdown(self) -> None:
        pass


class LaterFlush:
    """The thread of a mark that flushes when it is told to, and at the end."""

    def __init__(self, *, args: tuple[int], **_: Any) -> None:
        self._descriptor = args[0]

    def start(self) -> None:
        pass

    def join(self) -> None:
        with suppress(OSError):
            os.fdatasync(self._descriptor)


@dataclass
class Image:
    """A directory as a crash leaves it; `least` to `most` batches are there, or `damaged` is told."""

    path: Path
    kind: str
    least: int
    most: int
    damaged: bool = False


@dataclass
class Simulation:
    """One seeded life of a shard, and the images taken of it."""

    folder: Path
    patch: pytest.MonkeyPatch
    seed: int
    engine: str = "toy-small"
    images: list[Image] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.rng = random.Random(self.seed)  # noqa: S311
        self.live = self.folder / "live"
        self.live.mkdir(parents=True)
        self.disk = Disk(self.live, self.patch, self.rng)
        self.reference = Reference(self.engine)
        self.answered = self.offered = 0
        self.patch.setattr(checkpoint, "ThreadPoolExecutor", LaterPool)
        self.patch.setattr(answers, "_FILE", 2000)  # a few batches
        self.patch.setattr(threading, "Thread", LaterFlush)  # of the mark
        Later.waiting.clear()
        self._taking = False

    def run(self, steps: int) -> None:
        """Live for so many steps, and check every image on the way."""
        self.disk.look = self._glance
        shard: Shard[Any] | None = None
        for _ in range(steps):
            self.disk.full = self.rng.choice([0.0, 0.0, 0.0, 0.05])
            try:
                if shard is None:
                    shard = self._opened()
                shard = self._step(shard)
            except (*TROUBLE, OSError):
                assert self.disk.full, "trouble with a disk that has room"
                self.disk.full = 0.0
            self._check()
        if shard is not None:
            shard.close()
        self.disk.full = 0.0
        self._take("kill")
        self._check()

    def _opened(self) -> Shard[Any]:
        make, _ = MAKERS[self.engine]
        shard = Shard.open(self.live, make(), snapshot_batches=self.rng.randint(1, 6), receipts=2)
        assert self.answered <= shard.number <= self.offered
        self.answered = self.offered = shard.number
        return shard

    def _step(self, shard: Shard[Any]) -> Shard[Any] | None:
        what = self.rng.choice(["apply"] * 6 + ["refused", "snapshot", "close", "again"] + ["threads"] * 2)
        if what == "apply":
            self._apply(shard)
        elif what == "refused":
            with suppress(RankcastError):
                shard.append([("publish", {"id": [10**6], "add": [0]})])
                pytest.fail("a bad batch was accepted")
        elif what == "snapshot":
            shard.snapshot()
        elif what == "threads":
            for job in Later.waiting[:]:
                job.run()
            if shard._high._descriptor is not None:
                os.fdatasync(shard._high._descriptor)
        elif what == "again" and self.answered:
            _, batch = MAKERS[self.engine]
            after = self.reference.tokens[self.answered - 1]
            _, answer = shard.apply(batch(self.answered), after=after)
            assert answer.equals(self.reference.answers[self.answered])
        elif what == "close":
            shard.close()
            return None
        return shard

    def _apply(self, shard: Shard[Any]) -> None:
        _, batch = MAKERS[self.engine]
        number = self.answered + 1
        self.reference.reach(number)
        self.offered = number
        size = (self.live / WAL).stat().st_size if (self.live / WAL).exists() else 0
        held = self._hold() if self.rng.random() < 0.3 else None
        token, answer = shard.apply(batch(number), after=self.reference.tokens[number - 1])
        assert (token, shard.number) == (self.reference.tokens[number], number)
        assert answer.equals(self.reference.answers[number])
        self.answered = number
        if held is not None:
            self._torn_commit(held, number - 1, size)
        for kind in ("kill", "power", "damage"):
            if self.rng.random() < 0.2:
                self._take(kind)

    # Images

    def _glance(self) -> None:
        if not self._taking and self.rng.random() < 0.01:
            self._take(self.rng.choice(["kill", "power"]))

    def _take(self, kind: str) -> None:
        with self.disk.lock:
            self._taking = True
            path = self.folder / f"image-{len(self.images)}"
            shutil.copytree(self.live, path)
            if kind == "power":
                self.disk.power_cut(path)
            image = Image(path, kind, self.answered, self.offered)
            if kind == "damage":
                image.kind = damage(path, self.rng)
                image.damaged = True
            self.images.append(image)
            self._taking = False

    def _hold(self) -> Path:
        """Keep what is there before a batch."""
        with self.disk.lock:
            self._taking = True
            path = self.folder / "before"
            shutil.rmtree(path, ignore_errors=True)
            shutil.copytree(self.live, path)
            self._taking = False
        return path

    def _torn_commit(self, path: Path, number: int, size: int) -> None:
        """What was there before a batch, with a part of what SQLite wrote for it."""
        old = (path / WAL).read_bytes() if (path / WAL).exists() else b""
        new = (self.live / WAL).read_bytes()
        if not size or not new.startswith(old):  # the log began anew
            shutil.rmtree(path)
            return
        cut = self.rng.randint(len(old), len(new))
        rest = self.rng.choice([b"", bytes(len(new) - cut), self.rng.randbytes(len(new) - cut)])
        (path / WAL).write_bytes(new[:cut] + rest)
        target = self.folder / f"image-{len(self.images)}"
        path.rename(target)
        self.images.append(Image(target, "torn commit", number, number + 1))

    def _check(self) -> None:
        taking, self.images = self.images, []
        with self.disk.lock:
            self._taking = True
            for image in taking:
                self.check(image)
                shutil.rmtree(image.path)
            self._taking = False

    def check(self, image: Image) -> None:
        """Open an image: it is as it must be, or says that it is damaged; then it goes on."""
        make, batch = MAKERS[self.engine]
        told = f"seed {self.seed}: {image}"
        try:
            shard = Shard.open(image.path, make(), receipts=2)
        except TROUBLE as error:
            if not image.damaged:
                raise AssertionError(told) from error
            self._accept_loss(image, told)
            return
        with shard:
            number = shard.number
            assert image.least <= number <= image.most, f"{told}: opened at {number}"
            self._is_right(shard, told)
            with suppress(*(TROUBLE if image.damaged else ())):
                if number:
                    token, answer = shard.apply(batch(number), after=self.reference.tokens[number - 1])
                    assert (token, shard.number) == (self.reference.tokens[number], number), told
                    assert answer.equals(self.reference.answers[number]), told
                self._go_on(shard, told)
        with suppress(*(TROUBLE if image.damaged else ())), Shard.open(image.path, make()) as shard:
            self._is_right(shard, told)
            assert shard.number >= number, told

    def _accept_loss(self, image: Image, told: str) -> None:
        """With its owner's consent, a shard that has lost batches opens where it can, and goes on."""
        make, _ = MAKERS[self.engine]
        with suppress(*TROUBLE):
            with Shard.open(image.path, make(), accept_loss=True) as shard:
                assert shard.number <= image.most, told
                self._is_right(shard, told)
                self._go_on(shard, told)
            with Shard.open(image.path, make()) as shard:
                self._is_right(shard, told)

    def _go_on(self, shard: Shard[Any], told: str) -> None:
        _, batch = MAKERS[self.engine]
        number = shard.number + 1
        self.reference.reach(number)
        token, answer = shard.append(batch(number))
        assert token == self.reference.tokens[number], told
        assert answer.equals(self.reference.answers[number]), told

    def _is_right(self, shard: Shard[Any], told: str) -> None:
        number = shard.number
        self.reference.reach(number)
        assert shard.token == self.reference.tokens[number], told
        assert shard.read(self.reference.state_of) == self.reference.state(number), told


def damage(path: Path, rng: random.Random) -> str:
    """Damage one file of a shard; says how."""
    files = sorted(file for file in path.rglob("*") if file.is_file() and not file.name.endswith("-shm"))
    wal = path / WAL
    file = wal if wal.exists() and rng.random() < 0.4 else rng.choice(files)
    how = rng.choice(["flip", "flip", "lose", "cut", "zero", "swap"])
    data = bytearray(file.read_bytes())
    if how == "lose" or not data:
        file.unlink()
    elif how == "cut":
        file.write_bytes(data[: rng.randrange(len(data))])
    else:
        at = rng.randrange(len(data))
        if how == "flip":
            data[at] ^= 1 << rng.randrange(8)
        elif how == "zero":
            data[at : at + 512] = bytes(len(data[at : at + 512]))
        else:
            data[at : at + 64] = rng.randbytes(len(data[at : at + 64]))
        file.write_bytes(data)
    if file == wal and rng.random() < 0.5:
        (path / "journal.sqlite-shm").unlink(missing_ok=True)
    return f"{how} of {file.name}"
