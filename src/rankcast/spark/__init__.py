"""Ranked publish/subscribe on Spark: streams of rows in, a stream of deltas out, each once.

| name         | does                                                                      |
| ------------ | ------------------------------------------------------------------------- |
| `continuous` | runs an engine over streaming DataFrames, sharded, restartable            |
| `snapshot`   | the same over static DataFrames; a stream can continue from it            |
| `uncovered`  | finds the boxes that no other box contains, as a batch job                |
| `split`      | separates deltas from refused rows                                        |
| `reshard`    | gives a stopped stream another number of shards                           |
| `migrate`    | gives a stopped stream other settings of its engine                       |
| `session`    | starts a local Spark session with all necessary settings                  |
| `score_distribution`, `thresholds` | show the distribution of scores, and geo-text's cost model over it |
| `boundaries` | shows how a table of subscriptions is divided over shards, and how evenly |
| `Watcher`    | sums the counters of every shard, from the progress of streaming queries  |

Each name is imported on first use; nothing outside this package imports pyspark. The guide
"Run on Spark" has examples.
"""

from __future__ import annotations

from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

from rankcast.errors import MissingExtraError

if TYPE_CHECKING:
    from rankcast.spark.batch import boundaries, snapshot, uncovered
    from rankcast.spark.geotext_jobs import score_distribution, thresholds
    from rankcast.spark.resharding import migrate, reshard
    from rankcast.spark.sessions import session
    from rankcast.spark.streams import Watcher, continuous, split

__all__ = [
    "Watcher",
    "boundaries",
    "continuous",
    "migrate",
    "reshard",
    "score_distribution",
    "session",
    "snapshot",
    "split",
    "thresholds",
    "uncovered",
]

for _needed in ("pyspark", "pandas", "google.protobuf"):
    try:
        _found = find_spec(_needed) is not None
    except ModuleNotFoundError:
        _found = False
    if not _found:
        raise MissingExtraError("spark", needs=_needed.replace("google.", ""))

_HOMES = {
    "Watcher": "streams",
    "boundaries": "batch",
    "continuous": "streams",
    "migrate": "resharding",
    "reshard": "resharding",
    "score_distribution": "geotext_jobs",
    "session": "sessions",
    "snapshot": "batch",
    "split": "streams",
    "thresholds": "geotext_jobs",
    "uncovered": "batch",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rankcast.spark' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
