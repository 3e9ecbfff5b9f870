"""Lists of intervals by score under R-trees, all lists of a dimension in one tree of blocks.

All scored interval indexes of [Ranked §2, §3] are lists of intervals and a way to choose lists for an event.
What an event meets in a list stands there in the order of (score, label). The entries of a dimension stand in
the order of (list, score, label), up to b of them in a leaf, the leaves in blocks of up to b, and so on: the
paper's b-way R-tree over every list, in which short lists share a leaf. An entry of an inner block has the
extent of what is below it, and the list and the score of its first entry. The paper's search, depth first and
left child first, is a walk along the leaves that leaps over blocks; `threshold` merges such walks.

Entries come and go in place [Ranked §3.1]. One goes into the leaf where it belongs by (list, score, label). A
full block is split in the middle, and above it as many as are full; so blocks stay ordered by score first, as
in the paper's scored R-tree, whatever their extents. A block that has become thin goes into a neighbour that
has room. Cost: O(b) per level that changes, O(log_b n) levels; equal scores descend once more to compare
labels. `fits` checks restored blocks: O(n), nothing read is trusted.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.matching.kernels.box_tree import Columns, free_chain_fits
from rankcast.structures.jit import EXACT

Floats = NDArray[np.float64]
Rows = NDArray[np.int32]
Longs = NDArray[np.int64]
Bools = NDArray[np.bool_]
Bounds = NDArray[np.float32]
USED, FREE, BLOCKS, SPLITS, MERGES = range(5)
DEPTH = 128  # levels of a tree of centres at most


class Blocks(NamedTuple):
    """The arrays: (blocks, b) by entry, then by block, by dimension, by row and dimension, and counts.

    `lo` and `hi` have no columns where everything in a list is met (segment tree). In relaxed matching
    `bound` is at least what a row can give in all dimensions together; in exact matching it has no columns.
    `link` is a row or a child. The parent of a root is the complement of its dimension. `leaf` names the
    leaf of a row, -1 if it has none; it has no rows where nothing is changed in place.
    """

    lo: Floats
    hi: Floats
    key: Floats
    bound: Bounds
    listed: Rows
    link: Rows
    size: Rows
    height: Rows
    parent: Rows
    root: Rows
    leaf: Rows
    meta: Longs


class Entries(NamedTuple):
    """Entries of one dimension in their order."""

    listed: Rows
    row: Rows
    key: Floats
    lo: Floats
    hi: Floats


@njit(**EXACT)
def bound_of(score: float) -> np.float32:
    """A score rounded up to a float32."""
    rounded = np.float32(score)
    return np.nextafter(rounded, np.float32(np.inf)) if rounded < score else rounded


@njit(**EXACT)
def take_block(blocks: Blocks, height: int, parent: int) -> int:
    """A block without entries."""
    block = blocks.meta[FREE]
    if block >= 0:
        blocks.meta[FREE] = blocks.parent[block]
    else:
        block = blocks.meta[USED]
        blocks.meta[USED] += 1
    blocks.meta[BLOCKS] += 1
    blocks.size[block], blocks.height[block], blocks.parent[block] = 0, height, parent
    return block


@njit(**EXACT)
def give_block(blocks: Blocks, block: int) -> None:
    """Give a block back."""
    blocks.size[block] = 0
    blocks.parent[block], blocks.meta[FREE] = blocks.meta[FREE], block
    blocks.meta[BLOCKS] -= 1


@njit(**EXACT)
def clear(blocks: Blocks) -> None:
    """Make every dimension an empty leaf."""
    blocks.meta[:], blocks.leaf[:] = 0, -1
    blocks.meta[FREE] = -1
    for j in range(blocks.root.shape[0]):
        blocks.root[j] = take_block(blocks, 0, -1 - j)


@njit(**EXACT)
def summarise(blocks: Blocks, block: int, above: int, i: int) -> bool:
    """Let entry i of a block above say what a block holds; returns whether that was something else before."""
    size, same = blocks.size[block], blocks.link[above, i] == block
    if blocks.lo.shape[1] > 0:
        lo, hi = blocks.lo[block, 0], blocks.hi[block, 0]
        for at in range(1, size):
            lo, hi = min(lo, blocks.lo[block, at]), max(hi, blocks.hi[block, at])
        same &= blocks.lo[above, i] == lo and blocks.hi[above, i] == hi
        blocks.lo[above, i], blocks.hi[above, i] = lo, hi
    if blocks.bound.shape[1] > 0:
        bound = blocks.bound[block, 0]
        for at in range(1, size):
            bound = max(bound, blocks.bound[block, at])
        same &= blocks.bound[above, i] == bound
        blocks.bound[above, i] = bound
    listed, key = blocks.listed[block, 0], blocks.key[block, 0]
    same &= blocks.listed[above, i] == listed and blocks.key[above, i] == key
    blocks.listed[above, i], blocks.key[above, i], blocks.link[above, i] = listed, key, block
    return not same


@njit(**EXACT)
def begin_of(
    heights: Rows, sizes: Rows, links: Rows, lists: Rows, block: int, listed: int
) -> tuple[int, int]:
    """The leaf and the place, below a block, from which on entries belong to a list or to later ones."""
    while True:
        inner = heights[block] > 0
        start, end = int(inner), sizes[block]
        while start < end:
            middle = (start + end) // 2
            if lists[block, middle] < listed:
                start = middle + 1
            else:
                end = middle
        if not inner:
            return block, start
        block = links[block, start - 1]


@njit(**EXACT)
def rows_of(blocks: Blocks, root: int, listed: int, rows: Rows) -> None:
    """Write the rows of a list; as many as there is room for, which are all."""
    block, i = begin_of(blocks.height, blocks.size, blocks.link, blocks.listed, root, listed)
    for at in range(rows.shape[0]):
        while i == blocks.size[block]:
            child, block, i = block, blocks.parent[block], 0
            while blocks.link[block, i] != child:
                i += 1
            i += 1
            while i < blocks.size[block] and blocks.height[block] > 0:
                block, i = blocks.link[block, i], 0
        rows[at] = blocks.link[block, i]
        i += 1


@njit(**EXACT)
def pack(blocks: Blocks, entries: Entries, score: Floats, j: int, fill: int) -> None:
    """Lay out all entries of a dimension whose root is an empty leaf, `fill` to a block. O(entries)."""
    total, height = entries.row.shape[0], 0
    level = np.empty((total + fill - 1) // fill, np.int64)
    if total > 0:
        give_block(blocks, blocks.root[j])
    for leaf in range(level.shape[0]):
        block = take_block(blocks, 0, -1 - j)
        level[leaf] = block
        for at in range(leaf * fill, min(leaf * fill + fill, total)):
            i, row = at - leaf * fill, entries.row[at]
            if blocks.lo.shape[1] > 0:
                blocks.lo[block, i], blocks.hi[block, i] = entries.lo[at], entries.hi[at]
            if blocks.bound.shape[1] > 0:
                blocks.bound[block, i] = bound_of(score[row])
            blocks.listed[block, i], blocks.key[block, i] = entries.listed[at], entries.key[at]
            blocks.link[block, i], blocks.size[block] = row, i + 1
            if blocks.leaf.shape[0] > 0:
                blocks.leaf[row, j] = block
    while level.shape[0] > 1:
        height += 1
        above = np.empty((level.shape[0] + fill - 1) // fill, np.int64)
        for at in range(level.shape[0]):
            group, i = at // fill, at % fill
            if i == 0:
                above[group] = take_block(blocks, height, -1 - j)
            blocks.parent[level[at]] = above[group]
            summarise(blocks, level[at], above[group], i)
            blocks.size[above[group]] = i + 1
        level = above
    if total > 0:
        blocks.root[j] = level[0]


class ListEntry(NamedTuple):
    """One interval of a row as an entry of a list."""

    listed: int
    row: int
    key: float
    lo: float
    hi: float
    score: float


@njit(**EXACT)
def _precedes(blocks: Blocks, label: Longs, block: int, i: int, entry: ListEntry) -> bool:
    """Whether the first row of an entry that is there stands before another entry."""
    if blocks.listed[block, i] != entry.listed:
        return blocks.listed[block, i] < entry.listed
    if blocks.key[block, i] != entry.key:
        return blocks.key[block, i] > entry.key
    while blocks.height[block] > 0:
        block, i = blocks.link[block, i], 0
    return label[blocks.link[block, i]] < label[entry.row]


@njit(**EXACT)
def _behind(blocks: Blocks, label: Longs, block: int, start: int, entry: ListEntry) -> int:
    """The first place from `start` on, in a block, that does not stand before an entry."""
    end = blocks.size[block]
    while start < end:
        middle = (start + end) // 2
        if _precedes(blocks, label, block, middle, entry):
            start = middle + 1
        else:
            end = middle
    return start


@njit(**EXACT)
def slot_of(blocks: Blocks, block: int) -> int:
    """The entry of the parent that is this block."""
    parent, i = blocks.parent[block], 0
    while blocks.link[parent, i] != block:
        i += 1
    return i


@njit(**EXACT)
def _copy(blocks: Blocks, block: int, i: int, target: int, to: int) -> None:
    """Copy an entry to another place."""
    if blocks.lo.shape[1] > 0:
        blocks.lo[target, to], blocks.hi[target, to] = blocks.lo[block, i], blocks.hi[block, i]
    if blocks.bound.shape[1] > 0:
        blocks.bound[target, to] = blocks.bound[block, i]
    blocks.key[target, to], blocks.listed[target, to] = blocks.key[block, i], blocks.listed[block, i]
    blocks.link[target, to] = blocks.link[block, i]


@njit(**EXACT)
def _open(blocks: Blocks, block: int, i: int) -> None:
    """Make room at place i of a block that is not full."""
    for at in range(blocks.size[block], i, -1):
        _copy(blocks, block, at - 1, block, at)
    blocks.size[block] += 1


@njit(**EXACT)
def _close(blocks: Blocks, block: int, i: int) -> None:
    """Take place i out of a block."""
    blocks.size[block] -= 1
    for at in range(i, blocks.size[block]):
        _copy(blocks, block, at + 1, block, at)


@njit(**EXACT)
def _move(blocks: Blocks, block: int, start: int, target: int, j: int) -> None:
    """Move the entries from `start` on behind those of another block."""
    for i in range(start, blocks.size[block]):
        _copy(blocks, block, i, target, blocks.size[target])
        blocks.size[target] += 1
        if blocks.height[block] == 0:
            blocks.leaf[blocks.link[block, i], j] = target
        else:
            blocks.parent[blocks.link[block, i]] = target
    blocks.size[block] = start


@njit(**EXACT)
def _split(blocks: Blocks, block: int, j: int) -> None:
    """Move the second half of a full block, whose parent is not full, into a new one behind it."""
    if blocks.parent[block] < 0:
        blocks.root[j] = take_block(blocks, blocks.height[block] + 1, -1 - j)
        blocks.parent[block], blocks.size[blocks.root[j]] = blocks.root[j], 1
        summarise(blocks, block, blocks.root[j], 0)
    above, i = blocks.parent[block], slot_of(blocks, block)
    other = take_block(blocks, blocks.height[block], above)
    _move(blocks, block, (blocks.size[block] + 1) // 2, other, j)
    _open(blocks, above, i + 1)
    summarise(blocks, block, above, i)
    summarise(blocks, other, above, i + 1)
    blocks.meta[SPLITS] += 1


@njit(**EXACT)
def _make_room(blocks: Blocks, block: int, j: int) -> None:
    """Split a full block, and before it what is full above it."""
    while True:
        top, above = block, blocks.parent[block]
        while above >= 0 and blocks.size[above] == blocks.link.shape[1]:
            top, above = above, blocks.parent[above]
        _split(blocks, top, j)
        if top == block:
            return


@njit(**EXACT)
def _refresh(blocks: Blocks, block: int) -> None:
    """Carry what a block holds up as far as it changes anything."""
    while blocks.parent[block] >= 0:
        above = blocks.parent[block]
        if not summarise(blocks, block, above, slot_of(blocks, block)):
            return
        block = above


@njit(**EXACT)
def insert_entry(blocks: Blocks, label: Longs, j: int, entry: ListEntry) -> None:
    """Put an entry where it belongs; needs two free blocks a level and one more."""
    block = blocks.root[j]
    while blocks.height[block] > 0:
        block = blocks.link[block, _behind(blocks, label, block, 1, entry) - 1]
    if blocks.size[block] == blocks.link.shape[1]:
        _make_room(blocks, block, j)
        i = slot_of(blocks, block) + 1
        above = blocks.parent[block]
        if i < blocks.size[above] and _precedes(blocks, label, above, i, entry):
            block = blocks.link[above, i]
    i = _behind(blocks, label, block, 0, entry)
    _open(blocks, block, i)
    blocks.listed[block, i], blocks.link[block, i], blocks.key[block, i] = entry.listed, entry.row, entry.key
    blocks.lo[block, i], blocks.hi[block, i] = entry.lo, entry.hi
    if blocks.bound.shape[1] > 0:
        blocks.bound[block, i] = bound_of(entry.score)
    blocks.leaf[entry.row, j] = block
    _refresh(blocks, block)


@njit(**EXACT)
def _partner(blocks: Blocks, above: int, i: int) -> int:
    """The left one of two neighbours, child i and one beside it, that fit well into one block; or -1."""
    most = 3 * blocks.link.shape[1] // 4
    for left in range(max(i - 1, 0), min(i + 1, blocks.size[above] - 1)):
        both = blocks.size[blocks.link[above, left]] + blocks.size[blocks.link[above, left + 1]]
        if both <= most:
            return left
    return -1


@njit(**EXACT)
def _settle(blocks: Blocks, block: int, j: int) -> None:
    """After a removal: give empty blocks back, join thin ones, tell the blocks above."""
    while blocks.parent[block] >= 0:
        above, i = blocks.parent[block], slot_of(blocks, block)
        left = -1 if 4 * blocks.size[block] > blocks.link.shape[1] else _partner(blocks, above, i)
        if blocks.size[block] == 0:
            _close(blocks, above, i)
            give_block(blocks, block)
        elif left >= 0:
            target, source = blocks.link[above, left], blocks.link[above, left + 1]
            _move(blocks, source, 0, target, j)
            _close(blocks, above, left + 1)
            give_block(blocks, source)
            summarise(blocks, target, above, left)
            blocks.meta[MERGES] += 1
        else:
            _refresh(blocks, block)
            return
        block = above
    while blocks.height[block] > 0 and blocks.size[block] == 1:
        blocks.root[j] = blocks.link[block, 0]
        blocks.parent[blocks.root[j]] = -1 - j
        give_block(blocks, block)
        block = blocks.root[j]


@njit(**EXACT)
def remove_entry(blocks: Blocks, j: int, row: int) -> int:
    """Take the entry of a row out; returns its list."""
    block, i = blocks.leaf[row, j], 0
    while blocks.link[block, i] != row:
        i += 1
    listed = blocks.listed[block, i]
    _close(blocks, block, i)
    blocks.leaf[row, j] = -1
    _settle(blocks, block, j)
    return listed


@njit(**EXACT)
def fits(blocks: Blocks, columns: Columns, wanted: Bools, live: bool, number: Longs) -> bool:
    """Whether blocks of scored lists are consistent; `number` counts the entries of each list.

    Live lists hold each `wanted` row once a dimension, in order; others hold rows of `wanted.size`, in any.
    """
    meta, used, width = blocks.meta, blocks.meta[USED], blocks.link.shape[1]
    if not 0 <= meta[BLOCKS] <= used <= blocks.size.size:
        return False
    seen, known = np.zeros(used, np.bool_), 0
    stack = np.empty(DEPTH * (width + 1), np.int64)
    for j in range(blocks.root.size):
        root, total, last = np.int64(blocks.root[j]), 0, np.int64(-1)
        listed, key = np.int64(-1), np.inf
        if root < 0 or root >= used or blocks.parent[root] != -1 - j:
            return False
        if not 0 <= blocks.height[root] < DEPTH // 4:
            return False
        stack[0], depth = root, 1
        while depth > 0:
            depth -= 1
            block = stack[depth]
            size, height = np.int64(blocks.size[block]), blocks.height[block]
            if seen[block] or size > width or size < (0 if block == root and height == 0 else 1):
                return False
            seen[block], known = True, known + 1
            for i in range(size - 1, -1, -1):
                if height > 0:
                    child = np.int64(blocks.link[block, i])
                    if child < 0 or child >= used or blocks.parent[child] != block:
                        return False
                    if blocks.height[child] != height - 1 or blocks.size[child] < 1:
                        return False
                    if blocks.listed[block, i] != blocks.listed[child, 0]:
                        return False
                    if blocks.key[block, i] != blocks.key[child, 0]:
                        return False
                    stack[depth], depth = child, depth + 1
            for i in range(size if height == 0 else 0):
                row, total = np.int64(blocks.link[block, i]), total + 1
                if row < 0 or row >= wanted.size or np.isnan(blocks.key[block, i]):
                    return False
                if blocks.listed[block, i] < listed or blocks.listed[block, i] >= number.size:
                    return False
                if live:
                    if not wanted[row] or row >= blocks.leaf.shape[0] or blocks.leaf[row, j] != block:
                        return False
                    mine = columns.weight[row, j] if columns.weight.shape[1] > 0 else columns.score[row]
                    if blocks.key[block, i] != mine:
                        return False
                    if blocks.listed[block, i] == listed and last >= 0:
                        behind = mine < key or (mine == key and columns.label[last] < columns.label[row])
                        if not behind:
                            return False
                    key = mine
                last, listed = row, np.int64(blocks.listed[block, i])
                number[listed] += 1
        if live:
            for each in range(blocks.leaf.shape[0]):
                total -= blocks.leaf[each, j] >= 0
            if total != 0:
                return False
    if known != meta[BLOCKS]:
        return False
    return free_chain_fits(seen, known, meta[FREE], blocks.parent)
