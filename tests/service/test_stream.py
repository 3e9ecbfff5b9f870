"""A stream from inside: its queue, its log, an engine of the operator's own."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Coroutine
from pathlib import Path
from typing import Any

import pytest
from starlette.testclient import TestClient

from rankcast.service.problems import Problem
from rankcast.service.settings import read
from rankcast.service.streams import engines, writing
from rankcast.service.streams.stream import Stream
from rankcast.service.telling.hub import Receiver, delta
from rankcast.state.log import Entry, Log


def made(path: Path, **settings: object) -> Stream:
    document = {"engine": "RangeTopK", "settings": {}}
    return Stream.make(path / "s", document, read(None, {"data": path, "min_free": 0, **settings}))


def test_a_full_queue_refuses_and_what_waits_is_committed_together(tmp_path: Path) -> None:
    stream = made(tmp_path, queue=20, queue_bytes=1000)
    begun, go = threading.Event(), threading.Event()

    def blocked(_: Stream) -> None:
        begun.set()
        go.wait(20)

    stream.submit(blocked)
    begun.wait(20)
    events = [{"id": each, "x": 0, "y": each} for each in range(20)]
    waiting = [
        stream.submit(writing.apply("publish", [each], returned=False), writes=True) for each in events
    ]
    with pytest.raises(Problem) as refused:
        stream.submit(blocked)
    assert (refused.value.status, refused.value.headers["Retry-After"]) == (429, "1")
    groups = stream.groups
    go.set()
    assert [each.result(20).document["sequence"] for each in waiting] == list(range(1, 21))
    assert (stream.groups - groups, stream.written) == (1, 20)
    begun.clear()
    go.clear()
    stream.submit(blocked)
    begun.wait(20)
    stream.submit(len, size=900)  # type: ignore[arg-type]
    with pytest.raises(Problem):
        stream.submit(blocked, size=200)
    go.set()
    stream.close()
    with pytest.raises(Problem):
        stream.submit(blocked)


def test_one_that_breaks_does_not_take_the_others_with_it(tmp_path: Path) -> None:
    stream = made(tmp_path)
    begun, go = threading.Event(), threading.Event()

    def blocked(_: Stream) -> None:
        begun.set()
        go.wait(20)

    def broken(each: Stream) -> None:
        each.write("publish", [{"id": 99, "x": 0, "y": 0}])
        raise RuntimeError("a defect")

    def late(each: Stream) -> None:
        each.write("publish", [{"id": 98, "x": 0, "y": 0}])
        raise Problem(409, "after all")

    stream.submit(blocked)
    begun.wait(20)
    good = [
        stream.submit(writing.apply("publish", [{"id": each, "x": 0, "y": 0}], returned=False), writes=True)
        for each in range(2)
    ]
    bad = stream.submit(broken, writes=True)
    worse = stream.submit(late, writes=True)
    good.append(
        stream.submit(writing.apply("publish", [{"id": 2, "x": 0, "y": 0}], returned=False), writes=True)
    )
    go.set()
    assert [each.result(20).document["sequence"] for each in good] == [1, 2, 3]
    with pytest.raises(RuntimeError):
        bad.result(20)
    with pytest.raises(Problem):
        worse.result(20)
    assert stream.sequence == stream.log.end == 3
    stream.submit(writing.subscribe([{"id": 1}], returned=False), writes=True).result(20)
    items = stream.submit(lambda each: each.shard.results()["item"].to_pylist()).result(20)
    assert items == [0, 1, 2]
    stream.close()


def test_what_comes_as_a_wait_ends_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    async def listened() -> list[int]:
        receiver = Receiver(None, 1000)
        receiver.after = 6

        async def ended(waiting: Coroutine[Any, Any, bool], _: float) -> None:
            waiting.close()
            receiver.push([delta(7, [])])
            raise TimeoutError

        monkeypatch.setattr(asyncio, "wait_for", ended)
        woken = await receiver.wait(1)
        receiver.rest(7)
        assert woken
        return [told.sequence for told in receiver.take()]

    assert asyncio.run(listened()) == [7]


def entries(log: Log, after: int) -> list[int] | None:
    found = log.after(after)
    return None if found is None else [each.number for each in found]


def test_a_log_is_cut_back_and_begins_anew(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", end=0, most=1 << 20, age=100)
    for number in range(1, 31):
        log.append(Entry(number, time.time(), b"b" * 9000, b"a" * 1000))
        log.flush()
    assert entries(log, 25) == [26, 27, 28, 29, 30]
    log.take_back(27)
    assert entries(log, 20) == list(range(21, 28))
    log.append(Entry(28, 5.0, b"x", b"y"))
    log.flush()
    log.close()
    again = Log(tmp_path / "log", end=28, most=1 << 20, age=100)
    assert entries(again, 0) == list(range(1, 29))
    assert entries(again, 29) is None
    again.close()
    behind = Log(tmp_path / "log", end=26, most=1 << 20, age=100)  # a group that was never committed
    assert (entries(behind, 20), behind.end) == (list(range(21, 27)), 26)
    behind.append(Entry(27, time.time(), b"", b"new"))
    behind.flush()
    behind.close()
    torn = sorted((tmp_path / "log").iterdir())[-1]
    torn.write_bytes(torn.read_bytes()[:-1])
    lost = Log(tmp_path / "log", end=27, most=1 << 20, age=100)  # the end is missing
    assert (lost.first, lost.end, entries(lost, 27), entries(lost, 20)) == (27, 27, [], None)
    lost.append(Entry(28, time.time(), b"", b""))
    lost.flush()
    assert entries(lost, 27) == [28]
    lost.close()


def test_a_log_is_bounded_by_bytes_and_age(tmp_path: Path) -> None:
    log = Log(tmp_path / "log", end=0, most=1 << 20, age=100)
    for number in range(1, 301):
        log.append(Entry(number, 1000.0 + number, b"b" * 9000, b"a" * 1000))
        log.flush()
        assert log.size < (1 << 20) + 80_000
    first = log.first
    assert 180 < first < 250
    log.forget_old(1000.0 + 290 + 100)
    assert first < log.first <= 290
    assert entries(log, log.first) == list(range(log.first + 1, 301))
    log.close()


def test_an_engine_of_the_operators_own_is_served(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankcast.core.spec._REGISTERED", {})
    asked = {"engine": "SimilarVectors", "settings": {"size": 2, "window": 2, "k": 1}}
    assert client.put("/v1/streams/v", json=asked).status_code == 400
    engines.admit(["examples.similar_vectors:SimilarVectors"])
    assert client.put("/v1/streams/v", json=asked).status_code == 201
    vectors = {"rows": [{"id": "east", "vector": [1.0, 0.0]}, {"id": "north", "vector": [0.0, 2.0]}]}
    assert client.post("/v1/streams/v/events", json=vectors).json() == {"sequence": 1, "deltas": 0}
    found = client.put("/v1/streams/v/subscriptions/7", json={"vector": [3.0, 1.0]}).json()["results"]
    assert [row["item"] for row in found] == ["east"]
    assert client.put("/v1/streams/v/subscriptions/7", json={"vector": [0.0, 1.0]}).status_code == 200
