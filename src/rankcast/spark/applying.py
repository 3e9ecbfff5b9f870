"""One batch of calls on an engine, each of which may be refused without ending the batch.

`Engine.apply` ends at the first call that is refused. Here a refused call has changed nothing and the batch
goes on; the answer at the end is the net change over the calls that were accepted, as `Engine.apply` of those
alone would give.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any

import numpy as np
import pyarrow as pa

from rankcast.columns import Column, Ints, Kind, read_column
from rankcast.deltas import Changes
from rankcast.engines.base import Engine
from rankcast.engines.lists import ListEngine
from rankcast.errors import InputError
from rankcast.spark.roles import SEQ
from rankcast.windows import TimeWindow

Late = list[tuple[int, InputError]]


class Applied(ABC):
    """A batch under way."""

    @abstractmethod
    def call(self, name: str, rows: pa.Table, passed: pa.Table) -> Late:
        """Make one call with the columns `passed` of `rows`; say which rows came too late for a window.

        Raises:
            InputError: the engine refuses the call; nothing has changed.
        """

    @abstractmethod
    def answer(self, *, first: bool) -> pa.Table:
        """End the batch."""


def make(engine: Engine) -> Applied:
    """Begin a batch."""
    return _Lists(engine) if isinstance(engine, ListEngine) else _Matches(engine)


class _Lists(Applied):
    """A batch of an engine that keeps results: the net change of every result."""

    def __init__(self, engine: ListEngine) -> None:
        self._engine = engine
        self._steps: list[Changes] = []

    def call(self, name: str, rows: pa.Table, passed: pa.Table) -> Late:
        window = _time_window(self._engine) if name == "publish" else None
        self._steps.append(getattr(self._engine, f"_{name}")(passed))
        return [] if window is None else _late(window, passed)

    def answer(self, *, first: bool) -> pa.Table:
        net = self._engine._answer(self._engine._net(self._steps))
        if not first:
            return net
        results = self._engine.results()
        entered = pa.array(["enter"] * results.num_rows, pa.string())
        return results.append_column("op", entered).select(["subscription", "op", "item", "score", "rank"])


class _Matches(Applied):
    """A batch of an engine that answers event by event.

    Events are passed under their place in the batch, so that each match is told with the sequence number of
    its event, even if ids come several times.
    """

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._answers: list[pa.Table] = []

    def call(self, name: str, rows: pa.Table, passed: pa.Table) -> Late:
        if name != "publish":
            getattr(self._engine, name)(passed)
            return []
        ids = passed["id"]
        if ids.null_count:
            row = int(np.argmax(ids.is_null().to_numpy()))
            raise InputError("is null", where="events", column="id", row=row, expected=Kind.ID.value)
        places = pa.array(np.arange(passed.num_rows))
        found = self._engine.publish(passed.set_column(passed.column_names.index("id"), "id", places))
        at = found["event"]
        found = found.set_column(0, "event", ids.take(at))
        seq = rows[SEQ].take(at) if SEQ in rows.column_names else pa.nulls(len(at), pa.int64())
        self._answers.append(found.append_column("seq", seq))
        return []

    def answer(self, *, first: bool) -> pa.Table:
        if self._answers:
            return pa.concat_tables(self._answers)
        names = {"event": pa.int64(), "rank": pa.int64(), "subscription": pa.int64(), "score": pa.float64()}
        return pa.schema({**names, "seq": pa.int64()}).empty_table()


def _time_window(engine: ListEngine) -> TimeWindow | None:
    """The engine's window as far as lateness goes: its span, and the newest message alone."""
    header, arrays = engine.state()
    span = header["settings"].get("window")
    if not isinstance(span, dict):
        return None
    window = TimeWindow(span["microseconds"] * 1000)
    end = header["parts"]["window"]["end"]
    if end > header["parts"]["window"]["first"]:
        newest = np.asarray(arrays["window.time"][end - 1 : end])
        window.advance(0, np.zeros(1, np.int32), newest)
    return window


def _late(window: TimeWindow, rows: pa.Table) -> Late:
    """The rows that the window was past when they came."""
    times: Ints = read_column(rows["time"], Column("time", Kind.TIME), "messages")
    late = np.flatnonzero(window.departures(times).arriving <= np.arange(times.size))
    return [
        (int(row), InputError("is too late for the window", where="messages", column="time")) for row in late
    ]
