"""Batch jobs on Spark: a whole history at once, going on from it as a stream, boxes nothing contains."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rankcast
from rankcast.errors import InputError, ShardError
from rankcast.spark import snapshot, split, uncovered
from tests.spark import stories
from tests.spark.runs import Stream
from tests.spark.stories import Batch, Story, told_of


def static(spark: Any, story: Story, batches: list[Batch], parts: int = 1) -> dict[str, Any]:
    """The rows of some micro-batches, and the tables of a story, as static DataFrames of so many parts."""
    found = {}
    for name in story.columns:
        form = story.schema(name)
        rows = (
            story.tables[name] if name in story.tables else [row for batch in batches for row in batch[name]]
        )
        found[name] = spark.createDataFrame(pa.Table.from_pylist(rows, schema=form)).coalesce(parts)
    return found


def results(story: Story) -> list[tuple[Any, ...]]:
    """The results of one process at the end, as deltas tell them."""
    top = max(row["seq"] for batch in story.batches for rows in batch.values() for row in rows)
    rows = story.expected()[1].results().to_pylist()  # type: ignore[attr-defined]
    return sorted(
        ((row["subscription"], "enter", row["item"], row["score"], row["rank"], top) for row in rows), key=str
    )


@pytest.mark.parametrize("name", ["moving_topk", pytest.param("range_topk", marks=pytest.mark.spark)])
def test_a_whole_history_gives_the_results_at_its_end(name: str, spark: Any) -> None:
    story = getattr(stories, name)(21, table=name == "range_topk")
    frame = snapshot(story.make(), **static(spark, story, story.batches), shards=3)
    assert {part.columns[-1] for part in split(frame)} == {"seq", "reason"}
    rows = frame.toArrow().to_pylist()
    assert sorted((told_of(row) for row in rows), key=str) == results(story)
    assert {row["op"] for row in rows} == {"enter"}


def test_a_history_of_matches(spark: Any) -> None:
    story = stories.matching(22)
    frames = static(spark, story, story.batches, parts=2)
    rows = snapshot(story.make(), **frames, shards=2).toArrow().to_pylist()
    assert sorted((told_of(row) for row in rows), key=str) == story.recut([]).expected()[0]


def test_a_stream_goes_on_from_a_history_without_gap_or_double(spark: Any, tmp_path: Path) -> None:
    story = stories.range_topk(23, count=3)
    state = str(tmp_path / "state")
    history = snapshot(story.make(), **static(spark, story, story.batches[:2]), state=state, shards=2)
    begun = Story(story.make, story.columns, story.batches[:2])
    assert sorted((told_of(row) for row in history.toArrow().to_pylist()), key=str) == results(begun)
    with pytest.raises(ShardError, match="has a stream already"):
        snapshot(story.make(), **static(spark, story, story.batches[:2]), state=state)

    # The stream begins one micro-batch too early: what the history has is left out.
    stream = Stream(spark, story, tmp_path)
    stream.offer(story.batches[1:])
    stream.run()
    top = max(row["seq"] for batch in story.batches[:2] for rows in batch.values() for row in rows)
    assert stream.told() == [row for row in story.expected()[0] if row[-1] > top]


def test_a_table_of_subscriptions_cannot_go_on_as_commands(spark: Any, tmp_path: Path) -> None:
    story = stories.range_topk(24, count=1, table=True)
    state = str(tmp_path / "state")
    snapshot(story.make(), **static(spark, story, story.batches), state=state, shards=2)
    commands = stories.range_topk(24, count=1)
    stream = Stream(spark, commands, tmp_path)
    stream.offer(commands.batches)
    with pytest.raises(ShardError, match="now they are a stream of commands"):
        stream.deltas()


def test_a_table_with_an_id_twice_tells_it_once(spark: Any, tmp_path: Path) -> None:
    story = stories.range_topk(25, count=2, table=True)
    expected = story.expected()[0]
    rows = story.tables["subscriptions"]
    story.tables["subscriptions"] = [
        *rows,
        {**rows[3]},
        {**rows[4], "x_lo": 9.0, "x_hi": 1.0, "id": "odd"},
        {**rows[5], "id": None},
    ]
    stream = Stream(spark, story, tmp_path, shards=3)
    stream.offer(story.batches)
    stream.run()
    assert stream.told() == expected
    told = sorted((str(row["subscription"]), row["seq"]) for row in stream.refused())
    assert told == [("None", None), ("odd", None), (rows[3]["id"], None)]


def test_uncovered_boxes(spark: Any) -> None:
    rng = np.random.default_rng(5)
    low = rng.integers(0, 6, (200, 2)).astype(float)
    high = low + rng.integers(0, 5, (200, 2))
    rows = {
        "id": np.arange(200),
        "x_lo": low[:, 0],
        "x_hi": high[:, 0],
        "y_lo": low[:, 1],
        "y_hi": high[:, 1],
    }
    table = pa.table(rows)
    expected = rankcast.maxima(table, over=["x", "y"])["id"].to_pylist()
    frame = spark.createDataFrame(table.to_pandas()).repartition(3)
    found = uncovered(frame, over=["x", "y"])
    assert found.columns == frame.columns
    assert sorted(row["id"] for row in found.toArrow().to_pylist()) == sorted(expected)
    with pytest.raises(InputError, match='"id" of "subscriptions" is missing'):
        uncovered(frame.drop("id"), over=["x", "y"])


def test_streams_are_refused(spark: Any, tmp_path: Path) -> None:
    story = stories.range_topk(26, count=1)
    stream = Stream(spark, story, tmp_path)
    stream.offer(story.batches)
    with pytest.raises(InputError, match="is a stream"):
        snapshot(story.make(), **stream.frames())
