"""What the cases of `RankedMatcher` share: engines, contenders, peers, and how answers are compared."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast import RankedMatcher
from rankcast.bench.baselines.numpy_matching import NumpyMatching
from rankcast.bench.case import Answers, Contender, Parameters, Trial
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
    made = {name: peer(rows, over, k) for name, peer in peers.items()}
    asked = {name: head(events, 200 if name == best else 10) for name in made}

    def ask(name: str) -> Any:
        return made[name].publish(asked[name])

    return Trial(
        work=events["id"].size,
        contenders=[
            publishing("auto", engine, events),
            *(
                Contender(
                    name,
                    prepare=partial(str, name),
                    run=ask,
                    work=asked[name]["id"].size,
                    runs=5 if name == best else 1,
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
    return bool(same and rest == len(expected))


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
