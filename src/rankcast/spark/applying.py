"""One batch of rows on an engine, in which any row may be refused without ending the batch.

The answer is that of `Engine.apply` over the calls that are left when refused rows are taken out. Which rows
are refused is known only as the calls are made, in order, each on what those before it did; so the calls are
offered one at a time, and what is left of a refused one is offered next.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from rankcast.core.engine import Command, Engine
from rankcast.core.lists import ListEngine
from rankcast.errors import InputError
from rankcast.geotext.window import TimeWindow
from rankcast.spark.keeping import Aside, Refusal, Run, mended, passed, runs
from rankcast.spark.roles import SEQ, Role
from rankcast.tables.readers import read_column
from rankcast.tables.schema import Column, Ints, Kind


class Kept(NamedTuple):
    """What a batch came to: the engine's answer and the rows set aside."""

    answer: pa.Table
    refused: list[Refusal]


def apply(
    engine: Engine,
    inputs: Mapping[str, pa.Table],
    roles: Sequence[Role],
    aside: Aside,
    *,
    clock: int | None = None,
    first: bool = False,
) -> Kept:
    """Apply the rows of all inputs in the order of their sequence numbers, as one batch.

    Args:
        engine: changed in place.
        inputs: by name, each ordered by its column of sequence numbers, if it has one.
        roles: the inputs of this engine.
        aside: takes the rows that are refused or late.
        clock: the highest sequence number that answers of this batch reflect in any case.
        first: answer with all results as they are at the end, not with what changed.
    """
    offer = _Offer(engine, runs(inputs, roles, aside), aside)
    answer = engine.apply(offer.commands(), refused=offer.refuse)
    if not isinstance(engine, ListEngine):
        return Kept(offer.matches(answer, clock), aside.rows)
    if first:
        answer = _entered(engine.results())
    seq = pa.repeat(pa.scalar(clock, pa.int64()), answer.num_rows)
    return Kept(answer.append_column("seq", seq), aside.rows)


def _entered(results: pa.Table) -> pa.Table:
    """Results as if all of them had just come about."""
    entered = pa.repeat("enter", results.num_rows)
    return results.append_column("op", entered).select(["subscription", "op", "item", "score", "rank"])


class _Offer:
    """The calls of a batch, offered to `Engine.apply` until each is accepted or has no rows left.

    An engine that answers event by event is passed events under their number among those accepted, so that
    the row of each is known even if ids come several times.
    """

    def __init__(self, engine: Engine, cut: Iterable[Run], aside: Aside) -> None:
        self._engine = engine
        self._cut = cut
        self._aside = aside
        self._numbered = not isinstance(engine, ListEngine)
        self._events: list[pa.Table] = []
        self._taken = 0
        self._error: InputError | None = None

    def commands(self) -> Iterator[Command]:
        """The calls, in order."""
        for whole in self._cut:
            waiting = deque([(whole, 0)])
            while waiting:
                run, tries = waiting.popleft()
                window = _time_window(self._engine) if run.call == "publish" else None
                self._error = _without_id(run) if self._numbered else None
                if self._error is None:
                    yield Command(run.call, self._rows(run))
                if self._error is not None:
                    waiting.extendleft(reversed(mended(run, tries, self._error, self._aside)))
                elif run.call == "publish":
                    self._accepted(run, window)

    def refuse(self, command: Command, error: InputError) -> None:
        """Take note that the engine has refused the last call."""
        self._error = error

    def matches(self, answer: pa.Table, clock: int | None) -> pa.Table:
        """The matches of all events under their own ids, with the sequence numbers that they reflect."""
        if not answer.num_rows:
            return answer.append_column("seq", pa.nulls(0, pa.int64()))
        events, at = pa.concat_tables(self._events), answer["event"]
        seq = events[SEQ].take(at) if SEQ in events.column_names else pa.nulls(len(at), pa.int64())
        seq = seq if clock is None else pc.max_element_wise(seq, clock)
        return answer.set_column(0, "event", events["id"].take(at)).append_column("seq", seq)

    def _rows(self, run: Run) -> pa.Table:
        rows = passed(run.call, run.rows)
        if not self._numbered or run.call != "publish":
            return rows
        numbers = pa.array(np.arange(self._taken, self._taken + rows.num_rows))
        return rows.set_column(rows.column_names.index("id"), "id", numbers)

    def _accepted(self, run: Run, window: TimeWindow | None) -> None:
        """Remember the events of a call; set those aside that the window was past when they came."""
        if self._numbered:
            self._events.append(
                run.rows.select([name for name in (SEQ, "id") if name in run.rows.column_names])
            )
            self._taken += run.rows.num_rows
        if window is not None:
            for row in _late(window, run.rows):
                late = InputError("is too late for the window", where="messages", column="time")
                self._aside.put(run, row, late)


def _without_id(run: Run) -> InputError | None:
    """What is wrong with events of which one has no id: the engine sees numbers instead."""
    if run.call != "publish" or not run.rows["id"].null_count:
        return None
    row = int(np.argmax(run.rows["id"].is_null().to_numpy()))
    return InputError("is null", where="events", column="id", row=row, expected=Kind.ID.value)


def _time_window(engine: Engine) -> TimeWindow | None:
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


def _late(window: TimeWindow, rows: pa.Table) -> list[int]:
    """The rows that the window was past when they came."""
    times: Ints = read_column(rows["time"], Column("time", Kind.TIME), "messages")
    late = np.flatnonzero(window.departures(times).arriving <= np.arange(times.size))
    return [int(row) for row in late]
