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


def bent(size: float) -> float:
    """What an event takes: the more there are, the less each adds."""
    return 10e-6 + 1e-8 * float(size**0.8)


def test_times_are_those_that_were_measured(monkeypatch: pytest.MonkeyPatch) -> None:
    """Straight between them and beyond them; the bytes are on a line."""

    def measured(loads: list[Load]) -> list[Point]:
        sizes = [load.subscriptions for load in loads]
        return [Point(size, bent(size), 0.001 * size, 1e6 + 100 * size, 24.0) for size in sizes]

    monkeypatch.setattr(planning, "measure", measured)
    found = calibrate(Load("RangeTopK", 1, 1))
    for name in ("deltas", "fixed", "each", "row"):
        assert getattr(found, name) == pytest.approx(getattr(KNOWN, name)), name
    for size in planning.SIZES:
        assert found.seconds(size) == pytest.approx(bent(size))
    for size in (2_000, 10_000, 60_000, 160_000):
        assert found.seconds(size) == pytest.approx(bent(size), rel=0.1)
    for size in (0, 100, 5_000, 70_000, 1_000_000):
        assert found.most(found.seconds(size)) == pytest.approx(size)


def test_a_busy_moment_does_not_turn_the_line() -> None:
    """A size that seems quicker than a smaller one takes as long as that."""
    flat = Constants(1e-6, 0.0, 1.0, 0.0, 1.0, 1.0, sizes=(1e4, 2e4), times=(2e-6, 2e-6))
    assert flat.seconds(1e9) == 2e-6
    assert flat.most(3e-6) == float("inf")
    assert plan(Load("RangeTopK", 10**9, 1), flat, memory=1e12).shards == 1


def test_bytes_are_predicted(monkeypatch: pytest.MonkeyPatch) -> None:
    """Those of a real engine, beyond the sizes that were measured."""
    monkeypatch.setattr(planning, "SIZES", (1_000, 2_000, 4_000))
    load = Load("RangeTopK", 8_000, 1, 5, 500)
    known = calibrate(load)
    (found,) = planning.measure([load], rounds=1)
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
