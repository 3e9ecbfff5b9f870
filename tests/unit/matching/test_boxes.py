"""The box tree under long histories, against NumPy, with its invariants checked."""

from __future__ import annotations

import numpy as np
import pytest
from numpy.typing import NDArray

from rankcast.engines.brute_force.matching import combined
from rankcast.indexes.boxes import BoxIndex
from rankcast.kernels import box_tree
from rankcast.kernels.box_tree import CELLS
from rankcast.kernels.box_tree_pack import Columns

ROWS = 3000
Floats = NDArray[np.float64]


def columns(dimensions: int, combine: str | None, rng: np.random.Generator, *, ties: bool) -> Columns:
    lo = rng.random((ROWS, dimensions)) * 10
    hi = lo + 4 * rng.random((ROWS, dimensions)) ** 3
    if ties:
        lo, hi = np.floor(lo), np.floor(hi)
    lo[rng.random(lo.shape) < 0.05], hi[rng.random(hi.shape) < 0.05] = -np.inf, np.inf
    weight = np.round(rng.random((ROWS, 0 if combine is None else dimensions)), 1)
    score = np.round(rng.random(ROWS), 1 if ties else 6) if combine is None else combined(weight, combine)
    return Columns(lo, hi, score, weight, rng.permutation(ROWS).astype(np.int64))


def best(
    c: Columns, live: NDArray[np.int32], below: Floats, above: Floats, k: int, combine: str | None
) -> list[int]:
    met = (c.lo[live] <= below) & (c.hi[live] >= above)
    score = c.score[live] if combine is None else combined(np.where(met, c.weight[live], 0.0), combine)
    places = np.flatnonzero(met.all(axis=1) if combine is None else score > 0)
    ranked: list[int] = live[places[np.lexsort((c.label[live[places]], -score[places]))]][:k].tolist()
    return ranked


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
    c, index, alive = (
        columns(dimensions, combine, rng, ties=ties),
        BoxIndex(dimensions, combine=combine),
        np.zeros(ROWS, bool),
    )
    for step in range(24):
        new = np.flatnonzero(~alive)[: int(rng.integers(1, 400))].astype(np.int32)
        index.insert(c, new)
        alive[new] = True
        gone = rng.permutation(np.flatnonzero(alive))[: int(rng.integers(0, 250))].astype(np.int32)
        index.remove(c, gone)
        alive[gone] = False
        live = np.flatnonzero(alive).astype(np.int32)
        again = live[:: int(rng.integers(1, 5))]
        if combine is None:
            c.score[again] = np.round(rng.random(again.size) * (1 + step / 8), 1 if ties else 6)
        else:
            c.weight[again] = np.round(rng.random((again.size, dimensions)), 1)
            c.score[again] = combined(c.weight[again], combine)
        index.rescore(c, again)
        above = np.floor(rng.random((12, dimensions)) * 12)
        below: Floats = above + np.floor(2 * rng.random(above.shape))
        unknown = rng.random(above.shape) < 0.05
        above[unknown], below[unknown] = np.inf, -np.inf
        found = index.search(c, below, above, 5)
        lists = np.split(found.row, np.cumsum(found.number)[:-1])
        expected = [best(c, live, *ends, 5, combine) for ends in zip(below, above, strict=True)]
        assert [each.tolist() for each in lists] == expected
    index.check(c)


def test_threads_answer_alike() -> None:
    rng = np.random.default_rng(3)
    c, index = columns(2, None, rng, ties=True), BoxIndex(2)
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
