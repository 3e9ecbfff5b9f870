"""Cases of `MovingSkyline` with safe zones: what a position, a zone and a change cost, on one thread.

The setting is the paper's [Moving §5.1]: objects in a square of 5,000 km, attributes in [0, 1]; cars at some
60 km/h, a position each second.
"""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np

from rankcast import MovingSkyline
from rankcast.bench.baselines.moving import Branches, NumpySkyline, Pareto, skyline_zones_of
from rankcast.bench.cases.moving import agree, changing, drive_all, one_by_one, some, world
from rankcast.bench.runner import Contender, Parameters, Trial, case, publish_all
from rankcast.bench.workloads import Columns
from rankcast.errors import required

SAMPLE = 10
SECONDS = 12
SETTING: dict[str, Any] = {"objects": [100_000], "attributes": [2], "distribution": ["unif"], "speed": [60]}
SMALL: dict[str, Any] = {"objects": [3_000], "attributes": [2], "distribution": ["unif"], "speed": [60]}


def engine_of(over: list[str], objects: Columns) -> MovingSkyline:
    """An engine on one thread with these objects."""
    engine = MovingSkyline(over=over, tuning={"threads": 1})
    engine.upsert(objects)
    return engine


def agrees(engine: Any, over: list[str], objects: Columns, positions: Columns) -> bool:
    """Compare the results of some queries with brute force at their last places."""
    plain = NumpySkyline(objects, over)
    plain.publish(some(positions, SAMPLE))
    return agree(engine, plain.found)


@case(
    "moving-skyline.amortised",
    small={**SMALL, "queries": [20], "duration": [30]},
    full={**SETTING, "queries": [200], "duration": [600]},
    seed=91,
    unit="position",
    runs=3,
)
def amortised(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Follow cars, first zones included; paretoset and BBS at every position beside it."""
    cars, seconds = parameters["queries"], parameters["duration"]
    over, objects, steps = world(parameters, rng, cars=cars, seconds=seconds)
    return Trial(
        work=cars * seconds,
        contenders=[
            Contender(
                "zone",
                prepare=lambda: engine_of(over, objects),
                run=lambda engine: drive_all(engine, steps),
                stats=MovingSkyline.stats,
            ),
            Contender(
                "paretoset",
                prepare=lambda: Pareto(objects, over),
                run=lambda plain: plain.publish(some(steps[-1], SAMPLE)),
                work=SAMPLE,
            ),
            Contender(
                "BBS",
                prepare=lambda: Branches(objects, over),
                run=lambda plain: plain.publish(some(steps[-1], SAMPLE)),
                work=SAMPLE,
            ),
        ],
        baseline="paretoset",
        agrees=lambda answers: agrees(answers["zone"], over, objects, steps[-1]),
    )


@case(
    "moving-skyline.zone",
    small={**SMALL, "queries": [20]},
    full=[{**SETTING, "distribution": ["unif", "norm", "corr", "anti"], "queries": [200]}],
    seed=92,
    unit="zone",
    runs=5,
)
def zone(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Find zones; the skylines alone by BBS over the same tree beside it."""
    over, objects, steps = world(parameters, rng, cars=parameters["queries"], seconds=1)
    engine, plain = engine_of(over, objects), Branches(objects, over)
    engine.subscribe(steps[0])
    zoned, rows = skyline_zones_of(engine), np.arange(parameters["queries"], dtype=np.int32)
    return Trial(
        work=parameters["queries"],
        contenders=[
            Contender(
                "zone",
                run=lambda _: zoned.renew(rows),
                stats=lambda _: engine.stats(),
                counters=lambda *_: shapes(zoned, rows),
            ),
            Contender("BBS", run=lambda _: plain.search(steps[0]["x"], steps[0]["y"])),
        ],
        baseline="BBS",
        agrees=lambda _: agrees(engine, over, objects, steps[0]),
    )


def shapes(zoned: Any, rows: Any) -> dict[str, float]:
    """How many edges zones have, on average and at most, and how many objects their skylines."""
    edges = [sum(map(len, zoned.zones.rings(int(row)))) for row in rows]
    skyline = zoned.zones.kept.result[rows]
    return {
        "edges": float(np.mean(edges)),
        "most_edges": float(max(edges)),
        "skyline": float(skyline.mean()),
        "radius": float(zoned.zones.kept.radius[rows].mean()),
    }


@case(
    "moving-skyline.inside",
    small={**SMALL, "queries": [200]},
    full={**SETTING, "objects": [5_000], "queries": [100_000]},
    seed=93,
    unit="position",
    runs=9,
)
def inside(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish positions of cars inside their zones; shapely's vectorised contains beside it.

    Its polygons, and the points it may want, are made and prepared outside the clock.
    """
    shapely = required("shapely", "bench")
    cars = parameters["queries"]
    over, objects, steps = world(parameters, rng, cars=cars, seconds=SECONDS)
    engine = engine_of(over, objects)
    engine.subscribe(steps[0])
    polygons = shapely.from_wkb(engine.zones()["geometry"].to_numpy(zero_copy_only=False))
    stays = np.all([shapely.contains_xy(polygons, step["x"], step["y"]) for step in steps], axis=0)
    steps = [{name: column[stays] for name, column in step.items()} for step in steps]
    prepared, polygons = polygons[stays], shapely.from_wkb(shapely.to_wkb(polygons[stays]))
    shapely.prepare(prepared)
    last = steps[-1]
    points = shapely.points(last["x"], last["y"])
    turns = itertools.cycle(steps)
    now: list[Columns] = [steps[0]]

    def run(_: Any) -> Any:
        now[0] = next(turns)
        return engine.publish(now[0])

    return Trial(
        work=int(stays.sum()),
        contenders=[
            Contender(
                "zone", run=run, counters=lambda *_: {"recomputed": engine.stats()["recomputed"] - cars}
            ),
            Contender("shapely", run=lambda _: shapely.contains(polygons, points)),
            Contender("shapely by x, y", run=lambda _: shapely.contains_xy(polygons, last["x"], last["y"])),
            Contender("shapely prepared", run=lambda _: shapely.contains_xy(prepared, last["x"], last["y"])),
        ],
        baseline="shapely prepared",
        agrees=lambda answers: (
            all(answers[name].all() for name in answers if name != "zone")
            and agrees(engine, over, objects, now[0])
        ),
    )


@case(
    "moving-skyline.one",
    small={**SMALL, "queries": [200], "positions": [100]},
    full={**SETTING, "queries": [10_000], "positions": [1_000]},
    seed=96,
    unit="position",
    runs=9,
)
def one(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish positions inside their zones one call each, a list of one dict; beside it NumPy."""
    over, objects, steps = world(parameters, rng, cars=parameters["queries"], seconds=1)
    engine, plain = engine_of(over, objects), NumpySkyline(objects, over)
    engine.subscribe(steps[0])
    calls = one_by_one(steps[0], parameters["positions"])
    return Trial(
        work=len(calls),
        contenders=[
            Contender("one", run=lambda _: publish_all(engine, calls), stats=lambda _: engine.stats()),
            Contender(
                "numpy", run=lambda _: publish_all(plain, [some(steps[0], SAMPLE)]), work=SAMPLE, runs=3
            ),
        ],
        baseline="numpy",
        agrees=lambda answers: agrees(answers["one"], over, objects, steps[0]),
    )


@case(
    "moving-skyline.upsert",
    small={**SMALL, "queries": [100], "changes": [20]},
    full={**SETTING, "queries": [10_000], "changes": [200]},
    seed=94,
    unit="upsert",
    runs=3,
)
def upsert(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Change one object after the other with many zones live; recomputing all zones beside it."""
    over, objects, steps = world(parameters, rng, cars=parameters["queries"], seconds=1)
    engine = engine_of(over, objects)
    engine.subscribe(steps[0])
    return changing(
        parameters,
        engine,
        skyline_zones_of(engine),
        {name: column.copy() for name, column in objects.items()},
        rng,
        known=lambda size: rng.permutation(parameters["objects"])[:size],
        agrees=lambda latest: agrees(engine, over, latest, steps[0]),
        runs=1,
    )
