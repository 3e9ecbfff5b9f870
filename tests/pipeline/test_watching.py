"""Progress, view and metrics of a pipeline, over reports such as Spark makes."""

from __future__ import annotations

import io
import json
import urllib.request
from typing import Any

import pyarrow as pa
import pytest

from rankcast.errors import InputError
from rankcast.pipeline import progress as metrics
from rankcast.pipeline.progress import Following, Progress, View
from rankcast.pipeline.running import explained

ROWS = {"rows": 10, "deltas": 4, "refused": 1, "candidates": 20, "snapshot_bytes": 0, "log_bytes": 0}


def report(number: int, how: str = "hit", seconds: tuple[float, ...] = (0.1, 0.1), rows: int = 10) -> Any:
    shards = {
        f"shard_{shard}": json.dumps({"how": how, "restore_seconds": 0.5, "seconds": spent, **ROWS})
        for shard, spent in enumerate(seconds)
    }
    return {
        "batchId": number,
        "timestamp": "2026-01-01T00:00:00.000Z",
        "durationMs": {"addBatch": 400, "triggerExecution": 500},
        "numInputRows": rows,
        "observedMetrics": {"rankcast": shards},
        "sources": [{"metrics": {"numFilesOutstanding": "3", "word": "x"}}, {"metrics": None}],
    }


class Query:
    """A streaming query that has made some reports."""

    def __init__(self, *reports: Any, active: bool = False) -> None:
        self.recentProgress = list(reports)
        self.isActive = active
        self.status = {"isTriggerActive": active, "isDataAvailable": active}

    @property
    def lastProgress(self) -> Any:  # noqa: N802
        return self.recentProgress[-1] if self.recentProgress else None


class Fake:
    """What runs, as far as metrics look at it."""

    def __init__(self, progress: Progress) -> None:
        self.progress = progress


def test_reports_are_added_up_once() -> None:
    following = Following()
    query = Query(report(0, "restore"), report(1), active=True)
    following.take(query)
    idle = {**report(1), "durationMs": {"triggerExecution": 5}, "numInputRows": 0}
    query.recentProgress += [idle, report(2, "redo")]
    told = following.take(query)
    assert (told.batches, told.rows) == (3, 30)
    assert told.totals["deltas"] == 3 * 2 * 4
    assert {name: told.totals[name] for name in ("hits", "misses", "redos")} == {
        "hits": 2,
        "misses": 2,
        "redos": 2,
    }
    assert told.rate == 30 / 1.5
    assert told.batch_seconds == 0.5
    assert told.waiting == {("0", "numFilesOutstanding"): 3.0}
    assert told.lag > 0
    assert following.take(Query(*query.recentProgress)).lag == 0
    assert Following().take(Query()) == Progress(totals=dict.fromkeys(told.totals, 0))


def test_a_shard_that_takes_much_longer_is_hot() -> None:
    following = Following()
    assert following.take(Query(report(0, seconds=(0.1, 0.1, 0.9)))).hot == (2,)
    assert Following().take(Query(report(0, seconds=(0.9,)))).hot == ()


def test_metrics_are_served_on_this_machine() -> None:
    told = Following().take(Query(report(0, "restore"), report(1)))
    with metrics.served(Fake(told), 0) as port:  # type: ignore[arg-type]
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/metrics") as page:
            lines = page.read().decode().splitlines()
        with pytest.raises(InputError, match="cannot be served"), metrics.served(Fake(told), port):  # type: ignore[arg-type]
            pass
    for line in (
        "rankcast_batches_total 2.0",
        "rankcast_rows_total 20.0",
        "rankcast_batch_seconds 0.5",
        "rankcast_lag_seconds 0.0",
        'rankcast_source_waiting{source="0",what="numFilesOutstanding"} 3.0',
        'rankcast_shard_rows_total{shard="1"} 20.0',
        'rankcast_shard_deltas_total{shard="0"} 8.0',
        'rankcast_shard_candidates_total{shard="0"} 40.0',
        'rankcast_shard_hits_total{shard="0"} 1.0',
        'rankcast_shard_misses_total{shard="0"} 1.0',
        'rankcast_shard_redos_total{shard="0"} 0.0',
        'rankcast_shard_restore_seconds_total{shard="0"} 1.0',
        'rankcast_shard_seconds_total{shard="1"} 0.2',
    ):
        assert line in lines


TOLD = pa.table(
    {
        "subscription": ["ann", "ann", "bob", None],
        "op": ["leave", "enter", "update", "refused"],
        "item": [1, 2, 3, 4],
        "score": [None, 0.25, 0.5, None],
        "rank": [None, 1, 2, None],
        "reason": [None, None, None, "no such object"],
    }
)


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


def test_lines_where_there_is_no_terminal() -> None:
    screen = io.StringIO()
    following = Following()
    with View("quotes", screen) as view:
        view.changed(0, TOLD)
        view.show(following.take(Query(report(0, seconds=(0.1, 0.1, 0.9)))))
        view.show(following.take(Query(report(0, seconds=(0.1, 0.1, 0.9)))))
    assert screen.getvalue().splitlines() == [
        "  ann: -1",
        "  ann: +2 0.25 (rank 1)",
        "  bob: ~3 0.5 (rank 2)",
        "  None: no such object",
        "micro-batch 0: 10 rows, 12 deltas, 3 refused, 0.50 s, 20 rows/s; hot shards: 2 "
        "(rankcast reshard --shards 3 --load 0=0.1,1=0.1,2=0.9 evens them out)",
    ]


def test_a_live_table_on_a_terminal() -> None:
    screen = Terminal()
    with View("quotes", screen, rows=1) as view:
        view.changed(0, TOLD.slice(0, 3))
        view.show(Following().take(Query(report(0, seconds=(0.1, 0.1, 0.9)))))
    shown = screen.getvalue()
    assert "quotes: 1 micro-batches, 10 rows, 20 rows/s" in shown
    assert "2 hot" in shown
    assert "bob" in shown
    assert "ann" not in shown


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (
            "[DATA_SOURCE_NOT_FOUND] Failed to find the data source: kafka. Make sure. SQLSTATE: 42K02\nat x",
            "Spark says: Failed to find the data source: kafka. Make sure.\nHint: Name its package in "
            '[spark], for example jars.packages = "group:artifact:version".',
        ),
        (
            "An error occurred while calling o1.x.\n: org.apache.spark.SparkException: Error\n"
            'Traceback (most recent call last):\n  File "a.py", line 1\nImportError: no module\nmore',
            "a Python worker has failed: ImportError: no module",
        ),
        (
            "[FAILED]\nTraceback (most recent call last):\nrankcast.errors.InputError: column is bad\n",
            "the pipeline has stopped: column is bad",
        ),
        (
            "[FAILED]\nrankcast.errors.InputError: column is bad\nDetail: Row 3.\nHint: Mend it.\n",
            "the pipeline has stopped: column is bad\nDetail: Row 3.\nHint: Mend it.",
        ),
        ("[PATH_NOT_FOUND] Path does not exist: a. SQLSTATE: 1", "Spark says: Path does not exist: a."),
    ],
)
def test_what_spark_says_in_a_few_lines(text: str, told: str) -> None:
    assert str(explained(text)) == told
