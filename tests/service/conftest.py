from __future__ import annotations

import http.client
import json
import socket
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest
import uvicorn
from starlette.testclient import TestClient
from websockets.sync.client import ClientConnection, connect

from rankcast.service.app import Service, application
from rankcast.service.server import Protocol, Server
from rankcast.service.settings import read

Opened = Callable[..., TestClient]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    """A service over a directory of the test's; opened again, it goes on with what is there."""
    clients: list[TestClient] = []

    def open_service(**settings: Any) -> TestClient:
        for client in clients:
            client.__exit__(None, None, None)
        clients.clear()
        service = Service(read(None, {"data": tmp_path / "data", "min_free": 0, **settings}))
        client = TestClient(application(service), base_url="http://127.0.0.1")
        client.__enter__()
        clients.append(client)
        return client

    yield open_service
    for client in clients:
        client.__exit__(None, None, None)


@pytest.fixture
def client(opened: Opened) -> TestClient:
    """A service without streams."""
    return opened()


@pytest.fixture
def stocks(client: TestClient) -> TestClient:
    """A service with the stream of the README: two subscriptions, three stocks."""
    make_stocks(client)
    return client


def make_stocks(client: httpx.Client) -> None:
    engine = {"engine": "RangeTopK", "settings": {"over": "risk", "by": "pe", "k": 2}}
    assert client.put("/v1/streams/stocks", json=engine).status_code == 201
    rows = [
        {"id": "ACME", "risk": 3, "pe": 12.0},
        {"id": "BOLT", "risk": 5, "pe": 9.5},
        {"id": "CORE", "risk": 8, "pe": 7.0},
    ]
    assert client.post("/v1/streams/stocks/events", json={"rows": rows}).status_code == 200
    boxes = [{"id": "ada", "risk_lo": 2, "risk_hi": 6}, {"id": "bob", "risk_lo": 6}]
    assert client.post("/v1/streams/stocks/subscriptions", json={"rows": boxes}).status_code == 201


class Running:
    """A service behind a real server, on a port of its own."""

    def __init__(self, data: Path, **settings: Any) -> None:
        self.socket = socket.create_server(("127.0.0.1", 0))
        self.port = self.socket.getsockname()[1]
        self.service = Service(read(None, {"data": data, "min_free": 0, "heartbeat": 0.3, **settings}))
        config = uvicorn.Config(
            application(self.service),
            http=Protocol,
            log_config=None,
            lifespan="on",
            timeout_graceful_shutdown=2,
        )
        self.server = Server(config, self.service)
        self.thread = threading.Thread(target=self.server.run, args=([self.socket],), daemon=True)
        self.thread.start()
        self.http = httpx.Client(base_url=f"http://127.0.0.1:{self.port}", timeout=20)

    def listen(self, path: str, **headers: str) -> Listener:
        return Listener(self.port, path, headers)

    def socket_to(self, path: str, **headers: str) -> ClientConnection:
        return connect(f"ws://127.0.0.1:{self.port}{path}", additional_headers=headers, open_timeout=20)

    def stop(self) -> None:
        self.http.close()
        self.server.should_exit = True
        self.thread.join(20)
        self.socket.close()
        assert not self.thread.is_alive()


class Listener:
    """A plain receiver of server-sent events."""

    def __init__(self, port: int, path: str, headers: dict[str, str]) -> None:
        self.connection = http.client.HTTPConnection("127.0.0.1", port, timeout=20)
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        self.connection.request("GET", path, headers=named)
        self.response = self.connection.getresponse()
        self.status = self.response.status

    def next(self) -> tuple[str, int, Any]:
        """The next event: its name, its id, its data."""
        fields: dict[str, str] = {}
        while True:
            line = self.response.readline().decode()
            if not line:
                raise EOFError
            if line == "\n":
                if "data" in fields:
                    return fields["event"], int(fields["id"]), json.loads(fields["data"])
                self.last = fields.get("id")
                fields = {}
            name, _, value = line.rstrip("\n").partition(": ")
            fields[name] = value

    def close(self) -> None:
        self.response.close()
        self.connection.close()


@pytest.fixture
def running(tmp_path: Path) -> Iterator[Callable[..., Running]]:
    """A service behind a real server; started again, it goes on with what is there."""
    servers: list[Running] = []

    def start(**settings: Any) -> Running:
        while servers:
            servers.pop().stop()
        servers.append(Running(tmp_path / "data", **settings))
        return servers[0]

    yield start
    while servers:
        servers.pop().stop()
