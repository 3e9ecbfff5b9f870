"""Cases of the service: clients and server on the same cores, over loopback, every write synced.

Clients are plain sockets with requests made ahead: what is measured is the service, not a client library. The
baseline is the same writes to a `Shard` in this process, or the same rows in another form.
"""

from __future__ import annotations

import asyncio
import atexit
import json
import shutil
import subprocess
import sys
import tempfile
import time
import urllib.error
import urllib.request
from collections.abc import Coroutine
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from rankcast import RangeTopK
from rankcast.bench.runner import Contender, Parameters, Trial, case
from rankcast.state import Shard

ARROW = "application/vnd.apache.arrow.stream"
STREAM = "/v1/streams/s"
OBJECTS = 10_000
HOLDING = 1.0  # lists that an event changes, about
T = TypeVar("T")


class Served:
    """A service in a process of its own, on an empty directory, with one stream."""

    def __init__(self, k: int = 10) -> None:
        self.folder = Path(tempfile.mkdtemp())
        code = "import sys; from rankcast.cli import main; sys.exit(main())"
        flags = ["--data", str(self.folder / "data"), "--port", "0", "--log-level", "warning"]
        begun = time.perf_counter()
        self.process = subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", code, "serve", *flags], stdout=subprocess.PIPE, text=True
        )
        atexit.register(self.end)
        line = "" if self.process.stdout is None else self.process.stdout.readline()
        self.port = int(line.rsplit(":", 1)[1])
        self.ask("GET", "/readyz")
        self.seconds = time.perf_counter() - begun
        self.ask("PUT", STREAM, {"engine": "RangeTopK", "settings": {"k": k}})

    def ask(self, method: str, path: str, document: Any = None, media: str = "application/json") -> Any:
        """One request, one answer."""
        data = document if isinstance(document, bytes) else json.dumps(document or {}).encode()
        request = urllib.request.Request(
            f"http://127.0.0.1:{self.port}{path}",
            data=None if method == "GET" else data,
            method=method,
            headers={"Content-Type": media},
        )
        for _ in range(100):
            try:
                with urllib.request.urlopen(request, timeout=120) as answer:  # noqa: S310
                    return json.loads(answer.read())
            except urllib.error.URLError:
                time.sleep(0.05)
        raise TimeoutError

    def memory(self) -> int:
        """Bytes of its resident memory."""
        lines = Path(f"/proc/{self.process.pid}/status").read_text().splitlines()
        return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024

    def end(self) -> None:
        """Stop it, and remove what it has written."""
        if self.process.poll() is None:
            self.process.terminate()
            self.process.wait(30)
        shutil.rmtree(self.folder, ignore_errors=True)


def post(path: str, body: bytes, media: str = "application/json") -> bytes:
    """A request as bytes."""
    head = f"POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: {media}\r\n"
    return f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body


def on_loop(work: Coroutine[Any, Any, T]) -> T:
    """Run clients on the event loop that the service has too: they share its processors."""
    import uvloop  # noqa: PLC0415  (comes with the service)

    return uvloop.run(work)


async def answered(reader: asyncio.StreamReader) -> bytes:
    """The body of the next answer."""
    head = await reader.readuntil(b"\r\n\r\n")
    length = next(
        int(line.split(b":")[1]) for line in head.split(b"\r\n") if line.lower().startswith(b"content-length")
    )
    body = await reader.readexactly(length)
    if not head.startswith((b"HTTP/1.1 200", b"HTTP/1.1 201")):
        raise RuntimeError(body.decode())
    return body


async def load(port: int, requests: list[bytes], clients: int) -> list[float]:
    """Send requests, each client its next one when the last was answered; the seconds of each."""
    waiting, seconds = iter(requests), []

    async def client() -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        for request in waiting:
            begun = time.perf_counter()
            writer.write(request)
            await answered(reader)
            seconds.append(time.perf_counter() - begun)
        writer.close()

    await asyncio.gather(*(client() for _ in range(clients)))
    return seconds


async def listen(port: int, path: str, heard: dict[int, float]) -> None:
    """Note when each sequence was heard of."""
    reader, writer = await asyncio.open_connection("127.0.0.1", port, limit=1 << 24)
    writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
    try:
        while line := await reader.readline():
            if line.startswith(b"id: "):
                heard.setdefault(int(line[4:]), time.perf_counter())
    finally:
        writer.close()


def table_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow stream."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def boxes_of(count: int, rng: np.random.Generator) -> pa.Table:
    """Subscriptions so narrow that an event changes few lists."""
    low = rng.random(count)
    return pa.table({"id": np.arange(count), "x_lo": low, "x_hi": low + HOLDING / count})


def objects_of(count: int, rng: np.random.Generator) -> pa.Table:
    """Objects, or new values of objects."""
    ids = np.arange(OBJECTS) if count == OBJECTS else rng.integers(0, OBJECTS, count)
    return pa.table({"id": ids, "x": rng.random(count), "y": rng.random(count)})


def filled(served: Served, boxes: pa.Table, objects: pa.Table) -> Served:
    """Register and publish what there is before the clock runs."""
    served.ask("POST", f"{STREAM}/events", table_bytes(objects), ARROW)
    for start in range(0, boxes.num_rows, 200_000):
        served.ask("POST", f"{STREAM}/subscriptions", table_bytes(boxes.slice(start, 200_000)), ARROW)
    return served


def shard_of(boxes: pa.Table, objects: pa.Table) -> Shard[RangeTopK]:
    """The same in this process."""
    folder = tempfile.mkdtemp()
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    shard = Shard.open(folder, RangeTopK(k=10))
    atexit.register(shard.close)
    shard.append([("publish", objects)])
    shard.append([("subscribe", boxes)])
    return shard


def percentile(seconds: list[float], share: float) -> float:
    """The time that a share of them stays below, in milliseconds."""
    return float(np.quantile(np.array(seconds), share)) * 1000


@case(
    "service.publish",
    small={"subscriptions": [10_000], "events": [1_000], "clients": [64]},
    full={"subscriptions": [100_000], "events": [10_000], "clients": [64]},
    seed=81,
    unit="event",
    runs=3,
)
def publish(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Events one by one over HTTP, each synced, beside `Shard.append` one by one; time to a receiver."""
    boxes, objects = boxes_of(parameters["subscriptions"], rng), objects_of(OBJECTS, rng)
    served, shard = filled(Served(), boxes, objects), shard_of(boxes, objects)
    count = parameters["events"]

    def rows() -> list[dict[str, Any]]:
        events: list[dict[str, Any]] = objects_of(count, rng).to_pylist()
        return events

    def over_http(events: list[dict[str, Any]]) -> dict[str, float]:
        return on_loop(measured([post(f"{STREAM}/events", json.dumps(each).encode()) for each in events]))

    async def measured(requests: list[bytes]) -> dict[str, float]:
        seconds = await load(served.port, requests, parameters["clients"])
        return {"p50_ms": percentile(seconds, 0.5), "p99_ms": percentile(seconds, 0.99)}

    def in_process(events: list[dict[str, Any]]) -> dict[str, float]:
        for each in events:
            shard.append([("publish", [each])])
        return {}

    return Trial(
        count,
        [
            Contender("service, 64 clients", prepare=rows, run=over_http, counters=lambda _, found: found),
            Contender("shard, one thread", prepare=rows, run=in_process),
        ],
        baseline="shard, one thread",
    )


@case(
    "service.told",
    small={"subscriptions": [10_000], "events": [500], "clients": [64]},
    full={"subscriptions": [100_000], "events": [5_000], "clients": [64]},
    seed=82,
    unit="event",
    runs=3,
)
def told(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """From the moment an event is sent to the moment a receiver of the whole stream hears of it."""
    boxes, objects = boxes_of(parameters["subscriptions"], rng), objects_of(OBJECTS, rng)
    served, count = filled(Served(), boxes, objects), parameters["events"]

    async def measured(bodies: list[bytes]) -> dict[str, float]:
        heard: dict[int, float] = {}
        sent: dict[int, float] = {}
        waiting = iter(bodies)
        listening = asyncio.create_task(listen(served.port, f"{STREAM}/deltas", heard))
        await asyncio.sleep(0.5)

        async def client() -> None:
            reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
            for body in waiting:
                begun = time.perf_counter()
                writer.write(post(f"{STREAM}/events", body))
                answer = json.loads(await answered(reader))
                if answer["deltas"]:
                    sent[answer["sequence"]] = begun
            writer.close()

        await asyncio.gather(*(client() for _ in range(parameters["clients"])))
        await asyncio.sleep(0.3)
        listening.cancel()
        late = [heard[number] - begun for number, begun in sent.items() if number in heard]
        return {
            "heard": len(late) / max(1, len(sent)),
            "p50_ms": percentile(late, 0.5),
            "p99_ms": percentile(late, 0.99),
        }

    def bodies() -> list[bytes]:
        return [json.dumps(row).encode() for row in objects_of(count, rng).to_pylist()]

    contender = Contender(
        "service",
        prepare=bodies,
        run=lambda given: on_loop(measured(given)),
        counters=lambda _, found: found,
    )
    return Trial(count, [contender], agrees=lambda answers: answers["service"]["heard"] == 1)


@case(
    "service.forms",
    small={"events": [5_000], "rows": [1_000]},
    full={"events": [100_000], "rows": [10_000]},
    seed=83,
    unit="event",
    runs=3,
)
def forms(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Events in Arrow bodies, in JSON bodies, and one by one in JSON."""
    boxes, objects = boxes_of(10_000, rng), objects_of(OBJECTS, rng)
    served = filled(Served(), boxes, objects)
    count, size = parameters["events"], parameters["rows"]
    single = count // 50

    def arrow() -> list[bytes]:
        events = objects_of(count, rng)
        return [
            post(f"{STREAM}/events", table_bytes(events.slice(start, size)), ARROW)
            for start in range(0, count, size)
        ]

    def many() -> list[bytes]:
        rows = objects_of(count, rng).to_pylist()
        return [
            post(f"{STREAM}/events", json.dumps({"rows": rows[start : start + size]}).encode())
            for start in range(0, count, size)
        ]

    def ones() -> list[bytes]:
        return [
            post(f"{STREAM}/events", json.dumps(row).encode()) for row in objects_of(single, rng).to_pylist()
        ]

    def send(clients: int) -> Any:
        return lambda requests: len(on_loop(load(served.port, requests, clients)))

    return Trial(
        count,
        [
            Contender("Arrow", prepare=arrow, run=send(2)),
            Contender("JSON", prepare=many, run=send(2)),
            Contender("single JSON, 64 clients", prepare=ones, run=send(64), work=single),
        ],
        baseline="single JSON, 64 clients",
    )


@case(
    "service.connect",
    small={"clients": [200], "subscriptions": [10_000]},
    full={"clients": [2_000], "subscriptions": [100_000]},
    seed=84,
    unit="client",
    runs=2,
)
def connect(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Receivers connect, each to one subscription, and have their snapshot."""
    boxes, objects = boxes_of(parameters["subscriptions"], rng), objects_of(OBJECTS, rng)
    served, count = filled(Served(), boxes, objects), parameters["clients"]
    wanted = rng.permutation(parameters["subscriptions"])[:count].tolist()

    async def one(number: int) -> int:
        reader, writer = await asyncio.open_connection("127.0.0.1", served.port)
        path = f"{STREAM}/deltas?subscription={number}"
        writer.write(f"GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n".encode())
        await reader.readuntil(b'"sequence":')
        open_ones.append(writer)
        return 1

    open_ones: list[asyncio.StreamWriter] = []

    async def all_of_them() -> int:
        found = sum(await asyncio.gather(*map(one, wanted)))
        for writer in open_ones:
            writer.close()
        open_ones.clear()
        return found

    contender = Contender("receivers", run=lambda _: on_loop(all_of_them()))
    return Trial(count, [contender], agrees=lambda answers: answers["receivers"] == count)


@case(
    "service.subscribe",
    small={"subscriptions": [50_000], "rows": [10_000]},
    full={"subscriptions": [1_000_000], "rows": [100_000]},
    seed=85,
    unit="subscription",
    runs=1,
)
def subscribe(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Subscriptions registered by Arrow bodies, beside a shard in this process."""
    count, size = parameters["subscriptions"], parameters["rows"]
    boxes, objects = boxes_of(count, rng), objects_of(OBJECTS, rng)
    bodies = [
        post(f"{STREAM}/subscriptions", table_bytes(boxes.slice(start, size)), ARROW)
        for start in range(0, count, size)
    ]

    def served() -> Served:
        return filled(Served(), boxes.slice(0, 0), objects)

    def register(given: Served) -> int:
        on_loop(load(given.port, bodies, 1))
        found = given.ask("GET", STREAM)["subscriptions"]
        given.end()
        return int(found)

    def in_process(shard: Shard[RangeTopK]) -> int:
        for start in range(0, count, size):
            shard.append([("subscribe", boxes.slice(start, size))])
        return shard.read(len)

    return Trial(
        count,
        [
            Contender("service", prepare=served, run=register),
            Contender("shard", prepare=lambda: shard_of(boxes.slice(0, 0), objects), run=in_process),
        ],
        baseline="shard",
        agrees=lambda answers: set(answers.values()) == {count},
    )


@case(
    "service.overhead",
    small={"rows": [1_000], "batches": [20], "subscriptions": [10_000]},
    full={"rows": [1_000], "batches": [100], "subscriptions": [100_000]},
    seed=86,
    unit="event",
    runs=3,
)
def overhead(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Batches over HTTP in Arrow, by one client, beside `Shard.apply` in process."""
    boxes, objects = boxes_of(parameters["subscriptions"], rng), objects_of(OBJECTS, rng)
    served, shard = filled(Served(), boxes, objects), shard_of(boxes, objects)
    size, count = parameters["rows"], parameters["batches"]

    def tables() -> list[pa.Table]:
        return [objects_of(size, rng) for _ in range(count)]

    def over_http(requests: list[bytes]) -> int:
        return len(on_loop(load(served.port, requests, 1)))

    def in_process(batches: list[pa.Table]) -> int:
        for batch in batches:
            shard.apply(batch, after=shard.token)
        return len(batches)

    return Trial(
        size * count,
        [
            Contender(
                "service",
                prepare=lambda: [post(f"{STREAM}/events", table_bytes(each), ARROW) for each in tables()],
                run=over_http,
            ),
            Contender("shard", prepare=tables, run=in_process),
        ],
        baseline="shard",
        agrees=lambda answers: set(answers.values()) == {count},
    )


@case(
    "shard.answers",
    small={"subscriptions": [20_000], "deltas": [5_000], "batches": [10]},
    full={"subscriptions": [100_000], "deltas": [560_000], "batches": [60]},
    seed=88,
    unit="delta",
    runs=1,
)
def large_answers(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """`Shard.apply` of batches with large answers, beside `publish` without a shard."""
    subscriptions, count = parameters["subscriptions"], parameters["batches"]
    low = rng.random(subscriptions) * 0.8
    boxes = pa.table({"id": np.arange(subscriptions), "x_lo": low, "x_hi": low + 0.2})
    objects = objects_of(OBJECTS, rng)
    new = max(1, parameters["deltas"] * 5 // (2 * subscriptions))  # each is in a fifth, and somebody leaves
    batches = [
        pa.table(
            {
                "id": OBJECTS + place * new + np.arange(new),
                "x": rng.random(new),
                "y": np.full(new, -place - 1.0),
            }
        )
        for place in range(count)
    ]

    def engine() -> RangeTopK:
        made = RangeTopK(k=10)
        made.publish(objects)
        made.subscribe(boxes)
        return made

    def alone(made: RangeTopK) -> int:
        return sum(made.publish(batch).num_rows for batch in batches)

    def durable(shard: Shard[RangeTopK]) -> int:
        return sum(shard.apply(batch, after=shard.token)[1].num_rows for batch in batches)

    return Trial(
        alone(engine()),
        [
            Contender("shard", prepare=lambda: shard_of(boxes, objects), run=durable),
            Contender("publish", prepare=engine, run=alone),
        ],
        baseline="publish",
        agrees=lambda answers: len(set(answers.values())) == 1,
    )


@case("service.idle", small={"streams": [1]}, full={"streams": [1]}, seed=87, unit="start", runs=2)
def idle(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """From starting Python to the first answer; and the memory of a service with one empty stream."""

    def start(_: Any) -> dict[str, float]:
        served = Served()
        time.sleep(1)
        found = {"ready_seconds": served.seconds, "memory": float(served.memory())}
        served.end()
        return found

    return Trial(1, [Contender("start", run=start, counters=lambda _, found: found)])
