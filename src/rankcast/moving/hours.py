"""Objects in time: when each of them opens and closes, and the clock they go by.

An object takes part while `opens <= clock < closes`; a null is no bound on that side. The clock is the newest
time that came, by `advance` or in a column `time` of objects, and never goes back; before the first of them
it is earlier than every time. An object that is closed stays until it is removed: it may be given new hours.

Times are nanoseconds since 1970. As long as no object has hours there are no arrays; afterwards 16 bytes a
row. Those that turn first stand apart (`_soon`), so that a move of the clock looks at a few, not at all.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Self

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.errors import InputError
from rankcast.structures import integrity
from rankcast.structures.arrays import grown
from rankcast.structures.ids import Slots
from rankcast.tables import read
from rankcast.tables.schema import NO_TIME, Batch, Bools, Column, Form, Ints, Kind, Rows

ALWAYS, NEVER = NO_TIME, int(np.iinfo(np.int64).max)  # opens, closes of an object without
TIME = Column("time", Kind.TIME)
CLOCK = Form([TIME])
COLUMNS = tuple(
    Column(name, Kind.TIME, required=False, nullable=True) for name in ("opens", "closes", "time")
)
SOON = 1024  # objects that turn first and stand apart
NO_ROWS = np.empty(0, np.int32)


def columns(over: list[str]) -> list[Column]:
    """The optional columns of objects; an attribute that is called so is an attribute."""
    return [column for column in COLUMNS if column.name not in over]


def read_time(time: Any) -> int:
    """The time of a call of `advance`: one, or the latest of a table with a column `time`."""
    tabular = isinstance(time, dict | list | pa.Table | pa.RecordBatch) or hasattr(time, "columns")
    times = read.read(time if tabular else {"time": [time]}, [TIME], where="advance")["time"]
    return int(times.max(initial=NO_TIME))


def given_hours(batch: Batch, over: list[str]) -> tuple[Ints, Ints, int]:
    """The hours of objects that come, checked, and the newest time among them."""
    held = {
        name: batch[name] if name in batch and name not in over else np.full(batch.size, NO_TIME)
        for name in ("opens", "closes", "time")
    }
    opens = held["opens"]
    closes = np.where(held["closes"] == NO_TIME, NEVER, held["closes"])
    wrong = closes <= opens
    if wrong.any():
        row = int(np.argmax(wrong))
        raise InputError(
            "is not after its opens", where="objects", column="closes", row=row, expected="a later time"
        )
    return opens, closes, int(held["time"].max(initial=NO_TIME))


class Hours:
    """The hours of objects by row, and the clock.

    - Changing: `put`, `forget`, `move`.
    - Reading: `open`, `turning`, `next_turn`, `told`.
    - Snapshots: `state`, `restore`, `check_restored`.
    """

    def __init__(self) -> None:
        self.clock = NO_TIME
        self.opens: Ints = np.empty(0, np.int64)
        self.closes: Ints = np.empty(0, np.int64)
        self._soon = NO_ROWS
        self._beyond = NO_TIME  # whatever turns before that is in `_soon`

    # Reading

    def open(self, rows: Rows, clock: int | None = None) -> Bools:
        """Which objects are open, now or when the clock is there."""
        found = np.ones(rows.size, np.bool_)
        if not self.opens.size:
            return found
        known = np.flatnonzero(rows < self.opens.size)
        found[known] = self._is_open(rows[known], self.clock if clock is None else clock)
        return found

    def differ(self, rows: Rows, opens: Ints, closes: Ints) -> Bools:
        """Which objects have other hours than these."""
        if not self.opens.size:
            found: Bools = (opens != ALWAYS) | (closes != NEVER)
            return found
        held = self.of(rows)
        return np.asarray((held[0] != opens) | (held[1] != closes))

    def of(self, rows: Rows) -> tuple[Ints, Ints]:
        """The hours of objects."""
        opens, closes = np.full(rows.size, ALWAYS), np.full(rows.size, NEVER)
        known = np.flatnonzero((rows < self.opens.size) & (rows >= 0))
        opens[known], closes[known] = self.opens[rows[known]], self.closes[rows[known]]
        return opens, closes

    def turning(self, clock: int) -> tuple[Rows, Rows]:
        """The objects that close, and those that open, as the clock moves on to a time."""
        if clock <= self.clock or not self.opens.size:
            return NO_ROWS, NO_ROWS
        due = self._due(clock)
        before, after = self._is_open(due, self.clock), self._is_open(due, clock)
        return due[before & ~after], due[~before & after]

    def next_turn(self) -> int:
        """When an object opens or closes next; the latest time if none does."""
        if not self.opens.size:
            return NEVER
        self._due(self.clock)
        if not self._soon.size and self._beyond < NEVER:
            self._due(self._beyond)
        return int(self._next(self._soon).min(initial=NEVER))

    def told(self, rows: Rows) -> dict[str, pa.Array]:
        """The hours of objects as columns."""
        kind = pa.timestamp("ns", "UTC")
        return {
            name: pa.array(times, pa.int64(), mask=times == none).cast(kind)
            for name, times, none in zip(("opens", "closes"), self.of(rows), (ALWAYS, NEVER), strict=True)
        }

    def _is_open(self, rows: Rows, clock: int) -> Bools:
        closes = self.closes[rows]
        found: Bools = (self.opens[rows] <= clock) & ((clock < closes) | (closes == NEVER))
        return found

    def _next(self, rows: Rows) -> Ints:
        """When objects turn next."""
        opens, closes = self.opens[rows], self.closes[rows]
        return np.where(self.clock < opens, opens, np.where(self.clock < closes, closes, NEVER))

    def _due(self, clock: int) -> Rows:
        """The objects that turn up to a time."""
        if clock >= self._beyond and self._beyond < NEVER:
            rows = np.flatnonzero((self.opens > ALWAYS) | (self.closes < NEVER)).astype(np.int32)
            turns = self._next(rows)
            beyond = int(np.partition(turns, SOON)[SOON]) if rows.size > SOON else NEVER
            if clock >= beyond:  # so many turn now
                beyond = min(clock + 1, NEVER)
            self._soon = rows[turns < beyond]
            self._beyond = beyond  # last: what breaks off before is done again
        soon = np.unique(self._soon)
        turns = self._next(soon)
        self._soon = soon[turns < self._beyond]
        return soon[turns <= clock]

    # Changing

    def put(self, rows: Rows, opens: Ints, closes: Ints) -> None:
        """Set the hours of objects, new or not."""
        if not self.opens.size and (opens == ALWAYS).all() and (closes == NEVER).all():
            return
        top = int(rows.max(initial=-1)) + 1
        if top > self.opens.size:
            length = max(top, 2 * self.opens.size, 16)
            self.opens, self.closes = grown(self.opens, length, ALWAYS), grown(self.closes, length, NEVER)
        self.opens[rows], self.closes[rows] = opens, closes
        if self._soon.size + rows.size > 8 * SOON:  # find them anew when they are needed
            self._soon, self._beyond = NO_ROWS, NO_TIME
        else:
            self._soon = np.concatenate([self._soon, rows[self._next(rows) < self._beyond]])

    def forget(self, rows: Rows) -> None:
        """Objects go: whoever gets their rows has no hours."""
        rows = rows[rows < self.opens.size]
        self.opens[rows], self.closes[rows] = ALWAYS, NEVER

    def move(self, clock: int) -> None:
        """Set the clock."""
        if clock < self.clock:  # back: a call has failed
            self._soon, self._beyond = NO_ROWS, NO_TIME
        self.clock = clock

    # Snapshots

    def state(self) -> tuple[dict[str, Any], dict[str, NDArray[Any]]]:
        """The small state and the arrays."""
        return {"clock": self.clock}, {"opens": self.opens, "closes": self.closes}

    def restore(self, header: Mapping[str, Any], arrays: Mapping[str, NDArray[Any]]) -> Self:
        """Take over what `state` returned."""
        size = arrays["opens"].size if "opens" in arrays else 0
        integrity.forms(arrays, dict.fromkeys(("opens", "closes"), (np.int64, (size,))))
        self.clock = integrity.whole(header, "clock", NO_TIME, NEVER)
        self.opens, self.closes = arrays["opens"], arrays["closes"]
        return self

    def check_restored(self, live: Bools) -> None:
        """Refuse hours of objects that are not there, or that never open."""
        integrity.need((self.opens < self.closes).all(), "closes", "is not after opens")
        hours = (self.opens > ALWAYS) | (self.closes < NEVER)
        size = min(live.size, hours.size)
        gone = hours[size:].any() or (hours[:size] & ~live[:size]).any()
        integrity.need(not gone, "opens", "is of objects that are not there")


class ObjectSlots(Slots):
    """Objects with a place and attributes, and with hours; `present` are those that take part."""

    def __init__(self, attributes: int, axes: tuple[str, ...]) -> None:
        place = dict.fromkeys(axes, np.float64)
        super().__init__({**place, "attributes": (np.float64, attributes)}, ordered=True)
        self.hours = Hours()

    @property
    def present(self) -> Bools:
        """By row, whether there is an object, and it is open."""
        found: Bools = self["sequence"] >= 0
        hours = self.hours
        if hours.opens.size:
            size = min(found.size, hours.opens.size)
            found[:size] &= hours._is_open(np.arange(size, dtype=np.int32), hours.clock)
        return found
