"""Covering without the indexes of the paper: the graph G_1, by scans and by an R-tree.

Each covered box remembers one box that contains it. A new box looks for one among the live ones; when a box
goes, those that remembered it look for another. Of two equal boxes the earlier covers.

`NumpyCovering` compares with all live boxes, column by column. `EarlyExitScan` is the algorithm without an
index that the paper compares with: compiled, row by row, from the first live box to the first that contains.
`BlockedScan` looks at the forwarded boxes alone, in blocks of 64 end by end, largest first, and stops at the
first block with one that contains: compiled, and hard to beat where most boxes lie in one of the largest.
`RtreeCovering` uses `rtree` (libspatialindex), if it is installed: an R-tree cannot search for the boxes that
contain a box, so the boxes over its centre are listed and compared.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.bench.workloads import Columns, Floats, Integers
from rankcast.structures.jit import EXACT

# mypy: disallow-untyped-decorators=False


NOBODY = -1


class Covered:
    """Keeps which of `capacity` boxes are live and what covers each; ids count from 0 as they come."""

    def __init__(self, capacity: int) -> None:
        self._live = np.zeros(capacity, np.bool_)
        self._covered_by = np.full(capacity, NOBODY)
        self._used = 0

    def load(self, rows: Columns, covered_by: Integers) -> None:
        """Take over boxes of which it is known what covers each, or -1."""
        fresh = slice(self._used, self._used + len(covered_by))
        self._live[fresh], self._covered_by[fresh] = True, covered_by
        self._used = fresh.stop

    def forwarded(self) -> list[int]:
        """The forwarded ids in the order they came."""
        return [int(row) for row in np.flatnonzero(self._live & (self._covered_by == NOBODY))]


class NumpyCovering(Covered):
    """Keeps boxes column by column."""

    def __init__(self, over: Sequence[str], capacity: int) -> None:
        super().__init__(capacity)
        self._over = list(over)
        self._lo, self._hi = np.empty((2, len(self._over), capacity))

    def load(self, rows: Columns, covered_by: Integers) -> None:
        """Take over boxes of which it is known what covers each, or -1."""
        fresh = slice(self._used, self._used + len(covered_by))
        self._lo[:, fresh], self._hi[:, fresh] = self._ends(rows)
        super().load(rows, covered_by)

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


@njit(**EXACT)
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


@njit(**EXACT)
def _subscribe(lo: Floats, hi: Floats, live: NDArray[np.bool_], covered_by: Integers, start: int) -> None:
    for row in range(start, lo.shape[0]):
        covered_by[row] = _first(lo, hi, live, row, row)
        live[row] = True


@njit(**EXACT)
def _leave(
    lo: Floats, hi: Floats, live: NDArray[np.bool_], covered_by: Integers, gone: int, used: int
) -> None:
    live[gone] = False
    for row in range(used):
        if live[row] and covered_by[row] == gone:
            covered_by[row] = _first(lo, hi, live, row, used)


class EarlyExitScan(Covered):
    """Keeps boxes that are given in advance."""

    def __init__(self, over: Sequence[str], boxes: Columns) -> None:
        self._lo = np.stack([boxes[f"{name}_lo"] for name in over], axis=1)
        self._hi = np.stack([boxes[f"{name}_hi"] for name in over], axis=1)
        super().__init__(len(self._lo))

    def subscribe(self, rows: Columns) -> None:
        """Register the next boxes one after the other."""
        start, self._used = self._used, self._used + len(rows["id"])
        used = slice(0, self._used)
        _subscribe(self._lo[used], self._hi[used], self._live, self._covered_by, start)

    def unsubscribe(self, ids: Sequence[int]) -> None:
        """Remove boxes one after the other."""
        for gone in ids:
            _leave(self._lo, self._hi, self._live, self._covered_by, gone, self._used)


BLOCK, WAITING = 64, -2


@njit(**EXACT)
def _first_in_blocks(ends: Floats, owner: Integers, box: Floats, used: int) -> int:
    """The row of a box that contains `box`, or nobody.

    Block b has the ends (-lo, hi, -lo, ...) of its boxes in ends[b, end, slot], NaN where there is none.
    """
    passed, found = np.empty(BLOCK, np.int64), NOBODY
    for block in range((used + BLOCK - 1) // BLOCK):
        end, some = 0, 1
        passed[:] = 1
        while some != 0 and end < box.size:
            low, high, some = box[end], box[end + 1], 0
            for slot in range(BLOCK):
                inside = (ends[block, end, slot] >= low) & (ends[block, end + 1, slot] >= high)
                passes = passed[slot] if inside else 0
                passed[slot] = passes
                some += passes
            end += 2
        if some != 0:
            found = int(owner[block * BLOCK + np.argmax(passed)])
            break
    return found


@njit(**EXACT)
def _enter_blocks(
    ends: Floats,
    owner: Integers,
    place: Integers,
    box: Floats,
    covered_by: Integers,
    rows: Integers,
    used: int,
) -> int:
    """Look rows up in turn; those that lie in none join the last block. Returns how many places are used."""
    for row in rows:
        covered_by[row] = _first_in_blocks(ends, owner, box[row], used)
        if covered_by[row] == NOBODY:
            ends[used // BLOCK, :, used % BLOCK] = box[row]
            owner[used], place[row] = row, used
            used += 1
    return used


class BlockedScan(Covered):
    """Keeps the forwarded ones of boxes that are given in advance in blocks, largest first.

    New ones join at the end until they are a sixteenth of all; then all are sorted. One that goes leaves a
    hole.
    """

    def __init__(self, over: Sequence[str], boxes: Columns) -> None:
        lo = np.stack([boxes[f"{name}_lo"] for name in over], axis=1)
        hi = np.stack([boxes[f"{name}_hi"] for name in over], axis=1)
        self._box = np.ascontiguousarray(np.stack([-lo, hi], axis=2).reshape(len(lo), -1))
        self._width = (hi - lo).sum(axis=1)
        super().__init__(len(lo))
        self._place = np.full(len(lo), NOBODY)
        self._ends, self._owner = np.empty((0, self._box.shape[1], BLOCK)), np.empty(0, np.int64)
        self._held = self._room = 0

    def load(self, rows: Columns, covered_by: Integers) -> None:
        """Take over boxes of which it is known what covers each, or -1."""
        super().load(rows, covered_by)
        self._sort()

    def subscribe(self, rows: Columns) -> None:
        """Register the next boxes one after the other."""
        start, self._used = self._used, self._used + len(rows["id"])
        self._live[start : self._used], self._covered_by[start : self._used] = True, WAITING
        self._enter(np.arange(start, self._used))

    def unsubscribe(self, ids: Sequence[int]) -> None:
        """Remove boxes one after the other."""
        for gone in ids:
            self._live[gone] = False
            if self._covered_by[gone] == NOBODY:
                place = int(self._place[gone])
                self._ends[place // BLOCK, :, place % BLOCK] = np.nan
                freed = np.flatnonzero(self._live[: self._used] & (self._covered_by[: self._used] == gone))
                self._enter(freed[np.argsort(-self._width[freed], kind="stable")])

    def _enter(self, rows: Integers) -> None:
        while rows.size:
            if self._held == self._room:
                self._sort()
            part, rows = np.split(rows, [self._room - self._held])
            self._held = _enter_blocks(
                self._ends, self._owner, self._place, self._box, self._covered_by, part, self._held
            )

    def _sort(self) -> None:
        """Sort what is forwarded, largest first, and leave room behind it."""
        known = np.array(self.forwarded(), np.int64)
        known = known[np.argsort(-self._width[known], kind="stable")]
        self._held, self._room = known.size, known.size + max(BLOCK, known.size // 16)
        blocks = self._room // BLOCK + 1
        flat = np.full((blocks * BLOCK, self._box.shape[1]), np.nan)
        flat[: known.size] = self._box[known]
        self._ends = np.ascontiguousarray(flat.reshape(blocks, BLOCK, -1).swapaxes(1, 2))
        self._owner = np.zeros(blocks * BLOCK, np.int64)
        self._owner[: known.size], self._place[known] = known, np.arange(known.size)


def rtree_installed() -> bool:
    """Say whether the package `rtree` is there."""
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
