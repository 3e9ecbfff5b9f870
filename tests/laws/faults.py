"""Faults in the middle of a call: an exception at the n-th line of the package that the call runs through.

A line stands for every place where memory may run out or an interrupt may come. What takes a turn and returns
it is left out: no interrupt can come there, and a line tracer can raise where Python itself never does,
between the body of a `with` and its end.
"""

from __future__ import annotations

import copy
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import FrameType, TracebackType
from typing import Any, Self, TypeAlias

import numpy as np
import pyarrow as pa

import rankcast
from rankcast.core import locking
from rankcast.core.contract import Make, Workload
from rankcast.core.contract.checks import frozen, same_as
from rankcast.core.engine import Engine
from rankcast.errors import InputError, InterruptedEngineError

ROOT = str(Path(rankcast.__file__).parent)
TURNS = locking.__file__
SPARED = {"in_turn", "nested", "hold", "release"}
Call: TypeAlias = Callable[[Any], Any]
ERRORS: tuple[type[BaseException], ...] = (MemoryError, KeyboardInterrupt)


class Fault:
    """Raise at the n-th line, counted from 1; `lines` says how many there were."""

    def __init__(self, at: int, error: type[BaseException]) -> None:
        self._at, self._error = at, error
        self.lines, self.place = 0, "nowhere"

    @property
    def raised(self) -> bool:
        """Whether the n-th line was reached."""
        return self.lines == self._at

    def __enter__(self) -> Self:
        self._former = sys.gettrace()
        sys.settrace(self._enter)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> bool:
        sys.settrace(self._former)
        return self.raised and kind is self._error

    def _enter(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        code = frame.f_code
        spared = code.co_filename == TURNS and code.co_name in SPARED
        return self._line if code.co_filename.startswith(ROOT) and not spared else None

    def _line(self, frame: FrameType, event: str, arg: Any) -> Callable[..., Any] | None:
        if event == "line":
            self.lines += 1
            if self.raised:
                self.place = f"{Path(frame.f_code.co_filename).name}:{frame.f_lineno}"
                sys.settrace(None)
                raise self._error
        return None if self.raised else self._line


class Trial:
    """A call of an engine, and calls after it, as they go without a fault."""

    def __init__(self, engine: Engine, call: Call, then: Sequence[Call] = ()) -> None:
        self._engine, self._calls = engine, [call, *then]
        self._before = frozen(copy.deepcopy(engine))
        twin = copy.deepcopy(engine)
        self._after = [(plain(call(twin)), frozen(copy.deepcopy(twin))) for call in self._calls]

    def lines(self) -> int:
        """How many lines the call runs through."""
        counted = Fault(-1, MemoryError)
        with counted:
            self._calls[0](copy.deepcopy(self._engine))
        return counted.lines

    def run(self, fault: Fault) -> bool:
        """A fault leaves the engine as it was, so that it goes on; or no call touches it any more.

        Returns whether the engine is in doubt.
        """
        engine, done, answer = copy.deepcopy(self._engine), False, None
        with fault:
            answer = self._calls[0](engine)
            done = True
        where = f"a fault at {fault.place}"
        if done:
            self._same(0, engine, answer, where)
        elif engine.in_doubt:
            self._refused(engine, where)
        else:
            same_as(self._before, engine, where)
            for place, call in enumerate(self._calls):
                self._same(place, engine, call(engine), f"call {place} after {where}")
        return engine.in_doubt

    def _same(self, place: int, engine: Engine, answer: Any, where: str) -> None:
        expected, state = self._after[place]
        assert plain(answer) == expected, f"{where}: answered otherwise"
        same_as(state, engine, where)

    def _refused(self, engine: Any, where: str) -> None:
        for call in [*self._calls, calling("stats"), calling("state"), calling("apply", [])]:
            try:
                call(engine)
            except InterruptedEngineError:
                assert engine.in_doubt, where
            else:
                raise AssertionError(f"a call was answered after {where}")


def calling(name: str, *given: Any, **named: Any) -> Call:
    """A call by its name."""
    return lambda engine: getattr(engine, name)(*given, **named)


def plain(answer: Any) -> Any:
    """An answer as values that can be compared."""
    if isinstance(answer, dict):
        return {name: plain(value) for name, value in answer.items()}
    if isinstance(answer, tuple):  # a state
        return None
    if isinstance(answer, np.ndarray):
        return answer.tobytes()
    return answer.to_pylist() if isinstance(answer, pa.Table) else repr(answer)


def trials(
    make: Make, workload: Workload, others: Callable[[Workload], Sequence[Sequence[Call]]]
) -> Iterator[Trial]:
    """The calls of a workload, other calls after each of them, and all of them as one batch.

    Of several others only the last is a trial, and those come before it; what does not fit is left out.
    """
    engine = make(workload.settings)
    steps = [calling(call, rows) for call, rows in workload.steps]
    yield Trial(engine, calling("apply", workload.steps))
    for place, step in enumerate(steps):
        yield Trial(copy.deepcopy(engine), step, steps[place + 1 :])
        step(engine)
        for *before, last in others(workload):
            try:
                trial = copy.deepcopy(engine)
                for call in before:
                    call(trial)
                last(copy.deepcopy(trial))
            except InputError:
                continue
            yield Trial(trial, last)
