"""The front table: a task a row, our time, the best system beside it and the best plain program.

Made from the newest records of `rankcast.bench.cases.front`. Where somebody else is faster the row stays, and
its factor is below 1. How many systems took part stands behind the best one. A plain program may be our own
engine without what the row is about ("rankcast in one process").
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

from rankcast.bench import limits
from rankcast.bench.records import DIRTY, Measurement, Record

OURS, PLAIN = "rankcast", "Numba, "
GENERATED = " (generated)"  # behind a contender's name: data are made up, since the real ones are not here
HEADINGS = (
    "task",
    "size",
    "rankcast",
    "best peer (of)",
    "times faster",
    "best plain program",
    "times faster",
)
FURTHER = ("times the limit (must touch)", "memory")  # where a record of the machine's own rates is at hand
NUMBERS = ("times faster", "times the limit (must touch)", "memory")
_SCALES = ((1.0, "s"), (1e3, "ms"), (1e6, "µs"), (1e9, "ns"))
_SIZES = ((1e9, "GB"), (1e6, "MB"), (1e3, "kB"), (1.0, "B"))
_TASKS = {  # a task and its size
    "front.range": ("10 best of a range, batches of {batch:,}", "{subscriptions:,} ranges"),
    "front.matching": ("20 best subscriptions, {shape}", "{subscriptions:,}"),
    "front.geotext": (
        "{k} best of a window of {messages}",
        "{subscriptions:,} subscriptions, window of {window:,}",
    ),
    "front.covering": ("is it covered? {boxes} boxes, {attributes} attributes", "{first:,} boxes"),
    "front.nearest": (
        "10 nearest for cars, {side:,.0f} km, every {step} s",
        "{objects:,} objects, {cars:,} cars",
    ),
    "front.skyline": ("skyline for cars, {distribution}, every second", "{objects:,} objects, {cars:,} cars"),
    "front.spark-matching": (
        "Spark, 2 cores: best subscription, batches of {rows:,}",
        "{subscriptions:,} subscriptions",
    ),
    "front.spark-range": (
        "Spark, 2 cores: 10 best of a range, batches of {rows:,}",
        "{subscriptions:,} ranges",
    ),
}
_SHAPES = {
    "A": "intervals A (some match)",
    "B": "intervals B (many match)",
    "C": "intervals C (few match)",
    "dense 2": "boxes of 2 attributes, dense",
    "sparse 2": "boxes of 2 attributes, sparse",
    "dense 4": "boxes of 4 attributes, dense",
    "sparse 4": "boxes of 4 attributes, sparse",
}


_MESSAGES = {"synthetic": "messages", "reviews": "reviews"}


class Row(NamedTuple):
    """One task; a factor is the other's time a unit of work over ours; `systems` took part."""

    task: str
    size: str
    ours: str
    system: str
    system_factor: float | None
    plain: str
    plain_factor: float | None
    systems: int
    memory: int | None
    limit: float | None  # our time over the least that the machine allows
    touched: float | None  # bytes that a unit of work must read or write
    seconds: float  # ours a unit of work


def rows(records: Iterable[Record]) -> list[Row]:
    """The rows, by family and in the order in which they were measured."""
    order, known = list(_TASKS), list(records)
    chosen = [record for record in known if record.case in _TASKS]
    machine = limits.machine_of(known)
    return [_row(record, machine) for record in sorted(chosen, key=lambda each: order.index(each.case))]


def _row(record: Record, machine: Record | None) -> Row:
    given = {**record.parameters}
    if "shape" in given:
        given["shape"] = _SHAPES[given["shape"]]
    if "data" in given:
        given["messages"] = _MESSAGES[given["data"]]
    made_up = any(each.name.endswith(GENERATED) for each in record.contenders)
    contenders = [replace(each, name=each.name.removesuffix(GENERATED)) for each in record.contenders]
    ours = next(each for each in contenders if each.name == OURS)
    others = [each for each in contenders if each.name != OURS]
    plain = [each for each in others if each.name.startswith((PLAIN, OURS))]
    systems = [each for each in others if each not in plain]
    best, best_factor = _best(ours, systems)
    short, short_factor = _best(ours, plain)
    least = None if machine is None else limits.seconds(ours.counters, machine)
    task, size = (words.format(**given) for words in _TASKS[record.case])
    return Row(
        task + GENERATED * made_up, size, f"{_duration(_unit(ours))}/{record.unit}", best, best_factor,
        short.removeprefix(PLAIN), short_factor, len(systems), ours.bytes,
        _unit(ours) / least if least else None, limits.touched(ours.counters), _unit(ours),
    )  # fmt: skip


def _unit(measured: Measurement) -> float:
    return measured.median / measured.work


def _best(ours: Measurement, others: Sequence[Measurement]) -> tuple[str, float | None]:
    if not others:
        return "", None
    best = min(others, key=_unit)
    return best.name, _unit(best) / _unit(ours)


def _duration(seconds: float) -> str:
    factor, unit = next((scale for scale in _SCALES if seconds * scale[0] >= 1), _SCALES[-1])
    return f"{significant(seconds * factor)} {unit}"


def significant(value: float) -> str:
    """Three digits of a number."""
    return f"{value:,.0f}" if value >= 100 else f"{value:#.3g}".rstrip(".")


def headings(found: Sequence[Row]) -> tuple[str, ...]:
    """What stands above the cells of rows."""
    return (*HEADINGS, *FURTHER) if any(row.limit is not None for row in found) else HEADINGS


def cells(row: Row) -> tuple[str, ...]:
    """A row as it is shown, under `HEADINGS` and `FURTHER`."""
    told = f"{row.system} ({row.systems})" if row.systems else "none that ends"
    limit = "" if row.limit is None else significant(row.limit)
    if limit and row.touched is not None:
        limit += f" ({_bytes(row.touched)})"
    memory = "" if row.memory is None else _bytes(row.memory)
    factors = factor(row.system_factor), factor(row.plain_factor)
    return row.task, row.size, row.ours, told, factors[0], row.plain, factors[1], limit, memory


def factor(value: float | None) -> str:
    """How many times faster we are; below 1 also how many times slower.

    >>> factor(12.34), factor(0.5), factor(None)
    ('12.3', '0.500 (2.00 times slower)', '')
    """
    if value is None:
        return ""
    slower = "" if value > 1 else significant(1 / value)
    return significant(value) + (f" ({slower} times slower)" if slower not in ("", "1.00") else "")


def _bytes(value: float) -> str:
    scale, unit = next((each for each in _SIZES if value >= each[0]), _SIZES[-1])
    return f"{significant(value / scale)} {unit}"


def markdown(records: Sequence[Record]) -> str:
    """The table, a line a row, and whence it is; empty without records."""
    found = rows(records)
    if not found:
        return ""
    heads = headings(found)
    lines = [f"| {' | '.join(heads)} |", f"|{' --- |' * len(heads)}"]
    lines += [f"| {' | '.join(cells(row)[: len(heads)])} |" for row in found]
    return "\n".join([*lines, "", source(records)])


def source(records: Sequence[Record]) -> str:
    """Whence the figures are: machine, day and commit."""
    chosen = [record for record in records if record.case in _TASKS]
    machine = chosen[-1].machine
    commits = sorted(
        {
            (record.commit or "").removesuffix(DIRTY)[:10]
            + (DIRTY if (record.commit or "").endswith(DIRTY) else "")
            for record in chosen
        }
    )
    days = sorted({record.at[:10] for record in chosen})
    where = f"{machine['cpu']}, {machine['cores']} cores, {' and '.join(days)}, commit {', '.join(commits)}"
    return f"One thread each, two on Spark; {where}."
