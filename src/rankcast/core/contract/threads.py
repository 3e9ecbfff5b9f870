"""The law of threads: whatever they call at once, it is as if they had called one after the other."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from threading import Barrier, Thread
from typing import Any, NamedTuple

import pyarrow as pa

from rankcast.core.contract.checks import Make, Step, Workload, frozen, same_as
from rankcast.core.engine import Engine
from rankcast.errors import InputError

READS = ("results", "stats", "zones", "forwarded", "memory")  # of those an engine has
SWITCH = 1e-6  # seconds after which Python lets another thread run


class Entry(NamedTuple):
    """A call and its outcome: an answer, or the text of a refusal."""

    call: str
    given: tuple[Any, ...]
    answer: Any
    refusal: str | None


def threads(
    make: Make,
    workload: Workload,
    *,
    writers: int = 2,
    readers: int = 2,
    reads: Sequence[tuple[str, tuple[Any, ...]]] = (),
) -> None:
    """Some threads take the steps, each with its own ids, and others read at the same time.

    Every answer, every list that was read and the final state must equal those of the same calls made one
    after the other, in the order in which they took their turns.
    """
    engine = make(workload.settings)
    log = _record(engine)
    asked = [*((name, ()) for name in READS if hasattr(engine, name)), *reads]
    scripts = [_renamed(workload.steps, number, writers) for number in range(writers)]
    scripts += [asked * max(1, len(workload.steps) // 2) for _ in range(readers)]
    _run(engine, scripts)
    twin = make(workload.settings)
    assert len(log) == sum(map(len, scripts)), "a call has left no trace"
    for place, entry in enumerate(log):
        expected = _made(twin, entry.call, entry.given)
        where = f"call {place} in turn, {entry.call}{entry.given}"
        assert entry.refusal == expected.refusal, f"{where}: {entry.refusal}, expected {expected.refusal}"
        assert _plain(entry.answer) == _plain(expected.answer), f"{where}: {entry}, expected {expected}"
    same_as(frozen(twin), engine, "after calls of several threads")


def _record(engine: Engine) -> list[Entry]:
    """Make an engine record its calls, in the order in which they take their turns."""
    log: list[Entry] = []
    kind = type(engine)

    def noting(name: str) -> Any:
        def noted(self: Engine, *given: Any) -> Any:
            entry = _made(super(recorded, self), name, given)
            log.append(entry)
            return entry

        noted.__name__ = name
        return noted

    names = [*kind.calls, *READS, "explain"]
    recorded = type(kind.__name__, (kind,), {name: noting(name) for name in names if hasattr(kind, name)})
    engine.__class__ = recorded
    return log


def _made(engine: Any, call: str, given: tuple[Any, ...]) -> Entry:
    try:
        return Entry(call, given, getattr(engine, call)(*given), None)
    except InputError as error:
        return Entry(call, given, None, str(error))


def _run(engine: Engine, scripts: Sequence[Sequence[tuple[str, tuple[Any, ...]]]]) -> None:
    """Run scripts at the same time, one thread each."""
    start, failed = Barrier(len(scripts)), []

    def follow(script: Sequence[tuple[str, tuple[Any, ...]]]) -> None:
        try:
            start.wait()
            for call, given in script:
                getattr(engine, call)(*given)
        except BaseException as error:  # told in the thread that waits
            failed.append(error)

    former = sys.getswitchinterval()
    sys.setswitchinterval(SWITCH)
    try:
        running = [Thread(target=follow, args=(script,)) for script in scripts]
        for thread in running:
            thread.start()
        for thread in running:
            thread.join()
    finally:
        sys.setswitchinterval(former)
    if failed:
        raise AssertionError(f"a call of one of several threads failed: {failed[0]!r}") from failed[0]


def _renamed(steps: Sequence[Step], number: int, among: int) -> list[tuple[str, tuple[Any, ...]]]:
    """The same steps with ids that no other number has."""

    def other(name: Any) -> Any:
        return name * among + number if isinstance(name, int) else f"{name}{number}"

    def rows_of(rows: Any) -> Any:
        if isinstance(rows, list | tuple | set):
            return [other(name) for name in rows]
        if not isinstance(rows, dict):
            return rows  # what a call of this engine's alone takes names nobody
        return {**rows, "id": [other(name) for name in rows["id"]]}

    return [(call, (rows_of(rows),)) for call, rows in steps]


def _plain(answer: Any) -> Any:
    return answer.to_pylist() if isinstance(answer, pa.Table) else repr(answer)
