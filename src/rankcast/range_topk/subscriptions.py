"""The subscriptions of one size class as points (lo, hi) with their boards: the owner of a point tree."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.kernels import checks, points_edit, points_search
from rankcast.range_topk.kernels import points as point_tree
from rankcast.range_topk.kernels.points import BUCKET, BUCKET_USED, BUCKETS, FILL, PointTree
from rankcast.range_topk.state import Floats, Rows
from rankcast.structures import arrays as memory
from rankcast.structures import diff, integrity
from rankcast.structures.arrays import Names, grown
from rankcast.structures.diff import DeltaColumns
from rankcast.structures.select import Words

SLOT_ARRAYS = ("lo", "hi", "row", "board")
NODE_ARRAYS = ("box", "child", "parent", "size", "bucket", "axis", "pivot", "pivot_row")


def empty(k: int, buckets: int) -> PointTree:
    """Arrays for so many buckets, and twice as many nodes; the slot map is the owner's."""
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


def lengthen(arrays: dict[str, NDArray[Any]], buckets: int) -> PointTree:
    """The same tree with room for so many buckets; each array is let go as soon as it was copied."""
    lengths = dict.fromkeys(SLOT_ARRAYS, buckets * BUCKET) | dict.fromkeys(NODE_ARRAYS, 2 * buckets)
    for name, size in {**lengths, "leaf_of": buckets}.items():
        arrays[name] = grown(arrays.pop(name), size)
    return PointTree(**arrays)


def check(tree: PointTree) -> None:
    """Assert the invariants of a tree."""
    slots = live_slots(tree)
    assert len(slots) == tree.size[0]
    assert np.array_equal(tree.slot_of[tree.row[slots]], slots)
    assert _check_node(tree, 0, -1) == int(tree.meta[BUCKETS])


def _check_node(tree: PointTree, node: int, parent: int) -> int:
    """Assert the invariants below a node; how many leaves there are."""
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
    leaves = _check_node(tree, one, node) + _check_node(tree, two, node)
    assert tree.size[node] == tree.size[one] + tree.size[two]
    assert max(tree.size[one], tree.size[two]) <= point_tree.SKEW * tree.size[node] + FILL
    assert not point_tree.merge_boxes(tree, node)
    return leaves


def live_slots(tree: PointTree) -> Rows:
    """The slots that hold a point."""
    buckets = np.arange(tree.leaf_of.shape[0])
    used = (buckets < tree.meta[BUCKET_USED]) & (tree.leaf_of >= 0)
    leaves = np.flatnonzero(used & (tree.bucket[np.where(used, tree.leaf_of, 0)] == buckets))
    sizes = tree.size[tree.leaf_of[leaves]]
    within = np.arange(sizes.sum()) - np.repeat(np.cumsum(sizes) - sizes, sizes)
    return np.asarray(np.repeat(leaves * BUCKET, sizes) + within, np.int32)


SPARE_BUCKETS = 8
MOST_STAMPS = 2**31 - 2
SHARED = "slot_of"
NOBODY: Rows = np.empty(0, np.int32)
NOWHERE: Floats = np.empty(0)


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
    - Asking: `snap`, `rows_in`, `count`, `points`, `board`, `external`.
    - Keeping: `arrays`, `restore`, `check`. The slot map is shared and kept by its owner.

    Points that are moved get their new boards at once, but stay where they are until somebody asks for the
    tree: then all of them change their places together, whatever the number of calls.

    Memory: 20 + 4 k bytes a slot, 64 slots a bucket, buckets 7/8 full after a bulk load.
    """

    def __init__(self, k: int, slots: SlotMap) -> None:
        self.k = k
        self._slots = slots
        self._tree = empty(k, SPARE_BUCKETS)
        self._moved: list[tuple[Rows, Floats, Floats, Rows]] = []
        self._seen: Rows = NOBODY  # see `diff`: items that were seen, by stamps
        self._stamps = 0
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
        """Add subscriptions with their boards. O(log m) each."""
        self.settle()
        self._slots.reserve(int(rows.max(initial=-1)) + 1)
        if len(rows) > max(BUCKET, len(self) // 4):
            self._plant(rows, lo, hi, boards)
        else:
            self._edit(points_edit.ENTER, rows, lo, hi, boards)

    def delete(self, rows: Rows) -> None:
        """Remove subscriptions. O(log m) each, neighbours sharing the way."""
        self.settle()
        self._edit(points_edit.LEAVE, rows, NOWHERE, NOWHERE, np.empty((0, self.k), np.int32))

    def move(self, rows: Rows, lo: Floats, hi: Floats, boards: Rows) -> None:
        """Give subscriptions other ranges and boards, which are kept. O(k) each, and later `settle`."""
        diff.write_boards(self.board, self._slots.slot_of, rows, boards)
        self._note(rows, lo, hi, boards)

    def replace(
        self, rows: Rows, lo: Floats, hi: Floats, boards: Rows, names: Names
    ) -> tuple[DeltaColumns, int]:
        """The same as `move`; what that changes in the lists, as shown outside, in how many rows."""
        columns, slots, stamps = (
            diff.empty_delta_columns(2 * boards.size + 1),
            self._slots.slot_of,
            2 * len(rows),
        )
        if len(self._seen) < len(names.value) or self._stamps + stamps >= MOST_STAMPS:
            self._seen, self._stamps = np.zeros(len(names.value), np.int32), 0
        size = int(
            diff.replace_boards(self.board, slots, rows, boards, names, self._seen, self._stamps, columns)
        )
        self._stamps += stamps
        self._note(rows, lo, hi, boards)
        return columns, size

    def _note(self, rows: Rows, lo: Floats, hi: Floats, boards: Rows) -> None:
        """Keep where points are to be moved, unless there are too many."""
        self._moved.append((rows, lo.copy(), hi.copy(), boards))
        if sum(len(moved) for moved, *_ in self._moved) > len(self):
            self.settle()

    def just_moved(self, rows: Rows) -> Rows | None:
        """The boards that the last move gave, if it was of these rows and nobody asked for the tree since."""
        moved, _, _, boards = self._moved[-1] if self._moved else (NOBODY, None, None, None)
        return boards if np.array_equal(moved, rows) else None

    @property
    def unsettled(self) -> bool:
        """Whether moved points have yet to come to their places."""
        return bool(self._moved)

    def settle(self) -> None:
        """Bring moved points to their places. O(1) each that stays in its bucket, O(log m) otherwise."""
        if not self._moved:
            return
        rows, lo, hi, boards = self._moved[0]
        if len(self._moved) > 1:
            rows, lo, hi, boards = (np.concatenate(parts) for parts in zip(*self._moved, strict=True))
        self._moved.clear()
        self._edit(points_edit.MOVE, rows, lo, hi, boards)

    def _edit(self, kind: int, rows: Rows, lo: Floats, hi: Floats, boards: Rows) -> None:
        """Let points leave, enter or move; make room until all are in, and balance the tree."""
        points = _empty_records(len(lo))
        entering, touched, skewed = points_edit.edit(self._as_it_is(), kind, rows, lo, hi, points, boards)
        if len(entering):
            self._grow(entering, points, boards)
            skewed = points_edit.mend(self._as_it_is(), touched)
        left = len(skewed)
        while left:
            self._reserve(0)
            left = int(points_edit.rebalance(self._as_it_is(), skewed[:left]))
        if self._tree.leaf_of.shape[0] > 4 * SPARE_BUCKETS + 4 * len(self) // FILL:
            self._plant(NOBODY, NOWHERE, NOWHERE, np.empty((0, self.k), np.int32))

    def _grow(self, entering: Words, points: Floats, boards: Rows) -> None:
        """Let points into full buckets, and make room until all are in."""
        left, room = len(entering), BUCKET
        while left:
            self._reserve(room)
            left = int(points_edit.grow(self._as_it_is(), entering[:left], points, boards))
            room = left + BUCKET

    def snap(self, box: Floats) -> Floats | None:
        """The smallest box around the points in a closed box, or None."""
        found = np.empty(4)
        return found if points_search.snap(self.tree, box, found) else None

    def rows_in(self, box: Floats) -> Rows:
        """The rows of the points in a closed box, in no particular order."""
        rows = np.empty(self.count(box), np.int32)
        points_search.list_rows(self.tree, box, rows)
        return rows

    def count(self, box: Floats) -> int:
        """How many points lie in a closed box."""
        return int(points_search.list_rows(self.tree, box, np.empty(0, np.int32)))

    def points(self) -> tuple[Rows, Floats, Floats]:
        """All subscriptions: their rows and the ends of their ranges, those of a bucket side by side."""
        tree = self.tree
        slots = live_slots(tree)
        return tree.row[slots], tree.lo[slots], tree.hi[slots]

    def external(self, rows: Rows, names: memory.Names, *, scored: bool) -> memory.ExternalColumns:
        """The same with the ids of outside; without scores and ranks if they are not asked for."""
        board, slots = self._tree.board, self._slots.slot_of
        size = int(memory.count_items(board, slots, rows))
        sizes = (size, size, size, size) if scored else (size, size, 0, 0)
        kinds = (np.int64, np.int64, np.float64, np.int64)
        out = memory.ExternalColumns(*map(memory.empty, sizes, kinds))
        memory.write_external(board, slots, rows, names, out)
        return out

    def arrays(self) -> dict[str, NDArray[Any]]:
        """The whole state as named arrays, without the slot map, which its owner keeps."""
        self.settle()
        return {name: array for name, array in self._tree._asdict().items() if name != SHARED}

    def restore(self, arrays: dict[str, NDArray[Any]]) -> None:
        """Take over the state that `arrays` gave."""
        integrity.bucket_forms(arrays, self._tree, NODE_ARRAYS, SLOT_ARRAYS, BUCKET)
        own = {name: arrays[name] for name in PointTree._fields if name != SHARED}
        self._tree = PointTree(slot_of=np.empty(0, np.int32), **own)
        self.k = self._tree.board.shape[1]
        if integrity.wanted():
            checks.check_points(self._tree, self._slots.slot_of)

    def check(self) -> None:
        """Assert the invariants of the tree."""
        check(self.tree)

    def _reserve(self, points: int) -> None:
        """Make room for so many points in one place, and for rebuilding."""
        missing = int(point_tree.most_buckets(points)) - int(point_tree.spare_buckets(self._tree))
        if missing <= 0:
            return
        length = self._tree.leaf_of.shape[0]
        length += max(SPARE_BUCKETS, length // 4, missing)
        arrays = self._tree._asdict()
        self._tree = empty(self.k, 0)  # so that each array goes as soon as it was copied
        self._tree = lengthen(arrays, length)

    def _plant(self, rows: Rows, lo: Floats, hi: Floats, boards: Rows) -> None:
        """Build the whole tree anew from its points and new ones."""
        size, total = len(self), len(self) + len(rows)
        points, spare = _empty_records(total), _empty_records(total)
        own = memory.empty((size + len(boards)) * self.k, np.int32).reshape(-1, self.k)
        point_tree.collect(self._as_it_is(), 0, points, own)
        point_tree.write_records(points, size, rows, lo, hi)
        own[size:] = boards
        self._tree = empty(self.k, int(point_tree.most_buckets(len(points))) + 2 * SPARE_BUCKETS)
        point_tree.clear(self._tree)
        point_tree.release(self._tree, 0, True)
        point_tree.plant(self._as_it_is(), 0, points, spare, own)


def _empty_records(size: int) -> Floats:
    return memory.empty(4 * size, np.float64).reshape(-1, 4)
