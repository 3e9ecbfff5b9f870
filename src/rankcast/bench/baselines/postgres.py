"""A PostgreSQL server of our own, on a socket in a temporary directory, and what it is asked.

Debian's packages have the programs (`make peers`). The server runs as the user `postgres` where we are root,
since it refuses to run as root, and with settings that favour it: nothing is synced, and plenty of memory.
"""

from __future__ import annotations

import importlib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import weakref
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np

from rankcast.bench.baselines.covering import NOBODY
from rankcast.bench.baselines.embedded import RtreeForwarded, last_values
from rankcast.bench.workloads import Columns, Floats, Integers

PATIENCE = 60.0  # seconds until a server answers
_OPTIONS = (
    "fsync=off", "synchronous_commit=off", "full_page_writes=off", "shared_buffers=1GB", "work_mem=256MB",
    "max_wal_size=4GB", "jit=off", "max_parallel_workers_per_gather=0", "listen_addresses=",
)  # fmt: skip


def _programs() -> Path | None:
    """Where the newest server's programs are."""
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/postgres"), key=lambda path: int(path.parts[4]))
    if found:
        return found[-1].parent
    on_path = shutil.which("postgres")
    return None if on_path is None else Path(on_path).parent


def postgres_installed() -> bool:
    """Say whether a server and the package `psycopg` are there; if not, tell how to get them."""
    there = _programs() is not None and find_spec("psycopg") is not None
    if not there:
        sys.stderr.write(
            "PostgreSQL is left out: not set up (make peers; needs Debian's postgresql and psycopg)\n"
        )
    return there


def postgis_installed() -> bool:
    """Say whether the server has the extension PostGIS; if not, tell how to get it."""
    programs = _programs()
    version = "" if programs is None else programs.parent.name
    there = (
        postgres_installed() and Path(f"/usr/share/postgresql/{version}/extension/postgis.control").exists()
    )
    if not there:
        sys.stderr.write("PostGIS is left out: not set up (make peers; needs Debian's postgresql-postgis)\n")
    return there


class Server:
    """A server that lives as long as this object; `connection` talks to it."""

    def __init__(self) -> None:
        programs = _programs()
        if programs is None:
            raise RuntimeError("there is no PostgreSQL here")
        self._folder = tempfile.mkdtemp(prefix="rankcast-postgres-")
        data, user = Path(self._folder) / "data", "postgres" if os.geteuid() == 0 else None
        if user is not None:
            shutil.chown(self._folder, user)
        common: dict[str, Any] = {"user": user, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
        made: list[str | Path] = [
            programs / "initdb",
            "-D",
            data,
            "-U",
            "postgres",
            "--no-locale",
            "-E",
            "UTF8",
            "-A",
            "trust",
        ]
        subprocess.run(made, check=True, cwd=self._folder, **common)  # noqa: S603
        words = [part for option in _OPTIONS for part in ("-c", option)]
        started: list[str | Path] = [programs / "postgres", "-D", data, "-k", self._folder, *words]
        self._process = subprocess.Popen(started, cwd=self._folder, **common)  # noqa: S603
        self._end = weakref.finalize(self, _stop, self._process, self._folder)
        self.connection = self._connected()

    def _connected(self) -> Any:
        connect, until = importlib.import_module("psycopg").connect, time.monotonic() + PATIENCE
        while True:
            try:
                return connect(host=self._folder, user="postgres", dbname="postgres", autocommit=True)
            except Exception:
                if time.monotonic() > until or self._process.poll() is not None:
                    raise
                time.sleep(0.1)

    def close(self) -> None:
        """End the server and remove its files."""
        self.connection.close()
        self._end()

    def fill(self, table: str, columns: dict[str, Any]) -> None:
        """Make a table of columns of numbers."""
        kinds = ("bigint" if column.dtype.kind == "i" else "double precision" for column in columns.values())
        form = ", ".join(f"{name} {kind}" for name, kind in zip(columns, kinds, strict=True))
        self.connection.execute(f"create unlogged table {table} ({form})")
        with self.connection.cursor().copy(f"copy {table} from stdin") as copied:
            for row in zip(*(column.tolist() for column in columns.values()), strict=True):
                copied.write_row(row)


def _stop(process: subprocess.Popen[Any], folder: str) -> None:
    process.send_signal(signal.SIGINT)  # without waiting for those who are connected
    process.wait(PATIENCE)
    shutil.rmtree(folder, ignore_errors=True)


class PostgresRanges:
    """Lists that are asked for anew after every batch: for each range the k best by an index on the value."""

    def __init__(self, objects: Columns, subscriptions: Columns, k: int) -> None:
        self._server = Server()
        base = self._server.connection
        self._server.fill("o", {name: objects[name] for name in ("id", "x", "y")})
        self._server.fill("s", {name: subscriptions[name] for name in ("id", "x_lo", "x_hi")})
        base.execute("alter table o add primary key (id)")
        base.execute("create index by_value on o (y, id) include (x)")
        base.execute("vacuum analyze o")
        base.execute("analyze s")
        base.execute("create temp table news (id bigint, y double precision)")
        self._asked = (
            "select s.id, array(select o.id from o where o.x between s.x_lo and s.x_hi "  # noqa: S608
            f"order by o.y, o.id limit {int(k)}) from s order by s.id"
        )
        self.lists: list[tuple[int, list[int]]] = []

    def publish(self, events: Columns) -> None:
        """Take new values; all lists are asked for."""
        base, events = self._server.connection, last_values(events)
        base.execute("truncate news")
        with base.cursor().copy("copy news from stdin") as copied:
            for row in zip(events["id"].tolist(), events["y"].tolist(), strict=True):
                copied.write_row(row)
        base.execute("update o set y = n.y from news n where o.id = n.id")
        self.lists = base.execute(self._asked).fetchall()

    def items(self, row: int) -> list[int]:
        """The ids in one list, best first."""
        return self.lists[row][1]

    def close(self) -> None:
        """End the server."""
        self._server.close()


class PostgresBoxes:
    """Boxes under a GiST index of cubes; which of them contain a point, and of those the best by score."""

    def __init__(self, rows: Columns, over: Sequence[str], k: int) -> None:
        self._server, self._over = Server(), list(over)
        base = self._server.connection
        columns = {name: rows[name] for each in over for name in (f"{each}_lo", f"{each}_hi")}
        self._server.fill("given", {"id": rows["id"], "score": rows["score"], **columns})
        base.execute("create extension cube")
        low, high = (",".join(f"{name}_{end}" for name in over) for end in ("lo", "hi"))
        base.execute(
            "create unlogged table s as select id, score, "  # noqa: S608
            f"cube(array[{low}], array[{high}]) as box from given"
        )
        base.execute("create index by_box on s using gist (box)")
        base.execute("vacuum analyze s")
        self._asked = f"select id, score from s where box @> %s::cube order by score desc, id limit {int(k)}"  # noqa: S608

    def publish(self, events: Columns) -> list[tuple[Integers, Floats]]:
        """Give ids and scores of the best subscriptions for each event."""
        base, answers = self._server.connection, []
        for point in zip(*(events[name].tolist() for name in self._over), strict=True):
            found = base.execute(self._asked, (f"({','.join(map(repr, point))})",)).fetchall()
            answers.append(
                (np.array([row[0] for row in found], np.int64), np.array([row[1] for row in found]))
            )
        return answers

    def close(self) -> None:
        """End the server."""
        self._server.close()


class PostgresCovering(RtreeForwarded):
    """The forwarded boxes as cubes under a GiST index; a box is covered if one of them contains it."""

    def _begin(self, forwarded: list[int]) -> None:
        self._server = Server()
        base = self._server.connection
        base.execute("create extension cube")
        base.execute("create unlogged table boxes (id bigint, box cube)")
        with base.cursor().copy("copy boxes from stdin") as copied:
            for row in forwarded:
                copied.write_row((row, self._cube(row)))
        base.execute("create index by_box on boxes using gist (box)")
        base.execute("vacuum analyze boxes")
        base.execute("set enable_seqscan = off")

    def _insert(self, row: int) -> None:
        self._server.connection.execute("insert into boxes values (%s, %s::cube)", (row, self._cube(row)))

    def _first(self, row: int) -> int:
        asked = "select id from boxes where box @> %s::cube limit 1"
        found = self._server.connection.execute(asked, (self._cube(row),)).fetchone()
        return NOBODY if found is None else int(found[0])

    def _cube(self, row: int) -> str:
        ends = (",".join(map(repr, side[row].tolist())) for side in (self._lo, self._hi))
        return "({}),({})".format(*ends)

    def close(self) -> None:
        """End the server."""
        self._server.close()


class PostgresNearest:
    """The k nearest objects at every position by an ordered scan of a GiST index, a statement a batch."""

    _extension, _point = "", "point"

    def __init__(self, objects: Columns, k: int) -> None:
        self._server, self._k = Server(), k
        base = self._server.connection
        self._server.fill("given", {name: objects[name] for name in ("id", "x", "y")})
        if self._extension:
            base.execute(f"create extension {self._extension}")
        base.execute(f"create unlogged table o as select id, {self._point}(x, y) as place from given")  # noqa: S608
        base.execute("create index by_place on o using gist (place)")
        base.execute("vacuum analyze o")
        base.execute("create temp table cars (id bigint, x double precision, y double precision)")
        self._asked = (
            f"select array(select o.id from o order by o.place <-> {self._point}(c.x, c.y) "  # noqa: S608
            f"limit {int(k)}) from cars c order by c.id"
        )
        self.found: Integers = np.empty((0, k), np.int64)

    def publish(self, positions: Columns) -> None:
        """Answer every position."""
        base = self._server.connection
        base.execute("truncate cars")
        with base.cursor().copy("copy cars from stdin") as copied:
            for row in zip(*(positions[name].tolist() for name in ("id", "x", "y")), strict=True):
                copied.write_row(row)
        self.found = np.array([row[0] for row in base.execute(self._asked).fetchall()], np.int64)

    def close(self) -> None:
        """End the server."""
        self._server.close()


class PostgisNearest(PostgresNearest):
    """The same over geometries of PostGIS, whose order by distance is exact too."""

    _extension, _point = "postgis", "st_makepoint"
