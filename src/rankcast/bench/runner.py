"""What a benchmark case is and how it is measured: contenders interleaved, compilation counted apart.

A case is declared once, with a name that never changes. It is a function from parameters and a seeded
generator to a `Trial`. The function makes the workload; nothing it does is timed. The trial lists contenders,
which do the same work on that same workload in the same run, interleaved; only their `run` is timed. Ratios
are therefore between neighbours in time, on one machine, over one input.

    @case("range-topk.publish", small={"k": [10]}, full={"k": [1, 10, 20]}, seed=7, unit="event",
          reproduces="[Range Table III]")
    def publish(parameters, rng):
        objects, events = ...
        return Trial(
            work=len(events["id"]),
            contenders=[Contender("sparse", prepare=loaded("sparse"), run=publish_all, counters=per_event),
                        Contender("scan", prepare=loaded("scan"), run=publish_all)],
            baseline="scan",
            agrees=same_answers("sparse", "scan"),
        )

Order of a trial: every contender once, untimed for the record's purposes (this repetition compiles and
warms); then `runs` rounds, in each of which every contender runs once, the order turning by one from round
to round, so that a drift of the machine meets all of them alike; then counters, sizes and the comparison with
brute force, once. The garbage collector rests while the clock runs.
"""

from __future__ import annotations

import gc
import itertools
import math
import re
import statistics
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, datetime
from typing import Any, TypeAlias

import numpy as np
from numba.core.event import TimingListener, install_listener

from rankcast.bench import records
from rankcast.bench.records import Measurement, Record
from rankcast.errors import RankcastError

Parameters: TypeAlias = dict[str, Any]
Grid: TypeAlias = Mapping[str, Sequence[Any]]
Answers: TypeAlias = Mapping[str, Any]
Body: TypeAlias = "Callable[[Parameters, np.random.Generator], Trial]"

SIZES = ("small", "full")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)+")


def _nothing() -> None:
    """Prepare nothing."""


def publish_all(target: Any, batches: Sequence[Any]) -> Any:
    """Publish batch by batch; the answer is the engine itself, for its results."""
    for rows in batches:
        target.publish(rows)
    return target


class LeftOutError(RankcastError):
    """Raised by a case that needs what this machine does not have; its word says what, and how to get it."""


@dataclass(frozen=True)
class Contender:
    """One way to do the work of a trial.

    Attributes:
        name: how records and report call it.
        run: what is timed; gets what `prepare` gave, its return value is the answer.
        prepare: called before each repetition, outside the clock: an engine loaded anew, or the next slice.
        work: units of work in one run, if fewer than the trial's (a slow contender may do a prefix).
        runs: repetitions, if fewer than the case's.
        stats: reads running totals from what `prepare` gave; what a run adds to them becomes counters, a unit
            of work (loading does not count, and a paper's calls per event stand beside ours).
        counters: further named numbers, from what `prepare` gave and the answer of the last repetition.
        bytes: size of the state after the last repetition.
        peak: measure the peak of resident memory in one more repetition, outside the clock.
        paper: what the paper reports, by the name of a counter, or of `seconds`, `rate`, `ratio`, `bytes`.
    """

    name: str
    run: Callable[[Any], Any]
    prepare: Callable[[], Any] = _nothing
    work: int | None = None
    runs: int | None = None
    stats: Callable[[Any], Mapping[str, Any]] | None = None
    counters: Callable[[Any, Any], Mapping[str, float]] | None = None
    bytes: Callable[[Any], int] | None = None
    peak: bool = False
    paper: Mapping[str, float] = field(default_factory=dict)


@dataclass(frozen=True)
class Trial:
    """What a case measures for one set of parameters.

    Attributes:
        work: units of work in one run of a contender; rates and ratios are per unit.
        contenders: who does it, in the order of the report.
        baseline: whom the others are compared with (ratio: its time a unit over theirs); default: no ratios.
        agrees: whether the last answers, by contender, agree with brute force; leave out only where a case
            answers no query.
    """

    work: int
    contenders: Sequence[Contender]
    baseline: str | None = None
    agrees: Callable[[Answers], bool] | None = None

    def __post_init__(self) -> None:
        names = [contender.name for contender in self.contenders]
        if len(set(names)) != len(names) or not names:
            raise ValueError(f"contenders need distinct names, at least one: {names}")
        if self.baseline is not None and self.baseline not in names:
            raise ValueError(f"the baseline {self.baseline!r} is none of the contenders: {names}")


@dataclass(frozen=True)
class Figure:
    """A plot of a case's records: `y` over the parameter `x`, one line per contender (and `series`)."""

    title: str
    x: str
    y: str
    series: tuple[str, ...] = ()
    log_x: bool = False
    log_y: bool = False
    contenders: tuple[str, ...] = ()


@dataclass(frozen=True)
class Case:
    """A declared case. `parameters(size)` lists the sets of parameters it runs with."""

    name: str
    body: Body
    grids: Mapping[str, Sequence[Grid]]
    seed: int
    unit: str
    summary: str
    reproduces: str | None = None
    runs: int = 5
    figures: tuple[Figure, ...] = ()

    def parameters(self, size: str) -> Iterator[Parameters]:
        """Yield the parameter sets of a size, in the order of the declaration."""
        for grid in self.grids[size]:
            for values in itertools.product(*grid.values()):
                yield dict(zip(grid, values, strict=True))

    def trial(self, parameters: Parameters) -> Trial:
        """Make the workload; the same seed for every set, so that sets differ in what they name alone."""
        return self.body(parameters, np.random.default_rng(self.seed))


_DECLARED: dict[str, Case] = {}


def case(
    name: str,
    *,
    small: Grid | Sequence[Grid],
    full: Grid | Sequence[Grid],
    seed: int,
    unit: str,
    reproduces: str | None = None,
    runs: int = 5,
    figures: Sequence[Figure] = (),
) -> Callable[[Body], Body]:
    """Declare a case; the first line of the function's docstring says what it measures.

    Args:
        name: `family.what`, in lower case; it names the file of its records and never changes afterwards.
        small: parameter values by name, all combinations; or several such grids, one after the other.
        full: the same for the paper's own size.
        seed: of the generator that the function gets.
        unit: what one unit of work is, in the singular ("event").
        reproduces: the paper's table or figure, as `docs/papers.md` keys it.
        runs: timed repetitions of each contender.
        figures: plots for the report.
    """

    def declare(body: Body) -> Body:
        if not _NAME.fullmatch(name):
            raise ValueError(f"a case is called family.what in lower case, not {name!r}")
        if name in _DECLARED:
            raise ValueError(f"the case {name!r} is declared twice")
        summary = (body.__doc__ or "").strip().splitlines()
        if not summary:
            raise ValueError(f"the case {name!r} has no docstring")
        grids = {"small": _grids(small), "full": _grids(full)}
        _DECLARED[name] = Case(
            name,
            body,
            grids,
            seed,
            unit,
            summary[0],
            reproduces=reproduces,
            runs=runs,
            figures=tuple(figures),
        )
        return body

    return declare


def declared() -> Mapping[str, Case]:
    """Return the cases declared so far, by name."""
    return _DECLARED


def _grids(given: Grid | Sequence[Grid]) -> Sequence[Grid]:
    """Turn one grid or several into several."""
    return [given] if isinstance(given, Mapping) else list(given)


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
