"""`rankcast bench`: list, run, report, front, compare."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from rankcast.bench.records import (
    DEFAULT_DIRECTORY,
    DIRTY,
    Record,
    append,
    check_target,
    compare,
    latest,
    lines,
    read,
)
from rankcast.bench.runner import SIZES, Case, Parameters
from rankcast.errors import InputError, required

if TYPE_CHECKING:
    from rich.console import Console

DISAGREEMENT = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the five words of `rankcast bench` to its parser."""
    words = parser.add_subparsers(title="what to do", metavar="WORD", required=True)
    word = words.add_parser("list", help="list the declared cases")
    word.set_defaults(run=list_cases)

    word = words.add_parser("run", help="measure cases and append a record for each set of parameters")
    word.add_argument("names", nargs="*", metavar="NAME", help="case or pattern (range-topk.*); default: all")
    word.add_argument(
        "--size", choices=SIZES, default="small", help="small (default), or the papers' full size"
    )
    word.add_argument(
        "--out", type=Path, default=DEFAULT_DIRECTORY, metavar="DIR", help=f"default: {DEFAULT_DIRECTORY}"
    )
    word.add_argument(
        "--dirty",
        action="store_true",
        help=f"add to committed records from modified sources too; the records' commit ends in {DIRTY}",
    )
    word.set_defaults(run=run_cases)

    word = words.add_parser("report", help="write an HTML page of the records")
    word.add_argument("--records", type=Path, default=DEFAULT_DIRECTORY, metavar="DIR")
    word.add_argument("--out", type=Path, default=Path("out/report.html"), metavar="FILE")
    word.set_defaults(run=write_report)

    word = words.add_parser("front", help="print the front table, from the records of front.*")
    word.add_argument("--records", type=Path, default=DEFAULT_DIRECTORY, metavar="DIR")
    word.add_argument(
        "--readme", type=Path, metavar="FILE", help="put the table and two pictures of it into FILE instead"
    )
    word.set_defaults(run=print_front)

    word = words.add_parser("compare", help="show what became slower between two sets of records")
    word.add_argument("old", type=Path, metavar="OLD", help="directory or file of records")
    word.add_argument("new", type=Path, metavar="NEW", help="directory or file of records")
    word.set_defaults(run=compare_records)


def list_cases(arguments: argparse.Namespace) -> int:
    """Print a line a case: its name, how many sets of parameters it has, and what it measures."""
    from rankcast.bench.cases import choose  # noqa: PLC0415 (imports engines; not needed for --help)

    cases = choose([])
    width = max(len(case.name) for case in cases)
    for case in cases:
        counts = " + ".join(f"{len(list(case.parameters(size)))} {size}" for size in SIZES)
        source = f" {case.reproduces}" if case.reproduces else ""
        sys.stdout.write(f"{case.name:<{width}}  {counts:<18}  {case.summary}{source}\n")
    return 0


def run_cases(arguments: argparse.Namespace) -> int:
    """Measure, append and show; the exit code is 1 if any answer disagreed with brute force."""
    console = required("rich.console", "bench").Console(stderr=True)  # for progress
    from rankcast.bench.cases import choose  # noqa: PLC0415 (imports engines)
    from rankcast.bench.runner import LeftOutError, measure  # noqa: PLC0415 (imports Numba)

    cases = choose(arguments.names)
    check_target(arguments.out, dirty=arguments.dirty)
    sets = [(case, parameters) for case in cases for parameters in case.parameters(arguments.size)]
    wrong: list[str] = []
    with _progress(console, len(sets)) as watch:
        for case, parameters in sets:
            check_target(arguments.out, dirty=arguments.dirty)  # somebody may edit during a long run
            try:
                record = measure(case, parameters, arguments.size, watch(case, parameters))
            except LeftOutError as error:
                sys.stderr.write(f"{case.name} is left out: {error.what}\n")
                continue
            append(record, arguments.out)
            _show(record, console)
            if record.agrees_with_brute_force is False:
                wrong.append(f"{case.name} {_words(parameters)}")
    if wrong:
        sys.stderr.write(f"rankcast bench run: answers disagree with brute force in {'; '.join(wrong)}\n")
        return DISAGREEMENT
    return 0


def write_report(arguments: argparse.Namespace) -> int:
    """Write the page and say where it is."""
    from rankcast.bench.cases import load  # noqa: PLC0415 (imports engines)
    from rankcast.bench.report import page  # noqa: PLC0415 (imports matplotlib where there are figures)

    records = read(arguments.records)
    text = page(list(latest(records).values()), load())
    arguments.out.parent.mkdir(parents=True, exist_ok=True)
    arguments.out.write_text(text, encoding="utf-8")
    sys.stdout.write(
        f"{arguments.out}: {len(latest(records))} measurements, newest of {len(records)} records\n"
    )
    return 0


def print_front(arguments: argparse.Namespace) -> int:
    """Print the front table of the newest records of size full, or put it into a README."""
    from rankcast.bench import front  # noqa: PLC0415 (only here)

    newest = [record for record in latest(read(arguments.records)).values() if record.size == "full"]
    table = front.markdown(newest)
    if not table:
        raise InputError("there is no record of a front case", hint="Run: make bench-front")
    if arguments.readme is not None:
        from rankcast.bench import front_pictures  # noqa: PLC0415 (needs the extra plot)

        table = "\n".join(map(str, front_pictures.write(arguments.readme, newest)))
    sys.stdout.write(table + "\n")
    return 0


def compare_records(arguments: argparse.Namespace) -> int:
    """Print a line a contender: change, spread, verdict."""
    old, new = latest(read(arguments.old)), latest(read(arguments.new))
    for line in lines(compare(old, new), old, new):
        sys.stdout.write(line + "\n")
    return 0


@contextmanager
def _progress(console: Console, total: int) -> Iterator[Callable[[Case, Parameters], Callable[[str], None]]]:
    """Show a bar over all sets of parameters; gives a watcher for each set."""
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn  # noqa: PLC0415

    columns = (BarColumn(24), MofNCompleteColumn(), TimeElapsedColumn(), TextColumn("{task.description}"))
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=total)
        begun = 0

        def watch(case: Case, parameters: Parameters) -> Callable[[str], None]:
            nonlocal begun
            bar.update(task, completed=begun)
            begun += 1
            return lambda step: bar.update(task, description=f"{case.name} {_words(parameters)}: {step}")

        yield watch


def _show(record: Record, console: Console) -> None:
    """Print what was measured, a line a contender."""
    agreement = {True: ("agrees", "green"), False: ("DISAGREES", "bold red"), None: ("no queries", "dim")}
    words, style = agreement[record.agrees_with_brute_force]
    console.print(record.case, style="bold", end=" ", highlight=False)
    console.print(_words(record.parameters), end="  ", highlight=False, markup=False)
    console.print(words, style=style, highlight=False, end="")
    modified = record.commit is not None and record.commit.endswith(DIRTY)
    console.print("  modified sources" if modified else "", style="yellow", highlight=False)
    for measured in record.contenders:
        ratio = "" if measured.ratio is None else f"  {measured.ratio:10,.2f} x {record.baseline}"
        compiling = f"  compiling {measured.compile_seconds:.1f} s" if measured.compile_seconds else ""
        console.print(
            f"  {measured.name:<20} {measured.median:10.4f} s  {measured.rate:14,.0f} {record.unit}/s"
            f"{ratio}{compiling}",
            highlight=False,
            markup=False,
            soft_wrap=True,
        )


def _words(parameters: Parameters) -> str:
    """Write a set of parameters for people."""
    return " ".join(f"{name}={value}" for name, value in parameters.items())
