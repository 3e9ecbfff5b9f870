"""The city: exact at every engine, the same for a seed, shown on a terminal, in lines and as a page."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from rich.console import Console

from rankcast.demo.city.evening import HEIGHT, NAMES, TITLES, WIDTH, City, Town, district_of
from rankcast.demo.city.report import Tracks, outline, show
from rankcast.demo.city.screen import Screen

STEPS = 6


@pytest.fixture(scope="module")
def lived() -> Town:
    """A town after some steps."""
    town = Town(City(3))
    for minute in town.city.minutes(STEPS):
        town.live(minute)
    return town


def test_every_engine_agrees_with_brute_force(lived: Town) -> None:
    obvious = Town(City(3), brute_force=True)
    for minute in obvious.city.minutes(STEPS):
        obvious.live(minute)
    mine, plain = lived.results(), obvious.results()
    assert {name: mine[name].equals(plain[name]) for name in mine} == dict.fromkeys(mine, True)
    for name, tally in lived.tallies.items():
        twin = obvious.tallies[name]
        assert (tally.events, tally.by_minute) == (twin.events, twin.by_minute), name
        assert tally.answers > 0
        assert 0 < tally.spared <= tally.all
    assert lived.reached > lived.tiles > 0
    assert lived.areas > lived.forwarded > 0


def test_tiles_bring_watchers_what_deltas_do(lived: Town) -> None:
    assert lived.network.results().equals(lived.prices.results())


@pytest.mark.parametrize(("width", "height"), [(140, 42), (80, 24)])
def test_a_terminal_shows_the_map_and_a_panel_an_engine(
    width: int, height: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("rankcast.demo.city.screen.PACE", 1000)
    screen = io.StringIO()
    console = Console(file=screen, width=width, height=height, force_terminal=True, color_system=None)
    Screen(Town(City(3)), 2, console, lambda _: None).play()
    shown = screen.getvalue()
    assert all(title in shown for title in TITLES.values())
    assert ("─ the city ─" in shown) == ("◉" in shown) == (width == 140)
    last = shown.rpartition("one city, five engines")[2].splitlines()
    assert len(last) <= height


def test_the_show_ends_with_a_summary_and_a_page(tmp_path: Path) -> None:
    screen, target = io.StringIO(), tmp_path / "pages" / "city.html"
    town = show(Console(file=screen, width=120), seconds=1, seed=3, target=target)
    lines = screen.getvalue().splitlines()
    assert lines[-1].endswith(target.as_uri())
    assert f"moving {town.tallies['moving'].events:,} > {town.tallies['moving'].answers:,}" in lines[1]
    page = target.read_text()
    for figure in ("map", "told", "steps", "spared", "network"):
        assert f'id="figure-{figure}"' in page
    assert page.count("<svg") == page.count("<figcaption") == 5


@pytest.mark.parametrize("number", range(len(NAMES)))
def test_a_district_is_what_is_nearest_to_its_centre(number: int) -> None:
    corners = outline(number)
    inside = corners.mean(axis=0) + 0.99 * (corners - corners.mean(axis=0))
    assert set(district_of(inside[:, 0], inside[:, 1]).tolist()) == {number}


def test_districts_leave_nothing_out() -> None:
    area = sum(_area(outline(number)) for number in range(len(NAMES)))
    assert area == pytest.approx(WIDTH * HEIGHT)


def _area(corners: Any) -> float:
    x, y = corners.T
    return float(abs(x @ np.roll(y, 1) - y @ np.roll(x, 1)) / 2)


def test_a_track_remembers_the_last_steps_only() -> None:
    tracks = Tracks()
    for minute in City(3).minutes(70):
        tracks.note(minute)
    assert len(tracks.couriers) == 60
    assert len(tracks.deals) == 25
