"""Maximal boxes of a set, through a k-d tree over those kept so far."""

from __future__ import annotations

import numpy as np

from rankcast.boxes import Boxes
from rankcast.columns import Rows
from rankcast.indexes.covering_boxes import BoxIndex
from rankcast.kernels.covering_buckets import GONE, World
from rankcast.kernels.covering_order import containers_first
from rankcast.kernels.maxima import keep_maximal


def maximal(boxes: Boxes) -> Rows:
    """The places, ascending, of boxes that no other contains; of equal ones the first.

    Cost: a sort and one search each, in an index that holds maximal boxes only.
    """
    count = boxes.lo.shape[0]
    ends = (np.ascontiguousarray(boxes.lo), np.ascontiguousarray(boxes.hi))
    world = World(*ends, np.full(count, GONE, np.int8), np.arange(count))
    order = containers_first(world, np.arange(count, dtype=np.int32))
    index = BoxIndex("kdtree", boxes.lo.shape[1])
    index.reserve(count)
    done = 0
    while done < count:
        index.ready(world)
        done = keep_maximal(index.index, world, order, done)
    return index.rows()
