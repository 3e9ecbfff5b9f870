"""Where deltas go: a format of Spark's, the file of current results, or a function that shows them.

The current results of every subscription are one Parquet file, which is replaced as a whole: a micro-batch's
deltas are applied to the file before, and the new file takes its place in one step. Whoever reads it sees the
results after some micro-batch, whole. The file says after which one, and of which query, so that a
micro-batch that comes again after a crash is not applied twice.

Columns are `subscription, rank, item, score`; of engines whose scores and ranks change without a delta,
`subscription, item`. Refused rows go to files of their own beside it, one a micro-batch, in `<name>.refused`.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankcast.core import snapshot
from rankcast.errors import InputError, ShardError
from rankcast.pipeline.config import Config
from rankcast.pipeline.toml_reader import local
from rankcast.spark.applying import REFUSED
from rankcast.state.depot import Depot
from rankcast.tables.schema import Ints

_MARK = b"rankcast"


class Results:
    """The results in a file.

    Args:
        place: the file, a path or a URI.
        ranked: whether ranks and scores are kept.
    """

    def __init__(self, place: str, *, ranked: bool) -> None:
        folder, _, self._name = place.rpartition("/")
        self._place = place
        self._local = local(folder or "/")
        self._depot = Depot.open(folder or "/")
        self._ranked = ranked
        self._query: str | None = None
        self._batch = -1
        self.table: pa.Table | None = None
        there = self._read()
        if there is not None:
            self._take_up(there)

    def _read(self) -> bytes | None:
        """The file as it is now, None if it is not there."""
        if self._local is None:
            return self._depot.get(self._name) if self._depot.exists(self._name) else None
        path = self._local / self._name
        return path.read_bytes() if path.is_file() else None

    def _take_up(self, data: bytes) -> None:
        try:
            table = pq.read_table(pa.BufferReader(data))
        except pa.ArrowException:
            table = pa.table({})
        mark = json.loads((table.schema.metadata or {}).get(_MARK, b"{}"))
        if "query" not in mark:
            raise ShardError(
                f"{self._place} is there and no table of results", hint="Name another file, or remove it."
            )
        self._query, self._batch = mark["query"], int(mark["batch"])
        self.table = table.replace_schema_metadata(None)

    def check(self, query: str) -> None:
        """Refuse a file that another query has written."""
        if self._query is not None and self._query != query:
            raise ShardError(
                f"{self._place} has the results of another checkpoint",
                detail="Its deltas would be applied to results that they do not belong to.",
                hint="Give the pipeline the checkpoint it began with, or name another file.",
            )

    def apply(self, query: str, batch: int, told: pa.Table) -> bool:
        """Apply what a micro-batch has told; whether it was new."""
        self.check(query)
        if batch <= self._batch:
            return False
        refused = pc.equal(told["op"], REFUSED)
        aside = told.filter(refused)
        if aside.num_rows:
            self._write(f"{self._name}.refused/{batch:09d}.parquet", aside)
        self.table = applied(self.table, told.filter(pc.invert(refused)), ranked=self._ranked)
        mark = {_MARK: json.dumps({"query": query, "batch": batch})}
        self._write(self._name, self.table.replace_schema_metadata(mark))
        self._query, self._batch = query, batch
        return True

    def put(self, query: str, told: pa.Table) -> None:
        """Let the file hold what a whole history has told, whatever it held before of the same."""
        self._batch, self.table = -1, None
        self.apply(query, 0, told)

    def _write(self, name: str, table: pa.Table) -> None:
        """Put a whole file in its place, in one step."""
        sink = pa.BufferOutputStream()
        pq.write_table(table, sink, compression="zstd")
        data = memoryview(sink.getvalue())
        if self._local is None:
            self._depot.put(name, data)  # an object store shows a file once it is whole
            return
        path = self._local / name
        snapshot.make_directory(path.parent)
        fresh = path.with_name(f"_{path.name}.{os.getpid()}")
        snapshot.write_file(fresh, data)
        Path(fresh).replace(path)
        snapshot.sync_directory(path.parent)


def applied(before: pa.Table | None, deltas: pa.Table, *, ranked: bool) -> pa.Table:
    """The results after some deltas, by subscription and rank.

    Entries that a delta names go; entering and updated ones take the ranks that the deltas give; all others
    keep their order and fill the ranks between. Cost: O(n log n) in the entries.
    """
    columns = ["subscription", "rank", "item", "score"]
    if before is None:
        before = deltas.schema.empty_table()
    before = before if ranked else _with_nulls(before, deltas.schema)
    before = before.select(columns).cast(deltas.select(columns).schema)
    both = pa.concat_tables([before, deltas.select(columns)]).combine_chunks()
    owner, pair = _codes(both)
    size = before.num_rows
    stays = ~np.isin(pair[:size], pair[size:])
    enters = pc.not_equal(deltas["op"], "leave").to_numpy()
    kept, fresh = before.filter(pa.array(stays)), deltas.select(columns).filter(pa.array(enters))
    if ranked:
        rank = pa.array(_ranks(owner[:size][stays], owner[size:][enters], fresh["rank"].to_numpy()))
        kept = kept.set_column(1, "rank", rank)
    joined = pa.concat_tables([kept, fresh])
    order = [("subscription", "ascending"), ("rank" if ranked else "item", "ascending")]
    joined = joined.sort_by(order)
    return joined if ranked else joined.select(["subscription", "item"])


def _with_nulls(table: pa.Table, form: pa.Schema) -> pa.Table:
    """Results without ranks and scores, with nulls for them."""
    for name in ("rank", "score"):
        if name not in table.column_names:
            table = table.append_column(name, pa.nulls(table.num_rows, form.field(name).type))
    return table


def _codes(table: pa.Table) -> tuple[Ints, Ints]:
    """A number for each subscription, and one for each subscription and item."""
    owner, item = (
        table[name].combine_chunks().dictionary_encode().indices.to_numpy().astype(np.int64)
        for name in ("subscription", "item")
    )
    return owner, owner << 32 | item


def _ranks(kept: Ints, fresh: Ints, given: Ints) -> Ints:
    """The ranks of entries that stay, in order by subscription, between ranks that are given to others.

    The j-th entry that stays has behind it every given rank r, the i-th of its subscription, with r - i < j.
    """
    order = np.lexsort((given, fresh))
    fresh, given = fresh[order], given[order]
    free_before = given - _counted(fresh)
    place = _counted(kept)
    width = np.int64(max(int(given.max(initial=0)), int(place.max(initial=0))) + 2)
    before = np.searchsorted(fresh * width + free_before, kept * width + place, side="left")
    ranks: Ints = place + before - np.searchsorted(fresh, kept, side="left")
    return ranks


def _counted(groups: Ints) -> Ints:
    """1, 2, ... within each group; groups stand together."""
    size = groups.size
    starts = np.flatnonzero(np.r_[True, groups[1:] != groups[:-1]]) if size else np.empty(0, np.int64)
    lengths = np.diff(np.r_[starts, size])
    return np.arange(size) - np.repeat(starts, lengths) + 1


Tell = Callable[[int, pa.Table], None]
COLLECTED = ("results", "console")
_JSON = ("cast({} as string) as key", "to_json(struct(*)) as value")


class Collecting:
    """Takes the rows of every micro-batch to the driver: into the results, and to whoever listens.

    Spark calls it with a micro-batch, and again with the same one after a crash. The rows are had in one
    action: a second one would run all shards again.
    """

    def __init__(self, results: Results | None, tell: Tell | None) -> None:
        self._results = results
        self._tell = tell
        self.query: Callable[[], str] = str

    def __call__(self, frame: Any, number: int) -> None:
        """Take one micro-batch."""
        told = frame.toArrow()
        new = self._results is None or self._results.apply(self.query(), number, told)
        if new and self._tell is not None:
            self._tell(number, told)


def results_of(config: Config) -> Results | None:
    """The results that a pipeline keeps, if it does."""
    if config.sink.format != "results":
        return None
    return Results(str(config.sink.path), ranked=is_ranked(config))


def is_ranked(config: Config) -> bool:
    """Whether deltas tell all scores and ranks; those of moving queries change without a delta."""
    return not config.engine.scores_move


def collecting(config: Config, tell: Tell | None) -> Collecting | None:
    """What takes the rows to the driver, for sinks that are there."""
    if config.sink.format in COLLECTED:
        return Collecting(results_of(config), tell)
    if tell is not None:
        raise InputError(
            f"the rows of a pipeline into {config.sink.format} do not come by here",
            expected=f"a sink that is one of: {', '.join(COLLECTED)}",
        )
    return None


def written(config: Config, frame: Any, collecting: Collecting | None) -> Any:
    """The stream's writer."""
    if collecting is not None:
        return frame.writeStream.foreachBatch(collecting)
    sink = config.sink
    writer = shaped(config, frame).writeStream.format(sink.format).options(**sink.options)
    return writer if sink.path is None else writer.option("path", sink.path)


def shaped(config: Config, frame: Any) -> Any:
    """The rows as the sink takes them: a queue takes a key, the subscription, and a value, JSON."""
    if config.sink.format != "kafka":
        return frame
    return frame.selectExpr(*(each.format("subscription") for each in _JSON))
