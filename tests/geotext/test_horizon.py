"""Where scores decay, subscriptions are listed anew a few at a time, and always before a gain passes them."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pytest

from rankcast import GeoTextTopK
from rankcast.geotext.horizon import Horizon

ROWS = 1000


@pytest.mark.parametrize("step", [1.0001, 1.002, 1.03, 1.3, 50.0])
def test_all_are_listed_for_a_larger_gain_than_any(step: float) -> None:
    horizon, listed, top = Horizon(), np.ones(ROWS), 1.0
    most = 0
    for call in range(3000):
        top *= step
        if top > 1e200:
            break
        moved = 0
        for due in (horizon.overtaken, horizon.next):
            place = due(top, ROWS)
            listed[place.start : place.stop] = horizon.gain
            moved += len(place)
        assert listed.min() >= top
        assert listed.max() <= 1.05**2 * 1.0001 * max(top, 1.0)
        most = max(most, moved if call else 0)  # the first one lists everybody
    if step < 1.001:
        assert most <= 20  # at the pace of the gains, and never all at once


def test_rows_that_come_and_scales() -> None:
    horizon = Horizon()
    for top, rows in [(1.02, 5), (1.04, 50), (1.06, 20), (1.08, 500)]:
        for due in (horizon.overtaken, horizon.next):
            assert 0 <= due(top, rows).stop <= rows
    state = horizon.state(spread=True)
    assert Horizon().restore(state, 0).state(spread=True) == state
    horizon.rescale(0.5)
    assert horizon.gain == state["horizon"] / 2
    horizon.rescale(0.0)
    assert horizon.overtaken(1.0, 7) == range(7)


def test_results_follow_many_subscriptions_and_half_lives() -> None:
    rng, size = np.random.default_rng(3), 400
    settings: dict[str, Any] = {
        "bounds": (0, 0, 1, 1),
        "k": 3,
        "window": timedelta(seconds=100),
        "half_life": timedelta(seconds=30),
    }
    engines = [GeoTextTopK(**settings, method=method) for method in ("igpt", "scan")]
    words = [f"w{place}" for place in range(6)]
    subscriptions = {
        "id": np.arange(size),
        "x": rng.random(size),
        "y": rng.random(size),
        "terms": [rng.choice(words, 2).tolist() for _ in range(size)],
    }
    for engine in engines:
        engine.subscribe(subscriptions)
    for place in range(120):
        batch = {
            "id": np.arange(4 * place, 4 * place + 4),
            "x": rng.random(4),
            "y": rng.random(4),
            "terms": [rng.choice(words, 2).tolist() for _ in range(4)],
            "time": [datetime(2024, 1, 1) + timedelta(seconds=2 * place + 40 * (place == 77))] * 4,
        }
        told, expected = (engine.publish(batch) for engine in engines)
        assert told.equals(expected)
