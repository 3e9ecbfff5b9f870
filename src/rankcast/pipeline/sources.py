"""Where rows come from: a Spark format with options, and how its columns become the engine's.

Before Spark starts, the columns of a source are known from its declared schema (types as Spark writes them,
`id long, terms array<string>`, read without Spark), from its first Parquet file, or from the format itself.
For any other format they are known once Spark has opened it.

Text becomes terms by a Spark expression: tokenise, lowercase, drop stop words.

| tokenise       | terms are                                                             |
| -------------- | --------------------------------------------------------------------- |
| `"words"`      | runs of letters and digits; an apostrophe inside stays: `don't`       |
| `"whitespace"` | runs of anything but white space: `#pizza`                            |
| `"none"`       | the elements of the column, which already is a list of strings        |

A check also looks at some files, and at the first rows of each. It must answer quickly, however large a
folder is, so everything is limited: how many folder entries are listed, how many files are opened, and how
much of each is read.
"""

from __future__ import annotations

import csv
import json
import os
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any, NamedTuple

import pyarrow as pa

from rankcast.pipeline.toml_reader import local

_RUN = r"[\p{L}\p{M}\p{N}]+"
PATTERNS = {"words": rf"{_RUN}(?:[\x27\u2019]{_RUN})*", "whitespace": r"\S+", "none": ""}

_ENGLISH = (
    "a about above after again all also am an and any are as at be because been before being below between "
    "both but by can could did do does doing don't down during each few for from further had has have having "
    "he her here hers him his how i if in into is isn't it it's its just me more most my no nor not now of "
    "off on once only or other our ours out over own same she should so some such than that the their theirs "
    "them then there these they this those through to too under until up very was we were what when where "
    "which while who whom why will with would you your yours"
)
ENGLISH = tuple(_ENGLISH.split())


@dataclass(frozen=True)
class Text:
    """How the terms of a row are made from one of its columns.

    Attributes:
        column: the source's column.
        tokenise: one of the words above.
        lowercase: whether terms are in lower case.
        stop: terms that are dropped, in any case.
    """

    column: str
    tokenise: str = "words"
    lowercase: bool = True
    stop: tuple[str, ...] = ()

    @property
    def sql(self) -> str:
        """The terms as an expression."""
        terms = quoted(self.column)
        if self.tokenise != "none":
            terms = f"regexp_extract_all({terms}, r'{PATTERNS[self.tokenise]}', 0)"
        if self.lowercase:
            terms = f"transform({terms}, word -> lower(word))"
        if self.stop:
            listed = ", ".join(literal(word.lower()) for word in sorted(set(self.stop)))
            terms = f"filter({terms}, word -> lower(word) not in ({listed}))"
        return terms


def quoted(name: str) -> str:
    """A column's name in an expression."""
    return "`" + name.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A string in an expression."""
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


_SIMPLE = {
    "boolean": pa.bool_(),
    "byte": pa.int8(),
    "tinyint": pa.int8(),
    "short": pa.int16(),
    "smallint": pa.int16(),
    "int": pa.int32(),
    "integer": pa.int32(),
    "long": pa.int64(),
    "bigint": pa.int64(),
    "float": pa.float32(),
    "real": pa.float32(),
    "double": pa.float64(),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ntz": pa.timestamp("us"),
}
_TOKEN = re.compile(r"\s*(`(?:[^`]|``)+`|[\w.]+|[<>(),:])")


class TypeMistake(ValueError):  # noqa: N818
    """A text that is not a list of columns."""


def parse(text: str) -> pa.Schema:
    """The columns of a text.

    >>> parse("id long, terms array<string>").names
    ['id', 'terms']
    """
    tokens = _Tokens(text)
    fields = [_field(tokens)]
    while tokens.peek():
        tokens.take(",")
        fields.append(_field(tokens))
    names = [field.name for field in fields]
    for name in names:
        if names.count(name) > 1:
            raise TypeMistake(f'names the column "{name}" twice')
    return pa.schema(fields)


def type_of(text: str) -> pa.DataType:
    """One type.

    >>> type_of("decimal(10, 2)")
    Decimal128Type(decimal128(10, 2))
    """
    tokens = _Tokens(text)
    found = _type(tokens)
    if tokens.peek():
        raise TypeMistake(f'has "{tokens.peek()}" behind the type')
    return found


class _Tokens:
    """The words of a text, one after the other."""

    def __init__(self, text: str) -> None:
        self._all = list(_split(text))
        self._at = 0

    def peek(self) -> str:
        return self._all[self._at] if self._at < len(self._all) else ""

    def take(self, wanted: str | None = None) -> str:
        found = self.peek()
        if not found or (wanted is not None and found != wanted):
            raise TypeMistake(f"has {found or 'its end'} where {wanted or 'a word'} should be")
        self._at += 1
        return found


def _split(text: str) -> Iterator[str]:
    at, text = 0, text.rstrip()
    while at < len(text):
        found = _TOKEN.match(text, at)
        if found is None:
            raise TypeMistake(f'has "{text[at:].strip()[:20]}", which is neither a name nor a type')
        yield found[1]
        at = found.end()


def _field(tokens: _Tokens) -> pa.Field:
    name = tokens.take()
    name = name[1:-1].replace("``", "`") if name.startswith("`") else name
    if tokens.peek() == ":":
        tokens.take()
    if not tokens.peek():
        raise TypeMistake(f'has no type for the column "{name}"')
    kind = _type(tokens)
    nullable = True
    if tokens.peek().lower() == "not":
        tokens.take()
        tokens.take()
        nullable = False
    return pa.field(name, kind, nullable)


def _type(tokens: _Tokens) -> pa.DataType:
    word = tokens.take().lower()
    if word in _SIMPLE:
        return _SIMPLE[word]
    if word in ("decimal", "dec", "numeric"):
        return _decimal(tokens)
    if word == "array":
        tokens.take("<")
        inner = _type(tokens)
        tokens.take(">")
        return pa.list_(inner)
    if word == "map":
        tokens.take("<")
        key = _type(tokens)
        tokens.take(",")
        value = _type(tokens)
        tokens.take(">")
        return pa.map_(key, value)
    if word == "struct":
        return pa.struct(_members(tokens))
    raise TypeMistake(f'has "{word}", which is no type of Spark\'s')


def _decimal(tokens: _Tokens) -> pa.DataType:
    if tokens.peek() != "(":
        return pa.decimal128(10, 0)
    tokens.take("(")
    precision, scale = int(tokens.take()), 0
    if tokens.peek() == ",":
        tokens.take()
        scale = int(tokens.take())
    tokens.take(")")
    return pa.decimal128(precision, scale)


def _members(tokens: _Tokens) -> list[pa.Field]:
    tokens.take("<")
    found = [_field(tokens)]
    while tokens.peek() == ",":
        tokens.take()
        found.append(_field(tokens))
    tokens.take(">")
    return found


ENTRIES = 10_000  # of folders
FILES_SAMPLES = 20
ROWS = 200  # of each file
BYTES = 1 << 20
_PACKED = (".gz", ".bz2", ".zst", ".zstd", ".lz4", ".snappy", ".deflate", ".xz")


class Sample(NamedTuple):
    """Files at a place, in order: those to look into, and whether there are more."""

    files: list[Path]
    more: bool


def files_at(place: str) -> Sample | None:
    """Some files that Spark would read at a place, which may be a pattern; None if it is not on this machine.

    Cost: at most `ENTRIES` entries are listed and sorted.
    """
    path = local(place)
    if path is None:
        return None
    listed = list(islice(_files(path), ENTRIES + 1))
    found = sorted(each for each in listed if each is not None)
    return Sample(found[:FILES_SAMPLES], len(found) > FILES_SAMPLES or len(listed) > ENTRIES)


def _files(path: Path) -> Iterator[Path | None]:
    """Files at a path, in no order; None for an entry that is a folder, or that Spark takes for hidden."""
    if path.is_file():
        yield path
    elif any(sign in str(path) for sign in "*?["):
        anchor = Path(path.anchor)
        for found in anchor.glob(str(path.relative_to(anchor))):
            yield from _files(found)
    elif path.is_dir():
        yield from _inside(path)


def _inside(folder: Path) -> Iterator[Path | None]:
    with os.scandir(folder) as entries:
        for entry in entries:
            hidden = entry.name.startswith(("_", "."))
            yield None if hidden or not entry.is_file() else Path(entry.path)
            if not hidden and entry.is_dir(follow_symlinks=False):
                yield from _inside(Path(entry.path))


def is_packed(path: Path) -> bool:
    """Whether a file is compressed as a whole, and therefore skipped."""
    return path.suffix in _PACKED


def lines_of(path: Path) -> list[str]:
    """The first complete lines of a text that are not blank."""
    with path.open("rb") as file:
        data = file.read(BYTES)
    text = data.decode(errors="replace")
    lines = text.split("\n")
    if len(data) == BYTES:
        lines = lines[:-1]
    return [line for line in islice(lines, ROWS) if line.strip()]


def json_rows(lines: list[str]) -> list[dict[str, Any]]:
    """The JSON objects among lines."""
    rows = []
    for line in lines:
        try:
            row = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(row, dict):
            rows.append(row)
    return rows


def csv_rows(lines: list[str], separator: str) -> Iterator[list[str]]:
    """The values of lines; none if they are separated by more than one character."""
    return csv.reader(lines, delimiter=separator) if len(separator) == 1 else iter(())


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
_HEADERS = "headers array<struct<key: string, value: binary>>"
_UNSIGNED = {pa.uint8(): pa.int16(), pa.uint16(): pa.int32(), pa.uint32(): pa.int64()}


@dataclass(frozen=True)
class Source:
    """One input of the engine.

    Attributes:
        name: `events`, `subscriptions` or `objects`.
        format: its name in Spark.
        path: where it is, for formats that have a place.
        options: further options for Spark.
        schema: the declared columns, as Spark writes them.
        values: the format of the column `value`, `json`, `csv` or `arrow`; None: it is not parsed.
        stream: whether rows keep arriving; otherwise it is a table.
        columns: the source's column by the engine's.
        expressions: Spark expressions and their types, by the engine's column.
        text: how `terms` are made from a text.
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
        """The columns the source has, None if only Spark can tell."""
        own = parse(_OWN[self.format]) if self.format in _OWN else None
        if self.format == "kafka" and self.is_on("includeHeaders"):
            own = parse(f"{_OWN[self.format]}, {_HEADERS}")
        if self.schema is not None:
            declared = parse(self.schema)
            if own is None or self.values is None:
                return declared
            return pa.schema([*declared, *(each for each in own if each.name not in declared.names)])
        if own is not None or self.format != "parquet" or self.path is None:
            return own
        return parquet_columns(self.path)

    def projected(self, given: pa.Schema) -> dict[str, tuple[str, pa.DataType]]:
        """The engine's columns: a Spark expression for each, and its type.

        A mapped column is available only under its new name; any other keeps its name. Other columns of a
        text format, such as the offset of a message, are used only if they are named.

        Raises:
            KeyError: a named column does not exist.
        """
        named = dict(self.columns)
        if self.seq is not None:
            named[SEQ] = self.seq
        used = {*named.values(), *([self.text.column] if self.text else [])}
        for each in used:
            if each not in given.names:
                raise KeyError(each)
        beside: set[str] = set()
        if self.format in VALUES:
            declared = [] if self.schema is None else parse(self.schema).names
            beside = {*parse(_OWN[self.format]).names, "headers"} - set(declared)
        found = {
            each.name: (quoted(each.name), each.type)
            for each in given
            if each.name not in used and each.name not in beside
        }
        found |= {name: (quoted(each), given.field(each).type) for name, each in named.items()}
        if self.text is not None:
            found["terms"] = (self.text.sql, pa.list_(pa.string()))
        for name, (sql, kind) in self.expressions.items():
            found[name] = (f"cast(({sql}) as {kind})", type_of(kind))
        return found

    def origins(self, names: Iterable[str]) -> dict[str, str]:
        """For each column of the engine, its source column; computed ones are left out."""
        found = {name: self.columns.get(name, name) for name in names if name not in self.expressions}
        if self.seq is not None and SEQ in found:
            found[SEQ] = self.seq
        if self.text is not None and "terms" in found:
            found["terms"] = self.text.column
        return found

    @property
    def topics(self) -> list[str]:
        """The topics of a queue in the order in which they are named; none if a pattern names them."""
        named = {key.lower(): value for key, value in self.options.items()}
        if "subscribe" in named:
            return [topic.strip() for topic in named["subscribe"].split(",")]
        try:
            assigned = json.loads(named.get("assign", "{}"))
        except ValueError:
            return []
        return sorted(assigned) if isinstance(assigned, dict) else []

    @property
    def written(self) -> str | None:
        """The format of its rows if they are not columns, `json`, `csv` or `arrow`."""
        return self.values or (self.format if self.format in ("json", "csv") else None)

    @property
    def separator(self) -> str:
        """The separator of values in a line."""
        named = {key.lower(): value for key, value in self.options.items()}
        return named.get("sep") or named.get("delimiter") or ","

    def is_on(self, option: str) -> bool:
        """Whether a Spark option is true, however it is spelled."""
        return any(
            key.lower() == option.lower() and value.lower() == "true" for key, value in self.options.items()
        )

    def has_option(self, *options: str) -> bool:
        """Whether one of some options is given, however it is spelled."""
        return bool({key.lower() for key in self.options} & {option.lower() for option in options})


def parquet_columns(place: str) -> pa.Schema | None:
    """The columns of the first Parquet file at a place, and of its folder names; None if not on this machine.

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
