"""Cases of `MovingTopK`: what a position, a zone and a change of an object cost, on one thread.

The setting is the paper's [Moving §5.2]: objects in a square of 5,000 km, attributes in [0, 1], distance over
the side of the square, equal weights; cars at some 60 km/h, a position each second. Scores are the weighted
sum, a user's function, and those whose zones are circles. The
cases of `MovingSkyline` are in `skyline`.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from rankcast import MovingTopK
from rankcast.bench.baselines.moving import BestFirst, NumpyTopK, scores_of_members, zones_of
from rankcast.bench.runner import Contender, LeftOutError, Parameters, Trial, case, publish_all
from rankcast.bench.workloads import Columns, Floats, batches, california, covering, moving
from rankcast.moving import scoring

CROSSINGS = 100
ROUNDING = 1e-12
SAMPLE = 20
SETTING = {"objects": [100_000], "attributes": [3], "k": [10], "m": [5], "speed": [60]}
SMALL = {"objects": [5_000], "attributes": [3], "k": [10], "m": [5], "speed": [60]}


def weights_of(attributes: int) -> list[float]:
    """Equal weights, distance in sides of the universe."""
    return [1.0] * attributes + [1.0 / moving.UNIVERSE]


def world(
    parameters: Parameters, rng: np.random.Generator, *, cars: int, seconds: int
) -> tuple[list[str], Columns, list[Columns]]:
    """Make attributes, objects, and the positions of cars second by second.

    With `places` "california" objects are its points of interest, and cars drive on its roads.
    """
    over, kind = covering.attributes(parameters["attributes"]), parameters.get("distribution", "unif")
    if parameters.get("places") == "california":
        if not california.there():
            raise LeftOutError("points and roads of California are not here", hint="Set RANKCAST_DATA.")
        objects = california.objects(parameters["objects"], len(over), rng, kind)
        drive = moving.tracks(california.roads(), cars, seconds, rng, speed=parameters["speed"])
        return over, objects, batches(drive, cars)
    objects = moving.objects(parameters["objects"], len(over), rng, kind)
    drive = moving.tracks(moving.roads(CROSSINGS, rng), cars, seconds, rng, speed=parameters["speed"])
    return over, objects, batches(drive, cars)


def engine_of(over: list[str], objects: Columns, score: Any = None, **given: Any) -> MovingTopK:
    """An engine on one thread with these objects."""
    score = score or scoring.weighted_sum(weights_of(len(over)))
    engine = MovingTopK(over=over, score=score, tuning={"threads": 1, **given.pop("tuning", {})}, **given)
    engine.upsert(objects)
    return engine


def drive_all(engine: Any, steps: list[Columns]) -> Any:
    """Subscribe at the first positions and publish the others; the answer is the engine, for its results."""
    engine.subscribe(steps[0])
    return publish_all(engine, steps[1:])


def agree(engine: Any, found: dict[Any, tuple[Any, Floats]]) -> bool:
    """Compare the results of an engine with those of a search, at the same places."""
    for query, (items, scores) in list(found.items())[:SAMPLE]:
        result = engine.results([query]).to_pydict()
        if result["item"] != items.tolist() or not np.allclose(
            result["score"], scores, rtol=ROUNDING, atol=0.0
        ):
            return False
    return True


def last_found(over: list[str], objects: Columns, k: int, positions: Columns) -> dict[Any, Any]:
    """What brute force says of some queries at their last places."""
    plain = NumpyTopK(objects, over, weights_of(len(over)), k)
    plain.publish(some(positions, SAMPLE))
    return plain.found


def some(positions: Columns, count: int) -> Columns:
    """The positions of the first queries."""
    return {name: column[:count] for name, column in positions.items()}


def score_of(name: str, attributes: int, weight: float = 1.0) -> scoring.Score:
    """A score of the paper, with a constant added to attributes where it would be undefined at 0."""
    weights = weights_of(attributes)
    weights[-1] *= weight
    if name == "sum":
        return scoring.weighted_sum(weights)
    if name == "product":
        return scoring.weighted_product([1.0] * (attributes + 1), offset=0.1)
    return scoring.weighted_distance([1.0] * attributes, offset=0.1)


@case(
    "moving-topk.amortised",
    small={**SMALL, "queries": [200], "duration": [120]},
    full={**SETTING, "queries": [1_000], "duration": [3_600]},
    seed=71,
    unit="position",
    runs=3,
)
def amortised(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Follow cars for an hour, first zones included; a best-first search at every position beside it."""
    cars, seconds, k = parameters["queries"], parameters["duration"], parameters["k"]
    over, objects, steps = world(parameters, rng, cars=cars, seconds=seconds)
    score = scoring.weighted_sum(weights_of(len(over)))
    part = max(1, seconds // 100)
    expected = last_found(over, objects, k, steps[-1])
    return Trial(
        work=cars * seconds,
        contenders=[
            Contender(
                f"zone {word}",
                prepare=partial(engine_of, over, objects, k=k, m=parameters["m"], ordered=ordered),
                run=lambda engine: drive_all(engine, steps),
                stats=MovingTopK.stats,
            )
            for word, ordered in (("ordered", True), ("unordered", False))
        ]
        + [
            Contender(
                "best-first",
                prepare=lambda: BestFirst(objects, over, score, k),
                run=lambda plain: publish_all(plain, steps[:part]),
                work=cars * part,
            ),
            Contender(
                "numpy",
                prepare=lambda: NumpyTopK(objects, over, weights_of(len(over)), k),
                run=lambda plain: plain.publish(some(steps[-1], SAMPLE)),
                work=SAMPLE,
            ),
        ],
        baseline="best-first",
        agrees=lambda answers: all(
            agree(answers[f"zone {word}"], expected) for word in ("ordered", "unordered")
        ),
    )


@case(
    "moving-topk.inside",
    small={**SMALL, "queries": [2_000]},
    full={**SETTING, "queries": [100_000]},
    seed=72,
    unit="position",
    runs=9,
)
def inside(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish a batch of positions inside their zones; a bare loop over the members' scores beside it."""
    cars, k, m = parameters["queries"], parameters["k"], parameters["m"]
    over, objects, steps = world(parameters, rng, cars=cars, seconds=2)
    engines = {
        word: engine_of(over, objects, k=k, m=m, ordered=ordered)
        for word, ordered in (("ordered", True), ("unordered", False))
    }
    for engine in engines.values():
        engine.subscribe(steps[0])
    zoned = zones_of(engines["ordered"])
    held = zoned.zones.held
    moved = np.hypot(steps[1]["x"] - held.x[:cars], steps[1]["y"] - held.y[:cars]) < held.radius[:cars]
    stay = {name: column[moved] for name, column in steps[0].items()}
    go = {name: column[moved] for name, column in steps[1].items()}
    rows = np.flatnonzero(moved).astype(np.int32)
    out = np.empty((rows.size, k + m - 1))
    turns = {"ordered": 0, "unordered": 0}

    def run(word: str, _: Any) -> Any:
        turns[word] += 1
        return engines[word].publish(go if turns[word] % 2 else stay)

    def recomputed(word: str, *_: Any) -> dict[str, float]:
        return {"recomputed": engines[word].stats()["recomputed"] - cars}

    return Trial(
        work=rows.size,
        contenders=[
            *(
                Contender(
                    word,
                    run=partial(run, word),
                    counters=partial(recomputed, word),
                )
                for word in ("ordered", "unordered")
            ),
            Contender(
                "bare loop",
                run=lambda _: scores_of_members(
                    zoned.form, zoned.places.record, zoned.zones.held, rows, go["x"], go["y"], out
                ),
            ),
        ],
        baseline="bare loop",
        agrees=lambda _: _inside_agrees(engines, over, objects, k, {1: go, 0: stay}, turns),
    )


def _inside_agrees(
    engines: dict[str, MovingTopK],
    over: list[str],
    objects: Columns,
    k: int,
    places: dict[int, Columns],
    turns: dict[str, int],
) -> bool:
    """Compare what the engines hold after their last turn with brute force."""
    return all(
        agree(engine, last_found(over, objects, k, places[turns[word] % 2]))
        for word, engine in engines.items()
    )


@case(
    "moving-topk.one",
    small={**SMALL, "queries": [2_000], "positions": [100]},
    full={**SETTING, "queries": [10_000], "positions": [1_000]},
    seed=78,
    unit="position",
    runs=9,
)
def one(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Publish positions inside their zones one call each, a list of one dict; beside it NumPy."""
    over, objects, steps = world(parameters, rng, cars=parameters["queries"], seconds=1)
    engine = engine_of(over, objects, k=parameters["k"], m=parameters["m"])
    engine.subscribe(steps[0])
    calls = one_by_one(steps[0], parameters["positions"])
    plain = NumpyTopK(objects, over, weights_of(len(over)), parameters["k"])
    return Trial(
        work=len(calls),
        contenders=[
            Contender("one", run=lambda _: publish_all(engine, calls), stats=lambda _: engine.stats()),
            Contender(
                "numpy", run=lambda _: publish_all(plain, [some(steps[0], SAMPLE)]), work=SAMPLE, runs=3
            ),
        ],
        baseline="numpy",
        agrees=lambda answers: agree(answers["one"], answers["numpy"].found),
    )


def one_by_one(positions: Columns, size: int) -> list[Any]:
    """The first positions as calls with one row each."""
    first = {name: column[:size].tolist() for name, column in positions.items()}
    return [[dict(zip(first, row, strict=True))] for row in zip(*first.values(), strict=True)]


@case(
    "moving-topk.upsert",
    small={**SMALL, "queries": [2_000], "changes": [20]},
    full={**SETTING, "queries": [100_000], "changes": [2_000]},
    seed=73,
    unit="upsert",
    runs=3,
)
def upsert(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Change one object after the other with very many zones live; recomputing all zones beside it."""
    cars, k, m = parameters["queries"], parameters["k"], parameters["m"]
    over, objects, steps = world(parameters, rng, cars=cars, seconds=1)
    engine = engine_of(over, objects, k=k, m=m)
    engine.subscribe(steps[0])
    engine.upsert({name: column[:1] + (name == "a0") for name, column in objects.items()})  # indexes zones
    now = {name: column.copy() for name, column in objects.items()}
    now["a0"][0] += 1
    return changing(
        parameters,
        engine,
        zones_of(engine),
        now,
        rng,
        known=lambda size: rng.integers(0, parameters["objects"], size),
        agrees=lambda latest: agree(engine, last_found(over, latest, k, steps[0])),
        runs=2,
    )


def changing(
    parameters: Parameters,
    engine: Any,
    zoned: Any,
    now: Columns,
    rng: np.random.Generator,
    *,
    known: Callable[[int], Any],
    agrees: Callable[[Columns], bool],
    runs: int,
) -> Trial:
    """Objects change one after the other, each with a place and attributes again; all zones again beside it.

    Half of them are `known`; `now` has all rows that came, and `agrees` is asked with the last of each.
    """
    size, everybody = parameters["changes"], np.arange(parameters["queries"], dtype=np.int32)
    renewed = [0]

    def changes() -> list[Columns]:
        kind = parameters.get("distribution", "unif")
        fresh = moving.objects(size, parameters["attributes"], rng, kind)
        fresh["id"] = np.where(np.arange(size) % 2, known(size), len(now["id"]) + np.arange(size))
        now.update({name: np.concatenate([column, fresh[name]]) for name, column in now.items()})
        return batches(fresh, 1)

    def change(ones: list[Columns]) -> None:
        for one in ones:
            engine.upsert(one)

    def renew_all(_: Any) -> None:
        zoned.renew(everybody)
        renewed[0] += everybody.size  # which is not the engine's doing

    return Trial(
        work=size,
        contenders=[
            Contender(
                "upsert",
                prepare=changes,
                run=change,
                stats=lambda _: {"recomputed": engine.stats()["recomputed"] - renewed[0]},
            ),
            Contender("all zones", run=renew_all, work=1, runs=runs),
        ],
        baseline="all zones",
        agrees=lambda _: agrees(_latest(now)),
    )


def _latest(objects: Columns) -> Columns:
    """The last row of each object, by id."""
    ids, from_end = np.unique(objects["id"][::-1], return_index=True)
    last = len(objects["id"]) - 1 - from_end
    return {name: column[last] for name, column in objects.items()} | {"id": ids}


@case(
    "moving-topk.own",
    small={**SMALL, "queries": [200], "duration": [60]},
    full={**SETTING, "queries": [1_000], "duration": [600]},
    seed=74,
    unit="position",
    runs=3,
)
def own(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Follow cars by a user's function in Python; the same score as a weighted sum beside it."""
    cars, seconds, k = parameters["queries"], parameters["duration"], parameters["k"]
    over, objects, steps = world(parameters, rng, cars=cars, seconds=seconds)
    weights = np.array(weights_of(len(over)))
    scores = {
        "own function": lambda attributes, distance: attributes @ weights[:-1] + weights[-1] * distance,
        "weighted sum": scoring.weighted_sum(weights.tolist()),
    }
    expected = last_found(over, objects, k, steps[-1])
    return Trial(
        work=cars * seconds,
        contenders=[
            Contender(
                name,
                prepare=partial(engine_of, over, objects, score, k=k, m=parameters["m"]),
                run=lambda engine: drive_all(engine, steps),
                stats=MovingTopK.stats,
            )
            for name, score in scores.items()
        ],
        baseline="weighted sum",
        agrees=lambda answers: all(agree(answers[name], expected) for name in scores),
    )


@case(
    "moving-topk.circle",
    small={**SMALL, "queries": [20], "score": ["sum", "product", "distance"]},
    full={**SETTING, "queries": [2_000], "score": ["sum", "product", "distance"]},
    seed=75,
    unit="zone",
    runs=3,
)
def circle(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Find zones by closed forms, by the paper's rectangles and by bounds alone."""
    cars, k, m = parameters["queries"], parameters["k"], parameters["m"]
    over, objects, steps = world(parameters, rng, cars=cars, seconds=1)
    score = score_of(parameters["score"], len(over))
    engines = {
        way: engine_of(over, objects, score, k=k, m=m, tuning={"circle": way})
        for way in ("closed", "trim", "lemma")
    }

    def radius(engine: MovingTopK) -> dict[str, float]:
        return {"radius": float(np.mean(engine.zones()["radius"].to_numpy()))}

    def renew(engine: MovingTopK) -> MovingTopK:
        zones_of(engine).renew(np.arange(cars, dtype=np.int32))
        return engine

    def prepared(way: str) -> MovingTopK:
        if not len(engines[way]):
            engines[way].subscribe(steps[0])
        return engines[way]

    return Trial(
        work=cars,
        contenders=[
            Contender(
                way,
                prepare=partial(prepared, way),
                run=renew,
                stats=MovingTopK.stats,
                counters=lambda engine, _: radius(engine),
            )
            for way in ("closed", "trim", "lemma")
        ],
        baseline="trim",
        agrees=lambda answers: _same_results(list(answers.values())),
    )


def _same_results(engines: list[MovingTopK]) -> bool:
    first = engines[0].results()
    return all(engine.results().equals(first) for engine in engines[1:])
