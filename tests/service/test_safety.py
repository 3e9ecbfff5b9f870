"""Who may do what, how much of it, and what is never told."""

from __future__ import annotations

import gzip
import json
import socket
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow as pa
import pytest
from starlette.testclient import TestClient
from websockets.exceptions import InvalidStatus

from rankcast import cli
from rankcast.errors import SettingError
from rankcast.service.operating.tokens import FILE, Tokens
from rankcast.service.problems import Problem
from rankcast.service.requests import arrow_streams
from rankcast.service.settings import Settings, read

from .conftest import Opened, Running, make_stocks

STREAM = "/v1/streams/stocks"
EVENT = {"id": "X", "risk": 1, "pe": 1}
ARROW = "application/vnd.apache.arrow.stream"


def bearer(token: str) -> dict[str, str]:
    return {"Authorization": f"Bearer {token}"}


@pytest.fixture
def tokens(tmp_path: Path, opened: Opened) -> tuple[TestClient, dict[str, str]]:
    """A service with a stream, and a token for everything."""
    client = opened()
    make_stocks(client)
    known = Tokens(tmp_path / "data")
    made = {scope: known.add(scope, [scope]) for scope in ("admin", "read", "publish", "subscribe")}
    made["other"] = known.add("other", ["read", "publish", "subscribe"], ["news"])
    made["mine"] = known.add("mine", ["read"], ["stocks"])
    return client, made


CALLS = [
    ("GET", "/v1/streams", "read"),
    ("GET", STREAM, "read"),
    ("PUT", "/v1/streams/new", "admin"),
    ("POST", f"{STREAM}/events", "publish"),
    ("PUT", f"{STREAM}/subscriptions/x", "subscribe"),
    ("PATCH", f"{STREAM}/subscriptions/ada", "subscribe"),
    ("POST", f"{STREAM}/subscriptions", "subscribe"),
    ("GET", f"{STREAM}/subscriptions/ada", "read"),
    ("GET", f"{STREAM}/subscriptions/ada/results", "read"),
    ("GET", f"{STREAM}/subscriptions/ada/explain?item=CORE", "read"),
    ("DELETE", f"{STREAM}/subscriptions/ada", "subscribe"),
    ("GET", "/metrics", "read"),
    ("DELETE", STREAM, "admin"),
]


@pytest.mark.parametrize(("method", "path", "scope"), CALLS)
def test_a_call_needs_its_scope(
    tokens: tuple[TestClient, dict[str, str]], method: str, path: str, scope: str
) -> None:
    client, made = tokens
    body = {"engine": "RangeTopK"} if path.endswith("new") else EVENT if "events" in path else {}
    if path.endswith("/subscriptions"):
        body = {"id": "y"}
    for name, token in made.items():
        if name in ("admin", scope):
            continue
        told = client.request(method, path, json=body, headers=bearer(token))
        allowed = path == "/v1/streams" and name in ("other", "mine")
        allowed |= name == "mine" and scope == "read" and path.startswith(STREAM)
        assert told.status_code == (200 if allowed else 403), (name, told.text)
    for headers in ({}, bearer("x"), bearer(made["read"] + "x"), {"Authorization": "Basic eDp5"}):
        told = client.request(method, path, json=body, headers=headers)
        assert (told.status_code, told.headers["www-authenticate"]) == (401, 'Bearer realm="rankcast"')
    assert client.request(method, path, json=body, headers=bearer(made[scope])).status_code < 300


def test_a_token_sees_its_own_streams(tokens: tuple[TestClient, dict[str, str]]) -> None:
    client, made = tokens
    assert client.get("/v1/streams", headers=bearer(made["other"])).json() == {"streams": []}
    assert len(client.get("/v1/streams", headers=bearer(made["mine"])).json()["streams"]) == 1


def test_a_socket_needs_a_token_too(tmp_path: Path, running: Callable[..., Running]) -> None:
    server = running()
    make_stocks(server.http)
    known = Tokens(tmp_path / "data")
    mine, other = known.add("mine", ["read"], ["stocks"]), known.add("other", ["read"], ["news"])
    for headers in ({}, bearer(other), bearer(known.add("p", ["publish"]))):
        with pytest.raises(InvalidStatus):
            server.socket_to(f"{STREAM}/ws", **headers)
    with server.socket_to(f"{STREAM}/ws", **bearer(mine)) as socket:
        assert json.loads(socket.recv(timeout=20))["event"] == "snapshot"


def test_keys_of_different_callers_are_different(tokens: tuple[TestClient, dict[str, str]]) -> None:
    client, made = tokens
    numbers = [
        client.post(
            f"{STREAM}/events", json=EVENT, headers={**bearer(made[name]), "Idempotency-Key": "k"}
        ).json()["sequence"]
        for name in ("publish", "admin", "publish")
    ]
    assert numbers == [3, 4, 3]


def test_tokens_end_and_are_revoked_at_once(tmp_path: Path, opened: Opened) -> None:
    client = opened()
    known = Tokens(tmp_path / "data")
    known.add("admin", ["admin"])
    short, long = known.add("short", ["read"], expires_in=1e-3), known.add("long", ["read"], expires_in=60)
    assert client.get("/v1/streams", headers=bearer(short)).status_code == 401
    assert client.get("/v1/streams", headers=bearer(long)).status_code == 200
    known.revoke("long")
    assert client.get("/v1/streams", headers=bearer(long)).status_code == 401
    text = (tmp_path / "data" / FILE).read_text()
    assert short.rpartition("_")[2] not in text
    assert (tmp_path / "data" / FILE).stat().st_mode & 0o077 == 0


def test_without_a_token_only_this_machine_is_served(tmp_path: Path, opened: Opened) -> None:
    client = opened()
    for headers in ({"host": "evil.example"}, {"origin": "https://evil.example"}):
        assert client.get("/v1/streams", headers=headers).status_code == 403
    assert client.get("/v1/streams", headers={"host": "localhost:8765"}).status_code == 200
    assert Tokens(tmp_path, public=False).admit(None).scopes
    with pytest.raises(Problem, match="token"):
        Tokens(tmp_path, public=True).admit(None)


def test_the_command_makes_lists_and_revokes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    data = str(tmp_path / "data")
    add = ["token", "add", "web", "--data", data, "--scope", "read", "--scope", "publish", "--stream", "s"]
    assert cli.main(add) == 0
    made = capsys.readouterr().out.strip()
    token = Tokens(tmp_path / "data").admit(f"Bearer {made}")
    assert (token.name, token.scopes, token.streams) == ("web", ("read", "publish"), ("s",))
    assert cli.main(add) == 2
    assert cli.main(["token", "list", "--data", data]) == 0
    assert capsys.readouterr().out == "web: read, publish; s\n"
    assert cli.main(["token", "revoke", "web", "--data", data]) == 0
    assert cli.main(["token", "revoke", "web", "--data", data]) == 2
    assert cli.main(["token", "add", "w", "--data", data, "--scope", "root"]) == 2
    assert cli.main(["token", "add", "../w", "--data", data, "--scope", "read"]) == 2
    assert cli.main(["token", "add", "w", "--data", data, "--scope", "read", "--stream", "../x"]) == 2


def test_settings_come_from_file_environment_and_flags(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "serve.toml"
    file.write_text("port = 1\nmax_rows = 10\nqueue = 5\n")
    monkeypatch.setenv("RANKCAST_SERVE_PORT", "2")
    monkeypatch.setenv("RANKCAST_SERVE_MAX_ROWS", "20")
    settings = read(file, {"port": 3})
    assert (settings.port, settings.max_rows, settings.queue) == (3, 20, 5)
    assert Settings().queue == 4096
    for flags in ({"port": -1}, {"no_such": 1}, {"rate": "fast"}):
        with pytest.raises(SettingError):
            read(None, flags)
    file.write_text("prot = 1\n")
    with pytest.raises(SettingError, match="port"):
        read(file, {})
    file.write_text("port = 1\n")
    data = str(tmp_path / "data")
    assert cli.main(["serve", "--check", "--config", str(file), "--set", "max_rosw=5"]) == 2
    told = capsys.readouterr().err
    assert '"--set": unknown setting "max_rosw"' in told
    assert str(file) not in told
    assert cli.main(["serve", "--check", "--data", data, "--set", "rate=5"]) == 0
    assert json.loads(capsys.readouterr().out)["rate"] == 5
    assert cli.main(["serve", "--check", "--data", data, "--host", "0.0.0.0"]) == 2  # noqa: S104
    assert "token" in capsys.readouterr().err


# Limits


def test_bodies_are_bounded(opened: Opened) -> None:
    client = opened(max_body=2000, max_rows=3)
    make_stocks(client)
    path, media = f"{STREAM}/events", {"content-type": "application/json"}
    large = json.dumps({"rows": [EVENT] * 200}).encode()
    assert client.post(path, content=large, headers=media).status_code == 413

    def chunks() -> Iterator[bytes]:
        yield from (large[start : start + 100] for start in range(0, len(large), 100))

    assert client.post(path, content=chunks(), headers=media).status_code == 413
    packed = {**media, "content-encoding": "gzip"}
    assert client.post(path, content=gzip.compress(large), headers=packed).status_code == 413
    assert client.post(path, content=gzip.compress(b" " * 10**8), headers=packed).status_code == 413
    small = json.dumps(EVENT).encode()
    assert client.post(path, content=gzip.compress(small), headers=packed).status_code == 200
    deflated = {**media, "content-encoding": "deflate"}
    assert client.post(path, content=zlib.compress(small), headers=deflated).status_code == 200
    assert client.post(path, content=gzip.compress(small)[:-9], headers=packed).status_code == 400
    assert client.post(path, content=small, headers=packed).status_code == 400
    twice = gzip.compress(small) + gzip.compress(small)
    assert client.post(path, content=twice, headers=packed).status_code == 400
    assert client.post(path, content=gzip.compress(small) + b"more", headers=packed).status_code == 400
    assert client.post(path, content=small, headers={**media, "content-encoding": "br"}).status_code == 415
    assert client.post(path, json={"rows": [EVENT] * 4}).status_code == 413
    lines = json.dumps(EVENT).encode() + b"\n"
    told = client.post(path, content=lines * 4, headers={"content-type": "application/x-ndjson"})
    assert told.status_code == 413


def arrow(table: pa.Table, compression: str | None = None) -> bytes:
    sink = pa.BufferOutputStream()
    options = pa.ipc.IpcWriteOptions(compression=compression)
    with pa.ipc.new_stream(sink, table.schema, options=options) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def test_arrow_is_bounded_before_it_is_unpacked(stocks: TestClient) -> None:
    path, media = f"{STREAM}/events", {"content-type": ARROW}
    zeros = pa.table({"id": pa.array(range(200_000)), "risk": [0.0] * 200_000, "pe": [0.0] * 200_000})
    for compression in ("lz4", "zstd", None):
        data = arrow(zeros, compression)
        arrow_streams.check(data, 10**7)
        with pytest.raises(Problem) as refused:
            arrow_streams.check(data, 10**6)
        assert refused.value.status == 413
    bomb = bytearray(arrow(zeros, "zstd"))
    size = (200_000 * 8).to_bytes(8, "little")
    assert bomb.count(size) >= 3
    lying = bytes(bomb).replace(size, (1 << 45).to_bytes(8, "little"))
    assert stocks.post(path, content=lying, headers=media).status_code == 413
    negative = bytes(bomb).replace(size, (-5).to_bytes(8, "little", signed=True))
    assert stocks.post(path, content=negative, headers=media).status_code == 400
    strings = pa.table({"id": pa.array(["a", "b"]), "risk": [1, 2], "pe": [1.0, 2.0]})
    assert stocks.post(path, content=arrow(strings, "lz4"), headers=media).status_code == 200
    dictionary = pa.table({"id": pa.array(["a", "b"]).dictionary_encode(), "risk": [1, 2], "pe": [1.0, 2.0]})
    assert stocks.post(path, content=arrow(dictionary, "zstd"), headers=media).status_code == 200


def test_damaged_arrow_is_refused(stocks: TestClient) -> None:
    path, media = f"{STREAM}/events", {"content-type": ARROW}
    good = arrow(pa.table({"id": ["a", "bc"], "risk": [1, 2], "pe": [1.0, 2.0]}))
    before = stocks.get(STREAM).json()["sequence"]
    for place in range(0, len(good), 3):
        for value in (0, 127, 255):
            bad = good[:place] + bytes([value]) + good[place + 1 :]
            assert stocks.post(path, content=bad, headers=media).status_code in (200, 400, 413)
    for size in range(0, len(good) - 16, 7):
        assert stocks.post(path, content=good[:size], headers=media).status_code == 400
    assert stocks.get(STREAM).json()["sequence"] >= before


def test_numbers_are_bounded(opened: Opened) -> None:
    client = opened(max_k=5, max_subscriptions=3, max_streams=2, max_terms=3, max_watched=2)
    make_stocks(client)
    refused = client.put(f"{STREAM}/subscriptions/x", json={"k": 6})
    assert (refused.status_code, refused.json()["column"]) == (400, "k")
    assert client.put(f"{STREAM}/subscriptions/x", json={"k": 5}).status_code == 201
    assert client.patch(f"{STREAM}/subscriptions/x", json={"k": 9}).status_code == 400
    assert client.put(f"{STREAM}/subscriptions/x", json={"k": 9}).status_code == 400
    assert client.put(f"{STREAM}/subscriptions/y", json={}).status_code == 409
    assert client.post(f"{STREAM}/subscriptions", json={"id": "y"}).status_code == 409
    assert (
        client.put("/v1/streams/n", json={"engine": "GeoTextTopK", "settings": {"k": 6}}).status_code == 400
    )
    news = {"engine": "GeoTextTopK", "settings": {"bounds": [0, 0, 1, 1], "k": 5}}
    assert client.put("/v1/streams/n", json=news).status_code == 201
    message = {"id": 1, "x": 0, "y": 0, "terms": ["a", "b", "c", "d"]}
    refused = client.post("/v1/streams/n/events", json=message)
    assert (refused.status_code, refused.json()["column"]) == (400, "terms")
    assert client.put("/v1/streams/third", json={"engine": "RangeTopK"}).status_code == 409
    asked = "&".join(f"subscription={x}" for x in "abc")
    assert client.get(f"{STREAM}/deltas?{asked}").status_code == 413


def test_rates_are_kept(opened: Opened) -> None:
    client = opened(rate=0.5, burst=3)
    told = [client.get("/v1/streams") for _ in range(5)]
    assert [each.status_code for each in told] == [200, 200, 200, 429, 429]
    assert int(told[-1].headers["retry-after"]) >= 1
    assert client.get("/healthz").status_code == 200


def test_nothing_of_the_inside_is_told(
    stocks: TestClient, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    from rankcast.service.streams import writing

    def broken(*_: object, **__: object) -> None:
        raise RuntimeError("a secret")

    monkeypatch.setattr(writing, "prepared", broken)
    told = stocks.post(f"{STREAM}/events", json=EVENT)
    assert (told.status_code, told.headers["content-type"]) == (500, "application/problem+json")
    assert "secret" not in told.text
    assert "Traceback" not in told.text
    monkeypatch.undo()
    assert stocks.post(f"{STREAM}/events", json=EVENT).json()["sequence"] == 3
    caplog.clear()


def test_headers_cannot_be_injected(stocks: TestClient) -> None:
    told = stocks.get(f"{STREAM}/subscriptions/a%0d%0aSet-Cookie:x")
    assert told.status_code == 404
    assert "set-cookie" not in told.headers
    assert "\r" not in told.json()["detail"]
    for name in ("X-Request-Id", "Idempotency-Key"):
        told = stocks.post(f"{STREAM}/events", json=EVENT, headers={name: "a\r\nSet-Cookie: x"})
        assert "set-cookie" not in told.headers
        assert told.headers["X-Request-Id"].isprintable()
    assert stocks.get(f"{STREAM}/subscriptions/%ff").status_code == 400
    assert stocks.get(f"{STREAM}/subscriptions/a%00b").status_code == 400
    assert stocks.get(f"{STREAM}/subscriptions/{'a' * 2000}").status_code == 400


@pytest.mark.parametrize("depth", [50, 1000, 1100, 100_000])
def test_what_is_nested_deeply_is_refused(stocks: TestClient, depth: int) -> None:
    media = {"content-type": "application/json"}
    nested, objects = b"[" * depth + b"]" * depth, b'{"a":' * depth + b"1" + b"}" * depth
    for deep in (nested, objects):
        for method, path, body in (
            ("POST", f"{STREAM}/events", b'{"id": "A", "risk": 1, "pe": %b}' % deep),
            ("POST", f"{STREAM}/subscriptions", b'{"rows": [{"id": %b}]}' % deep),
            ("PUT", f"{STREAM}/subscriptions/new", b'{"risk_lo": %b}' % deep),
            ("POST", f"{STREAM}/dryrun", b'{"risk_lo": %b}' % deep),
            ("PUT", "/v1/streams/other", b'{"engine": "RangeTopK", "settings": {"k": %b}}' % deep),
            ("PUT", "/v1/streams/other", b'{"engine": %b}' % deep),
            ("PUT", f"{STREAM}/webhooks/w", b'{"url": "https://a.example/", "subscriptions": %b}' % deep),
        ):
            refused = stocks.request(method, path, content=body, headers=media)
            assert refused.status_code in (400, 422), (path, refused.text[:200])
            assert len(refused.content) < 2000
    assert stocks.get(STREAM).json()["sequence"] == 2


def test_ids_are_no_longer_than_a_path_can_name(stocks: TestClient) -> None:
    before = stocks.get(STREAM).json()["sequence"]
    for rows in ({**EVENT, "id": "a" * 1025}, [EVENT, {**EVENT, "id": "\u00e4" * 1025}]):
        refused = stocks.post(f"{STREAM}/events", json=rows)
        assert (refused.status_code, refused.json()["column"]) == (400, "id")
    assert stocks.post(f"{STREAM}/subscriptions", json={"id": "a" * 1025}).status_code == 400
    assert stocks.get(STREAM).json()["sequence"] == before
    assert stocks.post(f"{STREAM}/events", json={**EVENT, "id": "\u00e4" * 1024}).status_code == 200


def test_a_path_with_a_slash_too_many_leads_nowhere(stocks: TestClient) -> None:
    for path in (f"{STREAM}/", f"{STREAM}/subscriptions/", "//v1/streams"):
        assert stocks.put(path, json={}, follow_redirects=False).status_code == 404


@pytest.mark.parametrize("line", [b"a: b\r\n", b"a"])
def test_what_comes_before_a_body_is_bounded(line: bytes, running: Callable[..., Running]) -> None:
    """Many headers, and one without an end; a body of any length behind them is none of it."""
    port = running().port
    with socket.create_connection(("127.0.0.1", port), timeout=30) as wire:
        wire.sendall(b"GET /v1/streams HTTP/1.1\r\nHost: 127.0.0.1\r\n")
        answer = b""
        with suppress(ConnectionError):
            for _ in range(1000):
                wire.sendall(line * (4096 // len(line)))
                time.sleep(0.001)
        with suppress(ConnectionError):
            answer = wire.recv(100)
        assert answer.startswith((b"HTTP/1.1 431", b"HTTP/1.1 400")) or not answer
    body = b'{"engine": "RangeTopK"' + b" " * 300_000 + b"}"
    head = b"PUT /v1/streams/s HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    with socket.create_connection(("127.0.0.1", port), timeout=60) as wire:
        for status in (b"201", b"200"):
            wire.sendall(head + b"Content-Length: %d\r\n\r\n" % len(body) + body)
            assert wire.recv(65536).startswith(b"HTTP/1.1 " + status)
