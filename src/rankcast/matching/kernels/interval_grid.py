"""Scored intervals in one dimension: cells of many sizes, each with a list of intervals by score.

Ends are codes of 32 bits that keep their order (`rankcast.matching.kernels.box_tree.encode`). Level t cuts them into
cells of 4^t codes. An interval stands in the lowest level where it reaches into two cells at most, once in
each of them, so that it takes a good part of a cell, and an event meets a good part of its cell's list. What
an event wants is therefore in one list a level, best first (`interval_grid_search`).

The entries of a level stand in the order of (cell, score, label), in chunks of up to SIZE. A directory names
the chunks of all levels in that order, with the first cell and score of each. The row of a second entry is
complemented: so its cell is told by the entry itself. Of its score an entry has a rank of 32 bits, which
keeps the order; equal ranks do not decide, then the scores themselves, by row, do.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.matching.kernels.box_tree import encode
from rankcast.matching.kernels.box_tree_pack import Columns
from rankcast.matching.kernels.matches import Floats, Longs, Rows
from rankcast.structures.jit import EXACT

SIZE = 64
FILL = 56
LEVELS = 17
MOST = 2**31 - 2
LOW, HIGH, ROW, RANK = range(4)
COUNT, LEAST, UTMOST = range(3)
USED, FREE, CHUNKS, ENTRIES, ROWS, BUILT = range(6)


class Grid(NamedTuple):
    """The arrays.

    By chunk its entries (chunks, SIZE, 4), size and extent. By place in the directory a chunk, its first cell
    and score. By level where it begins in the directory, and a score that none of it exceeds. By row the
    score it stands under, NaN if it is absent.
    """

    entry: Rows
    extent: Rows
    chunk: Rows
    cell: Longs
    best: Floats
    first: Longs
    top: Floats
    held: Floats
    cuts: Floats
    meta: Longs


class Entry(NamedTuple):
    """An interval as an entry of one cell of one level."""

    level: int
    cell: int
    low: int
    high: int
    score: float
    rank: int
    row: int


@njit(**EXACT)
def cell_at(code: int, level: int) -> int:
    """The cell of a code."""
    return (code + (1 << 31)) >> (2 * level)


@njit(**EXACT)
def level_for(low: int, high: int) -> int:
    """The lowest level where an interval reaches into two cells at most."""
    level = 0
    while cell_at(high, level) - cell_at(low, level) > 1:
        level += 1
    return level


@njit(**EXACT)
def clear(grid: Grid) -> None:
    """Make the grid empty."""
    grid.meta[:] = 0
    grid.meta[FREE] = -1
    grid.first[:], grid.top[:], grid.held[:] = 0, -np.inf, np.nan


@njit(**EXACT)
def row_of(stored: int) -> int:
    """The row of an entry."""
    return stored if stored >= 0 else ~stored


@njit(**EXACT)
def cell_of(grid: Grid, level: int, chunk: int, slot: int) -> int:
    """The cell of an entry."""
    return cell_at(grid.entry[chunk, slot, LOW], level) + (grid.entry[chunk, slot, ROW] < 0)


@njit(**EXACT)
def rank_of(score: float) -> int:
    """A rank of 32 bits that never falls when the score grows: the bits of a float32, in order."""
    room = np.empty(1, np.float32)
    room[0] = score + 0.0
    bits = room.view(np.int32)[0]
    return bits if bits >= 0 else bits ^ np.int32(0x7FFFFFFF)


@njit(**EXACT)
def take_chunk(grid: Grid, level: int, place: int) -> int:
    """An empty chunk at a place of the directory."""
    chunk = grid.meta[FREE]
    if chunk >= 0:
        grid.meta[FREE] = grid.entry[chunk, 0, ROW]
    else:
        chunk = grid.meta[USED]
        grid.meta[USED] += 1
    for at in range(grid.meta[CHUNKS], place, -1):
        grid.chunk[at], grid.cell[at], grid.best[at] = (
            grid.chunk[at - 1],
            grid.cell[at - 1],
            grid.best[at - 1],
        )
    grid.meta[CHUNKS] += 1
    grid.first[level + 1 :] += 1
    grid.chunk[place], grid.extent[chunk, COUNT] = chunk, 0
    grid.extent[chunk, LEAST], grid.extent[chunk, UTMOST] = MOST, -MOST
    return chunk


@njit(**EXACT)
def reach(grid: Grid, chunk: int, low: int, high: int) -> None:
    """Let the extent of a chunk hold an interval."""
    grid.extent[chunk, LEAST], grid.extent[chunk, UTMOST] = (
        min(grid.extent[chunk, LEAST], low),
        max(grid.extent[chunk, UTMOST], high),
    )


@njit(**EXACT)
def write(grid: Grid, chunk: int, slot: int, entry: Entry) -> None:
    """Write an entry."""
    grid.entry[chunk, slot, LOW], grid.entry[chunk, slot, HIGH] = entry.low, entry.high
    grid.entry[chunk, slot, ROW], grid.entry[chunk, slot, RANK] = entry.row, entry.rank
    reach(grid, chunk, entry.low, entry.high)
    grid.top[entry.level] = max(grid.top[entry.level], entry.score)


@njit(**EXACT)
def read_row(grid: Grid, columns: Columns, row: int, score: float) -> tuple[Entry, int]:
    """The first entry of a row under a score, and how many entries it has."""
    low, high = encode(grid.cuts, 0, columns.lo[row, 0], MOST), encode(grid.cuts, 0, columns.hi[row, 0], MOST)
    level = level_for(low, high)
    cell = cell_at(low, level)
    return Entry(level, cell, low, high, score, rank_of(score), row), 1 + cell_at(high, level) - cell


@njit(**EXACT)
def second(entry: Entry) -> Entry:
    """The second entry of a row."""
    return Entry(entry.level, entry.cell + 1, entry.low, entry.high, entry.score, entry.rank, ~entry.row)
