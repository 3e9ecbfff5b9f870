"""Sources as DataFrames with the engine's columns; nothing here imports Spark, it is handed a session.

Streams without sequence numbers get them here, from the order in which rows are read:

- Of a micro-batch, commands and objects come before events; rows of one partition stay in their order,
  partition after partition. Files of one micro-batch are in no order that one could rely on: with the option
  `maxFilesPerTrigger = 1` each is a micro-batch of its own, oldest first.
- Of a history, files come by the time they were last written, then by name.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.core.spec import Input
from rankcast.errors import InputError
from rankcast.pipeline import checking, sources, texts
from rankcast.pipeline.config import Config
from rankcast.pipeline.fields import Document
from rankcast.pipeline.sources import FILES, OP, SEQ, Source, literal, quoted
from rankcast.spark.columns import REASON

EVENTS_FROM = 1 << 62  # events come behind commands
_PARTITION = "__partition"
_ROWS_A_PARTITION = 33  # bits


def open_all(
    config: Config, spark: Any, *, history: bool, only: Mapping[str, Mapping[str, Any]] | None = None
) -> dict[str, Any]:
    """The DataFrames of a pipeline by input.

    Args:
        config: the pipeline.
        spark: the session.
        history: take what is there now, also of streams.
        only: by input, one row of the source that stands for all of it, as a table.
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
    made = {name: _shaped(raw[name], config.sources[name], fits[name], history=history) for name in raw}
    return made | {
        name: _one(spark, raw[name].drop(REASON), name, fits[name], row) for name, row in (only or {}).items()
    }


def _opened(config: Config, of: Input, spark: Any, *, stream: bool) -> Any:
    """A source as Spark reads it; rows of text that do not fit its schema say why, in `REASON`."""
    source = config.sources[of.name]
    given = source.given()
    if not texts.is_checked(source) or given is None:
        return opened(spark, source, stream=stream)
    needs = checking.needed(config.engine, of, source, given)
    strict = checking.is_strict(config.engine)
    return texts.opened(spark, source, stream=stream, needs=[*needs.values()], strict=strict)


def opened(spark: Any, source: Source, *, stream: bool) -> Any:
    """A source as Spark reads it, whatever it makes of its rows."""
    reader = (spark.readStream if stream else spark.read).format(source.format).options(**source.options)
    if source.schema is not None:
        reader = reader.schema(source.schema)
    elif stream and source.format == "parquet":
        reader = reader.schema(spark.read.format("parquet").load(source.path).schema)
    return reader.load(source.path) if source.path is not None else reader.load()


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


def _shaped(frame: Any, source: Source, fit: Mapping[str, str], *, history: bool) -> Any:
    """The engine's columns of a source, and `seq` if it is a stream."""
    wanted = [f"{sql} as {quoted(name)}" for name, sql in fit.items()]
    wanted += [REASON] if REASON in frame.columns else []
    if not source.stream or SEQ in fit:
        return frame.selectExpr(*wanted)
    first = EVENTS_FROM if source.name == "events" else 0
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
    elif source.format == "kafka":
        order = ["timestamp", "partition", "offset"]
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
