"""Messages that leave before the window is past them: taken back, edited, or ended by their own `until`.

A batch of messages may have a column `op`: "publish" (what a row without it means), "retract" (the message of
that id is taken back, whatever the other columns hold), "advance" (the clock of a time window moves, no
message comes) and "reweigh" (another vocabulary counts from the end of the batch on, see `vocabulary_of`).
Rows apply in order. A message with an `until` is in the window as long as the clock has not
reached it. With duplicates="edit" a message whose id is live takes that one back first.

`plan_changes` resolves such a batch before anything changes, as `plan_arrivals` of `rankcast.geotext.window`
does one that has nothing of all this. Cost: O(m log w) for m rows in a window of w; a message that is taken
back moves those on its shorter side of the queue.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from rankcast.errors import InputError, shown
from rankcast.geotext.kernels.score import Plain, are_inside
from rankcast.geotext.sources import SOURCE
from rankcast.geotext.vectors import VECTOR
from rankcast.geotext.vocabulary import Vocabulary
from rankcast.geotext.window import EARLIEST, LATEST, NO_ROWS, ArrivalPlan, Window, holders_gone, live_id
from rankcast.structures import hashing
from rankcast.structures.hashing import KeyArrays
from rankcast.structures.ids import Slots, keys_of, select, show
from rankcast.structures.jit import EXACT
from rankcast.tables import read
from rankcast.tables.readers import read_column
from rankcast.tables.schema import (
    NO_OFFSETS,
    NO_TEXT,
    NO_VALUES,
    Batch,
    Bools,
    Column,
    Form,
    Ids,
    Ints,
    Kind,
    Names,
    Rows,
    Terms,
)
from rankcast.tables.sequences import as_array

# mypy: disallow-untyped-decorators=False

PUBLISH, RETRACT, REWEIGH, ADVANCE = range(4)
WORDS = ("publish", "retract", "reweigh", "advance")
VOCABULARY = Column("vocabulary", Kind.NAMES, required=False, nullable=True)
DOCUMENTS = Column("documents", Kind.NAMES, required=False, nullable=True)
UNTIL = Column("until", Kind.TIME, required=False, nullable=True)
NULL_TIME = EARLIEST  # what a column of times has for a null
FITS = -1


def op_column(*, timed: bool) -> Column:
    """The column `op`: only a window of time has a clock to advance."""
    return Column("op", Kind.WORD, required=False, words=WORDS if timed else WORDS[:ADVANCE])


def vocabulary_of(table: pa.Table, rows: Ints) -> Vocabulary:
    """The vocabulary of the last of the rows that bring one; all of them are checked.

    Such a row has its words in `vocabulary`, and in `documents` how many documents there are in all and then
    how many have each word. Nulls, or empty lists, are no documents: every idf is 1.
    """
    found = Vocabulary.empty()
    for row in rows.tolist():
        words = _listed(table, VOCABULARY.name, row, str, "a list of strings")
        counts = _listed(table, DOCUMENTS.name, row, int, "a list of whole numbers")
        if len(counts) != len(words) + 1 and (words or counts):
            raise InputError(
                f"has {len(counts)} numbers", where="messages", column=DOCUMENTS.name, row=row,
                expected=f"{len(words) + 1}: of all documents, and of each of {len(words)} words",
            )  # fmt: skip
        try:
            found = Vocabulary.read({"term": [None, *words], "documents": counts} if counts else [])
        except InputError as error:
            raise InputError(
                "is no vocabulary", where="messages", column=VOCABULARY.name, row=row, detail=str(error)
            ) from error
    return found


def _listed(table: pa.Table, name: str, row: int, kind: type, expected: str) -> list[Any]:
    """The list that a row has in a column; none if it has none, or there is no such column."""
    value = table[name][row].as_py() if name in table.column_names else None
    if value is not None and (type(value) is not list or any(type(each) is not kind for each in value)):
        raise InputError(
            f"is {shown(value)}", where="messages", column=name, row=row, expected=f"{expected}, or null"
        )
    return value or []


def read_ops(
    rows: Any, form: Form, op: Column, take: Callable[[Any], Batch], inside: tuple[float, float]
) -> tuple[Batch, Ints | None, Vocabulary | None]:
    """A batch whose rows may do other things; columns that such a row does not need may hold anything.

    `take` reads messages. Where a row is none, its place is `inside`, and it has no terms. A row that brings
    a vocabulary changes nothing of messages: it is one that moves no clock. Returns the last one of them.
    """
    table = read.as_table(rows, where="messages")
    if "op" not in table.column_names:
        return take(table), None, None
    ops: Ints = read_column(as_array(table["op"], "op", "messages"), op, "messages")
    brings, vocabulary = np.flatnonzero(ops == REWEIGH), None
    if brings.size:
        vocabulary = vocabulary_of(table, brings)
    own = ("op", VOCABULARY.name, DOCUMENTS.name)
    table = table.drop_columns([name for name in own if name in table.column_names])
    if not ops.any():
        return take(table), None, None
    publish, advance = np.flatnonzero(ops == PUBLISH), np.flatnonzero(ops == ADVANCE)
    unknown = [name for name in table.column_names if name not in form.known]
    if publish.size or unknown:
        batch = _at_rows(lambda: take(table.take(publish)), publish)
    else:
        batch = Batch(0, {"x": np.empty(0), "y": np.empty(0), "terms": NO_TERMS, "time": NO_VALUES})
    values: dict[str, Any] = {"id": _ids(table, ops)}
    for name, filler in (("x", inside[0]), ("y", inside[1])):
        values[name] = np.full(ops.size, filler)
        values[name][publish] = batch[name]
    counts = np.zeros(ops.size + 1, np.int64)
    counts[publish + 1] = np.diff(batch["terms"].starts)
    values["terms"] = Terms(np.cumsum(counts), batch["terms"].words)
    if "time" in form.known:
        values["time"] = np.zeros(ops.size, np.int64)
        values["time"][publish], values["time"][brings] = batch["time"], EARLIEST
        if advance.size:
            if "time" not in table.column_names:
                raise InputError("is missing", where="messages", column="time", expected=Kind.TIME.value)
            column = table["time"].take(pa.array(advance))
            values["time"][advance] = _at_rows(
                lambda: read_column(column, form.known["time"], "messages"), advance
            )
    if VECTOR in batch:
        values[VECTOR] = np.zeros((ops.size, batch[VECTOR].shape[1]))
        values[VECTOR][publish] = batch[VECTOR]
    if "until" in batch:
        values["until"] = np.full(ops.size, NULL_TIME)
        values["until"][publish] = batch["until"]
    if SOURCE.name in batch:
        ids, given = batch[SOURCE.name]
        place, known = np.zeros(ops.size, np.int32), np.zeros(ops.size, np.bool_)
        place[publish], known[publish] = np.arange(publish.size), given
        values[SOURCE.name] = Names(select(ids, place), known)
    return Batch(ops.size, values), np.where(ops == REWEIGH, ADVANCE, ops), vocabulary


NO_TERMS = Terms(np.zeros(1, np.int64), Ids("str", NO_VALUES, NO_OFFSETS, NO_TEXT))


def _ids(table: pa.Table, ops: Ints) -> Ids:
    """The ids of rows; one that is about no message has that of any other row."""
    named = np.flatnonzero((ops == PUBLISH) | (ops == RETRACT))
    if not named.size:
        return Ids("int", np.zeros(ops.size, np.int64), NO_OFFSETS, NO_TEXT)
    if "id" not in table.column_names:
        raise InputError("is missing", where="messages", column="id", expected=Kind.ID.value)
    column = table["id"].take(pa.array(named))
    found: Ids = _at_rows(lambda: read_column(column, Column("id", Kind.ID), "messages"), named)
    place = np.zeros(ops.size, np.int32)
    place[named] = np.arange(named.size)
    return select(found, place)


def _at_rows(look: Callable[[], Any], rows: Any) -> Any:
    """What a look at some rows gives; an error names the row of the whole batch."""
    try:
        return look()
    except InputError as error:
        if error.row is None or error.row >= rows.size:
            raise
        raise error.at(int(rows[error.row])) from None


class Going(NamedTuple):
    """Held messages that leave by themselves up to some time: how many first ones, others, and when each."""

    first: int
    others: Rows
    rows: Rows
    end: Ints


def going(window: Window, clock: int) -> Going:
    """What leaves a time window by itself when its clock is at `clock`."""
    if not window.span:
        return Going(0, NO_ROWS, NO_ROWS, NO_VALUES)
    first, times = 0, window.times()
    if clock >= EARLIEST + window.span:
        first = int(np.searchsorted(times, clock - window.span, side="right"))
    rows, end = window.rows()[:first].copy(), times[:first] + window.span
    if not window.until.size:
        return Going(first, NO_ROWS, rows, end)
    ending = window.ending(clock)
    others = ending[~np.isin(ending, rows)]
    end = np.concatenate([np.minimum(end, window.until[rows]), window.until[others]])
    return Going(first, others, np.concatenate([rows, others]), end)


@njit(**EXACT)
def _leaves(time: int, until: int, span: int) -> int:
    """When a message leaves by itself; a sum beyond all times is never reached."""
    return min(until, time + span) if span > 0 and time <= LATEST - span else until


@njit(**EXACT)
def _is_live(
    former: int, over: bool, holder: int, end: Ints, gone: Bools, until_gone: int, now: int, count: int
) -> bool:
    """Whether the last message of an id, an arrival or the held one, is there; `over`: it was taken back."""
    if over or (former < 0 and holder < 0):
        return False
    if former >= 0:
        return bool(end[former] > now)
    return bool(not gone[holder] if count > 0 else until_gone > now)


@njit(**EXACT)
def _drop_oldest(queue: Rows, gone: Bools, end: Ints, front: int, rear: int) -> tuple[int, int]:
    """Let the oldest message of a window by count go: of the held ones from `front` on, then of arrivals.

    Returns where those begin that may still be there.
    """
    while front < queue.size:
        front += 1
        if not gone[queue[front - 1]]:
            gone[queue[front - 1]] = True
            return front, rear
    while end[rear] == EARLIEST:
        rear += 1
    end[rear] = EARLIEST
    return front, rear + 1


@njit(**EXACT)
def _staying(end: Ints, clock: int, holder: Rows) -> tuple[int, Rows, Rows]:
    """How many arrivals have come and gone by the end; which stay, and the rows whose ids they have."""
    staying, held = np.empty(end.size, np.int32), np.empty(end.size, np.int32)
    used, expired = 0, 0
    for i in range(end.size):
        if end[i] > clock:
            staying[used], held[used] = i, holder[i]
            used += 1
        elif end[i] > EARLIEST:
            expired += 1
    return expired, staying[:used], held[:used]


@njit(**EXACT)
def _plan(
    op: Ints, times: Ints, until: Ints, table: Rows, stored: KeyArrays, keys: KeyArrays, queue: Rows,
    leaving: Rows, ends: Ints, clock: int, count: int, span: int, edits: bool, rows: int,
) -> tuple[int, int, int, int, Rows, Rows, Rows]:  # fmt: skip
    """The first row that is refused, or `FITS`; how many are late, and have come and gone.

    Then how many first ones of the queue leave a window by count, which arrivals stay, the rows whose ids
    they have, and rows that are taken back. `leaving` held ones leave at `ends` by themselves; `count` is 0
    for a window by time, and `rows` are as many as there are.
    """
    size, holder, (number, first) = op.size, hashing.find(table, stored, keys), hashing.distinct(keys)
    until_gone = holders_gone(holder, leaving, ends, LATEST)
    latest, over = np.full(first.size, -1, np.int64), np.zeros(first.size, np.bool_)
    end, taken = np.full(size, EARLIEST, np.int64), np.empty(size, np.int32)
    gone = np.zeros(rows if count > 0 else 1, np.bool_)
    late, expired, takes = 0, 0, 0
    live, front, rear = queue.size, 0, 0
    for i in range(size):
        if op[i] == ADVANCE:
            clock = max(clock, times[i])
            continue
        which, publishes = number[i], op[i] == PUBLISH
        now, leaves = max(clock, times[i]) if publishes else clock, _leaves(times[i], until[i], span)
        if publishes and leaves <= now:
            late += 1
            continue
        former, own = latest[which], np.int64(holder[i])
        known = _is_live(former, over[which], own, end, gone, until_gone[i], now, count)
        if not publishes and not known:
            return i, 0, 0, 0, taken[:0], taken[:0], taken[:0]
        if known and (edits or not publishes):
            if former >= 0:
                end[former] = EARLIEST
            else:
                taken[takes] = own
                takes += 1
                gone[own if count > 0 else 0] = True
            over[which], live = True, live - 1
        if not publishes:
            continue
        if count > 0 and live == count:
            front, rear = _drop_oldest(queue, gone, end, front, rear)
            expired, live = expired + 1, live - 1
        if _is_live(former, over[which], own, end, gone, until_gone[i], now, count):
            return i, 0, 0, 0, taken[:0], taken[:0], taken[:0]
        clock, latest[which], over[which], end[i], live = now, i, False, leaves, live + 1
    gone_by, staying, held = _staying(end, clock, holder)
    return FITS, late, expired + gone_by, front, staying, held, taken[:takes]


def plan_changes(
    batch: Batch, ops: Ints | None, times: Ints, frame: Plain, window: Window, messages: Slots, *, edits: bool
) -> ArrivalPlan | None:
    """Resolve a batch of messages, some of which may be taken back or end by themselves.

    None if a place is outside of the bounds of the frame.
    """
    op = np.zeros(batch.size, np.int64) if ops is None else ops
    until = np.full(batch.size, LATEST)
    if "until" in batch:
        until = np.where(batch["until"] == NULL_TIME, LATEST, batch["until"])
        wrong = (until <= times) & (op == PUBLISH)
        if wrong.any():
            row = int(np.argmax(wrong))
            raise InputError(
                "is not after its time", where="messages", column="until", row=row, expected="a later time"
            )
    if not are_inside(frame, batch["x"], batch["y"]):
        return None
    ids = batch.ids
    if ops is None or (op != ADVANCE).any():
        messages.find(ids, where="messages")  # refuses ids of another kind
    elif messages.kind is not None and messages.kind != ids.kind:
        ids = Ids("str", NO_VALUES, np.zeros(batch.size + 1, np.int64), NO_TEXT)
        batch.apart["id"] = ids
    clock = max(window.clock, int(times[op != RETRACT].max(initial=EARLIEST)))
    leaves = going(window, clock)
    register = messages.register()
    clash, late, expired, front, staying, held, taken = _plan(
        op, times, until, register[0], register[1:6], keys_of(ids, messages.seed), window.rows(), leaves.rows,
        leaves.end, window.clock, window.count, window.span, edits, messages["x"].size,
    )  # fmt: skip
    if clash != FITS:
        raise live_id(ids, clash) if op[clash] == PUBLISH else _no_live_id(ids, clash)
    first = front if window.count else leaves.first
    natural = np.concatenate([window.rows()[:first], leaves.others])
    twice = int(np.isin(taken, natural).sum())
    expired += natural.size - twice if window.span else 0
    early = taken[~np.isin(taken, natural)]
    return ArrivalPlan(
        late, first, staying, held, int((held >= 0).sum()), leaves.others, early, until, expired
    )


def plan_leaving(window: Window, clock: int, taken: Rows) -> ArrivalPlan:
    """What moving the clock and taking messages back does, without any arrivals."""
    leaves = going(window, clock)
    gone = leaves.first + leaves.others.size
    early = taken if not gone else taken[~np.isin(taken, leaves.rows)]
    return ArrivalPlan(0, leaves.first, NO_ROWS, NO_ROWS, 0, leaves.others, early, NO_VALUES, gone)


def late_rows(rows: pa.Table, op: Column, time: Column, window: Window) -> Ints:
    """Which messages of a table a time window is past, or past the `until` of which it is, when they come.

    Reads no more than their times. Rows that take messages back or bring a vocabulary move no clock.
    """
    ops, place = np.zeros(rows.num_rows, np.int64), np.arange(rows.num_rows)
    if op.name in rows.schema.names:
        ops = read_column(as_array(rows[op.name], op.name, "messages"), op, "messages")
        place = np.flatnonzero((ops != RETRACT) & (ops != REWEIGH))
        rows, ops = rows.take(pa.array(place)), ops[place]
    times = read_column(rows[time.name], time, "messages")
    clock = np.maximum.accumulate(np.concatenate([[window.clock], times]))[1:]
    end = np.where(times <= LATEST - window.span, times + window.span, LATEST)
    if UNTIL.name in rows.schema.names:
        until = read_column(rows[UNTIL.name], UNTIL, "messages")
        end = np.minimum(end, np.where(until == NULL_TIME, LATEST, until))
    late: Ints = place[(end <= clock) & (ops == PUBLISH)]
    return late


def read_times(times: Any, column: Column) -> Ints:
    """The times of a call of `advance`: one, or a table with a column `time`."""
    if (
        isinstance(times, dict | pa.Table | pa.RecordBatch)
        or hasattr(times, "columns")
        or type(times) is list
    ):
        found: Ints = read.read(times, [column], where="advance")["time"]
        return found
    return read.read({"time": [times]}, [column], where="advance")["time"]  # type: ignore[no-any-return]


def _no_live_id(ids: Ids, row: int) -> InputError:
    return InputError(
        f"is {show(ids, row)}, which is not that of a live message",
        where="messages",
        column="id",
        row=row,
        expected="the id of a message to retract",
    )
