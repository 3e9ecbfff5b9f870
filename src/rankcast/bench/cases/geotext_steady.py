"""Cases of `GeoTextTopK` in a steady state: every message of the window has been replaced once before."""

from __future__ import annotations

import copy
import math
from datetime import datetime, timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankcast import GeoTextTopK, Vocabulary
from rankcast.bench.baselines.geotext_buffers import BufferedTermAtATime
from rankcast.bench.runner import Contender, Parameters, Trial, case, publish_all
from rankcast.bench.workloads import batches, geotext

ROUNDING = 1e-12
SAMPLE = 50  # results that are compared
FEW = 200  # messages that the baseline takes
REFILLS: dict[str, dict[str, Any]] = {
    "cost-skyband": {"refill": "cost-skyband"},
    "skyband": {"refill": "skyband"},
    **{f"kmax {most}": {"refill": "kmax", "tuning": {"kmax": most}} for most in (2, 3, 5)},
    "none": {"refill": "none"},
}


MANY = {"subscriptions": [20_000], "events": [3_000]}


class Steady(NamedTuple):
    """A window's worth of messages, another one, and what comes next; subscriptions drawn from the first."""

    messages: pa.Table
    subscriptions: pa.Table
    vocabulary: Vocabulary
    window: int
    k: int
    half_lives: int  # of the window; 0: scores do not decay
    generated: bool  # messages are made up, since the real ones are not here

    def engine(self, **settings: Any) -> GeoTextTopK:
        """An engine whose window has been turned over once."""
        window: Any = self.window
        if self.half_lives:
            window = timedelta(seconds=self.window)
            settings["half_life"] = window / self.half_lives
        bounds = geotext.bounds_of(self.messages)
        engine = GeoTextTopK(bounds=bounds, k=self.k, window=window, vocabulary=self.vocabulary, **settings)
        engine.publish(self.messages.slice(0, self.window))
        engine.subscribe(self.subscriptions)
        publish_all(engine, batches(self.messages.slice(self.window, self.window), 1_000))
        return engine

    def publisher(self, name: str, size: int = 1_000, **settings: Any) -> Contender:
        """Publishes what comes next, so many at a time."""
        made: list[GeoTextTopK] = []

        def prepare() -> GeoTextTopK:
            made[:] = made or [self.engine(**settings)]
            return copy.deepcopy(made[0])

        slices = batches(self.messages.slice(2 * self.window), size)
        return Contender(
            self.named(name),
            prepare=prepare,
            run=lambda engine: publish_all(engine, slices),
            stats=GeoTextTopK.stats,
        )

    def named(self, name: str) -> str:
        """The name of a contender, which says so if messages are made up in place of real ones."""
        return f"{name} (generated)" if self.generated else name

    def plain(self) -> BufferedTermAtATime:
        """The inverted file with kmax buffers, at the same place of the stream.

        Its first lists are those of an engine: a search of its own for each would take the longest.
        """
        bounds, most = geotext.bounds_of(self.messages), 3 * self.k
        west, south, east, north = bounds
        engine = GeoTextTopK(
            bounds=bounds, k=most, window=self.window, vocabulary=self.vocabulary, refill="none"
        )
        engine.publish(self.messages.slice(self.window, self.window))
        parts = []
        for part in batches(self.subscriptions, 20_000):
            engine.subscribe(part)
            parts.append(engine.results().select(["subscription", "rank", "item", "score"]))
            engine.unsubscribe(part["id"])
        lists = pa.concat_tables(parts)
        place = pc.subtract(lists["item"], self.window)  # messages count from there
        lists, diagonal = lists.set_column(2, "item", place), math.hypot(east - west, north - south)
        return BufferedTermAtATime(
            self.messages.slice(self.window), self.window, self.subscriptions, lists, self.k, self.vocabulary,
            diagonal,
        )  # fmt: skip


def steady(parameters: Parameters) -> Steady:
    """By `data`, `window`, `subscriptions`, `k`, `events` and, if scores decay, `half_lives`."""
    rng = np.random.default_rng(24)
    window, events = parameters["window"], parameters["events"]
    half_lives = parameters.get("half_lives", 0)
    data = parameters["data"]
    generated = data != "synthetic" and not (geotext.DATA / geotext.REAL[data][0]).exists()
    messages = geotext.stream("synthetic" if generated else data, 2 * window + events, rng)
    if messages.num_rows < 2 * window + events:
        raise ValueError(f"there are only {messages.num_rows} {data}")
    if half_lives:
        start = datetime(2024, 1, 1)
        seconds = [start + timedelta(seconds=place) for place in range(messages.num_rows)]
        messages = messages.append_column("time", pa.array(seconds, pa.timestamp("us")))
    subscriptions = geotext.subscriptions(messages.slice(0, window), parameters["subscriptions"], rng)
    vocabulary = Vocabulary.fit(messages.slice(0, window))
    return Steady(messages, subscriptions, vocabulary, window, parameters["k"], half_lives, generated)


def same_scores(one: GeoTextTopK, other: BufferedTermAtATime) -> bool:
    """Whether the scores of a sample of lists are the same."""
    for row in range(SAMPLE):
        found, expected = one.results([row])["score"].to_pylist(), other.best(row)
        if len(found) != len(expected) or not np.allclose(found, expected, rtol=0.0, atol=ROUNDING):
            return False
    return True


@case(
    "geotext.steady",
    small={"subscriptions": [1_000], "window": [1_000], "events": [400], "k": [20], "data": ["synthetic"]},
    full=[
        {"subscriptions": [200_000], "window": [50_000], "events": [1_000], "k": [20], "data": ["reviews"]},
        {"subscriptions": [10_000], "window": [50_000], "events": [1_000], "k": [100], "data": ["reviews"]},
        {
            "subscriptions": [200_000],
            "window": [200_000],
            "events": [1_000],
            "k": [20, 100],
            "data": ["synthetic"],
        },
        {
            "subscriptions": [1_000_000],
            "window": [1_000_000],
            "events": [1_000],
            "k": [20],
            "data": ["synthetic"],
        },
    ],
    seed=24,
    unit="message",
    runs=3,
)
def against_kmax(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Messages into a window that was turned over, beside a plain inverted file with kmax buffers."""
    made = steady(parameters)
    plain, plainly = made.plain(), made.named("inverted file, kmax 3")
    ours = made.publisher("igpt, cost-skyband")

    def agrees(_: Any) -> bool:
        engine, other = ours.prepare(), plain.again()
        engine.publish(made.messages.slice(2 * made.window, FEW))
        other.turn(FEW)
        return same_scores(engine, other)

    return Trial(
        work=parameters["events"],
        contenders=[
            ours,
            Contender(plainly, prepare=plain.again, run=lambda it: it.turn(FEW), work=FEW, runs=3),
        ],
        baseline=plainly,
        agrees=agrees,
    )


@case(
    "geotext.steady-refills",
    small={"subscriptions": [500], "window": [500], "events": [200], "k": [5], "data": ["synthetic"]},
    full=[
        {**MANY, "window": [1_000], "k": [1, 20], "data": ["synthetic"]},
        {**MANY, "window": [30_000], "k": [1, 20, 100, 200], "data": ["reviews"]},
        {**MANY, "window": [200_000], "k": [20], "data": ["synthetic"]},
        {**MANY, "window": [30_000], "k": [20], "data": ["reviews"], "half_lives": [4]},
    ],
    seed=24,
    unit="message",
    runs=3,
)
def refills(parameters: Parameters, _: np.random.Generator) -> Trial:
    """The same stream with every refill; the default is to be the best, or near it."""
    made = steady(parameters)
    contenders = {name: made.publisher(name, **settings) for name, settings in REFILLS.items()}

    def agrees(_: Any) -> bool:
        some = [contenders[name].prepare() for name in ("cost-skyband", "kmax 3")]
        for engine in some:
            engine.publish(made.messages.slice(2 * made.window, FEW))
        one, other = (engine.results() for engine in some)
        return bool(one.equals(other))

    return Trial(
        work=parameters["events"],
        contenders=list(contenders.values()),
        baseline=made.named("kmax 2"),
        agrees=agrees,
    )
