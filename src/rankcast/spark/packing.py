"""Rows on their way to shards: packed where they are read; `applying` unpacks them.

Spark hands rows to a stateful Python operator one by one, which costs more than most engines need for them.
So rows are routed and packed into Arrow IPC before the shuffle: what is shuffled is one binary value for each
shard and each Arrow batch read, and rows cross the operator's door together, with their own types and nulls.
Every shard also hears of every batch read, even if none of its rows is in it, and of the highest sequence
number there: all shards have the same clock.

A packed row is `shard, input, top, data`: `top` is the highest sequence number of the batch (`NO_SEQ`: there
is none), `data` its rows for that shard (null: none).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.compute as pc

from rankcast.spark.plan import OP, SEQ, Split, zone_of
from rankcast.state import batches
from rankcast.tables.schema import Ints

NO_SEQ = -(1 << 63)
PACKED = "shard int, input string, top long, data binary"
_SCHEMA = pa.schema(
    [("shard", pa.int32()), ("input", pa.string()), ("top", pa.int64()), ("data", pa.binary())]
)


@dataclass(frozen=True)
class Packing:
    """How the rows of one input go to shards; called with the Arrow batches of one partition of it.

    Attributes:
        input: the name of the input.
        shards: the ids of all shards.
        divided: whether each row goes to one shard.
        seq: the column of sequence numbers, None for an input without.
        op: whether there is a column `op`.
        axes: the columns of a point and what a null in each means, if rows are divided by zones ...
        split: ... and the zones.
        beyond: rows up to this sequence number are left out.
    """

    input: str
    shards: tuple[int, ...]
    divided: bool
    seq: str | None
    op: bool
    axes: tuple[tuple[str, float], ...] = ()
    split: Split = None
    beyond: int | None = None

    def __call__(self, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Pack the batches of a partition."""
        for part in parts:
            rows = self._rename(pa.Table.from_batches([part]))
            top = pc.max(rows[SEQ]).as_py() if self.seq is not None else None
            top = NO_SEQ if top is None else top
            rows = self._fresh(rows)
            if rows.num_rows:
                yield self._pack(rows, top)

    def rows(self, part: pa.RecordBatch) -> pa.Table:
        """The rows of a batch as engines are to have them, those that are left out apart."""
        return self._fresh(self._rename(pa.Table.from_batches([part])))

    def _rename(self, rows: pa.Table) -> pa.Table:
        if self.seq is not None:
            place = rows.column_names.index(self.seq)
            rows = rows.set_column(place, SEQ, rows.column(place).cast(pa.int64()))
        if self.op:
            rows = rows.rename_columns([OP if name == "op" else name for name in rows.column_names])
        return rows

    def _fresh(self, rows: pa.Table) -> pa.Table:
        if self.beyond is None or self.seq is None:
            return rows
        return rows.filter(pc.fill_null(pc.greater(rows[SEQ], self.beyond), True))

    def _pack(self, rows: pa.Table, top: int) -> pa.RecordBatch:
        if not self.divided:
            data: list[bytes | None] = [batches.to_bytes(rows)] * len(self.shards)
        else:
            shard = self._shard_of(rows)
            data = [_part(rows, np.flatnonzero(shard == place)) for place in range(len(self.shards))]
        size = len(self.shards)
        columns = [self.shards, [self.input] * size, [top] * size, data]
        arrays = [pa.array(values, field.type) for values, field in zip(columns, _SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=_SCHEMA)

    def _shard_of(self, rows: pa.Table) -> Ints:
        if self.split is not None:
            points = [point_column(rows, name, missing) for name, missing in self.axes]
            return zone_of(self.split, np.column_stack(points))
        return hashed(rows["id"], len(self.shards))


def point_column(rows: pa.Table, name: str, missing: float) -> Any:
    """One coordinate of each row; what is no number is as good as a null for finding a zone."""
    if name not in rows.column_names:
        return np.full(rows.num_rows, missing)
    values = rows[name].cast(pa.float64(), safe=False).to_numpy()
    return np.where(np.isnan(values), missing, values)


def hashed(ids: pa.ChunkedArray, size: int) -> Ints:
    """A shard for each id, the same on every machine and in every run; null ids go to the first."""
    plain = ids.cast(pa.large_string() if pa.types.is_large_string(ids.type) else ids.type)
    if pa.types.is_integer(ids.type):
        codes = pd.util.hash_array(plain.cast(pa.int64()).fill_null(0).to_numpy())
    else:
        codes = pd.util.hash_array(plain.fill_null("").to_numpy(zero_copy_only=False), categorize=False)
    shard: Ints = (codes % np.uint64(size)).astype(np.int64)
    return np.where(plain.is_null().to_numpy(), 0, shard)


def _part(rows: pa.Table, places: Any) -> bytes | None:
    return batches.to_bytes(rows.take(pa.array(places))) if len(places) else None


def shard_ids(size: int, partitions: int) -> tuple[int, ...]:
    """Ids for so many shards that Spark's hash spreads evenly over so many partitions."""
    free: dict[int, list[int]] = {partition: [] for partition in range(partitions)}
    chosen: list[int] = []
    candidate = 0
    while len(chosen) < size:
        wanted = len(chosen) % partitions
        while not free[wanted]:
            free[partition_of(candidate, partitions)].append(candidate)
            candidate += 1
        chosen.append(free[wanted].pop(0))
    return tuple(chosen)


def partition_of(value: int, partitions: int) -> int:
    """Where Spark's hash partitioning puts a 32-bit integer: Murmur3 with seed 42, modulo partitions."""
    word = _scramble(value & _WORD)
    mixed = _rotate(42 ^ word, 13) * 5 + 0xE6546B64 & _WORD
    mixed ^= 4
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        mixed = (mixed ^ (mixed >> shift)) * factor & _WORD
    signed = mixed - (1 << 32) if mixed >> 31 else mixed
    return signed % partitions


_WORD = 0xFFFFFFFF


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> (32 - by)) & _WORD


def _scramble(word: int) -> int:
    return _rotate(word * 0xCC9E2D51 & _WORD, 15) * 0x1B873593 & _WORD
