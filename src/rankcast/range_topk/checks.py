"""What must hold of the trees of a range engine that come from a snapshot. Cost: O(n)."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.kernels import checks as kernels
from rankcast.range_topk.kernels import corners, object_tree, points
from rankcast.range_topk.kernels.checks import Listed
from rankcast.range_topk.kernels.corners import CornerTree
from rankcast.range_topk.kernels.object_tree import ObjectTree
from rankcast.range_topk.kernels.points import PointTree
from rankcast.structures import integrity

Arrays = dict[str, NDArray[Any]]
Rows = NDArray[np.int32]
Floats = NDArray[np.float64]

MOST = 1 << 31
_WHY = {
    kernels.NODE: "child",
    kernels.LEAF: "bucket",
    kernels.ROW: "row",
    kernels.CHAIN: "parent",
    kernels.DEEP: "child",
    kernels.SIZES: "size",
    kernels.BOX: "box",
}


def check_objects(tree: ObjectTree) -> None:
    """A tree of objects hangs together."""
    rows = tree.x.size
    for name in ("y", "label", "leaf_of"):
        integrity.need(getattr(tree, name).size == rows < MOST, name, f"has not {rows} entries")
    _refuse(int(kernels.object_tree(tree)), {**_WHY, kernels.SIZES: "meta", kernels.BOX: "best"})


def check_points(tree: PointTree, slot_of: Rows) -> None:
    """A tree of subscriptions by (lo, hi) hangs together, with the slots of its rows."""
    integrity.within(tree.axis, 0, 2, "axis")
    ends = (tree.box[:, ::2], tree.box[:, 1::2], np.stack([tree.lo, tree.hi], axis=1))
    none = np.empty(0)
    _check_buckets(tree, slot_of, ends, (none, none), points.BUCKET)


def check_corners(tree: CornerTree, slot_of: Rows, capacity: int) -> None:
    """A tree of corners or objects hangs together, with the slots of its rows."""
    integrity.need(tree.meta[corners.CAPACITY] == capacity, "meta", "has buckets of another size")
    integrity.within(tree.axis, 0, tree.point.shape[1], "axis")
    _check_buckets(tree, slot_of, (tree.low, tree.high, tree.point), (tree.top, tree.weight), capacity)


def _check_buckets(tree: Any, slot_of: Rows, boxes: Any, tops: Any, capacity: int) -> None:
    meta, buckets = [int(each) for each in tree.meta], tree.leaf_of.size
    nodes_used, node_free, buckets_used, bucket_free, live = meta[:5]
    fits = 1 <= nodes_used <= 2 * buckets and 1 <= live <= buckets_used <= buckets < MOST // capacity
    integrity.need(fits, "meta", "counts what is not there")
    links = (tree.child, tree.parent, tree.size, tree.bucket, tree.leaf_of, tree.row, slot_of)
    used, free = (nodes_used, buckets_used, live), (node_free, bucket_free)
    found = kernels.bucket_tree(*links, boxes, tops, used, free, capacity, corners.DEPTH - 64)
    _refuse(int(found), _WHY)


def _refuse(found: int, names: dict[int, str]) -> None:
    if found != integrity.FITS:
        integrity.unfit(names[found], "does not fit the rest of the tree")


def check_boards(board: Rows, slots: Rows, low: Floats, high: Floats, listed: Listed) -> None:
    """Boards of slots in use list objects that are there and in their boxes, best first, then -1."""
    found = kernels.boards(board, slots, np.ascontiguousarray(low), np.ascontiguousarray(high), listed)
    integrity.need(found == integrity.FITS, "board", "does not list objects that are there, best first")


def check_object_form(arrays: Arrays, empty: ObjectTree) -> None:
    """The arrays are those of a tree of objects."""
    by_node = ("key", "low", "child", "best", "filled", "parent")
    nodes = len(arrays["filled"]) if "filled" in arrays and arrays["filled"].ndim else 0
    integrity.forms(
        arrays,
        {
            name: integrity.like(
                array, length=nodes if name in by_node else array.size if name == "meta" else None
            )
            for name, array in empty._asdict().items()
        },
    )
    integrity.need(arrays["child"].shape[1] == object_tree.ORDER, "child", "has nodes of another order")


def check_bucket_form(
    arrays: Arrays, empty: Any, by_node: tuple[str, ...], by_slot: tuple[str, ...], capacity: int
) -> None:
    """The arrays are those of a tree with buckets of so many slots: twice as many nodes as buckets."""
    buckets = len(arrays["leaf_of"]) if "leaf_of" in arrays and arrays["leaf_of"].ndim else 0
    lengths = dict.fromkeys(by_node, 2 * buckets) | dict.fromkeys(by_slot, buckets * capacity)
    lengths |= {"leaf_of": buckets, "meta": empty.meta.size}
    own = {name: array for name, array in empty._asdict().items() if name in lengths}
    integrity.forms(
        arrays, {name: integrity.like(array, length=lengths[name]) for name, array in own.items()}
    )
