"""Safe zones of `MovingSkyline`: exact along walks, broken by what breaks them and nothing else."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import InputError, MovingSkyline
from rankcast.moving.skyline_zones import SkylineZones
from rankcast.structures.distance import CODES, distance
from tests.moving.test_topk_zones import METRICS, TRACKS, crowd, walk

DATA = Path(__file__).parents[3] / "shared" / "data"
STEPS = 25


def zones_of(engine: MovingSkyline) -> SkylineZones:
    found = engine._zones
    assert isinstance(found, SkylineZones)
    return found


def pair(**given: Any) -> tuple[MovingSkyline, MovingSkyline]:
    return MovingSkyline(**given), MovingSkyline(**given, method="scan")


@pytest.mark.parametrize("metric", METRICS)
@settings(max_examples=12)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from(["min", "max", {"a": "max"}]), st.booleans())
def test_every_step_of_a_walk_matches_brute_force(
    metric: str, seed: int, ties: bool, prefer: Any, filters: bool
) -> None:
    zone, scan = pair(over=["a", "b"], prefer=prefer, metric=metric)
    places = walk(seed, 16, metric=metric)
    wanted = {"a_lo": [1.0, None], "b_hi": [None, 2.0]} if filters else {}
    for engine in (zone, scan):
        engine.upsert(crowd(60, seed, metric=metric, ties=ties))
        engine.subscribe({"id": [1, 2], "x": places[:2, 0], "y": places[:2, 1], **wanted})
    for step, (x, y) in enumerate(places[2:]):
        moved = {"id": [1 + step % 2], "x": [x], "y": [y]}
        assert zone.publish(moved).equals(scan.publish(moved))
        assert zone.results().equals(scan.results())


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.sampled_from(["registered", "rows", "shuffled", "repeated"]))
def test_many_positions_at_once_find_their_queries(seed: int, order: str) -> None:
    rng = np.random.default_rng(seed)
    engines = pair(over=["a", "b"])
    places = rng.random((200, 2)) * 6
    gone, back = np.arange(0, 100, 7), np.arange(0, 50, 7)
    for engine in engines:
        engine.upsert(crowd(30, seed, metric="euclidean", ties=False))
        engine.subscribe({"id": np.arange(100), "x": places[:100, 0], "y": places[:100, 1]})
        engine.unsubscribe(gone)
        engine.subscribe({"id": back[::-1], "x": places[back, 0], "y": places[back, 1]})
    ids = np.setdiff1d(np.arange(100), np.setdiff1d(gone, back))
    if order != "rows":
        ids = np.concatenate([np.setdiff1d(ids, back), back[::-1]])
    if order in ("shuffled", "repeated"):
        ids = rng.permutation(ids) if order == "shuffled" else rng.choice(ids, 120)
    moved = {"id": ids, "x": places[ids, 0], "y": places[100 + ids, 1]}
    assert engines[0].publish(moved).equals(engines[1].publish(moved))
    assert engines[0].results().equals(engines[1].results())
    before = engines[0].results()
    with pytest.raises(InputError, match="First such row: 70"):
        engines[0].publish({**moved, "id": np.concatenate([ids[:70], [7777], ids[71:]])})
    assert engines[0].results().equals(before)


@settings(max_examples=20)
@given(st.integers(0, 10**6), st.sampled_from(METRICS), st.booleans(), st.integers(1, 2))
def test_objects_that_change_break_zones_and_leave_the_others(
    seed: int, metric: str, ties: bool, attributes: int
) -> None:
    rng = np.random.default_rng(seed)
    over = ["a", "b"][:attributes]
    zone, scan = pair(over=over, metric=metric)
    pool = {name: column for name, column in crowd(80, seed, metric=metric, ties=ties).items() if name != "b"}
    if attributes == 2:
        pool["b"] = pool["a"][::-1].copy()
    queries = walk(seed, 6, metric=metric)
    filters = {"a_lo": [None, None, 1.0, None, None, None], "a_hi": [None, 1.0, None, None, None, 2.0]}
    for engine in (zone, scan):
        engine.upsert({key: column[:40] for key, column in pool.items()})
        engine.subscribe({"id": np.arange(6), "x": queries[:, 0], "y": queries[:, 1], **filters})
    live = set(range(40))
    for _ in range(10):
        rows: Any
        if rng.random() < 0.3 and live:
            call, rows = "remove", [int(rng.choice(sorted(live)))]
            live -= set(rows)
        elif rng.random() < 0.3:
            moved = walk(int(rng.integers(10**6)), 3, metric=metric)
            call, rows = "publish", {"id": [0, 2, 4], "x": moved[:, 0], "y": moved[:, 1]}
        else:
            size = int(rng.integers(1, 3))
            source, target = rng.integers(0, 80, size), rng.integers(0, 60, size)
            call = "upsert"
            rows = {key: column[source] for key, column in pool.items()} | {"id": target}
            live |= set(target.tolist())
        answers = [getattr(engine, call)(rows) for engine in (zone, scan)]
        assert answers[0].equals(answers[1])
        assert zone.results().equals(scan.results())
    zones_of(zone).zones.check(zone._slots.live())
    fresh = MovingSkyline(over=over, metric=metric, tuning={"universe": _universe(zone)})
    if metric == "euclidean":
        _same_zones(zone, fresh)


@settings(max_examples=30)
@given(st.integers(0, 10**6), st.booleans(), st.integers(0, 3), st.booleans())
def test_newcomers_mend_zones(seed: int, ties: bool, attributes: int, filters: bool) -> None:
    rng = np.random.default_rng(seed)
    over = ["a", "b", "c"][:attributes]
    zone, scan = pair(over=over)
    pool = crowd(45, seed, metric="euclidean", ties=ties) | {"c": rng.integers(0, 3, 45).astype(float)}
    pool = {name: pool[name] for name in ("id", "x", "y", *over)}
    places = walk(seed, 16, metric="euclidean")
    wanted = {"a_hi": [None, 1.0] * 4} if filters and over else {}
    for engine in (zone, scan):
        engine.upsert({name: column[:30] for name, column in pool.items()})
        engine.subscribe({"id": np.arange(8), "x": places[:8, 0], "y": places[:8, 1], **wanted})
    for step in range(30, 45):
        one = {name: column[step : step + 1] for name, column in pool.items()}
        assert zone.upsert(one).equals(scan.upsert(one))
        assert zone.results().equals(scan.results())
        if step == 37:
            moved = {"id": np.arange(8), "x": places[8:, 0], "y": places[8:, 1]}
            assert zone.publish(moved).equals(scan.publish(moved))
    _same_zones(zone, MovingSkyline(over=over, tuning={"universe": _universe(zone)}))
    zones_of(zone).zones.check(zone._slots.live())


def test_newcomers_need_no_index_where_they_mend_zones() -> None:
    engine = MovingSkyline(over=["a", "b"], tuning={"universe": (0, 0, 6, 6)})
    engine.upsert(crowd(2_000, 4, metric="euclidean", ties=False))
    places = np.random.default_rng(2).random((300, 2)) * 6
    engine.subscribe({"id": np.arange(300), "x": places[:, 0], "y": places[:, 1]})
    before = engine.stats()
    engine.upsert({"id": [9_999], "x": [3.0], "y": [3.0], "a": [0.1], "b": [0.1]})
    broken = engine.stats()["recomputed"] - before["recomputed"]
    opened = engine.stats()["nodes_accessed"] - before["nodes_accessed"]
    assert broken > 50
    assert opened < 0.3 * broken * before["nodes_accessed"] / 300


def _universe(engine: MovingSkyline) -> list[float]:
    return [float(each) for each in zones_of(engine).universe.box]


def test_an_object_that_but_bounds_a_zone_goes_without_a_search() -> None:
    engine, plain = pair(over=["a", "b"], tuning={"universe": (0, 0, 6, 6)})
    places = np.random.default_rng(2).random((60, 2)) * 6
    for each in (engine, plain):
        each.upsert(crowd(400, 4, metric="euclidean", ties=False))
        each.subscribe({"id": np.arange(60), "x": places[:, 0], "y": places[:, 1]})
    kept, results = zones_of(engine).zones.kept, engine.results()["item"].to_pylist()
    members = {int(o) for row in range(60) for o in zones_of(engine).members(row)}
    ids = engine._objects.take(np.array(sorted(members), np.int32)).to_pylist()
    bounding = sorted(set(ids) - set(results))
    assert len(bounding) > 20
    before, radius = engine.stats()["recomputed"], kept.radius[:60].copy()
    gone, moved = bounding[:10], bounding[10]
    assert engine.remove(gone).equals(plain.remove(gone))
    away = {"id": [moved], "x": [5.9], "y": [0.1], "a": [99.0], "b": [99.0]}
    assert engine.upsert(away).equals(plain.upsert(away))
    assert engine.stats()["recomputed"] == before
    zones_of(engine).zones.check(engine._slots.live())
    step = {"id": np.arange(60), "x": places[:, 0] + 0.05, "y": places[:, 1]}
    header, arrays = engine.state()
    again = MovingSkyline.restore(header, {name: array.copy() for name, array in arrays.items()})
    told = plain.publish(step)
    for each in (engine, again):
        assert each.publish(step).equals(told)
        assert each.results().equals(plain.results())
    engine.zones()
    assert not zones_of(engine).zones.loose.any()
    assert (zones_of(engine).zones.kept.radius[:60] > radius).any()
    _same_zones(engine, MovingSkyline(over=["a", "b"], tuning={"universe": _universe(engine)}))


@settings(max_examples=10)
@given(st.integers(0, 10**6), st.booleans())
def test_no_zone_is_kept_where_queries_leave_each_at_once(seed: int, ties: bool) -> None:
    rng = np.random.default_rng(seed)
    zone, scan = pair(over=["a", "b"])
    for engine in (zone, scan):
        engine.upsert(crowd(150, seed, metric="euclidean", ties=ties))
        places = np.random.default_rng(seed).random((12, 2)) * 6
        engine.subscribe({"id": np.arange(12), "x": places[:, 0], "y": places[:, 1]})
    others = crowd(24, seed + 1, metric="euclidean", ties=ties)
    for step in range(24):
        places = rng.random((12, 2)) * 6
        moved = {"id": np.arange(12), "x": places[:, 0], "y": places[:, 1]}
        one = {name: column[step : step + 1] for name, column in others.items()}
        goes = [int(20 + step)]
        assert zone.publish(moved).equals(scan.publish(moved))
        assert zone.upsert(one).equals(scan.upsert(one))
        assert zone.remove(goes).equals(scan.remove(goes))
        assert zone.results().equals(scan.results())
    kept, live = zones_of(zone).zones.kept, zone._slots.live()
    bare = (kept.corners[live] == 0) & kept.loose[live]
    assert bare.sum() > 6
    again = MovingSkyline.restore(*zone.state())
    assert again.publish(moved).num_rows == 0
    zones_of(zone).zones.check(live)
    _same_zones(zone, MovingSkyline(over=["a", "b"], tuning={"universe": _universe(zone)}))
    assert not zones_of(zone).zones.kept.loose[live].any()


def test_zones_come_back_where_queries_slow_down() -> None:
    engine = MovingSkyline(over=["a", "b"])
    engine.upsert(crowd(150, 3, metric="euclidean", ties=False))
    rng = np.random.default_rng(1)
    engine.subscribe({"id": [1], "x": [3.0], "y": [3.0]})
    for place in rng.random((14, 2)) * 6:
        engine.publish({"id": [1], "x": place[:1], "y": place[1:]})
    before = engine.stats()["recomputed"]
    for step in range(200):
        engine.publish({"id": [1], "x": [3.0 + 1e-5 * step], "y": [3.0]})
    assert 20 < engine.stats()["recomputed"] - before < 45


def _same_zones(engine: MovingSkyline, fresh: MovingSkyline) -> None:
    """Zones that outlived changes are as large as those found now, from where they were found.

    Those that have lost what bounded them are, once somebody sees them.
    """
    engine.zones()
    objects, kept, live = engine._all_objects(), zones_of(engine).zones.kept, engine._slots.live()
    columns = {name: objects.attributes[:, place] for place, name in enumerate(engine._over)}
    fresh.upsert({"id": objects.row, "x": objects.x, "y": objects.y, **columns})
    ends = {
        f"{name}_{end}": engine._slots[side][live, place]
        for place, name in enumerate(engine._over)
        for end, side in (("lo", "lower"), ("hi", "upper"))
    }
    finite = {name: [None if np.isinf(v) else v for v in values] for name, values in ends.items()}
    fresh.subscribe({"id": live, "x": kept.x[live], "y": kept.y[live], **finite})
    before, after = _areas(zones_of(engine), live), _areas(zones_of(fresh), range(live.size))
    assert np.allclose(before, after, rtol=1e-6, atol=1e-9)


def _areas(zoned: SkylineZones, rows: Any) -> list[float]:
    """The areas of zones."""
    found = []
    for row in rows:
        area = 0.0
        for number, ring in enumerate(zoned.zones.rings(int(row))):
            x, y = (ring - ring[0]).T
            size = abs(0.5 * (np.dot(x, np.roll(y, -1)) - np.dot(y, np.roll(x, -1))))
            area += size if number == 0 else -size
        found.append(area)
    return found


@pytest.mark.parametrize("attributes", [1, 3, 5])
def test_any_number_of_attributes(attributes: int) -> None:
    rng = np.random.default_rng(attributes)
    over = [f"a{number}" for number in range(attributes)]
    zone, scan = pair(over=over, prefer={over[-1]: "max"})
    objects = {"id": np.arange(200), "x": rng.random(200) * 6, "y": rng.random(200) * 6}
    objects |= {name: rng.random(200) for name in over}
    places = walk(attributes, 30, metric="euclidean")
    for engine in (zone, scan):
        engine.upsert(objects)
        engine.subscribe({"id": [1], "x": places[:1, 0], "y": places[:1, 1]})
    for x, y in places[1:]:
        one, other = (engine.publish({"id": [1], "x": [x], "y": [y]}) for engine in (zone, scan))
        assert one.equals(other)
    assert zone.results().equals(scan.results())


def test_only_broken_zones_are_recomputed() -> None:
    engine = MovingSkyline(over=["a", "b"])
    engine.upsert(crowd(2_000, 3, metric="euclidean", ties=False))
    places = np.random.default_rng(1).random((300, 2)) * 6
    engine.subscribe({"id": np.arange(300), "x": places[:, 0], "y": places[:, 1]})
    before = engine.stats()["recomputed"]
    newcomer = {"id": [9_999], "x": [3.0], "y": [3.0]}
    engine.upsert({**newcomer, "a": [3.0], "b": [3.0]})
    assert engine.stats()["recomputed"] - before < 3
    engine.upsert({**newcomer, "a": [0.1], "b": [0.1]})
    broken = engine.stats()["recomputed"] - before
    assert 0 < broken < 300
    engine.upsert({**newcomer, "a": [0.1], "b": [0.1]})
    assert engine.stats()["recomputed"] - before == broken


def test_very_many_objects_at_once_renew_all_zones() -> None:
    zone, scan = pair(over=["a", "b"])
    for engine in (zone, scan):
        engine.subscribe({"id": [1, 2], "x": [1.0, 5.0], "y": [2.0, 3.0], "a_hi": [None, 2.0]})
        engine.upsert(crowd(20, 1, metric="euclidean", ties=False))
    one, other = (engine.upsert(crowd(500, 2, metric="euclidean", ties=False)) for engine in (zone, scan))
    assert one.equals(other)
    assert zone.stats()["recomputed"] == 6


def test_a_position_inside_its_zone_costs_no_index_access() -> None:
    engine = MovingSkyline(over=["a", "b"])
    engine.upsert(crowd(500, 1, metric="euclidean", ties=False))
    engine.subscribe({"id": [1], "x": [3.0], "y": [3.0]})
    before, ring = engine.stats(), zones_of(engine).zones.rings(0)[0]
    middle = 0.99 * np.array([3.0, 3.0]) + 0.01 * ring[0]
    engine.publish({"id": [1], "x": middle[:1], "y": middle[1:]})
    after = engine.stats()
    for name in ("recomputed", "nodes_accessed", "candidates"):
        assert after[name] == before[name]
    beyond = 1.01 * ring[0] - 0.01 * np.array([3.0, 3.0])
    engine.publish({"id": [1], "x": beyond[:1], "y": beyond[1:]})
    assert engine.stats()["recomputed"] == before["recomputed"] + 1
    assert engine.stats()["nodes_accessed"] > before["nodes_accessed"]


def test_the_universe_grows_with_objects_and_queries() -> None:
    engine = MovingSkyline(over=[])
    engine.upsert({"id": [1], "x": [0.0], "y": [0.0]})
    engine.subscribe({"id": [1, 2], "x": [1.0, -1.0], "y": [0.0, 0.0]})
    first = _universe(engine)
    engine.upsert({"id": [2], "x": [100.0], "y": [0.0]})
    assert _universe(engine)[2] > 100
    engine.publish({"id": [2], "x": [0.0], "y": [900.0]})
    assert _universe(engine)[3] > 900
    assert _universe(engine)[0] < first[0]
    for row in (0, 1):
        ring = zones_of(engine).zones.rings(row)[0]
        assert ring[:, 1].max() == _universe(engine)[3]
        assert ring[:, 0].max() == pytest.approx(50.0)


def test_several_threads_find_the_same_zones() -> None:
    places = np.random.default_rng(2).random((100, 2)) * 6
    found = []
    for threads in (1, 2):
        engine = MovingSkyline(over=["a", "b"], tuning={"threads": threads})
        engine.upsert(crowd(300, 2, metric="euclidean", ties=False))
        engine.subscribe({"id": np.arange(100), "x": places[:, 0], "y": places[:, 1]})
        found.append((engine.zones(), engine.results(), engine.stats()))
    assert found[0] == found[1]


@pytest.mark.parametrize("metric", ["manhattan", "haversine"])
@settings(max_examples=10)
@given(st.integers(0, 10**6), st.booleans(), st.sampled_from([1, 3, 8]))
def test_members_of_a_circle_hold_the_skyline_all_over_it(metric: str, seed: int, ties: bool, m: int) -> None:
    rng = np.random.default_rng(seed)
    zone = MovingSkyline(over=["a", "b"], metric=metric, tuning={"m": m})
    scan = MovingSkyline(over=["a", "b"], metric=metric, method="scan")
    places = walk(seed, 4, metric=metric)
    for engine in (zone, scan):
        engine.upsert(crowd(60, seed, metric=metric, ties=ties))
        engine.subscribe({"id": np.arange(4), "x": places[:, 0], "y": places[:, 1]})
    steps = rng.normal(0, 1, (40, 2)) * np.geomspace(1e-6, 3, 40)[:, None]
    for each in zone.zones().to_pylist():
        spots = steps + np.array([each["x"], each["y"]])
        if metric == "haversine":
            spots[:, 0] = (spots[:, 0] + 180) % 360 - 180
        away = [distance(CODES[metric], each["x"], each["y"], *spot) for spot in spots]
        near = spots[np.array(away) <= each["radius"]][-6:]
        assert len(near) or each["radius"] < min(away)
        for x, y in near:
            scan.publish({"id": [each["subscription"]], "x": [x], "y": [y]})
            found = scan.results([each["subscription"]])["item"].to_pylist()
            assert set(found) <= set(each["members"])


def test_more_members_make_larger_circles() -> None:
    places = np.random.default_rng(6).random((50, 2)) * 6
    radius = []
    for m in (1, 5, 20):
        engine = MovingSkyline(over=["a", "b"], metric="manhattan", tuning={"m": m})
        engine.upsert(crowd(500, 5, metric="manhattan", ties=False))
        engine.subscribe({"id": np.arange(50), "x": places[:, 0], "y": places[:, 1]})
        radius.append(float(np.mean(engine.zones()["radius"].to_numpy())))
    assert 0 < radius[0] < radius[1] < radius[2]


@pytest.mark.parametrize("name", TRACKS)
def test_real_tracks_over_real_places(name: str) -> None:
    file, key, places, id_, (south, north) = TRACKS[name]
    for path in (DATA / file, DATA / places):
        if not path.exists():
            pytest.skip(f"real data is not here: {path.name}")
    track = pq.read_table(DATA / file).slice(0, 60_000).select([key, "lon", "lat"]).to_pandas()
    spots = pq.read_table(DATA / places).select([id_, "lon", "lat"]).to_pandas()
    spots = spots[spots.lat.between(south, north)]
    grade = np.random.default_rng(0).integers(1, 6, (len(spots), 2))
    walks = [group.iloc[:STEPS] for _, group in track.groupby(key) if len(group) >= STEPS][:3]
    for metric in ("euclidean", "haversine"):
        zone, scan = pair(over=["a", "b"], metric=metric)
        for step in range(STEPS):
            now = {
                "id": np.arange(len(walks)),
                "x": [walk.lon.iloc[step] for walk in walks],
                "y": [walk.lat.iloc[step] for walk in walks],
            }
            if step == 0:
                columns = {"x": spots.lon, "y": spots.lat, "a": grade[:, 0], "b": grade[:, 1]}
                for engine in (zone, scan):
                    engine.upsert({"id": spots[id_], **columns})
                    engine.subscribe(now)
            else:
                assert zone.publish(now).equals(scan.publish(now))
            assert zone.results().equals(scan.results())
        assert zone.stats()["recomputed"] < scan.stats()["recomputed"]


@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
@pytest.mark.parametrize("best", [True, False])
def test_hundreds_of_twins_at_one_place(metric: str, best: bool) -> None:
    """In the skyline, or only bounding zones: whoever goes or comes, results are those of the scan."""
    rng = np.random.default_rng(4)
    twins, others = 400, 60
    ids = rng.permutation(twins + others)
    price = np.append(np.full(twins, 0.5 if best else 2.5), rng.uniform(1, 4, others))
    objects = {"id": ids, "x": np.append(np.full(twins, 5.0), rng.uniform(0, 10, others))}
    objects |= {"y": np.append(np.full(twins, 5.0), rng.uniform(0, 10, others)), "a": price}
    engines = [MovingSkyline(over=["a"], metric=metric, method=method) for method in ("zone", "scan")]
    places = {"x": rng.uniform(3, 7, 4), "y": rng.uniform(3, 7, 4)}
    for engine in engines:
        engine.upsert(objects)
        engine.subscribe({"id": np.arange(4), **places})
    assert engines[0].results() == engines[1].results()
    for step in range(6):
        moved = {"id": np.arange(4), **{axis: values + 0.3 * step for axis, values in places.items()}}
        assert engines[0].publish(moved) == engines[1].publish(moved)
        gone = ids[step * 7 : step * 7 + 7]
        assert engines[0].remove(gone) == engines[1].remove(gone)
        back = {"id": gone[:2], "x": [5.0, 5.0], "y": [5.0, 5.0], "a": [price[0], price[0]]}
        assert engines[0].upsert(back) == engines[1].upsert(back)
        assert engines[0].results() == engines[1].results()
