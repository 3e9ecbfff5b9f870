"""What events of `RangeTopK` do to the live objects; NaN in frames of pandas'; words that remove.

An event names an object and gives some of its values. Whether that inserts, updates, moves or deletes depends
on what the rows before it did, so a batch is resolved once, in one pass: each row takes what it does not
give from the row before on the same object, or from the object itself. Cost: O(n) for n rows.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.errors import InputError
from rankcast.range_topk.kernels import apply_tiles
from rankcast.range_topk.kernels.apply_tiles import (
    ABSENT,
    DELETES,
    KEEPS,
    LACKING,
    NULL,
    REFUSED,
    REMOVE,
)
from rankcast.range_topk.state import Events
from rankcast.structures.ids import Slots, keys_of, select, show
from rankcast.tables import read
from rankcast.tables.readers import read_column
from rankcast.tables.schema import Batch, Bools, Column, Floats, Ids, Ints, Kind
from rankcast.tables.sequences import as_array

NO_WORDS: Ints = np.empty(0, np.int64)
OP = Column("op", Kind.WORD, required=False, words=("upsert", "remove"))


def refuse_nan(rows: Any, names: Sequence[str]) -> None:
    """Refuse NaN in columns of pandas', which would be nulls in Arrow, but for objects that are removed.

    Cost: a look at each value; nothing unless pandas is in use.
    """
    pandas: Any = sys.modules.get("pandas")
    if pandas is None or not isinstance(rows, Mapping | pandas.DataFrame):
        return
    for name in names:
        values = rows.get(name)
        if not issubclass(type(values), pandas.Series | pandas.Index):  # __class__ may be foreign code
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


def resolve(batch: Batch, objects: Slots, over: list[str], by: str, nulls: str) -> tuple[Events, Ids | None]:
    """Read a batch against the live objects; raises before anything has changed.

    New objects have no row yet: the n-th of them, whose ids come second, has -1 - n instead.
    """
    ids, size, width = batch.ids, batch.size, len(over)
    if objects.kind != ids.kind and objects.kind is not None:
        objects.find(ids, where="events")  # refuses them
    removes: Ints = np.array(batch[OP.name], np.int64) if OP.name in batch else NO_WORDS
    null = KEEPS
    if nulls != "keep" and by in batch:
        null = REFUSED if nulls == "refuse" else KEEPS if OP.name in batch else DELETES
    row, first, x, y = (
        np.empty(size, np.int32),
        np.empty(size, np.int32),
        np.empty((size, width)),
        np.empty(size),
    )
    new, gone, wrong, bad = apply_tiles.resolve(
        objects.register()[:6],
        keys_of(ids, objects.seed),
        (objects["x"], objects["y"]),
        _numbers(batch, [*over, by]),
        removes,
        null,
        (row, x, y, first),
    )
    if wrong >= 0:
        raise _refusal(batch, [*over, by], wrong, bad)
    return Events(row, x, y, gone), select(ids, first[:new]) if new else None


def _numbers(batch: Batch, names: list[str]) -> Floats:
    """Columns of numbers as the lines of one array, NaN where nothing is given."""
    if batch.numbers is not None and len(batch.lines) == len(names):
        return np.array(batch.numbers, order="C")
    lines = np.full((len(names), batch.size), np.nan)
    for line, name in enumerate(names):
        if name in batch:
            lines[line] = batch[name]
    return lines


def _refusal(batch: Batch, names: list[str], wrong: int, row: int) -> InputError:
    """What is to be said of the first bad row."""
    told, hint = f"object {show(batch.ids, row)}", None
    if wrong == NULL:
        column, what, expected = names[-1], f"is null for {told}", Kind.NUMBER.value
        hint = 'To delete, say op "remove"; or make the engine with nulls="delete" or nulls="keep".'
    elif wrong == ABSENT:
        column, said = (OP.name, 'is "remove"') if OP.name in batch else (names[-1], "is null")
        what, expected = f"{said} for {told}, which is not there", "a live object"
    else:
        column, what = names[wrong - LACKING], f"has no value for {told}, which is new"
        expected = "a number"
    return InputError(what, where="events", column=column, row=row, expected=expected, hint=hint)
