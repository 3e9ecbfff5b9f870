"""Events of `RangeTopK` as steps: what each row of a batch makes of its object, in order.

An event names an object and gives some of its values. Whether that inserts, updates, moves or deletes
depends on what the rows before it did, so the batch is resolved here once, without a loop: rows are grouped
by object, and within a group values are carried forward. Cost: O(n log n) for n rows.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from rankcast.columns import Bools, Floats, Ids, Rows
from rankcast.errors import InputError
from rankcast.indexes.slots import Slots, keys_of, select, show
from rankcast.kernels import hashing
from rankcast.layouts import Batch


class Steps(NamedTuple):
    """A batch, resolved. Per object it names (`ids`, `row`, -1 if new) and per event (`of`, `x`, `y`)."""

    ids: Ids
    row: Rows
    of: Rows  # which object
    x: Floats  # (n, d), values after the event
    y: Floats  # NaN: the event deletes the object

    def last(self) -> Rows:
        """For each object its last event: the net effect of the batch."""
        place = np.empty(self.row.size, np.int32)
        place[self.of] = np.arange(self.of.size, dtype=np.int32)
        return place


def resolve(batch: Batch, objects: Slots, over: list[str], by: str) -> Steps:
    """Read a batch against the live objects; raises before anything has changed."""
    of, first = hashing.distinct(keys_of(batch.ids))
    row = objects.find(batch.ids, where="events")[first]
    order = np.argsort(of, kind="stable")  # rows grouped by object; below, arrays are in this order
    starts = np.diff(of[order], prepend=-1) > 0
    mine = row[of[order]]
    deletes = np.isnan(batch[by])[order] if by in batch else np.zeros(of.size, np.bool_)
    present = np.where(starts, mine >= 0, ~np.roll(deletes, 1))
    _refuse(deletes & ~present, order, batch.ids, by, "is null for {}, which is not there", "a live object")

    def values_of(name: str, held: Floats) -> Floats:
        """One column with what was not given filled in from the row before or from the live object."""
        values = batch[name][order] if name in batch else np.full(of.size, np.nan)
        given = ~np.isnan(values)
        lacking = ~present & ~deletes & ~given
        _refuse(lacking, order, batch.ids, name, "has no value for {}, which is new", "a number")
        values = np.where(starts & ~given & (mine >= 0), held[np.maximum(mine, 0)], values)
        filled = np.empty(of.size)
        filled[order] = _carried(values, given | starts)
        return filled

    x = [values_of(name, objects["x"][:, place]) for place, name in enumerate(over)]
    y = values_of(by, objects["y"])
    if by in batch:
        y = np.asarray(batch[by], np.float64)
    return Steps(select(batch.ids, first), row, of, np.column_stack(x), y)


def _carried(values: Floats, fresh: Bools) -> Floats:
    """Carry each fresh value forward until the next one."""
    place = np.maximum.accumulate(np.where(fresh, np.arange(values.size), 0))
    return values[place]


def _refuse(bad: Bools, order: NDArray[np.intp], ids: Ids, column: str, what: str, expected: str) -> None:
    """Raise for the first bad row of the batch."""
    if bad.any():
        row = int(order[bad].min())
        said = what.format(f"object {show(ids, row)}")
        raise InputError(said, where="events", column=column, row=row, expected=expected)
