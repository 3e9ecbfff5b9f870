"""A pipeline's counters for Prometheus, on `http://127.0.0.1:PORT/metrics`.

| metric                            | labels          | meaning                                              |
| --------------------------------- | --------------- | ---------------------------------------------------- |
| `rankcast_batches_total`          |                 | micro-batches                                        |
| `rankcast_rows_total`             |                 | rows that came in                                    |
| `rankcast_batch_seconds`          |                 | what the last micro-batch took                       |
| `rankcast_lag_seconds`            |                 | how long the rows being worked on have waited        |
| `rankcast_source_waiting`         | source, what    | what sources have not handed out, as Spark tells it  |
| `rankcast_shard_rows_total`       | shard           | rows that a shard was sent                           |
| `rankcast_shard_deltas_total`     | shard           | rows that went out, refused ones apart               |
| `rankcast_shard_refused_total`    | shard           | rows refused or late                                 |
| `rankcast_shard_candidates_total` | shard           | candidates that the engine tried                     |
| `rankcast_shard_hits_total`       | shard           | micro-batches that found the shard on its host       |
| `rankcast_shard_misses_total`     | shard           | ... that had to restore it                           |
| `rankcast_shard_redos_total`      | shard           | ... that an attempt before had already applied       |
| `rankcast_shard_restore_seconds_total` | shard      | what restoring took                                  |
| `rankcast_shard_seconds_total`    | shard           | what the shard took: its load                        |
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from rankcast.errors import InputError, MissingExtraError
from rankcast.pipeline.progress import Progress
from rankcast.pipeline.running import Running

HOST = "127.0.0.1"
_SHARD = {
    "rows": "rows that a shard was sent",
    "deltas": "rows that went out, refused ones apart",
    "refused": "rows refused or late",
    "candidates": "candidates that the engine tried",
    "hits": "micro-batches that found the shard on its host",
    "misses": "micro-batches that had to restore the shard",
    "redos": "micro-batches that an attempt before had already applied",
    "restore_seconds": "what restoring took",
    "seconds": "what the shard took",
}


@contextmanager
def served(running: Running, port: int, host: str = HOST) -> Iterator[int]:
    """Serve the metrics of a pipeline for as long as this lasts; yields the port (0 takes a free one)."""
    try:
        from prometheus_client import CollectorRegistry, start_http_server  # noqa: PLC0415
    except ModuleNotFoundError as error:
        raise MissingExtraError("spark", needs="prometheus-client") from error
    registry = CollectorRegistry()
    registry.register(Collector(running))
    try:
        server, thread = start_http_server(port, host, registry)
    except OSError as error:
        raise InputError(f"port {port} cannot be served: {error.strerror}") from error
    try:
        yield int(server.server_port)
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


class Collector:
    """Reads the progress of a pipeline whenever it is asked."""

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
    yield CounterMetricFamily("rankcast_rows", "rows that came in", value=told.rows)
    last = told.recent[-1].seconds if told.recent else 0.0
    yield GaugeMetricFamily("rankcast_batch_seconds", "what the last micro-batch took", value=last)
    yield GaugeMetricFamily("rankcast_lag_seconds", "how long the rows worked on have waited", value=told.lag)
    waiting = GaugeMetricFamily(
        "rankcast_source_waiting", "what sources have not handed out", labels=["source", "what"]
    )
    for labels, value in told.waiting.items():
        waiting.add_metric(list(labels), value)
    yield waiting
    for name, summary in _SHARD.items():
        family = CounterMetricFamily(f"rankcast_shard_{name}", summary, labels=["shard"])
        for shard, counted in told.shards.items():
            family.add_metric([str(shard)], counted.get(name, 0))
        yield family
