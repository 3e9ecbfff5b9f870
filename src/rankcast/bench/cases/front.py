"""The front cases: each task beside real systems and beside the plainest fast program, in one run.

`rankcast bench front` makes the front table from their records. A contender called `rankcast` is ours; those
in `PLAIN` are short programs of ours that use what the workload allows; all others are systems or libraries
that people use. Answers are compared row by row before a time counts. A system that is not set up
(`make peers`) is left out, and says so.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from rankcast import CoveringTable, MovingSkyline, MovingTopK, RangeTopK, scoring
from rankcast.bench import limits
from rankcast.bench.baselines.covering import BlockedScan
from rankcast.bench.baselines.differential import DifferentialRanges, differential_installed
from rankcast.bench.baselines.embedded import (
    DuckdbRanges,
    DuckdbSkyline,
    NearestRtree,
    NearestTree,
    RtreeForwarded,
    SqliteCovering,
    SqliteRanges,
    answers_equal,
)
from rankcast.bench.baselines.lucene import LuceneMatching, lucene_installed
from rankcast.bench.baselines.matching import DuckdbTop, NclsAll, ScoreOrder, SqliteScores
from rankcast.bench.baselines.moving import Branches, Pareto
from rankcast.bench.baselines.postgres import (
    PostgisNearest,
    PostgresBoxes,
    PostgresCovering,
    PostgresNearest,
    PostgresRanges,
    postgis_installed,
    postgres_installed,
)
from rankcast.bench.baselines.range_topk import AllAnew, ThresholdScan
from rankcast.bench.cases.covering import play, weigh
from rankcast.bench.cases.matching import head, loaded
from rankcast.bench.cases.matching_peers import by_event, shaped
from rankcast.bench.runner import Contender, Parameters, Trial, case, publish_all
from rankcast.bench.workloads import Columns, batches, covering, moving, range_topk

OURS = "rankcast"
PLAIN = (
    "Numba, all lists anew",
    "Numba, threshold scan",
    "Numba, score order",
    "Numba, blocked scan",
    "Numba, BBS",
)
RUNS = 3
SAMPLE = 200
MOST = {"DuckDB": 100_000, "Flink SQL": 10_000}  # ranges; with more a batch takes minutes
STEADY = ("Numba, all lists anew", "differential-dataflow")  # whose batches are quick at all sizes
ONCE = 50_000  # ranges from which on a system that makes all lists anew is timed once


@case(
    "front.range",
    small={"subscriptions": [500], "objects": [300], "k": [10], "batch": [50]},
    full={"subscriptions": [10_000, 100_000, 1_000_000], "objects": [10_000], "k": [10], "batch": [1_000]},
    seed=81,
    unit="event",
    runs=RUNS,
)
def ranges(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Keep the best objects of ranges current over batches of updates."""
    size, many, k = parameters["batch"], parameters["subscriptions"], parameters["k"]
    objects = range_topk.objects(parameters["objects"], rng)
    subscriptions = range_topk.subscriptions(many, rng)
    parts = batches(range_topk.uniform_events(objects, size * (RUNS + 1), rng), size)
    engine = RangeTopK(k=k)
    engine.publish(objects)
    engine.subscribe(subscriptions)
    ours = Contender(
        OURS,
        _published,
        _turns(engine, parts),
        counters=lambda _, answer: limits.answered(answer, size),
        bytes=lambda _: weigh(engine),
    )
    peers: dict[str, Any] = {PLAIN[0]: AllAnew, PLAIN[1]: ThresholdScan, "SQLite": SqliteRanges}
    peers |= {"DuckDB": DuckdbRanges}
    if postgres_installed():
        peers["PostgreSQL"] = PostgresRanges
    if differential_installed():
        peers["differential-dataflow"] = DifferentialRanges
    asked = {name: kind for name, kind in peers.items() if many <= MOST.get(name, many)}
    others = {name: kind(objects, subscriptions, k) for name, kind in asked.items()}
    runs = {name: RUNS if name in STEADY or many < ONCE else 1 for name in others}

    def agrees(_: Any) -> bool:
        """Compare each with the plain program after as many batches as it has had."""
        rows = list(range(0, many, max(1, many // SAMPLE)))
        plain, wanted = AllAnew(objects, subscriptions, k), []
        for part in parts:
            plain.publish(part)
            wanted.append([plain.items(row) for row in rows])
        lists = engine.results(rows)
        mine: dict[int, list[int]] = {row: [] for row in rows}
        for owner, item in zip(lists["subscription"].to_pylist(), lists["item"].to_pylist(), strict=True):
            mine[owner].append(item)
        return [mine[row] for row in rows] == wanted[RUNS] and all(
            [other.items(row) for row in rows] == wanted[runs[name]] for name, other in others.items()
        )

    return Trial(
        work=size,
        contenders=[
            ours,
            *(
                Contender(name, _published, _turns(other, parts), runs=runs[name])
                for name, other in others.items()
            ),
        ],
        baseline=OURS,
        agrees=agrees,
    )


def _turns(target: Any, parts: list[Any]) -> Callable[[], tuple[Any, Any]]:
    left = iter(parts)
    return lambda: (target, next(left))


def _published(turn: tuple[Any, Any]) -> Any:
    return turn[0].publish(turn[1])


@case(
    "front.matching",
    small={"shape": ["A", "sparse 2"], "subscriptions": [2_000], "events": [100], "k": [20]},
    full={
        "shape": ["A", "B", "C", "dense 2", "sparse 2", "dense 4", "sparse 4"],
        "subscriptions": [500_000],
        "events": [1_000],
        "k": [20],
    },
    seed=82,
    unit="event",
    runs=RUNS,
)
def matches(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Find the best subscriptions for events among scored intervals and boxes."""
    many, size, k = parameters["subscriptions"], parameters["events"], parameters["k"]
    over, rows, events = shaped(parameters["shape"], many, size, rng)
    engine = loaded("auto", over, rows, k=k)
    for _ in range(4):
        engine.publish(events)
    made: dict[str, tuple[Any, int]] = {PLAIN[2]: (ScoreOrder(rows, over, k), size)}
    if len(over) == 1:
        made["ncls"] = NclsAll(rows, over, k), min(size, 200 if parameters["shape"] == "C" else 20)
        made["SQLite"] = SqliteScores(rows, over, k), min(size, 100)
    made["DuckDB"] = DuckdbTop(rows, over, k), min(size, 50)
    if len(over) > 1 and postgres_installed():
        made["PostgreSQL"] = PostgresBoxes(rows, over, k), min(size, 50)
    if lucene_installed():
        made["Lucene"] = LuceneMatching(rows, over, k), size
    contenders = [
        Contender(
            OURS,
            prepare=lambda: engine,
            run=lambda matcher: matcher.publish(events),
            counters=lambda _, answer: limits.answered(answer, size),
            bytes=lambda _: weigh(engine),
        )
    ]
    contenders += [_asked(name, target, head(events, some), some) for name, (target, some) in made.items()]

    def agrees(answers: Any) -> bool:
        mine = by_event(answers[OURS], size)
        exact = [name for name in made if name != "ncls"]  # which rounds ends to 40 bits
        return all(answers_equal(answers[name], mine) for name in exact)

    return Trial(work=size, contenders=contenders, baseline=OURS, agrees=agrees)


def _asked(name: str, target: Any, events: Columns, work: int) -> Contender:
    return Contender(name, run=lambda _: target.publish(events), work=work, runs=RUNS)


@case(
    "front.covering",
    small={"boxes": ["heavy-tailed"], "first": [1_000], "fresh": [300], "attributes": [3]},
    full={"boxes": ["heavy-tailed", "uniform"], "first": [100_000], "fresh": [10_000], "attributes": [3]},
    seed=83,
    unit="subscription",
    runs=RUNS,
)
def covers(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Say of new subscriptions whether one that is there covers them."""
    over, size, fresh = (
        covering.attributes(parameters["attributes"]),
        parameters["first"],
        parameters["fresh"],
    )
    rows = covering.boxes(size + fresh, over, rng, parameters["boxes"])
    first = {name: column[:size] for name, column in rows.items()}
    names = CoveringTable(over=over).subscribe(first)["covered_by"].to_numpy(zero_copy_only=False)
    above = np.nan_to_num(names, nan=-1).astype(np.int64)
    steps = [
        ("subscribe", part) for part in batches({name: column[size:] for name, column in rows.items()}, 1_000)
    ]
    few = [("subscribe", {name: column[size : size + fresh // 10] for name, column in rows.items()})]

    def table() -> CoveringTable:
        made = CoveringTable(over=over)
        made.subscribe(first)
        return made

    def with_boxes(kind: Any) -> Callable[[], Any]:
        def made() -> Any:
            target = kind(over, rows)
            target.load(first, above)
            return target

        return made

    systems: dict[str, Any] = {"rtree": RtreeForwarded, "SQLite R*-tree": SqliteCovering}
    if postgres_installed():
        systems["PostgreSQL"] = PostgresCovering
    return Trial(
        work=fresh,
        contenders=[
            Contender(
                OURS,
                prepare=table,
                run=lambda target: play(target, steps),
                counters=lambda *_: {limits.NAMED: 1.0, limits.WRITTEN: 1.0},
                bytes=weigh,
            ),
            Contender(PLAIN[3], prepare=with_boxes(BlockedScan), run=lambda target: play(target, steps)),
            *(
                Contender(
                    name,
                    prepare=with_boxes(kind),
                    run=lambda target: play(target, few),
                    work=fresh // 10,
                    runs=1,
                )
                for name, kind in systems.items()
            ),
        ],
        baseline=OURS,
        agrees=lambda answers: _same_front(answers, size + fresh // 10),
    )


def _same_front(answers: Any, size: int) -> bool:
    """Whether the first boxes are forwarded by all alike."""
    fronts = [[row for row in answer.forwarded() if row < size] for answer in answers.values()]
    return all(front == fronts[0] for front in fronts)


CITY, COUNTRY, CONTINENT = 30.0, 300.0, 5_000.0  # kilometres


@case(
    "front.nearest",
    small={"side": [CITY], "step": [10], "objects": [2_000], "cars": [100], "k": [10]},
    full=[
        {"side": [CITY], "step": [10, 1], "objects": [100_000], "cars": [10_000], "k": [10]},
        {"side": [COUNTRY, CONTINENT], "step": [10], "objects": [100_000], "cars": [10_000], "k": [10]},
    ],
    seed=84,
    unit="position",
    runs=RUNS,
)
def nearest(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Keep the nearest objects of cars at 60 km/h current; a position every `step` seconds."""
    side, cars, k, steps = parameters["side"], parameters["cars"], parameters["k"], 8 * (RUNS + 1)
    places = rng.uniform(0, side, (2, parameters["objects"]))
    objects: Columns = {"id": np.arange(parameters["objects"]), "x": places[0], "y": places[1]}
    parts = list(drives(rng, side, cars, steps + 1, parameters["step"] / 60))
    engine = MovingTopK(over=[], k=k, score=scoring.weighted_sum([1.0]), tuning={"threads": 1})
    engine.upsert(objects)
    engine.subscribe(parts[0])
    groups = [parts[at : at + 8] for at in range(1, steps + 1, 8)]
    others: dict[str, Any] = {"scipy cKDTree": NearestTree(objects, k), "rtree": NearestRtree(objects, k)}
    if postgres_installed():
        others["PostgreSQL"] = PostgresNearest(objects, k)
    if postgis_installed():
        others["PostGIS"] = PostgisNearest(objects, k)
    small = [[{name: column[: cars // 20] for name, column in group[-1].items()}] for group in groups]

    def agrees(_: Any) -> bool:
        mine = engine.results(list(range(cars // 20)))["item"].to_numpy().reshape(-1, k)
        return all(np.array_equal(other.found[: cars // 20], mine) for other in others.values())

    return Trial(
        work=8 * cars,
        contenders=[
            Contender(
                OURS,
                _driven,
                _turns(engine, groups),
                stats=lambda _: limits.told(engine),
                bytes=lambda _: weigh(engine),
            ),
            Contender("scipy cKDTree", _driven, _turns(others["scipy cKDTree"], groups)),
            *(
                Contender(name, _driven, _turns(other, small), work=cars // 20)
                for name, other in others.items()
                if name != "scipy cKDTree"
            ),
        ],
        baseline=OURS,
        agrees=agrees,
    )


def _driven(turn: tuple[Any, Any]) -> Any:
    return publish_all(*turn)


def drives(rng: np.random.Generator, side: float, cars: int, steps: int, km: float) -> Iterator[Columns]:
    """Positions of cars that keep their way and turn at the borders, step by step."""
    place, angle = rng.uniform(0, side, (2, cars)), rng.uniform(0, 2 * np.pi, cars)
    way = km * np.array([np.cos(angle), np.sin(angle)])
    for _ in range(steps):
        yield {"id": np.arange(cars), "x": place[0].copy(), "y": place[1].copy()}
        place = place + way
        out = (place < 0) | (place > side)
        way = np.where(out, -way, way)
        place = np.clip(place, 0, side)


@case(
    "front.skyline",
    small={"distribution": ["unif"], "objects": [500], "attributes": [2], "cars": [10]},
    full={"distribution": ["unif", "anti"], "objects": [20_000], "attributes": [2], "cars": [200]},
    seed=85,
    unit="position",
    runs=RUNS,
)
def skylines(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Keep the skylines of cars at 60 km/h in a city current, a position every second."""
    over, cars, side = covering.attributes(parameters["attributes"]), parameters["cars"], CITY
    objects = moving.objects(parameters["objects"], len(over), rng, parameters["distribution"])
    for axis in "xy":
        objects[axis] = objects[axis] / moving.UNIVERSE * side
    steps = 10 * (RUNS + 1)
    parts = list(drives(rng, side, cars, steps + 1, 1 / 60))
    groups = [parts[at : at + 10] for at in range(1, steps + 1, 10)]
    engine = MovingSkyline(over=over, tuning={"threads": 1})
    engine.upsert(objects)
    engine.subscribe(parts[0])
    others: dict[str, Any] = {
        PLAIN[4]: Branches(objects, over),
        "paretoset": Pareto(objects, over),
        "DuckDB": DuckdbSkyline(objects, over),
    }
    few = [[{name: column[:1] for name, column in group[-1].items()}] for group in groups]
    some = [[{name: column[: max(1, cars // 10)] for name, column in group[-1].items()}] for group in groups]

    def agrees(_: Any) -> bool:
        mine = set(engine.results([0])["item"].to_pylist())
        return all(set(other.found[0].tolist()) == mine for other in others.values())

    return Trial(
        work=10 * cars,
        contenders=[
            Contender(
                OURS,
                _driven,
                _turns(engine, groups),
                stats=lambda _: limits.told(engine),
                bytes=lambda _: weigh(engine),
            ),
            Contender(PLAIN[4], _driven, _turns(others[PLAIN[4]], groups)),
            Contender("paretoset", _driven, _turns(others["paretoset"], some), work=max(1, cars // 10)),
            Contender("DuckDB", _driven, _turns(others["DuckDB"], few), work=1),
        ],
        baseline=OURS,
        agrees=agrees,
    )
