"""The one place that turns an external table into checked NumPy columns.

A table may be anything with the Arrow PyCapsule interface, a dict of equally long sequences or a list of
dicts. An engine declares the columns it knows as `Column`s; `read` returns a `Batch` in which every
value is valid, in the form that `rankcast.tables.schema` describes. Cost: linear in the size of the table.

A few rows that contain only what their columns expect (numbers, strings, lists of strings, datetimes)
become columns by a loop over their values, without Arrow, whose calls would cost more than the values
(`read_few`). Anything else takes the long way, which reads it or reports what is wrong; so errors come from
one place.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from datetime import UTC, datetime, timedelta, timezone
from itertools import accumulate, chain
from numbers import Number
from typing import Any, TypeVar
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa

from rankcast.errors import InputError, shown
from rankcast.structures import arrays as lines
from rankcast.tables.readers import PLAIN_TYPES, all_numbers, is_plain, plain, read_column, reason, sound
from rankcast.tables.schema import (
    NO_OFFSETS,
    NO_TEXT,
    NO_TIME,
    NO_VALUES,
    Batch,
    Column,
    Floats,
    Form,
    Ids,
    Ints,
    Kind,
    Layout,
    NameLists,
    Names,
    Terms,
    integer_ids,
    is_index,
)
from rankcast.tables.sequences import FEW, as_array, as_arrays, named_reason

HINT = (
    "Pass a pyarrow Table, a pandas or polars DataFrame, a dict of equally long sequences or a list of dicts."
)
T = TypeVar("T")
LONG = 1 << 16  # bytes of a table; in a longer one lists may reach a small part of their values
SMALL = 64  # rows up to which a loop over values is quicker than Arrow
_EXACT = 2**53  # whole numbers below this are float64 as they are
_LEAST, _MOST = -(2**63), 2**63 - 1
_EPOCH, _EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ZONES = (type(None), timezone, ZoneInfo)  # no code of anybody else
_YEARS = range(1678, 2262)  # whose nanoseconds 64 bits hold


def attempted(look: Callable[[], T], where: str) -> T:
    """The result of looking at a foreign object; what it raises becomes an `InputError`."""
    try:
        return look()
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError(
            "cannot be read as rows", where=where, detail=named_reason(error), hint=HINT
        ) from error


_ID = Column("id", Kind.ID)
_IDS = Form([_ID])
_OPEN = (dict, pa.Table, pa.RecordBatch)


def read(rows: Any, columns: Iterable[Column], *, where: str, extra: str = "forbid") -> Batch:
    """Check `rows` against the columns an engine knows and return them as NumPy arrays.

    `where` names the table in errors. Unknown columns are refused by name, or dropped with `extra="ignore"`.
    Columns that come as a `Form` need not be looked at again.
    """
    form = columns if type(columns) is Form else Form(columns)
    opened = rows if type(rows) in _OPEN else attempted(lambda: _opened(rows, where), where)
    if type(opened) is dict:
        return _read_columns(opened, form, where, extra)
    if not opened.num_columns and not opened.num_rows:
        return _read_columns(_nothing(form), form, where, extra)
    return _read_table(_sound(opened, where), form, where, extra)


def check_columns(columns: pa.Schema, form: Form, *, where: str, extra: str) -> None:
    """Refuse what `read` would refuse of a table with these columns and no rows.

    Only columns whose type is not obviously right are read: converting even an empty one imports pandas.
    """
    layout = form.of_schema(columns, where, extra)
    for place, column in (*layout.numbers, *layout.others):
        if columns.types[place] not in PLAIN_TYPES[column.kind]:
            read_column(pa.nulls(0, columns.types[place]), column, where)


def _nothing(form: Form) -> dict[str, list[Any]]:
    """No rows, with the required columns."""
    return {column.name: [] for column in form if column.required}


def _opened(rows: Any, where: str) -> Any:
    """Rows of any accepted form as a dict of columns or as an Arrow table, not yet checked."""
    if isinstance(rows, pa.Table | pa.RecordBatch):
        return rows
    if isinstance(rows, Mapping):
        return dict(rows)
    if is_records(rows):
        return from_records(rows, where) if rows else pa.table({})
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        return pa.table(rows)
    raise InputError(f"cannot read rows from {type(rows).__name__}", where=where, hint=HINT)


def _read_columns(rows: dict[Any, Any], form: Form, where: str, extra: str) -> Batch:
    """A dict of columns."""
    layout = attempted(lambda: form.of_names(tuple(rows), where, extra), where)
    columns = list(rows.values())
    found = read_few(columns, layout) or _plain(columns, layout)
    if found is not None:
        return found
    arrays = as_arrays(rows, where, form.known)
    size = len(arrays[0]) if arrays else 0
    numbers = _stacked([arrays[place] for place, _ in layout.numbers]) if size <= FEW else None
    return _batch(size, layout, numbers, arrays.__getitem__, where)


def _read_table(table: pa.Table | pa.RecordBatch, form: Form, where: str, extra: str) -> Batch:
    """A valid Arrow table."""
    layout = attempted(lambda: form.of_schema(table.schema, where, extra), where)
    size = table.num_rows
    if not 0 < size <= FEW:
        return _batch(size, layout, None, table.column, where)
    parts = table.to_batches() if isinstance(table, pa.Table) else [table]
    if len(parts) > 1:
        return _batch(size, layout, None, table.column, where)
    found = _whole(parts[0], size, layout) if layout.whole else None
    return found or _batch(size, layout, _tensor(parts[0], layout), parts[0].column, where)


def _sound(table: Any, where: str) -> Any:
    """An Arrow table without damage that Arrow can see; otherwise the error names a damaged column."""
    try:
        if table.get_total_buffer_size() > LONG and any(kind.num_fields for kind in table.schema.types):
            table.validate()
            for column in table.columns:
                for array in column.chunks if isinstance(column, pa.ChunkedArray) else [column]:
                    _validate(array)
        else:
            table.validate(full=True)
    except pa.ArrowException as error:
        _sound_columns(table, where)
        raise InputError("is a damaged Arrow table", where=where, detail=reason(error)) from error
    return table


def _validate(array: pa.Array) -> None:
    """Validate an array in full; of the values of lists only the part that the lists reach.

    A slice has all values of its whole, and Arrow would look at each of them whenever a slice comes. So lists
    are validated over as many nulls, which cost nothing, and then the part that they reach.
    """
    kind = array.type
    large = pa.types.is_large_list(kind)
    if not (large or pa.types.is_list(kind)) or not len(array):
        array.validate(full=True)
        return
    array.validate()
    values = array.values
    blank = pa.large_list(pa.null()) if large else pa.list_(pa.null())
    lists = pa.Array.from_buffers(
        blank, len(array), array.buffers()[:2], array.null_count, array.offset, [pa.nulls(len(values))]
    )
    lists.validate(full=True)
    first = lists.offsets[0].as_py()
    _validate(values.slice(first, lists.offsets[-1].as_py() - first))


def _sound_columns(table: Any, where: str) -> None:
    """Refuse the first damaged column."""
    for place, name in enumerate(attempted(lambda: table.schema.names, where)):
        sound(table.column(place), name, where)


def _batch(size: int, layout: Layout, numbers: Floats | None, column_at: Any, where: str) -> Batch:
    """The checked columns: numbers together if possible, all others one by one."""
    values = {column.name: read_column(column_at(place), column, where) for place, column in layout.others}
    if numbers is not None and lines.are_finite(numbers):
        return Batch(size, values, layout.lines, numbers)
    for place, column in layout.numbers:
        values[column.name] = read_column(column_at(place), column, where)
    return Batch(size, values)


def _whole(part: pa.RecordBatch, size: int, layout: Layout) -> Batch | None:
    """All columns from one Arrow message, four times faster than one by one; None if not possible.

    Without nulls the message ends with the columns one after the other; the upper half of its first word
    is the number of bytes between that word and them. The batch is valid, so each column has all of its
    values there, and a bitmap of nulls would make the message longer.
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
    return Batch(size, {column.name: integer_ids(columns[place])}, layout.lines, numbers)


def _plain(arrays: list[Any], layout: Layout) -> Batch | None:
    """Columns of a dict of a few rows if they are ids and numbers as NumPy stores them; otherwise None."""
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
    return Batch(ids.size, {column.name: integer_ids(ids)}, layout.lines, numbers)


def _stacked(arrays: list[Any]) -> Floats | None:
    """Columns of float64 as the lines of one array; None if one of them needs a conversion."""
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
    """Any accepted form of rows as one valid Arrow table with distinct column names."""
    opened = attempted(lambda: _opened(rows, where), where)
    if type(opened) is dict:
        table = attempted(lambda: _from_columns(opened, where), where)
    else:
        table = pa.table(_sound(opened, where))
        _sound_columns(table, where)
    names = [name for name in attempted(lambda: table.column_names, where) if not is_index(name)]
    _refuse_twice(names, where)
    return table if len(names) == table.num_columns else table.select(names)


def _from_columns(columns: dict[Any, Any], where: str) -> pa.Table:
    """A table from a dict of columns."""
    names = list(map(str, columns))
    _refuse_twice(names, where)
    return pa.table(dict(zip(names, as_arrays(columns, where), strict=True)))


def _refuse_twice(names: list[str], where: str) -> None:
    """Refuse columns of the same name."""
    if len(set(names)) < len(names):
        twice = next(name for name, times in Counter(names).items() if times > 1)
        raise InputError("is there twice", where=where, column=twice, expected="distinct column names")


def read_ids(ids: Any, *, where: str) -> Ids:
    """A sequence of ids, an Arrow or pandas column of them, or a table with a column `id`."""
    if type(ids) is list and 0 < len(ids) <= FEW:
        whole = plain(ids)
        if whole is not None and whole.dtype.char == "l":
            return integer_ids(whole)
    opened = attempted(lambda: _opened_ids(ids, where), where)
    if type(opened) in _OPEN:
        return read(opened, _IDS, where=where).ids
    found: Ids = read_column(as_array(opened, "id", where, _IDS.known), _ID, where)
    return found


def _opened_ids(ids: Any, where: str) -> Any:
    """Ids of any accepted form as a sequence, a dict of columns or an Arrow table, not yet checked."""
    if isinstance(ids, str | bytes | Number | np.generic) or ids is None:
        raise InputError(
            f"got {shown(ids)}", where=where, expected="a sequence of ids", hint="Wrap it in a list."
        )
    if isinstance(ids, Mapping) or hasattr(ids, "columns"):
        return _opened(ids, where)
    if is_records(ids):
        return from_records(ids, where) if ids else []
    return list(ids) if isinstance(ids, Set) else ids


def is_records(rows: Any) -> bool:
    """Whether rows are a list of dicts, or an empty one."""
    return isinstance(rows, list | tuple) and (not rows or isinstance(rows[0], Mapping))


def from_records(rows: Sequence[Any], where: str) -> dict[Any, list[Any]]:
    """A list of dicts as a dict of columns; a key that is absent in some of them is null there.

    Cost: linear in the number of values; fastest if all dicts have the same keys.
    """
    if len(rows) == 1 and type(rows[0]) is dict:
        return {name: [value] for name, value in rows[0].items()}
    if set(map(type, rows)) != {dict}:
        rows = [_record(record, row, where) for row, record in enumerate(rows)]
    if set(map(len, rows)) == {len(rows[0])}:
        try:
            return {name: [record[name] for record in rows] for name in rows[0]}
        except KeyError:
            pass
    names = dict.fromkeys(chain.from_iterable(rows))
    return {name: [record.get(name) for record in rows] for name in names}


def _record(record: Any, row: int, where: str) -> dict[Any, Any]:
    if not isinstance(record, Mapping):
        raise InputError(
            f"holds {shown(record)} among its rows", where=where, row=row, expected="a dict in each row"
        )
    return dict(record)


def read_few(columns: list[Any], layout: Layout) -> Batch | None:
    """A few rows, given as lists of plain values, as a checked batch; None if anything is unusual."""
    size = len(columns[0]) if columns and type(columns[0]) is list else 0
    if not 0 < size <= SMALL or len(columns) != len(layout.others) + len(layout.numbers):
        return None
    for values in columns:
        if type(values) is not list or len(values) != size:
            return None
    apart: dict[str, Any] = {}
    for place, column in layout.others:
        found = _TAKERS[column.kind](columns[place], column)
        if found is None:
            return None
        apart[column.name] = found
    numbers = _take_numbers(columns, layout)
    if numbers is None:
        return None
    together: Floats = np.array(numbers, np.float64).reshape(len(layout.numbers), size)
    if lines.are_finite(together):
        return Batch(size, apart, layout.lines, together)
    return Batch(size, {**apart, **{name: together[line] for name, line in layout.lines.items()}})


def _take_numbers(columns: list[Any], layout: Layout) -> list[float] | None:
    """All numbers, one column after the other; NaN for a null."""
    numbers: list[float] = []
    for place, column in layout.numbers:
        for value in columns[place]:
            if type(value) is float:
                if value - value != 0.0:  # NaN or infinite
                    return None
            elif type(value) is int:
                if not -_EXACT < value < _EXACT:
                    return None
            elif value is not None or not column.nullable:
                return None
            numbers.append(np.nan if value is None else value)
    return numbers


def _take_ids(values: list[Any], column: Column) -> Ids | None:
    kinds = set(map(type, values))
    if kinds == {int}:
        if min(values) < _LEAST or max(values) > _MOST:
            return None
        return Ids("int", np.array(values, np.int64), NO_OFFSETS, NO_TEXT)
    return _encoded(values) if kinds == {str} else None


def _encoded(words: list[str]) -> Ids | None:
    """Strings as bytes and offsets; None if one of them is not valid Unicode."""
    try:
        texts = [word.encode() for word in words]
    except UnicodeEncodeError:
        return None
    offsets = np.array([0, *accumulate(map(len, texts))], np.int64)
    data = np.frombuffer(bytearray().join(texts), np.uint8) if offsets[-1] else NO_TEXT
    return Ids("str", NO_VALUES, offsets, data)


def _take_terms(values: list[Any], column: Column) -> Terms | None:
    if column.nullable:
        values = [[] if terms is None else terms for terms in values]
    for terms in values:
        if type(terms) is not list:
            return None
    words = list(chain.from_iterable(values))
    if not set(map(type, words)) <= {str}:
        return None
    encoded = _encoded(words)
    if encoded is None:
        return None
    return Terms(np.array([0, *accumulate(map(len, values))], np.int64), encoded)


def _take_counts(values: list[Any], column: Column) -> Ints | None:
    for value in values:
        whole = type(value) is int and 1 <= value < 2**31
        if not whole and (value is not None or not column.nullable):
            return None
    return np.array([value or 0 for value in values], np.int64)


def _take_times(values: list[Any], column: Column) -> Ints | None:
    """Datetimes, all with a time zone or all without."""
    first = next((value for value in values if value is not None), None)
    zoned = type(first) is datetime and first.tzinfo is not None
    epoch, found = _EPOCH_UTC if zoned else _EPOCH, []
    for value in values:
        if value is None and column.nullable:
            found.append(NO_TIME)
            continue
        if type(value) is not datetime or value.year not in _YEARS:
            return None
        if (value.tzinfo is not None) != zoned or type(value.tzinfo) not in _ZONES:
            return None
        found.append((value - epoch) // _MICROSECOND * 1000)
    return np.array(found, np.int64)


def _take_words(values: list[Any], column: Column) -> Ints | None:
    for value in values:
        if type(value) is not str or value not in column.words:
            return None
    return np.array([column.words.index(value) for value in values], np.int64)


def _take_names(values: list[Any], column: Column) -> Names | None:
    kinds = set(map(type, values)) - {type(None)}
    if len(kinds) > 1 or (bool in kinds and column.kind is not Kind.CATEGORY):
        return None
    empty: Any = "" if kinds == {str} else 0
    ids = _take_ids(
        [
            empty if value is None else int(value) if value is True or value is False else value
            for value in values
        ],
        column,
    )
    return None if ids is None else Names(ids, np.array([value is not None for value in values]))


def _take_name_lists(values: list[Any], column: Column) -> NameLists | None:
    given = [value is not None for value in values]
    if not column.nullable and not all(given):
        return None
    for names in values:
        if names is not None and type(names) is not list:
            return None
    lists = [value or [] for value in values]
    found = _take_names([*chain.from_iterable(lists)], Column(column.name, _ONE[column.kind]))
    if found is None or not found.known.all():
        return None
    return NameLists(np.array([0, *accumulate(map(len, lists))], np.int64), np.array(given), found.ids)


_ONE = {Kind.NAMES: Kind.NAME, Kind.CATEGORIES: Kind.CATEGORY}


def _take_nothing(values: list[Any], column: Column) -> None:
    return None


_TAKERS: dict[Kind, Callable[[list[Any], Column], Any]] = {
    Kind.ID: _take_ids,
    Kind.COUNT: _take_counts,
    Kind.TERMS: _take_terms,
    Kind.TIME: _take_times,
    Kind.WORD: _take_words,
    Kind.VECTOR: _take_nothing,
    Kind.NAME: _take_names,
    Kind.NAMES: _take_name_lists,
    Kind.CATEGORY: _take_names,
    Kind.CATEGORIES: _take_name_lists,
}
