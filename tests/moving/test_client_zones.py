"""Zones for those who hold them: of some subscriptions, the new and the void ones, and as maps want them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import MovingSkyline, MovingTopK, RoadGraph, geo
from rankcast.errors import InputError
from rankcast.moving import scoring
from rankcast.zone import is_inside

KINDS: dict[str, Any] = {
    "auto": lambda: MovingTopK(over=["a"], k=2, score=scoring.weighted_sum([1, 1])),
    "m of 3": lambda: MovingTopK(over=["a"], k=2, m=3, score=scoring.weighted_sum([1, 1])),
    "own": lambda: MovingTopK(over=["a"], k=2, score=lambda a, d: a[:, 0] + d),
    "globe": lambda: MovingTopK(over=["a"], k=2, metric="haversine"),
    "skyline": lambda: MovingSkyline(over=["a"]),
    "skyline circles": lambda: MovingSkyline(over=["a"], metric="manhattan"),
    "roads": lambda: MovingTopK(over=["a"], k=2, metric="network", graph=grid()),
}


def grid() -> RoadGraph:
    """Roads along the lines of a board."""
    at = {(x, y): 6 * y + x for x in range(6) for y in range(6)}
    pairs = [(at[x, y], at[x + 1, y]) for x in range(5) for y in range(6)]
    pairs += [(at[x, y], at[x, y + 1]) for x in range(6) for y in range(5)]
    edges = {"start": [a for a, _ in pairs], "end": [b for _, b in pairs], "length": [1.0] * len(pairs)}
    nodes = {"id": list(at.values()), "x": [2 * x for x, _ in at], "y": [2 * y for _, y in at]}
    return RoadGraph.from_edges(edges, nodes=nodes)


def objects(rng: np.random.Generator, ids: Any) -> dict[str, Any]:
    size = len(ids)
    return {"id": ids, "x": rng.random(size) * 10, "y": rng.random(size) * 10, "a": rng.random(size)}


def held(table: pa.Table) -> dict[Any, dict[str, Any]]:
    """Zones by subscription; the order of members, which follows the query, is none of the zone's."""
    found = {}
    for row in table.to_pylist():
        row["members"] = dict(zip(row["members"], row.pop("attributes"), strict=True))
        found[row.pop("subscription")] = row
    return found


def is_void(row: dict[str, Any]) -> bool:
    return row["geometry"] is None if "geometry" in row else row["radius"] is None


def is_point(row: dict[str, Any]) -> bool:
    return len(row["geometry"]) == 21 if "geometry" in row else row["radius"] == 0


@pytest.mark.parametrize("kind", KINDS)
@settings(max_examples=5)
@given(st.integers(0, 10**6))
def test_who_keeps_what_is_told_holds_every_zone_as_it_is(kind: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    engine, twin = KINDS[kind](), KINDS[kind]()
    for each in (engine, twin):
        each.upsert(objects(np.random.default_rng(seed), np.arange(40)))
        each.subscribe({"id": list(range(6)), "x": [1, 3, 5, 7, 9, 2], "y": [1, 3, 5, 7, 9, 8]})
    mine = held(engine.zones(attributes=True))
    for _ in range(12):
        call = rng.choice(["publish", "publish", "upsert", "remove"])
        rows: Any
        if call == "publish":
            who = rng.permutation(6)[:3]
            rows = {"id": who, "x": rng.random(3) * 10, "y": rng.random(3) * 10}
            if rng.random() < 0.5:  # a small step
                now = {row["id"]: row for row in _places(engine)}
                rows = {"id": who, **{c: [now[int(i)][c] + 0.01 for i in who] for c in ("x", "y")}}
        elif call == "upsert":
            rows = objects(rng, rng.integers(0, 60, 2))
        else:
            rows = [int(rng.choice(engine.objects()["id"].to_numpy()))]
        answer, told = getattr(engine, call)(rows, zones=True)
        assert answer.equals(getattr(twin, call)(rows))
        mine |= held(told)
        now = held(engine.zones(attributes=True))
        for name, row in mine.items():
            assert is_point(now[name]) if is_void(row) else row == now[name], (kind, call)


def _places(engine: Any) -> list[dict[str, Any]]:
    live = engine._slots.live()
    ids = engine._slots.take(live).to_pylist()
    return [
        {"id": i, "x": float(engine._slots["x"][r]), "y": float(engine._slots["y"][r])}
        for i, r in zip(ids, live, strict=True)
    ]


@pytest.mark.parametrize("kind", [kind for kind in KINDS if kind != "roads"])
def test_attributes_are_those_of_the_members(kind: str) -> None:
    engine = KINDS[kind]()
    given = objects(np.random.default_rng(1), np.arange(30))
    engine.upsert(given)
    engine.subscribe({"id": ["me"], "x": [5], "y": [5]})
    row = engine.zones(attributes=True).to_pylist()[0]
    assert len(row["members"]) == len(row["attributes"]) > 0
    for item, told in zip(row["members"], row["attributes"], strict=True):
        assert told == {name: given[name][item] for name in ("x", "y", "a")}


def test_zones_of_some_and_of_an_unknown_one() -> None:
    engine = KINDS["auto"]()
    engine.upsert(objects(np.random.default_rng(1), np.arange(30)))
    engine.subscribe({"id": ["b", "a", "c"], "x": [5, 1, 2], "y": [5, 1, 2]})
    assert engine.zones(["c", "b"])["subscription"].to_pylist() == ["b", "c"]
    assert engine.zones([]).num_rows == 0
    with pytest.raises(InputError, match="nobody"):
        engine.zones(["nobody"])


def test_a_call_that_changes_no_zone_tells_of_none() -> None:
    engine = KINDS["m of 3"]()
    engine.upsert(objects(np.random.default_rng(1), np.arange(30)))
    engine.subscribe({"id": [1], "x": [5], "y": [5]})
    answer, told = engine.publish({"id": [1], "x": [5], "y": [5]}, zones=True)
    assert (answer.num_rows, told.num_rows) == (0, 0)
    _, told = engine.upsert({"id": [99], "x": [1e6], "y": [1e6], "a": [1.0]}, zones=True)
    assert told.num_rows == 0


def test_a_bad_row_changes_nothing_and_stops_the_watching() -> None:
    engine = KINDS["auto"]()
    engine.subscribe({"id": [1], "x": [5], "y": [5]})
    with pytest.raises(InputError):
        engine.publish({"id": [2], "x": [5], "y": [5]}, zones=True)
    assert engine._zones.zones.noted is None


def test_geojson_has_no_geometry_for_what_is_void() -> None:
    rng = np.random.default_rng(2)
    engine = MovingTopK(over=[], k=3)
    engine.upsert({"id": np.arange(5_000), "x": rng.random(5_000), "y": rng.random(5_000)})
    engine.subscribe({"id": [1], "x": [0.5], "y": [0.5]})
    for step in range(8):
        _, told = engine.publish({"id": [1], "x": [0.1 * step], "y": [0.3]}, zones=True)
    assert told["radius"].to_pylist() == [None]
    feature = geo.geojson(told)["features"][0]
    assert feature["geometry"] is None
    assert not is_inside(feature, (0.7, 0.3))


def test_a_zone_that_is_a_point_is_no_polygon() -> None:
    engine = MovingSkyline(over=["a"], tuning={"universe": (0, 0, 1, 1)})
    engine.upsert({"id": [1, 2], "x": [0.0, 1.0], "y": [0.0, 1.0], "a": [1.0, 2.0]})
    engine.subscribe({"id": [1], "x": [50.0], "y": [50.0]})
    shape = geo.geojson(engine.zones())["features"][0]["geometry"]
    assert shape == {"type": "Point", "coordinates": [50.0, 50.0]}
    assert engine.publish({"id": [1], "x": [51.0], "y": [50.0]}).num_rows == 0


def test_geoarrow_names_its_types() -> None:
    for kind, wanted in (
        ("auto", b"geoarrow.point"),
        ("skyline", b"geoarrow.wkb"),
        ("roads", b"geoarrow.wkb"),
    ):
        engine = KINDS[kind]()
        engine.upsert(objects(np.random.default_rng(1), np.arange(30)))
        engine.subscribe({"id": [1], "x": [5], "y": [5]})
        field = geo.geoarrow(engine.zones()).schema.field("geometry")
        assert field.metadata == {b"ARROW:extension:name": wanted}
    point = geo.geoarrow(KINDS["auto"]().zones()).schema.field("geometry").type
    assert point == pa.struct({"x": pa.float64(), "y": pa.float64()})


def test_roads_are_lines_in_geojson() -> None:
    engine = KINDS["roads"]()
    engine.subscribe({"id": [1], "x": [5], "y": [2]})
    shape = geo.geojson(engine.zones())["features"][0]["geometry"]
    assert shape == {"type": "LineString", "coordinates": [[4.0, 2.0], [6.0, 2.0]]}


@pytest.mark.parametrize("place", [(10.0, 50.0), (179.999, 0.0), (0.0, 89.9)])
def test_cells_of_h3_lie_inside(place: tuple[float, float]) -> None:
    h3 = pytest.importorskip("h3")
    table = pa.table(
        {"subscription": [1, 2, 3], "x": [place[0]] * 3, "y": [place[1]] * 3, "radius": [5_000.0, 0.01, None]}
    )
    cells = geo.h3_cells(table, 8)["cells"].to_pylist()
    assert cells[1:] == [[], []]
    assert len(cells[0]) > 30
    zone = {"geometry": {"type": "Point", "coordinates": list(place)}, "properties": {"radius": 5_000.0}}
    for cell in cells[0]:
        assert all(is_inside(zone, (x, y), "haversine") for y, x in h3.cell_to_boundary(cell))
    with pytest.raises(InputError):
        geo.h3_cells(pa.table({"subscription": [1], "geometry": [b""]}), 8)
