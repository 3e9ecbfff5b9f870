"""Covering by NumPy over all live boxes: one comparison of every box with every other, vectorised.

Of two equal boxes the earlier covers. A removed box that was forwarded frees the covered ones inside it that
nothing else contains.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats


class NumpyCovering:
    """Keeps which of `capacity` boxes are live and which are forwarded; ids count from 0 as they come."""

    def __init__(self, over: Sequence[str], capacity: int) -> None:
        self._over = list(over)
        self._lo, self._hi = np.empty((2, capacity, len(self._over)))
        self._live = np.zeros(capacity, np.bool_)
        self._forwarded = np.zeros(capacity, np.bool_)
        self._used = 0

    def subscribe(self, rows: Columns) -> None:
        """Register boxes one after the other."""
        lo = np.stack([rows[f"{name}_lo"] for name in self._over], axis=1)
        hi = np.stack([rows[f"{name}_hi"] for name in self._over], axis=1)
        for low, high in zip(lo, hi, strict=True):
            row = self._used
            self._forwarded[row] = not self._containing(low, high).any()
            self._lo[row], self._hi[row], self._live[row] = low, high, True
            self._used += 1

    def unsubscribe(self, ids: Sequence[int]) -> None:
        """Remove boxes one after the other."""
        for row in ids:
            self._live[row] = False
            if self._forwarded[row]:
                self._forwarded[row] = False
                self._free(row)

    def forwarded(self) -> list[int]:
        """The forwarded ids in the order they came."""
        return [int(row) for row in np.flatnonzero(self._forwarded)]

    def _free(self, gone: int) -> None:
        """Forward the covered boxes inside a removed one that nothing live contains any more."""
        used = slice(0, self._used)
        inside = np.all((self._lo[used] >= self._lo[gone]) & (self._hi[used] <= self._hi[gone]), axis=1)
        for row in np.flatnonzero(inside & self._live[used] & ~self._forwarded[used]):
            covers = self._containing(self._lo[row], self._hi[row])
            covers[row:] &= ~self._equal(int(row))[row:]
            self._forwarded[row] = not covers.any()

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
