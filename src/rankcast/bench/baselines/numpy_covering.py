"""Covering by NumPy: the graph G_1 over a scan of all live boxes.

Each covered box remembers one box that contains it. A new box is compared with all live ones; when a box
goes, those that remembered it look for another. Of two equal boxes the earlier covers.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats

NOBODY = -1


class NumpyCovering:
    """Keeps which of `capacity` boxes are live and what covers each; ids count from 0 as they come."""

    def __init__(self, over: Sequence[str], capacity: int) -> None:
        self._over = list(over)
        self._lo, self._hi = np.empty((2, capacity, len(self._over)))
        self._live = np.zeros(capacity, np.bool_)
        self._covered_by = np.full(capacity, NOBODY)
        self._used = 0

    def subscribe(self, rows: Columns) -> None:
        """Register boxes one after the other."""
        lo = np.stack([rows[f"{name}_lo"] for name in self._over], axis=1)
        hi = np.stack([rows[f"{name}_hi"] for name in self._over], axis=1)
        for low, high in zip(lo, hi, strict=True):
            row = self._used
            self._covered_by[row] = _first(self._containing(low, high))
            self._lo[row], self._hi[row], self._live[row] = low, high, True
            self._used += 1

    def unsubscribe(self, ids: Sequence[int]) -> None:
        """Remove boxes one after the other."""
        for gone in ids:
            self._live[gone] = False
            for row in np.flatnonzero(self._live & (self._covered_by == gone)):
                covers = self._containing(self._lo[row], self._hi[row])
                covers[row:] &= ~self._equal(int(row))[row:]
                self._covered_by[row] = _first(covers)

    def forwarded(self) -> list[int]:
        """The forwarded ids in the order they came."""
        return [int(row) for row in np.flatnonzero(self._live & (self._covered_by == NOBODY))]

    def _containing(self, low: Floats, high: Floats) -> NDArray[np.bool_]:
        """Which live boxes contain a box."""
        used = slice(0, self._used)
        found: NDArray[np.bool_] = np.all((self._lo[used] <= low) & (self._hi[used] >= high), axis=1)
        return found & self._live[used]

    def _equal(self, row: int) -> NDArray[np.bool_]:
        """Which boxes equal a box, itself included."""
        used = slice(0, self._used)
        same: NDArray[np.bool_] = np.all(
            (self._lo[used] == self._lo[row]) & (self._hi[used] == self._hi[row]), axis=1
        )
        return same


def _first(covers: NDArray[np.bool_]) -> int:
    """The first box that covers, or nobody."""
    return int(np.argmax(covers)) if covers.any() else NOBODY
