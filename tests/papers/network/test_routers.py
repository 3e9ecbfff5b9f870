"""Acyclic networks of routers: links do in batches what single messages do, and nothing is missed."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.errors import SettingError
from rankcast.papers.network import topology
from rankcast.papers.network.routing import AcyclicNetwork, Routing
from rankcast.papers.network.topology import draw_workload
from rankcast.papers.network.zones import hops_from

EXAMPLE = Path(__file__).parents[3] / "examples" / "broker_tree.py"
END = st.integers(0, 4)


def load() -> ModuleType:
    spec = importlib.util.spec_from_file_location("broker_tree_of_messages", EXAMPLE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    spec.loader.exec_module(module)
    return module


one_by_one = load()


@st.composite
def trees(draw: Any) -> Any:
    """Parents of brokers, in any order of numbers."""
    brokers = draw(st.integers(1, 6))
    names = draw(st.permutations(range(brokers)))
    parent = np.full(brokers, -1, np.int32)
    for place in range(1, brokers):
        parent[names[place]] = names[draw(st.integers(0, place - 1))]
    return parent


@settings(max_examples=40)
@given(trees(), st.lists(st.tuples(END, END, END, END, st.integers(0, 5)), max_size=8), st.data())
def test_links_do_what_single_messages_do(parent: Any, boxes: list[Any], data: Any) -> None:
    ends = np.array([[*sorted(box[:2]), *sorted(box[2:4])] for box in boxes], np.float64).reshape(-1, 4)
    home = np.array([box[4] % len(parent) for box in boxes], np.int32)
    low, high = ends[:, [0, 2]].copy(), ends[:, [1, 3]].copy()
    gone = [name for name in range(len(boxes)) if data.draw(st.booleans())]
    commands = [(name, False) for name in range(len(boxes))] + [(name, True) for name in gone]
    cut = data.draw(st.integers(0, len(commands)))
    points = np.array([[0, 0], [1, 3], [4, 2], [2, 2]], np.float64)
    for covering in (False, True):
        network = AcyclicNetwork(parent, ["price", "size"], low, high, home, covering=covering)
        links = [(int(parent[child]), child) for child in range(len(parent)) if parent[child] >= 0]
        other = one_by_one.Network(links, covering=covering)
        for name, goes in commands if links else []:
            box = tuple(zip(low[name].tolist(), high[name].tolist(), strict=True))
            if goes:
                other.unsubscribe(int(home[name]), name)
            else:
                other.subscribe(int(home[name]), name, box)
        for part in (commands[:cut], commands[cut:]):
            network.follow(
                np.array([name for name, _ in part], np.int64), np.array([goes for _, goes in part], np.bool_)
            )
        assert network.messages == other.messages
        assert network.entries().sum() == other.entries
        for broker in range(len(parent)):
            sent = network.publish(np.full(len(points), broker, np.int32), points)
            assert (network.served(points, sent) == network.matches(points)).all()
            inside: Any = ((low <= points[:, None]) & (points[:, None] <= high)).all(axis=2)
            inside[:, gone] = False
            assert (network.matches(points) == inside).all()


def test_covering_saves_and_every_list_stays_exact() -> None:
    rng = np.random.default_rng(3)
    workload = draw_workload(objects=40, subscriptions=120, events=60, kind="uniform", over=["x"], rng=rng)
    graph = topology.make("tree", 60, 12, rng)
    routing = Routing(workload, graph, gone=0.2, listeners=120, rng=rng)
    plain, covered = (routing.run(3, covering=covering) for covering in (False, True))
    for each in (plain, covered):
        assert each.exact_lists
        assert each.missed == 0
        assert each.checked == (True, 96, 96)
    for name in ("subscribe_messages", "unsubscribe_messages", "table_entries"):
        assert covered.figures[name] < plain.figures[name]
    for name in ("event_hops", "overlay_bytes", "ip_bytes", "received"):
        assert covered.figures[name] == plain.figures[name]
    assert plain.figures["subscribe_messages"] == 120 * 11


@pytest.mark.parametrize("kind", topology.KINDS)
def test_networks_are_connected_and_hops_are_shortest(kind: str) -> None:
    networkx = pytest.importorskip("networkx")
    graph = topology.make(kind, 40, 7, np.random.default_rng(1))
    pairs = [
        (node, int(other))
        for node in range(40)
        for other in graph.neighbour[graph.start[node] : graph.start[node + 1]]
    ]
    known = networkx.Graph(pairs)
    for line, broker in enumerate(graph.brokers.tolist()):
        lengths = networkx.single_source_shortest_path_length(known, broker)
        assert graph.hops[line].tolist() == [lengths[node] for node in range(40)]
    parent = graph.joined()
    weights = networkx.Graph()
    weights.add_weighted_edges_from(
        (one, two, graph.hops[one, graph.brokers[two]]) for one in range(7) for two in range(one)
    )
    tree = networkx.minimum_spanning_tree(weights)
    mine = sum(graph.hops[child, graph.brokers[parent[child]]] for child in range(1, 7))
    assert mine == tree.size(weight="weight")


def test_what_is_not_joined_or_too_many_brokers_is_refused() -> None:
    with pytest.raises(SettingError, match="do not join"):
        topology.of_links(np.array([[0, 1]]), 3, np.array([0], np.int32))
    for few in range(1, 7):
        with pytest.raises(SettingError, match=f"nodes is {few}, expected at least 7"):
            topology.make("internet", few, 1, np.random.default_rng(0))
    with pytest.raises(SettingError, match="at most the 3 nodes"):
        topology.make("tree", 3, 4, np.random.default_rng(0))
    start, neighbour = topology.rows_of(np.empty((0, 2), np.int64), 2)
    assert hops_from(start, neighbour, np.array([0], np.int32)).tolist() == [[0, -1]]


def test_the_smallest_networks_are_there() -> None:
    for kind in topology.KINDS:
        least = topology.LEAST_NODES.get(kind, 1)
        for nodes in range(least, least + 3):
            assert topology.make(kind, nodes, nodes, np.random.default_rng(0)).nodes == nodes
