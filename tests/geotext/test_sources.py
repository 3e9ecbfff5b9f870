"""At most so many messages of one source in a result."""

from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import GeoTextTopK, InputError, SettingError
from tests.geotext.test_engine import START, changes, items, messages, plane
from tests.geotext.test_limits import every_way

NEAR = [0, 0.5, 1, 1.5, 2, 2.5]


@every_way
def test_the_best_of_each_source_are_in_and_others_follow(method: str, refill: str) -> None:
    engine = plane(k=3, per_source=1, method=method, refill=refill)
    engine.publish(messages(*"abcdef", x=NEAR, source=["s", "s", "s", "t", None, None]))
    assert items(engine) == ["a", "d", "e"]
    assert changes(engine.retract(["a"])) == [(1, "leave", "a"), (1, "enter", "b")]
    assert changes(engine.retract(["d"])) == [(1, "leave", "d"), (1, "enter", "f")]
    assert changes(engine.publish(messages("g", x=[0.25], source=["s"]))) == [
        (1, "leave", "b"),
        (1, "enter", "g"),
    ]
    assert changes(engine.publish(messages("h", x=[0.75], source=["s"]))) == []
    assert changes(engine.publish(messages("i", x=[0.5], source=[None]))) == [
        (1, "leave", "f"),
        (1, "enter", "i"),
    ]


@every_way
def test_a_source_that_expires_makes_room_for_its_next(method: str, refill: str) -> None:
    """Better messages of a source leave first: each time the next best one of it comes in."""
    engine = plane(k=2, per_source=1, window=6, method=method, refill=refill)
    engine.publish(messages(*"abcdef", x=NEAR, source=["s", "s", "s", "t", "t", "t"]))
    found = [items(engine)]
    for number in "uvwxy":
        engine.publish(messages(number, x=[4], source=["far"]))
        found.append(items(engine))
    assert found == [["a", "d"], ["b", "d"], ["c", "d"], ["d", "w"], ["e", "x"], ["f", "y"]]


def test_messages_without_a_source_are_not_limited() -> None:
    engine = plane(k=6, per_source=1)
    engine.publish(messages(*"abc", x=NEAR[:3]))
    engine.publish(messages(*"def", x=NEAR[3:], source=[None, 7, 7]))
    assert items(engine) == list("abcde")


def test_sources_may_be_views_with_nulls() -> None:
    engine = plane(k=6, per_source=1)
    rows = pa.table(messages(*"abc", x=NEAR[:3]))
    engine.publish(rows.append_column("source", pa.array(["s", None, "s"]).cast(pa.string_view())))
    assert items(engine) == ["a", "b"]


def test_what_limits_nothing_is_refused() -> None:
    for wrong in (0, -1, 1.5, "one", True):
        with pytest.raises(SettingError, match="per_source is"):
            plane(per_source=wrong)
    with pytest.raises(InputError, match='unknown column "source"'):
        plane().publish(messages("a", source=["s"]))
    engine = plane(per_source=2)
    engine.publish(messages("a", source=["s"]))
    with pytest.raises(InputError, match=r'column "source" of "messages" holds integers(.|\n)*row: 1'):
        engine.publish(messages("b", "c", source=[None, 3]))
    with pytest.raises(InputError, match='column "source"'):
        engine.publish(messages("b", source=[0.5]))
    assert items(engine) == ["a"]


def test_a_source_is_forgotten_with_its_last_message() -> None:
    engine = plane(per_source=1, window=5)
    for number in range(100):
        engine.publish(messages(2 * number, 2 * number + 1, source=[f"s{number}", "all"]))
    sources = engine._sources
    assert sources is not None
    assert len(sources.slots) == 3  # "all" and two others
    assert sources.slots["code"].size < 64


def test_the_limit_is_explained_and_saved(tmp_path: Path) -> None:
    engine = plane(k=2, per_source=1)
    engine.publish(messages(*"abc", x=NEAR[:3], source=["s", "s", "t"]))
    told = engine.explain(1, "b")
    assert (told["in_result"], told["rank"]) == (False, None)
    assert told["reason"] == "its source has 1 better"
    engine.save(tmp_path / "saved")
    other = GeoTextTopK.load(tmp_path / "saved")
    for one in (engine, other):
        assert changes(one.retract(["a"])) == [(1, "leave", "a"), (1, "enter", "b")]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("settings", [{"window": 60}, {"window": 60, "duplicates": "edit"}, {}])
def test_any_stream_of_few_sources_is_as_by_brute_force(settings: dict[str, Any], seed: int) -> None:
    """A source that floods the window, ties, and messages that are taken back, against a scan."""
    rng = np.random.default_rng(seed)
    timed = {} if settings else {"window": timedelta(seconds=40), "half_life": timedelta(seconds=9)}
    given = {"bounds": (0, 0, 4, 3), "per_source": 1 + seed % 3, "k": 4, **settings, **timed}
    engines = [GeoTextTopK(**given), GeoTextTopK(**given, method="scan")]
    people = {
        "id": list(range(12)),
        **{axis: rng.integers(0, 4, 12).tolist() for axis in "xy"},
        "terms": [["a"], ["b"], ["a", "b"]] * 4,
        "k": rng.integers(1, 6, 12).tolist(),
    }
    for engine in engines:
        engine.subscribe({**people, "y": [min(3, y) for y in people["y"]]})
    live: list[int] = []
    for turn in range(40):
        size = int(rng.choice([1, 1, 3, 9]))
        ids = list(range(1000 * turn, 1000 * turn + size))
        rows: dict[str, Any] = {
            "id": ids,
            **{axis: rng.integers(0, 4, size).tolist() for axis in "xy"},
            "terms": [[["a"], ["b"], ["a", "b"]][int(rng.integers(3))] for _ in ids],
            "source": [["s", "s", "s", "t", "u", None][int(rng.integers(6))] for _ in ids],
        }
        if timed:
            rows["time"] = [START + timedelta(seconds=turn - int(rng.integers(0, 5))) for _ in ids]
        told = [engine.publish(rows) for engine in engines]
        assert told[0].equals(told[1])
        live = [*live, *ids][-20:]
        if turn % 3 == 2:
            gone = [int(name) for name in rng.choice(live, 2, replace=False)]
            live = [name for name in live if name not in gone]
            told = [engine.retract(gone) for engine in engines]
            assert told[0].equals(told[1])
    assert engines[0].results().equals(engines[1].results())
