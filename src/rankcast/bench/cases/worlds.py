"""Honest worlds of range top-k, matching and covering: data as they come, each beside a plain program.

A world is real data (generated ones of the same shape where they are absent, and the contenders' names say
so), all subscriptions replaced once, values that drift, rows that arrive in order, large and mixed k, places
in clusters, or next to nothing. Single rows are the cases `*.one` and `*.one-row`, further orders of arrival
`covering.arrivals`, drift of boxes `covering.drift` and `matching.drift`.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pyarrow.parquet as pq

from rankcast import CoveringTable, RangeTopK, RankedMatcher
from rankcast.bench.baselines.covering import BlockedScan
from rankcast.bench.baselines.embedded import answers_equal
from rankcast.bench.baselines.matching import ScoreOrder
from rankcast.bench.baselines.range_topk import AllAnew
from rankcast.bench.cases.covering import play, same_forwarded, weigh
from rankcast.bench.cases.matching_peers import by_event
from rankcast.bench.front import GENERATED
from rankcast.bench.runner import Contender, Parameters, Trial, case
from rankcast.bench.workloads import Columns, Floats, Integers, batches, covering, range_topk

OURS = "rankcast"
RUNS = 3
FEW = 100  # of everything, where n is small
SAMPLE = 200
CLUSTERS = 20
DATA = Path("../shared/data")


class Lists:
    """The plain program of range top-k for subscriptions of several k: one for those of each k."""

    def __init__(self, objects: Columns, subscriptions: Columns, ks: Integers) -> None:
        self._of: dict[int, tuple[AllAnew, Integers]] = {}
        for k in np.unique(ks).tolist():
            rows = np.flatnonzero(ks == k)
            mine = {name: column[rows] for name, column in subscriptions.items() if name != "k"}
            self._of[k] = AllAnew(objects, mine, k), rows
        self._ks = ks

    def publish(self, events: Columns) -> None:
        """Take new values."""
        for program, _ in self._of.values():
            program.publish(events)

    def items(self, row: int) -> list[int]:
        """The ids in one list, best first."""
        program, rows = self._of[int(self._ks[row])]
        return program.items(int(np.searchsorted(rows, row)))


class Ranges(NamedTuple):
    """A world of range top-k."""

    objects: Columns
    subscriptions: Columns
    events: Columns
    ks: Integers
    generated: bool = False


def ranges_of(world: str, parameters: Parameters, rng: np.random.Generator) -> Ranges:
    """Make a world of range top-k by its name."""
    small = world == "small"
    many, count = (FEW, FEW) if small else (parameters["subscriptions"], parameters["objects"])
    updates, kind, generated = parameters["batch"] * (RUNS + 1), range_topk, False
    if world == "quotes":
        generated = not kind.STOCKS.exists()
        objects, events = _quotes(updates, rng) if generated else kind.stocks()
        events = {name: column[:updates] for name, column in events.items()}
    else:
        clustered = world == "clustered"
        objects = kind.objects(count, rng, "clustered" if clustered else "uniform")
        events = kind.uniform_events(objects, updates, rng)
    if world == "drift":  # every value is better than all before it
        events["y"] = -np.arange(1.0, updates + 1)
    if world == "ordered":  # along the attribute, again and again
        events["id"] = np.resize(np.argsort(objects["x"], kind="stable"), updates)
    subscriptions = kind.subscriptions(many, rng, "correlated" if world == "clustered" else "uniform")
    if world == "quotes":
        subscriptions = kind.stretched(subscriptions, objects["x"].min(), objects["x"].max())
    ks = np.full(many, 500 if world == "large k" else parameters["k"])
    if world == "mixed k":
        ks = rng.choice([1, 10, 100], many)
        subscriptions["k"] = ks
    return Ranges(objects, subscriptions, events, ks, generated)


def _quotes(updates: int, rng: np.random.Generator) -> tuple[Columns, Columns]:
    """Values of 500 companies as they look: lognormal, with small steps."""
    count = 500
    y, which = rng.lognormal(3.0, 0.6, count), rng.integers(0, count, updates)
    steps, values = rng.normal(0.0, 0.02, updates), y.copy()
    found = np.empty(updates)
    for at, company in enumerate(which.tolist()):
        values[company] *= 1 + steps[at]
        found[at] = values[company]
    return {"id": np.arange(count), "x": rng.normal(10.5, 0.5, count), "y": y}, {"id": which, "y": found}


@case(
    "range-topk.worlds",
    small={
        "world": ["quotes", "turnover", "drift", "ordered", "large k", "mixed k", "clustered", "small"],
        "subscriptions": [300],
        "objects": [600],
        "k": [10],
        "batch": [50],
    },
    full={
        "world": ["quotes", "turnover", "drift", "ordered", "large k", "mixed k", "clustered", "small"],
        "subscriptions": [100_000],
        "objects": [10_000],
        "k": [10],
        "batch": [1_000],
    },
    seed=101,
    unit="event",
    runs=RUNS,
)
def ranges(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish updates in worlds as they come; beside it all lists anew once a batch."""
    made = ranges_of(parameters["world"], parameters, rng)
    engine, many = RangeTopK(k=int(made.ks.max()) if parameters["world"] == "large k" else 10), len(made.ks)
    engine.publish(made.objects)
    if parameters["world"] == "turnover":
        _turn_over(engine, range_topk.subscriptions(many, rng), made.subscriptions)
    else:
        engine.subscribe(made.subscriptions)
    plain = Lists(made.objects, made.subscriptions, made.ks)
    size, name = parameters["batch"], GENERATED * made.generated
    parts = batches(made.events, size)

    def agrees(_: Any) -> bool:
        for row in range(0, many, max(1, many // SAMPLE)):
            if engine.results([row])["item"].to_pylist() != plain.items(row):
                return False
        return True

    return Trial(
        work=size,
        contenders=[
            Contender(OURS + name, engine.publish, iter(parts).__next__, bytes=lambda _: weigh(engine)),
            Contender(f"Numba, all lists anew{name}", plain.publish, iter(parts).__next__),
        ],
        baseline=f"Numba, all lists anew{name}",
        agrees=agrees,
    )


def _turn_over(engine: Any, first: Columns, last: Columns) -> None:
    """Replace all subscriptions, a tenth at a time."""
    engine.subscribe(first)
    for part in batches(last, max(1, len(last["id"]) // 10)):
        engine.unsubscribe(part["id"])
        engine.subscribe(part)


class Matches(NamedTuple):
    """A world of matching over one attribute."""

    rows: Columns
    events: Columns
    k: int
    generated: bool = False


def matches_of(world: str, parameters: Parameters, rng: np.random.Generator) -> Matches:
    """Make a world of matching by its name."""
    many, size, k = parameters["subscriptions"], parameters["events"], parameters["k"]
    many = FEW if world == "small" else many
    generated = False
    low: Floats = rng.random((many,))
    width: Floats = rng.pareto(1.2, (many,)) * 1e-4
    at: Floats = rng.random((size,))
    if world == "exons":
        path = DATA / "human_exons_bed.parquet"
        generated = not path.exists()
        if generated:
            low, width = np.floor(low * 2.5e8), np.floor(rng.lognormal(5.0, 1.0, many))
        else:
            table = pq.read_table(path, columns=["start", "end"]).slice(0, many)
            low, high = (table[name].to_numpy().astype(np.float64) for name in ("start", "end"))
            width = high - low
        hit = rng.integers(0, len(low), size)
        at = np.floor(low[hit] + rng.random(size) * width[hit])
    if world == "clustered":
        centres = rng.random(CLUSTERS)
        low, at = (centres[rng.integers(0, CLUSTERS, n)] + rng.normal(0.0, 1e-3, n) for n in (len(low), size))
    score = rng.random(len(low))
    if world == "ordered":  # the best come last, and events go upwards
        score, low, at = np.sort(score), np.sort(low), np.sort(at)
    rows = {"id": np.arange(len(low)), "score": score, "x_lo": low, "x_hi": low + width}
    return Matches(rows, {"id": np.arange(size), "x": at}, 500 if world == "large k" else k, generated)


@case(
    "matching.worlds",
    small={
        "world": ["exons", "turnover", "ordered", "large k", "clustered", "small"],
        "subscriptions": [2_000],
        "events": [100],
        "k": [20],
    },
    full={
        "world": ["exons", "turnover", "ordered", "large k", "clustered", "small"],
        "subscriptions": [500_000],
        "events": [1_000],
        "k": [20],
    },
    seed=102,
    unit="event",
    runs=RUNS,
)
def matches(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Find the best intervals for events in worlds as they come; beside it a scan in the order of score."""
    made = matches_of(parameters["world"], parameters, rng)
    engine, size = RankedMatcher(over=["x"], k=made.k), parameters["events"]
    if parameters["world"] == "turnover":
        _turn_over(engine, matches_of("plain", parameters, rng).rows, made.rows)
    else:
        for part in batches(made.rows, 10_000):
            engine.subscribe(part)
    engine.publish(made.events)
    plain, name = ScoreOrder(made.rows, ["x"], made.k), GENERATED * made.generated
    program = f"Numba, score order{name}"
    return Trial(
        work=size,
        contenders=[
            Contender(OURS + name, lambda _: engine.publish(made.events), bytes=lambda _: weigh(engine)),
            Contender(program, lambda _: plain.publish(made.events)),
        ],
        baseline=program,
        agrees=lambda answers: answers_equal(answers[program], by_event(answers[OURS + name], size)),
    )


def boxes_of(world: str, count: int, over: list[str], rng: np.random.Generator) -> tuple[Columns, bool]:
    """Make a world of covering by its name, and whether it stands in for real data."""
    path = DATA / "airbnb_listings_8cities.parquet"
    if world == "listings" and path.exists():
        names = ["minimum_nights", "maximum_nights", "accommodates", "price"]
        table = pq.read_table(path, columns=names).drop_null().slice(0, count)
        least, most, guests, price = (table[name].to_numpy().astype(np.float64) for name in names)
        ends = [
            (least, np.maximum(least, most)),
            (np.ones_like(guests), guests),
            (np.zeros_like(price), price),
        ]
        rows: Columns = {"id": np.arange(len(least))}
        for name, (low, high) in zip(over, ends, strict=True):
            rows[f"{name}_lo"], rows[f"{name}_hi"] = low, high
        return rows, False
    if world == "listings":  # ends that many share
        rows = {"id": np.arange(count)}
        for name in over:
            low = rng.geometric(0.3, count).astype(np.float64)
            rows[f"{name}_lo"], rows[f"{name}_hi"] = low, low + rng.choice([7.0, 30.0, 365.0], count)
        return rows, True
    if world == "clustered":
        centre, size = rng.random((CLUSTERS, len(over))), rng.pareto(1.5, (count, len(over))) * 1e-3
        middle = centre[rng.integers(0, CLUSTERS, count)] + rng.normal(0.0, 0.01, size.shape)
        rows = {"id": np.arange(count)}
        for axis, name in enumerate(over):
            rows[f"{name}_lo"] = middle[:, axis] - size[:, axis]
            rows[f"{name}_hi"] = middle[:, axis] + size[:, axis]
        return rows, False
    if world == "ordered":
        return covering.ordered(count, over, rng, "ascending"), False
    return covering.boxes(FEW if world == "small" else count, over, rng, "heavy-tailed"), False


@case(
    "covering.worlds",
    small={
        "world": ["listings", "turnover", "ordered", "clustered", "single rows", "small"],
        "subscriptions": [1_000],
    },
    full={
        "world": ["listings", "turnover", "ordered", "clustered", "single rows", "small"],
        "subscriptions": [30_000],
    },
    seed=103,
    unit="command",
    runs=RUNS,
)
def covers(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Subscribe in worlds as they come, from empty; beside it a scan of the forwarded boxes in blocks."""
    over, world = covering.attributes(3), parameters["world"]
    rows, generated = boxes_of(world, parameters["subscriptions"], over, rng)
    name, steps = GENERATED * generated, list(_commands(rows, world))
    program = f"Numba, blocked scan{name}"
    return Trial(
        work=sum(len(given) if call == "unsubscribe" else len(given["id"]) for call, given in steps),
        contenders=[
            Contender(
                OURS + name, lambda table: play(table, steps), lambda: CoveringTable(over=over), bytes=weigh
            ),
            Contender(program, lambda table: play(table, steps), lambda: BlockedScan(over, rows)),
        ],
        baseline=program,
        agrees=same_forwarded,
    )


def _commands(rows: Columns, world: str) -> Iterator[tuple[str, Any]]:
    """Subscribes in batches, or row by row; with turnover the oldest tenth goes before the next one comes."""
    count = len(rows["id"])
    size = 1 if world == "single rows" else max(1, count // 20)
    for start in range(0, count, size):
        if world == "turnover" and start >= count // 2:
            yield "unsubscribe", list(range(start - count // 2, start - count // 2 + size))
        yield "subscribe", {name: column[start : start + size] for name, column in rows.items()}
