"""What a load needs: shards, cores, memory and network, from constants measured on this machine.

Of one event a shard with s subscriptions takes t(s) seconds of a core and tells c s deltas, and it holds
m + n s bytes. `calibrate` measures engines of a few sizes over a uniform workload, all of them in turn, since
a machine is not equally busy all the time; t is straight between those sizes and beyond them. (One line does
not do: RangeTopK takes 11, 20, 41, 52 us with 5, 20, 40, 80 thousand.) Nothing else is known of an engine.
Where every shard is sent every event, t(0) is paid once a shard and the rest is divided; where events are
divided, a shard has all subscriptions and a part of the events. So the smallest number of shards follows, and
what no number of shards can do: see `plan`.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast import GeoTextTopK, RangeTopK, RankedMatcher
from rankcast.errors import InputError

BUSY = 0.6  # of a core, at most: the rest is for peaks
SPARK = 2.0  # processor time of a Spark stream for each second of its engine, in large micro-batches
DELTA_BYTES = 60  # of a delta as a row of Spark's
ROOM = 2.0  # memory for each byte of a shard, while it is written down
SIZES = (5_000, 20_000, 40_000, 80_000)
EVENTS, ROUNDS = 500, 12
LONG = 0.02  # seconds that a round takes at least; quick engines get more batches for that


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
        event: seconds of a core for an event in a shard without subscriptions ...
        subscription: ... and for each of them, beyond the largest size that was measured.
        deltas: that an event tells, a subscription.
        fixed: bytes of a shard without subscriptions ...
        each: ... and of one.
        row: bytes of an event.
        sizes: numbers of subscriptions that were measured, ascending ...
        times: ... and what an event takes with each, not descending.
    """

    event: float
    subscription: float
    deltas: float
    fixed: float
    each: float
    row: float
    sizes: tuple[float, ...] = ()
    times: tuple[float, ...] = ()

    def seconds(self, subscriptions: float) -> float:
        """What an event takes in a shard of so many."""
        sizes, times = (0.0, *self.sizes), (self.event, *self.times)
        beyond = max(0.0, subscriptions - sizes[-1])
        return float(np.interp(subscriptions, sizes, times)) + beyond * self.subscription

    def most(self, seconds: float) -> float:
        """The most subscriptions with which an event takes no longer, perhaps infinitely many."""
        sizes, times = (0.0, *self.sizes), (self.event, *self.times)
        if seconds >= times[-1]:
            rest = seconds - times[-1]
            return sizes[-1] + (rest / self.subscription if self.subscription else math.inf)
        return float(np.interp(seconds, times, sizes))


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


class _Engine:
    """An engine under a load, which takes events on request."""

    def __init__(self, load: Load, seed: int) -> None:
        self._load, self._workload, self._rng = load, workload_of(load), np.random.default_rng(seed)
        self._engine: Any = self._workload.make(load)
        if self._engine.spec.answer.kind == "deltas":
            self._engine.publish(self._workload.events(0, load.items, load, self._rng))
        self._engine.subscribe(self._workload.subscriptions(load.subscriptions, self._rng))
        self._first = load.items
        self._spent: list[float] = []
        self.take()
        self._spent.clear()  # that one was to warm up

    def take(self) -> None:
        """Take batches of events for a while."""
        spent, events = 0.0, 0
        while spent < LONG:
            rows = pa.table(dict(self._workload.events(self._first, EVENTS, self._load, self._rng)))
            started = time.process_time()
            told = self._engine.publish(rows).num_rows
            spent += time.process_time() - started
            self._first += EVENTS
            events += EVENTS
        self._spent.append(spent / events)
        self._told, self._row = told / EVENTS, rows.nbytes / EVENTS

    def point(self) -> Point:
        """What came out: the least of all rounds."""
        size = float(sum(array.nbytes for array in self._engine.state()[1].values()))
        return Point(self._load.subscriptions, min(self._spent), self._told, size, self._row)


def measure(loads: Sequence[Load], *, rounds: int = ROUNDS, seed: int = 71) -> list[Point]:
    """Run engines under loads, on one core, in turn, and see what they take."""
    engines = [_Engine(load, seed) for load in loads]
    for _ in range(rounds):
        for engine in engines:
            engine.take()
    return [engine.point() for engine in engines]


def calibrate(load: Load) -> Constants:
    """The constants of a load's engine, k and items on this machine. Cost: some seconds."""
    points = measure([load._replace(subscriptions=size) for size in SIZES])
    sizes = np.array([point.subscriptions for point in points], np.float64)
    spent = np.array([point.seconds for point in points])
    times = np.minimum.accumulate(spent[::-1])[::-1]  # what disturbs only adds: the smaller one is right
    slopes = np.diff(times) / np.diff(sizes)
    event = max(float(times[0] - slopes[0] * sizes[0]), 1e-8)
    n, m = np.polyfit(sizes, [point.bytes for point in points], 1)
    matches = workload_of(load).make(load).spec.answer.kind != "deltas"
    deltas = points[-1].deltas if matches else points[-1].deltas / sizes[-1]
    return Constants(
        event=event,
        subscription=float(slopes[-1]),
        deltas=float(deltas),
        fixed=max(float(m), 0.0),
        each=max(float(n), 0.0),
        row=points[-1].row,
        sizes=tuple(sizes.tolist()),
        times=tuple(times.tolist()),
    )


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
    by_time = load.subscriptions / known.most(BUSY / events)
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
