"""How far a measurement is from what the machine allows.

Whatever an engine does, it must find each list or subscription that its answer names, which is in no cache,
and it must write the rows of its answer. The time for that alone, by the rates of the case `limits.machine`
in the same run, is the limit: reads that miss every cache, one behind the other, and rows written.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import pyarrow as pa
import pyarrow.compute as pc

from rankcast.bench.records import Record
from rankcast.core.engine import Engine

CASE = "limits.machine"
COPY, SCAN, MISS, ROWS = "copied bytes", "scanned intervals", "reads that miss", "written rows"
UNITS = {COPY: 1, SCAN: 16, MISS: 8, ROWS: 33}  # bytes of one
LINE = 64  # bytes that one read brings
NAMED, WRITTEN = "answer_records", "answer_rows"  # counters, a unit of work


def answered(answer: pa.Table, work: int) -> Mapping[str, float]:
    """What an answer names and how many rows it has, a unit of work, as counters."""
    names = "subscription" if "subscription" in answer.column_names else answer.column_names[0]
    return {
        NAMED: pc.count_distinct(answer.column(names)).as_py() / work,
        WRITTEN: answer.num_rows / work,
    }


def told(engine: Engine) -> Mapping[str, float]:
    """The same in running totals, of an engine whose answers are not at hand: each event names one list."""
    stats = engine.stats()
    return {NAMED: stats["events"], WRITTEN: stats["deltas"]}


def seconds(counters: Mapping[str, float], machine: Record) -> float | None:
    """The least seconds that a unit of work can take on a machine; None if its answer was not counted."""
    if NAMED not in counters or WRITTEN not in counters:
        return None
    rates = {each.name: each.median / each.work for each in machine.contenders}
    return counters[NAMED] * rates[MISS] + counters[WRITTEN] * rates[ROWS]


def touched(counters: Mapping[str, float]) -> float | None:
    """The bytes that a unit of work must read or write: a cache line for each list named, and its rows."""
    if NAMED not in counters or WRITTEN not in counters:
        return None
    return counters[NAMED] * LINE + counters[WRITTEN] * UNITS[ROWS]


def machine_of(records: Iterable[Record]) -> Record | None:
    """The newest record of the machine's own rates, of the largest size."""
    found = [record for record in records if record.case == CASE]
    return max(found, key=lambda record: (record.size == "full", record.at), default=None)
