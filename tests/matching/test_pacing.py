"""The example of pacing: budgets last the day, and are kept."""

from __future__ import annotations

import doctest

import numpy as np
from examples import pacing


def test_the_example_says_what_it_does() -> None:
    assert doctest.testmod(pacing).failed == 0


def test_budgets_last_the_day_and_are_never_overdrawn() -> None:
    rng = np.random.default_rng(1)
    bids = enumerate(rng.uniform(0.5, 2.0, 20))
    ads = {f"ad{place}": pacing.Ad(f"o{place % 4}", float(bid)) for place, bid in bids}
    budget = {f"o{place}": 100.0 for place in range(4)}
    server, half = pacing.Server(ads, budget), {}
    for event in range(1000):
        server.serve([{"id": event, "age": float(rng.uniform(18, 80))}], day=event / 1000)
        if event == 500:
            half = dict(server.left)
    assert all(left >= 0 for left in server.left.values())
    assert all(20 < left < 80 for left in half.values()), half  # nobody has spent all at noon
    assert sum(server.left.values()) < 40  # and hardly anything is left at the end
