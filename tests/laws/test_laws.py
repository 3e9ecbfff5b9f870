"""Every engine, under every method or index, keeps the laws of `rankcast.core.contract`."""

from __future__ import annotations

import os
import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.core import contract
from rankcast.core.contract import Model, Reference, Subject

SUBJECTS = list(contract.subjects())
MEMORY = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None  # noqa: S108  flushing to a disk is slow
THOROUGH = os.environ.get("HYPOTHESIS_PROFILE") == "thorough"
FEW = os.environ.get("HYPOTHESIS_PROFILE") == "few"  # of default methods alone

every_subject = pytest.mark.parametrize("subject", [s for s in SUBJECTS if s.default or not FEW], ids=str)


def _family(subject: Subject) -> Any:
    return import_module(f"tests.laws.{subject.family}")


def _examples(subject: Subject) -> settings:
    """200 examples for the default of an engine, 25 for its other variants; 5 with the profile `few`."""
    usual = 200 if subject.default else 25
    return settings(max_examples=10 * usual if THOROUGH else 5 if FEW else usual)


def _model(subject: Subject, configuration: dict[str, Any]) -> Model:
    """The plain model for the brute force, the brute force for everything else."""
    if "scan" in subject.variant.values():
        model: Model = _family(subject).Naive(**configuration)
        return model
    scan = next(s for s in SUBJECTS if s.family == subject.family and "scan" in s.variant.values())
    return Reference(scan.make(configuration))


@every_subject
def test_the_laws(subject: Subject) -> None:
    """All laws on the same workloads: to think of a workload takes as long as to check a law on it."""
    family = _family(subject)

    @_examples(subject)
    @given(family.workloads(), st.data())
    def laws(workload: contract.Workload, data: st.DataObject) -> None:
        at = data.draw(st.integers(0, len(workload.steps) - 1), label="the step to save, refuse or join from")
        model, plain = _model(subject, workload.settings), getattr(family, "plain", None)
        tolerance = family.SCORE_TOLERANCE
        contract.follow(subject.make, model, workload, tolerance=tolerance, plain=plain)
        whole = contract.run(subject.make, workload)
        contract.cut(subject.make, workload, whole)
        contract.apart(subject.make, workload, whole)
        own = family.spoilers(workload.settings) if hasattr(family, "spoilers") else ()
        contract.refuse(subject.make, workload, (*contract.SPOILERS, *own), at)
        contract.net(subject.make, workload, whole, at)
        contract.divide(subject.make, workload, whole, at, tolerance)
        with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
            contract.reload(subject.make, workload, whole, Path(folder) / "snapshot", at)

    laws()


def _threads(subject: Subject, examples: int, *, writers: int, readers: int) -> None:
    family = _family(subject)

    @settings(max_examples=examples)
    @given(family.workloads())
    def laws(workload: contract.Workload) -> None:
        ids = {call: rows["id"] for call, rows in workload.steps if isinstance(rows, dict) and rows["id"]}
        named = ids.get("subscribe", [0])[0], ids.get("upsert", ids.get("publish", [0]))[0]
        reads = [("explain", named)] if subject.family != "matching" else []
        contract.threads(subject.make, workload, writers=writers, readers=readers, reads=reads)

    laws()


@every_subject
def test_several_threads(subject: Subject) -> None:
    _threads(subject, 4, writers=2, readers=1)


@pytest.mark.deep
@every_subject
def test_many_threads(subject: Subject) -> None:
    _threads(subject, 200, writers=4, readers=4)


@every_subject
def test_memory_follows_what_is_live(subject: Subject) -> None:
    family = _family(subject)
    contract.bounded(
        subject.make(getattr(family, "CHURN_SETTINGS", {})), family.churn, 120 if THOROUGH else 70
    )
