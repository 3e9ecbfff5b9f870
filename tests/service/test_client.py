"""The clients: every call, tried again where that is safe, and listeners that go on by themselves."""

from __future__ import annotations

import asyncio
import inspect
import json
import pickle
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pyarrow as pa
import pytest

import rankcast
from rankcast import AsyncClient, Client, InputError, ServiceError
from rankcast.client import calls, resuming
from rankcast.client.answers import Message
from rankcast.client.resuming import Attempts, EventReader

from .conftest import Running, make_stocks

Start = Callable[..., Running]
SETTINGS = {"over": "risk", "by": "pe", "k": 2}


@pytest.fixture
def server(running: Start) -> Running:
    found = running()
    make_stocks(found.http)
    return found


@pytest.fixture
def client(server: Running) -> Iterator[Client]:
    with Client(f"http://127.0.0.1:{server.port}", retry_for=5) as found:
        yield found


def test_streams(client: Client) -> None:
    assert client.is_ready()
    made = client.put_stream("offers", "RangeTopK", SETTINGS)
    assert (made.name, made.engine, made.subscriptions, made.sequence) == ("offers", "RangeTopK", 0, 0)
    assert client.put_stream("offers", "RangeTopK", SETTINGS) == made
    assert [each.name for each in client.list_streams()] == ["offers", "stocks"]
    assert client.get_stream("stocks").stats["events"] == 3
    client.end_stream("offers")
    with pytest.raises(ServiceError, match="no stream") as caught:
        client.end_stream("offers")
    assert (caught.value.status, caught.value.title) == (404, "Not Found")


def test_subscriptions_and_events(client: Client) -> None:
    eve = client.put_subscription("stocks", "e/v e", {"risk_hi": 5}, expires_in=60)
    assert (eve.id, eve.sequence, [row["item"] for row in eve.results]) == ("e/v e", 3, ["BOLT", "ACME"])
    registered = client.get_subscription("stocks", "e/v e")
    assert registered["risk_hi"] == 5
    assert registered["expires_at"] > time.time()
    assert len(client.amend_subscription("stocks", "e/v e", {"risk_hi": 3}).results) == 1
    assert client.end_subscription("stocks", "e/v e").deltas == 1
    many = client.subscribe("stocks", {"id": ["u", "v"], "risk_lo": np.array([0.0, 4.0])}, deltas=True)
    assert (many.deltas, [row["item"] for row in many.rows]) == (4, ["CORE", "BOLT", "CORE", "BOLT"])
    told = client.publish("stocks", {"id": "DELL", "risk": 4, "pe": np.float64(1.5)})
    assert (told.deltas, told.rows) == (6, None)
    assert (
        client.publish("stocks", [{"id": "DELL", "risk": 4, "pe": None}], deltas=True).rows[0]["op"]
        == "leave"
    )
    found = client.results("stocks", "ada")
    assert [row["item"] for row in found.rows] == ["BOLT", "ACME"]
    assert found.sequence == client.get_stream("stocks").sequence
    assert client.explain("stocks", "ada", "CORE")["sequence"] == found.sequence


def test_tables_go_as_arrow(client: Client) -> None:
    table = pa.table({"id": ["DELL", "EBAY"], "risk": [4.0, 5.0], "pe": [1.0, float("2")]})
    told = client.publish("stocks", table, deltas=True)
    assert isinstance(told.rows, pa.Table)
    assert (told.deltas, told.sequence) == (told.rows.num_rows, 3)
    assert client.publish("stocks", table.to_pandas()).deltas == 0
    assert calls.rendered(table)[1] == calls.ARROW


def test_moving_and_matching(client: Client) -> None:
    client.put_stream("cars", "MovingTopK", {"over": ["p"], "k": 1})
    client.upsert("cars", [{"id": 1, "x": 0.0, "y": 0.0, "p": 1.0}, {"id": 2, "x": 9.0, "y": 0.0, "p": 1.0}])
    first = client.put_subscription("cars", 7, {"x": 1.0, "y": 0.0})
    assert (first.id, first.results[0]["item"]) == (7, 1)
    assert client.zones("cars", [7])["features"][0]["id"] == 7
    assert client.zones("cars", [])["type"] == "FeatureCollection"
    assert client.remove("cars", 1).deltas == 2
    client.put_stream("ads", "RankedMatcher", {"over": ["age"], "k": 1})
    client.put_subscription("ads", 1, {"age_lo": 18, "score": 2.0})
    assert client.publish("ads", {"id": 1, "age": 30}).rows[0]["subscription"] == 1
    assert "sequence" in client.explain("ads", 1, {"age": 30})


def test_a_refusal_says_all_it_knows(client: Client) -> None:
    with pytest.raises(ServiceError, match="pe") as caught:
        client.publish("stocks", [{"id": "A", "risk": 1, "pe": 1.0}, {"id": "B", "risk": 1, "pe": "x"}])
    error = pickle.loads(pickle.dumps(caught.value))  # noqa: S301
    assert (error.status, error.column, error.row, error.title) == (400, "pe", 1, "Bad Request")
    assert error.detail is not None
    with pytest.raises(InputError, match="JSON"):
        client.publish("stocks", {"id": "A", "risk": 1, "pe": float("nan")})
    with pytest.raises(InputError, match="equally long"):
        client.publish("stocks", {"id": ["A", "B"], "risk": [1]})
    with pytest.raises(InputError, match="list of dicts"):
        client.publish("stocks", "rows")
    for strange in ("", "localhost:8765", "ftp://localhost", "http://"):
        with pytest.raises(InputError, match="url"):
            Client(strange)


def test_tokens_are_sent(running: Start) -> None:
    server = running()
    secret = server.service.tokens.add("web", ["admin"])
    url = f"http://127.0.0.1:{server.port}"
    with Client(url) as nobody, pytest.raises(ServiceError) as caught:
        nobody.list_streams()
    assert caught.value.status == 401
    with Client(url, token=secret) as somebody:
        assert somebody.list_streams() == []


# Trying again


def answering(*answers: Any) -> tuple[Client, list[httpx.Request]]:
    """A client of a service that gives these answers."""
    heard: list[httpx.Request] = []
    left = list(answers)

    def answer(request: httpx.Request) -> httpx.Response:
        heard.append(request)
        given = left.pop(0) if len(left) > 1 else left[0]
        if isinstance(given, Exception):
            raise given
        assert isinstance(given, httpx.Response)
        return given

    return Client("http://service", transport=httpx.MockTransport(answer), retry_for=3), heard


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> list[float]:
    """Pauses are noted instead of slept."""
    pauses: list[float] = []
    monkeypatch.setattr("rankcast.client.clients.time.sleep", pauses.append)
    return pauses


WRITTEN = {"sequence": 4, "deltas": 0}


def test_a_write_is_offered_again_with_its_key(quickly: list[float]) -> None:
    busy = httpx.Response(
        429, headers={"Retry-After": "2"}, json={"title": "Too Many Requests", "status": 429}
    )
    client, heard = answering(
        httpx.ConnectError("none"), httpx.ReadError("lost"), busy, httpx.Response(200, json=WRITTEN)
    )
    assert client.publish("s", {"id": 1}).sequence == 4
    assert len({request.headers["idempotency-key"] for request in heard}) == 1
    assert len({request.content for request in heard}) == 1
    assert len(heard) == 4
    assert quickly[2] >= 2
    client.publish("s", {"id": 1})
    assert heard[-1].headers["idempotency-key"] != heard[0].headers["idempotency-key"]


def test_what_would_be_refused_again_is_not(quickly: list[float]) -> None:
    for status in (301, 400, 401, 403, 404, 409, 413, 422, 500, 507):
        client, heard = answering(httpx.Response(status, text="<html>"))
        with pytest.raises(ServiceError) as caught:
            client.results("s", 1)
        assert (caught.value.status, len(heard)) == (status, 1)
    client, heard = answering(httpx.Response(200, text="<html>"))
    with pytest.raises(ServiceError, match="no JSON"):
        client.results("s", 1)


def test_trying_again_ends(monkeypatch: pytest.MonkeyPatch) -> None:
    now = [0.0]
    monkeypatch.setattr("rankcast.client.resuming.time.monotonic", lambda: now[0])
    attempts, error = Attempts(60), ServiceError("no")
    pauses = [attempts.pause(error) for _ in range(30)]
    assert 0 <= min(pauses) <= max(pauses) <= resuming.LONGEST
    assert max(pauses[:3]) < 0.5
    now[0] = 60.0
    with pytest.raises(ServiceError):
        attempts.pause(error)
    with pytest.raises(ServiceError):
        Attempts(0).pause(error)


def test_nobody_is_there() -> None:
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    with Client(f"http://127.0.0.1:{port}", retry_for=0) as client:
        with pytest.raises(ServiceError, match="cannot be reached") as caught:
            client.list_streams()
        assert caught.value.status is None
        with pytest.raises(ServiceError, match="cannot be reached"):
            next(client.listen("s"))


def test_an_end_whose_answer_got_lost_is_an_end(quickly: list[float]) -> None:
    client, _ = answering(httpx.ReadError("lost"), httpx.Response(404, json={"title": "Not Found"}))
    client.end_stream("s")
    client, _ = answering(httpx.Response(404, json={"title": "Not Found"}))
    with pytest.raises(ServiceError):
        client.end_stream("s")


def test_a_dry_run_is_read() -> None:
    told = {"rows": [], "results": [{"rank": 1}], "from": 3, "to": 9}
    client, heard = answering(httpx.Response(200, json=told))
    found = client.dryrun("s", {"risk_lo": 1})
    assert (found.results, found.first, found.last) == ([{"rank": 1}], 3, 9)
    assert json.loads(heard[0].content) == {"risk_lo": 1}


def test_a_dry_run(client: Client) -> None:
    client.publish("stocks", {"id": "DELL", "risk": 4, "pe": 1.0})
    found = client.dryrun("stocks", {"risk_lo": 4, "risk_hi": 4})
    assert [row["item"] for row in found.results] == ["DELL"]
    assert [(row["op"], row["item"]) for row in found.rows] == [("enter", "DELL")]
    assert found.first <= found.rows[0]["sequence"] == found.last == 3


# Listening


def test_events_are_read_however_they_are_cut() -> None:
    text = b': hello\r\n\r\nevent: snapshot\nid: 3\ndata: {"rows":[],\ndata: "sequence":3}\n\n'
    text += (
        b': alive\nid: 5\n\nevent: delta\r\nid: 7\r\ndata: {"rows":[{"a":1}],"sequence":7}\r\n\r\nevent: del'
    )
    expected = [Message("snapshot", [], 3), Message("delta", [{"a": 1}], 7)]
    for size in (1, 2, 3, 7, 1000):
        reader = EventReader(None)
        assert reader.headers() == {}
        found = [each for at in range(0, len(text), size) for each in reader.feed(text[at : at + size])]
        assert found == expected
        assert reader.headers() == {"Last-Event-ID": "7"}
        reader.begin()
        assert reader.feed(b'event: delta\ndata: {"rows":[],"sequence":8}\n\n') == [Message("delta", [], 8)]


def test_listening(client: Client) -> None:
    heard = client.listen("stocks", ["ada"])
    assert next(heard).event == "snapshot"
    client.publish("stocks", {"id": "DELL", "risk": 9, "pe": 1.0})
    client.publish("stocks", {"id": "EBAY", "risk": 3, "pe": 1.0})
    told = next(heard)
    assert (told.event, told.sequence, [row["item"] for row in told.rows]) == ("delta", 4, ["ACME", "EBAY"])
    heard.close()  # type: ignore[attr-defined]
    again = client.listen("stocks", "ada", after=2)
    assert next(again) == told
    paced = client.listen("stocks", ["ada"], min_interval=0.01, min_change=0.5)
    assert next(paced).event == "snapshot"
    with pytest.raises(ServiceError) as caught:
        next(client.listen("stocks", min_interval=1))
    assert caught.value.status == 422
    with pytest.raises(ServiceError) as caught:
        next(client.listen("none"))
    assert caught.value.status == 404


def test_a_stream_that_ends_ends_its_listeners(client: Client) -> None:
    heard = client.listen("stocks")
    next(heard)
    client.end_stream("stocks")
    with pytest.raises(ServiceError, match="no stream"):
        next(heard)


RUN = "import sys; from rankcast.cli import main; sys.exit(main())"
SERVE = [sys.executable, "-c", RUN, "serve", "--set", "min_free=0", "--set", "heartbeat=0.3"]


def serve(data: Path, port: int) -> subprocess.Popen[bytes]:
    quiet = subprocess.DEVNULL
    return subprocess.Popen([*SERVE, "--data", str(data), "--port", str(port)], stdout=quiet, stderr=quiet)


def test_a_listener_outlives_a_kill_and_hears_every_delta_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(resuming, "LONGEST", 0.5)
    with closing(socket.create_server(("127.0.0.1", 0))) as free:
        port = free.getsockname()[1]
    data, heard, count = tmp_path / "data", list[Message](), 40
    process = serve(data, port)
    try:
        with Client(f"http://127.0.0.1:{port}") as client:
            client.put_stream("s", "RangeTopK", {"over": "x", "by": "y", "k": 1})
            client.put_subscription("s", "all", {})
            ready = threading.Event()

            def listen() -> None:
                with Client(f"http://127.0.0.1:{port}") as own:
                    for each in own.listen("s", ["all"]):
                        heard.append(each)
                        ready.set()
                        if each.rows and each.rows[-1]["item"] == count - 1:
                            return

            listener = threading.Thread(target=listen, daemon=True)
            listener.start()
            assert ready.wait(30)
            for item in range(count):
                if item == count // 2:
                    process.kill()
                    process.wait()
                    process = serve(data, port)
                client.publish("s", {"id": item, "x": 0.0, "y": float(-item)})
            listener.join(30)
            assert not listener.is_alive()
            assert client.get_stream("s").sequence == count + 1
    finally:
        process.kill()
        process.wait()
    assert [each.event for each in heard] == ["snapshot"] + ["delta"] * count
    assert [each.sequence for each in heard] == list(range(1, count + 2))
    assert [each.rows[-1]["item"] for each in heard[1:]] == list(range(count))


# Those who await


def test_awaiting(server: Running) -> None:
    async def play() -> None:
        async with AsyncClient(f"http://127.0.0.1:{server.port}", retry_for=5) as client:
            assert await client.is_ready()
            heard = client.listen("stocks", ["ada"])
            assert (await anext(heard)).event == "snapshot"
            await client.publish("stocks", {"id": "DELL", "risk": 4, "pe": 1.0})
            assert (await anext(heard)).sequence == 3
            await heard.aclose()  # type: ignore[attr-defined]
            await client.put_stream("cars", "MovingTopK", {"over": ["p"], "k": 1})
            await client.upsert("cars", {"id": [1], "x": [0.0], "y": [0.0], "p": [1.0]})
            await client.put_subscription("cars", 1, {"x": 0.0, "y": 1.0})
            assert (await client.get_subscription("cars", 1))["id"] == 1
            await client.amend_subscription("cars", 1, {"y": 2.0})
            assert len((await client.zones("cars"))["features"]) == 1
            assert len((await client.results("cars", 1)).rows) == 1
            assert "sequence" in await client.explain("cars", 1, 1)
            assert (await client.remove("cars", 1)).deltas == 1
            await client.end_subscription("cars", 1)
            await client.subscribe("cars", [{"id": 4, "x": 0.0, "y": 1.0}])
            assert (await client.get_stream("cars")).subscriptions == 1
            await client.end_stream("cars")
            assert len(await client.list_streams()) == 1
            with pytest.raises(ServiceError):
                await anext(client.listen("cars"))

    asyncio.run(play())


def test_awaiting_tries_again() -> None:
    left: list[Any] = [httpx.ConnectError("none"), httpx.Response(503), httpx.Response(200, json=WRITTEN)]

    def answer(request: httpx.Request) -> httpx.Response:
        given = left.pop(0)
        if isinstance(given, Exception):
            raise given
        assert isinstance(given, httpx.Response)
        return given

    async def play() -> None:
        async with AsyncClient("http://service", transport=httpx.MockTransport(answer)) as client:
            assert (await client.publish("s", {"id": 1})).sequence == 4

    asyncio.run(play())
    assert not left


def test_both_clients_have_the_same_calls() -> None:
    for name, method in inspect.getmembers(Client, inspect.isfunction):
        if not name.startswith("__"):
            other = getattr(AsyncClient, name)
            assert inspect.signature(method).parameters.keys() == inspect.signature(other).parameters.keys()


def test_httpx_is_missed_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "httpx", None)
    monkeypatch.delitem(sys.modules, "rankcast.client.clients")
    with pytest.raises(rankcast.RankcastError, match=r"rankcast\[client\]"):
        _ = rankcast.Client
