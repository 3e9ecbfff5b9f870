"""Seeded rows as a Spark job: the same seed gives the same rows, however many partitions there are.

Rows are made in blocks of a fixed size. A block has a generator of its own, seeded by the seed and its
number; what all blocks share (where towns lie, say) is drawn from a generator that is seeded by the seed
alone. So it does not matter which task makes a block, or how many of them.

`passing` is a stateful operator that does nothing: what a micro-batch costs before any engine has work.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.pandas.types import from_arrow_schema
from pyspark.sql.streaming.stateful_processor import StatefulProcessor

from rankcast.spark import sessions
from rankcast.tables import schema as settings
from rankcast.tables.read import as_table

BLOCK = 50_000


@dataclass(frozen=True)
class Block:
    """A part of a job: which of how many blocks, its first row and how many of how many, the job's seed."""

    number: int
    blocks: int
    first: int
    count: int
    rows: int
    seed: int

    @property
    def rng(self) -> np.random.Generator:
        """A fresh generator of this block alone."""
        return np.random.default_rng([self.seed, 1, self.number])

    @property
    def shared(self) -> np.random.Generator:
        """A fresh generator, in the same state for every block."""
        return np.random.default_rng([self.seed, 0])


Make = Callable[[Block], Any]


def generated(spark: Any, make: Make, rows: int, *, seed: int, block: int = BLOCK) -> Any:
    """A DataFrame of what `make` gives for each block, made when Spark reads it.

    Args:
        spark: the session.
        make: gives the rows of a block, as anything that an engine would take; importable on executors, and
            a function of its block alone. Called once with a block of one row to find out the columns.
        rows: how many rows all blocks have in all, as they are counted in `Block.first` and `Block.count`.
        seed: not negative.
        block: how many rows a block has; the last one has fewer. Other blocks are other rows.
    """
    settings.whole("block", block)
    sample = as_table(make(Block(0, 1, 0, 1, 1, seed)), where="rows")
    blocks = -(-rows // block)
    tasks = max(1, min(blocks, sessions.cores(spark)))
    form = from_arrow_schema(sample.schema)
    return spark.range(0, blocks, 1, tasks).mapInArrow(Making(make, rows, seed, block, sample.schema), form)


@dataclass(frozen=True)
class Making:
    """Makes the blocks whose numbers a partition holds."""

    make: Make
    rows: int
    seed: int
    block: int
    schema: pa.Schema

    def __call__(self, parts: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The rows of every block, block after block."""
        blocks = -(-self.rows // self.block)
        for part in parts:
            for number in part.column(0).to_pylist():
                first = number * self.block
                count = min(self.block, self.rows - first)
                made = as_table(
                    self.make(Block(number, blocks, first, count, self.rows, self.seed)), where="rows"
                )
                yield from made.cast(self.schema).combine_chunks().to_batches()


class Passing(StatefulProcessor):
    """Tells the highest number of the rows of each key, and keeps no state."""

    def init(self, handle: Any) -> None:
        """No state to declare."""

    def handleInputRows(  # noqa: N802
        self, key: tuple[Any, ...], rows: Iterable[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """One row a key."""
        yield pd.DataFrame({"shard": [key[0]], "top": [max(int(frame["seq"].max()) for frame in rows)]})

    def close(self) -> None:
        """Nothing is open."""


def passing(frame: Any, shards: Sequence[int]) -> Any:
    """Send every row of a stream to every shard, and do nothing there."""
    every = F.explode(F.array(*(F.lit(shard) for shard in shards))).alias("shard")
    keyed = frame.select(every, "*").groupBy("shard")
    return keyed.transformWithStateInPandas(Passing(), "shard int, top long", "Append", "None")
