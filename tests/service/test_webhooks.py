"""Webhooks: signed, in order, tried again, resumed; and never to where they must not go."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
import json
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import httpcore
import pytest
from starlette.testclient import TestClient

from rankcast import AsyncClient, Client
from rankcast.client.answers import Webhook
from rankcast.errors import InputError
from rankcast.service.operating.backup import backup
from rankcast.service.webhooks import delivery, store
from rankcast.service.webhooks.outbound import Outbound, check_url, is_public

from .conftest import Running, make_stocks

Start = Callable[..., Running]
HOOK = "/v1/streams/stocks/webhooks/shop"
QUICK = {"webhook_allow": ("127.0.0.1",), "webhook_attempts": 3, "webhook_pause": 0.01, "webhook_timeout": 5}


class Receiver:
    """A server that takes notes, and answers with the statuses it was given, then with 204."""

    def __init__(self) -> None:
        self.heard: list[tuple[dict[str, str], bytes]] = []
        self.statuses: list[int] = []
        self.location = ""
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                body = self.rfile.read(int(self.headers["content-length"]))
                receiver.heard.append(({name.lower(): value for name, value in self.headers.items()}, body))
                self.send_response(receiver.statuses.pop(0) if receiver.statuses else 204)
                self.send_header("Location", receiver.location)
                self.send_header("Content-Length", "0")
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/in?x=1"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def wait(self, count: int) -> list[tuple[dict[str, str], bytes]]:
        until(lambda: len(self.heard) >= count)
        return self.heard

    def sequences(self) -> list[int]:
        return [json.loads(body)["data"]["sequence"] for _, body in self.heard]


def until(true: Callable[[], Any]) -> None:
    end = time.monotonic() + 20
    while not true():
        assert time.monotonic() < end
        time.sleep(0.01)


@pytest.fixture
def receiver() -> Iterator[Receiver]:
    found = Receiver()
    yield found
    found.server.shutdown()
    found.server.server_close()


def publish(server: Running, score: float) -> int:
    told = server.http.post("/v1/streams/stocks/events", json={"id": "EBAY", "risk": 4, "pe": score})
    assert told.status_code == 200, told.text
    return int(told.json()["sequence"])


def started(running: Start, **settings: Any) -> Running:
    server = running(**{**QUICK, **settings})
    if not server.http.get("/v1/streams").json()["streams"]:
        make_stocks(server.http)
    return server


def test_messages_are_signed_and_in_order(running: Start, receiver: Receiver) -> None:
    server = started(running)
    made = server.http.put(HOOK, json={"url": receiver.url, "subscriptions": ["ada"]})
    assert made.status_code == 201, made.text
    secret = made.json()["secret"]
    assert secret.startswith("whsec_")
    assert made.json()["delivered"] == 2
    server.http.post("/v1/streams/stocks/events", json={"id": "DELL", "risk": 9, "pe": 1.0})  # is bob's
    numbers = [publish(server, score) for score in (3.0, 2.0, 1.0)]
    heard = receiver.wait(3)
    assert receiver.sequences() == numbers
    for headers, body in heard:
        signed = f"{headers['webhook-id']}.{headers['webhook-timestamp']}.".encode() + body
        key = base64.b64decode(secret.removeprefix("whsec_"))
        expected = base64.b64encode(hmac.new(key, signed, hashlib.sha256).digest()).decode()
        assert headers["webhook-signature"] == f"v1,{expected}"
        assert abs(int(headers["webhook-timestamp"]) - time.time()) < 60
        assert headers["host"] == receiver.url.split("/")[2]
    assert len({headers["webhook-id"] for headers, _ in heard}) == 3
    first = json.loads(heard[0][1])
    assert (first["type"], first["stream"]) == ("delta", "stocks")
    assert {row["subscription"] for row in first["data"]["rows"]} == {"ada"}
    until(lambda: server.http.get(HOOK).json()["delivered"] == numbers[-1])
    assert "secret" not in server.http.get(HOOK).json()
    ended = server.http.delete(HOOK)
    assert (ended.status_code, ended.json()["sequence"]) == (200, numbers[-1])
    assert server.http.get(HOOK).status_code == 404
    publish(server, 0.5)
    time.sleep(0.1)
    assert len(receiver.heard) == 3


def test_what_is_not_accepted_is_tried_again_and_then_dead(running: Start, receiver: Receiver) -> None:
    server = started(running)
    server.http.put(HOOK, json={"url": receiver.url})
    receiver.statuses = [500, 429, 200, 500, 302, 404]
    first, second, third = (publish(server, score) for score in (3.0, 2.0, 1.0))
    receiver.wait(7)
    assert receiver.sequences() == [first] * 3 + [second] * 3 + [third]
    assert len({headers["webhook-id"] for headers, _ in receiver.heard[:3]}) == 1
    until(lambda: server.http.get(HOOK).json()["delivered"] == third)
    [dead] = server.http.get(f"{HOOK}/dead").json()["rows"]
    assert (dead["sequence"], dead["reason"], dead["waits"]) == (second, "answered with 404", False)
    assert dead["body"]["data"]["sequence"] == second
    told = server.http.get("/metrics").text
    for name, count in (("failed_total", 5), ("delivered_total", 2), ("dead_total", 1), ("behind", 0)):
        assert f'rankcast_webhook_{name}{{stream="stocks",webhook="shop"}} {count:.1f}' in told
    receiver.statuses = [503]
    assert server.http.post(f"{HOOK}/dead/retry").json() == {"waiting": 1}
    receiver.wait(8)
    until(lambda: "503" in server.http.get(f"{HOOK}/dead").json()["rows"][0]["reason"])
    assert server.http.post(f"{HOOK}/dead/retry", params={"id": "none"}).status_code == 404
    assert server.http.post(f"{HOOK}/dead/retry", params={"id": dead["id"]}).status_code == 202
    until(lambda: server.http.get(f"{HOOK}/dead").json()["rows"] == [])
    assert receiver.heard[-1][0]["webhook-id"] == dead["id"]


def test_secrets_are_the_owners_alone(stocks: TestClient, tmp_path: Path) -> None:
    made = stocks.put(HOOK, json={"url": "https://shop.example/"}).json()
    folder = tmp_path / "data" / "streams"
    holds = [
        path
        for path in tmp_path.rglob("*")
        if path.is_file() and made["secret"].encode() in path.read_bytes()
    ]
    assert holds
    assert all(folder in path.parents for path in holds)
    assert folder.stat().st_mode & 0o077 == 0
    backup(tmp_path / "data", tmp_path / "copy.tar")
    assert (tmp_path / "copy.tar").stat().st_mode & 0o077 == 0


def test_what_concerns_nobody_is_noted_now_and_then(
    running: Start, receiver: Receiver, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(delivery, "FAR", 3)
    server = started(running)
    server.http.put(HOOK, json={"url": receiver.url, "subscriptions": ["bob"]})
    stream = server.service.streams.find("stocks")
    moved: list[int] = []
    move = stream.hooks.move

    def noted(hook: store.Webhook, cursor: int) -> None:
        moved.append(cursor)
        move(hook, cursor)

    monkeypatch.setattr(stream.hooks, "move", noted)
    numbers = [publish(server, float(-score)) for score in range(6)]  # are ada's
    until(lambda: moved)
    assert server.http.get(HOOK).json()["delivered"] >= 5
    assert len(moved) <= 2
    told = server.http.post("/v1/streams/stocks/events", json={"id": "DELL", "risk": 9, "pe": -1.0}).json()
    receiver.wait(1)
    assert receiver.sequences() == [told["sequence"]] == [numbers[-1] + 1]


def test_from_the_clients(running: Start, receiver: Receiver) -> None:
    server = started(running)
    with Client(f"http://127.0.0.1:{server.port}") as client:
        made = client.put_webhook("stocks", "shop", receiver.url, subscriptions=["ada"])
        assert made.secret is not None
        assert client.get_webhook("stocks", "shop") == Webhook("shop", receiver.url, ["ada"], 2)
        receiver.statuses = [500] * 3
        publish(server, 1.0)
        until(lambda: client.dead_letters("stocks", "shop"))
        [dead] = client.dead_letters("stocks", "shop")
        assert client.retry_dead_letters("stocks", "shop", dead["id"]) == 1
        until(lambda: not client.dead_letters("stocks", "shop"))
        other = client.put_webhook("stocks", "shop", receiver.url, secret="whsec_" + "A" * 32)
        assert other.secret == "whsec_" + "A" * 32
        client.end_webhook("stocks", "shop")

    async def play() -> None:
        async with AsyncClient(f"http://127.0.0.1:{server.port}") as client:
            assert (await client.put_webhook("stocks", "shop", receiver.url)).subscriptions is None
            assert (await client.get_webhook("stocks", "shop")).name == "shop"
            assert await client.dead_letters("stocks", "shop") == []
            assert await client.retry_dead_letters("stocks", "shop") == 0
            await client.end_webhook("stocks", "shop")

    asyncio.run(play())


def test_a_restart_goes_on_behind_what_was_delivered(running: Start, receiver: Receiver) -> None:
    server = started(running, webhook_pause=30.0)
    server.http.put(HOOK, json={"url": receiver.url, "secret": "whsec_" + "A" * 32})
    first = publish(server, 3.0)
    receiver.wait(1)
    until(lambda: server.http.get(HOOK).json()["delivered"] == first)
    receiver.statuses = [500]
    rest = [publish(server, score) for score in (2.0, 1.0)]
    receiver.wait(2)
    server = started(running)
    receiver.wait(4)
    assert receiver.sequences() == [first, rest[0], *rest]
    assert receiver.heard[1][0]["webhook-id"] == receiver.heard[2][0]["webhook-id"]


def test_what_the_log_no_longer_has_comes_as_a_snapshot(running: Start, receiver: Receiver) -> None:
    server = started(running)
    server.http.put(HOOK, json={"url": "http://127.0.0.1:1/", "subscriptions": ["ada"]})
    stream = server.service.streams.find("stocks")
    server.service.streams.find("stocks").submit(
        lambda each: each.hooks.move(each.hooks.all()[0], -1)
    ).result()
    stream.log.take_back(0)
    stream.log.take_back(2)
    assert server.http.put(HOOK, json={"url": receiver.url, "subscriptions": ["ada"]}).status_code == 200
    [(_, body), *_] = receiver.wait(1)
    told = json.loads(body)
    assert (told["type"], told["data"]["sequence"]) == ("snapshot", 2)
    assert [row["item"] for row in told["data"]["rows"]] == ["BOLT", "ACME"]


def test_a_stream_that_ends_takes_its_webhooks_along(running: Start, receiver: Receiver) -> None:
    server = started(running)
    server.http.put(HOOK, json={"url": receiver.url})
    assert server.http.delete("/v1/streams/stocks").status_code == 204
    make_stocks(server.http)
    assert server.http.get(HOOK).status_code == 404
    publish(server, 1.0)
    time.sleep(0.1)
    assert receiver.heard == []


def test_a_redirect_is_not_followed(running: Start, receiver: Receiver) -> None:
    inside = Receiver()
    server = started(running)
    receiver.location, receiver.statuses = inside.url, [302, 307, 308]
    server.http.put(HOOK, json={"url": receiver.url})
    publish(server, 1.0)
    receiver.wait(3)
    until(lambda: server.http.get(f"{HOOK}/dead").json()["rows"])
    assert inside.heard == []
    inside.server.shutdown()
    inside.server.server_close()


@pytest.mark.parametrize(
    ("asked", "word"),
    [
        ({}, "https"),
        ({"url": "http://shop.example/"}, "https"),
        ({"url": "https://10.0.0.1/"}, "public"),
        ({"url": "https://[::ffff:8.8.8.8]/"}, "public"),
        ({"url": "https://user:word@shop.example/"}, "https"),
        ({"url": "https://shop.example/\r\nX: y"}, "https"),
        ({"url": "file:///etc/passwd"}, "https"),
        ({"url": "https://shop.example:99999/"}, "https"),
        ({"url": "https://shop.example/", "secret": "whsec_c2hvcnQ="}, "secret"),
        ({"url": "https://shop.example/", "secret": 7}, "secret"),
        ({"url": "https://shop.example/", "subscriptions": []}, "ids"),
        ({"url": "https://shop.example/", "subscriptions": [1.5]}, "ids"),
        ({"url": "https://shop.example/", "colour": "red"}, "colour"),
    ],
)
def test_a_webhook_that_cannot_be_made(stocks: TestClient, asked: dict[str, Any], word: str) -> None:
    refused = stocks.put(HOOK, json=asked)
    assert refused.status_code == 400, refused.text
    assert word in refused.text
    assert stocks.get(HOOK).status_code == 404


def test_limits_and_names(opened: Callable[..., TestClient]) -> None:
    client = opened(max_webhooks=1)
    make_stocks(client)
    asked = {"url": "https://shop.example/"}
    assert client.put("/v1/streams/stocks/webhooks/a b", json=asked).status_code == 400
    assert client.put(HOOK, json=asked).status_code == 201
    assert "secret" not in client.put(HOOK, json=asked).json()
    assert client.put(f"{HOOK}2", json=asked).status_code == 409
    for method, path in (("GET", "/dead"), ("POST", "/dead/retry"), ("DELETE", "")):
        assert client.request(method, f"{HOOK}2{path}").status_code == 404


ADDRESSES = {
    True: ["8.8.8.8", "93.184.216.34", "2606:2800:220:1:248:1893:25c8:1946"],
    False: [
        *("127.0.0.1", "127.9.9.9", "10.1.2.3", "172.16.0.1", "192.168.1.1", "169.254.169.254"),
        *("100.64.0.1", "192.0.2.1", "224.0.0.1", "239.1.1.1", "240.0.0.1", "255.255.255.255"),
        *("0.0.0.1", "::", "::1", "fe80::1", "fe80::1%eth0", "fc00::1", "fd12::1", "ff02::1", "fec0::1"),
        *("::ffff:8.8.8.8", "::ffff:127.0.0.1", "64:ff9b::7f00:1", "2002:7f00:1::", "2001:0:1::1"),
        *("2001:db8::1", "name", ""),
    ],
}


@pytest.mark.parametrize(
    ("public", "text"), [(key, each) for key, texts in ADDRESSES.items() for each in texts]
)
def test_addresses(public: bool, text: str) -> None:
    assert is_public(text) is public


def test_urls() -> None:
    assert check_url("https://Shop.example:8443/in?x=1", ()) == "https://Shop.example:8443/in?x=1"
    assert check_url("http://LOCALHOST:1/", ("localhost",))
    for url in (
        "https://127.0.0.1/",
        "https://[::1]/",
        "https://",
        "https:///x",
        "//x",
        7,
        "https://é.example/",
    ):
        with pytest.raises(InputError, match="url"):
            check_url(url, ())


class Noted(httpcore.AsyncNetworkBackend):
    """Notes where it should connect to, and does not."""

    def __init__(self) -> None:
        self.to: list[str] = []

    async def connect_tcp(self, host: str, *_: Any, **__: Any) -> httpcore.AsyncNetworkStream:
        self.to.append(host)
        raise httpcore.ConnectError("noted")


def test_a_name_that_changes_its_answer() -> None:
    """The address that was checked is the one that is connected to; every attempt checks anew."""
    answers = [["93.184.216.34"], ["127.0.0.1"], ["8.8.8.8", "10.0.0.1"], ["::ffff:10.0.0.1"], []]
    asked: list[str] = []

    async def look_up(host: str, port: int) -> list[str]:
        asked.append(host)
        return answers[len(asked) - 1]

    async def play() -> list[str | None]:
        noted = Noted()
        outbound = Outbound((), 5, look_up=look_up, inner=noted)
        found = [await outbound.post("https://shop.example/", b"", {}) for _ in answers]
        await outbound.close()
        assert noted.to == ["93.184.216.34"]
        return found

    first, *others = asyncio.run(play())
    assert asked == ["shop.example"] * 5
    assert first is not None
    assert "noted" in first
    assert all(each is not None and "RefusedAddressError" in each for each in others)


def test_a_name_that_points_inside_is_never_called(running: Start, receiver: Receiver) -> None:
    server = started(running)
    port = receiver.server.server_port

    async def look_up(host: str, port: int) -> list[str]:
        return ["127.0.0.1"]

    server.service.deliveries.outbound = Outbound((), 5, look_up=look_up)
    server.http.put(HOOK, json={"url": f"https://shop.example:{port}/"})
    publish(server, 1.0)
    until(lambda: server.http.get(f"{HOOK}/dead").json()["rows"])
    [dead] = server.http.get(f"{HOOK}/dead").json()["rows"]
    assert "127.0.0.1, which is no public address" in dead["reason"]
    assert receiver.heard == []


@pytest.mark.parametrize("body", [b"x" * 4096, b""])
def test_an_answer_without_end_is_given_up(body: bytes) -> None:
    listening = socket.create_server(("127.0.0.1", 0))

    def serve() -> None:
        connection, _ = listening.accept()
        with connection, suppress(OSError):
            connection.recv(4096)
            while body:
                connection.sendall(b"HTTP/1.1 200 OK\r\nContent-Length: 99999999\r\n\r\n" + body)
            while connection.recv(4096):
                pass

    thread = threading.Thread(target=serve, daemon=True)
    thread.start()

    async def play() -> str | None:
        outbound = Outbound(("127.0.0.1",), 0.3)
        try:
            return await outbound.post(f"http://127.0.0.1:{listening.getsockname()[1]}/", b"{}", {})
        finally:
            await outbound.close()

    assert asyncio.run(play()) == (None if body else "no answer within 0.3 seconds")
    thread.join(10)
    assert not thread.is_alive()
    listening.close()
