"""A stateful operator that does nothing: what a micro-batch costs before any engine has work."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import pandas as pd
from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.stateful_processor import StatefulProcessor


class Passing(StatefulProcessor):
    """Counts the rows of each key and keeps no state."""

    def init(self, handle: Any) -> None:
        """No state to declare."""

    def handleInputRows(  # noqa: N802
        self, key: tuple[Any, ...], rows: Iterable[pd.DataFrame], timerValues: Any
    ) -> Iterator[pd.DataFrame]:
        """One row a key."""
        yield pd.DataFrame({"shard": [key[0]], "rows": [sum(len(frame) for frame in rows)]})

    def close(self) -> None:
        """Nothing is open."""


def passing(frame: Any, shards: Sequence[int]) -> Any:
    """Send every row of a stream to every shard, and do nothing there."""
    every = F.explode(F.array(*(F.lit(shard) for shard in shards))).alias("shard")
    keyed = frame.select(every, "*").groupBy("shard")
    return keyed.transformWithStateInPandas(Passing(), "shard int, rows long", "Append", "None")
