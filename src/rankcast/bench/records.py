"""Records: one JSON line a measurement, appended, never edited.

A record holds one case with one set of parameters, and everything that was measured for it in one run: each
contender's seconds, its counters, its ratio to the baseline, what the paper reports, whether the answers
agreed with brute force, and what it ran on. `benchmarks/records/<case>.jsonl` keeps them; the file's name is
the case's name, which is checked at declaration and so is a plain file name.

What a record ran on: processor, load, versions, commit. Read once a run; nothing here is timed.
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
Key: TypeAlias = tuple[str, str, str]


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
        told = dataclasses.asdict(self)
        for contender, measured in zip(told["contenders"], self.contenders, strict=True):
            contender["seconds_min"], contender["seconds_median"] = measured.least, measured.median
        return json.dumps(told, allow_nan=False, ensure_ascii=False)


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
        told = json.loads(line)
        contenders = [Measurement(**_known(Measurement, each)) for each in told["contenders"]]
        record = Record(**{**_known(Record, told), "contenders": contenders})
        if not contenders or not all(measured.seconds for measured in contenders):
            raise ValueError("no contender or no run")
    except (ValueError, TypeError, KeyError, AttributeError) as wrong:
        raise InputError(f"{place} is no benchmark record: {wrong}") from wrong
    return record


def _known(kind: type, told: Mapping[str, Any]) -> dict[str, Any]:
    """Keep the fields of a dataclass: derived ones, and those of later versions, are left out."""
    names = {each.name for each in dataclasses.fields(kind)}
    return {name: value for name, value in told.items() if name in names}


_SOURCE = Path(__file__).resolve().parents[3]


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
    """Give the commit of the sources, with `-dirty` if they were changed since; None outside a checkout."""
    git = shutil.which("git")
    if git is None or not (_SOURCE / ".git").exists():
        return None
    asked = [git, "-C", str(_SOURCE), "describe", "--always", "--dirty", "--exclude=*"]
    answer = subprocess.run(asked, capture_output=True, text=True, check=False)  # noqa: S603 (fixed words)
    return answer.stdout.strip() or None


def peak_memory() -> int | None:
    """Give the peak of resident memory in bytes since `reset_peak_memory`, where the system tells."""
    return _status("VmHWM")


def resident_memory() -> int | None:
    """Give the resident memory in bytes, where the system tells."""
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
