"""The gate: what every request passes, and what a handler gets.

In this order: the id of the request, the token and its scope, the rate, and only then the body, which is
refused by its announced length before a byte of it is read. Every error leaves as a problem.
"""

from __future__ import annotations

import asyncio
import hashlib
import itertools
import logging
import re
import secrets
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, TypeAlias
from urllib.parse import unquote_to_bytes

from starlette.requests import ClientDisconnect, HTTPConnection, Request
from starlette.responses import Response

from rankcast.errors import shown
from rankcast.service.commands import Command
from rankcast.service.operating.tokens import ANYBODY, Token
from rankcast.service.problems import Problem, busy, problem_of
from rankcast.service.requests import rows
from rankcast.service.settings import is_loopback
from rankcast.service.streams.records import LONGEST_ID
from rankcast.service.streams.stream import Stream

if TYPE_CHECKING:
    from rankcast.service.app import Service

Handler: TypeAlias = Callable[["Call"], Awaitable[Response]]
Endpoint: TypeAlias = Callable[[Request], Awaitable[Response]]
REQUEST_ID = "X-Request-Id"
NO_BODY = rows.Body(b"", "")
LARGE = 256 << 10  # bytes of a body that is not parsed on the event loop
_ACCESS = logging.getLogger("rankcast.access")
_LOG = logging.getLogger(__name__)
_PROCESS, _COUNT = secrets.token_hex(6), itertools.count(1)
_REQUEST_ID = re.compile(r"[A-Za-z0-9_-]{1,64}")
_KEY = re.compile(r"[\x21-\x7e]{1,255}")


class PlainRequest(Request):
    """A request with its headers as a dict, because each is read several times."""

    @property
    def headers(self) -> Any:
        """The headers by lower-case name; of several the first counts."""
        found = self.scope.get("plain")
        if found is None:
            pairs = reversed(self.scope["headers"])
            found = {name.decode("latin-1"): value.decode("latin-1") for name, value in pairs}
            self.scope["plain"] = found
        return found


@dataclass
class Call:
    """An admitted request."""

    request: Request
    service: Service
    token: Token
    command: Command
    parameters: dict[str, str] = field(default_factory=dict)
    content: rows.Body = NO_BODY  # until it was read

    @property
    def stream(self) -> Stream:
        """The stream that it concerns."""
        return self.service.streams.find(self.parameters["stream"])

    @property
    def form(self) -> str:
        """The form in which a table is wanted."""
        return rows.form_of(self.request.headers.get("accept", ""))

    def asks(self, name: str) -> str | None:
        """A parameter of the query that comes at most once."""
        found = self.request.query_params.getlist(name)
        if len(found) > 1:
            raise Problem(422, f"The parameter {name} comes {len(found)} times.")
        return found[0] if found else None

    async def body(self) -> rows.Body:
        """The body, no longer than it may be, unpacked."""
        headers, most = self.request.headers, self.service.settings.max_body
        length = headers.get("content-length")
        if length is not None and (not length.isdecimal() or int(length) > most):
            raise rows.too_large(most)
        parts, size, more = [], 0, True
        try:
            async with asyncio.timeout(self.service.settings.body_wait):
                while more:
                    message = await self.request.receive()
                    if message["type"] == "http.disconnect":
                        raise ClientDisconnect
                    parts.append(message.get("body", b""))
                    size += len(parts[-1])
                    more = message.get("more_body", False)
                    if size > most:
                        raise rows.too_large(most)
        except TimeoutError as error:
            raise Problem(408, "The body did not come in time.", headers={"Connection": "close"}) from error
        media = headers.get("content-type", "").partition(";")[0].strip().lower()
        encoding = headers.get("content-encoding", "").strip().lower()
        found = b"".join(parts)
        if encoding:
            found = await asyncio.to_thread(rows.unpacked, found, encoding, most)
        self.content = rows.Body(found, media)
        return self.content

    async def document(self) -> dict[str, Any]:
        """The body as one JSON object."""
        return rows.document(await self.body())

    async def rows(self) -> Any:
        """The rows of the body, and how many bytes they had."""
        body, most = await self.body(), self.service.settings.max_rows
        if len(body.data) > LARGE or body.media == rows.ARROW:
            return await asyncio.to_thread(rows.read, body, most)
        return rows.read(body, most)

    @property
    def size(self) -> int:
        """How many bytes the body had."""
        return len(self.content.data)

    def key(self) -> tuple[str, bytes] | None:
        """The key of a write, which is the caller's own, and a digest of all that was asked."""
        key = self.request.headers.get("idempotency-key")
        if key is None:
            return None
        if not _KEY.fullmatch(key):
            raise Problem(400, "The Idempotency-Key is no text of 1 to 255 printable characters.")
        body = self.content
        asked = f"{self.command.name} {self.parameters} {self.request.url.query} {body.media} "
        digest = hashlib.blake2b(asked.encode() + body.data, digest_size=16).digest()
        return f"{self.token.id}:{key}", digest


class Gate:
    """Lets requests in, and answers those that it does not let in."""

    def __init__(self, service: Service) -> None:
        self._service = service
        self._buckets: dict[str, tuple[float, float]] = {}

    def endpoint(self, command: Command, handler: Handler) -> Endpoint:
        """The handler of a command behind the gate."""

        async def serve(request: Request) -> Response:
            begun = time.perf_counter()
            name = request_id(request)
            try:
                response = await handler(self.admit(request, command))
            except ClientDisconnect:
                response = Response(status_code=400)
            except Exception as error:
                problem = problem_of(error)
                if problem is None:
                    _LOG.exception("request %s", name)
                    problem = Problem(500, "The service has a defect.", request=name)
                response = problem.response()
            response.headers[REQUEST_ID] = name
            seconds = time.perf_counter() - begun
            self._service.metrics.answered(command.name, response.status_code, seconds)
            if _ACCESS.isEnabledFor(logging.INFO):
                _ACCESS.info(
                    "%s",
                    command.name,
                    extra={"status": response.status_code, "ms": round(seconds * 1000, 2), "request": name},
                )
            return response

        return serve

    def admit(self, request: Request, command: Command) -> Call:
        """A request that may be handled.

        Raises:
            Problem: it may not.
        """
        parameters = {name: decoded(value) for name, value in request.path_params.items()}
        token = self.token_of(request, command, parameters.get("stream"))
        return Call(request, self._service, token, command, parameters)

    def token_of(self, request: HTTPConnection, command: Command, stream: str | None) -> Token:
        """Whose request it is, if it may be made and does not come too soon."""
        if command.scope is None:
            return ANYBODY
        token = self._service.tokens.admit(request.headers.get("authorization"))
        if token is ANYBODY:
            refuse_strange_hosts(request)
        everywhere = command.name == "list_streams"  # shows what the token is good for
        if everywhere and not {command.scope, "admin"} & set(token.scopes):
            raise forbidden(command)
        if not everywhere and not token.allows(command.scope, stream):
            raise forbidden(command)
        self._pace(token.id or (request.client.host if request.client else ""))
        return token

    def _pace(self, who: str) -> None:
        """Refuse a request above the rate of a token."""
        rate, burst = self._service.settings.rate, self._service.settings.burst
        if not rate:
            return
        now = time.monotonic()
        level, at = self._buckets.get(who, (float(burst), now))
        level = min(float(burst), level + (now - at) * rate)
        if level < 1:
            self._buckets[who] = level, now
            raise busy(f"More than {rate:g} requests a second.", after=(1 - level) / rate)
        if len(self._buckets) > 10_000:
            self._buckets.clear()
        self._buckets[who] = level - 1, now


def forbidden(command: Command) -> Problem:
    """A token that is good for something else."""
    return Problem(403, f"The token is not good for this: it needs the scope {command.scope} here.")


def decoded(text: str) -> str:
    """A part of a path as it was meant."""
    try:
        found = unquote_to_bytes(text).decode()
    except UnicodeDecodeError as error:
        raise Problem(400, f"{shown(text)} is no UTF-8.") from error
    if "\0" in found or len(found) > LONGEST_ID:
        raise Problem(400, "A part of the path has a zero character, or is too long.")
    return found


def request_id(request: HTTPConnection) -> str:
    """The id of a request: the caller's if it is a plain one, else a new one."""
    given = request.headers.get(REQUEST_ID.lower())
    if given is not None and _REQUEST_ID.fullmatch(given):
        return str(given)
    return f"{_PROCESS}-{next(_COUNT):x}"


def refuse_strange_hosts(request: HTTPConnection) -> None:
    """While there is no token, refuse what a web page of somebody else's could send here."""
    host = request.headers.get("host", "").rsplit(":", 1)[0]
    if not is_loopback(host):
        raise Problem(
            403, f"Without tokens the service answers to loopback names only, not to {shown(host)}."
        )
    origin = request.headers.get("origin")
    if origin is not None and not is_loopback(origin.partition("://")[2].rsplit(":", 1)[0]):
        raise Problem(403, "Without tokens pages of other origins may not call the service.")
