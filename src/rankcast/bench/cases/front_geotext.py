"""The front cases of geo-text: a window that was turned over, beside systems that keep the same lists."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from rankcast.bench import limits
from rankcast.bench.baselines.geotext_tables import DuckdbGeotext
from rankcast.bench.baselines.lucene import LuceneGeotext, lucene_installed
from rankcast.bench.cases.covering import weigh
from rankcast.bench.cases.geotext_steady import ROUNDING, steady
from rankcast.bench.runner import Contender, Parameters, Trial, case

OURS, PLAIN = "rankcast", "Numba, inverted file, kmax 3"
RUNS = 3
SAMPLE = 200
FEW = 20  # messages that DuckDB takes at once; it needs tens of milliseconds for each


@case(
    "front.geotext",
    small={"subscriptions": [500], "window": [400], "events": [100], "k": [20], "data": ["synthetic"]},
    full=[
        {
            "subscriptions": [200_000],
            "window": [200_000],
            "events": [1_000],
            "k": [20],
            "data": ["synthetic"],
        },
        {"subscriptions": [10_000], "window": [50_000], "events": [250], "k": [100], "data": ["reviews"]},
    ],
    seed=86,
    unit="message",
    runs=RUNS,
)
def lists(parameters: Parameters, _: np.random.Generator) -> Trial:
    """Keep the best messages of subscriptions current while a window of messages moves on."""
    size, many = parameters["events"], parameters["subscriptions"]
    made = steady({**parameters, "events": size * (RUNS + 1)})
    plain, engine = made.plain(), made.engine()
    parts = iter([made.messages.slice(2 * made.window + at * size, size) for at in range(RUNS + 1)])
    few = min(FEW, size)
    systems: dict[str, tuple[Any, int]] = {"DuckDB": (DuckdbGeotext(plain), few)}
    if lucene_installed():
        systems["Lucene"] = LuceneGeotext(plain), size
    before, ahead = plain.again(), plain.again()

    def agrees(_: Any) -> bool:
        before.turn(few * (RUNS + 1))
        rows = range(0, many, max(1, many // SAMPLE))
        found = engine.results(list(rows))
        owner, score = found["subscription"].to_numpy(), found["score"].to_numpy()
        ours = all(_close(ahead.best(row), score[owner == row].tolist()) for row in rows)
        wanted = {few: before, size: ahead}
        return ours and all(
            _close(target.best(row), wanted[taken].best(row))
            for target, taken in systems.values()
            for row in rows
        )

    def turned(name: str, target: Any, taken: int) -> Contender:
        return Contender(made.named(name), run=lambda _: target.turn(taken), work=taken)

    return Trial(
        work=size,
        contenders=[
            Contender(
                made.named(OURS),
                prepare=_next(engine, parts),
                run=lambda turn: turn[0].publish(turn[1]),
                counters=lambda _, answer: limits.answered(answer, size),
                bytes=lambda _: weigh(engine),
            ),
            turned(PLAIN, ahead, size),
            *(turned(name, *each) for name, each in systems.items()),
        ],
        baseline=made.named(OURS),
        agrees=agrees,
    )


def _next(engine: Any, parts: Any) -> Callable[[], tuple[Any, Any]]:
    return lambda: (engine, next(parts))


def _close(found: list[float], wanted: list[float]) -> bool:
    return len(found) == len(wanted) and np.allclose(found, wanted, rtol=0.0, atol=ROUNDING)
