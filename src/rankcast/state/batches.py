"""A batch of commands as canonical bytes, and the token that names a history of batches.

A batch is one table of events, or a sequence of commands `(call, rows)` that apply in order. Its bytes are
one Arrow IPC stream with a row per command (`call`, `rows`: the table of that command, again Arrow IPC). They
are canonical: batches of the same rows give the same bytes, however the rows were chunked or sliced,
and whatever lies under a null. Metadata does not count.

Tokens chain: `token' = blake2b(bytes of the batch, key=token)`. Equal tokens mean equal histories. A
running number could not guarantee that: an abandoned attempt and its replacement have the same number.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.core import snapshot
from rankcast.core.snapshot import Json
from rankcast.errors import InputError
from rankcast.tables import deltas
from rankcast.tables.read import as_table, attempted, is_records
from rankcast.tables.readers import reason
from rankcast.tables.schema import is_index

Token: TypeAlias = str
Command: TypeAlias = tuple[str, Any]

ID_CALLS = frozenset({"unsubscribe", "remove", "retract"})
TIME_CALLS = frozenset({"advance"})


class Plain(NamedTuple):
    """One command with one row of plain values."""

    call: str
    row: dict[str, Any]
    schema: pa.Schema


class Prepared:
    """A batch that was read and encoded: its commands, with rows as canonical tables, and its bytes.

    A batch of one plain row creates its table on demand.
    """

    __slots__ = ("_commands", "data", "plain")

    def __init__(self, commands: list[Command] | None, data: bytes, plain: Plain | None = None) -> None:
        self._commands = commands
        self.data = data
        self.plain = plain

    @property
    def commands(self) -> list[Command]:
        """The commands, rows as tables."""
        if self._commands is None:
            assert self.plain is not None  # noqa: S101  # one of the two is given
            self._commands = [(self.plain.call, pa.Table.from_batches([_plain_batch(self.plain)]))]
        return self._commands

    @property
    def given(self) -> list[Command]:
        """The commands for an engine, which reads a plain row in a fraction of the time of a table."""
        if self.plain is None:
            return self.commands
        return [(self.plain.call, {name: [value] for name, value in self.plain.row.items()})]


_TOKEN_BYTES = 32
_FEW = 256  # rows of a small table
_SHORT = 64  # bytes of text in a row whose layout is worth keeping
_END = b"\xff\xff\xff\xff\0\0\0\0"  # of a stream
_PLAIN_TYPES = {int: pa.int64(), float: pa.float64(), str: pa.string()}
_OP = "op"
_OUTER = pa.schema([("call", pa.string()), ("rows", pa.large_binary())])


def commands_of(
    batch: Any, calls: Iterable[str], check: Callable[[str, Any], None] | None = None
) -> list[Command]:
    """The commands of a batch, their rows as canonical tables; a table or rows alone are one `publish`.

    Commands other than `calls` are refused. `unsubscribe`, `remove` and `retract` take ids, or a table with a
    column `id`; `advance` a time, or a table with a column `time`. `check` gets each call with its original
    rows.
    """
    if attempted(lambda: _is_table(batch) or hasattr(batch, "__arrow_c_stream__"), "batch"):
        batch = [("publish", batch)]
    if isinstance(batch, str | bytes) or not isinstance(batch, Iterable):
        raise InputError(
            f"cannot read a batch from {type(batch).__name__}",
            expected="a table, or a sequence of commands (call, rows)",
        )
    known = frozenset(calls)
    return [_plain(command, known, check) for command in batch]


def prepared(batch: Any, calls: Iterable[str], check: Callable[[str, Any], None] | None = None) -> Prepared:
    """A batch as commands and bytes; see `commands_of` and `encode`."""
    found = _one_row(batch, calls, check)
    if found is None:
        commands = commands_of(batch, calls, check)
        found = Prepared(commands, encode(commands))
    return found


def _one_row(batch: Any, calls: Iterable[str], check: Callable[[str, Any], None] | None) -> Prepared | None:
    """One command with one row of plain numbers and strings, in a tenth of the time; None for any other.

    Events published one by one are like this. Anything unusual takes the long way.
    """
    if type(batch) is not list or len(batch) != 1 or type(batch[0]) is not tuple or len(batch[0]) != 2:
        return None
    call, rows = batch[0]
    if type(rows) is not list or len(rows) != 1 or type(rows[0]) is not dict or call not in calls:
        return None
    row: dict[str, Any] = rows[0]
    schema = (
        None if call in ID_CALLS | TIME_CALLS else _plain_schema(tuple(row), tuple(map(type, row.values())))
    )
    if schema is None:
        return None
    try:
        values = tuple(each.encode() if type(each) is str else each for each in row.values())
        sizes = tuple(len(each) if type(each) is bytes else -1 for each in values)
        pattern = _pattern(call, schema, sizes)
        data = _plain_bytes(Plain(call, row, schema)) if pattern is None else pattern.filled(values)
    except (pa.ArrowException, OverflowError, UnicodeError, struct.error):
        return None
    if check is not None:
        check(call, rows)
    return Prepared(None, data, Plain(call, dict(row), schema))


def _plain_batch(plain: Plain) -> pa.RecordBatch:
    """The row of a command in Arrow's form."""
    values = zip(plain.row.values(), plain.schema.types, strict=True)
    return pa.RecordBatch.from_arrays(
        [pa.array([value], kind) for value, kind in values], schema=plain.schema
    )


def _plain_bytes(plain: Plain) -> bytes:
    """The canonical bytes of a batch of one plain row."""
    inner = _stream_bytes(_plain_batch(plain))
    outer = [pa.array([plain.call], _OUTER.types[0]), pa.array([inner], _OUTER.types[1])]
    return _stream_bytes(pa.RecordBatch.from_arrays(outer, schema=_OUTER))


class Pattern(NamedTuple):
    """The bytes of batches of one row that differ only in their values, and where the values are."""

    data: bytes
    places: tuple[tuple[str, int], ...]  # by column: how the value is written, and at which byte

    def filled(self, values: tuple[Any, ...]) -> bytes:
        """The bytes of a batch with these values; texts are given as bytes."""
        found = bytearray(self.data)
        for (form, place), value in zip(self.places, values, strict=True):
            struct.pack_into(form, found, place, value)
        return bytes(found)


@lru_cache(maxsize=1024)
def _pattern(call: str, schema: pa.Schema, sizes: tuple[int, ...]) -> Pattern | None:
    """The pattern of batches with one row of these columns, with texts of these sizes in bytes.

    Arrow lays out a row by types and sizes alone. The position of each value is found by writing two batches
    that differ in it, so nothing is assumed; None if that does not give one position.
    """
    if sum(size for size in sizes if size > 0) > _SHORT:
        return None
    # Of each column two values that differ in the first byte that Arrow writes.
    pairs = [
        ("a" * size, "b" * size) if size >= 0 else (1, 2) if kind == pa.int64() else (0.1, 0.3)
        for kind, size in zip(schema.types, sizes, strict=True)
    ]
    row: dict[str, Any] = {name: one for name, (one, _) in zip(schema.names, pairs, strict=True)}
    base = _plain_bytes(Plain(call, row, schema))
    places = []
    for name, kind, size, (_, other) in zip(schema.names, schema.types, sizes, pairs, strict=True):
        form = f"{size}s" if size >= 0 else "<q" if kind == pa.int64() else "<d"
        changed = _plain_bytes(Plain(call, {**row, name: other}, schema))
        written = struct.pack(form, other.encode() if isinstance(other, str) else other)
        place = next((at for at in range(len(base)) if base[at] != changed[at]), 0)
        if changed != base[:place] + written + base[place + len(written) :]:
            return None
        places.append((form, place))
    return Pattern(base, tuple(places))


@lru_cache(maxsize=256)
def _plain_schema(names: tuple[Any, ...], kinds: tuple[type, ...]) -> pa.Schema | None:
    """The columns of a row with values of these types; None if one is not plain."""
    if not names or not all(type(name) is str and not is_index(name) for name in names):
        return None
    types = [_PLAIN_TYPES.get(kind) for kind in kinds]
    try:
        return None if None in types else pa.schema(list(zip(names, types, strict=True)))
    except UnicodeError:
        return None


def _stream_bytes(part: pa.RecordBatch) -> bytes:
    """A batch of plain columns as an Arrow IPC stream."""
    start = _start_of(part.schema)
    assert start is not None  # noqa: S101  # no plain column is nested
    return b"".join((start.alone, part.serialize().to_pybytes(), _END))


def encode(commands: Iterable[Command]) -> bytes:
    """The canonical bytes of a batch."""
    pairs = [(call, to_bytes(rows)) for call, rows in commands]
    columns = [[call for call, _ in pairs], [rows for _, rows in pairs]]
    return to_bytes(pa.table(columns, schema=_OUTER))


def decode(data: bytes) -> list[Command]:
    """The commands in the bytes of a batch."""
    outer = from_bytes(data)
    calls, rows = outer.column("call"), outer.column("rows")
    return [(call.as_py(), from_bytes(table.as_buffer())) for call, table in zip(calls, rows, strict=True)]


def first_token(kind: str, header: Json, arrays: Mapping[str, NDArray[Any]]) -> Token:
    """The token of a shard before its first batch: it names the engine's settings and first state.

    Seeds of hash tables, and what depends on them, do not count: engines with equal contents have equal
    tokens.
    """
    header, arrays = _without_seeds(header, arrays)
    listed = {
        name: [array.dtype.str, array.shape, snapshot.digest(np.ascontiguousarray(array).data)]
        for name, array in arrays.items()
    }
    text = json.dumps([kind, header, listed], sort_keys=True, separators=(",", ":"))
    return hashlib.blake2b(text.encode(), digest_size=_TOKEN_BYTES).hexdigest()


def chain(token: Token, data: bytes) -> Token:
    """The token after a batch of these bytes."""
    return hashlib.blake2b(data, key=bytes.fromhex(token), digest_size=_TOKEN_BYTES).hexdigest()


def to_bytes(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream.

    A small one is assembled from its messages, with the same bytes, because a writer would cost more.
    """
    if table.num_rows <= _FEW:
        start = _start_of(table.schema)
        if start is not None and start.fits(table):
            parts = [each.serialize().to_pybytes() for each in table.to_batches()]
            return b"".join((start.with_rows if parts else start.alone, *parts, _END))
    return _written(table)


def _written(table: pa.Table) -> bytes:
    """A table as an Arrow IPC stream, by a writer."""
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    data: bytes = sink.getvalue().to_pybytes()
    return data


def to_view(table: pa.Table) -> bytes | memoryview:
    """The bytes of `to_bytes`, of a large table without a second copy of them."""
    start = _start_of(table.schema)
    if table.num_rows <= _FEW or start is None or not start.fits(table):
        return to_bytes(table)
    parts = table.to_batches()
    size = len(start.with_rows) + sum(map(pa.ipc.get_record_batch_size, parts)) + len(_END)
    buffer = pa.allocate_buffer(size)
    with pa.FixedSizeBufferWriter(buffer) as sink, pa.ipc.new_stream(sink, table.schema) as writer:
        for part in parts:
            writer.write_batch(part)
    return memoryview(buffer).cast("B")


class _Start(NamedTuple):
    """What a stream of tables of one schema begins with: the schema, then the words of its ops, if any."""

    alone: bytes  # without rows there are no words
    with_rows: bytes
    op: int  # which column has the ops; -1: none

    def fits(self, table: pa.Table) -> bool:
        """Whether a table's ops, if it has any, are coded by the words of all deltas."""
        if self.op < 0:
            return True
        return all(each.dictionary.equals(deltas.WORDS) for each in table.column(self.op).chunks)


@lru_cache(maxsize=256)
def _start_of(schema: pa.Schema) -> _Start | None:
    """What streams of a schema begin with; None if that depends on the rows, or is not known."""
    if any(map(pa.types.is_nested, schema.types)):
        return None
    alone: bytes = schema.serialize().to_pybytes()
    encoded = [field for field in schema if pa.types.is_dictionary(field.type)]
    if not encoded:
        return _Start(alone, alone, -1)
    if [field.name for field in encoded] != [_OP] or encoded[0].type != deltas.OP:
        return None
    op = deltas.op_column(b"\0")
    columns = [op if field.name == _OP else pa.nulls(1, field.type) for field in schema]
    stream = _written(pa.table(columns, schema=schema))
    *first, _ = pa.ipc.MessageReader.open_stream(pa.py_buffer(stream))
    words = b"".join(each.serialize().to_pybytes() for each in first)
    return _Start(alone, words, schema.get_field_index(_OP))


def from_bytes(data: Any) -> pa.Table:
    """The table in an Arrow IPC stream; its columns share memory with `data`."""
    with pa.ipc.open_stream(data) as reader:
        return reader.read_all()


def decoded(table: pa.Table) -> pa.Table:
    """The same rows without dictionaries."""
    fields = [
        field.with_type(field.type.value_type) if pa.types.is_dictionary(field.type) else field
        for field in table.schema
    ]
    return table.cast(pa.schema(fields))


def _without_seeds(
    header: Json, arrays: Mapping[str, NDArray[Any]]
) -> tuple[Json, Mapping[str, NDArray[Any]]]:
    """A state without the seeds of its parts and the arrays that depend on them."""
    parts = header.get("parts", {})
    decided = {f"{name}.{array}" for name, part in parts.items() for array in part.get("seeded", ())}
    plain = {name: {key: part[key] for key in part if key != "seed"} for name, part in parts.items()}
    kept = {name: array for name, array in arrays.items() if name not in decided}
    return {**header, "parts": plain} if parts else header, kept


def _plain(command: Any, known: frozenset[str], check: Callable[[str, Any], None] | None) -> Command:
    """The command with its rows as a canonical table."""
    if not isinstance(command, tuple) or len(command) != 2:
        raise InputError(f"a batch holds a {type(command).__name__}", expected="commands (call, rows)")
    call, rows = command
    if not isinstance(call, str) or call not in known:
        raise InputError.unknown(call, known, where="batch", word="call")
    if check is not None:
        check(call, rows)
    if call in ID_CALLS | TIME_CALLS and not attempted(lambda: _is_table(rows), call):
        rows = {"id": rows} if call in ID_CALLS else {"time": [rows]}
    table = as_table(rows, where=call)
    try:
        return call, _canonical(table)
    except pa.ArrowNotImplementedError as error:
        raise InputError(
            "has a column of a type that cannot be written down", where=call, detail=reason(error)
        ) from error


def _is_table(rows: Any) -> bool:
    """Whether rows are a table rather than ids."""
    if isinstance(rows, Mapping | pa.Table | pa.RecordBatch) or hasattr(rows, "columns"):
        return True
    return is_records(rows) and bool(rows)


def _canonical(table: pa.Table) -> pa.Table:
    """The same rows in the one form that `encode` turns into bytes."""
    columns = [_canonical_column(column) for column in table.columns]
    return pa.table(columns, names=table.column_names).combine_chunks()


def _canonical_column(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Decode what has several encodings; rewrite what may hide bytes under a null."""
    kind = column.type
    if pa.types.is_dictionary(kind):
        column = column.cast(kind.value_type)
    elif pa.types.is_string_view(kind):
        column = column.cast(pa.large_string())
    elif _is_plain_list(kind) and pa.types.is_string_view(kind.value_type):  # as polars gives lists of words
        column = column.cast(pa.large_list(pa.large_string()))
    if column.null_count or pa.types.is_nested(kind):
        column = column.take(pa.array(np.arange(len(column))))
    return column


def _is_plain_list(kind: pa.DataType) -> bool:
    """Whether a type is a list that Arrow casts correctly, which is not so for list views."""
    return any(test(kind) for test in (pa.types.is_list, pa.types.is_large_list, pa.types.is_fixed_size_list))
