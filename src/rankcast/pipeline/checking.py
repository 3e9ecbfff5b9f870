"""Whether the columns of every source fit the engine: the engine itself checks them, without a row.

If the source's files are on this machine, some of them are inspected before Spark starts
(`rankcast.pipeline.sources`): declared columns must exist, with that name and type.
"""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Mapping
from pathlib import Path

import pyarrow as pa

from rankcast.core.engine import EXTRA
from rankcast.core.spec import Input
from rankcast.errors import InputError
from rankcast.pipeline import sources
from rankcast.pipeline.engines import Made
from rankcast.pipeline.sources import (
    OP,
    PARTITION,
    SEQ,
    Sample,
    Source,
    Text,
    csv_rows,
    files_at,
    is_packed,
    json_rows,
    lines_of,
    parquet_fields,
)
from rankcast.pipeline.toml_reader import Document
from rankcast.tables.schema import Column

_MISSPELT = 0.7  # how alike a name must be to be taken for a column that is not there
_IGNORE = 'With extra = "ignore" in [engine] further keys are left out.'
_BY_PLACE = "With the option enforceSchema = true columns are taken by their place, whatever they are called."
_WIDER = {
    (pa.int8(), pa.int16()),
    (pa.int8(), pa.int32()),
    (pa.int16(), pa.int32()),
    *((small, pa.int64()) for small in (pa.int8(), pa.int16(), pa.int32())),
    *((small, pa.float64()) for small in (pa.int8(), pa.int16(), pa.int32(), pa.float32())),
}
_TOLD_APART = (
    pa.int8(),
    pa.int16(),
    pa.int32(),
    pa.int64(),
    pa.float32(),
    pa.float64(),
    pa.string(),
    pa.bool_(),
)


def needed(engine: Made, of: Input, source: Source, given: pa.Schema) -> dict[str, str]:
    """Columns that every row of a source must have: the source's name of each, by the engine's.

    Of commands all but `id` and `op` may be left out, and `id` too if one of the commands has none: what else
    they need depends on the command. What events
    need whose `op` the engine reads itself depends on the word, too, and the engine says so.
    """
    own, columns = _taken(engine, of, source, given)
    required = [column.name for column in columns if column.required]
    if OP in own and len(of.calls) > 1:
        required = ["id"] if engine.are_named(of) else []
    elif OP in own:
        own, required = [name for name in own if name != OP], []
    found = source.origins([*own, *required])
    return {name: column for name, column in found.items() if column in given.names}


def _taken(engine: Made, of: Input, source: Source, given: pa.Schema) -> tuple[list[str], tuple[Column, ...]]:
    """The columns of a source that are for the runtime, and all that the engine knows."""
    columns = source.projected(given)
    own = [name for name in (SEQ, OP) if name in columns and source.stream]
    form = pa.schema([(name, kind) for name, (_, kind) in columns.items() if name not in own])
    return own, engine.known(of, form)


def look(document: Document, engine: Made, of: Input, source: Source, given: pa.Schema) -> list[str]:
    """Refuse a source whose files lack declared columns; returns, in words, what was not checked."""
    if source.path is None:
        return []
    sample = files_at(source.path)
    if sample is None:
        return [f"files of {of.name}, which are not on this machine"]
    try:
        looked = _look(document, engine, of, source, given, sample)
    except OSError as error:
        raise document.mistake((of.name, "path"), f"cannot be read: {error}") from error
    if not looked:
        return [f"rows of {of.name}"] if sample.files else []
    return [f"files of {of.name} behind the first {len(sample.files)}"] if sample.more else []


def _look(
    document: Document, engine: Made, of: Input, source: Source, given: pa.Schema, sample: Sample
) -> bool:
    """Look at a source by its format; whether that could be done."""
    needs = needed(engine, of, source, given)
    if source.format == "parquet":
        own, columns = _taken(engine, of, source, given)
        known = source.origins([*own, *(column.name for column in columns)])
        known = {name: column for name, column in known.items() if column in given.names}
        _look_at_parquet(document, source, given, sample.files, known, needs)
        return True
    texts = [path for path in sample.files if not is_packed(path)]
    if source.schema is None or source.written is None or source.has_option("encoding", "charset"):
        return False
    declared = sources.parse(source.schema).names
    if source.written == "json" and not source.is_on("multiLine"):
        _look_at_json(document, engine, source, declared, texts, needs)
    elif source.format == "csv" and source.is_on("header") and not source.has_option("enforceSchema"):
        for path in texts:
            _look_at_header(document, source, declared, path)
    elif source.written == "csv" and not source.is_on("multiLine"):
        for path in texts:
            _look_at_values(document, source, declared, path)
    else:
        return False
    return len(texts) == len(sample.files)


def _look_at_parquet(
    document: Document,
    source: Source,
    given: pa.Schema,
    files: Iterable[Path],
    known: dict[str, str],
    needs: dict[str, str],
) -> None:
    seen: set[str] = set()
    others: set[str] = set()
    for path in files:
        try:
            form = parquet_fields(path)
        except pa.ArrowException as error:
            raise document.mistake(
                (source.name, "path"), f"has {path}, which is no Parquet: {error}"
            ) from error
        folders = {name for name, _ in PARTITION.findall(str(path.parent))}
        seen |= {*form.names, *folders}
        others |= {name for name in form.names if name not in given.names}
        for column in known.values():
            if column in form.names:
                _check_type_looking(
                    document, source, path, column, form.field(column).type, given.field(column).type
                )
    for column in known.values():
        if seen and column not in seen:
            near = difflib.get_close_matches(column, sorted(others), n=1, cutoff=_MISSPELT)
            if column in needs.values() or near:
                raise _lacking(document, source, column, seen, near)


def _check_type_looking(
    document: Document, source: Source, path: Path, column: str, found: pa.DataType, wanted: pa.DataType
) -> None:
    """Refuse a file with a type that Spark does not read as the one that the rest has."""
    fits = found == wanted or (found, wanted) in _WIDER
    lists = pa.types.is_list(found) != pa.types.is_list(wanted)
    if not fits and (lists or (found in _TOLD_APART and wanted in _TOLD_APART)):
        raise document.mistake(
            (source.name, "schema" if source.schema is not None else "path"),
            f'has {path}, in which the column "{column}" has the type {found}',
            expected=f"{wanted}, as {'declared' if source.schema is not None else 'in the first file'}",
            hint="Write that file anew with this type, or move it away.",
        )


def _look_at_json(
    document: Document,
    engine: Made,
    source: Source,
    declared: list[str],
    files: Iterable[Path],
    needs: dict[str, str],
) -> None:
    seen: set[str] = set()
    in_all: set[str] | None = None
    for path in files:
        lines = lines_of(path)
        rows = json_rows(lines)
        if lines and not rows:
            what = f"has {path}, which has no JSON object in a line of its own"
            hint = "Files with one document over several lines need the option multiLine = true."
            raise document.mistake((source.name, "path"), what, hint=hint)
        seen |= {name for name, _ in PARTITION.findall(str(path.parent))}
        for row in rows:
            seen |= set(row)
            in_all = set(row) if in_all is None else in_all & set(row)
    if in_all is None:
        return
    unknown = sorted(seen - set(declared))
    for column in declared:
        if column not in seen:
            near = difflib.get_close_matches(column, unknown, n=1, cutoff=_MISSPELT)
            if near or column in needs.values():
                raise _lacking(document, source, column, seen, near)
    foreign = sorted(in_all - set(declared))
    if foreign and is_strict(engine):
        error = InputError.unknown(foreign[0], declared, where=source.name)
        what = f'does not declare the key "{foreign[0]}", which all rows have'
        hint = f"{error.hint} {_IGNORE}" if error.hint else _IGNORE
        raise document.mistake((source.name, "schema"), what, hint=hint)


def _look_at_header(document: Document, source: Source, declared: list[str], path: Path) -> None:
    """Refuse a file with other names in its first line than are declared: Spark takes columns by place."""
    names = [each.strip() for each in next(csv_rows(lines_of(path)[:1], source.separator), [])]
    folders = {name for name, _ in PARTITION.findall(str(path.parent))}
    wanted = [name for name in declared if name not in folders or name in names]
    if not names or [name.lower() for name in names] == [name.lower() for name in wanted]:
        return
    for column in wanted:
        if column not in names:
            others = [name for name in names if name not in wanted]
            near = difflib.get_close_matches(column, others, n=1, cutoff=0.5)
            raise _lacking(document, source, column, names, near, hint=_BY_PLACE)
    what = f"has other columns, or another order, than {path}: {', '.join(names)}"
    raise document.mistake((source.name, "schema"), what, hint=_BY_PLACE)


def _look_at_values(document: Document, source: Source, declared: list[str], path: Path) -> None:
    """Refuse a file in which no line has as many values as columns are declared."""
    folders = {name for name, _ in PARTITION.findall(str(path.parent))}
    counts = {len(values) for values in csv_rows(lines_of(path), source.separator)}
    wanted = {len(declared), len([name for name in declared if name not in folders])}
    if counts and not counts & wanted:
        what = f"has {len(declared)} columns, but lines of {path} have {min(counts)} values"
        raise document.mistake((source.name, "schema"), what)


def is_strict(engine: Made) -> bool:
    """Whether unknown columns are refused, and so rows with undeclared keys."""
    return bool(engine.settings.get("extra", "forbid") == "forbid")


def _lacking(
    document: Document, source: Source, column: str, seen: Iterable[str], near: list[str], hint: str = ""
) -> Exception:
    """The error about a column that no file has."""
    meant = f'Did you mean "{near[0]}"?' if near else ""
    key = (source.name, "schema" if source.schema is not None else "path")
    what = f'names the column "{column}", which no row of {source.name} has'
    detail = f"The source has: {', '.join(sorted(seen))}."
    return document.mistake(key, what, detail=detail, hint=" ".join(filter(None, [meant, hint])) or None)


def fit_all(
    document: Document, engine: Made, sources: Mapping[str, Source]
) -> tuple[dict[str, Mapping[str, str] | None], list[str]]:
    """By input, the engine's columns as Spark expressions, None if only Spark can tell.

    Also returns, in words, what was not checked.
    """
    found: dict[str, Mapping[str, str] | None] = {}
    forms: dict[str, pa.Schema | None] = {}
    unchecked: list[str] = []
    for each in engine.inputs:
        source = sources[each.name]
        try:
            given = source.given()
        except (OSError, pa.ArrowException) as error:
            hint = "Say which columns there will be in schema, or begin when there are rows."
            raise document.mistake((each.name, "path"), f"cannot be read: {error}", hint=hint) from error
        found[each.name] = None if given is None else fit(document, engine, each, source, given)
        forms[each.name] = given
    check_order(document, sources, found)
    for each in engine.inputs:
        form = forms[each.name]
        if form is not None:
            unchecked += look(document, engine, each, sources[each.name], form)
    return found, unchecked


def fit(document: Document, engine: Made, of: Input, source: Source, given: pa.Schema) -> dict[str, str]:
    """The columns of one source that the engine takes, with `seq` and `op` where it is a stream."""
    try:
        columns = source.projected(given)
    except KeyError as error:
        raise _missing(document, source, error.args[0], given) from error
    _check_text(document, source, given)
    own = _own_columns(of, source)
    for name, (kinds, expected) in own.items():
        if name in columns:
            _check_type(document, source, name, columns[name][1], kinds, expected)
        elif name == OP:
            raise document.mistake((of.name,), 'has no column "op"', expected=expected)
    form = pa.schema([(name, kind) for name, (_, kind) in columns.items() if name not in own])
    try:
        known = {column.name for column in engine.known(of, form)}
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


def _own_columns(of: Input, source: Source) -> dict[str, tuple[str, str]]:
    """Columns that are for the runtime and not for the engine, with what their type must be."""
    if not source.stream:
        return {}
    own = {SEQ: ("whole", "a whole number, unique over all streams")}
    if len(of.calls) > 1:
        own[OP] = ("string", f"a string, one of: {', '.join(of.calls)}")
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
    if source.text is not None and 'unknown column "terms"' in error.what and "text" in error.what:
        what = f'makes terms of "{source.text.column}", but the engine takes a column "text"'
        hint = f'Its analyzer makes the terms: columns = {{ text = "{source.text.column}" }}.'
        return document.mistake((source.name, "text"), what, hint=hint)
    if "unknown column" in error.what:
        near = (hint or "").removesuffix(EXTRA)
        hint = f'{near}With extra = "ignore" in [engine] further columns are left out.'
    key = (source.name, "columns", error.column or "")
    detail = f"The source has: {', '.join(given.names)}."
    return document.told(key, f"{engine.kind}: {error.what}", detail=detail, hint=hint)
