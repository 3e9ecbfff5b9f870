"""Arrow in: the one place that turns a table from outside into checked NumPy columns.

A table may be anything with the Arrow PyCapsule interface or a dict of equally long sequences. An engine
declares the columns it knows as `Column`s; `read` answers with a `Batch` in which every value is valid, in
the form that `rankcast.columns` gives it. Cost: linear in the size of the table; for a few rows a microsecond
or less a column, because numbers are taken over and checked together, and a `Form` remembers layouts.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast.columns import (
    Column,
    Floats,
    Ids,
    Kind,
    all_numbers,
    integer_ids,
    is_plain,
    plain,
    read_column,
)
from rankcast.errors import InputError
from rankcast.kernels import lines

_ID = Column("id", Kind.ID)
_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_FLOAT64, _INT64 = pa.float64(), pa.int64()
_FEW = 1024  # rows up to which numbers are read together: beyond, a copy costs more than the calls


@dataclass(slots=True)
class Batch:
    """The checked columns of one table, by name; one that was not given is not there.

    Numbers that were read together are the lines of `numbers`, as `names` says; `apart` holds all others.
    """

    size: int
    apart: dict[str, Any]
    names: tuple[str, ...] = ()
    numbers: Floats | None = None

    def __contains__(self, name: str) -> bool:
        return name in self.apart or name in self.names

    def __getitem__(self, name: str) -> Any:
        if name in self.apart or self.numbers is None:
            return self.apart[name]
        return self.numbers[self.names.index(name)]

    @property
    def values(self) -> dict[str, Any]:
        """All columns."""
        together = () if self.numbers is None else self.numbers
        return {**self.apart, **dict(zip(self.names, together, strict=True))}

    @property
    def ids(self) -> Ids:
        """The column `id`."""
        found: Ids = self.apart["id"]
        return found


class Layout(NamedTuple):
    """Where the columns that are read stand in a table: numbers, as declared, and all others.

    `whole`: the table has nothing else, and is of float64 and int64 alone, the latter being the ids.
    """

    names: tuple[str, ...]
    numbers: tuple[tuple[int, Column], ...]
    others: tuple[tuple[int, Column], ...]
    whole: bool = False


class Form:
    """The columns that an engine knows, and the layouts of the tables that it read last.

    Made once, it spares every further table of the same layout the look at its names and types.
    """

    def __init__(self, columns: Iterable[Column]) -> None:
        self.known = {column.name: column for column in columns}
        self._by_names: tuple[Any, Layout] | None = None
        self._by_schema: tuple[Any, Layout] | None = None

    def __iter__(self) -> Iterator[Column]:
        return iter(self.known.values())

    def of_names(self, names: tuple[Any, ...], where: str, extra: str) -> Layout:
        """The layout of columns with these names; refuses what does not fit."""
        seen = self._by_names
        if seen is None or seen[0] != (names, extra):
            seen = self._by_names = ((names, extra), self._layout(list(map(str, names)), where, extra))
        return seen[1]

    def of_schema(self, schema: pa.Schema, where: str, extra: str) -> Layout:
        """The layout of an Arrow table; only columns of float64 count as numbers there."""
        seen = self._by_schema
        if seen is None or seen[0][1] != extra or not schema.equals(seen[0][0]):
            found, types = self._layout(schema.names, where, extra), schema.types
            plain_ones = tuple(each for each in found.numbers if types[each[0]] == _FLOAT64)
            odd = tuple(each for each in found.numbers if each not in plain_ones)
            whole = [types[place] for place, _ in found.others] == [_INT64] and self.known[
                "id"
            ].kind is Kind.ID
            whole = whole and len(plain_ones) == len(types) - 1 > 0
            names = tuple(column.name for _, column in plain_ones)
            layout = Layout(names, plain_ones, found.others + odd, whole)
            seen = self._by_schema = ((schema, extra), layout)
        return seen[1]

    def _layout(self, names: list[str], where: str, extra: str) -> Layout:
        places = {name: place for place, name in enumerate(names) if not _is_index(name)}
        for place, name in enumerate(names):
            if places.get(name, place) != place:
                raise InputError("is there twice", where=where, column=name, expected="distinct column names")
            if extra == "forbid" and name in places and name not in self.known:
                raise InputError.unknown(name, self.known, where=where, word="column")
        for name, column in self.known.items():
            if column.required and name not in places:
                raise InputError("is missing", where=where, column=name, expected=column.kind.value)
        given = [(places[name], column) for name, column in self.known.items() if name in places]
        numbers = tuple(each for each in given if each[1].kind is Kind.NUMBER)
        others = tuple(each for each in given if each[1].kind is not Kind.NUMBER)
        return Layout(tuple(column.name for _, column in numbers), numbers, others)


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
        arrays = _arrays(rows, where)
        size = len(arrays[0]) if arrays else 0
        numbers = _stacked([arrays[place] for place, _ in layout.numbers]) if size <= _FEW else None
        return _batch(size, layout, numbers, arrays.__getitem__, where)
    table = rows if isinstance(rows, pa.Table | pa.RecordBatch) else as_table(rows, where=where)
    layout, size = form.of_schema(table.schema, where, extra), table.num_rows
    if not 0 < size <= _FEW:
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
    if column.kind is not Kind.ID or not is_plain(ids) or ids.dtype.char != "l" or not 0 < ids.size <= _FEW:
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
        table = pa.table(dict(zip(map(str, rows), _arrays(rows, where), strict=True)))
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
    if type(ids) is list and 0 < len(ids) <= _FEW:
        whole = plain(ids)
        if whole is not None and whole.dtype.char == "l":
            return integer_ids(whole)
    if isinstance(ids, str | bytes | int) or ids is None:
        raise InputError(f"got {ids!r}", where=where, expected="a sequence of ids", hint="Wrap it in a list.")
    if isinstance(ids, Mapping | pa.Table | pa.RecordBatch) or hasattr(ids, "columns"):
        return read(ids, _IDS, where=where).ids
    found: Ids = read_column(_array(ids, "id", where), _ID, where)
    return found


def _is_index(name: str) -> bool:
    """Whether a column is only the index of a pandas frame."""
    return name.startswith("__") and _PANDAS_INDEX.fullmatch(name) is not None


def _arrays(rows: Mapping[Any, Any], where: str) -> list[Any]:
    """Equally long columns from a dict of sequences."""
    arrays = [_array(values, name, where) for name, values in rows.items()]
    if len(set(map(len, arrays))) > 1:
        names, size = list(map(str, rows)), len(arrays[0])
        odd = next(place for place, array in enumerate(arrays) if len(array) != size)
        raise InputError(
            f'has {len(arrays[odd])} rows while column "{names[0]}" has {size}',
            where=where,
            column=names[odd],
            row=min(len(arrays[odd]), size),
            expected="equally long columns",
        )
    return arrays


def _array(values: Any, column: Any, where: str) -> Any:
    """One sequence as an Arrow array, with a clear word if it has no single type.

    What `read_column` takes as a NumPy array is one.
    """
    if is_plain(values) or isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
        raise InputError(
            f"is a single {type(values).__name__}", where=where, column=str(column), expected="a sequence"
        )
    if type(values) is list and len(values) <= _FEW:
        found = plain(values)
        if found is not None:
            return found
    try:
        return pa.array(values)
    except (pa.ArrowException, OverflowError, TypeError, ValueError) as error:
        raise InputError(
            "has no single Arrow type",
            where=where,
            column=str(column),
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
