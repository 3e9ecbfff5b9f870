"""Messages of Kafka in and out of streams, through Spark's own connector.

**Order.** Rows without sequence numbers get them from their places in topics, so that a row has the same
number whenever it is read, and no other row has it:

    number = ((offset * 2 + input) * 16 + topic) * 1024 + partition

with `input` 1 for objects and 0 otherwise, and `topic` its place in the list of topics as it was given, from
0. Rows of a partition are in order; rows of several partitions of a micro-batch take turns by offset.
Commands and objects have that number less 2**53 - 1: they come before the events of their micro-batch. All of
it is within what JavaScript can hold up to an offset of 2**38 - 2.

**Answers.** With the columns that `continuous(..., trace=True)` adds, a row is one message: its key is the
subscription (of matches: the event), so that what concerns one subscriber stays in order (tiles have one key,
`tile`: all of them stay in order); its value is JSON,
or Arrow; its headers are `query`, `batch`, `shard` and `n`, which together name a row and are the same after
a retry, and `seq`. A refused row goes to a topic of its own as it came, with its `reason` as a header.
`rankcast.kafka` reads such a topic.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankcast.errors import InputError
from rankcast.spark.plan import TRACED

TOPICS, PARTITIONS = 16, 1024
BEFORE = (1 << 53) - 1  # commands come so much before events
VALUES = ("json", "arrow")
_OBJECTS, _EVENTS = "objects", "events"
_REFUSED = "refused"
_HEADER = pa.struct([("key", pa.string()), ("value", pa.binary())])
_MESSAGE = pa.schema(
    [("key", pa.binary()), ("value", pa.binary()), ("topic", pa.string()), ("headers", pa.list_(_HEADER))]
)
MESSAGE = "key binary, value binary, topic string, headers array<struct<key: string, value: binary>>"


def sequence(
    of: str,
    topics: Sequence[str],
    *,
    topic: str = "topic",
    partition: str = "partition",
    offset: str = "offset",
) -> str:
    """The number of a row by its place, as an expression of Spark's.

    Args:
        of: the input that the rows are for, `events`, `subscriptions` or `objects`.
        topics: the topics, always in the same order; further ones may be added at the end.
        topic: the column with the topic ...
        partition: ... the partition ...
        offset: ... and the offset.

    Raises:
        InputError: there are too many topics.

    >>> sequence("events", ["quotes"]).startswith("case when")
    True
    """
    if not 0 < len(topics) <= TOPICS or len(set(topics)) < len(topics):
        raise InputError(
            f"there are {len(topics)} topics",
            where=of,
            expected=f"1 to {TOPICS}, each once",
            hint="Rows with numbers of their own (seq) may come from any number.",
        )
    place = (
        f"case {topic} " + " ".join(f"when {_text(name)} then {n}" for n, name in enumerate(topics)) + " end"
    )
    number = f"(({offset} * 2 + {int(of == _OBJECTS)}) * {TOPICS} + {place}) * {PARTITIONS} + {partition}"
    number = number if of == _EVENTS else f"{number} - {BEFORE}"
    limit = (1 << 48) if of == _EVENTS else (1 << 38) - 1
    fits = f"{partition} < {PARTITIONS} and {offset} < {limit} and ({place}) is not null"
    why = f"a topic has more than {PARTITIONS} partitions, or was not named"
    told = f'rows of "{of}" have no number by their place: {why}'
    return f"case when {fits} then {number} else cast(raise_error({_text(told)}) as bigint) end"


def _text(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "\\'")
    return f"'{escaped}'"


def messages(frame: Any, topic: str, *, refused: str | None = None, values: str = "json") -> Any:
    """Answers as messages: a DataFrame with `key, value, topic, headers`, as Spark's connector takes it.

    Args:
        frame: what `continuous(..., trace=True)` gave; without `trace` messages have only the header `seq`.
        topic: where answers go.
        refused: where refused rows go; None: they are left out.
        values: "json", a message a row; "arrow", an Arrow stream with the rows of one key in a message.
    """
    if values not in VALUES:
        raise InputError(f"values is {values!r}", expected=" or ".join(VALUES))
    traced = [name for name in TRACED if name in frame.columns]
    answer = [name for name in frame.columns if name not in (*traced, "reason")]
    matches = answer[0] not in ("subscription", "op")
    answer = [name for name in answer if name != "op" or not matches]
    if values == "arrow":
        writing = Writing(topic, refused, tuple(answer))
        return frame.mapInArrow(writing, MESSAGE)
    kept = frame if refused is not None else frame.where(f"op <> {_text(_REFUSED)}")
    names = [name for name in ("query", "batch", "shard", "n") if name in traced]
    headers = [_header(name, f"cast({name} as string)") for name in [*names, "seq"]]
    told = ", ".join(_value(name) for name in answer)
    left = ", ".join(f"`{name}`" for name in frame.columns if name not in traced)
    ids = ", ".join(f"cast(`{name}` as string)" for name in _ids(answer))
    asis = "raw, " if "raw" in traced else ""
    is_refused = f"op = {_text(_REFUSED)}"
    plain, more = f"array({', '.join(headers)})", _header("reason", "reason")
    nulls = "map('ignoreNullFields', 'false')"
    value = f"cast(to_json(struct({told}), {nulls}) as binary)"
    back = f"coalesce({asis}cast(to_json(struct({left})) as binary))"
    return kept.selectExpr(
        f"cast(if({is_refused}, coalesce({ids}), cast(`{answer[0]}` as string)) as binary) as key",
        f"if({is_refused}, {back}, {value}) as value",
        f"if({is_refused}, {_text(refused or topic)}, {_text(topic)}) as topic",
        f"if({is_refused}, concat({plain}, array({more})), {plain}) as headers",
    )


def _header(name: str, text: str) -> str:
    return f"named_struct('key', {_text(name)}, 'value', cast({text} as binary))"


def _value(name: str) -> str:
    """A column of an answer in JSON, which has no infinity: inner ends of those without a bound are null."""
    if not name.endswith("_inner"):
        return f"`{name}`"
    return f"if(abs(`{name}`) = double('infinity'), null, `{name}`) as `{name}`"


def _ids(columns: Sequence[str]) -> list[str]:
    """The columns of an answer that have ids."""
    return [name for name in columns if name not in ("op", "score", "rank", "seq")]


@dataclass(frozen=True)
class Writing:
    """Makes messages of answers, each with the rows of one key as an Arrow stream; called with Arrow batches.

    Attributes:
        topic: where answers go.
        refused: where refused rows go; None: nowhere.
        columns: the columns of an answer.
    """

    topic: str
    refused: str | None
    columns: tuple[str, ...]

    def __call__(self, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The messages of each batch."""
        for part in parts:
            rows = pa.Table.from_batches([part])
            aside = pc.fill_null(pc.equal(rows["op"], _REFUSED), False)
            made = list(self._answers(rows.filter(pc.invert(aside))))
            made += [self._refused(row) for row in rows.filter(aside).to_pylist() if self.refused is not None]
            if made:
                yield from pa.Table.from_pylist(made, schema=_MESSAGE).to_batches()

    def _answers(self, rows: pa.Table) -> Iterator[dict[str, Any]]:
        """Rows that stand together, of one shard and one key, and whose numbers follow each other."""
        if not rows.num_rows:
            return
        traced = "n" in rows.column_names
        names = [self.columns[0], *(("shard",) if traced else ())]
        new = np.zeros(rows.num_rows - 1, np.bool_)
        for name in names:
            codes = rows[name].combine_chunks().dictionary_encode().indices.to_numpy(zero_copy_only=False)
            new |= np.diff(codes) != 0
        if traced:
            new |= np.diff(rows["n"].to_numpy()) != 1
        starts = np.concatenate([[0], np.flatnonzero(new) + 1])
        answers = rows.select(list(self.columns))
        for start, stop in zip(starts, [*starts[1:], rows.num_rows], strict=True):
            first = rows.slice(start, 1).to_pylist()[0]
            yield self._message(
                first[self.columns[0]], _stream(answers.slice(start, stop - start)), self.topic, first, {}
            )

    def _refused(self, row: Mapping[str, Any]) -> dict[str, Any]:
        key = next((row[name] for name in _ids(self.columns) if row[name] is not None), None)
        value = row.get("raw")
        if value is None:
            told = {name: each for name, each in row.items() if name not in TRACED}
            value = _stream(pa.Table.from_pylist([told]))
        return self._message(key, value, str(self.refused), row, {"reason": row["reason"]})

    def _message(
        self, key: Any, value: bytes, topic: str, row: Mapping[str, Any], more: Mapping[str, str]
    ) -> dict[str, Any]:
        told = {name: row[name] for name in ("query", "batch", "shard", "n", "seq") if name in row} | dict(
            more
        )
        headers = [
            {"key": name, "value": None if each is None else str(each).encode()}
            for name, each in told.items()
        ]
        return {
            "key": None if key is None else str(key).encode(),
            "value": value,
            "topic": topic,
            "headers": headers,
        }


def _stream(rows: pa.Table) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, rows.schema) as writer:
        writer.write_table(rows.combine_chunks())
    return bytes(sink.getvalue())


@dataclass(frozen=True)
class Reading:
    """Takes messages that are Arrow streams apart; called with Arrow batches.

    Attributes:
        of: the input that the rows are for.
        form: the declared columns.
        needs: columns that every message must have.
        strict: whether a message with a column that is not declared is refused.
        several: whether a message may have several rows, which then have numbers of their own.
        reason: the column that says why a row is refused.
    """

    of: str
    form: pa.Schema
    needs: tuple[str, ...]
    strict: bool
    several: bool
    reason: str

    def __call__(self, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of all messages of each batch, with the other columns of their message."""
        for part in parts:
            others = [name for name in part.schema.names if name not in self.form.names]
            tables = []
            for place, value in enumerate(part["value"]):
                rows, why = self._rows(value.as_py())
                rows = rows.append_column(self.reason, pa.array([why] * rows.num_rows, pa.string()))
                again = pa.array(np.full(rows.num_rows, place))
                for name in others:
                    rows = rows.append_column(part.schema.field(name), part[name].take(again))
                tables.append(rows)
            if tables:
                wanted = [*self.form.names, self.reason, *others]
                yield from pa.concat_tables(tables).select(wanted).combine_chunks().to_batches()

    def _rows(self, value: bytes | None) -> tuple[pa.Table, str | None]:
        """The rows of a message, and why it is refused: then it is one row of nulls."""
        try:
            if value is None:
                raise ValueError("is empty")
            with pa.ipc.open_stream(value) as stream:
                rows = stream.read_all()
            return self._fitted(rows), None
        except (pa.ArrowException, ValueError, OSError, NotImplementedError) as error:
            empty = pa.Table.from_pylist([{}], schema=self.form)
            told = str(error).splitlines()[0][:200] if str(error) else type(error).__name__
            return empty, f'row of "{self.of}" does not fit its schema: {told}'

    def _fitted(self, rows: pa.Table) -> pa.Table:
        names = rows.column_names
        lacking = [name for name in self.needs if name not in names]
        strange = [name for name in names if name not in self.form.names]
        if lacking:
            raise ValueError(f'has no column "{lacking[0]}"')
        if strange and self.strict:
            raise ValueError(f'has the column "{strange[0]}", which is not declared')
        if rows.num_rows > 1 and not self.several:
            raise ValueError(f"has {rows.num_rows} rows, expected one, or rows with numbers (seq)")
        columns = [
            rows[each.name].cast(each.type) if each.name in names else pa.nulls(rows.num_rows, each.type)
            for each in self.form
        ]
        fitted = pa.Table.from_arrays(columns, names=self.form.names)
        fitted.validate(full=True)
        return fitted
