"""`RankedMatcher`: the best ads for each visitor, without looking at the rest."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rankcast.demo.scenes import Row, Scene, cell
from rankcast.matching.engine import RankedMatcher

PRODUCTS = (
    "running shoes",
    "espresso",
    "night train",
    "guitar",
    "garden tools",
    "museum pass",
    "tent",
    "novel",
)


def scene(rng: np.random.Generator, batches: int, **variant: Any) -> Scene:
    """2,000 campaigns with an age range, hours of the day and a bid; bids are paced as it goes."""
    engine = RankedMatcher(over=["age", "hour"], k=3, **variant)
    ads = [f"{PRODUCTS[place % len(PRODUCTS)]} {place}" for place in range(2000)]
    age, hour = rng.uniform(15, 80, len(ads)), rng.uniform(0, 24, len(ads))
    bids = rng.gamma(2, 0.5, len(ads))
    engine.subscribe(
        {
            "id": ads,
            "age_lo": age,
            "age_hi": age + rng.uniform(2, 20, len(ads)),
            "hour_lo": hour,
            "hour_hi": hour + rng.uniform(1, 8, len(ads)),
            "score": bids,
        }
    )

    def visitors() -> Iterator[tuple[str, Any]]:
        for batch in range(batches):
            paced = rng.choice(len(ads), 50, replace=False)
            bids[paced] *= rng.uniform(0.8, 1.2, 50)
            yield "rescore", {"id": [ads[place] for place in paced], "score": bids[paced]}
            names = [f"visitor {10 * batch + place}" for place in range(10)]
            yield "publish", {"id": names, "age": rng.uniform(18, 80, 10), "hour": rng.uniform(0, 24, 10)}

    title = "ads: the 3 highest bids among 2,000 campaigns that want this visitor"
    return Scene(title, engine, visitors(), ("visitor", "rank", "campaign", "bid"), tell_match)


def tell_match(row: Row) -> tuple[str, ...]:
    """One match."""
    return cell(row["event"]), f"#{row['rank']}", cell(row["subscription"]), f"{row['score']:.2f}"
