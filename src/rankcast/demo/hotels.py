"""`MovingSkyline`: every hotel worth looking at, as travellers move."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rankcast.demo.scenes import CHANGE_COLUMNS, Scene, crowd, tell_change
from rankcast.moving.skyline import MovingSkyline


def scene(rng: np.random.Generator, batches: int, **variant: Any) -> Scene:
    """200 hotels with a price and a rating, 40 travellers on foot."""
    engine = MovingSkyline(over=["price", "rating"], prefer={"price": "min", "rating": "max"}, **variant)
    size = 200
    engine.upsert(
        {
            "id": [f"hotel {place}" for place in range(size)],
            "x": rng.uniform(0, 20, size),
            "y": rng.uniform(0, 20, size),
            "price": rng.lognormal(4.5, 0.4, size).round(),
            "rating": rng.uniform(2, 5, size).round(1),
        }
    )
    travellers = crowd(40)
    place = rng.uniform(0, 20, (len(travellers), 2))
    step = rng.normal(0, 0.1, (len(travellers), 2))
    engine.subscribe({"id": travellers, "x": place[:, 0], "y": place[:, 1]})

    def walks() -> Iterator[tuple[str, Any]]:
        for _ in range(batches):
            place[:] = np.clip(place + step, 0, 20)
            yield "publish", {"id": travellers, "x": place[:, 0].copy(), "y": place[:, 1].copy()}

    title = "hotels: those that no other beats in price, rating and distance at once"
    return Scene(title, engine, walks(), CHANGE_COLUMNS, tell_change)
