"""What a load needs: shards, cores, memory and network, from constants measured on this machine.

The model is a line. Of one event a shard with s subscriptions takes a + b s seconds of a core and tells c s
deltas, and it holds m + n s bytes. `calibrate` measures small engines over a uniform workload and fits the
constants; nothing else is known of an engine. Where every shard is sent every event, a is paid once a shard
and b s is divided; where events are divided, a shard has all subscriptions and a part of the events. So the
smallest number of shards follows, and what no number of shards can do: see `plan`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast import GeoTextTopK, RangeTopK, RankedMatcher
from rankcast.core.engine import Engine
from rankcast.errors import InputError

BUSY = 0.6  # of a core, at most: the rest is for peaks
SPARK = 2.0  # processor time of a Spark stream for each second of its engine, in large micro-batches
DELTA_BYTES = 60  # of a delta as a row of Spark's
ROOM = 2.0  # memory for each byte of a shard, while it is written down
SIZES = (10_000, 40_000, 80_000)
EVENTS, ROUNDS = 500, 12


class Load(NamedTuple):
    """What is asked for.

    Attributes:
        engine: the name of the engine.
        subscriptions: how many.
        events: how many a second.
        k: of the engine.
        items: live objects, or messages in the window.
    """

    engine: str
    subscriptions: int
    events: float
    k: int = 10
    items: int = 20_000


@dataclass(frozen=True)
class Constants:
    """What was measured.

    Attributes:
        event: seconds of a core for an event, whatever subscriptions there are ...
        subscription: ... and for each of them.
        deltas: that an event tells, a subscription.
        fixed: bytes of a shard without subscriptions ...
        each: ... and of one.
        row: bytes of an event.
    """

    event: float
    subscription: float
    deltas: float
    fixed: float
    each: float
    row: float

    def seconds(self, subscriptions: float) -> float:
        """What an event takes in a shard of so many."""
        return self.event + self.subscription * subscriptions


WORDS = np.array([f"w{place}" for place in range(5_000)])
_COMMON = 1 / np.arange(1, WORDS.size + 1)


def _terms(count: int, size: int, rng: np.random.Generator) -> pa.Array:
    chosen = rng.choice(WORDS.size, (count, size), p=_COMMON / _COMMON.sum())
    return pa.array(list(WORDS[chosen]), pa.list_(pa.string()))


def _places(first: int, count: int, size: int, rng: np.random.Generator) -> dict[str, Any]:
    place = {"id": np.arange(first, first + count), "x": rng.random(count), "y": rng.random(count)}
    return {**place, "terms": _terms(count, size, rng)}


def _ranges(count: int, rng: np.random.Generator) -> dict[str, Any]:
    low = rng.random(count) * 0.99
    return {"id": np.arange(count), "x_lo": low, "x_hi": low + rng.random(count) * 0.01}


def _boxes(count: int, rng: np.random.Generator) -> dict[str, Any]:
    low = rng.random((count, 2)) * 0.9
    made: dict[str, Any] = {"id": np.arange(count), "score": rng.random(count)}
    for place, name in enumerate("xy"):
        made |= {f"{name}_lo": low[:, place], f"{name}_hi": low[:, place] + 0.1}
    return made


class Workload(NamedTuple):
    """A uniform workload of one engine: an engine of a load, its subscriptions, its events."""

    make: Callable[[Load], Any]
    subscriptions: Callable[[int, np.random.Generator], Mapping[str, Any]]
    events: Callable[[int, int, Load, np.random.Generator], Mapping[str, Any]]  # first id, how many


WORKLOADS = {
    "RangeTopK": Workload(
        lambda load: RangeTopK(k=load.k),
        _ranges,
        lambda first, count, load, rng: {
            "id": np.arange(first, first + count) % load.items,
            "x": rng.random(count),
            "y": rng.random(count),
        },
    ),
    "RankedMatcher": Workload(
        lambda load: RankedMatcher(over=["x", "y"], k=load.k, tuning={"threads": 1}),
        _boxes,
        lambda first, count, load, rng: {
            "id": np.arange(first, first + count),
            "x": rng.random(count),
            "y": rng.random(count),
        },
    ),
    "GeoTextTopK": Workload(
        lambda load: GeoTextTopK(bounds=(0, 0, 1, 1), k=load.k, window=load.items),
        lambda count, rng: _places(0, count, 3, rng),
        lambda first, count, load, rng: _places(first, count, 6, rng),
    ),
}


def workload_of(load: Load) -> Workload:
    """The workload of a load's engine.

    Raises:
        InputError: there is none.
    """
    if load.engine not in WORKLOADS:
        raise InputError.unknown(load.engine, WORKLOADS, where="engine", word="engine")
    return WORKLOADS[load.engine]


class Point(NamedTuple):
    """An engine that was measured: subscriptions, seconds and deltas of an event, bytes, those of a row."""

    subscriptions: int
    seconds: float
    deltas: float
    bytes: float
    row: float


def measure(load: Load, *, rounds: int = ROUNDS, seed: int = 71) -> Point:
    """Run an engine under a load, on one core, and see what it takes; the least of some rounds."""
    workload, rng = workload_of(load), np.random.default_rng(seed)
    engine: Engine = workload.make(load)
    run: Any = engine.publish  # type: ignore[attr-defined]
    if engine.spec.answer.kind == "deltas":
        run(workload.events(0, load.items, load, rng))
    engine.subscribe(workload.subscriptions(load.subscriptions, rng))  # type: ignore[attr-defined]
    spent, told, first = [], 0, load.items
    for _ in range(rounds + 1):  # the first one warms up
        rows = pa.table(dict(workload.events(first, EVENTS, load, rng)))
        started = time.process_time()
        told = run(rows).num_rows
        spent.append((time.process_time() - started) / EVENTS)
        first += EVENTS
    size = sum(array.nbytes for array in engine.state()[1].values())
    return Point(load.subscriptions, min(spent[1:]), told / EVENTS, float(size), rows.nbytes / EVENTS)


def calibrate(load: Load) -> Constants:
    """The constants of a load's engine, k and items on this machine. Cost: some seconds."""
    points = [measure(load._replace(subscriptions=size)) for size in SIZES]
    sizes = np.array([point.subscriptions for point in points], np.float64)
    b, a = np.polyfit(sizes, [point.seconds for point in points], 1)
    n, m = np.polyfit(sizes, [point.bytes for point in points], 1)
    matches = workload_of(load).make(load).spec.answer.kind != "deltas"
    deltas = points[-1].deltas if matches else points[-1].deltas / sizes[-1]
    found = (max(a, 1e-8), max(b, 0.0), deltas, max(m, 0.0), max(n, 0.0), points[-1].row)
    return Constants(*map(float, found))


class Planned(NamedTuple):
    """What a load needs.

    Attributes:
        streams: how many streams events must be divided into beforehand, by place or by kind.
        shards: of each stream.
        cores: of all, Spark's own work among them.
        memory: bytes of all shards, and the room to write them down.
        network_in: bytes a second that reach shards.
        network_out: bytes a second that they tell.
        seconds: of a core an event takes, over all shards.
        first: what breaks first.
    """

    streams: int
    shards: int
    cores: int
    memory: float
    network_in: float
    network_out: float
    seconds: float
    first: str


def plan(load: Load, known: Constants, *, memory: float = 32e9) -> Planned:
    """What a load needs if no host's core has more than `memory` bytes for its shard."""
    divided = workload_of(load).make(load).spec.input("events").divided
    return _by_events(load, known, memory) if divided else _by_subscriptions(load, known, memory)


def _by_events(load: Load, known: Constants, memory: float) -> Planned:
    """Each shard has all subscriptions and a part of the events."""
    share = known.seconds(load.subscriptions)
    shards = max(1, math.ceil(load.events * share / BUSY))
    size = ROOM * (known.fixed + known.each * load.subscriptions)
    out = known.deltas * load.events * DELTA_BYTES
    first = "cores: work grows with events a second"
    if size > memory:
        first = (
            f"memory: all subscriptions take {size / 1e9:,.0f} GB in every shard; divide them into streams"
        )
    return _planned(load, known, 1, shards, share, size * shards, load.events * known.row, out, first)


def _by_subscriptions(load: Load, known: Constants, memory: float) -> Planned:
    """Each shard has a part of the subscriptions and gets all events."""
    streams = max(1, math.ceil(load.events * known.event / (BUSY / 2)))
    events = load.events / streams
    left = BUSY / events - known.event
    by_time = load.subscriptions * known.subscription / left
    by_room = load.subscriptions * known.each / max(memory / ROOM - known.fixed, 1.0)
    shards = max(1, math.ceil(max(by_time, by_room)))
    share = known.seconds(load.subscriptions / shards) * shards
    size = ROOM * (known.fixed * shards + known.each * load.subscriptions)
    out = known.deltas * load.subscriptions * load.events * DELTA_BYTES
    first = "cores: work grows with subscriptions times events"
    if by_room > by_time:
        first = "memory of a shard: subscriptions take more room than time"
    if streams > 1:
        most = BUSY / 2 / known.event
        first = f"the part of an event that every shard repeats: a stream takes {most:,.0f} events a second"
    return _planned(
        load, known, streams, shards, share, size * streams, shards * load.events * known.row, out, first
    )


def _planned(
    load: Load,
    known: Constants,
    streams: int,
    shards: int,
    share: float,
    memory: float,
    network_in: float,
    network_out: float,
    first: str,
) -> Planned:
    cores = max(streams * shards, math.ceil(load.events * share * SPARK / BUSY))
    if network_out > 1e9 * max(1, cores // 16):
        first = f"the sink: {network_out / 1e9:,.1f} GB a second of deltas"
    return Planned(streams, shards, cores, memory, network_in, network_out, share, first)
