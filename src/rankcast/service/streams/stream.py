"""A stream: an engine in a shard, and the one thread that works on it.

Everything that touches the engine, also a read, is a work item for that thread, in order of arrival. Items
that wait together are processed together: writes are applied one by one, journalled and synced at once, and
nothing is published before the sync. So no answer, not even of a read, reports a write that a kill could
undo. A group that cannot be committed is undone as a whole.

    <stream>/stream.json    engine and settings, as they were given
    <stream>/shard/         the engine, see rankcast.state.shard, with the tables of the module records
    <stream>/log/           see rankcast.state.log
    <stream>/history/       see rankcast.service.requests.dry_run

`sequence` is the number of the shard's last batch: it grows by one with every accepted write.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import threading
import time
from collections import deque
from collections.abc import Callable, Iterable
from concurrent.futures import Future
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import pyarrow as pa

from rankcast.core import snapshot
from rankcast.core.engine import Engine
from rankcast.core.spec import Spec
from rankcast.errors import JournalError, RankcastError, ShardError
from rankcast.service.problems import Problem, busy, is_full, no_room, problem_of
from rankcast.service.requests.dry_run import Bases
from rankcast.service.settings import Settings
from rankcast.service.streams import engines
from rankcast.service.streams.clock import StreamClock
from rankcast.service.streams.external import External, Lists
from rankcast.service.streams.records import Id, Records
from rankcast.service.telling.hub import Hub
from rankcast.service.webhooks.store import Hooks
from rankcast.state import Shard, batches
from rankcast.state.log import Entry, Log
from rankcast.tables.schema import Column

FILE = "stream.json"
EXPIRED_AT_ONCE = 10_000
FEW = 8  # rows
SNAPSHOT = 4000  # writes, of one row mostly: a second to do them again, beside a snapshot every other second
CLOCK = 30.0  # seconds behind which the clock is looked at again: somebody may have set it
_PLAIN = frozenset({pa.int64(), pa.float64(), pa.string()})
_GROUP_BYTES = 32 << 20
_LOG = logging.getLogger(__name__)
T = TypeVar("T")


class Work(NamedTuple):
    """A work item for the thread of a stream: its size, whether it writes, and who waits for it."""

    do: Callable[[Stream], Any]
    size: int
    writes: bool
    done: Future[Any] | asyncio.Future[Any]


class Stream:
    """One stream of a data directory, open; `submit` gives it work."""

    def __init__(self, path: Path, settings: Settings) -> None:
        self.path = path
        self.name = path.name
        self.settings = settings
        self.document: dict[str, Any] = json.loads((path / FILE).read_text())
        engine = engines.make(self.document["engine"], self.document["settings"])
        self.configuration = configuration(engine)
        self.spec: Spec = type(engine).spec
        self.calls = type(engine).calls
        self.roles: dict[str, str | None] = {}  # by call, of what its ids are: subscriptions, items
        self.limited: dict[str, list[Column]] = {}  # by call, the columns with times or with a limit
        self.shard: Shard[Any] = Shard.open(path / "shard", engine, snapshot_batches=SNAPSHOT)
        self.records = Records(self.shard)
        self.hooks = Hooks(self.shard)
        self.lists: Lists | None = None  # of an external stream
        if isinstance(engine, External):
            self.lists = Lists(self.shard, self.records, ranked=self.configuration["ranked"])
        self.sequence = self.shard.number
        self.log = Log(path / "log", end=self.sequence, most=settings.log_bytes, age=settings.log_age)
        self.bases = Bases(path)
        self.hub = Hub(self)
        self.dry = asyncio.Lock()
        self.written = self.groups = self.refused = 0
        self._expiry = self.records.next_expiry()
        self._clock = StreamClock(self._last_write())
        self._follow_clock()
        self._waiting: deque[Work] = deque()
        self._bytes = 0
        self._wake = threading.Condition()
        self._ending = False
        self._thread = threading.Thread(target=self._run, name=f"rankcast-{self.name}", daemon=True)
        self._thread.start()

    @classmethod
    def make(cls, path: Path, document: dict[str, Any], settings: Settings) -> Stream:
        """Create a stream on disk, and open it."""
        snapshot.make_directory(path)
        snapshot.overwrite_file(path / FILE, json.dumps(document).encode())
        return cls(path, settings)

    # For everybody

    def submit(self, do: Callable[[Stream], T], *, size: int = 0, writes: bool = False) -> Future[T]:
        """Give the thread something to do.

        Raises:
            Problem: too much is waiting.
        """
        done: Future[T] = Future()
        self._put(Work(do, size, writes, done))
        return done

    def _put(self, work: Work) -> None:
        with self._wake:
            if self._ending:
                raise busy("The stream is closed.", status=503)
            full = self._bytes + work.size > self.settings.queue_bytes and self._waiting
            if len(self._waiting) >= self.settings.queue or full:
                raise busy("Too many calls are waiting for the stream.")
            self._waiting.append(work)
            self._bytes += work.size
            self._wake.notify()

    async def ask(self, do: Callable[[Stream], T], *, size: int = 0, writes: bool = False) -> T:
        """Give the thread something to do, and wait for it."""
        done: asyncio.Future[T] = asyncio.get_running_loop().create_future()
        self._put(Work(do, size, writes, done))
        return await done

    @property
    def waiting(self) -> int:
        """How many calls wait."""
        return len(self._waiting)

    @property
    def is_closed(self) -> bool:
        """Whether it takes no more calls."""
        return self._ending

    def close(self) -> None:
        """Do what is waiting, then end."""
        with self._wake:
            self._ending = True
            self._wake.notify()
        self._thread.join()
        self.hub.end()
        self.log.close()
        self.shard.close()

    # For work, on the thread of the stream

    @property
    def engine(self) -> Engine:
        """The engine as of now."""
        found: Engine = self.shard.engine
        return found

    @property
    def keeps_results(self) -> bool:
        """Whether there are lists to ask for."""
        return self.lists is not None or hasattr(self.engine, "results")

    def results(self, ids: list[Id] | None = None) -> pa.Table:
        """The current lists, all or those of some subscriptions, which are known."""
        if self.lists is not None:
            return self.lists.results(ids)
        engine: Any = self.engine
        return engine.results() if ids is None else engine.results(ids)

    def knows(self, key: Id) -> bool:
        """Whether there is such a subscription; only the source of an external stream knows its own."""
        return self.lists is not None or self.records.find(key) is not None

    def count(self) -> int:
        """The number of subscriptions; for an external stream, those that have a list."""
        return len(self.engine if self.lists is None else self.lists)

    def write(self, call: str, rows: Any) -> pa.Table:
        """Apply one call as a batch; on disk, with whatever `records` write, when the group is."""
        return self.write_prepared(self.shard.prepare([(call, rows)]))

    def write_prepared(self, batch: batches.Prepared) -> pa.Table:
        """Apply a batch that was prepared; see `write`."""
        number, answer, data = self.shard.step(as_few(batch))
        self.log.append(Entry(number, time.time(), batch.data, data))
        self._answers.append((number, answer))
        return answer

    @property
    def number(self) -> int:
        """The sequence that the engine is at, inside a group."""
        return self.shard.number

    # The thread

    def _run(self) -> None:
        while True:
            works = self._take()
            if works is None:
                return
            try:
                self._expire()
                self._advance()
                self._serve(works)
            except Exception:
                _LOG.exception("stream %s", self.name)
                for work in works:
                    if not work.done.done():
                        _tell((work, None, Problem(500, "The service has a defect.")))

    def _take(self) -> list[Work] | None:
        """Wait for work; None: it is over. No work at all: something else is due."""
        with self._wake:
            while not self._waiting:
                if self._ending:
                    return None
                due = min((at for at in (self._expiry, self._clock.due) if at is not None), default=None)
                wait = None if due is None else due - time.time()
                if wait is not None and wait <= 0:
                    return []
                self._wake.wait(None if wait is None else min(wait, CLOCK))
            works: list[Work] = []
            size = 0
            while self._waiting and len(works) < self.settings.group and size <= _GROUP_BYTES:
                works.append(self._waiting.popleft())
                size += works[-1].size
            self._bytes -= size
            return works

    def _serve(self, works: list[Work]) -> None:
        """Do a group of works, and tell everybody."""
        if not works:
            return
        if any(work.writes for work in works) and not self._has_room():
            for work in works:
                if work.writes:
                    _tell((work, None, no_room()))
            works = [work for work in works if not work.writes]
        try:
            found = self._group(works)
        except (JournalError, OSError, ShardError) as error:
            _LOG.warning("stream %s: a group of %d was taken back: %s", self.name, len(works), error)
            problem = problem_of(error) or no_room()
            for work in works:
                if work.writes or not _tell_alone(work, lambda each: self._group([each])):
                    _tell((work, None, no_room() if is_full(error) else problem))
            return
        except Exception as error:
            if len(works) == 1:
                _LOG.exception("stream %s", self.name)
                _tell((works[0], None, error))
                return
            for work in works:  # the others are not to suffer for one of them
                self._serve([work])
            return
        self.refused += sum(refusal is not None for _, refusal in found)
        _tell(*((work, *each) for work, each in zip(works, found, strict=True)))

    def _group(self, works: list[Work]) -> list[tuple[Any, Exception | None]]:
        """Do works and commit what they wrote; what each gave, or why it was refused."""
        found: list[tuple[Any, Exception | None]] = []
        self._answers: list[tuple[int, pa.Table]] = []
        try:
            with self.shard.together():
                for work in works:
                    before = len(self._answers)
                    try:
                        found.append((work.do(self), None))
                    except (Problem, RankcastError) as refusal:
                        trouble = isinstance(refusal, JournalError | ShardError)
                        if trouble or len(self._answers) != before:
                            raise
                        found.append((None, refusal))
                self.log.flush()
        except BaseException:
            self.log.take_back(self.sequence)
            self.records.forget()
            if self.lists is not None:
                self.lists.forget()
            raise
        if self._answers:
            self.sequence = self._answers[-1][0]
            self.written += len(self._answers)
            self.groups += 1
            self._expiry = self.records.next_expiry()
            self._follow_clock()
            self.hub.tell(self._answers)
            self.bases.keep(self.shard.covered, self.log.first)
            self.log.forget_old(time.time())
        return found

    def _expire(self) -> None:
        """End subscriptions whose time is over, as a write like any other."""
        if self._expiry is None or self._expiry > time.time():
            return

        def end(stream: Stream) -> None:
            due = stream.records.due(time.time(), EXPIRED_AT_ONCE)
            if due:
                unsubscribe(stream, due)

        ended = Work(end, 0, True, Future())
        self._serve([ended])
        if ended.done.exception() is not None:
            self._expiry = time.time() + 1.0  # there may be no room now

    def _advance(self) -> None:
        """Move the clock of the engine on if something leaves by it, as a write like any other."""
        if self._clock.due is None or self._clock.due > time.time():
            return

        def move(stream: Stream) -> None:
            times = pa.array([self._clock.at(time.time())], pa.timestamp("ns"))
            stream.write("advance", {"time": times})

        moved = Work(move, 0, True, Future())
        self._serve([moved])
        if moved.done.exception() is not None:
            self._clock.due = time.time() + 1.0  # there may be no room now

    def _follow_clock(self) -> None:
        if self.settings.clock:
            self._clock.follow(self.engine.clock(), time.time())

    def _last_write(self) -> float:
        """When the last write was that the log has."""
        last = next(iter(self.log.after(self.sequence - 1) or ()), None)
        return time.time() if last is None else min(last.at, time.time())

    def _has_room(self) -> bool:
        told = os.statvfs(self.path)
        return told.f_bavail * told.f_frsize >= self.settings.min_free


def configuration(engine: Engine) -> Any:
    """All settings of an engine, given or by default, as JSON."""
    return json.loads(json.dumps(engine.state()[0]["settings"]))


def unsubscribe(stream: Stream, ids: Iterable[Id]) -> pa.Table:
    """End subscriptions."""
    gone = list(ids)
    answer = stream.write("unsubscribe", gone)
    stream.records.drop(gone)
    return answer


def _tell_alone(work: Work, do: Callable[[Work], list[tuple[Any, Exception | None]]]) -> bool:
    """Do a read that was in a group with writes that failed; returns whether it could be done."""
    try:
        [(value, refusal)] = do(work)
    except Exception:
        return False
    _tell((work, value, refusal))
    return True


def _tell(*answers: tuple[Work, Any, Exception | None]) -> None:
    """Tell whoever waits; nobody may. Those on an event loop are told in one call."""
    waiting = [each for each in answers if isinstance(each[0].done, asyncio.Future)]
    if waiting:
        loop = waiting[0][0].done.get_loop()  # type: ignore[union-attr]  # there is one
        if not loop.is_closed():
            loop.call_soon_threadsafe(_resolve, waiting)
    _resolve([each for each in answers if isinstance(each[0].done, Future)])


def _resolve(answers: list[tuple[Work, Any, Exception | None]]) -> None:
    for work, value, refusal in answers:
        if not work.done.cancelled():
            if refusal is None:
                work.done.set_result(value)
            else:
                work.done.set_exception(refusal)


def as_few(batch: batches.Prepared) -> batches.Prepared:
    """The same batch with few rows as plain values, which engines read in a fraction of the time."""
    if batch.plain is not None:
        return batch
    [(call, table), *more] = batch.commands
    if more or not 0 < table.num_rows <= FEW or not _PLAIN.issuperset(table.schema.types):
        return batch
    columns = {
        name: column.to_pylist() for name, column in zip(table.column_names, table.columns, strict=True)
    }
    return batches.Prepared([(call, columns)], batch.data)
