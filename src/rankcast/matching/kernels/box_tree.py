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
and the ones above are packed anew (`rankcast.matching.boxes`). `box_edit` packs and edits, `box_search`
searches.

Invariants: the box of an inner entry contains the boxes below it, its `top` is at least their scores; the
scores of a layer are at most `edge`, and of rows with that score none precedes `edge_row`, unless that is -1;
place[row] is the leaf and the entry of a row, -1 if it is absent. `fits` checks them on a restored tree, as
far as memory safety and answers of present rows depend on them; nothing read is trusted, every walk is
counted. Cost: O(n d).

[Ranked §6] leaves indexes of more than one dimension, score updates and interval events to the future.
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
TALLEST = 8  # levels of a tree with many entries a block
USED, FREE, BLOCKS, LAYERS, SIZE, BUILT = range(6)

Floats = NDArray[np.float64]
Bools = NDArray[np.bool_]
Rows = NDArray[np.int32]
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


class BoxEntry(NamedTuple):
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


class EventCodes(NamedTuple):
    """Events as exact ends (n, d) and as codes."""

    below: Floats
    above: Floats
    low: Codes
    high: Codes


@njit(**EXACT)
def encode_events(cuts: Floats, below: Floats, above: Floats, codes: Codes) -> EventCodes:
    """Events with their codes, of the same kind as `codes`."""
    low, high = np.empty(below.shape, codes.dtype), np.empty(below.shape, codes.dtype)
    most = (1 << (8 * codes.itemsize - 1)) - 2
    for e in range(below.shape[0]):
        for j in range(below.shape[1]):
            low[e, j] = encode(cuts, j, below[e, j], most)
            high[e, j] = encode(cuts, j, above[e, j], most)
    return EventCodes(below, above, low, high)


@njit(**EXACT)
def by_neighbourhood(events: EventCodes) -> NDArray[np.int64]:
    """An order of events in which near ones follow each other: by their codes' leading bits, interleaved."""
    d = min(events.low.shape[1], 8)
    bits, shift = 16 // d if d > 1 else 24, 8 * events.low.itemsize - 1
    key = np.zeros(events.low.shape[0], np.int64)
    for e in range(key.shape[0]):
        for bit in range(1, bits + 1):
            for j in range(d):
                code = np.int64(events.low[e, j]) + (1 << shift)  # from 0 on, so that bits are in order
                key[e] = 2 * key[e] + ((code >> (shift + 1 - bit)) & 1)
    return np.argsort(key, kind="mergesort")


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
def write(tree: BoxTree, block: int, i: int, entry: BoxEntry, top: float, link: int) -> None:
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
def append(tree: BoxTree, block: int, entry: BoxEntry, top: float, link: int) -> None:
    """Write a further entry into a block that has room."""
    write(tree, block, np.int64(tree.size[block]), entry, top, link)
    tree.size[block] += 1


@njit(**EXACT)
def read(tree: BoxTree, block: int, i: int, entry: BoxEntry) -> None:
    """Read the box and the weights of an entry."""
    for j in range(tree.low.shape[1]):
        entry.low[j], entry.high[j] = tree.low[block, j, i], tree.high[block, j, i]
    for j in range(tree.weight.shape[1]):
        entry.weight[j] = tree.weight[block, j, i]


@njit(**EXACT)
def drop(tree: BoxTree, block: int, i: int, entry: BoxEntry) -> None:
    """Take entry i out of a block; the last one moves into its place. `entry` is overwritten."""
    last = np.int64(tree.size[block]) - 1
    if i != last:
        read(tree, block, last, entry)
        write(tree, block, i, entry, tree.top[block, last], np.int64(tree.link[block, last]))
    _blank(tree, block, last)
    tree.size[block] = last


@njit(**EXACT)
def summarise(tree: BoxTree, block: int, entry: BoxEntry) -> float:
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
def refresh(tree: BoxTree, block: int | np.int64, entry: BoxEntry) -> None:
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
def new_entry(tree: BoxTree) -> BoxEntry:
    """Room for one entry."""
    d = tree.low.shape[1]
    return BoxEntry(
        np.empty(d, tree.low.dtype), np.empty(d, tree.low.dtype), np.zeros(tree.weight.shape[1], np.float32)
    )


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
def read_row(tree: BoxTree, columns: Columns, row: int, entry: BoxEntry) -> None:
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
def free_chain_fits(seen: Bools, known: int, first: int, after: Rows) -> bool:
    """Whether all that was not seen is in the chain of what is free."""
    free = first
    while free != -1:
        if free < 0 or free >= seen.size or seen[free]:
            return False
        seen[free], known = True, known + 1
        free = int(after[free])
    return known == seen.size


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
def fits(tree: BoxTree, columns: Columns, wanted: Bools) -> bool:
    """Whether a tree of boxes hangs together and holds the `wanted` rows with their scores.

    Codes and weights only bound: what is wrong there hides a row from an event, and no more. To make them
    anew for every row would take longer than everything else.
    """
    meta, used, layers = tree.meta, tree.meta[USED], tree.meta[LAYERS]
    if not (0 <= meta[BLOCKS] <= used <= tree.size.size and 1 <= layers <= tree.root.size):
        return False
    for layer in range(tree.root.size):
        if not -1 <= tree.edge_row[layer] < columns.label.size or (
            layer >= layers and tree.root[layer] != -1
        ):
            return False
        if np.isnan(tree.floor[layer]) or np.isnan(tree.edge[layer]):
            return False
    if tree.floor[layers - 1] != -np.inf:
        return False
    seen, todo, known, rows = np.zeros(used, np.bool_), wanted.copy(), 0, 0
    stack = np.empty(TALLEST * WIDTH, np.int64)
    for layer in range(layers):
        root, members = np.int64(tree.root[layer]), 0
        if root < -1 or root >= used or (root >= 0 and tree.parent[root] != -1 - layer):
            return False
        stack[0], depth = root, 1 if root >= 0 else 0
        if root >= 0 and not 0 <= tree.height[root] < TALLEST:
            return False
        while depth > 0:
            depth -= 1
            block = stack[depth]
            size, height = np.int64(tree.size[block]), tree.height[block]
            if seen[block] or not 1 <= size <= WIDTH:
                return False
            seen[block], known = True, known + 1
            if not _blank_behind(tree, block, size):
                return False
            for i in range(size):
                link = np.int64(tree.link[block, i])
                if height > 0:
                    if link < 0 or link >= used or tree.parent[link] != block:
                        return False
                    if tree.height[link] != height - 1:
                        return False
                    stack[depth], depth = link, depth + 1
                    continue
                if link < 0 or link >= todo.size or not todo[link] or link >= tree.place.size:
                    return False
                todo[link], members = False, members + 1
                if tree.place[link] != block * WIDTH + i or tree.top[block, i] != columns.score[link]:
                    return False
        if members != tree.members[layer]:
            return False
        rows += members
    if known != meta[BLOCKS] or rows != meta[SIZE] or todo.any():
        return False
    for layer in range(layers, tree.root.size):
        if tree.members[layer] != 0:
            return False
    for row in range(tree.place.size):
        rows -= tree.place[row] >= 0
    if rows != 0:
        return False
    return free_chain_fits(seen, known, meta[FREE], tree.parent)
