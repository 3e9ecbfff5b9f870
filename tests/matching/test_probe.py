"""The best few hundred before the index: the same answers, and looked at only where that pays."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

from rankcast import RankedMatcher
from rankcast.core import contract
from rankcast.core.contract import Reference
from rankcast.errors import SnapshotError
from rankcast.matching import probe
from rankcast.matching.indexes import AutomaticIndex
from rankcast.matching.probe import OFF, ON, TRIAL, Probe
from tests.laws.matching import workloads
from tests.matching.histories import columns, follow


@pytest.fixture
def eager(monkeypatch: pytest.MonkeyPatch) -> None:
    """Probes that are on from the second event on, whatever they cost, and a small head."""
    monkeypatch.setattr(probe, "FIRST", 0.0)
    monkeypatch.setattr(probe, "LOSS", 1e12)
    monkeypatch.setattr(probe, "TRIED", 1)
    monkeypatch.setattr(probe, "CALL", -1e9)
    monkeypatch.setattr(probe, "HEAD", 40)


@pytest.mark.usefixtures("eager")
@pytest.mark.parametrize("dimensions", [1, 3])
def test_a_head_that_rows_enter_and_leave_answers_as_brute_force(dimensions: int) -> None:
    rng = np.random.default_rng(dimensions)
    index = AutomaticIndex(dimensions, combine=None)
    looked: list[int] = []
    plain = Probe.search

    def search(self: Probe, *given: Any) -> Any:
        found = plain(self, *given)
        looked.append(self.mode)
        return found

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Probe, "search", search)
        for ties in (True, False):
            c = columns(dimensions, None, rng, ties=ties)
            index = AutomaticIndex(dimensions, combine=None)
            follow(index, c, None, rng)
    assert looked.count(ON) > 20


@pytest.mark.usefixtures("eager")
def test_the_laws_hold_while_the_head_is_looked_at() -> None:
    @settings(max_examples=40, suppress_health_check=[HealthCheck.too_slow])
    @given(workloads())
    def laws(workload: contract.Workload) -> None:
        def make(given: dict[str, Any]) -> RankedMatcher:
            return RankedMatcher(**given)

        model = Reference(RankedMatcher(**{**workload.settings, "index": "scan"}))
        contract.follow(make, model, workload, tolerance=0.0)
        whole = contract.run(make, workload)
        contract.cut(make, workload, whole)

    laws()


def crowd(rng: np.random.Generator, *, wide: bool, count: int = 6000) -> dict[str, Any]:
    """Intervals that nearly every event meets, or hardly any."""
    lo = rng.random(count) * (0.1 if wide else 100.0)
    width = 100.0 if wide else 0.01
    return {"id": np.arange(count), "x_lo": lo, "x_hi": lo + width, "score": rng.random(count)}


def publish(engine: RankedMatcher, rng: np.random.Generator, times: int = 8, size: int = 500) -> None:
    for _ in range(times):
        engine.publish({"id": np.arange(size), "x": 1 + rng.random(size) * 90})


def mode(engine: RankedMatcher) -> int:
    chosen = engine._index
    assert isinstance(chosen, AutomaticIndex)
    return chosen._probe.mode


def test_it_learns_where_the_head_is_enough_and_stops_where_it_is_no_more() -> None:
    rng = np.random.default_rng(5)
    engine, sparse = RankedMatcher(over="x", k=10), RankedMatcher(over="x", k=10)
    engine.subscribe(crowd(rng, wide=True))
    sparse.subscribe(crowd(rng, wide=False))
    for each in (engine, sparse):
        publish(each, rng)
    assert (mode(engine), mode(sparse)) == (ON, OFF)
    engine.amend({"id": np.arange(6000), "x_lo": rng.random(6000), "x_hi": 1 + rng.random(6000)})
    publish(engine, rng, times=40)
    assert mode(engine) == OFF


def test_trials_become_rare_where_they_are_in_vain() -> None:
    rng = np.random.default_rng(6)
    engine, modes = RankedMatcher(over="x", k=10), []
    engine.subscribe(crowd(rng, wide=False))
    for place in range(3000):
        engine.publish([{"id": place, "x": 1 + 90 * float(rng.random())}])
        modes.append(mode(engine))
    assert ON not in modes
    assert 0 < modes.count(TRIAL) <= 3 * probe.TRIED


def test_a_loaded_matcher_looks_at_the_same_head(tmp_path: Path) -> None:
    rng = np.random.default_rng(7)
    engine = RankedMatcher(over="x", k=10)
    engine.subscribe(crowd(rng, wide=True))
    publish(engine, rng)
    engine.unsubscribe(np.arange(0, 6000, 3))
    engine.save(tmp_path / "saved")
    loaded = RankedMatcher.load(tmp_path / "saved")
    events = {"id": np.arange(50), "x": 1 + rng.random(50) * 90}
    assert mode(loaded) == ON
    assert loaded.publish(events).equals(engine.publish(events))
    assert loaded.stats() == engine.stats()


@pytest.mark.parametrize("wrong", ["swapped", "gone", "twice", "short"])
def test_a_head_that_is_not_the_best_is_refused(wrong: str, tmp_path: Path) -> None:
    rng = np.random.default_rng(8)
    engine = RankedMatcher(over="x", k=10)
    engine.subscribe(crowd(rng, wide=True))
    publish(engine, rng)
    chosen = engine._index
    assert isinstance(chosen, AutomaticIndex)
    head = chosen._probe.head.copy()
    if wrong == "swapped":
        head[[0, 1]] = head[[1, 0]]
    elif wrong == "gone":
        head[5] = 7000
    elif wrong == "twice":
        head[5] = head[4]
    else:
        head = head[1:]
    chosen._probe.head = head
    engine.save(tmp_path / "saved")
    with pytest.raises(SnapshotError, match="head"):
        RankedMatcher.load(tmp_path / "saved")
