"""Objects in the order of x: a B+-tree in flat arrays that knows the best object below every slot.

A node has up to `ORDER` slots. Slot j of a leaf is an object: `key` its x, `low` its y, `child` and `best`
its row. Slot j of an inner node is a child: `key` is at most every x below it and at least every x below
slot j - 1, `low` and `best` are the y and row of the best object below it. Better means the smaller
(y, label): equal y are ordered by label, so the best object is unique. Objects with equal x stand in any
order next to each other.

Invariant: every object present is in exactly one leaf, `leaf_of[row]`; absent ones have leaf_of -1 and
y = +inf. Every node but the root has at least one slot. Free nodes are chained through `parent`.

Cost: insert and remove O(ORDER log n), a value update O(ORDER) for each level whose best object changes.
Full nodes are split on the way down; only empty nodes are given back, so the owner rebuilds a tree whose
nodes have become too empty (`build`).

Two questions are asked: for the nearest better objects (`firstk`), and for the next ones above a value in an
interval (`next_above`; above all values these are the best of a range). Both are one walk of a cursor (node,
slot, level) over the slots in the order of x, left or right, that skips every subtree whose best object does
not matter. An interval is open, (after, before): objects have finite x, so infinite ends mean no bound, and a
closed end is the next float outwards.

Cost: `firstk` O(k ORDER log n). `next_above` O((b + m) ORDER log n) for m objects, where b counts the objects
of the interval at or before the given pair; during a sweep these are the ones in the two lists and the ones
at the object's own x, fewer than 3k. Both are far below O(sqrt n) for a k that is small against n.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.structures.jit import EXACT

ORDER = 32
FILL = 24
SPARE_NODES = 64  # that an owner has ready
ROOT, HEIGHT, USED, FREE, SIZE, NODES = range(6)


class ObjectTree(NamedTuple):
    """The arrays of an object tree; `meta` holds root, height, used nodes, free chain, size, live nodes."""

    key: NDArray[np.float64]
    low: NDArray[np.float64]
    child: NDArray[np.int32]
    best: NDArray[np.int32]
    filled: NDArray[np.int32]
    parent: NDArray[np.int32]
    meta: NDArray[np.int64]
    x: NDArray[np.float64]
    y: NDArray[np.float64]
    label: NDArray[np.int64]
    leaf_of: NDArray[np.int32]


@njit(**EXACT)
def room(tree: ObjectTree) -> int:
    """How many nodes are still free: an insert needs at most height + 1 of them."""
    return tree.filled.shape[0] - tree.meta[NODES]


@njit(**EXACT)
def too_empty(tree: ObjectTree) -> bool:
    """Whether the tree holds many more nodes than its objects need."""
    return tree.filled.shape[0] > 4 * SPARE_NODES + 8 * tree.meta[SIZE] // ORDER


@njit(**EXACT)
def roomy(tree: ObjectTree) -> bool:
    """Whether an insert has the nodes it may need."""
    return room(tree) > tree.meta[HEIGHT] + 1


@njit(**EXACT)
def place_of(child: NDArray[np.int32], node: int, wanted: int) -> int:
    """The slot of `node` that holds the wanted child (in a leaf: row). It must be there."""
    j = 0
    while child[node, j] != wanted:
        j += 1
    return j


@njit(**EXACT)
def clear(tree: ObjectTree) -> None:
    """Make the tree empty: one leaf, the root, without objects."""
    tree.meta[:] = 0
    tree.meta[HEIGHT], tree.meta[USED], tree.meta[FREE], tree.meta[NODES] = 1, 1, -1, 1
    tree.filled[0], tree.parent[0] = 0, -1


@njit(**EXACT)
def _take_node(tree: ObjectTree) -> int:
    node = tree.meta[FREE]
    if node >= 0:
        tree.meta[FREE] = tree.parent[node]
    else:
        node = tree.meta[USED]
        tree.meta[USED] += 1
    tree.meta[NODES] += 1
    tree.filled[node], tree.parent[node] = 0, -1
    return node


@njit(**EXACT)
def _open_slot(tree: ObjectTree, node: int, j: int) -> None:
    key, low, child, best = tree.key, tree.low, tree.child, tree.best
    for i in range(tree.filled[node], j, -1):
        key[node, i], low[node, i] = key[node, i - 1], low[node, i - 1]
        child[node, i], best[node, i] = child[node, i - 1], best[node, i - 1]
    tree.filled[node] += 1


@njit(**EXACT)
def _close_slot(tree: ObjectTree, node: int, j: int) -> None:
    key, low, child, best = tree.key, tree.low, tree.child, tree.best
    tree.filled[node] -= 1
    for i in range(j, tree.filled[node]):
        key[node, i], low[node, i] = key[node, i + 1], low[node, i + 1]
        child[node, i], best[node, i] = child[node, i + 1], best[node, i + 1]


@njit(**EXACT)
def _adopt(tree: ObjectTree, node: int, leaf: bool) -> None:
    """Tell the children (or objects) of a node where they now live."""
    child, home = tree.child, tree.leaf_of if leaf else tree.parent
    for j in range(tree.filled[node]):
        home[child[node, j]] = node


@njit(**EXACT)
def _best_slot(tree: ObjectTree, node: int) -> int:
    """The slot of a node with the best object."""
    low, best, label, found = tree.low, tree.best, tree.label, 0
    for j in range(1, tree.filled[node]):
        tie = low[node, j] == low[node, found] and label[best[node, j]] < label[best[node, found]]
        if tie or low[node, j] < low[node, found]:
            found = j
    return found


@njit(**EXACT)
def _summarise(tree: ObjectTree, node: int, parent: int, j: int) -> bool:
    """Write the best object of `node` into slot j of its parent; return whether that changed anything."""
    low, best = tree.low, tree.best
    found = _best_slot(tree, node)
    changed = low[parent, j] != low[node, found] or best[parent, j] != best[node, found]
    low[parent, j], best[parent, j] = low[node, found], best[node, found]
    return changed


@njit(**EXACT)
def _refresh(tree: ObjectTree, node: int | np.int64) -> None:
    """Carry a change of `node` up as far as it changes the best object of a subtree."""
    parents, child = tree.parent, tree.child
    parent = np.int64(parents[node])
    while parent >= 0 and _summarise(tree, node, parent, place_of(child, parent, node)):
        node, parent = parent, np.int64(parents[parent])


@njit(**EXACT)
def _split(tree: ObjectTree, parent: int, j: int, leaf: bool) -> None:
    """Split the full child in slot j of a parent that is not full; the upper half becomes slot j + 1."""
    node = np.int64(tree.child[parent, j])
    other = _take_node(tree)
    half = ORDER // 2
    tree.key[other, :half], tree.low[other, :half] = tree.key[node, half:], tree.low[node, half:]
    tree.child[other, :half], tree.best[other, :half] = tree.child[node, half:], tree.best[node, half:]
    tree.filled[node], tree.filled[other], tree.parent[other] = half, ORDER - half, parent
    _adopt(tree, other, leaf)
    _open_slot(tree, parent, j + 1)
    tree.key[parent, j + 1], tree.child[parent, j + 1] = tree.key[other, 0], other
    _summarise(tree, node, parent, j)
    _summarise(tree, other, parent, j + 1)


@njit(**EXACT)
def _grow(tree: ObjectTree, leaf: bool) -> None:
    """Put a new root over a full one and split the old."""
    old, new = tree.meta[ROOT], _take_node(tree)
    tree.key[new, 0], tree.child[new, 0], tree.filled[new] = tree.key[old, 0], old, 1
    tree.parent[old] = new
    tree.meta[ROOT] = new
    tree.meta[HEIGHT] += 1
    _split(tree, new, np.int64(0), leaf)


@njit(**EXACT)
def _leaf_for(tree: ObjectTree, x: float) -> int:
    """The leaf that takes an object at x, with a free slot; full nodes on the way are split."""
    key, child, filled = tree.key, tree.child, tree.filled
    if filled[tree.meta[ROOT]] == ORDER:
        _grow(tree, tree.meta[HEIGHT] == 1)
    node = tree.meta[ROOT]
    for level in range(tree.meta[HEIGHT] - 1, 0, -1):
        j = 0
        while j + 1 < filled[node] and key[node, j + 1] <= x:
            j += 1
        if filled[child[node, j]] == ORDER:
            _split(tree, node, j, level == 1)
            if key[node, j + 1] <= x:
                j += 1
        key[node, j] = min(key[node, j], x)
        node = child[node, j]
    return node


@njit(**EXACT)
def insert(tree: ObjectTree, row: int, x: float, y: float) -> None:
    """Add an absent object. Requires `room(tree) > height + 1`."""
    key, node, j = tree.key, _leaf_for(tree, x), 0
    while j < tree.filled[node] and key[node, j] <= x:
        j += 1
    _open_slot(tree, node, j)
    key[node, j], tree.low[node, j], tree.child[node, j], tree.best[node, j] = x, y, row, row
    tree.x[row], tree.y[row], tree.leaf_of[row] = x, y, node
    tree.meta[SIZE] += 1
    _refresh(tree, node)


@njit(**EXACT)
def remove(tree: ObjectTree, row: int) -> None:
    """Take a present object out; its x stays readable, its y becomes +inf."""
    node = np.int64(tree.leaf_of[row])
    _close_slot(tree, node, place_of(tree.child, node, row))
    tree.y[row], tree.leaf_of[row] = np.inf, -1
    tree.meta[SIZE] -= 1
    while tree.filled[node] == 0 and tree.parent[node] >= 0:
        parent = np.int64(tree.parent[node])
        _close_slot(tree, parent, place_of(tree.child, parent, node))
        tree.parent[node], tree.meta[FREE] = tree.meta[FREE], node
        tree.meta[NODES] -= 1
        node = parent
    _refresh(tree, node)
    root = tree.meta[ROOT]
    while tree.meta[HEIGHT] > 1 and tree.filled[root] <= 1:
        _drop_root(tree, root)
        root = tree.meta[ROOT]


@njit(**EXACT)
def _drop_root(tree: ObjectTree, root: int) -> None:
    """Replace an inner root by its only child, or by an empty leaf."""
    if tree.filled[root] == 0:
        clear(tree)
        return
    tree.meta[ROOT] = tree.child[root, 0]
    tree.parent[tree.meta[ROOT]] = -1
    tree.meta[HEIGHT] -= 1
    tree.parent[root], tree.meta[FREE] = tree.meta[FREE], root
    tree.meta[NODES] -= 1


@njit(**EXACT)
def set_value(tree: ObjectTree, row: int, y: float) -> None:
    """Change the y of a present object."""
    node = np.int64(tree.leaf_of[row])
    tree.low[node, place_of(tree.child, node, row)] = y
    tree.y[row] = y
    _refresh(tree, node)


@njit(**EXACT)
def rows_in_order(tree: ObjectTree) -> NDArray[np.int32]:
    """The rows of all objects by ascending x. O(n)."""
    rows = np.empty(tree.meta[SIZE], np.int32)
    path = np.zeros(tree.meta[HEIGHT], np.int64)
    node, level, size = tree.meta[ROOT], tree.meta[HEIGHT] - 1, 0
    while True:
        if level == 0:
            for j in range(tree.filled[node]):
                rows[size] = tree.child[node, j]
                size += 1
        elif path[level] < tree.filled[node]:
            node = tree.child[node, path[level]]
            level -= 1
            path[level] = 0
            continue
        if level + 1 == tree.meta[HEIGHT]:
            return rows
        node = tree.parent[node]
        level += 1
        path[level] += 1


@njit(**EXACT)
def build(tree: ObjectTree, rows: NDArray[np.int32]) -> None:
    """Fill an empty tree with rows sorted by x, whose x and y are already written; nodes filled to FILL."""
    clear(tree)
    if rows.shape[0] == 0:
        return
    tree.meta[SIZE], tree.meta[USED], tree.meta[NODES] = rows.shape[0], 0, 0
    start, end = np.int64(0), np.int64(0)
    for i in range(rows.shape[0]):
        if i % FILL == 0:
            node = _take_node(tree)
            end = node + 1
        row, j = rows[i], tree.filled[node]
        tree.key[node, j], tree.low[node, j] = tree.x[row], tree.y[row]
        tree.child[node, j], tree.best[node, j], tree.leaf_of[row] = row, row, node
        tree.filled[node] += 1
    while end - start > 1:
        _build_level(tree, start, end)
        start, end = end, tree.meta[USED]
        tree.meta[HEIGHT] += 1
    tree.meta[ROOT] = start


@njit(**EXACT)
def _build_level(tree: ObjectTree, start: int, end: int) -> None:
    """Put parents over the nodes start..end-1, which stand in the order of x."""
    for lower in range(start, end):
        if (lower - start) % FILL == 0:
            node = _take_node(tree)
        j = np.int64(tree.filled[node])
        tree.key[node, j], tree.child[node, j], tree.parent[lower] = tree.key[lower, 0], lower, node
        tree.filled[node] += 1
        _summarise(tree, lower, node, j)


@njit(**EXACT)
def better(y: float, than_y: float, labels: NDArray[np.int64], row: int, than_label: int) -> bool:
    """Whether the object `row` with value y comes before the pair (than_y, than_label)."""
    return y < than_y or (y == than_y and labels[row] < than_label)


@njit(**EXACT)
def locate(tree: ObjectTree, x: float, beyond: bool) -> tuple[np.int64, int]:
    """Leaf and slot of the first object with x_object >= x (`beyond`: > x)."""
    key, child, filled = tree.key, tree.child, tree.filled
    node = np.int64(tree.meta[ROOT])
    for _ in range(tree.meta[HEIGHT] - 1):
        j, end = 0, filled[node]
        while j + 1 < end and (key[node, j + 1] < x or (beyond and key[node, j + 1] == x)):
            j += 1
        node = np.int64(child[node, j])
    j, end = 0, filled[node]
    while j < end and (key[node, j] < x or (beyond and key[node, j] == x)):
        j += 1
    return node, j


@njit(**EXACT)
def firstk(
    tree: ObjectTree,
    leaf: int | np.int64,
    slot: int | np.int64,
    step: int,
    x: float,
    y: float,
    label: int,
    found: NDArray[np.float64],
) -> tuple[int, int]:
    """Walk from a slot by step -1 or +1 and note the x of the nearest objects better than (y, label).

    Objects at x itself are only counted, since every range that holds x holds them too. Returns how many x
    were found (at most len(found)) and how many better objects stand at x on this side (likewise).
    """
    low, best, child, labels = tree.low, tree.best, tree.child, tree.label
    key, filled, parents, limit = tree.key, tree.filled, tree.parent, found.shape[0]
    node, j, level, size, same = leaf, slot, 0, 0, 0
    while True:
        end = filled[node]
        while 0 <= j < end:
            if low[node, j] <= y and better(low[node, j], y, labels, best[node, j], label):
                break
            j += step
        if j < 0 or j >= end:
            parent = np.int64(parents[node])
            if parent < 0:
                return size, same
            j = place_of(child, parent, node) + step
            node = parent
            level += 1
        elif level > 0:
            node = np.int64(child[node, j])
            level -= 1
            j = np.int64(0) if step > 0 else np.int64(filled[node]) - 1
        else:
            if key[node, j] == x:
                same += 1
            else:
                found[size] = key[node, j]
                size += 1
            if limit in (size, same):
                return size, same
            j += step


@njit(**EXACT)
def rank_in(
    values: NDArray[np.float64], labels: NDArray[np.int64], board: NDArray[np.int32], size: int, row: int
) -> None:
    """Put a row that belongs there into a board with `size` rows, dropping the last of a full one."""
    at = min(size, board.shape[0] - 1)
    while at > 0 and better(values[row], values[board[at - 1]], labels, row, labels[board[at - 1]]):
        board[at] = board[at - 1]
        at -= 1
    board[at] = row


@njit(**EXACT)
def next_above(
    tree: ObjectTree,
    after: float,
    before: float,
    y: float,
    label: int,
    limit_y: float,
    limit_label: int,
    found: NDArray[np.int32],
) -> int:
    """Find the best objects in (after, before) that are worse than (y, label) and better than the limit.

    Writes the rows of the first len(found) of them, best first, and returns how many there are.
    """
    low, best, child, labels = tree.low, tree.best, tree.child, tree.label
    key, filled, parents, values = tree.key, tree.filled, tree.parent, tree.y
    node, j = locate(tree, after, True)
    size, level, most = 0, 0, found.shape[0]
    while True:
        end = filled[node]
        while j < end:
            if low[node, j] <= limit_y and better(low[node, j], limit_y, labels, best[node, j], limit_label):
                break
            j += 1
        if j >= end:
            parent = np.int64(parents[node])
            if parent < 0:
                return size
            j = place_of(child, parent, node) + 1
            node = parent
            level += 1
            continue
        if key[node, j] >= before:
            return size
        if level > 0:
            node = np.int64(child[node, j])
            level -= 1
            j = 0
            continue
        row, value = child[node, j], low[node, j]
        if value > y or (value == y and labels[row] > label):
            rank_in(values, labels, found, size, row)
            size = min(size + 1, most)
            if size == most:
                limit_y, limit_label = values[found[size - 1]], labels[found[size - 1]]
        j += 1


@njit(**EXACT)
def range_best(tree: ObjectTree, lo: float, hi: float, board: NDArray[np.int32]) -> None:
    """Write the rows of the best len(board) objects with lo <= x <= hi, best first, then -1."""
    after, before = np.nextafter(lo, -np.inf), np.nextafter(hi, np.inf)
    size = next_above(tree, after, before, -np.inf, 0, np.inf, 0, board)
    board[size:] = -1


@njit(**EXACT)
def search_lists(
    tree: ObjectTree, lo: NDArray[np.float64], hi: NDArray[np.float64], boards: NDArray[np.int32]
) -> None:
    """Write the best objects of a few ranges, by a search each; `blocks` is better for many."""
    for i in range(lo.shape[0]):
        range_best(tree, lo[i], hi[i], boards[i])
