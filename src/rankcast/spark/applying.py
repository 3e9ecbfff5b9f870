"""One batch of rows on an engine, in which any row may be refused without ending the batch.

The answer is that of `Engine.apply` over the calls that are left when refused rows are taken out. Which rows
are refused is known only as the calls are made, in order, each on what those before it did; so the parts of
an engine that `Engine.apply` runs are wrapped, for one batch, by ones that take bad rows out and try again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa

from rankcast import deltas
from rankcast.columns import Column, Ints, Kind, read_column
from rankcast.deltas import Changes
from rankcast.engines.base import Engine
from rankcast.engines.lists import ListEngine
from rankcast.errors import InputError
from rankcast.spark.keeping import Aside, Refusal, Run, TooManyError, keep, keep_all, passed, runs
from rankcast.spark.roles import SEQ, Role
from rankcast.windows import TimeWindow


class Kept(NamedTuple):
    """What a batch came to: the engine's answer and the rows set aside."""

    answer: pa.Table
    refused: list[Refusal]


class Step(NamedTuple):
    """One call that was accepted: its changes, the rows it had, and which of those came too late."""

    changes: Changes
    run: Run
    late: list[tuple[int, InputError]]


def apply(
    engine: Engine, inputs: Mapping[str, pa.Table], roles: Sequence[Role], *, first: bool, strict: bool
) -> Kept:
    """Apply the rows of all inputs in the order of their sequence numbers, as one batch.

    Args:
        engine: changed in place.
        inputs: by name, each ordered by its column of sequence numbers, if it has one.
        roles: the inputs of this engine.
        first: answer with all results as they are at the end, not with what changed.
        strict: raise at the first row that is refused or late.
    """
    aside = Aside(strict=strict)
    cut = list(runs(inputs, roles, aside))
    if not isinstance(engine, ListEngine):
        return Kept(_matches(engine, cut, aside), aside.rows)
    answer = _net(engine, cut, aside)
    return Kept(_entered(engine.results()) if first else answer, aside.rows)


def _entered(results: pa.Table) -> pa.Table:
    """Results as if all of them had just come about."""
    entered = pa.array(["enter"] * results.num_rows, pa.string())
    return results.append_column("op", entered).select(["subscription", "op", "item", "score", "rank"])


# Engines that keep results


def _net(engine: ListEngine, cut: list[Run], aside: Aside) -> pa.Table:
    """The net change of every result over the runs."""
    while True:
        try:
            with _mending(engine, cut, aside):
                return engine.apply([(run.call, run.rows) for run in cut])
        except TooManyError as error:  # only from a single run: nothing has changed yet
            cut = error.parts


@contextmanager
def _mending(engine: ListEngine, cut: list[Run], aside: Aside) -> Iterator[None]:
    """Let the parts of an engine take bad rows out of the runs, which they are asked for in order."""
    waiting = iter(cut)
    parts = {f"_{run.call}": getattr(engine, f"_{run.call}") for run in cut}
    for name, part in parts.items():
        vars(engine)[name] = _mended(engine, part, waiting, aside, alone=len(cut) == 1)
    try:
        yield
    finally:
        for name in parts:
            del vars(engine)[name]


def _mended(
    engine: ListEngine, part: Callable[[Any], Changes], waiting: Iterator[Run], aside: Aside, *, alone: bool
) -> Callable[[Any], Changes]:
    """A part that takes bad rows out; a run that is alone is handed back if it has too many."""

    def one(run: Run) -> Step:
        rows = passed(run.call, run.rows)
        window = _time_window(engine) if run.call == "publish" else None
        changes = part(rows)
        return Step(changes, run, [] if window is None else _late(window, rows))

    def all_of(_: Any) -> Changes:
        run = next(waiting)
        found = keep(run, aside, one) if alone else None
        steps = ([] if found is None else [found]) if alone else keep_all(run, aside, one)
        for step in steps:
            for place, error in step.late:
                aside.put(step.run.role, step.run.rows, place, error)
        if not steps:
            return deltas.no_changes()
        return steps[0].changes if len(steps) == 1 else engine._net([step.changes for step in steps])

    return all_of


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


def _late(window: TimeWindow, rows: pa.Table) -> list[tuple[int, InputError]]:
    """The rows that the window was past when they came."""
    times: Ints = read_column(rows["time"], Column("time", Kind.TIME), "messages")
    late = np.flatnonzero(window.departures(times).arriving <= np.arange(times.size))
    return [
        (int(row), InputError("is too late for the window", where="messages", column="time")) for row in late
    ]


# Engines that answer event by event


def _matches(engine: Any, cut: list[Run], aside: Aside) -> pa.Table:
    """The matches of all events, each with the sequence number of its event.

    Events are passed under their place, so that this is known even if ids come several times.
    """

    def one(run: Run) -> pa.Table | None:
        rows = passed(run.call, run.rows)
        if run.call != "publish":
            getattr(engine, run.call)(rows)
            return None
        ids = rows["id"]
        if ids.null_count:
            row = int(np.argmax(ids.is_null().to_numpy()))
            raise InputError("is null", where="events", column="id", row=row, expected=Kind.ID.value)
        places = pa.array(np.arange(rows.num_rows))
        found = engine.publish(rows.set_column(rows.column_names.index("id"), "id", places))
        at = found["event"]
        seq = run.rows[SEQ].take(at) if SEQ in run.rows.column_names else pa.nulls(len(at), pa.int64())
        return found.set_column(0, "event", ids.take(at)).append_column("seq", seq)

    answers = [found for run in cut for found in keep_all(run, aside, one) if found is not None]
    if answers:
        return pa.concat_tables(answers)
    names = {"event": pa.int64(), "rank": pa.int64(), "subscription": pa.int64(), "score": pa.float64()}
    return pa.schema({**names, "seq": pa.int64()}).empty_table()
