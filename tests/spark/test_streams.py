"""Streams on Spark: the laws, restarts, and what is refused."""

from __future__ import annotations

import shutil
import time
from pathlib import Path
from typing import Any

import pytest

from rankcast import CoveringTable, RangeTopK
from rankcast.errors import InputError, ShardError
from rankcast.spark import Watcher, continuous, scratch, split
from rankcast.spark.plan import FORMAT
from tests.spark import stories
from tests.spark.runs import Stream, hows
from tests.spark.stories import Story
from tests.spark.test_pretended import STORIES

RESTARTED = [
    "range_topk",
    *(
        pytest.param(name, marks=pytest.mark.spark)
        for name in ("matching", "moving_topk", "geotext", "moving_skyline")
    ),
]
TABLES = [
    "geotext",
    *(pytest.param(name, marks=pytest.mark.spark) for name in ("moving_skyline", "range_topk")),
]


@pytest.mark.parametrize("name", RESTARTED)
def test_a_stream_gives_the_deltas_of_one_process_across_a_restart(
    name: str, spark: Any, tmp_path: Path
) -> None:
    """With scratch kept or lost; of range top-k also other micro-batches, which end in the same results."""
    worded = {"worded": True} if name == "range_topk" else {}
    story = whole = STORIES[name](11, count=3, **worded)
    if name == "range_topk":
        story = whole.recut([3, 50])
    stream = Stream(spark, story, tmp_path, shards=3)
    stream.offer(story.batches[:2])
    first = stream.run()
    lost = name != "matching"
    if lost:
        scratch.forget(str(first.id))
    stream.offer(story.batches[2:])
    second = stream.run()
    assert stream.told() == story.expected()[0]
    assert stream.refused() == []
    assert second.id == first.id
    assert hows(first) == ["restore"] * 3 + ["hit"] * 3
    assert hows(second) == ["restore" if lost else "hit"] * 3
    if name == "range_topk":
        assert held(stream.told()) == results(whole)


def held(told: list[tuple[Any, ...]]) -> dict[Any, dict[Any, Any]]:
    """The items of each subscription, and their scores, that deltas lead to."""
    found: dict[Any, dict[Any, Any]] = {}
    for subscription, op, item, score, _, _ in sorted(told, key=lambda row: (row[-1], row[1] != "leave")):
        if op == "leave":
            del found[subscription][item]
        else:
            found.setdefault(subscription, {})[item] = score
    return {name: items for name, items in found.items() if items}


def results(story: Story) -> dict[Any, dict[Any, Any]]:
    """The same of one process at the end."""
    found: dict[Any, dict[Any, Any]] = {}
    for row in story.expected()[1].results().to_pylist():  # type: ignore[attr-defined]
        found.setdefault(row["subscription"], {})[row["item"]] = row["score"]
    return found


@pytest.mark.parametrize("name", TABLES)
def test_tables_and_a_watcher(name: str, spark: Any, tmp_path: Path) -> None:
    story = STORIES[name](12, count=2, table=True)
    stream = Stream(spark, story, tmp_path, shards=2, snapshot_batches=1)
    watcher = Watcher(forget=True)
    spark.streams.addListener(watcher)
    stream.offer(story.batches)
    query = stream.run()
    expected = story.expected()[0]
    assert stream.told() == expected
    totals = watched(watcher, str(query.id), batches=2)
    spark.streams.removeListener(watcher)
    assert len(totals) == 2
    assert sum(total["deltas"] for total in totals.values()) == len(expected)
    assert all(total["batches"] == 2 and total["seconds"] > 0 for total in totals.values())


def watched(watcher: Watcher, query: str, *, batches: int) -> dict[int, dict[str, float]]:
    """What a watcher has counted, once Spark has told it of so many micro-batches."""
    for _ in range(100):
        totals = watcher.totals(query)
        if totals and all(total["batches"] >= batches for total in totals.values()):
            break
        time.sleep(0.1)
    return totals


def test_a_state_or_a_checkpoint_made_for_something_else_is_refused(spark: Any, tmp_path: Path) -> None:
    story = stories.range_topk(14, count=2)
    stream = Stream(spark, story, tmp_path, shards=2)
    stream.offer(story.batches[:1])
    stream.run()
    with pytest.raises(ShardError, match="has 2 shards, not 3"):
        Stream(spark, story, tmp_path, shards=3).deltas()
    story.make = lambda: RangeTopK(k=4)
    with pytest.raises(ShardError, match="its settings differ"):
        stream.deltas()
    shutil.rmtree(tmp_path / "state")
    stream.offer(story.batches[1:])
    with pytest.raises(Exception, match="the checkpoint belongs to another plan"):
        stream.run()
    plan = tmp_path / "state" / "plan.json"
    plan.write_text(plan.read_text().replace(f'"format": {FORMAT}', '"format": 9'))
    with pytest.raises(ShardError, match="format 9"):
        stream.deltas()


def test_bad_rows_are_told_and_disturb_nothing(spark: Any, tmp_path: Path) -> None:
    story = stories.range_topk(16, count=1, worded=True)
    expected = story.expected()[0]
    top = max(row["seq"] for rows in story.batches[0].values() for row in rows)
    bounds = {"x_lo": 0.0, "x_hi": 1.0, "k": None}
    story.batches[0]["events"] += [
        {"seq": -3, "id": None, "x": 1.0, "y": 1.0, "op": "upsert"},
        {"seq": -2, "id": 77, "x": 1.0, "y": None, "op": "upsert"},
        {"seq": None, "id": 78, "x": 1.0, "y": 2.0, "op": "upsert"},
        {"seq": -12, "id": 1, "x": 1.0, "y": 1.0, "op": "subscribe"},
        {"seq": -11, "id": 2, "x": 1.0, "y": 1.0, "op": None},
        {"seq": -10, "id": 79, "x": 1.0, "y": 1.0, "op": "remove"},
    ]
    story.batches[0]["subscriptions"] += [
        {"seq": -9, "op": "amend", "id": "nobody", **bounds},
        {"seq": -8, "op": "unsubscribe", "id": "nobody", **bounds},
        {"seq": -7, "op": "destroy", "id": "s1", **bounds},
        {"seq": -6, "op": "subscribe", "id": "odd", **bounds, "x_lo": 5.0},
        {"seq": -5, "op": "subscribe", "id": "odd", **bounds, "x_lo": float("nan")},
        {"seq": -4, "op": "subscribe", "id": None, **bounds},
    ]
    stream = Stream(spark, story, tmp_path, shards=2)
    stream.offer(story.batches)
    stream.run()
    assert stream.told() == expected
    assert max(row["seq"] for row in stream.rows() if row["op"] != "refused") == top
    told = [(row["seq"], row["subscription"], row["item"], row["reason"]) for row in stream.refused()]
    assert [row[:3] for row in told] == [
        (-12, None, 1),
        (-11, None, 2),
        (-10, None, 79),
        (-9, "nobody", None),
        (-8, "nobody", None),
        (-7, "s1", None),
        (-6, "odd", None),
        (-5, "odd", None),
        (-4, None, None),
        (-3, None, None),
        (-2, None, 77),
        (None, None, 78),
    ]
    reasons = [
        '"op" of "events" is "subscribe", expected one of: upsert, remove',
        '"op" of "events" is null',
        "object 79, which is not there",
        "not known",
        "not known",
        "destroy",
        "above the upper end",
        "NaN",
        "is null",
        "is null",
        "is null for object 77",
        "null",
    ]
    assert all(reason in row[3] for reason, row in zip(reasons, told, strict=True)), told
    deltas, refused = split(spark.read.parquet(str(tmp_path / "out")))
    assert refused.count() == 12
    assert deltas.columns == ["subscription", "op", "item", "score", "rank", "seq"]


def test_arguments_are_checked_before_anything_runs(spark: Any, tmp_path: Path) -> None:
    story = stories.range_topk(18, count=1)
    stream = Stream(spark, story, tmp_path)
    stream.offer(story.batches)
    frames = stream.frames()
    state = str(tmp_path / "state")
    with pytest.raises(InputError, match="CoveringTable cannot run continuously"):
        continuous(CoveringTable(over=["x"]), **frames, state=state)
    with pytest.raises(InputError, match="an absolute path or URI"):
        continuous(story.make(), **frames, state="state")
    with pytest.raises(InputError, match='"seq" of "events" is missing'):
        continuous(story.make(), **{**frames, "events": frames["events"].drop("seq")}, state=state)
    with pytest.raises(InputError, match='"op" of "subscriptions" is missing'):
        continuous(
            story.make(), **{**frames, "subscriptions": frames["subscriptions"].drop("op")}, state=state
        )
    table = spark.createDataFrame([(1, 2, 3.0, 4.0)], "seq long, id long, x double, y double")
    for odd, told in (
        (frames["events"].withColumnRenamed("x", "z"), 'unknown column "z"'),
        (frames["events"].withColumn("x", frames["events"].x.cast("string")), '"x" of "events" has the type'),
        (frames["events"].withColumn("seq", frames["events"].x), '"seq" of "events" has the type double'),
        (table, "static DataFrame"),
    ):
        with pytest.raises(InputError, match=told):
            continuous(story.make(), **{**frames, "events": odd}, state=state)
    with pytest.raises(InputError, match="RangeTopK has no objects"):
        continuous(story.make(), **frames, objects=frames["events"], state=state)
    commands = spark.createDataFrame([(1, "subscribe", "a")], "seq long, op string, id string")
    with pytest.raises(InputError, match='unknown column "'):
        continuous(story.make(), **{**frames, "subscriptions": commands}, state=state)
    busy = story.make()
    busy.subscribe({"id": ["a"]})  # type: ignore[attr-defined]
    with pytest.raises(InputError, match="configured and empty"):
        continuous(busy, **frames, state=state)
    assert not (tmp_path / "state" / "plan.json").exists()


def test_a_session_of_ones_own_is_checked(spark: Any, tmp_path: Path) -> None:
    story = stories.range_topk(18, count=1)
    stream = Stream(spark, story, tmp_path)
    stream.offer(story.batches)
    key = "spark.sql.streaming.stateStore.providerClass"
    before = spark.conf.get(key)
    spark.conf.set(key, "org.apache.spark.sql.execution.streaming.state.HDFSBackedStateStoreProvider")
    try:
        with pytest.raises(InputError, match="expected RocksDBStateStoreProvider"):
            stream.deltas()
    finally:
        spark.conf.set(key, before)
