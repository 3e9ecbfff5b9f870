"""The door of Spark's stateful operator: the one place that knows its API.

Spark asks for a processor wherever rows come, and also on the driver, in a new Python process, whenever a
query starts, just to hear which state it declares. So what is behind the door (`rankcast.spark.shard`) is
imported when the first rows come.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pyspark.sql.streaming.stateful_processor import StatefulProcessor
from pyspark.sql.types import BinaryType, LongType, StructField, StructType

if TYPE_CHECKING:
    import pandas as pd

NUMBER = StructType([StructField("number", LongType())])  # as text, Spark would parse it in every task
KEPT = StructType([StructField("data", BinaryType())])
METRICS = "metrics"


@dataclass(frozen=True)
class Limits:
    """When a shard writes a snapshot, and how long old ones stay.

    Attributes:
        batches: after so many batches ...
        bytes: ... or so many bytes in the log, whichever comes first; at four times either, the batch waits.
        retain: for how many micro-batches a snapshot stays that is no longer the last.
    """

    batches: int = 64
    bytes: int = 64 << 20
    retain: int = 100


class ShardProcessor(StatefulProcessor):
    """What Spark calls; arguments as those of `rankcast.spark.shard.Hosting`."""

    def __init__(self, plan: str, state: str, *, strict: bool, limits: Limits) -> None:
        self._plan = plan
        self._state = state
        self._strict = strict
        self._limits = limits

    def init(self, handle: Any) -> None:
        """Declare the state; Spark calls this first."""
        self._store = handle.getMapState("shard", NUMBER, KEPT)

    def handleInputRows(  # noqa: N802
        self, key: tuple[Any, ...], rows: Iterable[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """Apply what a micro-batch has for one shard."""
        from rankcast.spark.shard import Hosting  # noqa: PLC0415

        hosting = Hosting(
            self._plan, self._state, strict=self._strict, limits=self._limits, store=self._store
        )
        yield from hosting.run(int(key[0]), rows)

    def close(self) -> None:
        """Nothing stays open between tasks."""
