"""`rankcast demo`: both pipelines in one session, from the first file to the report.

A terminal shows how far, how fast and whose lists changed, in plain lines where it is none. The report is a
page: figures, a map of the world, plots, the last lists, and the two pipeline files.
"""

from __future__ import annotations

import signal
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from statistics import median
from typing import Any, TypeAlias

import numpy as np
import pyarrow.compute as pc
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.syntax import Syntax
from rich.table import Table
from rich.text import Text

from rankcast.bench.drawing import INK, PALETTE
from rankcast.bench.markup import Markup, element
from rankcast.demo import pages
from rankcast.demo.pipelines import feeds, kernels
from rankcast.demo.pipelines.feeds import Flow
from rankcast.demo.pipelines.kernels import Compiling
from rankcast.errors import plain
from rankcast.pipeline import running
from rankcast.pipeline.progress import Batch, line_of
from rankcast.pipeline.run_command import INTERRUPTED, Signals

SIGNS = {"enter": ("+", "green"), "leave": ("-", "red"), "update": ("~", "yellow")}
COLOURS = {"messages": "magenta", "quotes": "cyan"}
LINE: dict[str, Any] = {"marker": "o", "markersize": 3.5, "linewidth": 1.6}
Points: TypeAlias = Callable[[Flow], tuple[list[int], list[float]]]


class Board:
    """Shows flows while they run."""

    def __init__(self, flows: Sequence[Flow], console: Console) -> None:
        self._flows, self._console = flows, console
        self._told = {flow.feed.name: -1 for flow in flows}

    def view(self) -> RenderableType:
        """All flows, one below the other."""
        room = max(2, (self._console.size.height - 2) // len(self._flows) - 4)
        return Group(*(self._panel(flow, min(room, 14)) for flow in self._flows))

    def print_lines(self) -> None:
        """A line for each micro-batch that is new."""
        for flow in self._flows:
            name = flow.feed.name
            for number in sorted(flow.batches):
                if number > self._told[name]:
                    self._told[name] = number
                    self._console.print(
                        f"{name}: {line_of(flow.batches[number], flow.progress)}",
                        soft_wrap=True,
                        markup=False,
                    )
                    for row in flow.last(2):
                        self._console.print(Text("  ").append(tell(flow, row)), soft_wrap=True)

    def _panel(self, flow: Flow, room: int) -> Panel:
        done, feed = flow.progress, flow.feed
        bar = ProgressBar(total=feed.rows, completed=min(flow.rows, feed.rows), width=24)
        late = f", {median(flow.latencies):.1f} s from file to lists" if flow.latencies else ""
        summary = (
            f"{flow.rows:,} rows, {done.rate:,.0f} rows/s, {done.batch_seconds:.1f} s a micro-batch{late}"
        )
        head = Table.grid(padding=(0, 1))
        head.add_row(bar, Text(summary, "dim", no_wrap=True, overflow="ellipsis"))
        lines = [tell(flow, row) for row in flow.last(room)]
        lines += [Text("")] * (room - len(lines))
        foot = Text(
            f"{flow.deltas:,} deltas to {len(flow.owners):,} of {feed.subscriptions.num_rows:,}", "dim"
        )
        style = COLOURS[feed.name]
        title = f"[bold {style}]{feed.title}[/]"
        return Panel(Group(head, *lines, foot), title=title, title_align="left", border_style=style)


def tell(flow: Flow, row: dict[str, Any]) -> Text:
    """A change as a line."""
    sign, style = SIGNS.get(row["op"], ("!", "bold red"))
    text = Text(no_wrap=True, overflow="ellipsis")
    text.append(f"{sign} ", style).append(plain(flow.feed.shown[row["subscription"]]))
    if row["rank"] is not None:
        text.append(f"  #{row['rank']}", "bold")
    text.append(f"  {plain(str(row['item']))}")
    return text if row["score"] is None else text.append(f"  {row['score']:.3f}", "dim")


def summary(flows: Sequence[Flow]) -> Table:
    """What it came to."""
    heads = ("pipeline", "rows", "rows/s", "micro-batches", "s each", "file to lists, s", "95%", "deltas")
    table = Table(*heads, box=None, header_style="bold")
    for column in table.columns[1:]:
        column.justify = "right"
    for flow in flows:
        table.add_row(flow.feed.name, *figures(flow))
    return table


def figures(flow: Flow) -> tuple[str, ...]:
    """The figures of a flow, as the summary and the report have them."""
    seconds = [batch.seconds for batch in flow.batches.values()]
    late = sorted(flow.latencies)
    return (
        f"{flow.rows:,}",
        f"{flow.rows / sum(seconds):,.0f}" if seconds else "",
        f"{len(seconds)}",
        f"{median(seconds):.2f}" if seconds else "",
        f"{median(late):.2f}" if late else "",
        f"{late[min(len(late) - 1, int(0.95 * len(late)))]:.2f}" if late else "",
        f"{flow.deltas:,}",
    )


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
    total = sum(flow.deltas for flow in flows)
    rows = sum(flow.rows for flow in flows)
    late = np.concatenate([flow.latencies for flow in flows] or [[]])
    parts = [
        pages.cards(
            [
                (f"{rows:,}", "rows came"),
                (f"{total:,}", "deltas told"),
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
    def by_batch(value: Callable[[Batch], float]) -> Points:
        def points(flow: Flow) -> tuple[list[int], list[float]]:
            batches = [flow.batches[number] for number in sorted(flow.batches)]
            return [batch.number for batch in batches], [value(batch) for batch in batches]

        return points

    def latency(flow: Flow) -> tuple[list[int], list[float]]:
        return [*range(1, len(flow.latencies) + 1)], flow.latencies

    def plot(name: str, caption: str, x: str, y: str, points: Points) -> Markup:
        def draw(axes: Any) -> None:
            for flow, colour in zip(flows, PALETTE[1:], strict=False):
                axes.plot(*points(flow), color=colour, label=flow.feed.name, **LINE)
            axes.set(xlabel=x, ylabel=y)
            axes.set_ylim(bottom=0)
            axes.xaxis.get_major_locator().set_params(integer=True)
            axes.grid(visible=True, linewidth=0.5, alpha=0.25)
            axes.figure.legend(loc="outside lower center", ncols=2, frameon=False, fontsize=8)

        return pages.figure(name, caption, draw)

    seconds, deltas = by_batch(lambda batch: batch.seconds), by_batch(lambda batch: batch.total("deltas"))
    rates = by_batch(lambda batch: batch.rows / batch.seconds)
    return [
        plot("seconds", "What a micro-batch takes", "micro-batch", "seconds", seconds),
        plot("latency", "From a file to the lists that it changes", "file", "seconds", latency),
        plot("deltas", "Deltas of each micro-batch", "micro-batch", "deltas", deltas),
        plot("rates", "Rows a second while a micro-batch runs", "micro-batch", "rows a second", rates),
    ]


def _lists(flow: Flow) -> Markup:
    found, rows = flow.results(), []
    for who, called in flow.feed.shown.items():
        mine = found.filter(pc.equal(found["subscription"], who)).sort_by("rank").to_pylist()
        listed = "; ".join(f"{row['rank']}. {row['item']} ({row['score']:.3f})" for row in mine)
        rows.append((called, listed or "nothing yet"))
    return pages.table(("who", "list"), rows, words=2)


PAUSE = 1.0  # seconds between two files at least ...
PATIENCE = 4.0  # ... and at most, where a machine takes longer to work on them


def show(
    console: Console, *, files: int, seed: int, target: Path, verbose: bool = False, session: Any = None
) -> int:
    """Run both pipelines until their files are worked on, or until Ctrl-C; returns the exit code.

    Args:
        console: where to show it.
        files: how many files come to each.
        seed: of what is in them.
        target: where the report goes.
        verbose: let Spark say what it has to.
        session: a Spark session to run in; by default one is begun and stopped.
    """
    signals, began = Signals(), time.monotonic()
    with signals, ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="rankcast-demo-")))
        ahead = (
            {}
            if session
            else {
                name: stack.enter_context(kernels.compiling(name, after=place))
                for place, name in enumerate(
                    ("quotes", "messages")
                )  # the one that compiles sooner comes first
            }
        )
        flows = [Flow(make(seed, files), folder) for make in (feeds.messages, feeds.quotes)]
        _introduce(console, flows[0])
        spark = session or running.begin(flows[0].config, stack, quiet=not verbose)
        if verbose:
            spark.sparkContext.setLogLevel("INFO")
        signals.listen()
        with _undisturbed(signals):
            try:
                _run(flows, spark, console, signals, ahead)
            finally:
                _end(flows, spark, quiet=not verbose and session is None)
        if signals.came():
            console.print("stopped")
            return INTERRUPTED if signals.came() == signal.SIGINT else 0
        console.print(summary(flows))
        for first in sorted(flow.first for flow in flows if flow.first is not None)[:1]:
            console.print(f"\nThe first delta came {first - began:.0f} s after the start.")
        written = pages.write(target, page(flows, seed))
        console.print(f"\nThe report with its plots: {written.as_uri()}", soft_wrap=True)
        console.print("To see engines at work in a browser: make live, or rankcast demo live.")
    return 0


@contextmanager
def _undisturbed(signals: Signals) -> Iterator[None]:
    """What Spark says on the way out, when a signal has reached it, too, is of no use to anybody."""
    try:
        yield
    except Exception as error:
        if not signals.came() or not (isinstance(error, OSError) or running.is_sparks(error)):
            raise


def _introduce(console: Console, flow: Flow) -> None:
    """Show the file of a pipeline while Spark starts."""
    if console.is_terminal:
        code = Syntax(flow.feed.file.rstrip(), "toml", background_color="default", word_wrap=True)
        console.print(Panel(code, title=f"{flow.feed.name}.toml", title_align="left", border_style="dim"))
    console.print("Two pipelines like this one on local Spark, which starts now ...", soft_wrap=True)


def _run(
    flows: Sequence[Flow], spark: Any, console: Console, signals: Signals, ahead: Mapping[str, Compiling]
) -> None:
    """Let files come, and show what becomes of them, until all is done or a signal comes.

    The second pipeline starts when the first has worked on something: both at once would wait for each other.
    None starts before its kernels are there.
    """
    board, waiting = Board(flows, console), list(flows)
    if compiled := [name for name, each in ahead.items() if not each.done]:
        console.print(f"Spark is there; kernels of {' and '.join(compiled)} are being compiled, once ...")
    with ExitStack() as stack:
        live = stack.enter_context(Live(console=console, auto_refresh=False)) if console.is_terminal else None
        while not signals.came() and not all(flow.done for flow in flows):
            begun = [flow for flow in flows if flow not in waiting]
            able = [flow for flow in waiting if flow.feed.name not in ahead or ahead[flow.feed.name].done]
            if able and all(flow.batches for flow in begun):
                waiting.remove(able[0])
                able[0].start(spark)
                continue
            for flow in begun:
                flow.offer_in_time(PAUSE, PATIENCE)
                flow.look()
            if live is None:
                board.print_lines()
            else:
                live.update(board.view(), refresh=True)
            time.sleep(0.05)


def _end(flows: Sequence[Flow], spark: Any, *, quiet: bool) -> None:
    if quiet:
        spark.sparkContext.setLogLevel("OFF")  # of tasks that are cut off
    for flow in flows:
        if flow.running is not None:
            flow.running.stop()
