"""Events of `RangeTopK` as steps: what each row of a batch makes of its object, in order.

An event names an object and gives some of its values. Whether that inserts, updates, moves or deletes
depends on what the rows before it did, so the batch is resolved here once, without a loop: rows are grouped
by object, and within a group values are carried forward. Cost: O(n log n) for n rows.

What a row does to its object:

| `op`     | null in `by`, nulls="delete" | "keep"  | "refuse" | a number, or no column `by` |
| -------- | ---------------------------- | ------- | -------- | --------------------------- |
| (absent) | deletes                      | keeps   | refused  | inserts or updates          |
| upsert   | keeps                        | keeps   | refused  | inserts or updates          |
| remove   | deletes                      | deletes | deletes  | deletes                     |

To keep a value, the object must be there; so it must to be deleted.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.errors import InputError
from rankcast.structures import hashing
from rankcast.structures.ids import Slots, keys_of, select, show
from rankcast.tables import read
from rankcast.tables.readers import read_column
from rankcast.tables.schema import Batch, Bools, Column, Floats, Ids, Kind, Rows
from rankcast.tables.sequences import as_array

NULLS = ("delete", "keep", "refuse")
UPSERT, REMOVE = 0, 1
OP = Column("op", Kind.WORD, required=False, words=("upsert", "remove"))


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


def refuse_nan(rows: Any, names: Sequence[str]) -> None:
    """Refuse NaN in columns of pandas', which would be nulls in Arrow, but for objects that are removed.

    Cost: a look at each value; nothing unless pandas is in use.
    """
    pandas: Any = sys.modules.get("pandas")
    if pandas is None or not isinstance(rows, Mapping | pandas.DataFrame):
        return
    for name in names:
        values = rows.get(name)
        if not isinstance(values, pandas.Series | pandas.Index):
            continue
        odd = _nan_in(values)
        if odd.any() and rows.get("op") is not None:
            odd &= _words(rows.get("op")) != REMOVE
        if odd.any():
            raise InputError(
                "is NaN",
                where="events",
                column=name,
                row=int(np.argmax(odd)),
                expected=Kind.NUMBER.value,
                hint='For a null use pd.NA and the type "Float64"; to delete, op "remove".',
            )


def _nan_in(values: Any) -> Bools:
    """Where a column of pandas' holds NaN; nullable types keep it apart from null themselves."""
    if isinstance(values.dtype, np.dtype) and values.dtype.kind == "f":
        plain: Floats = values.to_numpy()
        return np.isnan(plain)
    if values.dtype != object:
        return np.zeros(len(values), np.bool_)
    nan = (isinstance(each, float | np.floating) and np.isnan(each) for each in values)
    return np.fromiter(nan, np.bool_, len(values))


def emptied(rows: Any, names: Sequence[str]) -> Any:
    """The same rows with nulls for what those that remove an object hold beside its id and op."""
    if isinstance(rows, Mapping):
        known = OP.name in rows
    else:
        rows = rows if isinstance(rows, pa.Table) else read.as_table(rows, where="events")
        known = rows.num_rows > 0 and rows.schema.names.count(OP.name) == 1
    removes = _words(rows[OP.name]) == REMOVE if known else None
    if removes is None or not removes.any():
        return rows
    table = read.as_table(rows, where="events")
    kept = pa.array(np.arange(table.num_rows), mask=removes)
    for place, name in enumerate(table.column_names):
        if name in names:
            table = table.set_column(place, name, table.column(place).take(kept))
    return table


def _words(values: Any) -> NDArray[np.int64]:
    """A column `op`, checked."""
    found: NDArray[np.int64] = read_column(as_array(values, OP.name, "events"), OP, "events")
    return found


def resolve(batch: Batch, objects: Slots, over: list[str], by: str, nulls: str) -> Steps:
    """Read a batch against the live objects; raises before anything has changed."""
    of, first = hashing.distinct(keys_of(batch.ids))
    row = objects.find(batch.ids, where="events")[first]
    order = np.argsort(of, kind="stable")  # rows grouped by object; below, arrays are in this order
    starts = np.diff(of[order], prepend=-1) > 0
    mine = row[of[order]]
    deletes = _deletes(batch, by, nulls)[order]
    present = np.where(starts, mine >= 0, ~np.roll(deletes, 1))
    column, what = (OP.name, 'is "remove"') if OP.name in batch else (by, "is null")
    gone = deletes & ~present
    _refuse(gone, order, batch.ids, column, f"{what} for {{}}, which is not there", "a live object")

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
    y[order[deletes]] = np.nan
    return Steps(select(batch.ids, first), row, of, np.column_stack(x), y)


def _deletes(batch: Batch, by: str, nulls: str) -> Bools:
    """Which rows delete their object; refuses nulls if they are to be refused."""
    removes: Bools = batch[OP.name] == REMOVE if OP.name in batch else np.zeros(batch.size, np.bool_)
    if by not in batch or nulls == "keep" or (nulls == "delete" and OP.name in batch):
        return removes
    null: Bools = np.isnan(batch[by])
    if nulls == "delete":
        return null
    hint = 'To delete, say op "remove"; or make the engine with nulls="delete" or nulls="keep".'
    every = np.arange(batch.size)
    _refuse(null & ~removes, every, batch.ids, by, "is null for {}", Kind.NUMBER.value, hint)
    return removes


def _carried(values: Floats, fresh: Bools) -> Floats:
    """Carry each fresh value forward until the next one."""
    place = np.maximum.accumulate(np.where(fresh, np.arange(values.size), 0))
    return values[place]


def _refuse(
    bad: Bools,
    order: NDArray[np.intp],
    ids: Ids,
    column: str,
    what: str,
    expected: str,
    hint: str | None = None,
) -> None:
    """Raise for the first bad row of the batch."""
    if bad.any():
        row = int(order[bad].min())
        said = what.format(f"object {show(ids, row)}")
        raise InputError(said, where="events", column=column, row=row, expected=expected, hint=hint)
