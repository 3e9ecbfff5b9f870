"""Calls take turns: from several threads, from inside a call, after an interrupt, in a forked child."""

from __future__ import annotations

import copy
import inspect
import os
import pickle
import signal
import threading
import time
from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import CoveringTable, InputError, InterruptedEngineError, MovingTopK, RangeTopK
from rankcast.core import contract
from rankcast.core.engine import Engine
from rankcast.errors import NestedCallError

ENGINES = sorted({subject.engine for subject in contract.subjects()}, key=lambda engine: engine.__name__)
OBJECTS = {"id": [1, 2, 3], "x": [1, 2, 3], "y": [3, 2, 1]}
BOX = {"id": [1], "x_lo": [0], "x_hi": [9]}


def _engine(cls: type[RangeTopK] = RangeTopK) -> RangeTopK:
    engine = cls(over="x", by="y", k=2, method="scan")
    engine.publish(OBJECTS)
    engine.subscribe(BOX)
    return engine


class Halting(RangeTopK):
    """Does something in the middle of a change."""

    def _entered(self, rows: Any) -> None:
        self._halt()

    def _halt(self) -> None:
        """What is to happen."""


@pytest.mark.parametrize("engine", ENGINES)
def test_calls_look_as_they_are_written(engine: type[Engine]) -> None:
    for name, method in inspect.getmembers(engine, inspect.isfunction):
        if not name.startswith("_") and not getattr(method, "inside", False):
            assert hasattr(method, "__wrapped__"), f"{name} does not take turns"
            assert method.__name__ == name
            assert method.__doc__
            assert inspect.signature(method) == inspect.signature(method.__wrapped__)


def test_a_score_may_not_call_the_engine() -> None:
    engines: list[MovingTopK] = []
    said = []

    def score(attributes: Any, distance: Any) -> Any:
        for engine in engines:
            for name, given in (("results", ()), ("stats", ()), ("remove", ([1],)), ("apply", ([],))):
                with pytest.raises(NestedCallError, match="the engine is inside another call") as caught:
                    getattr(engine, name)(*given)
                said.append(caught.value.call)
        return attributes[:, 0] + distance

    engine = MovingTopK(over="a", k=2, score=score, method="scan")
    engines.append(engine)
    engine.upsert({"id": [1, 2], "x": [0, 1], "y": [0, 1], "a": [1, 2]})
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert engine.results()["item"].to_pylist() == [1, 2]
    assert set(said) == {"results", "stats", "remove", "apply"}


@pytest.mark.parametrize("make", [_engine, lambda: CoveringTable(over="x")], ids=["lists", "answers"])
def test_commands_may_not_call_the_engine(make: Any) -> None:
    engine, other = make(), {"id": [7], "x_lo": [0], "x_hi": [1]}

    def commands() -> Iterator[tuple[str, Any]]:
        yield "subscribe", other
        with pytest.raises(NestedCallError):
            engine.stats()
        yield "subscribe", other
        yield "unsubscribe", [7]

    def refused(command: Any, error: InputError) -> None:
        with pytest.raises(NestedCallError):
            engine.unsubscribe([7])

    before = len(engine)
    engine.apply(commands(), refused=refused)
    assert len(engine) == before
    assert not engine.in_doubt


def test_an_error_of_commands_leaves_what_was_applied() -> None:
    def commands() -> Iterator[tuple[str, Any]]:
        yield "unsubscribe", [1]
        raise LookupError

    for given in (
        commands(),
        [("unsubscribe", [1]), ("unsubscribe", [1])],
        [("unsubscribe", [1]), ("no", 1)],
    ):
        engine = _engine()
        with pytest.raises((LookupError, InputError)):
            engine.apply(given)
        assert not engine.in_doubt
        assert len(engine) == 0
        engine.subscribe(BOX)


def test_an_override_may_make_calls() -> None:
    class Noting(RangeTopK):
        noted: tuple[pa.Table, pa.Table]

        def publish(self, rows: Any) -> pa.Table:
            before = self.results()
            answer = super().publish(rows)
            self.noted = before, self.results()
            return answer

    engine = Noting(over="x", by="y", k=2)
    engine.publish(OBJECTS)
    engine.subscribe(BOX)
    engine.publish({"id": [3], "y": [None]})
    assert [table["item"].to_pylist() for table in engine.noted] == [[3, 2], [2, 1]]


@pytest.mark.parametrize(
    "error", [MemoryError("no room"), KeyboardInterrupt(), InputError("late"), SystemExit()]
)
def test_an_exception_in_the_middle_of_a_change_is_the_end(
    error: BaseException, monkeypatch: pytest.MonkeyPatch
) -> None:
    def halt(self: Engine) -> None:
        assert self.in_doubt
        raise error

    engine = _engine(Halting)
    assert not engine.in_doubt
    monkeypatch.setattr(Halting, "_halt", halt)
    tried = copy.deepcopy(engine)
    with pytest.raises(type(error)):
        tried.apply([("subscribe", {**BOX, "id": [2]})], refused=lambda *_: None)
    assert tried.in_doubt
    with pytest.raises(type(error)):
        engine.subscribe({**BOX, "id": [2]})
    monkeypatch.undo()
    for copied in (engine, copy.deepcopy(engine)):
        assert copied.in_doubt
        for later in (copied.results, copied.stats, copied.state, partial(copied.publish, OBJECTS)):
            with pytest.raises(InterruptedEngineError, match="interrupted: load it again") as caught:
                later()
        assert type(error).__name__ in str(caught.value)
        assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)  # noqa: S301


def test_an_interrupt_waits_for_the_end_of_a_change(monkeypatch: pytest.MonkeyPatch) -> None:
    heard: list[Any] = []

    def handler(number: int, frame: Any) -> None:
        heard.append((number, len(engine.results(["late"]))))
        raise KeyboardInterrupt

    engine = RangeTopK(over="x", by="y", k=2)
    engine.publish(OBJECTS)
    former = signal.signal(signal.SIGINT, handler)
    try:
        monkeypatch.setattr(RangeTopK, "_entered", _with_signal(RangeTopK._entered, 1))
        with pytest.raises(KeyboardInterrupt):
            engine.subscribe({**BOX, "id": ["late"]})
        assert heard == [(signal.SIGINT, 2)]
        assert signal.getsignal(signal.SIGINT) is handler
        assert not engine.in_doubt
    finally:
        signal.signal(signal.SIGINT, former)


def test_a_second_interrupt_breaks_in(monkeypatch: pytest.MonkeyPatch) -> None:
    engine = _engine()
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        monkeypatch.setattr(RangeTopK, "_entered", _with_signal(RangeTopK._entered, 2))
        with pytest.raises(KeyboardInterrupt):
            engine.subscribe({**BOX, "id": [2]})
        assert engine.in_doubt
        assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, former)


def _with_signal(method: Any, times: int) -> Any:
    def interrupted(self: Any, rows: Any) -> None:
        for _ in range(times):
            signal.raise_signal(signal.SIGINT)
        method(self, rows)

    return interrupted


@pytest.mark.parametrize("handler", [signal.SIG_IGN, signal.SIG_DFL])
def test_a_handler_that_is_not_of_python_stays(handler: Any) -> None:
    former = signal.signal(signal.SIGINT, handler)
    try:
        _engine()
        assert signal.getsignal(signal.SIGINT) is handler
    finally:
        signal.signal(signal.SIGINT, former)


def _interrupt(rounds: int) -> None:
    """Interrupt calls at any moment; whatever is answered, an engine has taken a call whole or not at all."""
    engine = RangeTopK(over="x", by="y", k=2)
    engine.publish(OBJECTS)
    engine.subscribe(BOX)
    former = signal.signal(signal.SIGINT, signal.default_int_handler)
    rng = np.random.default_rng(7)
    try:
        for number in range(rounds):
            before, pause = engine.stats()["events"], float(rng.uniform(0, 0.001))

            def interrupt(wait: float = pause) -> None:
                time.sleep(wait)
                os.kill(os.getpid(), signal.SIGINT)

            thread = threading.Thread(target=interrupt)
            try:
                thread.start()
                for y in range(50):
                    engine.publish({"id": [1], "y": [float(number + y)]})
                thread.join()
                time.sleep(1)
            except KeyboardInterrupt:
                thread.join()
            assert not engine.in_doubt
            done = engine.stats()["events"] - before
            assert 0 <= done <= 50
            assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    finally:
        signal.signal(signal.SIGINT, former)
    twin = RangeTopK(over="x", by="y", k=2)
    y = engine.explain(1, 1)["score"]
    twin.publish({**OBJECTS, "y": [y, 2, 1]})
    twin.subscribe(BOX)
    assert engine.results().equals(twin.results())


def test_interrupts_at_any_moment() -> None:
    _interrupt(30)


@pytest.mark.deep
def test_many_interrupts_at_any_moment() -> None:
    _interrupt(3000)


def test_a_child_need_not_wait_for_a_thread_it_does_not_have() -> None:
    inside, leave = threading.Event(), threading.Event()

    def commands() -> Iterator[tuple[str, Any]]:
        inside.set()
        leave.wait()
        yield from ()

    engine = _engine()
    thread = threading.Thread(target=engine.apply, args=(commands(),))
    thread.start()
    inside.wait()
    child = os.fork()
    if child == 0:
        signal.alarm(20)
        os._exit(0 if engine.results().num_rows == 2 else 1)
    leave.set()
    thread.join()
    assert os.waitpid(child, 0)[1] == 0


def test_a_copy_has_a_turn_of_its_own() -> None:
    class Copying(RangeTopK):
        copied: Any = None

        def results(self, ids: Any = None) -> pa.Table:
            self.copied = copy.deepcopy(self)
            return super().results(ids)

    engine = Copying(over="x", by="y", k=2)
    engine.publish(OBJECTS)
    engine.subscribe(BOX)
    answer = engine.results()
    assert engine.copied.results().equals(answer)
    assert np.array_equal(engine.state()[1]["object.y"], engine.copied.state()[1]["object.y"])
