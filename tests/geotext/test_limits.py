"""What a subscription can say beyond its place and terms."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from rankcast import GeoTextTopK, InputError, SettingError
from rankcast.geotext.buffers import REFILLS
from tests.geotext.test_engine import at, changes, items, messages

WAYS = [*(("igpt", refill) for refill in REFILLS), ("ciq", "kmax"), ("scan", "none")]
every_way = pytest.mark.parametrize(("method", "refill"), WAYS)
FOUR: dict[str, list[Any]] = {"x": [0, 1, 2, 3], "terms": [["a"], ["a", "b"], ["a", "c"], ["a", "b", "c"]]}


def limited(**columns: list[Any]) -> GeoTextTopK:
    """A subscription to "a" at the origin with a limit, and four messages ever farther away."""
    engine = GeoTextTopK(bounds=(0, 0, 4, 3))
    engine.subscribe(messages(1, **columns))
    engine.publish(messages("m0", "m1", "m2", "m3", **FOUR))
    return engine


@pytest.mark.parametrize(
    ("limit", "found"),
    [
        ({}, ["m0", "m1", "m2", "m3"]),
        ({"radius": [1.0]}, ["m0", "m1"]),
        ({"radius": [0]}, ["m0"]),
        ({"radius": [None]}, ["m0", "m1", "m2", "m3"]),
        ({"min_score": [0.7]}, ["m0", "m1"]),
        ({"must": [["b"]]}, ["m1", "m3"]),
        ({"must": [["b", "c"]]}, ["m3"]),
        ({"must": [["nowhere"]]}, []),
        ({"must_not": [["b"]]}, ["m0", "m2"]),
        ({"must": [["b"]], "must_not": [["c"]]}, ["m1"]),
        ({"must": [[]], "must_not": [None], "min_score": [None]}, ["m0", "m1", "m2", "m3"]),
    ],
)
def test_a_limit_keeps_messages_out(limit: dict[str, list[Any]], found: list[str]) -> None:
    assert items(limited(**limit)) == found


def test_limits_are_amended_alone() -> None:
    engine = limited(radius=[1], must=[["b"]])
    assert changes(engine.amend({"id": [1], "radius": [2]})) == []
    assert changes(engine.amend({"id": [1], "must": [None]})) == [(1, "enter", "m0"), (1, "enter", "m2")]
    assert changes(engine.amend({"id": [1], "must_not": [["c"]]})) == [(1, "leave", "m2")]
    assert changes(engine.amend({"id": [1], "radius": [None]})) == []
    engine.unsubscribe([1])
    engine.subscribe(messages(2))
    assert len(items(engine)) == 4


def test_nothing_older_than_since() -> None:
    engine = GeoTextTopK(bounds=(0, 0, 4, 3), window=at(60)[0] - at(0)[0])
    engine.publish(messages("a", "b", time=at(0, 10)))
    engine.subscribe(messages(1, since=at(10)))
    assert items(engine) == ["b"]
    engine.publish(messages("late", time=at(5)))
    assert items(engine) == ["b"]
    with pytest.raises(InputError, match='unknown column "since"'):
        limited(since=at(0))


def test_a_radius_is_not_below_0() -> None:
    with pytest.raises(InputError, match=r'column "radius" of "subscriptions" is -1(.|\n)*row: 0'):
        limited(radius=[-1])


def test_explain_names_the_limits_that_are_failed() -> None:
    engine = limited(radius=[1], must=[["b"]])
    assert engine.explain(1, "m2")["reason"] == "fails radius and must"
    assert engine.explain(1, "m2")["fails"] == ["radius", "must"]
    assert engine.explain(1, "m1")["in_result"]


@every_way
def test_a_place_without_words_lists_the_nearest(method: str, refill: str) -> None:
    engine = GeoTextTopK(bounds=(0, 0, 4, 3), k=2, place_only=True, method=method, refill=refill, alpha=0.1)
    engine.subscribe(messages(1, 2, 3, terms=[None, [], ["z"]], x=[0, 4, 0]))
    engine.publish(messages("a", "b", "c", "d", x=[0, 4, 2, 0], terms=[["q"], [], ["z"], ["r", "z"]]))
    assert items(engine, 1) == ["d", "a"]
    assert items(engine, 2) == ["b", "c"]
    assert items(engine, 3) == ["d", "c"] or items(engine, 3) == ["c", "d"]
    assert engine.results([1])["score"].to_pylist() == [1.0, 1.0]
    assert engine.explain(1, "a")["common_terms"] == []
    assert changes(engine.amend({"id": [1], "terms": [["q"]]})) == [(1, "leave", "d")]


def test_no_words_need_the_setting() -> None:
    with pytest.raises(InputError, match='"terms"'):
        limited(terms=[None])
    with pytest.raises(SettingError, match="place_only"):
        GeoTextTopK(bounds=(0, 0, 4, 3), place_only="yes")  # type: ignore[arg-type]


@every_way
@pytest.mark.parametrize("metric", ["euclidean", "haversine"])
def test_a_long_stream_of_limits(method: str, refill: str, metric: str) -> None:
    """All lists against those of a scan, for subscriptions with all kinds of limits."""
    rng = np.random.default_rng(3)
    settings: dict[str, Any] = {
        "bounds": (0, 0, 4, 3),
        "k": 3,
        "window": 60,
        "place_only": True,
        "metric": metric,
    }
    engine = GeoTextTopK(**settings, method=method, refill=refill)
    plain = GeoTextTopK(**settings, method="scan", refill="none")
    unit = 1.0 if metric == "euclidean" else 111_000.0
    words = np.array(["a", "b", "c", "d"])

    def some(most: int) -> list[str]:
        chosen: list[str] = rng.choice(words, rng.integers(0, most + 1), replace=False).tolist()
        return chosen

    def rows(first: int, size: int) -> dict[str, Any]:
        return {
            "id": list(range(first, first + size)),
            "x": rng.uniform(0, 4, size).round(1),
            "y": rng.uniform(0, 3, size).round(1),
            "terms": [some(3) for _ in range(size)],
        }

    wanted = rows(0, 80)
    wanted["radius"] = [None if rng.random() < 0.3 else unit * rng.choice([0, 0.5, 1, 3]) for _ in range(80)]
    wanted["min_score"] = [None if rng.random() < 0.5 else rng.choice([0.3, 0.6, 0.8]) for _ in range(80)]
    wanted["must"] = [some(1) for _ in range(80)]
    wanted["must_not"] = [some(1) for _ in range(80)]
    for each in (engine, plain):
        each.subscribe(wanted)
    for step in range(25):
        batch = rows(12 * step, 12)
        answers = [each.publish(batch) for each in (engine, plain)]
        assert answers[0].equals(answers[1])
        again = {"id": [step], "radius": [unit * rng.choice([0.5, 2])], "must_not": [some(1)]}
        answers = [each.amend(again) for each in (engine, plain)]
        assert answers[0].equals(answers[1])
        assert engine.results().equals(plain.results())


@every_way
def test_the_first_limit_of_one_among_many(method: str, refill: str) -> None:
    """Those without limits have higher rows than the first one that gets any."""
    rng = np.random.default_rng(5)

    def rows(first: int, size: int) -> dict[str, Any]:
        words = [list(map(str, rng.choice(["a", "b", "c"], 2))) for _ in range(size)]
        return {
            "id": range(first, first + size),
            **{name: rng.uniform(0, 3, size) for name in "xy"},
            "terms": words,
        }

    engine = GeoTextTopK(bounds=(0, 0, 3, 3), k=3, window=50, method=method, refill=refill)
    scan = GeoTextTopK(bounds=(0, 0, 3, 3), k=3, window=50, method="scan", refill="none")
    subscriptions, former, later = rows(0, 400), rows(0, 30), rows(30, 40)
    for each in (engine, scan):
        each.subscribe(subscriptions)
        each.publish(former)
        each.amend({"id": [3, 4], "radius": [0.5, None], "must": [["a"], None]})
        each.publish(later)
        each.subscribe(rows(400, 1) | {"x": [1.0], "y": [1.0], "terms": [["a"]]})
    assert engine.results().equals(scan.results())
