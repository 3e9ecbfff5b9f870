"""A stock screener: everybody's three cheapest stocks in a range of risk, kept current while quotes come in.

`RangeTopK` keeps a ranked list per watcher. `publish` takes a batch of quotes and answers with what changed
in whose list, so that only those people are told. `explain` says why a stock is not in a list.

    python examples/stock_screener.py
"""

from __future__ import annotations

from collections import defaultdict
from typing import Any

import numpy as np

from rankcast import RangeTopK

WATCHERS: list[dict[str, Any]] = [
    {"id": "ada", "risk_lo": None, "risk_hi": 3.0, "k": None},
    {"id": "bob", "risk_lo": 4.0, "risk_hi": 6.0, "k": None},
    {"id": "cleo", "risk_lo": 8.0, "risk_hi": None, "k": 5},
    {"id": "dan", "risk_lo": None, "risk_hi": None, "k": 1},
]


def tickers(rng: np.random.Generator, size: int) -> list[str]:
    """Made-up names of four letters that can be spoken."""
    names = [a + b + c + d for a in "BDFKLMNPRSTV" for b in "AEIOU" for c in "BDFKLMNPRSTV" for d in "AEIOU"]
    return [str(name) for name in rng.choice(names, size, replace=False)]


def story(deltas: Any) -> list[str]:
    """What each watcher is told: who came in, who went, whose price moved."""
    told: dict[str, list[str]] = defaultdict(list)
    for row in deltas.to_pylist():
        if row["op"] == "leave":
            told[row["subscription"]].append(f"- {row['item']}")
        else:
            sign = "+" if row["op"] == "enter" else "~"
            told[row["subscription"]].append(f"{sign} {row['item']} {row['score']:.1f} #{row['rank']}")
    return [f"  {name:<5}{',  '.join(parts)}" for name, parts in told.items()]


def main(size: int = 500, hours: int = 6, seed: int = 3) -> RangeTopK:
    """Play a day of trade; returns the engine as it stands at the close."""
    rng = np.random.default_rng(seed)
    names = tickers(rng, size)
    ratio = dict(zip(names, rng.lognormal(3.0, 0.5, size).round(1).tolist(), strict=True))

    screener = RangeTopK(over="risk", by="pe", k=3)
    screener.publish({"id": names, "risk": rng.uniform(1, 10, size).round(2), "pe": list(ratio.values())})
    print(f"{size} stocks. The lowest price/earnings in everybody's range of risk:")
    print(*story(screener.subscribe(WATCHERS)), sep="\n")

    for hour in range(10, 10 + hours):
        traded = [str(name) for name in rng.choice(names, size // 8, replace=False)]
        for name, move in zip(traded, rng.lognormal(0.0, 0.12, len(traded)), strict=True):
            ratio[name] = round(ratio[name] * move, 1)
        deltas = screener.publish({"id": traded, "pe": [ratio[name] for name in traded]})
        print(f"\n{hour}:00, {len(traded)} quotes, {deltas.num_rows} changes to tell")
        print(*story(deltas) or ["  nobody's list changed"], sep="\n")

    best = screener.results(["dan"])["item"][0].as_py()
    print(f"\n{best}, the cheapest of all, is taken off the market:")
    print(*story(screener.remove([best])), sep="\n")

    runner_up = screener.results(["dan"])["item"][0].as_py()
    why = screener.explain("bob", runner_up)
    print(f"\nWhy does bob not see {runner_up}, the cheapest now? {why['reason']}")
    return screener


if __name__ == "__main__":
    main()
