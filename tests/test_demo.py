"""The demonstrations run, end by themselves and tell whose lists changed."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from rankcast import warm
from rankcast.cli import main
from rankcast.core.spec import ENGINES
from rankcast.demo import scenes
from rankcast.demo.commands import play


@pytest.mark.parametrize("name", scenes.NAMES)
def test_a_scene_plays_to_its_end(name: str) -> None:
    screen = io.StringIO()
    scene = scenes.build(name, batches=5)
    tally = play(scene, 5, Console(file=screen, width=100))
    shown = screen.getvalue()
    assert tally.answers > 0
    assert name in shown
    assert f"{tally.events:,} events" in shown
    assert all(column in shown for column in scene.columns)


@pytest.mark.parametrize("name", scenes.NAMES)
def test_a_scene_is_the_same_every_time(name: str) -> None:
    one, other = (scenes.build(name, batches=2, seed=3) for _ in range(2))
    for (call, rows), (same_call, same_rows) in zip(one.calls, other.calls, strict=True):
        answer, twin = getattr(one.engine, call)(rows), getattr(other.engine, same_call)(same_rows)
        assert answer is twin is None or answer.equals(twin)


@pytest.mark.parametrize("name", scenes.NAMES)
def test_a_scene_is_played_to_compile_its_kernels(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("gc.disable", lambda: None)
    warm.play(name)


def test_every_engine_can_be_compiled_ahead(capsys: pytest.CaptureFixture[str]) -> None:
    assert {home.rpartition(":")[2] for home in ENGINES.values()} == set(warm.SCENES)
    assert set(warm.SCENES.values()) == set(warm.ENCORES) == set(scenes.NAMES)
    assert main(["warm", "Nosuch"]) == 2
    told = capsys.readouterr().err
    assert "Nosuch" in told
    assert "RangeTopK" in told
    assert len(told.splitlines()) == 1


def test_the_command_plays_one_scene(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["demo", "ads", "--batches", "1"]) == 0
    assert "campaign" in capsys.readouterr().out


@pytest.mark.parametrize("words", [["demo", "nosuch"], ["demo", "ads", "--batches", "0"]])
def test_a_mistake_is_answered_with_one_line(words: list[str], capsys: pytest.CaptureFixture[str]) -> None:
    assert main(words) == 2
    assert len(capsys.readouterr().err.splitlines()) == 1
