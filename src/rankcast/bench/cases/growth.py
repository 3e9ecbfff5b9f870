"""How costs grow: each engine with one thing varied at a time, everything else as it stands.

The parameter `along` names what is varied in a set; `rankcast.bench.growth` fits exponents to it. Answers are
compared with a scan by NumPy for a sample.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from rankcast import CoveringTable, GeoTextTopK, MovingSkyline, MovingTopK, RangeTopK, RankedMatcher, scoring
from rankcast.bench.cases.covering import weigh
from rankcast.bench.cases.front import CITY, drives
from rankcast.bench.cases.geotext_steady import same_scores, steady
from rankcast.bench.growth import ALONG
from rankcast.bench.runner import Contender, Grid, Parameters, Trial, case, publish_all
from rankcast.bench.workloads import Columns, batches, covering, matching, moving, range_topk

OURS = "rankcast"
SAMPLE = 20
RUNS = 3


def along(usual: Mapping[str, Any], **varied: Sequence[Any]) -> list[Grid]:
    """A grid for each thing that is varied, with the usual value of all others."""
    return [
        {ALONG: [name], **{key: [value] for key, value in usual.items()}, name: list(values)}
        for name, values in varied.items()
    ]


def publisher(engine: Any, parts: Sequence[Any], work: int, agrees: Callable[[], bool]) -> Trial:
    """A trial of one engine that publishes part after part."""
    left = iter(parts)
    ours = Contender(OURS, engine.publish, lambda: next(left), bytes=lambda _: weigh(engine))
    return Trial(work=work, contenders=[ours], agrees=lambda _: agrees())


RANGE = {"subscriptions": 100_000, "objects": 10_000, "k": 10, "batch": 1_000}


@case(
    "growth.range",
    small=along({"subscriptions": 500, "objects": 200, "k": 5, "batch": 50}, subscriptions=[250, 500]),
    full=along(
        RANGE,
        subscriptions=[10_000, 100_000, 1_000_000, 4_000_000],
        objects=[1_000, 10_000, 100_000, 1_000_000],
        k=[1, 10, 100],
        batch=[1, 10, 100, 1_000, 10_000],
    ),
    seed=91,
    unit="event",
    runs=RUNS,
)
def ranges(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish updates of objects to ranges."""
    size, k = parameters["batch"], parameters["k"]
    [engine], objects, subscriptions, parts = _ranges(parameters, rng, k)
    low, high = range_topk.ends(subscriptions)

    def agrees() -> bool:
        held = {name: objects[name].copy() for name in ("x", "y")}
        for part in parts:
            for name in set(held).intersection(part):
                held[name][part["id"]] = part[name]  # of several rows with one id the last holds
        for row in range(0, len(low), max(1, len(low) // SAMPLE)):
            inside = (held["x"] >= low[row]) & (held["x"] <= high[row])
            found = engine.results([row])["score"].to_pylist()
            if found != np.sort(held["y"][inside])[:k].tolist():
                return False
        return True

    return publisher(engine, parts, size, agrees)


def _ranges(
    parameters: Parameters, rng: np.random.Generator, k: int, many: int = 1
) -> tuple[list[RangeTopK], Columns, Columns, list[Any]]:
    """Engines with the same objects and ranges, these, and the batches that come next."""
    objects = range_topk.objects(parameters["objects"], rng)
    subscriptions = range_topk.subscriptions(parameters["subscriptions"], rng)
    engines = [RangeTopK(k=k) for _ in range(many)]
    for engine in engines:
        engine.publish(objects)
        engine.subscribe(subscriptions)
    size = parameters["batch"]
    events = range_topk.uniform_events(objects, size * (RUNS + 1), rng)
    return engines, objects, subscriptions, batches(events, size)


@case(
    "growth.matching",
    small=along({"subscriptions": 500, "attributes": 2, "k": 5, "batch": 50}, subscriptions=[250, 500]),
    full=along(
        {"subscriptions": 100_000, "attributes": 2, "k": 20, "batch": 1_000},
        subscriptions=[10_000, 100_000, 1_000_000, 10_000_000],
        attributes=[1, 2, 4],
        k=[1, 20, 200],
        batch=[1, 10, 100, 1_000],
    ),
    seed=92,
    unit="event",
    runs=RUNS,
)
def matches(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Find the best subscriptions for events."""
    size, k, over = parameters["batch"], parameters["k"], [f"a{n}" for n in range(parameters["attributes"])]
    rows, events = matching.heavy_boxes(
        "dense", len(over), parameters["subscriptions"], size * (RUNS + 1), rng
    )
    engine = RankedMatcher(over=over, k=k)
    engine.subscribe(rows)
    parts = batches(events, size)

    def agrees() -> bool:
        found = engine.publish({name: column[:SAMPLE] for name, column in parts[0].items()})
        mine: dict[int, list[float]] = {row: [] for row in parts[0]["id"][:SAMPLE].tolist()}
        for event, score in zip(found["event"].to_pylist(), found["score"].to_pylist(), strict=True):
            mine[event].append(score)
        for place, event in enumerate(mine):
            inside = np.ones(len(rows["id"]), bool)
            for name in over:
                value = parts[0][name][place]
                inside &= (rows[f"{name}_lo"] <= value) & (value <= rows[f"{name}_hi"])
            best = np.sort(rows["score"][inside])[::-1][:k]
            if not np.array_equal(best, mine[event]):
                return False
        return True

    return publisher(engine, parts, size, agrees)


@case(
    "growth.covering",
    small=along({"subscriptions": 500, "attributes": 3, "batch": 50}, subscriptions=[250, 500]),
    full=along(
        {"subscriptions": 100_000, "attributes": 3, "batch": 1_000},
        subscriptions=[10_000, 100_000, 1_000_000],
        attributes=[1, 3, 8],
        batch=[1, 10, 100, 1_000],
    ),
    seed=93,
    unit="subscription",
    runs=RUNS,
)
def covers(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Say of new subscriptions whether one that is there covers them."""
    over, size, many = (
        covering.attributes(parameters["attributes"]),
        parameters["batch"],
        parameters["subscriptions"],
    )
    rows = covering.boxes(many + size * (RUNS + 1), over, rng, "heavy-tailed")
    table = CoveringTable(over=over)
    table.subscribe({name: column[:many] for name, column in rows.items()})
    left = iter(batches({name: column[many:] for name, column in rows.items()}, size))
    told: list[Any] = []
    ours = Contender(
        OURS,
        run=lambda part: told.append(table.subscribe(part)),
        prepare=lambda: next(left),
        bytes=lambda _: weigh(table),
    )

    def agrees() -> bool:
        covered = np.concatenate([each["covered_by"].is_valid().to_numpy() for each in told])
        for place in range(0, len(covered), max(1, len(covered) // SAMPLE)):
            row = many + place
            above = np.ones(row, bool)
            for name in over:
                low, high = rows[f"{name}_lo"], rows[f"{name}_hi"]
                above &= (low[:row] <= low[row]) & (high[row] <= high[:row])
            if above.any() != covered[place]:
                return False
        return True

    return Trial(work=size, contenders=[ours], agrees=lambda _: agrees())


@case(
    "growth.geotext",
    small=along(
        {"subscriptions": 500, "window": 500, "k": 5, "events": 100, "data": "synthetic"},
        subscriptions=[250, 500],
    ),
    full=along(
        {"subscriptions": 20_000, "window": 20_000, "k": 20, "events": 1_000, "data": "synthetic"},
        subscriptions=[5_000, 20_000, 80_000],
        window=[5_000, 20_000, 80_000],
        k=[1, 20, 100],
    ),
    seed=94,
    unit="message",
    runs=RUNS,
)
def alerts(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Publish messages into a window that was turned over."""
    made = steady(parameters)
    engine: list[GeoTextTopK] = []

    def prepare() -> GeoTextTopK:
        engine[:] = [made.engine()]
        return engine[0]

    slices = batches(made.messages.slice(2 * made.window), 1_000)
    ours = Contender(
        OURS, lambda it: publish_all(it, slices), prepare, bytes=lambda _: weigh(engine[0]), runs=2
    )

    def agrees() -> bool:
        fresh, other = made.engine(), made.plain()
        fresh.publish(made.messages.slice(2 * made.window, SAMPLE))
        other.turn(SAMPLE)
        return same_scores(fresh, other)

    return Trial(work=parameters["events"], contenders=[ours], agrees=lambda _: agrees())


@case(
    "growth.moving",
    small=along({"objects": 500, "subscriptions": 50, "k": 5}, objects=[250, 500]),
    full=along(
        {"objects": 100_000, "subscriptions": 10_000, "k": 10},
        objects=[1_000, 10_000, 100_000, 1_000_000],
        subscriptions=[1_000, 10_000, 100_000],
        k=[1, 10, 100],
    ),
    seed=95,
    unit="position",
    runs=RUNS,
)
def nearest(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Keep the nearest objects of cars in a city current, a position every second."""
    cars, k = parameters["subscriptions"], parameters["k"]
    places = rng.uniform(0, CITY, (2, parameters["objects"]))
    parts = list(drives(rng, CITY, cars, RUNS + 2, 1 / 60))
    engine = MovingTopK(over=[], k=k, score=scoring.weighted_sum([1.0]), tuning={"threads": 1})
    engine.upsert({"id": np.arange(parameters["objects"]), "x": places[0], "y": places[1]})
    engine.subscribe(parts[0])

    def agrees() -> bool:
        for car in range(0, cars, max(1, cars // SAMPLE)):
            here = parts[-1]["x"][car], parts[-1]["y"][car]
            far = np.sort(np.hypot(places[0] - here[0], places[1] - here[1]))[:k]
            if not np.allclose(engine.results([car])["score"].to_numpy(), far, rtol=1e-12, atol=0):
                return False
        return True

    return publisher(engine, parts[1:], cars, agrees)


@case(
    "growth.skyline",
    small=along({"objects": 300, "subscriptions": 10, "attributes": 2}, objects=[150, 300]),
    full=along(
        {"objects": 20_000, "subscriptions": 200, "attributes": 2},
        objects=[1_000, 5_000, 20_000, 100_000],
        attributes=[1, 2, 3],
    ),
    seed=96,
    unit="position",
    runs=RUNS,
)
def skylines(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Keep the skylines of cars in a city current, a position every second."""
    over, cars = covering.attributes(parameters["attributes"]), parameters["subscriptions"]
    objects = moving.objects(parameters["objects"], len(over), rng, "unif")
    for axis in "xy":
        objects[axis] = objects[axis] / moving.UNIVERSE * CITY
    parts = list(drives(rng, CITY, cars, RUNS + 2, 1 / 60))
    engine = MovingSkyline(over=over, tuning={"threads": 1})
    engine.upsert(objects)
    engine.subscribe(parts[0])

    def agrees() -> bool:
        here = parts[-1]["x"][0], parts[-1]["y"][0]
        mine = set(engine.results([0])["item"].to_pylist())
        return mine == _skyline(objects, over, here)

    return publisher(engine, parts[1:], cars, agrees)


def _skyline(objects: Columns, over: Sequence[str], here: tuple[float, float]) -> set[int]:
    far = np.hypot(objects["x"] - here[0], objects["y"] - here[1])
    values = np.column_stack([far, *(objects[name] for name in over)])
    found = set()
    for row, mine in enumerate(values):
        better = (values <= mine).all(axis=1) & (values < mine).any(axis=1)
        if not better.any():
            found.add(int(objects["id"][row]))
    return found


@case(
    "growth.threads",
    small={ALONG: ["threads"], "threads": [1, 2], "subscriptions": [500], "objects": [200], "batch": [50]},
    full={
        ALONG: ["threads"],
        "threads": [1, 2, 4],
        "subscriptions": [100_000],
        "objects": [10_000],
        "batch": [1_000],
    },
    seed=97,
    unit="event",
    runs=RUNS,
)
def threads(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish the same updates to as many engines, each in a thread of its own."""
    many, size = parameters["threads"], parameters["batch"]
    engines, _, _, parts = _ranges(parameters, rng, 10, many)
    left = iter(parts)

    def run(part: Any) -> None:
        workers = [threading.Thread(target=engine.publish, args=(part,)) for engine in engines]
        for worker in workers:
            worker.start()
        for worker in workers:
            worker.join()

    ours = Contender(OURS, run, lambda: next(left), bytes=lambda _: sum(map(weigh, engines)))
    return Trial(
        work=size * many,
        contenders=[ours],
        agrees=lambda _: all(each.results().equals(engines[0].results()) for each in engines),
    )
