"""Posting deltas to webhooks: one task each, on the event loop, from the log of the stream.

A task reads the log behind its cursor, posts what concerns it in order, and moves the cursor behind each
message that was accepted; so a restart goes on where it was, and a message is posted twice only if the
process died between the answer and the note of it: receivers tell by `webhook-id`. What is not accepted is
tried again with pauses that double, drawn at random between half and all of that; after `webhook_attempts`
it is a dead letter, and the next one has its turn. If the log does not go back to the cursor, a snapshot is
posted.
"""

from __future__ import annotations

import asyncio
import logging
import random
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING

from rankcast.service.problems import Problem
from rankcast.service.streams.stream import Stream
from rankcast.service.telling import hub
from rankcast.service.telling.hub import Place, Told
from rankcast.service.webhooks.outbound import Outbound
from rankcast.service.webhooks.store import Letter, Webhook, headers_of

if TYPE_CHECKING:
    from rankcast.service.settings import Settings

AT_ONCE = 64  # messages that are read from the log together
FAR = 1000  # writes that concern nobody there, behind which a cursor is noted all the same
PAUSE = 1.0  # seconds, when the stream cannot answer
LONGEST = 3600.0  # seconds between two attempts
_CHANCE = random.SystemRandom()
_LOG = logging.getLogger(__name__)


@dataclass
class Counts:
    """What a webhook has come to since the start: messages accepted, attempts in vain, messages given up."""

    delivered: int = 0
    failed: int = 0
    dead: int = 0
    reached: int = 0  # the write up to which it has heard everything


class Deliveries:
    """The tasks of all webhooks. All of it happens on the event loop."""

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._tasks: dict[tuple[str, str], tuple[asyncio.Task[None], asyncio.Event]] = {}
        self.counts: dict[tuple[str, str], Counts] = {}  # by stream and webhook
        self.outbound = Outbound(settings.webhook_allow, settings.webhook_timeout)

    async def open(self, streams: list[Stream]) -> None:
        """Begin with the webhooks that are there."""
        for stream in streams:
            for hook in await stream.ask(lambda each: each.hooks.all()):
                self.start(stream, hook.name)

    def start(self, stream: Stream, name: str) -> None:
        """Begin with a webhook, or begin again, since it has changed."""
        known = self._tasks.pop((stream.name, name), None)
        woken = asyncio.Event()
        task = asyncio.create_task(self._run(stream, name, woken, known[0] if known else None))
        self._tasks[stream.name, name] = task, woken

    def wake(self, stream: Stream, name: str) -> None:
        """Let a task look for dead letters."""
        known = self._tasks.get((stream.name, name))
        if known is None or known[0].done():
            self.start(stream, name)
        else:
            known[1].set()

    async def end(self, stream: Stream, name: str) -> None:
        """End with a webhook."""
        known = self._tasks.pop((stream.name, name), None)
        if known is not None:
            await _ended(known[0])
        self.counts.pop((stream.name, name), None)

    async def close(self) -> None:
        """End with all of them."""
        while self._tasks:
            await _ended(self._tasks.popitem()[1][0])
        await self.outbound.close()

    async def _run(
        self, stream: Stream, name: str, woken: asyncio.Event, former: asyncio.Task[None] | None
    ) -> None:
        """Deliver to one webhook until it or the stream ends."""
        if former is not None:
            await _ended(former)
        stream.hub.watch(woken)
        count = self.counts.setdefault((stream.name, name), Counts())
        reached = 0  # what concerns the webhook has been delivered up to here
        try:
            while not stream.is_closed:
                woken.clear()
                try:
                    hook = await stream.ask(lambda each: each.hooks.find(name))
                    if hook is None:
                        return
                    await self._send_dead(stream, hook, count)
                    reached = await self._catch_up(stream, hook, max(reached, hook.cursor), count)
                    count.reached = reached
                except Exception as error:  # there may be no room, or too much to do
                    known = isinstance(error, Problem)
                    _LOG.warning("webhook %s of %s pauses", name, stream.name, exc_info=not known)
                    await asyncio.sleep(PAUSE)
                else:
                    await woken.wait()
        finally:
            stream.hub.unwatch(woken)
            if stream.is_closed:
                self.counts.pop((stream.name, name), None)

    async def _send_dead(self, stream: Stream, hook: Webhook, count: Counts) -> None:
        """Send dead letters that are due, once each."""
        while due := await stream.ask(lambda each: each.hooks.next_due(hook.name)):
            number, letter = due
            reason = await self._attempt(hook, letter, count)
            await stream.ask(partial(_settle, number, reason), writes=True)

    async def _catch_up(self, stream: Stream, hook: Webhook, after: int, count: Counts) -> int:
        """Deliver what was written behind `after`; returns how far that is.

        Writes that do not concern the webhook cost no write of their own: the cursor on disk may lag.
        """
        upto = stream.sequence
        if after >= upto:
            return after
        try:
            missed = hub.history(stream, hook.wants, after, upto)
            while part := await asyncio.to_thread(_some, missed):
                for message in part:
                    await self._deliver(stream, hook, message, count)
        except LookupError:  # the log does not go back so far, or no longer
            place = await stream.ask(partial(_now, hook.wants))
            upto = place.sequence
            await self._deliver(stream, hook, await asyncio.to_thread(hub.snapshot, place), count)
        if upto - hook.cursor >= FAR:
            await stream.ask(partial(_move, hook, upto), writes=True)
        return upto

    async def _deliver(self, stream: Stream, hook: Webhook, message: Told, count: Counts) -> None:
        """Deliver a message, or give it up; either way the webhook is behind it then."""
        body = b'{"type":"%b","stream":"%b","data":%b}' % (
            message.event.encode(),
            stream.name.encode(),
            message.data,
        )
        letter = Letter(f"msg_{hook.tag}_{message.sequence}", message.sequence, body)
        reason: str | None = None
        for attempt in range(self._settings.webhook_attempts):
            if attempt:
                pause = min(LONGEST, self._settings.webhook_pause * 2 ** (attempt - 1))
                await asyncio.sleep(pause * _CHANCE.uniform(0.5, 1.0))
            reason = await self._attempt(hook, letter, count)
            if reason is None:
                break
        count.dead += reason is not None
        count.reached = message.sequence
        await stream.ask(partial(_done, hook, letter, reason, self._settings.webhook_dead), writes=True)

    async def _attempt(self, hook: Webhook, letter: Letter, count: Counts) -> str | None:
        headers = headers_of(letter, hook.secret, time.time())
        reason = await self.outbound.post(hook.url, letter.body, headers)
        count.delivered += reason is None
        count.failed += reason is not None
        return reason


async def _ended(task: asyncio.Task[None]) -> None:
    task.cancel()
    await asyncio.wait([task])


def _some(missed: Iterator[Told]) -> list[Told]:
    return list(islice(missed, AT_ONCE))


def _now(wants: frozenset[str] | None, stream: Stream) -> Place:
    return Place(stream.number, hub.current(stream, wants))


def _settle(number: int, reason: str | None, stream: Stream) -> None:
    stream.hooks.settle(number, reason)


def _move(hook: Webhook, cursor: int, stream: Stream) -> None:
    stream.hooks.move(hook, cursor)


def _done(hook: Webhook, letter: Letter, reason: str | None, most: int, stream: Stream) -> None:
    if reason is not None:
        stream.hooks.bury(hook, letter, reason, most)
    stream.hooks.move(hook, letter.sequence)
