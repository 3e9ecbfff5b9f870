"""The laws, one function each; what they run on, and how answers, results and states are compared."""

from __future__ import annotations

import copy
import math
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa

from rankcast.core.contract.spoilers import Spoiler
from rankcast.core.engine import Engine
from rankcast.core.spec import ENGINES, engine_type
from rankcast.errors import InputError
from rankcast.tables import deltas

Step = tuple[str, Any]
Make = Callable[[dict[str, Any]], Engine]
Plain = Callable[[Engine, list[dict[str, Any]]], list[dict[str, Any]]]


@dataclass(frozen=True)
class Workload:
    """Settings of an engine and a valid sequence of calls: (call, rows)."""

    settings: dict[str, Any] = field(default_factory=dict)
    steps: tuple[Step, ...] = ()


class Model(Protocol):
    """What an engine is compared with."""

    def call(self, name: str, rows: Any) -> list[dict[str, Any]] | None:
        """The expected answer of a call."""

    def results(self) -> list[dict[str, Any]] | None:
        """The expected results, None if the engine keeps none."""


@dataclass(frozen=True)
class Subject:
    """An engine under one variant."""

    family: str
    engine: type[Engine]
    variant: dict[str, Any]
    default: bool

    def make(self, settings: dict[str, Any]) -> Engine:
        """The engine with these settings."""
        return self.engine(**settings, **self.variant)

    def __str__(self) -> str:
        told = "-".join(str(value) for value in self.variant.values())
        return f"{self.family}[{told}]"


def subjects() -> Iterator[Subject]:
    """Every engine of the package under every variant it has; its first variant is the default."""
    for family, home in ENGINES.items():
        engine = engine_type(home)
        for place, variant in enumerate(engine.variants):
            yield Subject(family, engine, variant, place == 0)


class Reference:
    """Another engine as the model: by default the brute force of the same family."""

    def __init__(self, engine: Engine) -> None:
        self._engine = engine

    def call(self, name: str, rows: Any) -> list[dict[str, Any]] | None:
        """The other engine's answer."""
        return rows_of(getattr(self._engine, name)(rows))

    def results(self) -> list[dict[str, Any]] | None:
        """The other engine's results."""
        return results_of(self._engine)


def results_of(engine: Engine) -> list[dict[str, Any]] | None:
    """The results of an engine as rows, None if it keeps none."""
    return rows_of(engine.results()) if hasattr(engine, "results") else None


def rows_of(table: pa.Table | None) -> list[dict[str, Any]] | None:
    """A table as a list of rows."""
    return None if table is None else table.to_pylist()


def same_rows(
    found: list[dict[str, Any]] | None, expected: list[dict[str, Any]] | None, where: str, tolerance: float
) -> None:
    """Equal tables, row by row; scores may differ by the relative tolerance."""
    if found is None or expected is None:
        assert found is expected, f"{where}: {found}, expected {expected}"
        return
    for place, (one, other) in enumerate(zip(found, expected, strict=False)):
        assert _same_row(one, other, tolerance), f"{where}, row {place}: {one}, expected {other}"
    longer = found if len(found) > len(expected) else expected
    told = "not expected" if longer is found else "missing"
    assert len(found) == len(expected), f"{where}: {told}: {longer[min(len(found), len(expected)) :]}"


def _same_row(one: dict[str, Any], other: dict[str, Any], tolerance: float) -> bool:
    if one.keys() != other.keys():
        return False
    for name, value in one.items():
        twin = other[name]
        if isinstance(value, float) and isinstance(twin, float) and tolerance:
            if not math.isclose(value, twin, rel_tol=tolerance, abs_tol=tolerance):
                return False
        elif value != twin:
            return False
    return True


State = tuple[Any, dict[str, tuple[Any, bytes]]]


def frozen(engine: Engine) -> State:
    """The current state of an engine: header, and by name the type and the bytes of each array."""
    header, arrays = engine.state()
    return copy.deepcopy(header), {name: (array.dtype, array.tobytes()) for name, array in arrays.items()}


def _differing(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two headers differ, and how."""
    if isinstance(one, dict) and isinstance(other, dict):
        for key in {**one, **other}:
            yield from _differing(one.get(key), other.get(key), f"{path}.{key}")
    elif one != other:
        yield f"{path}: {one}, {other}"


def same_as(state: State, engine: Engine, where: str) -> None:
    """An engine has that state, to the last bit."""
    header, arrays = engine.state()
    assert header == state[0], f"{where}: the headers differ: {list(_differing(header, state[0]))}"
    assert arrays.keys() == state[1].keys(), f"{where}: the arrays differ in name"
    for name, array in arrays.items():
        kind, told = state[1][name]
        assert array.dtype == kind, f"{where}: {name} differs in type"
        assert array.tobytes() == told, f"{where}: {name} differs"


def same_state(engine: Engine, twin: Engine, where: str) -> None:
    """Two engines have the same state, to the last bit."""
    same_as(frozen(twin), engine, where)


class Run:
    """The answers and states of an engine: at the start, and after each step of a workload."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.results: list[Any] = []
        self._states: list[State] = []

    def note(self, engine: Engine, answer: pa.Table | None) -> None:
        """Record the engine's answer and current state."""
        self.answers.append(answer)
        self.results.append(engine.results() if hasattr(engine, "results") else None)
        self._states.append(frozen(engine))

    def after_steps(self) -> tuple[list[Any], list[Any]]:
        """Answers and results of the steps."""
        return self.answers[1:], self.results[1:]

    def same_before(self, place: int, engine: Engine, where: str) -> None:
        """Check that an engine is as this one was before a step."""
        same_as(self._states[place], engine, where)

    def same_after(self, place: int, engine: Engine, answer: Any, where: str) -> None:
        """Check that an engine has answered a step as this one did, and has the same state after it."""
        expected = self.answers[place + 1]
        assert answer is expected is None or answer.equals(expected), f"{where}: answered otherwise"
        same_as(self._states[place + 1], engine, where)


def follow(
    make: Make, model: Model, workload: Workload, *, tolerance: float = 0.0, plain: Plain | None = None
) -> None:
    """Run engine and model side by side and compare answers and results after every step.

    If several answers are right, `plain` checks the rows of one against the engine and makes all alike.
    """
    engine: Any = make(workload.settings)
    now = engine.results() if hasattr(engine, "results") else None
    for place, (call, rows) in enumerate(workload.steps):
        where = f"step {place}, {call}({rows})"
        given = copy.deepcopy(rows)
        before, answer = now, getattr(engine, call)(rows)
        assert rows == given, f"{where} modified its input"
        now = None if before is None else engine.results()
        found, expected = rows_of(answer), model.call(call, rows)
        if plain is not None and found is not None and expected is not None:
            found, expected = plain(engine, found), plain(engine, expected)
        same_rows(found, expected, f"answer of {where}", tolerance)
        same_rows(rows_of(now), model.results(), f"results after {where}", tolerance)
        if before is not None and answer is not None:
            _replays(engine, before, now, answer, where)


def _replays(engine: Engine, before: pa.Table, after: pa.Table, answer: pa.Table, where: str) -> None:
    """Deltas applied to the previous results give the new ones (for engines whose scores move: the items)."""
    held = deltas.replay(before, answer)
    now: dict[Any, dict[Any, float]] = {}
    for row in after.to_pylist():
        now.setdefault(row["subscription"], {})[row["item"]] = row["score"]
    if engine.scores_move:
        assert {s: set(items) for s, items in held.items()} == {s: set(items) for s, items in now.items()}, (
            where
        )
    else:
        assert held == now, f"deltas of {where} give {held}, results are {now}"


def run(make: Make, workload: Workload) -> Run:
    """Take the steps one after the other; the checks below take them in other ways."""
    engine, whole = make(workload.settings), Run()
    whole.note(engine, None)
    for call, rows in workload.steps:
        whole.note(engine, getattr(engine, call)(rows))
    return whole


def cut(make: Make, workload: Workload, whole: Run) -> None:
    """One batch of n rows and n batches of one row end in the same results."""
    single = make(workload.settings)
    for (call, rows), answer, results in zip(workload.steps, *whole.after_steps(), strict=True):
        parts = [getattr(single, call)(one) for one in slices(rows)]
        if results is None and call == "publish":
            joined = [row for part in parts for row in part.to_pylist()]
            assert joined == answer.to_pylist(), f"{call}({rows}) row by row answers otherwise"
        assert rows_of(results) == results_of(single), f"{call}({rows}) row by row ends otherwise"


def reload(make: Make, workload: Workload, whole: Run, folder: Path, at: int, **given: Any) -> None:
    """Save and load before step `at` and continue with the loaded engine; nothing must differ."""
    engine = make(workload.settings)
    for place, (call, rows) in enumerate(workload.steps):
        if place == at:
            engine.save(folder)
            engine = type(engine).load(folder, **given)
            whole.same_before(place, engine, f"loaded before {call}")
        whole.same_after(place, engine, getattr(engine, call)(rows), f"{call}({rows}) after loading")
    assert results_of(engine) == rows_of(whole.results[-1])


def refuse(make: Make, workload: Workload, spoilers: Sequence[Spoiler], at: int) -> None:
    """Each spoiled form of step `at` raises an `InputError` and leaves the engine as it was."""
    engine = make(workload.settings)
    for call, rows in workload.steps[:at]:
        getattr(engine, call)(rows)
    call, rows = workload.steps[at]
    if not isinstance(rows, dict | list):
        return  # a table of its own kind, which has no ids
    for spoil in spoilers:
        bad = spoil(call, rows)
        if bad is None:
            continue
        before = frozen(engine)
        try:
            getattr(engine, call)(bad.rows)
        except InputError as error:
            assert bad.column is None or f'"{bad.column}"' in str(error), (
                f"{error} does not name {bad.column}"
            )
            assert bad.row is None or f"row: {bad.row}" in str(error), f"{error} does not name row {bad.row}"
        else:
            raise AssertionError(f"{call}({bad.rows}) was accepted")
        same_as(before, engine, f"after the refused {call}({bad.rows})")


def net(make: Make, workload: Workload, whole: Run, start: int) -> None:
    """The steps from `start` on, applied as one batch, return the difference of the results."""
    engine = make(workload.settings)
    for call, rows in workload.steps[:start]:
        getattr(engine, call)(rows)
    answer = engine.apply(workload.steps[start:])
    before, after = whole.results[start], whole.results[-1]
    if before is not None:
        assert results_of(engine) == rows_of(after), "one batch of commands ends otherwise"
        _replays(engine, before, after, answer, f"apply({workload.steps[start:]})")
        _spare(engine, before, after, answer)


def _spare(engine: Engine, before: pa.Table, after: pa.Table, answer: pa.Table) -> None:
    """A net change names each pair once, reports no empty update, and has the current ranks."""
    old = {(row["subscription"], row["item"]): row["score"] for row in before.to_pylist()}
    new = {(row["subscription"], row["item"]): row for row in after.to_pylist()}
    told = answer.to_pylist()
    pairs = [(row["subscription"], row["item"]) for row in told]
    assert len(set(pairs)) == len(pairs), f"a pair comes twice in {told}"
    for pair, row in zip(pairs, told, strict=True):
        if row["op"] != "leave":
            assert (row["score"], row["rank"]) == (new[pair]["score"], new[pair]["rank"]), f"{row} is stale"
        if row["op"] == "update" and not engine.scores_move:
            assert old[pair] != row["score"], f"{row} is no update"


def divide(make: Make, workload: Workload, whole: Run, at: int, tolerance: float = 0.0) -> None:
    """An engine that is divided in two before step `at`, and joined again, continues like one that was not.

    Only the order of registration differs. Each half also continues like that one on its part.
    """
    engine: Any = make(workload.settings)
    if not hasattr(engine, "absorb") or type(engine).spec.undivided is not None:
        return
    for call, rows in workload.steps[:at]:
        getattr(engine, call)(rows)
    names = [row["id"] for row in pa.table({"id": engine.places(())[0]}).to_pylist()]
    halves = [_copy(engine), _copy(engine)]
    for place, half in enumerate(halves):
        half.unsubscribe(names[1 - place :: 2])
    joined = _copy(halves[0])
    joined.absorb(halves[1])
    held = whole.results[at].to_pylist()
    same_rows(_sorted(joined.results()), _sorted(held), "results of joined halves", tolerance)
    both = [row for half in halves for row in half.results().to_pylist()]
    same_rows(_sorted(both), _sorted(held), "results of both halves", tolerance)
    for place, (call, rows) in enumerate(workload.steps[at:], at):
        answer = getattr(joined, call)(rows)
        where = f"step {place}, {call}({rows}) of joined halves"
        same_rows(_sorted(answer), _sorted(whole.answers[place + 1]), f"answer of {where}", tolerance)
        same_rows(_sorted(joined.results()), _sorted(whole.results[place + 1]), where, tolerance)


def _copy(engine: Engine) -> Any:
    """A copy of the engine."""
    header, arrays = engine.state()
    return type(engine).restore(copy.deepcopy(header), {name: each.copy() for name, each in arrays.items()})


def _sorted(rows: Any) -> list[dict[str, Any]] | None:
    """Rows of a table in an order that does not depend on that of registration."""
    told = rows if rows is None or isinstance(rows, list) else rows.to_pylist()
    keys = ("subscription", "op", "item")
    return None if told is None else sorted(told, key=lambda row: [str(row.get(name)) for name in keys])


def bounded(engine: Engine, churn: Callable[[Engine, int], None], rounds: int = 70) -> None:
    """Rounds that end with as much alive as they started with do not make the state grow.

    Growth by doubling and occasional compaction make the size swing, so the largest size of the second half
    is compared with that of the first: a state that grew with the events would be twice as large. Rounds have
    numbers with equally many digits, so that ids made from them take equal room.
    """
    sizes = []
    for place in range(2 * rounds):
        churn(engine, 1000 + place)
        sizes.append(sum(array.nbytes for array in engine.state()[1].values()))
    assert max(sizes[rounds:]) <= 1.1 * max(sizes[:rounds]), f"state grows: {sizes[:: rounds // 4]}"


def apart(make: Make, workload: Workload, whole: Run) -> None:
    """No call writes into the memory of its input, and nothing stored or returned depends on it later."""
    engine = make(workload.settings)
    for place, (call, rows) in enumerate(workload.steps):
        memory, given = _in_memory(rows)
        before = bytes(memory)
        answer = getattr(engine, call)(given)
        assert bytes(memory) == before, f"{call}({rows}) wrote into its input"
        memory[:] = bytes(len(memory))
        whole.same_after(place, engine, answer, f"{call}({rows}), its input overwritten")


def _in_memory(rows: Any) -> tuple[bytearray, Any]:
    """A table whose columns are in our memory, without a copy; ids are in a separate column."""
    table = pa.table({"id": rows} if isinstance(rows, list) else rows)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, table.schema) as writer:
        writer.write_table(table)
    memory = bytearray(sink.getvalue())
    given = pa.ipc.open_stream(pa.py_buffer(memory)).read_all()
    return memory, given["id"] if isinstance(rows, list) else given


def slices(rows: Any) -> Iterator[Any]:
    """Rows one by one, in turn as a dict of columns and as a list of one dict; anything else stays whole."""
    if not isinstance(rows, dict):
        yield from ([one] for one in rows) if isinstance(rows, list) else [rows]
        return
    size = len(next(iter(rows.values()), []))
    for place in range(size):
        if place % 2:
            yield [{name: values[place] for name, values in rows.items()}]
        else:
            yield {name: values[place : place + 1] for name, values in rows.items()}
