"""Pipelines into tables of Delta: current lists by MERGE, deltas by day; nothing twice, whenever it dies.

Tables are read back with Spark and with DuckDB, which reads those Parquet files that the table's log names:
its extension for Delta has to be downloaded, this has not.
"""

from __future__ import annotations

import json
import signal
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import duckdb
import pytest

from rankcast.pipeline import start
from rankcast.pipeline.toml_reader import PipelineError
from tests.spark import hosts, stories
from tests.spark.piped import PATIENCE, Command, Piped
from tests.spark.stories import told_of

pytestmark = pytest.mark.tables

Row = dict[str, Any]


def live_files(table: Path) -> list[str]:
    """The files that the log of a table names."""
    assert not list((table / "_delta_log").glob("*.checkpoint*")), "the log is longer than this reads"
    live: set[str] = set()
    for path in sorted((table / "_delta_log").glob("*.json")):
        for line in path.read_text().splitlines():
            action = json.loads(line)
            if "remove" in action:
                live.discard(action["remove"]["path"])
            if "add" in action:
                assert not action["add"].get("deletionVector")
                live.add(action["add"]["path"])
    return [str(table / name) for name in sorted(live)]


def by_duckdb(table: Path) -> list[Row]:
    files = live_files(table)
    if not files:
        return []
    query = duckdb.execute("select * from read_parquet(?, hive_partitioning = true)", [files])
    names = [column[0] for column in query.description or ()]
    return [dict(zip(names, row, strict=True)) for row in query.fetchall()]


def by_spark(spark: Any, table: Path) -> list[Row]:
    rows: list[Row] = spark.read.format("delta").load(str(table)).toArrow().to_pylist()
    return rows


def ordered(rows: list[Row]) -> list[tuple[Any, ...]]:
    return sorted((tuple(sorted(row.items())) for row in rows), key=str)


def check(pipeline: Piped) -> None:
    """Lists are those of one process after the same micro-batches, and so are deltas and refused rows."""
    refused: list[int] = []
    told, engine = pipeline.as_cut().expected(refused)
    lists = pipeline.folder / "lists"
    deltas = by_spark(pipeline.spark, lists / "deltas")
    assert sorted(map(told_of, deltas), key=str) == told
    assert ordered(by_duckdb(lists / "deltas")) == ordered(deltas)
    today = datetime.now(UTC).date()
    assert {row["day"] for row in deltas} <= {today, today - timedelta(days=1)}
    results = by_spark(pipeline.spark, lists / "results")
    names = results[0].keys()
    final = engine.results().to_pylist()  # type: ignore[attr-defined]
    assert ordered(results) == ordered([{name: row[name] for name in names} for row in final])
    assert ordered(by_duckdb(lists / "results")) == ordered(results)
    aside = by_spark(pipeline.spark, lists / "refused") if (lists / "refused").exists() else []
    assert sorted(row["seq"] for row in aside) == sorted(refused)


@pytest.mark.parametrize("name", ["range_topk", "moving_topk"])
def test_lists_are_current(name: str, spark: Any, tmp_path: Path) -> None:
    """After every micro-batch, also if Spark has forgotten the last one and repeats it."""
    given = {"worded": True} if name == "range_topk" else {}
    story = getattr(stories, name)(81, count=3, size=24, **given)
    pipeline = Piped(spark, name, story, tmp_path, "delta")
    for count in (2, 3):
        pipeline.offer(story.batches[pipeline.offered : count])
        pipeline.run()
        check(pipeline)
        for path in (f"{count - 1}", f".{count - 1}.crc"):
            (tmp_path / "checkpoint" / "commits" / path).unlink(missing_ok=True)
    assert pipeline.run().progress.batches == 1
    check(pipeline)
    if name == "range_topk":
        _refuses_others(pipeline)


def _refuses_others(pipeline: Piped) -> None:
    text = pipeline.file.read_text().replace('"checkpoint"', '"elsewhere"', 1)
    (pipeline.folder / "other.toml").write_text(text)
    from rankcast.pipeline import read

    running = start(read(pipeline.folder / "other.toml", {}), pipeline.spark, once=True)
    try:
        with pytest.raises(PipelineError, match="has the results of another checkpoint"):
            running.wait()
    finally:
        running.stop()


def test_matches_are_appended(spark: Any, tmp_path: Path) -> None:
    story = stories.matching(82, count=2, size=24)
    pipeline = Piped(spark, "matching", story, tmp_path, "delta")
    pipeline.offer(story.batches)
    pipeline.run()
    rows = by_spark(spark, tmp_path / "lists" / "matches")
    assert sorted(map(told_of, rows), key=str) == pipeline.as_cut().expected()[0]
    assert not (tmp_path / "lists" / "results").exists()


@pytest.mark.parametrize("table", ["deltas", "results"])
def test_killed_between_merge_and_commit(table: str, spark: Any, tmp_path: Path) -> None:
    """The application dies when one table has a micro-batch that is not committed; then it comes again."""
    story = stories.range_topk(83, count=3, size=30, worded=True)
    pipeline = Piped(spark, "range_topk", story, tmp_path, "delta")
    pipeline.offer(story.batches[:2])
    command = Command(tmp_path, "--once", **hosts.environment(tmp_path / "scratch"))
    log = tmp_path / "lists" / table / "_delta_log"
    try:
        limit = time.monotonic() + PATIENCE
        while not (log / f"{2:020d}.json").exists():  # 0: made, 1: the first micro-batch, 2: the second
            assert time.monotonic() < limit, command.errors()
        command.signal(signal.SIGSTOP)
        assert hosts.committed(tmp_path) == 1
    finally:
        command.kill()
    pipeline.offer(story.batches[2:])
    pipeline.run()
    check(pipeline)
    log_of = (tmp_path / "lists" / "results" / "_delta_log").glob("*.json")
    actions = [json.loads(line) for path in log_of for line in path.read_text().splitlines()]
    versions = [each["txn"]["version"] for each in actions if "txn" in each]
    assert sorted(versions) == [0, 1, 2]
