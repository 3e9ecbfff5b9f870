"""What `/metrics` shows. Names of commands and streams are labels; ids and tokens never are."""

from __future__ import annotations

from collections import defaultdict, deque
from collections.abc import Iterator
from typing import TYPE_CHECKING

from prometheus_client import CollectorRegistry, Counter, Histogram, generate_latest
from prometheus_client.core import CounterMetricFamily, GaugeMetricFamily, Metric
from prometheus_client.registry import Collector

if TYPE_CHECKING:
    from rankcast.service.streams.directory import Streams
    from rankcast.service.webhooks.delivery import Deliveries

RECENT = 256  # writes of a stream whose times are remembered
_SECONDS = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10)


class Metrics:
    """The counters of one service."""

    def __init__(self) -> None:
        self.registry = CollectorRegistry()
        self._seconds = Histogram(
            "rankcast_request_seconds",
            "Time from a request to its answer",
            ["command"],
            buckets=_SECONDS,
            registry=self.registry,
        )
        self._answers = Counter(
            "rankcast_requests", "Requests by status", ["command", "status"], registry=self.registry
        )
        self._known: dict[tuple[str, int], tuple[Histogram, Counter]] = {}
        self._last: dict[str, deque[float]] = defaultdict(lambda: deque(maxlen=RECENT))

    def answered(self, command: str, status: int, seconds: float) -> None:
        """Count an answer."""
        known = self._known.get((command, status))
        if known is None:
            known = self._seconds.labels(command), self._answers.labels(command, str(status))
            self._known[command, status] = known
        known[0].observe(seconds)
        known[1].inc()

    def wrote(self, stream: str, seconds: float) -> None:
        """Remember how long a write to a stream took."""
        self._last[stream].append(seconds)

    def recent(self, stream: str) -> list[float]:
        """How long the last writes to a stream took."""
        return list(self._last.get(stream, ()))

    def forget(self, stream: str) -> None:
        """Forget a stream that has ended."""
        self._last.pop(stream, None)

    def watch(self, streams: Streams, deliveries: Deliveries) -> None:
        """Show streams and their webhooks, too."""
        self.registry.register(_Streams(streams))
        self.registry.register(_Webhooks(streams, deliveries))

    def text(self) -> bytes:
        """All of it in Prometheus' form."""
        return generate_latest(self.registry)


class _Streams(Collector):
    """Numbers of streams, read when somebody asks."""

    def __init__(self, streams: Streams) -> None:
        self._streams = streams

    def collect(self) -> Iterator[Metric]:
        counters = {
            "writes": "Accepted writes",
            "groups": "Groups of writes, each synced once",
            "refused": "Refused calls",
            "told": "Messages to receivers",
            "dropped": "Receivers that fell behind",
        }
        gauges = {
            "queue": "Waiting calls",
            "receivers": "Connected receivers",
            "sequence": "The number of the last write",
            "log_bytes": "Bytes of the log",
        }
        found = [
            (
                stream.name,
                {
                    "writes": stream.written,
                    "groups": stream.groups,
                    "refused": stream.refused,
                    "told": stream.hub.told,
                    "dropped": stream.hub.dropped,
                    "queue": stream.waiting,
                    "receivers": len(stream.hub),
                    "sequence": stream.sequence,
                    "log_bytes": stream.log.size,
                },
            )
            for stream in self._streams.all()
        ]
        for name, text in counters.items():
            counter = CounterMetricFamily(f"rankcast_stream_{name}", text, labels=["stream"])
            for stream, numbers in found:
                counter.add_metric([stream], numbers[name])
            yield counter
        for name, text in gauges.items():
            gauge = GaugeMetricFamily(f"rankcast_stream_{name}", text, labels=["stream"])
            for stream, numbers in found:
                gauge.add_metric([stream], numbers[name])
            yield gauge


class _Webhooks(Collector):
    """Numbers of webhooks, which have names that an administrator chose, read when somebody asks."""

    def __init__(self, streams: Streams, deliveries: Deliveries) -> None:
        self._streams = streams
        self._deliveries = deliveries

    def collect(self) -> Iterator[Metric]:
        labels = ["stream", "webhook"]
        counters = {
            "delivered": "Delivered messages",
            "failed": "Failed attempts",
            "dead": "Dead letters: messages given up",
        }
        found = list(self._deliveries.counts.items())
        for name, text in counters.items():
            counter = CounterMetricFamily(f"rankcast_webhook_{name}", text, labels=labels)
            for names, counts in found:
                counter.add_metric(names, getattr(counts, name))
            yield counter
        behind = GaugeMetricFamily("rankcast_webhook_behind", "Writes not yet delivered", labels=labels)
        last = {stream.name: stream.sequence for stream in self._streams.all()}
        for names, counts in found:
            behind.add_metric(names, max(0, last.get(names[0], 0) - counts.reached))
        yield behind
