"""The inverted index under long histories: few bounds of many attributes, and many of few."""

from __future__ import annotations

import numpy as np
import pytest

from rankcast.matching.inverted import InvertedIndex
from rankcast.matching.kernels import inverted
from tests.matching.histories import columns, follow


@pytest.mark.parametrize(
    ("dimensions", "combine", "ties", "free"),
    [
        (1, None, True, 0.1),
        (3, None, True, 0.3),
        (200, None, False, 0.98),
        (3, "sum", True, 0.3),
        (60, "max", False, 0.95),
        (200, "sum", False, 0.98),
    ],
)
def test_a_long_history_matches_brute_force(
    dimensions: int, combine: str | None, ties: bool, free: float
) -> None:
    rng = np.random.default_rng(7)
    c = columns(dimensions, combine, rng, ties=ties, free=free)
    index = InvertedIndex(dimensions, combine=combine)
    follow(index, c, combine, rng, free=free)
    index.check(c)


def test_places_on_the_line_keep_the_order_of_values() -> None:
    rng = np.random.default_rng(11)
    cuts = np.sort(rng.normal(size=(3, 64)), axis=1)
    cuts[1, 5:20] = cuts[1, 5]
    values = np.sort(np.concatenate([cuts.ravel(), rng.normal(size=2000), [-1e308, 1e308, -np.inf, np.inf]]))
    for j in range(3):
        places = [inverted.position(cuts, j, value) for value in values.tolist()]
        assert places == sorted(places)
        assert j == places[0] < places[1]
        assert places[-2] < places[-1] < j + 1
