"""`RangeTopK`: the cheapest stocks in everybody's risk range, as prices move."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rankcast.demo.scenes import CHANGE_COLUMNS, Scene, crowd, tell_change
from rankcast.range_topk.engine import RangeTopK


def scene(rng: np.random.Generator, batches: int, **variant: Any) -> Scene:
    """300 stocks with a risk and a price-earnings ratio, 200 investors with a risk range."""
    engine = RangeTopK(over="risk", by="pe", k=3, **variant)
    letters = np.array(list("ABCDEFGHIJKLMNOPRSTUVWXYZ"))
    tickers = sorted({"".join(rng.choice(letters, 4)) for _ in range(300)})
    pe = rng.lognormal(2.8, 0.5, len(tickers))
    engine.publish({"id": tickers, "risk": rng.uniform(0, 10, len(tickers)), "pe": pe})
    people = crowd(200)
    ends = np.sort(rng.uniform(0, 10, (len(people), 2)), axis=1)
    engine.subscribe({"id": people, "risk_lo": ends[:, 0], "risk_hi": ends[:, 1]})

    def quotes() -> Iterator[tuple[str, Any]]:
        for _ in range(batches):
            moved = rng.integers(0, len(tickers), 20)
            pe[moved] *= rng.lognormal(0, 0.12, 20)
            yield "publish", {"id": [tickers[place] for place in moved], "pe": pe[moved]}

    title = "stocks: the 3 lowest price-earnings ratios in each investor's risk range"
    return Scene(title, engine, quotes(), CHANGE_COLUMNS, tell_change)
