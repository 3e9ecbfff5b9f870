"""`MovingTopK`: the best charging points for taxis on the move."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rankcast.demo.scenes import CHANGE_COLUMNS, Scene, crowd, tell_change
from rankcast.moving.scoring import weighted_sum
from rankcast.moving.topk import MovingTopK


def scene(rng: np.random.Generator, batches: int, **variant: Any) -> Scene:
    """400 charging points with a price and a queue, 60 taxis that drive on."""
    engine = MovingTopK(over=["price", "queue"], k=3, score=weighted_sum([1.0, 2.0, 1.0]), **variant)
    size = 400
    points: dict[str, Any] = {
        "id": [f"charger {place}" for place in range(size)],
        "x": rng.uniform(0, 100, size),
        "y": rng.uniform(0, 100, size),
        "price": rng.uniform(0, 10, size),
        "queue": rng.integers(0, 5, size).astype(float),
    }
    engine.upsert(points)
    taxis = crowd(60)
    place = rng.uniform(0, 100, (len(taxis), 2))
    heading = rng.uniform(0, 2 * np.pi, len(taxis))
    engine.subscribe({"id": taxis, "x": place[:, 0], "y": place[:, 1]})

    def drives() -> Iterator[tuple[str, Any]]:
        for _ in range(batches):
            heading[:] += rng.normal(0, 0.2, len(taxis))
            place[:] = np.clip(place + np.column_stack([np.cos(heading), np.sin(heading)]), 0, 100)
            yield "publish", {"id": taxis, "x": place[:, 0].copy(), "y": place[:, 1].copy()}
            busy = int(rng.integers(0, size))
            points["queue"][busy] = rng.integers(0, 5)
            yield "upsert", {name: values[busy : busy + 1] for name, values in points.items()}

    title = "taxi: the 3 best charging points by price, queue and distance, on the move"
    return Scene(title, engine, drives(), CHANGE_COLUMNS, tell_change)
