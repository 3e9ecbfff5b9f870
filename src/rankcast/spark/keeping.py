"""The rows of one batch in order, cut into calls; what an engine refuses is set aside, the rest is kept.

An engine refuses a whole call; a stream must not stop for one bad row. So the rows, ordered by their sequence
number over all inputs (objects of moving queries first), are cut into runs that are each one call: same
input, same command, and no id twice, but in a run of events. A run that is refused is tried again without the
row that the error names. Cost: as many further tries as bad rows, each of them only checks; runs with many
are halved first, so b bad rows of n cost O(n log b) in checks, not O(n b).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from rankcast.errors import InputError, brief
from rankcast.spark.roles import OP, REASON, SEQ, Role
from rankcast.tables.schema import Bools

_ONLY_IDS = frozenset({"unsubscribe", "remove"})
_TRIES = 8  # bad rows taken out one by one before a run is halved
_SMALL = 32  # runs up to this size are not halved


class Refusal(NamedTuple):
    """A row that was set aside."""

    role: Role
    id: Any
    seq: int | None
    reason: str


class Run(NamedTuple):
    """Rows of one input, one behind the other there, that are one call."""

    role: Role
    call: str
    rows: pa.Table


class Aside:
    """Collects rows that are set aside; with `strict`, the first of them raises.

    Args:
        strict: whether to raise.
        told: whether to tell rows that every shard gets; another shard does otherwise.
    """

    def __init__(self, *, strict: bool, told: bool = True) -> None:
        self._strict = strict
        self._told = told
        self.rows: list[Refusal] = []

    def put(self, run: Run, row: int, error: InputError) -> None:
        """Set one row of a run aside."""
        if self._strict:
            raise error
        if not (run.role.divided or self._told):
            return
        rows = run.rows
        seq = rows[SEQ][row].as_py() if SEQ in rows.column_names else None
        name = rows["id"][row].as_py() if "id" in rows.column_names else None
        self.rows.append(Refusal(run.role, name, seq, error.what))


def mended(run: Run, tries: int, error: InputError, aside: Aside) -> list[tuple[Run, int]]:
    """What is left to try of a run that was refused, and how often each part of it was tried already.

    The row that the error names is set aside; after some tries, or if it names none, the rest is halved.
    """
    rows = run.rows
    place = 0 if rows.num_rows == 1 else error.row
    if place is not None:
        aside.put(run, place, error)
        rows = rows.take(pa.array(np.delete(np.arange(rows.num_rows), place)))
        tries += 1
        if tries < _TRIES or rows.num_rows <= _SMALL:
            return [(run._replace(rows=rows), tries)] if rows.num_rows else []
    half = (rows.num_rows + 1) // 2
    parts = [rows.slice(0, half), rows.slice(half)]
    return [(run._replace(rows=part), 0) for part in parts if part.num_rows]


def passed(call: str, rows: pa.Table) -> pa.Table:
    """The columns of rows that a call takes."""
    names = [name for name in rows.column_names if name not in (SEQ, OP, REASON)]
    if call in _ONLY_IDS:
        names = [name for name in names if name == "id"]
    elif call == "rescore":
        names = [name for name in names if name in ("id", "score") or name.endswith("_weight")]
    return rows.select(names)


def runs(inputs: Mapping[str, pa.Table], roles: Sequence[Role], aside: Aside) -> Iterator[Run]:
    """Cut all rows, in order, into runs."""
    parts = [(role, inputs[role.name]) for role in roles if role.name in inputs]
    commands = [_commands(role, rows, aside) for role, rows in parts]
    places = [np.flatnonzero(command >= 0) for command in commands]
    if not sum(place.size for place in places):
        return
    seq = np.concatenate([_seq(rows)[place] for (_, rows), place in zip(parts, places, strict=True)])
    source = np.repeat(np.arange(len(parts)), [place.size for place in places])
    row = np.concatenate(places)
    late = np.array([not role.early for role, _ in parts])[source]
    order = np.lexsort((row, source, seq, late))
    source, row = source[order], row[order]
    command = np.concatenate([each[place] for each, place in zip(commands, places, strict=True)])[order]
    new = (np.diff(source) != 0) | (np.diff(command) != 0) | (np.diff(row) != 1)
    starts = np.concatenate([[0], np.flatnonzero(new) + 1])
    for start, stop in zip(starts, [*starts[1:], row.size], strict=True):
        role, rows = parts[source[start]]
        call = role.calls[command[start]]
        yield from _once(Run(role, call, rows.slice(row[start], stop - start)))


def _seq(rows: pa.Table) -> NDArray[np.int64]:
    """Sequence numbers; rows without them come before all that have one."""
    if SEQ not in rows.column_names:
        return np.full(rows.num_rows, np.iinfo(np.int64).min)
    numbers: NDArray[np.int64] = rows[SEQ].fill_null(0).to_numpy()
    return numbers


def _commands(role: Role, rows: pa.Table, aside: Aside) -> NDArray[np.int64]:
    """Which of the role's calls each row is; -1 for rows that are set aside here."""
    command = np.zeros(rows.num_rows, np.int64)
    if OP in rows.column_names:
        found = pc.index_in(rows[OP], value_set=pa.array(role.calls))
        command = found.fill_null(-1).to_numpy().astype(np.int64)
    told_why = np.zeros(rows.num_rows, np.bool_)
    if REASON in rows.column_names and rows[REASON].null_count < rows.num_rows:
        told_why = rows[REASON].is_valid().to_numpy()
        for row in np.flatnonzero(told_why):
            aside.put(Run(role, "", rows), int(row), InputError(rows[REASON][int(row)].as_py()))
    if OP in rows.column_names:
        for row in np.flatnonzero((command < 0) & ~told_why):
            told = rows[OP][int(row)].as_py()
            what = "is null" if told is None else f'is "{brief(told)}"'
            expected = f"one of: {', '.join(role.calls)}"
            aside.put(Run(role, "", rows), int(row), _wrong(role, "op", what, expected))
    command[told_why] = -1
    if SEQ in rows.column_names and rows[SEQ].null_count:
        lacking: Bools = rows[SEQ].is_null().to_numpy() & (command >= 0)
        for row in np.flatnonzero(lacking):
            aside.put(Run(role, "", rows), int(row), _wrong(role, "seq", "is null", "a whole number"))
        command[lacking] = -1
    return command


def _wrong(role: Role, column: str, what: str, expected: str) -> InputError:
    return InputError(what, where=role.name, column=column, expected=expected)


def _once(run: Run) -> Iterator[Run]:
    """Cut a run where an id comes again, unless it is one of events."""
    ids = run.rows["id"].combine_chunks() if "id" in run.rows.column_names else pa.array([])
    if run.call == "publish" or len(ids) < 2 or pc.count_distinct(ids, mode="all").as_py() == len(ids):
        yield run
        return
    seen: set[Any] = set()
    start = 0
    for row, name in enumerate(ids.to_pylist()):
        if name in seen:
            yield run._replace(rows=run.rows.slice(start, row - start))
            start, seen = row, set()
        seen.add(name)
    yield run._replace(rows=run.rows.slice(start))
