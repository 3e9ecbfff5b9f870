"""The pipelines as a page: figures, a map of the world, plots, lists at the end, and the two files."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pyarrow.compute as pc

from rankcast.bench.plots import INK, PALETTE
from rankcast.bench.report import Markup, element
from rankcast.demo import pages
from rankcast.demo.pipelines.board import figures
from rankcast.demo.pipelines.flow import Flow

LEAD = (
    "Two pipelines in one Spark session on two cores. Files come while they run; each micro-batch changes "
    "the lists of some subscribers, and only those changes are told."
)
HEADS = (
    "pipeline",
    "rows",
    "rows a second",
    "micro-batches",
    "seconds each",
    "file to lists, s",
    "95%",
    "deltas",
)


def page(flows: Sequence[Flow], seed: int) -> str:
    """The whole report."""
    told = sum(flow.deltas for flow in flows)
    rows = sum(flow.rows for flow in flows)
    late = np.concatenate([flow.latencies for flow in flows] or [[]])
    parts = [
        pages.cards(
            [
                (f"{rows:,}", "rows came"),
                (f"{told:,}", "deltas told"),
                (f"{sum(len(flow.owners) for flow in flows):,}", "subscribers whose lists changed"),
                (f"{np.median(late):.1f} s" if late.size else "-", "from a file to the lists, in the middle"),
            ]
        ),
        pages.section(
            "What came of it", pages.table(HEADS, [(flow.feed.name, *figures(flow)) for flow in flows])
        ),
        *(pages.section("Whom messages reach", world(flow)) for flow in flows if flow.feed.places),
        pages.section("Micro-batch by micro-batch", pages.figures(*_plots(flows))),
        *(pages.section(f"Lists at the end: {flow.feed.name}", _lists(flow)) for flow in flows),
        pages.section(
            "The files",
            *(element("pre", flow.feed.file) for flow in flows),
            note="Each of them is all there is to a pipeline: rankcast run FILE.toml runs it.",
        ),
    ]
    return pages.page("Two pipelines on Spark", f"{LEAD} (Seed {seed}.)", parts)


def world(flow: Flow) -> Markup:
    """Messages by place, and for some readers lines to the messages in their lists at the end."""

    def draw(axes: Any) -> None:
        x, y = (np.concatenate([table[name].to_numpy() for table in flow.feed.events]) for name in "xy")
        axes.scatter(x, y, s=7, color=INK, alpha=0.22, linewidths=0)
        names = [each for table in flow.feed.events for each in table["id"].to_pylist()]
        where = dict(zip(names, zip(x.tolist(), y.tolist(), strict=True), strict=True))
        found = flow.results()
        for number, (who, (home_x, home_y)) in enumerate(flow.feed.places.items()):
            colour = PALETTE[number % len(PALETTE)]
            for item in found.filter(pc.equal(found["subscription"], who))["item"].to_pylist():
                axes.plot(
                    [home_x, where[item][0]], [home_y, where[item][1]], color=colour, linewidth=1.1, alpha=0.8
                )
                axes.scatter(*where[item], s=26, color=colour, zorder=4, linewidths=0)
            axes.scatter(
                [home_x],
                [home_y],
                s=120,
                marker="*",
                color=colour,
                edgecolors="white",
                linewidths=0.6,
                zorder=5,
            )
            axes.annotate(
                who, (home_x, home_y), xytext=(6, 6), textcoords="offset points", fontsize=9, color=INK
            )
        axes.set(xlim=(-180, 180), ylim=(-60, 75), aspect=1.25, xlabel="longitude", ylabel="latitude")

    caption = "The world: every message a dot; readers as stars, joined to the messages in their lists"
    return pages.figures(pages.figure("world", caption, draw, size=(11, 5.6), wide=True))


def _plots(flows: Sequence[Flow]) -> list[Markup]:
    def seconds(axes: Any) -> None:
        for flow, colour in zip(flows, PALETTE[1:], strict=False):
            batches = [flow.batches[number] for number in sorted(flow.batches)]
            axes.plot([b.number for b in batches], [b.seconds for b in batches], **_line(flow, colour))
        _dress(axes, "micro-batch", "seconds")

    def latency(axes: Any) -> None:
        for flow, colour in zip(flows, PALETTE[1:], strict=False):
            axes.plot(np.arange(len(flow.latencies)) + 1, flow.latencies, **_line(flow, colour))
        _dress(axes, "file", "seconds")

    def deltas(axes: Any) -> None:
        for flow, colour in zip(flows, PALETTE[1:], strict=False):
            batches = [flow.batches[number] for number in sorted(flow.batches)]
            axes.plot(
                [b.number for b in batches], [b.total("deltas") for b in batches], **_line(flow, colour)
            )
        _dress(axes, "micro-batch", "deltas")

    def rows(axes: Any) -> None:
        for flow, colour in zip(flows, PALETTE[1:], strict=False):
            batches = [flow.batches[number] for number in sorted(flow.batches)]
            rates = [b.rows / b.seconds for b in batches]
            axes.plot([b.number for b in batches], rates, **_line(flow, colour))
        _dress(axes, "micro-batch", "rows a second")

    return [
        pages.figure("seconds", "What a micro-batch takes", seconds),
        pages.figure("latency", "From a file to the lists that it changes", latency),
        pages.figure("deltas", "Deltas of each micro-batch", deltas),
        pages.figure("rates", "Rows a second while a micro-batch runs", rows),
    ]


def _line(flow: Flow, colour: str) -> dict[str, Any]:
    return {"color": colour, "marker": "o", "markersize": 3.5, "linewidth": 1.6, "label": flow.feed.name}


def _dress(axes: Any, x: str, y: str) -> None:
    axes.set(xlabel=x, ylabel=y)
    axes.set_ylim(bottom=0)
    axes.xaxis.get_major_locator().set_params(integer=True)
    axes.grid(visible=True, linewidth=0.5, alpha=0.25)
    axes.figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)


def _lists(flow: Flow) -> Markup:
    found, rows = flow.results(), []
    for who, called in flow.feed.shown.items():
        mine = found.filter(pc.equal(found["subscription"], who)).sort_by("rank").to_pylist()
        told = "; ".join(f"{row['rank']}. {row['item']} ({row['score']:.3f})" for row in mine)
        rows.append((called, told or "nothing yet"))
    return pages.table(("who", "list"), rows, words=2)
