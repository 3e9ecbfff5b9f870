"""Whether indexes of scored boxes and intervals from a snapshot keep the invariants that kernels rely on.

As in `rankcast.structures.integrity`, nothing read is trusted and every walk is counted. What stands in an order
is compared with the columns by row, so that a search for it leads there.
Cost: O(n d), in a tree of centres O(n d log n).
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.matching.kernels import box_tree as boxes
from rankcast.matching.kernels import grid as grids
from rankcast.matching.kernels.box_tree import WIDTH, BoxTree, Columns, encode, most_of
from rankcast.matching.kernels.grid import Grid
from rankcast.papers.matching import centre_tree as centre
from rankcast.papers.matching import scored_blocks as lists
from rankcast.papers.matching.centre_tree import Centres
from rankcast.papers.matching.scored_blocks import Blocks
from rankcast.structures.jit import EXACT

Bools = NDArray[np.bool_]
Rows = NDArray[np.int32]
Longs = NDArray[np.int64]
FITS = 0
COUNTS, LINKS, ENTRIES, CHAIN, ORDER = 1, 2, 3, 4, 5
TALLEST = 8  # levels of a box tree or of scored blocks with many entries a block
cell_at, G_MOST = grids.cell_at, grids.MOST
B_USED, B_FREE, B_BLOCKS, B_LAYERS, B_SIZE = boxes.USED, boxes.FREE, boxes.BLOCKS, boxes.LAYERS, boxes.SIZE
G_USED, G_FREE, G_CHUNKS, G_ENTRIES, G_ROWS = grids.USED, grids.FREE, grids.CHUNKS, grids.ENTRIES, grids.ROWS
G_SIZE, G_COUNT, G_LEVELS, G_LOW, G_HIGH, G_ROW, G_RANK = (
    grids.SIZE,
    grids.COUNT,
    grids.LEVELS,
    grids.LOW,
    grids.HIGH,
    grids.ROW,
    grids.RANK,
)
L_USED, L_FREE, L_BLOCKS = lists.USED, lists.FREE, lists.BLOCKS
C_USED, C_FREE, C_NODES, C_DEPTH = centre.USED, centre.FREE, centre.NODES, centre.DEPTH


@njit(**EXACT)
def box_tree(tree: BoxTree, columns: Columns, wanted: Bools) -> int:
    """Whether a tree of boxes hangs together and holds the `wanted` rows with their scores.

    Codes and weights only bound: what is wrong there hides a row from an event, and no more. To make them
    anew for every row would take longer than everything else.
    """
    meta, used, layers = tree.meta, tree.meta[B_USED], tree.meta[B_LAYERS]
    if not (0 <= meta[B_BLOCKS] <= used <= tree.size.size and 1 <= layers <= tree.root.size):
        return COUNTS
    for layer in range(tree.root.size):
        if not -1 <= tree.edge_row[layer] < columns.label.size or (
            layer >= layers and tree.root[layer] != -1
        ):
            return COUNTS
        if np.isnan(tree.floor[layer]) or np.isnan(tree.edge[layer]):
            return COUNTS
    if tree.floor[layers - 1] != -np.inf:
        return COUNTS
    seen, todo, known, rows = np.zeros(used, np.bool_), wanted.copy(), 0, 0
    stack = np.empty(TALLEST * WIDTH, np.int64)
    for layer in range(layers):
        root, members = np.int64(tree.root[layer]), 0
        if root < -1 or root >= used or (root >= 0 and tree.parent[root] != -1 - layer):
            return LINKS
        stack[0], depth = root, 1 if root >= 0 else 0
        if root >= 0 and not 0 <= tree.height[root] < TALLEST:
            return LINKS
        while depth > 0:
            depth -= 1
            block = stack[depth]
            size, height = np.int64(tree.size[block]), tree.height[block]
            if seen[block] or not 1 <= size <= WIDTH:
                return LINKS
            seen[block], known = True, known + 1
            if not _blank_behind(tree, block, size):
                return ENTRIES
            for i in range(size):
                link = np.int64(tree.link[block, i])
                if height > 0:
                    if link < 0 or link >= used or tree.parent[link] != block:
                        return LINKS
                    if tree.height[link] != height - 1:
                        return LINKS
                    stack[depth], depth = link, depth + 1
                    continue
                if link < 0 or link >= todo.size or not todo[link] or link >= tree.place.size:
                    return ENTRIES
                todo[link], members = False, members + 1
                if tree.place[link] != block * WIDTH + i or tree.top[block, i] != columns.score[link]:
                    return ENTRIES
        if members != tree.members[layer]:
            return COUNTS
        rows += members
    if known != meta[B_BLOCKS] or rows != meta[B_SIZE] or todo.any():
        return COUNTS
    for layer in range(layers, tree.root.size):
        if tree.members[layer] != 0:
            return COUNTS
    for row in range(tree.place.size):
        rows -= tree.place[row] >= 0
    if rows != 0:
        return ENTRIES
    return FITS if _chained(seen, known, meta[B_FREE], tree.parent) else CHAIN


@njit(**EXACT)
def _blank_behind(tree: BoxTree, block: int, size: int) -> bool:
    """Whether nothing meets the entries of a block that are not in use."""
    out = most_of(tree) + 1
    for j in range(tree.low.shape[1]):
        for i in range(size, WIDTH):
            if tree.low[block, j, i] != out or tree.high[block, j, i] != -out:
                return False
    return True


@njit(**EXACT)
def _chained(seen: Bools, known: int, first: int, after: Rows) -> bool:
    """Whether all that was not seen is in the chain of what is free."""
    free = first
    while free != -1:
        if free < 0 or free >= seen.size or seen[free]:
            return False
        seen[free], known = True, known + 1
        free = int(after[free])
    return known == seen.size


@njit(**EXACT)
def _codes(grid: Grid, columns: Columns, wanted: Bools) -> tuple[Rows, Rows, Rows]:
    """By row, as `interval_grid.read_row` has them: both ends as codes, and the rank of the score."""
    low, high, score = np.zeros(wanted.size, np.int32), np.zeros(wanted.size, np.int32), columns.score
    rounded = np.zeros(wanted.size, np.float32)
    for row in range(wanted.size):
        if wanted[row]:
            low[row] = encode(grid.cuts, 0, columns.lo[row, 0], G_MOST)
            high[row] = encode(grid.cuts, 0, columns.hi[row, 0], G_MOST)
            rounded[row] = score[row] + 0.0
    rank = rounded.view(np.int32).copy()
    for row in range(rank.size):
        rank[row] = rank[row] if rank[row] >= 0 else rank[row] ^ np.int32(0x7FFFFFFF)
    return low, high, rank


@njit(**EXACT)
def interval_grid(grid: Grid, columns: Columns, wanted: Bools) -> int:
    """Whether a grid hangs together and holds the `wanted` rows, each in its cells and in order."""
    meta, used, chunks, rows = grid.meta, grid.meta[G_USED], grid.meta[G_CHUNKS], grid.held.size
    if not 0 <= chunks <= used <= grid.chunk.size:
        return COUNTS
    if grid.first[0] != 0 or grid.first[G_LEVELS] != chunks or wanted.size < rows:
        return COUNTS
    for level in range(G_LEVELS):
        if not grid.first[level] <= grid.first[level + 1] <= chunks:
            return COUNTS
    seen, times, entries = np.zeros(used, np.bool_), np.zeros(rows, np.int8), 0
    lows, highs, ranks = _codes(grid, columns, wanted)
    for level in range(G_LEVELS):
        last, before = np.int64(-1), np.int64(-1)
        for place in range(grid.first[level], grid.first[level + 1]):
            chunk = np.int64(grid.chunk[place])
            if chunk < 0 or chunk >= used or seen[chunk]:
                return LINKS
            seen[chunk], size = True, np.int64(grid.extent[chunk, G_COUNT])
            if not 1 <= size <= G_SIZE:
                return COUNTS
            for slot in range(size):
                stored = np.int64(grid.entry[chunk, slot, G_ROW])
                row, mine = (stored, 1) if stored >= 0 else (~stored, 2)
                if (
                    row >= rows
                    or not wanted[row]
                    or grid.held[row] != columns.score[row]
                    or times[row] & mine
                ):
                    return ENTRIES
                low, high = np.int64(lows[row]), np.int64(highs[row])
                cell = cell_at(low, level)
                if level > 0 and cell_at(high, level - 1) - cell_at(low, level - 1) <= 1:
                    return ENTRIES
                if cell_at(high, level) - cell > 1 or cell_at(high, level) - cell < mine - 1:
                    return ENTRIES
                # whether there is another one is noted with the first
                times[row] |= mine | (4 if mine == 1 and cell_at(high, level) > cell else 0)
                entries, cell = entries + 1, cell + mine - 1
                if grid.entry[chunk, slot, G_LOW] != low or grid.entry[chunk, slot, G_HIGH] != high:
                    return ENTRIES
                if grid.entry[chunk, slot, G_RANK] != ranks[row]:
                    return ENTRIES
                if last >= 0:
                    one, two = columns.score[last], columns.score[row]
                    behind = two < one or (two == one and columns.label[last] < columns.label[row])
                    if before > cell or (before == cell and not behind):
                        return ORDER
                last, before = row, np.int64(cell)
                if slot == 0 and (grid.cell[place] != cell or grid.best[place] != grid.held[row]):
                    return ORDER
    for each in range(wanted.size):
        there = each < rows and not np.isnan(grid.held[each])
        if there != wanted[each] or (there and times[each] != 1 and times[each] != 7):
            return ENTRIES
    if meta[G_ROWS] != np.count_nonzero(wanted) or meta[G_ENTRIES] != entries:
        return COUNTS
    return FITS if _chained(seen, chunks, meta[G_FREE], grid.entry[:used, 0, G_ROW].copy()) else CHAIN


@njit(**EXACT)
def scored_lists(blocks: Blocks, columns: Columns, wanted: Bools, live: bool, number: Longs) -> int:
    """Whether blocks of scored lists hang together; `number` counts the entries of each list.

    Live lists hold each `wanted` row once a dimension, in order; others hold rows of `wanted.size`, in any.
    """
    meta, used, width = blocks.meta, blocks.meta[L_USED], blocks.link.shape[1]
    if not 0 <= meta[L_BLOCKS] <= used <= blocks.size.size:
        return COUNTS
    seen, known = np.zeros(used, np.bool_), 0
    stack = np.empty(C_DEPTH * (width + 1), np.int64)
    for j in range(blocks.root.size):
        root, total, last = np.int64(blocks.root[j]), 0, np.int64(-1)
        listed, key = np.int64(-1), np.inf
        if root < 0 or root >= used or blocks.parent[root] != -1 - j:
            return LINKS
        if not 0 <= blocks.height[root] < C_DEPTH // 4:
            return LINKS
        stack[0], depth = root, 1
        while depth > 0:
            depth -= 1
            block = stack[depth]
            size, height = np.int64(blocks.size[block]), blocks.height[block]
            if seen[block] or size > width or size < (0 if block == root and height == 0 else 1):
                return LINKS
            seen[block], known = True, known + 1
            for i in range(size - 1, -1, -1):
                if height > 0:
                    child = np.int64(blocks.link[block, i])
                    if child < 0 or child >= used or blocks.parent[child] != block:
                        return LINKS
                    if blocks.height[child] != height - 1 or blocks.size[child] < 1:
                        return LINKS
                    if blocks.listed[block, i] != blocks.listed[child, 0]:
                        return ORDER
                    if blocks.key[block, i] != blocks.key[child, 0]:
                        return ORDER
                    stack[depth], depth = child, depth + 1
            for i in range(size if height == 0 else 0):
                row, total = np.int64(blocks.link[block, i]), total + 1
                if row < 0 or row >= wanted.size or np.isnan(blocks.key[block, i]):
                    return ENTRIES
                if blocks.listed[block, i] < listed or blocks.listed[block, i] >= number.size:
                    return ORDER
                if live:
                    if not wanted[row] or row >= blocks.leaf.shape[0] or blocks.leaf[row, j] != block:
                        return ENTRIES
                    mine = columns.weight[row, j] if columns.weight.shape[1] > 0 else columns.score[row]
                    if blocks.key[block, i] != mine:
                        return ENTRIES
                    if blocks.listed[block, i] == listed and last >= 0:
                        behind = mine < key or (mine == key and columns.label[last] < columns.label[row])
                        if not behind:
                            return ORDER
                    key = mine
                last, listed = row, np.int64(blocks.listed[block, i])
                number[listed] += 1
        if live:
            for each in range(blocks.leaf.shape[0]):
                total -= blocks.leaf[each, j] >= 0
            if total != 0:
                return ENTRIES
    if known != meta[L_BLOCKS]:
        return COUNTS
    return FITS if _chained(seen, known, meta[L_FREE], blocks.parent) else CHAIN


@njit(**EXACT)
def centres(tree: Centres, blocks: Blocks, columns: Columns, rows: Rows, number: Longs) -> int:
    """Whether trees of centres hang together, and each of the rows stands in the list where it belongs.

    `number` counts the entries of each list, as they stand in the blocks, which must fit already.
    """
    used, meta = tree.meta[C_USED], tree.meta
    if not 0 <= meta[C_NODES] <= used <= tree.number.size:
        return COUNTS
    seen, known = np.zeros(used, np.bool_), 0
    stack = np.empty((2 * C_DEPTH, 2), np.int64)
    for j in range(tree.top.size):
        top = np.int64(tree.top[j])
        if top < -1 or top >= used or (top < 0) != (rows.size == 0):
            return LINKS
        stack[0, 0], stack[0, 1], depth = top, 1, 1 if top >= 0 else 0
        while depth > 0:
            depth -= 1
            node, level = stack[depth, 0], stack[depth, 1]
            if seen[node] or level >= C_DEPTH - 16 or np.isnan(tree.centre[node]):
                return LINKS
            seen[node], known = True, known + 1
            weight = np.int64(tree.number[node])
            if weight != number[node]:
                return COUNTS
            for side in range(2):
                child = np.int64(tree.child[node, side])
                if child < -1 or child >= used:
                    return LINKS
                if child >= 0:
                    weight += tree.weight[child]
                    stack[depth, 0], stack[depth, 1], depth = child, level + 1, depth + 1
            if tree.weight[node] != weight or weight < 1:
                return COUNTS
        for row in rows:
            node, lo, hi = top, columns.lo[row, j], columns.hi[row, j]
            while node >= 0 and not lo <= tree.centre[node] <= hi:
                node = np.int64(tree.child[node, 1 if lo > tree.centre[node] else 0])
            block, i = np.int64(blocks.leaf[row, j]), 0
            while i < blocks.size[block] and blocks.link[block, i] != row:
                i += 1
            if node < 0 or i == blocks.size[block] or blocks.listed[block, i] != node:
                return ENTRIES
    if known != meta[C_NODES]:
        return COUNTS
    return FITS if _chained(seen, known, meta[C_FREE], tree.child[:used, 0].copy()) else CHAIN
