"""The city as a page: the map, what each engine told and spared, and the lists at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from rich.text import Text

from rankcast.bench.plots import PALETTE
from rankcast.bench.report import Markup
from rankcast.demo import pages
from rankcast.demo.city.chart import Tracks, city_map
from rankcast.demo.city.screen import saved
from rankcast.demo.city.town import ENGINES, TITLES, Town
from rankcast.demo.scenes import PEOPLE

LINES = dict(zip(TITLES, PALETTE, strict=False))
LEAD = (
    "Couriers and walkers move, customers wait for deals they have a taste for, offers look for visitors, "
    "watchers look for cheap dishes in a range of stars, and the router of each district forwards only "
    "wishes that no other one covers. All of it on the same restaurants; each engine tells only what changed."
)


def page(town: Town, tracks: Tracks, minutes: int) -> str:
    """The whole report."""
    events = sum(tally.events for tally in town.tallies.values())
    told = sum(tally.answers for tally in town.tallies.values())
    seconds = sum(sum(tally.seconds) for tally in town.tallies.values())
    moving = town.tallies["moving"]
    parts = [
        pages.cards(
            [
                (f"{events:,}", "events"),
                (f"{told:,}", "rows told"),
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
        ("told", "Rows told, ten steps at a time", lambda axes: _told(axes, town)),
        ("steps", "What a step of half a minute takes: median and 5 to 95%", lambda axes: _steps(axes, town)),
        ("spared", "What was spared, as a share of all there was to do", lambda axes: _spared(axes, town)),
        (
            "network",
            "Messages of prices and wishes of people, step by step",
            lambda axes: _network(axes, town),
        ),
    ]
    return [pages.figure(*each) for each in drawings]


def _told(axes: Any, town: Town) -> None:
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
