"""The objects over one attribute by (x, y): the nearest better ones, the next above, the best of a range."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.kernels import blocks, checks, object_tree
from rankcast.range_topk.kernels.blocks import Blocks
from rankcast.range_topk.kernels.object_tree import FILL, ORDER, SIZE, SPARE_NODES, ObjectTree
from rankcast.structures import integrity
from rankcast.structures.arrays import grown

Rows = NDArray[np.int32]
Floats = NDArray[np.float64]
Labels = NDArray[np.int64]

FEW = 64  # ranges up to which a search each is better than a table
SMALLEST, MOST = 16, 4096  # objects a block, blocks


class ObjectIndex:
    """Objects in dense rows, ordered by x, with the best (y, label) of every stretch at hand.

    - Changing: `insert`, `set_value`, `move`, `delete`, and `load` for many at once.
    - Asking: `firstk`, `miny`, `best`.
    - Keeping: `arrays`, `restore`, `check`.

    Kernels work on `tree`, whose arrays are replaced when they grow: fetch it anew after `reserve`.
    An absent row has y = +inf. Equal y are ordered by the smaller label.
    """

    def __init__(self) -> None:
        self.tree = _empty_tree(rows=0, nodes=SPARE_NODES)
        self._then: tuple[Floats, Floats, Labels] = (self.tree.x, self.tree.y, self.tree.label)
        self._tables: dict[int, Blocks] = {}
        object_tree.clear(self.tree)

    def __len__(self) -> int:
        return int(self.tree.meta[SIZE])

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`, and for some inserts by kernels. Amortised O(1) a row."""
        tree = self.tree
        if rows > tree.x.shape[0]:
            length = max(rows, 2 * tree.x.shape[0], 16)
            tree = tree._replace(
                x=grown(tree.x, length, 0.0),
                y=grown(tree.y, length, np.inf),
                label=grown(tree.label, length, 0),
                leaf_of=grown(tree.leaf_of, length, -1),
            )
        if object_tree.room(tree) < SPARE_NODES:
            length = 2 * tree.filled.shape[0] + SPARE_NODES
            names = ("key", "low", "child", "best", "filled", "parent")
            tree = tree._replace(**{name: grown(getattr(tree, name), length, 0) for name in names})
        self.tree = tree

    def set_labels(self, rows: Rows, labels: Labels) -> None:
        """Set the tie labels of new rows, or relabel rows without changing the order of present ones."""
        self.reserve(int(rows.max(initial=-1)) + 1)
        self.tree.label[rows] = labels

    def load(self, rows: Rows, x: Floats, y: Floats) -> None:
        """Insert many absent objects at once by rebuilding the tree. O((n + m) log m)."""
        self.reserve(int(rows.max(initial=-1)) + 1)
        self.tree.x[rows], self.tree.y[rows] = x, y
        everything = np.concatenate([object_tree.rows_in_order(self.tree), rows])
        self._rebuild(everything[np.argsort(self.tree.x[everything], kind="stable")])

    def insert(self, row: int, x: float, y: float) -> None:
        """Add an absent object. O(log n)."""
        self.reserve(row + 1)
        object_tree.insert(self.tree, np.int32(row), x, y)

    def delete(self, row: int) -> None:
        """Take a present object out. O(log n)."""
        object_tree.remove(self.tree, np.int32(row))

    def move(self, row: int, x: float) -> None:
        """Give a present object another x. O(log n)."""
        y = float(self.tree.y[row])
        object_tree.remove(self.tree, np.int32(row))
        self.insert(row, x, y)

    def set_value(self, row: int, y: float) -> None:
        """Give a present object another y. O(log n)."""
        object_tree.set_value(self.tree, np.int32(row), y)

    def tidy(self) -> None:
        """Rebuild the tree if it holds many more nodes than its objects need. Amortised O(1) a deletion."""
        if object_tree.too_empty(self.tree):
            self._rebuild(object_tree.rows_in_order(self.tree))

    def firstk(self, x: float, y: float, label: int, direction: Literal["left", "right"], k: int) -> Floats:
        """The x of the k objects nearest to x on one side, not at x, that are better than (y, label)."""
        found = np.empty(k)
        leaf, slot = object_tree.locate(self.tree, x, direction == "right")
        step, slot = (1, slot) if direction == "right" else (-1, slot - 1)
        size, _ = object_tree.firstk(self.tree, leaf, slot, step, x, y, label, found)
        return found[:size]

    def miny(self, after: float, before: float, y: float, label: int) -> int:
        """The row of the best object with after < x < before that is worse than (y, label), or -1."""
        found = np.empty(1, np.int32)
        size = object_tree.next_above(self.tree, after, before, y, label, np.inf, 0, found)
        return int(found[0]) if size else -1

    def best(self, lo: Floats, hi: Floats, boards: Rows) -> None:
        """Write the rows of the best objects with lo <= x <= hi to the boards, best first, then -1."""
        if len(lo) <= FEW or FEW * len(lo) <= len(self):
            object_tree.search_lists(self.tree, lo, hi, boards)
        elif len(self) == 0:
            boards[:] = -1
        else:
            blocks.find_lists(self._blocks(boards.shape[1]), lo, hi, boards)

    def by_value(self) -> Rows:
        """The rows of all objects, best first. O(n log n); several times faster if no two have the same y."""
        rows, order = self._ranked()
        return np.asarray(rows[order], np.int32)

    def _ranked(self) -> tuple[Rows, NDArray[np.intp]]:
        """The rows by ascending x, and their places, best first."""
        rows = object_tree.rows_in_order(self.tree)
        y = self.tree.y[rows]
        order = np.argsort(y)
        if (y[order[1:]] == y[order[:-1]]).any():
            order = np.lexsort((self.tree.label[rows], y))
        return rows, order

    def _blocks(self, k: int) -> Blocks:
        """The best k of blocks, kept until an object changes."""
        now = (self.tree.x, self.tree.y, self.tree.label)
        if not all(map(np.array_equal, now, self._then)):
            self._then, self._tables = (now[0].copy(), now[1].copy(), now[2].copy()), {}
        if k not in self._tables:
            self._tables[k] = self._tabulated(k)
        return self._tables[k]

    def _tabulated(self, k: int) -> Blocks:
        """The best k of blocks. O(n log n), mostly to rank the objects."""
        rows, order = self._ranked()
        rank, size = np.empty(len(rows), np.int32), len(rows)
        rank[order] = np.arange(size, dtype=np.int32)
        shift = (max(SMALLEST, k, size // MOST) - 1).bit_length()
        count = ((size - 1) >> shift) + 1
        table = np.empty((count.bit_length() * count + 1) * k, np.int32)
        blocks.tabulate(rank, shift, k, table)
        return Blocks(self.tree.x[rows], rank, np.append(rows[order], np.int32(-1)), table, shift)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays (the index's own, not copies)."""
        return dict(self.tree._asdict())

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state that `arrays` gave."""
        checks.check_object_form(arrays, self.tree)
        self.tree = ObjectTree(**{name: arrays[name] for name in ObjectTree._fields})
        if integrity.wanted():
            checks.check_objects(self.tree)

    def check(self) -> None:
        """Assert the invariants of the tree."""
        tree = self.tree
        rows = object_tree.rows_in_order(tree)
        present = np.flatnonzero(tree.leaf_of >= 0)
        assert np.array_equal(np.sort(rows), present)
        assert np.all(np.diff(tree.x[rows]) >= 0)
        assert np.all(np.isinf(tree.y[tree.leaf_of < 0]))
        self._check_node(int(tree.meta[object_tree.ROOT]), int(tree.meta[object_tree.HEIGHT]), -1)

    def _check_node(self, node: int, height: int, parent: int) -> tuple[float, int]:
        tree, slots = self.tree, range(self.tree.filled[node])
        assert tree.parent[node] == parent
        assert parent < 0 or len(slots) > 0
        for j in slots:
            child, low, best = int(tree.child[node, j]), float(tree.low[node, j]), int(tree.best[node, j])
            if height == 1:
                assert (tree.leaf_of[child], tree.x[child], tree.y[child], best) == (
                    node,
                    tree.key[node, j],
                    low,
                    child,
                )
            else:
                assert self._check_node(child, height - 1, node) == (low, best)
        pairs = [
            (float(tree.low[node, j]), int(tree.label[tree.best[node, j]]), int(tree.best[node, j]))
            for j in slots
        ]
        low, _, best = min(pairs, default=(np.inf, 0, -1))
        return low, best

    def _rebuild(self, rows: Rows) -> None:
        nodes = SPARE_NODES + 2 * (len(rows) // FILL + 1)
        self.tree = _empty_tree(rows=0, nodes=nodes)._replace(
            x=self.tree.x, y=self.tree.y, label=self.tree.label, leaf_of=self.tree.leaf_of
        )
        object_tree.build(self.tree, rows.astype(np.int32))


def _empty_tree(*, rows: int, nodes: int) -> ObjectTree:
    return ObjectTree(
        key=np.zeros((nodes, ORDER)),
        low=np.zeros((nodes, ORDER)),
        child=np.zeros((nodes, ORDER), np.int32),
        best=np.zeros((nodes, ORDER), np.int32),
        filled=np.zeros(nodes, np.int32),
        parent=np.zeros(nodes, np.int32),
        meta=np.zeros(6, np.int64),
        x=np.zeros(rows),
        y=np.full(rows, np.inf),
        label=np.zeros(rows, np.int64),
        leaf_of=np.full(rows, -1, np.int32),
    )
