"""Declaring and measuring: what is timed, in what order, and what a record says."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numba import njit

from rankcast.bench import runner
from rankcast.bench import runner as declaring
from rankcast.bench.runner import Case, Contender, Trial, case, declared, measure


@pytest.fixture(autouse=True)
def nothing_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(declaring, "_DECLARED", {})


class Clock:
    """A clock that stands still but for `sleep`."""

    now = 0.0

    def sleep(self, seconds: float) -> None:
        self.now += seconds


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    standing = Clock()
    monkeypatch.setattr(runner, "time", SimpleNamespace(perf_counter=lambda: standing.now))
    return standing


def make(trial: Trial, *, runs: int = 3) -> Case:
    return Case(
        "some.case",
        lambda parameters, rng: trial,
        {"small": [{}]},
        seed=1,
        unit="thing",
        summary="",
        runs=runs,
    )


def run(trial: Trial, *, runs: int = 3) -> Any:
    return measure(make(trial, runs=runs), {"k": 2}, "small")


def test_a_declaration_lists_all_combinations_of_each_grid() -> None:
    @case(
        "some.name",
        small={"k": [1, 2], "n": [5]},
        full=[{"k": [1]}, {"k": [7], "n": [8, 9]}],
        seed=4,
        unit="event",
    )
    def body(parameters: dict[str, Any], rng: np.random.Generator) -> Trial:
        """Measure something.

        In some way.
        """
        return Trial(work=1, contenders=[Contender("a", run=lambda _: rng.integers(1 << 40))])

    found = declared()["some.name"]
    assert found.summary == "Measure something."
    assert list(found.parameters("small")) == [{"k": 1, "n": 5}, {"k": 2, "n": 5}]
    assert list(found.parameters("full")) == [{"k": 1}, {"k": 7, "n": 8}, {"k": 7, "n": 9}]
    drawn = [found.trial({}).contenders[0].run(None) for _ in range(2)]
    assert drawn[0] == drawn[1]


@pytest.mark.parametrize("name", ["plain", "Upper.case", "../up", "a.b/c", "a..b", "a.", "a.-b"])
def test_names_that_are_no_plain_file_names_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"family\.what"):
        case(name, small={}, full={}, seed=1, unit="u")(lambda p, r: Trial(1, []))


def test_a_name_is_declared_once_and_needs_words() -> None:
    def body(parameters: dict[str, Any], rng: np.random.Generator) -> Trial:
        """Measure."""
        raise NotImplementedError

    case("a.b", small={}, full={}, seed=1, unit="u")(body)
    with pytest.raises(ValueError, match="twice"):
        case("a.b", small={}, full={}, seed=1, unit="u")(body)
    with pytest.raises(ValueError, match="no docstring"):
        case("a.c", small={}, full={}, seed=1, unit="u")(lambda p, r: Trial(1, []))


def test_a_trial_needs_distinct_contenders_and_a_baseline_among_them() -> None:
    one = Contender("one", run=lambda _: None)
    with pytest.raises(ValueError, match="distinct"):
        Trial(1, [one, one])
    with pytest.raises(ValueError, match="distinct"):
        Trial(1, [])
    with pytest.raises(ValueError, match="none of the contenders"):
        Trial(1, [one], baseline="two")


def test_contenders_take_turns_and_the_order_turns_too() -> None:
    log: list[str] = []

    def note(name: str) -> Contender:
        return Contender(name, prepare=lambda: log.append(f"+{name}"), run=lambda _: log.append(name))

    run(Trial(1, [note("a"), note("b"), note("c")]))
    assert log[::2] == [f"+{name}" for name in log[1::2]]
    assert log[1::2] == [*"abc", *"abc", *"bca", *"cab"]


def test_only_the_run_is_timed_and_the_first_one_apart(clock: Clock) -> None:
    naps = iter([9.0, 2.0, 3.0, 1.0])
    trial = Trial(
        work=6,
        contenders=[Contender("a", prepare=lambda: clock.sleep(50.0), run=lambda _: clock.sleep(next(naps)))],
        agrees=lambda answers: bool([clock.sleep(70.0)]),  # type: ignore[func-returns-value]
    )
    measured = run(trial).contenders[0]
    assert measured.first_seconds == 9.0
    assert measured.seconds == [2.0, 3.0, 1.0]
    assert (measured.least, measured.median, measured.rate) == (1.0, 2.0, 3.0)


def test_state_answer_and_counters_go_together() -> None:
    states: Iterator[int] = iter(range(10))
    record = run(
        Trial(
            work=8,
            contenders=[
                Contender(
                    "a",
                    prepare=lambda: np.int64(next(states)),
                    run=lambda state: state * 10,
                    counters=lambda state, answer: {"state": state, "half": answer / 20},
                    bytes=lambda state: 100 + state,
                    paper={"half": 1.25},
                )
            ],
            agrees=lambda answers: answers == {"a": 30},
        )
    )
    measured = record.contenders[0]
    assert measured.counters == {"state": 3, "half": 1.5}
    assert [type(value) for value in measured.counters.values()] == [int, float]
    assert measured.bytes == 103
    assert measured.paper == {"half": 1.25}
    assert record.agrees_with_brute_force is True
    assert len(measured.seconds) == 3
    assert record.parameters == {"k": 2}


def test_totals_become_growth_a_unit_of_the_last_run() -> None:
    def grow(totals: dict[str, Any]) -> None:
        totals["calls"] += 12
        totals["more"] = 4

    contender = Contender(
        "a",
        prepare=lambda: {"calls": 100, "more": 0, "index": "auto"},
        run=grow,
        stats=dict,
        counters=lambda state, answer: {"size": len(state)},
    )
    assert run(Trial(8, [contender])).contenders[0].counters == {"calls": 1.5, "more": 0.5, "size": 3}


@pytest.mark.parametrize(("answer", "expected"), [(True, True), (False, False), (None, None)])
def test_agreement_is_recorded_as_found(answer: bool | None, expected: bool | None) -> None:
    agrees = None if answer is None else (lambda answers: answer)
    assert (
        run(Trial(1, [Contender("a", run=lambda _: None)], agrees=agrees)).agrees_with_brute_force is expected
    )


def test_a_ratio_is_time_a_unit_of_the_baseline_over_ones_own(clock: Clock) -> None:
    slow = Contender("slow", run=lambda _: clock.sleep(3.0), work=1, runs=2)
    quick = Contender("quick", run=lambda _: clock.sleep(2.0))
    record = run(Trial(10, [quick, slow], baseline="slow"))
    found = {measured.name: measured for measured in record.contenders}
    assert found["slow"].ratio == 1.0
    assert found["quick"].ratio == pytest.approx(15.0)
    assert (len(found["quick"].seconds), len(found["slow"].seconds)) == (3, 2)
    assert run(Trial(1, [quick])).contenders[0].ratio is None


def test_compiling_is_told_apart() -> None:
    @njit
    def kernel(values: Any) -> Any:
        return values.sum() + 1

    argument = np.ones(5)
    measured = run(Trial(1, [Contender("a", run=lambda _: kernel(argument))])).contenders[0]
    assert 0.0 < measured.compile_seconds <= measured.first_seconds
    assert measured.compile_seconds_timed == 0.0


def test_compiling_inside_the_timed_runs_is_admitted() -> None:
    @njit
    def kernel(values: Any) -> Any:
        return values.sum() + 2

    arguments = iter([np.ones(3, np.float64), np.ones(3, np.float32), np.ones(3), np.ones(3)])
    measured = run(Trial(1, [Contender("a", run=lambda _: kernel(next(arguments)))])).contenders[0]
    assert measured.compile_seconds_timed > 0.0


def test_the_peak_of_memory_is_measured_apart() -> None:
    runs: list[int] = []

    def hungry(_: None) -> None:
        runs.append(np.ones(8_000_000).size)

    measured = run(Trial(1, [Contender("a", run=hungry, peak=True)])).contenders[0]
    assert len(runs) == 1 + 3 + 1
    assert measured.peak_bytes is None or 40e6 < measured.peak_bytes < 200e6


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
def test_a_counter_must_be_a_number(value: float) -> None:
    with pytest.raises(ValueError, match="finite"):
        run(Trial(1, [Contender("a", run=lambda _: None, counters=lambda state, answer: {"odd": value})]))


def test_the_record_says_what_it_ran_on() -> None:
    record = run(Trial(1, [Contender("a", run=lambda _: None)]))
    assert set(record.versions) >= {"rankcast", "python", "numpy", "numba", "pyarrow"}
    assert record.machine["cores"] >= 1
    assert record.machine["cpu"]
    assert (record.case, record.seed, record.unit, record.size) == ("some.case", 1, "thing", "small")
