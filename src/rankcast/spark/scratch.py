"""Where shards live on a host: a private directory for memory-mapped arrays, by query and shard.

`RANKCAST_SCRATCH` names it on each host; otherwise it is a directory of this user's under the system's for
temporary files. It is a cache: removing any of it costs a restore and nothing else. `tidy` bounds it.
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from rankcast.errors import ShardError

VARIABLE = "RANKCAST_SCRATCH"
DAYS = "RANKCAST_SCRATCH_DAYS"
_QUERY = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
_SECONDS_A_DAY, _SECONDS_AN_HOUR = 86_400.0, 3_600.0
_DEFAULT_DAYS = 2.0


def root() -> Path:
    """The scratch directory of this host, made if need be; refused if others may write to it."""
    named = os.environ.get(VARIABLE)
    path = Path(named) if named else Path(tempfile.gettempdir()) / f"rankcast-{os.getuid()}"
    if not path.is_absolute():
        raise ShardError(f"{VARIABLE} is {named!r}", hint="Give an absolute path.")
    path.mkdir(parents=True, exist_ok=True, mode=0o700)
    return _checked(path, 0o022)


def private(name: str) -> Path:
    """A directory in it that this user alone can look into, made if need be; no link is followed to it."""
    path = root() / name
    path.mkdir(exist_ok=True, mode=0o700)
    return _checked(path, 0o077)


def _checked(path: Path, forbidden: int) -> Path:
    """Refuse a directory that is somebody else's, a link, or open to others."""
    found = path.lstat()
    if not stat.S_ISDIR(found.st_mode) or found.st_uid != os.getuid() or found.st_mode & forbidden:
        raise ShardError(
            f"{path} is not a private directory of this user",
            hint=f"Name another one in {VARIABLE}.",
        )
    return path


def of_shard(query: str, shard: int) -> Path:
    """The directory of one shard of a query; marks the query as in use."""
    if not _QUERY.fullmatch(query):
        raise ShardError(f"{query[:100]!r} is not the id of a query")
    path = root() / query
    path.mkdir(exist_ok=True, mode=0o700)
    os.utime(path)
    return path / str(int(shard))


def forget(query: str) -> None:
    """Remove what a query has on this host."""
    if _QUERY.fullmatch(query):
        shutil.rmtree(root() / query, ignore_errors=True)


def tidy() -> list[str]:
    """Remove what no query has used for `RANKCAST_SCRATCH_DAYS` days (2); return whose it was.

    While less than a tenth of the file system is free, also what none has used for an hour, oldest first.
    """
    limit = float(os.environ.get(DAYS, _DEFAULT_DAYS)) * _SECONDS_A_DAY
    gone = []
    for used, path in sorted((used, path) for path, used in _queries()):
        idle = time.time() - used
        if idle > limit or (idle > _SECONDS_AN_HOUR and _is_full()):
            shutil.rmtree(path, ignore_errors=True)
            gone.append(path.name)
    return gone


def _is_full() -> bool:
    space = shutil.disk_usage(root())
    return space.free < space.total / 10


def _queries() -> Iterator[tuple[Path, float]]:
    for path in root().iterdir():
        if _QUERY.fullmatch(path.name) and not path.is_symlink():
            yield path, path.stat().st_mtime
