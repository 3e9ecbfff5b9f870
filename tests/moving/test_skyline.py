"""Each sentence of the contract on `MovingSkyline` beyond what it shares with `MovingTopK`."""

from __future__ import annotations

import inspect
import struct
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import rankcast.plot
from rankcast import InputError, MovingSkyline, SettingError


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def hotels(**settings: Any) -> MovingSkyline:
    """On a line from 0: c is dearer and farther than b, seen from the left of both."""
    engine = MovingSkyline(**{"over": ["price", "stars"], "prefer": {"stars": "max"}, **settings})
    engine.upsert(
        {"id": ["a", "b", "c"], "x": [0, 4, 8], "y": [0] * 3, "price": [9, 5, 5], "stars": [1, 3, 3]}
    )
    return engine


def items(engine: MovingSkyline) -> list[Any]:
    return list(engine.results()["item"].to_pylist())


def test_settings_are_those_of_the_contract_and_keyword_only() -> None:
    parameters = inspect.signature(MovingSkyline).parameters
    assert {"over", "prefer", "metric", "extra", "tuning"} <= set(parameters)
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters.values())
    assert (parameters["prefer"].default, parameters["metric"].default) == ("min", "euclidean")


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"prefer": "low"}, "expected one of: max, min"),
        ({"prefer": {"price": "low"}}, "expected one of: max, min"),
        ({"prefer": {"prize": "max"}}, 'Did you mean "price"'),
        ({"metric": "network"}, "graph is None"),
        ({"tuning": {"universe": (0, 0, 1)}}, "universe is"),
        ({"tuning": {"universe": (0, 0, 0, 1)}}, "each min below its max"),
        ({"tuning": {"universe": (0, 0, float("inf"), 1)}}, "universe is"),
        ({"tuning": {"universe": "0011"}}, "universe is"),
        ({"tuning": {"univers": None}}, 'Did you mean "universe"'),
        ({"over": ["y"]}, 'names "y"'),
    ],
)
def test_bad_settings_are_refused_at_once(bad: dict[str, Any], match: str) -> None:
    with pytest.raises(SettingError, match=match):
        MovingSkyline(**{"over": ["price"], **bad})


def test_an_object_is_out_if_another_is_as_good_in_all_and_better_in_one() -> None:
    engine = hotels()
    answer = engine.subscribe({"id": [1], "x": [-1], "y": [0]})
    assert rows(answer) == [(1, "enter", "a", 1.0, 1), (1, "enter", "b", 5.0, 2)]


def test_at_equal_distance_and_attributes_nobody_is_better() -> None:
    engine = hotels()
    engine.subscribe({"id": [1], "x": [6], "y": [0]})
    assert rows(engine.results()) == [(1, 1, "b", 2.0), (1, 2, "c", 2.0)]


@pytest.mark.parametrize(("worse", "left"), [("b", "c"), ("c", "b")])
def test_at_equal_distance_better_attributes_win(worse: str, left: str) -> None:
    engine = hotels()
    engine.upsert({"id": [worse], "x": [4 if worse == "b" else 8], "y": [0], "price": [5], "stars": [2]})
    engine.subscribe({"id": [1], "x": [6], "y": [0]})
    assert items(engine) == [left]


def test_at_equal_distance_ranks_go_by_id_whatever_the_attributes() -> None:
    for prices in ([1, 2], [2, 1]):
        engine = MovingSkyline(over=["p", "q"])
        engine.upsert({"id": [7, 5], "x": [1, -1], "y": [0, 0], "p": prices, "q": prices[::-1]})
        engine.subscribe({"id": [1], "x": [0], "y": [0]})
        assert items(engine) == [5, 7]


def test_the_score_is_the_distance_and_ranks_go_by_distance_then_id() -> None:
    engine = MovingSkyline(over=["price"])
    engine.upsert({"id": [3, 10, 2], "x": [1, 0, -1], "y": [0, 0.5, 0], "price": [1, 2, 1]})
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert rows(engine.results()) == [(1, 1, 10, 0.5), (1, 2, 2, 1.0), (1, 3, 3, 1.0)]


@pytest.mark.parametrize(
    ("prefer", "expected"),
    [
        ("min", ["a"]),
        ("max", ["a", "b", "c"]),
        ({"price": "max"}, ["a", "b"]),
        ({"stars": "max"}, ["a", "c"]),
    ],
)
def test_prefer_turns_attributes(prefer: Any, expected: list[str]) -> None:
    engine = MovingSkyline(over=["price", "stars"], prefer=prefer)
    attributes = {"price": [1, 2, 1], "stars": [1, 1, 2]}
    engine.upsert({"id": ["a", "b", "c"], "x": [1, 2, 3], "y": [0] * 3, **attributes})
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert items(engine) == expected


def test_without_attributes_the_nearest_are_left() -> None:
    engine = MovingSkyline(over=[])
    engine.upsert({"id": [1, 2, 3], "x": [1, -1, 2], "y": [0, 0, 0]})
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert items(engine) == [1, 2]


def test_moving_tells_enters_and_leaves_only() -> None:
    engine = hotels()
    engine.subscribe({"id": [1], "x": [-1], "y": [0]})
    assert engine.publish({"id": [1], "x": [0], "y": [0]}).num_rows == 0
    answer = engine.publish({"id": [1], "x": [8], "y": [0]})
    assert rows(answer) == [
        (1, "leave", "a", None, None),
        (1, "leave", "b", None, None),
        (1, "enter", "c", 0.0, 1),
    ]


def test_an_object_that_changes_tells_an_update_of_its_distance() -> None:
    engine = hotels()
    engine.subscribe({"id": [1], "x": [-1], "y": [0]})
    moved = {"id": ["a"], "x": [1], "y": [0], "price": [9], "stars": [1]}
    assert rows(engine.upsert(moved)) == [(1, "update", "a", 2.0, 1)]
    assert rows(engine.upsert({**moved, "price": [8]})) == []
    assert rows(engine.remove(["b"])) == [(1, "leave", "b", None, None), (1, "enter", "c", 9.0, 2)]


def test_there_is_no_k() -> None:
    engine = hotels()
    with pytest.raises(InputError, match='unknown column "k"'):
        engine.subscribe({"id": [1], "x": [0], "y": [0], "k": [1]})
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    with pytest.raises(InputError, match='unknown column "k"'):
        engine.amend({"id": [1], "k": [1]})
    assert len(items(engine)) == 2


def test_amend_moves_a_query() -> None:
    engine = hotels()
    engine.subscribe({"id": [1], "x": [8], "y": [3]})
    answer = engine.amend({"id": [1], "x": [-1]})
    assert [row["op"] for row in answer.to_pylist()] == ["leave", "enter", "enter"]
    assert engine.results()["score"].to_pylist()[0] == np.sqrt(1 + 9)


def test_a_place_too_far_for_a_distance_is_refused() -> None:
    engine = hotels()
    with pytest.raises(InputError, match=r"is 1e\+200(.|\n)*within 1e\+150 of 0"):
        engine.subscribe({"id": [1], "x": [1e200], "y": [0]})
    assert len(engine) == 0


def test_euclidean_zones_are_polygons_in_order_of_registration() -> None:
    engine = hotels(tuning={"universe": [0, -1, 10, 10]})
    engine.subscribe({"id": [2, 1], "x": [5, 7], "y": [0.5, 1]})
    zones = engine.zones()
    assert zones.column_names == ["subscription", "geometry"]
    assert zones.schema.field("geometry").type == pa.binary()
    told = {name: np.frombuffer(wkb, "<f8", 10, 13).reshape(5, 2) for name, wkb in rows(zones)}
    assert list(told) == [2, 1]
    assert [wkb[:13] for _, wkb in rows(zones)] == 2 * [struct.pack("<BIII", 1, 3, 1, 5)]
    assert np.allclose(sorted(told[2][:-1].tolist()), [[2, -1], [2, 10], [6, -1], [6, 10]])
    assert np.allclose(sorted(told[1][:-1].tolist()), [[6, -1], [6, 10], [10, -1], [10, 10]])


def test_scanning_knows_no_more_than_the_place() -> None:
    engine = hotels(method="scan")
    engine.subscribe({"id": [2, 1], "x": [3, 5], "y": [0.5, 1]})
    assert rows(engine.zones()) == [
        (2, struct.pack("<BIdd", 1, 1, 3.0, 0.5)),
        (1, struct.pack("<BIdd", 1, 1, 5.0, 1.0)),
    ]


@pytest.mark.parametrize("metric", ["manhattan", "haversine"])
def test_zones_in_other_metrics_are_circles_with_members(metric: str) -> None:
    engine = hotels(metric=metric, tuning={"m": 1})
    assert engine.zones().num_rows == 0
    engine.subscribe({"id": [2, 1], "x": [-1, 8], "y": [0, 0]})
    zones = engine.zones()
    assert zones.column_names == ["subscription", "x", "y", "radius", "members"]
    told = rows(zones)
    assert [row[:3] + row[4:] for row in told] == [(2, -1.0, 0.0, ["a", "b", "c"]), (1, 8.0, 0.0, ["c", "b"])]
    assert told[0][3] == np.inf
    assert told[1][3] == pytest.approx(4.0 if metric == "manhattan" else 4 * 111_195.08)


@pytest.mark.parametrize("metric", ["manhattan", "haversine"])
def test_scanning_knows_circles_of_no_size(metric: str) -> None:
    engine = hotels(metric=metric, method="scan")
    engine.subscribe({"id": [2, 1], "x": [-1, 8], "y": [0, 0]})
    assert rows(engine.zones()) == [(2, -1.0, 0.0, 0.0, ["a", "b"]), (1, 8.0, 0.0, 0.0, ["c"])]


def test_explain_names_who_dominates() -> None:
    engine = hotels()
    engine.subscribe({"id": [1], "x": [-1], "y": [0]})
    told = engine.explain(1, "c")
    assert (told["in_result"], told["rank"], told["score"]) == (False, None, 9.0)
    assert (told["dominated_by"], told["score_to_beat"]) == ("b", 5.0)
    assert "'b'" in told["reason"]
    told = engine.explain(1, "b")
    assert (told["in_result"], told["rank"], told["dominated_by"]) == (True, 2, None)
    assert engine.explain(1, "a")["score_to_beat"] == 5.0
    with pytest.raises(InputError, match="not known"):
        engine.explain(1, "z")


@pytest.mark.parametrize("method", ["zone", "scan"])
def test_explain_tells_where_an_object_would_appear(method: str) -> None:
    engine = hotels(method=method, tuning={"universe": (-9, -9, 19, 19)})
    engine.subscribe({"id": [1, 2], "x": [-1, 5], "y": [0, 2], "price_lo": [None, 7]})
    assert engine.explain(1, "c")["appears_at"] == pytest.approx((6, 0))  # nearer to c than to b
    assert engine.explain(1, "b")["appears_at"] == (-1.0, 0.0)
    assert engine.explain(1, "a")["appears_at"] == (-1.0, 0.0)
    told = engine.explain(2, "c")
    assert (told["appears_at"], told["reason"]) == (None, "the filter of the subscription keeps it out")
    engine.upsert({"id": ["d"], "x": [8], "y": [0], "price": [6], "stars": [3]})
    assert engine.explain(1, "d")["appears_at"] is None  # c is better at the same place


@pytest.mark.parametrize("metric", ["euclidean", "manhattan"])
@pytest.mark.parametrize("method", ["zone", "scan"])
def test_a_zone_can_be_drawn(metric: str, method: str) -> None:
    matplotlib = pytest.importorskip("matplotlib")
    engine = hotels(metric=metric, method=method)
    engine.subscribe({"id": [1], "x": [5], "y": [1]})
    figure = rankcast.plot.zone(engine, 1, track=[(4, 1), (5, 1)])
    assert isinstance(figure, matplotlib.figure.Figure)
    told = [text.get_text() for text in figure.axes[0].get_legend().get_texts()]
    assert {"objects", "query", "track"} <= set(told)
    if (metric, method) == ("euclidean", "zone"):
        assert {"zone", "impact regions of others"} <= set(told)
        assert figure.axes[0].get_title() == "zone of 1: 4 edges, a skyline of 1"


def test_stats_have_the_counters_of_the_contract() -> None:
    engine = hotels(method="scan")
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    engine.publish({"id": [1], "x": [1], "y": [0]})
    stats = engine.stats()
    assert (stats["events"], stats["recomputed"], stats["nodes_accessed"]) == (1, 2, 0)
    assert stats["candidates"] == 6


def test_settings_survive_saving(tmp_path: Path) -> None:
    engine = hotels(tuning={"universe": (0, 0, np.float64(10), 10)})
    engine.subscribe({"id": [1], "x": [6], "y": [0]})
    engine.save(tmp_path / "e")
    loaded = MovingSkyline.load(tmp_path / "e")
    assert repr(loaded) == repr(engine)
    assert loaded.results().equals(engine.results())
