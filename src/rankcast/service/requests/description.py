"""A stream as it describes itself: the columns of its calls, and what it has to do."""

from __future__ import annotations

from typing import Any

from rankcast.service.streams.stream import Stream


def inputs(stream: Stream) -> dict[str, list[dict[str, Any]]]:
    """The columns that each call takes, for forms."""
    found = {}
    for each in stream.spec.inputs:
        for name in each.calls:
            if name not in ("subscribe", "publish", "upsert"):
                continue
            found[name] = [
                {
                    "name": column.name,
                    "kind": column.kind.name.lower(),
                    "expected": column.kind.value,
                    "required": column.required,
                    "nullable": column.nullable,
                    **({"words": list(column.words)} if column.words else {}),
                }
                for column in stream.engine.reads(name).form
            ]
    return found


def load(stream: Stream, seconds: list[float]) -> dict[str, Any]:
    """What a stream has to do: counters since the start of the service, what waits, times of last writes."""
    times = sorted(seconds)
    return {
        "written": stream.written,
        "refused": stream.refused,
        "groups": stream.groups,
        "told": stream.hub.told,
        "dropped": stream.hub.dropped,
        "queue": stream.waiting,
        "receivers": len(stream.hub),
        "log_bytes": stream.log.size,
        "p50": times[len(times) // 2] if times else None,
        "p99": times[int(len(times) * 0.99)] if times else None,
    }
