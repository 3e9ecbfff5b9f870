"""Records: one JSON line a measurement, appended, never edited.

A record holds one case with one set of parameters, and everything that was measured for it in one run: each
contender's seconds, its counters, its ratio to the baseline, what the paper reports, whether the answers
agreed with brute force, and what it ran on: processor, load, versions, commit. Nothing here is timed.

`benchmarks/records/<case>.jsonl` keeps them; the file's name is the case's name, which is checked at
declaration and so is a plain file name. Those files are committed, so a record in them has to name a commit
that anybody can run again: `check_target` refuses sources that were modified, unless told otherwise, and
`commit` marks them. Appending records modifies no source, so the records themselves do not count.
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
from collections.abc import Iterable, Mapping
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
