"""What columns hold, and the NumPy form of each kind; `rankcast.readers` makes it from Arrow.

| kind   | NumPy form                      | a null is | refused                                           |
| ------ | ------------------------------- | --------- | ------------------------------------------------- |
| ID     | `Ids`                           | refused   | null, a type that is neither integer nor string   |
| NUMBER | float64                         | NaN       | NaN, infinity, an integer that a float would bend |
| COUNT  | int64                           | 0         | below 1, above 2**31 - 1, not whole               |
| TERMS  | `Terms`, a ragged list of `Ids` | refused   | null, a null inside, anything but strings         |
| TIME   | int64, nanoseconds since 1970   | refused   | null, anything but a timestamp or a date          |
| WORD   | int64, place among `words`      | refused   | null, any other string, anything but strings      |
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Rows = NDArray[np.int32]
Bools = NDArray[np.bool_]
IdKind = Literal["int", "str"]

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


@dataclass(frozen=True)
class Column:
    """A column that an engine knows. `required`: must be there; `nullable`: may hold nulls.

    `words` are those that a column of the kind WORD may hold.
    """

    name: str
    kind: Kind = Kind.NUMBER
    required: bool = True
    nullable: bool = False
    words: tuple[str, ...] = ()


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


def integer_ids(values: Any) -> Ids:
    """Integers as `Ids`."""
    whole: Ints = np.ascontiguousarray(values, dtype=np.int64)
    return Ids("int", whole if whole.flags.writeable else whole.copy(), NO_OFFSETS, NO_TEXT)


def arrow(ids: Ids, known: Bools | None = None) -> pa.Array:
    """Ids as an Arrow array over the same bytes, integers as well as text; null where it is not `known`.

    From buffers, because `pa.array` takes several microseconds to find out what it was given.
    """
    valid = None if known is None else pa.py_buffer(np.packbits(known, bitorder="little"))
    if ids.kind == "int":
        return pa.Array.from_buffers(_INT64, ids.size, [valid, pa.py_buffer(ids.values)])
    small = ids.offsets[-1] < 2**31
    offsets = np.ascontiguousarray(ids.offsets, np.int32 if small else np.int64)
    strings_type = pa.StringArray if small else pa.LargeStringArray
    return strings_type.from_buffers(ids.size, pa.py_buffer(offsets), pa.py_buffer(ids.data), valid)
