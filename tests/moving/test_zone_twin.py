"""Zones on the client's side: while the checker says inside, the engine's answer is the one that it had."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankcast import MovingSkyline, MovingTopK, geo
from rankcast.service.requests import pages
from rankcast.zone import Follower, is_inside

TRACKS = Path(__file__).parents[2].parent / "shared" / "data" / "geolife_beijing_trajectories.parquet"


def walk(rng: np.random.Generator, steps: int, speed: float) -> list[tuple[float, float]]:
    heading = np.cumsum(rng.normal(0, 0.3, steps))
    place = np.cumsum(np.column_stack([np.cos(heading), np.sin(heading)]) * speed, axis=0) + 50
    return [(float(x), float(y)) for x, y in np.clip(place, 0, 100)]


def objects(rng: np.random.Generator, size: int, low: float = 0, high: float = 100) -> dict[str, Any]:
    places = rng.uniform(low, high, (2, size))
    return {"id": list(range(size)), "x": places[0], "y": places[1], "p": rng.integers(0, 9, size) * 1.0}


def follow(engine: Any, track: list[tuple[float, float]], metric: str) -> Follower:
    """Send a position only where the checker says so; an engine that hears of all of them must agree."""
    me = Follower(metric)
    told: set[int] = set()
    for x, y in track:
        engine.publish({"id": ["me"], "x": [x], "y": [y]})
        now = set(engine.results(["me"])["item"].to_pylist())
        if me.must_ask((x, y)):
            me.zone = geo.geojson(engine.zones(), {"me"})["features"][0]
            members = (me.zone.get("properties") or {}).get("members")
            told = now if members is None else set(members)
        exact = isinstance(engine, MovingSkyline) and "members" not in (me.zone or {})["properties"]
        assert now == told if exact else now <= told
    return me


@pytest.mark.parametrize("metric", ["euclidean", "manhattan", "haversine"])
@pytest.mark.parametrize("kind", [MovingTopK, MovingSkyline])
def test_nothing_changes_while_nothing_is_asked(kind: Any, metric: str) -> None:
    rng = np.random.default_rng(5)
    more = {"k": 3, "m": 4} if kind is MovingTopK else {}
    engine = kind(over=["p"], metric=metric, **more)
    rows, track = objects(rng, 120), walk(rng, 400, 0.05)
    if metric == "haversine":
        rows |= {"x": rows["x"] / 100, "y": rows["y"] / 100 + 40}
        track = [(x / 100, y / 100 + 40) for x, y in track]
    engine.upsert(rows)
    engine.subscribe({"id": ["me"], "x": [track[0][0]], "y": [track[0][1]]})
    me = follow(engine, track, metric)
    assert me.asked + me.saved == len(track)
    assert me.saved > 0


@pytest.mark.skipif(not TRACKS.exists(), reason="the tracks of shared/data are not here")
@pytest.mark.parametrize("kind", [MovingTopK, MovingSkyline])
def test_nothing_changes_on_a_real_track(kind: Any) -> None:
    import pyarrow.parquet as pq

    table = pq.read_table(TRACKS, columns=["traj_id", "lon", "lat"]).slice(0, 300)
    track = list(zip(table["lon"].to_pylist(), table["lat"].to_pylist(), strict=True))
    rng = np.random.default_rng(6)
    rows = objects(rng, 500)
    x, y = (np.array(each) for each in zip(*track, strict=True))
    rows |= {
        "x": x.min() + (np.ptp(x) + 0.02) * rows["x"] / 100,
        "y": y.min() + (np.ptp(y) + 0.02) * rows["y"] / 100,
    }
    more = {"k": 5, "m": 5} if kind is MovingTopK else {}
    engine = kind(over=["p"], metric="haversine", **more)
    engine.upsert(rows)
    engine.subscribe({"id": ["me"], "x": [track[0][0]], "y": [track[0][1]]})
    me = follow(engine, track, "haversine")
    assert me.asked + me.saved == len(track)


SQUARE = [[0.0, 0.0], [4.0, 0.0], [4.0, 4.0], [0.0, 4.0], [0.0, 0.0]]
HOLE = [[1.0, 1.0], [2.0, 1.0], [2.0, 2.0], [1.0, 2.0], [1.0, 1.0]]


def feature(shape: str, coordinates: Any, **properties: Any) -> dict[str, Any]:
    geometry = {"type": shape, "coordinates": coordinates}
    return {"type": "Feature", "geometry": geometry, "properties": properties}


CASES: list[tuple[Any, list[float], str, bool]] = [
    (None, [0, 0], "euclidean", False),
    (feature("Polygon", [SQUARE]), [2, 2], "euclidean", True),
    (feature("Polygon", [SQUARE]), [4, 2], "euclidean", False),
    (feature("Polygon", [SQUARE]), [0, 0], "euclidean", False),
    (feature("Polygon", [SQUARE]), [5, 2], "euclidean", False),
    (feature("Polygon", [SQUARE, HOLE]), [1.5, 1.5], "euclidean", False),
    (feature("Polygon", [SQUARE, HOLE]), [1, 1.5], "euclidean", False),
    (feature("Polygon", [SQUARE, HOLE]), [3, 3], "euclidean", True),
    (feature("MultiPolygon", [[HOLE], [SQUARE]]), [3, 3], "euclidean", True),
    (feature("Point", [0, 0], radius=1), [0.5, 0.5], "euclidean", True),
    (feature("Point", [0, 0], radius=1), [0.5, 0.5], "manhattan", False),
    (feature("Point", [0, 0], radius=1), [1, 0], "euclidean", False),
    (feature("Point", [0, 0], radius=None), [1e9, 0], "euclidean", True),
    (feature("Point", [0, 0]), [0, 0], "euclidean", False),
    (feature("Point", [13.4, 52.5], radius=1000), [13.41, 52.5], "haversine", True),
    (feature("Point", [13.4, 52.5], radius=600), [13.41, 52.5], "haversine", False),
    (feature("Point", [179.999, 0], radius=1000), [-179.999, 0], "haversine", True),
    ({"type": "Feature", "geometry": None, "properties": {}}, [0, 0], "euclidean", False),
]


@pytest.mark.parametrize(("zone", "position", "metric", "inside"), CASES)
def test_inside_is_strictly_inside(zone: Any, position: list[float], metric: str, inside: bool) -> None:
    assert is_inside(zone, position, metric) is inside
    assert is_inside(zone, [float("nan"), 0.0], metric) is False


def agree_in_node(node: str, folder: Path) -> None:
    """Both checkers say the same of the cases above and of many random ones."""
    rng = np.random.default_rng(7)
    cases: list[tuple[Any, list[float], str, bool]] = list(CASES)
    for _ in range(3000):
        size = int(rng.integers(3, 9))
        angle = np.sort(rng.uniform(0, 2 * np.pi, size))
        ring = (np.column_stack([np.cos(angle), np.sin(angle)]) * rng.uniform(0.3, 2, (size, 1))).round(2)
        zone: Any = feature("Polygon", [[*ring.tolist(), ring[0].tolist()]])
        metric = str(rng.choice(["euclidean", "manhattan", "haversine"]))
        if rng.random() < 0.5:
            zone = feature("Point", rng.uniform(-1, 1, 2).tolist(), radius=float(rng.uniform(0, 2e5)))
        position = rng.uniform(-1.5, 1.5, 2).round(2).tolist()
        cases.append((zone, position, metric, is_inside(zone, position, metric)))
    asked = folder / "cases.json"
    asked.write_text(json.dumps([case[:3] for case in cases]))
    program = folder / "ask.mjs"
    module = (pages.HOME / "rankcast-zone.js").as_uri()
    program.write_text(
        f'import {{ isInside }} from "{module}";\nimport {{ readFileSync }} from "node:fs";\n'
        'const cases = JSON.parse(readFileSync(process.argv[2], "utf8"));\n'
        "const found = cases.map(([zone, position, metric]) => isInside(zone, position, metric));\n"
        "console.log(JSON.stringify(found));\n"
    )
    answer = subprocess.run([node, str(program), str(asked)], capture_output=True, text=True, check=True)
    assert json.loads(answer.stdout) == [case[3] for case in cases]
