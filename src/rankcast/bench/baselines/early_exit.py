"""Covering by a compiled scan: the graph G_1, each search from the first live box to the first that contains.

This is the algorithm without an index that the covering paper compares with, row by row and with early exit.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats, Integers
from rankcast.structures.jit import EXACT

NOBODY = -1


@njit(**EXACT)  # type: ignore[untyped-decorator]
def _first(lo: Floats, hi: Floats, live: NDArray[np.bool_], row: int, used: int) -> int:
    """The first live box before `used` that covers box `row`, or nobody."""
    for other in range(used):
        if not live[other] or other == row:
            continue
        contains, equal = True, True
        for attribute in range(lo.shape[1]):
            if lo[other, attribute] > lo[row, attribute] or hi[other, attribute] < hi[row, attribute]:
                contains = False
                break
            equal &= lo[other, attribute] == lo[row, attribute] and hi[other, attribute] == hi[row, attribute]
        if contains and (not equal or other < row):
            return other
    return NOBODY


@njit(**EXACT)  # type: ignore[untyped-decorator]
def _subscribe(lo: Floats, hi: Floats, live: NDArray[np.bool_], covered_by: Integers, start: int) -> None:
    for row in range(start, lo.shape[0]):
        covered_by[row] = _first(lo, hi, live, row, row)
        live[row] = True


@njit(**EXACT)  # type: ignore[untyped-decorator]
def _leave(
    lo: Floats, hi: Floats, live: NDArray[np.bool_], covered_by: Integers, gone: int, used: int
) -> None:
    live[gone] = False
    for row in range(used):
        if live[row] and covered_by[row] == gone:
            covered_by[row] = _first(lo, hi, live, row, used)


class EarlyExitScan:
    """Keeps boxes that are given in advance; ids count from 0 as they come."""

    def __init__(self, over: Sequence[str], boxes: Columns) -> None:
        self._lo = np.stack([boxes[f"{name}_lo"] for name in over], axis=1)
        self._hi = np.stack([boxes[f"{name}_hi"] for name in over], axis=1)
        self._live = np.zeros(len(self._lo), np.bool_)
        self._covered_by = np.full(len(self._lo), NOBODY)
        self._used = 0

    def load(self, rows: Columns, covered_by: Integers) -> None:
        """Take over boxes of which it is known what covers each, or -1."""
        fresh = slice(self._used, self._used + len(covered_by))
        self._live[fresh], self._covered_by[fresh] = True, covered_by
        self._used = fresh.stop

    def subscribe(self, rows: Columns) -> None:
        """Register the next boxes one after the other."""
        start, self._used = self._used, self._used + len(rows["id"])
        used = slice(0, self._used)
        _subscribe(self._lo[used], self._hi[used], self._live, self._covered_by, start)

    def unsubscribe(self, ids: Sequence[int]) -> None:
        """Remove boxes one after the other."""
        for gone in ids:
            _leave(self._lo, self._hi, self._live, self._covered_by, gone, self._used)

    def forwarded(self) -> list[int]:
        """The forwarded ids in the order they came."""
        return [int(row) for row in np.flatnonzero(self._live & (self._covered_by == NOBODY))]
