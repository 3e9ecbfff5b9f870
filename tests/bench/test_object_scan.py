"""The scan of all objects against brute force, ties and all."""

from __future__ import annotations

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.bench.baselines.range_topk import ObjectScan
from rankcast.bench.cases.range_topk import best_of


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 3)), max_size=12),
    st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=6),
    st.integers(1, 5),
)
def test_every_list_holds_the_k_best(
    objects: list[tuple[int, int]], ranges: list[tuple[int, int]], k: int
) -> None:
    x, y = np.array(objects, np.float64).reshape(-1, 2).T.copy()
    ends = np.sort(np.array(ranges, np.float64), axis=1)
    rows = {"id": np.arange(len(ends)), "x_lo": ends[:, 0].copy(), "x_hi": ends[:, 1].copy()}
    scan = ObjectScan({"id": np.arange(len(x)), "x": x, "y": y}, rows, k)
    assert [scan.items(row) for row in range(len(ends))] == best_of({"x": x}, y, rows, k)
