"""`Client` and `AsyncClient`: the same calls, synchronous and asynchronous.

Connections are reused. A call without an answer (no connection, a lost one, 429, 502 to 504) is sent again
for up to `retry_for` seconds; writes carry a key, so none is applied twice. Any other refusal is a
`ServiceError`. A listener continues after the last message it received.
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
    """The arguments of both kinds of httpx clients."""
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
    """A client of the service.

    Args:
        url: the address of the service.
        token: sent as `Authorization: Bearer`; created by `rankcast token add`.
        timeout: seconds that one attempt may wait for the service.
        retry_for: seconds for which a call without an answer is retried.
        transport: an httpx transport to use instead of the network.

    >>> with Client(url) as client:  # with a service at url, for example "http://127.0.0.1:8765"
    ...     made = client.put_stream("stocks", "RangeTopK", {"over": "risk", "by": "pe", "k": 2})
    ...     written = client.publish("stocks", {"id": ["ACME"], "risk": [3], "pe": [12.0]})
    ...     client.put_subscription("stocks", "ada", {"risk_lo": 2, "risk_hi": 6}).results
    [{'subscription': 'ada', 'rank': 1, 'item': 'ACME', 'score': 12.0}]
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
        """Create a stream if it does not exist."""
        return self._call(calls.put_stream(stream, engine, settings))

    def list_streams(self) -> list[StreamInfo]:
        """List the streams that the token may access."""
        return self._call(calls.list_streams())

    def get_stream(self, stream: str) -> StreamInfo:
        """Show one stream with its counters."""
        return self._call(calls.get_stream(stream))

    def end_stream(self, stream: str) -> None:
        """End a stream and delete all its data."""
        self._call(calls.end_stream(stream))

    def publish(self, stream: str, rows: Any, *, deltas: bool = False) -> Written:
        """Publish a batch of events, all or none; with `deltas` the answer has the rows."""
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
        """Push a batch into an external stream; a batch that was pushed before changes nothing.

        Args:
            stream: the stream.
            batch: the number of the batch; numbers increase.
            rows: deltas, or with `results` all current lists.
            source: where the batches come from, the same for all batches of a stream.
            part: the number of the part, from 0, if a batch is pushed in several parts.
            results: whether the rows are lists instead of deltas.
            deltas: whether the answer has the deltas.
        """
        request = calls.push(stream, batch, rows, source=source, part=part, results=results, deltas=deltas)
        return self._call(request)

    def subscribe(self, stream: str, rows: Any, *, deltas: bool = False) -> Written:
        """Register many subscriptions, all or none; with `deltas` the answer has the rows."""
        return self._call(calls.write_rows(stream, "subscriptions", rows, deltas=deltas))

    def put_subscription(
        self,
        stream: str,
        subscription: Id,
        row: Mapping[str, Any] | None = None,
        *,
        expires_in: float | None = None,
    ) -> Subscribed:
        """Register or replace a subscription; it ends automatically after `expires_in` seconds."""
        return self._call(calls.put_subscription(stream, subscription, row, expires_in))

    def amend_subscription(self, stream: str, subscription: Id, row: Mapping[str, Any]) -> Subscribed:
        """Change a subscription: an absent value stays, None sets the default."""
        return self._call(calls.amend_subscription(stream, subscription, row))

    def get_subscription(self, stream: str, subscription: Id) -> Row:
        """Show a subscription as registered."""
        return self._call(calls.get_subscription(stream, subscription))

    def end_subscription(self, stream: str, subscription: Id) -> Written:
        """Unsubscribe."""
        return self._call(calls.end_subscription(stream, subscription))

    def results(self, stream: str, subscription: Id) -> Results:
        """Get the current list of a subscription."""
        return self._call(calls.results(stream, subscription))

    def explain(self, stream: str, subscription: Id, item: Any) -> Row:
        """Explain why an item (for matching: an event, as a dict) is or is not in a list."""
        return self._call(calls.explain(stream, subscription, item))

    def upsert(self, stream: str, rows: Any, *, deltas: bool = False) -> Written:
        """Insert or replace objects of moving queries."""
        return self._call(calls.write_rows(stream, "objects", rows, deltas=deltas))

    def remove(self, stream: str, item: Id) -> Written:
        """Remove an object of moving queries."""
        return self._call(calls.remove(stream, item))

    def zones(self, stream: str, subscriptions: Iterable[Id] = ()) -> Row:
        """Get safe zones of moving queries as GeoJSON; those of all subscriptions if none is named."""
        return self._call(calls.zones(stream, subscriptions))

    def dryrun(self, stream: str, row: Mapping[str, Any]) -> DryRun:
        """Find out what a subscription would have received from the retained events."""
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
        """Post deltas to a URL, signed with the given secret or a new one."""
        secret = secret or calls.new_secret()
        return self._call(calls.put_webhook(stream, name, url, secret, subscriptions))

    def get_webhook(self, stream: str, name: str) -> Webhook:
        """Show a webhook and its progress."""
        return self._call(calls.get_webhook(stream, name))

    def end_webhook(self, stream: str, name: str) -> Written:
        """End a webhook and delete its dead letters."""
        return self._call(calls.end_webhook(stream, name))

    def dead_letters(self, stream: str, name: str) -> list[Row]:
        """List the messages that could not be delivered, the oldest first."""
        return self._call(calls.dead_letters(stream, name))

    def retry_dead_letters(self, stream: str, name: str, letter: str | None = None) -> int:
        """Send one dead letter again, or all; returns how many."""
        return self._call(calls.retry_dead_letters(stream, name, letter))

    def is_ready(self) -> bool:
        """Wait until the service accepts calls.

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
        """Receive a snapshot, then deltas, for ever; reconnects automatically, and nothing is lost.

        Args:
            stream: the stream.
            subscriptions: those to listen to; none: all.
            after: the sequence of the last message received before, to continue after it.
            min_interval: the least number of seconds between two messages.
            min_change: the least change of a score that is reported.
            quiet: seconds without a heartbeat after which the connection counts as lost; more than the
                `heartbeat` of the service.

        Raises:
            ServiceError: the service refuses the call, or cannot be reached within `retry_for` seconds at the
                start; once connected, the client retries for ever.
        """
        return self._hear(calls.listen(stream, subscriptions, min_interval, min_change), after, quiet)

    def tiles(self, stream: str, *, quiet: float = 60.0) -> Iterator[Message]:
        """Receive the messages of dissemination, for ever, for `rankcast.Gateway.follow`; see `listen`.

        The first message is `gap`. It also comes when something was missed: then the lists must be requested.
        """
        return self._hear(calls.tiles(stream), None, quiet)

    def lists(self, stream: str, rows: list[Row]) -> Lists:
        """Get the current lists of ranges, registered or not, as of the last message of `tiles`."""
        return self._call(calls.lists(stream, rows))

    def _hear(self, request: Request[None], after: int | None, quiet: float) -> Iterator[Message]:
        """Receive server-sent events, for ever."""
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
    """An asynchronous client of the service; it has the calls of `Client`.

    >>> import asyncio
    >>> async def streams():
    ...     async with AsyncClient(url) as client:
    ...         return await client.list_streams()
    >>> asyncio.run(streams())
    []
    """

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
        """Create a stream if it does not exist."""
        return await self._call(calls.put_stream(stream, engine, settings))

    async def list_streams(self) -> list[StreamInfo]:
        """List the streams that the token may access."""
        return await self._call(calls.list_streams())

    async def get_stream(self, stream: str) -> StreamInfo:
        """Show one stream with its counters."""
        return await self._call(calls.get_stream(stream))

    async def end_stream(self, stream: str) -> None:
        """End a stream and delete all its data."""
        await self._call(calls.end_stream(stream))

    async def publish(self, stream: str, rows: Any, *, deltas: bool = False) -> Written:
        """Publish a batch of events, all or none; with `deltas` the answer has the rows."""
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
        """Push a batch into an external stream; see `Client.push`."""
        request = calls.push(stream, batch, rows, source=source, part=part, results=results, deltas=deltas)
        return await self._call(request)

    async def subscribe(self, stream: str, rows: Any, *, deltas: bool = False) -> Written:
        """Register many subscriptions, all or none; with `deltas` the answer has the rows."""
        return await self._call(calls.write_rows(stream, "subscriptions", rows, deltas=deltas))

    async def put_subscription(
        self,
        stream: str,
        subscription: Id,
        row: Mapping[str, Any] | None = None,
        *,
        expires_in: float | None = None,
    ) -> Subscribed:
        """Register or replace a subscription; it ends automatically after `expires_in` seconds."""
        return await self._call(calls.put_subscription(stream, subscription, row, expires_in))

    async def amend_subscription(self, stream: str, subscription: Id, row: Mapping[str, Any]) -> Subscribed:
        """Change a subscription: an absent value stays, None sets the default."""
        return await self._call(calls.amend_subscription(stream, subscription, row))

    async def get_subscription(self, stream: str, subscription: Id) -> Row:
        """Show a subscription as registered."""
        return await self._call(calls.get_subscription(stream, subscription))

    async def end_subscription(self, stream: str, subscription: Id) -> Written:
        """Unsubscribe."""
        return await self._call(calls.end_subscription(stream, subscription))

    async def results(self, stream: str, subscription: Id) -> Results:
        """Get the current list of a subscription."""
        return await self._call(calls.results(stream, subscription))

    async def explain(self, stream: str, subscription: Id, item: Any) -> Row:
        """Explain why an item (for matching: an event, as a dict) is or is not in a list."""
        return await self._call(calls.explain(stream, subscription, item))

    async def upsert(self, stream: str, rows: Any, *, deltas: bool = False) -> Written:
        """Insert or replace objects of moving queries."""
        return await self._call(calls.write_rows(stream, "objects", rows, deltas=deltas))

    async def remove(self, stream: str, item: Id) -> Written:
        """Remove an object of moving queries."""
        return await self._call(calls.remove(stream, item))

    async def zones(self, stream: str, subscriptions: Iterable[Id] = ()) -> Row:
        """Get safe zones of moving queries as GeoJSON; those of all subscriptions if none is named."""
        return await self._call(calls.zones(stream, subscriptions))

    async def dryrun(self, stream: str, row: Mapping[str, Any]) -> DryRun:
        """Find out what a subscription would have received from the retained events."""
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
        """Post deltas to a URL, signed with the given secret or a new one."""
        secret = secret or calls.new_secret()
        return await self._call(calls.put_webhook(stream, name, url, secret, subscriptions))

    async def get_webhook(self, stream: str, name: str) -> Webhook:
        """Show a webhook and its progress."""
        return await self._call(calls.get_webhook(stream, name))

    async def end_webhook(self, stream: str, name: str) -> Written:
        """End a webhook and delete its dead letters."""
        return await self._call(calls.end_webhook(stream, name))

    async def dead_letters(self, stream: str, name: str) -> list[Row]:
        """List the messages that could not be delivered, the oldest first."""
        return await self._call(calls.dead_letters(stream, name))

    async def retry_dead_letters(self, stream: str, name: str, letter: str | None = None) -> int:
        """Send one dead letter again, or all; returns how many."""
        return await self._call(calls.retry_dead_letters(stream, name, letter))

    async def is_ready(self) -> bool:
        """Wait until the service accepts calls; see `Client.is_ready`."""
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
        """Receive a snapshot, then deltas, for ever; see `Client.listen`."""
        return self._hear(calls.listen(stream, subscriptions, min_interval, min_change), after, quiet)

    def tiles(self, stream: str, *, quiet: float = 60.0) -> AsyncIterator[Message]:
        """Receive the messages of dissemination, for ever; see `Client.tiles`."""
        return self._hear(calls.tiles(stream), None, quiet)

    async def lists(self, stream: str, rows: list[Row]) -> Lists:
        """Get the current lists of ranges, registered or not; see `Client.lists`."""
        return await self._call(calls.lists(stream, rows))

    async def _hear(self, request: Request[None], after: int | None, quiet: float) -> AsyncIterator[Message]:
        """Receive server-sent events, for ever."""
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
