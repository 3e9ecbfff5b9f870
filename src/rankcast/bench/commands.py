"""`rankcast bench`: list, run, report, compare.

Comparing two sets of records: what changed by more than the noise.

Where a record has a baseline, a contender is judged by its time over the baseline's, round by round: both ran
within moments of each other, so a machine that was busier for one of the records does not count. The baseline
itself is then the drift of the machine, and is shown but not judged. Without a baseline seconds are compared.

A contender counts as slower when every new round was slower than every old one, and the medians differ by
more than `MARGIN` and by more than either record's own spread. If nothing had changed, all n new rounds would
lie above all m old ones with probability 1 / C(n + m, n): 1 in 252 for five against five.
"""

from __future__ import annotations

import argparse
import statistics
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from rankcast.bench.case import SIZES, Case, Parameters
from rankcast.bench.records import DEFAULT_DIRECTORY, Key, Measurement, Record, append, latest, read
from rankcast.errors import MissingExtraError

MARGIN = 0.10
DRIFT = "drift"


@dataclass(frozen=True)
class Change:
    """How one contender of one case moved.

    Attributes:
        case: its name.
        parameters: in words.
        contender: its name.
        old_seconds: median of the old runs.
        new_seconds: median of the new runs.
        change: new over old of what is judged, a unit of work; 2 is twice as slow.
        spread: range of the rounds over their median, the larger of both records.
        by: what is judged, `ratio` or `seconds`, or `drift` for a baseline.
        verdict: `SLOWER`, `faster` or nothing.
    """

    case: str
    parameters: str
    contender: str
    old_seconds: float
    new_seconds: float
    change: float
    spread: float
    by: str
    verdict: str


def compare(old: Mapping[Key, Record], new: Mapping[Key, Record]) -> list[Change]:
    """Compare what both sides have; the slower ones come first, each group by case."""
    changes = [
        _change(old[key], new[key], before, after)
        for key in new
        if key in old
        for after in new[key].contenders
        for before in old[key].contenders
        if before.name == after.name
    ]
    order = {"SLOWER": 0, "faster": 1, "": 2}
    return sorted(changes, key=lambda each: (order[each.verdict], each.case, each.parameters))


def lines(changes: list[Change], old: Mapping[Key, Record], new: Mapping[Key, Record]) -> Iterator[str]:
    """Write the comparison for people."""
    if _machines(old) != _machines(new):
        yield "The two sets come from different machines: trust what is judged by ratio, not the seconds."
    if changes:
        yield f"{'':7} {'change':>7} {'spread':>7} {'by':8} {'old s':>10} {'new s':>10}  case"
    for each in changes:
        yield (
            f"{each.verdict:7} {each.change:6.2f}x {each.spread:7.0%} {each.by:8} {each.old_seconds:10.4f} "
            f"{each.new_seconds:10.4f}  {each.case} {each.parameters} {each.contender}"
        )
    slower = sum(each.verdict == "SLOWER" for each in changes)
    yield f"{len(changes)} compared, {slower} slower than the noise; {_only(old, new)}."


def _change(old: Record, new: Record, before: Measurement, after: Measurement) -> Change:
    """Compare one contender with its former self."""
    by = _judged_by(old, new, after.name)
    one = _rounds(before, _baseline(old) if by == "ratio" else None)
    other = _rounds(after, _baseline(new) if by == "ratio" else None)
    change = statistics.median(other) / statistics.median(one)
    spread = max(_spread(one), _spread(other))
    return Change(
        case=new.case,
        parameters=" ".join(f"{name}={value}" for name, value in new.parameters.items()),
        contender=after.name,
        old_seconds=before.median,
        new_seconds=after.median,
        change=change,
        spread=spread,
        by=by,
        verdict="" if by == DRIFT else _verdict(one, other, change, max(MARGIN, spread)),
    )


def _judged_by(old: Record, new: Record, name: str) -> str:
    """Say what a contender is judged by."""
    if new.baseline is None or old.baseline != new.baseline:
        return "seconds"
    return DRIFT if name == new.baseline else "ratio"


def _baseline(record: Record) -> Measurement:
    """Find the baseline of a record that has one."""
    return next(each for each in record.contenders if each.name == record.baseline)


def _rounds(measured: Measurement, baseline: Measurement | None) -> list[float]:
    """Give the time a unit of every round, over that of the baseline in the same round if there is one."""
    own = [max(seconds, 1e-12) / measured.work for seconds in measured.seconds]
    if baseline is None:
        return own
    others = [max(seconds, 1e-12) / baseline.work for seconds in baseline.seconds]
    return [mine / other for mine, other in zip(own, others, strict=False)]


def _verdict(old: list[float], new: list[float], change: float, noise: float) -> str:
    """Say whether a change is beyond the noise."""
    if min(new) > max(old) and change > 1 + noise:
        return "SLOWER"
    if max(new) < min(old) and change < 1 / (1 + noise):
        return "faster"
    return ""


def _spread(rounds: list[float]) -> float:
    """Give the range of the rounds over their median."""
    return (max(rounds) - min(rounds)) / statistics.median(rounds)


def _machines(records: Mapping[Key, Record]) -> set[tuple[object, object]]:
    """Name the processors that records come from."""
    return {(record.machine.get("cpu"), record.machine.get("cores")) for record in records.values()}


def _only(old: Mapping[Key, Record], new: Mapping[Key, Record]) -> str:
    """Say what only one side has."""
    return f"{len(set(old) - set(new))} only in the old records, {len(set(new) - set(old))} only in the new"


if TYPE_CHECKING:
    from rich.console import Console

DISAGREEMENT = 1


def configure(parser: argparse.ArgumentParser) -> None:
    """Add the four words of `rankcast bench` to its parser."""
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
    word.set_defaults(run=run_cases)

    word = words.add_parser("report", help="make one HTML page of the records")
    word.add_argument("--records", type=Path, default=DEFAULT_DIRECTORY, metavar="DIR")
    word.add_argument("--out", type=Path, default=Path("out/report.html"), metavar="FILE")
    word.set_defaults(run=write_report)

    word = words.add_parser("compare", help="say what became slower between two sets of records")
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
    console = _console()
    from rankcast.bench.cases import choose  # noqa: PLC0415 (imports engines)
    from rankcast.bench.runner import measure  # noqa: PLC0415 (imports Numba)

    cases = choose(arguments.names)
    sets = [(case, parameters) for case in cases for parameters in case.parameters(arguments.size)]
    wrong: list[str] = []
    with _progress(console, len(sets)) as watch:
        for case, parameters in sets:
            record = measure(case, parameters, arguments.size, watch(case, parameters))
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


def compare_records(arguments: argparse.Namespace) -> int:
    """Print a line a contender: change, spread, verdict."""
    old, new = latest(read(arguments.old)), latest(read(arguments.new))
    for line in lines(compare(old, new), old, new):
        sys.stdout.write(line + "\n")
    return 0


def _console() -> Console:
    """Make a console for progress on standard error."""
    try:
        from rich.console import Console  # noqa: PLC0415 (an extra)
    except ImportError as missing:
        raise MissingExtraError("bench", needs="rich") from missing
    return Console(stderr=True)


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
    console.print(words, style=style, highlight=False)
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
