"""Long histories of inserts, removals and new scores, against NumPy."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.matching.brute_force import combined
from rankcast.matching.kernels.box_tree import Columns

ROWS = 3000
Floats = NDArray[np.float64]


def columns(
    dimensions: int, combine: str | None, rng: np.random.Generator, *, ties: bool, free: float = 0.05
) -> Columns:
    """Boxes with some ends missing; in relaxed matching with weights, many of them 0 if many are free."""
    lo = rng.random((ROWS, dimensions)) * 10
    hi = lo + 4 * rng.random((ROWS, dimensions)) ** 3
    if ties:
        lo, hi = np.floor(lo), np.floor(hi)
    lo[rng.random(lo.shape) < 0.05], hi[rng.random(hi.shape) < 0.05] = -np.inf, np.inf
    open_ = rng.random(lo.shape) < free
    lo[open_], hi[open_] = -np.inf, np.inf
    weight = weights((ROWS, 0 if combine is None else dimensions), rng, free)
    score = np.round(rng.random(ROWS), 1 if ties else 6) if combine is None else combined(weight, combine)
    return Columns(lo, hi, score, weight, rng.permutation(ROWS).astype(np.int64))


def weights(shape: tuple[int, int], rng: np.random.Generator, free: float) -> Floats:
    """Weights with ties; most are 0 where most bounds are missing."""
    return np.where(rng.random(shape) < free, 0.0, np.round(rng.random(shape), 1))


def best(
    c: Columns, live: NDArray[np.int32], below: Floats, above: Floats, k: int, combine: str | None
) -> list[int]:
    """The k best of the live rows for one event."""
    met = (c.lo[live] <= below) & (c.hi[live] >= above)
    score = c.score[live] if combine is None else combined(np.where(met, c.weight[live], 0.0), combine)
    places = np.flatnonzero(met.all(axis=1) if combine is None else score > 0)
    ranked: list[int] = live[places[np.lexsort((c.label[live[places]], -score[places]))]][:k].tolist()
    return ranked


def events(count: int, dimensions: int, rng: np.random.Generator) -> tuple[Floats, Floats]:
    """Points, intervals and unknown values, as upper and lower ends."""
    above = np.floor(rng.random((count, dimensions)) * 12)
    below: Floats = above + np.floor(2 * rng.random(above.shape))
    unknown = rng.random(above.shape) < 0.05
    above[unknown], below[unknown] = np.inf, -np.inf
    return below, above


def follow(
    index: Any,
    c: Columns,
    combine: str | None,
    rng: np.random.Generator,
    *,
    free: float = 0.05,
    steps: int = 24,
) -> None:
    """Change and ask an index, step by step, and compare every answer with brute force."""
    alive, dimensions = np.zeros(ROWS, bool), c.lo.shape[1]
    for step in range(steps):
        new = np.flatnonzero(~alive)[: int(rng.integers(1, 400))].astype(np.int32)
        index.insert(c, new)
        alive[new] = True
        gone = rng.permutation(np.flatnonzero(alive))[: int(rng.integers(0, 250))].astype(np.int32)
        index.remove(c, gone)
        alive[gone] = False
        live = np.flatnonzero(alive).astype(np.int32)
        again = live[:: int(rng.integers(1, 5))].copy()
        if combine is None:
            c.score[again] = np.round(rng.random(again.size) * (1 + step / 8), int(rng.integers(1, 6)))
        else:
            c.weight[again] = weights((again.size, dimensions), rng, free)
            c.score[again] = combined(c.weight[again], combine)
        index.rescore(c, again)
        below, above = events(12, dimensions, rng)
        found = index.search(c, below, above, 5)
        lists = np.split(found.row, np.cumsum(found.number)[:-1])
        expected = [best(c, live, *ends, 5, combine) for ends in zip(below, above, strict=True)]
        assert [each.tolist() for each in lists] == expected
    assert len(index) == int(alive.sum())
