"""Scored intervals in one dimension, live: `IntervalGrid` keeps a `rankcast.matching.kernels.grid`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.matching.boxes import SAMPLED, SMALL, check_cuts, outside, quantiles
from rankcast.matching.kernels import filtered_search, grid_search
from rankcast.matching.kernels import grid as grid_kernels
from rankcast.matching.kernels.box_tree import CELLS, Columns
from rankcast.matching.kernels.grid import (
    BUILT,
    CHUNKS,
    ENTRIES,
    FILL,
    HIGH,
    LEVELS,
    LOW,
    ROW,
    ROWS,
    SIZE,
    Grid,
)
from rankcast.matching.search import MODES, KernelIndex
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.tables.schema import Bools, Rows

_BY_CHUNK = ("entry", "extent", "chunk", "cell", "best")


class IntervalGrid(KernelIndex):
    """The best intervals for an event; the caller owns the columns by row.

    Everything is rebuilt, with new codes, when the number of rows has doubled or halved, when half
    of them arrive at once, when as many have arrived with ends beyond those that codes were made for, or when
    chunks have become thin. Cost: O(log n) amortised per change.
    Memory: 16 bytes per entry, one or two entries per row, an eighth to a half more for chunks that are not
    full, and 8 bytes per row.
    """

    _kernels = grid_search.search, filtered_search.search_grid

    def __init__(self, *, combine: str | None = None) -> None:
        self._mode, self._outside = MODES[combine], 0
        self.grid = _empty_grid(chunks=16, rows=0)
        grid_kernels.clear(self.grid)

    def __len__(self) -> int:
        return int(self.grid.meta[ROWS])

    def _arrays(self) -> tuple[Any, ...]:
        return tuple(self.grid)

    def insert(self, columns: Columns, rows: Rows) -> None:
        """Add absent rows."""
        if columns.lo.shape[0] > self.grid.held.size:
            held = np.full(columns.lo.shape[0], np.nan)
            held[: self.grid.held.size] = self.grid.held
            self.grid = self.grid._replace(held=held)
        self._outside += outside(self.grid.cuts, columns, rows)
        size = len(self) + rows.size
        moved = 2 * self._outside > max(SMALL, size) and rows.size > 0
        if moved or 2 * rows.size > len(self) or size > 2 * self.grid.meta[BUILT]:
            self._rebuild(columns, np.concatenate([self.present(), rows]))
        else:
            self._insert(columns, rows)

    def remove(self, columns: Columns, rows: Rows) -> None:
        """Remove present rows."""
        grid_kernels.remove(self.grid, columns, rows)
        meta = self.grid.meta
        if meta[BUILT] > max(SMALL, 2 * len(self)) or 8 * meta[CHUNKS] > meta[ENTRIES] + 8 * SMALL:
            self._rebuild(columns, self.present())

    def rescore(self, columns: Columns, rows: Rows) -> None:
        """Update after scores have changed."""
        grid_kernels.remove(self.grid, columns, rows)
        self._insert(columns, rows)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        return {"outside": self._outside}, dict(self.grid._asdict())

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        mine = self.grid._asdict()
        chunks = len(arrays["chunk"]) if "chunk" in arrays and arrays["chunk"].ndim else 0
        lengths = {name: chunks if name in _BY_CHUNK else len(array) for name, array in mine.items()}
        wanted = {name: integrity.like(array, length=lengths[name]) for name, array in mine.items()}
        integrity.forms(arrays, wanted | {"held": integrity.like(self.grid.held)})
        self.grid = Grid(**{name: arrays[name] for name in mine})
        self._outside = integrity.whole({"outside": 0, **header}, "outside")
        return self

    def check_restored(self, columns: Columns, wanted: Bools) -> None:
        """Refuse a grid from a snapshot that is inconsistent or does not hold exactly the `wanted` rows."""
        check_cuts(self.grid.cuts)
        fits = grid_kernels.fits(self.grid, columns, wanted)
        integrity.need(fits, "entry", "does not hold the intervals it should")

    def check(self, columns: Columns) -> None:
        """Assert the invariants of the grid."""
        grid = self.grid
        level, cell, stored = grid_kernels.listed(grid)
        row = np.where(stored < 0, ~stored, stored)
        order = np.lexsort((columns.label[row], -columns.score[row], cell, level))
        assert np.array_equal(order, np.arange(order.size))
        assert np.array_equal(np.sort(row[stored >= 0]), self.present())
        assert np.array_equal(grid.held[row], columns.score[row])
        assert (columns.score[row] <= grid.top[level]).all()
        assert len(self) == self.present().size
        keys, again = grid_kernels.entries_of(grid, columns, row[stored >= 0])
        assert sorted(zip(keys, again, strict=True)) == sorted(zip((level << 40) + cell, stored, strict=True))
        for place in range(int(grid.meta[CHUNKS])):
            chunk = grid.chunk[place]
            size, least, utmost = grid.extent[chunk]
            assert 0 < size <= SIZE
            assert least <= grid.entry[chunk, :size, LOW].min()
            assert utmost >= grid.entry[chunk, :size, HIGH].max()
            first = grid.entry[chunk, 0, ROW]
            assert grid.best[place] == grid.held[max(first, ~first)]

    # Growing and laying out anew

    def _insert(self, columns: Columns, rows: Rows) -> None:
        """Insert absent rows one by one, making room for chunks where it is needed."""
        place = 0
        while place < rows.size:
            self._reserve(16)
            place = grid_kernels.insert(self.grid, columns, rows, place)

    def _rebuild(self, columns: Columns, rows: Rows) -> None:
        """Rebuild everything, with new codes."""
        ranked = rows[np.lexsort((columns.label[rows], -columns.score[rows]))]
        held, self.grid = self.grid.held, _empty_grid(chunks=16, rows=0)
        self.grid = self.grid._replace(held=held)
        grid_kernels.clear(self.grid)
        self.grid.meta[BUILT], self._outside = rows.size, 0
        sample = rows[:: rows.size // SAMPLED + 1]
        self.grid.cuts[:] = quantiles(columns.lo[sample], columns.hi[sample], CELLS + 1)
        keys, stored = grid_kernels.entries_of(self.grid, columns, ranked)
        self._reserve(stored.size // FILL + 2 * LEVELS)
        grid_kernels.pack(self.grid, columns, stored[np.argsort(keys, kind="stable")])

    def present(self) -> Rows:
        """The present rows, in ascending order."""
        return np.flatnonzero(~np.isnan(self.grid.held)).astype(np.int32)

    def _reserve(self, chunks: int) -> None:
        """Make room for so many further chunks."""
        capacity = self.grid.chunk.size
        if capacity - self.grid.meta[CHUNKS] < chunks:
            length = capacity + max(chunks, capacity // 8)
            self.grid = self.grid._replace(
                **{name: grown(getattr(self.grid, name), length) for name in _BY_CHUNK}
            )


def _empty_grid(*, chunks: int, rows: int) -> Grid:
    return Grid(
        entry=np.zeros((chunks, SIZE, 4), np.int32),
        extent=np.zeros((chunks, 3), np.int32),
        chunk=np.zeros(chunks, np.int32),
        cell=np.zeros(chunks, np.int64),
        best=np.zeros(chunks),
        first=np.zeros(LEVELS + 1, np.int64),
        top=np.zeros(LEVELS),
        held=np.full(rows, np.nan),
        cuts=np.zeros((1, CELLS + 1)),
        meta=np.zeros(6, np.int64),
    )
