"""`CoveringTable` and `maxima`, sentence by sentence of the contract."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rankcast import CoveringTable, InputError, SettingError, maxima
from rankcast.core.contract import Workload
from tests.laws.covering import JOBS, Naive, box_columns, changed, contains, records, workloads

every_variant = pytest.mark.parametrize("variant", CoveringTable.variants, ids=str)


def examples(variant: dict[str, Any], most: int) -> settings:
    """So many examples for the default, a quarter for the others."""
    return settings(max_examples=most if variant == CoveringTable.variants[0] else most // 4)


def table(**boxes: tuple[float | None, float | None]) -> CoveringTable:
    """A table over x with some boxes, registered in order."""
    engine = CoveringTable(over=["x"])
    engine.subscribe(rows(**boxes))
    return engine


def rows(**boxes: tuple[float | None, float | None]) -> dict[str, list[Any]]:
    lows, highs = [box[0] for box in boxes.values()], [box[1] for box in boxes.values()]
    return {"id": list(boxes), "x_lo": lows, "x_hi": highs}


def told(answer: pa.Table) -> list[tuple[Any, ...]]:
    assert answer.column_names == ["subscription", "action", "covered_by"]
    return [tuple(row.values()) for row in answer.to_pylist()]


def matches(answer: pa.Table) -> list[tuple[Any, Any]]:
    assert answer.column_names == ["event", "subscription"]
    return [tuple(row.values()) for row in answer.to_pylist()]


# subscribe


def test_subscribe_tells_forward_or_covered_and_by_what() -> None:
    engine = table(a=(0, 9))
    assert told(engine.subscribe(rows(b=(2, 3), c=(5, 12)))) == [
        ("b", "covered", "a"),
        ("c", "forward", None),
    ]


def test_a_batch_of_subscribes_is_sequential() -> None:
    engine = CoveringTable(over=["x"])
    answer = engine.subscribe(rows(small=(2, 3), large=(0, 9), middle=(1, 4)))
    assert told(answer) == [
        ("small", "forward", None),
        ("large", "forward", None),
        ("middle", "covered", "large"),
    ]


def test_one_of_the_same_batch_is_named_wherever_it_stands() -> None:
    engine = table(a=(0, 9))
    answer = engine.subscribe(rows(b=(1, 2), c=(20, 30), d=(3, 4), e=(21, 22)))
    assert [row[2] for row in told(answer)] == ["a", None, "a", "c"]


def test_of_two_equal_boxes_the_earlier_covers() -> None:
    engine = CoveringTable(over=["x"])
    assert told(engine.subscribe(rows(b=(1, 2), a=(1, 2))))[1] == ("a", "covered", "b")


@pytest.mark.parametrize("size", [1, 16, 17, 31, 32, 33, 64, 65, 200])
@pytest.mark.parametrize("named", [False, True], ids=["integers", "strings"])
def test_a_call_of_any_size_and_form_has_the_same_answer(size: int, named: bool) -> None:
    rng = np.random.default_rng(size)
    lo = rng.integers(0, 40, size).astype(np.float64)
    ids: Any = [f"é{number}" for number in range(size)] if named else np.arange(size) + 2**40
    boxes = {"id": ids, "x_lo": lo, "x_hi": lo + rng.integers(0, 9, size)}
    listed: dict[str, Any] = {"id": list(ids) if named else ids.tolist()}
    listed |= {name: boxes[name].tolist() for name in ("x_lo", "x_hi")}
    forms = [boxes, listed, pa.table(boxes), pa.table(boxes).select(["x_hi", "id", "x_lo"])]
    engines = [CoveringTable(over=["x"], index=index) for index in ("kdtree", "kdtree", "kdtree", "scan")]
    answers = [told(engine.subscribe(form)) for engine, form in zip(engines, forms, strict=True)]
    assert answers[0] == answers[1] == answers[2]
    assert [row[:2] for row in answers[0]] == [row[:2] for row in answers[3]]
    wide = {row[0]: place for place, row in enumerate(answers[0])}
    for place, (_, action, by) in enumerate(answers[0]):
        assert (by is None) == (action == "forward")
        assert by is None or wide[by] < place
        assert by is None or (lo[wide[by]] <= lo[place] and boxes["x_hi"][wide[by]] >= boxes["x_hi"][place])
    gone = listed["id"][::2]
    goings = [told(engine.unsubscribe(gone)) for engine in engines]
    assert goings[0] == goings[1] == goings[2] == goings[3]


def test_an_answer_does_not_change_with_what_was_given() -> None:
    ids, ends = np.array([7, 8]), np.array([1.0, 2.0])
    engine = CoveringTable(over=["x"])
    answer = engine.subscribe({"id": ids, "x_lo": ends, "x_hi": ends})
    gone = engine.unsubscribe(ids)
    ids[:], ends[:] = 0, 0
    assert (answer["subscription"].to_pylist(), gone["subscription"].to_pylist()) == ([7, 8], [7, 8])


def test_the_kind_of_ids_is_not_settled_by_a_call_that_is_refused() -> None:
    engine = CoveringTable(over=["x"])
    with pytest.raises(InputError, match="a second time"):
        engine.subscribe({"id": [1, 1]})
    with pytest.raises(InputError, match="expected lo <= hi"):
        engine.subscribe({"id": np.array([1]), "x_lo": np.array([2.0]), "x_hi": np.array([1.0])})
    assert told(engine.subscribe(rows(a=(0, 1)))) == [("a", "forward", None)]


def test_ranges_are_closed_so_a_shared_border_is_contained() -> None:
    assert told(table(a=(0, 5)).subscribe(rows(b=(0, 3), c=(5, 5)))) == [
        ("b", "covered", "a"),
        ("c", "covered", "a"),
    ]


def test_every_attribute_must_be_contained() -> None:
    engine = CoveringTable(over=["x", "y"])
    engine.subscribe({"id": [1], "x_lo": [0], "x_hi": [9], "y_lo": [0], "y_hi": [9]})
    answer = engine.subscribe({"id": [2], "x_lo": [1], "x_hi": [2], "y_lo": [1], "y_hi": [10]})
    assert told(answer) == [(2, "forward", None)]


def test_a_null_end_is_unbounded() -> None:
    engine = table(up=(3, None))
    assert told(engine.subscribe(rows(a=(4, 1e300), b=(4, None), c=(None, 4), d=(None, None)))) == [
        ("a", "covered", "up"),
        ("b", "covered", "up"),
        ("c", "forward", None),
        ("d", "forward", None),
    ]


def test_an_absent_column_is_unbounded() -> None:
    engine = CoveringTable(over=["x"])
    engine.subscribe({"id": [1]})
    assert told(engine.subscribe({"id": [2, 3], "x_lo": [0, None]})) == [(2, "covered", 1), (3, "covered", 1)]


def test_a_covering_one_that_is_covered_itself_is_named_by_the_forwarded_one() -> None:
    engine = table(a=(0, 9), b=(1, 8))
    assert told(engine.subscribe(rows(c=(2, 3)))) == [("c", "covered", "a")]


def test_many_attributes() -> None:
    over = [f"a{number}" for number in range(20)]
    engine = CoveringTable(over=over)
    wide = {f"{name}_{end}": [value, value] for name in over for end, value in (("lo", 0), ("hi", 9))}
    inner = {**wide, "a19_hi": [8, 10]}
    engine.subscribe({"id": [1], **{name: values[:1] for name, values in wide.items()}})
    assert told(engine.subscribe({"id": [2, 3], **inner})) == [(2, "covered", 1), (3, "forward", None)]


def test_one_attribute_may_be_given_as_a_string() -> None:
    engine = CoveringTable(over="x")
    assert told(engine.subscribe(rows(a=(0, 1)))) == [("a", "forward", None)]


# unsubscribe


def test_unsubscribe_withdraws_a_forwarded_one_and_drops_a_covered_one() -> None:
    engine = table(a=(0, 9), b=(1, 2), c=(20, 30))
    assert told(engine.unsubscribe(["b", "c"])) == [("b", "drop", None), ("c", "withdraw", None)]
    assert engine.forwarded() == ["a"]


def test_unsubscribe_forwards_what_nothing_covers_any_more_as_registered() -> None:
    engine = table(a=(0, 9), c=(5, 6), b=(1, 2))
    assert told(engine.unsubscribe(["a"])) == [
        ("a", "withdraw", None),
        ("c", "forward", None),
        ("b", "forward", None),
    ]


def test_what_another_covers_is_not_forwarded_when_one_goes() -> None:
    engine = table(a=(0, 5), b=(1, 9), c=(2, 3))
    assert told(engine.unsubscribe(["a"])) == [("a", "withdraw", None)]
    assert engine.forwarded() == ["b"]


def test_what_a_covered_one_covers_waits_for_it() -> None:
    engine = table(a=(0, 9), small=(2, 3), middle=(1, 4))
    assert told(engine.unsubscribe(["a"])) == [("a", "withdraw", None), ("middle", "forward", None)]


def test_a_batch_of_unsubscribes_is_net() -> None:
    engine = table(a=(0, 9), b=(1, 8), c=(2, 7))
    assert told(engine.unsubscribe(["b", "a"])) == [
        ("b", "drop", None),
        ("a", "withdraw", None),
        ("c", "forward", None),
    ]


def test_of_equal_covered_boxes_the_earliest_is_forwarded() -> None:
    engine = table(a=(0, 9), b=(1, 2), c=(1, 2))
    assert told(engine.unsubscribe(["a"]))[1:] == [("b", "forward", None)]
    assert told(engine.unsubscribe(["b"]))[1:] == [("c", "forward", None)]


def test_a_forwarded_one_covers_an_equal_earlier_one() -> None:
    engine = table(a=(3, 9), b=(3, 4), c=(1, 2))
    assert told(engine.amend(rows(b=(1, 2)))) == [("b", "covered", "c")]
    assert told(engine.unsubscribe(["a"])) == [("a", "withdraw", None)]


def test_an_id_may_come_again() -> None:
    engine = table(a=(0, 9), b=(1, 2))
    engine.unsubscribe(["a"])
    assert told(engine.subscribe(rows(a=(1, 2)))) == [("a", "covered", "b")]
    assert len(engine) == 2


# forwarded


def test_one_that_was_forwarded_stays_so_when_a_later_one_covers_it() -> None:
    engine = table(b=(2, 3))
    engine.subscribe(rows(a=(0, 9)))
    assert engine.forwarded() == ["b", "a"]


def test_forwarded_is_a_list_of_plain_ids() -> None:
    engine = CoveringTable(over=["x"])
    assert engine.forwarded() == []
    engine.subscribe({"id": [7, 3], "x_lo": [0, 1]})
    assert engine.forwarded() == [7]


# amend


def test_amend_forwards_a_covered_one_that_grew() -> None:
    engine = table(a=(0, 9), b=(1, 2))
    assert told(engine.amend(rows(b=(1, 12)))) == [("b", "forward", None)]
    assert engine.forwarded() == ["a", "b"]


def test_amend_tells_a_forwarded_one_whose_new_box_must_be_known() -> None:
    engine = table(a=(0, 9))
    assert told(engine.amend(rows(a=(0, 8)))) == [("a", "forward", None)]


def test_amend_keeps_a_covered_one_covered() -> None:
    engine = table(a=(0, 9), b=(1, 2))
    assert told(engine.amend(rows(b=(3, 4)))) == [("b", "covered", "a")]


def test_amend_withdraws_a_forwarded_one_that_is_covered_now() -> None:
    engine = table(a=(0, 9), b=(20, 30))
    assert told(engine.amend(rows(b=(3, 4)))) == [("b", "withdraw", "a")]
    assert engine.forwarded() == ["a"]


def test_amend_forwards_others_that_are_no_longer_covered_after_its_own_rows() -> None:
    engine = table(a=(0, 9), b=(1, 2), c=(3, 4))
    assert told(engine.amend(rows(c=(5, 6), a=(5, 9)))) == [
        ("c", "covered", "a"),
        ("a", "forward", None),
        ("b", "forward", None),
    ]


def test_a_batch_of_amendments_is_net() -> None:
    engine = table(a=(0, 9), b=(20, 30), c=(1, 2))
    assert told(engine.amend(rows(a=(20, 30), b=(0, 9)))) == [("a", "forward", None), ("b", "forward", None)]
    assert engine.forwarded() == ["a", "b"]


def test_amend_keeps_an_absent_end_and_a_null_unbounds() -> None:
    engine = table(a=(0, 9))
    engine.amend({"id": ["a"], "x_hi": [5]})
    assert engine.covers({"id": [0, 1], "x_lo": [0, -1], "x_hi": [5, 5]})["covered_by"].to_pylist() == [
        "a",
        None,
    ]
    engine.amend({"id": ["a"], "x_lo": [None]})
    assert engine.covers({"id": [0, 1], "x_hi": [5, 6]})["covered_by"].to_pylist() == ["a", None]


def test_amend_without_a_change_changes_nothing() -> None:
    engine = table(b=(2, 3))
    engine.subscribe(rows(a=(0, 9), c=(1, 2)))
    assert told(engine.amend({"id": ["b", "c"]})) == [("b", "forward", None), ("c", "covered", "a")]
    assert engine.forwarded() == ["b", "a"]


def test_an_amended_one_that_another_exposes_has_one_row() -> None:
    engine = table(a=(0, 9), b=(1, 2))
    assert told(engine.amend(rows(b=(1, 2), a=(20, 30)))) == [("b", "forward", None), ("a", "forward", None)]


def test_amended_equal_boxes_are_covered_by_the_earlier() -> None:
    engine = table(a=(0, 1), b=(5, 6), c=(8, 9))
    assert told(engine.amend(rows(c=(2, 3), b=(2, 3)))) == [("c", "withdraw", "b"), ("b", "forward", None)]


# publish


def test_publish_names_the_forwarded_ones_that_contain_the_event() -> None:
    engine = table(b=(2, 3), a=(0, 9), c=(1, 2))
    answer = engine.publish({"id": ["late", "early", "late"], "x": [2, 9, 9.5]})
    assert matches(answer) == [("late", "b"), ("late", "a"), ("early", "a")]


def test_publish_to_nobody_and_of_nothing() -> None:
    assert matches(CoveringTable(over=["x"]).publish({"id": [1], "x": [0]})) == []
    assert matches(table(a=(0, 1)).publish({"id": [], "x": []})) == []


def test_publish_refuses_a_null_attribute() -> None:
    with pytest.raises(InputError, match=r'"x" of "events" is null.*\n.*row: 1'):
        table(a=(None, None)).publish({"id": [1, 2], "x": [0, None]})


def test_publish_needs_every_attribute() -> None:
    with pytest.raises(InputError, match='"y" of "events" is missing'):
        CoveringTable(over=["x", "y"]).publish({"id": [1], "x": [0]})


def test_event_ids_are_of_one_kind_and_come_back_as_they_went_in(tmp_path: Path) -> None:
    engine = table(a=(0, 9))
    assert matches(engine.publish({"id": [2**40], "x": [1]})) == [(2**40, "a")]
    engine.save(tmp_path / "saved")
    for kept in (engine, CoveringTable.load(tmp_path / "saved")):
        with pytest.raises(InputError, match='"id" of "events" holds strings, expected integers'):
            kept.publish({"id": ["e"], "x": [1]})


def test_the_kind_of_event_ids_holds_for_empty_answers_too() -> None:
    engine = table(a=(0, 9))
    engine.publish({"id": ["e"], "x": [1]})
    nothings: list[dict[str, list[Any]]] = [{"id": ["e"], "x": [99]}, {"id": [], "x": []}]
    for nothing in nothings:
        assert engine.publish(nothing).schema.field("event").type == pa.string()


# covers


def test_covers_names_a_live_one_that_contains_each_box() -> None:
    engine = table(a=(0, 9), b=(1, 8))
    answer = engine.covers({"id": ["a", "new", "new"], "x_lo": [2, -1, 1], "x_hi": [3, 3, 8]})
    assert answer.to_pylist() == [
        {"id": "a", "covered_by": "a"},
        {"id": "new", "covered_by": None},
        {"id": "new", "covered_by": "a"},
    ]
    assert len(engine) == 2


def test_the_ids_of_covers_need_not_be_of_the_kind_of_subscriptions() -> None:
    assert table(a=(0, 9)).covers({"id": [1], "x_lo": [1], "x_hi": [2]}).to_pylist() == [
        {"id": 1, "covered_by": "a"}
    ]


def test_covers_before_any_subscription() -> None:
    answer = CoveringTable(over=["x"]).covers({"id": ["q"], "x_lo": [0]})
    assert answer.to_pylist() == [{"id": "q", "covered_by": None}]


def test_covers_refuses_crossed_ends() -> None:
    with pytest.raises(InputError, match=r'"x_lo" of "boxes".*expected lo <= hi\n.*row: 1'):
        table(a=(0, 9)).covers({"id": [1, 2], "x_lo": [0, 2], "x_hi": [1, 1]})


# explain, stats, len


def test_explain_says_in_which_attribute_it_is_not_contained() -> None:
    engine = CoveringTable(over=["x", "y"])
    engine.subscribe({"id": [1, 2], "x_lo": [0, 1], "x_hi": [9, 2], "y_lo": [0, 1], "y_hi": [9, None]})
    found = engine.explain(2, 1)
    assert (found["contained"], found["outside"], found["forwarded"]) == (False, ["y"], True)
    assert found["reason"] == "y is not contained: [1, inf] in [0, 9]"
    assert engine.explain(1, 2)["outside"] == ["x", "y"]


def test_explain_of_contained_ones() -> None:
    engine = table(early=(4, 5), a=(0, 9), b=(1, 2))
    assert engine.explain("b", "a") == {
        "subscription": "b",
        "other": "a",
        "contained": True,
        "outside": [],
        "forwarded": False,
        "covered_by": "a",
        "reason": "contained",
    }
    assert engine.explain("early", "a")["reason"] == "contained, but neighbours know it already"
    assert engine.explain("a", "a")["reason"] == "it is the same subscription"


def test_explain_refuses_unknown_ids() -> None:
    with pytest.raises(InputError, match="'z', which is not known"):
        table(a=(0, 1)).explain("a", "z")


def test_stats_count_queries_and_comparisons() -> None:
    engine = CoveringTable(over=["x"], index="scan")
    engine.subscribe(rows(a=(0, 9), b=(1, 2), c=(20, 30)))
    engine.publish({"id": [1, 2], "x": [1, 50]})
    stats = engine.stats()
    assert (stats["events"], stats["candidates"], stats["deltas"]) == (2, 4, 4)
    assert (stats["queries_subscribe"], stats["queries_unsubscribe"]) == (3, 0)
    assert (stats["point_comparisons_subscribe"], stats["point_comparisons"]) == (2, 6)
    engine.unsubscribe(["a"])
    after = engine.stats()
    assert (after["queries_unsubscribe"], after["point_comparisons_unsubscribe"], after["deltas"]) == (
        1,
        1,
        6,
    )
    assert (after["freed"], after["freed_most"]) == (1, 1)


@every_variant
def test_stats_tell_subscribes_and_unsubscribes_apart(variant: dict[str, Any]) -> None:
    engine = CoveringTable(over=["x"], **variant)
    engine.subscribe(rows(a=(0, 9), b=(1, 2), c=(1, 3), d=(20, 30)))
    before = engine.stats()
    assert before["point_comparisons"] == before["point_comparisons_subscribe"] > 0
    assert before["nodes_visited"] == before["nodes_visited_subscribe"]
    engine.unsubscribe(["a"])
    after = engine.stats()
    assert after["point_comparisons_subscribe"] == before["point_comparisons_subscribe"]
    for name in ("nodes_visited", "point_comparisons"):
        assert after[name] == after[f"{name}_subscribe"] + after[f"{name}_unsubscribe"]
    assert after["freed_most"] >= 1


# portions


def in_portions(engine: CoveringTable, ids: list[Any], limit: int) -> Iterator[list[tuple[Any, ...]]]:
    """Unsubscribe until every id has had its row."""
    left = list(ids)
    while left:
        answer = told(engine.unsubscribe(left, limit=limit))
        yield answer
        gone = {name for name, action, _ in answer if action != "forward"}
        left = [name for name in left if name not in gone]


@every_variant
def test_a_withdrawal_is_told_with_the_last_portion(variant: dict[str, Any]) -> None:
    engine = CoveringTable(over=["x"], **variant)
    engine.subscribe(rows(a=(0, 9), b=(1, 2), c=(3, 4), d=(5, 6)))
    first, second = in_portions(engine, ["a"], 2)
    assert [action for _, action, _ in first] == ["forward", "forward"]
    assert sorted(action for _, action, _ in second) == ["forward", "withdraw"]
    assert engine.forwarded() == ["b", "c", "d"]


@every_variant
def test_one_on_its_way_out_is_live_and_known_but_takes_nothing_new(variant: dict[str, Any]) -> None:
    engine = CoveringTable(over=["x"], **variant)
    engine.subscribe(rows(a=(0, 9), b=(1, 2), c=(3, 4), d=(5, 6)))
    engine.unsubscribe(["a"], limit=1)
    assert (len(engine), "a" in engine.forwarded()) == (4, True)
    assert ("e", "a") in matches(engine.publish({"id": ["e"], "x": [8]}))
    assert told(engine.subscribe(rows(n=(7, 8)))) == [("n", "forward", None)]
    with pytest.raises(InputError, match="'a', which is on its way out"):
        engine.amend(rows(a=(0, 1)))
    with pytest.raises(InputError, match="'a', which is there already"):
        engine.subscribe(rows(a=(0, 1)))
    rest = told(engine.unsubscribe(["a"]))
    assert rest[0] == ("a", "withdraw", None)
    assert engine.forwarded() == ["b", "c", "d", "n"]


@every_variant
def test_portions_survive_saving(variant: dict[str, Any], tmp_path: Path) -> None:
    engine = CoveringTable(over=["x"], **variant)
    engine.subscribe(rows(a=(0, 9), b=(1, 2), c=(3, 4), d=(5, 6)))
    engine.unsubscribe(["a"], limit=1)
    engine.save(tmp_path / "saved")
    loaded = CoveringTable.load(tmp_path / "saved")
    assert list(in_portions(loaded, ["a"], 1)) == list(in_portions(engine, ["a"], 1))


@pytest.mark.parametrize("limit", [0, -1, 1.5, True])
def test_a_limit_is_a_whole_number_from_1(limit: Any) -> None:
    with pytest.raises(InputError, match="limit is"):
        table(a=(0, 1)).unsubscribe(["a"], limit=limit)


@every_variant
def test_portions_are_bounded_uncover_nothing_and_end_like_one_call(variant: dict[str, Any]) -> None:
    @examples(variant, 40)
    @given(workloads(), st.data())
    def law(workload: Workload, data: st.DataObject) -> None:
        engine, model = CoveringTable(**workload.settings, **variant), Naive(**workload.settings)
        for call, given_rows in workload.steps:
            getattr(engine, call)(given_rows)
            model.call(call, given_rows)
        names = list(model.boxes)
        if not names:
            return
        ids = data.draw(st.lists(st.sampled_from(names), unique=True, min_size=1))
        limit = data.draw(st.integers(1, 3))
        known = set(engine.forwarded())
        for answer in in_portions(engine, ids, limit):
            fresh = {name for name, action, _ in answer if action == "forward"}
            assert len(fresh) <= limit
            known = (known | fresh) - {name for name, action, _ in answer if action != "forward"}
            assert known == set(engine.forwarded())
            gone = {name for name, action, _ in answer if action != "forward"}
            for name in gone:
                del model.boxes[name], model.lists[name]
            for mine in model.boxes:
                assert any(model.inside(mine, name) for name in known), mine
        model.known -= set(ids)
        model.forward_exposed()
        assert engine.forwarded() == model.forwarded()

    law()


# follow


@st.composite
def _commands(draw: st.DrawFn) -> tuple[list[str], dict[str, list[Any]]]:
    """Commands that fit one another; ids come and go and come again."""
    over = draw(st.sampled_from([["x"], ["x", "y"]]))
    live: set[int] = set()
    op, ids = [], []
    for name in draw(st.lists(st.integers(0, 5), max_size=14)):
        op.append("unsubscribe" if name in live else "subscribe")
        ids.append(name)
        live ^= {name}
    return over, {"op": op, "id": ids, **box_columns(draw, over, [{} for _ in ids])}


@every_variant
def test_following_commands_is_a_call_for_each(variant: dict[str, Any]) -> None:
    @examples(variant, 60)
    @given(_commands(), st.integers(0, 14))
    def law(drawn: tuple[list[str], dict[str, list[Any]]], cut: int) -> None:
        over, commands = drawn
        engine, twin = CoveringTable(over=over, **variant), CoveringTable(over=over, **variant)
        answers = []
        for row in records(commands):
            call, name = row.pop("op"), row["id"]
            given_row: Any = [name] if call == "unsubscribe" else {key: [value] for key, value in row.items()}
            answers += told(getattr(twin, call)(given_row))
        parts = [
            {name: column[part] for name, column in commands.items()}
            for part in (slice(cut), slice(cut, None))
        ]
        found = [line for part in parts for line in told(engine.follow(part))]
        assert [line[:2] for line in found] == [line[:2] for line in answers]
        assert [line[2] is None for line in found] == [line[2] is None for line in answers]
        assert engine.forwarded() == twin.forwarded()
        apart = ("freed", "freed_most", "queries_subscribe", "queries_unsubscribe", "deltas")
        assert [engine.stats()[name] for name in apart] == [twin.stats()[name] for name in apart]
        stats = engine.stats()
        for name in ("nodes_visited", "point_comparisons"):
            assert stats[name] == stats[f"{name}_subscribe"] + stats[f"{name}_unsubscribe"]

    law()


@pytest.mark.parametrize(
    ("commands", "text"),
    [
        ({"op": ["subscribe", "drop"], "id": ["n", "n"]}, r'"op" of "commands" is \'drop\'.*\n.*row: 1'),
        ({"op": [1], "id": ["n"]}, '"op" of "commands" is 1'),
        ({"id": ["n"]}, '"op" of "commands" is missing'),
        ({"op": ["subscribe"] * 2, "id": ["n", "n"]}, r"'n', which is there already.*\n.*row: 1"),
        ({"op": ["subscribe"], "id": ["a"]}, "'a', which is there already"),
        ({"op": ["unsubscribe"] * 2, "id": ["a", "a"]}, r"'a', which is not known.*\n.*row: 1"),
        ({"op": ["subscribe"], "id": [1]}, "holds integers, expected strings"),
        ({"op": ["subscribe"], "id": ["n"], "x_lo": [2], "x_hi": [1]}, "expected lo <= hi"),
        ({"op": ["subscribe"], "id": ["n"], "k": [2]}, 'unknown column "k"'),
    ],
)
def test_commands_are_refused_together(commands: Any, text: str) -> None:
    engine = table(a=(0, 9), b=(1, 2))
    before = engine.stats()
    with pytest.raises(InputError, match=text):
        engine.follow(commands)
    assert (engine.forwarded(), len(engine), engine.stats()) == (["a"], 2, before)


def test_following_nothing() -> None:
    assert told(table(a=(0, 9)).follow({"op": [], "id": []})) == []


def test_one_on_its_way_out_can_be_followed_out() -> None:
    engine = table(a=(0, 9), b=(1, 2), c=(3, 4))
    engine.unsubscribe(["a"], limit=1)
    assert [row[1] for row in told(engine.follow({"op": ["unsubscribe"], "id": ["a"]}))] == [
        "withdraw",
        "forward",
    ]


# covers, up to k


@every_variant
def test_covers_names_up_to_k_distinct_ones(variant: dict[str, Any]) -> None:
    @examples(variant, 40)
    @given(workloads(), st.data(), st.integers(1, 4))
    def law(workload: Workload, data: st.DataObject, k: int) -> None:
        engine, model = CoveringTable(**workload.settings, **variant), Naive(**workload.settings)
        for call, given_rows in workload.steps:
            getattr(engine, call)(given_rows)
            model.call(call, given_rows)
        boxes = {"id": [7, 8], **_some_boxes(data, model)}
        answer = engine.covers(boxes, k=k).to_pylist()
        for label, around in zip([7, 8], model.covers(records(boxes)), strict=True):
            named = [row["covered_by"] for row in answer if row["id"] == label]
            if around:
                assert len(named) == len(set(named)) == min(k, len(around))
                assert set(named) <= set(around)
            else:
                assert named == [None]

    law()


def test_covers_refuses_a_bad_k() -> None:
    with pytest.raises(InputError, match="k is 0"):
        table(a=(0, 9)).covers({"id": [1]}, k=0)


def test_len_counts_live_subscriptions_and_there_are_no_results() -> None:
    engine = table(a=(0, 9), b=(1, 2))
    engine.unsubscribe(["a"])
    assert len(engine) == 1
    assert not hasattr(engine, "results")


# apply, save


def test_apply_joins_the_answers() -> None:
    engine = CoveringTable(over=["x"])
    answer = engine.apply(
        [
            ("publish", {"id": [1], "x": [1]}),
            ("subscribe", rows(a=(0, 9))),
            ("publish", {"id": [2], "x": [1]}),
            ("unsubscribe", []),
        ]
    )
    assert answer.to_pylist() == [
        {"subscription": "a", "action": "forward", "covered_by": None, "event": None},
        {"subscription": "a", "action": None, "covered_by": None, "event": 2},
    ]


def test_apply_of_nothing_is_an_empty_answer_of_publish() -> None:
    assert matches(table(a=(0, 1)).apply([])) == []


def test_apply_refuses_an_unknown_call() -> None:
    with pytest.raises(InputError, match='unknown value "forwarded"'):
        table(a=(0, 1)).apply([("forwarded", [])])


def test_a_loaded_table_goes_on(tmp_path: Path) -> None:
    engine = table(a=(0, 9), b=(1, 2))
    engine.save(tmp_path / "saved")
    loaded = CoveringTable.load(tmp_path / "saved")
    assert loaded.forwarded() == ["a"]
    assert told(loaded.unsubscribe(["a"])) == told(engine.unsubscribe(["a"]))


# settings and errors


@pytest.mark.parametrize(
    ("configuration", "text"),
    [
        ({"index": "rtree"}, 'unknown value "rtree"'),
        ({"graph": "whole"}, "graph is 'whole'"),
        ({"graph": 0}, "graph is 0"),
        ({"graph": True}, "graph is True"),
        ({"graph": 1.0}, "graph is 1.0"),
        ({"over": []}, "over names 0 attributes"),
        ({"over": ["x", "x"]}, "an attribute twice"),
        ({"over": ["id"]}, '"id", which is a column of its own'),
        ({"tuning": {"leaf": 1}}, 'unknown key "leaf"'),
        ({"extra": "allow"}, 'unknown value "allow"'),
    ],
)
def test_settings_are_checked_at_once(configuration: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingError, match=text):
        CoveringTable(**{"over": ["x"], **configuration})


@pytest.mark.parametrize(
    ("call", "given", "text"),
    [
        ("subscribe", {"id": ["n", "m"], "x_lo": [0, 2], "x_hi": [1, 1]}, r'"x_lo".*lo <= hi\n.*row: 1'),
        ("subscribe", {"id": ["a"]}, "'a', which is there already"),
        ("subscribe", {"id": ["n", "n"]}, r"'n' a second time.*\n.*row: 1"),
        ("subscribe", {"id": [1]}, "holds integers, expected strings"),
        ("subscribe", {"id": ["n"], "x_lo": [float("nan")]}, '"x_lo".*is NaN'),
        ("subscribe", {"id": ["n"], "x_hi": [float("inf")]}, '"x_hi".*is infinite'),
        ("subscribe", {"id": ["n"], "x_hi": ["1"]}, '"x_hi".*has the type string'),
        ("subscribe", {"id": ["n"], "k": [1]}, 'unknown column "k"'),
        ("subscribe", {"id": ["n"], "score": [1]}, 'unknown column "score"'),
        ("subscribe", {"x_lo": [1]}, '"id" of "subscriptions" is missing'),
        ("amend", {"id": ["z"], "x_lo": [1]}, "'z', which is not known"),
        ("amend", {"id": ["a", "a"]}, "'a' a second time"),
        ("amend", {"id": ["b", "a"], "x_lo": [1, 10]}, r'"x_lo".*is 10, above the upper end 9.*\n.*row: 1'),
        ("unsubscribe", ["a", "z"], r"'z', which is not known.*\n.*row: 1"),
        ("unsubscribe", ["a", "a"], "'a' a second time"),
        ("unsubscribe", "a", "expected a sequence of ids"),
        ("publish", {"id": [None], "x": [1]}, '"id" of "events" is null'),
        ("covers", {"id": [1], "y_lo": [0]}, 'unknown column "y_lo"'),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(call: str, given: Any, text: str) -> None:
    engine = table(a=(0, 9), b=(1, 2))
    before = engine.stats()
    with pytest.raises(InputError, match=text):
        getattr(engine, call)(given)
    assert (engine.forwarded(), len(engine), engine.stats()) == (["a"], 2, before)


def test_unknown_columns_may_be_ignored() -> None:
    engine = CoveringTable(over=["x"], extra="ignore")
    assert told(engine.subscribe({"id": [1], "colour": ["red"]})) == [(1, "forward", None)]


def test_any_arrow_table_will_do() -> None:
    engine = CoveringTable(over=["x"])
    frame = pd.DataFrame({"id": ["a"], "x_lo": [0.0], "x_hi": [9.0]})
    assert told(engine.subscribe(frame)) == [("a", "forward", None)]
    assert matches(engine.publish(pa.table({"id": [1], "x": [2]}))) == [(1, "a")]


@every_variant
def test_batches_of_amendments_forwarded_and_covers_follow_the_model(variant: dict[str, Any]) -> None:
    @examples(variant, settings().max_examples)
    @given(workloads(amend_together=True), st.data())
    def law(workload: Workload, data: st.DataObject) -> None:
        engine, model = CoveringTable(**workload.settings, **variant), Naive(**workload.settings)
        for call, given_rows in workload.steps:
            answer = getattr(engine, call)(given_rows).to_pylist()
            expected = model.call(call, given_rows)
            assert [_without_name(row) for row in answer] == [_without_name(row) for row in expected]
            assert all(_is_named_well(row, model) for row in answer)
            assert engine.forwarded() == model.forwarded()
        boxes = {"id": [1, 1], **_some_boxes(data, model)}
        found = engine.covers(boxes)["covered_by"].to_pylist()
        for name, around in zip(found, model.covers(records(boxes)), strict=True):
            assert name in around if around else name is None

    law()


def _some_boxes(data: st.DataObject, model: Naive) -> dict[str, list[Any]]:
    @st.composite
    def boxes(draw: st.DrawFn) -> dict[str, list[Any]]:
        columns = box_columns(draw, model.over, [{}, {}])
        if "job" in model.categories:  # also what nobody names, which a hierarchy does not know
            values = st.sampled_from([*JOBS, *([] if model.categories["job"] else ["new"])])
            columns |= {
                f"job_{word}": [draw(st.none() | st.lists(values, max_size=3)) for _ in range(2)]
                for word in ("in", "not_in")
            }
        return columns

    return data.draw(boxes())


def _without_name(row: dict[str, Any]) -> dict[str, Any]:
    """A row with only whether something covers: any live one that does may be named."""
    return {name: value is None if name == "covered_by" else value for name, value in row.items()}


def _is_named_well(row: dict[str, Any], model: Naive) -> bool:
    if row.get("covered_by") is None:
        return True
    return model.inside(row["subscription"], row["covered_by"])


# maxima


def test_maxima_are_the_boxes_no_other_contains_in_the_order_given() -> None:
    boxes = rows(c=(2, 3), a=(0, 5), d=(4, 9), b=(0, 4), e=(None, 0))
    assert maxima(boxes, over=["x"]).to_pydict() == {"id": ["a", "d", "e"]}


def test_of_equal_boxes_the_earliest_is_maximal() -> None:
    assert maxima(rows(b=(1, 2), a=(1, 2)), over="x")["id"].to_pylist() == ["b"]


def test_maxima_of_nothing() -> None:
    assert maxima({"id": []}, over="x").to_pydict() == {"id": []}


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ({"id": [1, 1]}, "1 a second time"),
        ({"id": [1], "z_lo": [0]}, 'unknown column "z_lo"'),
        ({"id": [1], "x_lo": [2], "x_hi": [1]}, "expected lo <= hi"),
        ({"x_lo": [2]}, '"id" of "boxes" is missing'),
    ],
)
def test_maxima_refuses_bad_rows(given: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        maxima(given, over="x")


@st.composite
def _boxes(draw: st.DrawFn) -> tuple[list[str], dict[str, list[Any]]]:
    over = draw(st.sampled_from([["x"], ["x", "y"]]))
    size = draw(st.integers(0, 8))
    return over, {"id": list(range(size)), **box_columns(draw, over, [{} for _ in range(size)])}


@given(_boxes())
def test_maxima_equal_the_definition(drawn: tuple[list[str], dict[str, list[Any]]]) -> None:
    over, given_rows = drawn
    boxes = [changed({}, row, over) for row in records(given_rows)]
    expected = [
        mine
        for mine, box in enumerate(boxes)
        if not any(
            contains(other, box) and (other != box or rival < mine)
            for rival, other in enumerate(boxes)
            if rival != mine
        )
    ]
    assert maxima(given_rows, over=over)["id"].to_pylist() == expected
