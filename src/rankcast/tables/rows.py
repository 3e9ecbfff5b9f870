"""Rows of Python's own values: lists of dicts as columns, and the short way for a few plain rows.

A few rows that hold nothing but what their columns expect (numbers, strings, lists of strings, datetimes)
become the columns of a `Batch` by a loop over their values, without Arrow, whose calls would cost more than
the values do. Whatever is not plainly right is left to `rankcast.tables.read`, which reads it or says what is
wrong with it; so there is one place that decides and one that complains.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime, timedelta, timezone
from itertools import accumulate, chain
from typing import Any
from zoneinfo import ZoneInfo

import numpy as np

from rankcast.errors import InputError, shown
from rankcast.tables.schema import (
    NO_OFFSETS,
    NO_TEXT,
    NO_VALUES,
    Batch,
    Column,
    Floats,
    Ids,
    Ints,
    Kind,
    Layout,
    Terms,
)

FEW = 64  # rows up to which a loop over values is quicker than Arrow
_EXACT = 2**53  # whole numbers below this are float64 as they are
_LEAST, _MOST = -(2**63), 2**63 - 1
_EPOCH, _EPOCH_UTC = datetime(1970, 1, 1), datetime(1970, 1, 1, tzinfo=UTC)
_MICROSECOND = timedelta(microseconds=1)
_ZONES = (type(None), timezone, ZoneInfo)  # no code of anybody else
_YEARS = range(1678, 2262)  # whose nanoseconds 64 bits hold


def is_records(rows: Any) -> bool:
    """Whether rows are a list of dicts, or an empty one."""
    return isinstance(rows, list | tuple) and (not rows or isinstance(rows[0], Mapping))


def from_records(rows: Sequence[Any], where: str) -> dict[Any, list[Any]]:
    """A list of dicts as a dict of columns; a key that is absent in some of them is null there.

    Cost: linear in the number of values; a list of dicts that all have the same keys is read quickest.
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
    """A few rows, given as lists of plain values, as a checked batch; None if anything about them is not."""
    size = len(columns[0]) if columns and type(columns[0]) is list else 0
    if not 0 < size <= FEW or len(columns) != len(layout.others) + len(layout.numbers):
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
    lines: Floats = np.array(numbers, np.float64).reshape(len(layout.numbers), size)
    return Batch(size, apart, layout.lines, lines)


def _take_numbers(columns: list[Any], layout: Layout) -> list[float] | None:
    """All numbers, one column behind the other; NaN for a null."""
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
    """Datetimes, all of them with a zone or all without one."""
    zoned = type(values[0]) is datetime and values[0].tzinfo is not None
    epoch, found = _EPOCH_UTC if zoned else _EPOCH, []
    for value in values:
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


def _take_nothing(values: list[Any], column: Column) -> None:
    return None


_TAKERS: dict[Kind, Callable[[list[Any], Column], Any]] = {
    Kind.ID: _take_ids,
    Kind.COUNT: _take_counts,
    Kind.TERMS: _take_terms,
    Kind.TIME: _take_times,
    Kind.WORD: _take_words,
    Kind.VECTOR: _take_nothing,
}
