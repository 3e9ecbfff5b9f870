"""Every engine in a shard answers as it does alone, across snapshots, restarts and refused batches."""

from __future__ import annotations

import tempfile
from importlib import import_module
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.core import contract
from rankcast.core.contract import Subject
from rankcast.errors import InputError
from rankcast.state import Shard

SUBJECTS = [subject for subject in contract.subjects() if subject.default]
NONSENSE = ("publish", {"no such column": [1]})


@pytest.mark.parametrize("subject", SUBJECTS, ids=str)
def test_a_shard_is_its_engine(subject: Subject) -> None:
    workloads = import_module(f"tests.laws.{subject.family}").workloads()

    @settings(max_examples=settings().max_examples // 10)
    @given(workloads, st.data())
    def law(workload: contract.Workload, data: st.DataObject) -> None:
        twin, steps = subject.make(workload.settings), list(workload.steps)
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "shard"
            shard = open_shard(path, subject, workload)
            while steps:
                size = data.draw(st.integers(1, 3), label="commands in the batch")
                batch, steps = steps[:size], steps[size:]
                shard = disturb(shard, path, subject, workload, batch, data.draw(TROUBLES, label="before"))
                before = shard.token
                token, answer = shard.apply(batch, after=before)
                assert answer.equals(twin.apply(batch)), f"{batch} is answered otherwise"
                again = shard.apply(batch, after=before)
                assert again[0] == token == shard.token
                assert again[1].equals(answer)
                contract.same_state(shard.engine, twin, f"after {batch}")
            shard.close()
            with open_shard(path, subject, workload) as shard:
                contract.same_state(shard.engine, twin, "in the end")

    law()


TROUBLES = st.sampled_from(["none", "reopen", "snapshot", "snapshot and reopen", "refused"])


def open_shard(path: Path, subject: Subject, workload: contract.Workload) -> Shard[Any]:
    return Shard.open(path, subject.make(workload.settings), snapshot_batches=3)


def disturb(
    shard: Shard[Any],
    path: Path,
    subject: Subject,
    workload: contract.Workload,
    batch: list[Any],
    trouble: str,
) -> Shard[Any]:
    """Something that may happen between two batches and must leave no trace."""
    if trouble == "refused":
        with pytest.raises(InputError):
            shard.apply([*batch, NONSENSE], after=shard.token)
    if "snapshot" in trouble:
        shard.snapshot()
    if "reopen" in trouble:
        shard.close()
        return open_shard(path, subject, workload)
    return shard
