"""Batch jobs: an engine over a whole history, and counts over tables too large for one process.

`snapshot` runs an engine over a history; `uncovered` finds the boxes that nothing contains; `boundaries`
shows where the zones of shards lie, and how many subscriptions each has.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812

import rankcast
from rankcast.core.engine import Engine
from rankcast.core.spec import divided_spec, known_types, name_of, no_axes
from rankcast.errors import InputError, ShardError
from rankcast.spark import applying, bootstrap, inputs, plan, sessions, streams
from rankcast.spark.bootstrap import ANSWER_FILE, Making
from rankcast.spark.packing import point_column, shard_ids
from rankcast.spark.plan import Split, zone_of
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

    The history is one batch: the output is the result of every subscription as `enter` rows (matching:
    all matches), and refused rows.

    With `state`, a stream can continue from here: `continuous` with that state starts with these results,
    does not repeat them, and skips rows with a `seq` up to the highest of this history. So the history must
    be complete up to there. The job then runs immediately, and the DataFrame reads its output.

    Args:
        engine: configured and empty.
        events: a static DataFrame with the engine's columns and `seq`.
        subscriptions: a table; or commands, with the columns `op` and `seq`. Only commands can continue as a
            stream of commands.
        state: an absolute URI that the driver and every executor can reach, with no stream in it yet.
        objects: for moving engines, as `subscriptions`.
        seq: the column that orders rows.
        shards: the number of shards; by default one per core.
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
    size = streams.how_many(type(engine).spec, shards, spark)
    partitions = sessions.partitions(spark)
    wanted = streams.draft(engine, given, score, shard_ids(size, partitions), told=True)
    if given["subscriptions"].seq is None:
        zones = bootstrap.zones_of(wanted.kind, wanted.settings, given["subscriptions"], size)
        wanted = replace(wanted, zones=zones)
    columns = applying.columns(type(engine).spec, wanted.ids, wanted.settings)
    form = ", ".join(f"{name} {kind}" for name, kind in columns.items())
    if state is None:
        making = Making(wanted.to_json(), engine.state(), strict)
        return bootstrap.made_of(bootstrap.packed_of(given.values(), wanted, partitions), making, form)
    uri = os.fspath(state)
    depot = Depot.open(uri)
    if plan.read(depot) is not None:
        raise ShardError(f"{uri} has a stream already", hint="Begin with a new state.")
    wanted, folder = streams.begin(wanted, engine, depot)
    made = bootstrap.make(given.values(), wanted, engine, uri, folder, strict=strict, partitions=partitions)
    lasting = [each for each in given.values() if each.input.lasting]
    passing = len(lasting) < len(given) and all(each.seq is None for each in lasting)
    plan.write(depot, streams.without_shards(made) if passing else made)
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

    Every partition finds its own maxima, and one task the maxima of those. Cost: that of `rankcast.maxima`,
    on each partition and on what remains.
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


Box = dict[int, tuple[float, float]]


def boundaries(engine: Engine, subscriptions: Any, *, shards: int) -> pa.Table:
    """How `continuous` would divide a table of subscriptions over so many shards, and how evenly.

    Zones of about equal size are learnt from a sample, the same for the same rows; then all rows are counted.
    Returns one row per shard: `zone`, for each coordinate that zones are cut along (`x` and `y` of a
    geo-text subscription, `<over>_lo` and `<over>_hi` of a range) `<coordinate>_from` and
    `<coordinate>_below` (null: no bound), and `subscriptions`, their number there.

    Raises:
        InputError: the engine's subscriptions have no places: they are divided by a hash of their ids.
    """
    size = schema.whole("shards", shards)
    spec = divided_spec(type(engine))
    given = inputs.read(spec.input("subscriptions"), subscriptions, seq="", ordered=False)
    settings = engine.state()[0]["settings"]
    axes = spec.axes(settings)
    if not axes:
        raise InputError(
            f"{type(engine).__name__} divides subscriptions by a hash of their ids",
            expected=" or ".join(each.__name__ for each in known_types() if each.spec.axes is not no_axes),
        )
    split = bootstrap.zones_of(name_of(type(engine)), settings, given, size)
    counting = Counting(axes, 0 if split is None else split)
    counted = subscriptions.mapInArrow(counting, "zone int, subscriptions long").groupBy("zone")
    found = counted.agg(F.sum("subscriptions").alias("subscriptions")).toArrow().to_pylist()
    counts = {row["zone"]: row["subscriptions"] for row in found}
    rows = [_row(zone, box, axes, counts) for zone, box in sorted(_boxes(counting.split, {}))]
    return pa.Table.from_pylist(rows, schema=_schema(axes))


@dataclass(frozen=True)
class Counting:
    """Counts the rows of a partition by zone."""

    axes: tuple[tuple[str, float], ...]
    split: Split

    def __call__(self, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """One row for each batch and zone."""
        for part in parts:
            rows = pa.Table.from_batches([part])
            points = np.column_stack([point_column(rows, name, missing) for name, missing in self.axes])
            zones, counts = np.unique(zone_of(self.split, points), return_counts=True)
            columns = [pa.array(zones, pa.int32()), pa.array(counts, pa.int64())]
            yield pa.RecordBatch.from_arrays(columns, names=["zone", "subscriptions"])


def _boxes(split: Split, box: Box) -> Iterator[tuple[int, Box]]:
    """Every zone of a split with its bounds by axis."""
    if isinstance(split, int):
        yield split, box
        return
    axis, border, below, above = split
    low, high = box.get(axis, (-np.inf, np.inf))
    yield from _boxes(below, {**box, axis: (low, min(border, high))})
    yield from _boxes(above, {**box, axis: (max(border, low), high)})


def _row(zone: int, box: Box, axes: tuple[tuple[str, float], ...], counts: dict[int, int]) -> dict[str, Any]:
    row: dict[str, Any] = {"zone": zone}
    for axis, (name, _) in enumerate(axes):
        low, high = box.get(axis, (-np.inf, np.inf))
        row |= {
            f"{name}_from": low if low > -np.inf else None,
            f"{name}_below": high if high < np.inf else None,
        }
    return {**row, "subscriptions": counts.get(zone, 0)}


def _schema(axes: tuple[tuple[str, float], ...]) -> pa.Schema:
    ends = [(f"{name}_{end}", pa.float64()) for name, _ in axes for end in ("from", "below")]
    return pa.schema([("zone", pa.int32()), *ends, ("subscriptions", pa.int64())])


TERM, DOCUMENTS, REFUSED = 0, 1, 2
