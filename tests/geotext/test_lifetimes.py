"""Messages that leave before the window is past them: taken back, edited, ended, and a clock that moves."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import GeoTextTopK, InputError, SettingError
from rankcast.geotext.buffers import REFILLS
from rankcast.state import Shard
from tests.geotext.test_engine import START, at, changes, items, messages, plane, timed

WAYS = [*(("igpt", refill) for refill in REFILLS), ("ciq", "kmax"), ("scan", "none")]
every_way = pytest.mark.parametrize(("method", "refill"), WAYS)


def test_a_message_that_is_taken_back_leaves() -> None:
    engine = plane(k=2)
    engine.publish(messages("a", "b", "c"))
    assert changes(engine.retract(["c"])) == [(1, "leave", "c"), (1, "enter", "a")]
    assert items(engine) == ["b", "a"]
    assert changes(engine.retract(["a", "b"])) == [(1, "leave", "b"), (1, "leave", "a")]
    engine.publish(messages("c"))
    assert items(engine) == ["c"]


@every_way
def test_what_a_retracted_message_dominated_is_back(method: str, refill: str) -> None:
    """Newer and better ones push the older ones out of a skyband for good, unless they are taken back."""
    engine = plane(k=2, method=method, refill=refill)
    engine.publish(messages(*range(10), x=[4, 3.5, 3, 2.5, 2, 1.5, 1, 0.5, 0.25, 0]))
    for gone in (9, 8, 5, 4, 7):
        engine.retract([gone])
    assert items(engine) == [6, 3]


def test_only_live_messages_can_be_taken_back() -> None:
    engine = plane(window=2)
    engine.publish(messages("a", "b", "c"))
    with pytest.raises(InputError, match="'a', which is not known"):
        engine.retract(["b", "a"])
    assert items(engine) == ["c", "b"]


def test_a_window_by_count_has_room_for_one_more_after_a_retraction() -> None:
    engine = plane(window=2)
    engine.publish(messages("a", "b"))
    engine.retract(["b"])
    engine.publish(messages("c"))
    assert items(engine) == ["c", "a"]


def test_a_message_ends_by_itself() -> None:
    engine = timed()
    engine.publish(messages("coupon", "plain", time=at(0, 1), until=[*at(10), None]))
    assert items(engine) == ["plain", "coupon"]
    assert changes(engine.publish(messages("next", time=at(10)))) == [
        (1, "leave", "coupon"),
        (1, "enter", "next"),
    ]


def test_a_message_whose_end_is_past_is_late() -> None:
    engine = timed()
    engine.publish(messages("now", time=at(30)))
    engine.publish(messages("coupon", "other", time=at(0, 0), until=at(30, 31)))
    assert items(engine) == ["now", "other"]
    assert engine.stats()["late"] == 1


def test_an_end_is_after_its_time() -> None:
    engine = timed()
    with pytest.raises(InputError, match=r'column "until" of "messages" is not after(.|\n)*row: 1'):
        engine.publish(messages("a", "b", time=at(0, 5), until=at(5, 5)))


def test_a_window_by_count_knows_no_ends() -> None:
    with pytest.raises(InputError, match='unknown column "until"'):
        plane().publish(messages("a", until=at(5)))


@every_way
def test_the_clock_moves_without_a_message(method: str, refill: str) -> None:
    engine = timed(method=method, refill=refill)
    engine.publish(messages("a", "b", time=at(0, 30), until=[None, *at(70)]))
    assert changes(engine.advance(START + timedelta(minutes=60))) == [(1, "leave", "a")]
    assert engine.advance(START).num_rows == 0  # the past does nothing
    assert changes(engine.advance({"time": at(65, 70, 1)})) == [(1, "leave", "b")]
    engine.publish(messages("late", time=at(10)))
    assert engine.stats()["late"] == 1
    assert engine.publish(messages("c", time=at(11))).num_rows == 1


def test_a_window_by_count_has_no_clock() -> None:
    with pytest.raises(InputError, match="has no clock"):
        plane().advance(START)
    with pytest.raises(InputError, match='column "op" of "messages" is "advance"'):
        plane().publish(messages("a", op=["advance"]))


def test_an_edit_takes_the_message_back_and_publishes_it() -> None:
    engine = plane(duplicates="edit", k=2, window=3)
    engine.publish(messages("a", "b", "c", x=[0, 1, 2]))
    table = engine.publish(messages("a", x=[0.5])).to_pylist()
    assert [(row["op"], row["item"]) for row in table] == [("update", "a")]
    engine.publish(messages("a", "a", x=[4, 3], terms=[["a"], ["z"]]))
    assert items(engine) == ["b", "c"]
    engine.publish(messages("d"))
    assert items(engine) == ["d", "c"]


def test_a_late_edit_is_ignored() -> None:
    engine = timed(duplicates="edit")
    engine.publish(messages("a", "b", time=at(10, 69)))
    engine.publish(messages("a", x=[1], time=at(9)))
    assert engine.results()["score"].to_pylist() == [1.0, 1.0]


def test_without_edits_a_live_id_is_refused() -> None:
    engine = plane()
    engine.publish(messages("a"))
    with pytest.raises(InputError, match="that of a live message"):
        engine.publish(messages("b", "a"))
    with pytest.raises(SettingError, match="duplicates"):
        plane(duplicates="both")


def test_rows_say_what_they_do() -> None:
    engine = timed()
    rows = messages("a", "b", "a", "-", "c", time=[*at(0, 1), None, *at(61, 61)])
    rows |= {"op": ["publish", "publish", "retract", "advance", "publish"], "x": [0, 0, None, None, 1]}
    engine.publish(rows)
    assert items(engine) == ["c"]
    assert engine.publish({"id": ["c"], "op": ["retract"]}).num_rows == 1
    assert engine.publish({"id": [None], "op": ["advance"], "time": at(90)}).num_rows == 0
    assert engine.stats()["expired"] == 1


@pytest.mark.parametrize(
    ("column", "values", "row"),
    [
        ("x", [None, None, 9], 2),
        ("time", [None, *at(1, 2)], 0),
        ("id", ["-", "m", None], 2),
        ("id", ["-", "z", "m"], 1),
    ],
)
def test_errors_name_the_row_of_the_whole_batch(column: str, values: list[Any], row: int) -> None:
    engine = timed()
    engine.publish(messages("m", time=at(0)))
    rows = messages("-", "m", "n", x=[None, None, 1], time=at(1, 1, 2), op=["advance", "retract", "publish"])
    before = engine.results()
    with pytest.raises(InputError, match=f'column "{column}" of "messages"(.|\n)*row: {row}'):
        engine.publish({**rows, column: values})
    assert engine.results().equals(before)


def test_late_rows_are_told_apart() -> None:
    engine = timed()
    engine.publish(messages("m", time=at(60)))
    rows = messages("a", "b", "c", "d", time=at(0, 1, 2, 130), until=[None, *at(60), None, None])
    reason = engine.late("publish", pa.table(rows))
    assert reason is not None
    assert reason.rows == [0, 1]
    rows |= {"op": ["publish", "publish", "advance", "publish"], "time": at(0, 1, 200, 130)}
    reason = engine.late("publish", pa.table(rows))
    assert reason is not None
    assert reason.rows == [0, 1, 3]


def test_a_shard_keeps_the_new_calls(tmp_path: Path) -> None:
    with Shard.open(tmp_path / "shard", timed(k=2)) as shard:
        token = shard.token
        batch = [
            ("publish", messages("a", "b", "c", time=at(0, 1, 2))),
            ("retract", ["b"]),
            ("advance", at(60)[0]),
        ]
        token, answer = shard.apply(batch, after=token)
        assert changes(answer) == [(1, "enter", "c")]
    with Shard.open(tmp_path / "shard", timed(k=2)) as shard:
        assert shard.engine.results()["item"].to_pylist() == ["c"]
        assert shard.token == token


@every_way
def test_a_long_stream_with_ends_edits_and_retractions(method: str, refill: str, tmp_path: Path) -> None:
    """All lists against those of a scan, at every step, with many that end and few words."""
    rng = np.random.default_rng(5)
    settings: dict[str, Any] = {
        "bounds": (0, 0, 4, 3),
        "k": 3,
        "window": timedelta(minutes=40),
        "duplicates": "edit",
    }
    engine = GeoTextTopK(**settings, method=method, refill=refill)
    plain = GeoTextTopK(**settings, method="scan", refill="none")
    places = {"x": rng.uniform(0, 4, 40), "y": rng.uniform(0, 3, 40)}
    interests = {"id": list(range(40)), **places, "terms": [[w] for w in rng.choice(["a", "b"], 40)]}
    interests["k"] = rng.integers(1, 9, 40)
    for each in (engine, plain):
        each.subscribe(interests)
    clock, live = 0, []
    for step in range(60):
        size = int(rng.integers(1, 12))
        minutes = clock + np.cumsum(rng.choice([0, 0, 1, 2], size)) - rng.choice([0, 0, 0, 15], size)
        clock = max(clock, int(minutes.max()))
        ids = [f"m{rng.integers(0, 150)}" for _ in range(size)]
        rows: dict[str, Any] = {"id": ids, "x": rng.uniform(0, 4, size), "y": rng.uniform(0, 3, size)}
        rows["terms"] = [[w] for w in rng.choice(["a", "b"], size)]
        rows["time"] = at(*minutes.tolist())
        rows["until"] = [
            None if rng.random() < 0.5 else START + timedelta(minutes=int(m + rng.integers(1, 50)))
            for m in minutes
        ]
        answers = [each.publish(rows) for each in (engine, plain)]
        assert answers[0].equals(answers[1])
        live = plain._messages.slots.take(plain._messages.window.rows()).to_pylist()
        taken = (
            rng.choice(live, min(len(live), int(rng.integers(0, 4))), replace=False).tolist() if live else []
        )
        answers = [each.retract(taken) for each in (engine, plain)]
        assert answers[0].equals(answers[1])
        assert engine.results().equals(plain.results())
        if step == 30:
            engine.save(tmp_path)
            engine = GeoTextTopK.load(tmp_path)
