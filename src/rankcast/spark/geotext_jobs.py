"""Batch jobs for geo-text: document frequencies of a corpus, and how scores of messages are spread.

`fit` is behind `Vocabulary.fit_spark`. The cost model [Geo §6.2] weighs a buffer's upkeep against searching
anew by prob(t), the chance that a message scores at least t for a subscription: `score_distribution` counts
it over a history, `thresholds` minimises the expected cost of an update over it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, StringType

from rankcast.errors import InputError
from rankcast.geotext.engine import GeoTextTopK
from rankcast.geotext.kernels import costs
from rankcast.geotext.vocabulary import Vocabulary
from rankcast.state import batches
from rankcast.tables import read, schema
from rankcast.tables.schema import Ints, arrow

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
    expected to hold `held` of a window, and a turnover of the window to cost `cost`. Where fewer than k
    messages are expected at any score, all are held: `score` is 0 and `cost` null.

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
        prices = [costs.cost(float(each), k, float(search)) for each in held if each >= k]
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
