"""Range top-k over two attributes by a scan with thresholds: what one writes before reading a paper.

Every update looks at every subscription. One whose box holds the object is affected if the object was among
its k best or now beats the k-th; its list is then computed again from the objects in its range of x.

Covering by NumPy: the graph G_1 over a scan of all live boxes.

Each covered box remembers one box that contains it. A new box is compared with all live ones, column by
column; when a box goes, those that remembered it look for another. Of two equal boxes the earlier covers.

Covering by `rtree` (libspatialindex), if it is installed: the graph G_1 over an R-tree of all live boxes.

An R-tree has no question for the boxes that contain a box: the boxes over its centre are listed and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats, Integers
from rankcast.structures.jit import EXACT

# mypy: disallow-untyped-decorators=False


MAX_LABEL = np.iinfo(np.int64).max


class Objects(NamedTuple):
    """Objects in the order of x; equal y are ordered by label, which is the id."""

    x: Floats
    z: Floats
    y: Floats
    label: Integers


class Ends(NamedTuple):
    """The boxes of subscriptions."""

    x_lo: Floats
    x_hi: Floats
    z_lo: Floats
    z_hi: Floats


class BoxScan:
    """Keeps the k best of every subscription current; `publish` takes updates of y of known objects.

    A table without `z_lo` is the 1.5-d case.

    Attributes:
        affected: subscriptions affected so far, each once an event.
        lists: a row a subscription: places in the order of x, best first, -1 where there is none.
    """

    def __init__(self, objects: Columns, subscriptions: Columns, k: int) -> None:
        order = np.argsort(objects["x"], kind="stable")
        self._place = np.empty(len(order), np.int64)
        self._place[objects["id"][order]] = np.arange(len(order))
        x, z, y = (objects[name][order] for name in ("x", "z", "y"))
        self._objects = Objects(x, z, y, objects["id"][order].astype(np.int64))
        below = subscriptions.get("z_lo", np.full(len(subscriptions["id"]), -np.inf))
        self._ends = Ends(subscriptions["x_lo"], subscriptions["x_hi"], below, subscriptions["z_hi"])
        self.affected = 0
        self.lists = np.full((len(subscriptions["id"]), k), -1, np.int32)
        _fill(self._objects, self._ends, self.lists)

    def publish(self, events: Columns) -> None:
        """Apply updates in order."""
        places = self._place[events["id"]]
        self.affected += int(_apply(self._objects, self._ends, self.lists, places, events["y"]))

    def items(self, row: int) -> list[int]:
        """The ids in one list, best first."""
        kept = self.lists[row]
        return [int(self._objects.label[place]) for place in kept[kept >= 0]]


@njit(**EXACT)
def _recompute(objects: Objects, ends: Ends, row: int, kept: NDArray[np.int32]) -> None:
    """Compute one list from the objects in its range of x. Cost: one pass over them."""
    x, z, y, label = objects
    low, high = ends.z_lo[row], ends.z_hi[row]
    kept[:] = -1
    last = kept.size - 1
    limit, limit_label = np.inf, np.int64(MAX_LABEL)
    first = np.searchsorted(x, ends.x_lo[row], side="left")
    for place in range(first, np.searchsorted(x, ends.x_hi[row], side="right")):
        value = y[place]
        if value <= limit and low <= z[place] <= high:
            if value == limit and label[place] > limit_label:
                continue
            cell = last
            while cell > 0 and (
                kept[cell - 1] < 0
                or value < y[kept[cell - 1]]
                or (value == y[kept[cell - 1]] and label[place] < label[kept[cell - 1]])
            ):
                kept[cell] = kept[cell - 1]
                cell -= 1
            kept[cell] = place
            if kept[last] >= 0:
                limit, limit_label = y[kept[last]], label[kept[last]]


@njit(**EXACT)
def _fill(objects: Objects, ends: Ends, lists: NDArray[np.int32]) -> None:
    """Compute every list."""
    for row in range(lists.shape[0]):
        _recompute(objects, ends, row, lists[row])


@njit(**EXACT)
def _apply(objects: Objects, ends: Ends, lists: NDArray[np.int32], places: Integers, values: Floats) -> int:
    """Apply updates one by one and recompute the lists they affect; returns how many those were."""
    x, z, y, label = objects
    x_lo, x_hi, z_lo, z_hi = ends
    affected, last = 0, lists.shape[1] - 1
    for number, place in enumerate(places):
        if values[number] == y[place]:
            continue
        at, other, mine = x[place], z[place], label[place]
        better = min(y[place], values[number])
        marked = np.zeros(x_lo.size, np.bool_)
        for row in range(x_lo.size):
            if x_lo[row] <= at <= x_hi[row] and z_lo[row] <= other <= z_hi[row]:
                kth = lists[row, last]
                marked[row] = kth < 0 or better < y[kth] or (better == y[kth] and mine <= label[kth])
        y[place] = values[number]
        for changed in np.flatnonzero(marked):
            _recompute(objects, ends, changed, lists[changed])
            affected += 1
    return affected


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
