"""Measuring a trial: contenders interleaved, set-up outside the clock, compilation counted apart.

Order of a trial: every contender once, untimed for the record's purposes (this repetition compiles and
warms); then `runs` rounds, in each of which every contender runs once, the order turning by one from round
to round, so that a drift of the machine meets all of them alike; then counters, sizes and the comparison with
brute force, once. The garbage collector rests while the clock runs.
"""

from __future__ import annotations

import gc
import math
import statistics
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any, TypeAlias

from numba.core.event import TimingListener, install_listener

from rankcast.bench import records
from rankcast.bench.case import Case, Contender, Parameters, Trial
from rankcast.bench.records import Measurement, Record

Watcher: TypeAlias = Callable[[str], None]


class _Clock:
    """What one contender has done so far in a trial."""

    def __init__(self, contender: Contender) -> None:
        self.contender = contender
        self.seconds: list[float] = []
        self.compiling: list[float] = []
        self.before: dict[str, float] = {}
        self.state: Any = None
        self.answer: Any = None

    def once(self) -> None:
        """Prepare outside the clock, run inside it."""
        self.state = self.answer = None
        self.state = self.contender.prepare()
        self.before = self.totals()
        gc.collect()
        gc.disable()
        listener = TimingListener()  # type: ignore[no-untyped-call]
        try:
            with install_listener("numba:compile", listener):
                start = time.perf_counter()
                self.answer = self.contender.run(self.state)
                self.seconds.append(time.perf_counter() - start)
        finally:
            gc.enable()
        self.compiling.append(listener.duration if listener.done else 0.0)

    def totals(self) -> dict[str, float]:
        """Read the running totals; what is no number is left out."""
        running = self.contender.stats(self.state) if self.contender.stats else {}
        return {name: value for name, value in running.items() if isinstance(value, int | float)}

    def counters(self, work: int) -> dict[str, float]:
        """Give what the last run added to the totals, a unit of work, and the further counters."""
        grown = {name: (value - self.before[name]) / work for name, value in self.totals().items()}
        further = self.contender.counters(self.state, self.answer) if self.contender.counters else {}
        return {name: _plain(value) for name, value in {**grown, **further}.items()}

    def peak(self) -> int | None:
        """Give the growth of resident memory at its peak over one more, untimed repetition."""
        state = self.contender.prepare()
        before = records.resident_memory()
        records.reset_peak_memory()
        self.contender.run(state)
        after = records.peak_memory()
        return None if before is None or after is None else max(0, after - before)


def measure(case: Case, parameters: Parameters, size: str, watch: Watcher | None = None) -> Record:
    """Measure a case with one set of parameters.

    Args:
        case: what to measure.
        parameters: one of the sets that `case.parameters(size)` lists.
        size: noted in the record.
        watch: called before each step with what comes next.

    Raises:
        ValueError: a counter is no finite number; the record would not be readable by others.
    """
    notify = watch or (lambda step: None)
    notify("making the workload")
    system, trial = records.machine(), case.trial(parameters)
    clocks = [_Clock(contender) for contender in trial.contenders]
    _repeat(clocks, case.runs, notify)
    notify("comparing with brute force")
    answers = {clock.contender.name: clock.answer for clock in clocks}
    agrees = None if trial.agrees is None else bool(trial.agrees(answers))
    return Record(
        case=case.name,
        parameters=parameters,
        size=size,
        seed=case.seed,
        unit=case.unit,
        contenders=[_measurement(clock, clocks, trial) for clock in clocks],
        baseline=trial.baseline,
        agrees_with_brute_force=agrees,
        reproduces=case.reproduces,
        at=datetime.now(UTC).isoformat(timespec="seconds"),
        commit=records.commit(),
        machine=system,
        versions=records.versions(),
    )


def _repeat(clocks: list[_Clock], runs: int, notify: Watcher) -> None:
    """Run every contender once to warm, then in rounds whose order turns by one each time."""
    for clock in clocks:
        notify(f"{clock.contender.name}: first run")
        clock.once()
    for round_number in range(runs):
        turn = round_number % len(clocks)
        for clock in clocks[turn:] + clocks[:turn]:
            wanted = clock.contender.runs or runs
            if round_number < wanted:
                notify(f"{clock.contender.name}: run {round_number + 1} of {wanted}")
                clock.once()


def _measurement(clock: _Clock, clocks: list[_Clock], trial: Trial) -> Measurement:
    """Gather what one contender did."""
    contender = clock.contender
    work = contender.work or trial.work
    return Measurement(
        name=contender.name,
        work=work,
        seconds=clock.seconds[1:],
        first_seconds=clock.seconds[0],
        compile_seconds=clock.compiling[0],
        compile_seconds_timed=sum(clock.compiling[1:]),
        counters=clock.counters(work),
        ratio=_ratio(clock, clocks, trial),
        bytes=int(contender.bytes(clock.state)) if contender.bytes else None,
        peak_bytes=clock.peak() if contender.peak else None,
        paper={name: _plain(value) for name, value in contender.paper.items()},
    )


def _ratio(clock: _Clock, clocks: list[_Clock], trial: Trial) -> float | None:
    """Give the baseline's median time a unit over this contender's."""
    if trial.baseline is None:
        return None
    baseline = next(each for each in clocks if each.contender.name == trial.baseline)
    return _unit_seconds(baseline, trial) / _unit_seconds(clock, trial)


def _unit_seconds(clock: _Clock, trial: Trial) -> float:
    """Give the median seconds a unit of work, never 0."""
    return max(statistics.median(clock.seconds[1:]), 1e-12) / (clock.contender.work or trial.work)


def _plain(value: float) -> float:
    """Turn a NumPy number into Python's; JSON knows no other, and no NaN or infinity either."""
    plain = int(value) if float(value).is_integer() else float(value)
    if not math.isfinite(plain):
        raise ValueError(f"a counter is {value}, expected a finite number")
    return plain
