"""Honest worlds of the engines over places: messages, cars and skylines, each beside a plain program.

As in `rankcast.bench.cases.worlds`. Places and roads of California stand for real data; where they are absent
objects gather around towns and roads are a grid, and the contenders' names say so. Further cases: steady
states `geotext.steady`, tracks through a city `moving.city`, single rows `*.one`, objects that change
`*.upsert`.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import MovingSkyline, MovingTopK, Vocabulary, scoring
from rankcast.bench.baselines.moving import BestFirst, Branches
from rankcast.bench.cases.covering import weigh
from rankcast.bench.cases.geotext_steady import ROUNDING, Steady
from rankcast.bench.cases.moving import CROSSINGS
from rankcast.bench.front import GENERATED
from rankcast.bench.runner import Contender, Parameters, Trial, case, publish_all
from rankcast.bench.workloads import Columns, batches, california, covering, geotext, moving

OURS = "rankcast"
RUNS = 2
SAMPLE = 50
FEW = 100
LARGE = 100  # a large k


def messages_of(world: str, parameters: Parameters, rng: np.random.Generator) -> Steady:
    """Make a world of geo-text by its name."""
    many, window, k = parameters["subscriptions"], parameters["window"], parameters["k"]
    if world == "small":
        many, window = FEW, FEW
    real = world == "tweets" and (geotext.DATA / geotext.REAL["tweets"][0]).exists()
    if world == "tweets":
        window = min(window, 1_000)  # there are 2,772
    count = 2 * window + parameters["events"]
    rows = geotext.stream("tweets" if real else "synthetic", count, rng)
    x, y = rows["x"].to_numpy(), rows["y"].to_numpy()
    if world == "clustered":  # all in one town
        x, y = (np.clip(0.5 + rng.normal(0.0, 0.01, count), 0.0, 1.0) for _ in range(2))
    if world == "drift":  # the town moves through the square
        way = np.linspace(0.1, 0.9, count)
        x, y = (np.clip(way + rng.normal(0.0, 0.02, count), 0.0, 1.0) for _ in range(2))
    if world == "ordered":  # from west to east
        rows = rows.take(pa.array(np.argsort(x, kind="stable")))
        x, y = rows["x"].to_numpy(), rows["y"].to_numpy()
    columns = {"id": np.arange(count), "x": x, "y": y, "terms": rows["terms"]}
    rows = pa.table(columns)
    k = LARGE if world == "large k" else k
    source = rows.slice(0, window)
    wanted = geotext.subscriptions(source, many, rng)
    if world == "mixed k":
        wanted = wanted.append_column("k", pa.array(rng.choice([1, 5, k], many)))
    return Steady(rows, wanted, Vocabulary.fit(source), window, k, 0, world == "tweets" and not real)


@case(
    "geotext.worlds",
    small={
        "world": ["tweets", "drift", "ordered", "large k", "mixed k", "clustered", "small"],
        "subscriptions": [300],
        "window": [300],
        "events": [100],
        "k": [20],
    },
    full={
        "world": ["tweets", "drift", "ordered", "large k", "mixed k", "clustered", "small"],
        "subscriptions": [20_000],
        "window": [20_000],
        "events": [700],
        "k": [20],
    },
    seed=104,
    unit="message",
    runs=RUNS,
)
def alerts(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish messages in worlds as they come; beside it an inverted file with buffers of 3 k.

    Where k is mixed the plain program keeps the largest k of all.
    """
    made, size = messages_of(parameters["world"], parameters, rng), parameters["events"]
    ks = made.subscriptions["k"].to_numpy() if "k" in made.subscriptions.column_names else None
    uniform = made if ks is None else made._replace(subscriptions=made.subscriptions.drop_columns(["k"]))
    engine, plain = made.engine(), uniform.plain()
    ours, program = made.named(OURS), made.named("Numba, inverted file, kmax 3")
    part = size // (RUNS + 1)
    parts = iter([made.messages.slice(2 * made.window + at * part, part) for at in range(RUNS + 1)])

    def agrees(_: Any) -> bool:
        for row in range(0, len(engine), max(1, len(engine) // SAMPLE)):
            found, best = engine.results([row])["score"].to_pylist(), plain.best(row)
            wanted = best if ks is None else best[: int(ks[row])]
            if len(found) != len(wanted) or not np.allclose(found, wanted, rtol=0.0, atol=ROUNDING):
                return False
        return True

    return Trial(
        work=part,
        contenders=[
            Contender(ours, engine.publish, parts.__next__, bytes=lambda _: weigh(engine)),
            Contender(program, lambda _: plain.turn(part)),
        ],
        baseline=program,
        agrees=agrees,
    )


@dataclasses.dataclass(frozen=True)
class Drive:
    """Objects, and the positions of cars step by step."""

    objects: Columns
    steps: list[Columns]
    generated: bool = False


def drive_of(world: str, parameters: Parameters, rng: np.random.Generator, attributes: int) -> Drive:
    """Make a world of cars among objects by its name; a position every second."""
    count, cars = (FEW, 10) if world == "small" else (parameters["objects"], parameters["cars"])
    seconds, generated = parameters["seconds"], False
    if world == "places":
        generated = not california.there()
    if world == "places" and not generated:
        objects, graph = california.objects(count, attributes, rng), california.roads()
    else:
        clustered = world in ("clustered", "places")
        objects = moving.objects(count, attributes, rng, places="clustered" if clustered else "uniform")
        graph = moving.roads(CROSSINGS, rng)
    if world == "ordered":  # objects from west to east
        order = np.argsort(objects["x"], kind="stable")
        objects = {name: objects[name][order] for name in objects} | {"id": objects["id"]}
    steps = batches(moving.tracks(graph, cars, seconds, rng), cars)
    if world == "mixed k":
        steps[0] = {**steps[0], "k": rng.choice([1, 5, parameters["k"]], cars)}
    return Drive(objects, steps, generated)


@case(
    "moving-topk.worlds",
    small={
        "world": ["places", "ordered", "large k", "mixed k", "clustered", "small"],
        "objects": [1_000],
        "cars": [50],
        "seconds": [16],
        "k": [10],
    },
    full={
        "world": ["places", "ordered", "large k", "mixed k", "clustered", "small"],
        "objects": [100_000],
        "cars": [2_000],
        "seconds": [61],
        "k": [10],
    },
    seed=105,
    unit="position",
    runs=RUNS,
)
def nearest(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Keep the best objects of cars current in worlds as they come; beside it a search at every position.

    Where k is mixed the search is for the largest k of all.
    """
    world = parameters["world"]
    made = drive_of(world, parameters, rng, 1)
    k, over = LARGE if world == "large k" else parameters["k"], covering.attributes(1)
    score = scoring.weighted_sum([1.0, 1.0 / moving.UNIVERSE])
    engine = MovingTopK(over=over, k=k, score=score, tuning={"threads": 1})
    engine.upsert(made.objects)
    engine.subscribe(made.steps[0])
    plain, name = (
        BestFirst(made.objects, over, score, min(k, len(made.objects["id"]))),
        GENERATED * made.generated,
    )
    groups = _groups(made.steps)
    ks = made.steps[0].get("k")

    def agrees(_: Any) -> bool:
        for car, (items, _scores) in list(plain.found.items())[:SAMPLE]:
            wanted = items.tolist() if ks is None else items.tolist()[: int(ks[car])]
            if engine.results([car])["item"].to_pylist() != wanted:
                return False
        return True

    return _driven(engine, plain, f"best-first at every position{name}", name, groups, agrees)


@case(
    "moving-skyline.worlds",
    small={
        "world": ["places", "ordered", "clustered", "small"],
        "objects": [500],
        "cars": [10],
        "seconds": [10],
    },
    full={
        "world": ["places", "ordered", "clustered", "small"],
        "objects": [20_000],
        "cars": [100],
        "seconds": [31],
    },
    seed=106,
    unit="position",
    runs=RUNS,
)
def skylines(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Keep the skylines of cars current in worlds as they come; beside it BBS at every position."""
    made, over = drive_of(parameters["world"], parameters, rng, 2), covering.attributes(2)
    engine = MovingSkyline(over=over, tuning={"threads": 1})
    engine.upsert(made.objects)
    engine.subscribe(made.steps[0])
    plain, name = Branches(made.objects, over), GENERATED * made.generated

    def agrees(_: Any) -> bool:
        return all(
            set(engine.results([car])["item"].to_pylist()) == set(items.tolist())
            for car, items in list(plain.found.items())[:SAMPLE]
        )

    return _driven(engine, plain, f"BBS at every position{name}", name, _groups(made.steps), agrees)


def _groups(steps: list[Columns]) -> list[list[Columns]]:
    """All positions but the first, in as many parts as there are runs and one to warm."""
    size = (len(steps) - 1) // (RUNS + 1)
    return [steps[1 + at * size : 1 + (at + 1) * size] for at in range(RUNS + 1)]


def _driven(engine: Any, plain: Any, program: str, name: str, groups: list[Any], agrees: Any) -> Trial:
    return Trial(
        work=len(groups[0]) * len(groups[0][0]["id"]),
        contenders=[
            Contender(
                OURS + name,
                lambda part: publish_all(engine, part),
                iter(groups).__next__,
                bytes=lambda _: weigh(engine),
            ),
            Contender(program, lambda part: publish_all(plain, part), iter(groups).__next__),
        ],
        baseline=program,
        agrees=agrees,
    )
