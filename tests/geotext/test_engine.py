"""Each sentence of the contract on `GeoTextTopK`."""

from __future__ import annotations

import math
from copy import deepcopy
from datetime import date, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

from rankcast import GeoTextTopK, InputError, SettingError, SnapshotError, Vocabulary
from rankcast.structures.distance import HALF_CIRCUMFERENCE

START = datetime(2024, 3, 1, 12)
HOUR = timedelta(hours=1)


def rows(table: pa.Table) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in table.to_pylist()]


def changes(table: pa.Table) -> list[tuple[Any, ...]]:
    return [(row["subscription"], row["op"], row["item"]) for row in table.to_pylist()]


def messages(*ids: Any, **columns: list[Any]) -> dict[str, list[Any]]:
    """Messages at the origin with the word "a", as far as nothing else is said."""
    size = len(ids)
    return {"id": list(ids), "x": [0] * size, "y": [0] * size, "terms": [["a"]] * size, **columns}


def plane(**settings: Any) -> GeoTextTopK:
    """An engine over a plane with diagonal 5, and the subscription 1 at the origin for the word "a"."""
    engine = GeoTextTopK(**{"bounds": (0, 0, 4, 3), **settings})
    engine.subscribe(messages(1))
    return engine


def timed(**settings: Any) -> GeoTextTopK:
    return plane(window=HOUR, **settings)


def at(*minutes: float) -> list[datetime]:
    return [START + timedelta(minutes=minute) for minute in minutes]


def items(engine: GeoTextTopK, *ids: Any) -> list[Any]:
    found: list[Any] = engine.results(list(ids) or None)["item"].to_pylist()
    return found


def scores(engine: GeoTextTopK) -> list[float]:
    found: list[float] = engine.results()["score"].to_pylist()
    return found


# Score


def test_the_place_counts_by_its_distance_over_the_diagonal() -> None:
    engine = plane(alpha=1)
    engine.publish(messages("near", "far", "middle", x=[0, 4, 3], y=[0, 3, 0]))
    assert rows(engine.results()) == [(1, 1, "near", 1.0), (1, 2, "middle", 1 - 3 / 5), (1, 3, "far", 0.0)]


def test_the_words_count_by_the_cosine() -> None:
    engine = plane(alpha=0)
    engine.publish(messages("same", "half", x=[4, 0], terms=[["a"], ["a", "b"]]))
    assert rows(engine.results()) == [(1, 1, "same", 1.0), (1, 2, "half", 1 / math.sqrt(1 + 1))]


def test_alpha_weighs_the_place_against_the_words() -> None:
    engine = plane(alpha=0.25)
    engine.publish(messages("m", x=[4], y=[3], terms=[["a", "b"]]))
    assert scores(engine) == [0.25 * (1 - 5 / 5) + 0.75 * (1 / math.sqrt(2))]


def test_a_subscription_may_have_its_own_alpha_and_k() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 4, 3), alpha=1, k=1)
    engine.subscribe(messages(1, 2, alpha=[None, 0], k=[None, 2]))
    engine.publish(messages("near", "apt", x=[0, 4], terms=[["a", "b"], ["a"]]))
    assert items(engine, 1) == ["near"]
    assert items(engine, 2) == ["apt", "near"]


def test_both_ends_of_alpha_are_legal() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 4, 3))
    engine.subscribe(messages(0, 1, alpha=[0, 1]))
    engine.publish(messages("m", x=[4], y=[3]))
    assert scores(engine) == [1.0, 0.0]


def test_repeats_are_term_frequency() -> None:
    engine = plane(alpha=0)
    engine.publish(messages("m", terms=[["b", "a", "a"]]))
    assert scores(engine) == [2 / math.sqrt(4 + 1)]


def test_weights_follow_the_vocabulary_also_for_terms_it_never_saw() -> None:
    vocabulary = Vocabulary.fit({"terms": [["a"], ["a", "b"], ["c"]]})
    engine = GeoTextTopK(bounds=(0, 0, 4, 3), alpha=0, vocabulary=vocabulary)
    engine.subscribe(messages(1))
    engine.publish(messages("m", terms=[["a", "new", "new"]]))
    common, new = math.log(4 / 3) + 1, 2 * (math.log(4 / 1) + 1)
    assert scores(engine) == [common / math.sqrt(common * common + new * new)]


def test_without_a_vocabulary_every_idf_is_1() -> None:
    with_none, with_empty = plane(alpha=0), plane(alpha=0, vocabulary=Vocabulary.fit({"terms": []}))
    for engine in (with_none, with_empty):
        engine.publish(messages("m", terms=[["a", "b", "c", "c"]]))
        assert scores(engine) == [1 / math.sqrt(1 + 1 + 4)]


def test_a_message_without_a_common_term_is_never_in_a_result() -> None:
    engine = plane(alpha=1)
    engine.publish(messages("other", "none", "upper", "same", terms=[["b"], [], ["A"], ["a"]]))
    assert items(engine) == ["same"]


def test_a_subscription_without_terms_has_an_empty_result() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 4, 3))
    engine.subscribe(messages(1, terms=[[]]))
    assert engine.publish(messages("m", "n", terms=[["a"], []])).num_rows == 0
    assert items(engine) == []


def test_scores_do_not_depend_on_what_came_before() -> None:
    words = [f"word {place}" for place in range(40)]
    fresh, old = plane(alpha=0.3), plane(alpha=0.3, window=2)
    old.publish(messages(*map(str, range(40)), terms=[[word] for word in reversed(words)]))
    for engine in (fresh, old):
        engine.subscribe(messages(2, terms=[words[::3]]))
        engine.publish(messages("m", "n", x=[1, 2], y=[2, 1], terms=[words[::-1], ["a", *words]]))
    assert fresh.results().equals(old.results())
    assert fresh.results().num_rows == 3


# Ties


def test_of_equal_scores_the_later_arrival_comes_first() -> None:
    engine = plane(k=2)
    engine.publish(messages("first", "second"))
    engine.publish(messages("third"))
    assert items(engine) == ["third", "second"]


def test_of_equal_scores_the_later_time_comes_first_then_the_later_arrival() -> None:
    engine = timed()
    engine.publish(messages("b", "d", "a", "c", time=at(1, 2, 1, 0)))
    assert items(engine) == ["d", "a", "b", "c"]


def test_same_place_and_words_always_tie() -> None:
    words = ["a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "a"]
    engine = plane(vocabulary=Vocabulary.fit({"terms": [words, ["a"], ["b", "c"]]}))
    engine.publish(messages("m", "n", x=[1, 1], y=[2, 2], terms=[words, words[::-1]]))
    assert scores(engine)[0] == scores(engine)[1]
    assert items(engine) == ["n", "m"]


# Metric and bounds


def test_haversine_divides_by_half_the_circumference() -> None:
    engine = GeoTextTopK(metric="haversine", alpha=1)
    engine.subscribe(messages(1))
    engine.publish(messages("here", "pole", "antipode", x=[0, 0, 180], y=[0, 90, 0]))
    assert items(engine) == ["here", "pole", "antipode"]
    assert scores(engine) == pytest.approx([1, 0.5, 0], abs=1e-12)
    assert engine.explain(1, "antipode")["distance"] == pytest.approx(HALF_CIRCUMFERENCE)


def test_haversine_goes_across_the_date_line() -> None:
    engine = GeoTextTopK(metric="haversine", alpha=1)
    engine.subscribe(messages(1, x=[179]))
    engine.publish(messages("east", "west", x=[170, -179]))
    assert items(engine) == ["west", "east"]


def test_haversine_with_bounds_divides_by_their_diagonal_on_the_globe() -> None:
    engine = GeoTextTopK(metric="haversine", bounds=(0, 0, 0, 10), alpha=1)
    engine.subscribe(messages(1))
    engine.publish(messages("m", y=[9]))
    assert scores(engine) == pytest.approx([1 - 9 / 10])
    with pytest.raises(InputError, match='"x"'):
        engine.publish(messages("n", x=[11]))


def test_the_diagonal_of_more_than_half_the_globe_goes_around_half_of_it() -> None:
    engine = GeoTextTopK(metric="haversine", bounds=(-180, 0, 180, 0), alpha=1)
    engine.subscribe(messages(1))
    engine.publish(messages("m", x=[90]))
    assert scores(engine) == pytest.approx([0.5])


@pytest.mark.parametrize("method", ["igpt", "ciq", "scan"])
@pytest.mark.parametrize("scale", ["5 km", "5000m", 5000, " 5.0 km "])
def test_a_place_counts_nothing_from_the_scale_on(method: str, scale: float | str) -> None:
    engine = GeoTextTopK(metric="haversine", scale=scale, alpha=1, method=method)
    engine.subscribe(messages(1))
    degree = HALF_CIRCUMFERENCE / 180
    far = [0, 2500 / degree, 5001 / degree, 90]
    engine.publish(messages("here", "half", "out", "pole", y=far))
    assert items(engine) == ["here", "half", "pole", "out"]  # of equal ones the newer first
    assert scores(engine) == pytest.approx([1, 0.5, 0, 0], abs=1e-9)


@pytest.mark.parametrize(
    "scale", [0, -1, float("nan"), float("inf"), "5 parsecs", "-5 km", "5", "", [5], True]
)
def test_a_scale_that_is_no_distance_is_refused(scale: Any) -> None:
    with pytest.raises(SettingError, match="scale is"):
        GeoTextTopK(metric="haversine", scale=scale)


def test_a_scale_in_metres_needs_the_globe() -> None:
    with pytest.raises(SettingError, match="scale is"):
        plane(scale="5 km")


def test_the_scale_stays_with_the_state() -> None:
    box = {"bounds": (0, 0, 1, 1)}
    choices: list[dict[str, Any]] = [{}, {"scale": "5 km"}, box, {**box, "scale": 7}]
    for settings in choices:
        engine = GeoTextTopK(metric="haversine", alpha=1, **settings)
        engine.subscribe(messages(1))
        engine.publish(messages("m", y=[0.01]))
        again = GeoTextTopK.restore(*deepcopy(engine.state()))
        again.publish(messages("n", y=[0.01]))
        assert scores(again) == scores(engine) * 2


def test_states_of_before_there_was_a_scale_keep_theirs() -> None:
    engine = GeoTextTopK(metric="haversine", bounds=(0, 0, 10, 10), alpha=1)
    engine.subscribe(messages(1))
    header, arrays = deepcopy(engine.state())
    del header["settings"]["scale"], header["parts"]["live"]["unit"]
    engine = GeoTextTopK.restore(header, arrays)
    engine.publish(messages("m", y=[9]))
    assert scores(engine) == pytest.approx([1 - 9 / 180])


def test_places_on_the_border_are_inside() -> None:
    engine = plane()
    engine.publish(messages("a", "b", x=[0, 4], y=[3, 0]))
    engine.subscribe(messages(2, x=[4], y=[3]))
    assert len(items(engine, 2)) == 2


@pytest.mark.parametrize(("column", "value"), [("x", -0.001), ("x", 4.001), ("y", -1), ("y", 3.5)])
def test_a_place_outside_the_bounds_is_refused(column: str, value: float) -> None:
    engine = plane()
    for call, where in ((engine.publish, "messages"), (engine.subscribe, "subscriptions")):
        with pytest.raises(InputError, match=f'column "{column}" of "{where}"(.|\n)*row: 1'):
            call(messages(8, 9, **{column: [0, value]}))
    with pytest.raises(InputError, match=f'column "{column}" of "subscriptions"'):
        engine.amend({"id": [1], column: [value]})
    assert len(engine) == 1
    assert engine.stats()["events"] == 0


def test_a_place_off_the_globe_is_refused() -> None:
    engine = GeoTextTopK(metric="haversine")
    for column, value in (("x", 180.5), ("y", -90.5)):
        with pytest.raises(InputError, match=f'"{column}"'):
            engine.publish(messages("m", **{column: [value]}))


# Windows


def test_a_count_window_holds_the_last_messages() -> None:
    engine = plane(window=2)
    engine.publish(messages("a", "b"))
    assert changes(engine.publish(messages("c"))) == [(1, "leave", "a"), (1, "enter", "c")]
    assert items(engine) == ["c", "b"]


def test_messages_without_terms_take_their_place_in_the_window_too() -> None:
    engine = plane(window=1)
    engine.publish(messages("a"))
    assert changes(engine.publish(messages("b", terms=[[]]))) == [(1, "leave", "a")]


def test_one_that_expires_is_replaced_by_the_next_best() -> None:
    engine = plane(window=3, k=1)
    engine.publish(messages("best", "good", "poor", x=[0, 1, 2]))
    assert changes(engine.publish(messages("none", terms=[["b"]]))) == [
        (1, "leave", "best"),
        (1, "enter", "good"),
    ]


def test_a_time_window_holds_newest_minus_window_exclusive_to_newest() -> None:
    engine = timed()
    engine.publish(messages("a", "b", time=at(0, 1)))
    engine.publish(messages("c", time=at(59.999)))
    assert items(engine) == ["c", "b", "a"]
    assert changes(engine.publish(messages("d", time=at(60)))) == [(1, "leave", "a"), (1, "enter", "d")]


def test_a_message_that_comes_too_late_is_counted_and_ignored() -> None:
    engine = timed()
    engine.publish(messages("now", time=at(100)))
    assert engine.publish(messages("late", "edge", time=at(39, 40))).num_rows == 0
    assert changes(engine.publish(messages("old", time=at(40.001)))) == [(1, "enter", "old")]
    assert engine.stats()["late"] == 2
    assert engine.stats()["events"] == 4


def test_a_late_message_is_ignored_even_under_the_id_of_a_live_one() -> None:
    engine = timed()
    engine.publish(messages("m", time=at(100)))
    engine.publish(messages("m", "m", time=at(0, 1), x=[4, 4]))
    assert rows(engine.results()) == [(1, 1, "m", 1.0)]
    assert engine.stats()["late"] == 2


def test_lateness_is_judged_row_by_row() -> None:
    engine = timed()
    engine.publish(messages("a", "b", "c", time=at(0, 120, 30)))
    assert items(engine) == ["b"]
    assert (engine.stats()["late"], engine.stats()["expired"]) == (1, 1)


def test_a_message_out_of_order_leaves_by_its_time() -> None:
    engine = timed()
    engine.publish(messages("new", "old", time=at(50, 10)))
    assert changes(engine.publish(messages("c", time=at(70)))) == [(1, "leave", "old"), (1, "enter", "c")]


def test_times_may_be_dates_or_have_a_zone() -> None:
    engine = plane(window=timedelta(days=2))
    engine.publish(messages("a", time=[date(2024, 3, 1)]))
    zoned = pa.array([datetime(2024, 3, 3)], pa.timestamp("s", tz="UTC"))
    assert changes(engine.publish({**messages("b"), "time": zoned})) == [(1, "leave", "a"), (1, "enter", "b")]


def test_a_time_window_needs_a_time_and_a_count_window_knows_none() -> None:
    with pytest.raises(InputError, match='column "time" of "messages" is missing'):
        timed().publish(messages("m"))
    with pytest.raises(InputError, match='unknown column "time"'):
        plane().publish(messages("m", time=at(0)))
    assert plane(extra="ignore").publish(messages("m", time=at(0))).num_rows == 1


def test_a_time_that_is_null_or_no_timestamp_is_refused() -> None:
    engine = timed()
    for time in ([START, None], [START, START.replace(year=3000)]):
        with pytest.raises(InputError, match=r'"time"(.|\n)*row: 1'):
            engine.publish(messages("m", "n", time=time))
    with pytest.raises(InputError, match='"time"'):
        engine.publish(messages("m", time=[5]))


def test_a_batch_larger_than_the_window_leaves_its_last_messages() -> None:
    engine = plane(window=2)
    engine.publish(messages("before"))
    assert changes(engine.publish(messages(*"abcde"))) == [
        (1, "leave", "before"),
        (1, "enter", "e"),
        (1, "enter", "d"),
    ]
    assert engine.stats()["expired"] == 4


def test_a_message_that_came_and_went_within_a_batch_never_shows() -> None:
    engine = timed()
    answer = engine.publish(messages("gone", "stays", time=at(0, 90)))
    assert changes(answer) == [(1, "enter", "stays")]
    with pytest.raises(InputError, match="not known"):
        engine.explain(1, "gone")


# Ids of messages


def test_an_id_of_a_live_message_is_refused() -> None:
    engine = plane()
    engine.publish(messages("m"))
    with pytest.raises(InputError, match=r'column "id" of "messages" is .m.,(.|\n)*row: 1'):
        engine.publish(messages("n", "m"))
    assert items(engine) == ["m"]


def test_an_id_twice_in_a_batch_is_refused_while_the_first_is_live() -> None:
    engine = plane(window=3)
    with pytest.raises(InputError, match="row: 3"):
        engine.publish(messages(1, 2, 3, 2))
    engine = timed()
    with pytest.raises(InputError, match="row: 1"):
        engine.publish(messages(1, 1, 2, time=at(0, 59, 200)))


def test_an_id_may_come_again_once_its_message_has_gone() -> None:
    engine = plane(window=2)
    engine.publish(messages(1, 2, 3, 1, x=[1, 1, 1, 2]))
    assert items(engine) == [3, 1]
    engine.publish(messages(4))
    engine.publish(messages(3))
    assert items(engine) == [3, 4]


def test_the_arrival_that_pushes_a_message_out_may_take_its_id() -> None:
    engine = plane(window=1)
    engine.publish(messages("m", x=[4]))
    assert rows(engine.publish(messages("m"))) == [(1, "update", "m", 1.0, 1)]
    engine = timed()
    engine.publish(messages("m", time=at(0)))
    with pytest.raises(InputError, match="live message"):
        engine.publish(messages("m", time=at(59)))
    engine.publish(messages("m", time=at(60)))
    assert items(engine) == ["m"]


def test_a_message_that_took_an_id_over_is_a_live_message_like_any_other() -> None:
    engine = plane(window=2)
    engine.publish(messages("m", "n", x=[4, 4]))
    engine.publish(messages("o", "m"))
    assert engine.explain(1, "m")["rank"] == 1
    with pytest.raises(InputError, match="live message"):
        engine.publish(messages("m"))
    engine.publish(messages("p", x=[1]))
    engine.publish(messages("q", x=[2]))
    assert items(engine) == ["p", "q"]


def test_an_id_that_comes_again_with_the_same_score_is_no_change() -> None:
    engine = plane(window=1)
    engine.publish(messages("m"))
    assert engine.publish(messages("n", "m")).num_rows == 0
    assert items(engine) == ["m"]


def test_ids_are_of_one_kind() -> None:
    engine = plane()
    engine.publish(messages("m"))
    with pytest.raises(InputError, match="strings, as in the calls before"):
        engine.publish(messages(5))


# Subscriptions


def test_subscribe_answers_with_the_first_results() -> None:
    engine = plane(alpha=1)
    engine.publish(messages("far", "near", x=[4, 0]))
    answer = engine.subscribe(messages("s", x=[4]) | {"id": [7]})
    assert rows(answer) == [(7, "enter", "far", 1.0, 1), (7, "enter", "near", 1 - 4 / 5, 2)]


def test_unsubscribe_answers_with_leaves() -> None:
    engine = plane()
    engine.publish(messages("m", "n", x=[0, 1]))
    assert rows(engine.unsubscribe([1])) == [(1, "leave", "m", None, None), (1, "leave", "n", None, None)]
    assert len(engine) == 0


def test_amend_changes_what_is_given_and_keeps_the_rest() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 4, 3), alpha=1, k=1)
    engine.subscribe(messages(1, k=[2]))
    engine.publish(messages("a", "b", "z", x=[0, 4, 2], terms=[["a"], ["b"], ["a"]]))
    assert rows(engine.amend({"id": [1], "x": [2]})) == [
        (1, "update", "z", 1.0, 1),
        (1, "update", "a", 1 - 2 / 5, 2),
    ]
    assert changes(engine.amend({"id": [1], "terms": [["b"]]})) == [
        (1, "leave", "z"),
        (1, "leave", "a"),
        (1, "enter", "b"),
    ]
    engine.amend({"id": [1], "terms": [["a"]]})
    assert changes(engine.amend({"id": [1], "k": [None]})) == [(1, "leave", "a")]
    assert scores(engine) == [1.0]


def test_amending_alpha_to_null_sets_the_engines() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 4, 3), alpha=1)
    engine.subscribe(messages(1, alpha=[0]))
    engine.publish(messages("m", x=[4], y=[3]))
    assert rows(engine.amend({"id": [1], "alpha": [None]})) == [(1, "update", "m", 0.0, 1)]


@pytest.mark.parametrize("column", ["x", "y", "terms"])
def test_place_and_terms_are_needed_and_have_no_default(column: str) -> None:
    engine = plane()
    for call in (engine.subscribe, engine.publish):
        with pytest.raises(InputError, match=f'column "{column}"(.*)is missing'):
            call({name: values for name, values in messages(5).items() if name != column})
        with pytest.raises(InputError, match=f'column "{column}"(.*)is null(.|\n)*row: 1'):
            call(messages(5, 6) | {column: [messages(5)[column][0], None]})
    with pytest.raises(InputError, match=f'column "{column}"(.*)is null'):
        engine.amend({"id": [1], column: [None]})


@pytest.mark.parametrize("alpha", [-0.1, 1.1])
def test_alpha_outside_0_and_1_is_refused(alpha: float) -> None:
    engine = plane()
    with pytest.raises(InputError, match=r'column "alpha" of "subscriptions"(.|\n)*row: 1'):
        engine.subscribe(messages(5, 6, alpha=[None, alpha]))
    with pytest.raises(InputError, match='"alpha"'):
        engine.amend({"id": [1], "alpha": [alpha]})


@pytest.mark.parametrize("terms", [["a"], [[1]], [["a", None]], [{"a": 1}]])
def test_terms_are_lists_of_strings(terms: list[Any]) -> None:
    with pytest.raises(InputError, match='column "terms"'):
        plane().publish(messages("m", terms=terms))


def test_an_empty_batch_does_nothing() -> None:
    engine = timed()
    engine.publish(messages("m", time=at(0)))
    before = engine.stats(), rows(engine.results())
    assert engine.publish(messages(time=[])).num_rows == 0
    assert engine.subscribe(messages()).num_rows == 0
    assert (engine.stats(), rows(engine.results())) == before


# Explanation, counters, state


def test_explain_says_what_the_score_is_made_of() -> None:
    engine = plane(k=1)
    engine.subscribe(messages(2, terms=[["a", "b", "c"]], k=[2]))
    engine.publish(messages("m", "n", "o", x=[0, 4, 0], y=[0, 3, 0], terms=[["b", "a"], ["a"], ["z"]]))
    told = engine.explain(2, "n")
    assert told == {
        "subscription": 2,
        "item": "n",
        "in_result": True,
        "score": scores(engine)[2],
        "rank": 2,
        "score_to_beat": scores(engine)[2],
        "distance": 5.0,
        "cosine": 1 / math.sqrt(3),
        "alpha": 0.5,
        "common_terms": ["a"],
        "reason": "in the result",
        "threshold": -math.inf,
        "pruned_by": None,
    }
    assert engine.explain(2, "m")["common_terms"] == ["a", "b"]


def test_explain_names_the_bound_that_pruned() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 4, 3), k=1, refill="none")
    engine.publish(
        messages("a", "b", "c", "d", x=[0, 0, 4, 2], y=[0, 0, 3, 0], terms=[["a"], ["a"], ["a"], ["a", "b"]])
    )
    engine.publish(messages("other", "words", terms=[["z"], ["a", "b", "c", "d"]]))
    engine.subscribe(messages(1))
    assert engine.explain(1, "b")["pruned_by"] is None
    told = {item: engine.explain(1, item)["pruned_by"] for item in ("c", "d", "other", "words")}
    assert told == {"c": "place", "d": "words", "other": "words", "words": "words"}
    assert engine.explain(1, "c")["threshold"] == 1.0


def test_explain_says_why_not() -> None:
    engine = plane(k=1)
    engine.publish(messages("best", "second", "other", x=[0, 1, 0], terms=[["a"], ["a"], ["b"]]))
    second, other = engine.explain(1, "second"), engine.explain(1, "other")
    assert (second["in_result"], second["rank"], second["score_to_beat"]) == (False, 2, 1.0)
    assert second["reason"] == "1 messages are better"
    assert (other["in_result"], other["rank"], other["reason"]) == (False, None, "no common term")
    with pytest.raises(InputError, match="not known"):
        engine.explain(1, "nobody")


def test_counters_of_the_contract_are_there() -> None:
    engine = plane(window=2, method="scan")
    engine.publish(messages("a", "b", "c"))
    stats = engine.stats()
    assert {"events", "candidates", "deltas", "buffered", "cells_pruned", "groups_pruned"} <= stats.keys()
    assert (stats["events"], stats["expired"], stats["late"], stats["deltas"]) == (3, 1, 0, 2)
    assert (stats["candidates"], stats["verified"], stats["reevaluations"]) == (3, 3, 1)


def test_a_loaded_engine_has_its_window_its_vocabulary_and_its_settings(tmp_path: Path) -> None:
    vocabulary = Vocabulary.fit({"terms": [["a"], ["b", "a"]]})
    engine = timed(vocabulary=vocabulary, alpha=0.25, k=2)
    engine.publish(messages("m", "n", time=at(0, 1), terms=[["a", "new"], ["b", "a"]]))
    engine.save(tmp_path)
    loaded = GeoTextTopK.load(tmp_path)
    assert repr(loaded) == repr(engine)
    more = messages("o", "p", time=at(60, 3), terms=[["unseen", "a"], ["b", "b", "a"]])
    assert loaded.publish(more).equals(engine.publish(more))
    assert loaded.results().equals(engine.results())


def test_engines_with_other_vocabularies_have_other_settings() -> None:
    headers = [
        plane(vocabulary=vocabulary).state()[0]["settings"]
        for vocabulary in (None, Vocabulary.fit({"terms": [["a"]]}), Vocabulary.fit({"terms": [["b"]]}))
    ]
    assert headers[0] != headers[1] != headers[2]


def test_a_snapshot_of_another_engine_is_refused(tmp_path: Path) -> None:
    plane().save(tmp_path)
    header, arrays = plane().state()
    with pytest.raises(SnapshotError):
        GeoTextTopK.restore(header, {**arrays, "window.time": np.zeros(1, np.int64)})
    with pytest.raises(SnapshotError):
        GeoTextTopK.load(tmp_path, vocabulary=Vocabulary.empty())


def test_terms_of_gone_messages_and_subscriptions_are_forgotten() -> None:
    engine = plane(window=1)
    for turn in range(50):
        engine.publish(messages(turn, terms=[[f"m{turn}"]]))
        engine.subscribe(messages(100 + turn, terms=[[f"s{turn}"]]))
        engine.amend({"id": [100 + turn], "terms": [[f"t{turn}"]]})
        engine.unsubscribe([100 + turn])
    header, arrays = engine.state()
    assert header["parts"]["term"]["count"] == 2
    assert arrays["term.code"].size <= 16


# Settings


@pytest.mark.parametrize(
    "bounds",
    [
        None,
        (),
        (0, 0, 1),
        (0, 0, 0, 0),
        (1, 0, 0, 1),
        (0, 1, 1, 0),
        (0, 0, math.inf, 1),
        (0, math.nan, 1, 1),
        "abcd",
        5,
        (0, 0, 1e200, 0),
    ],
)
def test_bounds_are_four_numbers_in_order(bounds: Any) -> None:
    with pytest.raises(SettingError, match="bounds"):
        GeoTextTopK(bounds=bounds)


def test_bounds_on_the_globe() -> None:
    with pytest.raises(SettingError, match="longitudes"):
        GeoTextTopK(metric="haversine", bounds=(-181, 0, 0, 1))


@pytest.mark.parametrize(
    "settings",
    [
        {"k": 0},
        {"alpha": 1.5},
        {"alpha": "half"},
        {"window": 0},
        {"window": timedelta(0)},
        {"window": 1.5},
        {"metric": "manhattan"},
        {"vocabulary": {"a": 1}},
        {"method": "magic"},
        {"refill": "magic"},
        {"extra": "keep"},
        {"tuning": {"cells": 4}},
    ],
    ids=str,
)
def test_wrong_settings_are_refused_at_once(settings: dict[str, Any]) -> None:
    with pytest.raises(SettingError, match=next(iter(settings))):
        GeoTextTopK(**{"bounds": (0, 0, 1, 1), **settings})


def test_prunings_are_named() -> None:
    with pytest.raises(SettingError, match="prune"):
        GeoTextTopK(bounds=(0, 0, 1, 1), tuning={"prune": ["everything"]})


# Half-life


def test_an_older_message_counts_half_as_much_after_a_half_life() -> None:
    engine = timed(alpha=0, half_life=timedelta(minutes=10))
    engine.publish(messages("old", "new", terms=[["a"], ["a", "b", "c"]], time=at(0, 10)))
    assert rows(engine.results()) == [(1, 1, "new", 1 / math.sqrt(3)), (1, 2, "old", 1.0)]
    told = engine.explain(1, "old")
    assert (told["score"], told["decayed_score"], told["rank"]) == (1.0, 0.5, 2)


def test_equal_decayed_scores_are_a_tie() -> None:
    engine = timed(alpha=1, half_life=timedelta(minutes=20))
    engine.publish(messages("half", "whole", x=[2, 0], y=[1.5, 0], time=at(20, 0)))
    assert items(engine) == ["half", "whole"]


def test_time_alone_changes_no_result() -> None:
    engine = timed(k=2, half_life=timedelta(minutes=1))
    engine.publish(messages("a", "b", "c", x=[1, 2, 3], time=at(3, 1, 0)))
    before = engine.results()
    assert engine.publish(messages("other", terms=[["z"]], time=at(55))).num_rows == 0
    assert engine.results().equals(before)


@pytest.mark.parametrize("method", ["igpt", "ciq", "scan"])
def test_gains_stay_numbers_over_thousands_of_half_lives(method: str, tmp_path: Path) -> None:
    engine = timed(k=2, method=method, half_life=timedelta(minutes=1))
    for step in range(40):
        minutes = 45 * step if step < 30 else 45 * 1000 * step
        engine.publish(messages(2 * step, 2 * step + 1, x=[1, 3], time=at(minutes, minutes + 1)))
        assert items(engine) == [2 * step + 1, 2 * step]
        engine.save(tmp_path / "saved")
        engine = GeoTextTopK.load(tmp_path / "saved")


@pytest.mark.parametrize(
    ("half_life", "window"), [(60, HOUR), (timedelta(0), HOUR), (HOUR, 100), (timedelta(seconds=1), HOUR)]
)
def test_a_half_life_that_makes_no_sense_is_refused(half_life: Any, window: Any) -> None:
    with pytest.raises(SettingError, match="half_life"):
        GeoTextTopK(bounds=(0, 0, 4, 3), window=window, half_life=half_life)
