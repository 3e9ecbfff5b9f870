"""Kills under load, full disks, and what OpenAPI promises. Run by `make test-service`."""

from __future__ import annotations

import json
import os
import random
import shutil
import subprocess
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest

from rankcast import RangeTopK
from rankcast.service.app import Service, application
from rankcast.service.settings import read

from .processes import STREAM, Follower, Process

pytestmark = pytest.mark.service
KILLS = int(os.environ.get("RANKCAST_KILLS", "100"))


@pytest.fixture
def serve() -> Iterator[Callable[..., Process]]:
    """Start services; none outlives its test."""
    started: list[Process] = []

    def start(data: Path, *flags: str) -> Process:
        started.append(Process(data, *flags))
        return started[-1]

    yield start
    for each in started:
        each.kill()


def wait_for(true: Callable[[], bool]) -> None:
    """Wait until something is so."""
    until = time.monotonic() + 120
    while not true():
        assert time.monotonic() < until
        time.sleep(0.02)


def begin(*followers: Follower) -> None:
    """Let followers begin with the first snapshot, so that they hear every delta behind it."""
    for follower in followers:
        follower.start()
    wait_for(lambda: all(each.snapshots for each in followers))


@pytest.fixture
def posted() -> Iterator[Posted]:
    """Who is told by a webhook."""
    found = Posted()
    yield found
    found.server.shutdown()
    found.server.server_close()


class Posted:
    """A receiver of webhooks, which tells messages apart by their ids."""

    def __init__(self) -> None:
        self.heard: dict[str, bytes] = {}
        self.wrong: list[str] = []
        self.times = self.last = 0
        receiver = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                length = int(self.headers["content-length"])
                body = self.rfile.read(length)
                if len(body) < length:  # the sender was killed
                    return
                receiver.take(self.headers["webhook-id"], body)
                self.send_response(204)
                self.end_headers()

            def log_message(self, *_: Any) -> None:
                pass

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}/in"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def take(self, name: str, body: bytes) -> None:
        self.times += 1
        self.last = json.loads(body)["data"]["sequence"]
        if self.heard.setdefault(name, body) != body:
            self.wrong.append(f"{name} came with another body")

    def check(self, follower: Follower) -> None:
        """It has heard, in the end, what a follower of the same subscription has, in that order."""
        wait_for(lambda: bool(follower.heard) and self.last >= follower.heard[-1][0])
        told = [json.loads(body) for body in self.heard.values()]  # in the order in which they came first
        assert {each["type"] for each in told} == {"delta"}
        assert [(each["data"]["sequence"], each["data"]["rows"]) for each in told] == follower.heard
        assert not self.wrong


def test_kills_under_load_lose_and_double_nothing(
    tmp_path: Path, serve: Callable[..., Process], posted: Posted
) -> None:
    rng, ended = random.Random(7), threading.Event()  # noqa: S311
    process = serve(tmp_path / "data", "--set", "heartbeat=0.2", "--set", "webhook_allow=127.0.0.1")
    assert process.ask("PUT", STREAM, {"engine": "RangeTopK", "settings": {"k": 1000}})[0] == 201
    rows = [{"id": each, "x_lo": each, "x_hi": each + 3} for each in range(8)]
    assert process.ask("POST", f"{STREAM}/subscriptions", {"rows": rows})[0] == 201
    document = {"url": posted.url, "subscriptions": [3]}
    assert process.ask("PUT", f"{STREAM}/webhooks/w", document)[0] == 201
    followers = [Follower(process, f"{STREAM}/deltas")]
    followers += [Follower(process, f"{STREAM}/deltas?subscription={each}") for each in (0, 3, 7)]
    sent: dict[int, list[tuple[int, dict[str, int]]]] = {}

    def publisher(number: int) -> None:
        mine, own = sent.setdefault(number, []), random.Random(number)  # noqa: S311
        place = 0
        while not ended.is_set():
            event = {"id": number * 1000 + own.randrange(20), "x": own.randrange(12), "y": own.randrange(9)}
            status, answer = process.insist("POST", f"{STREAM}/events", event, f"{number}-{place}", ended)
            place += 1
            if status:
                assert status == 200, answer
                mine.append((answer["sequence"], event))

    publishers = [threading.Thread(target=publisher, args=(number,)) for number in range(4)]
    begin(*followers)
    for thread in publishers:
        thread.start()
    for _ in range(KILLS):
        time.sleep(rng.uniform(0.05, 0.8))
        process.kill()
        process.start()
    time.sleep(0.5)
    ended.set()
    for thread in publishers:
        thread.join()
    _, told = process.ask("GET", STREAM)
    last = told["sequence"]
    wait_for(lambda: all((each.last or 0) >= last for each in followers))
    posted.check(followers[2])
    for follower in followers:
        follower.ended.set()
        follower.join(10)
    acknowledged = sorted((number, event) for mine in sent.values() for number, event in mine)
    numbers = [number for number, _ in acknowledged]
    assert len(set(numbers)) == len(numbers)
    assert last - 1 - len(numbers) in range(len(publishers) + 1)  # one each may be unanswered at the end
    for follower in followers:
        assert not follower.wrong, follower.wrong[:5]
        assert follower.last == last
        assert follower.connections > 1
    if set(numbers) == set(range(2, last + 1)):
        lists = lists_of(rows, [event for _, event in acknowledged])
        assert {key: each for key, each in followers[0].lists.items() if each} == lists
    for key, known in followers[0].lists.items():
        _, told = process.ask("GET", f"{STREAM}/subscriptions/{key}/results")
        assert {row["item"]: row["score"] for row in told["rows"]} == known
    assert process.stop() == 0


def lists_of(rows: list[dict[str, int]], events: list[dict[str, int]]) -> dict[int, dict[int, float]]:
    """What an engine makes of the same."""
    engine = RangeTopK(k=1000)
    engine.subscribe(rows)
    for event in events:
        engine.publish([event])
    lists: dict[int, dict[int, float]] = {}
    for row in engine.results().to_pylist():
        lists.setdefault(row["subscription"], {})[row["item"]] = row["score"]
    return lists


def test_kills_take_every_pushed_batch_once(tmp_path: Path, serve: Callable[..., Process]) -> None:
    """Whoever pushes goes on with the number that was not answered; every item enters and leaves once."""
    rng, ended = random.Random(8), threading.Event()  # noqa: S311
    process = serve(tmp_path / "data", "--set", "heartbeat=0.2")
    assert process.ask("PUT", STREAM, {"engine": "external"})[0] == 201
    follower = Follower(process, f"{STREAM}/deltas")
    answers: list[tuple[int, dict[str, int]]] = []

    def push() -> None:
        while not ended.is_set():
            number = len(answers)
            row = {"subscription": number % 3, "op": "enter", "item": number, "score": 1.0, "rank": 1}
            gone = {"subscription": number % 3, "op": "leave", "item": number - 3}
            path = f"{STREAM}/batches/{number}?source=test"
            both = {"rows": [row, gone] if number > 2 else [row]}
            answers.append(process.insist("PUT", path, both, f"{number}-{rng.random()}", threading.Event()))

    def grown(count: int) -> bool:
        return len(answers) > count + 2

    begin(follower)
    pushing = threading.Thread(target=push)
    pushing.start()
    for _ in range(max(1, KILLS // 5)):
        wait_for(partial(grown, len(answers)))
        time.sleep(rng.uniform(0, 0.3))
        process.kill()
        process.start()
    ended.set()
    pushing.join()
    wait_for(lambda: (follower.last or 0) >= len(answers))
    follower.ended.set()
    follower.join(10)
    assert [(status, told["sequence"]) for status, told in answers] == [
        (200, number + 1) for number in range(len(answers))
    ]
    assert not follower.wrong, follower.wrong[:5]
    assert [number for number, _ in follower.heard] == list(range(1, len(answers) + 1))
    assert process.stop() == 0


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of some megabytes."""
    place = tmp_path / "small"
    place.mkdir()
    made = subprocess.run(["mount", "-t", "tmpfs", "-o", "size=24m", "tmpfs", place], check=False)
    if made.returncode:
        pytest.skip("no file system can be mounted here")
    yield place
    subprocess.run(["umount", "-l", place], check=True)


@pytest.mark.parametrize("min_free", [4 << 20, 0])
def test_a_full_disk_refuses_writes_and_serves_reads(
    small_disk: Path, min_free: int, serve: Callable[..., Process]
) -> None:
    process = serve(small_disk / "data", "--set", f"min_free={min_free}")
    process.ask("PUT", STREAM, {"engine": "RangeTopK"})
    process.ask("PUT", f"{STREAM}/subscriptions/a", {})
    written, status = 0, 200
    rows = [{"id": each, "x": 0, "y": each} for each in range(2000)]
    while status == 200 and written < 2000:
        status, answer = process.ask("POST", f"{STREAM}/events", {"rows": rows})
        written += status == 200
    assert status == 507, answer
    ballast = small_disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    assert process.ask("POST", f"{STREAM}/events", {"rows": rows})[0] in (503, 507)
    if min_free:
        status, told = process.ask("GET", f"{STREAM}/subscriptions/a/results")
        assert (status, len(told["rows"])) == (200, 10)
        assert process.ask("GET", STREAM)[1]["sequence"] == 1 + written
    ballast.unlink(missing_ok=True)
    for path in sorted((small_disk / "data" / "streams" / "s" / "log").iterdir())[:-1]:
        path.unlink()  # room, as an operator would make it
    process.kill()
    process.start()
    assert process.ask("GET", STREAM)[1]["sequence"] == 1 + written
    process.stop()


def test_a_full_disk_recovers_without_a_restart(small_disk: Path, serve: Callable[..., Process]) -> None:
    ballast = small_disk / "ballast"
    process = serve(small_disk / "data", "--set", f"min_free={8 << 20}")
    process.ask("PUT", STREAM, {"engine": "RangeTopK"})
    ballast.write_bytes(bytes(18 << 20))
    event = {"id": 1, "x": 0, "y": 0}
    assert process.ask("POST", f"{STREAM}/events", event)[0] == 507
    assert process.ask("GET", STREAM)[0] == 200
    ballast.unlink()
    assert process.ask("POST", f"{STREAM}/events", event)[0] == 200
    assert process.stop() == 0


def test_a_stopped_service_ends_in_time_and_tidily(tmp_path: Path, serve: Callable[..., Process]) -> None:
    process = serve(tmp_path / "data")
    process.ask("PUT", STREAM, {"engine": "RangeTopK"})
    follower = Follower(process, f"{STREAM}/deltas")
    follower.start()
    time.sleep(0.5)
    begun = time.monotonic()
    assert process.stop() == 0
    assert time.monotonic() - begun < 8
    follower.ended.set()
    shutil.rmtree(tmp_path / "data")


@pytest.mark.parametrize("mode", ["POSITIVE", "NEGATIVE"])
def test_openapi_is_kept(tmp_path: Path, mode: str) -> None:
    """Whatever is sent, as described or otherwise, is answered as described, and not with 5xx."""
    from hypothesis import HealthCheck, Phase, given, settings
    from hypothesis.strategies import sampled_from

    schemathesis: Any = import_module("schemathesis")
    service = Service(read(None, {"data": tmp_path / "data", "min_free": 0, "max_streams": 20}))
    app = application(service)
    schema = schemathesis.openapi.from_asgi("/openapi.json", app)
    generation = schemathesis.GenerationMode[mode]
    schema.config.generation.update(modes=[generation])
    schema.config.update(base_url="http://127.0.0.1/")
    service.streams.put("s", {"engine": "RangeTopK", "settings": {}})
    service.streams.put("x", {"engine": "external", "settings": {}})
    for result in schema.get_all_operations():
        operation = result.ok()
        if operation.path.endswith(("/deltas", "/tiles")):
            continue

        @given(case=operation.as_strategy(generation), stream=sampled_from("sx"))
        @settings(
            max_examples=40,
            deadline=None,
            phases=[Phase.generate],
            suppress_health_check=list(HealthCheck),
            database=None,
        )
        def check(case: Any, stream: str) -> None:
            if "stream" in (case.path_parameters or {}):
                ends = case.method == "DELETE" and case.operation.path.endswith("{stream}")
                case.path_parameters["stream"] = "t" if ends else stream
            answer = case.call(headers={"Host": "127.0.0.1"})
            assert answer.status_code < 500, answer.text
            case.validate_response(
                answer,
                checks=[
                    schemathesis.checks.not_a_server_error,
                    schemathesis.checks.response_schema_conformance,
                    schemathesis.checks.content_type_conformance,
                ],
            )

        with suppress(import_module("schemathesis.core.control").SkipTest):  # nothing there can be wrong
            check()
    service.close()
