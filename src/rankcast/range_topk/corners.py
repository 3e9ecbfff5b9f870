"""The owners of corner trees: an index of rows with points, weights and boards, and the objects of boxes."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.kernels import checks, corners
from rankcast.range_topk.kernels.corners import (
    BUCKET_USED,
    BUCKETS,
    CAPACITY,
    UNFILLED,
    CornerRecords,
    CornerTree,
)
from rankcast.range_topk.kernels.object_versions import Order
from rankcast.range_topk.state import Floats, Rows
from rankcast.range_topk.subscriptions import SHARED, SlotMap
from rankcast.structures import integrity
from rankcast.structures.arrays import grown

SPARE_BUCKETS = 8
SLOT_ARRAYS = ("point", "weight", "row", "board")
NODE_ARRAYS = ("low", "high", "top", "child", "parent", "size", "bucket", "axis", "pivot")


class CornerIndex:
    """Rows with a point, a weight and a board of `k` items each.

    - Changing: `insert`, `delete`; an insert of many plants the tree anew.
    - Asking: `rows`, `points`, `board`.
    - Keeping: `arrays`, `restore`, `check`. The slot map may be shared and is kept by its owner.

    Kernels work on `tree`, whose arrays are replaced when they grow: fetch it anew after a change.
    Memory: (8 width + 12 + 4 k) bytes a slot; slots are 7/8 full after a bulk load without equal values.
    """

    def __init__(self, width: int, k: int, capacity: int, slots: SlotMap) -> None:
        self._slots = slots
        self._tree = _empty_tree(width, k, capacity, SPARE_BUCKETS)
        corners.clear(self._tree, capacity)

    @property
    def tree(self) -> CornerTree:
        """The tree as kernels take it."""
        return self._tree._replace(slot_of=self._slots.slot_of)

    @property
    def board(self) -> Rows:
        """The boards by slot."""
        return self._tree.board

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
            done = int(corners.put_in(self.tree, rows, points, weights, done))
            if done < len(rows):
                self.reserve()

    def delete(self, rows: Rows) -> None:
        """Remove rows. O(log n) each."""
        corners.take_out(self.tree, rows)
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
        return rows, self.points_of(rows)

    def points_of(self, rows: Rows) -> Floats:
        """The points of some rows."""
        return self._tree.point[self._slots.slot_of[rows]]

    def reserve(self) -> None:
        """Make room to build the whole tree anew, and for some more points."""
        missing = int(corners.buckets_for(self._tree, len(self))) - int(corners.spare_buckets(self._tree))
        length = self._tree.leaf_of.shape[0]
        self._resize(length + max(SPARE_BUCKETS, length // 4, missing))

    def _resize(self, buckets: int) -> None:
        capacity = int(self._tree.meta[CAPACITY])
        lengths = dict.fromkeys(SLOT_ARRAYS, buckets * capacity) | dict.fromkeys(NODE_ARRAYS, 2 * buckets)
        lengths["leaf_of"] = buckets
        arrays = self._tree._asdict()
        for name, size in lengths.items():
            arrays[name] = grown(arrays[name], size)
        self._tree = CornerTree(**arrays)

    def _plant(self, rows: Rows, points: Floats, weights: Floats) -> None:
        """Build the whole tree anew from what it holds and more."""
        capacity, held, total = int(self._tree.meta[CAPACITY]), len(self), len(self) + len(rows)
        width, k = self._tree.point.shape[1], self._tree.board.shape[1]
        records = CornerRecords(
            np.empty((total, width)),
            np.empty(total),
            np.empty(total, np.int32),
            np.empty((total, k), np.int32),
        )
        corners.collect(self.tree, 0, records, 0)
        records.point[held:], records.weight[held:], records.row[held:] = points, weights, rows
        records.board[held:] = UNFILLED
        buckets = int(corners.buckets_for(self._tree, total)) + SPARE_BUCKETS
        self._tree = _empty_tree(width, k, capacity, buckets)
        corners.clear(self._tree, capacity)
        corners.release(self._tree, 0, True)
        corners.plant(self.tree, 0, records, total)
        used = int(self._tree.meta[BUCKET_USED])
        self._resize(used + SPARE_BUCKETS + used // 8)

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays, without the slot map, which its owner keeps."""
        return {name: array for name, array in self._tree._asdict().items() if name != SHARED}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state that `arrays` gave."""
        capacity = int(self._tree.meta[CAPACITY])
        integrity.bucket_forms(arrays, self._tree, NODE_ARRAYS, SLOT_ARRAYS, capacity)
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
        assert not corners.merge(tree, node)
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


OBJECTS = 16  # slots a bucket
WORTH = 1024  # objects that may be put in order for one that changes


class BoxObjects:
    """Objects in dense rows by their place in `width` attributes; an absent row has the value +inf."""

    def __init__(self, width: int) -> None:
        self.slots = SlotMap()
        self.index = CornerIndex(width, 1, OBJECTS, self.slots)
        self.value: Floats = np.empty(0)
        self.label: NDArray[np.int64] = np.empty(0, np.int64)
        self.derived: Any = None  # what others derive from the objects; dropped when these change

    def set_labels(self, rows: Rows, labels: NDArray[np.int64]) -> None:
        """Set the tie labels of new rows, or relabel rows without changing the order of present ones."""
        self.reserve(int(rows.max(initial=-1)) + 1)
        self.label[rows] = labels

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`. Amortised O(1) a row."""
        self.slots.reserve(rows)
        if rows > len(self.value):
            length = max(rows, 2 * len(self.value), 16)
            self.value, self.label = grown(self.value, length, np.inf), grown(self.label, length, 0)

    def hide(self, rows: Rows) -> None:
        """Take the weight of distinct objects, so that no search finds them, until they are settled."""
        here = rows[self.slots.slot_of[rows] >= 0]
        corners.set_weights(self.index.tree, here, np.full(len(here), -np.inf))

    def in_order(self, hidden: Rows) -> Order:
        """All objects but the hidden ones by value, or none if these are too few to be worth it."""
        there = self.value < (np.inf if len(self.index) <= WORTH * len(hidden) else -np.inf)
        there[hidden] = False
        rows = np.flatnonzero(there).astype(np.int32)
        value, label = self.value[rows], self.label[rows]
        by_value = np.argsort(value)
        ordered = value[by_value]
        if (ordered[1:] == ordered[:-1]).any():
            by_value = np.lexsort((label, value))
        rows = rows[by_value]
        return Order(rows, self.index.tree.point[self.slots.slot_of[rows]], ordered, label[by_value])

    def settle(self, rows: Rows, x: Floats, y: Floats) -> None:
        """Bring distinct objects to places and values, whatever they were; +inf: not there."""
        self.derived, slots, here = None, self.slots.slot_of[rows], y < np.inf
        stays = here & (slots >= 0)
        stays[stays] = (self.index.tree.point[slots[stays]] == x[stays]).all(axis=1)
        self.index.delete(rows[(slots >= 0) & ~stays])
        corners.set_weights(self.index.tree, rows[stays], -y[stays])
        self.value[rows] = y
        new = here & ~stays
        self.index.insert(rows[new], np.ascontiguousarray(x[new]), -y[new])

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays."""
        return {SHARED: self.slots.slot_of, "value": self.value, "label": self.label, **self.index.arrays()}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state that `arrays` gave."""
        own: dict[str, NDArray[Any]] = {SHARED: self.slots.slot_of, "value": self.value, "label": self.label}
        mine = {name: arrays[name] for name in own}
        integrity.forms(mine, {name: integrity.like(array) for name, array in own.items()})
        rows = len(mine["value"])
        integrity.need(len(mine["label"]) == rows, "label", f"has not {rows} entries")
        self.slots.slot_of, self.value, self.label = mine[SHARED], mine["value"], mine["label"]
        self.derived = None
        self.index.restore({name: array for name, array in arrays.items() if name not in own})
