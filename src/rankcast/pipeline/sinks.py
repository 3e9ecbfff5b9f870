"""Where deltas go: one of Spark's formats, the file of current results, tables, the service, a live view.

The current results of every subscription are one Parquet file, which is replaced as a whole: a micro-batch's
deltas are applied to the previous file, and the new file replaces it in one step. A reader always sees the
results after a whole micro-batch. The file names its micro-batch and query, so that a
micro-batch that is repeated after a crash is not applied twice.

Columns are `subscription, rank, item, score`; for engines whose scores and ranks change without a delta,
`subscription, item`. Refused rows go to separate files, one per micro-batch, in `<name>.refused`.

An external stream of the service takes each micro-batch by its number, with the id of the query as its
source: after a crash of Spark or of the service, a repeated one is recognised there and changes nothing. A
micro-batch of very many deltas goes in several parts, cut between subscriptions, so that every list is
complete after each of them.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from rankcast.core import snapshot
from rankcast.errors import InputError, ServiceError, ShardError
from rankcast.pipeline import tables
from rankcast.pipeline.config import QUEUE, Config, Sink
from rankcast.pipeline.toml_reader import PipelineError, local, veiled
from rankcast.spark.applying import REFUSED
from rankcast.state.depot import Depot
from rankcast.tables.schema import Ints

_MARK = b"rankcast"
_LOG = logging.getLogger(__name__)
PART = 100_000  # deltas that are pushed together, unless one list has more


class Folder:
    """Parquet files of a folder, each complete or absent."""

    def __init__(self, place: str) -> None:
        self._local = local(place)
        self._depot = Depot.open(place)

    def read(self, name: str) -> bytes | None:
        """The current file, None if there is none."""
        if self._local is None:
            return self._depot.get(name) if self._depot.exists(name) else None
        path = self._local / name
        return path.read_bytes() if path.is_file() else None

    def write(self, name: str, table: pa.Table) -> None:
        """Replace a whole file in one step."""
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


class Results:
    """The results in a file.

    Args:
        place: the file, a path or a URI.
        ranked: whether to keep ranks and scores.
    """

    def __init__(self, place: str, *, ranked: bool) -> None:
        folder, _, self._name = place.rpartition("/")
        self._place = place
        self._folder = Folder(folder or "/")
        self._ranked = ranked
        self._query: str | None = None
        self._batch = -1
        self.table: pa.Table | None = None
        there = self._folder.read(self._name)
        if there is not None:
            self._take_up(there)

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
        """Apply the deltas of a micro-batch; returns whether it was new."""
        self.check(query)
        if batch <= self._batch:
            return False
        deltas, aside = parted(told)
        if aside.num_rows:
            self._folder.write(f"{self._name}.refused/{batch:09d}.parquet", aside)
        self.table = applied(self.table, deltas, ranked=self._ranked)
        mark = {_MARK: json.dumps({"query": query, "batch": batch})}
        self._folder.write(self._name, self.table.replace_schema_metadata(mark))
        self._query, self._batch = query, batch
        return True

    def put(self, query: str, told: pa.Table) -> None:
        """Write the results of a whole history, whatever the file held before."""
        self._batch, self.table = -1, None
        self.apply(query, 0, told)


def parted(told: pa.Table) -> tuple[pa.Table, pa.Table]:
    """Deltas, and refused rows."""
    refused = pc.equal(told["op"], REFUSED)
    return told.filter(pc.invert(refused)), told.filter(refused)


def applied(before: pa.Table | None, deltas: pa.Table, *, ranked: bool) -> pa.Table:
    """The results after some deltas, by subscription and rank.

    Entries that a delta names are removed; entering and updated ones take the ranks that the deltas give; all
    others keep their order and fill the ranks between. Cost: O(n log n) in the entries.
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


class Served:
    """An external stream of the service that receives the micro-batches."""

    def __init__(self, sink: Sink) -> None:
        from rankcast.client.clients import Client  # noqa: PLC0415  # needs httpx

        self._sink = sink
        self._client = Client
        self._refused = None if sink.path is None else Folder(sink.path)

    def apply(self, query: str, batch: int, told: pa.Table) -> bool:
        """Push the deltas of a micro-batch; returns true: only the service knows whether it is new."""
        deltas, aside = parted(told)
        if aside.num_rows and self._refused is not None:
            self._refused.write(f"{batch:09d}.parquet", aside)
        elif aside.num_rows:
            _LOG.warning(
                "micro-batch %d: %d rows were refused; [sink] path keeps them", batch, aside.num_rows
            )
        deltas = deltas.select(["subscription", "op", "item", "score", "rank"])
        sink, stream = self._sink, str(self._sink.stream)
        with self._client(str(sink.url), token=sink.token, retry_for=sink.retry_for) as client:
            try:
                for part, rows in enumerate(parts(deltas)):
                    client.push(stream, batch, rows, source=query, part=part)
            except ServiceError as error:
                raise self._stopped(batch, error) from error
        return True

    def _stopped(self, batch: int, error: ServiceError) -> PipelineError:
        """What a refusal means here, in one line."""
        sink = self._sink
        what = f"{sink.url} does not take micro-batch {batch} into {sink.stream}: {error.what}"
        more = " ".join(part for part in (error.detail, error.hint) if part)
        return PipelineError(veiled(f"{what}. {more}".replace("\n", " "), {str(sink.token): "the token"}))


def parts(deltas: pa.Table, size: int = PART) -> Iterator[pa.Table]:
    """Deltas in parts of about `size` rows, those of a subscription in one; none if there are none."""
    if deltas.num_rows <= size:
        if deltas.num_rows:
            yield deltas
        return
    deltas = deltas.take(pc.sort_indices(deltas["subscription"])).combine_chunks()
    owner = deltas["subscription"].combine_chunks().dictionary_encode().indices.to_numpy()
    ends = np.r_[np.flatnonzero(np.diff(owner)) + 1, owner.size]
    start = 0
    while start < owner.size:
        within = ends[(ends > start) & (ends <= start + size)]
        end = int(within[-1] if within.size else ends[np.searchsorted(ends, start, side="right")])
        yield deltas.slice(start, end - start)
        start = end


class Target(Protocol):
    """Takes the rows of micro-batches on the driver: `Results`, `Served`, `tables.Tables`."""

    def apply(self, query: str, batch: int, told: pa.Table) -> bool:
        """Take the rows of one micro-batch, once; returns whether it was new."""


Tell = Callable[[int, pa.Table], None]
COLLECTED = ("results", "console", "serve", tables.FORMAT)


class Collecting:
    """Brings the rows of every micro-batch to the driver: to their target and to listeners.

    Spark calls it with a micro-batch, and again with the same one after a crash. The rows are fetched in one
    action: a second one would run all shards again.
    """

    def __init__(self, target: Target | None, tell: Tell | None) -> None:
        self.target = target
        self._tell = tell
        self.query: Callable[[], str] = str
        self.session: Any = None

    def __call__(self, frame: Any, number: int) -> None:
        """Take one micro-batch."""
        told = frame.toArrow()
        new = self.target is None or self.target.apply(self.query(), number, told)
        if new and self._tell is not None:
            self._tell(number, told)


def target_of(config: Config, session: Callable[[], Any]) -> Target | None:
    """The target of a pipeline's rows on the driver, if there is one."""
    if config.sink.format == tables.FORMAT:
        keeps = config.engine.spec.answer.kind == "deltas"
        lists = partial(applied, ranked=is_ranked(config)) if keeps else None
        return tables.Tables(str(config.sink.path), session, lists)
    if config.sink.format == "serve":
        return Served(config.sink)
    if config.sink.format == "results":
        return Results(str(config.sink.path), ranked=is_ranked(config))
    return None


def is_ranked(config: Config) -> bool:
    """Whether deltas report all scores and ranks; those of moving queries change without a delta."""
    return not config.engine.scores_move


def collecting(config: Config, tell: Tell | None) -> Collecting | None:
    """What takes the rows to the driver, for sinks that are there."""
    if config.sink.format in COLLECTED:
        made = Collecting(None, tell)
        made.target = target_of(config, lambda: made.session)
        return made
    if tell is not None:
        raise InputError(
            f"the rows of a pipeline into {config.sink.format} do not come by here",
            expected=f"a sink that is one of: {', '.join(COLLECTED)}",
        )
    return None


def written(config: Config, frame: Any, collecting: Collecting | None) -> Any:
    """The stream's writer."""
    if collecting is not None:
        collecting.session = frame.sparkSession
        told = tables.dated(frame) if config.sink.format == tables.FORMAT else frame
        return told.writeStream.foreachBatch(collecting)
    sink = config.sink
    writer = shaped(config, frame).writeStream.format(sink.format).options(**options_of(sink))
    return writer if sink.path is None else writer.option("path", sink.path)


def options_of(sink: Sink) -> dict[str, str]:
    """The options for Spark, without a queue's topic, which would override that of each message."""
    return {key: text for key, text in sink.options.items() if sink.format != QUEUE or key.lower() != "topic"}


def shaped(config: Config, frame: Any) -> Any:
    """The rows in the form of the sink: a queue takes messages."""
    sink = config.sink
    if sink.format != QUEUE:
        return frame
    from rankcast.spark import kafka  # noqa: PLC0415

    topic = next(value for key, value in sink.options.items() if key.lower() == "topic")
    return kafka.messages(frame, topic, refused=sink.refused, values=sink.values)
