"""How a running pipeline gets on: what Spark reports of every micro-batch, added up since the start."""

from __future__ import annotations

import threading
import time
from collections import Counter, deque
from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from typing import Any

RECENT = 20
HOT = 1.5  # a shard is hot if it takes so much longer than shards do in the middle ...
NOTICED = 0.05  # ... and so many seconds a micro-batch
SUMS = ("rows", "deltas", "refused", "candidates", "seconds", "restore_seconds", "snapshot_bytes")
FOUND = {"hit": "hits", "restore": "misses", "redo": "redos"}


@dataclass(frozen=True)
class Batch:
    """One micro-batch.

    Attributes:
        number: Spark's number of it.
        began: when, in seconds since 1970.
        seconds: how long it took.
        rows: rows that came in.
        shards: counters by shard, as `rankcast.spark.watching` has them.
    """

    number: int
    began: float
    seconds: float
    rows: int
    shards: Mapping[int, Mapping[str, Any]]

    def total(self, name: str) -> float:
        """The sum of a counter over shards."""
        return float(sum(each[name] for each in self.shards.values()))


@dataclass(frozen=True)
class Progress:
    """What has been done since the start.

    Attributes:
        batches: how many micro-batches.
        rows: rows that came in.
        totals: by name, sums over shards: `deltas`, `refused`, `candidates`, `seconds`, `restore_seconds`,
            `snapshot_bytes`, `hits`, `misses`, `redos`; and `rows`, where one that goes to several shards
            counts in each.
        shards: the same by shard.
        recent: the last micro-batches, oldest first.
        lag: for how many seconds the rows have waited that are being worked on; 0 if there are none.
        waiting: what sources say of rows that they have not handed out, by source and word.
    """

    batches: int = 0
    rows: int = 0
    totals: Mapping[str, float] = field(default_factory=dict)
    shards: Mapping[int, Mapping[str, float]] = field(default_factory=dict)
    recent: tuple[Batch, ...] = ()
    lag: float = 0.0
    waiting: Mapping[tuple[str, str], float] = field(default_factory=dict)

    @property
    def rate(self) -> float:
        """Rows a second over the last micro-batches, while they ran."""
        seconds = sum(batch.seconds for batch in self.recent)
        return sum(batch.rows for batch in self.recent) / seconds if seconds else 0.0

    @property
    def batch_seconds(self) -> float:
        """What a micro-batch took of late, in the middle."""
        return median(batch.seconds for batch in self.recent) if self.recent else 0.0

    @property
    def hot(self) -> tuple[int, ...]:
        """Shards that took much longer than others of late."""
        spent: Counter[int] = Counter()
        for batch in self.recent:
            spent.update({shard: each["seconds"] for shard, each in batch.shards.items()})
        if len(spent) < 2:
            return ()
        limit = max(HOT * median(spent.values()), NOTICED * len(self.recent))
        return tuple(sorted(shard for shard, seconds in spent.items() if seconds > limit))


class Following:
    """Follows a streaming query; `take` may be called by several threads."""

    def __init__(self) -> None:
        self._turn = threading.Lock()
        self._last = -1
        self._seen: tuple[int, str] | None = None
        self._batches = self._rows = 0
        self._shards: dict[int, Counter[str]] = {}
        self._recent: deque[Batch] = deque(maxlen=RECENT)
        self._waiting: dict[tuple[str, str], float] = {}

    def take(self, query: Any) -> Progress:
        """Add what is new in a query's reports."""
        with self._turn:
            last = query.lastProgress
            seen = None if last is None else (int(last["batchId"]), str(last["timestamp"]))
            if last is not None and seen != self._seen:  # all reports cost more than the last
                self._seen = seen
                self._waiting = _waiting(last)
                for report in query.recentProgress:
                    self._add(report)
            active = query.isActive and query.status["isTriggerActive"] and query.status["isDataAvailable"]
            return self._summary(active=active)

    def _add(self, report: Any) -> None:
        number = int(report["batchId"])
        spent = report["durationMs"]
        if number <= self._last or "addBatch" not in spent:
            return
        from rankcast.spark.watching import OBSERVED, counters  # noqa: PLC0415

        self._last = number
        told = counters(report["observedMetrics"].get(OBSERVED))
        batch = Batch(number, _when(report), spent["triggerExecution"] / 1000, report["numInputRows"], told)
        self._recent.append(batch)
        self._batches += 1
        self._rows += batch.rows
        for shard, counted in told.items():
            total = self._shards.setdefault(shard, Counter())
            total.update({name: counted[name] for name in SUMS})
            total[FOUND[counted["how"]]] += 1

    def _summary(self, *, active: bool) -> Progress:
        totals: Counter[str] = Counter(dict.fromkeys((*SUMS, *FOUND.values()), 0))
        for counted in self._shards.values():
            totals.update(counted)
        ended = self._recent[-1].began + self._recent[-1].seconds if self._recent else None
        lag = max(0.0, time.time() - ended) if active and ended is not None else 0.0
        return Progress(
            self._batches,
            self._rows,
            dict(totals),
            {shard: dict(counted) for shard, counted in sorted(self._shards.items())},
            tuple(self._recent),
            lag,
            dict(self._waiting),
        )


def _when(report: Any) -> float:
    return datetime.fromisoformat(report["timestamp"].replace("Z", "+00:00")).timestamp()


def _waiting(report: Any) -> dict[tuple[str, str], float]:
    """Numbers in the metrics of sources: files or bytes outstanding, offsets behind."""
    found = {}
    for place, source in enumerate(report["sources"]):
        for name, value in (source["metrics"] or {}).items():
            try:
                found[str(place), name] = float(value)
            except (TypeError, ValueError):
                continue
    return found
