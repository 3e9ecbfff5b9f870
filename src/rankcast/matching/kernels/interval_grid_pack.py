"""Filling an empty interval grid with rows that come best first. O(n log n), most of it one sort of keys."""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.matching.kernels.box_tree_pack import Columns
from rankcast.matching.kernels.interval_grid import (
    CHUNKS,
    COUNT,
    ENTRIES,
    FILL,
    LEVELS,
    ROW,
    ROWS,
    Grid,
    cell_of,
    read_row,
    second,
    take_chunk,
    write,
)
from rankcast.matching.kernels.matches import Longs, Rows
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def entries_of(grid: Grid, columns: Columns, rows: Rows) -> tuple[Longs, Rows]:
    """A key (level, cell) for each entry of the rows, and the row, complemented in a second entry."""
    keys, stored, size = np.empty(2 * rows.shape[0], np.int64), np.empty(2 * rows.shape[0], np.int32), 0
    for row in rows:
        entry, number = read_row(grid, columns, row, 0.0)
        keys[size], stored[size] = (entry.level << 40) + entry.cell, row
        size += 1
        if number == 2:
            keys[size], stored[size] = keys[size - 1] + 1, ~row
            size += 1
    return keys[:size], stored[:size]


@njit(**EXACT)
def pack(grid: Grid, columns: Columns, stored: Rows) -> None:
    """Write entries in the order of (level, cell, score, label) into chunks."""
    chunk, level = -1, -1
    for each in stored:
        row = each if each >= 0 else ~each
        entry, _ = read_row(grid, columns, row, columns.score[row])
        if each < 0:
            entry = second(entry)
        if chunk < 0 or entry.level != level or grid.extent[chunk, COUNT] == FILL:
            level = entry.level
            chunk = take_chunk(grid, level, grid.meta[CHUNKS])
            grid.cell[grid.meta[CHUNKS] - 1], grid.best[grid.meta[CHUNKS] - 1] = entry.cell, entry.score
        write(grid, chunk, grid.extent[chunk, COUNT], entry)
        grid.extent[chunk, COUNT] += 1
        if each >= 0:
            grid.held[row] = entry.score
            grid.meta[ROWS] += 1
    grid.meta[ENTRIES] = stored.shape[0]


@njit(**EXACT)
def listed(grid: Grid) -> tuple[Longs, Longs, Rows]:
    """The level, the cell and the row of every entry, in their order."""
    levels, cells = np.empty(grid.meta[ENTRIES], np.int64), np.empty(grid.meta[ENTRIES], np.int64)
    rows, size = np.empty(grid.meta[ENTRIES], np.int32), 0
    for level in range(LEVELS):
        for place in range(grid.first[level], grid.first[level + 1]):
            chunk = grid.chunk[place]
            for slot in range(grid.extent[chunk, COUNT]):
                levels[size], cells[size] = level, cell_of(grid, level, chunk, slot)
                rows[size] = grid.entry[chunk, slot, ROW]
                size += 1
    return levels, cells, rows
