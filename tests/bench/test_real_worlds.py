"""Worlds of `*.worlds`: every one agrees with its plain program; California is read as it is."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from rankcast.bench.cases import load, moving, worlds, worlds_places
from rankcast.bench.runner import LeftOutError, measure
from rankcast.bench.workloads import california

CASES = ("range-topk.worlds", "matching.worlds", "covering.worlds")
CAR = {"objects": 4, "attributes": 2, "speed": 60, "places": "california"}


@pytest.mark.deep
@pytest.mark.parametrize("name", CASES)
def test_every_world_agrees_with_its_plain_program(name: str) -> None:
    case = load()[name]
    for parameters in case.parameters("small"):
        made = {key: value if key == "world" else min(value, 60) for key, value in parameters.items()}
        assert measure(case, made, "small").agrees_with_brute_force, parameters


def test_worlds_without_real_data_say_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("RANKCAST_DATA", raising=False)
    few = {"subscriptions": 20, "objects": 20, "k": 2, "batch": 5, "events": 5, "cars": 2, "seconds": 3}
    rng = np.random.default_rng(1)
    assert worlds.ranges_of("quotes", few, rng).generated
    assert worlds.matches_of("exons", few, rng).generated
    assert worlds.boxes_of("listings", 20, ["a", "b", "c"], rng)[1]
    assert worlds_places.drive_of("places", few, rng, 1).generated
    assert worlds_places.messages_of("tweets", {**few, "window": 20}, rng).generated
    with pytest.raises(LeftOutError, match="California"):
        moving.world(CAR, rng, cars=2, seconds=2)


@pytest.fixture
def small_california(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Three crossings in a row, a road of no length, and a part that is not joined to them."""

    def written(name: str, **columns: Any) -> None:
        pq.write_table(pa.table(columns), tmp_path / name)

    written(
        california.NODES,
        node_id=[7, 3, 9, 1, 2],
        lon=[-120.0, -120.1, -120.2, -119.0, -119.1],
        lat=[35.0] * 5,
    )
    written(california.EDGES, start_id=[7, 3, 1, 9], end_id=[3, 9, 2, 9])
    written(california.POINTS, lon=[-120.0, -120.1, -120.2], lat=[35.0, 35.1, 35.2])
    monkeypatch.setenv("RANKCAST_DATA", str(tmp_path))


@pytest.mark.usefixtures("small_california")
def test_roads_are_the_largest_part_and_cars_stay_on_them() -> None:
    pytest.importorskip("scipy")
    graph = california.roads()
    assert np.diff(graph.begin).tolist() == [1, 2, 1]
    ways = [sorted(each.tolist()) for each in np.split(graph.ways, graph.begin[1:-1])]
    assert ways == [[1], [0, 2], [1]]
    degree = california.METRES * np.cos(np.radians(california.LATITUDE))
    assert graph.x == pytest.approx(np.array([4.5, 4.4, 4.3]) * degree)
    over, objects, steps = moving.world(CAR, np.random.default_rng(2), cars=5, seconds=900)
    assert over == ["a0", "a1"]
    assert len(objects["id"]) == len(set(objects["id"].tolist())) == 4  # of three points one comes twice
    for step in steps:
        assert (step["x"] >= graph.x.min() - 1e-6).all()
        assert (step["x"] <= graph.x.max() + 1e-6).all()
        assert step["y"] == pytest.approx(graph.y[0])
