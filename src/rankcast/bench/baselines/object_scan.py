"""First results of range top-k by a scan of all objects for each subscription: no index, no order of x."""

# mypy: disallow-untyped-decorators=False

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats, Integers
from rankcast.structures.jit import EXACT


class ObjectScan:
    """The k best of every subscription, as `lists` of ids, best first, -1 where there is none."""

    def __init__(self, objects: Columns, subscriptions: Columns, k: int) -> None:
        self.lists = np.full((len(subscriptions["id"]), k), -1, np.int64)
        ends = subscriptions["x_lo"], subscriptions["x_hi"]
        _scan(objects["x"], objects["y"], objects["id"].astype(np.int64), *ends, self.lists)

    def items(self, row: int) -> list[int]:
        """The ids in one list, best first."""
        return [int(item) for item in self.lists[row] if item >= 0]


@njit(**EXACT)
def _scan(x: Floats, y: Floats, ids: Integers, lo: Floats, hi: Floats, lists: NDArray[np.int64]) -> None:
    """Fill every list. The value is tested first: once a list is full, few objects get beyond that."""
    k = lists.shape[1]
    scores = np.empty(k)
    for row in range(lo.size):
        kept = lists[row]
        scores[:] = np.inf
        for place in range(x.size):
            value = y[place]
            if value <= scores[k - 1] and lo[row] <= x[place] <= hi[row]:
                cell = k - 1
                if kept[cell] >= 0 and value == scores[cell] and ids[place] > kept[cell]:
                    continue
                while cell > 0 and (
                    value < scores[cell - 1] or (value == scores[cell - 1] and ids[place] < kept[cell - 1])
                ):
                    kept[cell], scores[cell] = kept[cell - 1], scores[cell - 1]
                    cell -= 1
                kept[cell], scores[cell] = ids[place], value
