"""Servers that share the objects make the messages of one server, row for row."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankcast import RangeTopK
from rankcast.errors import SettingError
from rankcast.papers.network import simulation, topology
from rankcast.papers.network.servers import ObjectServers
from rankcast.papers.network.simulation import Simulation
from rankcast.papers.network.traffic import method


def objects(count: int, random: np.random.Generator, *, grid: bool) -> dict[str, Any]:
    x, y = random.random((2, count))
    if grid:  # many equal x and y
        x, y = np.floor(8 * x), np.floor(6 * y)
    return {"id": np.arange(count), "x": x, "y": y}


@pytest.mark.parametrize("servers", [1, 2, 3, 7, 20])
@pytest.mark.parametrize("grid", [False, True], ids=["distinct", "equal"])
@pytest.mark.parametrize("k", [1, 3, 25])
def test_messages_are_those_of_one_server(servers: int, grid: bool, k: int) -> None:
    random = np.random.default_rng(servers + k)
    held = objects(20, random, grid=grid)
    single = RangeTopK(k=k, lists=False)
    single.disseminate(held, method="relax", batch=True)
    shared = ObjectServers(held, servers, k)
    live, fresh = list(range(20)), 20
    for _ in range(60):
        value = float(np.floor(6 * random.random())) if grid else float(random.random())
        place = float(np.floor(8 * random.random())) if grid else float(random.random())
        kind, item = random.random(), live[int(random.integers(0, len(live)))]
        rows: dict[str, list[Any]] = {"id": [item], "y": [value]}
        if kind < 0.15:
            rows, fresh = {"id": [fresh], "x": [place], "y": [value]}, fresh + 1
            live.append(fresh - 1)
        elif kind < 0.3 and len(live) > 2:
            rows["y"] = [None]
            live.remove(item)
        one, many = single.disseminate(rows, method="dense"), shared.disseminate(rows)
        assert many.equals(one), f"{rows}: {many.to_pylist()} instead of {one.to_pylist()}"
    assert sum(shared.sizes()) == len(live)
    assert (shared.asked > 0) == (servers > 1)


def test_a_move_goes_from_one_server_and_comes_to_another() -> None:
    random = np.random.default_rng(2)
    held = objects(20, random, grid=False)
    single, shared = RangeTopK(k=3, lists=False), ObjectServers(held, 4, 3)
    single.disseminate(held, method="relax", batch=True)
    for item in range(20):
        place, value = float(random.random()), float(random.random())
        gone = single.disseminate({"id": [item], "y": [None]}, method="dense")
        come = single.disseminate({"id": [item], "x": [place], "y": [value]}, method="dense")
        told = shared.disseminate({"id": [item], "x": [place], "y": [value]})
        assert told.to_pylist() == gone.to_pylist() + come.to_pylist()
    assert sum(shared.sizes()) == 20


def test_the_simulator_sends_what_the_servers_make(monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Watched(ObjectServers):
        def disseminate(self, rows: Any, **given: Any) -> Any:
            made.append(len(rows["id"]))
            return super().disseminate(rows, **given)

    monkeypatch.setattr(simulation, "ObjectServers", Watched)
    outcomes = []
    for servers in (1, 5):
        rng = np.random.default_rng(7)
        graph = topology.make("tree", nodes=50, brokers=10, rng=rng)
        drawn = topology.draw_workload(
            objects=40, subscriptions=200, events=30, kind="uniform", over=["x"], rng=rng
        )
        network = Simulation(drawn, graph, rng=rng, servers=servers)
        outcomes.append(network.run(3, [method("dense"), method("sparse")])[0])
    assert len(made) == 30
    assert all(outcome.exact_lists for outcome in outcomes)
    one, five = (outcome.figures() for outcome in outcomes)
    assert one["messages"] == five["messages"]
    assert one["deliveries"] == five["deliveries"]


def test_there_are_no_more_servers_than_objects() -> None:
    with pytest.raises(SettingError, match="servers is 3"):
        ObjectServers({"id": np.arange(2), "x": np.zeros(2), "y": np.zeros(2)}, 3, k=1)
