"""`RankedMatcher`, sentence by sentence of the contract."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast import InputError, RankedMatcher, SettingError, SnapshotError
from rankcast.matching.indexes import INDEXES


def exact(k: int = 20, **scored: tuple[float | None, float | None, float]) -> RankedMatcher:
    """A matcher over x with some intervals and scores, registered in order."""
    engine = RankedMatcher(over=["x"], k=k)
    lows, highs, scores = zip(*scored.values(), strict=True)
    engine.subscribe({"id": list(scored), "x_lo": list(lows), "x_hi": list(highs), "score": list(scores)})
    return engine


def relaxed(combine: str = "sum") -> RankedMatcher:
    """Subscriptions over x, y, z with the weights 1, 2, 4 and the intervals [0, 9]."""
    engine = RankedMatcher(over=["x", "y", "z"], mode="relaxed", combine=combine)
    ends = {f"{name}_{end}": [value] for name in "xyz" for end, value in (("lo", 0), ("hi", 9))}
    engine.subscribe({"id": ["s"], **ends, "x_weight": [1], "y_weight": [2], "z_weight": [4]})
    return engine


def best(engine: RankedMatcher, **point: float | None) -> list[tuple[Any, float]]:
    """The ranked subscriptions and scores of one event."""
    answer = engine.publish({"id": [0], **{name: [value] for name, value in point.items()}})
    assert answer["rank"].to_pylist() == list(range(1, answer.num_rows + 1))
    return list(zip(answer["subscription"].to_pylist(), answer["score"].to_pylist(), strict=True))


# exact matching


def test_publish_answers_with_event_rank_subscription_and_score() -> None:
    engine = exact(a=(0, 9, 1.5), b=(0, 9, 2.5))
    assert engine.publish({"id": ["e"], "x": [1]}).to_pylist() == [
        {"event": "e", "rank": 1, "subscription": "b", "score": 2.5},
        {"event": "e", "rank": 2, "subscription": "a", "score": 1.5},
    ]


def test_at_most_k_rows_an_event() -> None:
    engine = exact(k=2, a=(0, 9, 1), b=(0, 9, 3), c=(0, 9, 2))
    assert best(engine, x=5) == [("b", 3.0), ("c", 2.0)]


def test_ties_go_to_the_smaller_id() -> None:
    assert best(exact(k=2, c=(0, 9, 1), é=(0, 9, 1), a=(0, 9, 1), b=(0, 9, 1)), x=1) == [
        ("a", 1.0),
        ("b", 1.0),
    ]
    engine = RankedMatcher(over=["x"])
    engine.subscribe({"id": [10, 9, -1], "score": [1, 1, 1]})
    assert [name for name, _ in best(engine, x=0)] == [-1, 9, 10]


def test_intervals_are_closed() -> None:
    engine = exact(a=(1, 2, 1))
    assert [len(best(engine, x=x)) for x in (0.999, 1, 2, 2.001)] == [0, 1, 1, 0]


def test_a_null_end_is_unbounded() -> None:
    engine = exact(up=(1, None, 1), down=(None, 1, 2), all=(None, None, 3))
    assert [name for name, _ in best(engine, x=1e300)] == ["all", "up"]
    assert [name for name, _ in best(engine, x=-1e300)] == ["all", "down"]


def test_an_absent_column_is_unbounded() -> None:
    engine = RankedMatcher(over=["x"])
    engine.subscribe({"id": [1], "score": [1]})
    assert best(engine, x=-5) == [(1, 1.0)]


def test_all_intervals_must_contain_the_event() -> None:
    engine = RankedMatcher(over=["x", "y"])
    engine.subscribe({"id": [1, 2], "x_lo": [0, 0], "y_lo": [0, 5], "score": [1, 2]})
    assert best(engine, x=1, y=1) == [(1, 1.0)]


def test_an_unknown_attribute_matches_no_bounded_interval() -> None:
    engine = exact(both=(0, 9, 1), lower=(0, None, 2), upper=(None, 9, 3), free=(None, None, 4))
    assert best(engine, x=None) == [("free", 4.0)]


def test_scores_may_be_negative_or_zero() -> None:
    assert best(exact(a=(0, 9, -1), b=(0, 9, 0)), x=1) == [("b", 0.0), ("a", -1.0)]


def test_events_answer_in_order_and_an_id_may_repeat() -> None:
    engine = exact(a=(0, 5, 1), b=(3, 9, 2))
    answer = engine.publish({"id": [7, 3, 7], "x": [4, 99, 0]})
    assert answer.select(["event", "rank", "subscription"]).to_pylist() == [
        {"event": 7, "rank": 1, "subscription": "b"},
        {"event": 7, "rank": 2, "subscription": "a"},
        {"event": 7, "rank": 1, "subscription": "a"},
    ]


def test_publish_to_nobody_and_of_nothing() -> None:
    names = ["event", "rank", "subscription", "score"]
    nobody = RankedMatcher(over=["x"]).publish({"id": ["e"], "x": [1]})
    nothing = exact(a=(0, 9, 1)).publish({"id": [], "x": []})
    assert (nobody.num_rows, nobody.column_names) == (0, names)
    assert (nothing.num_rows, nothing.column_names) == (0, names)


def test_event_ids_are_of_one_kind(tmp_path: Path) -> None:
    engine = exact(a=(0, 9, 1))
    engine.publish({"id": ["e"], "x": [1]})
    engine.save(tmp_path / "saved")
    for kept in (engine, RankedMatcher.load(tmp_path / "saved")):
        with pytest.raises(InputError, match='"id" of "events" holds integers, expected strings'):
            kept.publish({"id": [1], "x": [1]})
        assert kept.publish({"id": [], "x": []}).schema.field("event").type == pa.string()


# events that are intervals


def test_an_interval_matches_what_it_overlaps() -> None:
    engine = exact(left=(0, 2, 1), middle=(3, 5, 2), right=(6, 9, 3))
    answer = engine.publish({"id": [1, 2, 3], "x_lo": [2, None, 7], "x_hi": [3, 5.5, None]})
    assert answer["subscription"].to_pylist() == ["middle", "left", "middle", "left", "right"]


def test_an_interval_without_both_ends_is_unknown() -> None:
    engine = exact(a=(0, None, 1), free=(None, None, 2))
    assert engine.publish({"id": [1], "x_lo": [None]})["subscription"].to_pylist() == ["free"]


def test_points_and_intervals_side_by_side() -> None:
    engine = RankedMatcher(over=["x", "y"])
    engine.subscribe({"id": ["a"], "x_lo": [0], "x_hi": [1], "y_lo": [5], "y_hi": [6], "score": [1]})
    assert engine.publish({"id": [1, 2], "x": [1, 1], "y_lo": [0, 0], "y_hi": [5, 4]})[
        "event"
    ].to_pylist() == [1]
    assert engine.explain("a", {"x": 1, "y_lo": 7, "y_hi": 9})["outside"] == ["y"]


# the tightest box first


def test_the_tightest_box_is_the_best() -> None:
    engine = RankedMatcher(over=["x", "y"], score="tightest")
    engine.subscribe({"id": ["wide", "point", "open"], "x_lo": [0, 1, None], "x_hi": [9, 1, None]})
    assert best(engine, x=1, y=0) == [("point", 1.0), ("wide", 0.1), ("open", 0.0)]
    engine.amend({"id": ["wide"], "x_lo": [1], "x_hi": [1], "y_lo": [0], "y_hi": [0]})
    assert best(engine, x=1, y=0)[0] == ("wide", 2.0)
    with pytest.raises(InputError, match="follows from the box"):
        engine.rescore({"id": ["wide"]})


# relaxed matching


def test_relaxed_sums_the_weights_of_the_intervals_that_contain_the_event() -> None:
    engine = relaxed()
    assert best(engine, x=1, y=99, z=1) == [("s", 5.0)]
    assert best(engine, x=1, y=1, z=1) == [("s", 7.0)]


def test_relaxed_takes_the_maximum_with_combine_max() -> None:
    assert best(relaxed("max"), x=1, y=1, z=99) == [("s", 2.0)]


def test_relaxed_combines_by_a_function_of_ones_own(tmp_path: Path) -> None:
    def most_common(weights: Any) -> Any:
        return np.sqrt((weights**2).sum(axis=1))

    engine = RankedMatcher(over=["x", "y"], mode="relaxed", combine=most_common)
    engine.subscribe({"id": ["a", "b"], "x_lo": [0, 5], "x_weight": [3, 9], "y_weight": [4, 1]})
    assert best(engine, x=1, y=1) == [("a", 5.0), ("b", 1.0)]
    engine.save(tmp_path / "saved")
    loaded = RankedMatcher.load(tmp_path / "saved", combine=most_common)
    assert best(loaded, x=1, y=1) == [("a", 5.0), ("b", 1.0)]
    with pytest.raises(SnapshotError, match="needs a function"):
        RankedMatcher.load(tmp_path / "saved")


@given(st.integers(0, 99), st.integers(1, 8), st.sampled_from([1, 3, 40, 5000]))
def test_any_function_that_never_falls_combines_as_by_brute_force(seed: int, width: int, k: int) -> None:
    rng, over = np.random.default_rng(seed), [f"a{place}" for place in range(width)]
    rows: dict[str, Any] = {"id": rng.permutation(500)}
    events: dict[str, Any] = {"id": range(4)}
    for place, name in enumerate(over):
        lo, free = np.floor(rng.random(500) * 9), rng.random((2, 500)) < 0.1
        rows[f"{name}_lo"] = pa.array(lo, mask=free[0])
        rows[f"{name}_hi"] = pa.array(lo + np.floor(rng.random(500) * 4), mask=free[1])
        rows[f"{name}_weight"] = np.round(rng.random(500) ** 3, int(rng.integers(1, 3)))
        value, unknown = np.floor(rng.random(4) * 9), rng.random(4) < 0.2
        if place % 3 == 2:  # an interval
            events |= {f"{name}_lo": pa.array(value, mask=unknown), f"{name}_hi": value + 1}
        else:
            events[name] = pa.array(value, mask=unknown)
    answers = []
    for index in ("auto", "scan"):
        engine = RankedMatcher(
            over=over, k=k, mode="relaxed", index=index, combine=lambda w: np.sqrt(w).max(axis=1) + w[:, 0]
        )
        engine.subscribe(rows)
        engine.publish(events)
        engine.rescore({"id": [5, 6], f"{over[0]}_weight": [9.0, 0.0]})
        engine.unsubscribe([7, 8])
        answers.append(engine.publish(events))
    assert answers[0].equals(answers[1])


def test_a_relaxed_score_must_be_above_zero() -> None:
    engine = RankedMatcher(over=["x"], mode="relaxed")
    engine.subscribe({"id": [1, 2], "x_lo": [0, 5], "x_weight": [0, 3]})
    assert best(engine, x=1) == []


def test_relaxed_sums_in_the_order_of_over() -> None:
    weights = {"x_weight": [0.1], "y_weight": [0.2], "z_weight": [0.3]}
    for over in (["x", "y", "z"], ["z", "y", "x"]):
        engine = RankedMatcher(over=over, mode="relaxed")
        engine.subscribe({"id": [1], **weights})
        first, second, third = (weights[f"{name}_weight"][0] for name in over)
        assert best(engine, x=0, y=0, z=0) == [(1, (first + second) + third)]


def test_an_interval_without_bounds_contains_the_unknown_and_one_with_a_single_bound_does_not() -> None:
    engine = RankedMatcher(over=["x", "y"], mode="relaxed")
    engine.subscribe(
        {
            "id": ["free", "lower", "upper"],
            "x_lo": [None, 0, None],
            "x_hi": [None, None, 9],
            "x_weight": [1, 1, 1],
        }
    )
    assert best(engine, x=None, y=None) == [("free", 1.0)]


def test_a_null_or_absent_weight_is_zero() -> None:
    engine = RankedMatcher(over=["x", "y"], mode="relaxed")
    engine.subscribe({"id": [1, 2], "x_weight": [None, 1]})
    assert best(engine, x=0, y=0) == [(2, 1.0)]


def test_relaxed_ties_and_k() -> None:
    engine = RankedMatcher(over=["x", "y"], mode="relaxed", k=2)
    engine.subscribe({"id": ["c", "b", "a"], "x_weight": [2, 1, 1], "y_weight": [0, 1, 1]})
    assert best(engine, x=0, y=0) == [("a", 2.0), ("b", 2.0)]


def test_weights_too_large_to_add_are_infinite_not_an_error() -> None:
    engine = RankedMatcher(over=["x", "y"], mode="relaxed")
    engine.subscribe({"id": [1], "x_weight": [1.7e308], "y_weight": [1.7e308]})
    assert best(engine, x=0, y=0) == [(1, float("inf"))]


# changes in place


def test_subscribe_amend_rescore_and_unsubscribe_return_nothing() -> None:
    engine = RankedMatcher(over=["x"])
    for call, rows in [
        ("subscribe", {"id": [1], "score": [1]}),
        ("amend", {"id": [1], "x_lo": [1]}),
        ("rescore", {"id": [1], "score": [2]}),
        ("unsubscribe", [1]),
    ]:
        assert getattr(engine, call)(rows) is None


def test_amend_keeps_an_absent_column_and_a_null_unbounds() -> None:
    engine = exact(a=(0, 5, 1))
    engine.amend({"id": ["a"], "x_hi": [None]})
    assert best(engine, x=99) == [("a", 1.0)]
    assert best(engine, x=-1) == []
    engine.amend({"id": ["a"], "score": [7]})
    assert best(engine, x=0) == [("a", 7.0)]
    assert best(engine, x=-1) == []


def test_amend_changes_weights_and_a_null_weight_is_zero() -> None:
    engine = relaxed()
    engine.amend({"id": ["s"], "y_weight": [None], "z_weight": [8]})
    assert best(engine, x=1, y=1, z=1) == [("s", 9.0)]


def test_rescore_changes_the_score_in_place() -> None:
    engine = exact(a=(0, 5, 1), b=(0, 5, 2))
    engine.rescore({"id": ["a"], "score": [3]})
    assert best(engine, x=1) == [("a", 3.0), ("b", 2.0)]
    assert best(engine, x=6) == []


def test_rescore_changes_the_given_weights_and_keeps_the_others() -> None:
    engine = relaxed()
    engine.rescore({"id": ["s"], "x_weight": [16]})
    assert best(engine, x=1, y=1, z=1) == [("s", 22.0)]


def test_unsubscribed_ones_match_no_more_and_may_come_again() -> None:
    engine = exact(a=(0, 5, 1), b=(0, 5, 2))
    engine.unsubscribe(["b"])
    assert best(engine, x=1) == [("a", 1.0)]
    engine.subscribe({"id": ["b"], "score": [0]})
    assert best(engine, x=1) == [("a", 1.0), ("b", 0.0)]
    assert len(engine) == 2


def test_a_row_used_again_has_no_weight_of_the_one_before() -> None:
    engine = relaxed()
    engine.unsubscribe(["s"])
    engine.subscribe({"id": ["t"], "x_weight": [1]})
    assert best(engine, x=1, y=1, z=1) == [("t", 1.0)]


def test_there_are_no_results() -> None:
    assert not hasattr(exact(a=(0, 1, 1)), "results")


# explain and stats


def test_explain_a_match() -> None:
    engine = exact(k=1, a=(0, 9, 1), b=(0, 9, 2))
    assert engine.explain("b", {"x": 1}) == {
        "subscription": "b",
        "score": 2.0,
        "rank": 1,
        "in_result": True,
        "score_to_beat": 2.0,
        "behind": 0.0,
        "outside": [],
        "counted": {},
        "reason": "among the best",
    }
    beaten = engine.explain("a", {"x": 1})
    assert (beaten["rank"], beaten["in_result"], beaten["behind"]) == (2, False, 1.0)
    assert beaten["reason"] == "1 matching subscriptions are better"


def test_the_score_to_beat_is_that_of_the_last_of_k() -> None:
    scored: dict[str, Any] = {"a": (0, 9, 1), "b": (0, 9, 2)}
    found = [exact(k=k, **scored).explain("b", {"x": 1})["score_to_beat"] for k in (1, 2, 3)]
    assert found == [2.0, 1.0, None]


def test_explain_what_does_not_match() -> None:
    engine = exact(a=(0, 9, 1))
    missed = engine.explain("a", {"x": 10})
    assert (missed["rank"], missed["in_result"], missed["score_to_beat"]) == (None, False, None)
    assert (missed["outside"], missed["reason"]) == (["x"], "x is outside the interval")
    assert engine.explain("a", {"x": None})["reason"] == "x is unknown"


def test_explain_relaxed() -> None:
    engine = relaxed()
    partly = engine.explain("s", {"x": 1, "y": None, "z": 1})
    assert (partly["score"], partly["rank"], partly["outside"]) == (5.0, 1, ["y"])
    assert partly["counted"] == {"x": 1.0, "z": 4.0}
    missed = engine.explain("s", {"x": 99, "y": 99, "z": 99})
    assert (missed["score"], missed["rank"]) == (0.0, None)
    assert missed["reason"] == "no interval with a weight contains the event"


def test_explain_takes_a_whole_event_and_counts_nothing() -> None:
    engine = exact(a=(0, 9, 1))
    before = engine.stats()
    assert engine.explain("a", {"id": "e", "x": 1})["in_result"]
    assert engine.stats() == before


@pytest.mark.parametrize(
    ("subscription", "event", "text"),
    [
        ("z", {"x": 1}, "'z', which is not known"),
        ("a", {}, '"x" of "event" is missing'),
        ("a", {"x": 1, "y": 1}, 'unknown column "y"'),
        ("a", [1], "expected a dict"),
    ],
)
def test_explain_refuses_what_it_does_not_know(subscription: Any, event: Any, text: str) -> None:
    with pytest.raises(InputError, match=text):
        exact(a=(0, 9, 1)).explain(subscription, event)


def test_stats_count_and_name_the_index() -> None:
    engine = exact(a=(0, 9, 1), b=(5, 9, 1))
    engine.publish({"id": [1, 2], "x": [1, 6]})
    told = engine.stats()
    assert {name: told[name] for name in ("events", "candidates", "deltas")} == {
        "events": 2,
        "candidates": 3,
        "deltas": 3,
    }
    assert told["index"] == "interval-grid"
    assert RankedMatcher(over=["x", "y"]).stats()["index"] == "box-tree"
    assert RankedMatcher(over="x", index="scan").stats()["index"] == "scan"


# apply and save


def test_apply_joins_the_answers_of_its_publishes() -> None:
    engine = RankedMatcher(over=["x"])
    answer = engine.apply(
        [
            ("publish", {"id": [1], "x": [0]}),
            ("subscribe", {"id": ["a"], "score": [1]}),
            ("publish", {"id": [2], "x": [0]}),
            ("rescore", {"id": ["a"], "score": [2]}),
            ("publish", {"id": [3], "x": [0]}),
        ]
    )
    assert answer["event"].to_pylist() == [2, 3]
    assert answer["score"].to_pylist() == [1.0, 2.0]


def test_apply_without_any_answer_is_empty() -> None:
    answer = RankedMatcher(over=["x"]).apply([("subscribe", {"id": ["a"], "score": [1]})])
    assert (answer.num_rows, answer.column_names) == (0, ["event", "rank", "subscription", "score"])


def test_a_loaded_matcher_goes_on(tmp_path: Path) -> None:
    engine = relaxed()
    engine.save(tmp_path / "saved")
    loaded = RankedMatcher.load(tmp_path / "saved")
    assert best(loaded, x=1, y=1, z=99) == best(engine, x=1, y=1, z=99)
    assert loaded.stats() == engine.stats()


# settings and errors


@pytest.mark.parametrize("index", INDEXES)
def test_indexes_that_are_there(index: str) -> None:
    engine = RankedMatcher(over="x", index=index)
    engine.subscribe({"id": [1], "score": [1]})
    assert best(engine, x=0) == [(1, 1.0)]


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"index": "b-tree"}, 'unknown value "b-tree"'),
        ({"mode": "fuzzy"}, 'unknown value "fuzzy"'),
        ({"combine": "min"}, 'unknown value "min"'),
        ({"score": "loosest"}, 'unknown value "loosest"'),
        ({"score": "tightest", "mode": "relaxed"}, "has no weights"),
        ({"tuning": {"threads": 0}}, "threads is 0"),
        ({"k": 0}, "k is 0"),
        ({"k": 2.0}, "k is 2.0"),
        ({"over": []}, "over names 0 attributes"),
        ({"over": ["id"]}, '"id", which is a column of its own'),
        ({"tuning": {"leaf": 1}}, 'unknown key "leaf"'),
    ],
)
def test_settings_are_checked_at_once(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingError, match=text):
        RankedMatcher(**{"over": ["x"], **settings})


@pytest.mark.parametrize(
    ("call", "rows", "text"),
    [
        ("subscribe", {"id": ["n"]}, '"score" of "subscriptions" is missing'),
        ("subscribe", {"id": ["n", "m"], "score": [1, None]}, r'"score".*is null.*\n.*row: 1'),
        ("subscribe", {"id": ["n"], "score": [float("nan")]}, '"score".*is NaN'),
        ("subscribe", {"id": ["n"], "score": ["1"]}, '"score".*has the type string'),
        ("subscribe", {"id": ["n"], "score": [1], "x_weight": [1]}, 'unknown column "x_weight"'),
        ("subscribe", {"id": ["n"], "score": [1], "k": [1]}, 'unknown column "k"'),
        ("subscribe", {"id": ["n"], "score": [1], "x_lo": [2], "x_hi": [1]}, '"x_lo".*expected lo <= hi'),
        ("subscribe", {"id": ["a"], "score": [1]}, "'a', which is there already"),
        ("subscribe", {"id": ["n", "n"], "score": [1, 1]}, "'n' a second time"),
        ("subscribe", {"id": [1], "score": [1]}, "holds integers, expected strings"),
        ("amend", {"id": ["z"], "score": [1]}, "'z', which is not known"),
        ("amend", {"id": ["a"], "score": [None]}, '"score".*is null'),
        ("amend", {"id": ["a"], "x_lo": [10]}, '"x_lo".*is 10, above the upper end 9'),
        ("rescore", {"id": ["a"]}, '"score" of "subscriptions" is missing'),
        ("rescore", {"id": ["a"], "score": [None]}, '"score".*is null'),
        ("rescore", {"id": ["a"], "score": [1], "x_lo": [1]}, 'unknown column "x_lo"'),
        ("rescore", {"id": ["a", "a"], "score": [1, 2]}, "'a' a second time"),
        ("rescore", {"id": ["z"], "score": [1]}, "'z', which is not known"),
        ("unsubscribe", ["a", "z"], r"'z', which is not known.*\n.*row: 1"),
        ("publish", {"id": [1]}, '"x" of "events" is missing'),
        ("publish", {"id": [1], "x": [float("inf")]}, '"x" of "events" is infinite'),
        ("publish", {"id": [1], "x": [1], "z": [1]}, 'unknown column "z"'),
        ("publish", {"id": [1], "x": [1], "x_lo": [1]}, '"x_lo" of "events" is given beside "x"'),
        ("publish", {"id": [1, 2], "x_lo": [1, 3], "x_hi": [1, 2]}, r'"x_lo".*above the upper.*\n.*row: 1'),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(call: str, rows: Any, text: str) -> None:
    engine = exact(a=(0, 9, 1))
    before = engine.stats()
    with pytest.raises(InputError, match=text):
        getattr(engine, call)(rows)
    assert engine.stats() == before
    assert best(engine, x=9) == [("a", 1.0)]


@pytest.mark.parametrize(
    ("call", "rows", "text"),
    [
        ("subscribe", {"id": ["n"], "score": [1]}, 'unknown column "score"'),
        (
            "subscribe",
            {"id": ["n", "m"], "y_weight": [0, -1]},
            r'"y_weight".*is -1, expected a number from 0\n.*row: 1',
        ),
        ("amend", {"id": ["s"], "x_weight": [5], "z_weight": [-0.5]}, '"z_weight".*is -0.5'),
        ("rescore", {"id": ["s"], "x_weight": [-1]}, '"x_weight".*is -1'),
        ("rescore", {"id": ["s"]}, 'expected a column "x_weight" or "y_weight" or "z_weight"'),
    ],
)
def test_bad_weights_are_refused_and_change_nothing(call: str, rows: Any, text: str) -> None:
    engine = relaxed()
    with pytest.raises(InputError, match=text):
        getattr(engine, call)(rows)
    assert best(engine, x=1, y=1, z=1) == [("s", 7.0)]


def test_unknown_columns_may_be_ignored() -> None:
    engine = RankedMatcher(over=["x"], extra="ignore")
    engine.subscribe({"id": [1], "score": [1], "colour": ["red"]})
    assert best(engine, x=1, y=2) == [(1, 1.0)]


def test_any_arrow_table_will_do() -> None:
    engine = RankedMatcher(over=["x"])
    engine.subscribe(pd.DataFrame({"id": ["a"], "x_lo": [0.0], "score": [1.0]}))
    assert engine.publish(pa.table({"id": [1], "x": [2]}))["subscription"].to_pylist() == ["a"]
