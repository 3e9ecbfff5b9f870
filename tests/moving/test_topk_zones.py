"""Safe zones of `MovingTopK`: exact along walks, safe inside, broken by what breaks them and nothing else."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import MovingTopK
from rankcast.moving import scoring
from rankcast.moving.topk_zones import TopKZones
from rankcast.tables.schema import Floats

DATA = Path(__file__).parents[3] / "shared" / "data"
METRICS = ("euclidean", "manhattan", "haversine")


def own(attributes: Floats, distance: Floats) -> Floats:
    scores: Floats = np.sqrt(distance) + attributes.sum(axis=1)
    return scores


SCORES: dict[str, Any] = {
    "sum": scoring.weighted_sum([1, 2, 0.5]),
    "product": scoring.weighted_product([1, 2, 0.5], offset=1),
    "distance": scoring.weighted_distance([1, 2], offset=1),
    "waspas": scoring.waspas([1, 2, 0.5], 0.25, offset=1),
    "own": own,
    "falling": scoring.function(lambda a, d: d - a[:, 0] + a[:, 1], falling=["a"]),
}


def crowd(size: int, seed: int, *, metric: str, ties: bool) -> dict[str, Any]:
    """Objects; with ties on a coarse grid, so that places and scores repeat."""
    rng = np.random.default_rng(seed)
    places = rng.integers(0, 6, (size, 2)).astype(float) if ties else rng.random((size, 2)) * 6
    if metric == "haversine":
        places = (places - 3) * [0.4, 5] + [180, 0]
        places[:, 0] = np.where(places[:, 0] > 180, places[:, 0] - 360, places[:, 0])
    drawn = rng.integers(0, 3, (size, 2)).astype(float) if ties else rng.random((size, 2)) * 3
    return {"id": np.arange(size), "x": places[:, 0], "y": places[:, 1], "a": drawn[:, 0], "b": drawn[:, 1]}


def walk(seed: int, steps: int, *, metric: str) -> Floats:
    """Places a small step apart, across the date line on the globe."""
    rng = np.random.default_rng(seed)
    places = 3 + np.cumsum(rng.normal(0, 0.15, (steps, 2)), axis=0)
    if metric == "haversine":
        places = (places - 3) * [0.4, 5] + [180, 0]
        places[:, 0] = (places[:, 0] + 180) % 360 - 180
    return places


def zones_of(engine: MovingTopK) -> TopKZones:
    found = engine._zones
    assert isinstance(found, TopKZones)
    return found


def safe(engine: MovingTopK, scan: MovingTopK, seed: int) -> None:
    """At random places inside a zone the results are among its members."""
    rng = np.random.default_rng(seed)
    metric = engine._metric
    for zone in engine.zones().to_pylist():
        radius = min(zone["radius"], 5.0 if metric != "haversine" else 2e6)
        for _ in range(4):
            angle, share = rng.random() * 2 * math.pi, rng.choice([1.0, rng.random()])
            dx, dy = radius * share * math.cos(angle), radius * share * math.sin(angle)
            if metric == "manhattan":
                dx, dy = (
                    dx / (abs(math.cos(angle)) + abs(math.sin(angle))),
                    dy / (abs(math.cos(angle)) + abs(math.sin(angle))),
                )
            if metric == "haversine":
                dx, dy = dx / 111_400 / math.cos(math.radians(zone["y"])) * 0.5, dy / 111_400 * 0.5
            x, y = zone["x"] + dx, zone["y"] + dy
            x = (x + 180) % 360 - 180 if metric == "haversine" else x
            scan.publish({"id": [zone["subscription"]], "x": [x], "y": [y]})
            found = scan.results([zone["subscription"]])["item"].to_pylist()
            assert set(found) <= set(zone["members"]), (zone, x, y)


@pytest.mark.parametrize("name", SCORES)
@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=4)
@given(
    st.integers(0, 10**6),
    st.booleans(),
    st.sampled_from([1, 3, 12]),
    st.sampled_from([1, 2, 6, "auto", "auto"]),
    st.booleans(),
)
def test_every_step_of_a_walk_matches_brute_force(
    name: str, metric: str, seed: int, ties: bool, k: int, m: Any, ordered: bool
) -> None:
    objects = crowd(60, seed, metric=metric, ties=ties)
    given = {"over": ["a", "b"], "k": k, "score": SCORES[name], "metric": metric}
    zone = MovingTopK(**given, m=m, ordered=ordered)
    scan, spare = (MovingTopK(**given, method="scan") for _ in range(2))
    places = walk(seed, 12, metric=metric)
    for engine in (zone, scan, spare):
        engine.upsert(objects)
        engine.subscribe({"id": [1, 2], "x": places[:2, 0], "y": places[:2, 1]})
    for step, (x, y) in enumerate(places[2:]):
        moved = {"id": [1 + step % 2], "x": [x], "y": [y]}
        assert zone.publish(moved).equals(scan.publish(moved))
        assert zone.results().equals(scan.results())
    safe(zone, spare, seed)


@settings(max_examples=12)
@given(
    st.integers(0, 10**6),
    st.sampled_from(list(SCORES)),
    st.sampled_from(METRICS),
    st.booleans(),
    st.sampled_from([3, "auto"]),
)
def test_objects_that_change_break_zones_and_leave_the_others(
    seed: int, name: str, metric: str, ties: bool, m: Any
) -> None:
    rng = np.random.default_rng(seed)
    given = {"over": ["a", "b"], "k": 3, "score": SCORES[name], "metric": metric}
    zone, scan, spare = MovingTopK(**given, m=m), *(MovingTopK(**given, method="scan") for _ in range(2))
    pool = crowd(80, seed, metric=metric, ties=ties)
    queries = walk(seed, 6, metric=metric)
    filters = {"a_lo": [None, None, 1.0, None, None, None], "b_hi": [None, 1.0, None, None, None, 2.0]}
    for engine in (zone, scan, spare):
        engine.upsert({key: column[:40] for key, column in pool.items()})
        engine.subscribe({"id": np.arange(6), "x": queries[:, 0], "y": queries[:, 1], **filters})
    live = set(range(40))
    for _ in range(10):
        rows: Any
        if rng.random() < 0.3 and live:
            call, rows = "remove", [int(rng.choice(sorted(live)))]
            live -= set(rows)
        else:
            source, target = rng.integers(0, 80, 2), rng.integers(0, 60, 2)
            call = "upsert"
            rows = {key: column[source] for key, column in pool.items()} | {"id": target}
            live |= set(target.tolist())
        answers = [getattr(engine, call)(rows) for engine in (zone, scan, spare)]
        assert answers[0].equals(answers[1])
        assert zone.results().equals(scan.results())
        zoned = zones_of(zone)
        zoned.zones.check(zone._slots.live())
    safe(zone, spare, seed)


@pytest.mark.parametrize("score", [scoring.weighted_sum([1, 1, 20]), lambda a, d: a.sum(axis=1) + 20 * d])
def test_only_broken_zones_are_recomputed(score: Any) -> None:
    objects = crowd(2_000, 3, metric="euclidean", ties=False)
    engine = MovingTopK(over=["a", "b"], k=5, m=3, score=score)
    engine.upsert(objects)
    places = np.random.default_rng(1).random((300, 2)) * 6
    engine.subscribe({"id": np.arange(300), "x": places[:, 0], "y": places[:, 1]})
    before = engine.stats()["recomputed"]
    engine.upsert({"id": [9_999], "x": [3.0], "y": [3.0], "a": [3.0], "b": [3.0]})
    assert engine.stats()["recomputed"] - before < 10
    engine.upsert({"id": [9_999], "x": [3.0], "y": [3.0], "a": [0.0], "b": [0.0]})
    broken = engine.stats()["recomputed"] - before
    assert 0 < broken < 150
    engine.upsert({"id": [9_999], "x": [3.0], "y": [3.0], "a": [0.0], "b": [0.0]})
    assert engine.stats()["recomputed"] - before == broken


def test_a_position_inside_its_zone_costs_no_index_access() -> None:
    engine = MovingTopK(over=["a", "b"], k=5, m=5)
    engine.upsert(crowd(500, 1, metric="euclidean", ties=False))
    engine.subscribe({"id": [1], "x": [3.0], "y": [3.0]})
    before, zone = engine.stats(), engine.zones().to_pylist()[0]
    engine.publish({"id": [1], "x": [3.0 + 0.99 * zone["radius"]], "y": [3.0]})
    after = engine.stats()
    assert after["rescored"] == before["rescored"] + 9
    for name in ("recomputed", "nodes_accessed", "candidates"):
        assert after[name] == before[name]
    engine.publish({"id": [1], "x": [3.0 + 1.01 * zone["radius"]], "y": [3.0]})
    assert engine.stats()["recomputed"] == before["recomputed"] + 1
    assert engine.stats()["nodes_accessed"] > before["nodes_accessed"]


CLOSED = {
    "sum": scoring.weighted_sum([1, 2, 0.5]),
    "product": scoring.weighted_product([0.1, 0.1, 1], offset=1),
    "distance": scoring.weighted_distance([1, 2], offset=1),
}


@pytest.mark.parametrize("name", CLOSED)
@pytest.mark.parametrize("seed", range(6))
def test_with_a_closed_form_and_m_of_1_the_circle_touches_the_optimal_zone(name: str, seed: int) -> None:
    engine = MovingTopK(over=["a", "b"], k=4, m=1, score=CLOSED[name])
    objects = crowd(80, seed, metric="euclidean", ties=False)
    engine.upsert(objects)
    engine.subscribe({"id": [1], "x": [3.0], "y": [3.0]})
    radius = engine.zones()["radius"][0].as_py()
    assert radius > 0
    attributes = np.column_stack([objects["a"], objects["b"]])
    changes = []
    for scale in (1 - 1e-4, 1 + 1e-4):
        best = {
            frozenset(np.argsort(CLOSED[name](attributes, away), kind="stable")[:4].tolist())
            for angle in np.linspace(0, 2 * np.pi, 2_000)
            for away in [
                np.hypot(
                    objects["x"] - 3 - scale * radius * math.cos(angle),
                    objects["y"] - 3 - scale * radius * math.sin(angle),
                )
            ]
        }
        changes.append(len(best) > 1)
    assert changes == [False, True]


def test_zones_shrink_with_k_and_grow_with_m() -> None:
    objects = crowd(3_000, 5, metric="euclidean", ties=False)
    places = np.random.default_rng(6).random((100, 2)) * 6

    def radius(k: int, m: int) -> float:
        engine = MovingTopK(over=["a", "b"], k=k, m=m)
        engine.upsert(objects)
        engine.subscribe({"id": np.arange(100), "x": places[:, 0], "y": places[:, 1]})
        return float(np.mean(engine.zones()["radius"].to_numpy()))

    assert radius(1, 1) > radius(5, 1) > radius(20, 1)
    assert radius(5, 1) < radius(5, 3) < radius(5, 10)


@pytest.mark.parametrize("circle", ["closed", "trim", "lemma"])
def test_every_way_to_a_circle_gives_the_same_results(circle: str) -> None:
    engines = [
        MovingTopK(over=["a", "b"], k=4, m=2, tuning={"circle": circle}),
        MovingTopK(over=["a", "b"], k=4),
    ]
    places = walk(9, 40, metric="euclidean")
    for engine in engines:
        engine.upsert(crowd(200, 9, metric="euclidean", ties=False))
        engine.subscribe({"id": [1], "x": places[:1, 0], "y": places[:1, 1]})
    for x, y in places[1:]:
        one, other = (engine.publish({"id": [1], "x": [x], "y": [y]}) for engine in engines)
        assert one.equals(other)
        assert engines[0].results().equals(engines[1].results())


def test_a_function_of_ones_own_gets_zones_nearly_as_large_as_can_be() -> None:
    places = np.random.default_rng(8).random((60, 2)) * 6

    def radii(score: Any, circle: str) -> Floats:
        engine = MovingTopK(over=["a", "b"], k=4, m=3, score=score, tuning={"circle": circle})
        engine.upsert(crowd(400, 8, metric="euclidean", ties=False))
        engine.subscribe({"id": np.arange(60), "x": places[:, 0], "y": places[:, 1]})
        found: Floats = engine.zones()["radius"].to_numpy()
        return found

    def plain(attributes: Floats, distance: Floats) -> Floats:
        scores: Floats = attributes @ np.array([1.0, 2.0]) + 5 * distance
        return scores

    largest = radii(scoring.weighted_sum([1, 2, 5]), "closed")
    trimmed, bounded = radii(plain, "trim"), radii(plain, "lemma")
    assert (trimmed <= largest * (1 + 1e-8)).all()  # the closed form gives way by a billionth
    assert (0.98 * bounded <= trimmed).all()
    assert trimmed.mean() > 0.9 * largest.mean() > bounded.mean()


def test_several_threads_find_the_same_zones() -> None:
    places = np.random.default_rng(2).random((300, 2)) * 6
    found = []
    for threads in (1, 2):
        engine = MovingTopK(over=["a", "b"], k=4, m=3, tuning={"threads": threads})
        engine.upsert(crowd(500, 2, metric="euclidean", ties=False))
        engine.subscribe({"id": np.arange(300), "x": places[:, 0], "y": places[:, 1]})
        found.append((engine.zones(), engine.stats()))
    assert found[0][0].equals(found[1][0])
    assert found[0][1] == found[1][1]


def test_explain_tells_of_filter_and_zone() -> None:
    engine = MovingTopK(over=["price"], k=1, m=2)
    engine.upsert({"id": ["a", "b", "c"], "x": [0, 1, 9], "y": [0, 0, 0], "price": [1, 2, 3]})
    engine.subscribe({"id": [1], "x": [0], "y": [0], "price_lo": [2]})
    told = engine.explain(1, "a")
    assert (told["rank"], told["in_result"], told["member"]) == (None, False, False)
    assert told["reason"] == "the filter of the subscription keeps it out"
    told = engine.explain(1, "b")
    assert (told["rank"], told["in_result"], told["member"], told["zone_distance"]) == (1, True, True, 0.0)


def test_a_filter_can_be_amended_and_taken_away() -> None:
    engine = MovingTopK(over=["price"], k=1)
    engine.upsert({"id": ["a", "b"], "x": [0, 1], "y": [0, 0], "price": [1, 2]})
    engine.subscribe({"id": [1], "x": [0], "y": [0], "price_lo": [2]})
    assert engine.results()["item"].to_pylist() == ["b"]
    engine.amend({"id": [1], "price_hi": [1.5], "price_lo": [None]})
    assert engine.results()["item"].to_pylist() == ["a"]
    engine.amend({"id": [1], "price_lo": [1.2]})
    assert engine.results().num_rows == 0


def table(name: str) -> Any:
    path = DATA / name
    if not path.exists():
        pytest.skip(f"real data is not here: {name}")
    return pq.read_table(path)


TRACKS = {
    "taxis": ("sf_taxi_cabspotting.parquet", "cab_id", "california_pois.parquet", "poi_id", (37.3, 38.1)),
    "traces": (
        "geolife_beijing_trajectories.parquet",
        "traj_id",
        "geonames_cities1000.parquet",
        "place_id",
        (39, 41),
    ),
}


@pytest.mark.parametrize("m", [5, "auto"])
@pytest.mark.parametrize("name", TRACKS)
def test_real_tracks_over_real_places(name: str, m: Any) -> None:
    file, key, places, id_, (south, north) = TRACKS[name]
    track = table(file).slice(0, 60_000).select([key, "lon", "lat"]).to_pandas()
    spots = table(places).select([id_, "lon", "lat"]).to_pandas()
    spots = spots[spots.lat.between(south, north)]
    walks = [group.iloc[:80] for _, group in track.groupby(key) if len(group) >= 80][:4]
    zone = MovingTopK(over=[], k=5, m=m, metric="haversine")
    scan = MovingTopK(over=[], k=5, metric="haversine", method="scan")
    ids = np.arange(len(walks))
    for step in range(80):
        now = {
            "id": ids,
            "x": [walk.lon.iloc[step] for walk in walks],
            "y": [walk.lat.iloc[step] for walk in walks],
        }
        if step == 0:
            for engine in (zone, scan):
                engine.upsert({"id": spots[id_], "x": spots.lon, "y": spots.lat})
                engine.subscribe(now)
        else:
            assert zone.publish(now).equals(scan.publish(now))
        assert zone.results().equals(scan.results())
    assert zone.stats()["recomputed"] < scan.stats()["recomputed"]
