"""Maximal boxes of a set, through a k-d tree over those kept so far."""

from __future__ import annotations

import numpy as np

from rankcast.covering.index import BoxIndex
from rankcast.covering.kernels import maxima
from rankcast.covering.kernels.covering_buckets import COVERED, World
from rankcast.covering.kernels.covering_order import containers_first
from rankcast.tables.boxes import Boxes
from rankcast.tables.schema import Rows

SAMPLE = 4096


def maximal(boxes: Boxes) -> Rows:
    """The places, ascending, of boxes that no other contains; of equal ones the first.

    Most boxes of a large set lie in one of its widest: those that do are put aside first, in the order in
    which they lie in memory. Cost: one search each among maximal ones of the widest boxes; for those that are
    left a sort, and one search each in an index that holds maximal boxes only.
    """
    count = boxes.lo.shape[0]
    ends = (np.ascontiguousarray(boxes.lo), np.ascontiguousarray(boxes.hi))
    world = World(*ends, np.full(count, COVERED, np.int8), np.arange(count))
    rows = np.arange(count, dtype=np.int32)
    if count > 4 * SAMPLE:
        widest = np.argpartition((ends[0] - ends[1]).sum(axis=1), SAMPLE)[:SAMPLE]
        rows = maxima.uncovered(_kept(world, widest.astype(np.int32)).index, world, rows)
    return _kept(world, rows).rows()


def _kept(world: World, rows: Rows) -> BoxIndex:
    """An index over the maximal ones of rows."""
    order = containers_first(world, rows)
    index = BoxIndex("kdtree", world.lo.shape[1])
    done = 0
    while done < rows.size:
        index.ready(world)
        done = maxima.keep_maximal(index.index, world, order, done)
    return index
