"""A batch of messages: planned before anything changes, then written into slots, window and texts.

A batch is planned before it is applied: `departures` finds for every message the arrival that pushes it out,
`plan_arrivals` resolves late rows and ids, and `advance` moves the window to the end of the batch. Rows apply
in order: an arrival moves the window first, and then its id must not be that of a live message. So an id may
be used again in one batch, once the message that had it has expired.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numba import njit

from rankcast.errors import InputError
from rankcast.geotext.kernels.score import Plain, TermVectors, are_inside, clear, replace
from rankcast.geotext.kernels.words import give_back, look_up, take
from rankcast.geotext.vocabulary import LiveTerms, Vectors
from rankcast.geotext.window import LATEST, NO_ROWS, NO_TIMES, Window, departures
from rankcast.structures import hashing
from rankcast.structures.arrays import borrowed
from rankcast.structures.hashing import COUNT, FREE_COUNT, TEXT_USED, USED, KeyArrays, Keys, Register
from rankcast.structures.ids import Slots, keys_of, select, show
from rankcast.structures.jit import EXACT
from rankcast.tables.schema import Batch, Floats, Ids, Ints, Rows

# mypy: disallow-untyped-decorators=False

FITS, OUTSIDE = -1, -2  # no arrival has the id of a live message; one is outside of the bounds


@njit(**EXACT)
def holders_gone(holder: Rows, leaving: Rows, gone: Ints, size: int) -> Ints:
    """The arrival at which the messages of rows expire; `size` if they stay, -1 for no row."""
    found, known = np.empty(holder.size, np.int64), 0
    for i in range(holder.size):
        found[i] = size if holder[i] >= 0 else -1
        known += holder[i] >= 0
    if known > 0 and leaving.size > 0:
        order = np.argsort(leaving)
        for i in range(holder.size):
            low, high = 0, leaving.size - 1
            while low < high:
                middle = (low + high) // 2
                if leaving[order[middle]] < holder[i]:
                    low = middle + 1
                else:
                    high = middle
            if leaving[order[low]] == holder[i]:
                found[i] = gone[order[low]]
    return found


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
    vectors: Plain, used: int, queue: tuple[Rows, Ints], ends: tuple[int, int], rows: Rows,
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
    insert(queue[0], queue[1], ends[0], ends[1], rows, times)
    return WRITTEN, total, forgotten


class ArrivalPlan(NamedTuple):
    """What a batch does to the window, worked out before anything changes."""

    late: int  # how many arrivals are ignored
    leaving: int  # how many held messages expire: the first ones of the window
    staying: Rows  # places in the batch of the arrivals that are in the window at its end
    held: Rows  # for each of them the row of the leaving message whose id it has, -1 if none
    reused: int  # how many have such a row
    ended: Rows = NO_ROWS  # held messages whose own end has come, beside the first ones
    taken: Rows = NO_ROWS  # held messages that are taken back
    until: Ints = NO_TIMES  # the ends of arrivals of their own, by place in the batch; empty: none has one
    expired: int = 0  # how many messages expire, if the plan is not of arrivals alone


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


def live_id(ids: Ids, row: int) -> InputError:
    """What is to be said of an arrival with the id of a live message."""
    return InputError(
        f"is {show(ids, row)}, which is that of a live message",
        where="messages",
        column="id",
        row=row,
        expected="an id that no live message has",
    )


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
            *terms.for_kernels(), tuple(texts.texts), texts.used, queue, ends, rows,
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
