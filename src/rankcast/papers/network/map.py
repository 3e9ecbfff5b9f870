"""A map of zones, with the way of one tile through them (matplotlib; the extra `plot`)."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast.errors import brief
from rankcast.papers.network.content import ContentNetwork, Tiles
from rankcast.papers.network.kernels import network_zones as kernels
from rankcast.papers.network.simulation import Simulation, tiles_of
from rankcast.papers.network.traffic import method
from rankcast.tables.schema import Ints, Rows

GREY, PALE, BLUE, ORANGE, GREEN, RED = "#718096", "#e2e8f0", "#2b6cb0", "#dd6b20", "#2f855a", "#c53030"
MOST_POINTS = 3_000
MOST_TOUCHED = 60
TRIED = 100  # updates among which a tile worth a picture is looked for


def trace(network: ContentNetwork, tiles: Tiles, at: int, source: int) -> tuple[Rows, Ints]:
    """The way of a tile: zones from the source to the first it touches, then pairs (teller, told)."""
    zones, space = network.zones, network.zones.space
    bottom, top = zones.cells(tiles.low[[at]])[0], zones.cells(tiles.high[[at]])[0]
    aim = np.clip(np.clip(zones.centres()[[source]], tiles.low[at], tiles.high[at]), *zones.frame)
    cell, path = zones.cells(aim)[0], np.empty(len(zones), np.int32)
    steps = kernels.forward(space, np.int32(source), zones.scaled(aim)[0], cell, bottom, top, path)
    root, near = np.empty_like(cell), np.empty_like(cell)
    kernels.root_cell(space, path[steps], cell, bottom, top, root)
    touched = np.empty(len(zones), np.int32)
    count = kernels.list_touched(space, bottom, top, touched)
    told = [(kernels.teller(space, zone, root, bottom, top, near), zone) for zone in touched[:count]]
    return path[: steps + 1].copy(), np.array([pair for pair in told if pair[0] >= 0], np.int64).reshape(
        -1, 2
    )


def draw_map(figure_class: Any, simulation: Simulation, k: int) -> Any:
    """Draw zones, subscriptions, and one tile of Paint-Sparse: from the server to everybody it concerns."""
    network = simulation.network
    tiles, at, source = _worth_seeing(simulation, k)
    path, told = trace(network, tiles, at, source)
    canvas = figure_class(figsize=(9.5, 9), layout="constrained")
    axes = canvas.subplots()
    centres = network.zones.centres()
    _zones(axes, network, np.unique([path[-1], *told[:, 1]]))
    _subscriptions(axes, network)
    _tile(axes, network, tiles, at)
    axes.plot(*centres[path].T, color=RED, linewidth=2.2, label="greedy way from the server", zorder=5)
    for number, (one, two) in enumerate(told):
        label = "multicast over the zones it touches" if number == 0 else None
        axes.plot(*centres[[one, two]].T, color=GREEN, linewidth=1.6, label=label, zorder=4)
    axes.plot(
        *centres[source], marker="*", markersize=17, color=RED, linestyle="none", label="server", zorder=6
    )
    low, high = network.zones.frame
    axes.set(xlim=(low[0], high[0]), ylim=(low[1], high[1]), aspect="equal")
    over = brief(simulation.over[0]).replace("$", r"\$")  # no formula between dollar signs
    axes.set(xlabel=f"{over}_lo", ylabel=f"{over}_hi")
    axes.set_title(
        f"one tile in {len(network.zones)} zones: {len(path) - 1} hops to it, {len(told) + 1} zones touched"
    )
    axes.legend(loc="lower right", framealpha=0.95)
    return canvas


def _worth_seeing(simulation: Simulation, k: int) -> tuple[Tiles, int, int]:
    """Tiles, one of them that touches many zones but not too many, and the zone it is sent from."""
    servers, _ = simulation.servers_of_events(k)
    events = {name: column[:TRIED] for name, column in simulation.workload.events.items()}
    parts = list(tiles_of(simulation.engine(k), simulation.over, events, method("sparse")))
    tiles = Tiles(*(np.concatenate(columns) for columns in zip(*parts, strict=True)))
    if not len(tiles.item):
        box = np.array([simulation.network.zones.frame[0]]), np.array([simulation.network.zones.frame[1]])
        nothing = np.zeros(1, np.int32)
        tiles = Tiles(*box, nothing, np.zeros(1), nothing, np.ones(1, np.bool_))
        return tiles, 0, int(servers[0])
    zones, scratch = simulation.network.zones, np.empty(len(simulation.network.zones), np.int32)
    bottom, top, best, worth = zones.cells(tiles.low), zones.cells(tiles.high), 0, -1.0
    for at in range(len(tiles.item)):
        touched = kernels.list_touched(zones.space, bottom[at], top[at], scratch)
        if touched > worth and touched <= min(MOST_TOUCHED, max(1, len(zones) // 4)):
            best, worth = at, touched
    return tiles, best, int(servers[tiles.event[best]])


def _zones(axes: Any, network: ContentNetwork, touched: Ints) -> None:
    from matplotlib.collections import PatchCollection  # noqa: PLC0415
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    zones = network.zones
    low, high = np.clip(zones.low, *zones.frame), np.clip(zones.high, *zones.frame)
    boxes = [Rectangle(corner, *(other - corner)) for corner, other in zip(low, high, strict=True)]
    inside = np.isin(np.arange(len(zones)), touched)
    colours = ["#fde7d3" if each else "white" for each in inside]
    axes.add_collection(PatchCollection(boxes, facecolor=colours, edgecolor=GREY, linewidth=0.6))
    corner_low, corner_high = zones.frame
    ends = [corner_low.min(), corner_high.max()]
    axes.fill_between(ends, ends, [corner_low.min()] * 2, color=PALE, alpha=0.8, zorder=2)


def _subscriptions(axes: Any, network: ContentNetwork) -> None:
    points = network.crowd.point
    shown = points[:: 1 + len(points) // MOST_POINTS]
    axes.scatter(
        shown[:, 0], shown[:, 1], s=3, color=BLUE, alpha=0.45, label="subscriptions (some)", zorder=3
    )


def _tile(axes: Any, network: ContentNetwork, tiles: Tiles, at: int) -> None:
    from matplotlib.patches import Rectangle  # noqa: PLC0415

    low, high = (np.clip(side[at], *network.zones.frame) for side in (tiles.low, tiles.high))
    box = Rectangle(low, *(high - low), facecolor=ORANGE, alpha=0.45, edgecolor=ORANGE, linewidth=2)
    box.set(label="the tile", zorder=3)
    axes.add_patch(box)
