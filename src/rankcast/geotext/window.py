"""Windows over a stream of messages: which messages are late, which expire, when, and how scores decay.

A late message is ignored whatever its id: `plan_arrivals` finds late ones before anything changes. A message
is late if its time is out of the window as it was before its arrival (`TimeWindow`); in a window by count
none is.

A window is a queue of message rows in the order of expiry: by time, equal times by arrival. Expiring
messages are always its first ones, unless they have an end of their own or are taken back
(`rankcast.geotext.lifetimes`). The clock of a time window is the newest time that came, as a message or by
`advance`; it never goes back. Messages of a count window all have time 0, so their order is that of arrival.

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
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.structures.ids import show
from rankcast.structures.jit import EXACT
from rankcast.tables import schema
from rankcast.tables.schema import Floats, Ids, Ints, Rows

# mypy: disallow-untyped-decorators=False

EARLIEST, LATEST = int(np.iinfo(np.int64).min), int(np.iinfo(np.int64).max)
_MICROSECOND = timedelta(microseconds=1)
NO_ROWS, NO_TIMES, NO_GAINS = np.empty(0, np.int32), np.empty(0, np.int64), np.empty(0)
SOON = 4096  # messages with ends of their own that are looked at first


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
def departures(times: Ints, queue: Ints, count: int, span: int, newest: int) -> tuple[Ints, Ints]:
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
    clock = np.empty(size, np.int64)
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


class Window:
    """A queue of rows in the order of expiry; subclasses define when a message expires.

    Attributes:
        count: how many messages a window by count holds, else 0.
        span: nanoseconds of a window by time, else 0.
        clock: the newest time that came, or the earliest there is.
        until: by row, the end that a message has of its own, or the latest time there is; empty if none had.
    """

    count = span = 0

    def __init__(self) -> None:
        self._row: Rows = np.zeros(8, np.int32)
        self._time: Ints = np.zeros(8, np.int64)
        self._first = self._end = 0
        self.clock = EARLIEST
        self.until: Ints = np.empty(0, np.int64)
        # Not part of the state: the rows that end first, and a time before which no other does.
        self._soon, self._beyond = NO_ROWS, EARLIEST

    def __len__(self) -> int:
        return self._end - self._first

    def departures(self, times: Ints) -> Departures:
        """When messages expire in a batch of arrivals with these times, in order; changes nothing."""
        return Departures(*departures(times, self.times(), self.count, self.span, self.clock))

    def rows(self) -> Rows:
        """The rows in the window in the order of expiry; valid until `advance`."""
        return self._row[self._first : self._end]

    def times(self) -> Ints:
        """Their times; valid until `advance`."""
        return self._time[self._first : self._end]

    def newest(self) -> int:
        """The newest time of a message in the window, or the earliest there is."""
        return int(self._time[self._end - 1]) if self._end > self._first else EARLIEST

    def advance(self, leaving: int, arriving: int) -> tuple[tuple[Rows, Ints], tuple[int, int]]:
        """Drop the first `leaving` rows and make room for those that arrive and stay; for `insert`.

        Returns the arrays of the queue, and where it began and ended before those that arrive.
        """
        self._first += leaving
        self._make_room(arriving)
        end, self._end = self._end, self._end + arriving
        return (self._row, self._time), (self._first, end)

    def remove(self, rows: Rows) -> None:
        """Take messages out, wherever they are. Cost: O(w) a call to find them."""
        if not rows.size:
            return
        held, first, end = self.rows(), self._first, self._end
        if rows.size > 1:
            stays = ~np.isin(held, rows)
            kept = held[stays], self.times()[stays]
            self._first = end - kept[0].size
            self._row[self._first : end], self._time[self._first : end] = kept
            return
        at = first + int(np.flatnonzero(held == rows[0])[0])
        behind = end - at < at - first
        self._first, self._end = (first, end - 1) if behind else (first + 1, end)
        for column in (self._row, self._time):
            if behind:
                column[at : end - 1] = column[at + 1 : end].copy()
            else:
                column[first + 1 : at + 1] = column[first:at].copy()

    def set_ends(self, rows: Rows, until: Ints, capacity: int) -> None:
        """Note the ends that messages have of their own; for all that come once one had one."""
        if until.size and (self.until.size or (until < LATEST).any()):
            if self.until.size < capacity:
                self.until = grown(self.until, capacity, LATEST)
            self.until[rows] = until
            first = rows[until < self._beyond]
            if first.size:
                self._soon = np.concatenate([self._soon, first])

    def forget_ends(self, rows: Rows) -> None:
        """Messages of rows leave."""
        if self.until.size:
            self.until[rows] = LATEST

    def ending(self, clock: int) -> Rows:
        """The rows of messages whose own ends the clock reaches.

        Those that end first stand apart, so that not all are looked at in every call.
        """
        if clock >= self._beyond:
            rows = self.rows()
            ends = self.until[rows]
            last = ends.size - 1
            beyond = int(np.partition(ends, SOON)[SOON]) if last >= SOON else LATEST
            if clock >= beyond:  # so many end now
                beyond = min(clock + 1, LATEST)
            self._soon = rows[ends < beyond]
            self._beyond = beyond  # last: what breaks off before is done again
        self._soon = np.unique(self._soon[self.until[self._soon] < LATEST])  # without those that are gone
        return self._soon[self.until[self._soon] <= clock]

    def next_end(self) -> int:
        """When the clock of a window by time reaches the end of a message next; the latest time if never."""
        if not self.span or not len(self):
            return LATEST
        oldest, found = int(self.times()[0]), LATEST
        if oldest <= LATEST - self.span:
            found = oldest + self.span
        if self.until.size:
            self.ending(self.clock)
            if not self._soon.size and self._beyond < LATEST:
                self.ending(self._beyond)
            found = min(found, int(self.until[self._soon].min(initial=LATEST)))
        return found

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The ends of the queue, the clock, and the arrays."""
        header = {"first": self._first, "end": self._end}
        if self.span:
            header["clock"] = self.clock
        own = {"until": self.until} if self.until.size else {}
        return header, {"row": self._row, "time": self._time, **own}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        size = arrays["row"].size if "row" in arrays else 0
        forms: dict[str, integrity.Form] = {"row": (np.int32, (size,)), "time": (np.int64, (size,))}
        if "until" in arrays:
            forms["until"] = (np.int64, (None,))
            self.until = arrays["until"]
        integrity.forms(arrays, forms)
        end = integrity.whole(header, "end", 0, size)
        first = integrity.whole(header, "first", 0, end)
        self._first, self._end, self._row, self._time = first, end, arrays["row"], arrays["time"]
        self.clock = self.newest()  # of states of before there was a clock
        if "clock" in header:
            self.clock = integrity.whole(header, "clock", EARLIEST, LATEST)
        return self

    def check_restored(self, live: Rows) -> None:
        """Refuse a window from a snapshot that does not hold the `live` rows, in the order of expiry."""
        rows, times = self.rows(), self.times()
        integrity.need(np.array_equal(np.sort(rows), live), "row", "is not of the messages that are there")
        integrity.need((times[1:] >= times[:-1]).all(), "time", "does not ascend")
        if self.span:
            integrity.need(self.clock >= self.newest(), "clock", "is before the newest message")
        if self.until.size:
            integrity.need(live.max(initial=-1) < self.until.size, "until", "is too short")

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
            integrity.need(abs(behind) <= MAX_HALF_LIVES, "landmark", "is not that of the newest message")


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


def live_id(ids: Ids, row: int) -> InputError:
    """What is to be said of an arrival with the id of a live message."""
    return InputError(
        f"is {show(ids, row)}, which is that of a live message",
        where="messages",
        column="id",
        row=row,
        expected="an id that no live message has",
    )
