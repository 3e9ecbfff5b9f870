"""Objects that open and close: `opens`, `closes`, `advance(time)`."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import MovingSkyline, MovingTopK
from rankcast.core.spec import Clock
from rankcast.errors import FunctionError, InputError
from rankcast.moving.hours import NEVER, SOON, Hours
from tests.laws import roads

NOON = datetime(2024, 5, 1, 12)
KINDS = [
    (kind, {**settings, "method": method})
    for kind, settings in (
        (MovingTopK, {"k": 2}),
        (MovingTopK, {"k": 2, "m": 2}),
        (MovingTopK, {"k": 2, "metric": "haversine"}),
        (MovingTopK, {"k": 2, "metric": "network"}),
        (MovingTopK, {"k": 2, "score": lambda attributes, distance: attributes[:, 0] + distance}),
        (MovingSkyline, {}),
        (MovingSkyline, {"metric": "network"}),
    )
    for method in ("zone", "scan")
]


def at(hour: float) -> datetime:
    return NOON + timedelta(hours=hour)


def made(kind: Any, settings: dict[str, Any]) -> Any:
    graph = {"graph": roads.graph("square")} if settings.get("metric") == "network" else {}
    return kind(over=["a"], **settings, **graph)


def items(engine: Any) -> list[Any]:
    found: list[Any] = engine.results()["item"].to_pylist()
    return found


@pytest.mark.parametrize(("kind", "settings"), KINDS)
def test_an_object_takes_part_from_opens_up_to_closes(kind: Any, settings: dict[str, Any]) -> None:
    engine = made(kind, settings)
    engine.subscribe({"id": ["me"], "x": [0], "y": [0]})
    rows = {"id": ["all day", "late", "short"], "x": [3, 1, 2], "y": [0, 0, 0], "a": [1, 2, 3]}
    engine.upsert({**rows, "opens": [None, at(2), at(1)], "closes": [None, None, at(3)]})
    assert items(engine) == ["all day"]
    assert engine.advance(at(1) - timedelta(microseconds=1)).num_rows == 0
    told = engine.advance(at(1)).to_pylist()
    assert [(row["op"], row["item"]) for row in told] == [("enter", "short")]
    engine.advance(at(2))
    assert "late" in items(engine)
    engine.advance(at(3))
    assert sorted(items(engine)) == ["all day", "late"]
    assert engine.advance(at(1)).num_rows == 0  # the clock never goes back
    assert sorted(items(engine)) == ["all day", "late"]
    engine.remove(["late", "short"])
    assert items(engine) == ["all day"]


@pytest.mark.parametrize(("kind", "settings"), KINDS)
def test_new_hours(kind: Any, settings: dict[str, Any]) -> None:
    engine = made(kind, settings)
    engine.subscribe({"id": ["me"], "x": [0], "y": [0]})
    row = {"id": ["shop"], "x": [1], "y": [0], "a": [1]}
    engine.upsert({**row, "closes": [at(1)], "time": [at(0)]})
    assert items(engine) == ["shop"]
    assert engine.upsert({**row, "opens": [at(2)]})["op"].to_pylist() == ["leave"]
    assert engine.upsert({**row, "opens": [at(2)], "time": [at(2)]})["op"].to_pylist() == ["enter"]
    assert engine.upsert({**row, "closes": [at(1)]})["op"].to_pylist() == ["leave"]  # over already
    assert engine.upsert(row)["op"].to_pylist() == ["enter"]  # without hours it is always open


def test_it_opens_and_closes_between_two_times() -> None:
    engine = MovingTopK(over=[], k=3)
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    engine.upsert({"id": ["blink"], "x": [1], "y": [0], "opens": [at(1)], "closes": [at(2)]})
    assert engine.advance(at(5)).num_rows == 0
    assert engine.stats()["deltas"] == 0


def test_zones_that_change_by_the_clock() -> None:
    engine = MovingTopK(over=[], k=1)
    engine.upsert({"id": ["a", "b"], "x": [1, 9], "y": [0, 0], "closes": [at(1), None]})
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    deltas, zones = engine.advance(at(1), zones=True)
    assert [(row["op"], row["item"]) for row in deltas.to_pylist()] == [("leave", "a"), ("enter", "b")]
    assert zones["members"].to_pylist() == [["b"]]


def test_what_it_says_of_them() -> None:
    for kind in (MovingTopK, MovingSkyline):
        engine: Any = kind(over=["a"])
        rows = {"id": [1, 2], "x": [1, 9], "y": [0, 0], "a": [1, 1]}
        assert engine.objects().column_names == ["id", "x", "y", "a"]
        engine.upsert({**rows, "closes": [at(1), None]})
        engine.subscribe({"id": [1], "x": [0], "y": [0]})
        assert engine.clock() is None
        engine.advance(at(0))
        nanoseconds = int(at(0).replace(tzinfo=UTC).timestamp()) * 10**9
        assert engine.clock() == Clock(nanoseconds, nanoseconds + 3600 * 10**9)
        engine.advance(at(1))
        assert engine.clock() == Clock(nanoseconds + 3600 * 10**9, NEVER)
        told = engine.explain(1, 1)
        assert (told["reason"], told["rank"], told["in_result"]) == ("it is closed", None, False)
        assert engine.objects()["closes"].to_pylist()[0] == at(1).replace(tzinfo=UTC)
        assert engine.objects()["opens"].null_count == 2


@pytest.mark.parametrize(
    ("rows", "column"),
    [
        ({"opens": [at(1)], "closes": [at(1)]}, "closes"),
        ({"opens": [at(2)], "closes": [at(1)]}, "closes"),
        ({"opens": ["noon"]}, "opens"),
        ({"closes": [5]}, "closes"),
        ({"time": [True]}, "time"),
    ],
)
def test_bad_hours_change_nothing(rows: dict[str, Any], column: str) -> None:
    engine = MovingTopK(over=[])
    before = engine.state()[0]
    with pytest.raises(InputError, match=f'"{column}"'):
        engine.upsert({"id": [1], "x": [0], "y": [0], **rows})
    assert engine.state()[0] == before


def test_forms_of_a_time() -> None:
    engine = MovingTopK(over=[])
    for time in (date(2024, 5, 1), at(0), {"time": [at(1)]}, [{"time": at(2)}], pa.table({"time": [at(3)]})):
        engine.advance(time)
    assert engine.advance({"time": pa.array([], pa.timestamp("s"))}).num_rows == 0
    for bad in (None, "noon", 5, {"hour": [at(1)]}):
        with pytest.raises(InputError):
            engine.advance(bad)


def test_an_attribute_that_is_called_time_is_one() -> None:
    engine = MovingTopK(over=["time", "opens"], k=1)
    engine.upsert({"id": [1, 2], "x": [0, 0], "y": [0, 0], "time": [5, 1], "opens": [1, 1]})
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert items(engine) == [2]
    assert engine.objects()["opens"].to_pylist() == [1, 1]


def test_a_failing_function_leaves_the_clock_where_it_was() -> None:
    class Score:
        fails = False

        def __call__(self, attributes: Any, distance: Any) -> Any:
            if self.fails:
                raise ValueError("no")
            return attributes[:, 0] + distance

    for method in ("zone", "scan"):
        score = Score()
        engine = MovingTopK(over=["a"], k=1, score=score, method=method)
        engine.upsert({"id": [1, 2], "x": [1, 2], "y": [0, 0], "a": [0, 0], "closes": [at(1), None]})
        engine.upsert({"id": [3], "x": [0], "y": [0], "a": [0], "opens": [at(1)]})
        engine.subscribe({"id": [1], "x": [0], "y": [0]})
        score.fails = True
        with pytest.raises(FunctionError):
            engine.advance(at(1))
        with pytest.raises(FunctionError):
            engine.upsert({"id": [1, 4], "x": [0, 0], "y": [0, 0], "a": [0, 0], "opens": [at(1), None]})
        score.fails = False
        assert items(engine) == [1]
        assert engine.advance(at(1)).select(["op", "item"]).to_pylist() == [
            {"op": "leave", "item": 1},
            {"op": "enter", "item": 3},
        ]


def test_an_object_that_opens_must_have_a_score_from_every_place() -> None:
    def score(attributes: Any, distance: Any) -> Any:
        return np.where(distance > 100, np.inf, distance)

    for method in ("zone", "scan"):
        engine = MovingTopK(over=[], k=1, score=score, method=method)
        engine.upsert({"id": [1], "x": [0], "y": [0], "opens": [at(1)]})
        engine.subscribe({"id": [1], "x": [1], "y": [0]})
        with pytest.raises(InputError, match="without a finite score"):
            engine.publish({"id": [1], "x": [500], "y": [0]})


def test_a_snapshot_has_the_hours(tmp_path: Path) -> None:
    engine = MovingSkyline(over=["a"])
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    rows = {"id": [1, 2, 3], "x": [1, 2, 3], "y": [0, 0, 0], "a": [3, 2, 1]}
    engine.upsert({**rows, "opens": [at(1), None, None], "closes": [at(3), at(2), None]})
    engine.advance(at(1))
    engine.save(tmp_path / "snapshot")
    loaded = MovingSkyline.load(tmp_path / "snapshot")
    assert loaded.clock() == engine.clock()
    for hour in (2, 3):
        assert loaded.advance(at(hour)) == engine.advance(at(hour))
    assert items(loaded) == [3]


def test_many_turn_by_turn() -> None:
    """More than stand apart: the hours against looking at all of them."""
    rng = np.random.default_rng(7)
    held, size = Hours(), 5 * SOON
    rows = np.arange(size, dtype=np.int32)
    opens = rng.integers(0, 10_000, size)
    closes = opens + rng.integers(1, 5_000, size)
    opens[rng.random(size) < 0.2], closes[rng.random(size) < 0.2] = np.iinfo(np.int64).min, NEVER
    held.put(rows, opens, closes)
    clock = held.clock
    for _ in range(300):
        some = rng.choice(rows, 40, replace=False)
        opens[some] = clock + rng.integers(-50, 400, some.size) if clock > 0 else 5
        closes[some] = opens[some] + 100
        held.put(some, opens[some], closes[some])
        gone = rng.choice(rows, 3, replace=False)
        opens[gone], closes[gone] = np.iinfo(np.int64).min, NEVER
        held.forget(gone)
        now = (opens <= clock) & ((clock < closes) | (closes == NEVER))
        assert np.array_equal(held.open(rows), now)
        turns = np.where(clock < opens, opens, np.where(clock < closes, closes, NEVER))
        assert held.next_turn() == turns.min()
        clock = max(clock, 0) + int(rng.choice([0, 1, 7, 60, 900]))
        then = (opens <= clock) & ((clock < closes) | (closes == NEVER))
        closing, opening = held.turning(clock)
        assert sorted(closing) == np.flatnonzero(now & ~then).tolist()
        assert sorted(opening) == np.flatnonzero(~now & then).tolist()
        held.move(max(clock, held.clock))
