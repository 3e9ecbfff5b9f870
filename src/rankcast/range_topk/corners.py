"""Owns a corner tree: points of subscriptions or objects in any number of dimensions."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk import checks
from rankcast.range_topk.dominance import SHARED, SlotMap
from rankcast.range_topk.kernels import corner_edit, corner_tree
from rankcast.range_topk.kernels.corner_tree import (
    BUCKET_USED,
    BUCKETS,
    CAPACITY,
    UNFILLED,
    CornerTree,
    Records,
)
from rankcast.range_topk.objects import Floats, Rows
from rankcast.structures import arrays as buffers
from rankcast.structures import arrays as gather
from rankcast.structures import integrity

SPARE_BUCKETS = 8
SLOT_ARRAYS = ("point", "weight", "row", "board")
NODE_ARRAYS = ("low", "high", "top", "child", "parent", "size", "bucket", "axis", "pivot")


class CornerIndex:
    """Rows with a point, a weight and a board of `k` items each.

    - Changing: `insert`, `delete`; an insert of many plants the tree anew.
    - Asking: `rows`, `boards`, `listed`.
    - Keeping: `arrays`, `restore`, `check`. The slot map may be shared and is kept by its owner.

    Kernels work on `tree`, whose arrays are replaced when they grow: fetch it anew after a change.
    Memory: (8 width + 12 + 4 k) bytes a slot; slots are 7/8 full after a bulk load without equal values.
    """

    def __init__(self, width: int, k: int, capacity: int, slots: SlotMap) -> None:
        self._slots = slots
        self._tree = _empty_tree(width, k, capacity, SPARE_BUCKETS)
        corner_tree.clear(self._tree, capacity)

    @property
    def tree(self) -> CornerTree:
        """The tree as kernels take it."""
        return self._tree._replace(slot_of=self._slots.slot_of)

    def __len__(self) -> int:
        return int(self._tree.size[0])

    def insert(self, rows: Rows, points: Floats, weights: Floats) -> None:
        """Add rows that are not there, their boards yet to be filled. O(log n) each."""
        self._slots.reserve(int(rows.max(initial=-1)) + 1)
        if len(rows) > max(int(self._tree.meta[CAPACITY]), len(self) // 4):
            self._plant(rows, points, weights)
            return
        done = 0
        while done < len(rows):
            done = int(corner_edit.put_in(self.tree, rows, points, weights, done))
            if done < len(rows):
                self.reserve()

    def delete(self, rows: Rows) -> None:
        """Remove rows. O(log n) each."""
        corner_edit.take_out(self.tree, rows)
        if self._tree.leaf_of.shape[0] > 4 * SPARE_BUCKETS + 16 * len(self) // self._tree.meta[CAPACITY]:
            self._plant(rows[:0], np.empty((0, self._tree.point.shape[1])), np.empty(0))

    def rows(self) -> Rows:
        """All rows, those of a bucket side by side."""
        tree, capacity = self._tree, int(self._tree.meta[CAPACITY])
        slots = np.arange(len(tree.row)).reshape(-1, capacity)
        leaf = tree.leaf_of
        live = (np.arange(len(leaf)) < tree.meta[BUCKET_USED]) & (leaf >= 0)
        live &= tree.bucket[np.where(live, leaf, 0)] == np.arange(len(leaf))
        size = np.where(live, tree.size[np.where(live, leaf, 0)], 0)
        return np.asarray(tree.row[slots[np.arange(capacity) < size[:, None]]], np.int32)

    def points(self) -> tuple[Rows, Floats]:
        """All rows and their points, those of a bucket side by side."""
        rows = self.rows()
        return rows, self._tree.point[self._slots.slot_of[rows]]

    def boards(self, rows: Rows) -> Rows:
        """The boards of rows, one a line: item rows best first, then -1."""
        return np.asarray(self._tree.board[self._slots.slot_of[rows]], np.int32)

    def listed(self, rows: Rows, values: Floats) -> gather.Lists:
        """The lists of rows one after the other, scored by the values of their items."""
        board, slots = self._tree.board, self._slots.slot_of
        size = int(gather.count_items(board, slots, rows))
        kinds = (np.int32, np.int32, np.float64, np.int64)
        lists = gather.Lists(*(buffers.empty(size, kind) for kind in kinds))
        gather.read_boards(board, slots, rows, values, lists)
        return lists

    def reserve(self) -> None:
        """Make room to build the whole tree anew, and for some more points."""
        missing = int(corner_tree.buckets_for(self._tree, len(self))) - int(
            corner_tree.spare_buckets(self._tree)
        )
        length = self._tree.leaf_of.shape[0]
        self._resize(length + max(SPARE_BUCKETS, length // 4, missing))

    def _resize(self, buckets: int) -> None:
        capacity = int(self._tree.meta[CAPACITY])
        lengths = dict.fromkeys(SLOT_ARRAYS, buckets * capacity) | dict.fromkeys(NODE_ARRAYS, 2 * buckets)
        lengths["leaf_of"] = buckets
        arrays = self._tree._asdict()
        for name, size in lengths.items():
            former = arrays[name]
            arrays[name] = np.zeros((size, *former.shape[1:]), former.dtype)
            arrays[name][: len(former)] = former[:size]
        self._tree = CornerTree(**arrays)

    def _plant(self, rows: Rows, points: Floats, weights: Floats) -> None:
        """Build the whole tree anew from what it holds and more."""
        capacity, held, total = int(self._tree.meta[CAPACITY]), len(self), len(self) + len(rows)
        width, k = self._tree.point.shape[1], self._tree.board.shape[1]
        records = Records(
            np.empty((total, width)),
            np.empty(total),
            np.empty(total, np.int32),
            np.empty((total, k), np.int32),
        )
        corner_tree.collect(self.tree, 0, records, 0)
        records.point[held:], records.weight[held:], records.row[held:] = points, weights, rows
        records.board[held:] = UNFILLED
        buckets = int(corner_tree.buckets_for(self._tree, total)) + SPARE_BUCKETS
        self._tree = _empty_tree(width, k, capacity, buckets)
        corner_tree.clear(self._tree, capacity)
        corner_tree.release(self._tree, 0, True)
        corner_tree.plant(self.tree, 0, records, total)
        used = int(self._tree.meta[BUCKET_USED])
        self._resize(used + SPARE_BUCKETS + used // 8)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays, without the slot map, which its owner keeps."""
        return {name: array for name, array in self._tree._asdict().items() if name != SHARED}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state that `arrays` gave."""
        capacity = int(self._tree.meta[CAPACITY])
        checks.check_bucket_form(arrays, self._tree, NODE_ARRAYS, SLOT_ARRAYS, capacity)
        own = {name: arrays[name] for name in CornerTree._fields if name != SHARED}
        self._tree = CornerTree(slot_of=np.empty(0, np.int32), **own)
        if integrity.wanted():
            checks.check_corners(self._tree, self._slots.slot_of, capacity)

    def check(self) -> None:
        """Assert the invariants of the tree."""
        assert self._check_node(0, -1) == int(self._tree.meta[BUCKETS])

    def _check_node(self, node: int, parent: int) -> int:
        tree, capacity = self.tree, int(self._tree.meta[CAPACITY])
        assert tree.parent[node] == parent
        if tree.bucket[node] >= 0:
            assert tree.leaf_of[tree.bucket[node]] == node
            assert parent < 0 or 0 < tree.size[node] <= capacity
            slots = slice(tree.bucket[node] * capacity, tree.bucket[node] * capacity + tree.size[node])
            points, weights = tree.point[slots], tree.weight[slots]
            assert np.array_equal(tree.slot_of[tree.row[slots]], np.arange(slots.start, slots.stop))
            assert np.array_equal(tree.low[node], points.min(axis=0, initial=np.inf))
            assert np.array_equal(tree.high[node], points.max(axis=0, initial=-np.inf))
            assert tree.top[node] == weights.max(initial=-np.inf)
            return 1
        one, two = (int(child) for child in tree.child[node])
        leaves = self._check_node(one, node) + self._check_node(two, node)
        assert tree.size[node] == tree.size[one] + tree.size[two]
        assert not corner_tree.merge(tree, node)
        return leaves


def _empty_tree(width: int, k: int, capacity: int, buckets: int) -> CornerTree:
    nodes, slots = 2 * buckets, buckets * capacity
    return CornerTree(
        low=np.zeros((nodes, width)),
        high=np.zeros((nodes, width)),
        top=np.zeros(nodes),
        child=np.full((nodes, 2), -1, np.int32),
        parent=np.full(nodes, -1, np.int32),
        size=np.zeros(nodes, np.int32),
        bucket=np.full(nodes, -1, np.int32),
        axis=np.zeros(nodes, np.int32),
        pivot=np.zeros(nodes),
        leaf_of=np.full(buckets, -1, np.int32),
        point=np.zeros((slots, width)),
        weight=np.zeros(slots),
        row=np.zeros(slots, np.int32),
        board=np.zeros((slots, k), np.int32),
        slot_of=np.full(0, -1, np.int32),
        meta=np.zeros(6, np.int64),
    )
