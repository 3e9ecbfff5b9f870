"""Cases of `RankedMatcher`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import RankedMatcher
from rankcast.bench.baselines.numpy_matching import NumpyMatching
from rankcast.bench.baselines.score_order import NclsAll, NumpyChunks, SqliteScores, ncls_available
from rankcast.bench.case import Answers, Contender, Figure, Parameters, Trial, case
from rankcast.bench.workloads import Columns, matching

PAPER = ("r-tree", "interval-tree", "segment-tree", "ir-tree", "sopt-r-tree")
MEGABYTE = 1e6


@case(
    "matching.scan",
    small={
        "subscriptions": [20_000],
        "events": [20],
        "attributes": [1, 4],
        "mode": ["exact", "relaxed"],
        "k": [20],
    },
    full={
        "subscriptions": [1_000_000],
        "events": [20],
        "attributes": [1, 4],
        "mode": ["exact", "relaxed"],
        "k": [20],
    },
    seed=23,
    unit="event",
    runs=5,
)
def scan(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match Zipfian events with the brute-force index; plain NumPy beside it."""
    over, rows, events = zipfian(parameters, rng)
    engine = loaded("scan", over, rows, k=parameters["k"], mode=parameters["mode"])
    return Trial(
        work=parameters["events"],
        contenders=[publishing("scan", engine, events), numpy_scan(rows, over, parameters["k"], events)],
        baseline="numpy",
        agrees=lambda answers: same_matches(answers, "scan"),
    )


@case(
    "matching.intervals",
    small={"subscriptions": [20_000], "events": [1_000], "kind": ["A", "B", "C"], "k": [20]},
    full={"subscriptions": [1_000_000], "events": [1_000], "kind": ["A", "B", "C"], "k": [20]},
    seed=24,
    unit="event",
    runs=5,
)
def intervals(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match points with scored intervals on one thread; peers that scan by score or find all and sort."""
    count, asked, k = parameters["subscriptions"], parameters["events"], parameters["k"]
    rows, events = matching.crowded(parameters["kind"], count, asked, rng)
    few = head(events, 20)
    peers: dict[str, Callable[..., Any]] = {"numpy chunks": NumpyChunks}
    if parameters["kind"] != "C":
        peers["sqlite"] = SqliteScores
    if ncls_available() and parameters["kind"] != "B":
        peers["ncls"] = NclsAll
    return against_peers(rows, events, few, ["a0"], k, peers)


@case(
    "matching.boxes",
    small={
        "subscriptions": [20_000],
        "events": [500],
        "attributes": [2, 4],
        "kind": ["dense", "sparse"],
        "k": [20],
    },
    full={
        "subscriptions": [1_000_000],
        "events": [1_000],
        "attributes": [2, 4],
        "kind": ["dense", "sparse"],
        "k": [20],
    },
    seed=25,
    unit="event",
    runs=5,
)
def boxes(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match points with scored boxes on one thread; NumPy by score and over all boxes beside it."""
    over = [f"a{number}" for number in range(parameters["attributes"])]
    count, asked = parameters["subscriptions"], parameters["events"]
    rows, events = matching.heavy_boxes(parameters["kind"], len(over), count, asked, rng)
    return against_peers(rows, events, head(events, 10), over, parameters["k"], {"numpy chunks": NumpyChunks})


@case(
    "matching.relaxed",
    small={"subscriptions": [20_000], "events": [20], "attributes": [4], "mode": ["relaxed"], "k": [20]},
    full={"subscriptions": [1_000_000], "events": [20], "attributes": [4], "mode": ["relaxed"], "k": [20]},
    seed=26,
    unit="event",
    runs=5,
)
def relaxed(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match Zipfian events relaxed: the box tree, the Threshold Algorithm over intervals, NumPy."""
    over, rows, events = zipfian(parameters, rng)
    engine = loaded("auto", over, rows, k=parameters["k"], mode="relaxed")
    cursors = loaded("ir-tree", over, rows, k=parameters["k"], mode="relaxed")
    first = head(events, 2)
    return Trial(
        work=parameters["events"],
        contenders=[
            publishing("auto", engine, events),
            Contender("ir-tree", run=lambda _: cursors.publish(first), work=2, runs=1),
            numpy_scan(rows, over, parameters["k"], events),
        ],
        baseline="numpy",
        agrees=lambda answers: (
            same_matches(answers, "auto") and starts_with(answers["auto"], answers["ir-tree"])
        ),
    )


@case(
    "matching.update",
    small={"subscriptions": [20_000], "changes": [1_000]},
    full={"subscriptions": [1_000_000], "changes": [10_000]},
    seed=27,
    unit="change",
    runs=5,
)
def update(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Insert, delete and rescore subscriptions of distribution C; matching as many events beside it."""
    count, changes = parameters["subscriptions"], parameters["changes"]
    rows, events = matching.crowded("C", count + changes, changes, rng)
    engine = loaded("auto", ["a0"], head(rows, count), k=20)
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


@case(
    "matching.batch",
    small={"subscriptions": [20_000], "events": [10_000], "kind": ["sparse"]},
    full={"subscriptions": [1_000_000], "events": [10_000], "kind": ["sparse"]},
    seed=28,
    unit="event",
    runs=5,
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
    "matching.table-2",
    small={"subscriptions": [10_000]},
    full={"subscriptions": [100_000, 200_000, 500_000, 1_000_000]},
    seed=29,
    unit="subscription",
    runs=1,
    reproduces="[Ranked Table 2]",
)
def table_2(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Build each index over Zipfian intervals; bytes of the index alone, per dimension."""
    count = parameters["subscriptions"]
    rows = matching.subscriptions(matching.zipfian(1, rng), count, ["a0"], rng)
    told = dict(zip((100_000, 200_000, 500_000, 1_000_000), range(4), strict=True)).get(count)
    paper = {
        "interval-tree": (0.92, 1.7, 4.2, 8.3),
        "r-tree": (1.2, 2.4, 6.0, 12.0),
        "segment-tree": (40.0, 89.0, 214.0, 429.0),
        "ir-tree": (1.76, 3.43, 8.35, 16.5),
    }
    return Trial(
        work=count,
        contenders=[
            Contender(
                index,
                prepare=partial(str, index),
                run=lambda name: loaded(name, ["a0"], rows, k=20),
                counters=lambda _, engine: {"megabytes": index_bytes(engine) / MEGABYTE},
                paper={} if told is None or index not in paper else {"megabytes": paper[index][told]},
            )
            for index in (*PAPER, "box-tree")
        ],
    )


def _figure(name: str, title: str, x: str, small: dict[str, Any], full: dict[str, Any], seed: int) -> None:
    """Declare a case that runs every index on Zipfian intervals, relaxed as in the paper's section 4."""

    def body(parameters: Parameters, rng: np.random.Generator) -> Trial:
        """Match Zipfian events with every scored interval index."""
        over, rows, events = zipfian({"mode": "relaxed", **parameters}, rng)
        engines = {
            index: loaded(index, over, rows, k=parameters["k"], mode="relaxed")
            for index in (*PAPER, "box-tree")
        }
        first = head(events, 5)
        return Trial(
            work=parameters["events"],
            contenders=[
                *(publishing(index, engine, events) for index, engine in engines.items()),
                numpy_scan(rows, over, parameters["k"], first, work=5),
            ],
            baseline="sopt-r-tree",
            agrees=lambda answers: all(same_matches(answers, index) for index in engines),
        )

    figure = Figure(title, x=x, y="seconds", log_x=True, log_y=True)
    case(
        name,
        small=small,
        full=full,
        seed=seed,
        unit="event",
        runs=3,
        reproduces=f"[Ranked {title}]",
        figures=[figure],
    )(body)


def _grid(**values: list[Any]) -> dict[str, list[Any]]:
    plain: dict[str, list[Any]] = {
        "subscriptions": [1_000_000],
        "events": [50],
        "attributes": [1],
        "k": [20],
        "skew_length": [0.75],
    }
    return {**plain, **values}


_figure(
    "matching.figure-6",
    "Figure 6",
    "k",
    _grid(subscriptions=[10_000], k=[10, 100]),
    _grid(k=[1, 10, 100, 1_000, 10_000]),
    30,
)
_figure(
    "matching.figure-7",
    "Figures 7 and 8",
    "attributes",
    _grid(subscriptions=[10_000], events=[10], attributes=[1, 4]),
    _grid(events=[10], attributes=[1, 2, 3, 4, 6, 8]),
    31,
)
_figure(
    "matching.figure-9",
    "Figure 9",
    "skew_length",
    _grid(subscriptions=[10_000], events=[10], attributes=[4], skew_length=[0.25, 1.0]),
    _grid(events=[10], attributes=[4], skew_length=[0.0625, 0.125, 0.25, 0.5, 1.0, 2.0]),
    32,
)


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
    rows: Columns,
    events: Columns,
    few: Columns,
    over: list[str],
    k: int,
    peers: dict[str, Callable[..., Any]],
) -> Trial:
    """Put the default index beside peers, which answer the first events alone."""
    engine, work = loaded("auto", over, rows, k=k), few["id"].size
    made = {name: peer(rows, over, k) for name, peer in peers.items()}

    def ask(peer: Any) -> Any:
        return peer.publish(few)

    return Trial(
        work=events["id"].size,
        contenders=[
            publishing("auto", engine, events),
            *(Contender(name, prepare=partial(made.get, name), run=ask, work=work, runs=3) for name in made),
            numpy_scan(rows, over, k, few, work=work),
        ],
        baseline="numpy chunks",
        agrees=lambda answers: same_matches(answers, "auto"),
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
    index: str, over: list[str], rows: Columns, *, k: int, mode: str = "exact", threads: int = 1
) -> RankedMatcher:
    """Make a matcher with all subscriptions in it."""
    engine = RankedMatcher(over=over, k=k, mode=mode, index=index, tuning={"threads": threads})
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
    return bool(same and rest == len(expected))


def starts_with(found: pa.Table, first: pa.Table) -> bool:
    """Whether an answer begins with that for fewer events."""
    return bool(found.slice(0, first.num_rows).equals(first))
