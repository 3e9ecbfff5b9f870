"""Objects a rounding error apart: skylines are those of brute force, and zones are still worth having."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import MovingSkyline
from tests.moving.test_skyline_zones import pair, zones_of

TOWNS = {"unit": (1.0, 0.0, 0.0), "metres": (20_000.0, 5e5, 4.5e6), "degrees": (0.3, -74.1, 40.6)}
QUERIES, STEPS = 25, 12


def doubled(town: str, seed: int, size: int, *, aslant: bool) -> dict[str, Any]:
    """Objects, half of which have another one unit in the last place beside them, as good or worse."""
    side, x, y = TOWNS[town]
    rng = np.random.default_rng(seed)
    place, attribute = rng.random((size, 2)) * side + (x, y), rng.random((size, 2))
    twice = rng.random(size) < 0.5
    beside, alike = place[twice], attribute[twice]
    beside[:, 0] = np.nextafter(beside[:, 0], np.inf)
    if aslant:
        beside[:, 1] = np.nextafter(beside[:, 1], -np.inf)
    alike += 0.05 * rng.random(alike.shape) * (rng.random((len(alike), 1)) < 0.5)
    place, attribute = np.vstack([place, beside]), np.vstack([attribute, alike])
    columns = {"x": place[:, 0], "y": place[:, 1], "a": attribute[:, 0], "b": attribute[:, 1]}
    return {"id": np.arange(len(place)), **columns}


def walked(town: str, seed: int) -> list[dict[str, Any]]:
    """Positions of queries that go straight on."""
    side, x, y = TOWNS[town]
    rng = np.random.default_rng(seed)
    start, turn = rng.random((QUERIES, 2)) * side + (x, y), rng.random(QUERIES) * 2 * np.pi
    way = np.column_stack([np.cos(turn), np.sin(turn)]) * side * 1e-4
    steps = [start + step * way for step in range(STEPS)]
    return [{"id": np.arange(QUERIES), "x": step[:, 0], "y": step[:, 1]} for step in steps]


@pytest.mark.parametrize("aslant", [False, True])
@pytest.mark.parametrize("town", TOWNS)
def test_zones_hold_where_objects_are_a_rounding_error_apart(town: str, aslant: bool) -> None:
    zone, scan = pair(over=["a", "b"])
    steps, objects = walked(town, 3), doubled(town, 2, 300, aslant=aslant)
    for engine in (zone, scan):
        engine.upsert(objects)
        engine.subscribe(steps[0])
    before = zone.stats()["recomputed"]
    for positions in steps[1:]:
        assert zone.publish(positions).equals(scan.publish(positions))
    assert zone.results().equals(scan.results())
    assert zone.stats()["recomputed"] - before <= 0.2 * QUERIES * (STEPS - 1)


@settings(max_examples=15)
@given(st.integers(0, 10**6), st.sampled_from(sorted(TOWNS)), st.booleans())
def test_changes_and_long_ways_among_them_match_brute_force(seed: int, town: str, aslant: bool) -> None:
    zone, scan = pair(over=["a", "b"])
    side = TOWNS[town][0]
    rng = np.random.default_rng(seed)
    objects, steps = doubled(town, seed, 60, aslant=aslant), walked(town, seed)
    for engine in (zone, scan):
        engine.upsert({name: column[:70] for name, column in objects.items()})
        engine.subscribe(steps[0])
    for step in range(1, 6):
        moved = {**steps[step], "x": steps[step]["x"] + rng.normal(0, 0.03 * side, QUERIES)}
        some = rng.integers(0, len(objects["id"]), 2)
        changed = {name: column[some] for name, column in objects.items()}
        for call, rows in (("publish", moved), ("upsert", changed)):
            assert getattr(zone, call)(rows).equals(getattr(scan, call)(rows))
        assert zone.results().equals(scan.results())
    zones_of(zone).zones.check(zone._slots.live())
    again = MovingSkyline.restore(*zone.state())
    moved = {**steps[7], "y": steps[7]["y"] + rng.normal(0, 0.03 * side, QUERIES)}
    assert again.publish(moved).equals(scan.publish(moved))


def test_a_zone_in_which_rounding_decides_is_told_as_a_point() -> None:
    engine = MovingSkyline(over=["a"])
    x = [0.7, np.nextafter(0.7, 1.0), 0.1]
    engine.upsert({"id": [1, 2, 3], "x": x, "y": [0.5, 0.5, 0.2], "a": [1.0, 1.0, 2.0]})
    engine.subscribe({"id": [1], "x": [0.3], "y": [0.4]})
    kept = zones_of(engine).zones.kept
    assert kept.judged[0] > 0
    assert kept.corners[0] > 0
    assert len(engine.zones()["geometry"][0].as_py()) == 21
    _, zones = engine.publish({"id": [1], "x": [0.9], "y": [0.9]}, zones=True)
    assert zones["geometry"].null_count == zones.num_rows
