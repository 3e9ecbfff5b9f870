"""Hostile input: columns, rows and ids that nobody should give to an engine, and engines to give them to.

Everything here is drawn from a seeded generator. `attack` gives one hostile input to one call of an engine
and checks what must hold whatever it is: the call takes it, or raises an `InputError` that can be read and
leaves the engine as it was. Damaged Arrow arrays may kill a process that trusts them, so they are tried in a
process of their own: `python -m tests.core.hostile SEED COUNT`.
"""

from __future__ import annotations

import collections
import datetime as dt
import sys
import types
from collections.abc import Callable, Iterator, Mapping
from decimal import Decimal
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa

from rankcast import CoveringTable, GeoTextTopK, MovingSkyline, MovingTopK, RangeTopK, RankedMatcher
from rankcast.core.contract.checks import frozen, same_as
from rankcast.core.engine import Engine
from rankcast.errors import InputError
from rankcast.geotext.vocabulary import Vocabulary
from rankcast.state import batches
from rankcast.tables.read import read_ids

Rows = dict[str, list[Any]]
MOST = 2000  # characters of an error
NOON = dt.datetime(2024, 1, 1, 12)
PLACES: Rows = {"id": ["p", "q"], "x": [1.0, 2.0], "y": [1.0, 5.0], "price": [3.0, 1.0]}


class Case(NamedTuple):
    """An engine with something in it, and rows that each of its calls takes."""

    engine: type[Engine]
    settings: dict[str, Any]
    steps: list[tuple[str, Any]]
    rows: dict[str, Rows]
    ids: dict[str, list[Any]]

    def make(self) -> Any:
        engine: Any = self.engine(**self.settings)
        for call, rows in self.steps:
            getattr(engine, call)(rows)
        return engine


def _moving(engine: type[Engine]) -> Case:
    queries: Rows = {"id": [8, 9], "x": [0.5, 3.0], "y": [1.0, 2.0]}
    known: Rows = {"id": [1, 2], "x": [0.0, 3.0], "y": [0.0, 3.0]}
    return Case(
        engine,
        {"over": ["price"]},
        [("upsert", PLACES), ("subscribe", known)],
        {"subscribe": queries, "amend": known, "publish": known, "upsert": PLACES},
        {"unsubscribe": [1, 2], "results": [1, 2], "remove": ["p", "q"]},
    )


OBJECTS: Rows = {"id": ["a", "b"], "risk": [1.0, 2.0], "pe": [5.0, 7.0]}
RANGES: Rows = {"id": [1, 2], "risk_lo": [0.0, 1.0], "risk_hi": [2.0, 9.0], "k": [1, 2]}
BOXES: Rows = {
    "id": ["s", "t"],
    "x_lo": [0.0, 1.0],
    "x_hi": [9.0, 2.0],
    "y_lo": [0.0, 1.0],
    "y_hi": [9.0, 8.0],
}
COMMANDS: Rows = {
    "op": ["unsubscribe", "subscribe"],
    "id": ["s", "u"],
    "x_lo": [0.0, 1.0],
    "y_hi": [9.0, 8.0],
}
POINTS: Rows = {"id": [1, 2], "x": [1.0, 2.0], "y": [1.0, 5.0]}
TEXTS: Rows = {
    "id": ["m", "n"],
    "x": [1.0, 2.0],
    "y": [3.0, 4.0],
    "terms": [["tea", "jazz"], ["tea", "sun"]],
    "source": ["press", None],
    "time": [NOON, NOON + dt.timedelta(minutes=1)],
}
READERS: Rows = {
    "id": [1, 2],
    "x": [1.0, 2.0],
    "y": [3.0, 4.0],
    "terms": [["tea", "jazz"], ["sun", "tea"]],
    "k": [1, 2],
}
RANKED: Rows = {**BOXES, "score": [1.0, 2.0]}


def _new(rows: Rows) -> Rows:
    """The same rows under new ids."""
    return {**rows, "id": [one * 2 if isinstance(one, str) else one + 10 for one in rows["id"]]}


CASES = {
    "range_topk": Case(
        RangeTopK,
        {"over": "risk", "by": "pe", "k": 2},
        [("publish", OBJECTS), ("subscribe", {name: RANGES[name] for name in ("id", "risk_lo", "risk_hi")})],
        {"publish": OBJECTS, "subscribe": _new(RANGES), "amend": RANGES, "disseminate": OBJECTS},
        {"unsubscribe": [1, 2], "results": [1, 2]},
    ),
    "covering": Case(
        CoveringTable,
        {"over": ["x", "y"]},
        [("subscribe", BOXES)],
        {"subscribe": _new(BOXES), "amend": BOXES, "publish": POINTS, "covers": BOXES, "follow": COMMANDS},
        {"unsubscribe": ["s", "t"]},
    ),
    "matching": Case(
        RankedMatcher,
        {"over": ["x", "y"], "index": "box-tree"},
        [("subscribe", RANKED)],
        {
            "subscribe": _new(RANKED),
            "amend": RANKED,
            "publish": POINTS,
            "rescore": {"id": ["s", "t"], "score": [3.0, 4.0]},
        },
        {"unsubscribe": ["s", "t"]},
    ),
    "geotext": Case(
        GeoTextTopK,
        {"bounds": (0, 0, 9, 9), "window": dt.timedelta(hours=1), "per_source": 1, "distinct": True},
        [("subscribe", READERS), ("publish", TEXTS)],
        {"subscribe": _new(READERS), "amend": READERS, "publish": _new(TEXTS)},
        {"unsubscribe": [1, 2], "results": [1, 2]},
    ),
    "moving_topk": _moving(MovingTopK),
    "moving_skyline": _moving(MovingSkyline),
}


# The law


class Attack(NamedTuple):
    """One input to one call; `column` is the one that is hostile, if it is one alone."""

    call: str
    given: Any
    label: str
    column: str | None = None


def attack(engine: Any, one: Attack) -> bool:
    """Give the input to the call and check what must hold; says whether it was taken."""
    before, refused = frozen(engine), None
    try:
        getattr(engine, one.call)(one.given)
    except InputError as error:
        refused = error.with_traceback(None)  # what foreign code raised may hold text that no report can
    except MemoryError:
        pass
    except Exception as error:
        raise AssertionError(
            f"{one.call} of {one.label} in {one.column}: {type(error).__name__}: {error}"
        ) from error
    if refused is None:
        return True
    legible(refused, one)
    same_as(before, engine, f"after the refused {one.call} of {one.label}")
    return False


def legible(error: InputError, one: Attack) -> None:
    """The text of an error is short, can be printed and names the column."""
    text = str(error)
    assert len(text) < MOST, f"{one.label}: {len(text)} characters"
    odd = [c for c in text if not (c.isprintable() or c == "\n")]
    assert not odd, f"{one.label}: {odd} in {text!r}"
    names = [] if one.column is None else [one.column, one.column.replace("_hi", "_lo")]
    assert not names or any(f'"{name}"' in text for name in names), (
        f"{one.label}: {text} does not name {names}"
    )


# Columns


class Raising:
    """An object that raises from some of its methods."""

    def __init__(self, size: int, *names: str) -> None:
        self._size, self._names = size, names

    def __getattribute__(self, name: str) -> Any:
        if name in object.__getattribute__(self, "_names"):
            raise ZeroDivisionError(f"no {name}\x07\ud800 here")
        return object.__getattribute__(self, name)

    def _may(self, name: str) -> None:
        if name in object.__getattribute__(self, "_names"):
            raise ZeroDivisionError(f"no {name}\x07\ud800 here")

    def __len__(self) -> int:
        self._may("__len__")
        return self._size

    def __getitem__(self, place: Any) -> Any:
        self._may("__getitem__")
        return [1.0] * len(range(self._size)[place]) if isinstance(place, slice) else range(self._size)[place]

    def __repr__(self) -> str:
        self._may("__repr__")
        return "\x00raising\n" * 100


def capsule(method: str, answer: Callable[[], Any]) -> Any:
    """An object with a method of the PyCapsule interface."""

    def answers(self: Any, requested_schema: Any = None) -> Any:
        return answer()

    return type("Foreign", (), {method: answers, "__len__": lambda self: 2})()


def _fails() -> Any:
    raise ZeroDivisionError("the stream is dry\x1b[31m")


def _objects(*values: Any) -> Any:
    found = np.empty(len(values), object)
    found[:] = values
    return found


def _repeated(value: Any) -> Callable[[int], Any]:
    return lambda n: [value] * n


def _union(size: int) -> pa.Array:
    return pa.UnionArray.from_sparse(pa.array([0] * size, pa.int8()), [pa.array([1.0] * size)])


VALUES: dict[str, Any] = {
    "null": None,
    "truth": True,
    "NaN": float("nan"),
    "infinity": float("inf"),
    "largest": sys.float_info.max,
    "smallest": 5e-324,
    "minus zero": -0.0,
    "big integer": 2**63,
    "huge integer": 10**5000,
    "bytes": b"\xff\x00",
    "surrogate": "\ud800",
    "control": "\x00\x1b[31m\n\u202e",
    "long text": "x" * 100_000,
    "empty text": "",
    "complex": 1j,
    "fraction": Fraction(1, 3),
    "decimal": Decimal("1.5"),
    "wide decimal": Decimal("1e80"),
    "no decimal": Decimal("nan"),
    "date": dt.date(9999, 12, 31),
    "time": dt.datetime(1, 1, 1),
    "span": dt.timedelta(days=1),
    "nested": {"a": [1, {"b": None}]},
    "list": [1, "a"],
    "list of null": [None],
    "object": object(),
    "type": int,
    "silent": Raising(2, "__repr__"),
    "Arrow scalar": pa.scalar("a"),
    "pandas NA": pd.NA,
    "pandas NaT": pd.NaT,
    "NumPy float": np.float64(1.5),
    "NumPy short float": np.float16(1.5),
    "NumPy long float": np.longdouble(1.5),
    "NumPy integer": np.int8(3),
    "NumPy unsigned": np.uint64(2**64 - 1),
    "NumPy truth": np.bool_(True),
    "NumPy text": np.str_("a"),
    "NumPy time": np.datetime64("2024-01-01"),
    "NumPy nanoseconds": np.datetime64("2024-01-01", "ns"),
    "NumPy NaT": np.datetime64("NaT"),
    "NumPy array": np.zeros(2),
}

COLUMNS: dict[str, Callable[[int], Any]] = {
    **{f"{name} in every row": _repeated(value) for name, value in VALUES.items()},
    "one value": lambda n: 5,
    "text": lambda n: "ab"[:n],
    "nothing": lambda n: None,
    "a function": lambda n: len,
    "a dict": lambda n: {"a": [1] * n},
    "a dict of nested": lambda n: {"a": {"b": [1]}},
    "a set": lambda n: set(range(n)),
    "keys": lambda n: dict.fromkeys(range(n)).keys(),
    "a generator": lambda n: (one for one in range(n)),
    "an iterator": lambda n: iter([1] * n),
    "a range": range,
    "a deque": lambda n: collections.deque(range(n)),
    "a memory": lambda n: memoryview(bytes(n)),
    "0-d": lambda n: np.array(5),
    "2-d": lambda n: np.zeros((n, 2)),
    "no rows": lambda n: [],
    "too many rows": lambda n: [1.0] * (n + 1),
    "structured": lambda n: np.zeros(n, [("a", "i4"), ("b", "f8")]),
    "masked": lambda n: np.ma.masked_array(np.ones(n), [True] + [False] * (n - 1)),
    "record array": lambda n: np.rec.array(np.zeros(n, [("a", "i4")])),
    "complex array": lambda n: np.zeros(n, complex),
    "truth array": lambda n: np.ones(n, bool),
    "bytes array": lambda n: np.array([b"\xff"] * n),
    "void array": lambda n: np.zeros(n, "V3"),
    "text array": lambda n: np.array(["a\ud800"] * n),
    "odd code points": lambda n: np.full(n, 0x7FFFFFFF, np.uint32).view("U1"),
    "NaT array": lambda n: np.full(n, np.datetime64("NaT", "ns")),
    "years": lambda n: np.full(n, np.datetime64("2024", "Y")),
    "other byte order": lambda n: np.ones(n, ">f8"),
    "other byte order of times": lambda n: np.zeros(n, ">M8[s]"),
    "long double array": lambda n: np.ones(n, np.longdouble),
    "negative strides": lambda n: np.arange(2.0 * n)[::-2],
    "object array": lambda n: _objects(*([1.0] * (n - 1)), "a"),
    "objects in objects": lambda n: _objects(*([[1, 2]] * n)),
    "frame": lambda n: pd.DataFrame({"a": range(n)}),
    "polars frame": lambda n: pl.DataFrame({"a": range(n)}),
    "table": lambda n: pa.table({"a": range(n)}),
    "batch": lambda n: pa.record_batch({"a": range(n)}),
    "categories": lambda n: pd.Series(["a"] * n, dtype="category"),
    "categories of intervals": lambda n: pd.Series(pd.cut(np.arange(n), 2)),
    "periods": lambda n: pd.Series([pd.Period("2020")] * n),
    "missing integers": lambda n: pd.Series([1, *[None] * (n - 1)], dtype="Int64"),
    "pandas objects": lambda n: pd.Series([1, *["a"] * (n - 1)], dtype=object),
    "sparse": lambda n: pd.Series(pd.arrays.SparseArray(np.ones(n))),
    "polars structs": lambda n: pl.Series([{"a": 1}] * n),
    "polars objects": lambda n: pl.Series([object()] * n, dtype=pl.Object),
    "polars lists": lambda n: pl.Series([["a", None]] * n),
    "polars categories": lambda n: pl.Series(["a"] * n, dtype=pl.Categorical),
    "no length": lambda n: Raising(n, "__len__"),
    "negative length": lambda n: Raising(-1),
    "too long": lambda n: Raising(n + 1),
    "no items": lambda n: Raising(n, "__getitem__"),
    "no class": lambda n: Raising(n, "__class__"),
    "no columns": lambda n: Raising(n, "columns"),
    "stream that fails": lambda n: capsule("__arrow_c_stream__", _fails),
    "array that fails": lambda n: capsule("__arrow_c_array__", _fails),
    "stream of nothing": lambda n: capsule("__arrow_c_stream__", lambda: 5),
    "array of nothing": lambda n: capsule("__arrow_c_array__", lambda: (1, 2)),
    "NumPy that fails": lambda n: capsule("__array__", _fails),
    "union": _union,
    "chunked union": lambda n: pa.chunked_array([_union(1), _union(n - 1)]),
    "dense union": lambda n: pa.UnionArray.from_dense(
        pa.array([0] * n, pa.int8()), pa.array(range(n), pa.int32()), [pa.array([1.0] * n)]
    ),
    "runs": lambda n: pa.RunEndEncodedArray.from_arrays([n], [1.0]),
    "chunked runs": lambda n: pa.chunked_array(
        [pa.RunEndEncodedArray.from_arrays([size], ["a"]) for size in (1, n - 1)]
    ),
    "extension": lambda n: pa.array([b"0123456789abcdef"] * n, pa.uuid()),
    "struct": lambda n: pa.array([{"a": 1}] * n),
    "map": lambda n: pa.array([[("a", 1)]] * n, pa.map_(pa.string(), pa.int64())),
    "binary": lambda n: pa.array([b"a"] * n),
    "duration": lambda n: pa.array([1] * n, pa.duration("ns")),
    "time of day": lambda n: pa.array([1] * n, pa.time64("ns")),
    "null type": pa.nulls,
    "wide decimals": lambda n: pa.array([Decimal(10) ** 37] * n, pa.decimal128(38, 0)),
    "wider decimals": lambda n: pa.array([Decimal(10) ** 75] * n, pa.decimal256(76, 0)),
    "fine decimals": lambda n: pa.array([Decimal(1).scaleb(-76)] * n, pa.decimal256(76, 76)),
    "dictionary of dictionaries": lambda n: pa.DictionaryArray.from_arrays(
        [0] * n, pa.array(["a"]).dictionary_encode()
    ),
    "dictionary with a null": lambda n: pa.DictionaryArray.from_arrays([0] * n, pa.array([None, "a"])),
    "dictionary of lists": lambda n: pa.DictionaryArray.from_arrays([0] * n, pa.array([["a"]])),
    "lists of dictionaries with a null": lambda n: pa.ListArray.from_arrays(
        list(range(n + 1)), pa.DictionaryArray.from_arrays([0] * n, pa.array([None, "a"]))
    ),
    "lists of lists": lambda n: pa.array([[["a"]]] * n),
    "fixed lists": lambda n: pa.array([["a", "b"]] * n, pa.list_(pa.string(), 2)),
    "empty fixed lists": lambda n: pa.array([[]] * n, pa.list_(pa.string(), 0)),
    "other zone": lambda n: pa.array([0] * n, pa.timestamp("s", "Nowhere/City")),
    "far times": lambda n: pa.array([2**62] * n, pa.timestamp("s")),
}


# Rows and ids


def _renamed(rows: Rows, name: Any) -> dict[Any, Any]:
    return {**rows, name: rows["id"]}


class Unmapped(Mapping[str, Any]):
    """A mapping that fails when it is read."""

    def __getitem__(self, key: str) -> Any:
        raise ZeroDivisionError("no items")

    def __iter__(self) -> Iterator[str]:
        return iter(["id"])

    def __len__(self) -> int:
        return 1


class Unwritten:
    """A column name that fails when it is written down or compared."""

    def __hash__(self) -> int:
        return 7

    def __eq__(self, other: object) -> bool:
        raise ZeroDivisionError("no comparison")

    def __str__(self) -> str:
        raise ZeroDivisionError("no name")


def _records(rows: Rows) -> list[dict[str, Any]]:
    return [dict(zip(rows, values, strict=True)) for values in zip(*rows.values(), strict=True)]


TABLES: dict[str, Callable[[Rows], Any]] = {
    "nothing": lambda rows: None,
    "a number": lambda rows: 5,
    "text": lambda rows: "id",
    "bytes": lambda rows: b"id",
    "a list of numbers": lambda rows: [1, 2],
    "a list of nothing": lambda rows: [None],
    "no rows": lambda rows: [],
    "empty rows": lambda rows: [{}],
    "rows": _records,
    "rows as a tuple": lambda rows: tuple(_records(rows)),
    "rows as mappings": lambda rows: [types.MappingProxyType(one) for one in _records(rows)],
    "rows and nothing": lambda rows: [*_records(rows), None],
    "rows and a number": lambda rows: [*_records(rows), 5],
    "rows and others": lambda rows: [*_records(rows), {"other\x00": 1}],
    "rows without ids": lambda rows: [*_records(rows), {}],
    "rows that fail": lambda rows: [*_records(rows), Unmapped()],
    "a generator of rows": lambda rows: (one for one in _records(rows)),
    "a set": set,
    "an array": lambda rows: pa.array([1, 2]),
    "an array of structs": lambda rows: pa.array(_records(rows)),
    "NumPy": lambda rows: np.zeros((2, 2)),
    "NumPy records": lambda rows: np.zeros(2, [("id", "i8")]),
    "a schema": lambda rows: pa.schema([("id", pa.int64())]),
    "a series": lambda rows: pd.Series([1, 2]),
    "an empty frame": lambda rows: pd.DataFrame(),
    "a frame": pd.DataFrame,
    "a frame with odd objects": lambda rows: pd.DataFrame({**rows, "odd": [1, "a"]}),
    "a frame with numbered columns": lambda rows: pd.DataFrame([[1, 2]]),
    "a frame with a column twice": lambda rows: pd.DataFrame([[1, 2]], columns=["id", "id"]),
    "a frame with two levels": lambda rows: pd.DataFrame([[1, 2]], columns=[["id", "id"], ["a", "b"]]),
    "a reader": lambda rows: pa.table(rows).to_reader(),
    "a reader at its end": lambda rows: _read_out(pa.table(rows).to_reader()),
    "a table with a column twice": lambda rows: pa.table([[1], [2]], names=["id", "id"]),
    "a table without names": lambda rows: pa.table([[1], [2]], names=["", ""]),
    "a table without columns": lambda rows: pa.table({}),
    "a mapping that fails": lambda rows: Unmapped(),
    "a mapping": types.MappingProxyType,
    "a name that fails": lambda rows: _renamed(rows, Unwritten()),
    "an empty name": lambda rows: _renamed(rows, ""),
    "a surrogate name": lambda rows: _renamed(rows, "\ud800"),
    "a control name": lambda rows: _renamed(rows, "\x1b[31m\n"),
    "a long name": lambda rows: _renamed(rows, "x" * 1_000_000),
    "a number for a name": lambda rows: _renamed(rows, 5),
    "a truth for a name": lambda rows: _renamed(rows, True),
    "a tuple for a name": lambda rows: _renamed(rows, ("id", 1)),
    "nothing for a name": lambda rows: _renamed(rows, None),
    "names that are written alike": lambda rows: _renamed(_renamed(rows, 1), "1"),
    "many columns": lambda rows: {**rows, **{f"c{place}": [0] * 2 for place in range(3000)}},
    "stream that fails": lambda rows: capsule("__arrow_c_stream__", _fails),
    "stream of nothing": lambda rows: capsule("__arrow_c_stream__", lambda: 5),
    "array that fails": lambda rows: capsule("__arrow_c_array__", _fails),
    "no class": lambda rows: Raising(2, "__class__"),
    "no stream": lambda rows: Raising(2, "__arrow_c_stream__"),
}


def _read_out(reader: pa.RecordBatchReader) -> pa.RecordBatchReader:
    reader.read_all()
    return reader


def attacks(case: Case) -> Iterator[Attack]:
    """Every hostile column in every place, and all hostile rows and ids, for every call of an engine."""
    for call, rows in case.rows.items():
        for label, table in TABLES.items():
            yield Attack(call, table(rows), label)
        for name in rows:
            for label, column in COLUMNS.items():
                yield Attack(call, {**rows, name: column(2)}, label, name)
            for label, value in VALUES.items():
                spoiled = [*_records(rows)[:1], {**_records(rows)[1], name: value}]
                yield Attack(call, spoiled, f"{label} in the last row", name)
    for call, ids in case.ids.items():
        for label, column in COLUMNS.items():
            yield Attack(call, column(2), label)
            yield Attack(call, {"id": column(2)}, label, "id")
        for label, value in VALUES.items():
            yield Attack(call, [ids[0], value], f"{label} in the last place", "id")
        for label, table in TABLES.items():
            yield Attack(call, table({"id": ids}), label)


# Damaged Arrow


def damaged(array: pa.Array, rng: np.random.Generator) -> pa.Array:
    """The same array with something wrong that Arrow does not see when it is made."""
    while True:
        try:
            return _damaged(array, rng)
        except pa.ArrowException:
            pass


def _damaged(array: pa.Array, rng: np.random.Generator) -> pa.Array:
    """The same array with something wrong in a buffer, in its length, its offset or its count of nulls."""
    kind = array.type
    if pa.types.is_dictionary(kind):
        parts = [array.indices, array.dictionary]
        place = int(rng.integers(2))
        parts[place] = damaged(parts[place], rng)
        return pa.DictionaryArray.from_arrays(*parts, safe=False)
    nested = pa.types.is_nested(kind)
    children = [array.values] if nested else None
    if children and rng.random() < 0.5:
        children = [damaged(children[0], rng)]
    buffers, size, offset, nulls = array.buffers()[: kind.num_buffers], len(array), array.offset, -1
    if kind == pa.string_view():
        buffers = array.buffers()
    wrong = rng.integers(6)
    if wrong == 0:
        size += int(rng.integers(1, 100))
    elif wrong == 1:
        offset += int(rng.integers(1, 100))
    elif wrong == 2:
        nulls = int(rng.integers(0, size + 2))
    else:
        place = int(rng.integers(len(buffers)))
        buffers[place] = _spoiled(buffers[place], rng)
        if kind == pa.string_view() and buffers[place] is None:  # which Arrow itself does not survive
            buffers[place] = pa.py_buffer(b"")
    return pa.Array.from_buffers(kind, size, buffers, nulls, offset, children)


def _spoiled(buffer: pa.Buffer | None, rng: np.random.Generator) -> pa.Buffer | None:
    """A buffer that is absent, too short, or holds something else."""
    held = bytearray(buffer) if buffer is not None else bytearray(rng.bytes(1))
    wrong = rng.integers(4)
    if wrong == 0:
        return None
    if wrong == 1:
        return pa.py_buffer(bytes(held[: rng.integers(len(held) + 1)]))
    if wrong == 2 and len(held) >= 4:
        at = int(rng.integers(len(held) // 4)) * 4
        held[at : at + 4] = int(rng.choice([-1, -(2**31), 2**31 - 1, 0, 200_000, 5])).to_bytes(
            4, "little", signed=True
        )
    elif held:
        held[rng.integers(len(held))] = int(rng.integers(256))
    return pa.py_buffer(bytes(held))


TEXT = [pa.string(), pa.large_string(), pa.string_view(), pa.dictionary(pa.int8(), pa.string())]
LISTS = [pa.list_, pa.large_list, pa.list_view, pa.large_list_view, lambda kind: pa.list_(kind, 2)]
NUMBERS = [pa.float64(), pa.float32(), pa.int16(), pa.decimal128(9, 2), pa.decimal256(50, 2)]
WHOLE = [pa.int64(), pa.int8(), pa.uint64(), pa.dictionary(pa.int8(), pa.int64())]
TIMES = [pa.timestamp("ns"), pa.timestamp("s", "UTC"), pa.date32(), pa.date64()]


def _kinds(name: str, values: list[Any]) -> list[pa.DataType]:
    """Types of Arrow's that a column may come in."""
    if name == "terms":
        return [make(kind) for make in LISTS for kind in TEXT]
    if isinstance(values[0], str):
        return TEXT
    return TIMES if name == "time" else WHOLE if name in ("id", "k") else NUMBERS


def sound_array(name: str, values: list[Any], rng: np.random.Generator) -> pa.Array:
    """A column in one of the types that it may come in, sometimes a slice of a longer one."""
    kinds = _kinds(name, values)
    kind = kinds[rng.integers(len(kinds))]
    if pa.types.is_temporal(kind) and not pa.types.is_timestamp(kind):
        values = [value.date() for value in values]
    if pa.types.is_dictionary(kind):
        return pa.array(values, kind.value_type).dictionary_encode()
    before = int(rng.integers(2))
    given = [*values[:before], *values]
    if pa.types.is_decimal(kind):
        return pa.array(given).cast(kind).slice(before)
    return pa.array(given, kind).slice(before)


def damaged_rows(rows: Rows, rng: np.random.Generator) -> tuple[Any, str, str | None]:
    """Rows of which one column is damaged, in some form; what it is, and the column if it is wrong alone."""
    name = list(rows)[rng.integers(len(rows))]
    arrays = {each: sound_array(each, values, rng) for each, values in rows.items()}
    if rng.random() < 0.5:  # as a client of ours would send it: only ids of integers and numbers
        arrays = {each: pa.array(values) for each, values in rows.items()}
    arrays[name] = damaged(arrays[name], rng)
    label = f"{arrays[name].type}"
    form = rng.integers(4)
    if form == 0:
        return arrays, f"{label} in a dict", name
    if form == 1:
        chunked = {each: pa.chunked_array([array, array]) for each, array in arrays.items()}
        return chunked, f"{label} in chunks", None  # the same ids come twice
    if len(set(map(len, arrays.values()))) > 1:
        return arrays, f"{label} in a dict", name
    made = pa.record_batch(arrays) if form == 2 else pa.table(arrays)
    return made, f"{label} in a {type(made).__name__}", name


def damaged_message(rows: Rows, rng: np.random.Generator) -> Any:
    """A batch out of a message with other bytes in its body."""
    batch = pa.record_batch({name: sound_array(name, values, rng) for name, values in rows.items()})
    if "dictionary" in str(batch.schema):  # which is a message of its own
        return batch
    held = bytearray(batch.serialize())
    body = 8 + int.from_bytes(held[4:8], "little")
    for _ in range(int(rng.integers(1, 4))):
        if len(held) > body:
            held[rng.integers(body, len(held))] = int(rng.integers(256))
    return pa.ipc.read_record_batch(pa.py_buffer(bytes(held)), batch.schema)


def same_values(array: pa.Array) -> None:
    """Ids that are taken are those that Arrow sees, once it has found nothing wrong."""
    try:
        ids = read_ids(array, where="ids")
    except InputError as error:
        legible(error, Attack("read_ids", array, str(array.type)))
        return
    ends = ids.offsets.tolist()
    texts = [bytes(ids.data[a:b]).decode() for a, b in pairwise(ends)]
    found = ids.values.tolist() if ids.kind == "int" else texts
    assert found == array.to_pylist(), f"{array.type}: {found}"


def journaled(engine: type[Engine], one: Attack) -> None:
    """A shard writes the call down, or refuses it."""
    try:
        batches.encode(batches.commands_of([(one.call, one.given)], engine.calls))
    except InputError as error:
        legible(error, one._replace(column=None))


def assail(seed: int, count: int, tell: Callable[[str], None]) -> int:
    """Give damaged Arrow to every engine; says how often one was taken after all."""
    rng, taken = np.random.default_rng(seed), 0
    engines = {name: case.make() for name, case in CASES.items()}
    for number in range(count):
        name = list(CASES)[number % len(CASES)]
        case = CASES[name]
        call = list(case.rows)[rng.integers(len(case.rows))]
        given, label, column = damaged_rows(case.rows[call], rng)
        one = Attack(call, given, label, column)
        if rng.random() < 0.3:
            one = Attack(call, damaged_message(case.rows[call], rng), "a message")
        elif rng.random() < 0.3:
            call = list(case.ids)[rng.integers(len(case.ids))]
            one = Attack(call, damaged(sound_array("id", case.ids[call], rng), rng), "ids")
            tell(f"{seed} {number}: values of {one.given.type}")
            same_values(one.given)
        tell(f"{seed} {number}: {name}.{one.call}: {one.label} in {one.column}")
        if one.call in case.engine.calls:
            journaled(case.engine, one)
        if attack(engines[name], one):
            taken += 1
            engines[name] = case.make()
    fit = {"terms": damaged(pa.array([["a"], ["b"]]), rng)}
    try:
        Vocabulary.fit(fit)
    except InputError:
        taken += 1
    return taken


if __name__ == "__main__":
    last = sys.stdout

    def tell(text: str) -> None:
        last.write(f"{text}\n")
        last.flush()

    tell(f"taken: {assail(int(sys.argv[1]), int(sys.argv[2]), tell)}")
