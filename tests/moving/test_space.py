"""Places of three dimensions: `dimensions=3`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankcast import MovingSkyline, MovingTopK, geo, scoring
from rankcast.errors import InputError, SettingError
from rankcast.moving.kernels.circles import to_hyperbola
from rankcast.zone import Follower

SCORES: dict[str, Any] = {
    "sum": scoring.weighted_sum([1, 2]),
    "product": scoring.weighted_product([1, 2]),
    "distance": scoring.weighted_distance([1]),
    "waspas": scoring.waspas([1, 1], 0.5),
    "own": lambda attributes, distance: attributes[:, 0] + distance**1.5,
}


def cloud(rng: np.random.Generator, size: int, first: int = 0) -> dict[str, Any]:
    places = {axis: rng.uniform(0, 9, size) for axis in "xyz"}
    return {"id": np.arange(first, first + size), **places, "a": rng.uniform(1, 4, size)}


@pytest.mark.parametrize("m", ["auto", 1, 4])
@pytest.mark.parametrize("score", SCORES)
def test_zones_and_results_are_those_of_the_scan(score: str, m: Any) -> None:
    """Through moves and changes; and wherever in a sphere a query goes, its result is among the members."""
    rng = np.random.default_rng(11)
    engines = [
        MovingTopK(over=["a"], k=3, m=m, score=SCORES[score], dimensions=3, method=method)
        for method in ("zone", "scan")
    ]
    world = cloud(rng, 150)
    queries: dict[str, Any] = {"id": np.arange(8), **{axis: rng.uniform(0, 9, 8) for axis in "xyz"}}
    for engine in engines:
        engine.upsert(world)
        engine.subscribe(queries)
    for _ in range(8):
        queries |= {axis: queries[axis] + rng.normal(0, 0.2, 8) for axis in "xyz"}
        assert engines[0].publish(queries) == engines[1].publish(queries)
        more = cloud(rng, 3, int(rng.integers(0, 150)))
        assert engines[0].upsert(more) == engines[1].upsert(more)
        assert engines[0].results() == engines[1].results()
    assert engines[0].stats()["recomputed"] < engines[1].stats()["recomputed"]
    zones = engines[0].zones().to_pylist()
    assert any(zone["radius"] > 0 for zone in zones)
    scan = engines[1]
    for _ in range(20):
        ways = rng.normal(0, 1, (8, 3))
        ways /= np.sqrt((ways * ways).sum(axis=1))[:, None]
        share = rng.choice([0.2, 0.9, 1 - 1e-12], 8)
        reach = share * [min(zone["radius"], 5.0) for zone in zones]
        centre = np.array([[zone[axis] for axis in "xyz"] for zone in zones])
        spots = centre + ways * reach[:, None]
        scan.publish({"id": np.arange(8), **dict(zip("xyz", spots.T, strict=True))})
        for row in scan.results().to_pylist():
            assert row["item"] in zones[row["subscription"]]["members"]


def test_a_zone_of_nearest_neighbours_is_as_large_as_it_can_be() -> None:
    """Two objects: the sphere touches the plane between them."""
    engine = MovingTopK(over=[], k=1, m=1, dimensions=3)
    engine.upsert({"id": [1, 2], "x": [0, 4], "y": [0, 4], "z": [0, 2]})
    engine.subscribe({"id": [1], "x": [1], "y": [0], "z": [0]})
    radius = engine.zones()["radius"][0].as_py()
    middle, normal = np.array([2.0, 2.0, 1.0]), np.array([4.0, 4.0, 2.0]) / 6
    assert radius == pytest.approx(normal @ (middle - [1, 0, 0]), rel=1e-6)


def test_a_hyperboloid_is_a_turned_hyperbola() -> None:
    rng = np.random.default_rng(3)
    for _ in range(50):
        turn = np.linalg.qr(rng.normal(0, 1, (3, 3)))[0]
        o, p, q = (np.append(rng.uniform(-5, 5, 2), 0.0) for _ in range(3))
        foci = float(np.sqrt(((o - p) ** 2).sum()))
        c = foci * rng.uniform(-0.9, 0.9)
        if np.linalg.norm(q - o) - np.linalg.norm(q - p) >= c:
            continue
        flat = to_hyperbola(tuple(o), tuple(p), tuple(q), foci, c)
        turned = to_hyperbola(tuple(turn @ o), tuple(turn @ p), tuple(turn @ q), foci, c)
        assert turned == pytest.approx(flat, rel=1e-9, abs=1e-9)


def test_what_it_tells(tmp_path: Path) -> None:
    engine = MovingTopK(over=["a"], k=1, dimensions=3)
    engine.upsert({"id": [1, 2], "x": [0, 0], "y": [0, 0], "z": [1, 5], "a": [0, 0]})
    engine.subscribe({"id": ["me"], "x": [0], "y": [0], "z": [4.5]})
    assert engine.objects().column_names == ["id", "x", "y", "z", "a"]
    assert engine.results()["item"].to_pylist() == [2]
    assert engine.explain("me", 1)["distance"] == 3.5
    assert engine.zones(attributes=True)["attributes"][0][0].as_py() == {"x": 0, "y": 0, "z": 5, "a": 0}
    engine.amend({"id": ["me"], "z": [0.0]})
    assert engine.results()["item"].to_pylist() == [1]
    engine.save(tmp_path / "snapshot")
    loaded = MovingTopK.load(tmp_path / "snapshot")
    assert loaded.publish({"id": ["me"], "x": [0], "y": [0], "z": [9]})["item"].to_pylist() == [1, 2]
    assert "dimensions=3" in repr(loaded)


def test_clients_that_hold_spheres() -> None:
    engine = MovingTopK(over=[], k=1, m=1, dimensions=3)
    engine.upsert({"id": [1, 2], "x": [0, 0], "y": [0, 0], "z": [0, 8]})
    _, zones = engine.subscribe({"id": ["me"], "x": [0], "y": [0], "z": [1]}), engine.zones()
    feature = geo.geojson(zones)["features"][0]
    assert feature["geometry"]["coordinates"] == [0, 0, 1]
    assert "radius" not in feature["properties"]  # a checker of circles would go wrong
    assert feature["properties"]["sphere_radius"] == pytest.approx(3)
    me = Follower()
    me.zone = feature
    asks = [me.must_ask(place) for place in ((0, 0, 3.9), (0, 0, 4.1), (2, 2, 1), (2, 2, 3), (0, 0))]
    assert asks == [False, True, False, True, True]
    assert geo.geoarrow(zones)["geometry"][0].as_py() == {"x": 0, "y": 0, "z": 1}


def test_what_is_refused() -> None:
    for wrong in (1, 4, 2.0, True, "3"):
        with pytest.raises(SettingError, match="dimensions"):
            MovingTopK(over=[], dimensions=wrong)  # type: ignore[arg-type]
    for metric in ("haversine", "manhattan", "network"):
        with pytest.raises(SettingError, match="euclidean"):
            MovingTopK(over=[], dimensions=3, metric=metric)
    with pytest.raises(SettingError, match="polygons"):
        MovingSkyline(over=[], dimensions=3)
    with pytest.raises(SettingError, match="z"):
        MovingTopK(over=["z"], dimensions=3)
    engine = MovingTopK(over=[], dimensions=3)
    for rows, column in (({"x": [0], "y": [0]}, "z"), ({"x": [0], "y": [0], "z": [1e300]}, "z")):
        with pytest.raises(InputError, match=f'"{column}"'):
            engine.upsert({"id": [1], **rows})
        with pytest.raises(InputError, match=f'"{column}"'):
            engine.subscribe({"id": [1], **rows})
    flat = MovingTopK(over=["z"], k=1)  # in the plane it is a name like any other
    assert flat.upsert({"id": [1], "x": [0], "y": [0], "z": [1]}).num_rows == 0
