"""The map of the city as a figure."""

from __future__ import annotations

from typing import Any

import numpy as np

from rankcast.bench.plots import INK, PALETTE
from rankcast.bench.report import Markup
from rankcast.demo import pages
from rankcast.demo.city.evening import RIDERS, Minute
from rankcast.demo.city.places import CENTRES, DISTRICTS, HEIGHT, WIDTH, Floats
from rankcast.demo.city.town import Town

SHOWN = 60  # steps of a track
DEALS = 25
WALKER = "walker 0"
RIM: dict[str, Any] = {"edgecolors": "white", "linewidths": 0.6}
BESIDE: dict[str, Any] = {"xytext": (6, 5), "textcoords": "offset points", "fontsize": 9, "color": INK}


class Tracks:
    """Where couriers were in the last minutes, and the last deals."""

    def __init__(self) -> None:
        self.couriers: list[tuple[Any, Any]] = []
        self.deals: list[tuple[float, float]] = []

    def note(self, minute: Minute) -> None:
        """Take note of one step."""
        self.couriers = [*self.couriers, (minute.couriers["x"], minute.couriers["y"])][-SHOWN:]
        places = zip(minute.deals["x"], minute.deals["y"], strict=True)
        self.deals = [*self.deals, *places][-DEALS:]


def city_map(town: Town, tracks: Tracks) -> Markup:
    """Districts, restaurants, couriers with tracks and zones, a walker's zone, the last deals."""

    def draw(axes: Any) -> None:
        _districts(axes)
        found = town.city.restaurants
        axes.scatter(found.x, found.y, s=4 + 3 * found.stars**1.5, color=INK, alpha=0.28, linewidths=0)
        _couriers(axes, town, tracks)
        _walker(axes, town)
        x, y = np.array(tracks.deals).reshape(-1, 2).T
        axes.scatter(
            x,
            y,
            s=70,
            marker="*",
            color=PALETTE[3],
            edgecolors="white",
            linewidths=0.5,
            zorder=6,
            label="deal",
        )
        axes.set(xlim=(0, WIDTH), ylim=(0, HEIGHT), aspect="equal", xlabel="km", ylabel="km")
        axes.figure.legend(loc="outside lower center", ncols=6, frameon=False, fontsize=9)

    caption = "The map: districts, couriers' tracks with their zones, a walker's zone, deals"
    return pages.figures(pages.figure("map", caption, draw, size=(10.5, 7.6), wide=True))


def _districts(axes: Any) -> None:
    for number, (name, (x, y)) in enumerate(DISTRICTS.items()):
        corners = outline(number)
        axes.fill(*corners.T, color=PALETTE[number % len(PALETTE)], alpha=0.13, linewidth=0)
        axes.text(x, y, name, ha="center", va="center", fontsize=12, color=INK, alpha=0.55, style="italic")


def outline(number: int) -> Floats:
    """The corners of a district: all places nearer to its centre than to any other."""
    corners = [np.array(each) for each in ((0.0, 0.0), (WIDTH, 0.0), (WIDTH, HEIGHT), (0.0, HEIGHT))]
    mine = CENTRES[number]
    for other in np.delete(CENTRES, number, axis=0):
        away, middle = other - mine, (other + mine) / 2
        beyond = [float(away @ (corner - middle)) for corner in corners]
        kept = []
        for place, corner in enumerate(corners):
            before, now = beyond[place - 1], beyond[place]
            if (before > 0) != (now > 0):
                kept.append(corners[place - 1] + before / (before - now) * (corner - corners[place - 1]))
            if now <= 0:
                kept.append(corner)
        corners = kept
    return np.array(corners)


def _couriers(axes: Any, town: Town, tracks: Tracks) -> None:
    from matplotlib.patches import Circle  # noqa: PLC0415

    x, y = (np.array(each) for each in zip(*tracks.couriers, strict=True))
    orange = PALETTE[1]
    axes.plot(x, y, color=orange, linewidth=0.7, alpha=0.45)
    axes.plot(x[:, : len(RIDERS)], y[:, : len(RIDERS)], color=orange, linewidth=1.8)
    axes.scatter(x[-1], y[-1], s=34, color=orange, **RIM, zorder=5, label="courier")
    for place, (row, name) in enumerate(zip(town.couriers.zones().to_pylist(), RIDERS, strict=False)):
        ring = Circle((row["x"], row["y"]), row["radius"], facecolor=orange, edgecolor=orange, alpha=0.2)
        ring.set_label("zone of a courier" if place == 0 else "_")
        axes.add_patch(ring)
        axes.annotate(name, (x[-1, place], y[-1, place]), **BESIDE)


def _walker(axes: Any, town: Town) -> None:
    told = town.walkers.view(WALKER)
    colour = PALETTE[2]
    for place, ring in enumerate(told["rings"]):
        closed = np.vstack([ring, ring[:1]])
        label = "_" if place else "zone of a walker"
        axes.plot(closed[:, 0], closed[:, 1], color=colour, linewidth=1.4, linestyle="--", label=label)
    axes.scatter([told["x"]], [told["y"]], s=44, color=colour, **RIM, zorder=5, label="walker")
    best = told["result"]
    axes.scatter(
        told["objects_x"][best],
        told["objects_y"][best],
        s=44,
        facecolors="none",
        edgecolors=colour,
        linewidths=1.2,
        zorder=4,
        label="worth looking at for the walker",
    )
