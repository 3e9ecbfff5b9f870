"""A quiet stream drops what is old: the service moves the clock of its engine."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from rankcast.core.spec import Clock
from rankcast.service.settings import read
from rankcast.service.streams import writing
from rankcast.service.streams.clock import SECOND, StreamClock
from rankcast.service.streams.stream import Stream
from rankcast.state.batches import from_bytes

EARLY = datetime(2019, 5, 1, 12, 0, tzinfo=UTC)  # long before anybody's now
DOCUMENT = {"engine": "GeoTextTopK", "settings": {"bounds": [0, 0, 9, 9], "window": "60 s"}}


class FakeTime:
    """A module `time` whose clock stands still unless it is moved."""

    def __init__(self) -> None:
        self.now = 1_800_000_000.0

    def time(self) -> float:
        return self.now

    def __getattr__(self, name: str) -> Any:
        return getattr(time, name)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> FakeTime:
    fake = FakeTime()
    monkeypatch.setattr("rankcast.service.streams.stream.time", fake)
    return fake


def _opened(path: Path, *, made: bool, document: Any = DOCUMENT, **settings: Any) -> Stream:
    told = read(None, {"data": path, "min_free": 0, **settings})
    return Stream.make(path / "s", document, told) if made else Stream(path / "s", told)


def _write(stream: Stream, call: str, row: dict[str, Any]) -> int:
    done = stream.submit(writing.apply(call, [row], returned=False), writes=True)
    return int(done.result(60).document["sequence"])


def _message(name: str, seconds: float, **more: Any) -> dict[str, Any]:
    when = EARLY + timedelta(seconds=seconds)
    return {"id": name, "x": 1, "y": 1, "terms": ["pizza"], "time": when.isoformat(), **more}


def _items(stream: Stream) -> list[str]:
    """What is listed now; the thread looks at its clock before it serves."""
    found: list[str] = stream.submit(lambda each: each.results()["item"].to_pylist()).result(60)
    return found


SUBSCRIPTION = {"id": "ann", "x": 1, "y": 1, "terms": ["pizza"]}


def test_what_is_old_leaves_though_nothing_comes(tmp_path: Path, clock: FakeTime) -> None:
    stream = _opened(tmp_path, made=True)
    _write(stream, "subscribe", SUBSCRIPTION)
    _write(stream, "publish", _message("a", 0))
    clock.now += 20
    _write(stream, "publish", _message("b", 30))  # ahead of the clock of here: the events' times count
    assert sorted(_items(stream)) == ["a", "b"]
    clock.now += 29
    assert sorted(_items(stream)) == ["a", "b"]
    assert stream.sequence == 3  # nothing would change: nothing is written
    clock.now += 1.5
    assert _items(stream) == ["b"]
    assert stream.sequence == 4
    assert [row["op"] for row in _told(stream, 4)] == ["leave"]
    clock.now += 10
    assert _write(stream, "publish", _message("late", 1)) == 5  # the window is past it
    assert _items(stream) == ["b"]
    stream.close()


def _told(stream: Stream, number: int) -> list[dict[str, Any]]:
    (entry,) = list(stream.log.after(number - 1, number) or [])
    rows: list[dict[str, Any]] = from_bytes(entry.answer).to_pylist()
    return rows


def test_a_message_with_an_end_of_its_own(tmp_path: Path, clock: FakeTime) -> None:
    stream = _opened(tmp_path, made=True)
    _write(stream, "subscribe", SUBSCRIPTION)
    until = (EARLY + timedelta(seconds=10)).isoformat()
    _write(stream, "publish", _message("coupon", 0, until=until))
    _write(stream, "publish", _message("post", 0))
    clock.now += 9.9
    assert sorted(_items(stream)) == ["coupon", "post"]
    clock.now += 0.2
    assert _items(stream) == ["post"]
    stream.close()


def test_objects_open_and_close_by_themselves(tmp_path: Path, clock: FakeTime) -> None:
    shops = {"engine": "MovingTopK", "settings": {"over": [], "k": 5}}
    stream = _opened(tmp_path, made=True, document=shops)
    hour = {n: (EARLY + timedelta(seconds=n)).isoformat() for n in (0, 10, 20)}
    _write(stream, "subscribe", {"id": "ann", "x": 1, "y": 1})
    _write(stream, "upsert", {"id": "bar", "x": 1, "y": 1, "opens": hour[10], "closes": hour[20]})
    assert _items(stream) == []
    clock.now += 100  # nobody has said what time it is
    assert _items(stream) == []
    _write(stream, "upsert", {"id": "cafe", "x": 2, "y": 1, "closes": hour[10], "time": hour[0]})
    assert _items(stream) == ["cafe"]
    clock.now += 10.5
    assert _items(stream) == ["bar"]
    stream.close()
    stream = _opened(tmp_path, made=False)
    assert _items(stream) == ["bar"]
    clock.now += 10
    assert _items(stream) == []
    stream.close()


def test_it_is_durable_and_time_goes_on_while_the_service_is_down(tmp_path: Path, clock: FakeTime) -> None:
    stream = _opened(tmp_path, made=True)
    _write(stream, "subscribe", SUBSCRIPTION)
    _write(stream, "publish", _message("a", 0))
    _write(stream, "publish", _message("b", 40))
    clock.now += 21
    assert _items(stream) == ["b"]
    stream.close()
    stream = _opened(tmp_path, made=False)
    assert (_items(stream), stream.sequence) == (["b"], 4)
    stream.close()
    clock.now += 40
    stream = _opened(tmp_path, made=False)
    assert (_items(stream), stream.sequence) == ([], 5)
    stream.close()


def test_by_itself(tmp_path: Path) -> None:
    """With the clock of this machine, and nobody asks."""
    stream = _opened(tmp_path, made=True)
    _write(stream, "subscribe", SUBSCRIPTION)
    until = (EARLY + timedelta(seconds=0.3)).isoformat()
    _write(stream, "publish", _message("coupon", 0, until=until))
    end = time.monotonic() + 20
    while stream.sequence < 3 and time.monotonic() < end:
        time.sleep(0.02)
    assert (stream.sequence, _items(stream)) == (3, [])
    stream.close()


def test_an_operator_may_leave_clocks_alone(tmp_path: Path, clock: FakeTime) -> None:
    stream = _opened(tmp_path, made=True, clock=False)
    _write(stream, "subscribe", SUBSCRIPTION)
    _write(stream, "publish", _message("a", 0))
    clock.now += 3600
    assert _items(stream) == ["a"]
    stream.close()


def test_where_a_clock_is() -> None:
    clock, dues = StreamClock(100.0), []
    for told, now in [
        (Clock(50 * SECOND, 60 * SECOND), 200.0),  # counted from when its time came, at the latest
        (Clock(50 * SECOND, 70 * SECOND), 201.0),  # a write that moved no clock
        (Clock(80 * SECOND, 81 * SECOND), 300.0),
        (None, 400.0),
    ]:
        clock.follow(told, now)
        dues.append(clock.due)
    assert dues == [110.0, 120.0, 301.0, None]
    assert (clock.at(299.0), clock.at(300.5)) == (80 * SECOND, 80 * SECOND + SECOND // 2)
