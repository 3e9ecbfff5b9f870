"""`m="auto"`: exact, safe and alike whatever the motion, and no dearer than searching anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import MovingTopK
from rankcast.errors import SettingError, SnapshotError
from rankcast.moving import scoring
from rankcast.moving.auto_zones import LINEAR, AutoTopKZones
from rankcast.moving.kernels.auto_zone import target
from tests.moving.test_topk_zones import METRICS, SCORES, crowd, safe

BUILT = [name for name in SCORES if name not in ("own", "falling")]


def globe(places: Any) -> Any:
    """Places of the plane around the date line."""
    found = (places - 3) * [0.4, 5] + [180, 0]
    found[:, 0] = (found[:, 0] + 180) % 360 - 180
    return found


def zones_of(engine: MovingTopK) -> AutoTopKZones:
    found = engine._zones
    assert isinstance(found, AutoTopKZones)
    return found


@pytest.mark.parametrize("name", BUILT)
@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=5)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([1, 2, 20]), st.sampled_from([0.001, 0.05, 0.6]))
def test_long_drives_of_any_speed_match_brute_force(
    name: str, metric: str, seed: int, ties: bool, k: int, speed: float
) -> None:
    rng = np.random.default_rng(seed)
    objects = crowd(300, seed, metric=metric, ties=ties)
    given = {"over": ["a", "b"], "k": k, "score": SCORES[name], "metric": metric}
    zone, scan, spare = MovingTopK(**given), *(MovingTopK(**given, method="scan") for _ in range(2))
    at, way = rng.random((3, 2)) * 6, rng.normal(0, speed, (3, 2))
    for step in range(45):
        jump = rng.random(3) < 0.03
        at = np.where(jump[:, None], rng.random((3, 2)) * 6, at + way * rng.uniform(0, 2, (3, 1)))
        spots = globe(at) if metric == "haversine" else at
        now = {
            "id": [1, 2, 3],
            "x": spots[:, 0],
            "y": spots[:, 1].clip(-60, 60) if metric == "haversine" else spots[:, 1],
        }
        if step == 0:
            for engine in (zone, scan, spare):
                engine.upsert(objects)
                engine.subscribe(now)
        else:
            assert zone.publish(now).equals(scan.publish(now))
        assert zone.results().equals(scan.results())
    safe(zone, spare, seed)


def drive(engine: MovingTopK, speed: float, steps: int, *, cars: int = 50, seed: int = 3) -> None:
    """Cars that drive straight on, over many objects."""
    rng = np.random.default_rng(seed)
    at, angle = rng.random((cars, 2)) * 60, rng.random(cars) * 7
    for step in range(steps):
        now = {"id": np.arange(cars), "x": at[:, 0], "y": at[:, 1]}
        engine.publish(now) if step else engine.subscribe(now)
        at = at + speed * np.column_stack([np.cos(angle), np.sin(angle)])


def loaded(**settings: Any) -> MovingTopK:
    rng = np.random.default_rng(5)
    engine = MovingTopK(**{"over": [], "k": 5, "tuning": {"threads": 1}, **settings})
    engine.upsert({"id": np.arange(20_000), "x": rng.random(20_000) * 60, "y": rng.random(20_000) * 60})
    return engine


def test_slow_queries_get_zones_and_fast_ones_points() -> None:
    slow, fast = loaded(), loaded()
    drive(slow, 0.02, 60)
    drive(fast, 3.0, 30)
    assert slow.stats()["recomputed"] < 50 * 60 / 4
    assert (slow.zones()["radius"].to_numpy() > 0).mean() > 0.9
    assert (fast.zones()["radius"].to_numpy() == 0).mean() > 0.9


def test_a_query_that_slows_down_gets_a_zone_again() -> None:
    engine = loaded()
    drive(engine, 3.0, 20)
    assert (engine.zones()["radius"].to_numpy() == 0).mean() > 0.9
    at = {name: engine._slots[name][:50].copy() for name in ("x", "y")}
    for step in range(60):
        engine.publish({"id": np.arange(50), "x": at["x"] + 0.002 * step, "y": at["y"]})
    assert (engine.zones()["radius"].to_numpy() > 0).mean() > 0.9


def test_a_query_that_stands_still_costs_no_search() -> None:
    engine = loaded()
    drive(engine, 3.0, 20)
    before = engine.stats()["recomputed"]
    at = {name: engine._slots[name][:50].copy() for name in ("x", "y")}
    engine.publish({"id": np.arange(50), **at})
    assert engine.stats()["recomputed"] == before


def test_equal_histories_make_equal_engines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RANKCAST_HASH_SEED", "7")
    one, other = loaded(), loaded(tuning={"threads": 2})
    drive(one, 0.3, 12)
    drive(other, 0.3, 12)
    one.save(tmp_path / "one")
    again = MovingTopK.load(tmp_path / "one")
    at = {name: one._slots[name][:50].copy() for name in ("x", "y")}
    for step in range(40):
        now = {"id": np.arange(50), "x": at["x"] + 0.3 * step, "y": at["y"]}
        answers = [engine.publish(now) for engine in (one, other, again)]
        assert answers[0].equals(answers[1])
        assert answers[0].equals(answers[2])
    tables = [engine.zones() for engine in (one, other, again)]
    assert tables[0].equals(tables[1])
    assert tables[0].equals(tables[2])
    for name, column in zones_of(one).paces.known._asdict().items():
        assert np.array_equal(column, getattr(zones_of(again).paces.known, name)), name
        assert np.array_equal(column, getattr(zones_of(other).paces.known, name)), name


def test_a_query_that_comes_anew_knows_nothing_of_the_one_before() -> None:
    engine = loaded()
    drive(engine, 3.0, 10)
    engine.unsubscribe(list(range(50)))
    engine.subscribe({"id": [1_000], "x": [30.0], "y": [30.0]})
    assert engine.zones()["radius"].to_pylist()[0] > 0


def test_paces_of_a_snapshot_are_checked() -> None:
    table = zones_of(loaded()).paces
    table.begin(np.arange(3, dtype=np.int32))
    live = np.ones(3, np.bool_)
    table.check_restored(live)
    for name, bad in (("pace", np.nan), ("scale", np.nan), ("steps", -1)):
        header, arrays = table.state()
        made_up = {key: array.copy() for key, array in arrays.items()}
        made_up[name][0] = bad
        with pytest.raises(SnapshotError):
            type(table)().restore(header, made_up).check_restored(live)
    with pytest.raises(SnapshotError):
        table.check_restored(np.ones(40, np.bool_))


@pytest.mark.parametrize("count", [9, 300, 5_000])
def test_equal_objects_at_one_place_have_a_zone(count: int) -> None:
    engine = MovingTopK(over=[], k=3)
    engine.upsert({"id": np.arange(count), "x": np.ones(count), "y": np.ones(count)})
    engine.upsert({"id": [-1, -2, -3, -4], "x": [50, 51, 52, 53], "y": [50, 51, 52, 53]})
    engine.subscribe({"id": [1], "x": [0.0], "y": [0.0]})
    assert engine.results()["item"].to_pylist() == [0, 1, 2]
    for step in range(6):
        engine.publish({"id": [1], "x": [0.3 * step], "y": [0.0]})
    zone = engine.zones().to_pylist()[0]
    assert zone["radius"] > 0.1
    assert zone["members"][:3] == [0, 1, 2]
    assert len(zone["members"]) < 10


@pytest.mark.parametrize("m", ["auto", 5])
@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
def test_far_from_a_cluster_a_zone_is_found_at_once(metric: str, m: Any) -> None:
    rng = np.random.default_rng(1)
    engine = MovingTopK(over=[], k=10, m=m, metric=metric)
    engine.upsert(
        {"id": np.arange(100_000), **dict(zip("xy", rng.normal(0, 0.01, (2, 100_000)), strict=True))}
    )
    engine.subscribe({"id": [1], "x": [80.0], "y": [60.0]})
    assert engine.stats()["candidates"] < 30_000
    zone = engine.zones().to_pylist()[0]
    assert zone["radius"] > 0
    scan = MovingTopK(over=[], k=10, metric=metric, method="scan")
    scan.upsert(engine.objects())
    scan.subscribe({"id": [1], "x": [80.0], "y": [60.0]})
    reach = 0.99 * zone["radius"] / (1 if metric == "euclidean" else 111_195)
    for angle in np.linspace(0, 6, 7):
        at = {"x": [80 + reach * np.cos(angle)], "y": [60 + reach * np.sin(angle)]}
        scan.publish({"id": [1], **at})
        assert set(scan.results()["item"].to_pylist()) <= set(zone["members"])


@pytest.mark.parametrize("bad", [0, -1, 1.5, "all", None, True])
def test_m_is_checked(bad: Any) -> None:
    with pytest.raises(SettingError, match='"auto"'):
        MovingTopK(over=[], m=bad)


@settings(max_examples=60)
@given(st.floats(1e-3, 1e6), st.floats(1e-6, 1e6), st.integers(1, 50), st.integers(100, 400))
def test_the_radius_chosen_never_costs_more_than_searching(
    pace: float, scale: float, k: int, most: int
) -> None:
    radius = target(LINEAR, pace, scale, k, most)
    assert radius >= 0
    if radius == 0:
        return
    members, ahead = k * (1 + radius / scale) ** 2, radius / pace - 0.5
    assert members <= most * (1 + 1e-9)
    zone = LINEAR.search + LINEAR.found * members + ahead * (LINEAR.follow + LINEAR.member * members)
    assert zone / (ahead + 1) <= LINEAR.point * (1 + 1e-9)


def test_a_batch_cut_into_single_rows_gives_the_same_results() -> None:
    one, many = loaded(score=scoring.weighted_sum([1.0])), loaded(score=scoring.weighted_sum([1.0]))
    drive(one, 0.4, 2)
    drive(many, 0.4, 2)
    at = {name: one._slots[name][:50].copy() for name in ("x", "y")}
    for step in range(5):
        now = {"id": np.arange(50), "x": at["x"] + 0.4 * step, "y": at["y"]}
        one.publish(now)
        for row in range(50):
            many.publish({name: column[row : row + 1] for name, column in now.items()})
        assert one.results().equals(many.results())
