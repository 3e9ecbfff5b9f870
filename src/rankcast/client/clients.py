"""`Client` and `AsyncClient`: the same calls, one waits and one awaits.

Connections are kept and used again. A call that cannot be answered (no connection, a lost one, 429, 502 to
504) is sent again for up to `retry_for` seconds; writes carry a key, so that none is done twice.
Everything else that is refused is a `ServiceError`. A listener goes on behind what it heard last.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Self, TypeVar

from rankcast._version import __version__
from rankcast.client import calls
from rankcast.client.answers import (
    DryRun,
    Id,
    Message,
    Results,
    Row,
    StreamInfo,
    Subscribed,
    Webhook,
    Written,
)
from rankcast.client.calls import Answer, Request
from rankcast.client.resuming import Attempts, EventReader, unreachable
from rankcast.errors import InputError, required, shown
from rankcast.gateway import Lists

if TYPE_CHECKING:
    import httpx
else:
    httpx = required("httpx", "client")

T = TypeVar("T")
DEFAULT = "http://127.0.0.1:8765"


def _settings(url: str, token: str | None, timeout: float) -> dict[str, Any]:
    """What both kinds of httpx's clients are made with."""
    try:
        parsed = httpx.URL(url)
    except (httpx.InvalidURL, TypeError) as error:
        raise InputError(f"url is {shown(url)}", expected=f"an address, as {DEFAULT}") from error
    if parsed.scheme not in ("http", "https") or not parsed.host:
        raise InputError(f"url is {shown(url)}", expected=f"an address, as {DEFAULT}")
    headers = {"User-Agent": f"rankcast/{__version__}"}
    if token is not None:
        headers["Authorization"] = f"Bearer {token}"
    return {"base_url": parsed, "headers": headers, "timeout": timeout, "follow_redirects": False}


def _answer(response: httpx.Response) -> Answer:
    return Answer(response.status_code, response.headers, response.content)


class Client:
    """A service, over HTTP.

    Args:
        url: where it is.
        token: sent as `Authorization: Bearer`; made by `rankcast token add`.
        timeout: seconds that one attempt may wait for the service.
        retry_for: seconds for which a call that gets no answer is tried again.
        transport: one of httpx's, instead of the network.
    """

    def __init__(
        self,
        url: str = DEFAULT,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        retry_for: float = 60.0,
        transport: httpx.BaseTransport | None = None,
    ) -> None:
        self._http = httpx.Client(**_settings(url, token, timeout), transport=transport)
        self._timeout = timeout
        self._retry_for = retry_for

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the connections."""
        self._http.close()

    def _call(self, request: Request[T]) -> T:
        attempts = Attempts(self._retry_for)
        while True:
            try:
                answer = _answer(self._http.request(**request.sent()))
            except httpx.UnsupportedProtocol as error:
                raise unreachable(error) from error
            except httpx.TransportError as error:
                pause = attempts.after_loss(error)
            else:
                if attempts.finished(request, answer):
                    return request.read(answer)
                pause = attempts.after(answer)
            time.sleep(pause)

    def put_stream(self, stream: str, engine: str, settings: Mapping[str, Any] | None = None) -> StreamInfo:
        """Make a stream, if it is not there."""
        return self._call(calls.put_stream(stream, engine, settings))

    def list_streams(self) -> list[StreamInfo]:
        """The streams that the token is good for."""
        return self._call(calls.list_streams())

    def get_stream(self, stream: str) -> StreamInfo:
        """One stream, with its counters."""
        return self._call(calls.get_stream(stream))

    def end_stream(self, stream: str) -> None:
        """End a stream and forget all of it."""
        self._call(calls.end_stream(stream))

    def publish(self, stream: str, rows: Any, *, deltas: bool = False) -> Written:
        """Publish a batch of events, all or none; `deltas`: have the rows in the answer."""
        return self._call(calls.write_rows(stream, "events", rows, deltas=deltas))

    def push(
        self,
        stream: str,
        batch: int,
        rows: Any,
        *,
        source: str = "",
        part: int = 0,
        results: bool = False,
        deltas: bool = False,
    ) -> Written:
        """Push a batch into an external stream; one that was pushed before changes nothing.

        Args:
            stream: the stream.
            batch: its number, which grows from batch to batch.
            rows: deltas, or with `results` all lists as they are now.
            source: whose batches they are, the same for all of a stream.
            part: where a batch is pushed in several parts, their number from 0 on.
            results: what the rows are.
            deltas: have the deltas in the answer.
        """
        request = calls.push(stream, batch, rows, source=source, part=part, results=results, deltas=deltas)
        return self._call(request)

    def subscribe(self, stream: str, rows: Any, *, deltas: bool = False) -> Written:
        """Register many subscriptions, all or none; `deltas`: have the rows in the answer."""
        return self._call(calls.write_rows(stream, "subscriptions", rows, deltas=deltas))

    def put_subscription(
        self,
        stream: str,
        subscription: Id,
        row: Mapping[str, Any] | None = None,
        *,
        expires_in: float | None = None,
    ) -> Subscribed:
        """Subscribe, or replace; ends by itself after `expires_in` seconds."""
        return self._call(calls.put_subscription(stream, subscription, row, expires_in))

    def amend_subscription(self, stream: str, subscription: Id, row: Mapping[str, Any]) -> Subscribed:
        """Change a subscription: what is absent stays, None sets the default."""
        return self._call(calls.amend_subscription(stream, subscription, row))

    def get_subscription(self, stream: str, subscription: Id) -> Row:
        """A subscription as registered."""
        return self._call(calls.get_subscription(stream, subscription))

    def end_subscription(self, stream: str, subscription: Id) -> Written:
        """Unsubscribe."""
        return self._call(calls.end_subscription(stream, subscription))

    def results(self, stream: str, subscription: Id) -> Results:
        """The current list of a subscription."""
        return self._call(calls.results(stream, subscription))

    def explain(self, stream: str, subscription: Id, item: Any) -> Row:
        """Why an item (for matching: an event, as a dict) is or is not in a list."""
        return self._call(calls.explain(stream, subscription, item))

    def upsert(self, stream: str, rows: Any, *, deltas: bool = False) -> Written:
        """Insert or replace objects of moving queries."""
        return self._call(calls.write_rows(stream, "objects", rows, deltas=deltas))

    def remove(self, stream: str, item: Id) -> Written:
        """Remove an object of moving queries."""
        return self._call(calls.remove(stream, item))

    def zones(self, stream: str, subscriptions: Iterable[Id] = ()) -> Row:
        """Safe zones of moving queries as GeoJSON; of all subscriptions if none is named."""
        return self._call(calls.zones(stream, subscriptions))

    def dryrun(self, stream: str, row: Mapping[str, Any]) -> DryRun:
        """What a subscription would have heard of the events that are retained."""
        return self._call(calls.dryrun(stream, row))

    def put_webhook(
        self,
        stream: str,
        name: str,
        url: str,
        *,
        secret: str | None = None,
        subscriptions: Iterable[Id] | None = None,
    ) -> Webhook:
        """Have deltas posted to a URL, signed with a secret: a new one, unless it is given."""
        secret = secret or calls.new_secret()
        return self._call(calls.put_webhook(stream, name, url, secret, subscriptions))

    def get_webhook(self, stream: str, name: str) -> Webhook:
        """A webhook, and how far it is."""
        return self._call(calls.get_webhook(stream, name))

    def end_webhook(self, stream: str, name: str) -> Written:
        """End a webhook, and forget its dead letters."""
        return self._call(calls.end_webhook(stream, name))

    def dead_letters(self, stream: str, name: str) -> list[Row]:
        """What could not be delivered, the oldest first."""
        return self._call(calls.dead_letters(stream, name))

    def retry_dead_letters(self, stream: str, name: str, letter: str | None = None) -> int:
        """Have one dead letter sent again, or all; returns how many."""
        return self._call(calls.retry_dead_letters(stream, name, letter))

    def is_ready(self) -> bool:
        """Wait until the service takes calls.

        Raises:
            ServiceError: it does not within `retry_for` seconds.
        """
        return self._call(calls.ready())

    def listen(
        self,
        stream: str,
        subscriptions: Iterable[Id] = (),
        *,
        after: int | None = None,
        min_interval: float | None = None,
        min_change: float | None = None,
        quiet: float = 60.0,
    ) -> Iterator[Message]:
        """Hear a snapshot, then deltas, for ever; a lost connection is made again, and nothing is lost.

        Args:
            stream: the stream.
            subscriptions: those to hear of; none: all.
            after: the sequence of the last message that was heard before, to go on behind it.
            min_interval: seconds between two messages, at least.
            min_change: how much a score must change to be told.
            quiet: seconds without a sign of life after which the connection counts as lost; more than the
                `heartbeat` of the service.

        Raises:
            ServiceError: the service refuses it, or cannot be reached within `retry_for` seconds in the
                beginning; once it was reached, it is tried for ever.
        """
        return self._hear(calls.listen(stream, subscriptions, min_interval, min_change), after, quiet)

    def tiles(self, stream: str, *, quiet: float = 60.0) -> Iterator[Message]:
        """Hear the messages of dissemination, for ever, for `rankcast.Gateway.follow`; see `listen`.

        What comes first is `gap`, and so it is when something was missed: then lists must be asked for.
        """
        return self._hear(calls.tiles(stream), None, quiet)

    def lists(self, stream: str, rows: list[Row]) -> Lists:
        """The current lists of ranges that need not be registered, as of the last message of `tiles`."""
        return self._call(calls.lists(stream, rows))

    def _hear(self, request: Request[None], after: int | None, quiet: float) -> Iterator[Message]:
        """Server-sent events, for ever."""
        reader, attempts = EventReader(after), Attempts(self._retry_for)
        timeout = httpx.Timeout(self._timeout, read=quiet)
        while True:
            reader.begin()
            headers = {**request.headers, **reader.headers()}
            try:
                with self._http.stream(**{**request.sent(), "headers": headers}, timeout=timeout) as response:
                    if response.status_code != 200:
                        response.read()
                        pause = attempts.after(_answer(response))
                    else:
                        for part in response.iter_bytes():
                            attempts.succeeded(float("inf"))
                            yield from reader.feed(part)
                        pause = attempts.after_loss(EOFError("the service ended the connection"))
            except httpx.TransportError as error:
                pause = attempts.after_loss(error)
            time.sleep(pause)


class AsyncClient:
    """A service, over HTTP, for those who await; see `Client`, whose calls it has."""

    def __init__(
        self,
        url: str = DEFAULT,
        *,
        token: str | None = None,
        timeout: float = 30.0,
        retry_for: float = 60.0,
        transport: httpx.AsyncBaseTransport | None = None,
    ) -> None:
        self._http = httpx.AsyncClient(**_settings(url, token, timeout), transport=transport)
        self._timeout = timeout
        self._retry_for = retry_for

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.close()

    async def close(self) -> None:
        """Close the connections."""
        await self._http.aclose()

    async def _call(self, request: Request[T]) -> T:
        attempts = Attempts(self._retry_for)
        while True:
            try:
                answer = _answer(await self._http.request(**request.sent()))
            except httpx.UnsupportedProtocol as error:
                raise unreachable(error) from error
            except httpx.TransportError as error:
                pause = attempts.after_loss(error)
            else:
                if attempts.finished(request, answer):
                    return request.read(answer)
                pause = attempts.after(answer)
            await asyncio.sleep(pause)

    async def put_stream(
        self, stream: str, engine: str, settings: Mapping[str, Any] | None = None
    ) -> StreamInfo:
        """Make a stream, if it is not there."""
        return await self._call(calls.put_stream(stream, engine, settings))

    async def list_streams(self) -> list[StreamInfo]:
        """The streams that the token is good for."""
        return await self._call(calls.list_streams())

    async def get_stream(self, stream: str) -> StreamInfo:
        """One stream, with its counters."""
        return await self._call(calls.get_stream(stream))

    async def end_stream(self, stream: str) -> None:
        """End a stream and forget all of it."""
        await self._call(calls.end_stream(stream))

    async def publish(self, stream: str, rows: Any, *, deltas: bool = False) -> Written:
        """Publish a batch of events, all or none; `deltas`: have the rows in the answer."""
        return await self._call(calls.write_rows(stream, "events", rows, deltas=deltas))

    async def push(
        self,
        stream: str,
        batch: int,
        rows: Any,
        *,
        source: str = "",
        part: int = 0,
        results: bool = False,
        deltas: bool = False,
    ) -> Written:
        """Push a batch into an external stream; one that was pushed before changes nothing.

        Args:
            stream: the stream.
            batch: its number, which grows from batch to batch.
            rows: deltas, or with `results` all lists as they are now.
            source: whose batches they are, the same for all of a stream.
            part: where a batch is pushed in several parts, their number from 0 on.
            results: what the rows are.
            deltas: have the deltas in the answer.
        """
        request = calls.push(stream, batch, rows, source=source, part=part, results=results, deltas=deltas)
        return await self._call(request)

    async def subscribe(self, stream: str, rows: Any, *, deltas: bool = False) -> Written:
        """Register many subscriptions, all or none; `deltas`: have the rows in the answer."""
        return await self._call(calls.write_rows(stream, "subscriptions", rows, deltas=deltas))

    async def put_subscription(
        self,
        stream: str,
        subscription: Id,
        row: Mapping[str, Any] | None = None,
        *,
        expires_in: float | None = None,
    ) -> Subscribed:
        """Subscribe, or replace; ends by itself after `expires_in` seconds."""
        return await self._call(calls.put_subscription(stream, subscription, row, expires_in))

    async def amend_subscription(self, stream: str, subscription: Id, row: Mapping[str, Any]) -> Subscribed:
        """Change a subscription: what is absent stays, None sets the default."""
        return await self._call(calls.amend_subscription(stream, subscription, row))

    async def get_subscription(self, stream: str, subscription: Id) -> Row:
        """A subscription as registered."""
        return await self._call(calls.get_subscription(stream, subscription))

    async def end_subscription(self, stream: str, subscription: Id) -> Written:
        """Unsubscribe."""
        return await self._call(calls.end_subscription(stream, subscription))

    async def results(self, stream: str, subscription: Id) -> Results:
        """The current list of a subscription."""
        return await self._call(calls.results(stream, subscription))

    async def explain(self, stream: str, subscription: Id, item: Any) -> Row:
        """Why an item (for matching: an event, as a dict) is or is not in a list."""
        return await self._call(calls.explain(stream, subscription, item))

    async def upsert(self, stream: str, rows: Any, *, deltas: bool = False) -> Written:
        """Insert or replace objects of moving queries."""
        return await self._call(calls.write_rows(stream, "objects", rows, deltas=deltas))

    async def remove(self, stream: str, item: Id) -> Written:
        """Remove an object of moving queries."""
        return await self._call(calls.remove(stream, item))

    async def zones(self, stream: str, subscriptions: Iterable[Id] = ()) -> Row:
        """Safe zones of moving queries as GeoJSON; of all subscriptions if none is named."""
        return await self._call(calls.zones(stream, subscriptions))

    async def dryrun(self, stream: str, row: Mapping[str, Any]) -> DryRun:
        """What a subscription would have heard of the events that are retained."""
        return await self._call(calls.dryrun(stream, row))

    async def put_webhook(
        self,
        stream: str,
        name: str,
        url: str,
        *,
        secret: str | None = None,
        subscriptions: Iterable[Id] | None = None,
    ) -> Webhook:
        """Have deltas posted to a URL, signed with a secret: a new one, unless it is given."""
        secret = secret or calls.new_secret()
        return await self._call(calls.put_webhook(stream, name, url, secret, subscriptions))

    async def get_webhook(self, stream: str, name: str) -> Webhook:
        """A webhook, and how far it is."""
        return await self._call(calls.get_webhook(stream, name))

    async def end_webhook(self, stream: str, name: str) -> Written:
        """End a webhook, and forget its dead letters."""
        return await self._call(calls.end_webhook(stream, name))

    async def dead_letters(self, stream: str, name: str) -> list[Row]:
        """What could not be delivered, the oldest first."""
        return await self._call(calls.dead_letters(stream, name))

    async def retry_dead_letters(self, stream: str, name: str, letter: str | None = None) -> int:
        """Have one dead letter sent again, or all; returns how many."""
        return await self._call(calls.retry_dead_letters(stream, name, letter))

    async def is_ready(self) -> bool:
        """Wait until the service takes calls; see `Client.is_ready`."""
        return await self._call(calls.ready())

    def listen(
        self,
        stream: str,
        subscriptions: Iterable[Id] = (),
        *,
        after: int | None = None,
        min_interval: float | None = None,
        min_change: float | None = None,
        quiet: float = 60.0,
    ) -> AsyncIterator[Message]:
        """Hear a snapshot, then deltas, for ever; see `Client.listen`."""
        return self._hear(calls.listen(stream, subscriptions, min_interval, min_change), after, quiet)

    def tiles(self, stream: str, *, quiet: float = 60.0) -> AsyncIterator[Message]:
        """Hear the messages of dissemination, for ever; see `Client.tiles`."""
        return self._hear(calls.tiles(stream), None, quiet)

    async def lists(self, stream: str, rows: list[Row]) -> Lists:
        """The current lists of ranges that need not be registered; see `Client.lists`."""
        return await self._call(calls.lists(stream, rows))

    async def _hear(self, request: Request[None], after: int | None, quiet: float) -> AsyncIterator[Message]:
        """Server-sent events, for ever."""
        reader, attempts = EventReader(after), Attempts(self._retry_for)
        timeout = httpx.Timeout(self._timeout, read=quiet)
        while True:
            reader.begin()
            headers = {**request.headers, **reader.headers()}
            try:
                sent = {**request.sent(), "headers": headers}
                async with self._http.stream(**sent, timeout=timeout) as response:
                    if response.status_code != 200:
                        await response.aread()
                        pause = attempts.after(_answer(response))
                    else:
                        async for part in response.aiter_bytes():
                            attempts.succeeded(float("inf"))
                            for each in reader.feed(part):
                                yield each
                        pause = attempts.after_loss(EOFError("the service ended the connection"))
            except httpx.TransportError as error:
                pause = attempts.after_loss(error)
            await asyncio.sleep(pause)
