"""Comparing answers, results and states, with a word on what differs."""

from __future__ import annotations

import copy
import math
from typing import Any

import pyarrow as pa

from rankcast.engines.base import Engine


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
    """The state of an engine as it is now: header, and by name the type and the bytes of each array."""
    header, arrays = engine.state()
    return copy.deepcopy(header), {name: (array.dtype, array.tobytes()) for name, array in arrays.items()}


def same_as(state: State, engine: Engine, where: str) -> None:
    """An engine has that state, to the last bit."""
    header, arrays = engine.state()
    assert header == state[0], f"{where}: the headers differ: {header}, {state[0]}"
    assert arrays.keys() == state[1].keys(), f"{where}: the arrays differ in name"
    for name, array in arrays.items():
        kind, told = state[1][name]
        assert array.dtype == kind, f"{where}: {name} differs in type"
        assert array.tobytes() == told, f"{where}: {name} differs"


def same_state(engine: Engine, twin: Engine, where: str) -> None:
    """Two engines have the same state, to the last bit."""
    same_as(frozen(twin), engine, where)


class Run:
    """What an engine answered and was: at the beginning, and after each step of a workload."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.results: list[Any] = []
        self._states: list[State] = []

    def note(self, engine: Engine, answer: pa.Table | None) -> None:
        """Keep what the engine has answered and is now."""
        self.answers.append(answer)
        self.results.append(engine.results() if hasattr(engine, "results") else None)
        self._states.append(frozen(engine))

    def after_steps(self) -> tuple[list[Any], list[Any]]:
        """Answers and results of the steps."""
        return self.answers[1:], self.results[1:]

    def same_before(self, place: int, engine: Engine, where: str) -> None:
        """An engine is as this one was before a step."""
        same_as(self._states[place], engine, where)

    def same_after(self, place: int, engine: Engine, answer: Any, where: str) -> None:
        """An engine has answered a step as this one did, and is as this one was after it."""
        expected = self.answers[place + 1]
        assert answer is expected is None or answer.equals(expected), f"{where}: answered otherwise"
        same_as(self._states[place + 1], engine, where)
