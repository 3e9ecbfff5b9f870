"""Every engine, under every method or index, keeps the laws of `rankcast.contract`."""

from __future__ import annotations

import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import contract
from rankcast.contract import Model, Reference, Subject

SUBJECTS = list(contract.subjects())
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108  flushing to a disk is slow
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"

every_subject = pytest.mark.parametrize("subject", SUBJECTS, ids=str)


def _family(subject: Subject) -> Any:
    return import_module(f"tests.laws.{subject.family}")


def _examples(subject: Subject) -> settings:
    """200 examples for the default of an engine, 25 for its other variants."""
    few = 200 if subject.default else 25
    return settings(max_examples=10 * few if THOROUGH else few)


def _model(subject: Subject, configuration: dict[str, Any]) -> Model:
    """The plain model for the brute force, the brute force for everything else."""
    if "scan" in subject.variant.values():
        model: Model = _family(subject).Naive(**configuration)
        return model
    scan = next(s for s in SUBJECTS if s.family == subject.family and "scan" in s.variant.values())
    return Reference(scan.make(configuration))


@every_subject
def test_answers_and_results_follow_the_model(subject: Subject) -> None:
    family = _family(subject)

    @_examples(subject)
    @given(family.workloads())
    def law(workload: contract.Workload) -> None:
        model = _model(subject, workload.settings)
        plain = getattr(family, "plain", None)
        contract.follow(subject.make, model, workload, tolerance=family.SCORE_TOLERANCE, plain=plain)

    law()


@every_subject
def test_one_batch_and_single_rows_end_alike(subject: Subject) -> None:
    @_examples(subject)
    @given(_family(subject).workloads())
    def law(workload: contract.Workload) -> None:
        contract.cut(subject.make, workload)

    law()


@every_subject
def test_save_load_and_go_on(subject: Subject) -> None:
    @_examples(subject)
    @given(_family(subject).workloads(), st.data())
    def law(workload: contract.Workload, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(workload.steps) - 1))
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            contract.reload(subject.make, workload, Path(folder) / "snapshot", at)

    law()


@every_subject
def test_a_refused_call_changes_nothing(subject: Subject) -> None:
    @_examples(subject)
    @given(_family(subject).workloads(), st.data())
    def law(workload: contract.Workload, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(workload.steps) - 1))
        contract.refuse(subject.make, workload, contract.SPOILERS, at)

    law()


@every_subject
def test_several_calls_as_one_batch_answer_with_the_net_change(subject: Subject) -> None:
    @_examples(subject)
    @given(_family(subject).workloads(), st.data())
    def law(workload: contract.Workload, data: st.DataObject) -> None:
        contract.net(subject.make, workload, data.draw(st.integers(0, len(workload.steps) - 1)))

    law()


@every_subject
def test_inputs_are_left_alone(subject: Subject) -> None:
    @_examples(subject)
    @given(_family(subject).workloads())
    def law(workload: contract.Workload) -> None:
        contract.apart(subject.make, workload)

    law()


@every_subject
def test_memory_follows_what_is_live(subject: Subject) -> None:
    family = _family(subject)
    contract.bounded(subject.make(getattr(family, "CHURN_SETTINGS", {})), family.churn)
