"""The progress of a running pipeline: Spark's report of every micro-batch, summed since the start.

It is shown as a live table on a terminal, and as one line per micro-batch elsewhere. Ids and reasons come
from rows, so they are plain text here: no markup, and unprintable characters are escaped.

`served` offers the counters to Prometheus, on `http://127.0.0.1:PORT/metrics`.

| metric                            | labels          | meaning                                              |
| --------------------------------- | --------------- | ---------------------------------------------------- |
| `rankcast_batches_total`          |                 | micro-batches                                        |
| `rankcast_rows_total`             |                 | input rows                                           |
| `rankcast_batch_seconds`          |                 | time of the last micro-batch                         |
| `rankcast_lag_seconds`            |                 | waiting time of the rows in progress                 |
| `rankcast_source_waiting`         | source, what    | rows that sources have not delivered yet, from Spark |
| `rankcast_shard_rows_total`       | shard           | rows sent to a shard                                 |
| `rankcast_shard_deltas_total`     | shard           | output rows, without refused ones                    |
| `rankcast_shard_refused_total`    | shard           | rows refused or late                                 |
| `rankcast_shard_candidates_total` | shard           | candidates that the engine tried                     |
| `rankcast_shard_hits_total`       | shard           | micro-batches that found the shard on its host       |
| `rankcast_shard_misses_total`     | shard           | ... that had to restore it                           |
| `rankcast_shard_redos_total`      | shard           | ... that an earlier attempt had already applied      |
| `rankcast_shard_restore_seconds_total` | shard      | time for restoring                                   |
| `rankcast_shard_seconds_total`    | shard           | time of the shard: its load                          |
"""

from __future__ import annotations

import threading
import time
from collections import Counter, OrderedDict, deque
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import datetime
from statistics import median
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

import pyarrow as pa

from rankcast.errors import InputError, plain, required

if TYPE_CHECKING:
    from rankcast.pipeline.running import Running

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
        began: its start, in seconds since 1970.
        seconds: how long it took.
        rows: input rows.
        shards: counters by shard, as in `rankcast.spark.streams`.
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
    """The work since the start.

    Attributes:
        batches: how many micro-batches.
        rows: input rows.
        totals: by name, sums over shards: `deltas`, `refused`, `candidates`, `seconds`, `restore_seconds`,
            `snapshot_bytes`, `hits`, `misses`, `redos`; and `rows`, where a row that goes to several shards
            counts in each.
        shards: the same by shard.
        recent: the last micro-batches, oldest first.
        lag: for how many seconds the rows in progress have waited; 0 if there are none.
        waiting: what sources report about rows that they have not delivered, by source and word.
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
        """Rows per second over the last micro-batches, while they ran."""
        seconds = sum(batch.seconds for batch in self.recent)
        return sum(batch.rows for batch in self.recent) / seconds if seconds else 0.0

    @property
    def batch_seconds(self) -> float:
        """The median time of recent micro-batches."""
        return median(batch.seconds for batch in self.recent) if self.recent else 0.0

    @property
    def loads(self) -> Mapping[int, float]:
        """Seconds of each shard over the last micro-batches."""
        spent: Counter[int] = Counter()
        for batch in self.recent:
            spent.update({shard: each["seconds"] for shard, each in batch.shards.items()})
        return spent

    @property
    def mending(self) -> str:
        """Arguments of `rankcast reshard` that would even out hot shards."""
        loads = ",".join(f"{shard}={seconds:.3g}" for shard, seconds in sorted(self.loads.items()))
        return f"--shards {len(self.loads)} --load {loads}"

    @property
    def hot(self) -> tuple[int, ...]:
        """Shards that recently took much longer than others."""
        spent = self.loads
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
        from rankcast.spark.streams import OBSERVED, counters  # noqa: PLC0415

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


_WIDTH = 12
_OPS = {"enter": "+", "leave": "-", "update": "~", "match": "+"}


class View(AbstractContextManager["View"]):
    """Shows progress and, for the sink `console`, the changed lists.

    Args:
        name: the pipeline.
        stream: where to write.
        rows: how many subscriptions (matching: events) to show, the last that changed.
    """

    def __init__(self, name: str, stream: TextIO, *, rows: int = 10) -> None:
        self._name = name
        self._stream = stream
        self._rows = rows
        self._told = -1
        self._changed: OrderedDict[str, list[str]] = OrderedDict()
        self._progress = Progress()
        self._live: Any = None

    def __enter__(self) -> View:
        if self._stream.isatty():
            console = required("rich.console", "spark").Console(file=self._stream, highlight=False)
            self._live = required("rich.live", "spark").Live(console=console, refresh_per_second=4)
            self._live.__enter__()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._live is not None:
            self._live.__exit__(kind, value, trace)

    def show(self, progress: Progress) -> None:
        """Show the progress of a pipeline."""
        self._progress = progress
        if self._live is not None:
            self._live.update(self._page())
            return
        for batch in progress.recent:
            if batch.number > self._told:
                self._told = batch.number
                self._stream.write(line_of(batch, progress) + "\n")
        self._stream.flush()

    def changed(self, number: int, told: pa.Table) -> None:
        """Show the output of a micro-batch."""
        owner = "event" if "event" in told.column_names else "subscription"
        other = "subscription" if owner == "event" else "item"
        for row in rows_of(told.slice(0, 1000)):
            who = plain(str(row[owner]))
            word = row["reason"] if row["op"] == "refused" else f"{_OPS[row['op']]}{row[other]}{_score(row)}"
            word = plain(str(word))
            if self._live is None:
                self._stream.write(f"  {who}: {word}\n")
                continue
            words = self._changed.setdefault(who, [])
            words.append(word)
            del words[:-_WIDTH]
            self._changed.move_to_end(who)
            while len(self._changed) > self._rows:
                self._changed.popitem(last=False)

    def _page(self) -> Any:
        from rich.console import Group  # noqa: PLC0415
        from rich.table import Table  # noqa: PLC0415
        from rich.text import Text  # noqa: PLC0415

        told = self._progress
        head = Text(
            f"{plain(self._name)}: {told.batches:,} micro-batches, {told.rows:,} rows, "
            f"{told.rate:,.0f} rows/s, {told.batch_seconds:.2f} s a micro-batch, lag {told.lag:.1f} s"
        )
        shards = Table(
            "shard", "rows", "deltas", "refused", "candidates", "hits", "misses", "redos", "seconds"
        )
        for shard, counted in told.shards.items():
            values = [f"{counted.get(name, 0):,.0f}" for name in _COLUMNS]
            style = "bold red" if shard in told.hot else None
            mark = f"{shard} hot" if shard in told.hot else str(shard)
            shards.add_row(mark, *values, f"{counted['seconds']:.2f}", style=style)
        parts: list[Any] = [head, shards]
        if told.hot:
            parts.append(Text(f"rankcast reshard {told.mending} would even out what shards cost"))
        if self._changed:
            lists = Table("who", "what changed")
            for owner, words in reversed(self._changed.items()):
                lists.add_row(Text(owner), Text(" ".join(words)))
            parts.append(lists)
        return Group(*parts)


_COLUMNS = ("rows", "deltas", "refused", "candidates", "hits", "misses", "redos")


def rows_of(told: pa.Table) -> list[dict[str, Any]]:
    """The rows of a table; text that is not UTF-8, which Spark lets through, is escaped."""
    try:
        found: list[dict[str, Any]] = told.to_pylist()
    except UnicodeDecodeError:
        columns = [_decoded(column) for column in told.columns]
        found = [dict(zip(told.column_names, row, strict=True)) for row in zip(*columns, strict=True)]
    return found


def _decoded(column: pa.ChunkedArray) -> list[Any]:
    if not pa.types.is_string(column.type):
        return list(column.to_pylist())
    parts: list[bytes | None] = column.cast(pa.binary()).to_pylist()
    return [None if part is None else part.decode(errors="backslashreplace") for part in parts]


def _score(row: dict[str, Any]) -> str:
    return "" if row["score"] is None else f" {row['score']:.4g} (rank {row['rank']})"


def line_of(batch: Batch, progress: Progress) -> str:
    """One line on a micro-batch."""
    rate = batch.rows / batch.seconds if batch.seconds else 0.0
    hot = f"; hot shards: {', '.join(map(str, progress.hot))}" if progress.hot else ""
    hot += f" (rankcast reshard {progress.mending} evens them out)" if progress.hot else ""
    return (
        f"micro-batch {batch.number}: {batch.rows:,} rows, {batch.total('deltas'):,.0f} deltas, "
        f"{batch.total('refused'):,.0f} refused, {batch.seconds:.2f} s, {rate:,.0f} rows/s{hot}"
    )


HOST = "127.0.0.1"
_SHARD = {
    "rows": "rows sent to a shard",
    "deltas": "output rows, without refused ones",
    "refused": "rows refused or late",
    "candidates": "candidates that the engine tried",
    "hits": "micro-batches that found the shard on its host",
    "misses": "micro-batches that had to restore the shard",
    "redos": "micro-batches that an earlier attempt had already applied",
    "restore_seconds": "time for restoring",
    "seconds": "time of the shard",
}


@contextmanager
def served(running: Running, port: int, host: str = HOST) -> Iterator[int]:
    """Serve the metrics of a pipeline for as long as this lasts; yields the port (0 takes a free one)."""
    prometheus = required("prometheus_client", "spark", needs="prometheus-client")
    registry = prometheus.CollectorRegistry()
    registry.register(Collector(running))
    try:
        server, thread = prometheus.start_http_server(port, host, registry)
    except OSError as error:
        raise InputError(f"port {port} cannot be served: {error.strerror}") from error
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Collector:
    """Reads the progress of a pipeline on request."""

    def __init__(self, running: Running) -> None:
        self._running = running

    def describe(self) -> list[Any]:
        """Nothing before it is asked."""
        return []

    def collect(self) -> Iterator[Any]:
        """All metrics."""
        yield from families(self._running.progress)


def families(told: Progress) -> Iterator[Any]:
    """The metrics of a progress."""
    from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily  # noqa: PLC0415

    yield CounterMetricFamily("rankcast_batches", "micro-batches", value=told.batches)
    yield CounterMetricFamily("rankcast_rows", "input rows", value=told.rows)
    last = told.recent[-1].seconds if told.recent else 0.0
    yield GaugeMetricFamily("rankcast_batch_seconds", "time of the last micro-batch", value=last)
    yield GaugeMetricFamily("rankcast_lag_seconds", "waiting time of the rows in progress", value=told.lag)
    waiting = GaugeMetricFamily(
        "rankcast_source_waiting", "rows that sources have not delivered yet", labels=["source", "what"]
    )
    for labels, value in told.waiting.items():
        waiting.add_metric(list(labels), value)
    yield waiting
    for name, summary in _SHARD.items():
        family = CounterMetricFamily(f"rankcast_shard_{name}", summary, labels=["shard"])
        for shard, counted in told.shards.items():
            family.add_metric([str(shard)], counted.get(name, 0))
        yield family
