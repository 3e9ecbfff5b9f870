"""Records: one JSON line a measurement, appended, never edited; and what has changed between two sets.

A record holds one case with one set of parameters, and everything that was measured for it in one run: each
contender's seconds, its counters, its ratio to the baseline, what the paper reports, whether the answers
agreed with brute force, and what it ran on: processor, load, versions, commit. Nothing here is timed.

`benchmarks/records/<case>.jsonl` keeps them; the file's name is the case's name, which is checked at
declaration and so is a plain file name. Those files are committed, so a record in them has to name a commit
that anybody can run again: `check_target` refuses sources that were modified, unless told otherwise, and
`commit` marks them. Appending records modifies no source, so the records themselves do not count.

Two sets are compared by what changed by more than the noise. Where a record has a baseline, a contender is
judged by its time over the baseline's, round by round: both ran within moments of each other, so a machine
that was busier for one of the records does not count. The baseline itself is then the drift of the machine,
and is shown but not judged. Without a baseline seconds are compared.

A contender counts as slower when every new round was slower than every old one, and the medians differ by
more than `MARGIN` and by more than either record's own spread. If nothing had changed, all n new rounds would
lie above all m old ones with probability 1 / C(n + m, n): 1 in 252 for five against five.
"""

from __future__ import annotations

import dataclasses
import importlib.metadata
import json
import os
import platform
import shutil
import statistics
import subprocess
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

from rankcast._version import __version__
from rankcast.errors import InputError

DEFAULT_DIRECTORY = Path("benchmarks/records")
DIRTY = "-dirty"
Key: TypeAlias = tuple[str, str, str]
_SOURCE = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Measurement:
    """What one contender did.

    Attributes:
        name: the contender.
        work: units of work in one run.
        seconds: of every timed repetition, in order.
        first_seconds: of the repetition before them, which compiles and warms and counts for nothing else.
        compile_seconds: how much of that one Numba spent compiling (0 when its cache was warm).
        compile_seconds_timed: compiling that fell into the timed ones after all; 0 in a clean record.
        counters: named numbers, from `stats()` and the like.
        ratio: the baseline's time a unit over this one's (above 1: faster than the baseline).
        bytes: size of the state.
        peak_bytes: growth of resident memory at its peak.
        paper: what the paper reports, by the name of a quantity.
    """

    name: str
    work: int
    seconds: list[float]
    first_seconds: float
    compile_seconds: float
    compile_seconds_timed: float = 0.0
    counters: dict[str, float] = field(default_factory=dict)
    ratio: float | None = None
    bytes: int | None = None
    peak_bytes: int | None = None
    paper: dict[str, float] = field(default_factory=dict)

    @property
    def least(self) -> float:
        """The fastest run, in seconds."""
        return min(self.seconds)

    @property
    def median(self) -> float:
        """The median run, in seconds."""
        return statistics.median(self.seconds)

    @property
    def rate(self) -> float:
        """Units of work a second in the median run."""
        return self.work / max(self.median, 1e-12)

    def quantity(self, name: str) -> float | None:
        """Look up a measured quantity: a counter, or `seconds`, `rate`, `ratio`, `bytes`, `peak_bytes`."""
        if name in self.counters:
            return self.counters[name]
        known = {
            "seconds": self.median,
            "rate": self.rate,
            "ratio": self.ratio,
            "bytes": self.bytes,
            "peak_bytes": self.peak_bytes,
        }
        return known.get(name)


@dataclass(frozen=True)
class Record:
    """One case with one set of parameters, measured once."""

    case: str
    parameters: dict[str, Any]
    size: str
    seed: int
    unit: str
    contenders: list[Measurement]
    baseline: str | None
    agrees_with_brute_force: bool | None
    reproduces: str | None
    at: str
    commit: str | None
    machine: dict[str, Any]
    versions: dict[str, str]

    @property
    def key(self) -> Key:
        """What makes two records comparable: case, size, parameters."""
        return self.case, self.size, json.dumps(self.parameters, sort_keys=True)

    def line(self) -> str:
        """Write the record as one line of JSON, with minimum and median beside the single runs."""
        fields = dataclasses.asdict(self)
        for contender, measured in zip(fields["contenders"], self.contenders, strict=True):
            contender["seconds_min"], contender["seconds_median"] = measured.least, measured.median
        return json.dumps(fields, allow_nan=False, ensure_ascii=False)


def append(record: Record, directory: Path) -> Path:
    """Append a record to the file of its case and return that file."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / f"{record.case}.jsonl"
    with path.open("a", encoding="utf-8") as file:
        file.write(record.line() + "\n")
    return path


def read(place: Path) -> list[Record]:
    """Read every record of a directory (or of one file), oldest first within a case.

    Raises:
        InputError: nothing there, or a line that is no record; the text names file and line.
    """
    paths = sorted(place.glob("*.jsonl")) if place.is_dir() else [place]
    if not paths:
        raise InputError(f"there are no records (*.jsonl) in {place}", hint="Run: rankcast bench run")
    return [
        _parse(line, f"{path}:{number}")
        for path in paths
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1)
        if line.strip()
    ]


def latest(records: Iterable[Record]) -> dict[Key, Record]:
    """Keep the last record of each case, size and parameters."""
    return {record.key: record for record in records}


def _parse(line: str, place: str) -> Record:
    """Rebuild a record from its line."""
    try:
        fields = json.loads(line)
        contenders = [Measurement(**_known(Measurement, each)) for each in fields["contenders"]]
        record = Record(**{**_known(Record, fields), "contenders": contenders})
        if not contenders or not all(measured.seconds for measured in contenders):
            raise ValueError("no contender or no run")
    except (ValueError, TypeError, KeyError, AttributeError) as wrong:
        raise InputError(f"{place} is no benchmark record: {wrong}") from wrong
    return record


def _known(kind: type, fields: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the fields of a dataclass: derived ones, and those of later versions, are left out."""
    names = {each.name for each in dataclasses.fields(kind)}
    return {name: value for name, value in fields.items() if name in names}


def machine() -> dict[str, Any]:
    """Describe the machine: system, processor, cores this process may use, load before the run."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    load = round(os.getloadavg()[0], 2) if hasattr(os, "getloadavg") else None
    return {"system": platform.system(), "cpu": _processor(), "cores": cores, "load": load}


def versions() -> dict[str, str]:
    """Give the versions that decide speed."""
    found = {"rankcast": __version__, "python": platform.python_version()}
    for name in ("numpy", "numba", "pyarrow"):
        found[name] = importlib.metadata.version(name)
    return found


def commit() -> str | None:
    """Give the commit of the sources, with `-dirty` if they differ from it; None outside a checkout."""
    if not (_SOURCE / ".git").exists():
        return None
    known = _git(_SOURCE, "describe", "--always", "--exclude=*").strip()
    return known + DIRTY if known and modified() else known or None


def modified() -> list[str]:
    """List the files of the checkout that differ from its commit, untracked ones included, records not.

    Empty outside a checkout.
    """
    if not (_SOURCE / ".git").exists():
        return []
    outside = f":(exclude){DEFAULT_DIRECTORY.as_posix()}"
    status = _git(_SOURCE, "status", "--porcelain", "-z", "--no-renames", "--", ".", outside)
    return [entry[3:] for entry in status.split("\0") if entry]


def check_target(directory: Path, *, dirty: bool = False) -> None:
    """Refuse to add records of modified sources to records that are committed.

    Args:
        directory: where records are to be written. It has committed records if git tracks a file in it.
        dirty: write all the same; the records carry the mark of `commit`.

    Raises:
        InputError: the sources are modified; the text names files and says what to do.
    """
    changed = [] if dirty else modified()
    if changed and _tracked(directory):
        more = f" and {len(changed) - 3} more" if len(changed) > 3 else ""
        raise InputError(
            f"{directory} has committed records, and the sources differ from their commit, "
            "so a record could not say what it ran",
            detail=f"Modified: {', '.join(changed[:3])}{more}.",
            hint=f"Commit first, write elsewhere (--out out/records), or pass --dirty: "
            f"the records then carry the commit with the mark {DIRTY}.",
        )


def _tracked(directory: Path) -> bool:
    """Say whether git tracks a file in a directory."""
    return directory.is_dir() and bool(_git(directory, "ls-files", "--", "."))


def _git(place: Path, *words: str) -> str:
    """Ask git in a directory; the empty string if there is no git, or it has no answer."""
    git = shutil.which("git")
    if git is None:
        return ""
    command = [git, "-C", str(place), *words]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)  # noqa: S603 (fixed words)
    return answer.stdout if answer.returncode == 0 else ""


def peak_memory() -> int | None:
    """Give the peak of resident memory in bytes since `reset_peak_memory`, where the system reports it."""
    return _status("VmHWM")


def resident_memory() -> int | None:
    """Give the resident memory in bytes, where the system reports it."""
    return _status("VmRSS")


def reset_peak_memory() -> None:
    """Forget the peak so far (Linux; elsewhere nothing happens and the peak stays unknown)."""
    clear = Path("/proc/self/clear_refs")
    if clear.exists():
        clear.write_text("5")


def _processor() -> str:
    """Name the processor as the system does."""
    described = Path("/proc/cpuinfo")
    if described.exists():
        for line in described.read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _status(field: str) -> int | None:
    """Read one size from the process's status page."""
    page = Path("/proc/self/status")
    if not page.exists():
        return None
    for line in page.read_text(encoding="ascii", errors="replace").splitlines():
        if line.startswith(field + ":"):
            return int(line.split()[1]) * 1024
    return None


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
