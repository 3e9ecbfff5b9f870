"""What a benchmark case is: declared once, with a name that never changes.

A case is a function from parameters and a seeded generator to a `Trial`. The function makes the workload;
nothing it does is timed. The trial lists contenders, which do the same work on that same workload in the
same run, interleaved; only their `run` is timed. Ratios are therefore between neighbours in time, on one
machine, over one input.

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
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy as np

Parameters: TypeAlias = dict[str, Any]
Grid: TypeAlias = Mapping[str, Sequence[Any]]
Answers: TypeAlias = Mapping[str, Any]
Body: TypeAlias = "Callable[[Parameters, np.random.Generator], Trial]"

SIZES = ("small", "full")
_NAME = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*(\.[a-z0-9]+(-[a-z0-9]+)*)+")


def _nothing() -> None:
    """Prepare nothing."""


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
