"""The arrays of a point tree: made, made longer, and checked."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from rankcast.range_topk.kernels import point_tree
from rankcast.range_topk.kernels.point_tree import BUCKET, BUCKET_USED, BUCKETS, FILL, PointTree
from rankcast.range_topk.objects import Rows, lengthened

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
        arrays[name] = lengthened(arrays.pop(name), size)
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
