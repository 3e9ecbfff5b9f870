"""`rankcast simulate FILE.toml`: a network experiment, its figures as a table, plots and a conclusion."""

from __future__ import annotations

import argparse
import csv
import dataclasses
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rankcast.errors import SettingError, required
from rankcast.papers.network.config import Experiment, read

if TYPE_CHECKING:
    from rich.console import Console
    from rich.progress import Progress

WRONG = 1
FIGURES = "figures.csv"
Row = dict[str, Any]


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the arguments of `rankcast simulate`."""
    parser.add_argument("file", type=Path, metavar="FILE.toml", help="the file that describes the experiment")
    parser.add_argument(
        "--out", type=Path, metavar="DIR", help="directory for figures and plots, instead of `out`"
    )
    parser.set_defaults(run=run)


def run(arguments: argparse.Namespace) -> int:
    """Play an experiment; the exit code is 1 if any list was wrong."""
    experiment = read(arguments.file)
    if arguments.out is not None:
        experiment = dataclasses.replace(experiment, out=arguments.out)
    console = required("rich.console", "bench").Console(stderr=True)
    from rankcast.papers.network import lossy, plots, simulation  # noqa: PLC0415  they import matplotlib

    plots.require()
    _require_free(experiment.out)
    plays = {"content": simulation.content, "acyclic": simulation.acyclic, "lossy": lossy.lossy}
    play = plays[experiment.network]
    with _progress(console) as bar:
        task = bar.add_task("drawing the network", total=simulation.steps(experiment))

        def watch(step: str) -> None:
            bar.update(task, advance=1, description=step)

        played = play(experiment, watch)
        experiment.out.mkdir(parents=True, exist_ok=True)
        bar.update(task, description="drawing plots")
        drawn = plots.draw_all(experiment, played)
    _write(experiment, played.rows)
    for line in _lines(experiment, played.rows, drawn):
        sys.stdout.write(line + "\n")
    wrong = [row for row in played.rows if not row["exact_lists"]]
    if wrong:
        sys.stderr.write(f"rankcast simulate: lists are wrong in {len(wrong)} of {len(played.rows)} runs\n")
        return WRONG
    return 0


def _require_free(out: Path) -> None:
    """Refuse to begin if there is a file where the directory has to be; it is made when all is played."""
    taken = [place for place in (out, *out.parents) if place.exists()]
    if taken and not taken[0].is_dir():
        raise SettingError(f"out is {str(out)!r}, and {str(taken[0])!r} is a file", expected="a directory")


def _write(experiment: Experiment, rows: list[Row]) -> None:
    """Write all figures, a row a run."""
    names = list(dict.fromkeys(name for row in rows for name in row))
    with (experiment.out / FIGURES).open("w", newline="", encoding="utf-8") as file:
        writer = csv.DictWriter(file, names)
        writer.writeheader()
        writer.writerows(rows)


MEASURES = {
    "content": ("overlay_bytes", "bytes between brokers an update"),
    "acyclic": ("table_entries", "entries a routing table"),
    "lossy": ("extra_bytes", "bytes to notice and mend what was lost"),
}
BAR = 40  # characters of the longest bar


def _lines(experiment: Experiment, rows: list[Row], drawn: list[Path]) -> Iterator[str]:
    """What came out, for people: bars of the largest setting, and a conclusion of at most five lines."""
    name, words = MEASURES[experiment.network]
    last = [row for row in rows if all(row[key] == rows[-1][key] for key in ("subscriptions", "k"))]
    first = [row for row in rows if all(row[key] == rows[0][key] for key in ("subscriptions", "k"))]
    yield f"{words}, {last[0]['subscriptions']:,} subscriptions, k = {last[0]['k']}"
    most = max(row[name] for row in last)
    for row in last:
        bar = "█" * max(1, round(BAR * row[name] / most)) if row[name] else ""
        yield f"  {row['method']:<18}{_number(row[name]):>12}  {bar}"
    yield ""
    yield from _best(last, name)
    yield from _growth(first, last, name)
    yield from _verdict(rows)
    files = ", ".join(path.name for path in drawn)
    yield f"{experiment.out}: {FIGURES} has all {len(rows):,} rows; {files}"


def _best(rows: list[Row], name: str) -> Iterator[str]:
    """Which method takes least, and how much less than the one that takes most."""
    least, most = min(rows, key=lambda row: row[name]), max(rows, key=lambda row: row[name])
    if most is not least and least[name]:
        times = f"{most[name] / least[name]:,.3g} times"
        yield f"least: {least['method']}, {_number(least[name])}; {most['method']} takes {times} as much"


def _growth(first: list[Row], last: list[Row], name: str) -> Iterator[str]:
    """By how much each method grows from the smallest setting to the largest."""
    before, after = first[0], last[0]
    keys = [key for key in ("subscriptions", "k") if before[key] != after[key]]
    if not keys:
        return
    span = " and ".join(f"{before[key]:,} to {after[key]:,} {'k' if key == 'k' else key}" for key in keys)
    grown = [
        f"{two['method']} {two[name] / one[name]:,.3g}"
        for one, two in zip(first, last, strict=True)
        if one[name]
    ]
    yield f"from {span}, times: {', '.join(grown)}"


def _verdict(rows: list[Row]) -> Iterator[str]:
    """How many runs ended with exact lists, of how many subscribers, and how that was checked."""
    exact = sum(row["exact_lists"] for row in rows)
    checked = dict.fromkeys(f"{row['checked']:,} of {row['subscribers']:,}" for row in rows)
    yield f"lists exact at the end: {exact} of {len(rows)} runs; subscribers checked: {', '.join(checked)}"
    others = [row for row in rows if row["lists"] < row["checked"]]
    if others:
        names, kept = dict.fromkeys(row["method"] for row in others), min(row["lists"] for row in others)
        yield (
            f"{', '.join(names)}: receivers keep every object in their range; all were checked by the "
            f"updates they heard, {kept:,} also by their lists"
        )


def _number(value: float | None) -> str:
    if value is None:
        return "-"
    return f"{value:,.3f}" if abs(value) < 10 else f"{value:,.0f}"


def _progress(console: Console) -> Progress:
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    return Progress(*columns, console=console, transient=True, disable=not console.is_terminal)
