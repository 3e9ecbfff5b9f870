"""Manners: what engines show of themselves, and what they say of mistakes that people make."""

from __future__ import annotations

import datetime
import os
import pty
import pydoc
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rankcast
from rankcast import (
    CoveringTable,
    GeoTextTopK,
    Hierarchy,
    InputError,
    MovingSkyline,
    MovingTopK,
    RangeTopK,
    RankedMatcher,
    RoadGraph,
    SettingError,
    Vocabulary,
    plot,
    scoring,
)
from rankcast.core.spec import engine_type, known_names
from rankcast.text import Analyzer

PLACES = {"id": ["a", "b"], "x": [0, 4], "y": [0, 0]}
ROADS = RoadGraph.from_edges({"start": ["a"], "end": ["b"], "length": [4]}, nodes=PLACES)
WORDS = Vocabulary.fit({"terms": [["pizza", "bar"], ["bar"]]})


def dear(attributes: Any, distance: Any) -> Any:
    """A score of one's own."""
    return attributes[:, 0] + distance


ENGINES = [
    RangeTopK(),
    RangeTopK(over=["x", "z"], by="price", k=3, order="desc", max_k=9, nulls="keep", sides="upper"),
    RangeTopK(lists=False, method="dense", epsilon=0.5),
    CoveringTable(over="a"),
    CoveringTable(over=["a", "b"], graph="full", index="zcurve", extra="ignore"),
    CoveringTable(over=["a"], merge=0.25),
    RankedMatcher(over=["a", "c"], categories=["c"], per_owner=2),
    RankedMatcher(
        over=["a", "c"], categories={"c": Hierarchy({"nurse": "care"})}, boosts={"c": {"nurse": 2.0}}
    ),
    RankedMatcher(over="a", mode="relaxed", combine="max", errors="normal", overlap="inside"),
    RankedMatcher(over="a", mode="relaxed", combine=np.max),
    GeoTextTopK(bounds=(0, 0, 1, 1)),
    GeoTextTopK(bounds=(0, 0, 1, 1), vocabulary=WORDS, k=3, alpha=0.25),
    GeoTextTopK(
        metric="haversine", window=datetime.timedelta(hours=2), half_life=datetime.timedelta(hours=1)
    ),
    GeoTextTopK(metric="haversine", bounds=(5, 45, 11, 48), scale="5 km", per_source=1, distinct=True),
    GeoTextTopK(bounds=(0, 0, 1, 1), analyzer=Analyzer(), vectors=3, beta=0.5, duplicates="edit"),
    MovingTopK(over="price"),
    MovingTopK(over=["price", "wait"], k=2, m=3, score=scoring.waspas([1, 2, 3], 0.25, offset=1.5)),
    MovingTopK(over=["price"], score=scoring.weighted_distance(), metric="manhattan", ordered=False),
    MovingTopK(over=["price"], score=dear),
    MovingTopK(over=["price"], score=scoring.function(dear, falling=[])),
    MovingTopK(over=[], metric="network", graph=ROADS),
    MovingSkyline(over=["price", "stars"], prefer={"price": "min", "stars": "max"}),
    MovingSkyline(over=["price", "stars"], metric="haversine", method="scan"),
]
NAMES = {name: getattr(rankcast, name) for name in rankcast.__all__}
NAMES |= {"datetime": datetime, "vocabulary": WORDS, "graph": ROADS, "combine": np.max, "dear": dear}


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: repr(engine)[:60])
def test_what_is_shown_can_be_pasted(engine: Any) -> None:
    again = eval(repr(engine), dict(NAMES))  # noqa: S307
    assert type(again) is type(engine)
    assert again.state()[0]["settings"] == engine.state()[0]["settings"]
    assert repr(again) == repr(engine)
    assert "\n" not in repr(engine)


def test_settings_that_are_the_defaults_are_not_shown_and_counts_are() -> None:
    engine = RangeTopK(over="risk", by="pe", k=2)
    assert repr(engine) == "RangeTopK(over='risk', by='pe', k=2)  # 0 subscriptions, 0 items"
    engine.publish({"id": range(2000), "risk": range(2000), "pe": range(2000)})
    engine.subscribe({"id": ["ada"]})
    assert repr(engine) == "RangeTopK(over='risk', by='pe', k=2)  # 1 subscription, 2,000 items"
    matcher = RankedMatcher(over=["age"])
    matcher.subscribe({"id": [1, 2], "score": [1.0, 2.0]})
    assert repr(matcher) == "RankedMatcher(over='age', k=20)  # 2 subscriptions"
    skyline = MovingSkyline(over=["price"])
    skyline.upsert({"id": [7], "x": [0], "y": [0], "price": [1]})
    assert repr(skyline) == "MovingSkyline(over='price')  # 0 subscriptions, 1 item"


@pytest.mark.parametrize("engine", ENGINES, ids=lambda engine: repr(engine)[:60])
def test_an_engine_without_subscriptions_is_true(engine: Any) -> None:
    assert len(engine) == 0
    assert engine
    assert engine or False


@pytest.mark.parametrize("name", known_names())
def test_help_shows_public_things_only(name: str) -> None:
    told = pydoc.plain(pydoc.render_doc(engine_type(name)))
    named = {
        line[4:].partition("(")[0].partition(" ")[0] for line in told.splitlines() if line.startswith(" |  ")
    }
    assert not {each for each in named if each.startswith("_") and not each.startswith("__")}
    assert {"subscribe", "publish", "save", "stats"} <= named


def test_numpy_integers_are_integers() -> None:
    two: Any = np.int64(2)  # whose type is none of Python's
    nine: Any = np.uint8(9)
    engine = RangeTopK(k=two, max_k=nine)
    assert repr(engine).startswith("RangeTopK(over='x', by='y', k=2, max_k=9)")
    engine.publish([{"id": np.int32(7), "x": np.int16(1), "y": np.float32(2)}])
    engine.subscribe([{"id": np.uint64(1), "k": np.int8(1)}])
    assert engine.results(np.array([1]))["item"].to_pylist() == [7]
    assert engine.results([np.int64(1)])["item"].to_pylist() == [7]
    assert engine.explain(np.int64(1), np.int16(7))["rank"] == 1
    assert engine.remove([np.int64(7)]).num_rows == 1
    assert CoveringTable(over=["a"], graph=two).state()[0]["settings"]["graph"] == 2
    assert MovingTopK(over=["a"], k=two, m=two).state()[0]["settings"]["m"] == 2
    bounds: Any = np.array([0, 0, 9, 9])
    geo = GeoTextTopK(bounds=bounds, k=nine, window=nine)
    assert geo.state()[0]["settings"]["bounds"] == [0.0, 0.0, 9.0, 9.0]
    assert RankedMatcher(over=["a"], k=two, per_owner=two).state()[0]["settings"]["k"] == 2


def screener() -> RangeTopK:
    engine = RangeTopK(over="risk", by="pe", max_k=50)
    engine.publish({"id": [1], "risk": [2], "pe": [3]})
    return engine


EXTRA = 'If you do not need it, leave it out, or make the engine with extra="ignore".'


@pytest.mark.parametrize(
    ("call", "rows", "what", "hint"),
    [
        (
            "publish",
            {"id": [2], "risc": [1], "pe": [1]},
            'unknown column "risc"',
            f'Did you mean "risk"? {EXTRA}',
        ),
        ("publish", {"id": [2], "sector": ["oil"]}, 'unknown column "sector"', EXTRA),
        ("publish", {"id": [2], "risk_lo": [1]}, "risk_lo", 'Rows with "risk_lo" are for subscribe.'),
        ("subscribe", {"id": [2], "pe": [1]}, '"pe"', 'Rows with "pe" are for publish.'),
        (
            "publish",
            {"id": ["a"], "risk": [1], "pe": [1]},
            "strings, expected integers",
            "turn these into integers",
        ),
        ("publish", {"id": [1, "a"], "risk": [1, 1]}, "of different kinds", "Turn all of them into strings"),
        ("publish", {"id": 7, "risk": 1}, "is a single int", "Wrap it in a list."),
        ("publish", 7, "cannot read rows from int", "Pass a pyarrow Table, a pandas or polars DataFrame"),
        ("publish", [1, 2], "cannot read rows from list", "a list of dicts"),
        ("subscribe", {"id": [1], "k": [51]}, 'column "k" of "subscriptions" is 51', None),
        ("unsubscribe", 7, "expected a sequence of ids", "Wrap it in a list."),
    ],
)
def test_a_mistake_says_what_to_do(call: str, rows: Any, what: str, hint: str | None) -> None:
    with pytest.raises(InputError) as found:
        getattr(screener(), call)(rows)
    assert what in str(found.value)
    assert found.value.hint is None if hint is None else hint in (found.value.hint or "")
    assert found.value.__suppress_context__ or found.value.__context__ is None


def test_a_table_of_arrow_is_advised_alike() -> None:
    table = pa.table({"id": [2], "risk_lo": [1.0]})
    for ask in (lambda: screener().publish(table), lambda: screener().check_columns("publish", table.schema)):
        with pytest.raises(InputError, match="are for subscribe") as found:
            ask()
        assert found.value.column == "risk_lo"
        assert found.value.where == "events"


@pytest.mark.parametrize(
    "name", [name for name in known_names() if name not in ("CoveringTable", "MovingSkyline")]
)
def test_a_k_out_of_range_names_its_ceiling(name: str) -> None:
    more: dict[str, Any] = {"bounds": (0, 0, 1, 1)} if name == "GeoTextTopK" else {"over": ["a"]}
    for k in (0, -1, 2**31, 2.5, "3", True, None, np.nan):
        with pytest.raises(SettingError, match="expected a whole number from 1 to 2147483647"):
            getattr(rankcast, name)(**more, k=k)


def test_a_ceiling_of_ones_own_is_named() -> None:
    with pytest.raises(SettingError, match="k is 10, expected at most max_k, which is 5"):
        RangeTopK(max_k=5)
    with pytest.raises(InputError, match="at most max_k, which is 50"):
        screener().subscribe({"id": [1], "k": [51]})
    with pytest.raises(InputError, match="expected a whole number from 1 to 2147483647"):
        RangeTopK().subscribe({"id": [1], "k": [2**31]})


def test_a_picture_of_what_an_engine_has_not_says_so() -> None:
    for engine in (RangeTopK(), RankedMatcher(over=["a"]), GeoTextTopK(bounds=(0, 0, 1, 1))):
        with pytest.raises(InputError, match=f"{type(engine).__name__} has no zones, expected MovingTopK or"):
            plot.zone(engine, 1)
    with pytest.raises(InputError, match="MovingSkyline has no influence regions, expected RangeTopK"):
        plot.influence(MovingSkyline(over=["a"]), 1)  # type: ignore[arg-type]


PIPELINE = """
checkpoint = "checkpoint"
[engine]
name = "RangeTopK"
by = "pe"
[events]
format = "json"
path = "events"
schema = "id string, x double, pe double, sector string"
[subscriptions]
format = "json"
path = "people"
schema = "id string, x_lo double"
[sink]
format = "json"
path = "out"
"""


def on_a_terminal(*words: str) -> str:
    """What a command says where people read it."""
    ours, theirs = pty.openpty()
    code = "import sys; from rankcast.cli import main; sys.exit(main(sys.argv[1:]))"
    with subprocess.Popen([sys.executable, "-c", code, *words], stdout=theirs, stderr=theirs) as started:
        os.close(theirs)
        told = b""
        while True:
            try:
                part = os.read(ours, 4096)
            except OSError:  # so a terminal ends on Linux
                break
            if not part:
                break
            told += part
    os.close(ours)
    assert started.returncode == 2
    return told.decode().replace("\r", "")


def test_errors_of_pipelines_have_lines_of_their_own(tmp_path: Path) -> None:
    file = tmp_path / "pipeline.toml"
    file.write_text(PIPELINE)
    for name in ("events", "people"):
        (tmp_path / name).mkdir()
    what, detail, hint = on_a_terminal("run", str(file), "--check").splitlines()
    assert what.startswith(f'rankcast: {file}:6: RangeTopK: "events": unknown column "sector"')
    assert detail == "Detail: The source has: id, x, pe, sector."
    assert hint == 'Hint: With extra = "ignore" in [engine] further columns are left out.'
