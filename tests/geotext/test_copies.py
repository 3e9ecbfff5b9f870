"""Of equal texts at one place only the newest is told."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from rankcast import GeoTextTopK, SettingError
from tests.geotext.test_engine import START, at, changes, items, messages, plane, timed
from tests.geotext.test_limits import every_way


@every_way
def test_the_newest_of_copies_is_told_and_then_the_one_before(method: str, refill: str) -> None:
    engine = plane(k=3, distinct=True, method=method, refill=refill)
    engine.publish(messages(*"abc", x=[1, 1, 2]))
    assert items(engine) == ["b", "c"]
    assert changes(engine.publish(messages("d", x=[1]))) == [(1, "leave", "b"), (1, "enter", "d")]
    assert changes(engine.retract(["b"])) == []
    assert changes(engine.retract(["d"])) == [(1, "leave", "d"), (1, "enter", "a")]
    assert changes(engine.retract(["a"])) == [(1, "leave", "a")]


def test_copies_have_the_same_terms_as_often_at_one_place() -> None:
    engine = plane(k=9, distinct=True)
    terms = [["a", "b"], ["b", "a"], ["a", "b", "b"], ["a", "b"]]
    engine.publish(messages(*"abcd", terms=terms, x=[1, 1, 1, 2]))
    assert sorted(items(engine)) == ["b", "c", "d"]
    engine.publish(messages("e", "f", x=[0.0, -0.0], terms=[["a"]] * 2))
    assert sorted(items(engine)) == ["b", "c", "d", "f"]


def test_a_copy_that_ends_or_comes_late_gives_way() -> None:
    engine = timed(distinct=True)
    engine.publish(messages("old", "coupon", time=at(0, 5), until=[None, *at(10)]))
    assert items(engine) == ["coupon"]
    assert changes(engine.publish(messages("late", time=at(2)))) == []
    assert changes(engine.advance(at(10)[0])) == [(1, "leave", "coupon"), (1, "enter", "late")]
    assert engine.explain(1, "old")["reason"] == "a newer one has its text and place"


def test_the_setting_is_a_truth_and_is_saved(tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="distinct is"):
        plane(distinct="yes")
    engine = plane(k=2, distinct=True)
    engine.publish(messages(*"aab", x=[1, 1, 1]) | {"id": ["a", "c", "b"]})
    engine.save(tmp_path / "saved")
    other = GeoTextTopK.load(tmp_path / "saved")
    for one in (engine, other):
        assert changes(one.retract(["b"])) == [(1, "leave", "b"), (1, "enter", "c")]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("more", [{}, {"per_source": 1}, {"duplicates": "edit", "place_only": True}])
@pytest.mark.parametrize("by_time", [False, True])
def test_any_stream_of_copies_is_as_by_brute_force(by_time: bool, more: dict[str, Any], seed: int) -> None:
    """Few places and texts, messages that are taken back, end and come late, against a scan."""
    rng = np.random.default_rng(seed)
    window: dict[str, Any] = {"window": timedelta(seconds=30) if by_time else 40}
    given: dict[str, Any] = {"bounds": (0, 0, 4, 3), "distinct": True, "k": 3, **window, **more}
    engines = [GeoTextTopK(**given), GeoTextTopK(**given, method="scan")]
    for engine in engines:
        people = {"id": list(range(9)), "x": [0, 1, 2] * 3, "y": [0, 0, 1] * 3}
        engine.subscribe({**people, "terms": [["a"], ["b"], ["a", "b"]] * 3, "k": [1, 2, 5] * 3})
    for turn in range(40):
        size = int(rng.choice([1, 1, 3, 9]))
        ids = list(range(1000 * turn, 1000 * turn + size))
        rows: dict[str, Any] = {
            "id": ids,
            **{axis: rng.integers(0, 2, size).tolist() for axis in "xy"},
            "terms": [[["a"], ["b"], ["a", "b"]][int(rng.integers(3))] for _ in ids],
        }
        if "per_source" in more:
            rows["source"] = [["s", "t", None][int(rng.integers(3))] for _ in ids]
        if by_time:
            rows["time"] = [START + timedelta(seconds=turn - int(rng.integers(0, 5))) for _ in ids]
            ends = [None, timedelta(seconds=1), timedelta(seconds=4)]
            chosen = [ends[int(rng.integers(3))] for _ in ids]
            rows["until"] = [
                None if end is None else time + end for time, end in zip(rows["time"], chosen, strict=True)
            ]
        told = [engine.publish(rows) for engine in engines]
        assert told[0].equals(told[1])
        if turn % 3 == 2:
            live = engines[0]._messages.slots.take(engines[0]._messages.slots.live()).to_pylist()
            gone = [int(name) for name in rng.choice(live, min(3, len(live)), replace=False)]
            told = [engine.retract(gone) for engine in engines]
            assert told[0].equals(told[1])
    assert engines[0].results().equals(engines[1].results())
