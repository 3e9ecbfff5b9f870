"""Matching against a table: no shards, the same answers and refused rows, names that outlive a retry."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rankcast import RankedMatcher
from rankcast.errors import InputError, ShardError
from rankcast.spark import Watcher, continuous, plan, shard, snapshot, stateless
from rankcast.spark.packing import Packing
from rankcast.spark.shard import METRICS
from rankcast.spark.streams import without_shards
from rankcast.state.depot import Depot
from tests.spark import stories
from tests.spark.pretend import Cluster
from tests.spark.runs import Stream
from tests.spark.stories import Batch, Story, told_of
from tests.spark.test_streams import watched

ODD: list[dict[str, Any]] = [  # rows that are refused, each for a reason of its own
    {"seq": 5001, "id": None, "x": 1.0, "z": 1.0, "job": "cook", "exclude": None},
    {"seq": 5002, "id": "n", "x": float("nan"), "z": 1.0, "job": "cook", "exclude": None},
    {"seq": None, "id": "u", "x": 1.0, "z": 1.0, "job": "cook", "exclude": None},
    {"seq": 5003, "id": "i", "x": float("inf"), "z": None, "job": None, "exclude": None},
]


class Tasks:
    """A stream without shards, task by task, without Spark."""

    def __init__(self, cluster: Cluster, monkeypatch: pytest.MonkeyPatch, **given: Any) -> None:
        self.cluster = cluster
        self.batch = 0
        stateless._KEPT.clear()
        monkeypatch.setattr(shard, "query_and_batch", lambda: (cluster.query, self.batch))
        self.answering = stateless.Answering(
            without_shards(cluster.plan).to_json(),
            cluster.state,
            Packing("events", (), True, "seq", False),
            **{"strict": False, "trace": False, **given},
        )

    def run(self, batch: Batch, size: int = 7) -> list[dict[str, Any]]:
        """The rows that a micro-batch is answered with, read in parts of `size`."""
        rows = pa.Table.from_pylist(batch["events"], schema=self.cluster.story.schema("events"))
        parts = rows.to_batches(max_chunksize=size)
        found = pa.Table.from_batches(list(self.answering(iter(parts)))).to_pylist()
        self.batch += 1
        *answers, last = found
        self.told = json.loads(last[METRICS])
        return [
            {**row, "op": "match" if row["reason"] is None else "refused"}
            for row in answers
            if row[METRICS] is None
        ]


@pytest.mark.parametrize("seed", range(4))
def test_the_answers_and_refused_rows_are_those_of_shards(
    seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = stories.matching(seed, table=True)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=2)
    story.batches[1]["events"] += ODD
    for batch in story.batches:
        cluster.run(batch)
    tasks = Tasks(cluster, monkeypatch)
    rows = [row for batch in story.batches for row in tasks.run(batch)]
    told = sorted((told_of(row) for row in rows if row["op"] == "match"), key=str)
    refused = sorted((row["seq"] is None, row["seq"], row["reason"]) for row in rows if row["op"] != "match")
    assert told == cluster.told()
    assert len(told) > 50
    assert refused == [(row["seq"] is None, row["seq"], row["reason"]) for row in cluster.refused()]
    assert len(refused) == len(ODD)
    assert tasks.told["how"] == "hit"
    good = Story(story.make, story.columns, _without(story, ODD), story.tables)
    assert told == good.expected()[0]


def _without(story: Story, odd: list[Any]) -> list[Batch]:
    return [{"events": [row for row in batch["events"] if row not in odd]} for batch in story.batches]


def test_rows_that_the_table_was_refused_are_told_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = stories.matching(2, table=True)
    story.tables["subscriptions"][3]["score"] = float("nan")
    tasks = Tasks(Cluster(story, tmp_path, monkeypatch, shards=1), monkeypatch, trace=True)
    first, second = (tasks.run(batch) for batch in story.batches[:2])
    refused = [row for row in first if row["op"] == "refused"]
    assert [row["subscription"] for row in refused] == [3]
    assert not [row for row in second if row["op"] == "refused"]
    assert [(row["shard"], row["n"]) for row in refused] == [(-1, 0)]


def test_a_row_has_the_same_name_however_its_micro_batch_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of rows with a number: a retry may cut files into other partitions."""
    story = stories.matching(1, table=True)
    story.batches[0]["events"] += ODD
    tasks = Tasks(Cluster(story, tmp_path, monkeypatch, shards=1), monkeypatch, trace=True)
    named = []
    for size in (3, 1000):
        tasks.batch = 7
        rows = [row for row in tasks.run(story.batches[0], size) if row["seq"] is not None]
        names = {(row["query"], row["batch"], row["shard"], row["n"]): told_of(row) for row in rows}
        assert len(names) == len(rows)
        named.append(names)
    assert named[0] == named[1]
    assert {key[3] for key in named[0]} == {-1, 0, 1, 2}


def test_the_first_bad_row_ends_a_strict_stream(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = stories.matching(1, table=True)
    tasks = Tasks(Cluster(story, tmp_path, monkeypatch, shards=1), monkeypatch, strict=True)
    with pytest.raises(InputError, match="is null"):
        tasks.run({"events": ODD[:1]})


def test_a_worker_that_serves_two_streams_keeps_them_apart(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story, other, real = stories.matching(1, table=True), stories.matching(9, table=True), Depot.open
    first = Tasks(Cluster(story, tmp_path / "a", monkeypatch, shards=1), monkeypatch)
    alone = [first.run(batch) for batch in story.batches]
    theirs = real(str(tmp_path / "b" / "state"))
    second = Tasks(Cluster(other, tmp_path / "b", monkeypatch, shards=1, depot=theirs), monkeypatch)
    second.run(other.batches[0])
    monkeypatch.setattr(shard, "query_and_batch", lambda: (first.cluster.query, 1))
    monkeypatch.setattr(shard, "depot_of", lambda _: first.cluster.depot)
    assert first.run(story.batches[1]) == alone[1]
    assert first.told["how"] == "restore"


@pytest.fixture
def stream(spark: Any, tmp_path: Path) -> Stream:
    story = stories.matching(5, count=3, table=True)
    story.batches[1]["events"] += ODD
    return Stream(spark, story, tmp_path)


def test_a_stream_without_shards_on_spark(spark: Any, tmp_path: Path, stream: Stream) -> None:
    """Across a restart; counters come as those of one shard, and no state store is written."""
    story = stream.story
    watcher = Watcher(forget=True)
    spark.streams.addListener(watcher)
    stream.offer(story.batches[:2])
    first = stream.run()
    stream.offer(story.batches[2:])
    second = stream.run()
    good = Story(story.make, story.columns, _without(story, ODD), story.tables)
    assert stream.told() == good.expected()[0]
    assert [row["seq"] for row in stream.refused()] == [5001, 5002, 5003, None]
    assert first.id == second.id
    assert not (tmp_path / "checkpoint" / "state").exists()
    assert plan.read(Depot.open(str(tmp_path / "state"))).stateless  # type: ignore[union-attr]
    totals = watched(watcher, str(second.id), batches=3)
    spark.streams.removeListener(watcher)
    assert totals[0]["rows"] == sum(len(batch["events"]) for batch in story.batches)
    assert totals[0]["deltas"] == len(stream.told())
    assert totals[0]["refused"] == len(ODD)


def test_a_history_goes_on_without_shards_and_commands_are_refused(spark: Any, tmp_path: Path) -> None:
    boxes = spark.createDataFrame([(1, 0.0, 9.0, 1.0)], "id long, x_lo double, x_hi double, score double")
    events = spark.createDataFrame([(1, 5, 3.0), (2, 6, 20.0)], "seq long, id long, x double")
    engine, state = RankedMatcher(over=["x"], k=1), str(tmp_path / "state")
    assert snapshot(engine, events, boxes, state=state, shards=2).count() == 1
    found = plan.read(Depot.open(state))
    assert found is not None
    assert found.stateless
    assert found.cut == 2
    (tmp_path / "none").mkdir()
    commands = spark.readStream.schema("seq long, op string, " + boxes._jdf.schema().toDDL())
    rows = spark.readStream.schema("seq long, id long, x double").parquet(str(tmp_path / "none"))
    with pytest.raises(ShardError, match="now they are a stream of commands"):
        continuous(engine, rows, commands.parquet(str(tmp_path / "none")), state=state)
    continuous(engine, rows, boxes, state=state, shards=7)
