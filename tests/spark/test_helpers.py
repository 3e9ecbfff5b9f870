"""Batch helpers on Spark: vocabulary, statistics of scores, boundaries of shards, generated workloads."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from rankcast import GeoTextTopK, MovingTopK, RangeTopK, Vocabulary
from rankcast.bench.workloads import geotext, jobs
from rankcast.errors import InputError
from rankcast.geotext.kernels import costs
from rankcast.spark import boundaries, score_distribution, thresholds
from rankcast.spark.generating import Block, Making


def frame_of(spark: Any, rows: pa.Table) -> Any:
    """The rows, in one partition a core."""
    return spark.createDataFrame(rows)


def test_a_vocabulary_is_that_of_one_process(spark: Any) -> None:
    rng = np.random.default_rng(3)
    words = np.array(["a", "b", "Ä", "ä", "\U0001f600", "\uffff", "", "zz", "ab"])
    texts = [words[rng.integers(0, 9, rng.integers(0, 6))].tolist() for _ in range(60)]
    rows = pa.table({"body": pa.array(texts, pa.list_(pa.string())), "other": np.arange(60)})
    fitted = Vocabulary.fit_spark(frame_of(spark, rows), column="body")
    assert fitted.digest() == Vocabulary.fit({"terms": rows["body"]}).digest()
    empty = frame_of(spark, rows).where("other < 0")
    assert Vocabulary.fit_spark(empty, "body").digest() == Vocabulary.empty().digest()


@pytest.mark.parametrize(
    ("column", "told"),
    [("terms", "is missing"), ("other", "has the type bigint"), ("bad", "holds a null"), ("none", "is null")],
)
def test_a_corpus_that_is_none_is_refused(column: str, told: str, spark: Any) -> None:
    forms = "other long, bad array<string>, none array<string>"
    frame = spark.createDataFrame([(1, ["a", None], None), (2, ["b"], ["c"])], forms)
    with pytest.raises(InputError, match=f'"{column}" of "documents" {told}'):
        Vocabulary.fit_spark(frame, column)


def test_scores_are_counted_as_the_engine_scores_them(spark: Any) -> None:
    rng = np.random.default_rng(5)
    messages = geotext.messages(300, rng, words=40)
    interests = geotext.subscriptions(messages, 12, rng)
    vocabulary = Vocabulary.fit(messages)
    found = score_distribution(
        frame_of(spark, messages),
        frame_of(spark, interests),
        bins=20,
        bounds=geotext.BOUNDS,
        vocabulary=vocabulary,
    )
    engine = GeoTextTopK(bounds=geotext.BOUNDS, vocabulary=vocabulary, k=300)
    engine.publish(messages)
    pairs = engine.subscribe(interests)
    mine, score = pairs["subscription"].to_numpy(), pairs["score"].to_numpy()
    for row in found.to_pylist():
        expected = int(np.count_nonzero(score[mine == row["subscription"]] >= row["score"]))
        assert (row["messages"], row["probability"]) == (expected, expected / 300), row

    best = thresholds(found, k=3, window=1000, search=500.0).to_pylist()
    assert [row["subscription"] for row in best] == list(range(12))
    for row in best:
        of = [each for each in found.to_pylist() if each["subscription"] == row["subscription"]]
        prices = {
            each["score"]: costs.cost(1000 * each["probability"], 3, 500.0)
            for each in of
            if 1000 * each["probability"] >= 3
        }
        assert row["cost"] == min(prices.values())
        assert prices[row["score"]] == row["cost"]


def test_messages_that_an_engine_refuses_are_refused(spark: Any) -> None:
    rows = pa.table({"id": [1], "x": [5.0], "y": [0.5], "terms": [["a"]]})
    good = frame_of(spark, rows.set_column(1, "x", pa.array([0.5])))
    with pytest.raises(InputError, match='"x" of "messages"'):
        score_distribution(frame_of(spark, rows), good, bounds=geotext.BOUNDS)
    with pytest.raises(InputError, match='unknown key "window"'):
        score_distribution(good, good, bounds=geotext.BOUNDS, window=3)


def test_boundaries_divide_the_space_evenly(spark: Any) -> None:
    rng = np.random.default_rng(6)
    places = rng.normal(0.5, 0.1, (400, 2)).clip(0, 1)
    terms = pa.array([["a"]] * 400)
    rows = pa.table({"id": np.arange(400), "x": places[:, 0], "y": places[:, 1], "terms": terms})
    found = boundaries(GeoTextTopK(bounds=(0, 0, 1, 1)), frame_of(spark, rows), shards=5)
    assert found["zone"].to_pylist() == list(range(5))
    assert sum(found["subscriptions"].to_pylist()) == 400
    assert max(found["subscriptions"].to_pylist()) <= 82
    inside = [_inside(row, places) for row in found.to_pylist()]
    assert np.sum(inside, axis=0).tolist() == [1] * 400
    assert [int(each.sum()) for each in inside] == found["subscriptions"].to_pylist()


def _inside(row: dict[str, Any], places: Any) -> Any:
    held = np.ones(len(places), bool)
    for axis, name in enumerate("xy"):
        low, high = row[f"{name}_from"], row[f"{name}_below"]
        held &= (places[:, axis] >= (-np.inf if low is None else low)) & (
            places[:, axis] < (np.inf if high is None else high)
        )
    return held


def test_one_shard_has_no_boundaries_and_some_engines_have_none(spark: Any) -> None:
    rows = frame_of(spark, pa.table({"id": [1, 2], "x_lo": [0.0, 1.0], "x_hi": [1.0, 2.0]}))
    assert boundaries(RangeTopK(), rows, shards=1).to_pylist() == [
        {
            "zone": 0,
            **dict.fromkeys(["x_lo_from", "x_lo_below", "x_hi_from", "x_hi_below"]),
            "subscriptions": 2,
        }
    ]
    with pytest.raises(InputError, match="by a hash of their ids"):
        boundaries(MovingTopK(over=["price"]), rows, shards=2)


SMALL: dict[str, dict[str, Any]] = {
    "range.events": {"each": 3},
    "moving.positions": {"seconds": 4, "side": 5},
    "geotext.messages": {"words": 50},
    "geotext.subscriptions": {"words": 50},
}


def made(name: str, rows: int, seed: int) -> pa.Table:
    """What one process makes of all blocks, one after the other."""
    make = partial(jobs.JOBS[name], **SMALL.get(name, {}))
    form = pa.table(make(Block(0, 1, 0, 1, 1, seed))).schema
    numbers = pa.record_batch({"id": np.arange(-(-rows // 8))})
    return pa.Table.from_batches(list(Making(make, rows, seed, 8, form)([numbers])), form)


@pytest.mark.parametrize("name", ["range.events", "geotext.subscriptions"])
def test_generated_rows_do_not_depend_on_partitions(name: str, spark: Any) -> None:
    frame = jobs.frame(spark, name, 50, seed=9, block=8, **SMALL[name])
    expected = made(name, 50, 9).to_pylist()
    assert frame.rdd.getNumPartitions() > 1
    assert frame.toArrow().to_pylist() == expected
    assert frame.coalesce(1).toArrow().to_pylist() == expected


@pytest.mark.parametrize("name", jobs.JOBS)
def test_every_block_of_a_workload_is_its_own(name: str) -> None:
    rows = made(name, 20, 4)
    assert rows.equals(made(name, 20, 4))
    assert not rows.equals(made(name, 20, 5))
    assert name == "range.events" or sorted(set(rows["id"].to_pylist())) == list(range(20))
    if "seq" in rows.column_names:
        assert len(set(rows["seq"].to_pylist())) == rows.num_rows
    blocks = [rows.filter(pc.is_in(rows["id"], pa.array(range(8 * b, 8 * b + 8)))) for b in range(2)]
    values = [each.column(each.num_columns - 1).to_pylist() for each in blocks]
    assert values[0] != values[1]


def test_an_unknown_workload_names_the_nearest(spark: Any) -> None:
    with pytest.raises(InputError, match=r"geotext\.messages"):
        jobs.frame(spark, "geotext.message", 5, seed=1)
