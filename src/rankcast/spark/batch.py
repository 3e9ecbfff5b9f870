"""Batch jobs: `snapshot`, an engine over a whole history; `uncovered`, the boxes that nothing contains."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import rankcast
from rankcast.core.engine import Engine
from rankcast.errors import InputError, ShardError
from rankcast.spark import applying, bootstrap, plan, sessions, streams
from rankcast.spark.bootstrap import ANSWER_FILE, Making
from rankcast.spark.packing import shard_ids
from rankcast.state import batches
from rankcast.state.depot import Depot
from rankcast.tables import schema


def snapshot(
    engine: Engine,
    events: Any,
    subscriptions: Any,
    *,
    state: str | os.PathLike[str] | None = None,
    objects: Any = None,
    seq: str = "seq",
    shards: int | None = None,
    bad_rows: str = "keep",
    score: str | None = None,
) -> Any:
    """Run an engine over a whole history; returns a DataFrame like that of `continuous`, as of its end.

    The history is one batch: what comes out is the result of every subscription as `enter` rows (matching:
    all matches), and refused rows.

    With `state`, a stream can go on from here: `continuous` with that state begins with these results, which
    it does not tell again, and leaves out rows with a `seq` up to the highest of this history. So the history
    must be whole up to there. The job then runs when this is called, and the DataFrame reads what it left.

    Args:
        engine: configured and empty.
        events: a static DataFrame with the engine's columns and `seq`.
        subscriptions: a table; or commands, with the columns `op` and `seq`. Only commands can go on as a
            stream of commands.
        state: an absolute URI that the driver and every executor can reach, with no stream in it yet.
        objects: for moving engines, as `subscriptions`.
        seq: the column that orders rows.
        shards: how many; by default one a core.
        bad_rows: "keep" or "fail", as for `continuous`.
        score: as for `continuous`.
    """
    strict = schema.one_of("bad_rows", bad_rows, streams.BAD_ROWS) == "fail"
    frames = {"events": events, "subscriptions": subscriptions, "objects": objects}
    given = streams.read_inputs(engine, frames, seq, history=True)
    for name, each in given.items():
        if each.frame.isStreaming:
            raise InputError("is a stream", where=name, expected="a static DataFrame", hint="Use continuous.")
    spark = events.sparkSession
    size = schema.whole("shards", shards) if shards is not None else sessions.cores(spark)
    partitions = sessions.partitions(spark)
    wanted = streams.draft(engine, given, score, shard_ids(size, partitions), told=True)
    if given["subscriptions"].seq is None:
        zones = bootstrap.zones_of(wanted.kind, wanted.settings, given["subscriptions"], size)
        wanted = replace(wanted, zones=zones)
    form = ", ".join(
        f"{name} {kind}" for name, kind in applying.columns(type(engine).spec, wanted.ids).items()
    )
    if state is None:
        making = Making(wanted.to_json(), engine.state(), strict)
        return bootstrap.made_of(bootstrap.packed_of(given.values(), wanted, partitions), making, form)
    uri = os.fspath(state)
    depot = Depot.open(uri)
    if plan.read(depot) is not None:
        raise ShardError(f"{uri} has a stream already", hint="Begin with a new state.")
    wanted, folder = streams.begin(wanted, engine, depot)
    made = bootstrap.make(given.values(), wanted, engine, uri, folder, strict=strict, partitions=partitions)
    plan.write(depot, made)
    names = spark.createDataFrame([(name,) for name in made.initial.values()], "name string")
    return names.repartition(size).mapInArrow(SavedAnswers(uri), form)


@dataclass(frozen=True)
class SavedAnswers:
    """Reads the answers that shards left when they were made."""

    state: str

    def __call__(self, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The answers of the shards named."""
        depot = Depot.open(self.state)
        for part in parts:
            for name in part["name"].to_pylist():
                if depot.exists(f"{name}/{ANSWER_FILE}"):
                    yield from batches.from_bytes(depot.get(f"{name}/{ANSWER_FILE}")).to_batches(50_000)


def uncovered(subscriptions: Any, *, over: Sequence[str]) -> Any:
    """The boxes that no other box contains, with all their columns.

    Boxes are `id` and, for each attribute of `over`, `<attribute>_lo` and `<attribute>_hi` (null or absent:
    unbounded). Of equal boxes the one with the smallest id stays. Ids are unique.

    Every partition finds its own maxima, and one task the maxima of those. Cost: as `rankcast.maxima`, on
    each partition and on what they leave.
    """
    names = schema.attributes("over", over)
    wanted = {"id", *(f"{name}_{end}" for name in names for end in ("lo", "hi"))}
    if "id" not in subscriptions.columns:
        raise InputError("is missing", where="subscriptions", column="id", expected="an integer or a string")
    largest = Largest(tuple(names), tuple(name for name in subscriptions.columns if name in wanted))
    local = subscriptions.mapInArrow(largest, subscriptions.schema)
    return local.repartition(1).mapInArrow(largest, subscriptions.schema)


@dataclass(frozen=True)
class Largest:
    """The boxes of one partition that no other box of it contains."""

    over: tuple[str, ...]
    columns: tuple[str, ...]

    def __call__(self, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The maximal ones of all boxes of the partition, by id."""
        found = [part for part in parts if part.num_rows]
        if not found:
            return
        rows = pa.Table.from_batches(found).sort_by([("id", "ascending")])
        best = rankcast.maxima(rows.select(list(self.columns)), over=list(self.over))
        yield from rows.filter(pc.is_in(rows["id"], value_set=best["id"].combine_chunks())).to_batches()
