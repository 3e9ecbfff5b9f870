"""Packing the rows of one layer into a tree of full blocks, by a k-d split on all ends.

A range of rows is halved, again and again, until each part fills one block. The axis (the lower or the upper
end of one dimension) is the one whose halves have boxes of the smallest volume together, tried on a sample:
the volume in codes, which are quantiles, is about the share of events that will look into the block.

Cost: O(n log n) for n rows; a split costs O(d^2) more for its sample.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.matching.kernels.box_tree import (
    FILL,
    SIZE,
    BoxTree,
    Codes,
    Entry,
    Floats,
    append,
    encode,
    most_of,
    new_entry,
    summarise,
    take_block,
    write,
)
from rankcast.structures.jit import EXACT

SAMPLE = 64
Rows = NDArray[np.int32]


class Columns(NamedTuple):
    """What is known of subscriptions by row: exact ends (rows, d), weights (rows, d or 0), labels.

    `score` is what ranks a row at best: its score, or in relaxed matching all its weights together.
    """

    lo: Floats
    hi: Floats
    score: Floats
    weight: Floats
    label: NDArray[np.int64]


@njit(**EXACT)
def blocks_for(rows: int) -> int:
    """How many blocks `pack` takes at most."""
    return rows // FILL + 4 * rows // (FILL * FILL) + 8


@njit(**EXACT)
def read_row(tree: BoxTree, columns: Columns, row: int, entry: Entry) -> None:
    """The entry of a row: codes of its ends, weights rounded up."""
    most = most_of(tree)
    for j in range(tree.low.shape[1]):
        entry.low[j] = encode(tree.cuts, j, columns.lo[row, j], most)
        entry.high[j] = encode(tree.cuts, j, columns.hi[row, j], most)
    for j in range(tree.weight.shape[1]):
        weight = np.float32(columns.weight[row, j])
        if weight < columns.weight[row, j]:
            weight = np.nextafter(weight, np.float32(np.inf))
        entry.weight[j] = weight


@njit(**EXACT)
def encode_rows(tree: BoxTree, columns: Columns, rows: Rows) -> Codes:
    """The codes of the lower and then the upper ends of rows, (n, 2d)."""
    entry, d = new_entry(tree), tree.low.shape[1]
    codes = np.empty((rows.shape[0], 2 * d), tree.low.dtype)
    for i in range(rows.shape[0]):
        read_row(tree, columns, np.int64(rows[i]), entry)
        codes[i, :d], codes[i, d:] = entry.low, entry.high
    return codes


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
def choose_axis(codes: Codes, order: NDArray[np.int64], start: int, end: int, most: int) -> int:
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
def select(keys: NDArray[np.int64], order: NDArray[np.int64], start: int, end: int, middle: int) -> None:
    """Reorder start..end-1 by keys so that none before `middle` is above one behind it. O(n) expected."""
    low, high = start, end - 1
    while low < high:
        pivot = max(min(keys[low], keys[high]), min(max(keys[low], keys[high]), keys[(low + high) // 2]))
        i, j = low, high
        while i <= j:
            while keys[i] < pivot:
                i += 1
            while keys[j] > pivot:
                j -= 1
            if i <= j:
                keys[i], keys[j] = keys[j], keys[i]
                order[i], order[j] = order[j], order[i]
                i += 1
                j -= 1
        if middle <= j:
            high = j
        elif middle >= i:
            low = i
        else:
            return


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
    axis = choose_axis(codes, order, start, end, most)
    for i in range(start, end):
        keys[i] = codes[order[i], axis]
    select(keys, order, start, end, middle)


@njit(**EXACT)
def _push(stack: NDArray[np.int64], depth: int, parent: int, start: int, end: int, parts: int) -> int:
    """Remember to cut rows start..end-1 into parts, each a child of `parent`."""
    stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3] = parent, start, end, parts
    return depth + 1


@njit(**EXACT)
def pack(tree: BoxTree, columns: Columns, rows: Rows, layer: int) -> None:
    """Build the tree of an empty layer; its rows come best first."""
    total, codes, entry = rows.shape[0], encode_rows(tree, columns, rows), new_entry(tree)
    order, keys, most = np.arange(total), np.empty(total, np.int64), most_of(tree)
    made, size = np.empty(blocks_for(total), np.int32), 0
    highest, full = 0, FILL
    while full < total:
        highest, full = highest + 1, full * FILL
    stack = np.empty((512, 4), np.int64)
    depth = _push(stack, 0, -1 - layer, 0, total, 1)
    while depth > 0:
        depth -= 1
        parent, start, end, parts = stack[depth, 0], stack[depth, 1], stack[depth, 2], stack[depth, 3]
        if parts > 1:
            middle = start + (end - start) * (parts // 2) // parts
            halve(codes, order, keys, start, end, middle, most)
            depth = _push(stack, depth, parent, start, middle, parts // 2)
            depth = _push(stack, depth, parent, middle, end, parts - parts // 2)
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
            depth = _push(stack, depth, block, start, end, (end - start + child - 1) // child)
    _close(tree, made[:size], entry)
    tree.root[layer], tree.members[layer] = made[0], total
    tree.edge[layer], tree.edge_row[layer] = columns.score[rows[0]], rows[0]
    tree.meta[SIZE] += total


@njit(**EXACT)
def _fill(
    tree: BoxTree, columns: Columns, block: int, rows: Rows, places: NDArray[np.int64], entry: Entry
) -> None:
    for place in places:
        row = np.int64(rows[place])
        read_row(tree, columns, row, entry)
        append(tree, block, entry, columns.score[row], row)


@njit(**EXACT)
def _close(tree: BoxTree, made: Rows, entry: Entry) -> None:
    """Set the inner entries; parents were made before their children."""
    for place in range(made.shape[0] - 1, 0, -1):
        block = np.int64(made[place])
        parent, i = np.int64(tree.parent[block]), np.int64(0)
        while tree.link[parent, i] != block:
            i += 1
        top = summarise(tree, block, entry)
        write(tree, parent, i, entry, top, block)
