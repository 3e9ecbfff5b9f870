"""What a record ran on: processor, load, versions, commit. Read once a run; nothing here is timed."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import shutil
import subprocess
from pathlib import Path
from typing import Any

from rankcast._version import __version__

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
