"""Windows over a stream of messages: which messages leave, when, and in what order.

A window is a queue of message rows in the order in which they will leave: by time, equal times by arrival.
Those that leave are always its first ones. The newest is its last one and never leaves, because a time window
keeps what is older than the newest by less than its span. Messages of a count window all have time 0, so
there the order is that of arrival.

A batch is planned before it is applied: `departures` says for every message the arrival that pushes it out,
without changing anything, and `advance` then moves the window to the end of the batch. No loop over rows.

Cost: O(m log w) to plan m arrivals in a window of w; `advance` moves what leaves, what comes, and the held
messages that are newer than the oldest arrival (none if messages come in order of time).
Memory: 12 bytes a message, and a quarter more of what is held at once at the end of a batch.

Scores that fade with age: halved after every half-life, in an order that time does not change.

All messages fade alike, so what ranks first stays first (forward decay): messages are ranked by score times
gain, where the gain doubles with every half-life of the message's own time. A gain is a number from 1 to 2,
which depends on the time alone, times a power of two from a landmark on. Moving the landmark multiplies all
gains by a power of two, which is exact, so ranks and ties do not depend on it.

Memory: 8 bytes a message.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from datetime import timedelta
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from rankcast.errors import SettingError, shown
from rankcast.structures import integrity
from rankcast.tables import schema
from rankcast.tables.schema import Floats, Ints, Rows

EARLIEST, LATEST = np.iinfo(np.int64).min, np.iinfo(np.int64).max
_MICROSECOND = timedelta(microseconds=1)


class Departures(NamedTuple):
    """When messages leave, as the place in the batch of the arrival that pushes them out.

    `held` is for the first so many of the queue, exactly those that leave in this batch. `arriving` is for
    each arrival: a place beyond the batch means that it stays, one not after its own that it came too late.
    """

    held: Ints
    arriving: Ints


class Window(ABC):
    """A queue of rows in the order of leaving; subclasses say when they leave."""

    def __init__(self) -> None:
        self._row: Rows = np.zeros(8, np.int32)
        self._time: Ints = np.zeros(8, np.int64)
        self._first = self._end = 0

    def __len__(self) -> int:
        return self._end - self._first

    @abstractmethod
    def departures(self, times: Ints) -> Departures:
        """Plan a batch of arrivals with these times, in order; changes nothing."""

    def rows(self) -> Rows:
        """The rows in the window in the order in which they will leave; valid until `advance`."""
        return self._row[self._first : self._end]

    def times(self) -> Ints:
        """Their times; valid until `advance`."""
        return self._time[self._first : self._end]

    def advance(self, leaving: int, rows: Rows, times: Ints) -> None:
        """Let the first `leaving` go, and take in the rows that came and stay, in order of arrival."""
        self._first += leaving
        if not rows.size:
            return
        self._make_room(rows.size)
        overtaken = self._first + int(np.searchsorted(self.times(), times.min(), side="right"))
        end = self._end + rows.size
        late_times = np.concatenate([self._time[overtaken : self._end], times])
        late_rows = np.concatenate([self._row[overtaken : self._end], rows])
        order = np.argsort(late_times, kind="stable")
        self._time[overtaken:end], self._row[overtaken:end] = late_times[order], late_rows[order]
        self._end = end

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The ends of the queue and its arrays."""
        return {"first": self._first, "end": self._end}, {"row": self._row, "time": self._time}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        size = arrays["row"].size if "row" in arrays else 0
        integrity.forms(arrays, {"row": (np.int32, (size,)), "time": (np.int64, (size,))})
        end = integrity.whole(header, "end", 0, size)
        first = integrity.whole(header, "first", 0, end)
        self._first, self._end, self._row, self._time = first, end, arrays["row"], arrays["time"]
        return self

    def check_restored(self, live: Rows) -> None:
        """Refuse a window from a snapshot that does not hold the `live` rows, in the order of leaving."""
        rows, times = self.rows(), self.times()
        integrity.need(np.array_equal(np.sort(rows), live), "row", "is not of the messages that are there")
        integrity.need((times[1:] >= times[:-1]).all(), "time", "does not ascend")

    def _make_room(self, size: int) -> None:
        """Room for `size` more at the end: move the queue to the front of arrays a quarter larger than it."""
        if self._end + size <= self._row.size:
            return
        held = len(self)
        room = (held + size) * 5 // 4 + 8
        row, time = np.zeros(room, np.int32), np.zeros(room, np.int64)
        row[:held], time[:held] = self.rows(), self.times()
        self._row, self._time, self._first, self._end = row, time, 0, held


class CountWindow(Window):
    """The last `count` messages."""

    def __init__(self, count: int) -> None:
        super().__init__()
        self.count = count

    def check_restored(self, live: Rows) -> None:
        """Refuse what `Window` refuses, and more messages than there may be."""
        super().check_restored(live)
        integrity.need(len(self) <= self.count, "row", f"has more than {self.count} messages")

    def departures(self, times: Ints) -> Departures:
        """The arrival `count` after a message pushes it out; nothing is ever late."""
        room = self.count - len(self)
        leaving = min(len(self), max(0, times.size - room))
        return Departures(np.arange(leaving) + room, np.arange(times.size) + self.count)


class TimeWindow(Window):
    """The messages with `newest - span < time <= newest`; times and span are nanoseconds.

    A message is too late if its time is out of the window as it was before its arrival.
    """

    def __init__(self, span: int) -> None:
        super().__init__()
        self.span = span

    def departures(self, times: Ints) -> Departures:
        """A message goes with the first arrival that brings the newest time to its own plus the span."""
        if not times.size:
            return Departures(np.empty(0, np.int64), np.empty(0, np.int64))
        newest = self._time[self._end - 1] if len(self) else EARLIEST
        clock = np.maximum(np.maximum.accumulate(times), newest)
        oldest = int(clock[-1]) - self.span
        leaving = int(np.searchsorted(self.times(), oldest, side="right")) if oldest >= EARLIEST else 0
        return Departures(self._gone(self.times()[:leaving], clock), self._gone(times, clock))

    def _gone(self, times: Ints, clock: Ints) -> Ints:
        """The first place at which the clock reaches time + span; a sum beyond all times is never reached."""
        reachable = times <= LATEST - self.span
        place = np.searchsorted(clock, np.where(reachable, times, 0) + self.span, side="left")
        return np.where(reachable, place, clock.size)


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


MOST = 256  # half-lives of a window, and of the newest message beyond the landmark


class Decay:
    """The gains of messages by their times, in nanoseconds."""

    def __init__(self, half_life: int) -> None:
        self._half_life = half_life
        self._landmark: int | None = None  # in half-lives

    def advance(self, times: Ints) -> float:
        """Let there be messages of these times; returns what gains so far must be multiplied by.

        That is 0 if all messages so far leave the window before any of these is compared with them.
        """
        if not times.size:
            return 1.0
        newest = int(times.max()) // self._half_life
        before = newest if self._landmark is None else self._landmark
        self._landmark = newest if newest > before + MOST else before
        return 2.0 ** (before - self._landmark) if self._landmark <= before + 2 * MOST else 0.0

    def gains(self, times: Ints) -> Floats:
        """The gains of messages that are in the window."""
        whole, part = np.divmod(times, self._half_life)
        return np.ldexp(np.exp2(part / self._half_life), (whole - (self._landmark or 0)).astype(np.int32))

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The landmark."""
        return {"landmark": self._landmark}, {}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over a state that `state` gave."""
        integrity.forms(arrays, {})
        known = header["landmark"] is not None
        self._landmark = integrity.whole(header, "landmark", -integrity.MOST) if known else None
        return self

    def check_restored(self, newest: Ints) -> None:
        """Refuse a landmark from a snapshot that does not suit the newest time, if there is one."""
        for time in newest.tolist():
            behind = MOST + 1 if self._landmark is None else time // self._half_life - self._landmark
            integrity.need(0 <= behind <= MOST, "landmark", "is not that of the newest message")


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
    if window.span > MOST * span:
        raise SettingError(f"half_life is {half_life}", expected=f"at least the window divided by {MOST}")
    return Decay(span)
