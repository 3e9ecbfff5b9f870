"""Other shards for a stream: the deltas go on as if there had never been others."""

from __future__ import annotations

import json
import shutil
import uuid
from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

from rankcast import GeoTextTopK, MovingSkyline, MovingTopK, RangeTopK, RankedMatcher
from rankcast.core.engine import Engine
from rankcast.errors import SettingError, ShardError
from rankcast.spark import reshard, resharding, scratch
from rankcast.spark.checkpoints import Checkpoint
from rankcast.spark.plan import Plan
from rankcast.spark.streams import without_shards
from rankcast.state.shard_cache import Live
from tests.spark import stories
from tests.spark.pretend import Cluster, settle
from tests.spark.runs import Stream, hows
from tests.spark.stories import Story
from tests.spark.test_pretended import SEEDS, STORIES, TABLES

ATTEMPTS = 6  # a busy machine starts Python workers too late for Spark
WAYS = [(2, 8, 2), (5, 3), (1, 4, 1)]


@pytest.mark.parametrize("seed", range(SEEDS))
@pytest.mark.parametrize("way", WAYS, ids=str)
@pytest.mark.parametrize("name", STORIES)
def test_deltas_go_on_with_other_shards(
    name: str, way: tuple[int, ...], seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Between micro-batches, whatever the log has of those since a snapshot; hosts keep their scratch."""
    story = STORIES[name](seed, count=3 * len(way), size=20)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=way[0])
    for place, batch in enumerate(story.batches):
        if place and place % 3 == 0:
            settle()
            cluster.reshard(way[place // 3])
        cluster.run(batch)
    assert cluster.told() == story.expected()[0]
    assert cluster.refused() == []
    assert len(cluster.plan.shards) == way[-1]


@pytest.mark.parametrize("name", TABLES)
def test_tables_are_divided_by_place_anew(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = STORIES[name](4, count=6, table=True)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=2)
    for place, batch in enumerate(story.batches):
        if place in (2, 4):
            zones = cluster.plan.zones
            cluster.reshard({2: 5, 4: 2}[place])
            assert (cluster.plan.zones is None) == (zones is None)
        cluster.run(batch)
    assert cluster.told() == story.expected()[0]


def test_a_hot_shard_is_divided_by_its_load(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With nine tenths of the load on one of two shards, it is cut in about nine of ten."""
    story = stories.geotext(4, count=4, table=True)
    rows = story.tables["subscriptions"]
    story.tables["subscriptions"] = [
        {**rows[i % 20], "id": f"t{i}", "x": i % 30 / 5, "y": i % 7 / 2} for i in range(400)
    ]
    cluster = Cluster(story, tmp_path, monkeypatch, shards=2)
    for batch in story.batches[:2]:
        cluster.run(batch)
    hot, cold = cluster.plan.shards
    before = _sizes(cluster)
    cluster.reshard(10, loads={hot: 9.0, cold: 1.0})
    cluster.run(story.batches[2])
    after = _sizes(cluster)
    assert sum(before.values()) == sum(after.values()) == 400
    large = [each for each, size in after.items() if size > 100]
    assert len(large) == 1
    cluster.run(story.batches[3])
    assert cluster.told() == story.expected()[0]


def _sizes(cluster: Cluster) -> dict[int, int]:
    """How many subscriptions each shard has on its host."""
    found = {}
    for each in cluster.plan.shards:
        live = Live(scratch.of_shard(cluster.query, each))
        with live.held():
            live.place()
            found[each] = len(live.open(type(cluster.story.make()), {}, ours=True, mode="copy-on-write"))
    return found


def test_shards_that_never_ran_are_divided_as_well(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = stories.geotext(6, count=4)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=2)
    for batch in story.batches[:2]:
        cluster.run(batch)
    cluster.reshard(8)
    cluster.reshard(3)
    for batch in story.batches[2:]:
        cluster.run(batch)
    assert cluster.told() == story.expected()[0]
    assert len(cluster.plan.former) == 2


def test_the_former_state_can_go_on_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What was there is left as it was; attempts that are given up after it change nothing either."""
    story = stories.range_topk(6, count=4)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=2)
    for batch in story.batches[:2]:
        cluster.run(batch)
    settle()
    before = cluster.plan, cluster.state, cluster.depot, dict(cluster.store)
    cluster.reshard(4)
    packed = cluster.packed(story.batches[2])
    for each in cluster.plan.shards:
        cluster.attempt(each, packed)
    cluster.plan, cluster.state, cluster.depot, cluster.store = before
    for batch in story.batches[2:]:
        cluster.run(batch)
    assert cluster.told() == story.expected()[0]


def test_a_late_row_of_before_is_applied_behind(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The clock goes on: what new shards tell first carries the highest number of all that came before."""
    story = stories.range_topk(3, count=2)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=2)
    cluster.run(story.batches[0])
    top = max(row["seq"] for rows in story.batches[0].values() for row in rows)
    cluster.reshard(3)
    told = len(cluster.outputs)
    late = {"seq": -5, "id": 77, "x": 1.0, "y": -1.0}
    cluster.run({"events": [late], "subscriptions": []})
    rows = [row for table in cluster.outputs[told:] for row in table.to_pylist()]
    assert rows
    assert {row["seq"] for row in rows} == {top}


def test_a_log_of_another_plan_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = stories.range_topk(3, count=2)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=2)
    cluster.run(story.batches[0])
    cluster.plan = Plan(**{**vars(cluster.plan), "cut": -100})
    with pytest.raises(ShardError, match="belongs to another plan"):
        cluster.reshard(3)


def test_a_stream_without_shards_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(stories.matching(3, table=True), tmp_path, monkeypatch, shards=2)
    with pytest.raises(ShardError, match="has no shards"):
        resharding.check_engine(without_shards(cluster.plan))


def test_plans_of_before_keep_their_names(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cluster = Cluster(stories.range_topk(3), tmp_path, monkeypatch, shards=2)
    told: dict[str, Any] = json.loads(cluster.plan.to_json())
    assert "clock" not in told
    assert "former" not in told
    assert Plan.from_json(cluster.plan.to_json()) == cluster.plan
    later = Plan(**{**vars(cluster.plan), "clock": 7, "former": (uuid.uuid4().hex,)})
    assert Plan.from_json(later.to_json()) == later


def _living(**given: Any) -> GeoTextTopK:
    return GeoTextTopK(**{"bounds": (0, 0, 6, 6), "k": 2, "window": 9, **given})


OTHERS: dict[str, Callable[[], Engine]] = {
    "range_topk": lambda: RangeTopK(k=5),
    "geotext": lambda: _living(k=4, alpha=0.2),
    "moving_topk": lambda: MovingTopK(over=["price"], k=4),
    "moving_skyline": lambda: MovingSkyline(over=["price"], extra="ignore"),
}


@pytest.mark.parametrize("name", OTHERS)
@pytest.mark.parametrize("seed", range(SEEDS))
def test_a_stream_goes_on_with_other_settings(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All deltas together lead to the results that the new settings give from the start."""
    story = STORIES[name](seed, count=5)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=3)
    for batch in story.batches[:3]:
        cluster.run(batch)
    cluster.migrate(OTHERS[name])
    cluster.run(story.batches[3])
    cluster.move("elsewhere")  # the first batch is made again from the log
    cluster.run(story.batches[4])
    assert cluster.metrics[-1]["how"] == "restore"
    story.make = OTHERS[name]
    assert _items(cluster) == _items_of(story)


def test_matches_go_on_with_another_k(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    story = stories.matching(4, count=4)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=2)
    for place, batch in enumerate(story.batches):
        if place == 2:
            told = cluster.told()
            cluster.migrate(lambda: RankedMatcher(over=["x", "z", "job"], categories=["job"], k=1))
        cluster.run(batch)
    first = [row for row in cluster.told() if row[1] == 1]
    assert first == [row for row in story.expected()[0] if row[1] == 1]
    assert {row[1] for row in told} > {1}


@pytest.mark.parametrize("window", [9, 30])
def test_a_window_changes(window: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A larger one has what was still there, and grows."""
    story = stories.geotext(2, count=8)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=2)
    for place, batch in enumerate(story.batches):
        if place == 3:
            cluster.migrate(lambda: _living(window=window))
        cluster.run(batch)
    story.make = lambda: _living(window=window)
    assert _items(cluster) == _items_of(story)


@pytest.mark.parametrize(
    ("make", "name"),
    [
        (lambda: RangeTopK(k=3, over="z"), "over"),
        (lambda: RangeTopK(k=3, order="desc"), "order"),
        (lambda: _living(window=timedelta(seconds=3)), "window"),
        (lambda: _living(window=8), "window"),
        (lambda: _living(metric="haversine"), "metric"),
    ],
)
def test_settings_that_cannot_change_are_refused(
    make: Callable[[], Engine], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = stories.geotext(2) if isinstance(make(), GeoTextTopK) else stories.range_topk(2)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=2)
    with pytest.raises(SettingError, match=f"{name} of {type(make()).__name__} cannot change"):
        cluster.migrate(make)


def _items(cluster: Cluster) -> dict[Any, set[Any]]:
    """The items of each subscription that all deltas, in their order, lead to."""
    found: dict[Any, set[Any]] = {}
    for table in cluster.outputs:
        for row in table.to_pylist():
            if row["op"] == "leave":
                found[row["subscription"]].remove(row["item"])
            elif row["op"] == "enter":
                assert row["item"] not in found.setdefault(row["subscription"], set())
                found[row["subscription"]].add(row["item"])
    return {name: items for name, items in found.items() if items}


def _items_of(story: Story) -> dict[Any, set[Any]]:
    """The items of each subscription in one process."""
    found: dict[Any, set[Any]] = {}
    for row in story.expected()[1].results().to_pylist():  # type: ignore[attr-defined]
        found.setdefault(row["subscription"], set()).add(row["item"])
    return found


@pytest.mark.faults
@pytest.mark.parametrize("name", ["range_topk", "geotext"])
def test_two_to_eight_and_back_on_spark(name: str, spark: Any, tmp_path: Path) -> None:
    """Micro-batches from files, none lost and none read twice; as many shuffle partitions as shards."""
    story = STORIES[name](21, count=6)
    stream = Stream(spark, story, tmp_path, shards=2)
    stream.offer(story.batches[:2])
    first = stream.run_on(ATTEMPTS)
    state, checkpoint = tmp_path / "state", tmp_path / "checkpoint"
    for size in (8, 2):
        places: dict[str, Any] = {
            "to_state": tmp_path / f"state-{size}",
            "to_checkpoint": tmp_path / f"checkpoint-{size}",
        }
        reshard(spark, state=state, checkpoint=checkpoint, shards=size, **places)
        shutil.rmtree(state)
        shutil.rmtree(checkpoint)
        state, checkpoint = places["to_state"], places["to_checkpoint"]
        assert Checkpoint(checkpoint).partitions() == size
        stream.settings = {"shards": size, "state": str(state), "checkpoint": str(checkpoint)}
        stream.offer(story.batches[stream.offered : stream.offered + 2])
        query = stream.run_on(ATTEMPTS)
        assert query.id == first.id
        assert len(hows(query)) == len(query.recentProgress) * size > 0
    assert stream.told() == story.expected()[0]
    assert stream.refused() == []
    with pytest.raises(ShardError, match="is there already"):
        reshard(spark, state=state, checkpoint=checkpoint, shards=3, **places)


def test_a_stream_in_the_middle_of_a_micro_batch_is_refused(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(ShardError, match="has no stream"):
        _reshard(spark, tmp_path)
    story = stories.range_topk(3, count=1)
    stream = Stream(spark, story, tmp_path, shards=1)
    stream.offer(story.batches)
    stream.deltas()
    for log, names in {"offsets": ("0", "1", ".1.crc"), "commits": ()}.items():
        (tmp_path / "checkpoint" / log).mkdir(parents=True)
        for each in names:
            (tmp_path / "checkpoint" / log / each).write_text("")
    with pytest.raises(ShardError, match="has not come to the end of a micro-batch"):
        _reshard(spark, tmp_path)
    (tmp_path / "checkpoint" / "commits" / "0").write_text("")
    with pytest.raises(ShardError, match="in the middle of micro-batch 1"):
        _reshard(spark, tmp_path)
    assert not (tmp_path / "checkpoint-3").exists()
    assert not (tmp_path / "state-3").exists()


def _reshard(spark: Any, folder: Path) -> None:
    reshard(
        spark,
        state=folder / "state",
        checkpoint=folder / "checkpoint",
        to_state=folder / "state-3",
        to_checkpoint=folder / "checkpoint-3",
        shards=3,
    )
