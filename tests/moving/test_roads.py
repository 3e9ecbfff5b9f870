"""Roads: graphs and what they refuse, and engines against Dijkstra over dicts in random worlds."""

from __future__ import annotations

import math
import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankcast import InputError, MovingSkyline, MovingTopK, RoadGraph, SnapshotError, scoring
from rankcast.core.contract import same_rows
from rankcast.moving import node_lists
from rankcast.moving.network_topk import NetworkTopK
from rankcast.tables import deltas
from tests.laws import roads
from tests.laws.moving_skyline import Naive as NaiveSkyline
from tests.laws.moving_topk import Naive as NaiveTopK
from tests.laws.roads import Roads, World

NODES = {"id": ["a", "b", "c"], "x": [0, 4, 4], "y": [0, 0, 4]}
EDGES = {"start": ["a", "b"], "end": ["b", "c"], "length": [4.0, 4.0]}


# Graphs


@pytest.mark.parametrize(
    ("edges", "told"),
    [
        ({**EDGES, "end": ["b", "x"]}, "column .end.*is 'x', which is not known"),
        ({**EDGES, "length": [1.0, -2.0]}, 'column "length".*is -2'),
        ({**EDGES, "length": [1.0, math.nan]}, 'column "length"'),
        ({**EDGES, "length": [1.0, None]}, 'column "length"'),
        ({**EDGES, "length": [1e200, 1.0]}, 'column "length".*is 1e\\+200'),
        ({**EDGES, "length": [1e30, 1e-5]}, 'column "length".*is 1e-05, too short beside the others'),
        ({**EDGES, "id": [7, 7]}, 'column "id"'),
        ({**EDGES, "oneway": ["yes", "no"]}, 'column "oneway"'),
        ({**EDGES, "width": [1, 1]}, "width"),
        ({"start": [], "end": [], "length": []}, "at least one edge"),
        ({"start": ["a"], "end": ["b"]}, 'column "length".*is missing'),
    ],
)
def test_bad_edges(edges: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        RoadGraph.from_edges(edges, nodes=NODES)


@pytest.mark.parametrize(
    ("nodes", "told"),
    [
        ({**NODES, "x": [0, math.inf, 0]}, 'column "x"'),
        ({**NODES, "x": [0, 1e200, 0]}, 'column "x"'),
        ({**NODES, "id": ["a", "b", "a"]}, 'column "id"'),
        ({"id": [], "x": [], "y": []}, 'column "start"'),
    ],
)
def test_bad_nodes(nodes: dict[str, Any], told: str) -> None:
    with pytest.raises(InputError, match=told):
        RoadGraph.from_edges(EDGES, nodes=nodes)


@pytest.mark.parametrize(
    ("rows", "told"),
    [
        ({"id": [9], "length": [1.0]}, 'column "id".*is 9, which is not known'),
        ({"id": [0], "length": [-1.0]}, 'column "length".*is -1'),
        ({"id": [0], "length": [1e12]}, "is 1e.12, too long beside the others"),
        ({"id": [0, 1], "length": [2e8, 2e8]}, "all lengths together"),
        ({"id": [0]}, 'column "length".*is missing'),
    ],
)
def test_bad_updates_change_nothing(rows: dict[str, Any], told: str) -> None:
    graph = RoadGraph.from_edges(EDGES, nodes=NODES)
    engine = MovingTopK(over=[], metric="network", graph=graph)
    for update in (graph.update, engine.update_roads):
        with pytest.raises(InputError, match=told):
            update(rows)
    assert graph.distance((0, 0), (4, 4)) == 8.0


def test_settings() -> None:
    graph = RoadGraph.from_edges(EDGES, nodes=NODES)
    with pytest.raises(InputError, match="graph is given"):
        MovingTopK(over=[], graph=graph)
    for odd in (7, "3f" * 16, {"edges": "edges.parquet"}):
        with pytest.raises(InputError, match="graph is"):
            MovingTopK(over=[], metric="network", graph=odd)
    with pytest.raises(InputError, match="update_roads needs a road graph"):
        MovingTopK(over=[]).update_roads({"id": [0], "length": [1.0]})


def test_lengths_add_up_exactly() -> None:
    size = 1000
    nodes = {"id": range(size + 1), "x": np.arange(size + 1.0), "y": np.zeros(size + 1)}
    edges = {"start": range(size), "end": range(1, size + 1), "length": np.full(size, 0.1)}
    graph = RoadGraph.from_edges(edges, nodes=nodes)
    assert graph.distance((0, 0), (size, 0)) == graph.distance((size, 0), (0, 0))
    assert graph.distance((0, 0), (size, 0)) == pytest.approx(100, rel=1e-10)


def test_snapping_is_that_of_looking_at_every_edge() -> None:
    rng = np.random.default_rng(3)
    for size, spread in ((1, 1.0), (9, 1e-3), (700, 1.0), (700, 0.01), (300, 1e9)):
        places = rng.random((2 * size, 2)) * spread + 7e5
        places[size // 2 :] = np.round(places[size // 2 :])
        ends = np.arange(2 * size).reshape(size, 2)
        nodes = {"id": np.arange(2 * size), "x": places[:, 0], "y": places[:, 1]}
        edges = {"start": ends[:, 0], "end": ends[:, 1], "length": np.ones(size)}
        graph = RoadGraph.from_edges(edges, nodes=nodes)
        spots = rng.random((200, 2)) * 2 * spread + 7e5
        spots[::4] = places[rng.integers(0, 2 * size, 50)]
        found = graph.snapped(spots[:, 0].copy(), spots[:, 1].copy())
        start, along = places[ends[:, 0]], places[ends[:, 1]] - places[ends[:, 0]]
        for at, spot in enumerate(spots):
            square = (along * along).sum(axis=1)
            with np.errstate(all="ignore"):
                share = np.where(square > 0, ((spot - start) * along).sum(axis=1) / square, 0.0).clip(0, 1)
            nearest = np.where((share == 1)[:, None], start + along, start + share[:, None] * along)
            nearest[share == 1] = places[ends[share == 1, 1]]
            gap = ((spot - nearest) ** 2).sum(axis=1)
            assert found.edge[at] == int(np.argmin(gap)), at
            assert found.share[at] == share[found.edge[at]]


def test_files(tmp_path: Path) -> None:
    import networkx

    both = networkx.MultiDiGraph(crs="epsg:4326")
    for name, x in (("1", 0.0), ("2", 0.1), ("3", 0.2)):
        both.add_node(name, x=x, y=50.0)
    for one, other in (("1", "2"), ("2", "1"), ("2", "3")):
        both.add_edge(one, other, length=100.0)
    networkx.write_graphml(both, tmp_path / "roads.graphml")
    graph = RoadGraph.from_graphml(tmp_path / "roads.graphml")
    assert len(graph) == 2
    assert graph.distance((0.0, 50), (0.2, 50)) == 200
    assert graph.distance((0.1, 50), (0.0, 50)) == 100
    assert graph.distance((0.2, 50), (0.0, 50)) == math.inf
    for name in ("none.graphml", "bad.graphml"):
        (tmp_path / "bad.graphml").write_text("<graph")
        with pytest.raises(InputError, match=r"there is no file|is no GraphML"):
            RoadGraph.from_graphml(tmp_path / name)
    networkx.write_graphml(networkx.path_graph(3), tmp_path / "bare.graphml")
    with pytest.raises(InputError, match="x of node 0 is missing"):
        RoadGraph.from_graphml(tmp_path / "bare.graphml")


def test_openstreetmap(tmp_path: Path) -> None:
    osmium = pytest.importorskip("osmium", reason="reads OpenStreetMap; an extra, rankcast[roads]")
    path = tmp_path / "roads.osm.pbf"
    with osmium.SimpleWriter(str(path)) as writer:
        for ref, lon in ((1, 13.0), (2, 13.01), (3, 13.02), (4, 13.03)):
            writer.add_node(osmium.osm.mutable.Node(id=ref, location=(lon, 52.0)))
        ways = [
            (1, [1, 2], {"highway": "residential"}),
            (2, [2, 3], {"highway": "primary", "oneway": "yes"}),
            (3, [3, 4], {"highway": "primary", "oneway": "-1"}),
            (4, [1, 4], {"highway": "footway"}),
        ]
        for ref, nodes, tags in ways:
            writer.add_way(osmium.osm.mutable.Way(id=ref, nodes=nodes, tags=tags))
    graph = RoadGraph.from_osm(path)
    assert len(graph) == 3
    there = graph.distance((13.0, 52), (13.02, 52))
    assert there == pytest.approx(2 * 6_371_008.8 * math.radians(0.01) * math.cos(math.radians(52)), rel=1e-6)
    assert graph.distance((13.02, 52), (13.0, 52)) == math.inf
    assert graph.distance((13.03, 52), (13.025, 52)) == pytest.approx(there / 4, rel=1e-6)
    fast = RoadGraph.from_osm(path, speeds={"residential": 36, "primary": 36})
    assert fast.distance((13.0, 52), (13.02, 52)) == pytest.approx(there / 10)
    with pytest.raises(InputError, match="there is no file"):
        RoadGraph.from_osm(tmp_path / "none.osm.pbf")
    (tmp_path / "bad.osm.pbf").write_bytes(b"roads")
    with pytest.raises(InputError, match="is no map of OpenStreetMap"):
        RoadGraph.from_osm(tmp_path / "bad.osm.pbf")


# Engines

CALLS = ("publish", "publish", "upsert", "upsert", "remove", "graph", "roads", "subscribe", "load")


def _world(rng: random.Random) -> World:
    """Nodes on a grid, edges along it or across: every share of an edge is exact."""
    spots = [(4 * x, 4 * y) for x in range(4) for y in range(3)]
    nodes = rng.sample(spots, rng.randint(2, len(spots)))
    edges: list[roads.Edge] = []
    for _ in range(rng.randint(1, 18)):
        one, other = rng.randrange(len(nodes)), rng.randrange(len(nodes))
        (ax, ay), (bx, by) = nodes[one], nodes[other]
        if ax == bx or ay == by or abs(ax - bx) == abs(ay - by):
            far = abs(ax - bx) + abs(ay - by)
            if far & (far - 1) == 0:
                length = rng.choice([0, 1, far, far, 2 * far, 0.125, 1000])
                edges.append((one, other, length, rng.random() < 0.3))
    return nodes, edges or [(0, 0, 1, False)]


def _rows(rng: random.Random, names: list[int], over: list[str], crowd: bool) -> dict[str, Any]:
    spots = [(5, 0) if crowd else (rng.randint(-1, 13), rng.randint(-1, 9)) for _ in names]
    rows: dict[str, Any] = {"id": names, "x": [x for x, _ in spots], "y": [y for _, y in spots]}
    return rows | {name: [rng.choice([0.5, 1, 2, 3]) for _ in names] for name in over}


def _settings(rng: random.Random) -> tuple[list[str], Any]:
    over = rng.choice([[], [], ["a"], ["a", "b"]])
    weights = [rng.choice([0, 0.5, 1, 100, 1e-3]) for _ in range(len(over) + 1)]
    powers = [min(weight, 2) for weight in weights]
    kinds = [scoring.weighted_sum(weights), scoring.weighted_product(powers), scoring.waspas(powers, 0.25)]
    if over:
        kinds.append(scoring.weighted_distance([1] * len(over)))
    return over, rng.choice([None, *kinds])


def _play(rng: random.Random, engine: Any, model: Any, over: list[str], folder: Path) -> None:
    """Random calls on an engine and on the model; answers and results are the same, and deltas replay."""
    live: list[int] = []
    crowd = rng.random() < 0.2
    for step in range(rng.randint(4, 14)):
        call = rng.choice(CALLS)
        before = engine.results()
        held = list(model.objects)
        if call in ("graph", "roads"):
            size = len(engine.graph)
            chosen = rng.sample(range(size), min(size, rng.randint(1, 3)))
            lengths = [rng.choice([0, 1, 5, 64.0]) for _ in chosen]
            rows: Any = {"id": [f"e{at}" for at in chosen], "length": lengths}
            expected = model.call("update_roads", rows)
            if call == "graph":
                engine.graph.update(rows)
                assert engine.results().equals(before)
                nothing: Any = {"id": [], "x": [], "y": []}
                found = engine.update_roads() if rng.random() < 0.5 else engine.publish(nothing)
            else:
                found = engine.update_roads(rows)
        elif call == "load":
            engine.save(folder)
            engine = type(engine).load(folder)
            continue
        else:
            if call == "remove":
                rows = rng.sample(held, min(len(held), 2))
            elif call == "upsert":
                rows = _rows(rng, rng.sample(range(20), rng.choice([1, 1, 5, 15])), over, crowd)
            elif call == "publish":
                rows = _rows(rng, rng.sample(live, min(len(live), 3)), [], crowd and rng.random() < 0.5)
            else:
                rows = _rows(rng, [100 + step], [], False)
                live.append(100 + step)
            expected, found = model.call(call, rows), getattr(engine, call)(rows)
        same_rows(found.to_pylist(), expected, f"{call}({rows})", 1e-12)
        now = engine.results()
        same_rows(now.to_pylist(), model.results(), f"results after {call}({rows})", 1e-12)
        if isinstance(engine._zones, NetworkTopK):
            engine._zones.best.check()
        replayed = {one: set(items) for one, items in deltas.replay(before, found).items() if items}
        told: dict[Any, set[Any]] = {}
        for row in now.to_pylist():
            told.setdefault(row["subscription"], set()).add(row["item"])
        assert replayed == told, call


def _worlds(count: int, seed: int, folder: Path) -> None:
    for number in range(count):
        rng = random.Random(seed + number)  # noqa: S311
        world = _world(rng)
        graph = roads.made(world)
        over, score = _settings(rng)
        method = rng.choice(["zone", "zone", "zone", "scan"])
        k = rng.choice([1, 2, 3, 50])
        engine: Any = MovingTopK(over=over, k=k, score=score, metric="network", graph=graph, method=method)
        model: Any = NaiveTopK(over=over, k=k, score=score)
        if isinstance(engine._zones, NetworkTopK) and rng.random() < 0.7:
            engine._zones.spent = 10**9  # lists of nodes from the start
        if rng.random() < 0.3:
            engine = MovingSkyline(over=over, metric="network", graph=graph, method=method)
            model = NaiveSkyline(over=over)
        model.roads = Roads(world)
        model.measure = model.roads.distance
        _play(rng, engine, model, over, folder)


@pytest.mark.parametrize("many", [0, node_lists.MANY])  # 0: lists of nodes are never made anew
def test_random_worlds(many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_lists, "MANY", many)
    _worlds(40, many, tmp_path / "engine")


@pytest.mark.deep
@pytest.mark.parametrize("many", [0, node_lists.MANY])
def test_many_random_worlds(many: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(node_lists, "MANY", many)
    _worlds(3000, 10_000, tmp_path / "engine")


def test_a_function_that_fails_changes_nothing() -> None:
    fails = False

    def score(attributes: Any, distance: Any) -> Any:
        return np.full(distance.size, np.nan) if fails else distance + attributes[:, 0]

    graph = roads.made(roads.WORLDS["square"])
    engine = MovingTopK(over=["a"], k=1, score=score, metric="network", graph=graph)
    engine.upsert({"id": [1, 2], "x": [0, 4], "y": [0, 4], "a": [1, 1]})
    engine.subscribe({"id": [7], "x": [1], "y": [0]})
    held = engine.results()
    calls = [
        ("publish", {"id": [7], "x": [4], "y": [3]}),
        ("upsert", {"id": [3], "x": [1], "y": [0], "a": [1]}),
        ("update_roads", {"id": ["e0"], "length": [100.0]}),
    ]
    for call, rows in calls:
        fails = True
        with pytest.raises(InputError, match="NaN"):
            getattr(engine, call)(rows)
        fails = False
        assert engine.results().equals(held)
    for call, rows in calls:
        getattr(engine, call)(rows)
    assert engine.results()["item"].to_pylist() == [2]


def test_two_engines_share_a_graph() -> None:
    graph = roads.made(roads.WORLDS["square"])
    one, other = (MovingTopK(over=[], k=1, metric="network", graph=graph) for _ in range(2))
    for engine in (one, other):
        engine.upsert({"id": [1, 2], "x": [0, 4], "y": [0, 0]})
        engine.subscribe({"id": [7], "x": [1], "y": [0]})
    one.update_roads({"id": ["e0"], "length": [400.0]})
    assert other.results()["score"].to_pylist() == [1.0]
    assert one.results()["score"].to_pylist() == [100.0]
    graph.update({"id": ["e0"], "length": [40.0]})
    for engine in (one, other):
        assert engine.update_roads()["score"].to_pylist() == [10.0]
        assert engine.update_roads().num_rows == 0


def test_a_net_change_has_the_score_at_the_last_place() -> None:
    """Also if the last step of a batch changes no list, or lengths that are as they were come behind it."""
    graph = roads.made(roads.WORLDS["square"])
    engine = MovingTopK(over=[], k=1, metric="network", graph=graph)
    engine.subscribe({"id": [7], "x": [1], "y": [0]})
    place = {"id": [7], "x": [3], "y": [0]}
    told = engine.apply([("upsert", {"id": [1], "x": [0], "y": [0]}), ("publish", place)])
    assert told["score"].to_pylist() == engine.results()["score"].to_pylist() == [3.0]
    for length in (9.0, 4.0):
        graph.update({"id": ["e0"], "length": [length]})
    assert engine.publish({**place, "x": [2]}).num_rows == 0


def test_a_place_inside_its_zone_takes_no_search() -> None:
    graph = roads.made(roads.WORLDS["square"])
    engine = MovingTopK(over=[], k=1, metric="network", graph=graph)
    engine.upsert({"id": [1, 2], "x": [0, 4], "y": [4, 4]})
    engine.subscribe({"id": [7], "x": [1], "y": [0]})
    before = engine.stats()
    told = engine.publish({"id": [7], "x": [3], "y": [0]})
    assert told["item"].to_pylist() == [1, 2]
    for name in ("recomputed", "nodes_accessed", "candidates"):
        assert engine.stats()[name] == before[name]
    zone = engine.zones().to_pylist()[0]
    assert zone["members"] == [1, 2]
    assert zone["geometry"][5:9] == b"\x02\x00\x00\x00"
    view = engine.view(7)
    assert (view["zone"]["radius"], view["items"], view["result"].tolist()) == (0.0, [1, 2], [1])


def test_what_cannot_be_reached_is_explained() -> None:
    graph = roads.made(roads.WORLDS["odd"])
    for engine in (
        MovingTopK(over=[], metric="network", graph=graph),
        MovingSkyline(over=[], metric="network", graph=graph),
    ):
        engine.upsert({"id": [1, 2], "x": [4, 0], "y": [4, 4]})
        engine.subscribe({"id": [7], "x": [4], "y": [0]})
        assert engine.results()["item"].to_pylist() == [1]
        told = engine.explain(7, 2)
        assert told["score"] is None
        assert told["reason"] == "there is no way to it"
        assert engine.explain(7, 1)["in_result"]


def test_a_snapshot_that_does_not_fit_is_refused() -> None:
    graph = roads.made(roads.WORLDS["square"])
    engine = MovingTopK(over=[], k=1, metric="network", graph=graph)
    engine.upsert({"id": [1, 2], "x": [0, 4], "y": [4, 4]})
    engine.subscribe({"id": [7], "x": [1], "y": [0]})
    bad: dict[str, Any] = {
        "road.start": lambda a: a + 9,
        "road.length": lambda a: a - 2**62,
        "road.x": lambda a: a * np.nan,
        "road.arc_out_first": lambda a: a[::-1].copy(),
        "road.arc_in_from": lambda a: a + 100,
        "road.arc_out_edge": lambda a: a - 100,
        "road.tree_order": lambda a: a + 100,
        "road.tree_level": lambda a: a + 1,
        "road.tree_box": lambda a: a * np.nan,
        "network_zone.edge": lambda a: a + 100,
        "network_zone.members_item": lambda a: a + 100,
        "network_zone.results_away": lambda a: a - 2**62,
        "network_zone.reach": lambda a: a * np.nan,
    }
    for name, spoil in bad.items():
        header, arrays = engine.state()
        held = {each: array.copy() for each, array in arrays.items()}
        with np.errstate(all="ignore"):
            held[name] = spoil(held[name]).astype(held[name].dtype)
        with pytest.raises(SnapshotError):
            MovingTopK.restore(header, held)


def test_a_snapshot_has_the_index_of_its_graph_and_needs_none() -> None:
    graph = roads.made(roads.WORLDS["square"])
    engine = MovingTopK(over=[], k=1, metric="network", graph=graph)
    engine.upsert({"id": [1, 2], "x": [0, 4], "y": [4, 4]})
    engine.subscribe({"id": [7], "x": [1], "y": [0]})
    header, arrays = engine.state()
    held = {name: array.copy() for name, array in arrays.items()}
    again = MovingTopK.restore(header, held)
    assert again.graph is not None
    assert again.graph.arcs.out_to is held["road.arc_out_to"]
    assert again.graph._tree.box is held["road.tree_box"]
    older = {name: a for name, a in held.items() if not name.startswith(("road.arc_", "road.tree_"))}
    former = MovingTopK.restore(header, {name: array.copy() for name, array in older.items()})
    assert former.graph is not None
    for each in (again, former):
        assert each.graph is not None
        before = each.graph.length.copy()
        each.update_roads({"id": ["e0"], "length": [50.0]})
        assert np.array_equal(each.graph.length, before)
        each.graph.update({"id": ["e1"], "length": [60.0]})
        each.update_roads()
    assert again.results().equals(former.results())
    roads_held = [name for name in arrays if name.startswith("road.")]
    assert all(np.array_equal(held[name], arrays[name]) for name in roads_held)
