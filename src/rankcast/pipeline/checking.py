"""Whether the columns of every source are what the engine takes: the engine itself says so, without a row.

Where the source's files are on this machine, some of them are looked into (`rankcast.pipeline.samples`): what
is declared must be there.
"""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from rankcast.errors import InputError
from rankcast.pipeline import looking
from rankcast.pipeline.engines import Made
from rankcast.pipeline.mistakes import Document
from rankcast.pipeline.sources import OP, SEQ, Source
from rankcast.pipeline.terms import Text
from rankcast.spark.roles import Role


def fit_all(
    document: Document, engine: Made, sources: Mapping[str, Source]
) -> tuple[dict[str, Mapping[str, str] | None], list[str]]:
    """By input, the engine's columns as expressions of Spark's, None where Spark must first tell which.

    Beside it, in words, what was not looked at.
    """
    found: dict[str, Mapping[str, str] | None] = {}
    forms: dict[str, pa.Schema | None] = {}
    unchecked: list[str] = []
    for role in engine.roles:
        source = sources[role.name]
        try:
            given = source.given()
        except (OSError, pa.ArrowException) as error:
            hint = "Say which columns there will be in schema, or begin when there are rows."
            raise document.mistake((role.name, "path"), f"cannot be read: {error}", hint=hint) from error
        found[role.name] = None if given is None else fit(document, engine, role, source, given)
        forms[role.name] = given
    check_order(document, sources, found)
    for role in engine.roles:
        form = forms[role.name]
        if form is not None:
            unchecked += looking.look(document, engine, role, sources[role.name], form)
    return found, unchecked


def fit(document: Document, engine: Made, role: Role, source: Source, given: pa.Schema) -> dict[str, str]:
    """The columns of one source that the engine takes, with `seq` and `op` where it is a stream."""
    try:
        columns = source.projected(given)
    except KeyError as error:
        raise _missing(document, source, error.args[0], given) from error
    _check_text(document, source, given)
    own = _own_columns(role, source)
    for name, (kinds, expected) in own.items():
        if name in columns:
            _check_type(document, source, name, columns[name][1], kinds, expected)
        elif name == OP:
            raise document.mistake((role.name,), 'has no column "op"', expected=expected)
    form = pa.schema([(name, kind) for name, (_, kind) in columns.items() if name not in own])
    try:
        known = {column.name for column in engine.known(role, form)}
    except InputError as error:
        raise _refused(document, engine, source, error, given) from error
    return {name: sql for name, (sql, _) in columns.items() if name in own or name in known}


def check_order(
    document: Document, sources: Mapping[str, Source], fits: Mapping[str, Mapping[str, str] | None]
) -> None:
    """Either all streams have sequence numbers, or none has."""
    streams = {name: fits[name] for name, each in sources.items() if each.stream and fits[name] is not None}
    ordered = [name for name, fit in streams.items() if fit is not None and SEQ in fit]
    for name in streams:
        if ordered and name not in ordered:
            raise document.mistake(
                (name,),
                f'has no column "{SEQ}", but {ordered[0]} has one',
                expected="one sequence over all streams, or none at all",
                hint='Name the column that has it, for example seq = "number".',
            )


def _own_columns(role: Role, source: Source) -> dict[str, tuple[str, str]]:
    """Columns that are for the runtime and not for the engine, with what their type must be."""
    if not source.stream:
        return {}
    own = {SEQ: ("whole", "a whole number, unique over all streams")}
    if len(role.calls) > 1:
        own[OP] = ("string", f"a string, one of: {', '.join(role.calls)}")
    return own


def _check_type(
    document: Document, source: Source, name: str, kind: pa.DataType, wanted: str, expected: str
) -> None:
    fits = pa.types.is_integer(kind) if wanted == "whole" else pa.types.is_string(kind)
    if not fits:
        what = f'has the type {kind} in the column "{source.columns.get(name, name)}"'
        raise document.mistake((source.name, name), what, expected=expected)


def _check_text(document: Document, source: Source, given: pa.Schema) -> None:
    text: Text | None = source.text
    if text is None:
        return
    kind = given.field(text.column).type
    listed = pa.types.is_list(kind) and pa.types.is_string(kind.value_type)
    if not (listed if text.tokenise == "none" else pa.types.is_string(kind)):
        expected = "a list of strings" if text.tokenise == "none" else "a string"
        what = f'is "{text.column}", which has the type {kind}'
        raise document.mistake((source.name, "text", "column"), what, expected=expected)


def _missing(document: Document, source: Source, column: str, given: pa.Schema) -> Exception:
    """The error about a name that is not among the source's columns."""
    named = next((name for name, each in source.columns.items() if each == column), None)
    key = (
        ("columns", named) if named is not None else ("seq",) if source.seq == column else ("text", "column")
    )
    return document.foreign((source.name, *key), column, given.names, word="column of the source")


def _refused(
    document: Document, engine: Made, source: Source, error: InputError, given: pa.Schema
) -> Exception:
    """What the engine says of a source's columns, with those the source has."""
    hint = error.hint
    if "unknown column" in error.what:
        hint = f'{hint + " " if hint else ""}With extra = "ignore" in [engine] further columns are left out.'
    key = (source.name, "columns", error.column or "")
    detail = f"The source has: {', '.join(given.names)}."
    return document.told(key, f"{engine.kind}: {error.what}", detail=detail, hint=hint)
