"""The check at the end of a run: everybody is checked, what is lost is noticed, nothing is changed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast.errors import SettingError
from rankcast.papers.network import topology
from rankcast.papers.network.delivery import must_hear, words
from rankcast.papers.network.routing import AcyclicNetwork, Routing
from rankcast.papers.network.simulation import Simulation
from rankcast.papers.network.topology import Workload, draw_workload
from rankcast.papers.network.traffic import method

METHODS = [method(name) for name in ("unicast", "relax", "dense", "sparse", "sparse(1)", "sparse*4")]


def world(seed: int, subscriptions: int = 90) -> Workload:
    rng = np.random.default_rng(seed)
    return draw_workload(
        objects=30, subscriptions=subscriptions, events=25, kind="uniform", over=["x"], rng=rng
    )


def simulated(work: Workload, listeners: int | None = None) -> Simulation:
    rng = np.random.default_rng(5)
    return Simulation(work, topology.make("tree", 30, 8, rng), listeners=listeners, rng=rng)


def test_everybody_is_checked_unless_said_otherwise(monkeypatch: pytest.MonkeyPatch) -> None:
    for each in simulated(world(1)).run(2, METHODS):
        assert each.checked == (True, 90, 90)
    for each in simulated(world(1), 40).run(2, METHODS):
        assert each.checked == (True, 40, 40)
    monkeypatch.setattr("rankcast.papers.network.traffic.MOST_KEPT", 120)
    told = {each.method.name: each.checked for each in simulated(world(1)).run(2, METHODS)}
    assert told["relax"] == (True, 90, 4)
    assert told["sparse"] == (True, 90, 90)


def test_listeners_do_not_change_what_is_measured() -> None:
    some, others, everybody = (simulated(world(2), count).run(3, METHODS) for count in (1, 17, None))
    for one, two, three in zip(some, others, everybody, strict=True):
        assert one.figures() == two.figures() == three.figures()
    first, second = np.random.default_rng(9), np.random.default_rng(9)
    graph = topology.make("tree", 30, 8, np.random.default_rng(1))
    for rng, count in ((first, 5), (second, None)):
        Simulation(world(2), graph, listeners=count, rng=rng)
        Routing(world(2), graph, listeners=count, rng=rng)
    assert first.random() == second.random()
    routed = [
        Routing(world(2), graph, listeners=count, rng=np.random.default_rng(3)).run(3, covering=True).figures
        for count in (1, 17, None)
    ]
    assert routed[0] == routed[1] == routed[2]


@pytest.mark.parametrize("name", ["relax", "sparse"])
def test_one_subscriber_who_hears_nothing_is_noticed(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever it is: also one who keeps no list. One that no message concerns may be left out."""
    monkeypatch.setattr("rankcast.papers.network.traffic.MOST_KEPT", 30)
    simulation = simulated(world(3, 25))
    x = simulation.workload.objects["x"][simulation.workload.events["id"]]
    whole = simulation.network.listeners
    for left_out in range(25):

        def deaf(*known: Any, who: int = left_out) -> Any:
            listeners = whole(*known)
            point = listeners.point.copy()
            point[who, 1] = -1.0
            return listeners._replace(point=point)

        monkeypatch.setattr(simulation.network, "listeners", deaf)
        before = np.array(simulation.network.heard_at)
        low, high = before[left_out]
        told = simulation.run(30 if name == "sparse" else 1, [method(name)])[0]
        assert told.exact_lists == (not ((low <= x) & (x <= high)).any())


@pytest.mark.parametrize("change", ["item", "score", "twice", "order"])
def test_wrong_updates_are_noticed(change: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """By those who keep no list as well."""
    simulation = simulated(world(4))
    whole = simulation.network.multicast

    def wrong(tiles: Any, *more: Any) -> Any:
        rows = np.arange(len(tiles.item))
        if change == "twice":
            rows = np.append(rows, rows[-1])
        if change == "order":
            rows[[4, 5]] = rows[[5, 4]]
        told = type(tiles)(*(column[rows] for column in tiles))
        if change == "item":
            told.item[3] += 1
        if change == "score":
            told.score[3] = np.nextafter(told.score[3], 2)
        return whole(told, *more)

    monkeypatch.setattr(simulation.network, "multicast", wrong)
    audience = simulation._audience(simulation.stage(2), keeps=True)
    assert audience.digest is not None
    listeners = simulation.network.listeners(audience.keeping, *audience.known)
    monkeypatch.setattr(simulation.network, "listeners", lambda *_: listeners)
    assert not simulation.run(2, [method("relax")])[0].exact_lists
    assert (listeners.digest != audience.digest).any()


END = st.sampled_from([-np.inf, 0.0, 0.3, 0.5, np.inf])


@settings(max_examples=60)
@given(
    st.lists(st.tuples(END, END, END, END), max_size=6),
    st.lists(
        st.tuples(st.sampled_from([0.0, 0.2, 0.5]), st.sampled_from([0.0, 0.4]), st.integers(0, 3)),
        max_size=9,
    ),
)
def test_who_must_hear_what(boxes: list[Any], updates: list[Any]) -> None:
    """Two subscribers have the same digest if and only if the same updates concern them."""
    points = np.array(boxes, np.float64).reshape(-1, 4)
    at = np.array([update[:2] for update in updates], np.float64).reshape(-1, 2)
    told = words(np.array([update[2] for update in updates], np.int32), np.zeros(len(updates)))
    heard = [
        tuple(
            update[2] for update in updates if box[0] <= update[0] <= box[1] and box[2] <= update[1] <= box[3]
        )
        for box in boxes
    ]
    digest = must_hear(points, at, told).tolist()
    assert len(set(zip(digest, heard, strict=True))) == len(set(digest)) == len(set(heard))
    assert all((one == 0) == (mine == ()) for one, mine in zip(digest, heard, strict=True))


def test_zero_has_one_word() -> None:
    one, two = words(np.array([1, 1], np.int32), np.array([0.0, -0.0]))
    assert one == two


def test_somebody_must_stay() -> None:
    graph = topology.make("tree", 30, 8, np.random.default_rng(1))
    with pytest.raises(SettingError, match=r"gone is 1\.0, expected a share below 1"):
        Routing(world(1), graph, gone=1.0, rng=np.random.default_rng(1))


def test_routers_that_lose_an_update_are_noticed(monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if nobody whose list is kept has missed it."""
    monkeypatch.setattr("rankcast.papers.network.traffic.MOST_KEPT", 30)
    graph = topology.make("tree", 30, 8, np.random.default_rng(1))
    routing = Routing(world(1), graph, rng=np.random.default_rng(1))
    assert routing.run(2, covering=True).checked == (True, 68, 1)
    whole, left_out = AcyclicNetwork.publish, (int(routing.home[routing.listening[0]]) + 1) % 8

    def lossy(network: AcyclicNetwork, *told: Any) -> Any:
        sent = whole(network, *told)
        sent.reached[:, left_out] = False
        return sent

    monkeypatch.setattr(AcyclicNetwork, "publish", lossy)
    told = routing.run(2, covering=True)
    assert told.missed > 0
    assert not told.exact_lists


def test_several_servers_are_for_one_attribute() -> None:
    rng = np.random.default_rng(1)
    work = draw_workload(objects=9, subscriptions=9, events=3, kind="uniform", over=["x", "z"], rng=rng)
    with pytest.raises(SettingError, match="servers is 2, expected 1"):
        Simulation(work, topology.make("tree", 9, 3, rng), servers=2, rng=rng)


def test_one_sided_attributes_have_upper_ends_alone() -> None:
    rng = np.random.default_rng(1)
    work = draw_workload(
        objects=9, subscriptions=400, events=3, kind="uniform", over=["x", "z"], one_sided=["z"], rng=rng
    )
    assert np.isneginf(work.ranges["z_lo"]).all()
    assert 0.4 < work.ranges["z_hi"].mean() < 0.6
    assert np.isfinite(work.ranges["x_lo"]).all()
    assert (work.ranges["x_lo"] <= work.ranges["x_hi"]).all()
