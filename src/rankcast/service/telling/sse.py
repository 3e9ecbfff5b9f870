"""Listening: what a receiver hears, in order, from its first snapshot on; as server-sent events.

A receiver enters the hub on the thread of the stream, at a sequence. With `after`, everything in between
comes from the log, which is read outside that thread; otherwise it starts with a snapshot. One that misses
something gets `gap` and a snapshot again. So in any case its state after each message is that of the
message's sequence.
"""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, suppress
from functools import partial
from itertools import islice

from starlette.responses import Response, StreamingResponse
from starlette.types import Message, Send

from rankcast.errors import shown
from rankcast.service.operating.tokens import Token
from rankcast.service.problems import Problem, busy
from rankcast.service.requests.gate import Call
from rankcast.service.streams.stream import Stream
from rankcast.service.telling import hub
from rankcast.service.telling.hub import Place, Receiver, Told
from rankcast.service.telling.pacing import Pace, Paced

AT_ONCE = 256  # entries of the log that are sent together


async def deltas(call: Call) -> Response:
    """Server-sent events of a stream."""
    stream = call.stream
    wants = await watched(stream, call.request.query_params.getlist("subscription"))
    after = sequence_of(call.request.headers.get("last-event-id"))
    pace = pace_of(call.asks("min_interval"), call.asks("min_change"))
    if pace is not None and wants is None:
        raise Problem(422, "min_interval and min_change need subscriptions that are named.")
    connections = call.service.connections
    connections.enter(call.token)

    async def told() -> AsyncIterator[bytes]:
        try:
            async with entered(stream, wants) as receiver:
                heard = Paced(stream, pace).hear(receiver, after) if pace else hear(stream, receiver, after)
                async for part in heard:
                    if part:
                        yield b"".join(each.as_event() for each in part)
                    else:  # moves Last-Event-ID on, and tells nothing
                        yield b": alive\nid: %d\n\n" % receiver.after
        finally:
            connections.leave(call.token)

    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    return Telling(told(), stream.settings.stall, headers)


class Telling(StreamingResponse):
    """Server-sent events to one receiver, which is disconnected when it stalls for too long."""

    def __init__(self, told: AsyncIterator[bytes], stall: float, headers: Mapping[str, str]) -> None:
        super().__init__(told, headers=headers, media_type="text/event-stream")
        self._stall = stall

    async def stream_response(self, send: Send) -> None:
        """Send until the end."""

        async def in_time(message: Message) -> None:
            async with asyncio.timeout(self._stall):
                await send(message)

        with suppress(TimeoutError):
            await super().stream_response(in_time)


@asynccontextmanager
async def entered(stream: Stream, wants: frozenset[str] | None) -> AsyncIterator[Receiver]:
    """A receiver of a stream, which leaves it at the end."""
    receiver = Receiver(wants, stream.settings.receiver_bytes)
    try:
        yield receiver
    finally:
        stream.hub.leave(receiver)


async def hear(stream: Stream, receiver: Receiver, after: int | None) -> AsyncIterator[list[Told]]:
    """What a receiver hears, in portions; an empty list is a heartbeat."""
    async for part in begin(stream, receiver, after):
        yield part
    while not receiver.ended:
        if not await receiver.wait(stream.settings.heartbeat):
            receiver.rest(stream.hub.delivered)
            yield []
            continue
        if receiver.missed:
            yield [hub.gap(receiver.after)]
            async for part in begin(stream, receiver, None):
                yield part
            continue
        part = receiver.take()
        if part:
            yield part


async def begin(stream: Stream, receiver: Receiver, after: int | None) -> AsyncIterator[list[Told]]:
    """The first messages of a receiver: what it missed, from the log, or a snapshot."""
    while True:
        receiver.forget()
        receiver.missed = False
        place = await stream.ask(partial(_enter, receiver, after))
        if place.snapshot is not None:
            receiver.after = place.sequence
            yield [await asyncio.to_thread(hub.snapshot, place)]
            return
        try:
            wants = receiver.wants
            missed = hub.history(
                stream, wants, after if after is not None else place.sequence, place.sequence
            )
            while part := await asyncio.to_thread(_some, missed):
                yield part
        except LookupError:  # the log was cut meanwhile
            after = None
            continue
        receiver.after = place.sequence
        return


def _enter(receiver: Receiver, after: int | None, stream: Stream) -> Place:
    return stream.hub.enter(receiver, after)


def _some(missed: Iterator[Told]) -> list[Told]:
    return list(islice(missed, AT_ONCE))


async def watched(stream: Stream, texts: list[str]) -> frozenset[str] | None:
    """The subscriptions that a receiver names, None if it names none; they need not exist (yet)."""
    if len(texts) > stream.settings.max_watched:
        raise Problem(413, f"At most {stream.settings.max_watched} subscriptions can be named.")
    if not texts:
        return None

    def check(each: Stream) -> None:
        for text in texts:
            each.records.id_of(text, "subscription")

    await stream.ask(check)
    return frozenset(texts)


def sequence_of(text: str | None) -> int | None:
    """The last sequence that a receiver has heard; None if it gives none, or an invalid one."""
    return int(text) if text is not None and text.isdecimal() and len(text) < 19 else None


def pace_of(interval: str | None, change: str | None) -> Pace | None:
    """How often a receiver wants to hear, None for always."""
    found: dict[str, float] = {}
    for name, text in (("min_interval", interval), ("min_change", change)):
        try:
            found[name] = float(text) if text is not None else 0.0
        except ValueError:
            found[name] = -1.0
        if not 0 <= found[name] <= 86_400e6:
            raise Problem(422, f"The parameter {name} is {shown(text)}, which is no number from 0 on.")
    return Pace(found["min_interval"], found["min_change"]) if any(found.values()) else None


class Connections:
    """How many connections of listeners each token has open."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._open: dict[str, int] = {}

    def enter(self, token: Token) -> None:
        """Count one more.

        Raises:
            Problem: 429, it is one too many.
        """
        count = self._open.get(token.id, 0)
        if count >= self._most:
            raise busy(f"The token has {count} streams of deltas open, as many as it may.", after=10)
        self._open[token.id] = count + 1

    def leave(self, token: Token) -> None:
        """Count one less."""
        self._open[token.id] -= 1

    def total(self) -> int:
        """All of them."""
        return sum(self._open.values())
