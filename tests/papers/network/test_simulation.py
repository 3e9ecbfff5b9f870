"""Content-driven networks: nothing is missed by anybody, whatever the graph, the zones and the method."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import RangeTopK, SubscriberList
from rankcast.errors import SettingError
from rankcast.papers.network import delivery, topology
from rankcast.papers.network import delivery as listening
from rankcast.papers.network.simulation import Simulation, points_of, tiles_of
from rankcast.papers.network.topology import Workload, draw_workload
from rankcast.papers.network.traffic import method
from rankcast.papers.network.zones import SPLITS

NAMES = (
    "unicast",
    "unicast-direct",
    "relax",
    "dense",
    "sparse",
    "sparse-unmerged",
    "dense(0.5)",
    "sparse(1)",
)
METHODS = [method(name) for name in (*NAMES, "sparse*3", "dense*4")]
END = st.sampled_from([-np.inf, 0.0, 0.2, 0.4, 0.5, 0.6, 0.8, 1.0, np.inf])
Y = st.integers(0, 4)


@st.composite
def workloads(draw: Any, over: list[str]) -> Workload:
    """Few objects and ranges, with ties in x and y, equal ranges, points and unbounded ends."""
    count = draw(st.integers(1, 7))
    objects: dict[str, Any] = {"id": np.arange(count), "y": _floats(draw(_of(Y, count)))}
    ranges: dict[str, Any] = {}
    subscriptions = draw(st.integers(1, 12))
    for name in over:
        objects[name] = _floats(draw(_of(st.sampled_from([0.1, 0.2, 0.4, 0.5, 0.7, 0.8]), count)))
        pairs = np.array(draw(_of(st.tuples(END, END), subscriptions)), np.float64).reshape(-1, 2)
        ends = np.sort(pairs, axis=1)
        lo, hi = ends[:, 0].copy(), ends[:, 1].copy()
        ranges[f"{name}_lo"] = np.where(lo == np.inf, 1.0, lo)
        ranges[f"{name}_hi"] = np.where(hi == -np.inf, 0.0, np.maximum(hi, ranges[f"{name}_lo"]))
    events = draw(st.integers(0, 8))
    ids = np.array(draw(_of(st.integers(0, count - 1), events)), np.int64)
    return Workload(objects, ranges, {"id": ids, "y": _floats(draw(_of(Y, events)))})


def _of(values: Any, count: int) -> Any:
    return st.lists(values, min_size=count, max_size=count)


def _floats(values: list[float]) -> np.ndarray[Any, Any]:
    return np.array(values, np.float64)


def simulated(workload: Workload, brokers: int, kind: str, split: str, servers: int = 1) -> Simulation:
    rng = np.random.default_rng(5)
    graph = topology.make(kind, 2 * brokers + 3, brokers, rng)
    return Simulation(workload, graph, split=split, servers=servers, rng=rng)


@settings(max_examples=25)
@given(
    workloads(["x"]),
    st.integers(1, 9),
    st.sampled_from(["power-law", "tree", "ring"]),
    st.sampled_from(SPLITS),
    st.integers(1, 3),
)
def test_every_list_is_exact_by_every_method(
    workload: Workload, brokers: int, kind: str, split: str, k: int
) -> None:
    simulation = simulated(workload, brokers, kind, split)
    assert sorted(simulation.network.listening.tolist()) == list(range(len(workload.ranges["x_lo"])))
    outcomes = simulation.run(k, METHODS)
    told = {each.method.name: each for each in outcomes}
    assert [name for name, each in told.items() if not each.exact_lists] == []
    relaxed = _receivers_in_range(workload)
    assert told["relax"].sums[:, delivery.RECEIVED].tolist() == relaxed
    for name in ("unicast", "unicast-direct", "sparse", "sparse-unmerged"):
        assert (told[name].sums[:, delivery.OWN] == told["dense"].sums[:, delivery.OWN]).all()
    assert (told["sparse"].sums[:, delivery.MESSAGES] <= told["dense"].sums[:, delivery.MESSAGES]).all()


def _receivers_in_range(workload: Workload) -> list[int]:
    x = workload.objects["x"][workload.events["id"]][:, None]
    inside = (workload.ranges["x_lo"] <= x) & (x <= workload.ranges["x_hi"])
    return [int(count) for count in inside.sum(axis=1)]


@settings(max_examples=15)
@given(workloads(["x", "z"]), st.integers(1, 9), st.sampled_from(SPLITS), st.integers(1, 3))
def test_lists_are_exact_in_two_attributes(workload: Workload, brokers: int, split: str, k: int) -> None:
    outcomes = simulated(workload, brokers, "tree", split).run(
        k, [method(name) for name in ("unicast", "relax", "sparse")]
    )
    assert all(each.exact_lists for each in outcomes)


@settings(max_examples=15)
@given(
    workloads(["x", "z"]),
    st.integers(1, 9),
    st.sampled_from(SPLITS),
    st.integers(1, 3),
    st.sampled_from(["z_lo", "z_hi"]),
)
def test_lists_are_exact_if_the_second_attribute_has_one_bound(
    workload: Workload, brokers: int, split: str, k: int, free: str
) -> None:
    ends = np.full(len(workload.ranges["x_lo"]), -np.inf if free == "z_lo" else np.inf)
    half = workload._replace(ranges={**workload.ranges, free: ends})
    outcomes = simulated(half, brokers, "tree", split).run(k, METHODS)
    assert [each.method.name for each in outcomes if not each.exact_lists] == []


@settings(max_examples=15)
@given(workloads(["x"]), st.integers(1, 9), st.integers(1, 3), st.data())
def test_several_servers_publish_as_exactly(workload: Workload, brokers: int, k: int, data: Any) -> None:
    servers = data.draw(st.integers(1, len(workload.objects["id"])))
    one = simulated(workload, brokers, "tree", "midpoint").run(k, [method("sparse")])
    many = simulated(workload, brokers, "tree", "midpoint", servers).run(k, [method("sparse")])
    assert many[0].exact_lists
    assert (many[0].sums[:, delivery.RECEIVED] == one[0].sums[:, delivery.RECEIVED]).all()


def test_a_lost_message_is_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    workload = draw_workload(
        objects=30, subscriptions=60, events=20, kind="uniform", over=["x"], rng=np.random.default_rng(1)
    )
    simulation = simulated(workload, 5, "tree", "midpoint")
    assert simulation.run(2, [method("sparse")])[0].exact_lists
    whole = simulation.network.multicast

    def lossy(tiles: Any, *more: Any) -> Any:
        return whole(type(tiles)(*(column[1:] for column in tiles)), *more)

    monkeypatch.setattr(simulation.network, "multicast", lossy)
    assert not simulation.run(2, [method("sparse")])[0].exact_lists


def test_thousands_of_subscribers_with_one_bound_are_all_told() -> None:
    rng = np.random.default_rng(3)
    workload = draw_workload(
        objects=20,
        subscriptions=3_000,
        events=12,
        kind="uniform",
        over=["x", "z"],
        one_sided=["z"],
        rng=rng,
    )
    outcomes = simulated(workload, 40, "power-law", "midpoint").run(3, METHODS)
    assert [each.method.name for each in outcomes if each.checked[:2] != (True, 3_000)] == []


def test_merging_pays_where_zones_are_full_and_costs_where_they_are_empty() -> None:
    names = [method(name) for name in ("sparse-unmerged", "sparse", "sparse(1)")]
    told = {}
    for subscriptions in (60, 6_000):
        rng = np.random.default_rng(6)
        workload = draw_workload(
            objects=200, subscriptions=subscriptions, events=60, kind="uniform", over=["x"], rng=rng
        )
        simulation = Simulation(workload, topology.make("tree", 900, 900, rng), rng=rng)
        told[subscriptions] = [each.figures() for each in simulation.run(10, names)]
        unmerged, merged, _ = told[subscriptions]
        assert merged["messages"] < unmerged["messages"]
        more = [each["zones_touched"] / each["messages"] for each in told[subscriptions]]
        assert more == sorted(more)
    for figure in ("overlay_bytes", "ip_bytes"):
        few, many = ([each[figure] for each in told[subscriptions]] for subscriptions in (60, 6_000))
        assert few == sorted(few)
        assert many[1] < many[0]


def test_the_same_seed_gives_the_same_figures() -> None:
    rng = np.random.default_rng(1)
    workload = draw_workload(objects=40, subscriptions=90, events=20, kind="clustered", over=["x"], rng=rng)
    first, second = (
        [each.figures() for each in simulated(workload, 6, "power-law", "balanced").run(3, METHODS)]
        for _ in range(2)
    )
    assert first == second


def test_bytes_are_counted_by_hop_and_by_link() -> None:
    """Two brokers, three links apart on a line; a range in the zone of each. Dense tiles touch both zones."""
    links = np.array([[0, 1], [1, 2], [2, 3], [3, 4]])
    graph = topology.of_links(links, 5, np.array([0, 3], np.int32))
    workload = Workload(
        {"id": np.arange(2), "x": np.array([0.1, 0.9]), "y": np.array([1.0, 1.0])},
        {"x_lo": np.array([0.0, 0.8]), "x_hi": np.array([0.2, 1.0])},
        {"id": np.array([0, 1]), "y": np.array([0.5, 0.5])},
    )
    simulation = Simulation(workload, graph, rng=np.random.default_rng(2))
    server = simulation.network.server
    homes = simulation.network.zones.owners(points_of(workload.ranges, ["x"]))
    assert sorted(homes.tolist()) == [0, 1]
    enters, ways = simulation.network.arrivals(simulation.origin, np.full(2, server, np.int32))
    assert ways[:, 0].tolist() == (enters != server).astype(int).tolist()
    for name, size, hops in (("unicast", 16, 1), ("dense", 24, 2), ("sparse", 24, 1)):
        outcome = simulation.run(1, [method(name)])[0]
        told, events = outcome.figures(), outcome.event_ways.sum(axis=0) * 16
        assert told["server_bytes"] == size
        assert 2 * told["overlay_bytes"] == hops * size + events[0]
        assert 2 * told["ip_bytes"] == 3 * hops * size + events[1]
        assert outcome.exact_lists


@settings(max_examples=60)
@given(st.integers(1, 4), st.lists(st.tuples(st.integers(0, 5), st.one_of(st.none(), Y)), max_size=15))
def test_a_board_hears_as_a_subscriber_list_does(k: int, told: list[tuple[int, int | None]]) -> None:
    mine = SubscriberList(k)
    items, scores = np.full(k, -1, np.int32), np.full(k, np.inf)
    for item, score in told:
        mine.receive(item, None if score is None else float(score))
        listening.receive(items, scores, np.int32(item), np.nan if score is None else float(score))
        kept = np.count_nonzero(items >= 0)
        assert list(zip(items[:kept].tolist(), scores[:kept].tolist(), strict=True)) == mine.items()


def test_tiles_are_those_of_the_engine() -> None:
    rng = np.random.default_rng(4)
    workload = draw_workload(objects=30, subscriptions=80, events=12, kind="uniform", over=["x"], rng=rng)
    engine = simulated(workload, 4, "ring", "midpoint").engine(2)
    other = RangeTopK(k=2)
    other.publish(workload.objects)
    other.subscribe({"id": np.arange(80), **workload.ranges})
    told = next(iter(tiles_of(engine, ["x"], workload.events, method("sparse"))))
    expected = other.disseminate(workload.events)
    assert told.item.tolist() == expected["item"].to_pylist()
    assert told.score.tolist() == expected["y"].to_pylist()
    assert told.high[:, 0].tolist() == expected["x_lo_inner"].to_pylist()


@pytest.mark.parametrize(
    "name",
    [
        *("sparce", "relax(0.5)", "sparse(x)", "sparse*0", "sparse(2)", "sparse(0.5", "sparse()", "sparse)"),
        *("sparse*", "sparse*5*5", "sparse(0.5)5", "(0.5)", "", "sparse*2.5", "sparse*5(0.5)", "sparse(nan)"),
        *("relax*5", "sparse((0.5))", "*5"),
    ],
)
def test_unknown_methods_are_refused(name: str) -> None:
    with pytest.raises(SettingError):
        method(name)
