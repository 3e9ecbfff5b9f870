"""Scored intervals in one dimension: cells of many sizes, each with a list of intervals by score.

Ends are codes of 32 bits that keep their order (`box_tree.encode`). Level t cuts them into cells of 4^t
codes. An interval stands in the lowest level where it reaches into two cells at most, once in each of them,
so that it takes a good part of a cell, and an event meets a good part of its cell's list. What an event wants
is therefore in one list a level, best first (`grid_search`).

The entries of a level stand in the order of (cell, score, label), in chunks of up to SIZE. A directory names
the chunks of all levels in that order, with the first cell and score of each. The row of a second entry is
complemented: so the entry itself says which of its two cells it stands in. Of its score an entry has a rank
of 32 bits, which keeps the order; equal ranks do not decide, then the scores themselves, by row, do.

Cost: packing an empty grid with rows that come best first O(n log n), most of it one sort of keys. A change
searches the directory, O(log n), and moves up to SIZE entries in a chunk; a split, once in 30 inserts or so,
moves the directory's tail, O(n / SIZE) in one sweep. `fits` checks a restored grid: O(n), nothing read is
trusted, and what stands in an order is compared with the columns by row, so that a search for it leads there.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.matching.kernels.box_tree import Bools, Columns, encode, free_chain_fits
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


class GridEntry(NamedTuple):
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
    return (int(code) + (1 << 31)) >> (2 * level)  # codes are signed: cells count from 0 on


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
    room[0] = score + 0.0  # -0.0 becomes 0.0, which has other bits
    bits = room.view(np.int32)[0]
    # The bits of negative floats ascend with their size: turned over they descend.
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
def write(grid: Grid, chunk: int, slot: int, entry: GridEntry) -> None:
    """Write an entry."""
    grid.entry[chunk, slot, LOW], grid.entry[chunk, slot, HIGH] = entry.low, entry.high
    grid.entry[chunk, slot, ROW], grid.entry[chunk, slot, RANK] = entry.row, entry.rank
    reach(grid, chunk, entry.low, entry.high)
    grid.top[entry.level] = max(grid.top[entry.level], entry.score)


@njit(**EXACT)
def read_row(grid: Grid, columns: Columns, row: int, score: float) -> tuple[GridEntry, int]:
    """The first entry of a row under a score, and how many entries it has."""
    low, high = encode(grid.cuts, 0, columns.lo[row, 0], MOST), encode(grid.cuts, 0, columns.hi[row, 0], MOST)
    level = level_for(low, high)
    cell = cell_at(low, level)
    return GridEntry(level, cell, low, high, score, rank_of(score), row), 1 + cell_at(high, level) - cell


@njit(**EXACT)
def second(entry: GridEntry) -> GridEntry:
    """The second entry of a row."""
    return GridEntry(entry.level, entry.cell + 1, entry.low, entry.high, entry.score, entry.rank, ~entry.row)


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


@njit(**EXACT)
def _follows(grid: Grid, label: Longs, chunk: int, slot: int, entry: GridEntry) -> bool:
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
def _place_for(grid: Grid, label: Longs, entry: GridEntry) -> int:
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
def _insert_entry(grid: Grid, label: Longs, entry: GridEntry) -> None:
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
def _remove_entry(grid: Grid, label: Longs, entry: GridEntry) -> None:
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


@njit(**EXACT)
def _row_codes(grid: Grid, columns: Columns, wanted: Bools) -> tuple[Rows, Rows, Rows]:
    """By row, as `read_row` has them: both ends as codes, and the rank of the score."""
    low, high, score = np.zeros(wanted.size, np.int32), np.zeros(wanted.size, np.int32), columns.score
    rounded = np.zeros(wanted.size, np.float32)
    for row in range(wanted.size):
        if wanted[row]:
            low[row] = encode(grid.cuts, 0, columns.lo[row, 0], MOST)
            high[row] = encode(grid.cuts, 0, columns.hi[row, 0], MOST)
            rounded[row] = score[row] + 0.0
    rank = rounded.view(np.int32).copy()
    for row in range(rank.size):
        rank[row] = rank[row] if rank[row] >= 0 else rank[row] ^ np.int32(0x7FFFFFFF)
    return low, high, rank


@njit(**EXACT)
def fits(grid: Grid, columns: Columns, wanted: Bools) -> bool:
    """Whether a grid hangs together and holds the `wanted` rows, each in its cells and in order."""
    meta, used, chunks, rows = grid.meta, grid.meta[USED], grid.meta[CHUNKS], grid.held.size
    if not 0 <= chunks <= used <= grid.chunk.size:
        return False
    if grid.first[0] != 0 or grid.first[LEVELS] != chunks or wanted.size < rows:
        return False
    for level in range(LEVELS):
        if not grid.first[level] <= grid.first[level + 1] <= chunks:
            return False
    seen, times, entries = np.zeros(used, np.bool_), np.zeros(rows, np.int8), 0
    lows, highs, ranks = _row_codes(grid, columns, wanted)
    for level in range(LEVELS):
        last, before = np.int64(-1), np.int64(-1)
        for place in range(grid.first[level], grid.first[level + 1]):
            chunk = np.int64(grid.chunk[place])
            if chunk < 0 or chunk >= used or seen[chunk]:
                return False
            seen[chunk], size = True, np.int64(grid.extent[chunk, COUNT])
            if not 1 <= size <= SIZE:
                return False
            for slot in range(size):
                stored = np.int64(grid.entry[chunk, slot, ROW])
                row, mine = (stored, 1) if stored >= 0 else (~stored, 2)
                if (
                    row >= rows
                    or not wanted[row]
                    or grid.held[row] != columns.score[row]
                    or times[row] & mine
                ):
                    return False
                low, high = np.int64(lows[row]), np.int64(highs[row])
                cell = cell_at(low, level)
                if level > 0 and cell_at(high, level - 1) - cell_at(low, level - 1) <= 1:
                    return False
                if cell_at(high, level) - cell > 1 or cell_at(high, level) - cell < mine - 1:
                    return False
                # whether there is another one is noted with the first
                times[row] |= mine | (4 if mine == 1 and cell_at(high, level) > cell else 0)
                entries, cell = entries + 1, cell + mine - 1
                if grid.entry[chunk, slot, LOW] != low or grid.entry[chunk, slot, HIGH] != high:
                    return False
                if grid.entry[chunk, slot, RANK] != ranks[row]:
                    return False
                if last >= 0:
                    one, two = columns.score[last], columns.score[row]
                    behind = two < one or (two == one and columns.label[last] < columns.label[row])
                    if before > cell or (before == cell and not behind):
                        return False
                last, before = row, np.int64(cell)
                if slot == 0 and (grid.cell[place] != cell or grid.best[place] != grid.held[row]):
                    return False
    for each in range(wanted.size):
        there = each < rows and not np.isnan(grid.held[each])
        if there != wanted[each] or (there and times[each] != 1 and times[each] != 7):
            return False
    if meta[ROWS] != np.count_nonzero(wanted) or meta[ENTRIES] != entries:
        return False
    return free_chain_fits(seen, chunks, meta[FREE], grid.entry[:used, 0, ROW].copy())
