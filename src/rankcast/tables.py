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

from rankcast.columns import Column, Ids, Kind, is_plain, read_column
from rankcast.errors import InputError

_ID = Column("id", Kind.ID)
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
    given, size = _columns(rows, where)
    if extra == "forbid":
        for name in given:
            if name not in known:
                raise InputError.unknown(name, known, where=where, word="column")
    values: dict[str, Any] = {}
    for name, column in known.items():
        if name in given:
            values[name] = read_column(given[name], column, where)
        elif column.required:
            raise InputError("is missing", where=where, column=name, expected=column.kind.value)
    return Batch(size, values)


def _columns(rows: Any, where: str) -> tuple[dict[str, Any], int]:
    """The columns of any accepted form of rows, by name, and how many rows there are.

    A dict stays one: for a few rows a table in between would cost more than everything else.
    """
    if isinstance(rows, Mapping):
        arrays = {name: data for name, data in _arrays(rows, where).items() if not _is_index(name)}
        return arrays, len(next(iter(arrays.values()), ()))
    table = as_table(rows, where=where)
    return dict(zip(table.column_names, table.columns, strict=True)), table.num_rows


def as_table(rows: Any, *, where: str) -> pa.Table:
    """Any accepted form of rows as one Arrow table with distinct column names."""
    if isinstance(rows, Mapping):
        table = pa.table(_arrays(rows, where))
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
    names = [name for name in table.column_names if not _is_index(name)]
    twice = next((name for name in names if names.count(name) > 1), None)
    if twice is not None:
        raise InputError("is there twice", where=where, column=twice, expected="distinct column names")
    return table if len(names) == table.num_columns else table.select(names)


def read_ids(ids: Any, *, where: str) -> Ids:
    """A sequence of ids, an Arrow or pandas column of them, or a table with a column `id`."""
    if isinstance(ids, str | bytes | int) or ids is None:
        raise InputError(f"got {ids!r}", where=where, expected="a sequence of ids", hint="Wrap it in a list.")
    if isinstance(ids, Mapping | pa.Table | pa.RecordBatch) or hasattr(ids, "columns"):
        return read(ids, [_ID], where=where).ids
    found: Ids = read_column(_array(ids, "id", where), _ID, where)
    return found


def _is_index(name: str) -> bool:
    """Whether a column is only the index of a pandas frame."""
    return name.startswith("__") and _PANDAS_INDEX.fullmatch(name) is not None


def _arrays(rows: Mapping[Any, Any], where: str) -> dict[str, Any]:
    """Equally long columns from a dict of sequences."""
    arrays = {str(name): _array(values, str(name), where) for name, values in rows.items()}
    if len(arrays) != len(rows):
        raise InputError("two keys have the same name", where=where, expected="distinct column names")
    if len({len(array) for array in arrays.values()}) > 1:
        sizes = {name: len(array) for name, array in arrays.items()}
        first, size = next(iter(sizes.items()))
        name = next(name for name in sizes if sizes[name] != size)
        raise InputError(
            f'has {sizes[name]} rows while column "{first}" has {size}',
            where=where,
            column=name,
            row=min(sizes[name], size),
            expected="equally long columns",
        )
    return arrays


def _array(values: Any, column: str, where: str) -> Any:
    """One sequence as an Arrow array, with a clear word if it has no single type.

    A NumPy array that `read_column` takes as it is stays one.
    """
    if isinstance(values, pa.Array | pa.ChunkedArray) or is_plain(values):
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
