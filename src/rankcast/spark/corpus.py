"""Document frequencies of a corpus as a batch job: `Vocabulary.fit_spark`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.types import ArrayType, StringType

from rankcast.errors import InputError
from rankcast.geotext.vocabulary import Vocabulary
from rankcast.tables import read
from rankcast.tables.schema import arrow

TERM, DOCUMENTS, REFUSED = 0, 1, 2
_FORM = "kind int, term string, documents long"
_SCHEMA = pa.schema([("kind", pa.int32()), ("term", pa.string()), ("documents", pa.int64())])


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
    sums = terms.mapInArrow(_count, _FORM).groupBy("kind", "term").agg(F.sum("documents").alias("documents"))
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
    return pa.RecordBatch.from_arrays([kinds, terms, documents.cast(pa.int64())], schema=_SCHEMA)
