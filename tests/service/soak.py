"""`make soak`: a service under steady load: what it can take is measured first, then it gets 80 % of that.

Prints a line a minute, and at the end whether memory and latency stayed as they were: the last quarter is
compared with the second one.
"""

from __future__ import annotations

import http.client
import json
import random
import statistics
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from pathlib import Path

from .processes import STREAM, Follower, Process

CLIENTS = 16
SAMPLE = 10.0  # seconds
MEMORY, LATENCY = 1.02, 1.5  # how much the last quarter may have of the second


def main(seconds: float) -> int:
    """Run it; returns 1 if something has drifted."""
    with tempfile.TemporaryDirectory() as folder:
        process = Process(Path(folder) / "data", "--set", f"log_bytes={8 << 20}")
        try:
            return soak(process, seconds)
        finally:
            process.stop()


def soak(process: Process, seconds: float) -> int:
    """Load a service for so long."""
    process.ask("PUT", STREAM, {"engine": "RangeTopK"})
    rows = [{"id": each, "x_lo": each / 10_000, "x_hi": (each + 1) / 10_000} for each in range(10_000)]
    process.ask("POST", f"{STREAM}/subscriptions", {"rows": rows})
    follower = Follower(process, f"{STREAM}/deltas")
    follower.start()
    most = sum(len(each) for each in load(process, 10.0, None)) / 10.0
    pace = 0.8 * most
    say(f"takes {most:.0f} writes a second; {pace:.0f} from here on")
    samples: list[tuple[int, float]] = []
    ended = time.monotonic() + seconds
    while time.monotonic() < ended:
        latencies = sorted(each for some in load(process, SAMPLE, pace) for each in some)
        late = latencies[int(0.99 * (len(latencies) - 1))] * 1000
        samples.append((memory(process), late))
        say(f"{samples[-1][0] / 2**20:7.1f} MiB  p99 {late:6.1f} ms  {len(latencies) / SAMPLE:.0f} a second")
    follower.ended.set()
    quarter = max(1, len(samples) // 4)
    second, last = samples[quarter : 2 * quarter] or samples, samples[-quarter:]
    grown, slower = (
        statistics.median(each[place] for each in last) / statistics.median(each[place] for each in second)
        for place in (0, 1)
    )
    say(f"memory x {grown:.3f}, p99 x {slower:.2f}; {len(follower.wrong)} deltas wrong")
    return int(grown > MEMORY or slower > LATENCY or bool(follower.wrong))


def load(process: Process, seconds: float, pace: float | None) -> list[list[float]]:
    """What clients saw: the seconds of each write. `pace`: writes a second of all of them together."""
    found: list[list[float]] = [[] for _ in range(CLIENTS)]
    threads = [
        threading.Thread(target=client, args=(process, number, seconds, pace, mine))
        for number, mine in enumerate(found)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return found


def client(process: Process, number: int, seconds: float, pace: float | None, found: list[float]) -> None:
    """Publish, one event after the other."""
    rng = random.Random(number + int(time.time()))  # noqa: S311
    connection = http.client.HTTPConnection("127.0.0.1", process.port, timeout=30)
    for due in beats(seconds, None if pace is None else pace / CLIENTS):
        time.sleep(max(0.0, due - time.monotonic()))
        event = {"id": rng.randrange(10_000), "x": rng.random(), "y": rng.random()}
        begun = time.perf_counter()
        headers = {"Content-Type": "application/json"}
        connection.request("POST", f"{STREAM}/events", json.dumps(event).encode(), headers)
        connection.getresponse().read()
        found.append(time.perf_counter() - begun)
    connection.close()


def beats(seconds: float, pace: float | None) -> Iterator[float]:
    """When to write: at once, or so many times a second."""
    begun = time.monotonic()
    place = 0
    while (now := time.monotonic()) < begun + seconds:
        yield now if pace is None else begun + place / pace
        place += 1


def memory(process: Process) -> int:
    """Bytes of resident memory."""
    lines = Path(f"/proc/{process.process.pid}/status").read_text().splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("VmRSS")) * 1024


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
