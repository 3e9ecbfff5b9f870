"""Cases of `MovingTopK` with safe zones: what a position and a change of an object cost, one thread."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from rankcast import MovingTopK
from rankcast.bench.baselines.best_first_moving import BestFirst, scores_of_members, zones_of
from rankcast.bench.baselines.numpy_moving import NumpyTopK
from rankcast.bench.case import Contender, Parameters, Trial, case
from rankcast.bench.cases.moving_topk_setting import (
    SAMPLE,
    SETTING,
    SMALL,
    agree,
    drive_all,
    engine_of,
    last_found,
    search_all,
    weights_of,
    world,
)
from rankcast.bench.workloads import Columns, batches, moving
from rankcast.moving import scoring


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
                run=lambda plain: search_all(plain, steps[:part]),
                work=cars * part,
            ),
            Contender(
                "numpy",
                prepare=lambda: NumpyTopK(objects, over, weights_of(len(over)), k),
                run=lambda plain: search_all(plain, _few(steps)),
                work=SAMPLE,
            ),
        ],
        baseline="best-first",
        agrees=lambda answers: all(
            agree(answers[f"zone {word}"], expected) for word in ("ordered", "unordered")
        ),
    )


def _few(steps: list[Columns]) -> list[Columns]:
    """The last positions of some queries."""
    return [{name: column[:SAMPLE] for name, column in steps[-1].items()}]


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
    zoned = zones_of(engine)
    everybody = np.arange(cars, dtype=np.int32)
    now = {name: column.copy() for name, column in objects.items()}
    now["a0"][0] += 1
    renewed = [0]

    def changes() -> list[Columns]:
        """Objects, half of them known, each with a place and attributes anew."""
        size = parameters["changes"]
        fresh = moving.objects(size, len(over), rng)
        known = rng.integers(0, parameters["objects"], size)
        fresh["id"] = np.where(np.arange(size) % 2, known, len(now["id"]) + np.arange(size))
        now.update({name: np.concatenate([column, fresh[name]]) for name, column in now.items()})
        return batches(fresh, 1)

    def change(ones: list[Columns]) -> None:
        for one in ones:
            engine.upsert(one)

    return Trial(
        work=parameters["changes"],
        contenders=[
            Contender(
                "upsert",
                prepare=changes,
                run=change,
                stats=lambda _: {"recomputed": engine.stats()["recomputed"] - renewed[0]},
            ),
            Contender("all zones", run=lambda _: _renew_all(zoned, everybody, renewed), work=1, runs=2),
        ],
        baseline="all zones",
        agrees=lambda _: agree(engine, last_found(over, _latest(now), k, steps[0])),
    )


def _renew_all(zoned: Any, rows: Any, renewed: list[int]) -> None:
    """Find all zones anew, and note how many: that is not the engine's doing."""
    zoned.renew(rows)
    renewed[0] += rows.size


def _latest(objects: Columns) -> Columns:
    """The last row of each object, by id."""
    ids, from_end = np.unique(objects["id"][::-1], return_index=True)
    last = len(objects["id"]) - 1 - from_end
    return {name: column[last] for name, column in objects.items()} | {"id": ids}
