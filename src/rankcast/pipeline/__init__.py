"""Pipelines: one TOML file describes a pipeline, one command runs it.

| name     | does                                                                              |
| -------- | --------------------------------------------------------------------------------- |
| `read`   | reads and checks a file, without Spark                                            |
| `start`  | starts the pipeline as a streaming query                                          |
| `replay` | runs the same over history, as a batch job                                        |

`rankcast run` and `rankcast replay` are these three with a live view and signal handling. Checking imports
neither pyspark nor pandas; the names here are imported on first use.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rankcast.pipeline.batch_replay import replay
    from rankcast.pipeline.config import Config, read
    from rankcast.pipeline.running import Running, start

__all__ = ["Config", "Running", "read", "replay", "start"]

_HOMES = {
    "Config": "config",
    "Running": "running",
    "read": "config",
    "replay": "batch_replay",
    "start": "running",
}


def __getattr__(name: str) -> Any:
    """Import a public name on first use."""
    if name not in _HOMES:
        raise AttributeError(f"module 'rankcast.pipeline' has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOMES[name]}"), name)
