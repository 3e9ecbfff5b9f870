"""Traffic counted once more, by hand: plain loops over messages, and shortest paths by networkx."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from matplotlib.figure import Figure

from rankcast.papers.network import topology
from rankcast.papers.network import zones as network_zones
from rankcast.papers.network.content import Tiles
from rankcast.papers.network.diagonal import Diagonal
from rankcast.papers.network.plots import draw_map, trace
from rankcast.papers.network.routing import Routing
from rankcast.papers.network.simulation import Simulation, points_of, tiles_of
from rankcast.papers.network.topology import Topology, Workload, draw_workload
from rankcast.papers.network.traffic import method
from rankcast.papers.network.zones import Zones

networkx = pytest.importorskip("networkx")
K = 3
WORLDS = [(1, 1), (2, 1), (3, 4), (4, 6)]  # seed, servers
Path = list[int]


class World(NamedTuple):
    """A small simulation, and distances between the nodes of its network."""

    simulation: Simulation
    away: dict[int, dict[int, int]]
    server: Path  # the zone that each event goes to
    enters: Path  # the zone where it enters


def distances(graph: Topology) -> dict[int, dict[int, int]]:
    rows = itertools.pairwise(graph.start.tolist())
    links = [(node, other) for node, (a, b) in enumerate(rows) for other in graph.neighbour[a:b].tolist()]
    return dict(networkx.all_pairs_shortest_path_length(networkx.Graph(links)))


def zone_of(zones: Zones, point: Any) -> int:
    held = (zones.low <= point) & ((point < zones.high) | (zones.high == np.inf))
    return int(np.flatnonzero(held.all(axis=1))[0])


def made(seed: int, servers: int, events: int = 15) -> World:
    rng = np.random.default_rng(seed)
    work = draw_workload(objects=24, subscriptions=70, events=events, kind="uniform", over=["x"], rng=rng)
    graph = topology.make("power-law", 30, 9, rng)
    simulation = Simulation(work, graph, servers=servers, rng=rng)
    away, zones = distances(graph), simulation.network.zones
    near = [nearest(graph, away[node]) for node in simulation.origin.tolist()]
    return World(simulation, away, serving(work, zones, servers), near)


def nearest(graph: Topology, away: dict[int, int]) -> int:
    """The broker at the least distance, of equal ones the first."""
    return min(range(len(graph.brokers)), key=lambda broker: away[int(graph.brokers[broker])])


def serving(work: Workload, zones: Zones, servers: int) -> Path:
    """The zone of the server of each event: at the centre, or of those along the diagonal the object's."""
    ids = work.events["id"].tolist()
    if servers == 1:
        return [zone_of(zones, (zones.frame[0] + zones.frame[1]) / 2)] * len(ids)
    found = []
    for name in ids:
        order = sorted(work.objects["id"].tolist(), key=lambda one: work.objects["x"][one])
        parts = [part.tolist() for part in np.split(np.array(order), servers)]
        mine = next(part for part in parts if name in part)
        found.append(zone_of(zones, np.repeat(work.objects["x"][mine[len(mine) // 2]], 2)))
    return found


def way(zones: Zones, source: int, goal: int) -> list[tuple[int, int]]:
    """The greedy way from a zone to the middle of another, as pairs."""
    middle = zones.centres()[[goal]]
    cell, path = zones.cells(middle)[0], np.empty(len(zones), np.int32)
    aim = zones.scaled(middle)[0]
    steps = network_zones.forward(zones.space, np.int32(source), aim, cell, cell, cell, path)
    return list(itertools.pairwise(path[: steps + 1].tolist()))


def links(world: World, pairs: Any) -> int:
    """Links of the IP network under pairs of brokers."""
    at = world.simulation.network.topology.brokers
    return sum(world.away[int(at[one])][int(at[two])] for one, two in pairs)


def messages(world: World, name: str) -> Iterator[tuple[Tiles, int, int]]:
    """The messages of a method, each with the event it is of."""
    simulation = world.simulation
    for tiles in tiles_of(simulation.engine(K), ["x"], simulation.workload.events, method(name)):
        for at in range(len(tiles.item)):
            yield tiles, at, int(tiles.event[at])


def reached(world: World, tiles: Tiles, at: int) -> Path:
    points = points_of(world.simulation.workload.ranges, ["x"])
    return np.flatnonzero(((tiles.low[at] <= points) & (points <= tiles.high[at])).all(axis=1)).tolist()


def last_links(world: World, who: Path) -> int:
    """Links between subscribers and the brokers of their zones."""
    simulation, at = world.simulation, world.simulation.network.topology.brokers
    points = points_of(simulation.workload.ranges, ["x"])
    homes = [int(at[zone_of(simulation.network.zones, points[one])]) for one in who]
    return sum(world.away[int(simulation.nodes[one])][home] for one, home in zip(who, homes, strict=True))


def arriving(world: World, *, served: bool) -> tuple[int, int]:
    """Hops and links of all events, from where they come from to where they enter, and on to the server."""
    simulation = world.simulation
    at, hops, far = simulation.network.topology.brokers, 0, 0
    for origin, enters, server in zip(simulation.origin.tolist(), world.enters, world.server, strict=True):
        pairs = way(simulation.network.zones, enters, server) if served else []
        hops += len(pairs)
        far += world.away[origin][int(at[enters])] + links(world, pairs)
    return hops, far


def walking(world: World, servers: int) -> tuple[int, int]:
    """Bytes over hops and over links of the questions that go from server to server."""
    work, zones = world.simulation.workload, world.simulation.network.zones
    if servers == 1:
        return 0, 0
    diagonal = Diagonal(work.objects["x"], work.objects["y"], servers)
    crossed = diagonal.follow(work.events["id"], work.events["y"], K).crossed.sum(axis=0).tolist()
    homes = [zone_of(zones, np.repeat(x, 2)) for x in diagonal.middle]
    ways = [way(zones, one, two) for one, two in itertools.pairwise(homes)]
    hops = sum(48 * times * len(pairs) for times, pairs in zip(crossed, ways, strict=True))
    return hops, sum(48 * times * links(world, pairs) for times, pairs in zip(crossed, ways, strict=True))


def figures(world: World, *names: str) -> list[dict[str, float]]:
    """What the simulation counts, all events together."""
    told = [each.figures() for each in world.simulation.run(K, [method(name) for name in names])]
    whole = ("server_bytes_most", "redundancy")
    return [{key: v if key in whole else v * len(world.server) for key, v in each.items()} for each in told]


@pytest.mark.parametrize(("seed", "servers"), WORLDS)
@pytest.mark.parametrize("name", ["dense", "sparse", "relax"])
def test_tiles_are_counted_by_hop_by_link_and_at_the_end(seed: int, servers: int, name: str) -> None:
    world = made(seed, servers)
    served = name != "relax"
    hops, far = arriving(world, served=served)
    walked = walking(world, servers) if served else (0, 0)
    overlay, ip = 16 * hops + walked[0], 16 * far + walked[1]
    sent, last, touched, received = [0] * len(world.server), 0, 0, 0
    for tiles, at, event in messages(world, name):
        path, told = trace(
            world.simulation.network, tiles, at, (world.server if served else world.enters)[event]
        )
        pairs = [*itertools.pairwise(path.tolist()), *told.tolist()]
        overlay, ip, touched = (
            overlay + 24 * len(pairs),
            ip + 24 * links(world, pairs),
            touched + len(told) + 1,
        )
        who = reached(world, tiles, at)
        last += 24 * last_links(world, who)
        received += len(who) if tiles.own[at] else 0
        sent[event] += 24 if served else 0
    (mine,) = figures(world, name)
    assert mine["overlay_bytes"] == pytest.approx(overlay)
    assert mine["ip_bytes"] == pytest.approx(ip)
    assert mine["last_ip_bytes"] == pytest.approx(last)
    assert mine["zones_touched"] == pytest.approx(touched)
    assert mine["received"] == pytest.approx(received)
    assert mine["server_bytes"] == pytest.approx(sum(sent))
    assert mine["server_bytes_most"] == max(sent)
    assert last > 0
    assert far > 0
    assert servers == 1 or not served or min(walked) > 0


@pytest.mark.parametrize(("seed", "servers"), WORLDS)
def test_unicast_is_counted_by_subscription(seed: int, servers: int) -> None:
    world = made(seed, servers)
    simulation = world.simulation
    points = points_of(simulation.workload.ranges, ["x"])
    (hops, far), walked = arriving(world, served=True), walking(world, servers)
    by_broker, direct = [0, 0], [0, 0]
    sent = [0] * len(world.server)
    for tiles, at, event in messages(world, "unicast"):
        for one in reached(world, tiles, at) if tiles.own[at] else []:
            pair = (world.server[event], zone_of(simulation.network.zones, points[one]))
            steps = way(simulation.network.zones, *pair)
            by_broker = [by_broker[0] + len(steps), by_broker[1] + links(world, steps)]
            direct = [direct[0] + (pair[0] != pair[1]), direct[1] + links(world, [pair])]
            sent[event] += 16
    for mine, (over, under) in zip(
        figures(world, "unicast", "unicast-direct"), (by_broker, direct), strict=True
    ):
        assert mine["overlay_bytes"] == pytest.approx(16 * (hops + over) + walked[0])
        assert mine["ip_bytes"] == pytest.approx(16 * (far + under) + walked[1])
        assert mine["server_bytes_most"] == max(sent)


def test_redundancy_is_what_was_received_for_nothing() -> None:
    world = made(2, 1)
    heard = {
        name: sum(len(reached(world, tiles, at)) for tiles, at, _ in messages(world, name) if tiles.own[at])
        for name in ("sparse", "sparse(1)", "relax")
    }
    exact, about, relaxed = figures(world, "sparse", "sparse(1)", "relax")
    assert exact["redundancy"] == 0
    assert about["redundancy"] == pytest.approx((heard["sparse(1)"] - heard["sparse"]) / heard["sparse"])
    assert relaxed["redundancy"] == pytest.approx((heard["relax"] - heard["sparse"]) / heard["sparse"])
    assert 0 < about["redundancy"] < relaxed["redundancy"]


@pytest.mark.parametrize(("seed", "servers"), [*WORLDS, (5, 6), (6, 6)])
def test_the_map_shows_the_server_that_sends(seed: int, servers: int) -> None:
    world = made(seed, servers, events=1)
    panel = draw_map(Figure, world.simulation, K).axes[0]
    known = {line.get_label(): line for line in panel.get_lines()}
    centre = world.simulation.network.zones.centres()[world.server[0]]
    assert np.ravel(known["server"].get_data()).tolist() == centre.tolist()
    assert [ends[0] for ends in known["greedy way from the server"].get_data()] == centre.tolist()


@pytest.mark.parametrize("covering", [False, True])
@pytest.mark.parametrize("seed", [1, 2, 3])
def test_routers_are_counted_by_paths_in_their_tree(seed: int, covering: bool) -> None:
    rng = np.random.default_rng(seed)
    work = draw_workload(objects=20, subscriptions=14, events=12, kind="uniform", over=["x"], rng=rng)
    graph = topology.make("power-law", 40, 8, rng)
    routing = Routing(work, graph, gone=0.3, rng=rng)
    away, at = distances(graph), graph.brokers.tolist()
    tree = networkx.Graph([(child, int(up)) for child, up in enumerate(routing.parent) if up >= 0])
    hops = far = received = 0
    for name, source in zip(work.events["id"], routing.at.tolist(), strict=True):
        x = work.objects["x"][name]
        who = [one for one in routing.stay if work.ranges["x_lo"][one] <= x <= work.ranges["x_hi"][one]]
        paths = [networkx.shortest_path(tree, source, int(routing.home[one])) for one in who]
        crossed = {frozenset(pair) for path in paths for pair in itertools.pairwise(path)}
        hops, received = hops + len(crossed), received + len(who)
        far += sum(away[at[one]][at[two]] for one, two in map(tuple, crossed))
    told = routing.run(K, covering=covering)
    assert told.figures["event_hops"] * 12 == pytest.approx(hops)
    assert told.figures["overlay_bytes"] * 12 == pytest.approx(16 * hops)
    assert told.figures["ip_bytes"] * 12 == pytest.approx(16 * far)
    assert told.figures["received"] * 12 == pytest.approx(received)
    assert far > hops > 0
    if not covering:
        live = np.bincount(routing.home[routing.stay], minlength=8)
        assert told.figures["table_entries_most"] == live.sum() - live.min()
        assert told.figures["table_entries"] == pytest.approx((live.sum() - live).mean())
    assert told.figures["table_entries_most"] > told.figures["table_entries"]
