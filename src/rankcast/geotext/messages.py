"""The messages of an engine: how they are read, and what a call does to the window before results follow.

`Messages` owns slots, texts, window and decay. A call becomes an `Incoming`, worked out before anything
changes (or by `rankcast.geotext.lifetimes`, if messages may leave early); `begin` and `write` carry it out.

A batch is planned before it is applied: `departures` finds for every message the arrival that pushes it out,
`plan_arrivals` resolves late rows and ids, and `advance` moves the window to the end of the batch. Rows apply
in order: an arrival moves the window first, and then its id must not be that of a live message. So an id may
be used again in one batch, once the message that had it has expired.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numba import njit

from rankcast.core.engine import ID, Part
from rankcast.errors import InputError
from rankcast.geotext import lifetimes
from rankcast.geotext.copies import COPY, Copies, Shown
from rankcast.geotext.kernels.score import Frame, Plain, TermVectors, are_inside
from rankcast.geotext.kernels.words import clear, give_back, look_up, replace, take
from rankcast.geotext.phrases import OrderedTerms
from rankcast.geotext.places import PLACE, read_places
from rankcast.geotext.sources import SOURCE, Sources
from rankcast.geotext.text import Analyzer, no_terms, read_terms, word_column
from rankcast.geotext.vectors import VECTOR, Meanings
from rankcast.geotext.vocabulary import LiveTerms, Vectors, Vocabulary, with_every
from rankcast.geotext.window import (
    EARLIEST,
    LATEST,
    NO_GAINS,
    NO_ROWS,
    NO_TIMES,
    ArrivalPlan,
    Window,
    decay_of,
    departures,
    holders_gone,
    live_id,
    window_of,
)
from rankcast.structures import hashing, integrity
from rankcast.structures.arrays import borrowed
from rankcast.structures.hashing import COUNT, FREE_COUNT, TEXT_USED, USED, KeyArrays, Keys, Register
from rankcast.structures.ids import Slots, keys_of, select
from rankcast.structures.jit import EXACT
from rankcast.tables.schema import NO_TEXT, Batch, Column, Floats, Form, Ids, Ints, Kind, Rows

# mypy: disallow-untyped-decorators=False

TIME = Column("time", Kind.TIME)
CLOCK = Form([TIME])

FITS, OUTSIDE = -1, -2  # no arrival has the id of a live message; one is outside of the bounds


@njit(**EXACT)
def _plan(
    times: Ints, places: tuple[Floats, Floats], frame: Plain, row: Rows, time: Ints, count: int, span: int,
    clock: int, table: Rows, stored: KeyArrays, keys: KeyArrays,
) -> tuple[int, int, int, Rows, Rows, int]:  # fmt: skip
    """The first arrival that has the id of a live message, `FITS` or `OUTSIDE`; then the fields of a plan."""
    if not are_inside(frame, places[0], places[1]):
        return OUTSIDE, 0, 0, row[:0], row[:0], 0
    gone_held, gone = departures(times, time, count, span, clock)
    holder, late, used = hashing.find(table, stored, keys), 0, 0
    until = holders_gone(holder, row[: gone_held.size], gone_held, times.size)
    number, first = hashing.distinct(keys)
    latest, staying = np.full(first.size, -1, np.int64), np.empty(times.size, np.int32)
    for i in range(times.size):
        if gone[i] <= i:  # out of the window before or when it arrives
            late += 1
            continue
        former = latest[number[i]]
        if (gone[former] if former >= 0 else until[i]) > i:
            return i, late, 0, staying[:0], staying[:0], 0
        latest[number[i]] = i
        if gone[i] >= times.size:
            staying[used] = i
            used += 1
    held, reused = holder[staying[:used]], 0
    for row_held in held:
        reused += row_held >= 0
    return FITS, late, gone_held.size, staying[:used], held, reused


@njit(**EXACT)
def insert(row: Rows, time: Ints, first: int, end: int, rows: Rows, times: Ints) -> None:
    """Insert rows that arrived into the queue at first..end, behind equal times; there is room at its end."""
    place, at, held = times.size, end + times.size, end
    ascends = True
    for i in range(1, times.size):
        ascends &= times[i] >= times[i - 1]
    order = np.arange(times.size) if ascends else np.argsort(times, kind="mergesort")
    while place > 0:
        at -= 1
        newest = order[place - 1]
        if held > first and time[held - 1] > times[newest]:
            held -= 1
            row[at], time[at] = row[held], time[held]
        else:
            place -= 1
            row[at], time[at] = rows[newest], times[newest]


WRITTEN, NO_IDS, NO_WORDS, NO_TEXTS = range(4)  # whether a batch is written, or what there is no room for


@njit(**EXACT)
def _fresh_keys(ids: KeyArrays, staying: Rows, held: Rows, reused: int) -> Keys:
    """The ids of arrivals that stay and get a row of their own."""
    keys = hashing.named(ids)
    new, count = np.empty(staying.size - reused, np.int32), 0
    for i in range(staying.size):
        if held[i] < 0:
            new[count] = staying[i]
            count += 1
    if keys.length.size == 0:
        return Keys(keys.code[new], keys.start, keys.length, keys.data, keys.seed)
    return Keys(keys.code[new], keys.start[new], keys.length[new], keys.data, keys.seed)


@njit(**EXACT)
def _has_room(register: Register, keys: Keys, going: int) -> bool:
    """Whether so many keys can be admitted once so many rows have been dismissed."""
    meta, size, text = register.meta, keys.code.size, 0
    for i in range(keys.length.size):
        text += keys.length[i]
    fits = meta[USED] + size - meta[FREE_COUNT] <= register.sequence.size
    fits = fits and meta[TEXT_USED] + text <= register.text.size
    return bool(fits and 10 * (meta[COUNT] - going + size) <= 7 * register.table.size)


@njit(**EXACT)
def _write(
    plan: tuple[Rows, Rows, int], going: tuple[Rows, Rows, Rows], ids: KeyArrays, given: Plain, texts: Plain,
    messages: Plain, columns: Plain, terms: Plain, references: Ints, idf: Floats, unseen: float,
    vectors: Plain, frequency: Rows, used: int, queue: tuple[Rows, Ints], ends: tuple[int, int], rows: Rows,
) -> tuple[int, int, Rows]:  # fmt: skip
    """Write a planned batch, telling the rows of the arrivals that stay in `rows`; see `write_messages`.

    `going` are the rows whose texts go, the rows that are dismissed, and terms that are given back besides.
    Returns `WRITTEN`, how many terms were stored, and which are forgotten; or what there is no room for, and
    nothing has changed. References are taken before any is given back: a shared term keeps its row.
    """
    (staying, held, reused), (cleared, dismissed, former) = borrowed(plan), borrowed(going)
    register, words = hashing.register_of(borrowed(messages)), hashing.register_of(borrowed(terms))
    (x, y, gain, times), (held_x, held_y, held_gain) = borrowed(given), borrowed(columns)
    begins, sizes, held_terms, weights = borrowed(vectors)
    stored = TermVectors(begins, sizes, held_terms, weights)
    fresh = _fresh_keys(borrowed(ids), staying, held, reused)
    if not _has_room(register, fresh, dismissed.size) or register.sequence.size > stored.begin.size:
        return NO_IDS, 0, rows[:0]
    known = look_up(texts, staying, words)
    total = known.word.size
    if used + total > stored.term.size:
        return NO_TEXTS, total, rows[:0]
    taken, term, weight = take(known, words, references, idf, unseen)
    if not taken:
        return NO_WORDS, total, rows[:0]
    forgotten = give_back(references, former if former.size > 0 else clear(stored, cleared))
    hashing.dismiss(words, forgotten)
    hashing.dismiss(register, dismissed)
    added, at = np.empty(fresh.code.size, np.int32), 0
    hashing.admit(register, fresh, added)
    for i in range(staying.size):
        if held[i] >= 0:
            rows[i] = held[i]
        else:
            rows[i] = added[at]
            at += 1
        held_x[rows[i]], held_y[rows[i]] = x[staying[i]], y[staying[i]]
        if gain.size > 0:
            held_gain[rows[i]] = gain[i]
    replace(stored, rows, known.sizes, term, weight, used)
    for i in range(total):
        frequency[used + i] = known.frequency[i]
    insert(queue[0], queue[1], ends[0], ends[1], rows, times)
    return WRITTEN, total, forgotten


def plan_arrivals(
    batch: Batch, times: Ints, frame: Plain, window: Window, messages: Slots
) -> ArrivalPlan | None:
    """Resolve a batch: late rows, expiry, ids. Raises if an id is that of a live message when it arrives.

    None if a place is outside of the bounds of the frame.
    """
    ids, places = batch.ids, (batch["x"], batch["y"])
    keys = keys_of(ids, messages.seed)
    if messages.kind != ids.kind and are_inside(frame, *places):
        messages.find(ids, where="messages")  # raises, unless none has come so far
    row, time = window.rows(), window.times()
    register = messages.register()
    clash, *plan = _plan(
        times, places, frame, row, time, window.count, window.span, window.clock, register[0], register[1:6],
        keys,
    )  # fmt: skip
    if clash == OUTSIDE:
        return None
    if clash != FITS:
        raise live_id(ids, clash)
    late, leaving, staying, held, reused = plan
    expired = leaving + times.size - late - staying.size
    return ArrivalPlan(late, leaving, staying, held, reused, expired=expired)


def write_messages(
    batch: Batch, plan: ArrivalPlan, leaving: Rows, arrived: Ints, gain: Floats, window: Window,
    messages: Slots, terms: LiveTerms, texts: Vectors,
) -> Rows:  # fmt: skip
    """Write a planned batch into the slots, the window and the texts; returns the rows of what stays.

    Messages of rows `leaving` leave; `arrived` and `gain` are times and gains of the arrivals that stay.
    """
    staying, held, words = plan.staying, plan.held, batch["terms"]
    rows, cleared, former = np.empty(staying.size, np.int32), leaving, NO_ROWS
    dismissed = leaving[~np.isin(leaving, held)] if plan.reused else leaving
    if dismissed.size:
        messages._pending.append(dismissed)
    if messages.kind is None and staying.size:
        messages.make_room(select(batch.ids, staying))
    ids, given = keys_of(batch.ids, messages.seed), (batch["x"], batch["y"], gain, arrived)
    window.forget_ends(leaving)
    window.remove(np.concatenate([plan.ended, plan.taken]) if plan.ended.size else plan.taken)
    queue, ends = window.advance(plan.leaving, staying.size)
    while True:
        x = messages["x"]
        columns = (x, messages["y"], messages["gain"] if gain.size else x)
        done, total, forgotten = _write(
            (staying, held, plan.reused), (cleared, dismissed, former), ids, given,
            (words.starts, words.words.offsets, words.words.data), messages.register(), columns,
            *terms.for_kernels(), tuple(texts.texts), texts.frequency, texts.used, queue, ends, rows,
        )  # fmt: skip
        if done == WRITTEN:
            break
        if done == NO_IDS:
            if dismissed.size:
                hashing.dismiss_all(messages.register(), dismissed)
                dismissed = NO_ROWS
            messages.make_room(select(batch.ids, staying[held < 0]))
            texts.make_rows(messages["x"].size)
        elif done == NO_TEXTS:
            former, cleared = np.concatenate((former, texts.clear(cleared))), NO_ROWS
            texts.make_room(total)
        else:
            terms.make_room(words, staying)
    texts.used += total
    if forgotten.size:
        terms.slots._pending.append(forgotten)
    if plan.until.size or window.until.size:
        until = plan.until[staying] if plan.until.size else np.full(staying.size, LATEST)
        window.set_ends(rows, until, messages["x"].size)
    return rows


def has_ops(rows: Any) -> bool:
    """Whether rows have a column `op`. Cost: O(1) but for a list of dicts."""
    if type(rows) is list:
        return any(type(row) is not dict or "op" in row for row in rows)
    if type(rows) in (pa.Table, pa.RecordBatch):
        return "op" in rows.schema.names
    return type(rows) is not dict or "op" in rows


class Incoming(NamedTuple):
    """What a call does to the messages: arrivals and their times, the plan, times that move the clock.

    And the vocabulary that counts from then on, if it is another one.
    """

    batch: Batch
    plan: ArrivalPlan
    time: Ints
    moved: Ints
    vocabulary: Vocabulary | None = None


class Messages:
    """The messages of the window, by row.

    - Working out a call, which may raise: `publish`, `retract`, `advance`, `late`.
    - Carrying it out: `begin`, `gains`, `write`.
    - Snapshots: `parts`, `check_restored`.

    Attributes:
        slots, texts, window, decay, sources, copies, said: its parts.
        form: the columns of messages.
    """

    def __init__(
        self,
        frame: Frame,
        window: int | timedelta,
        half_life: timedelta | None,
        terms: LiveTerms,
        read: Callable[[Any, Form, str], Batch],
        *,
        edits: bool,
        everywhere: bool,
        analyzer: Analyzer | None,
        sources: Sources | None,
        distinct: bool,
        meanings: Meanings | None,
        ordered: bool,
    ) -> None:
        self._frame, self._plain_frame, self._terms, self._read = frame, tuple(frame), terms, read
        self._edits, self._everywhere, self.window = edits, everywhere, window_of(window)
        self._analyzer, self.meanings = analyzer, meanings
        dense = [] if meanings is None else [meanings.column()]
        alone = meanings is not None and meanings.alone
        words = word_column(analyzer, blank=alone, required=not alone)
        self.decay = decay_of(half_life, self.window)
        self.sources = sources
        columns: dict[str, Any] = {"x": np.float64, "y": np.float64}
        columns |= {} if self.decay is None else {"gain": np.float64}
        columns |= {} if sources is None else {SOURCE.name: np.int32}
        columns |= {COPY: np.int32} if distinct else {}
        self.slots = Slots(columns)
        self.copies = Copies(self.slots) if distinct else None
        self.texts, self.said = Vectors(), OrderedTerms() if ordered else None
        timed = self.window.span > 0
        self._op = lifetimes.op_column(timed=timed)
        named = [] if sources is None else [SOURCE]
        self._arrivals = Form(
            [ID, *PLACE, words, *dense, *named, *([TIME, lifetimes.UNTIL] if timed else [])]
        )
        self.form = Form([*self._arrivals, self._op, lifetimes.VOCABULARY, lifetimes.DOCUMENTS])

    def publish(self, rows: Any) -> Incoming:
        """A batch of messages."""
        batch, ops, vocabulary = self._rows(rows)
        window = self.window
        time = batch["time"] if window.span else np.zeros(batch.size, np.int64)
        if ops is None and not self._edits and not window.until.size and "until" not in batch:
            plan = plan_arrivals(batch, time, self._plain_frame, window, self.slots)
        else:
            plan = lifetimes.plan_changes(
                batch, ops, time, self._plain_frame, window, self.slots, edits=self._edits
            )
        if plan is None:
            read_places(batch, self._plain_frame, "messages")  # raises
            raise AssertionError("a place is outside of the bounds")
        if self.sources is not None:
            self.sources.check(batch)
        moved = time if ops is None else time[ops != lifetimes.RETRACT]
        return Incoming(batch, plan, time, moved, vocabulary)

    def retract(self, ids: Ids) -> Incoming:
        """Messages that are taken back."""
        taken = np.ascontiguousarray(self.slots.require(ids, where="ids"))
        plan = lifetimes.plan_leaving(self.window, self.window.clock, taken)
        return Incoming(self._nothing(), plan, NO_TIMES, NO_TIMES)

    def advance(self, time: Any) -> Incoming:
        """A time that the clock moves to."""
        if not self.window.span:
            raise InputError(
                "the window is a count of messages, which has no clock",
                where="advance",
                expected="an engine whose window is a timedelta",
            )
        times = lifetimes.read_times(time, TIME)
        clock = max(self.window.clock, int(times.max(initial=EARLIEST)))
        return Incoming(self._nothing(), lifetimes.plan_leaving(self.window, clock, NO_ROWS), NO_TIMES, times)

    def late(self, rows: pa.Table) -> Ints:
        """Which messages of a table a time window is past when they come; none if they would be refused."""
        try:
            return lifetimes.late_rows(rows, self._op, TIME, self.window)
        except (InputError, KeyError):
            return NO_TIMES

    def begin(self, incoming: Incoming) -> tuple[Rows, Ints]:
        """Move the clock; returns the rows that leave by themselves, and the times of what stays."""
        _, plan, time, moved, _ = incoming
        window = self.window
        if window.span and moved.size:
            window.clock = max(window.clock, int(moved.max()))
        leaving = window.rows()[: plan.leaving].copy()
        if plan.ended.size:
            leaving = np.concatenate([leaving, plan.ended])
        return leaving, time if plan.staying.size == time.size else time[plan.staying]

    def rescale(self, arrived: Ints) -> float:
        """Where scores decay, rescale gains so that those of messages of these times are finite: by what."""
        factor = 1.0 if self.decay is None else self.decay.advance(arrived)
        if factor not in (0.0, 1.0):
            self.slots["gain"][:] *= factor
        return factor

    def show(self, incoming: Incoming, leaving: Rows, arrived: Ints) -> Shown | None:
        """Which messages are shown then, if copies are not; see `rankcast.geotext.copies`."""
        if self.copies is None:
            return None
        return self.copies.plan(incoming.batch, incoming.plan.staying, arrived, leaving, self.window)

    def write(self, incoming: Incoming, leaving: Rows, arrived: Ints, shown: Shown | None) -> Rows:
        """Write what comes, and let messages of rows `leaving` go; returns the rows of what stays."""
        gain = NO_GAINS if self.decay is None else self.decay.gains(arrived)
        batch, plan, _, _, _ = incoming
        former = None if self.sources is None else self.slots[SOURCE.name][leaving]
        texts = None if self.copies is None else self.slots[COPY][leaving]
        rows = write_messages(
            batch, plan, leaving, arrived, gain, self.window, self.slots, self._terms, self.texts
        )
        if self.said is not None:
            self.said.clear(leaving)
            self.said.hear(rows, batch["terms"], plan.staying, self._terms.slots)
        if self.meanings is not None and rows.size:
            vectors = batch[VECTOR][plan.staying]
            self.meanings.theirs.write(rows, vectors, np.ones(rows.size, np.bool_))
        if self.sources is not None and former is not None:
            names = batch.apart.get(SOURCE.name)
            self.slots[SOURCE.name][rows] = self.sources.arrive(names, plan.staying)
            self.sources.leave(former)
        if self.copies is not None and texts is not None and shown is not None:
            self.copies.write(shown, rows, arrived, texts, self.window)
        return rows

    def parts(self) -> dict[str, Part]:
        """The parts of its state by name."""
        parts: dict[str, Part] = {"message": self.slots, "window": self.window, "text": self.texts}
        if self.sources is not None:
            parts[SOURCE.name] = self.sources.slots
        if self.copies is not None:
            parts[COPY] = self.copies.slots
        if self.meanings is not None:
            parts["message_vector"] = self.meanings.theirs
        if self.said is not None:
            parts["said"] = self.said
        return parts if self.decay is None else {**parts, "decay": self.decay}

    def check_restored(self, live: Rows) -> None:
        """Refuse messages from a snapshot that do not fit together; see `integrity`."""
        for column in ("x", "y"):
            integrity.finite(self.slots[column][live], f"message.{column}")
        self.window.check_restored(live)
        if self.decay is not None:
            gain = self.slots["gain"][live]
            integrity.need(((gain > 1e-300) & (gain < 1e300)).all(), "message.gain", "is out of range")
            self.decay.check_restored(self.window.times()[-1:])
        if self.sources is not None:
            self.sources.check_restored(self.slots[SOURCE.name][live])
        if self.copies is not None:
            self.copies.check_restored(self.window.rows(), self.window.times())
        if self.meanings is not None:
            self.meanings.theirs.check_restored(live, "message_vector", blank=False)
        if self.said is not None:
            self.said.check_restored(live, self._terms.slots.used, phrases=False)
            rows = self.said.columns().begin.size
            integrity.need(live.max(initial=-1) < rows, "said.begin", "is too short")

    def _rows(self, rows: Any) -> tuple[Batch, Ints | None, Vocabulary | None]:
        """A batch of messages, what its rows do if they have a column that says so, and a vocabulary."""

        def take(given: Any) -> Batch:
            batch = self._read(given, self._arrivals, "messages")
            if self.meanings is not None:
                self.meanings.read(batch, "messages")
            if self._analyzer is not None and "text" in batch:
                batch.apart["terms"] = read_terms(batch, self._analyzer, "messages")
            elif "terms" not in batch:
                batch.apart["terms"] = no_terms(batch.size)
            if self._everywhere:
                batch.apart["terms"] = with_every(batch["terms"], np.ones(batch.size, np.bool_))
            return batch

        if not has_ops(rows):
            return take(rows), None, None
        inside = self._frame.west, self._frame.south
        return lifetimes.read_ops(rows, self._arrivals, self._op, take, inside)

    def _nothing(self) -> Batch:
        """A batch without rows."""
        ids = Ids(self.slots.kind or "int", NO_TIMES, np.zeros(1, np.int64), NO_TEXT)
        return Batch(0, {"id": ids, "x": NO_GAINS, "y": NO_GAINS, "terms": lifetimes.NO_TERMS})
