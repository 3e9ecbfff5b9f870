"""Databases and libraries inside the process: DuckDB, SQLite's R*-tree, rtree and scipy's k-d tree.

Each is asked in the way that is fastest for it: after every batch for all lists, at every position.
"""

from __future__ import annotations

import importlib
import sqlite3
from collections.abc import Sequence
from typing import Any

import numpy as np

from rankcast.bench.baselines.covering import NOBODY, RtreeCovering
from rankcast.bench.workloads import Columns, Floats, Integers


def last_values(events: Columns) -> Columns:
    """Of rows with the same id only the last one."""
    _, first = np.unique(events["id"][::-1], return_index=True)
    return {name: column[::-1][first] for name, column in events.items()}


class DuckdbRanges:
    """Lists that DuckDB makes anew after every batch, on one thread, by a join and the k least of each group.

    That is four times as fast as to sort each group, or to ask for each range.
    """

    def __init__(self, objects: Columns, subscriptions: Columns, k: int) -> None:
        self._base: Any = importlib.import_module("duckdb").connect(config={"threads": 1})
        for table, rows in (("o", objects), ("s", subscriptions)):
            self._base.register("given", rows)
            self._base.execute(f"create table {table} as select * from given")  # noqa: S608
            self._base.unregister("given")
        self._asked = (
            f"select s.id, list_transform(min((o.y, o.id), {int(k)}), lambda pair: pair[2]) from s join o on "  # noqa: S608
            "o.x between s.x_lo and s.x_hi group by s.id order by s.id"
        )
        self._lists: dict[str, Any] = {}

    def publish(self, events: Columns) -> None:
        """Take new values; all lists are asked for."""
        self._base.register("news", last_values(events))
        self._base.execute("update o set y = news.y from news where o.id = news.id")
        self._base.unregister("news")
        self._lists = self._base.execute(self._asked).fetchnumpy()

    def items(self, row: int) -> list[int]:
        """The ids in one list, best first; a range without objects has no row."""
        ids, lists = self._lists.values()
        place = int(np.searchsorted(ids, row))
        return list(lists[place]) if place < len(ids) and ids[place] == row else []


class SqliteRanges:
    """Lists that SQLite makes anew after every batch: for each range the k best by an index on the value."""

    def __init__(self, objects: Columns, subscriptions: Columns, k: int) -> None:
        self._base = sqlite3.connect(":memory:", check_same_thread=False)
        self._base.execute("create table o (id integer primary key, x real, y real)")
        self._base.execute("create table s (id integer primary key, x_lo real, x_hi real)")
        for table, rows, names in (
            ("o", objects, ("id", "x", "y")),
            ("s", subscriptions, ("id", "x_lo", "x_hi")),
        ):
            columns = zip(*(rows[name].tolist() for name in names), strict=True)
            self._base.executemany(f"insert into {table} values (?, ?, ?)", columns)  # noqa: S608
        self._base.execute("create index by_value on o (y, id, x)")
        self._base.execute("analyze")
        self._asked = (
            "select (select group_concat(id) from (select o.id as id from o "  # noqa: S608
            f"where o.x between s.x_lo and s.x_hi order by o.y, o.id limit {int(k)})) from s order by s.id"
        )
        self._lists: list[tuple[str | None]] = []

    def publish(self, events: Columns) -> None:
        """Take new values; all lists are asked for."""
        news = zip(events["y"].tolist(), events["id"].tolist(), strict=True)
        self._base.executemany("update o set y = ? where id = ?", news)
        self._lists = self._base.execute(self._asked).fetchall()

    def items(self, row: int) -> list[int]:
        """The ids in one list, best first."""
        return [int(item) for item in (self._lists[row][0] or "").split(",") if item]


class DuckdbSkyline:
    """The skyline at every position by a condition that nothing better exists."""

    def __init__(self, objects: Columns, over: Sequence[str]) -> None:
        self._base: Any = importlib.import_module("duckdb").connect(config={"threads": 1})
        self._base.register("given", objects)
        self._base.execute("create table o as select * from given")
        every = " and ".join([f"b.{name} <= a.{name}" for name in over] + ["b.d <= a.d"])
        some = " or ".join([f"b.{name} < a.{name}" for name in over] + ["b.d < a.d"])
        self._asked = (
            "with p as (select *, sqrt((x - ?) * (x - ?) + (y - ?) * (y - ?)) as d from o) "  # noqa: S608
            f"select id from p a where not exists (select 1 from p b where {every} and ({some}))"
        )
        self.found: dict[Any, Integers] = {}

    def publish(self, positions: Columns) -> None:
        """Answer every position."""
        for key, x, y in zip(*(positions[name].tolist() for name in ("id", "x", "y")), strict=True):
            answer = self._base.execute(self._asked, [x, x, y, y]).fetchnumpy()
            self.found[key] = np.asarray(answer["id"], np.int64)


class NearestTree:
    """The k nearest objects at every position by scipy's cKDTree, a call a batch."""

    def __init__(self, objects: Columns, k: int) -> None:
        points = np.column_stack([objects["x"], objects["y"]])
        self._tree: Any = importlib.import_module("scipy.spatial").cKDTree(points)
        self._ids, self._k = objects["id"], k
        self.found: Integers = np.empty((0, k), np.int64)

    def publish(self, positions: Columns) -> None:
        """Answer every position."""
        _, places = self._tree.query(np.column_stack([positions["x"], positions["y"]]), k=self._k)
        self.found = self._ids[places]


class NearestRtree:
    """The k nearest objects at every position by the package `rtree`."""

    def __init__(self, objects: Columns, k: int) -> None:
        points = np.column_stack([objects["x"], objects["y"]])
        self._tree: Any = importlib.import_module("rtree.index").Index(
            (objects["id"].astype(np.int64), points, points)
        )
        self._k = k
        self.found: Integers = np.empty((0, k), np.int64)

    def publish(self, positions: Columns) -> None:
        """Answer every position."""
        places = zip(positions["x"].tolist(), positions["y"].tolist(), strict=True)
        near = [list(self._tree.nearest((x, y, x, y), self._k))[: self._k] for x, y in places]
        self.found = np.array(near, np.int64)


class RtreeForwarded(RtreeCovering):
    """Only the forwarded boxes in an R-tree: while no box goes, one that is covered cannot matter."""

    def load(self, rows: Columns, covered_by: Integers) -> None:
        """Take over boxes of which it is known what covers each, or -1."""
        for row, above in enumerate(covered_by.tolist()):
            self._remember(row, above)
        self._used = len(covered_by)
        self._begin(np.flatnonzero(covered_by == NOBODY).tolist())

    def subscribe(self, rows: Columns) -> None:
        """Register the next boxes one after the other."""
        for _ in range(len(rows["id"])):
            row = self._used
            above = self._first(row)
            self._remember(row, above)
            if above == NOBODY:
                self._insert(row)
            self._used += 1

    def _begin(self, forwarded: list[int]) -> None:
        stream = ((row, self._bounds(row), None) for row in forwarded)
        form = self._module.Property(dimension=self._lo.shape[1])
        self._tree = self._module.Index(stream, properties=form, interleaved=True)

    def _insert(self, row: int) -> None:
        self._tree.insert(row, self._bounds(row))


class SqliteCovering(RtreeForwarded):
    """The same boxes in SQLite's R*-tree, of up to five attributes; it has float32, so it is verified."""

    def _begin(self, forwarded: list[int]) -> None:
        self._base = sqlite3.connect(":memory:", check_same_thread=False)
        axes = range(self._lo.shape[1])
        names = ", ".join(f"lo{axis}, hi{axis}" for axis in axes)
        self._base.execute(f"create virtual table boxes using rtree (id, {names})")
        tests = " and ".join(f"lo{axis} <= ? and hi{axis} >= ?" for axis in axes)
        self._asked = f"select id from boxes where {tests}"  # noqa: S608
        self._added = f"insert into boxes values ({', '.join('?' * (2 * len(axes) + 1))})"  # noqa: S608
        self._base.executemany(self._added, map(self._row, forwarded))

    def _insert(self, row: int) -> None:
        self._base.execute(self._added, self._row(row))

    def _row(self, row: int) -> list[float]:
        ends = np.column_stack([self._lo[row], self._hi[row]]).ravel().tolist()
        return [row, *ends]

    def _first(self, row: int) -> int:
        low, high = self._lo[row], self._hi[row]
        wide = np.column_stack([low + np.abs(low) * 1e-6, high - np.abs(high) * 1e-6]).ravel()
        for (other,) in self._base.execute(self._asked, wide.tolist()):
            if other != row and (self._lo[other] <= low).all() and (self._hi[other] >= high).all():
                return int(other)
        return NOBODY


def answers_equal(found: list[tuple[Integers, Floats]], wanted: list[tuple[Integers, Floats]]) -> bool:
    """Whether answers for the first events are the same."""
    pairs = zip(found, wanted, strict=False)
    return all(np.array_equal(a[0], b[0]) and np.array_equal(a[1], b[1]) for a, b in pairs)
