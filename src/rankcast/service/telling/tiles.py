"""Tiles for gateways: what an engine would send into a network, as server-sent events; lists to begin with.

A feed follows the log of its stream, apart from the stream's thread, with a tiler (`rankcast.core.spec`).
Each write that makes messages is a part, told with its sequence, the sequence of the part before it, and a
mark in its id, which is the beginning of the shard's token: the same sequence and mark mean the same history.
So a gateway that comes back names its last part by `Last-Event-ID`, and hears what it has missed if that is
among the parts that are kept in memory; if not, as when it comes for the first time, it hears `gap`, and asks
for its lists. These are of the last part that was told.

A feed begins with the first gateway, and ends some time behind the last one. One that cannot go on, as the
log was cut, begins anew, and all its receivers hear `gap`.
"""

from __future__ import annotations

import asyncio
import logging
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import suppress
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, NamedTuple

import pyarrow as pa
from starlette.responses import Response

from rankcast.core.spec import Tiler
from rankcast.errors import RankcastError, shown
from rankcast.gateway import answer
from rankcast.service.problems import Problem
from rankcast.service.requests.gate import Call
from rankcast.service.requests.handlers import answered
from rankcast.service.requests.rows import dumped, listed
from rankcast.service.streams.stream import Stream
from rankcast.service.telling.hub import Receiver, Told
from rankcast.service.telling.sse import AT_ONCE, Telling
from rankcast.state import batches

if TYPE_CHECKING:
    from rankcast.service.app import Service

LINGER = 60.0  # seconds for which a feed without receivers goes on
MARK = 16  # digits of a token
DENSE = "dense"
METHODS = (DENSE, "sparse")
_LOG = logging.getLogger(__name__)


async def tiles(call: Call) -> Response:
    """Server-sent events of a stream's tiles."""
    method = call.asks("method") or DENSE
    if method not in METHODS:
        raise Problem(422, f"The parameter method is {shown(method)}.", hint="It may be: dense, sparse.")
    stream, feed = call.stream, await call.service.feeds.of(call.stream, method)
    last = call.request.headers.get("last-event-id")
    connections = call.service.connections
    connections.enter(call.token)

    async def told() -> AsyncIterator[bytes]:
        receiver = Receiver(None, stream.settings.receiver_bytes)
        try:
            part = feed.enter(receiver, last)
            while not receiver.ended:
                yield b"".join(each.as_event() for each in part) or b": alive\n\n"
                woken = await receiver.wait(stream.settings.heartbeat)
                part = receiver.take() if woken else []
                if receiver.missed:
                    part = feed.enter(receiver, None)
        finally:
            feed.leave(receiver)
            connections.leave(call.token)

    return Telling(told(), stream.settings.stall, {"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


async def lists(call: Call) -> Response:
    """The current lists of ranges that need not be registered."""
    rows = await call.rows()
    feed = await call.service.feeds.of(call.stream)
    document = await feed.lists(rows.to_pylist() if isinstance(rows, pa.Table) else rows)
    return answered(document, sequence=document["sequence"])


class Feeds:
    """The feeds of all streams. All of it happens on the event loop."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._open: dict[tuple[str, str], Feed] = {}

    async def of(self, stream: Stream, method: str = DENSE) -> Feed:
        """The feed of a stream, begun: for gateways, or with the messages that its own subscriptions need.

        Raises:
            Problem: 404, its engine has no tiles.
        """
        make = stream.spec.tiler
        if make is None:
            raise Problem(404, f"A stream of {stream.document['engine']} has no tiles.")
        feed = self._open.get((stream.name, method))
        if feed is None or feed.ended or feed.stream is not stream:
            tiler = make if method == DENSE else partial(_sparse, make)
            feed = self._open[stream.name, method] = Feed(stream, tiler, self._service)
        await feed.ready()
        return feed

    async def close(self) -> None:
        """End all of them."""
        for feed in self._open.values():
            await feed.close()


def _sparse(make: Callable[..., Tiler], engine: Any) -> Tiler:
    return make(engine, "sparse")


class Position(NamedTuple):
    """A part, or the write that a feed began with."""

    sequence: int
    mark: str


class Feed:
    """The tiles of one stream and those who hear them."""

    def __init__(self, stream: Stream, make: Callable[[Any], Tiler], service: Service) -> None:
        self.stream = stream
        self.ended = False
        self._make = make
        self._service = service
        self._receivers: set[Receiver] = set()
        self._turn = asyncio.Lock()  # for the tiler, and what it is at
        self._tiler: Tiler | None = None
        self._sequence, self._token = -1, ""  # what the tiler is at
        self._first = self._last = Position(
            -1, ""
        )  # the position before the parts that are kept, the last one
        self._recent: deque[Told] = deque()
        self._bytes = 0
        self._bell = asyncio.Event()
        self._task: asyncio.Task[None] | None = None

    async def ready(self) -> None:
        """Begin, if it has not."""
        async with self._turn:
            self._tiler = self._tiler or await self._begin()
            if self._task is None:
                self._task = asyncio.create_task(self._run())

    async def close(self) -> None:
        """End it."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])

    def enter(self, receiver: Receiver, last: str | None) -> list[Told]:
        """Let a receiver hear of everything behind this moment; what it hears first."""
        self._receivers.add(receiver)
        receiver.forget()
        receiver.missed = False
        receiver.after = self._last.sequence
        if self.ended:
            receiver.end()
        known = [self._first, *(Position(each.sequence, each.mark) for each in self._recent)]
        names = [f"{sequence}-{mark}" for sequence, mark in known]
        if last in names:
            return list(islice(self._recent, names.index(last), None))
        sequence, mark = self._last
        return [Told("gap", sequence, dumped({"rows": [], "sequence": sequence}), mark)]

    def leave(self, receiver: Receiver) -> None:
        """Let a receiver go."""
        self._receivers.discard(receiver)

    async def lists(self, rows: list[dict[str, Any]]) -> dict[str, Any]:
        """Current lists, and the part that they are of; no rows for those whose digest is right."""
        async with self._turn:
            self._tiler = self._tiler or await self._begin()
            tiler, sequence = self._tiler, self._last.sequence
            found = await asyncio.to_thread(answer, rows, lambda each: listed(tiler.lists(each)), sequence)
        return found._asdict()

    async def _begin(self) -> Tiler:
        """Take over where the engine of the stream is; receivers have missed what was before."""

        def take(stream: Stream) -> tuple[Tiler, int, str]:
            return self._make(stream.engine), stream.number, stream.shard.token

        tiler, self._sequence, self._token = await self.stream.ask(take)
        await asyncio.to_thread(tiler.lists, [])  # takes its time, or refuses
        self._first = self._last = Position(self._sequence, self._token[:MARK])
        self._recent.clear()
        self._bytes = 0
        for receiver in self._receivers:
            receiver.push([])  # wakes it
            receiver.missed = True
        return tiler

    async def _run(self) -> None:
        """Follow the stream until it ends, or nobody has listened for long."""
        hub, used = self.stream.hub, time.monotonic()
        hub.watch(self._bell)
        try:
            while self._service.is_ready and not self.stream.is_closed:
                if self._receivers:
                    used = time.monotonic()
                elif time.monotonic() > used + LINGER:
                    break
                self._bell.clear()
                async with self._turn:
                    behind = await self._advance()
                if not behind:
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._bell.wait(), LINGER / 4)
        except Problem as error:  # the stream does not take calls
            _LOG.warning("tiles of %s end: %s", self.stream.name, error)
        finally:
            self.ended = True
            hub.unwatch(self._bell)
            for receiver in self._receivers:
                receiver.end()
            self._tiler = None  # the objects are let go
            self._recent.clear()

    async def _advance(self) -> bool:
        """Tell of some writes; whether there may be more."""
        self._tiler = self._tiler or await self._begin()
        upto = self.stream.sequence
        if upto <= self._sequence:
            return False
        try:
            told, self._sequence, self._token = await asyncio.to_thread(self._parts, self._tiler, upto)
        except LookupError:  # the log was cut
            self._tiler = None
            return True
        except RankcastError:
            _LOG.exception("tiles of %s begin anew", self.stream.name)
            self._tiler = None
            return True
        for each in told:
            self._keep(each)
        for receiver in self._receivers:
            if told:
                receiver.push(told)
        return True

    def _parts(self, tiler: Tiler, upto: int) -> tuple[list[Told], int, str]:
        """The parts of some writes, and what the tiler is at then; on a thread of its own."""
        entries = self.stream.log.after(self._sequence, upto)
        if entries is None:
            raise LookupError(self._sequence)
        sequence, token, after = self._sequence, self._token, self._last.sequence
        told: list[Told] = []
        for entry in islice(entries, AT_ONCE):
            table = tiler.apply(batches.decode(entry.batch))
            sequence, token = entry.number, batches.chain(token, entry.batch)
            if table.num_rows:
                data = dumped({"rows": listed(table), "sequence": sequence, "after": after})
                told.append(Told("tiles", sequence, data, token[:MARK]))
                after = sequence
        return told, sequence, token

    def _keep(self, told: Told) -> None:
        """Keep a part for those who come back; forget the oldest ones that are too much."""
        self._recent.append(told)
        self._last = Position(told.sequence, told.mark)
        self._bytes += len(told.data)
        while self._bytes > self.stream.settings.receiver_bytes:
            gone = self._recent.popleft()
            self._first = Position(gone.sequence, gone.mark)
            self._bytes -= len(gone.data)
