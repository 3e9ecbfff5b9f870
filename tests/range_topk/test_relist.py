"""Lists that are made anew for a batch give the same deltas as painted ones."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from rankcast import RangeTopK
from rankcast.range_topk import interval
from rankcast.range_topk.interval import IntervalLists
from rankcast.range_topk.state import ObjectIndex
from tests.laws.range_topk import workloads


@settings(max_examples=80)
@given(workloads(narrow=True))
def test_lists_made_anew_answer_as_the_scan(workload: Any) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(interval, "BATCH", 1)
        patch.setattr(IntervalLists, "sooner_anew", lambda lists, events: True)
        engine, scan = RangeTopK(**workload.settings), RangeTopK(**workload.settings, method="scan")
        for call, rows in workload.steps:
            assert getattr(engine, call)(rows).equals(getattr(scan, call)(rows))
        assert engine.results().equals(scan.results())


@pytest.mark.parametrize("seed", range(4))
def test_painting_and_making_anew_in_turns(seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever the batches before did, the next ones find objects, boards and values as they must be."""
    rng = np.random.default_rng(seed)
    monkeypatch.setattr(IntervalLists, "sooner_anew", lambda lists, events: bool(events % 2))
    engine, scan = RangeTopK(k=4), RangeTopK(k=4, method="scan")
    ends = np.sort(rng.random((150, 2)), axis=1).T.tolist()
    own = [None, 1, 15, 40]
    ranges = {"id": list(range(150)), "x_lo": ends[0], "x_hi": ends[1]}
    ranges["k"] = [own[i] for i in rng.integers(0, 4, 150)] if seed % 2 else [None] * 150
    for each in (engine, scan):
        each.publish({"id": list(range(80)), "x": ends[0][:80], "y": ends[1][:80]})
        each.subscribe(ranges)
    for size in (33, 34, 35, 36, 35, 1, 34):
        ids = rng.integers(0, 100, size).tolist()
        y = [float(value) for value in rng.integers(0, 9, size)]
        rows = {"id": ids, "x": rng.integers(0, 5, size).tolist(), "y": y}
        assert engine.publish(rows).equals(scan.publish(rows))
        gone = rng.choice(sorted(set(ids)), 1).tolist()
        assert engine.remove(gone).equals(scan.remove(gone))


def test_a_batch_that_is_large_beside_the_subscriptions_is_made_anew() -> None:
    lists = IntervalLists(ObjectIndex())
    rows = np.arange(10_000, dtype=np.int32)
    lists.add(rows, rows / 10_000, rows / 9_000, np.full(10_000, 10))
    assert [events for events in (32, 100, 1_000, 10_000) if lists.sooner_anew(events)] == [1_000, 10_000]
