"""Where tests run Spark: environments of hosts, settings that make a short life cheap, processes."""

from __future__ import annotations

import os
import signal
import sys
from contextlib import suppress
from functools import lru_cache
from pathlib import Path

from rankcast.spark import sessions
from rankcast.spark.scratch import VARIABLE

ROOT = Path(__file__).parent.parent.parent
BRIEF = "-XX:TieredStopAtLevel=1"  # Java compiles for a short life


@lru_cache
def archive() -> Path:
    """Spark's classes for all tests, there or not; first asked for before a scratch directory is chosen."""
    return sessions.class_archive(sessions.find())


def environment(scratch: Path) -> dict[str, str]:
    """Variables of a process on a host with that scratch directory, which is made.

    Spark's classes come from the archive of the machine (`rankcast.spark.class_archive`), if it has one.
    """
    scratch.mkdir(mode=0o700, exist_ok=True)
    if archive().exists():
        (scratch / archive().name).symlink_to(archive())
    paths = [str(ROOT), *filter(None, [os.environ.get("PYTHONPATH")])]
    return {
        VARIABLE: str(scratch),
        "PYTHONPATH": os.pathsep.join(paths),
        "PYSPARK_PYTHON": sys.executable,
        "SPARK_HOME": str(sessions.home()),
        "SPARK_LOCAL_IP": "127.0.0.1",
    }


def settings() -> dict[str, str]:
    """Settings of every session in tests: few rows are not worth compiling code for."""
    return {
        sessions.PARTITIONS: "2",
        "spark.sql.codegen.wholeStage": "false",
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.driver.defaultJavaOptions": BRIEF,
        "spark.executor.defaultJavaOptions": " ".join([BRIEF, *sessions.archive_options()]),
        "spark.driver.memory": "512m",
        "spark.executor.memory": "512m",
    }


def committed(folder: Path) -> int:
    """How many micro-batches the stream under a folder has committed."""
    commits = folder / "checkpoint" / "commits"
    return sum(path.name.isdigit() for path in commits.iterdir()) if commits.exists() else 0


def children(pid: int) -> list[int]:
    """The processes that a process has started."""
    return [
        int(path.name)
        for path in Path("/proc").iterdir()
        if path.name.isdigit() and _parent_of(int(path.name)) == pid
    ]


def _parent_of(pid: int) -> int:
    with suppress(OSError, IndexError):
        return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])
    return -1


def command(pid: int) -> str:
    """The command line of a process, empty if it is gone."""
    with suppress(OSError):
        return Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
    return ""


def workers(java: int) -> list[int]:
    """The Python workers of a JVM: children of the daemons it started."""
    return [worker for daemon in children(java) for worker in children(daemon)]


def kill(pid: int) -> bool:
    """Kill a process; whether it was there."""
    with suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
        return True
    return False
