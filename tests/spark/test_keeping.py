"""Bad rows are set aside one by one, and the rest is applied as if they had never been there."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import GeoTextTopK, MovingTopK, RangeTopK, RankedMatcher
from rankcast.core.engine import Engine
from rankcast.errors import InputError
from rankcast.spark import applying
from rankcast.spark.applying import Refusals
from rankcast.spark.plan import OP, REASON, SEQ

MIDNIGHT = datetime(2026, 1, 1)


def apply(engine: Engine, *, strict: bool = False, first: bool = False, **inputs: Any) -> applying.Applied:
    tables = {name: pa.table(rows) for name, rows in inputs.items()}
    return applying.apply(engine, tables, Refusals(strict=strict), first=first)


@pytest.mark.parametrize("share", [0.0, 0.01, 0.3, 1.0])
def test_any_number_of_bad_rows_is_found(share: float) -> None:
    rng = np.random.default_rng(7)
    size = 600
    bad = rng.random(size) < share
    y = np.where(bad & (rng.random(size) < 0.5), np.nan, rng.random(size))
    x = np.where(bad & ~np.isnan(y), np.inf, rng.random(size))
    rows = {SEQ: np.arange(size), "id": rng.integers(0, 90, size), "x": x, "y": y}
    engine, twin = RangeTopK(k=3), RangeTopK(k=3)
    for each in (engine, twin):
        each.subscribe({"id": list(range(20)), "x_hi": [number / 20 for number in range(20)]})
    kept = apply(engine, events=rows)
    expected = twin.publish({name: rows[name][~bad] for name in ("id", "x", "y")})
    assert (
        sorted(refusal.seq for refusal in kept.refused if refusal.seq is not None)
        == np.flatnonzero(bad).tolist()
    )
    assert all("NaN" in refusal.reason or "infinite" in refusal.reason for refusal in kept.refused)
    assert kept.answer.drop_columns(["seq"]).equals(expected)
    assert engine.results().equals(twin.results())


def test_commands_and_events_apply_in_one_order() -> None:
    engine = RangeTopK(k=1)
    kept = apply(
        engine,
        subscriptions={
            SEQ: [2, 4, 6, 7, 9],
            OP: ["subscribe", "amend", "amend", "unsubscribe", "subscribe"],
            "id": ["a"] * 5,
            "x_hi": [1.0, 2.0, 9.0, None, 5.0],
        },
        events={
            SEQ: [1, 3, 5, 8],
            "id": [1, 2, 3, 1],
            "x": [0.0, 2.0, 4.0, None],
            "y": [5.0, 3.0, 1.0, None],
        },
    )
    assert kept.refused == []
    assert kept.answer.to_pylist() == [
        {"subscription": "a", "op": "enter", "item": 3, "score": 1.0, "rank": 1, "seq": None}
    ]


def test_ids_may_come_again_in_commands_of_one_micro_batch() -> None:
    engine = RangeTopK(k=1)
    rows = {SEQ: [1, 2, 3], OP: ["subscribe", "subscribe", "subscribe"], "id": [5, 6, 5], "k": [1, 2, 3]}
    kept = apply(engine, subscriptions=rows)
    assert [(refusal.id, refusal.seq) for refusal in kept.refused] == [(5, 3)]
    assert "there already" in kept.refused[0].reason
    rows = {SEQ: [4, 5], OP: ["amend", "amend"], "id": [5, 5], "k": [7, 8]}
    assert apply(engine, subscriptions=rows).refused == []
    assert len(engine) == 2


def test_late_messages_are_set_aside() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 9, 9), window=timedelta(seconds=10))
    minutes = [0, 20, 5, 11, 40, 29, 31]

    def rows(part: slice) -> dict[str, Any]:
        times = [MIDNIGHT + timedelta(seconds=each) for each in minutes[part]]
        names = list(range(len(minutes)))[part]
        return {
            SEQ: names,
            "id": names,
            "x": [1.0] * len(names),
            "y": [1.0] * len(names),
            "terms": [["a"]] * len(names),
            "time": times,
        }

    refused = [
        *apply(engine, events=rows(slice(0, 4))).refused,
        *apply(engine, events=rows(slice(4, 7))).refused,
    ]
    assert [refusal.seq for refusal in refused] == [2, 5]
    assert all("too late" in refusal.reason for refusal in refused)
    assert engine.stats()["late"] == 2


def test_a_strict_stream_stops_at_a_late_message() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 9, 9), window=timedelta(seconds=10))
    times = [MIDNIGHT + timedelta(minutes=1), MIDNIGHT]
    rows = {SEQ: [1, 2], "id": [1, 2], "x": [1.0, 1.0], "y": [1.0, 1.0], "terms": [["a"]] * 2, "time": times}
    with pytest.raises(InputError, match="too late"):
        apply(engine, events=rows, strict=True)


def test_matches_are_told_with_their_events_number_even_if_ids_repeat() -> None:
    engine = RankedMatcher(over=["x"], k=1)
    kept = apply(
        engine,
        subscriptions={
            SEQ: [1, 3, 5],
            OP: ["subscribe", "rescore", "unsubscribe"],
            "id": [7, 7, 7],
            "x_hi": [3.0, 0.0, None],
            "score": [1.0, 2.0, None],
        },
        events={SEQ: [2, 4, 6, 7], "id": ["e", "e", "e", None], "x": [1.0, 1.0, 1.0, 1.0]},
    )
    assert [(row["event"], row["score"], row["seq"]) for row in kept.answer.to_pylist()] == [
        ("e", 1.0, 2),
        ("e", 2.0, 4),
    ]
    assert [(refusal.seq, refusal.input.name) for refusal in kept.refused] == [(7, "events")]


def test_a_match_reflects_the_commands_before_it() -> None:
    """An event that comes behind is matched on arrival, with all the subscriptions that are there by then."""
    engine = RankedMatcher(over=["x"], k=1)
    engine.subscribe({"id": [7], "score": [1.0]})
    rows = {SEQ: pa.array([3, 9]), "id": ["late", "in time"], "x": [1.0, 1.0]}
    kept = applying.apply(engine, {"events": pa.table(rows)}, Refusals(strict=False), clock=5)
    assert kept.answer["seq"].to_pylist() == [5, 9]


def test_positions_and_objects_that_nobody_knows() -> None:
    engine = MovingTopK(over=["price"], k=1)
    kept = apply(
        engine,
        objects={
            SEQ: [1, 2],
            OP: ["remove", "upsert"],
            "id": ["o", "p"],
            "x": [0.0, 1.0],
            "y": [0.0, 1.0],
            "price": [1.0, None],
        },
        subscriptions={SEQ: [3], OP: ["subscribe"], "id": [1], "x": [0.0], "y": [0.0]},
        events={SEQ: [4, 5], "id": [1, 2], "x": [1.0, 1.0], "y": [1.0, 1.0]},
    )
    assert [(refusal.seq, refusal.input.column, refusal.id) for refusal in kept.refused] == [
        (1, "item", "o"),
        (2, "item", "p"),
        (5, "subscription", 2),
    ]


def test_a_first_batch_tells_all_results() -> None:
    engine = RangeTopK(k=1)
    engine.publish({"id": [1], "x": [0.0], "y": [1.0]})
    engine.subscribe({"id": ["a", "b"]})
    kept = apply(engine, events={SEQ: [1], "id": [2], "x": [0.0], "y": [0.5]}, first=True)
    assert [(row["op"], row["subscription"], row["item"]) for row in kept.answer.to_pylist()] == [
        ("enter", "a", 2),
        ("enter", "b", 2),
    ]


@pytest.mark.parametrize("seed", range(5))
def test_rows_that_say_why_they_are_refused_disturb_nothing(seed: int) -> None:
    """Whatever else is in them, they come out with what they say; the rest is as if they were not there."""
    rng = np.random.default_rng(seed)
    size = 60
    why = [f"because {place}" if rng.random() < 0.3 else None for place in range(size)]
    bad = np.array([each is not None for each in why])
    rows = {
        SEQ: [None if bad[place] and rng.random() < 0.5 else place for place in range(size)],
        OP: [None if bad[place] and rng.random() < 0.5 else "subscribe" for place in range(size)],
        "id": [None if bad[place] and rng.random() < 0.5 else place // 2 for place in range(size)],
        "x_hi": [float(place) for place in range(size)],
        REASON: pa.array(why, pa.string()),
    }
    engine, twin = RangeTopK(k=1), RangeTopK(k=1)
    kept = apply(engine, subscriptions=rows)
    good = {
        name: [each for each, odd in zip(rows[name], bad, strict=True) if not odd]
        for name in (SEQ, OP, "id", "x_hi")
    }
    expected = apply(twin, subscriptions=good)
    told = [refusal.reason for refusal in kept.refused if refusal.reason.startswith("because")]
    assert told == [each for each in why if each is not None]
    assert [each for each in kept.refused if each.reason not in told] == expected.refused
    events = {"id": [1, 2, 3], "x": [5.0, 25.0, 55.0], "y": [3.0, 2.0, 1.0]}
    assert engine.publish(events).equals(twin.publish(events))
    if bad.any():
        with pytest.raises(InputError, match="because"):
            apply(RangeTopK(k=1), subscriptions=rows, strict=True)
