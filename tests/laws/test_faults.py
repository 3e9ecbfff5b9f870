"""Memory that runs out, and interrupts, at any line of any call: unchanged, or marked as interrupted."""

from __future__ import annotations

from collections.abc import Sequence
from importlib import import_module
from typing import Any

import pytest
from hypothesis import Phase, given, settings
from hypothesis import strategies as st

from rankcast.core import contract
from rankcast.core.contract import Subject, Workload
from tests.laws.faults import ERRORS, Call, Fault, calling, trials

DEFAULTS = [subject for subject in contract.subjects() if subject.default]
every_engine = pytest.mark.parametrize("subject", DEFAULTS, ids=str)
GENERATE = [Phase.explicit, Phase.reuse, Phase.generate]  # to shrink takes long and tells little more


def _first(workload: Workload, call: str, default: Any) -> Any:
    """The first row of the first call by that name, as a dict of lists."""
    for name, rows in workload.steps:
        if name == call and rows and len(next(iter(rows.values()))):
            return {column: values[:1] for column, values in rows.items()}
    return default


def _others(subject: Subject, workload: Workload) -> Sequence[Sequence[Call]]:
    """What can be asked of an engine, and calls that workloads do not have."""

    def alone(*calls: Call) -> list[Sequence[Call]]:
        return [(call,) for call in calls]

    subscription = _first(workload, "subscribe", {"id": [0]})["id"][0]
    event = _first(workload, "publish", {"id": [0]})
    item = _first(workload, "upsert", event)["id"][0]
    reads = [calling("stats"), calling("state")]
    if subject.family == "covering":
        box = _first(workload, "subscribe", {"id": [0]})
        command = {"op": ["unsubscribe"], "id": [subscription]}
        return alone(
            *reads,
            calling("forwarded"),
            calling("covers", box),
            calling("explain", subscription, subscription),
            calling("follow", command),
            calling("unsubscribe", [subscription], limit=1),
        )
    if subject.family == "matching":
        one = {name: values[0] for name, values in event.items()}
        return alone(*reads, calling("explain", subscription, one))
    reads += [calling("results"), calling("explain", subscription, item)]
    if subject.family == "range_topk":
        told = [calling("disseminate", event, method=m, batch=b) for m in ("sparse", "relax") for b in (0, 1)]
        stale = [(calling("disseminate", event), read) for read in reads]
        return [*alone(*reads, *told, calling("influence", item)), *stale]
    if subject.family == "geotext":
        return alone(*reads, calling("memory"))
    return alone(*reads, calling("zones"), calling("view", subscription))


@every_engine
def test_a_fault_leaves_an_engine_unchanged_or_in_doubt(subject: Subject) -> None:
    """A handful of lines of a handful of calls."""
    family = import_module(f"tests.laws.{subject.family}")

    @settings(max_examples=4, phases=GENERATE)
    @given(family.workloads(), st.integers(0, 2**20), st.sampled_from(ERRORS))
    def faults(workload: Workload, seed: int, error: type[BaseException]) -> None:
        for place, trial in enumerate(trials(subject.make, workload, lambda w: _others(subject, w))):
            trial.run(Fault(1 + (seed + 97 * place) % (trial.lines() + 1), error))

    faults()


@pytest.mark.deep
@every_engine
def test_a_fault_at_every_line(subject: Subject) -> None:
    """Every seventh line of every call, from another line on for every call."""
    family = import_module(f"tests.laws.{subject.family}")
    outcomes = {True: 0, False: 0}

    @settings(max_examples=20, phases=GENERATE)
    @given(family.workloads(), st.integers(0, 6))
    def faults(workload: Workload, start: int) -> None:
        for place, trial in enumerate(trials(subject.make, workload, lambda w: _others(subject, w))):
            for line in range(1 + (start + place) % 7, trial.lines() + 2, 7):
                outcomes[trial.run(Fault(line, ERRORS[line % 2]))] += 1

    faults()
    assert min(outcomes.values()) > 0, "no fault came before, or none in the middle of a change"
