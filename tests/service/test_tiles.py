"""Tiles for gateways: told with their sequence, resumed or told as a gap; gateways keep everybody's list."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from starlette.testclient import TestClient

from rankcast import Client, Gateway, InputError, RangeTopK
from rankcast.client import resuming
from rankcast.client.answers import Message
from rankcast.gateway import digest_of
from rankcast.range_topk.dissemination.tiler import RangeTiler
from rankcast.service.telling import tiles

from .conftest import Listener, Running, make_stocks
from .processes import Process
from .test_telling import publish

STREAM = "/v1/streams/stocks"
Start = Callable[..., Running]


def hear(listener: Listener) -> tuple[str, str, Any]:
    """The next event: its name, its id, its data."""
    fields: dict[str, str] = {}
    while True:
        line = listener.response.readline().decode()
        assert line, "the connection ended"
        if line == "\n" and "data" in fields:
            return fields["event"], fields["id"], json.loads(fields["data"])
        name, _, value = line.rstrip("\n").partition(": ")
        fields[name] = value


def reached(tile: dict[str, Any], lo: float, hi: float) -> bool:
    outer, far = tile["risk_lo_outer"], tile["risk_hi_outer"]
    inside = tile["risk_lo_inner"] >= lo and tile["risk_hi_inner"] <= hi
    return inside and (outer is None or outer < lo) and (far is None or hi < far)


def test_tiles_are_told_and_resumed(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    one = server.listen(f"{STREAM}/tiles")
    assert one.response.headers["content-type"].startswith("text/event-stream")
    event, begun, data = hear(one)
    assert (event, begun.partition("-")[0], data) == ("gap", "2", {"rows": [], "sequence": 2})
    publish(server, "DELL", 1.0, risk=4)
    event, third, data = hear(one)
    assert (event, third.partition("-")[0], data["sequence"], data["after"]) == ("tiles", "3", 3, 2)
    assert {(row["item"], row["pe"]) for row in data["rows"]} == {("DELL", 1.0)}
    assert any(reached(row, 2, 6) for row in data["rows"])
    assert not any(reached(row, 6, 9) for row in data["rows"])
    server.http.put(f"{STREAM}/subscriptions/eve", json={})  # makes no tiles
    assert server.http.delete(f"{STREAM}/objects/DELL").status_code == 200
    event, _, data = hear(one)
    assert (event, data["sequence"], data["after"]) == ("tiles", 5, 3)
    assert any(row["item"] == "DELL" and row["pe"] is None for row in data["rows"])
    two = server.listen(f"{STREAM}/tiles", last_event_id=begun)
    assert [hear(two)[2]["sequence"] for _ in range(2)] == [3, 5]
    two.close()
    two = server.listen(f"{STREAM}/tiles", last_event_id=third)
    assert hear(two)[:1] == ("tiles",)
    two.close()
    for strange in ("3", "3-0123456789abcdef", "99-x", "", "-", third + "0"):
        two = server.listen(f"{STREAM}/tiles", last_event_id=strange)
        event, where, data = hear(two)
        assert (event, where.partition("-")[0], data["sequence"]) == ("gap", "5", 5)
        two.close()
    one.close()


def test_tiles_after_a_restart(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    one = server.listen(f"{STREAM}/tiles")
    begun = hear(one)[1]
    publish(server, "DELL", 1.0)
    last = hear(one)[1]
    one.close()
    server = running()
    one = server.listen(f"{STREAM}/tiles", last_event_id=last)  # is where the stream is
    publish(server, "DELL", 2.0)
    event, _, data = hear(one)
    assert (event, data["sequence"], data["after"]) == ("tiles", 4, 3)
    two = server.listen(f"{STREAM}/tiles", last_event_id=begun)  # nobody remembers what was behind it
    assert hear(two)[:1] == ("gap",)
    one.close()
    two.close()
    server = running()  # while nobody listens
    assert server.http.post(f"{STREAM}/tiles/lists", json={"id": 1}).status_code == 200


def test_an_ended_stream_ends_its_tiles(running: Start) -> None:
    server = running()
    make_stocks(server.http)
    one = server.listen(f"{STREAM}/tiles")
    begun = hear(one)[1]
    assert server.http.delete(STREAM).status_code == 204
    while line := one.response.readline():
        assert not line.startswith(b"data")
    one.close()
    make_stocks(server.http)
    publish(server, "DELL", 1.0)
    one = server.listen(f"{STREAM}/tiles", last_event_id=begun)
    event, _, data = hear(one)
    assert (event, data["sequence"]) in (("gap", 3), ("tiles", 3))
    one.close()


def test_who_is_too_slow_hears_of_a_gap(running: Start) -> None:
    server = running(receiver_bytes=2000)
    make_stocks(server.http)
    one = server.listen(f"{STREAM}/tiles")
    assert hear(one)[0] == "gap"
    rows = [{"id": f"n{i}", "risk": 10 + i, "pe": i} for i in range(50)]
    server.http.post(f"{STREAM}/events", json={"rows": rows})
    event, _, data = hear(one)
    assert (event, data["sequence"]) == ("gap", 3)
    publish(server, "DELL", 0.5)
    event, _, data = hear(one)
    assert (event, data["sequence"], data["after"]) == ("tiles", 4, 3)
    one.close()


def test_a_feed_that_cannot_go_on_begins_anew(running: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    apply, broken = RangeTiler.apply, [True]

    def sometimes(self: RangeTiler, commands: Any) -> pa.Table:
        if broken.pop() if broken else False:
            raise InputError("no such object")
        return apply(self, commands)

    monkeypatch.setattr(RangeTiler, "apply", sometimes)
    server = running()
    make_stocks(server.http)
    one = server.listen(f"{STREAM}/tiles")
    assert hear(one)[0] == "gap"
    publish(server, "DELL", 1.0)
    event, where, data = hear(one)
    assert (event, where.partition("-")[0], data["sequence"]) == ("gap", "3", 3)
    publish(server, "DELL", 2.0)
    event, _, data = hear(one)
    assert (event, data["sequence"], data["after"]) == ("tiles", 4, 3)
    one.close()


def test_a_feed_ends_behind_the_last_gateway(running: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tiles, "LINGER", 0.1)
    server = running()
    make_stocks(server.http)
    one = server.listen(f"{STREAM}/tiles")
    begun = hear(one)[1]
    feed = server.service.feeds._open["stocks", "dense"]
    time.sleep(0.5)
    assert [feed.ended] == [False]
    one.close()
    publish(server, "DELL", 1.0)
    until = time.monotonic() + 20
    while not feed.ended:
        assert time.monotonic() < until
        publish(server, "DELL", time.monotonic())
        time.sleep(0.05)
    one = server.listen(f"{STREAM}/tiles", last_event_id=begun)
    assert hear(one)[0] == "gap"
    publish(server, "DELL", 0.5)
    assert hear(one)[0] == "tiles"
    one.close()


def test_lists_of_ranges_that_nobody_registered(stocks: TestClient) -> None:
    ranges: list[dict[str, Any]] = [
        {"id": "ada", "risk_lo": 2, "risk_hi": 6},
        {"id": "cy", "risk_hi": 1},
        {"id": "di"},
    ]
    told = stocks.post(f"{STREAM}/tiles/lists", json={"rows": ranges}).json()
    ada = stocks.get(f"{STREAM}/subscriptions/ada/results").json()["rows"]
    assert (told["sequence"], told["same"]) == (2, [])
    assert [row for row in told["rows"] if row["subscription"] == "ada"] == ada
    assert [row["item"] for row in told["rows"] if row["subscription"] == "di"] == ["CORE", "BOLT"]
    right = digest_of((row["item"], row["score"]) for row in ada)
    ranges[0]["digest"], ranges[1]["digest"], ranges[2]["digest"] = right, digest_of([]), "other"
    told = stocks.post(f"{STREAM}/tiles/lists", json={"rows": ranges}).json()
    assert sorted(told["same"]) == ["ada", "cy"]
    assert {row["subscription"] for row in told["rows"]} == {"di"}
    assert stocks.get(STREAM).json()["subscriptions"] == 2
    sink = pa.BufferOutputStream()
    table = pa.table({"id": [7], "risk_lo": [6.0]})
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    headers = {"Content-Type": "application/vnd.apache.arrow.stream"}
    body = sink.getvalue().to_pybytes()
    told = stocks.post(f"{STREAM}/tiles/lists", content=body, headers=headers).json()
    assert [row["item"] for row in told["rows"]] == ["CORE"]
    assert stocks.post(f"{STREAM}/tiles/lists", json={"rows": []}).json()["rows"] == []


@pytest.mark.parametrize(
    ("row", "column"),
    [
        ({"id": 1, "k": 3}, "k"),
        ({"id": 1, "risk_lo": 3, "risk_hi": 1}, "risk_lo"),
        ({"id": [1]}, "id"),
        ({"risk_lo": 3}, "id"),
        ({"id": 1, "pe_lo": 3}, "pe_lo"),
    ],
)
def test_bad_ranges_are_refused(stocks: TestClient, row: dict[str, Any], column: str) -> None:
    told = stocks.post(f"{STREAM}/tiles/lists", json={"rows": [row]})
    assert told.status_code == 400, told.text
    assert told.json().get("column", column) == column
    assert column in told.json()["detail"]


@pytest.mark.parametrize(
    ("engine", "settings", "status", "text"),
    [
        ("CoveringTable", {"over": ["x"]}, 404, "has no tiles"),
        ("RangeTopK", {"over": ["x", "z"]}, 400, "sides"),
        ("RangeTopK", {"over": ["x", "z", "w"]}, 400, "not for boxes"),
        ("RangeTopK", {"over": ["x", "z"], "sides": "upper", "method": "scan"}, 200, "rows"),
    ],
)
def test_who_has_tiles(
    client: TestClient, engine: str, settings: dict[str, Any], status: int, text: str
) -> None:
    client.put("/v1/streams/s", json={"engine": engine, "settings": settings})
    told = client.post("/v1/streams/s/tiles/lists", json={"id": 1})
    assert told.status_code == status
    assert text in told.text
    if status != 200:
        assert client.get("/v1/streams/s/tiles").status_code == status


class Node(threading.Thread):
    """A gateway with a connection of its own; some of what comes over it is lost or doubled."""

    def __init__(self, url: str, seed: int) -> None:
        super().__init__(daemon=True)
        self.client = Client(url)
        self.gateway = Gateway.of(self.client, "s")
        self.chance, self.loss, self.lost = np.random.default_rng(seed), 0.3, 0
        self.errors: list[BaseException] = []

    def run(self) -> None:
        try:
            for _ in self.gateway.follow(self.spoiled(self.client.tiles("s"))):
                pass
        except BaseException as error:
            self.errors.append(error)

    def spoiled(self, messages: Iterator[Message]) -> Iterator[Message]:
        for each in messages:
            if each.event == "tiles" and self.chance.random() < self.loss:
                self.lost += 1
                continue
            yield from (each, each) if each.event == "tiles" else (each,)

    def reach(self, sequence: int, seconds: float = 60.0) -> None:
        until = time.monotonic() + seconds
        while (self.gateway.sequence or 0) < sequence:
            assert not self.errors, self.errors
            assert time.monotonic() < until, (self.gateway.sequence, sequence)
            time.sleep(0.01)


def ranges(rng: np.random.Generator, first: int, count: int) -> list[dict[str, Any]]:
    lo, hi = np.sort(rng.random((2, count)).round(3), axis=0)
    rows = [{"id": first + i, "x_lo": lo[i].item(), "x_hi": hi[i].item()} for i in range(count)]
    for row in rows[::50]:
        row["x_lo"] = None
    for row in rows[::70]:
        row["x_hi"] = None
    return rows


class World:
    """A service in a process of its own, what is published there, and an engine that is given the same."""

    def __init__(self, data: Path) -> None:
        settings: dict[str, Any] = {"k": 4, "order": "desc"}
        self.rng = np.random.default_rng(11)
        self.process = Process(data)
        self.url = f"http://127.0.0.1:{self.process.port}"
        self.client = Client(self.url)
        self.client.put_stream("s", "RangeTopK", settings)
        self.witness = RangeTopK(**settings)

    def happen(self, count: int) -> int:
        """Objects come, change, move and go; returns the sequence."""
        ids = self.rng.integers(0, 400, count).tolist()
        x, y = self.rng.random(count).round(2).tolist(), self.rng.integers(0, 50, count).tolist()
        rows = [{"id": i, "x": a, "y": float(b)} for i, a, b in zip(ids, x, y, strict=True)]
        here = self.witness.objects().column("id").to_pylist()
        rows += [{"id": i, "y": None} for i in here[: 1 + count // 8] if i not in ids]
        self.witness.publish(rows)
        return self.client.publish("s", rows).sequence

    def told(self) -> int:
        """The same until it has made tiles: a write may concern nobody."""
        while True:
            sequence, until = self.happen(3), time.monotonic() + 1.0
            while time.monotonic() < until:
                if self.client.lists("s", []).sequence == sequence:
                    return sequence
                time.sleep(0.02)

    def lists(self, people: list[dict[str, Any]]) -> dict[int, list[tuple[int, float]]]:
        """What the engine says."""
        self.witness.subscribe(people)
        found: dict[int, list[tuple[int, float]]] = {row["id"]: [] for row in people}
        for row in self.witness.results().to_pylist():
            found[row["subscription"]].append((row["item"], row["score"]))
        return found


def test_two_gateways_keep_the_lists_of_ten_thousand(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resuming, "LONGEST", 0.3)
    world = World(tmp_path / "data")
    try:
        world.happen(600)
        nodes = [Node(world.url, seed) for seed in (1, 2)]
        people = [ranges(world.rng, first, 5000) for first in (0, 5000)]
        for node, rows in zip(nodes, people, strict=True):
            node.gateway.subscribe(rows[:3000])  # before the first message
            node.start()
        for step in range(24):
            world.happen(int(world.rng.integers(1, 6)))
            if step == 8:  # late ones come in the middle of it
                for node, rows in zip(nodes, people, strict=True):
                    node.gateway.subscribe(rows[3000:])
            if step == 12:
                world.process.kill()
                world.process.start()
        for node in nodes:  # what comes next is lost for certain, and nothing behind it
            node.loss, lost = 1.0, node.lost
            while node.lost == lost:
                world.told()
                time.sleep(0.05)
            node.loss = 0.0
        last = world.told()
        expected = world.lists([row for rows in people for row in rows])
        for node, rows in zip(nodes, people, strict=True):
            node.reach(last)
            wrong = [row for row in rows if node.gateway.items(row["id"]) != expected[row["id"]]]
            assert wrong == []
            told = node.gateway.stats()
            assert min(told["gaps"], told["doubled"]) > 0
            assert told["asked"] > 5000
            assert node.gateway.check() == []
            assert not node.errors
    finally:
        world.process.kill()
        world.client.close()
