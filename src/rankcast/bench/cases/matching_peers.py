"""Cases of `RankedMatcher` whose baseline is another system or the best of its own indexes.

`matching.mixed` has Lucene beside it where `make peers-lucene` has set that up. `matching.auto` shows how far
the default index is from the best one for each shape: the best is found by asking all of them first.
"""

from __future__ import annotations

import time
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import RankedMatcher
from rankcast.bench.baselines.lucene import LuceneMatching, lucene_installed
from rankcast.bench.baselines.matching import Best, best_of
from rankcast.bench.cases.matching import head, loaded, matched, publishing
from rankcast.bench.runner import Answers, Contender, Parameters, Trial
from rankcast.bench.workloads import Columns, matching
from rankcast.bench.workloads.matching import Mixed

INTERVALS, CATEGORIES = ["pay", "hours"], ["job", "town"]


@matched(
    "matching.mixed",
    small={"subscriptions": [5_000], "events": [100], "k": [20]},
    full={"subscriptions": [1_000_000], "events": [1_000], "k": [20]},
    seed=63,
)
def mixed(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match events with subscriptions of intervals and categories; Lucene, and NumPy over all of them."""
    k, many = parameters["k"], parameters["subscriptions"]
    made = matching.mixed(many, parameters["events"], rng)
    engine = RankedMatcher(over=INTERVALS + CATEGORIES, categories=CATEGORIES, k=k)
    engine.subscribe(with_lists(made))
    engine.publish(made.events)
    first = head(made.events, 5)
    contenders = [
        publishing("auto", engine, made.events),
        Contender("numpy", run=lambda _: compared(made, first, k), work=5, runs=1),
    ]
    peer = "numpy"
    if lucene_installed():
        peer, other = "lucene", LuceneMatching(made.rows, INTERVALS, k, made.lists)
        other.publish(made.events)
        contenders.append(Contender("lucene", run=lambda _: other.publish(made.events), runs=3))

    def agrees(answers: Answers) -> bool:
        mine = by_event(answers["auto"], parameters["events"])
        others = [answers["numpy"], *([answers["lucene"]] if peer == "lucene" else [])]
        return all(same(each, mine) for each in others)

    return Trial(work=parameters["events"], contenders=contenders, baseline=peer, agrees=agrees)


def with_lists(made: Mixed) -> dict[str, Any]:
    """The subscriptions as the engine takes them."""
    lists = {
        f"{name}_{word}": pa.array(lists, pa.list_(pa.int64()))
        for name, both in made.lists.items()
        for word, lists in zip(("in", "not_in"), both, strict=True)
    }
    return {**matching.with_nulls(made.rows), **lists}


def compared(made: Mixed, events: Columns, k: int) -> Best:
    """The best subscriptions for each event, each of them looked at."""
    found, rows = [], made.rows
    for e in range(len(events["id"])):
        met = np.ones(len(rows["id"]), bool)
        for name in INTERVALS:
            met &= (rows[f"{name}_lo"] <= events[name][e]) & (events[name][e] <= rows[f"{name}_hi"])
        for name, (accepted, refused) in made.lists.items():
            code = int(events[name][e])
            for row in np.flatnonzero(met).tolist():
                takes, not_these = accepted[row], refused[row]
                met[row] = (takes is None or code in takes) and (not_these is None or code not in not_these)
        found.append(best_of(np.flatnonzero(met), rows["id"], rows["score"], k))
    return found


def by_event(found: pa.Table, events: int) -> Best:
    """An answer of the engine, a pair for each event, which has its place as id."""
    event, ids, scores = (np.asarray(found[name]) for name in ("event", "subscription", "score"))
    ends = np.searchsorted(event, np.arange(events + 1))
    return [(ids[a:b], scores[a:b]) for a, b in pairwise(ends)]


def same(some: Best, mine: Best) -> bool:
    """Whether answers for the first events are ours."""
    return all(
        np.array_equal(one[0], other[0]) and np.array_equal(one[1], other[1])
        for one, other in zip(some, mine, strict=False)
    )


SHAPES = [
    "A",
    "B",
    "C",
    "A overlapping",
    "dense 2",
    "dense 4",
    "sparse 2",
    "sparse 4",
    "few of 60",
    "equal of 20",
]


@matched(
    "matching.auto",
    small={"subscriptions": [20_000], "events": [500], "shape": SHAPES},
    full={"subscriptions": [200_000], "events": [2_000], "shape": SHAPES},
    seed=64,
)
def auto(parameters: Parameters, rng: np.random.Generator) -> Trial:
    """Match with the default index after a while; the baseline is the best of all indexes there are."""
    over, rows, events = shaped(parameters["shape"], parameters["subscriptions"], parameters["events"], rng)
    names = ["box-tree", "inverted", "r-tree", "ir-tree"]
    if len(over) == 1:
        names += ["interval-tree", "segment-tree"]
    engine = loaded("auto", over, rows, k=20)
    for _ in range(8):
        engine.publish(events)
    others = {name: loaded(name, over, rows, k=20) for name in names if len(over) < 20 or name in names[:2]}
    first = head(events, 50)
    best = min(others, key=lambda name: asked(others[name], first))
    return Trial(
        work=parameters["events"],
        contenders=[publishing("auto", engine, events), publishing(best, others[best], events)],
        baseline=best,
        agrees=lambda answers: bool(answers["auto"].equals(answers[best])),
    )


def shaped(shape: str, count: int, events_: int, rng: np.random.Generator) -> tuple[list[str], Any, Columns]:
    """Attributes, subscriptions and events of a shape."""
    word, *number = shape.split(" ")
    if word in ("dense", "sparse"):
        over = [f"a{each}" for each in range(int(number[0]))]
        return over, *matching.heavy_boxes(word, len(over), count, events_, rng)
    if word in ("few", "equal"):
        over = [f"a{each}" for each in range(int(number[-1]))]
        if word == "few":
            rows, events = matching.few_bounds(over, 3, count, events_, "exact", rng)
        else:
            rows, events = matching.equalities(over, 5, count, events_, rng)
        return over, matching.with_nulls(rows), events
    rows, events = matching.crowded(word, count, events_, rng)
    if number:
        middle = events.pop("a0")
        events |= {"a0_lo": middle, "a0_hi": middle + 1e-4}
    return ["a0"], rows, events


def asked(engine: RankedMatcher, events: Columns) -> float:
    """Seconds of the processor for some events, the least of three times."""
    spent = []
    for _ in range(3):
        start = time.process_time()
        engine.publish(events)
        spent.append(time.process_time() - start)
    return min(spent)
