"""The console: its files, and what it is made from: pages of subscriptions, writes, objects, sparse tiles."""

from __future__ import annotations

import hashlib
import re
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rankcast.service.requests import pages

from .conftest import Running, make_stocks
from .test_telling import publish
from .test_tiles import STREAM, Start, hear, reached

SOURCES = Path(__file__).parents[2] / "console"


def test_the_console_needs_nothing_from_elsewhere_and_runs_nothing_inline(client: TestClient) -> None:
    home = client.get("/")
    assert (home.status_code, home.headers["content-type"]) == (200, "text/html; charset=utf-8")
    policy = home.headers["content-security-policy"]
    assert "unsafe" not in policy
    assert "default-src 'none'" in policy
    assert "<style" not in home.text
    assert not re.search(r"<script(?![^>]* src=)", home.text)
    links = re.findall(r'(?:src|href)="([^"]*)"', home.text)
    assert links
    assert all(link.startswith("/console/") for link in links)
    for link in links:
        assert client.get(link).status_code == 200


@pytest.mark.parametrize("name", ["../pages.py", "%2e%2e%2fpages.py", "no-such.js", "__init__.py", "a%00b"])
def test_only_files_of_the_console_are_served(client: TestClient, name: str) -> None:
    assert client.get(f"/console/{name}").status_code in (400, 404)


def test_the_console_was_built_from_the_sources_that_are_here() -> None:
    found = hashlib.sha256()
    for folder in ("src", "tools"):
        for path in sorted((SOURCES / folder).rglob("*")):
            if path.is_file():
                found.update(f"{path.relative_to(SOURCES).as_posix()}\n".encode() + path.read_bytes())
    for name in ("index.html", "package-lock.json", "package.json", "tsconfig.json", "vite.config.ts"):
        found.update(f"{name}\n".encode() + (SOURCES / name).read_bytes())
    assert (pages.HOME / "built-from.txt").read_text().strip() == found.hexdigest(), "run: make console"


def test_the_console_is_small_and_names_its_licences() -> None:
    import gzip

    files = {path.name: path.read_bytes() for path in pages.HOME.iterdir()}
    assert sum(len(gzip.compress(data)) for name, data in files.items() if name != "land.json") < 300_000
    assert len(files["rankcast-zone.js"]) < 10_000
    assert b"class Follower" in files["rankcast-zone.d.ts"]
    for name in ("preact", "uplot", "world-atlas"):
        assert name.encode() in files["licences.txt"]


def test_subscriptions_come_in_pages(stocks: TestClient) -> None:
    more = [{"id": f"user {place}", "risk_lo": place} for place in range(5)]
    assert stocks.post(f"{STREAM}/subscriptions", json={"rows": more}).status_code == 201
    first = stocks.get(f"{STREAM}/subscriptions", params={"limit": 3}).json()
    assert [row["id"] for row in first["rows"]] == ["ada", "bob", "user 0"]
    assert first["rows"][0]["risk_hi"] == 6
    assert first["next"] == "user 0"
    rest = stocks.get(f"{STREAM}/subscriptions", params={"after": first["next"]}).json()
    assert [row["id"] for row in rest["rows"]] == [f"user {place}" for place in range(1, 5)]
    assert (rest["next"], rest["sequence"]) == (None, 3)
    found = stocks.get(f"{STREAM}/subscriptions", params={"prefix": "us", "after": "user 2"}).json()
    assert [row["id"] for row in found["rows"]] == ["user 3", "user 4"]
    assert stocks.get(f"{STREAM}/subscriptions", params={"prefix": "%"}).json()["rows"] == []


def test_integers_are_found_by_their_id(client: TestClient) -> None:
    client.put("/v1/streams/s", json={"engine": "RangeTopK", "settings": {}})
    client.post("/v1/streams/s/subscriptions", json={"rows": [{"id": 12}, {"id": 7}, {"id": -3}]})
    rows = client.get("/v1/streams/s/subscriptions").json()["rows"]
    assert [row["id"] for row in rows] == [-3, 7, 12]
    assert [row["id"] for row in client.get("/v1/streams/s/subscriptions?prefix=7").json()["rows"]] == [7]
    assert [row["id"] for row in client.get("/v1/streams/s/subscriptions?after=7").json()["rows"]] == [12]
    assert client.get("/v1/streams/s/subscriptions?prefix=x").status_code == 400


@pytest.mark.parametrize("query", ["limit=0", "limit=x", "limit=1001", "limit=1&limit=2", "forwarded=maybe"])
def test_a_wrong_page_is_refused(stocks: TestClient, query: str) -> None:
    assert stocks.get(f"{STREAM}/subscriptions?{query}").status_code == 422


def test_a_router_tells_which_boxes_it_forwards(client: TestClient) -> None:
    client.put("/v1/streams/r", json={"engine": "CoveringTable", "settings": {"over": ["a"]}})
    rows = [{"id": "wide", "a_lo": 0, "a_hi": 9}, {"id": "narrow", "a_lo": 2, "a_hi": 3}]
    client.post("/v1/streams/r/subscriptions", json={"rows": rows})
    found = client.get("/v1/streams/r/subscriptions?forwarded=true").json()["rows"]
    assert {row["id"]: row["forwarded"] for row in found} == {"wide": True, "narrow": False}


def test_a_stream_tells_its_columns_and_its_load(stocks: TestClient) -> None:
    told = stocks.get(STREAM).json()
    assert [column["name"] for column in told["inputs"]["publish"]][:3] == ["id", "risk", "pe"]
    assert {"risk_lo", "risk_hi", "k"} <= {column["name"] for column in told["inputs"]["subscribe"]}
    assert told["configuration"]["order"] == "asc"
    assert (told["load"]["written"], told["load"]["queue"]) == (2, 0)
    assert 0 < told["load"]["p50"] <= told["load"]["p99"]


def test_objects_are_told(client: TestClient) -> None:
    client.put("/v1/streams/m", json={"engine": "MovingTopK", "settings": {"over": ["p"]}})
    rows = [{"id": place, "x": 1.0, "y": float(place), "p": 2.0} for place in range(3)]
    client.post("/v1/streams/m/objects", json={"rows": rows})
    assert client.get("/v1/streams/m/objects").json()["rows"] == rows
    assert len(client.get("/v1/streams/m/objects?limit=2").json()["rows"]) == 2
    client.put("/v1/streams/r", json={"engine": "CoveringTable", "settings": {"over": ["a"]}})
    assert client.get("/v1/streams/r/objects").status_code == 404


def test_writes_are_told_from_the_last_ones_on(running: Start) -> None:
    server: Running = running()
    make_stocks(server.http)
    listener = server.listen(f"{STREAM}/writes?last=1")
    event, name, data = hear(listener)
    assert (event, name, data["call"], data["count"], data["sequence"]) == ("write", "2", "subscribe", 2, 2)
    assert [row["id"] for row in data["rows"]] == ["ada", "bob"]
    publish(server, "DELL", 1.0, risk=4)
    event, name, data = hear(listener)
    assert (event, name, data["rows"]) == ("write", "3", [{"id": "DELL", "risk": 4, "pe": 1.0}])
    assert data["deltas"] == 2
    listener.close()


@pytest.mark.parametrize(("method", "word"), [("dense", "sides="), ("sparse", "lists=True")])
def test_boxes_without_tiles_are_told_what_they_lack(client: TestClient, method: str, word: str) -> None:
    client.put("/v1/streams/b", json={"engine": "RangeTopK", "settings": {"over": ["a", "b"]}})
    refused = client.get(f"/v1/streams/b/tiles?method={method}")
    assert (refused.status_code, refused.headers["content-type"]) == (400, "application/problem+json")
    assert word in refused.json()["detail"]


@pytest.mark.service
def test_boxes_bounded_on_one_side_have_tiles(running: Start) -> None:
    server: Running = running()
    server.http.timeout = 300  # kernels of boxes may have to be compiled
    settings = {"over": ["a", "b"], "by": "y", "k": 1, "sides": "lower"}
    assert server.http.put(STREAM, json={"engine": "RangeTopK", "settings": settings}).status_code == 201
    mine = {"id": "s", "a_lo": 0, "a_hi": 5, "b_lo": 1}
    server.http.post(f"{STREAM}/subscriptions", json={"rows": [mine]})
    server.http.post(f"{STREAM}/tiles/lists", json={"rows": [mine]})  # begins the feed
    listener = server.listen(f"{STREAM}/tiles")
    assert hear(listener)[0] == "gap"
    for name, b in (("below", 0.5), ("above", 2.0)):
        server.http.post(f"{STREAM}/events", json={"id": name, "a": 2, "b": b, "y": 1.0 + b})
    heard: list[dict[str, Any]] = []
    while not any(tile["item"] == "above" for tile in heard):
        heard += hear(listener)[2]["rows"]

    def reaches(tile: dict[str, Any], lo: float, hi: float, least: float) -> bool:
        def below(one: float | None, other: float) -> bool:
            return one is None or one < other

        return (
            below(tile["a_lo_outer"], lo)
            and lo <= tile["a_lo_inner"]
            and tile["a_hi_inner"] <= hi
            and (tile["a_hi_outer"] is None or hi < tile["a_hi_outer"])
            and below(tile["b_lo_outer"], least)
            and (tile["b_lo_inner"] is None or least <= tile["b_lo_inner"])
        )

    assert {tile["item"] for tile in heard if reaches(tile, 0, 5, 1)} == {"above"}
    assert {tile["item"] for tile in heard if reaches(tile, 0, 5, 0)} >= {"below"}
    listener.close()


def test_sparse_tiles_reach_whom_it_concerns_and_nobody_in_vain(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    listener = server.listen(f"{STREAM}/tiles?method=sparse")
    assert hear(listener)[0] == "gap"
    publish(server, "FARR", 1.0, risk=1)  # in nobody's range: no message
    publish(server, "DELL", 1.0, risk=4)
    _, _, data = hear(listener)
    assert data["sequence"] == 4
    assert any(reached(tile, 2, 6) for tile in data["rows"])
    assert not any(reached(tile, 6, float("inf")) for tile in data["rows"])
    server.http.put(f"{STREAM}/subscriptions/cyd", json={"risk_lo": 0, "risk_hi": 2})
    publish(server, "GNUS", 1.0, risk=1)
    _, _, data = hear(listener)
    assert any(reached(tile, 0, 2) for tile in data["rows"])
    listener.close()
    assert server.http.get(f"{STREAM}/tiles?method=unicast").status_code == 422
