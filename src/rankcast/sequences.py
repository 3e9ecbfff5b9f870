"""Plain sequences as columns: lists, tuples, arrays of NumPy or pandas, with a word where that cannot be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from rankcast.errors import InputError
from rankcast.readers import is_plain, plain

FEW = 1024  # rows up to which numbers are read together: beyond, a copy costs more than the calls


def as_arrays(rows: Mapping[Any, Any], where: str) -> list[Any]:
    """Equally long columns from a dict of sequences."""
    arrays = [as_array(values, name, where) for name, values in rows.items()]
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


def as_array(values: Any, column: Any, where: str) -> Any:
    """One sequence as an Arrow array, with a clear word if it has no single type.

    What `read_column` takes as a NumPy array is one.
    """
    if is_plain(values) or isinstance(values, pa.Array | pa.ChunkedArray):
        return values
    if isinstance(values, str | bytes | Mapping) or not hasattr(values, "__len__"):
        raise InputError(
            f"is a single {type(values).__name__}", where=where, column=str(column), expected="a sequence"
        )
    if type(values) is list and len(values) <= FEW:
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
