"""The messages of an engine: how they are read, and what a call does to the window before results follow.

`Messages` owns slots, texts, window and decay. A call becomes an `Incoming`, worked out before anything
changes (`rankcast.geotext.arrivals`, `rankcast.geotext.lifetimes`); `advance` and `write` then carry it out.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast.core.engine import ID, Part
from rankcast.errors import InputError
from rankcast.geotext import lifetimes
from rankcast.geotext.arrivals import ArrivalPlan, plan_arrivals, write_messages
from rankcast.geotext.kernels.score import Frame
from rankcast.geotext.places import PLACE, read_places
from rankcast.geotext.vocabulary import TERMS, LiveTerms, Vectors
from rankcast.geotext.window import EARLIEST, NO_GAINS, NO_ROWS, NO_TIMES, decay_of, window_of
from rankcast.structures import integrity
from rankcast.structures.ids import Slots
from rankcast.tables.readers import read_column
from rankcast.tables.schema import NO_TEXT, Batch, Column, Form, Ids, Ints, Kind, Rows

TIME = Column("time", Kind.TIME)


class Incoming(NamedTuple):
    """What a call does to the messages: arrivals and their times, the plan, times that move the clock."""

    batch: Batch
    plan: ArrivalPlan
    time: Ints
    moved: Ints


class Messages:
    """The messages of the window, by row.

    - Working out a call, which may raise: `publish`, `retract`, `advance`, `late`.
    - Carrying it out: `begin`, `gains`, `write`.
    - Snapshots: `parts`, `check_restored`.

    Attributes:
        slots, texts, window, decay: its parts.
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
    ) -> None:
        self._frame, self._plain_frame, self._terms, self._read = frame, tuple(frame), terms, read
        self._edits, self.window = edits, window_of(window)
        self.decay = decay_of(half_life, self.window)
        place = {"x": np.float64, "y": np.float64}
        self.slots = Slots(place if self.decay is None else {**place, "gain": np.float64})
        self.texts = Vectors()
        timed = self.window.span > 0
        self._op = lifetimes.op_column(timed=timed)
        self._arrivals = Form([ID, *PLACE, TERMS, *([TIME, lifetimes.UNTIL] if timed else [])])
        self.form = Form([*self._arrivals, self._op])

    def publish(self, rows: Any) -> Incoming:
        """A batch of messages."""
        batch, ops = self._rows(rows)
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
        return Incoming(batch, plan, time, time if ops is None else time[ops != lifetimes.RETRACT])

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
            if "op" in rows.schema.names:
                batch, ops = self._rows(rows)
                return lifetimes.late_rows(batch, ops, batch["time"], self.window)
            times = read_column(rows["time"], TIME, "messages")
            ends = {}
            if "until" in rows.schema.names:
                ends["until"] = read_column(rows["until"], lifetimes.UNTIL, "messages")
            return lifetimes.late_rows(Batch(times.size, ends), None, times, self.window)
        except (InputError, KeyError):
            return NO_TIMES

    def begin(self, incoming: Incoming) -> tuple[Rows, Ints]:
        """Move the clock; returns the rows that leave by themselves, and the times of what stays."""
        _, plan, time, moved = incoming
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

    def write(self, incoming: Incoming, leaving: Rows, arrived: Ints) -> Rows:
        """Write what comes, and let messages of rows `leaving` go; returns the rows of what stays."""
        gain = NO_GAINS if self.decay is None else self.decay.gains(arrived)
        batch, plan, _, _ = incoming
        return write_messages(
            batch, plan, leaving, arrived, gain, self.window, self.slots, self._terms, self.texts
        )

    def parts(self) -> dict[str, Part]:
        """The parts of its state by name."""
        parts: dict[str, Part] = {"message": self.slots, "window": self.window, "text": self.texts}
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

    def _rows(self, rows: Any) -> tuple[Batch, Ints | None]:
        """A batch of messages, and what its rows do if they have a column that says so."""

        def take(given: Any) -> Batch:
            return self._read(given, self._arrivals, "messages")

        if not lifetimes.has_ops(rows):
            return take(rows), None
        inside = self._frame.west, self._frame.south
        return lifetimes.read_ops(rows, self._arrivals, self._op, take, inside)

    def _nothing(self) -> Batch:
        """A batch without rows."""
        ids = Ids(self.slots.kind or "int", NO_TIMES, np.zeros(1, np.int64), NO_TEXT)
        return Batch(0, {"id": ids, "x": NO_GAINS, "y": NO_GAINS, "terms": lifetimes.NO_TERMS})
