"""Arrow in: the one place that turns a table from outside into checked NumPy columns.

A table may be anything with the Arrow PyCapsule interface or a dict of equally long sequences. An engine
declares the columns it knows as `Column`s; `read` answers with a `Batch` in which every value is valid, in
the form that `rankcast.columns` tells of. Cost: linear in the size of the table; for a few rows a microsecond
or less a column, because numbers are taken over and checked together, and a `Form` remembers layouts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.columns import Column, Floats, Ids, Kind, integer_ids
from rankcast.errors import InputError
from rankcast.kernels import lines
from rankcast.layouts import Batch, Form, Layout, is_index
from rankcast.readers import all_numbers, is_plain, plain, read_column
from rankcast.sequences import FEW, as_array, as_arrays

_ID = Column("id", Kind.ID)
_IDS = Form([_ID])


def read(rows: Any, columns: Iterable[Column], *, where: str, extra: str = "forbid") -> Batch:
    """Check `rows` against the columns an engine knows and return them as NumPy arrays.

    `where` names the table in errors. Unknown columns are refused by name, or dropped with `extra="ignore"`.
    Columns that come as a `Form` need not be looked at again.
    """
    form = columns if type(columns) is Form else Form(columns)
    if type(rows) is not pa.Table and isinstance(rows, Mapping):
        layout = form.of_names(tuple(rows), where, extra)
        found = _plain(list(rows.values()), layout)
        if found is not None:
            return found
        arrays = as_arrays(rows, where)
        size = len(arrays[0]) if arrays else 0
        numbers = _stacked([arrays[place] for place, _ in layout.numbers]) if size <= FEW else None
        return _batch(size, layout, numbers, arrays.__getitem__, where)
    table = rows if isinstance(rows, pa.Table | pa.RecordBatch) else as_table(rows, where=where)
    layout, size = form.of_schema(table.schema, where, extra), table.num_rows
    if not 0 < size <= FEW:
        return _batch(size, layout, None, table.column, where)
    parts = table.to_batches() if isinstance(table, pa.Table) else [table]
    if len(parts) > 1:
        return _batch(size, layout, None, table.column, where)
    found = _whole(parts[0], size, layout) if layout.whole else None
    return found or _batch(size, layout, _tensor(parts[0], layout), parts[0].column, where)


def _batch(size: int, layout: Layout, numbers: Floats | None, column_at: Any, where: str) -> Batch:
    """The checked columns: numbers together if they are there and fine, all others one by one."""
    values = {column.name: read_column(column_at(place), column, where) for place, column in layout.others}
    if numbers is not None and lines.are_finite(numbers):
        return Batch(size, values, layout.names, numbers)
    for place, column in layout.numbers:
        values[column.name] = read_column(column_at(place), column, where)
    return Batch(size, values)


def _whole(part: pa.RecordBatch, size: int, layout: Layout) -> Batch | None:
    """All columns from one message of Arrow's, four times faster than one by one; None if that cannot be.

    Without nulls the message ends with the columns one behind the other; its first word holds, in the upper
    half, how many bytes stand between that word and them.
    """
    words = np.frombuffer(part.serialize(), np.int64)
    count = size * (len(layout.numbers) + 1)
    if words.size - 1 - (words.item(0) >> 35) != count:
        return None
    columns = words[-count:].reshape(-1, size)
    numbers = columns[[place for place, _ in layout.numbers]].view(np.float64)
    if not lines.are_finite(numbers):
        return None
    place, column = layout.others[0]
    return Batch(size, {column.name: integer_ids(columns[place])}, layout.names, numbers)


def _plain(arrays: list[Any], layout: Layout) -> Batch | None:
    """Columns of a dict of a few rows that are ids and numbers as NumPy holds them; None for any other."""
    if len(layout.others) != 1 or len(arrays) != len(layout.numbers) + 1 or not layout.numbers:
        return None
    place, column = layout.others[0]
    ids = arrays[place]
    if column.kind is not Kind.ID or not is_plain(ids) or ids.dtype.char != "l" or not 0 < ids.size <= FEW:
        return None
    taken = [arrays[place] for place, _ in layout.numbers]
    for each in taken:
        if type(each) is not np.ndarray or each.dtype.char != "d" or each.shape != ids.shape:
            return None
    numbers = np.array(taken)
    if not lines.are_finite(numbers):
        return None
    return Batch(ids.size, {column.name: integer_ids(ids)}, layout.names, numbers)


def _stacked(arrays: list[Any]) -> Floats | None:
    """Columns of float64 as the lines of one array; None if one of them cannot stand there as it is."""
    for place, array in enumerate(arrays):
        if type(array) is not np.ndarray:
            return None
        if array.dtype.char != "d":
            if not all_numbers(array):
                return None
            arrays[place] = array.astype(np.float64)
    return np.array(arrays) if arrays else None


def _tensor(batch: pa.RecordBatch, layout: Layout) -> Floats | None:
    """The numbers of a batch as the lines of one array; None if there are nulls."""
    if not layout.numbers:
        return None
    try:
        tensor = batch.select([place for place, _ in layout.numbers]).to_tensor(row_major=False)
    except pa.ArrowTypeError:
        return None
    numbers: Floats = tensor.to_numpy().T
    return numbers


def as_table(rows: Any, *, where: str) -> pa.Table:
    """Any accepted form of rows as one Arrow table with distinct column names."""
    if isinstance(rows, Mapping):
        table = pa.table(dict(zip(map(str, rows), as_arrays(rows, where), strict=True)))
    elif isinstance(rows, pa.Table | pa.RecordBatch) or hasattr(rows, "__arrow_c_stream__"):
        try:
            table = pa.table(rows)
        except (pa.ArrowException, TypeError, ValueError) as error:
            raise InputError(f"cannot be read as a table: {error}", where=where) from error
    else:
        raise InputError(
            f"cannot read rows from {type(rows).__name__}",
            where=where,
            hint="Pass a pyarrow Table, a pandas or polars DataFrame, or a dict of equally long sequences.",
        )
    names = [name for name in table.column_names if not is_index(name)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError("is there twice", where=where, column=twice, expected="distinct column names")
    return table if len(names) == table.num_columns else table.select(names)


def read_ids(ids: Any, *, where: str) -> Ids:
    """A sequence of ids, an Arrow or pandas column of them, or a table with a column `id`."""
    if type(ids) is list and 0 < len(ids) <= FEW:
        whole = plain(ids)
        if whole is not None and whole.dtype.char == "l":
            return integer_ids(whole)
    if isinstance(ids, str | bytes | int) or ids is None:
        raise InputError(f"got {ids!r}", where=where, expected="a sequence of ids", hint="Wrap it in a list.")
    if isinstance(ids, Mapping | pa.Table | pa.RecordBatch) or hasattr(ids, "columns"):
        return read(ids, _IDS, where=where).ids
    found: Ids = read_column(as_array(ids, "id", where), _ID, where)
    return found
