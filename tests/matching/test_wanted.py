"""Categories, groups, owners, what events want: sentence by sentence, and large worlds against the scan."""

from __future__ import annotations

import datetime as dt
import math
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from rankcast import Hierarchy, InputError, RankedMatcher, SettingError
from rankcast.matching.indexes import INDEXES

OWN = [index for index in INDEXES if index in ("auto", "box-tree", "inverted", "scan")]


def told(engine: RankedMatcher, **event: Any) -> list[Any]:
    """The names told of one event."""
    found: list[Any] = engine.publish([{"id": 0, **event}])["subscription"].to_pylist()
    return found


def jobs(**settings: Any) -> RankedMatcher:
    """Subscriptions to jobs: a set, an exclusion, one value, and anything."""
    engine = RankedMatcher(**{"over": ["job", "pay"], "categories": ["job"], **settings})
    engine.subscribe(
        {
            "id": ["set", "not", "one", "any"],
            "job_in": [["nurse", "cook"], None, ["cook"], None],
            "job_not_in": [None, ["nurse"], None, None],
            "score": [4, 3, 2, 1],
        }
    )
    return engine


# Categories


@pytest.mark.parametrize("index", INDEXES)
def test_sets_and_exclusions(index: str) -> None:
    engine = jobs(index=index)
    assert told(engine, job="cook", pay=1) == ["set", "not", "one", "any"]
    assert told(engine, job="nurse", pay=1) == ["set", "any"]
    assert told(engine, job="pilot", pay=1) == ["not", "any"]  # that nobody has named
    assert told(engine, job=None, pay=1) == ["any"]


@pytest.mark.parametrize(
    ("values", "other"), [([1, 2, 3], 9), ([True, False, None], None), (["a", "", "é"], "b")]
)
def test_values_are_strings_integers_or_truths(values: list[Any], other: Any) -> None:
    engine = RankedMatcher(over="c", categories=["c"])
    engine.subscribe({"id": [1, 2], "c_in": [[values[0]], [values[1]]], "score": [1, 1]})
    assert [told(engine, c=value) for value in [*values, other]] == [[1], [2], [], []]
    table = pa.table({"id": [1, 2, 3], "c": pa.array(values).dictionary_encode()})
    assert engine.publish(table)["subscription"].to_pylist() == [1, 2]


def test_an_empty_list_matches_nothing_and_forbids_nothing_but_the_unknown() -> None:
    engine = RankedMatcher(over=["c"], categories=["c"])
    engine.subscribe({"id": ["in", "not"], "c_in": [[], None], "c_not_in": [None, []], "score": [1, 1]})
    assert (told(engine, c="a"), told(engine, c=None)) == (["not"], [])


def test_both_lists_count() -> None:
    engine = RankedMatcher(over=["c"], categories=["c"])
    engine.subscribe({"id": [1], "c_in": [["a", "b"]], "c_not_in": [["b", "z"]], "score": [1]})
    assert [told(engine, c=value) for value in "abz"] == [[1], [], []]


def test_amend_keeps_the_list_that_is_absent() -> None:
    engine = jobs()
    engine.amend({"id": ["set"], "job_not_in": [["cook"]]})
    assert told(engine, job="cook", pay=1) == ["not", "one", "any"]
    assert told(engine, job="nurse", pay=1) == ["set", "any"]
    engine.amend({"id": ["set"], "job_in": [None], "job_not_in": [None], "pay_lo": [5]})
    assert (told(engine, job=None, pay=4), told(engine, job=None, pay=5)) == (["any"], ["set", "any"])
    engine.rescore({"id": ["any"], "score": [9]})
    assert told(engine, job=None, pay=5) == ["any", "set"]


@pytest.mark.parametrize("index", OWN)
def test_many_who_never_named_a_set_come_and_go(index: str) -> None:
    engine, names = jobs(index=index, k=200), [f"n{i}" for i in range(100)]
    engine.subscribe({"id": names, "score": [0] * len(names)})
    engine.unsubscribe(names[::3])
    left = [name for name in names if name not in names[::3]]
    assert sorted(told(engine, job="cook", pay=1)) == sorted(["set", "not", "one", "any", *left])
    engine.amend({"id": left[-1:], "job_in": [["nurse"]]})
    engine.unsubscribe(left[:-1])
    assert told(engine, job="nurse", pay=1) == ["set", "any", left[-1]]


def test_values_are_forgotten_and_their_codes_used_again() -> None:
    engine = RankedMatcher(over=["c"], categories=["c"])
    engine.subscribe({"id": ["kept"], "c_in": [["kept"]], "score": [0]})
    for turn in range(50):
        engine.subscribe({"id": [f"s{turn}"], "c_in": [[f"v{turn}", f"w{turn}"]], "score": [1]})
        assert told(engine, c=f"v{turn}") == [f"s{turn}"]
        engine.unsubscribe([f"s{turn}"])
        assert told(engine, c=f"v{turn}") == []
    assert engine.state()[1]["category0.sequence"].size < 20
    assert told(engine, c="kept") == ["kept"]


def test_relaxed_weights_count_where_the_set_holds() -> None:
    engine = RankedMatcher(over=["c", "x"], categories=["c"], mode="relaxed")
    engine.subscribe(
        {"id": [1, 2], "c_in": [["a", "c"], ["b"]], "x_lo": [0, 0], "c_weight": [2, 1], "x_weight": [1, 2]}
    )
    answer = engine.publish({"id": [0, 1], "c": ["b", "c"], "x": [-1, 1]})
    assert list(zip(answer["subscription"].to_pylist(), answer["score"].to_pylist(), strict=True)) == [
        (2, 1.0),
        (1, 3.0),
        (2, 2.0),
    ]


CARE = Hierarchy({"nurse": "care", "icu": "nurse", "ward": "nurse", "doctor": "care", "cook": None})


@pytest.mark.parametrize("index", OWN)
def test_a_hierarchy_holds_what_is_below(index: str, tmp_path: Path) -> None:
    engine = RankedMatcher(over=["job"], categories={"job": CARE}, index=index)
    engine.subscribe(
        {
            "id": ["care", "nurse", "not", "both"],
            "job_in": [["care"], ["nurse"], None, ["cook", "icu", "nurse"]],
            "job_not_in": [None, None, ["nurse"], None],
            "score": [4, 3, 2, 1],
        }
    )
    engine.save(tmp_path / "saved")
    for each in (engine, RankedMatcher.load(tmp_path / "saved")):
        assert told(each, job="icu") == ["care", "nurse", "both"]
        assert told(each, job="doctor") == ["care", "not"]
        assert told(each, job="pilot") == ["not"]
    with pytest.raises(InputError, match=r'"job_in".*\'pilot\', which is not in the hierarchy.*\n.*row: 1'):
        engine.subscribe({"id": ["a", "b"], "job_in": [[], ["pilot"]], "score": [1, 1]})


def test_timestamps_are_numbers() -> None:
    engine, day = RankedMatcher(over=["time"]), dt.datetime(2026, 3, 1)
    engine.subscribe({"id": [1, 2], "time_lo": [day, None], "time_hi": [None, day], "score": [2, 1]})
    late = day + dt.timedelta(microseconds=1)
    assert [told(engine, time=time) for time in (day, late, None)] == [[1, 2], [1], []]
    frame = pd.DataFrame({"id": [0], "time": pd.to_datetime(["2026-03-02"])})
    assert engine.publish(frame)["subscription"].to_pylist() == [1]
    dates = pa.table({"id": [0], "time": pa.array([dt.date(2026, 2, 1)])})
    assert engine.publish(dates)["subscription"].to_pylist() == [2]


# Groups and owners


@pytest.mark.parametrize("index", INDEXES)
def test_a_group_matches_once_with_its_best_score(index: str) -> None:
    engine = RankedMatcher(over=["x"], index=index, k=2)
    engine.subscribe({"id": ["b"], "score": [1]})
    engine.subscribe(
        {"id": ["z1", "z2", "c"], "x_lo": [0, 5, 0], "group": ["a", "a", None], "score": [1, 2, 1]}
    )
    answer = engine.publish({"id": [0, 1], "x": [1, 6]})
    assert answer["subscription"].to_pylist() == ["a", "b", "a", "b"]
    assert answer["score"].to_pylist() == [1.0, 1.0, 2.0, 1.0]
    engine.unsubscribe(["z2"])
    engine.amend({"id": ["z1"], "group": [None]})
    assert told(engine, x=6) == ["b", "c"]
    assert told(engine, x=6, k=9) == ["b", "c", "z1"]


def test_groups_of_integers_and_their_order() -> None:
    engine = RankedMatcher(over=["x"])
    engine.subscribe({"id": [5, 6, 7], "group": [9, 9, None], "score": [1, 1, 1]})
    assert told(engine, x=0) == [7, 9]
    with pytest.raises(
        InputError, match='"group" of "subscriptions" holds strings, expected integers, as ids'
    ):
        engine.subscribe({"id": [8], "group": ["a"], "score": [1]})


@pytest.mark.parametrize("index", OWN)
def test_at_most_n_of_one_owner(index: str, tmp_path: Path) -> None:
    engine = RankedMatcher(over=["x"], per_owner=2, k=4, index=index)
    owner = ["p", "p", "p", "q", None, None, None]
    engine.subscribe({"id": list("abcdefg"), "owner": owner, "score": [7, 6, 5, 4, 3, 2, 1]})
    engine.save(tmp_path / "saved")
    for each in (engine, RankedMatcher.load(tmp_path / "saved")):
        assert told(each, x=0) == ["a", "b", "d", "e"]
        assert each.explain("c", {"x": 0})["reason"] == "a better one of its group or owner stands for it"
        each.amend({"id": ["a"], "owner": ["q"]})
        assert told(each, x=0) == ["a", "b", "c", "d"]


def test_a_group_has_one_owner() -> None:
    engine = RankedMatcher(over=["x"], per_owner=1)
    engine.subscribe({"id": ["a"], "group": ["g"], "owner": ["p"], "score": [1]})
    with pytest.raises(
        InputError, match=r'"owner".*is not that of the other rows of group \'g\'.*\n.*row: 1'
    ):
        engine.subscribe({"id": ["h", "b"], "group": [None, "g"], "owner": ["q", "q"], "score": [1, 1]})
    with pytest.raises(InputError, match="one owner a group"):
        engine.subscribe({"id": ["b", "c"], "group": ["h", "h"], "owner": ["q", "r"], "score": [1, 1]})
    engine.subscribe({"id": ["b"], "group": ["a"], "score": [1], "owner": ["q"]})
    with pytest.raises(InputError, match="one owner a group"):
        engine.amend({"id": ["a"], "group": ["a"]})
    engine.unsubscribe(["b"])
    engine.amend({"id": ["a"], "owner": ["q"]})
    engine.subscribe({"id": ["b"], "group": ["g"], "owner": ["q"], "score": [1]})


# Events


@pytest.mark.parametrize("index", INDEXES)
def test_events_have_k_min_score_exclude_and_boost(index: str) -> None:
    engine = RankedMatcher(over=["x"], k=2, index=index)
    engine.subscribe({"id": [1, 2, 3], "score": [3, 2, -1]})
    assert told(engine, x=0, k=3) == [1, 2, 3]
    assert told(engine, x=0, k=1) == [1]
    assert told(engine, x=0, k=9, min_score=2) == [1, 2]
    assert told(engine, x=0, exclude=[1, 77]) == [2, 3]
    assert told(engine, x=0, k=9, boost=2, min_score=5) == [1]
    answer = engine.publish({"id": [0, 1], "x": [0, 0], "boost": [0.5, None]})
    assert answer["score"].to_pylist() == [1.5, 1.0, 3.0, 2.0]


def test_exclude_names_groups_as_well() -> None:
    engine = RankedMatcher(over=["x"])
    engine.subscribe({"id": ["a", "b", "c"], "group": ["g", "g", None], "score": [3, 2, 1]})
    assert told(engine, x=0, exclude=["g"]) == ["c"]
    assert engine.publish({"id": [0], "x": [0], "exclude": [["a"]]})["score"].to_pylist() == [2.0, 1.0]


def test_boosts_by_category() -> None:
    engine = jobs(boosts={"job": {"cook": 2.0, "nurse": 0.5}}, k=1)
    answer = engine.publish({"id": [0, 1, 2, 3], "job": ["cook", "nurse", "pilot", None], "pay": [0] * 4})
    assert answer["score"].to_pylist() == [8.0, 2.0, 3.0, 1.0]
    relaxed = RankedMatcher(over=["c", "x"], categories=["c"], mode="relaxed", boosts={"c": {"a": 3.0}})
    relaxed.subscribe({"id": [1, 2], "c_weight": [1, 0], "x_weight": [0, 2]})
    assert relaxed.publish({"id": [0], "c": ["a"], "x": [0]})["subscription"].to_pylist() == [1, 2]


@pytest.mark.parametrize("index", INDEXES)
def test_intervals_overlap_lie_inside_or_contain(index: str) -> None:
    found = {}
    for overlap in ("any", "inside", "contains"):
        engine = RankedMatcher(over=["x"], overlap=overlap, index=index)
        engine.subscribe(
            {"id": list("abcd"), "x_lo": [0, 3, 4, None], "x_hi": [9, 4, 8, None], "score": [4, 3, 2, 1]}
        )
        found[overlap] = told(engine, x_lo=2, x_hi=6), told(engine, x_lo=4, x_hi=None)
    assert found["any"] == (["a", "b", "c", "d"], ["a", "b", "c", "d"])
    assert found["inside"] == (["a", "d"], ["d"])
    assert found["contains"] == (["b", "d"], ["c", "d"])


@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("errors", ["uniform", "normal"])
def test_scores_are_weighted_by_the_probability_of_a_match(errors: str, index: str) -> None:
    engine = RankedMatcher(over=["x"], errors=errors, index=index)
    engine.subscribe({"id": [1, 2, 3], "x_lo": [0, 5, None], "x_hi": [5, 9, 1], "score": [1, 2, 4]})
    answer = engine.publish({"id": [0], "x": [4], "x_error": [2]})

    def below(value: float) -> float:
        if errors == "uniform":
            return min(1.0, max(0.0, (value - 2) / 4))
        return 0.5 * math.erfc((4 - value) / (2 * math.sqrt(2)))

    expected = {1: below(5) - below(0), 2: 2 * (below(9) - below(5)), 3: 4 * below(1)}
    expected = {name: score for name, score in expected.items() if score > 0}
    found = dict(zip(answer["subscription"].to_pylist(), answer["score"].to_pylist(), strict=True))
    assert found == pytest.approx(expected, rel=1e-12)
    assert list(found) == sorted(expected, key=lambda name: -expected[name])


def test_a_certain_value_is_as_it_was() -> None:
    engine = RankedMatcher(over=["x"], errors="normal")
    engine.subscribe({"id": [1], "x_lo": [0], "x_hi": [5], "score": [3]})
    answer = engine.publish({"id": [0, 1, 2], "x": [5, 6, None], "x_error": [0, None, 4]})
    assert answer.select(["event", "score"]).to_pylist() == [{"event": 0, "score": 3.0}]


def test_negative_scores_rise_with_doubt() -> None:
    engine = RankedMatcher(over=["x"], errors="uniform", k=1)
    engine.subscribe({"id": [1, 2], "x_lo": [0, 3], "score": [-1, -2]})
    answer = engine.publish({"id": [0], "x": [2], "x_error": [1.5]})
    assert (answer["subscription"].to_pylist(), answer["score"].to_pylist()) == ([2], [pytest.approx(-1 / 3)])


@pytest.mark.parametrize(
    ("settings", "text"),
    [
        ({"categories": ["y"]}, 'unknown attribute "y"'),
        ({"categories": "x"}, "categories is 'x'"),
        ({"categories": {"x": 3}}, r'categories\["x"\] is 3'),
        ({"per_owner": 0}, "per_owner is 0"),
        ({"score": "tightest", "categories": ["x"]}, "categories have no width"),
        ({"overlap": "beside"}, 'unknown value "beside"'),
        ({"errors": "cauchy"}, 'unknown value "cauchy"'),
        ({"boosts": {"x": {"a": 2}}}, 'unknown category "x"'),
        ({"categories": ["x"], "boosts": {"x": {"a": 0}}}, r'boosts\["x"\] is 0'),
        ({"categories": ["x"], "boosts": {"x": 3}}, r'boosts\["x"\] is 3'),
    ],
)
def test_settings_are_checked_at_once(settings: dict[str, Any], text: str) -> None:
    with pytest.raises(SettingError, match=text):
        RankedMatcher(**{"over": ["x"], **settings})


@pytest.mark.parametrize(
    ("call", "rows", "text"),
    [
        ("subscribe", {"job_in": ["cook"]}, '"job_in".*has the type string, expected a list of strings'),
        ("subscribe", {"job_in": [[1]]}, '"job_in".*holds integers or truths, expected strings'),
        ("subscribe", {"job_in": [[1.5]]}, '"job_in".*has the type double'),
        ("subscribe", {"job_in": [[None]]}, '"job_in".*holds a null'),
        ("subscribe", {"job_lo": [1]}, 'unknown column "job_lo"'),
        ("publish", {"pay": [1]}, '"job" of "events" is missing, expected a category'),
        ("publish", {"job": [3], "pay": [1]}, '"job".*holds integers or truths, expected strings'),
        ("publish", {"job": [1.5], "pay": [1]}, '"job".*has the type double'),
        ("publish", {"job": ["a"], "pay": [1], "boost": [-1]}, '"boost".*is -1, expected a number above 0'),
        ("publish", {"job": ["a"], "pay": [1], "k": [0]}, '"k".*is 0'),
        ("publish", {"job": ["a"], "pay": [1], "exclude": ["b"]}, '"exclude".*has the type string'),
        ("publish", {"job": ["a"], "pay": [1], "exclude": [[3]]}, '"exclude".*holds integers'),
        (
            "publish",
            {"job": ["a"], "pay": [1], "pay_error": [-2]},
            '"pay_error".*is -2, expected a number from 0',
        ),
        ("publish", {"job": ["a"], "pay": [1], "pay_error": [1e308]}, '"pay_error".*is 1e[+]308'),
        (
            "publish",
            {"job": ["a"], "pay_lo": [1], "pay_error": [1]},
            '"pay_error".*is given beside an interval',
        ),
    ],
)
def test_bad_input_is_refused_and_changes_nothing(call: str, rows: dict[str, Any], text: str) -> None:
    engine = jobs(errors="normal")
    before = engine.stats()
    more = {"score": [1]} if call == "subscribe" else {}
    with pytest.raises(InputError, match=text):
        getattr(engine, call)({"id": ["n"], **rows, **more})
    assert engine.stats() == before
    assert told(engine, job="nurse", pay=1) == ["set", "any"]


def test_errors_are_unknown_unless_the_engine_has_them() -> None:
    with pytest.raises(InputError, match='unknown column "x_error"'):
        RankedMatcher(over=["x"]).publish({"id": [0], "x": [1], "x_error": [1]})


def test_attributes_of_these_names_are_attributes() -> None:
    engine = RankedMatcher(over=["k", "boost", "exclude"])
    engine.subscribe({"id": [1], "k_lo": [0], "exclude_lo": [2], "score": [1]})
    assert told(engine, k=0, boost=-5, exclude=2) == [1]


# Large worlds against the scan


def world(rng: np.random.Generator, count: int, relaxed: bool) -> dict[str, Any]:
    """Boxes over x and y with sets of jobs, groups and owners; ties everywhere."""
    names = [f"j{place}" for place in range(12)]

    def lists(most: int, share: float) -> list[Any]:
        return [
            list(rng.choice(names, rng.integers(0, most), replace=False)) if rng.random() < share else None
            for _ in range(count)
        ]

    group = [
        int(rng.integers(count, count + count // 8)) if rng.random() < 0.4 else None for _ in range(count)
    ]
    lo = rng.integers(0, 20, (count, 2)).astype(float)
    rows: dict[str, Any] = {
        "id": np.arange(count),
        "job_in": lists(4, 0.6),
        "job_not_in": lists(3, 0.3),
        "group": group,
    }
    rows["owner"] = [place if each is None else each for place, each in enumerate(group)]
    rows["owner"] = [owner % 17 for owner in rows["owner"]]
    for place, name in enumerate("xy"):
        free = rng.random(count) < 0.1
        rows[f"{name}_lo"] = pa.array(lo[:, place], mask=free)
        rows[f"{name}_hi"] = pa.array(lo[:, place] + rng.integers(0, 12, count), mask=free)
    if relaxed:
        weights = {f"{name}_weight": np.round(rng.random(count), 1) for name in ("x", "y", "job")}
        return rows | weights
    return rows | {"score": np.round(rng.normal(size=count), 1)}


def wishes(rng: np.random.Generator, count: int, size: int, spans: bool, errors: bool) -> dict[str, Any]:
    """Events that want this and that."""
    x = rng.integers(0, 25, size).astype(float)
    rows: dict[str, Any] = {"id": np.arange(size), "y": rng.integers(0, 25, size).astype(float)}
    rows |= {"x_lo": x, "x_hi": x + rng.integers(0, 5, size)} if spans else {"x": x}
    rows["job"] = [f"j{place}" if place < 13 else None for place in rng.integers(0, 14, size)]
    rows["k"] = rng.integers(1, 9, size)
    rows["min_score"] = pa.array(rng.normal(size=size), mask=rng.random(size) < 0.5)
    rows["boost"] = rng.choice([0.5, 1.0, 3.0], size)
    rows["exclude"] = [rng.integers(0, 2 * count, 40).tolist() for _ in range(size)]
    if errors:
        rows["y_error"] = rng.choice([0.0, 1.5, 30.0], size)
    return rows


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("index", ["auto", "box-tree", "inverted"])
def test_large_worlds_answer_as_the_scan(index: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    settings: dict[str, Any] = {
        "over": ["x", "y", "job"],
        "categories": ["job"],
        "k": 5,
        "per_owner": 1 + seed % 2,
    }
    settings |= {"mode": "relaxed", "combine": ["sum", "max"][seed // 2 % 2]} if seed % 2 else {}
    settings |= {
        "overlap": ["any", "inside", "contains"][seed % 3],
        "errors": ["uniform", "normal"][seed // 3],
    }
    settings["boosts"] = {"job": {"j1": 2.0, "j2": 0.25}}
    one, plain = RankedMatcher(**settings, index=index), RankedMatcher(**settings, index="scan")
    rows, count = world(rng, 600, bool(seed % 2)), 600
    part = pa.table(rows)
    for each in (one, plain):
        each.subscribe(part.slice(0, 500))
        each.unsubscribe(np.arange(0, 500, 7))
        each.subscribe(part.slice(500))
        each.amend({"id": [501, 502], "job_in": [["j3"], None], "x_lo": [None, 0]})
    for _ in range(2):
        events = wishes(rng, count, 30, spans=seed % 3 > 0, errors=seed % 2 == 0 or seed > 3)
        found, expected = one.publish(events), plain.publish(events)
        assert found.equals(expected), (found.to_pylist()[:5], expected.to_pylist()[:5])


@pytest.mark.parametrize("spans", [False, True])
def test_one_attribute_in_a_grid_answers_as_the_scan(spans: bool) -> None:
    rng = np.random.default_rng(8)
    one, plain = (
        RankedMatcher(over=["x"], k=5, per_owner=1, errors="normal", index=i) for i in ("auto", "scan")
    )
    lo = rng.integers(0, 200, 3000).astype(float)
    rows = {"id": np.arange(3000), "x_lo": lo, "x_hi": lo + rng.integers(0, 40, 3000)}
    rows |= {"score": np.round(rng.normal(size=3000), 1), "owner": rng.integers(0, 60, 3000)}
    for each in (one, plain):
        each.subscribe(rows)
    x = rng.random(60) * 220
    events: dict[str, Any] = {"id": np.arange(60), "k": rng.integers(1, 40, 60)}
    events |= {"x_lo": x, "x_hi": x + 3} if spans else {"x": x, "x_error": rng.choice([0.0, 4.0], 60)}
    assert one.stats()["index"] == "interval-grid"
    assert one.publish(events).equals(plain.publish(events))


def test_many_events_on_several_threads_are_the_same() -> None:
    rng = np.random.default_rng(9)
    settings: dict[str, Any] = {"over": ["x", "y", "job"], "categories": ["job"], "per_owner": 2}
    rows, events = world(rng, 400, False), wishes(rng, 400, 2100, spans=False, errors=False)
    one, two = (RankedMatcher(**settings, tuning={"threads": threads}) for threads in (1, 2))
    for each in (one, two):
        each.subscribe(rows)
    assert one.publish(events).equals(two.publish(events))


@pytest.mark.parametrize("index", ["auto", "scan"])
@pytest.mark.parametrize("overlap", ["any", "inside", "contains"])
def test_overlap_is_about_intervals_and_not_about_values(index: str, overlap: str) -> None:
    tree = Hierarchy({"icu": "nurse", "nurse": "care"})
    engine = RankedMatcher(
        over=["x", "y", "job"], categories={"job": tree}, overlap=overlap, errors="uniform", index=index
    )
    engine.subscribe(
        [{"id": 1, "x_lo": 0, "x_hi": 9, "y_lo": 2, "y_hi": 3, "job_in": ["care"], "score": 8.0}]
    )
    event = {"id": 0, "x": 5.0, "y_lo": 2, "y_hi": 3, "job": "icu"}
    for more, score in (({}, 8.0), ({"boost": 2.0}, 16.0), ({"x": 9.0, "x_error": 1.0}, 4.0)):
        assert engine.publish([event | more])["score"].to_pylist() == [score]
    met = engine.publish([event | {"boost": 1.0, "y_lo": 1, "y_hi": 3}]).num_rows
    assert met == (overlap != "inside")
