"""The workloads of places: messages with words (geo-text), and objects, roads and cars (moving queries)."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

from rankcast.bench.workloads import batches, geotext, moving


def rng(seed: int = 3) -> np.random.Generator:
    return np.random.default_rng(seed)


@given(count=st.integers(0, 40), seed=st.integers(0, 99), mean=st.floats(1.0, 9.0))
def test_messages_lie_in_the_bounds_and_have_words(count: int, seed: int, mean: float) -> None:
    made = geotext.messages(count, rng(seed), words=20, mean_words=mean, first_id=7)
    assert made.column_names == ["id", "x", "y", "terms"]
    assert made["id"].to_pylist() == list(range(7, 7 + count))
    for row in made.to_pylist():
        assert 0.0 <= row["x"] <= 1.0
        assert 0.0 <= row["y"] <= 1.0
        assert row["terms"]
        assert set(row["terms"]) <= {f"w{n}" for n in range(20)}


def test_words_follow_zipf_and_places_crowd() -> None:
    made = geotext.messages(20_000, rng(), words=1_000)
    counted = {
        each["values"]: each["counts"] for each in pc.value_counts(pc.list_flatten(made["terms"])).to_pylist()
    }
    assert counted["w0"] / counted["w9"] == pytest.approx(10, rel=0.1)
    assert np.mean(pc.list_value_length(made["terms"]).to_numpy()) == pytest.approx(9.0, abs=0.1)
    cells = np.floor(made["x"].to_numpy() * 20) * 20 + np.floor(made["y"].to_numpy() * 20)
    crowd = np.sort(np.bincount(cells.astype(int), minlength=400))[::-1]
    assert crowd[:40].sum() > 0.5 * 20_000


@given(
    count=st.integers(0, 30),
    source=st.integers(1, 20),
    most=st.integers(1, 6),
    mean=st.floats(1.0, 5.0),
    seed=st.integers(0, 99),
)
def test_subscriptions_take_place_and_distinct_words_of_a_message(
    count: int, source: int, most: int, mean: float, seed: int
) -> None:
    messages = geotext.messages(source, rng(seed), words=6, mean_words=mean)
    made = geotext.subscriptions(messages, count, rng(seed), most_words=most)
    places = {(row["x"], row["y"]): set(row["terms"]) for row in messages.to_pylist()}
    assert made.num_rows == count
    for row in made.to_pylist():
        assert 1 <= len(row["terms"]) <= most
        assert len(set(row["terms"])) == len(row["terms"])
        assert set(row["terms"]) <= places[row["x"], row["y"]]
        assert 0.0 <= row["alpha"] <= 1.0


def test_numbers_of_words_and_alpha_are_uniform() -> None:
    made = geotext.subscriptions(geotext.messages(5_000, rng(), mean_words=30), 20_000, rng())
    lengths = np.bincount(pc.list_value_length(made["terms"]).to_numpy(), minlength=6)[1:]
    assert np.allclose(lengths / 20_000, 0.2, atol=0.02)
    assert np.allclose(np.histogram(made["alpha"], 4, (0, 1))[0] / 20_000, 0.25, atol=0.02)


def test_the_seed_decides_about_messages() -> None:
    def make(seed: int) -> list[Any]:
        g = rng(seed)
        messages = geotext.messages(30, g)
        return [*messages.to_pylist(), *geotext.subscriptions(messages, 30, g).to_pylist()]

    assert make(1) == make(1)
    assert make(1) != make(2)


def test_batches_cut_a_table() -> None:
    made = geotext.messages(5, rng())
    assert [batch["id"].to_pylist() for batch in batches(made, 2)] == [[0, 1], [2, 3], [4]]


@pytest.mark.parametrize("kind", ["unif", "norm", "corr", "anti"])
@given(count=st.integers(0, 40), width=st.integers(1, 5), seed=st.integers(0, 99))
def test_attributes_lie_between_0_and_1(kind: Any, count: int, width: int, seed: int) -> None:
    made = moving.attribute_values(count, width, rng(seed), kind)
    assert made.shape == (count, width)
    assert np.all((made >= 0.0) & (made <= 1.0))


@pytest.mark.parametrize(
    ("kind", "least", "most"),
    [("unif", -0.03, 0.03), ("norm", -0.03, 0.03), ("corr", 0.8, 1.0), ("anti", -1.0, -0.2)],
)
def test_attributes_correlate_as_named(kind: Any, least: float, most: float) -> None:
    found = np.asarray(np.corrcoef(moving.attribute_values(20_000, 3, rng(), kind).T))
    off = found[~np.eye(3, dtype=bool)]
    assert np.all((off > least) & (off < most))


def test_normal_attributes_gather_in_the_middle() -> None:
    made = moving.attribute_values(10_000, 1, rng(), "norm")
    assert np.mean(np.abs(made - 0.5) < 0.15) == pytest.approx(0.68, abs=0.02)


@pytest.mark.parametrize("places", ["uniform", "clustered"])
def test_objects_lie_in_the_universe(places: Any) -> None:
    made = moving.objects(2_000, 2, rng(), places=places, universe=100.0)
    assert list(made) == ["id", "x", "y", "a0", "a1"]
    assert np.all((made["x"] >= 0.0) & (made["x"] <= 100.0))
    counts = np.histogram2d(made["x"], made["y"], 10, [[0, 100], [0, 100]])[0]
    assert (counts.std() > 12.0) == (places == "clustered")


@given(side=st.integers(2, 8), seed=st.integers(0, 99))
def test_roads_are_connected_and_go_both_ways(side: int, seed: int) -> None:
    graph = moving.roads(side, rng(seed))
    start = np.repeat(np.arange(side * side), np.diff(graph.begin))
    pairs = set(zip(start.tolist(), graph.ways.tolist(), strict=True))
    assert len(pairs) == len(graph.ways)
    assert pairs == {(b, a) for a, b in pairs}
    reached, fresh = {0}, {0}
    while fresh:
        fresh = {b for a, b in pairs if a in fresh} - reached
        reached |= fresh
    assert len(reached) == side * side


def distance_to_roads(graph: moving.Roads, x: float, y: float) -> float:
    """Give the distance from a place to the nearest road."""
    start = np.repeat(np.arange(len(graph.x)), np.diff(graph.begin))
    ax, ay, bx, by = graph.x[start], graph.y[start], graph.x[graph.ways], graph.y[graph.ways]
    along = ((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / ((bx - ax) ** 2 + (by - ay) ** 2)
    along = np.clip(along, 0.0, 1.0)
    return float(np.hypot(ax + along * (bx - ax) - x, ay + along * (by - ay) - y).min())


@given(
    cars=st.integers(1, 5),
    seconds=st.integers(1, 20),
    seed=st.integers(0, 99),
    universe=st.floats(200.0, 1e6),
)
def test_cars_stay_on_roads(cars: int, seconds: int, seed: int, universe: float) -> None:
    graph = moving.roads(4, rng(seed), universe=universe)
    made = moving.tracks(graph, cars, seconds, rng(seed), speed=60.0)
    assert made["id"].tolist() == list(range(cars)) * seconds
    off = [distance_to_roads(graph, x, y) for x, y in zip(made["x"], made["y"], strict=True)]
    assert max(off) <= 1e-9 * universe


def test_cars_keep_their_speed_and_do_not_turn_back() -> None:
    graph = moving.roads(10, rng(), universe=100_000.0)
    made = moving.tracks(graph, 200, 120, rng(), speed=90.0)
    x, y = made["x"].reshape(120, 200), made["y"].reshape(120, 200)
    steps = np.hypot(np.diff(x, axis=0), np.diff(y, axis=0))
    assert np.median(steps) == pytest.approx(25.0, rel=0.03)
    assert steps.max() <= 25.0 * 1.5
    away = np.hypot(x[-1] - x[0], y[-1] - y[0])
    assert np.median(away) > 1_000.0


def test_the_seed_decides_about_cars() -> None:
    def make(seed: int) -> np.ndarray:
        g = rng(seed)
        return moving.tracks(moving.roads(5, g), 5, 30, g)["x"]

    assert np.array_equal(make(1), make(1))
    assert not np.array_equal(make(1), make(2))


def test_what_is_unknown_or_impossible_is_refused() -> None:
    with pytest.raises(ValueError, match="unknown kind of attributes"):
        moving.objects(3, 2, rng(), "odd")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="unknown kind of places"):
        moving.objects(3, 2, rng(), places="odd")  # type: ignore[arg-type]
    with pytest.raises(ValueError, match="has no road"):
        moving.roads(1, rng())
