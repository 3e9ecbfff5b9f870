"""What `RangeTopK` refuses: NaN in frames of pandas', odd events, odd boxes; and words that remove."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.errors import InputError
from rankcast.range_topk.kernels.apply_tiles import ABSENT, LACKING, NULL, REMOVE
from rankcast.structures.ids import show
from rankcast.tables import read
from rankcast.tables.boxes import Boxes
from rankcast.tables.readers import read_column
from rankcast.tables.schema import Batch, Bools, Column, Floats, Ints, Kind
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


def refusal(batch: Batch, names: list[str], wrong: int, row: int) -> InputError:
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


def refuse_other_side(given: Boxes, sides: str, attribute: str) -> None:
    """Refuse boxes that bound the second attribute on the side that `sides` does not name."""
    end, other = ("lo", given.lo) if sides == "upper" else ("hi", given.hi)
    bounded = np.isfinite(other[:, 1])
    if bounded.any():
        raise InputError(
            f"is {other[np.argmax(bounded), 1]}",
            where="subscriptions",
            column=f"{attribute}_{end}",
            row=int(np.argmax(bounded)),
            expected=f'null: the engine is made with sides="{sides}"',
        )


def refuse_names(attributes: Sequence[str], *, k: bool, sequence: bool = False) -> None:
    """Refuse messages of which a column has the name of an attribute."""
    if k and "k" in attributes:
        raise InputError(
            "a live subscription has a k of its own, and messages have an attribute of that name",
            where="disseminate",
            expected='no attribute called "k"',
        )
    if sequence and "sequence" in attributes:
        raise InputError(
            "messages have an attribute called sequence", where="disseminate", expected="numbered=False"
        )
