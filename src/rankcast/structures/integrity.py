"""Checks of what comes from a snapshot, before anything relies on it.

Checksums tell that a snapshot is as it was written, not that an engine wrote it. So every part of a state
checks what its kernels take for granted: numbers of rows are in range, links lead somewhere and to an end,
counts agree. Afterwards no call can leave its arrays or run without end, whatever they hold; that the
contents are true is not checked.

What does not fit raises a `SnapshotError` that names the array; the engine adds the part. A host that maps
arrays it has written itself leaves these passes out (`trusted`). The kernels at the end check structures that
several families share: they compare an index with the length before they use it, count every walk so that it
ends, and return FITS or the number of what does not fit.
Cost: a pass or two over the bytes, less than their checksums take.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple, NoReturn

import numpy as np
from numba import njit
from numpy.typing import DTypeLike, NDArray

from rankcast.errors import SnapshotError
from rankcast.range_topk.kernels.object_tree import FREE as FREE_NODES
from rankcast.range_topk.kernels.object_tree import HEIGHT, NODES, ORDER, ROOT, SIZE, USED, ObjectTree
from rankcast.range_topk.kernels.object_tree import _best_slot as best_slot
from rankcast.structures.hashing import FREE, home
from rankcast.structures.jit import EXACT

MOST = 1 << 62  # no count is as large
Form = tuple[DTypeLike, tuple[int | None, ...]]

_TRUSTED: ContextVar[bool] = ContextVar("trusted", default=False)


@contextmanager
def trusted() -> Iterator[None]:
    """Take contents as they are: the arrays were written by this host and nobody else could change them."""
    before = _TRUSTED.set(True)
    try:
        yield
    finally:
        _TRUSTED.reset(before)


def wanted() -> bool:
    """Whether contents are to be checked."""
    return not _TRUSTED.get()


def unfit(name: str, what: str) -> NoReturn:
    """Refuse an array or a value of the header."""
    raise SnapshotError(f'"{name}" {what}')


def need(fits: Any, name: str, what: str) -> None:
    """Refuse an array unless something holds."""
    if not fits:
        unfit(name, what)


def whole(header: Mapping[str, Any], name: str, low: int = 0, high: int = MOST) -> int:
    """A whole number of the header, from `low` to `high`."""
    value = header.get(name) if isinstance(header, Mapping) else None
    if type(value) is not int or not low <= value <= high:
        unfit(name, f"is {value!r:.40}, expected a whole number from {low} to {high}")
    return value


def forms(arrays: Mapping[str, NDArray[Any]], wanted: Mapping[str, Form]) -> None:
    """Refuse arrays with other names, types or shapes; a length of None may be any."""
    if arrays.keys() != wanted.keys():
        odd = sorted(arrays.keys() ^ wanted.keys())[0]
        unfit(odd, "is missing" if odd in wanted else "is not known")
    for name, (dtype, shape) in wanted.items():
        array = arrays[name]
        fits = array.dtype == dtype and array.ndim == len(shape) and array.flags.c_contiguous
        if not fits or any(size not in (None, has) for size, has in zip(shape, array.shape, strict=True)):
            told = "x".join("n" if size is None else str(size) for size in shape)
            unfit(name, f"is {array.dtype} {array.shape}, expected {np.dtype(dtype)} ({told})")


def like(array: NDArray[Any], *, length: int | None = None) -> Form:
    """The form of an array that is as another one, but for its length."""
    return array.dtype, (length, *array.shape[1:])


def within(array: NDArray[Any], low: int, high: int, name: str) -> None:
    """Refuse an array with a number below `low` or not below `high`."""
    if array.size and not (low <= int(array.min()) and int(array.max()) < high):
        unfit(name, f"holds {array.min()} to {array.max()}, expected {low} to {high - 1}")


def finite(array: NDArray[np.float64], name: str) -> None:
    """Refuse NaN and infinities."""
    need(np.isfinite(array).all(), name, "holds NaN or an infinity")


def no_nan(array: NDArray[np.float64], name: str) -> None:
    """Refuse NaN."""
    need(not np.isnan(array).any(), name, "holds NaN")


def distinct(rows: NDArray[Any], size: int, name: str) -> None:
    """Refuse rows that are not below `size`, or that come twice."""
    within(rows, 0, size, name)
    need(not rows.size or int(np.bincount(rows, minlength=1).max()) < 2, name, "names a row twice")


Rows = NDArray[np.int32]
Ints = NDArray[np.int64]
Floats = NDArray[np.float64]

FITS = 0
TALLEST = 16  # levels of a tree of objects
TABLE, TWICE, LOST, COUNT = 1, 2, 3, 4  # of a hash table
NODE, LEAF, ROW, CHAIN, DEEP, SIZES, BOX = 1, 2, 3, 4, 5, 6, 7  # of a tree


@njit(**EXACT)
def hash_table(table: Rows, codes: Ints, sequence: Ints, used: int, count: int, seed: int) -> int:
    """Whether each live row is in the table once, where probing finds it, and nobody else is.

    A key is found if no cell is free from its home to its own: it lies within the run of taken cells that it
    stands in, at or after its home. Runs go on beyond the end, so the walk begins behind a free cell.
    """
    cells, first = table.size, -1
    for cell in range(cells):
        if table[cell] == FREE:
            first = cell
            break
    if first < 0:
        return TABLE
    seen, found, start = np.zeros(used, np.bool_), 0, 0  # where the run began, in steps from `first`
    for step in range(1, cells + 1):
        cell = first + step
        cell -= cells if cell >= cells else 0
        row = np.int64(table[cell])
        if row == FREE:
            start = step
            continue
        if row < 0 or row >= used or sequence[row] < 0:
            return TABLE
        if seen[row]:
            return TWICE
        seen[row], found = True, found + 1
        at = home(codes[row], cells, seed) - first
        at += cells if at <= 0 else 0
        if at <= start or at > step:
            return LOST
    return FITS if found == count else COUNT


@njit(**EXACT)
def bucket_tree(
    child: Rows,
    parent: Rows,
    size: Rows,
    bucket: Rows,
    leaf_of: Rows,
    row: Rows,
    slot_of: Rows,
    boxes: tuple[Floats, Floats, Floats],
    tops: tuple[Floats, Floats],
    used: tuple[int, int, int],
    free: tuple[int, int],
    capacity: int,
    deepest: int,
) -> int:
    """Whether a tree with buckets of slots hangs together: `used` nodes, buckets, live buckets; free chains.

    Every node below `used` is in the tree or in the chain of free ones, once; so is every bucket. Leaves and
    buckets, slots and rows point at each other; sizes add up. `boxes` are the lower and upper ends by node
    and the points by slot, `tops` the largest weights by node and the weights by slot, or both are empty:
    those of every node are the tightest.
    """
    low, high, point = boxes
    top, weight = tops
    nodes, buckets = used[0], used[1]
    seen, taken = np.zeros(nodes, np.bool_), np.zeros(buckets, np.bool_)
    stack, level, depth = np.empty(deepest + 2, np.int64), np.empty(deepest + 2, np.int64), 1
    stack[0], level[0], leaves, known = 0, 0, 0, 0
    if parent[0] != -1:
        return NODE
    while depth > 0:
        depth -= 1
        node, below = stack[depth], level[depth]
        if seen[node]:
            return NODE
        seen[node], known = True, known + 1
        if bucket[node] < 0:
            left, right = np.int64(child[node, 0]), np.int64(child[node, 1])
            if bucket[node] != -1 or not (0 < left < nodes and 0 < right < nodes) or left == right:
                return NODE
            if parent[left] != node or parent[right] != node:
                return NODE
            if np.int64(size[left]) + size[right] != size[node] or size[left] < 1 or size[right] < 1:
                return SIZES
            if below + 1 >= deepest:
                return DEEP
            for axis in range(low.shape[1]):
                least, most = min(low[left, axis], low[right, axis]), max(high[left, axis], high[right, axis])
                if low[node, axis] != least or high[node, axis] != most:
                    return BOX
            if top.size > 0 and top[node] != max(top[left], top[right]):
                return BOX
            stack[depth], stack[depth + 1] = left, right
            level[depth], level[depth + 1] = below + 1, below + 1
            depth += 2
            continue
        which = np.int64(bucket[node])
        if which >= buckets or taken[which] or leaf_of[which] != node or child[node, 0] != -1:
            return LEAF
        if size[node] < 0 or size[node] > capacity:
            return SIZES
        taken[which], leaves = True, leaves + 1
        for slot in range(which * capacity, which * capacity + size[node]):
            who = np.int64(row[slot])
            if who < 0 or who >= slot_of.size or slot_of[who] != slot:
                return ROW
        start, end = which * capacity, which * capacity + np.int64(size[node])
        for axis in range(low.shape[1]):
            least, most = np.inf, -np.inf
            for slot in range(start, end):
                if not -np.inf <= point[slot, axis] <= np.inf:
                    return BOX
                least, most = min(least, point[slot, axis]), max(most, point[slot, axis])
            if low[node, axis] != least or high[node, axis] != most:
                return BOX
        if top.size > 0:
            best = -np.inf
            for slot in range(start, end):
                if not -np.inf <= weight[slot] <= np.inf:
                    return BOX
                best = max(best, weight[slot])
            if top[node] != best:
                return BOX
    if leaves != used[2]:
        return LEAF
    spare = free[0]
    while spare != -1:
        if spare < 0 or spare >= nodes or seen[spare] or bucket[spare] != -1:
            return CHAIN
        seen[spare], known = True, known + 1
        spare = int(parent[spare])
    spare = free[1]
    while spare != -1:
        if spare < 0 or spare >= buckets or taken[spare]:
            return CHAIN
        taken[spare], leaves = True, leaves + 1
        spare = int(leaf_of[spare])
    return FITS if known == nodes and leaves == buckets else CHAIN


@njit(**EXACT)
def object_tree(tree: ObjectTree) -> int:
    """Whether a tree of objects hangs together: see `rankcast.range_topk.kernels.object_tree`."""
    meta, nodes, rows = tree.meta, tree.filled.size, tree.x.size
    used, height = meta[USED], meta[HEIGHT]
    if not (1 <= used <= nodes and 1 <= height <= TALLEST and 0 <= meta[ROOT] < used):
        return NODE
    seen, stack, depth = np.zeros(used, np.bool_), np.empty((TALLEST * ORDER, 2), np.int64), 1
    stack[0, 0], stack[0, 1], known, size, last = meta[ROOT], height, 0, 0, -np.inf
    if tree.parent[meta[ROOT]] != -1:
        return NODE
    while depth > 0:
        depth -= 1
        node, level, filled = stack[depth, 0], stack[depth, 1], np.int64(tree.filled[stack[depth, 0]])
        if seen[node] or filled > ORDER or filled < (1 if known > 0 or height > 1 else 0):
            return NODE
        seen[node], known = True, known + 1
        for j in range(filled):
            best = np.int64(tree.best[node, j])
            if best < 0 or best >= rows or not -np.inf <= tree.low[node, j] <= np.inf:
                return ROW
        for j in range(filled):
            below = np.int64(tree.child[node, j])
            if level > 1:
                if below < 0 or below >= used or tree.parent[below] != node:
                    return NODE
                continue
            if below < 0 or below >= rows or tree.leaf_of[below] != node or tree.best[node, j] != below:
                return ROW
            if not last <= tree.key[node, j] < np.inf or tree.x[below] != tree.key[node, j]:
                return ROW
            if tree.y[below] != tree.low[node, j]:
                return ROW
            last, size = tree.key[node, j], size + 1
        for j in range(filled - 1, -1, -1):
            if level > 1:
                stack[depth, 0], stack[depth, 1], depth = tree.child[node, j], level - 1, depth + 1
    return _objects_rest(tree, seen, known, size)


@njit(**EXACT)
def _objects_rest(tree: ObjectTree, seen: NDArray[np.bool_], known: int, size: int) -> int:
    """The rest of `object_tree`: rows, the best objects of inner nodes, and the chain of free nodes."""
    present = 0
    for row in range(tree.x.size):
        present += tree.leaf_of[row] >= 0
        if tree.leaf_of[row] < -1 or (tree.leaf_of[row] < 0 and tree.y[row] != np.inf):
            return ROW
    if size != tree.meta[SIZE] or present != size or known != tree.meta[NODES]:
        return SIZES
    for node in range(seen.size):
        parent = np.int64(tree.parent[node])
        if not seen[node] or parent < 0:
            continue
        found, j = best_slot(tree, node), 0
        while j < tree.filled[parent] and tree.child[parent, j] != node:
            j += 1
        if j == tree.filled[parent] or tree.low[parent, j] != tree.low[node, found]:
            return BOX
        if tree.best[parent, j] != tree.best[node, found] or not tree.key[parent, j] <= tree.key[node, 0]:
            return BOX
        if j > 0 and not tree.key[parent, j - 1] <= tree.key[parent, j]:
            return BOX
    spare = int(tree.meta[FREE_NODES])
    while spare != -1:
        if spare < 0 or spare >= seen.size or seen[spare]:
            return CHAIN
        seen[spare], known = True, known + 1
        spare = int(tree.parent[spare])
    return FITS if known == seen.size else CHAIN


class Listed(NamedTuple):
    """What boards may list, by row of object: whether it is there, where, what is ranked, its label."""

    there: NDArray[np.bool_]
    x: Floats
    value: Floats
    label: Ints


@njit(**EXACT)
def boards(board: Rows, slots: Rows, low: Floats, high: Floats, listed: Listed) -> int:
    """Whether the boards in some slots list objects that are there and in the box of that slot, best first.

    `low` and `high` are by place in `slots`. Behind the last item there is nothing but -1.
    """
    for i in range(slots.size):
        at, last = np.int64(slots[i]), np.int64(-1)
        for j in range(board.shape[1]):
            item = np.int64(board[at, j])
            if item == -1 and (j + 1 == board.shape[1] or board[at, j + 1] == -1):
                continue
            if item < 0 or item >= listed.there.size or not listed.there[item]:
                return ROW
            for axis in range(low.shape[1]):
                if not low[i, axis] <= listed.x[item, axis] <= high[i, axis]:
                    return BOX
            if last >= 0:
                one, two = listed.value[last], listed.value[item]
                if not (one < two or (one == two and listed.label[last] < listed.label[item])):
                    return SIZES
            last = item
    return FITS


@njit(**EXACT)
def last_weights(board: Rows, slots: Rows, weight: Floats, value: Floats) -> bool:
    """Whether the weight of each slot is the value of the last item of a full board, else +inf."""
    last = board.shape[1] - 1
    for i in range(slots.size):
        item = np.int64(board[slots[i], last])
        if weight[slots[i]] != (np.inf if item < 0 else value[item]):
            return False
    return True
