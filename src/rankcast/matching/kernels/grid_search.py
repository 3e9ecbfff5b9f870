"""The k best rows of an interval grid for each of many events.

A point reads one list a level, from its best entry on; lists are opened as their levels' best scores come
into question, and merged by their heads, so that rows come out best first and nothing is read behind the
k-th. A chunk whose extent does not hold the event is passed over. An unknown value reads the last level
alone, whose only cell holds what has no bounds. An event that is an interval reads every cell it reaches.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit

from rankcast.matching.kernels.box_tree import Columns, by_neighbourhood, encode_events
from rankcast.matching.kernels.grid import (
    COUNT,
    HIGH,
    LEAST,
    LEVELS,
    LOW,
    MOST,
    RANK,
    ROW,
    UTMOST,
    Grid,
    cell_at,
    rank_of,
    row_of,
)
from rankcast.matching.kernels.matches import (
    ALL,
    Answers,
    Floats,
    Longs,
    Matches,
    Rows,
    append_list,
    in_event_order,
)
from rankcast.structures.heap import best_first, better, offer
from rankcast.structures.jit import EXACT


class Span(NamedTuple):
    """The ends of an event, as codes and exactly."""

    below: int
    above: int
    exact_below: float
    exact_above: float


@njit(**EXACT)
def _surely(lo: Floats, hi: Floats, row: int, low: int, high: int, span: Span) -> bool:
    """Whether an interval meets an event that it meets as far as codes tell; equal codes do not decide."""
    if low == span.below and low != -MOST and lo[row, 0] > span.exact_below:
        return False
    return high != span.above or high == MOST or hi[row, 0] >= span.exact_above


@njit(**EXACT)
def _cell(entry: Rows, level: int, chunk: int, slot: int) -> int:
    """The cell of an entry."""
    return cell_at(entry[chunk, slot, LOW], level) + (entry[chunk, slot, ROW] < 0)


@njit(**EXACT)
def _begin(
    entry: Rows, extent: Rows, chunks: Rows, cells: Longs, part: tuple[int, int, int, int]
) -> tuple[int, int]:
    """The first entry of a level (level, cell, first, end) that is in a cell or behind it: place and slot."""
    level, cell, first, end = part
    start = first
    while start < end:
        middle = (start + end) // 2
        if cells[middle] < cell:
            start = middle + 1
        else:
            end = middle
    if start == first:
        return start, 0
    chunk, before = chunks[start - 1], cells[start - 1]
    count = extent[chunk, COUNT]
    slot = count
    if start < part[3]:
        slot = min(count, int(count * ((cell - before) / (cells[start] - before + 1.0))))
    while (
        slot > 0 and cell_at(entry[chunk, slot - 1, LOW], level) + (entry[chunk, slot - 1, ROW] < 0) >= cell
    ):
        slot -= 1
    while slot < count and cell_at(entry[chunk, slot, LOW], level) + (entry[chunk, slot, ROW] < 0) < cell:
        slot += 1
    return (start - 1, slot) if slot < count else (start, 0)


@njit(**EXACT)
def _sweep(
    grid: Grid, columns: Columns, span: Span, levels: Longs, scores: Floats, rows: Rows
) -> tuple[int, int]:
    """The best rows for an interval, best first; returns how many, and entries read."""
    below, above, size, read = span.below, span.above, 0, 0
    for level in levels:
        if size == rows.shape[0] and grid.top[level] < scores[0]:
            break
        first, last, end = cell_at(above, level), cell_at(below, level), grid.first[level + 1]
        part = (level, first, grid.first[level], end)
        place, slot = _begin(grid.entry, grid.extent, grid.chunk, grid.cell, part)
        while place < end and grid.cell[place] <= last:
            chunk = grid.chunk[place]
            for i in range(slot, grid.extent[chunk, COUNT]):
                cell, row = _cell(grid.entry, level, chunk, i), row_of(grid.entry[chunk, i, ROW])
                low, high, read = grid.entry[chunk, i, LOW], grid.entry[chunk, i, HIGH], read + 1
                if cell > last:
                    break
                again = grid.entry[chunk, i, ROW] < 0 and cell > first
                if again or low > below or high < above:
                    continue
                if _surely(columns.lo, columns.hi, row, low, high, span):
                    size = offer(columns.label, scores, rows, size, grid.held[row], row)
            place, slot = place + 1, 0
    best_first(columns.label, scores, rows, size)
    return size, read


@njit(**EXACT)
def ranks_of(scores: Floats) -> Rows:
    """The rank of each score."""
    ranks = np.empty(scores.shape[0], np.int32)
    for place in range(scores.shape[0]):
        ranks[place] = rank_of(scores[place])
    return ranks


@njit(**EXACT)
def search(
    arrays: tuple[Any, ...],
    by_row: tuple[Any, ...],
    k: int,
    mode: int,
    ends_below: Floats,
    ends_above: Floats,
) -> Answers:
    """The k best rows for each event with the given ends; in relaxed matching those with a score above 0.

    `arrays` are the fields of a `Grid`, `by_row` those of `Columns`; `rankcast.structures.hashing` says why
    they come as plain tuples. One body: a helper that takes arrays would count references at every step,
    which costs more than a step.
    """
    grid, columns = Grid(*arrays), Columns(*by_row)
    entry, extent, chunks, cells, firsts = grid.entry, grid.extent, grid.chunk, grid.cell, grid.first
    held, tops, label, lo, hi = grid.held, ranks_of(grid.top), columns.label, columns.lo, columns.hi
    head = np.empty((LEVELS, 3), np.int64)
    head_rank, head_row = np.empty(LEVELS, np.int32), np.empty(LEVELS, np.int32)
    levels = np.argsort(-grid.top)
    levels = levels[firsts[levels] < firsts[levels + 1]]
    scores, rows = np.empty(k), np.empty(k, np.int32)
    events, many = encode_events(grid.cuts, ends_below, ends_above, entry), ends_below.shape[0]
    start, number = np.zeros(many, np.int64), np.zeros(many, np.int64)
    found_row, found_score, used = np.empty(16 + 4 * many, np.int32), np.empty(16 + 4 * many), 0
    tried, looked = 0, 0
    for e in by_neighbourhood(events):
        below, above = int(events.low[e, 0]), int(events.high[e, 0])
        exact_below, exact_above = events.below[e, 0], events.above[e, 0]
        size, opened, following = 0, 0, 0
        if exact_above < exact_below:
            span = Span(below, above, exact_below, exact_above)
            size, read = _sweep(grid, columns, span, levels, scores, rows)
            looked, following = looked + read, levels.shape[0]
        while size < k:
            b = 0  # the best head
            for h in range(1, opened):
                if head_rank[h] > head_rank[b] or (
                    head_rank[h] == head_rank[b]
                    and better(label, held[head_row[h]], head_row[h], held[head_row[b]], head_row[b])
                ):
                    b = h
            if following < levels.shape[0] and (opened == 0 or tops[levels[following]] >= head_rank[b]):
                level = levels[following]  # it may hold a better one: open its list
                following += 1
                if above > below and level < LEVELS - 1:
                    continue
                b, opened = opened, opened + 1
                part = (level, cell_at(below, level), firsts[level], firsts[level + 1])
                place, slot = _begin(entry, extent, chunks, cells, part)
            elif opened == 0:
                break
            else:
                rows[size] = head_row[b]
                level, place, slot, size = head[b, 0], head[b, 1], head[b, 2] + 1, size + 1
            cell, end, met, row = cell_at(below, level), firsts[level + 1], False, 0
            while place < end:  # go on to the next entry of the cell that meets the event
                chunk = chunks[place]
                if extent[chunk, LEAST] <= below and extent[chunk, UTMOST] >= above:
                    while slot < extent[chunk, COUNT]:
                        low, high, stored = (
                            entry[chunk, slot, LOW],
                            entry[chunk, slot, HIGH],
                            entry[chunk, slot, ROW],
                        )
                        looked += 1
                        if cell_at(low, level) + (stored < 0) != cell:
                            place = end
                            break
                        if low <= below and high >= above:
                            row, met = row_of(stored), True
                            if low == below and low != -MOST:
                                met = lo[row, 0] <= exact_below
                            if high == above and high != MOST:
                                met &= hi[row, 0] >= exact_above
                            if met:
                                break
                        slot += 1
                    if met:
                        break
                place, slot = place + 1, 0
                if place < end and cells[place] != cell:
                    break
            if met:
                head[b, 0], head[b, 1], head[b, 2] = level, place, slot
                head_rank[b], head_row[b] = entry[chunks[place], slot, RANK], row
            else:
                opened -= 1
                head[b, 0], head[b, 1], head[b, 2] = head[opened, 0], head[opened, 1], head[opened, 2]
                head_rank[b], head_row[b] = head_rank[opened], head_row[opened]
        for i in range(size):
            scores[i] = held[rows[i]]
        tried += size
        while mode != ALL and size > 0 and scores[size - 1] <= 0.0:
            size -= 1
        found_row, found_score = append_list(found_row, found_score, used, rows[:size], scores[:size])
        start[e], number[e] = used, size
        used += size
    return in_event_order(Matches(start, number, found_row, found_score, tried, looked))
