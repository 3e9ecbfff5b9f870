"""Columns and types as Spark writes them, `id long, terms array<string>`, read without Spark."""

from __future__ import annotations

import re
from collections.abc import Iterator

import pyarrow as pa

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
    """A text that is no list of columns."""


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
