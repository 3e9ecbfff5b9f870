"""What a load needs: the model by hand, and the constants of a small engine."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from rankcast import cli
from rankcast.bench import plan_command, planning
from rankcast.bench.planning import BUSY, Constants, Load, Point, calibrate, plan

KNOWN = Constants(event=10e-6, subscription=1e-9, deltas=0.001, fixed=1e6, each=100.0, row=24.0)


def test_shards_share_what_grows_with_subscriptions() -> None:
    found = plan(Load("RangeTopK", 1_000_000, 1_000), KNOWN)
    assert found.streams == 1
    assert 1_000 * KNOWN.seconds(1_000_000 / found.shards) <= BUSY
    assert found.shards == 1 or 1_000 * KNOWN.seconds(1_000_000 / (found.shards - 1)) > BUSY
    assert found.seconds == pytest.approx(found.shards * KNOWN.event + 1_000_000 * KNOWN.subscription)
    assert found.network_in == pytest.approx(found.shards * 1_000 * KNOWN.row)


def test_what_every_shard_repeats_bounds_a_stream() -> None:
    """No number of shards takes more events than one core can repeat; then events are divided first."""
    found = plan(Load("RangeTopK", 1_000, 1_000_000), KNOWN)
    assert found.streams > 1
    assert 1_000_000 / found.streams * KNOWN.event <= BUSY / 2
    assert "every shard repeats" in found.first or "sink" in found.first


def test_memory_can_break_first() -> None:
    found = plan(Load("RangeTopK", 10_000_000, 1), KNOWN, memory=100e6)
    assert found.first.startswith("memory")
    assert found.memory / found.shards <= 100e6 * 1.01


def test_events_that_are_divided_need_cores_for_their_rate() -> None:
    one, ten = (plan(Load("RankedMatcher", 100_000, rate), KNOWN) for rate in (10_000, 100_000))
    assert ten.shards == pytest.approx(10 * one.shards, rel=0.2)
    assert ten.network_in == 10 * one.network_in


def test_the_line_is_fitted_to_what_was_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    def measured(load: Load) -> Point:
        size = load.subscriptions
        return Point(size, KNOWN.seconds(size), 0.001 * size, 1e6 + 100 * size, 24.0)

    monkeypatch.setattr(planning, "measure", measured)
    found = calibrate(Load("RangeTopK", 1, 1))
    for name, value in vars(KNOWN).items():
        assert getattr(found, name) == pytest.approx(value), name


def test_bytes_are_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a real engine, beyond the sizes that were measured."""
    monkeypatch.setattr(planning, "SIZES", (1_000, 2_000, 4_000))
    load = Load("RangeTopK", 8_000, 1, 5, 500)
    known = calibrate(load)
    found = planning.measure(load, rounds=1)
    assert known.fixed + known.each * 8_000 == pytest.approx(found.bytes, rel=0.3)


def test_the_command_measures_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(plan_command.CACHE, str(tmp_path / "plan.json"))
    calls: list[Load] = []

    def counted(load: Load) -> Constants:
        calls.append(load)
        return KNOWN

    monkeypatch.setattr(planning, "calibrate", counted)
    words = ["plan", "RangeTopK", "--subscriptions", "100M", "--events", "1M"]
    assert cli.main(words) == 0
    first = capsys.readouterr().out
    assert cli.main(words) == 0
    assert capsys.readouterr().out == first
    assert len(calls) == 1
    assert cli.main([*words, "--again"]) == 0
    assert len(calls) == 2
    assert len(json.loads((tmp_path / "plan.json").read_text())) == 1
    assert "100,000,000 subscriptions, 1,000,000 events a second" in first
    assert "breaks first: " in first
    assert cli.main(["plan", "RangeTopK", "--subscriptions", "no", "--events", "1"]) == 2
    assert cli.main(["plan", "CoveringTable", "--subscriptions", "1", "--events", "1"]) == 2
