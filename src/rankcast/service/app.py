"""The service as an ASGI application: routes made from the table of commands."""

from __future__ import annotations

from collections.abc import AsyncIterator, MutableMapping
from contextlib import asynccontextmanager
from typing import Any

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import BaseRoute, Route, WebSocketRoute
from starlette.types import Receive, Send
from starlette.websockets import WebSocket

from rankcast.service import handlers, sse, tiles, websocket
from rankcast.service.commands import COMMANDS
from rankcast.service.gate import Gate, Handler
from rankcast.service.metrics import Metrics
from rankcast.service.problems import Problem
from rankcast.service.settings import Settings
from rankcast.service.sse import Connections
from rankcast.service.streams import Streams
from rankcast.service.tokens import Tokens
from rankcast.service.webhooks import handlers as webhooks
from rankcast.service.webhooks.delivery import Deliveries

_ELSEWHERE: dict[str, Handler] = {
    "deltas": sse.deltas,
    "tiles": tiles.tiles,
    "lists": tiles.lists,
    "openapi": handlers.openapi_document,
    **webhooks.HANDLERS,
}


class Service:
    """Everything that requests share. Open it before the first one, close it behind the last."""

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
        """Let receivers go, so that requests under way come to an end."""
        self.is_ready = False
        for stream in self.streams.all():
            stream.hub.end()

    def close(self) -> None:
        """Close all streams."""
        self.stop()
        self.streams.close()


class Application(Starlette):
    """Starlette, but a path is taken apart before it is decoded: ids may have slashes in them."""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        """Serve one request."""
        if scope["type"] in ("http", "websocket") and "raw_path" in scope:
            scope["path"] = scope["raw_path"].decode("latin-1").partition("?")[0]
        await super().__call__(scope, receive, send)


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

    routes: list[BaseRoute] = [
        Route(
            command.path,
            service.gate.endpoint(command, _ELSEWHERE.get(command.name) or getattr(handlers, command.name)),
            methods=[command.method],
        )
        for command in COMMANDS
    ]
    routes.append(WebSocketRoute(websocket.SOCKET.path, socket))
    return Application(
        routes=routes, lifespan=lifespan, exception_handlers={HTTPException: _refused, Exception: _broken}
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
