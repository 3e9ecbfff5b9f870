"""Batch jobs: an engine over a whole history, and counts over tables that one process should not hold.

`snapshot` is an engine over a history; `uncovered` the boxes that nothing contains; `boundaries` where the
zones of shards lie, and how many subscriptions each has. For geo-text, `fit` is behind
`Vocabulary.fit_spark`. The cost model [Geo §6.2] weighs a buffer's upkeep against searching anew by prob(t),
the chance that a message scores at least t for a subscription: `score_distribution` counts it over a history,
`thresholds` minimises the expected cost of an update over it.
"""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, StringType

import rankcast
from rankcast.core.engine import Engine
from rankcast.core.spec import divided_spec, known_types, name_of, no_axes
from rankcast.errors import InputError, ShardError
from rankcast.geotext.engine import GeoTextTopK
from rankcast.geotext.kernels import skyband
from rankcast.geotext.vocabulary import Vocabulary
from rankcast.spark import applying, bootstrap, inputs, plan, sessions, streams
from rankcast.spark.bootstrap import ANSWER_FILE, Making
from rankcast.spark.packing import point_column, shard_ids
from rankcast.spark.plan import Split, zone_of
from rankcast.state import batches
from rankcast.state.depot import Depot
from rankcast.tables import read, schema
from rankcast.tables.schema import Ints, arrow


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


Box = dict[int, tuple[float, float]]


def boundaries(engine: Engine, subscriptions: Any, *, shards: int) -> pa.Table:
    """How `continuous` would divide a table of subscriptions over so many shards, and how evenly.

    Zones of about equal size are learnt from a sample, the same for the same rows; then all rows are counted.
    Returns one row a shard: `zone`, for each coordinate that zones are cut along (`x` and `y` of a
    geo-text subscription, `<over>_lo` and `<over>_hi` of a range) `<coordinate>_from` and
    `<coordinate>_below` (null: no bound), and `subscriptions`, how many lie there.

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
_TERMS_FORM = "kind int, term string, documents long"
_TERMS_SCHEMA = pa.schema([("kind", pa.int32()), ("term", pa.string()), ("documents", pa.int64())])


def fit(frame: Any, column: str = "terms") -> Vocabulary:
    """Count in how many rows of a static DataFrame each term of a column is.

    Every partition counts its own rows; what comes to the driver is one row a distinct term. The vocabulary
    is that of `Vocabulary.fit` over the collected rows, to the last bit.

    Raises:
        InputError: the column is missing or holds something else than lists of strings.
    """
    expected = "a list of strings"
    if column not in frame.columns:
        raise InputError("is missing", where="documents", column=column, expected=expected)
    found = frame.schema[column].dataType
    if not isinstance(found, ArrayType) or not isinstance(found.elementType, StringType):
        told = f"has the type {found.simpleString()}"
        raise InputError(told, where="documents", column=column, expected=expected)
    terms = frame.select(F.col(f"`{column}`").alias("terms"))
    sums = (
        terms.mapInArrow(_count, _TERMS_FORM)
        .groupBy("kind", "term")
        .agg(F.sum("documents").alias("documents"))
    )
    rows = sums.toArrow()
    refused = rows.filter(pc.equal(rows["kind"], REFUSED))
    if refused.num_rows:
        raise InputError(refused["term"][0].as_py(), where="documents", column=column, expected=expected)
    documents = pc.sum(rows.filter(pc.equal(rows["kind"], DOCUMENTS))["documents"]).as_py() or 0
    words = rows.filter(pc.equal(rows["kind"], TERM)).sort_by([("term", "ascending")]).combine_chunks()
    ids = read.read_ids(words["term"].cast(pa.large_string()), where="terms")
    return Vocabulary.of(ids, words["documents"].to_numpy().astype(np.int64), documents)


def _count(parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The terms of one partition with their document frequencies, and how many documents it has."""
    documents, counted = 0, []
    for part in parts:
        try:
            fitted = Vocabulary.fit(pa.Table.from_batches([part]))
        except InputError:
            told = "is null" if part.column(0).null_count else "holds a null"
            yield _rows(REFUSED, pa.array([told]), pa.array([1]))
            return
        documents += fitted.documents
        counted.append(pa.table({"term": arrow(fitted.words), "documents": fitted.frequency}))
    if counted:
        summed = pa.concat_tables(counted, promote_options="permissive").group_by("term")
        mine = summed.aggregate([("documents", "sum")]).combine_chunks()
        for part in mine.to_batches():
            yield _rows(TERM, part["term"].cast(pa.string()), part["documents_sum"])
    yield _rows(DOCUMENTS, pa.nulls(1, pa.string()), pa.array([documents]))


def _rows(kind: int, terms: pa.Array, documents: pa.Array) -> pa.RecordBatch:
    kinds = pa.array(np.full(len(terms), kind, np.int32))
    return pa.RecordBatch.from_arrays([kinds, terms, documents.cast(pa.int64())], schema=_TERMS_SCHEMA)


_FORM = "cell long, messages long, reason string"
_SCHEMA = pa.schema([("cell", pa.int64()), ("messages", pa.int64()), ("reason", pa.string())])
_ALL = -1  # the cell that counts messages, whatever they score
_PAIRS = 2_000_000  # scored at once


def score_distribution(messages: Any, subscriptions: Any, *, bins: int = 100, **engine: Any) -> pa.Table:
    """Count how many messages of a history score at least so much for each subscription.

    Returns `subscription, score, messages, probability`: `bins` rows a subscription, `score` rises from 0 in
    equal steps, `messages` have a common term and score at least that, `probability` is their share of all.

    Every message is scored for every subscription, so give a sample of those: they are sent to all executors.
    Cost: O(m t / executors) for m subscriptions and t terms of messages.

    Args:
        messages: a static DataFrame with `x, y, terms`; other columns are left out.
        subscriptions: a static DataFrame with `id, x, y, terms` and, if there is one, `alpha`.
        bins: how many scores from 0 to 1.
        engine: the settings of `GeoTextTopK` that scores depend on: `bounds`, `metric`, `alpha`,
            `vocabulary`.
    """
    schema.whole("bins", bins)
    unknown = set(engine) - {"bounds", "metric", "alpha", "vocabulary"}
    if unknown:
        raise InputError.unknown(min(unknown), ["bounds", "metric", "alpha", "vocabulary"], where="engine")
    wanted = [name for name in ("x", "y", "terms", "alpha") if name in subscriptions.columns]
    rows = subscriptions.select("id", *wanted).orderBy("id").toArrow().combine_chunks()
    numbered = rows.set_column(0, "id", pa.array(np.arange(rows.num_rows)))
    GeoTextTopK(method="scan", refill="none", **engine).subscribe(numbered)
    counting = ScoreCounting(engine, batches.to_bytes(numbered), rows.num_rows, bins)
    told = messages.select("x", "y", "terms").mapInArrow(counting, _FORM)
    sums = told.groupBy("cell", "reason").agg(F.sum("messages").alias("messages")).toArrow()
    refused = sums["reason"].drop_null()
    if len(refused):
        raise InputError(refused[0].as_py())
    return _cumulated(sums, rows["id"], bins)


def thresholds(distribution: pa.Table, *, k: int, window: int, search: float) -> pa.Table:
    """The cheapest threshold of each subscription by the cost model [Geo §6.2, (16)].

    Returns `subscription, score, held, cost`: a buffer of the messages that score at least `score` is
    expected to hold `held` of a window, and an update to cost `cost`. Where fewer than k messages are
    expected at any score, all are held: `score` is 0 and `cost` null.

    Args:
        distribution: from `score_distribution`.
        k: how many messages a subscription wants.
        window: how many messages the window holds.
        search: what a search costs, in steps of a buffer's upkeep: about the messages it looks at.
    """
    rows = []
    ids, starts = distribution["subscription"], _starts(distribution["subscription"])
    score, share = distribution["score"].to_numpy(), distribution["probability"].to_numpy()
    for first, end in pairwise(starts.tolist()):
        held = share[first:end] * window
        prices = [skyband.cost(float(each), k, float(window), float(search)) for each in held if each >= k]
        best = int(np.argmin(prices)) if prices else 0
        price = prices[best] if prices else None
        rows.append((ids[first].as_py(), float(score[first + best]), float(held[best]), price))
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    forms = [ids.type, pa.float64(), pa.float64(), pa.float64()]
    arrays = [pa.array(values, form) for values, form in zip(columns, forms, strict=True)]
    return pa.table(arrays, names=["subscription", "score", "held", "cost"])


@dataclass(frozen=True)
class ScoreCounting:
    """Scores the messages of a partition for all subscriptions, by brute force.

    Attributes:
        engine: the settings that scores depend on.
        subscriptions: the subscriptions as Arrow IPC, numbered from 0.
        size: how many.
        bins: how many scores are told apart; cell `number * bins + bin` counts one of them.
    """

    engine: dict[str, Any]
    subscriptions: bytes
    size: int
    bins: int

    def __call__(self, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Counts by cell, the number of messages, or why they are refused."""
        interests = batches.from_bytes(self.subscriptions)
        counts, messages = np.zeros(self.size * self.bins, np.int64), 0
        step = max(1, _PAIRS // max(self.size, 1))
        for part in parts:
            for first in range(0, part.num_rows, step):
                try:
                    counts += self._score(interests, pa.Table.from_batches([part.slice(first, step)]))
                except InputError as error:
                    yield _told([_ALL], [0], [error.what])
                    return
            messages += part.num_rows
        cells = np.flatnonzero(counts)
        yield _told([_ALL, *cells.tolist()], [messages, *counts[cells].tolist()], None)

    def _score(self, interests: pa.Table, messages: pa.Table) -> Ints:
        size = messages.num_rows
        engine = GeoTextTopK(**self.engine, method="scan", refill="none", k=size, window=size)
        engine.publish(messages.append_column("id", pa.array(np.arange(size))))
        found = engine.subscribe(interests)
        place = np.clip((found["score"].to_numpy() * self.bins).astype(np.int64), 0, self.bins - 1)
        cells = found["subscription"].to_numpy() * self.bins + place
        return np.bincount(cells, minlength=self.size * self.bins).astype(np.int64)


def _told(cells: list[int], messages: list[int], reasons: list[str] | None) -> pa.RecordBatch:
    why = pa.array(reasons, pa.string()) if reasons else pa.nulls(len(cells), pa.string())
    return pa.RecordBatch.from_arrays([pa.array(cells), pa.array(messages), why], schema=_SCHEMA)


def _cumulated(sums: pa.Table, ids: pa.ChunkedArray, bins: int) -> pa.Table:
    """Counts by cell as one row for each subscription and score: how many score at least that."""
    cell, messages = sums["cell"].to_numpy(), sums["messages"].to_numpy()
    total = int(messages[cell == _ALL].sum())
    counts = np.zeros(len(ids) * bins, np.int64)
    counts[cell[cell != _ALL]] = messages[cell != _ALL]
    above = counts.reshape(len(ids), bins)[:, ::-1].cumsum(axis=1)[:, ::-1].ravel()
    return pa.table(
        {
            "subscription": pc.take(ids, pa.array(np.repeat(np.arange(len(ids)), bins))),
            "score": np.tile(np.arange(bins) / bins, len(ids)),
            "messages": above,
            "probability": above / max(total, 1),
        }
    )


def _starts(ids: pa.ChunkedArray) -> Ints:
    """Where the rows of each subscription begin, and where the last ones end."""
    codes = ids.combine_chunks().dictionary_encode().indices.to_numpy()
    return np.flatnonzero(np.r_[True, codes[1:] != codes[:-1], True]) if codes.size else np.zeros(1, np.int64)
