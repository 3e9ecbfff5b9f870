"""Subscriptions as points (lo, hi): which lie in a box, the smallest box around those, and their boards."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast import buffers
from rankcast.indexes.objects import Floats, Rows, grown, lengthened
from rankcast.kernels import gather, point_edit, point_search, point_tree, relist
from rankcast.kernels.point_tree import BUCKET, BUCKET_USED, BUCKETS, FILL, PointTree

SPARE_BUCKETS = 8
SHARED = "slot_of"


class SlotMap:
    """Where each subscription row stands in its tree: shared by the indexes of all classes of k."""

    def __init__(self) -> None:
        self.slot_of: Rows = np.full(0, -1, np.int32)

    def reserve(self, rows: int) -> None:
        """Make room for row numbers below `rows`. Amortised O(1) a row."""
        if rows > len(self.slot_of):
            self.slot_of = grown(self.slot_of, max(rows, len(self.slot_of) * 5 // 4), -1)


class SubscriptionIndex:
    """The subscriptions of one k, as a k-d tree of points whose buckets also hold their boards.

    - Changing: `load`, `insert`, `delete`, `move`; one that grows by more than a quarter is planted anew.
    - Asking: `snap`, `rows_in`, `count`, `boards`, `listed`.
    - Keeping: `arrays`, `restore`, `check`. The slot map is shared and kept by its owner.

    Points that are moved get their new boards at once, but stay where they are until somebody asks for the
    tree: then all of them change their places together, whatever the number of calls.

    Memory: 20 + 4 k bytes a slot, 64 slots a bucket, buckets 7/8 full after a bulk load.
    """

    def __init__(self, k: int, slots: SlotMap) -> None:
        self.k = k
        self._slots = slots
        self._tree = _empty_tree(k, SPARE_BUCKETS)
        self._moved: list[tuple[Rows, Floats, Floats]] = []
        point_tree.clear(self._tree)

    @property
    def tree(self) -> PointTree:
        """The tree as kernels take it, every point in its place; fetch it anew after a change."""
        self.settle()
        return self._as_it_is()

    def _as_it_is(self) -> PointTree:
        return self._tree._replace(slot_of=self._slots.slot_of)

    @property
    def board(self) -> Rows:
        """The boards by slot; they are right wherever the points are."""
        return self._tree.board

    def __len__(self) -> int:
        return int(self._tree.size[0])

    def load(self, rows: Rows, lo: Floats, hi: Floats) -> None:
        """Plant an empty index with subscriptions; their boards are yet to be filled."""
        self._slots.reserve(int(rows.max(initial=-1)) + 1)
        self._plant(rows, lo, hi, np.empty((0, self.k), np.int32))

    def insert(self, rows: Rows, lo: Floats, hi: Floats, boards: Rows) -> None:
        """Add subscriptions with their boards. O(log m) each, neighbours sharing the way."""
        self.settle()
        self._slots.reserve(int(rows.max(initial=-1)) + 1)
        if len(rows) > max(BUCKET, len(self) // 4):
            self._plant(rows, lo, hi, boards)
        else:
            self._put_in(_records(rows, lo, hi), boards, self._untouched())

    def delete(self, rows: Rows) -> None:
        """Remove subscriptions. O(log m) each, neighbours sharing the way."""
        tree, touched = self.tree, self._untouched()
        point_edit.take_out(tree, rows, touched)
        self._put_in(np.empty((0, 4)), np.empty((0, self.k), np.int32), touched)

    def move(self, rows: Rows, lo: Floats, hi: Floats, boards: Rows) -> None:
        """Give subscriptions other ranges and boards. O(k) each, and what `settle` takes later."""
        relist.write_boards(self.board, self._slots.slot_of, rows, boards)
        self._moved.append((rows, lo.copy(), hi.copy()))
        if sum(len(moved) for moved, _, _ in self._moved) > len(self):
            self.settle()

    def settle(self) -> None:
        """Bring moved points to their places. O(1) each that stays in its bucket, O(log m) otherwise."""
        if not self._moved:
            return
        rows, lo, hi = (np.concatenate(parts) for parts in zip(*self._moved, strict=True))
        if len(self._moved) > 1:
            _, back = np.unique(rows[::-1], return_index=True)
            last = len(rows) - 1 - back
            rows, lo, hi = rows[last], lo[last], hi[last]
        self._moved.clear()
        along = np.argsort(self._slots.slot_of[rows])  # neighbours in the tree one after the other
        points, touched = _records(rows[along], lo[along], hi[along]), self._untouched()
        boards = buffers.empty(len(rows) * self.k, np.int32).reshape(-1, self.k)
        left = int(point_edit.move_out(self._as_it_is(), points, boards, touched))
        self._put_in(points[:left], boards, touched)

    def _untouched(self) -> NDArray[np.bool_]:
        return np.zeros(len(self._tree.parent), np.bool_)

    def _as_long(self, touched: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Marks of nodes for as many as there are now."""
        nodes = len(self._tree.parent)
        return touched if len(touched) == nodes else lengthened(touched, nodes)

    def _put_in(self, points: Floats, boards: Rows, touched: NDArray[np.bool_]) -> None:
        """Add points, and set the tree right where it was touched; make room until all are in."""
        left, room = len(points), BUCKET
        while True:
            self._reserve(room)
            touched = self._as_long(touched)
            left = int(point_edit.put_in(self._as_it_is(), points[:left], boards, touched))
            while not point_edit.rebalance(self._as_it_is(), touched):
                self._reserve(0)
                touched = self._as_long(touched)
            if not left:
                break
            touched, room = self._untouched(), left + BUCKET
        if self._tree.leaf_of.shape[0] > 4 * SPARE_BUCKETS + 4 * len(self) // FILL:
            self._plant(np.empty(0, np.int32), np.empty(0), np.empty(0), np.empty((0, self.k), np.int32))

    def snap(self, box: Floats) -> Floats | None:
        """The smallest box around the points in a closed box, or None."""
        found = np.empty(4)
        return found if point_search.snap(self.tree, box, found) else None

    def rows_in(self, box: Floats) -> Rows:
        """The rows of the points in a closed box, in no particular order."""
        rows = np.empty(self.count(box), np.int32)
        point_search.list_rows(self.tree, box, rows)
        return rows

    def count(self, box: Floats) -> int:
        """How many points lie in a closed box."""
        return int(point_search.list_rows(self.tree, box, np.empty(0, np.int32)))

    def boards(self, rows: Rows) -> Rows:
        """The boards of subscriptions, one a line: item rows best first, then -1."""
        return np.asarray(self._tree.board[self._slots.slot_of[rows]], np.int32)

    def listed(self, rows: Rows, values: Floats) -> gather.Lists:
        """The lists of subscriptions one after the other, scored by the values of their items."""
        board, slots = self._tree.board, self._slots.slot_of
        size = int(gather.count_items(board, slots, rows))
        kinds = (np.int32, np.int32, np.float64, np.int64)
        lists = gather.Lists(*(buffers.empty(size, kind) for kind in kinds))
        gather.read_boards(board, slots, rows, values, lists)
        return lists

    def external(self, rows: Rows, names: gather.Names, *, scored: bool) -> gather.External:
        """The same with the ids of outside; without scores and ranks if they are not asked for."""
        board, slots = self._tree.board, self._slots.slot_of
        size = int(gather.count_items(board, slots, rows))
        sizes = (size, size, size, size) if scored else (size, size, 0, 0)
        kinds = (np.int64, np.int64, np.float64, np.int64)
        out = gather.External(*map(buffers.empty, sizes, kinds))
        gather.write_external(board, slots, rows, names, out)
        return out

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays, without the slot map, which its owner keeps."""
        self.settle()
        return {name: array for name, array in self._tree._asdict().items() if name != SHARED}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state that `arrays` gave."""
        own = {name: arrays[name] for name in PointTree._fields if name != SHARED}
        self._tree = PointTree(slot_of=np.empty(0, np.int32), **own)

    def check(self) -> None:
        """Assert the invariants of the tree."""
        self.settle()
        slots = self._live_slots()
        assert len(slots) == len(self)
        assert np.array_equal(self._slots.slot_of[self._tree.row[slots]], slots)
        assert self._check_node(0, -1) == int(self._tree.meta[BUCKETS])

    def _check_node(self, node: int, parent: int) -> int:
        tree = self._tree
        assert tree.parent[node] == parent
        if tree.bucket[node] >= 0:
            assert tree.leaf_of[tree.bucket[node]] == node
            assert parent < 0 or tree.size[node] > 0
            slots = slice(tree.bucket[node] * BUCKET, tree.bucket[node] * BUCKET + tree.size[node])
            lo, hi = tree.lo[slots], tree.hi[slots]
            ends = [(end.min(initial=np.inf), end.max(initial=-np.inf)) for end in (lo, hi)]
            assert tree.box[node].reshape(2, 2).tolist() == [list(end) for end in ends]
            return 1
        one, two = (int(child) for child in tree.child[node])
        leaves = self._check_node(one, node) + self._check_node(two, node)
        assert tree.size[node] == tree.size[one] + tree.size[two]
        assert max(tree.size[one], tree.size[two]) <= point_tree.SKEW * tree.size[node] + FILL
        assert not point_tree.merge_boxes(tree, node)
        return leaves

    def _live_slots(self) -> Rows:
        tree, buckets = self._tree, np.arange(self._tree.leaf_of.shape[0])
        used = (buckets < tree.meta[BUCKET_USED]) & (tree.leaf_of >= 0)
        leaves = np.flatnonzero(used & (tree.bucket[np.where(used, tree.leaf_of, 0)] == buckets))
        sizes = tree.size[tree.leaf_of[leaves]]
        within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
        return np.asarray(np.repeat(leaves * BUCKET, sizes) + within, np.int32)

    def _reserve(self, points: int) -> None:
        """Make room for so many points in one place, and for rebuilding."""
        missing = int(point_tree.most_buckets(points)) - int(point_tree.spare_buckets(self._tree))
        if missing > 0:
            length = self._tree.leaf_of.shape[0]
            length += max(SPARE_BUCKETS, length // 4, missing)
            lengths = dict.fromkeys(SLOT_ARRAYS, length * BUCKET) | dict.fromkeys(NODE_ARRAYS, 2 * length)
            lengths["leaf_of"] = length
            arrays = self._tree._asdict()
            self._tree = _empty_tree(self.k, 0)  # so that each array goes as soon as it was copied
            for name, size in lengths.items():
                arrays[name] = lengthened(arrays.pop(name), size)
            self._tree = PointTree(**arrays)

    def _plant(self, rows: Rows, lo: Floats, hi: Floats, boards: Rows) -> None:
        """Build the whole tree anew from its points and new ones."""
        size, total = len(self), len(self) + len(rows)
        points, spare = (buffers.empty(4 * total, np.float64).reshape(-1, 4) for _ in range(2))
        own = buffers.empty((size + len(boards)) * self.k, np.int32).reshape(-1, self.k)
        point_tree.collect(self._as_it_is(), 0, points, own)
        point_tree.write_records(points, size, rows, lo, hi)
        own[size:] = boards
        self._tree = _empty_tree(self.k, int(point_tree.most_buckets(len(points))) + 2 * SPARE_BUCKETS)
        point_tree.clear(self._tree)
        point_tree.release(self._tree, 0, True)
        point_tree.plant(self._as_it_is(), 0, points, spare, own)


def _records(rows: Rows, lo: Floats, hi: Floats) -> Floats:
    """Subscriptions as kernels take new points."""
    points = buffers.empty(4 * len(rows), np.float64).reshape(-1, 4)
    point_tree.write_records(points, 0, rows, lo, hi)
    return points


SLOT_ARRAYS = ("lo", "hi", "row", "board")
NODE_ARRAYS = ("box", "child", "parent", "size", "bucket", "axis", "pivot", "pivot_row")


def _empty_tree(k: int, buckets: int) -> PointTree:
    nodes = 2 * buckets
    return PointTree(
        box=np.zeros((nodes, 4)),
        child=np.full((nodes, 2), -1, np.int32),
        parent=np.full(nodes, -1, np.int32),
        size=np.zeros(nodes, np.int32),
        bucket=np.full(nodes, -1, np.int32),
        axis=np.zeros(nodes, np.int8),
        pivot=np.zeros((nodes, 2)),
        pivot_row=np.zeros(nodes, np.int32),
        leaf_of=np.full(buckets, -1, np.int32),
        lo=np.zeros(buckets * BUCKET),
        hi=np.zeros(buckets * BUCKET),
        row=np.zeros(buckets * BUCKET, np.int32),
        board=np.zeros((buckets * BUCKET, k), np.int32),
        slot_of=np.empty(0, np.int32),
        meta=np.zeros(5, np.int64),
    )
