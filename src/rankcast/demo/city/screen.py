"""The city on a terminal: a map in characters, a panel an engine, counters; plain lines where it is none."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Sequence
from statistics import median
from typing import Any

import numpy as np
from numpy.typing import NDArray
from rich.columns import Columns
from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.panel import Panel
from rich.progress_bar import ProgressBar
from rich.table import Table
from rich.text import Text

from rankcast.demo.city.evening import (
    DISTRICTS,
    ENGINES,
    HEIGHT,
    RIDERS,
    TITLES,
    WIDTH,
    Minute,
    Town,
    district_of,
)
from rankcast.demo.scenes import cell

TINTS = ("#10283a", "#33241a", "#3a1f26", "#241f3a", "#173023", "#2e2e14", "#12302f", "#20331a", "#2a2a2a")
FOLLOWED = RIDERS[0]
MARKS = {
    "restaurant": ("·", "#8a8a8a"),
    "listed": ("◆", "bold #ff9f43"),
    "walker": ("○", "cyan"),
    "courier": ("●", "yellow"),
    "followed": ("◉", "bold white"),
    "deal": ("✦", "bold magenta"),
    "visitor": ("▲", "bold green"),
}
ZONE = "#5a4a20"


def draw(town: Town, minute: Minute, deals: Sequence[tuple[float, float]], columns: int, rows: int) -> Text:
    """The map with districts, restaurants, who is on the way, deals, and one courier with his zone."""
    y, x = np.mgrid[rows - 1 : -1 : -1, 0:columns].astype(float)
    x, y = (x + 0.5) * WIDTH / columns, (y + 0.5) * HEIGHT / rows
    tint = np.array(TINTS, object)[district_of(x, y)]
    zone = town.couriers.zones().slice(0, 1).to_pylist()[0]
    tint[np.hypot(x - zone["x"], y - zone["y"]) <= zone["radius"]] = ZONE
    cells = [[(" ", f"on {tint[row, column]}") for column in range(columns)] for row in range(rows)]

    def put(mark: tuple[str, str], at_x: float, at_y: float) -> None:
        column, row = int(at_x / WIDTH * columns), rows - 1 - int(at_y / HEIGHT * rows)
        if 0 <= column < columns and 0 <= row < rows:
            cells[row][column] = mark[0], f"{mark[1]} on {tint[row, column]}"

    found = town.city.restaurants
    listed = set(town.couriers.results([FOLLOWED])["item"].to_pylist())
    for at_x, at_y in zip(found.x, found.y, strict=True):
        put(MARKS["restaurant"], at_x, at_y)
    _names(cells, tint, columns, rows)
    for mark, people in (
        ("walker", minute.walkers),
        ("courier", minute.couriers),
        ("visitor", minute.visitors),
    ):
        for at_x, at_y in zip(people["x"], people["y"], strict=True):
            put(MARKS[mark], at_x, at_y)
    for at_x, at_y in deals:
        put(MARKS["deal"], at_x, at_y)
    for name, at_x, at_y in zip(found.name, found.x, found.y, strict=True):
        if name in listed:
            put(MARKS["listed"], at_x, at_y)
    put(MARKS["followed"], minute.couriers["x"][0], minute.couriers["y"][0])
    text = Text(no_wrap=True)
    for row in cells:
        for character, style in row:
            text.append(character, style)
        text.append("\n")
    text.right_crop(1)
    return text


def legend() -> Text:
    """What the marks mean."""
    words = {
        "courier": "courier",
        "followed": f"{FOLLOWED}, zone",
        "listed": "his list",
        "walker": "walker",
        "deal": "deal",
        "visitor": "visitor",
    }
    text = Text(no_wrap=True, overflow="ellipsis")
    for name, word in words.items():
        text.append(*MARKS[name])
        text.append(f" {word}  ", "dim")
    return text


def _names(cells: list[list[tuple[str, str]]], tint: NDArray[Any], columns: int, rows: int) -> None:
    """Write the names of districts where their centres are."""
    for name, (x, y) in DISTRICTS.items():
        row = rows - 1 - int(y / HEIGHT * rows)
        first = max(0, min(columns - len(name), int(x / WIDTH * columns) - len(name) // 2))
        for place, letter in enumerate(name):
            cells[row][first + place] = letter, f"italic #b8b8b8 on {tint[row, first + place]}"


PACE = 5  # half minutes of the city a second
NARROW = 100
COLOURS = {"moving": "yellow", "deals": "magenta", "offers": "green", "prices": "cyan", "routers": "blue"}
SIGNS = {"enter": "[green]+[/]", "leave": "[red]-[/]", "update": "[yellow]~[/]"}
ACTIONS = {
    "forward": "[green]forward[/]",
    "covered": "[dim]covered[/]",
    "withdraw": "[red]withdraw[/]",
    "drop": "[dim]drop[/]",
}
EVERY = 20  # half minutes between two plain lines


class Screen:
    """Shows a town as it lives; `note` hears of every step."""

    def __init__(self, town: Town, total: int, console: Console, note: Callable[[Minute], None]) -> None:
        self._town, self._total, self._console, self._note = town, total, console, note
        self._lines = {name: deque[str](maxlen=40) for name in TITLES}
        self._deals = deque[tuple[float, float]](maxlen=10)

    def play(self) -> None:
        """Let the evening pass, slowly enough to follow on a terminal."""
        if not self._console.is_terminal:
            self._print_lines()
            return
        minutes = enumerate(self._town.city.minutes(self._total), 1)
        with Live(console=self._console, auto_refresh=False, screen=self._console.size.height >= 30) as live:
            began = time.perf_counter()
            for number, minute in minutes:
                self._take(minute)
                live.update(self._view(minute, number), refresh=True)
                time.sleep(max(0.0, began + number / PACE - time.perf_counter()))

    def _print_lines(self) -> None:
        self._console.print("one city, five engines: events > rows told")
        for number, minute in enumerate(self._town.city.minutes(self._total), 1):
            self._take(minute)
            if number % EVERY == 0 or number == self._total:
                summaries = [f"{name} {t.events:,} > {t.answers:,}" for name, t in self._town.tallies.items()]
                self._console.print(f"{minute.clock}  {'  '.join(summaries)}", soft_wrap=True)

    def _take(self, minute: Minute) -> None:
        deltas = self._town.live(minute)
        self._note(minute)
        self._deals.extend(zip(minute.deals["x"], minute.deals["y"], strict=True))
        for name, rows in deltas.items():
            self._lines[name].extend(line for row in rows if (line := tell(name, row)) is not None)

    def _view(self, minute: Minute, number: int) -> RenderableType:
        width, height = self._console.size
        wide = width >= NARROW
        room = height - 2
        shown = max(1, room // len(TITLES) - 3)
        panels = Group(*(self._panel(name, shown) for name in TITLES))
        bar = ProgressBar(total=self._total, completed=number, width=max(10, width // 4))
        title = Text.assemble(
            ("rankcast", "bold"), "  one city, five engines   ", (minute.clock, "bold yellow"), "  "
        )
        head = Columns([title, bar], padding=(0, 1))
        if not wide:
            return Group(head, panels)
        grid = Table.grid(expand=True, padding=(0, 1, 0, 0))
        grid.add_column(ratio=1)
        grid.add_column(ratio=1)
        columns, rows = width // 2 - 5, max(8, min(room - 5, (width // 2 - 5) * 8 // 24))
        city = draw(self._town, minute, list(self._deals), columns, rows)
        left = Group(Panel(Group(city, legend()), title="the city", border_style="dim"), self._totals())
        grid.add_row(left, panels)
        return Group(head, grid)

    def _panel(self, name: str, shown: int) -> Panel:
        lines = list(self._lines[name])[-shown:]
        lines += [""] * (shown - len(lines))
        body = [Text.from_markup(line, overflow="ellipsis") for line in lines]
        for line in body:
            line.no_wrap = True
        foot = Text.from_markup(f"[dim]{saved(self._town, name)}[/]", overflow="ellipsis")
        foot.no_wrap = True
        title = f"[bold {COLOURS[name]}]{TITLES[name]}[/]"
        return Panel(Group(*body, foot), title=title, title_align="left", border_style=COLOURS[name])

    def _totals(self) -> Table:
        table = Table(box=None, header_style="dim", pad_edge=False, expand=True)
        for head in ("engine", "events", "told", "ms a step"):
            table.add_column(head, justify="left" if head == "engine" else "right")
        for name, tally in self._town.tallies.items():
            cells = f"{tally.events:,}", f"{tally.answers:,}", f"{1e3 * median(tally.seconds):.1f}"
            table.add_row(f"[{COLOURS[name]}]{ENGINES[name]}[/]", *cells)
        return table


def tell(name: str, row: dict[str, Any]) -> str | None:
    """A row that an engine told as a line, None if it is about somebody without a name."""
    if name == "routers":
        by = f" by {cell(row['covered_by'])}" if row["covered_by"] else ""
        return f"{cell(row['router'])}: {ACTIONS[row['action']]} {cell(row['subscription'])}{by}"
    if name == "offers":
        who = cell(row["subscription"])
        return f"{cell(row['event'])} [bold]#{row['rank']}[/] {who} [dim]bid {row['score']:.2f}[/]"
    who = str(row["subscription"])
    if who.startswith(("courier ", "walker ", "customer ", "watcher ")):
        return None
    rank = "" if row["rank"] is None else f" [bold]#{row['rank']}[/]"
    cost = f" [dim]{row['score']:.2f}[/]" if name == "prices" and row["score"] is not None else ""
    return f"{SIGNS[row['op']]} {cell(who)}{rank} {cell(row['item'])}{cost}"


def saved(town: Town, name: str) -> str:
    """What an engine spared, in its own words."""
    tally = town.tallies[name]
    if name == "moving":
        return f"{tally.share:.0%} of {tally.all:,} positions stayed in their zone: nothing to do"
    if name == "deals":
        return f"{tally.all - tally.spared:,} told, {tally.spared:,} that nobody wants were not"
    if name == "offers":
        return f"{tally.share:.1%} of {tally.all:,} pairs never looked at"
    if name == "prices":
        return f"{town.tiles:,} messages in a network reach {town.reached:,} watchers"
    return f"{town.forwarded:,} of {town.areas:,} wishes forwarded; {tally.share:.0%} of deals stop here"


def summary(town: Town, minutes: int) -> Table:
    """What the evening came to."""
    half = f"{minutes // 2}.5" if minutes % 2 else str(minutes // 2)
    table = Table(title=f"{half} minutes of the city", title_justify="left", header_style="bold", box=None)
    for head in ("engine", "events", "rows told", "ms a step", "spared"):
        table.add_column(head, justify="right" if head in ("events", "rows told", "ms a step") else "left")
    for name, tally in town.tallies.items():
        figures = f"{tally.events:,}", f"{tally.answers:,}", f"{1e3 * median(tally.seconds):.1f}"
        table.add_row(f"[{COLOURS[name]}]{ENGINES[name]}[/]", *figures, saved(town, name))
    return table
