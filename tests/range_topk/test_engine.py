"""Each sentence of the contract on `RangeTopK`, and on what every engine has, shown on it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from rankcast import InputError, RangeTopK, SettingError, SnapshotError, SubscriberList
from rankcast.range_topk.state import RangeState
from rankcast.range_topk.subscriptions import SubscriptionIndex


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def stocks(**settings: Any) -> RangeTopK:
    engine = RangeTopK(**{"k": 2, **settings})
    engine.publish({"id": ["a", "b", "c"], "x": [1, 2, 3], "y": [30, 20, 10]})
    return engine


def items(engine: RangeTopK, *ids: Any) -> list[Any]:
    return list(engine.results(list(ids) or None)["item"].to_pylist())


# Subscriptions


def test_subscribe_answers_with_the_first_results_as_enters() -> None:
    answer = stocks().subscribe({"id": [1], "x_lo": [1], "x_hi": [3]})
    assert answer.column_names == ["subscription", "op", "item", "score", "rank"]
    assert rows(answer) == [(1, "enter", "c", 10.0, 1), (1, "enter", "b", 20.0, 2)]


def test_ranges_are_closed() -> None:
    engine = stocks()
    engine.subscribe({"id": [1, 2], "x_lo": [1, 1.0000001], "x_hi": [1, 1.9999999]})
    assert items(engine, 1) == ["a"]
    assert items(engine, 2) == []


def test_a_null_or_an_absent_end_is_unbounded() -> None:
    engine = stocks(k=3)
    engine.subscribe({"id": [1, 2], "x_lo": [None, 2]})
    assert items(engine, 1) == ["c", "b", "a"]
    assert items(engine, 2) == ["c", "b"]


def test_a_k_of_ones_own_overrides_the_engines() -> None:
    engine = stocks()
    engine.subscribe({"id": [1, 2], "k": [1, None]})
    assert items(engine, 1) == ["c"]
    assert items(engine, 2) == ["c", "b"]


def test_k_beyond_the_objects_lists_them_all() -> None:
    engine = stocks(k=100)
    engine.subscribe({"id": [1]})
    assert items(engine) == ["c", "b", "a"]


def test_ties_go_to_the_smaller_id_by_code_point() -> None:
    engine = RangeTopK(k=3)
    engine.publish({"id": ["b", "B", "é", "a10", "a9"], "x": [0] * 5, "y": [1] * 5})
    engine.subscribe({"id": [1]})
    assert items(engine) == ["B", "a10", "a9"]


def test_ties_of_integers_go_by_value() -> None:
    engine = RangeTopK(k=2, order="desc")
    engine.publish({"id": [10, 9, -1], "x": [0] * 3, "y": [1] * 3})
    engine.subscribe({"id": [1]})
    assert items(engine) == [-1, 9]


def test_descending_order_takes_the_largest() -> None:
    engine = stocks(order="desc")
    engine.subscribe({"id": [1]})
    assert items(engine) == ["a", "b"]


@pytest.mark.parametrize("over", [["x", "z"], ["x", "z", "w"]])
def test_boxes_in_two_and_three_attributes(over: list[str]) -> None:
    engine = RangeTopK(over=over, k=1)
    engine.publish({"id": [1, 2], **{name: [0, 1] for name in over}, "y": [1, 2]})
    engine.subscribe({"id": [1, 2], "z_lo": [None, 1]})
    assert items(engine) == [1, 2]


def test_amend_keeps_absent_columns_and_clears_nulls() -> None:
    engine = stocks()
    engine.subscribe({"id": [1], "x_lo": [2], "x_hi": [2], "k": [1]})
    assert rows(engine.amend({"id": [1], "x_hi": [None]})) == [
        (1, "leave", "b", None, None),
        (1, "enter", "c", 10.0, 1),
    ]
    assert rows(engine.amend({"id": [1], "k": [None]})) == [(1, "enter", "b", 20.0, 2)]
    engine.amend({"id": [1], "x_lo": [None], "x_hi": [1]})
    assert items(engine) == ["a"]


def test_unsubscribe_answers_with_leaves() -> None:
    engine = stocks()
    engine.subscribe({"id": [1, 2]})
    assert rows(engine.unsubscribe([2])) == [(2, "leave", "c", None, None), (2, "leave", "b", None, None)]
    assert len(engine) == 1


def test_results_come_in_order_of_registration_then_rank() -> None:
    engine = stocks()
    engine.subscribe({"id": [5, 3]})
    engine.subscribe({"id": [4]})
    engine.unsubscribe([5])
    engine.subscribe({"id": [5]})
    engine.amend({"id": [4], "k": [1]})
    assert engine.results().column_names == ["subscription", "rank", "item", "score"]
    assert rows(engine.results([5, 3])) == [
        (3, 1, "c", 10.0),
        (3, 2, "b", 20.0),
        (5, 1, "c", 10.0),
        (5, 2, "b", 20.0),
    ]
    assert engine.results()["subscription"].to_pylist() == [3, 3, 4, 5, 5]


# Events


def test_publish_answers_with_the_net_change() -> None:
    engine = stocks()
    engine.subscribe({"id": [1]})
    answer = engine.publish({"id": ["a", "a", "b", "a"], "y": [1, 2, 20, 25]})
    assert rows(answer) == []
    answer = engine.publish({"id": ["c", "a"], "y": [50, 5]})
    assert rows(answer) == [(1, "leave", "c", None, None), (1, "enter", "a", 5.0, 1)]


def test_another_score_is_an_update_and_a_shifted_rank_is_nothing() -> None:
    engine = stocks(k=3)
    engine.subscribe({"id": [1]})
    assert rows(engine.publish({"id": ["a"], "y": [5]})) == [(1, "update", "a", 5.0, 1)]


def test_deltas_come_as_registered_leaves_first_then_by_rank() -> None:
    engine = stocks()
    engine.subscribe({"id": [9, 4]})
    answer = engine.publish({"id": ["d", "e"], "x": [1, 1], "y": [2, 1]})
    expected = [("leave", "c"), ("leave", "b"), ("enter", "e"), ("enter", "d")]
    assert [row[:3] for row in rows(answer)] == [(s, *change) for s in (9, 4) for change in expected]


def test_a_known_id_updates_what_is_given() -> None:
    engine = stocks()
    engine.subscribe({"id": [1], "x_lo": [3]})
    assert rows(engine.publish({"id": ["a"], "x": [4]})) == [(1, "enter", "a", 30.0, 2)]
    assert rows(engine.publish({"id": ["a"], "x": [None], "y": [8]})) == [(1, "update", "a", 8.0, 1)]


def test_null_in_by_deletes() -> None:
    engine = stocks()
    engine.subscribe({"id": [1]})
    assert rows(engine.publish({"id": ["c"], "y": [None]})) == [
        (1, "leave", "c", None, None),
        (1, "enter", "a", 30.0, 2),
    ]


def test_events_of_one_object_apply_in_order_within_a_batch() -> None:
    engine = stocks()
    engine.subscribe({"id": [1]})
    answer = engine.publish({"id": ["c", "c", "c"], "x": [None, 7, None], "y": [None, 60, 15]})
    assert rows(answer) == [(1, "update", "c", 15.0, 1)]
    engine.publish({"id": ["n", "n"], "x": [1, None], "y": [1, None]})
    assert items(engine) == ["c", "b"]


@pytest.mark.parametrize(
    ("events", "word"),
    [
        ({"id": ["z"], "x": [1], "y": [None]}, "not there"),
        ({"id": ["a", "a"], "y": [None, None]}, "not there"),
        ({"id": ["z"], "y": [1]}, "new"),
        ({"id": ["z"], "x": [None], "y": [1]}, "new"),
        ({"id": ["a", "a"], "x": [None, None], "y": [None, 1]}, "new"),
    ],
)
def test_events_that_make_no_sense_are_refused(events: Any, word: str) -> None:
    with pytest.raises(InputError, match=word):
        stocks().publish(events)


def test_a_new_object_needs_every_column() -> None:
    with pytest.raises(InputError, match='column "y"'):
        stocks().publish({"id": ["z"], "x": [1]})


def test_lo_above_hi_is_refused_by_column_and_row() -> None:
    with pytest.raises(InputError, match=r'"x_lo"(.|\n)*row: 1'):
        stocks().subscribe({"id": [1, 2], "x_lo": [0, 3], "x_hi": [1, 2]})
    engine = stocks()
    engine.subscribe({"id": [1], "x_lo": [2], "x_hi": [3]})
    with pytest.raises(InputError, match="above"):
        engine.amend({"id": [1], "x_hi": [1]})


@pytest.mark.parametrize("call", ["amend", "unsubscribe", "results"])
def test_an_unknown_subscription_is_refused(call: str) -> None:
    given: Any = {"id": [1]} if call == "amend" else [1]
    with pytest.raises(InputError, match="not known"):
        getattr(stocks(), call)(given)


def test_a_live_id_cannot_subscribe_again() -> None:
    engine = stocks()
    engine.subscribe({"id": [1]})
    with pytest.raises(InputError, match="there already"):
        engine.subscribe({"id": [1]})


def test_columns_of_ones_own_names() -> None:
    engine = RangeTopK(over="risk", by="pe", k=1)
    engine.publish({"id": [1], "risk": [2], "pe": [3]})
    assert rows(engine.subscribe({"id": [1], "risk_lo": [0]})) == [(1, "enter", 1, 3.0, 1)]


def test_extra_columns_are_ignored_on_request() -> None:
    engine = RangeTopK(extra="ignore")
    engine.publish({"id": [1], "x": [1], "y": [1], "name": ["n"]})
    engine.subscribe({"id": [1], "colour": ["red"]})
    assert items(engine) == [1]


def test_empty_tables_do_nothing() -> None:
    engine = stocks()
    assert engine.publish({"id": [], "x": [], "y": []}).num_rows == 0
    assert engine.subscribe({"id": []}).num_rows == 0
    assert engine.unsubscribe([]).num_rows == 0
    assert engine.results().num_rows == 0


# Settings


@pytest.mark.parametrize(
    "settings",
    [
        {"k": 0},
        {"k": 1.5},
        {"k": True},
        {"order": "up"},
        {"method": "guess"},
        {"over": []},
        {"over": ["a", "b", "c", "d"]},
        {"over": ["a", "a"]},
        {"over": "id"},
        {"over": "y"},
        {"over": ["x", "op"]},
        {"by": "op"},
        {"nulls": "ignore"},
        {"nulls": None},
        {"by": 3},
        {"epsilon": 0},
        {"epsilon": 1.5},
        {"epsilon": 0.5, "method": "unicast"},
        {"needless": -0.1},
        {"needless": 1},
        {"needless": float("nan")},
        {"needless": 0.2, "method": "dense"},
        {"needless": 0.2, "epsilon": 0.5},
        {"tuning": {"sketch": 4}},
        {"extra": "maybe"},
        {"tuning": {"no_such": 1}},
    ],
    ids=str,
)
def test_bad_settings_are_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        RangeTopK(**settings)


def test_settings_are_keyword_only() -> None:
    with pytest.raises(TypeError):
        RangeTopK("x")  # type: ignore[call-arg]


# Explaining, counting, saving


def test_explain_says_why() -> None:
    engine = stocks(k=1)
    engine.subscribe({"id": [1], "x_lo": [2]})
    inside = engine.explain(1, "c")
    assert (inside["in_result"], inside["score"], inside["rank"], inside["score_to_beat"]) == (
        True,
        10.0,
        1,
        10.0,
    )
    beaten = engine.explain(1, "b")
    assert (beaten["in_result"], beaten["rank"], beaten["score_to_beat"]) == (False, 2, 10.0)
    assert "better" in beaten["reason"]
    outside = engine.explain(1, "a")
    assert (outside["in_result"], outside["rank"]) == (False, None)
    assert "x" in outside["reason"]
    with pytest.raises(InputError, match="not known"):
        engine.explain(1, "z")


def test_stats_count_events_candidates_and_deltas() -> None:
    engine = stocks()
    engine.subscribe({"id": [1]})
    stats = engine.stats()
    assert (stats["events"], stats["deltas"]) == (3, 2)
    assert {"candidates", "firstk", "miny", "snap", "messages", "affected"} <= set(stats)
    engine.publish({"id": ["a", "b"], "y": [1, 2]})
    assert engine.stats()["events"] == 5
    assert engine.stats()["affected"] > 0


def test_a_saved_engine_is_not_touched_by_the_one_that_goes_on(tmp_path: Path) -> None:
    engine = stocks()
    engine.subscribe({"id": [1]})
    engine.save(tmp_path / "s")
    loaded = RangeTopK.load(tmp_path / "s")
    loaded.publish({"id": ["a"], "y": [0]})
    again = RangeTopK.load(tmp_path / "s")
    assert items(again) == items(engine) == ["c", "b"]
    assert again.stats() == engine.stats()


def test_a_snapshot_of_another_engine_is_refused(tmp_path: Path) -> None:
    from rankcast.core import snapshot

    snapshot.write(tmp_path / "s", kind="Other", header={}, arrays={})
    with pytest.raises(SnapshotError):
        RangeTopK.load(tmp_path / "s")
    snapshot.write(tmp_path / "s", kind="RangeTopK", header={}, arrays={})
    with pytest.raises(SnapshotError):
        RangeTopK.load(tmp_path / "s")


# Dissemination


def test_a_tile_has_the_columns_of_the_contract() -> None:
    engine = RangeTopK(over="risk", by="pe", k=1)
    engine.publish({"id": [1], "risk": [2], "pe": [5]})
    engine.subscribe({"id": [1, 2], "risk_lo": [1, None], "risk_hi": [3, None]})
    told = engine.disseminate({"id": [1], "pe": [4]})
    ends = [f"risk_{end}" for end in ("lo_outer", "lo_inner", "hi_inner", "hi_outer")]
    assert told.column_names == [*ends, "item", "risk", "pe"]
    assert not any(row[f"risk_{end}"] is None for row in told.to_pylist() for end in ("lo_inner", "hi_inner"))
    assert {(row["item"], row["risk"], row["pe"]) for row in told.to_pylist()} == {(1, 2.0, 4.0)}


def test_a_deleted_object_is_sent_with_a_null_score() -> None:
    engine = stocks(k=1)
    engine.subscribe({"id": [1]})
    told = engine.disseminate({"id": ["c"], "y": [None]}).to_pylist()
    assert [(row["item"], row["y"]) for row in told] == [("c", None), ("b", 20.0)]


@pytest.mark.parametrize("method", ["dense", "sparse", "unicast"])
def test_a_move_is_sent_as_a_deletion_and_an_insertion(method: str) -> None:
    engine = stocks(k=1, method=method)
    engine.subscribe({"id": [1, 2], "x_hi": [5, 3]})
    told = engine.disseminate({"id": ["c"], "x": [4.5]}).to_pylist()
    moved = [(row["x"], row["y"]) for row in told if row["item"] == "c"]
    assert moved[0] == (3.0, None)
    assert (4.5, 10.0) in moved
    assert items(engine, 1) == ["c"]
    assert items(engine, 2) == ["b"]


@pytest.mark.parametrize("method", ["sparse", "unicast", "scan"])
def test_messages_are_for_those_who_want_as_many(method: str) -> None:
    engine = stocks(k=1, method=method)
    engine.subscribe({"id": [1, 2], "k": [None, 3]})
    told = engine.disseminate({"id": ["a"], "y": [15]}).to_pylist()
    assert [(row["item"], row["k"]) for row in told] == [("a", 3)]
    engine.amend({"id": [2], "k": [None]})
    assert "k" not in engine.disseminate({"id": ["a"], "y": [1]}).column_names
    assert items(engine, 1) == ["a"]


def test_dense_messages_are_also_for_subscribers_whom_the_server_does_not_know() -> None:
    engine = stocks(k=1, method="dense")
    engine.subscribe({"id": [2], "k": [3]})
    assert set(engine.disseminate({"id": ["a"], "y": [1]})["k"].to_pylist()) == {1, 3}
    engine.unsubscribe([2])
    assert "k" not in engine.disseminate({"id": ["a"], "y": [2]}).column_names


def test_messages_of_relax_are_for_everybody() -> None:
    engine = stocks(k=1)
    engine.subscribe({"id": [1, 2], "k": [None, 3]})
    assert engine.disseminate({"id": ["a"], "y": [15]}, method="relax")["k"].to_pylist() == [None]


def test_an_attribute_called_k_is_refused_where_messages_have_a_k() -> None:
    engine = RangeTopK(by="k", k=1)
    engine.publish({"id": [1], "x": [1], "k": [1]})
    engine.subscribe({"id": [1]})
    assert engine.disseminate({"id": [1], "k": [2]})["k"].to_pylist() == [2]
    engine.amend({"id": [1], "k": [3]})
    with pytest.raises(InputError, match='no attribute called "k"'):
        engine.disseminate({"id": [1], "k": [3]})
    assert engine.results()["score"].to_pylist() == [2]


@pytest.mark.parametrize("batch", [False, True])
def test_epsilon_is_for_painting(batch: bool) -> None:
    engine = stocks(epsilon=0.5)
    engine.subscribe({"id": [1]})
    for method in ("unicast", "relax"):
        with pytest.raises(SettingError, match="epsilon"):
            engine.disseminate({"id": ["a"], "y": [1]}, method=method, epsilon=0.5, batch=batch)
        engine.disseminate({"id": ["a"], "y": [1]}, method=method, batch=batch)
    assert items(engine) == ["a", "c"]


def test_a_call_may_choose_another_method() -> None:
    engine = stocks(k=1)
    engine.subscribe({"id": [1, 2], "x_lo": [0, 1], "x_hi": [3, 4]})
    told = {}
    for place, method in enumerate(("dense", "sparse", "unicast", "scan", "relax")):
        told[method] = engine.disseminate({"id": ["c"], "y": [9 - place]}, method=method).num_rows
    assert told == {"dense": 1, "sparse": 1, "unicast": 2, "scan": 2, "relax": 1}
    assert items(engine, 1) == ["c"]
    assert engine.stats()["messages"] == 7


@pytest.mark.parametrize("method", ["dense", "relax"])
@pytest.mark.parametrize("batch", [False, True])
def test_dense_and_relax_never_look_at_a_subscription(
    method: str, batch: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    engine = stocks(method=method)
    engine.subscribe({"id": [1]})
    with monkeypatch.context() as patch:
        patch.setattr(SubscriptionIndex, "tree", property(lambda index: pytest.fail("it looked")))
        patch.setattr(RangeState, "boxes", lambda world, rows: pytest.fail("it looked"))
        assert engine.disseminate({"id": ["a", "c"], "y": [1, None]}, batch=batch).num_rows > 0
    assert items(engine) == ["a", "b"]


def test_unicast_counts_whom_it_would_have_tried() -> None:
    engine = RangeTopK(k=2, method="unicast")
    engine.publish({"id": [1, 2, 3, 4, 5], "x": [1, 2, 3, 4, 5], "y": [1, 2, 3, 4, 5]})
    engine.subscribe({"id": [1, 2, 3, 4], "x_lo": [3, 2, 2, 1], "x_hi": [5, 3, 4, 5]})
    before = engine.stats()
    engine.disseminate({"id": [3], "y": [2.5]})
    after = engine.stats()
    assert after["affected"] - before["affected"] == 3
    assert after["candidates"] - before["candidates"] == 3


@pytest.mark.parametrize(("order", "expected"), [("asc", ["b", "a"]), ("desc", ["c", "a"])])
def test_a_subscriber_list_keeps_the_best_and_breaks_ties_by_id(order: str, expected: list[str]) -> None:
    mine = SubscriberList(2, order)
    for item, score in [("c", 3.0), ("b", 1.0), ("a", 2.0)]:
        mine.receive(item, score)
    assert [item for item, _ in mine.items()] == expected
    tied = SubscriberList(1, order)
    tied.receive("z", 1.0)
    tied.receive("a", 1.0)
    assert tied.items() == [("a", 1.0)]
    tied.receive("a", None)
    tied.receive("unknown", None)
    assert (tied.items(), len(tied)) == ([], 0)
