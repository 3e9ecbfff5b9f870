"""One external column, Arrow or NumPy, as a checked, contiguous NumPy array, by kind.

Arrow trusts offsets, sizes and indices, so foreign data goes through `sound` before it is read.
Numbers are not copied if Arrow can expose them directly, so those arrays may be read-only. Ids are copied:
the kernels that look them up are compiled for writable arrays only.
Cost: linear in the size of the column, no Python loop over rows.
"""

from __future__ import annotations

from bisect import bisect_left
from functools import lru_cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankcast.errors import InputError, printable
from rankcast.tables.arrow_types import has_fixed_lists, is_list, is_string, is_text
from rankcast.tables.schema import (
    NO_OFFSETS,
    NO_TEXT,
    NO_TIME,
    NO_VALUES,
    Bools,
    Column,
    Floats,
    Ids,
    Ints,
    Kind,
    NameLists,
    Names,
    Terms,
    integer_ids,
)

_FLOAT64, _INT64 = pa.float64(), pa.int64()
_EXACT = 2**53
_LONGEST = 2**31  # bytes that no text has: kernels count those of one in 32 bits
_PLAIN = (np.dtype(np.float64), np.dtype(np.int64))
_STRING, _LARGE_STRING = pa.string(), pa.large_string()


def read_column(data: Any, column: Column, where: str) -> Any:
    """Check one column, valid Arrow or plain NumPy; return its NumPy form. `where` is for errors."""
    try:
        return _READERS[column.kind](data, column, where)
    except pa.ArrowMemoryError:
        raise
    except pa.ArrowException as error:
        raise InputError(
            f"has the type {printable(str(data.type))}, which cannot be read",
            where=where,
            column=column.name,
            expected=column.kind.value,
            detail=reason(error),
        ) from error


def sound(data: Any, column: Any, where: str) -> Any:
    """An Arrow array with valid offsets, sizes, indices and text; otherwise it is refused.

    Cost: a fraction of a microsecond for numbers; strings about 4 ns each.
    """
    try:
        data.validate(full=True)
        _refuse_overrun(data)
    except pa.ArrowException as error:
        raise InputError(
            "is a damaged Arrow array",
            where=where,
            column=str(column),
            row=_first_unsound(data),
            expected="buffers, offsets and text that are valid",
            detail=reason(error),
        ) from error
    return data


def _refuse_overrun(data: Any) -> None:
    """Raise if lists of a fixed size reach beyond their values: with an offset, Arrow does not notice."""
    kind = data.type
    if not kind.num_fields or not has_fixed_lists(kind):
        return
    for array in data.chunks if isinstance(data, pa.ChunkedArray) else [data]:
        fixed = pa.types.is_fixed_size_list(kind)
        if fixed and (array.offset + len(array)) * kind.list_size > len(array.values):
            raise pa.ArrowInvalid("Lists of a fixed size reach beyond their values")
        for child in _children(array):
            _refuse_overrun(child)


def _children(data: pa.Array) -> list[pa.Array]:
    """The child arrays of a nested array."""
    kind = data.type
    if pa.types.is_struct(kind) or pa.types.is_union(kind):
        return [data.field(place) for place in range(kind.num_fields)]
    if pa.types.is_map(kind):
        return [data.keys, data.items]
    return [data.values]


def _first_unsound(data: Any) -> int | None:
    """The first row with damaged values; None if the array is damaged even without rows."""

    def damaged(size: int) -> bool:
        try:
            part = data.slice(0, size)
            part.validate(full=True)
            _refuse_overrun(part)
        except pa.ArrowException:
            return True
        return False

    try:
        size = bisect_left(range(len(data)), True, key=damaged)
    except (OverflowError, ValueError):  # of a length that is none
        return None
    return size - 1 if size else None


def reason(error: BaseException) -> str:
    """The message of another library, as a sentence."""
    lines = str(error).strip().splitlines()
    return f"{printable(lines[0], 300).rstrip('.')}." if lines else f"{type(error).__name__}."


def is_plain(values: Any) -> bool:
    """Whether values are a NumPy array that needs no Arrow: a list of float64 or int64."""
    return type(values) is np.ndarray and values.ndim == 1 and values.dtype in _PLAIN


def plain(values: list[Any], kinds: set[Any] | None = None) -> NDArray[Any] | None:
    """A list of only floats or 64-bit integers as a NumPy array, ten times faster than by Arrow.

    The types of its values, `kinds`, may be known.
    """
    if (set(map(type, values)) if kinds is None else kinds) not in ({float}, {int}):
        return None
    found = np.array(values)
    return found if found.dtype in _PLAIN else None


def all_numbers(values: NDArray[Any]) -> bool:
    """Whether all values are finite and float64 can hold each integer."""
    if values.dtype.char == "d":
        return int(np.count_nonzero(np.isfinite(values))) == values.size
    return int(np.count_nonzero((values < _EXACT) & (values > -_EXACT))) == values.size


def _as_plain(data: Any) -> NDArray[Any] | None:
    """A column of float64 or int64 without nulls, uncopied, in a few microseconds; None for any other."""
    if type(data) is np.ndarray:
        return np.ascontiguousarray(data)
    if isinstance(data, pa.ChunkedArray):
        if data.num_chunks != 1:
            return None
        data = data.chunk(0)
    if data.type not in (_FLOAT64, _INT64) or data.null_count:
        return None
    values: NDArray[Any] = data.to_numpy()
    return values


def _one_chunk(data: Any) -> pa.Array:
    """The column as one Arrow array, dictionaries decoded."""
    if isinstance(data, np.ndarray):
        return pa.array(data)
    if pa.types.is_dictionary(data.type):
        data = data.cast(data.type.value_type)
    if isinstance(data, pa.Array):
        return data
    combined = data.combine_chunks()
    if isinstance(combined, pa.ChunkedArray):
        return combined.chunk(0) if combined.num_chunks else pa.array([], type=combined.type)
    return combined


def _type_of(data: Any) -> pa.DataType:
    """The type of a column's values; for a dictionary that of its values."""
    if isinstance(data, np.ndarray):
        return _FLOAT64 if data.dtype.char == "d" else _INT64
    return data.type.value_type if pa.types.is_dictionary(data.type) else data.type


def _first(mask: Any) -> int:
    """The first true position of a mask."""
    return int(np.argmax(np.asarray(mask)))


def _wrong_type(data: Any, column: Column, where: str) -> InputError:
    """The error for a column of another type; it shows the first value that is not null."""
    nulls = not isinstance(data, np.ndarray) and len(data)
    row = _first(_one_chunk(data).is_valid().to_numpy(zero_copy_only=False)) if nulls else 0
    what = f"has the type {printable(str(_type_of(data)))}"
    return InputError(what, where=where, column=column.name, row=row, expected=column.kind.value)


def _refuse_nulls(array: pa.Array, column: Column, where: str) -> None:
    if array.null_count and not column.nullable:
        row = _first(array.is_null().to_numpy(zero_copy_only=False))
        raise InputError("is null", where=where, column=column.name, row=row, expected=column.kind.value)


def _read_number(data: Any, column: Column, where: str) -> Floats:
    taken = _as_plain(data)
    if taken is not None and all_numbers(taken):
        return taken.astype(np.float64, copy=False)
    kind = _type_of(data)
    if column.times and (pa.types.is_timestamp(kind) or pa.types.is_date(kind)):
        return _read_moment(data, column, where)
    if not (
        pa.types.is_integer(kind)
        or pa.types.is_floating(kind)
        or pa.types.is_decimal(kind)
        or pa.types.is_null(kind)
    ):
        raise _wrong_type(data, column, where)
    array = _one_chunk(data)
    _refuse_nulls(array, column, where)
    values: Floats = np.ascontiguousarray(array.cast(pa.float64(), safe=False).to_numpy(zero_copy_only=False))
    odd = ~np.isfinite(values)
    if array.null_count:
        odd &= array.is_valid().to_numpy(zero_copy_only=False)
    if odd.any():
        row = _first(odd)
        what = "is NaN" if np.isnan(values[row]) else "is infinite"
        hint = "Use null for no value or no bound." if column.nullable else None
        raise InputError(
            what, where=where, column=column.name, row=row, expected=column.kind.value, hint=hint
        )
    if pa.types.is_integer(kind) and np.abs(values).max(initial=0.0) >= 2.0**53:
        _refuse_bent(array, values, column, where)
    return values


def _read_moment(data: Any, column: Column, where: str) -> Floats:
    """Timestamps as microseconds since 1970, which a float64 holds up to the year 2255; null: NaN."""
    array = _one_chunk(data)
    _refuse_nulls(array, column, where)
    known = array.is_valid().to_numpy(zero_copy_only=False)
    exact = _read_time(array.drop_null(), column, where) // 1000
    values = np.full(len(array), np.nan)
    values[known] = exact
    return values


def _refuse_bent(array: pa.Array, values: Floats, column: Column, where: str) -> None:
    """Refuse integers that float64 cannot hold: two of them could become equal."""
    whole = array.fill_null(0).to_numpy(zero_copy_only=False)
    back = np.nan_to_num(values)
    edge = (back >= 2.0**64) if whole.dtype == np.uint64 else (back >= 2.0**63)
    bent = edge | (np.where(edge, 0.0, back).astype(whole.dtype) != whole)
    if bent.any():
        row = _first(bent)
        raise InputError(
            f"is {whole[row]}, which no float64 can hold",
            where=where,
            column=column.name,
            row=row,
            expected=column.kind.value,
        )


def _read_count(data: Any, column: Column, where: str) -> Ints:
    values = _read_number(data, column, where)
    given = ~np.isnan(values)
    bad = given & ((values < 1) | (values != np.floor(values)) | (values >= 2.0**31))
    if bad.any():
        row = _first(bad)
        raise InputError(
            f"is {values[row]:.17g}", where=where, column=column.name, row=row, expected=column.kind.value
        )
    return np.where(given, values, 0).astype(np.int64)


def _read_id(data: Any, column: Column, where: str) -> Ids:
    taken = _as_plain(data)
    if taken is not None and taken.dtype.char == "l":
        return integer_ids(taken)
    kind = _type_of(data)
    if not (pa.types.is_integer(kind) or is_string(kind) or pa.types.is_null(kind)):
        raise _wrong_type(data, column, where)
    array = _one_chunk(data)
    _refuse_nulls(array, Column(column.name, column.kind), where)
    if is_string(kind):
        return _strings(array, column, where)
    if pa.types.is_uint64(kind) and len(array) and pc.max(array).as_py() >= 2**63:
        row = _first(pc.greater_equal(array, pa.scalar(2**63, pa.uint64())).to_numpy(zero_copy_only=False))
        raise InputError(
            "is too large", where=where, column=column.name, row=row, expected="a 64-bit integer"
        )
    return integer_ids(array.cast(pa.int64()).to_numpy(zero_copy_only=False))


def _strings(array: pa.Array, column: Column, where: str) -> Ids:
    """A valid Arrow string array without nulls as bytes and offsets."""
    if array.type != _STRING:
        array = array.cast(_LARGE_STRING)
    _, starts, data = array.buffers()
    if starts is None or len(array) == 0:
        return Ids("str", NO_VALUES, NO_OFFSETS, NO_TEXT)
    width = np.dtype(np.int32 if array.type == _STRING else np.int64)
    found = np.frombuffer(starts, width, len(array) + 1, array.offset * width.itemsize)
    offsets = found.astype(np.int64)
    first, last = offsets[[0, -1]].tolist()
    if last - first >= _LONGEST and np.diff(offsets).max() >= _LONGEST:
        raise InputError(
            "holds text of 2 GiB or more", where=where, column=column.name, expected="shorter text"
        )
    text = np.frombuffer(data, np.uint8)[first:last].copy() if data is not None else NO_TEXT
    return Ids("str", NO_VALUES, offsets - first, text)


def _read_terms(data: Any, column: Column, where: str) -> Terms:
    kind = _type_of(data)
    if not (pa.types.is_null(kind) or (is_list(kind) and is_text(kind.value_type))):
        raise _wrong_type(data, column, where)
    if pa.types.is_fixed_size_list(kind):
        _refuse_overrun(data)
    array = _one_chunk(data)
    if pa.types.is_null(kind):
        array = array.cast(pa.list_(pa.string()))
    _refuse_nulls(array, column, where)
    words = _one_chunk(array.flatten())
    lengths = pc.list_value_length(array).fill_null(0).to_numpy(zero_copy_only=False)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    if words.null_count:
        place = _first(words.is_null().to_numpy(zero_copy_only=False))
        row = int(np.searchsorted(starts, place, side="right")) - 1
        raise InputError("holds a null", where=where, column=column.name, row=row, expected=column.kind.value)
    return Terms(starts, _strings(words, column, where))


def _read_vector(data: Any, column: Column, where: str) -> Floats:
    """Lists of `column.size` numbers each, as an array (n, size); a null that is allowed is NaN."""
    kind = _type_of(data)
    if not (pa.types.is_null(kind) or (is_list(kind) and not is_text(kind.value_type))) and len(data):
        raise _wrong_type(data, column, where)
    if pa.types.is_fixed_size_list(kind):
        _refuse_overrun(data)
    array = _one_chunk(data)
    if not is_list(array.type):
        array = array.cast(pa.list_(_FLOAT64))
    _refuse_nulls(array, column, where)
    if array.null_count:
        return _read_known_vectors(array, column, where)
    lengths = pc.list_value_length(array).to_numpy(zero_copy_only=False)
    expected = f"a list of {column.size} finite numbers"
    if (lengths != column.size).any():
        row = _first(lengths != column.size)
        what = f"has {lengths[row]} numbers"
        raise InputError(what, where=where, column=column.name, row=row, expected=expected)
    try:
        inner = Column(column.name)
        values = _read_number(_one_chunk(array.flatten()), inner, where) if len(array) else np.empty(0)
    except InputError as error:
        if error.row is None:
            raise _wrong_type(data, column, where) from error
        place, row = error.row % column.size, error.row // column.size
        told = array[row].as_py()[place]
        what = f"holds {'a null' if told is None else told} at place {place}"
        raise InputError(what, where=where, column=column.name, row=row, expected=expected) from error
    return values.reshape(-1, column.size)


def _read_known_vectors(array: pa.Array, column: Column, where: str) -> Floats:
    """The same if some are null: these are NaN."""
    known = np.flatnonzero(array.is_valid().to_numpy(zero_copy_only=False))
    found = np.full((len(array), column.size), np.nan)
    try:
        found[known] = _read_vector(array.take(pa.array(known)), column, where)
    except InputError as error:
        raise error if error.row is None else error.at(int(known[error.row])) from error
    return found


def _read_time(data: Any, column: Column, where: str) -> Ints:
    kind = _type_of(data)
    if not (pa.types.is_timestamp(kind) or pa.types.is_date(kind) or pa.types.is_null(kind)):
        raise _wrong_type(data, column, where)
    array = _one_chunk(data)
    if pa.types.is_null(kind):
        array = array.cast(pa.timestamp("ns"))
    _refuse_nulls(array, column, where)
    exact = _nanoseconds(array)
    if exact is None:
        row = bisect_left(range(len(array)), True, key=lambda last: _nanoseconds(array[: last + 1]) is None)
        raise InputError(
            "is too far away", where=where, column=column.name, row=row, expected="the years 1678 to 2261"
        )
    return exact


def _nanoseconds(array: pa.Array) -> Ints | None:
    """Timestamps or dates as nanoseconds since 1970, None if one of them is too far away."""
    zone = array.type.tz if pa.types.is_timestamp(array.type) else None
    try:
        exact = array.cast(pa.timestamp("ns", tz=zone))
    except pa.ArrowInvalid:
        return None
    return exact.cast(pa.int64()).fill_null(NO_TIME).to_numpy(zero_copy_only=False)  # type: ignore[no-any-return]


def _read_names(data: Any, column: Column, where: str) -> Names:
    """Integers or strings, and booleans if the kind allows them."""
    array = _plain_names(_one_chunk(data), column, where)
    known: Bools = array.is_valid().to_numpy(zero_copy_only=False)
    return Names(_filled(array, column, where), known)


def _plain_names(array: pa.Array, column: Column, where: str) -> pa.Array:
    """An array of 64-bit integers or of strings."""
    truths = column.kind in (Kind.CATEGORY, Kind.CATEGORIES)
    if pa.types.is_dictionary(array.type):
        array = array.cast(array.type.value_type)
    kind = array.type
    if pa.types.is_null(kind) or (truths and pa.types.is_boolean(kind)):
        return array.cast(_INT64)
    if pa.types.is_integer(kind):
        if pa.types.is_uint64(kind) and len(array) and (pc.max(array).as_py() or 0) >= 2**63:
            raise InputError("is too large", where=where, column=column.name, expected="64-bit integers")
        return array.cast(_INT64)
    if not is_string(kind):
        raise _wrong_type(array, column, where)
    return array


def _filled(array: pa.Array, column: Column, where: str) -> Ids:
    """Integers or strings as ids; 0 or an empty text for nulls."""
    if is_string(array.type):
        if array.null_count:  # views have no fill_null
            array = pc.fill_null(array.cast(pa.large_string()), "")
        return _strings(array, column, where)
    whole = array.fill_null(0) if array.null_count else array
    return integer_ids(whole.to_numpy(zero_copy_only=False))


def _read_name_lists(data: Any, column: Column, where: str) -> NameLists:
    """Lists of integers or strings; a row may have none."""
    kind = _type_of(data)
    if not (pa.types.is_null(kind) or is_list(kind)):
        raise _wrong_type(data, column, where)
    if pa.types.is_fixed_size_list(kind):
        _refuse_overrun(data)
    array = _one_chunk(data)
    if pa.types.is_null(kind):
        array = array.cast(pa.list_(_INT64))
    _refuse_nulls(array, column, where)
    given: Bools = array.is_valid().to_numpy(zero_copy_only=False)
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_numpy(zero_copy_only=False)
    starts = np.concatenate([np.zeros(1, np.int64), np.cumsum(lengths, dtype=np.int64)])
    names = _plain_names(_one_chunk(array.flatten()), column, where)
    if names.null_count:
        place = _first(names.is_null().to_numpy(zero_copy_only=False))
        row = int(np.searchsorted(starts, place, side="right")) - 1
        raise InputError("holds a null", where=where, column=column.name, row=row, expected=column.kind.value)
    return NameLists(starts, given, _filled(names, column, where))


def _read_word(data: Any, column: Column, where: str) -> Ints:
    array = _one_chunk(data)
    if pa.types.is_null(array.type):
        array = array.cast(_STRING)
    if not is_string(array.type):
        raise _wrong_type(array, column, where)
    if array.type != _STRING:
        array = array.cast(_STRING)
    found = pc.call_function("index_in", [array], _places(column.words))
    if found.null_count:
        row = _first(found.is_null().to_numpy(zero_copy_only=False))
        told = array[row].as_py()
        what = "is null" if told is None else f'is "{told}"'
        expected = f"one of: {', '.join(column.words)}"
        raise InputError(what, where=where, column=column.name, row=row, expected=expected)
    places: Ints = found.to_numpy().astype(np.int64)
    return places


@lru_cache(maxsize=64)
def _places(words: tuple[str, ...]) -> pc.SetLookupOptions:
    """How to look up words."""
    return pc.SetLookupOptions(value_set=pa.array(words))


_READERS = {
    Kind.ID: _read_id,
    Kind.NUMBER: _read_number,
    Kind.COUNT: _read_count,
    Kind.TERMS: _read_terms,
    Kind.TIME: _read_time,
    Kind.WORD: _read_word,
    Kind.VECTOR: _read_vector,
    Kind.NAME: _read_names,
    Kind.NAMES: _read_name_lists,
    Kind.CATEGORY: _read_names,
    Kind.CATEGORIES: _read_name_lists,
}
PLAIN_TYPES: dict[Kind, tuple[pa.DataType, ...]] = {  # of Arrow's, that are right beyond doubt
    Kind.ID: (pa.int64(), pa.int32(), pa.string()),
    Kind.NUMBER: (pa.float64(), pa.int64(), pa.int32()),
    Kind.COUNT: (pa.int64(), pa.int32()),
    Kind.TERMS: (pa.list_(pa.string()),),
    Kind.TIME: (pa.timestamp("us"), pa.timestamp("us", "UTC")),
    Kind.WORD: (pa.string(),),
    Kind.VECTOR: (pa.list_(pa.float64()),),
    Kind.NAME: (pa.int64(), pa.string()),
    Kind.NAMES: (pa.list_(pa.int64()), pa.list_(pa.string())),
    Kind.CATEGORY: (pa.int64(), pa.string(), pa.bool_()),
    Kind.CATEGORIES: (pa.list_(pa.int64()), pa.list_(pa.string()), pa.list_(pa.bool_())),
}
