"""Plots of experiments (matplotlib; the extra `plot`).

Traffic by k, by subscriptions and by method; a map of the zones, with the way of one tile through them.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from rankcast.errors import brief, required
from rankcast.papers.network import zones as kernels
from rankcast.papers.network.config import Experiment
from rankcast.papers.network.content import ContentNetwork, Tiles
from rankcast.papers.network.simulation import Played, Simulation, tiles_of
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
    pairs = [(kernels.teller(space, zone, root, bottom, top, near), zone) for zone in touched[:count]]
    return path[: steps + 1].copy(), np.array([pair for pair in pairs if pair[0] >= 0], np.int64).reshape(
        -1, 2
    )


def draw_map(figure_class: Any, simulation: Simulation, k: int) -> Any:
    """Draw zones, subscriptions, and one tile of Paint-Sparse: from the server to everybody it concerns."""
    network = simulation.network
    tiles, at, source = _worth_seeing(simulation, k)
    path, pairs = trace(network, tiles, at, source)
    canvas = figure_class(figsize=(9.5, 9), layout="constrained")
    axes = canvas.subplots()
    centres = network.zones.centres()
    _zones(axes, network, np.unique([path[-1], *pairs[:, 1]]))
    _subscriptions(axes, network)
    _tile(axes, network, tiles, at)
    axes.plot(*centres[path].T, color=RED, linewidth=2.2, label="greedy way from the server", zorder=5)
    for number, (one, two) in enumerate(pairs):
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
        f"one tile in {len(network.zones)} zones: {len(path) - 1} hops to it, {len(pairs) + 1} zones touched"
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
    points = network.subscribers.point
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


COLOURS = ("#3b82c4", "#e0803a", "#2fa37c", "#c65f9e", "#8f7fd6", "#b3922e", "#5aa9d6", "#d0574f")
MARKERS = "osD^vP*X"
LABELS = {
    "overlay_bytes": "between brokers, bytes an event",
    "ip_bytes": "over IP links, bytes an event",
    "server_bytes": "from the server, bytes an event",
    "received": "messages received, an event",
    "subscribe_messages": "messages of subscribes",
    "unsubscribe_messages": "messages of unsubscribes",
    "table_entries": "entries a routing table",
    "tile_bytes": "messages, bytes times links",
    "extra_bytes": "because of loss, bytes times links",
    "asked": "lists asked for",
    "lost": "parts lost",
}
CONTENT = ("overlay_bytes", "ip_bytes", "server_bytes", "received")
LOSSY = ("tile_bytes", "extra_bytes", "asked", "lost")
ACYCLIC = ("subscribe_messages", "unsubscribe_messages", "table_entries", "overlay_bytes")
Row = dict[str, Any]


def require() -> None:
    """Refuse to begin without matplotlib."""
    _figure_class()


def draw_all(experiment: Experiment, played: Played) -> list[Path]:
    """Draw what there is to compare into the directory of the experiment; the files."""
    figures = {"content": CONTENT, "acyclic": ACYCLIC, "lossy": LOSSY}[experiment.network]
    drawn = {"traffic-by-method.png": _bars(_at(played.rows, _largest(played.rows)), figures)}
    for name in ("k", "subscriptions"):
        others = [each for each in ("k", "subscriptions") if each != name]
        rows = _at(played.rows, {each: _largest(played.rows)[each] for each in others})
        if len({row[name] for row in rows}) > 1:
            drawn[f"traffic-by-{name}.png"] = _lines(rows, name, figures)
    if played.last is not None and len(experiment.over) == 1:
        drawn["zones.png"] = draw_map(_figure_class(), played.last, max(experiment.k))
    for name, figure in drawn.items():
        figure.savefig(experiment.out / name, dpi=120)
    return [experiment.out / name for name in drawn]


def _largest(rows: list[Row]) -> Row:
    return {name: max(row[name] for row in rows) for name in ("k", "subscriptions")}


def _at(rows: Iterable[Row], where: Row) -> list[Row]:
    return [row for row in rows if all(row[name] == value for name, value in where.items())]


def _lines(rows: list[Row], over: str, figures: tuple[str, ...]) -> Any:
    """Each figure over k or subscriptions, a line a method."""
    methods = list(dict.fromkeys(row["method"] for row in rows))
    canvas, panels = _panels(f"traffic by {over}", rows, over)
    for panel, figure in zip(panels, figures, strict=True):
        for number, name in enumerate(methods):
            mine = sorted((row[over], row[figure]) for row in _at(rows, {"method": name}) if row[figure] > 0)
            if mine:
                style = {"color": COLOURS[number % len(COLOURS)], "marker": MARKERS[number % len(MARKERS)]}
                size = 10 - 6 * number / len(methods)  # of equal ones the later stands inside the earlier
                panel.plot(*zip(*mine, strict=True), label=name, linewidth=1.8, markersize=size, **style)
        _dress(panel, figure)
        _scale(panel.yaxis, [row[figure] for row in rows if row[figure] > 0])
        panel.set_xlabel(over)
        ticks = sorted({row[over] for row in rows})
        if over == "subscriptions":
            panel.set_xscale("log")
        panel.set_xticks(ticks, [f"{tick:,}" for tick in ticks])
        panel.minorticks_off()
    handles, labels = panels[0].get_legend_handles_labels()
    canvas.legend(handles, labels, loc="outside lower center", ncols=min(5, len(labels)), frameon=False)
    return canvas


def _bars(rows: list[Row], figures: tuple[str, ...]) -> Any:
    """Each figure by method, with its number at the end of the bar."""
    names = [row["method"] for row in rows]
    canvas, panels = _panels("traffic by method", rows, None)
    for panel, figure in zip(panels, figures, strict=True):
        values = [row[figure] for row in rows]
        colours = [COLOURS[number % len(COLOURS)] for number in range(len(rows))]
        bars = panel.barh(names, values, color=colours)
        panel.bar_label(bars, [f"{value:,.0f}" for value in values], padding=3, fontsize=8)
        panel.invert_yaxis()
        _dress(panel, figure)
        panel.set_ylabel("")
        panel.set_xlabel(LABELS[figure])
        far = _scale(panel.xaxis, [value for value in values if value > 0])
        panel.set_xlim(right=max(1.0, *values) * (8 if far else 1.2))
        for line, value in enumerate(values):
            if not value:
                panel.text(panel.get_xlim()[0], line, " 0", va="center", fontsize=8)
    return canvas


def _scale(axis: Any, values: list[float]) -> bool:
    """Numbers with commas; a logarithmic axis where values lie more than ten times apart. Whether it is."""
    from matplotlib.ticker import LogLocator  # noqa: PLC0415 (an extra)

    far = bool(values) and max(values) > 10 * min(values)
    low, high = {"y": ("bottom", "top"), "x": ("left", "right")}[axis.axis_name]
    limit = getattr(axis.axes, f"set_{axis.axis_name}lim")
    if far:
        getattr(axis.axes, f"set_{axis.axis_name}scale")("log")
        few = axis.axis_name == "y" and max(values) < 300 * min(values)
        axis.set_major_locator(LogLocator(subs=(1.0, 2.0, 5.0) if few else (1.0,)))
        limit(**{low: min(values) / 1.6, high: max(values) * 1.6})
    else:
        limit(**{low: 0, high: 1.1 * max(values, default=1.0)})
    axis.set_major_formatter("{x:,.0f}")
    axis.set_minor_locator(LogLocator(subs=()) if far else axis.get_minor_locator())
    return far


def _panels(title: str, rows: list[Row], over: str | None) -> tuple[Any, list[Any]]:
    """Four panels under a title that says what is the same in all rows."""
    canvas = _figure_class()(figsize=(11, 7.6), layout="constrained")
    same = [f"{name} = {rows[0][name]:,}" for name in ("k", "subscriptions") if name != over]
    canvas.suptitle(f"{title}, {', '.join(same)}")
    return canvas, list(np.ravel(canvas.subplots(2, 2)))


def _dress(panel: Any, figure: str) -> None:
    panel.set_ylabel(LABELS[figure])
    panel.grid(visible=True, linewidth=0.5, alpha=0.25)
    panel.set_axisbelow(True)
    panel.spines[["top", "right"]].set_visible(False)


def _figure_class() -> Any:
    return required("matplotlib.figure", "plot").Figure
