"""Cases of `RankedMatcher`: speed and size beside peers.

All contenders match the same events against the same subscriptions; a sample is compared with brute force.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import RankedMatcher
from rankcast.bench.baselines.lucene import LuceneMatching, lucene_installed
from rankcast.bench.baselines.matching import (
    DuckdbTop,
    IntervalTreeAll,
    NclsAll,
    NumpyChunks,
    NumpyMatching,
    RarestPredicate,
    RtreeAll,
    ScoreOrder,
    SqliteScores,
)
from rankcast.bench.runner import Answers, Contender, Grid, Parameters, Trial, case
from rankcast.bench.workloads import Columns, Floats, matching


def zipfian(parameters: Parameters, rng: np.random.Generator) -> tuple[list[str], Columns, Columns]:
    """Make attributes, subscriptions and events of the paper's generator."""
    over = [f"a{number}" for number in range(parameters["attributes"])]
    source = matching.zipfian(parameters["attributes"], rng)
    rows = matching.subscriptions(
        source,
        parameters["subscriptions"],
        over,
        rng,
        mode=parameters["mode"],
        skew_length=parameters.get("skew_length", 0.75),
    )
    return over, rows, matching.events(source, parameters["events"], over, rng)


def against_peers(
    rows: Columns, events: Columns, over: list[str], k: int, peers: dict[str, Callable[..., Any]], best: str
) -> Trial:
    """Put the default index beside peers; the best of them, the baseline, answers more events than others."""
    engine = loaded("auto", over, rows, k=k)
    if lucene_installed():
        peers = {**peers, "lucene": LuceneMatching}
    made = {name: peer(rows, over, k) for name, peer in peers.items()}
    queries = {name: head(events, 1_000 if name in (best, "lucene") else 10) for name in made}

    def ask(name: str) -> Any:
        return made[name].publish(queries[name])

    return Trial(
        work=events["id"].size,
        contenders=[
            publishing("auto", engine, events),
            *(
                Contender(
                    name,
                    prepare=partial(str, name),
                    run=ask,
                    work=queries[name]["id"].size,
                    runs=5 if name in (best, "lucene") else 1,
                )
                for name in made
            ),
            numpy_scan(rows, over, k, head(events, 10), work=10),
        ],
        baseline=best,
        agrees=lambda answers: (
            same_matches(answers, "auto") and all(same_as_numpy(answers, name) for name in made)
        ),
    )


def publishing(name: str, engine: RankedMatcher, events: Columns) -> Contender:
    """Let an engine match events; that changes nothing, so one engine serves every run."""
    return Contender(
        name,
        prepare=lambda: engine,
        run=lambda matcher: matcher.publish(events),
        stats=RankedMatcher.stats,
        bytes=index_bytes,
    )


def numpy_scan(rows: Columns, over: list[str], k: int, events: Columns, work: int | None = None) -> Contender:
    """Match by NumPy over all subscriptions."""
    plain = NumpyMatching(rows, over, k)
    return Contender("numpy", run=lambda _: plain.publish(events), work=work, runs=3)


def loaded(
    index: str,
    over: list[str],
    rows: Columns,
    *,
    k: int,
    mode: str = "exact",
    threads: int = 1,
    combine: Any = "sum",
) -> RankedMatcher:
    """Make a matcher with all subscriptions in it."""
    engine = RankedMatcher(
        over=over, k=k, mode=mode, index=index, combine=combine, tuning={"threads": threads}
    )
    engine.subscribe(rows)
    return engine


def index_bytes(engine: RankedMatcher) -> int:
    """Bytes of the index alone, beyond the columns of subscriptions."""
    return sum(array.nbytes for name, array in engine.state()[1].items() if name.startswith("index."))


def head(columns: Columns, size: int) -> Columns:
    """The first rows."""
    return {name: values[:size] for name, values in columns.items()}


def same_matches(answers: Answers, name: str) -> bool:
    """Compare an engine's matches with NumPy's, which may be of the first events; to the last bit."""
    found: pa.Table = answers[name]
    expected: list[Any] = answers["numpy"]
    ids = np.concatenate([each for each, _ in expected])
    scores = np.concatenate([each for _, each in expected])
    first = found.slice(0, ids.size)
    rest = found["event"][ids.size].as_py() if found.num_rows > ids.size else len(expected)
    same = np.array_equal(first["subscription"], ids) and np.array_equal(first["score"], scores)
    return bool(same and rest >= len(expected))  # the next event may have no match


def same_as_numpy(answers: Answers, name: str) -> bool:
    """Compare the first answers of a peer with NumPy's, whose ends it may have rounded."""
    pairs = zip(answers[name], answers["numpy"], strict=False)
    return all(np.array_equal(mine[0], theirs[0]) for mine, theirs in pairs)


def starts_with(found: pa.Table, first: pa.Table) -> bool:
    """Whether an answer begins with that for fewer events."""
    return bool(found.slice(0, first.num_rows).equals(first))


def euclidean(weights: Floats) -> Floats:
    """Combine weights to their Euclidean norm."""
    return np.asarray(np.linalg.norm(weights, axis=1), np.float64)


matched = partial(case, unit="event", runs=5)

ZIPFIAN: Grid = {"subscriptions": [20_000], "events": [20], "attributes": [4], "mode": ["relaxed"], "k": [20]}
MANY: Grid = {"subscriptions": [1_000_000]}
BOXES: Grid = {
    "subscriptions": [20_000],
    "events": [500],
    "attributes": [2, 4],
    "kind": ["dense", "sparse"],
    "k": [20],
}


@matched(
    "matching.intervals",
    small={"subscriptions": [20_000], "events": [1_000], "kind": ["A", "B", "C"], "k": [20]},
    full={"subscriptions": [1_000_000], "events": [1_000, 10_000], "kind": ["A", "B", "C"], "k": [20]},
    seed=24,
)
def intervals(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match points with scored intervals on one thread; peers in score order, or all matches and a sort."""
    count, event_count, k = parameters["subscriptions"], parameters["events"], parameters["k"]
    rows, events = matching.crowded(parameters["kind"], count, event_count, rng)
    peers: dict[str, Callable[..., Any]] = {
        "numpy chunks": NumpyChunks,
        "score order": ScoreOrder,
        "sqlite": SqliteScores,
        "ncls": NclsAll,
        "duckdb": DuckdbTop,
        "interval tree, all": IntervalTreeAll,
        "r-tree, all": RtreeAll,
    }
    hopeless = {"A": ["r-tree, all"], "B": ["ncls", "r-tree, all"], "C": ["sqlite"]}[parameters["kind"]]
    chosen = {name: peer for name, peer in peers.items() if name not in hopeless}
    best = {"A": "score order", "B": "score order", "C": "ncls"}[parameters["kind"]]
    return against_peers(rows, events, ["a0"], k, chosen, best)


@matched(
    "matching.boxes",
    small=BOXES,
    full={**BOXES, **MANY, "events": [1_000]},
    seed=25,
)
def boxes(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match points with scored boxes on one thread; peers in score order, or all matches and a sort."""
    over = [f"a{number}" for number in range(parameters["attributes"])]
    count, event_count = parameters["subscriptions"], parameters["events"]
    rows, events = matching.heavy_boxes(parameters["kind"], len(over), count, event_count, rng)
    peers: dict[str, Callable[..., Any]] = {
        "numpy chunks": NumpyChunks,
        "score order": ScoreOrder,
        "duckdb": DuckdbTop,
    }
    if parameters["kind"] == "sparse":
        peers["r-tree, all"] = RtreeAll
    best = "score order" if parameters["kind"] == "dense" or len(over) == 2 else "numpy chunks"
    return against_peers(rows, events, over, parameters["k"], peers, best)


@matched(
    "matching.relaxed",
    small=ZIPFIAN,
    full={**ZIPFIAN, **MANY},
    seed=26,
)
def relaxed(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match Zipfian events relaxed: the default, the Threshold Algorithm over intervals, NumPy."""
    over, rows, events = zipfian(parameters, rng)
    engine = loaded("auto", over, rows, k=parameters["k"], mode="relaxed")
    cursors = loaded("ir-tree", over, rows, k=parameters["k"], mode="relaxed")
    return Trial(
        work=parameters["events"],
        contenders=[
            publishing("auto", engine, events),
            publishing("ir-tree", cursors, events),
            numpy_scan(rows, over, parameters["k"], events),
        ],
        baseline="numpy",
        agrees=lambda answers: all(same_matches(answers, name) for name in ("auto", "ir-tree")),
    )


@matched(
    "matching.function",
    small=ZIPFIAN,
    full={**ZIPFIAN, **MANY},
    seed=34,
)
def function(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match Zipfian events relaxed, by a user's function (the Euclidean norm); the scan beside it."""
    over, rows, events = zipfian(parameters, rng)
    engines = {
        name: loaded(name, over, rows, k=parameters["k"], mode="relaxed", combine=euclidean)
        for name in ("auto", "scan")
    }
    first = head(events, 5)
    return Trial(
        work=parameters["events"],
        contenders=[
            publishing("auto", engines["auto"], events),
            Contender("scan", run=lambda _: engines["scan"].publish(first), work=5, runs=3),
        ],
        baseline="scan",
        agrees=lambda answers: starts_with(answers["auto"], answers["scan"]),
    )


@case(
    "matching.update",
    small={"subscriptions": [20_000], "changes": [1_000], "index": ["auto", "ir-tree"]},
    full={"subscriptions": [1_000_000], "changes": [10_000], "index": ["auto", "ir-tree"]},
    seed=27,
    unit="change",
    runs=5,
)
def update(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Insert, delete and rescore subscriptions of distribution C; matching as many events beside it."""
    count, changes = parameters["subscriptions"], parameters["changes"]
    rows, events = matching.crowded("C", count + changes, changes, rng)
    engine = loaded(parameters["index"], ["a0"], head(rows, count), k=20)
    fresh = {name: values[count:] for name, values in rows.items()}
    scores = {"id": np.arange(changes), "score": rng.permutation(rows["score"][:changes])}

    def absent() -> RankedMatcher:
        engine.unsubscribe(fresh["id"]) if len(engine) > count else None
        return engine

    def present() -> RankedMatcher:
        engine.subscribe(fresh) if len(engine) == count else None
        return engine

    return Trial(
        work=changes,
        contenders=[
            Contender("match", prepare=present, run=lambda matcher: matcher.publish(events)),
            Contender("insert", prepare=absent, run=lambda matcher: matcher.subscribe(fresh)),
            Contender("delete", prepare=present, run=lambda matcher: matcher.unsubscribe(fresh["id"])),
            Contender("rescore", prepare=present, run=lambda matcher: matcher.rescore(scores)),
        ],
        baseline="match",
    )


@matched(
    "matching.attributes",
    small={"subscriptions": [5_000], "events": [50], "attributes": [60], "bounded": [3], "mode": ["exact"]},
    full={
        "subscriptions": [50_000],
        "events": [200],
        "attributes": [200],
        "bounded": [3],
        "mode": ["exact", "relaxed"],
    },
    seed=33,
)
def attributes(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match events of hundreds of attributes of which a subscription bounds a few; the box tree, NumPy."""
    over = [f"a{number}" for number in range(parameters["attributes"])]
    mode, count = parameters["mode"], parameters["subscriptions"]
    rows, events = matching.few_bounds(over, parameters["bounded"], count, parameters["events"], mode, rng)
    nullable = matching.with_nulls(rows)
    engines = {index: loaded(index, over, nullable, k=20, mode=mode) for index in ("auto", "box-tree")}
    first = head(events, 10)
    return Trial(
        work=parameters["events"],
        contenders=[
            *(publishing(name, engine, events) for name, engine in engines.items()),
            numpy_scan(rows, over, 20, first, work=10),
        ],
        baseline="numpy",
        agrees=lambda answers: all(same_matches(answers, name) for name in engines),
    )


@matched(
    "matching.equality",
    small={"subscriptions": [5_000], "events": [50], "attributes": [20]},
    full={"subscriptions": [1_000_000], "events": [500], "attributes": [20, 50]},
    seed=61,
)
def equality(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match events with subscriptions of 5 equalities with Zipfian values; posting lists by rarest one."""
    over = [f"a{number}" for number in range(parameters["attributes"])]
    rows, events = matching.equalities(over, 5, parameters["subscriptions"], parameters["events"], rng)
    engine, lists = loaded("auto", over, matching.with_nulls(rows), k=20), RarestPredicate(rows, over, 20)
    engine.publish(events)
    return Trial(
        work=parameters["events"],
        contenders=[
            publishing("auto", engine, events),
            Contender("posting lists", run=lambda _: lists.publish(events), runs=3),
            numpy_scan(rows, over, 20, head(events, 5), work=5),
        ],
        baseline="posting lists",
        agrees=lambda answers: same_matches(answers, "auto") and same_as_numpy(answers, "posting lists"),
    )


@matched(
    "matching.drift",
    small={"subscriptions": [5_000], "events": [200], "attributes": [1, 2, 4]},
    full={"subscriptions": [200_000], "events": [1_000], "attributes": [1, 2, 4]},
    seed=62,
)
def drift(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match events after three turnovers of subscriptions whose values move; a fresh engine beside it."""
    over, count = [f"a{number}" for number in range(parameters["attributes"])], parameters["subscriptions"]
    part = count // 50
    rows, events = matching.moving(over, 4 * count, count, parameters["events"], rng)
    engine = loaded("auto", over, head(rows, count), k=20)
    for start in range(count, 4 * count, part):
        engine.unsubscribe(rows["id"][start - count : start - count + part])
        engine.subscribe({name: values[start : start + part] for name, values in rows.items()})
    last = {name: values[-count:] for name, values in rows.items()}
    fresh = loaded("auto", over, last, k=20)
    return Trial(
        work=parameters["events"],
        contenders=[publishing("moved", engine, events), publishing("fresh", fresh, events)],
        baseline="fresh",
        agrees=lambda answers: bool(answers["moved"].equals(answers["fresh"])),
    )


@matched(
    "matching.batch",
    small={"subscriptions": [20_000], "events": [10_000], "kind": ["sparse"]},
    full={"subscriptions": [1_000_000], "events": [10_000], "kind": ["sparse"]},
    seed=28,
)
def batch(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match a batch of events with boxes in 4 dimensions on one core and on two."""
    over = [f"a{number}" for number in range(4)]
    rows, events = matching.heavy_boxes(
        parameters["kind"], 4, parameters["subscriptions"], parameters["events"], rng
    )
    engines = {f"{n} core": loaded("auto", over, rows, k=20, threads=n) for n in (1, 2)}
    return Trial(
        work=parameters["events"],
        contenders=[publishing(name, engine, events) for name, engine in engines.items()],
        baseline="1 core",
        agrees=lambda answers: bool(answers["1 core"].equals(answers["2 core"])),
    )


@case(
    "matching.one",
    small={"subscriptions": [10_000], "events": [100], "attributes": [1, 4], "mode": ["exact"], "k": [10]},
    full={
        "subscriptions": [10_000, 1_000_000],
        "events": [1_000],
        "attributes": [1, 4],
        "mode": ["exact", "relaxed"],
        "k": [10],
    },
    seed=39,
    unit="event",
    runs=9,
)
def one(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match events one call each, a list of one dict; plain NumPy over all subscriptions beside it."""
    over, rows, events = zipfian(parameters, rng)
    engine = loaded("auto", over, rows, k=parameters["k"], mode=parameters["mode"])
    calls = [[row] for row in pa.table(events).to_pylist()]
    return Trial(
        work=len(calls),
        contenders=[
            Contender(
                "one",
                prepare=lambda: engine,
                run=lambda matcher: [matcher.publish(call) for call in calls],
                stats=RankedMatcher.stats,
            ),
            numpy_scan(rows, over, parameters["k"], head(events, 10), work=10),
        ],
        baseline="numpy",
        agrees=lambda answers: same_matches({**answers, "one": pa.concat_tables(answers["one"])}, "one"),
    )
