"""The DataFrames a user gives, checked on the driver before anything runs."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import to_arrow_schema
from pyspark.sql.types import ByteType, IntegerType, LongType, ShortType, StringType
from pyspark.sql.window import Window

from rankcast.core.engine import Engine
from rankcast.core.spec import Input
from rankcast.errors import InputError
from rankcast.spark.packing import PACKED, Packing
from rankcast.spark.plan import OP, RAW, REASON, SEQ, Split

COPY = "__copy"
_WHOLE = (ByteType, ShortType, IntegerType, LongType)


@dataclass(frozen=True)
class Source:
    """One DataFrame and what it is.

    Attributes:
        input: which input of the engine it is.
        frame: the rows.
        seq: its column of sequence numbers, None for a table without order: its rows come first.
        op: whether its rows are commands.
    """

    input: Input
    frame: Any
    seq: str | None
    op: bool

    @property
    def ids(self) -> str:
        """Whether its ids are `long` or `string`."""
        form = self.frame.schema["id"].dataType
        return "long" if isinstance(form, _WHOLE) else "string"

    def packed(
        self,
        shards: tuple[int, ...],
        *,
        axes: tuple[tuple[str, float], ...] = (),
        split: Split = None,
        beyond: int | None = None,
    ) -> Any:
        """Its rows on their way to shards."""
        frame = self.frame if self.seq is not None else _numbered(self.frame)
        packing = Packing(self.input.name, shards, self.input.divided, self.seq, self.op, axes, split, beyond)
        return frame.mapInArrow(packing, PACKED)


def read(given: Input, frame: Any, *, seq: str, ordered: bool | None) -> Source:
    """Check the columns that every input has.

    Args:
        given: which input it is.
        frame: a DataFrame.
        seq: the name of the column of sequence numbers.
        ordered: whether it must have one; None: it may.
    """
    if not hasattr(frame, "schema") or not hasattr(frame, "mapInArrow"):
        raise InputError(f"is a {type(frame).__name__}", where=given.name, expected="a Spark DataFrame")
    names = frame.columns
    has_seq = seq in names if ordered is None else ordered
    op = "op" in names and len(given.calls) > 1 and ordered is not False
    if has_seq or op:
        _check_type(frame, given.name, seq, _WHOLE, "a whole number, unique over all inputs")
    if has_seq and len(given.calls) > 1 and frame.isStreaming and not op:
        expected = f"a command in each row: {', '.join(given.calls)}"
        raise InputError("is missing", where=given.name, column="op", expected=expected)
    if op:
        _check_type(frame, given.name, "op", (StringType,), "a string")
    _check_type(frame, given.name, "id", (*_WHOLE, StringType), "an integer or a string")
    return Source(given, frame, seq if has_seq or op else None, op)


def check(engine: Engine, given: Mapping[str, Any], inputs: Mapping[str, Source]) -> None:
    """Let a copy of the engine, made as shards make it, see the columns of every input."""
    header, arrays = engine.state()
    copy = type(engine).restore(header, {name: array.copy() for name, array in arrays.items()}, **given)
    for each in inputs.values():
        form = to_arrow_schema(each.frame.schema, timezone="UTC")
        own = {each.seq, REASON, RAW, *(["op"] if each.op else [])}
        kept = [field for field in form if field.name not in own]
        copy.check_columns(each.input.calls[0], pa.schema(kept))


def _check_type(frame: Any, where: str, name: str, forms: tuple[type, ...], expected: str) -> None:
    if name not in frame.columns:
        raise InputError("is missing", where=where, column=name, expected=expected)
    found = frame.schema[name].dataType
    if not isinstance(found, forms):
        raise InputError(f"has the type {found.simpleString()}", where=where, column=name, expected=expected)


def _numbered(frame: Any) -> Any:
    """Rows of a table without order, with a number for those that have the same id: 1, 2, ..."""
    for name in (SEQ, OP, COPY):
        if name in frame.columns:
            raise InputError(f'a column is called "{name}"', expected="another name")
    others = [F.col(f"`{name}`") for name in frame.columns if name != "id"]
    groups, alone = [F.col("id")], F.col("id").isNull()
    if REASON in frame.columns:  # a row that is refused in any case is no copy of another, and has none
        groups, alone = [*groups, F.col(REASON).isNull()], alone | F.col(REASON).isNotNull()
    copies = F.row_number().over(Window.partitionBy(*groups).orderBy(*others, F.lit(0)))
    return frame.withColumn(COPY, F.when(alone, 1).otherwise(copies))
