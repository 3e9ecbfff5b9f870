"""Tiles on Spark: the messages of one server, each once under its number, and gateways that follow them."""

from __future__ import annotations

import json
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import Gateway, RangeTopK
from rankcast.core.spec import answering
from rankcast.errors import InputError, SettingError, ShardError
from rankcast.range_topk.dissemination.server import RangeTiles, tile_numbers
from rankcast.spark import applying, continuous, scratch
from rankcast.spark.resharding import migrate
from tests.spark import stories
from tests.spark.pretend import Cluster, GivenUpError, settle
from tests.spark.receivers import Receivers, lists_of, subscribers
from tests.spark.runs import Stream
from tests.spark.stories import Row, Story

SETTINGS: dict[str, dict[str, Any]] = {
    "dense": {"method": "dense"},
    "dense_listless": {"method": "dense", "lists": False},
    "sparse": {"method": "sparse"},
    "sparse_listless": {"method": "sparse", "lists": False},
    "sparse_epsilon": {"method": "sparse", "epsilon": 0.5, "order": "desc"},
    "needless": {"method": "sparse", "needless": 0.3, "lists": False},
    "unicast": {"method": "unicast"},
    "scan": {"method": "scan"},
}


def story_of(seed: int, *, own_k: bool = True, table: bool = False, **settings: Any) -> Story:
    """Objects and subscriptions that come, change and go; `settings` are those of the engine."""
    story = stories.range_topk(seed, table=table, count=6, size=20)
    if not own_k:
        rows = [*story.tables.get("subscriptions", [])]
        rows += [row for batch in story.batches for row in batch.get("subscriptions", [])]
        for row in rows:
            row["k"] = None
    story.make = lambda: RangeTiles(k=3, **settings)
    return story


def tiles(cluster: Cluster) -> list[Row]:
    """The messages that were committed, as they were sent."""
    return [row for table in cluster.outputs for row in table.to_pylist() if row["op"] == "tile"]


@pytest.mark.parametrize("own_k", [True, False])
@pytest.mark.parametrize("name", SETTINGS)
def test_gateways_have_the_lists_of_the_engine_after_every_micro_batch(
    name: str, own_k: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = story_of(3, own_k=own_k, **SETTINGS[name])
    cluster = Cluster(story, tmp_path, monkeypatch, shards=1)
    receivers = Receivers(SETTINGS[name].get("order", "asc"))
    for place, batch in enumerate(story.batches):
        before = len(tiles(cluster))
        cluster.run(batch)
        for row in subscribers(batch):
            receivers.subscribe(row)
        receivers.receive(tiles(cluster)[before:])
        assert receivers.lists() == lists_of(story, place + 1)
        assert receivers.awaited() == []
    numbers = [row["sequence"] for row in tiles(cluster)]
    assert numbers == list(range(1, len(numbers) + 1))
    assert len(numbers) > 50
    assert cluster.refused() == []
    assert all(gateway.stats()["gaps"] == 0 for gateway in receivers.gateways.values())


def test_a_table_of_subscriptions_is_known_before_the_first_message(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = story_of(4, table=True, method="sparse", lists=False)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=1)
    receivers = Receivers()
    for row in story.tables["subscriptions"]:
        receivers.subscribe(row)
    for batch in story.batches:
        cluster.run(batch)
    receivers.receive(tiles(cluster))
    assert receivers.lists() == lists_of(story, len(story.batches))


@pytest.mark.parametrize("name", ["dense_listless", "sparse"])
@pytest.mark.parametrize("seed", range(3))
def test_a_micro_batch_that_comes_again_gives_the_same_tiles_with_the_same_numbers(
    name: str, seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Attempts die while and after a batch is applied, hosts change; what is doubled in a sink is ignored."""
    story = story_of(seed, **SETTINGS[name])
    rng = np.random.default_rng(seed)
    cluster = Cluster(story, tmp_path, monkeypatch, shards=1)
    (shard,) = cluster.plan.shards
    real, receivers = applying.apply, Receivers()

    def dies(*given: Any, **more: Any) -> Any:
        real(*given, **more)
        raise GivenUpError

    for place, batch in enumerate(story.batches):
        packed, given_up = cluster.packed(batch), []
        for _ in range(int(rng.integers(1, 4))):
            fault = rng.choice(["after", "while", "lost", "moved"])
            if fault == "after":
                given_up.append(cluster.attempt(shard, packed)[1])
            elif fault == "while":
                with monkeypatch.context() as patch, suppress(GivenUpError):
                    patch.setattr(applying, "apply", dies)
                    cluster.attempt(shard, packed)
            elif fault == "lost":
                settle()
                scratch.forget(cluster.query)
            else:
                cluster.move(str(rng.choice(["first", "second"])))
        cluster.commit(shard, packed)
        cluster.batch += 1
        for row in subscribers(batch):
            receivers.subscribe(row)
        for table in given_up:  # a sink that writes at least once has them, too
            assert table.equals(cluster.outputs[-1])
            receivers.receive(table.to_pylist())
        receivers.receive(cluster.outputs[-1].to_pylist())
        assert receivers.lists() == lists_of(story, place + 1)
    settle()
    numbers = [row["sequence"] for row in tiles(cluster)]
    assert numbers == list(range(1, len(numbers) + 1))


def test_a_receiver_that_has_missed_something_waits_until_the_server_is_told_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = story_of(5, table=True, own_k=False, method="sparse", lists=False)
    rows = story.tables.pop("subscriptions")
    top = 1_000_000
    first = [{"seq": -100 + n, "op": "subscribe", **row} for n, row in enumerate(rows)]
    again = [{"seq": top + n, "op": "amend", **row} for n, row in enumerate(rows)]
    for batch in story.batches:
        batch["subscriptions"] = []
    story.batches[0]["subscriptions"] = first
    story.batches.append({"events": [], "subscriptions": again})
    cluster = Cluster(story, tmp_path, monkeypatch, shards=1)
    gateway = Gateway(None, k=3)
    gateway.subscribe({key: row[key] for key in ("id", "x_lo", "x_hi")} for row in rows)
    for place, batch in enumerate(story.batches):
        before = len(tiles(cluster))
        cluster.run(batch)
        if place != 2:  # the messages of one micro-batch are lost
            gateway.receive(tiles(cluster)[before:])
        if place in (3, 4):
            assert set(gateway.awaited()) == {row["id"] for row in rows}
            assert not any(gateway.items(row["id"]) for row in rows)
    assert gateway.stats()["gaps"] == 1
    assert gateway.awaited() == []
    wanted = lists_of(story, len(story.batches))
    assert {row["id"]: gateway.items(row["id"]) for row in rows} == wanted


def test_bad_rows_are_set_aside_and_disturb_no_number(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    story = story_of(6, method="dense")
    expected = [dict(row) for row in _tiles_of(story, tmp_path / "a", monkeypatch)]
    batch = story.batches[1]
    batch["events"].append({"seq": -5, "id": 77, "x": 1.0, "y": None})
    batch["subscriptions"].append({"seq": -4, "op": "unsubscribe", "id": "nobody"})
    cluster = Cluster(story, tmp_path / "b", monkeypatch, shards=1)
    for each in story.batches:
        cluster.run(each)
    refused = cluster.refused()
    assert [(row["item"], row["subscription"]) for row in refused] == [(77, None), (None, "nobody")]
    assert all(row["sequence"] is None and row["reason"] for row in refused)
    assert [{**row, "seq": None} for row in tiles(cluster)] == [{**row, "seq": None} for row in expected]


def _tiles_of(story: Story, folder: Path, monkeypatch: pytest.MonkeyPatch) -> list[Row]:
    cluster = Cluster(story, folder, monkeypatch, shards=1)
    for batch in story.batches:
        cluster.run(batch)
    return tiles(cluster)


@pytest.mark.parametrize("sides", [None, "upper"])
def test_two_attributes(sides: str | None) -> None:
    """Boxes need lists for "sparse"; with one side bounded, "dense" needs none, nor has "sparse" to."""
    rng = np.random.default_rng(7)
    blind: list[dict[str, Any]] = [{"method": "dense", "lists": False}, {"lists": False}]
    for settings in [{}] if sides is None else blind:
        server = RangeTiles(over=["x", "z"], by="p", k=2, sides=sides, **settings)
        plain = RangeTopK(over=["x", "z"], by="p", k=2, method="scan")
        gateway = Gateway(None, over=["x", "z"], by="p", k=2)
        for step in range(30):
            rows = [
                {"id": int(i), "x": float(rng.integers(6)), "z": float(rng.integers(6)), "p": float(p)}
                for i, p in zip(rng.integers(12, size=4), rng.integers(9, size=4), strict=True)
            ]
            low = rng.integers(6, size=(2, 2)).astype(float).tolist()
            lower = {"z_lo": low[1][0]} if sides is None else {}
            mine = {"id": step, "x_lo": low[0][0], "x_hi": low[0][0] + 2, "z_hi": low[1][0] + 2, **lower}
            told = server.apply([("subscribe", [mine]), ("publish", rows)]).to_pylist()
            plain.apply([("subscribe", [mine]), ("publish", rows)])
            gateway.subscribe([mine])
            gateway.receive(told)
        lists: dict[int, list[Any]] = {name: [] for name in range(30)}
        for row in plain.results().to_pylist():
            lists[row["subscription"]].append((row["item"], row["score"]))
        assert {name: gateway.items(name) for name in lists} == lists
        assert gateway.stats()["gaps"] == 0


def test_a_server_goes_on_from_its_snapshot_with_the_next_number(tmp_path: Path) -> None:
    server = RangeTiles(k=2, method="dense", lists=False)
    told = server.apply([("publish", {"id": [1, 2], "x": [1, 2], "y": [1, 2]}), ("subscribe", {"id": [1]})])
    assert told["sequence"].to_pylist() == list(range(1, told.num_rows + 1))
    assert told["item"].to_pylist()[-3:] == [None, 1, 2]
    assert told["x_lo_inner"].to_pylist()[-3:] == [-inf] * 3
    server.save(tmp_path / "server")
    other = RangeTiles.load(tmp_path / "server")
    rows = [("publish", {"id": [1], "y": [None]}), ("unsubscribe", [1]), ("publish", {"id": []})]
    answer = server.apply(rows)
    assert answer.equals(other.apply(rows))
    assert answer["sequence"].to_pylist() == [told.num_rows + 1]
    assert len(server) == 0
    assert server.apply([]).schema == answer.schema


def test_names_and_methods_that_messages_cannot_have_are_refused() -> None:
    named: list[dict[str, Any]] = [{"over": "Seq"}, {"by": "sequence"}, {"over": ["x", "k"]}, {"by": "batch"}]
    for settings in named:
        with pytest.raises(SettingError, match="expected no name of a message's column"):
            RangeTiles(**settings)
    others: list[tuple[dict[str, Any], str]] = [
        ({"method": "relax"}, "must keep every object"),
        ({"method": "dense", "over": ["x", "z"]}, "which side"),
        ({"method": "dense", "over": ["x", "z", "w"]}, "not for boxes"),
        ({"over": ["x", "z"], "lists": False}, "needs lists"),
    ]
    for settings, why in others:
        with pytest.raises(SettingError, match=why):
            answering(RangeTopK, "tiles").configured(settings)
    with pytest.raises(SettingError, match="output is 'tile', expected tiles or nothing"):
        answering(RangeTopK, "tile")
    assert tile_numbers({"over": ["x"], "by": "y"})[-2:] == ("x", "y")


@pytest.mark.faults
def test_tiles_on_spark_through_a_queue_with_a_micro_batch_that_comes_again(
    spark: Any, tmp_path: Path
) -> None:
    """The whole way: Spark, messages as a queue has them, a gateway. A commit is lost with the scratch."""
    from rankcast.spark import kafka

    story = story_of(8, own_k=False, method="sparse", lists=False)
    plain = Story(lambda: RangeTopK(k=3, method="sparse", lists=False), story.columns, story.batches)
    stream = Stream(spark, plain, tmp_path, output="tiles", trace=True)
    queue: list[tuple[int, pa.Table]] = []

    def run() -> Any:
        writer = stream.deltas().writeStream.foreachBatch(
            lambda frame, number: queue.append((number, kafka.messages(frame, "tiles").toArrow()))
        )
        writer = writer.option("checkpointLocation", str(tmp_path / "checkpoint"))
        query = writer.trigger(availableNow=True).start()
        query.awaitTermination()
        return query

    stream.offer(story.batches[:1])
    for settings, what in (({"shards": 2}, "shards is 2, expected 1"), ({"output": "lists"}, "output is")):
        with pytest.raises(InputError, match=what):
            Stream(spark, plain, tmp_path, **{"output": "tiles", **settings}).deltas()
    first = run()
    for file in ("0", ".0.crc"):
        (tmp_path / "checkpoint" / "commits" / file).unlink()
    scratch.forget(str(first.id))
    stream.offer(story.batches[1:2])
    run()
    assert [number for number, _ in queue] == [0, 0, 1]
    assert queue[0][1].equals(queue[1][1])
    told = pa.concat_tables(table for _, table in queue)
    assert set(told["key"].to_pylist()) == {b"tile"}
    rows = [json.loads(value.as_py()) for value in told["value"]]
    once = [row["sequence"] for row in rows[queue[0][1].num_rows :]]
    assert once == list(range(1, len(once) + 1))
    receivers = Receivers()
    for batch in story.batches[:2]:
        for row in subscribers(batch):
            receivers.subscribe(row)
    receivers.receive(rows)
    assert receivers.lists() == lists_of(story, 2)
    assert receivers.gateways[3].stats()["doubled"] == 1
    folders = {name: tmp_path / name for name in ("state", "checkpoint", "to_state", "to_checkpoint")}
    with pytest.raises(ShardError, match="goes on with its settings alone"):
        migrate(spark, story.make(), **folders)
    with pytest.raises(ShardError, match="its engine differ"):
        continuous(plain.make(), **stream.frames(), state=str(tmp_path / "state"))


def test_arrow_messages_of_a_queue_hold_the_tiles_of_a_micro_batch() -> None:
    from rankcast.spark.kafka import Writing

    server = RangeTiles(k=2, method="dense")
    told = server.apply([("publish", {"id": [1, 2], "x": [1, 2], "y": [1, 2]})])
    form = applying.schema(
        RangeTiles.spec, {"events": "long", "subscriptions": "long"}, {"over": "x", "by": "y"}
    )
    table = pa.Table.from_pylist([{"op": "tile", **row} for row in told.to_pylist()], schema=form)
    columns = tuple(name for name in form.names if name != "reason")
    (batch,) = Writing("tiles", None, columns)(table.to_batches())
    assert batch["key"].to_pylist() == [b"tile"]
    rows = pa.ipc.open_stream(batch["value"][0].as_py()).read_all().to_pylist()
    gateway = Gateway(None, k=2)
    gateway.subscribe([{"id": 1}])
    gateway.receive(rows)
    assert gateway.items(1) == [(1, 1.0), (2, 2.0)]
