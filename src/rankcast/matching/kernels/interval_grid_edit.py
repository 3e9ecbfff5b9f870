"""Rows in and out of an interval grid, one by one.

Cost: a change searches the directory, O(log n), and moves up to SIZE entries in a chunk; a split, once in 30
inserts or so, moves the directory's tail, O(n / SIZE) in one sweep.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from rankcast.matching.kernels.box_tree_pack import Columns
from rankcast.matching.kernels.interval_grid import (
    CHUNKS,
    COUNT,
    ENTRIES,
    FREE,
    HIGH,
    LEAST,
    LOW,
    MOST,
    RANK,
    ROW,
    ROWS,
    SIZE,
    UTMOST,
    Entry,
    Grid,
    cell_of,
    reach,
    read_row,
    row_of,
    second,
    take_chunk,
    write,
)
from rankcast.matching.kernels.matches import Longs, Rows
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def _follows(grid: Grid, label: Longs, chunk: int, slot: int, entry: Entry) -> bool:
    """Whether an entry that is there comes behind another one of its level."""
    cell = cell_of(grid, entry.level, chunk, slot)
    if cell != entry.cell:
        return cell > entry.cell
    if grid.entry[chunk, slot, RANK] != entry.rank:
        return grid.entry[chunk, slot, RANK] < entry.rank
    row = row_of(grid.entry[chunk, slot, ROW])
    if grid.held[row] != entry.score:
        return grid.held[row] < entry.score
    return label[row] > label[row_of(entry.row)]


@njit(**EXACT)
def _place_for(grid: Grid, label: Longs, entry: Entry) -> int:
    """The last place of the directory whose chunk does not begin behind an entry; or the level's first."""
    start, end = grid.first[entry.level], grid.first[entry.level + 1]
    first = start
    while start < end:
        middle = (start + end) // 2
        cell, best = grid.cell[middle], grid.best[middle]
        if cell != entry.cell:
            behind = cell > entry.cell
        elif best != entry.score:
            behind = best < entry.score
        else:
            behind = _follows(grid, label, np.int64(grid.chunk[middle]), np.int64(0), entry)
        if behind:
            end = middle
        else:
            start = middle + 1
    return max(first, start - 1)


@njit(**EXACT)
def _give_chunk(grid: Grid, level: int, place: int) -> None:
    """Give the chunk at a place back."""
    chunk = grid.chunk[place]
    grid.entry[chunk, 0, ROW], grid.meta[FREE] = grid.meta[FREE], chunk
    grid.meta[CHUNKS] -= 1
    for at in range(place, grid.meta[CHUNKS]):
        grid.chunk[at], grid.cell[at], grid.best[at] = (
            grid.chunk[at + 1],
            grid.cell[at + 1],
            grid.best[at + 1],
        )
    grid.first[level + 1 :] -= 1


@njit(**EXACT)
def _name(grid: Grid, level: int, place: int) -> None:
    """Tell the directory how a chunk begins."""
    chunk = grid.chunk[place]
    grid.cell[place], grid.best[place] = (
        cell_of(grid, level, chunk, 0),
        grid.held[row_of(grid.entry[chunk, 0, ROW])],
    )


@njit(**EXACT)
def _move(grid: Grid, chunk: int, slot: int, target: int, to: int) -> None:
    """Copy an entry to another slot."""
    for part in range(4):
        grid.entry[target, to, part] = grid.entry[chunk, slot, part]


@njit(**EXACT)
def _split(grid: Grid, level: int, place: int) -> None:
    """Move the second half of a full chunk into a new one behind it."""
    chunk, other = grid.chunk[place], take_chunk(grid, level, place + 1)
    for slot in range(SIZE // 2, SIZE):
        _move(grid, chunk, slot, other, slot - SIZE // 2)
    grid.extent[chunk, COUNT] = grid.extent[other, COUNT] = SIZE // 2
    for at in range(place, place + 2):
        part = grid.chunk[at]
        grid.extent[part, LEAST], grid.extent[part, UTMOST] = MOST, -MOST
        for slot in range(SIZE // 2):
            reach(grid, part, grid.entry[part, slot, LOW], grid.entry[part, slot, HIGH])
    _name(grid, level, place + 1)


@njit(**EXACT)
def _insert_entry(grid: Grid, label: Longs, entry: Entry) -> None:
    """Put an entry where it belongs; needs one free chunk."""
    level, first = entry.level, grid.first[entry.level]
    if first == grid.first[level + 1]:
        take_chunk(grid, level, first)
    place = _place_for(grid, label, entry)
    if grid.extent[grid.chunk[place], COUNT] == SIZE:
        _split(grid, level, place)
        if not _follows(grid, label, np.int64(grid.chunk[place + 1]), np.int64(0), entry):
            place += 1
    chunk = np.int64(grid.chunk[place])
    slot = np.int64(grid.extent[chunk, COUNT])
    while slot > 0 and _follows(grid, label, chunk, slot - 1, entry):
        _move(grid, chunk, slot - 1, chunk, slot)
        slot -= 1
    write(grid, chunk, slot, entry)
    grid.extent[chunk, COUNT] += 1
    if slot == 0:
        _name(grid, level, place)


@njit(**EXACT)
def _remove_entry(grid: Grid, label: Longs, entry: Entry) -> None:
    """Take an entry out."""
    place = _place_for(grid, label, entry)
    chunk, slot = np.int64(grid.chunk[place]), np.int64(0)
    while grid.entry[chunk, slot, ROW] != entry.row:
        slot += 1
    grid.extent[chunk, COUNT] -= 1
    for at in range(slot, grid.extent[chunk, COUNT]):
        _move(grid, chunk, at + 1, chunk, at)
    if grid.extent[chunk, COUNT] == 0:
        _give_chunk(grid, entry.level, place)
    elif slot == 0:
        _name(grid, entry.level, place)


@njit(**EXACT)
def insert(grid: Grid, columns: Columns, rows: Rows, start: int) -> int:
    """Insert absent rows from place `start` on; returns where it stopped for lack of chunks."""
    for place in range(start, rows.shape[0]):
        if grid.chunk.shape[0] - grid.meta[CHUNKS] < 4:
            return place
        row = np.int64(rows[place])
        entry, number = read_row(grid, columns, row, columns.score[row])
        grid.held[row] = entry.score
        _insert_entry(grid, columns.label, entry)
        if number == 2:
            _insert_entry(grid, columns.label, second(entry))
        grid.meta[ENTRIES] += number
        grid.meta[ROWS] += 1
    return rows.shape[0]


@njit(**EXACT)
def remove(grid: Grid, columns: Columns, rows: Rows) -> None:
    """Take present rows out; their ends are still those of their entries."""
    for place in rows:
        row = np.int64(place)
        entry, number = read_row(grid, columns, row, grid.held[row])
        _remove_entry(grid, columns.label, entry)
        if number == 2:
            _remove_entry(grid, columns.label, second(entry))
        grid.held[row] = np.nan
        grid.meta[ENTRIES] -= number
        grid.meta[ROWS] -= 1
