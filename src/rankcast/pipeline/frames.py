"""Sources as DataFrames with the engine's columns; nothing here imports Spark, the caller passes a session.

Rows of text, JSON or comma-separated values, are parsed by Spark and checked on the way. Spark turns a value
that does not fit its column, and a missing key, into a null; an engine would take that for the row's meaning.
So a row that does not fit its schema gets the reason and its text in a separate column
(`rankcast.spark.plan.REASON`); shards set it aside like any other refused row.

| source                    | a row does not fit if                                                         |
| ------------------------- | ----------------------------------------------------------------------------- |
| any text                  | it is not UTF-8                                                               |
| `json`; `values = "json"` | it is no object, a value is of another type, a required column                |
|                           | is missing, or a key is not declared (unless `extra = "ignore"`)              |
| `json` with `multiLine`   | it is no object, or a value is of another type                                |
| `csv`; `values = "csv"`   | it has more or fewer values than columns, or one is of another type           |

A source with the option `mode` or `columnNameOfCorruptRecord` is read in Spark's own way.

Streams without sequence numbers get them here, from the order in which rows are read:

- Kafka messages have numbers from their offsets, see `rankcast.spark.kafka`.
- In a micro-batch, commands and objects come before events; rows of one partition stay in their order,
  partition after partition. Files of one micro-batch are in no reliable order: with the option
  `maxFilesPerTrigger = 1` each file is its own micro-batch, oldest first.
- In a history, files are ordered by the time they were last written, then by name.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.core.spec import Input
from rankcast.errors import InputError
from rankcast.pipeline import checking, sources
from rankcast.pipeline.config import QUEUE, Config
from rankcast.pipeline.sources import FILES, OP, SEQ, Source, literal, quoted
from rankcast.pipeline.toml_reader import Document
from rankcast.spark import kafka
from rankcast.spark.plan import RAW, REASON

LONGEST = 1000  # characters of a row in the reason why it was refused
_CORRUPT, _ROW, _RAW, _KEYS = "__corrupt", "__row", "__raw", "__keys"
_TEXT = "cast(value as string)"  # whatever bytes it has
_PLACE = ("topic", "partition", "offset")
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


def opened_text(spark: Any, source: Source, *, stream: bool, needs: Sequence[str], strict: bool) -> Any:
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
        frame = _loaded(reader.format("text" if source.format == "json" else source.format), source)
        if source.written == "arrow":
            return _read_arrow(frame, source, needs, strict=strict)
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


def _loaded(reader: Any, source: Source) -> Any:
    """What a reader gives; messages of a queue have their places and themselves in columns of their own, too.

    A declared column may have the name of one of the queue's.
    """
    frame = reader.load(source.path) if source.path is not None else reader.load()
    if source.format != QUEUE:
        return frame
    return frame.selectExpr("*", f"value as {RAW}", *(f"{name} as __{name}" for name in _PLACE))


def _read_arrow(frame: Any, source: Source, needs: Sequence[str], *, strict: bool) -> Any:
    """Messages that are Arrow streams, taken apart."""
    form = sources.parse(str(source.schema))
    reading = kafka.Reading(source.name, form, tuple(needs), strict, source.seq is not None, REASON)
    if source.seq is None and SEQ in form.names:
        reading = replace(reading, several=True)
    kinds = dict(frame.dtypes)
    others = [name for name in frame.columns if name not in form.names]
    told = ", ".join(f"{quoted(name)} {kinds[name]}" for name in others)
    return frame.mapInArrow(reading, f"{source.schema}, {REASON} string, {told}")


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
    frame = frame.selectExpr("*", f"make_valid_utf8({_TEXT}) as {_RAW}").selectExpr("*", *parsed)
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
    foreign = literal(f'row of "{source.name}" is no UTF-8: ')
    cases = [
        (f"{_RAW} is null or trim({_RAW}) = ''", literal(f'row of "{source.name}" is empty')),
        (f"not is_valid_utf8({_TEXT})", f"concat({foreign}, {_cut(_RAW)})"),
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


EVENTS_FROM, COMMANDS_FROM = 0, -(1 << 62)  # events come behind commands
_PARTITION = "__partition"
_ROWS_A_PARTITION = 33  # bits


def open_all(
    config: Config, spark: Any, *, history: bool, only: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """The DataFrames of a pipeline by input.

    Args:
        config: the pipeline.
        spark: the session.
        history: take the current contents, also of streams.
        only: by input, one row of the source that replaces all others, as a table.
    """
    document = Document(config.path, config.path.read_text())
    document.hidden.update(config.hidden)
    raw = {
        each.name: _opened(config, each, spark, stream=config.sources[each.name].stream and not history)
        for each in config.engine.inputs
    }
    fits: dict[str, Mapping[str, str]] = {}
    for each in config.engine.inputs:
        fit = config.fits[each.name]
        if fit is None:
            form = columns_of(raw[each.name])
            fit = checking.fit(document, config.engine, each, config.sources[each.name], form)
        fits[each.name] = fit
    checking.check_order(document, config.sources, fits)
    keep = config.sink.refused is not None and not history
    made = {
        name: _shaped(raw[name], config.sources[name], fits[name], history=history, keep=keep) for name in raw
    }
    return made | {
        name: _one(spark, raw[name].drop(REASON), name, fits[name], row) for name, row in (only or {}).items()
    }


def _opened(config: Config, of: Input, spark: Any, *, stream: bool) -> Any:
    """A source as Spark reads it; rows of text that do not fit its schema say why, in `REASON`."""
    source = config.sources[of.name]
    given = source.given()
    if not is_checked(source) or given is None:
        return opened(spark, source, stream=stream)
    needs = checking.needed(config.engine, of, source, given)
    strict = checking.is_strict(config.engine)
    return opened_text(spark, source, stream=stream, needs=[*needs.values()], strict=strict)


def opened(spark: Any, source: Source, *, stream: bool) -> Any:
    """A source as Spark reads it."""
    reader = (spark.readStream if stream else spark.read).format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    elif stream and source.format == "parquet":
        reader = reader.schema(spark.read.format("parquet").load(source.path).schema)
    return _loaded(reader, source)


def _one(spark: Any, raw: Any, name: str, fit: Mapping[str, str], row: Mapping[str, Any]) -> Any:
    """One row of a source, given as JSON would have it, with the engine's columns."""
    for key in row:
        if key not in raw.columns:
            raise InputError.unknown(key, raw.columns, where=name, word="column")
    form = literal(", ".join(f"{quoted(column)} {kind}" for column, kind in raw.dtypes))
    parsed = f"from_json(value, {form}, map('mode', 'FAILFAST')) as row"
    frame = spark.createDataFrame([(json.dumps(row),)], "value string").selectExpr(parsed)
    wanted = [f"{sql} as {quoted(column)}" for column, sql in fit.items() if column not in (SEQ, OP)]
    return frame.selectExpr("row.*").selectExpr(*wanted)


def columns_of(frame: Any) -> pa.Schema:
    """The columns of a DataFrame; types that no engine takes count as bytes."""

    def kind(text: str) -> pa.DataType:
        try:
            return sources.type_of(text)
        except ValueError:
            return pa.binary()

    return pa.schema([(name, kind(text)) for name, text in frame.dtypes])


def _shaped(frame: Any, source: Source, fit: Mapping[str, str], *, history: bool, keep: bool) -> Any:
    """The engine's columns of a source, `seq` if it is a stream, and, with `keep`, messages as they came."""
    wanted = [f"{sql} as {quoted(name)}" for name, sql in fit.items()]
    wanted += [name for name in (REASON, RAW) if name in frame.columns and (keep or name != RAW)]
    if not source.stream or SEQ in fit:
        return frame.selectExpr(*wanted)
    if source.format == QUEUE:
        topic, partition, offset = (f"__{name}" for name in _PLACE)
        number = kafka.sequence(source.name, source.topics, topic=topic, partition=partition, offset=offset)
        return frame.selectExpr(*wanted, f"{number} as {SEQ}")
    first = EVENTS_FROM if source.name == "events" else COMMANDS_FROM
    if history:
        return _by_files(frame, source, wanted, first)
    frame = frame.selectExpr(*wanted, f"spark_partition_id() as {_PARTITION}")
    form = ", ".join(f"{quoted(name)} {kind}" for name, kind in frame.dtypes if name != _PARTITION)
    return frame.mapInArrow(Numbering(first), f"{form}, {SEQ} long")


def _by_files(frame: Any, source: Source, wanted: list[str], first: int) -> Any:
    """The rows of a history, numbered by their files' times and names, and their places there."""
    order = ["monotonically_increasing_id()"]
    if source.format in FILES:
        order = ["_metadata.file_modification_time", "_metadata.file_path", *order]
    keys = [f"__key{place}" for place in range(len(order))]
    named = [f"{sql} as {key}" for sql, key in zip(order, keys, strict=True)]
    numbered = f"{first} + row_number() over (order by {', '.join(keys)}) as {SEQ}"
    return frame.selectExpr(*wanted, *named).selectExpr("*", numbered).drop(*keys)


@dataclass(frozen=True)
class Numbering:
    """Numbers the rows of one partition; called with its Arrow batches.

    Attributes:
        first: the number of the first row of the first partition.
    """

    first: int

    def __call__(self, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The same batches with a column `seq`."""
        done = 0
        for part in parts:
            if not part.num_rows:
                continue
            rows = pa.Table.from_batches([part])
            begin = self.first + (rows[_PARTITION][0].as_py() << _ROWS_A_PARTITION) + done
            seq = pa.array(np.arange(begin, begin + rows.num_rows, dtype=np.int64))
            done += rows.num_rows
            yield from rows.drop_columns([_PARTITION]).append_column(SEQ, seq).to_batches()
