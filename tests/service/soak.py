"""`make soak`: a service under steady load: what it can take is measured first, then it gets 80 % of that.

One process with plain sockets is the load, so that clients cost little beside the service. A line a minute
tells memory, latencies and what else the machine did. At the end memory and latency of the last quarter are
compared with those behind the warm-up, by medians of minutes. Latency is that of the median write. Where
others took most of the machine, or notably more of it in the end than in the beginning, it says nothing, and
the processor time that the service takes for a write is judged alone. Under `taskset` only those processors
count. What came of it is added to `benchmarks/soak.jsonl`.
"""

from __future__ import annotations

import asyncio
import json
import os
import platform
import random
import statistics
import sys
import tempfile
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

from .processes import STREAM, Follower, Process

CLIENTS = 16
MEASURED = 10.0  # seconds, of what it can take
SHARE = 0.8
WARM = 0.25  # of the time; nothing is judged before
MEMORY, LATENCY, COST = 1.02, 1.5, 1.25  # how much the last quarter may have of the one behind the warm-up
NOISE = 0.25  # processors that others may take more of before latency says nothing
RECORD = Path(__file__).parents[2] / "benchmarks" / "soak.jsonl"
HEAD = f"POST {STREAM}/events HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"


class Minute(NamedTuple):
    """What was seen in a minute, or a part of one: times in milliseconds, memory in MiB."""

    memory: float
    p50: float
    p99: float
    rate: float
    cost: float  # milliseconds of processor for a write
    others: float  # processors that the rest of the machine took


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
    minute(process, min(MEASURED, seconds / 10), None)  # warms up
    most = max(minute(process, min(MEASURED, seconds / 10), None).rate for _ in range(2))
    pace = SHARE * most
    say(f"takes {most:.0f} writes a second; {pace:.0f} from here on")
    length = min(60.0, seconds / 20)
    minutes: list[Minute] = []
    ended = time.monotonic() + seconds
    while time.monotonic() < ended:
        minutes.append(minute(process, length, pace))
        follower.heard.clear()  # what was wrong with it is noted
        say(
            "{0.memory:7.1f} MiB  p50 {0.p50:6.1f} ms  p99 {0.p99:6.1f} ms  {0.rate:.0f} a second  "
            "{0.cost:.3f} ms of processor each  others {0.others:.1f}".format(minutes[-1])
        )
    follower.ended.set()
    return judged(minutes, most, pace, seconds, len(follower.wrong))


def judged(minutes: list[Minute], most: float, pace: float, seconds: float, wrong: int) -> int:
    """Tell what has drifted, write it down; whether it is too much."""
    quarter = max(1, len(minutes) // 4)
    start = int(WARM * len(minutes))
    first, last = minutes[start : start + quarter], minutes[-quarter:]
    grown, slower, dearer = (
        middle(last, name) / max(1e-9, middle(first, name)) for name in ("memory", "p50", "cost")
    )
    louder = middle(last, "others") - middle(first, "others") > NOISE
    ours = len(os.sched_getaffinity(0))
    loud = louder or middle(minutes, "others") > ours / 2
    kept = statistics.median(each.rate for each in minutes) / pace
    limits = {
        "memory": grown <= MEMORY,
        "latency": slower <= LATENCY or loud,
        "cost": dearer <= COST,
        "deltas": wrong == 0,
    }
    failed = [name for name, holds in limits.items() if not holds]
    record = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "machine": f"{platform.machine()}, {ours} of {os.cpu_count()} processors",
        "python": platform.python_version(),
        "files": tempfile.gettempdir(),
        "seconds": seconds,
        "writes_a_second_at_most": round(most, 1),
        "writes_a_second": round(pace, 1),
        "share_of_that_kept": round(kept, 3),
        "memory_mib": [round(middle(part, "memory"), 1) for part in (first, last)],
        "p50_ms": [round(middle(part, "p50"), 2) for part in (first, last)],
        "p99_ms": [round(middle(part, "p99"), 2) for part in (first, last)],
        "processor_ms_a_write": [round(middle(part, "cost"), 3) for part in (first, last)],
        "processors_of_others": [round(middle(part, "others"), 2) for part in (first, last)],
        "latency_judged": not loud,
        "wrong_deltas": wrong,
        "failed": failed,
    }
    with RECORD.open("a") as file:
        file.write(json.dumps(record) + "\n")
    say(f"memory x {grown:.3f}, p50 x {slower:.2f}, processor x {dearer:.2f}; {wrong} deltas wrong")
    say(f"failed: {', '.join(failed)}" if failed else "steady")
    return int(bool(failed))


def middle(minutes: list[Minute], name: str) -> float:
    """The median of some minutes."""
    return float(statistics.median(getattr(each, name) for each in minutes))


def minute(process: Process, seconds: float, pace: float | None) -> Minute:
    """Load the service for a while; `pace`: writes a second of all clients together, None: all it takes."""
    before, all_before = processor(process), processors()
    begun = time.monotonic()
    latencies = sorted(asyncio.run(load(process.port, seconds, pace)))
    took = time.monotonic() - begun
    spent = processor(process) - before
    others = max(0.0, processors() - all_before - spent) / took
    return Minute(
        memory(process) / 2**20,
        1000 * latencies[len(latencies) // 2],
        1000 * latencies[int(0.99 * (len(latencies) - 1))],
        len(latencies) / took,
        1000 * spent / len(latencies),
        others,
    )


async def load(port: int, seconds: float, pace: float | None) -> list[float]:
    """What clients saw: the seconds of each write."""
    found: list[float] = []
    begun = time.monotonic()
    rng = random.Random(int(time.time()))  # noqa: S311

    async def client(number: int) -> None:
        reader, writer = await asyncio.open_connection("127.0.0.1", port)
        place = number
        while (now := time.monotonic()) < begun + seconds:
            due = now if pace is None else begun + place / pace
            if due > begun + seconds:
                break
            if due > now:
                await asyncio.sleep(due - now)
            body = b'{"id": %d, "x": %r, "y": %r}' % (rng.randrange(10_000), rng.random(), rng.random())
            sent = time.monotonic()
            writer.write(f"{HEAD}Content-Length: {len(body)}\r\n\r\n".encode() + body)
            await answered(reader)
            found.append(time.monotonic() - sent)
            place += CLIENTS
        writer.close()

    await asyncio.gather(*map(client, range(CLIENTS)))
    return found


async def answered(reader: asyncio.StreamReader) -> None:
    """Read an answer, which must be a good one."""
    head = await reader.readuntil(b"\r\n\r\n")
    if not head.startswith(b"HTTP/1.1 200"):
        raise RuntimeError(head.decode())
    await reader.readexactly(int(head.lower().partition(b"content-length:")[2].split(b"\r\n")[0]))


def memory(process: Process) -> int:
    """Bytes of resident memory."""
    return status(process)["VmRSS"] * 1024


def status(process: Process) -> dict[str, int]:
    """What the system says of the process, in KiB."""
    lines = Path(f"/proc/{process.process.pid}/status").read_text().splitlines()
    return {line.split(":")[0]: int(line.split()[1]) for line in lines if line.startswith("Vm")}


def processor(process: Process) -> float:
    """Seconds of processor that the service has taken."""
    fields = Path(f"/proc/{process.process.pid}/stat").read_text().rsplit(")", 1)[1].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def processors() -> float:
    """Seconds that all but this process have taken of the processors that it may run on."""
    ours = {f"cpu{each}" for each in os.sched_getaffinity(0)}
    rows = [line.split() for line in Path("/proc/stat").read_text().splitlines()]
    fields = [[int(each) for each in row[1:9]] for row in rows if row[0] in ours]
    busy = sum(sum(row) - row[3] - row[4] for row in fields) / os.sysconf("SC_CLK_TCK")
    return busy - time.process_time()


def say(text: str) -> None:
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main(float(sys.argv[1])))
