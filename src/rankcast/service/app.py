"""The service as an ASGI application: routes made from the table of commands."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import AsyncIterator, Iterable, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Send
from starlette.websockets import WebSocket

from rankcast.service.commands import COMMANDS, Command
from rankcast.service.metrics import Metrics
from rankcast.service.operating.tokens import Tokens
from rankcast.service.problems import Problem
from rankcast.service.requests import browsing, handlers
from rankcast.service.requests.gate import Endpoint, Gate, Handler, PlainRequest
from rankcast.service.settings import Settings
from rankcast.service.streams.directory import Streams
from rankcast.service.telling import sse, tiles, websocket
from rankcast.service.telling.sse import Connections
from rankcast.service.webhooks import handlers as webhooks
from rankcast.service.webhooks.delivery import Deliveries

_ELSEWHERE: dict[str, Handler] = {
    "deltas": sse.deltas,
    "list_objects": browsing.list_objects,
    "list_subscriptions": browsing.list_subscriptions,
    "writes": browsing.writes,
    "tiles": tiles.tiles,
    "lists": tiles.lists,
    "openapi": handlers.openapi_document,
    **webhooks.HANDLERS,
}


class Service:
    """Everything that requests share. Open it before the first request, close it after the last."""

    def __init__(self, settings: Settings) -> None:
        self.settings = settings
        self.streams = Streams(settings)
        self.tokens = Tokens(settings.data, public=not settings.is_loopback)
        self.metrics = Metrics()
        self.connections = Connections(settings.max_connections)
        self.deliveries = Deliveries(settings)
        self.metrics.watch(self.streams, self.deliveries)
        self.feeds = tiles.Feeds(self)
        self.gate = Gate(self)
        self.is_ready = True

    def stop(self) -> None:
        """Disconnect receivers, so that requests in progress come to an end."""
        self.is_ready = False
        for stream in self.streams.all():
            stream.hub.end()

    def close(self) -> None:
        """Close all streams."""
        self.stop()
        self.streams.close()


class Application(Starlette):
    """Starlette, but a path is split before it is decoded: ids may contain slashes.

    Commands go straight to their endpoints, which always answer: routes and layers of middleware would cost
    as much as the rest. Everything else (WebSockets, unknown paths, the lifespan) goes to Starlette.
    """

    def __init__(self, endpoints: Iterable[tuple[Command, Endpoint]], **given: Any) -> None:
        super().__init__(**given)
        self.router.redirect_slashes = False
        self._commands: dict[tuple[str, int], list[tuple[list[str], Endpoint]]] = defaultdict(list)
        for command, endpoint in endpoints:
            parts = command.path.split("/")
            self._commands[command.method, len(parts)].append((parts, endpoint))

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] in ("http", "websocket") and "raw_path" in scope:
            scope["path"] = scope["raw_path"].decode("latin-1").partition("?")[0]
        found = self._find(scope["method"], scope["path"].split("/")) if scope["type"] == "http" else None
        if found is None:
            await super().__call__(scope, receive, send)
            return
        endpoint, scope["path_params"] = found
        response = await endpoint(PlainRequest(scope, receive))
        await response(scope, receive, send)

    def _find(self, method: str, parts: list[str]) -> tuple[Endpoint, dict[str, str]] | None:
        """The endpoint of a path, and its parameters."""
        for known, endpoint in self._commands.get((method, len(parts)), ()):
            given: dict[str, str] = {}
            for name, part in zip(known, parts, strict=True):
                if name.startswith("{") and part:
                    given[name[1:-1]] = part
                elif name != part:
                    break
            else:
                return endpoint, given
        return None


def application(service: Service) -> Application:
    """The application of an open service, which it closes at the end."""

    @asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        await service.deliveries.open(service.streams.all())
        yield
        await service.deliveries.close()
        await service.feeds.close()
        service.close()

    async def socket(given: WebSocket) -> None:
        await websocket.serve(given, service)

    endpoints = [
        (
            command,
            service.gate.endpoint(command, _ELSEWHERE.get(command.name) or getattr(handlers, command.name)),
        )
        for command in COMMANDS
    ]
    routes: list[BaseRoute] = [
        Route(command.path, endpoint, methods=[command.method]) for command, endpoint in endpoints
    ]
    routes.append(WebSocketRoute(websocket.SOCKET.path, socket))
    return Application(
        endpoints,
        routes=routes,
        lifespan=lifespan,
        exception_handlers={HTTPException: _refused, Exception: _broken},
    )


async def _refused(request: Request, error: Exception) -> Response:
    """What the framework refuses: a path or a method that is not known."""
    status = error.status_code if isinstance(error, HTTPException) else 500
    known = {404: "There is nothing here.", 405: "The path does not take this method."}
    headers = dict(getattr(error, "headers", None) or {})
    return Problem(status, known.get(status, "The request is refused."), headers=headers).response()


async def _broken(request: Request, error: Exception) -> Response:
    """What nobody expected."""
    return Problem(500, "The service has a defect.").response()
