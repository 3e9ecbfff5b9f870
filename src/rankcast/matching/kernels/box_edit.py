"""Filling a box tree: packing the rows of a layer, and inserting, removing and rescoring rows one by one.

Packing halves a range of rows, again and again, until each part fills one block. The axis (the lower or the
upper end of one dimension) is the one whose halves have boxes of the smallest volume together, tried on a
sample: the volume in codes, which are quantiles, is about the share of events that will look into the block.
Cost: O(n log n) for n rows; a split costs O(d^2) more for its sample.

An insert goes down to the leaf whose box grows least (in codes, all dimensions added), and splits full blocks
on the way back. A removal closes the gap and tightens the boxes above. A new score stays in place if the row
belongs to the same layer as before. Cost: O(64 d) a level; three levels hold 200,000 rows a layer. A split
costs O(64 d^2) every 30 inserts or so.
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.matching.kernels.box_tree import (
    BLOCKS,
    FILL,
    SIZE,
    WIDTH,
    BoxEntry,
    BoxTree,
    Codes,
    Columns,
    Rows,
    append,
    drop,
    give_block,
    layer_for,
    layer_of,
    layer_size,
    most_of,
    new_entry,
    read,
    read_row,
    refresh,
    slot_of,
    summarise,
    take_block,
    write,
)
from rankcast.structures.jit import EXACT
from rankcast.structures.select import select

SAMPLE = 64


@njit(**EXACT)
def blocks_for(rows: int) -> int:
    """How many blocks `pack` takes at most."""
    return rows // FILL + 4 * rows // (FILL * FILL) + 8


@njit(**EXACT)
def _volumes(codes: Codes, sample: NDArray[np.int64], most: int) -> float:
    """The volumes of the boxes around the two halves of a sample, together."""
    d, total = codes.shape[1] // 2, 0.0
    for half in range(2):
        start = half * (sample.shape[0] // 2)
        end = sample.shape[0] if half else start + sample.shape[0] // 2
        volume = 1.0
        for j in range(d):
            low, high = np.int64(codes[sample[start], j]), np.int64(codes[sample[start], d + j])
            for s in range(start + 1, end):
                low = min(low, np.int64(codes[sample[s], j]))
                high = max(high, np.int64(codes[sample[s], d + j]))
            volume *= (high - low + 1.0) / most
        total += volume
    return total


@njit(**EXACT)
def _choose_axis(codes: Codes, order: NDArray[np.int64], start: int, end: int, most: int) -> int:
    """The axis along which halving the rows order[start:end] leaves the smallest boxes."""
    size = min(SAMPLE, end - start)
    sample, best, chosen = np.empty(size, np.int64), np.inf, 0
    for axis in range(codes.shape[1]):
        for s in range(size):
            one = order[start + (2 * s + 1) * (end - start) // (2 * size)]
            at = s
            while at > 0 and codes[one, axis] < codes[sample[at - 1], axis]:
                sample[at] = sample[at - 1]
                at -= 1
            sample[at] = one
        volume = _volumes(codes, sample, most)
        if volume < best and codes[sample[0], axis] < codes[sample[size - 1], axis]:
            best, chosen = volume, axis
    return chosen


@njit(**EXACT)
def halve(
    codes: Codes,
    order: NDArray[np.int64],
    keys: NDArray[np.int64],
    start: int,
    end: int,
    middle: int,
    most: int,
) -> None:
    """Split order[start:end] at `middle` along the best axis."""
    axis = _choose_axis(codes, order, start, end, most)
    for i in range(start, end):
        keys[i] = codes[order[i], axis]
    select(keys, order, start, end, middle)


@njit(**EXACT)
def _encode_rows(tree: BoxTree, columns: Columns, rows: Rows) -> Codes:
    """The codes of the lower and then the upper ends of rows, (n, 2d)."""
    entry, d = new_entry(tree), tree.low.shape[1]
    codes = np.empty((rows.shape[0], 2 * d), tree.low.dtype)
    for i in range(rows.shape[0]):
        read_row(tree, columns, np.int64(rows[i]), entry)
        codes[i, :d], codes[i, d:] = entry.low, entry.high
    return codes


@njit(**EXACT)
def _push_part(stack: NDArray[np.int64], depth: int, parent: int, start: int, end: int, parts: int) -> int:
    """Remember to cut rows start..end-1 into parts, each a child of `parent`."""
    stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = parent, start, end, parts
    return depth + 1


@njit(**EXACT)
def _fill(
    tree: BoxTree, columns: Columns, block: int, rows: Rows, places: NDArray[np.int64], entry: BoxEntry
) -> None:
    for place in places:
        row = np.int64(rows[place])
        read_row(tree, columns, row, entry)
        append(tree, block, entry, columns.score[row], row)


@njit(**EXACT)
def _close(tree: BoxTree, made: Rows, entry: BoxEntry) -> None:
    """Set the inner entries; parents were made before their children."""
    for place in range(made.shape[0] - 1, 0, -1):
        block = np.int64(made[place])
        parent, i = np.int64(tree.parent[block]), np.int64(0)
        while tree.link[parent, i] != block:
            i += 1
        top = summarise(tree, block, entry)
        write(tree, parent, i, entry, top, block)


@njit(**EXACT)
def pack(tree: BoxTree, columns: Columns, rows: Rows, layer: int) -> None:
    """Build the tree of an empty layer; its rows come best first."""
    total, codes, entry = rows.shape[0], _encode_rows(tree, columns, rows), new_entry(tree)
    order, keys, most = np.arange(total), np.empty(total, np.int64), most_of(tree)
    made, size = np.empty(blocks_for(total), np.int32), 0
    highest, full = 0, FILL
    while full < total:
        highest, full = highest + 1, full * FILL
    stack = np.empty((512, 4), np.int64)
    depth = _push_part(stack, 0, -1 - layer, 0, total, 1)
    while depth > 0:
        depth -= 1
        parent, start, end, parts = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if parts > 1:
            middle = start + (end - start) * (parts // 2) // parts
            halve(codes, order, keys, start, end, middle, most)
            depth = _push_part(stack, depth, parent, start, middle, parts // 2)
            depth = _push_part(stack, depth, parent, middle, end, parts - parts // 2)
            continue
        height = highest if parent < 0 else np.int64(tree.height[parent]) - 1
        block = take_block(tree, height, parent)
        made[size] = block
        size += 1
        if parent >= 0:
            append(tree, parent, entry, 0.0, block)
        if height == 0:
            _fill(tree, columns, block, rows, order[start:end], entry)
        else:
            child = FILL**height
            depth = _push_part(stack, depth, block, start, end, (end - start + child - 1) // child)
    _close(tree, made[:size], entry)
    tree.root[layer], tree.members[layer] = made[0], total
    tree.edge[layer], tree.edge_row[layer] = columns.score[rows[0]], rows[0]
    tree.meta[SIZE] += total


@njit(**EXACT)
def lacking(tree: BoxTree) -> bool:
    """Whether the free blocks might not suffice for one insert: a split a level and a new root."""
    return tree.size.shape[0] - tree.meta[BLOCKS] < 16


@njit(**EXACT)
def _nearest(tree: BoxTree, block: int, entry: BoxEntry) -> int:
    """The entry of an inner block whose box grows least."""
    grown = np.zeros(WIDTH, np.int64)
    for j in range(tree.low.shape[1]):
        low, high = np.int64(entry.low[j]), np.int64(entry.high[j])
        for i in range(WIDTH):
            grown[i] += max(tree.low[block, j, i] - low, 0) + max(high - tree.high[block, j, i], 0)
    nearest = 0
    for i in range(1, tree.size[block]):
        if grown[i] < grown[nearest]:
            nearest = i
    return nearest


@njit(**EXACT)
def _extend(tree: BoxTree, block: int, i: int, entry: BoxEntry, top: float) -> None:
    """Let an inner entry contain another one."""
    for j in range(tree.low.shape[1]):
        tree.low[block, j, i] = min(tree.low[block, j, i], entry.low[j])
        tree.high[block, j, i] = max(tree.high[block, j, i], entry.high[j])
    for j in range(tree.weight.shape[1]):
        tree.weight[block, j, i] = max(tree.weight[block, j, i], entry.weight[j])
    tree.top[block, i] = max(tree.top[block, i], top)


@njit(**EXACT)
def _split(tree: BoxTree, block: int, spare: BoxEntry) -> int:
    """Move half of a full block into a new one beside it."""
    d = tree.low.shape[1]
    codes, order = np.empty((WIDTH, 2 * d), tree.low.dtype), np.arange(WIDTH)
    for i in range(WIDTH):
        for j in range(d):
            codes[i, j], codes[i, d + j] = tree.low[block, j, i], tree.high[block, j, i]
    width = np.int64(WIDTH)
    halve(codes, order, np.empty(WIDTH, np.int64), np.int64(0), width, width // 2, width)
    sibling = take_block(tree, np.int64(tree.height[block]), np.int64(tree.parent[block]))
    moving = np.sort(order[WIDTH // 2 :])
    for i in moving:
        read(tree, block, i, spare)
        append(tree, sibling, spare, tree.top[block, i], np.int64(tree.link[block, i]))
    for i in moving[::-1]:
        drop(tree, block, i, spare)
    return sibling


@njit(**EXACT)
def _growth(entry: BoxEntry, box: BoxEntry) -> int:
    """How much a box must grow to contain an entry, all dimensions added."""
    grown = 0
    for j in range(box.low.shape[0]):
        grown += max(np.int64(box.low[j]) - entry.low[j], 0) + max(np.int64(entry.high[j]) - box.high[j], 0)
    return grown


@njit(**EXACT)
def _add(
    tree: BoxTree, block: int | np.int64, entry: BoxEntry, top: float, link: int, spare: BoxEntry
) -> None:
    """Put an entry into a block whose ancestors contain it already; split what is full."""
    while tree.size[block] == WIDTH:
        sibling = _split(tree, block, spare)
        summarise(tree, block, spare)
        growth = _growth(entry, spare)
        summarise(tree, sibling, spare)
        append(tree, block if growth < _growth(entry, spare) else sibling, entry, top, link)
        parent = np.int64(tree.parent[block])
        if parent < 0:
            parent = take_block(tree, np.int64(tree.height[block]) + 1, parent)
            tree.root[-1 - tree.parent[parent]] = parent
            append(tree, parent, spare, 0.0, block)
        write(tree, parent, slot_of(tree, block), spare, summarise(tree, block, spare), block)
        top = summarise(tree, sibling, entry)
        block, link = parent, sibling
    append(tree, block, entry, top, link)


@njit(**EXACT)
def _raise_edge(tree: BoxTree, label: NDArray[np.int64], layer: int, score: float, row: int) -> None:
    """Let the edge of a layer bound one more row."""
    if score > tree.edge[layer]:
        tree.edge[layer], tree.edge_row[layer] = score, row
    elif score == tree.edge[layer]:
        edge_row = tree.edge_row[layer]
        if edge_row >= 0 and label[row] < label[edge_row]:
            tree.edge_row[layer] = row


@njit(**EXACT)
def _insert(tree: BoxTree, columns: Columns, row: int, entry: BoxEntry, spare: BoxEntry) -> int:
    """Insert an absent row; return its layer."""
    score = columns.score[row]
    layer = layer_for(tree, score)
    read_row(tree, columns, row, entry)
    block = np.int64(tree.root[layer])
    if block < 0:
        block = take_block(tree, np.int64(0), -1 - layer)
        tree.root[layer] = block
        tree.edge[layer], tree.edge_row[layer] = score, row
    while tree.height[block] > 0:
        i = _nearest(tree, block, entry)
        _extend(tree, block, i, entry, score)
        block = np.int64(tree.link[block, i])
    _add(tree, block, entry, score, row, spare)
    _raise_edge(tree, columns.label, layer, score, row)
    tree.members[layer] += 1
    tree.meta[SIZE] += 1
    return layer


@njit(**EXACT)
def _remove(tree: BoxTree, row: int, spare: BoxEntry) -> None:
    """Take a present row out."""
    block, i = divmod(np.int64(tree.place[row]), WIDTH)
    layer = layer_of(tree, block)
    drop(tree, block, i, spare)
    tree.place[row] = -1
    while tree.size[block] == 0 and tree.parent[block] >= 0:
        parent, slot = np.int64(tree.parent[block]), slot_of(tree, block)
        give_block(tree, block)
        drop(tree, parent, slot, spare)
        block = parent
    if tree.size[block] == 0:
        give_block(tree, block)
        tree.root[layer] = -1
    else:
        refresh(tree, block, spare)
    if tree.edge_row[layer] == row:
        tree.edge_row[layer] = -1
    tree.members[layer] -= 1
    tree.meta[SIZE] -= 1


@njit(**EXACT)
def overfull(tree: BoxTree, layer: int) -> bool:
    """Whether a layer holds more than twice what it should."""
    return tree.members[layer] > 2 * layer_size(layer)


@njit(**EXACT)
def insert(tree: BoxTree, columns: Columns, rows: Rows, start: int) -> tuple[int, int]:
    """Insert absent rows from place `start` on; stops where blocks are lacking or a layer is overfull.

    Returns the place to go on from and the overfull layer, or -1.
    """
    entry, spare = new_entry(tree), new_entry(tree)
    for place in range(start, rows.shape[0]):
        if lacking(tree):
            return place, -1
        layer = _insert(tree, columns, np.int64(rows[place]), entry, spare)
        if overfull(tree, layer):
            return place + 1, layer
    return rows.shape[0], -1


@njit(**EXACT)
def remove(tree: BoxTree, rows: Rows) -> None:
    """Take present rows out."""
    spare = new_entry(tree)
    for row in rows:
        _remove(tree, np.int64(row), spare)


@njit(**EXACT)
def rescore(tree: BoxTree, columns: Columns, rows: Rows, start: int) -> tuple[int, int]:
    """Bring present rows whose scores (and weights) have changed to where they belong; as `insert`."""
    entry, spare = new_entry(tree), new_entry(tree)
    for place in range(start, rows.shape[0]):
        if lacking(tree):
            return place, -1
        row = np.int64(rows[place])
        block, layer = np.int64(tree.place[row]) // WIDTH, layer_for(tree, columns.score[row])
        if layer_of(tree, block) == layer:
            _rescore_in_place(tree, columns, row, layer, spare)
            continue
        _remove(tree, row, spare)
        _insert(tree, columns, row, entry, spare)
        if overfull(tree, layer):
            return place + 1, layer
    return rows.shape[0], -1


@njit(**EXACT)
def _rescore_in_place(tree: BoxTree, columns: Columns, row: int, layer: int, spare: BoxEntry) -> None:
    block, i = divmod(np.int64(tree.place[row]), WIDTH)
    if tree.weight.shape[1] > 0:
        read_row(tree, columns, row, spare)
        write(tree, block, i, spare, columns.score[row], row)
    tree.top[block, i] = columns.score[row]
    if tree.edge_row[layer] == row:
        tree.edge_row[layer] = -1
    _raise_edge(tree, columns.label, layer, columns.score[row], row)
    refresh(tree, block, spare)


@njit(**EXACT)
def release(tree: BoxTree, layer: int) -> Rows:
    """The rows of a layer, whose blocks are given back."""
    rows, size = np.empty(tree.members[layer], np.int32), 0
    stack, depth = np.empty(WIDTH * 16, np.int32), 0
    if tree.root[layer] >= 0:
        stack[0], depth = tree.root[layer], 1
    while depth > 0:
        depth -= 1
        block = stack[depth]
        for i in range(tree.size[block]):
            if tree.height[block] == 0:
                rows[size] = tree.link[block, i]
                tree.place[rows[size]] = -1
                size += 1
            else:
                stack[depth] = tree.link[block, i]
                depth += 1
        give_block(tree, block)
    tree.meta[SIZE] -= size
    tree.root[layer], tree.members[layer], tree.edge_row[layer] = -1, 0, -1
    tree.floor[layer], tree.edge[layer] = np.inf, -np.inf
    return rows
