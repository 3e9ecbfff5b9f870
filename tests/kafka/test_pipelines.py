"""Pipelines from Kafka to Kafka, for every engine: what a reader is handed is what one process tells."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from rankcast.bench.cases.kafka_broker import Broker
from rankcast.pipeline import replay
from tests.kafka.queued import Queued, headers, number
from tests.spark import stories
from tests.spark.piped import ENGINES

pytestmark = pytest.mark.kafka


@pytest.mark.parametrize("name", ENGINES)
def test_topics_to_topics(name: str, spark: Any, broker: Broker, tmp_path: Path) -> None:
    """Some micro-batches; rows have the numbers of their places."""
    given = {"worded": True} if name == "range_topk" else {}
    story = getattr(stories, name)(61, count=2, size=24, **given)
    queued = Queued(spark, broker, name, story, tmp_path / name, at_most=12)
    queued.offer(story.batches)
    queued.run()
    assert len(queued.as_cut().batches) > 1
    assert queued.check()
    _are_keyed(queued)


def _are_keyed(queued: Queued) -> None:
    """Messages of one key are in one partition, and no two have one name."""
    found = queued.broker.messages(queued.topic("deltas"))
    owner = "event" if "event" in json.loads(found[0].value()) else "subscription"
    places: dict[bytes, set[int]] = {}
    for message in found:
        row = json.loads(message.value())
        assert message.key() == str(row[owner]).encode()
        assert headers(message)["seq"] == str(row["seq"])
        places.setdefault(message.key(), set()).add(message.partition())
    assert all(len(each) == 1 for each in places.values())
    names = [tuple(headers(each)[name] for name in ("query", "batch", "shard", "n")) for each in found]
    assert len(set(names)) == len(names)


@pytest.mark.parametrize("name", ["range_topk", "matching"])
def test_arrow_in_and_out(name: str, spark: Any, broker: Broker, tmp_path: Path) -> None:
    given = {"worded": True} if name == "range_topk" else {}
    story = getattr(stories, name)(62, count=2, size=24, **given)
    queued = Queued(spark, broker, name, story, tmp_path / f"arrow-{name}", partitions=2, values="arrow")
    queued.offer(story.batches)
    queued.run()
    assert queued.check()


def test_poison_is_set_aside_as_it_came(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """Whatever is no row goes to its own topic with its raw value; the rest is as without it."""
    story = stories.range_topk(63, count=2, size=24, worded=True)
    queued = Queued(spark, broker, "range_topk", story, tmp_path / "poison")
    queued.offer(story.batches[:1])
    poison: list[bytes | None] = [
        b"poison",
        b"\xff\xfe\x00 no text",
        None,
        b"",
        b"[1, 2]",
        b'{"op": "upsert", "id": 3, "x": "far", "y": 1.0}',
        b'{"op": "upsert", "id": 3, "x": 1.0, "y": 1.0, "z": 1.0}',
        b'{"op": "upsert", "x": 1.0, "y": 1.0}',
        b'{"op": "upsert", "id": 3, "x": 1.0, "y": 1.0',
        json.dumps({"id": 3, "x": 1.0, "y": 1.0, "text": "long" * 50_000}).encode(),
    ]
    first = len(queued.sent["events"][0])
    queued.poison("events", poison)
    queued.offer(story.batches[1:])
    queued.poison("subscriptions", [b"poison"])
    queued.run()
    queued.check()
    places = {number("events", 0, first + place): value for place, value in enumerate(poison)}
    places[number("subscriptions", 0, len(queued.sent["subscriptions"][0]) - 1)] = b"poison"
    told = {int(head["seq"]): (head, value) for head, value in queued.refused()}
    aside = {seq: told[seq] for seq in places if seq in told}
    assert set(aside) == set(places)
    for seq, value in places.items():
        head, back = aside[seq]
        assert back == value if value is not None else b"refused" in (back or b"")
        assert {"query", "batch", "shard", "n", "reason"} <= set(head)
        assert len(head["reason"]) < 2000
    again = Queued(spark, broker, "range_topk", story, tmp_path / "strict", more='bad_rows = "fail"')
    again.offer(story.batches[:1])
    again.poison("events", [b"poison"])
    with pytest.raises(Exception, match='row of "events" does not fit its schema: poison'):
        again.run()


def test_eight_partitions_three_shards_any_order(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """Rows with numbers of their own, spread over partitions, some in a micro-batch too late."""
    story = stories.range_topk(64, count=2, size=90, worded=True)
    queued = Queued(
        spark,
        broker,
        "range_topk",
        story,
        tmp_path / "eight",
        partitions=8,
        shards=3,
        numbered=True,
        at_most=40,
    )
    queued.offer(story.batches)
    queued.run()
    told = queued.check()
    assert len(queued._ends()) > 2
    shards = {headers(each)["shard"] for each in broker.messages(queued.topic("deltas"))}
    assert len(shards) == 3
    assert len({row[-1] for row in told}) > 1


def test_numbers_are_those_of_places_after_restarts(spark: Any, broker: Broker, tmp_path: Path) -> None:
    """Begun anew after every micro-batch, and replayed as a whole: a row has the number of its place."""
    story = stories.geotext(65, count=3, size=20)
    queued = Queued(spark, broker, "geotext", story, tmp_path / "restarted", partitions=3)
    for batch in story.batches:
        queued.offer([batch])
        queued.run()
    queued.check()
    rows = replay(queued.config(), spark).toArrow().to_pylist()
    whole = queued.as_cut().recut([])
    final = whole.expected([])[1].results().to_pylist()  # type: ignore[attr-defined]
    top = max(row["seq"] for rows in whole.batches[0].values() for row in rows)
    kept = [row for row in rows if row["op"] != "refused"]
    assert {row["seq"] for row in kept} == {top}
    told = [{name: row[name] for name in final[0]} for row in kept]
    assert sorted(told, key=str) == sorted(final, key=str)
