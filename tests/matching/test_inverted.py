"""The inverted index under long histories: few bounds of many attributes, and many of few."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from rankcast import RankedMatcher
from rankcast.bench.workloads import matching
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


def test_guards_keep_the_order_of_values_and_let_open_rows_pass() -> None:
    rng = np.random.default_rng(12)
    cuts = np.sort(rng.normal(size=(2, 64)), axis=1)
    values = np.sort(np.concatenate([cuts.ravel(), rng.normal(size=500), [-np.inf, np.inf]])).tolist()
    codes = [int(inverted._finest(cuts, 1, value)) for value in values]
    assert codes == sorted(codes)
    assert codes[0] == 0
    assert codes[-1] <= inverted.FINEST
    ends = np.array([[0, inverted.FINEST]] * 2, np.uint64)  # unknown: it meets only what has no bounds
    assert inverted.passes(np.full((1, inverted.GUARDS), inverted.FINEST, np.uint64), ends, 0)
    assert not inverted.passes(np.array([[inverted.FINEST, 1 << 32 | 5 << 16 | 9]], np.uint64), ends, 0)


@pytest.mark.parametrize("checked", [True, False])
def test_a_loaded_index_has_guards(checked: bool, tmp_path: Path) -> None:
    rng, over = np.random.default_rng(3), [f"a{number}" for number in range(20)]
    rows, events = matching.equalities(over, 5, 2000, 100, rng)
    engine, plain = (RankedMatcher(over=over, index=index) for index in ("inverted", "scan"))
    for each in (engine, plain):
        each.subscribe(matching.with_nulls(rows))
    engine.save(tmp_path / "saved")
    index = RankedMatcher.load(tmp_path / "saved")._index if checked else engine._index
    if not checked:  # as where a host trusts what it has written
        index = InvertedIndex(20).restore(*index.state())
    assert isinstance(index, InvertedIndex)
    points = np.stack([events[name] for name in over], axis=1)
    found = index.search(engine._columns(), points, points, 20)
    wanted = plain._scan.search(plain._columns(), points, points, 20)
    assert np.array_equal(found.row, wanted.row)
    assert np.array_equal(found.number, wanted.number)
    index.check(engine._columns())
    assert found.tried > wanted.row.size  # there was something for guards to keep out
