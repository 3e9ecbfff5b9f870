"""Plays a scene on the terminal: a progress bar, a live table of the last changes, a summary at the end."""

from __future__ import annotations

import time
from collections import deque
from dataclasses import dataclass
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from rankcast.demo.scenes import Scene

SHOWN = 10
PAUSE = 0.08


@dataclass
class Tally:
    """What a scene did."""

    events: int = 0
    answers: int = 0
    seconds: float = 0.0

    def add(self, rows: Any, answer: Any, seconds: float) -> None:
        """Count one call."""
        self.events += len(rows["id"] if isinstance(rows, dict) else rows)
        self.seconds += seconds
        if answer is not None:
            self.answers += answer.num_rows


def play(scene: Scene, batches: int, console: Console) -> Tally:
    """Play a scene to its end; slow enough to follow on a terminal, at full speed elsewhere."""
    tally, last = Tally(), deque[tuple[str, ...]](maxlen=SHOWN)
    progress = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
        console=console,
    )
    task = progress.add_task("batches", total=batches)
    console.rule(f"[bold]{scene.title}", align="left")
    with Live(console=console, refresh_per_second=12, transient=True) as live:
        for place, (call, rows) in enumerate(scene.calls):
            began = time.perf_counter()
            answer = getattr(scene.engine, call)(rows)
            tally.add(rows, answer, time.perf_counter() - began)
            told = map(scene.tell, answer.to_pylist()) if answer is not None else ()
            last.extend(cells for cells in told if cells is not None)
            progress.update(task, completed=min(place + 1, batches))
            live.update(Group(_table(scene, last), progress))
            if console.is_terminal:
                time.sleep(PAUSE)
    console.print(_table(scene, last))
    console.print(
        f"{tally.events:,} events to {len(scene.engine):,} subscriptions, {tally.answers:,} rows of answers, "
        f"{tally.events / tally.seconds:,.0f} events/s\n"
    )
    return tally


def _table(scene: Scene, rows: deque[tuple[str, ...]]) -> Table:
    """The last changes."""
    table = Table(*scene.columns, box=None, header_style="bold cyan", pad_edge=False)
    for cells in rows:
        table.add_row(*cells)
    return table
