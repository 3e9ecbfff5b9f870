"""`rankcast demo [NAME]`: plays a scene on the terminal.

A progress bar, a live table of the last changes, a summary at the end.
"""

from __future__ import annotations

import argparse
import time
from collections import deque
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console, Group
from rich.live import Live
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from rankcast.demo import scenes
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
    console.print(f"{type(scene.engine).__name__}: {scene.engine.spec.title}")
    with Live(console=console, refresh_per_second=12, transient=True) as live:
        for place, (call, rows) in enumerate(scene.calls):
            began = time.perf_counter()
            answer = getattr(scene.engine, call)(rows)
            tally.add(rows, answer, time.perf_counter() - began)
            shown = map(scene.tell, answer.to_pylist()) if answer is not None else ()
            last.extend(cells for cells in shown if cells is not None)
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


NAMES = (*scenes.NAMES, "city", "live")


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rankcast demo`."""
    described = (
        f"one engine: {', '.join(scenes.NAMES)}; all of them: city; a service with its console: live; "
        "without a name: two pipelines on Spark"
    )
    parser.add_argument("name", nargs="?", choices=NAMES, metavar="NAME", help=described)
    parser.add_argument("--batches", type=_positive, help="how many batches (60; on Spark 20)")
    parser.add_argument("--seconds", type=_positive, default=24, help="how long to show the city (24)")
    parser.add_argument("--seed", type=_seed, default=7, help="random seed (7)")
    parser.add_argument("--port", type=int, default=8765, help="port of the live console (8765)")
    parser.add_argument(
        "--data", type=Path, metavar="DIR", help="data directory of the live service (default: temporary)"
    )
    parser.add_argument(
        "--report", type=Path, metavar="FILE", help="where to write the report (out/demo.html)"
    )
    parser.add_argument("-v", "--verbose", action="store_true", help="show Spark's log")
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play one scene, the city, or the pipelines."""
    console = Console(highlight=False)
    if arguments.name == "city":
        from rankcast.demo.city.report import show  # noqa: PLC0415

        target = arguments.report or Path("out/city.html")
        show(console, seconds=arguments.seconds, seed=arguments.seed, target=target)
        return 0
    if arguments.name == "live":
        from rankcast.demo import live  # noqa: PLC0415

        return live.show(data=arguments.data, port=arguments.port, seed=arguments.seed)
    if arguments.name is None:
        from rankcast.demo.pipelines import report as pipelines  # noqa: PLC0415

        target = arguments.report or Path("out/demo.html")
        files, seed = arguments.batches or 20, arguments.seed
        return pipelines.show(console, files=files, seed=seed, target=target, verbose=arguments.verbose)

    batches = arguments.batches or 60
    play(scenes.build(arguments.name, batches=batches, seed=arguments.seed), batches, console)
    return 0


def _positive(text: str) -> int:
    value = int(text)
    if value < 1:
        raise argparse.ArgumentTypeError("must be at least 1")
    return value


def _seed(text: str) -> int:
    value = int(text)
    if value < 0:
        raise argparse.ArgumentTypeError("must not be negative")
    return value
