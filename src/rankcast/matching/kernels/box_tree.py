"""Scored boxes in d dimensions: layers of falling score, each a tree of blocks of 64 entries.

An entry is a box with the highest score below it: in a leaf a row, in an inner block a child. The ends of 64
entries lie side by side (`low[block, dimension]`, `high[...]`), so that one block is tested against an event
by a few vector instructions a dimension, at every level by the same code.

Ends are kept as codes of 16 bits (in one dimension: 32), which keep their order: `cuts` are quantiles of all
ends, and a cell between two cuts is divided evenly. Equal codes do not decide; then the exact ends, by row,
do. -most and most stand for no bound, an entry that is not in use has a box that nothing meets.

Layer 0 holds the best BASE rows, each further layer a multiple of that of the next best (`layer_size`). A
search takes the layers in turn and ends before the first whose best row (`edge`, `edge_row`) cannot enter the
list any more. A row belongs to the first layer with floor <= score. Where a layer has become too large, it
and the ones above are laid out anew (`rankcast.matching.boxes`).

Invariants: the box of an inner entry contains the boxes below it, its `top` is at least their scores; the
scores of a layer are at most `edge`, and of rows with that score none precedes `edge_row`, unless that is -1;
place[row] is the leaf and the entry of a row, -1 if it is absent.

[Ranked §6] leaves indexes of more than one dimension, score updates and interval events to the future.

Packing the rows of one layer into a tree of full blocks, by a k-d split on all ends.

A range of rows is halved, again and again, until each part fills one block. The axis (the lower or the upper
end of one dimension) is the one whose halves have boxes of the smallest volume together, tried on a sample:
the volume in codes, which are quantiles, is about the share of events that will look into the block.

Cost: O(n log n) for n rows; a split costs O(d^2) more for its sample.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

WIDTH = 64
FILL = 56
BASE = FILL
CELLS = 1024
MOST_LAYERS = 16
USED, FREE, BLOCKS, LAYERS, SIZE, BUILT = range(6)

Floats = NDArray[np.float64]
Codes = NDArray[Any]  # int16, or int32 in one dimension


@njit(**EXACT)
def layer_size(layer: int) -> int:
    """How many rows a layer should hold: twice as many as the one above, behind layer 6 four times."""
    return BASE << (layer if layer <= 6 else 2 * layer - 6)


class BoxTree(NamedTuple):
    """The arrays: per block, per row, per layer, per dimension; `meta` holds the counts."""

    low: Codes
    high: Codes
    weight: NDArray[np.float32]
    top: Floats
    link: NDArray[np.int32]
    size: NDArray[np.int32]
    height: NDArray[np.int32]
    parent: NDArray[np.int32]
    place: NDArray[np.int32]
    root: NDArray[np.int32]
    members: NDArray[np.int64]
    floor: Floats
    edge: Floats
    edge_row: NDArray[np.int32]
    cuts: Floats
    meta: NDArray[np.int64]


class Entry(NamedTuple):
    """The box of one entry as codes, and its weights (of an inner entry: the highest below)."""

    low: Codes
    high: Codes
    weight: NDArray[np.float32]


@njit(**EXACT)
def encode(cuts: Floats, j: int, value: float, most: int) -> int:
    """The code of a value in dimension j. It never falls when the value grows."""
    if value == np.inf:
        return most
    if value == -np.inf:
        return -most
    if not value >= cuts[j, 0]:
        return 1 - most
    if value >= cuts[j, CELLS]:
        return most - 1
    cell, beyond = 0, CELLS
    while beyond - cell > 1:
        middle = (cell + beyond) // 2
        if cuts[j, middle] <= value:
            cell = middle
        else:
            beyond = middle
    steps = (2 * most - 3) // CELLS
    width = cuts[j, cell + 1] - cuts[j, cell]
    step = 0
    if width < np.inf:
        step = int(min((value - cuts[j, cell]) / width * steps, steps - 1.0))
    return 2 - most + cell * steps + step


@njit(**EXACT)
def most_of(tree: BoxTree) -> int:
    """The code of no upper bound."""
    return (1 << (8 * tree.low.itemsize - 1)) - 2


@njit(**EXACT)
def clear(tree: BoxTree) -> None:
    """Make the tree empty: one layer, which takes every score."""
    tree.meta[:] = 0
    tree.meta[FREE], tree.meta[LAYERS] = -1, 1
    tree.place[:] = -1
    tree.root[:], tree.members[:], tree.edge_row[:] = -1, 0, -1
    tree.floor[:], tree.edge[:] = np.inf, -np.inf
    tree.floor[0] = -np.inf


@njit(**EXACT)
def take_block(tree: BoxTree, height: int, parent: int) -> int:
    """A block without entries."""
    block = tree.meta[FREE]
    if block >= 0:
        tree.meta[FREE] = tree.parent[block]
    else:
        block = tree.meta[USED]
        tree.meta[USED] += 1
    tree.meta[BLOCKS] += 1
    tree.size[block], tree.height[block], tree.parent[block] = 0, height, parent
    for i in range(WIDTH):
        _blank(tree, block, i)
    return block


@njit(**EXACT)
def give_block(tree: BoxTree, block: int) -> None:
    """Give a block back."""
    tree.size[block] = 0
    tree.parent[block], tree.meta[FREE] = tree.meta[FREE], block
    tree.meta[BLOCKS] -= 1


@njit(**EXACT)
def _blank(tree: BoxTree, block: int, i: int) -> None:
    """Let an entry meet nothing."""
    out = most_of(tree) + 1
    for j in range(tree.low.shape[1]):
        tree.low[block, j, i], tree.high[block, j, i] = out, -out
    for j in range(tree.weight.shape[1]):
        tree.weight[block, j, i] = 0.0
    tree.top[block, i], tree.link[block, i] = -np.inf, -1


@njit(**EXACT)
def write(tree: BoxTree, block: int, i: int, entry: Entry, top: float, link: int) -> None:
    """Write entry i of a block, and tell the row or the child where it is."""
    for j in range(tree.low.shape[1]):
        tree.low[block, j, i], tree.high[block, j, i] = entry.low[j], entry.high[j]
    for j in range(tree.weight.shape[1]):
        tree.weight[block, j, i] = entry.weight[j]
    tree.top[block, i], tree.link[block, i] = top, link
    if tree.height[block] == 0:
        tree.place[link] = block * WIDTH + i
    else:
        tree.parent[link] = block


@njit(**EXACT)
def append(tree: BoxTree, block: int, entry: Entry, top: float, link: int) -> None:
    """Write a further entry into a block that has room."""
    write(tree, block, np.int64(tree.size[block]), entry, top, link)
    tree.size[block] += 1


@njit(**EXACT)
def read(tree: BoxTree, block: int, i: int, entry: Entry) -> None:
    """Read the box and the weights of an entry."""
    for j in range(tree.low.shape[1]):
        entry.low[j], entry.high[j] = tree.low[block, j, i], tree.high[block, j, i]
    for j in range(tree.weight.shape[1]):
        entry.weight[j] = tree.weight[block, j, i]


@njit(**EXACT)
def drop(tree: BoxTree, block: int, i: int, entry: Entry) -> None:
    """Take entry i out of a block; the last one moves into its place. `entry` is overwritten."""
    last = np.int64(tree.size[block]) - 1
    if i != last:
        read(tree, block, last, entry)
        write(tree, block, i, entry, tree.top[block, last], np.int64(tree.link[block, last]))
    _blank(tree, block, last)
    tree.size[block] = last


@njit(**EXACT)
def summarise(tree: BoxTree, block: int, entry: Entry) -> float:
    """Write the box around a block and its highest weights into `entry`; return its highest score."""
    size = tree.size[block]
    for j in range(tree.low.shape[1]):
        low, high = tree.low[block, j, 0], tree.high[block, j, 0]
        for i in range(1, size):
            low, high = min(low, tree.low[block, j, i]), max(high, tree.high[block, j, i])
        entry.low[j], entry.high[j] = low, high
    for j in range(tree.weight.shape[1]):
        weight = tree.weight[block, j, 0]
        for i in range(1, size):
            weight = max(weight, tree.weight[block, j, i])
        entry.weight[j] = weight
    top = tree.top[block, 0]
    for i in range(1, size):
        top = max(top, tree.top[block, i])
    return top


@njit(**EXACT)
def slot_of(tree: BoxTree, block: int) -> int:
    """The entry of the parent that is this block."""
    parent, i = tree.parent[block], 0
    while tree.link[parent, i] != block:
        i += 1
    return i


@njit(**EXACT)
def refresh(tree: BoxTree, block: int | np.int64, entry: Entry) -> None:
    """Carry the box, the weights and the score of a block up as far as they change anything."""
    while tree.parent[block] >= 0:
        parent, i = np.int64(tree.parent[block]), slot_of(tree, block)
        top = summarise(tree, block, entry)
        same = top == tree.top[parent, i]
        for j in range(tree.low.shape[1]):
            same &= entry.low[j] == tree.low[parent, j, i] and entry.high[j] == tree.high[parent, j, i]
        for j in range(tree.weight.shape[1]):
            same &= entry.weight[j] == tree.weight[parent, j, i]
        if same:
            return
        write(tree, parent, i, entry, top, block)
        block = parent


@njit(**EXACT)
def layer_of(tree: BoxTree, block: int | np.int64) -> int:
    """The layer that a block belongs to: a root's parent is the complement of its layer."""
    while tree.parent[block] >= 0:
        block = np.int64(tree.parent[block])
    return -1 - tree.parent[block]


@njit(**EXACT)
def layer_for(tree: BoxTree, score: float) -> int:
    """The layer that a score belongs to."""
    layer = 0
    while score < tree.floor[layer]:
        layer += 1
    return layer


@njit(**EXACT)
def new_entry(tree: BoxTree) -> Entry:
    """Room for one entry."""
    d = tree.low.shape[1]
    return Entry(
        np.empty(d, tree.low.dtype), np.empty(d, tree.low.dtype), np.zeros(tree.weight.shape[1], np.float32)
    )


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
