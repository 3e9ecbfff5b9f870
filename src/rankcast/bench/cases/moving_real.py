"""Cases of moving engines with default settings: tracks through a city, and clusters, on one thread.

`moving.city` follows people among the listings of a city (`rankcast.bench.workloads.tracks`) with the default
settings, against a search at every position. `moving-topk.nearest` is against scipy's cKDTree at every step.
`moving-topk.cluster` is one subscription anywhere around clusters, against a scan by NumPy, and
`moving-topk.radius` how large zones far from a cluster are, against the true radius.
"""

from __future__ import annotations

import time
from functools import partial
from typing import Any

import numpy as np

from rankcast import MovingSkyline, MovingTopK
from rankcast.bench.baselines.moving import BestFirst, Branches, NumpyTopK, zones_of
from rankcast.bench.baselines.zone_radius import World, true_radius
from rankcast.bench.cases.moving import CROSSINGS, SAMPLE, agree, drive_all
from rankcast.bench.runner import Contender, Parameters, Trial, case, publish_all
from rankcast.bench.workloads import Columns, Floats, batches, moving, tracks
from rankcast.errors import required
from rankcast.moving import scoring

ONE = {"threads": 1}
OVER = ["price", "nights"]
METRES = 3_000.0  # of distance that count as much as the whole range of a price
DEGREE, LATITUDE = 111_195.0, 40.0


def _score(question: str) -> scoring.Score:
    if question == "product":
        return scoring.weighted_product([1.0, 1.0, 1.0], offset=0.1)
    weight = 10.0 if question == "near" else 1.0
    return scoring.weighted_sum([1.0, 1.0, weight / METRES])


@case(
    "moving.city",
    small={
        "question": ["knn", "sum", "near", "product", "skyline"],
        "seconds": [10],
        "objects": [2_000],
        "people": [50],
        "steps": [12],
    },
    full={
        "question": ["knn", "sum", "near", "product", "skyline"],
        "seconds": [1, 5, 10],
        "objects": [50_000],
        "people": [1_000],
        "steps": [120],
    },
    seed=81,
    unit="position",
    runs=3,
)
def city(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Follow people through a city with default settings; a search at every position beside it."""
    question = parameters["question"]
    objects = tracks.listings(rng, parameters["objects"])
    steps = tracks.steps(rng, objects, parameters["people"], parameters["steps"], parameters["seconds"])
    over = [] if question == "knn" else OVER
    objects = {name: objects[name] for name in ("id", "x", "y", *over)}
    skyline = question == "skyline"
    score = scoring.weighted_sum([1.0]) if question == "knn" else _score(question)

    def engine() -> Any:
        found: Any = (
            MovingSkyline(over=over, tuning=ONE)
            if skyline
            else MovingTopK(over=over, score=score, tuning=ONE)
        )
        found.upsert(objects)
        return found

    def anew() -> Any:
        return Branches(objects, over) if skyline else BestFirst(objects, over, score, 10)

    def same(answers: Any) -> bool:
        default, plain = answers["default"], answers["anew"].found
        if not skyline:
            return agree(default, plain)
        ids = list(plain)[:SAMPLE]
        return all(sorted(default.results([i])["item"].to_pylist()) == sorted(plain[i].tolist()) for i in ids)

    return Trial(
        work=parameters["people"] * len(steps),
        contenders=[
            Contender(
                "default",
                prepare=engine,
                run=lambda found: drive_all(found, steps),
                stats=type(engine()).stats,
            ),
            Contender("anew", prepare=anew, run=lambda plain: publish_all(plain, steps)),
        ],
        baseline="anew",
        agrees=same,
    )


class KdTree:
    """scipy's cKDTree at every position, on the globe over unit vectors; `found` has ids and distances."""

    def __init__(self, objects: Columns, k: int, *, globe: bool) -> None:
        tree = required("scipy.spatial", "bench").cKDTree
        self._globe, self._k, self._ids = globe, k, objects["id"]
        self._tree = tree(self._points(objects))
        self._last: tuple[Any, Any] = (np.empty(0), np.empty((0, k)))

    def _points(self, rows: Columns) -> Floats:
        if not self._globe:
            return np.column_stack([rows["x"], rows["y"]])
        x, y = np.radians(rows["x"]), np.radians(rows["y"])
        return np.column_stack([np.cos(y) * np.cos(x), np.cos(y) * np.sin(x), np.sin(y)])

    def publish(self, positions: Columns) -> None:
        """Answer every position."""
        self._last = positions["id"], self._tree.query(self._points(positions), k=self._k)[1]

    def items(self) -> dict[Any, list[Any]]:
        """The last answers by query, in no order."""
        return {
            key: sorted(self._ids[row].tolist())
            for key, row in zip(self._last[0].tolist(), self._last[1], strict=True)
        }


def _on_globe(rows: Columns, side: float) -> Columns:
    """The same places in degrees."""
    middle = side / 2
    x = (rows["x"] - middle) / DEGREE / np.cos(np.radians(LATITUDE))
    return {**rows, "x": x, "y": LATITUDE * min(1.0, 1e6 / side) + (rows["y"] - middle) / DEGREE}


@case(
    "moving-topk.nearest",
    small={
        "side": [30_000.0],
        "seconds": [10],
        "metric": ["euclidean", "haversine"],
        "objects": [5_000],
        "cars": [300],
    },
    full={
        "side": [30_000.0, 300_000.0, 5_000_000.0],
        "seconds": [1, 10],
        "metric": ["euclidean", "haversine"],
        "objects": [100_000],
        "cars": [10_000],
    },
    seed=82,
    unit="position",
    runs=5,
)
def nearest(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """The ten nearest objects of cars, default settings; scipy's cKDTree at every step beside it."""
    side, cars, step = parameters["side"], parameters["cars"], parameters["seconds"]
    objects = moving.objects(parameters["objects"], 0, rng, universe=side)
    graph = moving.roads(CROSSINGS, rng, universe=side)
    steps = batches(moving.tracks(graph, cars, 40 * step, rng, speed=40.0), cars)[::step]
    globe = parameters["metric"] == "haversine"
    if globe:
        objects, steps = _on_globe(objects, side), [_on_globe(rows, side) for rows in steps]

    def engine() -> MovingTopK:
        found = MovingTopK(over=[], metric=parameters["metric"], tuning=ONE)
        found.upsert(objects)
        return drive_all(found, steps[:20])  # type: ignore[no-any-return]

    def same(answers: Any) -> bool:
        expected = answers["cKDTree"].items()
        return all(
            sorted(answers["default"].results([i])["item"].to_pylist()) == expected[i]
            for i in list(expected)[:SAMPLE]
        )

    return Trial(
        work=cars * (len(steps) - 20),
        contenders=[
            Contender(
                "default",
                prepare=engine,
                run=lambda found: publish_all(found, steps[20:]),
                stats=MovingTopK.stats,
            ),
            Contender(
                "cKDTree",
                prepare=partial(KdTree, objects, 10, globe=globe),
                run=lambda plain: publish_all(plain, steps[20:]),
            ),
        ],
        baseline="cKDTree",
        agrees=same,
    )


@case(
    "moving-topk.cluster",
    small={"objects": [20_000], "question": ["knn", "sum", "product"], "m": ["auto", 5]},
    full={"objects": [1_000_000], "question": ["knn", "sum", "product"], "m": ["auto", 5]},
    seed=83,
    unit="subscription",
    runs=3,
)
def cluster(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Subscribe inside, beside and far from clusters, one by one; a scan by NumPy beside it."""
    question, size = parameters["question"], parameters["objects"]
    towns = rng.normal(0, 30_000, (8, 2))
    place = towns[rng.integers(0, 8, size)] + rng.normal(0, 500, (size, 2))
    drawn = {name: rng.random(size) for name in OVER}
    objects = {"id": np.arange(size), "x": place[:, 0].copy(), "y": place[:, 1].copy(), **drawn}
    score, over = scoring.weighted_sum([1.0]) if question == "knn" else _score(question), OVER
    if question == "knn":
        over, objects = [], {name: objects[name] for name in ("id", "x", "y")}
    spots = np.concatenate(
        [place[rng.integers(0, size, 8)], rng.normal(0, 60_000, (8, 2)), rng.normal(0, 1e7, (8, 2))]
    )
    engine = MovingTopK(over=over, score=score, m=parameters["m"], tuning=ONE)
    engine.upsert(objects)
    plain = NumpyTopK(objects, over, [1.0] if question == "knn" else [1.0, 1.0, 1.0 / METRES], 10)

    def subscribe(_: Any) -> float:
        longest = 0.0
        for at, (x, y) in enumerate(spots):
            start = time.perf_counter()
            engine.subscribe({"id": [at], "x": [x], "y": [y]})
            longest = max(longest, time.perf_counter() - start)
        return longest

    def away() -> None:
        if len(engine):
            engine.unsubscribe(list(range(len(spots))))

    def scan(_: Any) -> NumpyTopK:
        plain.publish({"id": np.arange(4), "x": spots[::6, 0], "y": spots[::6, 1]})
        return plain

    def same(_: Any) -> bool:
        return question == "product" or agree(engine, {6 * at: each for at, each in plain.found.items()})

    return Trial(
        work=len(spots),
        contenders=[
            Contender(
                "subscribe",
                prepare=away,
                run=subscribe,
                stats=lambda _: engine.stats(),
                counters=lambda _, longest: {"slowest seconds": longest},
            ),
            Contender("numpy", run=scan, work=4),
        ],
        baseline="numpy",
        agrees=same,
    )


@case(
    "moving-topk.radius",
    small={
        "objects": [500],
        "queries": [8],
        "metric": ["haversine", "manhattan", "euclidean"],
        "score": ["sum", "distance", "product", "waspas", "own"],
    },
    full={
        "objects": [2_000],
        "queries": [32],
        "metric": ["haversine", "manhattan", "euclidean"],
        "score": ["sum", "distance", "product", "waspas", "own"],
    },
    seed=84,
    unit="zone",
    runs=3,
)
def radius(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Find zones far from a cluster, and hold their radii against the true ones, found by looking around.

    Objects are 5 km around a place, queries 20 to 500 km away. `share` is the median of the radii as parts of
    the true ones, `share of any` that of how far the query might go with only members as results.
    """
    size, many, metric = parameters["objects"], parameters["queries"], parameters["metric"]
    place, drawn = rng.normal(0, 5_000, (size, 2)), rng.random((size, 2))
    turn, far = rng.random(many) * 2 * np.pi, 10 ** rng.uniform(4.3, 5.7, many)
    spots = np.column_stack([far * np.cos(turn), far * np.sin(turn)])
    if metric == "haversine":
        place, spots = (np.array([8.0, 48.0]) + each / [74_400, 111_195] for each in (place, spots))
    objects = {"id": np.arange(size), "x": place[:, 0].copy(), "y": place[:, 1].copy()}
    queries = {"id": np.arange(many), "x": spots[:, 0].copy(), "y": spots[:, 1].copy()}
    engines = {
        way: MovingTopK(
            over=OVER,
            m=5,
            score=_far_score(parameters["score"]),
            metric=metric,
            tuning={**ONE, "circle": way},
        )
        for way in ("closed", "lemma")
    }
    for engine in engines.values():
        engine.upsert({**objects, **{name: drawn[:, at] for at, name in enumerate(OVER)}})
        engine.subscribe(queries)

    def renew(engine: MovingTopK) -> MovingTopK:
        zones_of(engine).renew(np.arange(many, dtype=np.int32))
        return engine

    def shares(engine: MovingTopK) -> dict[str, float]:
        around = World(objects, drawn, engine.score, metric, 10)
        zones = [zone for zone in engine.zones().to_pylist() if zone["radius"] > 0]
        mine = [zone["radius"] / true_radius(around, zone) for zone in zones]
        of_any = [zone["radius"] / true_radius(around, zone, anyone=True) for zone in zones]
        return {"share": float(np.median(mine)), "share of any": float(np.median(of_any))}

    return Trial(
        work=many,
        contenders=[
            Contender(
                way,
                prepare=partial(engines.get, way),
                run=renew,
                stats=MovingTopK.stats,
                counters=lambda engine, _: shares(engine),
            )
            for way in engines
        ],
        baseline="lemma",
        agrees=lambda answers: answers["closed"].results().equals(answers["lemma"].results()),
    )


def _far_score(name: str) -> scoring.Score:
    """A score of two attributes in which 20 km count as much as the range of one."""
    weights = [1.0, 1.0, 1 / 20_000]
    if name == "own":
        return scoring.function(lambda a, d: np.sqrt(d / 20_000) + a.sum(axis=1))
    if name == "distance":
        return scoring.weighted_distance([1, 1], offset=0.1)
    if name == "product":
        return scoring.weighted_product([1, 1, 1], offset=0.1)
    return scoring.weighted_sum(weights) if name == "sum" else scoring.waspas(weights, 0.5, offset=0.1)
