"""Cases of `GeoTextTopK`."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast import GeoTextTopK, Vocabulary
from rankcast.bench.baselines.plain_geotext import best_scores, score
from rankcast.bench.baselines.term_at_a_time import TermAtATime
from rankcast.bench.case import Contender, Parameters, Trial, case
from rankcast.bench.workloads import batches, geotext
from rankcast.engines.geotext_live import PRUNINGS

SAMPLE = 20
DIAGONAL = math.sqrt(2.0)
ROUNDING = 1e-12


@case(
    "geotext.scan",
    small={"subscriptions": [500], "window": [500], "events": [100], "batch": [50], "k": [20]},
    full={"subscriptions": [5_000], "window": [5_000], "events": [200], "batch": [100], "k": [20]},
    seed=24,
    unit="message",
    runs=5,
)
def scan(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish messages into a full window of the brute-force engine; every arrival expires one."""
    window = parameters["window"]
    messages = geotext.messages(window + parameters["events"], rng, words=5_000)
    held, arriving = messages.slice(0, window), messages.slice(window)
    subscriptions = geotext.subscriptions(held, parameters["subscriptions"], rng)
    slices = batches(arriving, parameters["batch"])
    last = messages.slice(messages.num_rows - window)
    return Trial(
        work=parameters["events"],
        contenders=[
            Contender(
                "scan",
                prepare=lambda: loaded("scan", parameters, held, subscriptions),
                run=lambda engine: publish_all(engine, slices),
                stats=GeoTextTopK.stats,
            )
        ],
        agrees=lambda answers: same_scores(answers["scan"], subscriptions, last, parameters["k"]),
    )


class World(NamedTuple):
    """A full window with all subscriptions in it, and what comes next."""

    messages: pa.Table
    held: int
    subscriptions: pa.Table
    vocabulary: Vocabulary
    k: int
    engine: GeoTextTopK


SMALL = {"subscriptions": [2_000], "window": [2_000], "events": [200], "k": [20]}
FULL = {"subscriptions": [200_000], "window": [200_000], "events": [2_000], "k": [20]}
FEW = 20  # what the baseline does of the work


def world(parameters: Parameters, rng: np.random.Generator, *, room: int = 0, **settings: Any) -> World:
    """Load the window in bulk, then the subscriptions; `room` more messages fit in before one expires."""
    held = parameters["window"]
    messages = geotext.messages(held + parameters["events"], rng)
    subscriptions = geotext.subscriptions(messages.slice(0, held), parameters["subscriptions"], rng)
    vocabulary = Vocabulary.fit(messages.slice(0, held))
    engine = GeoTextTopK(
        bounds=geotext.BOUNDS, k=parameters["k"], window=held + room, vocabulary=vocabulary, **settings
    )
    engine.publish(messages.slice(0, held))
    for rows in batches(subscriptions, 20_000):
        engine.subscribe(rows)
    return World(messages, held, subscriptions, vocabulary, parameters["k"], engine)


def publisher(of: World, name: str, *, words: bool = True) -> Contender:
    """A contender that publishes what comes next, a thousand at a time; without words only expiry costs."""
    arriving = of.messages.slice(of.held)
    if not words:
        empty = pa.array([[]] * arriving.num_rows, arriving.schema.field("terms").type)
        arriving = arriving.set_column(3, "terms", empty)
    slices = batches(arriving, 1_000)
    return Contender(
        name,
        prepare=lambda: copy.deepcopy(of.engine),
        run=lambda engine: publish_all(engine, slices),
        stats=GeoTextTopK.stats,
        bytes=lambda engine: sum(array.nbytes for array in engine.state()[1].values()),
    )


def baseline(of: World, name: str, run: Callable[[TermAtATime], Any]) -> Contender:
    """A contender that walks inverted files without any bound; it does the first few of the work."""
    made = TermAtATime(
        of.messages, of.held, of.subscriptions, of.engine.results(), of.k, of.vocabulary, DIAGONAL
    )
    return Contender(name, prepare=made.again, run=run, work=FEW, runs=3)


def agree(one: GeoTextTopK, other: TermAtATime) -> bool:
    """Whether a sample of the results after the same messages is the same but for rounding."""
    for row in range(SAMPLE):
        found = one.results([row])["score"].to_pylist()
        if not _close(found, other.boards.score[row, : other.boards.size[row]].tolist()):
            return False
    return True


@case("geotext.arrival", small=SMALL, full=FULL, seed=24, unit="message", runs=3, reproduces="[Geo Fig 9]")
def arrival(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Messages that arrive in a window with room for them, and enter results."""
    made = world(parameters, rng, room=parameters["events"])
    ours, plain = publisher(made, "igpt"), baseline(made, "term-at-a-time", lambda it: it.arrive(FEW))
    return Trial(
        work=parameters["events"],
        contenders=[ours, plain],
        baseline="term-at-a-time",
        agrees=lambda _: _follows(made, FEW, 0),
    )


@case("geotext.expiry", small=SMALL, full=FULL, seed=24, unit="message", runs=3, reproduces="[Geo Fig 10]")
def expiry(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Messages that expire from a full window, pushed out by messages without words."""
    made = world(parameters, rng)
    roomy = made._replace(
        engine=world(parameters, np.random.default_rng(24), room=parameters["events"]).engine
    )
    return Trial(
        work=parameters["events"],
        contenders=[
            publisher(made, "expiry", words=False),
            publisher(roomy, "arrival"),
            baseline(made, "term-at-a-time", lambda it: it.expire(FEW)),
        ],
        baseline="arrival",
        agrees=lambda _: _follows(made, FEW, FEW),
    )


@case("geotext.publish", small=SMALL, full=FULL, seed=24, unit="message", runs=3, reproduces="[Geo Fig 11]")
def publish(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Messages into a full window, where every arrival expires one; the refills beside each other."""
    made = world(parameters, rng)
    others = [
        publisher(world(parameters, np.random.default_rng(24), refill=refill), refill)
        for refill in ("skyband", "kmax", "none")
    ]

    def both(it: TermAtATime) -> None:
        it.arrive(FEW)
        it.expire(FEW)

    return Trial(
        work=parameters["events"],
        contenders=[publisher(made, "cost-skyband"), *others, baseline(made, "term-at-a-time", both)],
        baseline="term-at-a-time",
        agrees=lambda _: _follows(made, FEW, FEW),
    )


@case("geotext.subscribe", small=SMALL, full=FULL, seed=24, unit="subscription", runs=3)
def subscribe(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """New subscriptions with their first results; amending and removing them; a scan of their postings."""
    made = world(parameters, rng)
    count = min(1_000, parameters["subscriptions"])
    some = made.subscriptions.slice(0, count)
    ids = np.arange(count)
    moved = {"id": ids, "x": some["x"].to_numpy()[::-1].copy()}

    def without() -> GeoTextTopK:
        engine = copy.deepcopy(made.engine)
        engine.unsubscribe(ids)
        return engine

    def whole() -> GeoTextTopK:
        return copy.deepcopy(made.engine)

    few = np.arange(FEW, dtype=np.int32)
    return Trial(
        work=count,
        contenders=[
            Contender("subscribe", prepare=without, run=lambda engine: engine.subscribe(some)),
            Contender("amend", prepare=whole, run=lambda engine: engine.amend(moved)),
            Contender("unsubscribe", prepare=whole, run=lambda engine: engine.unsubscribe(ids)),
            baseline(made, "term-at-a-time", lambda it: it.first_results(few)),
        ],
        baseline="term-at-a-time",
        agrees=lambda _: _follows(made, 0, 0),
    )


@case("geotext.prunings", small=SMALL, full=FULL, seed=24, unit="message", runs=3, reproduces="[Geo Fig 8]")
def prunings(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Arrivals with all prunings, without those of groups, and with those of groups alone."""
    individual = [name for name in PRUNINGS if name not in ("cell", "group", "stop")]
    grouped = [name for name in PRUNINGS if name not in individual]
    tried = {"all": PRUNINGS, "individual": individual, "groups": [*grouped, "outer"]}
    made = {
        name: world(
            parameters, np.random.default_rng(24), room=parameters["events"], tuning={"prune": list(prune)}
        )
        for name, prune in tried.items()
    }
    return Trial(
        work=parameters["events"],
        contenders=[publisher(of, name) for name, of in made.items()],
        baseline="individual",
        agrees=lambda _: _follows(made["all"], FEW, 0),
    )


def _follows(of: World, arriving: int, leaving: int) -> bool:
    """Play the first few messages to a copy of the engine and to the baseline, and compare a sample."""
    plain = TermAtATime(
        of.messages, of.held, of.subscriptions, of.engine.results(), of.k, of.vocabulary, DIAGONAL
    )
    engine = copy.deepcopy(of.engine)
    engine.publish(of.messages.slice(of.held, arriving))
    plain.arrive(arriving)
    plain.expire(leaving)
    plain.first_results(np.arange(SAMPLE, dtype=np.int32))
    return agree(engine, plain)


def loaded(method: str, parameters: Parameters, held: pa.Table, subscriptions: pa.Table) -> GeoTextTopK:
    """Make an engine with a full window and all subscriptions in it."""
    engine = GeoTextTopK(
        bounds=geotext.BOUNDS, k=parameters["k"], window=parameters["window"], method=method, refill="none"
    )
    engine.publish(held)
    engine.subscribe(subscriptions)
    return engine


def publish_all(engine: GeoTextTopK, slices: list[Any]) -> GeoTextTopK:
    """Publish batch by batch; the answer is the engine itself, for its results."""
    for rows in slices:
        engine.publish(rows)
    return engine


def same_scores(engine: GeoTextTopK, subscriptions: pa.Table, window: pa.Table, k: int) -> bool:
    """Compare the results of a sample with the definition: the k best scores, each by an item that has it.

    Scores may differ by rounding: the definition adds in another order.
    """
    messages = window.to_pylist()
    by_id = {message["id"]: message for message in messages}
    for subscription in subscriptions.slice(0, SAMPLE).to_pylist():
        found = engine.results([subscription["id"]]).to_pydict()
        expected = best_scores(subscription, messages, k, DIAGONAL)
        own = [score(subscription, by_id[item], DIAGONAL) or 0.0 for item in found["item"]]
        if not (_close(found["score"], expected) and _close(found["score"], own)):
            return False
        if len(set(found["item"])) != len(found["item"]):
            return False
    return True


def _close(one: list[float], other: list[float]) -> bool:
    """Whether two lists of scores are equal but for rounding."""
    return len(one) == len(other) and np.allclose(one, other, rtol=0.0, atol=ROUNDING)
