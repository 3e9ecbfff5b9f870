"""The best rows for events that want more than boxes say: every index, each candidate judged (`wanted`).

The indexes are read as they are, but for two things. Nothing is left out because of its label: ties go by
names here, so an upper bound must be below the least score of a list, not equal to it. And the grid reads its
levels one after the other instead of merging them, each down to that score.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numba import njit

from rankcast.matching.kernels.box_search import DEPTH, _push
from rankcast.matching.kernels.box_tree import (
    LAYERS,
    WIDTH,
    BoxTree,
    Columns,
    by_neighbourhood,
    encode_events,
)
from rankcast.matching.kernels.candidate_filter import (
    Room,
    Wants,
    bounded,
    ceiling,
    judge,
    make_room,
    room_for,
    shared,
    squeeze,
)
from rankcast.matching.kernels.grid import COUNT, HIGH, LEVELS, LOW, ROW, Grid, cell_at, row_of
from rankcast.matching.kernels.grid_search import _begin
from rankcast.matching.kernels.inverted import Filed, _locate, new_points, passes
from rankcast.matching.kernels.matches import (
    ALL,
    LARGEST,
    Answers,
    Floats,
    Matches,
    append_list,
    in_event_order,
)
from rankcast.structures.heap import offer
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def _keep(
    wants: Wants, room: Room, k: int, held: int, least: float, score: float, row: int
) -> tuple[int, float]:
    """Put a row into a list; returns how many it holds, and the score below which nothing is wanted."""
    if shared(wants):
        held = offer(wants.tie, room.scores, room.rows, held, score, row)
        if held == 2 * k + 16:
            held = make_room(wants, room, held, k)
            if held == k:
                least = max(least, room.scores[0])
        return held, least
    held = offer(wants.tie, room.scores[:k], room.rows, held, score, row)
    return held, max(least, room.scores[0]) if held == k else least


@njit(**EXACT)
def search_boxes(
    arrays: tuple[Any, ...], by_row: tuple[Any, ...], mode: int, live: int,
    below: Floats, above: Floats, wanted: tuple[Any, ...],
) -> Answers:  # fmt: skip
    """As `box_search.search`, for what is `wanted`: the fields of `Wants`."""
    tree, columns, wants = BoxTree(*arrays), Columns(*by_row), Wants(*wanted)
    events, room, many = (
        encode_events(tree.cuts, below, above, tree.low),
        room_for(wants, live),
        below.shape[0],
    )
    low, high, tops, links, weights = tree.low, tree.high, tree.top, tree.link, tree.weight
    stack, bounds, bound = np.empty(DEPTH, np.int32), np.empty(DEPTH), np.empty(WIDTH)
    start, number = np.zeros(many, np.int64), np.zeros(many, np.int64)
    row, score, used = np.empty(16 + 4 * many, np.int32), np.empty(16 + 4 * many), 0
    tried, looked, unsure = 0, 0, wants.error.shape[1] > 0
    for e in by_neighbourhood(events):
        k, least, held, factor = min(wants.k[e], live), wants.least[e], 0, ceiling(wants, e, mode)
        for layer in range(tree.meta[LAYERS]):
            if bounded(tree.edge[layer], factor, unsure) < least:
                break
            stack[0], bounds[0], depth = tree.root[layer], np.inf, 1 if tree.root[layer] >= 0 else 0
            while depth > 0:
                depth -= 1
                block = stack[depth]
                bottom = depth
                if bounds[depth] < least:
                    continue
                looked += 1
                for i in range(WIDTH):
                    bound[i] = 0.0 if mode == ALL else -np.inf
                for j in range(low.shape[1]):
                    beneath, over = events.low[e, j], events.high[e, j]
                    part = wants.factor[e, j] if wants.factor.shape[1] > 0 else 1.0
                    for i in range(WIDTH):
                        meets = (low[block, j, i] <= beneath) & (high[block, j, i] >= over)
                        if mode == ALL:
                            bound[i] = bound[i] if meets else -1.0
                        elif meets:
                            more = weights[block, j, i] * part
                            bound[i] = max(bound[i], more) if mode == LARGEST else max(bound[i], 0.0) + more
                inner = tree.height[block] > 0
                for i in range(tree.size[block]):
                    if bound[i] < 0.0:
                        continue
                    if mode == ALL:
                        most = bounded(tops[block, i], factor, unsure)
                    else:
                        most = bound[i] * wants.boost[e] * (1.0 + 2.0**-40)
                    if most < least or (mode != ALL and most == 0.0):
                        continue
                    link = links[block, i]
                    if inner:
                        depth = _push(stack, bounds, bottom, depth, link, most)
                        continue
                    tried += 1
                    worth = judge(columns, wants, below, above, e, link, mode)
                    if worth >= least:
                        held, least = _keep(wants, room, k, held, least, worth, link)
        held = squeeze(wants, room, held, k)
        row, score = append_list(row, score, used, room.rows[:held], room.scores[:held])
        start[e], number[e] = used, held
        used += held
    return in_event_order(Matches(start, number, row, score, tried, looked))


@njit(**EXACT)
def search_grid(
    arrays: tuple[Any, ...], by_row: tuple[Any, ...], mode: int, live: int,
    below: Floats, above: Floats, wanted: tuple[Any, ...],
) -> Answers:  # fmt: skip
    """As `grid_search.search`, for what is `wanted`: the fields of `Wants`."""
    grid, columns, wants = Grid(*arrays), Columns(*by_row), Wants(*wanted)
    events, room, many = (
        encode_events(grid.cuts, below, above, grid.entry),
        room_for(wants, live),
        below.shape[0],
    )
    levels = np.argsort(-grid.top)
    levels = levels[grid.first[levels] < grid.first[levels + 1]]
    start, number = np.zeros(many, np.int64), np.zeros(many, np.int64)
    row, score, used = np.empty(16 + 4 * many, np.int32), np.empty(16 + 4 * many), 0
    tried, looked, unsure = 0, 0, wants.error.shape[1] > 0
    for e in by_neighbourhood(events):
        k, least, held, factor = min(wants.k[e], live), wants.least[e], 0, ceiling(wants, e, mode)
        beneath, over = np.int64(events.low[e, 0]), np.int64(events.high[e, 0])
        unknown = over > beneath  # only what has no bounds, which is in the last level
        for level in levels:
            if bounded(grid.top[level], factor, unsure) < least:
                break
            if unknown and level < LEVELS - 1:
                continue
            first, last = cell_at(min(over, beneath), level), cell_at(beneath, level)
            end = grid.first[level + 1]
            part = (level, first, grid.first[level], end)
            place, slot = _begin(grid.entry, grid.extent, grid.chunk, grid.cell, part)
            passed = np.int64(-1)  # the cell whose further entries are all too low
            while place < end and grid.cell[place] <= last:
                chunk = np.int64(grid.chunk[place])
                for i in range(slot, grid.extent[chunk, COUNT]):
                    stored = np.int64(grid.entry[chunk, i, ROW])
                    cell = cell_at(grid.entry[chunk, i, LOW], level) + (stored < 0)
                    if cell > last:
                        break
                    if cell == passed:
                        continue
                    looked += 1
                    mine = row_of(stored)
                    if bounded(grid.held[mine], factor, unsure) < least:
                        passed = np.int64(cell)
                        if first == last:
                            break
                        continue
                    again = stored < 0 and cell > first
                    if again or grid.entry[chunk, i, LOW] > beneath or grid.entry[chunk, i, HIGH] < over:
                        continue
                    tried += 1
                    worth = judge(columns, wants, below, above, e, mine, mode)
                    if worth >= least:
                        held, least = _keep(wants, room, k, held, least, worth, mine)
                if passed >= 0 and first == last:
                    break
                place, slot = place + 1, 0
        held = squeeze(wants, room, held, k)
        row, score = append_list(row, score, used, room.rows[:held], room.scores[:held])
        start[e], number[e] = used, held
        used += held
    return in_event_order(Matches(start, number, row, score, tried, looked))


@njit(**EXACT)
def search_entries(
    arrays: tuple[tuple[Any, ...], tuple[Any, ...], Floats], by_row: tuple[Any, ...], mode: int, live: int,
    below: Floats, above: Floats, wanted: tuple[Any, ...],
) -> Answers:  # fmt: skip
    """As `inverted.search`, for what is `wanted`: the fields of `Wants`."""
    tree, filed, cuts, columns = BoxTree(*arrays[0]), Filed(*arrays[1]), arrays[2], Columns(*by_row)
    wants, points = Wants(*wanted), new_points(cuts.shape[0])
    room, many, each = room_for(wants, live), below.shape[0], 1
    if filed.number.shape[0] > 0:
        each = filed.lo.shape[0] // filed.number.shape[0]
    number, stack, bounds = np.zeros(many, np.int64), np.empty(DEPTH, np.int32), np.empty(DEPTH)
    row, score, used = np.empty(16 + 4 * many, np.int32), np.empty(16 + 4 * many), 0
    tried, looked, unsure = 0, 0, wants.error.shape[1] > 0
    for e in range(many):
        size = _locate(tree, cuts, below, above, e, points)
        k, least, held, factor = min(wants.k[e], live), wants.least[e], 0, ceiling(wants, e, mode)
        for layer in range(tree.meta[LAYERS]):
            if bounded(tree.edge[layer], factor, unsure) < least:
                break
            stack[0], bounds[0], depth = tree.root[layer], np.inf, 1 if tree.root[layer] >= 0 else 0
            while depth > 0:
                depth -= 1
                block = stack[depth]
                if bounds[depth] < least:
                    continue
                looked += 1
                for i in range(tree.size[block]):
                    lowest, top = np.int64(tree.low[block, 0, i]), bounded(tree.top[block, i], factor, unsure)
                    place = points.first[(lowest + (1 << 31)) >> 22]
                    while place < size and points.below[place] < lowest:
                        place += 1
                    if place == size or points.above[place] > tree.high[block, 0, i] or top < least:
                        continue
                    link = np.int64(tree.link[block, i])
                    if tree.height[block] > 0:
                        stack[depth], bounds[depth] = link, top
                        depth += 1
                        continue
                    tried += 1
                    mine, slot = link // each, link % each
                    if mode == ALL and not passes(filed.guard, points.ends, mine):
                        continue
                    if mode != ALL and not filed.always[mine]:
                        # Of several entries the first counts whose interval meets the event.
                        met = np.int64(-1)
                        for s in range(filed.number[mine]):
                            j = filed.attribute[mine, s]
                            if columns.lo[mine, j] <= below[e, j] and columns.hi[mine, j] >= above[e, j]:
                                met = np.int64(s)
                                break
                        if met != slot:
                            continue
                    worth = judge(columns, wants, below, above, e, mine, mode)
                    if worth >= least:
                        held, least = _keep(wants, room, k, held, least, worth, mine)
        held = squeeze(wants, room, held, k)
        row, score = append_list(row, score, used, room.rows[:held], room.scores[:held])
        number[e], used = held, used + held
    return number, row[:used], score[:used], tried, looked
