"""The pipelines on a terminal: how far, how fast, whose lists changed; plain lines where it is none."""

from __future__ import annotations

from collections.abc import Sequence
from statistics import median
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rankcast.demo.pipelines.flow import Flow
from rankcast.errors import plain
from rankcast.pipeline.progress import line_of

SIGNS = {"enter": ("+", "green"), "leave": ("-", "red"), "update": ("~", "yellow")}
COLOURS = {"messages": "magenta", "quotes": "cyan"}


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
        told = f"{flow.rows:,} rows, {done.rate:,.0f} rows/s, {done.batch_seconds:.1f} s a micro-batch{late}"
        head = Table.grid(padding=(0, 1))
        head.add_row(bar, Text(told, "dim", no_wrap=True, overflow="ellipsis"))
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
