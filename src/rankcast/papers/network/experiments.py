"""Experiments played through: every number of subscriptions with every k, the same objects and updates."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from rankcast.papers.network import topology, workload
from rankcast.papers.network.config import Experiment
from rankcast.papers.network.listening import Checked
from rankcast.papers.network.routing import Routing
from rankcast.papers.network.simulation import Simulation

Watcher = Callable[[str], None]


@dataclass
class Played:
    """What came out: a row of figures a run, and the last simulation, for its map."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    last: Simulation | None = None


def steps(asked: Experiment) -> int:
    """How many steps will be watched."""
    runs = len(asked.subscriptions) * len(asked.k)
    return runs * (len(asked.methods) + 1 if asked.network == "content" else 2)


def content(asked: Experiment, watch: Watcher) -> Played:
    """All methods on a content-driven network."""
    played = Played()
    for count in asked.subscriptions:
        rng = np.random.default_rng(asked.seed)
        graph = topology.make(asked.kind, asked.nodes, asked.brokers, rng)
        simulation = Simulation(
            _draw(asked, count, rng),
            graph,
            split=asked.split,
            listeners=asked.listeners,
            servers=asked.servers,
            rng=rng,
        )
        played.last = simulation
        for k in asked.k:
            for outcome in simulation.run(k, asked.methods, watch):
                run = {"subscriptions": count, "k": k, "method": outcome.method.name}
                played.rows.append({**run, **_told(outcome.checked, of=count), **outcome.figures()})
    return played


def acyclic(asked: Experiment, watch: Watcher) -> Played:
    """Routers with and without covering."""
    played = Played()
    for count in asked.subscriptions:
        rng = np.random.default_rng(asked.seed)
        graph = topology.make(asked.kind, asked.nodes, asked.brokers, rng)
        routing = Routing(
            _draw(asked, count, rng), graph, gone=asked.gone, listeners=asked.listeners, rng=rng
        )
        for k in asked.k:
            for covering in (False, True):
                name = "covering" if covering else "no covering"
                watch(f"{count:,} subscriptions, k = {k}: {name}")
                told = routing.run(k, covering=covering)
                run = {"subscriptions": count, "k": k, "method": name, "missed": told.missed}
                known = _told(told.checked, of=len(routing.stay))
                played.rows.append({**run, **known, **told.figures})
    return played


def _told(checked: Checked, *, of: int) -> dict[str, Any]:
    """The check at the end of a run: of how many subscribers how many were checked, how many kept lists."""
    told = {"exact_lists": checked.exact, "subscribers": of}
    return {**told, "checked": checked.listeners, "lists": checked.lists}


def _draw(asked: Experiment, subscriptions: int, rng: np.random.Generator) -> workload.Workload:
    return workload.draw(
        objects=asked.objects,
        subscriptions=subscriptions,
        events=asked.events,
        kind=asked.workload,
        over=asked.over,
        one_sided=asked.one_sided,
        rng=rng,
    )
