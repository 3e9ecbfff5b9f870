"""Where rows come from: a Spark format with options, and how its columns become the engine's.

What is known of a source's columns before Spark starts is its declared schema, or the one in its first
Parquet file, or what the format always has; of any other format it is known once Spark has opened it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path

import pyarrow as pa

from rankcast.pipeline import ddl
from rankcast.pipeline.samples import files_at
from rankcast.pipeline.terms import Text, quoted

FILES = ("parquet", "json", "csv", "orc", "text")  # formats that need a path
DECLARED = ("json", "csv", "orc")  # formats of files that say nothing of their columns before they are read
ENDLESS = ("rate", "rate-micro-batch", "socket")  # formats without a history
VALUES = ("kafka", "socket", "text")  # formats whose rows are texts in the column `value`
SEQ, OP = "seq", "op"

PARTITION = re.compile(r"([^=/]+)=([^=/]+)")
_OWN = {
    "rate": "timestamp timestamp, value long",
    "rate-micro-batch": "timestamp timestamp, value long",
    "socket": "value string",
    "text": "value string",
    "kafka": "key binary, value binary, topic string, partition int, offset long, timestamp timestamp, "
    "timestampType int",
}
_UNSIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}


@dataclass(frozen=True)
class Source:
    """One input of the engine.

    Attributes:
        name: `events`, `subscriptions` or `objects`.
        format: what Spark calls it.
        path: where it is, for formats that have a place.
        options: what Spark is told beside.
        schema: the declared columns, as Spark writes them.
        values: how texts in the column `value` are written, `json` or `csv`; None: they are not looked into.
        stream: whether rows keep coming; otherwise it is a table.
        columns: the source's column by the engine's.
        expressions: expressions of Spark's and their types, by the engine's column.
        text: how `terms` are had from a text.
        seq: the source's column of sequence numbers, if it is named.
    """

    name: str
    format: str
    path: str | None
    options: Mapping[str, str] = field(repr=False)
    schema: str | None
    values: str | None
    stream: bool
    columns: Mapping[str, str]
    expressions: Mapping[str, tuple[str, str]]
    text: Text | None
    seq: str | None

    def given(self) -> pa.Schema | None:
        """The columns the source has, None where only Spark can tell."""
        own = ddl.parse(_OWN[self.format]) if self.format in _OWN else None
        if self.schema is not None:
            declared = ddl.parse(self.schema)
            if own is None or self.values is None:
                return declared
            return pa.schema([*declared, *(each for each in own if each.name not in declared.names)])
        if own is not None or self.format != "parquet" or self.path is None:
            return own
        return parquet_columns(self.path)

    def projected(self, given: pa.Schema) -> dict[str, tuple[str, pa.DataType]]:
        """The engine's columns: an expression of Spark's for each, and its type.

        A column that is mapped is taken under its new name alone; any other keeps its name.

        Raises:
            KeyError: a column that is named and is not there.
        """
        named = dict(self.columns)
        if self.seq is not None:
            named[SEQ] = self.seq
        used = {*named.values(), *([self.text.column] if self.text else [])}
        for each in used:
            if each not in given.names:
                raise KeyError(each)
        found = {each.name: (quoted(each.name), each.type) for each in given if each.name not in used}
        found |= {name: (quoted(each), given.field(each).type) for name, each in named.items()}
        if self.text is not None:
            found["terms"] = (self.text.sql, pa.list_(pa.string()))
        for name, (sql, kind) in self.expressions.items():
            found[name] = (f"cast(({sql}) as {kind})", ddl.type_of(kind))
        return found

    def origins(self, names: Iterable[str]) -> dict[str, str]:
        """By column of the engine, the source's column that it is taken from; computed ones are left out."""
        found = {name: self.columns.get(name, name) for name in names if name not in self.expressions}
        if self.seq is not None and SEQ in found:
            found[SEQ] = self.seq
        if self.text is not None and "terms" in found:
            found["terms"] = self.text.column
        return found

    @property
    def written(self) -> str | None:
        """How its rows are written if they are texts, `json` or `csv`."""
        return self.values or (self.format if self.format in ("json", "csv") else None)

    @property
    def separator(self) -> str:
        """What stands between values of a line."""
        named = {key.lower(): value for key, value in self.options.items()}
        return named.get("sep") or named.get("delimiter") or ","

    def is_on(self, option: str) -> bool:
        """Whether an option of Spark's is set to true, however it is written."""
        return any(
            key.lower() == option.lower() and value.lower() == "true" for key, value in self.options.items()
        )

    def has_option(self, *options: str) -> bool:
        """Whether one of some options is given, however it is written."""
        return bool({key.lower() for key in self.options} & {option.lower() for option in options})


def parquet_columns(place: str) -> pa.Schema | None:
    """The columns of the first Parquet file at a place, with those that its folders name; None if not here.

    Raises:
        FileNotFoundError: there is no such file.
    """
    sample = files_at(place)
    if sample is None:
        return None
    if not sample.files:
        raise FileNotFoundError(f"no Parquet file is at {place}")
    first = sample.files[0]
    fields = list(parquet_fields(first))
    names = {each.name for each in fields}
    for name, value in PARTITION.findall(str(first.parent)):
        if name not in names:
            fields.append(pa.field(name, pa.int32() if value.isdigit() else pa.string()))
    return pa.schema(fields)


def parquet_fields(path: Path) -> pa.Schema:
    """The columns of one Parquet file, with the types that Spark sees."""
    import pyarrow.parquet as pq  # noqa: PLC0415

    return pa.schema([pa.field(each.name, _plain(each.type)) for each in pq.read_schema(path)])


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type that Spark makes of one."""
    if pa.types.is_dictionary(kind):
        return _plain(kind.value_type)
    if pa.types.is_large_string(kind):
        return pa.string()
    if pa.types.is_large_list(kind):
        return pa.list_(_plain(kind.value_type))
    return _UNSIGNED.get(kind, kind)
