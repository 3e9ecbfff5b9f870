"""A run on a network that loses messages: brokers keep the lists of their zones, and every list ends right.

Objects come, go, move and change their value, in batches. The server makes messages of every batch and
numbers them by zone (`rankcast.ZoneNumbers`); each goes to the brokers whose zones it touches. On the way a
part may be lost, doubled, or late by a batch. A broker may fail: it forgets all lists, and what is sent
meanwhile is lost; it comes back after some batches with the subscriptions of its zone. Every few batches the
server sends signs of life, which may be lost like anything else. A broker is a `rankcast.Gateway`: what it
notices, it mends by asking for the lists of its zone, over the same network, again and again until there is
an answer.

At the end signs of life are sent until every broker is in step, and the list of every subscriber is compared
with the engine's. Whatever a network without loss would not have carried is counted as extra.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from rankcast.gateway import Gateway, Lists, Part, answer
from rankcast.papers.network import topology
from rankcast.papers.network.config import Experiment, Weather
from rankcast.papers.network.simulation import Played, Watcher, draw, points_of
from rankcast.papers.network.topology import Topology, Workload, with_nulls
from rankcast.papers.network.traffic import EVENT_BYTES, TILE_BYTES
from rankcast.papers.network.zones import cut_space
from rankcast.range_topk.engine import RangeTopK
from rankcast.tables.schema import Ints
from rankcast.zone_numbers import ZoneNumbers

SIGN_BYTES = 16  # a sign of life: zone and number
RANGE_BYTES = 16  # a range that is asked for
MOST_SIGNS = (
    10_000  # signs of life to a zone after the last batch; with a share of loss below 1 never reached
)


class LossyNetwork:
    """One run: a server, brokers with their zones, and the weather between them."""

    def __init__(
        self,
        workload: Workload,
        graph: Topology,
        k: int,
        weather: Weather,
        *,
        split: str,
        rng: np.random.Generator,
    ) -> None:
        self.over = [name.removesuffix("_lo") for name in workload.ranges if name.endswith("_lo")]
        self.workload, self.weather, self.rng, self.k = workload, weather, rng, k
        points = points_of(workload.ranges, self.over)
        zones = cut_space(points, len(graph.brokers), split, rng)
        self.zone_of = zones.owners(points)
        corners = np.stack([zones.low, zones.high], axis=2).reshape(len(zones), len(self.over), 4)
        self.numbers = ZoneNumbers(
            [[(each[0], each[1], each[2], each[3]) for each in corner] for corner in corners.tolist()],
            over=self.over,
        )
        server = int(rng.integers(0, len(graph.brokers)))
        self.hops: Ints = graph.between_brokers()[server].astype(np.int64)
        # lists tell whom an event over boxes concerns; in one attribute the server needs none
        self.engine = RangeTopK(over=self.over, k=k, lists=len(self.over) > 1)
        self.engine.disseminate(workload.objects, method="relax", batch=True)
        self.members = [np.flatnonzero(self.zone_of == zone) for zone in range(len(zones))]
        self.engine.subscribe({"id": np.arange(len(points)), **with_nulls(workload.ranges)})
        self.count = dict.fromkeys(COUNTERS, 0)
        self.down: dict[int, int] = {}  # brokers that have failed, and the batch in which they come back
        self.late: list[tuple[int, Part]] = []
        self.gateways = [self._broker(zone) for zone in range(len(zones))]
        for zone, gateway in enumerate(self.gateways):
            gateway.resynchronise(self.numbers.last(zone))  # their first lists are no extra
        self.count = dict.fromkeys(COUNTERS, 0)
        self._gone = {"gaps": 0, "doubled": 0}  # what brokers that failed had noticed

    def play(self, batches: Iterator[list[dict[str, Any]]]) -> None:
        """Play all batches, then signs of life until every broker is in step."""
        weather = self.weather
        for number, rows in enumerate(batches):
            self._change_brokers(number)
            late, self.late = self.late, []
            tiles = self.engine.disseminate(rows, batch=True).to_pylist()
            self.count["messages"] += len(tiles)
            for zone, part in self.numbers.number(tiles):
                self._send(zone, part)
            for zone, part in late:
                self._arrive(zone, part)
            if number % weather.signs == weather.signs - 1:
                self._give_signs(range(len(self.gateways)))
        for zone, part in self.late:
            self._arrive(zone, part)
        for zone in list(self.down):
            self._revive(zone)
        for _ in range(MOST_SIGNS):
            behind = [z for z, each in enumerate(self.gateways) if each.sequence != self.numbers.last(z)]
            if not behind:
                return
            self._give_signs(behind)

    def exact(self) -> bool:
        """Whether every subscriber has the list that the engine would give him."""
        ranges = {"id": np.arange(len(self.zone_of)), **with_nulls(self.workload.ranges)}
        right: dict[int, list[tuple[Any, float]]] = {name: [] for name in range(len(self.zone_of))}
        for row in self.engine.preview(ranges).to_pylist():
            right[row["subscription"]].append((row["item"], row["score"]))
        return all(self.gateways[self.zone_of[name]].items(name) == items for name, items in right.items())

    def figures(self) -> dict[str, float]:
        """What it cost, in all."""
        found: dict[str, float] = dict(self.count)
        for name, gone in self._gone.items():
            found[name] = gone + sum(each.stats()[name] for each in self.gateways)
        found["extra_share"] = self.count["extra_bytes"] / max(self.count["tile_bytes"], 1)
        return found

    # Brokers

    def _broker(self, zone: int) -> Gateway:
        """A broker that has just begun: the subscribers of its zone, and no list."""
        gateway = Gateway(lambda ranges: self._ask(zone, ranges), over=self.over, by="y", k=self.k)
        names = [f"{name}_{end}" for name in self.over for end in ("lo", "hi")]
        ranges = self.workload.ranges
        gateway.subscribe(
            {"id": int(row), **{name: _end(ranges[name][row]) for name in names}}
            for row in self.members[zone]
        )
        return gateway

    def _change_brokers(self, number: int) -> None:
        """Let brokers come back whose time it is, and let others fail."""
        for zone in [zone for zone, back in self.down.items() if back <= number]:
            self._revive(zone)
        for zone in np.flatnonzero(self.rng.random(len(self.gateways)) < self.weather.fail).tolist():
            if zone not in self.down:
                self.down[zone] = number + self.weather.down
                self.count["failed"] += 1

    def _revive(self, zone: int) -> None:
        """A broker comes back without its lists; it asks for them at the next part or sign of life."""
        del self.down[zone]
        for name in self._gone:
            self._gone[name] += self.gateways[zone].stats()[name]
        self.gateways[zone] = self._broker(zone)

    def _ask(self, zone: int, ranges: list[dict[str, Any]]) -> Lists:
        """Lists for a broker; question and answer are sent again until both come through."""
        found = answer(ranges, lambda rows: self.engine.preview(rows).to_pylist(), self.numbers.last(zone))
        size = RANGE_BYTES * len(ranges) + EVENT_BYTES * len(list(found.rows))
        tries = 1
        while self.rng.random() < self.weather.loss:
            tries += 1
        self.count["asked"] += len(ranges)
        self.count["extra_bytes"] += tries * size * int(self.hops[zone])
        return found

    # Messages

    def _send(self, zone: int, part: Part) -> None:
        """Send a part: it may be lost, doubled or late."""
        weather, size = self.weather, TILE_BYTES * len(list(part.rows)) * int(self.hops[zone])
        self.count["parts"] += 1
        self.count["tile_bytes"] += size
        chance = self.rng.random(3)
        if chance[0] < weather.loss:
            self.count["lost"] += 1
            return
        if chance[1] < weather.doubled:
            self.count["extra_bytes"] += size
            self._arrive(zone, part)
        if chance[2] < weather.late:
            self.count["late"] += 1
            self.late.append((zone, part))
        else:
            self._arrive(zone, part)

    def _give_signs(self, some: Any) -> None:
        """Send the last number of some zones; it may be lost, too."""
        signs = self.numbers.signs_of_life()
        for zone in some:
            self.count["signs"] += 1
            self.count["extra_bytes"] += SIGN_BYTES * int(self.hops[zone])
            if self.rng.random() >= self.weather.loss:
                self._arrive(zone, signs[zone].part)

    def _arrive(self, zone: int, part: Part) -> None:
        """A part reaches a broker, unless it is down."""
        if zone in self.down:
            self.count["lost"] += 1
        else:
            self.gateways[zone].receive(part.rows, sequence=part.sequence, after=part.after)


COUNTERS = ("messages", "parts", "tile_bytes", "lost", "late", "failed", "signs", "asked", "extra_bytes")


def churn(
    workload: Workload, over: list[str], weather: Weather, rng: np.random.Generator
) -> Iterator[list[dict[str, Any]]]:
    """The events in batches: some objects come, some go, some move, the others get another value."""
    live = {int(name): 0 for name in workload.objects["id"]}
    fresh, left = len(live), len(workload.events["id"])
    while left > 0:
        rows: list[dict[str, Any]] = []
        for value in rng.random(min(weather.batch, left)).tolist():
            kind, place = rng.random(), {name: float(rng.random()) for name in over}
            if kind < weather.come or not live:
                rows.append({"id": fresh, **place, "y": value})
                live[fresh] = 0
                fresh += 1
                continue
            name = list(live)[int(rng.integers(0, len(live)))]
            if kind < weather.come + weather.go:
                rows.append({"id": name, "op": "remove"})
                del live[name]
            elif kind < weather.come + weather.go + weather.move:
                rows.append({"id": name, **place, "y": value})
            else:
                rows.append({"id": name, "y": value})
        left -= len(rows)
        yield [{"op": "upsert", **row} for row in rows]


def lossy(experiment: Experiment, watch: Watcher) -> Played:
    """The same events at every share of loss."""
    played = Played()
    for count in experiment.subscriptions:
        for k in experiment.k:
            for loss in experiment.loss:
                watch(f"{count:,} subscriptions, k = {k}: loss {loss:g}")
                rng = np.random.default_rng(experiment.seed)
                graph = topology.make(experiment.kind, experiment.nodes, experiment.brokers, rng)
                workload, weather = draw(experiment, count, rng), experiment.weather(loss)
                network = LossyNetwork(workload, graph, k, weather, split=experiment.split, rng=rng)
                events = np.random.default_rng(experiment.seed + 1)
                network.play(churn(workload, network.over, weather, events))
                run = {"subscriptions": count, "k": k, "method": f"loss {loss:g}"}
                known = {
                    "exact_lists": network.exact(),
                    "subscribers": count,
                    "checked": count,
                    "lists": count,
                }
                played.rows.append({**run, **known, **network.figures()})
    return played


def _end(value: float) -> float | None:
    return None if np.isinf(value) else float(value)
