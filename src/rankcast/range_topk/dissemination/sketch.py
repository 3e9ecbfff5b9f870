"""A cover of all subscriptions by a few boxes: the top of a point tree, cut off.

The cover is a point tree whose leaves have no bucket: a box stands for everything in it. Painting asks it
instead of the points; tiles are then shrunk to what the boxes cover, and merged only where no box strays.
So nobody is told who was not to be told, and nobody is missed; but a tile may reach nobody, and fewer are
merged. [Range §III-B, Remark]
"""

from __future__ import annotations

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.range_topk.kernels.point_tree import PointTree
from rankcast.structures.jit import EXACT


@njit(**EXACT)
def cut(points: PointTree, cover: PointTree, origin: NDArray[np.int32], boxes: int) -> None:
    """Copy the topmost nodes, level by level, until there are so many leaves or no more to split."""
    used, leaves, at = 1, 1, 0
    origin[0] = 0
    while at < used:
        node = origin[at]
        cover.box[at], cover.size[at] = points.box[node], points.size[node]
        if leaves < boxes and points.child[node, 0] >= 0:
            for side in range(2):
                cover.child[at, side], origin[used] = used, points.child[node, side]
                used += 1
            leaves += 1
        at += 1


def cover(points: PointTree, boxes: int) -> PointTree:
    """The cover of a point tree by at most so many boxes. O(boxes)."""
    nodes = 2 * min(boxes, points.size.shape[0]) + 1
    empty = points._replace(
        box=np.zeros((nodes, 4)),
        child=np.full((nodes, 2), -1, np.int32),
        size=np.zeros(nodes, np.int32),
        bucket=np.full(nodes, -1, np.int32),
    )
    cut(points, empty, np.zeros(nodes, np.int32), boxes)
    return empty
