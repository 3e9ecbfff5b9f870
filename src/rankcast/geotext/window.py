"""Windows over a stream of messages: which messages are late, which expire, when, and how scores decay.

A late message is ignored whatever its id: `plan_arrivals` finds late ones before anything changes. A message
is late if its time is out of the window as it was before its arrival (`TimeWindow`); in a window by count
none is.

A window is a queue of message rows in the order of expiry: by time, equal times by arrival. Expiring
messages are always its first ones. The newest is its last one and never expires, because a time window keeps
what is older than the newest by less than its span. Messages of a count window all have time 0, so their
order is that of arrival.

A batch is planned before it is applied: `departures` finds for every message the arrival that pushes it out,
`plan_arrivals` resolves late rows and ids, and `advance` moves the window to the end of the batch. Rows apply
in order: an arrival moves the window first, and then its id must not be that of a live message. So an id may
be used again in one batch, once the message that had it has expired.

Where scores decay they halve with every half-life. All messages decay alike, so the order of two messages
never changes (forward decay): messages rank by score times gain, where the gain doubles with every half-life
of the message's own time. A gain is a number from 1 to 2, which depends on the time alone, times a power of
two from a landmark on. Moving the landmark multiplies all gains by a power of two, which is exact, so ranks
and ties do not depend on it.

Cost: O(m log w) to plan m arrivals in a window of w; `advance` moves what expires, what arrives, and the held
messages that are newer than the oldest arrival (none if messages come in order of time). Memory: 12 bytes a
message, 8 more where scores decay, and a quarter more of the largest window at the end of a batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple, Self

import numpy as np
from numba import njit
from numpy.typing import NDArray

from rankcast.errors import InputError, SettingError, shown
from rankcast.geotext.kernels.score import Plain, TermVectors, are_inside, clear, replace
from rankcast.geotext.kernels.words import give_back, look_up, take
from rankcast.geotext.vocabulary import LiveTerms, Vectors
from rankcast.structures import hashing, integrity
from rankcast.structures.arrays import borrowed
from rankcast.structures.hashing import COUNT, FREE_COUNT, TEXT_USED, USED, KeyArrays, Keys, Register
from rankcast.structures.ids import Slots, keys_of, select, show
from rankcast.structures.jit import EXACT
from rankcast.tables import schema
from rankcast.tables.schema import Batch, Floats, Ints, Rows

# mypy: disallow-untyped-decorators=False

EARLIEST, LATEST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
_MICROSECOND = timedelta(microseconds=1)
FITS, OUTSIDE = -1, -2  # no arrival has the id of a live message; one is outside of the bounds


class Departures(NamedTuple):
    """When messages expire, as the place in the batch of the arrival that pushes them out.

    `held` is for the first messages of the queue, exactly those that expire in this batch. `arriving` is for
    each arrival: a place beyond the batch means that it stays, one not after its own that it is late.
    """

    held: Ints
    arriving: Ints


@njit(**EXACT)
def _first_from(clock: Ints, time: int) -> int:
    """The first place at which the clock has reached a time."""
    low, high = 0, clock.size
    while low < high:
        middle = (low + high) // 2
        if clock[middle] < time:
            low = middle + 1
        else:
            high = middle
    return low


@njit(**EXACT)
def _departures(times: Ints, queue: Ints, count: int, span: int) -> tuple[Ints, Ints]:
    """See `Window.departures`; `count` is 0 for a window by time. A sum beyond all times is never reached."""
    size, gone = times.size, np.empty(times.size, np.int64)
    if count > 0:
        room = count - queue.size
        held = np.empty(min(queue.size, max(0, size - room)), np.int64)
        for i in range(held.size):
            held[i] = room + i
        for i in range(size):
            gone[i] = count + i
        return held, gone
    clock, newest = np.empty(size, np.int64), queue[-1] if queue.size > 0 else EARLIEST
    for i in range(size):
        newest = max(newest, times[i])
        clock[i] = newest
    for i in range(size):
        gone[i] = _first_from(clock, times[i] + span) if times[i] <= LATEST - span else size
    leaving = 0
    if size > 0 and newest >= EARLIEST + span:
        leaving = int(np.searchsorted(queue, newest - span, side="right"))
    held = np.empty(leaving, np.int64)
    for i in range(leaving):
        held[i] = _first_from(clock, queue[i] + span)
    return held, gone


@njit(**EXACT)
def _holders_gone(holder: Rows, leaving: Rows, gone: Ints, size: int) -> Ints:
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
    table: Rows, stored: KeyArrays, keys: KeyArrays,
) -> tuple[int, int, int, Rows, Rows, int]:  # fmt: skip
    """The first arrival that has the id of a live message, `FITS` or `OUTSIDE`; then the fields of a plan."""
    if not are_inside(frame, places[0], places[1]):
        return OUTSIDE, 0, 0, row[:0], row[:0], 0
    gone_held, gone = _departures(times, time, count, span)
    holder, late, used = hashing.find(table, stored, keys), 0, 0
    until = _holders_gone(holder, row[: gone_held.size], gone_held, times.size)
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
NO_ROWS, NO_GAINS = np.empty(0, np.int32), np.empty(0)


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


class Window:
    """A queue of rows in the order of expiry; subclasses define when a message expires.

    Attributes:
        count: how many messages a window by count holds, else 0.
        span: nanoseconds of a window by time, else 0.
    """

    count = span = 0

    def __init__(self) -> None:
        self._row: Rows = np.zeros(8, np.int32)
        self._time: Ints = np.zeros(8, np.int64)
        self._first = self._end = 0

    def __len__(self) -> int:
        return self._end - self._first

    def departures(self, times: Ints) -> Departures:
        """When messages expire in a batch of arrivals with these times, in order; changes nothing."""
        return Departures(*_departures(times, self.times(), self.count, self.span))

    def rows(self) -> Rows:
        """The rows in the window in the order of expiry; valid until `advance`."""
        return self._row[self._first : self._end]

    def times(self) -> Ints:
        """Their times; valid until `advance`."""
        return self._time[self._first : self._end]

    def newest(self) -> int:
        """The newest time in the window, or the earliest there is."""
        return int(self._time[self._end - 1]) if self._end > self._first else EARLIEST

    def advance(self, leaving: int, arriving: int) -> tuple[tuple[Rows, Ints], tuple[int, int]]:
        """Drop the first `leaving` rows and make room for those that arrive and stay; for `insert`.

        Returns the arrays of the queue, and where it began and ended before those that arrive.
        """
        self._first += leaving
        self._make_room(arriving)
        end, self._end = self._end, self._end + arriving
        return (self._row, self._time), (self._first, end)

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The ends of the queue and its arrays."""
        return {"first": self._first, "end": self._end}, {"row": self._row, "time": self._time}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        size = arrays["row"].size if "row" in arrays else 0
        integrity.forms(arrays, {"row": (np.int32, (size,)), "time": (np.int64, (size,))})
        end = integrity.whole(header, "end", 0, size)
        first = integrity.whole(header, "first", 0, end)
        self._first, self._end, self._row, self._time = first, end, arrays["row"], arrays["time"]
        return self

    def check_restored(self, live: Rows) -> None:
        """Refuse a window from a snapshot that does not hold the `live` rows, in the order of expiry."""
        rows, times = self.rows(), self.times()
        integrity.need(np.array_equal(np.sort(rows), live), "row", "is not of the messages that are there")
        integrity.need((times[1:] >= times[:-1]).all(), "time", "does not ascend")

    def _make_room(self, size: int) -> None:
        """Make room for `size` more at the end: copy the queue to the front of arrays a quarter larger."""
        if self._end + size <= self._row.size:
            return
        held = len(self)
        room = (held + size) * 5 // 4 + 8
        row, time = np.zeros(room, np.int32), np.zeros(room, np.int64)
        row[:held], time[:held] = self.rows(), self.times()
        self._row, self._time, self._first, self._end = row, time, 0, held


class CountWindow(Window):
    """The last `count` messages: the arrival `count` after a message pushes it out; nothing is ever late."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def check_restored(self, live: Rows) -> None:
        """Refuse what `Window` refuses, and more than `count` messages."""
        super().check_restored(live)
        integrity.need(len(self) <= self.count, "row", f"has more than {self.count} messages")


class TimeWindow(Window):
    """The messages with `newest - span < time <= newest`; times and span are nanoseconds.

    A message expires at the first arrival that brings the newest time to its own plus the span. It is late if
    its time is out of the window as it was before its arrival.
    """

    def __init__(self, span: int) -> None:
        super().__init__()
        self.span = span


class ArrivalPlan(NamedTuple):
    """What a batch does to the window, worked out before anything changes."""

    late: int  # how many arrivals are ignored
    leaving: int  # how many held messages expire: the first ones of the window
    staying: Rows  # places in the batch of the arrivals that are in the window at its end
    held: Rows  # for each of them the row of the expiring message whose id it has, -1 if none
    reused: int  # how many have such a row


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
        times, places, frame, row, time, window.count, window.span, register[0], register[1:6], keys
    )
    if clash == OUTSIDE:
        return None
    if clash != FITS:
        raise InputError(
            f"is {show(ids, clash)}, which is that of a live message",
            where="messages",
            column="id",
            row=clash,
            expected="an id that no live message has",
        )
    return ArrivalPlan(*plan)


def write_messages(
    batch: Batch, plan: ArrivalPlan, leaving: Rows, arrived: Ints, gain: Floats, window: Window,
    messages: Slots, terms: LiveTerms, texts: Vectors,
) -> Rows:  # fmt: skip
    """Write a planned batch into the slots, the window and the texts; returns the rows of what stays.

    Messages of rows `leaving` expire; `arrived` and `gain` are times and gains of the arrivals that stay.
    """
    staying, held, words = plan.staying, plan.held, batch["terms"]
    rows, cleared, former = np.empty(staying.size, np.int32), leaving, NO_ROWS
    dismissed = leaving[~np.isin(leaving, held)] if plan.reused else leaving
    if dismissed.size:
        messages._pending.append(dismissed)
    if messages.kind is None and staying.size:
        messages.make_room(select(batch.ids, staying))
    ids, given = keys_of(batch.ids, messages.seed), (batch["x"], batch["y"], gain, arrived)
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
    return rows


def window_of(setting: object) -> Window:
    """The empty window that a setting describes: a count of messages or a `timedelta`."""
    if not isinstance(setting, timedelta):
        if not schema.is_whole(setting):
            raise SettingError(f"window is {shown(setting)}", expected="a count of messages or a timedelta")
        return CountWindow(schema.whole("window", setting))
    span = setting // _MICROSECOND * 1000
    if not 0 < span <= LATEST:
        raise SettingError(f"window is {setting}", expected="a timedelta above 0 and below 292 years")
    return TimeWindow(span)


MAX_HALF_LIVES = 256  # half-lives of a window, and of the newest message beyond the landmark


class Decay:
    """The gains of messages by their times, in nanoseconds."""

    def __init__(self, half_life: int) -> None:
        self._half_life = half_life
        self._landmark: int | None = None  # in half-lives

    def advance(self, times: Ints) -> float:
        """Move the landmark for arrivals of these times; returns the factor for all gains so far.

        It is 0 if all messages so far expire before any of these is compared with them.
        """
        if not times.size:
            return 1.0
        newest = int(times.max()) // self._half_life
        before = newest if self._landmark is None else self._landmark
        self._landmark = newest if newest > before + MAX_HALF_LIVES else before
        return 2.0 ** (before - self._landmark) if self._landmark <= before + 2 * MAX_HALF_LIVES else 0.0

    def gains(self, times: Ints) -> Floats:
        """The gains of messages that are in the window."""
        whole, part = np.divmod(times, self._half_life)
        return np.ldexp(np.exp2(part / self._half_life), (whole - (self._landmark or 0)).astype(np.int32))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The landmark."""
        return {"landmark": self._landmark}, {}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        integrity.forms(arrays, {})
        known = header["landmark"] is not None
        self._landmark = integrity.whole(header, "landmark", -integrity.MOST) if known else None
        return self

    def check_restored(self, newest: Ints) -> None:
        """Refuse a landmark from a snapshot that does not suit the newest time, if there is one."""
        for time in newest.tolist():
            behind = (
                MAX_HALF_LIVES + 1 if self._landmark is None else time // self._half_life - self._landmark
            )
            integrity.need(0 <= behind <= MAX_HALF_LIVES, "landmark", "is not that of the newest message")


def decay_of(half_life: object, window: Window) -> Decay | None:
    """The decay that a setting describes, None for none; it must suit the window."""
    if half_life is None:
        return None
    if not isinstance(half_life, timedelta) or half_life <= timedelta(0):
        raise SettingError(f"half_life is {shown(half_life)}", expected="a timedelta above 0, or None")
    if not isinstance(window, TimeWindow):
        raise SettingError(
            "half_life is set, but the window is a count", expected="a window that is a timedelta"
        )
    span = half_life // timedelta(microseconds=1) * 1000
    if window.span > MAX_HALF_LIVES * span:
        raise SettingError(
            f"half_life is {half_life}", expected=f"at least the window divided by {MAX_HALF_LIVES}"
        )
    return Decay(span)
