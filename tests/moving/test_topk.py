"""Each sentence of the contract on moving queries, shown on `MovingTopK`."""

from __future__ import annotations

import inspect
import math
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import InputError, MovingTopK, SettingError, SnapshotError
from rankcast.core import contract
from rankcast.moving import scoring
from rankcast.tables.schema import Floats
from tests.laws import moving_topk as laws

FAR = 1e200  # the square of this is infinite


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def changes(table: pa.Table) -> list[tuple[Any, Any]]:
    return [(row["op"], row["item"]) for row in table.to_pylist()]


def cafes(**settings: Any) -> MovingTopK:
    """Three cafes on a line; the default score is the mean of price and distance."""
    engine = MovingTopK(**{"over": ["price"], "k": 2, **settings})
    engine.upsert({"id": ["a", "b", "c"], "x": [0, 4, 10], "y": [0, 0, 0], "price": [6, 2, 4]})
    return engine


def items(engine: MovingTopK, *ids: Any) -> list[Any]:
    return list(engine.results(list(ids) or None)["item"].to_pylist())


def unchanged_by(engine: MovingTopK, call: str, bad: Any, match: str) -> None:
    """The call raises and leaves the engine as it was, counters too."""
    header, arrays = engine.state()
    before = {name: array.copy() for name, array in arrays.items()}
    counters, results = engine.stats(), engine.results()
    with pytest.raises(InputError, match=match):
        getattr(engine, call)(bad)
    assert engine.stats() == counters
    assert engine.results().equals(results)
    assert engine.state()[0] == header
    for name, array in engine.state()[1].items():
        assert np.array_equal(array, before[name], equal_nan=array.dtype.kind == "f"), name


# Settings


def test_settings_are_those_of_the_contract_and_keyword_only() -> None:
    parameters = inspect.signature(MovingTopK).parameters
    assert {"over", "k", "m", "score", "metric", "ordered", "extra", "tuning"} <= set(parameters)
    assert all(each.kind is inspect.Parameter.KEYWORD_ONLY for each in parameters.values())
    defaults = {name: each.default for name, each in parameters.items()}
    assert (defaults["k"], defaults["m"], defaults["score"]) == (10, "auto", None)
    assert (defaults["metric"], defaults["ordered"]) == ("euclidean", True)


@pytest.mark.parametrize(
    ("bad", "match"),
    [
        ({"k": 0}, "k is 0"),
        ({"m": 0}, "m is 0"),
        ({"m": 1.5}, "m is 1.5"),
        ({"ordered": 1}, "ordered is 1"),
        ({"metric": "network"}, "graph is None"),
        ({"metric": "euclidian"}, 'Did you mean "euclidean"'),
        ({"method": "zones"}, "expected one of: scan, zone"),
        ({"tuning": {"circle": "round"}}, "circle"),
        ({"tuning": {"epsilon": 0}}, "epsilon is 0"),
        ({"tuning": {"threads": 0}}, "threads is 0"),
        ({"over": ["x"]}, 'names "x"'),
        ({"over": ["price", "price"]}, "twice"),
        ({"score": "weighted_sum"}, "a score or a function"),
        ({"score": scoring.weighted_sum([1])}, "has 1 weights, expected 2"),
        ({"score": lambda a, d: -d}, "falls when distance grows"),
        ({"tuning": {"universe": None}}, "unknown key"),
        ({"extra": "allow"}, "extra"),
    ],
)
def test_bad_settings_are_refused_at_once(bad: dict[str, Any], match: str) -> None:
    with pytest.raises(SettingError, match=match):
        MovingTopK(**{"over": ["price"], **bad})


# Objects


def test_upsert_inserts_and_returns_the_deltas_it_causes() -> None:
    engine = MovingTopK(over=["price"], k=1)
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert rows(engine.upsert({"id": ["a"], "x": [3], "y": [4], "price": [7]})) == [(1, "enter", "a", 6.0, 1)]


def test_upsert_replaces_an_object_and_tells_its_new_score_as_an_update() -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    answer = engine.upsert({"id": ["b"], "x": [4], "y": [0], "price": [0]})
    assert rows(answer) == [(1, "update", "b", 2.0, 1)]


def test_an_upsert_that_changes_nothing_tells_nothing() -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert engine.upsert({"id": ["b"], "x": [4], "y": [0], "price": [2]}).num_rows == 0


def test_an_id_may_come_several_times_in_an_upsert_and_the_last_row_holds() -> None:
    engine = cafes(k=3)
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    new = {"id": ["d", "a", "d", "a"], "x": [0, 9, 0, 0], "y": [0] * 4, "price": [9, 9, 1, 2]}
    answer = engine.upsert(new)
    assert rows(answer) == [
        (1, "leave", "c", None, None),
        (1, "enter", "d", 0.5, 1),
        (1, "update", "a", 1.0, 2),
    ]


def test_remove_returns_the_deltas_it_causes() -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert rows(engine.remove(["b"])) == [(1, "leave", "b", None, None), (1, "enter", "c", 7.0, 2)]
    assert items(engine) == ["a", "c"]


@pytest.mark.parametrize("bad", [["a", "z"], ["a", "a"], [1], "a", [None]])
def test_remove_of_what_is_not_there_is_refused(bad: Any) -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    unchanged_by(engine, "remove", bad, "id")


@pytest.mark.parametrize(
    ("change", "match"),
    [
        ({"price": None}, 'column "price" of "objects" is missing'),
        ({"x": None}, 'column "x" of "objects" is missing'),
        ({"price": [1.0, None]}, '"price" of "objects" is null(.|\n)*row: 1'),
        ({"y": [math.nan, 1.0]}, '"y" of "objects" is NaN(.|\n)*row: 0'),
        ({"y": [1.0, math.inf]}, '"y" of "objects" is infinite(.|\n)*row: 1'),
        ({"price": ["1", "2"]}, '"price" of "objects" has the type'),
        ({"stars": [1, 2]}, 'unknown column "stars"'),
        ({"id": [1, 2]}, '"id" of "objects" holds integers'),
    ],
)
def test_bad_objects_are_refused_by_column_and_row(change: dict[str, Any], match: str) -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    given = {"id": ["d", "a"], "x": [1, 2], "y": [1, 2], "price": [1, 2], **change}
    unchanged_by(
        engine, "upsert", {name: values for name, values in given.items() if values is not None}, match
    )


def test_unknown_columns_may_be_ignored() -> None:
    engine = cafes(extra="ignore")
    engine.upsert({"id": ["d"], "x": [0], "y": [0], "price": [0], "stars": [5]})
    engine.subscribe({"id": [1], "x": [0], "y": [0], "colour": ["red"]})
    assert items(engine)[0] == "d"


def test_empty_tables_do_nothing() -> None:
    engine = cafes()
    nothing: dict[str, list[Any]] = {"id": [], "x": [], "y": []}
    assert engine.upsert({**nothing, "price": []}).num_rows == engine.publish(nothing).num_rows == 0
    assert engine.subscribe(nothing).num_rows == engine.remove([]).num_rows == 0


# Queries


def test_positions_are_published_and_tell_enters_and_leaves_only() -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    answer = engine.publish({"id": [1], "x": [9], "y": [0]})
    assert rows(answer) == [(1, "leave", "a", None, None), (1, "enter", "c", 2.5, 1)]


def test_results_have_scores_and_ranks_at_the_last_position() -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert rows(engine.results()) == [(1, 1, "a", 3.0), (1, 2, "b", 3.0)]
    assert engine.publish({"id": [1], "x": [2], "y": [0]}).num_rows == 0
    assert rows(engine.results()) == [(1, 1, "b", 2.0), (1, 2, "a", 4.0)]


def test_an_id_may_come_several_times_in_publish_and_the_answer_is_net() -> None:
    engine = cafes()
    engine.subscribe({"id": [1, 2], "x": [0, 0], "y": [0, 0]})
    there_and_back = {"id": [1, 2, 1], "x": [9, 9, 0], "y": [0, 0, 0]}
    assert rows(engine.publish(there_and_back)) == [(2, "leave", "a", None, None), (2, "enter", "c", 2.5, 1)]


def test_amend_moves_a_query_or_changes_its_k_without_updates() -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [3]})
    assert changes(engine.amend({"id": [1], "x": [9]})) == [("leave", "a"), ("enter", "c")]
    assert rows(engine.results())[0][3] == (4 + math.sqrt(1 + 9)) / 2
    assert changes(engine.amend({"id": [1], "k": [3]})) == [("enter", "a")]
    assert changes(engine.amend({"id": [1], "k": [None]})) == [("leave", "a")]


def test_a_place_has_no_default_that_a_null_could_set() -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    unchanged_by(engine, "amend", {"id": [1], "x": [None]}, '"x" of "subscriptions" is null')


@pytest.mark.parametrize(
    ("call", "bad", "match"),
    [
        ("publish", {"id": [1, 7], "x": [0, 0], "y": [0, 0]}, '"id" of "events" is 7(.|\n)*row: 1'),
        ("publish", {"id": [1, 1], "x": [0, None], "y": [0, 0]}, '"x" of "events" is null(.|\n)*row: 1'),
        ("publish", {"id": [1], "x": [0]}, '"y" of "events" is missing'),
        ("publish", {"id": [1], "x": [0], "y": [0], "k": [1]}, 'unknown column "k"'),
        ("publish", {"id": ["1"], "x": [0], "y": [0]}, "holds strings"),
        ("subscribe", {"id": [1], "x": [0], "y": [0]}, "there already"),
        ("subscribe", {"id": [2, 2], "x": [0, 0], "y": [0, 0]}, "a second time"),
        ("subscribe", {"id": [2], "x": [0], "y": [0], "k": [0]}, '"k" of "subscriptions" is 0'),
        ("subscribe", {"id": [2], "y": [0]}, '"x" of "subscriptions" is missing'),
        ("amend", {"id": [7], "x": [0]}, "is 7, which is not known"),
        ("amend", {"id": [1, 1], "x": [0, 1]}, "a second time"),
        ("unsubscribe", [7], "is 7, which is not known"),
    ],
)
def test_bad_queries_are_refused_by_column_and_row(call: str, bad: Any, match: str) -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    unchanged_by(engine, call, bad, match)


def test_a_k_of_ones_own_overrides_the_engines() -> None:
    engine = cafes()
    engine.subscribe({"id": [1, 2, 3], "x": [0] * 3, "y": [0] * 3, "k": [1, None, 9]})
    assert [len(items(engine, each)) for each in (1, 2, 3)] == [1, 2, 3]


def test_ties_go_to_the_smaller_id() -> None:
    for names in ([10, 9, -1], ["b", "a", "B"]):
        engine = MovingTopK(over=[], k=2)
        engine.upsert({"id": names, "x": [0, 2, 1], "y": [1, 1, 0]})
        engine.subscribe({"id": [1], "x": [1], "y": [1]})
        assert items(engine) == sorted(names)[:2]


def test_unsubscribe_returns_leaves_and_the_id_is_free_again() -> None:
    engine = cafes()
    engine.subscribe({"id": [1, 2], "x": [0, 9], "y": [0, 0]})
    assert changes(engine.unsubscribe([1])) == [("leave", "a"), ("leave", "b")]
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert engine.results()["subscription"].to_pylist() == [2, 2, 1, 1]
    assert len(engine) == 2


# Scores


def test_the_default_is_the_sum_with_equal_weights() -> None:
    engine = MovingTopK(over=["p", "q"])
    engine.upsert({"id": [1], "x": [3], "y": [4], "p": [1], "q": [9]})
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert rows(engine.results())[0][3] == 1 / 3 * 1 + 1 / 3 * 9 + 1 / 3 * 5


@pytest.mark.parametrize(
    ("score", "expected"),
    [
        (scoring.weighted_sum([1, 10, 100]), 2 + 80 + 500),
        (scoring.weighted_product([2, 1, 1]), 4 * 8 * 5),
        (scoring.weighted_distance([1, 0.5]), 5 / 6),
        (scoring.waspas([2, 1, 1], 0.25), 0.25 * 17 + 0.75 * 160),
        (lambda a, d: a[:, 0] + 3 * d, 17.0),
        (scoring.function(lambda a, d: d - a[:, 1], falling=["q"]), -3.0),
    ],
)
def test_weights_are_in_the_order_of_over_then_distance(score: Any, expected: float) -> None:
    engine = MovingTopK(over=["p", "q"], score=score)
    engine.upsert({"id": [1], "q": [8], "p": [2], "x": [3], "y": [4]})
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert rows(engine.results())[0][3] == expected


def test_a_larger_attribute_is_better_in_weighted_distance() -> None:
    engine = MovingTopK(over=["stars"], k=1, score=scoring.weighted_distance())
    engine.upsert({"id": ["near", "far"], "x": [2, 3], "y": [0, 0], "stars": [1, 5]})
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert items(engine) == ["far"]


def test_without_attributes_it_is_the_k_nearest_by_distance() -> None:
    engine = MovingTopK(over=[], k=2)
    engine.upsert({"id": [1, 2, 3], "x": [3, 0, 1], "y": [4, 2, 0]})
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert rows(engine.results()) == [(1, 1, 3, 1.0), (1, 2, 2, 2.0)]


@pytest.mark.parametrize(
    ("score", "column", "expected"),
    [
        (scoring.weighted_product(), "q", "a number above 0"),
        (scoring.waspas([0, 1, 1]), "q", "a number above 0"),
        (scoring.weighted_distance([0, 1]), "q", "a weighted sum above 0"),
    ],
)
def test_a_zero_for_which_there_is_no_score_is_refused(score: Any, column: str, expected: str) -> None:
    engine = MovingTopK(over=["p", "q"], score=score)
    bad = {"id": [1, 2], "x": [0, 0], "y": [0, 0], "p": [1, 1], "q": [1, 0]}
    unchanged_by(engine, "upsert", bad, f'column "{column}" of "objects" is 0(.|\n)*{expected}(.|\n)*row: 1')


def test_a_place_too_far_for_a_score_is_refused_whatever_else_there_is() -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    far = {"id": ["d", "e"], "x": [0, FAR], "y": [0, 0], "price": [0, 0]}
    said = r'"x" of "\w+" is 1e\+200(.|\n)*within 1e\+149 of 0(.|\n)*row: '
    unchanged_by(engine, "upsert", far, said + "1")
    for call, name in (("publish", 1), ("amend", 1), ("subscribe", 2)):
        unchanged_by(engine, call, {"id": [name], "x": [FAR], "y": [0]}, said + "0")
    unchanged_by(cafes(), "subscribe", {"id": [1], "x": [FAR], "y": [0]}, said + "0")


def test_an_object_without_a_finite_score_somewhere_is_refused_whatever_queries_there_are() -> None:
    engine = cafes(score=scoring.weighted_sum([10, 1]))
    dear = {"id": ["d", "e"], "x": [0, 0], "y": [0, 0], "price": [1e300, 1e308]}
    unchanged_by(engine, "upsert", dear, "object 'e' without a finite score(.|\n)*row: 1")


def test_a_function_that_fails_later_changes_nothing() -> None:
    def only_near(attributes: Floats, distance: Floats) -> Floats:
        return np.where(distance < 1e9, distance, np.nan)

    engine = cafes(score=only_near)
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    unchanged_by(engine, "publish", {"id": [1, 1], "x": [1, 1e10], "y": [0, 0]}, "without a finite score")


# Metrics


@pytest.mark.parametrize(("metric", "expected"), [("euclidean", 5.0), ("manhattan", 7.0)])
def test_distances_of_the_plane(metric: str, expected: float) -> None:
    engine = MovingTopK(over=[], metric=metric)
    engine.upsert({"id": [1], "x": [3], "y": [4]})
    assert rows(engine.subscribe({"id": [1], "x": [0], "y": [0]}))[0][3] == expected


def test_haversine_is_in_metres_across_the_date_line() -> None:
    engine = MovingTopK(over=[], metric="haversine")
    engine.upsert({"id": ["west", "east"], "x": [-179.5, 178], "y": [0, 0]})
    engine.subscribe({"id": [1], "x": [179.5], "y": [0]})
    assert items(engine) == ["west", "east"]
    assert rows(engine.results())[0][3] == pytest.approx(math.radians(1) * 6_371_008.8)


@pytest.mark.parametrize(("x", "y", "column"), [(180.1, 0, "x"), (0, -90.1, "y")])
def test_a_place_off_the_globe_is_refused(x: float, y: float, column: str) -> None:
    engine = MovingTopK(over=[], metric="haversine")
    engine.upsert({"id": [1], "x": [180], "y": [-90]})
    engine.subscribe({"id": [1], "x": [-180], "y": [90]})
    bad = {"id": [1, 1], "x": [0, x], "y": [0, y]}
    for call, where in (("upsert", "objects"), ("publish", "events")):
        unchanged_by(engine, call, bad, f'column "{column}" of "{where}" is (.|\n)*row: 1')
    unchanged_by(
        engine, "subscribe", {"id": [2], "x": [x], "y": [y]}, f'column "{column}" of "subscriptions"'
    )


# Zones, explanations, counters


def test_zones_are_circles_with_the_best_k_and_m_less_one_as_members() -> None:
    engine = cafes(k=1, m=2, method="scan")
    engine.subscribe({"id": [9, 5], "x": [0, 9], "y": [0, 1], "k": [None, 2]})
    zones = engine.zones()
    assert zones.column_names == ["subscription", "x", "y", "radius", "members"]
    assert rows(zones) == [(9, 0.0, 0.0, 0.0, ["a", "b"]), (5, 9.0, 1.0, 0.0, ["c", "b", "a"])]


def test_zones_follow_the_queries_in_order_of_registration() -> None:
    engine = cafes(k=1, method="scan")
    engine.subscribe({"id": [1, 2], "x": [0, 0], "y": [0, 0]})
    engine.unsubscribe([1])
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    engine.publish({"id": [1], "x": [9], "y": [0]})
    assert rows(engine.zones()) == [(2, 0.0, 0.0, 0.0, ["a"]), (1, 9.0, 0.0, 0.0, ["c"])]


def test_zones_of_no_queries_or_no_objects_are_empty() -> None:
    for method, radius in (("scan", 0.0), ("zone", math.inf)):
        engine = MovingTopK(over=[], method=method)
        assert engine.zones().num_rows == 0
        engine.subscribe({"id": [1], "x": [0], "y": [0]})
        assert rows(engine.zones()) == [(1, 0.0, 0.0, radius, [])]


def test_explain_says_score_rank_and_what_to_beat() -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    told = engine.explain(1, "c")
    assert (told["in_result"], told["score"], told["rank"], told["distance"]) == (False, 7.0, 3, 10.0)
    assert (told["score_to_beat"], told["reason"]) == (3.0, "2 objects are better, 2 are wanted")
    assert engine.explain(1, "b") | {"in_result": True, "rank": 2} == engine.explain(1, "b")
    engine.amend({"id": [1], "k": [5]})
    assert engine.explain(1, "c")["score_to_beat"] is None
    for known, unknown in ((1, "z"), (7, "a")):
        with pytest.raises(InputError, match="not known"):
            engine.explain(known, unknown)


def test_stats_count_events_candidates_deltas_and_what_was_recomputed() -> None:
    engine = cafes(method="scan")
    engine.subscribe({"id": [1, 2], "x": [0, 0], "y": [0, 0]})
    engine.publish({"id": [1, 1], "x": [1, 9], "y": [0, 0]})
    assert engine.stats() == {
        "events": 2,
        "candidates": 9,
        "deltas": 6,
        "recomputed": 3,
        "nodes_accessed": 0,
    }
    engine.results()
    engine.zones()
    assert engine.stats()["recomputed"] == 3


# Batches of commands, state


def test_an_object_that_goes_and_comes_back_in_one_batch_is_an_update() -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    back = {"id": ["b"], "x": [4], "y": [0], "price": [0]}
    assert rows(engine.apply([("remove", ["b"]), ("upsert", back)])) == [(1, "update", "b", 2.0, 1)]
    assert engine.apply([("remove", ["b"]), ("upsert", back)]).num_rows == 0


def test_a_query_that_moves_and_an_object_that_changes_in_one_batch() -> None:
    engine = cafes()
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    move = {"id": [1], "x": [2], "y": [0]}
    cheaper = {"id": ["a"], "x": [0], "y": [0], "price": [1]}
    assert rows(engine.apply([("publish", move), ("upsert", cheaper)])) == [(1, "update", "a", 1.5, 1)]


def own(attributes: Floats, distance: Floats) -> Floats:
    scores: Floats = distance + 2 * attributes.sum(axis=1)
    return scores


@settings(max_examples=15)
@given(laws.workloads(), st.booleans())
def test_a_function_of_ones_own_keeps_the_laws(tmp_path_factory: Any, workload: Any, falls: bool) -> None:
    score = scoring.function(lambda a, d: d - a.sum(axis=1), falling="all") if falls else own
    workload = contract.Workload({**workload.settings, "score": score}, workload.steps)
    whole = contract.run(lambda given: MovingTopK(**given), workload)
    contract.cut(lambda given: MovingTopK(**given), workload, whole)
    folder, middle = tmp_path_factory.mktemp("own") / "e", len(workload.steps) // 2
    contract.reload(lambda given: MovingTopK(**given), workload, whole, folder, middle, score=score)


def test_loading_needs_the_function_again(tmp_path: Path) -> None:
    engine = cafes(score=own)
    engine.save(tmp_path / "e")
    with pytest.raises(SnapshotError, match=r"load\(path, score=f\)"):
        MovingTopK.load(tmp_path / "e")
    with pytest.raises(SnapshotError, match="was saved with"):
        MovingTopK.load(tmp_path / "e", score=scoring.weighted_sum())
    assert rows(MovingTopK.load(tmp_path / "e", score=own).subscribe({"id": [1], "x": [0], "y": [0]}))


def test_loading_refuses_another_score_than_the_saved_one(tmp_path: Path) -> None:
    cafes(score=scoring.waspas([1, 2], 0.25)).save(tmp_path / "e")
    assert "waspas" in repr(MovingTopK.load(tmp_path / "e"))
    with pytest.raises(SnapshotError, match="was saved with"):
        MovingTopK.load(tmp_path / "e", score=own)


def test_inputs_are_not_modified_and_results_do_not_hang_on_them() -> None:
    x = np.array([0.0, 4.0])
    engine = MovingTopK(over=["p"], k=1, score=lambda a, d: np.multiply(a[:, 0], 1, out=a[:, 0]) + d)
    engine.upsert({"id": [1, 2], "x": x, "y": np.zeros(2), "p": x})
    x[:] = 9
    engine.subscribe({"id": [1], "x": [0], "y": [0]})
    assert rows(engine.results()) == [(1, 1, 1, 0.0)]
