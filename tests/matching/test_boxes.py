"""The box tree under long histories, against NumPy, with its invariants checked."""

from __future__ import annotations

import numpy as np
import pytest

from rankcast.matching.boxes import BoxTreeIndex
from rankcast.matching.kernels import box_tree
from rankcast.matching.kernels.box_tree import CELLS
from tests.matching.histories import ROWS, columns, follow


@pytest.mark.parametrize(
    ("dimensions", "combine", "ties"),
    [
        (1, None, False),
        (1, None, True),
        (2, None, True),
        (8, None, False),
        (3, "sum", True),
        (2, "max", False),
    ],
)
def test_a_long_history_matches_brute_force(dimensions: int, combine: str | None, ties: bool) -> None:
    rng = np.random.default_rng(7)
    c, index = columns(dimensions, combine, rng, ties=ties), BoxTreeIndex(dimensions, combine=combine)
    follow(index, c, combine, rng)
    index.check(c)


def test_threads_answer_alike() -> None:
    rng = np.random.default_rng(3)
    c, index = columns(2, None, rng, ties=True), BoxTreeIndex(2)
    index.insert(c, np.arange(ROWS, dtype=np.int32))
    points = rng.random((2000, 2)) * 12
    one, four = (index.search(c, points, points, 7, threads) for threads in (1, 4))
    assert np.array_equal(one.number, four.number)
    assert np.array_equal(one.row, four.row)
    assert np.array_equal(one.score, four.score)


@pytest.mark.parametrize("most", [2**15 - 2, 2**31 - 2])
def test_codes_keep_the_order_of_values(most: int) -> None:
    rng = np.random.default_rng(11)
    cuts = np.sort(np.concatenate([rng.normal(size=CELLS - 1), [-1e308, 1e308]]))[None, :]
    values = np.sort(np.concatenate([cuts[0], rng.normal(size=4000), [-np.inf, np.inf, -1.7e308, 1.7e308]]))
    codes = [box_tree.encode(cuts, 0, value, most) for value in values.tolist()]
    assert codes == sorted(codes)
    assert (codes[0], codes[-1]) == (-most, most)
    assert -most < codes[1] <= codes[-2] < most
