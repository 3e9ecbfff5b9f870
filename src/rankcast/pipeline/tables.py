"""Lake tables as a sink: current lists for SQL, and all deltas by day (Delta Lake).

    lists/results    subscription, rank, item, score: the lists after the last micro-batch
    lists/deltas     day, batch, subscription, op, item, score, rank, seq; partitioned by day
    lists/matches    the same for an engine that keeps no lists
    lists/refused    refused rows, and why

A micro-batch changes each table in one commit, which names the query and the number of the micro-batch
(`txnAppId`, `txnVersion`): after a crash, a repeated one skips the tables it has already changed,
and changes the others. So a reader of a table sees the state after a whole micro-batch, and nothing
twice; tables may be one micro-batch apart while it is written.

Deltas do not contain the ranks of entries that stay and move, so the lists of subscriptions that have
deltas are read, updated on the driver (`sinks.applied`) and merged. Cost: the deltas of one
micro-batch and the lists they concern pass through the driver; Delta rewrites the files with changed lists.

The day is the one on which the micro-batch started, by Spark's clock: the same after a retry.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc

from rankcast.errors import ShardError
from rankcast.pipeline.sources import literal, quoted

if TYPE_CHECKING:
    from collections.abc import Callable

DAY = "day"
FORMAT = "delta"
_QUERY = "rankcast.query"
_APP, _VERSION = "spark.databricks.delta.write.txnAppId", "spark.databricks.delta.write.txnVersion"
_GONE, _VIEW = "gone", "rankcast_changed"
_TYPES = {
    pa.int64(): "bigint",
    pa.int32(): "int",
    pa.float64(): "double",
    pa.string(): "string",
    pa.date32(): "date",
}


def dated(frame: Any) -> Any:
    """Answers with the day of their micro-batch."""
    return frame.selectExpr("*", f"current_date() as {DAY}")


class Tables:
    """The tables in a folder.

    Args:
        place: the folder, a path or a URI.
        session: returns the Spark session that has the format.
        apply: makes new lists from old ones and deltas; None if the engine keeps none.
    """

    def __init__(
        self,
        place: str,
        session: Callable[[], Any],
        apply: Callable[[pa.Table | None, pa.Table], pa.Table] | None,
    ) -> None:
        self._place = place.rstrip("/")
        self._session = session
        self._apply = apply
        self._spark: Any = None
        self._known: set[str] = set()

    def apply(self, query: str, batch: int, told: pa.Table) -> bool:
        """Take the output of a micro-batch; returns true, because only the tables know whether it is new."""
        if self._spark is None:
            self._spark = self._session().newSession()  # its settings are nobody else's
        aside = pc.equal(told["op"], "refused")
        deltas, refused = told.filter(pc.invert(aside)), told.filter(aside)
        number = pa.array([batch], pa.int64())
        if deltas.num_rows:
            rows = deltas.drop_columns(["reason"])
            rows = rows if self._apply is not None else rows.drop_columns(["op"])
            name = "deltas" if self._apply is not None else "matches"
            self._append(name, query, batch, _first(rows, number))
            if self._apply is not None:
                self._merge(query, batch, deltas)
        if refused.num_rows:
            rows = refused.drop_columns(["op", "score", "rank"])
            self._append("refused", query, batch, _first(rows, number))
        return True

    def _append(self, name: str, query: str, batch: int, rows: pa.Table) -> None:
        table = self._table(name, query, rows.schema, by_day=True)
        with self._once(query, batch):
            self._viewed(rows)
            columns = ", ".join(map(quoted, rows.column_names))
            self._spark.sql(f"insert into {table} ({columns}) select {columns} from {_VIEW}")  # noqa: S608

    def _merge(self, query: str, batch: int, deltas: pa.Table) -> None:
        """Bring the lists up to date that deltas are about."""
        assert self._apply is not None  # noqa: S101
        empty = self._apply(None, deltas.slice(0, 0))
        table = self._table("results", query, empty.schema, by_day=False)
        before = self._lists(table, deltas).select(empty.column_names).cast(empty.schema)
        after = self._apply(before, deltas)
        entry = ["subscription", "item"]
        gone = before.join(after.select(entry), entry, join_type="left anti").select(before.column_names)
        rows = pa.concat_tables(
            [
                each.append_column(_GONE, pa.repeat(is_gone, each.num_rows))
                for each, is_gone in ((after, False), (gone, True))
            ]
        )
        names = empty.column_names
        values = [name for name in names if name not in ("subscription", "item")]
        sets = ", ".join(f"{name} = s.{name}" for name in values)
        update = f"when matched then update set {sets} " if sets else ""
        with self._once(query, batch):
            self._viewed(rows)
            same = "t.subscription = s.subscription and t.item = s.item"
            self._spark.sql(
                f"merge into {table} t using {_VIEW} s on {same} "  # noqa: S608
                f"when matched and s.{_GONE} then delete {update}"
                f"when not matched and not s.{_GONE} then insert ({', '.join(names)}) "
                f"values ({', '.join(f's.{name}' for name in names)})"
            )

    def _lists(self, table: str, deltas: pa.Table) -> pa.Table:
        """The lists that some deltas are about, as they are."""
        self._viewed(pa.table({"subscription": pc.unique(deltas["subscription"])}))
        found = self._spark.sql(f"select * from {table} left semi join {_VIEW} using (subscription)")  # noqa: S608
        order = [("subscription", "ascending")]
        rows: pa.Table = found.toArrow()
        return rows.sort_by([*order, *([("rank", "ascending")] if "rank" in rows.column_names else [])])

    def _viewed(self, rows: pa.Table) -> None:
        self._spark.createDataFrame(rows.combine_chunks()).createOrReplaceTempView(_VIEW)

    @contextmanager
    def _once(self, query: str, batch: int) -> Iterator[None]:
        """What is written inside changes a table only if this micro-batch has not changed it before."""
        self._spark.conf.set(_APP, query)
        self._spark.conf.set(_VERSION, str(batch))
        try:
            yield
        finally:
            self._spark.conf.unset(_APP)
            self._spark.conf.unset(_VERSION)

    def _table(self, name: str, query: str, form: pa.Schema, *, by_day: bool) -> str:
        """A table as SQL names it; it is made if it is not there, and must be this query's."""
        table = f"{FORMAT}.{quoted(f'{self._place}/{name}')}"
        if name not in self._known:
            columns = ", ".join(f"{quoted(each.name)} {_TYPES[each.type]}" for each in form)
            parted = f"partitioned by ({DAY}) " if by_day else ""
            made = f"create table if not exists {table} ({columns}) using {FORMAT} {parted}"
            self._spark.sql(f"{made}tblproperties ({literal(_QUERY)} = {literal(query)})")
            rows = self._spark.sql(f"show tblproperties {table}").collect()
            self._check(name, query, {row["key"]: row["value"] for row in rows})
            self._known.add(name)
        return table

    def _check(self, name: str, query: str, properties: Mapping[str, str]) -> None:
        owner = properties.get(_QUERY)
        if owner != query:
            whose = "the results of another checkpoint" if owner else "a table that no pipeline has made"
            raise ShardError(
                f"{self._place}/{name} has {whose}",
                detail="What is told would be added to rows that it does not belong to.",
                hint="Give the pipeline the checkpoint it began with, or name another folder.",
            )


def _first(rows: pa.Table, number: pa.Array) -> pa.Table:
    """Rows with their day and the number of their micro-batch in front."""
    batch = pa.array(number.to_pylist() * rows.num_rows, pa.int64())
    others = [name for name in rows.column_names if name != DAY]
    days = rows[DAY]
    return rows.select(others).add_column(0, "batch", batch).add_column(0, DAY, days)
