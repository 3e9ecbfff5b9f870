"""`rankcast demo city`, and the city as a page.

The page has the map, what each engine delivered and spared, and the lists at the end.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.text import Text

from rankcast.bench.drawing import INK, PALETTE
from rankcast.bench.markup import Markup
from rankcast.demo import pages
from rankcast.demo.city.evening import (
    CENTRES,
    DISTRICTS,
    ENGINES,
    HEIGHT,
    RIDERS,
    TITLES,
    WIDTH,
    City,
    Floats,
    Minute,
    Town,
)
from rankcast.demo.city.screen import PACE, Screen, saved, summary
from rankcast.demo.scenes import PEOPLE

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
    view = town.walkers.view(WALKER)
    colour = PALETTE[2]
    for place, ring in enumerate(view["rings"]):
        closed = np.vstack([ring, ring[:1]])
        label = "_" if place else "zone of a walker"
        axes.plot(closed[:, 0], closed[:, 1], color=colour, linewidth=1.4, linestyle="--", label=label)
    axes.scatter([view["x"]], [view["y"]], s=44, color=colour, **RIM, zorder=5, label="walker")
    best = view["result"]
    axes.scatter(
        view["objects_x"][best],
        view["objects_y"][best],
        s=44,
        facecolors="none",
        edgecolors=colour,
        linewidths=1.2,
        zorder=4,
        label="worth looking at for the walker",
    )


LINES = dict(zip(TITLES, PALETTE, strict=False))
LEAD = (
    "Couriers and walkers move, customers wait for deals they have a taste for, offers look for visitors, "
    "watchers look for cheap dishes in a range of stars, and the router of each district forwards only "
    "wishes that no other one covers. All of it on the same restaurants; each engine tells only what changed."
)


def page(town: Town, tracks: Tracks, minutes: int) -> str:
    """The whole report."""
    events = sum(tally.events for tally in town.tallies.values())
    answers = sum(tally.answers for tally in town.tallies.values())
    seconds = sum(sum(tally.seconds) for tally in town.tallies.values())
    moving = town.tallies["moving"]
    parts = [
        pages.cards(
            [
                (f"{events:,}", "events"),
                (f"{answers:,}", "rows told"),
                (f"{1e3 * seconds / minutes:.0f} ms", "for half a minute, all engines"),
                (f"{moving.share:.0%}", "of positions stayed in their zone"),
                (f"{town.reached / max(town.tiles, 1):.1f}", "watchers reached by a message"),
                (f"{1 - town.forwarded / max(town.areas, 1):.0%}", "of wishes need no forwarding"),
            ]
        ),
        pages.section("The city at the end", city_map(town, tracks), note=_caption()),
        pages.section("What each engine did", _table(town)),
        pages.section("How the evening went", pages.figures(*_figures(town))),
        pages.section("Lists at the end", _lists(town), note="Some of those who have a name."),
    ]
    clock = f"seed {town.city.seed}, {minutes / 2:g} minutes from six o'clock on"
    return pages.page("One city, five engines", f"{LEAD} ({clock}.)", parts)


def _caption() -> str:
    return (
        "Districts, restaurants (the larger, the more stars), couriers with the way they came and, for six "
        "of them, the zone in which their three best kitchens are among the same ten; a walker's zone, in "
        "which the kitchens worth looking at are the same, as a dashed outline; the last deals as stars."
    )


def _table(town: Town) -> Markup:
    rows = []
    for name, tally in town.tallies.items():
        millis = np.array(tally.seconds) * 1e3
        took = f"{np.median(millis):.2f}", f"{np.quantile(millis, 0.99):.2f}"
        what = Text.from_markup(saved(town, name)).plain
        rows.append((ENGINES[name], TITLES[name], what, f"{tally.events:,}", f"{tally.answers:,}", *took))
    heads = ("engine", "who", "spared", "events", "rows told", "ms a step", "99%")
    return pages.table(heads, rows, words=3)


def _figures(town: Town) -> list[Markup]:
    drawings: list[tuple[str, str, Callable[[Any], None]]] = [
        ("told", "Rows told, ten steps at a time", lambda axes: _rows_over_time(axes, town)),
        ("steps", "What a step of half a minute takes: median and 5 to 95%", lambda axes: _steps(axes, town)),
        ("spared", "What was spared, as a share of all there was to do", lambda axes: _spared(axes, town)),
        (
            "network",
            "Messages of prices and wishes of people, step by step",
            lambda axes: _network(axes, town),
        ),
    ]
    return [pages.figure(*each) for each in drawings]


def _rows_over_time(axes: Any, town: Town) -> None:
    for name, tally in town.tallies.items():
        parts = np.add.reduceat(tally.by_minute, np.arange(0, len(tally.by_minute), 10))
        style = {"color": LINES[name], "label": ENGINES[name], "marker": "o", "markersize": 3}
        axes.plot(5 * np.arange(1, len(parts) + 1), np.maximum(parts, 1), **style)
    axes.set(xlabel="minutes", ylabel="rows told")
    _dress(axes, columns=3)


def _network(axes: Any, town: Town) -> None:
    tiles, reached, areas, forwarded = np.array(town.history).T
    minutes = np.arange(1, len(tiles) + 1) / 2
    lines = {"watchers reached": reached, "messages sent": tiles}
    lines |= {"wishes": areas, "wishes forwarded": forwarded}
    for place, (label, values) in enumerate(lines.items()):
        style = {"color": PALETTE[3 + place // 2], "linestyle": "--" if place % 2 else "-"}
        axes.plot(minutes, np.maximum(values, 1), label=label, linewidth=1.8, **style)
    axes.set(xlabel="minutes")
    _dress(axes, columns=4)


def _dress(axes: Any, columns: int) -> None:
    """A scale by powers of ten, a grid, and the legend below."""
    axes.set(yscale="log")
    axes.yaxis.set_major_formatter("{x:,g}")
    axes.minorticks_off()
    axes.grid(visible=True, linewidth=0.5, alpha=0.25)
    axes.figure.legend(loc="outside lower center", ncols=columns, frameon=False, fontsize=8)


def _steps(axes: Any, town: Town) -> None:
    millis = [1e3 * np.array(tally.seconds) for tally in town.tallies.values()]
    middle = np.array([np.median(each) for each in millis])
    ends = np.array([np.quantile(each, [0.05, 0.95]) for each in millis])
    place = np.arange(len(millis))[::-1]
    away = np.abs(ends.T - middle)
    axes.barh(place, middle, color=[LINES[name] for name in TITLES], height=0.55, alpha=0.85)
    axes.errorbar(middle, place, xerr=away, fmt="none", color="grey", linewidth=1, capsize=3)
    axes.set(yticks=place, xlabel="milliseconds")
    axes.set_yticklabels([name.replace(", ", ",\n") for name in ENGINES.values()], fontsize=8)


def _spared(axes: Any, town: Town) -> None:
    words = {
        "moving": "positions in their zone",
        "deals": "deals nobody hears of",
        "offers": "pairs never looked at",
        "prices": "messages, by tiles",
        "routers": "deals that stop at a router",
    }
    place = np.arange(len(words))[::-1]
    share = [100 * town.tallies[name].share for name in words]
    axes.barh(place, share, color=[LINES[name] for name in words], height=0.55, alpha=0.85)
    for at, value in zip(place, share, strict=True):
        axes.text(min(value, 99) - 1, at, f"{value:.1f}%", ha="right", va="center", fontsize=8, color="white")
    axes.set(yticks=place, xlabel="per cent", xlim=(0, 100))
    axes.set_yticklabels(words.values(), fontsize=8)


def _lists(town: Town) -> Markup:
    rows = []
    for who in ("Max", "Noor"):
        rows.append((f"{who}, courier", "best kitchens", _list(town.couriers.results([who]), "score")))
    for who in PEOPLE[:4]:
        rows.append((who, "deals", _list(town.deals.results([who]), "score")))
        rows.append((who, "cheapest in the range", _list(town.prices.results([who]), "price")))
    return pages.table(("who", "what", "list"), rows, words=3)


def _list(found: Any, word: str) -> str:
    return "; ".join(f"{row['rank']}. {row['item']} ({word} {row['score']:.2f})" for row in found.to_pylist())


def show(console: Console, *, seconds: int, seed: int, target: Path) -> Town:
    """Let an evening pass, as long as it takes to show in so many seconds; then the summary and the report.

    What happens, and all counts, depend on the seed and the seconds alone.
    """
    with console.status("the city wakes up ..."):
        town, tracks = Town(City(seed)), Tracks()
    minutes = PACE * seconds
    Screen(town, minutes, console, tracks.note).play()
    console.print(summary(town, minutes))
    written = pages.write(target, page(town, tracks, minutes))
    console.print(f"\nThe map and the plots: {written.as_uri()}", soft_wrap=True)
    return town
