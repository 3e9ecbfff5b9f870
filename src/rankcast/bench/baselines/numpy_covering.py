"""Covering by NumPy: the graph G_1 over a scan of all live boxes.

Each covered box remembers one box that contains it. A new box is compared with all live ones, column by
column; when a box goes, those that remembered it look for another. Of two equal boxes the earlier covers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats, Integers

NOBODY = -1


class NumpyCovering:
    """Keeps which of `capacity` boxes are live and what covers each; ids count from 0 as they come."""

    def __init__(self, over: Sequence[str], capacity: int) -> None:
        self._over = list(over)
        self._lo, self._hi = np.empty((2, len(self._over), capacity))
        self._live = np.zeros(capacity, np.bool_)
        self._covered_by = np.full(capacity, NOBODY)
        self._used = 0

    def load(self, rows: Columns, covered_by: Integers) -> None:
        """Take over boxes of which it is known what covers each, or -1."""
        fresh = slice(self._used, self._used + len(covered_by))
        self._lo[:, fresh], self._hi[:, fresh] = self._ends(rows)
        self._live[fresh], self._covered_by[fresh] = True, covered_by
        self._used = fresh.stop

    def subscribe(self, rows: Columns) -> None:
        """Register boxes one after the other."""
        lo, hi = self._ends(rows)
        for low, high in zip(lo.T, hi.T, strict=True):
            row = self._used
            self._covered_by[row] = self._first(low, high)
            self._lo[:, row], self._hi[:, row], self._live[row] = low, high, True
            self._used += 1

    def unsubscribe(self, ids: Sequence[int]) -> None:
        """Remove boxes one after the other."""
        for gone in ids:
            self._live[gone] = False
            for row in np.flatnonzero(self._live & (self._covered_by == gone)):
                self._covered_by[row] = self._first(self._lo[:, row], self._hi[:, row], int(row))

    def forwarded(self) -> list[int]:
        """The forwarded ids in the order they came."""
        return [int(row) for row in np.flatnonzero(self._live & (self._covered_by == NOBODY))]

    def _ends(self, rows: Columns) -> tuple[Floats, Floats]:
        lo = np.stack([rows[f"{name}_lo"] for name in self._over])
        return lo, np.stack([rows[f"{name}_hi"] for name in self._over])

    def _first(self, low: Floats, high: Floats, own: int | None = None) -> int:
        """The first live box that contains a box, or nobody; not box `own`, nor an equal one after it."""
        used = slice(0, self._used)
        found: NDArray[np.bool_] = self._live[used].copy()
        for lows, highs, one, other in zip(self._lo, self._hi, low, high, strict=True):
            found &= lows[used] <= one
            found &= highs[used] >= other
        if own is not None and found[own:].any():
            same = np.all(
                (low == self._lo[:, own : self._used].T) & (high == self._hi[:, own : self._used].T), 1
            )
            found[own:] &= ~same
        return int(np.argmax(found)) if found.any() else NOBODY
