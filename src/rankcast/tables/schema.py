"""Columns, the NumPy form of each kind, tables as engines know them, and checks of settings.

| kind   | NumPy form                      | a null is | refused                                           |
| ------ | ------------------------------- | --------- | ------------------------------------------------- |
| ID     | `Ids`                           | refused   | null, a type that is neither integer nor string   |
| NUMBER | float64                         | NaN       | NaN, infinity, an integer that a float cannot hold |
| COUNT  | int64                           | 0         | below 1, above 2**31 - 1, not whole               |
| TERMS  | `Terms`, a ragged list of `Ids` | empty     | null, a null inside, anything but strings         |
| TIME   | int64, nanoseconds since 1970   | `NO_TIME` | null, anything but a timestamp or a date          |
| WORD   | int64, index in `words`         | refused   | null, any other string, anything but strings      |
| VECTOR | float64, (rows, `size`)         | NaN       | null, a null inside, another length, NaN, infinity |
| NAME   | `Names`                         | not known | anything but integers or strings                  |
| NAMES  | `NameLists`                     | no list   | a null inside, anything but integers or strings   |
| CATEGORY, CATEGORIES | as NAME, NAMES    | as there  | as there, but booleans count as 1 and 0            |

A NUMBER may be a timestamp if the column allows it (`times`): microseconds since 1970, truncated.

An engine declares the columns it knows as `Column`s in a `Form`. A `Form` finds the `Layout` of a table
(which column is where), and reading a table gives a `Batch` of checked columns; `rankcast.tables.readers`
converts one column from Arrow. The functions at the end check settings of engines: each returns the setting
in its plain form or raises `SettingError`.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, Literal, NamedTuple, TypeGuard

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.errors import InputError, SettingError, shown

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.int32]
Bools = NDArray[np.bool_]
IdKind = Literal["int", "str"]

NO_TIME = int(np.iinfo(np.int64).min)
NO_VALUES, NO_OFFSETS, NO_TEXT = np.empty(0, np.int64), np.zeros(1, np.int64), np.empty(0, np.uint8)
_INT64 = pa.int64()


class Kind(Enum):
    """What a column holds; see the table above."""

    ID = "an integer or a string"
    NUMBER = "a finite number"
    COUNT = "a whole number from 1 to 2147483647"
    TERMS = "a list of strings"
    TIME = "a timestamp"
    WORD = "a word"
    VECTOR = "a list of finite numbers"
    NAME = "an integer or a string, or null"
    NAMES = "a list of integers or of strings"
    CATEGORY = "a string, an integer, a truth or null"
    CATEGORIES = "a list of strings, of integers or of truths"


@dataclass(frozen=True)
class Column:
    """A column that an engine knows. `required`: it must be present; `nullable`: it may hold nulls.

    `words` are the values that a column of kind WORD may hold; `size` is the length of a VECTOR;
    `times`: a NUMBER may be a timestamp.
    """

    name: str
    kind: Kind = Kind.NUMBER
    required: bool = True
    nullable: bool = False
    words: tuple[str, ...] = ()
    size: int = 0
    times: bool = False


class Ids(NamedTuple):
    """External ids: `values` of integers, or UTF-8 `data` cut at `offsets` (then `values` is empty)."""

    kind: IdKind
    values: Ints
    offsets: Ints
    data: NDArray[np.uint8]

    @property
    def size(self) -> int:
        """How many ids."""
        return self.values.size if self.kind == "int" else self.offsets.size - 1


class Terms(NamedTuple):
    """A list of words per row: the words of row i are `words[starts[i]:starts[i + 1]]`."""

    starts: Ints
    words: Ids


class Names(NamedTuple):
    """An id per row where one is `known`; elsewhere `ids` holds 0 or an empty text."""

    ids: Ids
    known: Bools


class NameLists(NamedTuple):
    """A list of ids per row, `given` or not: those of row i are `ids[starts[i]:starts[i + 1]]`."""

    starts: Ints
    given: Bools
    ids: Ids


def integer_ids(values: Any) -> Ids:
    """Integers as `Ids`."""
    whole: Ints = np.ascontiguousarray(values, dtype=np.int64)
    return Ids("int", whole if whole.flags.writeable else whole.copy(), NO_OFFSETS, NO_TEXT)


def arrow(ids: Ids, known: Bools | None = None) -> pa.Array:
    """Ids as an Arrow array over the same bytes, integers as well as text; null where not `known`.

    Built from buffers, because `pa.array` takes several microseconds to inspect its input.
    """
    valid = None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))
    if ids.kind == "int":
        return pa.Array.from_buffers(_INT64, ids.size, [valid, pa.py_buffer(ids.values)])
    small = ids.offsets[-1] < 2**31
    offsets = np.ascontiguousarray(ids.offsets, np.int32 if small else np.int64)
    strings_type = pa.StringArray if small else pa.LargeStringArray
    return strings_type.from_buffers(ids.size, pa.py_buffer(offsets), pa.py_buffer(ids.data), valid)


_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_FLOAT64, _ID_TYPE = pa.float64(), pa.int64()


@dataclass(slots=True)
class Batch:
    """The checked columns of one table, by name; columns that were not given are absent.

    Numbers that were read together are the lines of `numbers`, in the order of `lines`, without nulls;
    `apart` holds all others.
    """

    size: int
    apart: dict[str, Any]
    lines: dict[str, int] = field(default_factory=dict)
    numbers: Floats | None = None

    def __contains__(self, name: str) -> bool:
        return name in self.apart or name in self.lines

    def __getitem__(self, name: str) -> Any:
        if name in self.apart or self.numbers is None:
            return self.apart[name]
        return self.numbers[self.lines[name]]

    @property
    def values(self) -> dict[str, Any]:
        """All columns."""
        together = () if self.numbers is None else self.numbers
        return {**self.apart, **dict(zip(self.lines, together, strict=True))}

    @property
    def ids(self) -> Ids:
        """The column `id`."""
        found: Ids = self.apart["id"]
        return found


class Layout(NamedTuple):
    """Where the known columns are in a table: numbers, as declared, and all others.

    `whole`: the table has nothing else, and consists of float64 and int64 only, the latter being the ids.
    """

    lines: dict[str, int]  # of numbers: which comes how manieth
    numbers: tuple[tuple[int, Column], ...]
    others: tuple[tuple[int, Column], ...]
    whole: bool = False


class Form:
    """The columns that an engine knows, and the layouts of recently read tables.

    A further table of the same layout needs no look at its names and types.
    """

    def __init__(self, columns: Iterable[Column]) -> None:
        self.known = {column.name: column for column in columns}
        self._by_names: tuple[Any, Layout] | None = None
        self._by_schema: tuple[Any, Layout] | None = None

    def __iter__(self) -> Iterator[Column]:
        return iter(self.known.values())

    def of_names(self, names: tuple[Any, ...], where: str, extra: str) -> Layout:
        """The layout of columns with these names; refuses what does not fit.

        Only names that are strings are remembered: others may be equal and yet be written differently.
        """
        seen = self._by_names
        if seen is not None and seen[0] == (names, extra):
            return seen[1]
        layout = self._layout(list(map(str, names)), where, extra)
        if set(map(type, names)) <= {str}:
            self._by_names = ((names, extra), layout)
        return layout

    def of_schema(self, schema: pa.Schema, where: str, extra: str) -> Layout:
        """The layout of an Arrow table; only columns of float64 count as numbers there."""
        seen = self._by_schema
        if seen is None or seen[0][1] != extra or not schema.equals(seen[0][0]):
            found, types = self._layout(schema.names, where, extra), schema.types
            plain_ones = tuple(each for each in found.numbers if types[each[0]] == _FLOAT64)
            odd = tuple(each for each in found.numbers if types[each[0]] != _FLOAT64)
            whole = [types[place] for place, _ in found.others] == [_ID_TYPE] and self.known[
                "id"
            ].kind is Kind.ID
            whole = whole and len(plain_ones) == len(types) - 1 > 0
            layout = Layout(_lines(plain_ones), plain_ones, found.others + odd, whole)
            seen = self._by_schema = ((schema, extra), layout)
        return seen[1]

    def _layout(self, names: list[str], where: str, extra: str) -> Layout:
        places = {name: place for place, name in enumerate(names) if not is_index(name)}
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
        return Layout(_lines(numbers), numbers, others)


def _lines(numbers: tuple[tuple[int, Column], ...]) -> dict[str, int]:
    """The names of numbers in their order."""
    return {column.name: line for line, (_, column) in enumerate(numbers)}


def is_index(name: str) -> bool:
    """Whether a column is only the index of a pandas frame."""
    return name.startswith("__") and _PANDAS_INDEX.fullmatch(name) is not None


MOST = 2**31 - 1  # the largest whole number that a setting takes


def one_of(name: str, value: object, known: Iterable[str], *, later: Iterable[str] = ()) -> str:
    """A word from a list; `later` are words of the contract whose algorithm does not exist yet."""
    known, later = list(known), list(later)
    if isinstance(value, str) and value in later:
        raise SettingError(f'{name}="{value}" is not available yet', expected=f"one of: {', '.join(known)}")
    if not isinstance(value, str) or value not in known:
        told = value if isinstance(value, str) else shown(value)
        raise SettingError.unknown(told, known, where=name, word="value")
    return str(value)


def is_whole(value: object) -> TypeGuard[int]:
    """Whether a value is a whole number of Python or NumPy; booleans and time spans are not."""
    return isinstance(value, int | np.integer) and not isinstance(value, bool | np.timedelta64)


def is_number(value: object) -> TypeGuard[float]:
    """Whether a value is a number of Python or NumPy."""
    return is_whole(value) or isinstance(value, float | np.floating)


def whole(name: str, value: object, *, least: int = 1, most: int = MOST) -> int:
    """A whole number from `least` to `most`, of Python or NumPy."""
    if not is_whole(value) or not least <= int(value) <= most:
        raise SettingError(f"{name} is {shown(value)}", expected=f"a whole number from {least} to {most}")
    return int(value)


def ceiling(name: str, value: object, of: str, least: int) -> int | None:
    """The ceiling of another setting, which is `least`, and of its values in rows; None: no ceiling."""
    if value is None:
        return None
    most = whole(name, value)
    if least > most:
        raise SettingError(f"{of} is {least}", expected=f"at most {name}, which is {most}")
    return most


def threads(value: object) -> int:
    """A number of threads; None: the number of cores that this process may use."""
    if value is not None:
        return whole("threads", value)
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def number(name: str, value: object, *, low: float, high: float, above: bool = False) -> float:
    """A number in [low, high], or in (low, high] with `above`; of Python or NumPy."""
    if not is_number(value) or not (low < value if above else low <= value) or not value <= high:
        bracket = "(" if above else "["
        raise SettingError(f"{name} is {shown(value)}", expected=f"a number in {bracket}{low:g}, {high:g}]")
    return float(value)


def attributes(
    name: str, value: object, *, least: int = 1, most: int | None = None, reserved: Iterable[str] = ("id",)
) -> list[str]:
    """Names of attributes: one string or a sequence of distinct ones that are not column names of ours."""
    names = [value] if isinstance(value, str) else list(value) if isinstance(value, Sequence) else None
    if names is None or not all(isinstance(each, str) and each for each in names):
        raise SettingError(f"{name} is {shown(value)}", expected="a name or a list of names")
    names = list(map(str, names))
    if not all(map(_is_text, names)):
        raise SettingError(f"{name} is {shown(value)}", expected="names of valid Unicode")
    if len(names) < least or (most is not None and len(names) > most):
        limit = f"{least} to {most}" if most is not None else f"at least {least}"
        raise SettingError(f"{name} names {len(names)} attributes", expected=limit)
    if len(set(names)) < len(names):
        raise SettingError(f"{name} names an attribute twice: {shown(names)}", expected="distinct names")
    for each in reserved:
        if each in names:
            raise SettingError(
                f'{name} names "{each}", which is a column of its own', expected="another name"
            )
    return names


def _is_text(name: str) -> bool:
    """Whether a name can be encoded: it contains no lone surrogate."""
    try:
        return bool(name.encode())
    except UnicodeEncodeError:
        return False


def flag(name: str, value: Any) -> bool:
    """A setting that is true or false."""
    if not isinstance(value, bool):
        raise SettingError(f"{name} is {shown(value)}", expected="True or False")
    return value


def tuning(value: Mapping[str, Any] | None, known: Mapping[str, Any]) -> dict[str, Any]:
    """The given tuning in a form that JSON can hold; `known` holds every key with its default."""
    if value is not None and not isinstance(value, Mapping):
        raise SettingError(f"tuning is {shown(value)}", expected="a dict")
    given = {key: plain(each) for key, each in (value or {}).items()}
    for key in given:
        if key not in known:
            raise SettingError.unknown(key, known, where="tuning")
    return given


def plain(value: Any) -> Any:
    """A setting without NumPy: scalars and arrays as Python objects."""
    if isinstance(value, np.generic | np.ndarray):
        return value.tolist()
    if isinstance(value, list | tuple):
        return [plain(each) for each in value]
    return value
