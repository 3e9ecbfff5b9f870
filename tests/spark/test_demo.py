"""`rankcast demo`: two pipelines on Spark, exact, quiet, with a report, and over when one says so."""

from __future__ import annotations

import io
import os
import re
import signal
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from rich.console import Console

from rankcast import GeoTextTopK, RangeTopK, cli
from rankcast.demo.pipelines import feeds, report
from rankcast.demo.pipelines.feeds import Feed
from rankcast.pipeline.sources import ENGLISH
from tests.spark import hosts

FILES = 2
PATIENCE = 300.0
WORD = re.compile(r"[^\W_]+(?:['\u2019][^\W_]+)*")


def expected(feed: Feed) -> pa.Table:
    """The results of one process over all rows."""
    rows = pa.concat_tables(feed.events).drop_columns(["seq"])
    engine: Any
    if feed.name == "quotes":
        engine = RangeTopK(over="risk", by="pe", k=3)
        rows = rows.rename_columns(["id", "risk", "pe"])
    else:
        engine = GeoTextTopK(metric="haversine", k=3, window=1500)
        words = [[each for each in WORD.findall(text.lower()) if each not in ENGLISH]
                 for text in rows["text"].to_pylist()]  # fmt: skip
        rows = rows.drop_columns(["text"]).append_column("terms", pa.array(words))
    engine.subscribe(feed.subscriptions)
    engine.publish(rows)
    return engine.results()


def plain(results: pa.Table) -> list[tuple[Any, ...]]:
    return sorted(
        zip(*(results[name].to_pylist() for name in ("subscription", "rank", "item", "score")), strict=True)
    )


def test_pipelines_tell_what_engines_do_and_leave_a_report(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    found = {}
    page = report.page

    def noting(flows: Any, seed: int) -> str:
        found.update({flow.feed.name: (flow.results(), flow) for flow in flows})
        return page(flows, seed)

    monkeypatch.setattr(report, "PAUSE", 0.0)
    monkeypatch.setattr(report, "page", noting)
    screen, target = io.StringIO(), tmp_path / "demo.html"
    assert (
        report.show(Console(file=screen, width=150), files=FILES, seed=5, target=target, session=spark) == 0
    )
    assert capfd.readouterr() == ("", "")  # engines of this process, below, may have kernels to compile
    for name, make in (("messages", feeds.messages), ("quotes", feeds.quotes)):
        results, flow = found[name]
        feed = make(5, FILES)
        assert plain(results) == plain(expected(feed))
        assert flow.rows == feed.rows
        assert len(flow.latencies) == FILES
        assert flow.deltas >= results.num_rows
        assert f"{name}: micro-batch 0: " in screen.getvalue()
    *_, page_line, live_line = screen.getvalue().splitlines()
    assert page_line.endswith(target.as_uri())
    assert "make live" in live_line
    for figure in ("world", "seconds", "latency", "deltas", "rates"):
        assert f'id="figure-{figure}"' in target.read_text()


def begun(folder: Path) -> bool:
    """Whether the first pipeline of a demonstration is at work."""
    return bool(list(folder.glob("rankcast-demo-*/messages-checkpoint/offsets/0")))


def test_ctrl_c_ends_it_quietly(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def interrupt() -> None:
        limit = time.monotonic() + PATIENCE
        while not begun(tmp_path) and time.monotonic() < limit:
            time.sleep(0.05)
        os.kill(os.getpid(), signal.SIGINT)

    sender = threading.Thread(target=interrupt)
    sender.start()
    target = tmp_path / "demo.html"
    code = cli.main(["demo", "--batches", "500", "--report", str(target)])
    sender.join()
    spark.sparkContext.setLogLevel("ERROR")
    told, errors = capfd.readouterr()
    ended_quietly(told, errors, code)
    assert not target.exists()
    assert not list(tmp_path.glob("rankcast-demo-*"))


def ended_quietly(told: str, errors: str, code: int) -> None:
    assert told.startswith("Two pipelines")
    assert told.endswith("stopped\n")
    assert (code, errors) == (130, "")


@pytest.mark.faults
def test_ctrl_c_ends_its_spark_quietly(tmp_path: Path) -> None:
    command = [sys.executable, "-c", "import sys; from rankcast.cli import main; sys.exit(main())"]
    environment = {**os.environ, **hosts.environment(tmp_path / "scratch"), "TMPDIR": str(tmp_path)}
    target = tmp_path / "demo.html"
    child = subprocess.Popen(
        [*command, "demo", "--batches", "500", "--report", str(target)],
        cwd=tmp_path,
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while child.poll() is None and not begun(tmp_path):
        time.sleep(0.05)
    child.send_signal(signal.SIGINT)
    told, errors = child.communicate(timeout=120)
    ended_quietly(told, errors, child.returncode)
    assert not target.exists()
    assert not list(tmp_path.glob("rankcast-demo-*"))


def test_a_feed_is_the_same_every_time_and_every_file_counts() -> None:
    for make in (feeds.messages, feeds.quotes):
        one, other = make(5, 3), make(5, 3)
        assert all(table.equals(twin) for table, twin in zip(one.events, other.events, strict=True))
        assert not one.events[1].equals(make(6, 3).events[1])
        seq = pa.concat_tables(one.events)["seq"].to_pylist()
        assert seq == list(range(one.rows))
    first, *later = feeds.quotes(5, 3).events
    before = dict(zip(first["ticker"].to_pylist(), first["pe"].to_pylist(), strict=True))
    after = {row["ticker"]: row["pe"] for table in later for row in table.to_pylist()}
    assert sum(before[ticker] != pe for ticker, pe in after.items()) > 0.9 * len(after)
