"""Plain sequences as columns: lists, tuples, NumPy or pandas arrays, with a clear error if that fails.

Whatever a foreign object does when it is inspected, the outcome is a valid column or an `InputError`.
"""

from __future__ import annotations

from collections.abc import Mapping, Set
from datetime import date
from decimal import Decimal
from functools import lru_cache
from numbers import Number
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.errors import InputError, printable, shown
from rankcast.tables.readers import is_plain, plain, reason, sound
from rankcast.tables.schema import Column, Kind

FEW = 1024  # rows up to which numbers are read together: beyond, a copy costs more than the calls
_OWN = (list, tuple, np.ndarray)  # sequences beyond doubt
_SIMPLE: list[set[Any]] = [{str}, {list}, {float, type(None)}, {str, type(None)}]  # as they should be
_MIXED = "values of one kind"
_ONE_KIND = "Turn all of them into strings, or all into numbers."
_EXPECTED = {Kind.ID: "integers or strings, one kind in all rows"}
_GROUPS = {
    "truths": (bool, np.bool_),
    "numbers": (Number, np.number),
    "texts": (str,),
    "bytes": (bytes,),
    "times": (date, np.datetime64),
}


def named_reason(error: Exception) -> str:
    """The message of another library, and the name of its error."""
    return f"{type(error).__name__}: {reason(error)}"


def as_arrays(rows: Mapping[Any, Any], where: str, known: Mapping[str, Column] | None = None) -> list[Any]:
    """Equally long columns from a dict of sequences; `known` columns are for error messages."""
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
    """One sequence as a valid Arrow array, with a clear error if it has no single type.

    A NumPy array that `read_column` accepts stays one.
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
    """Values without NumPy scalars, which Arrow changes where kinds are mixed.

    Refuses what Arrow would accept: booleans among numbers, numbers among times.
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
        raise InputError(what, where=where, column=str(name), row=row, expected=expected, hint=_ONE_KIND)
    if any(issubclass(kind, np.generic) for kind in kinds):
        return list(map(_plain_value, values))
    return values


@lru_cache(maxsize=256)
def _group(kind: Any) -> str | None:
    """The kind of values of a type, if it is obvious."""
    return next((group for group, kinds in _GROUPS.items() if issubclass(kind, kinds)), None)


def _foreign(values: Any, name: Any, where: str) -> Any:
    """The Arrow array of a sequence that is not of Python or NumPy."""
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
    """What Arrow takes only after a conversion: other byte orders and units, wide decimals."""
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
    """A Python value instead of a NumPy scalar; nanoseconds, which Python lacks, stay."""
    if isinstance(value, np.longdouble):
        return float(value)
    if isinstance(value, np.datetime64 | np.timedelta64):
        item = value.item()
        return value if item is None or isinstance(item, int) else item
    return value.item() if isinstance(value, np.generic) else value


def _no_column(values: Any, name: Any, where: str, known: Column | None, error: Exception) -> InputError:
    """The error for a sequence that Arrow cannot convert."""
    try:
        row: int | None = _first_odd(values)
        what, expected = _misfit(values, row, known)
    except Exception:  # a foreign object that cannot be looked at, or has no rows
        row, what, expected = None, "cannot be read", "a sequence" if known is None else known.kind.value
    if isinstance(error, UnicodeError):
        what, expected = "holds text that is not valid Unicode", "text without lone surrogates"
    hint = _ONE_KIND if "of different kinds" in what else None
    return InputError(
        what, where=where, column=str(name), row=row, expected=expected, detail=named_reason(error), hint=hint
    )


def _mixed(first: Any, value: Any, known: Column | None) -> tuple[str, str]:
    """The message about two values of different kinds."""
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
    """The first row at which Arrow gives up; only used for an error."""
    low, high = 0, len(values)
    while high - low > 1:
        middle = (low + high) // 2
        try:
            pa.array(values[:middle])
            low = middle
        except (pa.ArrowException, OverflowError, TypeError, ValueError):
            high = middle
    return low
