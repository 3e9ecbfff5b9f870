"""The interval grid under long histories, and where codes do not decide."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.matching.grid import IntervalGrid
from rankcast.matching.kernels import grid
from rankcast.matching.kernels.box_tree import Columns
from tests.matching.histories import ROWS, best, columns, follow

ENDS = st.one_of(
    st.integers(0, 3).map(float),
    st.floats(-1e300, 1e300),
    st.floats(0, 1e-300),
    st.just(np.inf),
    st.just(-np.inf),
)


@pytest.mark.parametrize(("combine", "ties"), [(None, False), (None, True), ("sum", True)])
def test_a_long_history_matches_brute_force(combine: str | None, ties: bool) -> None:
    rng = np.random.default_rng(7)
    c, index = columns(1, combine, rng, ties=ties), IntervalGrid(combine=combine)
    follow(index, c, combine, rng, steps=40)
    index.check(c)


def test_many_changes_between_two_layouts_keep_the_order() -> None:
    rng = np.random.default_rng(5)
    c, index = columns(1, None, rng, ties=True), IntervalGrid()
    rows = rng.permutation(ROWS).astype(np.int32)
    index.insert(c, rows[:1600])
    for start in range(1600, ROWS, 100):
        index.insert(c, rows[start : start + 100])
        index.check(c)
    for start in range(0, 1400, 100):
        index.remove(c, rows[start : start + 100])
        index.check(c)


@given(
    st.lists(st.tuples(ENDS, ENDS, st.sampled_from([0.0, 1.0, 1.0 + 1e-12, -2.0])), min_size=1, max_size=20)
)
def test_every_end_is_closed_and_exact(drawn: list[tuple[float, float, float]]) -> None:
    lo = np.array([[min(a, b) if np.isfinite(min(a, b)) else -np.inf] for a, b, _ in drawn])
    hi = np.array([[max(a, b) if np.isfinite(max(a, b)) else np.inf] for a, b, _ in drawn])
    n = len(drawn)
    c = Columns(lo, hi, np.array([s for _, _, s in drawn]), np.empty((n, 0)), np.arange(n)[::-1].copy())
    index, rows = IntervalGrid(), np.arange(n, dtype=np.int32)
    index.insert(c, rows)
    values = np.unique(np.concatenate([lo, hi]))
    finite = values[np.isfinite(values)]
    probes = np.concatenate([finite, np.nextafter(finite, np.inf), np.nextafter(finite, -np.inf), [0.5]])[
        :, None
    ]
    found = index.search(c, probes, probes, n)
    lists = np.split(found.row, np.cumsum(found.number)[:-1])
    assert [each.tolist() for each in lists] == [best(c, rows, q, q, n, None) for q in probes]


@given(st.lists(st.floats(allow_nan=False, allow_infinity=False), min_size=2, max_size=2))
def test_ranks_never_fall_when_scores_grow(scores: list[float]) -> None:
    low, high = sorted(scores)
    assert grid.rank_of(low) <= grid.rank_of(high)
