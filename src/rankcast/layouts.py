"""Which columns a table has, where they stand, and what comes out of it: `Form`, `Layout`, `Batch`."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import pyarrow as pa

from rankcast.columns import Column, Floats, Ids, Kind
from rankcast.errors import InputError

_PANDAS_INDEX = re.compile(r"__index_level_\d+__")
_FLOAT64, _INT64 = pa.float64(), pa.int64()


@dataclass(slots=True)
class Batch:
    """The checked columns of one table, by name; one that was not given is not there.

    Numbers that were read together are the lines of `numbers`, as `lines` says; `apart` holds all others.
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
    """Where the columns that are read stand in a table: numbers, as declared, and all others.

    `whole`: the table has nothing else, and is of float64 and int64 alone, the latter being the ids.
    """

    lines: dict[str, int]  # of numbers: which comes how manieth
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
            whole = [types[place] for place, _ in found.others] == [_INT64] and self.known[
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
