"""`maxima`: the boxes of a set that no other box contains, found with a k-d tree over those kept so far."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.core.engine import ID
from rankcast.covering.index import ContainmentIndex
from rankcast.covering.kernels.containment import COVERED, Subscriptions
from rankcast.covering.kernels.index import containers_first, keep_maximal, uncovered
from rankcast.structures.ids import Slots, select
from rankcast.tables import boxes, read, schema
from rankcast.tables.boxes import Boxes
from rankcast.tables.schema import Rows, arrow

SAMPLE = 4096


def maximal(boxes: Boxes) -> Rows:
    """The positions, ascending, of boxes that no other contains; of equal ones the first.

    Most boxes of a large set lie in one of its widest: these are set aside first, in memory
    order. Cost: one search each among the maximal ones of the widest boxes; for those that
    remain a sort, and one search each in an index that holds maximal boxes only.
    """
    count = boxes.lo.shape[0]
    ends = (np.ascontiguousarray(boxes.lo), np.ascontiguousarray(boxes.hi))
    subs = Subscriptions(*ends, np.full(count, COVERED, np.int8), np.arange(count))
    rows = np.arange(count, dtype=np.int32)
    if count > 4 * SAMPLE:
        widest = np.argpartition((ends[0] - ends[1]).sum(axis=1), SAMPLE)[:SAMPLE]
        rows = uncovered(_kept(subs, widest.astype(np.int32)).index, subs, rows)
    return _kept(subs, rows).rows()


def _kept(subs: Subscriptions, rows: Rows) -> ContainmentIndex:
    """An index over the maximal ones of rows."""
    order = containers_first(subs, rows)
    index = ContainmentIndex("kdtree", subs.lo.shape[1])
    index.reserve(subs.status.size)
    done = 0
    while done < rows.size:
        index.prepare(subs)
        done = keep_maximal(index.index, subs, order, done)
    return index


def maxima(rows: Any, *, over: str | Sequence[str]) -> pa.Table:
    """The boxes that no other box contains, as a table with the column `id`, in the order given.

    `rows` has `id` and, for each attribute of `over`, `<attribute>_lo` and `<attribute>_hi` (null or absent:
    unbounded). Of equal boxes the first one stays. Cost: a sort, and for each box a search among those that
    stay.

    >>> maxima({"id": [1, 2, 3], "x_lo": [0, 1, 4], "x_hi": [3, 2, 5]}, over="x")["id"].to_pylist()
    [1, 3]
    """
    names = schema.attributes("over", over)
    batch = read.read(rows, [ID, *boxes.columns(names)], where="boxes")
    Slots.refuse_duplicates(batch.ids, where="boxes")
    given = boxes.read(batch, names, where="boxes")
    return pa.table({"id": arrow(select(batch.ids, maximal(given)))})
