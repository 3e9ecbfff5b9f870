"""Covering by `rtree` (libspatialindex), if it is installed: the graph G_1 over an R-tree of all live boxes.

An R-tree has no question for the boxes that contain a box: the boxes over its centre are listed and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from rankcast.bench.workloads import Columns, Floats, Integers

NOBODY = -1


def installed() -> bool:
    """Whether the package is there."""
    return find_spec("rtree") is not None


class RtreeCovering:
    """Keeps boxes that are given in advance in an R-tree; ids count from 0 as they come."""

    def __init__(self, over: Sequence[str], boxes: Columns) -> None:
        self._lo = np.stack([boxes[f"{name}_lo"] for name in over], axis=1)
        self._hi = np.stack([boxes[f"{name}_hi"] for name in over], axis=1)
        self._covered_by: dict[int, int] = {}
        self._children: dict[int, set[int]] = {}
        self._module: Any = import_module("rtree.index")
        self._tree: Any = None
        self._used = 0

    def load(self, rows: Columns, covered_by: Integers) -> None:
        """Take over boxes of which it is known what covers each, or -1."""
        size = len(covered_by)
        stream = ((row, self._bounds(row), None) for row in range(size))
        self._tree = self._module.Index(
            stream, properties=self._module.Property(dimension=self._lo.shape[1]), interleaved=True
        )
        for row, above in enumerate(covered_by.tolist()):
            self._remember(row, above)
        self._used = size

    def subscribe(self, rows: Columns) -> None:
        """Register the next boxes one after the other."""
        for _ in range(len(rows["id"])):
            row = self._used
            self._remember(row, self._first(row))
            self._tree.insert(row, self._bounds(row))
            self._used += 1

    def unsubscribe(self, ids: Sequence[int]) -> None:
        """Remove boxes one after the other."""
        for gone in ids:
            self._tree.delete(gone, self._bounds(gone))
            self._children.get(self._covered_by.pop(gone), set()).discard(gone)
            for row in self._children.pop(gone, set()):
                self._remember(row, self._first(row))

    def forwarded(self) -> list[int]:
        """The forwarded ids in the order they came."""
        return sorted(row for row, above in self._covered_by.items() if above == NOBODY)

    def _bounds(self, row: int) -> Floats:
        return np.concatenate([self._lo[row], self._hi[row]])

    def _remember(self, row: int, above: int) -> None:
        self._covered_by[row] = above
        if above != NOBODY:
            self._children.setdefault(above, set()).add(row)

    def _first(self, row: int) -> int:
        low, high = self._lo[row], self._hi[row]
        centre = (low + high) / 2
        for other in self._tree.intersection(np.concatenate([centre, centre])):
            if other != row and (self._lo[other] <= low).all() and (self._hi[other] >= high).all():
                equal = (self._lo[other] == low).all() and (self._hi[other] == high).all()
                if not equal or other < row:
                    return int(other)
        return NOBODY
