"""Counters of every shard, out of the progress that Spark reports for each micro-batch.

They travel as an observed metric, so they are in every listener and in the log of progress:
`progress.observedMetrics["rankcast"]` has one field a shard, `shard_<id>`, a JSON object:

| key               | meaning                                                                           |
| ----------------- | --------------------------------------------------------------------------------- |
| `how`             | `hit`, `redo` or `restore`: what the batch found on the host                      |
| `restore_seconds` | what restoring took                                                               |
| `rows`            | rows that came in                                                                 |
| `deltas`          | rows that went out, refused ones apart                                            |
| `refused`         | rows refused or late                                                              |
| `candidates`      | candidates that the engine tried                                                  |
| `seconds`         | what the shard took for the batch, all in all                                     |
| `snapshot_bytes`  | bytes of a snapshot that was finished since the batch before                      |
| `log_bytes`       | bytes of rows since the last snapshot                                             |
"""

from __future__ import annotations

import json
import logging
import threading
from collections import Counter
from collections.abc import Sequence
from typing import Any

from pyspark.sql import functions as F  # noqa: N812
from pyspark.sql.streaming.listener import StreamingQueryListener

from rankcast.spark import scratch

OBSERVED = "rankcast"
_LOG = logging.getLogger(__name__)
_SUMS = ("restore_seconds", "rows", "deltas", "refused", "candidates", "seconds", "snapshot_bytes")


def expressions(shards: Sequence[int], column: str) -> list[Any]:
    """The aggregates that carry the counters of each shard."""
    return [F.max(F.when(F.col("shard") == shard, F.col(column))).alias(f"shard_{shard}") for shard in shards]


class Watcher(StreamingQueryListener):
    """Adds up the counters of every shard of every query; logs one line a micro-batch.

    Register it with `spark.streams.addListener(watcher)`.

    Args:
        forget: remove what a query has in the scratch directory of this host when it ends. The query can
            still go on later; its shards are then restored.
    """

    def __init__(self, *, forget: bool = False) -> None:
        self._forget = forget
        self._turn = threading.Lock()
        self._totals: dict[str, dict[int, Counter[str]]] = {}

    def totals(self, query: str) -> dict[int, dict[str, float]]:
        """By shard: `batches`, `hits`, `redos`, `restores` and the sums of the counters, since the start."""
        with self._turn:
            return {shard: dict(counted) for shard, counted in self._totals.get(query, {}).items()}

    def onQueryStarted(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryProgress(self, event: Any) -> None:  # noqa: N802
        """Add the counters of one micro-batch."""
        told = counters(event.progress.observedMetrics.get(OBSERVED))
        if not told:
            return
        with self._turn:
            mine = self._totals.setdefault(str(event.progress.id), {})
            for shard, counted in told.items():
                total = mine.setdefault(shard, Counter())
                total.update({"batches": 1, f"{counted['how']}s": 1})
                total.update({name: counted[name] for name in _SUMS})
        _LOG.info("batch %s: %s", event.progress.batchId, _line(told))

    def onQueryIdle(self, event: Any) -> None:  # noqa: N802
        """Nothing to do."""

    def onQueryTerminated(self, event: Any) -> None:  # noqa: N802
        """Clean up, if asked to."""
        if self._forget:
            scratch.forget(str(event.id))


def counters(observed: Any) -> dict[int, dict[str, Any]]:
    """The counters in an observed metric, by shard."""
    if observed is None:
        return {}
    fields = observed.asDict() if hasattr(observed, "asDict") else dict(observed)
    return {
        int(name.removeprefix("shard_")): json.loads(text)
        for name, text in fields.items()
        if name.startswith("shard_") and text is not None
    }


def _line(told: dict[int, dict[str, Any]]) -> str:
    """One line on a micro-batch: a hot shard stands out by its rows and seconds."""
    parts = [
        f"shard {shard} {counted['how']} {counted['rows']} rows {counted['deltas']} deltas "
        f"{counted['refused']} refused {counted['seconds']:.3f} s"
        for shard, counted in sorted(told.items())
    ]
    return "; ".join(parts)
