"""Arrow in: the one place that turns a table from outside into checked NumPy columns.

A table may be anything with the Arrow PyCapsule interface or a dict of equally long sequences. An engine
declares the columns it knows as `Column`s; `read` answers with a `Batch` in which every value is valid, in
the form that `rankcast.columns` gives it. Cost: linear in the size of the table.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa

from rankcast.columns import Column, Ids, Kind, read_column
from rankcast.errors import InputError

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")


@dataclass(frozen=True)
class Batch:
    """The checked columns of one table; a column that was not given is not in `values`."""

    size: int
    values: dict[str, Any] = field(default_factory=dict)

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def __getitem__(self, name: str) -> Any:
        return self.values[name]

    @property
    def ids(self) -> Ids:
        """The column `id`."""
        found: Ids = self.values["id"]
        return found


def read(rows: Any, columns: Iterable[Column], *, where: str, extra: str = "forbid") -> Batch:
    """Check `rows` against the columns an engine knows and return them as NumPy arrays.

    `where` names the table in errors. Unknown columns are refused by name, or
    dropped with `extra="ignore"`.
    """
    known = {column.name: column for column in columns}
    table = as_table(rows, where=where)
    if extra == "forbid":
        for name in table.column_names:
            if name not in known:
                raise InputError.unknown(name, known, where=where, word="column")
    values: dict[str, Any] = {}
    for column in known.values():
        if column.name in table.column_names:
            values[column.name] = read_column(table.column(column.name), column, where)
        elif column.required:
            raise InputError("is missing", where=where, column=column.name, expected=column.kind.value)
    return Batch(table.num_rows, values)


def as_table(rows: Any, *, where: str) -> pa.Table:
    """Any accepted form of rows as one Arrow table with distinct column names."""
    if isinstance(rows, Mapping):
        table = _from_mapping(rows, where)
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
    names = [name for name in table.column_names if not _PANDAS_INDEX.fullmatch(name)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError("is there twice", where=where, column=twice, expected="distinct column names")
    return table if len(names) == table.num_columns else table.select(names)


def read_ids(ids: Any, *, where: str) -> Ids:
    """A sequence of ids, an Arrow or pandas column of them, or a table with a column `id`."""
    if isinstance(ids, str | bytes | int) or ids is None:
        raise InputError(f"got {ids!r}", where=where, expected="a sequence of ids", hint="Wrap it in a list.")
    if isinstance(ids, Mapping | pa.Table | pa.RecordBatch) or hasattr(ids, "columns"):
        return read(ids, [Column("id", Kind.ID)], where=where).ids
    if not isinstance(ids, pa.ChunkedArray):
        array = ids if isinstance(ids, pa.Array) else _array(ids, "id", where)
        ids = pa.chunked_array([array])
    found: Ids = read_column(ids, Column("id", Kind.ID), where)
    return found


def _from_mapping(rows: Mapping[Any, Any], where: str) -> pa.Table:
    """A table from a dict of sequences."""
    arrays = {str(name): _array(values, str(name), where) for name, values in rows.items()}
    if len(arrays) != len(rows):
        raise InputError("two keys have the same name", where=where, expected="distinct column names")
    sizes = {name: len(array) for name, array in arrays.items()}
    if len(set(sizes.values())) > 1:
        first, size = next(iter(sizes.items()))
        name = next(name for name in sizes if sizes[name] != size)
        raise InputError(
            f'has {sizes[name]} rows while column "{first}" has {size}',
            where=where,
            column=name,
            row=min(sizes[name], size),
            expected="equally long columns",
        )
    return pa.table(arrays)


def _array(values: Any, column: str, where: str) -> Any:
    """One sequence as an Arrow array, with a clear word if it has no single type."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
        raise InputError(
            f"is a single {type(values).__name__}", where=where, column=column, expected="a sequence"
        )
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InputError(
            "has no single Arrow type",
            where=where,
            column=column,
            row=_first_odd(values),
            expected="values of one kind",
            detail=f"{str(error).splitlines()[0].rstrip('.')}.",
        ) from error


def _first_odd(values: Sequence[Any]) -> int:
    """The first row at which Arrow gives up; only on the way to an error."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            pa.array(values[:middle])
            low = middle
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            high = middle
    return low
