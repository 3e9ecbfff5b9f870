"""Rows that come as text, JSON or comma-separated values: taken apart by Spark, and checked on the way.

Spark makes a null of a value that does not fit its column, and of a key that is not there; an engine would
take that for what the row says. So a row that does not fit its schema gets, in a column of its own
(`rankcast.spark.columns.REASON`), why, and its text; shards set it aside like any other row that is refused.

| source                    | a row does not fit if                                                         |
| ------------------------- | ----------------------------------------------------------------------------- |
| `json`; `values = "json"` | it is no object, a value is of another type, a column that every row must     |
|                           | have is not there, or a key is not declared (unless `extra = "ignore"`)       |
| `json` with `multiLine`   | it is no object, or a value is of another type                                |
| `csv`; `values = "csv"`   | it has more or fewer values than columns, or one is of another type           |

A source with the option `mode` or `columnNameOfCorruptRecord` is read as Spark does.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any

from rankcast.pipeline import sources
from rankcast.pipeline.sources import Source, literal, quoted
from rankcast.spark.columns import REASON

LONGEST = 1000  # characters of a row in the reason why it was refused
_CORRUPT, _ROW, _RAW, _KEYS = "__corrupt", "__row", "__raw", "__keys"
_PLAIN = re.compile(r"[\w .:-]+")
_OF_JSON = (  # options of files that are for the rows in them
    "allowComments",
    "allowUnquotedFieldNames",
    "allowSingleQuotes",
    "allowNumericLeadingZeros",
    "allowBackslashEscapingAnyCharacter",
    "allowNonNumericNumbers",
    "allowUnquotedControlChars",
    "primitivesAsString",
    "dateFormat",
    "timestampFormat",
    "timestampNTZFormat",
    "enableDateTimeParsingFallback",
    "timeZone",
    "locale",
)


def is_checked(source: Source) -> bool:
    """Whether the rows of a source are texts that are checked here."""
    own = source.values is None and source.has_option("mode", "columnNameOfCorruptRecord")
    return source.schema is not None and source.written is not None and not own


def opened(spark: Any, source: Source, *, stream: bool, needs: Sequence[str], strict: bool) -> Any:
    """A source of texts, with its declared columns, those that Spark adds, and `REASON`.

    Args:
        spark: the session.
        source: a source that `is_checked`.
        stream: whether to read it as a stream.
        needs: columns that every row must have.
        strict: whether a row with a key that is not declared is refused.
    """
    reader = (spark.readStream if stream else spark.read).options(**source.options)
    by_line = source.values is not None or (
        source.format == "json"
        and not source.is_on("multiLine")
        and not source.has_option("encoding", "charset")
    )
    if by_line:
        reader = reader.format("text" if source.format == "json" else source.format)
        frame = reader.load(source.path) if source.path is not None else reader.load()
        return _apart(frame, source, needs, strict=strict)
    reader = reader.format(source.format).schema(f"{source.schema}, {_CORRUPT} string")
    reader = reader.option("columnNameOfCorruptRecord", _CORRUPT)
    if source.format == "csv":
        reader = reader.option("columnPruning", "false")  # values are counted only where all are read
        if not source.has_option("enforceSchema"):
            reader = reader.option("enforceSchema", "false")
    frame = reader.load(source.path)
    why = f"case when {_CORRUPT} is not null then {_unfit(source, [], _CORRUPT)} end as {REASON}"
    return frame.selectExpr("*", why).drop(_CORRUPT)


def _apart(frame: Any, source: Source, needs: Sequence[str], *, strict: bool) -> Any:
    """Take the texts in `value` apart. Columns that Spark has from the names of folders stay as they are."""
    names = sources.parse(str(source.schema)).names
    others = [name for name in frame.columns if source.format != "json" or name != "value"]
    folders = [name for name in others if name in names] if source.format == "json" else []
    if source.format == "json":
        frame = frame.where("trim(value) <> ''")  # Spark's own reader leaves blank lines out
    form = literal(f"{source.schema}, {_CORRUPT} string")
    parsed = [f"from_{source.written}({_RAW}, {form}, {_options(source)}) as {_ROW}"]
    parsed += [f"json_object_keys({_RAW}) as {_KEYS}"] if source.written == "json" else []
    frame = frame.selectExpr("*", f"cast(value as string) as {_RAW}").selectExpr("*", *parsed)
    kinds = dict(frame.selectExpr(f"{_ROW}.*").dtypes)
    wanted = [
        f"cast({quoted(name)} as {kinds[name]}) as {quoted(name)}"
        if name in folders
        else f"{_ROW}.{quoted(name)} as {quoted(name)}"
        for name in names
    ]
    wanted += [quoted(name) for name in others if name not in names]
    mine = {name: kinds[name] for name in names if name not in folders}
    why = _why(source, mine, [name for name in needs if name in mine], strict=strict)
    return frame.selectExpr(*wanted, f"{why} as {REASON}")


def _options(source: Source) -> str:
    """What `from_json` and `from_csv` are told."""
    told = {"columnNameOfCorruptRecord": _CORRUPT}
    if source.format == "json":
        known = {name.lower(): name for name in _OF_JSON}
        told |= {known[key.lower()]: text for key, text in source.options.items() if key.lower() in known}
    return f"map({', '.join(literal(each) for pair in told.items() for each in pair)})"


def _why(source: Source, kinds: Mapping[str, str], needs: Sequence[str], *, strict: bool) -> str:
    """Why a row is refused, null if it is not, as an expression."""
    is_json = source.written == "json"
    misfits = [_misfit(name, kind) for name, kind in kinds.items() if is_json and _PLAIN.fullmatch(name)]
    cases = [
        (f"{_RAW} is null or trim({_RAW}) = ''", literal(f'row of "{source.name}" is empty')),
        (f"{_ROW}.{_CORRUPT} is not null", _unfit(source, misfits, _RAW)),
    ]
    if is_json:
        lacking = f"array_except({_listed(needs)}, {_KEYS})"
        cases.append((f"size({lacking}) > 0", _said(source, "has no column", f"{lacking}[0]", "")))
    if is_json and strict:
        strange = f"array_except({_KEYS}, {_listed([*kinds])})"
        said = _said(source, "has the key", f"{strange}[0]", ", which is not declared")
        cases.append((f"size({strange}) > 0", said))
    whens = " ".join(f"when {when} then {then}" for when, then in cases)
    return f"case {whens} end"


def _misfit(name: str, kind: str) -> str:
    """What is said of a column whose value is there and could not be taken."""
    path, said = literal(f"$['{name}']"), literal(f'column "{name}" is no {kind}')
    there = f"get_json_object({_RAW}, {path}) is not null"
    return f"case when {_ROW}.{quoted(name)} is null and {there} then {said} end"


def _unfit(source: Source, misfits: Sequence[str], raw: str) -> str:
    """What is said of a row that Spark calls corrupt."""
    found = f"concat_ws(', ', {', '.join(misfits)})" if misfits else "''"
    start = literal(f'row of "{source.name}" does not fit its schema')
    return f"concat({start}, if({found} = '', '', concat(': ', {found})), ': ', {_cut(raw)})"


def _said(source: Source, what: str, name: str, rest: str) -> str:
    start, end = literal(f'row of "{source.name}" {what} "'), literal(f'"{rest}: ')
    return f"concat({start}, {name}, {end}, {_cut(_RAW)})"


def _cut(raw: str) -> str:
    more = f"concat(left({raw}, {LONGEST}), '... (', length({raw}), ' characters)')"
    return f"if(length({raw}) > {LONGEST}, {more}, {raw})"


def _listed(names: Sequence[str]) -> str:
    return f"cast(array({', '.join(map(literal, names))}) as array<string>)"
