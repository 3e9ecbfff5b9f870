"""Cases of `GeoTextTopK`: messages that arrive and expire, subscriptions that come, change and go, memory."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import GeoTextTopK
from rankcast.bench.baselines.geotext import TermAtATime, best_scores, score
from rankcast.bench.runner import Answers, Contender, Parameters, Trial, case, publish_all
from rankcast.bench.workloads import batches, geotext
from rankcast.bench.workloads.geotext import BOUNDS, World, silent, world
from rankcast.tables.deltas import replay

SAMPLE = 20
DIAGONAL = math.sqrt(2.0)
ROUNDING = 1e-12


SMALL = {"subscriptions": [2_000], "window": [2_000], "events": [200], "k": [20]}
FULL = {"subscriptions": [200_000], "window": [200_000], "events": [2_000], "k": [20]}
PAPER = {"subscriptions": [1_000_000], "window": [1_000_000], "events": [2_000], "k": [20]}
FEW = 20  # what the baseline does of the work


def publisher(of: World, name: str, *, room: bool = False, words: bool = True) -> Contender:
    """A contender that publishes what comes next, a thousand at a time.

    With `room` nothing expires; without `words` nothing enters a result.
    """
    arriving = of.messages.slice(of.held)
    if not words:
        arriving = silent(arriving, first_id=2 * of.messages.num_rows)
    slices = batches(arriving, 1_000)
    return Contender(
        name,
        prepare=of.roomy if room else of.full,
        run=lambda engine: publish_all(engine, slices),
        stats=GeoTextTopK.stats,
        counters=sizes,
        bytes=state_bytes,
    )


def state_bytes(engine: GeoTextTopK) -> int:
    """The size of the state, and of the lists of covering cells, which follow from it."""
    live = engine._live
    lists = 0 if live is None or live.method != "ciq" else live.list_bytes()
    return lists + sum(array.nbytes for array in engine.state()[1].values())


def sizes(engine: GeoTextTopK, _: Any) -> dict[str, float]:
    """Messages in the buffer of a subscription, and bytes per subscription of the parts of the state."""
    by_part = {"buffer_size": engine.stats()["buffered"] / len(engine)}
    for part, used in engine.memory().items():
        by_part[f"bytes_{part.replace(' ', '_')}"] = used / len(engine)
    return by_part


def baseline(of: World, name: str, run: Callable[[TermAtATime], Any], *, work: int = FEW) -> Contender:
    """A contender that walks inverted files without any bound; it does the first few of the work."""
    return Contender(name, prepare=_plain(of).again, run=run, work=work, runs=3)


def _plain(of: World) -> TermAtATime:
    west, south, east, north = geotext.bounds_of(of.messages)
    return TermAtATime(
        of.messages,
        of.held,
        of.subscriptions,
        of.engine.results(),
        of.k,
        of.vocabulary,
        math.hypot(east - west, north - south),
    )


def agree(one: GeoTextTopK, other: TermAtATime) -> bool:
    """Whether a sample of the results after the same messages is the same but for rounding."""
    for row in range(SAMPLE):
        found = one.results([row])["score"].to_pylist()
        if not _close(found, other.boards.score[row, : other.boards.size[row]].tolist()):
            return False
    return True


def both(it: TermAtATime) -> None:
    """Let a few messages in, and as many go."""
    it.arrive(FEW)
    it.expire(FEW)


@case("geotext.arrival", small=SMALL, full=FULL, seed=24, unit="message", runs=3, reproduces="[Geo Fig 9]")
def arrival(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Messages that arrive in a window with room for them, and enter results."""
    made = world(parameters)
    plain = baseline(made, "term-at-a-time", lambda it: it.arrive(FEW))
    return Trial(
        work=parameters["events"],
        contenders=[publisher(made, "igpt", room=True), plain],
        baseline="term-at-a-time",
        agrees=lambda _: _follows(made, full=False),
    )


@case("geotext.expiry", small=SMALL, full=FULL, seed=24, unit="message", runs=3, reproduces="[Geo Fig 10]")
def expiry(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Messages that expire from a full window, pushed out by messages without words; and arrivals."""
    made = world(parameters)
    return Trial(
        work=parameters["events"],
        contenders=[
            publisher(made, "expiry", words=False),
            publisher(made, "arrival", room=True),
            baseline(made, "term-at-a-time", lambda it: it.expire(FEW)),
        ],
        baseline="arrival",
        agrees=lambda _: _follows(made, full=True),
    )


@case(
    "geotext.publish",
    small=SMALL,
    full=[FULL, PAPER],
    seed=24,
    unit="message",
    runs=3,
    reproduces="[Geo Fig 11]",
)
def publish(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Messages into a full window, where every arrival expires one."""
    made = world(parameters)
    return Trial(
        work=parameters["events"],
        contenders=[publisher(made, "igpt, cost-skyband"), baseline(made, "term-at-a-time", both)],
        baseline="term-at-a-time",
        agrees=lambda _: _follows(made, full=True),
    )


@case(
    "geotext.one",
    small=SMALL,
    full={"subscriptions": [10_000], "window": [10_000], "events": [2_000], "k": [10]},
    seed=24,
    unit="message",
    runs=5,
)
def one(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Messages that come one at a time, each a list of one dict, beside a scan of all subscriptions.

    The engine's window is full, so that every arrival expires one; of that the scan does nothing.
    """
    made = world(parameters)
    calls = [[row] for row in made.messages.slice(made.held).to_pylist()]
    return Trial(
        work=parameters["events"],
        contenders=[
            Contender(
                "one dict",
                prepare=made.full,
                run=lambda engine: publish_all(engine, calls),
                stats=GeoTextTopK.stats,
            ),
            baseline(made, "scan of all", lambda it: it.scan(FEW)),
        ],
        baseline="scan of all",
        agrees=lambda _: _follows_one_by_one(made, calls),
    )


def _follows(of: World, *, full: bool) -> bool:
    """Play the first few messages to a copy of the engine and to the baseline, and compare a sample."""
    plain, engine = _plain(of), of.full() if full else of.roomy()
    engine.publish(of.messages.slice(of.held, FEW))
    plain.arrive(FEW)
    if full:
        plain.expire(FEW)
    plain.first_results(np.arange(SAMPLE, dtype=np.int32))
    return agree(engine, plain)


def _follows_one_by_one(of: World, calls: list[Any]) -> bool:
    """The same with messages one at a time, and a baseline that scans."""
    plain, engine = _plain(of), publish_all(of.roomy(), calls[:FEW])
    plain.scan(FEW)
    return agree(engine, plain)


def loaded(method: str, parameters: Parameters, held: pa.Table, subscriptions: pa.Table) -> GeoTextTopK:
    """Make an engine with a full window and all subscriptions in it."""
    engine = GeoTextTopK(
        bounds=geotext.BOUNDS, k=parameters["k"], window=parameters["window"], method=method, refill="none"
    )
    engine.publish(held)
    engine.subscribe(subscriptions)
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


ROWS = 1_000  # in a call
SHARE = 20  # one in so many changes
MOST = 20_000  # and no more
STEP = 0.01  # how far somebody walks, of the bounds


@case("geotext.subscribe", small=SMALL, full=[FULL, PAPER], seed=24, unit="subscription", runs=3)
def subscribe(parameters: Parameters, _: np.random.Generator) -> Trial:
    """New subscriptions with their first results, beside a scan of the postings of their words."""
    made = world(parameters)
    some = made.subscriptions.slice(0, ROWS)
    rows = np.arange(some.num_rows, dtype=np.int32)

    def without() -> GeoTextTopK:
        engine = made.roomy()
        engine.unsubscribe(rows)
        return engine

    return Trial(
        work=some.num_rows,
        contenders=[
            Contender("subscribe", prepare=without, run=lambda engine: engine.subscribe(some)),
            baseline(made, "term-at-a-time", lambda it: it.first_results(rows), work=some.num_rows),
        ],
        baseline="term-at-a-time",
        agrees=lambda _: _follows(made, full=False),
    )


def calls(call: Callable[[Any], pa.Table], rows: Any) -> pa.Table:
    """Call with so many rows at a time; the answer to the first call."""
    parts = [rows[start : start + ROWS] for start in range(0, len(rows), ROWS)]
    answers = [call(part) for part in parts]
    return answers[0]


def otherwise(some: pa.Table, others: pa.Table, rng: np.random.Generator) -> dict[str, dict[str, Any]]:
    """By kind of amendment: what subscriptions have before it in the columns that it sets."""
    near = {
        name: np.clip(some[name].to_numpy() + rng.normal(0.0, STEP, some.num_rows), *BOUNDS[1::2])
        for name in "xy"
    }
    return {
        "a step": near,
        "another place": {name: others[name] for name in "xy"},
        "other words": {"terms": others["terms"]},
        "another alpha": {"alpha": others["alpha"]},
        "a larger k": {"k": np.full(some.num_rows, 10)},
        "a smaller k": {"k": np.full(some.num_rows, 40)},
        "everything": {name: others[name] for name in ("x", "y", "terms", "alpha")},
    }


@case("geotext.amend", small=SMALL, full=[FULL, PAPER], seed=24, unit="subscription", runs=3)
def amend(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Subscriptions amended to what others register again, by what changes, and removed; call by call.

    Many calls follow one another, since lists and buffers make room for several at a time.
    """
    made, count = world(parameters), min(MOST, max(ROWS, parameters["subscriptions"] // SHARE))
    some, others = made.subscriptions.slice(0, count), made.subscriptions.slice(count, count)
    ids, first = some["id"].to_numpy(), some["id"].to_numpy()[:ROWS]
    wanted = some.append_column("k", pa.nulls(some.num_rows, pa.int64()))
    on_stage: list[GeoTextTopK] = []  # one at a time: a million subscriptions take more than a gigabyte
    before: dict[str, pa.Table] = {}

    def contender(kind: str, change: Callable[[GeoTextTopK], Any], call: str, rows: Any) -> Contender:
        def prepare() -> None:
            on_stage.clear()
            engine = made.roomy()
            change(engine)
            before[kind] = engine.results(first if call != "subscribe" else [])
            on_stage.append(copy.deepcopy(engine))  # what was changed is in no cache any more

        return Contender(kind, prepare=prepare, run=lambda _: calls(getattr(on_stage[0], call), rows))

    def amender(kind: str, former: dict[str, Any]) -> Contender:
        change = partial(GeoTextTopK.amend, rows={"id": ids, **former})
        return contender(kind, change, "amend", wanted.select(["id", *former]))

    def agrees(answers: Answers) -> bool:
        now = replay(before["subscribe"], answers["subscribe"])
        after = {kind: replay(before[kind], answer) for kind, answer in answers.items()}
        gone = after.pop("unsubscribe")
        return not gone and all(each == now for each in after.values()) and _follows(made, full=False)

    return Trial(
        work=some.num_rows,
        contenders=[
            contender("subscribe", partial(GeoTextTopK.unsubscribe, ids=ids), "subscribe", some),
            *(amender(kind, former) for kind, former in otherwise(some, others, rng).items()),
            contender("unsubscribe", len, "unsubscribe", ids),
        ],
        baseline="subscribe",
        agrees=agrees,
    )


@case("geotext.memory", small=SMALL, full=PAPER, seed=24, unit="message", runs=1)
def memory(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Bytes a subscription of the parts of the state, after messages into a full window."""
    made = world(parameters)
    return Trial(
        work=parameters["events"],
        contenders=[publisher(made, "igpt, cost-skyband")],
        agrees=lambda _: _follows(made, full=True),
    )
