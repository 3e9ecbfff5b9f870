"""The one place that turns a table from outside into checked NumPy columns.

A table may be anything with the Arrow PyCapsule interface, a dict of equally long sequences or a list of
dicts. An engine declares the columns it knows as `Column`s; `read` answers with a `Batch` in which every
value is valid, in the form that `rankcast.tables.schema` tells of. Cost: linear in the size of the table; for
a few rows a microsecond or less a column, because numbers are taken over and checked together, and a `Form`
remembers layouts.

Plain sequences (lists, tuples, arrays of NumPy or pandas) become columns here as well; a few plain rows go a
shorter way (`rankcast.tables.rows`). Whatever a foreign object does when it is looked at, what comes out is a
sound column or an `InputError`.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Set
from datetime import date
from decimal import Decimal
from functools import lru_cache
from numbers import Number
from typing import Any, TypeVar

import numpy as np
import pyarrow as pa

from rankcast.errors import InputError, printable, shown
from rankcast.structures import arrays as lines
from rankcast.tables.readers import PLAIN_TYPES, all_numbers, is_plain, plain, read_column, reason, sound
from rankcast.tables.rows import from_records, is_records, read_few
from rankcast.tables.schema import Batch, Column, Floats, Form, Ids, Kind, Layout, integer_ids, is_index

FEW = 1024  # rows up to which numbers are read together: beyond, a copy costs more than the calls
HINT = (
    "Pass a pyarrow Table, a pandas or polars DataFrame, a dict of equally long sequences or a list of dicts."
)

T = TypeVar("T")
_OWN = (list, tuple, np.ndarray)  # sequences beyond doubt
_SIMPLE: list[set[Any]] = [{str}, {list}, {float, type(None)}, {str, type(None)}]  # as they should be
_MIXED = "values of one kind"
_EXPECTED = {Kind.ID: "integers or strings, one kind in all rows"}
_GROUPS = {
    "truths": (bool, np.bool_),
    "numbers": (Number, np.number),
    "texts": (str,),
    "bytes": (bytes,),
    "times": (date, np.datetime64),
}


def attempted(look: Callable[[], T], where: str) -> T:
    """What a look at a foreign object gives; what it raises is an `InputError`."""
    try:
        return look()
    except (InputError, MemoryError):
        raise
    except Exception as error:
        raise InputError("cannot be read as rows", where=where, detail=_told(error), hint=HINT) from error


def _told(error: Exception) -> str:
    return f"{type(error).__name__}: {reason(error)}"


def as_arrays(rows: Mapping[Any, Any], where: str, known: Mapping[str, Column] | None = None) -> list[Any]:
    """Equally long columns from a dict of sequences; what is `known` of them serves the words of errors."""
    arrays = [as_array(values, name, where, known) for name, values in rows.items()]
    if len(set(map(len, arrays))) > 1:
        names, size = list(map(str, rows)), len(arrays[0])
        odd = next(place for place, array in enumerate(arrays) if len(array) != size)
        raise InputError(
            f'has {len(arrays[odd])} rows while column "{printable(names[0])}" has {size}',
            where=where,
            column=names[odd],
            row=min(len(arrays[odd]), size),
            expected="equally long columns",
        )
    return arrays


def as_array(values: Any, name: Any, where: str, known: Mapping[str, Column] | None = None) -> Any:
    """One sequence as a sound Arrow array, with a clear word if it has no single type.

    What `read_column` takes as a NumPy array is one.
    """
    if is_plain(values):
        return values
    kinds: set[Any] | None = None
    if type(values) is list and len(values) <= FEW:
        kinds = set(map(type, values))
        found = plain(values, kinds)
        if found is not None:
            return found
    try:
        if type(values) in _OWN:
            if kinds not in _SIMPLE:
                values = _unboxed(values, name, where, _named(name, known))
            array = pa.array(values)
        else:
            array = _foreign(values, name, where)
    except (InputError, MemoryError):
        raise
    except Exception as error:
        array = _tamed(values)
        if array is None:
            raise _no_column(values, name, where, _named(name, known), error) from error
    return sound(array, name, where)


def _named(name: Any, known: Mapping[str, Column] | None) -> Column | None:
    return None if known is None else known.get(str(name))


def _unboxed(values: Any, name: Any, where: str, known: Column | None) -> Any:
    """Values without scalars of NumPy's, which Arrow bends where kinds are mixed.

    Refuses what Arrow would not: truths among numbers, numbers among times.
    """
    if type(values) is np.ndarray:
        if values.dtype != object or values.ndim != 1:
            return values
        values = values.tolist()
    kinds: set[Any] = set(map(type, values))
    if len({_group(kind) for kind in kinds} - {None}) > 1:
        groups: list[str | None] = [_group(kind) for kind in map(type, values)]
        first = next(row for row, group in enumerate(groups) if group)
        row = next(row for row, group in enumerate(groups) if group not in (groups[first], None))
        what, expected = _mixed(values[first], values[row], known)
        raise InputError(what, where=where, column=str(name), row=row, expected=expected)
    if any(issubclass(kind, np.generic) for kind in kinds):
        return list(map(_plain_value, values))
    return values


@lru_cache(maxsize=256)
def _group(kind: Any) -> str | None:
    """What kind of values a type has, if that is plain to see."""
    return next((group for group, kinds in _GROUPS.items() if issubclass(kind, kinds)), None)


def _foreign(values: Any, name: Any, where: str) -> Any:
    """The Arrow array of a sequence that is not Python's or NumPy's own."""
    if isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    what = None
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
        what = f"is a single {type(values).__name__}"
    elif isinstance(values, Set):
        what = f"is a {type(values).__name__}, which has no order"
    elif hasattr(values, "columns"):
        what = f"is a {type(values).__name__}, which is a table"
    if what is None:
        return pa.array(values)
    hint = "Turn it into a list." if hasattr(values, "__iter__") else "Wrap it in a list."
    raise InputError(what, where=where, column=str(name), expected="a sequence", hint=hint)


def _tamed(values: Any) -> Any | None:
    """What Arrow takes only after a word in between: other byte orders and units, wide decimals."""
    try:
        if isinstance(values, np.ndarray) and values.dtype != object:
            return pa.array(_native(values))
        if isinstance(values, list | tuple | np.ndarray):
            return pa.array([float(v) if isinstance(v, Decimal) else _plain_value(v) for v in values])
    except Exception:  # then the first refusal holds
        return None
    return None


def _native(values: Any) -> Any:
    """The same values in a type that Arrow has."""
    kind = values.dtype
    if kind.kind == "M":
        return values.astype(
            "M8[D]" if np.datetime_data(kind)[0] in ("Y", "M", "W") else kind.newbyteorder("=")
        )
    return values.astype(np.float64 if kind.char == "g" else kind.newbyteorder("="))


def _plain_value(value: Any) -> Any:
    """A value of Python's own instead of a scalar of NumPy's; nanoseconds, which Python has not, stay."""
    if isinstance(value, np.longdouble):
        return float(value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        item = value.item()
        return value if item is None or isinstance(item, int) else item
    return value.item() if isinstance(value, np.generic) else value


def _no_column(values: Any, name: Any, where: str, known: Column | None, error: Exception) -> InputError:
    """The error for a sequence that Arrow makes no array of."""
    try:
        row: int | None = _first_odd(values)
        what, expected = _misfit(values, row, known)
    except Exception:  # a foreign object that cannot be looked at, or has no rows
        row, what, expected = None, "cannot be read", "a sequence" if known is None else known.kind.value
    if isinstance(error, UnicodeError):
        what, expected = "holds text that is not valid Unicode", "text without lone surrogates"
    return InputError(what, where=where, column=str(name), row=row, expected=expected, detail=_told(error))


def _mixed(first: Any, value: Any, known: Column | None) -> tuple[str, str]:
    """What to say of two values of different kinds."""
    expected = _MIXED if known is None else _EXPECTED.get(known.kind, known.kind.value)
    return f"holds {shown(first)} and {shown(value)}, which are of different kinds", expected


def _misfit(values: Any, row: int | None, known: Column | None) -> tuple[str, str]:
    """What is wrong with the value at which Arrow gave up, and what was expected instead."""
    value = values[row]
    first = next((each for each in values if each is not None), value)
    what, expected = _mixed(first, value, known)
    if type(first) is not type(value):
        return what, expected
    if isinstance(value, int):
        return f"holds {shown(value)}, which is too large", "a 64-bit integer" if known is None else expected
    return f"holds {shown(value)}, a {type(value).__name__}", expected


def _first_odd(values: Any) -> int:
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

    Only columns of a type that is not plainly right are read: converting even an empty one imports pandas.
    """
    layout = form.of_schema(columns, where, extra)
    for place, column in (*layout.numbers, *layout.others):
        if columns.types[place] not in PLAIN_TYPES[column.kind]:
            read_column(pa.nulls(0, columns.types[place]), column, where)


def _nothing(form: Form) -> dict[str, list[Any]]:
    """No rows at all, of the columns that must be there."""
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
    """A sound Arrow table."""
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
    """An Arrow table in which nothing is damaged that Arrow sees; else names a column that is."""
    try:
        table.validate(full=True)
    except pa.ArrowException as error:
        _sound_columns(table, where)
        raise InputError("is a damaged Arrow table", where=where, detail=reason(error)) from error
    return table


def _sound_columns(table: Any, where: str) -> None:
    """Refuse the first column that is not sound."""
    for place, name in enumerate(attempted(lambda: table.schema.names, where)):
        sound(table.column(place), name, where)


def _batch(size: int, layout: Layout, numbers: Floats | None, column_at: Any, where: str) -> Batch:
    """The checked columns: numbers together if they are there and fine, all others one by one."""
    values = {column.name: read_column(column_at(place), column, where) for place, column in layout.others}
    if numbers is not None and lines.are_finite(numbers):
        return Batch(size, values, layout.lines, numbers)
    for place, column in layout.numbers:
        values[column.name] = read_column(column_at(place), column, where)
    return Batch(size, values)


def _whole(part: pa.RecordBatch, size: int, layout: Layout) -> Batch | None:
    """All columns from one message of Arrow's, four times faster than one by one; None if that cannot be.

    Without nulls the message ends with the columns one behind the other; its first word holds, in the upper
    half, how many bytes stand between that word and them. The batch is sound, so each column has all of its
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
    return Batch(ids.size, {column.name: integer_ids(ids)}, layout.lines, numbers)


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
    """Any accepted form of rows as one sound Arrow table with distinct column names."""
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
    """A table of a dict of columns."""
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
