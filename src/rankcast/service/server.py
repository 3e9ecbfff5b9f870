"""The process around the application: uvicorn, logs, and a shutdown that loses nothing."""

from __future__ import annotations

import gc
import logging
import signal
import socket
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import uvicorn
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from rankcast.errors import RankcastError, SettingError
from rankcast.service.app import Service, application
from rankcast.service.serve_command import JsonLines
from rankcast.service.settings import Settings

# Threads of streams let go of the interpreter at every call of SQLite's and Arrow's, and have it back when
# the event loop lets go of it, or after so many seconds. With Python's 5 ms a group of writes waits long.
SWITCH = 0.0005
HEAD = 64 << 10  # bytes of a request before its body
_TOO_LONG = b"HTTP/1.1 431 Request Header Fields Too Large\r\nContent-Length: 0\r\nConnection: close\r\n\r\n"


class Protocol(HttpToolsProtocol):
    """Uvicorn's HTTP, with a limit on what precedes a body, because that is kept in memory."""

    _heading, _head, _begun = True, 0, False

    def on_message_begin(self) -> None:
        """A request begins."""
        self._heading, self._head, self._begun = True, 0, True
        super().on_message_begin()

    def on_headers_complete(self) -> None:
        """Its body begins."""
        self._heading = False
        super().on_headers_complete()

    def data_received(self, data: bytes) -> None:
        """Some bytes have come."""
        self._begun = False
        super().data_received(data)
        if self._heading and not self._begun:  # with its beginning may have come the end of another
            self._head += len(data)
            if self._head > HEAD and not self.transport.is_closing():
                self.transport.write(_TOO_LONG)
                self.transport.close()


class Server(uvicorn.Server):
    """Uvicorn, which disconnects receivers when it is told to stop."""

    def __init__(self, config: uvicorn.Config, service: Service) -> None:
        super().__init__(config)
        self._service = service

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        """Stop at a signal; a stop is not a failure, so the signal is not raised again afterwards."""
        if threading.current_thread() is not threading.main_thread():
            yield
            return
        before = {each: signal.signal(each, self.handle_exit) for each in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for each, handler in before.items():
                signal.signal(each, handler)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Stop listening, end open connections, wait for requests in progress."""
        self._service.stop()
        await super().shutdown(sockets)


def serve(settings: Settings) -> int:
    """Serve until a signal says to stop; returns the exit code."""
    configure_logs(settings.log_level)
    sys.setswitchinterval(SWITCH)
    family = socket.AF_INET6 if ":" in settings.host else socket.AF_INET
    with socket.socket(family) as listening:
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listening.bind((settings.host, settings.port))
        except OSError as error:
            what = f"cannot listen on {settings.host} port {settings.port}"
            raise SettingError(what, detail=f"{error.strerror}.") from error
        listening.listen(2048)
        service = Service(settings)
        config = uvicorn.Config(
            application(service),
            http=Protocol,
            log_config=None,
            access_log=False,
            server_header=False,
            proxy_headers=False,  # who calls is told by a token
            timeout_graceful_shutdown=max(1, round(settings.stop_wait)),
            ws_max_size=1 << 20,
            lifespan="on",
        )
        port = listening.getsockname()[1]
        sys.stdout.write(f"rankcast serves {settings.data} at http://{settings.host}:{port}\n")
        sys.stdout.flush()
        server = Server(config, service)
        gc.collect()
        gc.freeze()  # what is there by now stays: it need not be looked through again and again
        server.run(sockets=[listening])
        if not server.started:
            raise RankcastError("the service could not be started")
    return 0


def configure_logs(level: str) -> None:
    """Write lines of JSON to standard error."""
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(JsonLines())
    logging.basicConfig(level=level.upper(), handlers=[handler], force=True)
    logging.getLogger("uvicorn.access").disabled = True
    logging.getLogger("rankcast.access").setLevel(logging.INFO if level == "debug" else logging.WARNING)
