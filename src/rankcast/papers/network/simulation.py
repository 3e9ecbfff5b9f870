"""A run: objects change, a server turns changes into messages, a network carries them, listeners keep lists.

One engine serves all methods: it is given the objects once, every method applies the same updates to it, and
afterwards the objects are put back as they were. The messages are those of `RangeTopK.disseminate`, asked for
event by event. Every method ends with a comparison of the listeners' lists with those of a witness. CN-Relax
makes them keep every object in their range: there some keep lists, and of all the updates heard are compared.

An experiment plays every number of subscriptions with every k, over the same objects and updates.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from rankcast.errors import SettingError
from rankcast.papers.network import delivery, topology
from rankcast.papers.network.config import Experiment
from rankcast.papers.network.content import ContentNetwork, Tiles
from rankcast.papers.network.delivery import Listeners, must_hear, words
from rankcast.papers.network.diagonal import Diagonal
from rankcast.papers.network.routing import Routing
from rankcast.papers.network.servers import ObjectServers
from rankcast.papers.network.topology import Columns, Topology, Workload, with_nulls
from rankcast.papers.network.traffic import (
    TILE_BYTES,
    Boards,
    Checked,
    Method,
    Outcome,
    Witness,
    chosen,
    spread_over,
    with_needed,
)
from rankcast.papers.network.zones import cut_space
from rankcast.range_topk.engine import RangeTopK
from rankcast.tables.schema import Bools, Floats, Ints, Rows

PORTION = 200_000  # messages that travel at once
WALK_BYTES = 2 * TILE_BYTES  # a question to the next server, and its answer
MOST_RELAXED = 1_000  # updates that CN-Relax plays: each reaches a third of all, whatever k is

Watcher = Callable[[str], None]


class Audience(NamedTuple):
    """Which listeners keep lists, by place among all, with what in them, and what they must become."""

    keeping: Ints
    known: Boards
    witness: Witness
    digest: NDArray[np.uint64] | None  # of what each listener must hear, if not all of them keep a list

    def exact(self, listeners: Listeners) -> bool:
        """Whether every listener knows what he must."""
        heard = self.digest is None or np.array_equal(listeners.digest, self.digest)
        return heard and self.witness.agrees(Boards(listeners.item, listeners.score))


class Stage(NamedTuple):
    """What all methods share at one k: the engine, where events go, who listens."""

    engine: RangeTopK
    server: Rows  # zones, an event each
    enters: Rows
    ways: Ints  # hops and links of each event to its server
    walks: tuple[int, int]  # bytes between servers, over hops and over links
    k: int
    audiences: dict[bool, Audience]  # by whether they keep all they hear of, as soon as they are needed


class Simulation:
    """A workload on a content-driven network; `run` plays it for one k.

    Args:
        workload: objects, ranges and updates of y.
        topology: the network under it, with one broker a zone.
        split: how zones are cut.
        listeners: how many subscribers are checked at the end, at random; None: all.
        servers: how many servers share the objects along the diagonal; 1: one, at the centre of space.
        rng: draws where subscribers stand, where events come from, who listens.

    Attributes:
        nodes: where each subscriber stands.
        origin: where each event comes from.
    """

    def __init__(
        self,
        workload: Workload,
        topology: Topology,
        *,
        split: str = "midpoint",
        listeners: int | None = None,
        servers: int = 1,
        rng: np.random.Generator,
    ) -> None:
        self.workload, self.servers = workload, servers
        self.over = [name.removesuffix("_lo") for name in workload.ranges if name.endswith("_lo")]
        if servers > 1 and len(self.over) > 1:
            raise SettingError(f"servers is {servers}", expected="1, as objects have several attributes")
        points = points_of(workload.ranges, self.over)
        self.nodes = rng.integers(0, topology.nodes, len(points)).astype(np.int32)
        zones = cut_space(points, len(topology.brokers), split, rng)
        self.origin = rng.integers(0, topology.nodes, len(workload.events["id"])).astype(np.int32)
        listening = chosen(np.arange(len(points)), listeners, rng)
        self.network = ContentNetwork(topology, zones, points, self.nodes, listening)

    def run(self, k: int, methods: Sequence[Method], watch: Watcher = lambda step: None) -> list[Outcome]:
        """Play the same updates by every method; returns what each cost, and whether all lists were exact."""
        watch(f"k = {k}: subscribing")
        stage = self.stage(k)
        outcomes = []
        for each in methods:
            watch(f"k = {k}: {each.name}")
            outcomes.append(self.play(stage, each))
        return with_needed(outcomes)

    def stage(self, k: int) -> Stage:
        """Everything that methods share at one k."""
        server, walks = self.servers_of_events(k)
        enters, ways = self.network.arrivals(self.origin, server)
        return Stage(self.engine(k), server, enters, ways.astype(np.int64), walks, k, {})

    def engine(self, k: int) -> RangeTopK:
        """The server's engine: all subscriptions, and the objects as they are before the updates."""
        engine = RangeTopK(over=self.over, k=k)
        ranges = self.workload.ranges
        engine.subscribe({"id": np.arange(len(ranges[f"{self.over[0]}_lo"])), **with_nulls(ranges)})
        engine.disseminate(self.workload.objects, method="relax")
        return engine

    def play(self, stage: Stage, each: Method) -> Outcome:
        """Play all updates by one method, each from its zone, then put the objects back."""
        network, relaxed = self.network, each.method == "relax"
        events = self._played(relaxed)
        source, audience = stage.enters if relaxed else stage.server, self._audience(stage, keeps=relaxed)
        count, listeners = len(events["id"]), network.listeners(audience.keeping, *audience.known)
        sums = np.zeros((count, delivery.SUMS), np.int64)
        for tiles in tiles_of(self._teller(stage, each), self.over, events, each):
            if each.asks == "unicast":
                direct = each.method == "unicast-direct"
                sums += network.unicast(tiles, listeners, source, count, direct=direct)
            else:
                sent = network.shrunk(tiles) if each.method == "sparse-unmerged" else tiles
                sums += network.multicast(sent, listeners, source, count)
        self._put_back(stage.engine)
        ways, walks = stage.ways, stage.walks
        if relaxed:
            ways, walks = network.entries(source[:count], self.origin[:count]).astype(np.int64), (0, 0)
        checked = Checked(audience.exact(listeners), len(listeners.slot), len(listeners.item))
        return Outcome(each, count, sums, ways, checked, walk_bytes=walks)

    def _teller(self, stage: Stage, each: Method) -> RangeTopK | ObjectServers:
        """Who makes the messages: one engine; of exact dense tiles the servers that share the objects."""
        if self.servers == 1 or each.name != "dense":
            return stage.engine
        return ObjectServers(self.workload.objects, self.servers, stage.k, over=self.over[0])

    def servers_of_events(self, k: int) -> tuple[Rows, tuple[int, int]]:
        """The zone that each event is sent to, and the bytes of the walks between servers."""
        network, (objects, _, events) = self.network, self.workload
        if self.servers == 1:
            return np.full(len(events["id"]), network.server, np.int32), (0, 0)
        diagonal = Diagonal(objects[self.over[0]], objects["y"], self.servers)
        at = np.column_stack([diagonal.middle] * (2 * len(self.over)))
        homes = network.zones.owners(at)
        walks = diagonal.follow(events["id"], events["y"], k)
        ways = network.walk(homes[:-1], homes[1:])
        both = WALK_BYTES * (walks.crossed.sum(axis=0) @ ways)
        return homes[diagonal.server_of(events["id"])], (int(both[0]), int(both[1]))

    def _audience(self, stage: Stage, *, keeps: bool) -> Audience:
        """Those who listen; if they must keep all objects in their range (CN-Relax), only some of them."""
        if keeps not in stage.audiences:
            stage.audiences[keeps] = self._seated(stage.k, keeps)
        return stage.audiences[keeps]

    def _seated(self, k: int, keeps: bool) -> Audience:
        objects, ranges, _ = self.workload
        listening, events = self.network.listening, self._played(keeps)
        keeping, digest = np.arange(len(listening)), None
        if keeps:
            keeping, digest = spread_over(len(listening), len(objects["id"])), self._digest(events)
        theirs = {name: ends[listening[keeping]] for name, ends in ranges.items()}
        witness = Witness(self.over, k, objects, theirs)
        known = witness.everything() if keeps else witness.begin
        witness.follow(events)
        return Audience(keeping, known, witness, digest)

    def _digest(self, events: Columns) -> NDArray[np.uint64]:
        """What each listener must have heard of updates if he hears of all objects in his range."""
        at = np.column_stack([self.workload.objects[name][events["id"]] for name in self.over])
        update_words = words(events["id"].astype(np.int32), events["y"])
        digest: NDArray[np.uint64] = must_hear(self.network.heard_at, at.astype(np.float64), update_words)
        return digest

    def _played(self, relaxed: bool) -> Columns:
        """The updates that a method plays; CN-Relax only the first of very many."""
        events = self.workload.events
        return {name: column[:MOST_RELAXED] for name, column in events.items()} if relaxed else events

    def _put_back(self, engine: RangeTopK) -> None:
        changed = np.unique(self.workload.events["id"])
        y = self.workload.objects["y"][changed]
        engine.disseminate({"id": changed, "y": y}, method="relax", batch=True)


def points_of(ranges: Columns, over: list[str]) -> Floats:
    """Subscriptions as points: lo and hi of each attribute in turn."""
    return np.column_stack([ranges[f"{name}_{end}"] for name in over for end in ("lo", "hi")])


def tiles_of(
    engine: RangeTopK | ObjectServers, over: list[str], events: Columns, each: Method
) -> Iterator[Tiles]:
    """Apply updates by one method, in its batches; the messages in portions (a batch: its first event's)."""
    tables: list[pa.Table] = []
    lines: list[Rows] = []
    own: list[Bools] = []
    size = 0
    for at in range(0, len(events["id"]), each.batch):
        part = {name: column[at : at + each.batch] for name, column in events.items()}
        tiles = engine.disseminate(part, method=each.asks, epsilon=each.epsilon, batch=each.batch > 1)
        tables.append(tiles)
        lines.append(np.full(tiles.num_rows, at, np.int32))
        size += tiles.num_rows
        own.append(np.isin(tiles["item"].to_numpy(), part["id"]))
        if size > PORTION:
            yield _arrays(pa.concat_tables(tables), over, lines, own)
            tables, lines, own, size = [], [], [], 0
    if tables:
        yield _arrays(pa.concat_tables(tables), over, lines, own)


def _arrays(table: pa.Table, over: list[str], lines: list[Rows], own: list[Bools]) -> Tiles:
    """A table of tiles as arrays of closed boxes."""
    low, high = [], []
    for name in over:
        lo_outer, hi_outer = (table[f"{name}_{end}"].to_numpy() for end in ("lo_outer", "hi_outer"))
        low += [np.where(np.isnan(lo_outer), -np.inf, np.nextafter(lo_outer, np.inf))]
        high += [table[f"{name}_lo_inner"].to_numpy()]
        low += [table[f"{name}_hi_inner"].to_numpy()]
        high += [np.where(np.isnan(hi_outer), np.inf, np.nextafter(hi_outer, -np.inf))]
    return Tiles(
        np.column_stack(low),
        np.column_stack(high),
        table["item"].to_numpy().astype(np.int32),
        table["y"].to_numpy().astype(np.float64),
        np.concatenate(lines),
        np.concatenate(own),
    )


@dataclass
class Played:
    """What came out: a row of figures a run, and the last simulation, for its map."""

    rows: list[dict[str, Any]] = field(default_factory=list)
    last: Simulation | None = None


def steps(experiment: Experiment) -> int:
    """How many steps will be watched."""
    runs = len(experiment.subscriptions) * len(experiment.k)
    if experiment.network == "lossy":
        return runs * len(experiment.loss)
    return runs * (len(experiment.methods) + 1 if experiment.network == "content" else 2)


def content(experiment: Experiment, watch: Watcher) -> Played:
    """All methods on a content-driven network."""
    played = Played()
    for count in experiment.subscriptions:
        rng = np.random.default_rng(experiment.seed)
        graph = topology.make(experiment.kind, experiment.nodes, experiment.brokers, rng)
        simulation = Simulation(
            draw(experiment, count, rng),
            graph,
            split=experiment.split,
            listeners=experiment.listeners,
            servers=experiment.servers,
            rng=rng,
        )
        played.last = simulation
        for k in experiment.k:
            for outcome in simulation.run(k, experiment.methods, watch):
                run = {"subscriptions": count, "k": k, "method": outcome.method.name}
                played.rows.append({**run, **_check_counts(outcome.checked, of=count), **outcome.figures()})
    return played


def acyclic(experiment: Experiment, watch: Watcher) -> Played:
    """Routers with and without covering."""
    played = Played()
    for count in experiment.subscriptions:
        rng = np.random.default_rng(experiment.seed)
        graph = topology.make(experiment.kind, experiment.nodes, experiment.brokers, rng)
        routing = Routing(
            draw(experiment, count, rng),
            graph,
            gone=experiment.gone,
            listeners=experiment.listeners,
            rng=rng,
        )
        for k in experiment.k:
            for covering in (False, True):
                name = "covering" if covering else "no covering"
                watch(f"{count:,} subscriptions, k = {k}: {name}")
                routed = routing.run(k, covering=covering)
                run = {"subscriptions": count, "k": k, "method": name, "missed": routed.missed}
                known = _check_counts(routed.checked, of=len(routing.stay))
                played.rows.append({**run, **known, **routed.figures})
    return played


def _check_counts(checked: Checked, *, of: int) -> dict[str, Any]:
    """The check at the end of a run: of how many subscribers how many were checked, how many kept lists."""
    counts = {"exact_lists": checked.exact, "subscribers": of}
    return {**counts, "checked": checked.listeners, "lists": checked.lists}


def draw(experiment: Experiment, subscriptions: int, rng: np.random.Generator) -> topology.Workload:
    """Draw the workload that an experiment asks for."""
    return topology.draw_workload(
        objects=experiment.objects,
        subscriptions=subscriptions,
        events=experiment.events,
        kind=experiment.workload,
        over=experiment.over,
        one_sided=experiment.one_sided,
        rng=rng,
    )
