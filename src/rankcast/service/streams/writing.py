"""Writes: what each does to the engine and to the records, on the thread of its stream.

Each is one batch of the shard, so one step of the sequence. Rows are first checked against the limits of the
service, then the engine reads them; a refused write has changed nothing.
"""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import orjson
import pyarrow as pa
import pyarrow.compute as pc

from rankcast.errors import InputError, shown
from rankcast.service.problems import Problem
from rankcast.service.requests import rows as forms
from rankcast.service.streams import external
from rankcast.service.streams.records import LONGEST_ID, Id, Kept
from rankcast.service.streams.stream import Stream, unsubscribe
from rankcast.state.batches import Prepared
from rankcast.tables.schema import Kind

EXPIRES = "expires_in"
_LIMITED = (Kind.COUNT, Kind.TERMS)
_LONGEST = 10 * 366 * 86400.0  # seconds


class Outcome(NamedTuple):
    """The result of a write: a status, a JSON object, and a table for its rows."""

    status: int
    document: dict[str, Any]
    table: pa.Table | None = None


class Reply(NamedTuple):
    """An answer ready to be sent."""

    status: int
    media: str
    sequence: int
    body: bytes

    def kept(self) -> bytes:
        """The reply as it is stored with its key."""
        return orjson.dumps([self.status, self.media, self.sequence]) + b"\n" + self.body

    @classmethod
    def of(cls, kept: bytes) -> Reply:
        """A stored reply."""
        head, _, body = kept.partition(b"\n")
        status, media, sequence = orjson.loads(head)
        return cls(status, media, sequence, body)


def reply(outcome: Outcome, form: str) -> Reply:
    """Render what a write came to."""
    status, document, table = outcome
    sequence = document["sequence"]
    if table is None:
        return Reply(status, forms.JSON, sequence, forms.dumped(document))
    return Reply(status, form, sequence, forms.rendered(table, form, document))


def keyed(
    key: tuple[str, bytes] | None, form: str, do: Callable[[Stream], Outcome]
) -> Callable[[Stream], Outcome | Reply]:
    """A write that is done once for its key."""

    def work(stream: Stream) -> Outcome | Reply:
        if key is None:
            return do(stream)
        name, digest = key
        kept = stream.records.kept(name)
        if kept is not None:
            if kept.digest != digest:
                raise Problem(422, "The Idempotency-Key was used for another write.", hint="Use a new one.")
            return Reply.of(kept.reply)
        found = reply(do(stream), form)
        stream.records.keep(name, Kept(digest, found.kept()), stream.settings.key_age)
        return found

    return work


# Events and objects


def apply(call: str, rows: Any, *, returned: bool) -> Callable[[Stream], Outcome]:
    """Publish events, upsert objects."""

    def work(stream: Stream) -> Outcome:
        batch = prepared(stream, call, rows)
        answer = stream.write_prepared(batch)
        learn(stream, call, batch)
        return written(stream, answer, returned=returned or stream.spec.answer.kind != "deltas")

    return work


def remove(text: str) -> Callable[[Stream], Outcome]:
    """Remove an object."""

    def work(stream: Stream) -> Outcome:
        answer = stream.write("remove", [stream.records.id_of(text, "item")])
        return written(stream, answer, returned=False)

    return work


def push(batch: external.Batch, *, returned: bool) -> Callable[[Stream], Outcome]:
    """Take a batch of an external stream, once for its number."""

    def work(stream: Stream) -> Outcome:
        lists = stream.lists
        assert lists is not None  # noqa: S101  # the handler has looked
        before = lists.answered(batch)
        if before is not None:
            return Outcome(200, {"sequence": before[0], "deltas": before[1]})
        table = external.checked(batch, lambda column, *what: check_limit(stream, column, *what))
        for name in {"subscription", "item"}.intersection(table.column_names):
            check_ids(table.column(name), name)
        change = lists.change(table, batch.content)
        if change.more > 0:
            check_count(stream, change.more)
        answer = stream.write(external.CALL, change.deltas)
        lists.write(batch, change, stream.number)
        return written(stream, answer, returned=returned)

    return work


def written(stream: Stream, answer: pa.Table, *, returned: bool, status: int = 200) -> Outcome:
    """What is told of a write."""
    document = {"sequence": stream.number, "deltas": answer.num_rows}
    return Outcome(status, document, answer if returned else None)


# Subscriptions


def subscribe(rows: Any, *, returned: bool) -> Callable[[Stream], Outcome]:
    """Register many."""

    def work(stream: Stream) -> Outcome:
        mine, spans = without_expiry(rows)
        batch = prepared(stream, "subscribe", mine)
        table = batch.commands[0][1]
        check_count(stream, table.num_rows)
        answer = stream.write_prepared(batch)
        learn(stream, "subscribe", batch)
        if table.num_rows:
            register(stream, table, [ends(span) for span in spans])
        return written(stream, answer, returned=returned, status=201)

    return work


def put(text: str, row: dict[str, Any]) -> Callable[[Stream], Outcome]:
    """Register one, or replace it."""

    def work(stream: Stream) -> Outcome:
        key = path_id(stream, text, row)
        expires = ends(row.get(EXPIRES))
        mine = {"id": key, **{name: value for name, value in row.items() if name not in ("id", EXPIRES)}}
        known = stream.records.find(key) is not None
        if known:
            stream.write_prepared(replacement(stream, mine))
        else:
            batch = prepared(stream, "subscribe", [mine])
            check_count(stream, 1)
            stream.write_prepared(batch)
            learn(stream, "subscribe", batch)
        stream.records.put([(key, forms.dumped(mine), expires)])
        return subscribed(stream, key, 200 if known else 201)

    return work


def amend(text: str, row: dict[str, Any]) -> Callable[[Stream], Outcome]:
    """Change one in place."""

    def work(stream: Stream) -> Outcome:
        key = path_id(stream, text, row)
        known = stream.records.find(key)
        if known is None:
            raise unknown(text)
        mine = {"id": key, **{name: value for name, value in row.items() if name not in ("id", EXPIRES)}}
        stream.write_prepared(prepared(stream, "amend", [dict(mine)]))
        expires = ends(row[EXPIRES]) if EXPIRES in row else known.expires
        stream.records.put([(key, forms.dumped({**known.row, **mine}), expires)])
        return subscribed(stream, key, 200)

    return work


def end(text: str) -> Callable[[Stream], Outcome]:
    """End one."""

    def work(stream: Stream) -> Outcome:
        key = stream.records.id_of(text, "subscription")
        if stream.records.find(key) is None:
            raise unknown(text)
        return written(stream, unsubscribe(stream, [key]), returned=False)

    return work


def subscribed(stream: Stream, key: Id, status: int) -> Outcome:
    """What is told of one subscription: its list."""
    found = forms.listed(stream.results([key])) if stream.keeps_results else []
    return Outcome(status, {"id": key, "results": found, "sequence": stream.number})


def question(stream: Stream, row: dict[str, Any]) -> tuple[pa.Table, int]:
    """The columns of a subscription for a dry run, and the current sequence."""
    kind = stream.records.kind("subscription")
    batch = prepared(stream, "subscribe", [{"id": "" if kind == "str" else 0, **row}])
    table = batch.commands[0][1]
    stream.engine.check_columns("subscribe", table.schema)
    return table.drop_columns(["id"]), stream.number


def unknown(text: str) -> Problem:
    """A subscription that is not there."""
    return Problem(404, f"There is no subscription {shown(text)}.")


# Parts


def prepared(stream: Stream, call: str, rows: Any) -> Prepared:
    """A call as a batch, its rows within the limits of the service."""
    if call not in stream.limited:
        form = tuple(stream.engine.reads(call).form)
        stream.limited[call] = [column for column in form if column.kind in (Kind.TIME, *_LIMITED)]
    limited = stream.limited[call]
    if limited and isinstance(rows, list):
        forms.with_times(rows, [column.name for column in limited if column.kind is Kind.TIME])
    batch = stream.shard.prepare([(call, rows)])
    if batch.plain is not None and not limited and len(str(batch.plain.row.get("id", ""))) <= LONGEST_ID:
        return batch
    table = batch.commands[0][1]
    if "id" in table.column_names:
        check_ids(table.column("id"), "id")
    for column in limited:
        if column.name in table.column_names:
            check_limit(stream, table.column(column.name), column.name, column.kind)
    return batch


def check_limit(stream: Stream, column: pa.ChunkedArray, name: str, kind: Kind) -> None:
    """Refuse a k or a number of terms above the limits."""
    limits = {Kind.COUNT: stream.settings.max_k, Kind.TERMS: stream.settings.max_terms}
    most = limits.get(kind)
    if most is None or not len(column):
        return
    if kind is Kind.TERMS:
        if not pa.types.is_nested(column.type):
            return  # the engine refuses it
        column = pc.list_value_length(column)
    elif not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
        return
    above = pc.greater(column, most)
    if pc.any(above).as_py():
        row = pc.index(above, True).as_py()
        raise InputError(
            f"is {column[row].as_py()}" if kind is Kind.COUNT else f"has {column[row].as_py()} terms",
            column=name,
            row=row,
            expected=f"at most {most}",
        )


def check_ids(column: pa.ChunkedArray, name: str) -> None:
    """Refuse ids that no path could name, and that would be repeated in every message."""
    if not pa.types.is_string(column.type) and not pa.types.is_large_string(column.type):
        return
    length = pc.max(pc.utf8_length(column)).as_py() if len(column) else 0
    if length is not None and length > LONGEST_ID:
        row = pc.index(pc.greater(pc.utf8_length(column), LONGEST_ID), True).as_py()
        raise InputError(
            f"has {length} characters", column=name, row=row, expected=f"at most {LONGEST_ID} characters"
        )


def check_count(stream: Stream, more: int) -> None:
    """Refuse more subscriptions than a stream may have."""
    most = stream.settings.max_subscriptions
    if stream.count() + more > most:
        raise Problem(409, f"The stream may have {most} subscriptions.", hint="End some first.")


def learn(stream: Stream, call: str, batch: Prepared) -> None:
    """Remember the kind of ids of a call."""
    if call not in stream.roles:
        source = next(each for each in stream.spec.inputs if call in each.calls)
        is_item = source.name == stream.spec.answer.source and source.ids_of is None
        stream.roles[call] = "subscription" if source.name == "subscriptions" else "item" if is_item else None
    role = stream.roles[call]
    if role is None or stream.records.kind(role) is not None:
        return
    table = batch.commands[0][1]
    if table.num_rows and "id" in table.column_names:
        stream.records.learn(role, "int" if pa.types.is_integer(table.schema.field("id").type) else "str")


def register(stream: Stream, table: pa.Table, expires: list[float | None]) -> None:
    """Store many subscriptions."""
    ids = table.column("id").to_pylist()
    listed = forms.listed(table)
    times: Iterable[float | None] = expires or [None] * len(ids)
    stream.records.put(zip(ids, map(forms.dumped, listed), times, strict=True))


def replacement(stream: Stream, row: dict[str, Any]) -> Prepared:
    """The batch that makes a live subscription equal to a new one of these columns.

    An amendment in which absent values are null, so that a refusal costs nothing; if a column cannot be
    null, the subscription ends and starts again, in one batch.
    """
    engine = stream.engine
    new = prepared(stream, "subscribe", [dict(row)])
    engine.check_columns("subscribe", new.commands[0][1].schema)
    absent = [column for column in engine.reads("amend").form if column.name not in row]
    if all(column.nullable for column in absent):
        return prepared(stream, "amend", [{**row, **{column.name: None for column in absent}}])
    return stream.shard.prepare([("unsubscribe", [row["id"]]), new.commands[0]])


def path_id(stream: Stream, text: str, row: dict[str, Any]) -> Id:
    """The id of a path; the body may also contain it, and then determines its kind."""
    given = row.get("id")
    if given is None:
        return stream.records.id_of(text, "subscription")
    if isinstance(given, bool) or not isinstance(given, int | str) or str(given) != text:
        raise InputError(f"is {shown(given)}", column="id", expected=f"{shown(text)}, as in the path")
    return given


def without_expiry(rows: Any) -> tuple[Any, list[Any]]:
    """Rows without the column of their lifetimes, and that column."""
    if isinstance(rows, pa.Table):
        if EXPIRES not in rows.column_names:
            return rows, []
        return rows.drop_columns([EXPIRES]), rows.column(EXPIRES).to_pylist()
    if not any(EXPIRES in row for row in rows):
        return rows, []
    spans = [row.get(EXPIRES) for row in rows]
    return [{name: value for name, value in row.items() if name != EXPIRES} for row in rows], spans


def ends(span: Any) -> float | None:
    """When something ends that lives for so many seconds."""
    if span is None:
        return None
    if isinstance(span, bool) or not isinstance(span, int | float) or not math.isfinite(span):
        raise InputError(f"is {shown(span)}", column=EXPIRES, expected="a number of seconds")
    if not 0 < span <= _LONGEST:
        raise InputError(f"is {shown(span)}", column=EXPIRES, expected="a number above 0, ten years at most")
    return time.time() + span
